/* tests/models/test_model.c -- loading and saving models: layouts of checkpoints, malformed ones,
 * and a program's own family. Public headers alone. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "weft/model.h"
#include "weft/nn_tools.h"

static const char tiny[] =
    "{\"model_type\":\"llama\",\"vocab_size\":20,\"hidden_size\":8,\"intermediate_size\":12,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
    "\"tie_word_embeddings\":true,\"eos_token_id\":[3,5]}";

static void write_text(const char *path, const char *text)
{
    CHECK_OK(weft_file_write(path, text, strlen(text)));
}

static weft_model *make(const char *text)
{
    weft_config *config;
    weft_model *model = NULL;
    if (CHECK_OK(weft_config_parse(text, "config.json", &config)))
        CHECK_OK(weft_model_new(config, &model));
    weft_config_free(config);
    return model;
}

/* ids (1, 6) */
static weft_array *ids(void)
{
    static const int32_t values[] = {1, 7, 19, 0, 4, 7};
    return weft_from_data(values, WEFT_INT32, WEFT_DIMS(1, 6));
}

static double difference(weft_array *a, weft_array *b)
{
    return weft_item(weft_max(weft_abs(weft_subtract(a, b)), WEFT_ALL_AXES, false));
}

/* A folder with a saved tiny model. */
static const char *tiny_folder(const char *name)
{
    const char *folder = check_temporary(name);
    weft_model *model = make(tiny);
    if (model)
        CHECK_OK(weft_model_save(model, folder));
    weft_model_free(model);
    return folder;
}

static void a_saved_model_is_loaded_again(void)
{
    const char *folder = check_temporary("saved/model");
    weft_model *a = make(tiny), *b = NULL;
    weft_scope_open();
    if (CHECK(a != NULL) && CHECK_OK(weft_model_save(a, folder)) &&
        CHECK_OK(weft_model_load(folder, NULL, &b))) {
        weft_array *x = weft_model_forward(a, ids(), NULL), *y = weft_model_forward(b, ids(), NULL);
        CHECK_CLOSE(difference(x, y), 0, 0);
        int n;
        const int32_t *eos = weft_model_eos(b, &n);
        CHECK_EQ_INT(n, 2);
        CHECK_EQ_INT(eos[1], 5);
        CHECK(weft_model_info_of(b)->tied);
        CHECK_STR(weft_model_family_of(b)->model_type, "llama");
        CHECK_STR(weft_config_text(weft_model_config(b)), tiny);
        CHECK_OK(weft_nn_lora_inject(weft_model_module(b), NULL));
        CHECK_STATUS(weft_model_save(b, folder), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "the model has adapters");
    }
    weft_scope_close(NULL);
    weft_model_free(a);
    weft_model_free(b);
    weft_model_free(NULL);
}

static void the_ids_that_end_are_of_both_files(void)
{
    const char *folder = tiny_folder("eos");
    write_text(check_temporary("eos/generation_config.json"), "{\"eos_token_id\":[5,9]}");
    weft_model *m;
    if (CHECK_OK(weft_model_load(folder, NULL, &m))) {
        int n;
        const int32_t *eos = weft_model_eos(m, &n);
        CHECK_EQ_INT(n, 3);
        CHECK_EQ_INT(eos[2], 9);
    }
    weft_model_free(m);
    write_text(check_temporary("eos/generation_config.json"), "{\"eos_token_id\":\"x\"}");
    CHECK_STATUS(weft_model_load(folder, NULL, &m), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "generation_config.json: eos_token_id");
}

/* ---- other names ---------------------------------------------------------------------------- */

static bool wrap(void *context, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s%s", (const char *)context, name);
    return true;
}

