/* train/data/dataset.h -- internal interface of datasets. */
#ifndef WEFT_TRAIN_DATASET_H
#define WEFT_TRAIN_DATASET_H

#include "core/io/data_names.h"
#include "core/io/safetensors.h"
#include "weft/task.h"

typedef struct weft__dataset_sample {
    int64_t start, length, group;
    bool cut;         /* it was shortened */
    bool undesirable; /* for labeled samples */
    char unused[6];   /* 0; keeps cache files free of undefined padding */
    int32_t prompt;   /* for scored completions: the number of ids before the completion */
    float score;      /* of the example, for texts to be compared */
    uint64_t text;    /* of texts to be compared: a hash of the whole text; 0: not known */
} weft__dataset_sample;

/* Consecutive samples with the same weight in a mixture. A part ends where the next begins. */
typedef struct weft__dataset_part {
    int64_t first;
    double weight;
} weft__dataset_part;

/* What is stored of a teacher: for each target, in the order of the samples, its most probable ids
 * and their log-probabilities (n, WEFT_TEACHER_TOP). */
typedef struct weft__top {
    int64_t n, *first; /* (samples): index of a sample's first target */
    int32_t *ids;
    float *logprobs;
    double temperature; /* which the teacher's logits were divided by */
} weft__top;

struct weft_dataset {
    int64_t limit;      /* maximum number of ids in a sample */
    int64_t vocabulary; /* ids are below it; 0: not checked */
    weft_long_samples longer;
    int32_t *ids;
    float *weights; /* weight of each id; 0 for the first id of a sample */
    int64_t n_ids, ids_capacity, weights_capacity;
    weft__dataset_sample *samples;
    int64_t samples_capacity;
    weft__dataset_part *parts; /* NULL: all samples have weight 1 */
    int64_t n_parts;
    float *reference; /* (samples): weft_dataset_add_reference; NULL: none */
    /* Scored completions: weft_dataset_load_completions. */
    double *rewards; /* (samples); NaN: none */
    float *sampled;  /* (n_ids): the sampler's log-probabilities; NULL: not known */
    int64_t rewards_capacity, sampled_capacity;
    int64_t group; /* completions of a group */
    double temperature;
    weft_dataset *taught; /* the samples as a teacher reads them; NULL: as they are */
    weft__top *top;       /* of a stored teacher; NULL: none */
    weft_task_rows rows;  /* of prompts: (samples), with the rendered prompt */
    weft_dataset_info info;
};

/* Makes room for `more` elements in a list of n. Its capacity at least doubles. False: out of
 * memory. */
bool weft__dataset_grow(void **list, int64_t n, int64_t more, int64_t *capacity, size_t size);

/* Draws a random number for an order of samples: splitmix64 (Steele et al. 2014). */
uint64_t weft__draw_seed(uint64_t *state);
/* Fills `order` with the numbers 0 to n - 1 in random order. */
void weft__shuffle(int64_t *order, int64_t n, uint64_t *state);

/* The number of targets in a sample: ids other than the first whose weight is not 0. */
int64_t weft__sample_targets(const weft_sample *sample);

/* Fails for an id that is negative or outside the dataset's vocabulary, and for a malformed weight.
 */
weft_status weft__dataset_check_sample(const weft_dataset *dataset, const weft_sample *sample);

/* Fails if an id of a sample is not in the model's vocabulary or, for a classifier, if a sample has
 * other targets than a label. */
weft_status weft__dataset_check_ids(const weft_dataset *dataset, const weft_model_info *info);

/* Appends a sample that has been checked, is not too long and has a target. */
weft_status weft__dataset_append(weft_dataset *dataset, const weft_sample *sample, bool cut);

/* A completion of a prompt, for weft__dataset_add_completion. */
typedef struct weft__completion {
    const int32_t *prompt, *ids;
    int64_t n_prompt, n;
    double reward; /* NaN: none */
    bool truncated;
    const float *logprobs; /* (n) the sampler's; NULL: not known */
} weft__completion;

/* Creates a dataset for scored completions; the defaults of the options are filled in. Adds a
 * completion to it. */
weft_status weft__dataset_of_completions(const weft_objective_options *options, weft_dataset **out);
weft_status weft__dataset_add_completion(weft_dataset *dataset,
                                         const weft_objective_options *options,
                                         const weft__completion *completion);

/* Reads completions from JSON lines; `path` is for messages. The defaults of the options are filled
 * in. */
weft_status weft__completions_parse(const char *text, size_t size, const char *path,
                                    const weft_objective_options *options, weft_dataset **out);

/* Copies what is stored of the targets of sample i to the cells of its row. */
void weft__top_put(const weft_dataset *dataset, int64_t i, int32_t *ids, float *logprobs);
/* Checks that a stored teacher, if there is one, is of ids below the vocabulary's size and of the
 * temperature. */
weft_status weft__top_check(const weft_dataset *dataset, int64_t vocabulary, double temperature);
uint64_t weft__top_hash(const weft__top *top);
void weft__top_free(weft__top *top); /* NULL is accepted */

/* The start of each of the *n groups of samples, followed by the number of samples. The caller
 * frees it. NULL: out of memory. */
int64_t *weft__dataset_groups(const weft_dataset *dataset, int64_t *n);

/* Splits the groups of samples of `all`: `chosen` gets the share of them that the seed selects (at
 * least one; NULL: the last ones), `rest` the others in their order. `all` is unchanged.
 * WEFT_INVALID if there are fewer than two groups. */
weft_status weft__dataset_split(const weft_dataset *all, double share, const uint64_t *seed,
                                weft_dataset **rest, weft_dataset **chosen);

/* Appends all samples and counts of `from` as a part with the weight. Groups of both datasets stay
 * separate. */
weft_status weft__dataset_join(weft_dataset *to, const weft_dataset *from, double weight);

/* Finds the format of a file from its name and its first bytes. WEFT_UNSUPPORTED, naming the
 * extension, for known formats that Weft cannot read. */
weft_status weft__data_format_of(const char *path, const char *data, size_t size,
                                 weft_data_format *out);

#endif
