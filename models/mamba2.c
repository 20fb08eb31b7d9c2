/* models/mamba2.c -- Mamba 2 (Dao and Gu 2024): heads whose state decays by each token's step and
 * takes in the token's value, preceded by a short depthwise convolution and gated at the end. */
#include <math.h>

#include "models/block.h"
#include "models/config.h"
#include "models/recurrent.h"

enum { TAPS, MATRICES, N_STATES }; /* states passed from token to token */

typedef struct mamba2 {
    weft_module module;
    weft_module *in_proj, *conv1d, *norm, *out_proj;
    weft_array *A_log, *D, *dt_bias; /* (H) */
    weft__mamba2_config c;
} mamba2;

static const weft_module_type mamba2_type = {.name = "mamba2"};

/* The channels of the convolution: values, keys and queries. */
static int64_t channels(const weft__mamba2_config *c)
{
    return c->heads * c->head_dim + 2 * c->groups * c->state_size;
}

int weft__mamba2_states(const weft__mamba2_config *c, weft_dims *shapes)
{
    shapes[TAPS] = WEFT_DIMS(c->taps - 1, channels(c));
    shapes[MATRICES] = WEFT_DIMS(c->heads, c->head_dim, c->state_size);
    return N_STATES;
}

weft_status weft__mamba2_read_limits(const weft_config *config, weft__mamba2_config *c)
{
    const weft__json limits = weft__config_at(config, "time_step_limit");
    double values[] = {0, INFINITY};
    for (size_t i = 0; limits.value && i < 2; i++) {
        weft__json at;
        const weft_status status = weft__json_at(&limits, i, &at);
        if (status != WEFT_OK)
            return status;
        if (weft__json_as_number(&at, &values[i]) != WEFT_OK)
            values[i] = i == 1 ? INFINITY : NAN; /* infinity is not always written as a number */
    }
    if (!(values[0] >= 0) || !(values[1] >= values[0]) || values[1] == 0)
        return weft__json_fail(&limits, WEFT_INVALID,
                               "expected a number of at least 0 and a larger one, got %g and %g",
                               values[0], values[1]);
    c->least_step = values[0];
    c->most_step = isinf(values[1]) ? 0 : values[1];
    return WEFT_OK;
}

weft_module *weft__mamba2_new(const weft__decoder_config *decoder, const weft__mamba2_config *c)
{
    mamba2 *m = weft_nn_new(mamba2, &mamba2_type);
    if (m == NULL)
        return NULL;
    const int64_t E = decoder->hidden_size, V = c->heads * c->head_dim, H = c->heads;
    m->c = *c;
    weft_nn_child(m, in_proj, weft_nn_linear_new(E, V + channels(c) + H, c->projection_bias));
    weft_nn_child(m, conv1d,
                  weft__convolution_new(channels(c), c->taps, c->conv_bias, c->taps_first));
    weft_array *rates = weft_arange(1, (double)(H + 1), 1, WEFT_FLOAT32);
    weft_nn_param(m, A_log, weft_log(rates));
    weft_nn_param(m, D, weft_ones(WEFT_DIMS(H), WEFT_FLOAT32));
    weft_nn_param(m, dt_bias, weft_ones(WEFT_DIMS(H), WEFT_FLOAT32));
    weft_nn_child(m, norm, weft_nn_rms_norm_new(V, decoder->rms_norm_eps));
    weft_nn_child(m, out_proj, weft_nn_linear_new(V, E, c->projection_bias));
    return weft_nn_finish(m);
}

/* Columns [from, from + H D) of x (B, L, ...) as heads (B, L, H, D). */
static weft_array *heads(weft_array *x, int64_t from, int64_t H, int64_t D)
{
    const weft_dims shape = WEFT_DIMS(weft_dim(x, 0), weft_dim(x, 1), H, D);
    return weft_reshape(weft_slice_axis(x, 2, from, from + H * D), shape);
}

static weft_array *in_float32(weft_array *x)
{
    return weft_astype(x, WEFT_FLOAT32);
}

/* y (B, L, V) float32, gated by z, then each group normalized. */
static weft_array *gated(const mamba2 *m, weft_array *y, weft_array *z)
{
    const weft_nn_rms_norm *norm = (const weft_nn_rms_norm *)m->norm;
    const int64_t B = weft_dim(y, 0), L = weft_dim(y, 1), V = weft_dim(y, 2), G = m->c.groups;
    y = weft_multiply(y, weft_silu(in_float32(z)));
    y = weft_rms_norm(weft_reshape(y, WEFT_DIMS(B, L, G, V / G)), NULL, norm->eps, 0);
    return weft_multiply(weft_reshape(y, WEFT_DIMS(B, L, V)), in_float32(norm->weight));
}

/* The step of each token and head, (B, L, H) float32. */
static weft_array *steps(const mamba2 *m, weft_array *dt)
{
    dt = weft_softplus(weft_add(in_float32(dt), in_float32(m->dt_bias)));
    if (m->c.least_step > 0)
        dt = weft_maximum(dt, weft_scalar(m->c.least_step, WEFT_FLOAT32));
    return m->c.most_step > 0 ? weft_minimum(dt, weft_scalar(m->c.most_step, WEFT_FLOAT32)) : dt;
}

weft_array *weft__mamba2_forward(weft_module *self, weft_array *x, const weft__step *step,
                                 weft_cache *cache)
{
    mamba2 *m = (mamba2 *)self;
    const weft__mamba2_config *c = &m->c;
    const int64_t V = c->heads * c->head_dim, K = c->groups * c->state_size;
    weft_dims shapes[N_STATES];
    weft_array *states[N_STATES];
    weft_nn_enter(m);
    weft__mamba2_states(c, shapes);
    weft_array *error =
        weft__recurrent_before(shapes, N_STATES, weft_dim(x, 0), step, cache, states);
    if (error)
        return weft_nn_leave(m, error);
    weft_array *all = weft_nn_call(m->in_proj, x); /* z (V), values, keys, queries, steps (H) */
    weft_array *z = weft_slice_axis(all, 2, 0, V);
    weft_array *dt = weft_slice_axis(all, 2, V + channels(c), V + channels(c) + c->heads);
    weft_array *mixed = weft_slice_axis(all, 2, V, V + channels(c));
    mixed = weft_silu(weft__convolution_forward(m->conv1d, mixed, step->first, &states[TAPS]));
    weft_array *v = heads(mixed, 0, c->heads, c->head_dim); /* (B, L, H, head_dim) */
    weft_array *k = heads(mixed, V, c->groups, c->state_size);
    weft_array *q = heads(mixed, V + K, c->groups, c->state_size);
    dt = steps(m, dt);
    weft_array *g = weft_negative(weft_multiply(dt, weft_exp(in_float32(m->A_log))));
    weft_array *y = weft_state_space(q, k, weft_multiply(v, weft_expand_dims(dt, -1)),
                                     weft__recurrent_resets(g, step->first), states[MATRICES],
                                     &states[MATRICES]);
    y = weft__recurrent_after(y, step, cache, states);
    y = weft_add(y, weft_multiply(v, weft_expand_dims(in_float32(m->D), -1)));
    y = weft_astype(gated(m, weft_flatten(y, 2, 3), z), weft_dtype_of(x));
    return weft_nn_leave(m, weft_nn_call(m->out_proj, y));
}
