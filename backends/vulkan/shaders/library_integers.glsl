// backends/vulkan/shaders/library_integers.glsl -- integer arithmetic that wraps, by the rules of
// weft/tape.h. Narrower dtypes are computed in 32 bits and wrapped after each step.

#define DEFINE_WHOLE(T, U, bits)                                                                   \
    T bitnot_(const T x)                                                                           \
    {                                                                                              \
        return ~x;                                                                                 \
    }                                                                                              \
    T bitand_(const T x, const T y)                                                                \
    {                                                                                              \
        return x & y;                                                                              \
    }                                                                                              \
    T bitor_(const T x, const T y)                                                                 \
    {                                                                                              \
        return x | y;                                                                              \
    }                                                                                              \
    T bitxor_(const T x, const T y)                                                                \
    {                                                                                              \
        return x ^ y;                                                                              \
    }                                                                                              \
    T min_(const T x, const T y)                                                                   \
    {                                                                                              \
        return x < y ? x : y;                                                                      \
    }                                                                                              \
    T max_(const T x, const T y)                                                                   \
    {                                                                                              \
        return x > y ? x : y;                                                                      \
    }                                                                                              \
    T shl_(const T x, const T y)                                                                   \
    {                                                                                              \
        return U(y) >= U(bits) ? T(0) : x << (y & T(bits - 1));                                    \
    }                                                                                              \
    T shr_(const T x, const T y)                                                                   \
    {                                                                                              \
        const T sign = T(-1) < T(1) ? x >> T(bits - 1) : T(0);                                     \
        return U(y) >= U(bits) ? sign : x >> (y & T(bits - 1));                                    \
    }                                                                                              \
    T power_of(const T x, const U y)                                                               \
    {                                                                                              \
        T result = T(1), factor = x;                                                               \
        for (U rest = y; rest != U(0); rest >>= 1) {                                               \
            result = (rest & U(1)) != U(0) ? result * factor : result;                             \
            factor *= factor;                                                                      \
        }                                                                                          \
        return result;                                                                             \
    }

DEFINE_WHOLE(int, uint, 32)
DEFINE_WHOLE(uint, uint, 32)
DEFINE_WHOLE(int64_t, uint64_t, 64)
DEFINE_WHOLE(uint64_t, uint64_t, 64)

// Divides magnitudes: unsigned division gives the same result on every GPU.
#define DEFINE_SIGNED(T, U)                                                                        \
    T neg_(const T x)                                                                              \
    {                                                                                              \
        return T(0) - x;                                                                           \
    }                                                                                              \
    T abs_(const T x)                                                                              \
    {                                                                                              \
        return x < T(0) ? T(0) - x : x;                                                            \
    }                                                                                              \
    T sign_(const T x)                                                                             \
    {                                                                                              \
        return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0);                                          \
    }                                                                                              \
    T div_(const T x, const T y)                                                                   \
    {                                                                                              \
        U a = U(abs_(x)), b = U(abs_(y)), divisor = b == U(0) ? U(1) : b;                          \
        U q = a / divisor, r = a - q * divisor;                                                    \
        bool below = (x < T(0)) != (y < T(0));                                                     \
        return y == T(0) ? T(0) : below ? T(0) - T(q) - (r != U(0) ? T(1) : T(0)) : T(q);          \
    }                                                                                              \
    T mod_(const T x, const T y)                                                                   \
    {                                                                                              \
        return y == T(0) ? T(0) : x - div_(x, y) * y;                                              \
    }                                                                                              \
    T pow_(const T x, const T y)                                                                   \
    {                                                                                              \
        T odd = y & T(1);                                                                          \
        T inverse = x == T(1) ? T(1) : x == T(-1) ? T(1) - odd - odd : T(0);                       \
        return y < T(0) ? inverse : power_of(x, U(y));                                             \
    }

DEFINE_SIGNED(int, uint)
DEFINE_SIGNED(int64_t, uint64_t)

#define DEFINE_UNSIGNED(U)                                                                         \
    U neg_(const U x)                                                                              \
    {                                                                                              \
        return U(0) - x;                                                                           \
    }                                                                                              \
    U abs_(const U x)                                                                              \
    {                                                                                              \
        return x;                                                                                  \
    }                                                                                              \
    U sign_(const U x)                                                                             \
    {                                                                                              \
        return x != U(0) ? U(1) : U(0);                                                            \
    }                                                                                              \
    U div_(const U x, const U y)                                                                   \
    {                                                                                              \
        return y == U(0) ? U(0) : x / (y == U(0) ? U(1) : y);                                      \
    }                                                                                              \
    U mod_(const U x, const U y)                                                                   \
    {                                                                                              \
        return y == U(0) ? U(0) : x % (y == U(0) ? U(1) : y);                                      \
    }                                                                                              \
    U pow_(const U x, const U y)                                                                   \
    {                                                                                              \
        return power_of(x, y);                                                                     \
    }

DEFINE_UNSIGNED(uint)
DEFINE_UNSIGNED(uint64_t)

// ---- Dtypes below 32 bits -----------------------------------------------------------------------

int wrap_int8(const int x)
{
    return x << 24 >> 24;
}

int wrap_int16(const int x)
{
    return x << 16 >> 16;
}

uint wrap_uint8(const uint x)
{
    return x & 0xffu;
}

uint wrap_uint16(const uint x)
{
    return x & 0xffffu;
}

int saturate_int8(const int x)
{
    return clamp(x, -128, 127);
}

int saturate_int16(const int x)
{
    return clamp(x, -32768, 32767);
}

uint saturate_uint8(const uint x)
{
    return min(x, 0xffu);
}

uint saturate_uint16(const uint x)
{
    return min(x, 0xffffu);
}
