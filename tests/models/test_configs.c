/* tests/models/test_configs.c -- configurations that are read in an uncommon way, against
 * transformers (tests/golden/models/configs.py), and folders that are not models that Weft reads.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "weft/io.h"
#include "weft/memory.h"
#include "weft/model.h"
#include "weft/op.h"
#include "weft/tokenizer.h"

static void write_file(const char *folder, const char *name, const char *text)
{
    char *path = weft_format("%s/%s", folder, name);
    CHECK_OK(weft_file_write(path, text, strlen(text)));
    weft_free(path);
}

/* A new folder with this config.json and the weights of a fixture (NULL: none). */
static const char *make_folder(const char *fixture, const char *config)
{
    static int n;
    char *name = weft_format("model-%d", n++);
    const char *folder = check_temporary(name);
    weft_free(name);
    CHECK(mkdir(folder, 0700) == 0);
    write_file(folder, "config.json", config);
    if (fixture) {
        char *from = weft_format("models/%s/model.safetensors", fixture);
        char *to = weft_format("%s/model.safetensors", folder);
        CHECK(symlink(check_fixture(from), to) == 0);
        weft_free(from);
        weft_free(to);
    }
    return folder;
}

enum { LENGTH = 30 };

static double largest_difference(weft_model *model, json_object *ids, json_object *expected)
{
    int32_t tokens[LENGTH];
    double worst = 0;
    for (size_t i = 0; i < LENGTH; i++)
        tokens[i] = json_object_get_int(json_object_array_get_idx(ids, i));
    weft_scope_open();
    weft_array *in = weft_from_data(tokens, WEFT_INT32, WEFT_DIMS(1, LENGTH));
    weft_array *logits = weft_model_forward(model, in, NULL);
    weft_array *last = weft_slice_axis(logits, 1, LENGTH - 1, LENGTH);
    for (size_t i = 0; i < json_object_array_length(expected); i++) {
        const double got = weft_item(weft_slice_axis(last, 2, (int64_t)i, (int64_t)i + 1));
        const double off = got - json_object_get_double(json_object_array_get_idx(expected, i));
        worst = off > worst ? off : -off > worst ? -off : worst;
    }
    weft_scope_close(NULL);
    return worst;
}

static void logits_are_those_of_transformers(void)
{
    weft__json_doc doc;
    int refused = 0;
    if (!CHECK_OK(weft__json_read(check_fixture("models/configs.json"), &doc)))
        return;
    for (size_t i = 0; i < json_object_array_length(doc.root); i++) {
        json_object *item = json_object_array_get_idx(doc.root, i), *expected = NULL;
        const char *fixture = json_object_get_string(json_object_object_get(item, "fixture"));
        const char *config = json_object_to_json_string(json_object_object_get(item, "config"));
        weft_model *model = NULL;
        const weft_status status = weft_model_load(make_folder(fixture, config), NULL, &model);
        if (!json_object_object_get_ex(item, "logits", &expected)) {
            CHECK_STATUS(status, WEFT_UNSUPPORTED);
            CHECK_CONTAINS(weft_error_message(), "partial_rotary_factor 0.5: expected none");
            refused++;
        } else if (CHECK_OK(status) &&
                   !CHECK_CLOSE(
                       largest_difference(model, json_object_object_get(item, "ids"), expected), 0,
                       2e-4)) {
            printf("  it was %s with %s\n", fixture, config);
        }
        weft_model_free(model);
    }
    CHECK_EQ_INT(refused, 5);
    CHECK(json_object_array_length(doc.root) >= 25);
    weft__json_free(&doc);
}

/* Saves a fixture as GGUF and halves rope.dimension_count in the file. */
static const char *halved_gguf(const char *fixture)
{
    static const char key[] = ".rope.dimension_count";
    char *bytes = NULL, *name = weft_format("%s.gguf", fixture);
    char *from = weft_format("models/%s", fixture);
    size_t n = 0;
    weft_model *model = NULL;
    const char *path = check_temporary(name);
    CHECK_OK(weft_model_load(check_fixture(from), NULL, &model));
    CHECK_OK(weft_model_save_gguf(model, path, NULL));
    CHECK_OK(weft_file_read(path, 0, &bytes, &n));
    char *at = memmem(bytes, n, key, sizeof key - 1);
    if (CHECK(at != NULL)) {
        at += sizeof key - 1 + 4; /* the type */
        *at = (char)(*at / 2);
        CHECK_OK(weft_file_write(path, bytes, n));
    }
    weft_free(bytes);
    weft_free(from);
    weft_free(name);
    weft_model_free(model);
    return path;
}

