/* cli/http.h -- requests to a server of OpenAI's API, by libcurl. */
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/cancel.h"
#include "weft/status.h"

typedef struct cli_http cli_http;

/* Sets *out, which is freed with cli_http_free, for requests below a URL, with or without /v1, and
 * with an API key (NULL: none). WEFT_INVALID for another URL than http and https,
 * WEFT_UNSUPPORTED in a build without libcurl. */
weft_status cli_http_new(const char *url, const char *key, cli_http **out);
void cli_http_free(cli_http *http); /* NULL is accepted */

/* Takes a part of an answer. Another status than WEFT_OK ends the request with it. */
typedef weft_status cli_http_fn(void *context, const char *bytes, size_t n);

/* Sends JSON to a path below /v1, or gets it (NULL), and passes on the answer. Redirections are not
 * followed, so the key goes nowhere else. WEFT_IO when there is no server or the connection breaks,
 * WEFT_INVALID with the server's message for an error, WEFT_CANCELLED once `cancel` is set (NULL:
 * never), or after some seconds (0: never). */
weft_status cli_http_send(cli_http *http, const char *path, const char *json,
                          const weft_cancel *cancel, double seconds, cli_http_fn *take,
                          void *context);

#endif
