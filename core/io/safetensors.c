/* core/io/safetensors.c -- access to the tensors of an open safetensors file. */
#include "core/io/safetensors.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"

static const char *const dtype_names[WEFT_DTYPE_COUNT] = {
    [WEFT_BOOL] = "BOOL",   [WEFT_UINT8] = "U8",      [WEFT_UINT16] = "U16",
    [WEFT_UINT32] = "U32",  [WEFT_UINT64] = "U64",    [WEFT_INT8] = "I8",
    [WEFT_INT16] = "I16",   [WEFT_INT32] = "I32",     [WEFT_INT64] = "I64",
    [WEFT_FLOAT16] = "F16", [WEFT_BFLOAT16] = "BF16", [WEFT_FLOAT32] = "F32",
    [WEFT_FLOAT64] = "F64", [WEFT_COMPLEX64] = "C64",
};

const char *weft__safetensors_dtype_name(weft_dtype dtype)
{
    return dtype_names[dtype];
}

bool weft__safetensors_dtype(const char *name, weft_dtype *out)
{
    for (int i = 0; i < WEFT_DTYPE_COUNT; i++) {
        if (strcmp(name, dtype_names[i]) == 0) {
            *out = (weft_dtype)i;
            return true;
        }
    }
    return false;
}

static int compare_names(const void *a, const void *b)
{
    const weft__stored_tensor *x = a, *y = b;
    return strcmp(x->entry.name, y->entry.name);
}

weft_status weft__safetensors_sort(weft_safetensors *file)
{
    if (file->n_tensors == 0)
        return WEFT_OK;
    qsort(file->tensors, (size_t)file->n_tensors, sizeof *file->tensors, compare_names);
    for (int i = 1; i < file->n_tensors; i++) {
        const weft_safetensors_entry *a = &file->tensors[i - 1].entry;
        const weft_safetensors_entry *b = &file->tensors[i].entry;
        if (strcmp(a->name, b->name) == 0)
            return weft_fail(WEFT_INVALID, "%s: tensor '%s': also in %s", b->path,
                             weft_printable(b->name), a->path);
    }
    return WEFT_OK;
}

weft_status weft__safetensors_rename(weft_safetensors *file, weft__tensor_rename *rename)
{
    enum { LONGEST = 1024 };
    int kept = 0;
    for (int i = 0; i < file->n_tensors; i++) {
        char name[LONGEST];
        weft__stored_tensor t = file->tensors[i];
        const bool wanted = rename(t.entry.name, name, sizeof name);
        char *copy = wanted ? weft_strdup(name) : NULL;
        if (wanted && copy == NULL)
            return weft__out_of_memory(t.entry.path, "the names of its tensors");
        weft_free((char *)t.entry.name);
        file->tensors[i].entry.name = NULL;
        t.entry.name = copy;
        if (wanted)
            file->tensors[kept++] = t;
    }
    file->n_tensors = kept;
    return weft__safetensors_sort(file);
}

static weft_status open_as(const char *path, bool mapped, weft_safetensors **out)
{
    *out = NULL;
    weft_safetensors *file = weft_calloc(1, sizeof *file);
    if (file == NULL)
        return weft__out_of_memory(path, "opening it");
    weft_status status = weft__safetensors_add(file, path, mapped);
    if (status == WEFT_OK)
        status = weft__safetensors_sort(file);
    if (status != WEFT_OK) {
        weft_safetensors_close(file);
        return status;
    }
    *out = file;
    return WEFT_OK;
}

weft_status weft_safetensors_open(const char *path, weft_safetensors **out)
{
    return open_as(path, true, out);
}

weft_status weft__safetensors_read(const char *path, weft_safetensors **out)
{
    return open_as(path, false, out);
}

void weft_safetensors_close(weft_safetensors *file)
{
    if (file == NULL)
        return;
    for (int i = 0; i < file->n_tensors; i++)
        weft_free((char *)file->tensors[i].entry.name);
    for (int i = 0; i < file->n_metadata; i++) {
        weft_free(file->metadata[i].key);
        weft_free(file->metadata[i].value);
    }
    for (int i = 0; i < file->n_mappings; i++)
        weft__mapping_unref(file->mappings[i]);
    weft_free(file->tensors);
    weft_free(file->metadata);
    weft_free(file->mappings);
    weft_free(file);
}

int weft_safetensors_count(const weft_safetensors *file)
{
    return file->n_tensors;
}

const weft_safetensors_entry *weft_safetensors_at(const weft_safetensors *file, int i)
{
    return i >= 0 && i < file->n_tensors ? &file->tensors[i].entry : NULL;
}

const char *weft_safetensors_name(const weft_safetensors *file, int i)
{
    return i >= 0 && i < file->n_tensors ? file->tensors[i].entry.name : NULL;
}

int weft_safetensors_find(const weft_safetensors *file, const char *name)
{
    int low = 0, high = file->n_tensors;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = strcmp(file->tensors[middle].entry.name, name);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

weft_array *weft_safetensors_get_at(const weft_safetensors *file, int i)
{
    if (i < 0 || i >= file->n_tensors)
        return weft_error_array("safetensors: tensor %d of %d", i, file->n_tensors);
    const weft__stored_tensor *t = &file->tensors[i];
    char *data = (char *)t->mapping->address + t->begin;
    const weft_dtype dtype = t->entry.dtype;
    /* A complex number is aligned like its parts. */
    const size_t alignment = dtype == WEFT_COMPLEX64 ? sizeof(float) : weft_dtype_size(dtype);
    if ((uintptr_t)data % alignment != 0)
        return weft_from_data(data, dtype, t->entry.shape);
    void *range = weft__mapping_range(t->mapping, data, t->bytes);
    return range ? weft_from_memory(data, dtype, t->entry.shape, weft__mapping_range_release, range)
                 : weft_error_array("safetensors: out of memory for a tensor");
}

weft_array *weft_safetensors_get(const weft_safetensors *file, const char *name)
{
    const int i = weft_safetensors_find(file, name);
    if (i < 0)
        return weft_error_array("%s: there is no tensor '%s' (of %d)",
                                file->n_mappings ? file->mappings[0]->path : "safetensors",
                                weft_printable(name), file->n_tensors);
    return weft_safetensors_get_at(file, i);
}

const char *weft_safetensors_metadata(const weft_safetensors *file, const char *key)
{
    for (int i = 0; i < file->n_metadata; i++) {
        if (strcmp(file->metadata[i].key, key) == 0)
            return file->metadata[i].value;
    }
    return NULL;
}
