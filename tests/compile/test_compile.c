/* tests/compile/test_compile.c -- compiled functions: state, donation, the cache, gradients,
 * nesting, errors. */
#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "weft/backend.h"
#include "weft/compile.h"
#include "weft/ops.h"
#include "weft/random.h"

static weft_array *row(int64_t n, double first)
{
    return weft_add_scalar(weft_arange(0, (double)n, 1, WEFT_FLOAT32), first);
}

static double item(weft_array *a)
{
    double v = weft_item(a);
    CHECK(!isnan(v));
    return v;
}

/* ---- calls ---------------------------------------------------------------------------------- */

typedef struct scene {
    weft_array *w, *v, *other;
    int calls;
} scene;

static void drop_scene(scene *s)
{
    weft_drop(s->w);
    weft_drop(s->v);
    weft_drop(s->other);
}

/* out = sum(x * v); w -> w + x; v is only read */
static int accumulate(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    scene *s = context;
    (void)n_in;
    (void)room;
    s->calls++;
    out[0] = weft_sum(weft_multiply(in[0], s->v), WEFT_ALL_AXES, false);
    CHECK_OK(weft_set(&s->w, weft_add(s->w, in[0])));
    return 1;
}

static void state_is_read_and_written_back(void)
{
    scene s = {0};
    weft_compiled *c;
    weft_scope_open();
    CHECK_OK(weft_set(&s.w, row(4, 0)));
    CHECK_OK(weft_set(&s.v, row(4, 1)));
    weft_array **state[] = {&s.w, &s.v, &s.w};
    CHECK_OK(weft_compile(accumulate, &s, state, 3, NULL, &c));
    for (int i = 1; i <= 5; i++) {
        weft_scope_open();
        weft_array *x = row(4, i), *out;
        CHECK_OK(weft_compiled_call(c, &x, 1, &out, 1));
        CHECK(weft_is_evaluated(out));
        CHECK_CLOSE(item(out), 0 + i + 2 * (1 + i) + 3 * (2 + i) + 4 * (3 + i), 0);
        weft_scope_close(NULL);
    }
    CHECK_EQ_INT(s.calls, 1);
    float w[4];
    CHECK_OK(weft_read(s.w, WEFT_FLOAT32, w, 4));
    CHECK_CLOSE(w[0], 15, 0);
    CHECK_CLOSE(w[3], 3 + 15 + 15, 0);
    weft_compile_counts n = weft_compiled_counts(c);
    CHECK_EQ_INT(n.calls, 5);
    CHECK_EQ_INT(n.traces, 1);
    CHECK_EQ_INT(n.hits, 4);
    CHECK_EQ_INT(n.recompiles, 0);
    weft_compiled_free(c);
    drop_scene(&s);
    weft_scope_close(NULL);
}

static void queued_calls_run_in_order(void)
{
    scene s = {0};
    weft_compiled *c;
    weft_scope_open();
    CHECK_OK(weft_set(&s.w, row(4, 0)));
    CHECK_OK(weft_set(&s.v, row(4, 1)));
    weft_array **state[] = {&s.w, &s.v}, *outs[4];
    CHECK_OK(weft_compile(accumulate, &s, state, 2, &(weft_compile_options){.async = true}, &c));
    for (int i = 0; i < 4; i++) {
        weft_array *x = row(4, i);
        CHECK_OK(weft_compiled_call(c, &x, 1, &outs[i], 1));
    }
    for (int i = 0; i < 4; i++) {
        CHECK_CLOSE(item(outs[i]), 0 + i + 2 * (1 + i) + 3 * (2 + i) + 4 * (3 + i), 0);
    }
    CHECK_CLOSE(item(weft_sum(s.w, WEFT_ALL_AXES, false)), 6 + 4 * 6 + 4 * 6, 0);
    weft_array *last = row(4, 4);
    CHECK_OK(weft_compiled_call(c, &last, 1, &outs[0], 1));
    weft_compiled_free(c); /* which waits */
    CHECK_CLOSE(item(weft_sum(s.w, WEFT_ALL_AXES, false)), 54 + 6 + 16, 0);
    drop_scene(&s);
    weft_scope_close(NULL);
}

/* w -> w * 2 + 1, again and again: the same memory each time */
static int grow(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    scene *s = context;
    (void)in;
    (void)n_in;
    (void)out;
    (void)room;
    CHECK_OK(weft_set(&s->w, weft_add_scalar(weft_scale(s->w, 2), 1)));
    return 0;
}

