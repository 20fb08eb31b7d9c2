/* core/hash.h -- hashing of 64-bit words for tables in memory. Values may change between versions.
 */
#ifndef WEFT_CORE_HASH_H
#define WEFT_CORE_HASH_H

#include <stdint.h>

/* Extends a hash by `word`. Start with any number. */
static inline uint64_t weft__mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) + 0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 32) * 0xff51afd7ed558ccdu;
    return hash ^ hash >> 29;
}

#endif
