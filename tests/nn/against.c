/* tests/nn/against.c -- functions and modules against PyTorch's values and gradients. */
#include "tests/nn/against.h"

#include <stdio.h>

#include "tests/check.h"
#include "tests/support/golden.h"

enum { MOST_INPUTS = 6, MOST_SLOTS = 64 };

typedef struct comparison {
    const char *name;
    weft_module *module; /* NULL: a function */
    weft_array *(*function)(weft_array *const *in);
    weft_array *(*call)(weft_module *m, weft_array *const *in);
    weft_array *in[MOST_INPUTS];
    weft_array *y, *ct; /* kept */
    int n_in;
    weft_dtype dtype;
    double tolerance;
} comparison;

static const char *tensor(const comparison *c, const char *what)
{
    static char name[WEFT_NN_PATH + 64];
    snprintf(name, sizeof name, "%s/%s", c->name, what);
    return name;
}

static const char *numbered(const comparison *c, const char *what, int i)
{
    static char name[128];
    snprintf(name, sizeof name, "%s/%s%d", c->name, what, i);
    return name;
}

static weft_array *read(const comparison *c, const char *name)
{
    weft_array *x = golden_get(name);
    return x && weft_dtype_is_float(weft_dtype_of(x)) ? weft_astype(x, c->dtype) : x;
}

/* The scalar whose gradients are those of the cotangent. */
static weft_array *scalar(void *context)
{
    comparison *c = context;
    weft_array *y;
    if (c->module == NULL)
        y = c->function(c->in);
    else
        y = c->call ? c->call(c->module, c->in) : weft_nn_call(c->module, c->in[0]);
    CHECK_OK(weft_set(&c->y, weft_stop_gradient(y)));
    if (c->ct)
        y = weft_multiply(y, c->ct);
    return weft_sum(weft_astype(y, c->dtype), WEFT_ALL_AXES, false);
}

static int input_slots(comparison *c, weft_array **slots[])
{
    int n = 0;
    for (c->n_in = 0; golden_has(numbered(c, "in", c->n_in)); c->n_in++) {
        c->in[c->n_in] = NULL;
        CHECK_OK(weft_set(&c->in[c->n_in], read(c, numbered(c, "in", c->n_in))));
        if (golden_has(numbered(c, "grad", c->n_in)))
            slots[n++] = &c->in[c->n_in];
    }
    return n;
}

static int parameter_slots(comparison *c, const weft_nn_slots *parameters, weft_array **slots[],
                           int n)
{
    for (int i = 0; i < parameters->n && n < MOST_SLOTS; i++) {
        char what[WEFT_NN_PATH + 8];
        snprintf(what, sizeof what, "param/%s", parameters->paths[i]);
        CHECK_OK(weft_set(parameters->slots[i], read(c, tensor(c, what))));
        snprintf(what, sizeof what, "grad/%s", parameters->paths[i]);
        if (golden_has(tensor(c, what)))
            slots[n++] = parameters->slots[i];
    }
    return n;
}

static void check_gradients(comparison *c, const weft_nn_slots *parameters, weft_array **grads)
{
    int n = 0;
    for (int i = 0; i < c->n_in; i++) {
        if (golden_has(numbered(c, "grad", i)))
            golden_check(grads[n++], numbered(c, "grad", i), c->tolerance);
    }
    for (int i = 0; i < parameters->n; i++) {
        char what[WEFT_NN_PATH + 8];
        snprintf(what, sizeof what, "grad/%s", parameters->paths[i]);
        if (golden_has(tensor(c, what)))
            golden_check(grads[n++], tensor(c, what), c->tolerance);
    }
}

static void compare(comparison *c)
{
    weft_array **slots[MOST_SLOTS + MOST_INPUTS], *grads[MOST_SLOTS + MOST_INPUTS];
    weft_nn_slots parameters = {0};
    weft_scope_open();
    int n = input_slots(c, slots);
    if (c->module && CHECK_OK(weft_nn_parameters(c->module, &parameters)))
        n = parameter_slots(c, &parameters, slots, n);
    if (golden_has(tensor(c, "ct")))
        CHECK_OK(weft_set(&c->ct, read(c, tensor(c, "ct"))));
    if (c->ct && n > 0) {
        weft_value_and_grad_slots(scalar, c, slots, n, grads);
        for (int i = 0; i < n; i++)
            weft_keep(grads[i]);
        check_gradients(c, &parameters, grads);
        for (int i = 0; i < n; i++)
            weft_drop(grads[i]);
    } else {
        scalar(c);
    }
    golden_check(c->y, tensor(c, "out0"), c->tolerance);
    for (int i = 0; i < c->n_in; i++)
        weft_drop(c->in[i]);
    weft_drop(c->y);
    weft_drop(c->ct);
    weft_nn_slots_free(&parameters);
    weft_scope_close(NULL);
}

void against_function(const char *name, weft_array *(*f)(weft_array *const *in), double tolerance)
{
    comparison single = {
        .name = name, .function = f, .dtype = WEFT_FLOAT32, .tolerance = tolerance};
    comparison twice = {.name = name, .function = f, .dtype = WEFT_FLOAT64, .tolerance = 1e-10};
    compare(&single);
    compare(&twice);
}

void against_module_single(const char *name, weft_module *m,
                           weft_array *(*f)(weft_module *m, weft_array *const *in),
                           double tolerance)
{
    comparison single = {
        .name = name, .module = m, .call = f, .dtype = WEFT_FLOAT32, .tolerance = tolerance};
    if (CHECK(m != NULL))
        compare(&single);
    weft_nn_free(m);
}

void against_module(const char *name, weft_module *m,
                    weft_array *(*f)(weft_module *m, weft_array *const *in), double tolerance)
{
    comparison twice = {
        .name = name, .module = m, .call = f, .dtype = WEFT_FLOAT64, .tolerance = 1e-10};
    if (CHECK(m != NULL)) {
        compare(&twice);
        against_module_single(name, m, f, tolerance);
    }
}
