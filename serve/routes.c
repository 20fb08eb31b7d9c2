/* serve/routes.c -- the table of routes, and those that answer at once. */
#include <math.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "serve/server.h"
#include "weft/memory.h"

static weft_status reply(serve_request *r, serve_text *body)
{
    serve_reply(r, 200, "application/json", body);
    return WEFT_OK;
}

static weft_status run_health(serve_request *r)
{
    serve_server *server = r->server;
    serve_text out = {0};
    pthread_mutex_lock(&server->lock);
    const bool ready = server->ready && !server->stopping;
    pthread_mutex_unlock(&server->lock);
    if (ready) {
        serve_put(&out, "{'status': 'ok'}");
        return reply(r, &out);
    }
    const serve_error error = serve_error_make(503, "the model is being loaded");
    serve_fail(r, &error);
    return WEFT_OK;
}

/* ---- models --------------------------------------------------------------------------------- */

/* With the members that both APIs have. */
static void put_model(const serve_server *server, const serve_adapter *adapter, serve_text *out)
{
    const char *name = adapter != NULL ? adapter->name : server->options.name;
    const int64_t created = adapter != NULL ? adapter->created : server->started;
    char date[32] = "";
    struct tm parts;
    if (gmtime_r(&(time_t){(time_t)created}, &parts) != NULL)
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
    serve_put(out,
              "{'id': %s, 'object': 'model', 'type': 'model', 'created': %i, 'created_at': %s, "
              "'owned_by': 'weft', 'display_name': %s, 'lifecycle': 'active', 'max_model_len': %i, "
              "'meta': {'n_vocab': %i, 'n_ctx': %i, 'fine_tuning': %b}",
              name, created, date, name, server->positions, server->vocabulary, server->positions,
              adapter == NULL && server->teacher != NULL);
    if (adapter != NULL)
        serve_put(out, ", 'root': %s, 'parent': %s", name, server->options.name);
    serve_put(out, "}");
}

/* The model, then the adapters that requests can choose. */
static weft_status run_models(serve_request *r)
{
    serve_server *server = r->server;
    serve_text out = {0}, data = {0};
    const char *last = server->options.name;
    put_model(server, NULL, &data);
    pthread_mutex_lock(&server->lock);
    for (const serve_adapter *a = server->adapters; a != NULL; a = a->next) {
        serve_put(&data, ", ");
        put_model(server, a, &data);
        last = a->name;
    }
    serve_put(&out, "{'object': 'list', 'has_more': false, 'first_id': %s, 'last_id': %s, ",
              server->options.name, last);
    pthread_mutex_unlock(&server->lock);
    serve_put(&out, "'data': [%r]}", data.at);
    out.failed = out.failed || data.failed;
    serve_text_free(&data);
    return reply(r, &out);
}

static weft_status run_model(serve_request *r)
{
    serve_text out = {0};
    serve_adapter *adapter = serve_adapter_find(r->server, r->path);
    if (adapter == NULL && strcmp(r->path, r->server->options.name) != 0) {
        const serve_error error =
            serve_error_make(404, "there is no model \"%s\"", weft_printable(r->path));
        serve_fail(r, &error);
        return WEFT_OK;
    }
    put_model(r->server, adapter, &out);
    serve_adapter_drop(r->server, adapter);
    return reply(r, &out);
}

/* ---- tokens --------------------------------------------------------------------------------- */

static void put_pieces(const serve_server *server, const int32_t *ids, size_t n, serve_text *out)
{
    for (size_t i = 0; i < n; i++) {
        char *text = NULL;
        size_t length = 0;
        if (weft_tokenizer_decode(server->loaded.tokenizer, &ids[i], 1, 0, &text, &length) !=
            WEFT_OK)
            length = 0;
        serve_put(out, "%r{'id': %i, 'piece': ", i > 0 ? ", " : "", (int64_t)ids[i]);
        serve_text_quote(out, text != NULL ? text : "", length);
        serve_put(out, "}");
        weft_free(text);
    }
}

