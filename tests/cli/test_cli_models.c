/* tests/cli/test_cli_models.c -- results of the command: tokens, texts, logits, training. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/io.h"
#include "weft/model.h"
#include "weft/ops.h"
#include <json-c/json.h>

/* A number of the JSON object that the output is. */
static double number(const output *o, const char *key)
{
    json_object *root = json_tokener_parse(o->out), *value = NULL;
    double result = (double)NAN;
    if (CHECK(root != NULL) && CHECK(json_object_object_get_ex(root, key, &value)))
        result = json_object_get_double(value);
    json_object_put(root);
    return result;
}

/* ---- Tokens --------------------------------------------------------------------------------- */

static void tokenize_prints_a_line_for_each_line(void)
{
    output o = weft_command("\"Once upon a time there was\"\n\"\"\n\"a\\nb\"\n",
                            "tokenize %s --jsonl", model());
    CHECK_EQ_INT(o.code, 0);
    CHECK(strncmp(o.out, "[2010, 370, 627, 258, 550, 451, 309]\n[]\n[", 40) == 0);
    CHECK_STR(o.err, "");
    /* The tokenizer.json alone is enough; the last line needs no end. */
    o = weft_command("\"Once upon a time there was\"", "tokenize %s/tokenizer.json --jsonl",
                     model());
    CHECK_STR(o.out, "[2010, 370, 627, 258, 550, 451, 309]\n");
}

static void tokenize_and_decode(void)
{
    static const char lines[] = "\"Hello,  world!\\tTabs\\nand \\\"quotes\\\"\"\n"
                                "\"\\u0000 and \\ud83e\\uddf5 and caf\\u00e9\"\n"
                                "\"\xf0\x9f\xa7\xb5 and caf\xc3\xa9\"\n"
                                "\"<|endoftext|>stays\"\n";
    static const char back[] = "\"Hello,  world!\\tTabs\\nand \\\"quotes\\\"\"\n"
                               "\"\\u0000 and \xf0\x9f\xa7\xb5 and caf\xc3\xa9\"\n"
                               "\"\xf0\x9f\xa7\xb5 and caf\xc3\xa9\"\n"
                               "\"<|endoftext|>stays\"\n";
    output o = weft_command(lines, "tokenize %s --jsonl", model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "[4093, "); /* the added token in the text is recognized */
    char ids[4096];
    snprintf(ids, sizeof ids, "%s", o.out);
    o = weft_command(ids, "tokenize %s --jsonl --decode", model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_STR(o.out, back);
}

static void tokenize_names_the_bad_line(void)
{
    static const struct {
        const char *options, *lines, *says;
    } cases[] = {
        {"", "\"fine\"\nnot json\n", "line 2"},
        {"", "\"fine\"\n\"fine\"\n[1]\n", "line 3"},
        {"", "\n", "line 1"},
        {"", "\"a\" \"b\"\n", "line 1"},
        {"", "\"\xff\"\n", "line 1"},
        {"--decode", "[1, 2]\n[1, \"2\"]\n", "line 2"},
        {"--decode", "[-1]\n", "line 1"},
        {"--decode", "\"text\"\n", "line 1"},
        {"--decode", "[99999999999]\n", "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        output o =
            weft_command(cases[i].lines, "tokenize %s --jsonl %s", model(), cases[i].options);
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, cases[i].says);
    }
}

static void tokenize_plain_text(void)
{
    CHECK_STR(weft_command("Once upon", "tokenize %s", model()).out, "2010 370 627\n");
    CHECK_STR(weft_command(NULL, "tokenize %s -p 'Once upon'", model()).out, "2010 370 627\n");
    CHECK_STR(weft_command("2010 370 627", "tokenize %s --decode", model()).out, "Once upon\n");
    CHECK_CONTAINS(weft_command(NULL, "tokenize %s -p Once --json", model()).out,
                   "{\"ids\": [2010, 370], \"tokens\": [\"On\", \"ce\"]}");
}

/* ---- Texts ---------------------------------------------------------------------------------- */

static const char greedy[] = " a great deal of strange things that had been made to do with the "
                             "King's, and the King's daughter";

static void generate_greedily(void)
{
    output o = weft_command(NULL,
                            "generate %s -p 'Once upon a time there was' -t 0 -n 23 "
                            "--top-p 0.5 --top-k 3",
                            model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, greedy);
    o = weft_command("Once upon a time there was", "generate %s -p - -t 0 -n 23 --echo --stats",
                     model());
    CHECK_CONTAINS(o.out, "Once upon a time there was a great deal");
    CHECK_CONTAINS(o.err, "generated 23 tokens");
}

static void generate_json(void)
{
    const char *prompt = text_file("prompt.txt", "Once upon a time there was");
    output o = weft_command(NULL, "generate %s -f %s -t 0 -n 23 --json", model(), prompt);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, greedy);
    CHECK_CONTAINS(o.out, "\"ids\": [258, 609, 1751");
    CHECK_CONTAINS(o.out, "\"reason\": \"length\"");
    CHECK_EQ_INT(number(&o, "tokens"), 23);
    CHECK_EQ_INT(number(&o, "prompt_tokens"), 7);
}

