/* train/retrieval.c -- ranks documents for queries by their vectors, and measures the rankings. */
#include "weft/retrieval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/hash.h"
#include "train/data/dataset.h"
#include "train/examples.h"
#include "train/vectors.h"
#include "weft/array.h"
#include "weft/linalg.h"
#include "weft/memory.h"
#include "weft/shape.h"

static const char *const names[WEFT_RETRIEVAL_METRICS] = {"ndcg@10", "mrr@10", "recall@1",
                                                          "recall@10", "recall@100"};

const char *weft_retrieval_metric_name(int metric)
{
    return metric >= 0 && metric < WEFT_RETRIEVAL_METRICS ? names[metric] : NULL;
}

/* Different texts: samples of the dataset, and a hash table of them. */
typedef struct texts {
    const weft_dataset *data;
    int64_t *samples, n;  /* the first sample of each text */
    int64_t *table, size; /* numbers of texts, -1: empty; a power of two */
} texts;

typedef struct search {
    texts queries, documents;
    int64_t *query, *document; /* (examples): the texts of an example's anchor and positive */
    float *vectors;            /* (queries + documents, D), divided by their norms */
    int64_t D;
} search;

static weft_status open_texts(texts *t, const weft_dataset *data, int64_t most)
{
    *t = (texts){.data = data, .size = 16};
    while (t->size < 2 * most)
        t->size *= 2;
    t->samples = weft_calloc((size_t)most + 1, sizeof *t->samples);
    t->table = weft_malloc((size_t)t->size * sizeof *t->table);
    if (t->samples == NULL || t->table == NULL)
        return weft__out_of_memory("retrieval", "the texts");
    for (int64_t i = 0; i < t->size; i++)
        t->table[i] = -1;
    return WEFT_OK;
}

static void close_texts(texts *t)
{
    weft_free(t->samples);
    weft_free(t->table);
}

/* Whether two samples are the same text: that of the rows, so that every model has the same texts,
 * or, of samples that no row has, the ids. */
static bool are_equal(const weft_dataset *d, int64_t a, int64_t b)
{
    if (d->samples[a].text || d->samples[b].text)
        return d->samples[a].text == d->samples[b].text;
    const weft_sample x = weft_dataset_at(d, a), y = weft_dataset_at(d, b);
    return x.length == y.length && memcmp(x.ids, y.ids, (size_t)x.length * sizeof *x.ids) == 0;
}

/* The number of the text of a sample, which is added if it is new. */
static int64_t number_of(texts *t, int64_t sample)
{
    const weft_sample s = weft_dataset_at(t->data, sample);
    const uint64_t text = t->data->samples[sample].text;
    uint64_t hash = text;
    for (int64_t i = 0; text == 0 && i < s.length; i++)
        hash = weft__mix(hash, (uint64_t)s.ids[i]);
    int64_t at = (int64_t)(hash & (uint64_t)(t->size - 1));
    for (; t->table[at] >= 0; at = (at + 1) & (t->size - 1)) {
        if (are_equal(t->data, t->samples[t->table[at]], sample))
            return t->table[at];
    }
    t->samples[t->n] = sample;
    return t->table[at] = t->n++;
}

/* Finds the different texts, and those of each example. */
static weft_status find_texts(const weft_dataset *data, search *s)
{
    const int64_t n = weft__examples_count(data), M = data->info.texts;
    weft_status status = open_texts(&s->queries, data, n);
    if (status == WEFT_OK)
        status = open_texts(&s->documents, data, n * (M - 1));
    s->query = weft_calloc((size_t)n, sizeof *s->query);
    s->document = weft_calloc((size_t)n, sizeof *s->document);
    if (status == WEFT_OK && (s->query == NULL || s->document == NULL))
        status = weft__out_of_memory("retrieval", "the texts");
    for (int64_t e = 0; status == WEFT_OK && e < n; e++) {
        s->query[e] = number_of(&s->queries, M * e);
        s->document[e] = number_of(&s->documents, M * e + 1);
        for (int64_t k = 2; k < M; k++)
            (void)number_of(&s->documents, M * e + k);
    }
    return status;
}

/* ---- vectors -------------------------------------------------------------------------------- */

static weft_status embed_texts(weft_model *model, const weft_embed_options *options, search *s)
{
    const int64_t Q = s->queries.n, n = Q + s->documents.n;
    weft_prompt *prompts = weft_calloc((size_t)n, sizeof *prompts);
    weft_status status = prompts ? WEFT_OK : weft__out_of_memory("retrieval", "the vectors");
    for (int64_t i = 0; status == WEFT_OK && i < n; i++) {
        const texts *t = i < Q ? &s->queries : &s->documents;
        const weft_sample text = weft_dataset_at(t->data, t->samples[i < Q ? i : i - Q]);
        prompts[i] = (weft_prompt){text.ids, (size_t)text.length - 1}; /* the last id is a mark */
    }
    if (status == WEFT_OK)
        status = weft__vectors_of(model, prompts, n, options, NULL, NULL, &s->vectors, &s->D);
    weft_free(prompts);
    return status;
}

/* ---- ranks ---------------------------------------------------------------------------------- */

/* The place of document d among C scores, from 1. */
static int64_t rank_of(const float *scores, int64_t C, int64_t d)
{
    int64_t rank = 1;
    for (int64_t i = 0; i < C; i++)
        rank += scores[i] > scores[d] || (scores[i] == scores[d] && i < d);
    return rank;
}

/* Adds a relevant document at a rank to the values of query q. */
static void add_rank(double *values, int64_t Q, int64_t q, int64_t rank)
{
    const double place = (double)rank;
    if (rank <= 10) {
        values[q] += 1 / log2(place + 1);
        values[Q + q] = fmax(values[Q + q], 1 / place);
    }
    values[2 * Q + q] += rank <= 1;
    values[3 * Q + q] += rank <= 10;
    values[4 * Q + q] += rank <= 100;
}

