/* tests/ops/test_structure.c -- creation, shapes, windows and indexing: values against plain loops,
 * views that must not copy, windows that must be written in place, and messages. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "weft/backend.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static weft_array *ready(weft_array *a)
{
    CHECK_OK(weft_eval(a));
    return a;
}

/* 0, 1, 2, ... */
static weft_array *counted(weft_dims shape, weft_dtype dtype)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++) {
        n *= shape.at[i];
    }
    return ready(weft_reshape(weft_arange(0, (double)n, 1, dtype), shape));
}

/* Compares with n numbers. */
static void expect(weft_array *a, const double *expected, int64_t n)
{
    double *x = malloc(((size_t)n + 1) * sizeof *x);
    if (CHECK_OK(weft_read(a, WEFT_FLOAT64, x, n))) {
        CHECK_BYTES(x, expected, (size_t)n * sizeof *x);
    }
    free(x);
}

#define EXPECT(a, ...)                                                                             \
    expect((a), (const double[]){__VA_ARGS__}, (int64_t)(sizeof((double[]){__VA_ARGS__}) / 8))

static int64_t rows_run(void)
{
    weft_counts c = weft_device_counts(weft_default_device());
    return c.rows + c.expansions + c.elementwise + c.references + c.copies;
}

/* ---- creation ------------------------------------------------------------------------------- */

static void creation(void)
{
    weft_scope_open();
    EXPECT(weft_arange(0.5, 2, 0.5, WEFT_FLOAT32), 0.5, 1, 1.5);
    EXPECT(weft_arange(5, -2, -3, WEFT_INT8), 5, 2, -1);
    CHECK_EQ_INT(weft_size(weft_arange(3, 3, 1, WEFT_INT32)), 0);
    CHECK_EQ_INT(weft_size(weft_arange(3, 0, 1, WEFT_INT32)), 0);
    CHECK_CONTAINS(weft_error(weft_arange(0, 1, 0, WEFT_INT32)), "finite number of elements");
    CHECK_CONTAINS(weft_error(weft_arange(NAN, 1, 1, WEFT_INT32)), "finite number of elements");
    EXPECT(weft_full(WEFT_DIMS(2, 2), -1.5, WEFT_BFLOAT16), -1.5, -1.5, -1.5, -1.5);
    EXPECT(weft_full(WEFT_DIMS(2), 7.9, WEFT_UINT8), 7, 7);
    CHECK_CONTAINS(weft_error(weft_zeros(WEFT_DIMS(2, -1), WEFT_INT8)), "negative dimension");
    weft_array *like = weft_ones_like(weft_zeros(WEFT_DIMS(1, 2), WEFT_FLOAT16));
    CHECK_EQ_INT(weft_dtype_of(like), WEFT_FLOAT16);
    EXPECT(like, 1, 1);
    weft_complex64 z[2];
    weft_array *c = weft_full(WEFT_DIMS(2), 3, WEFT_COMPLEX64);
    CHECK_OK(weft_read(c, WEFT_COMPLEX64, z, 2));
    CHECK_CLOSE(z[1].re, 3, 0);
    CHECK_CLOSE(z[1].im, 0, 0);
    weft_scope_close(NULL);
}

/* ---- shapes --------------------------------------------------------------------------------- */

static void shapes_are_views(void)
{
    weft_scope_open();
    weft_array *x = counted(WEFT_DIMS(2, 3, 4), WEFT_FLOAT32);
    int64_t before = rows_run();
    (void)ready(weft_reshape(x, WEFT_DIMS(6, -1)));
    (void)ready(weft_flatten(weft_swapaxes(x, 0, 2), 2, -1));
    (void)ready(weft_expand_dims(weft_transpose(x, WEFT_DIMS(1, 0, 2)), -1));
    (void)ready(weft_broadcast_to(x, WEFT_DIMS(5, 2, 3, 4)));
    (void)ready(weft_slice(x, WEFT_DIMS(-1), WEFT_DIMS(-1), WEFT_DIMS(INT64_MIN), WEFT_DIMS(-1)));
    (void)ready(weft_contiguous(x));
    (void)ready(weft_stop_gradient(weft_reshape(x, WEFT_DIMS(2, 1, 3, 2, 2))));
    weft_array *part = weft_slice_axis(x, 2, 1, 3); /* its last axis splits and joins */
    (void)ready(weft_reshape(weft_reshape(part, WEFT_DIMS(6, 2)), WEFT_DIMS(3, 2, 2, 1)));
    CHECK_EQ_INT(rows_run() - before, 0);
    (void)ready(weft_reshape(weft_transpose(x, WEFT_DIMS(2, 1, 0)), WEFT_DIMS(24)));
    CHECK_EQ_INT(rows_run() - before, 1);
    weft_scope_close(NULL);
}

