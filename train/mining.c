/* train/mining.c -- hard negatives: texts that are similar to an anchor without being its positive,
 * chosen as sentence-transformers' mine_hard_negatives does. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/linkhash.h>

#include "core/failure.h"
#include "core/hash.h"
#include "core/io/text.h"
#include "train/data/dataset.h"
#include "train/vectors.h"
#include "weft/array.h"
#include "weft/linalg.h"
#include "weft/memory.h"
#include "weft/retrieval.h"
#include "weft/shape.h"

enum { DEFAULT_NEGATIVES = 3, BLOCK = 64, COLUMNS = 16384 };

/* ---- different texts --------------------------------------------------------------------------
 */

typedef struct text_set {
    struct lh_table *numbers; /* by the text */
    const char **at;          /* (n), in the order of their first occurrence */
    int64_t n;
} text_set;

static weft_status open_texts(text_set *t, int64_t most)
{
    const int size = most < INT32_MAX / 2 ? (int)(2 * most) + 16 : INT32_MAX;
    *t = (text_set){.numbers = lh_kchar_table_new(size, NULL),
                    .at = weft_calloc((size_t)most + 1, sizeof *t->at)};
    return t->numbers && t->at ? WEFT_OK : weft__out_of_memory("mining", "the texts");
}

static void close_texts(text_set *t)
{
    if (t->numbers)
        lh_table_free(t->numbers);
    weft_free(t->at);
}

/* The number of a text, which is added if it is new; -1: out of memory. */
static int64_t number_of(text_set *t, const char *text)
{
    void *found;
    if (lh_table_lookup_ex(t->numbers, text, &found))
        return (intptr_t)found;
    t->at[t->n] = text;
    return lh_table_insert(t->numbers, text, (const void *)(intptr_t)t->n) == 0 ? t->n++ : -1;
}

/* ---- the search ------------------------------------------------------------------------------ */

/* A pair of an anchor and its positive, as numbers of texts. */
typedef struct pair {
    int64_t query, document;
} pair;

typedef struct candidate {
    float score;
    int64_t document;
} candidate;

typedef struct search {
    const weft_mine_options *o;
    text_set queries, documents;
    pair *pairs; /* (n_pairs), different, by anchor */
    int64_t n_pairs;
    int64_t most_positives; /* rows of one anchor */
    int64_t negatives, range_max, k;
    float *vectors; /* (queries + documents, D), of norm 1 */
    int64_t D;
    weft_mined *out;
} search;

/* Whether a is before b: the more similar, or the earlier document. */
static bool is_before(const candidate *a, const candidate *b)
{
    return a->score > b->score || (a->score == b->score && a->document < b->document);
}

static int compare_candidates(const void *a, const void *b)
{
    return is_before(a, b) ? -1 : is_before(b, a);
}

/* Adds a candidate to the k first ones of a heap, whose root is the last of them. */
static void add_candidate(candidate *heap, int64_t *n, int64_t k, candidate c)
{
    int64_t i = 0;
    if (*n < k) {
        for (i = (*n)++; i > 0 && is_before(&heap[(i - 1) / 2], &c); i = (i - 1) / 2)
            heap[i] = heap[(i - 1) / 2];
        heap[i] = c;
        return;
    }
    if (!is_before(&c, &heap[0]))
        return;
    for (int64_t next; (next = 2 * i + 1) < k; i = next) {
        next += next + 1 < k && is_before(&heap[next], &heap[next + 1]);
        if (!is_before(&c, &heap[next]))
            break;
        heap[i] = heap[next];
    }
    heap[i] = c;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static weft_status check_options(const weft_mine_options *o)
{
    const double *const numbers[] = {o->max_score, o->min_score, o->absolute_margin,
                                     o->relative_margin};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i] && !isfinite(*numbers[i]))
            return weft_fail(WEFT_INVALID, "mining: expected finite scores and margins, got %g",
                             *numbers[i]);
    }
    const int64_t sizes[] = {o->num_negatives, o->range_min, o->range_max};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] < 0 || sizes[i] > INT32_MAX)
            return weft_fail(WEFT_INVALID,
                             "mining: expected num_negatives, range_min and range_max of at least "
                             "0, got %lld",
                             (long long)sizes[i]);
    }
    return WEFT_OK;
}

