/* backends/cpu/vocabulary_whole.h -- integer arithmetic that wraps and never traps, by the rules of
 * weft/tape.h. Included by vocabulary.h. */
#ifndef BACKENDS_CPU_VOCABULARY_WHOLE_H
#define BACKENDS_CPU_VOCABULARY_WHOLE_H

#include <stdbool.h>
#include <stdint.h>

/* T, and the unsigned U of the same width. Narrower dtypes are computed in 32 bits; shifts take the
 * dtype's width, which the other functions do not need. */
#define DEFINE_WHOLE(t, T, U)                                                                      \
    static inline T neg_##t(T x)                                                                   \
    {                                                                                              \
        return (T)(0 - (U)x);                                                                      \
    }                                                                                              \
    static inline T add_##t(T x, T y)                                                              \
    {                                                                                              \
        return (T)((U)x + (U)y);                                                                   \
    }                                                                                              \
    static inline T sub_##t(T x, T y)                                                              \
    {                                                                                              \
        return (T)((U)x - (U)y);                                                                   \
    }                                                                                              \
    static inline T mul_##t(T x, T y)                                                              \
    {                                                                                              \
        return (T)((U)x * (U)y);                                                                   \
    }                                                                                              \
    static inline T min_##t(T x, T y)                                                              \
    {                                                                                              \
        return x < y ? x : y;                                                                      \
    }                                                                                              \
    static inline T max_##t(T x, T y)                                                              \
    {                                                                                              \
        return x > y ? x : y;                                                                      \
    }                                                                                              \
    static inline T bitnot_##t(T x)                                                                \
    {                                                                                              \
        return (T)~x;                                                                              \
    }                                                                                              \
    static inline T bitand_##t(T x, T y)                                                           \
    {                                                                                              \
        return x & y;                                                                              \
    }                                                                                              \
    static inline T bitor_##t(T x, T y)                                                            \
    {                                                                                              \
        return x | y;                                                                              \
    }                                                                                              \
    static inline T bitxor_##t(T x, T y)                                                           \
    {                                                                                              \
        return x ^ y;                                                                              \
    }                                                                                              \
    static inline T shl_##t(T x, T y, int bits)                                                    \
    {                                                                                              \
        U top = (U)bits - 1, by = (U)y & top;                                                      \
        return (U)y > top ? 0 : (T)((U)x << by);                                                   \
    }                                                                                              \
    static inline T shr_##t(T x, T y, int bits)                                                    \
    {                                                                                              \
        U top = (U)bits - 1, by = (U)y & top;                                                      \
        T sign = (T)-1 < (T)1 ? (T)(x >> top) : 0;                                                 \
        return (U)y > top ? sign : (T)(x >> by);                                                   \
    }                                                                                              \
    static inline T power_##t(T x, U y)                                                            \
    {                                                                                              \
        U result = 1, factor = (U)x;                                                               \
        for (; y; y >>= 1) {                                                                       \
            result = y & 1 ? result * factor : result;                                             \
            factor *= factor;                                                                      \
        }                                                                                          \
        return (T)result;                                                                          \
    }

DEFINE_WHOLE(i32, int32_t, uint32_t)
DEFINE_WHOLE(u32, uint32_t, uint32_t)
DEFINE_WHOLE(i64, int64_t, uint64_t)
DEFINE_WHOLE(u64, uint64_t, uint64_t)
#undef DEFINE_WHOLE

/* Divisors 0 and -1 are handled separately: division by 0 is undefined, and division by -1 may
 * overflow. */
#define DEFINE_SIGNED(t, T, U)                                                                     \
    static inline T abs_##t(T x)                                                                   \
    {                                                                                              \
        return x < 0 ? (T)(0 - (U)x) : x;                                                          \
    }                                                                                              \
    static inline T sign_##t(T x)                                                                  \
    {                                                                                              \
        return (T)((x > 0) - (x < 0));                                                             \
    }                                                                                              \
    static inline T mod_##t(T x, T y)                                                              \
    {                                                                                              \
        return y == 0 ? 0 : sub_##t(x, mul_##t(div_##t(x, y), y));                                 \
    }                                                                                              \
    static inline T pow_##t(T x, T y)                                                              \
    {                                                                                              \
        T inverse = x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;                                   \
        return y < 0 ? inverse : power_##t(x, (U)y);                                               \
    }

#define DEFINE_UNSIGNED(t, T)                                                                      \
    static inline T abs_##t(T x)                                                                   \
    {                                                                                              \
        return x;                                                                                  \
    }                                                                                              \
    static inline T sign_##t(T x)                                                                  \
    {                                                                                              \
        return (T)(x != 0);                                                                        \
    }                                                                                              \
    static inline T mod_##t(T x, T y)                                                              \
    {                                                                                              \
        return y == 0 ? 0 : x % y;                                                                 \
    }                                                                                              \
    static inline T pow_##t(T x, T y)                                                              \
    {                                                                                              \
        return power_##t(x, y);                                                                    \
    }                                                                                              \
    static inline T div_##t(T x, T y)                                                              \
    {                                                                                              \
        return y == 0 ? 0 : x / y;                                                                 \
    }

/* Rounds down. Computed in double: a quotient of two 32-bit integers that is not an integer is
 * further from the nearest one than double's rounding error, and double division vectorizes. */
static inline int32_t div_i32(int32_t x, int32_t y)
{
    int special = (y == 0) | (y == -1);
    double q = (double)x / (double)(special ? 1 : y);
    int32_t towards_zero = (int32_t)q;
    int32_t floored = towards_zero - ((double)towards_zero > q);
    return y == 0 ? 0 : y == -1 ? (int32_t)(0 - (uint32_t)x) : floored;
}

static inline int64_t div_i64(int64_t x, int64_t y)
{
    int64_t divisor = ((y == 0) | (y == -1)) ? 1 : y;
    int64_t q = x / divisor, r = x % divisor;
    q -= (r != 0) & ((r < 0) != (divisor < 0));
    return y == 0 ? 0 : y == -1 ? (int64_t)(0 - (uint64_t)x) : q;
}

DEFINE_SIGNED(i32, int32_t, uint32_t)
DEFINE_SIGNED(i64, int64_t, uint64_t)
DEFINE_UNSIGNED(u32, uint32_t)
DEFINE_UNSIGNED(u64, uint64_t)
#undef DEFINE_SIGNED
#undef DEFINE_UNSIGNED

#endif
