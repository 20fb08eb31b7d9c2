/* core/io/gguf.c -- access to an open GGUF file: types, metadata values, tensors. */
#include "core/io/gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/named.h"
#include "core/shape.h"
#include "weft/quantize.h"

/* ---- types ---------------------------------------------------------------------------------- */

static const weft__gguf_tensor_type types[] = {
    {"F32", 0, WEFT_FLOAT32, NULL},
    {"F16", 1, WEFT_FLOAT16, NULL},
    {"Q4_0", 2, WEFT_FLOAT32, "q4_0"},
    {"Q4_1", 3, WEFT_FLOAT32, "q4_1"},
    {"Q5_0", 6, WEFT_FLOAT32, "q5_0"},
    {"Q5_1", 7, WEFT_FLOAT32, "q5_1"},
    {"Q8_0", 8, WEFT_FLOAT32, "q8_0"},
    {"Q2_K", 10, WEFT_FLOAT32, "q2_k"},
    {"Q3_K", 11, WEFT_FLOAT32, "q3_k"},
    {"Q4_K", 12, WEFT_FLOAT32, "q4_k"},
    {"Q5_K", 13, WEFT_FLOAT32, "q5_k"},
    {"Q6_K", 14, WEFT_FLOAT32, "q6_k"},
    {"IQ4_NL", 20, WEFT_FLOAT32, "iq4_nl"},
    {"IQ4_XS", 23, WEFT_FLOAT32, "iq4_xs"},
    {"I8", 24, WEFT_INT8, NULL},
    {"I16", 25, WEFT_INT16, NULL},
    {"I32", 26, WEFT_INT32, NULL},
    {"I64", 27, WEFT_INT64, NULL},
    {"F64", 28, WEFT_FLOAT64, NULL},
    {"BF16", 30, WEFT_BFLOAT16, NULL},
    {"MXFP4", 39, WEFT_FLOAT32, "gguf_mxfp4"},
};
enum { N_TYPES = sizeof types / sizeof *types };

/* Names of types that Weft does not support, for messages. */
static const struct {
    uint32_t number;
    const char *name;
} others[] = {
    {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {21, "IQ3_S"}, {22, "IQ2_S"}, {29, "IQ1_M"},   {34, "TQ1_0"},  {35, "TQ2_0"},   {40, "NVFP4"},
};

const weft__gguf_tensor_type *weft__gguf_type_numbered(uint32_t number)
{
    for (int i = 0; i < N_TYPES; i++) {
        if (types[i].number == number)
            return &types[i];
    }
    return NULL;
}

const weft__gguf_tensor_type *weft__gguf_type_stored(weft_dtype dtype,
                                                     const weft_encoding *encoding)
{
    for (int i = 0; i < N_TYPES; i++) {
        if (encoding ? types[i].encoding && strcmp(types[i].encoding, encoding->name) == 0
                     : !types[i].encoding && types[i].dtype == dtype)
            return &types[i];
    }
    return NULL;
}

const char *weft__gguf_type_text(uint32_t number, char *text)
{
    const weft__gguf_tensor_type *type = weft__gguf_type_numbered(number);
    if (type)
        return type->name;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (others[i].number == number)
            return others[i].name;
    }
    snprintf(text, 24, "type %lu", (unsigned long)number);
    return text;
}

const weft_encoding *weft_gguf_encoding(const char *type)
{
    for (int i = 0; i < N_TYPES; i++) {
        if (types[i].encoding && strcmp(types[i].name, type) == 0)
            return weft_encoding_find(types[i].encoding);
    }
    return NULL;
}

const char *weft_gguf_type_of(const weft_array *a)
{
    const weft__gguf_tensor_type *type =
        weft__gguf_type_stored(weft_dtype_of(a), weft_encoding_of(a));
    return type ? type->name : NULL;
}

/* ---- values --------------------------------------------------------------------------------- */

size_t weft__gguf_value_size(weft_gguf_type type)
{
    switch (type) {
    case WEFT_GGUF_UINT8:
    case WEFT_GGUF_INT8:
    case WEFT_GGUF_BOOL:
        return 1;
    case WEFT_GGUF_UINT16:
    case WEFT_GGUF_INT16:
        return 2;
    case WEFT_GGUF_UINT32:
    case WEFT_GGUF_INT32:
    case WEFT_GGUF_FLOAT32:
        return 4;
    case WEFT_GGUF_UINT64:
    case WEFT_GGUF_INT64:
    case WEFT_GGUF_FLOAT64:
        return 8;
    case WEFT_GGUF_STRING:
    case WEFT_GGUF_ARRAY:
        break;
    }
    return 0;
}

