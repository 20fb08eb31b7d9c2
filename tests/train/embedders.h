/* tests/train/embedders.h -- models and examples of the tests of objectives that compare vectors.
 */
#ifndef TESTS_TRAIN_EMBEDDERS_H
#define TESTS_TRAIN_EMBEDDERS_H

#include "weft/batch.h"
#include "weft/train.h"

enum { STEPS = 8, EXAMPLES = 5, MOST_TEXTS = 4, MOST_LENGTH = 16 };

typedef struct golden {
    const char *name, *objective;
    const char *model; /* NULL: bert */
    weft_objective_options options;
} golden;

enum { N_EMBED_GOLDENS = 9 };
extern const golden embed_goldens[N_EMBED_GOLDENS];

/* The examples, losses and gradient norms of sentence-transformers. */
typedef struct numbers {
    int texts;
    int64_t length;
    int32_t ids[STEPS * MOST_TEXTS * EXAMPLES * MOST_LENGTH];
    int32_t lengths[STEPS * MOST_TEXTS * EXAMPLES];
    float scores[STEPS * EXAMPLES];
    double loss[STEPS], norm[STEPS];
    bool scored;
} numbers;

bool read_golden(const char *name, numbers *out);

/* Adds an example; text k is that of row `first` + k * EXAMPLES. */
weft_status add_example(weft_dataset *d, const numbers *n, int64_t first, const float *score);
/* The examples of an update. */
weft_dataset *dataset_of(const numbers *n, int step);

typedef struct setting {
    const golden *g;
    int64_t micro, size; /* examples computed at a time, and of a batch; 0: all */
    bool adapter;
    weft_model *model;
    weft_embed_settings embed;
    weft_trainer *trainer;
} setting;

/* Loads the model of a setting whose first members are set. */
bool open_model(setting *s);
/* Has no checks, for threads. */
weft_status open_trainer(setting *s, weft_group *group);
bool open_setting(const golden *g, int64_t micro, bool adapter, setting *s);
void close_setting(setting *s);

/* One update with all examples; without checks. */
weft_status update(setting *s, const weft_dataset *data, weft_train_report *report);

#endif
