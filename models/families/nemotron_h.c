/* models/families/nemotron_h.c -- Nemotron-H and Nemotron 3 (NVIDIA 2025): each layer is Mamba 2,
 * attention without positions, an MLP without a gate or experts beside such an MLP. */
#include <math.h>
#include <string.h>

#include "models/block.h"
#include "models/config.h"
#include "models/gguf/arch.h"
#include "models/layers.h"

typedef struct nemotron_config {
    weft__decoder_config decoder;
    weft__mamba2_config mamba;
    int64_t shared_width; /* of the MLP beside experts */
} nemotron_config;

#define LEAST_STEP 0.001

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(131072, 4096, 21504, 1, 32, 8, 128),
    WEFT__CONFIG_AS("layer_norm_epsilon", DOUBLE, weft__decoder_config, rms_norm_eps, 1e-5),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, mlp_bias, false),
    WEFT__CONFIG_AS("n_routed_experts", INT, weft__decoder_config, num_experts, 8),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts_per_tok, 2),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, moe_intermediate_size, 7688),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, moe_latent_size, 0),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, norm_topk_prob, true),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, routed_scaling_factor, 1),
    WEFT__CONFIG_AS("moe_shared_expert_intermediate_size", INT, nemotron_config, shared_width,
                    7688),
    WEFT__CONFIG_AS("mamba_num_heads", INT, nemotron_config, mamba.heads, 128),
    WEFT__CONFIG_AS("mamba_head_dim", INT, nemotron_config, mamba.head_dim, 64),
    WEFT__CONFIG_AS("n_groups", INT, nemotron_config, mamba.groups, 8),
    WEFT__CONFIG_AS("ssm_state_size", INT, nemotron_config, mamba.state_size, 128),
    WEFT__CONFIG_AS("conv_kernel", INT, nemotron_config, mamba.taps, 4),
    WEFT__CONFIG_AS("use_conv_bias", BOOL, nemotron_config, mamba.conv_bias, true),
    WEFT__CONFIG_AS("use_bias", BOOL, nemotron_config, mamba.projection_bias, false),
    WEFT__CONFIG_AS("use_bias", BOOL, nemotron_config, mamba.output_bias, false),
    WEFT__CONFIG_AS("time_step_min", DOUBLE, nemotron_config, mamba.least_step, LEAST_STEP),
};

static const weft__module_name modules[] = {{"model.norm", "norm_f"}, {NULL, NULL}};

static const weft__module_name stored_parts[] = {
    {"model.embed_tokens.", "model.embeddings."},
    {NULL, NULL},
};

static const weft__tensor_name names[] = {
    {"token_embd.weight", "model.embed_tokens.weight", "backbone.embeddings.weight"},
    WEFT__MAMBA2_NAMES("mixer"),
    {"output_norm.weight", "model.norm_f.weight", NULL},
    {"attn_norm", "norm", NULL},
    {"attn_q", "mixer.q_proj", NULL},
    {"attn_k", "mixer.k_proj", NULL},
    {"attn_v", "mixer.v_proj", NULL},
    {"attn_output", "mixer.o_proj", NULL},
    {"ffn_up", "mixer.up_proj", NULL},
    {"ffn_down", "mixer.down_proj", NULL},
    {"ffn_gate_inp", "mixer.gate", NULL},
    {"exp_probs_b.bias", "mixer.gate.e_score_correction_bias", NULL},
    {"ffn_up_shexp", "mixer.shared_experts.up_proj", NULL},
    {"ffn_down_shexp", "mixer.shared_experts.down_proj", NULL},
    {"ffn_latent_down", "mixer.fc1_latent_proj", NULL},
    {"ffn_latent_up", "mixer.fc2_latent_proj", NULL},
    {"ffn_up_exps", "mixer.switch_mlp.up_proj", "mixer.experts.0.up_proj.weight"},
    {"ffn_down_exps", "mixer.switch_mlp.down_proj", "mixer.experts.0.down_proj.weight"},
    {NULL, NULL, NULL},
};

/* ---- the kinds of layers --------------------------------------------------------------------- */

typedef enum kind { MAMBA, ATTENTION, MLP, EXPERTS, N_KINDS } kind;

static const struct {
    char letter;            /* in hybrid_override_pattern */
    const char *name, *old; /* in layers_block_type */
} kinds[] = {
    [MAMBA] = {'M', "linear_attention", "mamba"},
    [ATTENTION] = {'*', "full_attention", "attention"},
    [MLP] = {'-', "mlp", "mlp"},
    [EXPERTS] = {'E', "moe", "moe"},
};

