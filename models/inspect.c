/* models/inspect.c -- records the keys, queries and attention weights of a prompt, layer by
 * layer. */
#include "weft/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "weft/batch.h"

static weft_status check(weft_model *model, const int32_t *ids, size_t n)
{
    const weft_model_info *info = weft_model_info_of(model);
    if (n == 0)
        return weft_fail(WEFT_INVALID, "inspect: the prompt has no tokens");
    if (info->max_positions > 0 && n > (size_t)info->max_positions)
        return weft_fail(WEFT_INVALID,
                         "inspect: the prompt has %zu tokens, the model %lld "
                         "positions",
                         n, (long long)info->max_positions);
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= info->vocab_size)
            return weft_fail(WEFT_INVALID,
                             "inspect: prompt id %zu: expected one of the vocabulary's %lld, got "
                             "%d",
                             i, (long long)info->vocab_size, (int)ids[i]);
    }
    return WEFT_OK;
}

static weft_inspection *inspection_new(weft_model *model, const int32_t *ids, size_t n)
{
    weft_inspection *x = weft_calloc(1, sizeof *x);
    if (x == NULL)
        return NULL;
    x->architecture = weft_model_family_of(model)->model_type;
    x->length = (int64_t)n;
    x->n_layers = weft_model_info_of(model)->n_layers;
    x->ids = weft_malloc(n * sizeof *ids);
    x->layers = weft_calloc((size_t)x->n_layers + 1, sizeof *x->layers);
    if (x->ids == NULL || x->layers == NULL) {
        weft_inspection_free(x);
        return NULL;
    }
    memcpy(x->ids, ids, n * sizeof *ids);
    return x;
}

/* (1, S, H, D) on any device -> (H, S, D) float32 on the CPU, into the slot. */
static weft_status put(weft_array **slot, weft_array *found)
{
    weft_array *x = weft_astype(weft_to(found, weft_device_get("cpu")), WEFT_FLOAT32);
    x = weft_contiguous(weft_swapaxes(weft_squeeze(x, 0), 0, 1));
    const weft_status status = weft_eval(x);
    return status == WEFT_OK ? weft_set(slot, x) : status;
}

static weft_status put_layer(weft_inspected_layer *layer, const weft_attention_record *record)
{
    *layer = (weft_inspected_layer){
        .source = record->source,
        .n_heads = weft_dim(record->queries, 2),
        .n_kv_heads = weft_dim(record->keys, 2),
        .head_dim = weft_dim(record->keys, 3),
    };
    weft_status status = put(&layer->queries, record->queries);
    if (status == WEFT_OK)
        status = put(&layer->keys, record->keys);
    return status == WEFT_OK && record->weights ? put(&layer->weights, record->weights) : status;
}

/* Layers without attention, as in hybrids, have no record. */
static weft_status run(weft_model *model, weft_inspection *x, weft_attention_record *records)
{
    weft_array *tokens = weft_from_data(x->ids, WEFT_INT32, WEFT_DIMS(1, x->length));
    const weft_model_call call = {.records = records};
    weft_status status = weft_eval(weft_model_hidden(model, tokens, &call));
    int64_t recorded = 0;
    for (int64_t i = 0; status == WEFT_OK && i < x->n_layers; i++) {
        if (records[i].keys == NULL || records[i].queries == NULL)
            continue;
        status = put_layer(&x->layers[i], &records[i]);
        recorded++;
    }
    return status == WEFT_OK && recorded == 0
               ? weft_fail(WEFT_UNSUPPORTED, "inspect: the family %s records no attention",
                           x->architecture)
               : status;
}

/* Records the weights of layers `first` to `last`. */
static weft_status inspect(weft_model *model, const int32_t *ids, size_t n, int64_t first,
                           int64_t last, weft_inspection **out)
{
    *out = NULL;
    weft_status status = check(model, ids, n);
    if (status != WEFT_OK)
        return status;
    const int64_t n_layers = weft_model_info_of(model)->n_layers;
    weft_attention_record *records = weft_calloc((size_t)n_layers + 1, sizeof *records);
    weft_inspection *x = inspection_new(model, ids, n);
    for (int64_t i = 0; records && i < n_layers; i++)
        records[i].with_weights = i >= first && i <= last;
    weft_scope_open_lean();
    status = records && x ? run(model, x, records) : weft__out_of_memory("inspect", NULL);
    weft_scope_close(NULL);
    for (int64_t i = 0; records && i < n_layers; i++) {
        weft_drop(records[i].queries);
        weft_drop(records[i].keys);
        weft_drop(records[i].weights);
    }
    weft_free(records);
    if (status == WEFT_OK)
        *out = x;
    else
        weft_inspection_free(x);
    return status;
}

