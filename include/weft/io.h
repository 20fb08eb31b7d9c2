/* weft/io.h -- files: safetensors checkpoints, and writing a file whole or not at all.
 *
 * A safetensors file is opened by memory map: its tensors are views of the file, so opening a model
 * reads nothing but the header, and pages come in as they are used. The header is checked
 * completely before anything is handed out.
 */
#ifndef WEFT_IO_H
#define WEFT_IO_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Reading safetensors -------------------------------------------------------------------- */

/* One file, or all the shards of a checkpoint, with their tensors sorted by name. */
typedef struct weft_safetensors weft_safetensors;

/* Opens a file. The message of a failure names the file, the tensor, what was expected and what was
 * found: truncated, overlapping, out of range, with gaps, a size that is not the shape's, a name
 * twice, bad JSON, a dtype that Weft does not have (all of them are listed). */
WEFT_API weft_status weft_safetensors_open(const char *path, weft_safetensors **out);

/* Opens the checkpoint in a folder: the files that model.safetensors.index.json names (a missing
 * one is an error that names it), or else every *.safetensors file. A path that is a file is opened
 * as weft_safetensors_open does. */
WEFT_API weft_status weft_safetensors_open_folder(const char *path, weft_safetensors **out);

/* Closes the file. Arrays taken from it stay valid. NULL is accepted. */
WEFT_API void weft_safetensors_close(weft_safetensors *file);

/* What the header says of a tensor. Belongs to the file. */
typedef struct weft_safetensors_entry {
    const char *name;
    const char *path; /* the file it is in */
    weft_dtype dtype;
    weft_dims shape;
} weft_safetensors_entry;

/* Tensors by index, in the order of their names; weft_safetensors_find is -1 when absent. */
WEFT_API int weft_safetensors_count(const weft_safetensors *file);
WEFT_API const weft_safetensors_entry *weft_safetensors_at(const weft_safetensors *file, int i);
WEFT_API int weft_safetensors_find(const weft_safetensors *file, const char *name);
WEFT_API const char *weft_safetensors_name(const weft_safetensors *file, int i);

/* The tensor of that name as a temporary that views the file (or a copy of it, when the file puts
 * it at an address that its dtype does not allow). An error array that names file and tensor when
 * it is absent. */
WEFT_API weft_array *weft_safetensors_get(const weft_safetensors *file, const char *name);
WEFT_API weft_array *weft_safetensors_get_at(const weft_safetensors *file, int i);

/* A value of the file's __metadata__ (the first shard's that has the key); NULL when absent. */
WEFT_API const char *weft_safetensors_metadata(const weft_safetensors *file, const char *key);

/* ---- Writing -------------------------------------------------------------------------------- */

typedef struct weft_metadata {
    const char *key, *value;
} weft_metadata;

/* Evaluates n arrays of any dtype and device and writes them under their names, sorted by name,
 * with "format": "pt" and then the given metadata (NULL: none). The file appears complete or not at
 * all: it is written beside `path`, synced and renamed, and a failure (a full disk, say) removes
 * it. */
WEFT_API weft_status weft_safetensors_save(const char *path, const char *const *names,
                                           weft_array *const *arrays, int n,
                                           const weft_metadata *metadata, int n_metadata);

/* Writes `size` bytes to `path`, complete or not at all, in the same way. */
WEFT_API weft_status weft_file_write(const char *path, const void *data, size_t size);

/* Reads a whole file into new memory with a 0 byte after it; free with weft_free. `size` may be
 * NULL. A file larger than `limit` bytes (0: 256 MiB) is refused. */
WEFT_API weft_status weft_file_read(const char *path, size_t limit, char **data, size_t *size);

/* Makes a folder and those above it; one that is there is fine. */
WEFT_API weft_status weft_folder_make(const char *path);

#ifdef __cplusplus
}
#endif
#endif
