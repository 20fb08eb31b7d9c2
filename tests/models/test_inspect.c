/* tests/models/test_inspect.c -- keys, queries, attention weights and log-probabilities of tokens,
 * against transformers (tests/golden/inspect/README.md). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/batch.h"
#include "weft/inspect.h"
#include "weft/io.h"
#include "weft/op.h"
#include "weft/reduce.h"

enum { LENGTH = 9 };

static const char *const names[] = {
    "llama",        "llama-bias", "mistral",   "qwen2",       "qwen3",     "gemma2",  "gemma3",
    "gemma4-dense", "gemma4-moe", "qwen3-moe", "rope-linear", "rope-yarn", "mixtral", "ministral"};
enum { N_NAMES = sizeof names / sizeof *names };

static weft_safetensors *open_golden(void)
{
    weft_safetensors *file = NULL;
    CHECK_OK(weft_safetensors_open(check_fixture("inspect/attention.safetensors"), &file));
    return file;
}

/* The largest difference from tensor NAME/LAYER/what; below 0 when there is none. */
static double difference(weft_safetensors *golden, const char *name, int64_t layer,
                         const char *what, weft_array *got)
{
    char key[128];
    snprintf(key, sizeof key, "%s/%d/%s", name, (int)layer, what);
    weft_array *expected = weft_safetensors_get(golden, key);
    if (!weft_ok(expected))
        return -1;
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(weft_dim(got, i), weft_dim(expected, i));
    CHECK_EQ_INT(weft_dtype_of(got), WEFT_FLOAT32);
    weft_array *gap = weft_abs(weft_subtract(weft_to(got, weft_default_device()), expected));
    return weft_item(weft_max(gap, WEFT_ALL_AXES, false));
}

/* A layer that uses another layer's keys has none in the reference: it has those of its source. */
static void compare_layer(weft_safetensors *golden, const char *name, const weft_inspection *x,
                          int64_t i)
{
    const weft_inspected_layer *layer = &x->layers[i];
    const double keys = difference(golden, name, i, "keys", layer->keys);
    const double queries = difference(golden, name, i, "queries", layer->queries);
    printf("  %s, layer %d: keys %.3g, queries %.3g\n", name, (int)i, keys, queries);
    CHECK(queries >= 0);
    CHECK_CLOSE(queries, 0, 1e-4);
    CHECK_EQ_INT(layer->n_heads, weft_dim(layer->queries, 0));
    CHECK_EQ_INT(layer->n_kv_heads, weft_dim(layer->keys, 0));
    CHECK_EQ_INT(layer->head_dim, weft_dim(layer->keys, 2));
    if (keys >= 0) {
        CHECK_CLOSE(keys, 0, 1e-4);
        CHECK_EQ_INT(layer->source, i);
    } else {
        CHECK(layer->source < i);
        CHECK_CLOSE(difference(golden, name, layer->source, "keys", layer->keys), 0, 1e-4);
    }
}

static weft_inspection *inspect(weft_model *model, weft_safetensors *golden, const char *name)
{
    char key[128];
    int32_t ids[LENGTH];
    weft_inspection *x = NULL;
    snprintf(key, sizeof key, "%s/ids", name);
    CHECK_OK(weft_read(weft_safetensors_get(golden, key), WEFT_INT32, ids, LENGTH));
    CHECK_OK(weft_inspect(model, ids, LENGTH, &x));
    return x;
}

static void keys_and_queries_are_those_of_the_reference(void)
{
    weft_safetensors *golden = open_golden();
    for (int n = 0; golden && n < N_NAMES; n++) {
        weft_scope_open();
        weft_model *model = fixture_model(names[n]);
        weft_inspection *x = model ? inspect(model, golden, names[n]) : NULL;
        if (CHECK(x != NULL)) {
            CHECK_EQ_INT(x->length, LENGTH);
            CHECK_EQ_INT(x->n_layers, weft_model_info_of(model)->n_layers);
            CHECK_STR(x->architecture, weft_model_family_of(model)->model_type);
            for (int64_t i = 0; i < x->n_layers; i++)
                compare_layer(golden, names[n], x, i);
        }
        weft_inspection_free(x);
        weft_model_free(model);
        weft_scope_close(NULL);
    }
    weft_safetensors_close(golden);
}

