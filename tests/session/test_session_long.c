/* tests/session/test_session_long.c -- conversations that exceed the limit of their prompts, and
 * tool calls in the caller's own markup. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/memory.h"
#include "weft/session.h"

static const char template[] =
    "{%- for t in tools or [] %}{{ t.function.name }}{% endfor -%}"
    "{%- for m in messages -%}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{%- for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor -%}<|im_end|>\n"
    "{%- endfor -%}<|im_start|>assistant\n";

typedef struct script {
    const char *answer;
    char prompt[8192];
    size_t tokens;
} script;

static weft_status play(void *context, const weft_session_request *request,
                        weft_generate_fn *callback, void *callback_context,
                        weft_generate_stats *stats)
{
    script *s = context;
    snprintf(s->prompt, sizeof s->prompt, "%s", request->prompt);
    s->tokens = request->n_ids;
    stats->tokens++;
    callback(callback_context,
             &(weft_generated){.id = -1, .text = s->answer, .length = strlen(s->answer)});
    return WEFT_OK;
}

static bool open_session(script *s, weft_session_options options, weft_chat **chat,
                         weft_session **session)
{
    weft_model *model;
    weft_tokenizer *tokenizer;
    *session = NULL;
    options.source = play;
    options.source_context = s;
    return storyteller(&model, &tokenizer) &&
           CHECK_OK(weft_chat_parse(template, strlen(template), "test", tokenizer, chat)) &&
           CHECK_OK(weft_session_new(NULL, tokenizer, *chat, &options, session));
}

/* Message i of the user; each takes some 20 tokens. */
static void say(weft_session *session, int i, weft_session_stats *stats)
{
    char text[128];
    snprintf(text, sizeof text, "Message %d: the king and the queen went to the sea.", i);
    CHECK_OK(weft_session_send(session, text, NULL, NULL, NULL, stats));
}

static bool holds(const script *s, int i)
{
    char text[32];
    snprintf(text, sizeof text, "Message %d:", i);
    return strstr(s->prompt, text) != NULL;
}

static void oldest_turns_are_left_out(void)
{
    enum { MOST = 200, TURNS = 14 };
    script s = {.answer = "They swam."};
    weft_chat *chat = NULL;
    weft_session *session;
    weft_session_stats stats = {0};
    int64_t before = 0;
    int trims = 0;
    if (open_session(&s, (weft_session_options){.system = "Be kind.", .max_prompt = MOST}, &chat,
                     &session)) {
        for (int i = 0; i < TURNS; i++) {
            say(session, i, &stats);
            CHECK(s.tokens <= MOST);
            CHECK_CONTAINS(s.prompt, "Be kind.");
            CHECK(holds(&s, i));
            /* Whole turns, of two messages each. */
            CHECK_EQ_INT(stats.left_out % 2, 0);
            for (int k = 0; k < i; k++)
                CHECK_EQ_INT(holds(&s, k), 2 * k >= stats.left_out);
            CHECK(stats.left_out >= before);
            trims += stats.left_out > before;
            before = stats.left_out;
        }
        /* Each limit has room for some more turns. */
        CHECK(trims >= 2 && trims <= TURNS / 2);
        CHECK_CONTAINS(weft_session_messages(session), "Message 0:");
        /* Undoing turns makes room; the remaining ones may still be too long. */
        for (int i = 0; i < TURNS - 2; i++)
            CHECK(weft_session_undo(session));
        say(session, 99, &stats);
        CHECK_EQ_INT(stats.left_out, 0);
        CHECK(holds(&s, 0) && holds(&s, 1) && holds(&s, 99));
        weft_session_clear(session);
        say(session, 5, &stats);
        CHECK_EQ_INT(stats.left_out, 0);
        CHECK(!holds(&s, 0) && holds(&s, 5));
    }
    weft_session_free(session);
    weft_chat_free(chat);
}

/* One turn alone is never left out, whatever its length; without max_prompt nothing is. */
static void last_turn_stays(void)
{
    for (int limited = 0; limited < 2; limited++) {
        script s = {.answer = "They swam."};
        weft_chat *chat = NULL;
        weft_session *session;
        weft_session_stats stats = {0};
        if (open_session(&s, (weft_session_options){.max_prompt = limited ? 4 : 0}, &chat,
                         &session)) {
            for (int i = 0; i < 3; i++)
                say(session, i, &stats);
            CHECK(holds(&s, 2));
            CHECK_EQ_INT(holds(&s, 1), !limited);
            CHECK_EQ_INT(stats.left_out, limited ? 4 : 0);
        }
        weft_session_free(session);
        weft_chat_free(chat);
    }
    weft_chat *chat = NULL;
    weft_session *session;
    script s = {0};
    CHECK_OK(weft_chat_parse(template, strlen(template), "test", NULL, &chat));
    const weft_session_options bad = {.source = play, .source_context = &s, .max_prompt = -1};
    CHECK_STATUS(weft_session_new(NULL, NULL, chat, &bad, &session), WEFT_INVALID);
    weft_chat_free(chat);
}

static weft_status tell(void *context, const char *arguments, char **result)
{
    snprintf(context, 64, "%s", arguments);
    *result = weft_strdup("42");
    return WEFT_OK;
}

static bool note(void *context, const weft_session_event *event)
{
    script *s = context;
    if (event->kind == WEFT_SESSION_TOOL_RESULT)
        s->answer = "Done."; /* instead of calling again */
    return true;
}

static void calls_in_marks_of_the_caller(void)
{
    char got[64] = "";
    script s = {.answer = "Well. ~~{\"name\": \"look\", \"arguments\": {\"x\": 7}}~!"};
    const weft_tool tool = {
        .name = "look", .parameters = "{\"type\": \"object\"}", .call = tell, .context = got};
    weft_chat *chat = NULL;
    weft_session *session;
    weft_session_stats stats = {0};
    const weft_session_options options = {
        .tools = &tool, .n_tools = 1, .tool_open = "~~", .tool_close = "~!"};
    if (open_session(&s, options, &chat, &session)) {
        CHECK_OK(weft_session_send(session, "Look.", NULL, note, &s, &stats));
        CHECK_EQ_INT(stats.tool_calls, 1);
        CHECK_STR(got, "{\"x\":7}");
        CHECK_STR(weft_session_reply(session), "Done.");
        CHECK(strstr(weft_session_messages(session), "~~") == NULL);
        /* Without tools the marks are text. */
        s.answer = "~~{}~!";
        const weft_session_turn turn = {.no_tools = true};
        CHECK_OK(weft_session_send(session, "Again.", &turn, NULL, NULL, &stats));
        CHECK_STR(weft_session_reply(session), "~~{}~!");
    }
    weft_session_free(session);
    const weft_session_options half = {.source = play, .source_context = &s, .tool_open = "~~"};
    CHECK_STATUS(weft_session_new(NULL, NULL, chat, &half, &session), WEFT_INVALID);
    weft_chat_free(chat);
}

CHECK_MAIN("session_long", CHECK_CASE(oldest_turns_are_left_out), CHECK_CASE(last_turn_stays),
           CHECK_CASE(calls_in_marks_of_the_caller))
