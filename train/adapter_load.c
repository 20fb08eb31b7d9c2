/* train/adapter_load.c -- a PEFT adapter put around a model's linears. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "nn/lora.h"
#include "train/adapter.h"

/* "base_model.model.P.lora_A.weight" is the parameter P.lora_A, and without ".weight"
 * "base_model.model.P.lora_magnitude_vector" is P.lora_magnitude_vector. Another name stays as it
 * is and is reported as unexpected. */
static bool path_of(void *context, const char *name, char *out, size_t size)
{
    (void)context;
    const size_t start = strlen(WEFT__ADAPTER_PREFIX), n = strlen(name), end = strlen(".weight");
    const bool framed = n > start + end && strncmp(name, WEFT__ADAPTER_PREFIX, start) == 0;
    const bool weight = framed && strcmp(name + n - end, ".weight") == 0;
    if (framed)
        snprintf(out, size, "%.*s", (int)(n - start - (weight ? end : 0)), name + start);
    if (!framed || !weft__adapter_is_part(out))
        snprintf(out, size, "%s", name);
    return true;
}

/* Whether the file has a half of an adapter for the linear. */
static bool has_tensor(const weft_safetensors *file, const char *linear)
{
    for (int half = 'A'; half <= 'B'; half++) {
        char name[WEFT_NN_PATH + 64];
        snprintf(name, sizeof name, WEFT__ADAPTER_PREFIX "%s.lora_%c.weight", linear, half);
        if (weft_safetensors_find(file, name) >= 0)
            return true;
    }
    return false;
}

static weft_status choose_linears(weft_module *tree, const weft__adapter_config *config,
                                  const weft_safetensors *file, weft__names *chosen)
{
    weft__names linears = {0};
    weft_status status = weft__adapter_linears(tree, &linears, NULL);
    for (int i = 0; status == WEFT_OK && i < linears.n; i++) {
        const char *path = linears.at[i];
        if (config->by_tensors ? has_tensor(file, path) : weft__adapter_config_fits(config, path))
            status = weft__names_add(chosen, path);
    }
    weft__names_free(&linears);
    if (status == WEFT_OK && chosen->n == 0)
        status =
            weft_fail(WEFT_INVALID, "%s: its targets fit no linear of the model", config->doc.name);
    return status;
}

/* The patterns of the configuration, for each linear that has another rank or alpha. */
static weft_status find_patterns(const weft__adapter_config *config, const weft__names *chosen,
                                 weft_nn_lora_pattern *out, int *n)
{
    weft_status status = WEFT_OK;
    *n = 0;
    for (int i = 0; status == WEFT_OK && i < chosen->n; i++) {
        double rank, alpha = 0;
        status = weft__adapter_pattern_find(&config->ranks, chosen->at[i], &rank);
        if (status == WEFT_OK)
            status = weft__adapter_pattern_find(&config->alphas, chosen->at[i], &alpha);
        if (rank != 0 || alpha != 0)
            out[(*n)++] = (weft_nn_lora_pattern){chosen->at[i], (int64_t)rank, alpha};
    }
    return status;
}

static weft_status inject_with(weft_module *tree, const weft__adapter_config *config,
                               const weft__names *chosen, const weft_nn_lora_pattern *patterns,
                               int n_patterns, const weft_adapter_options *options)
{
    const weft_nn_lora_options lora = {
        .rank = config->rank,
        .alpha = config->alpha,
        .rslora = config->rslora,
        .dora = config->dora,
        .dropout = config->dropout,
        .dtype = options && options->dtype ? options->dtype : WEFT_FLOAT32,
        .targets = (const char *const *)chosen->at,
        .n_targets = chosen->n,
        .patterns = patterns,
        .n_patterns = n_patterns,
    };
    return weft_nn_lora_inject(tree, &lora);
}

static weft_status inject(weft_module *tree, const weft__adapter_config *config,
                          const weft__names *chosen, const weft_adapter_options *options)
{
    int n = 0;
    weft_nn_lora_pattern *patterns = weft_calloc((size_t)chosen->n, sizeof *patterns);
    weft_status status = patterns ? find_patterns(config, chosen, patterns, &n)
                                  : weft__out_of_memory(config->doc.name, "its patterns");
    if (status == WEFT_OK)
        status = inject_with(tree, config, chosen, patterns, n, options);
    weft_free(patterns);
    return status;
}

static weft_status load(weft_module *tree, const weft__adapter_config *config,
                        const weft_safetensors *file, const weft_adapter_options *options)
{
    weft__names chosen = {0};
    weft_status status = choose_linears(tree, config, file, &chosen);
    if (status == WEFT_OK)
        status = inject(tree, config, &chosen, options);
    weft__names_free(&chosen);
    if (status != WEFT_OK)
        return status;
    const weft_nn_load_options o = {
        .trainable_only = true,
        .dtype = options && options->dtype ? options->dtype : WEFT_FLOAT32,
        .rename = path_of,
    };
    status = weft_nn_load(tree, file, &o);
    if (status == WEFT_OK)
        status = weft__dora_settle(tree);
    if (status != WEFT_OK)
        weft_nn_lora_remove(tree);
    return status;
}

weft_status weft_adapter_load(weft_model *model, const char *folder,
                              const weft_adapter_options *options)
{
    weft_module *tree = weft_model_module(model);
    if (weft_nn_lora_count(tree) > 0)
        return weft_fail(WEFT_INVALID, "%s: the model has an adapter already", folder);
    weft__adapter_config config;
    weft_status status = weft__adapter_config_read(folder, &config);
    if (status != WEFT_OK)
        return status;
    weft_safetensors *file = NULL;
    char *path = weft_format("%s/%s", folder, WEFT__ADAPTER_TENSORS);
    status = path ? weft_safetensors_open(path, &file)
                  : weft__out_of_memory(folder, "reading the adapter");
    if (status == WEFT_OK)
        status = load(tree, &config, file, options);
    weft_safetensors_close(file);
    weft_free(path);
    weft__adapter_config_free(&config);
    return status;
}
