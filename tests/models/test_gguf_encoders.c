/* tests/models/test_gguf_encoders.c -- encoders and embedders through GGUF files: the hidden states
 * of transformers, tokens, pooling, and what files cannot express. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/batch.h"
#include "weft/gguf.h"
#include "weft/layers.h"
#include "weft/ops.h"
#include "weft/random.h"
#include "weft/tokenizer.h"

static const struct encoder {
    const char *name, *arch;
    bool tokenizer; /* a file can store it */
    bool whole;     /* no token is padding in the first text */
    weft_pooling pooling;
} encoders[] = {
    {"bert", "bert", true, true, WEFT_POOLING_MEAN},
    {"roberta", "bert", true, false, WEFT_POOLING_CLS},
    {"xlm-roberta", "bert", false, false, WEFT_POOLING_LAST},
    {"modernbert", "modern-bert", true, true, WEFT_POOLING_MEAN},
    {"embedder-gemma3-plain", "gemma-embedding", true, true, WEFT_POOLING_MEAN},
    {"embedder-qwen3", "qwen3", true, true, WEFT_POOLING_LAST},
};
enum { N_ENCODERS = sizeof encoders / sizeof *encoders };

static const char *folder_of(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "models/%s", name);
    return check_fixture(path);
}

/* Writes the fixture's model as a file. */
static bool written(const struct encoder *e, const char *type, char path[512])
{
    char name[128], folder[512];
    weft_model *model = fixture_model(e->name);
    snprintf(name, sizeof name, "%s-%s.gguf", e->name, type);
    snprintf(path, 512, "%s", check_temporary(name));
    snprintf(folder, sizeof folder, "%s", folder_of(e->name));
    const weft_gguf_model_options o = {.type = type, .text = e->tokenizer ? folder : NULL};
    const bool ok = model && CHECK_OK(weft_model_save_gguf(model, path, &o));
    weft_model_free(model);
    return ok;
}

/* The largest difference of hidden states from the reference's, as a share of the largest. */
static double difference(const struct encoder *e, weft_model *model)
{
    char path[256];
    weft_safetensors *reference;
    double off = 1e9;
    snprintf(path, sizeof path, "models/%s/reference.safetensors", e->name);
    if (!CHECK_OK(weft_safetensors_open(check_fixture(path), &reference)))
        return off;
    weft_scope_open();
    weft_array *lengths = weft_safetensors_get(reference, "lengths");
    weft_array *expected = weft_safetensors_get(reference, "hidden");
    weft_array *hidden = weft_model_hidden(model, weft_safetensors_get(reference, "input_ids"),
                                           &(weft_model_call){.lengths = lengths});
    int32_t n[2];
    if (CHECK_OK(weft_read(lengths, WEFT_INT32, n, 2))) {
        off = 0;
        for (int r = e->whole ? 0 : 1; r < 2; r++) {
            weft_array *rows[] = {
                weft_slice_axis(weft_slice_axis(hidden, 0, r, r + 1), 1, 0, n[r]),
                weft_slice_axis(weft_slice_axis(expected, 0, r, r + 1), 1, 0, n[r])};
            weft_array *apart = weft_abs(weft_subtract(rows[0], rows[1]));
            const double most = weft_item(weft_max(weft_abs(rows[1]), WEFT_ALL_AXES, false));
            const double found = weft_item(weft_max(apart, WEFT_ALL_AXES, false)) / most;
            off = found > off ? found : off;
        }
    }
    weft_scope_close(NULL);
    weft_safetensors_close(reference);
    return off;
}

static void check_keys(const struct encoder *e, const char *path)
{
    weft_gguf *file = NULL;
    weft_gguf_string arch = {"", 0};
    if (!CHECK_OK(weft_gguf_open(path, &file)))
        return;
    weft_gguf_value_string(weft_gguf_value_find(file, "general.architecture"), 0, &arch);
    CHECK(arch.n == strlen(e->arch) && memcmp(arch.at, e->arch, arch.n) == 0);
    CHECK(weft_gguf_find(file, "token_embd.weight") >= 0);
    weft_gguf_close(file);
}

