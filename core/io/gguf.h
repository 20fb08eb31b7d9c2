/* core/io/gguf.h -- functions shared by reading and writing GGUF files. */
#ifndef WEFT_CORE_IO_GGUF_H
#define WEFT_CORE_IO_GGUF_H

#include "core/io/safetensors.h"
#include "weft/gguf.h"

enum {
    WEFT__GGUF_ALIGNMENT = 32,
    WEFT__GGUF_DIMS = 4,      /* written: llama.cpp reads no more */
    WEFT__GGUF_DIMS_READ = 8, /* MLX writes up to 8 */
    WEFT__GGUF_NAME = 64      /* includes the NUL that ggml appends */
};

/* A tensor type of the format, and the dtype and encoding that it is read as. */
typedef struct weft__gguf_tensor_type {
    const char *name;
    uint32_t number;
    weft_dtype dtype;
    const char *encoding; /* NULL: dense */
} weft__gguf_tensor_type;

/* NULL when Weft does not support the type. */
const weft__gguf_tensor_type *weft__gguf_type_numbered(uint32_t number);
const weft__gguf_tensor_type *weft__gguf_type_stored(weft_dtype dtype,
                                                     const weft_encoding *encoding);
/* The name of any type of the format, "type 99" for unknown ones; `text` has room for 24 bytes. */
const char *weft__gguf_type_text(uint32_t number, char *text);

/* Bytes of a number or bool; 0 for strings, arrays and invalid types. */
size_t weft__gguf_value_size(weft_gguf_type type);

typedef struct weft__gguf_tensor {
    weft_gguf_entry entry; /* the tensor owns its name */
    uint64_t offset;       /* in the data */
    uint32_t number; /* number of the type; once the file is open it is 0 or a supported type */
    char *data;      /* points into the mapping */
} weft__gguf_tensor;

struct weft_gguf {
    weft__mapping *mapping;
    int version;
    int n_tensors, n_values;
    weft__gguf_tensor *tensors; /* sorted by name when the file is open */
    weft_gguf_value *values;    /* the file owns the keys and lists of strings */
};

/* Reads the header of the mapped file into `file`. */
weft_status weft__gguf_read(weft_gguf *file);

/* Makes array i, with the dtype, encoding and shape of arrays[i], as a temporary that can be freed
 * once it has been written. */
typedef weft_array *weft__gguf_make(void *context, int i);

/* weft_gguf_save with progress reports. With `make`, the arrays that it returns are written, and
 * `arrays` are not evaluated. */
weft_status weft__gguf_save(const char *path, const char *const *names, weft_array *const *arrays,
                            int n, const weft_gguf_value *metadata, int n_metadata,
                            const weft_save_progress *progress, weft__gguf_make *make,
                            void *context);

/* Finds the GGUF file that `path` names: the file itself or, for a folder, the only one in it. The
 * caller owns *out, which is NULL when there is none. Several GGUF files, or one next to
 * safetensors files, are an error that lists them. */
weft_status weft__gguf_find(const char *path, char **out);

#endif