static weft_status run_tokenize(serve_request *r)
{
    bool special = false, pieces = false;
    int32_t *ids = NULL;
    size_t n = 0;
    serve_text out = {0};
    weft_status status = serve_parse_body(r);
    json_object *content = status == WEFT_OK ? json_object_object_get(r->json, "content") : NULL;
    if (status == WEFT_OK && content == NULL)
        content = json_object_object_get(r->json, "prompt");
    if (status == WEFT_OK && !json_object_is_type(content, json_type_string))
        return weft_fail(WEFT_INVALID, "content: expected a string");
    if (status == WEFT_OK)
        status = serve_read_flag(r->json, "add_special", &special);
    if (status == WEFT_OK)
        status = serve_read_flag(r->json, "with_pieces", &pieces);
    if (status == WEFT_OK)
        status = weft_tokenizer_encode(r->server->loaded.tokenizer, json_object_get_string(content),
                                       (size_t)json_object_get_string_len(content),
                                       special ? WEFT_TOKENIZER_ADD_SPECIAL : 0, &ids, &n);
    if (status != WEFT_OK)
        return status;
    serve_put(&out, "{'count': %i, 'tokens': [", (int64_t)n);
    if (pieces)
        put_pieces(r->server, ids, n, &out);
    for (size_t i = 0; i < n && !pieces; i++)
        serve_put(&out, i > 0 ? ", %i" : "%i", (int64_t)ids[i]);
    serve_put(&out, "]}");
    weft_free(ids);
    return reply(r, &out);
}

static weft_status run_detokenize(serve_request *r)
{
    serve_text out = {0};
    serve_choice c = {.request = r};
    char *text = NULL;
    size_t length = 0;
    weft_status status = serve_parse_body(r);
    json_object *tokens = status == WEFT_OK ? json_object_object_get(r->json, "tokens") : NULL;
    if (status == WEFT_OK && !json_object_is_type(tokens, json_type_array))
        return weft_fail(WEFT_INVALID, "tokens: expected an array of token ids");
    if (status == WEFT_OK)
        status = serve_read_ids(r->server, "tokens", tokens, &c);
    if (status == WEFT_OK)
        status =
            weft_tokenizer_decode(r->server->loaded.tokenizer, c.ids, c.n_ids, 0, &text, &length);
    weft_free(c.ids);
    if (status != WEFT_OK)
        return status;
    serve_put(&out, "{'content': ");
    serve_text_quote(&out, text, length);
    serve_put(&out, "}");
    weft_free(text);
    return reply(r, &out);
}

static weft_status run_apply_template(serve_request *r)
{
    serve_text out = {0};
    char *text = NULL;
    size_t length = 0, tokens = 0;
    const weft_status status = serve_render_body(r, serve_read_chat, &text, &length, &tokens);
    if (status != WEFT_OK)
        return status;
    serve_put(&out, "{'prompt': ");
    serve_text_quote(&out, text, length);
    serve_put(&out, ", 'tokens': %i}", (int64_t)tokens);
    weft_free(text);
    return reply(r, &out);
}

/* ---- metrics -------------------------------------------------------------------------------- */

static void put_metric(serve_text *out, const char *kind, const char *name, const char *help,
                       double value)
{
    serve_put(out, "# HELP weft_%r %r\n# TYPE weft_%r %r\nweft_%r ", name, help, name, kind, name);
    if (value == floor(value)) /* with all digits */
        serve_put(out, "%i\n", (int64_t)value);
    else
        serve_put(out, "%f\n", value);
}