/* Saves a model under names with a prefix, and with a tensor more. */
static void save_prefixed(weft_model *m, const char *path, char *prefix, const char *extra)
{
    weft_safetensors *file;
    const char *first = check_temporary("prefixed.safetensors");
    CHECK_OK(weft_nn_save(weft_model_module(m), first,
                          &(weft_nn_save_options){.rename = wrap, .context = prefix}));
    if (!CHECK_OK(weft_safetensors_open(first, &file)))
        return;
    const char *names[64];
    weft_array *arrays[64];
    int n = weft_safetensors_count(file);
    weft_scope_open();
    for (int i = 0; i < n; i++) {
        names[i] = weft_safetensors_name(file, i);
        arrays[i] = weft_safetensors_get_at(file, i);
    }
    names[n] = extra;
    arrays[n++] = weft_zeros(WEFT_DIMS(3), WEFT_FLOAT32);
    CHECK_OK(weft_safetensors_save(path, names, arrays, n, NULL, 0));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
}

static void prefixes_and_towers_are_passed_over(void)
{
    char outer[] = "language_model.";
    const char *folder = check_temporary("wrapped");
    const char *weights = check_temporary("wrapped/model.safetensors");
    char config[600];
    CHECK_OK(weft_folder_make(folder));
    snprintf(config, sizeof config, "{\"model_type\":\"some_wrapper\",\"text_config\":%s}", tiny);
    write_text(check_temporary("wrapped/config.json"), config);
    weft_model *a = make(tiny), *b = NULL;
    weft_scope_open();
    if (CHECK(a != NULL)) {
        save_prefixed(a, weights, outer, "vision_tower.patch.weight");
        if (CHECK_OK(weft_model_load(folder, NULL, &b)))
            CHECK_CLOSE(
                difference(weft_model_forward(a, ids(), NULL), weft_model_forward(b, ids(), NULL)),
                0, 0);
        weft_model_free(b);
        save_prefixed(a, weights, outer, "model.layers.0.self_attn.rotary_emb.inv_freq");
        CHECK_OK(weft_model_load(folder, NULL, &b));
        weft_model_free(b);
        save_prefixed(a, weights, outer, "model.layers.7.extra");
        CHECK_STATUS(weft_model_load(folder, NULL, &b), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "1 unexpected: model.layers.7.extra");
    }
    weft_scope_close(NULL);
    weft_model_free(a);
}

/* ---- malformed checkpoints ------------------------------------------------------------------ */

static void load_refused(const char *folder, weft_status status, const char *part)
{
    weft_model *m;
    CHECK_STATUS(weft_model_load(folder, NULL, &m), status);
    CHECK(m == NULL);
    CHECK_CONTAINS(weft_error_message(), part);
}

static void new_refused(const char *text, weft_status status, const char *part)
{
    weft_config *config;
    weft_model *m;
    if (!CHECK_OK(weft_config_parse(text, "config.json", &config)))
        return;
    CHECK_STATUS(weft_model_new(config, &m), status);
    CHECK(m == NULL);
    CHECK_CONTAINS(weft_error_message(), part);
    weft_config_free(config);
}

static void folders_without_a_checkpoint_are_refused(void)
{
    const char *folder = check_temporary("nothing");
    load_refused(folder, WEFT_IO, "nothing/config.json: open: No such file");
    CHECK_OK(weft_folder_make(folder));
    write_text(check_temporary("nothing/config.json"), tiny);
    load_refused(folder, WEFT_IO, "nothing: there is no .safetensors file");
    write_text(check_temporary("nothing/config.json"), "{\"hidden_size\":");
    load_refused(folder, WEFT_INVALID, "nothing/config.json: column 16");
    weft_model *m;
    CHECK_STATUS(weft_model_load(folder, &(weft_model_options){.dtype = WEFT_INT8}, &m),
                 WEFT_INVALID);
}

