/* cli/bench_report.c -- output of weft bench: a table, or one JSON object. */
#include <string.h>

#include "cli/bench.h"
#include "cli/profile.h"

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Durations in the JSON output are in nanoseconds. */
static long long ns(double seconds)
{
    return (long long)(seconds * 1e9 + 0.5);
}

static void text(const char *key, const char *value)
{
    printf("\"%s\": ", key);
    cli_json_text(stdout, value, strlen(value));
}

static const char *word(bool value)
{
    return value ? "true" : "false";
}

static void print_metrics(const weft_engine_metrics *m)
{
    printf("{\"prompt_tokens\": %lld, \"generated_tokens\": %lld, \"prefill_duration\": %lld, "
           "\"decode_duration\": %lld, \"total_duration\": %lld, \"first_token_duration\": %lld, ",
           (long long)m->prompt_tokens, (long long)m->generated_tokens, ns(m->prefill_seconds),
           ns(m->decode_seconds), ns(m->total_seconds), ns(m->first_token_seconds));
    printf("\"prefill_tokens_per_sec\": %.6g, \"decode_tokens_per_sec\": %.6g, "
           "\"peak_memory_bytes\": %lld, \"active_memory_bytes\": %lld, \"finish\": \"%s\"}",
           m->prefill_per_second, m->decode_per_second, (long long)m->peak_memory,
           (long long)m->active_memory, weft_finish_name(m->reason));
}

static void print_model(const bench_values *v, const char *path, const weft_engine_info *i)
{
    const char *name = strrchr(path, '/');
    printf("{\"version\": 1, ");
    text("model", name != NULL && name[1] != '\0' ? name + 1 : path);
    fputs(", ", stdout);
    text("model_path", path);
    fputs(", \"model_info\": {", stdout);
    text("architecture", i->architecture);
    printf(", \"vocab_size\": %lld, \"num_layers\": %lld, \"hidden_size\": %lld, "
           "\"quant_bits\": %lld, \"quant_group\": %lld, \"context_length\": %lld}, \"config\": {",
           (long long)i->vocab_size, (long long)i->n_layers, (long long)i->hidden_size,
           (long long)i->quant_bits, (long long)i->quant_group, (long long)i->context_length);
    text("prompt", v->prompt);
    fputs(", ", stdout);
    text("backend", i->backend);
    cli_place_json(stdout, &v->place);
    printf(", \"max_tokens\": %lld, \"runs\": %lld, \"warm_up\": %lld, \"threads\": %d, "
           "\"include_prompt_cache\": %s, \"include_kv_restore\": %s, "
           "\"include_state_bundle\": %s, \"include_probes\": %s, ",
           (long long)v->max_tokens, (long long)v->runs, (long long)v->warm_up, weft_threads(),
           word(!v->no_cache), word(!v->no_restore), word(!v->no_bundle), word(!v->no_probes));
    text("cache_prompt", v->cache_prompt != NULL ? v->cache_prompt : v->prompt);
    fputs("}, ", stdout);
}

static void print_generation(const bench_values *v, const weft_bench_report *r)
{
    printf("\"generation\": {\"runs\": %lld, \"prompt_tokens\": %lld, \"generated_tokens\": %lld, "
           "\"prefill_tokens_per_sec\": %.6g, \"decode_tokens_per_sec\": %.6g, "
           "\"prefill_duration\": %lld, \"decode_duration\": %lld, \"total_duration\": %lld, "
           "\"peak_memory_bytes\": %lld, \"active_memory_bytes\": %lld, \"samples\": [",
           (long long)r->runs, (long long)r->prompt_tokens, (long long)r->generated_tokens,
           r->prefill_per_second, r->decode_per_second, ns(r->prefill_seconds),
           ns(r->decode_seconds), ns(r->total_seconds), (long long)r->peak_memory,
           (long long)r->active_memory);
    for (int64_t i = 0; i < r->runs; i++) {
        fputs(i > 0 ? ", {" : "{", stdout);
        text("prompt", v->prompt);
        fputs(", ", stdout);
        text("text", r->samples[i].text);
        fputs(", \"metrics\": ", stdout);
        print_metrics(&r->samples[i].metrics);
        printf(", \"elapsed\": %lld}", ns(r->samples[i].seconds));
    }
    fputs("]", stdout);
    if (r->has_cold) {
        fputs(", \"cold\": ", stdout);
        print_metrics(&r->cold);
    }
    fputs("}, ", stdout);
}

