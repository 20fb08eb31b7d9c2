/* tests/core/test_issue.c -- plans that run on a device in succession without waiting: their order,
 * and failures that are found after later plans were issued. */
#include "tests/check.h"
#include "weft/compile.h"
#include "weft/ops.h"
#include "weft/stream.h"

enum { N = 256, CALLS = 300, EACH = 50 };

static weft_array *ones(void)
{
    return weft_ones(WEFT_DIMS(N), WEFT_FLOAT32);
}

typedef struct counter {
    weft_array *total, *latest;
} counter;

/* total = total / 2 + x; latest = the sum of the total. */
static int count(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    counter *c = context;
    (void)n_in, (void)out, (void)room;
    CHECK_OK(weft_set(&c->total, weft_add(weft_scale(c->total, 0.5), in[0])));
    CHECK_OK(weft_set(&c->latest, weft_sum(c->total, WEFT_ALL_AXES, false)));
    return 0;
}

/* Each call reads what the one before it wrote, in the same memory; the host reads results of
 * earlier calls while later ones run. */
static void calls_without_a_wait_keep_their_order(void)
{
    counter c = {0};
    weft_compiled *compiled = NULL;
    weft_scope_open();
    CHECK_OK(weft_set(&c.total, weft_zeros(WEFT_DIMS(N), WEFT_FLOAT32)));
    CHECK_OK(weft_set(&c.latest, weft_scalar(0, WEFT_FLOAT32)));
    weft_array **state[] = {&c.total, &c.latest};
    CHECK_OK(weft_compile(count, &c, state, 2, &(weft_compile_options){.async = true}, &compiled));
    float total = 0, before = 0;
    weft_array *kept = NULL;
    for (int i = 0; i < CALLS; i++) {
        weft_scope_open();
        weft_array *x = weft_full(WEFT_DIMS(N), (double)(i % 7), WEFT_FLOAT32);
        CHECK_OK(weft_eval(x));
        CHECK_OK(weft_compiled_call(compiled, &x, 1, NULL, 0));
        if (kept) { /* a result of the previous call, which later calls do not overwrite */
            CHECK_CLOSE(weft_item(kept), (double)before * N, 0);
            weft_drop(kept);
            kept = NULL;
        }
        total = total / 2 + (float)(i % 7);
        if (i % EACH == 0) {
            kept = weft_keep(c.latest);
            before = total;
        }
        weft_scope_close(NULL);
    }
    CHECK_CLOSE(weft_item(c.latest), (double)total * N, (double)total * N * 1e-6);
    weft_compiled_free(compiled);
    weft_drop(c.total);
    weft_drop(c.latest);
    weft_scope_close(NULL);
}

/* An index out of range is found only when the kernel runs; by then later plans are issued. */
static void only_plans_that_need_a_failed_one_fail(void)
{
    weft_scope_open();
    weft_array *x = ones(), *index = weft_scalar_int(1 << 20, WEFT_INT32);
    CHECK_OK(weft_eval_n((weft_array *[]){x, index}, 2));
    weft_array *bad = weft_take(x, index, 0);
    weft_array *depends = weft_add_scalar(bad, 1), *further = weft_scale(depends, 2);
    weft_array *other = weft_add_scalar(x, 3);
    CHECK_OK(weft_eval_async(&bad, 1));
    CHECK_OK(weft_eval_async(&depends, 1));
    CHECK_OK(weft_eval_async(&further, 1));
    CHECK_OK(weft_eval_async(&other, 1));
    CHECK_STATUS(weft_eval(further), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "1048576");
    CHECK_STATUS(weft_eval(depends), WEFT_INVALID);
    CHECK_STATUS(weft_eval(bad), WEFT_INVALID);
    CHECK_CLOSE(weft_item(weft_sum(other, WEFT_ALL_AXES, false)), 4 * N, 0);
    (void)weft_synchronize(weft_default_device());
    weft_array *again = weft_add_scalar(x, 4); /* the stream continues */
    CHECK_OK(weft_eval_async(&again, 1));
    CHECK_CLOSE(weft_item(weft_sum(again, WEFT_ALL_AXES, false)), 5 * N, 0);
    CHECK_OK(weft_synchronize(weft_default_device()));
    weft_scope_close(NULL);
}

/* A plan of the caller's thread waits for the plans that a stream has issued. */
static void waiting_plans_see_issued_results(void)
{
    weft_scope_open();
    weft_array *x = ones();
    for (int i = 0; i < 40; i++) {
        x = weft_add_scalar(x, 1);
        CHECK_OK(weft_eval_async(&x, 1));
        if (i % 10 == 9) {
            CHECK_CLOSE(weft_item(weft_sum(x, WEFT_ALL_AXES, false)), (i + 2) * N, 0);
        }
    }
    weft_scope_close(NULL);
}

CHECK_MAIN("issue", CHECK_CASE(calls_without_a_wait_keep_their_order),
           CHECK_CASE(only_plans_that_need_a_failed_one_fail),
           CHECK_CASE(waiting_plans_see_issued_results))
