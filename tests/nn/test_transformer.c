/* tests/nn/test_transformer.c -- multi-head attention and the transformer against PyTorch. */
#include <string.h>

#include "tests/check.h"
#include "tests/nn/against.h"
#include "tests/support/golden.h"
#include "weft/layers.h"

static const double near = 2e-5; /* up to fifteen layers of float32 */

static weft_array *attention(weft_module *m, weft_array *const *in)
{
    return weft_nn_multi_head_attention_call(m, in[0], in[1], in[2], in[3]);
}

static weft_array *transformer(weft_module *m, weft_array *const *in)
{
    weft_array *mask = weft_causal_mask(weft_dim(in[1], 1), weft_dtype_of(in[1]));
    return weft_nn_transformer_call(m, in[0], in[1], NULL, mask, NULL);
}

static void all_equal_pytorch(void)
{
    const weft_nn_attention_options sizes = {
        .query_in = 6, .key_in = 5, .value_in = 7, .value_dims = 4, .out = 3, .bias = true};
    const weft_nn_transformer_options first = {.mlp_dims = 6, .activation = weft_gelu};
    weft_nn_transformer_options last = first, both = {.mlp_dims = 6};
    last.norm_last = true;
    if (!golden_open("nn/layers"))
        return;
    against_module("mha", weft_nn_multi_head_attention_new(8, 2, &sizes), attention, near);
    against_module("encoder_layer", weft_nn_encoder_layer_new(4, 2, &first), NULL, near);
    against_module("encoder_layer_last", weft_nn_encoder_layer_new(4, 2, &last), NULL, near);
    against_module("transformer", weft_nn_transformer_new(4, 2, 2, 1, &both), transformer, near);
    both.checkpoint = true;
    against_module("transformer", weft_nn_transformer_new(4, 2, 2, 1, &both), transformer, near);
    both.norm_last = true;
    against_module("transformer_last", weft_nn_transformer_new(4, 2, 2, 1, &both), transformer,
                   near);
    golden_close();
}

static void names_and_modes(void)
{
    const weft_nn_transformer_options options = {.dropout = 0.5};
    weft_scope_open();
    weft_module *m = weft_nn_encoder_new(2, 8, 2, &options);
    if (CHECK(m != NULL)) {
        CHECK(weft_nn_find(m, "layers.1.attention.query_proj.weight") != NULL);
        CHECK(weft_nn_find(m, "layers.1.attention.query_proj.bias") == NULL);
        CHECK_EQ_INT(weft_dim(*weft_nn_find(m, "layers.0.linear1.weight"), 0), 32);
        weft_array *x =
            weft_random_normal(weft_random_key(1), WEFT_DIMS(2, 3, 8), 0, 1, WEFT_FLOAT32);
        CHECK_OK(weft_eval(x));
        weft_array *a = weft_nn_call(m, x), *b = weft_nn_call(m, x);
        CHECK_EQ_INT(weft_item_int(weft_array_equal(a, b, false)), 1);
        weft_nn_train(m, true);
        a = weft_nn_call(m, x), b = weft_nn_call(m, x);
        CHECK_EQ_INT(weft_item_int(weft_array_equal(a, b, false)), 0);
    }
    weft_nn_free(m);
    weft_array *mask = weft_causal_mask(3, WEFT_BFLOAT16);
    CHECK_EQ_INT(weft_dtype_of(mask), WEFT_BFLOAT16);
    CHECK_EQ_INT(weft_item_int(weft_all(weft_isfinite(mask), WEFT_ALL_AXES, false)), 1);
    weft_scope_close(NULL);
}

CHECK_MAIN("transformer", CHECK_CASE(all_equal_pytorch), CHECK_CASE(names_and_modes))
