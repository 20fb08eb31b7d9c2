/* tests/train/test_embed.c -- objectives that compare vectors of texts, against
 * sentence-transformers': every loss and gradient norm; batches that are computed in parts; refused
 * input; and the data. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/embedders.h"
#include "weft/batch.h"

/* One update with the examples of a step. */
static bool step(setting *s, const numbers *n, int i, weft_train_report *report)
{
    weft_dataset *data = dataset_of(n, i);
    const bool good = CHECK_OK(update(s, data, report));
    weft_dataset_free(data);
    return good;
}

static void run(const golden *g, int64_t micro)
{
    numbers n;
    setting s;
    double loss = 0, norm = 0;
    if (!read_golden(g->name, &n))
        return;
    if (open_setting(g, micro, false, &s)) {
        weft_train_report r = {0};
        for (int i = 0; i < STEPS && step(&s, &n, i, &r); i++) {
            loss = fmax(loss, fabs(r.loss / n.loss[i] - 1));
            norm = fmax(norm, fabs(r.grad_norm / n.norm[i] - 1));
        }
    }
    printf("  %s, %lld at a time: worst relative difference of loss %.2g, norm %.2g\n", g->name,
           (long long)micro, loss, norm);
    CHECK_CLOSE(loss, 0, 4e-6); /* float32 in another order of addition: up to 1.7e-6 is measured */
    CHECK_CLOSE(norm, 0, 6e-6);
    close_setting(&s);
}

static void every_loss_equals_sentence_transformers(void)
{
    for (int i = 0; i < N_EMBED_GOLDENS; i++)
        run(&embed_goldens[i], 0);
}

static void parts_give_the_same_losses(void)
{
    for (int i = 0; i < N_EMBED_GOLDENS; i++) {
        for (int64_t micro = 1; micro < EXAMPLES; micro += check_few() ? 3 : 1)
            run(&embed_goldens[i], micro);
    }
}

/* Dropout is drawn for each row of the batch, and is the same when it is drawn again. */
static void parts_have_the_dropout_of_the_batch(void)
{
    numbers n;
    weft_train_report whole = {0}, parts = {0};
    if (!read_golden("negatives", &n))
        return;
    for (int i = 0; i < 2; i++) {
        setting s;
        weft_train_report *r = i ? &parts : &whole;
        if (open_setting(&embed_goldens[1], i ? 2 : 0, true, &s)) {
            for (int k = 0; k < 3; k++)
                step(&s, &n, k, r);
        }
        close_setting(&s);
    }
    CHECK_RELATIVE(parts.loss, whole.loss, 1e-5);
    CHECK_RELATIVE(parts.grad_norm, whole.grad_norm, 1e-5);
}

/* ---- refused input -------------------------------------------------------------------------- */

