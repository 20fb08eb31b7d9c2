// backends/vulkan/shaders/common.glsl -- memory as addresses, elements of any dtype, workgroups.
//
// Included directly after #version 460. If WIDE is defined, a shader computes in float64.
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : enable

#ifdef WIDE
#define real double
#else
#define real float
#endif

// The values of weft_dtype.
const uint BOOL = 0, UINT8 = 1, UINT16 = 2, UINT32 = 3, UINT64 = 4, INT8 = 5, INT16 = 6, INT32 = 7,
           INT64 = 8, FLOAT16 = 9, BFLOAT16 = 10, FLOAT32 = 11, FLOAT64 = 12;

// A device address, in push constants and records. Cast to read: Floats(p.x).at[i].
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words { uint at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Ints { int at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Halves { uint16_t at[]; };
#ifdef WIDE
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Doubles { double at[]; };
#endif

uint group_index()
{
    return gl_WorkGroupID.x +
           gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
}

// Conversions of 16-bit floats: round to nearest even, NaN stays NaN, subnormals are preserved.
float from_float16(uint bits)
{
    uint sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) {
        return uintBitsToFloat(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    }
    if (rest >= 0x400u) {
        return uintBitsToFloat(sign | (rest + 0x1c000u) << 13);
    }
    if (rest == 0u) {
        return uintBitsToFloat(sign);
    }
    uint top = uint(findMSB(rest)); // subnormal: rest 2^-24
    return uintBitsToFloat(sign | (top + 103u) << 23 | (rest << (23u - top) & 0x7fffffu));
}

uint to_float16(float value)
{
    uint bits = floatBitsToUint(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest >= 0x47800000u) { // 65536 and above, infinity, NaN
        return sign | (rest > 0x7f800000u ? 0x7e00u : 0x7c00u);
    }
    if (rest < 0x38800000u) { // subnormal in float16: a multiple of 2^-24
        if (rest < 0x33000000u) {
            return sign;
        }
        uint shift = 126u - (rest >> 23), mantissa = (rest & 0x7fffffu) | 0x800000u;
        uint kept = mantissa >> shift, lost = mantissa & ((1u << shift) - 1u);
        uint tie = 1u << (shift - 1u);
        return sign | (kept + uint(lost > tie || (lost == tie && (kept & 1u) == 1u)));
    }
    return sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;
}

float from_bfloat16(uint bits)
{
    return uintBitsToFloat(bits << 16);
}

uint to_bfloat16(float value)
{
    uint bits = floatBitsToUint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return bits >> 16 | 0x40u;
    }
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

// Element i of a float array. `dtype` is a specialization constant, so only one branch remains.
real load_real(Words p, uint dtype, uint i)
{
#ifdef WIDE
    if (dtype == FLOAT64) {
        return Doubles(p).at[i];
    }
#endif
    if (dtype == FLOAT32) {
        return real(Floats(p).at[i]);
    }
    uint bits = uint(Halves(p).at[i]);
    return real(dtype == FLOAT16 ? from_float16(bits) : from_bfloat16(bits));
}

void store_real(Words p, uint dtype, uint i, real value)
{
#ifdef WIDE
    if (dtype == FLOAT64) {
        Doubles(p).at[i] = value;
        return;
    }
#endif
    if (dtype == FLOAT32) {
        Floats(p).at[i] = float(value);
    } else {
        float narrow = float(value);
        Halves(p).at[i] = uint16_t(dtype == FLOAT16 ? to_float16(narrow) : to_bfloat16(narrow));
    }
}

// The value as it would be read back after storing it.
real as_stored(real value, uint dtype)
{
#ifdef WIDE
    if (dtype == FLOAT64) {
        return value;
    }
#endif
    float narrow = float(value);
    if (dtype == FLOAT32) {
        return real(narrow);
    }
    return real(dtype == FLOAT16 ? from_float16(to_float16(narrow))
                                 : from_bfloat16(to_bfloat16(narrow)));
}

// Reads one byte from the word that holds it, which needs no 8-bit storage feature.
uint load_byte(Words p, uint i)
{
    uvec2 address = uvec2(p);
    uint byte = (address.x & 3u) + i;
    return Words(uvec2(address.x & ~3u, address.y)).at[byte >> 2] >> ((byte & 3u) * 8u) & 0xffu;
}

// Element i of an integer array as 64 bits, low and high.
uvec2 load_integer(Words p, uint dtype, uint i)
{
    uint low;
    switch (dtype) {
    case INT64:
    case UINT64:
        return uvec2(p.at[2u * i], p.at[2u * i + 1u]);
    case INT32:
        low = p.at[i];
        return uvec2(low, uint(int(low) >> 31));
    case UINT32:
        return uvec2(p.at[i], 0u);
    case INT16:
        low = uint(Halves(p).at[i]);
        return uvec2(uint(int(low << 16) >> 16), uint(int(low << 16) >> 31));
    case UINT16:
        return uvec2(uint(Halves(p).at[i]), 0u);
    case INT8:
        low = load_byte(p, i);
        return uvec2(uint(int(low << 24) >> 24), uint(int(low << 24) >> 31));
    default: // UINT8, BOOL
        return uvec2(load_byte(p, i), 0u);
    }
}

// Reads a start index from element i of `from` and clips it to 0 .. room, the largest valid start.
uint clipped_place(Words from, uint dtype, uint i, uint room)
{
    uvec2 wish = load_integer(from, dtype, i);
    return int(wish.y) < 0 ? 0u : wish.y > 0u || wish.x > room ? room : wish.x;
}

// An error found by a shader; only the first one is kept. The host reads it when it waits.
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Fault {
    uint code;
    uint low, high; // the value
};

void report(Fault fault, uint code, uvec2 value)
{
    if (atomicCompSwap(fault.code, 0u, code) == 0u) {
        fault.low = value.x;
        fault.high = value.y;
    }
}

// An index into an axis of `length` (negative: from the end), or -1 after reporting a fault.
int checked_index(Words indices, uint dtype, uint i, int length, Fault fault, uint code)
{
    uvec2 value = load_integer(indices, dtype, i);
    int index = int(value.x);
    bool narrow = int(value.y) == index >> 31 && (dtype != UINT64 || int(value.y) >= 0);
    if (narrow && index < 0) {
        index += length;
    }
    if (!narrow || index < 0 || index >= length) {
        report(fault, code, value);
        return -1;
    }
    return index;
}
