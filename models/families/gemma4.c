/* models/families/gemma4.c -- Gemma 4's text model (Gemma team 2026), also as part of the
 * multimodal models: heads of two sizes, normalized values that may equal the keys, layers that
 * share keys and values, per-layer inputs, experts in parallel to the MLP. Files differ in what
 * they omit from config.json, so the shapes of the weights decide where available. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/block.h"
#include "models/families/gemma.h"
#include "models/layers.h"
#include "models/placement.h"
#include "weft/ops.h"

typedef struct gemma4_config {
    weft__decoder_config decoder;
    int64_t global_head_dim, num_global_key_value_heads, num_kv_shared_layers;
    int64_t hidden_size_per_layer_input, vocab_size_per_layer_input;
    bool attention_k_eq_v, use_double_wide_mlp, enable_moe_block;
    bool has_scalars; /* each layer has a layer_scalar */
} gemma4_config;

static const weft_config_field fields[] = {
    WEFT__GEMMA_FIELDS(262144, 2304, 9216, 30, 8, 4, 256),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 512),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window_pattern, 6),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, final_logit_softcapping, 0),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts, 0),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, moe_intermediate_size, 0),
    WEFT__CONFIG_AS("top_k_experts", INT, weft__decoder_config, num_experts_per_tok, 8),
    WEFT_CONFIG_OPTIONAL(INT, gemma4_config, global_head_dim, 0),
    WEFT_CONFIG_OPTIONAL(INT, gemma4_config, num_global_key_value_heads, 0),
    WEFT_CONFIG_OPTIONAL(INT, gemma4_config, num_kv_shared_layers, -1),
    WEFT_CONFIG_OPTIONAL(INT, gemma4_config, hidden_size_per_layer_input, 0),
    WEFT_CONFIG_OPTIONAL(INT, gemma4_config, vocab_size_per_layer_input, 0),
    WEFT_CONFIG_OPTIONAL(BOOL, gemma4_config, attention_k_eq_v, false),
    WEFT_CONFIG_OPTIONAL(BOOL, gemma4_config, use_double_wide_mlp, false),
    WEFT_CONFIG_OPTIONAL(BOOL, gemma4_config, enable_moe_block, false),
};

/* ---- layer properties ------------------------------------------------------------------------ */

static bool layer_tensor(const weft_config *config, int64_t layer, const char *name,
                         weft_dims *shape)
{
    char path[96];
    snprintf(path, sizeof path, "model.layers.%lld.%s", (long long)layer, name);
    return weft__config_tensor(config, path, shape);
}

/* per_layer_config: {"5": {"head_dim": 512}}, the newer form. */
static weft_status read_override(const weft_config *config, weft__layer *layer)
{
    const weft__json all = weft__config_at(config, "per_layer_config");
    weft__json own = {0};
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)layer->index);
    weft_status status = all.value ? weft__json_find(&all, key, &own) : WEFT_OK;
    if (status == WEFT_OK && own.value)
        status = weft__json_find_int(&own, "head_dim", &layer->head_dim);
    if (status == WEFT_OK && own.value)
        status = weft__json_find_int(&own, "num_key_value_heads", &layer->n_kv_heads);
    return status;
}

/* Reads the heads from config.json. */
static weft_status read_heads(const weft_config *config, const gemma4_config *c, weft__layer *layer)
{
    if (layer->window > 0)
        return read_override(config, layer);
    layer->keys_are_values = c->attention_k_eq_v;
    if (weft_config_has(config, "per_layer_config"))
        return read_override(config, layer);
    if (c->global_head_dim > 0 || !weft__config_mentions(config, "global_head_dim"))
        layer->head_dim = c->global_head_dim > 0 ? c->global_head_dim : 512;
    if (c->attention_k_eq_v && c->num_global_key_value_heads > 0)
        layer->n_kv_heads = c->num_global_key_value_heads;
    return WEFT_OK;
}

