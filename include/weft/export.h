/* weft/export.h -- traced functions in files: written by one program, called by another.
 *
 *     weft_array *example[] = {x};
 *     weft_export("f.safetensors", f, context, example, 1, 1);
 *     ...
 *     weft_import("f.safetensors", &imported);
 *     weft_imported_call(imported, NULL, in, 1, out, 1);
 *
 * A file is a safetensors file: the arrays that the functions captured are its tensors, each once
 * (encoded ones as the bytes they are stored in), and the graphs are JSON in its metadata under
 * "weft.functions": ops by name, parameters by field, every node's shapes, dtypes and encodings.
 * Checkpoints, barriers and custom rules are not in the file, only what they compute. Ops that a
 * program registers must be registered where the file is read.
 */
#ifndef WEFT_EXPORT_H
#define WEFT_EXPORT_H

#include "weft/transforms.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the format that this library writes; it reads this one and older ones. */
enum { WEFT_EXPORT_VERSION = 2 };

/* Traces fn at arrays of the shapes and dtypes of `in` and writes it as the one function "main".
 * WEFT_UNSUPPORTED names an op whose parameters are addresses, which no file can hold. Complete or
 * not at all. */
WEFT_API weft_status weft_export(const char *path, weft_function *fn, void *context,
                                 weft_array *const *in, int n_in, int n_out);

/* Several functions, or one at several shapes, in one file that has their common arrays once. */
typedef struct weft_exporter weft_exporter;
WEFT_API weft_status weft_exporter_new(weft_exporter **out);
WEFT_API void weft_exporter_free(weft_exporter *exporter); /* NULL is accepted */
/* Two of one name must differ in their arguments' shapes or dtypes. */
WEFT_API weft_status weft_exporter_add(weft_exporter *exporter, const char *name, weft_function *fn,
                                       void *context, weft_array *const *in, int n_in, int n_out);
WEFT_API weft_status weft_exporter_save(weft_exporter *exporter, const char *path);

/* The functions of a file, checked: version, ops, fields of parameters, and that every node still
 * has the shape and dtype that it had. The message of a failure names file, function and node.
 * Captured arrays are moved to the calling thread's default device. */
typedef struct weft_imported weft_imported;
WEFT_API weft_status weft_import(const char *path, weft_imported **out);
WEFT_API void weft_imported_free(weft_imported *imported); /* NULL is accepted */

WEFT_API int weft_imported_count(const weft_imported *imported);
/* "main(float32 (2, 3), int32 (4)) -> (float32 (2, 4))"; NULL beyond the last. */
WEFT_API const char *weft_imported_signature(const weft_imported *imported, int i);

/* The graph of the function of that name (NULL: any) whose arguments have the shapes and dtypes of
 * `in`: temporaries that are as lazy as those of any op, so transforms go through them. Error
 * arrays when there is none, with those that there are. */
WEFT_API void weft_imported_call(const weft_imported *imported, const char *name,
                                 weft_array *const *in, int n_in, weft_array **out, int n_out);

#ifdef __cplusplus
}
#endif
#endif
