/* ops/conv/conv_weight_grad.c -- the gradient of a convolution with respect to its weight. */
#include "ops/conv/conv.h"

/* x (N, ..., C) as (C / groups, ..., groups N), since the sum runs over N. */
static weft_array *batch_last(weft_array *x, int64_t groups)
{
    weft_dims parts = weft_shape(x), whole = parts, order = {0};
    int64_t N = parts.at[0], channels = parts.at[parts.n - 1] / groups;
    parts.at[parts.n - 1] = groups;
    parts.at[parts.n++] = channels;
    order.at[order.n++] = parts.n - 1;
    for (int i = 1; i < parts.n - 1; i++) {
        order.at[order.n++] = i;
    }
    order.at[order.n++] = 0;
    whole.at[0] = channels;
    whole.at[whole.n - 1] = groups * N;
    return weft_reshape(weft_transpose(weft_reshape(x, parts), order), whole);
}

/* A convolution of x with the cotangent as kernel: element j of the weight meets output o at o
 * stride + j dilation, so stride and dilation are exchanged. */
static void expand(weft_array *node, weft_array **outs)
{
    const weft_conv_params *p = weft_node_params(node);
    weft_array *x = weft_node_input(node, 0), *ct = weft_node_input(node, 1);
    const weft_spec *spec = weft_node_spec(node, 0);
    if (weft_size(x) == 0 || weft_size(ct) == 0) {
        outs[0] = weft__zeros_on_device_of(x, spec->shape, spec->dtype);
        return;
    }
    weft_conv_params swapped = *p;
    swapped.stride = p->kernel_dilation;
    swapped.kernel_dilation = p->stride;
    swapped.kernel = (weft_dims){0};
    swapped.flip = false;
    int axes = weft_ndim(x) - 2;
    for (int axis = 0; axis < axes; axis++) {
        int64_t spread = (weft_dim(x, axis + 1) - 1) * p->input_dilation.at[axis] + 1;
        int64_t span = (weft_dim(ct, axis + 1) - 1) * p->stride.at[axis] + 1;
        swapped.pad_high.at[axis] = (p->kernel.at[axis] - 1) * p->kernel_dilation.at[axis] + span -
                                    spread - p->pad_low.at[axis];
    }
    weft_array *kernel = weft__conv_move(weft__conv_move(ct, 0, axes + 1), axes, 0);
    weft_array *y = weft__conv(batch_last(x, p->groups), kernel, &swapped);
    y = weft_swapaxes(y, 0, axes + 1); /* (O, kernel..., C / groups) */
    if (p->flip) {
        weft_dims spatial = {0}, from = {0}, to = {0}, back = {0};
        for (int axis = 0; axis < axes; axis++) {
            spatial.at[spatial.n++] = axis + 1;
            from.at[from.n++] = p->kernel.at[axis] - 1;
            to.at[to.n++] = -p->kernel.at[axis] - 1;
            back.at[back.n++] = -1;
        }
        y = weft_slice(y, spatial, from, to, back);
    }
    outs[0] = y;
}

/* Linear in each input. For the weight's cotangent v, x meets v as in the convolution. */
static void vjp(weft_array *node, weft_array *const *cts, const bool *wanted, weft_array **grads)
{
    const weft_conv_params *p = weft_node_params(node);
    weft_conv_params conv = *p;
    weft_dims x = input_shape(node, 0);
    conv.kernel = (weft_dims){0};
    if (wanted[0]) {
        grads[0] = weft__conv_input_grad(weft_node_input(node, 1), cts[0], &x, &conv);
    }
    if (wanted[1]) {
        grads[1] = weft__conv(weft_node_input(node, 0), cts[0], &conv);
    }
}

