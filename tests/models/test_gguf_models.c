/* tests/models/test_gguf_models.c -- models through GGUF files: the reference's logits from a file
 * in F32, similar ones from quantized blocks, and the choice of a file in a folder. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "weft/gguf.h"
#include "weft/memory.h"
#include "weft/model.h"
#include "weft/ops.h"
#include "weft/quantize.h"
#include "weft/tokenizer.h"

static const char *const families[] = {
    "llama",
    "llama-bias",
    "mistral",
    "qwen2",
    "qwen3",
    "qwen3-moe",
    "gemma2",
    "gemma3",
    "mixtral",
    "minicpm",
    "gemma3-wrapped",
    "gemma4-dense",
    "gemma4-moe",
    "gemma4-wrapped",
    "ministral3",
    "mistral3",
    "rope-linear",
    "rope-yarn",
    "mlx-qwen3",
    "olmo2",
    "phi3",
    "phi3-longrope",
    "smollm3",
    "granite",
    "olmo3",
    "glm4",
    "seed_oss",
    "ernie4_5",
    "hunyuan_v1_dense",
    "exaone4",
    "cohere2",
    "gpt-oss",
    "gpt-oss-mxfp4",
    "lfm2",
    "lfm2-moe",
    "glm4-moe-lite",
    "minicpm3-published",
    "granite4",
    "granite4-experts",
    "granite4-attention",
    "nemotron-h-dense",
    "nemotron-h-experts",
    "nemotron-h-mamba",
    "falcon-h1",
};
enum { N_FAMILIES = sizeof families / sizeof *families };

static const char *golden(const char *family, const char *file)
{
    static char name[128];
    snprintf(name, sizeof name, "tests/golden/models/%s%s%s", family, *file ? "/" : "", file);
    return check_source(name);
}

/* The family's model as a GGUF file of its own. */
static bool written(const char *family, const char *type, char *path, size_t size)
{
    weft_model *model;
    char name[64];
    snprintf(name, sizeof name, "%s-%s.gguf", family, type);
    snprintf(path, size, "%s", check_temporary(name));
    if (!CHECK_OK(weft_model_load(golden(family, ""), NULL, &model)))
        return false;
    const bool ok =
        CHECK_OK(weft_model_save_gguf(model, path, &(weft_gguf_model_options){.type = type}));
    weft_model_free(model);
    return ok;
}

/* The largest difference of the logits from the reference's, by their standard deviation or as it
 * is; NAN when there is none. */
static double difference(const char *family, const char *path, bool relative)
{
    weft_model *model;
    weft_safetensors *reference;
    double result = (double)NAN;
    if (!CHECK_OK(weft_model_load(path, NULL, &model)))
        return result;
    if (CHECK_OK(weft_safetensors_open(golden(family, "reference.safetensors"), &reference))) {
        weft_scope_open();
        weft_array *logits =
            weft_model_forward(model, weft_safetensors_get(reference, "input_ids"), NULL);
        weft_array *expected = weft_keep(weft_safetensors_get(reference, "logits"));
        const double scale = relative ? weft_item(weft_std(expected, WEFT_ALL_AXES, 0, false)) : 1;
        weft_array *off = weft_abs(weft_subtract(logits, expected));
        result = weft_item(weft_max(off, WEFT_ALL_AXES, false)) / scale;
        weft_drop(expected);
        weft_scope_close(NULL);
        weft_safetensors_close(reference);
    }
    weft_model_free(model);
    return result;
}

static void float32_files(void)
{
    for (int i = 0; i < N_FAMILIES; i++) {
        char path[512];
        if (!written(families[i], "F32", path, sizeof path))
            continue;
        const double off = difference(families[i], path, false);
        printf("  %s: largest difference %.3g\n", families[i], off);
        CHECK(off < 2e-4); /* as in test_families.c */
    }
}

static void blocks_and_halves(void)
{
    /* The largest of 25,600 differences, in random models of width 64, which feel rounding more
     * than trained ones: a guard against wrong blocks, whose differences are far larger than those
     * of any type. */
    static const struct {
        const char *type;
        double limit;
    } types[] = {{"F16", 0.02}, {"BF16", 0.2}, {"Q8_0", 0.3}, {"Q4_0", 5}};
    for (int i = 0; i < 8; i += 3) {
        double before = 0;
        for (int t = 0; t < 4; t++) {
            char path[512];
            if (!written(families[i], types[t].type, path, sizeof path))
                continue;
            const double off = difference(families[i], path, true);
            printf("  %s in %s: %.3g of the logits' deviation\n", families[i], types[t].type, off);
            CHECK(off < types[t].limit && off > before / 4);
            before = off;
        }
    }
}

