/* optim/adamax.c -- Adamax: Adam with a decaying maximum instead of the second moment. */
#include "optim/optim.h"

enum { M, V };

static weft_status check(const void *options)
{
    const weft_optim_adamax_options *o = options;
    const weft_status status = weft__optim_expect("adamax", "beta1", o->beta1, true, false);
    return status == WEFT_OK ? weft__optim_expect("adamax", "beta2", o->beta2, true, false)
                             : status;
}

static weft_array *update(weft_optim_step *s)
{
    const weft_optim_number beta1 = weft_optim_hyper(s, "beta1");
    weft_array *m = weft_optim_ema(s->state[M], s->gradient, beta1);
    weft_array *v = weft_maximum(weft_optim_multiply(s->state[V], weft_optim_hyper(s, "beta2")),
                                 weft_abs(s->gradient));
    s->state[M] = m;
    s->state[V] = v;
    if (weft_optim_hyper(s, "bias_correction").value != 0) {
        weft_optim_number correction = weft_optim_bias_correction(beta1, s->count);
        if (correction.array)
            m = weft_divide(m, weft_astype(correction.array, weft_dtype_of(m)));
    }
    weft_array *step = weft_divide(weft_optim_multiply(m, s->learning_rate),
                                   weft_optim_add(v, weft_optim_hyper(s, "eps")));
    return weft_subtract(s->parameter, step);
}

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_optim_adamax_options, beta1),
    WEFT_FIELD(DOUBLE, weft_optim_adamax_options, beta2),
    WEFT_FIELD(DOUBLE, weft_optim_adamax_options, eps),
    WEFT_FIELD(BOOL, weft_optim_adamax_options, bias_correction),
    WEFT_FIELDS_END,
};

static const weft_optim_adamax_options defaults = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};

const weft_optim_type weft_optim_adamax = {
    .name = "adamax",
    .fields = fields,
    .options_size = sizeof(weft_optim_adamax_options),
    .defaults = &defaults,
    .states = {"m", "v"},
    .check = check,
    .update = update,
};
