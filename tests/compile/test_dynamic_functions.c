/* tests/compile/test_dynamic_functions.c -- functions of lengths, compiled with dynamic axes,
 * against direct calls: named ones, and 500 random ones at 20 lengths each.
 *
 * WEFT_TEST_FUNCTIONS=N sets the number of random functions, WEFT_TEST_FIRST=N the seed of the
 * first one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/compile/values.h"
#include "weft/compile.h"
#include "weft/fft.h"
#include "weft/ops.h"
#include "weft/random.h"

static weft_array *total(weft_array *x)
{
    return weft_sum(x, WEFT_ALL_AXES, false);
}

/* ---- one call ------------------------------------------------------------------------------- */

/* Calls the function directly, and returns the status that a compiled call would have. */
static weft_status call_plainly(weft_function *fn, void *context, weft_array *const *in, int n_in,
                                weft_array **out, int n_out)
{
    fn(context, in, n_in, out, n_out);
    return weft_eval_n(out, n_out);
}

/* Calls the function both ways: the results must have the same bytes, or both calls must fail. */
static void compare(weft_compiled *c, weft_function *fn, void *context, weft_array *const *in,
                    int n_in, int n_out, const char *what)
{
    weft_array *got[4], *want[4];
    const weft_status expected = call_plainly(fn, context, in, n_in, want, n_out);
    char message[256];
    snprintf(message, sizeof message, "%s", expected == WEFT_OK ? "" : weft_error_message());
    const weft_status status = weft_compiled_call(c, in, n_in, got, n_out);
    if (status != expected) {
        CHECK_FAIL("%s: compiled \"%s\", plain \"%s\"", what,
                   status == WEFT_OK ? "" : weft_error_message(), message);
        return;
    }
    for (int i = 0; i < n_out && status == WEFT_OK; i++)
        check_that(same_elements(got[i], want[i]), __FILE__, __LINE__, "%s: result %d differs",
                   what, i);
}

/* ---- named functions ------------------------------------------------------------------------ */

