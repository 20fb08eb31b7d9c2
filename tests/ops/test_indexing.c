/* tests/ops/test_indexing.c -- indexing: values against NumPy's (tests/golden/ops/gather.py),
 * gradients where indices repeat and factors are zero, batches of indices, indices out of range. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/backend.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static weft_array *x, *i, *j, *k; /* of every case; loaded by load() */

static bool load(void)
{
    static const struct {
        weft_array **slot;
        const char *name;
    } inputs[] = {{&x, "x"}, {&i, "i"}, {&j, "j"}, {&k, "k"}};
    bool opened = golden_open("ops/gather");
    for (int n = 0; opened && n < 4; n++) {
        *inputs[n].slot = golden_get(inputs[n].name);
        opened = CHECK_OK(weft_eval(*inputs[n].slot));
    }
    return opened;
}

/* Equal, or within two roundings of float32 where numbers are added or multiplied. */
static void expect(const char *name, int at, weft_array *actual, double tolerance)
{
    char tensor[80];
    snprintf(tensor, sizeof tensor, "%s/out%d", name, at);
    golden_check(actual, tensor, tolerance);
}

static weft_array *given(int number)
{
    char tensor[16];
    snprintf(tensor, sizeof tensor, "v%d", number);
    return golden_get(tensor);
}

#define ALL weft_every()
#define AT weft_at
#define TO weft_from_to
#define BY weft_from_to_by
#define NEW weft_newaxis()
#define DOTS weft_ellipsis()
#define OF weft_indices

static void expressions_read_as_numpys(void)
{
    weft_scope_open();
    if (load()) {
        weft_array *none = weft_slice_axis(i, 1, 0, 0);
        weft_array *y[] = {
            WEFT_INDEX(x, AT(1)),
            WEFT_INDEX(x, ALL, AT(-1)),
            WEFT_INDEX(x, TO(1, 3), BY(INT64_MAX, INT64_MIN, -2)),
            WEFT_INDEX(x, DOTS, AT(2)),
            WEFT_INDEX(x, NEW, ALL, AT(0), NEW),
            WEFT_INDEX(x, OF(i)),
            WEFT_INDEX(x, ALL, OF(j)),
            WEFT_INDEX(x, DOTS, OF(k)),
            WEFT_INDEX(x, OF(i), OF(j)),
            WEFT_INDEX(x, OF(i), ALL, OF(k)),
            WEFT_INDEX(x, ALL, OF(j), OF(k)),
            WEFT_INDEX(x, OF(i), OF(j), OF(k)),
            WEFT_INDEX(x, AT(0), OF(j)),
            WEFT_INDEX(x, AT(0), ALL, OF(j)),
            WEFT_INDEX(x, ALL, AT(0), OF(k)),
            WEFT_INDEX(x, NEW, OF(i), TO(1, 4), NEW, OF(k)),
            WEFT_INDEX(x, OF(i), AT(1), TO(2, 5)),
            WEFT_INDEX(x, TO(1, 3), OF(j), BY(0, INT64_MAX, 2)),
            WEFT_INDEX(x, AT(2), AT(3), AT(4)),
            WEFT_INDEX(x, TO(0, 0), OF(j)),
            WEFT_INDEX(x, OF(none)),
            WEFT_INDEX(x, DOTS),
            WEFT_INDEX(WEFT_INDEX(x, BY(INT64_MAX, INT64_MIN, -1), OF(j), TO(1, -1)), DOTS, AT(0)),
        };
        for (int n = 0; n < (int)(sizeof y / sizeof *y); n++) {
            expect("index", n, y[n], 0);
        }
    }
    weft_scope_close(NULL);
}

typedef weft_array *updater(weft_array *x, const weft_index_item *items, int n, weft_array *values);

