/* models/classifier.c -- sequence classification: a head with a row for each label, on the last
 * token's hidden state or as encoders have it, and the labels in config.json. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/folder.h"
#include "core/io/gguf.h"
#include "core/io/text.h"
#include "models/classifier.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "models/gguf/gguf.h"
#include "nn/module.h"
#include "weft/memory.h"
#include "weft/nn_tools.h"
#include "weft/random.h"

void weft_labels_free(weft_labels *labels)
{
    for (int i = 0; i < labels->n; i++)
        weft_free(labels->at[i]);
    weft_free(labels->at);
    *labels = (weft_labels){.open = false};
}

int weft_labels_index(const weft_labels *labels, const char *label)
{
    for (int i = 0; i < labels->n; i++) {
        if (strcmp(labels->at[i], label) == 0)
            return i;
    }
    return -1;
}

weft_status weft_labels_add(weft_labels *labels, const char *label)
{
    char **more = weft_realloc(labels->at, ((size_t)labels->n + 1) * sizeof *more);
    if (more != NULL)
        labels->at = more;
    char *copy = more ? weft_strdup(label) : NULL;
    if (copy == NULL)
        return weft__out_of_memory("labels", label);
    labels->at[labels->n++] = copy;
    return WEFT_OK;
}

/* ---- configurations ------------------------------------------------------------------------- */

weft_status weft__classifier_names(const weft__json *id2label, int64_t n, const char *what,
                                   weft_labels *out)
{
    const weft__json names = *id2label;
    weft_status status = names.value ? weft__json_as_object(&names) : WEFT_OK;
    if (status == WEFT_OK && names.value && json_object_object_length(names.value) != n)
        status = weft__json_fail(&names, WEFT_INVALID,
                                 "expected a label for each of the %lld rows of %s, got %d",
                                 (long long)n, what, (int)json_object_object_length(names.value));
    for (int64_t i = 0; status == WEFT_OK && i < n; i++) {
        char key[32];
        const char *label = key;
        snprintf(key, sizeof key, names.value ? "%lld" : "LABEL_%lld", (long long)i);
        if (names.value)
            status = weft__json_get_string(&names, key, &label);
        if (status == WEFT_OK)
            status = weft_labels_add(out, label);
    }
    return status;
}

static const char ending[] = "ForSequenceClassification";
static const char problem[] = "single_label_classification";

/* The class in "architectures"; NULL: none. */
static const char *class_of(const weft_config *config)
{
    const weft__json classes = weft__config_at_top(config, "architectures");
    weft__json first;
    const char *name = NULL;
    if (classes.value && weft__json_at(&classes, 0, &first) == WEFT_OK)
        (void)weft__json_as_string(&first, &name, NULL); /* on failure the name stays NULL */
    return name;
}

bool weft__classifier_is_class(const weft_config *config)
{
    const char *name = class_of(config);
    return name && weft__ends_with(name, ending);
}

/* Without id2label the number of labels is num_labels, or 2. */
weft_status weft__classifier_labels(const weft_config *config, weft_labels *out)
{
    const weft__json names = weft__config_at_top(config, "id2label");
    *out = (weft_labels){.open = false};
    const int64_t n = names.value && json_object_is_type(names.value, json_type_object)
                          ? json_object_object_length(names.value)
                          : weft_config_int(config, "num_labels", 2);
    if (!weft__classifier_is_class(config) || n < 2 || n > INT16_MAX ||
        strcmp(weft_config_string(config, "problem_type", problem), problem) != 0)
        return WEFT_OK;
    const weft_status status = weft__classifier_names(&names, n, "the head", out);
    if (status != WEFT_OK)
        weft_labels_free(out);
    return status;
}

weft_status weft_model_labels(const char *path, weft_labels *out)
{
    char *gguf = NULL;
    weft_gguf *opened = NULL;
    weft_config *config = NULL;
    *out = (weft_labels){.open = false};
    weft_status status = weft__gguf_find(path, &gguf);
    char *file = weft_format("%s/config.json", path);
    if (status == WEFT_OK && file == NULL)
        status = weft__out_of_memory(path, "its labels");
    if (status == WEFT_OK && gguf)
        status = weft_gguf_open(gguf, &opened);
    if (status == WEFT_OK && gguf)
        status = weft__gguf_config(opened, &config);
    else if (status == WEFT_OK && weft__exists(file))
        status = weft_config_load(file, &config);
    weft_gguf_close(opened);
    if (config)
        status = weft__classifier_labels(config, out);
    weft_config_free(config);
    weft_free(file);
    weft_free(gguf);
    return status;
}

