/* core/debug.h -- WEFT_DEBUG=1: records where arrays were made and released, and reports later uses
 * and scopes left open. Also the warning about a scope that grows with every evaluation. */
#ifndef CORE_DEBUG_H
#define CORE_DEBUG_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/array.h"

/* Where a scope was opened. */
typedef struct weft__source_location {
    const char *function;
    const char *file; /* NULL: unknown */
    int line;
} weft__source_location;

/* Where a node was made, and by which op. */
typedef struct weft__origin {
    weft__source_location location; /* of the scope that it was made in */
    const char *op;                 /* the op, set when it is released; NULL: made from data */
} weft__origin;

/* Whether WEFT_DEBUG is set. The variable is read once. */
bool weft__debug(void);

/* ---- only while weft__debug() --------------------------------------------------------------- */

/* Records a new array, in a scope that was opened at `location`. */
void weft__debug_made(weft_array *a, const weft__source_location *location);
/* Sets the reason for releases on this thread from now on: "scope" with its location, or a call
 * such as "weft_drop" with its callers. */
void weft__debug_cause(const char *what, const weft__source_location *location);
/* Replaces freeing: the outputs of `node` become error arrays that say what they were and when they
 * were released. The latest 65,536 nodes are kept. */
void weft__debug_retire(weft_array *node);
/* Whether `a` was released. If so, reports its use in `call`, with the callers. */
bool weft__debug_released(const weft_array *a, const char *call);
/* Reports a weft_drop of an array without holds. */
void weft__debug_not_held(const weft_array *a);

/* Records that a scope was closed by another function than the one that opened it. */
void weft__debug_closed_elsewhere(const weft__source_location *location, const char *function);
/* Reports a scope that is open when its thread ends. */
void weft__debug_left_open(const weft__source_location *location, int64_t arrays);

/* ---- always --------------------------------------------------------------------------------- */

/* The growth of a scope over its evaluations. */
typedef struct weft__growth {
    int64_t evaluations;
    int64_t arrays; /* at the start of the current window of evaluations */
    int64_t active; /* bytes of all arrays at that time */
    int64_t bytes;  /* bytes gained in the previous growing windows */
    int windows;    /* number of growing windows in a row */
} weft__growth;

/* Called after an evaluation in a scope that owns `arrays` arrays. Warns once for the process if
 * many evaluations in a row left arrays behind. */
void weft__growth_note(weft__growth *g, int64_t arrays, const weft__source_location *location);

#endif