static void other_data_is_refused(void)
{
    numbers n;
    setting s;
    if (!read_golden("ranking", &n) || !open_setting(&embed_goldens[4], 0, false, &s))
        return;
    weft_dataset *data = dataset_of(&n, 0);
    weft_batches *batches = NULL;
    weft_batch batch = {0};
    if (CHECK_OK(weft_batches_new(data, EXAMPLES, 0, &batches)) &&
        CHECK_OK(weft_batches_at(batches, 0, &batch))) {
        CHECK_STATUS(weft_trainer_step(s.trainer, &batch, 1, 1, NULL), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "triplet: batch: expected examples of 3 texts, got 2");
    }
    CHECK_STATUS(weft_batches_new_packed(data, EXAMPLES, 0, 0, &(weft_batches *){NULL}),
                 WEFT_UNSUPPORTED);
    const float score = 1;
    CHECK_STATUS(add_example(data, &n, 0, &score), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "the example has a score, those before it have none");
    n.texts = 1;
    CHECK_STATUS(add_example(data, &n, 0, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected 2 texts as before, got 1");
    weft_batch_free(&batch);
    weft_batches_free(batches);
    weft_dataset_free(data);
    close_setting(&s);
}

/* Weights that do not mark exactly the last token of a text. */
static void only_the_last_id_is_a_target(void)
{
    static const int32_t ids[] = {5, 6, 7, 0};
    static const struct {
        float weights[4];
        const char *message;
    } cases[] = {
        {{0, 1, 0, 1}, "a text: id 1: expected weight 0, got 1"},
        {{0, 0, 0, 0}, "a text: id 3: expected weight 1, got 0"},
        {{0, 0, 0, 0.5f}, "a text: id 3: expected weight 1, got 0.5"},
        {{0, 0, 1, 0}, "a text: id 2: expected weight 0, got 1"},
    };
    static const float right[] = {0, 0, 0, 1};
    weft_dataset *d = NULL;
    CHECK_OK(weft_dataset_new(0, &d));
    for (size_t i = 0; d && i < sizeof cases / sizeof *cases; i++) {
        const weft_sample pair[] = {{ids, right, 4, 0}, {ids, cases[i].weights, 4, 0}};
        CHECK_STATUS(weft_dataset_add_texts(d, pair, 2, NULL), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), cases[i].message);
    }
    const weft_sample unweighted[] = {{ids, NULL, 4, 0}, {ids, NULL, 4, 0}};
    CHECK_STATUS(weft_dataset_add_texts(d, unweighted, 2, NULL), WEFT_INVALID);
    CHECK_EQ_INT(weft_dataset_info_of(d).samples, 0);
    weft_dataset_free(d);
}

static void trainers_name_what_is_unsupported(void)
{
    static const struct {
        weft_trainer_options o;
        weft_status status;
        const char *message;
    } cases[] = {
        {{.objective = &weft_objective_ranking, .compile = true},
         WEFT_UNSUPPORTED,
         "compile: objective ranking is unsupported"},
        {{.objective = &weft_objective_cosine, .objective_options.scale = 3},
         WEFT_INVALID,
         "objective cosine: it has no option scale"},
        {{.objective = &weft_objective_dpo, .objective_options.dimensions = {.n = 1, .at = {3}}},
         WEFT_INVALID,
         "objective dpo: it has no option dimensions"},
        {{.objective = &weft_objective_ranking,
          .objective_options.dimensions = {.n = 1, .at = {-3}}},
         WEFT_INVALID,
         "dimensions: expected positive numbers, got -3"},
        {{.objective = &weft_objective_supervised},
         WEFT_UNSUPPORTED,
         "bert models are encoders, for which objective supervised is unsupported"},
    };
    weft_model *model = NULL;
    if (!CHECK_OK(weft_model_load(check_fixture("models/bert"), NULL, &model)))
        return;
    weft_nn_unfreeze(weft_model_module(model));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_trainer *trainer = NULL;
        CHECK_STATUS(weft_trainer_new(model, &cases[i].o, &trainer), cases[i].status);
        CHECK_CONTAINS(weft_error_message(), cases[i].message);
        weft_trainer_free(trainer);
    }
    weft_model_free(model);
}

static void more_dimensions_than_the_vectors_have_fail(void)
{
    static const golden wide = {
        "ranking", "ranking", NULL, {.dimensions = {.n = 2, .at = {16, 33}}}};
    numbers n;
    setting s;
    if (!read_golden("ranking", &n) || !open_setting(&wide, 0, false, &s))
        return;
    weft_dataset *data = dataset_of(&n, 0);
    weft_batches *batches = NULL;
    weft_batch batch = {0};
    if (CHECK_OK(weft_batches_new(data, EXAMPLES, 0, &batches)) &&
        CHECK_OK(weft_batches_at(batches, 0, &batch))) {
        CHECK(weft_trainer_step(s.trainer, &batch, 1, 1, NULL) != WEFT_OK);
        CHECK_CONTAINS(weft_error_message(), "expected at most the 32 of the vectors, got 33");
    }
    weft_batch_free(&batch);
    weft_batches_free(batches);
    weft_dataset_free(data);
    close_setting(&s);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static const weft_dataset_options texts = {.examples = WEFT_EXAMPLES_TEXTS, .length = 13};

/* Loads a file with these contents. */
static weft_status load(const char *name, const char *contents, const weft_dataset_options *o,
                        weft_dataset **out)
{
    weft_tokenizer *tokenizer = NULL;
    const char *path = check_temporary(name);
    CHECK_OK(weft_file_write(path, contents, strlen(contents)));
    CHECK_OK(weft_tokenizer_load(check_fixture("models/bert"), &tokenizer));
    *out = NULL;
    const weft_status status = weft_dataset_load(path, tokenizer, o, 0, out, NULL);
    weft_tokenizer_free(tokenizer);
    return status;
}

static void rows_become_examples(void)
{
    static const struct {
        const char *name, *contents;
        int64_t texts;
        bool scored;
    } cases[] = {
        {"a.jsonl", "{\"anchor\": \"one\", \"positive\": \"two\"}\n", 2, false},
        {"b.jsonl", "{\"passage\": \"two\", \"query\": \"one\", \"id\": 7}\n", 2, false},
        {"c.jsonl", "{\"query\": \"one\", \"negative\": \"x\", \"answer\": \"two\"}\n", 3, false},
        {"d.jsonl", "{\"anchor\": \"one\", \"positive\": \"two\", \"negatives\": [\"x\", \"y\"]}\n",
         4, false},
        {"e.jsonl",
         "{\"anchor\": \"one\", \"positive\": \"two\", \"negative_1\": \"x\", "
         "\"negative_2\": \"y\"}\n",
         4, false},
        {"f.csv", "sentence1,sentence2,score\none,two,0.25\n", 2, true},
        {"g.jsonl", "{\"left\": \"one\", \"right\": \"two\", \"label\": 1}\n", 2, true},
    };
    weft_dataset *first = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_dataset *d = NULL;
        if (!CHECK_OK(load(cases[i].name, cases[i].contents, &texts, &d)))
            continue;
        const weft_dataset_info info = weft_dataset_info_of(d);
        CHECK_EQ_INT(info.examples, WEFT_EXAMPLES_TEXTS);
        CHECK_EQ_INT(info.texts, cases[i].texts);
        CHECK_EQ_INT(info.samples, cases[i].texts);
        CHECK_EQ_INT(info.scored, cases[i].scored);
        for (int64_t k = 0; first && k < 2; k++) { /* anchor and positive are those of case 0 */
            const weft_sample got = weft_dataset_at(d, k), expected = weft_dataset_at(first, k);
            CHECK_EQ_INT(got.length, expected.length);
            CHECK_BYTES(got.ids, expected.ids, (size_t)expected.length * sizeof *got.ids);
        }
        if (first)
            weft_dataset_free(d);
        else
            first = d;
    }
    weft_dataset_free(first);
}

