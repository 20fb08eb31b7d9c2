/* train/data/batch.c -- converts samples to the rows of a batch, padded or packed. */
#include "train/data/batch.h"

#include "core/failure.h"
#include "weft/memory.h"

/* The rows of a batch, (n, L) each, in host memory. */
typedef struct rows {
    int64_t L;
    int32_t *tokens, *targets, *first, *positions;
    float *weights;
    bool weighted; /* some weight is neither 0 nor 1 */
} rows;

/* Writes a sample to row b from column `at` on. Returns the next free column. */
static int64_t put_sample(const weft_sample *s, int64_t b, int64_t at, rows *r, weft_batch *out)
{
    const int64_t n = s->length - 1;
    for (int64_t i = 0; i < n; i++) {
        const float weight = s->weights ? s->weights[i + 1] : 1;
        const int64_t cell = b * r->L + at + i;
        r->tokens[cell] = s->ids[i];
        r->targets[cell] = weight != 0 ? s->ids[i + 1] : -1;
        r->weights[cell] = weight;
        r->weighted = r->weighted || (weight != 0 && weight != 1);
        r->first[cell] = (int32_t)at;
        r->positions[cell] = (int32_t)i;
        out->n_targets += (double)weight;
    }
    out->n_tokens += n;
    return at + n;
}

/* Pads row b. The padding is a separate sequence, so no token attends to it. */
static void pad(int64_t b, int64_t from, rows *r)
{
    for (int64_t i = from; i < r->L; i++) {
        r->targets[b * r->L + i] = -1;
        r->first[b * r->L + i] = (int32_t)from;
        r->positions[b * r->L + i] = (int32_t)(i - from);
    }
}

static weft_status hold(weft_array **slot, const void *data, weft_dtype dtype, weft_dims shape)
{
    return weft_set(slot, weft_from_data(data, dtype, shape));
}

static weft_status hold_arrays(const rows *r, int n, bool packed, weft_batch *out)
{
    const weft_dims shape = WEFT_DIMS(n, r->L);
    weft_scope_open_lean();
    weft_status status = hold(&out->tokens, r->tokens, WEFT_INT32, shape);
    if (status == WEFT_OK)
        status = hold(&out->targets, r->targets, WEFT_INT32, shape);
    if (status == WEFT_OK && r->weighted)
        status = hold(&out->weights, r->weights, WEFT_FLOAT32, shape);
    if (status == WEFT_OK && packed)
        status = hold(&out->first, r->first, WEFT_INT32, shape);
    if (status == WEFT_OK && packed)
        status = hold(&out->positions, r->positions, WEFT_INT32, shape);
    weft_scope_close(NULL);
    return status;
}

/* If starts is NULL, row r has sample r. */
static weft_status make(const weft_sample *samples, const int64_t *starts, int n, weft_batch *out)
{
    rows r = {.L = 0};
    *out = (weft_batch){0};
    for (int b = 0; b < n; b++) {
        int64_t length = 0;
        for (int64_t i = starts ? starts[b] : b; i < (starts ? starts[b + 1] : b + 1); i++)
            length += samples[i].length - 1;
        r.L = length > r.L ? length : r.L;
    }
    if (r.L < 1)
        return weft_fail(WEFT_INVALID, "batch: expected samples of at least 2 tokens");
    const size_t cells = (size_t)n * (size_t)r.L;
    r.tokens = weft_calloc(4 * cells, sizeof *r.tokens);
    r.weights = weft_calloc(cells, sizeof *r.weights);
    weft_status status = WEFT_MEMORY;
    if (r.tokens && r.weights) {
        r.targets = r.tokens + cells;
        r.first = r.tokens + 2 * cells;
        r.positions = r.tokens + 3 * cells;
        for (int b = 0; b < n; b++) {
            int64_t at = 0;
            for (int64_t i = starts ? starts[b] : b; i < (starts ? starts[b + 1] : b + 1); i++)
                at = put_sample(&samples[i], b, at, &r, out);
            pad(b, at, &r);
        }
        status = hold_arrays(&r, n, starts != NULL, out);
    } else {
        weft_fail(status, "batch: out of memory for %d x %lld tokens", n, (long long)r.L);
    }
    weft_free(r.tokens);
    weft_free(r.weights);
    if (status != WEFT_OK)
        weft_batch_free(out);
    return status;
}

