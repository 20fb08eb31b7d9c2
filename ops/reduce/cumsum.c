/* ops/reduce/cumsum.c -- running sums along an axis, from either end, with or without the element
 * itself; accumulated in double (integers: in 64 bits). */
#include "ops/reduce/reduce.h"

/* One run of e.length elements that begins at element `base`. */
static void scan(const weft_call *call, int64_t base, axis_extents e)
{
    const weft_scan_params *p = call->params;
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    bool real = weft_dtype_is_float(out->dtype);
    double sum = 0;
    uint64_t whole = 0;
    for (int64_t k = 0; k < e.length; k++) {
        int64_t at = base + (p->reverse ? e.length - 1 - k : k) * e.inner;
        double before = sum;
        uint64_t whole_before = whole;
        if (real) {
            sum += weft_tensor_get(in, at);
            weft_tensor_set(out, at, p->inclusive ? sum : before);
        } else {
            whole += (uint64_t)weft_tensor_get_int(in, at);
            weft_tensor_set_int(out, at, (int64_t)(p->inclusive ? whole : whole_before));
        }
    }
}

static weft_status cumsum_reference(const weft_call *call)
{
    const weft_scan_params *p = call->params;
    axis_extents e = extents_of(&call->in[0].shape, p->axis);
    for (int64_t o = 0; o < e.outer; o++) {
        for (int64_t j = 0; j < e.inner; j++) {
            scan(call, o * e.length * e.inner + j, e);
        }
    }
    return WEFT_OK;
}

/* An element reaches the sums behind it, so its gradient is the sum from the other end. */
static void cumsum_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                       weft_array **grads)
{
    const weft_scan_params *p = weft_node_params(node);
    if (wanted[0]) {
        grads[0] = weft_cumsum(cts[0], (int)p->axis, !p->reverse, p->inclusive);
    }
}

static bool cumsum_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_scan_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    weft_dtype dtype = input_dtype(node, 0);
    if (dtype == WEFT_COMPLEX64) {
        return weft_because(why, "unsupported for complex64");
    }
    return weft__check_axis(p->axis, shape.n, why) >= 0 &&
           set_spec(out, dtype == WEFT_BOOL ? WEFT_INT32 : dtype, &shape);
}

static const weft_field cumsum_fields[] = {
    WEFT_FIELD(INT, weft_scan_params, axis),
    WEFT_FIELD(BOOL, weft_scan_params, reverse),
    WEFT_FIELD(BOOL, weft_scan_params, inclusive),
    WEFT_FIELDS_END,
};

static const weft_case cumsum_cases[] = {
    {.name = "last",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 5)}},
     .params = &(const weft_scan_params){-1, false, true}},
    {.name = "exclusive",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 4, 3)}},
     .params = &(const weft_scan_params){-2, false, false}},
    {.name = "reverse",
     .n_inputs = 1,
     .in = {{.shape = DIMS(4, 3)}},
     .params = &(const weft_scan_params){-2, true, true}},
    {.name = "both",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 4)}},
     .params = &(const weft_scan_params){-1, true, false}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 0)}},
     .params = &(const weft_scan_params){-1, false, true}},
};

const weft_op weft_op_cumsum = {
    .name = "cumsum",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_scan_params),
    .params_fields = cumsum_fields,
    .infer = cumsum_infer,
    .vjp = cumsum_vjp,
    .reference = cumsum_reference,
    .cases = cumsum_cases,
    .n_cases = sizeof cumsum_cases / sizeof *cumsum_cases,
    .no_test_dtypes = DTYPE_BIT(WEFT_COMPLEX64),
};

weft_array *weft_cumsum(weft_array *x, int axis, bool reverse, bool inclusive)
{
    weft_scan_params params = {.reverse = reverse, .inclusive = inclusive};
    weft_array *failed;
    if (!weft__axis_from_end("cumsum", x, axis, &params.axis, &failed)) {
        return failed;
    }
    return apply1(&weft_op_cumsum, x, &params);
}
