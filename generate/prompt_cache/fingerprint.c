/* generate/prompt_cache/fingerprint.c -- fingerprints that identify models and adapters. */
#include <stdio.h>
#include <string.h>

#include "core/io/named.h"
#include "generate/prompt_cache/files.h"
#include "nn/lora.h"
#include "nn/tokens.h"

enum { PIECES = 16, PIECE = 4096 };

/* Each word is combined by a multiplication and a shift, which are bijections. */
uint64_t weft__hash(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    hash ^= n * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t left = n; left > 0;) {
        uint64_t word = 0;
        const size_t size = left < sizeof word ? left : sizeof word;
        memcpy(&word, at, size);
        hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
        at += size;
        left -= size;
    }
    return hash;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    return weft__hash(hash, text, strlen(text));
}

typedef struct reading {
    weft_fingerprint found;
    uint64_t *into; /* one of its fields */
    bool whole, adapters_only;
} reading;

static weft_status take_bytes(void *context, const void *bytes, size_t size)
{
    const reading *r = context;
    if (r->whole || size <= PIECES * PIECE) {
        *r->into = weft__hash(*r->into, bytes, size);
        return WEFT_OK;
    }
    for (size_t i = 0; i < PIECES; i++) {
        const size_t at = (size - PIECE) / (PIECES - 1) * i;
        *r->into = weft__hash(*r->into, (const char *)bytes + at, PIECE);
    }
    return WEFT_OK;
}

/* Hashes the pieces of a large dense array that the host cannot read in place. They are joined on
 * the device, so that one small copy is made and not the whole array. */
static weft_status take_pieces(reading *r, weft_array *a)
{
    const int64_t width = (int64_t)weft_dtype_size(weft_dtype_of(a)), size = weft_nbytes(a);
    const int64_t n = PIECE / width + 1; /* a piece may begin within an element */
    unsigned char *bytes = weft_malloc((size_t)(PIECES * n * width));
    weft_array *pieces[PIECES];
    int64_t at[PIECES], first[PIECES];
    if (bytes == NULL)
        return weft_fail(WEFT_MEMORY, "out of memory for a fingerprint");
    weft_scope_open();
    weft_array *flat = weft_reshape(a, WEFT_DIMS(weft_size(a)));
    for (int64_t i = 0; i < PIECES; i++) {
        const int64_t last = weft_size(a) - n;
        at[i] = (size - PIECE) / (PIECES - 1) * i;
        first[i] = at[i] / width < last ? at[i] / width : last;
        pieces[i] = weft_slice_axis(flat, 0, first[i], first[i] + n);
    }
    weft_status status =
        weft_read(weft_concatenate(pieces, PIECES, 0), weft_dtype_of(a), bytes, PIECES * n);
    weft_scope_close(NULL);
    for (int64_t i = 0; status == WEFT_OK && i < PIECES; i++)
        *r->into = weft__hash(*r->into, bytes + i * n * width + at[i] - first[i] * width, PIECE);
    weft_free(bytes);
    return status;
}

/* Hashes an adapter's array, which is read again only after its module's arrays have changed: a
 * prompt cache asks twice for each text. */
static weft_status take_adapter(reading *r, const weft_nn_item *item)
{
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)item->module;
    weft_array **const slots[] = {&m->lora_A, &m->lora_B, &m->lora_magnitude_vector};
    int i = 0;
    while (i < 3 && item->slot->address != slots[i])
        i++;
    const bool kept = i < 3 && weft__lora_is_kept(m);
    const uint64_t from = *r->into;
    if (kept && m->hashed[i].to != 0 && m->hashed[i].from == from) {
        *r->into = m->hashed[i].to;
        return WEFT_OK;
    }
    const weft_status status = weft__with_bytes(*item->slot->address, item->path, take_bytes, r);
    if (status == WEFT_OK && kept) {
        m->hashed[i].from = from;
        m->hashed[i].to = *r->into;
    }
    return status;
}

static weft_status read_parameter(void *context, const weft_nn_item *item)
{
    reading *r = context;
    weft_array *a = *item->slot->address;
    const weft_dims shape = weft_shape(a);
    const bool rows = weft__is_tokens(item->module);
    const bool adapter = rows || strncmp(item->slot->name, "lora_", 5) == 0;
    if (r->adapters_only && !adapter)
        return WEFT_OK;
    r->into = adapter ? &r->found.adapter : &r->found.model;
    r->whole = adapter;
    *r->into = hash_text(*r->into, item->path);
    *r->into = hash_text(*r->into, weft_dtype_name(weft_dtype_of(a)));
    *r->into = weft__hash(*r->into, shape.at, (size_t)shape.n * sizeof *shape.at);
    if (weft_encoding_of(a))
        *r->into = hash_text(*r->into, weft_encoding_of(a)->name);
    if (item->module->type == &weft_nn_linear_type && ((const weft_nn_linear *)item->module)->int8)
        *r->into = hash_text(*r->into, "int8");
    if (adapter && weft__is_lora(item->module)) {
        const weft_nn_lora_linear *m = (const weft_nn_lora_linear *)item->module;
        const unsigned char merged = m->merged;
        *r->into = weft__hash(*r->into, &m->scale, sizeof m->scale);
        *r->into = weft__hash(*r->into, &merged, 1);
        return take_adapter(r, item);
    }
    if (rows) {
        const weft_nn_tokens *m = (const weft_nn_tokens *)item->module;
        const unsigned char merged = m->merged;
        *r->into = weft__hash(*r->into, &merged, 1);
        const weft_status status = weft__with_bytes(m->token_ids, item->path, take_bytes, r);
        if (status != WEFT_OK)
            return status;
    }
    const bool large = !r->whole && weft_nbytes(a) > PIECES * PIECE;
    if (large && !weft_encoding_of(a) && weft_eval(a) == WEFT_OK && weft_data(a) == NULL)
        return take_pieces(r, a);
    return weft__with_bytes(a, item->path, take_bytes, r);
}

weft_status weft__fingerprint_adapter(weft_model *model, uint64_t *out)
{
    reading r = {.adapters_only = true};
    const weft_status status = weft_nn_visit(weft_model_module(model), read_parameter, &r);
    *out = r.found.adapter;
    return status;
}

weft_status weft_model_fingerprint(weft_model *model, weft_fingerprint *out)
{
    reading r = {0};
    r.found.model = hash_text(1, weft_config_text(weft_model_config(model)));
    const weft_status status = weft_nn_visit(weft_model_module(model), read_parameter, &r);
    *out = r.found;
    return status;
}

const char *weft__hash_text(uint64_t hash, char out[WEFT__HEX])
{
    if (hash == 0)
        snprintf(out, WEFT__HEX, "none");
    else
        snprintf(out, WEFT__HEX, "%016llx", (unsigned long long)hash);
    return out;
}
