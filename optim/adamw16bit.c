/* optim/adamw16bit.c -- AdamW with bfloat16 moments and parameters, stochastic rounding, by
 * the fused op if the hyper-parameters are constants. */
#include "ops/nn/adamw16bit.h"
#include "optim/optim.h"
#include "weft/random.h"

enum { M, V };

static bool guards(const weft_optim_step *s)
{
    return weft_optim_adamw.guards(s);
}

/* The random key of this parameter in this update. The keys of all parameters are made at once. */
static weft_array *key_of(weft_optim_step *s)
{
    const weft_optim_adamw16bit_options *o = s->options;
    weft_array **keys = &s->shared[WEFT__SHARED_KEYS];
    weft_device *device = weft_device_of(s->parameter);
    if (*keys == NULL || weft_device_of(*keys) != device) {
        weft_array *seed = weft_random_bits(weft_random_key((uint64_t)o->seed), WEFT_DIMS(2), 4);
        weft_array *update = weft_add(seed, weft_astype(s->count, WEFT_UINT32));
        *keys = weft_to(weft_random_split(update, s->n_parameters), device);
    }
    return weft_squeeze(weft_slice_axis(*keys, 0, s->index, s->index + 1), 0);
}

/* Computes AdamW's update from plain ops, and rounds it. */
static weft_array *by_formula(weft_optim_step *s)
{
    const weft_dtype own = weft_dtype_of(s->parameter), wide = weft_dtype_of(s->gradient);
    weft_array *bits[3];
    weft__rounding_bits(key_of(s), weft_shape(s->parameter), bits);
    s->parameter = weft_astype(s->parameter, wide);
    for (int i = 0; i < 2; i++)
        s->state[i] = weft_astype(s->state[i], wide);
    weft_array *value = weft_optim_adamw.update(s);
    for (int i = 0; i < 2; i++)
        s->state[i] = weft__stochastic_round(s->state[i], bits[1 + i], WEFT_BFLOAT16);
    return weft__stochastic_round(value, bits[0], own);
}

static weft_array *update(weft_optim_step *s)
{
    if (!guards(s))
        return by_formula(s);
    const weft_adamw_params params = {.beta1 = weft_optim_hyper(s, "beta1").value,
                                      .beta2 = weft_optim_hyper(s, "beta2").value,
                                      .eps = weft_optim_hyper(s, "eps").value,
                                      .decay = weft_optim_hyper(s, "weight_decay").value};
    weft_array *out[3];
    weft__adamw16bit(s->parameter, s->raw, s->state, weft__optim_adam_numbers(s), key_of(s),
                     &params, out);
    s->state[M] = out[1];
    s->state[V] = out[2];
    return out[0];
}

/* ---- the type ------------------------------------------------------------------------------- */

static weft_dtype state_dtype(const void *options, int i, const weft_dims *parameter)
{
    (void)options;
    (void)i;
    (void)parameter;
    return WEFT_BFLOAT16;
}

static weft_status check(const void *options)
{
    const weft_optim_adamw16bit_options *o = options;
    return weft__optim_check_betas("adamw16bit", o->beta1, o->beta2);
}

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_optim_adamw16bit_options, beta1),
    WEFT_FIELD(DOUBLE, weft_optim_adamw16bit_options, beta2),
    WEFT_FIELD(DOUBLE, weft_optim_adamw16bit_options, eps),
    WEFT_FIELD(DOUBLE, weft_optim_adamw16bit_options, weight_decay),
    WEFT_FIELD(BOOL, weft_optim_adamw16bit_options, bias_correction),
    WEFT_FIELD(INT, weft_optim_adamw16bit_options, seed),
    WEFT_FIELDS_END,
};

static const weft_optim_adamw16bit_options defaults = {
    .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01};

const weft_optim_type weft_optim_adamw16bit = {
    .name = "adamw16bit",
    .fields = fields,
    .options_size = sizeof(weft_optim_adamw16bit_options),
    .defaults = &defaults,
    .states = {"m", "v"},
    .state_dtype = state_dtype,
    .rounds = true,
    .check = check,
    .guards = guards,
    .update = update,
};
