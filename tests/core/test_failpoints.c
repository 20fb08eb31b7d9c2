/* tests/core/test_failpoints.c -- each allocation of a program that uses all of the core fails
 * once: each time a clean error or the right result, no leak, and a correct second run. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/support/hidden.h"
#include "weft/op.h"
#include "weft/ops.h"
#include "weft/transforms.h"

enum { RESULTS = 10, MOST = 5000 };

/* ---- an op that only has an expansion ------------------------------------------------------- */

static bool infer_same(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    out[0] = *weft_node_spec(weft_node_input(node, 0), 0);
    return true;
}

static void expand_twist(weft_array *node, weft_array **outs)
{
    weft_array *x = weft_node_input(node, 0);
    outs[0] = weft_add(weft_sin(x), weft_add_scalar(weft_square(x), 1));
}

static const weft_op op_twist = {
    .name = "test_twist",
    .family = WEFT_COMPOSITE,
    .arity = 1,
    .infer = infer_same,
    .expand = expand_twist,
};

static weft_array *twist(weft_array *x)
{
    return weft_apply(&op_twist, &x, 1, NULL);
}

/* ---- the program ---------------------------------------------------------------------------- */

static weft_array *total(weft_array *x)
{
    return weft_sum(x, WEFT_ALL_AXES, false);
}

static weft_array *data(int64_t rows, int64_t columns, double start)
{
    double v[32];
    for (int64_t i = 0; i < rows * columns; i++) {
        v[i] = sin(start + (double)i);
    }
    return weft_astype(weft_from_data(v, WEFT_FLOAT64, WEFT_DIMS(rows, columns)), WEFT_FLOAT32);
}

static int layer(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context;
    (void)n_in;
    (void)room;
    out[0] = weft_tanh(weft_matmul(twist(in[0]), in[1]));
    out[1] = in[0];
    return 2;
}

static weft_array *loss(void *context, weft_array *const *in, int n_in)
{
    weft_array *out[2];
    weft_checkpoint(layer, context, in, n_in, out, 2);
    return weft_add(total(out[0]), total(weft_square(out[1])));
}

static weft_status value(weft_array *a, double *out)
{
    return weft_read(a, WEFT_FLOAT64, out, 1);
}

static weft_status plain_ops(weft_array *x, weft_array *w, double *out)
{
    weft_array *start = weft_from_data((int32_t[]){1, 2}, WEFT_INT32, WEFT_DIMS(2));
    weft_array *window = weft_full(WEFT_DIMS(2, 2), 3, WEFT_FLOAT32);
    weft_array *many[12];
    for (int i = 0; i < 12; i++) {
        many[i] = weft_scale(x, i);
    }
    weft_status status = value(total(weft_add(weft_exp(weft_scale(x, 0.5)), x)), &out[0]);
    if (status == WEFT_OK) {
        status = value(total(weft_matmul(weft_swapaxes(x, 0, 1), weft_softmax(x, -1))), &out[1]);
    }
    if (status == WEFT_OK) {
        weft_array *y = weft_slice_update(x, window, start, WEFT_DIMS(0, 1));
        status = value(total(weft_multiply(y, y)), &out[2]);
    }
    if (status == WEFT_OK) {
        status = value(total(twist(weft_concatenate(many, 12, 0))), &out[3]);
    }
    if (status == WEFT_OK) {
        weft_array *hyper =
            weft_from_data((float[]){0.1f, 1, 0.5f, 0.5f, 1}, WEFT_FLOAT32, WEFT_DIMS(5));
        weft_array *next[3], *zeros = weft_zeros_like(w);
        weft_adamw(w, weft_sin(w), zeros, zeros, hyper, 0.9, 0.99, 1e-8, 0.01, next);
        status = value(total(weft_add(next[0], weft_multiply(next[1], next[2]))), &out[4]);
    }
    return status;
}

static weft_status gradient(weft_array *x, weft_array *w, double *out)
{
    weft_array *in[] = {x, w}, *grads[2];
    weft_array *y = weft_value_and_grad(loss, NULL, in, 2, grads);
    weft_status status = weft_eval_n((weft_array *[]){y, grads[0], grads[1]}, 3);
    if (status == WEFT_OK) {
        status = value(weft_add(y, total(weft_square(grads[0]))), &out[0]);
    }
    return status == WEFT_OK ? value(total(weft_square(grads[1])), &out[1]) : status;
}

static weft_status update(weft_array *x, double *out)
{
    weft_array *a = NULL, *b = NULL, **slots[] = {&a, &b};
    weft_status status = weft_set(&a, weft_scale(x, 1));
    if (status == WEFT_OK) {
        status = weft_set(&b, weft_scale(x, 2));
    }
    for (int i = 0; i < 3 && status == WEFT_OK; i++) {
        weft_array *values[] = {weft_add(a, b), a};
        status = weft_update(slots, values, 2);
        if (status == WEFT_OK) {
            status = weft_eval_async((weft_array *[]){weft_exp(a), weft_exp(b)}, 2);
        }
    }
    if (status == WEFT_OK) {
        status = value(total(weft_subtract(a, weft_scale(b, 0.25))), out);
    }
    CHECK_OK(weft_set(&a, NULL));
    CHECK_OK(weft_set(&b, NULL));
    return status;
}

