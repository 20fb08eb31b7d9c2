/* tests/hub/server.h -- a small HTTP server on the loopback: a thread that answers as a hub does,
 * and misbehaves where it is told to. */
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
    size_t cut;    /* so many bytes less than Content-Length says, and the connection ends */
    int breaks;    /* so many requests get `piece` bytes, and the connection ends */
    size_t piece;
    bool no_ranges;          /* answers 200 with everything */
    bool bad_ranges;         /* answers 206 from the beginning, where another range is asked for */
    int fails;               /* so many requests get `fail_code` first */
    int fail_code;           /* 0: 503 */
    const char *retry_after; /* the header of these failures; NULL: none */
    int delay_ms;            /* before the answer */
    int drip_ms;             /* after each byte of the body */
} server_page;

enum { SERVER_PAGES = 32 };

typedef struct server server;

/* Starts to answer on a port of its own. `token`: requests without it get 401; NULL: all may. */
server *server_start(const server_page *pages, int n, const char *token);
void server_stop(server *s); /* NULL is accepted */

int server_port(const server *s);
/* "http://127.0.0.1:PORT" */
const char *server_url(const server *s);
/* Exchanges what it answers, and counts failures anew; between requests only. At most
 * SERVER_PAGES. */
void server_pages(server *s, const server_page *pages, int n);

/* How many requests there were, and whether one of them carried a token. */
int server_requests(const server *s);
bool server_saw_token(const server *s);
/* Where the last range that was asked for began; -1: none was. */
long long server_range(const server *s);

#endif
