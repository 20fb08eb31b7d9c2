/* core/transforms/identity.c -- the identity ops alias and barrier; weft_depends. */
#include "core/transforms/transforms.h"

static bool infer_same(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    out[0] = *weft_node_spec(weft_node_input(node, 0), 0);
    return true;
}

static bool view_same(const weft_array *node, const weft_tensor *in, weft_tensor *out)
{
    (void)node;
    (void)in;
    (void)out; /* outputs are preset to the input */
    return true;
}

static void pass_back(weft_array *node, weft_array *const *cts, const bool *wanted,
                      weft_array **grads)
{
    (void)node;
    if (wanted[0]) {
        grads[0] = cts[0];
    }
}

/* A batch of x may wait for a batch of `after`; neither needs the other's axis. */
static bool barrier_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                         weft_array **out)
{
    (void)node;
    weft_array *y = weft__barrier(in[0], in[1]);
    out[0] = batched[0] ? y : weft__repeat(y, size);
    return true;
}

static const weft_op op_alias = {
    .name = "alias",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .infer = infer_same,
    .view = view_same,
    .vjp = pass_back,
    .takes_encoded = 1,
    .linear = true,
    .takes_leading_axis = true,
    .passes_through = true,
};

static const weft_op op_barrier = {
    .name = "barrier",
    .family = WEFT_STRUCTURAL,
    .arity = 2,
    .infer = infer_same,
    .view = view_same,
    .vjp = pass_back,
    .linear = true,
    .vmap = barrier_vmap,
    .zero_gradient = 1u << 1,
    .takes_encoded = 3,
    .passes_through = true,
    .keeps_order = true,
};

weft_array *weft__alias(weft_array *x)
{
    return weft_apply(&op_alias, &x, 1, NULL);
}

weft_array *weft__barrier(weft_array *x, weft_array *after)
{
    weft_array *inputs[] = {x, after}; /* the devices may differ, since the elements of `after` are
                                        * not read */
    return weft__apply_on(weft_device_of(x), &op_barrier, inputs, 2, NULL);
}

void weft_depends(weft_array *const *arrays, int n, weft_array *const *dependencies, int m,
                  weft_array **outs)
{
    weft_array *after = m > 0 ? dependencies[0] : NULL;
    for (int i = 1; i < m; i++) {
        after = weft__barrier(after, dependencies[i]);
    }
    for (int i = 0; i < n; i++) {
        outs[i] = after ? weft__barrier(arrays[i], after) : arrays[i];
    }
}
