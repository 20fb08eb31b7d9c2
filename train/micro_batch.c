/* train/micro_batch.c -- splits a batch into micro-batches. */
#include "train/trainer.h"

int64_t weft__batch_samples(const weft_batch *batch)
{
    if (batch->pack)
        return weft_dim(batch->pack, 0);
    return batch->pairs > 0 ? batch->pairs : weft_dim(batch->tokens, 0);
}

/* Rows from .. to of `a`. In a batch of pairs, the chosen rows of these pairs, then the rejected
 * ones. */
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

/* Sets the arrays of *out to the samples from .. to. */
static void take_samples(const weft_batch *b, int64_t from, int64_t to, weft_batch *out)
{
    out->tokens = rows_of(b, b->tokens, from, to);
    out->targets = rows_of(b, b->targets, from, to);
    out->weights = rows_of(b, b->weights, from, to);
    out->reference = rows_of(b, b->reference, from, to);
    out->labels = b->labels ? weft_slice_axis(b->labels, 0, from, to) : NULL;
    out->pairs = b->pairs > 0 ? to - from : 0;
}

/* The first pair in packed row `row`; the number of pairs if `row` is past the last row. */
static weft_status first_pair(const weft_batch *b, int64_t row, int64_t *out)
{
    int32_t cell;
    *out = b->pairs;
    if (row == weft_dim(b->pack, 0))
        return WEFT_OK;
    weft_array *corner = weft_slice_axis(weft_slice_axis(b->pack, 0, row, row + 1), 1, 0, 1);
    const weft_status status = weft_read(corner, WEFT_INT32, &cell, 1);
    if (status == WEFT_OK)
        *out = cell / weft_dim(b->tokens, 1);
    return status;
}

/* Subtracts `by` from the numbers that are not negative. */
static weft_array *less(weft_array *numbers, weft_array *by)
{
    return weft_where(weft_greater_equal_scalar(numbers, 0), weft_subtract(numbers, by), numbers);
}

/* Takes the packed rows from .. to and their pairs. Indices of elements and pairs are renumbered.
 */
static weft_status take_packed(const weft_batch *b, int64_t from, int64_t to, weft_batch *out)
{
    const int64_t L = weft_dim(b->tokens, 1), C = weft_dim(b->pack, 1);
    int64_t begin, end;
    weft_status status = first_pair(b, from, &begin);
    if (status == WEFT_OK)
        status = first_pair(b, to, &end);
    if (status != WEFT_OK)
        return status;
    take_samples(b, begin, end, out);
    weft_array *pack = weft_slice_axis(b->pack, 0, from, to);
    weft_array *chosen = weft_scalar((double)(begin * L), WEFT_INT32);
    weft_array *rejected = weft_scalar((double)((b->pairs + 2 * begin - end) * L), WEFT_INT32);
    weft_array *is_chosen = weft_less_scalar(pack, (double)(b->pairs * L));
    out->pack = less(pack, weft_where(is_chosen, chosen, rejected));
    out->unpack =
        less(rows_of(b, b->unpack, begin, end), weft_scalar((double)(from * C), WEFT_INT32));
    out->first = weft_slice_axis(b->first, 0, from, to);
    out->positions = weft_slice_axis(b->positions, 0, from, to);
    return WEFT_OK;
}

weft_status weft__batch_part(const weft_batch *b, int64_t from, int64_t to, weft_batch *out)
{
    *out = *b;
    if (from == 0 && to == weft__batch_samples(b))
        return WEFT_OK;
    if (b->pack)
        return take_packed(b, from, to, out);
    take_samples(b, from, to, out);
    out->first = rows_of(b, b->first, from, to);
    out->positions = rows_of(b, b->positions, from, to);
    return WEFT_OK;
}

weft_array *weft__batch_row_keys(const weft_batch *b, int64_t from, int64_t to)
{
    const weft_dtype dtype = WEFT_UINT32;
    weft_array *rows = weft_arange_int(from, to, 1, dtype); /* (n) */
    if (b->pairs > 0 && b->pack == NULL) {
        weft_array *both[] = {rows, weft_arange_int(b->pairs + from, b->pairs + to, 1, dtype)};
        rows = weft_concatenate(both, 2, 0);
    }
    weft_array *words[] = {weft_zeros_like(rows), rows};
    return weft_stack(words, 2, 1);
}
