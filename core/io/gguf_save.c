/* core/io/gguf_save.c -- writes GGUF files of version 3. */
#include <string.h>

#include "core/failure.h"
#include "core/graph.h"
#include "core/io/fileio.h"
#include "core/io/gguf.h"
#include "core/io/named.h"
#include "core/io/text.h"

enum { VERSION = 3 };

/* ---- the header ----------------------------------------------------------------------------- */

static void put_u32(weft__text *t, uint32_t value)
{
    weft__text_append(t, (const char *)&value, sizeof value);
}

static void put_u64(weft__text *t, uint64_t value)
{
    weft__text_append(t, (const char *)&value, sizeof value);
}

static void put_string(weft__text *t, const char *at, size_t n)
{
    put_u64(t, n);
    weft__text_append(t, at, n);
}

static void put_value(weft__text *t, const weft_gguf_value *v)
{
    put_string(t, v->key, strlen(v->key));
    put_u32(t, v->is_array ? WEFT_GGUF_ARRAY : v->type);
    if (v->is_array) {
        put_u32(t, v->type);
        put_u64(t, (uint64_t)v->count);
    }
    for (int64_t i = 0; v->type == WEFT_GGUF_STRING && i < v->count; i++)
        put_string(t, v->strings[i].at, v->strings[i].n);
    if (v->type != WEFT_GGUF_STRING && v->count > 0)
        weft__text_append(t, v->data, (size_t)v->count * weft__gguf_value_size(v->type));
}

static size_t aligned(size_t size, size_t alignment)
{
    return (size + alignment - 1) / alignment * alignment;
}

static void put_padding(weft__text *t, size_t alignment)
{
    while (!t->failed && t->n % alignment != 0)
        weft__text_append(t, "", 1);
}

static void make_header(weft__text *t, const char *const *names, weft_array *const *arrays, int n,
                        const weft_gguf_value *values, int n_values, size_t alignment)
{
    size_t offset = 0;
    weft__text_append(t, "GGUF", 4);
    put_u32(t, VERSION);
    put_u64(t, (uint64_t)n);
    put_u64(t, (uint64_t)n_values);
    for (int i = 0; i < n_values; i++)
        put_value(t, &values[i]);
    for (int i = 0; i < n; i++) {
        const weft_dims shape = weft_shape(arrays[i]);
        put_string(t, names[i], strlen(names[i]));
        put_u32(t, (uint32_t)shape.n);
        for (int d = shape.n - 1; d >= 0; d--)
            put_u64(t, (uint64_t)shape.at[d]);
        put_u32(
            t,
            weft__gguf_type_stored(weft_dtype_of(arrays[i]), weft_encoding_of(arrays[i]))->number);
        put_u64(t, offset);
        offset = aligned(offset + (size_t)weft_nbytes(arrays[i]), alignment);
    }
    put_padding(t, alignment);
}

/* ---- checks --------------------------------------------------------------------------------- */

static weft_status check_array(const char *path, const char *name, const weft_array *a)
{
    if (strlen(name) >= WEFT__GGUF_NAME || *name == '\0')
        return weft_fail(WEFT_INVALID, "%s: tensor '%s': expected a name of 1 to %d bytes", path,
                         weft_printable(name), WEFT__GGUF_NAME - 1);
    if (weft_ndim(a) > WEFT__GGUF_DIMS)
        return weft_fail(WEFT_INVALID, "%s: tensor '%s': expected at most %d dims, got %d", path,
                         weft_printable(name), WEFT__GGUF_DIMS, weft_ndim(a));
    if (weft__gguf_type_stored(weft_dtype_of(a), weft_encoding_of(a)) == NULL)
        return weft_fail(WEFT_UNSUPPORTED, "%s: tensor '%s': GGUF has no type for %s", path,
                         weft_printable(name),
                         weft_encoding_of(a) ? weft_encoding_of(a)->name
                                             : weft_dtype_name(weft_dtype_of(a)));
    return WEFT_OK;
}

static weft_status check_value(const char *path, const weft_gguf_value *v)
{
    const bool string = v->type == WEFT_GGUF_STRING;
    const bool fits = v->key && *v->key && (string || weft__gguf_value_size(v->type) > 0) &&
                      v->count >= 0 && (v->is_array || v->count == 1) &&
                      (v->count == 0 || (string ? v->strings != NULL : v->data != NULL));
    return fits ? WEFT_OK
                : weft_fail(WEFT_INVALID, "%s: metadata '%s': expected a value or an array of them",
                            path, weft_printable(v->key ? v->key : ""));
}

