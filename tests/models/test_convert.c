/* tests/models/test_convert.c -- weft_convert: precisions and formats of folders, shards, text
 * files, and that its results are complete or absent. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>

#include "tests/check.h"
#include "tests/support/tokenizer_json.h"
#include "weft/weft.h"

static const char *golden(const char *family)
{
    static char name[128];
    snprintf(name, sizeof name, "tests/golden/models/%s", family);
    return check_source(name);
}

static const char *in(const char *folder, const char *file)
{
    static char path[640];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return path;
}

/* The number of files whose names begin with the text; -1: there is no such folder. */
static int count_files(const char *folder, const char *start)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        n += strncmp(e->d_name, start, strlen(start)) == 0;
    if (d == NULL)
        return -1;
    closedir(d);
    return n;
}

static weft_array *weight(weft_model *model, const char *path)
{
    weft_array **w = weft_nn_find(weft_model_module(model), path);
    return w ? *w : NULL;
}

/* Bits of a matrix of a converted model; 0: it is dense. */
static int64_t bits_of(weft_model *model, const char *path)
{
    weft_array *w = weight(model, path);
    const weft_encoding *e = w ? weft_encoding_of(w) : NULL;
    return e ? e->bits : 0;
}

#define V0 "model.layers.0.self_attn.v_proj.weight"
#define UP0 "model.layers.0.mlp.up_proj.weight"
#define EMBED "model.embed_tokens.weight"

/* The file's values are those of quantizing the source's matrix, as bfloat16. */
static void same_as_encoded(weft_model *model, weft_model *source, const char *path)
{
    weft_scope_open();
    weft_array *a = weight(model, path), *b = weight(source, path);
    if (CHECK(a && b && weft_encoding_of(a))) {
        b = weft_encode(weft_astype(b, WEFT_BFLOAT16), weft_encoding_of(a));
        weft_array *off = weft_abs(weft_subtract(weft_astype(weft_decode(a), WEFT_FLOAT32),
                                                 weft_astype(weft_decode(b), WEFT_FLOAT32)));
        CHECK_CLOSE(weft_item(weft_max(off, WEFT_ALL_AXES, false)), 0, 0);
    }
    weft_scope_close(NULL);
}

static void formats(void)
{
    static const struct {
        const char *name;
        weft_convert_options options;
        const char *says;
        int64_t bits;
    } cases[] = {
        {"four", {.quantize = true}, "\"bits\": 4", 4},
        {"eight",
         {.quantize = true, .format = {.bits = 8, .group_size = 32}},
         "\"group_size\": 32",
         8},
        {"mxfp4", {.quantize = true, .format = {.mode = WEFT_MXFP4}}, "\"mode\": \"mxfp4\"", 4},
        {"mxfp8", {.quantize = true, .format = {.mode = WEFT_MXFP8}}, "\"mode\": \"mxfp8\"", 8},
        {"nvfp4", {.quantize = true, .format = {.mode = WEFT_NVFP4}}, "\"mode\": \"nvfp4\"", 4},
    };
    weft_model *source = NULL;
    if (!CHECK_OK(weft_model_load(golden("qwen3"), NULL, &source)))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[512], *config = NULL;
        weft_model *model = NULL;
        weft_convert_report report = {0};
        snprintf(folder, sizeof folder, "%s", check_temporary(cases[i].name));
        if (!CHECK_OK(weft_convert(golden("qwen3"), folder, &cases[i].options, &report)) ||
            !CHECK_OK(weft_model_load(folder, NULL, &model)))
            continue;
        CHECK_EQ_INT(bits_of(model, UP0), cases[i].bits);
        CHECK_EQ_INT(bits_of(model, EMBED), cases[i].bits);
        same_as_encoded(model, source, UP0);
        if (CHECK_OK(weft_file_read(in(folder, "config.json"), 0, &config, NULL))) {
            CHECK_CONTAINS(config, "\"quantization\"");
            CHECK_CONTAINS(config, cases[i].says);
            CHECK_CONTAINS(config, "\"model_type\"");
        }
        CHECK(report.files == 1 && report.bytes > 0 && report.parameters > 0);
        weft_free(config);
        weft_model_free(model);
    }
    weft_model_free(source);
}

