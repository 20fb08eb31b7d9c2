/* train/objective/evaluate.c -- an objective's loss over a validation set of pairs. */
#include <math.h>

#include "train/examples.h"
#include "train/objective/objective.h"

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
                                     int64_t max_samples, const weft_cancel *cancel, double *loss)
{
    const int64_t all = weft__examples_count(dataset);
    const int64_t n = max_samples > 0 && max_samples < all ? max_samples : all;
    double sum = 0, weight = 0;
    weft_status status = WEFT_OK;
    weft_module *tree = weft_model_module(model);
    weft_nn_train(tree, false);
    int rows = 0;
    for (int64_t i = 0; status == WEFT_OK && i < n; i += rows) {
        int64_t examples[MOST_ROWS];
        for (rows = 0; rows < MOST_ROWS && rows < batch_size && i + rows < n; rows++)
            examples[rows] = i + rows;
        weft_batch batch = {0};
        status = weft__batch_of_examples(dataset, examples, rows, &batch);
        if (status == WEFT_OK)
            status = add_batch(objective, options, model, &batch, &sum, &weight);
        weft_batch_free(&batch);
        if (status == WEFT_OK && cancel && weft_cancel_is_set(cancel))
            status = weft_fail(WEFT_CANCELLED, "validation: stopped");
    }
    *loss = sum / (weight > 0 ? weight : 1);
    if (status == WEFT_OK && !isfinite(*loss))
        status = weft_fail(WEFT_INVALID, "validation: the loss is %s",
                           isnan(*loss) ? "NaN" : "infinite");
    return status;
}
