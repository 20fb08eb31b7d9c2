/* train/adapter/gguf.c -- adapters in llama.cpp's GGUF format. A and B have the names of the base's
 * tensors, and the rows of B have the order and the scale of the base's rows. A matrix that files
 * have as two has two adapters there. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "models/gguf/arch.h"
#include "models/save.h"
#include "train/adapter/adapter.h"
#include "train/adapter/list.h"

/* The tensor names and row orders of the model. Free it with facts_free. */
static weft_status facts_new(weft_model *model, const char *where, weft__gguf_facts **out)
{
    if (weft_model_info_of(model)->n_labels > 0)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: an adapter of a classifier, which has its head, is unsupported in a "
                         "GGUF file",
                         where);
    *out = weft_calloc(1, sizeof **out);
    return *out ? weft__gguf_facts_of(model, where, false, *out)
                : weft__out_of_memory(where, "the adapter");
}

static void facts_free(weft__gguf_facts *f)
{
    if (f)
        weft__gguf_facts_release(f);
    weft_free(f);
}

/* Reorders rows from interleaved pairs to halves: the inverse of weft__gguf_pairs. */
static weft_array *halves(weft_array *a, int64_t heads)
{
    const weft_dims shape = weft_shape(a);
    const int64_t half = shape.at[0] / heads / 2, rest = half > 0 ? weft_size(a) / shape.at[0] : 0;
    if (half == 0 || 2 * half * heads != shape.at[0])
        return weft_error_array("%lld rows for %lld heads", (long long)shape.at[0],
                                (long long)heads);
    weft_array *parts = weft_reshape(a, WEFT_DIMS(heads, half, 2, rest));
    return weft_reshape(weft_swapaxes(parts, 1, 2), shape);
}

