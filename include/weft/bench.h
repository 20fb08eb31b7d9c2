/* weft/bench.h -- measuring the speed of generation and training, and the hardware's limits.
 *
 *     weft_bench_report report;
 *     status = weft_bench(engine, NULL, &report);
 *     printf("%.1f tokens/s\n", report.decode_per_second);
 *     weft_bench_report_free(&report);
 */
#ifndef WEFT_BENCH_H
#define WEFT_BENCH_H

#include "weft/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_BENCH_PROMPT "Write one precise sentence about local inference."

typedef struct weft_bench_options {
    const char *prompt; /* NULL: WEFT_BENCH_PROMPT */
    /* n_ids tokens to use instead of the prompt, so that the model needs no tokenizer. Generation
     * then continues after an end token. The cache sections still use the prompt. NULL: none. */
    const int32_t *ids;
    size_t n_ids;
    int64_t max_tokens; /* 0: 32 */
    int64_t runs;       /* 0: 1 */
    int64_t warm_up;    /* runs before that are not counted; the first one is `cold` */
    bool no_bandwidth;  /* do not measure the machine's */
    bool no_probes;     /* no further runs with probes */
    /* Sections of the report on caches and saved states to leave out (native backend only), and
     * their prompt; NULL: the prompt. */
    bool no_cache, no_restore, no_bundle;
    const char *cache_prompt;
    const weft_cancel *cancel; /* borrowed; ends it with WEFT_CANCELLED. NULL: none */
} weft_bench_options;

typedef struct weft_bench_sample {
    char *text;
    weft_engine_metrics metrics;
    double seconds; /* around the whole call */
} weft_bench_sample;

/* The prompt cache. Seconds are medians of `runs` measurements, at least 3. */
typedef struct weft_bench_cache {
    bool attempted;
    int64_t hits, misses, hit_tokens, miss_tokens; /* of the cache */
    int64_t bytes;                                 /* of the prompt's keys and values */
    double warm_seconds;                           /* to read the prompt into the cache */
    double restore_seconds;                        /* to take its keys and values out */
    double miss_seconds, hit_seconds;              /* to the first token, without and with it */
    bool same;       /* same tokens with and without; another order of sums may change them */
    char error[200]; /* why nothing was measured, or "" */
} weft_bench_cache;

/* Saving to a file and loading it; seconds are medians, as above. */
typedef struct weft_bench_file {
    bool attempted;
    double save_seconds, load_seconds;
    int64_t bytes, tokens; /* of the file; tokens in it */
    bool same;             /* same tokens as without the file */
    char error[200];
} weft_bench_file;

typedef struct weft_bench_report {
    weft_bench_sample *samples;
    int64_t runs;
    bool has_cold;
    weft_engine_metrics cold; /* of the first run with warm_up, which compiles and fills caches */
    /* Of all runs together. Tokens a second: of the prompt until the first token, and after it. */
    int64_t prompt_tokens, generated_tokens;
    double prefill_seconds, decode_seconds, total_seconds;
    double prefill_per_second, decode_per_second;
    int64_t peak_memory, active_memory; /* the most of those of weft_engine_metrics */
    /* Bytes of weights that decoding reads per second, and the device's memory bandwidth (measured
     * just before by adding two arrays); 0: unknown. */
    double weights_per_second, machine_per_second;
    double utilization; /* their ratio; above 1 if the weights stay in the processor's caches */
    /* Whether every run gave text, the share of runs that did, and the share of max_tokens. */
    bool has_text, has_tokens;
    double text_score, token_score;
    /* The cost of probes of tokens, entropy, caches and memory (weft/probe.h). Runs with and
     * without probes alternate. probe_events and probe_kinds (by kind) count the events of one run.
     * probe_seconds is the median with probes, probe_overhead its relative increase over the median
     * without. probe_noise is the relative range without probes; a smaller overhead is not
     * significant. probe_error: why nothing was measured, or "". */
    bool probed;
    int64_t probe_events, probe_kinds[8];
    double probe_seconds, probe_overhead, probe_noise;
    char probe_error[200];
    weft_bench_cache prompt_cache;
    weft_bench_file kv_restore;   /* the prompt's keys and values, restored exactly */
    weft_bench_file state_bundle; /* an unfinished generation, restored exactly */
} weft_bench_report;

