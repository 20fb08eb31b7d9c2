/* tests/session/test_session.c -- weft/session.h with scripted answers: events, reasoning, tools,
 * structured answers, the conversation; and with a model. */
#include "weft/session.h"

#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "tests/check.h"
#include "weft/memory.h"

/* ---- a script instead of a model ------------------------------------------------------------ */

typedef struct script {
    const char *answers[8]; /* one after the other */
    int at;
    size_t piece; /* bytes per token; 0: 3 */
    char prompts[8][4096];
    weft_status fails; /* instead of an answer */
} script;

static weft_status play(void *context, const weft_session_request *request,
                        weft_generate_fn *callback, void *callback_context,
                        weft_generate_stats *stats)
{
    script *s = context;
    if (s->fails)
        return weft_fail(s->fails, "the script fails");
    const char *answer = s->answers[s->at];
    const size_t n = strlen(answer), piece = s->piece > 0 ? s->piece : 3;
    snprintf(s->prompts[s->at++], sizeof s->prompts[0], "%s", request->prompt);
    for (size_t i = 0; i < n; i += piece) {
        char text[64];
        const size_t size = n - i < piece ? n - i : piece;
        snprintf(text, sizeof text, "%.*s", (int)size, answer + i);
        stats->tokens++;
        if (!callback(callback_context, &(weft_generated){.id = -1, .text = text, .length = size}))
            break;
    }
    return WEFT_OK;
}

/* ---- events as one line --------------------------------------------------------------------- */

typedef struct record {
    char line[8192];
    weft_session_event_kind last;
    int events, stop_after;
} record;

static void put(record *r, const char *format, const char *text)
{
    const size_t n = strlen(r->line);
    snprintf(r->line + n, sizeof r->line - n, format, text ? text : "");
}

/* Text as it is, (reasoning), [name arguments id], <result>, {structured}, and . at the end. */
static bool note(void *context, const weft_session_event *e)
{
    record *r = context;
    if (r->last == WEFT_SESSION_REASONING && e->kind != WEFT_SESSION_REASONING)
        put(r, "%s", ")");
    switch (e->kind) {
    case WEFT_SESSION_TEXT:
        put(r, "%s", e->text);
        break;
    case WEFT_SESSION_REASONING:
        put(r, r->last == WEFT_SESSION_REASONING ? "%s" : "(%s", e->text);
        break;
    case WEFT_SESSION_TOOL_CALL:
        put(r, "[%s ", e->name);
        put(r, "%s ", e->arguments);
        put(r, "%s]", e->id);
        break;
    case WEFT_SESSION_TOOL_RESULT:
        put(r, e->failed ? "<!%s " : "<%s ", e->id);
        put(r, "%s>", e->text);
        break;
    case WEFT_SESSION_STRUCTURED:
        put(r, "{%s}", e->text);
        break;
    default:
        put(r, ".", NULL);
    }
    r->last = e->kind;
    return ++r->events != r->stop_after;
}

/* ---- sessions over ChatML with tools -------------------------------------------------------- */

static const char template[] =
    "{%- if tools %}<tools>{% for t in tools %}{{ t.function.name }} {% endfor %}</tools>{% endif "
    "-%}"
    "{%- for m in messages -%}<|im_start|>{{ m.role }}\n"
    "{%- if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content }}"
    "{%- for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>"
    "{% endfor -%}<|im_end|>\n{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|im_start|>assistant\n"
    "{%- if enable_thinking is defined and enable_thinking %}<think>\n{% endif %}{%- endif -%}";

static weft_chat *chat;

static void open_chat(void)
{
    if (!chat)
        CHECK_OK(weft_chat_parse(template, strlen(template), "test", NULL, &chat));
}

static weft_session *open_session(script *s, weft_session_options options)
{
    weft_session *session = NULL;
    open_chat();
    options.source = play;
    options.source_context = s;
    CHECK_OK(weft_session_new(NULL, NULL, chat, &options, &session));
    return session;
}

