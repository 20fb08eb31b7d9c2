/* weft/bench.h -- how fast an engine generates, and what of the machine it uses for that.
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
    int64_t max_tokens; /* 0: 32 */
    int64_t runs;       /* 0: 1 */
    int64_t warm_up;    /* runs before that are not counted */
    bool no_bandwidth;  /* do not measure the machine's */
    bool no_probes;     /* no further run with probes */
} weft_bench_options;

typedef struct weft_bench_sample {
    char *text;
    weft_engine_metrics metrics;
    double seconds; /* around the whole call */
} weft_bench_sample;

typedef struct weft_bench_report {
    weft_bench_sample *samples;
    int64_t runs;
    /* Of all runs together. Tokens a second: of the prompt until the first token, and after it. */
    int64_t prompt_tokens, generated_tokens;
    double prefill_seconds, decode_seconds, total_seconds;
    double prefill_per_second, decode_per_second;
    int64_t peak_memory, active_memory; /* the most */
    /* What decoding reads of the weights in a second, and what the device reads and writes at most
     * (a sum of two arrays into a third, measured right before); 0: not known. */
    double weights_per_second, machine_per_second; /* bytes */
    double utilisation;                            /* their ratio */
    /* Whether every run gave text, and the share of them; the share of max_tokens generated. */
    bool has_text, has_tokens;
    double text_score, token_score;
    /* One more run, watched by probes of tokens, entropy, caches and memory (weft/probe.h): how
     * many events of each, in the order of the kinds, and what it took more than the last run
     * without, as a share of that. probe_error: why there was none, "" if there was. */
    bool probed;
    int64_t probe_events, probe_kinds[8];
    double probe_seconds, probe_overhead;
    char probe_error[200];
} weft_bench_report;

/* Generates greedily, `runs` times. NULL options: all zero. The report is to be freed after
 * success. */
WEFT_API weft_status weft_bench(weft_engine *engine, const weft_bench_options *options,
                                weft_bench_report *report);
WEFT_API void weft_bench_report_free(weft_bench_report *report); /* NULL is accepted */

#ifdef __cplusplus
}
#endif
#endif
