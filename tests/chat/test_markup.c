/* tests/chat/test_markup.c -- parsing answers: reasoning and tool calls of every family, in pieces
 * of every size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "weft/chat.h"
#include "weft/memory.h"

/* What a parse gave, as one line: text as it is, (reasoning), [name arguments id], and . at its
 * end. */
typedef struct record {
    char text[4096];
    weft_chat_event_kind last;
    int events, stop_after;
} record;

static void put(record *r, const char *text)
{
    const size_t n = strlen(r->text);
    snprintf(r->text + n, sizeof r->text - n, "%s", text);
}

static bool note(void *context, const weft_chat_event *event)
{
    record *r = context;
    const bool was_reasoning = r->last == WEFT_CHAT_REASONING;
    if (event->kind == WEFT_CHAT_REASONING && !was_reasoning)
        put(r, "(");
    if (event->kind != WEFT_CHAT_REASONING && was_reasoning)
        put(r, ")");
    if (event->kind == WEFT_CHAT_TOOL_CALL) {
        put(r, "[");
        put(r, event->name);
        put(r, " ");
        put(r, event->arguments);
        put(r, event->id ? event->id : "");
        put(r, "]");
    } else {
        put(r, event->kind == WEFT_CHAT_DONE ? "." : event->text);
    }
    r->last = event->kind;
    return ++r->events != r->stop_after;
}

static void parse(const weft_chat_markup *markup, const char *answer, size_t piece, record *r,
                  char **message)
{
    weft_chat_parser *parser = NULL;
    const size_t n = strlen(answer);
    *r = (record){.last = WEFT_CHAT_TEXT};
    if (!CHECK_OK(weft_chat_parser_new(markup, note, r, &parser)))
        return;
    for (size_t i = 0; i < n; i += piece)
        CHECK_OK(weft_chat_parser_push(parser, answer + i, n - i < piece ? n - i : piece));
    CHECK_OK(weft_chat_parser_finish(parser));
    if (message)
        CHECK_OK(weft_chat_parser_message(parser, message));
    weft_chat_parser_free(parser);
}

/* The same events whatever the pieces. */
static void expect(const weft_chat_markup *markup, const char *answer, const char *expected)
{
    static const size_t pieces[] = {1, 2, 3, 5, 7, 1000};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        record r;
        parse(markup, answer, pieces[i], &r, NULL);
        CHECK_STR(r.text, expected);
    }
}

static const weft_chat_markup hermes = {
    .think_open = "<think>", .think_close = "</think>", .tools = WEFT_TOOLS_HERMES};

static void reasoning_is_split_from_the_answer(void)
{
    weft_chat_markup open = hermes;
    open.thinking = true;
    expect(&hermes, "<think>\nI think.\n\nYes.\n</think>\n\nSo.\n", "(I think.\n\nYes.)So.\n.");
    expect(&hermes, "<think>\n\n</think>\n\nSo", "So.");
    expect(&open, "I think.</think>So", "(I think.)So.");
    expect(&open, "never closed <", "(never closed <).");
    expect(&hermes, "a < b <thin", "a < b <thin.");
    expect(&hermes, "caf\xc3\xa9 \xe6\xbc\xa2\xe5\xad\x97 <think>\xf0\x9f\x8e\x89</think>\xc3\xa9",
           "caf\xc3\xa9 \xe6\xbc\xa2\xe5\xad\x97 (\xf0\x9f\x8e\x89)\xc3\xa9.");
    const weft_chat_markup gemma = {.think_open = "<|channel>", .think_close = "<channel|>"};
    expect(&gemma, "<|channel>thought\nHm.\n<channel|>Yes", "(Hm.)Yes.");
    expect(&gemma, "<|channel>thought\n<channel|>Yes", "Yes.");
    const weft_chat_markup none = {0};
    expect(&none, "<think>a</think><tool_call>", "<think>a</think><tool_call>.");
}

static void hermes_calls(void)
{
    expect(&hermes, "Hi <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call> done",
           "Hi [f {\"a\":1}] done.");
    expect(&hermes,
           "<think>x</think>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": "
           "\"</tool_call>\\n\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": "
           "\"{\\\"b\\\": [1.50]}\"}\n</tool_call>",
           "(x)[f {\"s\":\"</tool_call>\\n\"}][g {\"b\":[1.50]}].");
    expect(&hermes,
           "<tool_call>\n<function=f>\n<parameter=a>\n12\n</parameter>\n<parameter=t>\ntwo\nlines\n"
           "</parameter>\n</function>\n</tool_call>",
           "[f {\"a\":12,\"t\":\"two\\nlines\"}].");
}

