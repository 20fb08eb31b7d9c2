/* models/families/falcon_h1.c -- Falcon-H1 (TII 2025): attention and Mamba 2 beside each other in
 * every layer, with scales for most branches. */
#include <math.h>
#include <string.h>

#include "models/block.h"
#include "models/config.h"
#include "models/gguf/arch.h"

enum { STATES, KEYS_VALUES, N_CACHES }; /* the caches of a layer */

typedef struct falcon_config {
    weft__decoder_config decoder;
    weft__mamba2_config mamba;
    double key_multiplier, attention_in_multiplier, attention_out_multiplier;
    double ssm_in_multiplier, ssm_out_multiplier;
} falcon_config;

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(128000, 4096, 14336, 32, 32, 8, 0),
    WEFT__ATTENTION_BIAS,
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_eps, 1e-5),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, mlp_bias, false),
    WEFT__CONFIG_AS("embedding_multiplier", DOUBLE, weft__decoder_config, embedding_scale, 1),
    WEFT__CONFIG_AS("lm_head_multiplier", DOUBLE, weft__decoder_config, hidden_scale, 1),
    WEFT_CONFIG_OPTIONAL(DOUBLE, falcon_config, key_multiplier, 1),
    WEFT_CONFIG_OPTIONAL(DOUBLE, falcon_config, attention_in_multiplier, 1),
    WEFT_CONFIG_OPTIONAL(DOUBLE, falcon_config, attention_out_multiplier, 1),
    WEFT_CONFIG_OPTIONAL(DOUBLE, falcon_config, ssm_in_multiplier, 1),
    WEFT_CONFIG_OPTIONAL(DOUBLE, falcon_config, ssm_out_multiplier, 1),
};

static const weft__module_name modules[] = {
    {"post_attention_layernorm", "pre_ff_layernorm"},
    {"mlp", "feed_forward"},
    {"model.norm", "final_layernorm"},
    {NULL, NULL},
};

static const weft__tensor_name names[] = {
    WEFT__MAMBA2_NAMES("mamba"),
    {"output_norm.weight", "model.final_layernorm.weight", NULL},
    {"ffn_norm", "pre_ff_layernorm.weight", NULL}, /* without an ending */
    {"ffn_gate", "feed_forward.gate_proj", NULL},
    {"ffn_up", "feed_forward.up_proj", NULL},
    {"ffn_down", "feed_forward.down_proj", NULL},
    {NULL, NULL, NULL},
};

/* ---- the two mixers ------------------------------------------------------------------------- */

typedef struct mixers {
    weft_module module;
    weft_module *mamba, *self_attn;
    int64_t cache;
    double attention_in, attention_out, ssm_in, ssm_out;
} mixers;

static const weft_module_type mixers_type = {.name = "mixers"};

static weft_module *mixers_new(const weft__decoder_config *decoder, const weft__layer *layer)
{
    mixers *m = weft_nn_new(mixers, &mixers_type);
    if (m == NULL)
        return NULL;
    const falcon_config *c = (const falcon_config *)decoder;
    weft__decoder_config attention = *decoder; /* whose keys are scaled */
    attention.attention_scale = c->key_multiplier / sqrt((double)layer->head_dim);
    m->cache = layer->cache;
    m->attention_in = c->attention_in_multiplier;
    m->attention_out = c->attention_out_multiplier;
    m->ssm_in = c->ssm_in_multiplier;
    m->ssm_out = c->ssm_out_multiplier;
    weft_nn_child(m, mamba, weft__mamba2_new(decoder, &c->mamba));
    weft_nn_child(m, self_attn, weft__attention_new(&attention, layer, false));
    return weft_nn_finish(m);
}

static weft_array *scaled(weft_array *x, double scale)
{
    return scale == 1 ? x : weft_scale(x, scale);
}

