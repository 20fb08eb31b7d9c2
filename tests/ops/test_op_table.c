/* tests/ops/test_op_table.c -- every op of the table: values, layouts, gradients, batches,
 * expansions, on the CPU and on a backend without kernels of its own.
 *
 * The definition of an op's values is its reference kernel, its formula or its expansion, in
 * float64. The hidden backend has no kernels, so there every op runs by that definition; the CPU
 * runs its own. Holding the two together tests the CPU's kernels and fused against expansion at
 * once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/cases.h"
#include "tests/support/hidden.h"
#include "weft/backend.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static int checked;

static weft_device *tested; /* the thread's default when the suite starts */

/* WEFT_TEST_PIECE=I/N: only ops I, I + N, ... of the table, for drivers that fail in long runs.
 * WEFT_TEST_OPS: only these, with commas around each (",sum,mean,"). */
static bool is_chosen(int i)
{
    const char *piece = getenv("WEFT_TEST_PIECE"), *chosen = getenv("WEFT_TEST_OPS");
    int at, of;
    char name[80];
    snprintf(name, sizeof name, ",%s,", weft_op_at(i)->name);
    return (!piece || sscanf(piece, "%d/%d", &at, &of) != 2 || i % of == at) &&
           (!chosen || strstr(chosen, name));
}

static bool is_whole(void)
{
    return !getenv("WEFT_TEST_PIECE") && !getenv("WEFT_TEST_OPS");
}

/* Prints the ops that did not run by a kernel of the device. */
static void tell_fallbacks(const char *label)
{
    weft_counts c = weft_device_counts(tested);
    if (getenv("WEFT_TEST_VERBOSE") && c.references + c.expansions > 0) {
        printf("    %s: %lld by reference, %lld by expansion\n", label, (long long)c.references,
               (long long)c.expansions);
    }
    weft_device_reset_counts(tested);
}

static void describe(char *out, size_t size, const weft_op *op, const weft_case *c,
                     weft_dtype dtype, const char *what)
{
    snprintf(out, size, "%s (%s, %s, %s)", op->name, c->name ? c->name : "case",
             weft_dtype_name(dtype), what);
}

/* The elements as doubles; complex64 as pairs. NULL: a failure was reported. */
static double *elements(weft_array *a, const char *label)
{
    int64_t n = weft_size(a);
    double *out = calloc((size_t)(2 * n + 1), sizeof *out);
    weft_status status;
    if (weft_dtype_of(a) == WEFT_COMPLEX64) {
        weft_complex64 *pairs = calloc((size_t)n + 1, sizeof *pairs);
        status = weft_read(a, WEFT_COMPLEX64, pairs, n);
        for (int64_t i = 0; i < n; i++) {
            out[2 * i] = (double)pairs[i].re;
            out[2 * i + 1] = (double)pairs[i].im;
        }
        free(pairs);
    } else {
        status = weft_read(a, WEFT_FLOAT64, out, n);
    }
    if (status != WEFT_OK) {
        CHECK_FAIL("%s: %s", label, weft_error_message());
        free(out);
        return NULL;
    }
    return out;
}

static void compare(weft_array *actual, weft_array *expected, double tolerance, const char *label)
{
    checked++;
    if (weft_size(actual) != weft_size(expected)) {
        CHECK_FAIL("%s: sizes differ", label);
        return;
    }
    double *a = elements(actual, label), *e = elements(expected, label);
    int64_t n = weft_size(actual) * (weft_dtype_of(actual) == WEFT_COMPLEX64 ? 2 : 1);
    for (int64_t i = 0; a && e && i < n; i++) {
        bool same = a[i] == e[i] || (isnan(a[i]) && isnan(e[i]));
        if (!same && !(fabs(a[i] - e[i]) <= tolerance * fmax(1, fabs(e[i])))) {
            CHECK_FAIL("%s: element %lld: expected %.9g, got %.9g", label, (long long)i, e[i],
                       a[i]);
            break;
        }
    }
    free(a);
    free(e);
}

/* Floats are defined by their computation in float64; integers and bool by themselves. */
static weft_dtype definition_dtype(weft_dtype dtype)
{
    return weft_dtype_is_float(dtype) ? WEFT_FLOAT64 : dtype;
}

