/* core/compile/shapeless.h -- functions traced for any lengths of their dynamic axes. */
#ifndef CORE_COMPILE_SHAPELESS_H
#define CORE_COMPILE_SHAPELESS_H

#include "core/compile/trace.h"
#include "weft/transforms.h"

enum { WEFT__SYMBOLS = 8, WEFT__INFERRED = -1 };

/* The lengths of dynamic axes: axes of the same length in the example share a symbol. */
typedef struct weft__symbols {
    int n;
    unsigned char (*axes)[WEFT_MAX_DIMS]; /* per argument and axis: 0, or 1 + its symbol */
    int64_t sizes[WEFT__SYMBOLS];         /* at which the function was traced */
    int64_t least[WEFT__SYMBOLS];         /* below this the function computes something else */
} weft__symbols;

/* What an element of a node's shape follows: 0: it is as written; 1 + a symbol; WEFT__INFERRED: the
 * number of elements. */
typedef signed char weft__follows[WEFT_MAX_DIMS];

typedef struct weft__shapeless {
    weft__trace trace; /* as written, at lengths of its own choice */
    weft__symbols symbols;
    weft__follows *follows; /* per node, of the parameter that is the result's shape */
} weft__shapeless;

/* Above this length nothing was tried, and nothing is called. */
#define WEFT__LONGEST ((int64_t)1 << 33)

/* Traces fn at arrays like `in`, whose axes in dynamic[] (a bit per axis) may have any length.
 * WEFT_UNSUPPORTED names what depends on the lengths: a length that the function reads, the graph,
 * a constant, or a parameter. *out is to be freed in any case. */
weft_status weft__shapeless_trace(weft_function *fn, void *context, weft_array *const *in, int n_in,
                                  const uint32_t *dynamic, weft__shapeless *out);
void weft__shapeless_free(weft__shapeless *s);

/* The parameter of a node that is the shape of its result; NULL: none. */
const weft_field *weft__shape_field(const weft_op *op);

/* export.c: calls fn on placeholders of these specs and on these devices. */
weft_status weft__trace_at(weft_function *fn, void *context, const weft__trace_argument *arguments,
                           int n_in, weft__trace *out);

#endif
