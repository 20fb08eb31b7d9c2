/* models/block.c -- one block: x + attention(norm(x)), then x + mlp(norm(x)). */
#include "models/block.h"

#include <string.h>

/* ---- attention ------------------------------------------------------------------------------ */

typedef struct attention {
    weft_module module;
    weft_module *q_proj, *k_proj, *v_proj, *o_proj;
    weft_module *q_norm, *k_norm; /* NULL: none */
    int64_t n_heads, n_kv_heads, head_dim, window;
} attention;

static const weft_module_type attention_type = {.name = "attention"};

static weft_module *attention_new(const weft__decoder_config *c, int64_t window)
{
    attention *m = weft_nn_new(attention, &attention_type);
    if (m == NULL)
        return NULL;
    const int64_t E = c->hidden_size, D = c->head_dim;
    const int64_t H = c->num_attention_heads, Hk = c->num_key_value_heads;
    m->n_heads = H;
    m->n_kv_heads = Hk;
    m->head_dim = D;
    m->window = window;
    weft_nn_child(m, q_proj, weft_nn_linear_new(E, H * D, c->attention_bias));
    weft_nn_child(m, k_proj, weft_nn_linear_new(E, Hk * D, c->attention_bias));
    weft_nn_child(m, v_proj, weft_nn_linear_new(E, Hk * D, c->attention_bias));
    weft_nn_child(m, o_proj, weft_nn_linear_new(H * D, E, c->output_bias));
    if (c->qk_norm) {
        weft_nn_child(m, q_norm, weft_nn_rms_norm_new(D, c->rms_norm_eps));
        weft_nn_child(m, k_norm, weft_nn_rms_norm_new(D, c->rms_norm_eps));
    }
    return weft_nn_finish(m);
}

/* x (B, L, E) through a projection -> (B, L, heads, D) */
static weft_array *heads(weft_module *projection, weft_array *x, int64_t n, int64_t D)
{
    weft_array *y = weft_nn_call(projection, x); /* (B, L, n D) */
    return weft_reshape(y, WEFT_DIMS(weft_dim(x, 0), weft_dim(x, 1), n, D));
}

static weft_array *attention_forward(attention *m, weft_array *x, const weft__step *s,
                                     weft_cache *cache)
{
    weft_nn_enter(m);
    const int64_t B = weft_dim(x, 0), L = weft_dim(x, 1), D = m->head_dim;
    weft_array *q = heads(m->q_proj, x, m->n_heads, D);    /* (B, L, H, D) */
    weft_array *k = heads(m->k_proj, x, m->n_kv_heads, D); /* (B, L, Hk, D) */
    weft_array *v = heads(m->v_proj, x, m->n_kv_heads, D); /* (B, L, Hk, D) */
    if (m->q_norm) {
        q = weft_nn_call(m->q_norm, q);
        k = weft_nn_call(m->k_norm, k);
    }
    q = weft_rope(q, s->positions, s->frequencies, false, s->amplitude);
    k = weft_rope(k, s->positions, s->frequencies, false, s->amplitude);
    if (cache)
        weft_cache_update(cache, k, v, &k, &v); /* (B, S, Hk, D) */
    const weft_attention_options o = {.causal = true, .window = m->window, .mask = s->mask};
    weft_array *y = weft_attention(q, k, v, &o); /* (B, L, H, D) */
    y = weft_reshape(y, WEFT_DIMS(B, L, m->n_heads * D));
    return weft_nn_leave(m, weft_nn_call(m->o_proj, y));
}

/* ---- the gated MLP -------------------------------------------------------------------------- */

typedef weft_array *gate_function(weft_array *gate, weft_array *up);

static const struct {
    const char *name;
    gate_function *gate;
} activations[] = {
    {"silu", weft_swiglu},
    {"swish", weft_swiglu},
    {"gelu_pytorch_tanh", weft_geglu},
    {"gelu_new", weft_geglu},
};

const char weft__activation_names[] = "silu, swish, gelu_pytorch_tanh, gelu_new";

static gate_function *find_gate(const char *name)
{
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        if (strcmp(activations[i].name, name) == 0)
            return activations[i].gate;
    }
    return NULL;
}

bool weft__activation_known(const char *name)
{
    return find_gate(name) != NULL;
}

typedef struct mlp {
    weft_module module;
    weft_module *gate_proj, *up_proj, *down_proj;
    gate_function *gate;
} mlp;

/* x (B, L, E) -> (B, L, E) */
static weft_array *mlp_forward(weft_module *self, weft_array *x)
{
    mlp *m = (mlp *)self;
    weft_array *y = m->gate(weft_nn_call(m->gate_proj, x), weft_nn_call(m->up_proj, x));
    return weft_nn_call(m->down_proj, y); /* y (B, L, F) */
}

static const weft_module_type mlp_type = {.name = "mlp", .forward = mlp_forward};

static weft_module *mlp_new(const weft__decoder_config *c)
{
    mlp *m = weft_nn_new(mlp, &mlp_type);
    if (m == NULL)
        return NULL;
    const int64_t E = c->hidden_size, F = c->intermediate_size;
    m->gate = find_gate(c->hidden_act);
    weft_nn_child(m, gate_proj, weft_nn_linear_new(E, F, c->mlp_bias));
    weft_nn_child(m, up_proj, weft_nn_linear_new(E, F, c->mlp_bias));
    weft_nn_child(m, down_proj, weft_nn_linear_new(F, E, c->mlp_bias));
    return weft_nn_finish(m);
}

/* ---- the block ------------------------------------------------------------------------------ */

typedef struct block {
    weft_module module;
    weft_module *self_attn, *mlp, *input_layernorm, *post_attention_layernorm;
} block;

static const weft_module_type block_type = {.name = "block"};

weft_module *weft__block_new(const weft__decoder_config *c, int64_t window)
{
    block *m = weft_nn_new(block, &block_type);
    if (m == NULL)
        return NULL;
    const int64_t E = c->hidden_size;
    weft_nn_child(m, input_layernorm, weft_nn_rms_norm_new(E, c->rms_norm_eps));
    weft_nn_child(m, self_attn, attention_new(c, window));
    weft_nn_child(m, post_attention_layernorm, weft_nn_rms_norm_new(E, c->rms_norm_eps));
    weft_nn_child(m, mlp, mlp_new(c));
    return weft_nn_finish(m);
}

weft_array *weft__block_forward(weft_module *self, weft_array *x, const weft__step *step,
                                weft_cache *cache)
{
    block *m = (block *)self;
    weft_nn_enter(m);
    weft_array *h = weft_nn_call(m->input_layernorm, x); /* (B, L, E) */
    x = weft_add(x, attention_forward((attention *)m->self_attn, h, step, cache));
    h = weft_nn_call(m->post_attention_layernorm, x);
    x = weft_add(x, weft_nn_call(m->mlp, h));
    return weft_nn_leave(m, x);
}

weft_device *weft__block_device(const weft_module *self)
{
    return weft_device_of(((weft_nn_rms_norm *)((const block *)self)->input_layernorm)->weight);
}