static void compare_outputs(const weft_op *op, weft_array *const *out, weft_array *const *want,
                            int n, const char *label)
{
    for (int i = 0; i < n; i++) {
        weft_dtype d = weft_dtype_of(out[i]);
        bool exact = !weft_dtype_is_float(d) && d != WEFT_COMPLEX64;
        compare(out[i], want[i], exact ? 0 : case_tolerance(op, d), label);
    }
}

static void values(const weft_op *op, const weft_case *c, weft_dtype dtype, case_layout layout)
{
    static const char *const layouts[] = {"plain", "transposed", "flipped"};
    weft_array *in[WEFT_MAX_OPERANDS], *out[WEFT_MAX_OUTPUTS];
    weft_array *wide[WEFT_MAX_OPERANDS], *want[WEFT_MAX_OUTPUTS];
    char label[256];
    describe(label, sizeof label, op, c, dtype, layouts[layout]);
    weft_scope_open();
    if (!case_inputs(op, c, dtype, dtype, layout, in)) {
        CHECK_FAIL("%s: inputs: %s", label, weft_error_message());
    } else {
        int n = case_apply(op, c, in, out);
        weft_set_default_device(hidden_device());
        bool made = case_inputs(op, c, dtype, definition_dtype(dtype), CASE_PLAIN, wide);
        int m = made ? case_apply(op, c, wide, want) : -1;
        weft_set_default_device(tested);
        if (m != n || n < 0) {
            CHECK_FAIL("%s: %d outputs, by definition %d", label, n, m);
        } else {
            compare_outputs(op, out, want, n, label);
        }
    }
    tell_fallbacks(label);
    weft_scope_close(NULL);
}

static void every_op_has_cases_and_values(void)
{
    tested = weft_default_device();
    for (int i = 0; i < weft_op_count(); i++) {
        const weft_op *op = weft_op_at(i);
        if (!is_chosen(i)) {
            continue;
        }
        if (case_count(op) == 0) {
            CHECK_FAIL("%s: the op has no test cases", op->name);
        }
        for (int k = 0; k < case_count(op); k++) {
            weft_case c = case_at(op, k);
            for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
                if (case_takes(op, (weft_dtype)d)) {
                    values(op, &c, (weft_dtype)d, CASE_PLAIN);
                    values(op, &c, (weft_dtype)d, CASE_TRANSPOSED);
                    values(op, &c, (weft_dtype)d, CASE_FLIPPED);
                }
            }
        }
    }
    CHECK(checked > (is_whole() ? 1000 : 0));
}

/* ---- gradients ------------------------------------------------------------------------------ */

static bool has_gradient(const weft_op *op)
{
    return op->vjp || op->partial || op->expand || op->jvp;
}

/* The inputs of `dtype` that get a gradient. */
static void find_arguments(case_subject *s, weft_dtype dtype, weft_array **arguments)
{
    for (int i = 0; i < s->c->n_inputs; i++) {
        bool zero = s->op->zero_gradient >> i & 1;
        if (!zero && !s->c->in[i].fixed_float32 && weft_dtype_of(s->fixed[i]) == dtype) {
            s->argument[s->n_arguments] = i;
            arguments[s->n_arguments++] = s->fixed[i];
        }
    }
}

/* An output of lower precision would lose differences of 1e-6. */
static bool in_float64(weft_array *const *out, int n)
{
    for (int i = 0; i < n; i++) {
        if (weft_dtype_is_float(weft_dtype_of(out[i])) && weft_dtype_of(out[i]) != WEFT_FLOAT64) {
            return false;
        }
    }
    return true;
}

