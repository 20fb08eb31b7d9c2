/* ops/nn/attention_sinks.c -- attention with sinks: a learned logit per head that takes part in the
 * softmax and has no value.
 *
 * With lse the log-sum-exp of the scores and s the sink, the weights are those without sinks times
 * e^lse / (e^lse + e^s) = sigmoid(lse - s). So the forward pass is attention and a product for each
 * row, and the backward pass is the gradient of attention with the new output and log-sum-exp.
 * Attention kernels need no change.
 */
#include "ops/nn/nn.h"

/* lse (B, L, H) minus the sinks (H). */
static weft_array *above_sinks(weft_array *lse, weft_array *sinks)
{
    return weft_subtract(lse, weft_astype(sinks, weft_dtype_of(lse)));
}

weft_array *weft__attention_with_sinks(weft_array *o, weft_array *lse, weft_array *sinks)
{
    weft_array *share = weft_expand_dims(weft_sigmoid(above_sinks(lse, sinks)), -1);
    return weft_astype(weft_multiply(o, share), weft_dtype_of(o));
}

/* ---- expansion ------------------------------------------------------------------------------ */

static void expand(weft_array *node, weft_array **outs)
{
    weft_array *in[6], *sinks = weft_node_input(node, 3);
    int n = 0;
    for (int i = 0; i < weft_node_n_inputs(node); i++) {
        if (i != 3) {
            in[n++] = weft_node_input(node, i);
        }
    }
    weft_array *y = weft_apply(&weft_op_attention, in, n, weft_node_params(node));
    weft_array *lse = weft_pick(y, 1);
    outs[0] = weft__attention_with_sinks(weft_pick(y, 0), lse, sinks);
    outs[1] = weft_logaddexp(lse, weft_astype(sinks, weft_dtype_of(lse)));
}

/* ---- derivative ----------------------------------------------------------------------------- */

/* The sink's probability e^(s - lse) times d_lse - rowsum(do o), summed over rows. */
static weft_array *sinks_gradient(weft_array *node, weft_array *sinks, weft_array *d_o,
                                  weft_array *d_lse)
{
    weft_array *lse = weft_pick(node, 1);
    weft_dtype dtype = weft_dtype_of(lse);
    weft_array *zero = weft_scalar(0, dtype);
    weft_array *p = weft_exp(weft_negative(above_sinks(lse, sinks)));
    p = weft_where(weft_isinf(lse), zero, p); /* a sink of -infinity over nothing */
    weft_array *o = weft_astype(weft_pick(node, 0), dtype);
    weft_array *shift = weft_sum(weft_multiply(weft_astype(d_o, dtype), o), WEFT_DIMS(-1), false);
    shift = d_lse ? weft_subtract(d_lse, shift) : weft_negative(shift);
    weft_array *d_sinks = weft_sum(weft_multiply(p, shift), WEFT_DIMS(0, 1), false);
    return weft_astype(d_sinks, weft_dtype_of(sinks));
}

static void vjp(weft_array *node, weft_array *const *cts, const bool *wanted, weft_array **grads)
{
    weft_attention_params params = *(const weft_attention_params *)weft_node_params(node);
    weft_array *own = params.has_mask ? weft_node_input(node, 4) : NULL, *mask = own;
    if (params.has_lengths) {
        mask = weft__attention_lengths_mask(node, mask, &params);
    }
    const attention_bounds bounds = weft__attention_bounds_of(node);
    weft_array *in[9], *out[4] = {NULL};
    int n = 6;
    for (int i = 0; i < 3; i++) {
        in[i] = weft_node_input(node, i);
    }
    in[3] = weft_pick(node, 0);
    in[4] = weft_pick(node, 1);
    in[5] = cts[0];
    if (mask) {
        in[n++] = mask;
    }
    if (bounds.first) {
        in[n++] = bounds.first;
    }
    if (bounds.ends) {
        in[n++] = bounds.ends;
    }
    if (cts[0] == NULL) {
        const weft_spec *o = weft_node_spec(node, 0);
        in[5] = on_device_of(in[0], weft_zeros(o->shape, o->dtype));
    }
    const bool bias = own && weft_dtype_is_float(weft_dtype_of(own)) && wanted[4];
    if (cts[1] == NULL && !bias) {
        weft_array *all = weft_apply(&weft_op_attention_vjp, in, n, &params);
        for (int i = 0; i < 3; i++) {
            out[i] = wanted[i] ? weft_pick(all, i) : NULL;
        }
    } else {
        mask = weft__attention_bounds_mask(bounds, weft_dim(in[1], 1), mask);
        params.has_mask = mask != NULL;
        params.has_first = params.has_ends = false;
        weft__attention_gradients(in, mask, cts[1], &params, out);
    }
    for (int i = 0; i < 3; i++) {
        grads[i] = wanted[i] ? out[i] : NULL;
    }
    if (wanted[3]) {
        grads[3] = sinks_gradient(node, weft_node_input(node, 3), in[5], cts[1]);
    }
    if (bias) {
        grads[4] = weft_astype(weft__sum_broadcast(out[3], weft_shape(own)), weft_dtype_of(own));
    }
}

