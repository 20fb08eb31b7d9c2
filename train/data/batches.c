/* train/data/batches.c -- the order of batches, from a dataset or a file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "train/data/epoch.h"
#include "train/data/packing.h"
#include "train/examples.h"
#include "train/run/identity.h"

/* Samples are sorted by length within a pool of this many batches. The size is a compromise: larger
 * pools need less padding, smaller ones vary the batches more between epochs. */
enum { POOL_BATCHES = 64, DEFAULT_BATCH = 4 };

/* ---- sequences ------------------------------------------------------------------------------ */

struct weft_batches {
    int64_t batch_size, count;
    const weft_dataset *dataset; /* NULL: batches of a file, from `ids` */
    bool rows;                   /* items of an epoch are rows of `packing`, else samples */
    bool packed;                 /* rows may have several examples, else one */
    weft__packing packing;
    uint64_t seed;
    int64_t epoch;   /* epoch of `order` and `turns`; -1: none */
    int64_t *starts; /* start of each group of samples */
    weft__epoch items;
    int64_t *order;   /* (items.n): the items of all batches, in batch order */
    int64_t *turns;   /* (count): which batch of `order` is used i-th */
    int32_t *ids;     /* (count, batch_size, length) */
    int32_t *prompts; /* (count, batch_size) */
    float *weights;   /* (batch_size, length): of the current batch */
    int64_t length;
    weft_sample *row;   /* scratch space for the samples of a batch of a file */
    int64_t *examples;  /* scratch space for the examples of a batch of a dataset */
    int64_t *row_start; /* (batch_size + 1): start of each row in `examples` */
};

void weft_batches_free(weft_batches *b)
{
    if (b == NULL)
        return;
    weft__packing_free(&b->packing);
    weft__epoch_close(&b->items);
    weft_free(b->starts);
    weft_free(b->order);
    weft_free(b->turns);
    weft_free(b->ids);
    weft_free(b->prompts);
    weft_free(b->weights);
    weft_free(b->row);
    weft_free(b->examples);
    weft_free(b->row_start);
    weft_free(b);
}

int64_t weft_batches_count(const weft_batches *batches)
{
    return batches->count;
}

/* ---- batches of a dataset ------------------------------------------------------------------- */

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

static int64_t length_of(const weft_batches *b, int64_t item)
{
    return b->rows ? weft__packing_length(&b->packing, item)
                   : weft_dataset_at(b->dataset, item).length;
}

/* Sorts order[0..n) by length. Items of equal length keep their random order. */
static void sort_pool(const weft_batches *b, int64_t *order, int64_t n, keyed *scratch)
{
    for (int64_t i = 0; i < n; i++)
        scratch[i] = (keyed){length_of(b, order[i]), i, order[i]};
    qsort(scratch, (size_t)n, sizeof *scratch, compare_keyed);
    for (int64_t i = 0; i < n; i++)
        order[i] = scratch[i].sample;
}

/* Draws the orders of an epoch, which depend only on the seed and the epoch's number. Groups of
 * completions stay together: their order is that of the dataset. */
static weft_status draw_epoch(weft_batches *b, int64_t epoch)
{
    if (b->dataset->info.examples == WEFT_EXAMPLES_SCORED) {
        for (int64_t i = 0; i < b->items.n; i++)
            b->order[i] = i;
        for (int64_t i = 0; i < b->count; i++)
            b->turns[i] = i;
        b->epoch = epoch;
        return WEFT_OK;
    }
    const int64_t pool = POOL_BATCHES * b->batch_size;
    const int64_t most = pool < b->items.n ? pool : b->items.n;
    keyed *scratch = weft_calloc((size_t)most, sizeof *scratch);
    if (scratch == NULL)
        return weft_fail(WEFT_MEMORY, "batches: out of memory to sort %lld samples",
                         (long long)most);
    uint64_t state = b->seed;
    state = weft__draw_seed(&state) ^ (uint64_t)epoch;
    weft__epoch_draw(&b->items, &state, b->order);
    for (int64_t i = 0; i < b->items.n; i += pool) {
        const int64_t left = b->items.n - i;
        sort_pool(b, b->order + i, left < pool ? left : pool, scratch);
    }
    weft__shuffle(b->turns, b->count, &state);
    weft_free(scratch);
    b->epoch = epoch;
    return WEFT_OK;
}

/* Finds the items that epochs consist of. */
static weft_status find_items(weft_batches *b, int64_t length, weft__items *out)
{
    const weft_dataset *d = b->dataset;
    if (b->rows) {
        const weft_status status = b->packed ? weft__packing_new(d, length, b->seed, &b->packing)
                                             : weft__packing_apart(d, &b->packing);
        *out = (weft__items){.n = b->packing.n_rows,
                             .n_groups = b->packing.n_rows,
                             .parts = b->packing.parts,
                             .n_parts = b->packing.n_parts};
        return status;
    }
    *out = (weft__items){.n = d->info.samples, .parts = d->parts, .n_parts = d->n_parts};
    out->starts = b->starts = weft__dataset_groups(d, &out->n_groups);
    return b->starts ? WEFT_OK : WEFT_MEMORY;
}