static void print_check(const char *name, bool pass, double score, const char *detail)
{
    printf("{\"name\": \"%s\", \"pass\": %s, \"score\": %.6g, \"detail\": \"%s\"}", name,
           word(pass), score, detail);
}

/* Times vary from run to run: smaller differences are not significant. */
static bool is_noise(const weft_bench_report *r)
{
    return fabs(r->probe_overhead) <= r->probe_noise;
}

static void print_cache(const weft_bench_cache *c)
{
    const int64_t lookups = c->hits + c->misses;
    printf("\"prompt_cache\": {\"attempted\": %s, \"hits\": %lld, \"misses\": %lld, "
           "\"hit_rate\": %.6g, \"hit_tokens\": %lld, \"miss_tokens\": %lld, ",
           word(c->attempted), (long long)c->hits, (long long)c->misses,
           lookups > 0 ? (double)c->hits / (double)lookups : 0, (long long)c->hit_tokens,
           (long long)c->miss_tokens);
    printf("\"warm_duration\": %lld, \"restore_duration\": %lld, \"metrics\": "
           "{\"miss_first_token_duration\": %lld, \"hit_first_token_duration\": %lld, "
           "\"bytes\": %lld}, \"same_tokens\": %s, ",
           ns(c->warm_seconds), ns(c->restore_seconds), ns(c->miss_seconds), ns(c->hit_seconds),
           (long long)c->bytes, word(c->same));
    text("error", c->error);
    fputs("}, ", stdout);
}

static void print_file(const char *name, double duration, const weft_bench_file *f)
{
    printf("\"%s\": {\"attempted\": %s, \"duration\": %lld, \"save_duration\": %lld, "
           "\"load_duration\": %lld, \"bytes\": %lld, \"tokens\": %lld, \"same_tokens\": %s, ",
           name, word(f->attempted), ns(duration), ns(f->save_seconds), ns(f->load_seconds),
           (long long)f->bytes, (long long)f->tokens, word(f->same));
    text("error", f->error);
    fputs("}, ", stdout);
}

static void print_probes(const weft_bench_report *r)
{
    static const char *const kinds[] = {"token",           "logits",           "entropy",
                                        "router_decision", "residual_summary", "cache_pressure",
                                        "memory_pressure", "training"};
    const char *comma = "";
    printf("\"probes\": {\"attempted\": %s, \"event_count\": %lld, \"kind_counts\": {",
           word(r->probed), (long long)r->probe_events);
    for (int i = 0; i < 8; i++) {
        if (r->probe_kinds[i] == 0)
            continue;
        printf("%s\"%s\": %lld", comma, kinds[i], (long long)r->probe_kinds[i]);
        comma = ", ";
    }
    printf("}, \"duration\": %lld, \"overhead_ratio\": %.6g, \"noise_ratio\": %.6g, "
           "\"within_noise\": %s, ",
           ns(r->probe_seconds), r->probe_overhead, r->probe_noise, word(is_noise(r)));
    text("error", r->probe_error);
    fputs("}, ", stdout);
}

