/* tests/transforms/test_compose.c -- jvp and vmap, and transforms nested in one another, against
 * loops, differences and each other. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/arrays.h"
#include "weft/op.h"
#include "weft/ops.h"
#include "weft/random.h"
#include "weft/transforms.h"

static weft_array *at(weft_array *x, int64_t i)
{
    return weft_squeeze(weft_slice_axis(x, 0, i, i + 1), 0);
}

/* ---- functions ------------------------------------------------------------------------------ */

/* A small network with the ops of attention: x (4, 3), w (3, 3), g (3) -> scalar. */
static weft_array *net(void *context, weft_array *const *in, int n_in)
{
    (void)context, (void)n_in;
    weft_array *h = weft_rms_norm(in[0], in[2], 1e-3, 0);
    weft_array *q = weft_tanh(weft_linear(h, in[1], NULL));
    weft_array *p = weft_softmax(weft_matmul(q, weft_swapaxes(h, -1, -2)), -1);
    weft_array *y = weft_add(weft_matmul(p, q), weft_cumsum(h, -2, false, true));
    weft_array *top = weft_slice_axis(weft_sort(y, -1), -1, 1, 3);
    return weft_add(weft_logsumexp(weft_flatten(top, 0, -1), WEFT_ALL_AXES, false),
                    weft_mean(weft_square(y), WEFT_ALL_AXES, false));
}

static int net_outputs(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)room;
    out[0] = net(context, in, n_in);
    return 1;
}

static int net_gradients(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)room;
    weft_value_and_grad(net, context, in, n_in, out);
    return n_in;
}

static bool checkpoints;

static int block(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    return checkpoints ? weft_checkpoint(net_outputs, context, in, n_in, out, room)
                       : net_outputs(context, in, n_in, out, room);
}

static weft_array *block_loss(void *context, weft_array *const *in, int n_in)
{
    weft_array *out;
    block(context, in, n_in, &out, 1);
    return weft_square(out);
}

static int block_gradients(void *context, weft_array *const *in, int n_in, weft_array **out,
                           int room)
{
    (void)room;
    weft_value_and_grad(block_loss, context, in, n_in, out);
    return n_in;
}

static void inputs(weft_array **in, double start)
{
    in[0] = arrays_sine(WEFT_DIMS(4, 3), start, WEFT_FLOAT64);
    in[1] = arrays_sine(WEFT_DIMS(3, 3), start + 20, WEFT_FLOAT64);
    in[2] = arrays_sine(WEFT_DIMS(3), start + 40, WEFT_FLOAT64);
}

/* ---- forward mode --------------------------------------------------------------------------- */

static void tangents_follow_gradients_and_differences(void)
{
    weft_scope_open();
    weft_array *in[3];
    inputs(in, 1);
    weft_gradcheck_options options = {.forward = true, .second = true};
    CHECK_OK(weft_gradcheck(net_outputs, NULL, in, 3, &options));
    CHECK_OK(weft_gradcheck(net_gradients, NULL, in, 3, &options)); /* third order */
    weft_scope_close(NULL);
}

static int integers_and_constants(void *context, weft_array *const *in, int n_in, weft_array **out,
                                  int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_argmax(in[0], -1, false);
    out[1] = weft_stop_gradient(in[0]);
    out[2] = weft_take(in[0], in[1], 0);
    out[3] = in[0];
    return 4;
}

static void tangents_of_integers_and_constants(void)
{
    int32_t indices[] = {2, 0};
    weft_scope_open();
    weft_array *x = arrays_sine(WEFT_DIMS(3), 1, WEFT_FLOAT64),
               *t = arrays_sine(WEFT_DIMS(3), 5, WEFT_FLOAT64);
    weft_array *in[] = {x, weft_from_data(indices, WEFT_INT32, WEFT_DIMS(2))}, *out[4], *to[4];
    weft_array *given[] = {t, NULL};
    CHECK_OK(weft_jvp(integers_and_constants, NULL, in, 2, given, out, 4, to));
    CHECK(to[0] == NULL);
    arrays_agree(to[1], weft_zeros_like(x), 0, "stopped");
    arrays_agree(to[2], weft_take(t, in[1], 0), 0, "taken");
    arrays_agree(to[3], t, 0, "handed on");
    given[0] = arrays_sine(WEFT_DIMS(2), 0, WEFT_FLOAT64);
    CHECK_STATUS(weft_jvp(integers_and_constants, NULL, in, 2, given, out, 4, to), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "tangent 0: expected shape (3,), got (2,)");
    weft_scope_close(NULL);
}

