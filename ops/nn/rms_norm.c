/* ops/nn/rms_norm.c -- root mean square normalization (Zhang & Sennrich 2019), and its gradient. */
#include "ops/batch.h"
#include "ops/nn/nn.h"

const weft_field weft__norm_fields[] = {
    WEFT_FIELD(DOUBLE, weft_norm_params, eps),      WEFT_FIELD(DOUBLE, weft_norm_params, offset),
    WEFT_FIELD(BOOL, weft_norm_params, has_weight), WEFT_FIELD(BOOL, weft_norm_params, has_bias),
    WEFT_FIELD(BOOL, weft_norm_params, frozen),     WEFT_FIELDS_END,
};

bool weft__norm_infer_inputs(const weft_array *node, weft_why *why)
{
    const weft_norm_params *params = weft_node_params(node);
    weft_array *x = weft_node_input(node, 0);
    if (!weft__expect_float(node, 0, "x", why)) {
        return false;
    }
    if (weft_ndim(x) < 1) {
        return weft_because(why, "x is 0-d, expected (..., E)");
    }
    return !params->has_weight ||
           (weft__expect_float(node, 1, "the weight", why) &&
            weft__expect_shape(node, 1, "the weight", WEFT_DIMS(weft_dim(x, -1)), why));
}

bool weft__norm_infer_cotangent(const weft_array *node, int ct, weft_why *why)
{
    return weft__expect_float(node, ct, "the cotangent", why) &&
           weft__expect_shape(node, ct, "the cotangent", input_shape(node, 0), why);
}

/* Batched rows are just more rows; only a separate gain or bias per example needs the expansion. */
bool weft__norm_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                     weft_array **out)
{
    (void)size;
    int n = weft_node_n_inputs(node);
    for (int i = 1; i < n; i++) {
        if (batched[i]) {
            return false;
        }
    }
    out[0] = weft_apply(weft_node_op(node), in, n, weft_node_params(node));
    return true;
}

/* The gradients of gain and bias sum over the rows, so batching is direct only if just dx is
 * wanted. */
bool weft__norm_vjp_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                         weft_array **out)
{
    int n = weft_node_n_inputs(node), last = n - 1;
    if (weft_node_n_outputs(node) > 1 || (n == 3 && batched[1])) {
        return false;
    }
    weft_array *inputs[3] = {batch_of(in[0], batched[0], size), in[1]};
    inputs[last] = batch_of(in[last], batched[last], size);
    out[0] = weft_apply(weft_node_op(node), inputs, n, weft_node_params(node));
    return true;
}

/* 1 / sqrt(mean(x^2) + eps): (..., 1) */
static weft_array *inverse_rms(weft_array *x, double eps)
{
    weft_array *mean = weft_mean(weft_square(x), WEFT_DIMS(-1), true);
    return weft_rsqrt(weft_add_scalar(mean, eps));
}

static weft_array *gain_of(weft_array *node)
{
    const weft_norm_params *params = weft_node_params(node);
    return weft_add_scalar(computed_input(node, 1), params->offset);
}

/* ---- Gradient ------------------------------------------------------------------------------- */

static bool vjp_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_norm_params *params = weft_node_params(node);
    int ct = params->has_weight ? 2 : 1;
    if (!weft__expect_inputs(node, ct + 1, why) || !weft__norm_infer_inputs(node, why) ||
        !weft__norm_infer_cotangent(node, ct, why)) {
        return false;
    }
    weft_array *x = weft_node_input(node, 0);
    bool dw = params->has_weight && !params->frozen;
    out[0] = dense(weft_dtype_of(x), weft_shape(x));
    out[1] = dense(compute_dtype(x), WEFT_DIMS(weft_dim(x, -1)));
    no_outputs_from(out, dw ? 2 : 1);
    return true;
}

