/* tests/ops/test_elementwise_functions.c -- the public elementwise functions: dtypes, broadcasting,
 * scalars, errors, and second derivatives. */
#include <math.h>

#include "tests/check.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static weft_array *floats(int64_t n, const float *values)
{
    return weft_from_data(values, WEFT_FLOAT32, WEFT_DIMS(n));
}

static weft_array *whole(weft_dtype dtype, int64_t value)
{
    return weft_scalar_int(value, dtype);
}

static void expect(weft_array *a, weft_dtype dtype, double value)
{
    CHECK_EQ_INT(weft_dtype_of(a), dtype);
    CHECK_CLOSE(weft_item(a), value, 1e-6 * fabs(value));
}

static void real_functions_take_integers_as_float32(void)
{
    weft_scope_open();
    weft_array *three = whole(WEFT_INT32, 3), *half = weft_scalar(0.5, WEFT_FLOAT16);
    expect(weft_exp(three), WEFT_FLOAT32, exp(3));
    expect(weft_divide(three, whole(WEFT_INT8, 2)), WEFT_FLOAT32, 1.5);
    expect(weft_divide(three, half), WEFT_FLOAT16, 6);
    expect(weft_sigmoid(whole(WEFT_BOOL, 0)), WEFT_FLOAT32, 0.5);
    expect(weft_arctan2(three, three), WEFT_FLOAT32, atan(1));
    expect(weft_softcap(three, 3), WEFT_FLOAT32, 3 * tanh(1));
    weft_scope_close(NULL);
}

static void whole_functions_keep_integers(void)
{
    weft_scope_open();
    weft_array *x = whole(WEFT_INT32, -7), *two = whole(WEFT_INT32, 2);
    expect(weft_floor(x), WEFT_INT32, -7);
    expect(weft_abs(x), WEFT_INT32, 7);
    expect(weft_sign(x), WEFT_INT32, -1);
    expect(weft_floor_divide(x, two), WEFT_INT32, -4);
    expect(weft_remainder(x, two), WEFT_INT32, 1);
    expect(weft_power(x, two), WEFT_INT32, 49);
    expect(weft_isnan(x), WEFT_BOOL, 0);
    expect(weft_isfinite(x), WEFT_BOOL, 1);
    expect(weft_relu(x), WEFT_INT32, 0);
    expect(weft_maximum(x, whole(WEFT_INT8, 1)), WEFT_INT32, 1);
    expect(weft_left_shift(two, two), WEFT_INT32, 8);
    expect(weft_bitwise_invert(two), WEFT_INT32, -3);
    weft_scope_close(NULL);
}

/* NumPy's: a shift by the width or more, or by a negative number, shifts all bits out; right shifts
 * of signed numbers keep the sign. */
static void shifts_by_the_width_and_more(void)
{
    static const weft_dtype dtypes[] = {WEFT_UINT8, WEFT_UINT16, WEFT_UINT32, WEFT_UINT64,
                                        WEFT_INT8,  WEFT_INT16,  WEFT_INT32,  WEFT_INT64};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        const int bits = 8 * (int)weft_dtype_size(dtypes[d]);
        const bool negative = weft_dtype_is_signed(dtypes[d]);
        const int64_t by[] = {0, 3, bits - 1, bits, bits + 1, 100, negative ? -1 : 120};
        weft_scope_open();
        for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
            weft_array *b = whole(dtypes[d], by[i]), *x = whole(dtypes[d], 100);
            const bool out = by[i] < 0 || by[i] >= bits;
            expect(weft_right_shift(x, b), dtypes[d], out ? 0 : 100 >> (by[i] < 7 ? by[i] : 7));
            if (out)
                expect(weft_left_shift(x, b), dtypes[d], 0);
            if (negative)
                expect(weft_right_shift(whole(dtypes[d], -100), b), dtypes[d],
                       out || by[i] > 6 ? -1
                       : by[i] == 3     ? -13
                                        : -100);
        }
        weft_scope_close(NULL);
    }
}

static void scalars_are_weak(void)
{
    weft_scope_open();
    weft_array *byte = whole(WEFT_UINT8, 200), *half = weft_scalar(2, WEFT_BFLOAT16);
    expect(weft_add_scalar(byte, 100), WEFT_UINT8, 44);
    expect(weft_add_scalar(byte, 0.5), WEFT_FLOAT32, 200.5);
    expect(weft_scale(byte, -1), WEFT_UINT8, 56);
    expect(weft_add_scalar(whole(WEFT_BOOL, 1), 2), WEFT_INT32, 3);
    expect(weft_scale(half, 1.5), WEFT_BFLOAT16, 3);
    expect(weft_power_scalar(half, 3), WEFT_BFLOAT16, 8);
    expect(weft_power_scalar(half, 2), WEFT_BFLOAT16, 4);
    expect(weft_power_scalar(whole(WEFT_INT32, 4), 0.5), WEFT_FLOAT32, 2);
    expect(weft_power_scalar(whole(WEFT_INT32, 4), -0.5), WEFT_FLOAT32, 0.5);
    expect(weft_power_scalar(whole(WEFT_INT32, 3), 3), WEFT_INT32, 27);
    weft_scope_close(NULL);
}

