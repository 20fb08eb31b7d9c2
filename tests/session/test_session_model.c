/* tests/session/test_session_model.c -- weft/session.h with the storyteller: reuse of caches
 * between turns, stopping, special tokens, constrained answers. */
#include "weft/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/memory.h"

static weft_model *model;
static weft_tokenizer *tokenizer;
static weft_chat *chat;

static void unload(void)
{
    weft_chat_free(chat);
}

/* Loaded once for all cases; freed at exit. */
static bool ready(void)
{
    if (!storyteller(&model, &tokenizer))
        return false;
    if (!chat && CHECK_OK(weft_chat_load(check_source("examples/storyteller"), &chat)))
        atexit(unload);
    return chat;
}

static weft_session *open_session(const weft_session_options *options)
{
    weft_session *session = NULL;
    CHECK_OK(weft_session_new(model, tokenizer, chat, options, &session));
    return session;
}

/* Three turns, whose answers are the same whether keys and values are kept or not. */
static void only_new_tokens_are_computed(void)
{
    static const char *const says[] = {"Tell me of a king.", "And then?", "What did she say?"};
    char *replies[3] = {0};
    if (!ready())
        return;
    for (int kept = 0; kept < 2; kept++) {
        const weft_session_options options = {.system = "You are a teller of tales.",
                                              .generate = {.max_tokens = 12},
                                              .no_prompt_cache = kept == 0};
        weft_session *session = open_session(&options);
        int64_t before = 0;
        for (int i = 0; i < 3 && session; i++) {
            weft_session_stats stats;
            CHECK_OK(weft_session_send(session, says[i], NULL, NULL, NULL, &stats));
            const int64_t cached = stats.last.cached_tokens;
            if (kept == 0) {
                CHECK_EQ_INT(cached, 0);
                replies[i] = weft_strdup(weft_session_reply(session));
            } else {
                CHECK_STR(weft_session_reply(session), replies[i]);
                /* The previous prompt is a prefix of this one. */
                CHECK(i == 0 || cached >= before - 1);
                CHECK(cached < stats.prompt_tokens);
            }
            before = stats.prompt_tokens;
        }
        weft_session_free(session);
    }
    for (int i = 0; i < 3; i++)
        weft_free(replies[i]);
}

/* A turn that is undone and sent again gets the same answer. */
static void an_undone_turn_changes_nothing_later(void)
{
    const weft_session_options options = {.generate = {.max_tokens = 8}};
    weft_session *session = ready() ? open_session(&options) : NULL;
    if (!session)
        return;
    CHECK_OK(weft_session_send(session, "One", NULL, NULL, NULL, NULL));
    CHECK_OK(weft_session_send(session, "Two", NULL, NULL, NULL, NULL));
    char *reply = weft_strdup(weft_session_reply(session));
    CHECK(weft_session_undo(session));
    CHECK_OK(weft_session_send(session, "Something else", NULL, NULL, NULL, NULL));
    CHECK(weft_session_undo(session));
    CHECK_OK(weft_session_send(session, "Two", NULL, NULL, NULL, NULL));
    CHECK_STR(weft_session_reply(session), reply);
    CHECK(weft_session_rewind(session));
    CHECK(weft_session_reply(session) == NULL);
    CHECK_OK(weft_session_answer(session, NULL, NULL, NULL, NULL));
    CHECK_STR(weft_session_reply(session), reply);
    weft_free(reply);
    weft_session_free(session);
}

/* ---- stopping ------------------------------------------------------------------------------- */

typedef struct watch {
    weft_cancel *cancel;
    int texts, documents, done;
    char text[4096], reasoning[4096];
} watch;

static bool look(void *context, const weft_session_event *e)
{
    watch *w = context;
    w->texts += e->kind == WEFT_SESSION_TEXT;
    w->done += e->kind == WEFT_SESSION_DONE;
    w->documents += e->kind == WEFT_SESSION_STRUCTURED;
    char *to = e->kind == WEFT_SESSION_REASONING ? w->reasoning : w->text;
    if (e->kind == WEFT_SESSION_TEXT || e->kind == WEFT_SESSION_REASONING)
        strncat(to, e->text, sizeof w->text - strlen(to) - 1);
    if (w->cancel && w->texts == 3)
        weft_cancel_set(w->cancel);
    return true;
}

static void an_answer_can_be_cancelled(void)
{
    watch w = {.cancel = weft_cancel_new()};
    weft_session_stats stats;
    const weft_session_options options = {.generate = {.max_tokens = 100, .cancel = w.cancel}};
    weft_session *session = ready() ? open_session(&options) : NULL;
    if (!session)
        return;
    CHECK_OK(weft_session_send(session, "Tell", NULL, look, &w, &stats));
    CHECK_EQ_INT(stats.last.reason, WEFT_FINISH_CANCELLED);
    CHECK_EQ_INT(w.done, 1);
    CHECK(stats.last.tokens < 20);
    CHECK_STR(weft_session_reply(session), w.text);
    weft_cancel_clear(w.cancel);
    CHECK_OK(weft_session_send(session, "On", NULL, NULL, NULL, NULL));
    weft_session_free(session);
    weft_cancel_free(w.cancel);
}