/* The next call is prepared while one runs: two plans, which both update the state in place. */
static void queued_calls_take_turns(void)
{
    enum { CALLS = 20, N = 1 << 18 };
    scene s = {0};
    weft_compiled *c;
    weft_scope_open();
    CHECK_OK(weft_set(&s.w, weft_zeros(WEFT_DIMS(N), WEFT_FLOAT32)));
    weft_array **state[] = {&s.w};
    CHECK_OK(weft_compile(grow, &s, state, 1, &(weft_compile_options){.async = true}, &c));
    CHECK_OK(weft_eval(s.w));
    const int64_t before = weft_memory_active();
    weft_memory_reset_peak();
    for (int i = 0; i < CALLS; i++)
        CHECK_OK(weft_compiled_call(c, NULL, 0, NULL, 0));
    CHECK_CLOSE(item(weft_max(s.w, WEFT_ALL_AXES, false)), (1 << CALLS) - 1, 0);
    weft_compile_counts counts = weft_compiled_counts(c);
    CHECK_EQ_INT(counts.compiles, 1);
    CHECK(counts.plans <= 2);
    /* The state, and at most two calls that hold a block of its size beside it. */
    CHECK(weft_memory_peak() - before <= 3 * N * (int64_t)sizeof(float));
    weft_compiled_free(c);
    drop_scene(&s);
    weft_scope_close(NULL);
}

static void replaced_state_gives_its_memory(void)
{
    scene s = {0};
    weft_compiled *c;
    weft_scope_open();
    CHECK_OK(weft_set(&s.w, weft_zeros(WEFT_DIMS(1 << 16), WEFT_FLOAT32)));
    weft_array **state[] = {&s.w};
    CHECK_OK(weft_compile(grow, &s, state, 1, NULL, &c));
    CHECK_OK(weft_compiled_call(c, NULL, 0, NULL, 0));
    CHECK_OK(weft_compiled_call(c, NULL, 0, NULL, 0));
    const int64_t before = weft_memory_active();
    weft_memory_reset_peak();
    for (int i = 0; i < 5; i++) {
        CHECK_OK(weft_compiled_call(c, NULL, 0, NULL, 0));
    }
    CHECK(weft_memory_peak() < before + (1 << 18)); /* never two of them at the same time */
    CHECK_EQ_INT(weft_memory_active(), before);
    /* an array that is held elsewhere keeps its elements */
    weft_array *held = weft_keep(s.w);
    CHECK_OK(weft_compiled_call(c, NULL, 0, NULL, 0));
    weft_array *view = weft_slice_axis(s.w, 0, 0, 2);
    CHECK_OK(weft_eval(view));
    CHECK_OK(weft_compiled_call(c, NULL, 0, NULL, 0));
    CHECK_CLOSE(item(weft_max(held, WEFT_ALL_AXES, false)), 127, 0);
    CHECK_CLOSE(item(weft_max(view, WEFT_ALL_AXES, false)), 255, 0);
    CHECK_CLOSE(item(weft_max(s.w, WEFT_ALL_AXES, false)), 511, 0);
    weft_drop(held);
    /* a lazy array that needs it, too */
    weft_array *lazy = weft_scale(s.w, 10);
    CHECK_OK(weft_compiled_call(c, NULL, 0, NULL, 0));
    CHECK_CLOSE(item(weft_min(lazy, WEFT_ALL_AXES, false)), 5110, 0);
    weft_compiled_free(c);
    drop_scene(&s);
    weft_scope_close(NULL);
}

static void the_same_array_as_argument_and_state(void)
{
    scene s = {0};
    weft_compiled *c;
    weft_scope_open();
    CHECK_OK(weft_set(&s.w, row(3, 1)));
    CHECK_OK(weft_set(&s.v, row(3, 1)));
    weft_array **state[] = {&s.w, &s.v};
    CHECK_OK(weft_compile(accumulate, &s, state, 2, NULL, &c));
    for (int i = 0; i < 3; i++) {
        weft_array *out;
        CHECK_OK(weft_compiled_call(c, &s.w, 1, &out, 1)); /* w doubles */
        CHECK_CLOSE(item(out), 14 * (1 << i), 0);
    }
    CHECK_CLOSE(item(weft_sum(s.w, WEFT_ALL_AXES, false)), 6 * 8, 0);
    weft_compiled_free(c);
    drop_scene(&s);
    weft_scope_close(NULL);
}

