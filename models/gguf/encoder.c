/* models/gguf/encoder.c -- encoders and embedders in GGUF files: their sizes, in the form that
 * decoders have, their activation, and the pooling of their texts. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "models/gguf/arch.h"
#include "models/gguf/gguf.h"
#include "weft/layers.h"
#include "weft/ops.h"
#include "weft/quantize.h"

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

/* ---- pooling, and the linears after it ------------------------------------------------------- */

/* pooling_type in files. */
static const int numbers[] = {
    [WEFT_POOLING_MEAN] = 1, [WEFT_POOLING_CLS] = 2, [WEFT_POOLING_LAST] = 3};
enum { N_NUMBERS = sizeof numbers / sizeof *numbers };

static const char *const linears[] = {"dense_2", "dense_3"};
enum { N_LINEARS = sizeof linears / sizeof *linears };

bool weft__gguf_is_linear(const char *tensor)
{
    return strcmp(tensor, "dense_2.weight") == 0 || strcmp(tensor, "dense_3.weight") == 0;
}

static void put_size(weft__gguf_facts *f, int i, const char *which, int64_t size)
{
    char key[64];
    snprintf(key, sizeof key, "%s_feat_%s", linears[i], which);
    weft__gguf_put_integer(f, key, size);
}

/* Sets the weights of two linears without more between or in them. */
static weft_status put_linears(weft__gguf_facts *f, weft_module *dense)
{
    const weft_module *list = ((const weft_nn_sequential *)dense)->layers;
    const int n = list->n_children;
    bool plain = f->arch->linears && n == N_LINEARS;
    for (int i = 0; i < n; i++) {
        weft_module *m = *list->children[i].address;
        plain = plain && m->type == &weft_nn_linear_type && weft_nn_find(m, "bias") == NULL;
    }
    if (!plain)
        return weft__gguf_refuse(f, "linears after the pooling, other than two without biases and "
                                    "activations,");
    for (int i = 0; i < n; i++) {
        weft_array *weight = *weft_nn_find(*list->children[i].address, "weight");
        put_size(f, i, "in", weft_dim(weight, 1));
        put_size(f, i, "out", weft_dim(weight, 0));
        f->linears[i] = weft_keep(weight);
    }
    return WEFT_OK;
}

weft_status weft__gguf_put_pooling(weft__gguf_facts *f, const char *source)
{
    weft_embed_settings settings;
    if (weft_embed_settings_load(source, NULL, &settings) != WEFT_OK)
        return weft_error_status();
    weft_status status = WEFT_OK;
    const int pooling = (int)settings.pooling;
    if (settings.found && pooling >= N_NUMBERS)
        status = weft__gguf_refuse(f, "pooling by the largest elements");
    else if (settings.found)
        weft__gguf_put_integer(f, "pooling_type", numbers[pooling]);
    if (status == WEFT_OK && settings.dense)
        status = put_linears(f, settings.dense);
    weft_embed_settings_free(&settings);
    return status;
}

static bool read_pooling(const weft__gguf_reader *r, weft_pooling *out)
{
    const int64_t number = weft__gguf_integer(r, "pooling_type", 0);
    for (int i = 0; i < N_NUMBERS; i++) {
        *out = (weft_pooling)i;
        if (number > 0 && numbers[i] == number)
            return true;
    }
    *out = WEFT_POOLING_MEAN;
    return false;
}

static weft_status read_linear(const weft_gguf *file, int i, weft_module *dense)
{
    weft_array *weight = weft_astype(weft_decode(weft_gguf_get_at(file, i)), WEFT_FLOAT32);
    if (!weft_ok(weight) || weft_ndim(weight) != 2)
        return weft_fail(WEFT_INVALID, "%s: tensor '%s': expected a matrix", weft_gguf_path(file),
                         weft_printable(weft_gguf_at(file, i)->name));
    weft_module *m = weft_nn_linear_new(weft_dim(weight, 1), weft_dim(weight, 0), false);
    const weft_status status =
        m ? weft_set(weft_nn_find(m, "weight"), weight) : weft_error_status();
    if (status != WEFT_OK) {
        weft_nn_free(m);
        return status;
    }
    weft_nn_sequential_append(dense, m);
    return dense->failed ? weft_error_status() : WEFT_OK;
}

static weft_status read_settings(const weft__gguf_reader *r, weft_embed_settings *out)
{
    weft_status status = WEFT_OK;
    out->found = read_pooling(r, &out->pooling);
    out->normalize = out->found;
    for (int i = 0; i < N_LINEARS && status == WEFT_OK && out->found; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.weight", linears[i]);
        const int at = weft_gguf_find(r->file, name);
        if (at < 0)
            continue;
        if (out->dense == NULL && !(out->dense = weft_nn_sequential_new(N_LINEARS)))
            return weft_error_status();
        weft_scope_open();
        status = read_linear(r->file, at, out->dense);
        weft_scope_close(NULL);
    }
    return status;
}

weft_status weft__gguf_embed_settings(const char *path, weft_embed_settings *out)
{
    weft_gguf *file = NULL;
    weft__gguf_reader r;
    weft_status status = weft_gguf_open(path, &file);
    if (status == WEFT_OK)
        status = weft__gguf_reader_of(file, &r);
    if (status == WEFT_OK)
        status = read_settings(&r, out);
    weft_gguf_close(file);
    return status;
}
