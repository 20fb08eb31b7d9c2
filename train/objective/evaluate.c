/* train/objective/evaluate.c -- an objective's loss over a validation set. */
#include <math.h>

#include "train/examples.h"
#include "train/objective/objective.h"
#include "train/parallel/group.h"

enum { MOST_ROWS = 64 };

/* Adds a batch's loss and weight to the sums. */
static weft_status add_batch(const weft_objective *objective, const weft_objective_options *options,
                             weft_model *model, const weft_batch *batch, double *sum,
                             double *weight)
{
    weft_array *rewards;
    weft_scope_open_lean();
    weft_array *loss = objective->loss(model, batch, options, false, &rewards);
    const weft_status status = weft_eval(loss);
    if (status == WEFT_OK) {
        *sum += weft_item(loss);
        *weight += objective->weight(batch);
    }
    weft_scope_close(NULL);
    return status;
}

weft_status weft__objective_evaluate(const weft_objective *objective,
                                     const weft_objective_options *options, weft_model *model,
                                     const weft_dataset *dataset, int64_t batch_size,
                                     int64_t max_samples, const weft_cancel *cancel,
                                     weft_group *group, double *loss)
{
    const int64_t all = weft__examples_count(dataset);
    const int64_t n = max_samples > 0 && max_samples < all ? max_samples : all;
    const int64_t B = batch_size < MOST_ROWS ? batch_size : MOST_ROWS;
    const weft_group_place place = weft_group_place_of(group);
    double sums[WEFT__EXCHANGED] = {0}; /* loss and weight */
    bool stop = false;
    weft_status status = WEFT_OK;
    weft_nn_train(weft_model_module(model), false);
    for (int64_t i = B * place.rank; status == WEFT_OK && !stop && i < n; i += B * place.size) {
        int64_t examples[MOST_ROWS];
        int rows = 0;
        for (; rows < B && i + rows < n; rows++)
            examples[rows] = i + rows;
        weft_batch batch = {0};
        status = weft__batch_of_examples(dataset, examples, rows, &batch);
        if (status == WEFT_OK)
            status = add_batch(objective, options, model, &batch, &sums[0], &sums[1]);
        weft_batch_free(&batch);
        stop = cancel && weft_cancel_is_set(cancel);
    }
    status = weft__group_exchange(group, status, &stop, sums, NULL);
    if (status == WEFT_OK && stop)
        return weft_fail(WEFT_CANCELLED, "validation: stopped");
    *loss = sums[0] / (sums[1] > 0 ? sums[1] : 1);
    if (status == WEFT_OK && !isfinite(*loss))
        status = weft_fail(WEFT_INVALID, "validation: the loss is %s",
                           isnan(*loss) ? "NaN" : "infinite");
    return status;
}
