/* tests/ops/test_creation.c -- sequences, matrices, grids; dtype queries; rounding, comparing and
 * scalars as in NumPy. */
#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static void expect(weft_array *a, int n, const double *want)
{
    double got[64];
    if (CHECK_OK(weft_read(a, WEFT_FLOAT64, got, n))) {
        for (int i = 0; i < n; i++) {
            bool same = got[i] == want[i] || (isnan(got[i]) && isnan(want[i]));
            if (!same) {
                CHECK_FAIL("element %d: expected %.17g, got %.17g", i, want[i], got[i]);
            }
        }
    }
}

#define EXPECT(array, ...)                                                                         \
    expect(array, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

static weft_array *doubles(int n, const double *x)
{
    return weft_from_data(x, WEFT_FLOAT64, (weft_dims){1, {n}});
}

#define DOUBLES(...)                                                                               \
    doubles((int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

static void sequences(void)
{
    weft_scope_open();
    EXPECT(weft_arange_int(7, -3, -4, WEFT_INT32), 7, 3, -1);
    CHECK_EQ_INT(weft_size(weft_arange_int(3, 3, 1, WEFT_INT32)), 0);
    CHECK_EQ_INT(weft_size(weft_arange_int(3, 9, -1, WEFT_INT32)), 0);
    CHECK(weft_error(weft_arange_int(0, 1, 0, WEFT_INT32)) != NULL);
    int64_t far[4];
    weft_array *top = weft_arange_int(INT64_MAX - 7, INT64_MAX, 2, WEFT_INT64);
    CHECK_OK(weft_read(top, WEFT_INT64, far, 4));
    CHECK(far[0] == INT64_MAX - 7 && far[3] == INT64_MAX - 1);
    int64_t ends[3];
    weft_array *all = weft_arange_int(INT64_MIN, INT64_MAX, INT64_MAX, WEFT_INT64);
    CHECK_OK(weft_read(all, WEFT_INT64, ends, 3));
    CHECK(ends[0] == INT64_MIN && ends[1] == -1 && ends[2] == INT64_MAX - 1);
    EXPECT(weft_linspace(0, 10, 5, true, WEFT_INT32), 0, 2, 5, 7, 10);
    EXPECT(weft_linspace(2, 3, 1, true, WEFT_FLOAT32), 2);
    CHECK_EQ_INT(weft_size(weft_linspace(2, 3, 0, true, WEFT_FLOAT32)), 0);
    CHECK_CONTAINS(weft_error(weft_linspace(2, 3, -1, true, WEFT_FLOAT32)), "linspace");
    weft_scope_close(NULL);
}

/* Long ones, whose parts are made by several workers, in every dtype. */
static void long_sequences(void)
{
    enum { N = 70001 };
    static double got[N];
    weft_scope_open();
    for (int d = WEFT_UINT8; d <= WEFT_COMPLEX64; d++) {
        weft_array *a = weft_arange(3, 3 + 2.0 * (double)N, 2, (weft_dtype)d);
        CHECK_OK(weft_read(a, WEFT_FLOAT64, got, N));
        int wrong = 0;
        for (int i = 0; i < N; i++) {
            double want = 3 + 2.0 * i;
            wrong += weft_dtype_size((weft_dtype)d) >= 4 && got[i] != want;
        }
        CHECK_EQ_INT(wrong, 0);
    }
    weft_scope_close(NULL);
}

/* Beyond 2^53, where doubles skip integers, whichever end of the sequence lies there. */
static void integers_beyond_doubles_are_exact(void)
{
    const int64_t middle = INT64_C(1) << 53;
    const int64_t ends[][3] = {{middle + 3, middle - 4, -1},
                               {middle - 4, middle + 3, 1},
                               {-middle - 3, -middle + 4, 1},
                               {-middle + 4, -middle - 3, -1},
                               {middle + 1, middle + 8, 1}};
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        int64_t got[7];
        weft_scope_open();
        weft_array *a = weft_arange_int(ends[e][0], ends[e][1], ends[e][2], WEFT_INT64);
        if (CHECK_OK(weft_read(a, WEFT_INT64, got, 7))) {
            for (int i = 0; i < 7; i++) {
                CHECK_EQ_INT(got[i], ends[e][0] + i * ends[e][2]);
            }
        }
        weft_scope_close(NULL);
    }
}

static void matrices(void)
{
    weft_scope_open();
    EXPECT(weft_eye(2, 3, 1, WEFT_FLOAT32), 0, 1, 0, 0, 0, 1);
    EXPECT(weft_identity(2, WEFT_INT8), 1, 0, 0, 1);
    EXPECT(weft_tri(2, 3, 0, WEFT_FLOAT32), 1, 0, 0, 1, 1, 0);
    CHECK_EQ_INT(weft_size(weft_eye(0, 3, 0, WEFT_FLOAT32)), 0);
    CHECK_CONTAINS(weft_error(weft_eye(-1, 3, 0, WEFT_FLOAT32)), "eye");
    weft_array *x = weft_reshape(weft_arange(1, 7, 1, WEFT_FLOAT32), WEFT_DIMS(2, 3));
    CHECK_OK(weft_eval(x)); /* named: it stays readable */
    EXPECT(weft_tril(x, 0), 1, 0, 0, 4, 5, 0);
    EXPECT(weft_triu(x, 1), 0, 2, 3, 0, 0, 6);
    EXPECT(weft_triu(x, -1), 1, 2, 3, 4, 5, 6);
    EXPECT(weft_diagonal(x, 0, 0, 1), 1, 5);
    EXPECT(weft_diagonal(x, 1, 0, 1), 2, 6);
    EXPECT(weft_diagonal(x, -1, 0, 1), 4);
    EXPECT(weft_diagonal(x, 1, 1, 0), 4);
    CHECK_EQ_INT(weft_size(weft_diagonal(x, 5, 0, 1)), 0);
    CHECK_CONTAINS(weft_error(weft_diagonal(x, 0, 0, 0)), "diagonal");
    weft_array *v = DOUBLES(1, 2);
    EXPECT(weft_diag(v, 0), 1, 0, 0, 2);
    EXPECT(weft_diag(v, 1), 0, 1, 0, 0, 0, 2, 0, 0, 0);
    EXPECT(weft_diag(v, -1), 0, 0, 0, 1, 0, 0, 0, 2, 0);
    EXPECT(weft_diag(weft_diag(v, 2), 2), 1, 2);
    weft_array *in[2] = {v, DOUBLES(5, 6, 7)}, *out[2];
    weft_meshgrid(in, 2, false, false, out);
    EXPECT(out[0], 1, 2, 1, 2, 1, 2);
    EXPECT(out[1], 5, 5, 6, 6, 7, 7);
    weft_meshgrid(in, 2, false, true, out);
    EXPECT(out[0], 1, 1, 1, 2, 2, 2);
    weft_meshgrid(in, 2, true, true, out);
    CHECK(weft_size(out[0]) == 2 && weft_dim(out[1], 0) == 1);
    EXPECT(weft_full_array(WEFT_DIMS(2, 2), v, WEFT_INT32), 1, 2, 1, 2);
    EXPECT(weft_full_like(v, 7), 7, 7);
    weft_scope_close(NULL);
}

static int call_diag(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context;
    (void)n_in;
    (void)room;
    out[0] = weft_diag(weft_square(weft_diagonal(weft_tril(in[0], 0), -1, 0, 1)), 1);
    return 1;
}

static void gradients_through_diagonals(void)
{
    weft_scope_open();
    weft_array *x = weft_reshape(weft_linspace(-1, 1, 12, true, WEFT_FLOAT64), WEFT_DIMS(4, 3));
    weft_gradcheck_options options = {.tolerance = 1e-6, .seed = 3};
    CHECK_OK(weft_gradcheck(call_diag, NULL, &x, 1, &options));
    weft_scope_close(NULL);
}

static void rounding_and_comparing(void)
{
    weft_scope_open();
    EXPECT(weft_round_decimals(DOUBLES(1.25, -2.345, 7), 1), 1.2, -2.3, 7);
    EXPECT(weft_round_decimals(DOUBLES(1250, -51, 49), -2), 1200, -100, 0);
    const int8_t bytes[5] = {15, 25, -15, 127, -128};
    weft_array *x = weft_from_data(bytes, WEFT_INT8, WEFT_DIMS(5));
    EXPECT(weft_round_decimals(x, -1), 20, 20, -20, -126, 126); /* 130 and -130 wrap */
    EXPECT(weft_round_decimals(x, 2), 15, 25, -15, 127, -128);
    EXPECT(weft_round_decimals(x, -3), 0, 0, 0, 0, 0);
    weft_array *q, *r;
    weft_divmod(DOUBLES(7, -7, 7), DOUBLES(2, 2, -2), &q, &r);
    EXPECT(q, 3, -4, -4);
    EXPECT(r, 1, 1, -1);
    weft_array *a = DOUBLES(1, INFINITY, NAN, 1, 1),
               *b = DOUBLES(1 + 1e-6, INFINITY, NAN, 2, INFINITY);
    EXPECT(weft_isclose(a, b, 1e-5, 1e-8, false), 1, 1, 0, 0, 0);
    EXPECT(weft_isclose(a, b, 1e-5, 1e-8, true), 1, 1, 1, 0, 0);
    weft_array *odd = DOUBLES(NAN, INFINITY, -INFINITY, 3);
    EXPECT(weft_nan_to_num(odd, NULL), 0, 0x1.fffffffffffffp1023, -0x1.fffffffffffffp1023, 3);
    const double five = 5;
    EXPECT(weft_nan_to_num(odd, &(weft_nan_to_num_options){.nan = 2, .posinf = &five}), 2, 5,
           -0x1.fffffffffffffp1023, 3);
    EXPECT(weft_isposinf(odd), 0, 1, 0, 0);
    EXPECT(weft_isneginf(odd), 0, 0, 1, 0);
    EXPECT(weft_logical_xor(DOUBLES(0, 1, 2, NAN), DOUBLES(0, 0, 3, 0)), 0, 1, 0, 1);
    weft_scope_close(NULL);
}

static void scalars(void)
{
    weft_scope_open();
    weft_array *x = weft_arange(-1, 3, 1, WEFT_INT32);
    CHECK_OK(weft_eval(x)); /* named: it stays readable */
    EXPECT(weft_scalar_subtract(1, x), 2, 1, 0, -1);
    EXPECT(weft_scalar_divide(1, weft_astype(x, WEFT_FLOAT32)), -1, INFINITY, 1, 0.5);
    EXPECT(weft_divide_scalar(x, 2), -0.5, 0, 0.5, 1);
    CHECK_EQ_INT(weft_dtype_of(weft_maximum_scalar(x, 1)), WEFT_INT32);
    CHECK_EQ_INT(weft_dtype_of(weft_maximum_scalar(x, 0.5)), WEFT_FLOAT32);
    EXPECT(weft_maximum_scalar(x, 1), 1, 1, 1, 2);
    EXPECT(weft_minimum_scalar(x, 1), -1, 0, 1, 1);
    EXPECT(weft_clip_scalar(x, 0, 1), 0, 0, 1, 1);
    EXPECT(weft_clip_scalar(x, -INFINITY, 1), -1, 0, 1, 1);
    EXPECT(weft_remainder_scalar(x, 2), 1, 0, 1, 0);
    EXPECT(weft_floor_divide_scalar(x, 2), -1, 0, 0, 1);
    EXPECT(weft_equal_scalar(x, 1), 0, 0, 1, 0);
    EXPECT(weft_not_equal_scalar(x, 1), 1, 1, 0, 1);
    EXPECT(weft_less_scalar(x, 0.5), 1, 1, 0, 0);
    EXPECT(weft_less_equal_scalar(x, 1), 1, 1, 1, 0);
    EXPECT(weft_greater_scalar(x, 1), 0, 0, 0, 1);
    EXPECT(weft_greater_equal_scalar(x, 1), 0, 0, 1, 1);
    EXPECT(weft_where_scalar(weft_less_scalar(x, 0), x, 9), -1, 9, 9, 9);
    EXPECT(weft_positive(x), -1, 0, 1, 2);
    weft_scope_close(NULL);
}

static void limits_and_kinds(void)
{
    weft_finfo f;
    CHECK(weft_finfo_of(WEFT_FLOAT16, &f) && f.max == 65504 && f.eps == 0x1p-10 && f.bits == 16);
    CHECK(f.smallest_normal == 0x1p-14 && f.smallest_subnormal == 0x1p-24);
    CHECK(weft_finfo_of(WEFT_BFLOAT16, &f) && f.max == 0x1.fep127 && f.eps == 0x1p-7);
    CHECK(weft_finfo_of(WEFT_COMPLEX64, &f) && f.min == -0x1.fffffep127 && f.eps == 0x1p-23);
    CHECK(weft_finfo_of(WEFT_FLOAT64, &f) && f.max == 0x1.fffffffffffffp1023);
    CHECK(f.smallest_subnormal == 0x1p-1074 && !weft_finfo_of(WEFT_INT8, &f));
    weft_iinfo i;
    CHECK(weft_iinfo_of(WEFT_INT8, &i) && i.min == -128 && i.max == 127 && i.bits == 8);
    CHECK(weft_iinfo_of(WEFT_UINT64, &i) && i.min == 0 && i.max == UINT64_MAX);
    CHECK(weft_iinfo_of(WEFT_INT64, &i) && i.min == INT64_MIN && i.max == INT64_MAX);
    CHECK(!weft_iinfo_of(WEFT_BOOL, &i) && !weft_iinfo_of(WEFT_FLOAT32, &i));
    CHECK(weft_can_cast(WEFT_INT8, WEFT_INT32) && !weft_can_cast(WEFT_INT32, WEFT_INT8));
    CHECK(weft_can_cast(WEFT_BOOL, WEFT_UINT8) && !weft_can_cast(WEFT_COMPLEX64, WEFT_FLOAT64));
    CHECK(weft_is_dtype(WEFT_BOOL, WEFT_KIND_GENERIC) &&
          !weft_is_dtype(WEFT_BOOL, WEFT_KIND_NUMBER));
    CHECK(weft_is_dtype(WEFT_UINT8, WEFT_KIND_UNSIGNED_INTEGER));
    CHECK(!weft_is_dtype(WEFT_UINT8, WEFT_KIND_SIGNED_INTEGER));
    CHECK(weft_is_dtype(WEFT_INT8, WEFT_KIND_SIGNED_INTEGER));
    CHECK(weft_is_dtype(WEFT_INT8, WEFT_KIND_INTEGER));
    CHECK(weft_is_dtype(WEFT_BFLOAT16, WEFT_KIND_FLOATING));
    CHECK(weft_is_dtype(WEFT_BFLOAT16, WEFT_KIND_INEXACT));
    CHECK(weft_is_dtype(WEFT_COMPLEX64, WEFT_KIND_COMPLEX));
    CHECK(!weft_is_dtype(WEFT_COMPLEX64, WEFT_KIND_FLOATING));
    weft_scope_open();
    weft_array *arrays[3] = {weft_scalar(1, WEFT_UINT8), weft_scalar(1, WEFT_INT8),
                             weft_scalar(1, WEFT_FLOAT16)};
    CHECK_EQ_INT(weft_result_type(arrays, 2), WEFT_INT16);
    CHECK_EQ_INT(weft_result_type(arrays, 3), WEFT_FLOAT16);
    weft_scope_close(NULL);
    weft_dims shapes[3] = {{2, {3, 1}}, {1, {4}}, {0, {0}}}, all;
    CHECK(weft_broadcast_shapes(shapes, 3, &all) && all.n == 2 && all.at[0] == 3 && all.at[1] == 4);
    shapes[2] = (weft_dims){1, {5}};
    CHECK(!weft_broadcast_shapes(shapes, 3, &all));
}

/* As in NumPy and MLX: a step beyond the interval leaves its start; no step reaches infinity. */
static void steps_beyond_the_interval(void)
{
    weft_scope_open();
    weft_array *one = weft_arange(0, 10, INFINITY, WEFT_FLOAT32);
    CHECK_EQ_INT(weft_size(one), 1);
    CHECK_CLOSE(weft_item(one), 0, 0);
    CHECK_CLOSE(weft_item(weft_arange(3, 1, -INFINITY, WEFT_FLOAT32)), 3, 0);
    CHECK_CLOSE(weft_item(weft_arange(0, 1e-300, 1e300, WEFT_FLOAT64)), 0, 0);
    CHECK_EQ_INT(weft_size(weft_arange(0, 10, -INFINITY, WEFT_FLOAT32)), 0);
    CHECK_EQ_INT(weft_size(weft_arange(10, 0, 1, WEFT_FLOAT32)), 0);
    const double bad[][3] = {{0, INFINITY, 1}, {0, 1, 0},   {NAN, 1, 1},
                             {0, 1, NAN},      {0, NAN, 1}, {0, 1, 1e-300}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_CONTAINS(weft_error(weft_arange(bad[i][0], bad[i][1], bad[i][2], WEFT_FLOAT32)),
                       "a finite number of elements");
    }
    weft_scope_close(NULL);
}

static bool equal(const weft_complex64 *a, const weft_complex64 *b, bool equal_nan)
{
    weft_dims two = {1, {2}};
    weft_array *x = weft_from_data(a, WEFT_COMPLEX64, two);
    weft_array *y = weft_from_data(b, WEFT_COMPLEX64, two);
    return weft_item(weft_array_equal(x, y, equal_nan)) != 0;
}

/* A complex number is NaN if one of its parts is. */
static void complex_nan_equals_nan_where_asked(void)
{
    const weft_complex64 a[] = {{NAN, 1}, {2, 3}}, b[] = {{0, NAN}, {2, 3}},
                         c[] = {{NAN, 1}, {2, 4}};
    weft_scope_open();
    CHECK(equal(a, a, true) && equal(a, b, true) && !equal(a, c, true));
    CHECK(!equal(a, a, false));
    weft_array *x = weft_from_data(a, WEFT_COMPLEX64, (weft_dims){1, {2}});
    CHECK(weft_item(weft_allclose(x, x, 1e-5, 1e-8, true)) == 1);
    weft_array *whole = weft_arange(0, 3, 1, WEFT_INT32);
    CHECK(weft_item(weft_array_equal(whole, whole, true)) == 1);
    weft_scope_close(NULL);
}

CHECK_MAIN("creation", CHECK_CASE(steps_beyond_the_interval),
           CHECK_CASE(complex_nan_equals_nan_where_asked), CHECK_CASE(sequences),
           CHECK_CASE(long_sequences), CHECK_CASE(integers_beyond_doubles_are_exact),
           CHECK_CASE(matrices), CHECK_CASE(gradients_through_diagonals),
           CHECK_CASE(rounding_and_comparing), CHECK_CASE(scalars), CHECK_CASE(limits_and_kinds))
