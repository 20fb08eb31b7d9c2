/* tests/cli/test_cli_fuse.c -- weft fuse and weft convert --adapter: complete models that compute
 * the same as base and adapter. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/gguf.h"
#include "weft/io.h"
#include "weft/ops.h"
#include "weft/quantize.h"

/* The loss of a model, with an adapter unless that is NULL. */
static double loss_of(const char *folder, const char *adapter, const char *data)
{
    const output o = weft_command(NULL, "eval %s %s %s --data %s --json", folder,
                                  adapter ? "--adapter" : "", adapter ? adapter : "", data);
    if (!CHECK_EQ_INT(o.code, 0))
        return (double)NAN;
    json_object *root = json_tokener_parse(o.out), *value = NULL;
    double loss = (double)NAN;
    if (CHECK(json_object_object_get_ex(root, "loss", &value)))
        loss = json_object_get_double(value);
    json_object_put(root);
    return loss;
}

/* Trains an adapter for a conversation at a rate that changes the loss. The path lives until the
 * next call. */
static const char *trained(void)
{
    static char path[1024];
    const char *rows = text_file("chat.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": "
                                               "\"Who?\"}, {\"role\": \"assistant\", "
                                               "\"content\": \"A fox, a fox.\"}]}\n");
    snprintf(path, sizeof path, "%s", check_temporary("run"));
    const output o = weft_command(
        NULL, "train %s --data %s --steps 6 --lr 1e-2 --overwrite --out %s", model(), rows, path);
    CHECK_EQ_INT(o.code, 0);
    snprintf(path, sizeof path, "%s/last", check_temporary("run"));
    return path;
}

static void expect_files(const char *folder)
{
    static const char *const names[] = {
        "config.json",           "model.safetensors",      "tokenizer.json",
        "tokenizer_config.json", "generation_config.json", "README.md"};
    char path[2048];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (access(path, R_OK) != 0)
            CHECK_FAIL("%s is missing", path);
    }
}

static const char text[] = "Once upon a time there was a fox who lived in the wood, and the fox "
                           "said to the wolf: what are you doing here?\n";

/* Merged weights are rounded to bfloat16, the dtype of the base: 0.005 is twice the largest
 * difference seen. The adapter changes the loss by far more. */
static void fused_folders_compute_what_base_and_adapter_do(void)
{
    char data[1024], out[1024];
    snprintf(data, sizeof data, "%s", text_file("text.txt", text));
    const char *adapter = trained();
    const double base = loss_of(model(), NULL, data), with = loss_of(model(), adapter, data);
    CHECK(fabs(with - base) > 0.02);
    snprintf(out, sizeof out, "%s", check_temporary("fused"));
    CHECK_EQ_INT(weft_command(NULL, "fuse %s %s %s", model(), adapter, out).code, 0);
    expect_files(out);
    CHECK_CLOSE(loss_of(out, NULL, data), with, 0.005);
    snprintf(out, sizeof out, "%s", check_temporary("converted"));
    CHECK_EQ_INT(weft_command(NULL, "convert %s %s --adapter %s", model(), out, adapter).code, 0);
    expect_files(out);
    CHECK_CLOSE(loss_of(out, NULL, data), with, 0.005);
}

static double member(const output *o, const char *name)
{
    json_object *root = json_tokener_parse(o->out), *value = NULL;
    double number = (double)NAN;
    if (CHECK(root && json_object_object_get_ex(root, name, &value)) &&
        CHECK(!json_object_is_type(value, json_type_null)))
        number = json_object_get_double(value);
    json_object_put(root);
    return number;
}

