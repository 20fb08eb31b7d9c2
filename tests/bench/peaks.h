/* tests/bench/peaks.h -- what the processor can do at most: rates of its arithmetic instructions
 * and of reading memory, to quote shares of. */
#ifndef TESTS_BENCH_PEAKS_H
#define TESTS_BENCH_PEAKS_H

#include <stdbool.h>

typedef enum peak_kind {
    PEAK_FLOAT32, /* fused multiply-add, the widest vectors that there are */
    PEAK_BF16,    /* AVX512_BF16: vdpbf16ps */
    PEAK_INT8,    /* AVX512_VNNI: vpdpbusd */
    PEAK_AMX,     /* never measured */
    PEAK_READ,    /* memory, far beyond the caches */
    PEAK_COUNT
} peak_kind;

typedef struct peak {
    const char *name, *unit;
    bool present, measured;
    double one, all; /* medians: with one thread, and with all together */
} peak;

/* Measures each in turn, `rounds` times, about 20 ms for each. Fails the program for want of
 * memory. */
void measure_peaks(int threads, int rounds, peak out[PEAK_COUNT]);

#endif
