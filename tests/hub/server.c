/* tests/hub/server.c -- the server of server.h: one thread, one connection at a time. */
#include "tests/hub/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct server {
    int listener, port;
    char url[64];
    pthread_t thread;
    const char *token;
    _Atomic(const server_page *) pages;
    atomic_int n, requests;
    atomic_bool saw_token, stop;
    atomic_llong range;
    atomic_int failed[SERVER_PAGES]; /* requests for the page that failed */
    atomic_int broken[SERVER_PAGES]; /* and that broke off */
};

static void wait_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static bool send_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        n -= (size_t)sent;
    }
    return true;
}

static void send_body(const server *s, int fd, const server_page *p, size_t from, size_t to)
{
    if (p->drip_ms == 0)
        send_all(fd, p->body + from, to - from);
    for (size_t i = from; p->drip_ms != 0 && i < to && !s->stop; i++) {
        if (!send_all(fd, p->body + i, 1))
            return;
        wait_ms(p->drip_ms);
    }
}

/* Up to the empty line; false: the connection ended before. */
static bool read_request(int fd, char *out, size_t size)
{
    size_t n = 0;
    while (n + 1 < size) {
        ssize_t got = recv(fd, out + n, size - 1 - n, 0);
        if (got <= 0)
            return false;
        n += (size_t)got;
        out[n] = '\0';
        if (strstr(out, "\r\n\r\n") != NULL)
            return true;
    }
    return false;
}

static const server_page *find(const server *s, const char *request)
{
    char path[2000];
    const server_page *pages = s->pages;
    if (sscanf(request, "GET %1999[^? ]", path) != 1)
        return NULL;
    for (int i = 0; i < s->n; i++) {
        if (strcmp(pages[i].path, path) == 0)
            return &pages[i];
    }
    return NULL;
}

static void answer_page(server *s, int fd, const char *request, const server_page *p)
{
    char head[1000];
    size_t length = p->length != 0 ? p->length : p->body != NULL ? strlen(p->body) : 0, from = 0;
    const char *range = strcasestr(request, "\r\nRange: bytes=");
    int code = p->code != 0 ? p->code : 200;
    const bool listed = p >= s->pages && p < s->pages + s->n;
    const bool fails = listed && s->failed[p - s->pages] < p->fails;
    wait_ms(p->delay_ms);
    if (fails) {
        s->failed[p - s->pages]++;
        code = p->fail_code != 0 ? p->fail_code : 503;
    }
    if (range != NULL)
        s->range = atoll(range + 15);
    if (range != NULL && code == 200 && !p->no_ranges) {
        code = 206;
        from = p->bad_ranges ? 0 : (size_t)s->range;
    }
    if (from > length) {
        code = 416;
        length = from = 0;
    }
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %zu"
                     "\r\n",
                     code, length - from);
    if (code == 206)
        n += snprintf(head + n, sizeof head - (size_t)n, "Content-Range: bytes %zu-%zu/%zu\r\n",
                      from, length - 1, length);
    if (p->location != NULL)
        n += snprintf(head + n, sizeof head - (size_t)n, "Location: %s\r\n", p->location);
    if (fails && p->retry_after != NULL)
        n += snprintf(head + n, sizeof head - (size_t)n, "Retry-After: %s\r\n", p->retry_after);
    n += snprintf(head + n, sizeof head - (size_t)n, "\r\n");
    send_all(fd, head, (size_t)n);
    size_t to = length - p->cut;
    if (listed && code / 100 == 2 && s->broken[p - s->pages] < p->breaks) {
        s->broken[p - s->pages]++;
        to = from + p->piece < to ? from + p->piece : to;
    }
    if (p->body != NULL && to > from)
        send_body(s, fd, p, from, to);
}

static void answer(server *s, int fd)
{
    static const server_page nothing = {.code = 404, .body = "none"},
                             refused = {.code = 401, .body = "who?"};
    char request[8192], expected[200];
    if (!read_request(fd, request, sizeof request))
        return;
    s->requests++;
    const char *token = strcasestr(request, "\r\nAuthorization: ");
    if (token != NULL)
        s->saw_token = true;
    const server_page *p = find(s, request);
    snprintf(expected, sizeof expected, "\r\nAuthorization: Bearer %s\r\n",
             s->token != NULL ? s->token : "");
    if (s->token != NULL && strstr(request, expected) == NULL)
        p = &refused;
    answer_page(s, fd, request, p != NULL ? p : &nothing);
}

static void *serve(void *context)
{
    server *s = context;
    for (;;) {
        int fd = accept(s->listener, NULL, NULL);
        if (s->stop || fd < 0) {
            if (fd >= 0)
                close(fd);
            return NULL;
        }
        answer(s, fd);
        shutdown(fd, SHUT_WR);
        char rest[256];
        while (recv(fd, rest, sizeof rest, 0) > 0)
            continue;
        close(fd);
    }
}

server *server_start(const server_page *pages, int n, const char *token)
{
    server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    s->token = token;
    s->range = -1;
    server_pages(s, pages, n);
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s->listener < 0 || bind(s->listener, (struct sockaddr *)&address, size) != 0 ||
        listen(s->listener, 16) != 0 ||
        getsockname(s->listener, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&s->thread, NULL, serve, s) != 0) {
        if (s->listener >= 0)
            close(s->listener);
        free(s);
        return NULL;
    }
    s->port = ntohs(address.sin_port);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d", s->port);
    return s;
}

void server_stop(server *s)
{
    if (s == NULL)
        return;
    s->stop = true;
    shutdown(s->listener, SHUT_RDWR); /* wakes accept */
    pthread_join(s->thread, NULL);
    close(s->listener);
    free(s);
}

int server_port(const server *s)
{
    return s->port;
}

const char *server_url(const server *s)
{
    return s->url;
}

void server_pages(server *s, const server_page *pages, int n)
{
    for (int i = 0; i < SERVER_PAGES; i++)
        s->failed[i] = s->broken[i] = 0;
    s->pages = pages;
    s->n = n < SERVER_PAGES ? n : SERVER_PAGES;
}

int server_requests(const server *s)
{
    return s->requests;
}

bool server_saw_token(const server *s)
{
    return s->saw_token;
}

long long server_range(const server *s)
{
    return s->range;
}