static void hidden_states_are_the_references(void)
{
    for (int i = 0; i < N_ENCODERS; i++) {
        char path[512];
        weft_model *model = NULL;
        if (!written(&encoders[i], "F32", path) || !CHECK_OK(weft_model_load(path, NULL, &model)))
            continue;
        const double off = difference(&encoders[i], model);
        printf("  %s: %.3g of the largest\n", encoders[i].name, off);
        CHECK(off < 2.5e-6); /* as in test_encoders.c */
        check_keys(&encoders[i], path);
        weft_model_free(model);
    }
}

/* A ModernBERT whose layers all read the whole text: none has a window in the file. */
static void layers_without_windows_stay_so(void)
{
    enum { L = 200 };
    static const char text[] =
        "{\"model_type\": \"modernbert\", \"vocab_size\": 100, \"hidden_size\": 32, "
        "\"intermediate_size\": 48, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, "
        "\"max_position_embeddings\": 256, \"global_attn_every_n_layers\": 1, "
        "\"local_attention\": 8, \"global_rope_theta\": 10000.0}";
    weft_config *config = NULL;
    weft_model *model = NULL, *loaded = NULL;
    const char *path = check_temporary("global.gguf");
    if (!CHECK_OK(weft_config_parse(text, "config", &config)))
        return;
    weft_random_seed(3);
    CHECK_OK(weft_model_new(config, &model));
    weft_config_free(config);
    CHECK_OK(weft_model_save_gguf(model, path, &(weft_gguf_model_options){.type = "F32"}));
    if (CHECK_OK(weft_model_load(path, NULL, &loaded))) {
        weft_scope_open();
        weft_array *ids =
            weft_random_randint(weft_random_key(4), WEFT_DIMS(1, L), 0, 100, WEFT_INT32);
        weft_array *a = weft_model_hidden(model, ids, &(weft_model_call){.caches = NULL}),
                   *b = weft_model_hidden(loaded, ids, &(weft_model_call){.caches = NULL});
        CHECK_CLOSE(weft_item(weft_max(weft_abs(weft_subtract(a, b)), WEFT_ALL_AXES, false)), 0, 0);
        weft_scope_close(NULL);
    }
    weft_model_free(model);
    weft_model_free(loaded);
}

/* Positions and types stay float32, which llama.cpp needs. */
static void blocks_are_similar(void)
{
    for (int i = 0; i < N_ENCODERS; i++) {
        char path[512];
        weft_model *model = NULL;
        weft_gguf *file = NULL;
        if (!written(&encoders[i], "Q8_0", path) || !CHECK_OK(weft_model_load(path, NULL, &model)))
            continue;
        const double off = difference(&encoders[i], model);
        printf("  %s in Q8_0: %.3g of the largest\n", encoders[i].name, off);
        CHECK(off > 2.5e-6 && off < 0.2);
        weft_model_free(model);
        if (strcmp(encoders[i].arch, "bert") != 0 || !CHECK_OK(weft_gguf_open(path, &file)))
            continue;
        CHECK_STR(weft_gguf_at(file, weft_gguf_find(file, "position_embd.weight"))->type, "F32");
        CHECK_STR(weft_gguf_at(file, weft_gguf_find(file, "token_types.weight"))->type, "F32");
        weft_gguf_close(file);
    }
}

static void expect_same_tokens(const weft_tokenizer *a, const weft_tokenizer *b)
{
    static const char *const texts[] = {"A king.",
                                        "A queen is not a king, and Z\u00fcrich is no \u00c9clair!",
                                        "", "  spaces around 12345 unbelievable\ttokens ## ##s [X]",
                                        "\u5317\u4eac is a city \U0001f642; don't e-mail x@y.org."};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t *ids[2] = {NULL, NULL};
        size_t n[2] = {0, 0};
        const size_t length = strlen(texts[i]);
        if (CHECK_OK(weft_tokenizer_encode(a, texts[i], length, WEFT_TOKENIZER_ADD_SPECIAL, &ids[0],
                                           &n[0])) &&
            CHECK_OK(weft_tokenizer_encode(b, texts[i], length, WEFT_TOKENIZER_ADD_SPECIAL, &ids[1],
                                           &n[1])) &&
            CHECK_EQ_INT(n[0], n[1]))
            CHECK_BYTES(ids[0], ids[1], n[0] * sizeof **ids);
        weft_free(ids[0]);
        weft_free(ids[1]);
    }
}

