/* models/families/cohere2.c -- Command R7B (Cohere 2024): attention and MLP beside each
 * other after one LayerNorm; a window and a rotation of neighboring elements on three of four
 * layers, neither on the fourth. */
#include <math.h>

#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(256000, 8192, 22528, 40, 64, 0, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, layer_norm_eps, 1e-5),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 4096),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window_pattern, 4),
    WEFT__CONFIG_AS("logit_scale", DOUBLE, weft__decoder_config, hidden_scale, 0.0625),
    WEFT__ATTENTION_BIAS,
};

static weft_status finish(const weft_config *config, weft__decoder_config *c)
{
    const bool eps = c->layer_norm_eps > 0, scale = c->hidden_scale > 0;
    if (eps && scale && isfinite(c->layer_norm_eps) && isfinite(c->hidden_scale))
        return WEFT_OK;
    return weft_fail(WEFT_INVALID,
                     "%s: layer_norm_eps, logit_scale: expected positive numbers, got %g and %g",
                     weft_config_where(config), c->layer_norm_eps, c->hidden_scale);
}

static void read(weft__gguf_reader *r)
{
    weft__gguf_copy(r, "logit_scale", "logit_scale");
}

static weft_status write(weft__gguf_facts *f)
{
    const weft__decoder_config *c = f->decoder.config;
    bool usual = c->head_dim * c->num_attention_heads == c->hidden_size;
    for (int64_t i = 0; i < f->n_layers; i++) /* readers have this pattern built in */
        usual = usual && (f->decoder.layers[i].window > 0) == ((i + 1) % 4 != 0);
    if (!usual)
        return weft__gguf_refuse(f, "another width of the heads, or another pattern of windows");
    weft__gguf_put_number(f, "logit_scale", c->hidden_scale);
    return WEFT_OK;
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults =
        &(const weft__decoder_config){
            .theta = 10000, .parallel = true, .interleaved = true, .rotates_windows_only = true},
    .finish = finish,
    .windows = WEFT__WINDOW_PATTERN,
    .gguf = &(const weft__gguf_arch){.name = "cohere2",
                                     .output = WEFT__GGUF_OUTPUT_NEVER,
                                     .windows = WEFT__GGUF_SOME,
                                     .layer_norms = true,
                                     .read = read,
                                     .write = write},
};

WEFT__FAMILY(cohere2, Cohere2ForCausalLM, .own = &own, .tied = true);
