/* weft/export.h -- traced functions in files: written by one program, called by another.
 *
 *     weft_array *example[] = {x};
 *     status = weft_export("f.safetensors", f, context, example, 1);
 *     ...
 *     status = weft_import("f.safetensors", &imported);
 *     weft_imported_call(imported, NULL, in, 1, out, 1);
 *
 * The file is a safetensors file. Its tensors are the arrays that the functions capture, each once;
 * encoded arrays are stored as bytes. The graphs are JSON in the metadata, under "weft.functions":
 * ops by name, parameters by field, and the shapes, dtypes and encodings of every node. Other
 * metadata belongs to the program.
 *
 * Checkpoints, barriers and custom rules are not stored, only what they compute; compiled functions
 * inside are inlined. stop_gradient is stored, so gradients through an imported function are those
 * of the original. Ops that a program registers must also be registered where the file is read.
 *
 * A function has no elements to read while it is traced: reading or evaluating an array that
 * depends on an argument fails the export with WEFT_INVALID, even if the function ignores the
 * error.
 */
#ifndef WEFT_EXPORT_H
#define WEFT_EXPORT_H

#include "weft/transforms.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the format that this library writes; it reads this one and older ones. */
enum { WEFT_EXPORT_VERSION = 5 };

/* Traces fn at arrays of the shapes and dtypes of `in` and writes it to a file as its only
 * function, "main". The trace determines the number of results. WEFT_UNSUPPORTED, with the op, for
 * parameters that are addresses; WEFT_INVALID for a failed result; WEFT_IO when the file cannot be
 * written. The file is complete or absent. */
WEFT_NODISCARD WEFT_API weft_status weft_export(const char *path, weft_function *fn, void *context,
                                                weft_array *const *in, int n_in);

/* Writes several functions, or one at several shapes, to one file, which has shared arrays once.
 * The exporter is freed with weft_exporter_free. Creating it fails only when out of memory. */
typedef struct weft_exporter weft_exporter;
WEFT_NODISCARD WEFT_API weft_status weft_exporter_new(weft_exporter **out);
WEFT_API void weft_exporter_free(weft_exporter *exporter); /* NULL is accepted */
/* Traces fn as weft_export does and adds it under a name. WEFT_INVALID for a second function of the
 * same name with arguments of the same shapes and dtypes. */
WEFT_NODISCARD WEFT_API weft_status weft_exporter_add(weft_exporter *exporter, const char *name,
                                                      weft_function *fn, void *context,
                                                      weft_array *const *in, int n_in);
/* The same for any lengths of some axes: bit d of dynamic[i] marks axis d of in[i]. Dynamic axes
 * that have the same length in `in` must have the same length in every call. The function is traced
 * at many lengths. WEFT_UNSUPPORTED for anything that depends on lengths and cannot be written:
 *   - a length that the function reads (weft_dim, weft_shape, weft_size): use -1 in weft_reshape,
 *     negative axes and weft_number_of_elements instead;
 *   - the choice of ops, or a constant;
 *   - an op's parameter, unless it is the shape of the result (of a broadcast or a reshape) and its
 *     elements are lengths of dynamic axes or follow from the number of elements.
 * Lengths of 0 or 1 at which the function computes something else, and lengths above 2^33, are
 * excluded: calls with them find no function. The graph is not simplified. */
WEFT_NODISCARD WEFT_API weft_status weft_exporter_add_shapeless(weft_exporter *exporter,
                                                                const char *name, weft_function *fn,
                                                                void *context,
                                                                weft_array *const *in, int n_in,
                                                                const uint32_t *dynamic);

/* Adds an entry to the file's metadata, or replaces it. Both strings are copied. WEFT_INVALID for a
 * key that begins with "weft.". */
WEFT_NODISCARD WEFT_API weft_status weft_exporter_set_metadata(weft_exporter *exporter,
                                                               const char *key, const char *value)
    WEFT_NONNULL(1);

