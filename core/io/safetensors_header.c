/* core/io/safetensors_header.c -- reads and validates the header of a safetensors file: 8 bytes of
 * little-endian size, that many bytes of JSON, then the tensors' bytes without gaps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json_object.h>
#include <json-c/linkhash.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/json.h"
#include "core/io/safetensors.h"
#include "core/list.h"
#include "core/shape.h"

enum { PREFIX = 8, MAX_HEADER = 100000000, LIST_SIZE = 512 };

/* One file being read. */
typedef struct reader {
    weft_safetensors *file;
    weft__mapping *mapping;
    const char *path;
    size_t data_begin, data_size;
    int first; /* index of this file's first tensor */
    int n_unsupported;
    char unsupported[LIST_SIZE]; /* "F8_E4M3 (a.weight)", ... */
} reader;

/* ---- the JSON text -------------------------------------------------------------------------- */

typedef struct raw_key {
    const char *at;
    size_t length;
} raw_key;

static int compare_keys(const void *a, const void *b)
{
    const raw_key *x = a, *y = b;
    const size_t shorter = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->at, y->at, shorter);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* The closing quote of the string whose opening quote is at `at` - 1. The text must be valid JSON.
 */
static const char *string_end(const char *at)
{
    while (*at != '"')
        at += *at == '\\' ? 2 : 1;
    return at;
}

/* The keys of the outer object in the text. The parser keeps one of two equal keys, so duplicates
 * are found only here. */
static bool outer_keys(const char *text, const char *end, raw_key **keys, int *n)
{
    int depth = 0;
    for (const char *at = text; at < end; at++) {
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        if (*at != '"')
            continue;
        const char *begin = at + 1;
        at = string_end(begin);
        const char *next = at + 1;
        while (next < end && memchr(" \t\r\n", *next, 4))
            next++;
        if (depth != 1 || next == end || *next != ':')
            continue;
        if (!weft__list_more(*keys, *n))
            return false;
        (*keys)[(*n)++] = (raw_key){begin, (size_t)(at - begin)};
    }
    return true;
}

static weft_status check_unique(const reader *r, const char *text, size_t length, int distinct)
{
    raw_key *keys = NULL;
    int n = 0;
    weft_status status = WEFT_OK;
    if (!outer_keys(text, text + length, &keys, &n)) {
        status = weft__out_of_memory(r->path, "its header");
    } else if (n != distinct) {
        status = weft_fail(WEFT_INVALID, "%s: %d names, but only %d different ones", r->path, n,
                           distinct);
        qsort(keys, (size_t)n, sizeof *keys, compare_keys);
        for (int i = 1; i < n; i++) {
            if (compare_keys(&keys[i - 1], &keys[i]) == 0)
                status = weft_fail(WEFT_INVALID, "%s: tensor '%s' is there twice", r->path,
                                   weft_printable_n(keys[i].at, keys[i].length));
        }
    }
    weft_free(keys);
    return status;
}

/* ---- one entry ------------------------------------------------------------------------------ */

static weft_status fail_tensor(const reader *r, const char *name, const char *what)
{
    return weft_fail(WEFT_INVALID, "%s: tensor '%s': %s", r->path, weft_printable(name), what);
}

static void note_unsupported(reader *r, const char *dtype, const char *name)
{
    const size_t used = strlen(r->unsupported);
    if (r->n_unsupported++ < 8)
        snprintf(r->unsupported + used, sizeof r->unsupported - used, "%s%.16s (%.80s)",
                 used ? ", " : "", dtype, name);
}

static weft_status read_shape(const reader *r, const weft__json *entry, const char *name,
                              weft_dims *shape)
{
    weft__json list, element;
    size_t n;
    weft_status status = weft__json_get(entry, "shape", &list);
    if (status == WEFT_OK)
        status = weft__json_length(&list, &n);
    if (status != WEFT_OK)
        return status;
    if (n > WEFT_MAX_DIMS)
        return weft_fail(WEFT_INVALID,
                         "%s: tensor '%s': shape: expected at most %d dims, found %zu", r->path,
                         weft_printable(name), WEFT_MAX_DIMS, n);
    shape->n = (int)n;
    for (size_t i = 0; i < n; i++) {
        status = weft__json_at(&list, i, &element);
        if (status == WEFT_OK)
            status = weft__json_as_int(&element, &shape->at[i]);
        if (status != WEFT_OK)
            return status;
        if (shape->at[i] < 0)
            return fail_tensor(r, name, "shape: a dim is negative");
    }
    return WEFT_OK;
}

static weft_status read_offsets(const reader *r, const weft__json *entry, const char *name,
                                int64_t offsets[2])
{
    weft__json list, element;
    size_t n;
    weft_status status = weft__json_get(entry, "data_offsets", &list);
    if (status == WEFT_OK)
        status = weft__json_length(&list, &n);
    if (status != WEFT_OK)
        return status;
    if (n != 2)
        return weft_fail(WEFT_INVALID,
                         "%s: tensor '%s': data_offsets: expected begin and end, found %zu numbers",
                         r->path, weft_printable(name), n);
    for (size_t i = 0; i < 2 && status == WEFT_OK; i++) {
        status = weft__json_at(&list, i, &element);
        if (status == WEFT_OK)
            status = weft__json_as_int(&element, &offsets[i]);
    }
    return status;
}

