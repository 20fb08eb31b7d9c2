/* optim/lion.c -- Lion: steps of one size in the direction of the sign of the averaged gradient. */
#include "optim/optim.h"

static weft_status check(const void *options)
{
    const weft_optim_lion_options *o = options;
    const weft_status status = weft__optim_expect("lion", "beta1", o->beta1, true, false);
    return status == WEFT_OK ? weft__optim_expect("lion", "beta2", o->beta2, true, false) : status;
}

static weft_array *update(weft_optim_step *s)
{
    const weft_optim_number decay = weft_optim_hyper(s, "weight_decay");
    weft_array *m = s->state[0];
    weft_array *step = weft_sign(weft_optim_ema(m, s->gradient, weft_optim_hyper(s, "beta1")));
    s->state[0] = weft_optim_ema(m, s->gradient, weft_optim_hyper(s, "beta2"));
    if (!weft_optim_is_zero(decay))
        step = weft_add(step, weft_optim_multiply(s->parameter, decay));
    return weft_subtract(s->parameter, weft_optim_multiply(step, s->learning_rate));
}

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_optim_lion_options, beta1),
    WEFT_FIELD(DOUBLE, weft_optim_lion_options, beta2),
    WEFT_FIELD(DOUBLE, weft_optim_lion_options, weight_decay),
    WEFT_FIELDS_END,
};

static const weft_optim_lion_options defaults = {.beta1 = 0.9, .beta2 = 0.99};

const weft_optim_type weft_optim_lion = {
    .name = "lion",
    .fields = fields,
    .options_size = sizeof(weft_optim_lion_options),
    .defaults = &defaults,
    .states = {"m"},
    .check = check,
    .update = update,
};
