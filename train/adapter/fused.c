/* train/adapter/fused.c -- PEFT adapters of matrices that the model has as one: of q, k and v for
 * qkv_proj, of gate and up for gate_up_proj. The A of the whole is those of the parts below each
 * other, and its B has theirs in blocks. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "models/decoder.h"
#include "train/adapter/experts.h"
#include "train/adapter/list.h"
#include "weft/ops.h"

enum { Q, K, V, GATE, UP, N_PARTS };

static const char *const names[N_PARTS] = {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"};

typedef struct reading {
    weft_module *tree;
    const weft__adapter_config *config;
    const char *where;
    weft__adapter_list list;
} reading;

/* The number of the part at a path, and the path of its whole; -1: the tree has no such whole. */
static int part_of(weft_module *tree, const char *path, char *whole, size_t size)
{
    const char *last = strrchr(path, '.');
    for (int i = 0; last && i < N_PARTS; i++) {
        if (strcmp(last + 1, names[i]) != 0)
            continue;
        snprintf(whole, size, "%.*s.%s", (int)(last - path), path,
                 i <= V ? "qkv_proj" : "gate_up_proj");
        const weft_module *m = weft_nn_find_module(tree, whole);
        return m && m->type == &weft_nn_linear_type ? i : -1;
    }
    return -1;
}

/* The path of the linear that a tensor belongs to; false: another kind of tensor. */
static bool linear_of(const char *name, bool *is_A, char *out, size_t size)
{
    const size_t start = strlen(WEFT__ADAPTER_PREFIX), n = strlen(name),
                 end = strlen(".lora_A.weight");
    *is_A = weft__adapter_is_suffix(name, "lora_A.weight");
    if (n <= start + end || strncmp(name, WEFT__ADAPTER_PREFIX, start) != 0 ||
        (!*is_A && !weft__adapter_is_suffix(name, "lora_B.weight")))
        return false;
    snprintf(out, size, "%.*s", (int)(n - end - start), name + start);
    return true;
}

bool weft__adapter_has_parts(weft_module *tree, const weft_safetensors *file)
{
    char path[WEFT_NN_PATH], whole[WEFT_NN_PATH];
    bool is_A;
    for (int i = 0; i < weft_safetensors_count(file); i++) {
        if (linear_of(weft_safetensors_at(file, i)->name, &is_A, path, sizeof path) &&
            part_of(tree, path, whole, sizeof whole) >= 0)
            return true;
    }
    return false;
}

static weft_status read_tensor(reading *r, const weft_safetensors *file, int i)
{
    const char *name = weft_safetensors_at(file, i)->name;
    char path[WEFT_NN_PATH], whole[WEFT_NN_PATH];
    bool is_A;
    const bool named = linear_of(name, &is_A, path, sizeof path);
    const weft_module *m = named ? weft_nn_find_module(r->tree, path) : NULL;
    if (!named || ((m == NULL || m->type != &weft_nn_linear_type) &&
                   part_of(r->tree, path, whole, sizeof whole) < 0))
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: '%s' beside adapters of parts of a matrix is unsupported: expected "
                         "lora_A and lora_B of linears",
                         r->where, weft_printable(name));
    weft__adapter_entry *entry = weft__adapter_list_entry(&r->list, path);
    if (entry == NULL)
        return WEFT_MEMORY;
    weft_array *a = weft_safetensors_get_at(file, i);
    *(is_A ? &entry->A : &entry->B) = a;
    return !is_A && weft_ok(a) && weft_ndim(a) == 2
               ? weft__adapter_scale_of(r->config, path, weft_dim(a, 1), &entry->scale)
               : WEFT_OK;
}

/* The rows [*first, *end) of a part in its whole of `all` rows. */
static void rows_of(const reading *r, const char *path, int part, int64_t all, int64_t *first,
                    int64_t *end)
{
    const weft__decoder_facts f = weft__decoder_facts_of(r->tree);
    const int64_t layer = weft__adapter_layer(path);
    *first = part == UP ? all / 2 : 0;
    *end = part == UP ? all : all / 2;
    if (part > V || layer < 0 || layer >= f.config->num_hidden_layers)
        return;
    const int64_t q = f.config->num_attention_heads * f.layers[layer].head_dim;
    *first = part == Q ? 0 : part == K ? q : q + (all - q) / 2;
    *end = part == Q ? q : part == K ? q + (all - q) / 2 : all;
}

