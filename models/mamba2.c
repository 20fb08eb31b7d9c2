/* models/mamba2.c -- Mamba 2 (Dao and Gu 2024): heads whose state decays by each token's step and
 * takes in the token's value, preceded by a short depthwise convolution and gated at the end. */
#include <math.h>

#include "models/block.h"
#include "models/config.h"
#include "models/recurrent.h"
#include "nn/module.h"

enum { TAPS, MATRICES, N_STATES }; /* states passed from token to token */

typedef struct mamba2 {
    weft_module module;
    weft_module *in_proj, *conv1d, *norm, *out_proj;
    weft_array *A_log, *D, *dt_bias; /* (H) */
    weft_array *scales;              /* of all columns that in_proj computes; NULL: none */
    weft_activation *activation;     /* of the convolution */
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

/* ---- the configuration ---------------------------------------------------------------------- */

static weft_status read_limits(const weft_config *config, weft__mamba2_config *c)
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

weft_status weft__mamba2_check(const weft_config *config, const weft__mamba2_config *c,
                               const char *const keys[4])
{
    enum { MOST = 1 << 15, MOST_TAPS = 256 };
    const int64_t values[] = {c->heads, c->groups, c->state_size, c->taps};
    for (int i = 0; i < 4; i++) {
        const int64_t least = i == 3 ? 2 : 1, most = i == 3 ? MOST_TAPS : MOST;
        if (values[i] < least || values[i] > most)
            return weft_fail(WEFT_INVALID, "%s: %s: expected %lld to %lld, got %lld",
                             weft_config_where(config), keys[i], (long long)least, (long long)most,
                             (long long)values[i]);
    }
    return c->heads % c->groups == 0
               ? WEFT_OK
               : weft_fail(WEFT_INVALID, "%s: %s: expected a multiple of %s %lld, got %lld",
                           weft_config_where(config), keys[0], keys[1], (long long)c->groups,
                           (long long)c->heads);
}

weft_status weft__mamba2_read(const weft_config *config, const weft__decoder_config *decoder,
                              int64_t width, weft__mamba2_config *out)
{
    static const char *const keys[] = {"mamba_n_heads", "mamba_n_groups", "mamba_d_state",
                                       "mamba_d_conv"};
    static const weft_config_field fields[] = {
        WEFT__CONFIG_AS("mamba_n_heads", INT, weft__mamba2_config, heads, 128),
        WEFT__CONFIG_AS("mamba_n_groups", INT, weft__mamba2_config, groups, 1),
        WEFT__CONFIG_AS("mamba_d_state", INT, weft__mamba2_config, state_size, 256),
        WEFT__CONFIG_AS("mamba_d_conv", INT, weft__mamba2_config, taps, 4),
        WEFT__CONFIG_AS("mamba_conv_bias", BOOL, weft__mamba2_config, conv_bias, true),
        WEFT__CONFIG_AS("mamba_proj_bias", BOOL, weft__mamba2_config, projection_bias, false),
        WEFT__CONFIG_AS("mamba_proj_bias", BOOL, weft__mamba2_config, output_bias, false),
    };
    const int64_t expand = width ? 1 : weft_config_int(config, "mamba_expand", 2);
    weft_status status = weft_config_read(config, fields, sizeof fields / sizeof *fields, out);
    if (status == WEFT_OK)
        status = weft__mamba2_check(config, out, keys);
    if (status != WEFT_OK)
        return status;
    width = width ? width : decoder->hidden_size;
    if (expand < 1 || expand > INT16_MAX || width < 1 || width > INT32_MAX)
        return weft_fail(WEFT_INVALID,
                         "%s: mamba_expand, mamba_d_ssm, hidden_size: expected 1 to %d, and up to "
                         "%d, got %lld and %lld",
                         weft_config_where(config), INT16_MAX, INT32_MAX, (long long)expand,
                         (long long)width);
    width *= expand;
    out->head_dim = weft_config_int(config, "mamba_d_head", width / out->heads);
    if (out->head_dim < 1 || out->head_dim != width / out->heads || width % out->heads != 0)
        return weft_fail(WEFT_INVALID,
                         "%s: mamba_n_heads: expected a divisor of the width of all heads, %lld, "
                         "with heads of mamba_d_head, got %lld",
                         weft_config_where(config), (long long)width, (long long)out->heads);
    out->taps_first = weft__config_taps_first(config, decoder->num_hidden_layers, "mamba.conv1d");
    return read_limits(config, out);
}

/* ---- the module ----------------------------------------------------------------------------- */

weft_array *weft__mamba2_scales(const weft__mamba2_config *c)
{
    const int64_t V = c->heads * c->head_dim, K = c->groups * c->state_size;
    const int64_t widths[] = {V, V, K, K, c->heads};
    weft_array *parts[5];
    for (int i = 0; i < 5; i++)
        parts[i] = weft_full(WEFT_DIMS(widths[i]), c->scales[i], WEFT_FLOAT32);
    return weft_concatenate(parts, 5, 0);
}

weft_module *weft__mamba2_new(const weft__decoder_config *decoder, const weft__mamba2_config *c)
{
    mamba2 *m = weft_nn_new(mamba2, &mamba2_type);
    if (m == NULL)
        return NULL;
    const int64_t E = decoder->hidden_size, V = c->heads * c->head_dim, H = c->heads;
    m->c = *c;
    m->activation = weft__activation_find(decoder->hidden_act);
    weft_nn_child(m, in_proj, weft_nn_linear_new(E, V + channels(c) + H, c->projection_bias));
    weft_nn_child(m, conv1d,
                  weft__convolution_new(channels(c), c->taps, c->conv_bias, c->taps_first));
    weft_array *rates = weft_arange(1, (double)(H + 1), 1, WEFT_FLOAT32);
    weft_nn_param(m, A_log, weft_log(rates));
    weft_nn_param(m, D, weft_ones(WEFT_DIMS(H), WEFT_FLOAT32));
    weft_nn_param(m, dt_bias, weft_ones(WEFT_DIMS(H), WEFT_FLOAT32));
    if (c->scaled)
        weft_nn_buffer(m, scales, weft__mamba2_scales(c));
    if (!c->no_norm)
        weft_nn_child(m, norm, weft_nn_rms_norm_new(V, decoder->rms_norm_eps));
    weft_nn_child(m, out_proj, weft_nn_linear_new(V, E, c->output_bias));
    if (m->out_proj)
        m->out_proj->unadapted = c->unadapted;
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

/* y (B, L, V) float32, gated by z, and each group normalized. */
static weft_array *gated(const mamba2 *m, weft_array *y, weft_array *z)
{
    const weft_nn_rms_norm *norm = (const weft_nn_rms_norm *)m->norm;
    const int64_t B = weft_dim(y, 0), L = weft_dim(y, 1), V = weft_dim(y, 2), G = m->c.groups;
    weft_array *gate = weft_silu(in_float32(z));
    y = m->c.norm_first ? y : weft_multiply(y, gate);
    if (norm) {
        y = weft_rms_norm(weft_reshape(y, WEFT_DIMS(B, L, G, V / G)), NULL, norm->eps, 0);
        y = weft_multiply(weft_reshape(y, WEFT_DIMS(B, L, V)), in_float32(norm->weight));
    }
    return m->c.norm_first ? weft_multiply(y, gate) : y;
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
    if (m->scales)
        all = weft_multiply(all, weft_astype(weft__nn_near(m->scales, all), weft_dtype_of(all)));
    weft_array *z = weft_slice_axis(all, 2, 0, V);
    weft_array *dt = weft_slice_axis(all, 2, V + channels(c), V + channels(c) + c->heads);
    weft_array *mixed = weft_slice_axis(all, 2, V, V + channels(c));
    mixed = m->activation(weft__convolution_forward(m->conv1d, mixed, step->first, &states[TAPS]));
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