static void shapes_have_their_elements(void)
{
    weft_scope_open();
    weft_array *x = counted(WEFT_DIMS(2, 3), WEFT_INT16);
    EXPECT(weft_transpose(x, WEFT_DIMS(-1, 0)), 0, 3, 1, 4, 2, 5);
    EXPECT(weft_reshape(weft_swapaxes(x, 0, 1), WEFT_DIMS(2, 3)), 0, 3, 1, 4, 2, 5);
    EXPECT(weft_broadcast_to(weft_slice_axis(x, 1, 1, 2), WEFT_DIMS(2, 2, 2)), 1, 1, 4, 4, 1, 1, 4,
           4);
    EXPECT(weft_contiguous(weft_swapaxes(x, 0, 1)), 0, 3, 1, 4, 2, 5);
    bool seen = weft_data(x) != NULL; /* not every device's memory is */
    CHECK((weft_data(weft_contiguous(weft_swapaxes(x, 0, 1))) != NULL) == seen);
    CHECK(weft_data(ready(weft_swapaxes(x, 0, 1))) == NULL);
    CHECK_EQ_INT(weft_ndim(weft_squeeze(weft_expand_dims(x, 1), 1)), 2);
    CHECK_EQ_INT(weft_dim(weft_flatten(weft_scalar(1, WEFT_INT8), 0, -1), 0), 1);
    CHECK(weft_reshape(x, WEFT_DIMS(2, 3)) == x);
    CHECK(weft_transpose(x, WEFT_DIMS(0, -1)) == x);
    CHECK(weft_broadcast_to(x, WEFT_DIMS(2, 3)) == x);
    weft_scope_close(NULL);
}

static void errors_about_shapes_say_why(void)
{
    weft_scope_open();
    weft_array *x = counted(WEFT_DIMS(2, 3), WEFT_FLOAT32);
    CHECK_CONTAINS(weft_error(weft_reshape(x, WEFT_DIMS(4, 2))), "(2, 3) has 6 elements, (4, 2)");
    CHECK_CONTAINS(weft_error(weft_reshape(x, WEFT_DIMS(-1, 4))), "6 elements do not fit (-1, 4)");
    CHECK_CONTAINS(weft_error(weft_reshape(x, WEFT_DIMS(-1, -1))), "more than one -1");
    CHECK_CONTAINS(weft_error(weft_transpose(x, WEFT_DIMS(0, 0))), "not an order of the 2 axes");
    CHECK_CONTAINS(weft_error(weft_transpose(x, WEFT_DIMS(0))), "not an order of the 2 axes");
    CHECK_CONTAINS(weft_error(weft_swapaxes(x, 0, 2)), "swapaxes: axis 2 is out of range");
    CHECK_CONTAINS(weft_error(weft_broadcast_to(x, WEFT_DIMS(3, 3))), "(2, 3) does not broadcast");
    CHECK_CONTAINS(weft_error(weft_squeeze(x, 0)), "expected a dimension of 1");
    CHECK_CONTAINS(weft_error(weft_expand_dims(x, 4)), "axis 4 for rank 2");
    CHECK_CONTAINS(weft_error(weft_flatten(x, 1, 0)), "axes 1 to 0 of rank 2");
    weft_array *failed = weft_reshape(x, WEFT_DIMS(5));
    CHECK(weft_sum(weft_take(weft_slice_axis(failed, 0, 0, 1), x, 0), WEFT_ALL_AXES, false) ==
          failed);
    weft_scope_close(NULL);
}

/* ---- slices --------------------------------------------------------------------------------- */

/* Python's slice of 0 .. length - 1. */
static int64_t python_slice(int64_t length, int64_t start, int64_t stop, int64_t step, double *out)
{
    int64_t n = 0, low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
    start = start < 0 ? start + length : start;
    stop = stop < 0 ? stop + length : stop;
    start = start < low ? low : start > high ? high : start;
    stop = stop < low ? low : stop > high ? high : stop;
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
        out[n++] = (double)i;
    }
    return n;
}

