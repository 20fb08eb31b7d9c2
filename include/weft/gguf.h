/* weft/gguf.h -- GGUF files, versions 2 and 3: tensors in place, and typed metadata.
 *
 * A file is opened by memory map: its tensors are views of it, quantized ones as encoded arrays
 * (quantize.h) whose blocks stay where they are, so nothing is expanded. Everything that the file
 * says of sizes, types and places is checked before anything is handed out.
 *
 * Tensors of up to 8 dims are read, such as MLX writes; written ones have at most 4.
 *
 * Tensor types: F32, F16, BF16, F64, I8, I16, I32, I64 are dense; Q4_0, Q4_1, Q5_0, Q5_1, Q8_0,
 * Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS and MXFP4 are float32 arrays whose encodings are
 * "q4_0" and so on, and "gguf_mxfp4". Others are refused. weft_split_encoded gives Q4_0, Q4_1 and
 * Q8_0 as MLX's three tensors.
 */
#ifndef WEFT_GGUF_H
#define WEFT_GGUF_H

#include "weft/io.h"
#include "weft/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_gguf weft_gguf;

/* ---- Metadata ------------------------------------------------------------------------------- */

/* The types of values, by the format's numbers. */
typedef enum weft_gguf_type {
    WEFT_GGUF_UINT8 = 0,
    WEFT_GGUF_INT8,
    WEFT_GGUF_UINT16,
    WEFT_GGUF_INT16,
    WEFT_GGUF_UINT32,
    WEFT_GGUF_INT32,
    WEFT_GGUF_FLOAT32,
    WEFT_GGUF_BOOL,
    WEFT_GGUF_STRING,
    WEFT_GGUF_ARRAY, /* of a value, never of its elements: arrays of arrays are refused */
    WEFT_GGUF_UINT64,
    WEFT_GGUF_INT64,
    WEFT_GGUF_FLOAT64
} weft_gguf_type;

/* n bytes of UTF-8; not closed by a 0. */
typedef struct weft_gguf_string {
    const char *at;
    size_t n;
} weft_gguf_string;

/* A value, or an array of them. */
typedef struct weft_gguf_value {
    const char *key;
    weft_gguf_type type; /* of the value, or of the array's elements */
    bool is_array;
    int64_t count;                   /* 1 for a value that is no array */
    const void *data;                /* numbers and bools (a byte each), perhaps not aligned */
    const weft_gguf_string *strings; /* strings, when the type is that */
} weft_gguf_value;

/* Element i as an integer, as a number, as a string; false when it is not one, does not fit, or i
 * is out of range. Bools are integers too. */
WEFT_API bool weft_gguf_value_int(const weft_gguf_value *value, int64_t i, int64_t *out)
    WEFT_NONNULL(3);
WEFT_API bool weft_gguf_value_number(const weft_gguf_value *value, int64_t i, double *out)
    WEFT_NONNULL(3);
WEFT_API bool weft_gguf_value_string(const weft_gguf_value *value, int64_t i, weft_gguf_string *out)
    WEFT_NONNULL(3);

/* The values in the order of the file, owned by it; weft_gguf_value_find returns NULL for an
 * unknown key. */
WEFT_API int weft_gguf_value_count(const weft_gguf *file) WEFT_NONNULL(1);
WEFT_API const weft_gguf_value *weft_gguf_value_at(const weft_gguf *file, int i) WEFT_NONNULL(1);
WEFT_API const weft_gguf_value *weft_gguf_value_find(const weft_gguf *file, const char *key)
    WEFT_NONNULL(1);

/* ---- Reading -------------------------------------------------------------------------------- */

/* Opens a file; the caller closes it with weft_gguf_close. WEFT_IO when it cannot be read,
 * WEFT_INVALID when it is malformed, WEFT_UNSUPPORTED for versions, tensor types and big-endian
 * files that Weft does not read. The message names file, tensor or key, what was expected and what
 * was found. */
WEFT_NODISCARD WEFT_API weft_status weft_gguf_open(const char *path, weft_gguf **out)
    WEFT_NONNULL(2);

/* Closes the file. Arrays taken from it stay valid. NULL is accepted. */
WEFT_API void weft_gguf_close(weft_gguf *file);

/* The format version, and the path that the file was opened with, owned by it. */
WEFT_API int weft_gguf_version(const weft_gguf *file) WEFT_NONNULL(1);
WEFT_API const char *weft_gguf_path(const weft_gguf *file) WEFT_NONNULL(1);

/* The description of a tensor, owned by the file. */
typedef struct weft_gguf_entry {
    const char *name;
    const char *type; /* "Q4_K" */
    weft_dtype dtype;
    const weft_encoding *encoding; /* NULL: dense */
    weft_dims shape;               /* row-major: the last is the file's first */
    int64_t bytes;
} weft_gguf_entry;

/* Tensors by index, in the order of their names; weft_gguf_find is -1 when absent. */
WEFT_API int weft_gguf_count(const weft_gguf *file) WEFT_NONNULL(1);
WEFT_API const weft_gguf_entry *weft_gguf_at(const weft_gguf *file, int i) WEFT_NONNULL(1);
WEFT_API int weft_gguf_find(const weft_gguf *file, const char *name) WEFT_NONNULL(1);

/* The tensor, of the shape and dtype of its entry, as an array of the innermost scope that views
 * the file. An error array that names file and tensor if it is absent. */
WEFT_API weft_array *weft_gguf_get(const weft_gguf *file, const char *name) WEFT_NONNULL(1);
WEFT_API weft_array *weft_gguf_get_at(const weft_gguf *file, int i) WEFT_NONNULL(1);

/* The address of the bytes of tensor i in the mapped file, valid while the file is open, or NULL
 * for an i out of range. */
WEFT_API const void *weft_gguf_bytes(const weft_gguf *file, int i) WEFT_NONNULL(1);

/* Rows of tensor i from `first` on, in another shape. An encoded tensor gets the float dtype
 * `dtype`; a dense one keeps its own. */
WEFT_API weft_array *weft_gguf_get_rows(const weft_gguf *file, int i, int64_t first,
                                        weft_dims shape, weft_dtype dtype) WEFT_NONNULL(1);

/* All tensors, as weft_npz_load gives them. `metadata` may be NULL; else it is the opened file, to
 * be closed by the caller. */
WEFT_NODISCARD WEFT_API weft_status weft_gguf_load(const char *path, weft_named_arrays *out,
                                                   weft_gguf **metadata) WEFT_NONNULL(2);

/* ---- Writing -------------------------------------------------------------------------------- */

/* Evaluates n arrays and writes them to a file of version 3 in the given order, with the metadata;
 * general.alignment, a UINT32, is 32 if absent. Encoded arrays keep their blocks. Names have at
 * most 63 bytes and shapes at most 4 dims. WEFT_UNSUPPORTED for a dtype or an encoding that GGUF
 * does not have, WEFT_INVALID for names, shapes and metadata that it cannot express, WEFT_IO when
 * the file cannot be written. The file is complete or absent. */
WEFT_NODISCARD WEFT_API weft_status weft_gguf_save(const char *path, const char *const *names,
                                                   weft_array *const *arrays, int n,
                                                   const weft_gguf_value *metadata, int n_metadata);

/* The encoding of a tensor type by its name ("Q4_K"), and the name of an array's type, both owned
 * by the library; NULL for types that GGUF does not have. */
WEFT_API const weft_encoding *weft_gguf_encoding(const char *type);
WEFT_API const char *weft_gguf_type_of(const weft_array *a);

#ifdef __cplusplus
}
#endif
#endif