#define FUNCTION(name)                                                                             \
    static int name(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
#define UNUSED (void)context, (void)n_in, (void)room

/* x is a vector of length L, or a matrix. */
FUNCTION(rounded_down)
{
    UNUSED;
    out[0] = weft_slice_axis(in[0], 0, 0, weft_dim(in[0], 0) / 64 * 64);
    return 1;
}

FUNCTION(at_most_100)
{
    UNUSED;
    const int64_t n = weft_dim(in[0], 0) < 100 ? weft_dim(in[0], 0) : 100;
    out[0] = weft_scale(total(in[0]), (double)n);
    return 1;
}

FUNCTION(longer_than_100)
{
    UNUSED;
    out[0] = weft_dim(in[0], 0) > 100 ? weft_negative(in[0]) : weft_scale(in[0], 2);
    return 1;
}

FUNCTION(last_20)
{
    UNUSED;
    out[0] = weft_slice_axis(in[0], 0, -20, INT64_MAX);
    return 1;
}

FUNCTION(first_6)
{
    UNUSED;
    out[0] = weft_slice_axis(in[0], 0, 0, 6);
    return 1;
}

FUNCTION(there_and_back)
{
    UNUSED;
    out[0] = weft_irfft(weft_rfft(in[0], 0, 0, WEFT_FFT_BACKWARD), 0, 0, WEFT_FFT_BACKWARD);
    return 1;
}

FUNCTION(rolled)
{
    UNUSED;
    out[0] = weft_roll(in[0], WEFT_DIMS(7), WEFT_DIMS(0));
    return 1;
}

FUNCTION(diagonal_and_trace)
{
    UNUSED;
    out[0] = weft_diagonal(in[0], 0, 0, 1);
    out[1] = weft_trace(in[0], 1, 0, 1);
    return 2;
}

FUNCTION(mean_by_length)
{
    UNUSED;
    out[0] = weft_scale(total(in[0]), 1 / (double)weft_size(in[0]));
    out[0] = weft_add(out[0], weft_scalar((double)weft_dim(in[0], 0), WEFT_FLOAT32));
    return 1;
}

FUNCTION(unrolled)
{
    UNUSED;
    out[0] = weft_slice_axis(in[0], 0, 0, 1);
    for (int64_t i = 1; i < weft_dim(in[0], 0); i++)
        out[0] = weft_add(out[0], weft_slice_axis(in[0], 0, i, i + 1));
    return 1;
}

FUNCTION(outer_square)
{
    UNUSED;
    weft_array *x = weft_reshape(in[0], WEFT_DIMS(-1));
    weft_array *all = weft_multiply(weft_expand_dims(x, 1), weft_expand_dims(x, 0));
    out[0] = total(weft_reshape(all, WEFT_DIMS(weft_size(all))));
    return 1;
}

typedef struct named {
    const char *name;
    weft_function *fn;
    int rank, n_out;
    int lengths[8][2]; /* up to the first 0 */
} named;

/* The first functions have one dynamic axis. Their first length is one at which wrong rules would
 * not show: the other lengths test them. */
static const named functions[] = {
    {"L / 64 * 64", rounded_down, 1, 1, {{64}, {65}, {63}, {200}, {128}, {1}}},
    {"min(L, 100)", at_most_100, 1, 1, {{20}, {99}, {100}, {101}, {300}}},
    {"if (L > 100)", longer_than_100, 1, 1, {{20}, {100}, {101}, {300}, {50}}},
    {"x[-20:]", last_20, 1, 1, {{9}, {33}, {20}, {19}, {21}, {1}}},
    {"x[:6]", first_6, 1, 1, {{30}, {5}, {6}, {7}, {3}}},
    {"irfft(rfft(x))", there_and_back, 1, 1, {{30}, {5}, {8}, {31}, {6}, {2}}},
    {"roll", rolled, 1, 1, {{20}, {5}, {7}, {8}, {1}}},
    {"diagonal, trace", diagonal_and_trace, 2, 2, {{5, 9}, {9, 5}, {5, 5}, {1, 4}, {2, 2}}},
    {"mean by length", mean_by_length, 2, 1, {{2, 28}, {3, 4}, {2, 4}, {12, 16}, {9, 9}, {1, 30}}},
    {"unrolled", unrolled, 2, 1, {{3, 4}, {5, 2}, {1, 7}, {16, 12}, {3, 3}}},
    {"outer", outer_square, 2, 1, {{3, 4}, {2, 4}, {12, 16}, {16, 12}, {4, 4}, {5, 3}}},
};

static void named_functions_follow_their_lengths(void)
{
    const uint32_t dynamic[] = {3};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        const named *f = &functions[i];
        weft_compiled *c;
        int n = 0;
        CHECK_OK(weft_compile(f->fn, NULL, NULL, 0,
                              &(weft_compile_options){.dynamic = dynamic, .n_dynamic = 1}, &c));
        for (int round = 0; round < 2; round++) {
            for (n = 0; n < 8 && f->lengths[n][0] > 0; n++) {
                weft_scope_open();
                weft_dims shape = {f->rank, {f->lengths[n][0], f->lengths[n][1]}};
                weft_array *x = numbers(shape, 0.37);
                compare(c, f->fn, NULL, &x, 1, f->n_out, f->name);
                weft_scope_close(NULL);
            }
        }
        CHECK_EQ_INT(weft_compiled_counts(c).compiles, 1);
        CHECK_EQ_INT(weft_compiled_counts(c).traces, n);
        CHECK_EQ_INT(weft_compiled_counts(c).hits, n);
        weft_compiled_free(c);
    }
}

static weft_array *delta_loss(void *context, weft_array *const *in, int n_in)
{
    weft_array *last;
    (void)context;
    (void)n_in;
    weft_array *g = weft_negative(weft_abs(in[3])), *beta = weft_sigmoid(in[4]);
    weft_array *y = weft_gated_delta(in[0], in[1], in[2], g, beta, NULL, &last);
    return weft_add(total(weft_square(y)), total(last));
}

