/* models/families/qwen3_next.c -- Qwen3-Next and the text models of Qwen3.5 (Qwen team 2025), also
 * as parts of multimodal models: gated delta nets in three of four layers, gated attention in the
 * fourth, experts including a shared one. */
#include "models/block.h"
#include "models/config.h"
#include "models/family.h"

typedef struct hybrid_config {
    weft__decoder_config decoder;
    weft__delta_net_config delta;
    int64_t shared_expert_intermediate_size;
} hybrid_config;

#define FIELDS(V, E, F, L, Hk, experts, chosen)                                                    \
    WEFT__DECODER_FIELDS(V, E, F, L, 16, Hk, 256), WEFT__ATTENTION_BIAS,                           \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, full_attention_interval, 4),               \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts, experts),                     \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts_per_tok, chosen),              \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, moe_intermediate_size, 512),               \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, decoder_sparse_step, 1),                   \
        WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, norm_topk_prob, true)

static const weft_config_field next_fields[] = {FIELDS(151936, 2048, 5632, 48, 2, 512, 10)};
static const weft_config_field dense_fields[] = {FIELDS(248320, 4096, 12288, 32, 4, 0, 0)};
static const weft_config_field sparse_fields[] = {FIELDS(248320, 2048, 512, 40, 2, 256, 8)};
#undef FIELDS

static const weft_config_field delta_fields[] = {
    WEFT_CONFIG_OPTIONAL(INT, weft__delta_net_config, linear_num_key_heads, 16),
    WEFT_CONFIG_OPTIONAL(INT, weft__delta_net_config, linear_num_value_heads, 32),
    WEFT_CONFIG_OPTIONAL(INT, weft__delta_net_config, linear_key_head_dim, 128),
    WEFT_CONFIG_OPTIONAL(INT, weft__delta_net_config, linear_value_head_dim, 128),
    WEFT_CONFIG_OPTIONAL(INT, weft__delta_net_config, linear_conv_kernel_dim, 4),
};

static weft_status layer_of(const weft_config *config, const weft__decoder_config *decoder,
                            weft__layer *layer)
{
    (void)config;
    if (layer->linear)
        layer->n_states =
            weft__delta_net_states(&((const hybrid_config *)decoder)->delta, layer->states);
    return WEFT_OK;
}

/* ---- the parts of blocks --------------------------------------------------------------------- */

static weft_module *mlp_new(const weft__decoder_config *c, const weft__layer *layer)
{
    const int64_t F = ((const hybrid_config *)c)->shared_expert_intermediate_size;
    if (!layer->sparse || F == 0)
        return layer->sparse ? weft__moe_new(c, layer) : weft__mlp_new(c, layer->intermediate_size);
    return weft__shared_moe_new("", weft__moe_new(c, layer), "shared_expert", weft__mlp_new(c, F),
                                "shared_expert_gate", weft_nn_linear_new(c->hidden_size, 1, false));
}

static weft_module *mixer_new(const weft__decoder_config *c, const weft__layer *layer)
{
    (void)layer;
    return weft__delta_net_new(c, &((const hybrid_config *)c)->delta);
}

static const weft__mixer mixer = {"linear_attn", mixer_new, weft__delta_net_forward};

static const weft__architecture architecture = {
    .block = weft__block_new,
    .forward = weft__block_forward,
    .mixer = &mixer,
    .mlp = mlp_new,
    .layer = layer_of,
};

/* ---- the family ------------------------------------------------------------------------------ */

static weft_status check(const weft_config *config, const hybrid_config *c)
{
    enum { MOST = 1 << 15 };
    const weft__delta_net_config *d = &c->delta;
    const struct {
        const char *name;
        int64_t value, least, most;
    } sizes[] = {
        {"linear_num_key_heads", d->linear_num_key_heads, 1, MOST},
        {"linear_num_value_heads", d->linear_num_value_heads, 1, MOST},
        {"linear_key_head_dim", d->linear_key_head_dim, 1, MOST},
        {"linear_value_head_dim", d->linear_value_head_dim, 1, MOST},
        {"linear_conv_kernel_dim", d->linear_conv_kernel_dim, 2, 256},
        {"full_attention_interval", c->decoder.full_attention_interval, 1, MOST},
        {"shared_expert_intermediate_size", c->shared_expert_intermediate_size, 0, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < sizes[i].least || sizes[i].value > sizes[i].most)
            return weft_fail(WEFT_INVALID, "%s: %s: expected %lld to %lld, got %lld",
                             weft_config_where(config), sizes[i].name, (long long)sizes[i].least,
                             (long long)sizes[i].most, (long long)sizes[i].value);
    }
    if (d->linear_num_value_heads % d->linear_num_key_heads != 0)
        return weft_fail(WEFT_INVALID,
                         "%s: linear_num_value_heads: expected a multiple of "
                         "linear_num_key_heads %lld, got %lld",
                         weft_config_where(config), (long long)d->linear_num_key_heads,
                         (long long)d->linear_num_value_heads);
    return WEFT_OK;
}

/* Detects checkpoints converted by MLX. Their conv1d weights are (channels, taps, 1), and their
 * norm weights are the gains; in other checkpoints the gains are the weights plus 1. */
static void find_layout(const weft_config *config, hybrid_config *c)
{
    c->delta.taps_first =
        weft__config_taps_first(config, c->decoder.num_hidden_layers, "linear_attn.conv1d");
    c->decoder.rms_norm_offset = c->delta.taps_first ? 0 : 1;
}

static weft_status finish(const weft_config *config, weft__decoder_config *d)
{
    hybrid_config *c = (hybrid_config *)d;
    weft_status status = weft_config_read(config, delta_fields,
                                          sizeof delta_fields / sizeof *delta_fields, &c->delta);
    if (status != WEFT_OK)
        return status;
    c->shared_expert_intermediate_size =
        weft_config_int(config, "shared_expert_intermediate_size", d->num_experts > 0 ? 512 : 0);
    find_layout(config, c);
    return check(config, c);
}

#define HYBRID(rows, grouped)                                                                      \
    {                                                                                              \
        WEFT__FIELDS(rows),                                                                        \
            .size = sizeof(hybrid_config), .finish = finish, .architecture = &architecture,        \
            .defaults =                                                                            \
                &(const hybrid_config){.decoder = DEFAULTS, .delta.by_key_head = grouped}.decoder  \
    }
#define DEFAULTS                                                                                   \
    {                                                                                              \
        .theta = 10000, .partial_rotary_factor = 0.25, .qk_norm = true, .output_gate = true        \
    }
static const weft__family next = HYBRID(next_fields, true);
static const weft__family dense = HYBRID(dense_fields, false);
static const weft__family sparse = HYBRID(sparse_fields, false);
#undef DEFAULTS
#undef HYBRID

WEFT__FAMILY(qwen3_next, Qwen3NextForCausalLM, .own = &next);
WEFT__FAMILY(qwen3_5, Qwen3_5ForConditionalGeneration, .own = &dense, .text_type = "qwen3_5_text");
WEFT__FAMILY(qwen3_5_text, Qwen3_5ForCausalLM, .own = &dense);
WEFT__FAMILY(qwen3_5_moe, Qwen3_5MoeForConditionalGeneration, .own = &sparse,
             .text_type = "qwen3_5_moe_text");
WEFT__FAMILY(qwen3_5_moe_text, Qwen3_5MoeForCausalLM, .own = &sparse);
