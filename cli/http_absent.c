/* cli/http_absent.c -- requests to a server in a build without libcurl: there are none. */
#include "cli/http.h"

weft_status cli_http_new(const char *url, const char *key, cli_http **out)
{
    (void)url;
    (void)key;
    *out = NULL;
    return weft_fail(WEFT_UNSUPPORTED, "--server: this build has no libcurl");
}

void cli_http_free(cli_http *http)
{
    (void)http;
}

weft_status cli_http_send(cli_http *http, const char *path, const char *json,
                          const weft_cancel *cancel, double seconds, cli_http_fn *take,
                          void *context)
{
    (void)http;
    (void)path;
    (void)json;
    (void)cancel;
    (void)seconds;
    (void)take;
    (void)context;
    return weft_fail(WEFT_UNSUPPORTED, "--server: this build has no libcurl");
}
