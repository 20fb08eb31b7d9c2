/* models/block.c -- the standard block: x + attention(norm(x)), then x + mlp(norm(x)); or both of
 * one norm of x. Some layers have another mixer instead of attention. */
#include "models/block.h"
#include "nn/module.h"

weft_module *weft__norm_new(const weft__decoder_config *c, int64_t E)
{
    if (c->layer_norm_eps > 0)
        return weft_nn_layer_norm_new(E, c->layer_norm_eps, false);
    weft_module *m = weft_nn_rms_norm_new(E, c->rms_norm_eps);
    if (m == NULL || c->rms_norm_offset == 0)
        return m;
    weft_nn_rms_norm *norm = (weft_nn_rms_norm *)m;
    norm->offset = c->rms_norm_offset;
    if (weft_set(&norm->weight, weft_full(WEFT_DIMS(E), 1 - norm->offset, WEFT_FLOAT32)) != WEFT_OK)
        m->failed = true;
    return weft_nn_finish_module(m);
}

weft_array *weft__norm_weight(weft_module *norm)
{
    return *weft_nn_find(norm, "weight");
}

typedef struct block {
    weft_module module;
    weft_module *attention, *mlp;
    const weft__mixer *mixer;                                                 /* NULL: attention */
    weft_module *before_attention, *after_attention, *before_mlp, *after_mlp; /* norms, or NULL */
    double residual_scale;
    bool parallel;
} block;

static const weft_module_type block_type = {.name = "block"};

static void add_norm(block *m, const char *name, weft_module **at, const weft__decoder_config *c)
{
    weft_nn_add_child(&m->module, name, at, weft__norm_new(c, c->hidden_size));
}

weft_module *weft__block_new(const weft__decoder_config *c, const weft__layer *layer)
{
    block *m = weft_nn_new(block, &block_type);
    if (m == NULL)
        return NULL;
    const char *second = "post_attention_layernorm";
    const char *third = c->sandwich ? "pre_feedforward_layernorm" : second;
    m->mixer = layer->mixer;
    m->residual_scale = c->residual_scale;
    m->parallel = c->parallel;
    if (!c->post_norm)
        add_norm(m, "input_layernorm", &m->before_attention, c);
    weft_nn_add_child(&m->module, m->mixer ? m->mixer->name : "self_attn", &m->attention,
                      m->mixer ? m->mixer->create(c, layer) : weft__attention_new(c, layer, false));
    if (c->sandwich || c->post_norm)
        add_norm(m, second, &m->after_attention, c);
    if (!c->post_norm && !c->parallel)
        add_norm(m, third, &m->before_mlp, c);
    weft_nn_child(m, mlp,
                  layer->mlp      ? layer->mlp(c, layer)
                  : layer->sparse ? weft__moe_new(c, layer)
                                  : weft__mlp_new(c, layer->intermediate_size));
    if (c->sandwich || c->post_norm)
        add_norm(m, "post_feedforward_layernorm", &m->after_mlp, c);
    for (const weft__module_name *n = c->modules; n && n->path; n++)
        weft__nn_rename(&m->module, n->path, n->name);
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

weft_array *weft__block_forward(weft_module *self, weft_array *x, const weft__step *step,
                                weft_cache *cache)
{
    block *m = (block *)self;
    weft_nn_enter(m);
    weft_array *y = normalized(m->before_attention, x); /* (B, L, E) */
    weft_array *mixed = m->mixer ? m->mixer->forward(m->attention, y, step, cache)
                                 : weft__attention_forward(m->attention, y, step, cache);
    x = joined(m, x, mixed, m->after_attention);
    y = m->parallel ? y : normalized(m->before_mlp, x);
    x = joined(m, x, weft__mlp_call(m->mlp, y, step->summary), m->after_mlp);
    return weft_nn_leave(m, x);
}

const weft__architecture weft__usual_architecture = {.block = weft__block_new,
                                                     .forward = weft__block_forward};
