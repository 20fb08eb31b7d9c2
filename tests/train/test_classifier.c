/* tests/train/test_classifier.c -- sequence classification: runs against PEFT's
 * (tests/golden/lora/classifier.py), adapters saved and loaded, and rows with labels. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/batch.h"
#include "weft/generate.h"
#include "weft/memory.h"
#include "weft/nn_tools.h"
#include "weft/train.h"

enum { STEPS = 20, ROWS = 4, LENGTH = 24, LABELS = 3 };

/* PEFT's results for a model. */
typedef struct run {
    int32_t ids[STEPS][ROWS][LENGTH], lengths[STEPS][ROWS], labels[STEPS][ROWS];
    double losses[STEPS], norms[STEPS];
    float logits[ROWS][LABELS];
} run;

static run golden;

static const char *path_of(const char *name, const char *file)
{
    char path[128];
    snprintf(path, sizeof path, "lora/classify-%s/%s", name, file);
    return check_fixture(path);
}

static bool read_file(const char *path)
{
    weft_safetensors *file;
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return false;
    const struct {
        const char *name;
        weft_dtype dtype;
        void *to;
        int64_t n;
    } parts[] = {
        {"ids", WEFT_INT32, golden.ids, STEPS * ROWS * LENGTH},
        {"lengths", WEFT_INT32, golden.lengths, STEPS * ROWS},
        {"labels", WEFT_INT32, golden.labels, STEPS * ROWS},
        {"losses", WEFT_FLOAT64, golden.losses, STEPS},
        {"grad_norms", WEFT_FLOAT64, golden.norms, STEPS},
        {"final_logits", WEFT_FLOAT32, golden.logits, ROWS * LABELS},
    };
    bool good = true;
    weft_scope_open();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        good = good && CHECK_OK(weft_read(weft_safetensors_get(file, parts[i].name), parts[i].dtype,
                                          parts[i].to, parts[i].n));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    return good;
}

static bool read_run(const char *name)
{
    return read_file(path_of(name, "trajectory.safetensors"));
}

static weft_model *load(const char *name, const char *adapter)
{
    char path[64];
    weft_model *model = NULL;
    snprintf(path, sizeof path, "models/%s", name);
    if (CHECK_OK(weft_model_load(check_fixture(path), NULL, &model)) && adapter)
        CHECK_OK(weft_adapter_load(model, adapter, NULL));
    return model;
}

/* Row r of a step: its ids, and behind them the label as the only target. */
static weft_sample sample_of(int step, int r, int32_t ids[LENGTH + 1], float weights[LENGTH + 1])
{
    const int n = golden.lengths[step][r];
    memcpy(ids, golden.ids[step][r], (size_t)n * sizeof *ids);
    ids[n] = golden.labels[step][r];
    for (int i = 0; i <= n; i++)
        weights[i] = i == n;
    return (weft_sample){ids, weights, n + 1, 0};
}

static weft_status step(weft_trainer *trainer, int s, weft_train_report *report)
{
    int32_t ids[ROWS][LENGTH + 1];
    float weights[ROWS][LENGTH + 1];
    weft_sample samples[ROWS];
    weft_batch batch;
    for (int r = 0; r < ROWS; r++)
        samples[r] = sample_of(s, r, ids[r], weights[r]);
    weft_status status = weft_batch_of_samples(samples, ROWS, &batch);
    if (status == WEFT_OK)
        status = weft_trainer_step(trainer, &batch, 1, 1, report);
    weft_batch_free(&batch);
    return status;
}

/* The logits of row r of the first batch, beside PEFT's. */
static double logits_apart(weft_model *model, int r)
{
    double worst = 0;
    const int64_t n = golden.lengths[0][r];
    weft_scope_open();
    weft_array *tokens = weft_from_data(golden.ids[0][r], WEFT_INT32, WEFT_DIMS(1, n));
    weft_array *logits = weft_model_forward(model, tokens, NULL); /* (1, n, labels) */
    float own[LABELS];
    logits = weft_slice_axis(logits, 1, n - 1, n);
    if (CHECK_OK(weft_read(logits, WEFT_FLOAT32, own, LABELS))) {
        for (int i = 0; i < LABELS; i++)
            worst = fmax(worst, fabs((double)own[i] - (double)golden.logits[r][i]));
    }
    weft_scope_close(NULL);
    return worst;
}

