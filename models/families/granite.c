/* models/families/granite.c -- Granite 3 and 4 (IBM 2024, 2025): llama with scales for
 * embeddings, scores, residual branches and logits; in Granite 4 layers of Mamba 2, and experts. */
#include <math.h>
#include <string.h>

#include "models/block.h"
#include "models/config.h"
#include "models/gguf/arch.h"

#define SCALES                                                                                     \
    WEFT__ATTENTION_BIAS,                                                                          \
        WEFT__CONFIG_AS("embedding_multiplier", DOUBLE, weft__decoder_config, embedding_scale, 1), \
        WEFT__CONFIG_AS("residual_multiplier", DOUBLE, weft__decoder_config, residual_scale, 1),   \
        WEFT__CONFIG_AS("attention_multiplier", DOUBLE, weft__decoder_config, attention_scale, 1), \
        WEFT__CONFIG_AS("logits_scaling", DOUBLE, weft__decoder_config, hidden_scale, 1)

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(32000, 4096, 11008, 32, 32, 0, 0),
    SCALES,
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, mlp_bias, false),
};

static weft_status finish(const weft_config *config, weft__decoder_config *c)
{
    const struct {
        const char *name;
        double value;
    } scales[] = {{"embedding_multiplier", c->embedding_scale},
                  {"residual_multiplier", c->residual_scale},
                  {"attention_multiplier", c->attention_scale},
                  {"logits_scaling", c->hidden_scale}};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        if (!(scales[i].value > 0) || !isfinite(scales[i].value))
            return weft_fail(WEFT_INVALID, "%s: %s: expected a positive number, got %g",
                             weft_config_where(config), scales[i].name, scales[i].value);
    }
    c->hidden_scale = 1 / c->hidden_scale; /* logits are divided */
    return WEFT_OK;
}

static void read(weft__gguf_reader *r)
{
    const double usual = 1 / sqrt((double)weft__gguf_head_dim(r));
    weft__gguf_copy(r, "embedding_multiplier", "embedding_scale");
    weft__gguf_copy(r, "residual_multiplier", "residual_scale");
    weft__gguf_copy(r, "logits_scaling", "logit_scale");
    weft__gguf_add_number(&r->out, "attention_multiplier",
                          weft__gguf_number(r, "attention.scale", usual));
}

static weft_status write(weft__gguf_facts *f)
{
    const weft__decoder_config *c = f->decoder.config;
    weft__gguf_put_number(f, "embedding_scale", c->embedding_scale);
    weft__gguf_put_number(f, "residual_scale", c->residual_scale);
    weft__gguf_put_number(f, "attention.scale", c->attention_scale);
    weft__gguf_put_number(f, "logit_scale", 1 / c->hidden_scale);
    return WEFT_OK;
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 10000},
    .finish = finish,
    .gguf = &(const weft__gguf_arch){.name = "granite",
                                     .permuted = true,
                                     .divisors = true,
                                     .biases = true,
                                     .own_scale = true,
                                     .read = read,
                                     .write = write},
};

WEFT__FAMILY(granite, GraniteForCausalLM, .own = &own);

/* ---- Granite 4 ------------------------------------------------------------------------------ */

typedef struct hybrid_config {
    weft__decoder_config decoder;
    weft__mamba2_config mamba;
} hybrid_config;

static const weft_config_field hybrid_fields[] = {
    WEFT__DECODER_FIELDS(32000, 4096, 11008, 32, 32, 0, 0),
    SCALES,
    WEFT__CONFIG_AS("shared_intermediate_size", INT, weft__decoder_config, intermediate_size, 1024),
    WEFT__CONFIG_AS("intermediate_size", INT, weft__decoder_config, moe_intermediate_size, 11008),
    WEFT__CONFIG_AS("num_local_experts", INT, weft__decoder_config, num_experts, 8),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts_per_tok, 2),
};
#undef SCALES

static const weft__module_name modules[] = {
    {"mlp.shared_mlp.gate_up_proj", "input_linear"},
    {"mlp.shared_mlp.down_proj", "output_linear"},
    {"mlp.block_sparse_moe.gate", "router"},
    {"mlp", ""},
    {NULL, NULL},
};

