/* train/epoch.h -- the samples of an epoch, in an order that is drawn. */
#ifndef WEFT_TRAIN_EPOCH_H
#define WEFT_TRAIN_EPOCH_H

#include "train/dataset.h"

/* Samples that stay side by side. */
typedef struct weft__unit {
    int64_t first, n;
} weft__unit;

/* What an epoch of a dataset (borrowed) is made of: every group of a source as often as the whole
 * part of its weight says, and of the rest as many single samples as the fraction says. */
typedef struct weft__epoch {
    const weft_dataset *dataset;
    int64_t n_samples; /* of an epoch */
    int64_t *starts;   /* (n_groups + 1): weft__dataset_groups */
    int64_t n_groups;
    weft__unit *units; /* (n_units) */
    int64_t *turns;    /* (n_units): in the epoch's order */
    int64_t n_units;
    int64_t *drawn; /* room for the samples of the largest source */
} weft__epoch;

weft_status weft__epoch_open(const weft_dataset *dataset, weft__epoch *out);
void weft__epoch_close(weft__epoch *epoch);

/* Writes an epoch's samples to order (n_samples): a function of the dataset and *state alone. */
void weft__epoch_draw(weft__epoch *epoch, uint64_t *state, int64_t *order);

#endif