FUNCTION(delta_gradients)
{
    weft_array *grads[5];
    (void)room;
    out[0] = weft_value_and_grad(delta_loss, context, in, n_in, grads);
    out[1] = grads[0];
    out[2] = grads[2];
    out[3] = grads[3];
    return 4;
}

static void gradients_of_gated_delta_follow_their_lengths(void)
{
    static const int lengths[] = {12, 7, 64, 65, 1, 130, 3, 12};
    const uint32_t dynamic[] = {3, 3, 3, 3, 3};
    weft_compiled *c;
    CHECK_OK(weft_compile(delta_gradients, NULL, NULL, 0,
                          &(weft_compile_options){.dynamic = dynamic, .n_dynamic = 5}, &c));
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int64_t B = 1 + (int64_t)i % 2, L = lengths[i];
        weft_scope_open();
        weft_array *in[] = {numbers(WEFT_DIMS(B, L, 2, 4), 0.31),
                            numbers(WEFT_DIMS(B, L, 2, 4), 0.77),
                            numbers(WEFT_DIMS(B, L, 4, 4), 0.53), numbers(WEFT_DIMS(B, L, 4), 0.19),
                            numbers(WEFT_DIMS(B, L, 4), 0.91)};
        compare(c, delta_gradients, NULL, in, 5, 4, "gated delta");
        weft_scope_close(NULL);
    }
    CHECK_EQ_INT(weft_compiled_counts(c).compiles, 1);
    weft_compiled_free(c);
}

/* A slot that only long arguments set: each length has its own effects on state. */
typedef struct effects {
    weft_array *slot;
} effects;

FUNCTION(set_when_long)
{
    effects *e = context;
    (void)n_in;
    (void)room;
    out[0] = weft_add(total(in[0]), e->slot);
    if (weft_dim(in[0], 0) > 10)
        CHECK_OK(weft_set(&e->slot, out[0]));
    return 1;
}

static void effects_on_state_follow_the_lengths(void)
{
    static const int lengths[] = {3, 20, 4, 3, 20, 11};
    static const double results[] = {3, 20, 24, 23, 40, 51};
    const uint32_t dynamic[] = {1};
    effects e = {NULL};
    weft_array **state[] = {&e.slot};
    weft_compiled *c;
    weft_scope_open();
    CHECK_OK(weft_set(&e.slot, weft_scalar(0, WEFT_FLOAT32)));
    CHECK_OK(weft_compile(set_when_long, &e, state, 1,
                          &(weft_compile_options){.dynamic = dynamic, .n_dynamic = 1}, &c));
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        weft_array *x = weft_ones(WEFT_DIMS(lengths[i]), WEFT_FLOAT32), *out;
        CHECK_OK(weft_compiled_call(c, &x, 1, &out, 1));
        CHECK_CLOSE(weft_item(out), results[i], 0);
    }
    CHECK_EQ_INT(weft_compiled_counts(c).compiles, 1);
    CHECK_EQ_INT(weft_compiled_counts(c).traces, 4);
    weft_compiled_free(c);
    weft_drop(e.slot);
    weft_scope_close(NULL);
}

/* ---- random functions ----------------------------------------------------------------------- */

enum { MOST_STEPS = 7, LENGTHS = 20, LARGEST = 1500 };

typedef struct step {
    int kind;
    uint32_t numbers[4]; /* of its integer arithmetic and its choices */
} step;

/* A program of steps: x (n, m) and y (m) to an array, or to the gradient of its sum. */
typedef struct program {
    step steps[MOST_STEPS];
    int n;
    bool gradient;
} program;

static uint32_t draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}

