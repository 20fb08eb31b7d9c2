/* core/io/gguf_header.c -- reads and validates the header of a GGUF file: magic, version, counts,
 * values, and the tensors' names, shapes, types and offsets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/gguf.h"
#include "core/io/text.h"
#include "core/io/utf8.h"
#include "core/list.h"
#include "core/shape.h"
#include "weft/quantize.h"

enum {
    LEAST_VALUE = 8 + 4 + 1, /* bytes of the smallest possible value and tensor */
    LEAST_TENSOR = 8 + 4 + 4 + 8,
    LONGEST_NAME = 65535,
    LIST_SIZE = 512
};

typedef struct reader {
    weft_gguf *file;
    const char *path;
    const char *bytes;
    size_t size, at; /* size of the file; position of the reader */
    uint64_t n_tensors, n_values;
    uint64_t alignment;
    int n_unsupported;
    char unsupported[LIST_SIZE]; /* "IQ2_XS (blk.0.ffn_up.weight)", ... */
} reader;

/* ---- bytes ---------------------------------------------------------------------------------- */

/* `what` names the item being read, for the message. */
static weft_status take(reader *r, size_t size, const char *what, const char **out)
{
    *out = r->bytes;
    if (size > r->size - r->at)
        return weft_fail(WEFT_INVALID,
                         "%s: truncated: %s: expected %zu bytes at %zu, found %zu before the end",
                         r->path, what, size, r->at, r->size - r->at);
    *out = r->bytes + r->at;
    r->at += size;
    return WEFT_OK;
}

static weft_status take_u32(reader *r, const char *what, uint32_t *out)
{
    const char *at;
    const weft_status status = take(r, sizeof *out, what, &at);
    *out = 0;
    if (status == WEFT_OK)
        memcpy(out, at, sizeof *out);
    return status;
}

static weft_status take_u64(reader *r, const char *what, uint64_t *out)
{
    const char *at;
    const weft_status status = take(r, sizeof *out, what, &at);
    *out = 0;
    if (status == WEFT_OK)
        memcpy(out, at, sizeof *out);
    return status;
}

static weft_status take_string(reader *r, const char *what, weft_gguf_string *out)
{
    uint64_t n;
    const weft_status status = take_u64(r, what, &n);
    if (status != WEFT_OK)
        return status;
    if (n > r->size - r->at)
        return weft_fail(WEFT_INVALID,
                         "%s: %s: a string of %llu bytes at %zu, found %zu before the end", r->path,
                         what, (unsigned long long)n, r->at, r->size - r->at);
    out->n = (size_t)n;
    return take(r, out->n, what, &out->at);
}

/* Copies a name or key. */
static weft_status take_name(reader *r, const char *what, char **out)
{
    weft_gguf_string s;
    *out = NULL;
    const weft_status status = take_string(r, what, &s);
    if (status != WEFT_OK)
        return status;
    if (s.n == 0 || s.n > LONGEST_NAME)
        return weft_fail(WEFT_INVALID, "%s: %s: expected 1 to %d bytes, found %zu", r->path, what,
                         LONGEST_NAME, s.n);
    if (memchr(s.at, 0, s.n) || weft__utf8_valid(s.at, s.n) != s.n)
        return weft_fail(WEFT_INVALID, "%s: %s: expected UTF-8 without zeros", r->path, what);
    char *text = weft_malloc(s.n + 1);
    if (text == NULL)
        return weft__out_of_memory(r->path, "its header");
    memcpy(text, s.at, s.n);
    text[s.n] = '\0';
    *out = text;
    return WEFT_OK;
}

/* ---- values --------------------------------------------------------------------------------- */

static weft_status take_strings(reader *r, weft_gguf_value *v)
{
    if ((uint64_t)v->count > (r->size - r->at) / sizeof(uint64_t))
        return weft_fail(WEFT_INVALID, "%s: '%s': %lld strings in %zu bytes", r->path,
                         weft_printable(v->key), (long long)v->count, r->size - r->at);
    weft_gguf_string *strings = weft_calloc(v->count ? (size_t)v->count : 1, sizeof *strings);
    if (strings == NULL)
        return weft__out_of_memory(r->path, "its header");
    v->strings = strings;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < v->count && status == WEFT_OK; i++)
        status = take_string(r, v->key, &strings[i]);
    return status;
}

