/* text/schema/array.h -- arrays: which elements may follow, and the fewest bytes to the end. The
 * length of the shortest array and the bytes missing from a partial one are computed by the same
 * function. */
#ifndef WEFT_TEXT_SCHEMA_ARRAY_H
#define WEFT_TEXT_SCHEMA_ARRAY_H

#include "text/schema/schema.h"

typedef struct array_state {
    int64_t count;
    uint32_t found;                  /* a bit for each element of wanted_items that is present */
    uint64_t used;                   /* a bit for each value of `unique` that is present */
    uint64_t marks[SCHEMA_DISTINCT]; /* hashes of the elements that must differ from others */
} array_state;

/* The node of the next element, unless it is a wanted one. */
int weft__array_node(const schema_choice *c, int64_t count);

/* The fewest bytes from after an element to the end of an array that gets at least `more` more
 * elements: a comma and an element each, and the bracket. SCHEMA_NEVER: impossible. */
int64_t weft__array_missing(const weft__schema *schema, const schema_choice *c,
                            const array_state *a, int64_t more);

#endif
