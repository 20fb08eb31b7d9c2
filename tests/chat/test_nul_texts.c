/* tests/chat/test_nul_texts.c -- NULs in the texts of conversations: they pass through messages,
 * templates and answers, and are refused where a C string is needed. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/chat.h"
#include "weft/memory.h"
#include "weft/session.h"

static weft_chat *chat_of(const char *source)
{
    weft_chat *chat = NULL;
    CHECK_OK(weft_chat_parse(source, strlen(source), "test", NULL, &chat));
    return chat;
}

static void templates_keep_nul_bytes(void)
{
    static const char json[] = "[{\"role\": \"user\", \"content\": \"a\\u0000\xc3\xa9\"}]";
    static const char expected[] = "a\0\xc3\xa9|\"a\\u0000\xc3\xa9\"";
    weft_chat *chat = chat_of("{{ messages[0].content }}|{{ messages[0].content | tojson }}");
    char *text = NULL;
    size_t n = 0;
    CHECK_OK(weft_chat_render(chat, json, NULL, &text, &n));
    CHECK_EQ_INT(n, sizeof expected - 1);
    CHECK_BYTES(text, expected, sizeof expected);
    weft_free(text);
    weft_chat_free(chat);
}

static void answers_keep_nul_bytes(void)
{
    const weft_chat_markup markup = {0};
    weft_chat_parser *parser = NULL;
    char *json = NULL;
    if (!CHECK_OK(weft_chat_parser_new(&markup, NULL, NULL, &parser)))
        return;
    CHECK_OK(weft_chat_parser_push(parser, "a\0b", 3));
    CHECK_OK(weft_chat_parser_finish(parser));
    CHECK_OK(weft_chat_parser_message(parser, &json));
    CHECK_STR(json, "{\"role\": \"assistant\", \"content\": \"a\\u0000b\"}");
    weft_free(json);
    weft_chat_parser_free(parser);
}

static weft_status no_answer(void *context, const weft_session_request *request,
                             weft_generate_fn *callback, void *callback_context,
                             weft_generate_stats *stats)
{
    (void)context, (void)request, (void)callback, (void)callback_context, (void)stats;
    return WEFT_OK;
}

static void sessions_keep_nul_bytes(void)
{
    const weft_session_turn turn = {.structured = WEFT_STRUCTURED_PROMPTED, .schema = "{}"};
    const weft_session_options options = {.source = no_answer};
    weft_chat *chat = chat_of("{% for m in messages %}{{ m.content }}{% endfor %}");
    weft_session *session = NULL;
    char *text = NULL;
    size_t n = 0;
    if (!CHECK_OK(weft_session_new(NULL, NULL, chat, &options, &session)))
        return;
    CHECK_OK(
        weft_session_set_messages(session, "[{\"role\": \"user\", \"content\": \"a\\u0000b\"}]"));
    CHECK_CONTAINS(weft_session_messages(session), "\"a\\u0000b\"");
    CHECK_OK(weft_session_prompt(session, &turn, &text, &n, NULL));
    CHECK(memmem(text, n, "a\0b", 3) != NULL);
    CHECK(memmem(text, n, "JSON Schema", 11) != NULL);
    weft_free(text);

    /* A system text and a role are C strings. */
    CHECK_STATUS(
        weft_session_set_messages(session, "[{\"role\": \"system\", \"content\": \"a\\u0000b\"}]"),
        WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "[0].content: expected a string without \\u0000");
    CHECK_STATUS(
        weft_session_set_messages(session, "[{\"role\": \"user\\u0000\", \"content\": \"a\"}]"),
        WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "[0].role: expected a string without \\u0000");
    CHECK_CONTAINS(weft_session_messages(session), "\"a\\u0000b\"");
    weft_session_free(session);
    weft_chat_free(chat);
}

/* The instruction is appended to the first user text if the template takes no system text. */
static void instructions_follow_texts_with_nuls(void)
{
    const weft_session_turn turn = {.structured = WEFT_STRUCTURED_PROMPTED, .schema = "{}"};
    const weft_session_options options = {.source = no_answer};
    weft_chat *chat = chat_of("{% for m in messages %}{% if m.role == 'system' %}"
                              "{{ raise_exception('no system text') }}{% endif %}"
                              "{{ m.content }}{% endfor %}");
    weft_session *session = NULL;
    char *text = NULL;
    size_t n = 0;
    if (!CHECK_OK(weft_session_new(NULL, NULL, chat, &options, &session)))
        return;
    CHECK_OK(
        weft_session_set_messages(session, "[{\"role\": \"user\", \"content\": \"a\\u0000b\"}]"));
    if (CHECK_OK(weft_session_prompt(session, &turn, &text, &n, NULL))) {
        CHECK_BYTES(text, "a\0b\n\n", 5);
        CHECK(memmem(text, n, "JSON Schema", 11) != NULL);
    }
    weft_free(text);
    weft_session_free(session);
    weft_chat_free(chat);
}

CHECK_MAIN("nul_texts", CHECK_CASE(templates_keep_nul_bytes), CHECK_CASE(answers_keep_nul_bytes),
           CHECK_CASE(sessions_keep_nul_bytes), CHECK_CASE(instructions_follow_texts_with_nuls))
