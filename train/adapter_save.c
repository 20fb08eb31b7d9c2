/* train/adapter_save.c -- a model's adapters as PEFT's two files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "train/adapter.h"
#include "train/number.h"

/* What adapter_config.json says of the tree. */
typedef struct profile {
    int64_t rank;
    double scale, dropout;
    weft__names linears, adapted;
    weft__names targets;
    int64_t *layers; /* NULL: all */
    int n_layers;
} profile;

static void profile_free(profile *p)
{
    weft__names_free(&p->linears);
    weft__names_free(&p->adapted);
    weft__names_free(&p->targets);
    weft_free(p->layers);
}

/* ---- one rank, one scale -------------------------------------------------------------------- */

static weft_status check_adapter(void *context, const char *path, weft_module **field)
{
    profile *p = context;
    const weft_nn_lora_linear *m = (const weft_nn_lora_linear *)*field;
    if ((*field)->type != &weft_nn_lora_linear_type)
        return WEFT_OK;
    const int64_t rank = weft_dim(m->lora_A, 0);
    if (p->rank == 0) {
        p->rank = rank;
        p->scale = m->scale;
        p->dropout = ((const weft_nn_dropout *)m->lora_dropout)->p;
    }
    if (rank != p->rank || m->scale != p->scale)
        return weft_fail(WEFT_INVALID,
                         "adapter: %s has rank %lld and scale %g, others have %lld and %g: one "
                         "adapter has one of each",
                         path, (long long)rank, m->scale, (long long)p->rank, p->scale);
    return WEFT_OK;
}

/* ---- which linears -------------------------------------------------------------------------- */

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

static bool has_layer(const profile *p, int64_t layer)
{
    for (int i = 0; i < p->n_layers; i++) {
        if (p->layers[i] == layer)
            return true;
    }
    return false;
}

/* The suffixes of the adapted linears, and the layers they are in. */
static weft_status find_suffixes(profile *p)
{
    p->layers = weft_calloc((size_t)p->adapted.n, sizeof *p->layers);
    if (p->layers == NULL)
        return weft__out_of_memory("adapter", "a list of layers");
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < p->adapted.n; i++) {
        const char *path = p->adapted.at[i];
        const int64_t layer = weft__adapter_layer(path);
        if (!has_layer(p, layer))
            p->layers[p->n_layers++] = layer;
        if (!weft__names_have(&p->targets, last_part(path)))
            status = weft__names_add(&p->targets, last_part(path));
    }
    return status;
}

/* Whether the suffixes, in all layers or only in those found, mean the adapted linears exactly. */
static bool is_exact(const profile *p, bool all_layers)
{
    if (!all_layers && has_layer(p, -1))
        return false; /* PEFT's layers_to_transform leaves out what is in no layer */
    int n = 0;
    for (int i = 0; i < p->linears.n; i++) {
        const char *path = p->linears.at[i];
        n += weft__names_have(&p->targets, last_part(path)) &&
             (all_layers || has_layer(p, weft__adapter_layer(path)));
    }
    return n == p->adapted.n;
}

static void forget_layers(profile *p)
{
    weft_free(p->layers);
    p->layers = NULL;
    p->n_layers = 0;
}