/* Checks that the bytes are inside the file, and as many as shape and dtype need. */
static weft_status check_range(const reader *r, const weft__stored_tensor *t, const char *dtype,
                               const int64_t offsets[2])
{
    char shape[WEFT_SHAPE_TEXT];
    const char *name = t->entry.name;
    if (offsets[0] < 0 || offsets[1] < offsets[0])
        return weft_fail(WEFT_INVALID, "%s: tensor '%s': data_offsets: [%lld, %lld] is no range",
                         r->path, weft_printable(name), (long long)offsets[0],
                         (long long)offsets[1]);
    if ((uint64_t)offsets[1] > r->data_size)
        return weft_fail(
            WEFT_INVALID,
            "%s: tensor '%s': data_offsets: [%lld, %lld] is out of range: the file has "
            "%zu bytes of data (is it truncated?)",
            r->path, weft_printable(name), (long long)offsets[0], (long long)offsets[1],
            r->data_size);
    const int64_t size = weft__shape_size(&t->entry.shape);
    int64_t bytes;
    if (size < 0 ||
        __builtin_mul_overflow(size, (int64_t)weft_dtype_size(t->entry.dtype), &bytes) ||
        bytes != offsets[1] - offsets[0])
        return weft_fail(WEFT_INVALID,
                         "%s: tensor '%s': expected %lld bytes for %s %s, found %lld bytes "
                         "(data_offsets [%lld, %lld])",
                         r->path, weft_printable(name), size < 0 ? -1LL : (long long)bytes, dtype,
                         weft__shape_text(&t->entry.shape, shape),
                         (long long)(offsets[1] - offsets[0]), (long long)offsets[0],
                         (long long)offsets[1]);
    return WEFT_OK;
}

/* The name of an 8-bit float, which is read as uint8; NULL for other dtypes. */
static const char *float8_name(const char *dtype)
{
    static const char *const names[] = {"F8_E4M3", "F8_E5M2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(dtype, names[i]) == 0)
            return names[i];
    }
    return NULL;
}

static weft_status read_tensor(reader *r, const weft__json *entry, const char *name)
{
    const char *dtype;
    int64_t offsets[2];
    weft__stored_tensor t = {.mapping = r->mapping};
    weft_status status = weft__json_get_string(entry, "dtype", &dtype);
    if (status == WEFT_OK)
        status = read_shape(r, entry, name, &t.entry.shape);
    if (status == WEFT_OK)
        status = read_offsets(r, entry, name, offsets);
    if (status != WEFT_OK)
        return status;
    t.entry.float8 = float8_name(dtype);
    if (t.entry.float8) {
        t.entry.dtype = WEFT_UINT8;
    } else if (!weft__safetensors_dtype(dtype, &t.entry.dtype)) {
        note_unsupported(r, dtype, name);
        return WEFT_OK;
    }
    t.entry.name = name;
    t.entry.path = r->mapping->path;
    status = check_range(r, &t, dtype, offsets);
    if (status != WEFT_OK)
        return status;
    t.begin = r->data_begin + (size_t)offsets[0];
    t.bytes = (size_t)(offsets[1] - offsets[0]);
    weft_safetensors *f = r->file;
    if (!weft__list_more(f->tensors, f->n_tensors))
        return weft__out_of_memory(r->path, "its header");
    t.entry.name = weft_strdup(name);
    if (t.entry.name == NULL)
        return weft__out_of_memory(r->path, "its header");
    f->tensors[f->n_tensors++] = t;
    return WEFT_OK;
}

static weft_status read_metadata(reader *r, const weft__json *object)
{
    const weft_status status = weft__json_as_object(object);
    if (status != WEFT_OK)
        return status;
    weft_safetensors *f = r->file;
    json_object_object_foreach(object->value, key, value)
    {
        if (!json_object_is_type(value, json_type_string))
            return weft_fail(WEFT_INVALID, "%s: __metadata__: '%s': expected a string, found %s",
                             r->path, weft_printable(key), weft__json_type_name(value));
        if (!weft__json_plain(value))
            return weft_fail(WEFT_INVALID,
                             "%s: __metadata__: '%s': expected a string without \\u0000", r->path,
                             weft_printable(key));
        if (!weft__list_more(f->metadata, f->n_metadata))
            return weft__out_of_memory(r->path, "its header");
        const weft__stored_text text = {weft_strdup(key),
                                        weft_strdup(json_object_get_string(value))};
        f->metadata[f->n_metadata++] = text;
        if (text.key == NULL || text.value == NULL)
            return weft__out_of_memory(r->path, "its header");
    }
    return WEFT_OK;
}

