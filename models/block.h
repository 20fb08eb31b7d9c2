/* models/block.h -- the standard block and its parts, which other blocks reuse. */
#ifndef WEFT_MODELS_BLOCK_H
#define WEFT_MODELS_BLOCK_H

#include "models/decoder.h"

/* RMSNorm over the last E elements with the family's eps and offset, or its LayerNorm; the gain is
 * initially 1. */
weft_module *weft__norm_new(const weft__decoder_config *c, int64_t E);
/* Its weight (E). */
weft_array *weft__norm_weight(weft_module *norm);

/* ---- attention.c: q_proj, k_proj, v_proj, o_proj, q_norm, k_norm ----------------------------- */

/* `value_norm`: normalizes each head's values, without a gain. */
weft_module *weft__attention_new(const weft__decoder_config *c, const weft__layer *layer,
                                 bool value_norm);
/* x (B, L, E) -> (B, L, E) */
weft_array *weft__attention_forward(weft_module *attention, weft_array *x, const weft__step *step,
                                    weft_cache *cache);
/* x (B, L, heads, D), rotated by its positions, in layers without or with a window. */
weft_array *weft__rotated(weft_array *x, const weft__step *step, bool windowed, bool interleaved);
/* Stores queries and keys in weft__step.records. */
void weft__attention_record_put(const weft__layer *layer, weft_array *q, weft_array *k,
                                const weft__step *step);
/* Values (B, S, Hk, S) for keys (B, S, Hk, D): identity matrices. */
weft_array *weft__identity_values(weft_array *keys);
/* Attention weights, for records that ask for them: attention with values that are an identity
 * matrix gives each query's weights. weft__attention_probe: these values (B, S, Hk, S) for keys (B,
 * S, Hk, D); NULL: not asked for. weft__attention_record_weights stores the result (B, L, H, S). */
weft_array *weft__attention_probe(const weft__layer *layer, weft_array *keys,
                                  const weft__step *step);
void weft__attention_record_weights(const weft__layer *layer, weft_array *weights,
                                    const weft__step *step);
/* Drops the arrays that weft__step.kept holds for a layer. */
void weft__view_drop(weft_cache_view *view);

/* ---- latent.c: q_proj or q_a_proj, q_a_layernorm, q_b_proj; kv_a_proj_with_mqa, kv_a_layernorm,
 * kv_b_proj, o_proj ---------------------------------------------------------------------------- */

/* Checks the sizes, and sets those of heads and the scale of scores that follow from them. */
weft_status weft__latent_check(const weft_config *config, weft__decoder_config *c);
/* Its cache holds keys (B, S, 1, kv_lora_rank + qk_rope_head_dim) alone. */
extern const weft__mixer weft__latent_attention;

/* ---- convolution.c: weight, bias ------------------------------------------------------------- */

/* A depthwise causal convolution of C channels; the weight is (C, 1, taps) or, with `taps_first`,
 * (C, taps, 1). */
weft_module *weft__convolution_new(int64_t C, int64_t taps, bool bias, bool taps_first);
/* Convolves x (B, L, C), preceded by *before (B, taps - 1, C) float32, which becomes the last
 * inputs: (B, L, C) float32. `first` (B, L) or NULL is the start of each token's sequence. */
weft_array *weft__convolution_forward(weft_module *convolution, weft_array *x, weft_array *first,
                                      weft_array **before);

/* ---- delta_net.c: in_proj_*, conv1d, A_log, dt_bias, norm, out_proj -------------------------- */

/* The first five have their names in config.json. */
typedef struct weft__delta_net_config {
    int64_t linear_num_key_heads, linear_num_value_heads;
    int64_t linear_key_head_dim, linear_value_head_dim;
    int64_t linear_conv_kernel_dim;
    bool by_key_head; /* in_proj_qkvz and in_proj_ba are grouped by key head */
    bool taps_first;  /* conv1d.weight is (channels, taps, 1), not (channels, 1, taps) */
} weft__delta_net_config;

weft_module *weft__delta_net_new(const weft__decoder_config *decoder,
                                 const weft__delta_net_config *c);
/* The shapes of the states of one sequence; returns their number. */
int weft__delta_net_states(const weft__delta_net_config *c, weft_dims *shapes);
/* x (B, L, E) -> (B, L, E). The cache is a recurrent one for these states. */
weft_array *weft__delta_net_forward(weft_module *delta_net, weft_array *x, const weft__step *step,
                                    weft_cache *cache);

/* ---- mamba2.c: in_proj, conv1d, A_log, D, dt_bias, norm, out_proj ---------------------------- */

