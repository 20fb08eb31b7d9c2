/* weft/retrieval.h -- how well the vectors of texts find each other.
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

#ifdef __cplusplus
}
#endif
#endif
