/* train/shared.c -- completions of a group that share their prompt: the model reads a row of each
 * prompt once, followed by its completions. */
#include <string.h>

#include "core/failure.h"
#include "train/columns.h"
#include "train/data/dataset.h"
#include "train/rollout.h"

/* ---- whether ------------------------------------------------------------------------------- */

static weft_status find_dropout(void *found, const char *path, weft_module **field)
{
    (void)path;
    if (strcmp((*field)->type->name, "dropout") == 0 && ((const weft_nn_dropout *)*field)->p > 0)
        *(bool *)found = true;
    return WEFT_OK;
}

/* Dropout and noise are drawn for each sample, whatever the micro-batches. */
static bool allowed(const weft_trainer *t)
{
    bool random = t->o.neftune > 0;
    if (!weft_model_info_of(t->model)->takes_shared)
        return false;
    (void)weft_nn_visit_modules(weft_model_module(t->model), find_dropout, &random);
    return !random;
}

/* Moving queries, keys and values takes time, too. */
static bool is_worth(int64_t shared, int64_t apart)
{
    return shared <= apart * 7 / 8;
}

/* ---- how ----------------------------------------------------------------------------------- */

typedef struct layout {
    int64_t rows, length, n; /* B, L, and the tokens of the shared row so far */
    int32_t *positions, *pack, *unpack;
} layout;

/* Adds the tokens from .. to of sample i, whose last one is not read. */
static void add(layout *l, int64_t i, int64_t from, int64_t to)
{
    for (int64_t k = from; k < to; k++, l->n++) {
        l->positions[l->n] = (int32_t)k;
        l->pack[l->n] = (int32_t)(i * l->length + k);
        l->unpack[i * l->length + k] = (int32_t)l->n;
    }
}

/* Padding has the tokens of its own sample in turn: gradients of one token alone would be added one
 * after the other. */
static void fill(const weft__dataset_sample *samples, int64_t group, layout *l)
{
    for (int64_t i = 0; i < l->rows; i++) {
        const int64_t first = i - i % group, prompt = samples[i].prompt, n = samples[i].length - 1;
        int32_t *unpack = l->unpack + i * l->length;
        if (i > first)
            memcpy(unpack, l->unpack + first * l->length, (size_t)prompt * sizeof *unpack);
        add(l, i, i > first ? prompt : 0, n);
        for (int64_t k = n; k < l->length; k++)
            unpack[k] = unpack[k % n];
    }
}

/* A compiled update is planned for each number of tokens: with padding there are few. */
static int64_t padded(const weft_trainer *t, int64_t n)
{
    int64_t step = 64;
    while (step * 16 < n)
        step *= 2;
    return t->o.compile ? (n + step - 1) / step * step : n;
}

static weft_status set(weft_array **slot, const int32_t *values, weft_dims shape)
{
    weft_scope_open_lean();
    const weft_status status = weft_set(slot, weft_from_data(values, WEFT_INT32, shape));
    weft_scope_close(NULL);
    return status;
}

weft_status weft__rollout_share(const weft_trainer *t, const weft_dataset *d, int64_t first,
                                weft_batch *batch)
{
    const weft__dataset_sample *samples = d->samples + first;
    layout l = {.rows = weft_dim(batch->tokens, 0), .length = weft_dim(batch->tokens, 1)};
    const int64_t cells = l.rows * l.length;
    int64_t n = 0;
    for (int64_t i = 0; i < l.rows; i++)
        n += samples[i].length - 1 - (i % d->group > 0 ? samples[i].prompt : 0);
    n = padded(t, n);
    if (!allowed(t) || !is_worth(n, cells))
        return WEFT_OK;
    l.positions = weft_calloc(2 * (size_t)n + (size_t)cells, sizeof *l.positions);
    if (l.positions == NULL)
        return weft__out_of_memory("training", "the tokens that completions share");
    l.pack = l.positions + n;
    l.unpack = l.pack + n;
    fill(samples, d->group, &l);
    for (; l.n < n; l.n++)
        l.pack[l.n] = -1;
    weft_status status = set(&batch->positions, l.positions, WEFT_DIMS(1, n));
    if (status == WEFT_OK)
        status = set(&batch->pack, l.pack, WEFT_DIMS(1, n));
    if (status == WEFT_OK)
        status = set(&batch->unpack, l.unpack, WEFT_DIMS(l.rows, l.length));
    weft_free(l.positions);
    return status;
}