static void where_broadcasts_and_promotes(void)
{
    weft_scope_open();
    const uint8_t bits[3] = {1, 0, 1};
    const float column[2] = {10, 20};
    weft_array *condition = weft_from_data(bits, WEFT_BOOL, WEFT_DIMS(3));
    weft_array *a = weft_from_data(column, WEFT_FLOAT32, WEFT_DIMS(2, 1));
    weft_array *y = weft_where(condition, a, whole(WEFT_INT32, 7));
    CHECK_EQ_INT(weft_dtype_of(y), WEFT_FLOAT32);
    CHECK_EQ_INT(weft_dim(y, 0), 2);
    CHECK_EQ_INT(weft_dim(y, 1), 3);
    const float want[6] = {10, 7, 10, 20, 7, 20};
    float got[6];
    CHECK_OK(weft_read(y, WEFT_FLOAT32, got, 6));
    CHECK_BYTES(got, want, sizeof want);
    CHECK_CONTAINS(weft_error(weft_where(condition, floats(2, column), a)),
                   "where: shapes do not broadcast");
    weft_scope_close(NULL);
}

static void clip_has_no_bound_where_it_is_null(void)
{
    weft_scope_open();
    const float values[3] = {-2, 0.5F, 3};
    weft_array *x = floats(3, values), *low = weft_scalar(-1, WEFT_FLOAT32);
    weft_array *high = weft_scalar(1, WEFT_FLOAT32);
    const float both[3] = {-1, 0.5F, 1}, below[3] = {-2, 0.5F, 1}, above[3] = {-1, 0.5F, 3};
    float got[3];
    CHECK_OK(weft_read(weft_clip(x, low, high), WEFT_FLOAT32, got, 3));
    CHECK_BYTES(got, both, sizeof both);
    CHECK_OK(weft_read(weft_clip(x, NULL, high), WEFT_FLOAT32, got, 3));
    CHECK_BYTES(got, below, sizeof below);
    CHECK_OK(weft_read(weft_clip(x, low, NULL), WEFT_FLOAT32, got, 3));
    CHECK_BYTES(got, above, sizeof above);
    CHECK(weft_clip(x, NULL, NULL) == x);
    weft_scope_close(NULL);
}

static void converting_to_the_same_dtype_returns_the_array(void)
{
    weft_scope_open();
    weft_array *x = weft_scalar(2.75, WEFT_FLOAT32);
    CHECK(weft_astype(x, WEFT_FLOAT32) == x);
    expect(weft_astype(x, WEFT_INT8), WEFT_INT8, 2);
    expect(weft_astype(weft_scalar(-1e9, WEFT_FLOAT32), WEFT_INT16), WEFT_INT16, -32768);
    expect(weft_astype(weft_scalar((double)NAN, WEFT_FLOAT32), WEFT_UINT8), WEFT_UINT8, 0);
    expect(weft_astype(x, WEFT_BOOL), WEFT_BOOL, 1);
    CHECK(weft_error(weft_astype(x, (weft_dtype)99)) != NULL);
    weft_scope_close(NULL);
}

static void complex_magnitude(void)
{
    weft_scope_open();
    const weft_complex64 z = {3, -4};
    weft_array *x = weft_from_data(&z, WEFT_COMPLEX64, WEFT_SCALAR);
    expect(weft_abs(x), WEFT_FLOAT32, 5);
    expect(weft_abs(weft_multiply(x, x)), WEFT_FLOAT32, 25);
    expect(weft_astype(weft_square(x), WEFT_FLOAT32), WEFT_FLOAT32, -7);
    expect(weft_abs(weft_scale(x, 2)), WEFT_FLOAT32, 10);
    weft_scope_close(NULL);
}