/* GLM 4.5 has lines, 4.7 has not. */
static void calls_of_keys_and_values(void)
{
    expect(&hermes,
           "<think>x</think>\n<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>12</arg_value>\n"
           "<arg_key>t</arg_key>\n<arg_value>two\nlines </arg_value>\n</tool_call>",
           "(x)[f {\"a\":12,\"t\":\"two\\nlines \"}].");
    expect(&hermes,
           "Hi<tool_call>files.read<arg_key>o</arg_key><arg_value>{\"b\": [1.50]}</arg_value>"
           "<arg_key>n</arg_key><arg_value>null</arg_value></tool_call><tool_call>g</tool_call>",
           "Hi[files.read {\"o\":{\"b\":[1.50]},\"n\":null}][g {}].");
    expect(&hermes, "<tool_call>f<arg_key>a</arg_key></tool_call>",
           "<tool_call>f<arg_key>a</arg_key></tool_call>.");
    expect(&hermes, "<tool_call>two words<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
           "<tool_call>two words<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>.");
    expect(&hermes, "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value>x</tool_call>",
           "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value>x</tool_call>.");
}

static void calls_that_are_malformed_are_text(void)
{
    expect(&hermes, "a<tool_call>{\"name\": }</tool_call>b",
           "a<tool_call>{\"name\": }</tool_call>b.");
    expect(&hermes, "<tool_call>{\"name\": \"f\", \"argu", "<tool_call>{\"name\": \"f\", \"argu.");
    expect(&hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {}}", "[f {}].");
    expect(&hermes, "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
           "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>.");
    expect(&hermes, "<tool_ca", "<tool_ca.");
    expect(&hermes, "<tool_call>", "<tool_call>.");
}

/* Arguments keep the digits of integers beyond 64 bits. */
static void large_integers_in_calls(void)
{
    const weft_chat_markup gemma4 = {.tools = WEFT_TOOLS_GEMMA4};
    expect(&hermes,
           "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 18446744073709551615, \"b\": "
           "[-123456789012345678901234567890]}}</tool_call>",
           "[f {\"a\":18446744073709551615,\"b\":[-123456789012345678901234567890]}].");
    expect(&hermes,
           "<tool_call>\n<function=f>\n<parameter=a>\n9223372036854775808\n</parameter>\n"
           "</function>\n</tool_call>",
           "[f {\"a\":9223372036854775808}].");
    expect(&gemma4, "<|tool_call>call:f{a:-9223372036854775809}<tool_call|>",
           "[f {\"a\":-9223372036854775809}].");
}

static void llama_calls(void)
{
    const weft_chat_markup llama = {.tools = WEFT_TOOLS_LLAMA};
    expect(&llama, "{\"name\": \"f\", \"parameters\": {\"x\": \"}\"}}", "[f {\"x\":\"}\"}].");
    expect(&llama, " {\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}",
           "[f {}][g {}].");
    expect(&llama, "{\"just\": \"JSON\"} ok", "{\"just\": \"JSON\"} ok.");
    expect(&llama, "Say {\"name\": \"f\", \"parameters\": {}}",
           "Say {\"name\": \"f\", \"parameters\": {}}.");
    expect(&llama, "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": null}}",
           "[f {\"a\":null}].");
    expect(&llama, "<|python_tag|>brave_search.call(query=\"a, b\", n=3)",
           "[brave_search {\"query\":\"a, b\",\"n\":3}].");
    expect(&llama, "<|python_tag|>print(1)\nx", "[python {\"code\":\"print(1)\\nx\"}].");
}