static weft_status check(const char *path, const char *const *names, weft_array *const *arrays,
                         int n, const weft_gguf_value *values, int n_values, size_t *alignment)
{
    weft_status status = weft__named_arrays_check(path, names, arrays, n, true);
    for (int i = 0; i < n && status == WEFT_OK; i++)
        status = check_array(path, names[i], arrays[i]);
    *alignment = WEFT__GGUF_ALIGNMENT;
    for (int i = 0; i < n_values && status == WEFT_OK; i++) {
        status = check_value(path, &values[i]);
        for (int j = 0; j < i && status == WEFT_OK; j++) {
            if (strcmp(values[i].key, values[j].key) == 0)
                status = weft_fail(WEFT_INVALID, "%s: metadata '%s' is there twice", path,
                                   weft_printable(values[i].key));
        }
        if (status == WEFT_OK && strcmp(values[i].key, "general.alignment") == 0) {
            int64_t a;
            if (values[i].is_array || values[i].type != WEFT_GGUF_UINT32 ||
                !weft_gguf_value_int(&values[i], 0, &a) || a < 1 || (a & (a - 1)) != 0)
                return weft_fail(WEFT_INVALID,
                                 "%s: general.alignment: expected a power of two as UINT32", path);
            *alignment = (size_t)a;
        }
    }
    return status;
}

/* ---- the file ------------------------------------------------------------------------------- */

typedef struct output {
    weft__writer *writer;
    size_t alignment;
    const weft__written *written;
    const char *name; /* of the array that is written */
    weft_dtype dtype; /* 0: in blocks */
} output;

static weft_status write_bytes(void *context, const void *bytes, size_t size)
{
    static const char zeros[WEFT__GGUF_ALIGNMENT] = {0};
    const output *o = context;
    weft_status status = weft__written_check(o->written, o->name, o->dtype, bytes, size);
    if (status == WEFT_OK)
        status = weft__writer_write(o->writer, bytes, size);
    size_t padding = aligned(size, o->alignment) - size;
    while (status == WEFT_OK && padding > 0) {
        const size_t part = padding < sizeof zeros ? padding : sizeof zeros;
        status = weft__writer_write(o->writer, zeros, part);
        padding -= part;
    }
    return status;
}

weft_status weft__gguf_save(const char *path, const char *const *names, weft_array *const *arrays,
                            int n, const weft_gguf_value *metadata, int n_metadata,
                            const weft_save_progress *progress, weft__gguf_make *make,
                            void *context)
{
    weft__written written = {.progress = *progress};
    output o = {.written = &written};
    weft__text header = {0};
    weft_status status = check(path, names, arrays, n, metadata, n_metadata, &o.alignment);
    if (status != WEFT_OK)
        return status;
    make_header(&header, names, arrays, n, metadata, n_metadata, o.alignment);
    if (header.failed) {
        weft_free(header.at);
        return weft__out_of_memory(path, "writing it");
    }
    status = weft__writer_open(path, &o.writer);
    if (status == WEFT_OK)
        status = weft__writer_write(o.writer, header.at, header.n);
    for (int i = 0; i < n; i++)
        written.total += weft_nbytes(arrays[i]);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        o.name = names[i];
        o.dtype = weft_encoding_of(arrays[i]) ? (weft_dtype)0 : weft_dtype_of(arrays[i]);
        weft_scope_open();
        status = weft__with_bytes(make ? make(context, i) : arrays[i], names[i], write_bytes, &o);
        weft_scope_close(NULL);
        weft__written_more(&written, weft_nbytes(arrays[i]));
    }
    weft_free(header.at);
    return weft__writer_close(o.writer, status);
}

weft_status weft_gguf_save(const char *path, const char *const *names, weft_array *const *arrays,
                           int n, const weft_gguf_value *metadata, int n_metadata)
{
    static const weft_save_progress nobody = {0};
    return weft__gguf_save(path, names, arrays, n, metadata, n_metadata, &nobody, NULL, NULL);
}