/* The largest number of examples in a batch. */
static int64_t most_examples(const weft_batches *b)
{
    int64_t most = 1;
    for (int64_t r = 0; r < b->packing.n_rows; r++) {
        const int64_t n = b->packing.starts[r + 1] - b->packing.starts[r];
        most = n > most ? n : most;
    }
    return most * b->batch_size;
}

static weft_status order_items(weft_batches *b, int64_t batch_size, int64_t length)
{
    weft__items items;
    weft_status status = find_items(b, length, &items);
    if (status == WEFT_OK)
        status = weft__epoch_open(&items, &b->items);
    if (status != WEFT_OK)
        return status;
    const int64_t n = b->items.n;
    if (n == 0)
        return weft_fail(WEFT_INVALID,
                         "batches: the weights of the data's sources leave no sample for an epoch");
    b->batch_size = batch_size < n ? batch_size : n;
    b->count = (n + b->batch_size - 1) / b->batch_size;
    b->order = weft_calloc((size_t)n, sizeof *b->order);
    b->turns = weft_calloc((size_t)b->count, sizeof *b->turns);
    b->examples = weft_calloc((size_t)most_examples(b), sizeof *b->examples);
    b->row_start = weft_calloc((size_t)b->batch_size + 1, sizeof *b->row_start);
    if (b->order && b->turns && b->examples && b->row_start)
        return WEFT_OK;
    return weft_fail(WEFT_MEMORY, "batches: out of memory to order %lld samples", (long long)n);
}

static weft_status new_batches(const weft_dataset *dataset, int64_t batch_size, bool packed,
                               int64_t length, uint64_t seed, weft_batches **out)
{
    *out = NULL;
    const int64_t n = weft_dataset_info_of(dataset).samples;
    if (n == 0 || batch_size < 0 || batch_size > INT32_MAX || length < 0)
        return weft_fail(WEFT_INVALID,
                         "batches: expected samples and a positive batch size, got %lld samples "
                         "and size %lld",
                         (long long)n, (long long)batch_size);
    const bool scored = dataset->info.examples == WEFT_EXAMPLES_SCORED;
    const int64_t fallback = scored ? dataset->group : DEFAULT_BATCH;
    if (scored && packed)
        return weft_fail(WEFT_UNSUPPORTED, "batches: completions with rewards cannot be packed");
    if (scored && batch_size % dataset->group != 0)
        return weft_fail(WEFT_INVALID,
                         "batches: batch size: expected a multiple of the %lld completions of a "
                         "group, got %lld",
                         (long long)dataset->group, (long long)batch_size);
    if (packed && dataset->info.examples == WEFT_EXAMPLES_PROMPTS)
        return weft_fail(WEFT_UNSUPPORTED, "batches: prompts cannot be packed");
    if (packed && dataset->info.examples == WEFT_EXAMPLES_TEXTS)
        return weft_fail(WEFT_UNSUPPORTED, "batches: packing texts to be compared is unsupported");
    if (packed && (dataset->top || dataset->taught))
        return weft_fail(WEFT_UNSUPPORTED, "batches: packing samples of a %s is unsupported",
                         dataset->top ? "stored teacher" : "teacher that reads others");
    weft_batches *b = weft_calloc(1, sizeof *b);
    if (b == NULL)
        return weft__out_of_memory("batches", NULL);
    b->dataset = dataset;
    b->rows = packed || weft__example_samples(dataset) > 1;
    b->packed = packed;
    b->seed = seed;
    b->epoch = -1;
    const weft_status status = order_items(b, batch_size > 0 ? batch_size : fallback, length);
    if (status != WEFT_OK) {
        weft_batches_free(b);
        return status;
    }
    *out = b;
    return WEFT_OK;
}

weft_status weft_batches_new(const weft_dataset *dataset, int64_t batch_size, uint64_t seed,
                             weft_batches **out)
{
    return new_batches(dataset, batch_size, false, 0, seed, out);
}

weft_status weft_batches_new_packed(const weft_dataset *dataset, int64_t batch_size, int64_t length,
                                    uint64_t seed, weft_batches **out)
{
    return new_batches(dataset, batch_size, true, length, seed, out);
}

/* ---- batches of a file ---------------------------------------------------------------------- */

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

/* Checks that ids are not negative and that every batch has a target that counts in the loss. */
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
        return weft__report(bad);
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
    weft_status status = weft__safetensors_read(path, &file);
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

/* ---- batch i -------------------------------------------------------------------------------- */

