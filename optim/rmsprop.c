/* optim/rmsprop.c -- RMSprop: gradients divided by their root mean square. */
#include "optim/optim.h"

static weft_status check(const void *options)
{
    const weft_optim_rmsprop_options *o = options;
    return weft__optim_expect("rmsprop", "eps", o->eps, false, true);
}

static weft_array *update(weft_optim_step *s)
{
    weft_array *v =
        weft_optim_ema(s->state[0], weft_square(s->gradient), weft_optim_hyper(s, "alpha"));
    weft_array *root = weft_optim_add(weft_sqrt(v), weft_optim_hyper(s, "eps"));
    s->state[0] = v;
    return weft_subtract(s->parameter,
                         weft_divide(weft_optim_multiply(s->gradient, s->learning_rate), root));
}

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_optim_rmsprop_options, alpha),
    WEFT_FIELD(DOUBLE, weft_optim_rmsprop_options, eps),
    WEFT_FIELDS_END,
};

static const weft_optim_rmsprop_options defaults = {.alpha = 0.99, .eps = 1e-8};

const weft_optim_type weft_optim_rmsprop = {
    .name = "rmsprop",
    .fields = fields,
    .options_size = sizeof(weft_optim_rmsprop_options),
    .defaults = &defaults,
    .states = {"v"},
    .check = check,
    .update = update,
};
