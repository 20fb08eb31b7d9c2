/* serve/http.c -- requests and answers by libmicrohttpd. Its threads never wait: a connection
 * without anything to send is suspended, and resumed when there is. */
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "serve/server.h"
#include "weft/memory.h"

enum { THREADS = 4, HEADERS = 64 << 10, UNSENT = 128 << 10, SHORT = 64 << 10 };

/* ---- requests ------------------------------------------------------------------------------- */

void serve_request_keep(serve_request *request)
{
    atomic_fetch_add(&request->references, 1);
}

static void free_choice(serve_choice *c)
{
    weft_free(c->ids);
    serve_text_free(&c->prompt);
    serve_text_free(&c->text);
    serve_text_free(&c->reasoning);
    serve_text_free(&c->document);
    serve_text_free(&c->prompt_logprobs);
    serve_text_free(&c->logprobs);
    serve_text_free(&c->pending);
    for (size_t i = 0; i < c->n_calls; i++) {
        weft_free(c->calls[i].name);
        weft_free(c->calls[i].arguments);
    }
    weft_free(c->calls);
}

void serve_request_drop(serve_request *request)
{
    if (atomic_fetch_sub(&request->references, 1) > 1)
        return;
    for (size_t i = 0; i < request->n_choices; i++)
        free_choice(&request->choices[i]);
    weft_free(request->choices);
    weft_free(request->url);
    weft_free(request->path);
    serve_settings_free(&request->settings);
    serve_adapter_drop(request->server, request->adapter);
    json_object_put(request->json);
    json_object_put(request->tools);
    serve_text_free(&request->body);
    serve_text_free(&request->out);
    serve_text_free(&request->items);
    weft_cancel_free(request->cancel);
    atomic_fetch_sub(&request->server->held, atomic_load(&request->held));
    pthread_mutex_destroy(&request->lock);
    pthread_mutex_destroy(&request->sharing);
    weft_free(request);
}

const char *serve_query(const serve_request *r, const char *key)
{
    return r->connection != NULL
               ? MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, key)
               : NULL;
}

