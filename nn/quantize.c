/* nn/quantize.c -- encodes the weights of linears and embeddings. */
#include "nn/encoded.h"
#include "nn/module.h"

typedef struct quantizer {
    const weft_nn_quantize_options *options;
    const weft_encoding *encoding;
} quantizer;

/* The weight's slot of a module whose weight may be encoded, else NULL. */
static weft_slot *weight_of(weft_module *m)
{
    weft_slot *slot = m->type->takes_encoded ? weft__nn_slot(m, "weight") : NULL;
    return slot && slot->kind == WEFT_SLOT_PARAMETER ? slot : NULL;
}

bool weft__nn_is_quantized(const weft_nn_quantize_options *o, const weft_encoding *encoding,
                           const char *path, weft_module *m)
{
    const weft_slot *slot = weight_of(m);
    if (slot == NULL || (o->accepts && !o->accepts(o->context, path, m)))
        return false;
    return o->accepts || weft_dim(*slot->address, -1) % encoding->block == 0;
}

/* Encoded on the CPU, by all its threads: no other backend has a kernel for it. */
weft_array *weft__nn_quantized(weft_array *weight, const weft_encoding *encoding)
{
    weft_array *dense = weft_astype(weft_decode(weight), WEFT_BFLOAT16);
    weft_array *encoded = weft_encode(weft_to(dense, weft_device_get("cpu")), encoding);
    return weft_to(encoded, weft_device_of(weight));
}

static weft_status quantize(void *context, const char *path, weft_module **field)
{
    const quantizer *q = context;
    if (!weft__nn_is_quantized(q->options, q->encoding, path, *field))
        return WEFT_OK;
    weft_slot *slot = weight_of(*field);
    weft_scope_open_lean();
    weft_array *value = weft__nn_quantized(*slot->address, q->encoding);
    const weft_status status = weft_update(&slot->address, &value, 1);
    weft_scope_close(NULL);
    if (status == WEFT_OK)
        weft_nn_freeze(*field);
    return status;
}

weft_status weft_nn_quantize(weft_module *m, const weft_nn_quantize_options *options)
{
    static const weft_nn_quantize_options defaults = {0};
    quantizer q = {.options = options ? options : &defaults};
    q.encoding = weft_quantize_encoding(&q.options->format, WEFT_BFLOAT16);
    return q.encoding ? weft_nn_visit_modules(m, quantize, &q) : weft_error_status();
}