static weft_status unknown(const weft_config *config, const char *key, int64_t layer)
{
    return weft_fail(WEFT_UNSUPPORTED,
                     "%s: %s: layer %lld: unsupported kind: expected one of linear_attention, "
                     "full_attention, mlp, "
                     "moe, or of the letters M, *, -, E",
                     weft_config_where(config), key, (long long)layer);
}

/* The kind of a layer, and the number of layers. */
static weft_status kind_of(const weft_config *config, int64_t layer, kind *out, int64_t *n)
{
    const weft__json list = weft__config_at(config, "layers_block_type");
    const char *letters = weft_config_string(config, "hybrid_override_pattern", "ME*-");
    const char *name = "";
    size_t length = strlen(letters);
    weft_status status = list.value ? weft__json_length(&list, &length) : WEFT_OK;
    *n = (int64_t)length;
    if (status != WEFT_OK || layer >= *n)
        return status;
    if (list.value) {
        weft__json at;
        status = weft__json_at(&list, (size_t)layer, &at);
        if (status == WEFT_OK)
            status = weft__json_as_string(&at, &name, NULL);
    }
    for (int i = 0; i < N_KINDS && status == WEFT_OK; i++) {
        *out = (kind)i;
        if (list.value ? strcmp(name, kinds[i].name) == 0 || strcmp(name, kinds[i].old) == 0
                       : letters[layer] == kinds[i].letter)
            return WEFT_OK;
    }
    return status == WEFT_OK
               ? unknown(config, list.value ? "layers_block_type" : "hybrid_override_pattern",
                         layer)
               : status;
}

static weft_status layer_of(const weft_config *config, const weft__decoder_config *c,
                            weft__layer *layer)
{
    kind k = MAMBA;
    int64_t n;
    const weft_status status = kind_of(config, layer->index, &k, &n);
    layer->unrotated = true;
    layer->linear = k == MAMBA;
    layer->sparse = k == EXPERTS;
    layer->n_caches = k == MAMBA || k == ATTENTION;
    if (layer->linear)
        layer->n_states = weft__mamba2_states(&((const nemotron_config *)c)->mamba, layer->states);
    return status;
}

/* ---- the block ------------------------------------------------------------------------------- */

typedef struct block {
    weft_module module;
    weft_module *norm, *mixer;
    kind kind;
} block;

static const weft_module_type block_type = {.name = "block"};

static kind kind_of_layer(const weft__layer *layer)
{
    return layer->linear ? MAMBA : layer->sparse ? EXPERTS : layer->n_caches ? ATTENTION : MLP;
}

static weft_module *mixer_new(kind k, const weft__decoder_config *c, const weft__layer *layer)
{
    const nemotron_config *own = (const nemotron_config *)c;
    return k == MAMBA       ? weft__mamba2_new(c, &own->mamba)
           : k == ATTENTION ? weft__attention_new(c, layer, false)
           : k == MLP       ? weft__mlp_new(c, c->intermediate_size)
                            : weft__shared_moe_new("", weft__moe_new(c, layer), "shared_experts",
                                                   weft__mlp_new(c, own->shared_width), NULL, NULL);
}

static weft_module *block_new(const weft__decoder_config *c, const weft__layer *layer)
{
    block *m = weft_nn_new(block, &block_type);
    if (m == NULL)
        return NULL;
    m->kind = kind_of_layer(layer);
    weft_nn_child(m, norm, weft__norm_new(c, c->hidden_size));
    weft_nn_child(m, mixer, mixer_new(m->kind, c, layer));
    return weft_nn_finish(m);
}

/* x (B, L, E) -> (B, L, E) */
static weft_array *block_forward(weft_module *self, weft_array *x, const weft__step *step,
                                 weft_cache *cache)
{
    block *m = (block *)self;
    weft_nn_enter(m);
    weft_array *y = weft_nn_call(m->norm, x);
    y = m->kind == MAMBA       ? weft__mamba2_forward(m->mixer, y, step, cache)
        : m->kind == ATTENTION ? weft__attention_forward(m->mixer, y, step, cache)
                               : weft__mlp_call(m->mixer, y, step->summary);
    return weft_nn_leave(m, weft_add(x, y));
}

static const weft__architecture architecture = {
    .block = block_new,
    .forward = block_forward,
    .layer = layer_of,
};

/* ---- the family ------------------------------------------------------------------------------ */

