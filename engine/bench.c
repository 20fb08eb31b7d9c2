/* engine/bench.c -- benchmarks generation, and compares it with the device's memory bandwidth. */
#include "engine/bench.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/failure.h"
#include "core/io/text.h"
#include "weft/memory.h"

enum { TOKENS = 32, LEAST_ROUNDS = 3 };

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double weft__bench_median(double *values, int64_t n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return n > 0 ? (values[n / 2] + values[(n - 1) / 2]) / 2 : 0;
}

int64_t weft__bench_rounds(const weft_bench_options *options)
{
    return options->runs > LEAST_ROUNDS ? options->runs : LEAST_ROUNDS;
}

/* ---- runs ----------------------------------------------------------------------------------- */

static bool collect(void *context, const weft_generated *token)
{
    weft__text *text = context;
    if (text != NULL)
        weft__text_append(text, token->text, token->length);
    return true;
}

/* Generates. Cancellation is a failure here, since an incomplete run is not a measurement. */
static weft_status generate(weft_engine *engine, const weft_engine_request *request,
                            weft_generate_fn *callback, void *context)
{
    const weft_status status = weft_engine_generate(engine, request, callback, context);
    return status == WEFT_OK && weft_engine_metrics_of(engine).reason == WEFT_FINISH_CANCELLED
               ? weft_fail(WEFT_CANCELLED, "bench: cancelled")
               : status;
}

static weft_status run_once(weft_engine *engine, const weft_engine_request *request,
                            weft_bench_sample *sample)
{
    weft__text text = {0};
    weft__text_append(&text, "", 0);
    const double start = weft__seconds();
    weft_status status = generate(engine, request, collect, &text);
    sample->seconds = weft__seconds() - start;
    sample->metrics = weft_engine_metrics_of(engine);
    sample->text = text.at != NULL ? text.at : weft_strdup("");
    if (status == WEFT_OK && (text.failed || sample->text == NULL))
        status = weft__out_of_memory("bench", "a text");
    return status;
}

static void sum_up(weft_bench_report *r, int64_t most)
{
    int64_t texts = 0, later = 0;
    for (int64_t i = 0; i < r->runs; i++) {
        const weft_engine_metrics *m = &r->samples[i].metrics;
        r->prompt_tokens += m->prompt_tokens;
        r->generated_tokens += m->generated_tokens;
        later += m->generated_tokens > 0 ? m->generated_tokens - 1 : 0;
        r->prefill_seconds += m->prefill_seconds;
        r->decode_seconds += m->decode_seconds;
        r->total_seconds += m->total_seconds;
        if (m->peak_memory > r->peak_memory)
            r->peak_memory = m->peak_memory;
        if (m->active_memory > r->active_memory)
            r->active_memory = m->active_memory;
        texts += *r->samples[i].text != '\0';
    }
    if (r->prefill_seconds > 0)
        r->prefill_per_second = (double)r->prompt_tokens / r->prefill_seconds;
    if (r->decode_seconds > 0)
        r->decode_per_second = (double)later / r->decode_seconds;
    r->has_text = texts == r->runs;
    r->text_score = (double)texts / (double)r->runs;
    r->has_tokens = r->generated_tokens > 0;
    r->token_score = (double)r->generated_tokens / (double)(most * r->runs);
}

/* ---- probes --------------------------------------------------------------------------------- */

static void count_event(void *context, const weft_probe_event *event)
{
    weft_bench_report *r = context;
    r->probe_events++;
    for (int i = 0; i < 8; i++)
        r->probe_kinds[i] += event->kind == (weft_probe_kind)(1 << i);
}

/* Measures the seconds of a run. */
static weft_status time_run(weft_engine *engine, const weft_engine_request *request, double *took)
{
    const weft_status status = generate(engine, request, NULL, NULL);
    *took = weft_engine_metrics_of(engine).total_seconds;
    return status;
}

/* Alternates runs with and without the probe, so that other load on the machine affects both. */
static weft_status run_in_turns(weft_engine *engine, const weft_engine_request *request,
                                int64_t rounds, double *without, double *with, weft_bench_report *r)
{
    const weft_probe probe = {.kinds = WEFT_PROBE_TOKEN | WEFT_PROBE_ENTROPY | WEFT_PROBE_CACHE |
                                       WEFT_PROBE_MEMORY,
                              .event = count_event,
                              .context = r};
    weft_generate_options options = *request->options;
    weft_engine_request probed = *request;
    weft_status status = WEFT_OK;
    options.no_compile = true; /* compile time would dominate a short run, but not the other */
    probed.options = &options;
    for (int64_t i = 0; i < rounds && status == WEFT_OK; i++) {
        options.probe = NULL;
        status = time_run(engine, &probed, &without[i]);
        options.probe = &probe;
        r->probe_events = 0;
        memset(r->probe_kinds, 0, sizeof r->probe_kinds);
        if (status == WEFT_OK)
            status = time_run(engine, &probed, &with[i]);
    }
    return status;
}

