/* tests/ops/test_complex_gradients.c -- derivatives in complex64 of every op of the table that
 * takes it: gradients and tangents against differences of the values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/cases.h"
#include "weft/ops.h"
#include "weft/random.h"
#include "weft/transforms.h"

enum { MOST = 1 << 14 };

/* A complex array of such a shape with parts in [-1, 1] that depend on the seed. */
static weft_array *direction(weft_dims shape, uint64_t seed)
{
    weft_array *key = weft_random_key(seed);
    weft_array *re, *im;
    weft_random_split_pair(key, &re, &im);
    return weft_complex(weft_random_uniform(re, shape, -1, 1, WEFT_FLOAT32),
                        weft_random_uniform(im, shape, -1, 1, WEFT_FLOAT32));
}

/* The sum of re(conj(x) y), in double; NaN after a failure. */
static double inner(weft_array *x, weft_array *y)
{
    static weft_complex64 a[MOST], b[MOST];
    int64_t n = weft_size(x);
    if (n > MOST || n != weft_size(y) ||
        weft_read(weft_astype(x, WEFT_COMPLEX64), WEFT_COMPLEX64, a, n) != WEFT_OK ||
        weft_read(weft_astype(y, WEFT_COMPLEX64), WEFT_COMPLEX64, b, n) != WEFT_OK) {
        return (double)NAN;
    }
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)a[i].re * (double)b[i].re + (double)a[i].im * (double)b[i].im;
    }
    return sum;
}

/* <cts, outputs> at the arguments moved by `step` along the tangents. */
static double moved(const case_subject *s, weft_array *const *in, weft_array *const *along,
                    double step, weft_array *const *cts, int n_out)
{
    weft_array *at[WEFT_MAX_OPERANDS], *out[WEFT_MAX_OUTPUTS];
    double sum = 0;
    for (int i = 0; i < s->n_arguments; i++) {
        at[i] = weft_add(in[i], weft_scale(along[i], step));
    }
    case_call((void *)s, at, s->n_arguments, out, n_out);
    if (weft_eval_n(out, n_out) != WEFT_OK) {
        return (double)NAN;
    }
    for (int o = 0; o < n_out; o++) {
        sum += cts[o] ? inner(cts[o], out[o]) : 0;
    }
    return sum;
}

/* Evaluates the arrays that are not NULL together: reading one may consume inputs of another. */
static weft_status evaluate(weft_array *const *arrays, int n)
{
    weft_array *some[WEFT_MAX_OUTPUTS];
    int found = 0;
    for (int i = 0; i < n; i++) {
        if (arrays[i]) {
            some[found++] = arrays[i];
        }
    }
    return found > 0 ? weft_eval_n(some, found) : WEFT_OK;
}

static bool is_inexact(weft_dtype dtype)
{
    return weft_dtype_is_float(dtype) || dtype == WEFT_COMPLEX64;
}

