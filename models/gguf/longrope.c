/* models/gguf/longrope.c -- longrope in GGUF files: two tensors of divisors, and the amplitude. */
#include "models/gguf/arch.h"
#include "weft/ops.h"

static const char short_factors[] = "rope_factors_short.weight",
                  long_factors[] = "rope_factors_long.weight";

weft_status weft__gguf_read_longrope(weft__gguf_reader *r)
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

weft_status weft__gguf_write_longrope(weft__gguf_facts *f, const weft_rope_options *o)
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
