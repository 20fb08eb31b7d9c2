/* backends/cpu/vocabulary_bits.h -- access to the bits of floats. */
#ifndef BACKENDS_CPU_VOCABULARY_BITS_H
#define BACKENDS_CPU_VOCABULARY_BITS_H

#include <stdint.h>
#include <string.h>

/* Forces inlining: if the compiler decided to call the function because the file is long, the loop
 * around it would stay scalar. */
#define CPU_INLINE static inline __attribute__((always_inline))

static inline uint32_t float_bits(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

static inline float bits_float(uint32_t word)
{
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

static inline uint64_t double_bits(double x)
{
    uint64_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

static inline double bits_double(uint64_t word)
{
    double x;
    memcpy(&x, &word, sizeof x);
    return x;
}

/* 2^k for -126 <= k <= 127; unspecified for other k. */
static inline float power_of_two(int32_t k)
{
    return bits_float((uint32_t)(k + 127) << 23);
}

#endif
