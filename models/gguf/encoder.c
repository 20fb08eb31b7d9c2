/* models/gguf/encoder.c -- encoders and embedders in GGUF files: their sizes, in the form that
 * decoders have, their activation, and the pooling of their texts. */
#include <string.h>

#include "core/failure.h"
#include "models/gguf/arch.h"
#include "models/pooling.h"

weft_status weft__gguf_encoder_sizes(weft__gguf_facts *f, const weft__decoder_config *c)
{
    const int64_t n = c->num_hidden_layers;
    f->own = weft_malloc(sizeof *f->own);
    f->layers = weft_calloc((size_t)n, sizeof *f->layers);
    if (f->own == NULL || f->layers == NULL)
        return weft__out_of_memory(f->where, "its metadata");
    *f->own = *c;
    f->own->num_key_value_heads = c->num_attention_heads;
    f->own->head_dim = c->hidden_size / c->num_attention_heads;
    for (int64_t i = 0; i < n; i++)
        f->layers[i] = (weft__layer){.index = i,
                                     .head_dim = f->own->head_dim,
                                     .n_kv_heads = f->own->num_key_value_heads,
                                     .intermediate_size = c->intermediate_size};
    f->decoder = (weft__decoder_facts){f->own, f->layers, {&f->ropes[0], &f->ropes[1]}};
    return WEFT_OK;
}

void weft__gguf_put_encoder(weft__gguf_facts *f)
{
    weft__gguf_put_bool(f, "attention.causal", false);
}

/* Readers compute the tanh form of gelu for both. */
void weft__gguf_read_activation(weft__gguf_reader *r, const char *key)
{
    weft_gguf_string name = {"gelu", 4};
    weft_gguf_value_string(weft__gguf_value(r, "hidden_act"), 0, &name);
    weft__text_format(&r->out, ",\"%s\":", key);
    weft__text_quote_bytes(&r->out, name.at, name.n);
}

weft_status weft__gguf_put_activation(weft__gguf_facts *f, const char *activation)
{
    static const char *const known[] = {"gelu", "gelu_new", "gelu_pytorch_tanh"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i], activation) != 0)
            continue;
        if (i > 0)
            weft__gguf_put_text(f, "hidden_act", known[i]);
        return WEFT_OK;
    }
    return weft__gguf_refuse(f, "an activation other than gelu");
}

weft_status weft__gguf_put_pooling(weft__gguf_facts *f, const char *source)
{
    bool found;
    weft_pooling pooling;
    const weft_status status = weft__pooling_of(source, &found, &pooling);
    if (status != WEFT_OK || !found)
        return status;
    if (weft__pooling_number(pooling) == 0)
        return weft__gguf_refuse(f, "pooling by the largest elements");
    weft__gguf_put_integer(f, "pooling_type", weft__pooling_number(pooling));
    return WEFT_OK;
}