static serve_request *new_request(serve_server *server, struct MHD_Connection *connection)
{
    serve_request *r = weft_calloc(1, sizeof *r);
    weft_cancel *cancel = weft_cancel_new();
    if (r == NULL || cancel == NULL) {
        weft_free(r);
        weft_cancel_free(cancel);
        return NULL;
    }
    *r = (serve_request){
        .server = server,
        .connection = connection,
        .socket =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
        .api = &serve_chat_api,
        .content_type = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Type"),
        .created = (int64_t)time(NULL),
        .start = serve_seconds(),
        .cancel = cancel,
        .references = 1,
        .last = serve_seconds()};
    pthread_mutex_init(&r->lock, NULL);
    pthread_mutex_init(&r->sharing, NULL);
    pthread_mutex_lock(&server->lock);
    r->next = server->requests;
    if (r->next != NULL)
        r->next->before = r;
    server->requests = r;
    server->n_requests++;
    server->counts.requests++;
    pthread_mutex_unlock(&server->lock);
    return r;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Lets libmicrohttpd go on with the connection. The lock is held, so that it is not in the middle
 * of suspending it. */
static void wake(serve_request *r)
{
    if (r->suspended) {
        r->suspended = false;
        MHD_resume_connection(r->connection);
    }
}

void serve_write(serve_request *r, const char *at, size_t n)
{
    pthread_mutex_lock(&r->lock);
    if (r->streams && !r->stalled && !r->done && !r->gone) {
        serve_text_add(&r->out, at, n);
        r->stalled = r->out.failed || r->out.n - r->sent > (size_t)r->server->options.unread;
    }
    const bool stalled = r->stalled;
    wake(r);
    pthread_mutex_unlock(&r->lock);
    if (stalled)
        weft_cancel_set(r->cancel);
}

void serve_lose_event(serve_request *r)
{
    const serve_error error = serve_error_make(500, "out of memory for an event");
    pthread_mutex_lock(&r->lock);
    r->stalled = r->stalled || r->failing; /* no memory for the error's event either */
    if (r->error.http == 0)
        r->error = error;
    pthread_mutex_unlock(&r->lock);
    weft_cancel_set(r->cancel);
}

void serve_send(serve_request *r, const char *name, serve_text *data)
{
    serve_text event = {0};
    if (name != NULL) {
        serve_text_add(&event, "event: ", 7);
        serve_text_add(&event, name, strlen(name));
        serve_text_add(&event, "\n", 1);
    }
    serve_text_add(&event, "data: ", 6);
    serve_text_add(&event, data->at != NULL ? data->at : "", data->n);
    serve_text_add(&event, "\n\n", 2);
    if (event.failed || data->failed)
        serve_lose_event(r);
    pthread_mutex_lock(&r->lock);
    const bool goes = r->error.http == 0 || r->failing; /* nothing follows a lost event */
    r->last = serve_seconds();
    pthread_mutex_unlock(&r->lock);
    if (goes && !event.failed && !data->failed)
        serve_write(r, event.at, event.n);
    serve_text_free(&event);
    serve_text_free(data);
}

void serve_begin_stream(serve_request *r)
{
    pthread_mutex_lock(&r->lock);
    if (r->http == 0) {
        r->http = 200;
        r->type = "text/event-stream";
        r->streams = true;
        r->last = serve_seconds();
        wake(r);
    }
    pthread_mutex_unlock(&r->lock);
}

void serve_close(serve_request *r)
{
    pthread_mutex_lock(&r->lock);
    r->done = true;
    wake(r);
    pthread_mutex_unlock(&r->lock);
}

void serve_reply(serve_request *r, int http, const char *type, serve_text *body)
{
    static const char none[] = "{\"error\": {\"code\": 500, \"message\": \"out of memory\", "
                               "\"type\": \"server_error\"}}";
    if (body->failed) {
        serve_text_free(body);
        serve_text_add(body, none, sizeof none - 1);
        http = 500;
    }
    pthread_mutex_lock(&r->lock);
    if (r->http == 0) {
        r->http = http;
        r->type = type;
        r->out = *body;
        *body = (serve_text){0};
    }
    r->done = true;
    wake(r);
    pthread_mutex_unlock(&r->lock);
    serve_text_free(body);
}

/* ---- answers -------------------------------------------------------------------------------- */

/* libmicrohttpd asks for the next bytes of a stream. */
static ssize_t read_stream(void *context, uint64_t position, char *to, size_t most)
{
    serve_request *r = context;
    ssize_t n = 0;
    (void)position;
    pthread_mutex_lock(&r->lock);
    const size_t left = r->out.n - r->sent;
    if (left > 0) {
        n = (ssize_t)(left < most ? left : most);
        memcpy(to, r->out.at + r->sent, (size_t)n);
        r->sent += (size_t)n;
        if (r->sent > r->out.n / 2) { /* the rest, with its NUL */
            r->out.n -= r->sent;
            memmove(r->out.at, r->out.at + r->sent, r->out.n + 1);
            r->sent = 0;
        }
    } else if (r->stalled || r->gone) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (r->done) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        r->suspended = true;
        MHD_suspend_connection(r->connection);
    }
    pthread_mutex_unlock(&r->lock);
    return n;
}

