/* models/latent.c -- multi-head latent attention (DeepSeek-V2, 2024): the keys and values of all
 * heads are products of one normalized vector per token, the latent, beside a rotated part of the
 * keys that the heads share. Caches hold only these two.
 *
 * Prompts and training compute keys and values ("expand"). A few tokens after many earlier ones
 * multiply queries and results by kv_b_proj instead ("absorb"): then latents are keys and values of
 * one head.
 */
#include <math.h>

#include "models/block.h"
#include "models/config.h"
#include "nn/encoded.h"
#include "nn/lora.h"
#include "nn/module.h"

static const double NORM_EPS = 1e-6; /* of the inner norms, whatever rms_norm_eps is */

typedef struct latent {
    weft_module module;
    weft_module *q_proj; /* NULL: these three: */
    weft_module *q_a_proj, *q_a_layernorm, *q_b_proj;
    weft_module *kv_a_proj_with_mqa, *kv_a_layernorm, *kv_b_proj, *o_proj;
    weft__latent_config sizes;
    weft__layer layer;
    int64_t n_heads;
    double scale;
    bool interleaved;
} latent;

static const weft_module_type latent_type = {.name = "latent_attention"};

/* ---- configuration --------------------------------------------------------------------------- */

/* 1 / sqrt(width of a key), times the square of yarn's factor of scores. */
static double scale_of(const weft__latent_config *l, const weft_rope_options *rope)
{
    const bool scaled =
        rope->kind != WEFT_ROPE_DEFAULT && rope->mscale_all_dim > 0 && rope->factor > 1;
    const double factor = scaled ? 0.1 * rope->mscale_all_dim * log(rope->factor) + 1 : 1;
    return factor * factor / sqrt((double)(l->qk_nope_head_dim + l->qk_rope_head_dim));
}

weft_status weft__latent_check(const weft_config *config, weft__decoder_config *c)
{
    enum { MOST = 1 << 16 };
    const weft__latent_config *l = &c->latent;
    if (weft__config_is_null(config, "q_lora_rank"))
        c->latent.q_lora_rank = 0;
    const struct {
        const char *name;
        int64_t value, least;
    } sizes[] = {
        {"q_lora_rank", l->q_lora_rank, 0},
        {"kv_lora_rank", l->kv_lora_rank, 1},
        {"qk_nope_head_dim", l->qk_nope_head_dim, 1},
        {"qk_rope_head_dim", l->qk_rope_head_dim, 2},
        {"v_head_dim", l->v_head_dim, 1},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < sizes[i].least || sizes[i].value > MOST)
            return weft_fail(WEFT_INVALID, "%s: %s: expected %lld to %d, got %lld",
                             weft_config_where(config), sizes[i].name, (long long)sizes[i].least,
                             MOST, (long long)sizes[i].value);
    }
    if (l->qk_rope_head_dim % 2 != 0)
        return weft_fail(WEFT_INVALID, "%s: qk_rope_head_dim: expected an even number, got %lld",
                         weft_config_where(config), (long long)l->qk_rope_head_dim);
    if (c->num_key_value_heads != c->num_attention_heads)
        return weft_fail(WEFT_INVALID,
                         "%s: num_key_value_heads: expected num_attention_heads %lld, got %lld",
                         weft_config_where(config), (long long)c->num_attention_heads,
                         (long long)c->num_key_value_heads);
    weft_rope_options rope;
    c->head_dim = l->qk_rope_head_dim;
    const weft_status status = weft_config_rope(config, c->head_dim, c->theta, &rope);
    if (status == WEFT_OK)
        c->attention_scale = scale_of(l, &rope);
    return status;
}

/* ---- the module ------------------------------------------------------------------------------ */

static weft_module *latent_new(const weft__decoder_config *c, const weft__layer *layer)
{
    latent *m = weft_nn_new(latent, &latent_type);
    if (m == NULL)
        return NULL;
    const weft__latent_config *l = &c->latent;
    const int64_t E = c->hidden_size, H = c->num_attention_heads, R = l->kv_lora_rank;
    const int64_t D = l->qk_nope_head_dim + l->qk_rope_head_dim;
    m->sizes = *l;
    m->layer = *layer;
    m->n_heads = H;
    m->scale = c->attention_scale;
    m->interleaved = c->interleaved;
    if (l->q_lora_rank == 0) {
        weft_nn_child(m, q_proj, weft_nn_linear_new(E, H * D, false));
    } else {
        weft_nn_child(m, q_a_proj, weft_nn_linear_new(E, l->q_lora_rank, c->attention_bias));
        weft_nn_child(m, q_a_layernorm, weft_nn_rms_norm_new(l->q_lora_rank, NORM_EPS));
        weft_nn_child(m, q_b_proj, weft_nn_linear_new(l->q_lora_rank, H * D, false));
    }
    weft_nn_child(m, kv_a_proj_with_mqa,
                  weft_nn_linear_new(E, R + l->qk_rope_head_dim, c->attention_bias));
    weft_nn_child(m, kv_a_layernorm, weft_nn_rms_norm_new(R, NORM_EPS));
    weft_nn_child(m, kv_b_proj,
                  weft_nn_linear_new(R, H * (l->qk_nope_head_dim + l->v_head_dim), false));
    weft_nn_child(m, o_proj, weft_nn_linear_new(H * l->v_head_dim, E, c->output_bias));
    if (m->kv_b_proj)
        ((weft_nn_linear *)m->kv_b_proj)->shared_rows = true;
    return weft_nn_finish(m);
}

