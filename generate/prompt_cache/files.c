/* generate/prompt_cache/files.c -- files that contain KV caches: arrays with a prefix each; the
 * metadata identify the model. */
#include "generate/prompt_cache/files.h"

#include <stdio.h>
#include <string.h>

#include "core/io/fileio.h"
#include "core/io/named.h"
#include "generate/caches/plan.h"
#include "weft/io.h"
#include "weft/ops.h"

enum { NAME = 128, OPTIONS = 6 };

static const char version[] = "1";

/* ---- writing -------------------------------------------------------------------------------- */

void weft__saving_add(weft__saving *s, weft_array *a, const char *prefix, const char *name)
{
    char full[NAME];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    if (s->status == WEFT_OK && !weft__named_arrays_add(&s->arrays, full, a))
        s->status = weft_fail(WEFT_MEMORY, "out of memory for '%s'", weft_printable(full));
}

void weft__saving_add_numbers(weft__saving *s, const int64_t *numbers, int64_t n,
                              const char *prefix, const char *name)
{
    weft__saving_add(s, weft_from_data(numbers, WEFT_INT64, WEFT_DIMS(n)), prefix, name);
}

void weft__saving_add_ids(weft__saving *s, const int32_t *ids, int64_t n, const char *prefix,
                          const char *name)
{
    const int32_t none = 0; /* a valid address for an empty list */
    weft__saving_add(s, weft_from_data(n > 0 ? ids : &none, WEFT_INT32, WEFT_DIMS(n)), prefix,
                     name);
}

void weft__saving_add_caches(weft__saving *s, weft_model *model, weft_cache **caches,
                             const weft_cache_options *o, const char *prefix)
{
    const int64_t options[OPTIONS] = {
        o->max_context, o->sink_tokens, weft__kv_bits(model, o->kv_bits),
        o->trim,        o->whole,       o->batch};
    weft__saving_add_numbers(s, options, OPTIONS, prefix, "options");
    for (int64_t i = 0; i < weft_model_info_of(model)->n_caches; i++) {
        weft_array **slots[WEFT_CACHE_SLOTS];
        int64_t *numbers[WEFT_CACHE_NUMBERS], copies[WEFT_CACHE_NUMBERS] = {0};
        char name[48];
        const int n = weft_cache_state(caches[i], slots);
        for (int k = 0; k < n; k++) {
            snprintf(name, sizeof name, "%lld.%d", (long long)i, k);
            if (*slots[k])
                weft__saving_add(s, *slots[k], prefix, name);
        }
        const int m = weft_cache_numbers(caches[i], numbers);
        for (int k = 0; k < m; k++)
            copies[k] = *numbers[k];
        snprintf(name, sizeof name, "%lld.numbers", (long long)i);
        weft__saving_add_numbers(s, copies, m, prefix, name);
    }
}

