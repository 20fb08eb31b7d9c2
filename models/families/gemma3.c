/* models/families/gemma3.c -- Gemma 3 (Gemma team 2025), also as part of the multimodal model: five
 * layers with a window and a small rotary base for each one without. */
#include "models/families/gemma.h"

static const weft_config_field fields[] = {
    WEFT__GEMMA_FIELDS(262208, 2304, 9216, 26, 8, 4, 256),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 4096),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window_pattern, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, query_pre_attn_scalar, 256),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, attn_logit_softcapping, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, final_logit_softcapping, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_offset, 1),
};

static weft_status finish(const weft_config *config, weft__decoder_config *c)
{
    c->bidirectional = weft_config_bool(config, "use_bidirectional_attention", false);
    if (c->bidirectional) /* the key counts both sides */
        c->sliding_window = c->sliding_window / 2 + 1;
    if (c->sliding_window_pattern == 0)
        c->sliding_window_pattern = weft_config_int(config, "_sliding_window_pattern", 6);
    return weft__gemma_finish(config, c);
}

static bool is_causal(const weft__gguf_facts *f)
{
    return !f->decoder.config->bidirectional;
}

/* EmbeddingGemma, in both directions. */
static void embedder_read(weft__gguf_reader *r)
{
    weft__gemma_read(r);
    weft__gguf_add_bool(r, "use_bidirectional_attention", true);
}

static weft_status embedder_write(weft__gguf_facts *f)
{
    const weft__decoder_config *c = f->decoder.config;
    weft__gguf_put_encoder(f);
    return c->attn_logit_softcapping > 0 ? weft__gguf_refuse(f, "attn_logit_softcapping") : WEFT_OK;
}

static const weft__gguf_arch embedder_gguf = {
    .name = "gemma-embedding",
    .two_rotations = true,
    .windows = WEFT__GGUF_ALWAYS,
    .two_sided = true,
    .norm_offset = 1,
    .linears = true,
    .read = embedder_read,
    .write = embedder_write,
};

static void read(weft__gguf_reader *r)
{
    weft__gemma_read(r);
    weft__gguf_add_full_layers(r);
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults =
        &(const weft__decoder_config){
            .theta = 1e6, .sliding_theta = 1e4, .sandwich = true, .qk_norm = true},
    .finish = finish,
    .windows = WEFT__WINDOW_PATTERN,
    .names = weft__gemma_names,
    .gguf = &(const weft__gguf_arch){.name = "gemma3",
                                     .next = &embedder_gguf,
                                     .fits = is_causal,
                                     .two_rotations = true,
                                     .windows = WEFT__GGUF_SOME,
                                     .norm_offset = 1,
                                     .wide_layers = 62,
                                     .read = read,
                                     .write = weft__gemma_write},
};

WEFT__FAMILY(gemma3, Gemma3ForConditionalGeneration, .own = &own, .tied = true,
             .text_type = "gemma3_text");
WEFT__FAMILY(gemma3_text, Gemma3ForCausalLM, .own = &own, .tied = true);