static weft_status second_device(weft_array *x, double *out)
{
    weft_device *hidden = hidden_device();
    if (!hidden) {
        return weft_error_status();
    }
    weft_array *there = weft_to(weft_swapaxes(x, 0, 1), hidden);
    weft_array *y = twist(weft_add(there, weft_scale(there, 3)));
    weft_array *sum = total(y), *back = total(weft_to(y, weft_device_of(x)));
    weft_status status = value(sum, &out[0]);
    return status == WEFT_OK ? value(back, &out[1]) : status;
}

static weft_status program(double out[RESULTS])
{
    memset(out, 0, RESULTS * sizeof *out);
    weft_scope_open();
    weft_array *x = data(3, 4, 1), *w = data(4, 2, 5);
    weft_status status = weft_eval_n((weft_array *[]){x, w}, 2);
    if (status == WEFT_OK) {
        status = plain_ops(x, w, out);
    }
    if (status == WEFT_OK) {
        status = gradient(x, w, out + 5);
    }
    if (status == WEFT_OK) {
        status = update(x, out + 7);
    }
    if (status == WEFT_OK) {
        status = second_device(x, out + 8);
    }
    weft_scope_close(NULL);
    if (weft_default_device()) {
        (void)weft_synchronize(weft_default_device());
    }
    return status;
}

static bool same(const double *a, const double *b)
{
    bool equal = true;
    for (int i = 0; i < RESULTS; i++) {
        equal = equal && fabs(a[i] - b[i]) <= 1e-5 * fmax(1, fabs(b[i]));
    }
    return equal;
}

/* ---- the sweeps ----------------------------------------------------------------------------- */

/* An op that builds a graph answers with an error array of its own: it has no status to choose. */
static bool says_so(void)
{
    return weft_error_status() == WEFT_INVALID && strstr(weft_error_message(), "out of memory");
}

/* Runs the program with allocation n failing; *reached says whether there was one. Returns NULL, or
 * what is wrong. */
static const char *try(uint64_t n, const double *expected, bool *reached)
{
    double out[RESULTS];
    int64_t active = weft_memory_active();
    weft_memory_fail_at(n);
    weft_status status = program(out);
    *reached = weft_memory_fail_at(0) >= n;
    if (status != WEFT_OK && status != WEFT_MEMORY && !says_so()) {
        return weft_error_message();
    }
    if (status != WEFT_OK && !*reached) {
        return "a failure without a failing allocation";
    }
    if (status == WEFT_OK && !same(out, expected)) {
        return "a wrong result";
    }
    if (weft_memory_active() != active) {
        return "memory stays active";
    }
    if (weft_scope_depth() != 0) {
        return "a scope stays open";
    }
    status = program(out);
    return status != WEFT_OK ? weft_error_message() : same(out, expected) ? NULL : "a wrong rerun";
}

/* The results, from a process of its own, so that this one stays fresh. */
static bool expected_results(double *expected)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        double out[RESULTS];
        bool sent = program(out) == WEFT_OK && write(ends[1], out, sizeof out) == sizeof out;
        _exit(sent ? 0 : 1);
    }
    close(ends[1]);
    bool got = read(ends[0], expected, RESULTS * sizeof *expected) == RESULTS * sizeof(double);
    close(ends[0]);
    int status;
    return waitpid(child, &status, 0) == child && got && status == 0;
}

/* What a process allocates once (devices, tapes, its first scope) fails only in a fresh one. */
static void each_allocation_of_a_fresh_process_fails_once(void)
{
    double expected[RESULTS];
    if (!CHECK(expected_results(expected))) {
        return;
    }
    bool reached = true;
    uint64_t n = 0;
    while (reached && ++n < MOST) {
        pid_t child = fork();
        if (child == 0) {
            const char *wrong = try(n, expected, &reached);
            if (wrong) {
                fprintf(stderr, "allocation %llu: %s\n", (unsigned long long)n, wrong);
            }
            _exit(wrong ? 1 : reached ? 0 : 2);
        }
        int status = 1;
        bool ended = waitpid(child, &status, 0) == child && WIFEXITED(status);
        if (!ended || WEXITSTATUS(status) == 1) {
            CHECK_FAIL("allocation %llu of a fresh process: status %x", (unsigned long long)n,
                       (unsigned)status);
        }
        reached = !ended || WEXITSTATUS(status) != 2;
    }
    CHECK(n > 100 && n < MOST);
}

static void each_allocation_fails_once(void)
{
    double expected[RESULTS], again[RESULTS];
    if (!CHECK_OK(program(expected)) || !CHECK_OK(program(again))) {
        return;
    }
    CHECK(same(again, expected));
    int buffers = hidden_live_buffers();
    bool reached = true;
    uint64_t n = 0;
    while (reached && ++n < MOST) {
        const char *wrong = try(n, expected, &reached);
        if (wrong) {
            CHECK_FAIL("allocation %llu: %s", (unsigned long long)n, wrong);
        }
    }
    CHECK(n > 100 && n < MOST);
    weft_memory_clear_cache();
    CHECK(hidden_live_buffers() <= buffers);
    CHECK_EQ_INT(hidden_live_buffers(), 0);
}

CHECK_MAIN("failpoints", CHECK_CASE(each_allocation_of_a_fresh_process_fails_once),
           CHECK_CASE(each_allocation_fails_once))