typedef struct weft__mamba2_config {
    int64_t heads, head_dim, groups, state_size, taps; /* groups of heads share keys and queries */
    bool conv_bias, projection_bias, output_bias;
    bool no_norm;                 /* the result is only gated */
    bool unadapted;               /* PEFT refuses adapters of out_proj in this family */
    bool norm_first;              /* it is normalized before it is gated, not after */
    bool scaled;                  /* the parts that in_proj computes are multiplied by these: */
    double scales[5];             /* of gates, values, keys, queries, steps */
    double least_step, most_step; /* limits of a token's step; most_step 0: none */
    bool taps_first; /* conv1d.weight is (channels, taps, 1), not (channels, 1, taps) */
} weft__mamba2_config;

/* Reads the keys mamba_n_heads and so on; `width` is that of all heads, 0: mamba_expand times
 * hidden_size. */
weft_status weft__mamba2_read(const weft_config *config, const weft__decoder_config *decoder,
                              int64_t width, weft__mamba2_config *out);
/* Checks the numbers, whose keys are `keys`: of heads, groups, state_size and taps. */
weft_status weft__mamba2_check(const weft_config *config, const weft__mamba2_config *c,
                               const char *const keys[4]);
weft_module *weft__mamba2_new(const weft__decoder_config *decoder, const weft__mamba2_config *c);
/* The scales of all results of in_proj; needs `scaled`. */
weft_array *weft__mamba2_scales(const weft__mamba2_config *c);
/* The shapes of the states of one sequence; returns their number. */
int weft__mamba2_states(const weft__mamba2_config *c, weft_dims *shapes);
/* x (B, L, E) -> (B, L, E). The cache is a recurrent one for these states. */
weft_array *weft__mamba2_forward(weft_module *mamba2, weft_array *x, const weft__step *step,
                                 weft_cache *cache);

/* ---- mlp.c: gate_proj, up_proj, down_proj ---------------------------------------------------- */

/* activation(gate) * up, such as weft_swiglu. NULL: unknown name. */
typedef weft_array *weft__gate_function(weft_array *gate, weft_array *up);
weft__gate_function *weft__gate_find(const char *activation);
/* The activation alone, such as weft_silu. NULL: unknown name. */
weft_activation *weft__activation_find(const char *name);
extern const char weft__activation_names[]; /* the known names, for messages */

/* The activation of weft__decoder_config.ungated. */
weft_array *weft__ungated(weft_array *up);

/* A module for weft_nn_call. */
weft_module *weft__mlp_new(const weft__decoder_config *c, int64_t intermediate_size);

/* ---- experts.c: gate_proj, up_proj, down_proj of all experts, and a router ------------------- */

/* Gated MLPs of width moe_intermediate_size. */
weft_module *weft__experts_new(const weft__decoder_config *c, const weft__layer *layer);
/* x (T, E) through the experts in ids (T, k), summed with weights (T, k): (T, E). */
weft_array *weft__experts_forward(weft_module *experts, weft_array *x, weft_array *ids,
                                  weft_array *weights);
typedef struct weft__routing {
    int64_t k;
    bool normalized;
    double factor, epsilon;    /* factor > 0: weft__decoder_config.routed_scaling_factor */
    int64_t groups, of_groups; /* > 1: weft__decoder_config.n_group, topk_group */
} weft__routing;
/* Selects the largest k of logits (T, n): ids (T, k), and their shares of the softmax over all, or
 * over the k if `normalized`; or their sigmoids, of which the largest with `bias` (n) or NULL are
 * selected. Records them in `summary`, unless NULL. */
void weft__route(weft_array *logits, weft_array *bias, const weft__routing *routing,
                 weft_layer_summary *summary, weft_array **ids, weft_array **weights);
/* gate (the router) and switch_mlp (the experts), or router and experts: a module for
 * weft__mlp_call. */
weft_module *weft__moe_new(const weft__decoder_config *c, const weft__layer *layer);
/* Experts (`name` NULL: none) beside an MLP that all tokens go through, whose results are added: a
 * module for weft__mlp_call with children of these names. The linear `gate` (E -> 1), unless its
 * name is NULL, scales the result of the MLP. */
weft_module *weft__shared_moe_new(const char *name, weft_module *sparse, const char *shared_name,
                                  weft_module *shared, const char *gate_name, weft_module *gate);
/* weft_nn_call of an MLP. If it has a router, the choices are recorded in `summary`, unless NULL.
 */
weft_array *weft__mlp_call(weft_module *mlp, weft_array *x, weft_layer_summary *summary);

/* ---- block.c --------------------------------------------------------------------------------- */

/* The standard block, for architectures; it has the layer's mixer and MLP. */
weft_module *weft__block_new(const weft__decoder_config *c, const weft__layer *layer);
weft_array *weft__block_forward(weft_module *block, weft_array *x, const weft__step *step,
                                weft_cache *cache);
extern const weft__architecture weft__usual_architecture;

#endif
