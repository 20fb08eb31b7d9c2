/* text/schema/array.h -- arrays: which elements may still come, and the fewest bytes to the end.
 * The shortest array and what is missing of one that has begun are computed by the same function.
 */
#ifndef WEFT_TEXT_SCHEMA_ARRAY_H
#define WEFT_TEXT_SCHEMA_ARRAY_H

#include "text/schema/schema.h"

typedef struct array_state {
    int64_t count;
    uint32_t found; /* a bit for each of the choice's wanted_items that is there */
    uint64_t used;  /* a bit for each of the choice's `unique` that is there */
} array_state;

/* The node of the next element, apart from those that are wanted. */
int weft__array_node(const schema_choice *c, int64_t count);

/* The fewest bytes from behind an element to the end of the array, which has at least `more` more
 * elements: a comma and an element each, and the bracket. SCHEMA_NEVER: that cannot be. */
int64_t weft__array_missing(const weft__schema *schema, const schema_choice *c,
                            const array_state *a, int64_t more);

#endif