/* x (B, L, E) -> (B, L, E) */
static weft_array *mixers_forward(weft_module *self, weft_array *x, const weft__step *step,
                                  weft_cache *cache)
{
    mixers *m = (mixers *)self;
    weft_cache *keys_values = cache ? step->caches[m->cache + KEYS_VALUES] : NULL;
    weft_nn_enter(m);
    weft_array *y = weft__mamba2_forward(m->mamba, scaled(x, m->ssm_in), step, cache);
    x = weft__attention_forward(m->self_attn, scaled(x, m->attention_in), step, keys_values);
    y = weft_add(scaled(y, m->ssm_out), scaled(x, m->attention_out));
    return weft_nn_leave(m, y);
}

static const weft__mixer mixer = {"", mixers_new, mixers_forward};

/* ---- the family ------------------------------------------------------------------------------ */

static weft_status layer_of(const weft_config *config, const weft__decoder_config *c,
                            weft__layer *layer)
{
    (void)config;
    layer->linear = true;
    layer->n_caches = N_CACHES;
    layer->n_states = weft__mamba2_states(&((const falcon_config *)c)->mamba, layer->states);
    return WEFT_OK;
}

static const weft__architecture architecture = {
    .block = weft__block_new,
    .forward = weft__block_forward,
    .mixer = &mixer,
    .layer = layer_of,
};

/* Reads a list of n numbers; they are 1 without it. */
static weft_status read_list(const weft_config *config, const char *key, size_t n, double *out)
{
    const weft__json list = weft__config_at(config, key);
    size_t found = n;
    weft_status status = list.value ? weft__json_length(&list, &found) : WEFT_OK;
    if (status == WEFT_OK && found != n)
        status = weft__json_fail(&list, WEFT_INVALID, "expected %zu numbers, got %zu", n, found);
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        weft__json at;
        out[i] = 1;
        if (list.value)
            status = weft__json_at(&list, i, &at);
        if (list.value && status == WEFT_OK)
            status = weft__json_as_number(&at, &out[i]);
        if (status == WEFT_OK && (out[i] == 0 || !isfinite(out[i])))
            status = weft__json_fail(&at, WEFT_INVALID, "expected a number other than 0");
    }
    return status;
}

static weft_status check_scales(const weft_config *config, const falcon_config *c)
{
    const struct {
        const char *name;
        double value;
    } scales[] = {{"embedding_multiplier", c->decoder.embedding_scale},
                  {"lm_head_multiplier", c->decoder.hidden_scale},
                  {"key_multiplier", c->key_multiplier},
                  {"attention_in_multiplier", c->attention_in_multiplier},
                  {"attention_out_multiplier", c->attention_out_multiplier},
                  {"ssm_in_multiplier", c->ssm_in_multiplier},
                  {"ssm_out_multiplier", c->ssm_out_multiplier}};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        if (scales[i].value == 0 || !isfinite(scales[i].value))
            return weft_fail(WEFT_INVALID, "%s: %s: expected a number other than 0, got %g",
                             weft_config_where(config), scales[i].name, scales[i].value);
    }
    return WEFT_OK;
}

/* The width of all heads of Mamba 2. */
static int64_t width_of(const weft_config *config)
{
    enum { WIDTH = 1024, HEADS = 128, MOST = 1 << 15 };
    const int64_t heads = weft_config_int(config, "mamba_n_heads", HEADS);
    const int64_t head_dim = weft_config_int(config, "mamba_d_head", 0);
    const bool known = heads > 0 && heads <= MOST && head_dim > 0 && head_dim <= MOST;
    return weft_config_int(config, "mamba_d_ssm", known ? heads * head_dim : WIDTH);
}

static weft_status finish(const weft_config *config, weft__decoder_config *decoder)
{
    falcon_config *c = (falcon_config *)decoder;
    double mlp[2];
    weft_status status = check_scales(config, c);
    if (status == WEFT_OK)
        status = weft__mamba2_read(config, decoder, width_of(config), &c->mamba);
    if (status == WEFT_OK)
        status = read_list(config, "ssm_multipliers", 5, c->mamba.scales);
    if (status == WEFT_OK)
        status = read_list(config, "mlp_multipliers", 2, mlp);
    if (status != WEFT_OK)
        return status;
    c->mamba.scaled = true;
    c->mamba.unadapted = true;
    c->mamba.no_norm = !weft_config_bool(config, "mamba_rms_norm", false);
    c->mamba.norm_first = weft_config_bool(config, "mamba_norm_before_gate", true);
    c->mamba.output_bias = weft_config_bool(config, "projectors_bias", false);
    decoder->gate_scale = mlp[0];
    decoder->down_scale = mlp[1];
    return WEFT_OK;
}

