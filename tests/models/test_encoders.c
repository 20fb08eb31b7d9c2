/* tests/models/test_encoders.c -- encoders against transformers and sentence-transformers
 * (tests/golden/models/encoders.py): hidden states of padded and packed rows, embeddings of texts,
 * gradients, saving, and what encoders refuse. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/batch.h"
#include "weft/memory.h"
#include "weft/op.h"
#include "weft/train.h"
#include "weft/transforms.h"

enum { LENGTH = 24, SHORT = 9, TEXTS = 6, WIDTH = 32 };

static const char *const names[] = {"bert",          "roberta",        "xlm-roberta",
                                    "modernbert",    "modernbert-old", "embedder-gemma3",
                                    "embedder-qwen3"};

enum { N_MODELS = sizeof names / sizeof *names };

/* The texts of texts.json. */
static const char *const texts[TEXTS] = {
    "A king.",
    "A queen is not a king, and Z\u00fcrich is no \u00c9clair!",
    "",
    "  spaces around 12345 unbelievable\ttokens [MASK] <mask>  ",
    "\u5317\u4eac is a city \U0001f642; don't e-mail x@y.org.",
    "one two three four five six seven one two three four five six seven one two three four five "
    "six seven one two three four five six seven one two three four five six seven one two three "
    "four five six seven one two three four five six seven one two three four five six seven one "
    "two three four five six seven one two three four five six seven one two three four five six "
    "seven one two three four five six seven ",
};

/* Float32 sums in another order, as a share of the largest number. */
static const double tolerance = 2.5e-6;

typedef struct setup {
    weft_model *model;
    weft_safetensors *reference;
    weft_array *ids, *lengths, *hidden; /* of the innermost scope */
} setup;

static bool open_model(const char *name, setup *s)
{
    char path[256];
    snprintf(path, sizeof path, "models/%s/reference.safetensors", name);
    *s = (setup){.model = fixture_model(name)};
    weft_scope_open();
    if (s->model == NULL || !CHECK_OK(weft_safetensors_open(check_fixture(path), &s->reference)))
        return false;
    s->ids = weft_safetensors_get(s->reference, "input_ids");   /* (2, LENGTH) */
    s->lengths = weft_safetensors_get(s->reference, "lengths"); /* (2) */
    s->hidden = weft_safetensors_get(s->reference, "hidden");   /* (2, LENGTH, E) */
    return true;
}

static void close_model(setup *s)
{
    weft_scope_close(NULL);
    weft_safetensors_close(s->reference);
    weft_model_free(s->model);
}

static double largest_difference(weft_array *a, weft_array *b)
{
    return weft_item(weft_max(weft_abs(weft_subtract(a, b)), WEFT_ALL_AXES, false));
}

static double share(weft_array *a, weft_array *b)
{
    return largest_difference(a, b) / weft_item(weft_max(weft_abs(b), WEFT_ALL_AXES, false));
}

/* Columns [from, to) of row r of x (2, LENGTH, ...). */
static weft_array *part(weft_array *x, int r, int from, int to)
{
    return weft_slice_axis(weft_slice_axis(x, 0, r, r + 1), 1, from, to);
}

static void hidden_states_are_the_reference(void)
{
    for (int i = 0; i < N_MODELS; i++) {
        setup s;
        if (open_model(names[i], &s)) {
            const weft_model_call call = {.lengths = s.lengths};
            weft_array *both = weft_model_hidden(s.model, s.ids, &call);
            weft_array *alone = weft_model_hidden(s.model, part(s.ids, 1, 0, SHORT), NULL);
            weft_array *second = part(s.hidden, 1, 0, SHORT);
            const double differences[] = {
                share(part(both, 0, 0, LENGTH), part(s.hidden, 0, 0, LENGTH)),
                share(part(both, 1, 0, SHORT), second), share(alone, second)};
            for (int k = 0; k < 3; k++) {
                printf("  %s: largest difference %.3g of the range\n", names[i], differences[k]);
                CHECK_CLOSE(differences[k], 0, tolerance);
            }
        }
        close_model(&s);
    }
}

