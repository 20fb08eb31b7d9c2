/* ops/products/gather_linear.c -- multiplies rows by matrices selected by indices, which may be
 * encoded: the experts of a mixture. */
#include "ops/products/chosen.h"
#include "weft/quantize.h"

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims x = input_shape(node, 0), w = input_shape(node, 1), rows = input_shape(node, 2),
              ids = input_shape(node, 3);
    char s[WEFT_SHAPE_TEXT], t[WEFT_SHAPE_TEXT];
    if (!weft_dtype_is_float(input_dtype(node, 0)) || !weft_dtype_is_float(input_dtype(node, 1))) {
        return weft_because(why, "expected floats, got %s and %s",
                            weft_dtype_name(input_dtype(node, 0)),
                            weft_dtype_name(input_dtype(node, 1)));
    }
    if (x.n != 2 || w.n != 3 || x.at[1] != w.at[2]) {
        return weft_because(why, "expected (A, K) and (B, N, K), got %s and %s",
                            weft__shape_text(&x, s), weft__shape_text(&w, t));
    }
    if (!weft_dtype_is_integer(input_dtype(node, 2)) ||
        !weft_dtype_is_integer(input_dtype(node, 3)) || rows.n != 1 || ids.n != 1 ||
        rows.at[0] != ids.at[0]) {
        return weft_because(why, "expected as many integers on both sides, got %s and %s",
                            weft__shape_text(&rows, s), weft__shape_text(&ids, t));
    }
    return set_spec(out, input_dtype(node, 0), &WEFT_DIMS(ids.at[0], w.at[1]));
}

/* Computes with all matrices decoded. */
static weft_array *decoded(weft_array *x, weft_array *w, weft_array *rows, weft_array *ids)
{
    weft_array *dense = weft_astype(weft_encoding_of(w) ? weft_decode(w) : w, weft_dtype_of(x));
    weft_array *y =
        weft_gather_mm(weft_expand_dims(x, 1), weft_swapaxes(dense, -1, -2), rows, ids, false);
    return weft_squeeze(y, 1);
}

static void expand(weft_array *node, weft_array **outs)
{
    outs[0] = decoded(weft_node_input(node, 0), weft_node_input(node, 1), weft_node_input(node, 2),
                      weft_node_input(node, 3));
}

static const weft_case cases[] = {
    {.name = "rows",
     .n_inputs = 4,
     .in = {{.shape = DIMS(5, 4)},
            {.shape = DIMS(3, 6, 4)},
            {.shape = DIMS(7), .index_below = 5},
            {.shape = DIMS(7), .index_below = 3}}},
    {.name = "nothing",
     .n_inputs = 4,
     .in = {{.shape = DIMS(2, 3)},
            {.shape = DIMS(2, 2, 3)},
            {.shape = DIMS(0), .index_below = 1},
            {.shape = DIMS(0), .index_below = 1}}},
};

const weft_op weft_op_gather_linear = {
    .name = "gather_linear",
    .family = WEFT_CORE_RANK,
    .arity = 4,
    .infer = infer,
    .takes_encoded = 1u << 1,
    .expand = expand,
    .work = weft__gather_work,
    .zero_gradient = 1u << 2 | 1u << 3,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = DTYPE_NOT_FLOAT,
};

weft_array *weft_gather_linear(weft_array *x, weft_array *weight, weft_array *rows, weft_array *ids)
{
    weft_scope_open();
    if (!weft_ok(x) || !weft_ok(weight)) {
        return weft_scope_close(weft_ok(x) ? weight : x);
    }
    if (weft_ndim(x) != 2 || weft_ndim(weight) != 3) {
        return weft_scope_close(
            weft_error_array("gather_linear: expected x (A, K) and weight (B, N, K), got ranks "
                             "%d and %d",
                             weft_ndim(x), weft_ndim(weight)));
    }
    if (rows == NULL) {
        rows = weft_arange(0, (double)weft_dim(x, 0), 1, WEFT_INT32);
        rows = weft_to(rows, weft_device_of(x));
    }
    if (!weft_encoding_of(weight)) {
        return weft_scope_close(decoded(x, weight, rows, ids));
    }
    weft_array *inputs[] = {x, weight, rows, ids};
    return weft_scope_close(weft_apply(&weft_op_gather_linear, inputs, 4, NULL));
}
