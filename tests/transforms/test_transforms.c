/* tests/transforms/test_transforms.c -- vjp, value_and_grad, checkpoint, gradcheck. */
#include <math.h>

#include "tests/check.h"
#include "weft/op.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static weft_array *column(double a, double b, double c)
{
    double v[] = {a, b, c};
    return weft_from_data(v, WEFT_FLOAT64, WEFT_DIMS(3));
}

static void read3(weft_array *a, double *out)
{
    CHECK_OK(weft_read(a, WEFT_FLOAT64, out, 3));
}

static int largest(void *context, weft_array *const *in, int n, weft_array **out, int room)
{
    (void)n;
    (void)room;
    out[0] = *(const bool *)context ? weft_maximum(in[0], in[1]) : weft_minimum(in[0], in[1]);
    return 1;
}

/* Each of two equal operands gets half of the gradient. */
static void equal_operands_share_the_gradient(void)
{
    for (int max = 0; max < 2; max++) {
        bool is_max = max;
        double of_a[3], of_b[3];
        weft_scope_open();
        weft_array *in[] = {column(1, 2, 3), column(2, 2, 2)}, *grads[2];
        weft_array *ones = weft_ones(WEFT_DIMS(3), WEFT_FLOAT64);
        CHECK_OK(weft_vjp(largest, &is_max, in, 2, &ones, NULL, 1, grads));
        weft_keep(grads[1]);
        read3(grads[0], of_a);
        read3(grads[1], of_b);
        weft_drop(grads[1]);
        for (int i = 0; i < 3; i++) {
            const double wins = i == 1 ? 0.5 : (i == 2) == is_max;
            CHECK_CLOSE(of_a[i], wins, 0);
            CHECK_CLOSE(of_b[i], 1 - wins, 0);
        }
        weft_scope_close(NULL);
    }
}

/* sum(x^2 y) */
static weft_array *cubic(void *context, weft_array *const *in, int n_in)
{
    (void)n_in;
    if (context) {
        ++*(int *)context;
    }
    return weft_sum(weft_multiply(weft_square(in[0]), in[1]), WEFT_ALL_AXES, false);
}

static void value_and_gradients_of_arguments(void)
{
    int calls = 0;
    double g[3];
    weft_scope_open();
    weft_array *in[] = {column(1, 2, 3), column(4, 5, 6)}, *grads[2];
    weft_array *value = weft_value_and_grad(cubic, &calls, in, 2, grads);
    CHECK_CLOSE(weft_item(value), 4 + 20 + 54, 0);
    read3(grads[0], g);
    CHECK_CLOSE(g[1], 20, 0);
    read3(grads[1], g);
    CHECK_CLOSE(g[2], 9, 0);
    CHECK_EQ_INT(calls, 1);
    CHECK(!weft_is_differentiating());
    weft_scope_close(NULL);
}

/* ---- slots ---------------------------------------------------------------------------------- */

typedef struct pair {
    weft_array *a, *b;
} pair;

static weft_array *product_of_slots(void *context)
{
    pair *p = context;
    return weft_sum(weft_multiply(p->a, weft_stop_gradient(weft_add(p->b, p->a))), WEFT_ALL_AXES,
                    false);
}

static void gradients_of_slots_leave_the_slots(void)
{
    pair p = {0};
    double g[3];
    weft_scope_open();
    CHECK_OK(weft_set(&p.a, column(1, 2, 3)));
    CHECK_OK(weft_set(&p.b, column(4, 5, 6)));
    weft_array *a = p.a, **slots[] = {&p.a, &p.b}, *grads[2];
    weft_array *value = weft_value_and_grad_slots(product_of_slots, &p, slots, 2, grads);
    CHECK(p.a == a);
    CHECK_CLOSE(weft_item(value), 5 + 14 + 27, 0);
    read3(grads[0], g);
    CHECK_CLOSE(g[2], 9, 0);
    read3(grads[1], g);
    CHECK_CLOSE(g[2], 0, 0); /* nothing flows through stop_gradient */
    CHECK_OK(weft_set(&p.a, NULL));
    CHECK_OK(weft_set(&p.b, NULL));
    weft_scope_close(NULL);
}

