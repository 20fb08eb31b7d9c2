/* ops/nn/attention.c -- scaled dot-product attention with grouped query heads. */
#include "ops/nn/nn.h"

#include <math.h>

/* ---- Scores, for both expansions ------------------------------------------------------------ */

weft_array *weft__attention_group(weft_array *x, int64_t Hk)
{
    weft_dims shape = weft_shape(x);
    int64_t G = shape.at[2] / Hk;
    x = weft_reshape(x, WEFT_DIMS(shape.at[0], shape.at[1], Hk, G, shape.at[3]));
    return weft_transpose(x, WEFT_DIMS(0, 2, 3, 1, 4));
}

weft_array *weft__attention_ungroup(weft_array *x)
{
    weft_dims shape = weft_shape(x);
    x = weft_transpose(x, WEFT_DIMS(0, 3, 1, 2, 4));
    return weft_reshape(
        x, WEFT_DIMS(shape.at[0], shape.at[3], shape.at[1] * shape.at[2], shape.at[4]));
}

/* Whether a query may attend to a key, by their positions, (L, S), with causality, a window or
 * both. */
static weft_array *near_mask(weft_array *like, int64_t L, int64_t S,
                             const weft_attention_params *params)
{
    weft_array *i = weft_arange((double)(S - L), (double)S, 1, WEFT_INT64);
    weft_array *j = weft_arange(0, (double)S, 1, WEFT_INT64);
    i = weft_expand_dims(on_device_of(like, i), 1);
    j = on_device_of(like, j);
    weft_array *visible = params->causal ? weft_less_equal(j, i) : NULL;
    if (params->window > 0) {
        weft_array *apart = weft_abs(weft_subtract(i, j));
        weft_array *near = weft_less(apart, weft_scalar_int(params->window, WEFT_INT64));
        visible = visible ? weft_logical_and(visible, near) : near;
    }
    return visible;
}

/* The mask (b, h, l, s) in the layout of the scores, (b, Hk or 1, G or 1, l, s). */
static weft_array *group_mask(weft_array *mask, int64_t Hk)
{
    weft_dims shape = weft_shape(mask);
    int64_t heads = shape.at[1] == 1 ? 1 : Hk;
    return weft_reshape(
        mask, WEFT_DIMS(shape.at[0], heads, shape.at[1] / heads, shape.at[2], shape.at[3]));
}

static weft_array *hide(weft_array *scores, weft_array *visible)
{
    return weft_where(visible, scores, weft_scalar(-INFINITY, weft_dtype_of(scores)));
}

attention_parts weft__attention_parts(weft_array *q, weft_array *k, weft_array *v, weft_array *mask,
                                      const weft_attention_params *params)
{
    weft_dtype dtype = compute_dtype(q);
    int64_t Hk = weft_dim(k, 2);
    attention_parts parts;
    parts.q = weft__attention_group(weft_astype(q, dtype), Hk);
    parts.k = weft__attention_group(weft_astype(k, dtype), Hk);
    parts.v = weft__attention_group(weft_astype(v, dtype), Hk);
    weft_array *scores = weft_matmul(parts.q, weft_swapaxes(parts.k, -1, -2));
    scores = weft_scale(scores, params->scale);
    parts.capped = params->softcap > 0 ? weft_softcap(scores, params->softcap) : scores;
    scores = parts.capped;
    if (params->has_mask && weft_dtype_of(mask) == WEFT_BOOL) {
        scores = hide(scores, group_mask(mask, Hk));
    } else if (params->has_mask) {
        scores = weft_add(scores, weft_astype(group_mask(mask, Hk), dtype));
    }
    if (params->causal || params->window > 0) {
        scores = hide(scores, near_mask(q, weft_dim(q, 1), weft_dim(k, 1), params));
    }
    parts.scores = scores;
    return parts;
}

/* ---- Expansion ------------------------------------------------------------------------------ */

