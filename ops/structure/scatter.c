/* ops/structure/scatter.c -- scatter: sets slices at indices along an axis, or multiplies,
 * maximizes or minimizes into them. Sums are scatter_add (take.c). */
#include <math.h>

#include "ops/structure/index.h"

extern const weft_op weft_op_scatter, weft_op_scatter_add;

static double combined(weft_combine combine, double a, double b)
{
    if (combine == WEFT_COMBINE_PROD) {
        return a * b;
    }
    bool keeps = combine == WEFT_COMBINE_MAX ? a >= b : a <= b;
    return isnan(a) || keeps ? a : b;
}

static uint64_t combined_whole(weft_combine combine, uint64_t a, uint64_t b, bool is_signed)
{
    if (combine == WEFT_COMBINE_PROD) {
        return a * b;
    }
    bool above = is_signed ? (int64_t)a >= (int64_t)b : a >= b;
    return above == (combine == WEFT_COMBINE_MAX) ? a : b;
}

/* An element while values are combined into it. */
typedef union cell {
    double real;
    uint64_t whole;
    struct {
        double re, im;
    } z;
} cell;

static cell read_cell(const weft_tensor *t, int64_t i)
{
    cell c = {0};
    if (t->dtype == WEFT_COMPLEX64) {
        get_complex(t, i, &c.z.re, &c.z.im);
    } else if (weft_dtype_is_float(t->dtype)) {
        c.real = weft_tensor_get(t, i);
    } else {
        c.whole = (uint64_t)weft_tensor_get_int(t, i);
    }
    return c;
}

static void write_cell(const weft_tensor *t, int64_t i, cell c)
{
    if (t->dtype == WEFT_COMPLEX64) {
        set_complex(t, i, c.z.re, c.z.im);
    } else if (weft_dtype_is_float(t->dtype)) {
        weft_tensor_set(t, i, c.real);
    } else {
        weft_tensor_set_int(t, i, (int64_t)c.whole);
    }
}

/* Complex numbers compare by their real, then by their imaginary parts; NaN wins. */
static cell combined_complex(weft_combine combine, cell a, cell b)
{
    if (combine == WEFT_COMBINE_PROD) {
        times_complex(&a.z.re, &a.z.im, b.z.re, b.z.im);
        return a;
    }
    bool a_nan = isnan(a.z.re) || isnan(a.z.im), b_nan = isnan(b.z.re) || isnan(b.z.im);
    if (a_nan || b_nan) {
        return a_nan ? a : b;
    }
    bool above = a.z.re > b.z.re || (a.z.re == b.z.re && a.z.im > b.z.im);
    bool below = a.z.re < b.z.re || (a.z.re == b.z.re && a.z.im < b.z.im);
    return (combine == WEFT_COMBINE_MAX ? below : above) ? b : a;
}

static weft_status combine_all(const weft_call *call, cell *cells)
{
    const weft_scatter_params *p = call->params;
    const weft_tensor *x = &call->in[0], *values = &call->in[2];
    int64_t size = weft_tensor_size(x), count = weft_tensor_size(values), to;
    weft_combine combine = (weft_combine)p->combine;
    bool real = weft_dtype_is_float(x->dtype), is_signed = weft_dtype_is_signed(x->dtype);
    for (int64_t i = 0; i < size; i++) {
        cells[i] = read_cell(x, i);
    }
    for (int64_t i = 0; i < count; i++) {
        weft_status status = weft__target_along_axis(call, i, &to);
        if (status != WEFT_OK) {
            return status;
        }
        cell value = read_cell(values, i), *c = &cells[to];
        if (x->dtype == WEFT_COMPLEX64) {
            *c = combined_complex(combine, *c, value);
        } else if (real) {
            c->real = combined(combine, c->real, value.real);
        } else {
            c->whole = combined_whole(combine, c->whole, value.whole, is_signed);
        }
    }
    for (int64_t i = 0; i < size; i++) {
        write_cell(&call->out[0], i, cells[i]);
    }
    return WEFT_OK;
}

static weft_status put_all(const weft_call *call)
{
    int64_t size = weft_tensor_size(&call->in[0]), count = weft_tensor_size(&call->in[2]), to;
    for (int64_t i = 0; i < size; i++) {
        move_element(&call->in[0], i, &call->out[0], i);
    }
    for (int64_t i = 0; i < count; i++) {
        weft_status status = weft__target_along_axis(call, i, &to);
        if (status != WEFT_OK) {
            return status;
        }
        move_element(&call->in[2], i, &call->out[0], to);
    }
    return WEFT_OK;
}

static weft_status scatter_reference(const weft_call *call)
{
    const weft_scatter_params *p = call->params;
    if (p->combine == WEFT_COMBINE_PUT) {
        return put_all(call);
    }
    size_t size = (size_t)weft_tensor_size(&call->in[0]);
    cell *cells = weft_calloc(size ? size : 1, sizeof *cells);
    if (!cells) {
        return weft_fail(WEFT_MEMORY, "%s: out of memory for %zu elements", call->op->name, size);
    }
    weft_status status = combine_all(call, cells);
    weft_free(cells);
    return status;
}

