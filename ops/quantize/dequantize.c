/* ops/quantize/dequantize.c -- the dequantize op: codes, scales and biases to a matrix. */
#include "ops/quantize/quantized.h"

/* ---- Reference ------------------------------------------------------------------------------ */

static float rounded(weft_dtype dtype, float value)
{
    return dtype == WEFT_FLOAT16    ? weft_float16_to_float(weft_float_to_float16(value))
           : dtype == WEFT_BFLOAT16 ? weft_bfloat16_to_float(weft_float_to_bfloat16(value))
                                    : value;
}

/* Product and sum are rounded to the dtype of the scales. */
static double affine_value(const weft_tensor *scales, double scale, double bias, uint32_t code)
{
    if (scales->dtype == WEFT_FLOAT64) {
        return scale * code + bias;
    }
    float product = rounded(scales->dtype, (float)scale * (float)code);
    return (double)rounded(scales->dtype, product + (float)bias);
}

/* Visits the groups in order, for any strides. */
static weft_status reference(const weft_call *call)
{
    const weft_quantized_params *p = call->params;
    const weft_tensor *words = &call->in[0], *scales = &call->in[1];
    const weft_encoding_kind kind = (weft_encoding_kind)p->mode;
    const float global = p->has_global ? (float)weft_tensor_get(&call->in[2], 0) : 0;
    const int64_t n_words = p->group * p->bits / 32, groups = weft_tensor_size(scales);
    for (int64_t g = 0; g < groups && n_words > 0; g++) {
        uint8_t codes[WEFT_MAX_BLOCK];
        for (int64_t i = 0; i < n_words; i++) {
            uint32_t word = (uint32_t)weft_tensor_get_int(words, g * n_words + i);
            memcpy(codes + 4 * i, &word, sizeof word);
        }
        double scale = weft_tensor_get(scales, g);
        double bias = is_affine(p) ? weft_tensor_get(&call->in[2], g) : 0;
        float power = is_affine(p) ? 0 : weft__float_scale(kind, (uint8_t)scale, global);
        for (int64_t i = 0; i < p->group; i++) {
            uint32_t code = weft__code_get(codes, (int)p->bits, i);
            weft_tensor_set(&call->out[0], g * p->group + i,
                            is_affine(p) ? affine_value(scales, scale, bias, code)
                                         : (double)(weft__float_code(kind, code) * power));
        }
    }
    return WEFT_OK;
}

/* ---- Derivative ----------------------------------------------------------------------------- */

weft_array *weft__group_sums(weft_array *x, int64_t group)
{
    weft_dims shape = weft_shape(x);
    shape.at[shape.n - 1] /= group;
    shape.at[shape.n++] = group;
    return weft_sum(weft_reshape(x, shape), WEFT_DIMS(-1), false);
}

weft_array *weft__codes_as(weft_array *codes, weft_array *scales, weft_dtype dtype,
                           const weft_quantized_params *p)
{
    weft_quantized_params q = *p;
    weft_dtype wide = dtype == WEFT_FLOAT64 ? WEFT_FLOAT64 : WEFT_FLOAT32;
    weft_array *ones = weft_astype(weft_ones_like(scales), wide);
    q.dtype = dtype;
    return apply3(&weft_op_dequantize, codes, ones, weft_subtract(ones, ones), &q);
}

