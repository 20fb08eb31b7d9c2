/* train/columns.h -- the columns of batches: one table, from which batches are made, checked, split
 * and passed to compiled steps. */
#ifndef WEFT_TRAIN_COLUMNS_H
#define WEFT_TRAIN_COLUMNS_H

#include "weft/train.h"

enum { WEFT__COLUMNS = 19, WEFT__MOST_TEXTS = 64 /* in an example */ };

/* Which batches have a column. */
typedef enum weft__column_rule {
    WEFT__ALWAYS,
    WEFT__ONES,      /* optional; without it every element is 1 */
    WEFT__PACKED,    /* those with packed rows; all columns of this rule or none */
    WEFT__REPACKED,  /* those whose samples have rows besides the packed ones; all or none */
    WEFT__OBJECTIVE, /* those of objectives that require or accept it */
    WEFT__COMPUTED   /* those of an update, for which the trainer computes it */
} weft__column_rule;

/* Lengths of axes: N examples with one or two of the B rows each, L columns, and the R rows of C
 * columns that the model reads: B and L unless the rule is WEFT__REPACKED. K targets, for which a
 * teacher has hidden states of T elements, or S ids. M columns that a teacher reads. */
typedef struct weft__batch_sizes {
    int64_t N, B, L, R, C, K, T, S, M;
} weft__batch_sizes;

typedef struct weft__column {
    const char *name;
    size_t offset, host; /* of its array in weft_batch and its data in weft__host_batch */
    weft_dtype dtype;    /* int32 or float32 */
    const char *axes;    /* the member of weft__batch_sizes of each axis */
    weft__column_rule rule;
    int padding;      /* the elements of cells that no sample fills: 0 or -1 */
    unsigned bit;     /* WEFT__OBJECTIVE: its weft_column */
    const char *what; /* WEFT__OBJECTIVE: its contents and their source, for messages */
} weft__column;

/* In the order of a compiled step's inputs. */
extern const weft__column weft__columns[WEFT__COLUMNS];

/* A batch in host memory. */
typedef struct weft__host_batch {
    weft__batch_sizes sizes;
    int32_t *tokens, *targets, *first, *positions, *pack, *unpack; /* NULL: absent */
    float *weights, *reference, *labels, *advantages, *old, *ref, *sampled;
    int32_t *top, *teacher_tokens, *teacher_targets;
    float *top_logprobs;
    void *cells, *teacher; /* NULL: computed */
    bool weighted;         /* some weight is neither 0 nor 1 */
    weft_batch batch;      /* its kind and counts */
} weft__host_batch;

/* The slot of column c in a batch; NULL there: absent. */
weft_array **weft__batch_slot(const weft_batch *batch, int c);

weft_dims weft__column_shape(int c, const weft__batch_sizes *sizes);

/* The rows of an example: 2 for pairs and labeled samples, `texts` for texts to be compared. */
int64_t weft__rows_per_example(weft_examples examples, int64_t texts);

/* Whether samples of a batch share tokens: completions, of which one has the prompt of its group
 * (train/shared.c). pack (1, C) and unpack (B, L) are then those of weft_model_call. */
bool weft__batch_shares(const weft_batch *batch);

/* The number of examples in a batch. */
int64_t weft__batch_examples(const weft_batch *batch);

/* The columns of objectives that a dataset has. */
unsigned weft__dataset_columns(const weft_dataset *dataset);

/* ---- data/batch.c: batches from samples ----------------------------------------------------- */

/* `M` is that of weft__batch_sizes. Fills *host with tokens, targets, weights and packing of n
 * examples, or, if starts is not NULL, of n rows of which row r packs the examples starts[r] ..
 * starts[r + 1]. The samples are those of all examples and, if an example has more, then the second
 * ones in the same order. The objectives' `columns` are allocated, for the caller to fill.
 * weft__host_finish follows, also on failure. */
weft_status weft__host_fill(const weft_sample *samples, weft_examples kind, int64_t texts,
                            const int64_t *starts, int n, unsigned columns, int64_t M,
                            weft__host_batch *host);

/* Makes a batch of the columns if `status` is WEFT_OK, and frees them in any case. *out is zeroed
 * after a failure. */
weft_status weft__host_finish(weft__host_batch *host, weft_status status, weft_batch *out);

#endif
