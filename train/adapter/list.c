/* train/adapter/list.c -- converts between the adapters of a tree and a list. */
#include "train/adapter/list.h"

#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/list.h"
#include "nn/lora.h"
#include "nn/tokens.h"
#include "train/adapter/adapter.h"
#include "weft/nn_tools.h"

void weft__adapter_list_free(weft__adapter_list *list)
{
    for (int i = 0; i < list->n; i++)
        weft_free(list->at[i].path);
    weft_free(list->at);
    *list = (weft__adapter_list){0};
}

weft__adapter_entry *weft__adapter_list_entry(weft__adapter_list *list, const char *path)
{
    for (int i = list->n - 1; i >= 0; i--) {
        if (strcmp(list->at[i].path, path) == 0)
            return &list->at[i];
    }
    if (!weft__list_more(list->at, list->n)) {
        weft__out_of_memory("adapter", "a list of modules");
        return NULL;
    }
    weft__adapter_entry *entry = &list->at[list->n];
    *entry = (weft__adapter_entry){.path = weft_strdup(path), .scale = 1};
    if (entry->path == NULL) {
        weft__out_of_memory("adapter", "a path");
        return NULL;
    }
    list->n++;
    return entry;
}

/* ---- from a tree ---------------------------------------------------------------------------- */

static weft_status add_module(void *context, const char *path, weft_module **field)
{
    weft__adapter_list *list = context;
    const weft_nn_lora_linear *m = (const weft_nn_lora_linear *)*field;
    if (!weft__is_lora(*field))
        return WEFT_OK;
    weft__adapter_entry *e = weft__adapter_list_entry(list, path);
    if (e == NULL)
        return WEFT_MEMORY;
    e->embedding = m->module.type == &weft_nn_lora_embedding_type;
    e->scale = m->scale;
    e->A = weft__lora_A(m);
    e->B = m->lora_B;
    e->m = m->lora_magnitude_vector;
    if (m->start_A) {
        e->A = weft_concatenate((weft_array *[]){m->lora_A, m->start_A}, 2, 0);
        e->B = weft_concatenate((weft_array *[]){m->lora_B, weft_negative(m->start_B)}, 2, 1);
    }
    list->dropout = ((const weft_nn_dropout *)m->lora_dropout)->p;
    return WEFT_OK;
}

weft_status weft__adapter_list_of(weft_module *tree, weft__adapter_list *out)
{
    const weft_status status = weft_nn_visit_modules(tree, add_module, out);
    return status == WEFT_OK && out->n == 0 ? weft_fail(WEFT_INVALID, "adapter: the model has none")
                                            : status;
}

/* Checks that all adapters are DoRA or none is. */
static weft_status check_kind(const weft__adapter_list *list, const char *where)
{
    const bool dora = list->n > 0 && list->at[0].m != NULL;
    for (int i = 1; i < list->n; i++) {
        const weft__adapter_entry *e = &list->at[i];
        if ((e->m != NULL) != dora)
            return weft_fail(WEFT_UNSUPPORTED,
                             "%s: %s is %s, %s is %s: expected one kind in an adapter", where,
                             weft_printable(e->path), e->m != NULL ? "DoRA" : "plain LoRA",
                             weft_printable(list->at[0].path), dora ? "DoRA" : "plain LoRA");
    }
    return WEFT_OK;
}

static weft_status check_parameter(void *context, const weft_nn_item *item)
{
    if (item->slot->frozen || weft__adapter_is_part(item->path))
        return WEFT_OK;
    if (weft__is_tokens(item->module))
        return weft_fail(WEFT_UNSUPPORTED,
                         "adapter: it has rows of trained tokens, which %s adapters cannot have",
                         (const char *)context);
    return weft_fail(WEFT_UNSUPPORTED,
                     "adapter: %s is trained whole, which %s adapters cannot have", item->path,
                     (const char *)context);
}

weft_status weft__adapter_list_removable(weft_module *tree, weft__adapter_list *out)
{
    const weft_status status = weft_nn_visit(tree, check_parameter, (void *)"replaceable");
    return status == WEFT_OK ? weft__adapter_list_of(tree, out) : status;
}

weft_status weft__adapter_list_check(const weft__adapter_list *list, const weft_model *model,
                                     const char *format)
{
    const bool tied = weft_model_info_of(model)->tied;
    for (int i = 0; tied && i < list->n; i++) {
        const weft__adapter_entry *e = &list->at[i];
        if (e->embedding || strcmp(e->path, "lm_head") == 0)
            return weft_fail(WEFT_UNSUPPORTED,
                             "adapter: %s is adapted, but head and embedding of this model are one "
                             "matrix: %s adapters would change both",
                             e->path, format);
    }
    return WEFT_OK;
}