/* The card of a fused model has the license of the base's card, and its name at the hub. */
static void the_card_has_the_license_of_the_base(void)
{
    static const struct {
        const char *card, *expected;
    } cases[] = {
        {"---\nlanguage: en\nlicense: apache-2.0 # as stated\ntags:\n- license\n---\n# A\n",
         "base_model: \"org/model\"\nlicense: \"apache-2.0\"\ntags:\n"},
        {"---\r\nlicense: other\r\nlicense_name: 'own-terms'\r\nlicense_link: "
         "LICENSE.md\r\n---\r\n",
         "license: \"other\"\nlicense_name: \"own-terms\"\nlicense_link: \"LICENSE.md\"\ntags:\n"},
        {"# A\nlicense: mit\n", "base_model: \"org/model\"\ntags:\n"},
        {"---\ntitle: A\n---\nlicense: mit\n", "base_model: \"org/model\"\ntags:\n"},
        {"---\nlicense:\n- mit\nlicense_name: null\n---\n", "base_model: \"org/model\"\ntags:\n"},
        {"---\nlicense: \"a\n", "base_model: \"org/model\"\ntags:\n"},
    };
    char base[1024], out[1024];
    snprintf(base, sizeof base, "%s/models--org--model/snapshots/1", check_temporary("cards"));
    snprintf(out, sizeof out, "%s", check_temporary("carded"));
    CHECK_EQ_INT(shell_command(NULL, "mkdir -p %s && cp %s/* %s", base, model(), base).code, 0);
    const char *adapter = trained();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[1100];
        snprintf(path, sizeof path, "%s/README.md", base);
        CHECK_OK(weft_file_write(path, cases[i].card, strlen(cases[i].card)));
        CHECK_EQ_INT(weft_command(NULL, "fuse %s %s %s --force", base, adapter, out).code, 0);
        CHECK_CONTAINS(shell_command(NULL, "cat %s/README.md", out).out, cases[i].expected);
    }
}

/* A 4-bit base keeps its encoding, and adapted matrices get 6 bits: at most 6.6 bits on average,
 * with nearly all of the gain. */
static void encoded_bases_stay_encoded(void)
{
    char data[1024], coded[1024], out[1024];
    const char *adapter = trained();
    snprintf(data, sizeof data, "%s", check_temporary("chat.jsonl"));
    snprintf(coded, sizeof coded, "%s", check_temporary("coded"));
    CHECK_EQ_INT(weft_command(NULL, "convert %s %s --bits 4", model(), coded).code, 0);
    const double with = loss_of(coded, adapter, data);
    snprintf(out, sizeof out, "%s", check_temporary("fused4"));
    output o = weft_command(NULL, "fuse %s %s %s --data %s --json", coded, adapter, out, data);
    if (CHECK_EQ_INT(o.code, 0)) {
        CHECK(member(&o, "bits_per_parameter") <= 6.6);
        CHECK_CLOSE(member(&o, "adapted_loss"), with, 0.01);
        CHECK(member(&o, "base_loss") > with + 0.1);
        CHECK(member(&o, "gain_kept") > 0.95);
        expect_files(out);
        CHECK_CLOSE(loss_of(out, NULL, data), member(&o, "fused_loss"), 0.01);
    }
    o = weft_command(NULL, "fuse %s %s %s --force --adapted-bits 8 --json", coded, adapter, out);
    if (CHECK_EQ_INT(o.code, 0))
        CHECK(member(&o, "bits_per_parameter") > 7 && member(&o, "bits_per_parameter") < 8.6);
    o = weft_command(NULL, "fuse %s %s %s --force --adapted-bits 0 --json", coded, adapter, out);
    if (CHECK_EQ_INT(o.code, 0))
        CHECK(member(&o, "bits_per_parameter") > 12);
}

/* The largest difference of two arrays, relative to the largest element of the second. */
static double difference(weft_array *a, weft_array *b)
{
    weft_array *off = weft_abs(weft_subtract(weft_astype(a, WEFT_FLOAT32), b));
    return weft_item(weft_max(off, WEFT_ALL_AXES, false)) /
           weft_item(weft_max(weft_abs(b), WEFT_ALL_AXES, false));
}

/* W + 2 B A of a layer's down_proj (alpha is twice the rank), in float32. */
static weft_array *exact_sum(const weft_safetensors *base, const weft_safetensors *adapter,
                             int layer)
{
    char name[200];
    snprintf(name, sizeof name, "model.layers.%d.mlp.down_proj.weight", layer);
    weft_array *W = weft_astype(weft_safetensors_get(base, name), WEFT_FLOAT32);
    snprintf(name, sizeof name, "base_model.model.model.layers.%d.mlp.down_proj.lora_A.weight",
             layer);
    weft_array *A = weft_safetensors_get(adapter, name);
    snprintf(name, sizeof name, "base_model.model.model.layers.%d.mlp.down_proj.lora_B.weight",
             layer);
    weft_array *B = weft_safetensors_get(adapter, name);
    return weft_add(W, weft_scale(weft_matmul(B, A), 2));
}

/* GGUF files encode the float32 sum. Rounding it to bfloat16, the base's dtype, first would be off
 * by up to 2^-9. f16 rounds by up to 2^-11. */
