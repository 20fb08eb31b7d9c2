/* tests/core/test_lifetime.c -- an array is readable until its scope closes: reads in any order,
 * which arrays stay stored, which are recomputed, and the memory that this takes. */
#include <math.h>

#include "core/eval/plan.h"
#include "tests/check.h"
#include "weft/backend.h"
#include "weft/compile.h"
#include "weft/ops.h"
#include "weft/random.h"
#include "weft/transforms.h"

enum { LARGE = 1 << 16, LARGE_BYTES = 4 * LARGE };

static weft_array *total(weft_array *x)
{
    return weft_sum(x, WEFT_ALL_AXES, false);
}

static weft_array *uniform(int64_t n)
{
    return weft_random_uniform(NULL, WEFT_DIMS(n), 0, 1, WEFT_FLOAT32);
}

/* ---- what users write in their first hour --------------------------------------------------- */

static void a_random_array_is_readable_after_arrays_that_depend_on_it(void)
{
    float x_values[8];
    weft_scope_open();
    weft_array *x = uniform(8), *y = total(x);
    const double sum = weft_item(y);
    CHECK_OK(weft_read(x, WEFT_FLOAT32, x_values, 8));
    double again = 0;
    for (int i = 0; i < 8; i++) {
        again += (double)x_values[i];
    }
    CHECK_CLOSE(sum, again, 1e-6); /* float32 sums in another order */
    CHECK_CLOSE(weft_item(y), sum, 0);
    weft_scope_close(NULL);
}

static weft_array *energy(void *context, weft_array *const *in, int n)
{
    (void)context, (void)n;
    return total(weft_multiply(weft_tanh(in[0]), weft_square(in[1])));
}

static void gradients_are_readable_one_after_another(void)
{
    weft_array *in[2], *grads[2], *value;
    float first[4], second[4], first_again[4];
    weft_scope_open();
    in[0] = uniform(4);
    in[1] = weft_add(in[0], weft_scalar(1, WEFT_FLOAT32));
    value = weft_value_and_grad(energy, NULL, in, 2, grads);
    CHECK_OK(weft_read(grads[0], WEFT_FLOAT32, first, 4));
    CHECK_OK(weft_read(grads[1], WEFT_FLOAT32, second, 4));
    CHECK_OK(weft_eval(value));
    CHECK_OK(weft_read(grads[0], WEFT_FLOAT32, first_again, 4));
    CHECK_BYTES(first_again, first, sizeof first);
    for (int i = 0; i < 4; i++) {
        float x[4];
        CHECK_OK(weft_read(in[0], WEFT_FLOAT32, x, 4));
        CHECK_CLOSE(second[i], 2 * tanh((double)x[i]) * ((double)x[i] + 1), 1e-5);
    }
    weft_scope_close(NULL);
}

static void both_outputs_of_an_op_are_readable(void)
{
    weft_array *q, *r;
    float values[9];
    weft_scope_open();
    weft_array *a = weft_reshape(uniform(9), WEFT_DIMS(3, 3));
    weft_qr(a, false, &q, &r);
    CHECK_OK(weft_read(q, WEFT_FLOAT32, values, 9));
    CHECK_OK(weft_read(r, WEFT_FLOAT32, values, 9));
    weft_array *error =
        weft_max(weft_abs(weft_subtract(weft_matmul(q, r), a)), WEFT_ALL_AXES, false);
    CHECK(weft_item(error) < 1e-5);
    CHECK_OK(weft_read(a, WEFT_FLOAT32, values, 9));
    weft_scope_close(NULL);
}

/* ---- slots ---------------------------------------------------------------------------------- */

static void an_array_is_readable_after_it_has_left_its_slot(void)
{
    weft_array *slot = NULL;
    weft_scope_open();
    weft_array *x = weft_scale(uniform(4), 2);
    CHECK_OK(weft_eval(x));
    const double before = weft_item(total(x));
    CHECK_OK(weft_set(&slot, x));
    CHECK_OK(weft_set(&slot, weft_scale(x, 3)));
    CHECK_CLOSE(weft_item(total(slot)), 3 * before, 1e-5);
    CHECK_CLOSE(weft_item(total(x)), before, 0);
    weft_array *value = weft_scale(slot, 2), **slots[] = {&slot}, *left = slot;
    CHECK_OK(weft_update(slots, &value, 1));
    CHECK_CLOSE(weft_item(total(slot)), 6 * before, 1e-5);
    CHECK_CLOSE(weft_item(total(left)), 3 * before, 1e-5);
    CHECK_OK(weft_set(&slot, NULL));
    weft_scope_close(NULL);
}

