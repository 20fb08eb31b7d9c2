/* tests/models/test_gguf_refused.c -- models that GGUF files cannot express, or that other programs
 * would read as something else. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/gguf.h"
#include "weft/model.h"

static const struct {
    const char *config, *why;
} models[] = {
    {"\"smollm3\",\"no_rope_layers\":[1,0]", "rotation of other layers"},
    {"\"llama\",\"hidden_act\":\"gelu\"", "another activation"},
    {"\"qwen3\",\"hidden_act\":\"relu\"", "another activation"},
    {"\"gemma2\",\"hidden_activation\":\"silu\"", "another activation"},
    {"\"smollm3\",\"mlp_bias\":true", "a bias of o_proj or of the MLP"},
    {"\"hunyuan_v1_dense\",\"attention_bias\":true", "a bias of o_proj or of the MLP"},
    {"\"olmo2\",\"attention_bias\":true", "a bias of o_proj or of the MLP"},
    {"\"ernie4_5\",\"use_bias\":true", "a bias of o_proj or of the MLP"},
    {"\"seed_oss\",\"attention_out_bias\":true", "a bias of o_proj or of the MLP"},
    {"\"exaone4\"", "a window on some of the layers"},
    {"\"cohere2\",\"layer_types\":[\"full_attention\",\"full_attention\"]",
     "another pattern of windows"},
    {"\"cohere2\",\"head_dim\":4", "another width of the heads"},
    {"\"cohere2\",\"attention_bias\":true", "a bias of o_proj or of the MLP"},
    {"\"lfm2\",\"conv_bias\":true", "conv_bias true"},
    {"\"lfm2\",\"head_dim\":4", "another width of the heads"},
    {"\"lfm2_moe\",\"use_expert_bias\":false", "norm_topk_prob false, use_expert_bias false"},
    {"\"lfm2_moe\",\"routed_scaling_factor\":2", "or a routed_scaling_factor"},
    {"\"gpt_oss\",\"swiglu_limit\":5", "another swiglu_alpha or swiglu_limit"},
    {"\"gpt_oss\",\"attention_bias\":false", "attention_bias false"},
    {"\"gpt_oss\",\"layer_types\":[\"full_attention\",\"sliding_attention\"]",
     "another order of layers with a window"},
    {"\"gpt_oss\",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8,"
     "\"original_max_position_embeddings\":64}",
     "this scaling of the rotary embedding"},
    {"\"olmo3\",\"rope_theta\":10000", "another rotation of layers with a window"},
    {"\"olmo3\",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2}",
     "this scaling of the rotary embedding"},
    {"\"granitemoehybrid\",\"mamba_n_heads\":4,\"mamba_expand\":4,"
     "\"layer_types\":[\"mamba\",\"attention\"]",
     "a width of Mamba 2 other than twice hidden_size"},
    {"\"granitemoehybrid\",\"mamba_n_heads\":4,\"time_step_limit\":[0,0.5],"
     "\"layer_types\":[\"mamba\",\"attention\"]",
     "time_step_limit"},
    {"\"granitemoehybrid\",\"mamba_n_heads\":4,\"mamba_conv_bias\":false,"
     "\"layer_types\":[\"mamba\",\"attention\"]",
     "or a convolution without a bias"},
    {"\"granitemoehybrid\",\"mamba_n_heads\":4,\"layer_types\":[\"attention\",\"attention\"]",
     "experts or layers without positions, without Mamba 2"},
    {"\"nemotron_h\",\"mamba_head_dim\":8,\"n_groups\":2,\"mamba_num_heads\":2,"
     "\"hybrid_override_pattern\":\"ME*-\"",
     "MLPs beside layers of experts"},
    {"\"nemotron_h\",\"mamba_head_dim\":8,\"n_groups\":2,\"mamba_num_heads\":2,"
     "\"hybrid_override_pattern\":\"M-\",\"time_step_min\":0.1",
     "a time_step_min other than 0.001"},
    {"\"nemotron_h\",\"mamba_head_dim\":8,\"n_groups\":2,\"mamba_num_heads\":2,"
     "\"hybrid_override_pattern\":\"M-\",\"mlp_bias\":true",
     "mlp_bias true"},
    {"\"falcon_h1\",\"mamba_n_heads\":2,\"mamba_d_ssm\":16,\"mamba_rms_norm\":true",
     "mamba_norm_before_gate with a norm"},
    {"\"falcon_h1\",\"mamba_n_heads\":2,\"mamba_d_ssm\":16,\"mlp_bias\":true",
     "a bias of o_proj or of the MLP"},
    {"\"llama\",\"max_position_embeddings\":64,"
     "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8,\"attention_factor\":1.5}",
     "this scaling of the rotary embedding"},
};

/* What other programs would read otherwise than it is. */
static void what_readers_misread_is_refused(void)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char text[512];
        weft_config *config = NULL;
        weft_model *model = NULL;
        snprintf(text, sizeof text,
                 "{\"vocab_size\":16,\"hidden_size\":16,\"intermediate_size\":16,\"head_dim\":8,"
                 "%s\"num_attention_heads\":2,\"num_key_value_heads\":1,"
                 "\"model_type\":%s}",
                 strstr(models[i].config, "hybrid_override") ? "" : "\"num_hidden_layers\":2,",
                 models[i].config);
        if (CHECK_OK(weft_config_parse(text, "config.json", &config)) &&
            CHECK_OK(weft_model_new(config, &model))) {
            CHECK_STATUS(weft_model_check_gguf(model), WEFT_UNSUPPORTED);
            CHECK_CONTAINS(weft_error_message(), models[i].why);
            weft_model_free(model);
        }
        weft_config_free(config);
    }
}

CHECK_MAIN("gguf_refused", CHECK_CASE(what_readers_misread_is_refused))
