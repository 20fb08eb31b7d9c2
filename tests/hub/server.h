/* tests/hub/server.h -- a small HTTP server on the loopback: a thread that answers like a hub, and
 * misbehaves as configured. */
#ifndef TESTS_HUB_SERVER_H
#define TESTS_HUB_SERVER_H

#include <stdbool.h>
#include <stddef.h>

/* What a server answers for a path (before the "?"). */
typedef struct server_page {
    const char *path;
    int code;             /* 0: 200, or 206 where a range is asked for */
    const char *location; /* of a redirection */
    const char *body;
    size_t length; /* 0: strlen(body) */
    size_t cut;    /* the connection ends this many bytes before Content-Length */
    int breaks;    /* this many requests get `piece` bytes, then the connection ends */
    size_t piece;
    bool no_ranges;  /* answers 200 with everything */
    bool bad_ranges; /* answers 206 with bytes from the beginning, not the requested range */
    int fails;       /* the first requests, this many, get `fail_code` */
    int fail_code;   /* 0: 503 */
    const char *retry_after; /* the header of these failures; NULL: none */
    int delay_ms;            /* before the answer */
    int drip_ms;             /* after each byte of the body */
} server_page;

enum { SERVER_PAGES = 32 };

typedef struct server server;

/* Starts a server on a free port. `token`: requests without it get 401; NULL: no token needed. */
server *server_start(const server_page *pages, int n, const char *token);
void server_stop(server *s); /* NULL is accepted */

int server_port(const server *s);
/* "http://127.0.0.1:PORT" */
const char *server_url(const server *s);
/* Replaces the pages (at most SERVER_PAGES) and resets the failure counts; only between requests.
 */
void server_pages(server *s, const server_page *pages, int n);

/* The number of requests, and whether any of them contained a token. */
int server_requests(const server *s);
bool server_saw_token(const server *s);
/* The start of the last requested range; -1: no range was requested. */
long long server_range(const server *s);

#endif