static weft_array *not_a_scalar(void *context, weft_array *const *in, int n_in)
{
    (void)context;
    (void)n_in;
    return in[0];
}

static void a_value_that_is_not_a_scalar_is_refused(void)
{
    weft_scope_open();
    weft_array *in[] = {column(1, 2, 3)}, *grads[1];
    weft_array *value = weft_value_and_grad(not_a_scalar, NULL, in, 1, grads);
    CHECK(!weft_ok(value));
    CHECK(!weft_ok(grads[0]));
    CHECK_CONTAINS(weft_error(value), "expected a float scalar, got float64 (3,)");
    weft_scope_close(NULL);
}

/* ---- second derivatives --------------------------------------------------------------------- */

static weft_array *sum_of_tanh(void *context, weft_array *const *in, int n_in)
{
    (void)context;
    (void)n_in;
    return weft_sum(weft_tanh(in[0]), WEFT_ALL_AXES, false);
}

static int gradient_of_tanh(void *context, weft_array *const *in, int n_in, weft_array **out,
                            int room)
{
    (void)context;
    (void)room;
    weft_value_and_grad(sum_of_tanh, NULL, in, n_in, out);
    return n_in;
}

static void gradients_of_gradients(void)
{
    weft_scope_open();
    weft_array *in[] = {column(-0.5, 0.25, 1)};
    CHECK_OK(weft_gradcheck(gradient_of_tanh, NULL, in, 1, NULL));
    weft_scope_close(NULL);
}

/* ---- checkpoint ----------------------------------------------------------------------------- */

static int layer(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    weft_array *weight = context;
    (void)n_in;
    (void)room;
    weft_array *h = weft_tanh(weft_multiply(in[0], weight));
    out[0] = weft_add(h, weft_sin(weft_square(h)));
    return 1;
}

static bool with_checkpoints;

static int network(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context;
    (void)n_in;
    (void)room;
    weft_array *x = in[0];
    for (int i = 0; i < 8; i++) {
        if (with_checkpoints) {
            weft_checkpoint(layer, in[1], &x, 1, &x, 1);
        } else {
            layer(in[1], &x, 1, &x, 1);
        }
    }
    out[0] = x;
    return 1;
}

static weft_array *network_loss(void *context, weft_array *const *in, int n_in)
{
    weft_array *out;
    network(context, in, n_in, &out, 1);
    return weft_sum(out, WEFT_ALL_AXES, false);
}

static int64_t peak_of_gradient(weft_array **grads)
{
    weft_array *in[] = {weft_full(WEFT_DIMS(1 << 16), 0.3, WEFT_FLOAT32),
                        weft_full(WEFT_DIMS(1 << 16), 0.9, WEFT_FLOAT32)};
    CHECK_OK(weft_eval_n(in, 2));
    weft_memory_reset_peak();
    int64_t before = weft_memory_active();
    weft_array *value = weft_value_and_grad(network_loss, NULL, in, 2, grads);
    CHECK_OK(weft_eval_n((weft_array *[]){value, grads[0], grads[1]}, 3));
    return weft_memory_peak() - before;
}

static void checkpointing_changes_only_memory(void)
{
    weft_scope_open();
    weft_array *plain[2], *again[2];
    with_checkpoints = false;
    int64_t much = peak_of_gradient(plain);
    with_checkpoints = true;
    int64_t little = peak_of_gradient(again);
    for (int i = 0; i < 2; i++) {
        weft_array *same = weft_all(weft_equal(plain[i], again[i]), WEFT_ALL_AXES, false);
        CHECK_CLOSE(weft_item(same), 1, 0);
    }
    CHECK(little * 4 < much * 3); /* merged ops keep little as it is */
    weft_array *in[] = {column(0.1, 0.2, 0.3), column(0.9, 0.8, 0.7)};
    CHECK_OK(weft_gradcheck(network, NULL, in, 2, NULL));
    weft_scope_close(NULL);
}

