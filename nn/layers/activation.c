/* nn/layers/activation.c -- activation functions as modules. */
#include <stdio.h>
#include <string.h>

#include "nn/module.h"
#include "weft/activations.h"
#include "weft/layers.h"

typedef struct row {
    const char *name;
    weft_activation *function;
    weft_array *(*with_number)(weft_array *x, double number);
    weft_array *(*with_axis)(weft_array *x, int axis);
    double number; /* number or axis; the default */
} row;

static weft_array *hard_tanh(weft_array *x)
{
    return weft_hard_tanh(x, -1, 1);
}

static const row rows[] = {
    {.name = "sigmoid", .function = weft_sigmoid},
    {.name = "relu", .function = weft_relu},
    {.name = "relu2", .function = weft_relu2},
    {.name = "relu6", .function = weft_relu6},
    {.name = "leaky_relu", .with_number = weft_leaky_relu, .number = 0.01},
    {.name = "log_softmax", .with_axis = weft_log_softmax, .number = -1},
    {.name = "elu", .with_number = weft_elu, .number = 1},
    {.name = "softmax", .with_axis = weft_softmax, .number = -1},
    {.name = "softplus", .function = weft_softplus},
    {.name = "softsign", .function = weft_softsign},
    {.name = "softshrink", .with_number = weft_softshrink, .number = 0.5},
    {.name = "celu", .with_number = weft_celu, .number = 1},
    {.name = "silu", .function = weft_silu},
    {.name = "log_sigmoid", .function = weft_log_sigmoid},
    {.name = "gelu", .function = weft_gelu},
    {.name = "gelu_approx", .function = weft_gelu_tanh},
    {.name = "gelu_fast_approx", .function = weft_gelu_fast_approx},
    {.name = "glu", .with_axis = weft_glu, .number = -1},
    {.name = "step", .with_number = weft_binary_step, .number = 0},
    {.name = "selu", .function = weft_selu},
    {.name = "mish", .function = weft_mish},
    {.name = "hardswish", .function = weft_hardswish},
    {.name = "hard_tanh", .function = hard_tanh},
    {.name = "hard_shrink", .with_number = weft_hard_shrink, .number = 0.5},
    {.name = "softmin", .with_axis = weft_softmin, .number = -1},
    {.name = "tanh", .function = weft_tanh},
};

static weft_array *forward(weft_module *self, weft_array *x)
{
    const weft_nn_activation *m = (const weft_nn_activation *)self;
    if (m->with_number)
        return m->with_number(x, m->number);
    return m->with_axis ? m->with_axis(x, (int)m->number) : m->function(x);
}

static void describe(const weft_module *self, char *out, size_t size)
{
    const weft_nn_activation *m = (const weft_nn_activation *)self;
    if (m->function)
        snprintf(out, size, "%s", m->name);
    else
        snprintf(out, size, "%s %s%g", m->name, m->with_axis ? "axis=" : "", m->number);
}

static const weft_module_type type = {
    .name = "activation",
    .forward = forward,
    .describe = describe,
};

static weft_module *activation(const row *r, double number)
{
    weft_nn_activation *m = weft_nn_new(weft_nn_activation, &type);
    if (m == NULL)
        return NULL;
    m->name = r->name;
    m->function = r->function;
    m->with_number = r->with_number;
    m->with_axis = r->with_axis;
    m->number = number;
    return weft_nn_finish(m);
}

static const row *find(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    }
    weft_fail(WEFT_INVALID, "activation: unknown name '%s'", weft_printable(name));
    return NULL;
}

weft_module *weft_nn_activation_new(const char *name)
{
    const row *r = find(name);
    return r ? activation(r, r->number) : NULL;
}

weft_module *weft_nn_activation_with(const char *name, double number)
{
    const row *r = find(name);
    if (r && r->function) {
        weft_fail(WEFT_INVALID, "activation: %s has no parameter", name);
        return NULL;
    }
    return r ? activation(r, number) : NULL;
}

weft_module *weft_nn_activation_of(const char *name, weft_activation *function)
{
    return activation(&(row){.name = name, .function = function}, 0);
}

/* ---- with a parameter ----------------------------------------------------------------------- */

static weft_array *prelu_forward(weft_module *self, weft_array *x)
{
    return weft_prelu(x, ((weft_nn_prelu *)self)->weight);
}

static const weft_module_type prelu_type = {.name = "prelu", .forward = prelu_forward};

weft_module *weft_nn_prelu_new(int64_t n, double first)
{
    weft_nn_prelu *m = weft_nn_new(weft_nn_prelu, &prelu_type);
    if (m == NULL)
        return NULL;
    weft_nn_param(m, weight, weft_full(WEFT_DIMS(n), first, WEFT_FLOAT32));
    return weft_nn_finish(m);
}