/* Reads the heads from the shapes of the layer's weights. */
static void look_at_weights(const weft_config *config, weft__layer *layer)
{
    weft_dims shape;
    if (layer_tensor(config, layer->index, "self_attn.q_norm.weight", &shape) && shape.n == 1)
        layer->head_dim = shape.at[0];
    if (layer->source == layer->index && layer->head_dim > 0 &&
        layer_tensor(config, layer->index, "self_attn.k_proj.weight", &shape) && shape.n == 2)
        layer->n_kv_heads = shape.at[0] / layer->head_dim;
    if (layer_tensor(config, layer->index, "mlp.gate_proj.weight", &shape) && shape.n == 2)
        layer->intermediate_size = shape.at[0];
    layer->keys_are_values =
        layer->window == 0 && !layer_tensor(config, layer->index, "self_attn.v_proj.weight", NULL);
    layer->sparse = layer_tensor(config, layer->index, "router.proj.weight", NULL);
}

/* The first layer that uses another layer's keys and values. */
static int64_t first_shared(const weft_config *config, const gemma4_config *c)
{
    int64_t n = c->decoder.num_hidden_layers;
    if (c->num_kv_shared_layers >= 0)
        return n - c->num_kv_shared_layers;
    while (n > 0 && weft__config_has_tensors(config) &&
           !layer_tensor(config, n - 1, "self_attn.k_proj.weight", NULL))
        n--;
    return n;
}

/* Finds the last layer of the same kind with its own keys and values. */
static weft_status find_source(const weft_config *config, const gemma4_config *c, int64_t first,
                               weft__layer *layer)
{
    for (int64_t i = first - 1; i >= 0; i--) {
        int64_t window;
        const weft_status status =
            weft__layers_window(config, &c->decoder, WEFT__WINDOW_PATTERN, i, &window);
        if (status != WEFT_OK)
            return status;
        if ((window > 0) == (layer->window > 0)) {
            layer->source = i;
            return WEFT_OK;
        }
    }
    return weft_fail(WEFT_INVALID,
                     "%s: layer %lld shares keys and values, but no layer before %lld is of its "
                     "kind",
                     weft_config_where(config), (long long)layer->index, (long long)first);
}

static weft_status layer_of(const weft_config *config, const weft__decoder_config *decoder,
                            weft__layer *layer)
{
    const gemma4_config *c = (const gemma4_config *)decoder;
    const int64_t first = first_shared(config, c);
    if (first < 1 || first > decoder->num_hidden_layers)
        return weft_fail(WEFT_INVALID,
                         "%s: num_kv_shared_layers: expected fewer than %lld layers, got %lld",
                         weft_config_where(config), (long long)decoder->num_hidden_layers,
                         (long long)c->num_kv_shared_layers);
    if (!weft_config_has(config, "layer_types") && layer->index == decoder->num_hidden_layers - 1)
        layer->window = 0; /* the last layer has no window */
    layer->sparse = c->enable_moe_block;
    weft_status status = read_heads(config, c, layer);
    if (status == WEFT_OK && layer->index >= first) {
        if (c->use_double_wide_mlp)
            layer->intermediate_size *= 2;
        status = find_source(config, c, first, layer);
    }
    if (status == WEFT_OK && weft__config_has_tensors(config))
        look_at_weights(config, layer);
    return status;
}

/* ---- per-layer inputs ------------------------------------------------------------------------ */

typedef struct inputs {
    weft_module module;
    weft_module *embed_tokens_per_layer, *per_layer_model_projection, *per_layer_projection_norm;
    int64_t n_layers, n_tokens;
} inputs;

static const weft_module_type inputs_type = {.name = "per_layer_inputs"};

static bool has_inputs(const weft_config *config, const weft__decoder_config *c)
{
    (void)config;
    return ((const gemma4_config *)c)->hidden_size_per_layer_input > 0;
}

static weft_module *inputs_new(const weft_config *config, const weft__decoder_config *c)
{
    (void)config;
    const gemma4_config *own = (const gemma4_config *)c;
    inputs *m = weft_nn_new(inputs, &inputs_type);
    if (m == NULL)
        return NULL;
    const int64_t P = own->hidden_size_per_layer_input, all = c->num_hidden_layers * P;
    m->n_layers = c->num_hidden_layers;
    m->n_tokens = own->vocab_size_per_layer_input;
    weft_nn_child(m, embed_tokens_per_layer, weft_nn_embedding_new(m->n_tokens, all));
    weft_nn_child(m, per_layer_model_projection, weft_nn_linear_new(c->hidden_size, all, false));
    weft_nn_child(m, per_layer_projection_norm, weft__norm_new(c, P));
    return weft_nn_finish(m);
}

