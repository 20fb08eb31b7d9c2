/* models/delta_net.c -- a gated delta net (Yang, Kautz and Hatamizadeh 2025): linear attention with
 * a state matrix per head, preceded by a short depthwise convolution. */
#include <math.h>

#include "models/block.h"
#include "models/recurrent.h"

enum { TAPS, MATRICES, N_STATES }; /* states passed from token to token */
static const double l2_eps = 1e-6;

/* ---- the layer ------------------------------------------------------------------------------ */

typedef struct delta_net {
    weft_module module;
    weft_module *in_proj_qkvz, *in_proj_ba; /* grouped by key head; or NULL, and these: */
    weft_module *in_proj_qkv, *in_proj_z, *in_proj_b, *in_proj_a;
    weft_module *conv1d, *norm, *out_proj;
    weft_array *A_log, *dt_bias; /* (Hv) */
    weft_activation *activation; /* of the convolution */
    weft__delta_net_config c;
} delta_net;

static const weft_module_type delta_net_type = {.name = "delta_net"};

static int64_t keys_of(const weft__delta_net_config *c)
{
    return c->linear_num_key_heads * c->linear_key_head_dim;
}

static int64_t values_of(const weft__delta_net_config *c)
{
    return c->linear_num_value_heads * c->linear_value_head_dim;
}

int weft__delta_net_states(const weft__delta_net_config *c, weft_dims *shapes)
{
    shapes[TAPS] = WEFT_DIMS(c->linear_conv_kernel_dim - 1, 2 * keys_of(c) + values_of(c));
    shapes[MATRICES] =
        WEFT_DIMS(c->linear_num_value_heads, c->linear_value_head_dim, c->linear_key_head_dim);
    return N_STATES;
}

static void add_projections(delta_net *m, int64_t E)
{
    const weft__delta_net_config *c = &m->c;
    const int64_t K = keys_of(c), V = values_of(c), Hv = c->linear_num_value_heads;
    if (c->by_key_head) {
        weft_nn_child(m, in_proj_qkvz, weft_nn_linear_new(E, 2 * K + 2 * V, false));
        weft_nn_child(m, in_proj_ba, weft_nn_linear_new(E, 2 * Hv, false));
        return;
    }
    weft_nn_child(m, in_proj_qkv, weft_nn_linear_new(E, 2 * K + V, false));
    weft_nn_child(m, in_proj_z, weft_nn_linear_new(E, V, false));
    weft_nn_child(m, in_proj_b, weft_nn_linear_new(E, Hv, false));
    weft_nn_child(m, in_proj_a, weft_nn_linear_new(E, Hv, false));
}

weft_module *weft__delta_net_new(const weft__decoder_config *decoder,
                                 const weft__delta_net_config *c)
{
    delta_net *m = weft_nn_new(delta_net, &delta_net_type);
    if (m == NULL)
        return NULL;
    const int64_t E = decoder->hidden_size, Hv = c->linear_num_value_heads;
    m->c = *c;
    m->activation = weft__activation_find(decoder->hidden_act);
    add_projections(m, E);
    weft_nn_child(m, conv1d,
                  weft__convolution_new(2 * keys_of(c) + values_of(c), c->linear_conv_kernel_dim,
                                        false, c->taps_first));
    weft_array *decay = weft_random_uniform(NULL, WEFT_DIMS(Hv), 0.01, 16, WEFT_FLOAT32);
    weft_nn_param(m, A_log, weft_log(decay));
    weft_nn_param(m, dt_bias, weft_ones(WEFT_DIMS(Hv), WEFT_FLOAT32));
    weft_nn_child(m, norm, weft_nn_rms_norm_new(c->linear_value_head_dim, decoder->rms_norm_eps));
    weft_nn_child(m, out_proj, weft_nn_linear_new(values_of(c), E, false));
    return weft_nn_finish(m);
}

/* ---- forward -------------------------------------------------------------------------------- */

/* The projections of x (B, L, E). */
typedef struct projected {
    weft_array *qkv;   /* (B, L, 2 K + V) */
    weft_array *z;     /* (B, L, V) */
    weft_array *b, *a; /* (B, L, Hv) */
} projected;

/* Elements [from, from + n) of each key head's part of x (B, L, Hk, ...), joined. */
static weft_array *of_heads(weft_array *x, int64_t from, int64_t n)
{
    return weft_flatten(weft_slice_axis(x, 3, from, from + n), 2, 3);
}

