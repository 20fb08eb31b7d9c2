/* train/micro_batch.c -- some samples of a batch at a time. */
#include "train/trainer.h"

int64_t weft__batch_samples(const weft_batch *batch)
{
    return batch->pairs > 0 ? batch->pairs : weft_dim(batch->tokens, 0);
}

/* The rows of samples from .. to: of pairs the chosen and then the rejected ones. */
static weft_array *rows_of(const weft_batch *b, weft_array *a, int64_t from, int64_t to)
{
    if (a == NULL)
        return NULL;
    weft_array *rows[] = {weft_slice_axis(a, 0, from, to), NULL};
    if (b->pairs == 0)
        return rows[0];
    rows[1] = weft_slice_axis(a, 0, b->pairs + from, b->pairs + to);
    return weft_concatenate(rows, 2, 0);
}

void weft__batch_part(const weft_batch *b, int64_t from, int64_t to, weft_batch *out)
{
    *out = *b;
    if (from == 0 && to == weft__batch_samples(b))
        return;
    out->tokens = rows_of(b, b->tokens, from, to);
    out->targets = rows_of(b, b->targets, from, to);
    out->weights = rows_of(b, b->weights, from, to);
    out->first = rows_of(b, b->first, from, to);
    out->positions = rows_of(b, b->positions, from, to);
    out->reference = rows_of(b, b->reference, from, to);
    out->labels = b->labels ? weft_slice_axis(b->labels, 0, from, to) : NULL;
    out->pairs = b->pairs > 0 ? to - from : 0;
}

weft_array *weft__batch_row_keys(const weft_batch *b, int64_t from, int64_t to)
{
    const weft_dtype dtype = WEFT_UINT32;
    weft_array *rows = weft_arange_int(from, to, 1, dtype); /* (n) */
    if (b->pairs > 0) {
        weft_array *both[] = {rows, weft_arange_int(b->pairs + from, b->pairs + to, 1, dtype)};
        rows = weft_concatenate(both, 2, 0);
    }
    weft_array *words[] = {weft_zeros_like(rows), rows};
    return weft_stack(words, 2, 1);
}
