/* cli/bench.h -- between bench.c, which reads what is asked, and bench_report.c, which prints. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/common.h"

typedef struct bench_values {
    const char *model, *prompt, *cache_prompt, *adapter, *backend;
    cli_place place;
    int64_t max_tokens, runs, warm_up, context;
    bool no_cache, no_restore, no_bundle, no_probes, json;
} bench_values;

/* The model at `path` and what was measured: a table, or one JSON object. */
void bench_print(const bench_values *values, const char *path, const weft_engine_info *info,
                 const weft_bench_report *report);

#endif
