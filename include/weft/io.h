/* weft/io.h -- files: safetensors checkpoints, NumPy's npy and npz, HDF5, and writing a file whole
 * or not at all.
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

/* Opens a file; the caller closes it with weft_safetensors_close. WEFT_IO when it cannot be read;
 * WEFT_INVALID when it is truncated, has overlapping tensors, gaps, duplicate names, malformed JSON
 * or a size that does not match a shape; WEFT_UNSUPPORTED for dtypes that Weft does not have. The
 * message names file and tensor, what was expected and what was found. */
WEFT_NODISCARD WEFT_API weft_status weft_safetensors_open(const char *path, weft_safetensors **out)
    WEFT_NONNULL(2);

/* Opens the checkpoint in a folder: the files that model.safetensors.index.json names (a missing
 * one is an error that names it), or else every *.safetensors file. A path that is a file is opened
 * as weft_safetensors_open does. */
WEFT_NODISCARD WEFT_API weft_status weft_safetensors_open_folder(const char *path,
                                                                 weft_safetensors **out)
    WEFT_NONNULL(2);

/* Closes the file. Arrays taken from it stay valid. NULL is accepted. */
WEFT_API void weft_safetensors_close(weft_safetensors *file);

/* What the header says of a tensor. Belongs to the file. */
typedef struct weft_safetensors_entry {
    const char *name;
    const char *path; /* the file it is in */
    weft_dtype dtype;
    weft_dims shape;
    /* "F8_E4M3" or "F8_E5M2": 8-bit floats, read as uint8 arrays, as in MLX; weft_from_fp8 and
     * weft_from_fp8_e5m2 (weft/quantize.h) convert them. NULL: another dtype. */
    const char *float8;
} weft_safetensors_entry;

/* Tensors by index, in the order of their names; weft_safetensors_find is -1 when absent. */
WEFT_API int weft_safetensors_count(const weft_safetensors *file) WEFT_NONNULL(1);
WEFT_API const weft_safetensors_entry *weft_safetensors_at(const weft_safetensors *file, int i)
    WEFT_NONNULL(1);
WEFT_API int weft_safetensors_find(const weft_safetensors *file, const char *name) WEFT_NONNULL(1);
WEFT_API const char *weft_safetensors_name(const weft_safetensors *file, int i) WEFT_NONNULL(1);

/* A tensor, of the shape and dtype of its entry, as an array of the innermost scope that views the
 * file; a tensor that is misaligned for its dtype is copied. An error array that names file and
 * tensor if it is absent. */
WEFT_API weft_array *weft_safetensors_get(const weft_safetensors *file, const char *name)
    WEFT_NONNULL(1);
WEFT_API weft_array *weft_safetensors_get_at(const weft_safetensors *file, int i) WEFT_NONNULL(1);

/* A value of the file's __metadata__ (of the first shard with the key), owned by the file, or NULL.
 */
WEFT_API const char *weft_safetensors_metadata(const weft_safetensors *file, const char *key)
    WEFT_NONNULL(1);

/* ---- Writing -------------------------------------------------------------------------------- */

typedef struct weft_metadata {
    const char *key, *value;
} weft_metadata;

/* Evaluates n arrays of any dtype and device and writes them under their names, sorted by name,
 * with "format": "pt" and the given metadata (may be NULL). The file is complete or absent: it is
 * written under a temporary name, synced and renamed. WEFT_IO if that fails. */
WEFT_NODISCARD WEFT_API weft_status weft_safetensors_save(const char *path,
                                                          const char *const *names,
                                                          weft_array *const *arrays, int n,
                                                          const weft_metadata *metadata,
                                                          int n_metadata);

/* Callbacks while arrays are written. All zero: none. */
typedef struct weft_save_progress {
    void (*report)(void *context, int64_t bytes, int64_t total); /* bytes so far and in total */
    void *context;
    /* Called with the index of the first value, in row-major order, that is NaN or infinite in an
     * array of float32, float16 or bfloat16. A status other than WEFT_OK ends saving. */
    weft_status (*not_finite)(void *context, const char *name, int64_t index);
} weft_save_progress;

typedef struct weft_save_folder_options {
    int64_t shard_bytes; /* the most in a file, unless one array is larger; 0: 5,000,000,000 */
    const weft_metadata *metadata;
    int n_metadata;
    weft_save_progress progress;
} weft_save_folder_options;