/* Weights in blocks are those of the file. */
static void in_place(void)
{
    char path[512];
    weft_model *model;
    if (!written("qwen3", "Q8_0", path, sizeof path) ||
        !CHECK_OK(weft_model_load(path, NULL, &model)))
        return;
    weft_array **w = weft_nn_find(weft_model_module(model), "model.layers.0.mlp.up_proj.weight");
    CHECK(w && weft_encoding_of(*w) == weft_gguf_encoding("Q8_0"));
    CHECK_EQ_INT(weft_dtype_of(*w), WEFT_FLOAT32);
    w = weft_nn_find(weft_model_module(model), "model.norm.weight");
    CHECK(w && weft_encoding_of(*w) == NULL);
    CHECK_STR(weft_model_family_of(model)->model_type, "qwen3");
    weft_model_free(model);
}

/* Two tensors of the file are the halves of a parameter: blocks are copied, not decoded. */
static void halves_stay_in_blocks(void)
{
    static const char name[] = "model.layers.0.shared_mlp.input_linear.weight";
    char path[512];
    weft_model *model = NULL, *dense = NULL;
    if (!written("granite4", "Q8_0", path, sizeof path) ||
        !CHECK_OK(weft_model_load(path, NULL, &model)) ||
        !CHECK_OK(weft_model_load(golden("granite4", ""), NULL, &dense))) {
        weft_model_free(model);
        return;
    }
    weft_array **w = weft_nn_find(weft_model_module(model), name);
    weft_array **expected = weft_nn_find(weft_model_module(dense), name);
    if (CHECK(w && expected) && CHECK(weft_encoding_of(*w) == weft_gguf_encoding("Q8_0"))) {
        weft_scope_open();
        weft_array *off = weft_abs(weft_subtract(weft_decode(*w), *expected));
        const double most = weft_item(weft_max(weft_abs(*expected), WEFT_ALL_AXES, false));
        CHECK(weft_item(weft_max(off, WEFT_ALL_AXES, false)) < most / 127);
        weft_scope_close(NULL);
    }
    weft_model_free(model);
    weft_model_free(dense);
}

/* Tensors are converted one after the other: few of them exist at a time, although each has another
 * type than the model's. */
static void one_by_one(void)
{
    char path[512];
    weft_model *model;
    weft_gguf *file;
    int64_t all = 0, largest = 0;
    snprintf(path, sizeof path, "%s", check_temporary("one-by-one.gguf"));
    if (!CHECK_OK(weft_model_load(golden("qwen3-moe", ""), NULL, &model)))
        return;
    weft_memory_reset_peak();
    const int64_t before = weft_memory_active();
    CHECK_OK(weft_model_save_gguf(model, path, &(weft_gguf_model_options){.type = "F16"}));
    const int64_t peak = weft_memory_peak() - before;
    weft_model_free(model);
    if (!CHECK_OK(weft_gguf_open(path, &file)))
        return;
    for (int i = 0; i < weft_gguf_count(file); i++) {
        const int64_t bytes = weft_gguf_at(file, i)->bytes;
        all += bytes;
        largest = bytes > largest ? bytes : largest;
    }
    weft_gguf_close(file);
    CHECK(largest < all / 6);
    CHECK(peak < 2 * largest);
}

static void copy_to(const char *from, const char *folder, const char *name)
{
    char path[640], *data;
    size_t size;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (CHECK_OK(weft_file_read(from, 0, &data, &size))) {
        CHECK_OK(weft_file_write(path, data, size));
        weft_free(data);
    }
}

static void which_file(void)
{
    char path[512], folder[512], other[640];
    weft_model *model;
    snprintf(folder, sizeof folder, "%s", check_temporary("folder"));
    if (!written("llama", "F32", path, sizeof path) || !CHECK_OK(weft_folder_make(folder)))
        return;
    copy_to(path, folder, "one.gguf");
    if (CHECK_OK(weft_model_load(folder, NULL, &model)))
        weft_model_free(model);
    copy_to(path, folder, "two.gguf");
    CHECK_STATUS(weft_model_load(folder, NULL, &model), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "2 GGUF files");
    CHECK_CONTAINS(weft_error_message(), "two.gguf");
    snprintf(other, sizeof other, "%s/two.gguf", folder);
    unlink(other);
    copy_to(golden("llama", "model.safetensors"), folder, "model.safetensors");
    CHECK_STATUS(weft_model_load(folder, NULL, &model), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "one.gguf, and safetensors files, model.safetensors");
    CHECK_STATUS(weft_model_load("/none/such.gguf", NULL, &model), WEFT_IO);
}

