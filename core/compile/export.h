/* core/compile/export.h -- what writing and reading exported functions share. */
#ifndef CORE_COMPILE_EXPORT_H
#define CORE_COMPILE_EXPORT_H

#include "core/compile/trace.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "weft/export.h"

#define WEFT__EXPORT_KEY "weft.functions"

/* Parameters as a JSON object, by the op's field table. */
weft_status weft__params_write(const weft_op *op, const void *params, weft__text *out);
/* The other way: fills `params` (params_size bytes, zeroed). Every field must be there, except
 * flags in files of the format's versions before 4, whose ops had fewer: they are false. */
weft_status weft__params_read(const weft_op *op, const weft__json *object, int64_t version,
                              void *params);

/* {"dtype": "float32", "shape": [2, 3]} and back; with "encoding": "mxfp4" if it has one. */
void weft__spec_write(const weft_spec *spec, weft__text *out);
weft_status weft__spec_read(const weft__json *object, weft_spec *out);
bool weft__spec_same(const weft_spec *a, const weft_spec *b);

/* export.c: the simplified trace of a function at arrays like `in`. */
weft_status weft__export_trace(weft_function *fn, void *context, weft_array *const *in, int n_in,
                               weft__trace *out);
/* What a value is once ops that hand inputs on are left out. */
weft__value weft__export_resolve(const weft__trace *t, weft__value v);
/* "a0", "c0", "n0", "n0.1": a value that is resolved; `place` is its number. */
void weft__export_name(const weft__trace *t, weft__value v, int64_t place, char name[40]);
/* Whether the node is in a file. */
bool weft__export_writes(const weft__trace *t, int64_t node);

/* export_encoded.c: the storage of an encoded array as bytes, and back; `at` begins the message. */
weft_array *weft__encoded_bytes(weft_array *a);
weft_status weft__encoded_array(const weft__json *at, weft_array *bytes, const weft_spec *spec,
                                weft_array **out);

/* "main(float32 (2, 3)) -> (float32 (2))"; NULL: no memory. With symbols (else NULL) dynamic axes
 * are letters, and of the results only the number of axes is known. */
struct weft__symbols;
char *weft__signature_text(const char *name, const weft__trace *t,
                           const struct weft__symbols *symbols);

#endif
