// backends/vulkan/shaders/bits.glsl -- elements of any dtype as bits, and as keys: unsigned numbers
// of 64 bits (low, high) in the order of the elements. With BYTES, one-byte elements can be stored.
#ifdef BYTES
#extension GL_EXT_shader_8bit_storage : require
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer Bytes { uint8_t at[]; };
#endif

bool is_float(uint dtype)
{
    return dtype >= FLOAT16 && dtype <= FLOAT64;
}

bool is_long(uint dtype)
{
    return dtype == INT64 || dtype == UINT64 || dtype == FLOAT64;
}

uvec2 load_bits(Words p, uint dtype, uint i)
{
    if (is_long(dtype)) {
        return uvec2(p.at[2 * i], p.at[2 * i + 1]);
    }
    if (dtype == FLOAT32) {
        return uvec2(p.at[i], 0);
    }
    if (is_float(dtype)) {
        return uvec2(uint(Halves(p).at[i]), 0);
    }
    return load_integer(p, dtype, i);
}

void store_bits(Words p, uint dtype, uint i, uvec2 bits)
{
    if (is_long(dtype)) {
        p.at[2 * i] = bits.x;
        p.at[2 * i + 1] = bits.y;
    } else if (dtype == FLOAT32 || dtype == INT32 || dtype == UINT32) {
        p.at[i] = bits.x;
    } else if (is_float(dtype) || dtype == INT16 || dtype == UINT16) {
        Halves(p).at[i] = uint16_t(bits.x);
    } else {
#ifdef BYTES
        Bytes(p).at[i] = uint8_t(bits.x);
#endif
    }
}

bool greater(uvec2 a, uvec2 b)
{
    return a.y > b.y || (a.y == b.y && a.x > b.x);
}

// Whether the element is not 0. A NaN is set.
bool is_set(uint dtype, uvec2 bits)
{
    if (dtype == FLOAT64) {
        bits.y &= 0x7fffffffu;
    } else if (dtype == FLOAT32) {
        bits.x &= 0x7fffffffu;
    } else if (is_float(dtype)) {
        bits.x &= 0x7fffu;
    }
    return (bits.x | bits.y) != 0;
}

// The key of a NaN, which is above all other floats. The high word of a key is 0 for dtypes of up
// to 32 bits.
uvec2 nan_key(uint dtype)
{
    return uvec2(~0u, dtype == FLOAT64 ? ~0u : 0u);
}

// Positive and negative zero have the same key.
uvec2 to_key(uint dtype, uvec2 bits)
{
    if (dtype == FLOAT64) {
        uint magnitude = bits.y & 0x7fffffffu;
        if (greater(uvec2(bits.x, magnitude), uvec2(0, 0x7ff00000u))) {
            return nan_key(dtype);
        }
        if ((magnitude | bits.x) == 0) {
            return uvec2(0, 0x80000000u);
        }
        return bits.y >> 31 == 1 ? ~bits : bits | uvec2(0, 0x80000000u);
    }
    if (is_float(dtype)) {
        uint word = dtype == FLOAT32 ? bits.x : bits.x << 16, magnitude = word & 0x7fffffffu;
        if (magnitude > (dtype == FLOAT16 ? 0x7c000000u : 0x7f800000u)) {
            return nan_key(dtype);
        }
        return uvec2(word > 0x80000000u ? ~word : magnitude | 0x80000000u, 0);
    }
    if (dtype == INT64) {
        return bits ^ uvec2(0, 0x80000000u);
    }
    if (dtype == INT32 || dtype == INT16 || dtype == INT8) {
        return uvec2(bits.x ^ 0x80000000u, 0);
    }
    return bits;
}

uvec2 from_key(uint dtype, uvec2 key)
{
    if (dtype == FLOAT64) {
        return key.y >> 31 == 1 ? key & uvec2(~0u, 0x7fffffffu) : ~key;
    }
    if (is_float(dtype)) {
        uint word = key.x >> 31 == 1 ? key.x & 0x7fffffffu : ~key.x;
        return uvec2(dtype == FLOAT32 ? word : word >> 16, 0);
    }
    return to_key(dtype, key);
}

// Reverses the order of keys, except that NaN keeps its key. It is its own inverse.
uvec2 turn_key(uint dtype, uvec2 key)
{
    if (is_float(dtype) && key == nan_key(dtype)) {
        return key;
    }
    return uvec2(~key.x, is_long(dtype) ? ~key.y : 0u);
}