/* ---- the op --------------------------------------------------------------------------------- */

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    if (!weft__attention_infer(node, 4, why) || !weft__expect_float(node, 3, "sinks", why) ||
        !weft__expect_shape(node, 3, "sinks", WEFT_DIMS(input_shape(node, 0).at[2]), why) ||
        !weft__attention_infer_rest(node, 4, why)) {
        return false;
    }
    weft_array *q = weft_node_input(node, 0);
    weft_dims shape = weft_shape(q);
    shape.at[3] = weft_dim(weft_node_input(node, 2), 3);
    out[0] = dense(weft_dtype_of(q), shape);
    shape.n = 3;
    out[1] = dense(compute_dtype(q), shape);
    return true;
}

static const weft_attention_params full = {.scale = 0.5};
static const weft_attention_params windowed = {.scale = 0.7, .causal = true, .window = 2};
static const weft_attention_params capped = {
    .scale = 0.6, .softcap = 2, .causal = true, .has_mask = true};
static const weft_attention_params masked = {.scale = 0.6, .has_mask = true};
static const weft_attention_params all_kinds = {
    .scale = 0.7, .softcap = 2, .window = 7, .causal = true, .has_mask = true, .has_lengths = true};
static const weft_attention_params from_first = {.scale = 0.7, .causal = true, .has_first = true};
static const weft_attention_params from_all_kinds = {
    .scale = 0.7, .softcap = 2, .window = 4, .causal = true, .has_mask = true, .has_first = true};

#define QKVS(B, L, S, H, Hk, D, Dv)                                                                \
    {.shape = {4, {B, L, H, D}}}, {.shape = {4, {B, S, Hk, D}}}, {.shape = {4, {B, S, Hk, Dv}}},   \
    {                                                                                              \
        .shape = { 1, {H} }                                                                        \
    }
static const weft_case cases[] = {
    {"full", 4, {QKVS(2, 3, 4, 2, 2, 4, 4)}, &full},
    {"window", 4, {QKVS(1, 3, 5, 4, 2, 4, 3)}, &windowed},
    {"float mask", 5, {QKVS(1, 2, 3, 2, 2, 3, 3), {.shape = {4, {1, 2, 2, 3}}}}, &capped},
    {"bool mask",
     5,
     {QKVS(2, 2, 16, 2, 1, 3, 3), {.shape = {4, {2, 1, 2, 16}}, .boolean = true}},
     &masked},
    {"mask and lengths",
     6,
     {QKVS(2, 2, 24, 2, 1, 3, 3),
      {.shape = {4, {2, 1, 1, 24}}},
      {.shape = {1, {2}}, .index_below = 25}},
     &all_kinds},
    {"first",
     5,
     {QKVS(2, 3, 8, 4, 2, 3, 2), {.shape = {2, {2, 3}}, .index_below = 6}},
     &from_first},
    {"first, mask and window",
     6,
     {QKVS(2, 3, 8, 2, 1, 3, 3),
      {.shape = {4, {2, 1, 1, 8}}},
      {.shape = {2, {2, 3}}, .index_below = 6}},
     &from_all_kinds},
    {"no keys", 4, {QKVS(1, 2, 0, 2, 1, 3, 3)}, &full},
    {"no batch", 4, {QKVS(0, 2, 3, 2, 2, 4, 4)}, &full},
};
#undef QKVS

const weft_op weft_op_attention_sinks = {
    .name = "attention_sinks",
    .family = WEFT_COMPOSITE,
    .arity = -1,
    .n_outputs = 2,
    .params_size = sizeof(weft_attention_params),
    .params_fields = weft__attention_fields,
    .infer = infer,
    .vjp = vjp,
    .zero_gradient = 1u << 5,
    .expand = expand,
    .work = weft__attention_work,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS,
};
