/* tests/nn/adapted.c -- a net of three layers for tests of adapters. */
#include "tests/nn/adapted.h"

#include <math.h>
#include <string.h>

#include "tests/check.h"

typedef struct layer {
    weft_module module;
    weft_module *q_proj, *v_proj, *up_proj;
} layer;

static weft_array *layer_forward(weft_module *self, weft_array *x)
{
    layer *m = (layer *)self;
    x = weft_add(weft_nn_call(m->q_proj, x), weft_nn_call(m->v_proj, x));
    return weft_nn_call(m->up_proj, x);
}

static const weft_module_type layer_type = {.name = "layer", .forward = layer_forward};

static weft_module *layer_new(void)
{
    layer *m = weft_nn_new(layer, &layer_type);
    if (m == NULL)
        return NULL;
    weft_nn_child(m, q_proj, weft_nn_linear_new(16, 16, true));
    weft_nn_child(m, v_proj, weft_nn_linear_new(16, 16, false));
    weft_nn_child(m, up_proj, weft_nn_linear_new(16, 16, false));
    return weft_nn_finish(m);
}

typedef struct net {
    weft_module module;
    weft_module *layers, *lm_head;
} net;

static weft_array *net_forward(weft_module *self, weft_array *x)
{
    net *m = (net *)self;
    for (int i = 0; i < weft_nn_list_count(m->layers); i++)
        x = weft_nn_call(weft_nn_list_at(m->layers, i), x);
    return weft_nn_call(m->lm_head, x);
}

static const weft_module_type net_type = {.name = "net", .forward = net_forward};

weft_module *adapted_net(void)
{
    net *m = weft_nn_new(net, &net_type);
    if (m == NULL)
        return NULL;
    weft_module *list = weft_nn_list_new(3);
    for (int i = 0; list && i < 3; i++)
        weft_nn_list_append(list, layer_new());
    weft_nn_child(m, layers, list ? weft_nn_finish_module(list) : NULL);
    weft_nn_child(m, lm_head, weft_nn_linear_new(16, 5, false));
    return weft_nn_finish(m);
}

weft_array *adapted_input(void)
{
    float x[32];
    for (int i = 0; i < 32; i++)
        x[i] = sinf((float)i);
    return weft_from_data(x, WEFT_FLOAT32, WEFT_DIMS(2, 16));
}

double adapted_difference(weft_array *a, weft_array *b)
{
    return weft_item(weft_max(weft_abs(weft_subtract(a, b)), WEFT_ALL_AXES, false));
}

void adapted_fill(weft_module *m)
{
    weft_nn_slots slots;
    if (!CHECK_OK(weft_nn_trainable(m, &slots)))
        return;
    for (int i = 0; i < slots.n; i++) {
        weft_array *old = *slots.slots[i];
        if (strstr(slots.paths[i], "lora_B"))
            CHECK_OK(weft_set(slots.slots[i], weft_random_normal(NULL, weft_shape(old), 0, 0.1,
                                                                 weft_dtype_of(old))));
    }
    weft_nn_slots_free(&slots);
}
