/* tests/train/test_retrieval.c -- measures of rankings and hard negatives against
 * sentence-transformers', and data that is refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/mining.h"
#include "weft/retrieval.h"
#include "weft/weft.h"

static weft_dataset *load(const char *path, const weft_embed_settings *settings)
{
    weft_tokenizer *tokenizer = NULL;
    weft_dataset *data = NULL;
    const weft_dataset_options o = {.examples = WEFT_EXAMPLES_TEXTS,
                                    .length = settings->max_tokens + 1,
                                    .query_prompt = settings->query_prompt,
                                    .passage_prompt = settings->passage_prompt};
    CHECK_OK(weft_tokenizer_load(check_fixture("models/bert"), &tokenizer));
    CHECK_OK(weft_dataset_load(path, tokenizer, &o, 0, &data, NULL));
    weft_tokenizer_free(tokenizer);
    return data;
}

/* The number of a member of expected.json. */
static double expected(const char *text, const char *name)
{
    char key[64];
    double value = NAN;
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(text, key);
    if (CHECK(at != NULL))
        CHECK_EQ_INT(sscanf(at + strlen(key), "%lf", &value), 1);
    return value;
}

static void measures_equal_sentence_transformers(void)
{
    weft_model *model = NULL;
    weft_embed_settings settings = {0};
    weft_retrieval found = {0};
    char *text = NULL;
    size_t size = 0;
    if (!CHECK_OK(weft_file_read(check_fixture("train/retrieval/expected.json"), 0, &text, &size)))
        return;
    CHECK_OK(weft_model_load(check_fixture("models/bert"), NULL, &model));
    CHECK_OK(weft_embed_settings_load(check_fixture("models/bert"), NULL, &settings));
    weft_dataset *data = load(check_fixture("train/retrieval/rows.jsonl"), &settings);
    const weft_embed_options o = {.pooling = settings.pooling, .dense = settings.dense};
    if (model && data && CHECK_OK(weft_evaluate_retrieval(model, data, &o, &found))) {
        CHECK_EQ_INT(found.queries, (int64_t)expected(text, "queries"));
        CHECK_EQ_INT(found.documents, (int64_t)expected(text, "documents"));
        for (int m = 0; m < WEFT_RETRIEVAL_METRICS; m++) {
            double sum = 0;
            CHECK_CLOSE(found.mean[m], expected(text, weft_retrieval_metric_name(m)), 1e-12);
            for (int64_t q = 0; q < found.queries; q++)
                sum += found.values[m * found.queries + q];
            CHECK_CLOSE(sum / (double)found.queries, found.mean[m], 1e-12);
            CHECK(found.standard_error[m] >= 0 && found.standard_error[m] < 0.1);
        }
    }
    CHECK(weft_retrieval_metric_name(WEFT_RETRIEVAL_METRICS) == NULL);
    weft_retrieval_free(&found);
    weft_dataset_free(data);
    weft_embed_settings_free(&settings);
    weft_model_free(model);
    weft_free(text);
}

