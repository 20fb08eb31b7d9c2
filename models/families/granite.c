/* models/families/granite.c -- Granite 3, dense (IBM 2024): llama with scales for
 * embeddings, scores, residual branches and logits. */
#include <math.h>

#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(32000, 4096, 11008, 32, 32, 0, 0),
    WEFT__ATTENTION_BIAS,
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, mlp_bias, false),
    WEFT__CONFIG_AS("embedding_multiplier", DOUBLE, weft__decoder_config, embedding_scale, 1),
    WEFT__CONFIG_AS("residual_multiplier", DOUBLE, weft__decoder_config, residual_scale, 1),
    WEFT__CONFIG_AS("attention_multiplier", DOUBLE, weft__decoder_config, attention_scale, 1),
    WEFT__CONFIG_AS("logits_scaling", DOUBLE, weft__decoder_config, hidden_scale, 1),
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