/* ---- derivative ----------------------------------------------------------------------------- */

/* Of several values for one element, the last one, which counts. */
static weft_array *winners(weft_array *x, weft_array *indices, int64_t axis)
{
    weft_dims shape = weft_shape(indices), values = shape;
    int64_t count = weft_size(indices);
    weft_array *order = weft_reshape(weft__ramp(x, count, 0, 1), shape);
    weft_array *zeros = weft__zeros_on_device_of(x, WEFT_DIMS(weft_dim(x, (int)axis)), WEFT_INT64);
    weft_array *last = weft__scatter_rows(zeros, indices, order, -1, WEFT_COMBINE_PUT);
    weft_array *wins = weft_equal(weft_take(last, indices, -1), order);
    for (int64_t i = axis + 1; i < 0; i++) {
        values.at[values.n++] = 1;
    }
    return weft_reshape(wins, values);
}

static void put_vjp(weft_array *node, weft_array *ct, const bool *wanted, weft_array **grads)
{
    const weft_scatter_params *p = weft_node_params(node);
    weft_array *x = weft_node_input(node, 0), *indices = weft_node_input(node, 1);
    weft_array *none = weft_scalar(0, weft_dtype_of(ct));
    if (wanted[0]) {
        weft_array *values = weft_node_input(node, 2);
        weft_array *zeros = weft__zeros_on_device_of(x, weft_shape(values), weft_dtype_of(ct));
        grads[0] = weft__scatter_rows(ct, indices, zeros, p->axis, WEFT_COMBINE_PUT);
    }
    if (wanted[2]) {
        grads[2] =
            weft_where(winners(x, indices, p->axis), weft_take(ct, indices, (int)p->axis), none);
    }
}

/* For each value, the sum of the zero values among the others for the same element. Its own
 * contribution cancels if it is zero. */
static weft_array *other_zeros(weft_array *zero_x, weft_array *zero_values, weft_array *indices,
                               int64_t axis)
{
    weft_array *sum = weft__scatter_rows(zero_x, indices, zero_values, axis, WEFT_COMBINE_ADD);
    return weft_subtract(weft_take(sum, indices, (int)axis), zero_values);
}

/* The product of the other factors of each value's element. The nonzero ones are product / value.
 * If exactly one other is zero, the product is multiplied by it: this is 0 but has a derivative,
 * and it equals the sum of the zero ones. If more are zero, the product vanishes with its first
 * derivatives. So second derivatives of scatter_prod are exact at zeros; third derivatives are not
 * where three zeros meet. */
static weft_array *other_factors(weft_array *x, weft_array *indices, weft_array *values,
                                 int64_t axis)
{
    weft_dtype dtype = weft_dtype_of(x);
    weft_array *none = weft_scalar(0, dtype), *one = weft_scalar(1, dtype);
    weft_array *zero_x = weft_equal(x, none), *zero = weft_equal(values, none);
    weft_array *safe_x = weft_where(zero_x, one, x), *safe = weft_where(zero, one, values);
    weft_array *product = weft__scatter_rows(safe_x, indices, safe, axis, WEFT_COMBINE_PROD);
    weft_array *rest = weft_divide(weft_take(product, indices, (int)axis), safe);
    weft_array *count =
        other_zeros(weft_astype(zero_x, WEFT_INT32), weft_astype(zero, WEFT_INT32), indices, axis);
    weft_array *the_zero =
        other_zeros(weft_where(zero_x, x, none), weft_where(zero, values, none), indices, axis);
    weft_array *times = weft_where(weft_equal_scalar(count, 1), the_zero, none);
    times = weft_where(weft_equal_scalar(count, 0), one, times);
    return weft_multiply(rest, times);
}

/* The gradient of each factor is the product of the others. */
static void prod_vjp(weft_array *node, weft_array *ct, const bool *wanted, weft_array **grads)
{
    int64_t axis = ((const weft_scatter_params *)weft_node_params(node))->axis;
    weft_array *x = weft_node_input(node, 0), *indices = weft_node_input(node, 1);
    weft_array *values = weft_node_input(node, 2);
    if (wanted[0]) {
        weft_array *ones = weft_ones_like(x);
        weft_array *others = weft__scatter_rows(ones, indices, values, axis, WEFT_COMBINE_PROD);
        grads[0] = weft_multiply(ct, weft_conjugate(others));
    }
    if (wanted[2]) {
        weft_array *others = weft_conjugate(other_factors(x, indices, values, axis));
        grads[2] = weft_multiply(weft_take(ct, indices, (int)axis), others);
    }
}

