/* models/families/lfm2.c -- LFM2, LFM2 with experts (Liquid AI 2025) and LFM3 (2026): gated short
 * convolutions in most layers, attention with normalized heads in the others. */
#include <math.h>
#include <string.h>

#include "models/block.h"
#include "models/config.h"
#include "models/gguf/arch.h"
#include "models/recurrent.h"
#include "weft/ops.h"

typedef struct lfm2_config {
    weft__decoder_config decoder;
    int64_t conv_L_cache; /* taps */
    bool conv_bias;       /* of the convolution and of its projections */
    bool taps_first;
    bool adjusts; /* the width of the MLP is not the one in config.json */
    int64_t num_dense_layers;
} lfm2_config;

#define CONVOLUTION                                                                                \
    WEFT__CONFIG_AS("norm_eps", DOUBLE, weft__decoder_config, rms_norm_eps, 1e-5),                 \
        WEFT_CONFIG_OPTIONAL(INT, lfm2_config, conv_L_cache, 3),                                   \
        WEFT_CONFIG_OPTIONAL(BOOL, lfm2_config, conv_bias, false)

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(65536, 2560, 12288, 32, 32, 8, 0),
    CONVOLUTION,
};

static const weft_config_field sparse_fields[] = {
    WEFT__DECODER_FIELDS(65536, 2048, 7168, 32, 32, 8, 0),
    CONVOLUTION,
    WEFT_CONFIG_OPTIONAL(INT, lfm2_config, num_dense_layers, 2),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts, 32),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts_per_tok, 4),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, moe_intermediate_size, 1792),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, norm_topk_prob, true),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, routed_scaling_factor, 1),
};

static const weft_config_field third_fields[] = {
    WEFT__DECODER_FIELDS(128000, 2048, 7680, 24, 16, 4, 128),
    CONVOLUTION,
    WEFT__ATTENTION_BIAS,
    WEFT__CONFIG_AS("conv_L_cache", INT, lfm2_config, conv_L_cache, 7),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 256),
    WEFT__CONFIG_AS("use_sandwich_norm", BOOL, weft__decoder_config, sandwich, true),
    WEFT__CONFIG_AS("use_attention_gate", BOOL, weft__decoder_config, head_gate, true),
};
#undef CONVOLUTION

static const weft__module_name modules[] = {
    {"input_layernorm", "operator_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.o_proj", "out_proj"},
    {"self_attn.q_norm", "q_layernorm"},
    {"self_attn.k_norm", "k_layernorm"},
    {"mlp.gate_proj", "w1"},
    {"mlp.up_proj", "w3"},
    {"mlp.down_proj", "w2"},
    {"mlp", "feed_forward"},
    {"model.norm", "embedding_norm"},
    {NULL, NULL},
};

static const weft__tensor_name names[] = {
    {"token_embd_norm.weight", "model.embedding_norm.weight", NULL},
    {"attn_norm", "operator_norm", NULL},
    {"ffn_norm", "ffn_norm", NULL},
    {"attn_output", "self_attn.out_proj", NULL},
    {"attn_q_norm", "self_attn.q_layernorm", NULL},
    {"attn_k_norm", "self_attn.k_layernorm", NULL},
    {"shortconv.conv.weight", "conv.conv.weight", NULL},
    {"shortconv.in_proj.weight", "conv.in_proj.weight", NULL},
    {"shortconv.out_proj.weight", "conv.out_proj.weight", NULL},
    {"ffn_gate", "feed_forward.w1", NULL},
    {"ffn_up", "feed_forward.w3", NULL},
    {"ffn_down", "feed_forward.w2", NULL},
    {"ffn_gate_inp", "feed_forward.gate", NULL},
    {"exp_probs_b.bias", "feed_forward.expert_bias", NULL},
    {"ffn_gate_exps", "feed_forward.switch_mlp.gate_proj", "feed_forward.experts.0.w1.weight"},
    {"ffn_up_exps", "feed_forward.switch_mlp.up_proj", "feed_forward.experts.0.w3.weight"},
    {"ffn_gate_up_exps", "feed_forward.switch_mlp.gate_up_proj", NULL},
    {"ffn_down_exps", "feed_forward.switch_mlp.down_proj", "feed_forward.experts.0.w2.weight"},
    {NULL, NULL, NULL},
};

