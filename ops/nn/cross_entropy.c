/* ops/nn/cross_entropy.c -- -log softmax(logits)[target] per row, and its gradient. */
#include "ops/nn/nn.h"

/* ---- Expansions, also of linear_cross_entropy ----------------------------------------------- */

/* Targets (..., 1), with negative ones replaced by class 0. */
static weft_array *classes_of(weft_array *targets)
{
    weft_array *zero = weft_scalar_int(0, weft_dtype_of(targets));
    return weft_expand_dims(weft_maximum(targets, zero), -1);
}

static weft_array *counted(weft_array *targets)
{
    return weft_greater_equal(targets, weft_scalar_int(0, weft_dtype_of(targets)));
}

weft_array *weft__row_losses(weft_array *logits, weft_array *targets)
{
    weft_array *picked = weft_take_along_axis(logits, classes_of(targets), -1);
    weft_array *loss =
        weft_subtract(weft_logsumexp(logits, WEFT_DIMS(-1), false), weft_squeeze(picked, -1));
    return weft_where(counted(targets), loss, weft_scalar(0, weft_dtype_of(logits)));
}

weft_array *weft__row_residuals(weft_array *logits, weft_array *targets)
{
    weft_array *p = weft_softmax(logits, -1);
    weft_array *classes = classes_of(targets);
    weft_array *minus_one =
        on_device_of(logits, weft_full(weft_shape(classes), -1, weft_dtype_of(logits)));
    weft_array *residual = weft_scatter_add_along_axis(p, classes, minus_one, -1);
    weft_array *rows = weft_expand_dims(counted(targets), -1);
    return weft_where(rows, residual, weft_scalar(0, weft_dtype_of(logits)));
}

/* ---- Gradient ------------------------------------------------------------------------------- */

static bool infer_inputs(const weft_array *node, weft_dims *rows, weft_why *why)
{
    if (!weft__expect_float(node, 0, "the logit array", why) ||
        !weft__expect_integer(node, 1, "the target array", why)) {
        return false;
    }
    *rows = input_shape(node, 0);
    if (rows->n < 1) {
        return weft_because(why, "the logits are 0-d, expected (..., V)");
    }
    rows->n--;
    return weft__expect_shape(node, 1, "the target array", *rows, why);
}

static bool vjp_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims rows;
    if (!infer_inputs(node, &rows, why) || !weft__expect_float(node, 2, "the cotangent", why) ||
        !weft__expect_shape(node, 2, "the cotangent", rows, why)) {
        return false;
    }
    *out = dense(input_dtype(node, 0), input_shape(node, 0));
    return true;
}

static void vjp_expand(weft_array *node, weft_array **outs)
{
    weft_array *residual = weft__row_residuals(computed_input(node, 0), weft_node_input(node, 1));
    weft_array *ct = weft_expand_dims(computed_input(node, 2), -1);
    outs[0] = weft_astype(weft_multiply(residual, ct), input_dtype(node, 0));
}

#define TARGETS(...)                                                                               \
    {                                                                                              \
        .shape = {__VA_ARGS__}, .index_below = 4                                                   \
    }
static const weft_case vjp_cases[] = {
    {"rows", 3, {{.shape = {2, {3, 5}}}, TARGETS(1, {3}), {.shape = {1, {3}}}}, NULL},
    {"batch", 3, {{.shape = {3, {2, 2, 4}}}, TARGETS(2, {2, 2}), {.shape = {2, {2, 2}}}}, NULL},
    {"no rows", 3, {{.shape = {2, {0, 5}}}, TARGETS(1, {0}), {.shape = {1, {0}}}}, NULL},
};

const weft_op weft_op_cross_entropy_vjp = {
    .name = "cross_entropy_vjp",
    .family = WEFT_COMPOSITE,
    .arity = 3,
    .infer = vjp_infer,
    .takes_leading_axis = true,
    .expand = vjp_expand,
    .cases = vjp_cases,
    .n_cases = sizeof vjp_cases / sizeof *vjp_cases,
    .no_test_dtypes = ONLY_FLOATS,
};

static void cross_entropy_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                              weft_array **grads)
{
    if (wanted[0]) {
        grads[0] = apply3(&weft_op_cross_entropy_vjp, weft_node_input(node, 0),
                          weft_node_input(node, 1), cts[0], NULL);
    }
}

/* ---- The op --------------------------------------------------------------------------------- */

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims rows;
    if (!infer_inputs(node, &rows, why)) {
        return false;
    }
    *out = dense(compute_dtype(weft_node_input(node, 0)), rows);
    return true;
}

static void expand(weft_array *node, weft_array **outs)
{
    outs[0] = weft__row_losses(computed_input(node, 0), weft_node_input(node, 1));
}

static const weft_case cases[] = {
    {"rows", 2, {{.shape = {2, {3, 5}}}, TARGETS(1, {3})}, NULL},
    {"batch", 2, {{.shape = {3, {2, 2, 4}}}, TARGETS(2, {2, 2})}, NULL},
    {"one row", 2, {{.shape = {1, {6}}}, TARGETS(0, {0})}, NULL},
    {"no rows", 2, {{.shape = {2, {0, 5}}}, TARGETS(1, {0})}, NULL},
};
#undef TARGETS

const weft_op weft_op_cross_entropy = {
    .name = "cross_entropy",
    .family = WEFT_COMPOSITE,
    .arity = 2,
    .infer = infer,
    .vjp = cross_entropy_vjp,
    .takes_leading_axis = true,
    .expand = expand,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS,
};

/* ---- Public --------------------------------------------------------------------------------- */

weft_array *weft_cross_entropy_rows(weft_array *logits, weft_array *targets)
{
    weft_scope_open();
    return weft_scope_close(apply2(&weft_op_cross_entropy, as_inexact(logits), targets, NULL));
}
