/* models/placement.c -- places a model on two devices: its last layers on one, the rest on the CPU.
 */
#include "models/placement.h"

#include <stdlib.h>
#include <string.h>

weft_status weft__placement_make(const weft_model_options *options, weft__placement *out)
{
    weft_device *device = options->device ? options->device : weft_default_device();
    *out = (weft__placement){device, device, options->gpu_layers};
    if (device && options->gpu_layers != 0)
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

static weft_status place(void *context, const weft_nn_item *item)
{
    const placing *p = context;
    weft_array **slot = item->slot->address;
    const bool there = is_on_device(p, item->path);
    return weft_set(slot, weft_to(*slot, there ? p->placement->device : p->placement->host));
}

weft_status weft__placement_set(const weft__placement *p, weft_module *tree,
                                const weft_model_info *info)
{
    if (p->gpu_layers == 0 || p->device == p->host)
        return WEFT_OK;
    placing context = {p, info};
    weft_scope_open_lean();
    const weft_status status = weft_nn_visit(tree, place, &context);
    weft_scope_close(NULL);
    return status;
}

weft_array *weft__call_on_its_device(weft_module *m, weft_array *x)
{
    weft_array **weight = weft_nn_find(m, "weight");
    if (weight == NULL)
        return weft_nn_call(m, x);
    weft_device *before = weft_default_device(), *there = weft_device_of(*weight);
    weft_set_default_device(there);
    weft_array *y = weft_nn_call(m, weft_to(x, there));
    weft_set_default_device(before);
    return y;
}
