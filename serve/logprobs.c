/* serve/logprobs.c -- log-probabilities of tokens in answers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "serve/server.h"
#include "weft/memory.h"

enum { BYTES = 512 };
static const char replacement[] = "\xEF\xBF\xBD";

/* The byte that a byte-level vocabulary spells as this character; -1: not such a spelling. */
static int spelled_byte(unsigned c)
{
    if (c < 256)
        return (int)c;
    const int k = (int)c - 256; /* of 0 to 32, 127 to 160 and 173 */
    return k < 33 ? k : k < 67 ? k - 33 + 127 : k == 67 ? 173 : -1;
}

/* The bytes of a token that has parts of characters: spelled <0xHH>, or byte by byte. Returns their
 * number, or 0 for another spelling. */
static size_t raw_bytes(const weft_tokenizer *tokenizer, int32_t id, unsigned char *out)
{
    const char *at = weft_tokenizer_id_to_token(tokenizer, id);
    unsigned value;
    size_t n = 0;
    if (at == NULL || strstr(at, replacement) != NULL)
        return 0;
    if (strlen(at) == 6 && sscanf(at, "<0x%2X>", &value) == 1) {
        out[0] = (unsigned char)value;
        return 1;
    }
    for (; *at != '\0' && n < BYTES; at++) {
        unsigned c = (unsigned char)*at;
        if ((c & 0xE0) == 0xC0)
            c = (c & 0x1F) << 6 | ((unsigned char)*++at & 0x3F);
        else if (c >= 0x80)
            return 0;
        const int byte = spelled_byte(c);
        if (byte < 0)
            return 0;
        out[n++] = (unsigned char)byte;
    }
    return n;
}

/* The text of a token after another one; the caller frees it. NULL: it has none. *memory: whether
 * there was memory for it. */
static char *text_of(const weft_tokenizer *tokenizer, int32_t id, size_t *n, bool *memory)
{
    const int32_t twice[] = {id, id};
    char *one = NULL, *both = NULL;
    size_t more = 0;
    *n = 0;
    weft_status status = weft_tokenizer_decode(tokenizer, twice, 1, 0, &one, n);
    /* Some tokenizers omit the space before the first word of a text. */
    if (status == WEFT_OK && strstr(one, replacement) == NULL)
        status = weft_tokenizer_decode(tokenizer, twice, 2, 0, &both, &more);
    *memory = status != WEFT_MEMORY;
    if (both == NULL || more < *n) {
        weft_free(both);
        return one;
    }
    more -= *n;
    memmove(both, both + *n, more + 1);
    weft_free(one);
    *n = more;
    return both;
}

/* The bytes of a token, for clients that join parts of characters, and its text, which the caller
 * frees. */
typedef struct token_text {
    char *text;
    size_t length, n;
    const unsigned char *bytes; /* n of them: the text's, or `raw` */
    unsigned char raw[BYTES];
    bool memory; /* there was memory for the text */
} token_text;

static void read_token(const weft_tokenizer *tokenizer, int32_t id, token_text *out)
{
    out->text = text_of(tokenizer, id, &out->length, &out->memory);
    const char *at = out->text != NULL ? out->text : "";
    const size_t n = strstr(at, replacement) != NULL ? raw_bytes(tokenizer, id, out->raw) : 0;
    out->bytes = n > 0 ? out->raw : (const unsigned char *)at;
    out->n = n > 0 ? n : out->length;
}

static void put_text(serve_text *out, const token_text *t, double logprob)
{
    out->failed = out->failed || !t->memory;
    serve_put(out, "{'token': ");
    serve_text_quote(out, t->text != NULL ? t->text : "", t->length);
    serve_put(out, ", 'logprob': %f, 'bytes': [", logprob);
    for (size_t i = 0; i < t->n; i++)
        serve_put(out, i > 0 ? ", %i" : "%i", (int64_t)t->bytes[i]);
    serve_put(out, "]");
}

static void put_token(const serve_choice *c, serve_text *out, int32_t id, double logprob)
{
    token_text t;
    read_token(c->request->server->loaded.tokenizer, id, &t);
    put_text(out, &t, logprob);
    weft_free(t.text);
}

static void put_top(const serve_choice *c, serve_text *out, const weft_top_logprob *top, int64_t n)
{
    serve_put(out, ", 'top_logprobs': [");
    for (int64_t i = 0; i < n; i++) {
        serve_put(out, i > 0 ? ", " : "");
        put_token(c, out, top[i].id, (double)top[i].logprob);
        serve_put(out, "}");
    }
    serve_put(out, "]");
}

void serve_add_logprob(serve_choice *c, const weft_generated *token)
{
    serve_text *out = &c->pending;
    if (weft_tokenizer_is_special(c->request->server->loaded.tokenizer, token->id))
        return; /* a mark without text */
    if (out->n > 0)
        serve_put(out, ", ");
    put_token(c, out, token->id, token->logprob);
    put_top(c, out, token->top, token->n_top);
    serve_put(out, "}");
}

/* ---- prompts -------------------------------------------------------------------------------- */

typedef struct scoring {
    weft_model *model;
    const weft_cancel *cancel;
    weft_score_request request;
    weft_scored scored;
} scoring;

