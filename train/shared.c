/* train/shared.c -- completions of a group that share their prompt: the model reads a row of each
 * prompt once, followed by its completions. */
#include <string.h>

#include "core/failure.h"
#include "train/columns.h"
#include "train/rollout.h"
#include "weft/tool/data.h"

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

/* prompt and read: (B) the tokens of each sample's prompt, and all of its tokens that are read. */
typedef struct layout {
    int64_t rows, length, n;   /* B, L, and the tokens of the shared row so far */
    int64_t group, from;       /* completions of a group; the first sample's index in its group */
    int32_t *targets, *unpack; /* (B, L) */
    int32_t *positions, *pack; /* (n), of at most B L */
    int32_t *prompt, *read;    /* (B) */
} layout;

static bool is_first(const layout *l, int64_t i)
{
    return i == 0 || (l->from + i) % l->group == 0;
}

/* Finds the prompt of sample i, which ends before the first target. A sample without targets has
 * the prompt of the one before it, or none, and its padding is read, too. Returns the number of
 * tokens that it has alone. */
static int64_t measure(layout *l, int64_t i)
{
    const int32_t *targets = l->targets + i * l->length;
    int64_t from = 0, to = l->length;
    while (from < to && targets[from] < 0)
        from++;
    while (to > from && targets[to - 1] < 0)
        to--;
    const bool masked = from == to;
    l->prompt[i] = !masked ? (int32_t)from + 1 : is_first(l, i) ? 0 : l->prompt[i - 1];
    l->read[i] = (int32_t)(masked ? l->length : to);
    return l->read[i] - (is_first(l, i) ? 0 : l->prompt[i]);
}

/* Adds the tokens of sample i from its token `k` on. */
static void add(layout *l, int64_t i, int64_t k)
{
    for (; k < l->read[i]; k++, l->n++) {
        l->positions[l->n] = (int32_t)k;
        l->pack[l->n] = (int32_t)(i * l->length + k);
        l->unpack[i * l->length + k] = (int32_t)l->n;
    }
}

/* Padding has the tokens of its own sample in turn: gradients of one token alone would be added one
 * after the other. */
static void fill(layout *l)
{
    const int32_t *first = l->unpack;
    for (int64_t i = 0; i < l->rows; i++) {
        int32_t *unpack = l->unpack + i * l->length;
        first = is_first(l, i) ? unpack : first;
        if (unpack > first)
            memcpy(unpack, first, (size_t)l->prompt[i] * sizeof *unpack);
        add(l, i, unpack > first ? l->prompt[i] : 0);
        for (int64_t k = l->read[i]; k < l->length; k++)
            unpack[k] = unpack[k % l->read[i]];
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

/* Adds the columns of shared tokens, arrays of the current scope, if this saves enough. The first
 * sample has the index `from` in its group. */
static weft_status share(const weft_trainer *t, int64_t from, weft_batch *batch)
{
    const int64_t B = weft_dim(batch->tokens, 0), L = weft_dim(batch->tokens, 1), cells = B * L;
    layout l = {.rows = B, .length = L, .group = t->o.objective_options.num_generations};
    int64_t n = 0;
    l.from = from;
    l.targets = weft_calloc(4 * (size_t)cells + 2 * (size_t)B, sizeof *l.targets);
    if (l.targets == NULL)
        return weft__out_of_memory("training", "the tokens that completions share");
    l.unpack = l.targets + cells;
    l.positions = l.unpack + cells;
    l.pack = l.positions + cells;
    l.prompt = l.pack + cells;
    l.read = l.prompt + B;
    const weft_status status = weft_read(batch->targets, WEFT_INT32, l.targets, cells);
    for (int64_t i = 0; status == WEFT_OK && i < B; i++)
        n += measure(&l, i);
    n = padded(t, n);
    if (status == WEFT_OK && is_worth(n, cells)) {
        fill(&l);
        for (; l.n < n; l.n++)
            l.pack[l.n] = -1;
        batch->positions = weft_from_data(l.positions, WEFT_INT32, WEFT_DIMS(1, n));
        batch->pack = weft_from_data(l.pack, WEFT_INT32, WEFT_DIMS(1, n));
        batch->unpack = weft_from_data(l.unpack, WEFT_INT32, WEFT_DIMS(B, L));
    }
    weft_free(l.targets);
    return status;
}

weft_status weft_batch_share(const weft_trainer *t, weft_batch *batch)
{
    weft_batch shared = *batch;
    if (batch->examples != WEFT_EXAMPLES_SCORED ||
        t->o.objective->examples != WEFT_EXAMPLES_SCORED || !allowed(t))
        return WEFT_OK;
    weft_scope_open_lean();
    weft_status status = share(t, 0, &shared);
    if (status == WEFT_OK && shared.pack)
        status = weft_set(&batch->positions, shared.positions);
    if (status == WEFT_OK && shared.pack)
        status = weft_set(&batch->pack, shared.pack);
    if (status == WEFT_OK && shared.pack)
        status = weft_set(&batch->unpack, shared.unpack);
    weft_scope_close(NULL);
    return status;
}

/* ---- parts --------------------------------------------------------------------------------- */

/* The number of samples from `from` on, at most `step`: whole groups, or an equal part of one. */
static int64_t size_of_part(int64_t group, int64_t from, int64_t step)
{
    if (step >= group)
        return step - step % group;
    const int64_t parts = (group + step - 1) / step, size = (group + parts - 1) / parts,
                  left = group - from % group;
    return size < left ? size : left;
}

weft_status weft__trainer_part(const weft_trainer *t, const weft_batch *batch, int64_t from,
                               int64_t step, int64_t *to, weft_batch *out)
{
    const int64_t n = weft__batch_samples(batch), group = t->o.objective_options.num_generations;
    const bool shares = weft__batch_shares(batch);
    if (shares)
        step = size_of_part(group, from, step);
    *to = from + step < n ? from + step : n;
    if (!shares || *to - from == n)
        return weft__batch_part(batch, from, *to, out);
    weft_batch apart = *batch;
    apart.pack = apart.unpack = apart.positions = NULL;
    const weft_status status = weft__batch_part(&apart, from, *to, out);
    return status == WEFT_OK ? share(t, from % group, out) : status;
}
