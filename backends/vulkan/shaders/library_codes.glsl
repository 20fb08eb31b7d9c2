// backends/vulkan/shaders/library_codes.glsl -- the tape codes that need no function of math.glsl.

#define DEFINE_TRUTH(T)                                                                            \
    T lt_(const T x, const T y)                                                                    \
    {                                                                                              \
        return x < y ? T(1) : T(0);                                                                \
    }                                                                                              \
    T le_(const T x, const T y)                                                                    \
    {                                                                                              \
        return x <= y ? T(1) : T(0);                                                               \
    }                                                                                              \
    T eq_(const T x, const T y)                                                                    \
    {                                                                                              \
        return x == y ? T(1) : T(0);                                                               \
    }                                                                                              \
    T ne_(const T x, const T y)                                                                    \
    {                                                                                              \
        return x != y ? T(1) : T(0);                                                               \
    }                                                                                              \
    T not_(const T x)                                                                              \
    {                                                                                              \
        return x == T(0) ? T(1) : T(0);                                                            \
    }                                                                                              \
    T and_(const T x, const T y)                                                                   \
    {                                                                                              \
        return x != T(0) && y != T(0) ? T(1) : T(0);                                               \
    }                                                                                              \
    T or_(const T x, const T y)                                                                    \
    {                                                                                              \
        return x != T(0) || y != T(0) ? T(1) : T(0);                                               \
    }                                                                                              \
    T select_(const T c, const T x, const T y)                                                     \
    {                                                                                              \
        return c != T(0) ? x : y;                                                                  \
    }                                                                                              \
    uint truth_(const T x)                                                                         \
    {                                                                                              \
        return x != T(0) ? 1u : 0u;                                                                \
    }

DEFINE_TRUTH(float)
DEFINE_TRUTH(double)
DEFINE_TRUTH(int)
DEFINE_TRUTH(uint)
DEFINE_TRUTH(int64_t)
DEFINE_TRUTH(uint64_t)

// Division is in math.glsl.
#define DEFINE_ARITHMETIC(T)                                                                       \
    T add_(const T x, const T y)                                                                   \
    {                                                                                              \
        precise T r = x + y;                                                                       \
        return r;                                                                                  \
    }                                                                                              \
    T sub_(const T x, const T y)                                                                   \
    {                                                                                              \
        precise T r = x - y;                                                                       \
        return r;                                                                                  \
    }                                                                                              \
    T mul_(const T x, const T y)                                                                   \
    {                                                                                              \
        precise T r = x * y;                                                                       \
        return r;                                                                                  \
    }

DEFINE_ARITHMETIC(float)
DEFINE_ARITHMETIC(double)
DEFINE_ARITHMETIC(int)
DEFINE_ARITHMETIC(uint)
DEFINE_ARITHMETIC(int64_t)
DEFINE_ARITHMETIC(uint64_t)

#define DEFINE_REAL(T)                                                                             \
    T abs_(const T x)                                                                              \
    {                                                                                              \
        return magnitude_of(x);                                                                 \
    }                                                                                              \
    T sign_(const T x)                                                                             \
    {                                                                                              \
        precise T r = (x > T(0) ? T(1) : T(0)) - (x < T(0) ? T(1) : T(0));                         \
        return nan_(x) ? x : r;                                                                    \
    }                                                                                              \
    T isnan_(const T x)                                                                            \
    {                                                                                              \
        return nan_(x) ? T(1) : T(0);                                                              \
    }                                                                                              \
    T isinf_(const T x)                                                                            \
    {                                                                                              \
        return finite_(x) || nan_(x) ? T(0) : T(1);                                                \
    }                                                                                              \
    T isfinite_(const T x)                                                                         \
    {                                                                                              \
        return finite_(x) ? T(1) : T(0);                                                           \
    }

DEFINE_REAL(float)
DEFINE_REAL(double)

// Flips the sign bit: a compiler may replace -x by 0 - x.
float neg_(const float x)
{
    return uintBitsToFloat(floatBitsToUint(x) ^ 0x80000000u);
}

double neg_(const double x)
{
    uvec2 bits = unpackDouble2x32(x);
    return packDouble2x32(uvec2(bits.x, bits.y ^ 0x80000000u));
}
