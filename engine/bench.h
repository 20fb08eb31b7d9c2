/* engine/bench.h -- interface between bench.c, which measures generation, and bench_caches.c, which
 * measures caches and saved states. */
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

#endif
