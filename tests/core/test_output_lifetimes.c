/* tests/core/test_output_lifetimes.c -- the lifetime of each of several outputs of a node: picked,
 * read, kept and freed one by one, in scopes, gradients, compiled functions and threads. */
#include <pthread.h>
#include <stdint.h>

#include "tests/check.h"
#include "weft/compile.h"
#include "weft/op.h"
#include "weft/ops.h"
#include "weft/transforms.h"

enum { SIZE = 5 };

static const float x_values[SIZE] = {3, -1, 4, 1, -5};

static weft_array *total(weft_array *x)
{
    return weft_sum(x, WEFT_ALL_AXES, false);
}

/* ---- an op of two outputs ------------------------------------------------------------------- */

static int runs;

/* x + 1 and 2 x, by a kernel that counts its calls. */
static weft_status run_pair(const weft_call *call)
{
    runs++;
    for (int64_t i = 0; i < weft_tensor_size(&call->in[0]); i++) {
        const double x = weft_tensor_get(&call->in[0], i);
        weft_tensor_set(&call->out[0], i, x + 1);
        weft_tensor_set(&call->out[1], i, 2 * x);
    }
    return WEFT_OK;
}

static bool infer_pair(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    out[0] = out[1] = *weft_node_spec(weft_node_input(node, 0), 0);
    return true;
}

static void pair_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    (void)node;
    weft_array *twice = cts[1] ? weft_scale(cts[1], 2) : NULL;
    grads[0] = !wanted[0]        ? NULL
               : cts[0] && twice ? weft_add(cts[0], twice)
               : twice           ? twice
                                 : cts[0];
}

static const weft_op op_pair = {.name = "test_pair",
                                .family = WEFT_CORE_RANK,
                                .arity = 1,
                                .n_outputs = 2,
                                .infer = infer_pair,
                                .vjp = pair_vjp,
                                .reference = run_pair};

/* ---- kept by checkpoints -------------------------------------------------------------------- */

static int product_of_pair(void *context, weft_array *const *in, int n_in, weft_array **out,
                           int room)
{
    (void)context, (void)n_in, (void)room;
    weft_array *pair = weft_apply(&op_pair, in, 1, NULL);
    weft_array *named = weft_checkpoint_name(weft_pick(pair, 1), "twice");
    out[0] = weft_multiply(weft_square(named), weft_pick(pair, 0));
    return 1;
}

static weft_array *checkpointed_product(void *context, weft_array *const *in, int n_in)
{
    weft_array *out;
    weft_checkpoint_with(product_of_pair, NULL, in, n_in, &out, 1, context);
    return total(out);
}

/* d/dx 4 x^2 (x + 1) = 12 x^2 + 8 x; kept results are not computed again for it. */
static void a_checkpoint_keeps_outputs_by_op_or_name(void)
{
    static const char *const ops[] = {"test_pair", NULL}, *const names[] = {"twice", NULL};
    const weft_checkpoint_options policies[] = {
        {0},
        {.keep = weft_keep_ops, .context = (void *)(uintptr_t)ops},
        {.keep = weft_keep_named, .context = (void *)(uintptr_t)names}};
    const int expected[] = {2, 1, 1};
    for (int i = 0; i < 3; i++) {
        float gradient[SIZE];
        weft_scope_open();
        weft_array *x = weft_from_data(x_values, WEFT_FLOAT32, WEFT_DIMS(SIZE)), *grad;
        weft_array *y = weft_value_and_grad(checkpointed_product, (void *)(uintptr_t)&policies[i],
                                            &x, 1, &grad);
        runs = 0;
        CHECK_OK(weft_eval_n((weft_array *[]){y, grad}, 2));
        CHECK_EQ_INT(runs, expected[i]);
        CHECK_OK(weft_read(grad, WEFT_FLOAT32, gradient, SIZE));
        for (int k = 0; k < SIZE; k++) {
            const float v = x_values[k];
            CHECK_CLOSE(gradient[k], 12 * v * v + 8 * v, 0);
        }
        weft_scope_close(NULL);
    }
}

/* ---- memory --------------------------------------------------------------------------------- */

enum { LARGE = 1 << 16 };

