/* core/io/safetensors.h -- what the files that read, find and write safetensors share. */
#ifndef WEFT_CORE_IO_SAFETENSORS_H
#define WEFT_CORE_IO_SAFETENSORS_H

#include <stdatomic.h>

#include "core/io/named.h"
#include "weft/io.h"

/* A mapped file, shared by its tensors' arrays and the weft_safetensors that opened it. */
typedef struct weft__mapping {
    atomic_int refs;
    void *address;
    size_t size;
    char *path;
} weft__mapping;

weft_status weft__mapping_open(const char *path, weft__mapping **out);
void weft__mapping_ref(weft__mapping *mapping);
/* Takes void * because an array's release calls it. */
void weft__mapping_unref(void *mapping);
/* The context of an array that views `bytes` of the mapping; NULL when there is no memory. Its
 * release gives the range's pages back to the system: they are read again if anybody needs them. So
 * weights that are quantized or moved to a device while a file is read do not stay resident. */
void *weft__mapping_range(weft__mapping *mapping, void *data, size_t bytes);
void weft__mapping_range_release(void *range);

typedef struct weft__stored_tensor {
    weft_safetensors_entry entry; /* the name is this tensor's own, the path its mapping's */
    weft__mapping *mapping;       /* one of the file's */
    size_t begin, bytes;          /* in the mapping */
} weft__stored_tensor;

typedef struct weft__stored_text {
    char *key, *value;
} weft__stored_text;

struct weft_safetensors {
    int n_tensors, n_metadata, n_mappings;
    int tensor_capacity, metadata_capacity;
    weft__stored_tensor *tensors; /* sorted by name once opened */
    weft__stored_text *metadata;
    weft__mapping **mappings;
};

/* Maps `path`, checks its header and adds its tensors, not yet sorted, to `file`. */
weft_status weft__safetensors_add(weft_safetensors *file, const char *path);
/* Sorts the tensors by name; WEFT_INVALID when two shards have the same one. */
weft_status weft__safetensors_sort(weft_safetensors *file);

/* "F32" and so on: the name of a dtype in the format, and back (false: not Weft's). */
const char *weft__safetensors_dtype_name(weft_dtype dtype);
bool weft__safetensors_dtype(const char *name, weft_dtype *out);

/* Room for one more element of an array of `n` in a vector of *capacity; false: no memory. */
bool weft__grow(void *vector, int n, int *capacity, size_t element_size);

/* weft_safetensors_save, telling of it. */
weft_status weft__safetensors_save(const char *path, const char *const *names,
                                   weft_array *const *arrays, int n, const weft_metadata *metadata,
                                   int n_metadata, weft__written *written);

#endif
