/* optim/adamw8bit.c -- AdamW with 8-bit moments (Dettmers et al. 2022), by the fused op if the
 * hyper-parameters are constants. */
#include "ops/nn/adamw8bit.h"
#include "optim/optim.h"

enum { M, V, M_SCALE, V_SCALE };
enum { FEWEST = 4096 };

/* ---- the update ----------------------------------------------------------------------------- */

static bool guards(const weft_optim_step *s)
{
    return weft_optim_adamw.guards(s);
}

/* Computes AdamW's update from plain ops, with the moments of this update before they are encoded.
 */
static weft_array *by_formula(weft_optim_step *s)
{
    const weft_dtype dtype = weft_dtype_of(s->parameter);
    s->state[M] = weft__moment_decode(s->state[M], s->state[M_SCALE], false, dtype);
    s->state[V] = weft__moment_decode(s->state[V], s->state[V_SCALE], true, dtype);
    weft_array *value = weft_optim_adamw.update(s);
    s->state[M] = weft__moment_encode(s->state[M], false, &s->state[M_SCALE]);
    s->state[V] = weft__moment_encode(s->state[V], true, &s->state[V_SCALE]);
    return value;
}

/* Small parameters use the state of plain AdamW. */
static weft_array *update(weft_optim_step *s)
{
    if (s->state[M_SCALE] == NULL)
        return weft_optim_adamw.update(s);
    if (!guards(s))
        return by_formula(s);
    const weft_adamw_params params = {.beta1 = weft_optim_hyper(s, "beta1").value,
                                      .beta2 = weft_optim_hyper(s, "beta2").value,
                                      .eps = weft_optim_hyper(s, "eps").value,
                                      .decay = weft_optim_hyper(s, "weight_decay").value};
    weft_array *out[5];
    weft__adamw8bit(s->parameter, s->raw, s->state, weft__optim_adam_numbers(s), &params, out);
    for (int i = 0; i < 4; i++)
        s->state[i] = out[1 + i];
    return out[0];
}

/* ---- the type ------------------------------------------------------------------------------- */

static int64_t size_of(const weft_dims *shape)
{
    int64_t size = 1;
    for (int i = 0; i < shape->n; i++)
        size *= shape->at[i];
    return size;
}

static bool state_shape(const void *options, int i, weft_dims *shape)
{
    (void)options;
    const int64_t size = size_of(shape);
    if (i >= M_SCALE)
        *shape = WEFT_DIMS(weft__moment_blocks(size));
    return i < M_SCALE || size >= FEWEST;
}

static weft_dtype state_dtype(const void *options, int i, const weft_dims *parameter)
{
    (void)options;
    if (size_of(parameter) < FEWEST)
        return 0;
    return i < M_SCALE ? WEFT_UINT8 : WEFT_FLOAT32;
}

static weft_status check(const void *options)
{
    const weft_optim_adamw_options *o = options;
    return weft__optim_check_betas("adamw8bit", o->beta1, o->beta2);
}

const weft_optim_type weft_optim_adamw8bit = {
    .name = "adamw8bit",
    .fields = weft__optim_adamw_fields,
    .options_size = sizeof(weft_optim_adamw_options),
    .defaults = &weft__optim_adamw_defaults,
    .states = {"m", "v", "m_scale", "v_scale"},
    .state_shape = state_shape,
    .state_dtype = state_dtype,
    .check = check,
    .guards = guards,
    .update = update,
};
