/* optim/adagrad.c -- Adagrad: gradients divided by the root of the sum of their squares. */
#include "optim/optim.h"

static weft_status check(const void *options)
{
    const weft_optim_adagrad_options *o = options;
    return weft__optim_expect("adagrad", "eps", o->eps, false, true);
}

static weft_array *update(weft_optim_step *s)
{
    weft_array *v = weft_add(s->state[0], weft_square(s->gradient));
    weft_array *root = weft_optim_add(weft_sqrt(v), weft_optim_hyper(s, "eps"));
    s->state[0] = v;
    return weft_subtract(s->parameter,
                         weft_divide(weft_optim_multiply(s->gradient, s->learning_rate), root));
}

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_optim_adagrad_options, eps),
    WEFT_FIELDS_END,
};

static const weft_optim_adagrad_options defaults = {.eps = 1e-8};

const weft_optim_type weft_optim_adagrad = {
    .name = "adagrad",
    .fields = fields,
    .options_size = sizeof(weft_optim_adagrad_options),
    .defaults = &defaults,
    .states = {"v"},
    .check = check,
    .update = update,
};