/* Two sequences in one row, each with its own positions, give the same as two rows. */
static void packed_rows_are_separate_sequences(void)
{
    int32_t positions[LENGTH], first[LENGTH];
    for (int i = 0; i < LENGTH; i++) {
        first[i] = i < SHORT ? 0 : SHORT;
        positions[i] = i - first[i];
    }
    for (int i = 0; i < N_MODELS; i++) {
        setup s;
        if (open_model(names[i], &s)) {
            weft_array *one = part(s.ids, 1, 0, SHORT);
            weft_array *two = part(s.ids, 0, SHORT, LENGTH);
            weft_array *row = weft_concatenate((weft_array *[]){one, two}, 2, 1);
            const weft_model_call call = {
                .positions = weft_from_data(positions, WEFT_INT32, WEFT_DIMS(1, LENGTH)),
                .first = weft_from_data(first, WEFT_INT32, WEFT_DIMS(1, LENGTH))};
            weft_array *packed = weft_model_hidden(s.model, row, &call);
            weft_array *expected[] = {weft_model_hidden(s.model, one, NULL),
                                      weft_model_hidden(s.model, two, NULL)};
            CHECK_CLOSE(share(packed, weft_concatenate(expected, 2, 1)), 0, tolerance);
        }
        close_model(&s);
    }
}

/* ---- embeddings ----------------------------------------------------------------------------- */

/* The ids of a text as sentence-transformers makes them. */
static weft_prompt encoded(const weft_tokenizer *t, const weft_embed_settings *settings,
                           const char *text)
{
    char whole[600];
    int32_t *ids = NULL;
    size_t n = 0;
    snprintf(whole, sizeof whole, "%s%s", settings->prompt ? settings->prompt : "", text);
    CHECK_OK(weft_tokenizer_encode(t, whole, strlen(whole), WEFT_TOKENIZER_ADD_SPECIAL, &ids, &n));
    return (weft_prompt){ids, weft_tokenizer_truncate(t, ids, n, (size_t)settings->max_tokens)};
}

/* Together, one by one, and with room for fewer tokens than the longest text has. */
static void check_embeddings(setup *s, const weft_tokenizer *t, const weft_embed_settings *settings)
{
    static const weft_batch_options batches[] = {{0}, {.invariant = true}, {.tokens = 16}};
    weft_prompt prompts[TEXTS];
    weft_embedded results[TEXTS];
    float expected[TEXTS * WIDTH];
    CHECK_OK(weft_read(weft_safetensors_get(s->reference, "embeddings"), WEFT_FLOAT32, expected,
                       TEXTS * WIDTH));
    for (int i = 0; i < TEXTS; i++)
        prompts[i] = encoded(t, settings, texts[i]);
    for (int b = 0; b < 3; b++) {
        const weft_embed_options o = {.pooling = settings->pooling,
                                      .dense = settings->dense,
                                      .normalize = settings->normalize,
                                      .batch = batches[b]};
        double worst = 0;
        CHECK_OK(weft_embed(s->model, prompts, TEXTS, &o, results));
        for (int i = 0; i < TEXTS; i++) {
            CHECK_OK(results[i].status);
            for (int e = 0; results[i].values && e < WIDTH; e++)
                worst = fmax(worst,
                             fabs((double)results[i].values[e] - (double)expected[i * WIDTH + e]));
        }
        CHECK_CLOSE(worst, 0, settings->normalize ? 1e-6 : 5e-6);
        weft_embedded_free(results, TEXTS);
    }
    for (int i = 0; i < TEXTS; i++)
        weft_free((void *)(uintptr_t)prompts[i].ids);
}