/* The reasons why a text ends, and how they are reported. */
static void generate_reports_why_it_ends(void)
{
    output o = weft_command("Once upon a time there was",
                            "generate %s -t 0 --stop \"King's\" --stop zzz --json", model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"text\": \" a great deal of strange things that had been made to do "
                          "with the \"");
    CHECK_CONTAINS(o.out, "\"reason\": \"stop\", \"reason_detail\": \"text\"");
    o = weft_command(NULL,
                     "generate %s -p 'Once upon a time there was' -t 0 --stop \"King's\" "
                     "--include-stop --tokens-per-eval 4",
                     model());
    CHECK_STR(o.out, " a great deal of strange things that had been made to do with the King's\n");
    o = weft_command(NULL,
                     "generate %s -p Once -n 900 --ignore-eos --no-cache --timeout 0.01 "
                     "--stats",
                     model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "finished: deadline");
    char out[256];
    snprintf(out, sizeof out, "%s", check_temporary("interrupted.txt"));
    o = shell_command(NULL,
                      "%s generate %s -p Once -n 1000 -t 0 --ignore-eos --no-cache >%s & p=$!; "
                      "while [ ! -s %s ] && kill -0 $p; do sleep 0.02; done; kill -INT $p; "
                      "wait $p; code=$?; cat %s; exit $code",
                      check_built("cli/weft"), model(), out, out, out);
    CHECK_EQ_INT(o.code, 130);
    CHECK_CONTAINS(o.err, "weft: generate: cancelled");
    CHECK(strlen(o.out) > 1);
}

static void generate_documents(void)
{
    const char *schema = text_file("schema.json", "{\"type\":\"array\",\"items\":{\"enum\":"
                                                  "[\"a\",\"b\"]},\"minItems\":2,\"maxItems\":2}");
    output o =
        weft_command(NULL, "generate %s -p Once -t 0 --json-schema %s --json", model(), schema);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "\"text\": \"[");
    CHECK_CONTAINS(o.out, "\"reason_detail\": \"document\"");
    o = weft_command(NULL, "generate %s -p Once -n 20 --json-value --seed 2", model());
    CHECK_EQ_INT(o.code, 0);
    o = weft_command(NULL, "generate %s -p Once --json-schema /no/such/file", model());
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "/no/such/file");
    schema = text_file("schema.json", "{\"type\":\"array\",\"unevaluatedItems\":false}");
    o = weft_command(NULL, "generate %s -p Once --json-schema %s", model(), schema);
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "unevaluatedItems");
}

