/* ops/nn/attention_vjp.c -- the gradient of attention. From the output and log-sum-exp, the
 * probabilities are recomputed block by block (Dao et al. 2022). */
#include "ops/nn/nn.h"

#include <string.h>

/* exp(scores - lse): the probabilities; fully masked rows are zeros. */
static weft_array *probabilities(weft_array *scores, weft_array *lse, int64_t Hk)
{
    weft_array *row = weft__attention_group(weft_expand_dims(lse, -1), Hk);
    row = weft_where(weft_isinf(row), weft_scalar(0, weft_dtype_of(row)), row);
    return weft_exp(weft_subtract(scores, row));
}

/* Sums (B, Hk, G, S, D) over the group: (B, S, Hk, D). */
static weft_array *merge_group(weft_array *x, weft_dtype dtype)
{
    x = weft_sum(x, WEFT_DIMS(2), true);
    return weft_astype(weft__attention_ungroup(x), dtype);
}

/* The gradient of the mask from that of the scores, (B, Hk, G, L, S). */
static weft_array *mask_gradient(weft_array *d_s, weft_array *mask)
{
    const weft_dims s = weft_shape(d_s);
    d_s = weft_reshape(d_s, WEFT_DIMS(s.at[0], s.at[1] * s.at[2], s.at[3], s.at[4]));
    return weft_astype(weft__sum_broadcast(d_s, weft_shape(mask)), weft_dtype_of(mask));
}

/* With P the probabilities: dv = P^T do; dP = do v^T; dS = P (dP - rowsum(do o) + d_lse), which is
 * the gradient of the mask. With dS multiplied by the slope of the softcap and the scale, dq = dS k
 * and dk = dS^T q. */
void weft__attention_gradients(weft_array *const in[6], weft_array *mask, weft_array *d_lse,
                               const weft_attention_params *params, weft_array *out[4])
{
    weft_array *q = in[0], *k = in[1], *v = in[2];
    weft_dtype dtype = compute_dtype(q);
    int64_t Hk = weft_dim(k, 2);
    attention_parts parts = weft__attention_parts(q, k, v, mask, params);
    weft_array *o = weft__attention_group(weft_astype(in[3], dtype), Hk);
    weft_array *d_o = weft__attention_group(weft_astype(in[5], dtype), Hk);
    weft_array *p = probabilities(parts.scores, in[4], Hk);

    weft_array *shift = weft_sum(weft_multiply(d_o, o), WEFT_DIMS(-1), true);
    if (d_lse) {
        weft_array *row = weft_astype(weft_expand_dims(d_lse, -1), dtype);
        shift = weft_subtract(shift, weft__attention_group(row, Hk));
    }
    weft_array *d_p = weft_matmul(d_o, weft_swapaxes(parts.v, -1, -2));
    weft_array *d_s = weft_multiply(p, weft_subtract(d_p, shift));
    const bool added = mask && weft_dtype_is_float(weft_dtype_of(mask));
    out[3] = added ? mask_gradient(d_s, mask) : NULL;
    if (params->softcap > 0) {
        weft_array *ratio = weft_square(weft_scale(parts.capped, 1 / params->softcap));
        d_s = weft_multiply(d_s, weft_subtract(weft_scalar(1, dtype), ratio));
    }
    d_s = weft_scale(d_s, params->scale);

    weft_array *d_q = weft_matmul(d_s, parts.k);
    out[0] = weft_astype(weft__attention_ungroup(d_q), weft_dtype_of(q));
    out[1] = merge_group(weft_matmul(weft_swapaxes(d_s, -1, -2), parts.q), weft_dtype_of(k));
    out[2] = merge_group(weft_matmul(weft_swapaxes(p, -1, -2), d_o), weft_dtype_of(v));
}