static void embeddings_are_those_of_sentence_transformers(void)
{
    static const struct {
        weft_pooling pooling;
        bool normalize;
        int64_t max_tokens;
        const char *prompt;
    } expected[N_MODELS] = {
        {WEFT_POOLING_MEAN, true, 32, NULL},        {WEFT_POOLING_CLS, false, 64, NULL},
        {WEFT_POOLING_LAST, true, 40, "passage: "}, {WEFT_POOLING_MEAN, true, 64, NULL},
        {WEFT_POOLING_MEAN, true, 64, NULL},        {WEFT_POOLING_MEAN, true, 64, NULL},
        {WEFT_POOLING_LAST, true, 64, NULL}};
    for (int i = 0; i < N_MODELS; i++) {
        char path[64];
        setup s;
        weft_tokenizer *t = NULL;
        weft_embed_settings settings;
        snprintf(path, sizeof path, "models/%s", names[i]);
        if (open_model(names[i], &s) &&
            CHECK_OK(weft_embed_settings_load(check_fixture(path), NULL, &settings)) &&
            CHECK_OK(weft_tokenizer_load(check_fixture(path), &t))) {
            CHECK(settings.found);
            CHECK_EQ_INT(settings.pooling, expected[i].pooling);
            CHECK_EQ_INT(settings.normalize, expected[i].normalize);
            CHECK_EQ_INT(settings.max_tokens, expected[i].max_tokens);
            CHECK_STR(settings.prompt ? settings.prompt : "",
                      expected[i].prompt ? expected[i].prompt : "");
            check_embeddings(&s, t, &settings);
            weft_embed_settings_free(&settings);
        }
        weft_tokenizer_free(t);
        close_model(&s);
    }
}

/* Max pooling over real tokens only. */
static void max_pooling_ignores_padding(void)
{
    setup s;
    int32_t ids[2 * LENGTH];
    weft_embedded results[2];
    float expected[WIDTH];
    if (open_model("bert", &s) && CHECK_OK(weft_read(s.ids, WEFT_INT32, ids, 2 * LENGTH))) {
        const weft_prompt prompts[] = {{ids, LENGTH}, {ids + LENGTH, SHORT}};
        const weft_embed_options o = {.pooling = WEFT_POOLING_MAX};
        CHECK_OK(weft_embed(s.model, prompts, 2, &o, results));
        for (int r = 0; r < 2; r++) {
            weft_array *all = part(s.hidden, r, 0, r ? SHORT : LENGTH);
            CHECK_OK(weft_read(weft_max(all, WEFT_DIMS(1), false), WEFT_FLOAT32, expected, WIDTH));
            for (int e = 0; results[r].values && e < WIDTH; e++)
                CHECK_CLOSE(results[r].values[e], expected[e], 5e-6);
        }
        weft_embedded_free(results, 2);
    }
    close_model(&s);
}

/* ---- gradients ------------------------------------------------------------------------------ */

typedef struct run {
    setup *s;
    bool checkpoint;
    int row; /* alone; -1: both, padded */
} run;

/* The sum of the fourth powers of the hidden states of real tokens. */
static weft_array *loss(void *context)
{
    const run *r = context;
    weft_array *ids = r->s->ids, *total = NULL;
    const weft_model_call call = {.checkpoint = r->checkpoint,
                                  .lengths = r->row < 0 ? r->s->lengths : NULL};
    if (r->row >= 0)
        ids = part(ids, r->row, 0, r->row ? SHORT : LENGTH);
    weft_array *hidden = weft_model_hidden(r->s->model, ids, &call);
    for (int i = 0; i < weft_dim(ids, 0); i++) {
        const int n = r->row == 1 || i == 1 ? SHORT : LENGTH;
        weft_array *power = weft_square(weft_square(part(hidden, i, 0, n)));
        weft_array *sum = weft_sum(power, WEFT_ALL_AXES, false);
        total = total ? weft_add(total, sum) : sum;
    }
    return total;
}

static void gradients_of_padded_rows_are_those_of_rows_alone(void)
{
    enum { N = 4 };
    static const char *const paths[3][N] = {
        {"model.embeddings.word_embeddings.weight", "model.embeddings.position_embeddings.weight",
         "model.encoder.layer.0.attention.self.key.bias",
         "model.encoder.layer.0.attention.self.value.weight"},
        {"model.embeddings.tok_embeddings.weight", "model.layers.0.attn.Wqkv.weight",
         "model.layers.1.mlp.Wi.weight", "model.final_norm.weight"},
        {"model.embed_tokens.weight", "model.layers.0.self_attn.k_proj.weight",
         "model.layers.1.mlp.up_proj.weight", "model.norm.weight"}};
    for (int i = 0; i < N_MODELS; i++) {
        setup s;
        if (open_model(names[i], &s)) {
            weft_array **slots[N], *both[N], *again[N], *first[N], *second[N];
            for (int k = 0; k < N; k++)
                slots[k] = weft_nn_find(weft_model_module(s.model), paths[i >= 5 ? 2 : i >= 3][k]);
            run r = {&s, false, -1};
            weft_array *value = weft_value_and_grad_slots(loss, &r, slots, N, both);
            r.checkpoint = true;
            weft_value_and_grad_slots(loss, &r, slots, N, again);
            r = (run){&s, false, 0};
            weft_array *sum = weft_value_and_grad_slots(loss, &r, slots, N, first);
            r.row = 1;
            sum = weft_add(sum, weft_value_and_grad_slots(loss, &r, slots, N, second));
            CHECK_RELATIVE(weft_item(value), weft_item(sum), 1e-6);
            for (int k = 0; k < N; k++) {
                weft_array *expected = weft_add(first[k], second[k]);
                const double size = weft_item(weft_max(weft_abs(both[0]), WEFT_ALL_AXES, false));
                CHECK(size > 0);
                CHECK_CLOSE(largest_difference(both[k], expected) / size, 0, 6e-6);
                CHECK_CLOSE(largest_difference(again[k], both[k]) / size, 0, 6e-6);
            }
        }
        close_model(&s);
    }
}

