/* cli/bench.c -- weft bench: measures how fast a model generates on this machine. */
#include <stdlib.h>

#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/profile.h"
#include "cli/shared.h"

#define AT(field) .offset = offsetof(bench_values, field)

static const cli_argument arguments[] = {{"MODEL", offsetof(bench_values, model), true}};

static const cli_option options[] = {
    CLI_PROMPT_OPTION(bench_values, WEFT_BENCH_PROMPT, "the text to continue"),
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
     .fallback = "1",
     .low = 0,
     .high = 1000000,
     AT(warm_up),
     .help = "runs before that are not counted, since they compile and read what later runs find; "
             "the first is printed as cold"},
    {.name = "prompt-tokens",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "0",
     .low = 0,
     .high = 1 << 20,
     AT(prompt_tokens),
     .help = "continue N arbitrary tokens instead of the prompt, and ignore end tokens; 0: use the "
             "prompt"},
    {.name = "train",
     .kind = CLI_FLAG,
     AT(train),
     .help = "measure --runs training steps instead, after --warm-up steps: LoRA on all linears, "
             "random tokens"},
    {.name = "batch-size",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "1",
     .low = 1,
     .high = 1 << 20,
     AT(batch_size),
     .help = "with --train: sequences per step"},
    {.name = "length",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "512",
     .low = 1,
     .high = 1 << 20,
     AT(length),
     .help = "with --train: tokens per sequence"},
    {.name = "rank",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "16",
     .low = 1,
     .high = 1 << 20,
     AT(rank),
     .help = "with --train: the adapter's rank"},
    {.name = "checkpoint",
     .kind = CLI_FLAG,
     AT(checkpoint),
     .help = "with --train: gradient checkpointing"},
    {.name = "context",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "0",
     .low = 0,
     .high = CLI_ANY,
     AT(context),
     .help = "the most tokens of prompt and text; 0: the model's"},
    {.name = "cache-prompt",
     .kind = CLI_TEXT,
     .value = "TEXT",
     AT(cache_prompt),
     .help = "the text for what is measured of caches; default: that of --prompt"},
    {.name = "no-cache", .kind = CLI_FLAG, AT(no_cache), .help = "do not measure the prompt cache"},
    {.name = "no-restore",
     .kind = CLI_FLAG,
     AT(no_restore),
     .help = "do not measure saving and loading the KV cache"},
    {.name = "no-bundle",
     .kind = CLI_FLAG,
     AT(no_bundle),
     .help = "do not measure saving and loading an unfinished generation"},
    {.name = "no-probes",
     .kind = CLI_FLAG,
     AT(no_probes),
     .help = "do not measure the cost of probes"},
    CLI_ADAPTER_OPTION(bench_values),
    CLI_BACKEND_OPTION(bench_values),
    CLI_JSON_OPTION(bench_values, "print one JSON object; durations in it are nanoseconds"),
    CLI_PLACE_OPTIONS(bench_values),
    CLI_ACTIVATIONS_OPTION(bench_values),
};

/* ---- running -------------------------------------------------------------------------------- */

/* A prompt of n arbitrary tokens; NULL when out of memory. */
static int32_t *arbitrary_tokens(int64_t n, int64_t vocabulary)
{
    int32_t *ids = calloc((size_t)n, sizeof *ids);
    for (int64_t i = 0; i < n && ids != NULL; i++)
        ids[i] = (int32_t)(i * 7919 % vocabulary);
    return ids;
}

static weft_status measure(const bench_values *v, const char *path, weft_engine *engine,
                           weft_bench_options *o)
{
    weft_bench_report report;
    weft_status status = cli_catch_interrupt(&o->cancel);
    if (status == WEFT_OK)
        status = weft_bench(engine, o, &report);
    if (status != WEFT_OK)
        return status;
    const weft_engine_info info = weft_engine_info_of(engine);
    status = bench_profile(v, o, engine);
    if (status == WEFT_OK) {
        bench_print(v, path, &info, &report);
        if (!v->json)
            cli_profile_print();
    }
    weft_bench_report_free(&report);
    return status;
}

static weft_status bench(const bench_values *v, const char *path, weft_engine *engine)
{
    weft_bench_options o = {.prompt = v->prompt,
                            .max_tokens = v->max_tokens,
                            .runs = v->runs,
                            .warm_up = v->warm_up,
                            .cache_prompt = v->cache_prompt,
                            .no_cache = v->no_cache,
                            .no_restore = v->no_restore,
                            .no_bundle = v->no_bundle,
                            .no_probes = v->no_probes};
    const weft_engine_info info = weft_engine_info_of(engine);
    int32_t *ids = NULL;
    if (v->prompt_tokens > 0) {
        ids = arbitrary_tokens(v->prompt_tokens, info.vocab_size > 0 ? info.vocab_size : 1);
        if (ids == NULL)
            return weft_fail(WEFT_MEMORY, "bench: out of memory for the prompt");
        o.ids = ids;
        o.n_ids = (size_t)v->prompt_tokens;
    }
    const weft_status status = measure(v, path, engine, &o);
    free(ids);
    return status;
}

static int run(void *context)
{
    const bench_values *v = context;
    char path[4096];
    weft_engine *engine = NULL;
    if (cli_place_complaint(&v->place) != NULL)
        return cli_usage("bench", "%s", cli_place_complaint(&v->place));
    if (v->train && cli_is_other_backend(v->backend))
        return cli_usage("bench", "--train needs the native backend");
    weft_status status = cli_find_model(&v->place, v->model, path, sizeof path);
    if (status == WEFT_OK && v->train)
        status = bench_train(v, path);
    else if (status == WEFT_OK)
        status = cli_load_engine(path, &v->place, v->adapter, v->backend, v->context, &engine);
    if (status == WEFT_OK && engine != NULL)
        status = bench(v, path, engine);
    const int code = cli_status(status);
    weft_engine_free(engine);
    return status == WEFT_CANCELLED ? CLI_INTERRUPTED : code;
}

const cli_command cli_bench = {
    .name = "bench",
    .summary = "measure how fast a model generates on this machine",
    .description =
        "Generates greedily from a prompt and prints tokens per second, memory, and the share "
        "of the memory bandwidth that reading the weights takes, measured in the same run.\n\n"
        "Then it measures the prompt cache, saving and loading of the KV cache and of an "
        "unfinished generation (in TMPDIR, removed afterwards), and the cost of probes, and "
        "checks that the tokens stay the same. Times are medians of --runs measurements, at "
        "least 3.",
    .example =
        "weft bench\n"
        "weft bench MODEL --runs 5 --warm-up 1 --json\n"
        "weft bench MODEL --quantize 4 -n 128 --no-cache --no-restore --no-bundle --no-probes",
    CLI_TABLE(bench_values, arguments, options),
    .run = run,
};