static void the_rotated_part_of_gguf_heads_counts(void)
{
    weft_model *model = NULL;
    if (CHECK_OK(weft_model_load(halved_gguf("qwen2"), NULL, &model)))
        CHECK_EQ_INT(weft_config_int(weft_model_config(model), "rope_dimension_count", 0), 8);
    weft_model_free(model);
    model = NULL;
    CHECK_STATUS(weft_model_load(halved_gguf("llama"), NULL, &model), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(),
                   "llama.rope.dimension_count: expected the size of a head, 16, got 8");
    weft_model_free(model);
}

static void refused(const char *folder, weft_status expected, const char *message)
{
    weft_model *model = NULL;
    CHECK_STATUS(weft_model_load(folder, NULL, &model), expected);
    CHECK_CONTAINS(weft_error_message(), message);
    weft_model_free(model);
}

static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n"
                              "oid sha256:0123456789abcdef\nsize 4096\n";

static void folders_that_are_not_read(void)
{
    refused(make_folder("llama", "{\"hidden_size\": 32}"), WEFT_INVALID, "model_type is missing");
    refused(make_folder("llama", "{\"architectures\": [\"GPT2LMHeadModel\"]}"), WEFT_UNSUPPORTED,
            "architectures[0] 'GPT2LMHeadModel' is unknown");
    refused(make_folder("llama", "{\"architectures\": [7]}"), WEFT_INVALID,
            "architectures[0]: expected string");
    refused(make_folder(NULL, "{\"model_type\": \"t5\"}"), WEFT_UNSUPPORTED,
            "model_type 't5' is unknown");
    const char *pickle = make_folder(NULL, "{\"model_type\": \"llama\"}");
    refused(pickle, WEFT_IO, "there is no .safetensors file");
    write_file(pickle, "training_args.bin", "x");
    refused(pickle, WEFT_IO, "there is no .safetensors file");
    write_file(pickle, "pytorch_model.bin", "x");
    refused(pickle, WEFT_UNSUPPORTED, "found pytorch_model.bin (PyTorch pickles");
    const char *lfs = make_folder(NULL, "{\"model_type\": \"llama\"}");
    write_file(lfs, "model.safetensors", pointer);
    refused(lfs, WEFT_INVALID, "model.safetensors: this is a Git LFS pointer");
    refused(make_folder("llama", pointer), WEFT_INVALID, "config.json: this is a Git LFS pointer");
    write_file(lfs, "tokenizer.json", pointer);
    weft_tokenizer *tokenizer = NULL;
    CHECK_STATUS(weft_tokenizer_load(lfs, &tokenizer), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "tokenizer.json: this is a Git LFS pointer");
    write_file(lfs, "m.gguf", pointer);
    char *gguf = weft_format("%s/m.gguf", lfs);
    refused(gguf, WEFT_INVALID, "m.gguf: this is a Git LFS pointer");
    weft_free(gguf);
}