/* B among `all` rows. */
static weft_array *block_of(weft_array *B, int64_t first, int64_t end, int64_t all)
{
    const int64_t R = weft_dim(B, 1);
    weft_array *rows[] = {weft_zeros(WEFT_DIMS(first, R), WEFT_FLOAT32),
                          weft_astype(B, WEFT_FLOAT32),
                          weft_zeros(WEFT_DIMS(all - end, R), WEFT_FLOAT32)};
    return weft_concatenate(rows, 3, 0);
}

/* Moves the adapter of a part to that of its whole. */
static weft_status join(reading *r, int i, int part, const char *whole)
{
    weft__adapter_entry part_entry = r->list.at[i];
    const weft__adapter_entry *e = &part_entry;
    if (e->A == NULL || e->B == NULL || !weft_ok(e->A) || !weft_ok(e->B) || weft_ndim(e->A) != 2 ||
        weft_ndim(e->B) != 2 || weft_dim(e->A, 0) < 1 || weft_dim(e->A, 0) != weft_dim(e->B, 1))
        return weft_fail(WEFT_INVALID, "%s: %s: expected lora_A (R, in) and lora_B (out, R)",
                         r->where, weft_printable(e->path));
    const weft_array *weight = *weft_nn_find(weft_nn_find_module(r->tree, whole), "weight");
    const int64_t all = weft_dim(weight, 0), in = weft_dim(weight, 1);
    int64_t first, end;
    if (weft_dim(e->A, 1) != in)
        return weft_fail(WEFT_INVALID, "%s: %s: lora_A: expected %lld columns, got %lld", r->where,
                         weft_printable(e->path), (long long)in, (long long)weft_dim(e->A, 1));
    rows_of(r, e->path, part, all, &first, &end);
    if (weft_dim(e->B, 0) != end - first)
        return weft_fail(WEFT_INVALID, "%s: %s: lora_B: expected %lld rows, got %lld", r->where,
                         e->path, (long long)(end - first), (long long)weft_dim(e->B, 0));
    weft__adapter_entry *w = weft__adapter_list_entry(&r->list, whole);
    if (w == NULL)
        return WEFT_MEMORY;
    weft_array *A = weft_astype(e->A, WEFT_FLOAT32), *B = block_of(e->B, first, end, all);
    if (w->A == NULL)
        w->scale = e->scale;
    else if (e->scale != w->scale)
        B = weft_scale(B, e->scale / w->scale);
    w->A = w->A ? weft_concatenate((weft_array *[]){w->A, A}, 2, 0) : A;
    w->B = w->B ? weft_concatenate((weft_array *[]){w->B, B}, 2, 1) : B;
    weft_free(part_entry.path);
    r->list.at[i] = r->list.at[--r->list.n];
    return WEFT_OK;
}

static weft_status join_all(reading *r)
{
    weft_status status = WEFT_OK;
    for (int i = r->list.n - 1; status == WEFT_OK && i >= 0; i--) {
        char whole[WEFT_NN_PATH];
        const int part = part_of(r->tree, r->list.at[i].path, whole, sizeof whole);
        if (part >= 0)
            status = join(r, i, part, whole);
    }
    return status;
}

weft_status weft__adapter_load_parts(weft_module *tree, const weft__adapter_config *config,
                                     const weft_safetensors *file, const char *where,
                                     const weft_adapter_options *options)
{
    reading r = {.tree = tree, .config = config, .where = where};
    r.list.dropout = config->dropout;
    weft_scope_open();
    weft_status status = weft__adapter_check_linears(config, where, "parts of a matrix");
    for (int i = 0; status == WEFT_OK && i < weft_safetensors_count(file); i++)
        status = read_tensor(&r, file, i);
    if (status == WEFT_OK)
        status = join_all(&r);
    if (status == WEFT_OK)
        status = weft__adapter_list_put(&r.list, tree, where, options);
    weft_scope_close(NULL);
    weft__adapter_list_free(&r.list);
    return status;
}
