/* tests/vulkan/test_elementwise.c -- elementwise ops, copies and casts on the Vulkan device, with
 * layouts and sizes for each of its code paths: the same bits as on the CPU. */
#include <math.h>
#include <stdio.h>

#include "tests/vulkan/both.h"

static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_INT8,
                                    WEFT_UINT16,  WEFT_INT64,   WEFT_BOOL,     WEFT_FLOAT64};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

typedef struct problem {
    weft_dtype dtype, to;
    int64_t rows, columns;
} problem;

static weft_array *operand(const problem *p, int64_t rows, int64_t columns)
{
    return both_draw(WEFT_DIMS(rows, columns), p->dtype, p->dtype == WEFT_BOOL ? 0 : -9, 9);
}

/* a < b ? a : b, by a mask, in every dtype: exact on both devices. */
static weft_array *pick(weft_array *a, weft_array *b)
{
    return weft_where(weft_less(a, b), a, b);
}

static weft_array *same_shape(const void *context)
{
    const problem *p = context;
    return pick(operand(p, p->rows, p->columns), operand(p, p->rows, p->columns));
}

static weft_array *row_and_column(const void *context)
{
    const problem *p = context;
    return weft_maximum(pick(operand(p, p->rows, p->columns), operand(p, 1, p->columns)),
                        operand(p, p->rows, 1));
}

static weft_array *one_element(const void *context)
{
    const problem *p = context;
    return pick(operand(p, p->rows, p->columns), operand(p, 1, 1));
}

static weft_array *transposed(const void *context)
{
    const problem *p = context;
    return pick(weft_swapaxes(operand(p, p->columns, p->rows), 0, 1),
                operand(p, p->rows, p->columns));
}

static weft_array *transposed_copy(const void *context)
{
    const problem *p = context;
    return weft_contiguous(weft_swapaxes(operand(p, p->columns, p->rows), 0, 1));
}

static weft_array *reversed(const void *context)
{
    const problem *p = context;
    weft_array *x = operand(p, p->rows, 2 * p->columns);
    x = weft_slice(x, WEFT_DIMS(0, 1), WEFT_DIMS(-1, 2 * p->columns - 1),
                   WEFT_DIMS(-p->rows - 1, -2 * p->columns - 1), WEFT_DIMS(-1, -2));
    return pick(x, operand(p, weft_dim(x, 0), weft_dim(x, 1)));
}

/* Rows of a wider array, from an odd element on: nothing is aligned. */
static weft_array *unaligned(const void *context)
{
    const problem *p = context;
    weft_array *x = weft_slice_axis(operand(p, p->rows, p->columns + 5), 1, 1, p->columns + 1);
    return pick(x, operand(p, p->rows, p->columns));
}

/* Aligned rows of a wider array. */
static weft_array *aligned(const void *context)
{
    const problem *p = context;
    weft_array *x = weft_slice_axis(operand(p, p->rows, p->columns + 16), 1, 16, p->columns + 16);
    return pick(x, operand(p, 1, p->columns));
}

static const struct {
    const char *name;
    both_make *make;
} layouts[] = {
    {"same shape", same_shape},   {"row and column", row_and_column},
    {"one element", one_element}, {"transposed", transposed},
    {"reversed", reversed},       {"transposed copy", transposed_copy},
    {"unaligned", unaligned},     {"aligned", aligned},
};

static void check_layouts(int64_t rows, int64_t columns)
{
    for (int d = 0; d < DTYPES && both_there(); d++) {
        for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
            problem p = {.dtype = dtypes[d], .rows = rows, .columns = columns};
            char label[96];
            snprintf(label, sizeof label, "%s, %s, %lld x %lld", layouts[k].name,
                     weft_dtype_name(dtypes[d]), (long long)rows, (long long)columns);
            both_same(layouts[k].make, &p, 0, label);
        }
    }
}

static void small_arrays(void)
{
    check_layouts(3, 5);
}

static void large_arrays_in_fours(void)
{
    check_layouts(130, 256);
}

static void large_arrays_that_fours_do_not_divide(void)
{
    check_layouts(131, 257);
}

/* ---- many axes and operands ----------------------------------------------------------------- */

