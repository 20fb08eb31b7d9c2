// backends/vulkan/shaders/library_convert.glsl -- conversions between the types of computation:
// reals to integers saturate and NaN becomes 0, integers wrap to integers. `odd_` rounds to odd:
// towards zero, with the last bit set if the result is inexact. Rounding that float to a 16-bit
// float equals rounding the original value (Boldo and Melquiond 2005).

#define DEFINE_INTEGER_CONVERSIONS(T)                                                              \
    int to_int(const T x)                                                                          \
    {                                                                                              \
        return int(x);                                                                             \
    }                                                                                              \
    uint to_uint(const T x)                                                                        \
    {                                                                                              \
        return uint(x);                                                                            \
    }                                                                                              \
    int64_t to_int64(const T x)                                                                    \
    {                                                                                              \
        return int64_t(x);                                                                         \
    }                                                                                              \
    uint64_t to_uint64(const T x)                                                                  \
    {                                                                                              \
        return uint64_t(x);                                                                        \
    }                                                                                              \
    float to_float(const T x)                                                                      \
    {                                                                                              \
        return float(x);                                                                           \
    }                                                                                              \
    double to_double(const T x)                                                                    \
    {                                                                                              \
        return double(x);                                                                          \
    }

DEFINE_INTEGER_CONVERSIONS(int)
DEFINE_INTEGER_CONVERSIONS(uint)
DEFINE_INTEGER_CONVERSIONS(int64_t)
DEFINE_INTEGER_CONVERSIONS(uint64_t)

// Both bounds are exact in float and in double.
#define DEFINE_SATURATION(name, R, T, low, end, lowest, highest)                                   \
    T name(const R x)                                                                              \
    {                                                                                              \
        bool inside = !nan_(x) && x > R(low) && x < R(end);                                        \
        T r = T(inside ? x : R(0));                                                                \
        return inside || nan_(x) ? r : x >= R(end) ? T(highest) : T(lowest);                       \
    }

#define DEFINE_REAL_CONVERSIONS(R)                                                                 \
    DEFINE_SATURATION(to_int, R, int, -2147483648.0lf, 2147483648.0lf, 0x80000000,                 \
                      0x7fffffff)                                                                  \
    DEFINE_SATURATION(to_uint, R, uint, 0.0lf, 4294967296.0lf, 0u, 0xffffffffu)                   \
    DEFINE_SATURATION(to_int64, R, int64_t, -9223372036854775808.0lf, 9223372036854775808.0lf,     \
                      0x8000000000000000l, 0x7fffffffffffffffl)                                    \
    DEFINE_SATURATION(to_uint64, R, uint64_t, 0.0lf, 18446744073709551616.0lf, 0ul,               \
                      0xfffffffffffffffful)

DEFINE_REAL_CONVERSIONS(float)
DEFINE_REAL_CONVERSIONS(double)

float to_float(const float x)
{
    return x;
}

double to_double(const double x)
{
    return x;
}

// A conversion instruction may flush subnormal floats to 0. They are multiples of 2^-149.
double to_double(const float x)
{
    uint bits = floatBitsToUint(x), magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x800000u) {
        return double(x);
    }
    precise double r = double(magnitude) * 1.40129846432481707e-45lf;
    return magnitude == bits ? r : -r;
}

float to_float(const double x)
{
    double magnitude = abs(x);
    if (!(magnitude < 1.17549435082228751e-38lf)) {
        return float(x);
    }
    precise double multiple = magnitude * 7.13623846352979941e44lf;
    uint bits = uint(rint_(multiple));
    return uintBitsToFloat(x < 0.0lf ? bits | 0x80000000u : bits);
}

// ---- Conversion towards 16-bit floats -----------------------------------------------------------

float odd_(const float x)
{
    return x;
}

float odd_(const double x)
{
    float nearest = float(x);
    double back = double(nearest);
    if (nan_(x) || back == x) {
        return nearest;
    }
    bool up = magnitude_of(back) > magnitude_of(x);
    return uintBitsToFloat((floatBitsToUint(nearest) - (up ? 1u : 0u)) | 1u);
}

float odd_(const uint x)
{
    int lost = max(findMSB(x) - 23, 0);
    uint mask = (1u << lost) - 1u;
    return float((x & ~mask) | ((x & mask) != 0u ? mask + 1u : 0u));
}

float odd_(const int x)
{
    float magnitude = odd_(uint(abs(x)));
    return x < 0 ? -magnitude : magnitude;
}

float odd_(const uint64_t x)
{
    uint low = uint(x), high = uint(x >> 32);
    if (high == 0u) {
        return odd_(low);
    }
    int lost = findMSB(high) + 9;
    uint kept = uint(x >> lost);
    kept |= x == uint64_t(kept) << lost ? 0u : 1u;
    precise float r = float(kept) * power_of_two(lost);
    return r;
}

float odd_(const int64_t x)
{
    float magnitude = odd_(uint64_t(x < 0l ? 0l - x : x));
    return x < 0l ? -magnitude : magnitude;
}

float round16_(const float x)
{
    return from_float16(to_float16(x));
}

float roundb_(const float x)
{
    return from_bfloat16(to_bfloat16(x));
}

double round16_(const double x)
{
    return double(round16_(odd_(x)));
}

double roundb_(const double x)
{
    return double(roundb_(odd_(x)));
}
