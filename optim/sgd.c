/* optim/sgd.c -- stochastic gradient descent, with momentum. */
#include "optim/optim.h"

static bool state_shape(const void *options, int i, weft_dims *shape)
{
    (void)i;
    (void)shape;
    return ((const weft_optim_sgd_options *)options)->momentum != 0;
}

static weft_status check(const void *options)
{
    const weft_optim_sgd_options *o = options;
    if (o->nesterov && (o->momentum == 0 || o->dampening != 0))
        return weft_fail(WEFT_INVALID, "sgd: nesterov needs a momentum and no dampening");
    return WEFT_OK;
}

static weft_array *update(weft_optim_step *s)
{
    const weft_optim_sgd_options *o = s->options;
    const weft_optim_number momentum = weft_optim_hyper(s, "momentum");
    const weft_optim_number decay = weft_optim_hyper(s, "weight_decay");
    const weft_optim_number dampening = weft_optim_hyper(s, "dampening");
    weft_array *g = s->gradient;
    if (!weft_optim_is_zero(decay))
        g = weft_add(g, weft_optim_multiply(s->parameter, decay));
    weft_array *step = g;
    if (s->state[0]) {
        weft_array *recent = g;
        if (!weft_optim_is_zero(dampening))
            recent = weft_optim_multiply(g, weft_optim_one_minus(dampening));
        weft_array *v = weft_add(weft_optim_multiply(s->state[0], momentum), recent);
        step = o->nesterov ? weft_add(g, weft_optim_multiply(v, momentum)) : v;
        s->state[0] = v;
    }
    return weft_subtract(s->parameter, weft_optim_multiply(step, s->learning_rate));
}

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_optim_sgd_options, momentum),
    WEFT_FIELD(DOUBLE, weft_optim_sgd_options, weight_decay),
    WEFT_FIELD(DOUBLE, weft_optim_sgd_options, dampening),
    WEFT_FIELD(BOOL, weft_optim_sgd_options, nesterov),
    WEFT_FIELDS_END,
};

const weft_optim_type weft_optim_sgd = {
    .name = "sgd",
    .fields = fields,
    .options_size = sizeof(weft_optim_sgd_options),
    .states = {"v"},
    .state_shape = state_shape,
    .check = check,
    .update = update,
};
