/* core/lengths.h -- records which lengths a function reads while it is traced for a shapeless
 * export.
 *
 * The function may use a length that it reads anywhere, so the public accessors (weft_dim,
 * weft_shape, weft_size) record what they return. Ops and transforms read lengths too, but these
 * end up in parameters, which the export compares. Where this header is included, the accessors'
 * names refer to functions that record nothing.
 */
#ifndef CORE_LENGTHS_H
#define CORE_LENGTHS_H

#include "weft/array.h"

/* The lengths that a function reads, compared with those that it read in an earlier call. */
typedef struct weft__length_log {
    int64_t *values;
    int64_t n;
    const int64_t *expected; /* NULL: no comparison */
    int64_t n_expected;
    bool differs;   /* `text` describes the first difference */
    bool no_memory; /* for the list */
    char text[192];
} weft__length_log;

/* The log of the current recording; NULL: nothing is recorded. */
weft__length_log *weft__length_reads(void);

int64_t weft__dim(const weft_array *a, int axis);
weft_dims weft__shape(const weft_array *a);
int64_t weft__size(const weft_array *a);

#ifndef WEFT__NOTE_LENGTHS
#define weft_dim(a, axis) weft__dim(a, axis)
#define weft_shape(a) weft__shape(a)
#define weft_size(a) weft__size(a)
#endif

#endif