/* ---- files, refusals ------------------------------------------------------------------------ */

/* With the names of the checkpoint, and the tensors that the model does not use. */
static void models_are_saved_as_they_were(void)
{
    for (int i = 0; i < N_MODELS; i++) {
        char path[256];
        setup s;
        weft_safetensors *before = NULL, *after = NULL;
        const char *folder = check_temporary("encoder");
        if (open_model(names[i], &s) && CHECK_OK(weft_model_save(s.model, folder))) {
            snprintf(path, sizeof path, "models/%s/model.safetensors", names[i]);
            CHECK_OK(weft_safetensors_open(check_fixture(path), &before));
            snprintf(path, sizeof path, "%s/model.safetensors", folder);
            CHECK_OK(weft_safetensors_open(path, &after));
            CHECK_EQ_INT(weft_safetensors_count(after), weft_safetensors_count(before));
            for (int k = 0; k < weft_safetensors_count(before); k++) {
                const char *name = weft_safetensors_name(before, k);
                weft_array *saved = weft_safetensors_get(after, name);
                CHECK_CLOSE(largest_difference(saved, weft_safetensors_get_at(before, k)), 0, 0);
            }
            const char *skipped = weft_model_skipped(s.model);
            CHECK_STR(skipped ? skipped : "", strcmp(names[i], "roberta") == 0 ? "lm_head" : "");
        }
        close_model(&s);
        weft_safetensors_close(before);
        weft_safetensors_close(after);
    }
}

static void text_is_not_generated(void)
{
    setup s;
    if (open_model("bert", &s)) {
        const int32_t ids[] = {5, 6, 7, 8, 9};
        const weft_prompt prompt = {ids, 5};
        weft_generator *g = NULL;
        weft_classified classified;
        weft_perplexity perplexity;
        weft_scored scored;
        CHECK_STATUS(weft_generator_new(s.model, ids, 5, NULL, &g), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "generate: bert models are encoders");
        CHECK(weft_model_new_caches(s.model, NULL) == NULL);
        CHECK_CONTAINS(weft_error_message(), "bert models are encoders, which have no caches");
        CHECK_STATUS(weft_classify(s.model, &prompt, 1, NULL, &classified), WEFT_UNSUPPORTED);
        CHECK_STATUS(
            weft_score(s.model, &(weft_score_request){.text = prompt, .from = 1}, 1, NULL, &scored),
            WEFT_UNSUPPORTED);
        CHECK_STATUS(weft_perplexity_chunks(s.model, ids, 5,
                                            &(weft_perplexity_options){.context = 5}, &perplexity),
                     WEFT_UNSUPPORTED);
        CHECK(!weft_ok(weft_model_forward(s.model, s.ids, NULL)));
        weft_trainer *trainer = NULL;
        CHECK_STATUS(weft_trainer_new(s.model, NULL, &trainer), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "trainer: bert models are encoders");
        weft_array *hidden = weft_model_hidden(
            s.model, s.ids, &(weft_model_call){.mask = weft_ones(WEFT_DIMS(1), WEFT_BOOL)});
        CHECK_CONTAINS(weft_ok(hidden) ? "" : weft_error(hidden), "no masks of the caller");
        weft_array *longer = weft_zeros(WEFT_DIMS(1, 65), WEFT_INT32);
        weft_array *refused = weft_model_hidden(s.model, longer, NULL);
        CHECK_CONTAINS(weft_ok(refused) ? "" : weft_error(refused),
                       "65 tokens, more than the 64 positions");
    }
    close_model(&s);
}