static weft_status read_entries(reader *r, const weft__json *root)
{
    weft_status status = weft__json_as_object(root);
    if (status != WEFT_OK)
        return status;
    json_object_object_foreach(root->value, key, value)
    {
        weft__json entry;
        /* MLX writes null when there is no metadata. */
        if (value == NULL && strcmp(key, "__metadata__") == 0)
            continue;
        status = weft__json_get(root, key, &entry);
        if (status == WEFT_OK && strcmp(key, "__metadata__") == 0)
            status = read_metadata(r, &entry);
        else if (status == WEFT_OK)
            status = read_tensor(r, &entry, key);
        if (status != WEFT_OK)
            return status;
    }
    if (r->n_unsupported > 0)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: unsupported dtypes of %d tensors: %s%s; supported are BOOL, U8 to "
                         "U64, I8 to I64, F8_E4M3, F8_E5M2, F16, BF16, F32, F64, C64",
                         r->path, r->n_unsupported, r->unsupported,
                         r->n_unsupported > 8 ? ", ..." : "");
    return WEFT_OK;
}

/* ---- the file ------------------------------------------------------------------------------- */

static int compare_begins(const void *a, const void *b)
{
    const weft__stored_tensor *x = a, *y = b;
    const size_t p = x->begin == y->begin ? x->bytes : x->begin;
    const size_t q = x->begin == y->begin ? y->bytes : y->begin;
    return (p > q) - (p < q);
}

/* Checks that the tensors cover the data exactly. */
static weft_status check_cover(const reader *r)
{
    weft_safetensors *f = r->file;
    const int n = f->n_tensors - r->first;
    size_t end = r->data_begin;
    const char *before = NULL;
    if (n > 0)
        qsort(f->tensors + r->first, (size_t)n, sizeof *f->tensors, compare_begins);
    for (int i = r->first; i < f->n_tensors; i++) {
        const weft__stored_tensor *t = &f->tensors[i];
        if (t->begin < end)
            return weft_fail(WEFT_INVALID, "%s: tensor '%s' overlaps '%s' by %zu bytes", r->path,
                             weft_printable(t->entry.name), weft_printable(before), end - t->begin);
        if (t->begin > end)
            return weft_fail(WEFT_INVALID, "%s: tensor '%s': a gap of %zu bytes before it", r->path,
                             weft_printable(t->entry.name), t->begin - end);
        end = t->begin + t->bytes;
        before = t->entry.name;
    }
    if (end != r->data_begin + r->data_size)
        return weft_fail(WEFT_INVALID, "%s: %zu bytes behind the last tensor belong to none",
                         r->path, r->data_begin + r->data_size - end);
    return WEFT_OK;
}

static weft_status read_header(reader *r)
{
    const unsigned char *bytes = r->mapping->address;
    const size_t size = r->mapping->size;
    const weft_status pointer = weft__file_check_lfs(r->path, bytes, size);
    if (pointer != WEFT_OK)
        return pointer;
    if (size < PREFIX)
        return weft_fail(WEFT_INVALID, "%s: truncated: %zu bytes, the header's size alone takes %d",
                         r->path, size, PREFIX);
    uint64_t length = 0;
    for (int i = PREFIX - 1; i >= 0; i--)
        length = length << 8 | bytes[i];
    if (length > MAX_HEADER)
        return weft_fail(
            WEFT_INVALID,
            "%s: header of %llu bytes, at most %d are allowed: not a safetensors file?", r->path,
            (unsigned long long)length, MAX_HEADER);
    if (length > size - PREFIX)
        return weft_fail(WEFT_INVALID, "%s: truncated: header of %llu bytes in a file of %zu",
                         r->path, (unsigned long long)length, size);
    r->data_begin = PREFIX + (size_t)length;
    r->data_size = size - r->data_begin;
    const char *text = (const char *)bytes + PREFIX;
    weft__json_doc doc;
    weft_status status = weft__json_parse(text, (size_t)length, r->path, &doc);
    if (status != WEFT_OK)
        return status;
    const weft__json root = weft__json_root(&doc);
    status = read_entries(r, &root);
    if (status == WEFT_OK)
        status = check_unique(r, text, (size_t)length, json_object_object_length(root.value));
    if (status == WEFT_OK)
        status = check_cover(r);
    weft__json_free(&doc);
    return status;
}

weft_status weft__safetensors_add(weft_safetensors *file, const char *path, bool mapped)
{
    reader r = {.file = file, .path = path, .first = file->n_tensors};
    if (!weft__list_more(file->mappings, file->n_mappings))
        return weft__out_of_memory(r.path, "its header");
    const weft_status status =
        mapped ? weft__mapping_open(path, &r.mapping) : weft__mapping_read(path, &r.mapping);
    if (status != WEFT_OK)
        return status;
    file->mappings[file->n_mappings++] = r.mapping;
    return read_header(&r);
}
