/* backends/cpu/sizes.h -- arithmetic of sizes: the smaller and larger of two, and rounding up. */
#ifndef BACKENDS_CPU_SIZES_H
#define BACKENDS_CPU_SIZES_H

#include <stdint.h>

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t ceil_div(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static inline int64_t round_up(int64_t n, int64_t to)
{
    return ceil_div(n, to) * to;
}

/* Whole cache lines of so many floats, in floats. */
static inline int64_t vectors(int64_t floats)
{
    return round_up(floats, 16);
}

#endif