/* An integer that depends on the lengths of the array. */
static int64_t arithmetic(weft_array *x, uint32_t code)
{
    const int64_t a = weft_dim(x, 0), b = weft_ndim(x) > 1 ? weft_dim(x, -1) : weft_size(x);
    const int64_t c = 1 + code / 16 % 13;
    switch (code % 12) {
    case 0:
        return a;
    case 1:
        return a / c;
    case 2:
        return a % c;
    case 3:
        return a < c ? a : c;
    case 4:
        return a > c ? a : c;
    case 5:
        return a - c;
    case 6:
        return b - a;
    case 7:
        return a * b % (c + 5);
    case 8:
        return a / c * c;
    case 9:
        return (a + b) / 2;
    case 10:
        return a == b ? c : -c;
    default:
        return c;
    }
}

static int64_t modulo(int64_t a, int64_t n)
{
    return (a % n + n) % n;
}

static int axis_of(weft_array *x, uint32_t code)
{
    return (int)(code % (uint32_t)(weft_ndim(x) > 0 ? weft_ndim(x) : 1));
}

static weft_array *of_shape(weft_array *x, const step *s)
{
    const int axis = axis_of(x, s->numbers[0]);
    const int64_t a = arithmetic(x, s->numbers[1]), b = arithmetic(x, s->numbers[2]);
    switch (s->kind) {
    case 0:
        return weft_slice_axis(x, axis, a, b);
    case 1:
        return weft_slice(x, WEFT_DIMS(axis), WEFT_DIMS(0), WEFT_DIMS(INT64_MAX),
                          WEFT_DIMS(1 + modulo(a, 3)));
    case 2:
        return weft_pad(x, axis, modulo(a, 6), modulo(b, 4), 0.5);
    case 3:
        return weft_roll(x, WEFT_DIMS(a), WEFT_DIMS(axis));
    case 4:
        return weft_flip(x, WEFT_DIMS(axis));
    case 5:
        return weft_repeat(x, modulo(a, 3), axis);
    case 6:
        return weft_reshape(x, WEFT_DIMS(weft_size(x)));
    case 7:
        return weft_ndim(x) == 2 ? weft_diagonal(x, a - b, 0, 1) : weft_expand_dims(x, 0);
    case 8:
        return weft_ndim(x) == 2 ? weft_transpose(x, WEFT_DIMS(1, 0)) : x;
    case 9:
        return weft_ndim(x) == 2 ? weft_tril(x, a - b) : weft_tile(x, WEFT_DIMS(modulo(b, 3)));
    default:
        return weft_concatenate((weft_array *[]){x, weft_slice_axis(x, axis, 0, modulo(a, 5))}, 2,
                                axis);
    }
}

static weft_array *of_values(weft_array *x, weft_array *y, const step *s)
{
    const int axis = axis_of(x, s->numbers[0]);
    const int64_t a = arithmetic(x, s->numbers[1]), c = s->numbers[3] % 30;
    switch (s->kind) {
    case 11:
        return weft_irfft(weft_rfft(x, 0, axis, WEFT_FFT_BACKWARD), 0, axis, WEFT_FFT_BACKWARD);
    case 12:
        return weft_rfft(x, a, axis, WEFT_FFT_BACKWARD);
    case 13:
        return a > c ? weft_negative(x) : weft_scale(x, 2);
    case 14:
        return weft_scale(x, 1 / (double)(a + c + 40));
    case 15:
        return weft_add(x, weft_arange(0, (double)weft_dim(x, -1), 1, WEFT_FLOAT32));
    case 16:
        return weft_cumsum(x, axis, c % 2, true);
    case 17:
        return weft_softmax(x, axis);
    case 18:
        return weft_mean(x, WEFT_DIMS(axis), c % 2);
    case 19:
        return weft_add(x, weft_trace(weft_add(x, y), a % 4, 0, 1));
    case 20:
        for (int64_t i = 0; i < modulo(a, 5); i++)
            x = weft_add(x, weft_roll(x, WEFT_DIMS(i), WEFT_DIMS(axis)));
        return x;
    case 21:
        return weft_max(x, WEFT_DIMS(axis), true);
    case 22:
        return weft_multiply(x, weft_slice_axis(y, 0, 0, weft_dim(x, -1)));
    default:
        return weft_sort(x, axis);
    }
}