static void expressions_write_as_numpys(void)
{
    static updater *const updaters[] = {weft_index_update, weft_index_add, weft_index_multiply,
                                        weft_index_maximum, weft_index_minimum};
    weft_scope_open();
    if (load()) {
        const struct {
            int n;
            weft_index_item items[4];
        } at[] = {
            {1, {AT(1)}},
            {2, {TO(1, 3), BY(INT64_MAX, INT64_MIN, -2)}},
            {1, {OF(i)}},
            {3, {OF(i), ALL, OF(k)}},
            {3, {ALL, AT(0), OF(k)}},
            {3, {TO(1, 3), OF(j), BY(0, INT64_MAX, 2)}},
            {4, {NEW, AT(2), DOTS, TO(1, 3)}},
        };
        char name[16];
        int number = 0;
        for (int u = 0; u < 5; u++) {
            snprintf(name, sizeof name, "update%d", u);
            for (int n = 0; n < 7; n++) {
                weft_array *y = updaters[u](x, at[n].items, at[n].n, given(number++));
                expect(name, n, y, u == 1 || u == 2 ? 0x1p-22 : 0);
            }
        }
        weft_index_item places[] = {OF(i), OF(j)};
        expect("update_scalar", 0, weft_index_update(x, places, 2, given(number)), 0);
    }
    weft_scope_close(NULL);
}

typedef weft_array *scatterer(weft_array *x, weft_array *const *indices, int n, weft_array *updates,
                              weft_dims axes);

static void gather_and_scatter_take_slices(void)
{
    static scatterer *const scatterers[] = {weft_scatter, weft_scatter_add, weft_scatter_prod,
                                            weft_scatter_max, weft_scatter_min};
    weft_scope_open();
    if (load()) {
        weft_array *at[] = {golden_get("ui"), golden_get("uj")};
        weft_array *swapped[] = {at[1], at[0]};
        weft_dims axes = WEFT_DIMS(0, -1);
        CHECK_OK(weft_eval_n(at, 2));
        expect("gather", 0, weft_gather(x, at, 2, axes, WEFT_DIMS(1, 5, 1)), 0);
        expect("gather", 0, weft_gather(x, swapped, 2, WEFT_DIMS(2, 0), WEFT_DIMS(1, 5, 1)), 0);
        expect("gather", 1, weft_gather(x, at, 2, axes, WEFT_DIMS(1, 3, 1)), 0);
        expect("gather", 2, weft_gather(x, at, 2, axes, WEFT_DIMS(1, 2, 4)), 0);
        expect("gather", 3, weft_gather(x, at, 2, axes, WEFT_DIMS(1, 1, 1)), 0);
        weft_array *whole = weft_gather(x, NULL, 0, (weft_dims){0}, WEFT_DIMS(4, 1, 6));
        CHECK_EQ_INT(weft_size(whole), 24);
        char name[16];
        int number = 36; /* after those of the updates */
        for (int n = 0; n < 5; n++) {
            snprintf(name, sizeof name, "scatter%d", n);
            for (int shape = 0; shape < 2; shape++) {
                weft_array *y = scatterers[n](x, at, 2, given(number++), axes);
                expect(name, shape, y, n == 1 || n == 2 ? 0x1p-21 : 0);
            }
        }
        weft_array *along = golden_get("along"), *values = given(number++);
        CHECK_OK(weft_eval(along));
        expect("along", 0, weft_take_along_axis(x, along, 1), 0);
        expect("along", 1, weft_put_along_axis(x, along, values, 1), 0);
        expect("take_flat", 0, weft_take_flat(x, golden_get("flat")), 0);
        expect("masked", 0, weft_masked_scatter(x, golden_get("mask"), golden_get("vm")), 0);
        weft_dims on = WEFT_DIMS(0, 1, 2), starts = WEFT_DIMS(1, 4, 1), stops = WEFT_DIMS(3, 1, 6);
        weft_dims steps = WEFT_DIMS(1, -1, 4);
        weft_array *u = given(number), *first = weft_slice_axis(u, 0, 0, 1);
        CHECK_OK(weft_eval(u));
        expect("slices", 0, weft_slice_update_static(x, u, on, starts, stops, steps), 0);
        expect("slices", 1, weft_slice_update_add(x, first, on, starts, stops, steps), 0);
        expect("slices", 2, weft_slice_update_prod(x, u, on, starts, stops, steps), 0);
        expect("slices", 3, weft_slice_update_max(x, u, on, starts, stops, steps), 0);
        weft_array *quarter = weft_scalar(0.25, WEFT_FLOAT32);
        expect("slices", 4, weft_slice_update_min(x, quarter, on, starts, stops, steps), 0);
    }
    weft_scope_close(NULL);
}