/* The node's mask combined with its lengths, or NULL, and the matching parameters. */
static weft_array *whole_mask(weft_array *node, weft_attention_params *params)
{
    *params = *(const weft_attention_params *)weft_node_params(node);
    weft_array *mask = params->has_mask ? weft_node_input(node, 3) : NULL;
    return params->has_lengths ? weft__attention_lengths_mask(node, mask, params) : mask;
}

/* The softmax is written out, because a fully masked row has sum 0 and must give neither NaN nor a
 * NaN gradient. */
static void expand(weft_array *node, weft_array **outs)
{
    weft_attention_params params;
    weft_array *q = weft_node_input(node, 0), *k = weft_node_input(node, 1);
    weft_array *mask = whole_mask(node, &params);
    if (params.has_first || params.has_ends) {
        weft__attention_bounds_expand(node, 3, outs);
        return;
    }
    weft_dims lse_shape = weft_node_spec(node, 1)->shape;
    weft_dtype dtype = compute_dtype(q);
    if (weft_dim(k, 1) == 0) {
        const weft_spec *o = weft_node_spec(node, 0);
        outs[0] = on_device_of(q, weft_zeros(o->shape, o->dtype));
        outs[1] = on_device_of(q, weft_full(lse_shape, -INFINITY, dtype));
        return;
    }
    attention_parts parts = weft__attention_parts(q, k, weft_node_input(node, 2), mask, &params);
    weft_array *zero = weft_scalar(0, dtype), *one = weft_scalar(1, dtype);
    weft_array *top = weft_stop_gradient(weft_max(parts.scores, WEFT_DIMS(-1), true));
    top = weft_where(weft_isinf(top), zero, top);
    weft_array *weights = weft_exp(weft_subtract(parts.scores, top));
    weft_array *sum = weft_sum(weights, WEFT_DIMS(-1), true);
    weft_array *seen = weft_greater(sum, zero);
    weft_array *divisor = weft_where(seen, sum, one);
    weft_array *o = weft_divide(weft_matmul(weights, parts.v), divisor);
    outs[0] = weft_astype(weft__attention_ungroup(o), weft_dtype_of(q));
    weft_array *lse = hide(weft_add(weft_log(divisor), top), seen);
    outs[1] = weft_reshape(weft__attention_ungroup(lse), lse_shape);
}

/* ---- Derivative ----------------------------------------------------------------------------- */

/* Whether the mask is added to the scores and is an input. */
static bool has_bias(const weft_array *node)
{
    const weft_attention_params *params = weft_node_params(node);
    return params->has_mask && weft_dtype_is_float(weft_dtype_of(weft_node_input(node, 3)));
}

static void attention_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                          weft_array **grads)
{
    weft_attention_params params;
    weft_array *mask = whole_mask(node, &params);
    const attention_bounds bounds = weft__attention_bounds_of(node);
    weft_array *in[9] = {weft_node_input(node, 0), weft_node_input(node, 1),
                         weft_node_input(node, 2), weft_pick(node, 0),
                         weft_pick(node, 1),       cts[0]};
    int n = 6;
    if (mask)
        in[n++] = mask;
    if (bounds.first)
        in[n++] = bounds.first;
    if (bounds.ends)
        in[n++] = bounds.ends;
    weft_array *out[4] = {NULL};
    if (cts[0] == NULL) {
        const weft_spec *o = weft_node_spec(node, 0);
        in[5] = on_device_of(in[0], weft_zeros(o->shape, o->dtype));
    }
    /* The fused op does not compute the gradient of the mask, which can be as large as the scores.
     */
    const bool bias = has_bias(node) && wanted[3];
    if (cts[1] == NULL && !bias) {
        weft_array *all = weft_apply(&weft_op_attention_vjp, in, n, &params);
        for (int i = 0; i < 3; i++) {
            out[i] = wanted[i] ? weft_pick(all, i) : NULL;
        }
    } else { /* a second derivative, or a direct use of the op */
        mask = weft__attention_bounds_mask(bounds, weft_dim(in[1], 1), mask);
        params.has_mask = mask != NULL;
        params.has_first = params.has_ends = false;
        weft__attention_gradients(in, mask, cts[1], &params, out);
    }
    for (int i = 0; i < 3; i++) {
        grads[i] = wanted[i] ? out[i] : NULL;
    }
    if (bias) { /* lengths may have enlarged it */
        weft_array *own = weft_node_input(node, 3);
        grads[3] = weft_astype(weft__sum_broadcast(out[3], weft_shape(own)), weft_dtype_of(own));
    }
}