/* The base of rotations where a configuration names none: transformers' default of each family. */
static void rotations_have_the_defaults_of_their_family(void)
{
    static const struct {
        const char *family, *same, *other;
    } rows[] = {{"llama", "10000", "10001"},  {"mistral", "10000", "10001"},
                {"qwen2", "10000", "10001"},  {"qwen3", "10000", "10001"},
                {"gemma2", "10000", "10001"}, {"minicpm", "10000", "10001"},
                {"mixtral", "1e6", "1000001"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *thetas[] = {NULL, rows[i].same, rows[i].other};
        weft_array *logits[3] = {NULL};
        weft_scope_open();
        for (int t = 0; t < 3; t++) {
            char text[900], theta[60] = "";
            if (thetas[t])
                snprintf(theta, sizeof theta, ",\"rope_theta\":%s", thetas[t]);
            snprintf(text, sizeof text,
                     "{\"model_type\":\"%s\",\"vocab_size\":20,\"hidden_size\":32,"
                     "\"intermediate_size\":12,\"num_hidden_layers\":2,\"head_dim\":16,"
                     "\"num_attention_heads\":2,\"num_key_value_heads\":1,"
                     "\"num_local_experts\":2,\"num_experts_per_tok\":1,"
                     "\"tie_word_embeddings\":true%s}",
                     rows[i].family, theta);
            weft_random_seed(3);
            weft_model *m = make(text);
            if (!m)
                break;
            logits[t] = weft_keep(weft_model_forward(m, ids(), NULL));
            CHECK_OK(weft_eval(logits[t]));
            weft_model_free(m);
        }
        if (CHECK(logits[2] != NULL)) {
            CHECK_CLOSE(difference(logits[0], logits[1]), 0, 0);
            CHECK(difference(logits[0], logits[2]) > 0);
        }
        for (int t = 0; t < 3; t++)
            weft_drop(logits[t]);
        weft_scope_close(NULL);
    }
}

/* A folder with a link to each file of the storyteller but config.json, which is that without the
 * members whose names are given, and without generation_config.json. */
static const char *storyteller_without(const char *name, const char *const *keys, size_t n)
{
    static const char *const files[] = {"model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json"};
    static char folder[600];
    char path[700], *text;
    snprintf(folder, sizeof folder, "%s", check_temporary(name));
    CHECK_OK(weft_folder_make(folder));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char source[100];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        snprintf(source, sizeof source, "examples/storyteller/%s", files[i]);
        CHECK(symlink(check_source(source), path) == 0);
    }
    if (!CHECK_OK(weft_file_read(check_source("examples/storyteller/config.json"), 0, &text, NULL)))
        return folder;
    for (size_t i = 0; i < n; i++) {
        char *key = strstr(text, keys[i]);
        if (CHECK(key != NULL))
            key[0] = '_';
    }
    snprintf(path, sizeof path, "%s/config.json", folder);
    CHECK_OK(weft_file_write(path, text, strlen(text)));
    weft_free(text);
    return folder;
}

/* 64, not the 128 that the family has by default. */
static void the_size_of_heads_comes_from_the_weights(void)
{
    weft_model *model;
    const char *folder = storyteller_without("heads", (const char *const[]){"head_dim"}, 1);
    if (!CHECK_OK(weft_model_load(folder, NULL, &model)))
        return;
    const weft_dims shape = weft_shape(
        *weft_nn_find(weft_model_module(model), "model.layers.0.self_attn.q_norm.weight"));
    CHECK(shape.n == 1 && shape.at[0] == 64);
    weft_model_free(model);
}

static void the_end_of_texts_comes_from_the_tokenizer(void)
{
    weft_model *model;
    int n = 0;
    const char *folder = storyteller_without("ends", (const char *const[]){"eos_token_id"}, 1);
    if (!CHECK_OK(weft_model_load(folder, NULL, &model)))
        return;
    const int32_t *ids = weft_model_eos(model, &n);
    if (CHECK_EQ_INT(n, 1))
        CHECK_EQ_INT(ids[0], 4093);
    weft_model_free(model);
}

