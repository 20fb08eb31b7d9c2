/* tests/nn/test_gradcheck.c -- gradients of a module's parameters against differences. */
#include <string.h>

#include "tests/check.h"
#include "weft/layers.h"
#include "weft/nn_tools.h"

typedef struct scene {
    weft_module *module;
    weft_array *x;
    bool vector; /* the function returns one */
} scene;

static weft_array *loss(void *context)
{
    scene *s = context;
    weft_array *y = weft_square(weft_nn_call(s->module, s->x));
    return s->vector ? y : weft_mean(y, WEFT_ALL_AXES, false);
}

/* 2 n + 3 parameters. */
static weft_module *net(int n)
{
    weft_module *m = weft_nn_sequential_new(2 * n + 2);
    weft_random_seed(4);
    for (int i = 0; i < n; i++) {
        weft_nn_sequential_append(m, weft_nn_linear_new(3, 3, true));
        weft_nn_sequential_append(m, weft_nn_activation_new("gelu"));
    }
    weft_nn_sequential_append(m, weft_nn_rms_norm_new(3, 1e-5));
    weft_nn_sequential_append(m, weft_nn_linear_new(3, 2, true));
    return m;
}

static weft_array *input(void)
{
    return weft_random_normal(weft_random_key(1), WEFT_DIMS(4, 3), 0, 1, WEFT_FLOAT64);
}

/* More float32 parameters than a table has room for are checked in float64, and are restored
 * afterwards. */
static void every_parameter_is_checked_and_restored(void)
{
    weft_scope_open();
    scene s = {net(20), input(), false};
    weft_nn_slots slots;
    CHECK_OK(weft_nn_eval(s.module));
    CHECK_OK(weft_nn_parameters(s.module, &slots));
    CHECK_EQ_INT(slots.n, 43);
    weft_array **before = weft_calloc((size_t)slots.n, sizeof(weft_array *));
    for (int i = 0; i < slots.n && CHECK(before != NULL); i++)
        before[i] = *slots.slots[i];
    const weft_gradcheck_options options = {.max_elements = 2, .forward = true};
    CHECK_OK(weft_nn_gradcheck(s.module, loss, &s, &options));
    for (int i = 0; i < slots.n && before; i++) {
        CHECK(*slots.slots[i] == before[i] && weft_dtype_of(before[i]) == WEFT_FLOAT32);
        CHECK_OK(weft_eval(weft_add_scalar(before[i], 1)));
    }
    weft_free(before);
    weft_nn_slots_free(&slots);
    weft_nn_free(s.module);
    weft_scope_close(NULL);
}

/* x, with a gradient that is twice what it should be. */
static int identity(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_positive(in[0]);
    return 1;
}

static void doubled(void *context, weft_array *const *in, int n_in, weft_array *const *outs,
                    int n_out, weft_array *const *cotangents, weft_array **grads)
{
    (void)context, (void)in, (void)n_in, (void)outs, (void)n_out;
    grads[0] = weft_scale(cotangents[0], 2);
}

static weft_array *wrong_loss(void *context)
{
    static const weft_custom_rules rules = {.vjp = doubled};
    scene *s = context;
    weft_nn_linear *last = (weft_nn_linear *)weft_nn_find_module(s->module, "layers.3");
    weft_array *bias = last->bias, *wrong;
    weft_custom(identity, NULL, &rules, &bias, 1, &wrong, 1);
    return weft_add(loss(s), weft_sum(wrong, WEFT_ALL_AXES, false));
}

static void a_wrong_gradient_names_the_parameter(void)
{
    weft_scope_open();
    scene s = {net(1), input(), false};
    CHECK_OK(weft_nn_gradcheck(s.module, loss, &s, NULL));
    CHECK_STATUS(weft_nn_gradcheck(s.module, wrong_loss, &s, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "layers.3.bias, element");
    s.vector = true;
    CHECK_STATUS(weft_nn_gradcheck(s.module, loss, &s, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected a float scalar");
    weft_nn_freeze(s.module);
    CHECK_STATUS(weft_nn_gradcheck(s.module, loss, &s, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "no trainable parameter");
    weft_nn_free(s.module);
    weft_scope_close(NULL);
}

/* The base is frozen; A and B are checked through it. */
static void adapters_are_checked_without_their_base(void)
{
    static const char *const targets[] = {"layers.0", "layers.3"};
    weft_scope_open();
    scene s = {net(1), input(), false};
    CHECK_OK(weft_nn_lora_inject(
        s.module, &(weft_nn_lora_options){.rank = 2, .targets = targets, .n_targets = 2}));
    CHECK_OK(weft_nn_gradcheck(s.module, loss, &s, NULL));
    weft_nn_free(s.module);
    weft_scope_close(NULL);
}

CHECK_MAIN("nn_gradcheck", CHECK_CASE(every_parameter_is_checked_and_restored),
           CHECK_CASE(a_wrong_gradient_names_the_parameter),
           CHECK_CASE(adapters_are_checked_without_their_base))
