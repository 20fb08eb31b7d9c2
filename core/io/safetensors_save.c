/* core/io/safetensors_save.c -- writes safetensors files. */
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/named.h"
#include "core/io/safetensors.h"
#include "core/io/text.h"
#include "weft/op.h"

enum { ALIGNMENT = 64 };

/* A tensor, in the order of the file. */
typedef struct item {
    const char *name;
    weft_array *array;
    size_t bytes;
} item;

/* Sorts wide elements first, so that every tensor is aligned for its dtype; then by name. */
static int compare_items(const void *a, const void *b)
{
    const item *x = a, *y = b;
    const size_t p = weft_dtype_size(weft_dtype_of(x->array));
    const size_t q = weft_dtype_size(weft_dtype_of(y->array));
    return p != q ? (p < q) - (p > q) : strcmp(x->name, y->name);
}

static void append_metadata(weft__text *t, const weft_metadata *metadata, int n)
{
    weft__text_quote(t, "__metadata__");
    weft__text_append(t, ":{\"format\":\"pt\"", 15);
    for (int i = 0; i < n; i++) {
        weft__text_append(t, ",", 1);
        weft__text_quote(t, metadata[i].key);
        weft__text_append(t, ":", 1);
        weft__text_quote(t, metadata[i].value);
    }
    weft__text_append(t, "}", 1);
}

/* Writes the 8 bytes of size and the JSON text, padded with spaces. */
static void make_header(weft__text *t, const item *items, int n, const weft_metadata *metadata,
                        int n_metadata)
{
    size_t offset = 0;
    weft__text_append(t, "\0\0\0\0\0\0\0\0{", 9);
    append_metadata(t, metadata, n_metadata);
    for (int i = 0; i < n; i++) {
        const weft_dims shape = weft_shape(items[i].array);
        weft__text_append(t, ",", 1);
        weft__text_quote(t, items[i].name);
        weft__text_format(t, ":{\"dtype\":\"%s\",\"shape\":[",
                          weft__safetensors_dtype_name(weft_dtype_of(items[i].array)));
        for (int d = 0; d < shape.n; d++)
            weft__text_format(t, d ? ",%lld" : "%lld", (long long)shape.at[d]);
        weft__text_format(t, "],\"data_offsets\":[%zu,%zu]}", offset, offset + items[i].bytes);
        offset += items[i].bytes;
    }
    weft__text_append(t, "}", 1);
    while (!t->failed && t->n % ALIGNMENT != 0)
        weft__text_append(t, " ", 1);
    for (int i = 0; i < 8 && !t->failed; i++)
        t->at[i] = (char)((uint64_t)(t->n - 8) >> (8 * i) & 0xff);
}

typedef struct output {
    weft__writer *writer;
    const item *item;
    const weft__written *written;
} output;

static weft_status write_bytes(void *context, const void *bytes, size_t size)
{
    const output *o = context;
    const weft_status status =
        weft__written_check(o->written, o->item->name, weft_dtype_of(o->item->array), bytes, size);
    return status == WEFT_OK ? weft__writer_write(o->writer, bytes, size) : status;
}

static weft_status write_items(const char *path, const weft__text *header, const item *items, int n,
                               weft__written *written)
{
    weft__writer *writer;
    weft_status status = weft__writer_open(path, &writer);
    if (status == WEFT_OK)
        status = weft__writer_write(writer, header->at, header->n);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        output o = {writer, &items[i], written};
        status = weft__with_bytes(items[i].array, items[i].name, write_bytes, &o);
        weft__written_more(written, (int64_t)items[i].bytes);
    }
    return weft__writer_close(writer, status);
}

static weft_status check_items(const char *path, const item *items, int n)
{
    for (int i = 0; i < n; i++) {
        const char *error = weft_error(items[i].array);
        if (error)
            return weft_fail(WEFT_INVALID, "%s: tensor '%s': %s", path,
                             weft_printable(items[i].name), error);
        if (weft_encoding_of(items[i].array))
            return weft_fail(
                WEFT_INVALID, "%s: tensor '%s' is encoded as %s: decode it first (weft_decode)",
                path, weft_printable(items[i].name), weft_encoding_of(items[i].array)->name);
        if (strcmp(items[i].name, "__metadata__") == 0)
            return weft_fail(WEFT_INVALID, "%s: a tensor cannot be called __metadata__", path);
        /* Equal names may not be adjacent when their dtypes differ. */
        for (int j = i + 1; j < n; j++) {
            if (strcmp(items[i].name, items[j].name) == 0)
                return weft_fail(WEFT_INVALID, "%s: two tensors are called '%s'", path,
                                 weft_printable(items[i].name));
        }
    }
    return WEFT_OK;
}

weft_status weft__safetensors_save(const char *path, const char *const *names,
                                   weft_array *const *arrays, int n, const weft_metadata *metadata,
                                   int n_metadata, weft__written *written)
{
    item *items = weft_calloc(n > 0 ? (size_t)n : 1, sizeof *items);
    if (items == NULL)
        return weft__out_of_memory(path, "writing it");
    for (int i = 0; i < n; i++)
        items[i] = (item){names[i], arrays[i], (size_t)weft_nbytes(arrays[i])};
    weft_status status = check_items(path, items, n);
    weft__text header = {0};
    if (status == WEFT_OK) {
        if (n > 0)
            qsort(items, (size_t)n, sizeof *items, compare_items);
        make_header(&header, items, n, metadata, n_metadata);
        status = header.failed ? weft__out_of_memory(path, "writing it")
                               : write_items(path, &header, items, n, written);
    }
    weft_free(header.at);
    weft_free(items);
    return status;
}

weft_status weft_safetensors_save(const char *path, const char *const *names,
                                  weft_array *const *arrays, int n, const weft_metadata *metadata,
                                  int n_metadata)
{
    weft__written nobody = {0};
    return weft__safetensors_save(path, names, arrays, n, metadata, n_metadata, &nobody);
}