/* The messages without white space between them. */
static void check_messages(weft_session *session, const char *expected)
{
    json_object *got = json_tokener_parse(weft_session_messages(session));
    json_object *want = json_tokener_parse(expected);
    if (!CHECK(got && want && json_object_equal(got, want)))
        CHECK_STR(json_object_to_json_string(got), json_object_to_json_string(want));
    json_object_put(got);
    json_object_put(want);
}

/* ---- turns ---------------------------------------------------------------------------------- */

static void turns_go_back_and_forth(void)
{
    script s = {.answers = {"<think>\nhm\n</think>\n\nHello.", "Bye."}};
    record r = {0};
    weft_session_stats stats;
    weft_session *session = open_session(&s, (weft_session_options){.system = "S"});
    CHECK_OK(weft_session_send(session, "Hi", NULL, note, &r, &stats));
    CHECK_STR(r.line, "(hm)Hello..");
    CHECK_EQ_INT(stats.generations, 1);
    CHECK_EQ_INT(stats.tokens, 9);
    CHECK_STR(weft_session_reply(session), "Hello.");
    CHECK_OK(weft_session_send(session, "More", NULL, NULL, NULL, NULL));
    /* The template keeps reasoning only in the last message. */
    CHECK_STR(s.prompts[1],
              "<|im_start|>systemS<|im_end|><|im_start|>userHi<|im_end|><|im_start|>assistantHello."
              "<|im_end|><|im_start|>userMore<|im_end|><|im_start|>assistant");
    check_messages(session,
                   "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": "
                   "\"Hi\"}, {\"role\": \"assistant\", \"content\": \"Hello.\", "
                   "\"reasoning_content\": \"hm\"}, {\"role\": \"user\", \"content\": \"More\"}, "
                   "{\"role\": \"assistant\", \"content\": \"Bye.\"}]");
    weft_session_free(session);
}

static void thinking_is_passed_to_the_template(void)
{
    script s = {.answers = {"so</think>A", "B"}};
    record r = {0};
    weft_session *session = open_session(&s, (weft_session_options){.thinking = WEFT_THINKING_ON});
    CHECK_OK(weft_session_send(session, "Q", NULL, note, &r, NULL));
    CHECK_STR(r.line, "(so)A.");
    weft_session_set_thinking(session, WEFT_THINKING_OFF);
    CHECK_OK(weft_session_send(session, "Q", NULL, note, &r, NULL));
    CHECK_STR(r.line, "(so)A.B.");
    CHECK_CONTAINS(s.prompts[0], "<think>");
    CHECK(strstr(s.prompts[1], "<think>") == NULL);
    weft_session_free(session);
}

static void text_before_a_stop_is_kept(void)
{
    script s = {.answers = {"Hello there, friend.", "Again."}, .piece = 6};
    record r = {.stop_after = 2};
    weft_session *session = open_session(&s, (weft_session_options){0});
    CHECK_OK(weft_session_send(session, "Hi", NULL, note, &r, NULL));
    CHECK_STR(r.line, "Hello there,");
    CHECK_STR(weft_session_reply(session), "Hello there,");
    CHECK_OK(weft_session_send(session, "And?", NULL, NULL, NULL, NULL));
    CHECK_CONTAINS(s.prompts[1], "Hello there,<|im_end|>");
    weft_session_free(session);
}

static void a_failure_changes_nothing(void)
{
    script s = {.answers = {"one"}};
    weft_session *session = open_session(&s, (weft_session_options){0});
    CHECK_OK(weft_session_send(session, "1", NULL, NULL, NULL, NULL));
    s.fails = WEFT_DEVICE;
    CHECK_STATUS(weft_session_send(session, "2", NULL, NULL, NULL, NULL), WEFT_DEVICE);
    CHECK_STR(weft_error_message(), "the script fails");
    check_messages(session, "[{\"role\": \"user\", \"content\": \"1\"}, {\"role\": \"assistant\", "
                            "\"content\": \"one\"}]");
    weft_session_free(session);
}

