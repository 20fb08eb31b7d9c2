/* text/schema/index.h -- a hash index of numbers. */
#ifndef WEFT_TEXT_SCHEMA_INDEX_H
#define WEFT_TEXT_SCHEMA_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

typedef struct schema_slot {
    uint64_t hash;
    int32_t number; /* negative: the slot is free */
} schema_slot;

/* Zeroed is empty. */
typedef struct schema_index {
    schema_slot *slots;
    size_t n, size; /* size: a power of two */
} schema_index;

/* The next number with a hash, or -1. *probe is 0 for the first call and passed on to later ones.
 * Different items may have the same hash. */
int32_t weft__index_next(const schema_index *index, uint64_t hash, size_t *probe);
weft_status weft__index_add(schema_index *index, uint64_t hash, int32_t number);
void weft__index_release(schema_index *index);

#endif
