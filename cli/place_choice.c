/* cli/place_choice.c -- decides from facts where a command computes, and with which dtype. */
#include "cli/place_choice.h"

#include <string.h>

static bool is_cpu(const char *name)
{
    return strcmp(name, "cpu") == 0 || strncmp(name, "cpu:", 4) == 0;
}

static const place_device *find_device(const place_facts *f, const char *name)
{
    for (int i = 0; i < f->n_devices; i++) {
        if (strcmp(f->devices[i].name, name) == 0)
            return &f->devices[i];
    }
    return NULL;
}

/* The dtype on a device; NULL: a device without known traits. */
static weft_dtype dtype_on(const place_facts *f, const place_device *d)
{
    if (f->has_dtype)
        return f->dtype;
    if (d == NULL || !d->traits.fast_bfloat16 || f->use == PLACE_FULL)
        return WEFT_FLOAT32;
    const bool blocks = f->weights == PLACE_BLOCKS && !is_cpu(d->name) && !f->split;
    return blocks || f->weights == PLACE_BFLOAT16 ? WEFT_BFLOAT16 : WEFT_FLOAT32;
}

int64_t place_memory(const place_facts *f, weft_dtype dtype)
{
    const int64_t spare = (int64_t)1 << 30;
    const bool narrow = dtype != 0 ? dtype != WEFT_FLOAT32 : f->weights == PLACE_BFLOAT16;
    const int bytes = narrow ? 2 : 4;
    int64_t weights = f->elements * bytes;
    if (f->quantize > 0)
        weights = f->elements / 16 * (2 * f->quantize + 1); /* a scale and a bias for each 64 */
    weights += f->packed_bytes;
    switch (f->use) {
    case PLACE_FULL: /* weights, gradients, two states of the optimizer, activations */
        return 5 * weights + spare;
    case PLACE_LORA: /* weights, and as much for activations; micro-batches shrink to fit */
        return 2 * weights + 2 * spare;
    default: /* weights, KV cache */
        return weights + weights / 4 + spare;
    }
}

static bool suits(const place_device *d)
{
    return d->traits.discrete && d->traits.fast_bfloat16 && !d->refused;
}

place_choice place_choose(const place_facts *f)
{
    place_choice out = {.device = f->device ? f->device : "cpu"};
    const char *own = NULL;
    int fitting = 0;
    for (int i = 0; i < f->n_devices && f->device == NULL; i++) {
        const place_device *d = &f->devices[i];
        if (!suits(d))
            continue;
        const int64_t needed = place_memory(f, dtype_on(f, d));
        if (needed > d->traits.free_memory) {
            out.small = d;
            out.needed = needed;
        } else if (fitting++ == f->rank) {
            own = d->name;
        }
    }
    if (own && fitting >= f->ranks)
        out.device = own;
    out.dtype = dtype_on(f, find_device(f, out.device));
    return out;
}
