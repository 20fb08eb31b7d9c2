/* tests/serve/test_serve_load.c -- serve/: many clients at a time, some of which disconnect, stall
 * or send malformed requests; limits; access; start and stop. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/serve/client.h"
#include "weft/batch.h"
#include "weft/memory.h"

#define ENDLESS "\"max_tokens\": 100000, \"ignore_eos\": true"

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* An answer of all positions takes less than a second, and 100 seconds while this is set: longer
 * than the case waits. */
static atomic_bool slow;

/* Replaces the library's function, and calls it. */
weft_status weft_running_batch_advance(weft_running_batch *batch, bool *more)
{
    weft_status (*real)(weft_running_batch *, bool *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "weft_running_batch_advance");
    for (int i = 0; i < 20 && atomic_load(&slow); i++)
        pause_ms(5);
    return real(batch, more);
}

/* A server whose steps are slow. */
static serve_server *slow_server(serve_options options)
{
    atomic_store(&slow, true);
    return client_server(options);
}

/* Waits until a metric is in a range. */
static bool reaches_range(int port, const char *name, double low, double high)
{
    for (int i = 0; i < 12000; i++) {
        const double value = client_metric(port, name);
        if (value >= low && value <= high)
            return true;
        pause_ms(10);
    }
    return false;
}

static bool reaches(int port, const char *name, double value)
{
    return reaches_range(port, name, value, value);
}

static void stop_server(serve_server *server, double seconds)
{
    atomic_store(&slow, false);
    serve_stop(server, seconds);
}

/* ---- many clients --------------------------------------------------------------------------- */

enum { CLIENTS = 8, ROUNDS = 6, PROMPTS = 4 };

static const char *const prompts[PROMPTS] = {"Once upon a time", "A cat and a dog", "The sun",
                                             "Lily had a red ball and"};

typedef struct client {
    pthread_t thread;
    int port, number;
    char *const *alone;
    int wrong, lost;
} client;

/* The texts of a stream of completions, joined. */
static char *join(char *body)
{
    char *text = weft_strdup(""), *data = NULL;
    for (char *at = client_event(body, &data); at != NULL; at = client_event(at, &data)) {
        json_object *event = data[0] == '{' ? json_tokener_parse(data) : NULL;
        const char *piece = client_text(event, "choices.0.text");
        char *longer = weft_format("%s%s", text, piece != NULL ? piece : "");
        weft_free(text);
        text = longer;
        json_object_put(event);
    }
    return text;
}

static void ask_right(client *c, int prompt, bool stream)
{
    char *body = weft_format("{\"prompt\": \"%s\", \"temperature\": 0, \"max_tokens\": 24, "
                             "\"stream\": %s}",
                             prompts[prompt], stream ? "true" : "false");
    client_reply r = client_ask(c->port, "POST", "/v1/completions", body);
    json_object *root = !stream && r.body != NULL ? json_tokener_parse(r.body) : NULL;
    char *text = stream && r.body != NULL ? join(r.body) : NULL;
    const char *got = stream ? text : client_text(root, "choices.0.text");
    c->lost += r.status != 200 || got == NULL;
    c->wrong += got != NULL && strcmp(got, c->alone[prompt]) != 0;
    json_object_put(root);
    weft_free(text);
    weft_free(body);
    client_free(&r);
}

/* Disconnects without reading the answer. */
static void ask_and_go(const client *c, bool stream)
{
    char *body = weft_format("{\"prompt\": \"Once\", " ENDLESS ", \"stream\": %s}",
                             stream ? "true" : "false");
    const int s = client_open(c->port, "POST", "/v1/completions", NULL, body);
    pause_ms(5 * (c->number + 1));
    if (s >= 0)
        close(s);
    weft_free(body);
}

static void ask_wrong(client *c)
{
    client_reply r = client_ask(c->port, "POST", "/v1/completions", "{\"prompt\": [[]]}");
    c->lost += r.status != 400;
    client_free(&r);
}

