/* core/io/npy.c -- npy files: a magic string, a header that is a Python dict, and the elements. */
#include "core/io/npy.h"

#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/named.h"
#include "core/io/safetensors.h"
#include "weft/shape.h"

enum { PREFIX = 8, ALIGNMENT = 64, HEADER_LIMIT = 1 << 20 };

static const char magic[] = "\x93NUMPY";

/* "<": little-endian, "|": no byte order. */
static const char *const descriptions[WEFT_DTYPE_COUNT] = {
    [WEFT_BOOL] = "|b1",    [WEFT_UINT8] = "|u1",     [WEFT_UINT16] = "<u2",
    [WEFT_UINT32] = "<u4",  [WEFT_UINT64] = "<u8",    [WEFT_INT8] = "|i1",
    [WEFT_INT16] = "<i2",   [WEFT_INT32] = "<i4",     [WEFT_INT64] = "<i8",
    [WEFT_FLOAT16] = "<f2", [WEFT_BFLOAT16] = "<V2",  [WEFT_FLOAT32] = "<f4",
    [WEFT_FLOAT64] = "<f8", [WEFT_COMPLEX64] = "<c8",
};

/* ---- the dict ------------------------------------------------------------------------------- */

typedef struct reader {
    const char *at, *end;
    const char *where;
} reader;

static void skip_spaces(reader *r)
{
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at) {
        r->at++;
    }
}

/* Skips the character if it is next. */
static bool take(reader *r, char c)
{
    skip_spaces(r);
    bool there = r->at < r->end && *r->at == c;
    r->at += there;
    return there;
}

static weft_status expected(const reader *r, const char *what)
{
    int rest = (int)(r->end - r->at);
    return weft_fail(WEFT_INVALID, "%s: npy header: expected %s, got '%s'", r->where, what,
                     weft_printable_n(r->at, (size_t)(rest < 20 ? rest : 20)));
}

static weft_status read_string(reader *r, char *out, size_t size)
{
    skip_spaces(r);
    char quote = r->at < r->end ? *r->at : 0;
    if (quote != '\'' && quote != '"') {
        return expected(r, "a string");
    }
    const char *from = ++r->at;
    while (r->at < r->end && *r->at != quote) {
        r->at++;
    }
    size_t n = (size_t)(r->at - from);
    if (r->at == r->end || n >= size) {
        return expected(r, "the end of a string");
    }
    memcpy(out, from, n);
    out[n] = 0;
    r->at++;
    return WEFT_OK;
}

static weft_status read_bool(reader *r, bool *out)
{
    static const char *const words[] = {"False", "True"};
    skip_spaces(r);
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(r->end - r->at) >= n && memcmp(r->at, words[i], n) == 0) {
            r->at += n;
            *out = i;
            return WEFT_OK;
        }
    }
    return expected(r, "True or False");
}

static weft_status read_dim(reader *r, int64_t *out)
{
    int64_t value = 0;
    skip_spaces(r);
    const char *from = r->at;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *r->at - '0', &value)) {
            return expected(r, "a size of 64 bits");
        }
    }
    if (r->at == from) {
        return expected(r, "a size");
    }
    r->at += r->at < r->end && *r->at == 'L'; /* Python 2 */
    *out = value;
    return WEFT_OK;
}

static weft_status read_shape(reader *r, weft_dims *out)
{
    *out = (weft_dims){0};
    if (!take(r, '(')) {
        return expected(r, "a tuple");
    }
    while (!take(r, ')')) {
        if (out->n == WEFT_MAX_DIMS) {
            return expected(r, "at most 16 dims");
        }
        weft_status status = read_dim(r, &out->at[out->n++]);
        if (status != WEFT_OK) {
            return status;
        }
        if (!take(r, ',') && (r->at == r->end || *r->at != ')')) {
            return expected(r, "',' or ')'");
        }
    }
    return WEFT_OK;
}