/* From a token's own rows and its embedding x (B, L, E): (B, L, layers, P). */
static weft_array *inputs_of(weft_module *self, weft_array *tokens, weft_array *x)
{
    inputs *m = (inputs *)self;
    weft_nn_enter(m);
    const int64_t B = weft_dim(x, 0), L = weft_dim(x, 1), E = weft_dim(x, 2);
    const double deviation = sqrt(1.0 / (double)E);
    weft_array *known = weft_less_scalar(tokens, (double)m->n_tokens);
    weft_array *ids = weft_where(known, tokens, weft_zeros_like(tokens));     /* others: row 0 */
    weft_array *a = weft__call_on_its_device(m->embed_tokens_per_layer, ids); /* (B, L, layers P) */
    const weft_dims shape = WEFT_DIMS(B, L, m->n_layers, weft_dim(a, 2) / m->n_layers);
    a = weft_reshape(weft_scale(a, sqrt((double)shape.at[3])), shape);
    weft_array *b =
        weft__call_on_its_device(m->per_layer_model_projection, x); /* (B, L, layers P) */
    b = weft_reshape(weft_scale(b, deviation), shape);
    b = weft__call_on_its_device(m->per_layer_projection_norm, b);
    a = weft_to(weft_astype(a, weft_dtype_of(b)), weft_device_of(b));
    return weft_nn_leave(m, weft_scale(weft_add(b, a), sqrt(0.5)));
}

/* ---- experts in parallel to the MLP ---------------------------------------------------------- */

typedef struct router {
    weft_module module;
    weft_module *proj;
    weft_array *scale, *per_expert_scale; /* (E), (experts) */
    double eps;
    int64_t k;
} router;

static const weft_module_type router_type = {.name = "router"};

static weft_module *router_new(const weft__decoder_config *c)
{
    router *m = weft_nn_new(router, &router_type);
    if (m == NULL)
        return NULL;
    m->eps = c->rms_norm_eps;
    m->k = c->num_experts_per_tok;
    weft_nn_child(m, proj, weft_nn_linear_new(c->hidden_size, c->num_experts, false));
    weft_nn_param(m, scale, weft_ones(WEFT_DIMS(c->hidden_size), WEFT_FLOAT32));
    weft_nn_param(m, per_expert_scale, weft_ones(WEFT_DIMS(c->num_experts), WEFT_FLOAT32));
    return weft_nn_finish(m);
}

/* x (T, E) -> ids and weights (T, k) */
static void route(weft_module *self, weft_array *x, weft_layer_summary *summary, weft_array **ids,
                  weft_array **weights)
{
    router *m = (router *)self;
    weft_nn_enter(m);
    x = weft_rms_norm(x, weft_astype(m->scale, weft_dtype_of(x)), m->eps, 0);
    x = weft_scale(x, 1 / sqrt((double)weft_dim(x, 1)));
    weft__route(weft_nn_call(m->proj, x), NULL, &(weft__routing){.k = m->k, .normalized = true},
                summary, ids, weights);
    weft_array *scale = weft_take(m->per_expert_scale, *ids, 0); /* (T, k) */
    *weights = weft_multiply(*weights, weft_astype(scale, weft_dtype_of(*weights)));
    weft_array *results[] = {*ids, *weights};
    weft_nn_leave_n(&m->module, results, 2);
    *ids = results[0];
    *weights = results[1];
}

typedef struct holder {
    weft_module module;
    weft_module *switch_glu;
} holder;

static const weft_module_type holder_type = {.name = "experts"};

static weft_module *holder_new(const weft__decoder_config *c, const weft__layer *layer)
{
    holder *m = weft_nn_new(holder, &holder_type);
    if (m == NULL)
        return NULL;
    weft_nn_child(m, switch_glu, weft__experts_new(c, layer));
    return weft_nn_finish(m);
}

