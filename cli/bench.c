/* cli/bench.c -- weft bench: how fast a model generates here. */
#include <string.h>

#include "cli/commands.h"
#include "cli/common.h"

typedef struct bench_values {
    const char *model, *prompt, *adapter, *backend;
    cli_place place;
    int64_t max_tokens, runs, warm_up, context;
    bool no_probes, json;
} bench_values;

#define AT(field) .offset = offsetof(bench_values, field)

static const cli_argument arguments[] = {{"MODEL", offsetof(bench_values, model), true}};

static const cli_option options[] = {
    {.name = "prompt",
     .letter = 'p',
     .kind = CLI_TEXT,
     .value = "TEXT",
     .fallback = WEFT_BENCH_PROMPT,
     AT(prompt),
     .help = "the text to continue"},
    {.name = "max-tokens",
     .letter = 'n',
     .kind = CLI_INT,
     .value = "N",
     .fallback = "32",
     .low = 1,
     .high = 1 << 20,
     AT(max_tokens),
     .help = "the most tokens of a run"},
    {.name = "runs",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "1",
     .low = 1,
     .high = 1000000,
     AT(runs),
     .help = "how often to generate"},
    {.name = "warm-up",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "0",
     .low = 0,
     .high = 1000000,
     AT(warm_up),
     .help = "runs before that are not counted"},
    {.name = "context",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "0",
     .low = 0,
     .high = CLI_ANY,
     AT(context),
     .help = "the most tokens of prompt and text; 0: the model's"},
    CLI_ADAPTER_OPTION(bench_values),
    {.name = "backend",
     .kind = CLI_TEXT,
     .value = "NAME",
     AT(backend),
     .help = "what computes: native, transformers or mlx-lm"},
    {.name = "no-probes",
     .kind = CLI_FLAG,
     AT(no_probes),
     .help = "without the further run that probes watch"},
    {.name = "json", .kind = CLI_FLAG, AT(json), .help = "print one JSON object"},
    CLI_PLACE_OPTIONS(bench_values),
};

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Durations are nanoseconds there. */
static long long ns(double seconds)
{
    return (long long)(seconds * 1e9 + 0.5);
}

static void text(const char *key, const char *value)
{
    printf("\"%s\": ", key);
    cli_json_text(stdout, value, strlen(value));
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
    fputs(", ", stdout);
    text("device", v->place.device);
    printf(", \"max_tokens\": %lld, \"runs\": %lld, \"warm_up\": %lld, \"threads\": %d, "
           "\"include_prompt_cache\": false, \"include_kv_restore\": false, "
           "\"include_state_bundle\": false, \"include_probes\": %s}, ",
           (long long)v->max_tokens, (long long)v->runs, (long long)v->warm_up, weft_threads(),
           v->no_probes ? "false" : "true");
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
    fputs("]}, ", stdout);
}

static void print_check(const char *name, bool pass, double score, const char *detail)
{
    printf("{\"name\": \"%s\", \"pass\": %s, \"score\": %.6g, \"detail\": \"%s\"}", name,
           pass ? "true" : "false", score, detail);
}

static void print_probes(const weft_bench_report *r)
{
    static const char *const kinds[] = {"token",           "logits",           "entropy",
                                        "router_decision", "residual_summary", "cache_pressure",
                                        "memory_pressure", "training"};
    const char *comma = "";
    printf("\"probes\": {\"attempted\": %s, \"event_count\": %lld, \"kind_counts\": {",
           r->probed ? "true" : "false", (long long)r->probe_events);
    for (int i = 0; i < 8; i++) {
        if (r->probe_kinds[i] == 0)
            continue;
        printf("%s\"%s\": %lld", comma, kinds[i], (long long)r->probe_kinds[i]);
        comma = ", ";
    }
    printf("}, \"duration\": %lld, \"overhead_ratio\": %.6g, ", ns(r->probe_seconds),
           r->probe_overhead);
    text("error", r->probe_error);
    fputs("}, ", stdout);
}

