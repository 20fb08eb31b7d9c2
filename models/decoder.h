/* models/decoder.h -- the decoder shared by the families: embedding, blocks of rotary grouped-query
 * attention and a gated MLP or experts, final norm, output head. */
#ifndef WEFT_MODELS_DECODER_H
#define WEFT_MODELS_DECODER_H

#include "models/encoder.h"
#include "weft/model.h"

/* A part of a block, by its path there, or "model.norm", whose name is another one. */
typedef struct weft__module_name {
    const char *path, *name;
} weft__module_name;

/* Multi-head latent attention (models/latent.c), with the names in config.json. */
typedef struct weft__latent_config {
    bool used;            /* by the family: not in config.json */
    int64_t q_lora_rank;  /* 0: queries are one product */
    int64_t kv_lora_rank; /* the width of latents */
    int64_t qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
} weft__latent_config;

/* A family's configuration. Fields that are in config.json have the same names. The family's table
 * reads those it uses; its constructor sets the others. */
typedef struct weft__decoder_config {
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers;
    int64_t num_attention_heads, num_key_value_heads, head_dim;
    int64_t sliding_window, max_window_layers, sliding_window_pattern;
    double rms_norm_eps;
    double rms_norm_offset; /* the gain of a norm is this plus its weight */
    double layer_norm_eps;  /* > 0: all norms are LayerNorms with this epsilon, without biases */
    bool attention_bias;    /* on q, k and v */
    bool output_bias;       /* on o */
    bool mlp_bias;
    bool ungated;                  /* MLPs and experts have no gate: down(relu(up)^2) */
    double gate_scale, down_scale; /* of the MLP's gate and of its result; 0: 1 */
    bool qk_norm;                  /* RMSNorm of each head's q and k before the rotation */
    bool whole_qk_norm;            /* the same of all heads together, before they are separated */
    bool late_qk_norm;  /* each head's q and k are normalized after the rotation instead */
    bool fused_qkv;     /* q, k and v are rows of one matrix, qkv_proj */
    bool fused_gate_up; /* the MLP's gate and up are rows of one matrix, gate_up_proj */
    bool interleaved;   /* the rotation is of neighboring elements, not of the head's halves */
    int64_t
        no_rope_layer_interval; /* > 0: layers that are not rotated: those with 0 in config.json's
                                 * no_rope_layers or, without that list, every so-many-th */
    bool rotates_windows_only;  /* with sliding_window, layers without a window are not rotated */
    bool output_gate; /* q_proj also computes a gate for each head, after its q; the head's output
                       * is multiplied by the gate's sigmoid */
    bool head_gate;   /* each head's output is multiplied by the sigmoid of its row of g_proj */
    bool use_sliding_window;
    bool sandwich;                    /* attention and MLP are also followed by a norm */
    bool post_norm;                   /* they are only followed by a norm, not preceded */
    bool parallel;                    /* both read the same norm of the block's input */
    const weft__module_name *modules; /* in this order, NULL at the end; NULL: none */
    const char *hidden_act;
    double theta;                 /* if config.json has none */
    double partial_rotary_factor; /* likewise; 0: the family always rotates the whole head */
    /* Without rope_parameters and rope_scaling; theta 0: as read. NULL: not scaled. A family whose
     * one is proportional ignores the share of a default rotation. */
    const weft_rope_options *rotation;
    int64_t original_length; /* that of longrope unless it is next to the rotation; 0: not set */
    double sliding_theta;    /* for layers with a window, without scaling; 0: as the others, unless
                              * rope_parameters distinguishes them */
    double attention_scale;  /* of the scores; 0: 1 / sqrt(head_dim) */
    bool bidirectional;      /* tokens see later ones too, in windows those that are as near */
    bool sinks;              /* each head has a logit, self_attn.sinks, in its softmax */
    double query_pre_attn_scalar;
    double attn_logit_softcapping, final_logit_softcapping; /* 0: none */
    double embedding_scale, residual_scale, hidden_scale;   /* 0: 1; the last one is applied before
                                                             * the head */
    bool renews;       /* at the switch of longrope's factors, caches are computed again */
    double query_beta; /* queries are scaled by 1 + this * ln(1 + floor(position / query_period)) */
    int64_t query_period;
    /* Experts: a layer has them if num_experts > 0, its number + 1 is a multiple of
     * decoder_sparse_step, and mlp_only_layers does not contain it. */
    int64_t num_experts, num_experts_per_tok, moe_intermediate_size, decoder_sparse_step;
    bool norm_topk_prob;
    int64_t n_group, topk_group; /* experts are chosen within the best topk_group of n_group groups;
                                  * n_group 0 or 1: no groups */
    /* > 0: the weights of experts are sigmoids times this, divided by their sum plus the epsilon if
     * norm_topk_prob; else shares of a softmax. They are chosen with a bias of this name, or NULL.
     */
    double routed_scaling_factor, router_epsilon;
    const char *router_bias;
    bool wide_router; /* its logits are float32 in models of 16 bits, as are its parameters unless
                       * the checkpoint has them in 16 bits */
    int64_t
        moe_latent_size; /* > 0: the width of the experts' inputs and results, between linears */
    /* Router and experts have biases and are named mlp.router and mlp.experts. In transformers'
     * checkpoints experts are stored (experts, in, out), and gates and ups alternate. */
    bool alternating;
    double swiglu_alpha, swiglu_limit; /* alpha > 0: with gate and up clamped to +-limit (the gate
                                        * above only), the activation is
                                        * (up + 1) gate sigmoid(alpha gate) */
    /* > 0: layers use linear attention, except every so-many-th, unless layer_types says otherwise.
     */
    int64_t full_attention_interval;
    weft__latent_config latent; /* of all layers, if `used` */
    /* In layer_types, besides "linear_attention" and "full_attention"; or NULL. */
    const char *linear_type, *full_type;
} weft__decoder_config;

