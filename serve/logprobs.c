/* serve/logprobs.c -- log-probabilities of tokens in answers. */
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

/* The text of a token after another one; the caller frees it. NULL: out of memory, or no text. */
static char *text_of(const weft_tokenizer *tokenizer, int32_t id, size_t *n)
{
    const int32_t twice[] = {id, id};
    char *one = NULL, *both = NULL;
    size_t more = 0;
    *n = 0;
    if (weft_tokenizer_decode(tokenizer, twice, 1, 0, &one, n) != WEFT_OK)
        return NULL;
    /* Some tokenizers omit the space before the first word of a text. */
    if (strstr(one, replacement) == NULL &&
        weft_tokenizer_decode(tokenizer, twice, 2, 0, &both, &more) == WEFT_OK && more >= *n) {
        more -= *n;
        memmove(both, both + *n, more + 1);
        weft_free(one);
        *n = more;
        return both;
    }
    weft_free(both);
    return one;
}

static void put_token(const serve_choice *c, serve_text *out, int32_t id, double logprob)
{
    const weft_tokenizer *tokenizer = c->request->server->loaded.tokenizer;
    unsigned char raw[BYTES];
    size_t length = 0;
    char *text = text_of(tokenizer, id, &length);
    const char *at = text != NULL ? text : "";
    const size_t n_raw = strstr(at, replacement) != NULL ? raw_bytes(tokenizer, id, raw) : 0;
    const unsigned char *bytes = n_raw > 0 ? raw : (const unsigned char *)at;
    serve_put(out, "{'token': ");
    serve_text_quote(out, at, length);
    serve_put(out, ", 'logprob': %f, 'bytes': [", logprob);
    for (size_t i = 0; i < (n_raw > 0 ? n_raw : length); i++)
        serve_put(out, i > 0 ? ", %i" : "%i", (int64_t)bytes[i]);
    serve_put(out, "]");
    weft_free(text);
}

void serve_add_logprob(serve_choice *c, const weft_generated *token)
{
    serve_text *out = &c->pending;
    if (weft_tokenizer_is_special(c->request->server->loaded.tokenizer, token->id))
        return; /* a mark without text */
    if (out->n > 0)
        serve_put(out, ", ");
    put_token(c, out, token->id, token->logprob);
    serve_put(out, ", 'top_logprobs': [");
    for (int i = 0; i < token->n_top; i++) {
        serve_put(out, i > 0 ? ", " : "");
        put_token(c, out, token->top[i].id, (double)token->top[i].logprob);
        serve_put(out, "}");
    }
    serve_put(out, "]}");
}
