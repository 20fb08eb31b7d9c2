/* serve/watch.c -- a thread that looks after connections that wait: clients that have gone, streams
 * that have been silent, requests that take too long. */
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "serve/server.h"

enum { PERIOD_MS = 50 };
/* Seconds after the timeout: until then an answer ends by itself, with what there is of it. */
static const double GRACE = 5;

/* Whether the client of a suspended connection has closed it. libmicrohttpd does not look at
 * suspended connections, nor closes their sockets. */
static bool has_gone(const serve_request *r)
{
    struct pollfd client = {.fd = r->socket, .events = POLLRDHUP};
    return r->suspended && poll(&client, 1, 0) > 0 &&
           (client.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

static void look_after(serve_request *r, double now)
{
    const serve_options *o = &r->server->options;
    static const char comment[] = ": ping\n\n";
    pthread_mutex_lock(&r->lock);
    const bool gone = !r->gone && has_gone(r), late = now - r->start > o->timeout + GRACE;
    const bool ping = r->streams && !r->done && !gone && now - r->last > o->ping;
    r->gone = r->gone || gone;
    if (!r->handled && now - r->start > o->upload)
        (void)shutdown(r->socket, SHUT_RD); /* libmicrohttpd then closes the connection */
    if (ping)
        r->last = now;
    pthread_mutex_unlock(&r->lock);
    if (gone || late)
        weft_cancel_set(r->cancel);
    if (ping)
        serve_write(r, comment, sizeof comment - 1);
}

static void *run(void *context)
{
    serve_server *server = context;
    for (bool ended = false; !ended;) {
        const struct timespec pause = {.tv_nsec = PERIOD_MS * 1000000L};
        nanosleep(&pause, NULL);
        const double now = serve_seconds();
        pthread_mutex_lock(&server->lock);
        ended = server->ended;
        for (serve_request *r = server->requests; r != NULL; r = r->next)
            look_after(r, now);
        pthread_mutex_unlock(&server->lock);
    }
    return NULL;
}

weft_status serve_watch_start(serve_server *server)
{
    if (pthread_create(&server->watch, NULL, run, server) != 0)
        return weft_fail(WEFT_MEMORY, "serve: no thread for waiting connections");
    server->has_watch = true;
    return WEFT_OK;
}

void serve_watch_stop(serve_server *server)
{
    if (server->has_watch)
        pthread_join(server->watch, NULL);
    server->has_watch = false;
}
