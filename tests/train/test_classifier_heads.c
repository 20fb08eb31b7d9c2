/* tests/train/test_classifier_heads.c -- classifiers whose heads are new or in the checkpoint:
 * contents of adapters, labels, refused input. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/check.h"
#include "weft/batch.h"
#include "weft/generate.h"
#include "weft/memory.h"
#include "weft/nn_tools.h"
#include "weft/train.h"

enum { LABELS = 3 };

static const char *const two[] = {"no", "yes"};

/* The checkpoint of a fixture without its tensors that have `part` in their names. */
static const char *without(const char *fixture, const char *part)
{
    enum { MOST = 100 };
    static char folder[600];
    char path[700], *text = NULL;
    const char *names[MOST];
    weft_array *arrays[MOST];
    weft_safetensors *file = NULL;
    int n = 0;
    snprintf(folder, sizeof folder, "%s", check_temporary(part));
    snprintf(path, sizeof path, "%s/model.safetensors", fixture);
    if (!CHECK_OK(weft_safetensors_open(check_fixture(path), &file)))
        return folder;
    weft_scope_open();
    for (int i = 0; i < weft_safetensors_count(file) && n < MOST; i++) {
        names[n] = weft_safetensors_name(file, i);
        arrays[n] = weft_safetensors_get_at(file, i);
        n += strstr(names[n], part) == NULL;
    }
    CHECK(n < weft_safetensors_count(file));
    CHECK(mkdir(folder, 0777) == 0);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    CHECK_OK(weft_safetensors_save(path, names, arrays, n, NULL, 0));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    snprintf(path, sizeof path, "%s/config.json", fixture);
    if (CHECK_OK(weft_file_read(check_fixture(path), 0, &text, NULL))) {
        snprintf(path, sizeof path, "%s/config.json", folder);
        CHECK_OK(weft_file_write(path, text, strlen(text)));
    }
    weft_free(text);
    return folder;
}

static weft_model *load_from(const char *folder)
{
    weft_model *model = NULL;
    CHECK_OK(weft_model_load(folder, NULL, &model));
    return model;
}

/* The logits of a text: (1, 4, labels). */
static weft_array *logits_of(weft_model *model)
{
    static const int32_t ids[] = {7, 9, 11, 20};
    return weft_model_forward(model, weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, 4)), NULL);
}

/* Trains an adapter and all that is new of the head, as a classifier with the labels, and saves
 * it. The model that loads it has the same logits. */
static void expect_saved(const char *folder, bool classifier, const char *whole)
{
    static const int32_t ids[] = {7, 9, 11, 1};
    static const float weights[] = {0, 0, 0, 1};
    static const char *const targets[] = {"query", "Wqkv"};
    const char *out = check_temporary("saved-head");
    char path[600], *text = NULL;
    const bool modern = strstr(folder, "modernbert") != NULL;
    const weft_nn_lora_options o = {.targets = &targets[modern], .n_targets = 1};
    weft_model *model = load_from(folder), *again = load_from(folder);
    weft_trainer *trainer = NULL;
    weft_batch batch;
    if (model == NULL || again == NULL)
        return;
    if (!classifier)
        CHECK_OK(weft_model_classify(model, two, 2));
    CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &o));
    const weft_sample sample = {ids, weights, 4, 0};
    CHECK_OK(weft_batch_of_samples(&sample, 1, &batch));
    if (CHECK_OK(weft_trainer_new(model, &(weft_trainer_options){.lr = 0.01}, &trainer)))
        CHECK_OK(weft_trainer_step(trainer, &batch, 1, 1, NULL));
    weft_trainer_free(trainer);
    weft_batch_free(&batch);
    CHECK_OK(weft_adapter_save(model, out, "base"));
    CHECK_OK(weft_adapter_load(again, out, NULL));
    weft_scope_open();
    weft_array *off = weft_abs(weft_subtract(logits_of(model), logits_of(again)));
    CHECK_CLOSE(weft_item(weft_max(off, WEFT_ALL_AXES, false)), 0, 0);
    weft_scope_close(NULL);
    snprintf(path, sizeof path, "%s/adapter_config.json", out);
    if (CHECK_OK(weft_file_read(path, 0, &text, NULL)))
        CHECK_CONTAINS(text, whole);
    weft_free(text);
    weft_model_free(model);
    weft_model_free(again);
}