weft_status weft_batch_of_samples(const weft_sample *samples, int n, weft_batch *out)
{
    return make(samples, NULL, n, out);
}

weft_status weft__batch_pack(const weft_sample *samples, const int64_t *starts, int n,
                             weft_batch *out)
{
    return make(samples, starts, n, out);
}

/* ---- two samples per example ---------------------------------------------------------------- */

/* How samples are packed into the rows that the model reads, in host memory. */
typedef struct packed {
    int64_t C;                         /* columns of a packed row */
    int64_t L;                         /* columns of the batch's rows */
    int32_t *pack, *first, *positions; /* (n, C) */
    int32_t *unpack;                   /* (2 P, L) */
} packed;

/* Packs sample s into row r from column `at` on. Returns the next free column. */
static int64_t place(int64_t s, int64_t length, int64_t r, int64_t at, packed *p)
{
    for (int64_t i = 0; i < length; i++) {
        const int64_t cell = r * p->C + at + i;
        p->pack[cell] = (int32_t)(s * p->L + i);
        p->first[cell] = (int32_t)at;
        p->positions[cell] = (int32_t)i;
        p->unpack[s * p->L + i] = (int32_t)cell;
    }
    return at + length;
}

static void place_all(const weft_sample *samples, const int64_t *starts, int n, packed *p)
{
    const int64_t P = starts[n];
    for (int64_t i = 0; i < 2 * P * p->L; i++)
        p->unpack[i] = -1;
    for (int64_t r = 0; r < n; r++) {
        int64_t at = 0;
        for (int64_t e = starts[r]; e < starts[r + 1]; e++) {
            at = place(e, samples[e].length - 1, r, at, p);
            at = place(P + e, samples[P + e].length - 1, r, at, p);
        }
        for (int64_t i = at; i < p->C; i++) {
            p->pack[r * p->C + i] = -1;
            p->first[r * p->C + i] = (int32_t)at;
            p->positions[r * p->C + i] = (int32_t)(i - at);
        }
    }
}

static weft_status hold_packed(const packed *p, int n, weft_batch *out)
{
    const weft_dims shape = WEFT_DIMS(n, p->C);
    weft_scope_open_lean();
    weft_status status = hold(&out->pack, p->pack, WEFT_INT32, shape);
    if (status == WEFT_OK)
        status = hold(&out->first, p->first, WEFT_INT32, shape);
    if (status == WEFT_OK)
        status = hold(&out->positions, p->positions, WEFT_INT32, shape);
    if (status == WEFT_OK)
        status = hold(&out->unpack, p->unpack, WEFT_INT32, weft_shape(out->tokens));
    weft_scope_close(NULL);
    return status;
}

weft_status weft__batch_pack_two(const weft_sample *samples, const int64_t *starts, int n,
                                 weft_batch *out)
{
    const int64_t P = starts[n];
    packed p = {.L = weft_dim(out->tokens, 1)};
    for (int64_t r = 0; r < n; r++) {
        int64_t length = 0;
        for (int64_t e = starts[r]; e < starts[r + 1]; e++)
            length += samples[e].length + samples[P + e].length - 2;
        p.C = length > p.C ? length : p.C;
    }
    const size_t cells = (size_t)n * (size_t)p.C, all = 2 * (size_t)P * (size_t)p.L;
    p.pack = weft_calloc(3 * cells + all, sizeof *p.pack);
    if (p.pack == NULL)
        return weft_fail(WEFT_MEMORY, "batch: out of memory for %d x %lld tokens", n,
                         (long long)p.C);
    p.first = p.pack + cells;
    p.positions = p.pack + 2 * cells;
    p.unpack = p.pack + 3 * cells;
    place_all(samples, starts, n, &p);
    const weft_status status = hold_packed(&p, n, out);
    weft_free(p.pack);
    return status;
}

void weft_batch_free(weft_batch *batch)
{
    weft_drop(batch->tokens);
    weft_drop(batch->targets);
    weft_drop(batch->weights);
    weft_drop(batch->first);
    weft_drop(batch->positions);
    weft_drop(batch->pack);
    weft_drop(batch->unpack);
    weft_drop(batch->reference);
    weft_drop(batch->labels);
    *batch = (weft_batch){0};
}