static weft_status check(const weft_config *config, const nemotron_config *c)
{
    enum { MOST = 1 << 15 };
    const char *where = weft_config_where(config);
    const char *act = weft_config_string(config, "mlp_hidden_act", "relu2");
    const int64_t groups = weft_config_int(config, "n_group", 1);
    const double scale = c->decoder.routed_scaling_factor;
    if (strcmp(act, "relu2") != 0 ||
        strcmp(weft_config_string(config, "mamba_hidden_act", "silu"), "silu") != 0)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: mlp_hidden_act, mamba_hidden_act: others than relu2 and silu are "
                         "unsupported",
                         where);
    if (groups != 1)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: n_group: groups of experts are unsupported: expected 1, got %lld",
                         where, (long long)groups);
    if (c->mamba.head_dim < 1 || c->mamba.head_dim > MOST || c->shared_width < 1 ||
        c->shared_width > INT32_MAX || c->decoder.moe_latent_size < 0 ||
        c->decoder.moe_latent_size > INT32_MAX)
        return weft_fail(WEFT_INVALID,
                         "%s: mamba_head_dim, moe_shared_expert_intermediate_size, "
                         "moe_latent_size: expected positive numbers, got %lld, %lld and %lld",
                         where, (long long)c->mamba.head_dim, (long long)c->shared_width,
                         (long long)c->decoder.moe_latent_size);
    return scale > 0 && isfinite(scale) && c->mamba.least_step >= 0
               ? WEFT_OK
               : weft_fail(WEFT_INVALID,
                           "%s: routed_scaling_factor, time_step_min: expected positive numbers, "
                           "got %g and %g",
                           where, scale, c->mamba.least_step);
}

static weft_status finish(const weft_config *config, weft__decoder_config *decoder)
{
    static const char *const keys[] = {"mamba_num_heads", "n_groups", "ssm_state_size",
                                       "conv_kernel"};
    nemotron_config *c = (nemotron_config *)decoder;
    decoder->hidden_act = "silu"; /* that of Mamba 2 has another key */
    kind k = MLP;
    bool mixes = false, sparse = false;
    const int64_t layers = weft_config_int(config, "num_hidden_layers", 0);
    weft_status status = kind_of(config, 0, &k, &decoder->num_hidden_layers);
    if (status == WEFT_OK && layers != 0 && layers != decoder->num_hidden_layers)
        return weft_fail(WEFT_INVALID,
                         "%s: num_hidden_layers: expected the number of kinds of layers, %lld, got "
                         "%lld",
                         weft_config_where(config), (long long)decoder->num_hidden_layers,
                         (long long)layers);
    if (status == WEFT_OK)
        status = weft__layers_check_number(config, decoder);
    for (int64_t i = 0, n; status == WEFT_OK && i < decoder->num_hidden_layers; i++) {
        status = kind_of(config, i, &k, &n);
        mixes = mixes || k == MAMBA || k == ATTENTION;
        sparse = sparse || k == EXPERTS;
    }
    if (status == WEFT_OK && !mixes)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: unsupported without a layer of Mamba 2 or attention",
                         weft_config_where(config));
    if (status == WEFT_OK)
        status = weft__mamba2_check(config, &c->mamba, keys);
    if (status == WEFT_OK && sparse && decoder->num_experts < 1)
        return weft_fail(WEFT_INVALID,
                         "%s: n_routed_experts: expected at least 1 with layers of experts, got "
                         "%lld",
                         weft_config_where(config), (long long)decoder->num_experts);
    if (!sparse)
        decoder->num_experts = 0;
    c->mamba.unadapted = true;
    c->mamba.taps_first =
        weft__config_taps_first(config, decoder->num_hidden_layers, "mixer.conv1d");
    return status == WEFT_OK ? check(config, c) : status;
}

/* ---- GGUF files ------------------------------------------------------------------------------ */

static const nemotron_config *config_of(const weft__gguf_facts *f)
{
    return (const nemotron_config *)f->decoder.config;
}

static bool has_kind(const weft__gguf_facts *f, kind k)
{
    bool has = false;
    for (int64_t i = 0; i < f->n_layers; i++)
        has = has || kind_of_layer(&f->decoder.layers[i]) == k;
    return has;
}

static bool has_no_experts(const weft__gguf_facts *f)
{
    return !has_kind(f, EXPERTS);
}

static int64_t width_of(const weft__gguf_facts *f, const weft__layer *layer)
{
    const kind k = kind_of_layer(layer);
    return k == MLP       ? f->decoder.config->intermediate_size
           : k == EXPERTS ? f->decoder.config->moe_intermediate_size
                          : 0;
}

static int64_t kv_heads_of(const weft__gguf_facts *f, const weft__layer *layer)
{
    (void)f;
    return kind_of_layer(layer) == ATTENTION ? layer->n_kv_heads : 0;
}

static weft_array *convert(const char *path, weft_array *a, const weft__gguf_facts *to_file)
{
    return weft__gguf_mamba2(path, a, to_file ? &config_of(to_file)->mamba : NULL);
}

/* Nothing is rotated, but rows of q and k are in pairs. */
static weft_status read_rope(weft__gguf_reader *r)
{
    (void)r;
    return WEFT_OK;
}

