/* train/batches.c -- samples side by side, and in which order they come. */
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "train/epoch.h"
#include "train/identity.h"

/* Samples are sorted by length within a pool of so many batches: enough that little is padded, few
 * enough that every epoch groups them anew. */
enum { POOL_BATCHES = 64, DEFAULT_BATCH = 4 };

/* ---- one batch ------------------------------------------------------------------------------ */

/* The rows of a batch on the host, (n, L) each. */
typedef struct rows {
    int32_t *tokens, *targets;
    float *weights;
    bool weighted; /* a weight is neither 0 nor 1 */
} rows;

static void fill_row(const weft_sample *s, int64_t b, int64_t L, rows *r, weft_batch *out)
{
    const int64_t n = s->length - 1;
    for (int64_t i = 0; i < L; i++) {
        const float weight = i >= n ? 0 : s->weights ? s->weights[i + 1] : 1;
        r->tokens[b * L + i] = i < n ? s->ids[i] : 0;
        r->targets[b * L + i] = weight != 0 ? s->ids[i + 1] : -1;
        r->weights[b * L + i] = weight;
        r->weighted = r->weighted || (weight != 0 && weight != 1);
        out->n_targets += (double)weight;
    }
    out->n_tokens += n;
}

static weft_status hold_arrays(const rows *r, weft_dims shape, weft_batch *out)
{
    weft_scope_open_lean();
    weft_status status = weft_set(&out->tokens, weft_from_data(r->tokens, WEFT_INT32, shape));
    if (status == WEFT_OK)
        status = weft_set(&out->targets, weft_from_data(r->targets, WEFT_INT32, shape));
    if (status == WEFT_OK && r->weighted)
        status = weft_set(&out->weights, weft_from_data(r->weights, WEFT_FLOAT32, shape));
    weft_scope_close(NULL);
    return status;
}

weft_status weft_batch_of_samples(const weft_sample *samples, int n, weft_batch *out)
{
    *out = (weft_batch){0};
    int64_t L = 0;
    for (int b = 0; b < n; b++)
        L = samples[b].length - 1 > L ? samples[b].length - 1 : L;
    if (L < 1)
        return weft_fail(WEFT_INVALID, "batch: expected samples of at least 2 tokens");
    const size_t cells = (size_t)n * (size_t)L;
    rows r = {.tokens = weft_calloc(2 * cells, sizeof *r.tokens),
              .weights = weft_calloc(cells, sizeof *r.weights)};
    weft_status status = WEFT_MEMORY;
    if (r.tokens && r.weights) {
        r.targets = r.tokens + cells;
        for (int b = 0; b < n; b++)
            fill_row(&samples[b], b, L, &r, out);
        status = hold_arrays(&r, WEFT_DIMS(n, L), out);
    } else {
        weft_fail(status, "batch: out of memory for %d x %lld tokens", n, (long long)L);
    }
    weft_free(r.tokens);
    weft_free(r.weights);
    if (status != WEFT_OK)
        weft_batch_free(out);
    return status;
}

void weft_batch_free(weft_batch *batch)
{
    weft_drop(batch->tokens);
    weft_drop(batch->targets);
    weft_drop(batch->weights);
    *batch = (weft_batch){0};
}

/* ---- sequences ------------------------------------------------------------------------------ */

struct weft_batches {
    int64_t batch_size, count;
    const weft_dataset *dataset; /* NULL: the ids below */
    int64_t n_samples;           /* of an epoch */
    uint64_t seed;
    int64_t epoch; /* that the orders are of; -1: none */
    weft__epoch samples;
    int64_t *order;   /* (n_samples): samples of batch after batch */
    int64_t *turns;   /* (count): the batch that is the i-th */
    int32_t *ids;     /* (count, batch_size, length) */
    int32_t *prompts; /* (count, batch_size) */
    float *weights;   /* (batch_size, length): of the batch that is being made */
    int64_t length;
    weft_sample *row; /* (batch_size) */
};

