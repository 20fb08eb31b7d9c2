/* ops/reduce/prod.c -- products of elements, accumulated in double (integers: in 64 bits,
 * wrapping). */
#include "ops/reduce/scan.h"

static void multiply_complex(const weft_call *call)
{
    reduction walk = weft__reduction(call);
    int64_t size = weft_tensor_size(&call->out[0]);
    for (int64_t o = 0; o < size; o++) {
        double re = 1, im = 0;
        for (int64_t r = 0; r < walk.count; r++) {
            double x, y;
            get_complex(&call->in[0], weft__reduced_element(&walk, o, r), &x, &y);
            times_complex(&re, &im, x, y);
        }
        set_complex(&call->out[0], o, re, im);
    }
}

static weft_status prod_reference(const weft_call *call)
{
    if (call->out[0].dtype == WEFT_COMPLEX64) {
        multiply_complex(call);
        return WEFT_OK;
    }
    reduction walk = weft__reduction(call);
    int64_t size = weft_tensor_size(&call->out[0]);
    bool real = weft_dtype_is_float(call->out[0].dtype);
    for (int64_t o = 0; o < size; o++) {
        double product = 1;
        uint64_t whole = 1;
        for (int64_t r = 0; r < walk.count; r++) {
            int64_t element = weft__reduced_element(&walk, o, r);
            if (real) {
                product *= weft_tensor_get(&call->in[0], element);
            } else {
                whole *= (uint64_t)weft_tensor_get_int(&call->in[0], element);
            }
        }
        if (real) {
            weft_tensor_set(&call->out[0], o, product);
        } else {
            weft_tensor_set_int(&call->out[0], o, (int64_t)whole);
        }
    }
    return WEFT_OK;
}

/* For each element of the last axis, the product of the other elements: the product of those before
 * it times that of those after it. Without division, so that it is differentiable at zeros. */
static weft_array *product_of_others(weft_array *rows)
{
    return weft_multiply(weft_cumprod(rows, -1, false, false), weft_cumprod(rows, -1, true, false));
}

/* The gradient is the product of the other elements. Rows without zeros use product / x, where the
 * product is accumulated in double; only rows with a zero need the running products. Each formula
 * sees ones in the other's rows, so that neither puts a NaN into derivatives. */
static void prod_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    if (!wanted[0]) {
        return;
    }
    const weft_reduce_params *p = weft_node_params(node);
    weft_array *x = weft_node_input(node, 0);
    weft_array *none = weft_scalar(0, weft_dtype_of(x)), *one = weft_scalar(1, weft_dtype_of(x));
    weft_array *zero = weft_any(weft_equal(x, none), p->axes, false);
    zero = weft__unreduce(node, zero);
    weft_array *whole = weft_where(zero, one, x);
    weft_array *product = weft__unreduce(node, weft_prod(whole, p->axes, false));
    weft_dims back, shape;
    weft_array *rows = weft__axes_together(weft_where(zero, x, one), &p->axes, &back, &shape);
    weft_array *others = weft_reshape(product_of_others(weft__wide(rows)), shape);
    others = weft_astype(weft_transpose(others, back), weft_dtype_of(x));
    others = weft_where(zero, others, weft_divide(product, whole));
    grads[0] = weft_multiply(weft_conjugate(others), weft__unreduce(node, cts[0]));
}

static bool prod_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape;
    return weft__reduced_shape(node, &shape, why) &&
           set_spec(out, weft__sum_dtype(input_dtype(node, 0)), &shape);
}

const weft_op weft_op_prod = {
    .name = "prod",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_reduce_params),
    .params_fields = weft__reduce_fields,
    .infer = prod_infer,
    .vjp = prod_vjp,
    .takes_leading_axis = true,
    .reference = prod_reference,
    .cases = weft__reduce_cases,
    .n_cases = REDUCE_CASES,
};

weft_array *weft_prod(weft_array *x, weft_dims axes, bool keepdims)
{
    return weft__reduce(&weft_op_prod, x, axes, keepdims);
}
