/* ops/quantize/encode.c -- the ops that encode and decode arrays, and that convert between an
 * encoded array and its separate tensors. A block is a scale, an optional bias, and codes (op.h).
 */
#include "ops/quantize/quantized.h"

static const weft_encoding *encoding_of(const weft_tensor *t)
{
    return t->encoding;
}

/* Bytes of a block before its codes. */
static int64_t header_bytes(const weft_encoding *e)
{
    return e->block_bytes - e->block * e->bits / 8;
}

/* The results are storage, not numbers, so tests/ops/test_quantize.c tests these ops instead. */
static const weft_case cases[] = {
    {.name = "matrix", .n_inputs = 1, .in = {{.shape = DIMS(3, 64)}}},
};

/* ---- encode --------------------------------------------------------------------------------- */

static weft_status encode_reference(const weft_call *call)
{
    const weft_tensor *x = &call->in[0], *out = &call->out[0];
    const weft_encoding *e = encoding_of(out);
    char *block = out->data;
    int64_t blocks = weft_tensor_size(x) / e->block;
    for (int64_t b = 0; b < blocks; b++, block += e->block_bytes) {
        float in[WEFT_MAX_BLOCK];
        for (int64_t i = 0; i < e->block; i++) {
            in[i] = (float)weft_tensor_get(x, b * e->block + i);
        }
        e->encode(e, in, e->block, block);
    }
    return WEFT_OK;
}

static bool encode_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_quantized_params *p = weft_node_params(node);
    const weft_encoding *e = weft_encoding_at((int)p->encoding);
    weft_dtype dtype = input_dtype(node, 0);
    if (!e || !e->encode) {
        return weft_because(why, "arrays of this encoding cannot be made");
    }
    if (dtype != WEFT_FLOAT32 && dtype != WEFT_FLOAT16 && dtype != WEFT_BFLOAT16) {
        return weft_because(why, "expected float32, float16 or bfloat16, got %s",
                            weft_dtype_name(dtype));
    }
    if (input_shape(node, 0).n < 1) {
        return weft_because(why, "a 0-d array has no rows");
    }
    *out = (weft_spec){.dtype = dtype, .shape = input_shape(node, 0), .encoding = e};
    return true;
}

const weft_op weft_op_encode = {
    .name = "encode",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_quantized_params),
    .params_fields = weft__quantized_fields,
    .infer = encode_infer,
    .zero_gradient = 1,
    .takes_leading_axis = true,
    .reference = encode_reference,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ~0u,
};

weft_array *weft_encode(weft_array *x, const weft_encoding *encoding)
{
    weft_quantized_params p = {.encoding = -1};
    for (int i = 0; encoding && weft_encoding_at(i); i++) {
        p.encoding = weft_encoding_at(i) == encoding ? i : p.encoding;
    }
    return apply1(&weft_op_encode, x, &p);
}

weft_array *weft_decode(weft_array *x)
{
    return weft_astype(x, weft_dtype_of(x));
}

/* ---- join_encoded --------------------------------------------------------------------------- */

/* Copies the bytes of one element. */
static void copy_element(char *to, const weft_tensor *from, int64_t i)
{
    int64_t size = (int64_t)weft_dtype_size(from->dtype);
    memcpy(to, (const char *)from->data + weft_tensor_offset(from, i) * size, (size_t)size);
}

static weft_status join_reference(const weft_call *call)
{
    const weft_encoding *e = encoding_of(&call->out[0]);
    const int64_t words = e->block * e->bits / 32, groups = weft_tensor_size(&call->in[1]);
    const int64_t scale = (int64_t)weft_dtype_size(e->scale);
    char *block = call->out[0].data;
    for (int64_t g = 0; g < groups; g++, block += e->block_bytes) {
        copy_element(block, &call->in[1], g);
        if (call->n_inputs > 2) {
            copy_element(block + scale, &call->in[2], g);
        }
        for (int64_t i = 0; i < words; i++) {
            copy_element(block + header_bytes(e) + 4 * i, &call->in[0], g * words + i);
        }
    }
    return WEFT_OK;
}

static bool join_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_quantized_params *p = weft_node_params(node);
    weft_dims shape;
    if (!weft__expect_quantized(node, 0, p, &shape, why)) {
        return false;
    }
    const weft_encoding *e =
        weft_encoding_of_kind((weft_encoding_kind)p->mode, p->bits, p->group, input_dtype(node, 1));
    if (!e || !weft_dtype_is_float(p->dtype)) {
        return weft_because(why, "no encoding of %s with scales of %s", weft_dtype_name(p->dtype),
                            weft_dtype_name(input_dtype(node, 1)));
    }
    *out = (weft_spec){.dtype = p->dtype, .shape = shape, .encoding = e};
    return true;
}

const weft_op weft_op_join_encoded = {
    .name = "join_encoded",
    .family = WEFT_STRUCTURAL,
    .arity = -1,
    .params_size = sizeof(weft_quantized_params),
    .params_fields = weft__quantized_fields,
    .infer = join_infer,
    .zero_gradient = 7,
    .vmap = weft__quantized_vmap,
    .reference = join_reference,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ~0u,
};