static void gradient(const weft_op *op, const weft_case *c, const char *device, bool second)
{
    weft_array *in[WEFT_MAX_OPERANDS], *arguments[WEFT_MAX_OPERANDS], *out[WEFT_MAX_OUTPUTS];
    char label[256];
    describe(label, sizeof label, op, c, WEFT_FLOAT64, device);
    weft_scope_open();
    if (case_inputs(op, c, WEFT_FLOAT64, WEFT_FLOAT64, CASE_PLAIN, in)) {
        case_subject s = {.op = op, .c = c, .fixed = in};
        find_arguments(&s, WEFT_FLOAT64, arguments);
        int n = case_apply(op, c, in, out);
        weft_gradcheck_options options = {.tolerance = 2e-6, .seed = 7, .max_elements = 12};
        options.forward = true;
        options.second = second;
        if (n > 0 && s.n_arguments > 0 && in_float64(out, n)) {
            checked++;
            if (weft_gradcheck(case_call, &s, arguments, s.n_arguments, &options) != WEFT_OK) {
                CHECK_FAIL("%s: %s", label, weft_error_message());
            }
        }
    }
    weft_scope_close(NULL);
}

static void gradients_agree_with_finite_differences(void)
{
    tested = weft_default_device();
    checked = 0;
    for (int i = 0; i < weft_op_count(); i++) {
        const weft_op *op = weft_op_at(i);
        for (int k = 0; k < case_count(op); k++) {
            weft_case c = case_at(op, k);
            if (!is_chosen(i) || !has_gradient(op) || !case_takes(op, WEFT_FLOAT64)) {
                continue;
            }
            gradient(op, &c, weft_device_name(tested), k == 0);
            weft_set_default_device(hidden_device());
            gradient(op, &c, "hidden", false);
            weft_set_default_device(tested);
        }
    }
    CHECK(checked > (is_whole() ? 100 : -1));
}

/* ---- gradients in float32, which have kernels of their own ---------------------------------- */

/* The gradients of the sum of all outputs in `dtype`, for inputs whose elements are float32's. */
static int sum_gradients(const weft_op *op, const weft_case *c, weft_dtype dtype,
                         weft_array **grads)
{
    weft_array *in[WEFT_MAX_OPERANDS], *arguments[WEFT_MAX_OPERANDS], *out[WEFT_MAX_OUTPUTS];
    weft_array *ones[WEFT_MAX_OUTPUTS];
    if (!case_inputs(op, c, WEFT_FLOAT32, dtype, CASE_PLAIN, in)) {
        return -1;
    }
    case_subject s = {.op = op, .c = c, .fixed = in};
    find_arguments(&s, dtype, arguments);
    int n = case_apply(op, c, in, out);
    if (n < 0 || s.n_arguments == 0) {
        return n < 0 ? -1 : 0;
    }
    for (int i = 0; i < n; i++) {
        ones[i] = weft_ones_like(out[i]);
    }
    weft_status status = weft_vjp(case_call, &s, arguments, s.n_arguments, ones, NULL, n, grads);
    /* In one call: evaluating one may release the data of another. */
    status = status == WEFT_OK ? weft_eval_n(grads, s.n_arguments) : status;
    return status == WEFT_OK ? s.n_arguments : -1;
}

static void float32_gradient(const weft_op *op, const weft_case *c)
{
    weft_array *grads[WEFT_MAX_OPERANDS] = {NULL}, *want[WEFT_MAX_OPERANDS] = {NULL};
    char label[256];
    describe(label, sizeof label, op, c, WEFT_FLOAT32, "gradient");
    weft_scope_open();
    int n = sum_gradients(op, c, WEFT_FLOAT32, grads);
    weft_set_default_device(hidden_device());
    int m = sum_gradients(op, c, WEFT_FLOAT64, want);
    weft_set_default_device(tested);
    if (n < 0 || n != m) {
        CHECK_FAIL("%s: %s", label, weft_error_message());
    }
    for (int i = 0; i < n && n == m; i++) {
        compare(grads[i], want[i], 4 * case_tolerance(op, WEFT_FLOAT32), label);
    }
    weft_scope_close(NULL);
}

static void float32_gradients_agree_with_float64(void)
{
    tested = weft_default_device();
    checked = 0;
    for (int i = 0; i < weft_op_count(); i++) {
        const weft_op *op = weft_op_at(i);
        for (int k = 0; k < case_count(op); k++) {
            weft_case c = case_at(op, k);
            if (is_chosen(i) && has_gradient(op) && case_takes(op, WEFT_FLOAT32) &&
                case_takes(op, WEFT_FLOAT64)) {
                float32_gradient(op, &c);
            }
        }
    }
    CHECK(checked > (is_whole() ? 100 : -1));
}