/* Values as Python writes them, and as JSON. */
static void lists_of_calls(void)
{
    const weft_chat_markup list = {.tools = WEFT_TOOLS_PYTHON};
#define CALLS(BODY) "<|tool_call_start|>" BODY "<|tool_call_end|>"
    expect(&list, "a\n" CALLS("[f(a=\"x\", n=-1.5e3), g.h()]") "b",
           "a[f {\"a\":\"x\",\"n\":-1.5e3}][g.h {}]b.");
    expect(&list,
           CALLS("[f(a='it\\'s \"so\"', b=[1, [None, True,], ()], c={'k': False, \"l\": 2})]"),
           "[f {\"a\":\"it's \\\"so\\\"\",\"b\":[1,[null,true],[]],\"c\":{\"k\":false,\"l\":2}}].");
    expect(&list, CALLS("[f(a='''x\n'y''', b=\"\\n\\u00e9\\x41\\q]\", c=\"\")]"),
           "[f {\"a\":\"x\\n'y\",\"b\":\"\\n\u00e9A\\\\q]\",\"c\":\"\"}].");
    expect(&list, CALLS(" [ f ( a = null , b = 36893488147419103232 , ) ] "),
           "[f {\"a\":null,\"b\":36893488147419103232}].");
    expect(&list, CALLS("[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]"), "[f {\"a\":1}].");
    expect(&list, CALLS("[f()]") "\n" CALLS("[g()]"), "[f {}][g {}].");
    expect(&list, CALLS("[f(a=(5), b=(5,), c=(None), d={1: 2}, e=[.5, -1., 1_000])]"),
           "[f {\"a\":5,\"b\":[5],\"c\":null,\"d\":{\"1\":2},\"e\":[0.5,-1.0,1000]}].");
    expect(&list, CALLS("[f(a='\\101\\0121\\0', b=\"it's <|tool_call_end|>\")]"),
           "[f {\"a\":\"A\\n1\\u0000\",\"b\":\"it's <|tool_call_end|>\"}].");
    static const char *const malformed[] = {
        CALLS("[]"),
        CALLS("f()"),
        CALLS("[f(1)]"),
        CALLS("[f(a=1]"),
        CALLS("[f(a=x)]"),
        CALLS("[f(a=\"x)]"),
        CALLS("[f(a='\\ud800')]"),
        CALLS("[f(a=1 b=2)]"),
        CALLS("[f() g()]"),
        CALLS("[f()]x"),
        CALLS("[f(a={1.5: 2})]"),
        CALLS("[f(a=1__0)]"),
        CALLS("[f(a=.)]"),
        CALLS("[f(a=01)]"),
        CALLS("[f(=1)]"),
        CALLS("[()]"),
        CALLS("[f(a=[1)]"),
        "<|tool_call_start|>[f(",
    };
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        char text[128];
        snprintf(text, sizeof text, "%s.", malformed[i]);
        expect(&list, malformed[i], text);
    }
    char deep[512], brackets[2][71], text[520];
    memset(brackets[0], '[', sizeof brackets[0] - 1);
    memset(brackets[1], ']', sizeof brackets[1] - 1);
    brackets[0][70] = brackets[1][70] = '\0';
    snprintf(deep, sizeof deep, CALLS("[f(a=%s%s)]"), brackets[0], brackets[1]);
    snprintf(text, sizeof text, "%s.", deep);
    expect(&list, deep, text);
#undef CALLS
    static const char source[] = "{{ 'List of tools: [' + tools | tojson + ']' }}";
    weft_chat *chat;
    if (CHECK_OK(weft_chat_parse(source, strlen(source), "t", NULL, &chat)))
        CHECK_EQ_INT(weft_chat_markup_of(chat, NULL, true).tools, WEFT_TOOLS_PYTHON);
    weft_chat_free(chat);
}

static void mistral_calls(void)
{
    const weft_chat_markup mistral = {.tools = WEFT_TOOLS_MISTRAL};
    expect(&mistral,
           "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": \"]\"}, \"id\": \"abc123def\"}, "
           "{\"name\": \"g\", \"arguments\": {}}]",
           "[f {\"a\":\"]\"}abc123def][g {}].");
    expect(&mistral, "ok[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]id9[ARGS]{}",
           "ok[f {\"a\":1}][g {}id9].");
    expect(&mistral, "[TOOL_CALLS]f[ARGS]{\"a\": ", "[TOOL_CALLS]f[ARGS]{\"a\": .");
    expect(&mistral, "a [TOOL x", "a [TOOL x.");
}

