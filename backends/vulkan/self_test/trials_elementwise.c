/* backends/vulkan/self_test/trials_elementwise.c -- trials of formulas, casts and integers. One
 * shader computes all functions of a class, and an operand selects the function for each element,
 * since compiling takes most of the time. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/vulkan/self_test/trial.h"
#include "weft/op_params.h"

enum { MAX_FUNCTIONS = 12, MAX_VALUES = 26, MAX_ITEMS = MAX_FUNCTIONS * MAX_VALUES };

/* Formulas in a and c; the combined formula uses b for the selection. */
typedef struct functions {
    weft_class klass;
    weft_dtype dtype;
    int n;
    const char *text[MAX_FUNCTIONS];
    double tolerance, smallest;
} functions;

/* The last one selects between an operand and a value with its sign. */
static const functions reals = {
    WEFT_CLASS_REAL,
    WEFT_FLOAT32,
    5,
    {"rint(a)", "exp(a)", "log(a)", "a / c", "c < 0 ? a : tanh(a)"},
    4 * 0x1p-23, /* tests/golden/ops/elementwise_ulps.txt has bounds below 4 ulp for all of them */
    0x1p-126};

static const functions angles = {WEFT_CLASS_REAL,      WEFT_FLOAT32, 2,
                                 {"sin(a)", "erf(a)"}, 4 * 0x1p-23,  0x1p-126};

static const functions doubles = {
    WEFT_CLASS_REAL, WEFT_FLOAT64, 3, {"rint(a)", "exp(a)", "c < 0 ? a : tanh(a)"},
    4e-15,           0x1p-1022};

static const functions integers = {
    WEFT_CLASS_INTEGER,
    WEFT_INT32,
    7,
    {"a / c", "a % c", "a * c", "a << c", "a >> c", "a ^ c", "max(a, c)"},
    0,
    0};

static const double values[] = {
    0,     -0.0, 0.3,      -0.7,      1,         2.3,  2.5,           -3.5,       17.25,
    88.3,  -87,  100.7,    1024.3,    8388607.5, 1e10, -1e-5,         0.99999,    3e38,
    1e-30, 1.5,  INFINITY, -INFINITY, NAN,       -100, 68719476736.5, -16777217.5};
static const double seconds[] = {2.5, -3, 0.7, 2, 1e-3};
static const int64_t wholes[] = {0,   1,         -1,        2,     -3,     7,     31, -8,
                                 100, INT32_MAX, INT32_MIN, 65537, -65536, 12345, 3,  5};
static const int64_t second_wholes[] = {3, -2, 0, 31, -1, 1, 33};

#define LENGTH(array) ((int)(sizeof(array) / sizeof *(array)))

/* b == 0 ? f0 : b == 1 ? f1 : ... */
static bool join(const functions *f, weft_tape *out)
{
    char text[1024] = "", why[256];
    size_t n = 0;
    for (int i = 0; i + 1 < f->n; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "b == %d ? (%s) : ", i, f->text[i]);
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "(%s)", f->text[f->n - 1]);
    return n < sizeof text && weft_tape_parse(text, f->klass, 3, out, why, sizeof why);
}

typedef struct items {
    const functions *f;
    int n, function[MAX_ITEMS];
    double a[MAX_ITEMS], c[MAX_ITEMS], expected[MAX_ITEMS];
} items;

static void name_item(const void *context, int64_t i, char *out, size_t size)
{
    const items *all = context;
    snprintf(out, size, "%s of a = %.9g, c = %.9g (%s)", all->f->text[all->function[i]], all->a[i],
             all->c[i], weft_dtype_name(all->f->dtype));
}

static void *elements(const items *all, const double *from, void *to)
{
    weft_tensor t = weft__trial_tensor(all->f->dtype, WEFT_DIMS(all->n), to);
    for (int i = 0; i < all->n; i++) {
        if (from) {
            weft_tensor_set(&t, i, from[i]);
        } else {
            weft_tensor_set(&t, i, all->function[i]);
        }
    }
    return to;
}

static weft_status run_items(weft__trials *t, const items *all)
{
    double a[MAX_ITEMS], b[MAX_ITEMS], c[MAX_ITEMS], y[MAX_ITEMS];
    const weft_dtype dtype = all->f->dtype;
    weft_tape tape;
    if (!join(all->f, &tape)) {
        return weft_fail(WEFT_INVALID, "vulkan: self-test: a formula that cannot be read");
    }
    const weft_dims shape = WEFT_DIMS(all->n);
    const weft_tensor in[3] = {weft__trial_tensor(dtype, shape, elements(all, all->a, a)),
                               weft__trial_tensor(dtype, shape, elements(all, NULL, b)),
                               weft__trial_tensor(dtype, shape, elements(all, all->c, c))};
    const weft_tensor out = weft__trial_tensor(dtype, shape, y);
    weft_call call = {
        .op = weft_op_find("where"), .n_inputs = 3, .n_outputs = 1, .in = in, .out = &out};
    weft_status status = weft__trial_run(t, &call, &tape);
    if (status == WEFT_OK) {
        weft__trial_compare(t, "", &out, all->expected, all->f->tolerance, all->f->smallest,
                            name_item, all);
    }
    return status;
}

static double rounded(weft_dtype dtype, double x)
{
    return dtype == WEFT_FLOAT32 ? (double)(float)x : x;
}

