/* models/attention.c -- rotary grouped-query attention with a KV cache. */
#include <string.h>

#include "models/block.h"

typedef struct attention {
    weft_module module;
    weft_module *q_proj, *k_proj, *v_proj, *o_proj; /* k_proj, v_proj NULL: uses another layer's */
    weft_module *qkv_proj;                          /* in place of these three; NULL: none */
    weft_module *q_norm, *k_norm;                   /* NULL: none */
    weft_module *g_proj;                            /* NULL: none */
    weft_array *sinks;                              /* (H), or NULL */
    weft__layer layer;
    int64_t n_heads;
    double scale, softcap, eps;
    bool value_norm, output_gate, whole_norm, late_norm, interleaved, bidirectional;
} attention;

static const weft_module_type attention_type = {.name = "attention"};

static bool borrows(const attention *m)
{
    return m->layer.source != m->layer.index;
}

weft_module *weft__attention_new(const weft__decoder_config *c, const weft__layer *layer,
                                 bool value_norm)
{
    attention *m = weft_nn_new(attention, &attention_type);
    if (m == NULL)
        return NULL;
    const int64_t E = c->hidden_size, H = c->num_attention_heads;
    const int64_t D = layer->head_dim, Hk = layer->n_kv_heads;
    m->layer = *layer;
    m->n_heads = H;
    m->scale = c->attention_scale;
    m->softcap = c->attn_logit_softcapping;
    m->eps = c->rms_norm_eps;
    m->value_norm = value_norm;
    m->output_gate = c->output_gate;
    m->whole_norm = c->whole_qk_norm;
    m->late_norm = c->late_qk_norm;
    m->interleaved = c->interleaved;
    m->bidirectional = c->bidirectional;
    const int64_t parts = c->output_gate ? 2 : 1;
    if (c->fused_qkv)
        weft_nn_child(m, qkv_proj, weft_nn_linear_new(E, (H + 2 * Hk) * D, c->attention_bias));
    else
        weft_nn_child(m, q_proj, weft_nn_linear_new(E, parts * H * D, c->attention_bias));
    if (!borrows(m) && !c->fused_qkv)
        weft_nn_child(m, k_proj, weft_nn_linear_new(E, Hk * D, c->attention_bias));
    if (!borrows(m) && !layer->keys_are_values && !c->fused_qkv)
        weft_nn_child(m, v_proj, weft_nn_linear_new(E, Hk * D, c->attention_bias));
    weft_nn_child(m, o_proj, weft_nn_linear_new(H * D, E, c->output_bias));
    if (c->sinks)
        weft_nn_param(m, sinks, weft_zeros(WEFT_DIMS(H), WEFT_FLOAT32));
    if (c->qk_norm || c->late_qk_norm)
        weft_nn_child(m, q_norm, weft__norm_new(c, c->whole_qk_norm ? H * D : D));
    if ((c->qk_norm || c->late_qk_norm) && !borrows(m))
        weft_nn_child(m, k_norm, weft__norm_new(c, c->whole_qk_norm ? Hk * D : D));
    if (c->head_gate)
        weft_nn_child(m, g_proj, weft_nn_linear_new(E, H, false));
    return weft_nn_finish(m);
}

/* x (B, L, E) through a projection -> (B, L, heads, D) */
static weft_array *heads(weft_module *projection, weft_array *x, int64_t n, int64_t D)
{
    weft_array *y = weft_nn_call(projection, x); /* (B, L, n D) */
    return weft_reshape(y, WEFT_DIMS(weft_dim(x, 0), weft_dim(x, 1), n, D));
}

/* With an output gate, each head's gate follows its q. */
static weft_array *queries(attention *m, weft_array *x, weft_array **gate)
{
    const int64_t D = m->layer.head_dim;
    if (!m->output_gate)
        return heads(m->q_proj, x, m->n_heads, D);
    weft_array *both = heads(m->q_proj, x, m->n_heads, 2 * D);
    *gate = weft_slice_axis(both, 3, D, 2 * D);
    return weft_slice_axis(both, 3, 0, D);
}

/* Normalizes each head of x (B, L, heads, D), or all together. */
static weft_array *normalized(const attention *m, weft_module *norm, weft_array *x)
{
    return norm == NULL    ? x
           : m->whole_norm ? weft_reshape(weft_nn_call(norm, weft_flatten(x, 2, 3)), weft_shape(x))
                           : weft_nn_call(norm, x);
}

weft_array *weft__rotated(weft_array *x, const weft__step *s, bool windowed, bool interleaved)
{
    const weft__rotation *r = &s->rotations[windowed];
    weft_array *y = weft_rope(x, s->positions, r->frequencies, interleaved, r->amplitude);
    if (r->longer)
        y = weft_where(r->is_longer,
                       weft_rope(x, s->positions, r->longer, interleaved, r->amplitude), y);
    return y;
}