/* Converts B (out, R) of the linear at `path` to the row order and scale of the file, or back. */
static weft_array *rows_of(const weft__gguf_facts *f, const char *path, weft_array *B, bool to_file)
{
    char weight[WEFT_NN_PATH + 16];
    const int64_t heads = weft__gguf_moved_heads(f->arch, path, f->heads, f->kv_heads);
    if (!weft_ok(B))
        return B;
    snprintf(weight, sizeof weight, "%s.weight", path);
    if (heads > 0)
        B = to_file ? weft__gguf_pairs(B, heads) : halves(B, heads);
    if (weft__gguf_makes_queries(f, weight))
        B = weft_scale(B, to_file ? f->query_factor : 1 / f->query_factor);
    if (f->arch->convert == NULL)
        return B;
    weft_array *ones = weft_ones(weft_shape(B), WEFT_FLOAT32);
    weft_array *factors = f->arch->convert(weight, ones, f);
    return factors == ones ? B : to_file ? weft_multiply(B, factors) : weft_divide(B, factors);
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Why llama.cpp would compute something else with an adapter of the module at `path`; NULL: it does
 * not. */
static const char *not_in_llama(const weft__gguf_facts *f, const char *path)
{
    char scale[WEFT_NN_PATH + 32];
    const char *at = strstr(path, ".experts.");
    for (const char *const *name = f->arch->unadapted; name && *name; name++) {
        if (weft__adapter_is_suffix(path, *name))
            return "llama.cpp ignores adapters of it";
    }
    if (at == NULL || !weft__adapter_is_suffix(path, "down_proj"))
        return NULL;
    /* Gemma 4 */
    snprintf(scale, sizeof scale, "%.*s.router.per_expert_scale", (int)(at - path), path);
    return weft_nn_find(weft_model_module(f->model), scale)
               ? "versions of llama.cpp scale adapters of these experts differently"
               : NULL;
}

/* Finds the name of the base's tensor, or of its halves 0 and 1, of which there are 1 or 2.
 * WEFT_UNSUPPORTED for what a file cannot have. */
static weft_status name_entry(const weft__gguf_facts *f, const weft__adapter_entry *e, int half,
                              char *base, int *n)
{
    char path[WEFT_NN_PATH + 16];
    snprintf(path, sizeof path, "%s.weight", e->path);
    *n = weft__half_name(path, half, path, sizeof path) ? 2 : 1;
    if (e->m)
        return weft_fail(WEFT_UNSUPPORTED, "%s: %s: GGUF adapters have no magnitudes (DoRA)",
                         f->where, e->path);
    if (not_in_llama(f, e->path))
        return weft_fail(WEFT_UNSUPPORTED, "%s: %s: %s: merge the adapter (weft fuse) instead",
                         f->where, e->path, not_in_llama(f, e->path));
    if (!weft__gguf_name(f, path, base, WEFT_NN_PATH))
        return weft_fail(WEFT_UNSUPPORTED, "%s: %s: GGUF has no name for it in %s models", f->where,
                         e->path, f->arch->name);
    return WEFT_OK;
}

/* A file has one alpha, which readers divide by each adapter's rank. B absorbs any remaining
 * factor. */
static weft_status add_half(const weft__gguf_facts *f, const weft__adapter_entry *e, int half,
                            double alpha, weft__names *names, weft_array **arrays, int *n)
{
    char base[WEFT_NN_PATH], name[WEFT_NN_PATH + 16];
    weft_status status = name_entry(f, e, half, base, n);
    if (status != WEFT_OK)
        return status;
    const double left = e->scale * (double)weft_dim(e->B, -1) / alpha;
    const int64_t rows = weft_dim(e->B, -2) / *n;
    weft_array *A = weft_astype(e->A, WEFT_FLOAT32);
    weft_array *B = rows_of(f, e->path, weft_astype(e->B, WEFT_FLOAT32), true);
    B = *n == 2 ? weft_slice_axis(B, -2, half * rows, (half + 1) * rows) : B;
    A = e->embedding ? weft_swapaxes(A, 0, 1) : A; /* (V, R): llama.cpp looks up rows */
    B = left != 1 ? weft_scale(B, left) : B;
    snprintf(name, sizeof name, "%s.lora_a", base);
    arrays[names->n] = weft_contiguous(A);
    status = weft__names_add(names, name);
    snprintf(name, sizeof name, "%s.lora_b", base);
    if (status == WEFT_OK) {
        arrays[names->n] = weft_contiguous(B);
        status = weft__names_add(names, name);
    }
    return status;
}

static weft_status add_entry(const weft__gguf_facts *f, const weft__adapter_entry *e, double alpha,
                             weft__names *names, weft_array **arrays)
{
    int n = weft__gguf_is_dropped(f, e->path) ? 0 : 1; /* left out, as the parameters are */
    weft_status status = WEFT_OK;
    for (int half = 0; half < n && status == WEFT_OK; half++)
        status = add_half(f, e, half, alpha, names, arrays, &n);
    return status;
}

static weft_status write(weft__gguf_facts *f, const weft__adapter_list *list, const char *base_name)
{
    const double alpha = list->at[0].scale * (double)weft_dim(list->at[0].B, -1);
    weft__names names = {0};
    weft_array **arrays = weft_calloc(4 * (size_t)list->n, sizeof(weft_array *));
    weft_status status = arrays ? WEFT_OK : weft__out_of_memory(f->where, "the adapter");
    for (int i = 0; status == WEFT_OK && i < list->n; i++)
        status = add_entry(f, &list->at[i], alpha, &names, arrays);
    if (status == WEFT_OK) {
        const float number = (float)alpha;
        const weft_gguf_string texts[] = {{"adapter", 7},
                                          {f->arch->name, strlen(f->arch->name)},
                                          {"lora", 4},
                                          {base_name, base_name ? strlen(base_name) : 0}};
        const weft_gguf_value values[] = {
            {"general.type", WEFT_GGUF_STRING, false, 1, NULL, &texts[0]},
            {"general.architecture", WEFT_GGUF_STRING, false, 1, NULL, &texts[1]},
            {"adapter.type", WEFT_GGUF_STRING, false, 1, NULL, &texts[2]},
            {"adapter.lora.alpha", WEFT_GGUF_FLOAT32, false, 1, &number, NULL},
            {"general.base_model.0.name", WEFT_GGUF_STRING, false, 1, NULL, &texts[3]},
        };
        status = weft_gguf_save(f->where, (const char *const *)names.at, arrays, names.n, values,
                                base_name && *base_name ? 5 : 4);
    }
    weft__names_free(&names);
    weft_free(arrays);
    return status;
}

/* Writes the file, or with `path` NULL only checks whether it can be written. */
static weft_status write_or_check(weft_model *model, const char *path, const char *base_name)
{
    weft__adapter_list list = {0};
    weft__gguf_facts *facts = NULL;
    char base[WEFT_NN_PATH];
    int n;
    weft_scope_open();
    weft_status status = weft__adapter_list_for(model, "GGUF", &list);
    if (status == WEFT_OK)
        status = facts_new(model, path ? path : "adapter", &facts);
    for (int i = 0; status == WEFT_OK && !path && i < list.n; i++)
        status = weft__gguf_is_dropped(facts, list.at[i].path)
                     ? WEFT_OK
                     : name_entry(facts, &list.at[i], 0, base, &n);
    if (status == WEFT_OK && path)
        status = write(facts, &list, base_name);
    weft_scope_close(NULL);
    facts_free(facts);
    weft__adapter_list_free(&list);
    return status;
}

weft_status weft__adapter_gguf_write(weft_model *model, const char *path, const char *base_name)
{
    return write_or_check(model, path, base_name);
}

weft_status weft_adapter_check_gguf(weft_model *model)
{
    return write_or_check(model, NULL, NULL);
}

/* ---- reading -------------------------------------------------------------------------------- */

static weft_status expect_text(const weft_gguf *file, const char *key, const char *expected)
{
    weft_gguf_string text = {"", 0};
    weft_gguf_value_string(weft_gguf_value_find(file, key), 0, &text);
    if (text.n == strlen(expected) && memcmp(text.at, expected, text.n) == 0)
        return WEFT_OK;
    return weft_fail(WEFT_INVALID, "%s: %s: expected %s, got %s", weft_gguf_path(file), key,
                     expected, text.n ? weft_printable_n(text.at, text.n) : "none");
}

static weft_status read_tensor(const weft_gguf *file, int i, const weft__gguf_facts *f,
                               weft__adapter_list *out)
{
    const char *name = weft_gguf_at(file, i)->name;
    const char *dot = strrchr(name, '.');
    const bool is_A = dot && strcmp(dot, ".lora_a") == 0;
    char base[WEFT_NN_PATH], path[WEFT_NN_PATH];
    if (!is_A && (dot == NULL || strcmp(dot, ".lora_b") != 0))
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: tensor '%s': expected names that end with .lora_a or .lora_b",
                         weft_gguf_path(file), weft_printable(name));
    snprintf(base, sizeof base, "%.*s", (int)(dot - name), name);
    if (!weft__name_from_gguf(f->family, base, path, sizeof path) ||
        !weft__adapter_is_suffix(path, "weight"))
        return weft_fail(WEFT_UNSUPPORTED, "%s: tensor '%s': %s models have no such matrix",
                         weft_gguf_path(file), weft_printable(name), f->arch->name);
    path[strlen(path) - strlen(".weight")] = '\0';
    weft__adapter_entry *e = weft__adapter_list_entry(out, path);
    if (e == NULL)
        return WEFT_MEMORY;
    weft_array *a = weft_astype(weft_gguf_get_at(file, i), WEFT_FLOAT32);
    if (weft_ok(a) && weft_ndim(a) != 2 && weft_ndim(a) != 3)
        return weft_fail(WEFT_UNSUPPORTED, "%s: tensor '%s': expected a matrix, got %d dims",
                         weft_gguf_path(file), weft_printable(name), weft_ndim(a));
    e->embedding = strcmp(base, "token_embd.weight") == 0;
    if (is_A)
        e->A = e->embedding ? weft_swapaxes(a, 0, 1) : a;
    else
        e->B = rows_of(f, path, a, false);
    return !is_A && weft_ok(a) && !weft_ok(e->B)
               ? weft_fail(WEFT_INVALID, "%s: tensor '%s': %s", weft_gguf_path(file),
                           weft_printable(name), weft_error(e->B))
               : WEFT_OK;
}

