/* ops/conv/conv.c -- convolution over one to three axes, channels last. */
#include "ops/conv/conv.h"

/* ---- Reference ------------------------------------------------------------------------------ */

/* The index of the element (n, position..., c) of x, or -1 in the padding. `at` is the multi-index
 * of the output, `tap` that of the kernel. */
static int64_t x_index(const weft_conv_params *p, const weft_dims *x, const int64_t *at,
                       const int64_t *tap)
{
    int64_t index = at[0];
    for (int axis = 0; axis < x->n - 2; axis++) {
        int64_t place = conv_input_index(p, axis, x->at[axis + 1], at[axis + 1], tap[axis]);
        if (place < 0) {
            return -1;
        }
        index = index * x->at[axis + 1] + place;
    }
    return index * x->at[x->n - 1];
}

/* The row-major index of a tap of the weight; a flipped kernel is indexed from its end. */
static int64_t tap_index(const weft_conv_params *p, const weft_dims *weight, const int64_t *tap)
{
    int64_t index = 0;
    for (int axis = 0; axis < weight->n - 2; axis++) {
        int64_t size = weight->at[axis + 1];
        index = index * size + (p->flip ? size - 1 - tap[axis] : tap[axis]);
    }
    return index;
}

static void add_tap(const weft_call *call, int64_t x_first, int64_t w_first, int64_t channels,
                    double *sum, uint64_t *whole)
{
    const weft_tensor *x = &call->in[0], *w = &call->in[1];
    for (int64_t c = 0; c < channels; c++) {
        if (whole) {
            *whole += (uint64_t)weft_tensor_get_int(x, x_first + c) *
                      (uint64_t)weft_tensor_get_int(w, w_first + c);
        } else {
            *sum += weft_tensor_get(x, x_first + c) * weft_tensor_get(w, w_first + c);
        }
    }
}

static weft_status reference(const weft_call *call)
{
    const weft_conv_params *p = call->params;
    const weft_tensor *out = &call->out[0];
    const weft_dims *x = &call->in[0].shape, *w = &call->in[1].shape;
    weft_dims kernel = {.n = w->n - 2};
    int64_t taps = 1, channels = w->at[w->n - 1], size = weft_tensor_size(out);
    for (int axis = 0; axis < kernel.n; axis++) {
        taps *= kernel.at[axis] = w->at[axis + 1];
    }
    bool integer = !weft_dtype_is_float(out->dtype);
    for (int64_t i = 0; i < size; i++) {
        int64_t at[WEFT_MAX_DIMS], tap[WEFT_MAX_DIMS];
        index_split(&out->shape, i, at);
        int64_t o = at[out->shape.n - 1], group = o / (w->at[0] / p->groups);
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t t = 0; t < taps; t++) {
            index_split(&kernel, t, tap);
            int64_t first = x_index(p, x, at, tap);
            if (first >= 0) {
                add_tap(call, first + group * channels,
                        (o * taps + tap_index(p, w, tap)) * channels, channels, &sum,
                        integer ? &whole : NULL);
            }
        }
        if (integer) {
            weft_tensor_set_int(out, i, (int64_t)whole);
        } else {
            weft_tensor_set(out, i, sum);
        }
    }
    return WEFT_OK;
}

/* ---- Derivatives ---------------------------------------------------------------------------- */

weft_array *weft__conv_move(weft_array *x, int from, int to)
{
    weft_dims order = {.n = weft_ndim(x)};
    for (int i = 0, next = 0; i < order.n; i++) {
        next += next == from;
        order.at[i] = i == to ? from : next++;
    }
    return weft_transpose(x, order);
}

/* Transposes (O, kernel..., C / groups) to (C, kernel..., O / groups). */
static weft_array *turned(weft_array *weight, int64_t groups)
{
    weft_dims parts = weft_shape(weight), whole = parts;
    int64_t outputs = parts.at[0] / groups, channels = parts.at[parts.n - 1];
    for (int i = parts.n; i > 1; i--) {
        parts.at[i] = parts.at[i - 1];
    }
    parts.n++;
    parts.at[0] = groups;
    parts.at[1] = outputs;
    whole.at[0] = groups * channels;
    whole.at[whole.n - 1] = outputs;
    weft_array *x = weft_reshape(weight, parts); /* groups, outputs, kernel..., channels */
    x = weft_swapaxes(x, 1, parts.n - 1);
    return weft_reshape(x, whole);
}