/* Queries of L tokens, and the tokens that they attend to. The parts of queries and keys with
 * positions are rotated. */
typedef struct parts {
    weft_array *q, *q_rotated; /* (B, L, H, nope), (B, L, H, rope) */
    weft_array *latents;       /* (B, S, 1, R) */
    weft_array *k_rotated;     /* (B, S, 1, rope) */
    weft_cache_view view;      /* of a cache: keys are latents and rotated parts */
} parts;

static weft_array *first_of(weft_array *x, int64_t n)
{
    return weft_slice_axis(x, -1, 0, n);
}

static weft_array *rest_of(weft_array *x, int64_t n)
{
    return weft_slice_axis(x, -1, n, weft_dim(x, -1));
}

static weft_array *joined(weft_array *a, weft_array *b)
{
    weft_array *both[] = {a, b};
    return weft_concatenate(both, 2, -1);
}

static void put_queries(latent *m, weft_array *x, const weft__step *s, parts *p)
{
    const int64_t nope = m->sizes.qk_nope_head_dim, D = nope + m->sizes.qk_rope_head_dim;
    weft_array *q = m->q_proj ? weft_nn_call(m->q_proj, x) : weft_nn_call(m->q_a_proj, x);
    if (m->q_proj == NULL)
        q = weft_nn_call(m->q_b_proj, weft_nn_call(m->q_a_layernorm, q));
    q = weft_reshape(q, WEFT_DIMS(weft_dim(x, 0), weft_dim(x, 1), m->n_heads, D));
    p->q = first_of(q, nope);
    p->q_rotated = weft__rotated(rest_of(q, nope), s, false, m->interleaved);
}

/* Those of x (B, L, E) and, with a cache, of all tokens before it. */
static void put_latents(latent *m, weft_array *x, const weft__step *s, weft_cache *cache, parts *p)
{
    const int64_t R = m->sizes.kv_lora_rank;
    weft_array *both = weft_expand_dims(weft_nn_call(m->kv_a_proj_with_mqa, x), 2);
    p->latents = weft_nn_call(m->kv_a_layernorm, first_of(both, R));
    p->k_rotated = weft__rotated(rest_of(both, R), s, false, m->interleaved);
    if (cache == NULL)
        return;
    weft_array *keys = joined(p->latents, p->k_rotated);
    p->view = s->offset ? weft_cache_append(cache, keys, NULL, s->offset)
                        : weft_cache_update(cache, keys, NULL);
    p->latents = weft_astype(first_of(p->view.keys, R), weft_dtype_of(x));
    p->k_rotated = weft_astype(rest_of(p->view.keys, R), weft_dtype_of(x));
}

/* Attention of q over the tokens of the view, whose keys and values are these. */
static weft_array *attended(const latent *m, weft_array *q, const parts *p, weft_array *k,
                            weft_array *v, const weft__step *s)
{
    const weft_attention_options o = {
        .scale = m->scale, .causal = true, .mask = s->mask, .first = s->first};
    weft_cache_view view = p->view;
    view.keys = k;
    if (s->records)
        weft__attention_record_put(&m->layer, q, k, s);
    view.values = weft__attention_probe(&m->layer, k, s);
    if (view.values)
        weft__attention_record_weights(
            &m->layer, weft_cache_attention(weft_astype(q, WEFT_FLOAT32), &view, &o), s);
    view.values = v;
    return weft_cache_attention(q, &view, &o);
}

/* (B, L, H, v_head_dim) */
static weft_array *expanded(latent *m, const parts *p, const weft__step *s)
{
    const int64_t nope = m->sizes.qk_nope_head_dim, H = m->n_heads;
    const int64_t B = weft_dim(p->latents, 0), S = weft_dim(p->latents, 1);
    weft_array *both = weft_nn_call(m->kv_b_proj, weft_squeeze(p->latents, 2));
    both = weft_reshape(both, WEFT_DIMS(B, S, H, nope + m->sizes.v_head_dim));
    weft_array *shared =
        weft_broadcast_to(p->k_rotated, WEFT_DIMS(B, S, H, m->sizes.qk_rope_head_dim));
    return attended(m, joined(p->q, p->q_rotated), p, joined(first_of(both, nope), shared),
                    rest_of(both, nope), s);
}

/* The rows of each head in an array (H (nope + v), ...) that make its keys, (H, nope, ...), or its
 * values, (H, v, ...). */
