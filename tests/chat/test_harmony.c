/* tests/chat/test_harmony.c -- answers of gpt-oss: channels, calls, messages that are cut off, each
 * in two pieces at every byte and byte by byte. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "text/chat/marks.h"
#include "weft/chat.h"
#include "weft/memory.h"

static const weft_chat_markup markup = {.think_open = "<|channel|>analysis<|message|>",
                                        .think_close = "<|end|>",
                                        .tools = WEFT_TOOLS_HARMONY};

/* The message of an answer that is pushed in pieces of `size` bytes, of which the first has
 * `first`. */
static char *parsed(const weft_chat_markup *m, const char *text, size_t first, size_t size)
{
    weft_chat_parser *p;
    char *json = NULL;
    const size_t n = strlen(text);
    if (!CHECK_OK(weft_chat_parser_new(m, NULL, NULL, &p)))
        return NULL;
    for (size_t at = 0, piece = first; at < n; at += piece, piece = size) {
        piece = piece < n - at ? piece : n - at;
        CHECK_OK(weft_chat_parser_push(p, text + at, piece));
    }
    CHECK_OK(weft_chat_parser_finish(p));
    CHECK_OK(weft_chat_parser_message(p, &json));
    weft_chat_parser_free(p);
    return json;
}

static void expect(const weft_chat_markup *m, const char *text, const char *expected)
{
    for (size_t first = 1; first <= strlen(text); first++) {
        char *json = parsed(m, text, first, strlen(text));
        CHECK_STR(json, expected);
        weft_free(json);
    }
    char *json = parsed(m, text, 1, 1);
    CHECK_STR(json, expected);
    weft_free(json);
}

#define MESSAGE(content) "{\"role\": \"assistant\", \"content\": \"" content "\""
#define CALL(name, arguments)                                                                      \
    "{\"type\": \"function\", \"function\": {\"name\": \"" name "\", \"arguments\": " arguments "}}"

static void channels_are_reasoning_and_text(void)
{
    expect(&markup,
           "<|channel|>analysis<|message|>I <think>\n\n caf\xc3\xa9<|end|><|start|>assistant"
           "<|channel|>final<|message|>Two\n\nlines <|en<|return|>",
           MESSAGE("Two\\u000a\\u000alines <|en") ", \"reasoning_content\": \"I "
                                                  "<think>\\u000a\\u000a caf\xc3\xa9\"}");
    /* Several messages; the last one lacks its mark, which ends the generation */
    expect(
        &markup,
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary<|message|>"
        "b<|end|><|start|>assistant<|channel|>analysis<|message|>c<|end|><|start|>assistant"
        "<|channel|>final<|message|>d",
        MESSAGE("bd") ", \"reasoning_content\": \"ac\"}");
    /* Without headers, and with one that has no channel */
    expect(&markup, "plain <b> text", MESSAGE("plain <b> text") "}");
    expect(&markup, "<|message|>text", MESSAGE("text") "}");
    expect(&markup, "<|channel|>ana", MESSAGE("") "}");
    expect(&markup, "", MESSAGE("") "}");
}

static void reasoning_may_be_open(void)
{
    weft_chat_markup open = markup;
    open.thinking = true;
    expect(&open, "a<|end|><|start|>assistant<|channel|>final<|message|>b",
           MESSAGE("b") ", \"reasoning_content\": \"a\"}");
}

static void calls_are_parsed(void)
{
    static const char *const headers[] = {
        " to=functions.get<|channel|>commentary json<|message|>",
        "<|channel|>commentary to=functions.get <|constrain|>json<|message|>",
        "<|start|>assistant<|channel|>commentary to=functions.get<|message|>"};
    char text[512];
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        for (int cut = 0; cut < 2; cut++) { /* the mark ends the generation */
            snprintf(text, sizeof text, "%s{\"s\": \"<|end} \\\"\", \"n\": [1]}%s", headers[i],
                     cut ? "" : "<|call|>");
            expect(&markup, text,
                   MESSAGE("") ", \"tool_calls\": [" CALL(
                       "get", "{\"s\":\"<|end} \\\"\",\"n\":[1]}") "]}");
        }
    }
    expect(&markup,
           "<|channel|>analysis<|message|>a<|end|><|start|>assistant to=python<|channel|>commentary"
           "<|message|>{}<|call|><|start|>assistant to=functions.g<|channel|>commentary<|message|>"
           "{\"x\":1} <|call|>",
           MESSAGE("") ", \"reasoning_content\": \"a\", \"tool_calls\": [" CALL(
               "python", "{}") ", " CALL("g", "{\"x\":1}") "]}");
}

/* Malformed calls, and calls without tools, are text. */
static void other_calls_are_text(void)
{
    weft_chat_markup none = markup;
    none.tools = WEFT_TOOLS_NONE;
    expect(&markup, " to=functions.f<|channel|>commentary<|message|>{\"a\": <|call|>",
           MESSAGE(" to=functions.f<|channel|>commentary<|message|>{\\\"a\\\": <|call|>") "}");
    expect(&markup, " to=functions.f<|message|>[1]", MESSAGE(" to=functions.f<|message|>[1]") "}");
    expect(&none, " to=functions.f<|message|>{}<|call|>",
           MESSAGE(" to=functions.f<|message|>{}<|call|>") "}");
}

static void marks_are_shown_to_the_parser(void)
{
    static const char *const marks[] = {"<|channel|>", "<|message|>", "<|start|>",    "<|end|>",
                                        "<|call|>",    "<|return|>",  "<|constrain|>"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        CHECK(weft__chat_is_mark(&markup, marks[i]));
    CHECK(!weft__chat_is_mark(&markup, "<|endoftext|>"));
}

/* By the template; other templates have <|end|> too. */
static void templates_are_recognized(void)
{
    static const char *const sources[] = {
        "{{ '<|start|>assistant<|channel|>final<|message|>' }}{{ tools }}",
        "{{ '<|assistant|>' }}<|end|>"};
    for (int i = 0; i < 2; i++) {
        weft_chat *chat;
        if (!CHECK_OK(weft_chat_parse(sources[i], strlen(sources[i]), "t", NULL, &chat)))
            continue;
        weft_chat_markup m = weft_chat_markup_of(chat, NULL, true);
        CHECK_EQ_INT(m.tools, i == 0 ? WEFT_TOOLS_HARMONY : WEFT_TOOLS_NONE);
        CHECK_EQ_INT(weft__chat_is_harmony(&m), i == 0);
        m = weft_chat_markup_of(chat, "<|start|>assistant<|channel|>analysis<|message|>", false);
        CHECK_EQ_INT(m.tools, WEFT_TOOLS_NONE);
        CHECK_EQ_INT(m.thinking, i == 0);
        weft_chat_free(chat);
    }
}

CHECK_MAIN("harmony", CHECK_CASE(channels_are_reasoning_and_text),
           CHECK_CASE(reasoning_may_be_open), CHECK_CASE(calls_are_parsed),
           CHECK_CASE(other_calls_are_text), CHECK_CASE(marks_are_shown_to_the_parser),
           CHECK_CASE(templates_are_recognized))
