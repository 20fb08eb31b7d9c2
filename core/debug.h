/* core/debug.h -- WEFT_DEBUG=1: where arrays were made and released, use after that, scopes left
 * open; and, always, the warning about a scope that grows with every evaluation. */
#ifndef CORE_DEBUG_H
#define CORE_DEBUG_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/array.h"

/* Where a scope was opened. */
typedef struct weft__place {
    const char *function;
    const char *file; /* NULL: not known */
    int line;
} weft__place;

/* What is known of a node. */
typedef struct weft__origin {
    weft__place place; /* of the scope it was made in */
    const char *op;    /* once that has been dropped; NULL: data */
} weft__origin;

/* Whether WEFT_DEBUG is set; read once. */
bool weft__debug(void);

/* ---- only while weft__debug() --------------------------------------------------------------- */

/* A new array, in a scope that was opened at `place`. */
void weft__debug_made(weft_array *a, const weft__place *place);
/* What releases arrays on this thread from now on: "scope" with its place, or a call such as
 * "weft_drop" with its callers. */
void weft__debug_cause(const char *what, const weft__place *place);
/* Instead of freeing: the outputs of `node` become error arrays that say what they were and when
 * they were released. The latest 65,536 nodes are kept like that. */
void weft__debug_retire(weft_array *node);
/* Whether `a` was released. If so, reports the use in `call` with its callers. */
bool weft__debug_released(const weft_array *a, const char *call);
/* Reports a weft_drop of an array that nothing holds. */
void weft__debug_not_held(const weft_array *a);

/* A scope was closed by another function than the one that opened it. */
void weft__debug_closed_elsewhere(const weft__place *place, const char *function);
/* A scope is open at the end of its thread. */
void weft__debug_left_open(const weft__place *place, int64_t arrays);

/* ---- always --------------------------------------------------------------------------------- */

/* How a scope grows from evaluation to evaluation. */
typedef struct weft__growth {
    int64_t evaluations;
    int64_t arrays; /* at the start of the window of evaluations that is under way */
    int64_t active; /* bytes of all arrays then */
    int64_t bytes;  /* by which that has grown in the windows so far, */
    int windows;    /* which are so many in a row */
} weft__growth;

/* After an evaluation in a scope that has `arrays` arrays: warns once for the process if each of
 * many evaluations left arrays behind. */
void weft__growth_note(weft__growth *g, int64_t arrays, const weft__place *place);

#endif
