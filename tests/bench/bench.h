/* tests/bench/bench.h -- shared by the benchmarks: time, medians of rounds, and exiting with the
 * library's message. */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weft/status.h"

static inline double seconds_by(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double seconds(void)
{
    return seconds_by(CLOCK_MONOTONIC);
}

static inline void check(weft_status status)
{
    if (status != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_error_message());
        exit(1);
    }
}

static inline int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of n > 0 values, whose order is not changed. */
static inline double median(const double *values, int n)
{
    double *sorted = malloc((size_t)n * sizeof *sorted);
    if (sorted == NULL)
        exit(1);
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    const double middle = sorted[n / 2];
    free(sorted);
    return middle;
}

#endif
