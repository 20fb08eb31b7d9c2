/* models/delta_net.c -- a gated delta net (Yang, Kautz and Hatamizadeh 2025): linear attention with
 * a state matrix per head, preceded by a short depthwise convolution. */
#include <math.h>

#include "models/block.h"
#include "models/recurrent.h"

enum { TAPS, MATRICES, N_STATES }; /* states passed from token to token */
static const double l2_eps = 1e-6;

/* ---- the convolution ------------------------------------------------------------------------ */

typedef struct taps {
    weft_module module;
    weft_array *weight; /* (C, 1, taps), or (C, taps, 1) */
} taps;

static const weft_module_type taps_type = {.name = "depthwise_conv"};

static weft_module *taps_new(int64_t C, int64_t n, bool taps_first)
{
    taps *m = weft_nn_new(taps, &taps_type);
    if (m == NULL)
        return NULL;
    const double bound = 1 / sqrt((double)n);
    const weft_dims shape = taps_first ? WEFT_DIMS(C, n, 1) : WEFT_DIMS(C, 1, n);
    weft_nn_param(m, weight, weft_random_uniform(NULL, shape, -bound, bound, WEFT_FLOAT32));
    return weft_nn_finish(m);
}

/* The position of each of L tokens in its row, (L). */
static weft_array *places(weft_array *like, int64_t L)
{
    return weft_to(weft_arange(0, (double)L, 1, WEFT_INT32), weft_device_of(like));
}

/* The element of `part` (B, L, C) `back` tokens before each token, or 0 if that is before `first`.
 */
static weft_array *own_part(weft_array *part, weft_array *first, int64_t back)
{
    if (first == NULL || back == 0)
        return part;
    weft_array *place = places(first, weft_dim(part, 1));
    weft_array *there =
        weft_subtract(place, weft_to(weft_scalar_int(back, WEFT_INT32), weft_device_of(first)));
    weft_array *own = weft_expand_dims(weft_greater_equal(there, first), -1); /* (B, L, 1) */
    return weft_where(own, part, weft_scalar(0, weft_dtype_of(part)));
}

/* Convolves x (B, L, C), preceded by *before (B, taps - 1, C), which is updated: (B, L, C) float32.
 * `first` (B, L) or NULL is the start of each token's sequence. */
static weft_array *convolve(weft_module *self, weft_array *x, weft_array *first,
                            weft_array **before)
{
    taps *m = (taps *)self;
    weft_nn_enter(m);
    const int64_t C = weft_dim(x, 2), L = weft_dim(x, 1), n = weft_size(m->weight) / C;
    weft_array *weight = weft_astype(weft_reshape(m->weight, WEFT_DIMS(C, n)), WEFT_FLOAT32);
    weft_array *both[] = {*before, weft_astype(x, WEFT_FLOAT32)}, *y = NULL;
    weft_array *all = weft_concatenate(both, 2, 1); /* (B, n - 1 + L, C) */
    for (int64_t i = 0; i < n; i++) {
        weft_array *tap = weft_squeeze(weft_slice_axis(weight, 1, i, i + 1), 1); /* (C) */
        weft_array *part = weft_multiply(weft_slice_axis(all, 1, i, i + L), tap);
        part = own_part(part, first, n - 1 - i);
        y = y ? weft_add(y, part) : part;
    }
    weft_array *results[] = {weft_silu(y), weft_slice_axis(all, 1, L, L + n - 1)};
    weft_nn_leave_n(&m->module, results, 2);
    *before = results[1];
    return results[0];
}

/* ---- the layer ------------------------------------------------------------------------------ */

typedef struct delta_net {
    weft_module module;
    weft_module *in_proj_qkvz, *in_proj_ba; /* grouped by key head; or NULL, and these: */
    weft_module *in_proj_qkv, *in_proj_z, *in_proj_b, *in_proj_a;
    weft_module *conv1d, *norm, *out_proj;
    weft_array *A_log, *dt_bias; /* (Hv) */
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
    add_projections(m, E);
    weft_nn_child(
        m, conv1d,
        taps_new(2 * keys_of(c) + values_of(c), c->linear_conv_kernel_dim, c->taps_first));
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

/* The logarithm of the decay: -exp(A_log) softplus(a + dt_bias), float32. A sequence that begins
 * within a row discards earlier tokens: e^FORGET is 0, and FORGET times 0 is not NaN. */
static weft_array *decay_logarithm(const delta_net *m, weft_array *a, weft_array *first)
{
    enum { FORGET = -10000 };
    weft_array *bias = weft_astype(m->dt_bias, WEFT_FLOAT32);
    weft_array *step = weft_softplus(weft_add(weft_astype(a, WEFT_FLOAT32), bias));
    weft_array *rate = weft_negative(weft_exp(weft_astype(m->A_log, WEFT_FLOAT32)));
    weft_array *g = weft_multiply(step, rate); /* (B, L, Hv) */
    if (first == NULL)
        return g;
    weft_array *begins = weft_equal(places(first, weft_dim(g, 1)), first); /* (B, L) */
    return weft_where(weft_expand_dims(begins, -1), weft_scalar(FORGET, WEFT_FLOAT32), g);
}

/* The states before the first token of x, (B, shape...) each; zeros at the start of a sequence. */
static void states_before(const delta_net *m, int64_t B, const weft_cache *cache,
                          weft_array *states[N_STATES])
{
    weft_dims shapes[N_STATES];
    weft__delta_net_states(&m->c, shapes);
    for (int i = 0; i < N_STATES; i++) {
        weft_dims all = {.n = shapes[i].n + 1, .at = {B}};
        for (int k = 0; k < shapes[i].n; k++)
            all.at[k + 1] = shapes[i].at[k];
        states[i] = cache ? weft__recurrent_at(cache, i) : NULL;
        if (states[i] == NULL)
            states[i] = weft_zeros(all, WEFT_FLOAT32);
    }
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
    if (step->mask)
        return weft_error_array("delta_net: a mask besides causality is unsupported");
    if (cache && !weft__recurrent_is(cache))
        return weft_error_array("delta_net: expected a recurrent cache, got a %s one",
                                cache->type->name);
    weft_nn_enter(m);
    const int64_t L = weft_dim(x, 1), Hk = c->linear_num_key_heads, D = c->linear_key_head_dim;
    weft_array *states[N_STATES];
    states_before(m, weft_dim(x, 0), cache, states);
    const projected p = project(m, x);
    weft_array *qkv = convolve(m->conv1d, p.qkv, step->first, &states[TAPS]); /* (B, L, 2 K + V) */
    weft_array *q = unit(heads(qkv, 0, Hk, D), 1 / sqrt((double)D));          /* (B, L, Hk, D) */
    weft_array *k = unit(heads(qkv, Hk * D, Hk, D), 1);
    weft_array *v = heads(qkv, 2 * Hk * D, c->linear_num_value_heads, c->linear_value_head_dim);
    weft_array *beta = weft_sigmoid(weft_astype(p.b, WEFT_FLOAT32)); /* (B, L, Hv) */
    weft_array *y = weft_gated_delta(q, k, v, decay_logarithm(m, p.a, step->first), beta,
                                     states[MATRICES], &states[MATRICES]);
    if (cache && weft__recurrent_put(cache, states, step->offset ? 0 : L) != WEFT_OK)
        y = weft_error_array("%s", weft_error_message());
    return weft_nn_leave(m, weft_nn_call(m->out_proj, gated(m, y, p.z, x)));
}
