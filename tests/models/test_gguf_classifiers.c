/* tests/models/test_gguf_classifiers.c -- classifiers through GGUF files: logits, labels and keys,
 * and heads that files cannot store. encoders_against_llama_cpp.py compares the scores of
 * llama.cpp. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/gguf.h"
#include "weft/io.h"
#include "weft/layers.h"
#include "weft/memory.h"
#include "weft/ops.h"
#include "weft/random.h"

enum { LABELS = 3, RANKED = 4, MEAN = 1 };

static const char *const labels[LABELS] = {"no", "ye\"s", "m\xc3\xbc\xc3\xbc"};

static const struct classifier {
    const char *name, *arch, *mean; /* config.json's member, or NULL */
} classifiers[] = {
    {"bert", "bert", NULL},
    {"roberta", "bert", NULL},
    {"xlm-roberta", "bert", NULL},
    {"modernbert", "modern-bert", NULL},
    {"modernbert", "modern-bert", ",\"classifier_pooling\":\"mean\"}"},
    {"embedder-qwen3", "qwen3", NULL},
};
enum { N_CLASSIFIERS = sizeof classifiers / sizeof *classifiers };

static weft_model *fixture_classifier(const char *name, const char *const *names, int n)
{
    weft_model *model = fixture_model(name);
    if (model)
        CHECK_OK(weft_model_classify(model, names, n));
    return model;
}

/* The fixture's model with a new head; with `mean` a new model of its configuration. */
static weft_model *classifier_of(const struct classifier *c)
{
    weft_model *model = NULL;
    weft_config *config = NULL;
    char path[128], *text = NULL;
    weft_random_seed(4);
    if (c->mean == NULL)
        return fixture_classifier(c->name, labels, LABELS);
    snprintf(path, sizeof path, "models/%s/config.json", c->name);
    if (!CHECK_OK(weft_file_read(check_fixture(path), 0, &text, NULL)))
        return NULL;
    char *changed = weft_format("%.*s%s", (int)(strrchr(text, '}') - text), text, c->mean);
    if (CHECK_OK(weft_config_parse(changed, "config.json", &config)) &&
        CHECK_OK(weft_model_new(config, &model)))
        CHECK_OK(weft_model_classify(model, labels, LABELS));
    weft_config_free(config);
    weft_free(changed);
    weft_free(text);
    return model;
}

static void check_keys(const struct classifier *c, const char *path)
{
    weft_gguf *file = NULL;
    char key[96];
    int64_t number = 0;
    if (!CHECK_OK(weft_gguf_open(path, &file)))
        return;
    snprintf(key, sizeof key, "%s.pooling_type", c->arch);
    CHECK(weft_gguf_value_int(weft_gguf_value_find(file, key), 0, &number));
    CHECK_EQ_INT(number, RANKED);
    snprintf(key, sizeof key, "%s.classifier.output_labels", c->arch);
    const weft_gguf_value *names = weft_gguf_value_find(file, key);
    if (CHECK(names != NULL))
        CHECK_EQ_INT(names->count, LABELS);
    CHECK_STR(weft_gguf_at(file, weft_gguf_find(file, "cls.output.weight"))->type, "F32");
    if (c->mean) {
        CHECK(weft_gguf_value_int(weft_gguf_value_find(file, "modern-bert.classifier.pooling_type"),
                                  0, &number));
        CHECK_EQ_INT(number, MEAN);
    }
    weft_gguf_close(file);
}

