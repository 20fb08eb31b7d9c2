/* models/weights.c -- maps checkpoints' tensor names to tree paths: strips prefixes of wrappers,
 * drops towers of other modalities. */
#include "models/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "weft/nn_tools.h"

static const char *const prefixes[] = {
    "model.language_model.model.",
    "language_model.model.",
    "model.language_model.",
    "language_model.",
    "model.",
};

static const char *const towers[] = {
    "vision_tower",          "vision_model",    "visual",
    "multi_modal_projector", "audio_tower",     "embed_audio",
    "embed_vision",          "vision_embedder", "mtp.",
};

static const char *const dropped_endings[] = {
    "input_max",
    "input_min",
    "output_max",
    "output_min",
};

static bool starts(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static const char *stripped(const char *name)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (starts(name, prefixes[i]))
            return name + strlen(prefixes[i]);
    }
    return name;
}

/* The tower of a tensor; NULL: the text model. */
static const char *tower_of(const char *bare)
{
    for (size_t i = 0; i < sizeof towers / sizeof *towers; i++) {
        if (starts(bare, towers[i]))
            return towers[i];
    }
    return NULL;
}

static bool is_dropped(const char *bare)
{
    for (size_t i = 0; i < sizeof dropped_endings / sizeof *dropped_endings; i++) {
        if (weft__ends_with(bare, dropped_endings[i]))
            return true;
    }
    return tower_of(bare) || strstr(bare, "rotary_emb") != NULL;
}

static bool usual_rename(const char *name, char *out, size_t size)
{
    const char *bare = stripped(name);
    if (is_dropped(bare))
        return false;
    /* Mixtral's experts have another parent than those of other families. */
    static const char sparse[] = ".block_sparse_moe.";
    const char *at = strstr(bare, sparse), *above = starts(bare, "lm_head.") ? "" : "model.";
    if (at)
        snprintf(out, size, "%s%.*s.mlp.%s", above, (int)(at - bare), bare, at + sizeof sparse - 1);
    else
        snprintf(out, size, "%s%s", above, bare);
    return true;
}

static bool family_rename(const weft_model_family *family, const char *name, char *out, size_t size)
{
    return family->rename ? family->rename(NULL, name, out, size) : usual_rename(name, out, size);
}

/* ---- the list ------------------------------------------------------------------------------- */

weft_status weft__weights_add(weft__weights *w, const char *path, weft_array *array)
{
    if (w->n == w->capacity) {
        const int capacity = 2 * w->capacity + 64;
        weft__weight *moved = weft_realloc(w->at, (size_t)capacity * sizeof *moved);
        if (moved == NULL)
            return weft__out_of_memory(path, "the list of tensors");
        w->at = moved;
        w->capacity = capacity;
    }
    char *copy = weft_strdup(path);
    if (copy == NULL)
        return weft__out_of_memory(path, "the list of tensors");
    w->at[w->n++] = (weft__weight){copy, array};
    return WEFT_OK;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const weft__weight *)a)->path, ((const weft__weight *)b)->path);
}

void weft__weights_sort(weft__weights *w)
{
    if (w->n > 0)
        qsort(w->at, (size_t)w->n, sizeof *w->at, compare);
}

weft__weight *weft__weights_find(const weft__weights *w, const char *path)
{
    const weft__weight key = {.path = (char *)path};
    return w->n > 0 ? bsearch(&key, w->at, (size_t)w->n, sizeof *w->at, compare) : NULL;
}

bool weft__weights_shape(const void *weights, const char *path, weft_dims *out)
{
    const weft__weight *found = weft__weights_find(weights, path);
    if (found && weft_ok(found->array))
        *out = weft_shape(found->array);
    return found && weft_ok(found->array);
}

void weft__weights_free(weft__weights *w)
{
    for (int i = 0; i < w->n; i++)
        weft_free(w->at[i].path);
    weft_free(w->at);
    weft_free(w->skipped.at);
    *w = (weft__weights){0};
}

/* ---- from a file ---------------------------------------------------------------------------- */

static void add_skipped(weft__weights *w, const char *part)
{
    w->n_skipped++;
    if (w->skipped.at == NULL || strstr(w->skipped.at, part) == NULL)
        weft__text_format(&w->skipped, "%s%s", w->skipped.n ? ", " : "", part);
}

static void count_skipped(weft__weights *w, const char *name)
{
    const char *tower = tower_of(stripped(name));
    if (tower != NULL)
        add_skipped(w, tower);
}

weft_status weft__weights_read(const weft_safetensors *file, const weft_model_family *family,
                               weft__weights *out)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < weft_safetensors_count(file) && status == WEFT_OK; i++) {
        char path[WEFT_NN_PATH];
        const char *name = weft_safetensors_name(file, i);
        if (family_rename(family, name, path, sizeof path))
            status = weft__weights_add(out, path, weft_safetensors_get_at(file, i));
        else
            count_skipped(out, name);
    }
    weft__weights_sort(out);
    return status == WEFT_OK ? weft__weights_stack_experts(out) : status;
}

/* ---- into a tree ---------------------------------------------------------------------------- */

static bool is_unused(const char *path, const weft_model_info *info)
{
    static const char layers[] = "model.layers.";
    if (starts(path, "lm_head."))
        return info->tied;
    if (info->n_caches >= info->n_layers || !starts(path, layers))
        return false;
    char *rest;
    const long long layer = strtoll(path + sizeof layers - 1, &rest, 10);
    return layer >= info->n_caches &&
           (starts(rest, ".self_attn.k_") || starts(rest, ".self_attn.v_"));
}

void weft__weights_drop_unused(weft__weights *w, const weft_model_info *info)
{
    int kept = 0;
    for (int i = 0; i < w->n; i++) {
        if (is_unused(w->at[i].path, info)) {
            if (starts(w->at[i].path, "lm_head."))
                add_skipped(w, "lm_head (tie_word_embeddings)");
            weft_free(w->at[i].path);
        } else {
            w->at[kept++] = w->at[i];
        }
    }
    w->n = kept;
}

weft_status weft__weights_load(const weft__weights *w, weft_module *tree,
                               const weft_nn_load_options *options)
{
    const size_t n = w->n > 0 ? (size_t)w->n : 1;
    weft_named_arrays arrays = {
        .n = w->n,
        .names = weft_calloc(n, sizeof *arrays.names),
        .arrays = weft_calloc(n, sizeof *arrays.arrays),
    };
    weft_status status = WEFT_OK;
    if (arrays.names == NULL || arrays.arrays == NULL)
        status = weft__out_of_memory(options->where, "the list of tensors");
    for (int i = 0; i < w->n && status == WEFT_OK; i++) {
        arrays.names[i] = w->at[i].path;
        arrays.arrays[i] = w->at[i].array;
    }
    if (status == WEFT_OK)
        status = weft_nn_load_arrays(tree, &arrays, options);
    weft_free(arrays.names);
    weft_free(arrays.arrays);
    return status;
}

/* ---- without a model_type ------------------------------------------------------------------- */

static bool has(const weft_safetensors *file, const char *path)
{
    char renamed[WEFT_NN_PATH];
    for (int i = 0; i < weft_safetensors_count(file); i++) {
        if (usual_rename(weft_safetensors_name(file, i), renamed, sizeof renamed) &&
            strcmp(renamed, path) == 0)
            return true;
    }
    return false;
}

const char *weft__weights_model_type(const weft_safetensors *file)
{
    if (has(file, "model.layers.0.self_attn.q_norm.weight"))
        return "qwen3";
    if (has(file, "model.layers.0.self_attn.q_proj.bias"))
        return "qwen2";
    return "llama";
}