/* ---- gradients ------------------------------------------------------------------------------ */

static weft_array *doubles(const double *values, weft_dims shape)
{
    return weft_from_data(values, WEFT_FLOAT64, shape);
}

static weft_array *ids(const int32_t *values, int64_t n)
{
    return weft_from_data(values, WEFT_INT32, WEFT_DIMS(n));
}

static int everything(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    weft_array *all[10];
    static const int32_t rows[] = {2, 0, -1, 2}, columns[] = {1, 0, 1, 1};
    weft_array *at[] = {ids(rows, 4), ids(columns, 4)};
    weft_dims axes = WEFT_DIMS(0, 1);
    weft_array *values = weft_reshape(in[1], WEFT_DIMS(4, 1, 1));
    all[0] = weft_scatter(in[0], at, 2, values, axes);
    all[1] = weft_scatter_prod(in[0], at, 2, values, axes);
    all[2] = weft_scatter_max(in[0], at, 2, values, axes);
    all[3] = weft_scatter_min(in[0], at, 2, values, axes);
    all[4] = weft_scatter_add(in[0], at, 2, values, axes);
    all[5] = weft_gather(in[0], at, 2, axes, WEFT_DIMS(1, 1));
    weft_index_item items[] = {weft_indices(at[0]), weft_at(1)};
    all[6] = weft_index_multiply(in[0], items, 2, in[1]);
    all[7] = weft_masked_scatter(in[0], weft_greater(in[0], weft_scalar(0.3, WEFT_FLOAT64)), in[1]);
    all[8] = weft_pad_with(in[0], WEFT_DIMS(1), WEFT_DIMS(1), WEFT_DIMS(0),
                           weft_sum(in[1], WEFT_ALL_AXES, false));
    all[9] = weft_as_strided(in[0], WEFT_DIMS(2, 3), WEFT_DIMS(2, 1), 1);
    memcpy(out, all, sizeof all);
    return 10;
}

/* With zeros among the factors: one per position, and two. */
static void gradients_are_those_of_differences(void)
{
    static const double numbers[] = {0.5, -1.5, 2, 0, 1.25, 0}, factors[] = {0, 0.75, 0.25, -2};
    weft_scope_open();
    weft_array *in[] = {doubles(numbers, WEFT_DIMS(3, 2)), doubles(factors, WEFT_DIMS(4))};
    CHECK_OK(weft_eval_n(in, 2));
    /* Differences at ties and at edges of masks are meaningless: numbers without zeros. */
    CHECK_OK(weft_gradcheck(everything, NULL, in, 2, NULL));
    in[0] = weft_add_scalar(in[0], 0.1);
    CHECK_OK(weft_gradcheck(everything, NULL, in, 2, NULL));
    weft_scope_close(NULL);
}

static int extreme(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    static const int32_t rows[] = {0, 0, 1};
    weft_array *at = ids(rows, 3);
    out[0] = weft_scatter_max(in[0], &at, 1, weft_reshape(in[1], WEFT_DIMS(3, 1)), WEFT_DIMS(0));
    return 1;
}

static void ties_share_a_gradient(void)
{
    static const double start[] = {2, 1}, values[] = {2, 2, 0};
    double d[3];
    weft_array *grads[2];
    weft_scope_open();
    weft_array *in[] = {doubles(start, WEFT_DIMS(2)), doubles(values, WEFT_DIMS(3))};
    weft_array *ct = weft_full(WEFT_DIMS(2), 3, WEFT_FLOAT64);
    CHECK_OK(weft_vjp(extreme, NULL, in, 2, &ct, NULL, 1, grads));
    CHECK_OK(weft_eval_n(grads, 2));
    CHECK_OK(weft_read(grads[0], WEFT_FLOAT64, d, 2));
    CHECK_CLOSE(d[0], 1, 1e-15);
    CHECK_CLOSE(d[1], 3, 1e-15);
    CHECK_OK(weft_read(grads[1], WEFT_FLOAT64, d, 3));
    CHECK_CLOSE(d[0], 1, 1e-15);
    CHECK_CLOSE(d[1], 1, 1e-15);
    CHECK_CLOSE(d[2], 0, 0);
    weft_scope_close(NULL);
}

