/* tests/cli/test_cli_engine.c -- the commands for engines and installed models: bench, discover,
 * pull, info, --backend. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/engine.h"
#include "weft/io.h"
#include "weft/timeline.h"

/* The value at a path of keys, separated by "."; NULL if absent. */
static json_object *at(json_object *root, const char *path)
{
    char keys[200];
    strncpy(keys, path, sizeof keys - 1);
    keys[sizeof keys - 1] = '\0';
    for (char *key = strtok(keys, "."); key != NULL && root != NULL; key = strtok(NULL, ".")) {
        if (json_object_is_type(root, json_type_array))
            root = json_object_array_get_idx(root, (size_t)atoi(key));
        else if (!json_object_object_get_ex(root, key, &root))
            return NULL;
    }
    return root;
}

static void bench_reports(void)
{
    static const char *const there[] = {"version",
                                        "model",
                                        "model_path",
                                        "model_info.architecture",
                                        "model_info.quant_bits",
                                        "config.max_tokens",
                                        "generation.prefill_tokens_per_sec",
                                        "generation.peak_memory_bytes",
                                        "generation.samples.1.metrics.decode_duration",
                                        "generation.samples.0.elapsed",
                                        "prompt_cache.warm_duration",
                                        "prompt_cache.restore_duration",
                                        "kv_restore.duration",
                                        "state_bundle.duration",
                                        "probes.within_noise",
                                        "probes.attempted",
                                        "quality.checks.1.detail",
                                        "bandwidth.machine_bytes_per_sec"};
    const char *model = check_source("examples/storyteller");
    output o = weft_command(NULL, "bench %s --runs 2 -n 6 --json", model);
    CHECK_EQ_INT(o.code, 0);
    json_object *root = json_tokener_parse(o.out);
    if (!CHECK(root != NULL))
        return;
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        if (at(root, there[i]) == NULL)
            CHECK_FAIL("there is no %s", there[i]);
    CHECK_EQ_INT(json_object_get_int(at(root, "generation.runs")), 2);
    CHECK_EQ_INT(json_object_get_int(at(root, "generation.generated_tokens")), 12);
    CHECK_STR(json_object_get_string(at(root, "quality.checks.0.name")), "non_empty_output");
    CHECK(json_object_get_boolean(at(root, "quality.checks.0.pass")));
    CHECK(json_object_get_double(at(root, "bandwidth.utilization")) > 0);
    /* the embedding is tied: every weight is read, 4 bytes for each of 3,148,992 */
    CHECK_EQ_INT(json_object_get_int64(at(root, "bandwidth.weight_bytes_per_token")), 12595968);
    CHECK(json_object_get_boolean(at(root, "probes.attempted")));
    CHECK_STR(json_object_get_string(at(root, "probes.error")), "");
    CHECK_EQ_INT(json_object_get_int(at(root, "probes.kind_counts.token")), 6);
    json_object_put(root);
    o = weft_command(NULL, "bench %s -n 4 -p 'The old king'", model);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "decode      ");
    CHECK_CONTAINS(o.out, "checks      non_empty_output ok, generated_tokens ok");
    CHECK_CONTAINS(o.out, "tokens skipped, ");
    CHECK_CONTAINS(o.out, "\nbundle      ");
    CHECK(strstr(o.out, "OTHER TOKENS") == NULL);
    o = weft_command(NULL, "bench %s", check_temporary("nowhere"));
    check_one_line(&o, 1);
    o = weft_command(NULL, "bench --runs 0");
    check_one_line(&o, 2);
}

/* A model without a tokenizer gives tokens, and no text. */
static void bench_needs_no_tokenizer(void)
{
    const char *model = check_source("examples/storyteller");
    const char *bare = check_temporary("bare");
    output o = shell_command(NULL, "mkdir -p %s && cp %s/config.json %s/model.safetensors %s", bare,
                             model, model, bare);
    CHECK_EQ_INT(o.code, 0);
    const char *fast = "--no-cache --no-restore --no-bundle --no-probes";
    o = weft_command(NULL, "bench %s -n 4 --prompt-tokens 8 %s", bare, fast);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "checks      generated_tokens ok\n");
    o = weft_command(NULL, "bench %s -n 4 --prompt-tokens 8 %s --json", bare, fast);
    CHECK_EQ_INT(o.code, 0);
    CHECK(strstr(o.out, "non_empty_output") == NULL);
    CHECK_CONTAINS(o.out, "\"generated_tokens\", \"pass\": true");
}

