/* ops/structure/broadcast.c -- broadcast_to: repeats an array along new axes and axes of length 1,
 * without a copy. */
#include "ops/batch.h"
#include "ops/kernel.h"

static weft_status broadcast_reference(const weft_call *call)
{
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    int extra = out->shape.n - in->shape.n;
    int64_t size = weft_tensor_size(out), at[WEFT_MAX_DIMS];
    for (int64_t o = 0; o < size; o++) {
        index_split(&out->shape, o, at);
        for (int i = 0; i < in->shape.n; i++) {
            at[i] = in->shape.at[i] == 1 ? 0 : at[i + extra];
        }
        move_element(in, index_join(&in->shape, at), out, o);
    }
    return WEFT_OK;
}

static bool broadcast_view(const weft_array *node, const weft_tensor *in, weft_tensor *out)
{
    const weft_shape_params *p = weft_node_params(node);
    int extra = p->shape.n - in->shape.n;
    out->shape = p->shape;
    for (int i = 0; i < p->shape.n; i++) {
        bool repeats = i < extra || in->shape.at[i - extra] != p->shape.at[i];
        out->strides[i] = repeats ? 0 : in->strides[i - extra];
    }
    return true;
}

/* The gradient sums over all repetitions. */
static void broadcast_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                          weft_array **grads)
{
    if (!wanted[0]) {
        return;
    }
    weft_dims from = input_shape(node, 0), to = weft_shape(node), axes = {0};
    for (int i = 0; i < to.n; i++) {
        int extra = to.n - from.n;
        if (i < extra || from.at[i - extra] != to.at[i]) {
            axes.at[axes.n++] = i - to.n;
        }
    }
    weft_array *sum = axes.n ? weft_sum(cts[0], axes, true) : cts[0];
    grads[0] = weft_reshape(sum, from);
}

static bool broadcast_to_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                              int64_t size, weft_array **out)
{
    const weft_shape_params *p = weft_node_params(node);
    weft_dims shape = with_batch(p->shape, size), from = weft_shape(in[0]), aligned = {0};
    (void)batched;
    /* The batch axis in front, then axes of length 1 up to the rank of the result. */
    aligned.n = shape.n;
    for (int i = 0; i < shape.n; i++) {
        int at = i - (shape.n - from.n);
        aligned.at[i] = i == 0 ? size : at > 0 ? from.at[at] : 1;
    }
    out[0] = weft_broadcast_to(weft_reshape(in[0], aligned), shape);
    return true;
}

static bool broadcast_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_shape_params *p = weft_node_params(node);
    weft_dims from = input_shape(node, 0), common;
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    bool fits =
        weft__shape_broadcast(&from, &p->shape, &common) && weft__shape_equal(&common, &p->shape);
    for (int i = 0; i < p->shape.n; i++) {
        fits = fits && p->shape.at[i] >= 0;
    }
    if (!fits) {
        return weft_because(why, "%s does not broadcast to %s", weft__shape_text(&from, a),
                            weft__shape_text(&p->shape, b));
    }
    return set_spec(out, input_dtype(node, 0), &p->shape);
}

static const weft_field broadcast_fields[] = {WEFT_FIELD(DIMS, weft_shape_params, shape),
                                              WEFT_FIELDS_END};

static const weft_case broadcast_cases[] = {
    {.name = "rows",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3)}},
     .params = &(const weft_shape_params){DIMS(2, 3)}},
    {.name = "columns",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 1, 3)}},
     .params = &(const weft_shape_params){DIMS(4, 2, 5, 3)}},
    {.name = "scalar", .n_inputs = 1, .params = &(const weft_shape_params){DIMS(2, 2)}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(1, 3)}},
     .params = &(const weft_shape_params){DIMS(0, 3)}},
};

const weft_op weft_op_broadcast_to = {
    .name = "broadcast_to",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .params_size = sizeof(weft_shape_params),
    .params_fields = broadcast_fields,
    .infer = broadcast_infer,
    .vjp = broadcast_vjp,
    .linear = true,
    .vmap = broadcast_to_vmap,
    .is_identity = always_identity,
    .view = broadcast_view,
    .reference = broadcast_reference,
    .cases = broadcast_cases,
    .n_cases = sizeof broadcast_cases / sizeof *broadcast_cases,
};

weft_array *weft_broadcast_to(weft_array *x, weft_dims shape)
{
    weft_dims old = weft_shape(x);
    if (!weft_ok(x) || weft__shape_equal(&old, &shape)) {
        return x;
    }
    weft_shape_params params = {shape};
    return apply1(&weft_op_broadcast_to, x, &params);
}