static void logits_and_labels_are_the_models(void)
{
    for (int i = 0; i < N_CLASSIFIERS; i++) {
        const struct classifier *c = &classifiers[i];
        char path[512];
        weft_model *model = classifier_of(c), *loaded = NULL;
        snprintf(path, sizeof path, "%s", check_temporary(c->name));
        strcat(path, ".gguf");
        const weft_gguf_model_options o = {.type = "F32"};
        if (model && CHECK_OK(weft_model_save_gguf(model, path, &o)) &&
            CHECK_OK(weft_model_load(path, NULL, &loaded))) {
            weft_scope_open();
            weft_array *ids =
                weft_random_randint(weft_random_key(4), WEFT_DIMS(1, 9), 5, 90, WEFT_INT32);
            const weft_model_call call = {.caches = NULL};
            weft_array *a = weft_model_forward(model, ids, &call),
                       *b = weft_model_forward(loaded, ids, &call);
            CHECK_EQ_INT(weft_dim(b, -1), LABELS);
            CHECK_CLOSE(weft_item(weft_max(weft_abs(weft_subtract(a, b)), WEFT_ALL_AXES, false)), 0,
                        2.5e-6);
            CHECK(weft_item(weft_max(weft_abs(a), WEFT_ALL_AXES, false)) > 1e-3);
            weft_scope_close(NULL);
            weft_labels found;
            CHECK_OK(weft_model_labels(path, &found)); /* those of training and evaluation */
            CHECK_EQ_INT(found.n, LABELS);
            for (int k = 0; k < LABELS; k++) {
                CHECK_STR(weft_model_label(loaded, k), labels[k]);
                CHECK_STR(k < found.n ? found.at[k] : "", labels[k]);
            }
            weft_labels_free(&found);
            check_keys(c, path);
        }
        weft_model_free(model);
        weft_model_free(loaded);
    }
}

static void heads_of_other_architectures_are_refused(void)
{
    static const char *const names[] = {"llama", "qwen2", "gemma2", "phi3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        weft_model *model = fixture_classifier(names[i], labels, LABELS);
        CHECK_STATUS(weft_model_check_gguf(model), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "a classifier is unsupported in GGUF files of");
        weft_model_free(model);
    }
}

/* How files have a head of one row: llama.cpp's tools write vectors. */
typedef enum head_form { ALL_ROWS, MATRIX, VECTOR, BLOCKS } head_form;

static weft_array *first_row(weft_array *rows, head_form form)
{
    weft_array *row = weft_slice_axis(rows, 0, 0, 1);
    if (form == BLOCKS)
        return weft_encode(row, weft_gguf_encoding("Q8_0"));
    return form == VECTOR ? weft_squeeze(row, 0) : row;
}

/* Copies a file without a value, and its head, or the first row of it. */
static void copy_without(const char *path, const char *key, head_form form, const char *to)
{
    enum { MOST = 128 };
    const char *names[MOST];
    weft_array *arrays[MOST];
    weft_gguf_value values[MOST];
    weft_gguf *file = NULL;
    int n = 0;
    if (!CHECK_OK(weft_gguf_open(path, &file)))
        return;
    weft_scope_open();
    for (int i = 0; i < weft_gguf_value_count(file) && n < MOST; i++) {
        const weft_gguf_value *v = weft_gguf_value_at(file, i);
        if (strcmp(v->key, key) != 0)
            values[n++] = *v;
    }
    for (int i = 0; i < weft_gguf_count(file) && i < MOST; i++) {
        names[i] = weft_gguf_at(file, i)->name;
        arrays[i] = weft_gguf_get_at(file, i);
        if (form != ALL_ROWS && strcmp(names[i], "cls.output.weight") == 0)
            arrays[i] = first_row(arrays[i], form);
        if (form != ALL_ROWS && strcmp(names[i], "cls.output.bias") == 0)
            arrays[i] = weft_slice_axis(arrays[i], 0, 0, 1);
    }
    CHECK_OK(weft_gguf_save(to, names, arrays, weft_gguf_count(file), values, n));
    weft_scope_close(NULL);
    weft_gguf_close(file);
}

static void heads_without_labels_are_refused(void)
{
    const char *path = check_temporary("labels.gguf"), *without = check_temporary("without.gguf");
    weft_model *model = fixture_classifier("bert", labels, LABELS), *loaded = NULL;
    CHECK_OK(weft_model_save_gguf(model, path, &(weft_gguf_model_options){.type = "F32"}));
    copy_without(path, "bert.classifier.output_labels", ALL_ROWS, without);
    CHECK_STATUS(weft_model_load(without, NULL, &loaded), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "tensor 'cls.output.weight': expected at least two labels "
                                         "(bert.classifier.output_labels), got 0");
    weft_model_free(model);
}