void weft_batches_free(weft_batches *b)
{
    if (b == NULL)
        return;
    weft__epoch_close(&b->samples);
    weft_free(b->order);
    weft_free(b->turns);
    weft_free(b->ids);
    weft_free(b->prompts);
    weft_free(b->weights);
    weft_free(b->row);
    weft_free(b);
}

int64_t weft_batches_count(const weft_batches *batches)
{
    return batches->count;
}

/* ---- of a dataset --------------------------------------------------------------------------- */

typedef struct keyed {
    int64_t length, place, sample;
} keyed;

static int compare_keyed(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Sorts order[0..n) by length; those of one length stay in the order drawn. */
static void sort_pool(const weft_dataset *dataset, int64_t *order, int64_t n, keyed *scratch)
{
    for (int64_t i = 0; i < n; i++)
        scratch[i] = (keyed){weft_dataset_at(dataset, order[i]).length, i, order[i]};
    qsort(scratch, (size_t)n, sizeof *scratch, compare_keyed);
    for (int64_t i = 0; i < n; i++)
        order[i] = scratch[i].sample;
}

/* An epoch's orders depend on the seed and its number alone. */
static weft_status draw_epoch(weft_batches *b, int64_t epoch)
{
    const int64_t pool = POOL_BATCHES * b->batch_size;
    const int64_t most = pool < b->n_samples ? pool : b->n_samples;
    keyed *scratch = weft_calloc((size_t)most, sizeof *scratch);
    if (scratch == NULL)
        return weft_fail(WEFT_MEMORY, "batches: out of memory to sort %lld samples",
                         (long long)most);
    uint64_t state = b->seed;
    state = weft__mix(&state) ^ (uint64_t)epoch;
    weft__epoch_draw(&b->samples, &state, b->order);
    for (int64_t i = 0; i < b->n_samples; i += pool) {
        const int64_t left = b->n_samples - i;
        sort_pool(b->dataset, b->order + i, left < pool ? left : pool, scratch);
    }
    weft__shuffle(b->turns, b->count, &state);
    weft_free(scratch);
    b->epoch = epoch;
    return WEFT_OK;
}

static weft_status order_dataset(weft_batches *b, const weft_dataset *dataset, int64_t batch_size)
{
    const weft_status status = weft__epoch_open(dataset, &b->samples);
    if (status != WEFT_OK)
        return status;
    const int64_t n = b->samples.n_samples;
    if (n == 0)
        return weft_fail(WEFT_INVALID,
                         "batches: the weights of the data's sources leave no sample for an epoch");
    b->batch_size = batch_size < n ? batch_size : n;
    b->n_samples = n;
    b->count = (n + b->batch_size - 1) / b->batch_size;
    b->order = weft_calloc((size_t)n, sizeof *b->order);
    b->turns = weft_calloc((size_t)b->count, sizeof *b->turns);
    b->row = weft_calloc((size_t)b->batch_size, sizeof *b->row);
    if (b->order && b->turns && b->row)
        return WEFT_OK;
    return weft_fail(WEFT_MEMORY, "batches: out of memory to order %lld samples", (long long)n);
}

weft_status weft_batches_new(const weft_dataset *dataset, int64_t batch_size, uint64_t seed,
                             weft_batches **out)
{
    *out = NULL;
    const int64_t n = weft_dataset_info_of(dataset).samples;
    if (n == 0 || batch_size < 0 || batch_size > INT32_MAX)
        return weft_fail(WEFT_INVALID,
                         "batches: expected samples and a positive batch size, got %lld samples "
                         "and size %lld",
                         (long long)n, (long long)batch_size);
    weft_batches *b = weft_calloc(1, sizeof *b);
    if (b == NULL)
        return weft__out_of_memory("batches", NULL);
    b->dataset = dataset;
    b->seed = seed;
    b->epoch = -1;
    const weft_status status =
        order_dataset(b, dataset, batch_size > 0 ? batch_size : DEFAULT_BATCH);
    if (status != WEFT_OK) {
        weft_batches_free(b);
        return status;
    }
    *out = b;
    return WEFT_OK;
}

/* ---- of a file ------------------------------------------------------------------------------ */

static weft_status check_shapes(const char *path, weft_array *batches, weft_array *prompts)
{
    if (weft_dtype_of(batches) != WEFT_INT32 || weft_ndim(batches) != 3 ||
        weft_size(batches) == 0 || weft_dim(batches, 2) < 2)
        return weft_fail(WEFT_INVALID,
                         "%s: batches: expected int32 (steps, B, L) with L of at least 2, got %s "
                         "of rank %d",
                         path, weft_dtype_name(weft_dtype_of(batches)), weft_ndim(batches));
    if (weft_dtype_of(prompts) != WEFT_INT32 || weft_ndim(prompts) != 2 ||
        weft_dim(prompts, 0) != weft_dim(batches, 0) ||
        weft_dim(prompts, 1) != weft_dim(batches, 1))
        return weft_fail(WEFT_INVALID,
                         "%s: prompt_lengths: expected int32 (%lld, %lld), got %s (%lld, %lld) of "
                         "rank %d",
                         path, (long long)weft_dim(batches, 0), (long long)weft_dim(batches, 1),
                         weft_dtype_name(weft_dtype_of(prompts)), (long long)weft_dim(prompts, 0),
                         (long long)weft_dim(prompts, 1), weft_ndim(prompts));
    return WEFT_OK;
}

static weft_status read_ids(weft_batches *b, weft_array *batches, weft_array *prompts)
{
    const int64_t n_rows = b->count * b->batch_size;
    b->ids = weft_calloc((size_t)n_rows, (size_t)b->length * sizeof *b->ids);
    b->prompts = weft_calloc((size_t)n_rows, sizeof *b->prompts);
    b->weights = weft_calloc((size_t)b->batch_size, (size_t)b->length * sizeof *b->weights);
    b->row = weft_calloc((size_t)b->batch_size, sizeof *b->row);
    if (b->ids == NULL || b->prompts == NULL || b->weights == NULL || b->row == NULL)
        return weft_fail(WEFT_MEMORY, "batches: out of memory for %lld rows", (long long)n_rows);
    const weft_status status = weft_read(batches, WEFT_INT32, b->ids, n_rows * b->length);
    return status == WEFT_OK ? weft_read(prompts, WEFT_INT32, b->prompts, n_rows) : status;
}

/* No negative id, and something to learn at every step. */
static weft_status check_values(const char *path, const weft_batches *b)
{
    for (int64_t step = 0; step < b->count; step++) {
        bool learns = false;
        for (int64_t row = step * b->batch_size; row < (step + 1) * b->batch_size; row++) {
            learns = learns || b->prompts[row] < b->length;
            for (int64_t i = 0; i < b->length; i++) {
                if (b->ids[row * b->length + i] < 0)
                    return weft_fail(WEFT_INVALID, "%s: batches: step %lld has a negative id %d",
                                     path, (long long)step + 1, (int)b->ids[row * b->length + i]);
            }
        }
        if (!learns)
            return weft_fail(WEFT_INVALID,
                             "%s: prompt_lengths: step %lld has nothing to learn: its prompts are "
                             "at least as long as its %lld tokens",
                             path, (long long)step + 1, (long long)b->length);
    }
    return WEFT_OK;
}

static weft_status read_file(const char *path, const weft_safetensors *file, weft_batches *b)
{
    weft_array *batches = weft_safetensors_get(file, "batches");
    weft_array *prompts = weft_safetensors_get(file, "prompt_lengths");
    const weft_array *bad = weft_ok(batches) ? prompts : batches;
    if (!weft_ok(bad))
        return weft_fail(WEFT_INVALID, "%s", weft_error(bad));
    weft_status status = check_shapes(path, batches, prompts);
    if (status != WEFT_OK)
        return status;
    b->count = weft_dim(batches, 0);
    b->batch_size = weft_dim(batches, 1);
    b->length = weft_dim(batches, 2);
    status = read_ids(b, batches, prompts);
    return status == WEFT_OK ? check_values(path, b) : status;
}

weft_status weft_batches_open(const char *path, weft_batches **out)
{
    *out = NULL;
    weft_safetensors *file;
    weft_status status = weft_safetensors_open(path, &file);
    if (status != WEFT_OK)
        return status;
    weft_batches *b = weft_calloc(1, sizeof *b);
    if (b == NULL) {
        status = weft__out_of_memory(path, NULL);
    } else {
        weft_scope_open_lean();
        status = read_file(path, file, b);
        weft_scope_close(NULL);
    }
    weft_safetensors_close(file);
    if (status == WEFT_OK)
        *out = b;
    else
        weft_batches_free(b);
    return status;
}

/* ---- the i-th ------------------------------------------------------------------------------- */

static int gather_dataset(weft_batches *b, int64_t turn)
{
    const int64_t start = b->turns[turn] * b->batch_size;
    int n = 0;
    for (int64_t i = start; i < b->n_samples && n < b->batch_size; i++)
        b->row[n++] = weft_dataset_at(b->dataset, b->order[i]);
    return n;
}

static int gather_file(weft_batches *b, int64_t turn)
{
    for (int64_t i = 0; i < b->batch_size; i++) {
        const int64_t row = turn * b->batch_size + i;
        float *weights = b->weights + i * b->length;
        for (int64_t k = 0; k < b->length; k++)
            weights[k] = k >= b->prompts[row];
        b->row[i] = (weft_sample){b->ids + row * b->length, weights, b->length, 0};
    }
    return (int)b->batch_size;
}

weft_status weft_batches_at(weft_batches *batches, int64_t i, weft_batch *out)
{
    *out = (weft_batch){0};
    const int64_t epoch = i / batches->count, turn = i % batches->count;
    if (batches->dataset && epoch != batches->epoch) {
        const weft_status status = draw_epoch(batches, epoch);
        if (status != WEFT_OK)
            return status;
    }
    const int n = batches->dataset ? gather_dataset(batches, turn) : gather_file(batches, turn);
    return weft_batch_of_samples(batches->row, n, out);
}

/* ---- what they are of ----------------------------------------------------------------------- */

static uint64_t add_word(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * 0x100000001b3u ^ hash >> 29;
}

static uint64_t hash_sample(uint64_t hash, const weft_sample *s)
{
    hash = add_word(hash, (uint64_t)s->length);
    for (int64_t i = 0; i < s->length; i++)
        hash = add_word(hash, (uint32_t)s->ids[i]);
    for (int64_t i = 0; s->weights && i < s->length; i++) {
        uint32_t bits;
        memcpy(&bits, &s->weights[i], sizeof bits);
        hash = add_word(hash, bits);
    }
    return hash;
}

void weft__batches_identify(const weft_batches *b, uint64_t *hash, int64_t *batch_size,
                            uint64_t *seed)
{
    const int64_t n = b->dataset ? weft_dataset_info_of(b->dataset).samples : 0;
    const int64_t lines = b->dataset ? 0 : b->count * b->batch_size;
    uint64_t h = add_word(0xcbf29ce484222325u, (uint64_t)b->n_samples);
    for (int64_t i = 0; i < n; i++) {
        const weft_sample sample_at = weft_dataset_at(b->dataset, i);
        h = hash_sample(h, &sample_at);
    }
    for (int64_t i = 0; i < lines * b->length; i++)
        h = add_word(h, (uint32_t)b->ids[i]);
    for (int64_t i = 0; i < lines; i++)
        h = add_word(h, (uint32_t)b->prompts[i]);
    *hash = h;
    *batch_size = b->batch_size;
    *seed = b->seed;
}
