/* models/families/mistral.c -- Mistral (Jiang et al. 2023): llama with a window on every layer. */
#include "models/config.h"
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(32000, 4096, 14336, 32, 32, 8, 0),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 0),
};

/* null means no window; files without the key are of the first release, which has one. */
static weft_status finish(const weft_config *config, weft__decoder_config *c)
{
    if (!weft__config_mentions(config, "sliding_window"))
        c->sliding_window = 4096;
    return WEFT_OK;
}

/* Files with experts, some of which name a window too, are Mixtral's. */
static bool has_window(const weft__gguf_reader *file)
{
    return weft__gguf_integer(file, "attention.sliding_window", 0) > 0 &&
           weft__gguf_integer(file, "expert_count", 0) <= 0;
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 10000},
    .finish = finish,
    .windows = WEFT__WINDOW_ALL,
    .gguf = &(const weft__gguf_arch){.name = "llama",
                                     .divisors = true,
                                     .biases = true,
                                     .claims = has_window,
                                     .permuted = true,
                                     .windows = WEFT__GGUF_ONE_WINDOW},
};

WEFT__FAMILY(mistral, MistralForCausalLM, .own = &own);
/* layer_types lists the layers with a window; GGUF files of both are the same */
WEFT__FAMILY(ministral, MinistralForCausalLM, .own = &own, .text_type = "mistral");
/* multimodal; its text_config may lack a type */
WEFT__FAMILY(mistral3, Mistral3ForConditionalGeneration, .own = &own, .text_type = "mistral");
