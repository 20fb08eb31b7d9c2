/* tests/train/test_adapter_paths.c -- train/adapter/adapter.c: properties that a parameter's path
 * determines. */
#include "tests/check.h"
#include "train/adapter/adapter.h"

static void the_layer_is_the_last_whole_number_between_dots(void)
{
    CHECK_EQ_INT(weft__adapter_layer("model.layers.12.self_attn.q_proj"), 12);
    CHECK_EQ_INT(weft__adapter_layer("model.layers.0.mlp.up_proj"), 0);
    CHECK_EQ_INT(weft__adapter_layer("model.layers.3.mlp.experts.7.up_proj"), 7);
    CHECK_EQ_INT(weft__adapter_layer("model.layers.3"), -1); /* nothing follows it */
    CHECK_EQ_INT(weft__adapter_layer("model.layers.3x.q_proj"), -1);
    CHECK_EQ_INT(weft__adapter_layer("model.layers.3.block.4b.q_proj"), 3);
    CHECK_EQ_INT(weft__adapter_layer("model.layers.-3.q_proj"), -1);
    CHECK_EQ_INT(weft__adapter_layer("model.layers. 3.q_proj"), -1);
    CHECK_EQ_INT(weft__adapter_layer("lm_head"), -1);
}

CHECK_MAIN("adapter_paths", CHECK_CASE(the_layer_is_the_last_whole_number_between_dots))