static void gguf_files_encode_the_exact_sum(void)
{
    static const struct {
        const char *type, *encoding;
        double most;
    } types[] = {
        {"f32", NULL, 1e-7}, {"f16", NULL, 5e-4}, {"q8_0", "Q8_0", 1e-6}, {"q4_k", "Q6_K", 1e-6}};
    char path[2048];
    const char *adapter = trained();
    weft_safetensors *files[2] = {NULL, NULL};
    snprintf(path, sizeof path, "%s/model.safetensors", model());
    CHECK_OK(weft_safetensors_open(path, &files[0]));
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", adapter);
    CHECK_OK(weft_safetensors_open(path, &files[1]));
    for (size_t i = 0; files[0] && files[1] && i < sizeof types / sizeof *types; i++) {
        weft_gguf *file = NULL;
        snprintf(path, sizeof path, "%s", check_temporary("exact.gguf"));
        CHECK_EQ_INT(weft_command(NULL, "fuse %s %s %s --type %s --force", model(), adapter, path,
                                  types[i].type)
                         .code,
                     0);
        if (!CHECK_OK(weft_gguf_open(path, &file)))
            continue;
        for (int layer = 0; layer < 2; layer++) {
            char name[64];
            weft_scope_open();
            snprintf(name, sizeof name, "blk.%d.ffn_down.weight", layer);
            weft_array *expected = exact_sum(files[0], files[1], layer);
            if (types[i].encoding)
                expected = weft_astype(weft_encode(expected, weft_gguf_encoding(types[i].encoding)),
                                       WEFT_FLOAT32);
            const double off = difference(weft_gguf_get(file, name), expected);
            printf("  %s: off by %.1e\n", types[i].type, off);
            CHECK(off <= types[i].most);
            weft_scope_close(NULL);
        }
        weft_gguf_close(file);
    }
    weft_safetensors_close(files[0]);
    weft_safetensors_close(files[1]);
}

/* The dtype of all tensors of a folder, which config.json states. */
static void expect_dtype(const char *folder, weft_dtype dtype)
{
    char path[2048], *config = NULL, *line = NULL;
    weft_safetensors *file = NULL;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return;
    for (int i = 0; i < weft_safetensors_count(file); i++)
        CHECK_EQ_INT(weft_safetensors_at(file, i)->dtype, dtype);
    weft_safetensors_close(file);
    snprintf(path, sizeof path, "%s/config.json", folder);
    line = weft_format("dtype\": \"%s\"", weft_dtype_name(dtype));
    if (CHECK_OK(weft_file_read(path, 0, &config, NULL)))
        CHECK_CONTAINS(config, line);
    weft_free(line);
    weft_free(config);
}

/* Tensors of a GGUF file, and how many of them `base` has with the same bytes. */
static void expect_copies(const char *path, const char *base, int unlike)
{
    weft_gguf *a = NULL, *b = NULL;
    int changed = 0;
    if (CHECK_OK(weft_gguf_open(path, &a)) && CHECK_OK(weft_gguf_open(base, &b))) {
        for (int i = 0; i < weft_gguf_value_count(b); i++)
            CHECK(weft_gguf_value_find(a, weft_gguf_value_at(b, i)->key) != NULL);
        CHECK_EQ_INT(weft_gguf_count(a), weft_gguf_count(b));
        for (int i = 0; i < weft_gguf_count(a); i++) {
            const weft_gguf_entry *x = weft_gguf_at(a, i);
            const int at = weft_gguf_find(b, x->name);
            const weft_gguf_entry *y = at < 0 ? NULL : weft_gguf_at(b, at);
            changed += y == NULL || y->bytes != x->bytes ||
                       memcmp(weft_gguf_bytes(a, i), weft_gguf_bytes(b, at), (size_t)x->bytes) != 0;
        }
        CHECK_EQ_INT(changed, unlike);
    }
    weft_gguf_close(a);
    weft_gguf_close(b);
}

/* --type counts for every base; without it the base decides. The storyteller has 6 layers with 7
 * adapted matrices each, of which down_proj alone has rows of whole blocks of 256. */
enum { ADAPTED = 42 };

