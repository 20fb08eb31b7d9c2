/* nn/stack.c -- a stack of linears, one per expert, and its adapter. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/lora.h"

typedef struct stack {
    weft_module module;
    weft_array *weight; /* (experts, out, in) */
    weft_array *bias;   /* (experts, out), or NULL */
} stack;

const weft_module_type weft__nn_stack_type = {
    .name = "switch_linear",
    .takes_encoded = true,
};

weft_module *weft__nn_stack_new(int64_t experts, int64_t in, int64_t out, bool bias)
{
    stack *m = weft_nn_new(stack, &weft__nn_stack_type);
    if (m == NULL)
        return NULL;
    const double bound = in > 0 ? 1.0 / sqrt((double)in) : 0;
    const weft_dims shape = WEFT_DIMS(experts, out, in);
    weft_nn_param(m, weight, weft_random_uniform(NULL, shape, -bound, bound, WEFT_FLOAT32));
    if (bias)
        weft_nn_param(
            m, bias,
            weft_random_uniform(NULL, WEFT_DIMS(experts, out), -bound, bound, WEFT_FLOAT32));
    return weft_nn_finish(m);
}

/* Applies the adapter of expert ids_i, scale B A, to row i: x (T, in) -> (I, out), in x's dtype. */
static weft_array *delta(weft_nn_lora_linear *m, weft_array *x, weft_array *rows, weft_array *ids)
{
    weft_array *low = weft_gather_linear(x, m->lora_A, rows, ids); /* (I, R) */
    return weft_gather_linear(weft_scale(low, m->scale), m->lora_B, NULL, ids);
}

weft_array *weft__nn_stack_call(weft_module *self, weft_array *x, weft_array *rows, weft_array *ids)
{
    weft_nn_enter_module(self, __func__);
    if (self->type == &weft__nn_stack_type) {
        weft_array *weight = weft__nn_near(((stack *)self)->weight, x);
        weft_array *y = weft_gather_linear(x, weight, rows, ids);
        weft_array *bias = weft__nn_near(((stack *)self)->bias, x);
        if (bias)
            y = weft_add(y, weft_astype(weft_take(bias, ids, 0), weft_dtype_of(y)));
        return weft_nn_leave_module(self, y);
    }
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)self;
    weft_array *y = weft__nn_stack_call(m->base, x, rows, ids);
    if (!m->merged)
        y = weft_add(y, delta(m, x, rows, ids));
    return weft_nn_leave_module(self, y);
}

/* ---- names ---------------------------------------------------------------------------------- */

bool weft__nn_stack_name(const char *path, bool joined, char *out, size_t size)
{
    static const struct {
        const char *here, *there;
        bool ungated; /* "up_proj" is a parameter of its own */
    } names[] = {{".mixer.switch_mlp.", ".mixer.experts.", true},
                 {".experts.switch_glu.", ".experts.", false},
                 {".switch_mlp.", ".experts.", false},
                 {".mlp.experts.", ".mlp.experts.", false}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *at = strstr(path, names[i].here);
        if (at == NULL)
            continue;
        const char *end = at + strlen(names[i].here);
        const bool part = strcmp(end, "gate_proj") == 0 || strcmp(end, "up_proj") == 0;
        const int n = snprintf(out, size, "%.*s%s%s", (int)(at - path), path, names[i].there,
                               joined && part && !names[i].ungated ? "gate_up_proj" : end);
        return n >= 0 && (size_t)n < size;
    }
    return false;
}
