/* ops/nn/linear.c -- the linear layer y = x w^T + bias, and its transposed form y = x w. */
#include "ops/batch.h"
#include "ops/nn/linear_sum.h"
#include "ops/nn/nn.h"

/* ---- Reference ------------------------------------------------------------------------------ */

static weft_status reference(const weft_call *call)
{
    const weft_linear_params *params = call->params;
    const weft_tensor *x = &call->in[0], *w = &call->in[1], *y = &call->out[0];
    int64_t F = w->shape.at[0], E = w->shape.at[1];
    int64_t columns = params->transposed ? E : F, terms = params->transposed ? F : E;
    int64_t w_column = params->transposed ? 1 : E, w_term = params->transposed ? E : 1;
    int64_t size = weft_tensor_size(y);
    for (int64_t i = 0; i < size; i++) {
        int64_t row = i / columns, column = i % columns;
        double sum = 0;
        for (int64_t k = 0; k < terms; k++) {
            sum += weft_tensor_get(x, row * terms + k) *
                   weft_tensor_get(w, column * w_column + k * w_term);
        }
        sum += call->n_inputs > 2 ? weft_tensor_get(&call->in[2], column) : 0;
        weft_tensor_set(y, i, sum);
    }
    return WEFT_OK;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* A result dtype equal to x's is given as 0, so that equal nodes have equal parameters. */
weft_array *weft__linear_of(weft_array *x, weft_array *weight, weft_array *bias,
                            const weft_linear_params *params)
{
    weft_array *inputs[] = {x, weight, bias};
    weft_linear_params own = *params;
    own.dtype = own.dtype == weft_dtype_of(x) ? 0 : own.dtype;
    return weft_apply(&weft_op_linear, inputs, bias == NULL ? 2 : 3, &own);
}

/* ---- Derivative ----------------------------------------------------------------------------- */

weft_array *weft__rows(weft_array *x)
{
    weft_dims shape = weft_shape(x);
    int64_t rows = 1;
    for (int axis = 0; axis < shape.n - 1; axis++) {
        rows *= shape.at[axis];
    }
    return weft_reshape(x, WEFT_DIMS(rows, weft_dim(x, -1)));
}

/* a^T b over all rows, in `dtype`, rounded once. Operands are read in their own dtypes unless
 * float64 takes part. */
static weft_array *weight_gradient(weft_array *a, weft_array *b, weft_dtype dtype)
{
    a = weft__rows(a);
    b = weft__rows(b);
    weft_linear_params params = {.transposed = true, .dtype = dtype};
    if (weft_promote(weft_promote(weft_dtype_of(a), weft_dtype_of(b)), dtype) == WEFT_FLOAT64) {
        a = weft_astype(a, WEFT_FLOAT64);
        b = weft_astype(b, WEFT_FLOAT64);
        params.dtype = WEFT_FLOAT64;
    }
    return weft_astype(weft__linear_of(weft_swapaxes(a, 0, 1), b, NULL, &params), dtype);
}

weft_array *weft__linear_weight_gradient(weft_array *x, weft_array *weight, weft_array *ct,
                                         bool transposed)
{
    const weft_dtype dtype = weft__gradient_dtype(weight);
    return transposed ? weight_gradient(x, ct, dtype) : weight_gradient(ct, x, dtype);
}

weft_array *weft__linear_bias_gradient(weft_array *bias, weft_array *ct)
{
    const weft_dtype dtype = weft_dtype_of(bias);
    weft_array *rows = weft_astype(weft__rows(ct), weft_promote(weft_dtype_of(ct), dtype));
    return weft_astype(weft_sum(rows, WEFT_DIMS(-2), false), dtype);
}

weft_array *weft__encoded_gradient(const weft_array *node, int i)
{
    return weft_error_array("%s: the weight is encoded as %s, which has no gradient: freeze it, or "
                            "decode it (weft_decode)",
                            weft_node_op(node)->name,
                            weft_encoding_of(weft_node_input(node, i))->name);
}

static void linear_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                       weft_array **grads)
{
    const weft_linear_params *params = weft_node_params(node);
    weft_array *x = weft_node_input(node, 0), *w = weft_node_input(node, 1), *ct = cts[0];
    if (wanted[0]) {
        const weft_linear_params back = {.transposed = !params->transposed,
                                         .dtype = weft_dtype_of(x)};
        grads[0] = weft__linear_of(ct, w, NULL, &back);
    }
    if (wanted[1] && weft_encoding_of(w)) {
        grads[1] = weft__encoded_gradient(node, 1);
    } else if (wanted[1]) {
        grads[1] = weft__linear_weight_gradient(x, w, ct, params->transposed);
    }
    if (weft_node_n_inputs(node) > 2 && wanted[2]) {
        grads[2] = weft__linear_bias_gradient(weft_node_input(node, 2), ct);
    }
}