/* Gemma 4's last two layers use the keys of the last ones before them of their own kind. */
static void shared_keys_are_of_their_source(void)
{
    weft_safetensors *golden = open_golden();
    weft_model *model = fixture_model("gemma4-dense");
    weft_scope_open();
    weft_inspection *x = golden && model ? inspect(model, golden, "gemma4-dense") : NULL;
    if (CHECK(x != NULL)) {
        int64_t borrowing = 0;
        for (int64_t i = 0; i < x->n_layers; i++)
            borrowing += x->layers[i].source != i;
        CHECK_EQ_INT(borrowing, x->n_layers - weft_model_info_of(model)->n_caches);
        CHECK(borrowing > 0);
    }
    weft_inspection_free(x);
    weft_scope_close(NULL);
    weft_model_free(model);
    weft_safetensors_close(golden);
}

/* The file has the arrays in memory and the model's metadata. */
static void a_file_has_it_all(void)
{
    const char *path = check_temporary("attention.safetensors");
    weft_safetensors *golden = open_golden(), *file = NULL;
    weft_model *model = fixture_model("gemma4-dense");
    weft_scope_open();
    weft_inspection *x = golden && model ? inspect(model, golden, "gemma4-dense") : NULL;
    if (CHECK(x != NULL) && CHECK_OK(weft_inspection_save(x, path)) &&
        CHECK_OK(weft_safetensors_open(path, &file))) {
        CHECK_EQ_INT(weft_safetensors_count(file), 2 * x->n_layers);
        for (int64_t i = 0; i < x->n_layers; i++) {
            char name[64];
            snprintf(name, sizeof name, "layers.%d.keys", (int)i);
            weft_array *gap = weft_subtract(weft_safetensors_get(file, name),
                                            weft_to(x->layers[i].keys, weft_default_device()));
            CHECK_CLOSE(weft_item(weft_max(weft_abs(gap), WEFT_ALL_AXES, false)), 0, 0);
        }
        CHECK_STR(weft_safetensors_metadata(file, "architecture"), x->architecture);
        CHECK_STR(weft_safetensors_metadata(file, "sources"), "[0, 1, 2, 3, 3, 2]");
        char ids[256] = "[";
        for (int i = 0; i < LENGTH; i++)
            snprintf(ids + strlen(ids), 16, "%s%d", i ? ", " : "", (int)x->ids[i]);
        strcat(ids, "]");
        CHECK_STR(weft_safetensors_metadata(file, "tokens"), ids);
    }
    weft_inspection_free(x);
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    weft_model_free(model);
    weft_safetensors_close(golden);
}

static void bad_prompts_are_refused(void)
{
    weft_model *model = fixture_model("llama");
    weft_inspection *x = NULL;
    if (model == NULL)
        return;
    const int32_t ids[] = {1, -2, 1 << 20};
    CHECK_STATUS(weft_inspect(model, ids, 0, &x), WEFT_INVALID);
    CHECK_STATUS(weft_inspect(model, ids, 2, &x), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "prompt id 1");
    CHECK_STATUS(weft_inspect(model, ids + 2, 1, &x), WEFT_INVALID);
    CHECK(x == NULL);
    weft_model_free(model);
}