/* sum(e^2x + e^x), with an evaluation in the middle that would consume e^x outside of a
 * gradient. */
static weft_array *evaluates_inside(void *context, weft_array *const *in, int n_in)
{
    (void)n_in;
    weft_array *h = weft_exp(in[0]);
    weft_array *y = weft_multiply(h, h);
    *(weft_status *)context = weft_eval(y);
    return weft_sum(weft_add(y, h), WEFT_ALL_AXES, false);
}

static void evaluating_inside_a_gradient_consumes_nothing(void)
{
    weft_status status = WEFT_INVALID;
    double g[3];
    weft_scope_open();
    weft_array *in[] = {column(0.1, 0.2, 0.3)}, *grads[1];
    weft_array *value = weft_value_and_grad(evaluates_inside, &status, in, 1, grads);
    CHECK_OK(status);
    CHECK_OK(weft_eval(value));
    read3(grads[0], g);
    CHECK_RELATIVE(g[2], 2 * exp(0.6) + exp(0.3), 1e-14);
    weft_scope_close(NULL);
}

/* ---- errors that gradcheck finds ------------------------------------------------------------ */

static weft_array *wrong_partial(weft_array *node, int i)
{
    (void)i;
    return weft_scale(weft_node_input(node, 0), 2.001);
}

static const weft_op crooked = {
    .name = "crooked_square",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "a * a"},
    .partial = wrong_partial,
};

static int use_crooked(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context;
    (void)room;
    out[0] = weft_apply_elementwise(&crooked, in, n_in);
    return 1;
}