/* Measures the cost of probes. A backend without probes does not fail the benchmark. */
static weft_status run_probed(weft_engine *engine, const weft_engine_request *request,
                              int64_t rounds, weft_bench_report *r)
{
    double *times = weft_calloc(2 * (size_t)rounds, sizeof *times), *with = times + rounds;
    if (times == NULL)
        return weft_fail(WEFT_MEMORY, "bench: out of memory for %lld runs", (long long)rounds);
    r->probed = true;
    const weft_status status = run_in_turns(engine, request, rounds, times, with, r);
    if (status == WEFT_OK) {
        const double without = weft__bench_median(times, rounds);
        r->probe_seconds = weft__bench_median(with, rounds);
        r->probe_overhead = without > 0 ? r->probe_seconds / without - 1 : 0;
        r->probe_noise = without > 0 ? (times[rounds - 1] - times[0]) / without : 0;
    } else {
        strncpy(r->probe_error, weft_error_message(), sizeof r->probe_error - 1);
    }
    weft_free(times);
    return status == WEFT_UNSUPPORTED ? WEFT_OK : status;
}

static weft_status run_all(weft_engine *engine, const weft_bench_options *o,
                           weft_bench_report *report)
{
    const weft_generate_options greedy = {
        .max_tokens = o->max_tokens, .cancel = o->cancel, .ignore_eos = o->ids != NULL};
    const weft_engine_request request = {.prompt = o->ids != NULL ? NULL : o->prompt,
                                         .ids = o->ids,
                                         .n_ids = o->n_ids,
                                         .options = &greedy};
    const weft_engine_info info = weft_engine_info_of(engine);
    weft_status status = WEFT_OK;
    report->samples = weft_calloc((size_t)o->runs, sizeof *report->samples);
    if (report->samples == NULL)
        return weft_fail(WEFT_MEMORY, "bench: out of memory for %lld runs", (long long)o->runs);
    for (int64_t i = 0; i < o->warm_up && status == WEFT_OK; i++) {
        status = generate(engine, &request, NULL, NULL);
        if (i == 0)
            report->cold = weft_engine_metrics_of(engine);
    }
    report->has_cold = o->warm_up > 0;
    if (status == WEFT_OK && !o->no_bandwidth && info.weight_bytes > 0)
        report->machine_per_second = weft__bench_bandwidth(weft_default_device());
    while (report->runs < o->runs && status == WEFT_OK)
        status = run_once(engine, &request, &report->samples[report->runs++]);
    if (status == WEFT_OK)
        status = weft__bench_caches(engine, o, report);
    if (status == WEFT_OK && !o->no_probes)
        status = run_probed(engine, &request, weft__bench_rounds(o), report);
    if (status != WEFT_OK)
        return status;
    sum_up(report, greedy.max_tokens);
    report->weights_per_second = (double)info.weight_bytes * report->decode_per_second;
    if (report->machine_per_second > 0)
        report->utilization = report->weights_per_second / report->machine_per_second;
    return WEFT_OK;
}

weft_status weft_bench(weft_engine *engine, const weft_bench_options *options,
                       weft_bench_report *report)
{
    weft_bench_options o = {0};
    if (options != NULL)
        o = *options;
    *report = (weft_bench_report){0};
    if (o.max_tokens < 0 || o.runs < 0 || o.runs > 1000000 || o.warm_up < 0)
        return weft_fail(WEFT_INVALID, "bench: max_tokens, runs and warm_up: expected at least 0");
    o.max_tokens = o.max_tokens > 0 ? o.max_tokens : TOKENS;
    o.runs = o.runs > 0 ? o.runs : 1;
    o.prompt = o.prompt != NULL ? o.prompt : WEFT_BENCH_PROMPT;
    const weft_status status = run_all(engine, &o, report);
    if (status != WEFT_OK)
        weft_bench_report_free(report);
    return status;
}

void weft_bench_report_free(weft_bench_report *report)
{
    if (report == NULL)
        return;
    for (int64_t i = 0; report->samples != NULL && i < report->runs; i++)
        weft_free(report->samples[i].text);
    weft_free(report->samples);
    *report = (weft_bench_report){0};
}