/* ---- The op --------------------------------------------------------------------------------- */

bool weft__attention_infer_heads(const weft_array *node, int64_t H, int64_t Hk, weft_why *why)
{
    const weft_attention_params *params = weft_node_params(node);
    if (Hk == 0 || H % Hk != 0) {
        return weft_because(why, "%lld query heads do not divide over %lld key heads", (long long)H,
                            (long long)Hk);
    }
    if (params->window < 0) {
        return weft_because(why, "a window of %lld: expected 0 or more", (long long)params->window);
    }
    return true;
}

bool weft__attention_infer(const weft_array *node, int n, weft_why *why)
{
    const weft_attention_params *params = weft_node_params(node);
    if (!weft__expect_inputs(
            node, n + params->has_mask + params->has_lengths + params->has_first + params->has_ends,
            why) ||
        !weft__expect_float(node, 0, "q", why) || !weft__expect_float(node, 1, "k", why) ||
        !weft__expect_float(node, 2, "v", why) ||
        !weft__expect_rank(node, 0, "q", "(B, L, H, D)", 4, why) ||
        !weft__expect_rank(node, 1, "k", "(B, S, Hk, D)", 4, why) ||
        !weft__expect_rank(node, 2, "v", "(B, S, Hk, Dv)", 4, why)) {
        return false;
    }
    weft_dims q = input_shape(node, 0), k = input_shape(node, 1), v = input_shape(node, 2);
    const bool paged =
        weft_node_op(node) == &weft_op_attention_pages || weft__attention_append_page(node) > 0;
    int64_t B = paged ? k.at[0] : q.at[0], H = q.at[2], S = k.at[1], Hk = k.at[2];
    if (!weft__expect_shape(node, 1, "k", WEFT_DIMS(B, S, Hk, q.at[3]), why) ||
        !weft__expect_shape(node, 2, "v", WEFT_DIMS(B, S, Hk, v.at[3]), why)) {
        return false;
    }
    return weft__attention_infer_heads(node, H, Hk, why);
}

int64_t weft__attention_keys(const weft_array *node)
{
    const int64_t n = input_shape(node, 1).at[1], page = weft__attention_append_page(node);
    if (page > 0) {
        return page * input_shape(node, APPEND_PAGES).at[1];
    }
    if (weft_node_op(node) != &weft_op_attention_pages) {
        return n;
    }
    return n * input_shape(node, input_dtype(node, 1) == WEFT_UINT8 ? 7 : 3).at[1];
}

static bool infer_mask(const weft_array *node, int at, weft_why *why)
{
    weft_dims q = input_shape(node, 0), mask = input_shape(node, at);
    weft_dims scores = WEFT_DIMS(q.at[0], q.at[2], q.at[1], weft__attention_keys(node));
    weft_dtype dtype = input_dtype(node, at);
    if (dtype != WEFT_BOOL && !weft_dtype_is_float(dtype)) {
        return weft_because(why, "the mask is %s, expected bool or a float",
                            weft_dtype_name(dtype));
    }
    bool fits = mask.n == 4;
    for (int i = 0; i < 4 && fits; i++) {
        fits = mask.at[i] == 1 || mask.at[i] == scores.at[i];
    }
    char mask_text[WEFT_SHAPE_TEXT], scores_text[WEFT_SHAPE_TEXT];
    return fits ||
           weft_because(why, "the mask %s does not broadcast to (B, H, L, S) = %s",
                        weft__shape_text(&mask, mask_text), weft__shape_text(&scores, scores_text));
}