static void jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    const weft_conv_params *p = weft_node_params(node);
    weft_array *x = weft_node_input(node, 0), *ct = weft_node_input(node, 1);
    const weft_op *op = &weft_op_conv_weight_grad;
    weft_array *left = tangents[0] ? apply2(op, tangents[0], ct, p) : NULL;
    weft_array *right = tangents[1] ? apply2(op, x, tangents[1], p) : NULL;
    out[0] = left && right ? weft_add(left, right) : left ? left : right;
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_conv_params p = *(const weft_conv_params *)weft_node_params(node);
    weft_dims x = input_shape(node, 0), ct = input_shape(node, 1), weight = x, shape;
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    if (!weft__conv_dtypes(node, why)) {
        return false;
    }
    if (x.n < 3 || ct.n != x.n || p.kernel.n != x.n - 2 || p.groups < 1) {
        return weft_because(why, "x %s, cotangent %s, %d sizes of the kernel",
                            weft__shape_text(&x, a), weft__shape_text(&ct, b), p.kernel.n);
    }
    weight.at[0] = ct.at[ct.n - 1];
    weight.at[weight.n - 1] = x.at[x.n - 1] / p.groups;
    for (int axis = 0; axis < p.kernel.n; axis++) {
        weight.at[axis + 1] = p.kernel.at[axis];
    }
    if (!weft__conv_shape(&p, &x, &weight, &shape, why)) {
        return false;
    }
    if (!weft__shape_equal(&shape, &ct)) {
        return weft_because(why, "expected a cotangent of %s, got %s", weft__shape_text(&shape, a),
                            weft__shape_text(&ct, b));
    }
    return set_spec(out, input_dtype(node, 0), &weight);
}

static const weft_conv_params line = {.stride = DIMS(2),
                                      .pad_low = DIMS(1),
                                      .pad_high = DIMS(1),
                                      .kernel_dilation = DIMS(1),
                                      .input_dilation = DIMS(1),
                                      .kernel = DIMS(3),
                                      .groups = 1};
static const weft_conv_params groups = {.stride = DIMS(2, 1),
                                        .pad_low = DIMS(2, -1),
                                        .pad_high = DIMS(0, 2),
                                        .kernel_dilation = DIMS(2, 1),
                                        .input_dilation = DIMS(3, 1),
                                        .kernel = DIMS(3, 2),
                                        .groups = 2,
                                        .flip = true};
static const weft_conv_params depthwise = {.stride = DIMS(1, 1),
                                           .pad_low = DIMS(1, 1),
                                           .pad_high = DIMS(1, 1),
                                           .kernel_dilation = DIMS(1, 1),
                                           .input_dilation = DIMS(1, 1),
                                           .kernel = DIMS(3, 3),
                                           .groups = 20};
static const weft_conv_params space = {.stride = DIMS(1, 2, 1),
                                       .pad_low = DIMS(0, 1, 0),
                                       .pad_high = DIMS(0, 0, 1),
                                       .kernel_dilation = DIMS(1, 1, 1),
                                       .input_dilation = DIMS(1, 1, 1),
                                       .kernel = DIMS(2, 2, 2),
                                       .groups = 1};

static const weft_case cases[] = {
    {"line", 2, {{.shape = DIMS(2, 5, 3)}, {.shape = DIMS(2, 3, 4)}}, &line},
    {"groups", 2, {{.shape = DIMS(2, 3, 4, 4)}, {.shape = DIMS(2, 3, 4, 6)}}, &groups},
    {"depthwise", 2, {{.shape = DIMS(2, 4, 5, 20)}, {.shape = DIMS(2, 4, 5, 20)}}, &depthwise},
    {"space", 2, {{.shape = DIMS(1, 2, 3, 2, 2)}, {.shape = DIMS(1, 1, 2, 2, 3)}}, &space},
    {"nothing", 2, {{.shape = DIMS(0, 5, 3)}, {.shape = DIMS(0, 3, 4)}}, &line},
};

/* Elements of padding count as terms. */
static void count_work(const weft_call *call, weft_work *work)
{
    const weft_tensor *dw = &call->out[0];
    const double filters = (double)(dw->shape.at[0] > 0 ? dw->shape.at[0] : 1);
    work->flops =
        2 * (double)weft_tensor_size(&call->in[1]) * ((double)weft_tensor_size(dw) / filters);
}

const weft_op weft_op_conv_weight_grad = {
    .name = "conv_weight_grad",
    .family = WEFT_COMPOSITE,
    .arity = 2,
    .params_size = sizeof(weft_conv_params),
    .params_fields = weft__conv_fields,
    .infer = infer,
    .vjp = vjp,
    .jvp = jvp,
    .expand = expand,
    .work = count_work,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = DTYPE_BIT(WEFT_BOOL) | DTYPE_BIT(WEFT_COMPLEX64),
    .tolerance = 1e-5, /* as for conv */
};

weft_array *weft__conv_weight_grad(weft_array *x, weft_array *ct, const weft_dims *weight,
                                   const weft_conv_params *p)
{
    weft_conv_params params = *p;
    params.kernel = (weft_dims){.n = weight->n - 2};
    for (int axis = 0; axis < params.kernel.n; axis++) {
        params.kernel.at[axis] = weight->at[axis + 1];
    }
    return apply2(&weft_op_conv_weight_grad, x, ct, &params);
}
