/* tests/core/test_eval_edges.c -- edge cases of evaluation: failures of other plans, slots named
 * twice, wide nodes, arrays of other threads, evaluation inside an evaluation. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "weft/op.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static weft_array *full(int64_t n, double value)
{
    return weft_full(WEFT_DIMS(n), value, WEFT_FLOAT32);
}

static weft_array *total(weft_array *x)
{
    return weft_sum(x, WEFT_ALL_AXES, false);
}

/* ---- failures ------------------------------------------------------------------------------- */

static weft_array *fails_when_run(weft_array *x)
{
    return weft_take(x, weft_scalar_int(1 << 20, WEFT_INT32), 0);
}

static void a_failure_reaches_only_dependent_arrays(void)
{
    weft_scope_open();
    weft_array *x = full(8, 2);
    CHECK_OK(weft_eval(x));
    weft_array *bad = fails_when_run(x);
    weft_array *depends = weft_add_scalar(bad, 1);
    CHECK_OK(weft_eval_async(&bad, 1));
    CHECK_CLOSE(weft_item(total(weft_square(x))), 32, 0); /* nothing to do with it */
    CHECK(weft_eval(depends) != WEFT_OK);
    CHECK_CONTAINS(weft_error_message(), "take"); /* the cause is named */
    float value;
    CHECK(weft_read(bad, WEFT_FLOAT32, &value, 1) != WEFT_OK);
    CHECK_OK(weft_synchronize(weft_default_device())); /* the failure was reported */
    CHECK_OK(weft_eval(weft_add(x, x)));
    weft_scope_close(NULL);
}

static void a_failed_update_changes_no_slot(void)
{
    weft_array *a = NULL, **slots[] = {&a};
    weft_scope_open();
    CHECK_OK(weft_set(&a, full(8, 1)));
    CHECK_OK(weft_eval(a));
    weft_array *held = a, *bad = fails_when_run(full(8, 1));
    CHECK(weft_update(slots, &bad, 1) != WEFT_OK);
    CHECK(a == held);
    CHECK_CLOSE(weft_item(total(a)), 8, 0);
    CHECK_OK(weft_set(&a, NULL));
    weft_scope_close(NULL);
}

/* ---- slots ---------------------------------------------------------------------------------- */

static void slots_may_be_named_twice_and_values_be_old(void)
{
    weft_array *a = NULL, *b = NULL;
    int64_t active = weft_memory_active();
    weft_scope_open();
    CHECK_OK(weft_set(&a, full(100, 1)));
    CHECK_OK(weft_set(&b, full(100, 2)));
    CHECK_OK(weft_eval_n((weft_array *[]){a, b}, 2));
    weft_array *also = weft_keep(a); /* held by more than its slot */
    weft_array **twice[] = {&a, &a, &b};
    weft_array *values[] = {weft_add_scalar(a, 1), weft_add_scalar(a, 2), a};
    CHECK_OK(weft_update(twice, values, 3));
    CHECK_CLOSE(weft_item(total(a)), 300, 0); /* the last one wins */
    CHECK(b == also);
    CHECK_CLOSE(weft_item(total(b)), 100, 0);
    CHECK_CLOSE(weft_item(total(also)), 100, 0);
    weft_array **swapped[] = {&a, &b};
    CHECK_OK(weft_update(swapped, (weft_array *[]){b, a}, 2));
    CHECK_CLOSE(weft_item(total(a)), 100, 0);
    CHECK_CLOSE(weft_item(total(b)), 300, 0);
    weft_array *view = weft_slice_axis(a, 0, 10, 20), *grown = weft_add_scalar(a, 5);
    CHECK_OK(weft_update(swapped, (weft_array *[]){grown, view}, 2)); /* a view of old a */
    CHECK_CLOSE(weft_item(total(a)), 600, 0);
    CHECK_CLOSE(weft_item(total(b)), 10, 0);
    weft_drop(also);
    CHECK_OK(weft_set(&a, NULL));
    CHECK_OK(weft_set(&b, NULL));
    weft_scope_close(NULL);
    CHECK_EQ_INT(weft_memory_active(), active);
}

static void a_slot_refuses_consumed_arrays(void)
{
    weft_array *slot = NULL;
    weft_scope_open_lean();
    weft_array *x = weft_exp(full(4, 1));
    CHECK_OK(weft_eval(weft_log(x)));
    CHECK_STATUS(weft_set(&slot, x), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "was consumed by an earlier evaluation");
    CHECK(slot == NULL);
    weft_scope_close(NULL);
}

static weft_array *squares(void *context)
{
    return total(weft_square(*(weft_array **)context));
}