/* The prompt is part of the text, special tokens stay, and long texts lose their last tokens. */
static void texts_have_prompts_and_a_length(void)
{
    weft_dataset_options o = texts;
    weft_dataset *d = NULL;
    weft_tokenizer *tokenizer = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    o.query_prompt = "query: ";
    o.passage_prompt = "passage: ";
    o.length = 6;
    CHECK_OK(weft_tokenizer_load(check_fixture("models/bert"), &tokenizer));
    if (CHECK_OK(
            load("p.jsonl", "{\"anchor\": \"a\", \"positive\": \"a a a a a a a a\"}\n", &o, &d)) &&
        CHECK_OK(weft_tokenizer_encode(tokenizer, "query: a", 8, WEFT_TOKENIZER_ADD_SPECIAL, &ids,
                                       &n))) {
        const weft_sample anchor = weft_dataset_at(d, 0), positive = weft_dataset_at(d, 1);
        const bool long_anchor = n > 5;
        n = weft_tokenizer_truncate(tokenizer, ids, n, 5);
        CHECK_EQ_INT(anchor.length, (int64_t)n + 1);
        CHECK_BYTES(anchor.ids, ids, n * sizeof *ids);
        CHECK_EQ_INT(positive.length, 6);
        CHECK_EQ_INT(positive.ids[4], ids[n - 1]); /* the last special token */
        CHECK_EQ_INT(weft_dataset_info_of(d).truncated, 1 + (long_anchor ? 1 : 0));
    }
    weft_free(ids);
    weft_tokenizer_free(tokenizer);
    weft_dataset_free(d);
}

