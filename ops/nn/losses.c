/* ops/nn/losses.c -- losses of whole batches, composed of other ops. */
#include "ops/nn/nn.h"

weft_array *weft_masked_cross_entropy(weft_array *logits, weft_array *targets, weft_array *mask)
{
    weft_scope_open();
    weft_array *rows = weft_astype(mask, WEFT_BOOL);
    if (weft_dtype_of(targets) == WEFT_UINT64) { /* uint64 has no common integer dtype with a signed
                                                  * one */
        targets = weft_astype(targets, WEFT_INT64);
    }
    /* Masked rows get a negative target and are ignored, whatever their target was. */
    weft_array *visible = weft_where(rows, targets, weft_scalar_int(-1, WEFT_INT32));
    weft_array *losses = weft_cross_entropy_rows(logits, visible);
    weft_dtype dtype = weft_dtype_of(losses);
    weft_array *count = weft_sum(weft_astype(rows, dtype), WEFT_ALL_AXES, false);
    count = weft_maximum(count, weft_scalar(1, dtype));
    return weft_scope_close(weft_divide(weft_sum(losses, WEFT_ALL_AXES, false), count));
}

weft_array *weft_mse(weft_array *prediction, weft_array *target)
{
    weft_scope_open();
    weft_dims a = weft_shape(prediction), b = weft_shape(target);
    if (weft_ok(prediction) && weft_ok(target) && !weft__shape_equal(&a, &b)) {
        char a_text[WEFT_SHAPE_TEXT], b_text[WEFT_SHAPE_TEXT];
        return weft_scope_close(weft_error_array("mse: shapes differ: %s and %s",
                                                 weft__shape_text(&a, a_text),
                                                 weft__shape_text(&b, b_text)));
    }
    weft_dtype both = weft_promote(weft_dtype_of(prediction), weft_dtype_of(target));
    weft_dtype dtype = weft_promote(both, WEFT_FLOAT32);
    weft_array *difference =
        weft_subtract(weft_astype(prediction, dtype), weft_astype(target, dtype));
    return weft_scope_close(weft_mean(weft_square(difference), WEFT_ALL_AXES, false));
}