/* Fills in the sizes, which depend on the number of positives of an anchor. */
static weft_status find_sizes(search *s)
{
    const weft_mine_options *o = s->o;
    const bool limited = o->absolute_margin || o->relative_margin || o->max_score;
    const int64_t C = s->documents.n;
    s->negatives = o->num_negatives > 0 ? o->num_negatives : DEFAULT_NEGATIVES;
    s->range_max = o->range_max > 0
                       ? o->range_max
                       : o->range_min + (limited ? 10 : 1) * s->negatives + s->most_positives;
    if (s->negatives > s->range_max - o->range_min)
        return weft_fail(WEFT_INVALID,
                         "mining: expected range_max - range_min of at least num_negatives, %lld, "
                         "got %lld - %lld",
                         (long long)s->negatives, (long long)s->range_max, (long long)o->range_min);
    s->k = s->range_max < C ? s->range_max + s->most_positives : C;
    s->k = s->k < C ? s->k : C;
    return WEFT_OK;
}

/* Collects the different pairs in the order of their anchors, whose positives keep the order of the
 * rows. `next` (n) and `first` (queries) are lists of each anchor's rows. */
static void order_pairs(search *s, const pair *rows, const int64_t *first, const int64_t *next,
                        int64_t *seen)
{
    for (int64_t q = 0; q < s->queries.n; q++) {
        int64_t count = 0;
        for (int64_t row = first[q]; row >= 0; row = next[row], count++) {
            if (seen[rows[row].document] == q + 1)
                continue;
            seen[rows[row].document] = q + 1;
            s->pairs[s->n_pairs++] = rows[row];
        }
        s->most_positives = count > s->most_positives ? count : s->most_positives;
    }
}

static weft_status find_pairs(search *s, const pair *rows, int64_t n)
{
    int64_t *lists = weft_malloc((size_t)(3 * n + 1) * sizeof *lists);
    int64_t *seen = weft_calloc((size_t)s->documents.n + 1, sizeof *seen);
    int64_t *first = lists, *last = lists ? lists + n : NULL, *next = lists ? lists + 2 * n : NULL;
    s->pairs = weft_calloc((size_t)n + 1, sizeof *s->pairs);
    const bool fine = lists && seen && s->pairs;
    for (int64_t i = 0; fine && i < n; i++)
        first[i] = next[i] = -1;
    for (int64_t i = 0; fine && i < n; i++) {
        const int64_t q = rows[i].query;
        *(first[q] < 0 ? &first[q] : &next[last[q]]) = i;
        last[q] = i;
    }
    if (fine)
        order_pairs(s, rows, first, next, seen);
    weft_free(lists);
    weft_free(seen);
    return fine ? WEFT_OK : weft__out_of_memory("mining", "the pairs");
}

/* The documents are the corpus, and positives that it lacks. */
static weft_status find_texts(search *s, const weft_mine_texts *t)
{
    pair *rows = weft_calloc((size_t)t->n + 1, sizeof *rows);
    weft_status status = rows ? open_texts(&s->queries, t->n) : weft__out_of_memory("mining", NULL);
    if (status == WEFT_OK)
        status = open_texts(&s->documents, t->n + t->n_corpus);
    bool added = status == WEFT_OK;
    for (int64_t i = 0; added && i < t->n_corpus; i++)
        added = number_of(&s->documents, t->corpus[i]) >= 0;
    for (int64_t i = 0; added && i < t->n; i++) {
        rows[i] = (pair){number_of(&s->queries, t->anchors[i]),
                         number_of(&s->documents, t->positives[i])};
        added = rows[i].query >= 0 && rows[i].document >= 0;
    }
    if (status == WEFT_OK && !added)
        status = weft__out_of_memory("mining", "the texts");
    if (status == WEFT_OK)
        status = find_pairs(s, rows, t->n);
    weft_free(rows);
    return status;
}

/* ---- vectors --------------------------------------------------------------------------------- */

/* The ids of a text behind its prompt, cut to `most` (0: all). */
static weft_status encode(const weft_tokenizer *tokenizer, const char *before, const char *text,
                          int64_t most, weft_prompt *out)
{
    char *whole = weft_format("%s%s", before ? before : "", text);
    int32_t *ids = NULL;
    size_t n = 0;
    const weft_status status = whole ? weft_tokenizer_encode(tokenizer, whole, strlen(whole),
                                                             WEFT_TOKENIZER_ADD_SPECIAL, &ids, &n)
                                     : weft__out_of_memory("mining", "a text");
    weft_free(whole);
    if (status == WEFT_OK && most > 0)
        n = weft_tokenizer_truncate(tokenizer, ids, n, (size_t)most);
    *out = (weft_prompt){ids, n};
    return status;
}

static bool report(void *context, int64_t done)
{
    const search *s = context;
    const int64_t total = 2 * s->queries.n + s->documents.n;
    return s->o->callback == NULL || s->o->callback(s->o->context, done, total);
}