static weft_array *five_axes(const void *context)
{
    const problem *p = context;
    weft_array *x = both_draw(WEFT_DIMS(3, 4, 2, 5, 6), p->dtype, 0, 100);
    weft_array *y = both_draw(WEFT_DIMS(6, 1, 2, 4, 3), p->dtype, 0, 100);
    return weft_add(weft_transpose(x, WEFT_DIMS(4, 3, 2, 1, 0)), y);
}

static weft_array *eight_operands(const void *context)
{
    const problem *p = context;
    weft_array *sum = both_draw(WEFT_DIMS(4, 3, 5), p->dtype, -4, 4);
    for (int i = 1; i < 8; i++) {
        weft_dims shape = WEFT_DIMS(i & 1 ? 4 : 1, i & 2 ? 3 : 1, i & 4 ? 5 : 1);
        sum = weft_maximum(weft_add(sum, both_draw(shape, p->dtype, -4, 4)), sum);
    }
    return sum;
}

/* Rounded between steps, as separate ops would. */
static weft_array *long_chain(const void *context)
{
    const problem *p = context;
    weft_array *a = both_draw(WEFT_DIMS(p->rows), p->dtype, -4, 4);
    weft_array *b = both_draw(WEFT_DIMS(p->rows), p->dtype, 1, 2);
    weft_array *x = weft_multiply(weft_add(a, b), weft_subtract(a, weft_multiply(b, b)));
    return weft_where(weft_less(x, a), weft_add(x, b), weft_multiply(x, weft_add(x, a)));
}

static void walks_of_many_axes_and_operands(void)
{
    static const weft_dtype some[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_INT32};
    for (int d = 0; d < 4 && both_there(); d++) {
        problem p = {.dtype = some[d], .rows = 1000};
        both_same(five_axes, &p, 0, "five axes");
        both_same(eight_operands, &p, 0, "eight operands");
        both_same(long_chain, &p, 0, "chain");
        p.rows = 40000;
        both_same(long_chain, &p, 0, "long chain");
    }
}

/* ---- conversions ---------------------------------------------------------------------------- */

/* clang-format would turn this table into a column. */
/* clang-format off */
static const double edges[] = {
    0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 127, 128, -128, -129, 255, 256, 32767, 32768, -32769,
    65535, 65536, 65504, 65519, 65520, 65521, 16777217, -16777217, 33554433, 2147483647,
    2147483648.0, -2147483649.0, 4294967295.0, 4294967296.0, 9007199254740993.0,
    9223372036854775807.0, -9223372036854775808.0, 18446744073709551615.0, 1.8e19, 1e30, -1e30,
    INFINITY, -INFINITY, NAN, 6e-8, 1e-7, 3.1e-5, 257, 258, -259, 1.00390625, 1.001953125,
    1.0019531250001, 0.1, -0.3, 1e-300, 384.5, 8388609,
};
/* clang-format on */

static weft_array *converted(const void *context)
{
    const problem *p = context;
    const int n = (int)(sizeof edges / sizeof *edges);
    static double repeated[40003];
    for (int64_t i = 0; i < p->rows; i++) {
        repeated[i] = edges[i % n];
    }
    return weft_astype(both_list(repeated, WEFT_DIMS(p->rows), p->dtype), p->to);
}

static void conversions_between_all_dtypes(void)
{
    for (int from = 0; from < WEFT_DTYPE_COUNT && both_there(); from++) {
        for (int to = 0; to < WEFT_DTYPE_COUNT; to++) {
            bool wide =
                weft_dtype_size((weft_dtype)from) == 8 || weft_dtype_size((weft_dtype)to) == 8;
            problem p = {(weft_dtype)from, (weft_dtype)to, wide ? 57 : 20003, 0};
            char label[64];
            snprintf(label, sizeof label, "%s to %s", weft_dtype_name(p.dtype),
                     weft_dtype_name(p.to));
            both_same(converted, &p, 0, label);
        }
    }
}

CHECK_MAIN("vulkan_elementwise", CHECK_CASE(small_arrays), CHECK_CASE(large_arrays_in_fours),
           CHECK_CASE(large_arrays_that_fours_do_not_divide),
           CHECK_CASE(walks_of_many_axes_and_operands), CHECK_CASE(conversions_between_all_dtypes))