/* ---- out of range --------------------------------------------------------------------------- */

static void indices_out_of_range_have_modes(void)
{
    weft_scope_open();
    if (load()) {
        weft_array *far = golden_get("far");
        CHECK_OK(weft_eval(far));
        expect("modes", 0, weft_take(x, weft_clip_indices(far, 4), 0), 0);
        expect("modes", 1, weft_take(x, weft_wrap_indices(far, 4), 0), 0);
        CHECK_STATUS(weft_eval(weft_take(x, far, 0)), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "out of range for an axis of size 4");
        weft_array *at[] = {far, far};
        CHECK_STATUS(weft_eval(weft_gather(x, at, 2, WEFT_DIMS(0, 1), WEFT_DIMS(1, 1, 1))),
                     WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "bounded_index: index ");
        weft_array *slices = weft_zeros(WEFT_DIMS(8, 5, 6), WEFT_FLOAT32);
        CHECK_OK(weft_eval(slices));
        CHECK_STATUS(weft_eval(weft_put_along_axis(x, weft_astype(slices, WEFT_INT32), slices, 0)),
                     WEFT_OK);
        weft_index_item items[] = {weft_indices(far)};
        CHECK_STATUS(weft_eval(weft_index_update(x, items, 1, slices)), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "scatter: index ");
        CHECK_CONTAINS(weft_error(WEFT_INDEX(x, weft_at(4))), "4 is out of range for axis 0");
    }
    weft_scope_close(NULL);
}

static void indices_may_be_trusted(void)
{
    static const int32_t wild[] = {-2000000000, 2, 2000000000, 4};
    if (strcmp(weft_device_name(weft_default_device()), "cpu") != 0) {
        check_skip("the switch is the CPU's");
        return;
    }
    weft_scope_open();
    if (load()) {
        weft_array *at = ids(wild, 4), *zero = weft_zeros(WEFT_DIMS(0, 2), WEFT_FLOAT32);
        const int32_t near[] = {0, 2, 3, 3};
        weft_array *places = ids(near, 4), *ones = weft_ones(WEFT_DIMS(4, 5, 6), WEFT_FLOAT32);
        weft_array *same[4], *both[4];
        weft_array *inputs[] = {at, places, ones, zero};
        CHECK_OK(weft_eval_n(inputs, 4));
        weft_set_index_checks(false);
        for (int n = 0; n < 2; n++) {
            weft_array *to = n ? places : at, **y = n ? same : both;
            weft_array *each =
                weft_broadcast_to(weft_reshape(to, WEFT_DIMS(4, 1, 1)), WEFT_DIMS(4, 5, 6));
            weft_index_item items[] = {weft_indices(to)};
            y[0] = weft_take(x, to, 0);
            y[1] = weft_index_update(x, items, 1, ones);
            y[2] = weft_index_add(x, items, 1, ones);
            y[3] = weft_put_along_axis(x, each, ones, 0);
            CHECK_OK(weft_eval_n(y, 4));
        }
        for (int n = 0; n < 4; n++) {
            weft_array *equal = weft_all(weft_equal(same[n], both[n]), WEFT_ALL_AXES, false);
            CHECK_CLOSE(weft_item(equal), 1, 0);
        }
        CHECK_STATUS(weft_eval(weft_take(zero, at, 0)), WEFT_INVALID);
        weft_set_index_checks(true);
        CHECK_STATUS(weft_eval(weft_take(x, at, 0)), WEFT_INVALID);
    }
    weft_set_index_checks(true);
    weft_scope_close(NULL);
}

/* Rows whose indices are equal, and rows in which one column has the same index from the end, give
 * the same, for elements of each size. */