static weft_status try_reals(weft__trials *t, const functions *f)
{
    items all;
    all.f = f;
    all.n = 0;
    for (int k = 0; k < f->n; k++) {
        weft_tape tape;
        char why[256];
        if (!weft_tape_parse(f->text[k], f->klass, 3, &tape, why, sizeof why)) {
            return weft_fail(WEFT_INVALID, "vulkan: self-test: %s: %s", f->text[k], why);
        }
        for (int i = 0; i < LENGTH(values); i++, all.n++) {
            const double operands[3] = {rounded(f->dtype, values[i]), k,
                                        rounded(f->dtype, seconds[i % LENGTH(seconds)])};
            all.function[all.n] = k;
            all.a[all.n] = operands[0];
            all.c[all.n] = operands[2];
            all.expected[all.n] = rounded(f->dtype, weft_tape_eval(&tape, operands));
        }
    }
    return run_items(t, &all);
}

weft_status weft__trial_real(weft__trials *t)
{
    weft_status status = try_reals(t, &reals);
    return status == WEFT_OK && !t->wrong[0] ? try_reals(t, &angles) : status;
}

weft_status weft__trial_float64(weft__trials *t)
{
    return try_reals(t, &doubles);
}

static weft_status try_integers(weft__trials *t, const functions *f)
{
    items all;
    all.f = f;
    all.n = 0;
    for (int k = 0; k < f->n; k++) {
        weft_tape tape;
        char why[256];
        if (!weft_tape_parse(f->text[k], f->klass, 3, &tape, why, sizeof why)) {
            return weft_fail(WEFT_INVALID, "vulkan: self-test: %s: %s", f->text[k], why);
        }
        for (int i = 0; i < LENGTH(wholes); i++, all.n++) {
            const int64_t operands[3] = {wholes[i], k, second_wholes[i % LENGTH(second_wholes)]};
            all.function[all.n] = k;
            all.a[all.n] = (double)operands[0];
            all.c[all.n] = (double)operands[2];
            all.expected[all.n] = (double)weft_tape_eval_int(&tape, operands, f->dtype);
        }
    }
    return run_items(t, &all);
}

weft_status weft__trial_int32(weft__trials *t)
{
    return try_integers(t, &integers);
}

weft_status weft__trial_int64(weft__trials *t)
{
    functions f = integers;
    f.dtype = WEFT_INT64;
    return try_integers(t, &f);
}

/* ---- conversions and bytes ------------------------------------------------------------------ */

weft_status weft__trial_subnormals(weft__trials *t)
{
    float in[4] = {0x1p-126F, 0x1.8p-130F, -0x1p-149F, 0x1.fffffep-126F}, out[4];
    const double expected[4] = {0x1p-127, 0x1.8p-131, -0.0, 0x1.0p-126};
    const weft_tensor x = weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(4), in);
    const weft_tensor y = weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(4), out);
    weft_tape half;
    char why[128];
    weft_call call = {
        .op = weft_op_find("multiply"), .n_inputs = 1, .n_outputs = 1, .in = &x, .out = &y};
    if (!weft_tape_parse("a * 0.5", WEFT_CLASS_REAL, 1, &half, why, sizeof why)) {
        return weft_fail(WEFT_INVALID, "vulkan: self-test: %s", why);
    }
    weft_status status = weft__trial_run(t, &call, &half);
    if (status == WEFT_OK) {
        weft__trial_compare(t, "half of a subnormal number", &y, expected, 0, 0, NULL, NULL);
    }
    return status;
}

weft_status weft__trial_bytes(weft__trials *t)
{
    float in[2][11];
    unsigned char out[11];
    double expected[11];
    for (int i = 0; i < 11; i++) {
        in[0][i] = (float)(i % 3);
        in[1][i] = (float)(i % 4);
        expected[i] = i % 3 < i % 4;
    }
    const weft_tensor x[2] = {weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(11), in[0]),
                              weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(11), in[1])};
    const weft_tensor y = weft__trial_tensor(WEFT_BOOL, WEFT_DIMS(11), out);
    const weft_op *less = weft_op_find("less");
    weft_call call = {.op = less, .n_inputs = 2, .n_outputs = 1, .in = x, .out = &y};
    weft_status status = weft__trial_run(t, &call, weft_op_tape(less, WEFT_FLOAT32));
    if (status == WEFT_OK) {
        weft__trial_compare(t, "less", &y, expected, 0, 0, NULL, NULL);
    }
    return status;
}

static weft_status cast_to(weft__trials *t, weft_dtype to)
{
    /* Halfway cases in both directions; overflow; the smallest float16. */
    float in[12] = {1,     0x1.002p0F, 0x1.006p0F, 0x1.01p0F,  0x1.03p0F, -3.14159F,
                    65519, 65520,      1e30F,      0x1.8p-24F, INFINITY,  NAN};
    uint16_t out[12];
    double expected[12];
    for (int i = 0; i < 12; i++) {
        expected[i] = to == WEFT_FLOAT16
                          ? (double)weft_float16_to_float(weft_float_to_float16(in[i]))
                          : (double)weft_bfloat16_to_float(weft_float_to_bfloat16(in[i]));
    }
    const weft_tensor x = weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(12), in);
    const weft_tensor y = weft__trial_tensor(to, WEFT_DIMS(12), out);
    const weft_cast_params params = {to};
    weft_call call = {.op = weft_op_find("cast"),
                      .params = &params,
                      .n_inputs = 1,
                      .n_outputs = 1,
                      .in = &x,
                      .out = &y};
    weft_status status = weft__trial_run(t, &call, NULL);
    if (status == WEFT_OK) {
        char what[64];
        snprintf(what, sizeof what, "cast of float32 to %s", weft_dtype_name(to));
        weft__trial_compare(t, what, &y, expected, 0, 0, NULL, NULL);
    }
    return status;
}

weft_status weft__trial_casts(weft__trials *t)
{
    weft_status status = cast_to(t, WEFT_FLOAT16);
    return status == WEFT_OK && !t->wrong[0] ? cast_to(t, WEFT_BFLOAT16) : status;
}