/* The rows that the tables of all families share; the arguments are defaults. */
#define WEFT__DECODER_FIELDS(V, E, F, L, H, Hk, D)                                                 \
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, vocab_size, V),                                \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, hidden_size, E),                           \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, intermediate_size, F),                     \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_hidden_layers, L),                     \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_attention_heads, H),                   \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_key_value_heads, Hk),                  \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, head_dim, D),                              \
        WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_eps, 1e-6),                    \
        WEFT_CONFIG_TEXT(weft__decoder_config, hidden_act, "silu")

/* A key that is another than the member's name. */
#define WEFT__CONFIG_AS(key, kind, T, member, value)                                               \
    {                                                                                              \
        key, WEFT_CONFIG_##kind, offsetof(T, member), false, (value), NULL                         \
    }

#define WEFT__ATTENTION_BIAS                                                                       \
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, attention_bias, false),                       \
        WEFT__CONFIG_AS("attention_bias", BOOL, weft__decoder_config, output_bias, false)

/* The arguments are defaults. */
#define WEFT__LATENT_FIELDS(Rq, R, nope, rope, Dv)                                                 \
    WEFT__CONFIG_AS("q_lora_rank", INT, weft__decoder_config, latent.q_lora_rank, Rq),             \
        WEFT__CONFIG_AS("kv_lora_rank", INT, weft__decoder_config, latent.kv_lora_rank, R),        \
        WEFT__CONFIG_AS("qk_nope_head_dim", INT, weft__decoder_config, latent.qk_nope_head_dim,    \
                        nope),                                                                     \
        WEFT__CONFIG_AS("qk_rope_head_dim", INT, weft__decoder_config, latent.qk_rope_head_dim,    \
                        rope),                                                                     \
        WEFT__CONFIG_AS("v_head_dim", INT, weft__decoder_config, latent.v_head_dim, Dv)

/* The keys of WEFT__WINDOW_LATE. */
#define WEFT__LATE_WINDOWS                                                                         \
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, use_sliding_window, false),                   \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 4096),                     \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, max_window_layers, 28)

/* Which layers have a window if config.json has no layer_types. */
typedef enum weft__window_rule {
    WEFT__WINDOW_NONE,
    WEFT__WINDOW_ALL,    /* every layer, if sliding_window is positive */
    WEFT__WINDOW_LATE,   /* with use_sliding_window: layers from max_window_layers on */
    WEFT__WINDOW_PATTERN /* all layers but every sliding_window_pattern-th */
} weft__window_rule;

typedef struct weft__layer weft__layer;
typedef struct weft__step weft__step;

/* What a layer with states or latents has instead of attention. */
typedef struct weft__mixer {
    const char *name; /* in the block */
    weft_module *(*create)(const weft__decoder_config *c, const weft__layer *layer);
    weft_array *(*forward)(weft_module *mixer, weft_array *x, const weft__step *step,
                           weft_cache *cache);
} weft__mixer;