/* two slots change places; one is emptied, one filled */
static int shuffle(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    scene *s = context;
    (void)in;
    (void)n_in;
    (void)room;
    weft_array *w = weft_keep(s->w);
    CHECK_OK(weft_set(&s->w, s->v));
    CHECK_OK(weft_set(&s->v, w));
    weft_drop(w);
    if (s->other) {
        out[0] = weft_add(s->other, s->w);
        CHECK_OK(weft_set(&s->other, NULL));
    } else {
        CHECK_OK(weft_set(&s->other, weft_add(s->w, s->v)));
        out[0] = s->w;
    }
    return 1;
}

static void slots_are_swapped_filled_and_emptied(void)
{
    scene s = {0};
    weft_compiled *c;
    weft_scope_open();
    CHECK_OK(weft_set(&s.w, row(2, 1)));
    CHECK_OK(weft_set(&s.v, row(2, 10)));
    weft_array **state[] = {&s.w, &s.v, &s.other};
    CHECK_OK(weft_compile(shuffle, &s, state, 3, NULL, &c));
    for (int i = 0; i < 6; i++) {
        weft_array *out;
        CHECK_OK(weft_compiled_call(c, NULL, 0, &out, 1));
        double w = i % 2 ? 1 : 10;
        CHECK_CLOSE(item(weft_min(s.w, WEFT_ALL_AXES, false)), w, 0);
        CHECK_CLOSE(item(weft_min(s.v, WEFT_ALL_AXES, false)), 11 - w, 0);
        CHECK((s.other != NULL) == (i % 2 == 0));
        CHECK_CLOSE(item(weft_min(out, WEFT_ALL_AXES, false)), i % 2 ? 12 : 10, 0);
    }
    CHECK_EQ_INT(weft_compiled_counts(c).compiles, 2);
    weft_compiled_free(c);
    drop_scene(&s);
    weft_scope_close(NULL);
}

/* ---- the cache ------------------------------------------------------------------------------ */

static int square(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in;
    (void)room;
    ++*(int *)context;
    out[0] = weft_sum(weft_square(in[0]), WEFT_ALL_AXES, false);
    return 1;
}

static void call_with(weft_compiled *c, weft_array *x)
{
    weft_array *out = NULL, *want = weft_sum(weft_square(x), WEFT_ALL_AXES, false);
    CHECK_OK(weft_compiled_call(c, &x, 1, &out, 1));
    CHECK_CLOSE(item(out), item(want), 0);
}

static void the_cache_is_bounded_and_the_latest_stay(void)
{
    int calls = 0;
    weft_compiled *c;
    weft_scope_open();
    CHECK_OK(weft_compile(square, &calls, NULL, 0, &(weft_compile_options){.cache = 2}, &c));
    call_with(c, row(3, 0));
    call_with(c, row(4, 0));
    call_with(c, row(3, 1));
    CHECK_EQ_INT(calls, 2);
    call_with(c, row(5, 0)); /* 4 goes */
    CHECK_EQ_INT(weft_compiled_counts(c).evictions, 1);
    call_with(c, row(3, 2));
    CHECK_EQ_INT(calls, 3);
    call_with(c, row(4, 0));
    CHECK_EQ_INT(calls, 4);
    call_with(c, weft_astype(row(4, 0), WEFT_FLOAT64));
    call_with(c, weft_reshape(row(4, 0), WEFT_DIMS(2, 2)));
    weft_compile_counts n = weft_compiled_counts(c);
    CHECK_EQ_INT(n.compiles, 6);
    CHECK_EQ_INT(n.recompiles, 5);
    CHECK_EQ_INT(n.evictions, 4);
    CHECK_EQ_INT(n.hits, 2);
    weft_compiled_free(c);
    weft_scope_close(NULL);
}