static weft_status read_dtype(reader *r, weft__npy *out)
{
    char text[64];
    weft_status status = read_string(r, text, sizeof text);
    if (status != WEFT_OK) {
        return status;
    }
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
        if (strcmp(text + 1, descriptions[d] + 1) == 0 && *text && strchr("<>|=", *text)) {
            out->dtype = (weft_dtype)d;
            out->swapped = *text == '>' && weft_dtype_size(out->dtype) > 1;
            return WEFT_OK;
        }
    }
    return weft_fail(WEFT_UNSUPPORTED, "%s: npy header: unsupported dtype '%s'", r->where,
                     weft_printable(text));
}

static weft_status read_entry(reader *r, weft__npy *out, unsigned *seen)
{
    char key[32];
    weft_status status = read_string(r, key, sizeof key);
    if (status == WEFT_OK && !take(r, ':')) {
        status = expected(r, "':'");
    }
    if (status != WEFT_OK) {
        return status;
    }
    if (strcmp(key, "descr") == 0) {
        *seen |= 1;
        return read_dtype(r, out);
    }
    if (strcmp(key, "fortran_order") == 0) {
        *seen |= 2;
        return read_bool(r, &out->fortran);
    }
    if (strcmp(key, "shape") == 0) {
        *seen |= 4;
        return read_shape(r, &out->shape);
    }
    return weft_fail(WEFT_INVALID, "%s: npy header: unknown key '%s'", r->where,
                     weft_printable(key));
}

static weft_status read_dict(reader *r, weft__npy *out)
{
    unsigned seen = 0;
    weft_status status = take(r, '{') ? WEFT_OK : expected(r, "'{'");
    while (status == WEFT_OK && !take(r, '}')) {
        status = read_entry(r, out, &seen);
        if (status == WEFT_OK && !take(r, ',') && (r->at == r->end || *r->at != '}')) {
            status = expected(r, "',' or '}'");
        }
    }
    if (status == WEFT_OK && seen != 7) {
        status = weft_fail(WEFT_INVALID, "%s: npy header: expected descr, fortran_order and shape",
                           r->where);
    }
    return status;
}

static weft_status check_bytes(weft__npy *npy, size_t there, const char *where)
{
    int64_t bytes = (int64_t)weft_dtype_size(npy->dtype);
    bool overflow = false;
    for (int i = 0; i < npy->shape.n; i++) {
        overflow = overflow || __builtin_mul_overflow(bytes, npy->shape.at[i], &bytes);
    }
    if (overflow || (uint64_t)bytes > there) {
        return weft_fail(WEFT_INVALID, "%s: truncated: expected %lld bytes of elements, got %zu",
                         where, overflow ? -1 : (long long)bytes, there);
    }
    npy->bytes = (size_t)bytes;
    return WEFT_OK;
}

weft_status weft__npy_parse(const char *data, size_t size, const char *where, weft__npy *out)
{
    *out = (weft__npy){0};
    if (size < PREFIX + 2 || memcmp(data, magic, 6) != 0) {
        return weft_fail(WEFT_INVALID, "%s: not an npy file", where);
    }
    int version = (unsigned char)data[6];
    if (version < 1 || version > 3 || (version > 1 && size < PREFIX + 4)) {
        return weft_fail(WEFT_UNSUPPORTED, "%s: unsupported npy version %d", where, version);
    }
    int width = version == 1 ? 2 : 4;
    size_t header = 0;
    for (int i = width - 1; i >= 0; i--) {
        header = header << 8 | (unsigned char)data[PREFIX + i];
    }
    size_t begin = (size_t)(PREFIX + width);
    if (header > HEADER_LIMIT || header > size - begin) {
        return weft_fail(WEFT_INVALID, "%s: truncated: expected a header of %zu bytes, got %zu",
                         where, header, size - begin);
    }
    reader r = {data + begin, data + begin + header, where};
    weft_status status = read_dict(&r, out);
    out->begin = begin + header;
    return status == WEFT_OK ? check_bytes(out, size - out->begin, where) : status;
}

/* ---- arrays --------------------------------------------------------------------------------- */