static void print_json(const bench_values *v, const char *path, const weft_engine_info *i,
                       const weft_bench_report *r)
{
    static const char *const others[] = {"prompt_cache", "kv_restore", "state_bundle"};
    print_model(v, path, i);
    print_generation(v, r);
    for (int k = 0; k < 3; k++)
        printf("\"%s\": {\"attempted\": false, \"error\": \"unsupported\"}, ", others[k]);
    print_probes(r);
    printf("\"bandwidth\": {\"weight_bytes_per_token\": %lld, \"weight_bytes_per_sec\": %.6g, "
           "\"machine_bytes_per_sec\": %.6g, \"utilisation\": %.6g}, \"quality\": {\"checks\": [",
           (long long)i->weight_bytes, r->weights_per_second, r->machine_per_second,
           r->utilisation);
    print_check("non_empty_output", r->has_text, r->text_score, "share of runs with text");
    fputs(", ", stdout);
    print_check("generated_tokens", r->has_tokens, r->token_score,
                "share of the tokens that were asked for");
    puts("]}}");
}

/* ---- a table -------------------------------------------------------------------------------- */

static void print_text(const char *path, const weft_engine_info *i, const weft_bench_report *r)
{
    printf("model       %s (%s, %s layers, hidden size %s)\n", path, i->architecture,
           cli_count(i->n_layers), cli_count(i->hidden_size));
    if (i->quant_bits > 0)
        printf("quantised   %s bits, groups of %s\n", cli_count(i->quant_bits),
               cli_count(i->quant_group));
    printf("backend     %s, %d threads\n", i->backend, weft_threads());
    printf("runs        %s: %s prompt tokens, %s generated\n", cli_count(r->runs),
           cli_count(r->prompt_tokens), cli_count(r->generated_tokens));
    printf("prefill     %.1f tokens/s (%.3f s)\n", r->prefill_per_second, r->prefill_seconds);
    printf("decode      %.1f tokens/s (%.3f s)\n", r->decode_per_second, r->decode_seconds);
    printf("first token %.3f s\n", r->samples[0].metrics.first_token_seconds);
    printf("memory      peak %s, active %s\n", cli_bytes(r->peak_memory),
           cli_bytes(r->active_memory));
    if (r->machine_per_second > 0)
        printf("bandwidth   %s of weights a token: %s/s of the machine's %s/s, %.0f%%\n",
               cli_bytes(i->weight_bytes), cli_bytes((int64_t)r->weights_per_second),
               cli_bytes((int64_t)r->machine_per_second), 100 * r->utilisation);
    if (r->probed && *r->probe_error == '\0')
        printf("probes      %s events, %+.0f%% time\n", cli_count(r->probe_events),
               100 * r->probe_overhead);
    printf("checks      non_empty_output %s, generated_tokens %s\n", r->has_text ? "ok" : "FAILED",
           r->has_tokens ? "ok" : "FAILED");
}

/* ---- running -------------------------------------------------------------------------------- */

static weft_status bench(const bench_values *v, const char *path, weft_engine *engine)
{
    const weft_bench_options o = {.prompt = v->prompt,
                                  .max_tokens = v->max_tokens,
                                  .runs = v->runs,
                                  .warm_up = v->warm_up,
                                  .no_probes = v->no_probes};
    weft_bench_report report;
    const weft_status status = weft_bench(engine, &o, &report);
    const weft_engine_info info = weft_engine_info_of(engine);
    if (status != WEFT_OK)
        return status;
    if (v->json)
        print_json(v, path, &info, &report);
    else
        print_text(path, &info, &report);
    weft_bench_report_free(&report);
    return WEFT_OK;
}

static int run(void *context)
{
    const bench_values *v = context;
    char path[4096];
    weft_engine *engine = NULL;
    if (cli_place_complaint(&v->place) != NULL)
        return cli_usage("bench", "%s", cli_place_complaint(&v->place));
    weft_status status = cli_model_path(v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = cli_load_engine(path, &v->place, v->adapter, v->backend, v->context, &engine);
    if (status == WEFT_OK)
        status = bench(v, path, engine);
    const int code = cli_status(status);
    weft_engine_free(engine);
    return code;
}

const cli_command cli_bench = {
    .name = "bench",
    .summary = "tell how fast a model generates here",
    .description =
        "Generates greedily from a prompt and tells tokens a second, memory, and how much of the "
        "memory's bandwidth reading the weights takes, measured in the same run.",
    .example = "weft bench\n"
               "weft bench MODEL --runs 5 --warm-up 1 --json\n"
               "weft bench MODEL --quantize 4 -n 128",
    CLI_TABLE(bench_values, arguments, options),
    .run = run,
};
