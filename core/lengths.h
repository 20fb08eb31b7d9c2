/* core/lengths.h -- who reads lengths while a function is traced for a shapeless export.
 *
 * A length that the function reads may end up anywhere, so the public accessors (weft_dim,
 * weft_shape, weft_size) note what they return. Ops and transforms read lengths too, but what they
 * do with them ends up in parameters, which the export compares; where this header is included
 * those names mean functions that note nothing.
 */
#ifndef CORE_LENGTHS_H
#define CORE_LENGTHS_H

#include "weft/array.h"

/* What a function reads, and what it read at other lengths. */
typedef struct weft__length_log {
    int64_t *values;
    int64_t n, capacity;
    const int64_t *expected; /* NULL: nothing is compared */
    int64_t n_expected;
    bool differs;   /* the first difference is in `text` */
    bool no_memory; /* for the list */
    char text[192];
} weft__length_log;

extern _Thread_local weft__length_log *weft__length_reads; /* NULL: nothing is noted */

int64_t weft__dim(const weft_array *a, int axis);
weft_dims weft__shape(const weft_array *a);
int64_t weft__size(const weft_array *a);

#ifndef WEFT__NOTE_LENGTHS
#define weft_dim(a, axis) weft__dim(a, axis)
#define weft_shape(a) weft__shape(a)
#define weft_size(a) weft__size(a)
#endif

#endif