static weft_status run_metrics(serve_request *r)
{
    serve_server *server = r->server;
    serve_text out = {0};
    pthread_mutex_lock(&server->lock);
    const serve_counts c = server->counts;
    const size_t active = server->n_active, waiting = server->n_queue;
    pthread_mutex_unlock(&server->lock);
    put_metric(&out, "counter", "requests_total", "HTTP requests", (double)c.requests);
    put_metric(&out, "counter", "requests_failed_total", "requests answered by an error",
               (double)c.failed);
    put_metric(&out, "counter", "requests_cut_off_total", "requests whose client has gone",
               (double)c.cancelled);
    put_metric(&out, "counter", "prompt_tokens_total", "tokens of prompts",
               (double)c.prompt_tokens);
    put_metric(&out, "counter", "prompt_tokens_cached_total",
               "tokens of prompts from the prompt cache", (double)c.cached_tokens);
    put_metric(&out, "counter", "prompt_seconds_total", "seconds to first tokens",
               c.prompt_seconds);
    put_metric(&out, "counter", "tokens_predicted_total", "tokens generated", (double)c.tokens);
    put_metric(&out, "counter", "tokens_predicted_seconds_total",
               "seconds from first tokens to last ones", c.decode_seconds);
    put_metric(&out, "counter", "n_decode_total", "steps of the batch", (double)c.steps);
    put_metric(&out, "gauge", "requests_processing", "sequences being computed", (double)active);
    put_metric(&out, "gauge", "requests_deferred", "sequences waiting for a row", (double)waiting);
    put_metric(&out, "gauge", "n_rows_max", "most sequences computed at a time",
               (double)c.most_rows);
    put_metric(&out, "gauge", "kv_cache_tokens", "tokens of the pages that sequences use",
               (double)c.kv.used);
    put_metric(&out, "gauge", "kv_cache_tokens_max", "the most tokens of pages, --cache-tokens",
               (double)c.kv.most);
    put_metric(&out, "counter", "requests_set_back_total",
               "sequences that lost their pages and were read again", (double)c.kv.set_back);
    serve_reply(r, 200, "text/plain; version=0.0.4; charset=utf-8", &out);
    return WEFT_OK;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* A path that ends with a slash has names below it. */
static const serve_route routes[] = {
    {.method = "GET", .path = "/", .open = true, .run = serve_run_page},
    {.method = "GET", .path = "/health", .open = true, .run = run_health},
    {.method = "GET", .path = "/v1/health", .open = true, .run = run_health},
    {.method = "GET", .path = "/metrics", .run = run_metrics},
    {.method = "GET", .path = "/v1/models", .loads = true, .run = run_models},
    {.method = "GET", .path = "/models", .loads = true, .run = run_models},
    {.method = "GET", .path = "/v1/models/", .loads = true, .run = run_model},
    {.method = "POST", .path = "/tokenize", .loads = true, .run = run_tokenize},
    {.method = "POST", .path = "/detokenize", .loads = true, .run = run_detokenize},
    {.method = "POST", .path = "/apply-template", .loads = true, .run = run_apply_template},
    {"POST", "/v1/chat/completions", .loads = true, .api = &serve_chat_api, .run = serve_run_chat},
    {"POST", "/chat/completions", .loads = true, .api = &serve_chat_api, .run = serve_run_chat},
    {"POST", "/v1/completions", .loads = true, .api = &serve_completion_api,
     .run = serve_run_completion},
    {"POST", "/completions", .loads = true, .api = &serve_completion_api,
     .run = serve_run_completion},
    {"POST", "/v1/embeddings", .loads = true, .run = serve_run_embeddings},
    {"POST", "/embeddings", .loads = true, .run = serve_run_embeddings},
    {.method = "POST",
     .path = "/v1/load_lora_adapter",
     .loads = true,
     .run = serve_run_load_adapter},
    {.method = "POST",
     .path = "/v1/unload_lora_adapter",
     .loads = true,
     .waits = true,
     .run = serve_run_unload_adapter},
    {"POST", "/v1/files", .waits = true, .run = serve_run_upload},
    {"GET", "/v1/files", .run = serve_run_list_files},
    {"GET", "/v1/files/", .waits = true, .run = serve_run_file},
    {"DELETE", "/v1/files/", .waits = true, .run = serve_run_delete_file},
    {"POST", "/v1/fine_tuning/jobs", .loads = true, .waits = true, .run = serve_run_create_job},
    {"GET", "/v1/fine_tuning/jobs", .run = serve_run_list_jobs},
    {"GET", "/v1/fine_tuning/jobs/", .waits = true, .run = serve_run_job},
    {"POST", "/v1/fine_tuning/jobs/", .waits = true, .run = serve_run_cancel_job},
    {"DELETE", "/v1/fine_tuning/jobs/", .loads = true, .waits = true, .run = serve_run_delete_job},
    {"DELETE", "/v1/models/", .loads = true, .waits = true, .run = serve_run_delete_model},
    {"POST", "/v1/messages", .loads = true, .api = &serve_anthropic_api,
     .run = serve_run_anthropic},
    {"POST", "/v1/messages/count_tokens", .loads = true, .api = &serve_anthropic_api,
     .run = serve_run_count_tokens},
    {"POST", "/v1/responses", .loads = true, .api = &serve_responses_api,
     .run = serve_run_responses},
    {"POST", "/responses", .loads = true, .api = &serve_responses_api, .run = serve_run_responses},
    {"POST", "/v1/responses/input_tokens", .loads = true, .api = &serve_responses_api,
     .run = serve_run_input_tokens},
};

const serve_route *serve_find_route(const char *method, const char *path, bool *path_known)
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    *path_known = false;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const serve_route *route = &routes[i];
        const size_t n = strlen(route->path);
        const bool below = n > 1 && route->path[n - 1] == '/';
        if (below ? strncmp(path, route->path, n) != 0 : strcmp(path, route->path) != 0)
            continue;
        *path_known = true;
        if (strcmp(route->method, wanted) == 0)
            return route;
    }
    return NULL;
}

double serve_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void serve_make_id(const char *prefix, char *out, size_t size)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    unsigned char bytes[24] = {0};
    const size_t n = strlen(prefix);
    if (getrandom(bytes, sizeof bytes, 0) < 0)
        memcpy(bytes, &(double){serve_seconds()}, sizeof(double));
    memcpy(out, prefix, n);
    size_t at = n;
    for (size_t i = 0; i < sizeof bytes && at + 1 < size; i++)
        out[at++] = letters[bytes[i] % 36];
    out[at] = '\0';
}