/* Keys of a record include those of a cache. */
static void records_hold_all_that_is_attended_to(void)
{
    weft_model *model = fixture_model("qwen3");
    weft_cache **caches = model ? weft_model_new_caches(model, NULL) : NULL;
    if (!CHECK(caches != NULL))
        return;
    weft_scope_open();
    weft_array *ids = weft_from_data((const int32_t[]){5, 6, 7, 8, 9}, WEFT_INT32, WEFT_DIMS(1, 5));
    weft_attention_record whole[2] = {0}, parts[2] = {0};
    weft_model_call call = {.records = whole};
    CHECK_OK(weft_eval(weft_model_hidden(model, ids, &call)));
    call = (weft_model_call){.records = parts, .caches = caches};
    CHECK_OK(weft_eval(weft_model_hidden(model, weft_slice_axis(ids, 1, 0, 3), &call)));
    CHECK_EQ_INT(weft_dim(parts[1].keys, 1), 3);
    CHECK_OK(weft_eval(weft_model_hidden(model, weft_slice_axis(ids, 1, 3, 5), &call)));
    for (int i = 0; i < 2; i++) {
        weft_array *gap = weft_abs(weft_subtract(whole[i].keys, parts[i].keys));
        CHECK_CLOSE(weft_item(weft_max(gap, WEFT_ALL_AXES, false)), 0, 1e-5);
        CHECK_EQ_INT(weft_dim(parts[i].queries, 1), 2);
        weft_array *const held[] = {whole[i].keys, whole[i].queries, parts[i].keys,
                                    parts[i].queries};
        for (int j = 0; j < 4; j++)
            weft_drop(held[j]);
    }
    weft_scope_close(NULL);
    weft_model_free_caches(model, caches);
    weft_model_free(model);
}

/* ---- attention weights and log-probabilities ------------------------------------------------- */

static const char *const weighted[] = {"llama",     "llama-bias",  "mistral",   "qwen2",
                                       "qwen3",     "gemma2",      "gemma3",    "gemma4-dense",
                                       "qwen3-moe", "rope-linear", "rope-yarn", "mixtral",
                                       "ministral", "gpt-oss",     "minicpm3"};
enum { N_WEIGHTED = sizeof weighted / sizeof *weighted };

/* The largest difference between the log-probabilities of the tokens and the reference. */
static double logprob_gap(weft_model *model, weft_safetensors *golden, const char *name,
                          const int32_t *ids)
{
    char key[128];
    double expected[LENGTH - 1], got[LENGTH - 1], sum = 0, gap = 0;
    weft_scored scored = {0};
    const weft_score_request request = {
        .text = {.ids = ids, .n = LENGTH}, .from = 1, .logprobs = got};
    snprintf(key, sizeof key, "%s/logprobs", name);
    CHECK_OK(weft_read(weft_safetensors_get(golden, key), WEFT_FLOAT64, expected, LENGTH - 1));
    CHECK_OK(weft_score(model, &request, 1, NULL, &scored));
    CHECK_OK(scored.status);
    for (int i = 0; i < LENGTH - 1; i++) {
        gap = fmax(gap, fabs(got[i] - expected[i]));
        sum += got[i];
    }
    CHECK_CLOSE(sum, scored.logprob, 1e-9);
    weft_scored_free(&scored, 1);
    return gap;
}

static void weights_are_those_of_the_reference(void)
{
    weft_safetensors *golden = NULL;
    CHECK_OK(weft_safetensors_open(check_fixture("inspect/weights.safetensors"), &golden));
    for (int n = 0; golden && n < N_WEIGHTED; n++) {
        int32_t ids[LENGTH];
        char key[128];
        double most = 0;
        weft_scope_open();
        weft_model *model = fixture_model(weighted[n]);
        weft_inspection *x = NULL;
        snprintf(key, sizeof key, "%s/ids", weighted[n]);
        CHECK_OK(weft_read(weft_safetensors_get(golden, key), WEFT_INT32, ids, LENGTH));
        if (CHECK(model != NULL) &&
            CHECK_OK(weft_inspect_weights(model, ids, LENGTH, 0, 1000, &x))) {
            for (int64_t i = 0; i < x->n_layers; i++) {
                const double gap =
                    difference(golden, weighted[n], i, "weights", x->layers[i].weights);
                CHECK(gap >= 0);
                most = fmax(most, gap);
            }
            const double score = logprob_gap(model, golden, weighted[n], ids);
            printf("  %s: weights %.3g, log-probabilities %.3g\n", weighted[n], most, score);
            CHECK_CLOSE(most, 0, 1e-5);
            CHECK_CLOSE(score, 0, 1e-5);
        }
        weft_inspection_free(x);
        weft_model_free(model);
        weft_scope_close(NULL);
    }
    weft_safetensors_close(golden);
}

