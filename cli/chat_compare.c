/* cli/chat_compare.c -- the answers of weft chat without and with the adapter. */
#include <stdio.h>

#include "cli/chat_server.h"
#include "weft/memory.h"

/* A session with the conversation's messages so far; its own prompt cache is computed by the other
 * model. */
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

/* Answers without the adapter, which is then loaded again. */
static weft_status answer_as_base(chat_run *run, weft_session *base, const char *text)
{
    weft_status status = weft_adapter_replace_list(run->model, NULL, NULL);
    if (status != WEFT_OK)
        return status;
    puts("(base)");
    chat_answer_of(run, base, text, false);
    status = weft_adapter_replace_list(run->model, run->values->adapter, NULL);
    if (status != WEFT_OK) {
        fputs("weft: the adapter cannot be loaded again, so the chat ends\n", stderr);
        run->quit = true;
    }
    return status;
}

/* Answers as the server's other model, or else without the adapter. False if the answer was stopped
 * or failed. */
static bool answer_as_other(chat_run *run, char *other, const char *text)
{
    weft_session *session = NULL;
    const int failures = run->failures;
    weft_status status = copy_session(run, &session);
    if (status == WEFT_OK && other != NULL) {
        printf("(%s)\n", weft_printable(other));
        chat_server_answer_of(run, other, session, text);
    } else if (status == WEFT_OK) {
        status = answer_as_base(run, session, text);
    }
    if (status != WEFT_OK)
        chat_show_failure(run);
    weft_session_free(session);
    return run->failures == failures && run->stats.last.reason != WEFT_FINISH_CANCELLED;
}

/* Answers twice, to a message or, if it is NULL, to the last one. False without a new answer. */
static bool answer_twice(chat_run *run, char *other, const char *message)
{
    const int failures = run->failures;
    if (!answer_as_other(run, other, message))
        return false;
    if (other != NULL)
        printf("(%s)\n", weft_printable(chat_server_model(run->server)));
    else
        printf("(adapter %s)\n", weft_printable(run->values->adapter));
    chat_answer(run, message, false);
    return run->failures == failures;
}

static void compare(chat_run *run, char *other, const char *text)
{
    const char *message = *text != '\0' ? text : NULL;
    const char *messages = message == NULL ? weft_session_messages(run->session) : NULL;
    char *before = messages != NULL ? weft_strdup(messages) : NULL;
    if (message == NULL && (before == NULL || !weft_session_rewind(run->session))) {
        fputs("weft: /compare: there is no message yet: /compare TEXT\n", stderr);
        weft_free(before);
        return;
    }
    run->pending = 0;
    /* Without a new answer the last one stays. */
    if (!answer_twice(run, other, message) && before != NULL &&
        weft_session_set_messages(run->session, before) != WEFT_OK)
        chat_show_failure(run);
    weft_free(before);
}

void chat_compare(chat_run *run, const char *text)
{
    char *other = NULL;
    if (run->server != NULL && chat_server_other(run, &other) != WEFT_OK)
        chat_show_failure(run);
    else if (run->server != NULL && other == NULL)
        fputs("weft: /compare needs a second model of the server\n", stderr);
    else if (run->server == NULL && (run->values->adapter == NULL || run->model == NULL))
        fputs("weft: /compare needs --adapter DIR and the native backend\n", stderr);
    else
        compare(run, other, text);
    weft_free(other);
}
