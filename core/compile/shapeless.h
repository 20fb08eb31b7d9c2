/* core/compile/shapeless.h -- traces functions for any lengths of their dynamic axes. */
#ifndef CORE_COMPILE_SHAPELESS_H
#define CORE_COMPILE_SHAPELESS_H

#include "core/compile/trace.h"
#include "weft/transforms.h"

enum { WEFT__SYMBOLS = 8, WEFT__INFERRED = -1 };

/* The lengths of dynamic axes: axes of the same length in the example share a symbol. */
typedef struct weft__symbols {
    int n;
    unsigned char (*axes)[WEFT_MAX_DIMS]; /* per argument and axis: 0, or 1 + its symbol */
    int64_t sizes[WEFT__SYMBOLS];         /* lengths at which the function was traced */
    int64_t least[WEFT__SYMBOLS]; /* below this length the function computes something else */
} weft__symbols;

/* How an element of a shape is computed. 0: constant; 1 + s: the length of symbol s;
 * WEFT__INFERRED: from the number of elements. */
typedef signed char weft__follows[WEFT_MAX_DIMS];

typedef struct weft__shapeless {
    weft__trace trace; /* as traced, at lengths chosen by the tracer */
    weft__symbols symbols;
    weft__follows *follows; /* per node: for the parameter that is the shape of its result */
} weft__shapeless;

/* Lengths above this were not tried, and calls with them are refused. */
#define WEFT__LONGEST ((int64_t)1 << 33)

/* Traces fn at arrays like `in`, whose axes in dynamic[] (a bit per axis) may have any length.
 * WEFT_UNSUPPORTED names what depends on the lengths: a length that the function reads, the graph,
 * a constant, or a parameter. Free *out in any case. */
weft_status weft__shapeless_trace(weft_function *fn, void *context, weft_array *const *in, int n_in,
                                  const uint32_t *dynamic, weft__shapeless *out);
void weft__shapeless_free(weft__shapeless *s);

/* The parameter of an op that is the shape of its result, or NULL. */
const weft_field *weft__shape_field(const weft_op *op);

/* export.c: calls fn on placeholders of these specs on these devices. Records the lengths that it
 * reads in `lengths`, unless NULL. */
weft_status weft__trace_at(weft_function *fn, void *context, const weft__trace_argument *arguments,
                           int n_in, struct weft__length_log *lengths, weft__trace *out);

#endif