static weft_status take_numbers(reader *r, weft_gguf_value *v)
{
    const size_t size = weft__gguf_value_size(v->type);
    if ((uint64_t)v->count > (r->size - r->at) / size)
        return weft_fail(WEFT_INVALID, "%s: '%s': %lld elements of %zu bytes in %zu bytes", r->path,
                         weft_printable(v->key), (long long)v->count, size, r->size - r->at);
    const char *at;
    const weft_status status = take(r, (size_t)v->count * size, v->key, &at);
    if (status != WEFT_OK)
        return status;
    v->data = at;
    for (int64_t i = 0; v->type == WEFT_GGUF_BOOL && i < v->count; i++) {
        if (at[i] != 0 && at[i] != 1)
            return weft_fail(WEFT_INVALID, "%s: '%s': expected a bool of 0 or 1, found %d", r->path,
                             weft_printable(v->key), at[i]);
    }
    return WEFT_OK;
}

/* Checks the type of a value or, in an array, of an element. */
static weft_status check_type(const reader *r, const char *key, uint32_t type, bool in_array)
{
    if (type > WEFT_GGUF_FLOAT64)
        return weft_fail(WEFT_INVALID, "%s: '%s': expected a value type of 0 to %d, found %lu",
                         r->path, weft_printable(key), WEFT_GGUF_FLOAT64, (unsigned long)type);
    if (in_array && type == WEFT_GGUF_ARRAY)
        return weft_fail(WEFT_UNSUPPORTED, "%s: '%s': arrays of arrays are unsupported", r->path,
                         weft_printable(key));
    return WEFT_OK;
}

static weft_status take_value(reader *r, weft_gguf_value *v)
{
    uint32_t type;
    uint64_t count = 1;
    weft_status status = take_u32(r, v->key, &type);
    if (status == WEFT_OK)
        status = check_type(r, v->key, type, false);
    if (status == WEFT_OK && type == WEFT_GGUF_ARRAY) {
        v->is_array = true;
        status = take_u32(r, v->key, &type);
        if (status == WEFT_OK)
            status = check_type(r, v->key, type, true);
        if (status == WEFT_OK)
            status = take_u64(r, v->key, &count);
    }
    if (status != WEFT_OK)
        return status;
    if (count > r->size)
        return weft_fail(WEFT_INVALID, "%s: '%s': %llu elements in a file of %zu bytes", r->path,
                         weft_printable(v->key), (unsigned long long)count, r->size);
    v->type = (weft_gguf_type)type;
    v->count = (int64_t)count;
    return v->type == WEFT_GGUF_STRING ? take_strings(r, v) : take_numbers(r, v);
}

/* Fails on duplicate keys. */
static weft_status check_keys(const reader *r)
{
    const int n = r->file->n_values;
    const char **keys = weft_calloc(n > 0 ? (size_t)n : 1, sizeof *keys);
    if (keys == NULL)
        return weft__out_of_memory(r->path, "its header");
    for (int i = 0; i < n; i++)
        keys[i] = r->file->values[i].key;
    qsort(keys, (size_t)n, sizeof *keys, weft__by_text);
    weft_status status = WEFT_OK;
    for (int i = 1; i < n && status == WEFT_OK; i++) {
        if (strcmp(keys[i - 1], keys[i]) == 0)
            status = weft_fail(WEFT_INVALID, "%s: '%s' is there twice", r->path,
                               weft_printable(keys[i]));
    }
    weft_free(keys);
    return status;
}

static weft_status take_values(reader *r)
{
    weft_gguf *f = r->file;
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; i < r->n_values && status == WEFT_OK; i++) {
        char *key;
        status = take_name(r, "a key", &key);
        if (status != WEFT_OK)
            return status;
        if (!weft__list_more(f->values, f->n_values)) {
            weft_free(key);
            return weft__out_of_memory(r->path, "its header");
        }
        f->values[f->n_values] = (weft_gguf_value){.key = key};
        status = take_value(r, &f->values[f->n_values++]);
    }
    return status == WEFT_OK ? check_keys(r) : status;
}

static weft_status find_alignment(reader *r)
{
    const weft_gguf_value *v = weft_gguf_value_find(r->file, "general.alignment");
    int64_t alignment = WEFT__GGUF_ALIGNMENT;
    if (v && (v->is_array || !weft_gguf_value_int(v, 0, &alignment) || alignment < 1 ||
              alignment > UINT32_MAX || (alignment & (alignment - 1)) != 0))
        return weft_fail(WEFT_INVALID, "%s: general.alignment: expected a power of two", r->path);
    r->alignment = (uint64_t)alignment;
    return WEFT_OK;
}

/* ---- tensors -------------------------------------------------------------------------------- */