/* Only with --schema-open does an object have other properties than its schema declares. */
static void schemas_close_objects(void)
{
    const char *schema = text_file(
        "schema.json", "{\"name\":\"answer\",\"schema\":{\"type\":\"object\",\"properties\":{\"b\":"
                       "{\"const\":1},\"a\":{\"const\":2,\"format\":\"odd\"}},\"required\":"
                       "[\"a\",\"b\"]}}");
    for (int seed = 1; seed < 4; seed++) {
        output o = weft_command(NULL, "generate %s -p Once -n 60 --seed %d --json-schema %s",
                                model(), seed, schema);
        json_object *value = json_tokener_parse(o.out);
        CHECK_EQ_INT(o.code, 0);
        CHECK_CONTAINS(o.err, "schema.json: properties.a: the format \"odd\" is not checked");
        CHECK_STR(json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN),
                  "{\"b\":1,\"a\":2}");
        json_object_put(value);
    }
    const output o =
        weft_command(NULL,
                     "generate %s -p Once -n 60 --seed 1 --temperature 3 --json-schema %s "
                     "--schema-open",
                     model(), schema);
    json_object *value = json_tokener_parse(o.out);
    CHECK_EQ_INT(o.code, 0);
    CHECK(json_object_object_length(value) > 2);
    json_object_put(value);
}

static void generate_with_biases(void)
{
    output o = weft_command(
        NULL, "generate %s -p Once -n 3 -t 0 --logit-bias 258:-inf,5:100 --json", model());
    CHECK_CONTAINS(o.out, "\"ids\": [5, 5, 5]");
    o = weft_command(NULL,
                     "generate %s -p Once -n 3 -t 0 --suppress 258,454 "
                     "--presence-penalty 1 --frequency-penalty 0.5 --json",
                     model());
    CHECK_EQ_INT(o.code, 0);
    CHECK(strstr(o.out, "\"ids\": [258") == NULL);
    o = weft_command(NULL, "generate %s -p Once -n 8 --xtc-probability 1 --json", model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_EQ_INT(number(&o, "tokens"), 8);
    o = weft_command(NULL, "generate %s -p Once -n 3 --suppress 4096", model());
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "suppress");
}

/* The third greedy token ends the text. */
static void generate_up_to_stop_tokens(void)
{
    long long ids[3];
    output o = weft_command(NULL, "generate %s -p Once -n 3 -t 0 --json", model());
    const char *at = strstr(o.out, "\"ids\": [");
    if (at == NULL ||
        !CHECK(sscanf(at, "\"ids\": [%lld, %lld, %lld]", &ids[0], &ids[1], &ids[2]) == 3) ||
        !CHECK(ids[2] != ids[0] && ids[2] != ids[1]))
        return;
    o = weft_command(NULL, "generate %s -p Once -n 8 -t 0 --stop-tokens 4095,%lld --json", model(),
                     ids[2]);
    CHECK_EQ_INT(o.code, 0);
    CHECK_EQ_INT(number(&o, "tokens"), 2);
    o = weft_command(NULL, "generate %s -p Once -n 3 --stop-tokens 258,4096", model());
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "stop token 1: expected one of the vocabulary's 4096, got 4096");
}

/* KV caches that are shorter than the text, or quantized. */
static void generate_with_little_memory(void)
{
    char whole[1024];
    output o = weft_command(NULL, "generate %s -p 'Once upon a time' -n 40 -t 0", model());
    snprintf(whole, sizeof whole, "%s", o.out);
    o = weft_command(NULL,
                     "generate %s -p 'Once upon a time' -n 40 -t 0 --max-context 64 "
                     "--sink-tokens 2",
                     model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_STR(o.out, whole);
    o = weft_command(NULL, "generate %s -p 'Once upon a time' -n 40 -t 0 --max-context 8", model());
    CHECK_EQ_INT(o.code, 0);
    CHECK(strcmp(o.out, whole) != 0);
    o = weft_command(NULL,
                     "generate %s -p 'Once upon a time' -n 10 -t 0 --kv-bits 8 "
                     "--max-context 0",
                     model());
    CHECK_EQ_INT(o.code, 0);
    CHECK(strncmp(o.out, whole, 10) == 0);
    o = weft_command(NULL, "generate %s -p Once --kv-bits 5", model());
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "--kv-bits: expected 32, 16, 8 or 4, got 5");
}

