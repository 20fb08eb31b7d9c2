/* cli/chat_compare.c -- the answers of weft chat without and with the adapter. */
#include <stdio.h>

#include "cli/chat_server.h"

/* A session with the conversation's messages so far; its own prompt cache is computed without the
 * adapter. */
static weft_status copy_session(chat_run *run, weft_session **out)
{
    const char *messages = weft_session_messages(run->session);
    *out = NULL;
    if (messages == NULL)
        return weft_fail(WEFT_MEMORY, "chat: no memory for the messages");
    weft_status status =
        weft_session_new(run->model, run->tokenizer, run->chat, &run->options, out);
    return status == WEFT_OK ? weft_session_set_messages(*out, messages) : status;
}

/* Answers without the adapter, which is then loaded again. False if the answer was stopped or
 * failed. */
static bool answer_as_base(chat_run *run, const char *text)
{
    weft_session *base = NULL;
    weft_status status = copy_session(run, &base);
    if (status == WEFT_OK)
        status = weft_adapters_replace(run->model, NULL, NULL);
    if (status != WEFT_OK) {
        chat_show_failure(run);
        weft_session_free(base);
        return false;
    }
    const int failures = run->failures;
    puts("(base)");
    chat_answer_of(run, base, text, false);
    weft_session_free(base);
    status = weft_adapters_replace(run->model, run->values->adapter, NULL);
    if (status != WEFT_OK) {
        fputs("weft: the adapter cannot be loaded again, so the chat ends\n", stderr);
        chat_show_failure(run);
        run->quit = true;
    }
    return status == WEFT_OK && run->failures == failures &&
           run->stats.last.reason != WEFT_FINISH_CANCELLED;
}

void chat_compare(chat_run *run, const char *text)
{
    if (run->server != NULL) {
        chat_server_compare(run, text);
        return;
    }
    if (run->values->adapter == NULL || run->model == NULL) {
        fputs("weft: /compare needs --adapter DIR and the native backend\n", stderr);
        return;
    }
    const char *message = *text != '\0' ? text : NULL;
    const char *messages = message == NULL ? weft_session_messages(run->session) : NULL;
    char *before = messages != NULL ? weft_strdup(messages) : NULL;
    if (message == NULL && (before == NULL || !weft_session_rewind(run->session))) {
        fputs("weft: /compare: there is no message yet: /compare TEXT\n", stderr);
        weft_free(before);
        return;
    }
    run->pending = 0;
    const int failures = run->failures;
    const bool both = answer_as_base(run, message);
    if (both) {
        printf("(adapter %s)\n", weft_printable(run->values->adapter));
        chat_answer(run, message, false);
    }
    /* Without a new answer the last one stays. */
    if (before && (!both || run->failures > failures) &&
        weft_session_set_messages(run->session, before) != WEFT_OK)
        chat_show_failure(run);
    weft_free(before);
}