/* The same unless the layer has no positions. `norm` is applied here if that comes later. */
static weft_array *rotated(const attention *m, weft_module *norm, weft_array *x,
                           const weft__step *s)
{
    weft_array *y = x;
    if (!m->layer.unrotated)
        y = weft__rotated(x, s, m->layer.window > 0, m->interleaved);
    return m->late_norm ? normalized(m, norm, y) : y;
}

/* Queries, keys and values of the tokens before the rotation. All are projected first, so that a
 * device can compute them concurrently. */
typedef struct projections {
    weft_array *q, *gate; /* (B, L, H, D); gate NULL: none */
    weft_array *k, *v;    /* (B, L, Hk, D); NULL: another layer's */
} projections;

/* Rows from..to of a fused matrix's product (B, L, rows) -> (B, L, heads, D) */
static weft_array *sliced(weft_array *y, int64_t from, int64_t to, int64_t D)
{
    const weft_dims shape = WEFT_DIMS(weft_dim(y, 0), weft_dim(y, 1), to - from, D);
    return weft_reshape(weft_slice_axis(y, 2, from * D, to * D), shape);
}

static projections project(attention *m, weft_array *x)
{
    const int64_t H = m->n_heads, Hk = m->layer.n_kv_heads, D = m->layer.head_dim;
    projections p = {0};
    if (m->qkv_proj) {
        weft_array *all = weft_nn_call(m->qkv_proj, x); /* (B, L, (H + 2 Hk) D) */
        p.q = sliced(all, 0, H, D);
        p.k = sliced(all, H, H + Hk, D);
        p.v = sliced(all, H + Hk, H + 2 * Hk, D);
    } else {
        p.q = queries(m, x, &p.gate);
    }
    if (!borrows(m) && !m->qkv_proj) {
        p.k = heads(m->k_proj, x, Hk, D);
        p.v = m->v_proj ? heads(m->v_proj, x, Hk, D) : p.k;
    }
    if (!m->late_norm) {
        p.q = normalized(m, m->q_norm, p.q);
        p.k = normalized(m, m->k_norm, p.k);
    }
    if (m->value_norm && p.v)
        p.v = weft_rms_norm(p.v, NULL, m->eps, 0);
    return p;
}

/* The rows of x (R, C, heads, D) at flat indices (B, L) into its tokens: (B, L, heads, D). NULL: x
 * is returned unchanged. */
static weft_array *moved(weft_array *x, weft_array *indices)
{
    if (indices == NULL)
        return x;
    const weft_dims from = weft_shape(x), to = weft_shape(indices);
    x = weft_reshape(x, WEFT_DIMS(from.at[0] * from.at[1], from.at[2] * from.at[3]));
    return weft_reshape(weft_take(x, indices, 0),
                        WEFT_DIMS(to.at[0], to.at[1], from.at[2], from.at[3]));
}

/* Keys and values of all tokens so far. */
static weft_cache_view own_keys_values(const attention *m, const projections *p,
                                       const weft__step *s, weft_cache *cache)
{
    weft_array *k = moved(rotated(m, m->k_norm, p->k, s), s->unpack), *v = moved(p->v, s->unpack);
    if (cache && s->offset)
        return weft_cache_append(cache, k, v, s->offset);
    return cache ? weft_cache_update(cache, k, v) : (weft_cache_view){.keys = k, .values = v};
}

static weft_array *to_device(weft_array *x, weft_device *device)
{
    return x ? weft_to(x, device) : NULL;
}

static weft_kv_codes codes_to(const weft_kv_codes *codes, weft_device *device)
{
    return (weft_kv_codes){to_device(codes->codes, device), to_device(codes->steps, device),
                           to_device(codes->least, device)};
}

/* Those of the source layer, which may be on another device. */
static weft_cache_view borrowed_keys_values(const attention *m, const weft__step *s)
{
    const weft_cache_view *of = &s->kept[m->layer.source];
    weft_device *here = weft_default_device();
    if (of->keys == NULL) { /* the source has failed, and so does this layer */
        weft_array *error =
            weft_error_array("attention: layer %lld has no keys", (long long)m->layer.source);
        return (weft_cache_view){.keys = error, .values = error};
    }
    return (weft_cache_view){
        .keys = to_device(of->keys, here),
        .values = to_device(of->values, here),
        .key_codes = codes_to(&of->key_codes, here),
        .value_codes = codes_to(&of->value_codes, here),
        .lengths = to_device(of->lengths, here),
        .mask = to_device(of->mask, here),
        .positions = to_device(of->positions, here),
        .pages = to_device(of->pages, here),
        .window = of->window,
    };
}

enum { VIEW_ARRAYS = 12 };