/* Divides the sums of query q by those of the best ranking of so many relevant documents. */
static void finish_query(double *values, int64_t Q, int64_t q, int64_t relevant)
{
    double best = 0;
    for (int64_t i = 0; i < relevant && i < 10; i++)
        best += 1 / log2((double)i + 2);
    values[q] /= best;
    for (int m = 2; m < WEFT_RETRIEVAL_METRICS; m++)
        values[m * Q + q] /= (double)relevant;
}

/* The examples in the order of their queries and documents. */
typedef struct pair {
    int64_t query, document;
} pair;

static int by_query(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    if (x->query != y->query)
        return x->query < y->query ? -1 : 1;
    return x->document < y->document ? -1 : x->document > y->document;
}

/* Ranks the documents, whose vectors are (D, documents), for queries from .. to, whose relevant
 * documents are the pairs from *next on.
 */
static weft_status rank_block(const search *s, weft_array *documents, int64_t from, int64_t to,
                              const pair *pairs, int64_t n, int64_t *next, float *scores,
                              double *values)
{
    const int64_t Q = s->queries.n, C = s->documents.n, D = s->D;
    weft_scope_open_lean();
    weft_array *q = weft_from_data(s->vectors + from * D, WEFT_FLOAT32, WEFT_DIMS(to - from, D));
    const weft_status status =
        weft_read(weft_matmul(q, documents), WEFT_FLOAT32, scores, (to - from) * C);
    weft_scope_close(NULL);
    for (int64_t i = from; status == WEFT_OK && i < to; i++) {
        int64_t relevant = 0;
        for (; *next < n && pairs[*next].query == i; ++*next) {
            const bool again = relevant > 0 && pairs[*next].document == pairs[*next - 1].document;
            if (again)
                continue;
            relevant++;
            add_rank(values, Q, i, rank_of(scores + (i - from) * C, C, pairs[*next].document));
        }
        finish_query(values, Q, i, relevant);
    }
    return status;
}

static weft_status rank_all(const search *s, int64_t n, double *values)
{
    enum { BLOCK = 64 };
    const int64_t Q = s->queries.n, C = s->documents.n;
    pair *pairs = weft_calloc((size_t)n, sizeof *pairs);
    float *scores = weft_malloc((size_t)(BLOCK * C) * sizeof *scores);
    weft_status status = pairs && scores ? WEFT_OK : weft__out_of_memory("retrieval", "the scores");
    for (int64_t e = 0; status == WEFT_OK && e < n; e++)
        pairs[e] = (pair){s->query[e], s->document[e]};
    if (status == WEFT_OK)
        qsort(pairs, (size_t)n, sizeof *pairs, by_query);
    weft_scope_open();
    weft_array *documents = weft_swapaxes(
        weft_from_data(s->vectors + Q * s->D, WEFT_FLOAT32, WEFT_DIMS(C, s->D)), 0, 1);
    for (int64_t from = 0, next = 0; status == WEFT_OK && from < Q; from += BLOCK)
        status = rank_block(s, documents, from, from + BLOCK < Q ? from + BLOCK : Q, pairs, n,
                            &next, scores, values);
    weft_scope_close(NULL);
    weft_free(scores);
    weft_free(pairs);
    return status;
}

static void summarize(weft_retrieval *r)
{
    const double n = (double)r->queries;
    for (int m = 0; m < WEFT_RETRIEVAL_METRICS; m++) {
        const double *values = r->values + m * r->queries;
        double sum = 0, squares = 0;
        for (int64_t q = 0; q < r->queries; q++)
            sum += values[q];
        r->mean[m] = sum / n;
        for (int64_t q = 0; q < r->queries; q++)
            squares += (values[q] - r->mean[m]) * (values[q] - r->mean[m]);
        r->standard_error[m] = n > 1 ? sqrt(squares / (n - 1) / n) : (double)NAN;
    }
}

weft_status weft_evaluate_retrieval(weft_model *model, const weft_dataset *dataset,
                                    const weft_embed_options *options, weft_retrieval *out)
{
    static const weft_embed_options defaults = {.normalize = true};
    search s = {.D = 0};
    *out = (weft_retrieval){.queries = 0};
    if (dataset->info.examples != WEFT_EXAMPLES_TEXTS || dataset->info.samples == 0)
        return weft_fail(WEFT_INVALID, "retrieval: expected a dataset of texts to be compared");
    if (dataset->info.scored)
        return weft_fail(WEFT_INVALID, "retrieval: the texts have scores: expected anchors and "
                                       "positives without");
    const int64_t n = weft__examples_count(dataset);
    weft_status status = find_texts(dataset, &s);
    if (status == WEFT_OK)
        status = embed_texts(model, options ? options : &defaults, &s);
    const int64_t Q = s.queries.n;
    double *values = status == WEFT_OK
                         ? weft_calloc((size_t)(WEFT_RETRIEVAL_METRICS * Q), sizeof *values)
                         : NULL;
    if (status == WEFT_OK)
        status = values ? rank_all(&s, n, values) : weft__out_of_memory("retrieval", NULL);
    if (status == WEFT_OK) {
        *out = (weft_retrieval){.queries = Q, .documents = s.documents.n, .values = values};
        summarize(out);
    } else {
        weft_free(values);
    }
    close_texts(&s.queries);
    close_texts(&s.documents);
    weft_free(s.query);
    weft_free(s.document);
    weft_free(s.vectors);
    return status;
}

void weft_retrieval_free(weft_retrieval *retrieval)
{
    weft_free(retrieval->values);
    *retrieval = (weft_retrieval){.queries = 0};
}