/* Encoders, and hybrids, of which only some layers have attention. */
static void encoders_and_hybrids_have_weights(void)
{
    static const struct {
        const char *name;
        int64_t layers, attending;
    } all[] = {{"bert", 2, 2},     {"roberta", 2, 2},   {"modernbert", 4, 4}, {"lfm2", 4, 2},
               {"granite4", 4, 1}, {"falcon-h1", 3, 3}, {"nemotron-h", 5, 1}, {"qwen3-next", 4, 1}};
    weft_safetensors *golden = NULL;
    CHECK_OK(weft_safetensors_open(check_fixture("inspect/weights.safetensors"), &golden));
    for (size_t n = 0; golden && n < sizeof all / sizeof *all; n++) {
        int32_t ids[LENGTH];
        char key[128];
        double most = 0;
        int64_t attending = 0;
        weft_scope_open();
        weft_model *model = fixture_model(all[n].name);
        weft_inspection *x = NULL;
        snprintf(key, sizeof key, "%s/ids", all[n].name);
        CHECK_OK(weft_read(weft_safetensors_get(golden, key), WEFT_INT32, ids, LENGTH));
        if (CHECK(model != NULL) && CHECK_OK(weft_inspect_weights(model, ids, LENGTH, 0, 99, &x))) {
            for (int64_t i = 0; i < x->n_layers; i++) {
                snprintf(key, sizeof key, "%s/%d/weights", all[n].name, (int)i);
                const bool has = weft_safetensors_find(golden, key) >= 0;
                CHECK_EQ_INT(x->layers[i].weights != NULL, has);
                CHECK_EQ_INT(x->layers[i].n_heads > 0, has);
                attending += has;
                if (has && x->layers[i].weights)
                    most = fmax(
                        most, difference(golden, all[n].name, i, "weights", x->layers[i].weights));
            }
            printf("  %s: %d of %d layers, weights %.3g\n", all[n].name, (int)attending,
                   (int)x->n_layers, most);
            CHECK_CLOSE(most, 0, 1e-5);
            CHECK_EQ_INT(attending, all[n].attending);
            CHECK_EQ_INT(x->n_layers, all[n].layers);
            CHECK_OK(weft_inspection_save(x, check_temporary("hybrid.safetensors")));
        }
        weft_inspection_free(x);
        weft_model_free(model);
        weft_scope_close(NULL);
    }
    weft_safetensors_close(golden);
}

/* Weights of layers that are not requested are not computed. */
static void chosen_layers_have_weights(void)
{
    weft_model *model = fixture_model("llama");
    weft_inspection *x = NULL;
    if (model && CHECK_OK(weft_inspect_weights(model, (const int32_t[]){5, 6}, 2, 1, 1, &x)))
        CHECK(x->layers[0].weights == NULL && x->layers[1].weights != NULL &&
              x->layers[0].keys != NULL);
    weft_inspection_free(x);
    weft_model_free(model);
}

CHECK_MAIN("inspect", CHECK_CASE(keys_and_queries_are_those_of_the_reference),
           CHECK_CASE(weights_are_those_of_the_reference),
           CHECK_CASE(encoders_and_hybrids_have_weights), CHECK_CASE(chosen_layers_have_weights),
           CHECK_CASE(shared_keys_are_of_their_source), CHECK_CASE(a_file_has_it_all),
           CHECK_CASE(bad_prompts_are_refused), CHECK_CASE(records_hold_all_that_is_attended_to))