/* ---- the block ------------------------------------------------------------------------------- */

typedef struct block {
    weft_module module;
    weft_module *self_attn, *mlp, *input_layernorm, *post_attention_layernorm;
    weft_module *pre_feedforward_layernorm, *post_feedforward_layernorm;
    weft_module *router, *experts; /* NULL: no experts, and none of these three norms */
    weft_module *pre_feedforward_layernorm_2, *post_feedforward_layernorm_1,
        *post_feedforward_layernorm_2;
    weft_module *per_layer_input_gate, *per_layer_projection; /* NULL: no per-layer inputs */
    weft_module *post_per_layer_input_norm;
    weft_array *layer_scalar; /* (1), or NULL */
    weft__gate_function *gate;
    int64_t index;
} block;

static const weft_module_type block_type = {.name = "block"};

static void add_experts(block *m, const weft__decoder_config *c, const weft__layer *layer)
{
    const int64_t E = c->hidden_size;
    weft_nn_child(m, router, router_new(c));
    weft_nn_child(m, experts, holder_new(c, layer));
    weft_nn_child(m, pre_feedforward_layernorm_2, weft__norm_new(c, E));
    weft_nn_child(m, post_feedforward_layernorm_1, weft__norm_new(c, E));
    weft_nn_child(m, post_feedforward_layernorm_2, weft__norm_new(c, E));
}

static weft_module *block_new(const weft__decoder_config *c, const weft__layer *layer)
{
    block *m = weft_nn_new(block, &block_type);
    if (m == NULL)
        return NULL;
    const gemma4_config *own = (const gemma4_config *)c;
    const int64_t E = c->hidden_size, P = own->hidden_size_per_layer_input;
    m->index = layer->index;
    m->gate = weft__gate_find(c->hidden_act);
    weft_nn_child(m, input_layernorm, weft__norm_new(c, E));
    weft_nn_child(m, self_attn, weft__attention_new(c, layer, true));
    weft_nn_child(m, post_attention_layernorm, weft__norm_new(c, E));
    weft_nn_child(m, pre_feedforward_layernorm, weft__norm_new(c, E));
    weft_nn_child(m, mlp, weft__mlp_new(c, layer->intermediate_size));
    weft_nn_child(m, post_feedforward_layernorm, weft__norm_new(c, E));
    if (layer->sparse)
        add_experts(m, c, layer);
    if (P > 0) {
        weft_nn_child(m, per_layer_input_gate, weft_nn_linear_new(E, P, false));
        weft_nn_child(m, per_layer_projection, weft_nn_linear_new(P, E, false));
        weft_nn_child(m, post_per_layer_input_norm, weft__norm_new(c, E));
    }
    if (own->has_scalars)
        weft_nn_statistic(m, layer_scalar, weft_ones(WEFT_DIMS(1), WEFT_FLOAT32));
    return weft_nn_finish(m);
}

/* The MLP plus the experts: x (B, L, E) -> (B, L, E). The router reads x without a norm. */
static weft_array *feed_forward(block *m, weft_array *x, weft_layer_summary *summary)
{
    weft_array *y = weft_nn_call(m->mlp, weft_nn_call(m->pre_feedforward_layernorm, x));
    if (m->router == NULL)
        return y;
    weft_array *ids, *weights, *rows = weft_flatten(x, 0, 1); /* (T, E) */
    route(m->router, rows, summary, &ids, &weights);
    weft_array *z = weft_nn_call(m->pre_feedforward_layernorm_2, rows);
    z = weft__experts_forward(((holder *)m->experts)->switch_glu, z, ids, weights);
    z = weft_nn_call(m->post_feedforward_layernorm_2, weft_reshape(z, weft_shape(x)));
    return weft_add(weft_nn_call(m->post_feedforward_layernorm_1, y), z);
}

