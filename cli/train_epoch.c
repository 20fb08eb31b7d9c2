/* cli/train_epoch.c -- weft train: reads the sizes of all batches of an epoch. */
#include "cli/train.h"

/* Of completions that are sampled the largest ones that the options allow. */
static train_epoch epoch_of_prompts(const train_values *v, const train_run *r)
{
    const int64_t batches = weft_batches_count(r->batches), all = r->data_info.samples,
                  prompts = v->batch_size < all ? v->batch_size : all;
    train_epoch e = {.batches = batches, .unit = 1};
    e.rows = prompts * train_group(v);
    e.columns = r->data_info.longest + train_most_tokens(v) - 1;
    e.tokens = batches * e.rows * e.columns;
    return e;
}

weft_status train_check_cancel(const weft_cancel *cancel)
{
    return cancel != NULL && weft_cancel_is_set(cancel)
               ? weft_fail(WEFT_CANCELLED, "train: stopped before the first update")
               : WEFT_OK;
}

weft_status train_read_epoch(const train_values *v, train_run *r, const weft_cancel *cancel,
                             train_epoch *out)
{
    if (train_samples(v)) {
        *out = epoch_of_prompts(v, r);
        return WEFT_OK;
    }
    *out = (train_epoch){.batches = weft_batches_count(r->batches)};
    for (int64_t i = 0; i < out->batches; i++) {
        weft_batch batch;
        weft_status status = train_check_cancel(cancel);
        if (status == WEFT_OK)
            status = weft_batches_at(r->batches, i, &batch);
        if (status != WEFT_OK)
            return status;
        const weft_array *read = batch.pack ? batch.pack : batch.tokens;
        const int64_t rows = weft_dim(read, 0), columns = weft_dim(read, 1);
        out->packed_pairs = batch.pack != NULL;
        const bool two =
            batch.examples == WEFT_EXAMPLES_LABELED || batch.examples == WEFT_EXAMPLES_PAIRS;
        out->unit = batch.examples == WEFT_EXAMPLES_TEXTS ? (int)batch.texts
                    : two && !out->packed_pairs           ? 2
                                                          : 1;
        weft_batch_free(&batch);
        out->tokens += rows * columns;
        if (rows * columns > out->rows * out->columns) {
            out->largest = i;
            out->rows = rows;
            out->columns = columns;
        }
    }
    return WEFT_OK;
}