static void *run_client(void *context)
{
    client *c = context;
    for (int i = 0; i < ROUNDS; i++) {
        switch ((c->number + i) % 4) {
        case 0:
            ask_and_go(c, i % 2 == 0);
            break;
        case 1:
            ask_wrong(c);
            break;
        default:
            ask_right(c, (c->number + i) % PROMPTS, i % 2 == 0);
        }
    }
    return NULL;
}

static void clients_get_the_answers_that_they_get_alone(void)
{
    client clients[CLIENTS];
    char *alone[PROMPTS];
    serve_server *server = client_server((serve_options){.rows = 4});
    if (server == NULL)
        return;
    for (int i = 0; i < PROMPTS; i++)
        alone[i] = client_alone(prompts[i], &(weft_generate_options){.max_tokens = 24});
    atomic_store(&slow, true);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (client){.port = serve_port(server), .number = i, .alone = alone};
        CHECK_EQ_INT(pthread_create(&clients[i].thread, NULL, run_client, &clients[i]), 0);
    }
    CHECK(reaches_range(serve_port(server), "n_rows_max", 2, 4));
    atomic_store(&slow, false);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        CHECK_EQ_INT(clients[i].wrong, 0);
        CHECK_EQ_INT(clients[i].lost, 0);
    }
    CHECK(reaches(serve_port(server), "requests_processing", 0));
    CHECK(reaches(serve_port(server), "requests_deferred", 0));
    for (int i = 0; i < PROMPTS; i++)
        weft_free(alone[i]);
    serve_stop(server, 5);
}

/* ---- clients that disconnect or stall ------------------------------------------------------- */

/* Clients disconnect: one that has the only row, during a stream and during a plain request, and
 * one that waits for the row. */
static void clients_that_go_free_their_rows(void)
{
    serve_server *server = slow_server((serve_options){.rows = 1});
    if (server == NULL)
        return;
    const int port = serve_port(server);
    for (int i = 0; i < 2; i++) {
        char *body = weft_format("{\"prompt\": \"Once\", " ENDLESS ", \"stream\": %s, \"n\": 1}",
                                 i == 0 ? "true" : "false");
        const int first = client_open(port, "POST", "/v1/completions", NULL, body);
        CHECK(reaches(port, "requests_processing", 1));
        const int second = client_open(port, "POST", "/v1/completions", NULL, body);
        CHECK(reaches(port, "requests_deferred", 1));
        close(second);
        CHECK(reaches(port, "requests_deferred", 0));
        CHECK_EQ_INT(send(first, "x", 1, MSG_NOSIGNAL), 1); /* hides no end of the connection */
        close(first);
        CHECK(reaches(port, "requests_processing", 0));
        weft_free(body);
    }
    CHECK(client_metric(port, "requests_cut_off_total") >= 2);
    CHECK(client_metric(port, "tokens_predicted_total") < 1000); /* a whole answer has 1,023 */
    stop_server(server, 5);
}

/* A client that reads nothing is disconnected once too much waits for it, and others are served
 * meanwhile. */
static void clients_that_stall_stop_only_their_own_rows(void)
{
    serve_server *server = slow_server((serve_options){.rows = 16, .unread = 64 << 10});
    if (server == NULL)
        return;
    const int port = serve_port(server);
    const int s = client_open(port, "POST", "/v1/completions", NULL,
                              "{\"prompt\": \"Once\", \"n\": 15, \"logprobs\": 20, " ENDLESS
                              ", \"stream\": true}");
    CHECK(reaches(port, "requests_processing", 15));
    atomic_store(&slow, false);
    client_reply r =
        client_ask(port, "POST", "/v1/completions", "{\"prompt\": \"A\", \"max_tokens\": 3}");
    CHECK_EQ_INT(r.status, 200);
    client_free(&r);
    CHECK(reaches(port, "requests_processing", 0));
    r = client_read(s);
    CHECK_EQ_INT(r.status, 200);
    CHECK(r.body != NULL && strstr(r.body, "[DONE]") == NULL);
    client_free(&r);
    stop_server(server, 5);
}

