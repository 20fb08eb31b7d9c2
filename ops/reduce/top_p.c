/* ops/reduce/top_p.c -- the smallest logit of each row that top-p and top-k sampling keep. */
#include "ops/reduce/top_p.h"

#include <math.h>

#include "ops/reduce/reduce.h"

/* Both keep a prefix of the sorted row. */
static void top_p_expand(weft_array *node, weft_array **outs)
{
    const weft_top_p_params *params = weft_node_params(node);
    weft_array *sorted = weft_topk(weft_node_input(node, 0), params->k, -1);
    weft_array *p = weft_exp(weft_subtract(sorted, weft_node_input(node, 1)));
    weft_array *before = weft_cumsum(p, -1, false, false); /* sum of the probabilities before */
    weft_array *kept = weft_less(before, weft_scalar(params->p, weft_dtype_of(before)));
    sorted = weft_where(kept, sorted, weft_scalar(INFINITY, weft_dtype_of(sorted)));
    outs[0] = weft_min(sorted, WEFT_DIMS(-1), true);
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_top_p_params *params = weft_node_params(node);
    weft_dims shape = input_shape(node, 0), total = input_shape(node, 1);
    if (shape.n != 2 || total.n != 2 || total.at[0] != shape.at[0] || total.at[1] != 1) {
        return weft_because(why, "expected shapes (B, V) and (B, 1)");
    }
    const weft_dtype dtype = input_dtype(node, 0);
    if (!weft_dtype_is_float(dtype) || input_dtype(node, 1) != dtype) {
        return weft_because(why, "expected two equal floating dtypes, got %s and %s",
                            weft_dtype_name(dtype), weft_dtype_name(input_dtype(node, 1)));
    }
    if (params->k < 1 || params->k > shape.at[1] || shape.at[1] > UINT32_MAX) {
        return weft_because(why, "k is %lld for rows of %lld", (long long)params->k,
                            (long long)shape.at[1]);
    }
    return set_spec(out, dtype, &total);
}

static const weft_field fields[] = {
    WEFT_FIELD(INT, weft_top_p_params, k),
    WEFT_FIELD(DOUBLE, weft_top_p_params, p),
    WEFT_FIELDS_END,
};

static const weft_case cases[] = {
    {.name = "all",
     .n_inputs = 2,
     .in = {{.shape = DIMS(3, 7)}, {.shape = DIMS(3, 1)}},
     .params = &(const weft_top_p_params){7, 0.9}},
    {.name = "few",
     .n_inputs = 2,
     .in = {{.shape = DIMS(2, 150)}, {.shape = DIMS(2, 1)}},
     .params = &(const weft_top_p_params){9, 0.5}},
    {.name = "no rows",
     .n_inputs = 2,
     .in = {{.shape = DIMS(0, 4)}, {.shape = DIMS(0, 1)}},
     .params = &(const weft_top_p_params){2, 0.5}},
};

const weft_op weft_op_top_p = {
    .name = "top_p",
    .family = WEFT_COMPOSITE,
    .arity = 2,
    .params_size = sizeof(weft_top_p_params),
    .params_fields = fields,
    .infer = infer,
    .zero_gradient = 1u << 0 | 1u << 1,
    .expand = top_p_expand,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ~(DTYPE_BIT(WEFT_FLOAT32) | DTYPE_BIT(WEFT_FLOAT64)),
};

weft_array *weft__top_p(weft_array *x, weft_array *total, int64_t k, double p)
{
    const weft_top_p_params params = {.k = k, .p = p};
    return apply2(&weft_op_top_p, x, total, &params);
}