static void add_headers(const serve_request *r, struct MHD_Response *response)
{
    const char *origin = serve_guard_origin(r->server, r->connection);
    char policy[512];
    if (r->nonce[0] != '\0') {
        serve_page_policy(r, policy, sizeof policy);
        MHD_add_response_header(response, "Content-Security-Policy", policy);
        MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    }
    MHD_add_response_header(response, "Content-Type", r->type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cache-Control", r->streams ? "no-cache" : "no-store");
    if (r->streams)
        MHD_add_response_header(response, "X-Accel-Buffering", "no");
    if (r->closes)
        MHD_add_response_header(response, "Connection", "close");
    if (r->http == 401)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (r->http == 503)
        MHD_add_response_header(response, "Retry-After", "1");
    if (origin != NULL) {
        MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
        MHD_add_response_header(response, "Access-Control-Allow-Headers", "*, Authorization");
        MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST, DELETE");
        MHD_add_response_header(response, "Vary", "Origin");
    }
}

/* Sends the answer, or suspends the connection until there is one. Without the lock, as
 * libmicrohttpd holds one of its own when it calls read_stream. */
static enum MHD_Result answer(serve_request *r)
{
    pthread_mutex_lock(&r->lock);
    const bool waits = r->http == 0, streams = r->streams;
    if (waits) {
        r->suspended = true;
        MHD_suspend_connection(r->connection);
    }
    pthread_mutex_unlock(&r->lock);
    if (waits)
        return MHD_YES;
    struct MHD_Response *response =
        streams
            ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 << 10, read_stream, r, NULL)
            : MHD_create_response_from_buffer(r->out.n, r->out.at != NULL ? r->out.at : "",
                                              MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO;
    add_headers(r, response);
    const enum MHD_Result result = MHD_queue_response(r->connection, (unsigned)r->http, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- receiving ------------------------------------------------------------------------------ */

/* Counts a request that needs the model, unless too many are counted. */
static serve_error admit(serve_request *r)
{
    serve_server *server = r->server;
    pthread_mutex_lock(&server->lock);
    const bool ready = server->ready, stopping = server->stopping, loads = r->route->loads;
    const bool full = server->n_admitted >= (size_t)server->options.requests;
    r->admitted = loads && ready && !stopping && !full;
    server->n_admitted += r->admitted;
    pthread_mutex_unlock(&server->lock);
    if (stopping)
        return serve_error_make(503, "the server is shutting down");
    if (!ready && loads)
        return serve_error_make(503, "the model is being loaded");
    if (full && loads)
        return serve_error_make(503, "too many requests are waiting");
    return (serve_error){0};
}

/* A proxy and this server may disagree about the end or the host of a request that repeats these
 * headers, or whose names contain blanks. */
typedef struct framing {
    int hosts, lengths, codings, blanks;
} framing;

static enum MHD_Result count_header(void *context, enum MHD_ValueKind kind, const char *key,
                                    const char *value)
{
    framing *n = context;
    (void)kind;
    (void)value;
    n->hosts += strcasecmp(key, "Host") == 0;
    n->lengths += strcasecmp(key, "Content-Length") == 0;
    n->codings += strcasecmp(key, "Transfer-Encoding") == 0;
    n->blanks += strpbrk(key, " \t") != NULL;
    return MHD_YES;
}

static const char *header(const serve_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

/* Sets r->closes, also if another error comes first: what follows such a request is not read. */
static serve_error check_framing(serve_request *r)
{
    const char *coding = header(r, "Transfer-Encoding");
    const bool other = coding != NULL && strcasecmp(coding, "chunked") != 0;
    framing n = {0};
    MHD_get_connection_values(r->connection, MHD_HEADER_KIND, count_header, &n);
    const bool ambiguous = n.hosts > 1 || n.lengths + n.codings > 1 || n.blanks > 0;
    r->closes = ambiguous || other;
    if (ambiguous)
        return serve_error_make(400, "expected at most one header Host, one of Content-Length and "
                                     "Transfer-Encoding, and names without blanks");
    return other ? serve_error_make(501, "Transfer-Encoding: expected chunked, got \"%s\"",
                                    weft_printable(coding))
                 : (serve_error){0};
}

static serve_error check_encoding(const serve_request *r)
{
    const char *coding = header(r, "Content-Encoding"), *length = header(r, "Content-Length");
    const bool body =
        header(r, "Transfer-Encoding") != NULL || (length != NULL && strtoll(length, NULL, 10) > 0);
    if (!body || coding == NULL || *coding == '\0' || strcasecmp(coding, "identity") == 0)
        return (serve_error){0};
    return serve_error_make(415,
                            "Content-Encoding: expected a body that is not encoded, got \"%s\"",
                            weft_printable(coding));
}

/* What is known to be wrong before the body has come. */
static serve_error check(serve_request *r, const char *method, const char *url)
{
    serve_server *server = r->server;
    const char *length = header(r, "Content-Length");
    bool known = false;
    r->route = serve_find_route(method, url, &known);
    r->url = weft_format("%s %s", weft_printable(method), weft_printable(url));
    r->path = weft_strdup(r->route != NULL ? url + strlen(r->route->path) : "");
    if (r->route != NULL && r->route->api != NULL)
        r->api = r->route->api;
    /* Browsers send no key with OPTIONS. */
    const bool asks = strcmp(method, "OPTIONS") == 0;
    const serve_error ambiguous = check_framing(r);
    serve_error error =
        serve_guard(server, r->connection, !asks && (r->route == NULL || !r->route->open));
    if (error.http == 0)
        error = ambiguous.http != 0 ? ambiguous : check_encoding(r);
    if (error.http != 0 || asks)
        return error;
    if (r->route == NULL)
        return serve_error_make(
            known ? 405 : 404, "%s %s: %s", weft_printable(method), weft_printable(url),
            known ? "this method is not supported here" : "there is no such route");
    if (length != NULL && strtoll(length, NULL, 10) > server->options.body)
        return serve_error_make(413, "the body has more than %lld bytes",
                                (long long)server->options.body);
    return admit(r);
}

/* Whether an error is answered before the body: where it is long, or its length is not known. After
 * that the connection is closed, which a client that is still writing may take for a failure. */
static bool is_early(const serve_request *r)
{
    const char *length =
        MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Content-Length");
    const char *coding =
        MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Transfer-Encoding");
    return r->error.http != 0 &&
           (r->closes || coding != NULL || (length != NULL && strtoll(length, NULL, 10) > SHORT));
}

static void run_route(serve_request *r)
{
    serve_text none = {0};
    if (r->route == NULL) { /* OPTIONS */
        serve_text_add(&none, "", 0);
        serve_reply(r, 204, "text/plain", &none);
        return;
    }
    const weft_status status = r->route->waits ? serve_start_route(r) : r->route->run(r);
    if (status != WEFT_OK) {
        const serve_error failure = serve_error_of(status, false);
        (void)serve_refuse(r, &failure);
        const serve_error error = r->error;
        serve_fail(r, &error);
    }
}

/* A further part of the body; parts of one that is too long are dropped. */
static void receive(serve_request *r, const char *data, size_t n)
{
    const size_t most = (size_t)r->server->options.body;
    if (r->error.http == 0 && r->body.n + n > most)
        r->error = serve_error_make(413, "the body has more than %zu bytes", most);
    if (r->error.http == 0 && serve_hold(r, n) == WEFT_OK)
        serve_text_add(&r->body, data, n);
    if (r->body.failed)
        r->error = serve_error_make(500, "out of memory for the body");
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data, size_t *n,
                              void **own)
{
    serve_request *r = *own;
    (void)version;
    if (r == NULL) {
        *own = r = new_request(context, connection);
        if (r == NULL)
            return MHD_NO;
        r->error = check(r, method, url);
        if (!is_early(r))
            return MHD_YES;
    } else if (*n > 0) {
        receive(r, data, *n);
        *n = 0;
        return MHD_YES;
    }
    pthread_mutex_lock(&r->lock);
    const bool handled = r->handled;
    r->handled = true;
    pthread_mutex_unlock(&r->lock);
    if (!handled) {
        if (r->error.http != 0) {
            const serve_error error = r->error;
            serve_fail(r, &error);
        } else {
            run_route(r);
        }
    }
    return answer(r);
}

/* The answer has been sent, or the client has gone. */
static void complete(void *context, struct MHD_Connection *connection, void **own,
                     enum MHD_RequestTerminationCode code)
{
    serve_server *server = context;
    serve_request *r = *own;
    (void)connection;
    if (r == NULL)
        return;
    *own = NULL;
    weft_cancel_set(r->cancel);
    pthread_mutex_lock(&server->lock);
    pthread_mutex_lock(&r->lock);
    r->gone = true;
    r->suspended = false;
    const int http = r->http;
    pthread_mutex_unlock(&r->lock);
    *(r->before != NULL ? &r->before->next : &server->requests) = r->next;
    if (r->next != NULL)
        r->next->before = r->before;
    server->n_requests--;
    server->n_admitted -= r->admitted;
    server->counts.failed += http >= 400;
    server->counts.cancelled += code != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    pthread_cond_broadcast(&server->idle);
    pthread_mutex_unlock(&server->lock);
    weft_log_message(r->route != NULL && r->route->open ? WEFT_LOG_DEBUG : WEFT_LOG_INFO,
                     "%s: %d in %.3f s", r->url != NULL ? r->url : "?", http,
                     serve_seconds() - r->start);
    serve_request_drop(r);
}

/* Bounds what the system keeps for a client that does not read. */
static void open_connection(void *context, struct MHD_Connection *connection, void **own,
                            enum MHD_ConnectionNotificationCode code)
{
    const int bytes = UNSENT;
    (void)context;
    (void)own;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        (void)setsockopt(
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
            SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

/* ---- the daemon ----------------------------------------------------------------------------- */

static void log_error(void *context, const char *format, va_list arguments)
{
    char line[512];
    (void)context;
    vsnprintf(line, sizeof line, format, arguments);
    line[strcspn(line, "\n")] = '\0';
    weft_log_message(WEFT_LOG_DEBUG, "serve: %s", line);
}

static weft_status find_address(const serve_options *o, struct addrinfo **out)
{
    char port[16];
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV | AI_NUMERICHOST};
    const char *host = strcmp(o->host, "localhost") == 0 ? "127.0.0.1" : o->host;
    snprintf(port, sizeof port, "%d", o->port);
    const int code = getaddrinfo(host, port, &hints, out);
    return code == 0 ? WEFT_OK
                     : weft_fail(WEFT_INVALID, "serve: --host %s: expected an address: %s",
                                 weft_printable(o->host), gai_strerror(code));
}

weft_status serve_http_start(serve_server *server)
{
    const serve_options *o = &server->options;
    struct addrinfo *address = NULL;
    weft_status status = find_address(o, &address);
    if (status != WEFT_OK)
        return status;
    /* With epoll, libmicrohttpd 0.9.75 overlooks clients that close together with their data. */
    const unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
                           MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                           (address->ai_family == AF_INET6 ? MHD_USE_IPv6 : 0);
    errno = 0;
    server->daemon = MHD_start_daemon(
        flags, (uint16_t)o->port, NULL, NULL, handle, server, MHD_OPTION_EXTERNAL_LOGGER, log_error,
        NULL, MHD_OPTION_NOTIFY_COMPLETED, complete, server, MHD_OPTION_NOTIFY_CONNECTION,
        open_connection, NULL, MHD_OPTION_SOCK_ADDR, address->ai_addr, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)o->connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)o->idle,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADERS, MHD_OPTION_THREAD_POOL_SIZE,
        (unsigned)THREADS, MHD_OPTION_END);
    if (server->daemon == NULL)
        status = weft_fail(WEFT_IO, "serve: cannot listen on %s port %d: %s",
                           weft_printable(o->host), o->port, strerror(errno));
    freeaddrinfo(address);
    return status;
}

int serve_port(const serve_server *server)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info != NULL ? info->port : 0;
}

void serve_http_stop(serve_server *server)
{
    if (server->daemon != NULL)
        MHD_stop_daemon(server->daemon);
    server->daemon = NULL;
}
