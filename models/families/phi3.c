/* models/families/phi3.c -- Phi-3, Phi-3.5 and Phi-4 (Abdin et al. 2024): llama whose q, k and v
 * are rows of one matrix, as are the MLP's gate and up. */
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(32064, 3072, 8192, 32, 32, 0, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_eps, 1e-5),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 0),
};

static const weft__tensor_name names[] = {
    {"attn_qkv", "self_attn.qkv_proj", NULL},
    {"ffn_up", "mlp.gate_up_proj", NULL},
    {NULL, NULL, NULL},
};

/* Readers tell Phi-3 from Phi-4 by the window, which is 0 without one. */
static weft_status write(weft__gguf_facts *f)
{
    if (f->windowed == NULL)
        weft__gguf_put_integer(f, "attention.sliding_window", 0);
    return WEFT_OK;
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 10000,
                                              .partial_rotary_factor = 1,
                                              .original_length = 4096,
                                              .fused_qkv = true,
                                              .fused_gate_up = true,
                                              .renews = true},
    .windows = WEFT__WINDOW_ALL,
    .names = names,
    .gguf = &(const weft__gguf_arch){.name = "phi3",
                                     .windows = WEFT__GGUF_ONE_WINDOW,
                                     .read_rope = weft__gguf_read_longrope,
                                     .write_scaling = weft__gguf_write_longrope,
                                     .write = write},
};

WEFT__FAMILY(phi3, Phi3ForCausalLM, .own = &own);
