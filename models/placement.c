/* models/placement.c -- places a model on several devices: its layers one after another, or its
 * last layers on one and the rest on the CPU, which computes it or streams its weights to the
 * device. */
#include "models/placement.h"

#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/graph.h"
#include "core/io/safetensors.h"
#include "nn/module.h"

weft_status weft__placement_make(const weft_model_options *options, weft__placement *out)
{
    const int n = options->n_devices;
    weft_device *device = n > 0             ? options->devices[0]
                          : options->device ? options->device
                                            : weft_default_device();
    const bool parted = options->gpu_layers != 0 || options->stream;
    *out = (weft__placement){.device = device,
                             .host = device,
                             .devices = options->devices,
                             .n_devices = n > 1 ? n : 0,
                             .gpu_layers = options->gpu_layers,
                             .streams = options->stream};
    if (n > WEFT_MODEL_DEVICES)
        return weft_fail(WEFT_INVALID, "model: devices: expected at most %d, got %d",
                         WEFT_MODEL_DEVICES, n);
    if (n > 1 && parted)
        return weft_fail(WEFT_INVALID, "model: %d devices: expected none beside %s", n,
                         options->stream ? "stream" : "gpu_layers");
    for (int i = 0; i < n; i++) {
        if (options->devices[i] == NULL)
            return weft_error_status();
    }
    if (device && (parted || n > 1))
        out->host = weft_device_get("cpu");
    return device && out->host ? WEFT_OK : weft_error_status();
}

/* The layer number in a parameter's path; -1: none. */
static int64_t layer_of(const char *path)
{
    const char *at = strstr(path, "layers.");
    char *end = NULL;
    const long long number = at ? strtoll(at + strlen("layers."), &end, 10) : -1;
    return end && *end == '.' ? number : -1;
}

typedef struct placing {
    const weft__placement *placement;
    const weft_model_info *info;
    double *sizes;                    /* (layers + 1): elements of each layer; last, of the head */
    int64_t ends[WEFT_MODEL_DEVICES]; /* device i has layers ends[i - 1] to ends[i] - 1 */
} placing;

static bool is_on_device(const placing *p, const char *path)
{
    const int64_t n = p->placement->gpu_layers, layers = p->info->n_layers;
    const int64_t layer = layer_of(path);
    if (layer >= 0)
        return layer >= layers - n;
    const bool embedding = strstr(path, "embed_tokens") != NULL;
    return n > layers && (p->info->tied || !embedding);
}

/* What calls of a module with this path read. The embedding's rows are taken on the host. */
static weft_status place_weight(void *context, const char *path, weft_module **field)
{
    const placing *p = context;
    weft_module *m = *field;
    if (!m->type->takes_encoded || is_on_device(p, path))
        return WEFT_OK;
    weft_slot *slot = weft__nn_slot(m, "weight");
    m->device = strstr(path, "embed_tokens") ? NULL : p->placement->device;
    if (slot == NULL || slot->kind == WEFT_SLOT_TIED)
        return WEFT_OK;
    return weft_set(slot->address, weft_to(*slot->address, p->placement->host));
}

static weft_status place(void *context, const weft_nn_item *item)
{
    const placing *p = context;
    weft_array **slot = item->slot->address;
    const bool there = p->placement->streams || is_on_device(p, item->path);
    return weft_set(slot, weft_to(*slot, there ? p->placement->device : p->placement->host));
}

/* ---- layers over several devices ------------------------------------------------------------- */

/* Whether the parameter belongs to what precedes the layers. */
static bool is_input(const char *path)
{
    return strstr(path, "embed_tokens") != NULL || strstr(path, "per_layer_") != NULL;
}

static weft_status add_size(void *context, const weft_nn_item *item)
{
    const placing *p = context;
    const int64_t layer = layer_of(item->path), layers = p->info->n_layers;
    const double size = (double)weft_size(*item->slot->address);
    if (layer >= 0 && layer < layers)
        p->sizes[layer] += size;
    else if (!is_input(item->path) || (p->info->tied && strstr(item->path, "embed_tokens.")))
        p->sizes[layers] += size;
    return WEFT_OK;
}

/* A layer goes to the device whose share of all elements contains its midpoint. */
static void divide(placing *p)
{
    const weft__placement *to = p->placement;
    const int64_t layers = p->info->n_layers;
    double total = 0, memory = 0, share = 0, before = 0;
    bool known = true;
    for (int64_t i = 0; i <= layers; i++)
        total += p->sizes[i];
    for (int d = 0; d < to->n_devices; d++) {
        known = known && weft_device_memory(to->devices[d]) > 0;
        memory += (double)weft_device_memory(to->devices[d]);
    }
    int64_t layer = 0;
    for (int d = 0; d < to->n_devices; d++) {
        share += known ? (double)weft_device_memory(to->devices[d]) / memory : 1.0 / to->n_devices;
        while (layer < layers && before + p->sizes[layer] / 2 <= share * total)
            before += p->sizes[layer++];
        p->ends[d] = layer;
    }
    p->ends[to->n_devices - 1] = layers;
}

static weft_device *device_of_path(const placing *p, const char *path)
{
    const weft__placement *to = p->placement;
    const int64_t layer = layer_of(path);
    int d = layer >= 0 || is_input(path) ? 0 : to->n_devices - 1;
    while (layer >= 0 && d < to->n_devices - 1 && layer >= p->ends[d])
        d++;
    return to->devices[d];
}