static void slices_follow_python(void)
{
    double expected[8];
    weft_scope_open();
    weft_array *x = counted(WEFT_DIMS(7), WEFT_INT32);
    for (int64_t start = -9; start <= 9; start++) {
        for (int64_t stop = -9; stop <= 9; stop++) {
            for (int64_t step = -3; step <= 3; step++) {
                if (step != 0) {
                    int64_t n = python_slice(7, start, stop, step, expected);
                    expect(weft_slice(x, WEFT_DIMS(0), WEFT_DIMS(start), WEFT_DIMS(stop),
                                      WEFT_DIMS(step)),
                           expected, n);
                }
            }
        }
    }
    weft_array *m = counted(WEFT_DIMS(3, 4), WEFT_INT32);
    EXPECT(weft_slice(m, WEFT_DIMS(1, 0), WEFT_DIMS(3, 1), WEFT_DIMS(0, 3), WEFT_DIMS(-2, 1)), 7, 5,
           11, 9);
    CHECK_CONTAINS(
        weft_error(weft_slice(m, WEFT_DIMS(0), WEFT_DIMS(0), WEFT_DIMS(1), WEFT_DIMS(0))),
        "a step of 0 on axis 0");
    CHECK_CONTAINS(weft_error(weft_slice_axis(m, 2, 0, 1)), "axis 2 is out of range");
    weft_scope_close(NULL);
}

static void windows(void)
{
    int32_t far[] = {9, -4}, place[] = {1, 2};
    weft_scope_open();
    weft_array *x = counted(WEFT_DIMS(3, 4), WEFT_FLOAT32);
    weft_array *start = weft_from_data(place, WEFT_INT32, WEFT_DIMS(2));
    weft_array *clipped = weft_from_data(far, WEFT_INT32, WEFT_DIMS(2));
    EXPECT(weft_dynamic_slice(x, start, WEFT_DIMS(0, 1), WEFT_DIMS(2, 2)), 6, 7, 10, 11);
    EXPECT(weft_dynamic_slice(x, start, WEFT_DIMS(1, 0), WEFT_DIMS(2, 1)), 9, 10);
    EXPECT(weft_dynamic_slice(x, clipped, WEFT_DIMS(0, 1), WEFT_DIMS(2, 1)), 4, 8);
    weft_array *patch = weft_full(WEFT_DIMS(1, 3), -1, WEFT_INT32);
    EXPECT(weft_slice_update(x, patch, start, WEFT_DIMS(0, 1)), 0, 1, 2, 3, 4, -1, -1, -1, 8, 9, 10,
           11);
    EXPECT(x, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11); /* still held: not written */
    weft_array *two = weft_scalar_int(2, WEFT_INT64);
    EXPECT(weft_slice_update(x, weft_zeros(WEFT_DIMS(3, 1), WEFT_FLOAT32), two, WEFT_DIMS(-1)), 0,
           1, 0, 3, 4, 5, 0, 7, 8, 9, 0, 11);
    CHECK_CONTAINS(weft_error(weft_dynamic_slice(x, two, WEFT_DIMS(0), WEFT_DIMS(4))),
                   "a window of 4 on an axis of size 3");
    CHECK_CONTAINS(weft_error(weft_slice_update(x, weft_zeros(WEFT_DIMS(3, 3), WEFT_FLOAT32), two,
                                                WEFT_DIMS(0))),
                   "an update of (3, 3) for a window of (3, 4)");
    CHECK_CONTAINS(weft_error(weft_dynamic_slice(x, start, WEFT_DIMS(0), WEFT_DIMS(1))),
                   "start: expected 1 integers");
    weft_scope_close(NULL);
}