weft_status weft__saving_write(weft__saving *s, const char *path, const char *kind,
                               weft_model *model, const weft_metadata *metadata, int n)
{
    enum { OWN = 5, MOST = 24 };
    weft_fingerprint f = {0};
    char base[WEFT__HEX], adapter[WEFT__HEX];
    if (s->status == WEFT_OK)
        s->status = weft_model_fingerprint(model, &f);
    weft_metadata all[MOST] = {
        {"weft.kind", kind},
        {"weft.version", version},
        {"weft.family", weft_model_family_of(model)->model_type},
        {"weft.model", weft__hash_text(f.model, base)},
        {"weft.adapter", weft__hash_text(f.adapter, adapter)},
    };
    for (int i = 0; i < n && OWN + i < MOST; i++)
        all[OWN + i] = metadata[i];
    if (s->status == WEFT_OK)
        s->status = weft__file_check_kind(path, "\"weft.kind\"", "a file of Weft's caches");
    if (s->status == WEFT_OK)
        s->status = weft_safetensors_save(path, (const char *const *)s->arrays.names,
                                          s->arrays.arrays, s->arrays.n, all, OWN + n);
    const weft_status status = s->status;
    weft_named_arrays_free(&s->arrays);
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

static const char *said(const weft_safetensors *file, const char *key)
{
    const char *value = weft_safetensors_metadata(file, key);
    return value ? value : "";
}

static weft_status check_owner(const weft_safetensors *file, const char *path, weft_model *model)
{
    weft_fingerprint f;
    char base[WEFT__HEX], adapter[WEFT__HEX];
    const weft_status status = weft_model_fingerprint(model, &f);
    if (status != WEFT_OK)
        return status;
    weft__hash_text(f.model, base);
    weft__hash_text(f.adapter, adapter);
    if (strcmp(said(file, "weft.model"), base) == 0 &&
        strcmp(said(file, "weft.adapter"), adapter) == 0)
        return WEFT_OK;
    return weft_fail(WEFT_INVALID,
                     "%s: written with the %s model %s, adapter %s; this is the %s model %s, "
                     "adapter %s",
                     path, said(file, "weft.family"), said(file, "weft.model"),
                     said(file, "weft.adapter"), weft_model_family_of(model)->model_type, base,
                     adapter);
}

weft_status weft__saved_open(const char *path, const char *kind, weft_model *model,
                             weft_safetensors **out)
{
    weft_status status = weft_safetensors_open(path, out);
    if (status != WEFT_OK)
        return status;
    if (strcmp(said(*out, "weft.kind"), kind) != 0)
        status = weft_fail(WEFT_INVALID, "%s: not a %s", path, kind);
    else if (strcmp(said(*out, "weft.version"), version) != 0)
        status = weft_fail(WEFT_UNSUPPORTED, "%s: version '%s', expected %s", path,
                           weft_printable(said(*out, "weft.version")), version);
    else
        status = check_owner(*out, path, model);
    if (status != WEFT_OK) {
        weft_safetensors_close(*out);
        *out = NULL;
    }
    return status;
}

/* The index of a vector of the dtype; -1, with the message, if it is absent. */
static int find_vector(const weft_safetensors *file, const char *path, const char *prefix,
                       const char *name, weft_dtype dtype)
{
    char full[NAME];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const int i = weft_safetensors_find(file, full);
    if (i >= 0 && weft_safetensors_at(file, i)->dtype == dtype &&
        weft_safetensors_at(file, i)->shape.n == 1)
        return i;
    weft_fail(WEFT_INVALID, "%s: '%s': expected a vector of %s", path, weft_printable(full),
              weft_dtype_name(dtype));
    return -1;
}

weft_status weft__saved_numbers(const weft_safetensors *file, const char *path, const char *prefix,
                                const char *name, int64_t *out, int64_t n)
{
    const int i = find_vector(file, path, prefix, name, WEFT_INT64);
    if (i < 0)
        return WEFT_INVALID;
    const int64_t found = weft_safetensors_at(file, i)->shape.at[0];
    if (found != n)
        return weft_fail(WEFT_INVALID, "%s: '%s%s': expected %lld numbers, got %lld", path, prefix,
                         name, (long long)n, (long long)found);
    return weft_read(weft_safetensors_get_at(file, i), WEFT_INT64, out, n);
}

weft_status weft__saved_ids(const weft_safetensors *file, const char *path, const char *prefix,
                            const char *name, weft_model *model, int32_t **ids, int64_t *n)
{
    const int at = find_vector(file, path, prefix, name, WEFT_INT32);
    *ids = NULL;
    *n = 0;
    if (at < 0)
        return WEFT_INVALID;
    *n = weft_safetensors_at(file, at)->shape.at[0];
    *ids = weft_malloc((size_t)(*n + 1) * sizeof **ids);
    if (*ids == NULL)
        return weft_fail(WEFT_MEMORY, "%s: out of memory for %lld ids", path, (long long)*n);
    weft_status status = weft_read(weft_safetensors_get_at(file, at), WEFT_INT32, *ids, *n);
    const int64_t V = weft_model_info_of(model)->vocab_size;
    for (int64_t i = 0; i < *n && status == WEFT_OK; i++) {
        if ((*ids)[i] < 0 || (*ids)[i] >= V)
            status =
                weft_fail(WEFT_INVALID, "%s: '%s%s': expected ids of the vocabulary's %lld, got %d",
                          path, prefix, name, (long long)V, (int)(*ids)[i]);
    }
    if (status != WEFT_OK) {
        weft_free(*ids);
        *ids = NULL;
    }
    return status;
}

static weft_device *device_of_layer(weft_model *model, int64_t layer)
{
    const weft_model_family *family = weft_model_family_of(model);
    weft_layer_attention a = {.device = weft_default_device()};
    if (family->attention)
        family->attention(weft_model_module(model), layer, &a);
    return a.device;
}

/* Reads the arrays of a layer's cache; absent ones stay NULL. */
static weft_status read_layer(const weft_safetensors *file, const char *path, const char *prefix,
                              weft_device *device, int64_t layer, weft_cache *cache)
{
    weft_array **slots[WEFT_CACHE_SLOTS];
    int64_t *numbers[WEFT_CACHE_NUMBERS], values[WEFT_CACHE_NUMBERS];
    char name[NAME];
    const int n = weft_cache_state(cache, slots), m = weft_cache_numbers(cache, numbers);
    snprintf(name, sizeof name, "%lld.numbers", (long long)layer);
    weft_status status = weft__saved_numbers(file, path, prefix, name, values, m);
    for (int i = 0; i < m && status == WEFT_OK; i++)
        *numbers[i] = values[i];
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        snprintf(name, sizeof name, "%s%lld.%d", prefix, (long long)layer, i);
        const int at = weft_safetensors_find(file, name);
        if (at >= 0)
            status = weft_set(slots[i], weft_to(weft_safetensors_get_at(file, at), device));
    }
    if (status == WEFT_OK && weft_cache_check(cache) != WEFT_OK)
        status = weft_fail(WEFT_INVALID, "%s: '%s': layer %lld: arrays and numbers do not fit",
                           path, weft_printable(prefix), (long long)layer);
    return status;
}

