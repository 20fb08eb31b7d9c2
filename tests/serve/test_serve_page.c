/* tests/serve/test_serve_page.c -- serve/page.c: the page's headers, and that it uses nothing but
 * routes of the server. tests/page.sh drives it in a browser. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/serve/client.h"

enum { LARGEST = 48 << 10 };

static void count(const char *text, const char *part, int expected)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        n++;
    if (!CHECK_EQ_INT(n, expected))
        fprintf(stderr, "occurrences of %s\n", part);
}

static void page_allows_only_its_own_script(void)
{
    static const char key[] = "secret";
    serve_server *server =
        client_server((serve_options){.rows = 2, .keys = (const char *const[]){key}, .n_keys = 1});
    char first[64] = "", second[64] = "", marked[96];
    for (int i = 0; server && i < 2; i++) {
        client_reply r = client_ask(serve_port(server), "GET", "/", NULL); /* without the key */
        char *nonce = i == 0 ? first : second;
        const char *policy = strstr(r.head, "Content-Security-Policy: default-src 'none';");
        CHECK_EQ_INT(r.status, 200);
        CHECK_CONTAINS(r.head, "Content-Type: text/html; charset=utf-8");
        CHECK_CONTAINS(r.head, "frame-ancestors 'none'");
        CHECK(policy &&
              sscanf(strstr(policy, "script-src"), "script-src 'nonce-%63[a-z0-9]'", nonce) == 1);
        CHECK(strlen(nonce) >= 16 && r.length < LARGEST);
        snprintf(marked, sizeof marked, "<script nonce=\"%s\">", nonce);
        count(r.body, marked, 1);
        snprintf(marked, sizeof marked, "<style nonce=\"%s\">", nonce);
        count(r.body, marked, 1);
        count(r.body, nonce, 2);
        client_free(&r);
    }
    CHECK(strcmp(first, second) != 0);
    serve_stop(server, 0);
}

/* No content of another site, and no text that becomes markup or a script. */
static void page_has_no_dangerous_calls(const char *body)
{
    static const char *const parts[] = {"innerHTML",      "outerHTML", "insertAdjacentHTML",
                                        "document.write", "eval(",     "Function(",
                                        "DOMParser",      "srcdoc",    "http:",
                                        "https:",         " src=",     "@import",
                                        "javascript:",    "url(",      "NONCE",
                                        " style=",        "<a "};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        count(body, parts[i], 0);
    count(body, "<script", 1);
    count(body, "</script>", 1);
    count(body, "<style", 1);
}

static void page_uses_routes_of_the_server(void)
{
    serve_server *server = client_server((serve_options){.rows = 2});
    int routes = 0;
    client_reply page = {0};
    if (server)
        page = client_ask(serve_port(server), "GET", "/", NULL);
    for (const char *at = page.body; at && (at = strstr(at, "\"/")) != NULL; at++) {
        char path[128] = "";
        if (sscanf(at, "\"%127[a-z0-9_/]\"", path) != 1)
            continue;
        client_reply r = client_ask(serve_port(server), "POST", path, "{}");
        if (!CHECK(r.status != 404 && r.status != 0))
            fprintf(stderr, "%s: %d\n", path, r.status);
        client_free(&r);
        routes++;
    }
    CHECK(routes >= 2); /* models and chats */
    if (page.body)
        page_has_no_dangerous_calls(page.body);
    client_free(&page);
    serve_stop(server, 0);
}

CHECK_MAIN("serve_page", CHECK_CASE(page_allows_only_its_own_script),
           CHECK_CASE(page_uses_routes_of_the_server))
