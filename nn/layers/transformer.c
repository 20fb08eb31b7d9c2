/* nn/layers/transformer.c -- transformer encoders and decoders, and their combination. */
#include "nn/module.h"
#include "weft/layers.h"
#include "weft/transforms.h"

/* One layer of a stack, as a function for weft_checkpoint. */
typedef struct layer_call {
    weft_module *layer;
    weft_array *mask, *memory_mask;
    bool decoder;
} layer_call;

/* in: x and, for decoders, the memory. */
static int call_layer(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in, (void)room;
    const layer_call *c = context;
    out[0] = c->decoder
                 ? weft_nn_decoder_layer_call(c->layer, in[0], in[1], c->mask, c->memory_mask)
                 : weft_nn_encoder_layer_call(c->layer, in[0], c->mask);
    return 1;
}

static weft_array *through(weft_module *layers, layer_call c, weft_array *x, weft_array *memory,
                           bool checkpoint)
{
    for (int i = 0; i < weft_nn_list_count(layers); i++) {
        weft_array *in[] = {x, memory};
        c.layer = weft_nn_list_at(layers, i);
        if (checkpoint)
            weft_checkpoint(call_layer, &c, in, c.decoder ? 2 : 1, &x, 1);
        else
            call_layer(&c, in, c.decoder ? 2 : 1, &x, 1);
    }
    return x;
}

/* ---- encoder -------------------------------------------------------------------------------- */

static weft_array *encode(weft_nn_encoder *m, weft_array *x, weft_array *mask)
{
    x = through(m->layers, (layer_call){.mask = mask}, x, NULL, m->checkpoint);
    return weft_nn_call(m->ln, x);
}

static weft_array *encoder_forward(weft_module *self, weft_array *x)
{
    return encode((weft_nn_encoder *)self, x, NULL);
}

static const weft_module_type encoder_type = {.name = "encoder", .forward = encoder_forward};

weft_module *weft_nn_encoder_new(int n, int64_t dims, int64_t heads,
                                 const weft_nn_transformer_options *options)
{
    weft_nn_encoder *m = weft_nn_new(weft_nn_encoder, &encoder_type);
    if (m == NULL)
        return NULL;
    m->checkpoint = options && options->checkpoint;
    weft_nn_child(m, layers, weft_nn_list_new(n));
    for (int i = 0; i < n && m->layers; i++)
        weft_nn_list_append(m->layers, weft_nn_encoder_layer_new(dims, heads, options));
    weft_nn_child(m, ln, weft_nn_layer_norm_new(dims, 1e-5, true));
    if (m->layers == NULL || m->layers->failed)
        m->module.failed = true;
    return weft_nn_finish(m);
}

weft_array *weft_nn_encoder_call(weft_module *module, weft_array *x, weft_array *mask)
{
    weft_nn_encoder *m = (weft_nn_encoder *)module;
    weft_nn_enter(m);
    return weft_nn_leave(m, encode(m, x, mask));
}

/* ---- decoder -------------------------------------------------------------------------------- */

static const weft_module_type decoder_type = {.name = "decoder"};

weft_module *weft_nn_decoder_new(int n, int64_t dims, int64_t heads,
                                 const weft_nn_transformer_options *options)
{
    weft_nn_decoder *m = weft_nn_new(weft_nn_decoder, &decoder_type);
    if (m == NULL)
        return NULL;
    m->checkpoint = options && options->checkpoint;
    weft_nn_child(m, layers, weft_nn_list_new(n));
    for (int i = 0; i < n && m->layers; i++)
        weft_nn_list_append(m->layers, weft_nn_decoder_layer_new(dims, heads, options));
    weft_nn_child(m, ln, weft_nn_layer_norm_new(dims, 1e-5, true));
    if (m->layers == NULL || m->layers->failed)
        m->module.failed = true;
    return weft_nn_finish(m);
}

weft_array *weft_nn_decoder_call(weft_module *module, weft_array *x, weft_array *memory,
                                 weft_array *mask, weft_array *memory_mask)
{
    weft_nn_decoder *m = (weft_nn_decoder *)module;
    const layer_call c = {.mask = mask, .memory_mask = memory_mask, .decoder = true};
    weft_nn_enter(m);
    x = through(m->layers, c, x, memory, m->checkpoint);
    return weft_nn_leave(m, weft_nn_call(m->ln, x));
}

/* ---- both ----------------------------------------------------------------------------------- */

static const weft_module_type transformer_type = {.name = "transformer"};

weft_module *weft_nn_transformer_new(int64_t dims, int64_t heads, int encoder_layers,
                                     int decoder_layers, const weft_nn_transformer_options *options)
{
    weft_nn_transformer *m = weft_nn_new(weft_nn_transformer, &transformer_type);
    if (m == NULL)
        return NULL;
    weft_nn_child(m, encoder, weft_nn_encoder_new(encoder_layers, dims, heads, options));
    weft_nn_child(m, decoder, weft_nn_decoder_new(decoder_layers, dims, heads, options));
    return weft_nn_finish(m);
}

weft_array *weft_nn_transformer_call(weft_module *module, weft_array *source, weft_array *target,
                                     weft_array *source_mask, weft_array *target_mask,
                                     weft_array *memory_mask)
{
    weft_nn_transformer *m = (weft_nn_transformer *)module;
    weft_nn_enter(m);
    weft_array *memory = weft_nn_encoder_call(m->encoder, source, source_mask);
    return weft_nn_leave(
        m, weft_nn_decoder_call(m->decoder, target, memory, target_mask, memory_mask));
}
