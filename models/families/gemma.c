/* models/families/gemma.c -- shared by Gemma 2, 3 and 4: scales, names, GGUF metadata. */
#include "models/families/gemma.h"

#include <math.h>

void weft__gemma_null_is_none(const weft_config *config, const char *key, double *value)
{
    if (weft__config_mentions(config, key) && !weft_config_has(config, key))
        *value = 0;
}

/* The default of query_pre_attn_scalar is only for absent keys: null or 0 is an error. */
weft_status weft__gemma_finish(const weft_config *config, weft__decoder_config *c)
{
    const char *key = "query_pre_attn_scalar", *where = weft_config_where(config);
    if (weft__config_mentions(config, key) && !weft_config_has(config, key))
        return weft_fail(WEFT_INVALID, "%s: %s: expected a positive number, got null", where, key);
    if (!(c->query_pre_attn_scalar > 0) || !isfinite(c->query_pre_attn_scalar))
        return weft_fail(WEFT_INVALID, "%s: %s: expected a positive number, got %g", where, key,
                         c->query_pre_attn_scalar);
    c->embedding_scale = sqrt((double)c->hidden_size);
    c->attention_scale = 1 / sqrt(c->query_pre_attn_scalar);
    return WEFT_OK;
}

const weft__tensor_name weft__gemma_names[] = {WEFT__GEMMA_NAMES, {NULL, NULL, NULL}};

void weft__gemma_read_cap(weft__gguf_reader *r, const char *key, double otherwise)
{
    const double cap = weft__gguf_number(r, key, otherwise);
    if (cap > 0)
        weft__gguf_add_number(&r->out, key, cap);
    else
        weft__text_format(&r->out, ",\"%s\":null", key);
}

/* Scores are divided by the square root of the scalar: the size of a head or, in the largest
 * models, the layer's width per head. */
void weft__gemma_read(weft__gguf_reader *r)
{
    const double scale = weft__gguf_number(r, "attention.scale", 0);
    double scalar = (double)weft__gguf_head_dim(r);
    if (weft__gguf_integer(r, "block_count", 0) == r->arch->wide_layers)
        scalar = weft__gguf_number(r, "embedding_length", 0) /
                 weft__gguf_number(r, "attention.head_count", 1);
    if (scale > 0)
        scalar = rint(1 / (scale * scale) * 16) / 16;
    if (scalar == rint(scalar)) /* transformers expects an integer */
        weft__gguf_add_integer(r, "query_pre_attn_scalar", (int64_t)scalar);
    else
        weft__gguf_add_number(&r->out, "query_pre_attn_scalar", scalar);
    weft__text_format(&r->out, ",\"hidden_activation\":\"gelu_pytorch_tanh\"");
    if (r->arch->two_rotations)
        weft__gguf_add_number(&r->out, "rope_local_base_freq",
                              weft__gguf_number(r, "rope.freq_base_swa", 10000));
    weft__gemma_read_cap(r, "attn_logit_softcapping", 0);
    weft__gemma_read_cap(r, "final_logit_softcapping", 0);
}

weft_status weft__gemma_write(weft__gguf_facts *f)
{
    const weft__decoder_config *c = f->decoder.config;
    if (c->attn_logit_softcapping > 0)
        weft__gguf_put_number(f, "attn_logit_softcapping", c->attn_logit_softcapping);
    /* 0 is written too, since readers have another default. */
    weft__gguf_put_number(f, "final_logit_softcapping", c->final_logit_softcapping);
    return WEFT_OK;
}