/* A row of a head that is stored as `stored`, (1, E). */
static void check_row(weft_array *stored, weft_array *row, head_form form)
{
    if (!CHECK(weft_ok(stored)))
        return;
    CHECK_EQ_INT(weft_dim(stored, 0), 1);
    CHECK_EQ_INT(weft_size(stored), weft_size(row));
    weft_array *apart = weft_abs(weft_subtract(stored, row));
    CHECK(weft_item(weft_max(apart, WEFT_ALL_AXES, false)) <= (form == BLOCKS ? 1e-3 : 0));
}

/* The model in `path` has the row, unused, and so have the files that are written of it. */
static void check_kept(const char *path, weft_array *row, head_form form)
{
    char again[256], folder[256];
    const weft_gguf_model_options o = {.type = "F32"};
    snprintf(again, sizeof again, "%s", check_temporary("again.gguf"));
    snprintf(folder, sizeof folder, "%s", check_temporary("folder"));
    weft_model *loaded = NULL;
    weft_safetensors *saved = NULL;
    weft_gguf *file = NULL;
    if (CHECK_OK(weft_model_load(path, NULL, &loaded)) &&
        CHECK_OK(weft_model_save_gguf(loaded, again, &o)) &&
        CHECK_OK(weft_gguf_open(again, &file)) && CHECK_OK(weft_model_save(loaded, folder))) {
        CHECK_EQ_INT(weft_model_info_of(loaded)->n_labels, 0);
        weft_array *stored = weft_gguf_get_at(file, weft_gguf_find(file, "cls.output.weight"));
        check_row(stored, row, form);
        char *tensors = weft_format("%s/model.safetensors", folder);
        if (CHECK_OK(weft_safetensors_open(tensors, &saved))) {
            check_row(weft_safetensors_get(saved, "classifier.weight"), row, form);
            CHECK(weft_safetensors_find(saved, "bert.embeddings.word_embeddings.weight") >= 0);
        }
        weft_free(tensors);
    }
    weft_safetensors_close(saved);
    weft_gguf_close(file);
    weft_model_free(loaded);
}

/* If the model has labels, only their head is written. */
static void check_labeled(const char *path)
{
    char again[256], folder[256];
    const weft_gguf_model_options o = {.type = "F32"};
    snprintf(again, sizeof again, "%s", check_temporary("labeled.gguf"));
    snprintf(folder, sizeof folder, "%s", check_temporary("labeled"));
    weft_model *loaded = NULL, *read = NULL;
    if (CHECK_OK(weft_model_load(path, NULL, &loaded)) &&
        CHECK_OK(weft_model_classify(loaded, labels, LABELS))) {
        if (CHECK_OK(weft_model_save_gguf(loaded, again, &o)) &&
            CHECK_OK(weft_model_load(again, NULL, &read)))
            CHECK_EQ_INT(weft_model_info_of(read)->n_labels, LABELS);
        weft_model_free(read);
        read = NULL;
        if (CHECK_OK(weft_model_save(loaded, folder)) &&
            CHECK_OK(weft_model_load(folder, NULL, &read)))
            CHECK_EQ_INT(weft_model_info_of(read)->n_labels, LABELS);
        weft_model_free(read);
    }
    weft_model_free(loaded);
}

/* A reranker's or regression head has one row and no labels. It is not used, but kept. */
static void heads_with_one_row_are_kept(void)
{
    char first[256], one[256];
    const weft_gguf_model_options o = {.type = "F32"};
    snprintf(first, sizeof first, "%s", check_temporary("first.gguf"));
    snprintf(one, sizeof one, "%s", check_temporary("one.gguf"));
    weft_model *model = fixture_classifier("bert", labels, LABELS);
    CHECK_OK(weft_model_save_gguf(model, first, &o));
    weft_scope_open();
    weft_array *head = *weft_nn_find(weft_model_module(model), "classifier.weight");
    for (head_form form = MATRIX; form <= BLOCKS; form++) {
        copy_without(first, "bert.classifier.output_labels", form, one);
        check_kept(one, weft_slice_axis(head, 0, 0, 1), form);
        check_labeled(one);
    }
    weft_scope_close(NULL);
    weft_model_free(model);
}

CHECK_MAIN("gguf_classifiers", CHECK_CASE(logits_and_labels_are_the_models),
           CHECK_CASE(heads_of_other_architectures_are_refused),
           CHECK_CASE(heads_without_labels_are_refused), CHECK_CASE(heads_with_one_row_are_kept))
