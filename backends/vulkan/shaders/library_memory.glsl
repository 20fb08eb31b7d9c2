// backends/vulkan/shaders/library_memory.glsl -- arguments, positions, and elements in memory.
//
// An invocation computes one element, or four adjacent elements of the output. In the latter case
// the functions with a 4 in their name move four as one vector, and all positions count vectors.

layout(buffer_reference, scalar, buffer_reference_align = 1) buffer Bytes { uint8_t at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Pairs { uvec2 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Longs { int64_t at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Words2 { uvec2 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Words4 { uvec4 at[]; };

// ---- Arguments ----------------------------------------------------------------------------------

#include "batch.glsl"

const uint WORDS = 25u;

// The layout of ../kernels/elementwise.c. `words` begins with the operands' addresses. The table of
// the walk follows, unless it is in `record`: the offset of each operand, and for each axis, the
// innermost first, its length and the operands' strides.
struct Arguments {
    Words result;
    Words record;
    uint recorded; // whether `record` is used
    uint count, rank_operands;
    uint words[WORDS];
};

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Records {
    Arguments at[];
};

layout(push_constant, scalar) uniform Push {
    Arguments one;
} push;

// The arguments are read where they are, since `words` has variable indices.
#define ARGUMENT(NAME) (BATCH ? Records(push.one.result).at[gl_WorkGroupID.y].NAME : push.one.NAME)

uint item_()
{
    return launch_group() * 256u + gl_LocalInvocationIndex;
}

bool outside_(const uint item)
{
    return item >= ARGUMENT(count);
}

Words result_()
{
    return ARGUMENT(result);
}

uint word_(const uint i)
{
    return ARGUMENT(words[i]);
}

Words operand_(const uint k)
{
    return Words(uvec2(word_(2u * k), word_(2u * k + 1u)));
}

// Mesa 26's software driver executes loads from a uniform address even if no invocation is active.
// Without a record the address is therefore readable, and the index is 0.
uint table_(const uint i)
{
    uint operands = ARGUMENT(rank_operands) & 0xffu;
    bool recorded = ARGUMENT(recorded) != 0u;
    Words record = ARGUMENT(record);
    return recorded ? record.at[recorded ? i : 0u] : word_(min(2u * operands + i, WORDS - 1u));
}

// Four words of the table; words beyond its end are unspecified and never used.
uvec4 table4_(const uint i)
{
    return uvec4(table_(i), table_(i + 1u), table_(i + 2u), table_(i + 3u));
}

// The offsets of the element at this position in operands first, first + 1, ...
uvec4 offsets_(const uint first, const uint item)
{
    uint operands = ARGUMENT(rank_operands) & 0xffu, rank = ARGUMENT(rank_operands) >> 8;
    uint at = operands, rest = item;
    uvec4 sum = table4_(first);
    for (uint axis = 0u; axis < rank; axis++) {
        uint length = table_(at), i = rest;
        if (axis + 1u < rank) {
            rest = rest / length;
            i -= rest * length;
        }
        sum += i * table4_(at + 1u + first);
        at += 1u + operands;
    }
    return sum;
}

// ---- One element --------------------------------------------------------------------------------

uint load_bool(const Words p, const uint i)
{
    return load_byte(p, i);
}

uint load_uint8(const Words p, const uint i)
{
    return load_byte(p, i);
}

int load_int8(const Words p, const uint i)
{
    return int(load_byte(p, i) << 24) >> 24;
}

uint load_uint16(const Words p, const uint i)
{
    return uint(Halves(p).at[i]);
}

int load_int16(const Words p, const uint i)
{
    return int(uint(Halves(p).at[i]) << 16) >> 16;
}

uint load_uint32(const Words p, const uint i)
{
    return p.at[i];
}

int load_int32(const Words p, const uint i)
{
    return Ints(p).at[i];
}

int64_t load_int64(const Words p, const uint i)
{
    return Longs(p).at[i];
}

uint64_t load_uint64(const Words p, const uint i)
{
    return uint64_t(Longs(p).at[i]);
}

float load_float16(const Words p, const uint i)
{
    return from_float16(uint(Halves(p).at[i]));
}

float load_bfloat16(const Words p, const uint i)
{
    return from_bfloat16(uint(Halves(p).at[i]));
}

float load_float32(const Words p, const uint i)
{
    return Floats(p).at[i];
}

double load_float64(const Words p, const uint i)
{
    return Doubles(p).at[i];
}

// Loads the real part.
float load_complex64(const Words p, const uint i)
{
    return uintBitsToFloat(Pairs(p).at[i].x);
}

// Whether a complex number is not 0.
uint load_truth(const Words p, const uint i)
{
    uvec2 parts = Pairs(p).at[i] & 0x7fffffffu;
    return (parts.x | parts.y) != 0u ? 1u : 0u;
}

// Loads eight bytes of any dtype.
uvec2 load_pair(const Words p, const uint i)
{
    return Pairs(p).at[i];
}

void store_bool(const Words p, const uint i, const uint x)
{
    Bytes(p).at[i] = uint8_t(x);
}

void store_uint8(const Words p, const uint i, const uint x)
{
    Bytes(p).at[i] = uint8_t(x);
}

void store_int8(const Words p, const uint i, const int x)
{
    Bytes(p).at[i] = uint8_t(uint(x));
}

void store_uint16(const Words p, const uint i, const uint x)
{
    Halves(p).at[i] = uint16_t(x);
}

void store_int16(const Words p, const uint i, const int x)
{
    Halves(p).at[i] = uint16_t(uint(x));
}

void store_uint32(const Words p, const uint i, const uint x)
{
    p.at[i] = x;
}

void store_int32(const Words p, const uint i, const int x)
{
    Ints(p).at[i] = x;
}

void store_int64(const Words p, const uint i, const int64_t x)
{
    Longs(p).at[i] = x;
}

void store_uint64(const Words p, const uint i, const uint64_t x)
{
    Longs(p).at[i] = int64_t(x);
}

void store_float16(const Words p, const uint i, const float x)
{
    Halves(p).at[i] = uint16_t(to_float16(x));
}

void store_bfloat16(const Words p, const uint i, const float x)
{
    Halves(p).at[i] = uint16_t(to_bfloat16(x));
}

void store_float32(const Words p, const uint i, const float x)
{
    Floats(p).at[i] = x;
}

void store_float64(const Words p, const uint i, const double x)
{
    Doubles(p).at[i] = x;
}

void store_complex64(const Words p, const uint i, const float x)
{
    Pairs(p).at[i] = uvec2(floatBitsToUint(x), 0u);
}

void store_pair(const Words p, const uint i, const uvec2 x)
{
    Pairs(p).at[i] = x;
}

// ---- Four elements ------------------------------------------------------------------------------

// The four bytes of a word, or the four 16-bit halves of two words.
uvec4 bytes_of(const uint word)
{
    return uvec4(word, word >> 8, word >> 16, word >> 24) & 0xffu;
}

uvec4 halves_of(const uvec2 words)
{
    return uvec4(words.x & 0xffffu, words.x >> 16, words.y & 0xffffu, words.y >> 16);
}

uint of_bytes(const uvec4 x)
{
    return (x.x & 0xffu) | (x.y & 0xffu) << 8 | (x.z & 0xffu) << 16 | x.w << 24;
}

uvec2 of_halves(const uvec4 x)
{
    return uvec2((x.x & 0xffffu) | x.y << 16, (x.z & 0xffffu) | x.w << 16);
}

uvec4 load4_bool(const Words p, const uint i)
{
    return bytes_of(p.at[i]);
}

uvec4 load4_uint8(const Words p, const uint i)
{
    return bytes_of(p.at[i]);
}

ivec4 load4_int8(const Words p, const uint i)
{
    return ivec4(bytes_of(p.at[i]) << 24) >> 24;
}

uvec4 load4_uint16(const Words p, const uint i)
{
    return halves_of(Words2(p).at[i]);
}

ivec4 load4_int16(const Words p, const uint i)
{
    return ivec4(halves_of(Words2(p).at[i]) << 16) >> 16;
}

uvec4 load4_uint32(const Words p, const uint i)
{
    return Words4(p).at[i];
}

ivec4 load4_int32(const Words p, const uint i)
{
    return ivec4(Words4(p).at[i]);
}

vec4 load4_float16(const Words p, const uint i)
{
    uvec4 x = halves_of(Words2(p).at[i]);
    return vec4(from_float16(x.x), from_float16(x.y), from_float16(x.z), from_float16(x.w));
}

vec4 load4_bfloat16(const Words p, const uint i)
{
    uvec4 x = halves_of(Words2(p).at[i]);
    return vec4(from_bfloat16(x.x), from_bfloat16(x.y), from_bfloat16(x.z), from_bfloat16(x.w));
}

vec4 load4_float32(const Words p, const uint i)
{
    return uintBitsToFloat(Words4(p).at[i]);
}

void store4_bool(const Words p, const uint i, const uvec4 x)
{
    p.at[i] = of_bytes(x);
}

void store4_uint8(const Words p, const uint i, const uvec4 x)
{
    p.at[i] = of_bytes(x);
}

void store4_int8(const Words p, const uint i, const ivec4 x)
{
    p.at[i] = of_bytes(uvec4(x));
}

void store4_uint16(const Words p, const uint i, const uvec4 x)
{
    Words2(p).at[i] = of_halves(x);
}

void store4_int16(const Words p, const uint i, const ivec4 x)
{
    Words2(p).at[i] = of_halves(uvec4(x));
}

void store4_uint32(const Words p, const uint i, const uvec4 x)
{
    Words4(p).at[i] = x;
}

void store4_int32(const Words p, const uint i, const ivec4 x)
{
    Words4(p).at[i] = uvec4(x);
}

void store4_float16(const Words p, const uint i, const vec4 x)
{
    uvec4 y = uvec4(to_float16(x.x), to_float16(x.y), to_float16(x.z), to_float16(x.w));
    Words2(p).at[i] = of_halves(y);
}

void store4_bfloat16(const Words p, const uint i, const vec4 x)
{
    uvec4 y = uvec4(to_bfloat16(x.x), to_bfloat16(x.y), to_bfloat16(x.z), to_bfloat16(x.w));
    Words2(p).at[i] = of_halves(y);
}

void store4_float32(const Words p, const uint i, const vec4 x)
{
    Words4(p).at[i] = floatBitsToUint(x);
}