static weft_status take_shape(reader *r, const char *name, weft_dims *shape)
{
    uint32_t n;
    weft_status status = take_u32(r, name, &n);
    if (status != WEFT_OK)
        return status;
    if (n > WEFT__GGUF_DIMS_READ)
        return weft_fail(WEFT_INVALID, "%s: tensor '%s': expected at most %d dims, found %lu",
                         r->path, weft_printable(name), WEFT__GGUF_DIMS_READ, (unsigned long)n);
    shape->n = (int)n;
    for (int i = shape->n - 1; i >= 0; i--) {
        uint64_t dim;
        status = take_u64(r, name, &dim);
        if (status != WEFT_OK)
            return status;
        if (dim > INT64_MAX)
            return weft_fail(WEFT_INVALID, "%s: tensor '%s': a dim of %llu", r->path,
                             weft_printable(name), (unsigned long long)dim);
        shape->at[i] = (int64_t)dim;
    }
    return WEFT_OK;
}

static weft_status fill_entry(const reader *r, weft__gguf_tensor *t)
{
    const weft__gguf_tensor_type *type = weft__gguf_type_numbered(t->number);
    weft_gguf_entry *e = &t->entry;
    e->type = type->name;
    e->dtype = type->dtype;
    e->encoding = type->encoding ? weft_encoding_find(type->encoding) : NULL;
    const int64_t size = weft__shape_size(&e->shape);
    const int64_t last = e->shape.n ? e->shape.at[e->shape.n - 1] : 1;
    int64_t bytes; /* of the decoded array, whose size must fit int64 */
    if (size < 0 || __builtin_mul_overflow(size, (int64_t)sizeof(double), &bytes))
        return weft_fail(WEFT_INVALID, "%s: tensor '%s': its shape has too many elements", r->path,
                         weft_printable(e->name));
    if (e->encoding && last % e->encoding->block != 0)
        return weft_fail(WEFT_INVALID,
                         "%s: tensor '%s': expected a first dim that is a multiple of %lld for %s, "
                         "found %lld",
                         r->path, weft_printable(e->name), (long long)e->encoding->block, e->type,
                         (long long)last);
    e->bytes = e->encoding ? weft_encoding_bytes(e->encoding, size)
                           : size * (int64_t)weft_dtype_size(e->dtype);
    return WEFT_OK;
}

static void note_unsupported(reader *r, const weft__gguf_tensor *t)
{
    char text[24];
    const size_t used = strlen(r->unsupported);
    if (r->n_unsupported++ < 8)
        snprintf(r->unsupported + used, sizeof r->unsupported - used, "%s%s (%.48s)",
                 used ? ", " : "", weft__gguf_type_text(t->number, text), t->entry.name);
}

static weft_status take_tensor(reader *r)
{
    weft_gguf *f = r->file;
    char *name;
    weft_status status = take_name(r, "a tensor's name", &name);
    if (status != WEFT_OK)
        return status;
    if (!weft__list_more(f->tensors, f->n_tensors)) {
        weft_free(name);
        return weft__out_of_memory(r->path, "its header");
    }
    weft__gguf_tensor *t = &f->tensors[f->n_tensors++];
    *t = (weft__gguf_tensor){.entry.name = name};
    status = take_shape(r, name, &t->entry.shape);
    if (status == WEFT_OK)
        status = take_u32(r, name, &t->number);
    if (status == WEFT_OK)
        status = take_u64(r, name, &t->offset);
    if (status != WEFT_OK)
        return status;
    if (weft__gguf_type_numbered(t->number))
        return fill_entry(r, t);
    note_unsupported(r, t);
    return WEFT_OK;
}

static weft_status take_tensors(reader *r)
{
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; i < r->n_tensors && status == WEFT_OK; i++)
        status = take_tensor(r);
    if (status == WEFT_OK && r->n_unsupported > 0)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: unsupported types of %d tensors: %s%s; supported are F32, F16, BF16, "
                         "F64, I8, I16, I32, I64, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, "
                         "Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4",
                         r->path, r->n_unsupported, r->unsupported,
                         r->n_unsupported > 8 ? ", ..." : "");
    return status;
}

/* ---- data ----------------------------------------------------------------------------------- */

static int compare_offsets(const void *a, const void *b)
{
    const weft__gguf_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->entry.bytes > y->entry.bytes) - (x->entry.bytes < y->entry.bytes);
}

static int compare_names(const void *a, const void *b)
{
    const weft__gguf_tensor *x = a, *y = b;
    return strcmp(x->entry.name, y->entry.name);
}