static void each_layout_has_a_plan(void)
{
    int calls = 0;
    weft_compiled *c;
    weft_scope_open();
    CHECK_OK(weft_compile(square, &calls, NULL, 0, NULL, &c));
    weft_array *x = weft_reshape(row(6, 0), WEFT_DIMS(2, 3));
    weft_array *y = weft_transpose(weft_reshape(row(6, 0), WEFT_DIMS(3, 2)), WEFT_DIMS(1, 0));
    weft_array *z = weft_slice_axis(weft_reshape(row(9, 0), WEFT_DIMS(3, 3)), 0, 1, 3);
    for (int i = 0; i < 3; i++) {
        call_with(c, x);
        call_with(c, y);
        call_with(c, z);
        call_with(c, weft_broadcast_to(row(3, i), WEFT_DIMS(2, 3)));
    }
    CHECK_EQ_INT(calls, 1);
    CHECK_EQ_INT(weft_compiled_counts(c).plans, 3);
    call_with(c, weft_zeros(WEFT_DIMS(0, 3), WEFT_FLOAT32));
    call_with(c, weft_scalar(3, WEFT_FLOAT32));
    CHECK_EQ_INT(calls, 3);
    weft_compiled_free(c);
    weft_scope_close(NULL);
}

/* ---- random numbers ------------------------------------------------------------------------- */

static int draw_two(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in;
    (void)room;
    ++*(int *)context;
    out[0] = weft_add(in[0], weft_random_uniform(NULL, weft_shape(in[0]), 0, 1, WEFT_FLOAT32));
    out[1] = weft_add(in[0], weft_random_uniform(NULL, weft_shape(in[0]), 0, 1, WEFT_FLOAT32));
    return 2;
}

static void draw(weft_compiled *c, int64_t n, double *sums)
{
    weft_array *x = weft_zeros(WEFT_DIMS(n), WEFT_FLOAT32), *out[2] = {NULL};
    CHECK_OK(weft_compiled_call(c, &x, 1, out, 2));
    for (int i = 0; i < 2; i++) {
        sums[i] = item(weft_mean(out[i], WEFT_ALL_AXES, false));
        CHECK(sums[i] > 0.2 && sums[i] < 0.8);
    }
}

static void each_call_draws_new_random_numbers(void)
{
    int calls = 0;
    double sums[4][2], again[4][2];
    weft_compiled *c;
    const uint32_t dynamic[] = {1};
    weft_scope_open();
    for (int k = 0; k < 2; k++) {
        double(*drawn)[2] = k ? again : sums;
        calls = 0;
        CHECK_OK(weft_compile(draw_two, &calls, NULL, 0,
                              &(weft_compile_options){.dynamic = dynamic, .n_dynamic = 1}, &c));
        weft_random_seed(7);
        for (int i = 0; i < 4; i++) {
            draw(c, 64 + 8 * (i / 2), drawn[i]);
        }
        CHECK_EQ_INT(calls, 2); /* once for each length */
        CHECK_EQ_INT(weft_compiled_counts(c).compiles, 1);
        weft_compiled_free(c);
    }
    CHECK(sums[0][0] != sums[0][1]);
    CHECK(sums[0][0] != sums[1][0]);
    CHECK(sums[2][0] != sums[3][0]);
    CHECK_BYTES(sums, again, sizeof sums);
    weft_scope_close(NULL);
}

/* ---- transforms ----------------------------------------------------------------------------- */

static int through_compiled(void *context, weft_array *const *in, int n_in, weft_array **out,
                            int room)
{
    CHECK_OK(weft_compiled_call(context, in, n_in, out, room));
    return weft_compiled_n_results(context);
}

static weft_array *loss_through_compiled(void *context, weft_array *const *in, int n_in)
{
    weft_array *out;
    CHECK_OK(weft_compiled_call(context, in, n_in, &out, 1));
    return out;
}

