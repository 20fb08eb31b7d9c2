/* tests/core/test_eval.c -- scopes, ownership, and which memory an evaluation consumes, reuses and
 * leaves. */
#include "tests/check.h"
#include "weft/backend.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static weft_array *ones(int64_t n)
{
    return weft_ones(WEFT_DIMS(n), WEFT_FLOAT32);
}

static double first(weft_array *a)
{
    return weft_item(weft_slice_axis(a, 0, 0, 1));
}

static void closing_a_scope_frees_all_but_what_moves(void)
{
    weft_scope_open();
    int64_t before = weft_memory_active();
    weft_scope_open();
    weft_array *y = weft_add(ones(1000), ones(1000));
    CHECK_OK(weft_eval(y));
    CHECK_EQ_INT(weft_scope_depth(), 2);
    y = weft_scope_close(y);
    CHECK_EQ_INT(weft_memory_active() - before, 4096);
    CHECK_CLOSE(first(y), 2, 0);
    weft_scope_close(NULL);
    CHECK_EQ_INT(weft_memory_active(), before);
}

static void keep_and_set_own_across_scopes(void)
{
    weft_array *slot = NULL;
    int64_t before = weft_memory_active();
    weft_scope_open();
    weft_array *kept = weft_keep(weft_scale(ones(10), 3));
    CHECK_OK(weft_set(&slot, weft_scale(ones(10), 4)));
    weft_array *bad = weft_error_array("no good");
    weft_array *held = slot;
    CHECK_STATUS(weft_set(&slot, bad), WEFT_INVALID);
    CHECK(slot == held);
    weft_scope_close(NULL);
    weft_scope_open();
    CHECK_CLOSE(first(kept), 3, 0);
    CHECK_CLOSE(first(slot), 4, 0);
    weft_drop(kept);
    weft_array *old = slot;
    CHECK_OK(weft_set(&slot, weft_add(old, old)));
    CHECK_CLOSE(first(slot), 8, 0);
    CHECK_OK(weft_set(&slot, NULL));
    CHECK(slot == NULL);
    weft_scope_close(NULL);
    weft_drop(NULL);
    CHECK_EQ_INT(weft_memory_active(), before);
}

static void consumed_arrays_of_lean_scopes_are_errors(void)
{
    weft_scope_open_lean();
    weft_array *x = weft_exp(ones(4));
    weft_array *y = weft_log(x);
    CHECK_OK(weft_eval(y));
    weft_array *z = weft_add(x, y); /* x was neither kept nor named */
    CHECK(!weft_ok(z));
    CHECK_CONTAINS(weft_error(z), "keep it");
    CHECK_STATUS(weft_eval(x), WEFT_INVALID);
    CHECK_OK(weft_eval(weft_add(y, y))); /* y was named */
    weft_array *p = weft_exp(ones(4)), *q = weft_log(p), *r = weft_sin(p);
    CHECK_OK(weft_eval(q));
    CHECK_OK(weft_eval(r)); /* p still had a user */
    weft_scope_close(NULL);
}

static void a_chain_in_a_lean_scope_runs_in_one_buffer(void)
{
    weft_scope_open_lean();
    weft_array *x = ones(1 << 16);
    for (int i = 0; i < 300; i++) {
        x = weft_add_scalar(x, 1);
    }
    int64_t before = weft_memory_active();
    weft_memory_reset_peak();
    CHECK_OK(weft_eval(x));
    CHECK(weft_memory_peak() - before <= (1 << 18) + (1 << 12));
    CHECK_CLOSE(first(x), 301, 0);
    weft_scope_close(NULL);
}

static void memory_of_held_arrays_is_not_reused(void)
{
    weft_scope_open();
    weft_array *a = weft_keep(weft_scale(ones(100), 5));
    CHECK_OK(weft_eval(a));
    weft_array *view = weft_slice_axis(a, 0, 1, 99);
    weft_array *b = weft_add_scalar(a, 1);
    CHECK_OK(weft_eval_n((weft_array *[]){b, view}, 2));
    CHECK_CLOSE(first(a), 5, 0);
    CHECK_CLOSE(first(view), 5, 0);
    CHECK_CLOSE(first(b), 6, 0);
    weft_array *c = weft_multiply(weft_add_scalar(a, 2), weft_slice_axis(a, 0, 0, 1));
    CHECK_CLOSE(first(c), 35, 0);
    weft_drop(a);
    weft_scope_close(NULL);
}