static void new_parts_of_heads_are_trained_and_saved(void)
{
    char path[600];
    snprintf(path, sizeof path, "%s", without("models/bert", "pooler"));
    expect_saved(path, false, "\"bert.pooler.dense\"");
    expect_saved(check_fixture("models/bert"), false, "[\n    \"classifier\"\n  ]");
    expect_saved(check_fixture("models/roberta"), false, "[\n    \"classifier\"\n  ]");
    expect_saved(check_fixture("models/modernbert"), false,
                 "[\n    \"head\",\n    \"classifier\"\n  ]");
    expect_saved(check_fixture("models/modernbert-old"), false, "[\n    \"classifier\"\n  ]");
}

static void classifiers_take_adapters(void)
{
    static const char *const names[] = {"bert", "roberta", "modernbert"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        snprintf(path, sizeof path, "lora/labels-%s/initial", names[i]);
        snprintf(path, sizeof path, "%s", check_fixture(path));
        expect_saved(path, true, "[\n    \"classifier\"\n  ]");
    }
}

/* The labels are those beside the adapter, which has the head. */
static void labels_are_those_of_the_adapter(void)
{
    static const char config[] = "{\"id2label\": {\"0\": \"a\", \"1\": \"b\", \"2\": \"c\"}}";
    const char *folder = check_temporary("named");
    char path[600];
    weft_labels labels;
    weft_model *model = load_from(check_fixture("lora/labels-bert/initial"));
    if (model == NULL)
        return;
    CHECK_OK(weft_model_labels(check_fixture("lora/labels-bert/initial"), &labels));
    CHECK(labels.n == LABELS && strcmp(labels.at[2], "good") == 0);
    weft_labels_free(&labels);
    CHECK_OK(weft_model_labels(check_fixture("models/bert"), &labels));
    CHECK_EQ_INT(labels.n, 0);
    CHECK_OK(weft_nn_lora_inject(
        weft_model_module(model),
        &(weft_nn_lora_options){.targets = (const char *[]){"query"}, .n_targets = 1}));
    CHECK_OK(weft_adapter_save(model, folder, "base"));
    weft_model_free(model);
    snprintf(path, sizeof path, "%s/config.json", folder);
    CHECK_OK(weft_file_write(path, config, strlen(config)));
    model = load_from(check_fixture("lora/labels-bert/initial"));
    if (model != NULL && CHECK_OK(weft_adapter_load(model, folder, NULL)))
        CHECK_STR(weft_model_label(model, 2), "c");
    weft_model_free(model);
    CHECK_EQ_INT(remove(path), 0); /* as PEFT saves it: the base's names */
    model = load_from(check_fixture("lora/labels-bert/initial"));
    if (model != NULL && CHECK_OK(weft_adapter_load(model, folder, NULL)))
        CHECK_STR(weft_model_label(model, 2), "good");
    weft_model_free(model);
}

/* A class for labels without a head in the checkpoint, and a class with an unsupported head, are
 * loaded without a head. */
static void absent_and_unknown_heads_are_left_out(void)
{
    static const char name[] = "\"Gemma3TextModel\"",
                      other[] = "\"Gemma3TextForSequenceClassification\"";
    char *text = NULL;
    weft_config *config = NULL;
    weft_model *model = load_from(without("lora/labels-bert/initial", "classifier"));
    if (model != NULL) {
        CHECK_EQ_INT(weft_model_info_of(model)->n_labels, 0);
        CHECK_OK(weft_model_classify(model, two, 2));
    }
    weft_model_free(model);
    model = NULL;
    if (!CHECK_OK(
            weft_file_read(check_fixture("models/embedder-gemma3/config.json"), 0, &text, NULL)))
        return;
    const char *at = strstr(text, name);
    char *changed =
        at ? weft_format("%.*s%s%s", (int)(at - text), text, other, at + strlen(name)) : NULL;
    if (CHECK(changed != NULL) && CHECK_OK(weft_config_parse(changed, "config.json", &config)) &&
        CHECK_OK(weft_model_new(config, &model)))
        CHECK_EQ_INT(weft_model_info_of(model)->n_labels, 0);
    weft_model_free(model);
    weft_config_free(config);
    weft_free(changed);
    weft_free(text);
}