static void print_json(const bench_values *v, const char *path, const weft_engine_info *i,
                       const weft_bench_report *r)
{
    print_model(v, path, i);
    print_generation(v, r);
    print_cache(&r->prompt_cache);
    print_file("kv_restore", r->kv_restore.load_seconds, &r->kv_restore);
    print_file("state_bundle", r->state_bundle.save_seconds + r->state_bundle.load_seconds,
               &r->state_bundle);
    print_probes(r);
    printf("\"bandwidth\": {\"weight_bytes_per_token\": %lld, \"weight_bytes_per_sec\": %.6g, "
           "\"machine_bytes_per_sec\": %.6g, \"utilization\": %.6g}, \"quality\": {\"checks\": [",
           (long long)i->weight_bytes, r->weights_per_second, r->machine_per_second,
           r->utilization);
    if (i->tokenizer) {
        print_check("non_empty_output", r->has_text, r->text_score, "share of runs with text");
        fputs(", ", stdout);
    }
    print_check("generated_tokens", r->has_tokens, r->token_score,
                "share of the tokens that were asked for");
    fputs("]}", stdout);
    cli_profile_json(stdout);
    puts("}");
}

/* ---- a table -------------------------------------------------------------------------------- */

/* Prints the error of a section that could not be measured; false if it was measured. */
static bool print_missing(const char *name, const char *error)
{
    if (*error != '\0')
        printf("%-11s %s\n", name, weft_printable(error));
    return *error != '\0';
}

static const char *milliseconds(double seconds)
{
    static char texts[4][24];
    static int next;
    char *out = texts[next++ % 4];
    snprintf(out, sizeof texts[0], seconds < 10 ? "%.3g ms" : "%.0f ms", 1e3 * seconds);
    return out;
}

static const char *verdict(bool same)
{
    return same ? "the same tokens" : "OTHER TOKENS";
}

static void print_files(const char *name, const weft_bench_file *f)
{
    if (f->attempted && !print_missing(name, f->error))
        printf("%-11s %s tokens, %s: saved in %s, restored in %s; %s\n", name, cli_count(f->tokens),
               cli_bytes(f->bytes), milliseconds(f->save_seconds), milliseconds(f->load_seconds),
               verdict(f->same));
}

static void print_kept(const weft_bench_report *r)
{
    const weft_bench_cache *c = &r->prompt_cache;
    const int64_t n = c->hits > 0 ? c->hits : 1;
    if (c->attempted && !print_missing("cache", c->error))
        printf("cache       first token in %s, %s without: %s of %s tokens skipped, %s; %s\n",
               milliseconds(c->hit_seconds), milliseconds(c->miss_seconds),
               cli_count(c->hit_tokens / n),
               cli_count((c->hit_tokens + c->miss_tokens) / (c->hits + c->misses)),
               cli_bytes(c->bytes), verdict(c->same));
    print_files("restore", &r->kv_restore);
    print_files("bundle", &r->state_bundle);
}

static void print_probe_cost(const weft_bench_report *r)
{
    if (!r->probed || print_missing("probes", r->probe_error))
        return;
    printf("probes      %s events, ", cli_count(r->probe_events));
    if (is_noise(r))
        printf("time within noise (runs differ by %.0f%%)\n", 100 * r->probe_noise);
    else
        printf("%+.0f%% time\n", 100 * r->probe_overhead);
}

