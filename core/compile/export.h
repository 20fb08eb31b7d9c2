/* core/compile/export.h -- functions shared by the export and import of functions. */
#ifndef CORE_COMPILE_EXPORT_H
#define CORE_COMPILE_EXPORT_H

#include "core/compile/trace.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "weft/export.h"

#define WEFT__EXPORT_KEY "weft.functions"

/* Writes parameters as a JSON object, by the op's field table. */
weft_status weft__params_write(const weft_op *op, const void *params, weft__text *out);
/* Reads them back into `params` (params_size bytes, zeroed). Every field is required, except flags
 * and dtypes in files of format versions before 4 and 5, where they default to 0. */
weft_status weft__params_read(const weft_op *op, const weft__json *object, int64_t version,
                              void *params);

/* Writes and reads {"dtype": "float32", "shape": [2, 3]}, with "encoding": "mxfp4" for encoded
 * arrays. */
void weft__spec_write(const weft_spec *spec, weft__text *out);
weft_status weft__spec_read(const weft__json *object, weft_spec *out);
bool weft__spec_same(const weft_spec *a, const weft_spec *b);

/* export.c: the simplified trace of a function at arrays like `in`. */
weft_status weft__export_trace(weft_function *fn, void *context, weft_array *const *in, int n_in,
                               weft__trace *out);
/* The value after skipping ops that pass an input through. */
weft__value weft__export_resolve(const weft__trace *t, weft__value v);
/* Writes the name of a resolved value: "a0", "c0", "n0", "n0.1". `place` is its number. */
void weft__export_name(const weft__trace *t, weft__value v, int64_t place, char name[40]);
/* Whether the node is written to the file. */
bool weft__export_writes(const weft__trace *t, int64_t node);

/* export_encoded.c: the storage of an encoded array as an array of bytes, and back; `at` begins the
 * message. */
weft_array *weft__encoded_bytes(weft_array *a);
weft_status weft__encoded_array(const weft__json *at, weft_array *bytes, const weft_spec *spec,
                                weft_array **out);

/* The text "main(float32 (2, 3)) -> (float32 (2))"; NULL: out of memory. With symbols (else NULL),
 * dynamic axes are shown as letters, and only the rank of results is known. */
struct weft__symbols;
char *weft__signature_text(const char *name, const weft__trace *t,
                           const struct weft__symbols *symbols);

#endif
