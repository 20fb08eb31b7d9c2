/* tests/train/test_retrieval.c -- train/retrieval.c: measures of rankings against
 * sentence-transformers', and data that is refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
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

static void measures_are_sentence_transformers(void)
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

CHECK_MAIN("retrieval", CHECK_CASE(measures_are_sentence_transformers),
           CHECK_CASE(other_datasets_are_refused))
