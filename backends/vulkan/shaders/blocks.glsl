// backends/vulkan/shaders/blocks.glsl -- elements of the block types of GGUF files, four at a time.
//
// Included by codes.glsl. A block is located by the byte at which it begins; i is an element of the
// block, a multiple of 4. No load reads beyond the block. core/encoding/ggml_*.c documents the
// formats.

float half_at(Words base, uint at)
{
    return from_float16(load_word(base, at) & 0xffffu);
}

// The four bytes of a word.
uvec4 bytes_of(uint word)
{
    return uvec4(word, word >> 8, word >> 16, word >> 24) & 0xffu;
}

int signed_byte(uint byte)
{
    return int(byte << 24) >> 24;
}

uvec4 four_bits(Words base, uint at, uint i)
{
    return GROUP == 32 ? bytes_of(load_word(base, at + i % 16u)) >> i / 16u * 4u & 15u
                       : bytes_of(load_word(base, at + i / 64u * 32u + i % 32u)) >>
                                 i % 64u / 32u * 4u &
                             15u;
}

uvec4 two_bits(Words base, uint at, uint i)
{
    return bytes_of(load_word(base, at + i / 128u * 32u + i % 32u)) >> i % 128u / 32u * 2u & 3u;
}

// One bit per element: bit i / 32 of byte i % 32, or bit i of one word for blocks of 32 elements.
uvec4 one_bit(Words base, uint at, uint i)
{
    return GROUP == 32 ? uvec4(load_word(base, at)) >> uvec4(i, i + 1u, i + 2u, i + 3u) & 1u
                       : bytes_of(load_word(base, at + i % 32u)) >> i / 32u & 1u;
}

// The values of IQ4_NL and IQ4_XS, one byte each.
float uneven(uint code)
{
    const uint table[4] = uint[](0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
    return float(signed_byte(table[code >> 2] >> (code & 3u) * 8u & 0xffu));
}

// Twice the values of E2M1, without negative zero.
float doubled(uint code)
{
    uint m = code & 7u;
    float magnitude = m < 4u ? float(m) : m == 7u ? 12.0 : float(2u * m - 4u);
    return code > 8u ? -magnitude : magnitude;
}

vec4 block_codes(Words base, uint at, uint i)
{
    uvec4 u;
    switch (KIND) {
    case Q4_0:
        return vec4(ivec4(four_bits(base, at + 2u, i)) - 8);
    case Q4_1:
        return vec4(four_bits(base, at + 4u, i));
    case Q5_0:
        u = four_bits(base, at + 6u, i) | one_bit(base, at + 2u, i) << 4;
        return vec4(ivec4(u) - 16);
    case Q5_1:
        return vec4(four_bits(base, at + 8u, i) | one_bit(base, at + 4u, i) << 4);
    case Q8_0:
        u = bytes_of(load_word(base, at + 2u + i));
        return vec4(ivec4(u << 24) >> 24);
    case Q2_K:
        return vec4(two_bits(base, at + 16u, i));
    case Q3_K:
        u = two_bits(base, at + 32u, i) | one_bit(base, at, i) << 2;
        return vec4(ivec4(u) - 4);
    case Q4_K:
        return vec4(four_bits(base, at + 16u, i));
    case Q5_K:
        return vec4(four_bits(base, at + 48u, i) | one_bit(base, at + 16u, i) << 4);
    case Q6_K:
        u = bytes_of(load_word(base, at + i / 128u * 64u + i % 64u)) >> i % 128u / 64u * 4u & 15u;
        u |= two_bits(base, at + 128u, i) << 4;
        return vec4(ivec4(u) - 32);
    case IQ4_NL:
        u = four_bits(base, at + 2u, i);
        return vec4(uneven(u.x), uneven(u.y), uneven(u.z), uneven(u.w));
    case IQ4_XS:
        u = bytes_of(load_word(base, at + 8u + i / 32u * 16u + i % 16u));
        u = u >> i % 32u / 16u * 4u & 15u;
        return vec4(uneven(u.x), uneven(u.y), uneven(u.z), uneven(u.w));
    default: // GGUF_MXFP4
        u = four_bits(base, at + 1u, i);
        return vec4(doubled(u.x), doubled(u.y), doubled(u.z), doubled(u.w));
    }
}

// Byte `i` of the bytes that begin at `at`, read as part of an aligned group of four.
uint byte_of(Words base, uint at, uint i)
{
    return load_word(base, at + (i & ~3u)) >> (i & 3u) * 8u & 0xffu;
}

// The 6-bit scale and minimum of group g of Q4_K and Q5_K.
vec2 scale_and_minimum(Words base, uint at, uint g)
{
    uint first = byte_of(base, at, g), second = byte_of(base, at, g + 4u);
    if (g < 4u) {
        return vec2(first & 63u, second & 63u);
    }
    uint high = byte_of(base, at, g - 4u);
    return vec2(second & 15u | high >> 6 << 4, second >> 4 | first >> 6 << 4);
}

float scale_q3_k(Words base, uint at, uint g)
{
    uint low = byte_of(base, at, g % 8u) >> g / 8u * 4u & 15u;
    uint high = byte_of(base, at, 8u + g % 4u) >> g / 4u * 2u & 3u;
    return float(int(low | high << 4) - 32);
}

float scale_iq4_xs(Words base, uint at, uint g)
{
    uint high = load_word(base, at) >> 16;
    uint low = byte_of(base, at + 4u, g / 2u) >> g % 2u * 4u & 15u;
    return float(int(low | (high >> 2u * g & 3u) << 4) - 32);
}

// The scale of element i, and the bias that is added to scale * code.
vec2 block_scale(Words base, uint at, uint i)
{
    switch (KIND) {
    case Q4_1:
    case Q5_1:
        return vec2(half_at(base, at), half_at(base, at + 2u));
    case Q2_K: {
        uint both = byte_of(base, at, i / 16u);
        return vec2(half_at(base, at + 80u) * float(both & 15u),
                    -from_float16(load_word(base, at + 80u) >> 16) * float(both >> 4));
    }
    case Q3_K:
        return vec2(from_float16(load_word(base, at + 106u) >> 16) *
                        scale_q3_k(base, at + 96u, i / 16u),
                    0.0);
    case Q4_K:
    case Q5_K: {
        vec2 by = scale_and_minimum(base, at + 4u, i / 32u);
        return vec2(half_at(base, at) * by.x, -half_at(base, at + 2u) * by.y);
    }
    case Q6_K:
        return vec2(from_float16(load_word(base, at + 206u) >> 16) *
                        float(signed_byte(byte_of(base, at + 192u, i / 16u))),
                    0.0);
    case IQ4_XS:
        return vec2(half_at(base, at) * scale_iq4_xs(base, at, i / 32u), 0.0);
    case GGUF_MXFP4: {
        uint power = load_word(base, at) & 0xffu;
        return vec2(uintBitsToFloat(power < 2u ? 0x00200000u << power : (power - 1u) << 23), 0.0);
    }
    default: // Q4_0, Q5_0, Q8_0, IQ4_NL
        return vec2(half_at(base, at), 0.0);
    }
}