static void compiled_functions_are_differentiated_and_nested(void)
{
    int calls = 0;
    weft_compiled *c, *outer;
    weft_scope_open();
    CHECK_OK(weft_compile(square, &calls, NULL, 0, NULL, &c));
    CHECK_OK(weft_compile(through_compiled, c, NULL, 0, NULL, &outer));
    weft_array *x = row(3, 1), *grad, *out;
    call_with(c, x);
    CHECK_CLOSE(item(weft_value_and_grad(loss_through_compiled, c, &x, 1, &grad)), 14, 0);
    CHECK_CLOSE(item(weft_max(grad, WEFT_ALL_AXES, false)), 6, 0);
    CHECK_EQ_INT(weft_compiled_counts(c).inlined, 1);
    CHECK_OK(weft_compiled_call(outer, &x, 1, &out, 1));
    CHECK_CLOSE(item(out), 14, 0);
    CHECK_EQ_INT(weft_compiled_counts(outer).calls, 1);
    CHECK_EQ_INT(weft_compiled_counts(c).inlined, 2);
    CHECK_CLOSE(item(weft_value_and_grad(loss_through_compiled, outer, &x, 1, &grad)), 14, 0);
    CHECK_CLOSE(item(weft_min(grad, WEFT_ALL_AXES, false)), 2, 0);
    weft_array *rows = weft_reshape(row(6, 1), WEFT_DIMS(2, 3)), *mapped = NULL;
    CHECK_OK(weft_vmap(through_compiled, c, &rows, NULL, 1, &mapped, NULL, 1));
    float got[2];
    CHECK_OK(weft_read(mapped, WEFT_FLOAT32, got, 2));
    CHECK_CLOSE(got[0], 14, 0);
    CHECK_CLOSE(got[1], 77, 0);
    weft_array *one = weft_ones_like(x), *tangent = NULL;
    CHECK_OK(weft_jvp(through_compiled, c, &x, 1, &one, &out, 1, &tangent));
    CHECK_CLOSE(item(tangent), 12, 0);
    weft_compiled_free(outer);
    weft_compiled_free(c);
    weft_scope_close(NULL);
}

static weft_array *squared_error(void *context)
{
    scene *s = context;
    return weft_sum(weft_square(weft_subtract(s->w, s->v)), WEFT_ALL_AXES, false);
}

/* One step of gradient descent on |w - v|^2 */
static int descend(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    scene *s = context;
    (void)n_in;
    (void)room;
    weft_array **slots[] = {&s->w}, *grad;
    s->calls++;
    out[0] = weft_value_and_grad_slots(squared_error, s, slots, 1, &grad);
    weft_array *next = weft_subtract(s->w, weft_multiply(in[0], grad));
    CHECK_OK(weft_update(slots, &next, 1));
    return 1;
}

static void a_step_with_its_gradient_inside(void)
{
    scene s = {0};
    weft_compiled *c;
    weft_scope_open();
    CHECK_OK(weft_set(&s.w, row(8, 1)));
    CHECK_OK(weft_set(&s.v, row(8, 0)));
    weft_array **state[] = {&s.w}; /* v is a constant */
    CHECK_OK(weft_compile(descend, &s, state, 1, NULL, &c));
    double loss = 8;
    for (int i = 0; i < 4; i++) {
        weft_scope_open();
        weft_array *lr = weft_scalar(i < 2 ? 0.25 : 0.5, WEFT_FLOAT32), *out;
        CHECK_OK(weft_compiled_call(c, &lr, 1, &out, 1));
        CHECK_CLOSE(item(out), loss, 0);
        loss *= i < 2 ? 0.25 : 0;
        weft_scope_close(NULL);
    }
    CHECK_EQ_INT(s.calls, 1);
    weft_compiled_free(c);
    drop_scene(&s);
    weft_scope_close(NULL);
}

/* ---- errors --------------------------------------------------------------------------------- */

static void expect_refusal(weft_function *fn, scene *s, weft_array ***state, int n,
                           const char *message)
{
    weft_compiled *c;
    const char *names[] = {"model.w", "model.v"};
    weft_array *x = row(4, 0), *out = NULL;
    CHECK_OK(weft_compile(fn, s, state, n,
                          &(weft_compile_options){.name = "step", .state_names = names}, &c));
    CHECK_STATUS(weft_compiled_call(c, &x, 1, &out, 1), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), message);
    CHECK(out && !weft_ok(out));
    CHECK_CONTAINS(weft_error(out), message);
    CHECK_EQ_INT(weft_compiled_counts(c).compiles, 0);
    weft_compiled_free(c);
}

static int sets_what_is_not_listed(void *context, weft_array *const *in, int n_in, weft_array **out,
                                   int room)
{
    scene *s = context;
    (void)n_in;
    (void)room;
    out[0] = in[0];
    (void)weft_set(&s->v, in[0]); /* refused, which fails the call */
    return 1;
}

static int keeps_what_it_computes(void *context, weft_array *const *in, int n_in, weft_array **out,
                                  int room)
{
    scene *s = context;
    (void)n_in;
    (void)room;
    out[0] = in[0];
    s->other = weft_keep(weft_add(s->w, s->w));
    return 1;
}

