/* models/families/phi3.c -- Phi-3, Phi-3.5 and Phi-4 (Abdin et al. 2024): llama whose q, k and v
 * are rows of one matrix, as are the MLP's gate and up. */
#include "models/gguf/arch.h"
#include "weft/creation.h"

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

static const char short_factors[] = "rope_factors_short.weight",
                  long_factors[] = "rope_factors_long.weight";

static weft_status read_rope(weft__gguf_reader *r)
{
    const weft_status status = weft__gguf_add_rotation(r);
    weft__gguf_copy(r, "original_max_position_embeddings", "rope.scaling.original_context_length");
    if (status != WEFT_OK || !weft__gguf_has(r, long_factors))
        return status;
    weft__text_format(&r->out, ",\"rope_scaling\":{\"rope_type\":\"longrope\"");
    weft__gguf_copy(r, "attention_factor", "rope.scaling.attn_factor");
    weft__gguf_add_list(r, "short_factor", short_factors);
    weft__gguf_add_list(r, "long_factor", long_factors);
    weft__text_format(&r->out, "}");
    return WEFT_OK;
}

static weft_status write_scaling(weft__gguf_facts *f, const weft_rope_options *o)
{
    double amplitude;
    if (o->kind != WEFT_ROPE_LONGROPE)
        return weft__gguf_put_scaling(f, o);
    const int64_t half = (int64_t)((double)o->head_dim * (o->partial > 0 ? o->partial : 1)) / 2;
    const double *const lists[] = {o->long_factor, o->short_factor};
    for (int i = 0; i < 2; i++) {
        weft_array *factors = weft_from_data(lists[i], WEFT_FLOAT64, WEFT_DIMS(half));
        weft__gguf_put_divisors(f, i == 0 ? long_factors : short_factors,
                                weft_astype(factors, WEFT_FLOAT32));
    }
    (void)weft_rope_frequencies(o, &amplitude);
    weft__gguf_put_number(f, "rope.scaling.attn_factor", amplitude);
    weft__gguf_put_integer(f, "rope.scaling.original_context_length", o->original_max_position);
    return WEFT_OK;
}

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
                                              .fused_qkv = true,
                                              .fused_gate_up = true,
                                              .renews = true},
    .windows = WEFT__WINDOW_ALL,
    .names = names,
    .gguf = &(const weft__gguf_arch){.name = "phi3",
                                     .windows = WEFT__GGUF_ONE_WINDOW,
                                     .read_rope = read_rope,
                                     .write_scaling = write_scaling,
                                     .write = write},
};

WEFT__FAMILY(phi3, Phi3ForCausalLM, .own = &own);