/* Files that were written before 16 bits existed have 0 for the compute dtype. */
static int bits_of(int64_t saved)
{
    return saved == 4 || saved == 8 || saved == 16 ? (int)saved : 32;
}

weft_status weft__saved_caches(const weft_safetensors *file, const char *path, const char *prefix,
                               weft_model *model, weft_cache_options *options, weft_cache ***caches)
{
    int64_t o[OPTIONS];
    *caches = NULL;
    weft_status status = weft__saved_numbers(file, path, prefix, "options", o, OPTIONS);
    if (status != WEFT_OK)
        return status;
    *options = (weft_cache_options){.max_context = o[0],
                                    .sink_tokens = o[1],
                                    .kv_bits = bits_of(o[2]),
                                    .trim = o[3],
                                    .whole = o[4] != 0,
                                    .batch = o[5]};
    *caches = weft_model_new_caches(model, options);
    if (*caches == NULL)
        return weft_error_status();
    const int64_t n = weft_model_info_of(model)->n_caches;
    for (int64_t i = 0; i < n && status == WEFT_OK; i++)
        status = read_layer(file, path, prefix, device_of_layer(model, i), i, (*caches)[i]);
    for (int64_t i = 1; i < n && status == WEFT_OK; i++) {
        if (weft_cache_offset((*caches)[i]) != weft_cache_offset((*caches)[0]))
            status = weft_fail(WEFT_INVALID, "%s: '%s': layers 0 and %lld differ in length", path,
                               weft_printable(prefix), (long long)i);
    }
    if (status != WEFT_OK) {
        weft_model_free_caches(model, *caches);
        *caches = NULL;
    }
    return status;
}