/* Trains the model as in the golden run. */
static void expect_steps(weft_model *model, const char *name, double lr)
{
    weft_trainer *trainer = NULL;
    double loss = 0, norm = 0, logits = 0;
    CHECK_EQ_INT(weft_model_info_of(model)->n_labels, LABELS);
    CHECK(strcmp(weft_model_label(model, 2), "good") == 0);
    CHECK(weft_model_label(model, 3) == NULL);
    const weft_trainer_options o = {.lr = lr, .weight_decay = 0.01};
    if (CHECK_OK(weft_trainer_new(model, &o, &trainer))) {
        for (int s = 0; s < STEPS; s++) {
            weft_train_report report;
            CHECK_OK(step(trainer, s, &report));
            loss = fmax(loss, fabs(report.loss / golden.losses[s] - 1));
            norm = fmax(norm, fabs(report.grad_norm / golden.norms[s] - 1));
        }
    }
    weft_trainer_free(trainer);
    for (int r = 0; r < ROWS; r++)
        logits = fmax(logits, logits_apart(model, r));
    printf("  %s: worst loss %.2g, norm %.2g (relative), logits %.2g\n", name, loss, norm, logits);
    CHECK_CLOSE(loss, 0, 1e-5);
    CHECK_CLOSE(norm, 0, 1e-4);
    CHECK_CLOSE(logits, 0, 1e-3);
}

static void expect_run(const char *name)
{
    weft_model *model = read_run(name) ? load(name, path_of(name, "initial")) : NULL;
    if (model == NULL)
        return;
    expect_steps(model, name, 0.005);
    weft_model_free(model);
    model = load(name, path_of(name, "final")); /* PEFT's own */
    for (int r = 0; r < ROWS && model; r++)
        CHECK_CLOSE(logits_apart(model, r), 0, 2e-5);
    weft_model_free(model);
}

static void runs_are_those_of_peft(void)
{
    expect_run("llama");  /* with a head of its own */
    expect_run("qwen2");  /* tied */
    expect_run("gemma2"); /* with a soft cap on tokens' logits, which labels do not have */
    expect_run("minicpm3-published"); /* with a scale before the head of tokens alone */
}

static void runs_of_encoders_are_those_of_peft(void)
{
    expect_run("bert");
    expect_run("roberta");
    expect_run("xlm-roberta");
    expect_run("modernbert-old"); /* whose checkpoint has a part of the head */
}

/* A head of transformers' checkpoint, trained with all parameters, saved and loaded. */
static void encoders_are_trained_whole(void)
{
    static const char *const names[] = {"bert", "roberta", "modernbert"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[256];
        const char *folder = check_temporary(names[i]);
        weft_model *model = NULL;
        snprintf(path, sizeof path, "lora/labels-%s/trajectory.safetensors", names[i]);
        if (!read_file(check_fixture(path)))
            return;
        snprintf(path, sizeof path, "lora/labels-%s/initial", names[i]);
        if (!CHECK_OK(weft_model_load(check_fixture(path), NULL, &model)))
            return;
        expect_steps(model, names[i], 0.001);
        CHECK_OK(weft_model_save(model, folder));
        weft_model_free(model);
        if (!CHECK_OK(weft_model_load(folder, NULL, &model)))
            return;
        CHECK_STR(weft_model_label(model, 1), "fair");
        for (int r = 0; r < ROWS; r++)
            CHECK_CLOSE(logits_apart(model, r), 0, 1e-3);
        weft_model_free(model);
    }
}

/* Samples that are packed into one row have the vectors that they have in separate rows. */
static void packed_texts_have_their_own_vectors(void)
{
    static const char *const names[] = {"labels-bert", "labels-modernbert"};
    static const int32_t first[] = {0, 0, 0, 0, 4, 4, 4, 4, 4, 9},
                         positions[] = {0, 1, 2, 3, 0, 1, 2, 3, 4, 0};
    static const int starts[] = {0, 4, 9, 10};
    int32_t ids[10];
    for (int i = 0; i < 10; i++)
        ids[i] = 7 + i * i % 50;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[128];
        weft_model *model = NULL;
        snprintf(path, sizeof path, "lora/%s/initial", names[k]);
        if (!CHECK_OK(weft_model_load(check_fixture(path), NULL, &model)))
            return;
        weft_scope_open();
        const weft_model_call call = {
            .first = weft_from_data(first, WEFT_INT32, WEFT_DIMS(1, 10)),
            .positions = weft_from_data(positions, WEFT_INT32, WEFT_DIMS(1, 10)),
        };
        weft_array *all = weft_model_forward(
            model, weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, 10)), &call); /* (1, 10, 3) */
        for (int i = 0; i < 3; i++) {
            const int n = starts[i + 1] - starts[i];
            weft_array *alone = weft_model_forward(
                model, weft_from_data(ids + starts[i], WEFT_INT32, WEFT_DIMS(1, n)), NULL);
            weft_array *off =
                weft_subtract(weft_slice_axis(all, 1, starts[i], starts[i + 1]), alone);
            CHECK_CLOSE(weft_item(weft_max(weft_abs(off), WEFT_ALL_AXES, false)), 0, 2e-6);
        }
        weft_scope_close(NULL);
        weft_model_free(model);
    }
}