static void silent_streams_get_comments(void)
{
    serve_server *server = slow_server((serve_options){.rows = 1, .ping = 0.05});
    if (server == NULL)
        return;
    const int port = serve_port(server);
    const int first =
        client_open(port, "POST", "/v1/completions", NULL, "{\"prompt\": \"A\", " ENDLESS "}");
    CHECK(reaches(port, "requests_processing", 1));
    const int second = client_open(port, "POST", "/v1/completions", NULL,
                                   "{\"prompt\": \"A\", \"stream\": true, \"max_tokens\": 2}");
    char head[1024] = "";
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && strstr(head, ": ping\n\n") == NULL; n += (size_t)got) {
        got = recv(second, head + n, sizeof head - 1 - n, 0);
        if (!CHECK(got > 0))
            break;
    }
    close(first);
    client_reply r = client_read(second);
    CHECK_CONTAINS(r.head, "data: [DONE]"); /* it begins in the middle */
    client_free(&r);
    stop_server(server, 5);
}

/* A request that waits for the only row until its time limit ends like one that is being
 * computed. */
static void late_answers_end_with_what_they_have(void)
{
    serve_server *server = client_server((serve_options){.rows = 1, .timeout = 0.2});
    if (server == NULL)
        return;
    int s[2];
    for (int i = 0; i < 2; i++)
        s[i] = client_open(serve_port(server), "POST", "/v1/completions", NULL,
                           "{\"prompt\": [300], \"logprobs\": 20, " ENDLESS "}");
    for (int i = 0; i < 2; i++) {
        client_reply r = client_read(s[i]);
        CHECK_EQ_INT(r.status, 200);
        CHECK_CONTAINS(r.body, "\"finish_reason\": \"length\"");
        client_free(&r);
    }
    CHECK(client_metric(serve_port(server), "tokens_predicted_total") < 1000);
    serve_stop(server, 1);
}

/* Four requests hold nearly all bytes that values may take together. */
static void what_requests_hold_is_bounded(void)
{
    serve_server *server = slow_server((serve_options){.rows = 1, .body = 1024});
    if (server == NULL)
        return;
    const int port = serve_port(server);
    char body[1024];
    int s[4];
    snprintf(body, sizeof body, "{\"prompt\": \"A\", " ENDLESS ", \"x\": [");
    for (int i = 0; i < 23; i++)
        strcat(body, "{},");
    strcat(body, "0]}");
    for (int i = 0; i < 4; i++)
        s[i] = client_open(port, "POST", "/v1/completions", NULL, body);
    CHECK(reaches(port, "requests_deferred", 3));
    client_reply r = client_ask(port, "POST", "/v1/completions", body);
    CHECK_EQ_INT(r.status, 503);
    CHECK_CONTAINS(r.body, "too much data");
    client_free(&r);
    for (int i = 0; i < 4; i++)
        close(s[i]);
    CHECK(reaches(port, "requests_processing", 0));
    r = client_ask(port, "POST", "/v1/completions", "{\"prompt\": \"A\", \"max_tokens\": 1}");
    CHECK_EQ_INT(r.status, 200);
    client_free(&r);
    stop_server(server, 1);
}

static void sequences_have_a_limit(void)
{
    serve_server *server = slow_server((serve_options){.rows = 1, .requests = 2});
    if (server == NULL)
        return;
    const int port = serve_port(server);
    const int s = client_open(
        port, "POST", "/v1/completions", NULL,
        "{\"prompt\": [\"A\", \"B\", \"C\", \"D\", \"E\", \"F\", \"G\", \"H\"], " ENDLESS "}");
    CHECK(reaches(port, "requests_deferred", 7));
    client_reply r = client_ask(port, "POST", "/v1/completions", "{\"prompt\": \"A\"}");
    CHECK_EQ_INT(r.status, 503);
    CHECK_CONTAINS(r.body, "too many sequences");
    client_free(&r);
    close(s);
    CHECK(reaches(port, "requests_processing", 0));
    stop_server(server, 1);
}