static void try_derivatives(const weft_op *op, const weft_case *c, const case_subject *s,
                            weft_array *const *in, weft_array *const *out, int n)
{
    weft_array *along[WEFT_MAX_OPERANDS], *cts[WEFT_MAX_OUTPUTS] = {NULL};
    weft_array *grads[WEFT_MAX_OPERANDS] = {NULL}, *tangents[WEFT_MAX_OUTPUTS] = {NULL};
    double backward = 0, forward = 0, size = 1;
    const double step = 4e-3;
    for (int i = 0; i < s->n_arguments; i++) {
        along[i] = direction(weft_shape(in[i]), 20 + (uint64_t)i);
    }
    for (int o = 0; o < n; o++) {
        weft_array *ct = direction(weft_shape(out[o]), 40 + (uint64_t)o);
        cts[o] = is_inexact(weft_dtype_of(out[o])) ? weft_astype(ct, weft_dtype_of(out[o])) : NULL;
    }
    if (weft_eval_n(along, s->n_arguments) != WEFT_OK || evaluate(cts, n) != WEFT_OK ||
        weft_vjp(case_call, (void *)s, in, s->n_arguments, cts, NULL, n, grads) != WEFT_OK ||
        weft_eval_n(grads, s->n_arguments) != WEFT_OK) {
        CHECK_FAIL("%s (%s): gradient: %s", op->name, c->name, weft_error_message());
        return;
    }
    if (weft_jvp(case_call, (void *)s, in, s->n_arguments, along, NULL, n, tangents) != WEFT_OK ||
        evaluate(tangents, n) != WEFT_OK) {
        CHECK_FAIL("%s (%s): tangent: %s", op->name, c->name, weft_error_message());
        return;
    }
    for (int i = 0; i < s->n_arguments; i++) {
        backward += inner(grads[i], along[i]);
        size += sqrt(inner(grads[i], grads[i]) * inner(along[i], along[i]));
    }
    for (int o = 0; o < n; o++) {
        forward += cts[o] && tangents[o] ? inner(cts[o], tangents[o]) : 0;
    }
    double up = moved(s, in, along, step, cts, n), down = moved(s, in, along, -step, cts, n);
    double difference = (up - down) / (2 * step);
    /* Rounding of float32 over 2 steps, and the third derivative times step^2 / 6. */
    if (!(fabs(backward - difference) <= 3e-3 * size)) {
        CHECK_FAIL("%s (%s): gradient along a direction: expected %.6g, got %.6g", op->name,
                   c->name, difference, backward);
    }
    if (!(fabs(forward - backward) <= 1e-4 * size)) {
        CHECK_FAIL("%s (%s): tangent along a direction: expected %.6g, got %.6g", op->name, c->name,
                   backward, forward);
    }
}

/* Vectors are determined up to a factor: derivatives hold for functions that do not depend on it
 * (weft/linalg.h), which tests/ops/test_linalg_complex.c differentiates. */
static bool has_free_factors(const weft_op *op)
{
    static const char *const names[] = {"eig", "eigh", "svd", "qr"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(op->name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* With many elements some are so close to a branch cut, to a pole or to the next element in order
 * that a step crosses it. */
static bool may_jump(const weft_op *op, const weft_case *c)
{
    bool jumps = op->family == WEFT_ELEMENTWISE || strcmp(op->name, "sort") == 0;
    return (jumps && strcmp(c->name, "long") == 0) ||
           (strcmp(op->name, "topk") == 0 && strcmp(c->name, "few of many") == 0);
}

static int checked;

static void try_case(const weft_op *op, const weft_case *c)
{
    weft_array *in[WEFT_MAX_OPERANDS], *arguments[WEFT_MAX_OPERANDS], *out[WEFT_MAX_OUTPUTS];
    weft_scope_open();
    if (case_inputs(op, c, WEFT_COMPLEX64, WEFT_COMPLEX64, CASE_PLAIN, in) &&
        weft_eval_n(in, c->n_inputs) == WEFT_OK) {
        case_subject s = {.op = op, .c = c, .fixed = in};
        for (int i = 0; i < c->n_inputs; i++) {
            bool constant = op->zero_gradient >> i & 1 || weft_dtype_of(in[i]) != WEFT_COMPLEX64;
            if (!constant) {
                s.argument[s.n_arguments] = i;
                arguments[s.n_arguments++] = in[i];
            }
        }
        int n = case_apply(op, c, in, out);
        bool any = false;
        for (int o = 0; o < n; o++) {
            any = any || is_inexact(weft_dtype_of(out[o]));
        }
        if (any && s.n_arguments > 0 && weft_eval_n(out, n) == WEFT_OK) {
            checked++;
            try_derivatives(op, c, &s, arguments, out, n);
        }
    }
    weft_scope_close(NULL);
}

static void every_op_that_takes_complex_numbers_has_their_derivatives(void)
{
    for (int i = 0; i < weft_op_count(); i++) {
        const weft_op *op = weft_op_at(i);
        for (int k = 0; k < case_count(op); k++) {
            weft_case c = case_at(op, k);
            if (case_takes(op, WEFT_COMPLEX64) && !has_free_factors(op) && !may_jump(op, &c)) {
                try_case(op, &c);
            }
        }
    }
    CHECK(checked > 150);
}

CHECK_MAIN("complex_gradients",
           CHECK_CASE(every_op_that_takes_complex_numbers_has_their_derivatives))
