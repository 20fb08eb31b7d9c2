/* tests/ops/test_op_fields.c -- fields of op literals that let compiled functions omit ops:
 * commutative, neutral, is_identity, passes_through. Every promise of the table is checked bit for
 * bit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/cases.h"
#include "weft/backend.h"
#include "weft/compile.h"
#include "weft/op_params.h"
#include "weft/ops.h"

/* Every pair of these is tried: a row against its transpose. */
static const double specials[] = {0, -0.0, 1, -1, 2.5, -3, 100, INFINITY, -INFINITY, NAN};
enum { N = sizeof specials / sizeof *specials };

/* The special values as rows or as columns of an N x N array; integers get the finite values. */
static weft_array *grid(weft_dtype dtype, bool columns)
{
    double values[N * N];
    for (int i = 0; i < N * N; i++) {
        const double x = specials[columns ? i % N : i / N];
        values[i] = weft_dtype_is_float(dtype) || isfinite(x) ? x : 7;
    }
    return weft_astype(weft_from_data(values, WEFT_FLOAT64, WEFT_DIMS(N, N)), dtype);
}

/* Whether the bytes are the same, NaNs being equal whatever their bits are. */
static bool same_bits(weft_array *a, weft_array *b)
{
    const weft_dtype dtype = weft_dtype_of(a);
    const int64_t n = weft_size(a);
    const size_t size = weft_dtype_size(dtype);
    unsigned char *x = calloc((size_t)n + 1, size), *y = calloc((size_t)n + 1, size);
    double *as_double = calloc((size_t)n + 1, sizeof(double));
    bool same = dtype == weft_dtype_of(b) && n == weft_size(b) &&
                weft_eval_n((weft_array *[]){a, b}, 2) == WEFT_OK &&
                weft_read(a, dtype, x, n) == WEFT_OK && weft_read(b, dtype, y, n) == WEFT_OK;
    if (same && weft_dtype_is_float(dtype)) {
        same = weft_read(a, WEFT_FLOAT64, as_double, n) == WEFT_OK;
    }
    for (int64_t i = 0; i < n && same; i++) {
        const size_t at = (size_t)i * size;
        same = memcmp(x + at, y + at, size) == 0;
        if (!same && isnan(as_double[i])) {
            double other[1];
            weft_array *element = weft_slice_axis(weft_reshape(b, WEFT_DIMS(-1)), 0, i, i + 1);
            same = weft_read(element, WEFT_FLOAT64, other, 1) == WEFT_OK && isnan(other[0]);
        }
    }
    free(x);
    free(y);
    free(as_double);
    return same;
}

static weft_array *apply2(const weft_op *op, weft_array *a, weft_array *b)
{
    return weft_apply(op, (weft_array *[]){a, b}, 2, NULL);
}

typedef bool promise(const weft_op *op, weft_dtype dtype);

/* Tries the promise with every dtype that the op takes. */
static int hold(const weft_op *op, promise *keeps, const char *what)
{
    int tried = 0;
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
        if (!case_takes(op, (weft_dtype)d)) {
            continue;
        }
        weft_scope_open();
        if (!keeps(op, (weft_dtype)d)) {
            CHECK_FAIL("%s, %s: not %s: %s", op->name, weft_dtype_name((weft_dtype)d), what,
                       weft_error_message());
        }
        weft_scope_close(NULL);
        tried++;
    }
    return tried;
}

static bool commutes(const weft_op *op, weft_dtype dtype)
{
    weft_array *x = grid(dtype, false), *y = grid(dtype, true);
    return weft_eval_n((weft_array *[]){x, y}, 2) == WEFT_OK &&
           same_bits(apply2(op, x, y), apply2(op, y, x));
}

static bool keeps_its_other_input(const weft_op *op, weft_dtype dtype)
{
    weft_array *x = grid(dtype, false);
    weft_array *neutral = weft_full(WEFT_DIMS(N, N), op->neutral.value, dtype);
    const weft_class klass = weft_dtype_class(dtype);
    if (klass != WEFT_CLASS_REAL && klass != WEFT_CLASS_INTEGER) {
        return true; /* the promise is for these */
    }
    return weft_eval_n((weft_array *[]){x, neutral}, 2) == WEFT_OK &&
           same_bits(apply2(op, x, neutral), x) &&
           (!op->commutative || same_bits(apply2(op, neutral, x), x));
}

static void commutative_ops_and_neutral_numbers(void)
{
    int commutative = 0, neutral = 0;
    for (int i = 0; i < weft_op_count(); i++) {
        const weft_op *op = weft_op_at(i);
        commutative += op->commutative ? hold(op, commutes, "commutative") : 0;
        neutral += op->neutral.exists ? hold(op, keeps_its_other_input, "neutral") : 0;
    }
    CHECK(commutative >= 9);
    CHECK(neutral >= 4);
}

/* ---- is_identity ---------------------------------------------------------------------------- */

static bool same_shape(weft_array *a, weft_array *b)
{
    const weft_dims x = weft_shape(a), y = weft_shape(b);
    bool same = x.n == y.n && weft_dtype_of(a) == weft_dtype_of(b);
    for (int i = 0; i < x.n && same; i++) {
        same = x.at[i] == y.at[i];
    }
    return same;
}

