/* tests/session/test_session_tags.c -- a conversation in MiniCPM 5's built-in format, whose tool
 * calls are tags, with scripted answers. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/memory.h"
#include "weft/session.h"

/* ---- a script instead of a model ------------------------------------------------------------ */

typedef struct script {
    const char *answers[2]; /* one after the other */
    int at;
    char prompts[2][4096];
} script;

/* A byte at a time. */
static weft_status play(void *context, const weft_session_request *request,
                        weft_generate_fn *callback, void *callback_context,
                        weft_generate_stats *stats)
{
    script *s = context;
    const char *answer = s->answers[s->at];
    snprintf(s->prompts[s->at++], sizeof s->prompts[0], "%s", request->prompt);
    for (; *answer; answer++) {
        const char text[] = {*answer, '\0'};
        stats->tokens++;
        if (!callback(callback_context, &(weft_generated){.id = -1, .text = text, .length = 1}))
            break;
    }
    return WEFT_OK;
}

static char told[1024];

static bool note(void *context, const weft_session_event *e)
{
    (void)context;
    const char *format = e->kind == WEFT_SESSION_REASONING     ? "%s~"
                         : e->kind == WEFT_SESSION_TOOL_CALL   ? "[%s]"
                         : e->kind == WEFT_SESSION_TOOL_RESULT ? "<%s>"
                                                               : "%s";
    const char *what = e->kind == WEFT_SESSION_TOOL_CALL ? e->name : e->text;
    const size_t n = strlen(told);
    snprintf(told + n, sizeof told - n, format, what ? what : "");
    return true;
}

static char noted[256];

static weft_status take_note(void *context, const char *arguments, char **result)
{
    (void)context;
    const size_t n = strlen(noted);
    snprintf(noted + n, sizeof noted - n, "%s", arguments);
    *result = weft_strdup("ok");
    return *result ? WEFT_OK : weft_fail(WEFT_MEMORY, "no memory");
}

static const weft_tool tool = {
    .name = "note",
    .description = "Notes",
    .parameters = "{\"type\": \"object\", \"properties\": {\"text\": {\"type\": \"string\"}, "
                  "\"n\": {\"type\": \"integer\"}}, \"required\": [\"text\"]}",
    .call = take_note,
};

/* ---- the conversation ----------------------------------------------------------------------- */

#define CALLS                                                                                      \
    "<function name=\"note\"><param name=\"text\">1.50</param><param name=\"n\">3</param>"         \
    "</function>\n<function name=\"note\"><param name=\"text\"><![CDATA[a\n</function>]]></param>" \
    "</function>"

/* A value that looks like a number is a string if the tool expects one, and is unchanged in
 * CDATA. */
static void calls_in_tags_are_answered(void)
{
    script s = {.answers = {"<think>\nhm\n</think>\n\nSo:\n" CALLS, "Done."}};
    weft_chat *chat = NULL;
    weft_session *session = NULL;
    const weft_session_options o = {
        .source = play, .source_context = &s, .tools = &tool, .n_tools = 1};
    CHECK_OK(weft_chat_builtin("minicpm5", NULL, NULL, &chat));
    if (!CHECK_OK(weft_session_new(NULL, NULL, chat, &o, &session)))
        return;
    CHECK_OK(weft_session_send(session, "Note it", NULL, note, NULL, NULL));
    CHECK_STR(noted, "{\"text\":\"1.50\",\"n\":3}{\"text\":\"a\\n</function>\"}");
    CHECK_STR(told, "h~m~So:[note][note]<ok><ok>Done.");
    CHECK_CONTAINS(s.prompts[0],
                   "<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"note\"");
    CHECK_CONTAINS(s.prompts[1],
                   "<|im_start|>assistant\n<think>\nhm\n</think>\n\nSo:\n" CALLS
                   "<|im_end|>\n<|im_start|>user\n<tool_response>\nok\n</tool_response>\n"
                   "<tool_response>\nok\n</tool_response><|im_end|>\n<|im_start|>assistant\n");
    CHECK_STR(weft_session_reply(session), "Done.");
    weft_session_free(session);
    weft_chat_free(chat);
}

/* A failure leaves no session behind. */
static void a_session_needs_a_model(void)
{
    weft_session *session = (weft_session *)&session;
    CHECK_STATUS(weft_session_new(NULL, NULL, NULL, NULL, &session), WEFT_INVALID);
    CHECK(session == NULL);
}

CHECK_MAIN("session_tags", CHECK_CASE(calls_in_tags_are_answered),
           CHECK_CASE(a_session_needs_a_model))
