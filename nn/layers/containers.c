/* nn/layers/containers.c -- sequential and identity modules. */
#include "nn/module.h"
#include "weft/layers.h"

/* ---- sequential ----------------------------------------------------------------------------- */

static weft_array *forward(weft_module *self, weft_array *x)
{
    const weft_nn_sequential *m = (const weft_nn_sequential *)self;
    for (int i = 0; i < weft_nn_list_count(m->layers); i++)
        x = weft_nn_call(weft_nn_list_at(m->layers, i), x);
    return x;
}

static const weft_module_type sequential_type = {.name = "sequential", .forward = forward};

weft_module *weft_nn_sequential_new(int capacity)
{
    weft_nn_sequential *m = weft_nn_new(weft_nn_sequential, &sequential_type);
    if (m == NULL)
        return NULL;
    weft_nn_child(m, layers, weft_nn_list_new(capacity));
    return weft_nn_finish(m);
}

void weft_nn_sequential_append(weft_module *sequential, weft_module *layer)
{
    weft_nn_list_append(sequential ? ((weft_nn_sequential *)sequential)->layers : NULL, layer);
}

weft_module *weft_nn_sequential_of(weft_module *const *layers, int n)
{
    weft_module *m = weft_nn_sequential_new(n);
    for (int i = 0; i < n; i++)
        weft_nn_sequential_append(m, layers[i]);
    if (m && ((weft_nn_sequential *)m)->layers->failed) {
        weft_nn_free(m);
        return NULL;
    }
    return m;
}

/* ---- identity ------------------------------------------------------------------------------- */

static weft_array *same(weft_module *self, weft_array *x)
{
    (void)self;
    return x;
}

static const weft_module_type identity_type = {.name = "identity", .forward = same};

weft_module *weft_nn_identity_new(void)
{
    return weft_nn_allocate(sizeof(weft_module), &identity_type);
}