/* A head with one row has no labels, so the model is an encoder; embeddings of a classifier are
 * refused. */
static void other_heads_are_left_out(void)
{
    char *text = NULL;
    weft_config *config = NULL;
    weft_model *model = NULL;
    weft_embedded result;
    const int32_t ids[] = {5, 6};
    const weft_prompt prompt = {ids, 2};
    if (!CHECK_OK(
            weft_file_read(check_fixture("lora/labels-bert/initial/config.json"), 0, &text, NULL)))
        return;
    if (CHECK_OK(weft_config_parse(text, "config.json", &config)) &&
        CHECK_OK(weft_model_new(config, &model))) {
        CHECK_EQ_INT(weft_model_info_of(model)->n_labels, LABELS);
        CHECK_STATUS(weft_embed(model, &prompt, 1, NULL, &result), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "embed: the model is a classifier with 3 labels");
    }
    weft_model_free(model);
    weft_config_free(config);
    char *kind = strstr(text, "single_label_classification");
    char *at = strstr(text, "\"architectures\"");
    if (CHECK(at != NULL) && kind == NULL) {
        char *changed =
            weft_format("%.*s\"problem_type\":\"regression\",%s", (int)(at - text), text, at);
        if (CHECK_OK(weft_config_parse(changed, "config.json", &config)) &&
            CHECK_OK(weft_model_new(config, &model)))
            CHECK_EQ_INT(weft_model_info_of(model)->n_labels, 0);
        weft_model_free(model);
        weft_config_free(config);
        weft_free(changed);
    }
    weft_free(text);
}

static void adapters_are_saved_and_loaded(void)
{
    const char *folder = check_temporary("saved");
    char path[600], *text;
    weft_model *model = read_run("llama") ? load("llama", path_of("llama", "final")) : NULL;
    if (model == NULL || !CHECK_OK(weft_adapter_save(model, folder, "base")))
        return;
    weft_model_free(model);
    model = load("llama", folder);
    for (int r = 0; r < ROWS && model; r++)
        CHECK_CLOSE(logits_apart(model, r), 0, 2e-5);
    weft_model_free(model);
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (CHECK_OK(weft_file_read(path, 0, &text, NULL))) {
        CHECK_CONTAINS(text, "LlamaForSequenceClassification");
        CHECK_CONTAINS(text, "\"1\": \"fair\"");
        CHECK_CONTAINS(text, "\"good\": 2");
        weft_free(text);
    }
    weft_labels labels;
    CHECK_OK(weft_adapter_labels(folder, &labels));
    CHECK_EQ_INT(labels.n, LABELS);
    CHECK_EQ_INT(weft_labels_index(&labels, "fair"), 1);
    weft_labels_free(&labels);
    CHECK_EQ_INT(remove(path), 0); /* labels without names */
    CHECK_OK(weft_adapter_labels(folder, &labels));
    CHECK(labels.n == LABELS && strcmp(labels.at[1], "LABEL_1") == 0);
    weft_labels_free(&labels);
    static const char one[] = "{\"id2label\": {\"0\": \"a\"}}";
    CHECK_OK(weft_file_write(path, one, strlen(one)));
    CHECK_STATUS(weft_adapter_labels(folder, &labels), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "each of the 3 rows of score, got 1");
    CHECK_OK(weft_adapter_labels(check_fixture("lora/lora-llama/final"), &labels));
    CHECK_EQ_INT(labels.n, 0);
}

