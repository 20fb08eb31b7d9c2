/* optim/adam.c -- Adam and AdamW, by the fused op if the hyper-parameters are constants. */
#include "optim/optim.h"

enum { M, V };

weft_status weft__optim_check_betas(const char *type, double beta1, double beta2)
{
    const weft_status status = weft__optim_expect(type, "beta1", beta1, true, false);
    return status == WEFT_OK ? weft__optim_expect(type, "beta2", beta2, true, false) : status;
}

static weft_status check_adam(const void *options)
{
    const weft_optim_adam_options *o = options;
    return weft__optim_check_betas("adam", o->beta1, o->beta2);
}

static weft_status check_adamw(const void *options)
{
    const weft_optim_adamw_options *o = options;
    return weft__optim_check_betas("adamw", o->beta1, o->beta2);
}

typedef struct numbers {
    weft_optim_number beta1, beta2, eps, decay;
    bool corrected; /* whether the bias is corrected */
} numbers;

/* The bias corrections of m and v: 1 - beta^t, or 1. */
static weft_optim_number correction_of(const weft_optim_step *s, const numbers *n,
                                       weft_optim_number beta)
{
    return n->corrected ? weft_optim_bias_correction(beta, s->count)
                        : (weft_optim_number){.value = 1};
}

/* The number as a 0-d array of the given dtype. */
static weft_array *as_array(weft_optim_number a, weft_dtype dtype)
{
    return a.array ? weft_astype(a.array, dtype) : weft_scalar(a.value, dtype);
}

static weft_array *number_at(weft_array *all, int i)
{
    return weft_squeeze(weft_slice_axis(all, 0, i, i + 1), 0);
}

/* weft_adamw's five numbers on the parameter's device, shared by all parameters of a group on that
 * device. A guard's numbers stay on their device; the others are moved as one array. */
static weft_array *fused_numbers(weft_optim_step *s, const numbers *n)
{
    const weft_dtype dtype = weft_dtype_of(s->gradient);
    weft_device *device = weft_device_of(s->parameter);
    weft_array *known = s->shared[WEFT__SHARED_NUMBERS];
    if (known && weft_dtype_of(known) == dtype && weft_device_of(known) == device)
        return known;
    weft_array *parts[] = {as_array(s->learning_rate, dtype),
                           as_array(correction_of(s, n, n->beta1), dtype),
                           as_array(correction_of(s, n, n->beta2), dtype)};
    weft_array *three = weft_to(weft_stack(parts, 3, 0), device);
    weft_device *before = weft_default_device();
    weft_set_default_device(device);
    weft_array *one = weft_scalar(1, dtype);
    weft_array *five[] = {number_at(three, 0), s->scale ? weft_astype(s->scale, dtype) : one,
                          number_at(three, 1), number_at(three, 2),
                          s->finite ? weft_astype(s->finite, dtype) : one};
    s->shared[WEFT__SHARED_NUMBERS] = weft_stack(five, 5, 0);
    weft_set_default_device(before);
    return s->shared[WEFT__SHARED_NUMBERS];
}

static weft_array *fused(weft_optim_step *s, const numbers *n)
{
    weft_array *out[3];
    weft_adamw(s->parameter, s->raw, s->state[M], s->state[V], fused_numbers(s, n), n->beta1.value,
               n->beta2.value, n->eps.value, n->decay.value, out);
    s->state[M] = out[1];
    s->state[V] = out[2];
    return out[0];
}

static weft_array *over(weft_array *x, weft_optim_number a)
{
    return a.array ? weft_divide(x, weft_astype(a.array, weft_dtype_of(x))) : x;
}

static weft_array *by_formula(weft_optim_step *s, const numbers *n)
{
    weft_array *m = weft_optim_ema(s->state[M], s->gradient, n->beta1);
    weft_array *v = weft_optim_ema(s->state[V], weft_square(s->gradient), n->beta2);
    weft_array *root = weft_optim_add(weft_sqrt(over(v, correction_of(s, n, n->beta2))), n->eps);
    weft_array *step = weft_divide(over(m, correction_of(s, n, n->beta1)), root);
    s->state[M] = m;
    s->state[V] = v;
    step = weft_add(step, weft_optim_multiply(s->parameter, n->decay));
    return weft_subtract(s->parameter, weft_optim_multiply(step, s->learning_rate));
}

static bool is_constant(const weft_optim_step *s)
{
    for (int i = 0; s->type->fields[i].type != WEFT_FIELD_END; i++) {
        if (s->numbers[i].array)
            return false;
    }
    return true;
}

static numbers numbers_of(const weft_optim_step *s, weft_optim_number decay)
{
    return (numbers){
        .beta1 = weft_optim_hyper(s, "beta1"),
        .beta2 = weft_optim_hyper(s, "beta2"),
        .eps = weft_optim_hyper(s, "eps"),
        .decay = decay,
        .corrected = weft_optim_hyper(s, "bias_correction").value != 0,
    };
}

weft_array *weft__optim_adam_numbers(weft_optim_step *s)
{
    const numbers n = numbers_of(s, (weft_optim_number){0});
    return fused_numbers(s, &n);
}

static weft_array *adam(weft_optim_step *s, weft_optim_number decay)
{
    const numbers n = numbers_of(s, decay);
    return is_constant(s) ? fused(s, &n) : by_formula(s, &n);
}

static weft_array *update_adam(weft_optim_step *s)
{
    return adam(s, (weft_optim_number){0});
}

static weft_array *update_adamw(weft_optim_step *s)
{
    return adam(s, weft_optim_hyper(s, "weight_decay"));
}

static const weft_field adam_fields[] = {
    WEFT_FIELD(DOUBLE, weft_optim_adam_options, beta1),
    WEFT_FIELD(DOUBLE, weft_optim_adam_options, beta2),
    WEFT_FIELD(DOUBLE, weft_optim_adam_options, eps),
    WEFT_FIELD(BOOL, weft_optim_adam_options, bias_correction),
    WEFT_FIELDS_END,
};

const weft_field weft__optim_adamw_fields[] = {
    WEFT_FIELD(DOUBLE, weft_optim_adamw_options, beta1),
    WEFT_FIELD(DOUBLE, weft_optim_adamw_options, beta2),
    WEFT_FIELD(DOUBLE, weft_optim_adamw_options, eps),
    WEFT_FIELD(DOUBLE, weft_optim_adamw_options, weight_decay),
    WEFT_FIELD(BOOL, weft_optim_adamw_options, bias_correction),
    WEFT_FIELDS_END,
};

static const weft_optim_adam_options adam_defaults = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
const weft_optim_adamw_options weft__optim_adamw_defaults = {
    .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01};

const weft_optim_type weft_optim_adam = {
    .name = "adam",
    .fields = adam_fields,
    .options_size = sizeof(weft_optim_adam_options),
    .defaults = &adam_defaults,
    .states = {"m", "v"},
    .check = check_adam,
    .guards = is_constant,
    .update = update_adam,
};

const weft_optim_type weft_optim_adamw = {
    .name = "adamw",
    .fields = weft__optim_adamw_fields,
    .options_size = sizeof(weft_optim_adamw_options),
    .defaults = &weft__optim_adamw_defaults,
    .states = {"m", "v"},
    .check = check_adamw,
    .guards = is_constant,
    .update = update_adamw,
};
