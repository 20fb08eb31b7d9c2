/* serve/server.c -- starting and stopping the server. */
#include <errno.h>
#include <time.h>

#include "serve/server.h"
#include "weft/memory.h"

static void set_defaults(serve_options *o)
{
    if (o->host == NULL)
        o->host = "127.0.0.1";
    o->rows = o->rows > 0 ? o->rows : 16;
    o->requests = o->requests > 0 ? o->requests : 256;
    o->connections = o->connections > 0 ? o->connections : 512;
    o->unread = o->unread > 0 ? o->unread : 1 << 20;
    o->body = o->body > 0 ? o->body : 16 << 20;
    o->timeout = o->timeout > 0 ? o->timeout : 3600;
    o->idle = o->idle > 0 ? o->idle : 60;
    o->upload = o->upload > 0 ? o->upload : 60;
    o->ping = o->ping > 0 ? o->ping : 5;
}

/* Ends the threads; no request is left. */
static void end(serve_server *server)
{
    serve_teacher_stop(server); /* for which the thread that computes still gives turns */
    pthread_mutex_lock(&server->lock);
    server->ended = true;
    pthread_mutex_unlock(&server->lock);
    serve_watch_stop(server);
    serve_http_stop(server);
    serve_worker_stop(server);
    serve_teacher_free(server);
    serve_turns_free(server);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->work);
    pthread_cond_destroy(&server->idle);
    weft_free(server);
}

weft_status serve_start(const serve_options *options, serve_server **out)
{
    pthread_condattr_t monotonic;
    *out = NULL;
    serve_server *server = weft_calloc(1, sizeof *server);
    if (server == NULL)
        return weft_fail(WEFT_MEMORY, "serve: out of memory");
    server->options = *options;
    server->started = (int64_t)time(NULL);
    set_defaults(&server->options);
    pthread_mutex_init(&server->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&server->work, NULL);
    pthread_cond_init(&server->idle, &monotonic);
    pthread_condattr_destroy(&monotonic);
    weft_status status = serve_turns_new(server);
    if (status == WEFT_OK)
        status = serve_teacher_start(server);
    if (status == WEFT_OK)
        status = serve_http_start(server);
    if (status == WEFT_OK)
        status = serve_worker_start(server);
    if (status == WEFT_OK)
        status = serve_watch_start(server);
    if (status != WEFT_OK) {
        end(server);
        return status;
    }
    *out = server;
    return WEFT_OK;
}

weft_status serve_state(serve_server *server, bool *ready)
{
    pthread_mutex_lock(&server->lock);
    const weft_status status =
        server->status != WEFT_OK ? weft_fail(server->status, "%s", server->message) : WEFT_OK;
    *ready = server->ready;
    pthread_mutex_unlock(&server->lock);
    return status;
}

/* Waits until no request is left, or for some seconds. The lock is held. */
static void await_idle(serve_server *server, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    int code = 0;
    while (code != ETIMEDOUT && (server->n_requests > 0 || server->n_threads > 0))
        code = pthread_cond_timedwait(&server->idle, &server->lock, &until);
}

void serve_stop(serve_server *server, double seconds)
{
    if (server == NULL)
        return;
    pthread_mutex_lock(&server->lock);
    server->stopping = true;
    await_idle(server, seconds);
    for (serve_request *r = server->requests; r != NULL; r = r->next)
        weft_cancel_set(r->cancel);
    while (server->n_threads > 0) /* no connection is suspended after that */
        pthread_cond_wait(&server->idle, &server->lock);
    await_idle(server, 1); /* for clients that read their answers */
    pthread_mutex_unlock(&server->lock);
    end(server);
}
