/* core/clock.h -- a monotonic clock. */
#ifndef WEFT_CORE_CLOCK_H
#define WEFT_CORE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t weft__nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline double weft__seconds(void)
{
    return 1e-9 * (double)weft__nanoseconds();
}

#endif