/* With n = x r the normalized rows and g = ct gain: dx = r (g - n mean(g n)), dw = sum(ct n). */
static void vjp_expand(weft_array *node, weft_array **outs)
{
    const weft_norm_params *params = weft_node_params(node);
    weft_array *x = computed_input(node, 0);
    weft_array *ct = computed_input(node, params->has_weight ? 2 : 1);
    weft_array *r = inverse_rms(x, params->eps);
    weft_array *n = weft_multiply(x, r);
    weft_array *g = params->has_weight ? weft_multiply(ct, gain_of(node)) : ct;
    weft_array *along = weft_mean(weft_multiply(g, n), WEFT_DIMS(-1), true);
    weft_array *dx = weft_multiply(r, weft_subtract(g, weft_multiply(n, along)));
    outs[0] = weft_astype(dx, input_dtype(node, 0));
    if (params->has_weight && !params->frozen) {
        outs[1] = weft_sum(weft__rows(weft_multiply(ct, n)), WEFT_DIMS(-2), false);
    }
}

static const weft_norm_params gained = {.eps = 1e-5, .offset = 1, .has_weight = true};
static const weft_norm_params frozen = {.eps = 1e-5, .has_weight = true, .frozen = true};
static const weft_norm_params plain = {.eps = 1e-6};

static const weft_case vjp_cases[] = {
    {"gain", 3, {{.shape = {2, {3, 6}}}, {.shape = {1, {6}}}, {.shape = {2, {3, 6}}}}, &gained},
    {"frozen", 3, {{.shape = {2, {3, 6}}}, {.shape = {1, {6}}}, {.shape = {2, {3, 6}}}}, &frozen},
    {"plain", 2, {{.shape = {3, {2, 2, 5}}}, {.shape = {3, {2, 2, 5}}}}, &plain},
};

const weft_op weft_op_rms_norm_vjp = {
    .name = "rms_norm_vjp",
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

static void rms_norm_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                         weft_array **grads)
{
    weft_norm_params params = *(const weft_norm_params *)weft_node_params(node);
    params.frozen = !params.has_weight || !wanted[1];
    weft_array *inputs[3];
    int n = weft_node_n_inputs(node);
    for (int i = 0; i < n; i++) {
        inputs[i] = weft_node_input(node, i);
    }
    inputs[n] = cts[0];
    weft_array *both = weft_apply(&weft_op_rms_norm_vjp, inputs, n + 1, &params);
    grads[0] = wanted[0] ? weft_pick(both, 0) : NULL;
    if (!params.frozen) {
        grads[1] = weft_pick(both, 1);
    }
}

/* ---- The op --------------------------------------------------------------------------------- */

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_norm_params *params = weft_node_params(node);
    if (!weft__expect_inputs(node, params->has_weight ? 2 : 1, why) ||
        !weft__norm_infer_inputs(node, why)) {
        return false;
    }
    *out = dense(input_dtype(node, 0), input_shape(node, 0));
    return true;
}

static void expand(weft_array *node, weft_array **outs)
{
    const weft_norm_params *params = weft_node_params(node);
    weft_array *x = computed_input(node, 0);
    weft_array *y = weft_multiply(x, inverse_rms(x, params->eps));
    y = params->has_weight ? weft_multiply(y, gain_of(node)) : y;
    outs[0] = weft_astype(y, input_dtype(node, 0));
}

static const weft_case cases[] = {
    {"gain", 2, {{.shape = {2, {3, 6}}}, {.shape = {1, {6}}}}, &gained},
    {"plain", 1, {{.shape = {3, {2, 2, 5}}}}, &plain},
    {"vector", 2, {{.shape = {1, {7}}}, {.shape = {1, {7}}}}, &gained},
    {"no rows", 2, {{.shape = {2, {0, 4}}}, {.shape = {1, {4}}}}, &gained},
};

const weft_op weft_op_rms_norm = {
    .name = "rms_norm",
    .family = WEFT_COMPOSITE,
    .arity = -1,
    .params_size = sizeof(weft_norm_params),
    .params_fields = weft__norm_fields,
    .infer = infer,
    .vjp = rms_norm_vjp,
    .vmap = weft__norm_vmap,
    .expand = expand,
    .may_repeat = true,
    .rematerialize = true,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS,
};

/* ---- Public --------------------------------------------------------------------------------- */

weft_array *weft_rms_norm(weft_array *x, weft_array *weight, double eps, double offset)
{
    weft_scope_open();
    weft_norm_params params = {.eps = eps, .offset = offset, .has_weight = weight != NULL};
    weft_array *inputs[] = {as_inexact(x), weight};
    return weft_scope_close(weft_apply(&weft_op_rms_norm, inputs, weight != NULL ? 2 : 1, &params));
}