/* Properties of one layer. */
struct weft__layer {
    int64_t index;
    int64_t window; /* 0: none, and the rotation is that of full attention */
    int64_t head_dim, n_kv_heads, intermediate_size;
    int64_t source;       /* the layer whose keys and values it uses; usually its own */
    bool is_source;       /* a later layer uses its keys and values */
    bool keys_are_values; /* values have no projection of their own and equal that of the keys */
    bool unrotated;       /* queries and keys have no positions */
    bool sparse;          /* experts */
    bool gates_with_ups;  /* gates and ups of the experts are one tensor: gates first, or
                           * `alternating` */
    /* The MLP of the standard block; NULL: the usual one, or experts. */
    weft_module *(*mlp)(const weft__decoder_config *c, const weft__layer *layer);
    bool linear;              /* instead of attention, keys and values this and states: */
    const weft__mixer *mixer; /* NULL: the block has its own */
    int n_caches;             /* 1; 2: of its states, and of keys and values; 0: neither */
    int64_t cache;            /* the index of the first */
    int n_states;
    weft_dims states[WEFT_LAYER_STATES]; /* for one sequence; kept in its cache */
};

typedef struct weft__rotation {
    weft_array *frequencies; /* (d/2) */
    weft_array *longer;      /* (d/2), of the rows where is_longer, bool (B, 1, 1, 1); or NULL */
    weft_array *is_longer;
    double amplitude;
} weft__rotation;

/* Data shared by all blocks of a forward pass. */
struct weft__step {
    weft_array *positions;          /* (L) or (B, L) */
    weft__rotation rotations[2];    /* for layers without and with a window */
    weft_array *query_scale;        /* (L, 1, 1) or (B, L, 1, 1), or NULL */
    weft_array *mask;               /* NULL: causal only */
    weft_array *first;              /* (B, L), weft_model_call.first, or NULL */
    weft_array *pack, *unpack;      /* weft_model_call's with 0 in padding, or NULL */
    weft__encoder_step around;      /* `bidirectional`: instead of the two */
    weft_array *offset;             /* (1), for appending to the caches; NULL: update them */
    weft_array *extra;              /* result of the architecture's `prepare`, or NULL */
    weft_cache **caches;            /* weft_model_call.caches, or NULL */
    weft_cache_view *kept;          /* of source layers, one per layer */
    weft_attention_record *records; /* one per layer, or NULL */
    weft_layer_summary *summary;    /* of the layer, or NULL */
};

/* Replacements by an architecture for the standard parts. */
typedef struct weft__architecture {
    weft_module *(*block)(const weft__decoder_config *c, const weft__layer *layer);
    /* x (B, L, E) -> (B, L, E). cache may be NULL. */
    weft_array *(*forward)(weft_module *block, weft_array *x, const weft__step *step,
                           weft_cache *cache);
    /* For the standard block: the mixer of linear layers, and the MLP (weft__layer). */
    const weft__mixer *mixer;
    weft_module *(*mlp)(const weft__decoder_config *c, const weft__layer *layer);
    /* Sets layer properties that depend on its position; NULL: only config.json's layer_types. */
    weft_status (*layer)(const weft_config *config, const weft__decoder_config *c,
                         weft__layer *layer);
    /* An additional module whose parameters belong to the model directly (a transparent child), if
     * the model has it; and its result for tokens (B, L) and embeddings x (B, L, E), for all
     * blocks. NULL: none. */
    bool (*has_extra)(const weft_config *config, const weft__decoder_config *c);
    weft_module *(*extra)(const weft_config *config, const weft__decoder_config *c);
    weft_array *(*prepare)(weft_module *extra, weft_array *tokens, weft_array *x);
} weft__architecture;

/* The functions of families (weft/model.h). The module tree is model (embed_tokens, layers, norm)
 * and lm_head, tied to the embedding if has_head is false. num_key_value_heads and head_dim of 0
 * get their defaults. */
weft_module *weft__decoder_build(const weft_model_family *family, const weft_config *config,
                                 bool has_head, weft_model_info *info);
weft_array *weft__decoder_hidden(weft_module *module, weft_array *tokens,
                                 const weft_model_call *call);
weft_array *weft__decoder_head(weft_module *module, weft_array *hidden);
weft_array *weft__decoder_head_weight(weft_module *module);
/* Replaces the output head by another module, with another name and without a softcap. */
void weft__decoder_set_head(weft_module *module, const char *name, weft_module *head);
void weft__decoder_attention(weft_module *module, int64_t cache, weft_layer_attention *out);

/* What a tree was built from. */
typedef struct weft__decoder_facts {
    const weft__decoder_config *config;
    const weft__layer *layers;         /* (num_hidden_layers) */
    const weft_rope_options *ropes[2]; /* of layers without and with a window */
} weft__decoder_facts;
weft__decoder_facts weft__decoder_facts_of(const weft_module *module);

#endif