/* An array that only a slot owned gives its memory to the value that replaces it. */
static void arrays_that_only_a_slot_owned_are_consumed(void)
{
    weft_array *slot = NULL;
    weft_scope_open();
    CHECK_OK(weft_set(&slot, weft_scale(uniform(LARGE), 2)));
    CHECK_OK(weft_eval(slot));
    weft_scope_close(NULL);
    weft_memory_reset_peak();
    const int64_t before = weft_memory_active();
    for (int i = 0; i < 8; i++) {
        weft_scope_open();
        CHECK_OK(weft_set(&slot, weft_add_scalar(slot, 1)));
        CHECK_OK(weft_eval(slot));
        weft_scope_close(NULL);
    }
    CHECK(weft_memory_peak() - before < LARGE_BYTES / 2);
    CHECK_EQ_INT(weft_memory_active(), before);
    weft_scope_open();
    weft_array *old = slot;
    CHECK_OK(weft_set(&slot, weft_add_scalar(slot, 1)));
    CHECK_OK(weft_eval(slot));
    CHECK_STATUS(weft_eval(old), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "after it left its slot");
    CHECK_OK(weft_set(&slot, NULL));
    weft_scope_close(NULL);
}

static int double_the_slot(void *context, weft_array *const *in, int n_in, weft_array **out,
                           int room)
{
    weft_array **slot = context;
    (void)in, (void)n_in, (void)room;
    CHECK_OK(weft_set(slot, weft_scale(*slot, 2)));
    out[0] = total(*slot);
    return 1;
}

/* A compiled function overwrites state that only a slot owns, and no array of a scope. */
static void compiled_functions_do_not_overwrite_readable_arrays(void)
{
    weft_array *slot = NULL, **state[] = {&slot}, *sum;
    weft_compiled *c;
    weft_scope_open();
    weft_array *x = weft_cumsum(weft_scale(uniform(LARGE), 1e-4), 0, false, true);
    const double before = weft_item(total(x));
    CHECK_OK(weft_set(&slot, x));
    CHECK_OK(weft_compile(double_the_slot, &slot, state, 1, NULL, &c));
    CHECK_OK(weft_compiled_call(c, NULL, 0, &sum, 1));
    CHECK_CLOSE(weft_item(total(x)), before, 0);
    CHECK_RELATIVE(weft_item(sum), 2 * before, 1e-5);
    weft_memory_reset_peak();
    const int64_t active = weft_memory_active();
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_compiled_call(c, NULL, 0, &sum, 1));
    }
    CHECK(weft_memory_peak() - active < LARGE_BYTES / 2);
    weft_compiled_free(c);
    CHECK_OK(weft_set(&slot, NULL));
    weft_scope_close(NULL);
}

/* ---- readable need not mean stored ---------------------------------------------------------- */

static int64_t fused_count(void)
{
    return weft_device_counts(weft_default_device()).fused;
}

static void a_fused_intermediate_is_not_stored_and_can_be_read(void)
{
    weft_scope_open();
    weft_array *x = uniform(LARGE);
    CHECK_OK(weft_eval(x));
    weft_array *doubled = weft_scale(x, 2), *y = weft_add_scalar(doubled, 1);
    const int64_t before = weft_memory_active(), fused = fused_count();
    CHECK_OK(weft_eval(y));
    CHECK_EQ_INT(fused_count() - fused, 1);
    CHECK(weft_memory_active() - before < LARGE_BYTES + 4096); /* y alone */
    CHECK(!weft_is_evaluated(doubled));
    CHECK_CLOSE(weft_item(total(y)), weft_item(total(doubled)) + (double)LARGE, 1);
    weft_scope_close(NULL);
}

