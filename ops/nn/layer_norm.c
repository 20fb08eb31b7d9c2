/* ops/nn/layer_norm.c -- layer normalization (Ba et al. 2016), and its gradient. */
#include "ops/nn/nn.h"

/* x - mean, and 1 / sqrt(var + eps). */
typedef struct moments {
    weft_array *centered;     /* (..., E) */
    weft_array *inverse_root; /* (..., 1) */
} moments;

static moments moments_of(weft_array *x, double eps)
{
    weft_array *centered = weft_subtract(x, weft_mean(x, WEFT_DIMS(-1), true));
    weft_array *variance = weft_mean(weft_square(centered), WEFT_DIMS(-1), true);
    return (moments){centered, weft_rsqrt(weft_add_scalar(variance, eps))};
}

/* ---- Gradient ------------------------------------------------------------------------------- */

static bool vjp_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_norm_params *params = weft_node_params(node);
    int ct = params->has_weight ? 2 : 1, n = 1;
    if (!weft__expect_inputs(node, ct + 1, why) || !weft__norm_infer_inputs(node, why) ||
        !weft__norm_infer_cotangent(node, ct, why)) {
        return false;
    }
    weft_array *x = weft_node_input(node, 0);
    out[0] = dense(weft_dtype_of(x), weft_shape(x));
    if (!params->frozen) {
        weft_spec per_feature = dense(compute_dtype(x), WEFT_DIMS(weft_dim(x, -1)));
        for (int i = params->has_weight + params->has_bias; i > 0; i--) {
            out[n++] = per_feature;
        }
    }
    no_outputs_from(out, n);
    return true;
}

/* With n the normalized rows, r the inverse root and g = ct weight: dx = r (g - mean(g) - n mean(g
 * n)), dw = sum(ct n), db = sum(ct). */
static void vjp_expand(weft_array *node, weft_array **outs)
{
    const weft_norm_params *params = weft_node_params(node);
    weft_array *x = computed_input(node, 0);
    weft_array *ct = computed_input(node, params->has_weight ? 2 : 1);
    moments m = moments_of(x, params->eps);
    weft_array *n = weft_multiply(m.centered, m.inverse_root);
    weft_array *g = params->has_weight ? weft_multiply(ct, computed_input(node, 1)) : ct;
    weft_array *along = weft_mean(weft_multiply(g, n), WEFT_DIMS(-1), true);
    weft_array *dx = weft_subtract(g, weft_mean(g, WEFT_DIMS(-1), true));
    dx = weft_multiply(m.inverse_root, weft_subtract(dx, weft_multiply(n, along)));
    outs[0] = weft_astype(dx, input_dtype(node, 0));
    if (params->frozen) {
        return;
    }
    if (params->has_weight) {
        outs[1] = weft_sum(weft__rows(weft_multiply(ct, n)), WEFT_DIMS(-2), false);
    }
    if (params->has_bias) {
        outs[params->has_weight ? 2 : 1] = weft_sum(weft__rows(ct), WEFT_DIMS(-2), false);
    }
}

static const weft_norm_params full = {.eps = 1e-5, .has_weight = true, .has_bias = true};
static const weft_norm_params frozen = {
    .eps = 1e-5, .has_weight = true, .has_bias = true, .frozen = true};
static const weft_norm_params weighted = {.eps = 1e-5, .has_weight = true};
static const weft_norm_params biased = {.eps = 1e-5, .has_bias = true};
static const weft_norm_params plain = {.eps = 1e-3};

static const weft_case vjp_cases[] = {
    {"full", 3, {{.shape = {2, {3, 6}}}, {.shape = {1, {6}}}, {.shape = {2, {3, 6}}}}, &full},
    {"frozen", 3, {{.shape = {2, {3, 6}}}, {.shape = {1, {6}}}, {.shape = {2, {3, 6}}}}, &frozen},
    {"biased", 2, {{.shape = {2, {3, 6}}}, {.shape = {2, {3, 6}}}}, &biased},
    {"plain", 2, {{.shape = {3, {2, 2, 5}}}, {.shape = {3, {2, 2, 5}}}}, &plain},
};