weft_status weft__adapter_list_for(weft_model *model, const char *format, weft__adapter_list *out)
{
    weft_module *tree = weft_model_module(model);
    weft_status status = weft__adapter_list_of(tree, out);
    if (status == WEFT_OK)
        status = weft__adapter_list_check(out, model, format);
    if (status == WEFT_OK)
        status = check_kind(out, "adapter");
    return status == WEFT_OK ? weft_nn_visit(tree, check_parameter, (void *)format) : status;
}

/* ---- into a tree ---------------------------------------------------------------------------- */

static weft_status check_entry(const weft__adapter_entry *e, const char *where)
{
    if (e->A == NULL || e->B == NULL)
        return weft_fail(WEFT_INVALID, "%s: %s: the other half is missing", where,
                         weft_printable(e->path));
    if (!weft_ok(e->A) || !weft_ok(e->B))
        return weft__report(weft_ok(e->A) ? e->B : e->A);
    const int64_t rank = weft_dim(e->B, -1);
    if (weft_ndim(e->A) < 2 || weft_ndim(e->A) > 3 || weft_ndim(e->A) != weft_ndim(e->B) ||
        weft_dim(e->A, -2) != rank || rank < 1 || rank > WEFT__MOST_RANK)
        return weft_fail(WEFT_INVALID, "%s: %s: the halves do not share a rank", where,
                         weft_printable(e->path));
    return WEFT_OK;
}

static weft_status inject(const weft__adapter_list *list, weft_module *tree,
                          const weft_adapter_options *options)
{
    const size_t n = (size_t)list->n;
    const char **paths = weft_calloc(n + 1, sizeof *paths);
    weft_nn_lora_pattern *patterns = weft_calloc(n + 1, sizeof *patterns);
    weft_status status = WEFT_MEMORY;
    if (paths && patterns) {
        for (int i = 0; i < list->n; i++) {
            const int64_t rank = weft_dim(list->at[i].B, -1);
            paths[i] = list->at[i].path;
            patterns[i] = (weft_nn_lora_pattern){paths[i], rank, list->at[i].scale * (double)rank};
        }
        const weft_nn_lora_options o = {
            .dora = list->at[0].m != NULL,
            .dropout = list->dropout,
            .dtype = options && options->dtype ? options->dtype : WEFT_FLOAT32,
            .targets = paths,
            .n_targets = list->n,
            .patterns = patterns,
            .n_patterns = list->n,
        };
        status = weft__lora_inject(tree, &o, false); /* every stack has an A */
    } else {
        weft__out_of_memory("adapter", "a list of modules");
    }
    weft_free(paths);
    weft_free(patterns);
    return status;
}

static weft_status name_parts(const weft__adapter_list *list, weft__names *names,
                              weft_array **arrays)
{
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < list->n; i++) {
        const weft__adapter_entry *e = &list->at[i];
        const char *const ends[] = {e->embedding ? "lora_embedding_A" : "lora_A",
                                    e->embedding ? "lora_embedding_B" : "lora_B",
                                    "lora_magnitude_vector"};
        weft_array *const parts[] = {e->A, e->B, e->m};
        for (int k = 0; status == WEFT_OK && k < (e->m ? 3 : 2); k++) {
            char name[WEFT_NN_PATH + 32];
            snprintf(name, sizeof name, "%s.%s", e->path, ends[k]);
            arrays[names->n] = parts[k];
            status = weft__names_add(names, name);
        }
    }
    return status;
}

static weft_status load_parts(const weft__adapter_list *list, weft_module *tree, const char *where,
                              const weft_adapter_options *options)
{
    weft__names names = {0};
    weft_array **arrays = weft_calloc(3 * (size_t)list->n + 1, sizeof(weft_array *));
    weft_status status =
        arrays ? name_parts(list, &names, arrays) : weft__out_of_memory(where, "its tensors");
    if (status == WEFT_OK) {
        const weft_named_arrays named = {.n = names.n, .names = names.at, .arrays = arrays};
        const weft_nn_load_options o = {
            .trainable_only = true,
            .dtype = options && options->dtype ? options->dtype : WEFT_FLOAT32,
            .where = where,
        };
        status = weft_nn_load_arrays(tree, &named, &o);
    }
    weft__names_free(&names);
    weft_free(arrays);
    return status;
}

weft_status weft__adapter_list_put(const weft__adapter_list *list, weft_module *tree,
                                   const char *where, const weft_adapter_options *options)
{
    weft_status status = WEFT_OK;
    if (list->n == 0)
        return weft_fail(WEFT_INVALID, "%s: has no adapters", where);
    for (int i = 0; status == WEFT_OK && i < list->n; i++)
        status = check_entry(&list->at[i], where);
    if (status == WEFT_OK)
        status = check_kind(list, where);
    if (status == WEFT_OK)
        status = inject(list, tree, options);
    if (status != WEFT_OK)
        return status;
    status = load_parts(list, tree, where, options);
    if (status == WEFT_OK)
        status = weft__lora_settle(tree);
    if (status != WEFT_OK)
        weft_nn_lora_remove(tree);
    return status;
}