/* The bits of element i, zero-extended. */
static uint64_t bits_of(const weft_gguf_value *v, int64_t i)
{
    const size_t size = weft__gguf_value_size(v->type);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)v->data + (size_t)i * size, size);
    return bits;
}

bool weft_gguf_value_int(const weft_gguf_value *value, int64_t i, int64_t *out)
{
    if (value == NULL || i < 0 || i >= value->count)
        return false;
    switch (value->type) {
    case WEFT_GGUF_UINT8:
    case WEFT_GGUF_BOOL:
    case WEFT_GGUF_UINT16:
    case WEFT_GGUF_UINT32:
    case WEFT_GGUF_UINT64: {
        const uint64_t bits = bits_of(value, i);
        *out = (int64_t)bits;
        return bits <= INT64_MAX;
    }
    case WEFT_GGUF_INT8:
        *out = (int8_t)bits_of(value, i);
        return true;
    case WEFT_GGUF_INT16:
        *out = (int16_t)bits_of(value, i);
        return true;
    case WEFT_GGUF_INT32:
        *out = (int32_t)bits_of(value, i);
        return true;
    case WEFT_GGUF_INT64:
        *out = (int64_t)bits_of(value, i);
        return true;
    default:
        return false;
    }
}

bool weft_gguf_value_number(const weft_gguf_value *value, int64_t i, double *out)
{
    int64_t whole;
    if (value == NULL || i < 0 || i >= value->count)
        return false;
    if (value->type == WEFT_GGUF_FLOAT32) {
        const uint32_t bits = (uint32_t)bits_of(value, i);
        float number;
        memcpy(&number, &bits, sizeof number);
        *out = (double)number;
        return true;
    }
    if (value->type == WEFT_GGUF_FLOAT64) {
        const uint64_t bits = bits_of(value, i);
        memcpy(out, &bits, sizeof *out);
        return true;
    }
    if (value->type == WEFT_GGUF_UINT64) {
        *out = (double)bits_of(value, i);
        return true;
    }
    if (!weft_gguf_value_int(value, i, &whole))
        return false;
    *out = (double)whole;
    return true;
}

bool weft_gguf_value_string(const weft_gguf_value *value, int64_t i, weft_gguf_string *out)
{
    if (value == NULL || value->type != WEFT_GGUF_STRING || i < 0 || i >= value->count)
        return false;
    *out = value->strings[i];
    return true;
}

int weft_gguf_value_count(const weft_gguf *file)
{
    return file->n_values;
}

const weft_gguf_value *weft_gguf_value_at(const weft_gguf *file, int i)
{
    return i >= 0 && i < file->n_values ? &file->values[i] : NULL;
}

const weft_gguf_value *weft_gguf_value_find(const weft_gguf *file, const char *key)
{
    for (int i = 0; i < file->n_values; i++) {
        if (strcmp(file->values[i].key, key) == 0)
            return &file->values[i];
    }
    return NULL;
}

/* ---- the file ------------------------------------------------------------------------------- */

weft_status weft_gguf_open(const char *path, weft_gguf **out)
{
    *out = NULL;
    weft_gguf *file = weft_calloc(1, sizeof *file);
    if (file == NULL)
        return weft__out_of_memory(path, "opening it");
    weft_status status = weft__mapping_open(path, &file->mapping);
    if (status == WEFT_OK)
        status = weft__gguf_read(file);
    if (status != WEFT_OK) {
        weft_gguf_close(file);
        return status;
    }
    *out = file;
    return WEFT_OK;
}

void weft_gguf_close(weft_gguf *file)
{
    if (file == NULL)
        return;
    for (int i = 0; i < file->n_tensors; i++)
        weft_free((char *)file->tensors[i].entry.name);
    for (int i = 0; i < file->n_values; i++) {
        weft_free((char *)file->values[i].key);
        weft_free((weft_gguf_string *)file->values[i].strings);
    }
    weft_free(file->tensors);
    weft_free(file->values);
    if (file->mapping)
        weft__mapping_unref(file->mapping);
    weft_free(file);
}

int weft_gguf_version(const weft_gguf *file)
{
    return file->version;
}

const char *weft_gguf_path(const weft_gguf *file)
{
    return file->mapping->path;
}

/* ---- tensors -------------------------------------------------------------------------------- */

int weft_gguf_count(const weft_gguf *file)
{
    return file->n_tensors;
}