/* ---- the convolution ------------------------------------------------------------------------ */

typedef struct short_conv {
    weft_module module;
    weft_module *conv, *in_proj, *out_proj;
    weft_dims state; /* (taps - 1, E) */
} short_conv;

static const weft_module_type short_conv_type = {.name = "short_conv"};

static weft_module *short_conv_new(const weft__decoder_config *c, const weft__layer *layer)
{
    short_conv *m = weft_nn_new(short_conv, &short_conv_type);
    if (m == NULL)
        return NULL;
    const lfm2_config *own = (const lfm2_config *)c;
    const int64_t E = c->hidden_size;
    m->state = layer->states[0];
    weft_nn_child(m, conv,
                  weft__convolution_new(E, own->conv_L_cache, own->conv_bias, own->taps_first));
    weft_nn_child(m, in_proj, weft_nn_linear_new(E, 3 * E, own->conv_bias));
    weft_nn_child(m, out_proj, weft_nn_linear_new(E, E, own->conv_bias));
    return weft_nn_finish(m);
}

/* x (B, L, E) -> (B, L, E) */
static weft_array *short_conv_forward(weft_module *self, weft_array *x, const weft__step *step,
                                      weft_cache *cache)
{
    short_conv *m = (short_conv *)self;
    weft_array *state, *parts[3]; /* the gates before and after, and the values: (B, L, E) */
    weft_nn_enter(m);
    weft_array *error = weft__recurrent_before(&m->state, 1, weft_dim(x, 0), step, cache, &state);
    if (error)
        return weft_nn_leave(m, error);
    weft_split(weft_nn_call(m->in_proj, x), 3, 2, parts);
    weft_array *y = weft_multiply(parts[0], parts[2]);
    y = weft__convolution_forward(m->conv, y, step->first, &state);
    y = weft__recurrent_after(y, step, cache, &state);
    y = weft_multiply(parts[1], weft_astype(y, weft_dtype_of(x)));
    return weft_nn_leave(m, weft_nn_call(m->out_proj, y));
}

static const weft__mixer mixer = {"conv", short_conv_new, short_conv_forward};

/* ---- the configuration ---------------------------------------------------------------------- */

/* Without layer_types, full_attn_idxs lists the layers of attention, which are otherwise all. */
static weft_status layer_of(const weft_config *config, const weft__decoder_config *c,
                            weft__layer *layer)
{
    const weft__json list = weft__config_at(config, "full_attn_idxs");
    size_t n = 0;
    weft_status status = WEFT_OK;
    if (list.value && weft__config_at(config, "layer_types").value == NULL) {
        layer->linear = true;
        status = weft__json_length(&list, &n);
    }
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        weft__json at;
        int64_t index = -1;
        status = weft__json_at(&list, i, &at);
        if (status == WEFT_OK)
            status = weft__json_as_int(&at, &index);
        layer->linear = layer->linear && index != layer->index;
    }
    layer->sparse = layer->sparse && layer->index >= ((const lfm2_config *)c)->num_dense_layers;
    layer->n_states = layer->linear;
    layer->states[0] = WEFT_DIMS(((const lfm2_config *)c)->conv_L_cache - 1, c->hidden_size);
    return status;
}

static const weft__architecture architecture = {
    .block = weft__block_new,
    .forward = weft__block_forward,
    .mixer = &mixer,
    .layer = layer_of,
};