static void gradcheck_names_the_op_and_the_element(void)
{
    weft_scope_open();
    weft_array *in[] = {column(0.1, 3, -0.2)};
    CHECK_STATUS(weft_gradcheck(use_crooked, NULL, in, 1, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "crooked_square: input 0, element 1");
    weft_array *single[] = {weft_ones(WEFT_DIMS(2), WEFT_FLOAT32)};
    CHECK_STATUS(weft_gradcheck(use_crooked, NULL, single, 1, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected float64, got float32");
    weft_scope_close(NULL);
}

static int square_of(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_square(in[0]);
    return 1;
}

static void right_vjp(void *context, weft_array *const *in, int n_in, weft_array *const *outs,
                      int n_out, weft_array *const *cotangents, weft_array **grads)
{
    (void)context, (void)n_in, (void)outs, (void)n_out;
    grads[0] = weft_scale(weft_multiply(in[0], cotangents[0]), 2);
}

static void wrong_jvp(void *context, weft_array *const *in, int n_in, weft_array *const *outs,
                      int n_out, weft_array *const *tangents, weft_array **out_tangents)
{
    (void)context, (void)n_in, (void)outs, (void)n_out;
    out_tangents[0] = weft_scale(weft_multiply(in[0], tangents[0]), 2.001);
}

static const weft_custom_rules differing = {.vjp = right_vjp, .jvp = wrong_jvp};

static int use_differing(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    return weft_custom(square_of, context, &differing, in, n_in, out, room);
}

static void gradcheck_finds_a_wrong_jvp_only_with_forward(void)
{
    weft_scope_open();
    weft_array *in[] = {column(0.1, 3, -0.2)};
    CHECK_OK(weft_gradcheck(use_differing, NULL, in, 1, NULL));
    const weft_gradcheck_options options = {.forward = true};
    CHECK_STATUS(weft_gradcheck(use_differing, NULL, in, 1, &options), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "(forward)");
    weft_scope_close(NULL);
}

/* The right first derivative, as a constant: its own derivative is lost. */
static void constant_vjp(void *context, weft_array *const *in, int n_in, weft_array *const *outs,
                         int n_out, weft_array *const *cotangents, weft_array **grads)
{
    (void)context, (void)n_in, (void)outs, (void)n_out;
    grads[0] = weft_scale(weft_multiply(weft_stop_gradient(in[0]), cotangents[0]), 2);
}

static const weft_custom_rules once = {.vjp = constant_vjp};

static int use_once(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    return weft_custom(square_of, context, &once, in, n_in, out, room);
}

static void gradcheck_finds_a_wrong_second_derivative_only_with_second(void)
{
    weft_scope_open();
    weft_array *in[] = {column(0.1, 3, -0.2)};
    weft_gradcheck_options options = {.forward = true};
    CHECK_OK(weft_gradcheck(use_once, NULL, in, 1, &options));
    options = (weft_gradcheck_options){.second = true};
    CHECK_STATUS(weft_gradcheck(use_once, NULL, in, 1, &options), WEFT_INVALID);
    weft_scope_close(NULL);
}

/* ---- sums of gradients ----------------------------------------------------------------------- */

typedef struct layers {
    weft_array *w[3], *ct[3];
} layers;

/* Three layers that read x. */
static weft_array *of_three_layers(void *context, weft_array *const *in, int n)
{
    const layers *l = context;
    weft_array *x = in[0], *y = NULL;
    CHECK_EQ_INT(n, 1);
    for (int i = 0; i < 3; i++) {
        weft_array *part =
            weft_sum(weft_multiply(weft_linear(x, l->w[i], NULL), l->ct[i]), WEFT_ALL_AXES, false);
        y = y ? weft_add(y, part) : part;
    }
    return y;
}

static weft_array *numbers(int64_t rows, int64_t columns, double first)
{
    return weft_sin(
        weft_add_scalar(weft_reshape(weft_arange(0, (double)(rows * columns), 1, WEFT_FLOAT32),
                                     WEFT_DIMS(rows, columns)),
                        first));
}

/* The gradient of what several layers read is one sum of products. */
static void gradients_of_layers_are_summed_in_one_op(void)
{
    weft_scope_open();
    layers l;
    weft_array *x = numbers(4, 5, 9), *want = NULL;
    for (int i = 0; i < 3; i++) {
        l.w[i] = numbers(6 + i, 5, i);
        l.ct[i] = numbers(4, 6 + i, 3 * i);
        weft_array *part = weft_matmul(l.ct[i], l.w[i]);
        want = want ? weft_add(want, part) : part;
    }
    weft_array *gradient = NULL;
    CHECK_OK(weft_grad(of_three_layers, &l, &x, 1, NULL, 0, &gradient));
    CHECK(weft_node_op(gradient) == weft_op_find("linear_sum"));
    CHECK_EQ_INT(weft_node_n_inputs(gradient), 6);
    CHECK(weft_item(weft_max(weft_abs(weft_subtract(gradient, want)), WEFT_ALL_AXES, false)) <
          1e-5);
    weft_scope_close(NULL);
}

CHECK_MAIN("transforms", CHECK_CASE(value_and_gradients_of_arguments),
           CHECK_CASE(gradients_of_slots_leave_the_slots),
           CHECK_CASE(equal_operands_share_the_gradient),
           CHECK_CASE(gradients_of_layers_are_summed_in_one_op),
           CHECK_CASE(a_value_that_is_not_a_scalar_is_refused), CHECK_CASE(gradients_of_gradients),
           CHECK_CASE(checkpointing_changes_only_memory),
           CHECK_CASE(evaluating_inside_a_gradient_consumes_nothing),
           CHECK_CASE(gradcheck_names_the_op_and_the_element),
           CHECK_CASE(gradcheck_finds_a_wrong_jvp_only_with_forward),
           CHECK_CASE(gradcheck_finds_a_wrong_second_derivative_only_with_second))