/* A head that the configuration ties to the embedding is left out, which is logged. */
static void a_tied_head_of_its_own_is_named(void)
{
    static const char start[] = "{\"model_type\":\"llama\",\"vocab_size\":20,\"hidden_size\":32,"
                                "\"intermediate_size\":64,\"num_hidden_layers\":1,"
                                "\"num_attention_heads\":2,\"tie_word_embeddings\":";
    const char *folder = check_temporary("untied");
    char text[400];
    weft_config *config = NULL;
    weft_model *model = NULL;
    snprintf(text, sizeof text, "%sfalse}", start);
    if (!CHECK_OK(weft_config_parse(text, "config.json", &config)) ||
        !CHECK_OK(weft_model_new(config, &model)) || !CHECK_OK(weft_model_save(model, folder)))
        return;
    weft_config_free(config);
    weft_model_free(model);
    if (CHECK_OK(weft_model_load(folder, NULL, &model)))
        CHECK(weft_model_skipped(model) == NULL);
    weft_model_free(model);
    snprintf(text, sizeof text, "%strue}", start);
    CHECK_OK(weft_file_write(check_temporary("untied/config.json"), text, strlen(text)));
    if (CHECK_OK(weft_model_load(folder, NULL, &model)))
        CHECK_STR(weft_model_skipped(model), "lm_head (tie_word_embeddings)");
    weft_model_free(model);
}

static void configurations_that_make_no_model(void)
{
    new_refused(
        "{\"model_type\":\"nobody\"}", WEFT_UNSUPPORTED,
        "config.json: model_type 'nobody' is unknown (known: bert, cohere2, ernie4_5, exaone4, ");
    new_refused("{}", WEFT_INVALID, "model_type is missing");
    new_refused("{\"model_type\":\"gemma4_text\",\"vocab_size_per_layer_input\":-1}", WEFT_INVALID,
                "vocab_size_per_layer_input: expected");
    new_refused("{\"model_type\":\"gemma4_text\",\"hidden_size_per_layer_input\":-1}", WEFT_INVALID,
                "hidden_size_per_layer_input, vocab_size_per_layer_input: expected");
    new_refused("{\"model_type\":7}", WEFT_INVALID, "model_type: expected a string");
    new_refused("{\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":\"gptq\"}}",
                WEFT_UNSUPPORTED, "quantized by 'gptq' are unsupported");
    new_refused("{\"model_type\":\"llama\",\"hidden_size\":\"x\",\"rms_norm_eps\":[]}",
                WEFT_INVALID,
                "hidden_size: expected an integer, got string; rms_norm_eps: expected a number");
    new_refused("{\"model_type\":\"llama\",\"hidden_size\":0}", WEFT_INVALID,
                "hidden_size: expected 1 to");
    new_refused("{\"model_type\":\"llama\",\"num_hidden_layers\":1000000}", WEFT_INVALID,
                "num_hidden_layers: expected 1 to 4096");
    new_refused("{\"model_type\":\"llama\",\"num_attention_heads\":3,\"num_key_value_heads\":2}",
                WEFT_INVALID, "expected a multiple of num_key_value_heads 2, got 3");
    new_refused("{\"model_type\":\"llama\",\"head_dim\":7}", WEFT_INVALID,
                "expected an even number");
    new_refused("{\"model_type\":\"llama\",\"hidden_size\":1000000000,\"head_dim\":64}",
                WEFT_INVALID, "config.json: linear: weight: random_bits: (");
    new_refused("{\"model_type\":\"llama\",\"tie_word_embeddings\":\"yes\"}", WEFT_INVALID,
                "config.json: tie_word_embeddings: expected true or false, got string");
    new_refused("{\"model_type\":\"mixtral\",\"num_local_experts\":2.5}", WEFT_INVALID,
                "config.json: num_local_experts: expected an integer, got number");
    new_refused(
        "{\"model_type\":\"mistral\",\"sliding_window\":-1}", WEFT_INVALID,
        "config.json: sliding_window: expected a positive number, or null for none, got -1");
    new_refused("{\"model_type\":\"llama\",\"rms_norm_eps\":-1}", WEFT_INVALID, "rms_norm_eps");
    new_refused("{\"model_type\":\"gemma2\",\"query_pre_attn_scalar\":null}", WEFT_INVALID,
                "query_pre_attn_scalar: expected a positive number, got null");
    new_refused("{\"model_type\":\"gemma3_text\",\"query_pre_attn_scalar\":0}", WEFT_INVALID,
                "query_pre_attn_scalar: expected a positive number, got 0");
    new_refused("{\"model_type\":\"llama\",\"hidden_act\":\"cosine\"}", WEFT_UNSUPPORTED,
                "hidden_act: 'cosine' is unknown (known: silu");
    new_refused("{\"model_type\":\"qwen2\",\"num_hidden_layers\":2,\"layer_types\":"
                "[\"full_attention\"]}",
                WEFT_INVALID, "layer_types: expected 2 layers, got 1");
    new_refused("{\"model_type\":\"qwen2\",\"num_hidden_layers\":1,\"layer_types\":"
                "[\"linear_attention\"]}",
                WEFT_UNSUPPORTED, "layer_types[0]: 'linear_attention' is unknown");
    new_refused("{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"spiral\"}}",
                WEFT_UNSUPPORTED, "rope_type 'spiral' is unknown");
    new_refused("{\"model_type\":\"smollm3\",\"num_hidden_layers\":2,\"no_rope_layers\":[1]}",
                WEFT_INVALID, "no_rope_layers: expected 2 layers, got 1");
    new_refused("{\"model_type\":\"smollm3\",\"no_rope_layers\":3}", WEFT_INVALID,
                "no_rope_layers: expected a");
    new_refused("{\"model_type\":\"smollm3\",\"no_rope_layer_interval\":0}", WEFT_INVALID,
                "no_rope_layer_interval: expected a positive number, got 0");
    new_refused("{\"model_type\":\"smollm3\",\"use_sliding_window\":true,\"sliding_window\":8}",
                WEFT_UNSUPPORTED, "use_sliding_window true is unsupported");
    new_refused("{\"model_type\":\"llama\",\"eos_token_id\":-2,\"num_hidden_layers\":1}",
                WEFT_INVALID, "eos_token_id: expected a token id, got -2");
}

