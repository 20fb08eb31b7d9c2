/* models/weights.c -- the list of a checkpoint's tensors: maps names to tree paths, and marks the
 * tensors that the tree does not use. */
#include "models/weights.h"
#include "core/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "models/family.h"
#include "models/names.h"
#include "weft/nn_tools.h"

static bool starts(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_unused_name(const char *name)
{
    static const char *const endings[] = {"input_max", "input_min", "output_max", "output_min"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (weft__ends_with(name, endings[i]))
            return true;
    }
    return weft__tower_of(name) || strstr(name, "rotary_emb") != NULL;
}

/* Replaces the first part of a path that the family says that checkpoints have instead. */
static void replace_part(const weft__family *own, char *path, size_t size)
{
    char rest[WEFT_NN_PATH];
    for (const weft__module_name *n = own ? own->stored_parts : NULL; n && n->path; n++) {
        char *at = strstr(path, n->name);
        if (at == NULL)
            continue;
        snprintf(rest, sizeof rest, "%s", at + strlen(n->name));
        snprintf(at, size - (size_t)(at - path), "%s%s", n->path, rest);
        return;
    }
}

static bool family_rename(const weft_model_family *family, const char *name, char *out, size_t size)
{
    if (family->rename)
        return family->rename(NULL, name, out, size);
    if (is_unused_name(name))
        return false;
    weft__name_path(name, out, size);
    replace_part(family->own, out, size);
    return true;
}

/* ---- the list ------------------------------------------------------------------------------- */

static void release(weft__weight *weight)
{
    weft_free(weight->path);
    weft_free(weight->name);
}

weft_status weft__weights_add(weft__weights *w, const char *path, const char *name,
                              weft_array *array)
{
    if (!weft__list_more(w->at, w->n))
        return weft__out_of_memory(path, "the list of tensors");
    weft__weight added = {weft_strdup(path), name ? weft_strdup(name) : NULL, array, false};
    if (added.path == NULL || (name && added.name == NULL)) {
        release(&added);
        return weft__out_of_memory(path, "the list of tensors");
    }
    w->at[w->n++] = added;
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
    for (int i = 0; i < w->n; i++) {
        release(&w->at[i]);
        if (w->recorded)
            weft_drop(w->at[i].array);
    }
    weft_free(w->at);
    weft_free(w->skipped.at);
    *w = (weft__weights){0};
}

/* ---- from a file ---------------------------------------------------------------------------- */

static void add_skipped(weft__weights *w, const char *part)
{
    if (w->skipped.at == NULL || strstr(w->skipped.at, part) == NULL)
        weft__text_format(&w->skipped, "%s%s", w->skipped.n ? ", " : "", part);
}

/* Adds a tensor that is only copied when the model is saved, as a view of the file on the CPU. */
static weft_status add_unused(weft__weights *w, const weft_safetensors *file, int i)
{
    const char *name = weft_safetensors_name(file, i), *tower = weft__tower_of(name);
    weft_device *before = weft_default_device();
    weft_set_default_device(weft_device_get("cpu"));
    const weft_status status = weft__weights_add(w, name, name, weft_safetensors_get_at(file, i));
    weft_set_default_device(before);
    if (status == WEFT_OK)
        w->at[w->n - 1].unused = true;
    if (tower || starts(name, "lm_head."))
        add_skipped(w, tower ? tower : "lm_head");
    return status;
}

static bool alternates(const weft_model_family *family)
{
    return family->own && family->own->defaults->alternating;
}

weft_status weft__weights_read(const weft_safetensors *file, const weft_model_family *family,
                               weft__weights *out)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < weft_safetensors_count(file) && status == WEFT_OK; i++) {
        char path[WEFT_NN_PATH];
        const char *name = weft_safetensors_name(file, i);
        if (!family_rename(family, name, path, sizeof path)) {
            status = add_unused(out, file, i);
            continue;
        }
        weft_array *a = weft_safetensors_get_at(file, i);
        if (alternates(family))
            a = weft__alternating_read(path, sizeof path, a);
        status = weft__weights_add(out, path, name, a);
    }
    weft__weights_sort(out);
    return status == WEFT_OK ? weft__weights_stack_experts(out) : status;
}

/* ---- into a tree ---------------------------------------------------------------------------- */

/* The number of the layer of a path, and the rest of it after the number; -1: not of a layer. */
static long long layer_of(const char *path, char **rest)
{
    static const char layers[] = "model.layers.";
    return starts(path, layers) ? strtoll(path + sizeof layers - 1, rest, 10) : -1;
}

/* Keys and values of layers that use others'. */
static bool is_unused(const char *path, const weft_model_info *info)
{
    char *rest;
    return info->n_caches < info->n_layers && layer_of(path, &rest) >= info->n_caches &&
           (starts(rest, ".self_attn.k_") || starts(rest, ".self_attn.v_"));
}

/* What `skipped` calls a tensor that is dropped; NULL: it is not. */
static const char *dropped(const char *path, const weft_model_info *info, int64_t next_layers)
{
    char *rest;
    const long long layer = layer_of(path, &rest);
    if (starts(path, "lm_head."))
        return info->tied ? "lm_head (tie_word_embeddings)" : NULL;
    return layer >= info->n_layers && layer - info->n_layers < next_layers
               ? "layers of multi-token prediction (num_nextn_predict_layers)"
               : NULL;
}

void weft__weights_find_unused(weft__weights *w, const weft_model_info *info,
                               const weft_config *config)
{
    const int64_t next_layers = weft_config_int(config, "num_nextn_predict_layers", 0);
    int kept = 0;
    for (int i = 0; i < w->n; i++) {
        const char *part = dropped(w->at[i].path, info, next_layers);
        const bool head = info->n_labels == 0 && weft__is_label_head(w->at[i].path);
        if (head && !w->at[i].unused && !starts(w->at[i].path, "head."))
            add_skipped(w, starts(w->at[i].path, "score.") ? "score" : "classifier");
        w->at[i].unused |= head || is_unused(w->at[i].path, info);
        if (part) {
            add_skipped(w, part);
            release(&w->at[i]);
        } else {
            w->at[kept++] = w->at[i];
        }
    }
    w->n = kept;
}

void weft__weights_record(weft__weights *w)
{
    for (int i = 0; i < w->n; i++)
        w->at[i].array = w->at[i].unused ? weft_keep(w->at[i].array) : NULL;
    w->recorded = true;
}

weft_status weft__weights_load(const weft__weights *w, weft_module *tree,
                               const weft_nn_load_options *options)
{
    const size_t n = w->n > 0 ? (size_t)w->n : 1;
    weft_named_arrays arrays = {
        .names = weft_calloc(n, sizeof *arrays.names),
        .arrays = weft_calloc(n, sizeof *arrays.arrays),
    };
    weft_status status = WEFT_OK;
    if (arrays.names == NULL || arrays.arrays == NULL)
        status = weft__out_of_memory(options->where, "the list of tensors");
    for (int i = 0; i < w->n && status == WEFT_OK; i++) {
        if (w->at[i].unused)
            continue;
        arrays.names[arrays.n] = w->at[i].path;
        arrays.arrays[arrays.n++] = w->at[i].array;
    }
    if (status == WEFT_OK)
        status = weft_nn_load_arrays(tree, &arrays, options);
    weft_free(arrays.names);
    weft_free(arrays.arrays);
    return status;
}
