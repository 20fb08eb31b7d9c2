/* core/math.h -- the smaller and the larger of two numbers. */
#ifndef WEFT_CORE_MATH_H
#define WEFT_CORE_MATH_H

#include <stdint.h>

static inline int64_t weft__smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t weft__larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