static int status_of(int s)
{
    client_reply r = client_read(s);
    const int status = r.status;
    client_free(&r);
    return status;
}

/* Sends a request again if it was cut off, since a thread may have been late. */
static int status_in_time(int port, const char *headers, const char *body)
{
    int status = 0;
    for (int i = 0; i < 20 && status == 0; i++)
        status = status_of(client_open(port, "POST", "/v1/completions", headers, body));
    return status;
}

/* Requests whose bodies come slowly: without a key, and with one. Neither blocks other clients. The
 * former is answered before its body if that is long, and the latter is cut off. */
static void slow_bodies_keep_nobody_out(void)
{
    static const char *const keys[] = {"key"};
    serve_server *server = client_server(
        (serve_options){.rows = 1, .requests = 1, .keys = keys, .n_keys = 1, .upload = 0.3});
    if (server == NULL)
        return;
    const int port = serve_port(server);
#define KEY "Authorization: Bearer key\r\n"
    static const char answered[] = "{\"prompt\": \"A\", \"max_tokens\": 1}";
    const int first = client_open(port, "POST", "/v1/completions", "Content-Length: 100\r\n", NULL);
    CHECK_EQ_INT(status_in_time(port, "Content-Length: 100000\r\n", NULL), 401);
    CHECK_EQ_INT(status_in_time(port, KEY, answered), 200);
    const int second =
        client_open(port, "POST", "/v1/completions", KEY "Content-Length: 100\r\n", NULL);
    CHECK_EQ_INT(status_of(first), 0);
    CHECK_EQ_INT(status_of(second), 0);
    CHECK_EQ_INT(status_in_time(port, KEY, answered), 200);
    serve_stop(server, 1);
}

/* Clients that send a part of a request and disconnect. Their connections are freed at once, so
 * others are served: the number of clients is several times the limit. */
static void clients_that_go_early_free_their_connections(void)
{
    enum { GONE = 64 };
    static const char *const parts[] = {"Content-Length: 1000\r\n",
                                        "Transfer-Encoding: chunked\r\n"};
    serve_server *server = client_server((serve_options){.rows = 1, .connections = 8});
    if (server == NULL)
        return;
    const int port = serve_port(server);
    for (int i = 0; i < GONE; i++) {
        const int s = client_open(port, "POST", "/v1/completions", parts[i % 2], NULL);
        CHECK_EQ_INT(send(s, "{", 1, MSG_NOSIGNAL), 1);
        close(s);
    }
    CHECK(reaches(port, "requests_cut_off_total", GONE));
    client_reply r =
        client_ask(port, "POST", "/v1/completions", "{\"prompt\": \"A\", \"max_tokens\": 1}");
    CHECK_EQ_INT(r.status, 200);
    client_free(&r);
    serve_stop(server, 1);
}

/* ---- access --------------------------------------------------------------------------------- */

static int status_with(int at, const char *method, const char *path, const char *headers)
{
    return status_of(client_open(at, method, path, headers, NULL));
}

