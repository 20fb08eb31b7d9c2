/* train/micro_batch.c -- splits a batch into micro-batches. */
#include "train/trainer.h"

int64_t weft__batch_samples(const weft_batch *batch)
{
    return batch->pack && !weft__batch_shares(batch) ? weft_dim(batch->pack, 0)
                                                     : weft__batch_examples(batch);
}

static int per_example(const weft_batch *b)
{
    return (int)weft__rows_per_example(b->examples, b->texts);
}

/* The rows of a column (B, ...) that belong to the examples from .. to: first ones, then second
 * ones, and so on. */
static weft_array *rows_of(const weft_batch *b, weft_array *a, int64_t from, int64_t to)
{
    const int64_t n = weft__batch_examples(b);
    weft_array *rows[WEFT__MOST_TEXTS];
    const int k = per_example(b);
    for (int i = 0; i < k; i++)
        rows[i] = weft_slice_axis(a, 0, i * n + from, i * n + to);
    return k == 1 ? rows[0] : weft_concatenate(rows, k, 0);
}

/* The first example in packed row `row`; the number of examples if `row` is past the last row. */
static weft_status first_example(const weft_batch *b, int64_t row, int64_t *out)
{
    int32_t cell;
    *out = weft__batch_examples(b);
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

/* Renumbers the cells in *out, which has the examples begin .. end and the packed rows from `row`
 * on. */
static void renumber(const weft_batch *b, int64_t begin, int64_t end, int64_t row, weft_batch *out)
{
    const int64_t n = weft__batch_examples(b), L = weft_dim(b->tokens, 1);
    weft_array *first = weft_scalar((double)(begin * L), WEFT_INT32);
    weft_array *second = weft_scalar((double)((n + 2 * begin - end) * L), WEFT_INT32);
    weft_array *is_first = weft_less_scalar(out->pack, (double)(n * L));
    weft_array *cells = weft_scalar((double)(row * weft_dim(b->pack, 1)), WEFT_INT32);
    out->pack = less(out->pack, weft_where(is_first, first, second));
    out->unpack = less(out->unpack, cells);
}

weft_status weft__batch_part(const weft_batch *b, int64_t from, int64_t to, weft_batch *out)
{
    int64_t begin = from, end = to; /* examples of the samples from .. to */
    weft_status status = WEFT_OK;
    *out = *b;
    if (from == 0 && to == weft__batch_samples(b))
        return WEFT_OK;
    if (b->pack)
        status = first_example(b, from, &begin);
    if (b->pack && status == WEFT_OK)
        status = first_example(b, to, &end);
    for (int c = 0; status == WEFT_OK && c < WEFT__COLUMNS; c++) {
        const char axis = weft__columns[c].axes[0];
        weft_array *a = *weft__batch_slot(b, c);
        if (a)
            *weft__batch_slot(out, c) = axis == 'B' || (axis == 'R' && !b->pack)
                                            ? rows_of(b, a, begin, end)
                                        : axis == 'N' ? weft_slice_axis(a, 0, begin, end)
                                                      : weft_slice_axis(a, 0, from, to);
    }
    if (b->pack && status == WEFT_OK)
        renumber(b, begin, end, from, out);
    return status;
}

weft_array *weft__batch_row_keys(const weft_batch *b, int64_t from, int64_t to)
{
    const weft_dtype dtype = WEFT_UINT32;
    const int k = b->pack ? 1 : per_example(b);
    const int64_t n = weft__batch_examples(b);
    weft_array *parts[WEFT__MOST_TEXTS];
    for (int i = 0; i < k; i++)
        parts[i] = weft_arange_int(i * n + from, i * n + to, 1, dtype);
    weft_array *rows = k == 1 ? parts[0] : weft_concatenate(parts, k, 0); /* (rows) */
    weft_array *words[] = {weft_zeros_like(rows), rows};
    return weft_stack(words, 2, 1);
}
