// backends/vulkan/shaders/codes.glsl -- elements of quantized matrices, four at a time.
//
// Included after common.glsl. FORMAT is a specialization constant: the kind (weft_encoding_kind),
// the bits per code (shifted by 8), the elements per group (by 12) and the dtype of the scales (by
// 24).
const uint KIND = FORMAT & 255, BITS = FORMAT >> 8 & 15, GROUP = FORMAT >> 12 & 4095,
           SCALE_TYPE = FORMAT >> 24;
const uint AFFINE = 1, MXFP4 = 2, MXFP8 = 3, NVFP4 = 4, Q4_0 = 5, Q4_1 = 6, Q5_0 = 7, Q5_1 = 8,
           Q8_0 = 9, Q2_K = 10, Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14, IQ4_NL = 15,
           IQ4_XS = 16, GGUF_MXFP4 = 17;
// Block types of GGUF files: only `codes` and its strides are valid.
const bool BLOCKS = KIND > NVFP4;
const bool BIASED = KIND == AFFINE || KIND == Q4_1 || KIND == Q5_1 || KIND == Q2_K ||
                    KIND == Q4_K || KIND == Q5_K;

// The addresses of a matrix's parts, and strides in bytes.
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Codes {
    Words codes, scales, biases;
    uint code_group, code_row, scale_group, scale_row;
};

// The word that holds byte `at`, and the number of bits before that byte.
Words word_at(Words base, uint at, out uint shift)
{
    uint carry;
    uvec2 address = uvec2(base);
    uint low = uaddCarry(address.x, at, carry);
    shift = (low & 3u) * 8u;
    return Words(uvec2(low & ~3u, address.y + carry));
}

// Loads four bytes at any alignment.
uint load_word(Words base, uint at)
{
    uint shift;
    Words w = word_at(base, at, shift);
    uint word = w.at[0] >> shift;
    if (shift > 0u) {
        word |= w.at[1] << (32u - shift);
    }
    return word;
}

float float8(uint code)
{
    uint rest = code & 0x7fu, sign = (code & 0x80u) << 24;
    float magnitude = rest < 8u       ? float(rest) * 0.001953125
                      : rest == 0x7fu ? uintBitsToFloat(0x7fc00000u)
                                      : uintBitsToFloat((rest << 20) + (120u << 23));
    return uintBitsToFloat(floatBitsToUint(magnitude) | sign);
}

float float4_value(uint code)
{
    uint m = code & 7u;
    float magnitude = m < 2u ? 0.5 * float(m)
                             : float(2u + (m & 1u)) * uintBitsToFloat((125u + (m >> 1)) << 23);
    return uintBitsToFloat(floatBitsToUint(magnitude) | (code & 8u) << 28);
}

float load_scale(Words base, uint at)
{
    uint shift;
    Words w = word_at(base, at, shift);
    uint bits = w.at[0] >> shift;
    if (KIND == AFFINE) {
        return SCALE_TYPE == FLOAT32   ? uintBitsToFloat(bits)
               : SCALE_TYPE == FLOAT16 ? from_float16(bits & 0xffffu)
                                       : from_bfloat16(bits & 0xffffu);
    }
    bits &= 0xffu;
    if (KIND == NVFP4) {
        return float8(bits);
    }
    return uintBitsToFloat(bits == 0u ? 0x00400000u : bits << 23);
}

#include "blocks.glsl"

// Decodes codes element .. element + 3 of a row, without scale and bias; element is a multiple of
// 4.
vec4 codes_four(Codes w, uint row, uint element)
{
    if (BLOCKS) {
        uint at = row * w.code_row + element / GROUP * w.code_group;
        return block_codes(w.codes, at, element % GROUP);
    }
    uint group = element / GROUP, bit = element % GROUP * BITS;
    uint at = min(bit >> 3, GROUP * BITS / 8u - 4u);
    uint word = load_word(w.codes, row * w.code_row + group * w.code_group + at) >> (bit - 8u * at);
    vec4 values;
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        uint code = word >> j * BITS & ((1u << BITS) - 1u);
        values[j] = KIND == AFFINE  ? float(code)
                    : KIND == MXFP8 ? float8(code)
                                    : float4_value(code);
    }
    return values;
}

vec2 scale_and_bias(Codes w, uint row, uint element)
{
    if (BLOCKS) {
        uint at = row * w.code_row + element / GROUP * w.code_group;
        return block_scale(w.codes, at, element % GROUP);
    }
    uint at = row * w.scale_row + element / GROUP * w.scale_group;
    return vec2(load_scale(w.scales, at), KIND == AFFINE ? load_scale(w.biases, at) : 0.0);
}

vec4 decode_four(Codes w, uint row, uint element)
{
    vec2 scale = scale_and_bias(w, row, element);
    vec4 values = codes_four(w, row, element) * scale.x;
    return BIASED ? values + scale.y : values;
}
