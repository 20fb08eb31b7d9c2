/* train/data/epoch.h -- the items of an epoch, in random order. */
#ifndef WEFT_TRAIN_EPOCH_H
#define WEFT_TRAIN_EPOCH_H

#include "train/data/dataset.h"

/* The items of epochs: samples, or packed rows. */
typedef struct weft__items {
    int64_t n;
    const int64_t *starts; /* (n_groups + 1): start of each group, which stays together; borrowed */
    int64_t n_groups;
    const weft__dataset_part *parts; /* parts of a mixture; NULL: all items have weight 1 */
    int64_t n_parts;
} weft__items;

/* Consecutive items that stay together. */
typedef struct weft__unit {
    int64_t first, n;
} weft__unit;

/* An epoch uses every group of a part floor(weight) times, and adds single items for the fraction
 * of the weight. */
typedef struct weft__epoch {
    weft__items items;
    int64_t n;         /* items of an epoch */
    weft__unit *units; /* (n_units) */
    int64_t *turns;    /* (n_units): order of the units */
    int64_t n_units;
    int64_t *drawn; /* scratch space for the items of the largest part */
} weft__epoch;

weft_status weft__epoch_open(const weft__items *items, weft__epoch *out);
void weft__epoch_close(weft__epoch *epoch);

/* Writes an epoch's items to order (n). They depend only on the items and *state. */
void weft__epoch_draw(weft__epoch *epoch, uint64_t *state, int64_t *order);

#endif
