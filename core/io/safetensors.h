/* core/io/safetensors.h -- functions shared by reading, finding and writing safetensors files. */
#ifndef WEFT_CORE_IO_SAFETENSORS_H
#define WEFT_CORE_IO_SAFETENSORS_H

#include <stdatomic.h>

#include "core/io/named.h"
#include "weft/io.h"

/* A file in memory, shared by the arrays of its tensors and by the weft_safetensors that opened it.
 */
typedef struct weft__mapping {
    atomic_int refs;
    void *address;
    size_t size;
    char *path;
    char *printable; /* the path, for weft_mapped_file_at */
    char *contents;  /* `address` of a file that was read; NULL: it is mapped */
} weft__mapping;

/* Maps a file of weights; reads any other file, which the user may change while it is used. */
weft_status weft__mapping_open(const char *path, weft__mapping **out);
weft_status weft__mapping_read(const char *path, weft__mapping **out);
void weft__mapping_ref(weft__mapping *mapping);
/* Takes void *, since it is the release callback of arrays. */
void weft__mapping_unref(void *mapping);
/* The release context of an array that views `bytes` of the mapping; NULL when out of memory.
 * Releasing it returns the range's pages to the system, which reads them again if needed. So
 * weights that are quantized or moved to a device while loading do not stay resident. */
void *weft__mapping_range(weft__mapping *mapping, void *data, size_t bytes);
void weft__mapping_range_release(void *range);
/* Whether an array was made from a range of a mapping. */
bool weft__mapping_is_viewed(const weft_array *a);
/* Returns the pages of such an array's range to the system. The array remains valid. */
void weft__mapping_evict(const weft_array *a);

typedef struct weft__stored_tensor {
    weft_safetensors_entry entry; /* the tensor owns the name; the path belongs to the mapping */
    weft__mapping *mapping;       /* one of the file's mappings */
    size_t begin, bytes;          /* range within the mapping */
} weft__stored_tensor;

typedef struct weft__stored_text {
    char *key, *value;
} weft__stored_text;

struct weft_safetensors {
    int n_tensors, n_metadata, n_mappings;
    weft__stored_tensor *tensors; /* sorted by name when the file is open */
    weft__stored_text *metadata;
    weft__mapping **mappings;
};

/* Adds the tensors of a mapped file or of one that has been read, after checking its header,
 * unsorted. */
weft_status weft__safetensors_add(weft_safetensors *file, const char *path, bool mapped);
/* weft_safetensors_open for data: the file is read, not mapped. */
weft_status weft__safetensors_read(const char *path, weft_safetensors **out);
/* Sorts the tensors by name. WEFT_INVALID when two shards contain the same name. */
weft_status weft__safetensors_sort(weft_safetensors *file);

/* Renames the tensors of an open file and sorts them again: `rename` writes the new name and
 * returns false to remove the tensor. WEFT_INVALID when two get the same name. */
typedef bool weft__tensor_rename(const char *name, char *out, size_t size);
weft_status weft__safetensors_rename(weft_safetensors *file, weft__tensor_rename *rename);

/* The format's name of a dtype, such as "F32", and back (false: not a dtype of Weft). */
const char *weft__safetensors_dtype_name(weft_dtype dtype);
bool weft__safetensors_dtype(const char *name, weft_dtype *out);

/* weft_safetensors_save with progress reports. */
weft_status weft__safetensors_save(const char *path, const char *const *names,
                                   weft_array *const *arrays, int n, const weft_metadata *metadata,
                                   int n_metadata, weft__written *written);

#endif