static void weights_that_do_not_fit(void)
{
    const char *folder = tiny_folder("unfit");
    char config[600];
    snprintf(config, sizeof config, "%s", tiny);
    memcpy(strstr(config, "_layers\":2"), "_layers\":3", 10);
    write_text(check_temporary("unfit/config.json"), config);
    load_refused(folder, WEFT_INVALID,
                 "9 missing: model.layers.2.input_layernorm.weight, "
                 "model.layers.2.self_attn.q_proj.weight");
    snprintf(config, sizeof config, "%s", tiny);
    memcpy(strstr(config, "_size\":12"), "_size\":16", 9);
    write_text(check_temporary("unfit/config.json"), config);
    load_refused(folder, WEFT_INVALID,
                 "6 of another shape or dtype: model.layers.0.mlp.gate_proj.weight: expected (16, "
                 "8) float32, found (12, 8) float32");
    char *data;
    size_t size;
    const char *weights = check_temporary("unfit/model.safetensors");
    if (CHECK_OK(weft_file_read(weights, 0, &data, &size))) {
        CHECK_OK(weft_file_write(weights, data, size - 10));
        load_refused(folder, WEFT_INVALID, "unfit/model.safetensors: tensor 'model.");
        weft_free(data);
    }
}

static void tokens_of_a_wrong_kind(void)
{
    weft_model *m = make(tiny);
    weft_scope_open();
    if (CHECK(m != NULL)) {
        weft_array *flat = weft_reshape(ids(), WEFT_DIMS(6));
        CHECK_CONTAINS(weft_error(weft_model_forward(m, flat, NULL)),
                       "llama: tokens: expected integers (B, L), got int32 of 1 dims");
        CHECK(!weft_ok(weft_model_hidden(m, weft_astype(ids(), WEFT_FLOAT32), NULL)));
        weft_array *broken = weft_error_array("broken");
        CHECK_STR(weft_error(weft_model_forward(m, broken, NULL)), "broken");
        const int32_t large[] = {1, 20};
        weft_array *out = weft_from_data(large, WEFT_INT32, WEFT_DIMS(1, 2));
        CHECK(weft_eval(weft_model_forward(m, out, NULL)) != WEFT_OK);
    }
    weft_scope_close(NULL);
    weft_model_free(m);
}

