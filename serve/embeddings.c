/* serve/embeddings.c -- POST /v1/embeddings of OpenAI. */
#include <math.h>
#include <string.h>

#include "serve/server.h"
#include "weft/memory.h"

/* Of a request, and of a call; a longer text is a call of its own. */
enum { TEXTS = 2048, TOGETHER = 128, TOKENS = 2048 };

/* Texts that are computed in one call, between two steps of the batch. */
typedef struct piece {
    const serve_request *request;
    weft_prompt prompts[TOGETHER];
    weft_embedded results[TOGETHER];
    size_t n;
} piece;

static weft_status compute(void *context)
{
    piece *p = context;
    const serve_model *m = &p->request->server->loaded;
    const weft_embed_settings *s = &m->embed;
    const weft_embed_options o = {
        .pooling = s->pooling, .dense = s->dense, .normalize = s->normalize || !s->found};
    if (weft_cancel_is_set(p->request->cancel))
        return weft_fail(WEFT_CANCELLED, "the request was cancelled");
    return weft_embed(m->model, p->prompts, p->n, &o, p->results);
}

/* ---- input ---------------------------------------------------------------------------------- */

/* Cuts a text as the checkpoint says, so that the model has positions for it. */
static weft_status read_text(serve_server *server, json_object *text, serve_choice *c)
{
    const weft_embed_settings *s = &server->loaded.embed;
    int64_t most = s->found && s->max_tokens > 0 ? s->max_tokens : server->positions;
    serve_text whole = {0};
    serve_text_add(&whole, s->prompt, s->prompt != NULL ? strlen(s->prompt) : 0);
    serve_text_add(&whole, json_object_get_string(text), (size_t)json_object_get_string_len(text));
    weft_status status =
        whole.failed ? weft_fail(WEFT_MEMORY, "out of memory for the input")
                     : weft_tokenizer_encode(server->loaded.tokenizer, whole.at, whole.n,
                                             WEFT_TOKENIZER_ADD_SPECIAL, &c->ids, &c->n_ids);
    serve_text_free(&whole);
    if (server->positions > 0 && server->positions < most)
        most = server->positions;
    if (status == WEFT_OK && s->found && most > 0)
        c->n_ids =
            weft_tokenizer_truncate(server->loaded.tokenizer, c->ids, c->n_ids, (size_t)most);
    return status;
}

static weft_status read_input(serve_request *r)
{
    json_object *input = json_object_object_get(r->json, "input");
    const size_t length =
        json_object_is_type(input, json_type_array) ? json_object_array_length(input) : 0;
    const bool list =
        length > 0 && !json_object_is_type(json_object_array_get_idx(input, 0), json_type_int);
    const size_t n = list ? length : 1;
    if (n > TEXTS || (length == 0 && !json_object_is_type(input, json_type_string)))
        return weft_fail(WEFT_INVALID,
                         "input: expected a string, token ids, or a list of up to %d "
                         "of either",
                         (int)TEXTS);
    weft_status status = serve_make_choices(r, n);
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        json_object *one = list ? json_object_array_get_idx(input, i) : input;
        serve_choice *c = &r->choices[i];
        if (json_object_is_type(one, json_type_array))
            status = serve_read_ids(r->server, "input", one, c);
        else if (json_object_is_type(one, json_type_string))
            status = read_text(r->server, one, c);
        else
            return weft_fail(WEFT_INVALID, "input[%zu]: expected a string or token ids", i);
        if (status == WEFT_OK && c->n_ids == 0)
            status = weft_fail(WEFT_INVALID, "input[%zu]: expected at least one token", i);
    }
    return status;
}

/* ---- answers -------------------------------------------------------------------------------- */