static weft_status embed_texts(search *s, weft_model *model, const weft_tokenizer *tokenizer)
{
    static const weft_embed_settings none = {0};
    const weft_embed_settings *e = s->o->settings ? s->o->settings : &none;
    const int64_t Q = s->queries.n, n = Q + s->documents.n,
                  positions = weft_model_info_of(model)->max_positions;
    const int64_t most = e->max_tokens > 0 && (positions == 0 || e->max_tokens < positions)
                             ? e->max_tokens
                             : positions;
    const weft_embed_options o = {.pooling = e->pooling, .dense = e->dense, .batch = s->o->batch};
    weft_prompt *prompts = weft_calloc((size_t)n + 1, sizeof *prompts);
    weft_status status = prompts ? WEFT_OK : weft__out_of_memory("mining", "the texts");
    for (int64_t i = 0; status == WEFT_OK && i < n; i++)
        status = encode(tokenizer, i < Q ? e->query_prompt : e->passage_prompt,
                        i < Q ? s->queries.at[i] : s->documents.at[i - Q], most, &prompts[i]);
    if (status == WEFT_OK)
        status = weft__vectors_of(model, prompts, n, &o, report, s, &s->vectors, &s->D);
    for (int64_t i = 0; prompts && i < n; i++)
        weft_free((int32_t *)prompts[i].ids);
    weft_free(prompts);
    return status;
}

/* ---- choosing ---------------------------------------------------------------------------------
 */

static float cosine(const search *s, const pair *p)
{
    const float *a = s->vectors + p->query * s->D,
                *b = s->vectors + (s->queries.n + p->document) * s->D;
    double sum = 0;
    for (int64_t i = 0; i < s->D; i++)
        sum += (double)a[i] * (double)b[i];
    return (float)sum;
}

/* Whether the limits leave a candidate; `least` is the lowest score of the anchor's positives. */
static bool passes(const search *s, float score, float least)
{
    const weft_mine_options *o = s->o;
    int64_t *limit = NULL;
    if (o->absolute_margin && score + (float)*o->absolute_margin > least)
        limit = &s->out->by_absolute_margin;
    else if (o->relative_margin && score > least - fabsf(least) * (float)*o->relative_margin)
        limit = &s->out->by_relative_margin;
    else if (o->max_score && score > (float)*o->max_score)
        limit = &s->out->by_max_score;
    else if (o->min_score && score < (float)*o->min_score)
        limit = &s->out->by_min_score;
    if (limit)
        ++*limit;
    return limit == NULL;
}

/* Draws m of n candidates without replacement, in their order. */
static void draw(candidate *c, int64_t n, int64_t m, uint64_t seed)
{
    uint64_t state = seed;
    for (int64_t i = 0; i < m; i++) {
        const int64_t k = i + (int64_t)(weft__draw_seed(&state) % (uint64_t)(n - i));
        const candidate drawn = c[k];
        c[k] = c[i];
        c[i] = drawn;
    }
    qsort(c, (size_t)m, sizeof *c, compare_candidates);
}

/* Chooses the negatives of query q among the n most similar documents, for each of its pairs
 * [from, to). */
static void choose(const search *s, int64_t q, candidate *c, int64_t n, int64_t from, int64_t to)
{
    const int64_t most = s->negatives;
    float least = INFINITY;
    int64_t kept = 0;
    for (int64_t p = from; p < to; p++) {
        s->out->positive_scores[p] = cosine(s, &s->pairs[p]);
        least = fminf(least, s->out->positive_scores[p]);
    }
    qsort(c, (size_t)n, sizeof *c, compare_candidates);
    for (int64_t i = 0; i < n && kept < s->range_max; i++) {
        bool positive = false;
        for (int64_t p = from; p < to && !positive; p++)
            positive = s->pairs[p].document == c[i].document;
        if (!positive && passes(s, c[i].score, least))
            c[kept++] = c[i];
    }
    const int64_t skipped = s->o->range_min < kept ? s->o->range_min : kept;
    c += skipped;
    kept -= skipped;
    if (s->o->random && kept > most)
        draw(c, kept, most, weft__mix(s->o->seed, (uint64_t)q));
    for (int64_t p = from; p < to; p++) {
        for (int64_t i = 0; i < most && i < kept; i++) {
            s->out->negatives[p * most + i] = s->documents.at[c[i].document];
            s->out->scores[p * most + i] = c[i].score;
        }
    }
}

/* ---- searching ------------------------------------------------------------------------------- */

/* Finds the k most similar documents of queries [from, to), whose heaps hold k candidates each. The
 * documents' vectors are (D, documents). */