/* Routers are not quantized. */
static void routers_stay_dense(void)
{
    const weft_convert_options o = {.quantize = true, .format = {.bits = 8, .group_size = 32}};
    char folder[512];
    weft_model *model = NULL;
    snprintf(folder, sizeof folder, "%s", check_temporary("router"));
    if (!CHECK_OK(weft_convert(golden("qwen3-moe"), folder, &o, NULL)) ||
        !CHECK_OK(weft_model_load(folder, NULL, &model)))
        return;
    CHECK_EQ_INT(bits_of(model, V0), 8);
    CHECK(weight(model, "model.layers.0.mlp.gate.weight") != NULL);
    CHECK_EQ_INT(bits_of(model, "model.layers.0.mlp.gate.weight"), 0);
    weft_model_free(model);
}

static void widths_that_differ(void)
{
    char folder[512], mixed[512], *config = NULL;
    weft_model *model = NULL;
    const weft_convert_options rules = {.quantize = true,
                                        .overrides = "layers.0*v_proj=6,embed=none,lm_head=8"};
    snprintf(folder, sizeof folder, "%s", check_temporary("rules"));
    if (CHECK_OK(weft_convert(golden("qwen3"), folder, &rules, NULL)) &&
        CHECK_OK(weft_model_load(folder, NULL, &model))) {
        CHECK_EQ_INT(bits_of(model, V0), 6);
        CHECK_EQ_INT(bits_of(model, "model.layers.1.self_attn.v_proj.weight"), 4);
        CHECK_EQ_INT(bits_of(model, EMBED), 0);
        if (CHECK_OK(weft_file_read(in(folder, "config.json"), 0, &config, NULL)))
            CHECK_CONTAINS(config, "\"model.layers.0.self_attn.v_proj\": {");
        weft_free(config);
        weft_model_free(model);
    }
    snprintf(mixed, sizeof mixed, "%s", check_temporary("mixed"));
    const weft_convert_options recipe = {.recipe = "mixed_3_6"};
    if (CHECK_OK(weft_convert(golden("qwen3"), mixed, &recipe, NULL)) &&
        CHECK_OK(weft_model_load(mixed, NULL, &model))) {
        const int64_t L = weft_model_info_of(model)->n_layers;
        char last[64];
        snprintf(last, sizeof last, "model.layers.%d.self_attn.v_proj.weight", (int)L - 1);
        CHECK_EQ_INT(bits_of(model, last), 6);
        CHECK_EQ_INT(bits_of(model, UP0), 3);
        weft_model_free(model);
    }
}

static void shards(void)
{
    char folder[512], *index = NULL;
    weft_model *a = NULL, *b = NULL;
    weft_convert_report report = {0};
    const weft_convert_options options = {.shard_bytes = 200000};
    snprintf(folder, sizeof folder, "%s", check_temporary("shards"));
    if (!CHECK_OK(weft_convert(golden("qwen3"), folder, &options, &report)))
        return;
    CHECK(report.files > 2);
    CHECK_EQ_INT(count_files(folder, "model-0"), report.files);
    if (CHECK_OK(weft_file_read(in(folder, "model.safetensors.index.json"), 0, &index, NULL))) {
        CHECK_CONTAINS(index, "\"total_size\"");
        CHECK_CONTAINS(index, "\"" EMBED "\": \"model-0000");
    }
    weft_free(index);
    if (CHECK_OK(weft_model_load(folder, NULL, &a)) &&
        CHECK_OK(weft_model_load(golden("qwen3"), NULL, &b))) {
        weft_scope_open();
        weft_array *off = weft_abs(weft_subtract(weight(a, V0), weight(b, V0)));
        CHECK_CLOSE(weft_item(weft_max(off, WEFT_ALL_AXES, false)), 0, 0);
        weft_scope_close(NULL);
    }
    weft_model_free(a);
    weft_model_free(b);
}