static void a_message_can_be_continued(void)
{
    script s = {.answers = {" three", "<think>x</think>B"}};
    const weft_session_turn turn = {.continue_final = true};
    record r = {0};
    weft_session *session = open_session(&s, (weft_session_options){0});
    CHECK_STATUS(weft_session_answer(session, &turn, note, &r, NULL), WEFT_INVALID);
    CHECK_OK(weft_session_add(session, &(weft_chat_message){.role = "user", .content = "Count"}));
    CHECK_STATUS(weft_session_answer(session, &turn, note, &r, NULL), WEFT_INVALID);
    CHECK_OK(weft_session_add(session,
                              &(weft_chat_message){.role = "assistant", .content = "One, two,"}));
    CHECK_STATUS(weft_session_send(session, "?", &turn, note, &r, NULL), WEFT_INVALID);
    CHECK_OK(weft_session_answer(session, &turn, note, &r, NULL));
    CHECK_STR(s.prompts[0], "<|im_start|>userCount<|im_end|><|im_start|>assistantOne, two,");
    CHECK_STR(r.line, " three.");
    CHECK_STR(weft_session_reply(session), "One, two, three");
    weft_session_free(session);
}

/* ---- tools ---------------------------------------------------------------------------------- */

static int added;

static weft_status add(void *context, const char *arguments, char **result)
{
    json_object *numbers = json_tokener_parse(arguments);
    const int a = json_object_get_int(json_object_object_get(numbers, "a"));
    const int b = json_object_get_int(json_object_object_get(numbers, "b"));
    json_object_put(numbers);
    added += *(const int *)context;
    if (a == 13)
        return weft_fail(WEFT_UNSUPPORTED, "13 is unlucky");
    if (a == 99)
        return weft_fail(WEFT_CANCELLED, "enough");
    *result = weft_format("%d", a + b);
    return *result ? WEFT_OK : weft_fail(WEFT_MEMORY, "no memory");
}

static const char numbers[] =
    "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\", \"minimum\": 0}, "
    "\"b\": {\"type\": \"integer\"}}, \"required\": [\"a\"], \"additionalProperties\": false}";
static int one = 1;
static const weft_tool tools[] = {
    {.name = "add", .description = "Adds", .parameters = numbers, .call = add, .context = &one},
    {.name = "ask", .description = "Asks the caller"},
};

#define CALL(name, arguments)                                                                      \
    "<tool_call>{\"name\": \"" name "\", \"arguments\": " arguments "}</tool_call>"

static void tools_are_called_and_answered(void)
{
    script s = {.answers = {"<think>sum</think>Let me see." CALL("add", "{\"a\": 1, \"b\": 2}"),
                            CALL("add", "{\"a\": 3}") CALL("add", "{\"a\": 4}"), "It is 3."}};
    record r = {0};
    weft_session_stats stats;
    weft_session *session = open_session(&s, (weft_session_options){.tools = tools, .n_tools = 2});
    added = 0;
    CHECK_OK(weft_session_send(session, "1+2?", NULL, note, &r, &stats));
    CHECK_STR(r.line, "(sum)Let me see.[add {\"a\":1,\"b\":2} call00001]<call00001 3>"
                      "[add {\"a\":3} call00002][add {\"a\":4} call00003]<call00002 3>"
                      "<call00003 4>It is 3..");
    CHECK_EQ_INT(added, 3);
    CHECK_EQ_INT(stats.tool_calls, 3);
    CHECK_EQ_INT(stats.generations, 3);
    CHECK(!stats.tool_limit);
    CHECK_CONTAINS(s.prompts[0], "<tools>add ask </tools>");
    CHECK_CONTAINS(s.prompts[1], "\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}");
    CHECK_CONTAINS(s.prompts[1], "<|im_start|>tool3<|im_end|><|im_start|>assistant");
    json_object *all = json_tokener_parse(weft_session_messages(session));
    CHECK_EQ_INT(json_object_array_length(all), 7);
    json_object *result = json_object_array_get_idx(all, 2);
    CHECK_STR(json_object_get_string(json_object_object_get(result, "tool_call_id")), "call00001");
    CHECK_STR(json_object_get_string(json_object_object_get(result, "name")), "add");
    json_object_put(all);
    weft_session_free(session);
}