/* The numbers of a text of four tokens, read three times without the cache and three times with. */
static void bench_measures_the_prompt_cache(void)
{
    const char *model = check_source("examples/storyteller");
    output o = weft_command(NULL, "tokenize %s -p 'The old king' --special --json", model);
    json_object *root = json_tokener_parse(o.out);
    json_object *ids = at(root, "ids");
    const int n = ids != NULL ? (int)json_object_array_length(ids) : 0;
    json_object_put(root);
    o = weft_command(NULL, "bench %s -n 6 --cache-prompt 'The old king' --no-probes --json", model);
    root = json_tokener_parse(o.out);
    if (!CHECK(root != NULL && n > 2))
        return;
    CHECK(!json_object_get_boolean(at(root, "probes.attempted")));
    CHECK(!json_object_get_boolean(at(root, "config.include_probes")));
    CHECK_STR(json_object_get_string(at(root, "config.cache_prompt")), "The old king");
    CHECK_EQ_INT(json_object_get_int(at(root, "prompt_cache.hits")), 3);
    CHECK_EQ_INT(json_object_get_int(at(root, "prompt_cache.misses")), 0);
    CHECK_CLOSE(json_object_get_double(at(root, "prompt_cache.hit_rate")), 1, 0);
    CHECK_EQ_INT(json_object_get_int(at(root, "prompt_cache.hit_tokens")), 3 * (n - 1));
    CHECK_EQ_INT(json_object_get_int(at(root, "prompt_cache.miss_tokens")), 3);
    CHECK(json_object_get_int64(at(root, "prompt_cache.metrics.bytes")) > 1000);
    CHECK_EQ_INT(json_object_get_int(at(root, "kv_restore.tokens")), n - 1);
    CHECK_EQ_INT(json_object_get_int(at(root, "state_bundle.tokens")), n + 3);
    static const char *const sections[] = {"prompt_cache", "kv_restore", "state_bundle"};
    for (int i = 0; i < 3; i++) {
        json_object *of = at(root, sections[i]);
        CHECK(json_object_get_boolean(at(of, "attempted")));
        CHECK(json_object_get_boolean(at(of, "same_tokens")));
        CHECK_STR(json_object_get_string(at(of, "error")), "");
        if (i > 0)
            CHECK(json_object_get_int64(at(of, "bytes")) > 1000 &&
                  json_object_get_int64(at(of, "save_duration")) > 0 &&
                  json_object_get_int64(at(of, "load_duration")) > 0);
    }
    json_object_put(root);
    o = weft_command(NULL, "bench %s -n 2 --no-cache --no-restore --no-bundle --no-probes", model);
    CHECK_EQ_INT(o.code, 0);
    CHECK(strstr(o.out, "cache ") == NULL && strstr(o.out, "bundle ") == NULL);
    /* Without a writable folder, sections that need files report that, and the others are
     * complete. */
    o = shell_command(NULL, "TMPDIR=%s %s bench %s -n 2 --no-probes", check_temporary("nowhere"),
                      check_built("cli/weft"), model);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "nowhere/weft-bench-");
}

/* Ctrl-C ends it, and its files are deleted. */
static void an_interrupted_bench_deletes_its_files(void)
{
    char folder[1000];
    snprintf(folder, sizeof folder, "%s", check_temporary("bench"));
    CHECK_OK(weft_folder_make(folder));
    output o = shell_command(NULL,
                             "TMPDIR=%s %s bench storyteller -n 400 --no-cache "
                             "--cache-prompt 'The old king' --json & p=$!; i=0; until ls -d "
                             "%s/weft-bench-* || [ $i = 600 ]; do sleep 0.1; i=$((i + 1)); done; "
                             "kill -INT $p; wait $p",
                             folder, check_built("cli/weft"), folder);
    CHECK_EQ_INT(o.code, 130);
    CHECK_CONTAINS(o.err, "cancelled");
    CHECK_EQ_INT(rmdir(folder), 0); /* it is empty */
}

/* The sum of a value over the kernels of an op in a phase. */
static double of_kernels(json_object *phase, const char *op, const char *key)
{
    json_object *kernels = at(phase, "devices.0.kernels");
    double sum = 0;
    for (size_t i = 0; kernels != NULL && i < json_object_array_length(kernels); i++) {
        json_object *k = json_object_array_get_idx(kernels, i);
        if (strcmp(json_object_get_string(at(k, "op")), op) == 0)
            sum += json_object_get_double(at(k, key));
    }
    return sum;
}

/* The storyteller: 6 layers, E = 192, F = 512, 3 heads and 1 key/value head of 64, V = 4096. */
enum {
    LAYERS = 6,
    LINEARS = LAYERS * (192 * 192 * 2 + 2 * 192 * 64 + 3 * 192 * 512),
    HEAD = 192 * 4096,
    PROMPT = 7
};

