/* models/families/granite.c -- Granite 3 and 4, dense (IBM 2024, 2025): llama with scales for
 * embeddings, scores, residual branches and logits; in Granite 4 layers of Mamba 2. */
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
    .gguf =
        &(const weft__gguf_arch){
            .name = "granite", .permuted = true, .own_scale = true, .read = read, .write = write},
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
    WEFT__CONFIG_AS("mamba_n_heads", INT, hybrid_config, mamba.heads, 128),
    WEFT__CONFIG_AS("mamba_n_groups", INT, hybrid_config, mamba.groups, 1),
    WEFT__CONFIG_AS("mamba_d_state", INT, hybrid_config, mamba.state_size, 256),
    WEFT__CONFIG_AS("mamba_d_conv", INT, hybrid_config, mamba.taps, 4),
    WEFT__CONFIG_AS("mamba_conv_bias", BOOL, hybrid_config, mamba.conv_bias, true),
    WEFT__CONFIG_AS("mamba_proj_bias", BOOL, hybrid_config, mamba.projection_bias, false),
};
#undef SCALES

static const weft__module_name modules[] = {
    {"mlp.gate_up_proj", "input_linear"},
    {"mlp.down_proj", "output_linear"},
    {"mlp", "shared_mlp"},
    {NULL, NULL},
};

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
    .layer = layer_of,
};

/* Steps are not limited. */
static bool has_limits(const weft_config *config)
{
    const weft__json limits = weft__config_at(config, "time_step_limit");
    weft__json at;
    double least = 0, most = INFINITY;
    if (limits.value && weft__json_at(&limits, 0, &at) == WEFT_OK)
        (void)weft__json_as_number(&at, &least); /* on failure it stays the usual one */
    if (limits.value && weft__json_at(&limits, 1, &at) == WEFT_OK)
        (void)weft__json_as_number(&at, &most); /* infinity is not always written as a number */
    return least > 0 || most < INFINITY;
}

static weft_status hybrid_finish(const weft_config *config, weft__decoder_config *c)
{
    enum { MOST = 1 << 15, MOST_TAPS = 256 };
    const char *where = weft_config_where(config);
    weft__mamba2_config *m = &((hybrid_config *)c)->mamba;
    const int64_t expand = weft_config_int(config, "mamba_expand", 2);
    const struct {
        const char *name;
        int64_t value, least, most;
    } sizes[] = {
        {"mamba_n_heads", m->heads, 1, MOST},      {"mamba_n_groups", m->groups, 1, MOST},
        {"mamba_d_state", m->state_size, 1, MOST}, {"mamba_d_conv", m->taps, 2, MOST_TAPS},
        {"mamba_expand", expand, 1, MOST},         {"hidden_size", c->hidden_size, 1, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < sizes[i].least || sizes[i].value > sizes[i].most)
            return weft_fail(WEFT_INVALID, "%s: %s: expected %lld to %lld, got %lld", where,
                             sizes[i].name, (long long)sizes[i].least, (long long)sizes[i].most,
                             (long long)sizes[i].value);
    }
    const int64_t width = expand * c->hidden_size;
    m->head_dim = weft_config_int(config, "mamba_d_head", width / m->heads);
    if (m->head_dim != width / m->heads || width % m->heads != 0 || m->heads % m->groups != 0)
        return weft_fail(WEFT_INVALID,
                         "%s: mamba_n_heads: expected a divisor of mamba_expand * hidden_size %lld "
                         "with heads of mamba_d_head, and a multiple of mamba_n_groups %lld, got "
                         "%lld",
                         where, (long long)width, (long long)m->groups, (long long)m->heads);
    if (weft_config_int(config, "num_local_experts", 8) > 0)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: num_local_experts: expected 0, got %lld: experts are unsupported in "
                         "this family",
                         where, (long long)weft_config_int(config, "num_local_experts", 8));
    if (has_limits(config))
        return weft_fail(WEFT_UNSUPPORTED, "%s: time_step_limit: limits are unsupported", where);
    m->taps_first = weft__config_taps_first(config, c->num_hidden_layers, "mamba.conv1d");
    return finish(config, c);
}

static const weft__family hybrid = {
    WEFT__FIELDS(hybrid_fields),
    .size = sizeof(hybrid_config),
    .defaults = &(const hybrid_config){.decoder = {.theta = 10000,
                                                   .fused_gate_up = true,
                                                   .modules = modules,
                                                   .full_attention_interval = INT64_MAX,
                                                   .linear_type = "mamba",
                                                   .full_type = "attention"}}
                     .decoder,
    .architecture = &architecture,
    .finish = hybrid_finish,
};

WEFT__FAMILY(granitemoehybrid, GraniteMoeHybridForCausalLM, .own = &hybrid);
