/* tests/train/test_adapter_no_memory.c -- each allocation fails once while adapters of each kind
 * and format are made, read, written and added: each time the failure is reported, nothing leaks
 * (leaks are checked in the sanitizer build), and the model is left without adapters. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/fail_each.h"
#include "tests/train/recipes.h"

typedef struct work {
    weft_model *model;
    char adapter[600], out[600];
    weft_adapter_format format;
    weft_nn_lora_options options;
} work;

/* A base, and the path of its final adapter. */
static work work_of(const char *folder)
{
    work w = {.model = recipe_model(recipe_named(folder), NULL)};
    snprintf(w.adapter, sizeof w.adapter, "%s", recipe_path(recipe_named(folder), "final"));
    return w;
}

static void fail_adapter(const char *what, weft_status (*run)(void *context), work *w)
{
    if (w->model == NULL)
        return;
    fail_each(what, run, w, 7);
    CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(w->model)), 0);
    weft_model_free(w->model);
}

static weft_status load(void *context)
{
    work *w = context;
    const weft_status status = weft_adapter_load(w->model, w->adapter, NULL);
    weft_nn_lora_remove(weft_model_module(w->model));
    return status;
}

static weft_status inject(void *context)
{
    work *w = context;
    const weft_status status = weft_nn_lora_inject(weft_model_module(w->model), &w->options);
    weft_nn_lora_remove(weft_model_module(w->model));
    return status;
}

static weft_status convert(void *context)
{
    work *w = context;
    weft_status status = weft_adapter_load(w->model, w->adapter, NULL);
    if (status == WEFT_OK)
        status = weft_adapter_save_as(w->model, w->out, "base", w->format);
    weft_nn_lora_remove(weft_model_module(w->model));
    if (status == WEFT_OK)
        status = weft_adapter_load(w->model, w->out, NULL);
    weft_nn_lora_remove(weft_model_module(w->model));
    return status;
}

static weft_status add(void *context)
{
    work *w = context;
    weft_adapter_set *set = NULL;
    weft_status status = weft_adapter_set_new(w->model, NULL, &set);
    if (status == WEFT_OK)
        status = weft_adapter_set_add(set, w->adapter, "one");
    if (status == WEFT_OK)
        status = weft_adapter_set_add(set, w->adapter, "two");
    if (status == WEFT_OK)
        status = weft_adapter_set_use(set, (const double[]){1, 0.5});
    weft_adapter_set_free(set);
    weft_nn_lora_remove(weft_model_module(w->model));
    return status;
}

static void loading(void)
{
    work w = work_of("lora-qwen3-dora");
    fail_adapter("loading DoRA", load, &w);
    w = work_of("lora-llama-embeddings");
    fail_adapter("loading adapters of embeddings", load, &w);
    w = work_of("lora-qwen3-patterns");
    fail_adapter("loading patterns", load, &w);
    w = work_of("lora-qwen3-moe");
    fail_adapter("loading adapters of experts", load, &w);
    w = work_of("lora-llama-tokens");
    fail_adapter("loading trained tokens", load, &w);
    w = work_of("lora-llama-new");
    fail_adapter("loading new tokens", load, &w);
}

static void making(void)
{
    work w = work_of("lora-qwen3");
    w.options = (weft_nn_lora_options){.rank = 2, .pissa = true};
    fail_adapter("PiSSA", inject, &w);
    w = work_of("lora-qwen3");
    w.options = (weft_nn_lora_options){.rank = 2, .dora = true};
    fail_adapter("DoRA", inject, &w);
}

static void converting(void)
{
    work w = work_of("lora-llama");
    w.format = WEFT_ADAPTER_MLX;
    snprintf(w.out, sizeof w.out, "%s", check_temporary("mlx"));
    fail_adapter("mlx-lm's format", convert, &w);
    w = work_of("lora-qwen3-moe");
    snprintf(w.out, sizeof w.out, "%s", check_temporary("experts"));
    fail_adapter("experts", convert, &w);
    w = work_of("lora-qwen2-tokens");
    snprintf(w.out, sizeof w.out, "%s", check_temporary("tokens"));
    fail_adapter("tokens", convert, &w);
    w = work_of("lora-llama");
    w.format = WEFT_ADAPTER_GGUF;
    snprintf(w.out, sizeof w.out, "%s", check_temporary("adapter.gguf"));
    fail_adapter("GGUF", convert, &w);
}

static void adding(void)
{
    work w = work_of("lora-llama");
    fail_adapter("two adapters", add, &w);
}

CHECK_MAIN("adapter_no_memory", CHECK_CASE(loading), CHECK_CASE(making), CHECK_CASE(converting),
           CHECK_CASE(adding))
