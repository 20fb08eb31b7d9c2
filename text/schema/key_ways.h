/* text/schema/key_ways.h -- counts the object keys that match a pattern, by length in bytes. */
#ifndef WEFT_TEXT_SCHEMA_KEY_WAYS_H
#define WEFT_TEXT_SCHEMA_KEY_WAYS_H

#include "text/schema/pattern.h"

/* Counts saturate here. */
enum { WEFT__MAX_COUNT = 1 << 30, WEFT__LONGEST_KEY = 256 };

/* Returns counts [state][bytes]: the number of texts of that length, 0 .. *longest, that lead from
 * the state to a match. Texts are written as JSON keys, with escapes only where required. The
 * caller frees the result; NULL when out of memory. */
uint32_t *weft__pattern_counts(const weft__pattern *pattern, int32_t *longest);

/* The number of texts of a given length in bytes that lead to a match after one character of first
 * .. last. */
int64_t weft__pattern_counts_after(const weft__pattern *pattern, const uint32_t *counts,
                                   int32_t longest, int32_t state, uint32_t first, uint32_t last,
                                   int64_t bytes);

#endif