const weft_gguf_entry *weft_gguf_at(const weft_gguf *file, int i)
{
    return i >= 0 && i < file->n_tensors ? &file->tensors[i].entry : NULL;
}

static int compare_name(const void *key, const void *tensor)
{
    return strcmp(key, ((const weft__gguf_tensor *)tensor)->entry.name);
}

int weft_gguf_find(const weft_gguf *file, const char *name)
{
    const weft__gguf_tensor *found = file->n_tensors
                                         ? bsearch(name, file->tensors, (size_t)file->n_tensors,
                                                   sizeof *file->tensors, compare_name)
                                         : NULL;
    return found ? (int)(found - file->tensors) : -1;
}

const void *weft_gguf_bytes(const weft_gguf *file, int i)
{
    return i >= 0 && i < file->n_tensors ? file->tensors[i].data : NULL;
}

/* `data` as an array that keeps the mapping open; a copy if it is not aligned for its dtype. */
static weft_array *view(const weft_gguf *file, char *data, const weft_gguf_entry *entry,
                        weft_dims shape, weft_dtype dtype)
{
    const bool dense = entry->encoding == NULL;
    if (dense && (uintptr_t)data % weft_dtype_size(entry->dtype) != 0)
        return weft_from_data(data, entry->dtype, shape);
    const int64_t size = weft__shape_size(&shape);
    const int64_t bytes = dense ? size * (int64_t)weft_dtype_size(entry->dtype)
                                : weft_encoding_bytes(entry->encoding, size);
    void *range = weft__mapping_range(file->mapping, data, (size_t)bytes);
    if (range == NULL)
        return weft_error_array("%s: out of memory for a tensor", file->mapping->path);
    return dense ? weft_from_memory(data, entry->dtype, shape, weft__mapping_range_release, range)
                 : weft_from_blocks(data, entry->encoding, dtype, shape,
                                    weft__mapping_range_release, range);
}

weft_array *weft_gguf_get_rows(const weft_gguf *file, int i, int64_t first, weft_dims shape,
                               weft_dtype dtype)
{
    if (i < 0 || i >= file->n_tensors)
        return weft_error_array("gguf: tensor %d of %d", i, file->n_tensors);
    const weft_gguf_entry *entry = &file->tensors[i].entry;
    const int64_t width = entry->shape.n ? entry->shape.at[entry->shape.n - 1] : 1;
    const int64_t size = weft__shape_size(&shape), all = weft__shape_size(&entry->shape);
    int64_t skipped, end;
    if (size < 0 || first < 0 || (size > 0 && (width == 0 || size % width != 0)) ||
        __builtin_mul_overflow(first, width, &skipped) ||
        __builtin_add_overflow(skipped, size, &end) || end > all)
        return weft_error_array("%s: tensor '%s': no such rows", file->mapping->path,
                                weft_printable(entry->name));
    const int64_t offset = entry->encoding ? weft_encoding_bytes(entry->encoding, skipped)
                                           : skipped * (int64_t)weft_dtype_size(entry->dtype);
    return view(file, file->tensors[i].data + offset, entry, shape, dtype);
}

weft_array *weft_gguf_get_at(const weft_gguf *file, int i)
{
    if (i < 0 || i >= file->n_tensors)
        return weft_error_array("gguf: tensor %d of %d", i, file->n_tensors);
    const weft__gguf_tensor *t = &file->tensors[i];
    return view(file, t->data, &t->entry, t->entry.shape, t->entry.dtype);
}

weft_array *weft_gguf_get(const weft_gguf *file, const char *name)
{
    const int i = weft_gguf_find(file, name);
    if (i < 0)
        return weft_error_array("%s: there is no tensor '%s' (of %d)", file->mapping->path,
                                weft_printable(name), file->n_tensors);
    return weft_gguf_get_at(file, i);
}

weft_status weft_gguf_load(const char *path, weft_named_arrays *out, weft_gguf **metadata)
{
    weft_gguf *file;
    *out = (weft_named_arrays){0};
    if (metadata)
        *metadata = NULL;
    weft_status status = weft_gguf_open(path, &file);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < file->n_tensors && status == WEFT_OK; i++) {
        weft_array *a = weft_gguf_get_at(file, i);
        if (!weft_ok(a))
            status = weft__report(a);
        else if (!weft__named_arrays_add(out, file->tensors[i].entry.name, a))
            status = weft__out_of_memory(path, "its tensors");
    }
    if (status != WEFT_OK)
        weft_named_arrays_free(out);
    if (status == WEFT_OK && metadata)
        *metadata = file;
    else
        weft_gguf_close(file);
    return status;
}
