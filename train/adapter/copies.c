/* train/adapter/copies.c -- copies of base weights in PEFT's files: checks them, and takes the rows
 * of new tokens from resized ones. */
#include "train/adapter/copies.h"

#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "nn/module.h"
#include "nn/tokens.h"

static const char adapted[] = ".base_layer.weight", original[] = ".original_module.weight";

/* ---- names ---------------------------------------------------------------------------------- */

bool weft__adapter_is_tied(weft_module *tree, const char *path)
{
    char module[WEFT_NN_PATH];
    const char *dot = strrchr(path, '.');
    snprintf(module, sizeof module, "%.*s", (int)(dot - path), path);
    weft_module *m = weft_nn_find_module(tree, module);
    const weft_slot *slot = m ? weft__nn_slot(m, dot + 1) : NULL;
    return slot && slot->kind == WEFT_SLOT_TIED;
}

bool weft__adapter_is_inside(const weft__names *modules, const char *path)
{
    for (int i = 0; i < modules->n; i++) {
        const size_t n = strlen(modules->at[i]);
        if (strncmp(path, modules->at[i], n) == 0 && path[n] == '.')
            return true;
    }
    return false;
}

bool weft__adapter_is_base_copy(const weft__copies *c, const char *name, char *path, size_t size)
{
    const char *const ends[] = {adapted, original, ".weight"};
    const size_t start = strlen(WEFT__ADAPTER_PREFIX), n = strlen(name);
    if (strncmp(name, WEFT__ADAPTER_PREFIX, start) != 0)
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t m = strlen(ends[i]);
        if (n <= start + m || strcmp(name + n - m, ends[i]) != 0)
            continue;
        if (i == 2 && (weft__adapter_is_inside(c->whole, name + start) ||
                       weft__adapter_is_part(name + start)))
            return false;
        snprintf(path, size, "%.*s.weight", (int)(n - m - start), name + start);
        return i < 2 || weft_nn_find(c->tree, path) != NULL;
    }
    return false;
}

bool weft__adapter_is_second_copy(const weft__copies *c, const char *name)
{
    const size_t start = strlen(WEFT__ADAPTER_PREFIX);
    return weft__adapter_is_suffix(name, "modules_to_save.weight") &&
           strncmp(name, WEFT__ADAPTER_PREFIX, start) == 0 &&
           weft__adapter_is_inside(c->whole, name + start);
}

/* ---- checks --------------------------------------------------------------------------------- */

static bool is_vocabulary(const char *path)
{
    return weft__adapter_is_suffix(path, "embed_tokens.weight") ||
           weft__adapter_is_suffix(path, "lm_head.weight");
}

/* Further rows of an embedding or a head are those of new tokens. */
static weft_status check_rows(const weft_safetensors_entry *saved, const char *path, weft_array *of)
{
    const int64_t more =
        saved->shape.n == 2 && weft_ndim(of) == 2 ? saved->shape.at[0] - weft_dim(of, 0) : 0;
    if (more == 0 ||
        (more > 0 && is_vocabulary(path) && !strstr(saved->name, adapted) && !weft_encoding_of(of)))
        return WEFT_OK;
    return weft_fail(WEFT_UNSUPPORTED,
                     "%s: '%s' has %lld rows, the model's %s has %lld: only an embedding or a head "
                     "with more rows, not adapted and not quantized, is supported. Merge the "
                     "adapter into its base with PEFT",
                     saved->path, weft_printable(saved->name), (long long)saved->shape.at[0], path,
                     (long long)weft_dim(of, 0));
}

/* Checks that a copy of a base weight equals the model's. */
static weft_status check_copy(const weft_safetensors *file, const char *name, const char *path,
                              weft_array *weight)
{
    if (weft_encoding_of(weight))
        return WEFT_OK;
    weft_scope_open_lean();
    weft_array *saved = weft_to(weft_safetensors_get(file, name), weft_device_of(weight));
    saved = weft_astype(saved, weft_dtype_of(weight));
    if (weft_ok(saved) && weft_ndim(saved) == 2 && weft_dim(saved, 0) > weft_dim(weight, 0))
        saved = weft_slice_axis(saved, 0, 0, weft_dim(weight, 0));
    weft_array *apart = weft_astype(weft_subtract(saved, weight), WEFT_FLOAT32);
    apart = weft_max(weft_abs(apart), WEFT_ALL_AXES, false);
    weft_array *most = weft_max(weft_abs(weft_astype(weight, WEFT_FLOAT32)), WEFT_ALL_AXES, false);
    weft_array *both[] = {apart, most};
    weft_status status = weft_eval_n(both, 2);
    if (status == WEFT_OK && !(weft_item(apart) <= 0.01 * weft_item(most)))
        status = weft_fail(WEFT_INVALID, "%s: differs from the model's %s: another base",
                           weft_printable(name), path);
    weft_scope_close(NULL);
    return status;
}

