// backends/vulkan/shaders/library.comp -- functions from which shaders are composed at run time.
//
// ../spirv/ copies functions from here by name and parameter types; this shader itself never runs.
// Every code of weft/tape.h has a function for each type that values are computed in: float,
// double, int, uint, int64_t, uint64_t. Truth values are 1 or 0 of the same type; bool tapes
// compute in uint.
#version 460
#define WIDE
#include "common.glsl"
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_8bit_storage : require
#include "math.glsl"
#include "math_inverse.glsl"
#include "library_codes.glsl"
#include "library_integers.glsl"
#include "library_convert.glsl"
#include "library_memory.glsl"

// The compiler drops functions without a call, so all are called here. The results are discarded.
#define CALL_ORDERED(x)                                                                            \
    x = neg_(x); x = not_(x); x = abs_(x); x = sign_(x); x = add_(x, x); x = sub_(x, x);           \
    x = mul_(x, x); x = div_(x, x); x = mod_(x, x); x = min_(x, x); x = max_(x, x);                \
    x = pow_(x, x); x = lt_(x, x); x = le_(x, x); x = eq_(x, x); x = ne_(x, x);                    \
    x = and_(x, x); x = or_(x, x); x = select_(x, x, x);
#define CALL_REAL(x)                                                                               \
    x = floor_(x); x = ceil_(x); x = rint_(x); x = trunc_(x); x = sqrt_(x); x = rsqrt_(x);         \
    x = exp_(x); x = expm1_(x); x = log_(x); x = log1p_(x); x = log2_(x); x = sin_(x);             \
    x = cos_(x); x = tan_(x); x = asin_(x); x = acos_(x); x = atan_(x); x = sinh_(x);              \
    x = cosh_(x); x = tanh_(x); x = erf_(x); x = erfinv_(x); x = isnan_(x); x = isinf_(x);         \
    x = isfinite_(x); x = atan2_(x, x); x = round16_(x); x = roundb_(x); x = log10_(x);            \
    x = asinh_(x); x = acosh_(x); x = atanh_(x);
#define CALL_INTEGER(x)                                                                            \
    x = bitnot_(x); x = bitand_(x, x); x = bitor_(x, x); x = bitxor_(x, x); x = shl_(x, x);        \
    x = shr_(x, x);
#define CALL_CONVERT(x)                                                                            \
    f = to_float(x); d = to_double(x); i = to_int(x); u = to_uint(x); l = to_int64(x);             \
    k = to_uint64(x); f = odd_(x); u = truth_(x);

layout(local_size_x = 256) in;

void main()
{
    float f = 0.0;
    double d = 0.0lf;
    int i = 0;
    uint u = 0u;
    int64_t l = 0l;
    uint64_t k = 0ul;
    CALL_ORDERED(f) CALL_REAL(f)
    CALL_ORDERED(d) CALL_REAL(d)
    CALL_ORDERED(i) CALL_INTEGER(i)
    CALL_ORDERED(u) CALL_INTEGER(u)
    CALL_ORDERED(l) CALL_INTEGER(l)
    CALL_ORDERED(k) CALL_INTEGER(k)
    CALL_CONVERT(f) CALL_CONVERT(d) CALL_CONVERT(i) CALL_CONVERT(u) CALL_CONVERT(l) CALL_CONVERT(k)
    i = wrap_int8(i); i = wrap_int16(i); u = wrap_uint8(u); u = wrap_uint16(u);
    i = saturate_int8(i); i = saturate_int16(i); u = saturate_uint8(u); u = saturate_uint16(u);

    u = item_();
    if (outside_(u)) {
        return;
    }
    Words p = operand_(u), o = result_();
    uvec4 at = offsets_(0u, u);
    u = load_bool(p, u); u = load_uint8(p, u); u = load_uint16(p, u); u = load_uint32(p, u);
    k = load_uint64(p, u); i = load_int8(p, u); i = load_int16(p, u); i = load_int32(p, u);
    l = load_int64(p, u); f = load_float16(p, u); f = load_bfloat16(p, u); f = load_float32(p, u);
    d = load_float64(p, u); f = load_complex64(p, u); u = load_truth(p, u);
    uvec2 pair = load_pair(p, u);
    store_bool(o, u, u); store_uint8(o, u, u); store_uint16(o, u, u); store_uint32(o, u, u);
    store_uint64(o, u, k); store_int8(o, u, i); store_int16(o, u, i); store_int32(o, u, i);
    store_int64(o, u, l); store_float16(o, u, f); store_bfloat16(o, u, f);
    store_float32(o, u, f); store_float64(o, u, d); store_complex64(o, u, f);
    store_pair(o, u, pair);

    uvec4 u4 = load4_bool(p, u); u4 = load4_uint8(p, u); u4 = load4_uint16(p, u);
    u4 = load4_uint32(p, u);
    ivec4 i4 = load4_int8(p, u); i4 = load4_int16(p, u); i4 = load4_int32(p, u);
    vec4 f4 = load4_float16(p, u); f4 = load4_bfloat16(p, u); f4 = load4_float32(p, u);
    store4_bool(o, u, u4); store4_uint8(o, u, u4); store4_uint16(o, u, u4);
    store4_uint32(o, u, u4); store4_int8(o, u, i4); store4_int16(o, u, i4);
    store4_int32(o, u, i4); store4_float16(o, u, f4); store4_bfloat16(o, u, f4);
    store4_float32(o, u, f4);
}
