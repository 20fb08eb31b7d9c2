/* tests/train/test_adapter_set.c -- several adapters of one model: weighted sums, switching, and
 * adapters that cannot be added. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "tests/train/recipes.h"

/* The final adapter of a recipe. The path lives until the suite ends. */
static const char *adapter(const char *folder)
{
    return recipe_path(recipe_named(folder), "final");
}

static weft_status multiply_scale(void *context, const char *path, weft_module **field)
{
    (void)path;
    if ((*field)->type == &weft_nn_lora_linear_type)
        ((weft_nn_lora_linear *)*field)->scale *= *(const double *)context;
    return WEFT_OK;
}

/* Adds an adapter times a weight to the base's own weights. */
static void merge(weft_model *model, const char *path, double weight)
{
    weft_module *tree = weft_model_module(model);
    if (!CHECK_OK(weft_adapter_load(model, path, NULL)))
        return;
    CHECK_OK(weft_nn_visit_modules(tree, multiply_scale, &weight));
    CHECK_OK(weft_nn_lora_merge(tree));
    weft_nn_lora_remove(tree);
}

/* qwen3 with these shares of two adapters, which have some linears in common. */
static weft_model *expected(double first, double second)
{
    weft_model *model = recipe_model(recipe_named("lora-qwen3"), NULL);
    if (model) {
        merge(model, adapter("lora-qwen3"), first);
        merge(model, adapter("lora-qwen3-rs"), second);
    }
    return model;
}

static void expect_weights(weft_adapter_set *set, weft_model *model, double first, double second)
{
    weft_model *wanted = expected(first, second);
    if (wanted && CHECK_OK(weft_adapter_set_use(set, (const double[]){first, second})))
        CHECK_CLOSE(logits_apart(model, wanted), 0, 5e-5);
    weft_model_free(wanted);
}

static void weights_are_exact_and_change_at_once(void)
{
    weft_model *model = recipe_model(recipe_named("lora-qwen3"), NULL);
    weft_adapter_set *set = NULL;
    if (model && CHECK_OK(weft_adapter_set_new(model, NULL, &set)) &&
        CHECK_OK(weft_adapter_set_add(set, adapter("lora-qwen3"), "first")) &&
        CHECK_OK(weft_adapter_set_add(set, adapter("lora-qwen3-rs"), NULL))) {
        CHECK_EQ_INT(weft_adapter_set_count(set), 2);
        CHECK_STR(weft_adapter_set_name(set, 0), "first");
        CHECK(weft_adapter_set_name(set, 2) == NULL);
        CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 0);
        expect_weights(set, model, 1, 0.5);
        expect_weights(set, model, 0, 1);
        CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 6);
        expect_weights(set, model, -0.25, 2);
        expect_weights(set, model, 0, 0);
        CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 0);
        CHECK_STATUS(weft_adapter_set_use(set, (const double[]){1, (double)NAN}), WEFT_INVALID);
    }
    weft_adapter_set_free(set);
    weft_model_free(model);
}

static void lists_load_by_one_text(void)
{
    weft_model *model = recipe_model(recipe_named("lora-qwen3"), NULL);
    weft_model *wanted = expected(1, 0.5);
    char list[2048];
    snprintf(list, sizeof list, "%s,%s:0.5", adapter("lora-qwen3"), adapter("lora-qwen3-rs"));
    if (model && wanted && CHECK_OK(weft_adapter_load_list(model, list, NULL)))
        CHECK_CLOSE(logits_apart(model, wanted), 0, 5e-5);
    weft_nn_lora_remove(weft_model_module(model));
    CHECK_STATUS(weft_adapter_load_list(model, "/nowhere,/either:2", NULL), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "/nowhere: there is no such adapter: ");
    CHECK_STATUS(weft_adapter_load_list(model, ",/nowhere", NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected a path before and after each comma");
    CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 0);
    weft_model_free(model);
    weft_model_free(wanted);
}

static void what_cannot_be_added_is_refused(void)
{
    weft_model *model = recipe_model(recipe_named("lora-qwen3"), NULL);
    weft_model *alone = recipe_model(recipe_named("lora-qwen3-dora"), "final");
    weft_model *llama = recipe_model(recipe_named("lora-llama"), NULL);
    weft_adapter_set *set = NULL, *other = NULL;
    if (model && alone && CHECK_OK(weft_adapter_set_new(model, NULL, &set)) &&
        CHECK_OK(weft_adapter_set_add(set, adapter("lora-qwen3-dora"), NULL)) &&
        CHECK_OK(weft_adapter_set_add(set, adapter("lora-qwen3-rs"), NULL))) {
        CHECK_OK(weft_adapter_set_use(set, (const double[]){1, 0}));
        CHECK_CLOSE(logits_apart(model, alone), 0, 1e-5);
        CHECK_STATUS(weft_adapter_set_use(set, (const double[]){1, 1}), WEFT_UNSUPPORTED);
        CHECK_STATUS(weft_adapter_set_use(set, (const double[]){0.5, 0}), WEFT_UNSUPPORTED);
        CHECK_CLOSE(logits_apart(model, alone), 0, 1e-5); /* as before */
        CHECK_STATUS(weft_adapter_set_new(model, NULL, &other), WEFT_INVALID);
    }
    weft_adapter_set_free(set);
    set = NULL;
    if (llama && CHECK_OK(weft_adapter_set_new(llama, NULL, &set))) {
        CHECK_STATUS(weft_adapter_set_add(set, adapter("lora-llama-saved"), NULL),
                     WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "modules_to_save");
        CHECK_EQ_INT(weft_adapter_set_count(set), 0);
    }
    weft_adapter_set_free(set);
    weft_model_free(model);
    weft_model_free(alone);
    weft_model_free(llama);
}

CHECK_MAIN("adapter_set", CHECK_CASE(weights_are_exact_and_change_at_once),
           CHECK_CASE(lists_load_by_one_text), CHECK_CASE(what_cannot_be_added_is_refused))
