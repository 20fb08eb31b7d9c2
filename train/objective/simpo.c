/* train/objective/simpo.c -- SimPO: simple preference optimization. */
#include "train/objective/objective.h"

#include "weft/activations.h"

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_objective_options, beta),
    WEFT_FIELD(DOUBLE, weft_objective_options, label_smoothing),
    WEFT_FIELD(DOUBLE, weft_objective_options, gamma),
    WEFT_FIELDS_END,
};

static weft_array *loss(weft_model *model, const weft_batch *batch, const weft_objective_options *o,
                        bool checkpoint, weft_array **rewards)
{
    const double e = o->label_smoothing, gamma = o->gamma;
    weft_array *losses = weft__token_losses(model, batch, batch->targets, checkpoint); /* (B, L) */
    *rewards = weft_scale(weft__row_means(batch, losses), o->beta);                    /* (B) */
    weft_array *z = weft_add_scalar(weft__pair_difference(batch, *rewards), -gamma);   /* (pairs) */
    weft_array *sum = weft_scale(weft_log_sigmoid(z), e - 1);                          /* (pairs) */
    if (e > 0)
        sum = weft_subtract(sum, weft_scale(weft_log_sigmoid(weft_negative(z)), e));
    return weft_sum(sum, WEFT_ALL_AXES, false);
}

const weft_objective weft_objective_simpo = {
    .name = "simpo",
    .summary = "SimPO, from preference pairs",
    .examples = WEFT_EXAMPLES_PAIRS,
    .accepts = WEFT_COLUMN_REFERENCE,
    .fields = fields,
    .defaults = {.beta = 2, .gamma = 0.5},
    .weight = weft__pair_weight,
    .loss = loss,
};