static weft_status check_weight(const weft__copies *c, const weft_safetensors *file, int i)
{
    const weft_safetensors_entry *saved = weft_safetensors_at(file, i);
    const size_t start = strlen(WEFT__ADAPTER_PREFIX);
    char path[WEFT_NN_PATH];
    const bool copy = weft__adapter_is_base_copy(c, saved->name, path, sizeof path);
    if (!copy && strncmp(saved->name, WEFT__ADAPTER_PREFIX, start) == 0)
        snprintf(path, sizeof path, "%s", saved->name + start);
    else if (!copy)
        return WEFT_OK;
    weft_array *const *slot = weft_nn_find(c->tree, path);
    if (slot == NULL)
        return WEFT_OK;
    const weft_status status = check_rows(saved, path, *slot);
    return status == WEFT_OK && copy ? check_copy(file, saved->name, path, *slot) : status;
}

weft_status weft__adapter_check_copies(const weft__copies *c, const weft_safetensors *file)
{
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < weft_safetensors_count(file); i++)
        status = check_weight(c, file, i);
    return status;
}

/* ---- further rows --------------------------------------------------------------------------- */

/* Rows from V on of a tensor of the file; NULL: it has none. */
static weft_array *rows_from(const weft_safetensors *file, int i, int64_t V)
{
    const weft_safetensors_entry *saved = weft_safetensors_at(file, i);
    return saved && saved->shape.n == 2 && saved->shape.at[0] > V
               ? weft_slice_axis(weft_safetensors_get_at(file, i), 0, V, saved->shape.at[0])
               : NULL;
}

weft_status weft__adapter_grow_whole(const weft__copies *c, const weft_safetensors *file)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < c->whole->n && status == WEFT_OK; i++) {
        char path[WEFT_NN_PATH + 16], name[WEFT_NN_PATH + 64];
        snprintf(path, sizeof path, "%s.weight", c->whole->at[i]);
        weft_array **slot = weft_nn_find(c->tree, path);
        if (slot == NULL || weft_encoding_of(*slot))
            continue;
        /* The rows of the copy, which a tied head that is not trained has too. */
        snprintf(name, sizeof name, WEFT__ADAPTER_PREFIX "%s%s", c->whole->at[i], original);
        int found = weft_safetensors_find(file, name);
        snprintf(name, sizeof name, WEFT__ADAPTER_PREFIX "%s", path);
        found = found < 0 ? weft_safetensors_find(file, name) : found;
        weft_scope_open_lean();
        weft_array *rows = rows_from(file, found, weft_dim(*slot, 0));
        if (rows) {
            rows = weft_to(weft_astype(rows, weft_dtype_of(*slot)), weft_device_of(*slot));
            weft_array *grown = weft_concatenate((weft_array *[]){*slot, rows}, 2, 0);
            status = weft_update(&slot, &grown, 1);
        }
        weft_scope_close(NULL);
    }
    return status;
}

/* Adds the tokens from V on to the module, and sets their rows. */
static weft_status add_rows(weft_module *tree, const char *module, int64_t V, weft_array *rows)
{
    const int64_t n = weft_dim(rows, 0);
    int32_t *ids = weft_malloc((size_t)n * sizeof *ids);
    for (int64_t i = 0; ids && i < n; i++)
        ids[i] = (int32_t)(V + i);
    weft_status status = ids ? weft_nn_tokens_add(tree, module, ids, (int)n, V)
                             : weft__out_of_memory("adapter", "the rows of new tokens");
    weft_free(ids);
    if (status != WEFT_OK)
        return status;
    weft_nn_tokens *m = (weft_nn_tokens *)weft_nn_find_module(tree, module);
    weft_array **slot = &m->trainable_tokens_delta;
    weft_array *value = weft_to(weft_astype(rows, weft_dtype_of(*slot)), weft_device_of(*slot));
    return weft_update(&slot, &value, 1);
}

weft_status weft__adapter_add_copied_rows(const weft__copies *c, const weft_safetensors *file)
{
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < weft_safetensors_count(file); i++) {
        char path[WEFT_NN_PATH];
        const char *name = weft_safetensors_name(file, i);
        if (!weft__adapter_is_base_copy(c, name, path, sizeof path) ||
            weft__adapter_is_tied(c->tree, path))
            continue;
        *strrchr(path, '.') = '\0';
        weft_module *m = weft_nn_find_module(c->tree, path);
        if (m == NULL || (m->type != &weft__nn_embedding_type && m->type != &weft_nn_linear_type))
            continue;
        weft_scope_open_lean();
        weft_array *rows = rows_from(file, i, weft_dim(*weft_nn_find(m, "weight"), 0));
        if (rows)
            status = add_rows(c->tree, path, weft_dim(*weft_nn_find(m, "weight"), 0), rows);
        weft_scope_close(NULL);
    }
    return status;
}
