/* engine/bench.h -- between bench.c, which measures generation, and bench_caches.c, which measures
 * what is remembered. */
#ifndef WEFT_ENGINE_BENCH_H
#define WEFT_ENGINE_BENCH_H

#include "weft/bench.h"

/* Of n numbers, which it sorts; 0 for none. */
double weft__bench_median(double *values, int64_t n);

/* How often what is short is measured: medians are told. */
int64_t weft__bench_rounds(const weft_bench_options *options);

/* The report's prompt_cache, kv_restore and state_bundle, but for those that the options leave out;
 * what cannot be done is told there. */
weft_status weft__bench_caches(weft_engine *engine, const weft_bench_options *options,
                               weft_bench_report *report);

#endif
