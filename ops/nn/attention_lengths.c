/* ops/nn/attention_lengths.c -- attention to the first keys of each row: the lengths, and the
 * equivalent mask. */
#include "ops/nn/nn.h"

#include <math.h>

weft_array *weft__attention_lengths(weft_array *lengths, int64_t B)
{
    if (!weft_ok(lengths)) {
        return lengths;
    }
    if (!weft_dtype_is_integer(weft_dtype_of(lengths)) || weft_ndim(lengths) > 1 ||
        (weft_size(lengths) != 1 && weft_dim(lengths, 0) != B)) {
        return weft_error_array("attention: lengths: expected integers, 0-d, (1) or (B) = (%lld)",
                                (long long)B);
    }
    lengths = weft_astype(lengths, WEFT_INT32);
    return weft_broadcast_to(lengths, WEFT_DIMS(B));
}

/* Whether query l of row b may attend to each key, by position: bool (B, 1, L or 1, S). */
static weft_array *visible_keys(weft_array *node, const weft_attention_params *params)
{
    weft_array *q = weft_node_input(node, 0);
    const int64_t B = weft_dim(q, 0), L = weft_dim(q, 1), S = input_shape(node, 1).at[1];
    weft_array *lengths = weft_node_input(node, weft_node_n_inputs(node) - 1);
    weft_array *least = weft_scalar_int(0, WEFT_INT64), *most = weft_scalar_int(S, WEFT_INT64);
    lengths = weft_clip(weft_astype(lengths, WEFT_INT64), least, most);
    lengths = weft_reshape(lengths, WEFT_DIMS(B, 1, 1, 1));
    weft_array *key = on_device_of(q, weft_arange(0, (double)S, 1, WEFT_INT64));
    weft_array *visible = weft_less(key, lengths);
    weft_array *i = on_device_of(q, weft_arange((double)-L, 0, 1, WEFT_INT64));
    weft_array *own = weft_add(params->causal ? lengths : most, /* each query's own key */
                               weft_reshape(i, WEFT_DIMS(1, 1, L, 1)));
    if (params->causal) {
        visible = weft_logical_and(visible, weft_less_equal(key, own));
    }
    if (params->window > 0) {
        weft_array *width = weft_scalar_int(params->window, WEFT_INT64);
        weft_array *apart = weft_abs(weft_subtract(own, key));
        visible = weft_logical_and(visible, weft_less(apart, width));
    }
    return visible;
}

weft_array *weft__attention_lengths_mask(weft_array *node, weft_array *mask,
                                         weft_attention_params *params)
{
    weft_array *visible = visible_keys(node, params);
    params->causal = params->has_lengths = false;
    params->window = 0;
    params->has_mask = true;
    if (mask == NULL) {
        return visible;
    }
    return weft_dtype_of(mask) == WEFT_BOOL
               ? weft_logical_and(visible, mask)
               : weft_where(visible, mask, weft_scalar(-INFINITY, weft_dtype_of(mask)));
}