/* ---- configurations derived from weights ---------------------------------------------------- */

static void the_weights_tell_the_family(void)
{
    static const char *const names[] = {"llama", "qwen2", "qwen3"};
    for (int i = 0; i < 3; i++) {
        char source[64], *text;
        const char *folder = check_temporary("nameless");
        CHECK_OK(weft_folder_make(folder));
        snprintf(source, sizeof source, "models/%s/config.json", names[i]);
        if (!CHECK_OK(weft_file_read(check_fixture(source), 0, &text, NULL)))
            return;
        memcpy(strstr(text, "\"model_type\""), "\"nothing_at\"", 12);
        write_text(check_temporary("nameless/config.json"), text);
        weft_free(text);
        snprintf(source, sizeof source, "models/%s/model.safetensors", names[i]);
        size_t size;
        if (!CHECK_OK(weft_file_read(check_fixture(source), 0, &text, &size)))
            return;
        CHECK_OK(weft_file_write(check_temporary("nameless/model.safetensors"), text, size));
        weft_free(text);
        weft_model *m;
        if (CHECK_OK(weft_model_load(folder, NULL, &m)))
            CHECK_STR(weft_model_family_of(m)->model_type, names[i]);
        weft_model_free(m);
    }
}

/* ---- training ------------------------------------------------------------------------------- */

static void a_checkpointed_forward_is_the_same(void)
{
    weft_model *m = make(tiny);
    weft_scope_open();
    if (CHECK(m != NULL)) {
        weft_array *a = weft_model_forward(m, ids(), NULL);
        weft_array *b = weft_model_forward(m, ids(), &(weft_model_call){.checkpoint = true});
        CHECK_CLOSE(difference(a, b), 0, 0);
    }
    weft_scope_close(NULL);
    weft_model_free(m);
}

/* ---- a program's own family ----------------------------------------------------------------- */

typedef struct bigram {
    weft_module module;
    weft_module *table;
} bigram;

typedef struct bigram_config {
    int64_t vocab_size;
} bigram_config;

static const weft_module_type bigram_type = {.name = "bigram"};

static weft_module *bigram_build(const weft_model_family *family, const weft_config *config,
                                 bool has_head, weft_model_info *info)
{
    CHECK(strcmp(family->model_type, "bigram") == 0);
    static const weft_config_field fields[] = {
        WEFT_CONFIG_REQUIRED(INT, bigram_config, vocab_size)};
    bigram_config c;
    bigram *m = weft_nn_new(bigram, &bigram_type);
    (void)has_head;
    if (m == NULL)
        return NULL;
    if (weft_config_read(config, fields, 1, &c) != WEFT_OK) {
        m->module.failed = true;
        return weft_nn_finish(m);
    }
    weft_nn_child(m, table, weft_nn_embedding_new(c.vocab_size, c.vocab_size));
    *info = (weft_model_info){.vocab_size = c.vocab_size, .hidden_size = c.vocab_size};
    return weft_nn_finish(m);
}

static weft_array *bigram_hidden(weft_module *self, weft_array *tokens, const weft_model_call *call)
{
    (void)call;
    return weft_nn_call(((bigram *)self)->table, tokens);
}

static weft_array *bigram_head(weft_module *self, weft_array *hidden)
{
    (void)self;
    return hidden;
}

static bool bigram_rename(void *context, const char *name, char *out, size_t size)
{
    (void)context;
    snprintf(out, size, "%s", name);
    return true;
}

static const weft_model_family bigram_family = {
    .model_type = "bigram",
    .build = bigram_build,
    .hidden = bigram_hidden,
    .head = bigram_head,
    .rename = bigram_rename,
};

