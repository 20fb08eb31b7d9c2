/* ops/nn/attention_batch.c -- vmap of attention and its gradient: the batch axes are merged. */
#include "ops/batch.h"
#include "ops/nn/nn.h"

/* The mask (b, h, l, s) for B * size sequences; a mask shared by all stays as it is. */
static weft_array *long_mask(weft_array *mask, bool batched, int64_t size, int64_t B)
{
    if (!batched && weft_dim(mask, 0) == 1) {
        return mask;
    }
    mask = batch_of(mask, batched, size);
    weft_dims shape = weft_shape(mask);
    shape.at[1] = B;
    return merge_batch(weft_broadcast_to(mask, shape));
}

/* Mask, lengths and bounds are the last inputs; all others have the batch axis in front. */
bool weft__attention_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                          int64_t size, weft_array **out)
{
    const weft_attention_params *params = weft_node_params(node);
    const int n = weft_node_n_inputs(node), mask = n - params->has_mask - params->has_lengths -
                                                   params->has_first - params->has_ends;
    int64_t B = input_shape(node, 0).at[0];
    weft_array *inputs[9];
    for (int i = 0; i < n; i++) {
        const bool is_mask = params->has_mask && i == mask;
        inputs[i] = is_mask ? long_mask(in[i], batched[i], size, B)
                            : merge_batch(batch_of(in[i], batched[i], size));
    }
    weft_array *y = weft_apply(weft_node_op(node), inputs, n, params);
    for (int o = 0; o < weft_node_n_outputs(node); o++) {
        out[o] = split_batch(weft_pick(y, o), size, B);
    }
    return true;
}
