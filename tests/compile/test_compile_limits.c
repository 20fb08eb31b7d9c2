/* tests/compile/test_compile_limits.c -- compiled functions that run out of memory, and with a
 * million nodes. */
#include <math.h>
#include <time.h>

#include "tests/check.h"
#include "weft/compile.h"
#include "weft/ops.h"

/* Processor time, since the machine may be busy. */
static double seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

typedef struct state {
    weft_array *w, *m;
} state;

static weft_array *loss_of(void *context)
{
    state *s = context;
    weft_array *x = weft_matmul(s->w, s->w);
    return weft_sum(weft_square(weft_softmax(x, -1)), WEFT_ALL_AXES, false);
}

/* Descent with momentum; one result, two slots. */
static int step(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    state *s = context;
    weft_array **slots[] = {&s->w, &s->m}, *grad, *next[2];
    (void)n_in;
    (void)room;
    out[0] = weft_value_and_grad_slots(loss_of, s, slots, 1, &grad);
    next[1] = weft_add(weft_scale(s->m, 0.5), grad);
    next[0] = weft_subtract(s->w, weft_multiply(in[0], next[1]));
    (void)weft_update(slots, next, 2); /* a refusal fails the call */
    return 1;
}

enum { N = 8 };

static bool start(state *s, weft_compiled **c)
{
    weft_array **slots[] = {&s->w, &s->m};
    weft_array *w = weft_reshape(weft_arange(0, 1, 1.0 / (N * N), WEFT_FLOAT32), WEFT_DIMS(N, N));
    *c = NULL;
    return weft_set(&s->w, w) == WEFT_OK &&
           weft_set(&s->m, weft_zeros(WEFT_DIMS(N, N), WEFT_FLOAT32)) == WEFT_OK &&
           weft_eval(s->w) == WEFT_OK && weft_eval(s->m) == WEFT_OK &&
           weft_compile(step, s, slots, 2, NULL, c) == WEFT_OK;
}

static void end(state *s, weft_compiled *c)
{
    weft_compiled_free(c);
    weft_drop(s->w);
    weft_drop(s->m);
}

static weft_status call(weft_compiled *c, double *loss)
{
    weft_scope_open();
    weft_array *lr = weft_scalar(0.5, WEFT_FLOAT32), *out;
    weft_status status = weft_compiled_call(c, &lr, 1, &out, 1);
    weft_memory_fail_at(0);
    if (status == WEFT_OK) {
        *loss = weft_item(out);
    }
    weft_scope_close(NULL);
    return status;
}

/* Computes the losses of three steps. In the first or in a later call allocation nth fails, and the
 * step is repeated. Returns whether there was such an allocation. */
static bool run(uint64_t nth, int failing, double *losses)
{
    state s = {0};
    weft_compiled *c;
    bool failed = false;
    weft_scope_open();
    if (CHECK(start(&s, &c))) {
        for (int i = 0; i < 3; i++) {
            weft_array *w = s.w, *m = s.m;
            weft_memory_fail_at(i == failing ? nth : 0);
            weft_status status = call(c, &losses[i]);
            weft_memory_fail_at(0);
            if (status != WEFT_OK) {
                failed = true;
                CHECK_EQ_INT(status, WEFT_MEMORY);
                CHECK(s.w == w && s.m == m && weft_is_evaluated(w));
                CHECK_OK(call(c, &losses[i]));
            }
        }
    }
    end(&s, c);
    weft_scope_close(NULL);
    return failed;
}

static void every_allocation_of_a_call_may_fail(void)
{
    double want[3], got[3];
    CHECK(!run(0, -1, want));
    CHECK(want[2] < want[0]);
    for (int failing = 0; failing < 2; failing++) {
        int failures = 0, quiet = 0;
        /* some allocations have fallbacks: the sweep ends when none has failed for a while */
        for (uint64_t nth = 1; quiet < 40 && nth < 5000; nth++) {
            bool failed = run(nth, failing, got);
            failures += failed;
            quiet = failed ? 0 : quiet + 1;
            CHECK_BYTES(got, want, sizeof want);
        }
        CHECK(failures > 5);
        CHECK(quiet == 40);
    }
}

static void without_memory_for_the_plan_nothing_changes(void)
{
    state s = {0};
    weft_compiled *c;
    double loss, want[3];
    run(0, -1, want);
    weft_scope_open();
    if (CHECK(start(&s, &c))) {
        CHECK_OK(call(c, &loss));
        weft_array *w = s.w;
        weft_memory_clear_cache();
        int64_t before = weft_memory_set_limit(weft_memory_active() + 256);
        CHECK_STATUS(call(c, &loss), WEFT_MEMORY);
        CHECK_CONTAINS(weft_error_message(), "memory limit reached");
        weft_memory_set_limit(before);
        CHECK(s.w == w && weft_is_evaluated(w));
        CHECK_OK(call(c, &loss));
        CHECK_CLOSE(loss, want[1], 0);
        CHECK_EQ_INT(weft_compiled_counts(c).compiles, 1);
    }
    end(&s, c);
    weft_scope_close(NULL);
}

/* ---- a long chain --------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LINKS = 100000 };
#else
enum { LINKS = 1000000 };
#endif

static weft_array *chain(void *context, weft_array *const *in, int n_in)
{
    weft_array *x = in[0], *one = context;
    (void)n_in;
    for (int i = 0; i < LINKS; i++) {
        x = i % 2 ? weft_subtract(x, one) : weft_multiply(x, one);
    }
    return weft_sum(x, WEFT_ALL_AXES, false);
}

static int chain_and_gradient(void *context, weft_array *const *in, int n_in, weft_array **out,
                              int room)
{
    (void)room;
    out[0] = weft_value_and_grad(chain, context, in, n_in, &out[1]);
    return 2;
}

static void a_million_nodes_are_compiled_and_freed(void)
{
    weft_compiled *c;
    weft_array *out[2];
    float got[4];
    weft_scope_open();
    weft_array *one = weft_ones(WEFT_DIMS(4), WEFT_FLOAT32);
    weft_array *x = weft_full(WEFT_DIMS(4), 2, WEFT_FLOAT32);
    CHECK_OK(weft_eval(one));
    CHECK_OK(weft_compile(chain_and_gradient, one, NULL, 0, NULL, &c));
    double began = seconds();
    CHECK_OK(weft_compiled_call(c, &x, 1, out, 2));
    double compiled = seconds();
    CHECK_OK(weft_compiled_call(c, &x, 1, out, 2));
    double replayed = seconds();
    CHECK_CLOSE(weft_item(out[0]), 4 * (2 - LINKS / 2), 0);
    CHECK_OK(weft_read(out[1], WEFT_FLOAT32, got, 4));
    CHECK_CLOSE(got[3], 1, 0);
    CHECK(replayed - compiled < (compiled - began) / 2);
    char *text = weft_compile_explain(c);
    CHECK_CONTAINS(text, "traced:");
    weft_compiled_free(c);
    weft_free(text);
    weft_scope_close(NULL);
}

CHECK_MAIN("compile_limits", CHECK_CASE(every_allocation_of_a_call_may_fail),
           CHECK_CASE(without_memory_for_the_plan_nothing_changes),
           CHECK_CASE(a_million_nodes_are_compiled_and_freed))