/* Spans of a track are ordered by time, nested or disjoint, and end within the command's `took`
 * seconds. Returns how many have the category. */
static int check_trace(json_object *root, const char *category, double took)
{
    double open[32]; /* ends of the spans around this one */
    int depth = 0, found = 0;
    int64_t last = -1;
    json_object *events = at(root, "traceEvents");
    for (size_t i = 0; events != NULL && i < json_object_array_length(events); i++) {
        json_object *e = json_object_array_get_idx(events, i);
        if (strcmp(json_object_get_string(at(e, "ph")), "X") != 0)
            continue;
        const int64_t track =
            1000 * json_object_get_int64(at(e, "pid")) + json_object_get_int64(at(e, "tid"));
        const double begin = json_object_get_double(at(e, "ts"));
        const double end = begin + json_object_get_double(at(e, "dur"));
        if (track != last)
            depth = 0;
        last = track;
        while (depth > 0 && begin >= open[depth - 1] - 0.0015)
            depth--;
        /* Times are microseconds with three decimals. */
        if (depth > 0 && end > open[depth - 1] + 0.0015)
            CHECK_FAIL("span %zu ends after the one that it begins in", i);
        if (!CHECK(depth < 32) || !CHECK(begin >= 0 && end <= 1e6 * took))
            return found;
        open[depth++] = end;
        found += strcmp(json_object_get_string(at(e, "cat")), category) == 0;
    }
    return found;
}

static void bench_profiles(void)
{
    char trace[1000];
    snprintf(trace, sizeof trace, "%s", check_temporary("bench-trace.json"));
    const int64_t began = weft_timeline_now();
    output o = weft_command(NULL,
                            "bench -n 4 --prompt-tokens %d --no-cache --no-restore --no-bundle "
                            "--no-probes --profile --trace %s --json",
                            PROMPT, trace);
    const double took = 1e-9 * (double)(weft_timeline_now() - began);
    CHECK_EQ_INT(o.code, 0);
    json_object *root = json_tokener_parse(o.out);
    json_object *prefill = at(root, "profile.phases.0"), *decode = at(root, "profile.phases.1");
    if (!CHECK(prefill != NULL && decode != NULL))
        return;
    CHECK_EQ_INT(json_object_get_int(at(root, "generation.prompt_tokens")), PROMPT);
    CHECK_STR(json_object_get_string(at(prefill, "name")), "prefill");
    CHECK_STR(json_object_get_string(at(decode, "name")), "decode");
    CHECK(json_object_get_double(at(root, "profile.phases.0.devices.0.ceilings.0.all")) > 0);
    /* Prefill: each prompt token through all linears, the last one through the head. Decode: three
     * tokens. */
    CHECK_CLOSE(of_kernels(prefill, "linear", "flops"), 2.0 * PROMPT * LINEARS + 2.0 * HEAD, 0);
    CHECK_CLOSE(of_kernels(decode, "linear", "flops"), 3 * 2.0 * (LINEARS + HEAD), 0);
    /* Query i of the prompt sees i + 1 keys. */
    CHECK_CLOSE(of_kernels(prefill, "attention", "flops"),
                2.0 * LAYERS * 3 * (64 + 64) * (PROMPT * (PROMPT + 1) / 2), 0);
    CHECK(of_kernels(decode, "linear", "bytes") > 3 * 4.0 * (LINEARS + HEAD));
    for (int i = 0; i < 2; i++) {
        json_object *phase = i == 0 ? prefill : decode;
        CHECK(of_kernels(phase, "linear", "seconds") > 0);
        CHECK(of_kernels(phase, "linear", "seconds") <= json_object_get_double(at(phase, "wall")));
    }
    json_object *recorded = json_object_from_file(trace);
    CHECK(recorded != NULL);
    CHECK_EQ_INT(check_trace(recorded, "phase", took), 2);
    CHECK(check_trace(recorded, "kernel", took) > 4 * LAYERS * 7);
    CHECK(check_trace(recorded, "evaluation", took) > 4);
    CHECK_EQ_INT(json_object_get_int(at(recorded, "otherData.dropped")), 0);
    json_object_put(recorded);
    json_object_put(root);
}