/* Fills `examples` and `row_start` for a batch. Returns its number of rows. */
static int gather_dataset(weft_batches *b, int64_t turn)
{
    const int64_t start = b->turns[turn] * b->batch_size;
    int rows = 0;
    int64_t n = 0;
    for (int64_t i = start; i < b->items.n && rows < b->batch_size; i++) {
        const int64_t item = b->order[i];
        b->row_start[rows++] = n;
        if (!b->rows)
            b->examples[n++] = item;
        for (int64_t k = b->rows ? b->packing.starts[item] : 0;
             b->rows && k < b->packing.starts[item + 1]; k++)
            b->examples[n++] = b->packing.examples[k];
    }
    b->row_start[rows] = n;
    return rows;
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

weft_status weft__batches_examples(weft_batches *b, int64_t i, const int64_t **examples, int *rows)
{
    const int64_t epoch = i / b->count, turn = i % b->count;
    const weft_status status = epoch != b->epoch ? draw_epoch(b, epoch) : WEFT_OK;
    *rows = status == WEFT_OK ? gather_dataset(b, turn) : 0;
    *examples = b->examples;
    return status;
}

bool weft__batches_packed(const weft_batches *batches)
{
    return batches->packed;
}

weft_status weft_batches_at(weft_batches *batches, int64_t i, weft_batch *out)
{
    const int64_t *examples;
    int rows;
    *out = (weft_batch){0};
    if (batches->dataset == NULL)
        return weft_batch_of_samples(batches->row, gather_file(batches, i % batches->count), out);
    const weft_status status = weft__batches_examples(batches, i, &examples, &rows);
    return status == WEFT_OK
               ? weft__batch_of_examples(batches->dataset, examples,
                                         batches->packed ? batches->row_start : NULL, rows, out)
               : status;
}

/* ---- identity ------------------------------------------------------------------------------- */

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

uint64_t weft__dataset_hash(uint64_t hash, const weft_dataset *dataset)
{
    return weft__dataset_hash_part(hash, dataset, 0, dataset->info.samples);
}

uint64_t weft__dataset_hash_part(uint64_t hash, const weft_dataset *dataset, int64_t from,
                                 int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        const weft_sample sample = weft_dataset_at(dataset, i);
        hash = hash_sample(hash, &sample);
        if (dataset->info.examples == WEFT_EXAMPLES_LABELED)
            hash = add_word(hash, dataset->samples[i].undesirable);
        uint64_t bits = 0;
        if (dataset->rewards && !isnan(dataset->rewards[i]))
            memcpy(&bits, &dataset->rewards[i], sizeof bits);
        hash = dataset->rewards ? add_word(hash, bits ^ isnan(dataset->rewards[i])) : hash;
        if (dataset->info.scored) {
            uint32_t score;
            memcpy(&score, &dataset->samples[i].score, sizeof score);
            hash = add_word(hash, score);
        }
    }
    return hash;
}

int64_t weft__batches_first(const weft_batches *batches, int64_t i)
{
    return i % batches->count * batches->batch_size;
}

const weft_dataset *weft__batches_dataset(const weft_batches *batches)
{
    return batches->dataset;
}

weft_status weft__batches_check_ids(const weft_batches *b, const weft_model_info *info)
{
    const int64_t vocabulary = info->vocab_size;
    if (b->dataset)
        return weft__dataset_check_ids(b->dataset, info);
    if (info->n_labels > 0)
        return weft_fail(WEFT_INVALID, "batches: rows of tokens have no labels, and the model is a "
                                       "classifier");
    const int64_t row = b->length, step = b->batch_size * row;
    for (int64_t i = 0; i < b->count * step; i++) {
        if (b->ids[i] >= vocabulary)
            return weft_fail(WEFT_INVALID,
                             "batches: step %lld, row %lld: token %lld has the id %d, and the "
                             "model's vocabulary has %lld tokens",
                             (long long)(i / step) + 1, (long long)(i % step / row) + 1,
                             (long long)(i % row) + 1, (int)b->ids[i], (long long)vocabulary);
    }
    return WEFT_OK;
}

void weft__batches_identify(const weft_batches *b, uint64_t *hash, int64_t *batch_size,
                            uint64_t *seed)
{
    const int64_t lines = b->dataset ? 0 : b->count * b->batch_size;
    uint64_t h = add_word(0xcbf29ce484222325u, (uint64_t)b->items.n);
    h = b->rows && !b->packed ? add_word(h, b->dataset->info.examples) : h;
    h = b->rows && b->dataset->info.texts ? add_word(h, (uint64_t)b->dataset->info.texts) : h;
    h = add_word(h, (uint64_t)b->packing.capacity);
    for (int64_t p = 0; b->dataset && p < b->dataset->n_parts; p++) {
        uint64_t bits;
        memcpy(&bits, &b->dataset->parts[p].weight, sizeof bits);
        h = add_word(h, (uint64_t)b->dataset->parts[p].first);
        h = b->dataset->parts[p].weight == 1 ? h : add_word(h, bits);
    }
    h = b->dataset ? weft__dataset_hash(h, b->dataset) : h;
    for (int64_t i = 0; i < lines * b->length; i++)
        h = add_word(h, (uint32_t)b->ids[i]);
    for (int64_t i = 0; i < lines; i++)
        h = add_word(h, (uint32_t)b->prompts[i]);
    *hash = h;
    *batch_size = b->batch_size;
    *seed = b->seed;
}