static weft_array *rows_of(const latent *m, weft_array *a, bool values)
{
    const int64_t nope = m->sizes.qk_nope_head_dim, all = nope + m->sizes.v_head_dim;
    a = weft_reshape(a, WEFT_DIMS(m->n_heads, all, -1));
    return weft_slice_axis(a, 1, values ? nope : 0, values ? all : nope);
}

/* x (H, T, nope) times the keys' rows: (H, T, R); or x (H, T, R) times the transpose of the values'
 * rows: (H, T, v). */
static weft_array *times_weight(const latent *m, weft_array *x, weft_array *weight, bool values)
{
    weft_array *codes[3] = {NULL, NULL, NULL};
    if (!weft__nn_parts(weight, codes)) {
        weight = weft_encoding_of(weight) ? weft_astype(weight, WEFT_FLOAT32) : weight;
        weight = rows_of(m, weight, values);
        return weft_matmul(x, values ? weft_swapaxes(weight, 1, 2) : weight);
    }
    const weft_quantize_options format = weft__nn_format(weft_encoding_of(weight));
    for (int i = 0; i < 3 && codes[i]; i++)
        codes[i] = rows_of(m, codes[i], values);
    return weft_quantized_matmul(x, codes[0], codes[1], codes[2], values, &format);
}

/* Queries x (B, L, H, nope) as (B, L, H, R), by the keys' rows of kv_b_proj, or results (B, L, H,
 * R) as (B, L, H, v), by the values' rows. */
static weft_array *by_head(const latent *m, weft_array *x, const weft__lora_terms *t, bool values)
{
    const weft_dtype dtype = weft_dtype_of(x);
    const int64_t B = weft_dim(x, 0), L = weft_dim(x, 1), H = m->n_heads;
    weft_array *factor = t->factor ? weft_swapaxes(rows_of(m, t->factor, values), 1, 2) : NULL;
    x = weft_swapaxes(weft_reshape(x, WEFT_DIMS(B * L, H, -1)), 0, 1); /* (H, B L, ...) */
    if (factor && !values)
        x = weft_multiply(x, factor);
    weft_array *y = times_weight(m, x, t->weight, values);
    for (int i = 0; i < t->n; i++) {
        weft_array *left = rows_of(m, t->left[i], values), *right = t->right[i];
        weft_array *low = weft_matmul(x, values ? weft_swapaxes(right, 0, 1) : left);
        y = weft_add(y, weft_matmul(low, values ? weft_swapaxes(left, 1, 2) : right));
    }
    if (factor && values)
        y = weft_multiply(y, factor);
    return weft_astype(weft_reshape(weft_swapaxes(y, 0, 1), WEFT_DIMS(B, L, H, -1)), dtype);
}

/* The same as `expanded`, up to rounding; `terms` are those of kv_b_proj. */
static weft_array *absorbed(latent *m, const weft__lora_terms *terms, const parts *p,
                            const weft__step *s)
{
    weft_array *q = joined(by_head(m, p->q, terms, false), p->q_rotated); /* (B, L, H, R + rope) */
    weft_array *y = attended(m, q, p, p->view.keys, p->view.values, s);
    return by_head(m, y, terms, true);
}

/* Whether absorbing takes fewer operations for L queries over S tokens. */
static bool absorbs(const latent *m, int64_t L, int64_t S)
{
    const weft__latent_config *l = &m->sizes;
    const double R = (double)l->kv_lora_rank,
                 product = R * (double)(l->qk_nope_head_dim + l->v_head_dim);
    const double own = (double)(l->qk_nope_head_dim + l->qk_rope_head_dim + l->v_head_dim);
    const double expand = (double)S * (product + (double)L * own);
    return (double)L * (product + (double)S * (2 * R + (double)l->qk_rope_head_dim)) < expand;
}

/* The number of tokens that a query may attend to. */
static int64_t keys_of(const parts *p)
{
    return weft_dim(p->latents, 1) * (p->view.pages ? weft_dim(p->view.pages, 1) : 1);
}

static weft_array *latent_forward(weft_module *self, weft_array *x, const weft__step *s,
                                  weft_cache *cache)
{
    latent *m = (latent *)self;
    weft_nn_enter(m);
    const int64_t B = weft_dim(x, 0), L = weft_dim(x, 1);
    parts p = {0};
    put_queries(m, x, s, &p);
    put_latents(m, x, s, cache, &p);
    weft__lora_terms terms;
    const bool absorbing =
        cache && absorbs(m, L, keys_of(&p)) && weft__lora_terms_of(m->kv_b_proj, &terms);
    weft_array *y = absorbing ? absorbed(m, &terms, &p, s) : expanded(m, &p, s);
    y = weft_reshape(weft_astype(y, weft_dtype_of(x)), WEFT_DIMS(B, L, -1));
    return weft_nn_leave(m, weft_nn_call(m->o_proj, y));
}

const weft__mixer weft__latent_attention = {"self_attn", latent_new, latent_forward};
