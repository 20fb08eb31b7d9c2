/* models/placement.c -- places a model on two devices: its last layers on one, the rest on the CPU,
 * which computes it or streams its weights to the device. */
#include "models/placement.h"

#include <stdlib.h>
#include <string.h>

#include "core/graph.h"
#include "core/io/safetensors.h"
#include "nn/module.h"

weft_status weft__placement_make(const weft_model_options *options, weft__placement *out)
{
    weft_device *device = options->device ? options->device : weft_default_device();
    *out = (weft__placement){device, device, options->gpu_layers, options->stream};
    if (device && (options->gpu_layers != 0 || options->stream))
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

weft_status weft__placement_set(const weft__placement *p, weft_module *tree,
                                const weft_model_info *info)
{
    if (p->device == p->host)
        return WEFT_OK;
    placing context = {p, info};
    weft_scope_open_lean();
    weft_status status = weft_nn_visit(tree, place, &context);
    if (status == WEFT_OK && p->streams)
        status = weft_nn_visit_modules(tree, place_weight, &context);
    weft_scope_close(NULL);
    return status;
}

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

weft_status weft__placement_pin(const weft__placement *p, weft_module *tree)
{
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