static void errors_of_tools_go_to_the_model(void)
{
    script s = {.answers = {CALL("add", "{\"a\": 13}") CALL("nope", "{}") CALL("add", "{}")
                                CALL("add", "{\"a\": \"1\"}") CALL("add", "{\"a\": -1}")
                                    CALL("add", "{\"a\": 1, \"c\": 2}"),
                            "Sorry."}};
    record r = {0};
    weft_session *session = open_session(&s, (weft_session_options){.tools = tools, .n_tools = 2});
    added = 0;
    CHECK_OK(weft_session_send(session, "?", NULL, note, &r, NULL));
    CHECK_CONTAINS(r.line,
                   "<!call00001 Error: 13 is unlucky>"
                   "<!call00002 Error: there is no tool called nope; there are add, ask>"
                   "<!call00003 Error: arguments of add: \"a\" is missing>"
                   "<!call00004 Error: arguments of add: a: expected integer, got \"1\">"
                   "<!call00005 Error: arguments of add: a: expected at least 0, got -1>"
                   "<!call00006 Error: arguments of add: \"c\" is not allowed here>Sorry..");
    CHECK_CONTAINS(s.prompts[1], "<|im_start|>toolError: 13 is unlucky<|im_end|>");
    weft_session_free(session);
}

static void rounds_are_bounded(void)
{
    for (int64_t most = 0; most <= 2; most++) {
        script s = {.answers = {CALL("add", "{\"a\": 1}"), CALL("add", "{\"a\": 2}"),
                                CALL("add", "{\"a\": 3}"), "no"}};
        record r = {0};
        weft_session_stats stats;
        weft_session *session =
            open_session(&s, (weft_session_options){
                                 .tools = tools, .n_tools = 1, .max_rounds = most > 0 ? most : -1});
        added = 0;
        CHECK_OK(weft_session_send(session, "?", NULL, note, &r, &stats));
        CHECK_EQ_INT(added, most);
        CHECK(stats.tool_limit && s.at == most + 1);
        CHECK_CONTAINS(r.line, "Error: not called: the limit of ");
        weft_session_free(session);
    }
}

static void a_call_can_be_the_callers(void)
{
    script s = {.answers = {CALL("ask", "{}") CALL("add", "{\"a\": 1}"), "Blue."}};
    record r = {0};
    weft_session_stats stats;
    weft_session *session = open_session(&s, (weft_session_options){.tools = tools, .n_tools = 2});
    CHECK_OK(weft_session_send(session, "Color?", NULL, note, &r, &stats));
    CHECK_STR(r.line, "[ask {} call00001][add {\"a\":1} call00002]<call00002 1>.");
    CHECK_EQ_INT(stats.pending_calls, 1);
    CHECK_OK(weft_session_add(session, &(weft_chat_message){.role = "tool",
                                                            .content = "blue",
                                                            .tool_call_id = "call00001",
                                                            .name = "ask"}));
    CHECK_OK(weft_session_answer(session, NULL, note, &r, &stats));
    CHECK_STR(weft_session_reply(session), "Blue.");
    CHECK_CONTAINS(s.prompts[1], "<|im_start|>toolblue<|im_end|>");
    weft_session_free(session);
}

