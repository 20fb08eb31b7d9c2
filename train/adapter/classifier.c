/* train/adapter/classifier.c -- adapters of classifiers: reads and writes the labels in the
 * config.json beside the adapter. transformers uses the same layout. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "models/convert/convert.h"
#include "train/adapter/adapter.h"
#include "train/adapter/list.h"

/* ---- writing -------------------------------------------------------------------------------- */

/* Converts "LlamaForCausalLM" to "LlamaForSequenceClassification", also from the multimodal
 * "...ForConditionalGeneration". NULL: not a name of that form. */
static char *classifier_name(const char *name)
{
    const char *end = name ? strstr(name, "ForCausalLM") : NULL;
    end = name && !end ? strstr(name, "ForConditionalGeneration") : end;
    return end ? weft_format("%.*sForSequenceClassification", (int)(end - name), name) : NULL;
}

static void put_architecture(json_object *root)
{
    json_object *list = json_object_object_get(root, "architectures");
    json_object *first = list && json_object_is_type(list, json_type_array)
                             ? json_object_array_get_idx(list, 0)
                             : NULL;
    char *name = classifier_name(first ? json_object_get_string(first) : NULL);
    json_object *names = name ? json_object_new_array() : NULL;
    if (names && json_object_array_add(names, json_object_new_string(name)) == 0)
        json_object_object_add(root, "architectures", names);
    weft_free(name);
}

static void put_labels(json_object *root, const weft_model *model)
{
    json_object *names = json_object_new_object(), *numbers = json_object_new_object();
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

weft_status weft__adapter_write_labels(weft_model *model, const char *folder)
{
    char *text = NULL, *path = weft_format("%s/config.json", folder);
    weft__json_doc doc = {0};
    if (weft_model_info_of(model)->n_labels == 0) {
        weft_free(path);
        return WEFT_OK;
    }
    weft_status status = path ? weft__convert_config(model, false, &text)
                              : weft__out_of_memory(folder, "the classifier's configuration");
    if (status == WEFT_OK)
        status = weft__json_parse(text, strlen(text), path, &doc);
    if (status == WEFT_OK) {
        put_architecture(doc.root);
        put_labels(doc.root, model);
        json_object_object_del(doc.root, "quantization");
        const char *made = json_object_to_json_string_ext(
            doc.root,
            JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
        status = made ? weft_file_write(path, made, strlen(made))
                      : weft__out_of_memory(folder, "the classifier's configuration");
        weft__json_free(&doc);
    }
    weft_free(text);
    weft_free(path);
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Reads labels 0 to n - 1 of id2label; LABEL_0 and so on if the configuration has none. */
static weft_status read_names(const weft__json *root, int64_t n, weft_labels *out)
{
    weft__json names = {0};
    weft_status status = root ? weft__json_find(root, "id2label", &names) : WEFT_OK;
    if (status == WEFT_OK && names.value)
        status = weft__json_as_object(&names);
    if (status == WEFT_OK && names.value && json_object_object_length(names.value) != n)
        status = weft__json_fail(&names, WEFT_INVALID,
                                 "expected a label for each of the %lld rows of score, got %d",
                                 (long long)n, (int)json_object_object_length(names.value));
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

weft_status weft__adapter_read_labels(const char *folder, const weft_safetensors *file,
                                      weft_labels *out)
{
    weft__json_doc doc = {0};
    *out = (weft_labels){.open = false};
    const int at = weft_safetensors_find(file, WEFT__ADAPTER_PREFIX "score.weight");
    if (at < 0)
        return WEFT_OK;
    char *path = weft_format("%s/config.json", folder);
    weft_status status = path ? WEFT_OK : weft__out_of_memory(folder, "its labels");
    const bool there = path && weft__exists(path);
    if (there)
        status = weft__json_read(path, &doc);
    const weft__json root = there && status == WEFT_OK ? weft__json_root(&doc) : (weft__json){0};
    if (status == WEFT_OK)
        status = read_names(there ? &root : NULL, weft_safetensors_at(file, at)->shape.at[0], out);
    weft__json_free(&doc);
    weft_free(path);
    if (status != WEFT_OK)
        weft_labels_free(out);
    return status;
}

weft_status weft_adapter_labels(const char *folder, weft_labels *out)
{
    weft_safetensors *file = NULL;
    *out = (weft_labels){.open = false};
    char *path = weft_format("%s/%s", folder, WEFT__ADAPTER_TENSORS);
    char *mlx = weft_format("%s/%s", folder, WEFT__ADAPTER_MLX_TENSORS);
    weft_status status = path && mlx ? WEFT_OK : weft__out_of_memory(folder, "its labels");
    /* mlx-lm has no classifiers. */
    if (status == WEFT_OK && (weft__exists(path) || !weft__exists(mlx)))
        status = weft__adapter_open(folder, &file);
    if (file)
        status = weft__adapter_read_labels(folder, file, out);
    weft_safetensors_close(file);
    weft_free(path);
    weft_free(mlx);
    return status;
}

weft_status weft__adapter_classify(weft_model *model, const char *folder,
                                   const weft_safetensors *file)
{
    weft_labels labels;
    weft_status status = weft__adapter_read_labels(folder, file, &labels);
    const int64_t n = weft_model_info_of(model)->n_labels;
    if (status == WEFT_OK && labels.n > 0 && n == 0)
        status = weft_model_classify(model, (const char *const *)labels.at, labels.n);
    else if (status == WEFT_OK && labels.n != n)
        status = weft_fail(WEFT_INVALID, "%s: expected an adapter of a classifier with %lld labels",
                           folder, (long long)n);
    weft_labels_free(&labels);
    return status;
}
