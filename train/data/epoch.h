/* train/data/epoch.h -- the items of an epoch, in random order. */
#ifndef WEFT_TRAIN_EPOCH_H
#define WEFT_TRAIN_EPOCH_H

#include "train/data/dataset.h"

/* Items that epochs are made of: samples, or rows of packed ones. */
typedef struct weft__items {
    int64_t n;
    const int64_t *starts; /* (n_groups + 1): those between two stay side by side; borrowed */
    int64_t n_groups;
    const weft__dataset_part *parts; /* of a mixture; NULL: all have weight 1 */
    int64_t n_parts;
} weft__items;

/* Items that stay side by side. */
typedef struct weft__unit {
    int64_t first, n;
} weft__unit;

/* An epoch repeats every group of a part floor(weight) times, and adds single items for the
 * fraction of the weight. */
typedef struct weft__epoch {
    weft__items items;
    int64_t n;         /* items of an epoch */
    weft__unit *units; /* (n_units) */
    int64_t *turns;    /* (n_units): in the epoch's order */
    int64_t n_units;
    int64_t *drawn; /* room for the items of the largest part */
} weft__epoch;

weft_status weft__epoch_open(const weft__items *items, weft__epoch *out);
void weft__epoch_close(weft__epoch *epoch);

/* Writes an epoch's items to order (n): a function of the items and *state alone. */
void weft__epoch_draw(weft__epoch *epoch, uint64_t *state, int64_t *order);

#endif