/* serve_compute's function. */
static weft_status score(void *context)
{
    scoring *s = context;
    if (weft_cancel_is_set(s->cancel)) /* while it waited for its turn */
        return weft_fail(WEFT_CANCELLED, "the client has gone");
    const weft_status status = weft_score(s->model, &s->request, 1, NULL, &s->scored);
    return status == WEFT_OK && s->scored.status != WEFT_OK
               ? weft_fail(s->scored.status, "%s", s->scored.message)
               : status;
}

static bool starts(const char *at, const char *end, const void *bytes, size_t n)
{
    return n > 0 && n <= (size_t)(end - at) && memcmp(at, bytes, n) == 0;
}

static bool is_inside(char byte) /* of a character, and not its first */
{
    return (byte & 0xC0) == 0x80;
}

/* The end of a token that has parts of characters: those of no whole character are U+FFFD in the
 * text, one for one or more of them. */
static const char *pass_parts(const char *at, const char *end, const token_text *t)
{
    for (size_t i = 0; i < t->n; i++) {
        if (starts(at, end, t->bytes + i, 1))
            at++;
        else if (starts(at, end, replacement, strlen(replacement)))
            at += strlen(replacement);
    }
    return at;
}

/* The end of a token within the prompt's text from `at` on, which may lack special tokens, and the
 * space before the first word, and may be spelled otherwise. */
static const char *pass_token(const char *at, const char *end, const token_text *t, bool special)
{
    if (starts(at, end, t->bytes, t->n))
        return at + t->n;
    if (t->n > 1 && t->bytes[0] == ' ' && starts(at, end, t->bytes + 1, t->n - 1))
        return at + t->n - 1;
    if (at < end && is_inside(*at)) { /* the tokens before had a part of this character */
        while (at < end && is_inside(*at))
            at++;
        return pass_token(at, end, t, special);
    }
    if (special)
        return at;
    if (t->bytes == t->raw)
        return pass_parts(at, end, t);
    return t->n < (size_t)(end - at) ? at + t->n : end;
}

/* Adds the prompt's tokens, each with its place in the text, in characters. */
static void put_prompt(serve_choice *c, const scoring *s)
{
    const weft_tokenizer *tokenizer = c->request->server->loaded.tokenizer;
    const char *at = c->prompt.at, *end = at + c->prompt.n;
    serve_text *out = &c->prompt_logprobs;
    for (size_t i = 0; i < c->n_ids; i++) {
        token_text t;
        read_token(tokenizer, c->ids[i], &t);
        serve_put(out, i > 0 ? ", " : "");
        put_text(out, &t, i > 0 ? s->request.logprobs[i - 1] : NAN);
        if (i > 0)
            put_top(c, out, s->request.top + (i - 1) * (size_t)s->request.n_top, s->request.n_top);
        serve_put(out, ", 'text_offset': %i}", c->prompt_offset);
        const char *next = pass_token(at, end, &t, weft_tokenizer_is_special(tokenizer, c->ids[i]));
        for (; at < next; at++)
            c->prompt_offset += !is_inside(*at);
        weft_free(t.text);
    }
    for (; at < end; at++)
        c->prompt_offset += !is_inside(*at);
}

static weft_status score_prompt(serve_choice *c, int64_t top)
{
    scoring s = {.model = c->request->server->loaded.model,
                 .cancel = c->request->cancel,
                 .request = {.text = {c->ids, c->n_ids}, .from = 1, .n_top = top}};
    s.request.logprobs = weft_calloc(c->n_ids, sizeof *s.request.logprobs);
    s.request.top = weft_calloc(c->n_ids * (size_t)top + 1, sizeof *s.request.top);
    bool memory = s.request.logprobs != NULL && s.request.top != NULL;
    weft_status status = memory ? serve_compute(c->request, score, &s) : WEFT_OK;
    if (memory && status == WEFT_OK) {
        put_prompt(c, &s);
        memory = !c->prompt_logprobs.failed;
    }
    if (!memory)
        status = weft_fail(WEFT_MEMORY, "out of memory for log-probabilities of the prompt");
    c->scored = status == WEFT_OK;
    weft_scored_free(&s.scored, 1);
    weft_free(s.request.logprobs);
    weft_free(s.request.top);
    return status;
}

weft_status serve_score_prompt(serve_choice *c)
{
    enum { JSON = 64 }; /* bytes of a token, by an estimate */
    serve_request *r = c->request;
    const int64_t asked = r->settings.generate.top_logprobs,
                  top = asked < r->server->vocabulary ? asked : r->server->vocabulary;
    serve_choice *first = c - c->index % r->settings.each; /* of those with this prompt */
    weft_status status = serve_hold(r, c->n_ids * (size_t)(top + 1) * JSON);
    if (status != WEFT_OK)
        return status;
    c->computed = true;
    const bool shared = r->settings.each > 1;
    if (shared)
        pthread_mutex_lock(&r->sharing);
    if (!first->scored)
        status = score_prompt(first, top);
    if (shared)
        pthread_mutex_unlock(&r->sharing);
    if (status == WEFT_OK && c != first)
        serve_text_add(&c->prompt_logprobs, first->prompt_logprobs.at, first->prompt_logprobs.n);
    if (status == WEFT_OK)
        c->offset = first->prompt_offset;
    return status;
}
