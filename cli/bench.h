/* cli/bench.h -- interface between the files of weft bench: options (bench.c), training and
 * profiles (bench_profile.c), and output (bench_report.c). */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/common.h"

typedef struct bench_values {
    const char *model, *prompt, *cache_prompt, *adapter, *backend;
    cli_place place;
    int64_t max_tokens, runs, warm_up, context, prompt_tokens;
    int64_t batch_size, length, rank;
    bool no_cache, no_restore, no_bundle, no_probes, json, train, checkpoint;
} bench_values;

/* Measures training steps of the model at `path` and prints the result. */
weft_status bench_train(const bench_values *values, const char *path);

/* Profiles two more runs, in the phases prefill and decode. Does nothing without --profile and
 * --trace. */
weft_status bench_profile(const bench_values *values, const weft_bench_options *options,
                          weft_engine *engine);

/* Prints the model at `path` and the measurements, as a table or as one JSON object. */
void bench_print(const bench_values *values, const char *path, const weft_engine_info *info,
                 const weft_bench_report *report);
void bench_print_train(const bench_values *values, const char *path, const weft_model_info *info,
                       const weft_bench_train_report *report);

#endif