static void gemma4_calls(void)
{
    const weft_chat_markup gemma = {
        .think_open = "<|channel>", .think_close = "<channel|>", .tools = WEFT_TOOLS_GEMMA4};
    expect(&gemma,
           "<|channel>thought\nlook\n<channel|><|tool_call>call:get_weather{city:<|\"|>K\"ln, "
           "{x:1}<|\"|>,n:1.5,ok:true,l:[<|\"|>a<|\"|>,2],d:{e:null}}<tool_call|>",
           "(look)[get_weather {\"city\":\"K\\\"ln, "
           "{x:1}\",\"n\":1.5,\"ok\":true,\"l\":[\"a\",2],\"d\":{\"e\":null}}].");
    expect(&gemma, "<|tool_call>call:f{}<tool_call|><|tool_call>call:g{a:-1}<tool_call|>",
           "[f {}][g {\"a\":-1}].");
    expect(&gemma, "<|tool_call>nonsense<tool_call|>x", "<|tool_call>nonsense<tool_call|>x.");
}

static void function_and_custom_calls(void)
{
    const weft_chat_markup functions = {.tools = WEFT_TOOLS_FUNCTION};
    expect(&functions,
           "See: <function name=\"f\"><param name=\"a\">12</param><param name=\"b\"><![CDATA[<x> & "
           "</param>]]></param></function>",
           "See: [f {\"a\":12,\"b\":\"<x> & </param>\"}].");
    expect(&functions,
           "<function name=\"f\"><param name=\"code\"><![CDATA[a]] > </function>\n"
           "<function name=\"g\">]]></param></function>\n<function name=\"g\"></function>!",
           "[f {\"code\":\"a]] > </function>\\n<function name=\\\"g\\\">\"}][g {}]!.");
    expect(&functions, "<function name=\"f\"><param name=\"a\"><![CDATA[</function>",
           "<function name=\"f\"><param name=\"a\"><![CDATA[</function>.");
    expect(&functions, "a < b <function <fun", "a < b <function <fun.");
    const weft_chat_markup custom = {
        .tools = WEFT_TOOLS_CUSTOM, .tool_open = "<<", .tool_close = ">>"};
    expect(&custom, "a <<{\"name\": \"f\", \"parameters\": {}}>> b < c", "a [f {}] b < c.");
    weft_chat_parser *parser = NULL;
    CHECK_STATUS(
        weft_chat_parser_new(&(weft_chat_markup){.tools = WEFT_TOOLS_CUSTOM}, NULL, NULL, &parser),
        WEFT_INVALID);
    CHECK(parser == NULL);
}

static void the_message_has_the_parsed_parts(void)
{
    record r;
    char *message = NULL;
    parse(
        &hermes,
        "<think>\nhm\n</think>\n\nLet \"me\".\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n"
        "</tool_call>",
        4, &r, &message);
    CHECK_STR(message, "{\"role\": \"assistant\", \"content\": \"Let \\\"me\\\".\", "
                       "\"reasoning_content\": \"hm\", \"tool_calls\": [{\"type\": \"function\", "
                       "\"function\": {\"name\": \"f\", \"arguments\": {}}}]}");
    weft_free(message);
}

static void a_callback_can_stop(void)
{
    weft_chat_parser *parser = NULL;
    record r = {.stop_after = 1};
    if (!CHECK_OK(weft_chat_parser_new(&hermes, note, &r, &parser)))
        return;
    CHECK_STATUS(weft_chat_parser_push(parser, "a", 1), WEFT_CANCELLED);
    CHECK_STATUS(weft_chat_parser_push(parser, "b", 1), WEFT_CANCELLED);
    CHECK_STATUS(weft_chat_parser_finish(parser), WEFT_CANCELLED);
    CHECK_EQ_INT(r.events, 1);
    weft_chat_parser_free(parser);
}

CHECK_MAIN("markup", CHECK_CASE(reasoning_is_split_from_the_answer), CHECK_CASE(hermes_calls),
           CHECK_CASE(calls_of_keys_and_values), CHECK_CASE(calls_that_are_malformed_are_text),
           CHECK_CASE(large_integers_in_calls), CHECK_CASE(llama_calls), CHECK_CASE(lists_of_calls),
           CHECK_CASE(mistral_calls), CHECK_CASE(gemma4_calls),
           CHECK_CASE(function_and_custom_calls), CHECK_CASE(the_message_has_the_parsed_parts),
           CHECK_CASE(a_callback_can_stop))