static bool infer_lengths(const weft_array *node, weft_why *why)
{
    const int last = weft_node_n_inputs(node) - 1;
    if (input_dtype(node, last) != WEFT_INT32) {
        return weft_because(why, "lengths are %s, expected int32",
                            weft_dtype_name(input_dtype(node, last)));
    }
    return weft__expect_shape(node, last, "lengths", WEFT_DIMS(input_shape(node, 0).at[0]), why);
}

/* `at`: the input of the bound. */
static bool infer_bound(const weft_array *node, int at, const char *name, weft_why *why)
{
    const weft_attention_params *params = weft_node_params(node);
    const weft_dims q = input_shape(node, 0);
    if (params->has_lengths) {
        return weft_because(why, "%s and lengths exclude each other: give one as a mask", name);
    }
    if (input_dtype(node, at) != WEFT_INT32) {
        return weft_because(why, "%s: expected int32, got %s", name,
                            weft_dtype_name(input_dtype(node, at)));
    }
    return weft__expect_shape(node, at, name, WEFT_DIMS(q.at[0], q.at[1]), why);
}

bool weft__attention_infer_rest(const weft_array *node, int n, weft_why *why)
{
    const weft_attention_params *params = weft_node_params(node);
    const int last = weft_node_n_inputs(node) - 1;
    return (!params->has_mask || infer_mask(node, n, why)) &&
           (!params->has_first || infer_bound(node, last - params->has_ends, "first", why)) &&
           (!params->has_ends || infer_bound(node, last, "ends", why)) &&
           (!params->has_lengths || infer_lengths(node, why));
}