static void a_tool_can_end_the_turn(void)
{
    script s = {.answers = {CALL("add", "{\"a\": 99}"), "never"}};
    record r = {0};
    weft_session *session = open_session(&s, (weft_session_options){.tools = tools, .n_tools = 1});
    CHECK_OK(weft_session_send(session, "?", NULL, note, &r, NULL));
    CHECK_EQ_INT(s.at, 1);
    CHECK_STR(r.line, "[add {\"a\":99} call00001]");
    weft_session_free(session);
}

static void tools_are_checked(void)
{
    static const weft_tool nameless[] = {{.description = "x"}},
                           twins[] = {{.name = "a"}, {.name = "a"}},
                           broken[] = {{.name = "a", .parameters = "{"}},
                           list[] = {{.name = "a", .parameters = "[]"}};
    script s = {.answers = {CALL("add", "{}")}};
    record r = {0};
    weft_session *session = open_session(&s, (weft_session_options){.tools = tools, .n_tools = 2});
    CHECK_STATUS(weft_session_set_tools(session, nameless, 1), WEFT_INVALID);
    CHECK_STATUS(weft_session_set_tools(session, twins, 2), WEFT_INVALID);
    CHECK_STATUS(weft_session_set_tools(session, broken, 1), WEFT_INVALID);
    CHECK_STATUS(weft_session_set_tools(session, list, 1), WEFT_INVALID);
    /* Without tools a call is text. */
    CHECK_OK(
        weft_session_send(session, "?", &(weft_session_turn){.no_tools = true}, note, &r, NULL));
    CHECK_STR(r.line, CALL("add", "{}") ".");
    CHECK(strstr(s.prompts[0], "<tools>") == NULL);
    weft_session_free(session);
    weft_chat *plain = NULL;
    CHECK_OK(weft_chat_parse("{{ messages[0].content }}", 25, "plain", NULL, &plain));
    const weft_session_options options = {
        .tools = tools, .n_tools = 1, .source = play, .source_context = &s};
    CHECK_STATUS(weft_session_new(NULL, NULL, plain, &options, &session), WEFT_UNSUPPORTED);
    CHECK_STATUS(weft_session_new(NULL, NULL, plain, NULL, &session), WEFT_INVALID);
    weft_chat_free(plain);
}

/* ---- structured answers --------------------------------------------------------------------- */

static const char person[] =
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"pattern\": "
    "\"^[A-Z]\"}, \"age\": {\"type\": \"integer\", \"minimum\": 0}, \"tags\": {\"type\": "
    "\"array\", \"items\": {\"enum\": [\"a\", \"b\"]}, \"maxItems\": 2}}, \"required\": "
    "[\"name\", \"age\"], \"additionalProperties\": false}";

static void a_document_is_found_in_an_answer(void)
{
    static const char *const answers[] = {
        "{\"name\": \"Ada\", \"age\": 36}",
        "  {\"name\": \"Ada\", \"age\": 36}\n",
        "```json\n{\"name\": \"Ada\", \"age\": 36}\n```",
        "Here it is:\n\n```\n{\"name\": \"Ada\", \"age\": 36}```\nAnything else?",
        "Sure [1]: {\"name\": \"Ada\", \"age\": 36} (as {you} asked)",
        "<think>{\"name\": \"No\", \"age\": 1}</think>{\"name\": \"Ada\", \"age\": 36}",
        "```json\n{\"name\": \"Ada\", \"age\": 36}",
    };
    const weft_session_turn turn = {
        .structured = WEFT_STRUCTURED_PROMPTED, .schema = person, .retries = -1};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        script s = {.answers = {answers[i]}};
        record r = {0};
        weft_session *session = open_session(&s, (weft_session_options){.system = "S"});
        CHECK_OK(weft_session_send(session, "Who?", &turn, note, &r, NULL));
        CHECK_CONTAINS(r.line, "{{\"name\": \"Ada\", \"age\": 36}}.");
        CHECK_CONTAINS(s.prompts[0],
                       "systemS\n\nAnswer with a JSON document that this JSON Schema");
        CHECK_CONTAINS(s.prompts[0], "\"^[A-Z]\"");
        weft_session_free(session);
    }
}

