/* weft/export.h -- traced functions in files: written by one program, called by another.
 *
 *     weft_array *example[] = {x};
 *     status = weft_export("f.safetensors", f, context, example, 1);
 *     ...
 *     status = weft_import("f.safetensors", &imported);
 *     weft_imported_call(imported, NULL, in, 1, out, 1);
 *
 * A file is a safetensors file: the arrays that the functions captured are its tensors, each once
 * (encoded ones as the bytes they are stored in), and the graphs are JSON in its metadata under
 * "weft.functions": ops by name, parameters by field, every node's shapes, dtypes and encodings.
 * Checkpoints, barriers and custom rules are not in the file, only what they compute. Compiled
 * functions inside are called as functions. Ops that a program registers must be registered where
 * the file is read. Further metadata of the file is the program's own.
 */
#ifndef WEFT_EXPORT_H
#define WEFT_EXPORT_H

#include "weft/transforms.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the format that this library writes; it reads this one and older ones. */
enum { WEFT_EXPORT_VERSION = 4 };

/* Traces fn at arrays of the shapes and dtypes of `in` and writes it as the one function "main".
 * WEFT_UNSUPPORTED names an op whose parameters are addresses, which no file can hold. Complete or
 * not at all. */
WEFT_NODISCARD WEFT_API weft_status weft_export(const char *path, weft_function *fn, void *context,
                                                weft_array *const *in, int n_in);

/* Several functions, or one at several shapes, in one file that has their common arrays once. */
typedef struct weft_exporter weft_exporter;
WEFT_NODISCARD WEFT_API weft_status weft_exporter_new(weft_exporter **out);
WEFT_API void weft_exporter_free(weft_exporter *exporter); /* NULL is accepted */
/* Two of one name must differ in their arguments' shapes or dtypes. */
WEFT_NODISCARD WEFT_API weft_status weft_exporter_add(weft_exporter *exporter, const char *name,
                                                      weft_function *fn, void *context,
                                                      weft_array *const *in, int n_in);
/* The same for any lengths of some axes: bit d of dynamic[i] is axis d of in[i]. Dynamic axes that
 * have the same length in the example have the same length in every call. The function is traced at
 * many lengths; WEFT_UNSUPPORTED names what depends on them and cannot be written:
 *   - a length that the function reads (weft_dim, weft_shape, weft_size), since a program may do
 *     anything with it: use -1 in weft_reshape, negative axes, weft_number_of_elements;
 *   - which ops are applied, or a constant;
 *   - an op's parameter, unless it is the shape of the result (of a broadcast, a reshape) and its
 *     elements are lengths of dynamic axes, or follow from the number of elements.
 * A length of 0 or 1 at which the function computes something else is excluded: a call with it
 * finds no function, as does one longer than 2^33. Nothing is simplified. */
WEFT_NODISCARD WEFT_API weft_status weft_exporter_add_shapeless(weft_exporter *exporter,
                                                                const char *name, weft_function *fn,
                                                                void *context,
                                                                weft_array *const *in, int n_in,
                                                                const uint32_t *dynamic);

/* Adds an entry to the file's metadata, or replaces it. Both strings are copied. */
WEFT_NODISCARD WEFT_API weft_status weft_exporter_set_metadata(weft_exporter *exporter,
                                                               const char *key, const char *value)
    WEFT_NONNULL(1);

WEFT_NODISCARD WEFT_API weft_status weft_exporter_save(weft_exporter *exporter, const char *path)
    WEFT_NONNULL(1);

/* The functions of a file, checked: version, ops, fields of parameters, and that every node still
 * has the shape and dtype that it had. The message of a failure names file, function and node.
 * Captured arrays are moved to the calling thread's default device. */
typedef struct weft_imported weft_imported;
WEFT_NODISCARD WEFT_API weft_status weft_import(const char *path, weft_imported **out)
    WEFT_NONNULL(2);
WEFT_API void weft_imported_free(weft_imported *imported); /* NULL is accepted */

WEFT_API int weft_imported_count(const weft_imported *imported) WEFT_NONNULL(1);
/* "main(float32 (2, 3), int32 (4)) -> (float32 (2, 4))", or with letters for dynamic axes
 * "main(float32 (n, 3)) -> (float32 of 2 axes)"; NULL beyond the last. */
WEFT_API const char *weft_imported_signature(const weft_imported *imported, int i) WEFT_NONNULL(1);

/* An entry of the file's metadata; NULL: there is none. Lives as long as `imported`. */
WEFT_API const char *weft_imported_metadata(const weft_imported *imported, const char *key)
    WEFT_NONNULL(1);

/* The graph of the first function of that name (NULL: any) whose arguments have the shapes and
 * dtypes of `in`: temporaries that are as lazy as those of any op, so transforms go through them.
 * Error arrays when there is none, with those that there are. */
WEFT_API int weft_imported_call(const weft_imported *imported, const char *name,
                                weft_array *const *in, int n_in, weft_array **out, int room)
    WEFT_NONNULL(1);

/* ---- The graph, shown instead of written ---------------------------------------------------- */

/* An array of the graph. */
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

/* Traces fn as weft_export does and calls `visit` with every part of its graph. Ops that a file
 * cannot hold are shown too. WEFT_CANCELLED when the visitor stops. */
WEFT_NODISCARD WEFT_API weft_status weft_export_visit(weft_function *fn, void *context,
                                                      weft_array *const *in, int n_in,
                                                      weft_export_visitor *visit,
                                                      void *visit_context);

#ifdef __cplusplus
}
#endif
#endif
