/* serve/page.c -- the page at /, a chat for a browser.
 *
 * It is one document without other files. The policy that is sent with it allows no other script or
 * style than its own, marked by a number that is drawn for each answer, and no other site. */
#include <stdio.h>
#include <string.h>

#include "serve/server.h"

extern const char serve_page[]; /* page.html */

void serve_page_policy(const serve_request *request, char *out, size_t size)
{
    snprintf(out, size,
             "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; img-src data:; "
             "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
             request->nonce, request->nonce);
}

weft_status serve_run_page(serve_request *request)
{
    static const char mark[] = "NONCE";
    serve_text out = {0};
    serve_make_id("", request->nonce, sizeof request->nonce);
    for (const char *from = serve_page, *at; from != NULL; from = at) {
        at = strstr(from, mark);
        serve_text_add(&out, from, at != NULL ? (size_t)(at - from) : strlen(from));
        if (at == NULL)
            break;
        serve_text_add(&out, request->nonce, strlen(request->nonce));
        at += sizeof mark - 1;
    }
    serve_reply(request, 200, "text/html; charset=utf-8", &out);
    return WEFT_OK;
}