/* H v three ways: forward over reverse, reverse over forward, reverse over reverse. */
typedef struct product {
    weft_array **v;
} product;

static weft_array *along(void *context, weft_array *const *in, int n_in)
{
    const product *p = context;
    weft_array *out, *tangent;
    weft_status status = weft_jvp(block, NULL, in, n_in, p->v, &out, 1, &tangent);
    return status == WEFT_OK ? tangent : weft_error_array("%s", weft_error_message());
}

static weft_array *gradient_times(void *context, weft_array *const *in, int n_in)
{
    const product *p = context;
    weft_array *out, *grads[3], *one, *sum = NULL;
    one = weft_ones(WEFT_SCALAR, WEFT_FLOAT64);
    CHECK_OK(weft_vjp(block, NULL, in, n_in, &one, &out, 1, grads));
    for (int i = 0; i < n_in; i++) {
        weft_array *term = weft_sum(weft_multiply(grads[i], p->v[i]), WEFT_ALL_AXES, false);
        sum = sum ? weft_add(sum, term) : term;
    }
    return sum;
}

static int block_vjp(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)room;
    weft_array *one = weft_ones(WEFT_SCALAR, WEFT_FLOAT64);
    CHECK_OK(weft_vjp(block, NULL, in, n_in, &one, NULL, 1, out));
    return n_in;
}

static void hessian_products_agree(void)
{
    for (int pass = 0; pass < 2; pass++) {
        checkpoints = pass == 1;
        weft_scope_open();
        weft_array *in[3], *v[3], *grads[3], *forward[3], *reverse[3], *twice[3];
        inputs(in, 2);
        inputs(v, 7);
        product p = {v};
        CHECK_OK(weft_jvp(block_vjp, NULL, in, 3, v, grads, 3, forward));
        CHECK(weft_ok(weft_value_and_grad(along, &p, in, 3, reverse)));
        CHECK(weft_ok(weft_value_and_grad(gradient_times, &p, in, 3, twice)));
        for (int i = 0; i < 3; i++) {
            CHECK_OK(weft_eval_n((weft_array *[]){forward[i], reverse[i], twice[i]}, 3));
            arrays_agree(forward[i], reverse[i], 1e-11, "forward over reverse");
            arrays_agree(twice[i], reverse[i], 1e-11, "reverse over reverse");
        }
        weft_scope_close(NULL);
    }
}

/* ---- vmap ----------------------------------------------------------------------------------- */

enum { BATCH = 3 };

/* A batch of inputs, stacked on axis 0, on the last axis, and shared. */
static void batch(weft_array *singles[BATCH][3], weft_array **in)
{
    for (int b = 0; b < BATCH; b++) {
        inputs(singles[b], 3 + b);
        singles[b][2] = singles[0][2];
    }
    for (int i = 0; i < 2; i++) {
        weft_array *all[BATCH];
        for (int b = 0; b < BATCH; b++) {
            all[b] = singles[b][i];
        }
        in[i] = weft_stack(all, BATCH, i == 0 ? 0 : -1);
    }
    in[2] = singles[0][2];
}

static const int axes[] = {0, -1, WEFT_NO_AXIS};

