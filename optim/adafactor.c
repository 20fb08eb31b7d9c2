/* optim/adafactor.c -- Adafactor: factored second moments by rows and columns, relative step sizes.
 */
#include "optim/optim.h"

enum { ROW, COLUMN, FULL, FIRST };

static bool state_shape(const void *options, int i, weft_dims *shape)
{
    const bool factored = shape->n >= 2;
    if (i == FIRST)
        return ((const weft_optim_adafactor_options *)options)->beta1 != 0;
    if (i == FULL || !factored)
        return (i == FULL) != factored;
    if (i == COLUMN)
        shape->at[shape->n - 2] = shape->at[shape->n - 1];
    shape->n--;
    return true;
}

static weft_status check(const void *options)
{
    const weft_optim_adafactor_options *o = options;
    const weft_status status = weft__optim_expect("adafactor", "beta1", o->beta1, true, false);
    if (status != WEFT_OK)
        return status;
    return weft__optim_expect("adafactor", "clip_threshold", o->clip_threshold, false, true);
}

static bool own_rate(const void *options)
{
    return !((const weft_optim_adafactor_options *)options)->no_relative_step;
}

static weft_array *root_mean_square(weft_array *x)
{
    return weft_sqrt(weft_mean(weft_square(x), WEFT_ALL_AXES, false));
}

/* The learning rate as a 0-d array of the parameter's dtype. */
static weft_array *learning_rate(const weft_optim_step *s)
{
    const weft_optim_adafactor_options *o = s->options;
    weft_array *rate = s->learning_rate.array;
    if (!o->no_relative_step) {
        weft_array *most =
            o->warmup_init ? weft_scale(s->count, 1e-6) : weft_scalar(1e-2, WEFT_FLOAT64);
        rate = weft_minimum(most, weft_rsqrt(s->count));
    }
    rate = weft_astype(rate, weft_dtype_of(s->parameter));
    if (o->no_scale_parameter)
        return rate;
    weft_array *size = root_mean_square(s->parameter);
    weft_optim_number least = weft_optim_hyper(s, "eps2");
    if (least.array == NULL)
        least.array = weft_scalar(least.value, WEFT_FLOAT64);
    return weft_multiply(weft_maximum(size, weft_astype(least.array, weft_dtype_of(size))), rate);
}

/* The decay of the second moment at step t: 1 - t^-rate. */
static weft_optim_number beta2(const weft_optim_step *s)
{
    weft_array *exponent =
        weft_optim_multiply(weft_log(s->count), weft_optim_hyper(s, "decay_rate"));
    return (weft_optim_number){.array = weft_negative(weft_expm1(weft_negative(exponent)))};
}

/* Divides the gradient by its root mean square. For matrices that is factored as an outer product.
 */
static weft_array *normalized(weft_optim_step *s)
{
    const weft_optim_number share = beta2(s);
    weft_array *square = weft_optim_add(weft_square(s->gradient), weft_optim_hyper(s, "eps1"));
    if (s->state[FULL]) {
        weft_array *v = weft_optim_ema(s->state[FULL], square, share);
        s->state[FULL] = v;
        return weft_multiply(weft_rsqrt(v), s->gradient);
    }
    weft_array *row = weft_mean(square, WEFT_DIMS(-1), false);
    weft_array *column = weft_mean(square, WEFT_DIMS(-2), false);
    row = weft_optim_ema(s->state[ROW], row, share);
    column = weft_optim_ema(s->state[COLUMN], column, share);
    s->state[ROW] = row;
    s->state[COLUMN] = column;
    weft_array *by_row = weft_rsqrt(weft_divide(row, weft_mean(row, WEFT_DIMS(-1), true)));
    weft_array *by_column = weft_rsqrt(column);
    return weft_multiply(weft_multiply(s->gradient, weft_expand_dims(by_row, -1)),
                         weft_expand_dims(by_column, -2));
}

static weft_array *update(weft_optim_step *s)
{
    const weft_optim_number threshold = weft_optim_hyper(s, "clip_threshold");
    const weft_optim_number decay = weft_optim_hyper(s, "weight_decay");
    weft_array *rate = learning_rate(s), *step = normalized(s), *p = s->parameter;
    weft_array *size = root_mean_square(step);
    size = threshold.array ? weft_divide(size, weft_astype(threshold.array, weft_dtype_of(size)))
                           : weft_scale(size, 1 / threshold.value);
    step = weft_divide(step, weft_maximum(size, weft_ones_like(size)));
    step = weft_multiply(step, rate);
    if (s->state[FIRST]) {
        step = weft_optim_ema(s->state[FIRST], step, weft_optim_hyper(s, "beta1"));
        s->state[FIRST] = step;
    }
    if (!weft_optim_is_zero(decay))
        p = weft_subtract(p, weft_multiply(p, weft_optim_multiply(rate, decay)));
    return weft_subtract(p, step);
}

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_optim_adafactor_options, eps1),
    WEFT_FIELD(DOUBLE, weft_optim_adafactor_options, eps2),
    WEFT_FIELD(DOUBLE, weft_optim_adafactor_options, clip_threshold),
    WEFT_FIELD(DOUBLE, weft_optim_adafactor_options, decay_rate),
    WEFT_FIELD(DOUBLE, weft_optim_adafactor_options, beta1),
    WEFT_FIELD(DOUBLE, weft_optim_adafactor_options, weight_decay),
    WEFT_FIELD(BOOL, weft_optim_adafactor_options, no_scale_parameter),
    WEFT_FIELD(BOOL, weft_optim_adafactor_options, no_relative_step),
    WEFT_FIELD(BOOL, weft_optim_adafactor_options, warmup_init),
    WEFT_FIELDS_END,
};

static const weft_optim_adafactor_options defaults = {
    .eps1 = 1e-30, .eps2 = 1e-3, .clip_threshold = 1, .decay_rate = 0.8};

const weft_optim_type weft_optim_adafactor = {
    .name = "adafactor",
    .fields = fields,
    .options_size = sizeof(weft_optim_adafactor_options),
    .defaults = &defaults,
    .states = {"exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq", "exp_avg"},
    .state_shape = state_shape,
    .check = check,
    .own_rate = own_rate,
    .update = update,
};
