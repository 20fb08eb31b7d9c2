/* engine/stream.c -- weft_engine_stream: a thread generates, and the caller takes one token at a
 * time. */
#include <string.h>

#include "core/failure.h"
#include "engine/engine.h"
#include "weft/memory.h"

struct weft_engine_stream {
    weft_engine *engine;
    weft_engine_request request; /* has copies of the caller's arrays */
    weft_generate_options options;
    weft_chat_options chat;
    weft__engine_call call;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Protected by the lock. */
    bool full, ended, freed; /* a token is waiting; no more follow; the caller has freed it */
    weft_generated token;
    char *text;
    size_t room;
    weft_status status;
    char message[1024];

    char *given; /* the text that the caller holds */
    size_t given_room;
};

/* ---- the thread ----------------------------------------------------------------------------- */

static bool copy_token(weft_engine_stream *s, const weft_generated *token)
{
    if (token->length + 1 > s->room) {
        char *moved = weft_realloc(s->text, token->length + 64);
        if (moved == NULL)
            return false;
        s->text = moved;
        s->room = token->length + 64;
    }
    s->token = *token;
    memcpy(s->text, token->text, token->length);
    s->text[token->length] = '\0';
    return true;
}

/* Passes a token to the caller and waits until it is taken. */
static bool hand_over(void *context, const weft_generated *token)
{
    weft_engine_stream *s = context;
    pthread_mutex_lock(&s->lock);
    while (s->full && !s->freed)
        pthread_cond_wait(&s->changed, &s->lock);
    bool more = !s->freed;
    if (more && !copy_token(s, token)) {
        s->status = WEFT_MEMORY;
        strcpy(s->message, "engine: no memory for a token's text");
        more = false;
    }
    s->full = more;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return more;
}

static void *generate(void *context)
{
    weft_engine_stream *s = context;
    const weft_status status = weft__engine_run(s->engine, &s->request, &s->call, hand_over, s);
    pthread_mutex_lock(&s->lock);
    if (s->status == WEFT_OK && status != WEFT_OK) {
        s->status = status;
        strncpy(s->message, weft_error_message(), sizeof s->message - 1);
    }
    s->ended = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- making --------------------------------------------------------------------------------- */

/* Copies n bytes and appends a NUL; NULL for NULL. *fine becomes false when out of memory. */
static void *copy(const void *bytes, size_t n, bool *fine)
{
    char *made = bytes != NULL ? weft_malloc(n + 1) : NULL;
    if (made != NULL) {
        memcpy(made, bytes, n);
        made[n] = '\0';
    }
    *fine &= made != NULL || bytes == NULL;
    return made;
}

static bool copy_request(weft_engine_stream *s, const weft_engine_request *r)
{
    bool fine = true;
    size_t length = r->length;
    if (r->prompt != NULL && length == 0)
        length = strlen(r->prompt);
    s->request = *r;
    s->request.prompt = copy(r->prompt, length, &fine);
    s->request.length = length;
    s->request.ids = copy(r->ids, r->n_ids * sizeof *r->ids, &fine);
    s->request.messages = copy(r->messages, r->messages != NULL ? strlen(r->messages) : 0, &fine);
    if (r->options != NULL) {
        s->options = *r->options;
        s->request.options = &s->options;
    }
    if (r->chat != NULL) {
        s->chat = *r->chat;
        s->request.chat = &s->chat;
    }
    return fine;
}

weft_status weft_engine_stream_new(weft_engine *engine, const weft_engine_request *request,
                                   weft_engine_stream **stream)
{
    *stream = NULL;
    weft_engine_stream *s = weft_calloc(1, sizeof *s);
    if (s == NULL)
        return weft__out_of_memory("engine", "a stream");
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->engine = engine;
    s->call = weft__engine_call_of(request->options != NULL ? request->options->cancel : NULL);
    weft_status status = WEFT_OK;
    if (s->call.cancel == NULL || !copy_request(s, request))
        status = weft__out_of_memory("engine", "a stream");
    else if (pthread_create(&s->thread, NULL, generate, s) != 0)
        status = weft_fail(WEFT_MEMORY, "engine: no thread for a stream");
    else
        s->started = true;
    if (status == WEFT_OK)
        *stream = s;
    else
        weft_engine_stream_free(s);
    return status;
}

void weft_engine_stream_free(weft_engine_stream *stream)
{
    weft_engine_stream *s = stream;
    if (s == NULL)
        return;
    if (s->started) {
        pthread_mutex_lock(&s->lock);
        s->freed = true;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        weft_cancel_set(s->call.cancel);
        pthread_mutex_lock(&s->engine->lock); /* it may be waiting for its turn */
        pthread_cond_broadcast(&s->engine->changed);
        pthread_mutex_unlock(&s->engine->lock);
        pthread_join(s->thread, NULL);
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    weft_cancel_free(s->call.cancel);
    weft_free((void *)s->request.prompt);
    weft_free((void *)s->request.ids);
    weft_free((void *)s->request.messages);
    weft_free(s->text);
    weft_free(s->given);
    weft_free(s);
}

weft_status weft_engine_stream_next(weft_engine_stream *stream, weft_generated *token, bool *more)
{
    weft_engine_stream *s = stream;
    weft_status status = WEFT_OK;
    *token = (weft_generated){.id = -1, .text = ""};
    *more = false;
    pthread_mutex_lock(&s->lock);
    while (!s->full && !s->ended)
        pthread_cond_wait(&s->changed, &s->lock);
    if (s->full) {
        char *text = s->text; /* the thread writes the next token's text over the previous one */
        size_t room = s->room;
        s->text = s->given;
        s->room = s->given_room;
        s->given = text;
        s->given_room = room;
        *token = s->token;
        token->text = text;
        *more = true;
        s->full = false;
        pthread_cond_broadcast(&s->changed);
    } else if (s->status != WEFT_OK) {
        status = weft_fail(s->status, "%s", s->message);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}