/* Reverses the bytes of every element; of complex numbers, of each part. */
static weft_array *swapped(const char *elements, const weft__npy *npy, weft_dims shape)
{
    char *copy = weft_malloc(npy->bytes);
    if (!copy) {
        return weft__memory_error("npy", NULL);
    }
    size_t width = weft_dtype_size(npy->dtype) / (npy->dtype == WEFT_COMPLEX64 ? 2 : 1);
    for (size_t i = 0; i < npy->bytes; i++) {
        copy[i] = elements[i - i % width + (width - 1 - i % width)];
    }
    weft_array *a = weft_from_data(copy, npy->dtype, shape);
    weft_free(copy);
    return a;
}

weft_array *weft__npy_array(char *data, const weft__npy *npy, void (*release)(void *context),
                            void *context)
{
    weft_dims shape = npy->shape, reversed = {.n = npy->shape.n};
    for (int i = 0; i < shape.n; i++) {
        shape.at[i] = npy->shape.at[npy->fortran ? shape.n - 1 - i : i];
        reversed.at[i] = shape.n - 1 - i;
    }
    char *elements = data + npy->begin;
    size_t alignment = npy->dtype == WEFT_COMPLEX64 ? sizeof(float) : weft_dtype_size(npy->dtype);
    weft_array *a;
    if (npy->swapped) {
        a = swapped(elements, npy, shape);
        release(context);
    } else if ((uintptr_t)elements % alignment != 0) {
        a = weft_from_data(elements, npy->dtype, shape);
        release(context);
    } else {
        a = weft_from_memory(elements, npy->dtype, shape, release, context);
    }
    return npy->fortran && shape.n > 1 ? weft_transpose(a, reversed) : a;
}

weft_status weft_npy_load(const char *path, weft_array **out)
{
    weft__mapping *mapping;
    weft__npy npy;
    weft_status status = weft__mapping_read(path, &mapping);
    *out = NULL;
    if (status != WEFT_OK) {
        return status;
    }
    status = weft__npy_parse(mapping->address, mapping->size, path, &npy);
    if (status != WEFT_OK) {
        weft__mapping_unref(mapping);
        return status;
    }
    *out = weft__npy_array(mapping->address, &npy, weft__mapping_unref, mapping);
    return weft_ok(*out) ? WEFT_OK : weft_fail(WEFT_MEMORY, "%s: %s", path, weft_error(*out));
}

/* ---- writing -------------------------------------------------------------------------------- */

void weft__npy_header(weft__text *t, weft_array *a)
{
    weft_dims shape = weft_shape(a);
    weft__text_append(t, magic, 6);
    weft__text_append(t, "\x01\x00\x00\x00", 4);
    weft__text_format(t, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                      descriptions[weft_dtype_of(a)]);
    for (int i = 0; i < shape.n; i++) {
        weft__text_format(t,
                          shape.n == 1 ? "%lld,"
                          : i          ? ", %lld"
                                       : "%lld",
                          (long long)shape.at[i]);
    }
    weft__text_append(t, "), }", 4);
    while (!t->failed && (t->n + 1) % ALIGNMENT != 0) {
        weft__text_append(t, " ", 1);
    }
    weft__text_append(t, "\n", 1);
    if (!t->failed) {
        size_t length = t->n - PREFIX - 2;
        t->at[PREFIX] = (char)(length & 0xff);
        t->at[PREFIX + 1] = (char)(length >> 8);
    }
}

static weft_status write_bytes(void *context, const void *bytes, size_t size)
{
    return weft__writer_write(context, bytes, size);
}

weft_status weft_npy_save(const char *path, weft_array *a)
{
    weft__writer *writer = NULL;
    weft__text header = {0};
    weft_status status = weft__named_arrays_check(path, &path, &a, 1, false);
    if (status == WEFT_OK) {
        weft__npy_header(&header, a);
        status = header.failed ? weft__out_of_memory(path, "writing it")
                               : weft__writer_open(path, &writer);
    }
    if (status == WEFT_OK) {
        status = weft__writer_write(writer, header.at, header.n);
    }
    if (status == WEFT_OK) {
        status = weft__with_bytes(a, path, write_bytes, writer);
    }
    weft_free(header.at);
    return weft__writer_close(writer, status);
}