/* Layers with keys are attention, others with a width MLPs or experts. */
static void read(weft__gguf_reader *r)
{
    static const char *const sizes[] = {"mamba_num_heads", "mamba_head_dim", "n_groups",
                                        "ssm_state_size",  "conv_kernel",    "use_conv_bias"};
    const int64_t n = weft__gguf_integer(r, "block_count", 0);
    const bool sparse = weft__gguf_integer(r, "expert_count", 0) > 0;
    weft__gguf_read_mamba2(r, sizes);
    weft__gguf_copy(r, "layer_norm_epsilon",
                    weft__gguf_value(r, "attention.layer_norm_rms_epsilon")
                        ? "attention.layer_norm_rms_epsilon"
                        : "attention.layer_norm_epsilon");
    weft__gguf_add_integer(r, "num_key_value_heads",
                           weft__gguf_first(r, "attention.head_count_kv"));
    weft__gguf_copy(r, "n_routed_experts", "expert_count");
    weft__gguf_copy(r, "n_group", "expert_group_count");
    weft__gguf_copy(r, "moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length");
    weft__gguf_copy(r, "moe_latent_size", "moe_latent_size");
    weft__gguf_add_number(&r->out, "routed_scaling_factor",
                          weft__gguf_number(r, "expert_weights_scale", 1));
    weft__text_format(&r->out, ",\"layers_block_type\":[");
    for (int64_t i = 0; i < n && !r->out.failed; i++) {
        const bool attends = weft__gguf_of_layer(r, "attention.head_count_kv", i, 0) > 0,
                   wide = weft__gguf_of_layer(r, "feed_forward_length", i, 0) > 0;
        const kind k = !wide && attends ? ATTENTION : !wide ? MAMBA : sparse ? EXPERTS : MLP;
        weft__text_format(&r->out, "%s\"%s\"", i ? "," : "", kinds[k].name);
    }
    weft__text_format(&r->out, "]");
}

static weft_status write(weft__gguf_facts *f)
{
    const weft__decoder_config *c = f->decoder.config;
    weft__gguf_put_number(f, "attention.layer_norm_epsilon", c->rms_norm_eps);
    if (c->mlp_bias)
        return weft__gguf_refuse(f, "mlp_bias true");
    if (config_of(f)->mamba.least_step != LEAST_STEP)
        return weft__gguf_refuse(f, "a time_step_min other than 0.001");
    return weft__gguf_write_mamba2(f, &config_of(f)->mamba);
}

static weft_status sparse_write(weft__gguf_facts *f)
{
    const weft__decoder_config *c = f->decoder.config;
    weft__gguf_put_integer(f, "expert_shared_count", 1);
    weft__gguf_put_integer(f, "expert_shared_feed_forward_length", config_of(f)->shared_width);
    weft__gguf_put_number(f, "expert_weights_scale", c->routed_scaling_factor);
    weft__gguf_put_bool(f, "expert_weights_norm", c->norm_topk_prob);
    if (c->moe_latent_size > 0)
        weft__gguf_put_integer(f, "moe_latent_size", c->moe_latent_size);
    return has_kind(f, MLP) ? weft__gguf_refuse(f, "MLPs beside layers of experts") : write(f);
}

static const char *const unadapted[] = {"fc1_latent_proj", "fc2_latent_proj", NULL};

static const weft__gguf_arch sparse_gguf = {
    .name = "nemotron_h_moe",
    .permuted = true,
    .by_layer = true,
    .width = width_of,
    .kv_heads = kv_heads_of,
    .biases = true,
    .plain_shares = true,
    .unadapted = unadapted,
    .convert = convert,
    .read_rope = read_rope,
    .read = read,
    .write = sparse_write,
};

static const weft__gguf_arch gguf = {
    .name = "nemotron_h",
    .next = &sparse_gguf,
    .fits = has_no_experts,
    .permuted = true,
    .by_layer = true,
    .width = width_of,
    .kv_heads = kv_heads_of,
    .biases = true,
    .convert = convert,
    .read_rope = read_rope,
    .read = read,
    .write = write,
};

static const weft__family own = {
    WEFT__FIELDS(fields),
    .size = sizeof(nemotron_config),
    .defaults = &(const nemotron_config){.decoder = {.theta = 10000,
                                                     .modules = modules,
                                                     .ungated = true,
                                                     .router_bias = "gate.e_score_correction_bias",
                                                     .router_epsilon = 1e-20,
                                                     .wide_router = true,
                                                     .full_attention_interval = INT64_MAX}}
                     .decoder,
    .architecture = &architecture,
    .finish = finish,
    .names = names,
    .stored_parts = stored_parts,
    .gguf = &gguf,
};

WEFT__FAMILY(nemotron_h, NemotronHForCausalLM, .own = &own);