/* The elements that equal the extreme share its gradient. */
static void extreme_vjp(weft_array *node, weft_array *ct, const bool *wanted, weft_array **grads)
{
    int64_t axis = ((const weft_scatter_params *)weft_node_params(node))->axis;
    weft_array *x = weft_node_input(node, 0), *indices = weft_node_input(node, 1);
    weft_array *values = weft_node_input(node, 2), *none = weft_scalar(0, weft_dtype_of(ct));
    weft_array *mine = weft_equal(x, node);
    weft_array *theirs = weft_equal(values, weft_take(node, indices, (int)axis));
    weft_array *ties = weft__scatter_rows(weft_astype(mine, WEFT_INT32), indices,
                                          weft_astype(theirs, WEFT_INT32), axis, WEFT_COMBINE_ADD);
    weft_array *share = weft_divide(ct, weft_astype(ties, weft_dtype_of(ct)));
    if (wanted[0]) {
        grads[0] = weft_where(mine, share, none);
    }
    if (wanted[2]) {
        grads[2] = weft_where(theirs, weft_take(share, indices, (int)axis), none);
    }
}

static void scatter_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                        weft_array **grads)
{
    const weft_scatter_params *p = weft_node_params(node);
    if (p->combine == WEFT_COMBINE_PUT) {
        put_vjp(node, cts[0], wanted, grads);
    } else if (p->combine == WEFT_COMBINE_PROD) {
        prod_vjp(node, cts[0], wanted, grads);
    } else {
        extreme_vjp(node, cts[0], wanted, grads);
    }
}

static bool scatter_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                         weft_array **out)
{
    const weft_scatter_params *p = weft_node_params(node);
    return weft__scatter_vmap(in, batched, size, p->axis, (weft_combine)p->combine, out);
}

/* ---- the op --------------------------------------------------------------------------------- */

static bool scatter_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_scatter_params *p = weft_node_params(node);
    bool puts = p->combine == WEFT_COMBINE_PUT;
    weft_dtype x = input_dtype(node, 0), values = input_dtype(node, 2);
    if (puts && x != values) {
        return weft_because(why, "values of %s for %s", weft_dtype_name(values),
                            weft_dtype_name(x));
    }
    return (puts || weft__scatter_dtypes(node, why)) &&
           weft__scatter_shapes(node, p->axis, out, why);
}

static const weft_field scatter_fields[] = {
    WEFT_FIELD(INT, weft_scatter_params, axis),
    WEFT_FIELD(INT, weft_scatter_params, combine),
    WEFT_FIELDS_END,
};

#define ROWS                                                                                       \
    {                                                                                              \
        {.shape = DIMS(5, 4)}, {.shape = DIMS(7), .index_below = 5},                               \
        {                                                                                          \
            .shape = DIMS(7, 4)                                                                    \
        }                                                                                          \
    }
#define MIDDLE                                                                                     \
    {                                                                                              \
        {.shape = DIMS(2, 3, 2)}, {.shape = DIMS(2, 2), .index_below = 3},                         \
        {                                                                                          \
            .shape = DIMS(2, 2, 2, 2)                                                              \
        }                                                                                          \
    }
static const weft_case scatter_cases[] = {
    {.name = "put",
     .n_inputs = 3,
     .in = ROWS,
     .params = &(const weft_scatter_params){-2, WEFT_COMBINE_PUT}},
    {.name = "put inside",
     .n_inputs = 3,
     .in = MIDDLE,
     .params = &(const weft_scatter_params){-2, WEFT_COMBINE_PUT}},
    {.name = "product",
     .n_inputs = 3,
     .in = MIDDLE,
     .params = &(const weft_scatter_params){-2, WEFT_COMBINE_PROD}},
    {.name = "maximum",
     .n_inputs = 3,
     .in = ROWS,
     .params = &(const weft_scatter_params){-2, WEFT_COMBINE_MAX}},
    {.name = "minimum",
     .n_inputs = 3,
     .in = MIDDLE,
     .params = &(const weft_scatter_params){-2, WEFT_COMBINE_MIN}},
    {.name = "nothing",
     .n_inputs = 3,
     .in = {{.shape = DIMS(3, 2)}, {.shape = DIMS(0), .index_below = 3}, {.shape = DIMS(0, 2)}},
     .params = &(const weft_scatter_params){-2, WEFT_COMBINE_PUT}},
};
#undef ROWS
#undef MIDDLE

const weft_op weft_op_scatter = {
    .name = "scatter",
    .family = WEFT_STRUCTURAL,
    .arity = 3,
    .params_size = sizeof(weft_scatter_params),
    .params_fields = scatter_fields,
    .infer = scatter_infer,
    .vjp = scatter_vjp,
    .zero_gradient = 1u << 1,
    .vmap = scatter_vmap,
    .reference = scatter_reference,
    .cases = scatter_cases,
    .n_cases = sizeof scatter_cases / sizeof *scatter_cases,
    .no_test_dtypes = DTYPE_BIT(WEFT_BOOL),
};

weft_array *weft__scatter_rows(weft_array *x, weft_array *indices, weft_array *values, int64_t axis,
                               weft_combine combine)
{
    if (combine == WEFT_COMBINE_ADD) {
        weft_axis_params params = {.axis = axis};
        return apply3(&weft_op_scatter_add, x, indices, values, &params);
    }
    weft_scatter_params params = {axis, combine};
    return apply3(&weft_op_scatter, x, indices, values, &params);
}