/* Where op and parameters promise it, an output that looks like the first input is that input. */
static bool is_kept(const weft_op *op, weft_array *const *in, int n, const void *params,
                    int *promised)
{
    static const char zeros[1024];
    weft_array *out = weft_apply(op, in, n, params);
    if (!weft_ok(out) || !same_shape(out, in[0]) || !op->is_identity(params ? params : zeros, n)) {
        return true;
    }
    ++*promised;
    return same_bits(out, in[0]);
}

static void identity_ops_return_their_input(void)
{
    int promised = 0;
    for (int i = 0; i < weft_op_count(); i++) {
        const weft_op *op = weft_op_at(i);
        for (int k = 0; op->is_identity && k < case_count(op); k++) {
            const weft_case c = case_at(op, k);
            weft_array *in[WEFT_MAX_OPERANDS];
            weft_scope_open();
            if (!CHECK(case_inputs(op, &c, WEFT_FLOAT32, WEFT_FLOAT32, CASE_PLAIN, in)) ||
                !is_kept(op, in, c.n_inputs, c.params, &promised)) {
                CHECK_FAIL("%s (%s): not its input", op->name, c.name);
            }
            weft_scope_close(NULL);
        }
    }
    CHECK(promised > 0);
}

/* Parameters that keep the shape; some of them move elements. */
static void identity_depends_on_parameters(void)
{
    const weft_transpose_params straight = {WEFT_DIMS(0, 1)}, turned = {WEFT_DIMS(1, 0)};
    const weft_slice_params whole = {WEFT_DIMS(-2), WEFT_DIMS(0), WEFT_DIMS(3), WEFT_DIMS(1)};
    const weft_slice_params flipped = {WEFT_DIMS(-2), WEFT_DIMS(2), WEFT_DIMS(3), WEFT_DIMS(-1)};
    const weft_pad_params unpadded = {WEFT_DIMS(-1), WEFT_DIMS(0), WEFT_DIMS(0), 1};
    const weft_shape_params shape = {WEFT_DIMS(3, 3)};
    const weft_cast_params dtype = {WEFT_FLOAT32};
    const weft_axis_params axis = {-1, false};
    const struct {
        const char *op;
        const void *params;
        bool identity;
    } all[] = {
        {"transpose", &straight, true}, {"transpose", &turned, false}, {"slice", &whole, true},
        {"slice", &flipped, false},     {"pad", &unpadded, true},      {"reshape", &shape, true},
        {"broadcast_to", &shape, true}, {"cast", &dtype, true},        {"concatenate", &axis, true},
        {"stop_gradient", NULL, true},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int promised = 0;
        weft_scope_open();
        weft_array *x = weft_reshape(weft_arange(0, 9, 1, WEFT_FLOAT32), WEFT_DIMS(3, 3));
        CHECK_OK(weft_eval(x));
        const weft_op *op = weft_op_find(all[i].op);
        CHECK(op && op->is_identity && is_kept(op, &x, 1, all[i].params, &promised));
        if (promised != all[i].identity) {
            CHECK_FAIL("%s, %d: expected %d, got %d", all[i].op, (int)i, all[i].identity, promised);
        }
        weft_scope_close(NULL);
    }
}

/* ---- compiled functions use them ------------------------------------------------------------ */

static int halves(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_sin(in[0]);
    out[1] = weft_cos(in[1]);
    return 2;
}

static int wrapped(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    static const weft_custom_rules none = {0};
    weft_array *both[2];
    (void)room;
    weft_custom(halves, context, &none, in, n_in, both, 2);
    out[0] = weft_subtract(both[0], both[1]);
    return 1;
}

/* sin(x) - cos(y) fuses only when nothing is between the parts. */
static void ops_that_pass_a_value_through_are_omitted(void)
{
    weft_device *device = weft_default_device();
    weft_compiled *compiled = NULL;
    weft_scope_open();
    weft_array *in[] = {weft_arange(0, 64, 1, WEFT_FLOAT32), weft_arange(1, 65, 1, WEFT_FLOAT32)};
    weft_array *plain[2], *out;
    CHECK_OK(weft_eval_n(in, 2));
    halves(NULL, in, 2, plain, 2);
    CHECK_OK(weft_compile(wrapped, NULL, NULL, 0, NULL, &compiled));
    weft_device_reset_counts(device);
    CHECK_OK(weft_compiled_call(compiled, in, 2, &out, 1));
    CHECK_EQ_INT(weft_device_counts(device).expansions, 0);
    CHECK(same_bits(out, weft_subtract(plain[0], plain[1])));
    weft_compiled_free(compiled);
    weft_scope_close(NULL);
}

CHECK_MAIN("op_fields", CHECK_CASE(commutative_ops_and_neutral_numbers),
           CHECK_CASE(identity_ops_return_their_input), CHECK_CASE(identity_depends_on_parameters),
           CHECK_CASE(ops_that_pass_a_value_through_are_omitted))