static void a_program_adds_a_family(void)
{
    const int before = weft_model_family_count();
    CHECK_OK(weft_model_register(&bigram_family));
    CHECK_STATUS(weft_model_register(&bigram_family), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "'bigram': there is one already");
    CHECK_STATUS(weft_model_register(&(weft_model_family){.model_type = "x"}), WEFT_INVALID);
    CHECK_EQ_INT(weft_model_family_count(), before + 1);
    CHECK(weft_model_family_find("bigram") == &bigram_family);
    const char *folder = check_temporary("bigram");
    weft_model *a = make("{\"model_type\":\"bigram\",\"vocab_size\":20}"), *b = NULL;
    weft_scope_open();
    if (CHECK(a != NULL) && CHECK_OK(weft_model_save(a, folder)) &&
        CHECK_OK(weft_model_load(folder, NULL, &b))) {
        CHECK_CLOSE(
            difference(weft_model_forward(a, ids(), NULL), weft_model_forward(b, ids(), NULL)), 0,
            0);
        CHECK(weft_model_head_weight(b) == NULL);
        weft_cache **caches = weft_model_new_caches(b, NULL);
        CHECK(caches != NULL);
        weft_model_free_caches(b, caches);
    }
    weft_scope_close(NULL);
    weft_model_free(a);
    weft_model_free(b);
    new_refused("{\"model_type\":\"bigram\"}", WEFT_INVALID, "vocab_size is missing");
}

/* ---- quantized as they are loaded ----------------------------------------------------------- */

/* The unquantized model is never held. The values are those of a model that is quantized later. */
static void quantized_weights_are_made_one_by_one(void)
{
    static const char text[] =
        "{\"model_type\":\"llama\",\"vocab_size\":1024,\"hidden_size\":512,\"intermediate_size\":"
        "1024,\"num_hidden_layers\":4,\"num_attention_heads\":4,\"tie_word_embeddings\":true}";
    const int64_t largest = 1024 * 512 * 2; /* as bfloat16, which is encoded */
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("to-quantize"));
    weft_model *whole = make(text), *quantized = NULL;
    weft_scope_open();
    if (CHECK(whole != NULL) && CHECK_OK(weft_model_save(whole, folder))) {
        weft_memory_clear_cache();
        weft_memory_reset_peak();
        const int64_t before = weft_memory_active();
        const weft_model_options o = {.dtype = WEFT_FLOAT32, .quantize = 4};
        CHECK_OK(weft_model_load(folder, &o, &quantized));
        const int64_t result = weft_memory_active() - before, peak = weft_memory_peak() - before;
        CHECK(result < weft_nn_count(weft_model_module(whole), false) * 5 / 8);
        if (!CHECK(peak < result + 5 * largest / 2)) /* and one of each smaller size */
            CHECK_FAIL("%lld bytes for %lld", (long long)peak, (long long)result);
        const weft_nn_quantize_options later = {.format = {.bits = 4, .group_size = 64}};
        CHECK_OK(weft_nn_quantize(weft_model_module(whole), &later));
        CHECK_CLOSE(difference(weft_model_forward(whole, ids(), NULL),
                               weft_model_forward(quantized, ids(), NULL)),
                    0, 0);
    }
    weft_scope_close(NULL);
    weft_model_free(whole);
    weft_model_free(quantized);
}

CHECK_MAIN("model", CHECK_CASE(a_saved_model_is_loaded_again),
           CHECK_CASE(the_ids_that_end_are_of_both_files),
           CHECK_CASE(prefixes_and_towers_are_passed_over),
           CHECK_CASE(folders_without_a_checkpoint_are_refused),
           CHECK_CASE(rotations_have_the_defaults_of_their_family),
           CHECK_CASE(the_size_of_heads_comes_from_the_weights),
           CHECK_CASE(the_end_of_texts_comes_from_the_tokenizer),
           CHECK_CASE(a_tied_head_of_its_own_is_named),
           CHECK_CASE(configurations_that_make_no_model), CHECK_CASE(weights_that_do_not_fit),
           CHECK_CASE(tokens_of_a_wrong_kind), CHECK_CASE(the_weights_tell_the_family),
           CHECK_CASE(a_checkpointed_forward_is_the_same), CHECK_CASE(a_program_adds_a_family),
           CHECK_CASE(quantized_weights_are_made_one_by_one))