static void batched_values_and_gradients(void)
{
    for (int pass = 0; pass < 2; pass++) {
        checkpoints = pass == 1;
        weft_scope_open();
        weft_array *singles[BATCH][3], *in[3], *y, *grads[3];
        int out_axes[] = {0, 2, -1};
        batch(singles, in);
        CHECK_OK(weft_vmap(block, NULL, in, axes, 3, &y, NULL, 1));
        CHECK_OK(weft_vmap(block_gradients, NULL, in, axes, 3, grads, out_axes, 3));
        CHECK_OK(weft_eval_n((weft_array *[]){y, grads[0], grads[1], grads[2]}, 4));
        CHECK_EQ_INT(weft_dim(grads[1], 2), BATCH);
        for (int b = 0; b < BATCH; b++) {
            weft_array *want[3], *one;
            block(NULL, singles[b], 3, &one, 1);
            arrays_agree(at(y, b), one, 1e-13, "value");
            weft_value_and_grad(block_loss, NULL, singles[b], 3, want);
            arrays_agree(at(grads[0], b), want[0], 1e-12, "gradient 0");
            arrays_agree(weft_squeeze(weft_slice_axis(grads[1], 2, b, b + 1), 2), want[1], 1e-12,
                         "gradient 1");
            arrays_agree(weft_squeeze(weft_slice_axis(grads[2], -1, b, b + 1), -1), want[2], 1e-12,
                         "gradient 2");
        }
        weft_scope_close(NULL);
    }
}

/* The sum over a batch of a mapped function: gradients go through vmap. */
static int mapped_block(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)room;
    if (weft_vmap(block, NULL, in, axes, n_in, out, NULL, 1) != WEFT_OK) {
        out[0] = weft_error_array("%s", weft_error_message());
    }
    return 1;
}

static void derivatives_of_batches(void)
{
    for (int pass = 0; pass < 2; pass++) {
        checkpoints = pass == 1;
        weft_scope_open();
        weft_array *singles[BATCH][3], *in[3];
        batch(singles, in);
        CHECK_OK(weft_eval_n(in, 3));
        weft_gradcheck_options options = {.forward = true, .second = true, .max_elements = 12};
        CHECK_OK(weft_gradcheck(mapped_block, NULL, in, 3, &options));
        weft_scope_close(NULL);
    }
}

/* ---- batches of batches --------------------------------------------------------------------- */

/* a (3), b (3) -> scalar, and all pairs by mapping twice. */
static int pair(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    weft_array *d = weft_subtract(in[0], in[1]);
    out[0] = weft_exp(weft_negative(weft_sum(weft_square(d), WEFT_ALL_AXES, false)));
    return 1;
}

static int row_of_pairs(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)room;
    static const int second[] = {WEFT_NO_AXIS, 0};
    if (weft_vmap(pair, context, in, second, n_in, out, NULL, 1) != WEFT_OK) {
        out[0] = weft_error_array("%s", weft_error_message());
    }
    return 1;
}

static int all_pairs(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)room;
    static const int first[] = {0, WEFT_NO_AXIS};
    if (weft_vmap(row_of_pairs, context, in, first, n_in, out, NULL, 1) != WEFT_OK) {
        out[0] = weft_error_array("%s", weft_error_message());
    }
    return 1;
}

static void maps_nest(void)
{
    weft_scope_open();
    weft_array *in[] = {arrays_sine(WEFT_DIMS(4, 3), 1, WEFT_FLOAT64),
                        arrays_sine(WEFT_DIMS(5, 3), 2, WEFT_FLOAT64)},
               *y;
    all_pairs(NULL, in, 2, &y, 1);
    CHECK_OK(weft_eval(y));
    CHECK_EQ_INT(weft_dim(y, 0), 4);
    CHECK_EQ_INT(weft_dim(y, 1), 5);
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 5; j++) {
            weft_array *one[] = {at(in[0], i), at(in[1], j)}, *want;
            pair(NULL, one, 2, &want, 1);
            arrays_agree(at(at(y, i), j), want, 1e-14, "pair");
        }
    }
    weft_gradcheck_options options = {.forward = true, .second = true};
    CHECK_OK(weft_gradcheck(all_pairs, NULL, in, 2, &options));
    weft_scope_close(NULL);
}

/* ---- results independent of the batch, and refused input ------------------------------------ */

static int partly(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_scale(in[1], 2);
    out[1] = weft_multiply(in[0], in[1]);
    return 2;
}