static projected project(delta_net *m, weft_array *x)
{
    if (!m->c.by_key_head)
        return (projected){weft_nn_call(m->in_proj_qkv, x), weft_nn_call(m->in_proj_z, x),
                           weft_nn_call(m->in_proj_b, x), weft_nn_call(m->in_proj_a, x)};
    const int64_t Hk = m->c.linear_num_key_heads, D = m->c.linear_key_head_dim;
    const int64_t share = m->c.linear_num_value_heads / Hk;
    const int64_t V = share * m->c.linear_value_head_dim;
    const weft_dims heads = WEFT_DIMS(weft_dim(x, 0), weft_dim(x, 1), Hk, -1);
    weft_array *all = weft_reshape(weft_nn_call(m->in_proj_qkvz, x), heads);
    weft_array *gates = weft_reshape(weft_nn_call(m->in_proj_ba, x), heads);
    weft_array *qkv[] = {of_heads(all, 0, D), of_heads(all, D, D), of_heads(all, 2 * D, V)};
    return (projected){weft_concatenate(qkv, 3, 2), of_heads(all, 2 * D + V, V),
                       of_heads(gates, 0, share), of_heads(gates, share, share)};
}

/* Columns [from, from + H D) of x (B, L, ...) as heads (B, L, H, D). */
static weft_array *heads(weft_array *x, int64_t from, int64_t H, int64_t D)
{
    const weft_dims shape = WEFT_DIMS(weft_dim(x, 0), weft_dim(x, 1), H, D);
    return weft_reshape(weft_slice_axis(x, 2, from, from + H * D), shape);
}

/* x / sqrt(sum(x^2) + eps), times `scale`. */
static weft_array *unit(weft_array *x, double scale)
{
    const double D = (double)weft_dim(x, -1);
    return weft_scale(weft_rms_norm(x, NULL, l2_eps / D, 0), scale / sqrt(D));
}

/* The logarithm of the decay: -exp(A_log) softplus(a + dt_bias), float32. */
static weft_array *decay_logarithm(const delta_net *m, weft_array *a, weft_array *first)
{
    weft_array *bias = weft_astype(m->dt_bias, WEFT_FLOAT32);
    weft_array *step = weft_softplus(weft_add(weft_astype(a, WEFT_FLOAT32), bias));
    weft_array *rate = weft_negative(weft_exp(weft_astype(m->A_log, WEFT_FLOAT32)));
    return weft__recurrent_resets(weft_multiply(step, rate), first); /* (B, L, Hv) */
}

/* The heads' normalized outputs, gated by z: (B, L, V) in the dtype of `like`. */
static weft_array *gated(delta_net *m, weft_array *y, weft_array *z, weft_array *like)
{
    y = weft_flatten(weft_nn_call(m->norm, y), 2, 3);
    y = weft_multiply(y, weft_silu(weft_astype(z, WEFT_FLOAT32)));
    return weft_astype(y, weft_dtype_of(like));
}

weft_array *weft__delta_net_forward(weft_module *self, weft_array *x, const weft__step *step,
                                    weft_cache *cache)
{
    delta_net *m = (delta_net *)self;
    const weft__delta_net_config *c = &m->c;
    const int64_t B = weft_dim(x, 0), Hk = c->linear_num_key_heads, D = c->linear_key_head_dim;
    weft_dims shapes[N_STATES];
    weft_array *states[N_STATES];
    weft_nn_enter(m);
    weft__delta_net_states(c, shapes);
    weft_array *error = weft__recurrent_before(shapes, N_STATES, B, step, cache, states);
    if (error)
        return weft_nn_leave(m, error);
    const projected p = project(m, x);
    weft_array *qkv = m->activation(
        weft__convolution_forward(m->conv1d, p.qkv, step->first, &states[TAPS])); /* (B, L, ...) */
    weft_array *q = unit(heads(qkv, 0, Hk, D), 1 / sqrt((double)D)); /* (B, L, Hk, D) */
    weft_array *k = unit(heads(qkv, Hk * D, Hk, D), 1);
    weft_array *v = heads(qkv, 2 * Hk * D, c->linear_num_value_heads, c->linear_value_head_dim);
    weft_array *beta = weft_sigmoid(weft_astype(p.b, WEFT_FLOAT32)); /* (B, L, Hv) */
    weft_array *y = weft_gated_delta(q, k, v, decay_logarithm(m, p.a, step->first), beta,
                                     states[MATRICES], &states[MATRICES]);
    y = weft__recurrent_after(y, step, cache, states);
    return weft_nn_leave(m, weft_nn_call(m->out_proj, gated(m, y, p.z, x)));
}