/* The gradient of x is the convolution of the cotangent, dilated by the stride, with the flipped
 * kernel: element i of x meets tap j where i + pad_low - j dilation is a multiple of the stride. */
weft_array *weft__conv_input_grad(weft_array *ct, weft_array *weight, const weft_dims *x,
                                  const weft_conv_params *p)
{
    if (weft_size(ct) == 0 || weft_size(weight) == 0) {
        return weft__zeros_on_device_of(ct, *x, weft_dtype_of(ct));
    }
    weft_conv_params back = *p;
    back.stride = p->input_dilation;
    back.input_dilation = p->stride;
    back.flip = !p->flip;
    for (int axis = 0; axis < x->n - 2; axis++) {
        int64_t span = (weft_dim(weight, axis + 1) - 1) * p->kernel_dilation.at[axis];
        int64_t spread = (weft_dim(ct, axis + 1) - 1) * p->stride.at[axis] + 1;
        int64_t low = span - p->pad_low.at[axis];
        back.pad_low.at[axis] = low;
        back.pad_high.at[axis] =
            (x->at[axis + 1] - 1) * p->input_dilation.at[axis] + span + 1 - spread - low;
    }
    return weft__conv(ct, turned(weight, p->groups), &back);
}

static void conv_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    const weft_conv_params *p = weft_node_params(node);
    weft_array *x = weft_node_input(node, 0), *weight = weft_node_input(node, 1);
    weft_dims x_shape = weft_shape(x), w_shape = weft_shape(weight);
    if (wanted[0]) {
        grads[0] = weft__conv_input_grad(cts[0], weight, &x_shape, p);
    }
    if (wanted[1]) {
        grads[1] = weft__conv_weight_grad(x, cts[0], &w_shape, p);
    }
}

static void conv_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    const weft_conv_params *p = weft_node_params(node);
    weft_array *x = weft_node_input(node, 0), *weight = weft_node_input(node, 1);
    weft_array *left = tangents[0] ? weft__conv(tangents[0], weight, p) : NULL;
    weft_array *right = tangents[1] ? weft__conv(x, tangents[1], p) : NULL;
    out[0] = left && right ? weft_add(left, right) : left ? left : right;
}

/* ---- vmap: the batch joins x's first axis, or the groups ------------------------------------- */

static weft_array *merged(weft_array *x, int axis)
{
    return weft_flatten(x, axis, axis + 1);
}

static weft_array *split(weft_array *x, int axis, int64_t first, int64_t second)
{
    weft_dims shape = weft_shape(x);
    for (int i = shape.n; i > axis + 1; i--) {
        shape.at[i] = shape.at[i - 1];
    }
    shape.n++;
    shape.at[axis] = first;
    shape.at[axis + 1] = second;
    return weft_reshape(x, shape);
}

/* Several weights for one x: they become more outputs in each group. */
static weft_array *many_weights(weft_array *x, weft_array *weights, int64_t size,
                                const weft_conv_params *p)
{
    int64_t outputs = weft_dim(weights, 1) / p->groups;
    weft_array *parts = split(weights, 1, p->groups, outputs); /* size, groups, outputs, ... */
    parts = merged(merged(weft_swapaxes(parts, 0, 1), 0), 0);
    weft_array *y = weft__conv(x, parts, p);
    int last = weft_ndim(y) - 1;
    y = split(split(y, last, p->groups, size * outputs), last + 1, size, outputs);
    return merged(weft__conv_move(y, last + 1, 0), last + 1);
}

static bool conv_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                      weft_array **out)
{
    weft_conv_params p = *(const weft_conv_params *)weft_node_params(node);
    int64_t N = weft_dim(weft_node_input(node, 0), 0);
    int last = weft_ndim(weft_node_input(node, 0)) - 1;
    if (!batched[1]) {
        out[0] = split(weft__conv(merged(in[0], 0), in[1], &p), 0, size, N);
    } else if (!batched[0]) {
        out[0] = many_weights(in[0], in[1], size, &p);
    } else {
        int64_t outputs = weft_dim(in[1], 1);
        weft_array *x = merged(weft__conv_move(in[0], 0, last), last); /* (N, ..., size C) */
        p.groups *= size;
        weft_array *y = weft__conv(x, merged(in[1], 0), &p);
        out[0] = weft__conv_move(split(y, last, size, outputs), last, 0);
    }
    return true;
}

/* ---- The op --------------------------------------------------------------------------------- */