static int evaluates(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in, (void)room;
    out[0] = weft_add(in[0], in[0]);
    *(weft_status *)context = weft_eval(out[0]);
    snprintf((char *)context + sizeof(weft_status), 100, "%s", weft_error_message());
    return 1;
}

static void outputs_without_the_batch(void)
{
    static const int in_axes[] = {0, WEFT_NO_AXIS}, out_axes[] = {WEFT_NO_AXIS, 0};
    static const int wrong[] = {0, WEFT_NO_AXIS};
    weft_scope_open();
    weft_array *in[] = {arrays_sine(WEFT_DIMS(4, 2), 0, WEFT_FLOAT64),
                        arrays_sine(WEFT_DIMS(2), 9, WEFT_FLOAT64)},
               *out[2];
    CHECK_OK(weft_vmap(partly, NULL, in, in_axes, 2, out, NULL, 2));
    CHECK_OK(weft_eval_n(out, 2));
    for (int i = 0; i < 4; i++) {
        arrays_agree(at(out[0], i), weft_scale(in[1], 2), 0, "repeated");
        arrays_agree(at(out[1], i), weft_multiply(at(in[0], i), in[1]), 0, "product");
    }
    CHECK_OK(weft_vmap(partly, NULL, in, in_axes, 2, out, out_axes, 2));
    CHECK_EQ_INT(weft_ndim(out[0]), 1);
    CHECK_STATUS(weft_vmap(partly, NULL, in, in_axes, 2, out, wrong, 2), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "output 1 depends on the batch");
    CHECK_STATUS(weft_vmap(partly, NULL, in, NULL, 2, out, NULL, 2), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "input 1: expected 4 examples on axis 0, got 2");
    in[0] = weft_zeros(WEFT_DIMS(0, 2), WEFT_FLOAT64);
    CHECK_OK(weft_vmap(partly, NULL, in, in_axes, 2, out, NULL, 2));
    CHECK_EQ_INT(weft_dim(out[0], 0), 0);
    CHECK_OK(weft_eval_n(out, 2));
    weft_scope_close(NULL);
}

static void evaluating_inside_is_refused(void)
{
    struct {
        weft_status status;
        char message[100];
    } seen = {0};
    weft_scope_open();
    weft_array *x = arrays_sine(WEFT_DIMS(4), 0, WEFT_FLOAT64), *y;
    CHECK(weft_vmap(evaluates, &seen, &x, NULL, 1, &y, NULL, 1) != WEFT_OK);
    CHECK_EQ_INT(seen.status, WEFT_INVALID);
    CHECK_CONTAINS(seen.message, "cannot read elements");
    weft_scope_close(NULL);
}

static int noise(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_random_normal(in[0], WEFT_DIMS(5), 0, 1, WEFT_FLOAT32);
    out[1] = weft_random_uniform(in[0], WEFT_DIMS(3), 0, 1, WEFT_BFLOAT16);
    return 2;
}

static void keys_give_each_example_its_own(void)
{
    weft_scope_open();
    weft_array *keys = weft_random_split(weft_random_key(3), 4), *out[2], *want[2];
    CHECK_OK(weft_eval(keys));
    CHECK_OK(weft_vmap(noise, NULL, &keys, NULL, 1, out, NULL, 2));
    CHECK_OK(weft_eval_n(out, 2));
    for (int i = 0; i < 4; i++) {
        weft_array *key = at(keys, i);
        noise(NULL, &key, 1, want, 2);
        arrays_agree(at(out[0], i), want[0], 0, "normal");
        arrays_agree(at(out[1], i), want[1], 0, "uniform");
    }
    weft_scope_close(NULL);
}

CHECK_MAIN("compose", CHECK_CASE(tangents_follow_gradients_and_differences),
           CHECK_CASE(tangents_of_integers_and_constants), CHECK_CASE(hessian_products_agree),
           CHECK_CASE(batched_values_and_gradients), CHECK_CASE(derivatives_of_batches),
           CHECK_CASE(maps_nest), CHECK_CASE(outputs_without_the_batch),
           CHECK_CASE(evaluating_inside_is_refused), CHECK_CASE(keys_give_each_example_its_own))