static void windows_are_written_in_place(void)
{
    weft_array *cache = NULL;
    weft_array **slots[] = {&cache};
    weft_scope_open();
    CHECK_OK(weft_set(&cache, ready(weft_zeros(WEFT_DIMS(2, 64, 8), WEFT_FLOAT32))));
    weft_scope_close(NULL);
    const void *memory = weft_data(cache);
    for (int64_t step = 0; step < 64; step++) {
        weft_scope_open();
        weft_array *rows = weft_full(WEFT_DIMS(2, 1, 8), (double)step, WEFT_FLOAT32);
        weft_array *next =
            weft_slice_update(cache, rows, weft_scalar_int(step, WEFT_INT32), WEFT_DIMS(1));
        CHECK_OK(weft_update(slots, &next, 1));
        weft_scope_close(NULL);
    }
    const float *x = weft_data(cache);
    CHECK(x == memory);
    for (int64_t i = 0; x && i < 2 * 64 * 8; i++) {
        if (!CHECK(x[i] == (float)(i / 8 % 64))) {
            break;
        }
    }
    weft_scope_open();
    (void)weft_set(&cache, NULL);
    weft_scope_close(NULL);
}

/* ---- joining -------------------------------------------------------------------------------- */

static void joining(void)
{
    weft_scope_open();
    weft_array *a = counted(WEFT_DIMS(2, 2), WEFT_INT32),
               *b = weft_ones(WEFT_DIMS(2, 1), WEFT_INT8);
    weft_array *pair[] = {a, b}, *wide[20];
    weft_array *joined = weft_concatenate(pair, 2, -1);
    CHECK_EQ_INT(weft_dtype_of(joined), WEFT_INT32);
    EXPECT(joined, 0, 1, 1, 2, 3, 1);
    pair[1] = ready(weft_swapaxes(a, 0, 1));
    EXPECT(weft_stack(pair, 2, 1), 0, 1, 0, 2, 2, 3, 1, 3);
    EXPECT(weft_stack(pair, 2, -1), 0, 0, 1, 2, 2, 1, 3, 3);
    for (int i = 0; i < 20; i++) {
        wide[i] = weft_scalar(i, WEFT_FLOAT32);
    }
    CHECK_CLOSE(weft_item(weft_sum(weft_stack(wide, 20, 0), WEFT_ALL_AXES, false)), 190, 0);
    EXPECT(weft_pad(a, 0, 1, 0, 5), 5, 5, 0, 1, 2, 3);
    EXPECT(weft_pad(weft_swapaxes(a, 0, 1), -1, 0, 2, -1), 0, 2, -1, -1, 1, 3, -1, -1);
    CHECK_CONTAINS(weft_error(weft_pad(a, 0, -1, 0, 0)), "sizes of 0 or more");
    pair[1] = weft_zeros(WEFT_DIMS(3, 3), WEFT_INT32);
    CHECK_CONTAINS(weft_error(weft_concatenate(pair, 2, 0)),
                   "input 1 is int32 (3, 3), input 0 is int32 (2, 2)");
    CHECK_CONTAINS(weft_error(weft_stack(pair, 2, 0)), "input 1 is (3, 3), input 0 is (2, 2)");
    CHECK_CONTAINS(weft_error(weft_concatenate(pair, 0, 0)), "no arrays");
    weft_scope_close(NULL);
}

/* ---- indexing ------------------------------------------------------------------------------- */

static weft_array *ids_of(const int64_t *ids, int64_t n, weft_dtype dtype)
{
    return weft_astype(weft_from_data(ids, WEFT_INT64, WEFT_DIMS(n)), dtype);
}

static void taking(void)
{
    static const int64_t ids[] = {2, 0, 2}, back[] = {-1, -3};
    weft_scope_open();
    weft_array *x = counted(WEFT_DIMS(3, 2), WEFT_BFLOAT16);
    for (int d = WEFT_UINT8; d <= WEFT_INT64; d++) {
        EXPECT(weft_take(x, ids_of(ids, 3, (weft_dtype)d), 0), 4, 5, 0, 1, 4, 5);
    }
    weft_array *rows = weft_embedding(x, weft_reshape(ids_of(back, 2, WEFT_INT8), WEFT_DIMS(2, 1)));
    CHECK_EQ_INT(weft_ndim(rows), 3);
    CHECK_EQ_INT(weft_dtype_of(rows), WEFT_BFLOAT16);
    EXPECT(rows, 4, 5, 0, 1);
    EXPECT(weft_take(x, weft_scalar_int(1, WEFT_INT32), 1), 1, 3, 5);
    EXPECT(weft_take_along_axis(
               x, weft_from_data((const int64_t[]){1, 0, -1, 1, 0, 0}, WEFT_INT64, WEFT_DIMS(3, 2)),
               1),
           1, 0, 3, 3, 4, 4);
    CHECK_CONTAINS(weft_error(weft_take(x, x, 0)), "indices: expected integers, got bfloat16");
    CHECK_CONTAINS(weft_error(weft_embedding(weft_ones(WEFT_DIMS(2), WEFT_FLOAT32), x)),
                   "expected a table (V, E), got (2,)");
    CHECK_CONTAINS(weft_error(weft_take_along_axis(x, ids_of(ids, 3, WEFT_INT32), 0)),
                   "indices of (3,) for (3, 2)");
    weft_scope_close(NULL);
}

