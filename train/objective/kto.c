/* train/objective/kto.c -- KTO: Kahneman-Tversky optimization. */
#include "train/objective/objective.h"

#include "weft/activations.h"
#include "weft/transforms.h"

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_objective_options, beta),
    WEFT_FIELD(DOUBLE, weft_objective_options, desirable_weight),
    WEFT_FIELD(DOUBLE, weft_objective_options, undesirable_weight),
    WEFT_FIELDS_END,
};

static weft_array *loss(weft_model *model, const weft_batch *batch, const weft_objective_options *o,
                        bool checkpoint, weft_array **rewards)
{
    const int64_t n = weft__batch_examples(batch);
    weft_array *rows = weft__row_log_probabilities(model, batch, checkpoint); /* (B) */
    weft_device *there = weft_device_of(rows);
    weft_array *ratios = weft_subtract(rows, weft_to(batch->reference, there)); /* (B) */
    weft_array *ratio = weft_slice_axis(ratios, 0, 0, n);                       /* (n) */
    weft_array *mismatched = weft_slice_axis(ratios, 0, n, 2 * n);              /* (n) */
    weft_array *kl = weft_stop_gradient(
        weft_maximum_scalar(weft_mean(mismatched, WEFT_ALL_AXES, false), 0)); /* () */
    weft_array *label = weft_to(batch->labels, there);                        /* (n): 1 or 0 */
    weft_array *sign = weft_add_scalar(weft_scale(label, 2), -1);
    weft_array *z = weft_scale(weft_multiply(sign, weft_subtract(ratio, kl)), o->beta);
    weft_array *weight =
        weft_add_scalar(weft_scale(label, o->desirable_weight - o->undesirable_weight),
                        o->undesirable_weight); /* (n) */
    *rewards = weft_scale(ratios, o->beta);
    weft_array *losses = weft_multiply(weight, weft_sigmoid(weft_negative(z))); /* (n) */
    return weft_sum(losses, WEFT_ALL_AXES, false);
}

const weft_objective weft_objective_kto = {
    .name = "kto",
    .summary = "KTO, from completions that are labeled desirable or not and the starting model",
    .examples = WEFT_EXAMPLES_LABELED,
    .columns = WEFT_COLUMN_REFERENCE | WEFT_COLUMN_LABELS,
    .whole_batch = true,
    .fields = fields,
    .defaults = {.beta = 0.1, .desirable_weight = 1, .undesirable_weight = 1},
    .weight = weft__pair_weight,
    .loss = loss,
};
