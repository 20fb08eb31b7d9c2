/* tests/serve/client.c -- a server of the storyteller in this process, and an HTTP client. */
#include "tests/serve/client.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"
#include "weft/adapter.h"
#include "weft/batch.h"
#include "weft/memory.h"

/* ---- the server ----------------------------------------------------------------------------- */

static weft_status load(void *context, serve_model *out)
{
    const char *folder = context;
    const weft_model_options options = {.dtype = WEFT_FLOAT32};
    weft_status status = weft_model_load(folder, &options, &out->model);
    if (status == WEFT_OK)
        status = weft_tokenizer_load(folder, &out->tokenizer);
    if (status == WEFT_OK)
        status = weft_chat_builtin("chatml", NULL, out->tokenizer, &out->chat);
    return status;
}

serve_server *client_server(serve_options options)
{
    static char folder[512];
    serve_server *server = NULL;
    bool ready = false;
    snprintf(folder, sizeof folder, "%s", check_source("examples/storyteller"));
    if (options.load == NULL) {
        options.load = load;
        options.context = folder;
    }
    options.name = "storyteller";
    if (!CHECK_OK(serve_start(&options, &server)))
        return NULL;
    for (int i = 0; i < 12000 && !ready && serve_state(server, &ready) == WEFT_OK; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    CHECK_OK(serve_state(server, &ready));
    if (CHECK(ready))
        return server;
    serve_stop(server, 0);
    return NULL;
}

char *client_alone(const char *prompt, const weft_generate_options *options)
{
    return client_alone_with(NULL, prompt, options);
}

char *client_alone_with(const char *adapter, const char *prompt,
                        const weft_generate_options *options)
{
    serve_model m = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    char *text = NULL;
    weft_generated_row row = {0};
    const char *folder = check_source("examples/storyteller");
    if (CHECK_OK(load((void *)folder, &m)) &&
        (adapter == NULL || CHECK_OK(weft_adapter_load(m.model, adapter, NULL))) &&
        CHECK_OK(weft_tokenizer_encode(m.tokenizer, prompt, strlen(prompt),
                                       WEFT_TOKENIZER_ADD_SPECIAL, &ids, &n))) {
        const weft_generate_request request = {.prompt = {ids, n}, .options = options};
        CHECK_OK(weft_generate_batch(m.model, m.tokenizer, &request, 1, NULL, NULL, NULL, &row));
        text = weft_strdup(row.text);
    }
    weft_generated_rows_free(&row, 1);
    weft_free(ids);
    weft_chat_free(m.chat);
    weft_tokenizer_free(m.tokenizer);
    weft_model_free(m.model);
    return text;
}

/* ---- HTTP ----------------------------------------------------------------------------------- */

int client_open(int port, const char *method, const char *path, const char *headers,
                const char *body)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int s = socket(AF_INET, SOCK_STREAM, 0), window = 32 << 10;
    const size_t n = body != NULL ? strlen(body) : 0;
    char sized[48] = "";
    if (headers == NULL || (strstr(headers, "Content-Length:") == NULL &&
                            strstr(headers, "Transfer-Encoding:") == NULL))
        snprintf(sized, sizeof sized, "Content-Length: %zu\r\n", n);
    char *text = weft_format(
        "%s %s HTTP/1.1\r\n%s%s%s%s\r\n%s", method, path,
        headers != NULL && strstr(headers, "Host:") ? "" : "Host: localhost\r\n",
        headers != NULL ? headers : "",
        headers != NULL && strstr(headers, "Connection:") ? "" : "Connection: close\r\n", sized,
        body != NULL ? body : "");
    (void)setsockopt(s, SOL_SOCKET, SO_RCVBUF, &window, sizeof window); /* a stalled one fills it */
    const bool connected =
        s >= 0 && text != NULL && connect(s, (const struct sockaddr *)&to, sizeof to) == 0;
    for (size_t at = 0, length = connected ? strlen(text) : 0; at < length;) {
        const ssize_t m = send(s, text + at, length - at, MSG_NOSIGNAL);
        if (m <= 0) /* the server may have answered already */
            break;
        at += (size_t)m;
    }
    weft_free(text);
    if (connected || s < 0)
        return s;
    close(s);
    return -1;
}