/* Evaluates the captured arrays and writes the file, complete or not at all; WEFT_IO if that fails.
 */
WEFT_NODISCARD WEFT_API weft_status weft_exporter_save(weft_exporter *exporter, const char *path)
    WEFT_NONNULL(1);

/* Reads the functions of a file into *out; free it with weft_imported_free. Versions, ops, fields
 * of parameters and the shape and dtype of every node are checked: WEFT_INVALID or WEFT_UNSUPPORTED
 * with a message that names file, function and node. WEFT_IO when the file cannot be read. Captured
 * arrays are moved to the calling thread's default device. */
typedef struct weft_imported weft_imported;
WEFT_NODISCARD WEFT_API weft_status weft_import(const char *path, weft_imported **out)
    WEFT_NONNULL(2);
WEFT_API void weft_imported_free(weft_imported *imported); /* NULL is accepted */

/* The number of functions in the file. */
WEFT_API int weft_imported_count(const weft_imported *imported) WEFT_NONNULL(1);
/* The signature of function i, such as "main(float32 (2, 3), int32 (4)) -> (float32 (2, 4))", or
 * with letters for dynamic axes "main(float32 (n, 3)) -> (float32 of 2 axes)". It belongs to
 * `imported`; NULL: there is no function i. */
WEFT_API const char *weft_imported_signature(const weft_imported *imported, int i) WEFT_NONNULL(1);

/* An entry of the file's metadata, valid while `imported` lives; NULL: there is none. */
WEFT_API const char *weft_imported_metadata(const weft_imported *imported, const char *key)
    WEFT_NONNULL(1);

/* Calls the first function of that name (NULL: of any name) whose arguments have the shapes and
 * dtypes of `in`. Sets out[0 .. n) to its n results and the entries up to `room` after them to
 * NULL, and returns n. The results are lazy arrays of the innermost scope, so transforms go through
 * them. If no function fits, or `room` is less than n, all of out are error arrays. */
WEFT_API int weft_imported_call(const weft_imported *imported, const char *name,
                                weft_array *const *in, int n_in, weft_array **out, int room)
    WEFT_NONNULL(1);

/* ---- The graph, shown instead of written ---------------------------------------------------- */

/* An array of the graph; valid during the call of the visitor. */
typedef struct weft_export_array {
    const char *name; /* as in a file: "a0" an argument, "c0" a constant, "n0" a node's result,
                       * "n0.1" one of several */
    weft_dtype dtype;
    weft_dims shape;
    const char *encoding; /* NULL: none */
    weft_array *constant; /* the captured array; NULL: it is not one */
} weft_export_array;

/* In this order: */
typedef enum weft_export_kind {
    WEFT_EXPORT_ARGUMENTS, /* as outputs */
    WEFT_EXPORT_CONSTANTS, /* as outputs: arrays that the function captured */
    WEFT_EXPORT_NODE,      /* each after what it needs */
    WEFT_EXPORT_RESULTS    /* as inputs */
} weft_export_kind;

/* Valid during the call of the visitor. */
typedef struct weft_export_part {
    weft_export_kind kind;
    const char *op;     /* of a node */
    const char *params; /* of a node: a JSON object; NULL when one is an address */
    const weft_export_array *inputs, *outputs;
    int n_inputs, n_outputs;
} weft_export_part;

/* false stops. */
typedef bool weft_export_visitor(void *context, const weft_export_part *part);

/* Traces fn as weft_export does and calls `visit` for every part of its graph, including ops that a
 * file cannot hold. WEFT_CANCELLED when the visitor returns false. */
WEFT_NODISCARD WEFT_API weft_status weft_export_visit(weft_function *fn, void *context,
                                                      weft_array *const *in, int n_in,
                                                      weft_export_visitor *visit,
                                                      void *visit_context);

#ifdef __cplusplus
}
#endif
#endif
