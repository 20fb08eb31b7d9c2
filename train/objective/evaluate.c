/* train/objective/evaluate.c -- evaluates an objective's loss over a validation set. */
#include "train/examples.h"
#include "train/objective/objective.h"
#include "train/parallel/group.h"

enum { MOST_ROWS = 64 };

/* The sums over all batches of this rank. */
typedef struct totals {
    double loss, weight;
    int64_t examples;
} totals;

static weft_status add_batch(const weft_evaluate_options *o, weft_model *model,
                             const weft_batch *whole, totals *t)
{
    weft_array *rewards, *loss = NULL;
    weft_batch own = *whole, *batch = &own;
    weft_scope_open_lean();
    weft_status status = weft__teacher_fill(o->objective, &o->objective_options, batch);
    if (status == WEFT_OK)
        loss = weft__objective_loss(o->objective, model, batch, &o->objective_options, false,
                                    &rewards);
    if (status == WEFT_OK)
        status = weft_eval(loss);
    if (status == WEFT_OK) {
        t->loss += weft_item(loss);
        t->weight += o->objective->weight(batch, &o->objective_options);
    }
    weft_scope_close(NULL);
    return status;
}

/* Adds this rank's share of the n examples, in batches of B. */
static weft_status add_batches(weft_model *model, const weft_dataset *dataset,
                               const weft_evaluate_options *o, int64_t B, int64_t n, totals *t,
                               bool *stop)
{
    const weft_group_info place = weft_group_info_of(o->group);
    weft_status status = WEFT_OK;
    for (int64_t i = B * place.rank; status == WEFT_OK && !*stop && i < n; i += B * place.size) {
        int64_t examples[MOST_ROWS];
        int rows = 0;
        for (; rows < B && i + rows < n; rows++)
            examples[rows] = i + rows;
        weft_batch batch = {0};
        status = weft__batch_of_examples(dataset, examples, NULL, rows, &batch);
        if (status == WEFT_OK)
            status = add_batch(o, model, &batch, t);
        weft_batch_free(&batch);
        t->examples += rows;
        *stop = status == WEFT_OK && o->callback && !o->callback(o->context, t->examples, n);
    }
    return status;
}

weft_status weft__objective_evaluate(weft_model *model, const weft_dataset *dataset,
                                     const weft_evaluate_options *options, weft_evaluation *out)
{
    weft_evaluate_options o = *options;
    const int64_t all = weft__examples_count(dataset);
    const int64_t n = o.max_samples > 0 && o.max_samples < all ? o.max_samples : all;
    const int64_t B = o.batch_size < MOST_ROWS ? o.batch_size : MOST_ROWS;
    totals t = {0};
    bool stop = false;
    weft_status status = weft__objective_complete(o.objective, &o.objective_options);
    if (status == WEFT_OK)
        status = weft__objective_check_model(o.objective, model);
    if (status == WEFT_OK)
        status = weft__objective_check_data(o.objective, dataset);
    if (status == WEFT_OK && n == 0)
        status = weft_fail(WEFT_INVALID, "evaluation: the dataset has no samples");
    if (status == WEFT_OK && o.objective == &weft_objective_distill)
        status = weft__top_check(dataset, weft_model_info_of(model)->vocab_size,
                                 o.objective_options.temperature);
    if (status == WEFT_OK)
        status = add_batches(model, dataset, &o, B, n, &t, &stop);
    double values[WEFT__EXCHANGED] = {t.loss, t.weight, (double)t.examples};
    status = weft__group_exchange(o.group, status, &stop, values, NULL);
    out->loss = values[0] / (values[1] > 0 ? values[1] : 1);
    out->targets = (int64_t)values[2];
    return status == WEFT_OK && stop
               ? weft_fail(WEFT_CANCELLED, "evaluation: stopped after %lld of %lld examples",
                           (long long)out->targets, (long long)n)
               : status;
}