static void types_of_every_base(void)
{
    static const struct {
        const char *base, *made_with;
        weft_dtype folder; /* without --type; 0: MLX's format */
        const char *file, *fused_file;
        int changed; /* tensors that fusing changes in a GGUF file of a GGUF base */
    } bases[] = {
        {"b16", "--type bf16", WEFT_BFLOAT16, "BF16", "BF16", -1},
        {"b32", "--type f32", WEFT_FLOAT32, "F32", "F32", -1},
        {"f16.gguf", "--type f16", WEFT_FLOAT16, "F16", "F16", ADAPTED},
        {"q40.gguf", "--type q4_0", WEFT_BFLOAT16, "Q4_0, Q8_0", "Q8_0, Q6_K", ADAPTED},
        {"q4k.gguf", "--type q4_k", WEFT_BFLOAT16, "Q8_0, Q4_K", "Q8_0, Q6_K", ADAPTED},
        {"mlx", "--bits 4", (weft_dtype)0, "BF16", "BF16", -1},
    };
    char base[1024], out[1024], types[64];
    const char *adapter = trained();
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        snprintf(base, sizeof base, "%s", check_temporary(bases[i].base));
        CHECK_EQ_INT(
            weft_command(NULL, "convert %s %s %s --force", model(), base, bases[i].made_with).code,
            0);
        for (int fused = 0; fused < 2; fused++) {
            const char *how = fused ? "fuse" : "convert", *with = fused ? adapter : "";
            snprintf(out, sizeof out, "%s", check_temporary("typed"));
            output o = weft_command(NULL, "%s %s %s %s --force", how, base, with, out);
            CHECK_EQ_INT(o.code, 0);
            if (bases[i].folder) {
                snprintf(types, sizeof types, "a parameter, %s\n",
                         weft_dtype_name(bases[i].folder));
                CHECK_CONTAINS(o.out, types);
                expect_dtype(out, bases[i].folder);
            } else {
                CHECK_CONTAINS(o.out, "in MLX's format, which mlx-lm and Weft load, but not");
            }
            o = weft_command(NULL, "%s %s %s %s --force --type f16", how, base, with, out);
            CHECK_EQ_INT(o.code, 0);
            expect_dtype(out, WEFT_FLOAT16);
            snprintf(out, sizeof out, "%s", check_temporary("typed.gguf"));
            o = weft_command(NULL, "%s %s %s %s --force", how, base, with, out);
            snprintf(types, sizeof types, "a parameter, %s\n",
                     fused ? bases[i].fused_file : bases[i].file);
            CHECK_CONTAINS(o.out, types);
            if (bases[i].changed >= 0)
                expect_copies(out, base, fused ? bases[i].changed : 0);
            o = weft_command(NULL, "%s %s %s %s --force --type q8_0", how, base, with, out);
            CHECK_CONTAINS(o.out, "a parameter, Q8_0\n");
        }
    }
}

/* What programs that load a folder rely on: its tensors are floats under the names of
 * transformers. */
static void expect_transformers(const char *folder)
{
    char path[2048];
    weft_safetensors *file = NULL;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return;
    for (int i = 0; i < weft_safetensors_count(file); i++) {
        const weft_safetensors_entry *e = weft_safetensors_at(file, i);
        CHECK(weft_dtype_is_float(e->dtype));
        CHECK(strstr(e->name, ".switch_") == NULL);
        CHECK(strstr(e->name, "conv1d") == NULL ||
              (e->shape.at[1] == 1 && strncmp(e->name, "language_model.", 15) != 0));
    }
    weft_safetensors_close(file);
}

/* The commands that weft train prints at its end make, from each kind of base, what other programs
 * load. */
