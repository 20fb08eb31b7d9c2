/* train/run/sums.h -- sums over the hashes of a list's items, by which changed items are found. */
#ifndef WEFT_TRAIN_RUN_SUMS_H
#define WEFT_TRAIN_RUN_SUMS_H

#include <json-c/json_object.h>

#include "core/io/text.h"

enum { WEFT__CLASSES = 64 };

/* For the items of each class (their index modulo WEFT__CLASSES), the sum of their hashes and the
 * sum of index times hash, both modulo a prime below 2^32. If one item of a class changes, the
 * quotient of the two changes is its index. */
typedef struct weft__sums {
    int64_t n;
    uint64_t sum[WEFT__CLASSES], weighted[WEFT__CLASSES];
} weft__sums;

/* Adds the next item. */
void weft__sums_add(weft__sums *sums, uint64_t hash);

/* Writes {"n": ..., "sums": "..."}. */
void weft__sums_write(weft__text *t, const weft__sums *sums);

/* Compares what weft__sums_write wrote. Adds what changed to `out`, such as "lines 3, 7 of 24" for
 * the name "line", with "and others" if several items of a class changed. False: nothing changed,
 * or one of the two is malformed. */
bool weft__sums_compare(json_object *recorded, json_object *now, const char *name, weft__text *out);

#endif