weft_array *weft_join_encoded(weft_array *codes, weft_array *scales, weft_array *biases,
                              weft_dtype dtype, const weft_quantize_options *options)
{
    weft_quantized_params p;
    weft_array *in[4];
    weft_array *bad = weft__quantized_params("join_encoded", options, WEFT_AFFINE, &p);
    bad = bad ? bad : weft__check_biases("join_encoded", &p, biases);
    if (!bad && p.has_global) {
        bad = weft_error_array("join_encoded: unsupported: a global scale in an encoding");
    }
    p.dtype = dtype;
    int n = weft__quantized_inputs(NULL, codes, scales, biases, NULL, in);
    return bad ? bad : weft_apply(&weft_op_join_encoded, in, n, &p);
}

/* ---- split_encoded -------------------------------------------------------------------------- */

/* The bits of the affine codes that equal GGUF's blocks of this kind; 0: no affine codes do. */
static int affine_bits(weft_encoding_kind kind)
{
    return kind == WEFT_ENCODING_Q4_0 || kind == WEFT_ENCODING_Q4_1 ? 4
           : kind == WEFT_ENCODING_Q8_0                             ? 8
                                                                    : 0;
}

/* One of these blocks as affine codes of 32 elements, with the float16 scale and bias that MLX
 * gives them: code - 8 and code - 128 become a bias. */
static void split_block(weft_encoding_kind kind, const uint8_t *block, uint8_t *codes,
                        uint16_t *scale, uint16_t *bias)
{
    memcpy(scale, block, sizeof *scale);
    block += sizeof *scale;
    if (kind == WEFT_ENCODING_Q4_1) {
        memcpy(bias, block, sizeof *bias);
        block += sizeof *bias;
    } else {
        const float offset = kind == WEFT_ENCODING_Q4_0 ? -8 : -128;
        *bias = weft_float_to_float16(offset * weft_float16_to_float(*scale));
    }
    for (int i = 0; kind == WEFT_ENCODING_Q8_0 && i < 32; i++) {
        codes[i] = (uint8_t)(block[i] ^ 0x80);
    }
    for (int i = 0; kind != WEFT_ENCODING_Q8_0 && i < 16; i++) { /* the second half is high */
        const uint8_t *pair = &block[2 * i % 16];
        const int low = i < 8 ? pair[0] & 15 : pair[0] >> 4;
        const int high = i < 8 ? pair[1] << 4 : pair[1] & 0xf0;
        codes[i] = (uint8_t)(low | high);
    }
}

static weft_status split_reference(const weft_call *call)
{
    const weft_encoding *e = encoding_of(&call->in[0]);
    const int bits = affine_bits(e->kind);
    const int64_t n = weft_tensor_size(&call->out[1]);
    for (int64_t g = 0; bits > 0 && g < n; g++) {
        split_block(e->kind, (const uint8_t *)call->in[0].data + g * e->block_bytes,
                    (uint8_t *)call->out[0].data + g * e->block * bits / 8,
                    (uint16_t *)call->out[1].data + g, (uint16_t *)call->out[2].data + g);
    }
    if (bits > 0) {
        return WEFT_OK;
    }
    const int64_t groups = weft_tensor_size(&call->out[1]);
    const size_t scale = weft_dtype_size(call->out[1].dtype),
                 codes = (size_t)(e->block * e->bits / 8);
    const char *block = call->in[0].data;
    for (int64_t g = 0; g < groups; g++, block += e->block_bytes) {
        memcpy((char *)call->out[0].data + g * (int64_t)codes, block + header_bytes(e), codes);
        memcpy((char *)call->out[1].data + g * (int64_t)scale, block, scale);
        if (call->n_outputs > 2) {
            memcpy((char *)call->out[2].data + g * (int64_t)scale, block + scale, scale);
        }
    }
    return WEFT_OK;
}

static bool split_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_encoding *e = weft_encoding_of(weft_node_input(node, 0));
    const int bits = e ? affine_bits(e->kind) : 0;
    if (!e || (bits == 0 && !weft_encoding_has_parts(e->kind))) {
        return weft_because(why, "%s: expected an array of codes with scales",
                            e ? e->name : "the array is dense");
    }
    const weft_quantized_params p = {.mode = bits ? WEFT_ENCODING_AFFINE : (int64_t)e->kind,
                                     .bits = bits ? bits : e->bits,
                                     .group = e->block};
    weft_dims shape = input_shape(node, 0);
    weft__quantized_specs(&p, &shape, bits ? WEFT_FLOAT16 : e->scale, out);
    return true;
}

const weft_op weft_op_split_encoded = {
    .name = "split_encoded",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .n_outputs = -4,
    .infer = split_infer,
    .takes_encoded = 1,
    .zero_gradient = 1,
    .reference = split_reference,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ~0u,
};

void weft_split_encoded(weft_array *x, weft_array *out[3])
{
    weft_scope_open();
    weft_array *y = apply1(&weft_op_split_encoded, x, NULL);
    for (int i = 0; i < 3; i++) {
        out[i] = !weft_ok(y) ? y : i < weft_node_n_outputs(y) ? weft_pick(y, i) : NULL;
    }
    weft_scope_close_n(out, 3);
}