static weft_array *block_forward(weft_module *self, weft_array *x, const weft__step *step,
                                 weft_cache *cache)
{
    block *m = (block *)self;
    weft_nn_enter(m);
    weft_array *y = weft_nn_call(m->input_layernorm, x); /* (B, L, E) */
    y = weft__attention_forward(m->self_attn, y, step, cache);
    x = weft_add(x, weft_nn_call(m->post_attention_layernorm, y));
    y = feed_forward(m, x, step->summary);
    x = weft_add(x, weft_nn_call(m->post_feedforward_layernorm, y));
    if (m->per_layer_input_gate) {
        weft_array *own = weft_slice_axis(step->extra, 2, m->index, m->index + 1);
        y = m->gate(weft_nn_call(m->per_layer_input_gate, x), weft_squeeze(own, 2)); /* (B, L, P) */
        y = weft_nn_call(m->per_layer_projection, y);
        x = weft_add(x, weft_nn_call(m->post_per_layer_input_norm, y));
    }
    if (m->layer_scalar)
        x = weft_multiply(x, weft_astype(m->layer_scalar, weft_dtype_of(x)));
    return weft_nn_leave(m, x);
}

/* ---- the family ------------------------------------------------------------------------------ */

static const weft__architecture architecture = {
    .block = block_new,
    .forward = block_forward,
    .layer = layer_of,
    .has_extra = has_inputs,
    .extra = inputs_new,
    .prepare = inputs_of,
};

/* Finds whether there are per-layer inputs, and their width. */
static void find_inputs(const weft_config *config, gemma4_config *c)
{
    weft_dims shape;
    if (weft__config_has_tensors(config)) {
        /* By the number of rows, since columns may be packed. */
        const bool wide = layer_tensor(config, 0, "per_layer_input_gate.weight", &shape);
        c->hidden_size_per_layer_input = wide ? shape.at[0] : 0;
        const bool found =
            weft__config_tensor(config, "model.embed_tokens_per_layer.weight", &shape);
        c->vocab_size_per_layer_input = found ? shape.at[0] : 0;
    } else if (!weft__config_mentions(config, "hidden_size_per_layer_input")) {
        c->hidden_size_per_layer_input = 256;
    }
    if (c->vocab_size_per_layer_input == 0)
        c->vocab_size_per_layer_input = c->decoder.vocab_size;
}

static weft_status check_own(const weft_config *config, const gemma4_config *c)
{
    const char *where = weft_config_where(config);
    const char *both = weft_config_string(config, "use_bidirectional_attention", "vision");
    if (strcmp(both, "vision") != 0)
        return weft_fail(WEFT_UNSUPPORTED, "%s: use_bidirectional_attention: '%s' is unsupported",
                         where, weft_printable(both));
    if (c->hidden_size_per_layer_input < 0 || c->hidden_size_per_layer_input > INT16_MAX ||
        c->vocab_size_per_layer_input < 1 || c->vocab_size_per_layer_input > INT32_MAX)
        return weft_fail(WEFT_INVALID,
                         "%s: hidden_size_per_layer_input, vocab_size_per_layer_input: expected "
                         "0 to %d and 1 to %d, got %lld and %lld",
                         where, INT16_MAX, INT32_MAX, (long long)c->hidden_size_per_layer_input,
                         (long long)c->vocab_size_per_layer_input);
    return WEFT_OK;
}

static weft_status finish(const weft_config *config, weft__decoder_config *d)
{
    gemma4_config *c = (gemma4_config *)d;
    if (d->num_experts == 0)
        d->num_experts = weft_config_int(config, "num_local_experts", 0);
    d->embedding_scale = sqrt((double)d->hidden_size);
    find_inputs(config, c);
    c->has_scalars =
        !weft__config_has_tensors(config) || layer_tensor(config, 0, "layer_scalar", NULL);
    return check_own(config, c);
}

/* ---- GGUF files ------------------------------------------------------------------------------ */

