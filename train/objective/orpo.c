/* train/objective/orpo.c -- ORPO: odds ratio preference optimization. */
#include "train/objective/objective.h"

#include "weft/activations.h"

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_objective_options, beta),
    WEFT_FIELDS_END,
};

/* The targets of all rows (B, L). Chosen rows also get their prompt as targets: every token up to
 * the last trained one. */
static weft_array *whole_targets(const weft_batch *batch)
{
    const int64_t n = weft__batch_examples(batch), L = weft_dim(batch->targets, 1);
    weft_array *targets = weft_slice_axis(batch->targets, 0, 0, n);      /* (pairs, L) */
    weft_array *rejected = weft_slice_axis(batch->targets, 0, n, 2 * n); /* (pairs, L) */
    weft_array *tokens = weft_slice_axis(batch->tokens, 0, 0, n);        /* (pairs, L) */
    weft_array *last = weft_slice_axis(targets, 1, L - 1, L);            /* (pairs, 1) */
    weft_array *const shifted[] = {weft_slice_axis(tokens, 1, 1, L), last};
    weft_array *next = weft_concatenate(shifted, 2, 1);          /* (pairs, L) */
    weft_array *trained = weft_greater_equal_scalar(targets, 0); /* (pairs, L) */
    weft_array *later = weft_cumsum(weft_astype(trained, WEFT_INT32), 1, true, true);
    weft_array *whole = weft_where(weft_greater_equal_scalar(later, 1),
                                   weft_where(trained, targets, next), targets);
    weft_array *const rows[] = {whole, rejected};
    return weft_concatenate(rows, 2, 0);
}

/* log(p / (1 - p)) for p = e^x */
static weft_array *log_odds(weft_array *x)
{
    x = weft_minimum(x, weft_scalar(-1e-7, weft_dtype_of(x))); /* the gradient is NaN at p = 1 */
    return weft_subtract(x, weft_log(weft_negative(weft_expm1(x))));
}

static weft_array *loss(weft_model *model, const weft_batch *batch, const weft_objective_options *o,
                        bool checkpoint, weft_array **rewards)
{
    const int64_t n = weft__batch_examples(batch);
    weft_array *targets = whole_targets(batch);                                 /* (B, L) */
    weft_array *losses = weft__token_losses(model, batch, targets, checkpoint); /* (B, L) */
    weft_array *rows = weft__row_means(batch, losses);                          /* (B) */
    weft_array *counted = weft_slice_axis(targets, 0, 0, n);                    /* (pairs, L) */
    weft_array *tokens = weft_sum(weft_astype(weft_greater_equal_scalar(counted, 0), WEFT_FLOAT32),
                                  WEFT_ALL_AXES, false);
    weft_array *chosen = weft_slice_axis(losses, 0, 0, n); /* (pairs, L) */
    weft_array *mean = weft_divide(weft_sum(chosen, WEFT_ALL_AXES, false),
                                   weft_to(tokens, weft_device_of(losses)));
    weft_array *odds = weft__pair_difference(batch, log_odds(rows)); /* (pairs) */
    weft_array *ratio = weft_sum(weft_log_sigmoid(odds), WEFT_ALL_AXES, false);
    *rewards = weft_scale(rows, o->beta);
    return weft_subtract(weft_scale(mean, (double)n), weft_scale(ratio, o->beta));
}

const weft_objective weft_objective_orpo = {
    .name = "orpo",
    .summary = "ORPO, from preference pairs",
    .examples = WEFT_EXAMPLES_PAIRS,
    .accepts = WEFT_COLUMN_REFERENCE,
    .whole_batch = true,
    .fields = fields,
    .defaults = {.beta = 0.1},
    .weight = weft__pair_weight,
    .loss = loss,
};