/* The same into a folder, which is created if necessary: model.safetensors or, if that would be
 * larger than shard_bytes, model-00001-of-0000N.safetensors and so on with
 * model.safetensors.index.json. Each file is complete or absent. After a failure earlier files stay
 * in a folder that existed before; a folder that was created is deleted. *files is set to the
 * number of tensor files; `files` and `options` may be NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_safetensors_save_folder(
    const char *folder, const char *const *names, weft_array *const *arrays, int n,
    const weft_save_folder_options *options, int *files);

/* ---- NumPy's files -------------------------------------------------------------------------- */

/* Arrays by name, as a file has them. The arrays are temporaries of the scope that is open when the
 * file is read; the lists are freed with weft_named_arrays_free. */
typedef struct weft_named_arrays {
    int n;
    char **names;
    weft_array **arrays;
} weft_named_arrays;
WEFT_API void weft_named_arrays_free(weft_named_arrays *arrays) WEFT_NONNULL(1);
/* The array of that name, with its shape and dtype in the file, owned by the scope, or NULL. */
WEFT_API weft_array *weft_named_arrays_find(const weft_named_arrays *arrays, const char *name)
    WEFT_NONNULL(1);

/* Sets *out to the array of an npy file (versions 1 to 3), an array of the innermost scope that
 * views the contents read, in Fortran order too; big-endian elements are copied. NumPy's V2 is read
 * as bfloat16, which ml_dtypes saves so. WEFT_IO, WEFT_INVALID for a malformed file,
 * WEFT_UNSUPPORTED for types that Weft does not have, such as objects. */
WEFT_NODISCARD WEFT_API weft_status weft_npy_load(const char *path, weft_array **out)
    WEFT_NONNULL(2);
/* Evaluates `a` and writes it; WEFT_IO if that fails. The file is complete or absent. */
WEFT_NODISCARD WEFT_API weft_status weft_npy_save(const char *path, weft_array *a);

/* All arrays of an npz archive, their names without ".npy". WEFT_UNSUPPORTED in a build without
 * libzip. */
WEFT_NODISCARD WEFT_API weft_status weft_npz_load(const char *path, weft_named_arrays *out)
    WEFT_NONNULL(2);
/* Evaluates n arrays and writes them under their names, compressed or not. WEFT_IO when the file
 * cannot be written, WEFT_UNSUPPORTED in a build without libzip. */
WEFT_NODISCARD WEFT_API weft_status weft_npz_save(const char *path, const char *const *names,
                                                  weft_array *const *arrays, int n, bool compress);

/* ---- HDF5: WEFT_UNSUPPORTED in a build without it ------------------------------------------- */

/* Reads all datasets of the file, also in groups ("group/name"), as h5py writes them: bool as an
 * enum, complex64 as a compound of r and i, 16-bit floats by their fields. WEFT_IO, WEFT_INVALID
 * for a malformed file, WEFT_UNSUPPORTED, with the name, for a dataset of another type. */
WEFT_NODISCARD WEFT_API weft_status weft_hdf5_load(const char *path, weft_named_arrays *out)
    WEFT_NONNULL(2);
/* Evaluates n arrays and writes each as a dataset, in groups where a name has slashes. WEFT_IO if
 * that fails. The file is complete or absent. */
WEFT_NODISCARD WEFT_API weft_status weft_hdf5_save(const char *path, const char *const *names,
                                                   weft_array *const *arrays, int n);

/* ---- Any file ------------------------------------------------------------------------------- */

/* Writes `size` bytes to `path`; the file is complete or absent. WEFT_IO if it cannot be written
 * and if `path` is a folder, FIFO, device or socket. */
WEFT_NODISCARD WEFT_API weft_status weft_file_write(const char *path, const void *data,
                                                    size_t size);

/* Reads a whole file into new memory, followed by a 0 byte; free it with weft_free. `size` may be
 * NULL. WEFT_INVALID for a file larger than `limit` bytes (0: 256 MiB). WEFT_IO for a file that is
 * truncated meanwhile and, without waiting, for a FIFO, device or socket, except under the name of
 * an open descriptor (/dev/stdin, /dev/fd/N, /proc/self/fd/N), which is read to its end. */
WEFT_NODISCARD WEFT_API weft_status weft_file_read(const char *path, size_t limit, char **data,
                                                   size_t *size) WEFT_NONNULL(3);

/* The printable path of the file that Weft has mapped at `address`, or NULL; it belongs to the
 * mapping. Files of weights are mapped: reading one that another program has truncated causes
 * SIGBUS. A handler of that signal may call this with si_addr, to name the file before it ends the
 * process. */
WEFT_API const char *weft_mapped_file_at(const void *address);

/* Creates a folder and its parents; an existing folder is not an error. WEFT_IO if that fails. */
WEFT_NODISCARD WEFT_API weft_status weft_folder_make(const char *path);

#ifdef __cplusplus
}
#endif
#endif