static void invalid_documents_are_requested_again(void)
{
    script s = {.answers = {"I do not know.", "{\"name\": \"ada\", \"age\": 36}",
                            "{\"name\": \"Ada\", \"age\": 36, \"tags\": [\"a\", \"c\"]}",
                            "{\"name\": \"Ada\", \"age\": 36, \"tags\": [\"a\"]}", "next"}};
    const weft_session_turn turn = {
        .structured = WEFT_STRUCTURED_PROMPTED, .schema = person, .retries = 3};
    record r = {0};
    weft_session_stats stats;
    weft_session *session = open_session(&s, (weft_session_options){0});
    CHECK_OK(weft_session_send(session, "Who?", &turn, note, &r, &stats));
    CHECK_EQ_INT(stats.generations, 4);
    CHECK_CONTAINS(s.prompts[1], "I do not know.<|im_end|><|im_start|>userThat does not fit: the "
                                 "answer: column 1: ");
    CHECK_CONTAINS(s.prompts[2], "does not fit: name: expected a string that matches ^[A-Z]. ");
    CHECK_CONTAINS(s.prompts[3], "tags[1]: expected [\"a\",\"b\"], got \"c\"");
    CHECK_CONTAINS(r.line, "{{\"name\": \"Ada\", \"age\": 36, \"tags\": [\"a\"]}}.");
    /* Only the valid attempt stays in the conversation. */
    check_messages(session,
                   "[{\"role\": \"user\", \"content\": \"Who?\"}, {\"role\": "
                   "\"assistant\", \"content\": \"{\\\"name\\\": \\\"Ada\\\", \\\"age\\\": "
                   "36, \\\"tags\\\": [\\\"a\\\"]}\"}]");
    CHECK_OK(weft_session_send(session, "Next", NULL, NULL, NULL, NULL));
    CHECK(strstr(s.prompts[4], "JSON Schema") == NULL);
    weft_session_free(session);
}

static void no_document_is_a_failure(void)
{
    script s = {.answers = {"no", "[", "{\"name\": 1, \"age\": 1}"}};
    const weft_session_turn turn = {.structured = WEFT_STRUCTURED_PROMPTED, .schema = person};
    weft_session *session = open_session(&s, (weft_session_options){0});
    CHECK_STATUS(weft_session_send(session, "Who?", &turn, NULL, NULL, NULL), WEFT_INVALID);
    CHECK_STR(weft_error_message(), "session: no answer of 3 is the document asked for; of the "
                                    "last: name: expected string, got 1");
    CHECK_STR(weft_session_messages(session), "[]\n");
    const weft_session_turn odd = {.structured = WEFT_STRUCTURED_PROMPTED,
                                   .schema = "{\"unevaluatedItems\": false}"},
                            broken = {.structured = WEFT_STRUCTURED_PROMPTED, .schema = "{"},
                            held = {.structured = WEFT_STRUCTURED_CONSTRAINED};
    CHECK_STATUS(weft_session_send(session, "?", &odd, NULL, NULL, NULL), WEFT_UNSUPPORTED);
    CHECK_STATUS(weft_session_send(session, "?", &broken, NULL, NULL, NULL), WEFT_INVALID);
    CHECK_STATUS(weft_session_send(session, "?", &held, NULL, NULL, NULL), WEFT_INVALID);
    weft_session_free(session);
}

