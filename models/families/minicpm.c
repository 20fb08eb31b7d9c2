/* models/families/minicpm.c -- MiniCPM 1, 2 and 4 (Hu et al. 2024): llama with scales for
 * embeddings, residual branches and the input of the head; MiniCPM 3: the same with latent
 * attention. MiniCPM 5 is a llama. */
#include <math.h>

#include "models/config.h"
#include "models/gguf/arch.h"

typedef struct minicpm_config {
    weft__decoder_config decoder;
    double scale_depth, dim_model_base; /* 0: none */
} minicpm_config;

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(32000, 4096, 11008, 32, 32, 0, 0),
    WEFT__ATTENTION_BIAS,
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts, 0),
    WEFT__CONFIG_AS("scale_emb", DOUBLE, weft__decoder_config, embedding_scale, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, minicpm_config, scale_depth, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, minicpm_config, dim_model_base, 0),
};

static const weft_config_field latent_fields[] = {
    WEFT__DECODER_FIELDS(73448, 2560, 6400, 62, 40, 0, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_eps, 1e-5),
    WEFT__ATTENTION_BIAS,
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, mlp_bias, false),
    WEFT__LATENT_FIELDS(768, 256, 64, 32, 0),
    WEFT__CONFIG_AS("scale_emb", DOUBLE, weft__decoder_config, embedding_scale, 12),
    WEFT_CONFIG_OPTIONAL(DOUBLE, minicpm_config, scale_depth, 1.4),
    WEFT_CONFIG_OPTIONAL(DOUBLE, minicpm_config, dim_model_base, 256),
};

static weft_status finish(const weft_config *config, weft__decoder_config *c)
{
    const minicpm_config *own = (const minicpm_config *)c;
    if (c->num_experts > 0)
        return weft_fail(WEFT_UNSUPPORTED, "%s: num_experts: minicpm with experts is unsupported",
                         weft_config_where(config));
    c->num_experts = 0;
    if (own->scale_depth != 0 && c->num_hidden_layers > 0)
        c->residual_scale = own->scale_depth / sqrt((double)c->num_hidden_layers);
    if (own->dim_model_base != 0 && c->hidden_size > 0)
        c->hidden_scale = own->dim_model_base / (double)c->hidden_size;
    return WEFT_OK;
}

static weft_status latent_finish(const weft_config *config, weft__decoder_config *c)
{
    minicpm_config *own = (minicpm_config *)c;
    if (c->latent.v_head_dim == 0 && c->num_attention_heads > 0)
        c->latent.v_head_dim = c->hidden_size / c->num_attention_heads;
    if (weft__config_is_null(config, "scale_depth"))
        own->scale_depth = 0;
    if (weft__config_is_null(config, "dim_model_base"))
        own->dim_model_base = 0;
    return finish(config, c);
}

static void read(weft__gguf_reader *r)
{
    const double L = weft__gguf_number(r, "block_count", 1);
    const double depth = weft__gguf_number(r, "residual_scale", 1 / sqrt(L)) * sqrt(L);
    const double base =
        weft__gguf_number(r, "embedding_length", 0) / weft__gguf_number(r, "logit_scale", 1);
    weft__gguf_add_number(&r->out, "scale_emb", weft__gguf_number(r, "embedding_scale", 1));
    weft__gguf_add_number(&r->out, "scale_depth", depth);
    weft__gguf_add_number(&r->out, "dim_model_base", base);
}

/* Absent scales are 1. */
static weft_status write(weft__gguf_facts *f)
{
    const weft__decoder_config *c = f->decoder.config;
    weft__gguf_put_number(f, "embedding_scale", c->embedding_scale != 0 ? c->embedding_scale : 1);
    weft__gguf_put_number(f, "residual_scale", c->residual_scale != 0 ? c->residual_scale : 1);
    weft__gguf_put_number(f, "logit_scale", c->hidden_scale != 0 ? 1 / c->hidden_scale : 1);
    return WEFT_OK;
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .size = sizeof(minicpm_config),
    .defaults = &(const minicpm_config){.decoder = {.theta = 10000}}.decoder,
    .finish = finish,
    .gguf = &(const weft__gguf_arch){.name = "minicpm",
                                     .permuted = true,
                                     .divisors = true,
                                     .biases = true,
                                     .read = read,
                                     .write = write},
};

WEFT__FAMILY(minicpm, MiniCPMForCausalLM, .own = &own, .tied = true);

/* ---- GGUF files of MiniCPM 3 ---------------------------------------------------------------- */

static const weft__tensor_name latent_names[] = {
    WEFT__LATENT_NAMES,
    {"attn_kv_b", "self_attn.kv_b_proj", NULL},
    {NULL, NULL, NULL},
};

/* Readers assume these values, and q_a_proj. */
enum { EMB = 12, BASE = 256 };
static const double depth = 1.4;

static void latent_read(weft__gguf_reader *r)
{
    weft__gguf_add_integer(r, "scale_emb", EMB);
    weft__gguf_add_number(&r->out, "scale_depth", depth);
    weft__gguf_add_integer(r, "dim_model_base", BASE);
}

static weft_status latent_write(weft__gguf_facts *f)
{
    const weft__decoder_config *c = f->decoder.config;
    const double residual = depth / sqrt((double)f->n_layers), E = (double)c->hidden_size;
    if (c->embedding_scale != EMB || c->residual_scale != residual || c->hidden_scale != BASE / E)
        return weft__gguf_refuse(
            f, "a scale_emb, scale_depth or dim_model_base other than 12, 1.4 and 256");
    if (c->latent.q_lora_rank == 0)
        return weft__gguf_refuse(f, "q_lora_rank null");
    return c->attention_bias ? weft__gguf_refuse(f, "attention_bias true") : WEFT_OK;
}

static const weft__family latent = {
    WEFT__FIELDS(latent_fields),
    .size = sizeof(minicpm_config),
    .defaults =
        &(const minicpm_config){
            .decoder = {.theta = 10000, .renews = true, .latent = {.used = true}}}
             .decoder,
    .finish = latent_finish,
    .names = latent_names,
    .gguf = &(const weft__gguf_arch){.name = "minicpm3",
                                     .latents = WEFT__GGUF_HEADS,
                                     .read_rope = weft__gguf_read_longrope,
                                     .read = latent_read,
                                     .write_scaling = weft__gguf_write_longrope,
                                     .write = latent_write},
};

WEFT__FAMILY(minicpm3, MiniCPM3ForCausalLM, .own = &latent, .tied = true);