static int reads_an_argument(void *context, weft_array *const *in, int n_in, weft_array **out,
                             int room)
{
    (void)context;
    (void)n_in;
    (void)room;
    out[0] = weft_item(weft_sum(in[0], WEFT_ALL_AXES, false)) > 0
                 ? in[0]
                 : weft_error_array("the sum could not be read: %s", weft_error_message());
    return 1;
}

static int does_not_fit(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    scene *s = context;
    (void)n_in;
    (void)room;
    out[0] = weft_add(in[0], weft_zeros(WEFT_DIMS(3), WEFT_FLOAT32));
    CHECK_OK(weft_set(&s->w, in[0]));
    return 1;
}

static void functions_that_cannot_be_compiled_are_refused(void)
{
    scene s = {0};
    weft_scope_open();
    CHECK_OK(weft_set(&s.w, row(4, 1)));
    CHECK_OK(weft_set(&s.v, row(4, 10)));
    weft_array **state[] = {&s.w}, *w = s.w, *v = s.v;
    expect_refusal(sets_what_is_not_listed, &s, state, 1,
                   "step: the function sets a slot that is not in its state list");
    CHECK(s.v == v);
    expect_refusal(keeps_what_it_computes, &s, state, 1,
                   "step: the function keeps an array that depends on state 0 (model.w)");
    expect_refusal(reads_an_argument, &s, state, 1, "cannot read elements");
    expect_refusal(does_not_fit, &s, state, 1, "shapes do not broadcast");
    CHECK(s.w == w);
    CHECK_CLOSE(item(weft_sum(s.w, WEFT_ALL_AXES, false)), 10, 0);
    drop_scene(&s);
    weft_scope_close(NULL);
}

/* take with an index out of range: the first kernel that fails */
static int fails_while_running(void *context, weft_array *const *in, int n_in, weft_array **out,
                               int room)
{
    scene *s = context;
    (void)n_in;
    (void)room;
    out[0] = weft_take(s->v, in[0], 0);
    CHECK_OK(weft_set(&s->w, weft_add(s->w, out[0])));
    return 1;
}

static void a_kernel_that_fails_is_reported(void)
{
    scene s = {0};
    weft_compiled *c;
    weft_scope_open();
    CHECK_OK(weft_set(&s.w, row(2, 1)));
    CHECK_OK(weft_set(&s.v, row(4, 10)));
    weft_array **state[] = {&s.w};
    CHECK_OK(weft_compile(fails_while_running, &s, state, 1, NULL, &c));
    int32_t good[] = {1, 3}, bad[] = {1, 7};
    weft_array *x = weft_from_data(good, WEFT_INT32, WEFT_DIMS(2)), *out;
    CHECK_OK(weft_compiled_call(c, &x, 1, &out, 1));
    CHECK_CLOSE(item(weft_sum(s.w, WEFT_ALL_AXES, false)), 3 + 24, 0);
    x = weft_from_data(bad, WEFT_INT32, WEFT_DIMS(2));
    CHECK(weft_compiled_call(c, &x, 1, &out, 1) != WEFT_OK);
    CHECK_CONTAINS(weft_error_message(), "take");
    CHECK(!weft_ok(out));
    CHECK_OK(weft_set(&s.w, row(2, 1)));
    x = weft_from_data(good, WEFT_INT32, WEFT_DIMS(2));
    CHECK_OK(weft_compiled_call(c, &x, 1, &out, 1));
    CHECK_CLOSE(item(weft_sum(s.w, WEFT_ALL_AXES, false)), 3 + 24, 0);
    weft_compiled_free(c);
    drop_scene(&s);
    weft_scope_close(NULL);
}

CHECK_MAIN("compile", CHECK_CASE(state_is_read_and_written_back),
           CHECK_CASE(replaced_state_gives_its_memory), CHECK_CASE(queued_calls_run_in_order),
           CHECK_CASE(queued_calls_take_turns), CHECK_CASE(the_same_array_as_argument_and_state),
           CHECK_CASE(slots_are_swapped_filled_and_emptied),
           CHECK_CASE(the_cache_is_bounded_and_the_latest_stay), CHECK_CASE(each_layout_has_a_plan),
           CHECK_CASE(each_call_draws_new_random_numbers),
           CHECK_CASE(compiled_functions_are_differentiated_and_nested),
           CHECK_CASE(a_step_with_its_gradient_inside),
           CHECK_CASE(functions_that_cannot_be_compiled_are_refused),
           CHECK_CASE(a_kernel_that_fails_is_reported))