bool weft__attention_infer_out(const weft_array *node, int n, weft_spec *out, weft_why *why)
{
    if (!weft__attention_infer_rest(node, n, why)) {
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

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    return weft__attention_infer(node, 3, why) && weft__attention_infer_out(node, 3, out, why);
}

const weft_field weft__attention_fields[] = {
    WEFT_FIELD(DOUBLE, weft_attention_params, scale),
    WEFT_FIELD(DOUBLE, weft_attention_params, softcap),
    WEFT_FIELD(INT, weft_attention_params, window),
    WEFT_FIELD(BOOL, weft_attention_params, causal),
    WEFT_FIELD(BOOL, weft_attention_params, has_mask),
    WEFT_FIELD(BOOL, weft_attention_params, has_lengths),
    WEFT_FIELD(BOOL, weft_attention_params, has_first),
    WEFT_FIELD(BOOL, weft_attention_params, has_ends),
    WEFT_FIELDS_END,
};

static const weft_attention_params full = {.scale = 0.5};
static const weft_attention_params causal = {.scale = 0.7, .causal = true};
static const weft_attention_params latents = {.scale = 0.05, .causal = true};
static const weft_attention_params windowed = {.scale = 0.7, .causal = true, .window = 2};
static const weft_attention_params both_sides = {.scale = 0.7, .window = 2};
static const weft_attention_params capped = {.scale = 0.6, .softcap = 1.5, .causal = true};
static const weft_attention_params masked = {.scale = 0.6, .has_mask = true};
static const weft_attention_params both = {
    .scale = 0.6, .softcap = 2, .causal = true, .has_mask = true};
static const weft_attention_params lengths = {.scale = 0.7, .has_lengths = true};
static const weft_attention_params all_kinds = {
    .scale = 0.7, .softcap = 2, .window = 7, .causal = true, .has_mask = true, .has_lengths = true};
static const weft_attention_params from_first = {.scale = 0.7, .causal = true, .has_first = true};
static const weft_attention_params to_end = {.scale = 0.7, .window = 9, .has_ends = true};
static const weft_attention_params from_all_kinds = {.scale = 0.7,
                                                     .softcap = 2,
                                                     .window = 24,
                                                     .causal = true,
                                                     .has_mask = true,
                                                     .has_first = true,
                                                     .has_ends = true};

/* Cases without fully masked rows, whose log-sum-exp has no derivative to compare with. Bool masks
 * and lengths are large enough that a random one masks no whole row. */
#define QKV(B, L, S, H, Hk, D, Dv)                                                                 \
    {.shape = {4, {B, L, H, D}}}, {.shape = {4, {B, S, Hk, D}}},                                   \
    {                                                                                              \
        .shape = { 4, {B, S, Hk, Dv} }                                                             \
    }
static const weft_case cases[] = {
    {"full", 3, {QKV(2, 3, 4, 2, 2, 4, 4)}, &full},
    {"grouped heads", 3, {QKV(1, 3, 3, 4, 2, 4, 3)}, &causal},
    {"cache", 3, {QKV(1, 2, 5, 2, 1, 4, 4)}, &causal},
    {"latents",
     3,
     {{.shape = {4, {1, 1, 2, 576}}, .lo = -0.2, .hi = 0.2},
      {.shape = {4, {1, 2, 1, 576}}, .lo = -0.2, .hi = 0.2},
      {.shape = {4, {1, 2, 1, 512}}, .lo = -0.2, .hi = 0.2}},
     &latents},
    {"window", 3, {QKV(1, 3, 5, 2, 2, 4, 4)}, &windowed},
    {"window on both sides", 3, {QKV(1, 4, 5, 2, 2, 4, 4)}, &both_sides},
    {"softcap", 3, {QKV(1, 3, 3, 2, 1, 4, 4)}, &capped},
    {"bool mask",
     4,
     {QKV(2, 2, 16, 2, 1, 3, 3), {.shape = {4, {2, 1, 2, 16}}, .boolean = true}},
     &masked},
    {"mask per head",
     4,
     {QKV(1, 2, 16, 4, 2, 2, 2), {.shape = {4, {1, 4, 1, 16}}, .boolean = true}},
     &masked},
    {"float mask", 4, {QKV(1, 2, 3, 2, 2, 3, 3), {.shape = {4, {1, 2, 2, 3}}}}, &both},
    {"bias per head", 4, {QKV(2, 2, 3, 4, 2, 3, 2), {.shape = {4, {1, 4, 1, 3}}}}, &masked},
    {"no batch", 3, {QKV(0, 2, 3, 2, 2, 4, 4)}, &full},
    {"lengths", 4, {QKV(3, 2, 16, 4, 2, 3, 2), {.shape = {1, {3}}, .index_below = 17}}, &lengths},
    {"mask and lengths",
     5,
     {QKV(2, 2, 24, 2, 1, 3, 3),
      {.shape = {4, {2, 1, 1, 24}}},
      {.shape = {1, {2}}, .index_below = 25}},
     &all_kinds},
    {"first", 4, {QKV(2, 3, 8, 4, 2, 3, 2), {.shape = {2, {2, 3}}, .index_below = 6}}, &from_first},
    {"ends", 4, {QKV(2, 3, 8, 4, 2, 3, 2), {.shape = {2, {2, 3}}, .index_below = 9}}, &to_end},
    {"first, ends, mask and window",
     6,
     {QKV(2, 3, 24, 2, 1, 3, 3),
      {.shape = {4, {2, 1, 1, 24}}},
      {.shape = {2, {2, 3}}, .index_below = 2},
      {.shape = {2, {2, 3}}, .index_below = 25}},
     &from_all_kinds},
    {"lengths of no batch",
     4,
     {QKV(0, 2, 3, 2, 2, 4, 4), {.shape = {1, {0}}, .index_below = 3}},
     &lengths},
};
#undef QKV

const weft_op weft_op_attention = {
    .name = "attention",
    .family = WEFT_COMPOSITE,
    .arity = -1,
    .n_outputs = 2,
    .params_size = sizeof(weft_attention_params),
    .params_fields = weft__attention_fields,
    .infer = infer,
    .vjp = attention_vjp,
    .zero_gradient = 1u << 4,
    .vmap = weft__attention_vmap,
    .expand = expand,
    .work = weft__attention_work,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS,
};

/* ---- Public --------------------------------------------------------------------------------- */

/* Prepends axes of length 1, up to (B, H, L, S). */
static weft_array *mask_of_rank_4(weft_array *mask)
{
    while (weft_ok(mask) && weft_ndim(mask) < 4) {
        mask = weft_expand_dims(mask, 0);
    }
    return mask;
}

static attention_bounds bounds_of(const weft_array *q, const weft_attention_options *given)
{
    const int64_t B = weft_dim(q, 0), L = weft_dim(q, 1);
    return (attention_bounds){
        .first = given->first ? weft__attention_bound(given->first, "first", B, L) : NULL,
        .ends = given->ends ? weft__attention_bound(given->ends, "ends", B, L) : NULL};
}

weft_array *weft__attention_apply(const weft_op *op, weft_array **inputs, int n,
                                  const weft_attention_options *options)
{
    weft_attention_options given = options ? *options : (weft_attention_options){0};
    double D = (double)weft_dim(inputs[0], -1);
    weft_attention_params params = {
        .scale = given.scale != 0 ? given.scale : 1 / sqrt(D > 0 ? D : 1),
        .softcap = given.softcap,
        .window = given.window,
        .causal = given.causal,
        .has_mask = given.mask != NULL,
        .has_lengths = given.lengths != NULL,
    };
    int64_t S = weft_dim(inputs[1], 1);
    if (given.pages) {
        S = weft_ok(given.pages) ? S * weft_dim(given.pages, -1) : S;
        inputs[n++] = given.pages;
        op = &weft_op_attention_pages;
    }
    if (given.sinks && op == &weft_op_attention) {
        inputs[n++] = given.sinks;
        op = &weft_op_attention_sinks;
    }
    weft_array *mask = params.has_mask ? mask_of_rank_4(given.mask) : NULL;
    attention_bounds bounds = bounds_of(inputs[0], &given);
    if (op == &weft_op_attention_codes || op == &weft_op_attention_pages || params.has_lengths) {
        mask = weft__attention_bounds_mask(bounds, S, mask);
        params.has_mask = mask != NULL;
        bounds = (attention_bounds){NULL, NULL};
    }
    params.has_first = bounds.first != NULL;
    params.has_ends = bounds.ends != NULL;
    if (params.has_mask) {
        inputs[n++] = mask;
    }
    if (params.has_first) {
        inputs[n++] = bounds.first;
    }
    if (params.has_ends) {
        inputs[n++] = bounds.ends;
    }
    if (params.has_lengths) {
        inputs[n++] = weft__attention_lengths(given.lengths, weft_dim(inputs[0], 0));
    }
    weft_array *y = weft_apply(op, inputs, n, &params);
    if (given.sinks && op != &weft_op_attention_sinks) {
        if (weft_ok(given.sinks) &&
            (weft_ndim(given.sinks) != 1 || weft_dim(given.sinks, 0) != weft_dim(inputs[0], 2))) {
            return weft_error_array("%s: sinks: expected one for each of %lld heads", op->name,
                                    (long long)weft_dim(inputs[0], 2));
        }
        return weft__attention_with_sinks(weft_pick(y, 0), weft_pick(y, 1), given.sinks);
    }
    return weft_pick(y, 0);
}

weft_array *weft_attention(weft_array *q, weft_array *k, weft_array *v,
                           const weft_attention_options *options)
{
    weft_scope_open();
    weft_array *inputs[8] = {as_inexact(q), k, v};
    return weft_scope_close(weft__attention_apply(&weft_op_attention, inputs, 3, options));
}