static void tools_come_before_a_document(void)
{
    script s = {.answers = {CALL("add", "{\"a\": 30, \"b\": 6}"), "Ada is 36",
                            "{\"name\": \"Ada\", \"age\": 36}"}};
    const weft_session_turn turn = {.structured = WEFT_STRUCTURED_PROMPTED, .schema = person};
    record r = {0};
    weft_session *session = open_session(&s, (weft_session_options){.tools = tools, .n_tools = 1});
    CHECK_OK(weft_session_send(session, "Who?", &turn, note, &r, NULL));
    CHECK_STR(r.line, "[add {\"a\":30,\"b\":6} call00001]<call00001 36>Ada is 36{\"name\": "
                      "\"Ada\", \"age\": 36}{{\"name\": \"Ada\", \"age\": 36}}.");
    json_object *all = json_tokener_parse(weft_session_messages(session));
    CHECK_EQ_INT(json_object_array_length(all), 4);
    json_object_put(all);
    weft_session_free(session);
}

/* If the template refuses a system text, the instruction is in the user's message. */
static void the_schema_is_in_a_message_that_the_template_takes(void)
{
    static const char strict[] =
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}"
        "{% endif %}{{ m.role }}: {{ m.content }};{% endfor %}";
    script s = {.answers = {"[1]", "2"}};
    weft_chat *plain = NULL;
    weft_session *session = NULL;
    const weft_session_turn turn = {.structured = WEFT_STRUCTURED_PROMPTED};
    CHECK_OK(weft_chat_parse(strict, strlen(strict), "strict", NULL, &plain));
    const weft_session_options options = {.source = play, .source_context = &s};
    CHECK_OK(weft_session_new(NULL, NULL, plain, &options, &session));
    CHECK_OK(weft_session_send(session, "One?", &turn, NULL, NULL, NULL));
    CHECK_STR(s.prompts[0], "user: One?\n\nAnswer with a JSON document, and with nothing else: no "
                            "explanation, no code fence.;");
    weft_session_free(session);
    weft_chat_free(plain);
}

/* ---- the conversation ----------------------------------------------------------------------- */

static void turns_are_undone(void)
{
    script s = {.answers = {"one", CALL("add", "{\"a\": 1}"), "two"}};
    weft_session *session =
        open_session(&s, (weft_session_options){.system = "S", .tools = tools, .n_tools = 1});
    CHECK(!weft_session_undo(session));
    CHECK_OK(weft_session_send(session, "1", NULL, NULL, NULL, NULL));
    CHECK_OK(weft_session_send(session, "2", NULL, NULL, NULL, NULL));
    CHECK(weft_session_undo(session));
    CHECK_STR(weft_session_reply(session), "one");
    CHECK(weft_session_undo(session));
    CHECK(!weft_session_undo(session));
    check_messages(session, "[{\"role\": \"system\", \"content\": \"S\"}]");
    CHECK(weft_session_reply(session) == NULL);
    weft_session_clear(session);
    CHECK_OK(weft_session_set_system(session, NULL));
    CHECK_STR(weft_session_messages(session), "[]\n");
    weft_session_free(session);
}

static void conversations_are_saved_and_loaded(void)
{
    script s = {.answers = {"<think>r</think>A \"quote\"\n\xc3\xa9", "B"}};
    const char *path = check_temporary("talk.json");
    weft_session *session = open_session(&s, (weft_session_options){.system = "S\n\"1\""});
    CHECK_OK(weft_session_send(session, "Q", NULL, NULL, NULL, NULL));
    char *before = weft_strdup(weft_session_messages(session));
    CHECK_OK(weft_session_save(session, path));
    weft_session_clear(session);
    CHECK_OK(weft_session_set_system(session, "other"));
    CHECK_OK(weft_session_load(session, path));
    CHECK_STR(weft_session_messages(session), before);
    CHECK_STR(weft_session_reply(session), "A \"quote\"\n\xc3\xa9");
    /* A malformed file changes nothing. */
    CHECK_STATUS(weft_session_set_messages(session, "[{\"content\": \"x\"}]"), WEFT_INVALID);
    CHECK_STATUS(weft_session_set_messages(session, "[1]"), WEFT_INVALID);
    CHECK_STATUS(weft_session_set_messages(session, "{}"), WEFT_INVALID);
    CHECK_STATUS(weft_session_set_messages(session, "["), WEFT_INVALID);
    CHECK_STATUS(weft_session_load(session, "/nowhere.json"), WEFT_IO);
    CHECK_STATUS(weft_session_save(session, "/nowhere/talk.json"), WEFT_IO);
    CHECK_OK(weft_file_write(path, "{\"messages\": [{\"role\": \"user\"}]}", 32));
    CHECK_STATUS(weft_session_save(session, path), WEFT_INVALID);
    CHECK_STR(weft_session_messages(session), before);
    CHECK_OK(weft_session_set_messages(
        session, "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}"));
    CHECK_STR(weft_session_messages(session), "[{ \"role\": \"user\", \"content\": \"q\" }]\n");
    weft_free(before);
    weft_session_free(session);
}