/* As in a program that selects a device after it has read the settings. */
static void linears_may_be_on_another_device(void)
{
    const char *name = "embedder-gemma3";
    weft_device *device = weft_device_get("vulkan"), *before = weft_default_device();
    weft_tokenizer *t = NULL;
    weft_embed_settings settings;
    setup s;
    if (device == NULL) {
        check_skip("%s", weft_error_message());
        return;
    }
    weft_set_default_device(weft_device_get("cpu"));
    const char *folder = check_fixture("models/embedder-gemma3");
    const bool read = CHECK_OK(weft_embed_settings_load(folder, NULL, &settings)) &&
                      CHECK_OK(weft_tokenizer_load(folder, &t));
    weft_set_default_device(device);
    if (open_model(name, &s) && read)
        check_embeddings(&s, t, &settings);
    close_model(&s);
    weft_embed_settings_free(&settings);
    weft_tokenizer_free(t);
    weft_set_default_device(before);
}

/* Gemma 3 with attention in both directions is an encoder, too. */
static void decoders_in_both_directions_are_encoders(void)
{
    static const char *const labels[] = {"a", "b"};
    setup s;
    if (open_model("embedder-gemma3", &s)) {
        CHECK(weft_model_info_of(s.model)->encoder);
        CHECK(weft_model_new_caches(s.model, NULL) == NULL);
        CHECK_STATUS(weft_model_classify(s.model, labels, 2), WEFT_UNSUPPORTED);
    }
    close_model(&s);
    if (open_model("embedder-qwen3", &s))
        CHECK(!weft_model_info_of(s.model)->encoder);
    close_model(&s);
}

static void configurations_that_do_not_fit_are_named(void)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"\"hidden_size\": 30, \"num_attention_heads\": 4", "hidden_size: expected a multiple"},
        {"\"hidden_act\": \"mish\"", "hidden_act: 'mish' is unknown (known: silu, "},
        {"\"position_embedding_type\": \"relative_key\"",
         "position_embedding_type: 'relative_key'"},
        {"\"is_decoder\": true", "is_decoder: true is unsupported"},
        {"\"layer_norm_eps\": 0", "layer_norm_eps: expected a positive number"},
        {"\"type_vocab_size\": 0", "type_vocab_size: expected 1 to"},
        {"\"max_position_embeddings\": 0", "max_position_embeddings: expected 1 to"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        weft_config *config = NULL;
        weft_model *model = NULL;
        snprintf(text, sizeof text, "{\"model_type\": \"bert\", %s}", cases[i].text);
        if (CHECK_OK(weft_config_parse(text, "config.json", &config))) {
            CHECK(weft_model_new(config, &model) != WEFT_OK);
            CHECK_CONTAINS(weft_error_message(), "config.json: ");
            CHECK_CONTAINS(weft_error_message(), cases[i].message);
        }
        weft_model_free(model);
        weft_config_free(config);
    }
}

/* A file of the folder "settings". */
static void put(const char *name, const char *text)
{
    CHECK_OK(weft_file_write(check_temporary(name), text, strlen(text)));
}

#define MODULE(path, type)                                                                         \
    "{\"path\": \"" path "\", \"type\": \"sentence_transformers.models." type "\"}"

#define DENSE "{\"in_features\": 2, \"out_features\": 3"