static bool check_params(const weft_conv_params *p, int axes, weft_why *why)
{
    const weft_dims *lists[] = {&p->stride, &p->kernel_dilation, &p->input_dilation, &p->pad_low,
                                &p->pad_high};
    static const char *const names[] = {"strides", "kernel dilations", "input dilations", "pads",
                                        "pads"};
    for (int i = 0; i < 5; i++) {
        if (lists[i]->n != axes) {
            return weft_because(why, "%d %s for %d spatial axes", lists[i]->n, names[i], axes);
        }
        for (int axis = 0; axis < axes; axis++) {
            int64_t value = lists[i]->at[axis];
            if ((i < 3 && value < 1) || value > INT32_MAX || value < -(int64_t)INT32_MAX) {
                return weft_because(why, "%s of %lld", names[i], (long long)value);
            }
        }
    }
    return p->groups >= 1 || weft_because(why, "%lld groups", (long long)p->groups);
}

bool weft__conv_shape(const weft_conv_params *p, const weft_dims *x, const weft_dims *weight,
                      weft_dims *out, weft_why *why)
{
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    int axes = x->n - 2;
    if (axes < 1 || axes > CONV_AXES || weight->n != x->n) {
        return weft_because(why,
                            "expected x (N, ..., C) and weight (O, ..., C / groups) with one "
                            "to three axes between, got %s and %s",
                            weft__shape_text(x, a), weft__shape_text(weight, b));
    }
    if (!check_params(p, axes, why)) {
        return false;
    }
    int64_t C = x->at[x->n - 1];
    if (C % p->groups != 0 || weight->at[0] % p->groups != 0 ||
        weight->at[axes + 1] != C / p->groups) {
        return weft_because(why, "channels differ: x %s, weight %s, %lld groups",
                            weft__shape_text(x, a), weft__shape_text(weight, b),
                            (long long)p->groups);
    }
    *out = *x;
    out->at[axes + 1] = weight->at[0];
    for (int axis = 0; axis < axes; axis++) {
        int64_t length = x->at[axis + 1], kernel = weight->at[axis + 1], spread, span;
        if (kernel < 1 ||
            __builtin_mul_overflow(length - (length > 0), p->input_dilation.at[axis], &spread) ||
            __builtin_mul_overflow(kernel - 1, p->kernel_dilation.at[axis], &span)) {
            return weft_because(why, "a kernel of %lld", (long long)kernel);
        }
        if (spread > INT64_MAX / 2 || span > INT64_MAX / 2) { /* the pads are checked below */
            return weft_because(why, "axis %d: %lld dilated elements, a kernel that spans %lld",
                                axis + 1, (long long)spread, (long long)span);
        }
        spread += (length > 0) + p->pad_low.at[axis] + p->pad_high.at[axis];
        if (spread < span + 1) {
            return weft_because(why, "axis %d: a kernel that spans %lld on %lld padded elements",
                                axis + 1, (long long)(span + 1), (long long)spread);
        }
        out->at[axis + 1] = (spread - span - 1) / p->stride.at[axis] + 1;
    }
    return true;
}

bool weft__conv_dtypes(const weft_array *node, weft_why *why)
{
    weft_dtype dtype = input_dtype(node, 0), other = input_dtype(node, 1);
    if (dtype != other) {
        return weft_because(why, "dtypes differ: %s and %s", weft_dtype_name(dtype),
                            weft_dtype_name(other));
    }
    if (dtype == WEFT_COMPLEX64 || dtype == WEFT_BOOL) {
        return weft_because(why, "unsupported: %s", weft_dtype_name(dtype));
    }
    return true;
}

static bool conv_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims x = input_shape(node, 0), weight = input_shape(node, 1), shape;
    return weft__conv_dtypes(node, why) &&
           weft__conv_shape(weft_node_params(node), &x, &weight, &shape, why) &&
           set_spec(out, input_dtype(node, 0), &shape);
}

const weft_field weft__conv_fields[] = {
    WEFT_FIELD(DIMS, weft_conv_params, stride),
    WEFT_FIELD(DIMS, weft_conv_params, pad_low),
    WEFT_FIELD(DIMS, weft_conv_params, pad_high),
    WEFT_FIELD(DIMS, weft_conv_params, kernel_dilation),
    WEFT_FIELD(DIMS, weft_conv_params, input_dilation),
    WEFT_FIELD(DIMS, weft_conv_params, kernel),
    WEFT_FIELD(INT, weft_conv_params, groups),
    WEFT_FIELD(BOOL, weft_conv_params, flip),
    WEFT_FIELDS_END,
};

