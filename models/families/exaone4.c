/* models/families/exaone4.c -- EXAONE 4 (LG AI Research 2025): norms after each branch and of each
 * head; if layers have a window, those without one are not rotated. */
#include "models/config.h"
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(102400, 4096, 16384, 32, 32, 32, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_eps, 1e-5),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 4096),
};

static const weft__tensor_name names[] = {
    {"post_attention_norm", "post_attention_layernorm", NULL},
    {"post_ffw_norm", "post_feedforward_layernorm", NULL},
    {NULL, NULL, NULL},
};

/* Null is no window, and not the default. With layer_types the pattern, which may also be a text
 * such as LLLG, says nothing more. */
static weft_status finish(const weft_config *config, weft__decoder_config *c)
{
    if (weft__config_mentions(config, "sliding_window") &&
        !weft_config_has(config, "sliding_window"))
        c->sliding_window = 0;
    c->sliding_window_pattern = 4;
    if (!weft_config_has(config, "layer_types") && c->sliding_window > 0)
        c->sliding_window_pattern = weft_config_int(config, "sliding_window_pattern", 4);
    return WEFT_OK;
}

static void read(weft__gguf_reader *r)
{
    weft__gguf_add_full_layers(r);
    if (weft__gguf_integer(r, "attention.sliding_window", 0) == 0)
        weft__text_format(&r->out, ",\"sliding_window\":null");
}

/* Files without a window rotate all layers. */
static weft_status write(weft__gguf_facts *f)
{
    return f->decoder.config->sliding_window > 0 && f->windowed == NULL
               ? weft__gguf_refuse(f, "layers without a window and without rotation")
               : WEFT_OK;
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults =
        &(const weft__decoder_config){
            .theta = 10000, .post_norm = true, .qk_norm = true, .rotates_windows_only = true},
    .finish = finish,
    .windows = WEFT__WINDOW_PATTERN,
    .names = names,
    .gguf =
        &(const weft__gguf_arch){.name = "exaone4", .divisors = true, .read = read, .write = write},
};

WEFT__FAMILY(exaone4, Exaone4ForCausalLM, .own = &own);
