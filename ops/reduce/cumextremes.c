/* ops/reduce/cumextremes.c -- running maxima and minima along an axis, and their indices. NaN wins;
 * of equal elements the first counts. */
#include <math.h>

#include "ops/reduce/extremes.h"
#include "ops/reduce/scan.h"

extern const weft_op weft_op_cumargmax, weft_op_cumargmin;

/* The initial value of an exclusive scan: no element is worse. */
static void set_first(const weft_tensor *out, int64_t at, bool largest)
{
    if (out->dtype == WEFT_COMPLEX64) {
        set_complex(out, at, largest ? -INFINITY : INFINITY, largest ? -INFINITY : INFINITY);
    } else if (weft_dtype_is_float(out->dtype)) {
        weft_tensor_set(out, at, largest ? -INFINITY : INFINITY);
    } else if (out->dtype == WEFT_BOOL || !weft_dtype_is_signed(out->dtype)) {
        weft_tensor_set_int(out, at, largest ? 0 : out->dtype == WEFT_BOOL ? 1 : -1);
    } else {
        int bits = 8 * (int)weft_dtype_size(out->dtype) - 1;
        int64_t highest = (int64_t)(UINT64_MAX >> (64 - bits));
        weft_tensor_set_int(out, at, largest ? -highest - 1 : highest);
    }
}

static weft_status find(const weft_call *call, bool largest, bool places)
{
    const weft_scan_params *p = call->params;
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    axis_extents e = extents_of(&in->shape, p->axis);
    for (int64_t row = 0; row < e.outer * e.inner; row++) {
        int64_t base = row / e.inner * e.length * e.inner + row % e.inner, best = -1;
        for (int64_t k = 0; k < e.length; k++) {
            int64_t at = base + (p->reverse ? e.length - 1 - k : k) * e.inner, before = best;
            best = best < 0 || weft__replaces_extreme(in, at, best, largest) ? at : best;
            int64_t from = p->inclusive ? best : before;
            if (places) {
                weft_tensor_set_int(out, at, from < 0 ? 0 : (from - base) / e.inner);
            } else if (from < 0) {
                set_first(out, at, largest);
            } else {
                move_element(in, from, out, at);
            }
        }
    }
    return WEFT_OK;
}

static weft_status cummax_reference(const weft_call *call)
{
    return find(call, true, false);
}

static weft_status cummin_reference(const weft_call *call)
{
    return find(call, false, false);
}

static weft_status cumargmax_reference(const weft_call *call)
{
    return find(call, true, true);
}

static weft_status cumargmin_reference(const weft_call *call)
{
    return find(call, false, true);
}

/* ---- derivatives, by the indices ------------------------------------------------------------- */

static weft_array *places_of(weft_array *node)
{
    const weft_scan_params *p = weft_node_params(node);
    bool largest = weft_node_op(node)->reference == cummax_reference;
    weft_scan_params inclusive = {.axis = p->axis, .reverse = p->reverse, .inclusive = true};
    return apply1(largest ? &weft_op_cumargmax : &weft_op_cumargmin, weft_node_input(node, 0),
                  &inclusive);
}

static void cumextremes_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                            weft_array **grads)
{
    const weft_scan_params *p = weft_node_params(node);
    if (wanted[0]) {
        weft_array *x = weft_node_input(node, 0);
        weft_array *ct = weft__wide(p->inclusive ? cts[0] : weft__shift(cts[0], p, false, 0));
        weft_array *zeros = weft__zeros_on_device_of(x, weft_shape(x), weft_dtype_of(ct));
        weft_array *dx = weft_scatter_add_along_axis(zeros, places_of(node), ct, (int)p->axis);
        grads[0] = weft_astype(dx, weft_dtype_of(cts[0]));
    }
}

static void cumextremes_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    const weft_scan_params *p = weft_node_params(node);
    if (tangents[0]) {
        weft_array *t = weft_take_along_axis(tangents[0], places_of(node), (int)p->axis);
        out[0] = p->inclusive ? t : weft__shift(t, p, true, 0);
    }
}

static bool places_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    if (!weft__infer_scan(node, out, why)) {
        return false;
    }
    const weft_scan_params *p = weft_node_params(node);
    int64_t length = extents_of(&out->shape, p->axis).length;
    if (length > UINT32_MAX) {
        return weft_because(why, "an axis of size %lld", (long long)length);
    }
    out->dtype = WEFT_UINT32;
    return true;
}

#define SCAN_OF(title, function, infer_function, count)                                            \
    .name = title, .family = WEFT_CORE_RANK, .arity = 1, .params_size = sizeof(weft_scan_params),  \
    .params_fields = weft__scan_fields, .infer = infer_function, .takes_leading_axis = true,       \
    .reference = function, .cases = weft__scan_cases, .n_cases = count,                            \
    .no_test_dtypes = DTYPE_BIT(WEFT_COMPLEX64)

const weft_op weft_op_cummax = {
    SCAN_OF("cummax", cummax_reference, weft__infer_scan, INCLUSIVE_CASES),
    .vjp = cumextremes_vjp,
    .jvp = cumextremes_jvp,
};

const weft_op weft_op_cummin = {
    SCAN_OF("cummin", cummin_reference, weft__infer_scan, INCLUSIVE_CASES),
    .vjp = cumextremes_vjp,
    .jvp = cumextremes_jvp,
};

const weft_op weft_op_cumargmax = {
    SCAN_OF("cumargmax", cumargmax_reference, places_infer, SCAN_CASES),
    .zero_gradient = 1u << 0,
};

const weft_op weft_op_cumargmin = {
    SCAN_OF("cumargmin", cumargmin_reference, places_infer, SCAN_CASES),
    .zero_gradient = 1u << 0,
};
#undef SCAN_OF

weft_array *weft_cummax(weft_array *x, int axis, bool reverse, bool inclusive)
{
    return weft__scan(&weft_op_cummax, x, axis, reverse, inclusive);
}

weft_array *weft_cummin(weft_array *x, int axis, bool reverse, bool inclusive)
{
    return weft__scan(&weft_op_cummin, x, axis, reverse, inclusive);
}