/* ---- Batch ---------------------------------------------------------------------------------- */

/* x w^T or x w with a separate weight for each example, in the common dtype, at least the node's.
 */
static weft_array *own_products(weft_array *node, weft_array *x, bool x_batched, weft_array *w,
                                int64_t size)
{
    const weft_linear_params *params = weft_node_params(node);
    weft_dims shape = weft_shape(node);
    weft_dtype wide = weft_promote(weft_promote(weft_dtype_of(x), weft_dtype_of(w)),
                                   weft_node_spec(node, 0)->dtype);
    int64_t rows = 1, terms = weft_dim(x, -1);
    for (int axis = 0; axis < shape.n - 1; axis++) {
        rows *= shape.at[axis];
    }
    x = weft_reshape(weft_astype(x, wide), WEFT_DIMS(x_batched ? size : 1, rows, terms));
    w = weft_astype(params->transposed ? w : weft_swapaxes(w, -1, -2), wide);
    return weft_reshape(weft_matmul(x, w), with_batch(shape, size));
}

/* If the examples share a weight, their rows are merged. */
static bool linear_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                        weft_array **out)
{
    const weft_linear_params *params = weft_node_params(node);
    int n = weft_node_n_inputs(node);
    bool bias_batched = n > 2 && batched[2];
    if (!batched[1] && !bias_batched) {
        out[0] = weft_apply(weft_node_op(node), in, n, params);
        return true;
    }
    weft_dtype dtype = weft_node_spec(node, 0)->dtype, wide = weft_promote(dtype, WEFT_FLOAT32);
    weft_array *x = n > 2 ? weft_astype(in[0], wide) : in[0]; /* rounded once, after the bias is
                                                               * added */
    weft_array *y = batched[1] ? own_products(node, x, batched[0], in[1], size)
                               : weft__linear(x, in[1], NULL, params->transposed);
    if (n > 2) {
        weft_dims shape = {.n = weft_ndim(node) + 1, .at = {bias_batched ? size : 1}};
        for (int axis = 1; axis < shape.n; axis++) {
            shape.at[axis] = axis == shape.n - 1 ? weft_dim(in[2], -1) : 1;
        }
        y = weft_add(y, weft_reshape(in[2], shape));
    }
    out[0] = weft_astype(y, dtype);
    return true;
}

/* ---- The op --------------------------------------------------------------------------------- */