static void indices_out_of_range_fail_by_name(void)
{
    static const int64_t over[] = {0, 3}, under[] = {-4, 0};
    weft_scope_open();
    weft_array *x = counted(WEFT_DIMS(3, 2), WEFT_FLOAT32);
    CHECK_STATUS(weft_eval(weft_take(x, ids_of(over, 2, WEFT_INT32), 0)), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "take: index 3 is out of range for an axis of size 3");
    CHECK_STATUS(weft_eval(weft_take(x, ids_of(under, 2, WEFT_INT64), 0)), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "take: index -4 is out of range for an axis of size 3");
    weft_array *along = weft_reshape(ids_of(over, 2, WEFT_UINT8), WEFT_DIMS(1, 2));
    weft_array *added =
        weft_scatter_add_along_axis(x, along, weft_ones(WEFT_DIMS(1, 2), WEFT_FLOAT32), 0);
    CHECK_STATUS(weft_eval(added), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "scatter_add_along_axis: index 3");
    weft_scope_close(NULL);
}

static weft_array *weighted_rows(void *context, weft_array *const *in, int n)
{
    (void)n;
    weft_array *rows = weft_embedding(in[0], context);
    return weft_sum(weft_astype(rows, WEFT_FLOAT32), WEFT_ALL_AXES, false);
}

/* 1000 ones in the same row: bfloat16 itself could not count beyond 256. */
static void embedding_gradients_add_up_in_more_bits(void)
{
    weft_scope_open();
    weft_array *table = ready(weft_zeros(WEFT_DIMS(4, 700), WEFT_BFLOAT16)), *grad = NULL;
    weft_array *ids = ready(weft_full(WEFT_DIMS(1000), 2, WEFT_INT32));
    CHECK_OK(weft_eval(weft_value_and_grad(weighted_rows, ids, &table, 1, &grad)));
    CHECK_EQ_INT(weft_dtype_of(grad), WEFT_BFLOAT16);
    float *g = malloc(4 * 700 * sizeof *g);
    if (CHECK(g) && CHECK_OK(weft_read(grad, WEFT_FLOAT32, g, 4 * 700))) {
        for (int i = 0; i < 4 * 700; i++) {
            if (!CHECK_CLOSE(g[i], i / 700 == 2 ? 1000 : 0, 0)) {
                break;
            }
        }
    }
    free(g);
    weft_scope_close(NULL);
}

/* Many rows added at few indices, against a loop in index order. */
static void scattered_values_add_up(void)
{
    enum { PLACES = 7, ROWS = 500, WIDTH = 600 };
    static double expected[PLACES * WIDTH];
    static float values[ROWS * WIDTH], sums[PLACES * WIDTH];
    static int32_t places[ROWS * WIDTH];
    weft_scope_open();
    memset(expected, 0, sizeof expected);
    for (int i = 0; i < ROWS * WIDTH; i++) {
        values[i] = (float)((i * 37 % 1001) - 500) / 64;
        places[i] = (i * 11 + i / 7) % PLACES;
        expected[places[i] * WIDTH + i % WIDTH] += (double)values[i];
    }
    weft_array *added = weft_scatter_add_along_axis(
        weft_zeros(WEFT_DIMS(PLACES, WIDTH), WEFT_FLOAT32),
        weft_from_data(places, WEFT_INT32, WEFT_DIMS(ROWS, WIDTH)),
        weft_from_data(values, WEFT_FLOAT32, WEFT_DIMS(ROWS, WIDTH)), 0);
    CHECK_OK(weft_read(added, WEFT_FLOAT32, sums, PLACES * WIDTH));
    for (int i = 0; i < PLACES * WIDTH; i++) {
        if (!CHECK_CLOSE(sums[i], expected[i], 1e-4)) {
            break;
        }
    }
    weft_scope_close(NULL);
}