/* In a configuration for another problem, members that contradict the labels are replaced. */
static void saved_classifiers_have_one_label(void)
{
    char *text = NULL, *written = NULL;
    weft_config *config = NULL;
    weft_model *model = NULL;
    const char *folder = check_temporary("problem");
    char path[600];
    if (!CHECK_OK(weft_file_read(check_fixture("models/bert/config.json"), 0, &text, NULL)))
        return;
    char *changed =
        weft_format("{\"problem_type\":\"regression\",\"num_labels\":5,%s", strchr(text, '{') + 1);
    if (CHECK(changed != NULL) && CHECK_OK(weft_config_parse(changed, "config.json", &config)) &&
        CHECK_OK(weft_model_new(config, &model)) && CHECK_OK(weft_model_classify(model, two, 2)))
        CHECK_OK(weft_model_save(model, folder));
    weft_model_free(model);
    weft_config_free(config);
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (CHECK_OK(weft_file_read(path, 0, &written, NULL))) {
        CHECK_CONTAINS(written, "\"problem_type\": \"single_label_classification\"");
        CHECK(strstr(written, "num_labels") == NULL);
    }
    weft_model_free(load_from(folder));
    weft_free(written);
    weft_free(changed);
    weft_free(text);
}

/* Refuses everything that reads logits as those of tokens, or has other targets than labels. */
static void other_uses_are_refused(void)
{
    static const int32_t ids[] = {7, 9, 11, LABELS};
    static const float weights[] = {0, 0, 0, 1}, all[] = {0, 1, 1, 1};
    const weft_prompt prompt = {ids, 3};
    const weft_score_request request = {.text = prompt, .from = 1};
    weft_model *model = load_from(check_fixture("lora/labels-bert/initial"));
    weft_trainer *trainer = NULL;
    weft_scored scored;
    weft_evaluation evaluation;
    if (model == NULL)
        return;
    CHECK_STATUS(weft_trainer_new(model, &(weft_trainer_options){.objective = &weft_objective_dpo},
                                  &trainer),
                 WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "objective dpo: unsupported for a classifier");
    CHECK_STATUS(weft_trainer_new(model,
                                  &(weft_trainer_options){.objective = &weft_objective_ranking},
                                  &trainer),
                 WEFT_UNSUPPORTED);
    CHECK_STATUS(weft_score(model, &request, 1, NULL, &scored), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "score: the model is a classifier of 3 labels");
    for (int i = 0; i < 2; i++) {
        weft_dataset *data = NULL;
        weft_batches *batches = NULL;
        CHECK_OK(weft_dataset_new(8, &data));
        const weft_sample sample = {ids, i == 0 ? weights : all, 4, 0};
        CHECK_OK(weft_dataset_add_sample(data, &sample));
        CHECK_OK(weft_batches_new(data, 1, 0, &batches));
        CHECK_STATUS(weft_evaluate(model, data, NULL, &evaluation), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "sample 1: expected one of the 3 labels");
        if (CHECK_OK(weft_trainer_new(model, &(weft_trainer_options){.steps = 1}, &trainer))) {
            CHECK_STATUS(weft_trainer_run(trainer, batches, NULL, NULL), WEFT_INVALID);
            CHECK_CONTAINS(weft_error_message(), "sample 1: expected one of the 3 labels");
        }
        weft_trainer_free(trainer);
        weft_batches_free(batches);
        weft_dataset_free(data);
    }
    weft_model_free(model);
}

CHECK_MAIN("classifier_heads", CHECK_CASE(new_parts_of_heads_are_trained_and_saved),
           CHECK_CASE(classifiers_take_adapters), CHECK_CASE(labels_are_those_of_the_adapter),
           CHECK_CASE(absent_and_unknown_heads_are_left_out),
           CHECK_CASE(saved_classifiers_have_one_label), CHECK_CASE(other_uses_are_refused))