/* Checks that the tensors are inside the data, aligned, and do not overlap. */
static weft_status place(reader *r)
{
    weft_gguf *f = r->file;
    const uint64_t begin = (r->at + r->alignment - 1) / r->alignment * r->alignment;
    const uint64_t size = begin < r->size ? r->size - begin : 0;
    uint64_t end = 0;
    if (f->n_tensors > 0)
        qsort(f->tensors, (size_t)f->n_tensors, sizeof *f->tensors, compare_offsets);
    for (int i = 0; i < f->n_tensors; i++) {
        weft__gguf_tensor *t = &f->tensors[i];
        const uint64_t bytes = (uint64_t)t->entry.bytes;
        if (t->offset % r->alignment != 0)
            return weft_fail(
                WEFT_INVALID,
                "%s: tensor '%s': expected an offset that is a multiple of %llu, found "
                "%llu",
                r->path, weft_printable(t->entry.name), (unsigned long long)r->alignment,
                (unsigned long long)t->offset);
        if (t->offset > size || bytes > size - t->offset)
            return weft_fail(
                WEFT_INVALID,
                "%s: tensor '%s': expected %llu bytes at offset %llu, found %llu bytes "
                "of data (is it truncated?)",
                r->path, weft_printable(t->entry.name), (unsigned long long)bytes,
                (unsigned long long)t->offset, (unsigned long long)size);
        if (t->offset < end)
            return weft_fail(WEFT_INVALID, "%s: tensor '%s' overlaps '%s'", r->path,
                             weft_printable(t->entry.name),
                             weft_printable(f->tensors[i - 1].entry.name));
        end = t->offset + bytes;
        t->data = (char *)f->mapping->address + (bytes ? begin + t->offset : 0);
    }
    return WEFT_OK;
}

static weft_status sort(const reader *r)
{
    weft_gguf *f = r->file;
    if (f->n_tensors > 0)
        qsort(f->tensors, (size_t)f->n_tensors, sizeof *f->tensors, compare_names);
    for (int i = 1; i < f->n_tensors; i++) {
        if (strcmp(f->tensors[i - 1].entry.name, f->tensors[i].entry.name) == 0)
            return weft_fail(WEFT_INVALID, "%s: tensor '%s' is there twice", r->path,
                             weft_printable(f->tensors[i].entry.name));
    }
    return WEFT_OK;
}

/* ---- the file ------------------------------------------------------------------------------- */

static weft_status take_start(reader *r)
{
    const char *magic;
    uint32_t version;
    weft_status status = weft__file_check_lfs(r->path, r->bytes, r->size);
    if (status == WEFT_OK)
        status = take(r, 4, "the magic number", &magic);
    if (status != WEFT_OK)
        return status;
    if (memcmp(magic, "GGUF", 4) != 0)
        return weft_fail(WEFT_INVALID, "%s: expected GGUF in the first 4 bytes: not a GGUF file",
                         r->path);
    status = take_u32(r, "the version", &version);
    if (status != WEFT_OK)
        return status;
    if (version != 2 && version != 3)
        return weft_fail(WEFT_UNSUPPORTED, "%s: expected version 2 or 3, found %lu%s", r->path,
                         (unsigned long)version,
                         (version & 0xffff) == 0 ? " (a big-endian file?)" : "");
    r->file->version = (int)version;
    status = take_u64(r, "the number of tensors", &r->n_tensors);
    if (status == WEFT_OK)
        status = take_u64(r, "the number of values", &r->n_values);
    if (status != WEFT_OK)
        return status;
    const size_t left = r->size - r->at;
    if (r->n_tensors > left / LEAST_TENSOR || r->n_values > left / LEAST_VALUE ||
        r->n_tensors > INT32_MAX || r->n_values > INT32_MAX)
        return weft_fail(WEFT_INVALID, "%s: %llu tensors and %llu values in a file of %zu bytes",
                         r->path, (unsigned long long)r->n_tensors, (unsigned long long)r->n_values,
                         r->size);
    return WEFT_OK;
}

weft_status weft__gguf_read(weft_gguf *file)
{
    reader r = {.file = file,
                .path = file->mapping->path,
                .bytes = file->mapping->address,
                .size = file->mapping->size};
    weft_status status = take_start(&r);
    if (status == WEFT_OK)
        status = take_values(&r);
    if (status == WEFT_OK)
        status = find_alignment(&r);
    if (status == WEFT_OK)
        status = take_tensors(&r);
    if (status == WEFT_OK)
        status = place(&r);
    return status == WEFT_OK ? sort(&r) : status;
}