static void other_datasets_are_refused(void)
{
    static const int32_t ids[] = {1, 2, 3};
    static const float weights[] = {0, 0, 1};
    weft_model *model = NULL;
    weft_dataset *data = NULL;
    weft_retrieval found;
    CHECK_OK(weft_model_load(check_fixture("models/bert"), NULL, &model));
    CHECK_OK(weft_dataset_new(0, &data));
    CHECK_STATUS(weft_evaluate_retrieval(model, data, NULL, &found), WEFT_INVALID);
    CHECK_OK(weft_dataset_add(data, ids, 3, 0));
    CHECK_STATUS(weft_evaluate_retrieval(model, data, NULL, &found), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected a dataset of texts to be compared");
    CHECK(found.values == NULL);
    weft_dataset_free(data);
    data = NULL;
    const weft_sample pair[] = {{ids, weights, 3, 0}, {ids, weights, 3, 0}};
    CHECK_OK(weft_dataset_new(0, &data));
    CHECK_OK(weft_dataset_add_texts(data, pair, 2, &(float){0}));
    CHECK_STATUS(weft_evaluate_retrieval(model, data, NULL, &found), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "the texts have scores");
    weft_dataset_free(data);
    weft_model_free(model);
}

static const double one = 0.01, two = 0.02, low = 0.85, high = 0.93;

static void negatives_are_those_of_sentence_transformers(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s", check_fixture("models/bert"));
    check_mining(path, "bert", "triplets", &(weft_mine_options){0}, false, false);
    check_mining(path, "bert", "tuples",
                 &(weft_mine_options){.range_min = 2, .range_max = 20, .num_negatives = 4}, true,
                 true);
    check_mining(path, "bert", "relative",
                 &(weft_mine_options){.relative_margin = &two, .num_negatives = 2}, false, false);
    check_mining(path, "bert", "limits",
                 &(weft_mine_options){.max_score = &high, .min_score = &low, .num_negatives = 2},
                 true, false);
    check_mining(path, "bert", "margin",
                 &(weft_mine_options){.absolute_margin = &one, .num_negatives = 1}, false, false);
}

/* ---- many pairs ------------------------------------------------------------------------------ */

enum { N = 150, ANCHORS = 130 }; /* more than one block */

typedef struct many {
    char anchors[N][32], positives[N][32];
    const char *a[N], *p[N];
    weft_mine_texts texts;
    weft_model *model;
    weft_tokenizer *tokenizer;
} many;

static bool open_many(many *m)
{
    *m = (many){.texts = {m->a, m->p, N, NULL, 0}};
    for (int i = 0; i < N; i++) {
        snprintf(m->anchors[i], sizeof m->anchors[i], "king %d", i % ANCHORS);
        snprintf(m->positives[i], sizeof m->positives[i], "a fox and %d", i);
        m->a[i] = m->anchors[i];
        m->p[i] = m->positives[i];
    }
    return CHECK_OK(weft_model_load(check_fixture("models/bert"), NULL, &m->model)) &&
           CHECK_OK(weft_tokenizer_load(check_fixture("models/bert"), &m->tokenizer));
}

static void close_many(many *m)
{
    weft_tokenizer_free(m->tokenizer);
    weft_model_free(m->model);
}

static weft_status mine(many *m, weft_mine_options o, weft_mined *out)
{
    return weft_mine_negatives(m->model, m->tokenizer, &m->texts, &o, out);
}

typedef struct calls {
    int64_t done, total, stop; /* stop: stops there */
} calls;

static bool note(void *context, int64_t done, int64_t total)
{
    calls *c = context;
    CHECK(done > c->done && done <= total);
    *c = (calls){done, total, c->stop};
    return done < c->stop;
}

static void random_negatives_are_among_the_candidates(void)
{
    static many m;
    weft_mined all = {0}, drawn = {0};
    calls c = {.stop = INT64_MAX};
    int64_t first = 0;
    if (!open_many(&m))
        return;
    CHECK_OK(mine(
        &m,
        (weft_mine_options){.num_negatives = 20, .range_max = 20, .callback = note, .context = &c},
        &all));
    CHECK(all.n == N && all.queries == ANCHORS && all.documents == N);
    CHECK_EQ_INT(c.done, c.total);
    CHECK_EQ_INT(c.total, N + 2 * ANCHORS);
    CHECK_OK(mine(
        &m, (weft_mine_options){.num_negatives = 5, .range_max = 20, .random = true, .seed = 3},
        &drawn));
    for (int64_t i = 0; all.n == N && drawn.n == N && i < N * 5; i++) {
        const char *const *among = all.negatives + i / 5 * 20;
        int64_t k = 0;
        while (k < 20 && strcmp(among[k], drawn.negatives[i]) != 0)
            k++;
        CHECK(k < 20);
        first += k < 5;
        CHECK(i % 5 == 0 || drawn.scores[i] <= drawn.scores[i - 1]);
        CHECK(strcmp(drawn.negatives[i], drawn.positives[i / 5]) != 0);
    }
    CHECK(first > N / 2 && first < 3 * N); /* about a quarter of 5 N */
    weft_mined_free(&all);
    weft_mined_free(&drawn);
    close_many(&m);
}

static void options_of_mining_are_checked(void)
{
    static many m;
    const double nan = NAN;
    weft_mined all;
    const struct {
        weft_mine_options o;
        const char *part;
    } wrong[] = {
        {{.num_negatives = -1}, "num_negatives, range_min and range_max of at least 0, got -1"},
        {{.range_max = 2}, "range_max - range_min of at least num_negatives, 3, got 2 - 0"},
        {{.range_min = 5, .range_max = 7}, "got 7 - 5"},
        {{.max_score = &nan}, "expected finite scores and margins, got nan"},
    };
    if (!open_many(&m))
        return;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_STATUS(mine(&m, wrong[i].o, &all), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), wrong[i].part);
    }
    for (int64_t stop = 1; stop < 500; stop += 350) { /* in both phases */
        calls c = {.stop = stop};
        CHECK_STATUS(mine(&m, (weft_mine_options){.callback = note, .context = &c}, &all),
                     WEFT_CANCELLED);
        CHECK(all.negatives == NULL);
    }
    m.texts.n = 0;
    CHECK_STATUS(mine(&m, (weft_mine_options){0}, &all), WEFT_INVALID);
    close_many(&m);
}

CHECK_MAIN("retrieval", CHECK_CASE(measures_equal_sentence_transformers),
           CHECK_CASE(other_datasets_are_refused),
           CHECK_CASE(negatives_are_those_of_sentence_transformers),
           CHECK_CASE(random_negatives_are_among_the_candidates),
           CHECK_CASE(options_of_mining_are_checked))