static void generate_by_seed(void)
{
    char first[1024];
    output o = weft_command(NULL, "generate %s -p Once -n 20 --seed 3", model());
    snprintf(first, sizeof first, "%s", o.out);
    CHECK_STR(weft_command(NULL, "generate %s -p Once -n 20 --seed 3", model()).out, first);
    CHECK(strcmp(weft_command(NULL, "generate %s -p Once -n 20 --seed 4", model()).out, first) !=
          0);
    CHECK_STR(weft_command(NULL, "generate %s -p Once -n 20 --seed 3 --threads 1", model()).out,
              first);
}

/* ---- Profiles ------------------------------------------------------------------------------- */

/* The sum of a number over the objects of a profile's first device. */
static double sum_of_ops(const output *o, const char *key)
{
    json_object *root = json_tokener_parse(o->out), *at = NULL, *value;
    double sum = 0;
    bool found = CHECK(json_object_object_get_ex(root, "profile", &at)) &&
                 CHECK(json_object_object_get_ex(at, "devices", &at)) &&
                 CHECK(json_object_object_get_ex(json_object_array_get_idx(at, 0), "ops", &at));
    for (size_t i = 0; found && i < json_object_array_length(at); i++) {
        if (json_object_object_get_ex(json_object_array_get_idx(at, i), key, &value))
            sum += json_object_get_double(value);
    }
    json_object_put(root);
    return sum;
}

static void profiles_print_the_time_by_op(void)
{
    output o = weft_command(NULL, "generate %s -p Once -t 0 -n 4 --profile", model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "profile of cpu: ");
    CHECK_CONTAINS(o.err, "  fallbacks to the CPU: ");
    CHECK_CONTAINS(o.err, "\n  linear ");
    o = weft_command(NULL, "generate %s -p Once -t 0 -n 4 --profile --json", model());
    CHECK_EQ_INT(o.code, 0);
    CHECK_STR(o.err, "");
    CHECK(sum_of_ops(&o, "kernels") > 100);
    CHECK(sum_of_ops(&o, "seconds") > 0);
    const char *text = text_file("profiled.txt", "It was a dark night, and a cold one.\n");
    o = weft_command(NULL, "eval %s --data %s --profile --json", model(), text);
    CHECK(sum_of_ops(&o, "calls") > 10);
    o = weft_command(NULL, "train %s --data %s --steps 1 --out %s --profile --json", model(), text,
                     check_temporary("profiled"));
    CHECK_EQ_INT(o.code, 0);
    CHECK(sum_of_ops(&o, "views") > 10);
    CHECK_EQ_INT(number(&o, "steps"), 1);
    o = weft_command(NULL, "generate %s -p Once -t 0 -n 1", model());
    CHECK_STR(o.err, "");
}

/* With a Vulkan device: a part of the model on it, and its description. */
static void layers_on_a_second_device(void)
{
    output o = weft_command(NULL, "info --device vulkan");
    if (o.code != 0) {
        check_skip("%s", o.err);
        return;
    }
    static const char *const parts[] = {"0", "3", "6", "7", "2 --stream"}; /* 7: and the head */
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        o = weft_command(NULL,
                         "generate %s -p 'Once upon a time there was' -t 0 -n 23 --profile --json "
                         "--device vulkan --gpu-layers %s",
                         model(), parts[i]);
        CHECK_CONTAINS(o.out, greedy);
        CHECK_CONTAINS(o.out, "\"submissions\": ");
        CHECK((sum_of_ops(&o, "transfers") > 0) == (i > 0));
    }
    for (int i = 0; i < 2; i++) {
        const char *out = check_temporary(i ? "streamed" : "parted");
        const char *text = text_file("parted.txt", "It was a dark night, and a cold one.\n");
        o = weft_command(NULL, "train %s --data %s --steps 1 --out %s --device vulkan --%s",
                         model(), text, out, i ? "stream" : "gpu-layers 1");
        CHECK_EQ_INT(o.code, 0);
        CHECK_CONTAINS(o.err, i ? "all layers streamed to vulkan" : "1 of 6 layers on vulkan, the");
    }
}

/* ---- Logits --------------------------------------------------------------------------------- */