/* ---- gradients ------------------------------------------------------------------------------ */

/* Every structural function once, strided inputs included. */
static int chain(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    static const int64_t ids[] = {2, 0, 2, 1, -1};
    (void)context, (void)n_in, (void)room;
    weft_array *x = weft_transpose(in[0], WEFT_DIMS(1, 0, 2)); /* (3, 2, 4) */
    weft_array *rows = weft_take(x, weft_from_data(ids, WEFT_INT64, WEFT_DIMS(5)), 0);
    weft_array *back = weft_slice(rows, WEFT_DIMS(0, 2), WEFT_DIMS(4, 3), WEFT_DIMS(INT64_MIN, 0),
                                  WEFT_DIMS(-2, -1)); /* (3, 2, 3) */
    weft_array *parts[] = {back, weft_pad(weft_slice_axis(x, 2, 0, 2), 2, 1, 0, 9)};
    weft_array *joined = weft_concatenate(parts, 2, 1); /* (3, 4, 3) */
    weft_array *start = weft_scalar_int(1, WEFT_INT32);
    weft_array *patched =
        weft_slice_update(joined, in[1], start, WEFT_DIMS(1)); /* in[1] (3, 2, 3) */
    weft_array *window = weft_dynamic_slice(patched, start, WEFT_DIMS(1), WEFT_DIMS(3));
    weft_array *order = weft_argsort(weft_stop_gradient(window), 1);
    weft_array *along = weft_take_along_axis(window, order, 1);
    weft_array *spread = weft_broadcast_to(weft_expand_dims(along, 0), WEFT_DIMS(2, 3, 3, 3));
    weft_array *flat = weft_contiguous(weft_flatten(weft_swapaxes(spread, 1, 3), 1, 2));
    out[0] = weft_multiply(flat, flat);
    return 1;
}

static void gradients_of_a_chain(void)
{
    double a[24], b[18];
    for (int i = 0; i < 24; i++) {
        a[i] = sin(i);
        b[i % 18] = cos(3 * i);
    }
    weft_scope_open();
    weft_array *in[] = {weft_from_data(a, WEFT_FLOAT64, WEFT_DIMS(2, 3, 4)),
                        weft_from_data(b, WEFT_FLOAT64, WEFT_DIMS(3, 2, 3))};
    CHECK_OK(weft_gradcheck(chain, NULL, in, 2, NULL));
    weft_scope_close(NULL);
}

/* 2^40 columns without rows: computing the index of each column would take hours. */
static void padding_from_inside_needs_no_indices_without_elements(void)
{
    static const weft_pad_mode modes[] = {WEFT_PAD_EDGE, WEFT_PAD_REFLECT, WEFT_PAD_SYMMETRIC,
                                          WEFT_PAD_WRAP};
    const int64_t many = INT64_C(1) << 40;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        weft_scope_open();
        weft_array *x = weft_zeros(WEFT_DIMS(0, 3), WEFT_FLOAT32);
        weft_array *y = weft_pad_axes(x, WEFT_DIMS(1), WEFT_DIMS(many), WEFT_DIMS(2), modes[i], 0);
        CHECK_OK(weft_eval(y));
        CHECK_EQ_INT(weft_ndim(y), 2);
        CHECK_EQ_INT(weft_dim(y, 0), 0);
        CHECK_EQ_INT(weft_dim(y, 1), many + 5);
        weft_scope_close(NULL);
    }
}

CHECK_MAIN("structure", CHECK_CASE(padding_from_inside_needs_no_indices_without_elements),
           CHECK_CASE(creation), CHECK_CASE(shapes_are_views),
           CHECK_CASE(shapes_have_their_elements), CHECK_CASE(errors_about_shapes_say_why),
           CHECK_CASE(slices_follow_python), CHECK_CASE(windows),
           CHECK_CASE(windows_are_written_in_place), CHECK_CASE(joining), CHECK_CASE(taking),
           CHECK_CASE(indices_out_of_range_fail_by_name),
           CHECK_CASE(embedding_gradients_add_up_in_more_bits), CHECK_CASE(scattered_values_add_up),
           CHECK_CASE(gradients_of_a_chain))
