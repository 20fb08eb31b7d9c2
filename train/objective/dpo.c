/* train/objective/dpo.c -- DPO: direct preference optimization. */
#include "train/objective/objective.h"

#include "weft/activations.h"

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_objective_options, beta),
    WEFT_FIELD(DOUBLE, weft_objective_options, label_smoothing),
    WEFT_FIELDS_END,
};

static weft_array *loss(weft_model *model, const weft_batch *batch, const weft_objective_options *o,
                        bool checkpoint, weft_array **rewards)
{
    const double e = o->label_smoothing;
    weft_array *rows = weft__row_log_probabilities(model, batch, checkpoint);    /* (B) */
    weft_array *reference = weft_to(batch->reference, weft_device_of(rows));     /* (B) */
    *rewards = weft_scale(weft_subtract(rows, reference), o->beta);              /* (B) */
    weft_array *z = weft__pair_difference(batch, *rewards);                      /* (pairs) */
    weft_array *losses = weft_scale(weft_log_sigmoid(z), (e - 1) / (1 - 2 * e)); /* (pairs) */
    if (e > 0) {
        weft_array *flipped = weft_log_sigmoid(weft_negative(z)); /* (pairs) */
        losses = weft_add(losses, weft_scale(flipped, e / (1 - 2 * e)));
    }
    return weft_sum(losses, WEFT_ALL_AXES, false);
}

const weft_objective weft_objective_dpo = {
    .name = "dpo",
    .summary = "DPO, from preference pairs and the starting model",
    .examples = WEFT_EXAMPLES_PAIRS,
    .columns = WEFT_COLUMN_REFERENCE,
    .fields = fields,
    .defaults = {.beta = 0.1},
    .weight = weft__pair_weight,
    .loss = loss,
};