/* The width of the MLP is two thirds of the one in config.json, times a factor, rounded up. */
static weft_status finish(const weft_config *config, weft__decoder_config *c)
{
    enum { MOST_TAPS = 256 };
    lfm2_config *own = (lfm2_config *)c;
    c->hidden_act = "silu"; /* whatever config.json says */
    const int64_t multiple = weft_config_int(config, "block_multiple_of", 256);
    const double factor = weft_config_double(config, "block_ffn_dim_multiplier", 1);
    int64_t F = weft_config_int(config, "block_ff_dim", c->intermediate_size);
    if (own->conv_L_cache < 2 || own->conv_L_cache > MOST_TAPS)
        return weft_fail(WEFT_INVALID, "%s: conv_L_cache: expected 2 to %d, got %lld",
                         weft_config_where(config), MOST_TAPS, (long long)own->conv_L_cache);
    if (own->adjusts && weft_config_bool(config, "block_auto_adjust_ff_dim", true)) {
        if (F < 1 || F > INT32_MAX || multiple < 1 || multiple > INT32_MAX ||
            !(factor > 0 && factor < INT16_MAX))
            return weft_fail(WEFT_INVALID,
                             "%s: intermediate_size, block_multiple_of, block_ffn_dim_multiplier: "
                             "expected positive numbers, got %lld, %lld and %g",
                             weft_config_where(config), (long long)F, (long long)multiple, factor);
        F = (int64_t)(factor * (double)(2 * F / 3));
        F = (F + multiple - 1) / multiple * multiple;
    }
    c->intermediate_size = F;
    own->taps_first = weft__config_taps_first(config, c->num_hidden_layers, "conv.conv");
    return WEFT_OK;
}

static weft_status sparse_finish(const weft_config *config, weft__decoder_config *c)
{
    const int64_t dense = ((lfm2_config *)c)->num_dense_layers;
    if (dense < 0 || !(c->routed_scaling_factor > 0) || !isfinite(c->routed_scaling_factor))
        return weft_fail(WEFT_INVALID,
                         "%s: num_dense_layers, routed_scaling_factor: expected at least 0 and a "
                         "positive number, got %lld and %g",
                         weft_config_where(config), (long long)dense, c->routed_scaling_factor);
    if (weft_config_bool(config, "use_expert_bias", true))
        c->router_bias = "expert_bias";
    return finish(config, c);
}

/* ---- GGUF files ----------------------------------------------------------------------------- */

/* Layers without keys are convolutions. */
static void read(weft__gguf_reader *r)
{
    const char *heads = "attention.head_count_kv";
    weft__text_format(&r->out, ",\"layer_types\":[");
    for (int64_t i = 0; i < weft__gguf_integer(r, "block_count", 0); i++)
        weft__text_format(&r->out, "%s\"%s\"", i ? "," : "",
                          weft__gguf_of_layer(r, heads, i, 0) > 0 ? "full_attention" : "conv");
    weft__text_format(&r->out, "]");
    weft__gguf_add_integer(r, "num_key_value_heads",
                           weft__gguf_first(r, "attention.head_count_kv"));
    weft__gguf_copy(r, "norm_eps", "attention.layer_norm_rms_epsilon");
    weft__gguf_copy(r, "conv_L_cache", "shortconv.l_cache");
    weft__gguf_add_bool(r, "block_auto_adjust_ff_dim", false);
}

static weft_array *convert(const char *path, weft_array *a, const weft__gguf_facts *to_file)
{
    return weft__ends_with(path, ".conv.conv.weight") ? weft__gguf_taps(a, to_file != NULL) : a;
}

static weft_status write(weft__gguf_facts *f)
{
    weft__gguf_put_integer(f, "shortconv.l_cache", weft_config_int(f->config, "conv_L_cache", 3));
    if (weft_config_bool(f->config, "conv_bias", false))
        return weft__gguf_refuse(f, "conv_bias true");
    return f->heads * f->head_dim == f->decoder.config->hidden_size
               ? WEFT_OK
               : weft__gguf_refuse(f, "another width of the heads");
}

static void sparse_read(weft__gguf_reader *r)
{
    read(r);
    weft__gguf_copy(r, "num_dense_layers", "leading_dense_block_count");
}

/* Readers always have the bias, and weights that sum to 1. */
static weft_status sparse_write(weft__gguf_facts *f)
{
    enum { SIGMOID = 2 };
    const weft__decoder_config *c = f->decoder.config;
    weft__gguf_put_integer(f, "expert_gating_func", SIGMOID);
    if (weft__gguf_put_dense_layers(f) != WEFT_OK)
        return weft_error_status();
    if (!c->norm_topk_prob || c->routed_scaling_factor != 1 || !c->router_bias)
        return weft__gguf_refuse(
            f, "norm_topk_prob false, use_expert_bias false or a routed_scaling_factor");
    return write(f);
}

#define DEFAULTS                                                                                   \
    .theta = 1e6, .qk_norm = true, .modules = modules, .full_attention_interval = 1,               \
    .linear_type = "conv"

