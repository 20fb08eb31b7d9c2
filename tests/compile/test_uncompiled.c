/* tests/compile/test_uncompiled.c -- compiled functions while compiling is switched off: they
 * compute, draw and refuse the same as when compiled. */
#include "tests/check.h"
#include "weft/compile.h"
#include "weft/ops.h"
#include "weft/random.h"

enum { N = 3 };

static weft_array *row(double first)
{
    return weft_add_scalar(weft_arange(0, N, 1, WEFT_FLOAT32), first);
}

static double total(weft_array *a)
{
    return weft_item(weft_sum(a, WEFT_ALL_AXES, false));
}

/* ---- state ---------------------------------------------------------------------------------- */

typedef struct scene {
    weft_array *w, *v;
    weft_compiled *inner;
    int calls;
} scene;

/* out = sum(x * v); w -> w + x */
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

static void the_function_itself_is_called(void)
{
    scene s = {0};
    weft_compiled *c;
    weft_scope_open();
    CHECK_OK(weft_set(&s.w, row(0)));
    CHECK_OK(weft_set(&s.v, row(1)));
    weft_array **state[] = {&s.w, &s.v};
    CHECK_OK(weft_compile(accumulate, &s, state, 2, NULL, &c));
    weft_compile_enable(false);
    for (int i = 0; i < 3; i++) {
        weft_scope_open();
        weft_array *x = weft_ones(WEFT_DIMS(N), WEFT_FLOAT32), *out;
        CHECK_OK(weft_compiled_call(c, &x, 1, &out, 1));
        CHECK_CLOSE(weft_item(out), 6, 0);
        weft_scope_close(NULL);
    }
    weft_compile_enable(true);
    CHECK_EQ_INT(s.calls, 3);
    CHECK_EQ_INT(weft_compiled_counts(c).calls, 0);
    CHECK_CLOSE(total(s.w), 3 + 9, 0);
    weft_compiled_free(c);
    weft_drop(s.w);
    weft_drop(s.v);
    weft_scope_close(NULL);
}

/* ---- random numbers ------------------------------------------------------------------------- */

static weft_array *uniform(weft_array *x)
{
    return weft_random_uniform(NULL, weft_shape(x), 0, 1, WEFT_FLOAT32);
}

static int draw_two(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context;
    (void)n_in;
    (void)room;
    out[0] = weft_add(in[0], uniform(in[0]));
    out[1] = weft_add(in[0], uniform(in[0]));
    return 2;
}

static int draw_nothing(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context;
    (void)n_in;
    (void)room;
    out[0] = weft_scale(in[0], 2);
    out[1] = weft_scale(in[0], 3);
    return 2;
}

/* Draws inside a checkpoint, in a compiled function if there is one, and by itself. */
static int draw_inside(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    weft_checkpoint(draw_two, NULL, in, n_in, out, room);
    if (context) {
        weft_array *more[2];
        CHECK_OK(weft_compiled_call(context, in, n_in, more, 2));
        out[1] = weft_add(out[1], weft_scale(more[1], 10));
    }
    out[0] = weft_add(out[0], uniform(in[0]));
    return 2;
}

enum { CALLS = 8, DRAWN = (2 * CALLS + 1) * N };

/* The results of successive calls, followed by numbers of the default generator. */
static void draw_in_turn(bool compiled, float *numbers)
{
    weft_compiled *c[4];
    CHECK_OK(weft_compile(draw_two, NULL, NULL, 0, NULL, &c[0]));
    CHECK_OK(weft_compile(draw_nothing, NULL, NULL, 0, NULL, &c[1]));
    CHECK_OK(weft_compile(draw_inside, NULL, NULL, 0, NULL, &c[2]));
    CHECK_OK(weft_compile(draw_inside, c[0], NULL, 0, NULL, &c[3]));
    weft_random_seed(7);
    weft_compile_enable(compiled);
    for (int i = 0; i < CALLS; i++) {
        weft_array *x = row(i), *out[2] = {NULL};
        CHECK_OK(weft_compiled_call(c[i % 4], &x, 1, out, 2));
        for (int k = 0; k < 2; k++)
            CHECK_OK(weft_read(out[k], WEFT_FLOAT32, numbers + (2 * i + k) * N, N));
    }
    weft_compile_enable(true);
    CHECK_OK(weft_read(uniform(row(0)), WEFT_FLOAT32, numbers + 2 * CALLS * N, N));
    for (int i = 0; i < 4; i++)
        weft_compiled_free(c[i]);
}

