/* models/block.c -- the standard block: x + attention(norm(x)), then x + mlp(norm(x)). */
#include "models/block.h"

weft_module *weft__norm_new(const weft__decoder_config *c, int64_t E)
{
    weft_module *m = weft_nn_rms_norm_new(E, c->rms_norm_eps);
    if (m == NULL || c->rms_norm_offset == 0)
        return m;
    weft_nn_rms_norm *norm = (weft_nn_rms_norm *)m;
    norm->offset = c->rms_norm_offset;
    if (weft_set(&norm->weight, weft_full(WEFT_DIMS(E), 1 - norm->offset, WEFT_FLOAT32)) != WEFT_OK)
        m->failed = true;
    return weft_nn_finish_module(m);
}

typedef struct block {
    weft_module module;
    weft_module *self_attn, *mlp, *input_layernorm, *post_attention_layernorm;
    weft_module *pre_feedforward_layernorm;  /* with `sandwich`, else NULL */
    weft_module *post_feedforward_layernorm; /* with `sandwich` or `post_norm`, else NULL */
    double residual_scale;
} block;

static const weft_module_type block_type = {.name = "block"};

static weft_module *block_new(const weft__decoder_config *c, const weft__layer *layer)
{
    block *m = weft_nn_new(block, &block_type);
    if (m == NULL)
        return NULL;
    const int64_t E = c->hidden_size;
    m->residual_scale = c->residual_scale;
    if (!c->post_norm)
        weft_nn_child(m, input_layernorm, weft__norm_new(c, E));
    weft_nn_child(m, self_attn, weft__attention_new(c, layer, false));
    weft_nn_child(m, post_attention_layernorm, weft__norm_new(c, E));
    if (c->sandwich)
        weft_nn_child(m, pre_feedforward_layernorm, weft__norm_new(c, E));
    weft_nn_child(m, mlp,
                  layer->sparse ? weft__moe_new(c, layer)
                                : weft__mlp_new(c, layer->intermediate_size));
    if (c->sandwich || c->post_norm)
        weft_nn_child(m, post_feedforward_layernorm, weft__norm_new(c, E));
    return weft_nn_finish(m);
}

/* x, normalized if there is a norm. */
static weft_array *normalized(weft_module *norm, weft_array *x)
{
    return norm ? weft_nn_call(norm, x) : x;
}

/* x + y, where y is normalized or scaled first if the family does that. */
static weft_array *joined(const block *m, weft_array *x, weft_array *y, weft_module *norm)
{
    y = normalized(norm, y);
    return weft_add(x, m->residual_scale != 0 ? weft_scale(y, m->residual_scale) : y);
}

static weft_array *block_forward(weft_module *self, weft_array *x, const weft__step *step,
                                 weft_cache *cache)
{
    block *m = (block *)self;
    weft_nn_enter(m);
    const bool followed = m->post_feedforward_layernorm != NULL;
    weft_array *y = normalized(m->input_layernorm, x); /* (B, L, E) */
    y = weft__attention_forward(m->self_attn, y, step, cache);
    x = joined(m, x, y, followed ? m->post_attention_layernorm : NULL);
    y = normalized(followed ? m->pre_feedforward_layernorm : m->post_attention_layernorm, x);
    y = weft_nn_call(m->mlp, y);
    x = joined(m, x, y, m->post_feedforward_layernorm);
    return weft_nn_leave(m, x);
}

const weft__architecture weft__usual_architecture = {.block = block_new, .forward = block_forward};
