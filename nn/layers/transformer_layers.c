/* nn/layers/transformer_layers.c -- one encoder layer, and one decoder layer. */
#include "nn/module.h"
#include "weft/layers.h"

/* The options with defaults, including those that depend on dims. */
static weft_nn_transformer_options filled(const weft_nn_transformer_options *options, int64_t dims)
{
    weft_nn_transformer_options o = options ? *options : (weft_nn_transformer_options){0};
    o.mlp_dims = o.mlp_dims ? o.mlp_dims : 4 * dims;
    o.activation = o.activation ? o.activation : weft_relu;
    return o;
}

typedef weft_array *sublayer_function(void *context, weft_array *x);

/* x + sub(norm(x)), or norm(x + sub(x)) with norm_last. */
static weft_array *residual(weft_module *norm, bool norm_last, sublayer_function *sub,
                            void *context, weft_array *x)
{
    if (norm_last)
        return weft_nn_call(norm, weft_add(x, sub(context, x)));
    return weft_add(x, sub(context, weft_nn_call(norm, x)));
}

/* Inputs of a sublayer; NULL if it does not use them. */
typedef struct sublayer {
    weft_module *attention, *linear1, *linear2, *dropout;
    weft_activation *activation;
    weft_array *memory, *mask; /* memory NULL: uses x */
} sublayer;

static weft_array *attend(void *context, weft_array *x)
{
    const sublayer *s = context;
    weft_array *memory = s->memory ? s->memory : x;
    weft_array *y = weft_nn_multi_head_attention_call(s->attention, x, memory, memory, s->mask);
    return weft_nn_call(s->dropout, y);
}

static weft_array *feed_forward(void *context, weft_array *x)
{
    const sublayer *s = context;
    weft_array *y = s->activation(weft_nn_call(s->linear1, x));
    return weft_nn_call(s->linear2, weft_nn_call(s->dropout, y));
}

/* ---- encoder -------------------------------------------------------------------------------- */

static weft_array *encode(weft_nn_encoder_layer *m, weft_array *x, weft_array *mask)
{
    sublayer attention = {.attention = m->attention, .dropout = m->dropout1, .mask = mask};
    sublayer mlp = {.linear1 = m->linear1,
                    .linear2 = m->linear2,
                    .dropout = m->dropout2,
                    .activation = m->activation};
    x = residual(m->ln1, m->norm_last, attend, &attention, x);
    return residual(m->ln2, m->norm_last, feed_forward, &mlp, x);
}

static weft_array *encoder_forward(weft_module *self, weft_array *x)
{
    return encode((weft_nn_encoder_layer *)self, x, NULL);
}

static const weft_module_type encoder_layer_type = {
    .name = "encoder_layer",
    .forward = encoder_forward,
};

weft_module *weft_nn_encoder_layer_new(int64_t dims, int64_t heads,
                                       const weft_nn_transformer_options *options)
{
    const weft_nn_transformer_options o = filled(options, dims);
    weft_nn_encoder_layer *m = weft_nn_new(weft_nn_encoder_layer, &encoder_layer_type);
    if (m == NULL)
        return NULL;
    m->activation = o.activation;
    m->norm_last = o.norm_last;
    weft_nn_child(m, attention, weft_nn_multi_head_attention_new(dims, heads, NULL));
    weft_nn_child(m, ln1, weft_nn_layer_norm_new(dims, 1e-5, true));
    weft_nn_child(m, ln2, weft_nn_layer_norm_new(dims, 1e-5, true));
    weft_nn_child(m, linear1, weft_nn_linear_new(dims, o.mlp_dims, true));
    weft_nn_child(m, linear2, weft_nn_linear_new(o.mlp_dims, dims, true));
    weft_nn_child(m, dropout1, weft_nn_dropout_new(o.dropout));
    weft_nn_child(m, dropout2, weft_nn_dropout_new(o.dropout));
    return weft_nn_finish(m);
}

weft_array *weft_nn_encoder_layer_call(weft_module *module, weft_array *x, weft_array *mask)
{
    weft_nn_encoder_layer *m = (weft_nn_encoder_layer *)module;
    weft_nn_enter(m);
    return weft_nn_leave(m, encode(m, x, mask));
}

/* ---- decoder -------------------------------------------------------------------------------- */

static const weft_module_type decoder_layer_type = {.name = "decoder_layer"};

weft_module *weft_nn_decoder_layer_new(int64_t dims, int64_t heads,
                                       const weft_nn_transformer_options *options)
{
    const weft_nn_transformer_options o = filled(options, dims);
    weft_nn_decoder_layer *m = weft_nn_new(weft_nn_decoder_layer, &decoder_layer_type);
    if (m == NULL)
        return NULL;
    m->activation = o.activation;
    m->norm_last = o.norm_last;
    weft_nn_child(m, self_attention, weft_nn_multi_head_attention_new(dims, heads, NULL));
    weft_nn_child(m, cross_attention, weft_nn_multi_head_attention_new(dims, heads, NULL));
    weft_nn_child(m, ln1, weft_nn_layer_norm_new(dims, 1e-5, true));
    weft_nn_child(m, ln2, weft_nn_layer_norm_new(dims, 1e-5, true));
    weft_nn_child(m, ln3, weft_nn_layer_norm_new(dims, 1e-5, true));
    weft_nn_child(m, linear1, weft_nn_linear_new(dims, o.mlp_dims, true));
    weft_nn_child(m, linear2, weft_nn_linear_new(o.mlp_dims, dims, true));
    weft_nn_child(m, dropout1, weft_nn_dropout_new(o.dropout));
    weft_nn_child(m, dropout2, weft_nn_dropout_new(o.dropout));
    weft_nn_child(m, dropout3, weft_nn_dropout_new(o.dropout));
    return weft_nn_finish(m);
}

weft_array *weft_nn_decoder_layer_call(weft_module *module, weft_array *x, weft_array *memory,
                                       weft_array *mask, weft_array *memory_mask)
{
    weft_nn_decoder_layer *m = (weft_nn_decoder_layer *)module;
    weft_nn_enter(m);
    sublayer itself = {.attention = m->self_attention, .dropout = m->dropout1, .mask = mask};
    sublayer across = {.attention = m->cross_attention,
                       .dropout = m->dropout2,
                       .memory = memory,
                       .mask = memory_mask};
    sublayer mlp = {.linear1 = m->linear1,
                    .linear2 = m->linear2,
                    .dropout = m->dropout3,
                    .activation = m->activation};
    x = residual(m->ln1, m->norm_last, attend, &itself, x);
    x = residual(m->ln2, m->norm_last, attend, &across, x);
    x = residual(m->ln3, m->norm_last, feed_forward, &mlp, x);
    return weft_nn_leave(m, x);
}