/* Joins the chunks of a body in place. */
static size_t join_chunks(char *body, size_t n)
{
    size_t to = 0;
    for (char *at = body; at < body + n;) {
        char *end = NULL;
        const unsigned long size = strtoul(at, &end, 16);
        if (end == at || size == 0 || end + 2 + size > body + n)
            break;
        memmove(body + to, end + 2, size);
        to += size;
        at = end + 2 + size + 2;
    }
    body[to] = '\0';
    return to;
}

client_reply client_read(int s)
{
    client_reply r = {0};
    char *all = NULL;
    size_t n = 0, room = 0;
    for (ssize_t got = 1; s >= 0 && got > 0;) {
        if (n + 65536 > room) {
            room = 2 * room + 65536;
            char *moved = realloc(all, room + 1);
            if (moved == NULL)
                break;
            all = moved;
        }
        got = recv(s, all + n, 65536, 0);
        n += got > 0 ? (size_t)got : 0;
    }
    if (s >= 0)
        close(s);
    if (all == NULL)
        return r;
    all[n] = '\0';
    char *end = strstr(all, "\r\n\r\n");
    r.head = all;
    r.body = end != NULL ? end + 4 : all + n;
    r.length = n - (size_t)(r.body - all);
    if (end != NULL)
        *end = '\0';
    r.status = strncmp(all, "HTTP/1.1 ", 9) == 0 ? atoi(all + 9) : 0;
    if (strstr(all, "Transfer-Encoding: chunked"))
        r.length = join_chunks(r.body, r.length);
    return r;
}

client_reply client_ask(int port, const char *method, const char *path, const char *body)
{
    return client_read(client_open(port, method, path, NULL, body));
}

void client_free(client_reply *reply)
{
    free(reply->head);
    *reply = (client_reply){0};
}

/* ---- answers -------------------------------------------------------------------------------- */

json_object *client_json(int port, const char *path, const char *body, int status)
{
    client_reply r = client_ask(port, body != NULL ? "POST" : "GET", path, body);
    if (!CHECK_EQ_INT(r.status, status))
        fprintf(stderr, "%s: %s\n", path, r.body != NULL ? r.body : "");
    json_object *root = r.body != NULL ? json_tokener_parse(r.body) : NULL;
    CHECK(root != NULL);
    client_free(&r);
    return root;
}

json_object *client_at(json_object *root, const char *path)
{
    char key[128];
    while (root != NULL && *path != '\0') {
        const size_t n = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        root = json_object_is_type(root, json_type_array)
                   ? json_object_array_get_idx(root, (size_t)atoi(key))
                   : json_object_object_get(root, key);
        path += n + (path[n] == '.');
    }
    return root;
}

const char *client_text(json_object *root, const char *path)
{
    json_object *value = client_at(root, path);
    return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

char *client_event(char *at, char **data)
{
    while (at != NULL && *at == ':') /* a comment */
        at = strstr(at, "\n\n") != NULL ? strstr(at, "\n\n") + 2 : NULL;
    char *end = at != NULL ? strstr(at, "\n\n") : NULL;
    if (end == NULL)
        return NULL;
    *end = '\0';
    char *found = strstr(at, "data: ");
    *data = found != NULL ? found + 6 : at;
    return end + 2;
}

double client_metric(int port, const char *name)
{
    client_reply r = client_ask(port, "GET", "/metrics", NULL);
    char *line = weft_format("\nweft_%s ", name);
    const char *at = r.body != NULL && line != NULL ? strstr(r.body, line) : NULL;
    const double value = at != NULL ? atof(at + strlen(line)) : -1;
    weft_free(line);
    client_free(&r);
    return value;
}