/* The largest difference of two tensors of two files. */
static double difference(const char *path_a, const char *name_a, const char *path_b,
                         const char *name_b)
{
    weft_safetensors *a = NULL, *b = NULL;
    double result = (double)INFINITY;
    weft_scope_open();
    if (CHECK_OK(weft_safetensors_open(path_a, &a)) && CHECK_OK(weft_safetensors_open(path_b, &b)))
        result = weft_item(weft_max(weft_abs(weft_subtract(weft_safetensors_get(a, name_a),
                                                           weft_safetensors_get(b, name_b))),
                                    WEFT_ALL_AXES, false));
    weft_scope_close(NULL);
    weft_safetensors_close(a);
    weft_safetensors_close(b);
    return result;
}

static void logits_are_the_reference(void)
{
    static const char *const families[] = {"llama", "llama-bias", "mistral", "qwen2", "qwen3"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char name[64], folder[1024], reference[1100];
        snprintf(name, sizeof name, "models/%s", families[i]);
        snprintf(folder, sizeof folder, "%s", check_fixture(name));
        snprintf(reference, sizeof reference, "%s/reference.safetensors", folder);
        const char *out = check_temporary("logits.safetensors");
        output o = weft_command(NULL, "logits %s --ids %s --out %s", folder, reference, out);
        CHECK_EQ_INT(o.code, 0);
        CHECK_CLOSE(difference(out, "logits", reference, "logits"), 0, 1e-4);
        o = weft_command(NULL, "logits %s --ids %s --out %s --dtype bfloat16", folder, reference,
                         out);
        CHECK_EQ_INT(o.code, 0);
        CHECK_CLOSE(difference(out, "logits", reference, "logits"), 0, 1);
    }
}

/* ---- Training ------------------------------------------------------------------------------- */

/* loss and grad_norm of every update, from metrics.jsonl; returns how many. */
static int read_metrics(const char *path, double *losses, double *norms, int most)
{
    char *text = NULL;
    int n = 0;
    if (!CHECK_OK(weft_file_read(path, 0, &text, NULL)))
        return 0;
    for (char *line = strtok(text, "\n"); line != NULL && n < most; line = strtok(NULL, "\n")) {
        json_object *root = json_tokener_parse(line), *step = NULL, *loss = NULL, *norm = NULL;
        json_object_object_get_ex(root, "step", &step);
        if (json_object_get_int(step) > 0) {
            CHECK_EQ_INT(json_object_get_int(step), n + 1);
            CHECK(json_object_object_get_ex(root, "loss", &loss));
            CHECK(json_object_object_get_ex(root, "grad_norm", &norm));
            losses[n] = json_object_get_double(loss);
            norms[n++] = json_object_get_double(norm);
        }
        json_object_put(root);
    }
    weft_free(text);
    return n;
}

enum { MOST_STEPS = 20 };

/* The recipes of ../shared/fixtures. */
static const struct recipe {
    const char *name, *base, *options;
    int steps;
} recipes[] = {
    {"lora-llama", "llama", "--lr 0.01 --weight-decay 0", 20},
    {"lora-llama", "llama", "--lr 0.01 --weight-decay 0 --checkpoint", 20},
    {"lora-qwen3", "qwen3", "--lr 0.01", 20},
    {"lora-qwen3", "qwen3", "--lr 0.01 --checkpoint", 20},
    {"lora-qwen3-rs", "qwen3", "--lr 0.005", 12},
};

/* losses and grad_norms of the trajectory; its first batch becomes the input_ids of a new file. */
static void read_trajectory(const char *path, int steps, double *losses, double *norms,
                            const char *ids_path)
{
    weft_safetensors *file = NULL;
    weft_scope_open();
    if (CHECK_OK(weft_safetensors_open(path, &file))) {
        weft_array *l = weft_safetensors_get(file, "losses");
        weft_array *n = weft_safetensors_get(file, "grad_norms");
        weft_array *first = weft_slice_axis(weft_safetensors_get(file, "batches"), 0, 0, 1);
        weft_array *ids = weft_squeeze(first, 0);
        CHECK_OK(weft_read(l, WEFT_FLOAT64, losses, steps));
        CHECK_OK(weft_read(n, WEFT_FLOAT64, norms, steps));
        CHECK_OK(weft_safetensors_save(ids_path, &(const char *){"input_ids"}, &ids, 1, NULL, 0));
    }
    weft_scope_close(NULL);
    weft_safetensors_close(file);
}

