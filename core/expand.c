/* core/expand.c -- expands a node into smaller ops and checks the result. */
#include "core/device.h"
#include "core/failure.h"
#include "core/graph.h"
#include "core/shape.h"

static weft_status check_expansion(const weft_array *node, weft_array *const *outs)
{
    for (int i = 0; i < node->n_outputs; i++) {
        const weft_array *out = outs[i];
        if (!weft_ok(out)) {
            return weft__report(out);
        }
        const weft_spec *want = &weft__output(node, i)->spec, *got = &out->spec;
        char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
        if (want->dtype != got->dtype || !weft__shape_equal(&want->shape, &got->shape)) {
            return weft_fail(
                WEFT_INVALID, "%s: expansion: expected output %d to be %s %s, got %s %s",
                node->op->name, i, weft_dtype_name(want->dtype), weft__shape_text(&want->shape, a),
                weft_dtype_name(got->dtype), weft__shape_text(&got->shape, b));
        }
    }
    return WEFT_OK;
}

weft_status weft__expand(weft_array *node, weft_array **outs)
{
    weft_device *before = weft_default_device();
    weft_set_default_device(node->device);
    node->op->expand(node, outs);
    weft_set_default_device(before);
    return check_expansion(node, outs);
}