static int compare_layers(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static weft_status find_targets(profile *p)
{
    weft_status status = find_suffixes(p);
    if (status != WEFT_OK)
        return status;
    if (is_exact(p, true)) {
        forget_layers(p);
    } else if (is_exact(p, false)) {
        qsort(p->layers, (size_t)p->n_layers, sizeof *p->layers, compare_layers);
    } else {
        forget_layers(p);
        weft__names_free(&p->targets);
        for (int i = 0; status == WEFT_OK && i < p->adapted.n; i++)
            status = weft__names_add(&p->targets, p->adapted.at[i]);
    }
    weft__names_sort(&p->targets);
    return status;
}

static weft_status find_profile(weft_module *tree, profile *p)
{
    weft_status status = weft__adapter_linears(tree, &p->linears, &p->adapted);
    if (status == WEFT_OK && p->adapted.n == 0)
        status = weft_fail(WEFT_INVALID, "adapter: the model has none");
    if (status == WEFT_OK)
        status = weft_nn_visit_modules(tree, check_adapter, p);
    return status == WEFT_OK ? find_targets(p) : status;
}

/* ---- adapter_config.json -------------------------------------------------------------------- */

/* An alpha that was an integer is one again after it went through alpha / rank. */
static double alpha_of(const profile *p)
{
    const double alpha = p->scale * (double)p->rank, whole = nearbyint(alpha);
    return fabs(alpha - whole) <= 1e-12 * fabs(alpha) ? whole : alpha;
}

static void write_targets(weft__text *t, const profile *p)
{
    weft__text_format(t, "  \"target_modules\": [\n");
    for (int i = 0; i < p->targets.n; i++) {
        weft__text_format(t, "    ");
        weft__text_quote(t, p->targets.at[i]);
        weft__text_format(t, "%s\n", i + 1 < p->targets.n ? "," : "");
    }
    weft__text_format(t, "  ],\n");
}

static void write_layers(weft__text *t, const profile *p)
{
    if (p->layers == NULL) {
        weft__text_format(t, "  \"layers_to_transform\": null,\n");
        return;
    }
    weft__text_format(t, "  \"layers_to_transform\": [");
    for (int i = 0; i < p->n_layers; i++)
        weft__text_format(t, "%s%lld", i == 0 ? "" : ", ", (long long)p->layers[i]);
    weft__text_format(t, "],\n");
}

/* The fields that every version of PEFT since 0.9 knows, in its order. */
static void write_config(weft__text *t, const profile *p, const char *base_name)
{
    char number[WEFT__NUMBER_TEXT];
    weft__text_format(t, "{\n  \"alpha_pattern\": {},\n  \"auto_mapping\": null,\n"
                         "  \"base_model_name_or_path\": ");
    weft__text_quote(t, base_name ? base_name : "");
    weft__text_format(t, ",\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n"
                         "  \"inference_mode\": true,\n  \"init_lora_weights\": true,\n"
                         "  \"layer_replication\": null,\n  \"layers_pattern\": null,\n");
    write_layers(t, p);
    weft__text_format(t, "  \"loftq_config\": {},\n  \"lora_alpha\": %s,\n",
                      weft__number(alpha_of(p), number));
    weft__text_format(t, "  \"lora_dropout\": %s,\n", weft__number(p->dropout, number));
    weft__text_format(t,
                      "  \"megatron_config\": null,\n  \"megatron_core\": \"megatron.core\",\n"
                      "  \"modules_to_save\": null,\n  \"peft_type\": \"LORA\",\n  \"r\": %lld,\n"
                      "  \"rank_pattern\": {},\n  \"revision\": null,\n",
                      (long long)p->rank);
    write_targets(t, p);
    weft__text_format(t, "  \"task_type\": \"CAUSAL_LM\",\n  \"use_dora\": false,\n"
                         "  \"use_rslora\": false\n}\n");
}

static weft_status save_config(const char *folder, const profile *p, const char *base_name)
{
    char *path = weft_format("%s/%s", folder, WEFT__ADAPTER_CONFIG);
    weft__text t = {0};
    write_config(&t, p, base_name);
    weft_status status;
    if (path == NULL || t.failed)
        status = weft__out_of_memory(folder, "the adapter's configuration");
    else
        status = weft_file_write(path, t.at, t.n);
    weft_free(t.at);
    weft_free(path);
    return status;
}

/* ---- adapter_model.safetensors -------------------------------------------------------------- */

static bool tensor_name(void *context, const char *path, char *out, size_t size)
{
    (void)context;
    if (!weft__adapter_is_part(path))
        return false;
    snprintf(out, size, WEFT__ADAPTER_PREFIX "%s.weight", path);
    return true;
}

static weft_status save_tensors(const char *folder, weft_module *tree)
{
    char *path = weft_format("%s/%s", folder, WEFT__ADAPTER_TENSORS);
    if (path == NULL)
        return weft__out_of_memory(folder, "saving the adapter");
    const weft_status status =
        weft_nn_save(tree, path, &(weft_nn_save_options){.rename = tensor_name});
    weft_free(path);
    return status;
}

weft_status weft_adapter_save(weft_model *model, const char *folder, const char *base_name)
{
    weft_module *tree = weft_model_module(model);
    profile p = {0};
    weft_status status = find_profile(tree, &p);
    if (status == WEFT_OK)
        status = weft_folder_make(folder);
    if (status == WEFT_OK)
        status = save_tensors(folder, tree); /* first: what a full disk refuses */
    if (status == WEFT_OK)
        status = save_config(folder, &p, base_name);
    profile_free(&p);
    return status;
}