static void keys_hosts_and_origins_are_checked(void)
{
    static const char *const keys[] = {"first-key", "second"}, *const hosts[] = {"box.example"},
                             *const origins[] = {"https://page.example"};
    serve_server *server = client_server((serve_options){.keys = keys,
                                                         .n_keys = 2,
                                                         .hosts = hosts,
                                                         .n_hosts = 1,
                                                         .origins = origins,
                                                         .n_origins = 1});
    if (server == NULL)
        return;
    const int at = serve_port(server);
#define SECOND "Authorization: Bearer second\r\n"
    CHECK_EQ_INT(status_with(at, "GET", "/health", NULL), 200);
    CHECK_EQ_INT(status_with(at, "GET", "/v1/models", NULL), 401);
    CHECK_EQ_INT(status_with(at, "GET", "/nothing", NULL), 401);
    CHECK_EQ_INT(status_with(at, "GET", "/v1/models", "Authorization: Bearer secon\r\n"), 401);
    CHECK_EQ_INT(status_with(at, "GET", "/v1/models", "Authorization: Bearer \r\n"), 401);
    CHECK_EQ_INT(status_with(at, "GET", "/v1/models", SECOND), 200);
    CHECK_EQ_INT(status_with(at, "GET", "/v1/models", "x-api-key: first-key\r\n"), 200);
    CHECK_EQ_INT(status_with(at, "GET", "/v1/models", SECOND "Host: box.example:99\r\n"), 200);
    CHECK_EQ_INT(status_with(at, "GET", "/v1/models", SECOND "Host: 192.168.0.5\r\n"), 200);
    CHECK_EQ_INT(status_with(at, "GET", "/v1/models", SECOND "Host: [::1]:8080\r\n"), 200);
    CHECK_EQ_INT(status_with(at, "GET", "/health", "Host: evil.example\r\n"), 403);
    CHECK_EQ_INT(status_with(at, "GET", "/health", "Origin: https://evil.example\r\n"), 403);
    CHECK_EQ_INT(status_with(at, "GET", "/health", "Origin: null\r\n"), 403);
    CHECK_EQ_INT(status_with(at, "GET", "/health", "Origin: http://localhost\r\n"), 200);
    client_reply r = client_read(client_open(at, "OPTIONS", "/v1/chat/completions",
                                             SECOND "Origin: https://page.example\r\n", NULL));
    CHECK_EQ_INT(r.status, 204);
    CHECK_CONTAINS(r.head, "Access-Control-Allow-Origin: https://page.example");
    client_free(&r);
    CHECK_EQ_INT(
        status_with(at, "OPTIONS", "/v1/chat/completions", "Origin: https://page.example\r\n"),
        204);
    CHECK_EQ_INT(
        status_with(at, "OPTIONS", "/v1/chat/completions", "Origin: https://evil.example\r\n"),
        403);
    r = client_read(client_open(at, "GET", "/health", NULL, NULL));
    CHECK(r.head != NULL && strstr(r.head, "Access-Control") == NULL);
    client_free(&r);
    serve_stop(server, 1);
}

/* ---- starting ------------------------------------------------------------------------------- */

static atomic_int loading;

static weft_status wait_and_fail(void *context, serve_model *out)
{
    (void)context;
    (void)out;
    while (atomic_load(&loading))
        pause_ms(1);
    return weft_fail(WEFT_IO, "model: it is not there");
}

static void requests_are_refused_while_the_model_loads(void)
{
    const serve_options o = {.load = wait_and_fail, .name = "x"};
    serve_server *server = NULL, *second = NULL;
    bool ready = true;
    atomic_store(&loading, 1);
    if (!CHECK_OK(serve_start(&o, &server)))
        return;
    const int at = serve_port(server);
    CHECK_EQ_INT(status_with(at, "GET", "/health", NULL), 503);
    CHECK_EQ_INT(status_with(at, "POST", "/v1/chat/completions", NULL), 503);
    CHECK_EQ_INT(status_with(at, "GET", "/metrics", NULL), 200);
    CHECK_OK(serve_state(server, &ready));
    CHECK(!ready);
    serve_options same = o;
    same.port = at;
    CHECK_STATUS(serve_start(&same, &second), WEFT_IO);
    same.host = "no address";
    CHECK_STATUS(serve_start(&same, &second), WEFT_INVALID);
    atomic_store(&loading, 0);
    weft_status status = WEFT_OK;
    for (int i = 0; i < 12000 && status == WEFT_OK; i++) {
        status = serve_state(server, &ready);
        pause_ms(10);
    }
    CHECK_EQ_INT(status, WEFT_IO);
    CHECK_STR(weft_error_message(), "model: it is not there");
    serve_stop(server, 0);
}

/* ---- pages ---------------------------------------------------------------------------------- */