static void expand(weft_array *node, weft_array **outs)
{
    const weft_attention_params *params = weft_node_params(node);
    if (params->has_first || params->has_ends) {
        weft__attention_bounds_expand(node, 6, outs);
        return;
    }
    weft_array *in[6];
    for (int i = 0; i < 6; i++) {
        in[i] = weft_node_input(node, i);
    }
    weft_array *mask = params->has_mask ? weft_node_input(node, 6) : NULL;
    weft_array *all[4];
    weft__attention_gradients(in, mask, NULL, params, all);
    memcpy(outs, all, 3 * sizeof *outs);
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_attention_params *params = weft_node_params(node);
    if (params->has_lengths) {
        return weft_because(why, "lengths are not for the gradient: give a mask");
    }
    if (!weft__attention_infer(node, 6, why)) {
        return false;
    }
    weft_dims q = input_shape(node, 0), v = input_shape(node, 2);
    weft_dims o = WEFT_DIMS(q.at[0], q.at[1], q.at[2], v.at[3]);
    weft_dims lse = WEFT_DIMS(q.at[0], q.at[1], q.at[2]);
    if (!weft__expect_shape(node, 3, "o", o, why) || !weft__expect_shape(node, 5, "do", o, why) ||
        !weft__expect_shape(node, 4, "lse", lse, why) || !weft__expect_float(node, 3, "o", why) ||
        !weft__expect_float(node, 5, "do", why)) {
        return false;
    }
    if (!weft__attention_infer_rest(node, 6, why)) {
        return false;
    }
    weft_dtype dtype = compute_dtype(weft_node_input(node, 0));
    if (input_dtype(node, 4) != dtype) {
        return weft_because(why, "lse is %s, expected %s", weft_dtype_name(input_dtype(node, 4)),
                            weft_dtype_name(dtype));
    }
    for (int i = 0; i < 3; i++) {
        out[i] = dense(input_dtype(node, i), input_shape(node, i));
    }
    return true;
}

static const weft_attention_params full = {.scale = 0.5};
static const weft_attention_params windowed = {.scale = 0.7, .causal = true, .window = 2};
static const weft_attention_params capped = {
    .scale = 0.6, .softcap = 1.5, .causal = true, .has_mask = true};
static const weft_attention_params from_first = {.scale = 0.7, .causal = true, .has_first = true};
static const weft_attention_params bounded = {
    .scale = 0.7, .window = 7, .has_first = true, .has_ends = true};

/* lse is chosen high enough that the probabilities stay below 1. It has the compute dtype, which
 * equals the tested dtype only for wide floats; narrow ones are tested through attention. */
#define INPUTS(B, L, S, H, Hk, D, Dv)                                                              \
    {.shape = {4, {B, L, H, D}}}, {.shape = {4, {B, S, Hk, D}}}, {.shape = {4, {B, S, Hk, Dv}}},   \
        {.shape = {4, {B, L, H, Dv}}}, {.shape = {3, {B, L, H}}, .lo = 4, .hi = 6},                \
    {                                                                                              \
        .shape = { 4, {B, L, H, Dv} }                                                              \
    }
static const weft_case cases[] = {
    {"full", 6, {INPUTS(2, 3, 4, 2, 2, 3, 3)}, &full},
    {"grouped heads", 6, {INPUTS(1, 3, 4, 4, 2, 4, 3)}, &windowed},
    {"mask",
     7,
     {INPUTS(2, 3, 3, 2, 1, 3, 3), {.shape = {4, {2, 1, 1, 3}}, .boolean = true}},
     &capped},
    {"first",
     7,
     {INPUTS(2, 3, 8, 2, 1, 3, 3), {.shape = {2, {2, 3}}, .index_below = 6}},
     &from_first},
    {"first, ends and window",
     8,
     {INPUTS(2, 3, 8, 2, 1, 3, 3),
      {.shape = {2, {2, 3}}, .index_below = 6},
      {.shape = {2, {2, 3}}, .index_below = 9}},
     &bounded},
    {"no batch", 6, {INPUTS(0, 2, 3, 2, 2, 4, 4)}, &full},
};
#undef INPUTS

const weft_op weft_op_attention_vjp = {
    .name = "attention_vjp",
    .family = WEFT_COMPOSITE,
    .arity = -1,
    .n_outputs = 3,
    .params_size = sizeof(weft_attention_params),
    .params_fields = weft__attention_fields,
    .infer = infer,
    .vmap = weft__attention_vmap,
    .expand = expand,
    .work = weft__attention_vjp_work,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS | 1u << WEFT_FLOAT16 | 1u << WEFT_BFLOAT16,
};