static void a_slot_lent_twice_comes_back(void)
{
    weft_array *w = NULL, *grads[2];
    weft_scope_open();
    CHECK_OK(weft_set(&w, full(4, 3)));
    weft_array *held = w, **slots[] = {&w, &w};
    weft_array *y = weft_value_and_grad_slots(squares, &w, slots, 2, grads);
    CHECK(w == held);
    CHECK_CLOSE(weft_item(y), 36, 0);
    CHECK_CLOSE(weft_item(total(grads[1])), 24, 0);
    CHECK_OK(weft_set(&w, NULL));
    weft_scope_close(NULL);
}

/* ---- wide nodes ----------------------------------------------------------------------------- */

enum { MANY = 70 };

static weft_array *joined(void *context, weft_array *const *in, int n_in)
{
    (void)context;
    weft_array *all = weft_concatenate(in, n_in, 0);
    return total(weft_multiply(all, weft_arange(0, MANY * 2, 1, WEFT_FLOAT32)));
}

static void nodes_may_have_many_inputs(void)
{
    weft_scope_open();
    weft_array *in[MANY], *grads[MANY];
    for (int i = 0; i < MANY; i++) {
        in[i] = full(2, i);
    }
    weft_array *y = weft_value_and_grad(joined, NULL, in, MANY, grads);
    CHECK_OK(weft_eval_n(grads, MANY));
    double expected = 0;
    for (int i = 0; i < MANY; i++) {
        expected += i * (4.0 * i + 1);
        CHECK_CLOSE(weft_item(total(grads[i])), 4 * i + 1, 0);
    }
    CHECK_CLOSE(weft_item(y), expected, 0);
    weft_scope_close(NULL);
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

static int hands_on(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context;
    (void)n_in;
    (void)room;
    out[0] = in[0];
    out[1] = weft_square(in[0]);
    return 2;
}

static weft_array *through_checkpoint(void *context, weft_array *const *in, int n_in)
{
    weft_array *out[2];
    weft_checkpoint(hands_on, context, in, n_in, out, 2);
    return total(weft_multiply(out[0], out[1]));
}

static void a_checkpoint_may_return_its_argument(void)
{
    weft_scope_open();
    weft_array *x = full(3, 2), *grad;
    weft_array *y = weft_value_and_grad(through_checkpoint, NULL, &x, 1, &grad);
    CHECK_CLOSE(weft_item(y), 24, 0);
    CHECK_CLOSE(weft_item(total(grad)), 36, 0); /* 3 x^2 three times */
    weft_scope_close(NULL);
}

static void outputs_of_vjp_outlive_it(void)
{
    weft_scope_open();
    weft_array *x = full(3, 2), *outs[2], *grad;
    weft_array *cts[] = {NULL, full(3, 1)};
    CHECK_OK(weft_vjp(hands_on, NULL, &x, 1, cts, outs, 2, &grad));
    CHECK_CLOSE(weft_item(total(outs[1])), 12, 0);
    CHECK_CLOSE(weft_item(total(grad)), 12, 0);
    weft_array *unfit[] = {full(2, 1), NULL};
    CHECK_STATUS(weft_vjp(hands_on, NULL, &x, 1, unfit, outs, 2, &grad), WEFT_INVALID);
    CHECK(outs[0] == NULL && outs[1] == NULL && grad == NULL);
    weft_scope_close(NULL);
}

/* ---- inside an evaluation ------------------------------------------------------------------- */

static bool infer_same(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    out[0] = *weft_node_spec(weft_node_input(node, 0), 0);
    return true;
}

static void expand_evaluates(weft_array *node, weft_array **outs)
{
    weft_array *x = weft_node_input(node, 0);
    outs[0] = weft_eval(full(2, 1)) == WEFT_OK ? x : weft_error_array("%s", weft_error_message());
}

static weft_status kernel_evaluates(const weft_call *call)
{
    (void)call;
    weft_scope_open();
    weft_status status = weft_eval(full(2, 1));
    weft_scope_close(NULL);
    return status;
}

static const weft_op op_expands = {.name = "test_expands",
                                   .family = WEFT_COMPOSITE,
                                   .arity = 1,
                                   .infer = infer_same,
                                   .expand = expand_evaluates};
static const weft_op op_runs = {.name = "test_runs",
                                .family = WEFT_CORE_RANK,
                                .arity = 1,
                                .infer = infer_same,
                                .reference = kernel_evaluates};

static void an_evaluation_inside_one_is_refused(void)
{
    weft_scope_open();
    weft_array *x = full(2, 1);
    CHECK(weft_eval(weft_apply(&op_expands, &x, 1, NULL)) != WEFT_OK);
    CHECK_CONTAINS(weft_error_message(), "inside an evaluation");
    CHECK_STATUS(weft_eval(weft_apply(&op_runs, &x, 1, NULL)), WEFT_UNSUPPORTED);
    weft_array *queued = weft_apply(&op_runs, &x, 1, NULL);
    CHECK_OK(weft_eval_async(&queued, 1));
    CHECK_STATUS(weft_synchronize(weft_default_device()), WEFT_UNSUPPORTED);
    CHECK_CLOSE(weft_item(total(full(2, 1))), 2, 0);
    weft_scope_close(NULL);
}

/* ---- scopes and threads --------------------------------------------------------------------- */

static void deep_scopes_close_in_order(void)
{
    int64_t active = weft_memory_active();
    weft_scope_open();
    weft_array *y = full(4, 0);
    for (int i = 0; i < 100; i++) {
        weft_scope_open();
        y = weft_add_scalar(y, 1);
        CHECK_OK(weft_eval(y));
    }
    CHECK_EQ_INT(weft_scope_depth(), 101);
    for (int i = 0; i < 100; i++) {
        y = weft_scope_close(y);
    }
    CHECK_CLOSE(weft_item(total(y)), 400, 0);
    weft_scope_close(NULL);
    CHECK_EQ_INT(weft_memory_active(), active);
    CHECK_EQ_INT(weft_scope_depth(), 0);
    weft_scope_close(NULL); /* one close too many has no effect */
    CHECK_EQ_INT(weft_scope_depth(), 0);
}

enum { READERS = 6, ROUNDS = 200 };

static weft_array *temporary; /* of the main thread's scope, not kept */
static atomic_int wrong;

static void *read_often(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        double sum;
        float elements[16];
        weft_scope_open();
        weft_status status = weft_read(temporary, WEFT_FLOAT32, elements, 16);
        /* Where the host cannot see a device's memory there is only weft_read. */
        const float *data = weft_data(temporary);
        const bool same = data ? data[15] == 3 : getenv("WEFT_TEST_DEVICE") != NULL;
        status = status == WEFT_OK ? weft_read(total(temporary), WEFT_FLOAT64, &sum, 1) : status;
        if (status != WEFT_OK || elements[7] != 3 || !same || sum != 48) {
            atomic_fetch_add(&wrong, 1);
        }
        weft_scope_close(NULL);
    }
    return NULL;
}