/* (rows + other rows, R + R'): x and y on the diagonal. */
static weft_array *diagonal(weft_array *x, weft_array *y)
{
    weft_array *zeros[] = {weft_zeros(WEFT_DIMS(weft_dim(x, 0), weft_dim(y, 1)), WEFT_FLOAT32),
                           weft_zeros(WEFT_DIMS(weft_dim(y, 0), weft_dim(x, 1)), WEFT_FLOAT32)};
    weft_array *top[] = {x, zeros[0]}, *bottom[] = {zeros[1], y};
    weft_array *both[] = {weft_concatenate(top, 2, 1), weft_concatenate(bottom, 2, 1)};
    return weft_concatenate(both, 2, 0);
}

static bool is_matrix(const weft_array *a)
{
    return a && weft_ok(a) && weft_ndim(a) == 2;
}

/* Joins the adapters of two halves to one of the whole, of both ranks. The scales are equal, or go
 * into B. */
static weft_status join_halves(const weft_gguf *file, weft__adapter_list *list)
{
    for (int i = 0; i < list->n; i++) {
        char path[WEFT_NN_PATH], other[WEFT_NN_PATH];
        weft__adapter_entry *first = &list->at[i], *second = NULL;
        const int half = weft__half_of(first->path, path, other, sizeof path);
        if (half < 0)
            continue;
        for (int j = 0; j < list->n; j++)
            second = strcmp(list->at[j].path, other) == 0 ? &list->at[j] : second;
        if (second == NULL || !is_matrix(first->A) || !is_matrix(first->B) ||
            !is_matrix(second->A) || !is_matrix(second->B))
            return weft_fail(WEFT_UNSUPPORTED,
                             "%s: %s: expected adapters of the gates and of the ups",
                             weft_gguf_path(file), path);
        weft__adapter_entry *x = half == 0 ? first : second, *y = half == 0 ? second : first;
        weft_array *As[] = {x->A, y->A};
        x->A = weft_concatenate(As, 2, 0);
        x->B = diagonal(x->B, weft_scale(y->B, y->scale / x->scale));
        char *whole = weft_strdup(path);
        if (whole == NULL)
            return weft__out_of_memory(weft_gguf_path(file), "the adapter");
        weft_free(x->path);
        x->path = whole;
        weft_free(y->path);
        *y = list->at[--list->n];
        i = -1; /* the last one has moved */
    }
    return WEFT_OK;
}