static void settings_that_do_not_fit_are_named(void)
{
    static const struct {
        const char *modules, *pooling, *sentences, *prompt, *message;
    } cases[] = {
        {MODULE("", "Transformer"), "{}", "{}", NULL,
         "expected the modules Transformer and Pooling"},
        {MODULE("", "Transformer") ", " MODULE(".", "Pooling") ", " MODULE("p", "LSTM"), "{}", "{}",
         NULL, "LSTM' is unsupported here: expected Dense or Normalize"},
        {MODULE("", "Transformer") ", " MODULE(".", "Pooling") ", " MODULE(
             "p", "Normalize") ", " MODULE("p", "Dense"),
         "{}", "{}", NULL, "Dense' is unsupported here"},
        {MODULE("", "Transformer") ", " MODULE(".", "Pooling") ", " MODULE(".", "Dense"), DENSE "}",
         "{}", NULL, "model.safetensors"},
        {MODULE("", "Transformer") ", " MODULE(".", "Pooling") ", " MODULE(".", "Dense"),
         DENSE ", \"use_residual\": true}", "{}", NULL, "use_residual: true is unsupported"},
        {MODULE("", "Transformer") ", " MODULE(".", "Pooling") ", " MODULE(".", "Dense"),
         DENSE ", \"activation_function\": \"torch.nn.GELU\"}", "{}", NULL,
         "activation_function: 'torch.nn.GELU' is unsupported (known: Identity, Tanh)"},
        {MODULE("", "Transformer") ", " MODULE(".", "Pooling") ", " MODULE(".", "Dense"),
         "{\"in_features\": 0, \"out_features\": 3}", "{}", NULL, "expected positive sizes"},
        {MODULE("", "Transformer") ", " MODULE("p", "Dense"), "{}", "{}", NULL,
         "modules.json: [1]: module 'sentence_transformers.models.Dense' is unsupported here: "
         "expected Pooling"},
        {MODULE("", "Transformer") ", " MODULE(".", "Pooling"),
         "{\"pooling_mode\": \"weightedmean\"}", "{}", NULL,
         "pooling_mode: 'weightedmean' is unsupported"},
        {MODULE("", "Transformer") ", " MODULE(".", "Pooling"),
         "{\"pooling_mode_mean_tokens\": true, \"pooling_mode_cls_token\": true}", "{}", NULL,
         "several kinds of pooling"},
        {MODULE("", "Transformer") ", " MODULE(".", "Pooling"),
         "{\"pooling_mode_mean_sqrt_len_tokens\": true}", "{}", NULL,
         "pooling_mode_mean_sqrt_len_tokens is unsupported"},
        {MODULE("", "Transformer") ", " MODULE(".", "Pooling"), "{}", "{\"do_lower_case\": true}",
         NULL, "do_lower_case: true is unsupported"},
        {MODULE("", "Transformer") ", " MODULE(".", "Pooling"), "{}", "{\"max_seq_length\": -3}",
         NULL, "max_seq_length: expected at least 1, got -3"},
        {MODULE("", "Transformer") ", " MODULE("none", "Pooling"), "{}", "{}", NULL,
         "none/config.json is missing"},
        {MODULE("", "Transformer") ", " MODULE(".", "Pooling"), "{}", "{}", "query",
         "prompts: 'query' is missing (known: none)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char modules[512];
        weft_embed_settings s;
        snprintf(modules, sizeof modules, "[%s]", cases[i].modules);
        put("modules.json", modules);
        put("config.json", cases[i].pooling);
        put("sentence_bert_config.json", cases[i].sentences);
        char folder[512];
        snprintf(folder, sizeof folder, "%s", check_temporary("modules.json"));
        *strrchr(folder, '/') = '\0';
        CHECK(weft_embed_settings_load(folder, cases[i].prompt, &s) != WEFT_OK);
        CHECK_CONTAINS(weft_error_message(), cases[i].message);
        CHECK(!s.found && s.prompt == NULL);
    }
    weft_embed_settings none;
    CHECK_OK(weft_embed_settings_load(check_fixture("models/llama"), NULL, &none));
    CHECK(!none.found && none.max_tokens == 0);
    weft_embed_settings_free(&none);
}

CHECK_MAIN("encoders", CHECK_CASE(hidden_states_are_the_reference),
           CHECK_CASE(packed_rows_are_separate_sequences),
           CHECK_CASE(embeddings_are_those_of_sentence_transformers),
           CHECK_CASE(linears_may_be_on_another_device), CHECK_CASE(max_pooling_ignores_padding),
           CHECK_CASE(gradients_of_padded_rows_are_those_of_rows_alone),
           CHECK_CASE(models_are_saved_as_they_were), CHECK_CASE(text_is_not_generated),
           CHECK_CASE(decoders_in_both_directions_are_encoders),
           CHECK_CASE(configurations_that_do_not_fit_are_named),
           CHECK_CASE(settings_that_do_not_fit_are_named))