/* In a lean scope each output is freed when nothing needs it, independently of the others. */
static void outputs_are_freed_one_by_one(void)
{
    const int64_t each = LARGE * (int64_t)sizeof(float), before = weft_memory_active();
    weft_array *kept = NULL;
    weft_scope_open_lean();
    weft_array *x = weft_full(WEFT_DIMS(LARGE), 3, WEFT_FLOAT32);
    weft_array *node = weft_apply(&op_pair, &x, 1, NULL);
    CHECK_OK(weft_set(&kept, weft_pick(node, 1)));
    CHECK_OK(weft_eval(kept)); /* the other one was neither picked nor used */
    CHECK_EQ_INT(weft_memory_active(), before + each);
    CHECK(!weft_ok(weft_pick(node, 0)));
    CHECK_CONTAINS(weft_error(weft_pick(node, 0)), "the data of output 0 was released");
    CHECK(weft_pick(kept, 0) == kept); /* by itself it is an array like any other */
    weft_scope_close(NULL);
    CHECK_EQ_INT(weft_memory_active(), before + each);

    weft_scope_open_lean();
    weft_scope_open_lean();
    weft_array *pair = weft_apply(&op_pair, &kept, 1, NULL);
    weft_array *first = weft_pick(pair, 0), *second = weft_pick(pair, 1);
    CHECK_OK(weft_eval_n((weft_array *[]){first, second}, 2));
    CHECK_EQ_INT(weft_memory_active(), before + 3 * each);
    second = weft_scope_close(second);
    CHECK_EQ_INT(weft_memory_active(), before + 2 * each);
    weft_array *reader = weft_scale(second, 0.5); /* in place */
    CHECK_OK(weft_eval(reader));
    CHECK_EQ_INT(weft_node_n_outputs(reader), 1);
    CHECK_OK(weft_set(&kept, NULL)); /* to the scope */
    weft_scope_close(NULL);
    CHECK_EQ_INT(weft_memory_active(), before);
}

/* An output that was dropped before evaluation can be picked again, in any scope. */
static void outputs_are_picked_again(void)
{
    float values[SIZE];
    weft_scope_open();
    weft_array *x = weft_from_data(x_values, WEFT_FLOAT32, WEFT_DIMS(SIZE)),
               *node = weft_apply(&op_pair, &x, 1, NULL);
    for (int i = 0; i < 3; i++) {
        weft_scope_open();
        CHECK_EQ_INT(weft_dim(weft_pick(node, 1), 0), SIZE);
        weft_scope_close(NULL);
    }
    weft_scope_open();
    weft_array *second = weft_scope_close(weft_pick(node, 1));
    CHECK(second == weft_pick(node, 1));
    CHECK_OK(weft_read(second, WEFT_FLOAT32, values, SIZE));
    CHECK_CLOSE(values[2], 2 * x_values[2], 0);
    CHECK(!weft_ok(weft_pick(node, 2)));
    weft_scope_close(NULL);
}

/* Outputs that were picked can be read later. */
static void outputs_are_read_one_after_another(void)
{
    float values[SIZE];
    weft_scope_open();
    weft_array *x = weft_from_data(x_values, WEFT_FLOAT32, WEFT_DIMS(SIZE));
    weft_array *node = weft_apply(&op_pair, &x, 1, NULL);
    weft_array *first = weft_pick(node, 0), *second = weft_pick(node, 1);
    runs = 0;
    CHECK_OK(weft_read(first, WEFT_FLOAT32, values, SIZE));
    CHECK_CLOSE(values[4], x_values[4] + 1, 0);
    CHECK_OK(weft_read(second, WEFT_FLOAT32, values, SIZE));
    CHECK_CLOSE(values[4], 2 * x_values[4], 0);
    CHECK_EQ_INT(runs, 1);
    weft_scope_close(NULL);
}

/* ---- gradients ------------------------------------------------------------------------------ */

/* x^2, and its slope for the gradient, which only the rule reads. */
static weft_status run_square(const weft_call *call)
{
    for (int64_t i = 0; i < weft_tensor_size(&call->in[0]); i++) {
        const double x = weft_tensor_get(&call->in[0], i);
        weft_tensor_set(&call->out[0], i, x * x);
        weft_tensor_set(&call->out[1], i, 2 * x);
    }
    return WEFT_OK;
}

static void square_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                       weft_array **grads)
{
    grads[0] = wanted[0] && cts[0] ? weft_multiply(cts[0], weft_pick(node, 1)) : NULL;
}

static const weft_op op_square = {.name = "test_square",
                                  .family = WEFT_CORE_RANK,
                                  .arity = 1,
                                  .n_outputs = 2,
                                  .infer = infer_pair,
                                  .vjp = square_vjp,
                                  .reference = run_square};

static weft_array *square_that_is_looked_at(void *context, weft_array *const *in, int n_in)
{
    (void)n_in;
    weft_array *y = weft_pick(weft_apply(&op_square, in, 1, NULL), 0);
    *(double *)context = weft_item(total(y));
    return total(weft_multiply(y, y));
}

