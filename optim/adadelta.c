/* optim/adadelta.c -- Adadelta: steps scaled by the RMS of earlier steps. */
#include "optim/optim.h"

enum { V, U };

static weft_status check(const void *options)
{
    const weft_optim_adadelta_options *o = options;
    return weft__optim_expect("adadelta", "eps", o->eps, false, true);
}

static weft_array *update(weft_optim_step *s)
{
    const weft_optim_number rho = weft_optim_hyper(s, "rho"), eps = weft_optim_hyper(s, "eps");
    weft_array *v = weft_optim_ema(s->state[V], weft_square(s->gradient), rho);
    weft_array *ratio =
        weft_divide(weft_sqrt(weft_optim_add(s->state[U], eps)), weft_sqrt(weft_optim_add(v, eps)));
    weft_array *d = weft_multiply(ratio, s->gradient);
    s->state[V] = v;
    s->state[U] = weft_optim_ema(s->state[U], weft_square(d), rho);
    return weft_subtract(s->parameter, weft_optim_multiply(d, s->learning_rate));
}

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_optim_adadelta_options, rho),
    WEFT_FIELD(DOUBLE, weft_optim_adadelta_options, eps),
    WEFT_FIELDS_END,
};

static const weft_optim_adadelta_options defaults = {.rho = 0.9, .eps = 1e-6};

const weft_optim_type weft_optim_adadelta = {
    .name = "adadelta",
    .fields = fields,
    .options_size = sizeof(weft_optim_adadelta_options),
    .defaults = &defaults,
    .states = {"v", "u"},
    .check = check,
    .update = update,
};
