/* weft/retrieval.h -- how well the vectors of texts find each other, and hard negatives.
 *
 *     weft_dataset_load("pairs.jsonl", tokenizer, &(weft_dataset_options){
 *         .examples = WEFT_EXAMPLES_TEXTS}, 0, &data, NULL);
 *     weft_evaluate_retrieval(model, data, NULL, &found);
 */
#ifndef WEFT_RETRIEVAL_H
#define WEFT_RETRIEVAL_H

#include "weft/batch.h"
#include "weft/train.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_RETRIEVAL_METRICS = 5 };

/* Measures of a ranking of all documents for each query, by the cosines of their vectors. */
typedef struct weft_retrieval {
    int64_t queries, documents; /* different texts */
    /* Means over queries and their standard errors (NaN for one query). 0: nDCG@10; 1: MRR@10, of
     * the first relevant document; 2 to 4: recall@1, @10 and @100, the share of the relevant
     * documents among the first ones. */
    double mean[WEFT_RETRIEVAL_METRICS], standard_error[WEFT_RETRIEVAL_METRICS];
    double *values; /* (WEFT_RETRIEVAL_METRICS, queries): of each query */
} weft_retrieval;

/* "ndcg@10" and so on, a literal; NULL: there is no such metric. */
WEFT_API const char *weft_retrieval_metric_name(int metric);

/* Measures a dataset of texts to be compared (WEFT_EXAMPLES_TEXTS): the queries are the different
 * anchors, the documents all other different texts, and relevant are the positives of the examples
 * with that anchor. Texts of rows are equal if they are so before they are tokenized and cut, added
 * samples if their ids are. Of documents with equal cosines the earlier one comes first. Free with
 * weft_retrieval_free. WEFT_INVALID for a dataset of other examples, with scores or without any,
 * and for vectors that are not finite. NULL options: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_evaluate_retrieval(weft_model *model,
                                                            const weft_dataset *dataset,
                                                            const weft_embed_options *options,
                                                            weft_retrieval *out)
    WEFT_NONNULL(1, 2, 4);
WEFT_API void weft_retrieval_free(weft_retrieval *retrieval) WEFT_NONNULL(1); /* leaves it zeroed */

/* ---- hard negatives -------------------------------------------------------------------------- */

/* Pairs of an anchor and its positive, and a corpus of further texts, all borrowed. */
typedef struct weft_mine_texts {
    const char *const *anchors, *const *positives; /* (n) */
    int64_t n;
    const char *const *corpus; /* (n_corpus); may be NULL */
    int64_t n_corpus;
} weft_mine_texts;

/* Called while texts are embedded and anchors are compared, with how many of both are done. False
 * stops. */
typedef bool weft_mine_callback(void *context, int64_t done, int64_t total);

typedef struct weft_mine_options {
    int64_t num_negatives; /* for each anchor; 0: 3 */
    int64_t range_min;     /* so many of the most similar candidates are skipped */
    /* The most candidates of an anchor; 0: range_min + num_negatives, or range_min + 10
     * num_negatives with a margin or max_score, and the number of rows of the most frequent anchor.
     */
    int64_t range_max;
    /* Limits of the cosine of a negative, each NULL for none: at most, at least, and at most that
     * of the anchor's least similar positive less a number, or less a share of its absolute value.
     */
    const double *max_score, *min_score, *absolute_margin, *relative_margin;
    bool random;   /* draw the negatives from the candidates; or the most similar ones */
    uint64_t seed; /* of the draws */
    const weft_embed_settings
        *settings; /* pooling, linears, prompts, longest text; NULL: all zero */
    weft_batch_options batch;
    weft_mine_callback *callback; /* NULL: none */
    void *context;
} weft_mine_options;

/* The different pairs, ordered by their anchors, with their negatives. Texts are those of the
 * request. */
typedef struct weft_mined {
    int64_t n, num_negatives, queries, documents; /* the last two: different texts */
    const char **anchors, **positives;            /* (n) */
    const char **negatives; /* (n, num_negatives), the most similar first; NULL: no more found */
    float *positive_scores; /* (n): cosines */
    float *scores;          /* (n, num_negatives) */
    int64_t by_absolute_margin, by_relative_margin, by_max_score, by_min_score; /* left out */
} weft_mined;

/* Finds for each anchor the most similar texts that are not its positives, among the corpus and all
 * positives, as mine_hard_negatives of sentence-transformers does: of the range_max most similar
 * candidates those within the limits, without the first range_min. Of candidates with equal cosines
 * the earlier one comes first. All vectors are in memory, but their cosines only for a block of
 * anchors and documents. Free *out with weft_mined_free. WEFT_INVALID for options out of range and
 * without pairs; WEFT_CANCELLED when stopped. NULL options: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_mine_negatives(weft_model *model,
                                                        const weft_tokenizer *tokenizer,
                                                        const weft_mine_texts *texts,
                                                        const weft_mine_options *options,
                                                        weft_mined *out) WEFT_NONNULL(1, 2, 3, 5);
WEFT_API void weft_mined_free(weft_mined *mined) WEFT_NONNULL(1); /* leaves it zeroed */

#ifdef __cplusplus
}
#endif
#endif
