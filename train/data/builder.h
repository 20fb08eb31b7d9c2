/* train/data/builder.h -- builds a sample from pieces. */
#ifndef WEFT_TRAIN_DATASET_BUILDER_H
#define WEFT_TRAIN_DATASET_BUILDER_H

#include "weft/train.h"

/* Zero it first. weft__builder_free frees its arrays. */
typedef struct weft__builder {
    int32_t *ids;
    float *weights;
    int64_t n, capacity;
} weft__builder;

/* Appends n ids, each with the weight. */
weft_status weft__builder_add(weft__builder *builder, const int32_t *ids, size_t n, float weight);

/* Appends the ids of a text, without the tokenizer's special tokens. */
weft_status weft__builder_add_text(weft__builder *builder, const weft_tokenizer *tokenizer,
                                   const char *text, size_t length, float weight);

/* Adds the sample to a dataset, in the group, and empties the builder. */
weft_status weft__builder_finish(weft__builder *builder, int64_t group, weft_dataset *out);

void weft__builder_free(weft__builder *builder);

#endif
