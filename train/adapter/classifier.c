/* train/adapter/classifier.c -- adapters of classifiers: reads and writes the labels in the
 * config.json beside the adapter. transformers uses the same layout. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "models/classifier.h"
#include "models/convert/convert.h"
#include "train/adapter/adapter.h"
#include "train/adapter/list.h"

/* ---- writing -------------------------------------------------------------------------------- */

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

static int find_head(const weft_safetensors *file, const char **name)
{
    int at = -1;
    for (int i = 0; at < 0 && weft__label_rows[i]; i++) {
        char path[128];
        snprintf(path, sizeof path, WEFT__ADAPTER_PREFIX "%s.weight", weft__label_rows[i]);
        at = weft_safetensors_find(file, path);
        *name = weft__label_rows[i];
    }
    return at;
}

/* Reads the labels of an adapter's classification head; *out stays empty if it has no such head.
 * *named: the folder has their names. */
static weft_status read_labels(const char *folder, const weft_safetensors *file, weft_labels *out,
                               bool *named)
{
    weft__json_doc doc = {0};
    *out = (weft_labels){.open = false};
    *named = false;
    const char *head = NULL;
    const int at = find_head(file, &head);
    if (at < 0)
        return WEFT_OK;
    char *path = weft_format("%s/config.json", folder);
    weft_status status = path ? WEFT_OK : weft__out_of_memory(folder, "its labels");
    const bool there = path && weft__exists(path);
    if (there)
        status = weft__json_read(path, &doc);
    weft__json names = {0};
    const weft__json root = there && status == WEFT_OK ? weft__json_root(&doc) : (weft__json){0};
    if (status == WEFT_OK && there)
        status = weft__json_find(&root, "id2label", &names);
    if (status == WEFT_OK)
        status =
            weft__classifier_names(&names, weft_safetensors_at(file, at)->shape.at[0], head, out);
    *named = names.value != NULL;
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
    bool named;
    if (file)
        status = read_labels(folder, file, out, &named);
    weft_safetensors_close(file);
    weft_free(path);
    weft_free(mlx);
    return status;
}

weft_status weft__adapter_classify(weft_model *model, const char *folder,
                                   const weft_safetensors *file)
{
    weft_labels labels;
    bool named;
    weft_status status = read_labels(folder, file, &labels, &named);
    const int64_t n = weft_model_info_of(model)->n_labels;
    if (status == WEFT_OK && labels.n > 0 && n == 0)
        status = weft_model_classify(model, (const char *const *)labels.at, labels.n);
    else if (status == WEFT_OK && labels.n != n)
        status = weft_fail(WEFT_INVALID, "%s: expected an adapter of a classifier with %lld labels",
                           folder, (long long)n);
    else if (status == WEFT_OK && named)
        weft__model_swap_labels(model, labels.at); /* the head is the adapter's */
    weft_labels_free(&labels);
    return status;
}