/* The result is linear in scales and biases, or in the global scale. */
static void dequantize_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                           weft_array **grads)
{
    const weft_quantized_params *p = weft_node_params(node);
    weft_array *codes = weft_node_input(node, 0), *scales = weft_node_input(node, 1);
    weft_dtype dtype = weft_dtype_of(cts[0]) == WEFT_FLOAT64 ? WEFT_FLOAT64 : WEFT_FLOAT32;
    weft_array *ct = weft_astype(cts[0], dtype);
    if (is_affine(p)) {
        if (wanted[1]) {
            weft_array *terms = weft_multiply(ct, weft__codes_as(codes, scales, dtype, p));
            grads[1] = weft_astype(weft__group_sums(terms, p->group), weft_dtype_of(scales));
        }
        if (wanted[2]) {
            grads[2] = weft_astype(weft__group_sums(ct, p->group), weft_dtype_of(scales));
        }
    } else if (p->has_global && wanted[2]) {
        weft_quantized_params wide = *p;
        wide.dtype = dtype;
        weft_array *unit = weft_full(WEFT_SCALAR, 1, WEFT_FLOAT32);
        weft_array *each =
            apply3(&weft_op_dequantize, codes, scales, weft_to(unit, weft_device_of(codes)), &wide);
        grads[2] =
            weft_astype(weft_sum(weft_multiply(ct, each), WEFT_ALL_AXES, false), WEFT_FLOAT32);
    }
}

/* ---- The op --------------------------------------------------------------------------------- */

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_quantized_params *p = weft_node_params(node);
    weft_dims shape;
    if (!weft__expect_quantized(node, 0, p, &shape, why) ||
        !weft__expect_global(node, tensors_of(p), p, why)) {
        return false;
    }
    if (!weft_dtype_is_float(p->dtype)) {
        return weft_because(why, "expected a float dtype, got %s", weft_dtype_name(p->dtype));
    }
    return set_spec(out, p->dtype, &shape);
}

static const weft_case cases[] = {
    {.name = "4 bits",
     .n_inputs = 3,
     .in = {{.shape = DIMS(3, 16), .key = true}, {.shape = DIMS(3, 2)}, {.shape = DIMS(3, 2)}},
     .params =
         &(const weft_quantized_params){
             .mode = WEFT_ENCODING_AFFINE, .bits = 4, .group = 64, .dtype = WEFT_FLOAT64}},
    {.name = "5 bits",
     .n_inputs = 3,
     .in = {{.shape = DIMS(2, 2, 5), .key = true},
            {.shape = DIMS(2, 2, 1)},
            {.shape = DIMS(2, 2, 1)}},
     .params =
         &(const weft_quantized_params){
             .mode = WEFT_ENCODING_AFFINE, .bits = 5, .group = 32, .dtype = WEFT_FLOAT64}},
    {.name = "no rows",
     .n_inputs = 3,
     .in = {{.shape = DIMS(0, 8), .key = true}, {.shape = DIMS(0, 1)}, {.shape = DIMS(0, 1)}},
     .params =
         &(const weft_quantized_params){
             .mode = WEFT_ENCODING_AFFINE, .bits = 8, .group = 32, .dtype = WEFT_FLOAT64}},
};

const weft_op weft_op_dequantize = {
    .name = "dequantize",
    .family = WEFT_CORE_RANK,
    .arity = -1,
    .params_size = sizeof(weft_quantized_params),
    .params_fields = weft__quantized_fields,
    .infer = infer,
    .vjp = dequantize_vjp,
    .zero_gradient = 1,
    .linear = true,
    .vmap = weft__quantized_vmap,
    .reference = reference,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    /* Products in other dtypes are rounded as in MLX; tests/ops/test_quantize.c tests them. */
    .no_test_dtypes = ~DTYPE_BIT(WEFT_FLOAT64),
};

/* ---- Public --------------------------------------------------------------------------------- */

weft_array *weft_dequantize(weft_array *codes, weft_array *scales, weft_array *biases,
                            weft_dtype dtype, const weft_quantize_options *options)
{
    weft_quantized_params p;
    weft_array *in[4];
    weft_array *bad = weft__quantized_params("dequantize", options, WEFT_AFFINE, &p);
    bad = bad ? bad : weft__check_biases("dequantize", &p, biases);
    if (bad) {
        return bad;
    }
    p.dtype = dtype;
    int n = weft__quantized_inputs(NULL, codes, scales, biases,
                                   p.has_global ? options->global_scale : NULL, in);
    return weft_apply(&weft_op_dequantize, in, n, &p);
}