/* Sequences that do not fit together are set back, and get the same answers as alone. */
static void few_pages_change_no_answer(void)
{
    enum { N = 3 };
    serve_server *server = slow_server((serve_options){.rows = N, .cache_tokens = 3 * 256});
    if (server == NULL)
        return;
    const int port = serve_port(server);
    int s[N];
    for (int i = 0; i < N; i++) {
        char *body = weft_format("{\"prompt\": \"%s\", \"max_tokens\": 300, \"temperature\": 0, "
                                 "\"ignore_eos\": true}",
                                 prompts[i]);
        s[i] = client_open(port, "POST", "/v1/completions", NULL, body);
        weft_free(body);
    }
    CHECK(reaches(port, "requests_processing", N));
    atomic_store(&slow, false);
    for (int i = 0; i < N; i++) {
        client_reply r = client_read(s[i]);
        json_object *answer = json_tokener_parse(r.body);
        const weft_generate_options o = {.max_tokens = 300, .ignore_eos = true};
        char *alone = client_alone(prompts[i], &o);
        CHECK_EQ_INT(r.status, 200);
        CHECK_STR(client_text(answer, "choices.0.text"), alone);
        weft_free(alone);
        json_object_put(answer);
        client_free(&r);
    }
    CHECK(client_metric(port, "requests_set_back_total") > 0);
    CHECK(client_metric(port, "kv_cache_tokens_max") == 3 * 256);
    CHECK(reaches(port, "kv_cache_tokens", 0));
    stop_server(server, 1);
}

/* ---- stopping ------------------------------------------------------------------------------- */

static void the_end_cancels_what_is_late(void)
{
    serve_server *server = slow_server((serve_options){.rows = 2, .requests = 3});
    if (server == NULL)
        return;
    const int port = serve_port(server);
    int s[3];
    for (int i = 0; i < 3; i++)
        s[i] = client_open(port, "POST", i == 0 ? "/v1/responses" : "/v1/completions", NULL,
                           i == 0 ? "{\"input\": \"A\", " ENDLESS ", \"stream\": true}"
                                  : "{\"prompt\": \"A\", " ENDLESS "}");
    CHECK(reaches(port, "requests_processing", 2) && reaches(port, "requests_deferred", 1));
    client_reply fourth = client_ask(port, "POST", "/v1/completions", "{\"prompt\": \"A\"}");
    CHECK_EQ_INT(fourth.status, 503);
    CHECK_CONTAINS(fourth.body, "too many requests");
    client_free(&fourth);
    serve_stop(server, 0.05);
    atomic_store(&slow, false);
    for (int i = 0; i < 3; i++) {
        client_reply r = client_read(s[i]);
        CHECK_EQ_INT(r.status, i == 0 ? 200 : 503);
        CHECK_CONTAINS(r.body, "unavailable_error");
        if (i == 0) { /* a stream of responses ends with both */
            CHECK_CONTAINS(r.body,
                           "event: error\ndata: {\"type\": \"error\", \"sequence_number\": ");
            CHECK_CONTAINS(r.body, "event: response.failed\ndata: {");
            CHECK_CONTAINS(r.body, "\"status\": \"failed\"");
        }
        client_free(&r);
    }
}

CHECK_MAIN("serve_load", CHECK_CASE(clients_get_the_answers_that_they_get_alone),
           CHECK_CASE(clients_that_go_free_their_rows),
           CHECK_CASE(clients_that_stall_stop_only_their_own_rows),
           CHECK_CASE(silent_streams_get_comments),
           CHECK_CASE(late_answers_end_with_what_they_have),
           CHECK_CASE(what_requests_hold_is_bounded), CHECK_CASE(sequences_have_a_limit),
           CHECK_CASE(slow_bodies_keep_nobody_out),
           CHECK_CASE(clients_that_go_early_free_their_connections),
           CHECK_CASE(keys_hosts_and_origins_are_checked),
           CHECK_CASE(requests_are_refused_while_the_model_loads),
           CHECK_CASE(few_pages_change_no_answer), CHECK_CASE(the_end_cancels_what_is_late))
