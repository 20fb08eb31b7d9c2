// backends/vulkan/shaders/pieces.glsl -- elements in vectors of four and in pieces of 16 bytes,
// converted late so that several loads stay in flight. Included after common.glsl.
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Quads { uvec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Pairs { uvec2 at[]; };

// Element offsets are signed: strides may be negative.
#ifdef WIDE
#define real4 dvec4
#define raw4 dvec4
real load_at(Words p, uint dtype, int i)
{
    if (dtype == FLOAT64) {
        return Doubles(p).at[i];
    }
    if (dtype == FLOAT32) {
        return real(Floats(p).at[i]);
    }
    uint bits = uint(Halves(p).at[i]);
    return real(dtype == FLOAT16 ? from_float16(bits) : from_bfloat16(bits));
}

raw4 load_four(Words p, uint dtype, bool packed, int i, int step, uint count)
{
    raw4 four = raw4(0.0lf);
    for (uint j = 0u; j < min(count, 4u); j++) {
        four[j] = load_at(p, dtype, i + int(j) * step);
    }
    return four;
}

real4 convert(raw4 four, uint dtype)
{
    return four;
}
#else
#define real4 vec4
#define raw4 uvec4
uint load_bits(Words p, uint dtype, int i)
{
    return dtype == FLOAT32 ? p.at[i] : uint(Halves(p).at[i]);
}

float load_at(Words p, uint dtype, int i)
{
    uint bits = load_bits(p, dtype, i);
    if (dtype == FLOAT32) {
        return uintBitsToFloat(bits);
    }
    return dtype == FLOAT16 ? unpackHalf2x16(bits).x : uintBitsToFloat(bits << 16);
}

// Loads `count` elements (at most 4, padded with zeros) without conversion: two 16-bit elements per
// word. `packed`: the elements are adjacent, the first is a multiple of 4, and memory is aligned
// for 4.
raw4 load_four(Words p, uint dtype, bool packed, int i, int step, uint count)
{
    if (packed && count >= 4u) {
        return dtype == FLOAT32 ? Quads(p).at[i >> 2] : uvec4(Pairs(p).at[i >> 2], 0u, 0u);
    }
    uvec4 four = uvec4(0u);
    four.x = count > 0u ? load_bits(p, dtype, i) : 0u;
    four.y = count > 1u ? load_bits(p, dtype, i + step) : 0u;
    four.z = count > 2u ? load_bits(p, dtype, i + 2 * step) : 0u;
    four.w = count > 3u ? load_bits(p, dtype, i + 3 * step) : 0u;
    return dtype == FLOAT32 ? four : uvec4(four.x | four.y << 16, four.z | four.w << 16, 0u, 0u);
}

// This conversion keeps subnormals of float16 on all known devices; tests/vulkan/test_products.c
// checks it.
real4 convert(raw4 four, uint dtype)
{
    if (dtype == FLOAT32) {
        return uintBitsToFloat(four);
    }
    if (dtype == FLOAT16) {
        return vec4(unpackHalf2x16(four.x), unpackHalf2x16(four.y));
    }
    return uintBitsToFloat(uvec4(four.x << 16, four.x & 0xffff0000u, four.y << 16,
                                 four.y & 0xffff0000u));
}

// The number of elements in a piece of 16 bytes.
uint piece_of(uint dtype)
{
    return dtype == FLOAT32 ? 4u : 8u;
}

uvec4 load_piece(Words p, uint dtype, bool packed, int i, uint count)
{
    if (packed && count >= piece_of(dtype)) {
        return Quads(p).at[dtype == FLOAT32 ? i >> 2 : i >> 3];
    }
    uvec4 low = load_four(p, dtype, false, i, 1, count);
    if (dtype == FLOAT32) {
        return low;
    }
    return uvec4(low.xy, load_four(p, dtype, false, i + 4, 1, max(count, 4u) - 4u).xy);
}

// Four elements of a piece: the first four (0) or the last four (1).
vec4 part_of(uvec4 piece, uint dtype, uint part)
{
    return convert(part == 0u ? piece : uvec4(piece.zw, 0u, 0u), dtype);
}

uint pack_two(uint dtype, float low, float high)
{
    return dtype == FLOAT16 ? to_float16(low) | to_float16(high) << 16
                            : to_bfloat16(low) | to_bfloat16(high) << 16;
}

void store_four(Words p, uint dtype, uint i, vec4 value)
{
    if (dtype == FLOAT32) {
        Quads(p).at[i >> 2] = floatBitsToUint(value);
    } else {
        Pairs(p).at[i >> 2] =
            uvec2(pack_two(dtype, value.x, value.y), pack_two(dtype, value.z, value.w));
    }
}

// Piece i: `low`, and of 16-bit elements `high` after it.
void store_piece(Words p, uint dtype, uint i, vec4 low, vec4 high)
{
    Quads(p).at[i] = dtype == FLOAT32
                         ? floatBitsToUint(low)
                         : uvec4(pack_two(dtype, low.x, low.y), pack_two(dtype, low.z, low.w),
                                 pack_two(dtype, high.x, high.y), pack_two(dtype, high.z, high.w));
}
#endif
