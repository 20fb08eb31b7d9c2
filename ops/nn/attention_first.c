/* ops/nn/attention_first.c -- attention to the keys from a first one on, given per query: the
 * input, and the equivalent mask. */
#include "ops/nn/nn.h"

#include <math.h>

weft_array *weft__attention_first(weft_array *first, int64_t B, int64_t L)
{
    if (!weft_ok(first)) {
        return first;
    }
    if (!weft_dtype_is_integer(weft_dtype_of(first)) || weft_ndim(first) != 2 ||
        weft_dim(first, 1) != L || (weft_dim(first, 0) != B && weft_dim(first, 0) != 1)) {
        return weft_error_array("attention: first: expected integers (B, L) = (%lld, %lld)",
                                (long long)B, (long long)L);
    }
    return weft_broadcast_to(weft_astype(first, WEFT_INT32), WEFT_DIMS(B, L));
}

weft_array *weft__attention_first_mask(weft_array *first, int64_t S, weft_array *mask)
{
    const int64_t B = weft_dim(first, 0), L = weft_dim(first, 1);
    weft_array *key = on_device_of(first, weft_arange(0, (double)S, 1, WEFT_INT32));
    weft_array *visible =
        weft_greater_equal(key, weft_reshape(first, WEFT_DIMS(B, 1, L, 1))); /* (B, 1, L, S) */
    if (mask == NULL) {
        return visible;
    }
    return weft_dtype_of(mask) == WEFT_BOOL
               ? weft_logical_and(visible, mask)
               : weft_where(visible, mask, weft_scalar(-INFINITY, weft_dtype_of(mask)));
}

void weft__attention_first_expand(weft_array *node, int n, weft_array **outs)
{
    weft_attention_params params = *(const weft_attention_params *)weft_node_params(node);
    weft_array *inputs[7];
    for (int i = 0; i < n; i++) {
        inputs[i] = weft_node_input(node, i);
    }
    weft_array *mask = params.has_mask ? weft_node_input(node, n) : NULL;
    weft_array *first = weft_node_input(node, weft_node_n_inputs(node) - 1);
    inputs[n] = weft__attention_first_mask(first, weft_dim(inputs[1], 1), mask);
    params.has_mask = true;
    params.has_first = false;
    weft_array *all = weft_apply(weft_node_op(node), inputs, n + 1, &params);
    for (int i = 0; i < weft_node_n_outputs(node); i++) {
        outs[i] = weft_pick(all, i);
    }
}
