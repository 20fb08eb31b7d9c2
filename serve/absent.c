/* serve/absent.c -- the server in a build without libmicrohttpd: it cannot be started. */
#include "serve/serve.h"

weft_status serve_start(const serve_options *options, serve_server **out)
{
    (void)options;
    *out = NULL;
    return weft_fail(WEFT_UNSUPPORTED,
                     "this build has no server: it was configured without libmicrohttpd");
}

int serve_port(const serve_server *server)
{
    (void)server;
    return 0;
}

weft_status serve_state(serve_server *server, bool *ready)
{
    (void)server;
    *ready = false;
    return WEFT_OK;
}

void serve_stop(serve_server *server, double seconds)
{
    (void)server;
    (void)seconds;
}