/* Logits with an adapter, against the trajectory's final ones. */
static double adapter_difference(const char *base, const char *adapter, const char *ids,
                                 const char *trajectory)
{
    const char *out = check_temporary("adapted.safetensors");
    output o =
        weft_command(NULL, "logits %s --adapter %s --ids %s --out %s", base, adapter, ids, out);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    return difference(out, "logits", trajectory, "final_logits");
}

static void compare_training(const struct recipe *r)
{
    const char *golden = check_source("tests/golden");
    char base[1024], folder[1024], trajectory[1100], path[1100], ids[1024], out[1024];
    snprintf(base, sizeof base, "%s/models/%s", golden, r->base);
    snprintf(folder, sizeof folder, "%s/lora/%s", golden, r->name);
    snprintf(trajectory, sizeof trajectory, "%s/trajectory.safetensors", folder);
    snprintf(ids, sizeof ids, "%s", check_temporary("batch.safetensors"));
    snprintf(out, sizeof out, "%s", check_temporary(r->name));
    output o = weft_command(
        NULL, "train %s --batches %s --init-adapter %s/initial --out %s --overwrite %s", base,
        trajectory, folder, out, r->options);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    double losses[MOST_STEPS + 1], norms[MOST_STEPS + 1];
    double wanted_losses[MOST_STEPS], wanted_norms[MOST_STEPS];
    read_trajectory(trajectory, r->steps, wanted_losses, wanted_norms, ids);
    snprintf(path, sizeof path, "%s/metrics.jsonl", out);
    if (!CHECK_EQ_INT(read_metrics(path, losses, norms, MOST_STEPS + 1), r->steps))
        return;
    for (int s = 0; s < r->steps; s++) {
        CHECK_RELATIVE(losses[s], wanted_losses[s], 1e-4);
        CHECK_RELATIVE(norms[s], wanted_norms[s], 1e-3);
    }
    snprintf(path, sizeof path, "%s/last", out);
    CHECK_CLOSE(adapter_difference(base, path, ids, trajectory), 0, 1e-3);
    snprintf(path, sizeof path, "%s/final", folder);
    CHECK_CLOSE(adapter_difference(base, path, ids, trajectory), 0, 1e-4);
}

/* The trajectories of another framework; its final adapter, and ours, in `weft logits`. */
static void training_on_batches_is_the_reference(void)
{
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        compare_training(&recipes[i]);
}

/* Only the data is required: the loss falls, and the adapter is in the printed folder. */
static void training_on_text_learns(void)
{
    static char text[4000];
    for (int i = 0; strlen(text) < 3000; i++)
        snprintf(text + strlen(text), 100, "The %d ships of the north sailed in a row. ", i);
    const char *data = text_file("ships.txt", text);
    char out[1024];
    snprintf(out, sizeof out, "%s", check_temporary("ships"));
    output o = weft_command(NULL, "eval %s --data %s --json", model(), data);
    double before = number(&o, "loss");
    CHECK_RELATIVE(number(&o, "perplexity"), exp(before), 1e-6);
    o = weft_command(NULL,
                     "train %s --data %s --out %s --steps 12 --lr 5e-3 --length 128 "
                     "--val-split 0.2 --rank 4 --json",
                     model(), data, out);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    CHECK_EQ_INT(number(&o, "steps"), 12);
    CHECK(number(&o, "last_validation") < number(&o, "first_validation"));
    CHECK_CONTAINS(o.err, "step 12/12");
    CHECK(strchr(o.err, '\033') == NULL && strchr(o.err, '\r') == NULL); /* not a terminal */
    o = weft_command(NULL, "eval %s --adapter %s/best --data %s --json", model(), out, data);
    CHECK(number(&o, "loss") < 0.8 * before);
    o = weft_command(NULL, "generate %s --adapter %s/last -p 'The 7 ships of' -n 8 -t 0", model(),
                     out);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "north");
    static const char *const files[] = {"last/adapter_config.json",
                                        "best/adapter_model.safetensors", "metrics.jsonl",
                                        "loss.svg", "run.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        CHECK_EQ_INT(shell_command(NULL, "test -s %s/%s", out, files[i]).code, 0);
}

