/* ops/elementwise/elementwise.h -- helpers shared by the elementwise ops. */
#ifndef OPS_ELEMENTWISE_ELEMENTWISE_H
#define OPS_ELEMENTWISE_ELEMENTWISE_H

#include "ops/common.h"

#define OP(name) extern const weft_op weft_op_##name;
#include "ops/elementwise/table.h"
#undef OP

/* Bits of the dtypes that have only a real formula, for no_test_dtypes. */
enum {
    NO_TEST_FLOATS =
        1u << WEFT_FLOAT16 | 1u << WEFT_BFLOAT16 | 1u << WEFT_FLOAT32 | 1u << WEFT_FLOAT64,
    NO_TEST_COMPLEX = 1u << WEFT_COMPLEX64,
    NO_TEST_BOOL = 1u << WEFT_BOOL,
    NO_TEST_INTEGERS = 1u << WEFT_UINT8 | 1u << WEFT_UINT16 | 1u << WEFT_UINT32 |
                       1u << WEFT_UINT64 | 1u << WEFT_INT8 | 1u << WEFT_INT16 | 1u << WEFT_INT32 |
                       1u << WEFT_INT64,
    NO_TEST_WHOLE = NO_TEST_BOOL | NO_TEST_INTEGERS,
    NO_TEST_BUT_FLOATS = NO_TEST_BOOL | NO_TEST_INTEGERS | NO_TEST_COMPLEX
};

/* For partials: input i of the node, and a 0-d constant in the node's dtype. */
static inline weft_array *operand(weft_array *node, int i)
{
    return weft_node_input(node, i);
}

static inline weft_array *constant_like(const weft_array *x, double value)
{
    return weft_scalar(value, weft_dtype_of(x));
}

static inline weft_array *elementwise1(const weft_op *op, weft_array *x)
{
    return weft_apply_elementwise(op, &x, 1);
}

static inline weft_array *elementwise2(const weft_op *op, weft_array *a, weft_array *b)
{
    weft_array *inputs[] = {a, b};
    return weft_apply_elementwise(op, inputs, 2);
}

/* For real functions: integers and bool become float32, or the dtype of the other operand if that
 * is a float. */
static inline weft_array *real1(const weft_op *op, weft_array *x)
{
    if (!is_whole(x)) {
        return elementwise1(op, x);
    }
    weft_scope_open();
    return weft_scope_close(elementwise1(op, as_inexact(x)));
}

static inline weft_array *real2(const weft_op *op, weft_array *a, weft_array *b)
{
    weft_class klass = weft_dtype_class(weft_promote(weft_dtype_of(a), weft_dtype_of(b)));
    if (klass != WEFT_CLASS_INTEGER && klass != WEFT_CLASS_BOOL) {
        return elementwise2(op, a, b);
    }
    weft_scope_open();
    return weft_scope_close(elementwise2(op, as_inexact(a), as_inexact(b)));
}

#endif