static void malformed_rows_name_what_is_missing(void)
{
    static const struct {
        const char *contents, *message;
    } cases[] = {
        {"{\"anchor\": \"one\"}\n", ":1: \"positive\" (or another name of it) is missing"},
        {"{\"left\": \"one\"}\n", ":1: expected at least two texts, \"anchor\" and \"positive\""},
        {"{\"passage\": \"one\", \"other\": \"two\"}\n", ":1: \"anchor\" (or another name"},
        {"{\"left\": \"q\", \"right\": \"a\", \"negative\": \"n\"}\n",
         ":1: \"anchor\" (or another"},
        {"{\"anchor\": \"q\", \"positive\": [\"a\", \"b\"]}\n",
         "positive: expected string, got array"},
        {"{\"anchor\": [\"q\"], \"positive\": \"a\"}\n", "anchor: expected string, got array"},
        {"{\"anchor\": \"q\", \"positive\": [], \"negative\": \"n\"}\n",
         "positive: expected string, got array"},
        {"{\"anchor\": \"q\", \"positive\": null, \"negative\": \"n\"}\n",
         "positive: expected string, got null"},
        {"{\"anchor\": \"q\", \"positive\": \"\", \"negative\": \"n\"}\n",
         "positive: expected a text that is not empty"},
        {"{\"anchor\": \"\", \"positive\": \"a\", \"negative\": \"n\"}\n",
         "anchor: expected a text that is not empty"},
        {"{\"anchor\": 3, \"positive\": \"two\"}\n", "anchor: expected string, got integer"},
        {"{\"anchor\": \"a\", \"positive\": \"b\"}\n{\"anchor\": \"a\", \"positive\": \"b\", "
         "\"negative\": \"c\"}\n",
         ":2: dataset: expected 2 texts as before, got 3"},
        {"{\"anchor\": \"a\", \"positive\": \"b\", \"score\": \"high\"}\n",
         "score: expected a number, got 'high'"},
        {"{\"anchor\": \"a\", \"positive\": \"b\", \"score\": 1}\n{\"anchor\": \"a\", "
         "\"positive\": \"b\"}\n",
         ":2: dataset: the example has no score, those before it have one"},
        {"[3]\n", "expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_dataset *d = NULL;
        CHECK_STATUS(load("m.jsonl", cases[i].contents, &texts, &d), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), cases[i].message);
        weft_dataset_free(d);
    }
}

/* A validation split keeps the texts and the score of an example together. */
static void splits_and_caches_keep_examples(void)
{
    weft_tokenizer *tokenizer = NULL;
    weft_dataset_options o = texts;
    char contents[4096] = "";
    for (int i = 0; i < 20; i++)
        snprintf(contents + strlen(contents), sizeof contents - strlen(contents),
                 "{\"anchor\": \"a%d\", \"positive\": \"b%d\", \"score\": %d}\n", i, i, i);
    const char *path = check_temporary("split.jsonl");
    CHECK_OK(weft_file_write(path, contents, strlen(contents)));
    CHECK_OK(weft_tokenizer_load(check_fixture("models/bert"), &tokenizer));
    char cache[512];
    snprintf(cache, sizeof cache, "%s", check_temporary("tokens"));
    o.cache = cache;
    o.tokenizer_path = check_fixture("models/bert");
    for (int i = 0; i < 2; i++) {
        weft_dataset *d = NULL, *validation = NULL;
        if (CHECK_OK(weft_dataset_load(path, tokenizer, &o, 0.25, &d, &validation))) {
            const weft_dataset_info a = weft_dataset_info_of(d),
                                    b = weft_dataset_info_of(validation);
            CHECK_EQ_INT(a.cached, i == 1);
            CHECK_EQ_INT(a.samples, 30);
            CHECK_EQ_INT(b.samples, 10);
            CHECK(a.scored && b.scored && a.texts == 2 && b.texts == 2);
            weft_batches *batches = NULL;
            weft_batch batch = {0};
            float sum = 0, scores[5] = {0};
            if (CHECK_OK(weft_batches_new(validation, 5, 0, &batches)) &&
                CHECK_OK(weft_batches_at(batches, 0, &batch)) &&
                CHECK_OK(weft_read(batch.labels, WEFT_FLOAT32, scores, 5))) {
                for (int k = 0; k < 5; k++)
                    sum += scores[k];
                CHECK(sum >= 10); /* five different scores */
                CHECK_EQ_INT(weft_dim(batch.tokens, 0), 10);
            }
            weft_batch_free(&batch);
            weft_batches_free(batches);
        }
        weft_dataset_free(d);
        weft_dataset_free(validation);
    }
    weft_tokenizer_free(tokenizer);
}

CHECK_MAIN("embed", CHECK_CASE(every_loss_equals_sentence_transformers),
           CHECK_CASE(parts_give_the_same_losses), CHECK_CASE(parts_have_the_dropout_of_the_batch),
           CHECK_CASE(other_data_is_refused), CHECK_CASE(only_the_last_id_is_a_target),
           CHECK_CASE(trainers_name_what_is_unsupported),
           CHECK_CASE(more_dimensions_than_the_vectors_have_fail), CHECK_CASE(rows_become_examples),
           CHECK_CASE(texts_have_prompts_and_a_length),
           CHECK_CASE(malformed_rows_name_what_is_missing),
           CHECK_CASE(splits_and_caches_keep_examples))