/* Metadata or tensors that no model has. */
static void what_is_refused(void)
{
    const char *path = check_temporary("odd.gguf"), *name = "blk.0.strange.weight";
    weft_model *model;
    const weft_gguf_string t5 = {"t5", 2};
    const weft_gguf_value arch = {"general.architecture", WEFT_GGUF_STRING, false, 1, NULL, &t5};
    weft_scope_open();
    weft_array *x = weft_ones(WEFT_DIMS(2, 2), WEFT_FLOAT32);
    CHECK_OK(weft_gguf_save(path, &name, &x, 1, NULL, 0));
    CHECK_STATUS(weft_model_load(path, NULL, &model), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "general.architecture: expected a string");
    x = weft_ones(WEFT_DIMS(2, 2), WEFT_FLOAT32);
    CHECK_OK(weft_gguf_save(path, &name, &x, 1, &arch, 1));
    CHECK_STATUS(weft_model_load(path, NULL, &model), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "'t5' is unsupported (supported: ");
    CHECK_CONTAINS(weft_error_message(), ", gemma2, gemma3, gemma-embedding, gemma4, ");
    /* A tensor of no known part, before valid ones. */
    const weft_gguf_string llama = {"llama", 5};
    const weft_gguf_value known = {
        "general.architecture", WEFT_GGUF_STRING, false, 1, NULL, &llama};
    const char *const names[] = {"blk.0.strange.weight", "output_norm.weight", "token_embd.weight"};
    weft_array *three[] = {weft_ones(WEFT_DIMS(2, 2), WEFT_FLOAT32),
                           weft_ones(WEFT_DIMS(2), WEFT_FLOAT32),
                           weft_ones(WEFT_DIMS(2, 2), WEFT_FLOAT32)};
    CHECK_OK(weft_gguf_save(path, names, three, 3, &known, 1));
    CHECK(weft_model_load(path, NULL, &model) != WEFT_OK);
    weft_scope_close(NULL);
    if (CHECK_OK(weft_model_load(golden("llama", ""), NULL, &model))) {
        CHECK_STATUS(weft_model_save_gguf(model, path, &(weft_gguf_model_options){.type = "Q3_K"}),
                     WEFT_UNSUPPORTED);
        weft_model_free(model);
    }
}

#define STRING(text)                                                                               \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }

/* A tokenizer from metadata alone: byte-level merges. */
/* Loads the same file with another value for one key, which ends with `key`, or without it (NULL).
 */
static weft_status load_without(const char *path, const char *key, const void *value,
                                weft_model **out)
{
    enum { MOST = 200 };
    weft_gguf *file = NULL;
    weft_gguf_value values[MOST];
    const char *names[MOST];
    weft_array *arrays[MOST];
    char other[600];
    int n = 0, n_found = 0;
    snprintf(other, sizeof other, "%s", check_temporary("without.gguf"));
    if (!CHECK_OK(weft_gguf_open(path, &file)))
        return weft_error_status();
    CHECK(weft_gguf_value_count(file) <= MOST && weft_gguf_count(file) <= MOST);
    for (int i = 0; i < weft_gguf_value_count(file); i++) {
        values[n] = *weft_gguf_value_at(file, i);
        const size_t length = strlen(values[n].key), end = strlen(key);
        const bool found = length >= end && strcmp(values[n].key + length - end, key) == 0;
        n_found += found;
        if (found && value != NULL)
            values[n].data = value;
        n += value != NULL || !found;
    }
    CHECK_EQ_INT(n_found, 1);
    weft_scope_open();
    for (int i = 0; i < weft_gguf_count(file); i++) {
        names[i] = weft_gguf_at(file, i)->name;
        arrays[i] = weft_gguf_get_at(file, i);
    }
    CHECK_OK(weft_gguf_save(other, names, arrays, weft_gguf_count(file), values, n));
    weft_scope_close(NULL);
    weft_gguf_close(file);
    return weft_model_load(other, NULL, out);
}

static void expect_without(const char *path, const char *key, const void *value, const char *what)
{
    weft_model *model = NULL;
    CHECK_STATUS(load_without(path, key, value, &model), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "without.gguf");
    CHECK_CONTAINS(weft_error_message(), key);
    CHECK_CONTAINS(weft_error_message(), what);
    weft_model_free(model);
}

/* In every family, before any loop over the layers. */
static void numbers_of_layers_are_limited(void)
{
    static const uint32_t many = UINT32_MAX, none = 0;
    for (int i = 0; i < N_FAMILIES; i++) {
        char path[600];
        if (!written(families[i], "f32", path, sizeof path))
            return;
        expect_without(path, ".block_count", &many, "expected at most 4096, got 4294967295");
        expect_without(path, ".block_count", &none, "expected a positive integer");
    }
}