static const weft_conv_params line = {.stride = DIMS(1),
                                      .pad_low = DIMS(0),
                                      .pad_high = DIMS(0),
                                      .kernel_dilation = DIMS(1),
                                      .input_dilation = DIMS(1),
                                      .groups = 1};
static const weft_conv_params steps = {.stride = DIMS(2),
                                       .pad_low = DIMS(2),
                                       .pad_high = DIMS(0),
                                       .kernel_dilation = DIMS(2),
                                       .input_dilation = DIMS(3),
                                       .groups = 2,
                                       .flip = true};
static const weft_conv_params plane = {.stride = DIMS(1, 2),
                                       .pad_low = DIMS(1, 1),
                                       .pad_high = DIMS(1, 0),
                                       .kernel_dilation = DIMS(1, 1),
                                       .input_dilation = DIMS(1, 1),
                                       .groups = 1};
static const weft_conv_params cut = {.stride = DIMS(2, 1),
                                     .pad_low = DIMS(-1, 1),
                                     .pad_high = DIMS(1, -2),
                                     .kernel_dilation = DIMS(1, 2),
                                     .input_dilation = DIMS(2, 1),
                                     .groups = 1,
                                     .flip = true};
static const weft_conv_params depthwise = {.stride = DIMS(2, 1),
                                           .pad_low = DIMS(1, 1),
                                           .pad_high = DIMS(1, 1),
                                           .kernel_dilation = DIMS(1, 1),
                                           .input_dilation = DIMS(1, 1),
                                           .groups = 20};
static const weft_conv_params space = {.stride = DIMS(1, 1, 2),
                                       .pad_low = DIMS(0, 1, 1),
                                       .pad_high = DIMS(1, 0, 1),
                                       .kernel_dilation = DIMS(1, 2, 1),
                                       .input_dilation = DIMS(1, 1, 2),
                                       .groups = 1};

static const weft_case conv_cases[] = {
    {"line", 2, {{.shape = DIMS(2, 5, 3)}, {.shape = DIMS(4, 3, 3)}}, &line},
    {"steps", 2, {{.shape = DIMS(1, 4, 4)}, {.shape = DIMS(2, 3, 2)}}, &steps},
    {"plane", 2, {{.shape = DIMS(2, 4, 5, 2)}, {.shape = DIMS(3, 3, 3, 2)}}, &plane},
    {"cut", 2, {{.shape = DIMS(1, 4, 6, 3)}, {.shape = DIMS(2, 2, 2, 3)}}, &cut},
    {"wide", 2, {{.shape = DIMS(1, 3, 3, 33)}, {.shape = DIMS(35, 3, 2, 33)}}, &plane},
    {"depthwise", 2, {{.shape = DIMS(2, 4, 7, 20)}, {.shape = DIMS(20, 3, 3, 1)}}, &depthwise},
    {"space", 2, {{.shape = DIMS(1, 2, 4, 3, 2)}, {.shape = DIMS(3, 2, 2, 3, 2)}}, &space},
    {"nothing", 2, {{.shape = DIMS(0, 5, 3)}, {.shape = DIMS(4, 3, 3)}}, &line},
    {"no channels", 2, {{.shape = DIMS(1, 5, 0)}, {.shape = DIMS(2, 3, 0)}}, &line},
};

/* Elements of padding count as terms. */
static void count_work(const weft_call *call, weft_work *work)
{
    const weft_tensor *w = &call->in[1];
    const double filters = (double)(w->shape.at[0] > 0 ? w->shape.at[0] : 1);
    work->flops =
        2 * (double)weft_tensor_size(&call->out[0]) * ((double)weft_tensor_size(w) / filters);
}

const weft_op weft_op_conv = {
    .name = "conv",
    .family = WEFT_CORE_RANK,
    .arity = 2,
    .params_size = sizeof(weft_conv_params),
    .params_fields = weft__conv_fields,
    .infer = conv_infer,
    .vjp = conv_vjp,
    .jvp = conv_jvp,
    .vmap = conv_vmap,
    .work = count_work,
    .reference = reference,
    .cases = conv_cases,
    .n_cases = sizeof conv_cases / sizeof *conv_cases,
    .no_test_dtypes = DTYPE_BIT(WEFT_BOOL) | DTYPE_BIT(WEFT_COMPLEX64),
    .tolerance = 1e-5, /* sums of up to 200 terms of magnitude up to 4 */
};

weft_array *weft__conv(weft_array *x, weft_array *weight, const weft_conv_params *p)
{
    return apply2(&weft_op_conv, x, weight, p);
}
