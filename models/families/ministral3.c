/* models/families/ministral3.c -- Ministral 3: mistral without windows, with queries that are
 * scaled by their position (Llama 4's attention temperature). */
#include "models/config.h"
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(131072, 4096, 14336, 34, 32, 8, 128),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_eps, 1e-5),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 0),
};

static const weft_rope_options yarn = {.kind = WEFT_ROPE_YARN,
                                       .theta = 1e6,
                                       .factor = 16,
                                       .original_max_position = 16384,
                                       .mscale = 1,
                                       .mscale_all_dim = 1};

static weft_status finish(const weft_config *config, weft__decoder_config *c)
{
    weft__json rope;
    weft_status status = weft__config_rope_object(config, &rope);
    if (status == WEFT_OK && rope.value == NULL) {
        c->query_beta = 0.1;
        c->query_period = yarn.original_max_position;
        return WEFT_OK;
    }
    if (status == WEFT_OK)
        status = weft__json_find_number(&rope, "llama_4_scaling_beta", &c->query_beta);
    if (status == WEFT_OK)
        status = weft__json_find_int(&rope, "original_max_position_embeddings", &c->query_period);
    if (status == WEFT_OK && c->query_beta != 0 && c->query_period < 1)
        return weft__json_fail(&rope, WEFT_INVALID,
                               "llama_4_scaling_beta needs a positive "
                               "original_max_position_embeddings");
    return status;
}

/* Files of other Mistral models have this architecture without either. */
static bool has_scale(const weft__gguf_reader *file)
{
    return weft__gguf_number(file, "attention.temperature_scale", 0) != 0 ||
           weft__gguf_number(file, "rope.scaling.yarn_log_multiplier", 0) != 0;
}

static weft_status read_rope(weft__gguf_reader *r)
{
    weft__text *out = &r->out;
    weft__text_format(out, ",\"rope_parameters\":{\"rope_type\":\"yarn\"");
    weft__gguf_add_number(out, "rope_theta", weft__gguf_number(r, "rope.freq_base", 1e6));
    weft__gguf_add_yarn(r);
    weft__gguf_add_number(out, "mscale", 1);
    weft__gguf_add_number(out, "mscale_all_dim",
                          weft__gguf_number(r, "rope.scaling.yarn_log_multiplier", 1));
    weft__gguf_add_number(out, "llama_4_scaling_beta",
                          weft__gguf_number(r, "attention.temperature_scale", 0));
    weft__text_format(out, "}");
    return WEFT_OK;
}

/* The amplitude of the rotation is mscale over mscale_all_dim; readers assume 1 for the former. */
static weft_status write_scaling(weft__gguf_facts *f, const weft_rope_options *o)
{
    if (o->kind != WEFT_ROPE_YARN || o->no_truncate || o->mscale != 1 || o->mscale_all_dim == 0 ||
        o->attention_factor != 0)
        return weft__gguf_refuse(f, "this scaling of the rotary embedding");
    weft__gguf_put_number(f, "rope.scaling.yarn_log_multiplier", o->mscale_all_dim);
    weft__gguf_put_number(f, "attention.temperature_scale", f->decoder.config->query_beta);
    weft__gguf_put_yarn(f, o);
    return WEFT_OK;
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 10000, .rotation = &yarn},
    .finish = finish,
    .windows = WEFT__WINDOW_ALL,
    .gguf = &(const weft__gguf_arch){.name = "mistral3",
                                     .otherwise = "llama",
                                     .claims = has_scale,
                                     .permuted = true,
                                     .biases = true,
                                     .read_rope = read_rope,
                                     .write_scaling = write_scaling},
};

WEFT__FAMILY(ministral3, Ministral3ForCausalLM, .own = &own);