static void the_same_numbers_are_drawn(void)
{
    float want[DRAWN], got[DRAWN];
    weft_scope_open();
    draw_in_turn(true, want);
    draw_in_turn(false, got);
    CHECK_BYTES(got, want, sizeof got);
    CHECK(want[0] != want[N]);
    CHECK(want[0] != want[8 * N]); /* a call later */
    weft_scope_close(NULL);
}

/* ---- compiled functions inside -------------------------------------------------------------- */

/* Calls another compiled function, and then puts a failed array into a slot. */
static int refused_after_a_call(void *context, weft_array *const *in, int n_in, weft_array **out,
                                int room)
{
    scene *s = context;
    weft_array *more[2];
    (void)room;
    CHECK_OK(weft_compiled_call(s->inner, in, n_in, more, 2));
    CHECK_OK(weft_set(&s->v, weft_add(s->v, more[0])));
    (void)weft_set(&s->w, weft_error_array("no weights")); /* refused, which fails the call */
    out[0] = in[0];
    return 1;
}

static void a_refusal_after_a_nested_call_fails_the_call(void)
{
    for (int compiled = 0; compiled < 2; compiled++) {
        scene s = {0};
        weft_compiled *c;
        weft_scope_open();
        CHECK_OK(weft_set(&s.w, row(0)));
        CHECK_OK(weft_set(&s.v, row(1)));
        weft_array **state[] = {&s.w, &s.v}, *w = s.w, *v = s.v, *x = row(2), *out;
        CHECK_OK(weft_compile(draw_two, NULL, NULL, 0, NULL, &s.inner));
        CHECK_OK(weft_compile(refused_after_a_call, &s, state, 2, NULL, &c));
        weft_compile_enable(compiled);
        CHECK_STATUS(weft_compiled_call(c, &x, 1, &out, 1), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "no weights");
        CHECK(!weft_ok(out));
        weft_compile_enable(true);
        CHECK(s.w == w && s.v == v);
        weft_compiled_free(c);
        weft_compiled_free(s.inner);
        weft_drop(s.w);
        weft_drop(s.v);
        weft_scope_close(NULL);
    }
}

/* The state of a nested function is set when the outer call ends. */
static int accumulate_twice(void *context, weft_array *const *in, int n_in, weft_array **out,
                            int room)
{
    scene *s = context;
    weft_array *once;
    CHECK_OK(weft_compiled_call(s->inner, in, n_in, &once, 1));
    CHECK_OK(weft_compiled_call(s->inner, in, n_in, out, room));
    out[0] = weft_add(out[0], once);
    return 1;
}

static void state_of_a_function_inside_is_set(void)
{
    for (int compiled = 0; compiled < 2; compiled++) {
        scene s = {0};
        weft_compiled *c;
        weft_scope_open();
        CHECK_OK(weft_set(&s.w, row(0)));
        CHECK_OK(weft_set(&s.v, row(1)));
        weft_array **state[] = {&s.w, &s.v};
        CHECK_OK(weft_compile(accumulate, &s, state, 2, NULL, &s.inner));
        CHECK_OK(weft_compile(accumulate_twice, &s, state, 2, NULL, &c));
        weft_compile_enable(compiled);
        for (int i = 0; i < 2; i++) {
            weft_array *x = weft_ones(WEFT_DIMS(N), WEFT_FLOAT32), *out;
            CHECK_OK(weft_compiled_call(c, &x, 1, &out, 1));
            CHECK_CLOSE(weft_item(out), 12, 0);
        }
        weft_compile_enable(true);
        CHECK_CLOSE(total(s.w), 3 + 4 * 3, 0);
        weft_compiled_free(c);
        weft_compiled_free(s.inner);
        weft_drop(s.w);
        weft_drop(s.v);
        weft_scope_close(NULL);
    }
}

CHECK_MAIN("uncompiled", CHECK_CASE(the_function_itself_is_called),
           CHECK_CASE(the_same_numbers_are_drawn),
           CHECK_CASE(a_refusal_after_a_nested_call_fails_the_call),
           CHECK_CASE(state_of_a_function_inside_is_set))