/* The matrix with a row for each label, by the class of the model. */
const char *const weft__label_rows[] = {"score", "classifier", "classifier.out_proj", NULL};

bool weft__classifier_is_stored(const weft_config *config)
{
    for (int i = 0; weft__label_rows[i] && weft__config_has_tensors(config); i++) {
        char path[64];
        snprintf(path, sizeof path, "%s.weight", weft__label_rows[i]);
        if (weft__config_tensor(config, path, NULL))
            return true;
    }
    return !weft__config_has_tensors(config);
}

/* LlamaForSequenceClassification for LlamaForCausalLM, also from the multimodal
 * ...ForConditionalGeneration, and BertForSequenceClassification for BertModel. */
static void put_architecture(json_object *root, const weft_model *model)
{
    const char *own = class_of(weft_model_config(model));
    own = own ? own : weft_model_family_of(model)->architecture;
    const char *end = own ? strstr(own, "For") : NULL;
    end = own && !end ? strstr(own, "Model") : end;
    char *name = end ? weft_format("%.*s%s", (int)(end - own), own, ending) : NULL;
    json_object *names = name ? json_object_new_array() : NULL;
    if (names && json_object_array_add(names, json_object_new_string(name)) == 0)
        json_object_object_add(root, "architectures", names);
    weft_free(name);
}

void weft__classifier_config(const weft_model *model, json_object *root)
{
    json_object *names = json_object_new_object(), *numbers = json_object_new_object();
    put_architecture(root, model);
    json_object_object_add(root, "problem_type", json_object_new_string(problem));
    json_object_object_del(root, "num_labels"); /* transformers prefers it to id2label */
    for (int64_t i = 0; i < weft_model_info_of(model)->n_labels; i++) {
        char key[24];
        const char *label = weft_model_label(model, i);
        snprintf(key, sizeof key, "%lld", (long long)i);
        json_object_object_add(names, key, json_object_new_string(label));
        json_object_object_add(numbers, label, json_object_new_int64(i));
    }
    json_object_object_add(root, "id2label", names);
    json_object_object_add(root, "label2id", numbers);
    /* transformers needs a padding token to find the last token of a sequence. */
    json_object *pad = json_object_object_get(root, "pad_token_id");
    json_object *eos = json_object_object_get(root, "eos_token_id");
    if (pad == NULL && eos && json_object_is_type(eos, json_type_int))
        json_object_object_add(root, "pad_token_id", json_object_get(eos));
}

/* ---- the head ------------------------------------------------------------------------------- */

weft_status weft__classifier_put(weft_module *module, const weft_config *config,
                                 const weft_model_family *family, weft_model_info *info, int n)
{
    if (family->head == weft__encoder_head) {
        const weft_status put = weft__encoder_classify(module, config, info->hidden_size, n);
        info->n_labels = put == WEFT_OK ? n : 0;
        return put;
    }
    if (family->head != weft__decoder_head || info->encoder)
        return weft_fail(WEFT_UNSUPPORTED, "%s: %s models cannot become classifiers",
                         weft_config_where(config), family->model_type);
    weft_array *const *old = weft_nn_find(module, "lm_head.weight");
    weft_device *before = weft_default_device();
    if (old)
        weft_set_default_device(weft_device_of(*old));
    const double deviation = weft_config_double(config, "initializer_range", 0.02);
    weft_scope_open();
    weft_module *score = weft_nn_linear_new(info->hidden_size, n, false);
    weft_status status = score ? WEFT_OK : weft_error_status();
    if (status == WEFT_OK)
        status = weft_set(
            weft_nn_find(score, "weight"),
            weft_random_normal(NULL, WEFT_DIMS(n, info->hidden_size), 0, deviation, WEFT_FLOAT32));
    weft_scope_close(NULL);
    weft_set_default_device(before);
    if (status != WEFT_OK) {
        weft_nn_free(score);
        return status;
    }
    score->whole = true;
    weft__decoder_set_head(module, "score", score);
    info->tied = false;
    info->softcap = 0;
    info->n_labels = n;
    return WEFT_OK;
}