static void update_reuses_the_old_arrays(void)
{
    weft_array *a = NULL, *b = NULL, **slots[] = {&a, &b};
    weft_scope_open();
    CHECK_OK(weft_set(&a, weft_scale(ones(1 << 16), 1)));
    CHECK_OK(weft_set(&b, weft_scale(ones(1 << 16), 2)));
    CHECK_OK(weft_eval_n((weft_array *[]){a, b}, 2));
    weft_scope_close(NULL);
    weft_memory_reset_peak();
    int64_t before = weft_memory_active();
    for (int i = 0; i < 10; i++) {
        weft_scope_open();
        weft_array *values[] = {weft_add_scalar(a, 1), weft_scale(b, 2)};
        CHECK_OK(weft_update(slots, values, 2));
        weft_scope_close(NULL);
    }
    CHECK(weft_memory_peak() - before < 1 << 16);
    weft_scope_open();
    CHECK_CLOSE(first(a), 11, 0);
    CHECK_CLOSE(first(b), 2048, 0);
    weft_array *values[] = {weft_add_scalar(a, 1), weft_error_array("bad value")};
    CHECK_STATUS(weft_update(slots, values, 2), WEFT_INVALID);
    CHECK_CLOSE(first(a), 11, 0);
    CHECK_OK(weft_set(&a, NULL));
    CHECK_OK(weft_set(&b, NULL));
    weft_scope_close(NULL);
}

static void a_failure_at_the_memory_limit_changes_nothing(void)
{
    weft_scope_open();
    weft_array *x = weft_scale(ones(1 << 16), 3);
    CHECK_OK(weft_eval(x));
    weft_array *y = weft_exp(weft_add(weft_sin(x), weft_cos(x)));
    int64_t before = weft_memory_set_limit(weft_memory_active() + (1 << 17));
    CHECK_STATUS(weft_eval(y), WEFT_MEMORY);
    CHECK_CONTAINS(weft_error_message(), "largest arrays");
    CHECK_CONTAINS(weft_error_message(), "(65536,) float32");
    weft_memory_set_limit(before);
    CHECK_CLOSE(first(x), 3, 0);
    CHECK_OK(weft_eval(y)); /* nothing was lost: the same call works with more room */
    weft_scope_close(NULL);
}

static void async_results_arrive(void)
{
    weft_scope_open();
    weft_array *x = weft_scale(ones(1 << 16), 1);
    for (int i = 0; i < 20; i++) {
        x = weft_add_scalar(x, 1);
        CHECK_OK(weft_eval_async(&x, 1));
    }
    CHECK_CLOSE(first(x), 21, 0);
    weft_array *bad = weft_take(x, weft_scalar_int(1 << 20, WEFT_INT32), 0);
    CHECK_OK(weft_eval_async(&bad, 1));
    CHECK(weft_synchronize(weft_default_device()) != WEFT_OK);
    CHECK_CONTAINS(weft_error_message(), "take");
    CHECK(weft_eval(bad) != WEFT_OK);
    CHECK_OK(weft_eval(weft_add(x, x)));
    weft_scope_close(NULL);
}

static void deep_graphs_need_no_stack(void)
{
    weft_scope_open();
    weft_array *x = ones(1);
    for (int i = 0; i < 200000; i++) {
        weft_scope_open();
        x = weft_scope_close(weft_negative(x));
    }
    CHECK_CLOSE(first(x), 1, 0);
    weft_array *dropped = ones(1);
    for (int i = 0; i < 200000; i++) {
        weft_scope_open();
        dropped = weft_scope_close(weft_negative(dropped));
    }
    CHECK(weft_ok(dropped)); /* never evaluated: freed as a graph */
    weft_scope_close(NULL);
}

static void device_counts_say_how_nodes_ran(void)
{
    weft_scope_open();
    weft_device *cpu = weft_default_device();
    weft_device_reset_counts(cpu);
    weft_array *x = weft_reshape(weft_exp(ones(6)), WEFT_DIMS(2, 3));
    CHECK_OK(weft_eval(x));
    weft_counts counts = weft_device_counts(cpu);
    CHECK_EQ_INT(counts.views, 1);
    CHECK_EQ_INT(counts.elementwise, 1);
    CHECK_EQ_INT(counts.copies, 0);
    weft_scope_close(NULL);
}

CHECK_MAIN("eval", CHECK_CASE(closing_a_scope_frees_all_but_what_moves),
           CHECK_CASE(keep_and_set_own_across_scopes),
           CHECK_CASE(consumed_arrays_of_lean_scopes_are_errors),
           CHECK_CASE(a_chain_in_a_lean_scope_runs_in_one_buffer),
           CHECK_CASE(memory_of_held_arrays_is_not_reused),
           CHECK_CASE(update_reuses_the_old_arrays),
           CHECK_CASE(a_failure_at_the_memory_limit_changes_nothing),
           CHECK_CASE(async_results_arrive), CHECK_CASE(deep_graphs_need_no_stack),
           CHECK_CASE(device_counts_say_how_nodes_ran))