/* Special tokens other than markup are not text. */
static void special_tokens_are_not_text(void)
{
    watch w = {0};
    const int32_t eos = ready() ? weft_tokenizer_eos(tokenizer) : -1;
    const float much = 1000;
    const weft_session_options options = {
        .generate = {.max_tokens = 5,
                     .ignore_eos = true,
                     .sampler = {.bias_ids = &eos, .bias_values = &much, .n_bias = 1}}};
    weft_session *session = eos >= 0 ? open_session(&options) : NULL;
    weft_session_stats stats;
    if (!CHECK(session != NULL))
        return;
    CHECK_OK(weft_session_send(session, "Tell", NULL, look, &w, &stats));
    CHECK_EQ_INT(stats.last.tokens, 5);
    CHECK_STR(w.text, "");
    weft_session_free(session);
}

/* ---- constrained answers -------------------------------------------------------------------- */

static const char person[] =
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 10}, "
    "\"age\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 120}}, \"required\": "
    "[\"name\", \"age\"], \"additionalProperties\": false}";

static void constrained_answers_are_documents(void)
{
    const weft_session_turn turn = {.structured = WEFT_STRUCTURED_CONSTRAINED, .schema = person};
    weft_session *session = ready() ? open_session(NULL) : NULL;
    for (uint64_t seed = 0; seed < 12 && session; seed++) {
        watch w = {0};
        weft__json_doc doc = {0};
        int64_t age = -1;
        weft_generate_options generate = {.max_tokens = 60, .seed = seed};
        generate.sampler.temperature = 1;
        CHECK_OK(weft_session_set_generate(session, &generate));
        CHECK_OK(weft_session_send(session, "Who?", &turn, look, &w, NULL));
        CHECK_EQ_INT(w.documents, 1);
        if (CHECK_OK(weft__json_parse(w.text, strlen(w.text), "answer", &doc))) {
            const weft__json root = weft__json_root(&doc);
            CHECK_OK(weft__json_get_int(&root, "age", &age));
            CHECK(age >= 0 && age <= 120);
        }
        CHECK_STR(weft_session_reply(session), w.text);
        weft__json_free(&doc);
        CHECK(weft_session_undo(session));
    }
    weft_session_free(session);
}

/* With thinking on, the reasoning comes first and is unconstrained; markup in the document has no
 * meaning. */
static void reasoning_comes_before_the_document(void)
{
    static const char template[] =
        "{%- for m in messages %}{{ m.content }}\n{% endfor %}{% if enable_thinking %}<think>\n"
        "{% else %}<think>\n\n</think>\n{% endif %}";
    const weft_session_turn turn = {.structured = WEFT_STRUCTURED_CONSTRAINED, .schema = person};
    const weft_session_options options = {.thinking = WEFT_THINKING_ON,
                                          .generate = {.max_tokens = 30}};
    weft_chat *thinking = NULL;
    weft_session *session = NULL;
    watch w = {0};
    weft_session_stats stats;
    if (!ready() ||
        !CHECK_OK(weft_chat_parse(template, strlen(template), "thinking", tokenizer, &thinking)))
        return;
    CHECK_OK(weft_session_new(model, tokenizer, thinking, &options, &session));
    CHECK_OK(weft_session_send(session, "Once upon a time", &turn, look, &w, &stats));
    CHECK(strlen(w.reasoning) > 10);
    CHECK_EQ_INT(w.documents, 1);
    CHECK_EQ_INT(w.text[0], '{');
    CHECK_CONTAINS(weft_session_messages(session), "\"reasoning_content\": ");
    weft_session_set_thinking(session, WEFT_THINKING_DEFAULT);
    w = (watch){0};
    CHECK_OK(weft_session_send(session, "And then", &turn, look, &w, &stats));
    CHECK_STR(w.reasoning, "");
    CHECK_EQ_INT(w.documents, 1);
    weft_session_free(session);
    weft_chat_free(thinking);
}

/* A document that is cut off before its end is a failure. */
static void a_document_without_room_is_a_failure(void)
{
    const weft_session_turn turn = {.structured = WEFT_STRUCTURED_CONSTRAINED, .schema = person};
    const weft_session_options options = {.generate = {.max_tokens = 3}};
    weft_session *session = ready() ? open_session(&options) : NULL;
    if (!session)
        return;
    CHECK_STATUS(weft_session_send(session, "Who?", &turn, NULL, NULL, NULL), WEFT_INVALID);
    CHECK_STR(weft_session_messages(session), "[]\n");
    weft_session_free(session);
}

static void the_prompt_can_be_seen(void)
{
    const weft_session_options options = {.system = "S"};
    weft_session *session = ready() ? open_session(&options) : NULL;
    char *text = NULL;
    size_t length = 0, tokens = 0;
    if (!session)
        return;
    CHECK_OK(weft_session_add(session, &(weft_chat_message){.role = "user", .content = "Hi"}));
    CHECK_OK(weft_session_prompt(session, NULL, &text, &length, &tokens));
    CHECK_STR(text, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                    "<|im_start|>assistant\n");
    CHECK_EQ_INT(length, strlen(text));
    CHECK(tokens >= 9 && tokens < length);
    weft_free(text);
    weft_session_free(session);
}

CHECK_MAIN("session_model", CHECK_CASE(only_new_tokens_are_computed),
           CHECK_CASE(an_undone_turn_changes_nothing_later), CHECK_CASE(an_answer_can_be_cancelled),
           CHECK_CASE(special_tokens_are_not_text), CHECK_CASE(constrained_answers_are_documents),
           CHECK_CASE(reasoning_comes_before_the_document),
           CHECK_CASE(a_document_without_room_is_a_failure), CHECK_CASE(the_prompt_can_be_seen))