/* The linears after the pooling are those of the checkpoint. */
static void expect_same_linears(weft_module *dense, const char *folder)
{
    weft_embed_settings own = {0};
    if (CHECK_OK(weft_embed_settings_load(folder, NULL, &own)) && CHECK(own.dense != NULL)) {
        for (int i = 0; i < 2; i++) {
            const char *path = i == 0 ? "layers.0.weight" : "layers.1.weight";
            weft_array **a = weft_nn_find(dense, path), **b = weft_nn_find(own.dense, path);
            weft_scope_open();
            CHECK(a && b &&
                  weft_item(weft_max(weft_abs(weft_subtract(*a, *b)), WEFT_ALL_AXES, false)) == 0);
            weft_scope_close(NULL);
        }
    }
    weft_embed_settings_free(&own);
}

static void tokens_and_pooling_are_the_checkpoints(void)
{
    for (int i = 0; i < N_ENCODERS; i++) {
        char path[512];
        weft_tokenizer *own = NULL, *read = NULL;
        weft_embed_settings settings = {0};
        if (!encoders[i].tokenizer || !written(&encoders[i], "F32", path))
            continue;
        if (CHECK_OK(weft_tokenizer_load(folder_of(encoders[i].name), &own)) &&
            CHECK_OK(weft_tokenizer_load(path, &read)))
            expect_same_tokens(own, read);
        weft_tokenizer_free(own);
        weft_tokenizer_free(read);
        if (CHECK_OK(weft_embed_settings_load(path, NULL, &settings))) {
            CHECK(settings.found && settings.normalize);
            CHECK_EQ_INT(settings.pooling, encoders[i].pooling);
            const bool linears = strcmp(encoders[i].arch, "gemma-embedding") == 0;
            CHECK((settings.dense != NULL) == linears);
            if (linears && settings.dense)
                expect_same_linears(settings.dense, folder_of(encoders[i].name));
        }
        weft_embed_settings_free(&settings);
    }
}

/* Linears with biases or activations in the settings, which the model does not have. */
static void other_linears_are_refused(void)
{
    weft_model *model = fixture_model("embedder-gemma3");
    char folder[512], path[512];
    snprintf(folder, sizeof folder, "%s", folder_of("embedder-gemma3"));
    snprintf(path, sizeof path, "%s", check_temporary("refused.gguf"));
    if (!model)
        return;
    CHECK_STATUS(weft_model_save_gguf(model, path, &(weft_gguf_model_options){.text = folder}),
                 WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "linears after the pooling");
    weft_model_free(model);
}

static void what_files_cannot_express(void)
{
    static const struct {
        const char *name, *config, *why;
    } cases[] = {
        {"modernbert-old", NULL, "a bias is unsupported in GGUF files of modern-bert models"},
        {NULL, "\"bert\",\"hidden_act\":\"relu\"", "an activation other than gelu"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        weft_config *config = NULL;
        weft_model *model = cases[i].name ? fixture_model(cases[i].name) : NULL;
        snprintf(text, sizeof text,
                 "{\"vocab_size\":16,\"hidden_size\":16,\"intermediate_size\":16,"
                 "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"model_type\":%s}",
                 cases[i].config ? cases[i].config : "\"\"");
        if (cases[i].config && CHECK_OK(weft_config_parse(text, "config.json", &config)))
            CHECK_OK(weft_model_new(config, &model));
        weft_config_free(config);
        if (!CHECK(model != NULL))
            continue;
        CHECK_STATUS(weft_model_check_gguf(model), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), cases[i].why);
        weft_model_free(model);
    }
}

CHECK_MAIN("gguf_encoders", CHECK_CASE(hidden_states_are_the_references),
           CHECK_CASE(layers_without_windows_stay_so), CHECK_CASE(blocks_are_similar),
           CHECK_CASE(tokens_and_pooling_are_the_checkpoints),
           CHECK_CASE(other_linears_are_refused), CHECK_CASE(what_files_cannot_express))