static void rows_with_equal_indices(void)
{
    enum { ROWS = 4, WIDTH = 513 };
    static const weft_dtype dtypes[] = {WEFT_INT8, WEFT_FLOAT16, WEFT_FLOAT32, WEFT_INT64};
    static int32_t equal[2 * WIDTH], mixed[2 * WIDTH];
    for (int n = 0; n < 2 * WIDTH; n++)
        equal[n] = mixed[n] = n < WIDTH ? 2 : -4;
    mixed[WIDTH / 2] = -2;
    mixed[WIDTH + WIDTH / 2] = 0;
    weft_scope_open();
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        weft_array *to = weft_full(WEFT_DIMS(ROWS, WIDTH), 7, dtypes[d]);
        weft_array *numbers =
            weft_remainder(weft_arange(0, 2 * WIDTH, 1, WEFT_INT32), weft_scalar(101, WEFT_INT32));
        weft_array *values = weft_astype(weft_reshape(numbers, WEFT_DIMS(2, WIDTH)), dtypes[d]);
        weft_array *out[2];
        for (int n = 0; n < 2; n++) {
            weft_array *at = weft_from_data(n ? mixed : equal, WEFT_INT32, WEFT_DIMS(2, WIDTH));
            out[n] = weft_put_along_axis(to, at, values, 0);
        }
        weft_array *expected[] = {weft_slice_axis(values, 0, 1, 2), weft_slice_axis(to, 0, 1, 2),
                                  weft_slice_axis(values, 0, 0, 1), weft_slice_axis(to, 0, 3, 4)};
        for (int n = 0; n < 2; n++)
            CHECK(weft_item(weft_all(weft_equal(out[n], weft_concatenate(expected, ROWS, 0)),
                                     WEFT_ALL_AXES, false)) == 1);
    }
    weft_scope_close(NULL);
}

static void errors_say_why(void)
{
    weft_scope_open();
    if (load()) {
        weft_array *mask = weft_greater(x, weft_scalar(0, WEFT_FLOAT32)), *at[] = {i, j};
        CHECK_CONTAINS(weft_error(WEFT_INDEX(x, OF(mask))), "for masks: where");
        CHECK_CONTAINS(weft_error(WEFT_INDEX(x, OF(x))), "expected an array of integers");
        CHECK_CONTAINS(weft_error(WEFT_INDEX(x, DOTS, DOTS)), "more than one ellipsis");
        CHECK_CONTAINS(weft_error(WEFT_INDEX(x, ALL, ALL, ALL, ALL)), "4 items for an array of");
        CHECK_CONTAINS(weft_error(WEFT_INDEX(x, OF(i), OF(weft_slice_axis(j, 0, 0, 2)))),
                       "arrays of (2, 3) and (2,)");
        CHECK_CONTAINS(weft_error(WEFT_INDEX(x, BY(0, 1, 0))), "a step of 0");
        CHECK_CONTAINS(weft_error(weft_gather(x, at, 2, WEFT_DIMS(0), WEFT_DIMS(1, 1, 1))),
                       "2 indices for 1 axes");
        CHECK_CONTAINS(weft_error(weft_gather(x, at, 2, WEFT_DIMS(0, 1), WEFT_DIMS(1, 6, 1))),
                       "slices of (1, 6, 1) of (4, 5, 6)");
        CHECK_CONTAINS(weft_error(weft_scatter(x, at, 2, x, WEFT_DIMS(0, 1))),
                       "updates: expected (2, 3, 4, 5, 6), got (4, 5, 6)");
        CHECK_CONTAINS(weft_error(weft_masked_scatter(x, x, x)), "expected a mask of bool");
        weft_array *few = weft_zeros(WEFT_DIMS(3), WEFT_FLOAT32);
        CHECK_STATUS(weft_eval(weft_masked_scatter(x, mask, few)), WEFT_INVALID);
        weft_array *no = weft_zeros(WEFT_DIMS(0), WEFT_FLOAT32);
        CHECK_STATUS(weft_eval(weft_masked_scatter(x, mask, no)), WEFT_INVALID);
    }
    golden_close();
    weft_scope_close(NULL);
}

CHECK_MAIN("indexing", CHECK_CASE(expressions_read_as_numpys),
           CHECK_CASE(expressions_write_as_numpys), CHECK_CASE(gather_and_scatter_take_slices),
           CHECK_CASE(gradients_are_those_of_differences), CHECK_CASE(ties_share_a_gradient),
           CHECK_CASE(indices_out_of_range_have_modes), CHECK_CASE(indices_may_be_trusted),
           CHECK_CASE(rows_with_equal_indices), CHECK_CASE(errors_say_why))