static void classes_without_a_formula_are_errors(void)
{
    weft_scope_open();
    weft_array *f = weft_scalar(1, WEFT_FLOAT32), *b = whole(WEFT_BOOL, 1);
    CHECK_CONTAINS(weft_error(weft_bitwise_and(f, f)), "bitwise_and");
    CHECK_CONTAINS(weft_error(weft_left_shift(f, f)), "left_shift");
    CHECK_CONTAINS(weft_error(weft_subtract(b, b)), "subtract");
    CHECK_CONTAINS(weft_error(weft_erf(weft_scalar(1, WEFT_COMPLEX64))), "erf");
    CHECK_CONTAINS(weft_error(weft_softcap(f, 0)), "softcap");
    const float two[2] = {1, 2}, three[3] = {1, 2, 3};
    CHECK(weft_error(weft_add(floats(2, two), floats(3, three))) != NULL);
    weft_array *failed = weft_error_array("first");
    CHECK_CONTAINS(weft_error(weft_where(failed, f, f)), "first");
    CHECK_CONTAINS(weft_error(weft_swiglu(weft_exp(failed), f)), "first");
    weft_scope_close(NULL);
}

/* ---- Second derivatives --------------------------------------------------------------------- */

typedef struct subject {
    const char *name;
    weft_array *(*one)(weft_array *x);
    weft_array *(*two)(weft_array *a, weft_array *b);
} subject;

static weft_array *cube(weft_array *x)
{
    return weft_power_scalar(x, 3);
}

static weft_array *cap(weft_array *x)
{
    return weft_softcap(x, 2);
}

static const subject subjects[] = {
    {"square", weft_square, NULL},
    {"sqrt", weft_sqrt, NULL},
    {"rsqrt", weft_rsqrt, NULL},
    {"reciprocal", weft_reciprocal, NULL},
    {"exp", weft_exp, NULL},
    {"expm1", weft_expm1, NULL},
    {"log", weft_log, NULL},
    {"log1p", weft_log1p, NULL},
    {"log2", weft_log2, NULL},
    {"sin", weft_sin, NULL},
    {"cos", weft_cos, NULL},
    {"tan", weft_tan, NULL},
    {"tanh", weft_tanh, NULL},
    {"erf", weft_erf, NULL},
    {"erfinv", weft_erfinv, NULL},
    {"sigmoid", weft_sigmoid, NULL},
    {"softplus", weft_softplus, NULL},
    {"silu", weft_silu, NULL},
    {"gelu", weft_gelu, NULL},
    {"gelu_tanh", weft_gelu_tanh, NULL},
    {"cube", cube, NULL},
    {"softcap", cap, NULL},
    {"multiply", NULL, weft_multiply},
    {"divide", NULL, weft_divide},
    {"power", NULL, weft_power},
    {"arctan2", NULL, weft_arctan2},
    {"logaddexp", NULL, weft_logaddexp},
    {"swiglu", NULL, weft_swiglu},
    {"geglu", NULL, weft_geglu},
};

static int value(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const subject *s = context;
    (void)n_in;
    (void)room;
    out[0] = s->one ? s->one(in[0]) : s->two(in[0], in[1]);
    return 1;
}

/* The gradient of the sum of the values with respect to each input. */
static int slope(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)room;
    weft_array *ones = weft_ones_like(in[0]);
    if (weft_vjp(value, context, in, n_in, &ones, NULL, 1, out) != WEFT_OK) {
        for (int i = 0; i < n_in; i++) {
            out[i] = weft_error_array("%s", weft_error_message());
        }
    }
    return n_in;
}

static void second_derivatives(void)
{
    static const double a[4] = {0.31, 0.57, 0.72, 0.85}, b[4] = {0.93, 0.41, 0.64, 0.22};
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        weft_scope_open();
        weft_array *in[2] = {weft_from_data(a, WEFT_FLOAT64, WEFT_DIMS(4)),
                             weft_from_data(b, WEFT_FLOAT64, WEFT_DIMS(4))};
        int n = subjects[i].one ? 1 : 2;
        weft_gradcheck_options options = {.tolerance = 1e-5};
        if (!CHECK_OK(weft_gradcheck(slope, (void *)&subjects[i], in, n, &options))) {
            CHECK_FAIL("the second derivative of %s", subjects[i].name);
        }
        weft_scope_close(NULL);
    }
}

CHECK_MAIN("elementwise_functions", CHECK_CASE(real_functions_take_integers_as_float32),
           CHECK_CASE(whole_functions_keep_integers), CHECK_CASE(shifts_by_the_width_and_more),
           CHECK_CASE(scalars_are_weak), CHECK_CASE(where_broadcasts_and_promotes),
           CHECK_CASE(clip_has_no_bound_where_it_is_null),
           CHECK_CASE(converting_to_the_same_dtype_returns_the_array),
           CHECK_CASE(complex_magnitude), CHECK_CASE(classes_without_a_formula_are_errors),
           CHECK_CASE(second_derivatives))