static weft_status spread_one(void *context, const weft_nn_item *item)
{
    weft_array **slot = item->slot->address;
    return weft_set(slot, weft_to(*slot, device_of_path(context, item->path)));
}

/* A tied head is called on the last device. */
static weft_status place_tied(void *context, const char *path, weft_module **field)
{
    const weft_slot *slot = weft__nn_slot(*field, "weight");
    if (slot && slot->kind == WEFT_SLOT_TIED)
        (*field)->device = device_of_path(context, path);
    return WEFT_OK;
}

static weft_status spread(placing *p, weft_module *tree)
{
    p->sizes = weft_calloc((size_t)p->info->n_layers + 1, sizeof *p->sizes);
    if (p->sizes == NULL)
        return weft__out_of_memory("model", "its layers");
    weft_status status = weft_nn_visit(tree, add_size, p);
    divide(p);
    weft_free(p->sizes);
    if (status == WEFT_OK)
        status = weft_nn_visit(tree, spread_one, p);
    return status == WEFT_OK ? weft_nn_visit_modules(tree, place_tied, p) : status;
}

static weft_status copy_tied(void *context, const char *path, weft_module **field)
{
    (void)context;
    (void)path;
    weft_slot *slot = weft__nn_slot(*field, "weight");
    const bool elsewhere = slot && slot->kind == WEFT_SLOT_TIED && (*field)->device &&
                           weft_device_of(*slot->owner) != (*field)->device;
    return elsewhere ? weft__nn_copy_tied(slot, (*field)->device) : WEFT_OK;
}

weft_status weft__placement_set(const weft__placement *p, weft_module *tree,
                                const weft_model_info *info)
{
    if (p->device == p->host && p->n_devices == 0)
        return WEFT_OK;
    placing context = {.placement = p, .info = info};
    weft_scope_open_lean();
    weft_status status =
        p->n_devices > 0 ? spread(&context, tree) : weft_nn_visit(tree, place, &context);
    if (status == WEFT_OK && p->streams)
        status = weft_nn_visit_modules(tree, place_weight, &context);
    weft_scope_close(NULL);
    return status;
}

/* ---- when the weights are loaded ------------------------------------------------------------- */

static weft_array **streamed_weight(weft_module *m)
{
    weft_array **weight =
        m->device ? weft_nn_find(m, "weight") : NULL; /* of a tied one: the owner's */
    return weight && weft_device_of(*weight) != m->device ? weight : NULL;
}

static weft_status add_bytes(void *total, const char *path, weft_module **field)
{
    (void)path;
    weft_array **weight = streamed_weight(*field);
    *(int64_t *)total += weight ? weft_nbytes(*weight) : 0;
    return WEFT_OK;
}

static weft_status pin(void *context, const char *path, weft_module **field)
{
    (void)path;
    weft_array **weight = streamed_weight(*field);
    if (weight == NULL)
        return WEFT_OK;
    weft_scope_open();
    weft_array *source = weft_keep(*weight);
    const weft_status status = weft_set(weight, weft__pinned(source, context));
    if (*weight != source && weft__mapping_is_viewed(source))
        weft__mapping_evict(source);
    weft_drop(source);
    weft_scope_close(NULL);
    return status;
}

weft_status weft__placement_finish(const weft__placement *p, weft_module *tree)
{
    if (p->n_devices > 0)
        return weft_nn_visit_modules(tree, copy_tied, NULL);
    if (!p->streams || p->device == p->host)
        return WEFT_OK;
    int64_t bytes = 0;
    weft_device *before = weft_default_device();
    weft_set_default_device(p->host);
    weft_status status = weft_nn_visit_modules(tree, add_bytes, &bytes);
    if (status == WEFT_OK && bytes <= weft_device_memory(p->host) / 2)
        status = weft_nn_visit_modules(tree, pin, p->device);
    weft_set_default_device(before);
    return status;
}

bool weft__placement_streams(const weft_module *block)
{
    bool streams = block->device != NULL;
    for (int i = 0; i < block->n_children && !streams; i++)
        streams = weft__placement_streams(*block->children[i].address);
    return streams;
}

static weft_array *first_parameter(const weft_module *m)
{
    weft_array *found = NULL;
    for (int i = 0; i < m->n_children && found == NULL; i++)
        found = first_parameter(*m->children[i].address);
    return found == NULL && m->n_slots > 0 ? *m->slots[0].address : found;
}

static weft_device *device_of_calls(const weft_module *m)
{
    weft_device *found = m->device;
    for (int i = 0; i < m->n_children && found == NULL; i++)
        found = device_of_calls(*m->children[i].address);
    return found;
}

weft_device *weft__placement_device(const weft_module *block)
{
    weft_device *device = device_of_calls(block);
    return device ? device : weft_device_of(first_parameter(block));
}

weft_array *weft__call_on_its_device(weft_module *m, weft_array *x)
{
    if (weft_nn_find(m, "weight") == NULL)
        return weft_nn_call(m, x);
    weft_device *before = weft_default_device(), *there = weft__nn_device(m);
    weft_set_default_device(there);
    weft_array *y = weft_nn_call(m, weft_to(x, there));
    weft_set_default_device(before);
    return y;
}