static const weft__tensor_name names[] = {
    WEFT__GEMMA_NAMES,
    {"ffn_gate_inp", "router.proj", NULL},
    {"ffn_gate_exps", "experts.switch_glu.gate_proj", "experts.gate_up_proj"},
    {"ffn_up_exps", "experts.switch_glu.up_proj", "experts.gate_up_proj"},
    {"ffn_gate_up_exps", "experts.switch_glu.gate_up_proj", NULL},
    {"ffn_down_exps", "experts.switch_glu.down_proj", "experts.down_proj"},
    {"pre_ffw_norm_2", "pre_feedforward_layernorm_2", NULL},
    {"post_ffw_norm_1", "post_feedforward_layernorm_1", NULL},
    {"post_ffw_norm_2", "post_feedforward_layernorm_2", NULL},
    {"inp_gate", "per_layer_input_gate", NULL},
    {"proj", "per_layer_projection", NULL},
    {"post_norm", "post_per_layer_input_norm", NULL},
    {"ffn_gate_inp.scale", "router.scale", NULL},
    {"ffn_down_exps.scale", "router.per_expert_scale", NULL},
    {"layer_output_scale.weight", "layer_scalar", NULL},
    {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight", NULL},
    {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight", NULL},
    {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight", NULL},
    {NULL, NULL, NULL},
};

/* The rotated share of a full-attention head: frequencies whose divisors are not huge. */
static double rotated_share(const weft__gguf_reader *r)
{
    int64_t n, rotated = 0;
    const char *divisors = weft__gguf_floats(r, WEFT__GGUF_DIVISORS, &n);
    for (int64_t i = 0; i < n; i++)
        rotated += weft__gguf_float_at(divisors, i) == 1;
    return n > 0 ? (double)rotated / (double)n : 1;
}

/* The first layer with a window, or without; -1: none. */
static int64_t first_of(const weft__gguf_reader *r, bool window)
{
    const weft_gguf_value *pattern = weft__gguf_value(r, "attention.sliding_window_pattern");
    for (int64_t i = 0; pattern && i < pattern->count; i++) {
        int64_t sliding;
        if (weft_gguf_value_int(pattern, i, &sliding) && (sliding != 0) == window)
            return i;
    }
    return -1;
}

/* Heads, shared layers and inputs. */
static void read_sizes(weft__gguf_reader *r)
{
    const char *kv = "attention.head_count_kv", *width = "feed_forward_length";
    char values[64];
    const int64_t sliding = first_of(r, true), full = first_of(r, false);
    const int64_t L = weft__gguf_integer(r, "block_count", 1),
                  shared = weft__gguf_integer(r, "attention.shared_kv_layers", 0);
    const int rows = weft_gguf_find(r->file, "per_layer_token_embd.weight");
    const int64_t heads = weft__gguf_integer(r, "attention.head_count", 1);
    weft__gguf_add_integer(r, "num_key_value_heads",
                           weft__gguf_of_layer(r, kv, sliding < 0 ? 0 : sliding, heads));
    if (full >= 0)
        weft__gguf_add_integer(r, "num_global_key_value_heads",
                               weft__gguf_of_layer(r, kv, full, heads));
    weft__gguf_add_integer(r, "global_head_dim",
                           weft__gguf_integer(r, "attention.key_length", 512));
    snprintf(values, sizeof values, "blk.%lld.attn_v.weight", (long long)(full < 0 ? 0 : full));
    weft__gguf_add_bool(r, "attention_k_eq_v", !weft__gguf_has(r, values));
    weft__gguf_add_integer(r, "num_kv_shared_layers", shared);
    weft__gguf_add_integer(r, "hidden_size_per_layer_input",
                           weft__gguf_integer(r, "embedding_length_per_layer_input", 0));
    if (rows >= 0 && weft_gguf_at(r->file, rows)->shape.n == 2)
        weft__gguf_add_integer(r, "vocab_size_per_layer_input",
                               weft_gguf_at(r->file, rows)->shape.at[0]);
    weft__gguf_add_bool(r, "use_double_wide_mlp",
                        shared > 0 && weft__gguf_of_layer(r, width, L - 1, 0) ==
                                          2 * weft__gguf_of_layer(r, width, 0, 0));
}

static weft_status read_rope(weft__gguf_reader *r)
{
    const bool experts = weft__gguf_integer(r, "expert_count", 0) > 0;
    read_sizes(r);
    weft__gguf_add_bool(r, "enable_moe_block", experts);
    if (experts)
        weft__gguf_add_integer(r, "top_k_experts", weft__gguf_integer(r, "expert_used_count", 8));
    weft__text_format(&r->out,
                      ",\"hidden_activation\":\"gelu_pytorch_tanh\",\"rope_parameters\":{"
                      "\"full_attention\":{\"rope_type\":\"proportional\","
                      "\"partial_rotary_factor\":%.9g,\"rope_theta\":%.9g},"
                      "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":%.9g}}",
                      rotated_share(r), weft__gguf_number(r, "rope.freq_base", 1e6),
                      weft__gguf_number(r, "rope.freq_base_swa", 1e4));
    weft__gemma_read_cap(r, "final_logit_softcapping", 30);
    return WEFT_OK;
}

/* Only a share of a head rotates: the other frequencies get huge divisors. */
static weft_status write_scaling(weft__gguf_facts *f, const weft_rope_options *o)
{
    if (o->kind != WEFT_ROPE_PROPORTIONAL && o->kind != WEFT_ROPE_DEFAULT)
        return weft__gguf_put_scaling(f, o);
    const double share = o->kind == WEFT_ROPE_DEFAULT || o->partial == 0 ? 1 : o->partial;
    const int64_t half = f->head_dim / 2;
    const int64_t rotated = (int64_t)(share * (double)f->head_dim / 2);
    weft_array *ones = weft_full(WEFT_DIMS(rotated), 1, WEFT_FLOAT32);
    weft_array *parts[] = {ones, weft_full(WEFT_DIMS(half - rotated), 1e30, WEFT_FLOAT32)};
    weft__gguf_put_divisors(f, WEFT__GGUF_DIVISORS, weft_concatenate(parts, 2, 0));
    return WEFT_OK;
}

static weft_status write(weft__gguf_facts *f)
{
    weft_array **gate =
        weft_nn_find(weft_model_module(f->model), "model.layers.0.per_layer_input_gate.weight");
    const int64_t other = f->windowed ? f->windowed->head_dim : f->head_dim;
    int64_t shared = 0;
    for (int64_t i = 0; i < f->n_layers; i++)
        shared += f->decoder.layers[i].source != i;
    const weft_status status = weft__gemma_write(f);
    weft__gguf_put_integer(f, "attention.shared_kv_layers", shared);
    weft__gguf_put_integer(f, "embedding_length_per_layer_input", gate ? weft_dim(*gate, 0) : 0);
    weft__gguf_put_integer(f, "attention.key_length_swa", other);
    weft__gguf_put_integer(f, "attention.value_length_swa", other);
    return status;
}

static const char *const unadapted[] = {"per_layer_model_projection", NULL};

static const weft__gguf_arch gguf = {
    .unadapted = unadapted,
    .name = "gemma4",
    .by_layer = true,
    .two_rotations = true,
    .windows = WEFT__GGUF_ALWAYS,
    .scale = 1,
    .read_rope = read_rope,
    .write_scaling = write_scaling,
    .write = write,
};

static const weft__family own = {
    WEFT__FIELDS(fields),
    .size = sizeof(gemma4_config),
    .defaults =
        &(const gemma4_config){
            .decoder = {.theta = 1e6,
                        .partial_rotary_factor = 1,
                        .sliding_theta = 1e4,
                        .rotation = &(const weft_rope_options){.kind = WEFT_ROPE_PROPORTIONAL,
                                                               .theta = 1e6,
                                                               .partial = 0.25},
                        .qk_norm = true,
                        .attention_scale = 1}}
             .decoder,
    .finish = finish,
    .windows = WEFT__WINDOW_PATTERN,
    .architecture = &architecture,
    .names = names,
    .gguf = &gguf,
};

#define GEMMA4(type, class, text)                                                                  \
    WEFT__FAMILY(type, class, .own = &own, .tied = true, .text_type = text)
GEMMA4(gemma4, Gemma4ForConditionalGeneration, "gemma4_text");
GEMMA4(gemma4_text, Gemma4ForCausalLM, NULL);
GEMMA4(gemma4_unified, Gemma4UnifiedForConditionalGeneration, "gemma4_unified_text");
GEMMA4(gemma4_unified_text, Gemma4UnifiedForCausalLM, NULL);
#undef GEMMA4
