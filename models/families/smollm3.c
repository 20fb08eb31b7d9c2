/* models/families/smollm3.c -- SmolLM3 (Hugging Face 2025): llama in which every fourth layer is
 * not rotated. */
#include "models/config.h"
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(128256, 2048, 11008, 36, 16, 4, 0),
    WEFT__ATTENTION_BIAS,
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, mlp_bias, false),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, use_sliding_window, false),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, no_rope_layer_interval, 4),
};

static weft_status finish(const weft_config *config, weft__decoder_config *c)
{
    const char *where = weft_config_where(config);
    if (c->use_sliding_window && weft_config_has(config, "sliding_window"))
        return weft_fail(WEFT_UNSUPPORTED, "%s: use_sliding_window true is unsupported", where);
    if (c->no_rope_layer_interval < 1)
        return weft_fail(WEFT_INVALID,
                         "%s: no_rope_layer_interval: expected a positive number, got %lld", where,
                         (long long)c->no_rope_layer_interval);
    return WEFT_OK;
}

/* Readers assume the usual interval. */
static weft_status write(weft__gguf_facts *f)
{
    for (int64_t i = 0; i < f->n_layers; i++) {
        if (f->decoder.layers[i].unrotated != ((i + 1) % 4 == 0))
            return weft__gguf_refuse(f, "rotation of other layers than three of four");
    }
    return WEFT_OK;
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 2e6},
    .finish = finish,
    .gguf = &(const weft__gguf_arch){.name = "smollm3", .permuted = true, .write = write},
};

WEFT__FAMILY(smollm3, SmolLM3ForCausalLM, .own = &own, .tied = true);