/* ---- without memory ------------------------------------------------------------------------- */

/* Tools, a second attempt, a file: each failed allocation is reported, the conversation whole. */
static weft_status everything(const char *path)
{
    script s = {.answers = {"<think>t</think>" CALL("add", "{\"a\": 1}"), "none",
                            "```\n{\"name\": \"Ada\", \"age\": 1}\n```"}};
    const weft_session_turn turn = {.structured = WEFT_STRUCTURED_PROMPTED, .schema = person};
    const weft_session_options options = {
        .system = "S", .tools = tools, .n_tools = 2, .source = play, .source_context = &s};
    weft_session *session = NULL;
    weft_status status = weft_session_new(NULL, NULL, chat, &options, &session);
    if (!status)
        status = weft_session_send(session, "Who?", &turn, NULL, NULL, NULL);
    const char *reply = session ? weft_session_reply(session) : NULL;
    if (session)
        CHECK(status ? reply == NULL : reply != NULL);
    if (!status)
        status = weft_session_save(session, path);
    if (!status)
        status = weft_session_load(session, path);
    weft_session_free(session);
    return status;
}

static void missing_memory_is_reported(void)
{
    const char *path = check_temporary("whole.json");
    open_chat();
    CHECK_OK(everything(path));
    int untold = 0;
    bool reached = true;
    weft_memory_fail_at(0);
    for (uint64_t nth = 1; reached && nth < 5000; nth++) {
        weft_memory_fail_at(nth);
        const weft_status status = everything(path);
        reached = weft_memory_fail_at(0) >= nth;
        CHECK(status == WEFT_OK || status == WEFT_MEMORY);
        untold += reached && status == WEFT_OK;
    }
    CHECK(!reached);
    /* A call that cannot be parsed becomes text, whichever of the parser's two allocations fails; a
     * tool without memory reports that to the model; leftovers of other writers stay. */
    CHECK(untold <= 4);
}

CHECK_MAIN("session", CHECK_CASE(turns_go_back_and_forth),
           CHECK_CASE(thinking_is_passed_to_the_template), CHECK_CASE(text_before_a_stop_is_kept),
           CHECK_CASE(a_failure_changes_nothing), CHECK_CASE(a_message_can_be_continued),
           CHECK_CASE(tools_are_called_and_answered), CHECK_CASE(errors_of_tools_go_to_the_model),
           CHECK_CASE(rounds_are_bounded), CHECK_CASE(a_call_can_be_the_callers),
           CHECK_CASE(a_tool_can_end_the_turn), CHECK_CASE(tools_are_checked),
           CHECK_CASE(a_document_is_found_in_an_answer),
           CHECK_CASE(invalid_documents_are_requested_again), CHECK_CASE(no_document_is_a_failure),
           CHECK_CASE(tools_come_before_a_document),
           CHECK_CASE(the_schema_is_in_a_message_that_the_template_takes),
           CHECK_CASE(turns_are_undone), CHECK_CASE(conversations_are_saved_and_loaded),
           CHECK_CASE(missing_memory_is_reported))