/* A checkpoint that replaces one with another number of files removes all of its files. */
static void shards_of_an_earlier_checkpoint_are_removed(void)
{
    static const int64_t limits[] = {200000, 400000, 1 << 30, 200000};
    char folder[512];
    weft_model *a = NULL;
    snprintf(folder, sizeof folder, "%s", check_temporary("again"));
    if (!CHECK_OK(weft_model_load(golden("qwen3"), NULL, &a)))
        return;
    for (int i = 0; i < 4; i++) {
        int files = 0;
        const weft_nn_save_options options = {.shard_bytes = limits[i], .files = &files};
        CHECK_OK(weft_nn_save(weft_model_module(a), folder, &options));
        CHECK_EQ_INT(files > 1, i != 2);
        CHECK_EQ_INT(count_files(folder, "model-0"), files > 1 ? files : 0);
        CHECK_EQ_INT(count_files(folder, "model.safetensors"), 1); /* one file, or the index */
    }
    weft_model_free(a);
}

/* An existing folder is kept unless it is to be replaced, and a failure leaves no files. */
static void failed_conversions_leave_nothing(void)
{
    char folder[600], base[512];
    snprintf(base, sizeof base, "%s", check_temporary("base"));
    CHECK_OK(weft_folder_make(base));
    snprintf(folder, sizeof folder, "%s/out", base);
    CHECK_OK(weft_convert(golden("llama"), folder, NULL, NULL));
    CHECK_STATUS(weft_convert(golden("llama"), folder, NULL, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "out: is there already");
    const weft_convert_options again = {.replace = true, .type = "bf16"};
    CHECK_STATUS(weft_convert(golden("llama"), base, &again, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "only the folders of models are replaced");
    weft_model *model = NULL;
    CHECK_OK(weft_convert(golden("llama"), folder, &again, NULL));
    if (CHECK_OK(weft_model_load(folder, NULL, &model)))
        CHECK_EQ_INT(weft_dtype_of(weight(model, V0)), WEFT_BFLOAT16);
    weft_model_free(model);

    char other[600];
    snprintf(other, sizeof other, "%s/fifo", base);
    struct stat info;
    CHECK(mkfifo(other, 0600) == 0);
    CHECK_STATUS(weft_convert(golden("llama"), other, &again, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "fifo: not a regular file");
    CHECK(stat(other, &info) == 0 && S_ISFIFO(info.st_mode) && unlink(other) == 0);
    snprintf(other, sizeof other, "%s/broken", base);
    const weft_convert_options seven = {.quantize = true, .format = {.bits = 7}};
    CHECK_STATUS(weft_convert(golden("llama"), other, &seven, NULL), WEFT_INVALID);
    const weft_convert_options nine = {.quantize = true, .overrides = "v_proj=9"};
    CHECK_STATUS(weft_convert(golden("llama"), other, &nine, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected 2, 3, 4, 5, 6, 8 or none, got 9");
    const weft_convert_options misspelt = {.quantize = true, .overrides = "v_proj=6,vproj=8"};
    CHECK_STATUS(weft_convert(golden("qwen3"), check_temporary("misspelt"), &misspelt, NULL),
                 WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "override 'vproj': no matrix has it in its path");
    const weft_convert_options tensor = {.quantize = true, .overrides = "input_layernorm=8"};
    CHECK_STATUS(weft_convert(golden("qwen3"), check_temporary("misspelt"), &tensor, NULL),
                 WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "override 'input_layernorm'");
    const weft_convert_options shaped = {.quantize = true, .overrides = "v_proj"};
    CHECK_STATUS(weft_convert(golden("llama"), other, &shaped, NULL), WEFT_INVALID);
    const weft_convert_options cake = {.recipe = "cake"};
    CHECK_STATUS(weft_convert(golden("llama"), other, &cake, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "recipe 'cake' is unknown");
    const weft_convert_options q8 = {.type = "q8_0"};
    CHECK_STATUS(weft_convert(golden("llama"), other, &q8, NULL), WEFT_UNSUPPORTED);
    snprintf(other, sizeof other, "%s/broken.gguf", base);
    const weft_convert_options four = {.quantize = true};
    CHECK_STATUS(weft_convert(golden("llama"), other, &four, NULL), WEFT_UNSUPPORTED);
    CHECK_STATUS(weft_convert(golden("rope-dynamic"), other, NULL, NULL), WEFT_UNSUPPORTED);
    CHECK_EQ_INT(count_files(base, "broken"), 0);
    CHECK_EQ_INT(count_files(base, "out"), 1);
}

static void types_of_a_gguf_file(void)
{
    char path[512];
    weft_gguf *file = NULL;
    const weft_convert_options options = {.type = "q8_0", .overrides = "v_proj=f16,embed=Q4_0"};
    snprintf(path, sizeof path, "%s", check_temporary("types.gguf"));
    if (!CHECK_OK(weft_convert(golden("llama"), path, &options, NULL)) ||
        !CHECK_OK(weft_gguf_open(path, &file)))
        return;
    static const char *const expected[][2] = {{"blk.0.attn_v.weight", "F16"},
                                              {"blk.0.attn_q.weight", "Q8_0"},
                                              {"token_embd.weight", "Q4_0"},
                                              {"blk.0.attn_norm.weight", "F32"}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const int at = weft_gguf_find(file, expected[i][0]);
        if (CHECK(at >= 0))
            CHECK_STR(weft_gguf_at(file, at)->type, expected[i][1]);
    }
    weft_gguf_close(file);
}

/* A small file system: the conversion fails before it writes, and leaves nothing. */
static void free_space_is_checked_first(void)
{
    char command[700], folder[512], file[600];
    snprintf(folder, sizeof folder, "%s", check_temporary("full"));
    CHECK_OK(weft_folder_make(folder));
    snprintf(command, sizeof command, "mount -t tmpfs -o size=1m tmpfs '%s' 2>/dev/null", folder);
    if (system(command) != 0) {
        check_skip("a small file system cannot be mounted here");
        return;
    }
    static const char *const names[] = {"out", "out.gguf"};
    for (int i = 0; i < 2; i++) {
        snprintf(file, sizeof file, "%s/%s", folder, names[i]);
        CHECK_STATUS(weft_convert(check_source("examples/storyteller"), file, NULL, NULL), WEFT_IO);
        CHECK_CONTAINS(weft_error_message(), "MB are to be written, but only");
        CHECK_CONTAINS(weft_error_message(), file);
        CHECK_EQ_INT(count_files(folder, "out"), 0);
    }
    snprintf(command, sizeof command, "umount '%s'", folder);
    CHECK_EQ_INT(system(command), 0);
}

/* ---- configurations of GGUF files -------------------------------------------------------------
 */

/* The configuration that a folder from a GGUF file of `folder` has. The caller drops it. */
static json_object *configured(const char *folder, const char *name)
{
    char file[512], back[512];
    snprintf(file, sizeof file, "%s", check_temporary("configured.gguf"));
    snprintf(back, sizeof back, "%s", check_temporary("configured"));
    const weft_convert_options replace = {.replace = true};
    json_object *root = NULL;
    if (CHECK_OK(weft_convert(folder, file, &replace, NULL)) &&
        CHECK_OK(weft_convert(file, back, &replace, NULL)))
        root = json_object_from_file(in(back, name));
    CHECK(root != NULL);
    return root;
}

static const char *text_of(json_object *root, const char *key)
{
    json_object *value = json_object_object_get(root, key);
    return value ? json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN) : "absent";
}

/* The last folder of `configured` has the tensors of the checkpoint, under their names. */
static void same_names(const char *checkpoint)
{
    weft_safetensors *a = NULL, *b = NULL;
    if (CHECK_OK(weft_safetensors_open_folder(check_temporary("configured"), &a)) &&
        CHECK_OK(weft_safetensors_open_folder(checkpoint, &b))) {
        CHECK_EQ_INT(weft_safetensors_count(a), weft_safetensors_count(b));
        for (int i = 0; i < weft_safetensors_count(b); i++) {
            const char *name = weft_safetensors_name(b, i);
            if (weft_safetensors_find(a, name) < 0)
                CHECK_FAIL("%s: %s is missing", checkpoint, name);
        }
    }
    weft_safetensors_close(a);
    weft_safetensors_close(b);
}

/* Members that transformers, vLLM and llama.cpp's converter need besides the numbers. */
static void configurations_name_their_class(void)
{
    static const char *const fixtures[][3] = {
        {"llama", "[\"LlamaForCausalLM\"]", "float32"},
        {"mistral", "[\"MistralForCausalLM\"]", "float32"},
        {"mixtral", "[\"MixtralForCausalLM\"]", "float32"},
        {"ministral3", "[\"Ministral3ForCausalLM\"]", "float32"},
        {"gemma2", "[\"Gemma2ForCausalLM\"]", "float32"},
        {"gemma3", "[\"Gemma3ForCausalLM\"]", "float32"},
        {"gemma4-dense", "[\"Gemma4ForCausalLM\"]", "float32"},
        {"gemma4-moe", "[\"Gemma4ForCausalLM\"]", "float32"},
        {"qwen2", "[\"Qwen2ForCausalLM\"]", "float32"},
        {"qwen3", "[\"Qwen3ForCausalLM\"]", "float32"},
        {"qwen3-moe", "[\"Qwen3MoeForCausalLM\"]", "float32"},
        {"minicpm", "[\"MiniCPMForCausalLM\"]", "float32"},
    };
    char folder[512];
    for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
        snprintf(folder, sizeof folder, "models/%s", fixtures[i][0]);
        json_object *root = configured(check_fixture(folder), "config.json");
        CHECK_STR(text_of(root, "architectures"), fixtures[i][1]);
        json_object *dtype = json_object_object_get(root, "dtype");
        CHECK_STR(json_object_get_string(dtype), fixtures[i][2]);
        json_object *cap = json_object_object_get(root, "final_logit_softcapping");
        CHECK(cap == NULL || json_object_is_type(cap, json_type_double)); /* its class checks it */
        json_object_put(root);
        if (strcmp(fixtures[i][0], "ministral3") != 0) /* multimodal: only its text model remains */
            same_names(check_fixture(folder));
    }
}

/* One end token is an integer, several are a list without repeats. */
static void eos_tokens_are_listed_once(void)
{
    static const char *const files[] = {"config.json", "generation_config.json"};
    for (int i = 0; i < 2; i++) {
        json_object *root = configured(check_source("examples/storyteller"), files[i]);
        CHECK_STR(text_of(root, "eos_token_id"), "[4093,4095]");
        CHECK_STR(text_of(root, "pad_token_id"), "4093");
        json_object_put(root);
        root = configured(check_fixture("models/qwen3"), files[i]);
        CHECK_STR(text_of(root, "eos_token_id"), "2");
        json_object_put(root);
    }
}

/* Frequency divisors of Llama 3.1 to 3.3, which GGUF files have as a tensor, and others. */
static void llama3_is_recognized(void)
{
    static const struct {
        const char *rope, *type;
    } ropes[] = {
        {"{\"rope_type\":\"llama3\",\"factor\":32.0,\"low_freq_factor\":1.0,"
         "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192}",
         "llama3"},
        {"{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
         "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192}",
         "llama3"},
        {"{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":2.0,"
         "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192}",
         "longrope"},
    };
    char file[512], text[700];
    snprintf(file, sizeof file, "%s", check_temporary("rope.gguf"));
    for (size_t i = 0; i < sizeof ropes / sizeof *ropes; i++) {
        weft_config *config = NULL;
        weft_model *model = NULL, *again = NULL;
        snprintf(text, sizeof text,
                 "{\"model_type\":\"llama\",\"vocab_size\":8,\"hidden_size\":128,"
                 "\"num_hidden_layers\":1,\"num_attention_heads\":1,\"intermediate_size\":8,"
                 "\"max_position_embeddings\":131072,\"rope_theta\":500000.0,"
                 "\"rope_scaling\":%s}",
                 ropes[i].rope);
        if (CHECK_OK(weft_config_parse(text, "config", &config)) &&
            CHECK_OK(weft_model_new(config, &model)) &&
            CHECK_OK(weft_model_save_gguf(model, file, NULL)) &&
            CHECK_OK(weft_model_load(file, NULL, &again))) {
            json_object *root = json_tokener_parse(weft_config_text(weft_model_config(again)));
            json_object *rope = json_object_object_get(root, "rope_scaling");
            CHECK_STR(json_object_get_string(json_object_object_get(rope, "rope_type")),
                      ropes[i].type);
            if (strcmp(ropes[i].type, "llama3") == 0) {
                json_object *original = json_tokener_parse(ropes[i].rope);
                CHECK(json_object_equal(rope, original));
                json_object_put(original);
            }
            json_object_put(root);
        }
        weft_model_free(again);
        weft_model_free(model);
        weft_config_free(config);
    }
}

static void ids_equal(const weft_tokenizer *a, const weft_tokenizer *b, const char *text)
{
    int32_t *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    const unsigned flags = WEFT_TOKENIZER_ADD_SPECIAL;
    CHECK_OK(weft_tokenizer_encode(a, text, strlen(text), flags, &x, &n));
    CHECK_OK(weft_tokenizer_encode(b, text, strlen(text), flags, &y, &m));
    CHECK(n == m && memcmp(x, y, n * sizeof *x) == 0);
    weft_free(x);
    weft_free(y);
}

/* Folder -> file -> folder, and folder -> folder: the same tokens and prompts. */
static void text_comes_along(void)
{
    char folder[512], file[512], back[512], copy[512];
    snprintf(folder, sizeof folder, "%s", check_source("examples/storyteller"));
    snprintf(file, sizeof file, "%s", check_temporary("story.gguf"));
    snprintf(back, sizeof back, "%s", check_temporary("back"));
    snprintf(copy, sizeof copy, "%s", check_temporary("copy"));
    if (!CHECK_OK(weft_convert(folder, file, NULL, NULL)) ||
        !CHECK_OK(weft_convert(file, back, NULL, NULL)) ||
        !CHECK_OK(weft_convert(folder, copy, NULL, NULL)))
        return;
    const char *const paths[] = {back, copy};
    for (int i = 0; i < 2; i++) {
        weft_tokenizer *a = NULL, *b = NULL;
        weft_chat *x = NULL, *y = NULL;
        if (CHECK_OK(weft_tokenizer_load(folder, &a)) &&
            CHECK_OK(weft_tokenizer_load(paths[i], &b))) {
            ids_equal(a, b, "Once upon\n\n a time <|im_start|>12 e\xCC\x81");
            check_tokenizer_json(paths[i], a);
        }
        if (CHECK_OK(weft_chat_load(folder, &x)) && CHECK_OK(weft_chat_load(paths[i], &y)))
            CHECK_STR(weft_chat_source(y, NULL), weft_chat_source(x, NULL));
        CHECK_EQ_INT(weft_tokenizer_bos(b), weft_tokenizer_bos(a));
        CHECK_EQ_INT(weft_tokenizer_pad(b), weft_tokenizer_pad(a));
        weft_tokenizer_free(a);
        weft_tokenizer_free(b);
        weft_chat_free(x);
        weft_chat_free(y);
    }
    snprintf(copy, sizeof copy, "%s", check_temporary("bare"));
    const weft_convert_options bare = {.no_tokenizer = true};
    CHECK_OK(weft_convert(folder, copy, &bare, NULL));
    CHECK_EQ_INT(count_files(copy, "tokenizer"), 0);
}

/* Saves a model with one value of a parameter replaced. */
static bool save_with(const char *path, int64_t index, float value, const char *folder)
{
    weft_model *model = NULL;
    bool saved = false;
    if (!CHECK_OK(weft_model_load(golden("qwen3"), NULL, &model)))
        return false;
    weft_scope_open();
    weft_array **slot = weft_nn_find(weft_model_module(model), path);
    const int64_t n = weft_size(*slot);
    float *values = weft_malloc((size_t)n * sizeof *values);
    if (CHECK(values != NULL) && CHECK_OK(weft_read(*slot, WEFT_FLOAT32, values, n))) {
        values[index] = value;
        saved = CHECK_OK(weft_set(slot, weft_from_data(values, WEFT_FLOAT32, weft_shape(*slot)))) &&
                CHECK_OK(weft_model_save(model, folder));
    }
    weft_scope_close(NULL);
    weft_free(values);
    weft_model_free(model);
    return saved;
}

/* A copy keeps values that are not finite. They are refused where they are rounded, quantized or
 * new, with the tensor and the index of the first. */
static void values_that_are_not_finite(void)
{
    static const struct {
        const char *path;
        int64_t index;
        float value;
        const char *out;
        weft_convert_options options;
        const char *message; /* NULL: written */
    } cases[] = {
        {UP0, 5000, NAN, "n", {0}, NULL},
        {UP0, 5000, INFINITY, "n.gguf", {0}, NULL},
        {UP0, 70, 1e30F, "n", {.type = "bf16"}, NULL},
        {UP0, 5000, NAN, "n", {.type = "bf16"}, "'" UP0 "': value 5000 would be NaN"},
        {UP0, 70, 1e30F, "n", {.type = "f16"}, "'" UP0 "': value 70 would be NaN or infinite"},
        {UP0, 70, -INFINITY, "n.gguf", {.type = "f32"}, "'blk.0.ffn_up.weight': value 70 would"},
        {UP0, 70, NAN, "n.gguf", {.type = "q8_0"}, "'blk.0.ffn_up.weight': value 70 is NaN or"},
        {UP0, 0, INFINITY, "n.gguf", {.type = "q4_0"}, "which Q4_0 cannot store"},
        {UP0, 70, NAN, "n", {.quantize = true}, "model.layers.0.mlp.up_proj."},
        {UP0, 70, INFINITY, "n", {.quantize = true}, "model.layers.0.mlp.up_proj."},
        {"model.norm.weight", 3, NAN, "n", {.quantize = true}, "'model.norm.weight': value 3 "},
    };
    char folder[512], out[600];
    snprintf(folder, sizeof folder, "%s", check_temporary("not-finite"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_convert_options o = cases[i].options;
        o.replace = true;
        snprintf(out, sizeof out, "%s", check_temporary(cases[i].out));
        if (!save_with(cases[i].path, cases[i].index, cases[i].value, folder))
            return;
        const weft_status status = weft_convert(folder, out, &o, NULL);
        CHECK_EQ_INT(status, cases[i].message ? WEFT_INVALID : WEFT_OK);
        if (status != WEFT_OK && cases[i].message)
            CHECK_CONTAINS(weft_error_message(), cases[i].message);
    }
}

CHECK_MAIN("convert", CHECK_CASE(formats), CHECK_CASE(routers_stay_dense),
           CHECK_CASE(widths_that_differ), CHECK_CASE(shards),
           CHECK_CASE(shards_of_an_earlier_checkpoint_are_removed),
           CHECK_CASE(failed_conversions_leave_nothing), CHECK_CASE(types_of_a_gguf_file),
           CHECK_CASE(free_space_is_checked_first), CHECK_CASE(configurations_name_their_class),
           CHECK_CASE(eos_tokens_are_listed_once), CHECK_CASE(llama3_is_recognized),
           CHECK_CASE(text_comes_along), CHECK_CASE(values_that_are_not_finite))
