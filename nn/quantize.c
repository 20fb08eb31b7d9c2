/* nn/quantize.c -- weights of linears and embeddings in encodings. */
#include <string.h>

#include "core/shape.h"
#include "nn/module.h"
#include "weft/nn_tools.h"

typedef struct quantizer {
    const weft_nn_quantize_options *options;
    const weft_encoding *encoding;
} quantizer;

/* The weight's slot of a module that may have it encoded, else NULL. */
static weft_slot *weight_of(weft_module *m)
{
    weft_slot *slot = m->type->takes_encoded ? weft__nn_slot(m, "weight") : NULL;
    return slot && slot->kind == WEFT_SLOT_PARAMETER ? slot : NULL;
}

static weft_status quantize(void *context, const char *path, weft_module **field)
{
    const quantizer *q = context;
    weft_slot *slot = weight_of(*field);
    if (slot == NULL ||
        (q->options->accepts && !q->options->accepts(q->options->context, path, *field)))
        return WEFT_OK;
    const bool whole = weft_dim(*slot->address, -1) % q->encoding->block == 0;
    if (!whole && q->options->accepts == NULL)
        return WEFT_OK;
    weft_scope_open_lean();
    weft_array *dense = weft_astype(weft_decode(*slot->address), WEFT_BFLOAT16);
    weft_array *value = weft_encode(dense, q->encoding);
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