static void arrays_of(weft_cache_view *view, weft_array **out[VIEW_ARRAYS])
{
    weft_kv_codes *k = &view->key_codes, *v = &view->value_codes;
    weft_array **all[VIEW_ARRAYS] = {&view->keys,      &view->values, &view->lengths, &view->mask,
                                     &view->positions, &k->codes,     &k->steps,      &k->least,
                                     &v->codes,        &v->steps,     &v->least,      &view->pages};
    memcpy(out, all, sizeof all);
}

/* Stores them for later layers. Failed arrays are refused and leave the slot empty; the layer that
 * reads it reports the failure, which this layer's result has too. */
static void keep(weft_cache_view *slot, const weft_cache_view *view)
{
    weft_array **to[VIEW_ARRAYS], **from[VIEW_ARRAYS];
    weft_cache_view copy = *view;
    arrays_of(slot, to);
    arrays_of(&copy, from);
    for (int i = 0; i < VIEW_ARRAYS; i++)
        (void)weft_set(to[i], *from[i]);
    slot->window = view->window;
}

void weft__view_drop(weft_cache_view *view)
{
    weft_array **all[VIEW_ARRAYS];
    arrays_of(view, all);
    for (int i = 0; i < VIEW_ARRAYS; i++)
        weft_drop(*all[i]);
}

/* Failed arrays leave the record empty; the forward pass reports the failure. */
void weft__attention_record_put(const weft__layer *layer, weft_array *q, weft_array *k,
                                const weft__step *s)
{
    weft_attention_record *record = &s->records[layer->index];
    record->source = layer->source;
    (void)weft_set(&record->queries, q);
    (void)weft_set(&record->keys, k);
}

weft_array *weft__identity_values(weft_array *keys)
{
    const int64_t B = weft_dim(keys, 0), S = weft_dim(keys, 1), Hk = weft_dim(keys, 2);
    weft_array *identity = weft_reshape(weft_eye(S, S, 0, WEFT_FLOAT32), WEFT_DIMS(1, S, 1, S));
    return weft_broadcast_to(weft_to(identity, weft_device_of(keys)), WEFT_DIMS(B, S, Hk, S));
}

weft_array *weft__attention_probe(const weft__layer *layer, weft_array *keys, const weft__step *s)
{
    return s->records && s->records[layer->index].with_weights && keys ? weft__identity_values(keys)
                                                                       : NULL;
}

void weft__attention_record_weights(const weft__layer *layer, weft_array *weights,
                                    const weft__step *s)
{
    (void)weft_set(&s->records[layer->index].weights, weights);
}

/* Attention of q (B, L, H, D) over the keys and values of the view. */
static weft_array *attended(const attention *m, weft_array *q, const weft_cache_view *view,
                            const weft__step *s)
{
    weft_attention_options o = {
        .scale = m->scale, .window = m->layer.window, .softcap = m->softcap, .sinks = m->sinks};
    if (m->bidirectional)
        return weft__encoder_attention(q, view->keys, view->values, o, &s->around);
    o.causal = true;
    o.mask = s->mask;
    o.first = s->first;
    return weft_cache_attention(q, view, &o);
}

static void record(const attention *m, weft_array *q, const weft_cache_view *view,
                   const weft__step *s)
{
    weft_cache_view probe = *view;
    weft__attention_record_put(&m->layer, q, view->keys, s);
    probe.values = weft__attention_probe(&m->layer, view->keys, s);
    if (probe.values)
        weft__attention_record_weights(&m->layer,
                                       attended(m, weft_astype(q, WEFT_FLOAT32), &probe, s), s);
}

weft_array *weft__attention_forward(weft_module *self, weft_array *x, const weft__step *s,
                                    weft_cache *cache)
{
    attention *m = (attention *)self;
    weft_nn_enter(m);
    const int64_t B = weft_dim(x, 0), L = weft_dim(x, 1), D = m->layer.head_dim;
    const projections p = project(m, x);
    weft_array *q = rotated(m, m->q_norm, p.q, s); /* (B, L, H, D) */
    if (s->query_scale)
        q = weft_multiply(q, weft_astype(s->query_scale, weft_dtype_of(q)));
    const weft_cache_view view =
        borrows(m) ? borrowed_keys_values(m, s) : own_keys_values(m, &p, s, cache);
    if (m->layer.is_source)
        keep(&s->kept[m->layer.index], &view);
    if (s->records)
        record(m, q, &view, s);
    weft_array *y = moved(attended(m, moved(q, s->unpack), &view, s), s->pack); /* (B, L, H, D) */
    if (p.gate)
        y = weft_multiply(y, weft_sigmoid(p.gate));
    if (m->g_proj) /* (B, L, H) */
        y = weft_multiply(y, weft_expand_dims(weft_sigmoid(weft_nn_call(m->g_proj, x)), 3));
    y = weft_reshape(y, WEFT_DIMS(B, L, m->n_heads * D));
    return weft_nn_leave(m, weft_nn_call(m->o_proj, y));
}