static const weft__module_name stored_parts[] = {
    {".block_sparse_moe.router.", ".block_sparse_moe.router.layer."},
    {NULL, NULL},
};

static const weft__tensor_name hybrid_names[] = {
    WEFT__MAMBA2_NAMES("mamba"),
    {"ffn_gate_shexp", "shared_mlp.gate_proj", NULL},
    {"ffn_up_shexp", "shared_mlp.up_proj", NULL},
    {"ffn_down_shexp", "shared_mlp.output_linear", NULL},
    {"ffn_gate", "shared_mlp.gate_proj", NULL},
    {"ffn_up", "shared_mlp.up_proj", NULL},
    {"ffn_down", "shared_mlp.output_linear", NULL},
    {"ffn_gate_inp", "block_sparse_moe.router", "block_sparse_moe.router.layer.weight"},
    {"ffn_gate_exps", "block_sparse_moe.switch_mlp.gate_proj",
     "block_sparse_moe.input_linear.weight"},
    {"ffn_up_exps", "block_sparse_moe.switch_mlp.up_proj", "block_sparse_moe.input_linear.weight"},
    {"ffn_down_exps", "block_sparse_moe.switch_mlp.down_proj",
     "block_sparse_moe.output_linear.weight"},
    {NULL, NULL, NULL},
};

/* ---- the layers ------------------------------------------------------------------------------ */

static weft_module *mlps_new(const weft__decoder_config *c, const weft__layer *layer)
{
    return weft__shared_moe_new(layer->sparse ? "block_sparse_moe" : NULL,
                                layer->sparse ? weft__moe_new(c, layer) : NULL, "shared_mlp",
                                weft__mlp_new(c, c->intermediate_size), NULL, NULL);
}

static weft_module *mixer_new(const weft__decoder_config *c, const weft__layer *layer)
{
    (void)layer;
    return weft__mamba2_new(c, &((const hybrid_config *)c)->mamba);
}

static const weft__mixer mixer = {"mamba", mixer_new, weft__mamba2_forward};

static weft_status layer_of(const weft_config *config, const weft__decoder_config *c,
                            weft__layer *layer)
{
    layer->unrotated =
        strcmp(weft_config_string(config, "position_embedding_type", ""), "rope") != 0;
    if (layer->linear)
        layer->n_states = weft__mamba2_states(&((const hybrid_config *)c)->mamba, layer->states);
    return WEFT_OK;
}

static const weft__architecture architecture = {
    .block = weft__block_new,
    .forward = weft__block_forward,
    .mixer = &mixer,
    .mlp = mlps_new,
    .layer = layer_of,
};

static weft_status hybrid_finish(const weft_config *config, weft__decoder_config *c)
{
    const weft_status status = weft__mamba2_read(config, c, 0, &((hybrid_config *)c)->mamba);
    return status == WEFT_OK ? finish(config, c) : status;
}

/* ---- GGUF files of Granite 4 ---------------------------------------------------------------- */

static const weft__mamba2_config *mamba_of(const weft__gguf_facts *f)
{
    return &((const hybrid_config *)f->decoder.config)->mamba;
}

/* That of experts, or of the MLP without them. */
static int64_t width_of(const weft__gguf_facts *f, const weft__layer *layer)
{
    return layer->sparse ? f->decoder.config->moe_intermediate_size : layer->intermediate_size;
}

static bool has_states(const weft__gguf_facts *f)
{
    bool linear = false;
    for (int64_t i = 0; i < f->n_layers; i++)
        linear = linear || f->decoder.layers[i].linear;
    return linear;
}

static weft_array *hybrid_convert(const char *path, weft_array *a, const weft__gguf_facts *to_file)
{
    return weft__gguf_mamba2(path, a, to_file ? mamba_of(to_file) : NULL);
}