/* Values that no model has, and the messages. */
static const char *const wrong[][2] = {
    /* zero would mean no scale, or different norms */
    {"\"granite\",\"logits_scaling\":0", "logits_scaling: expected a positive number, got 0"},
    {"\"granite\",\"residual_multiplier\":-1", "residual_multiplier: expected a positive"},
    {"\"granitemoehybrid\",\"num_local_experts\":0,\"mamba_n_groups\":3",
     "mamba_n_heads: expected a multiple of mamba_n_groups 3, got 128"},
    {"\"granitemoehybrid\",\"num_local_experts\":0,\"mamba_d_conv\":1",
     "mamba_d_conv: expected 2 to 256, got 1"},
    {"\"granitemoehybrid\",\"num_experts_per_tok\":9",
     "num_experts_per_tok: expected at most 8, got 9"},
    {"\"granitemoehybrid\",\"time_step_limit\":[0.1,0.001]",
     "time_step_limit: expected a number of at least 0 and a larger one, got 0.1 and 0.001"},
    {"\"granitemoehybrid\",\"time_step_limit\":[0.1]", "time_step_limit"},
    {"\"granitemoehybrid\",\"time_step_limit\":[\"a\",1]",
     "time_step_limit: expected a number of at least 0 and a larger one, got nan and 1"},
    {"\"falcon_h1\",\"key_multiplier\":0", "key_multiplier: expected a number other than 0, got 0"},
    {"\"falcon_h1\",\"mamba_n_heads\":16,\"ssm_multipliers\":[1,1]",
     "ssm_multipliers: expected 5 numbers, got 2"},
    {"\"falcon_h1\",\"mamba_n_heads\":16,\"mlp_multipliers\":[1,0]",
     "mlp_multipliers[1]: expected a number other than 0"},
    {"\"falcon_h1\",\"mamba_d_ssm\":96,\"mamba_d_head\":4",
     "mamba_n_heads: expected a divisor of the width of all heads, 96, with heads of"},
    {"\"nemotron_h\",\"n_group\":2", "n_group: groups of experts are unsupported"},
    {"\"nemotron_h\",\"mlp_hidden_act\":\"silu\"", "others than relu2 and silu are unsupported"},
    {"\"nemotron_h\",\"layers_block_type\":[\"mlp\"]",
     "unsupported without a layer of Mamba 2 or attention"},
    {"\"nemotron_h\",\"hybrid_override_pattern\":\"MX\"",
     "hybrid_override_pattern: layer 1: unsupported kind: expected one of linear_attention"},
    {"\"nemotron_h\",\"layers_block_type\":[]", "num_hidden_layers: expected 1 to 4096, got 0"},
    {"\"nemotron_h\",\"hybrid_override_pattern\":\"ME\",\"n_routed_experts\":0",
     "n_routed_experts: expected at least 1 with layers of experts, got 0"},
    {"\"nemotron_h\",\"hybrid_override_pattern\":\"M*\",\"num_hidden_layers\":3",
     "num_hidden_layers: expected the number of kinds of layers, 2, got 3"},
    {"\"nemotron_h\",\"mamba_num_heads\":9",
     "mamba_num_heads: expected a multiple of n_groups 8, got 9"},
    {"\"lfm2_moe\",\"num_dense_layers\":-1", "0 and a positive number, got -1"},
    {"\"lfm2_moe\",\"routed_scaling_factor\":0", "got 2 and 0"},
    {"\"lfm2\",\"conv_L_cache\":1", "conv_L_cache: expected 2 to 256, got 1"},
    {"\"lfm3\",\"sliding_window\":0,\"rope_parameters\":{\"full_attention\":{\"rope_type\":"
     "\"default\"},\"sliding_attention\":{\"rope_type\":\"default\"}}",
     "sliding_window: expected a positive number, got 0"},
    {"\"lfm2\",\"block_multiple_of\":0", "block_multiple_of, block_ffn_dim_multiplier: "},
    {"\"cohere2\",\"logit_scale\":0", "logit_scale: expected positive numbers"},
    {"\"cohere2\",\"layer_norm_eps\":0", "layer_norm_eps, logit_scale: expected positive"},
};

static void values_that_no_model_has(void)
{
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_config *config = NULL;
        weft_model *model = NULL;
        char *text = weft_format("{\"model_type\":%s}", wrong[i][0]);
        if (CHECK_OK(weft_config_parse(text, "config.json", &config))) {
            const bool unsupported = strstr(wrong[i][1], "unsupported") != NULL;
            CHECK_STATUS(weft_model_new(config, &model),
                         unsupported ? WEFT_UNSUPPORTED : WEFT_INVALID);
            CHECK_CONTAINS(weft_error_message(), wrong[i][1]);
        }
        weft_config_free(config);
        weft_free(text);
    }
}

CHECK_MAIN("configs", CHECK_CASE(logits_are_those_of_transformers),
           CHECK_CASE(the_rotated_part_of_gguf_heads_counts), CHECK_CASE(folders_that_are_not_read),
           CHECK_CASE(values_that_no_model_has))