/* Generates greedily, `runs` times, and fills *report, which is freed with weft_bench_report_free.
 * Failures are those of weft_engine_generate; WEFT_CANCELLED by options->cancel. NULL options: all
 * zero. */
WEFT_NODISCARD WEFT_API weft_status weft_bench(weft_engine *engine,
                                               const weft_bench_options *options,
                                               weft_bench_report *report) WEFT_NONNULL(3);
WEFT_API void weft_bench_report_free(weft_bench_report *report); /* NULL is accepted */

/* ---- Training ------------------------------------------------------------------------------- */

typedef struct weft_bench_train_options {
    int64_t steps;   /* 0: 3 */
    int64_t warm_up; /* steps before the measured ones; 0: 1; negative: none */
    int64_t rows;    /* sequences per step; 0: 1 */
    int64_t length;  /* tokens per sequence; 0: 512 */
    int64_t rank;    /* of LoRA on all linears; 0: 16; ignored if the model has adapters */
    bool checkpoint; /* as in weft_trainer_options */
    /* If not NULL, one extra step runs at the end, which is not measured: called with true before
     * it and with false after it. */
    void (*extra)(void *context, bool begins);
    void *context;
    const weft_cancel *cancel; /* borrowed; stops with WEFT_CANCELLED. NULL: none */
} weft_bench_train_options;

typedef struct weft_bench_train_report {
    int64_t steps, tokens; /* tokens: per step */
    double seconds;        /* per step, median */
    double per_second;     /* tokens */
    double cold_seconds;   /* of the first step with warm_up, which compiles; 0: none */
    double loss;           /* of the last step; NaN if not finite */
    int64_t peak_memory;   /* bytes of arrays, over all steps */
} weft_bench_train_report;

/* Measures training steps of a LoRA adapter on random tokens, with AdamW and gradient clipping.
 * Injects the adapter into the model unless it has one. Fails as weft_nn_lora_inject and
 * weft_trainer_step do. NULL options: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_bench_train(weft_model *model,
                                                     const weft_bench_train_options *options,
                                                     weft_bench_train_report *report)
    WEFT_NONNULL(1, 3);

/* ---- Ceilings ------------------------------------------------------------------------------- */

/* Hardware limits. */
typedef enum weft_ceiling_kind {
    WEFT_CEILING_FLOAT32,  /* CPU: fused multiply-add on the widest vectors */
    WEFT_CEILING_BF16,     /* CPU: AVX512_BF16, vdpbf16ps */
    WEFT_CEILING_INT8,     /* CPU: vpdpbusd (AVX512_VNNI), or vpmaddubsw (AVX2) */
    WEFT_CEILING_AMX,      /* CPU: products of bfloat16 tiles, tdpbf16ps */
    WEFT_CEILING_AMX_INT8, /* CPU: products of 8-bit tiles, tdpbssd */
    WEFT_CEILING_READ,     /* memory bandwidth, for data larger than the caches */
    WEFT_CEILING_COUNT
} weft_ceiling_kind;

typedef struct weft_ceiling {
    const char *name, *unit; /* unit: "GFLOP/s", "GOP/s" or "GB/s" */
    bool present, measured;  /* not measured: the system refuses the tile registers */
    double one, all; /* with one thread and with all; equal for devices other than the CPU */
} weft_ceiling;

/* Measures the ceilings of a device in `rounds` (above 0) interleaved rounds. CPU: medians of
 * instruction rates and of reading 1 GiB, about 20 ms each, with one and with `threads` (above 0)
 * threads, as a rule weft_threads(); other devices ignore `threads`. Their rates are the best that
 * Weft reaches with square float32 and bfloat16 matrix products, of growing size up to 50 ms, and
 * when it adds two large arrays. A multiplication and an addition count as two operations.
 * WEFT_INVALID, WEFT_MEMORY. */
WEFT_NODISCARD WEFT_API weft_status weft_bench_ceilings(weft_device *device, int threads,
                                                        int rounds,
                                                        weft_ceiling out[WEFT_CEILING_COUNT])
    WEFT_NONNULL(1, 4);

#ifdef __cplusplus
}
#endif
#endif