/* The bytes of little-endian float32 in base64. */
static void put_base64(const float *values, size_t n, serve_text *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *bytes = (const unsigned char *)values;
    const size_t length = n * sizeof *values;
    serve_text_add(out, "\"", 1);
    for (size_t i = 0; i < length; i += 3) {
        const size_t left = length - i;
        const unsigned three = (unsigned)bytes[i] << 16 |
                               (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                               (left > 2 ? (unsigned)bytes[i + 2] : 0);
        const char four[4] = {digits[three >> 18], digits[three >> 12 & 63],
                              left > 1 ? digits[three >> 6 & 63] : '=',
                              left > 2 ? digits[three & 63] : '='};
        serve_text_add(out, four, sizeof four);
    }
    serve_text_add(out, "\"", 1);
}

/* Leaves the first elements that the request asks for, divided by their norm if the whole was. */
static weft_status cut(const serve_request *r, weft_embedded *e)
{
    const weft_embed_settings *s = &r->server->loaded.embed;
    const size_t n = (size_t)r->settings.dimensions;
    double sum = 0;
    if (n == 0)
        return WEFT_OK;
    if (n > e->n)
        return weft_fail(WEFT_INVALID, "dimensions: expected a number from 1 to %zu, got %zu", e->n,
                         n);
    e->n = n;
    for (size_t i = 0; i < n; i++)
        sum += (double)e->values[i] * (double)e->values[i];
    for (size_t i = 0; i < n && (s->normalize || !s->found); i++)
        e->values[i] = (float)((double)e->values[i] / fmax(sqrt(sum), 1e-12));
    return WEFT_OK;
}

static void put_embedding(serve_choice *c, const weft_embedded *e)
{
    serve_put(&c->text, "{'object': 'embedding', 'index': %i, 'embedding': ", (int64_t)c->index);
    if (c->request->settings.base64) {
        put_base64(e->values, e->n, &c->text);
    } else {
        for (size_t i = 0; i < e->n; i++)
            serve_put(&c->text, i > 0 ? ", %f" : "[%f", (double)e->values[i]);
        serve_put(&c->text, "]");
    }
    serve_put(&c->text, "}");
}

/* Adds the texts from `from` on that are computed in one call. */
static void take_texts(const serve_request *r, size_t from, piece *p)
{
    size_t tokens = 0;
    for (size_t i = from; i < r->n_choices && p->n < TOGETHER; i++) {
        const serve_choice *c = &r->choices[i];
        tokens += c->n_ids;
        if (p->n > 0 && tokens > TOKENS)
            break;
        p->prompts[p->n++] = (weft_prompt){c->ids, c->n_ids};
    }
}

/* serve_compute_fn of the first choice: computes all of them. */
static weft_status embed(serve_choice *first)
{
    serve_request *r = first->request;
    weft_status status = WEFT_OK;
    for (size_t from = 0, n; status == WEFT_OK && from < r->n_choices; from += n) {
        piece p = {.request = r};
        take_texts(r, from, &p);
        n = p.n;
        status = serve_compute(r, compute, &p);
        for (size_t i = 0; i < p.n && status == WEFT_OK; i++) {
            if (p.results[i].status != WEFT_OK)
                status = weft_fail(p.results[i].status, "input[%zu]: %s", from + i,
                                   p.results[i].message);
            else
                status = cut(r, &p.results[i]);
            if (status == WEFT_OK)
                put_embedding(&r->choices[from + i], &p.results[i]);
        }
        weft_embedded_free(p.results, p.n);
    }
    return status;
}

static void answer(serve_request *r, serve_text *out)
{
    int64_t tokens = 0;
    serve_put(out, "{'object': 'list', 'model': %s, 'data': [", serve_model_name(r));
    for (size_t i = 0; i < r->n_choices; i++) {
        serve_put(out, "%r%r", i > 0 ? ", " : "", r->choices[i].text.at);
        out->failed = out->failed || r->choices[i].text.failed;
        tokens += (int64_t)r->choices[i].n_ids;
    }
    serve_put(out, "], 'usage': {'prompt_tokens': %i, 'total_tokens': %i}}", tokens, tokens);
}

static const serve_api embeddings_api = {.answer = answer, .error = serve_put_error};

weft_status serve_run_embeddings(serve_request *r)
{
    const char *format = "float";
    weft_status status = serve_parse_body(r);
    if (status == WEFT_OK)
        status = serve_read_text(r->json, "encoding_format", &format);
    r->settings.base64 = strcmp(format, "base64") == 0;
    if (status == WEFT_OK && !r->settings.base64 && strcmp(format, "float") != 0)
        return weft_fail(WEFT_INVALID, "encoding_format: expected float or base64");
    if (status == WEFT_OK)
        status = serve_read_count(r->json, "dimensions", 1, INT32_MAX, &r->settings.dimensions);
    if (status == WEFT_OK)
        status = read_input(r);
    if (status != WEFT_OK)
        return status;
    r->api = &embeddings_api;
    return serve_start_choices(r, 1, embed);
}
