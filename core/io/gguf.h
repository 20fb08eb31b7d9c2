/* core/io/gguf.h -- what the files that read and write GGUF share. */
#ifndef WEFT_CORE_IO_GGUF_H
#define WEFT_CORE_IO_GGUF_H

#include "core/io/safetensors.h"
#include "weft/gguf.h"

enum {
    WEFT__GGUF_ALIGNMENT = 32,
    WEFT__GGUF_DIMS = 4,
    WEFT__GGUF_NAME = 64 /* with the 0 that ggml puts behind it */
};

/* A tensor type of the format. */
typedef struct weft__gguf_tensor_type {
    const char *name;
    uint32_t number;
    weft_dtype dtype;
    const char *encoding; /* NULL: dense */
} weft__gguf_tensor_type;

/* NULL when Weft does not have it. */
const weft__gguf_tensor_type *weft__gguf_type_numbered(uint32_t number);
const weft__gguf_tensor_type *weft__gguf_type_stored(weft_dtype dtype,
                                                     const weft_encoding *encoding);
/* The name of any type of the format, "type 99" else; `text` has room for 24 bytes. */
const char *weft__gguf_type_text(uint32_t number, char *text);

/* Bytes of a number or bool; 0 for strings, arrays and what is no type. */
size_t weft__gguf_value_size(weft_gguf_type type);

typedef struct weft__gguf_tensor {
    weft_gguf_entry entry; /* the name is this tensor's own */
    uint64_t offset;       /* in the data */
    uint32_t number;       /* the type's, 0 or one that Weft has once the file is open */
    char *data;            /* in the mapping */
} weft__gguf_tensor;

struct weft_gguf {
    weft__mapping *mapping;
    int version;
    int n_tensors, tensor_capacity, n_values, value_capacity;
    weft__gguf_tensor *tensors; /* sorted by name once opened */
    weft_gguf_value *values;    /* keys and strings' lists are their own */
};

/* Reads the mapped file's header into `file`. */
weft_status weft__gguf_read(weft_gguf *file);

/* Array i once more: of the same dtype, encoding and shape, but a temporary that nothing else has,
 * so that its memory is free again when it has been written. */
typedef weft_array *weft__gguf_make(void *context, int i);

/* weft_gguf_save, telling of it. With `make`, `arrays` are not evaluated: what it makes is. */
weft_status weft__gguf_save(const char *path, const char *const *names, weft_array *const *arrays,
                            int n, const weft_gguf_value *metadata, int n_metadata,
                            const weft_save_progress *progress, weft__gguf_make *make,
                            void *context);

/* Finds the GGUF file that `path` names: the file itself or, for a folder, the only one in it. *out
 * is owned by the caller, and NULL when there is none. Several GGUF files, or one beside
 * safetensors files, are an error that lists them. */
weft_status weft__gguf_find(const char *path, char **out);

#endif