/* Standard options: all linears, learning rate 2e-4, cosine, 3% warmup, said before the run. */
static void training_prints_its_plan(void)
{
    const char *data = text_file("one.txt", "A king had three sons and one crown, and the crown "
                                            "was too small for all of them.");
    output o = weft_command(NULL, "train %s --data %s --out %s --length 32", model(), data,
                            check_temporary("one"));
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    CHECK_CONTAINS(o.err, "LoRA on 42 linears");
    CHECK_CONTAINS(o.err, "rank 8, alpha 16");
    CHECK_CONTAINS(o.err, "learning rate 0.0002, cosine, 3% warmup");
    CHECK_CONTAINS(o.err, "step 100/100"); /* a small file has more than one epoch */
}

/* A round trip: the same logits from a GGUF file, and from a folder converted from it. */
static void convert_and_convert_back(void)
{
    char gguf[512], folder[512];
    snprintf(gguf, sizeof gguf, "%s", check_temporary("converted.gguf"));
    snprintf(folder, sizeof folder, "%s", check_temporary("converted"));
    output o = weft_command(NULL, "convert %s %s --json", model(), gguf);
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.out, "converted.gguf");
    o = weft_command(NULL, "convert %s %s", gguf, folder);
    CHECK_EQ_INT(o.code, 0);
    weft_model *before, *after;
    if (!CHECK_OK(weft_model_load(model(), NULL, &before)))
        return;
    if (CHECK_OK(weft_model_load(folder, NULL, &after))) {
        weft_scope_open();
        const int32_t ids[] = {258, 609, 1751};
        weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, 3));
        weft_array *a = weft_model_forward(before, tokens, NULL);
        weft_array *b = weft_model_forward(after, tokens, NULL);
        weft_array *off =
            weft_abs(weft_subtract(weft_astype(a, WEFT_FLOAT32), weft_astype(b, WEFT_FLOAT32)));
        /* A file in F32 is computed in float32, for every dtype of the checkpoint. */
        CHECK(weft_item(weft_max(off, WEFT_ALL_AXES, false)) < 0.3);
        weft_scope_close(NULL);
        weft_model_free(after);
    }
    weft_model_free(before);
    static const char *const types[] = {"q5_k", "q6_k"};
    for (int i = 0; i < 2; i++) {
        o = weft_command(NULL, "convert %s %s --force --type %s --json", model(), gguf, types[i]);
        CHECK_EQ_INT(o.code, 0);
        o = weft_command(NULL, "generate %s -p 'Once upon a' -n 1 -t 0", gguf);
        CHECK_EQ_INT(o.code, 0);
        CHECK_CONTAINS(o.out, " time");
    }
    o = weft_command(NULL, "convert %s %s --force --type q4_k", model(), folder);
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "expected an OUT that ends with .gguf");
}

CHECK_MAIN("cli_models", CHECK_CASE(convert_and_convert_back),
           CHECK_CASE(tokenize_prints_a_line_for_each_line), CHECK_CASE(tokenize_and_decode),
           CHECK_CASE(tokenize_names_the_bad_line), CHECK_CASE(tokenize_plain_text),
           CHECK_CASE(generate_greedily), CHECK_CASE(generate_json),
           CHECK_CASE(generate_reports_why_it_ends), CHECK_CASE(generate_documents),
           CHECK_CASE(schemas_close_objects), CHECK_CASE(generate_with_biases),
           CHECK_CASE(generate_up_to_stop_tokens), CHECK_CASE(generate_with_little_memory),
           CHECK_CASE(generate_by_seed), CHECK_CASE(profiles_print_the_time_by_op),
           CHECK_CASE(layers_on_a_second_device), CHECK_CASE(logits_are_the_reference),
           CHECK_CASE(training_on_batches_is_the_reference), CHECK_CASE(training_on_text_learns),
           CHECK_CASE(training_prints_its_plan))