/* Layers without keys are Mamba 2. */
static void hybrid_read(weft__gguf_reader *r)
{
    static const char *const keys[] = {"mamba_n_heads", "mamba_d_head", "mamba_n_groups",
                                       "mamba_d_state", "mamba_d_conv", "mamba_conv_bias"};
    const int64_t n = weft__gguf_integer(r, "block_count", 0),
                  E = weft__gguf_integer(r, "embedding_length", 1),
                  width = weft__gguf_integer(r, "ssm.inner_size", 2 * E),
                  shared = weft__gguf_integer(r, "expert_shared_feed_forward_length", 0);
    read(r);
    weft__gguf_read_mamba2(r, keys);
    weft__gguf_add_integer(r, "mamba_expand", width % E == 0 ? width / E : 0);
    weft__gguf_add_integer(r, "shared_intermediate_size",
                           shared > 0 ? shared : weft__gguf_first(r, "feed_forward_length"));
    if (weft__gguf_integer(r, "expert_count", 0) == 0)
        weft__gguf_add_integer(r, "num_local_experts", 0);
    weft__gguf_add_integer(r, "num_key_value_heads",
                           weft__gguf_first(r, "attention.head_count_kv"));
    weft__text_format(&r->out, ",\"position_embedding_type\":\"%s\",\"layer_types\":[",
                      weft__gguf_integer(r, "rope.scaling.finetuned", 1) ? "rope" : "nope");
    for (int64_t i = 0; i < n && !r->out.failed; i++)
        weft__text_format(&r->out, "%s\"%s\"", i ? "," : "",
                          weft__gguf_of_layer(r, "attention.head_count_kv", i, 0) > 0
                              ? "full_attention"
                              : "linear_attention");
    weft__text_format(&r->out, "]");
}

static weft_status hybrid_write(weft__gguf_facts *f)
{
    const weft__decoder_config *c = f->decoder.config;
    const weft__mamba2_config *mamba = mamba_of(f);
    weft__gguf_put_bool(f, "rope.scaling.finetuned", !f->decoder.layers[0].unrotated);
    if (c->num_experts > 0)
        weft__gguf_put_integer(f, "expert_shared_feed_forward_length", c->intermediate_size);
    if (mamba->heads * mamba->head_dim != 2 * c->hidden_size)
        return weft__gguf_refuse(f, "a width of Mamba 2 other than twice hidden_size");
    if (mamba->least_step != 0 || mamba->most_step != 0)
        return weft__gguf_refuse(f, "time_step_limit");
    return write(f) == WEFT_OK ? weft__gguf_write_mamba2(f, mamba) : weft_error_status();
}

/* Without layers of Mamba 2, files are those of Granite 3. */
static weft_status dense_write(weft__gguf_facts *f)
{
    if (f->decoder.config->num_experts > 0 || f->decoder.layers[0].unrotated)
        return weft__gguf_refuse(f, "experts or layers without positions, without Mamba 2");
    return write(f);
}

static const weft__gguf_arch dense_gguf = {
    .name = "granite",
    .claims = weft__gguf_unclaimed,
    .permuted = true,
    .divisors = true,
    .biases = true,
    .own_scale = true,
    .write = dense_write,
};

static const weft__gguf_arch hybrid_gguf = {
    .name = "granitehybrid",
    .next = &dense_gguf,
    .fits = has_states,
    .permuted = true,
    .by_layer = true,
    .divisors = true,
    .biases = true,
    .width = width_of,
    .own_scale = true,
    .convert = hybrid_convert,
    .read = hybrid_read,
    .write = hybrid_write,
};

static const weft__family hybrid = {
    WEFT__FIELDS(hybrid_fields),
    .size = sizeof(hybrid_config),
    .defaults = &(const hybrid_config){.decoder = {.theta = 10000,
                                                   .fused_gate_up = true,
                                                   .norm_topk_prob = true,
                                                   .modules = modules,
                                                   .full_attention_interval = INT64_MAX,
                                                   .linear_type = "mamba",
                                                   .full_type = "attention"}}
                     .decoder,
    .architecture = &architecture,
    .finish = hybrid_finish,
    .names = hybrid_names,
    .stored_parts = stored_parts,
    .gguf = &hybrid_gguf,
};

WEFT__FAMILY(granitemoehybrid, GraniteMoeHybridForCausalLM, .own = &hybrid);
