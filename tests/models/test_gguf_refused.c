/* tests/models/test_gguf_refused.c -- models that GGUF files cannot express, or that other programs
 * would misread, and uncommon ones that they can express. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/gguf.h"
#include "weft/model.h"
#include "weft/ops.h"
#include "weft/random.h"

#define LLAMA3                                                                                     \
    "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"               \
    "\"high_freq_factor\":4,\"original_max_position_embeddings\":64}"

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
    {"\"lfm2_moe\",\"num_dense_layers\":1,\"use_expert_bias\":false",
     "norm_topk_prob false, use_expert_bias false"},
    {"\"lfm2_moe\",\"num_dense_layers\":1,\"routed_scaling_factor\":2",
     "or a routed_scaling_factor"},
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
    /* llama.cpp fails to load these: it has no such tensors, or needs others. */
    {"\"qwen3\",\"attention_bias\":true", "a bias of o_proj or of the MLP"},
    {"\"qwen3_moe\",\"attention_bias\":true,\"num_experts\":2,\"num_experts_per_tok\":1",
     "a bias of o_proj or of the MLP"},
    {"\"qwen3_moe\",\"norm_topk_prob\":true,\"mlp_only_layers\":[0],\"num_experts\":2,"
     "\"num_experts_per_tok\":1",
     "a layer without experts"},
    {"\"lfm2_moe\"", "a model without layers of experts"},
    {"\"gemma2\",\"tie_word_embeddings\":false", "an output matrix of its own"},
    {"\"cohere2\",\"tie_word_embeddings\":false", "an output matrix of its own"},
    {"\"qwen3\"," LLAMA3, "this scaling of the rotary embedding"},
    {"\"seed_oss\"," LLAMA3, "this scaling of the rotary embedding"},
    {"\"olmo2\"," LLAMA3, "this scaling of the rotary embedding"},
    {"\"gemma2\"," LLAMA3, "this scaling of the rotary embedding"},
    /* It computes these differently. */
    {"\"gemma2\",\"final_logit_softcapping\":null", "logits without a cap"},
    {"\"gemma2\",\"attn_logit_softcapping\":null", "logits without a cap"},
    {"\"gemma2\",\"layer_types\":[\"full_attention\",\"full_attention\"]",
     "a model without windows"},
    {"\"exaone4\",\"layer_types\":[\"full_attention\",\"full_attention\"]",
     "layers without a window and without rotation"},
    {"\"llama\",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8,\"beta_fast\":16,"
     "\"original_max_position_embeddings\":64}",
     "this scaling of the rotary embedding"},
};

static weft_model *model_of(const char *more)
{
    char text[640];
    weft_config *config = NULL;
    weft_model *model = NULL;
    snprintf(text, sizeof text,
             "{\"vocab_size\":16,\"hidden_size\":16,\"intermediate_size\":16,\"head_dim\":8,"
             "%s\"num_attention_heads\":2,\"num_key_value_heads\":1,"
             "\"model_type\":%s}",
             strstr(more, "hybrid_override") ? "" : "\"num_hidden_layers\":2,", more);
    if (CHECK_OK(weft_config_parse(text, "config.json", &config)))
        CHECK_OK(weft_model_new(config, &model));
    weft_config_free(config);
    return model;
}

/* Models that other programs would read differently. */
static void what_readers_misread_is_refused(void)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        weft_model *model = model_of(models[i].config);
        if (model) {
            CHECK_STATUS(weft_model_check_gguf(model), WEFT_UNSUPPORTED);
            CHECK_CONTAINS(weft_error_message(), models[i].why);
        }
        weft_model_free(model);
    }
}

static const char *const uncommon[] = {
    "\"ministral3\",\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":1e4,\"factor\":4,"
    "\"original_max_position_embeddings\":16,\"mscale\":1,\"mscale_all_dim\":0.7,"
    "\"llama_4_scaling_beta\":0}",
    "\"lfm2\",\"layer_types\":[\"full_attention\",\"full_attention\"]",
    "\"lfm2\",\"layer_types\":[\"conv\",\"conv\"]",
    "\"gemma3_text\",\"rope_theta\":500,\"rope_local_base_freq\":100,"
    "\"layer_types\":[\"full_attention\",\"full_attention\"]",
    "\"exaone4\",\"sliding_window\":null",
    "\"nemotron_h\",\"mamba_head_dim\":8,\"n_groups\":2,\"mamba_num_heads\":2,"
    "\"hybrid_override_pattern\":\"M*M\"",
    "\"granitemoehybrid\",\"mamba_n_heads\":4,\"num_local_experts\":0,\"attention_bias\":true,"
    "\"layer_types\":[\"mamba\",\"attention\"]",
    "\"olmo2\",\"tie_word_embeddings\":true",
    "\"qwen2\",\"num_key_value_heads\":2",
};

/* Also where all layers are alike, so that lists by layer are one number. */
static void uncommon_models_are_read_back(void)
{
    for (size_t i = 0; i < sizeof uncommon / sizeof *uncommon; i++) {
        weft_random_seed(5);
        weft_model *model = model_of(uncommon[i]), *loaded = NULL;
        const char *path = check_temporary("uncommon.gguf");
        const weft_gguf_model_options o = {.type = "F32"};
        if (model && CHECK_OK(weft_model_save_gguf(model, path, &o)) &&
            CHECK_OK(weft_model_load(path, NULL, &loaded))) {
            weft_scope_open();
            weft_array *ids =
                weft_random_randint(weft_random_key(4), WEFT_DIMS(1, 24), 0, 16, WEFT_INT32);
            const weft_model_call call = {.caches = NULL};
            weft_array *a = weft_model_forward(model, ids, &call),
                       *b = weft_model_forward(loaded, ids, &call);
            weft_array *off = weft_max(weft_abs(weft_subtract(a, b)), WEFT_ALL_AXES, false);
            if (!CHECK_CLOSE(weft_item(off), 0, 1e-6))
                printf("  %s\n", uncommon[i]);
            CHECK(weft_item(weft_max(weft_abs(a), WEFT_ALL_AXES, false)) > 1e-3);
            weft_scope_close(NULL);
        }
        weft_model_free(model);
        weft_model_free(loaded);
    }
}

CHECK_MAIN("gguf_refused", CHECK_CASE(what_readers_misread_is_refused),
           CHECK_CASE(uncommon_models_are_read_back))