static weft_status search_block(const search *s, weft_array *documents, int64_t from, int64_t to,
                                float *scores, candidate *heaps, int64_t n[BLOCK])
{
    const int64_t C = s->documents.n, D = s->D;
    weft_status status = WEFT_OK;
    for (int64_t first = 0; status == WEFT_OK && first < C; first += COLUMNS) {
        const int64_t columns = C - first < COLUMNS ? C - first : COLUMNS;
        weft_scope_open_lean();
        weft_array *q =
            weft_from_data(s->vectors + from * D, WEFT_FLOAT32, WEFT_DIMS(to - from, D));
        weft_array *part = weft_slice_axis(documents, 1, first, first + columns);
        status = weft_read(weft_matmul(q, part), WEFT_FLOAT32, scores, (to - from) * columns);
        weft_scope_close(NULL);
        for (int64_t i = 0; status == WEFT_OK && i < (to - from) * columns; i++)
            add_candidate(heaps + i / columns * s->k, &n[i / columns], s->k,
                          (candidate){scores[i], first + i % columns});
    }
    return status;
}

static weft_status search_all(search *s)
{
    const int64_t Q = s->queries.n, C = s->documents.n;
    candidate *heaps = weft_malloc((size_t)(BLOCK * s->k + 1) * sizeof *heaps);
    float *scores = weft_malloc((size_t)(BLOCK * (C < COLUMNS ? C : COLUMNS)) * sizeof *scores);
    weft_status status =
        heaps && scores ? WEFT_OK : weft__out_of_memory("mining", "the candidates");
    int64_t next = 0;
    weft_scope_open();
    weft_array *documents = weft_swapaxes(
        weft_from_data(s->vectors + Q * s->D, WEFT_FLOAT32, WEFT_DIMS(C, s->D)), 0, 1);
    for (int64_t from = 0; status == WEFT_OK && from < Q; from += BLOCK) {
        const int64_t to = from + BLOCK < Q ? from + BLOCK : Q;
        int64_t n[BLOCK] = {0};
        status = search_block(s, documents, from, to, scores, heaps, n);
        for (int64_t q = from; status == WEFT_OK && q < to; q++) {
            const int64_t first = next;
            while (next < s->n_pairs && s->pairs[next].query == q)
                next++;
            choose(s, q, heaps + (q - from) * s->k, n[q - from], first, next);
        }
        if (status == WEFT_OK && !report(s, Q + C + to))
            status = weft_fail(WEFT_CANCELLED, "mining: stopped after %lld of %lld anchors",
                               (long long)to, (long long)Q);
    }
    weft_scope_close(NULL);
    weft_free(heaps);
    weft_free(scores);
    return status;
}

static weft_status make_result(search *s)
{
    const size_t n = (size_t)s->n_pairs, all = n * (size_t)s->negatives;
    weft_mined *out = s->out;
    out->n = s->n_pairs;
    out->num_negatives = s->negatives;
    out->queries = s->queries.n;
    out->documents = s->documents.n;
    out->anchors = weft_calloc(n + 1, sizeof *out->anchors);
    out->positives = weft_calloc(n + 1, sizeof *out->positives);
    out->negatives = weft_calloc(all + 1, sizeof *out->negatives);
    out->positive_scores = weft_calloc(n + 1, sizeof *out->positive_scores);
    out->scores = weft_calloc(all + 1, sizeof *out->scores);
    if (!out->anchors || !out->positives || !out->negatives || !out->positive_scores ||
        !out->scores)
        return weft__out_of_memory("mining", "the negatives");
    for (int64_t p = 0; p < s->n_pairs; p++) {
        out->anchors[p] = s->queries.at[s->pairs[p].query];
        out->positives[p] = s->documents.at[s->pairs[p].document];
    }
    return WEFT_OK;
}

weft_status weft_mine_negatives(weft_model *model, const weft_tokenizer *tokenizer,
                                const weft_mine_texts *texts, const weft_mine_options *options,
                                weft_mined *out)
{
    static const weft_mine_options defaults = {0};
    search s = {.o = options ? options : &defaults, .out = out};
    *out = (weft_mined){.n = 0};
    weft_status status = check_options(s.o);
    if (status == WEFT_OK && texts->n < 1)
        status = weft_fail(WEFT_INVALID, "mining: expected pairs of an anchor and a positive");
    if (status == WEFT_OK)
        status = find_texts(&s, texts);
    if (status == WEFT_OK)
        status = find_sizes(&s);
    if (status == WEFT_OK)
        status = embed_texts(&s, model, tokenizer);
    if (status == WEFT_OK)
        status = make_result(&s);
    if (status == WEFT_OK)
        status = search_all(&s);
    close_texts(&s.queries);
    close_texts(&s.documents);
    weft_free(s.pairs);
    weft_free(s.vectors);
    if (status != WEFT_OK)
        weft_mined_free(out);
    return status;
}

void weft_mined_free(weft_mined *mined)
{
    weft_free(mined->anchors);
    weft_free(mined->positives);
    weft_free(mined->negatives);
    weft_free(mined->positive_scores);
    weft_free(mined->scores);
    *mined = (weft_mined){.n = 0};
}
