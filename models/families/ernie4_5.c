/* models/families/ernie4_5.c -- ERNIE 4.5 (Baidu 2025), dense: llama with a rotation of neighboring
 * elements. */
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(103424, 1024, 3072, 18, 16, 2, 128),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_eps, 1e-5),
    WEFT__CONFIG_AS("use_bias", BOOL, weft__decoder_config, attention_bias, false),
    WEFT__CONFIG_AS("use_bias", BOOL, weft__decoder_config, output_bias, false),
    WEFT__CONFIG_AS("use_bias", BOOL, weft__decoder_config, mlp_bias, false),
};

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 500000, .interleaved = true},
    .gguf = &(const weft__gguf_arch){.name = "ernie4_5"},
};

WEFT__FAMILY(ernie4_5, Ernie4_5ForCausalLM, .own = &own, .tied = true);
