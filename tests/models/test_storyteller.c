/* tests/models/test_storyteller.c -- the model that is included with Weft against transformers:
 * logits, loss, greedy continuations through the generator, with and without a cache
 * (tests/golden/storyteller). */
#include <stdlib.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "weft/generate.h"
#include "weft/train.h"

enum { WINDOW = 512 };

static weft_model *load(void)
{
    weft_model *model = NULL;
    const weft_model_options options = {.dtype = WEFT_FLOAT32};
    CHECK_OK(weft_model_load(check_source("examples/storyteller"), &options, &model));
    return model;
}

static void the_last_logits_are_the_reference(void)
{
    weft_model *model = load();
    weft_safetensors *file = NULL;
    if (model && CHECK_OK(weft_safetensors_open(check_fixture("storyteller/reference.safetensors"),
                                                &file))) {
        weft_scope_open();
        weft_array *logits =
            weft_model_forward(model, weft_safetensors_get(file, "input_ids"), NULL);
        weft_array *last = weft_slice_axis(weft_squeeze(logits, 0), 0, WINDOW - 8, WINDOW);
        weft_array *difference =
            weft_abs(weft_subtract(last, weft_safetensors_get(file, "logits_last")));
        CHECK_CLOSE(weft_item(weft_max(difference, WEFT_ALL_AXES, false)), 0, 1e-4);
        weft_scope_close(NULL);
        weft_safetensors_close(file);
    }
    weft_model_free(model);
}

/* A member of the reference; NULL and a failed check when it is absent. */
static json_object *member(weft__json_doc *doc, const char *name)
{
    json_object *value = NULL;
    CHECK(json_object_object_get_ex(doc->root, name, &value));
    return value;
}

static int32_t *integers(json_object *array, size_t *n)
{
    *n = json_object_array_length(array);
    int32_t *out = calloc(*n + 1, sizeof *out);
    for (size_t i = 0; i < *n; i++) {
        out[i] = json_object_get_int(json_object_array_get_idx(array, i));
    }
    return out;
}

/* Windows of 513 ids at stride 512, so that each predicts 512 and none is predicted twice. */
static void the_validation_loss_is_the_reference(void)
{
    weft_model *model = load();
    weft__json_doc doc = {0};
    weft_dataset *data = NULL;
    if (model && CHECK_OK(weft__json_read(check_fixture("storyteller/reference.json"), &doc)) &&
        CHECK_OK(weft_dataset_new(WINDOW + 1, &data))) {
        size_t n;
        int32_t *ids = integers(member(&doc, "val_ids"), &n);
        for (size_t at = 0; at + WINDOW < n; at += WINDOW) {
            CHECK_OK(weft_dataset_add(data, ids + at, WINDOW + 1, 0));
        }
        weft_evaluation result = {0};
        CHECK_OK(weft_evaluate(model, data, NULL, &result));
        CHECK_EQ_INT(result.targets, 40 * WINDOW);
        CHECK_CLOSE(result.loss, json_object_get_double(member(&doc, "val_nll_per_token")), 2e-5);
        free(ids);
    }
    weft_dataset_free(data);
    weft__json_free(&doc);
    weft_model_free(model);
}

/* Continues ids[0..n_prompt) greedily and compares with the rest. */
static void continues_as(weft_model *model, const int32_t *ids, size_t n_prompt, size_t n,
                         weft_generate_options options)
{
    weft_generator *generator = NULL;
    options.max_tokens = (int64_t)(n - n_prompt);
    options.ignore_eos = true;
    if (!CHECK_OK(weft_generator_new(model, ids, n_prompt, &options, &generator))) {
        return;
    }
    for (size_t i = n_prompt; i < n; i++) {
        int32_t id = -1;
        if (!CHECK_OK(weft_generator_next(generator, &id, NULL)) || !CHECK_EQ_INT(id, ids[i])) {
            break;
        }
    }
    weft_generator_free(generator);
}

static void greedy_continuations_are_the_reference(void)
{
    weft_model *model = load();
    weft__json_doc doc = {0};
    if (model && CHECK_OK(weft__json_read(check_fixture("storyteller/reference.json"), &doc))) {
        json_object *all = member(&doc, "greedy");
        for (size_t i = 0; i < json_object_array_length(all); i++) {
            json_object *one = json_object_array_get_idx(all, i), *prompt = NULL, *whole = NULL;
            json_object_object_get_ex(one, "prompt_ids", &prompt);
            json_object_object_get_ex(one, "greedy_ids", &whole);
            size_t n_prompt = json_object_array_length(prompt), n;
            int32_t *ids = integers(whole, &n);
            CHECK(n > n_prompt);
            continues_as(model, ids, n_prompt, n, (weft_generate_options){0});
            continues_as(model, ids, n_prompt, n, (weft_generate_options){.prefill = 3});
            continues_as(model, ids, n_prompt, n, (weft_generate_options){.no_cache = true});
            free(ids);
        }
    }
    weft__json_free(&doc);
    weft_model_free(model);
}

CHECK_MAIN("storyteller", CHECK_CASE(the_last_logits_are_the_reference),
           CHECK_CASE(the_validation_loss_is_the_reference),
           CHECK_CASE(greedy_continuations_are_the_reference))