/* Keys that llama.cpp reads with defaults of its own. */
static void absent_keys_of_experts(void)
{
    static const uint32_t softmax = 1;
    char path[600];
    weft_model *model = NULL;
    if (!written("glm4-moe-lite", "f32", path, sizeof path))
        return;
    if (CHECK_OK(load_without(path, "deepseek2.expert_weights_norm", NULL, &model)))
        CHECK(!weft_config_bool(weft_model_config(model), "norm_topk_prob", true));
    weft_model_free(model);
    CHECK_STATUS(load_without(path, "deepseek2.expert_gating_func", NULL, &model),
                 WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "expert_gating_func: expected 2, got 1");
    CHECK_STATUS(load_without(path, "deepseek2.expert_gating_func", &softmax, &model),
                 WEFT_UNSUPPORTED);
}

static void files_without_an_epsilon_are_refused(void)
{
    static const float none = 0, below = -1e-5f, nan = NAN;
    static const char key[] = "llama.attention.layer_norm_rms_epsilon";
    char path[600];
    if (!written("llama", "f32", path, sizeof path))
        return;
    expect_without(path, key, NULL, "expected a positive number");
    expect_without(path, key, &none, "expected a positive number");
    expect_without(path, key, &below, "expected a positive number");
    expect_without(path, key, &nan, "expected a positive number");
}

static void tokenizer(void)
{
    const char *path = check_temporary("tokenizer.gguf");
    const weft_gguf_string model = STRING("gpt2");
    const weft_gguf_string tokens[] = {STRING("a"), STRING("b"), STRING("ab"), STRING("<end>")};
    const weft_gguf_string merges[] = {STRING("a b")};
    const int32_t types[] = {1, 1, 1, 3};
    const weft_gguf_value values[] = {
        {"tokenizer.ggml.model", WEFT_GGUF_STRING, false, 1, NULL, &model},
        {"tokenizer.ggml.tokens", WEFT_GGUF_STRING, true, 4, NULL, tokens},
        {"tokenizer.ggml.merges", WEFT_GGUF_STRING, true, 1, NULL, merges},
        {"tokenizer.ggml.token_type", WEFT_GGUF_INT32, true, 4, types, NULL},
    };
    weft_tokenizer *t;
    int32_t *ids;
    size_t n;
    if (!CHECK_OK(weft_gguf_save(path, NULL, NULL, 0, values, 4)) ||
        !CHECK_OK(weft_tokenizer_load(path, &t)))
        return;
    if (CHECK_OK(weft_tokenizer_encode(t, "abb<end>", 8, 0, &ids, &n)) && CHECK_EQ_INT(n, 3)) {
        CHECK_EQ_INT(ids[0], 2);
        CHECK_EQ_INT(ids[1], 1);
        CHECK_EQ_INT(ids[2], 3);
        weft_free(ids);
    }
    weft_tokenizer_free(t);
    CHECK_OK(weft_gguf_save(path, NULL, NULL, 0, values, 3));
    CHECK_OK(weft_gguf_save(path, NULL, NULL, 0, values + 1, 3));
    CHECK_STATUS(weft_tokenizer_load(path, &t), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "the file has no tokenizer");
}

/* The ids that end a sequence in a file whose metadata lists none: control tokens by their texts.
 * <|end|> ends a turn, unless a token <|call|> says that it ends only a message. */
