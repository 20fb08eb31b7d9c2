/* optim/muon.c -- Muon: momentum orthogonalized by Newton-Schulz iterations. */
#include <math.h>

#include "optim/optim.h"

/* x (M, N) -> a matrix with x's singular vectors and singular values near 1: a quintic iteration on
 * the side of the shorter axis (Jordan 2024). */
static weft_array *orthogonal(weft_array *x, int64_t steps)
{
    static const double a = 3.4445, b = -4.7750, c = 2.0315;
    const bool tall = weft_dim(x, 0) > weft_dim(x, 1);
    if (tall)
        x = weft_swapaxes(x, 0, 1);
    weft_array *norm = weft_sqrt(weft_sum(weft_square(x), WEFT_ALL_AXES, false));
    x = weft_divide(x, weft_add_scalar(norm, 1e-7));
    for (int64_t i = 0; i < steps; i++) {
        weft_array *gram = weft_matmul(x, weft_swapaxes(x, 0, 1));
        weft_array *mix = weft_addmm(gram, gram, gram, c, b);
        x = weft_addmm(x, mix, x, 1, a);
    }
    return tall ? weft_swapaxes(x, 0, 1) : x;
}

static weft_array *update(weft_optim_step *s)
{
    const weft_optim_muon_options *o = s->options;
    const weft_optim_number momentum = weft_optim_hyper(s, "momentum");
    const weft_optim_number decay = weft_optim_hyper(s, "weight_decay");
    const weft_dims shape = weft_shape(s->parameter);
    weft_array *g = s->gradient;
    if (!weft_optim_is_zero(decay))
        g = weft_add(g, weft_optim_multiply(s->parameter, decay));
    weft_array *v = weft_optim_ema(s->state[0], g, momentum);
    s->state[0] = v;
    weft_array *step = o->no_nesterov ? v : weft_optim_ema(v, g, momentum);
    if (shape.n >= 2 && weft_size(step) > 0) {
        const int64_t rows = shape.at[0], size = weft_size(step);
        const double ratio = (double)shape.at[shape.n - 2] / (double)shape.at[shape.n - 1];
        step = orthogonal(weft_reshape(step, WEFT_DIMS(rows, size / rows)), o->ns_steps);
        step = weft_scale(weft_reshape(step, shape), sqrt(fmax(1, ratio)));
    }
    return weft_subtract(s->parameter, weft_optim_multiply(step, s->learning_rate));
}

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_optim_muon_options, momentum),
    WEFT_FIELD(DOUBLE, weft_optim_muon_options, weight_decay),
    WEFT_FIELD(BOOL, weft_optim_muon_options, no_nesterov),
    WEFT_FIELD(INT, weft_optim_muon_options, ns_steps),
    WEFT_FIELDS_END,
};

static const weft_optim_muon_options defaults = {
    .momentum = 0.95, .weight_decay = 0.01, .ns_steps = 5};

const weft_optim_type weft_optim_muon = {
    .name = "muon",
    .fields = fields,
    .options_size = sizeof(weft_optim_muon_options),
    .defaults = &defaults,
    .states = {"v"},
    .update = update,
};
