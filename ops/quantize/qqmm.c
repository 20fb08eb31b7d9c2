/* ops/quantize/qqmm.c -- products with both operands quantized; and requantize, which quantizes and
 * dequantizes an operand on the fly. */
#include "ops/quantize/quantized.h"

/* ---- requantize ----------------------------------------------------------------------------- */

static weft_status reference(const weft_call *call)
{
    const weft_quantized_params *p = call->params;
    const weft_tensor *x = &call->in[0];
    const weft_encoding_kind kind = (weft_encoding_kind)p->mode;
    const float global = p->has_global ? (float)weft_tensor_get(&call->in[1], 0) : 0;
    int64_t groups = weft_tensor_size(x) / p->group;
    for (int64_t g = 0; g < groups; g++) {
        float in[WEFT_MAX_BLOCK];
        uint8_t codes[WEFT_MAX_BLOCK], scale;
        for (int64_t i = 0; i < p->group; i++) {
            in[i] = (float)weft_tensor_get(x, g * p->group + i);
        }
        weft__float_encode(kind, in, p->group, global, &scale, codes);
        float by = weft__float_scale(kind, scale, global);
        for (int64_t i = 0; i < p->group; i++) {
            float code = weft__float_code(kind, weft__code_get(codes, (int)p->bits, i));
            weft_tensor_set(&call->out[0], g * p->group + i, (double)(code * by));
        }
    }
    return WEFT_OK;
}

/* Straight-through gradient: rounding is ignored. */
static void requantize_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                           weft_array **grads)
{
    if (wanted[0]) {
        grads[0] = weft_astype(cts[0], input_dtype(node, 0));
    }
}

static void requantize_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    out[0] = tangents[0] ? weft_astype(tangents[0], weft_node_spec(node, 0)->dtype) : NULL;
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_quantized_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    if (is_affine(p)) {
        return weft_because(why, "unsupported for the affine mode");
    }
    return weft__expect_groups(node, 0, p, why) && weft__expect_global(node, 1, p, why) &&
           set_spec(out, WEFT_FLOAT32, &shape);
}

static const weft_case cases[] = {
    {.name = "matrix",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 64)}},
     .params = &(const weft_quantized_params){.mode = WEFT_ENCODING_MXFP4, .bits = 4, .group = 32}},
};

const weft_op weft_op_requantize = {
    .name = "requantize",
    .family = WEFT_CORE_RANK,
    .arity = -1,
    .params_size = sizeof(weft_quantized_params),
    .params_fields = weft__quantized_fields,
    .infer = infer,
    .vjp = requantize_vjp,
    .jvp = requantize_jvp,
    .zero_gradient = 2,
    .vmap = weft__quantized_vmap,
    .reference = reference,
    /* tests/ops/test_quantize.c tests the values. */
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ~0u,
};

static weft_array *requantize(weft_array *x, weft_array *global, weft_quantized_params p)
{
    weft_array *in[] = {x, global};
    p.has_global = global != NULL;
    return weft_apply(&weft_op_requantize, in, 1 + p.has_global, &p);
}

/* ---- Products ------------------------------------------------------------------------------- */

/* Data shared by the two functions: the options, and x after quantization, in float32. */
typedef struct both_quantized {
    weft_quantize_options options;
    weft_quantized_params p;
    weft_array *x;
    weft_dtype dtype; /* of the result */
} both_quantized;

/* Returns NULL, or an error array. */
static weft_array *prepare(both_quantized *b, const char *where, weft_array *x,
                           weft_array *global_x, weft_array *global_w,
                           const weft_quantize_options *options)
{
    b->options = options ? *options : (weft_quantize_options){.mode = WEFT_NVFP4};
    if (b->options.mode == WEFT_AFFINE && !b->options.bits && !b->options.group_size) {
        b->options.mode = WEFT_NVFP4;
    }
    b->options.global_scale = global_w ? global_w : global_x;
    weft_array *bad = weft__quantized_params(where, &b->options, WEFT_NVFP4, &b->p);
    if (bad) {
        return bad;
    }
    if (is_affine(&b->p)) {
        return weft_error_array("%s: unsupported for the affine mode: expected nvfp4, mxfp4 or "
                                "mxfp8",
                                where);
    }
    b->options.global_scale = global_w;
    b->dtype = weft_dtype_of(x);
    b->x = requantize(x, global_x, b->p);
    return weft_ok(b->x) ? NULL : b->x;
}

weft_array *weft_qqmm(weft_array *x, weft_array *w, weft_array *scales, weft_array *global_scale_x,
                      weft_array *global_scale_w, const weft_quantize_options *options)
{
    weft_scope_open();
    both_quantized b;
    weft_array *bad = prepare(&b, "qqmm", x, global_scale_x, global_scale_w, options);
    if (bad) {
        return weft_scope_close(bad);
    }
    weft_array *y =
        scales ? weft_quantized_matmul(b.x, w, scales, NULL, true, &b.options)
               : weft_matmul(b.x, weft_swapaxes(requantize(w, global_scale_w, b.p), -1, -2));
    return weft_scope_close(weft_astype(y, b.dtype));
}

/* Gathers matrices (..., M, K) by flat indices into their batch axes: (J..., M, K). */
static weft_array *gathered(weft_array *x, weft_array *indices)
{
    weft_dims shape = weft_shape(x);
    if (!indices) {
        return x;
    }
    weft_array *flat = weft_reshape(x, WEFT_DIMS(-1, shape.at[shape.n - 2], shape.at[shape.n - 1]));
    return weft_take(flat, indices, 0);
}

weft_array *weft_gather_qqmm(weft_array *x, weft_array *w, weft_array *scales, weft_array *lhs,
                             weft_array *rhs, weft_array *global_scale_x,
                             weft_array *global_scale_w, const weft_quantize_options *options)
{
    weft_scope_open();
    both_quantized b;
    weft_array *bad = prepare(&b, "gather_qqmm", x, global_scale_x, global_scale_w, options);
    if (bad) {
        return weft_scope_close(bad);
    }
    weft_array *y;
    if (scales) {
        y = weft_gather_qmm(b.x, w, scales, NULL, lhs, rhs, true, &b.options);
    } else {
        weft_array *whole = requantize(w, global_scale_w, b.p);
        y = weft_matmul(gathered(b.x, lhs), weft_swapaxes(gathered(whole, rhs), -1, -2));
    }
    return weft_scope_close(weft_astype(y, b.dtype));
}