static const weft__family own = {
    WEFT__FIELDS(fields),
    .size = sizeof(lfm2_config),
    .defaults = &(const lfm2_config){.decoder = {DEFAULTS}, .adjusts = true}.decoder,
    .architecture = &architecture,
    .finish = finish,
    .names = names,
    .gguf =
        &(const weft__gguf_arch){
            .name = "lfm2", .by_layer = true, .convert = convert, .read = read, .write = write},
};

WEFT__FAMILY(lfm2, Lfm2ForCausalLM, .own = &own, .tied = true);

static const weft__family sparse = {
    WEFT__FIELDS(sparse_fields),
    .size = sizeof(lfm2_config),
    .defaults = &(const lfm2_config){.decoder = {DEFAULTS, .router_epsilon = 1e-6}}.decoder,
    .architecture = &architecture,
    .finish = sparse_finish,
    .names = names,
    .gguf = &(const weft__gguf_arch){.name = "lfm2moe",
                                     .by_layer = true,
                                     .convert = convert,
                                     .read = sparse_read,
                                     .write = sparse_write},
};
#undef DEFAULTS

WEFT__FAMILY(lfm2_moe, Lfm2MoeForCausalLM, .own = &sparse, .tied = true);

/* ---- LFM3 ----------------------------------------------------------------------------------- */

/* As LFM2's, with other names of attention and, unless use_sandwich_norm is false, norms after both
 * branches. */
#define THIRD_NAMES                                                                                \
    {"mlp.gate_proj", "w1"}, {"mlp.up_proj", "w3"}, {"mlp.down_proj", "w2"},                       \
        {"mlp", "feed_forward"}, {"model.norm", "embedding_norm"},                                 \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }

static const weft__module_name third_modules[] = {
    {"input_layernorm", "operator_norm"},
    {"post_attention_layernorm", "post_operator_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffn_norm"},
    THIRD_NAMES,
};

static const weft__module_name third_plain_modules[] = {
    {"input_layernorm", "operator_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    THIRD_NAMES,
};
#undef THIRD_NAMES

static const weft__module_name third_stored_parts[] = {
    {".self_attn.g_proj.", ".self_attn.gate_proj."},
    {NULL, NULL},
};

/* Without layer_types, of four layers two are convolutions, one has a window, and one has none; the
 * first one is a convolution. */
static weft_status third_layer(const weft_config *config, const weft__decoder_config *c,
                               weft__layer *layer)
{
    const bool listed = weft__config_at(config, "layer_types").value != NULL;
    const int64_t i = layer->index;
    if (!listed) {
        layer->linear = i == 0 || i % 2 != 0;
        layer->window = !layer->linear && i % 4 == 0 ? c->sliding_window : 0;
    }
    layer->n_states = layer->linear;
    layer->states[0] = WEFT_DIMS(((const lfm2_config *)c)->conv_L_cache - 1, c->hidden_size);
    return listed || c->sliding_window > 0
               ? WEFT_OK
               : weft_fail(WEFT_INVALID, "%s: sliding_window: expected a positive number, got %lld",
                           weft_config_where(config), (long long)c->sliding_window);
}

static const weft__architecture third_architecture = {
    .block = weft__block_new,
    .forward = weft__block_forward,
    .mixer = &mixer,
    .layer = third_layer,
};

static weft_status third_finish(const weft_config *config, weft__decoder_config *c)
{
    c->modules = c->sandwich ? third_modules : third_plain_modules;
    return finish(config, c);
}

static const weft__family third = {
    WEFT__FIELDS(third_fields),
    .size = sizeof(lfm2_config),
    .defaults =
        &(const lfm2_config){
            .decoder = {.theta = 1e6,
                        .sliding_theta = 1e4,
                        .rotation = &(const weft_rope_options){.kind = WEFT_ROPE_PROPORTIONAL,
                                                               .theta = 1e6,
                                                               .partial = 0.5},
                        .partial_rotary_factor = 1,
                        .qk_norm = true,
                        .full_attention_interval = 1,
                        .linear_type = "conv"}}
             .decoder,
    .architecture = &third_architecture,
    .finish = third_finish,
    .stored_parts = third_stored_parts,
};

WEFT__FAMILY(lfm3, Lfm3ForCausalLM, .own = &third, .tied = true);