/* ---- GGUF files ------------------------------------------------------------------------------ */

/* Files have no scales: they are multiplied into the weights. That of a parameter. */
static double scale_of(const falcon_config *c, const char *path)
{
    const struct {
        const char *part;
        double scale;
    } scales[] = {
        {"model.embed_tokens.", c->decoder.embedding_scale},
        {"lm_head.", c->decoder.hidden_scale},
        {".self_attn.q_proj.", c->attention_in_multiplier},
        {".self_attn.k_proj.", c->attention_in_multiplier * c->key_multiplier},
        {".self_attn.v_proj.", c->attention_in_multiplier},
        {".self_attn.o_proj.", c->attention_out_multiplier},
        {".mamba.in_proj.", c->ssm_in_multiplier},
        {".mamba.out_proj.", c->ssm_out_multiplier},
        {".gate_proj.", c->decoder.gate_scale},
        {".down_proj.", c->decoder.down_scale},
    };
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        if (strstr(path, scales[i].part))
            return scales[i].scale;
    }
    return 1;
}

static weft_array *convert(const char *path, weft_array *a, const weft__gguf_facts *to_file)
{
    const falcon_config *c = to_file ? (const falcon_config *)to_file->decoder.config : NULL;
    const double scale = c ? scale_of(c, path) : 1;
    weft_array *rows = c && strstr(path, ".mamba.in_proj.") ? weft__mamba2_scales(&c->mamba) : NULL;
    a = weft__gguf_mamba2(path, a, c ? &c->mamba : NULL);
    a = scale != 1 ? weft_scale(a, scale) : a;
    return rows ? weft_multiply(a, weft_expand_dims(rows, 1)) : a;
}

static int64_t kv_heads_of(const weft__gguf_facts *f, const weft__layer *layer)
{
    (void)f;
    return layer->n_kv_heads;
}

static void read(weft__gguf_reader *r)
{
    static const char *const keys[] = {"mamba_n_heads", "mamba_d_head", "mamba_n_groups",
                                       "mamba_d_state", "mamba_d_conv", "mamba_conv_bias"};
    weft__gguf_read_mamba2(r, keys);
    weft__gguf_copy(r, "mamba_d_ssm", "ssm.inner_size");
    weft__gguf_add_bool(r, "mamba_rms_norm", weft__gguf_has(r, "blk.0.ssm_norm.weight"));
    weft__gguf_add_bool(r, "mamba_norm_before_gate", false);
}

static weft_status write(weft__gguf_facts *f)
{
    const falcon_config *c = (const falcon_config *)f->decoder.config;
    f->untied =
        weft_model_info_of(f->model)->tied && c->decoder.embedding_scale != c->decoder.hidden_scale;
    if (c->mamba.least_step != 0 || c->mamba.most_step != 0)
        return weft__gguf_refuse(f, "time_step_limit");
    return weft__gguf_write_mamba2(f, &c->mamba);
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .size = sizeof(falcon_config),
    .defaults = &(const falcon_config){.decoder = {.theta = 10000,
                                                   .modules = modules,
                                                   .full_attention_interval = INT64_MAX,
                                                   .linear_type = "hybrid"}}
                     .decoder,
    .architecture = &architecture,
    .finish = finish,
    .names = names,
    .gguf = &(const weft__gguf_arch){.name = "falcon-h1",
                                     .divisors = true,
                                     .kv_heads = kv_heads_of,
                                     .convert = convert,
                                     .read = read,
                                     .write = write},
};

WEFT__FAMILY(falcon_h1, FalconH1ForCausalLM, .own = &own);
