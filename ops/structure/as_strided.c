/* ops/structure/as_strided.c -- strided windows over the row-major elements of an array, which may
 * overlap. */
#include "ops/batch.h"
#include "ops/kernel.h"

static weft_status as_strided_reference(const weft_call *call)
{
    const weft_strided_params *p = call->params;
    int64_t size = weft_tensor_size(&call->out[0]), at[WEFT_MAX_DIMS];
    for (int64_t o = 0; o < size; o++) {
        int64_t from = p->offset;
        index_split(&p->shape, o, at);
        for (int d = 0; d < p->shape.n; d++) {
            from += at[d] * p->strides.at[d];
        }
        move_element(&call->in[0], from, &call->out[0], o);
    }
    return WEFT_OK;
}

static bool as_strided_view(const weft_array *node, const weft_tensor *in, weft_tensor *out)
{
    const weft_strided_params *p = weft_node_params(node);
    if (!weft_tensor_is_contiguous(in)) {
        return false;
    }
    out->shape = p->shape;
    memcpy(out->strides, p->strides.at, sizeof p->strides.at);
    if (weft_tensor_size(out) > 0) {
        out->offset = in->offset + p->offset * (int64_t)weft_dtype_size(in->dtype);
    }
    return true;
}

/* For each element of the output, its index among the input's elements. */
static weft_array *places(const weft_strided_params *p)
{
    weft_array *sum = weft_full(WEFT_SCALAR, (double)p->offset, WEFT_INT64);
    for (int d = 0; d < p->shape.n; d++) {
        weft_dims shape = {.n = p->shape.n - d};
        for (int i = 0; i < shape.n; i++) {
            shape.at[i] = i ? 1 : p->shape.at[d];
        }
        weft_array *along = weft_arange(0, (double)p->shape.at[d], 1, WEFT_INT64);
        along = weft_multiply(along, weft_scalar_int(p->strides.at[d], WEFT_INT64));
        sum = weft_add(sum, weft_reshape(along, shape));
    }
    return weft_reshape(sum, WEFT_DIMS(-1));
}

static void as_strided_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                           weft_array **grads)
{
    const weft_strided_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    if (!wanted[0]) {
        return;
    }
    weft_array *x = weft_node_input(node, 0);
    if (weft_size(node) == 0) {
        grads[0] = weft__zeros_on_device_of(x, shape, weft_dtype_of(cts[0]));
        return;
    }
    weft_array *zeros = weft__zeros_on_device_of(x, WEFT_DIMS(weft_size(x)), weft_dtype_of(cts[0]));
    weft_array *at = weft_to(places(p), weft_device_of(x));
    weft_array *flat = weft_reshape(cts[0], WEFT_DIMS(-1));
    grads[0] = weft_reshape(weft_scatter_add_along_axis(zeros, at, flat, 0), shape);
}

static bool as_strided_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                            int64_t size, weft_array **out)
{
    const weft_strided_params *p = weft_node_params(node);
    weft_dims shape = with_batch(p->shape, size);
    weft_dims strides = with_batch(p->strides, size ? weft_size(in[0]) / size : 0);
    (void)batched;
    out[0] = weft_as_strided(in[0], shape, strides, p->offset);
    return true;
}

/* Checks that the first and last elements to read exist. */
static bool as_strided_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_strided_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    int64_t low = p->offset, high = p->offset, size = weft__shape_size(&shape), reach;
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    bool fits = p->strides.n == p->shape.n;
    for (int d = 0; fits && d < p->shape.n; d++) {
        fits = p->shape.at[d] >= 0;
    }
    int64_t count = fits ? weft__shape_size(&p->shape) : -1;
    for (int d = 0; count > 0 && fits && d < p->shape.n; d++) {
        int64_t *end = p->strides.at[d] < 0 ? &low : &high;
        fits = !__builtin_mul_overflow(p->shape.at[d] - 1, p->strides.at[d], &reach) &&
               !__builtin_add_overflow(*end, reach, end);
    }
    if (!fits || count < 0 || (count > 0 && (low < 0 || high >= size))) {
        return weft_because(why, "shape %s with strides %s from %lld leaves %lld elements",
                            weft__shape_text(&p->shape, a), weft__shape_text(&p->strides, b),
                            (long long)p->offset, (long long)size);
    }
    return set_spec(out, input_dtype(node, 0), &p->shape);
}

static const weft_field as_strided_fields[] = {
    WEFT_FIELD(DIMS, weft_strided_params, shape),
    WEFT_FIELD(DIMS, weft_strided_params, strides),
    WEFT_FIELD(INT, weft_strided_params, offset),
    WEFT_FIELDS_END,
};

static const weft_case as_strided_cases[] = {
    {.name = "windows",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 4)}},
     .params = &(const weft_strided_params){DIMS(4, 3), DIMS(2, 1), 1}},
    {.name = "backwards",
     .n_inputs = 1,
     .in = {{.shape = DIMS(7)}},
     .params = &(const weft_strided_params){DIMS(2, 3), DIMS(0, -2), 6}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3)}},
     .params = &(const weft_strided_params){DIMS(0, 2), DIMS(9, 9), 2}},
};

const weft_op weft_op_as_strided = {
    .name = "as_strided",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .params_size = sizeof(weft_strided_params),
    .params_fields = as_strided_fields,
    .infer = as_strided_infer,
    .vjp = as_strided_vjp,
    .linear = true,
    .vmap = as_strided_vmap,
    .view = as_strided_view,
    .reference = as_strided_reference,
    .cases = as_strided_cases,
    .n_cases = sizeof as_strided_cases / sizeof *as_strided_cases,
};

weft_array *weft_as_strided(weft_array *x, weft_dims shape, weft_dims strides, int64_t offset)
{
    weft_scope_open();
    weft_strided_params params = {shape, strides, offset};
    return weft_scope_close(apply1(&weft_op_as_strided, weft_contiguous(x), &params));
}
