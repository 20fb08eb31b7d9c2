/* tests/train/recipes.c -- the LoRA runs of tests/golden/lora. */
#include "tests/train/recipes.h"

#include <stdio.h>
#include <string.h>

#include "tests/check.h"

static const char *const three[] = {"q_proj", "v_proj", "down_proj"};
static const weft_nn_lora_options pissa = {
    .rank = 4, .alpha = 8, .targets = three, .n_targets = 3, .pissa = true};

const recipe recipes[] = {
    {"lora-qwen3", "qwen3", 20, 0.01, 0.01, 0, NULL},
    {"lora-llama", "llama", 20, 0.01, -1, 0, NULL},
    {"lora-qwen3-rs", "qwen3", 12, 0.005, 0.01, 0, NULL},
    {"lora-gemma3", "gemma3", 12, 0.005, 0.01, 0, NULL},
    {"lora-qwen3-dora", "qwen3", 12, 0.005, 0.01, 0, NULL},
    {"lora-gemma2", "gemma2", 8, 0.005, 0.01, 0, NULL},
    {"lora-qwen3-patterns", "qwen3", 8, 0.005, 0.01, 0, NULL},
    {"lora-llama-embeddings", "llama", 8, 0.005, 0.01, 0, NULL},
    {"lora-qwen2-tied", "qwen2", 8, 0.005, 0.01, 0, NULL},
    {"lora-llama-plus", "llama", 8, 0.005, 0.01, 4, NULL},
    {"lora-llama-saved", "llama", 8, 0.005, 0.01, 0, NULL},
    {"lora-qwen3-moe", "qwen3-moe", 20, 0.005, 0.01, 0, NULL},
    {"lora-mixtral", "mixtral", 20, 0.005, 0.01, 0, NULL},
    {"lora-gpt-oss", "gpt-oss", 20, 0.005, 0.01, 0, NULL},
    {"lora-lfm2", "lfm2", 20, 0.005, 0.01, 0, NULL},
    {"lora-lfm3", "lfm3", 20, 0.005, 0.01, 0, NULL},
    {"lora-granite4", "granite4", 20, 0.005, 0.01, 0, NULL},
    {"lora-lfm2-moe", "lfm2-moe", 20, 0.005, 0.01, 0, NULL},
    {"lora-granite4-moe", "granite4-moe", 20, 0.005, 0.01, 0, NULL},
    {"lora-falcon-h1", "falcon-h1", 20, 0.005, 0.01, 0, NULL},
    {"lora-nemotron-h", "nemotron-h", 20, 0.005, 0.01, 0, NULL},
    {"lora-glm4-moe-lite", "glm4-moe-lite", 20, 0.005, 0.01, 0, NULL},
    {"lora-minicpm3", "minicpm3", 20, 0.005, 0.01, 0, NULL},
    {"lora-qwen2-tokens", "qwen2", 8, 0.005, 0.01, 0, NULL},
    {"lora-llama-tokens", "llama", 8, 0.005, 0.01, 0, NULL},
    {"lora-qwen2-new", "qwen2", 20, 0.005, 0.01, 0, NULL},
    {"lora-llama-new", "llama", 20, 0.005, 0.01, 0, NULL},
    {"lora-qwen3-pissa", "qwen3", 8, 0.005, 0.01, 0, &pissa},
};
const int n_recipes = sizeof recipes / sizeof *recipes;

bool recipe_has_gguf(const recipe *r)
{
    return strcmp(r->model, "granite4-moe") != 0 && strcmp(r->model, "lfm3") != 0 &&
           strcmp(r->model, "nemotron-h") != 0 && strncmp(r->model, "glm4-moe", 8) != 0 &&
           strncmp(r->model, "minicpm3", 8) != 0;
}

const recipe *recipe_named(const char *folder)
{
    for (int i = 0; i < n_recipes; i++) {
        if (strcmp(recipes[i].folder, folder) == 0)
            return &recipes[i];
    }
    CHECK_FAIL("no recipe %s", folder);
    return &recipes[0];
}

const char *recipe_path(const recipe *r, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "lora/%s/%s", r->folder, name);
    return check_fixture(path);
}

weft_model *recipe_model(const recipe *r, const char *name)
{
    char path[256];
    weft_model *model = NULL;
    snprintf(path, sizeof path, "models/%s", r->model);
    if (!CHECK_OK(weft_model_load(check_fixture(path), NULL, &model)))
        return NULL;
    if (name && r->start && strcmp(name, "initial") == 0 &&
        CHECK_OK(weft_nn_lora_inject(weft_model_module(model), r->start)))
        return model;
    if (name == NULL || CHECK_OK(weft_adapter_load(model, recipe_path(r, name), NULL)))
        return model;
    weft_model_free(model);
    return NULL;
}

weft_trainer_options recipe_options(const recipe *r)
{
    return (weft_trainer_options){
        .steps = r->steps,
        .lr = r->lr,
        .lora_plus = r->lora_plus,
        .weight_decay = r->weight_decay,
    };
}

bool recipe_numbers(const recipe *r, const char *name, double *out)
{
    weft_safetensors *file;
    if (!CHECK_OK(weft_safetensors_open(recipe_path(r, "trajectory.safetensors"), &file)))
        return false;
    weft_scope_open();
    weft_array *a = weft_safetensors_get(file, name);
    const bool done = CHECK_OK(weft_read(a, WEFT_FLOAT64, out, weft_size(a)));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    return done;
}