static void printed_commands_fit_the_base(void)
{
    static const struct {
        const char *base, *as, *made_with; /* converted to `as` first, unless that is NULL */
        bool mlx, gguf, adapter;           /* quantized by MLX; as GGUF; the adapter as GGUF */
        const char *file;                  /* types of the merged GGUF file */
    } bases[] = {
        {"models/qwen3", NULL, NULL, false, true, true, "F32"},
        {"models/qwen3", "b.gguf", "--type q8_0", false, true, true, "Q8_0, F16"},
        {"models/qwen3", "h.gguf", "--type f16", false, true, true, "F16"},
        {"models/mlx-qwen3", NULL, NULL, true, true, true, "BF16"},
        {"models/mlx-qwen3-moe", NULL, NULL, true, true, true, "BF16"},
        {"models/qwen3-5-mlx", NULL, NULL, false, false, false, NULL},
        {"models/qwen3-5-mlx", "q", "--bits 4 --group-size 32", true, false, false, NULL},
        {"models/qwen3-moe-mixed", NULL, NULL, false, false, false, NULL},
        {"wrapped/gemma3", NULL, NULL, false, true, true, "F32"},
        {"wrapped/gemma4", NULL, NULL, false, true, false, "F32"},
        {"wrapped/qwen3-5", NULL, NULL, false, false, false, NULL},
    };
    char base[2048], folder[1024], batches[1024];
    snprintf(batches, sizeof batches, "%s", check_temporary("batches.safetensors"));
    snprintf(folder, sizeof folder, "%s", check_temporary("printed"));
    weft_scope_open();
    const char *const names[] = {"batches", "prompt_lengths"};
    weft_array *arrays[] = {weft_full(WEFT_DIMS(1, 2, 8), 5, WEFT_INT32),
                            weft_full(WEFT_DIMS(1, 2), 1, WEFT_INT32)};
    CHECK_OK(weft_safetensors_save(batches, names, arrays, 2, NULL, 0));
    weft_scope_close(NULL);
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        snprintf(base, sizeof base, "%s/%s", check_source("tests/golden"), bases[i].base);
        CHECK_EQ_INT(shell_command(NULL, "rm -rf %s && mkdir %s", folder, folder).code, 0);
        if (bases[i].as) {
            CHECK_EQ_INT(weft_command(NULL, "convert %s %s/%s %s", base, folder, bases[i].as,
                                      bases[i].made_with)
                             .code,
                         0);
            snprintf(base, sizeof base, "%s/%s", folder, bases[i].as);
        }
        output o = weft_command(NULL, "train %s --batches %s --rank 2 --out %s/run", base, batches,
                                folder);
        CHECK_EQ_INT(o.code, 0);
        CHECK_EQ_INT(strstr(o.out, "fused --type bf16\n") != NULL, bases[i].mlx);
        CHECK_EQ_INT(strstr(o.out, "Without --type bf16") != NULL, bases[i].mlx);
        CHECK_EQ_INT(strstr(o.out, "fused.gguf\n") != NULL, bases[i].gguf);
        CHECK_EQ_INT(strstr(o.out, "adapter.gguf") != NULL, bases[i].adapter);
        char *commands = weft_format("%s", o.out);
        text_file("printed.txt", commands);
        weft_free(commands);
        o = shell_command(NULL, "cd %s && grep -E 'weft (fuse|convert) ' %s | bash -e", folder,
                          check_temporary("printed.txt"));
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s: %s", base, o.err);
        if (bases[i].file)
            CHECK_CONTAINS(o.out, bases[i].file);
        char fused[1100];
        snprintf(fused, sizeof fused, "%s/fused", folder);
        expect_transformers(fused);
    }
}

static void adapted_bits_are_for_quantized_outputs(void)
{
    const char *adapter = trained();
    output o = weft_command(NULL, "fuse %s %s %s --adapted-bits 8", model(), adapter,
                            check_temporary("none"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "adapted_bits: expected a quantized output");
    CHECK(access(check_temporary("none"), F_OK) != 0);
}

static void what_cannot_be_fused_is_refused(void)
{
    output o = weft_command(NULL, "fuse %s /nowhere %s", model(), check_temporary("none"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "/nowhere");
    CHECK(access(check_temporary("none"), F_OK) != 0);
    o = weft_command(NULL, "fuse %s /nowhere %s --adapted-bits 7", model(),
                     check_temporary("none"));
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "expected 2, 3, 4, 5, 6 or 8, got 7");
    o = weft_command(NULL, "fuse %s", model());
    CHECK_EQ_INT(o.code, 2);
    const char *const commands[] = {"fuse %s /nowhere %s", "convert %s %s"};
    for (int i = 0; i < 2; i++) { /* the model itself is at OUT */
        o = weft_command(NULL, commands[i], model(), model());
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, "storyteller: is there already; --force replaces it");
    }
}

CHECK_MAIN("cli_fuse", CHECK_CASE(fused_folders_compute_what_base_and_adapter_do),
           CHECK_CASE(gguf_files_encode_the_exact_sum),
           CHECK_CASE(the_card_has_the_license_of_the_base), CHECK_CASE(encoded_bases_stay_encoded),
           CHECK_CASE(types_of_every_base), CHECK_CASE(printed_commands_fit_the_base),
           CHECK_CASE(adapted_bits_are_for_quantized_outputs),
           CHECK_CASE(what_cannot_be_fused_is_refused))