static void what_is_refused(void)
{
    const char *const labels[] = {"a", "b"};
    weft_model *model = load("llama", NULL);
    const int32_t ids[] = {1, 2};
    if (model == NULL)
        return;
    CHECK_STATUS(weft_model_classify(model, labels, 1), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "at least two labels, got 1");
    CHECK_EQ_INT(weft_model_info_of(model)->n_labels, 0);
    CHECK_OK(weft_model_classify(model, labels, 2));
    CHECK_STATUS(weft_model_classify(model, labels, 2), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "has labels already");
    CHECK_STATUS(weft_adapter_load(model, path_of("llama", "final"), NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected an adapter of a classifier with 2 labels");
    CHECK_STATUS(weft_adapter_load(model, check_fixture("lora/lora-llama/final"), NULL),
                 WEFT_INVALID);
    CHECK_STATUS(weft_generate(model, NULL, ids, 2, NULL, NULL, NULL, NULL), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "a classifier of 2 labels");
    weft_model_free(model);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static weft_tokenizer *tokenizer;

static weft_status parse(const char *rows, weft_labels *labels, weft_long_samples longer,
                         weft_dataset **out)
{
    const weft_dataset_options o = {.labels = labels, .length = 5, .longer = longer};
    return weft_dataset_parse(rows, strlen(rows), "rows.jsonl", tokenizer, &o, 0, out, NULL);
}

static void rows_have_labels(void)
{
    weft_labels labels = {.open = false};
    weft_dataset *d = NULL;
    const char *rows =
        "{\"text\": \"the king\", \"label\": \"b\"}\n{\"text\": \"a\", \"label\": 0}\n"
        "{\"text\": \"the king and the queen and the fox\", \"label\": \"c\"}\n";
    if (!CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer)))
        return;
    CHECK_OK(weft_labels_add(&labels, "a"));
    CHECK_OK(weft_labels_add(&labels, "b"));
    CHECK_OK(weft_labels_add(&labels, "c"));
    for (int policy = WEFT_LONG_KEEP_HEAD; policy < WEFT_LONG_SPLIT; policy++) {
        if (!CHECK_OK(parse(rows, &labels, (weft_long_samples)policy, &d)))
            continue;
        const int expected[] = {1, 0, 2};
        const weft_dataset_info info = weft_dataset_info_of(d);
        CHECK_EQ_INT(info.samples, 3);
        CHECK_EQ_INT(info.targets, 3);
        CHECK_EQ_INT(info.truncated, 1);
        for (int i = 0; i < 3; i++) {
            const weft_sample s = weft_dataset_at(d, i);
            CHECK_EQ_INT(s.ids[s.length - 1], expected[i]);
            CHECK_EQ_INT(s.weights[s.length - 1], 1);
            CHECK_EQ_INT(s.weights[s.length - 2], 0);
            CHECK(s.length <= 5);
        }
        weft_dataset_free(d);
    }
    if (CHECK_OK(parse(rows, &labels, WEFT_LONG_DROP, &d)))
        CHECK_EQ_INT(weft_dataset_info_of(d).dropped, 1);
    weft_dataset_free(d);
    const struct {
        const char *row, *part;
        weft_long_samples longer;
    } wrong[] = {
        {"{\"text\": \"a\"}", "rows.jsonl:1: expected \"text\" and \"label\", and there is no", 0},
        {"{\"label\": \"a\"}", "there is no \"text\"", 0},
        {"{\"text\": \"a\", \"label\": \"d\"}", "expected one of the labels a, b, c, got 'd'", 0},
        {"{\"text\": \"a\", \"label\": 3}", "got '3'", 0},
        {"{\"text\": \"a\", \"label\": -1}", "got '-1'", 0},
        {"{\"text\": \"a\", \"label\": 18446744073709551615}", "got '18446744073709551615'", 0},
        {"{\"text\": \"a\", \"label\": 1.5}", "expected a text or an integer, got 1.5", 0},
        {"{\"text\": \"a\", \"label\": \"\"}", "got an empty text", 0},
        {"{\"text\": \"\", \"label\": \"a\"}", "at least one token", 0},
        {"{\"text\": 7, \"label\": \"a\"}", "text", 0},
        {"[1]", "expected object", 0},
        {"{\"text\": \"a fox and a wolf and a bear\", \"label\": \"a\"}", "cannot be split",
         WEFT_LONG_SPLIT},
        {"{\"text\": \"a fox and a wolf and a bear\", \"label\": \"a\"}", "more than the 4 allowed",
         WEFT_LONG_REFUSE},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_STATUS(parse(wrong[i].row, &labels, wrong[i].longer, &d), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), wrong[i].part);
    }
    weft_labels_free(&labels);
    weft_tokenizer_free(tokenizer);
}

CHECK_MAIN("classifier", CHECK_CASE(runs_are_those_of_peft),
           CHECK_CASE(runs_of_encoders_are_those_of_peft), CHECK_CASE(encoders_are_trained_whole),
           CHECK_CASE(packed_texts_have_their_own_vectors), CHECK_CASE(other_heads_are_left_out),
           CHECK_CASE(adapters_are_saved_and_loaded), CHECK_CASE(what_is_refused),
           CHECK_CASE(rows_have_labels))
