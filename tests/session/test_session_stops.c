/* tests/session/test_session_stops.c -- tokens and texts that end an answer of a session. */
#include <string.h>

#include "tests/check.h"
#include "weft/weft.h"

typedef struct stops {
    int n_ids, n_texts;
    int32_t id;       /* the first; -1: none */
    const char *text; /* the first; NULL: none */
} stops;

/* A source that records its stop tokens and texts. */
static weft_status note(void *context, const weft_session_request *request,
                        weft_generate_fn *callback, void *callback_context,
                        weft_generate_stats *stats)
{
    const weft_generate_options *o = request->options;
    *(stops *)context = (stops){.n_ids = (int)o->n_stop,
                                .n_texts = (int)o->n_stop_texts,
                                .id = o->n_stop > 0 ? o->stop[0] : -1,
                                .text = o->n_stop_texts > 0 ? o->stop_texts[0] : NULL};
    stats->tokens++;
    callback(callback_context, &(weft_generated){.id = -1, .text = "A", .length = 1});
    return WEFT_OK;
}

/* The caller's stops come first, then the tokens that end a turn in the template. */
static void stops_of_the_caller_and_the_template(void)
{
    static const char template[] = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>"
                                   "{% endfor %}";
    static const int32_t ids[] = {7};
    static const char *const texts[] = {"END"};
    weft_chat *chat = NULL;
    if (!CHECK_OK(weft_chat_parse(template, strlen(template), "test", NULL, &chat)))
        return;
    for (int n = 0; n <= 1; n++) {
        stops s = {0};
        const weft_session_options options = {
            .generate = {.stop = ids, .n_stop = n, .stop_texts = texts, .n_stop_texts = n},
            .source = note,
            .source_context = &s};
        weft_session *session = NULL;
        if (!CHECK_OK(weft_session_new(NULL, NULL, chat, &options, &session)))
            continue;
        CHECK_OK(weft_session_send(session, "Q", NULL, NULL, NULL, NULL));
        CHECK_EQ_INT(s.n_ids, n);
        CHECK_EQ_INT(s.id, n ? 7 : -1);
        CHECK_EQ_INT(s.n_texts, n + 1);
        CHECK_STR(s.text, n ? "END" : "<|im_end|>");
        weft_session_free(session);
    }
    weft_chat_free(chat);
}

CHECK_MAIN("session_stops", CHECK_CASE(stops_of_the_caller_and_the_template))