const weft_op weft_op_layer_norm_vjp = {
    .name = "layer_norm_vjp",
    .family = WEFT_COMPOSITE,
    .arity = -1,
    .n_outputs = -4,
    .params_size = sizeof(weft_norm_params),
    .params_fields = weft__norm_fields,
    .infer = vjp_infer,
    .vmap = weft__norm_vjp_vmap,
    .expand = vjp_expand,
    .cases = vjp_cases,
    .n_cases = sizeof vjp_cases / sizeof *vjp_cases,
    .no_test_dtypes = ONLY_FLOATS,
};

static void layer_norm_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                           weft_array **grads)
{
    weft_norm_params params = *(const weft_norm_params *)weft_node_params(node);
    weft_array *inputs[3] = {weft_node_input(node, 0)};
    int n = 1, n_inputs = weft_node_n_inputs(node);
    if (params.has_weight) {
        inputs[n++] = weft_node_input(node, 1);
    }
    inputs[n++] = cts[0];
    params.frozen = true;
    for (int i = 1; i < n_inputs; i++) {
        params.frozen = params.frozen && !wanted[i];
    }
    weft_array *all = weft_apply(&weft_op_layer_norm_vjp, inputs, n, &params);
    for (int i = 0; i < n_inputs; i++) {
        grads[i] = wanted[i] ? weft_pick(all, i) : NULL;
    }
}

/* ---- The op --------------------------------------------------------------------------------- */

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_norm_params *params = weft_node_params(node);
    int bias = params->has_weight ? 2 : 1;
    if (!weft__expect_inputs(node, bias + params->has_bias, why) ||
        !weft__norm_infer_inputs(node, why)) {
        return false;
    }
    weft_array *x = weft_node_input(node, 0);
    if (params->has_bias &&
        (!weft__expect_float(node, bias, "the bias", why) ||
         !weft__expect_shape(node, bias, "the bias", WEFT_DIMS(weft_dim(x, -1)), why))) {
        return false;
    }
    *out = dense(weft_dtype_of(x), weft_shape(x));
    return true;
}

static void expand(weft_array *node, weft_array **outs)
{
    const weft_norm_params *params = weft_node_params(node);
    moments m = moments_of(computed_input(node, 0), params->eps);
    weft_array *y = weft_multiply(m.centered, m.inverse_root);
    y = params->has_weight ? weft_multiply(y, computed_input(node, 1)) : y;
    y = params->has_bias ? weft_add(y, computed_input(node, params->has_weight ? 2 : 1)) : y;
    outs[0] = weft_astype(y, input_dtype(node, 0));
}

static const weft_case cases[] = {
    {"full", 3, {{.shape = {2, {3, 6}}}, {.shape = {1, {6}}}, {.shape = {1, {6}}}}, &full},
    {"weighted", 2, {{.shape = {3, {2, 2, 5}}}, {.shape = {1, {5}}}}, &weighted},
    {"biased", 2, {{.shape = {1, {5}}}, {.shape = {1, {5}}}}, &biased},
    {"plain", 1, {{.shape = {3, {2, 2, 5}}}}, &plain},
    {"no rows", 3, {{.shape = {2, {0, 4}}}, {.shape = {1, {4}}}, {.shape = {1, {4}}}}, &full},
};

const weft_op weft_op_layer_norm = {
    .name = "layer_norm",
    .family = WEFT_COMPOSITE,
    .arity = -1,
    .params_size = sizeof(weft_norm_params),
    .params_fields = weft__norm_fields,
    .infer = infer,
    .vjp = layer_norm_vjp,
    .vmap = weft__norm_vmap,
    .expand = expand,
    .rematerialize = true,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS,
};

/* ---- Public --------------------------------------------------------------------------------- */

weft_array *weft_layer_norm(weft_array *x, weft_array *weight, weft_array *bias, double eps)
{
    weft_scope_open();
    weft_norm_params params = {.eps = eps, .has_weight = weight != NULL, .has_bias = bias != NULL};
    weft_array *inputs[3] = {as_inexact(x)};
    int n = 1;
    if (weight != NULL) {
        inputs[n++] = weight;
    }
    if (bias != NULL) {
        inputs[n++] = bias;
    }
    return weft_scope_close(weft_apply(&weft_op_layer_norm, inputs, n, &params));
}