static void temporaries_are_read_by_all_threads(void)
{
    pthread_t threads[READERS];
    int64_t active = weft_memory_active();
    weft_scope_open();
    temporary = full(16, 3);
    CHECK_OK(weft_eval(temporary));
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, read_often, NULL), 0);
    }
    for (int i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
    }
    weft_scope_close(NULL);
    CHECK_EQ_INT(atomic_load(&wrong), 0);
    CHECK_EQ_INT(weft_memory_active(), active); /* no thread held on to it */
}

/* Each thread takes memory from the cache, lends memory and fails now and then. */
static atomic_int lent;

static void give_back(void *context)
{
    (void)context;
    atomic_fetch_sub(&lent, 1);
}

static void *churn(void *unused)
{
    static float memory[256];
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        weft_scope_open();
        atomic_fetch_add(&lent, 1);
        weft_array *x = weft_from_memory(memory, WEFT_FLOAT32, WEFT_DIMS(256), give_back, NULL);
        weft_array *y = total(weft_exp(x));
        weft_array *bad = i % 20 == 0 ? fails_when_run(x) : weft_square(x);
        bool queued = weft_eval_async(&y, 1) == WEFT_OK && weft_eval_async(&bad, 1) == WEFT_OK;
        if (i % 7 == 0) {
            weft_memory_clear_cache();
        }
        if (!queued || (i % 2 && weft_item(y) != 256)) {
            atomic_fetch_add(&wrong, 1);
        }
        weft_scope_close(NULL);
    }
    return NULL;
}

static void threads_share_queues_lent_memory_and_the_cache(void)
{
    pthread_t threads[READERS];
    atomic_store(&wrong, 0);
    int64_t active = weft_memory_active();
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, churn, NULL), 0);
    }
    for (int i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
    }
    (void)weft_synchronize(weft_default_device()); /* failures were injected */
    CHECK_EQ_INT(atomic_load(&wrong), 0);
    CHECK_EQ_INT(atomic_load(&lent), 0);
    CHECK_EQ_INT(weft_memory_active(), active);
}

CHECK_MAIN("eval_edges", CHECK_CASE(a_failure_reaches_only_dependent_arrays),
           CHECK_CASE(a_failed_update_changes_no_slot),
           CHECK_CASE(slots_may_be_named_twice_and_values_be_old),
           CHECK_CASE(a_slot_refuses_consumed_arrays), CHECK_CASE(a_slot_lent_twice_comes_back),
           CHECK_CASE(nodes_may_have_many_inputs), CHECK_CASE(a_checkpoint_may_return_its_argument),
           CHECK_CASE(outputs_of_vjp_outlive_it), CHECK_CASE(an_evaluation_inside_one_is_refused),
           CHECK_CASE(deep_scopes_close_in_order), CHECK_CASE(temporaries_are_read_by_all_threads),
           CHECK_CASE(threads_share_queues_lent_memory_and_the_cache))