/* Training steps: text, JSON, usage errors. */
static void bench_trains(void)
{
    output o = weft_command(NULL, "bench --train --runs 2 --length 16 --batch-size 2 --rank 4 "
                                  "--profile --json");
    CHECK_EQ_INT(o.code, 0);
    json_object *root = json_tokener_parse(o.out);
    json_object *step = at(root, "profile.phases.0");
    if (!CHECK(step != NULL))
        return;
    CHECK_EQ_INT(json_object_get_int(at(root, "training.steps")), 2);
    CHECK_EQ_INT(json_object_get_int(at(root, "training.tokens")), 32);
    CHECK(json_object_get_double(at(root, "training.tokens_per_sec")) > 0);
    CHECK_STR(json_object_get_string(at(step, "name")), "step");
    /* Forward, and backward to all inputs but the first, which have no gradient. */
    CHECK(of_kernels(step, "linear", "flops") + of_kernels(step, "linear_sum", "flops") >
          2 * 2.0 * 32 * LINEARS * 0.8);
    json_object_put(root);
    o = weft_command(NULL, "bench --train --runs 1 --length 8 --rank 2");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "LoRA of rank 2 on all linears\n");
    CHECK_CONTAINS(o.out, "tokens/s (");
    o = weft_command(NULL, "bench --train --backend transformers");
    check_one_line(&o, 2);
    o = weft_command(NULL, "bench --train --length 0");
    check_one_line(&o, 2);
    o = weft_command(NULL, "bench -n 1 --no-cache --no-restore --no-bundle --no-probes --trace %s",
                     check_temporary("nowhere/trace.json"));
    CHECK_EQ_INT(o.code, 1);
}

static void discover_lists(void)
{
    output o = weft_command(NULL, "discover %s --json", check_fixture("models"));
    CHECK_EQ_INT(o.code, 0);
    json_object *root = json_tokener_parse(o.out);
    int found = 0;
    for (size_t i = 0; root != NULL && i < json_object_array_length(root); i++) {
        json_object *model = json_object_array_get_idx(root, i);
        found += strcmp(json_object_get_string(at(model, "model_type")), "gemma2") == 0;
        CHECK(json_object_get_int64(at(model, "bytes")) > 1000);
    }
    CHECK_EQ_INT(found, 1);
    json_object_put(root);
    o = weft_command(NULL, "discover %s", check_fixture("models/mlx-qwen3"));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "qwen3     4      2");
    o = weft_command(NULL, "discover %s", check_temporary("nowhere"));
    check_one_line(&o, 1);
    o = weft_command(NULL, "discover");
    check_one_line(&o, 2);
}

static void errors_of_pull_say_what_is_wrong(void)
{
    output o = weft_command(NULL, "pull");
    check_one_line(&o, 2);
    o = shell_command(NULL, "HF_HUB_OFFLINE=1 HF_HUB_CACHE=%s %s pull a/b", check_temporary("hub"),
                      check_built("cli/weft"));
    check_one_line(&o, 1);
    o = shell_command(NULL, "HF_HUB_CACHE=%s %s generate org/name -p x", check_temporary("hub"),
                      check_built("cli/weft"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "org/name: there is no such file or folder, and no such repository");
}

static void info_prints_details(void)
{
    output o = weft_command(NULL, "info %s", check_fixture("models/mlx-qwen3"));
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "quantized   4 bits, groups of 32");
    CHECK_CONTAINS(o.out, "chat        has a template");
    o = weft_command(NULL, "info %s --json", check_fixture("models/llama"));
    CHECK_CONTAINS(o.out, "\"quant_bits\": 0");
    CHECK_CONTAINS(o.out, "\"skipped\": null");
}

static void other_backends_are_named(void)
{
    output o = weft_command(NULL, "generate storyteller --backend nobody -p x");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "backend 'nobody' is unknown (known: native");
    o = weft_command(NULL, "generate storyteller --backend native -p Once -n 3 -t 0");
    CHECK_EQ_INT(o.code, 0);
    if (weft_engine_backend_find("transformers") == NULL)
        return;
    o = shell_command(NULL,
                      "WEFT_PYTHON=/no/python %s chat storyteller --format chatml -p x "
                      "--backend transformers",
                      check_built("cli/weft"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "transformers: cannot run /no/python: No such file");
    o = weft_command(NULL, "generate storyteller --backend transformers -p x --json-value");
    check_one_line(&o, 2);
}

CHECK_MAIN("cli_engine", CHECK_CASE(bench_reports), CHECK_CASE(bench_needs_no_tokenizer),
           CHECK_CASE(bench_measures_the_prompt_cache),
           CHECK_CASE(an_interrupted_bench_deletes_its_files), CHECK_CASE(bench_profiles),
           CHECK_CASE(bench_trains), CHECK_CASE(discover_lists),
           CHECK_CASE(errors_of_pull_say_what_is_wrong), CHECK_CASE(info_prints_details),
           CHECK_CASE(other_backends_are_named))