weft_status weft_inspect(weft_model *model, const int32_t *ids, size_t n, weft_inspection **out)
{
    return inspect(model, ids, n, 0, -1, out);
}

weft_status weft_inspect_weights(weft_model *model, const int32_t *ids, size_t n, int64_t first,
                                 int64_t last, weft_inspection **out)
{
    return inspect(model, ids, n, first, last, out);
}

void weft_inspection_free(weft_inspection *x)
{
    for (int64_t i = 0; x && x->layers && i < x->n_layers; i++) {
        weft_drop(x->layers[i].keys);
        weft_drop(x->layers[i].queries);
        weft_drop(x->layers[i].weights);
    }
    if (x) {
        weft_free(x->layers);
        weft_free(x->ids);
    }
    weft_free(x);
}

/* ---- Saving --------------------------------------------------------------------------------- */

enum { NAME = 48, DIGITS = 24 };

/* "[1, 2]" in new memory, from the number at `base` and every `step` bytes after it. */
static char *list_text(int64_t n, int64_t (*at)(const weft_inspection *x, int64_t i),
                       const weft_inspection *x)
{
    char *text = weft_malloc((size_t)n * DIGITS + 3), *end = text;
    if (text == NULL)
        return NULL;
    *end++ = '[';
    for (int64_t i = 0; i < n; i++)
        end += snprintf(end, DIGITS, "%s%" PRId64, i > 0 ? ", " : "", at(x, i));
    memcpy(end, "]", 2);
    return text;
}

static int64_t id_at(const weft_inspection *x, int64_t i)
{
    return x->ids[i];
}

static int64_t source_at(const weft_inspection *x, int64_t i)
{
    return x->layers[i].source;
}

/* The names of the file's arrays, and the arrays. */
typedef struct tensors {
    char (*names)[NAME];
    const char **pointers;
    weft_array **arrays;
} tensors;

/* Returns the number of arrays; another program's inspection may have no queries. */
static int fill(const weft_inspection *x, tensors *t)
{
    int n = 0;
    for (int64_t i = 0; i < x->n_layers; i++) {
        const weft_inspected_layer *layer = &x->layers[i];
        if (layer->keys == NULL)
            continue;
        snprintf(t->names[n], NAME, "layers.%" PRId64 ".keys", i);
        t->arrays[n++] = layer->keys;
        if (layer->queries == NULL)
            continue;
        snprintf(t->names[n], NAME, "layers.%" PRId64 ".queries", i);
        t->arrays[n++] = layer->queries;
    }
    for (int i = 0; i < n; i++)
        t->pointers[i] = t->names[i];
    return n;
}

weft_status weft_inspection_save(const weft_inspection *x, const char *path)
{
    const size_t n = 2 * (size_t)x->n_layers + 1;
    tensors t = {weft_malloc(n * sizeof *t.names), weft_malloc(n * sizeof *t.pointers),
                 weft_malloc(n * sizeof *t.arrays)};
    char *ids = list_text(x->ids ? x->length : 0, id_at, x),
         *sources = list_text(x->n_layers, source_at, x);
    weft_status status = WEFT_OK;
    if (!t.names || !t.pointers || !t.arrays || !ids || !sources) {
        status = weft__out_of_memory(path, NULL);
    } else {
        const weft_metadata metadata[] = {
            {"architecture", x->architecture}, {"tokens", ids}, {"sources", sources}};
        const int filled = fill(x, &t);
        status = weft_safetensors_save(path, t.pointers, t.arrays, filled, metadata, 3);
    }
    weft_free(t.names);
    weft_free(t.pointers);
    weft_free(t.arrays);
    weft_free(ids);
    weft_free(sources);
    return status;
}
