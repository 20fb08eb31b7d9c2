/* serve/errors.c -- failures as answers. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "serve/server.h"

static const char *type_of(int http)
{
    switch (http) {
    case 400:
    case 405:
    case 413:
    case 415:
        return "invalid_request_error";
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 501:
        return "not_supported_error";
    case 503:
        return "unavailable_error";
    default:
        return "server_error";
    }
}

/* Removes a last character whose bytes do not all fit. */
static void cut_character(char *text)
{
    size_t n = strlen(text), from = n;
    while (from > 0 && (text[from - 1] & 0xC0) == 0x80)
        from--;
    const unsigned char lead = from > 0 ? (unsigned char)text[from - 1] : 0;
    const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (from > 0 && n - from + 1 < length)
        text[from - 1] = '\0';
}

serve_error serve_error_make(int http, const char *format, ...)
{
    serve_error error = {.http = http, .type = type_of(http)};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error.message, sizeof error.message, format, arguments);
    va_end(arguments);
    cut_character(error.message);
    return error;
}

serve_error serve_error_of(weft_status status, bool computed)
{
    const int http = status == WEFT_INVALID       ? computed ? 500 : 400
                     : status == WEFT_UNSUPPORTED ? 501
                     : status == WEFT_CANCELLED   ? 503
                                                  : 500;
    return serve_error_make(http, "%s", weft_error_message());
}

weft_status serve_refuse(serve_request *request, const serve_error *error)
{
    pthread_mutex_lock(&request->lock);
    if (request->error.http == 0)
        request->error = *error;
    pthread_mutex_unlock(&request->lock);
    return weft_fail(WEFT_INVALID, "%s", error->message);
}

void serve_fail(serve_request *request, const serve_error *error)
{
    const serve_api *api = request->api;
    serve_text body = {0};
    pthread_mutex_lock(&request->lock);
    const bool streams = request->streams;
    request->failing = true;
    pthread_mutex_unlock(&request->lock);
    if (streams && api->send_error != NULL) {
        api->send_error(request, error);
    } else {
        api->error(error, &body);
        if (streams)
            serve_send(request, api->named ? "error" : NULL, &body);
        else
            serve_reply(request, error->http, "application/json", &body);
    }
    if (streams)
        serve_close(request);
}