static void print_text(const char *path, const weft_engine_info *i, const weft_bench_report *r)
{
    printf("model       %s (%s, %s layers, hidden size %s)\n", weft_printable(path),
           weft_printable(i->architecture), cli_count(i->n_layers), cli_count(i->hidden_size));
    if (i->quant_bits > 0)
        printf("quantized   %s bits, groups of %s\n", cli_count(i->quant_bits),
               cli_count(i->quant_group));
    printf("backend     %s, %d threads\n", weft_printable(i->backend), weft_threads());
    printf("runs        %s: %s prompt tokens, %s generated\n", cli_count(r->runs),
           cli_count(r->prompt_tokens), cli_count(r->generated_tokens));
    printf("prefill     %.1f tokens/s (%.3f s)\n", r->prefill_per_second, r->prefill_seconds);
    printf("decode      %.1f tokens/s (%.3f s)\n", r->decode_per_second, r->decode_seconds);
    printf("first token %.3f s\n", r->samples[0].metrics.first_token_seconds);
    if (r->has_cold)
        printf("cold        prefill %.1f tokens/s, decode %.1f, first token %.3f s: the first run, "
               "not counted\n",
               r->cold.prefill_per_second, r->cold.decode_per_second, r->cold.first_token_seconds);
    printf("memory      peak %s, active %s\n", cli_bytes(r->peak_memory),
           cli_bytes(r->active_memory));
    if (r->machine_per_second > 0)
        printf("bandwidth   %s of weights a token: %s/s of the machine's %s/s, %.0f%%%s\n",
               cli_bytes(i->weight_bytes), cli_bytes((int64_t)r->weights_per_second),
               cli_bytes((int64_t)r->machine_per_second), 100 * r->utilization,
               r->utilization > 1 ? " (weights stay in the processor's caches)" : "");
    print_kept(r);
    print_probe_cost(r);
    fputs("checks      ", stdout);
    if (i->tokenizer) /* otherwise there is no text */
        printf("non_empty_output %s, ", r->has_text ? "ok" : "FAILED");
    printf("generated_tokens %s\n", r->has_tokens ? "ok" : "FAILED");
}

void bench_print(const bench_values *v, const char *path, const weft_engine_info *i,
                 const weft_bench_report *r)
{
    if (v->json)
        print_json(v, path, i, r);
    else
        print_text(path, i, r);
}

/* ---- Training ------------------------------------------------------------------------------- */

static void print_train_json(const bench_values *v, const char *path, const weft_model_info *i,
                             const weft_bench_train_report *r)
{
    fputs("{\"version\": 1, ", stdout);
    text("model_path", path);
    cli_place_json(stdout, &v->place);
    printf(", \"num_layers\": %lld, \"hidden_size\": %lld, \"threads\": %d, \"batch_size\": %lld, "
           "\"length\": %lld, \"rank\": %lld, \"checkpoint\": %s, ",
           (long long)i->n_layers, (long long)i->hidden_size, weft_threads(),
           (long long)v->batch_size, (long long)v->length, (long long)v->rank, word(v->checkpoint));
    printf("\"training\": {\"steps\": %lld, \"tokens\": %lld, \"step_duration\": %lld, "
           "\"tokens_per_sec\": %.6g, \"peak_memory_bytes\": %lld, \"loss\": ",
           (long long)r->steps, (long long)r->tokens, ns(r->seconds), r->per_second,
           (long long)r->peak_memory);
    cli_json_number(stdout, r->loss);
    if (r->cold_seconds > 0)
        printf(", \"cold_step_duration\": %lld", ns(r->cold_seconds));
    fputs("}", stdout);
    cli_profile_json(stdout);
    puts("}");
}

void bench_print_train(const bench_values *v, const char *path, const weft_model_info *i,
                       const weft_bench_train_report *r)
{
    if (v->json) {
        print_train_json(v, path, i, r);
        return;
    }
    printf("model       %s (%s layers, hidden size %s)\n", weft_printable(path),
           cli_count(i->n_layers), cli_count(i->hidden_size));
    printf("device      %s, %d threads\n", weft_printable(cli_device(&v->place)), weft_threads());
    printf("steps       %s: %s x %s tokens, LoRA of rank %s on all linears%s\n",
           cli_count(r->steps), cli_count(v->batch_size), cli_count(v->length), cli_count(v->rank),
           v->checkpoint ? ", gradient checkpointing" : "");
    printf("training    %.1f tokens/s (%.3f s a step, the median)\n", r->per_second, r->seconds);
    if (r->cold_seconds > 0)
        printf("cold        %.1f tokens/s (%.3f s: the first step, not counted)\n",
               (double)r->tokens / r->cold_seconds, r->cold_seconds);
    printf("memory      peak %s\n", cli_bytes(r->peak_memory));
}