static weft_array *run(const program *p, weft_array *x, weft_array *y)
{
    for (int i = 0; i < p->n && weft_ok(x); i++) {
        x = p->steps[i].kind <= 10 ? of_shape(x, &p->steps[i]) : of_values(x, y, &p->steps[i]);
        if (weft_dtype_of(x) == WEFT_COMPLEX64)
            x = weft_add(weft_real(x), weft_imag(x));
        if (weft_size(x) > LARGEST)
            x = weft_slice_axis(weft_reshape(x, WEFT_DIMS(-1)), 0, 0, LARGEST);
    }
    return x;
}

static weft_array *sum_of_run(void *context, weft_array *const *in, int n_in)
{
    (void)n_in;
    return total(run(context, in[0], in[1]));
}

FUNCTION(run_program)
{
    program *p = context;
    weft_array *grads[2];
    (void)room;
    if (p->gradient) {
        out[1] = weft_value_and_grad(sum_of_run, p, in, n_in, grads);
        out[0] = grads[0];
    } else {
        out[0] = run(p, in[0], in[1]);
        out[1] = total(out[0]);
    }
    return 2;
}

static program random_program(uint64_t seed)
{
    program p = {0};
    p.n = 2 + (int)(draw(&seed) % (MOST_STEPS - 1));
    for (int i = 0; i < p.n; i++) {
        p.steps[i].kind = (int)(draw(&seed) % 24);
        for (int k = 0; k < 4; k++)
            p.steps[i].numbers[k] = draw(&seed);
    }
    p.gradient = draw(&seed) % 3 == 0;
    return p;
}

static int chosen(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

/* How many calls gave results. */
static int compare_program(uint64_t seed)
{
    static const int special[] = {0, 1, 2, 3, 4, 12, 16, 63, 64, 65, 100, 101};
    const uint32_t dynamic[] = {3, 1};
    program p = random_program(seed);
    weft_compiled *c;
    uint64_t state = seed ^ 0x5eed;
    int fine = 0;
    CHECK_OK(weft_compile(run_program, &p, NULL, 0,
                          &(weft_compile_options){.dynamic = dynamic, .n_dynamic = 2}, &c));
    for (int i = 0; i < LENGTHS; i++) {
        char what[96];
        int n[2];
        for (int k = 0; k < 2; k++) {
            const uint32_t any = draw(&state);
            n[k] = any % 4 == 0 ? special[any / 4 % (sizeof special / sizeof *special)]
                                : 1 + (int)(any / 4 % 24);
        }
        weft_scope_open();
        weft_array *in[] = {numbers(WEFT_DIMS(n[0], n[1]), 0.37), numbers(WEFT_DIMS(n[1]), 0.71)};
        snprintf(what, sizeof what, "WEFT_TEST_FIRST=%llu WEFT_TEST_FUNCTIONS=1 at (%d, %d)",
                 (unsigned long long)seed, n[0], n[1]);
        compare(c, run_program, &p, in, 2, 2, what);
        weft_scope_close(NULL);
    }
    const weft_compile_counts counts = weft_compiled_counts(c);
    fine = (int)counts.calls;
    CHECK(counts.compiles <= 1);
    weft_compiled_free(c);
    return fine;
}

static void random_functions_of_lengths_keep_their_values(void)
{
    const int n = chosen("WEFT_TEST_FUNCTIONS", 500), first = chosen("WEFT_TEST_FIRST", 1);
    int fine = 0;
    for (int i = 0; i < n; i++)
        fine += compare_program((uint64_t)(first + i));
    if (getenv("WEFT_TEST_VERBOSE"))
        printf("%d functions, %d calls, of which %d gave results\n", n, n * LENGTHS, fine);
    CHECK(n < 50 || fine > n * LENGTHS / 2);
}

CHECK_MAIN("dynamic_functions", CHECK_CASE(named_functions_follow_their_lengths),
           CHECK_CASE(gradients_of_gated_delta_follow_their_lengths),
           CHECK_CASE(effects_on_state_follow_the_lengths),
           CHECK_CASE(random_functions_of_lengths_keep_their_values))