/* Otherwise a loop that carries one value and reads another would recompute all earlier rounds. */
static void arrays_that_are_needed_twice_are_stored(void)
{
    enum { STEPS = 64 };
    weft_scope_open();
    weft_array *state = uniform(8);
    CHECK_OK(weft_eval(state));
    const int64_t before = fused_count();
    for (int i = 0; i < STEPS; i++) {
        state = weft_scale(state, 1.5);
        CHECK_OK(weft_eval(weft_add_scalar(state, 1)));
    }
    CHECK(fused_count() - before <= 2 * STEPS);
    weft_scope_close(NULL);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void a_loop_with_a_scope_keeps_nothing(void)
{
    weft_array *w = NULL, *grads[2];
    weft_scope_open();
    CHECK_OK(weft_set(&w, uniform(LARGE)));
    weft_array **slot = &w;
    int64_t active = 0, most = 0;
    for (int i = 0; i < 20; i++) {
        weft_scope_open();
        weft_array *in[2] = {w, w};
        weft_array *value = weft_value_and_grad(energy, NULL, in, 2, grads);
        weft_array *next = weft_subtract(w, weft_scale(grads[0], 1e-3));
        CHECK(weft_item(value) == weft_item(value));
        CHECK_OK(weft_update(&slot, &next, 1));
        CHECK(weft_item(total(grads[0])) == weft_item(total(grads[0])));
        weft_scope_close(NULL);
        active = weft_memory_active();
        most = i == 1 ? active : most;
        CHECK(i < 1 || active <= most);
    }
    CHECK_OK(weft_set(&w, NULL));
    weft_scope_close(NULL);
}

static int sums_of_sums(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = in[0];
    for (int i = 0; i < 20; i++) {
        out[0] = weft_cumsum(out[0], 0, false, true);
    }
    return 1;
}

/* Intermediates between arguments and results are released, although the scope is open. */
static void compiled_functions_reuse_the_memory_of_intermediates(void)
{
    weft_array *y;
    weft_compiled *c;
    weft_scope_open();
    weft_array *x = uniform(LARGE);
    CHECK_OK(weft_eval(x));
    CHECK_OK(weft_compile(sums_of_sums, NULL, NULL, 0, NULL, &c));
    const int64_t before = weft_memory_active();
    weft_memory_reset_peak();
    CHECK_OK(weft_compiled_call(c, &x, 1, &y, 1));
    CHECK(weft_memory_peak() - before <= 2 * LARGE_BYTES + 4096);
    weft_compiled_free(c);
    weft_scope_close(NULL);
}

/* Hidden intermediates (casts, broadcasts, what composites compute) cannot be read by the program,
 * so they are released within the evaluation. */
static void hidden_intermediates_are_released_by_the_evaluation(void)
{
    weft_scope_open();
    weft_array *x = weft_astype(uniform(LARGE), WEFT_FLOAT16);
    CHECK_OK(weft_eval(x));
    const int64_t before = weft_memory_active(), arrays = weft_scope_count();
    weft_array *y = total(weft_softmax(weft_reshape(x, WEFT_DIMS(256, -1)), 0));
    weft_array *z =
        weft_cross(weft_reshape(weft_slice_axis(x, 0, 0, 3 * 16384), WEFT_DIMS(16384, 3)),
                   weft_ones(WEFT_DIMS(3), WEFT_FLOAT32), -1);
    CHECK_EQ_INT(weft_scope_count() - arrays, 7);
    CHECK_OK(weft_eval(y));
    CHECK_OK(weft_eval(z));
    /* The softmax in float16, the product in float32, and the ones. */
    CHECK(weft_memory_active() - before <= LARGE_BYTES / 2 + 4 * 3 * 16384 + (1 << 12));
    weft_scope_close(NULL);
}

/* ---- what planning costs -------------------------------------------------------------------- */

enum { IDLE = 32000 };

/* All arrays of the first half are allocated before any of the second, which are larger: each of
 * the second is planned with up to 32,000 idle buffers of another size. */
static void planning_looks_at_few_idle_buffers(void)
{
    weft_array **arrays = weft_malloc(IDLE * sizeof *arrays);
    CHECK(arrays != NULL);
    weft_scope_open_lean();
    weft_array *x = uniform(16);
    for (int i = 0; i < IDLE; i++) {
        arrays[i] = weft_cumsum(x, 0, false, true);
    }
    for (int i = 0; i < IDLE; i++) {
        weft_array *twice[] = {arrays[i], arrays[i]};
        arrays[i] = weft_concatenate(twice, 2, 0);
    }
    CHECK_OK(weft_eval_n(arrays, IDLE));
    CHECK(weft__plan_last_probes() <= 2 * 2 * IDLE);
    weft_scope_close(NULL);
    weft_free(arrays);
}

/* Comparisons and selections, alternately in float32 and float64: an op that computes in one dtype
 * cannot be merged into an op that computes in the other. */
static void deep_chains_that_do_not_merge_need_no_stack(void)
{
    weft_array *two[2], *three[2];
    weft_scope_open_lean();
    for (int i = 0; i < 2; i++) {
        two[i] = weft_full(WEFT_DIMS(1), 2, i ? WEFT_FLOAT64 : WEFT_FLOAT32);
        three[i] = weft_full(WEFT_DIMS(1), 3, i ? WEFT_FLOAT64 : WEFT_FLOAT32);
    }
    weft_array *x = three[0];
    for (int i = 0; i < 100000; i++) {
        const int next = (i + 1) % 2;
        x = weft_where(weft_greater(x, two[i % 2]), three[next], two[next]);
    }
    CHECK_CLOSE(weft_item(x), 3, 0);
    weft_scope_close(NULL);
}

CHECK_MAIN("lifetime", CHECK_CASE(a_random_array_is_readable_after_arrays_that_depend_on_it),
           CHECK_CASE(gradients_are_readable_one_after_another),
           CHECK_CASE(both_outputs_of_an_op_are_readable),
           CHECK_CASE(an_array_is_readable_after_it_has_left_its_slot),
           CHECK_CASE(arrays_that_only_a_slot_owned_are_consumed),
           CHECK_CASE(compiled_functions_do_not_overwrite_readable_arrays),
           CHECK_CASE(a_fused_intermediate_is_not_stored_and_can_be_read),
           CHECK_CASE(arrays_that_are_needed_twice_are_stored),
           CHECK_CASE(a_loop_with_a_scope_keeps_nothing),
           CHECK_CASE(compiled_functions_reuse_the_memory_of_intermediates),
           CHECK_CASE(hidden_intermediates_are_released_by_the_evaluation),
           CHECK_CASE(planning_looks_at_few_idle_buffers),
           CHECK_CASE(deep_chains_that_do_not_merge_need_no_stack))