/* d/dx x^4 = 4 x^3: the slope exists, although it was not picked before y was evaluated. */
static void evaluation_in_a_gradient_keeps_all_outputs(void)
{
    double seen = 0;
    float gradient[SIZE];
    weft_scope_open();
    weft_array *x = weft_from_data(x_values, WEFT_FLOAT32, WEFT_DIMS(SIZE)), *grad;
    weft_array *y = weft_value_and_grad(square_that_is_looked_at, &seen, &x, 1, &grad);
    CHECK_OK(weft_eval_n((weft_array *[]){y, grad}, 2));
    CHECK_CLOSE(seen, 9 + 1 + 16 + 1 + 25, 0);
    CHECK_OK(weft_read(grad, WEFT_FLOAT32, gradient, SIZE));
    for (int k = 0; k < SIZE; k++) {
        CHECK_CLOSE(gradient[k], 4 * x_values[k] * x_values[k] * x_values[k], 0);
    }
    weft_scope_close(NULL);
}

/* ---- compiled ------------------------------------------------------------------------------- */

static int constant_pair(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    weft_array *constant = context;
    (void)n_in, (void)room;
    weft_array *node = weft_apply(&op_pair, &constant, 1, NULL);
    out[0] = weft_multiply(in[0], weft_pick(node, 0));
    out[1] = weft_pick(node, 1);
    return 2;
}

/* A node that depends on no argument is computed once, with all its outputs. */
static void constant_outputs_are_folded(void)
{
    weft_compiled *compiled = NULL;
    weft_array *constant = NULL;
    weft_scope_open();
    CHECK_OK(weft_set(&constant, weft_from_data(x_values, WEFT_FLOAT32, WEFT_DIMS(SIZE))));
    CHECK_OK(weft_compile(constant_pair, constant, NULL, 0, NULL, &compiled));
    runs = 0;
    for (int i = 0; i < 3; i++) {
        float values[2][SIZE];
        weft_array *x = weft_from_data(x_values, WEFT_FLOAT32, WEFT_DIMS(SIZE)), *out[2];
        CHECK_OK(weft_compiled_call(compiled, &x, 1, out, 2));
        for (int o = 0; o < 2; o++) {
            CHECK_OK(weft_read(out[o], WEFT_FLOAT32, values[o], SIZE));
        }
        for (int k = 0; k < SIZE; k++) {
            CHECK_CLOSE(values[0][k], x_values[k] * (x_values[k] + 1), 0);
            CHECK_CLOSE(values[1][k], 2 * x_values[k], 0);
        }
    }
    CHECK_EQ_INT(runs, 1);
    weft_compiled_free(compiled);
    CHECK_OK(weft_set(&constant, NULL));
    weft_scope_close(NULL);
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 300 };

/* Picks outputs that the main thread keeps, each time in a new scope; returns how many were
 * wrong. */
static void *pick_often(void *node)
{
    intptr_t wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        weft_scope_open();
        weft_array *a = weft_pick(node, i % 2), *b = weft_pick(node, (i + 1) % 2);
        weft_array *sum = total(weft_add(a, weft_pick(node, i % 2)));
        const double expected = i % 2 ? 2 * 60 : 2 * 40;
        wrong += weft_item(sum) != expected || !weft_ok(b);
        weft_scope_close(NULL);
    }
    return (void *)wrong;
}

static void evaluated_outputs_are_picked_by_all_threads(void)
{
    const int64_t before = weft_memory_active();
    weft_scope_open();
    weft_array *x = weft_full(WEFT_DIMS(10), 3, WEFT_FLOAT32); /* outputs of 4 and of 6 */
    weft_array *node = weft_keep(weft_apply(&op_pair, &x, 1, NULL));
    weft_array *second = weft_keep(weft_pick(node, 1));
    CHECK_OK(weft_eval_n((weft_array *[]){node, second}, 2));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, pick_often, node) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        CHECK(pthread_join(threads[i], &wrong) == 0 && wrong == NULL);
    }
    weft_drop(node);
    weft_drop(second);
    weft_scope_close(NULL);
    CHECK_EQ_INT(weft_memory_active(), before);
}

CHECK_MAIN("output_lifetimes", CHECK_CASE(a_checkpoint_keeps_outputs_by_op_or_name),
           CHECK_CASE(outputs_are_freed_one_by_one), CHECK_CASE(outputs_are_picked_again),
           CHECK_CASE(outputs_are_read_one_after_another),
           CHECK_CASE(evaluation_in_a_gradient_keeps_all_outputs),
           CHECK_CASE(constant_outputs_are_folded),
           CHECK_CASE(evaluated_outputs_are_picked_by_all_threads))