static bool infer_bias(const weft_array *node, int64_t F, weft_why *why)
{
    const weft_linear_params *params = weft_node_params(node);
    if (weft_node_n_inputs(node) == 2) {
        return true;
    }
    if (params->transposed) {
        return weft_because(why, "the transposed form has no bias");
    }
    return weft__expect_inputs(node, 3, why) && weft__expect_float(node, 2, "the bias", why) &&
           weft__expect_shape(node, 2, "the bias", WEFT_DIMS(F), why);
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_linear_params *params = weft_node_params(node);
    if (weft_node_n_inputs(node) < 2) {
        return weft__expect_inputs(node, 2, why);
    }
    if (params->dtype && !weft_dtype_is_float(params->dtype)) {
        return weft_because(why, "dtype: expected a float dtype, got %s",
                            weft_dtype_name(params->dtype));
    }
    if (!weft__expect_float(node, 0, "x", why) || !weft__expect_float(node, 1, "the weight", why) ||
        !weft__expect_rank(node, 1, "the weight", "(F, E)", 2, why)) {
        return false;
    }
    weft_dims x = input_shape(node, 0), w = input_shape(node, 1);
    int inner = params->transposed ? 0 : 1;
    if (x.n < 1 || x.at[x.n - 1] != w.at[inner]) {
        char x_text[WEFT_SHAPE_TEXT], w_text[WEFT_SHAPE_TEXT];
        return weft_because(why, "inner dimensions differ: %s x %s", weft__shape_text(&x, x_text),
                            weft__shape_text(&w, w_text));
    }
    if (!infer_bias(node, w.at[0], why)) {
        return false;
    }
    x.at[x.n - 1] = w.at[1 - inner];
    *out = dense(params->dtype ? params->dtype : input_dtype(node, 0), x);
    return true;
}

static void count_work(const weft_call *call, weft_work *work)
{
    const weft_dims *x = &call->in[0].shape;
    work->flops = 2 * (double)x->at[x->n - 1] * (double)weft_tensor_size(&call->out[0]);
}

static const weft_field fields[] = {
    WEFT_FIELD(BOOL, weft_linear_params, transposed),
    WEFT_FIELD(BOOL, weft_linear_params, int8),
    WEFT_FIELD(DTYPE, weft_linear_params, dtype),
    WEFT_FIELDS_END,
};

static const weft_linear_params transposed = {.transposed = true}, int8 = {.int8 = true},
                                wide = {.transposed = true, .dtype = WEFT_FLOAT32};

static const weft_case cases[] = {
    {"matrix", 2, {{.shape = {2, {3, 4}}}, {.shape = {2, {5, 4}}}}, NULL},
    {"bias", 3, {{.shape = {3, {2, 3, 4}}}, {.shape = {2, {5, 4}}}, {.shape = {1, {5}}}}, NULL},
    {"vector", 2, {{.shape = {1, {4}}}, {.shape = {2, {3, 4}}}}, NULL},
    {"transposed", 2, {{.shape = {3, {2, 3, 5}}}, {.shape = {2, {5, 4}}}}, &transposed},
    {"float32 result", 2, {{.shape = {2, {3, 5}}}, {.shape = {2, {5, 4}}}}, &wide},
    {"8 bits", 2, {{.shape = {2, {12, 32}}}, {.shape = {2, {5, 32}}}}, &int8},
    {"no rows", 3, {{.shape = {2, {0, 4}}}, {.shape = {2, {5, 4}}}, {.shape = {1, {5}}}}, NULL},
    {"no terms", 2, {{.shape = {2, {3, 0}}}, {.shape = {2, {5, 0}}}}, NULL},
};

const weft_op weft_op_linear = {
    .name = "linear",
    .family = WEFT_CORE_RANK,
    .arity = -1,
    .params_size = sizeof(weft_linear_params),
    .params_fields = fields,
    .infer = infer,
    .takes_encoded = 1u << 1,
    .vjp = linear_vjp,
    .vmap = linear_vmap,
    .add = weft__linear_add,
    .work = count_work,
    .reference = reference,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS,
};

/* ---- Public --------------------------------------------------------------------------------- */

weft_array *weft__linear(weft_array *x, weft_array *weight, weft_array *bias, bool transposed_form)
{
    const weft_linear_params params = {.transposed = transposed_form};
    return weft__linear_of(x, weight, bias, &params);
}

weft_array *weft_linear(weft_array *x, weft_array *weight, weft_array *bias)
{
    weft_scope_open();
    return weft_scope_close(weft__linear(as_inexact(x), weight, bias, false));
}

weft_array *weft_linear_int8(weft_array *x, weft_array *weight, weft_array *bias)
{
    weft_scope_open();
    return weft_scope_close(weft__linear_of(as_inexact(x), weight, bias, &int8));
}
