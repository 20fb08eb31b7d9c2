/* train/data/dataset.h -- what the files of data share. */
#ifndef WEFT_TRAIN_DATASET_H
#define WEFT_TRAIN_DATASET_H

#include "core/io/safetensors.h"
#include "weft/train.h"

typedef struct weft__dataset_sample {
    int64_t start, length, group;
    bool cut;         /* it was longer */
    bool undesirable; /* of labelled samples */
    char unused[6];   /* 0: files of the cache have no padding */
} weft__dataset_sample;

/* A run of samples with the same weight in a mixture, up to the next part's. */
typedef struct weft__dataset_part {
    int64_t first;
    double weight;
} weft__dataset_part;

struct weft_dataset {
    int64_t limit; /* most ids of a sample */
    weft_long_samples longer;
    int32_t *ids;
    float *weights; /* of each id; 0 of each sample's first */
    int64_t n_ids, ids_capacity, weights_capacity;
    weft__dataset_sample *samples;
    int64_t samples_capacity;
    weft__dataset_part *parts; /* NULL: all samples have weight 1 */
    int64_t n_parts;
    float *reference; /* (samples): weft_dataset_add_reference; NULL: none */
    weft_dataset_info info;
    weft__mapping *mapping; /* of what the arrays are in; NULL: they are the dataset's own */
};

/* Random numbers for orders of samples: splitmix64 (Steele et al. 2014). */
uint64_t weft__draw_seed(uint64_t *state);
/* The numbers 0 to n - 1 in an order that the seed draws. */
void weft__shuffle(int64_t *order, int64_t n, uint64_t *state);

/* Targets of a sample: ids other than the first whose weight is not 0. */
int64_t weft__sample_targets(const weft_sample *sample);

/* Appends a checked sample that fits and has a target. */
weft_status weft__dataset_append(weft_dataset *dataset, const weft_sample *sample, bool cut);

/* Where each group of samples starts, and after the *n starts the number of samples; the caller
 * frees them. NULL when out of memory. */
int64_t *weft__dataset_groups(const weft_dataset *dataset, int64_t *n);

/* Parts `all` into the groups of samples that the seed chooses (that share of them, at least one)
 * and the others, in their order. Frees nothing. WEFT_INVALID when there are fewer than two. */
weft_status weft__dataset_split(const weft_dataset *all, double share, uint64_t seed,
                                weft_dataset **rest, weft_dataset **chosen);

/* Appends all samples and counts of `from`, as a part of this weight. Groups stay apart. */
weft_status weft__dataset_join(weft_dataset *to, const weft_dataset *from, double weight);

/* The format of a file by its name and its first bytes. WEFT_UNSUPPORTED, naming the extension, for
 * one that is known and cannot be read. */
weft_status weft__data_format_of(const char *path, const char *data, size_t size,
                                 weft_data_format *out);
/* The same by the name alone: AUTO when it says nothing. */
weft_status weft__data_format_named(const char *path, weft_data_format *out);

#endif
