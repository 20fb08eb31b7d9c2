/* tests/train/test_adapter_no_memory.c -- each allocation fails once while adapters of each kind
 * and format are made, read, written and added: each time the failure is reported, nothing leaks
 * (leaks are checked in the sanitizer build), and the model is left without adapters. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
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

/* Runs the attempt with allocation 1 failing, then 2, ... until it makes fewer allocations. */
static void fail_each(const char *what, weft_status (*run)(work *w), work *w)
{
    if (w->model == NULL || !CHECK_OK(run(w))) /* allocates what stays */
        return;
    uint64_t nth = 1, failed = 0;
    weft_status status = WEFT_OK;
    for (; nth < 100000; nth++) {
        weft_scope_open(); /* a scope that found no memory leaves its temporaries to this one */
        weft_memory_fail_at(nth);
        status = run(w);
        const uint64_t made = weft_memory_fail_at(0);
        weft_scope_close(NULL);
        if (made < nth)
            break;
        failed += status != WEFT_OK;
    }
    CHECK_OK(status);
    CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(w->model)), 0);
    printf("  %s: %llu allocations, %llu failures\n", what, (unsigned long long)nth - 1,
           (unsigned long long)failed);
    CHECK(nth > 10 && failed * 10 >= (nth - 1) * 7);
    weft_model_free(w->model);
}

static weft_status load(work *w)
{
    const weft_status status = weft_adapter_load(w->model, w->adapter, NULL);
    weft_nn_lora_remove(weft_model_module(w->model));
    return status;
}

static weft_status inject(work *w)
{
    const weft_status status = weft_nn_lora_inject(weft_model_module(w->model), &w->options);
    weft_nn_lora_remove(weft_model_module(w->model));
    return status;
}

static weft_status convert(work *w)
{
    weft_status status = weft_adapter_load(w->model, w->adapter, NULL);
    if (status == WEFT_OK)
        status = weft_adapter_save_as(w->model, w->out, "base", w->format);
    weft_nn_lora_remove(weft_model_module(w->model));
    if (status == WEFT_OK)
        status = weft_adapter_load(w->model, w->out, NULL);
    weft_nn_lora_remove(weft_model_module(w->model));
    return status;
}

static weft_status add(work *w)
{
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
    fail_each("loading DoRA", load, &w);
    w = work_of("lora-llama-embeddings");
    fail_each("loading adapters of embeddings", load, &w);
    w = work_of("lora-qwen3-patterns");
    fail_each("loading patterns", load, &w);
    w = work_of("lora-qwen3-moe");
    fail_each("loading adapters of experts", load, &w);
    w = work_of("lora-llama-tokens");
    fail_each("loading trained tokens", load, &w);
    w = work_of("lora-llama-new");
    fail_each("loading new tokens", load, &w);
}

static void making(void)
{
    work w = work_of("lora-qwen3");
    w.options = (weft_nn_lora_options){.rank = 2, .pissa = true};
    fail_each("PiSSA", inject, &w);
    w = work_of("lora-qwen3");
    w.options = (weft_nn_lora_options){.rank = 2, .dora = true};
    fail_each("DoRA", inject, &w);
}

static void converting(void)
{
    work w = work_of("lora-llama");
    w.format = WEFT_ADAPTER_MLX;
    snprintf(w.out, sizeof w.out, "%s", check_temporary("mlx"));
    fail_each("mlx-lm's format", convert, &w);
    w = work_of("lora-qwen3-moe");
    snprintf(w.out, sizeof w.out, "%s", check_temporary("experts"));
    fail_each("experts", convert, &w);
    w = work_of("lora-qwen2-tokens");
    snprintf(w.out, sizeof w.out, "%s", check_temporary("tokens"));
    fail_each("tokens", convert, &w);
    w = work_of("lora-llama");
    w.format = WEFT_ADAPTER_GGUF;
    snprintf(w.out, sizeof w.out, "%s", check_temporary("adapter.gguf"));
    fail_each("GGUF", convert, &w);
}

static void adding(void)
{
    work w = work_of("lora-llama");
    fail_each("two adapters", add, &w);
}

CHECK_MAIN("adapter_no_memory", CHECK_CASE(loading), CHECK_CASE(making), CHECK_CASE(converting),
           CHECK_CASE(adding))
