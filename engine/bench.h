/* engine/bench.h -- interface between the files that measure: generation (bench.c), caches and
 * saved states (bench_caches.c), training (bench_train.c), and the hardware (ceilings.c). */
#ifndef WEFT_ENGINE_BENCH_H
#define WEFT_ENGINE_BENCH_H

#include "weft/bench.h"

/* The median of n numbers, which it sorts; 0 if n is 0. */
double weft__bench_median(double *values, int64_t n);

/* Repetitions of short measurements, of which the median is reported. */
int64_t weft__bench_rounds(const weft_bench_options *options);

/* Measures the report's prompt_cache, kv_restore and state_bundle, except those that the options
 * exclude; each reports its own failure. */
weft_status weft__bench_caches(weft_engine *engine, const weft_bench_options *options,
                               weft_bench_report *report);

/* Bytes per second of z = x + y over arrays larger than any cache, the best of a few runs; 0 if it
 * cannot be measured. */
double weft__bench_bandwidth(weft_device *device);

/* weft_bench_ceilings for the CPU with `threads` threads (ceilings_cpu.c). */
weft_status weft__ceilings_of_cpu(int threads, int rounds, weft_ceiling out[WEFT_CEILING_COUNT]);

#endif