static weft_status read(const weft_gguf *file, const weft__gguf_facts *f, weft__adapter_list *out)
{
    double alpha = 0;
    weft_status status = expect_text(file, "general.type", "adapter");
    if (status == WEFT_OK)
        status = expect_text(file, "adapter.type", "lora");
    if (status == WEFT_OK)
        status = expect_text(file, "general.architecture", f->arch->name);
    weft_gguf_value_number(weft_gguf_value_find(file, "adapter.lora.alpha"), 0, &alpha);
    if (status == WEFT_OK && !isfinite(alpha))
        status = weft_fail(WEFT_INVALID, "%s: adapter.lora.alpha: expected a finite number, got %g",
                           weft_gguf_path(file), alpha);
    for (int i = 0; status == WEFT_OK && i < weft_gguf_count(file); i++)
        status = read_tensor(file, i, f, out);
    for (int i = 0; status == WEFT_OK && i < out->n; i++) {
        weft_array *A = out->at[i].A; /* NULL: weft__adapter_list_put refuses it */
        if (A && weft_ok(A) && weft_dim(A, -2) > 0)
            out->at[i].scale = alpha != 0 ? alpha / (double)weft_dim(A, -2) : 1;
    }
    return status == WEFT_OK ? join_halves(file, out) : status;
}

weft_status weft__adapter_gguf_read(const char *path, weft_model *model, weft__adapter_list *out)
{
    weft_gguf *file = NULL;
    weft__gguf_facts *facts = NULL;
    weft_status status = weft_gguf_open(path, &file);
    if (status == WEFT_OK)
        status = facts_new(model, path, &facts);
    if (status == WEFT_OK)
        status = read(file, facts, out);
    facts_free(facts);
    weft_gguf_close(file);
    return status;
}