/* ---- vmap ----------------------------------------------------------------------------------- */

enum { EXAMPLES = 3 };

/* The dtype to try the op with: float64 if it may be. */
static weft_dtype mapped_dtype(const weft_op *op)
{
    int d = WEFT_FLOAT64;
    for (int i = 0; i < WEFT_DTYPE_COUNT && !case_takes(op, (weft_dtype)d); i++) {
        d = i;
    }
    return (weft_dtype)d;
}

/* The op over a batch of the inputs named by the bits of `mapped`, against one by one. */
static void mapped(const weft_op *op, const weft_case *c,
                   weft_array *examples[EXAMPLES][WEFT_MAX_OPERANDS], unsigned which)
{
    weft_array *in[WEFT_MAX_OPERANDS], *out[WEFT_MAX_OUTPUTS], *one[WEFT_MAX_OPERANDS];
    weft_array *want[WEFT_MAX_OUTPUTS];
    int axes[WEFT_MAX_OPERANDS];
    char label[256], what[64];
    snprintf(what, sizeof what, "vmap of inputs %#x", which);
    describe(label, sizeof label, op, c, mapped_dtype(op), what);
    case_subject s = {.op = op, .c = c, .fixed = examples[0], .n_arguments = c->n_inputs};
    for (int i = 0; i < c->n_inputs; i++) {
        weft_array *all[EXAMPLES];
        for (int e = 0; e < EXAMPLES; e++) {
            all[e] = examples[e][i];
        }
        s.argument[i] = i;
        axes[i] = which >> i & 1 ? 0 : WEFT_NO_AXIS;
        in[i] = which >> i & 1 ? weft_stack(all, EXAMPLES, 0) : examples[0][i];
    }
    int n = case_apply(op, c, examples[0], want);
    if (n < 0 || weft_vmap(case_call, &s, in, axes, c->n_inputs, out, NULL, n) != WEFT_OK ||
        weft_eval_n(out, n) != WEFT_OK) {
        CHECK_FAIL("%s: %s", label, weft_error_message());
        return;
    }
    for (int e = 0; e < EXAMPLES; e++) {
        weft_array *part[WEFT_MAX_OUTPUTS];
        for (int i = 0; i < c->n_inputs; i++) {
            one[i] = examples[which >> i & 1 ? e : 0][i];
        }
        case_apply(op, c, one, want);
        for (int o = 0; o < n; o++) {
            part[o] = weft_squeeze(weft_slice_axis(out[o], 0, e, e + 1), 0);
        }
        compare_outputs(op, part, want, n, label);
    }
}

static void map_case(const weft_op *op, const weft_case *c)
{
    weft_array *examples[EXAMPLES][WEFT_MAX_OPERANDS];
    weft_dtype dtype = mapped_dtype(op);
    bool made = c->n_inputs > 0 && case_takes(op, dtype);
    weft_scope_open();
    for (int e = 0; e < EXAMPLES && made; e++) {
        made = case_inputs_from(op, c, dtype, dtype, CASE_PLAIN, 99 + (uint64_t)e, examples[e]);
    }
    unsigned all = (1u << c->n_inputs) - 1;
    for (int i = 0; i < c->n_inputs && made; i++) {
        mapped(op, c, examples, 1u << i);
    }
    if (made && c->n_inputs > 1) {
        mapped(op, c, examples, all);
    }
    weft_scope_close(NULL);
}

static void batches_agree_with_one_by_one(void)
{
    tested = weft_default_device();
    checked = 0;
    for (int i = 0; i < weft_op_count(); i++) {
        const weft_op *op = weft_op_at(i);
        for (int k = 0; k < case_count(op) && is_chosen(i); k++) {
            weft_case c = case_at(op, k);
            map_case(op, &c);
        }
    }
    CHECK(checked > (is_whole() ? 1000 : -1));
}

CHECK_MAIN("op_table", CHECK_CASE(every_op_has_cases_and_values),
           CHECK_CASE(gradients_agree_with_finite_differences),
           CHECK_CASE(float32_gradients_agree_with_float64),
           CHECK_CASE(batches_agree_with_one_by_one))
