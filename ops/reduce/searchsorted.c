/* ops/reduce/searchsorted.c -- searchsorted: insertion indices of values in sorted rows. */
#include "ops/reduce/reduce.h"

static weft_status searchsorted_reference(const weft_call *call)
{
    const weft_search_params *p = call->params;
    const weft_tensor *sorted = &call->in[0], *values = &call->in[1];
    int64_t length = sorted->shape.at[sorted->shape.n - 1];
    int64_t each = values->shape.at[values->shape.n - 1], size = weft_tensor_size(values);
    for (int64_t i = 0; i < size; i++) {
        int64_t row = i / each * length, low = 0, high = length;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            bool left_of = p->right ? !weft__sorts_before(values, i, sorted, row + middle)
                                    : weft__sorts_before(sorted, row + middle, values, i);
            low = left_of ? middle + 1 : low;
            high = left_of ? high : middle;
        }
        weft_tensor_set_int(&call->out[0], i, low);
    }
    return WEFT_OK;
}

static bool searchsorted_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims sorted = input_shape(node, 0), values = input_shape(node, 1), expected = values;
    weft_dtype dtype = input_dtype(node, 0);
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    if (input_dtype(node, 1) != dtype) {
        return weft_because(why, "expected equal dtypes, got %s and %s", weft_dtype_name(dtype),
                            weft_dtype_name(input_dtype(node, 1)));
    }
    if (sorted.n > 0 && values.n > 0) {
        expected.at[values.n - 1] = sorted.at[sorted.n - 1];
    }
    if (sorted.n == 0 || !weft__shape_equal(&sorted, &expected)) {
        return weft_because(why,
                            "sorted rows of %s for values of %s: only the last axis may differ",
                            weft__shape_text(&sorted, a), weft__shape_text(&values, b));
    }
    if (sorted.at[sorted.n - 1] > UINT32_MAX) {
        return weft_because(why, "rows of %lld elements", (long long)sorted.at[sorted.n - 1]);
    }
    return set_spec(out, WEFT_UINT32, &values);
}

static const weft_field search_fields[] = {
    WEFT_FIELD(BOOL, weft_search_params, right),
    WEFT_FIELDS_END,
};

static const weft_case cases[] = {
    {.name = "left", /* ties: all elements of the row are equal */
     .n_inputs = 2,
     .in = {{.shape = DIMS(2, 5), .lo = 1, .hi = 1.0001}, {.shape = DIMS(2, 3), .lo = 0, .hi = 2}},
     .params = &(const weft_search_params){false}},
    {.name = "one",
     .n_inputs = 2,
     .in = {{.shape = DIMS(70, 1)}, {.shape = DIMS(70, 4)}},
     .params = &(const weft_search_params){false}},
    {.name = "right",
     .n_inputs = 2,
     .in = {{.shape = DIMS(3, 1)}, {.shape = DIMS(3, 40)}},
     .params = &(const weft_search_params){true}},
    {.name = "none",
     .n_inputs = 2,
     .in = {{.shape = DIMS(3, 0)}, {.shape = DIMS(3, 4)}},
     .params = &(const weft_search_params){true}},
    {.name = "empty",
     .n_inputs = 2,
     .in = {{.shape = DIMS(3, 4), .lo = 1, .hi = 1.0001}, {.shape = DIMS(3, 0)}},
     .params = &(const weft_search_params){true}},
};

const weft_op weft_op_searchsorted = {
    .name = "searchsorted",
    .family = WEFT_CORE_RANK,
    .arity = 2,
    .params_size = sizeof(weft_search_params),
    .params_fields = search_fields,
    .infer = searchsorted_infer,
    .zero_gradient = 1u << 0 | 1u << 1,
    .takes_leading_axis = true,
    .reference = searchsorted_reference,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
};

weft_array *weft_searchsorted(weft_array *sorted, weft_array *values, bool right)
{
    if (!weft_ok(sorted) || !weft_ok(values)) {
        return weft_ok(sorted) ? values : sorted;
    }
    weft_search_params params = {right};
    weft_dtype dtype = weft_promote(weft_dtype_of(sorted), weft_dtype_of(values));
    weft_dims shape = weft_shape(values), rows = weft_shape(sorted);
    sorted = weft_astype(sorted, dtype);
    values = weft_astype(values, dtype);
    if (rows.n == 1) {
        values = weft_reshape(values, WEFT_DIMS(weft_size(values)));
        return weft_reshape(apply2(&weft_op_searchsorted, sorted, values, &params), shape);
    }
    return apply2(&weft_op_searchsorted, sorted, values, &params);
}