static void ends_by_text(bool calls, const int32_t *expected, int n_expected)
{
    enum { V = 96, MOST = 64, CONTROL = 3 };
    char path[600], other[600];
    weft_gguf *file = NULL;
    weft_gguf_value values[MOST];
    const char *names[MOST];
    weft_array *arrays[MOST];
    weft_gguf_string tokens[V];
    int32_t types[V];
    weft_model *model = NULL;
    int n = 0;
    for (int i = 0; i < V; i++) {
        tokens[i] = (weft_gguf_string)STRING("a");
        types[i] = i >= 90 ? CONTROL : 1;
    }
    tokens[91] = (weft_gguf_string)STRING("<|end|>");
    tokens[92] = (weft_gguf_string)STRING("<|return|>");
    if (calls)
        tokens[93] = (weft_gguf_string)STRING("<|call|>");
    if (!written("gpt-oss", "F32", path, sizeof path) || !CHECK_OK(weft_gguf_open(path, &file)))
        return;
    for (int i = 0; i < weft_gguf_value_count(file) && n < MOST - 2; i++) {
        values[n] = *weft_gguf_value_at(file, i);
        n += strcmp(values[n].key, "tokenizer.ggml.eos_token_id") != 0;
    }
    values[n++] =
        (weft_gguf_value){"tokenizer.ggml.tokens", WEFT_GGUF_STRING, true, V, NULL, tokens};
    values[n++] =
        (weft_gguf_value){"tokenizer.ggml.token_type", WEFT_GGUF_INT32, true, V, types, NULL};
    weft_scope_open();
    for (int i = 0; i < weft_gguf_count(file) && i < MOST; i++) {
        names[i] = weft_gguf_at(file, i)->name;
        arrays[i] = weft_gguf_get_at(file, i);
    }
    snprintf(other, sizeof other, "%s", check_temporary("ends.gguf"));
    CHECK_OK(weft_gguf_save(other, names, arrays, weft_gguf_count(file), values, n));
    weft_scope_close(NULL);
    weft_gguf_close(file);
    if (CHECK_OK(weft_model_load(other, NULL, &model))) {
        int found;
        const int32_t *ids = weft_model_eos(model, &found);
        if (CHECK_EQ_INT(found, n_expected))
            CHECK_BYTES(ids, expected, (size_t)found * sizeof *ids);
    }
    weft_model_free(model);
}

static void ends_of_turns_and_of_messages(void)
{
    ends_by_text(true, (const int32_t[]){92, 93}, 2);
    ends_by_text(false, (const int32_t[]){91, 92}, 2);
}

/* A file of architecture mistral3 whose queries do not grow with their position is a llama. */
static void mistrals_without_a_temperature(void)
{
    static const float scales[] = {0, 0, 0.1f};
    char path[512], copy[512], keys[32][128];
    const weft_gguf_string name = {"mistral3", 8};
    weft_gguf_value values[33];
    const char *names[64];
    weft_array *arrays[64];
    weft_gguf *file = NULL;
    if (!written("llama", "F32", path, sizeof path) || !CHECK_OK(weft_gguf_open(path, &file)))
        return;
    weft_scope_open();
    const int n = weft_gguf_count(file), n_values = weft_gguf_value_count(file);
    if (CHECK(n_values <= 32 && n <= 64)) {
        for (int i = 0; i < n_values; i++) {
            values[i] = *weft_gguf_value_at(file, i);
            if (strcmp(values[i].key, "general.architecture") == 0)
                values[i].strings = &name;
            if (strncmp(values[i].key, "llama.", 6) == 0) {
                snprintf(keys[i], sizeof keys[i], "mistral3.%s", values[i].key + 6);
                values[i].key = keys[i];
            }
        }
        for (int i = 0; i < n; i++) {
            names[i] = weft_gguf_at(file, i)->name;
            arrays[i] = weft_gguf_get_at(file, i);
        }
        snprintf(copy, sizeof copy, "%s", check_temporary("mistral3.gguf"));
        for (int k = 0; k < 3; k++) { /* without a scale, with 0, with a scale other than 0 */
            weft_model *model = NULL;
            values[n_values] = (weft_gguf_value){.key = "mistral3.attention.temperature_scale",
                                                 .type = WEFT_GGUF_FLOAT32,
                                                 .count = 1,
                                                 .data = &scales[k]};
            CHECK_OK(weft_gguf_save(copy, names, arrays, n, values, n_values + (k > 0)));
            if (k == 2) { /* needs the original context length, which no llama has */
                CHECK_STATUS(weft_model_load(copy, NULL, &model), WEFT_INVALID);
                CHECK_CONTAINS(weft_error_message(), "llama_4_scaling_beta");
            } else if (CHECK_OK(weft_model_load(copy, NULL, &model))) {
                CHECK_STR(weft_config_string(weft_model_config(model), "model_type", ""), "llama");
            }
            weft_model_free(model);
        }
    }
    weft_scope_close(NULL);
    weft_gguf_close(file);
}

CHECK_MAIN("gguf_models", CHECK_CASE(tokenizer), CHECK_CASE(ends_of_turns_and_of_messages),
           CHECK_CASE(mistrals_without_a_temperature), CHECK_CASE(float32_files),
           CHECK_CASE(blocks_and_halves), CHECK_CASE(in_place), CHECK_CASE(halves_stay_in_blocks),
           CHECK_CASE(one_by_one), CHECK_CASE(which_file), CHECK_CASE(what_is_refused),
           CHECK_CASE(files_without_an_epsilon_are_refused),
           CHECK_CASE(numbers_of_layers_are_limited), CHECK_CASE(absent_keys_of_experts))
