/* ops/nn/attention_bounds.c -- attention to a range of keys that is given per query, by its first
 * key, its end or both: the inputs, and the equivalent mask. */
#include "ops/nn/nn.h"

#include <math.h>

weft_array *weft__attention_bound(weft_array *bound, const char *name, int64_t B, int64_t L)
{
    if (!weft_ok(bound)) {
        return bound;
    }
    if (!weft_dtype_is_integer(weft_dtype_of(bound)) || weft_ndim(bound) != 2 ||
        weft_dim(bound, 1) != L || (weft_dim(bound, 0) != B && weft_dim(bound, 0) != 1)) {
        return weft_error_array("attention: %s: expected integers (B, L) = (%lld, %lld)", name,
                                (long long)B, (long long)L);
    }
    if (weft_dtype_size(weft_dtype_of(bound)) >= 4 && weft_dtype_of(bound) != WEFT_INT32) {
        const weft_dtype dtype = weft_dtype_of(bound);
        bound = weft_minimum(bound, weft_scalar_int(INT32_MAX, dtype));
        bound = weft_maximum(bound, weft_scalar_int(0, dtype));
    }
    return weft_broadcast_to(weft_astype(bound, WEFT_INT32), WEFT_DIMS(B, L));
}

attention_bounds weft__attention_bounds_of(const weft_array *node)
{
    const weft_attention_params *params = weft_node_params(node);
    const int n = weft_node_n_inputs(node);
    return (attention_bounds){
        .first = params->has_first ? weft_node_input(node, n - 1 - params->has_ends) : NULL,
        .ends = params->has_ends ? weft_node_input(node, n - 1) : NULL};
}

static weft_array *both(weft_array *visible, weft_array *mask)
{
    if (mask == NULL) {
        return visible;
    }
    return weft_dtype_of(mask) == WEFT_BOOL
               ? weft_logical_and(visible, mask)
               : weft_where(visible, mask, weft_scalar(-INFINITY, weft_dtype_of(mask)));
}

weft_array *weft__attention_bounds_mask(attention_bounds bounds, int64_t S, weft_array *mask)
{
    for (int i = 0; i < 2; i++) {
        weft_array *bound = i == 0 ? bounds.first : bounds.ends;
        if (bound == NULL) {
            continue;
        }
        weft_array *key = on_device_of(bound, weft_arange(0, (double)S, 1, WEFT_INT32));
        bound = weft_expand_dims(weft_expand_dims(bound, 1), -1); /* (B, 1, L, 1) */
        mask = both(i == 0 ? weft_greater_equal(key, bound) : weft_less(key, bound), mask);
    }
    return mask;
}

void weft__attention_bounds_expand(weft_array *node, int n, weft_array **outs)
{
    weft_attention_params params = *(const weft_attention_params *)weft_node_params(node);
    weft_array *inputs[7];
    for (int i = 0; i < n; i++) {
        inputs[i] = weft_node_input(node, i);
    }
    weft_array *mask = params.has_mask ? weft_node_input(node, n) : NULL;
    inputs[n] =
        weft__attention_bounds_mask(weft__attention_bounds_of(node), weft_dim(inputs[1], 1), mask);
    params.has_mask = true;
    params.has_first = params.has_ends = false;
    weft_array *all = weft_apply(weft_node_op(node), inputs, n + 1, &params);
    for (int i = 0; i < weft_node_n_outputs(node); i++) {
        outs[i] = weft_pick(all, i);
    }
}
