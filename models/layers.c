/* models/layers.c -- reads the properties of each layer from config.json. */
#include "models/layers.h"

#include <stdio.h>
#include <string.h>

#include "models/block.h"
#include "models/config.h"

/* Limited, since rotations are computed when a model is created, before other checks of its sizes.
 */
enum { MOST_HEAD_DIM = 1 << 16 };

/* ---- sizes ---------------------------------------------------------------------------------- */

weft_status weft__layers_check_number(const weft_config *config, const weft__decoder_config *c)
{
    return c->num_hidden_layers >= 1 && c->num_hidden_layers <= WEFT__MOST_LAYERS
               ? WEFT_OK
               : weft_fail(WEFT_INVALID, "%s: num_hidden_layers: expected 1 to %d, got %lld",
                           weft_config_where(config), WEFT__MOST_LAYERS,
                           (long long)c->num_hidden_layers);
}

static weft_status check_sizes(const weft_config *config, const weft__decoder_config *c)
{
    const bool sparse = c->num_experts != 0;
    const struct {
        const char *name;
        int64_t value;
        int most; /* keeps every product of two sizes within 64 bits */
    } sizes[] = {
        {"vocab_size", c->vocab_size, INT32_MAX},
        {"hidden_size", c->hidden_size, INT32_MAX},
        {"intermediate_size", c->intermediate_size, INT32_MAX},
        {"num_attention_heads", c->num_attention_heads, INT32_MAX},
        {"num_key_value_heads", c->num_key_value_heads, INT32_MAX},
        {"head_dim", c->head_dim, MOST_HEAD_DIM},
        {"num_experts", sparse ? c->num_experts : 1, INT16_MAX},
        {"num_experts_per_tok", sparse ? c->num_experts_per_tok : 1, INT16_MAX},
        {"moe_intermediate_size", sparse ? c->moe_intermediate_size : 1, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].most)
            return weft_fail(WEFT_INVALID, "%s: %s: expected 1 to %d, got %lld",
                             weft_config_where(config), sizes[i].name, sizes[i].most,
                             (long long)sizes[i].value);
    }
    if (sparse && c->n_group > 1 &&
        (c->num_experts % c->n_group != 0 || c->num_experts / c->n_group < 2 || c->topk_group < 1 ||
         c->topk_group > c->n_group ||
         c->num_experts_per_tok > c->topk_group * (c->num_experts / c->n_group)))
        return weft_fail(WEFT_INVALID,
                         "%s: n_group, topk_group: %lld and %lld do not fit %lld experts, of which "
                         "%lld are chosen",
                         weft_config_where(config), (long long)c->n_group, (long long)c->topk_group,
                         (long long)c->num_experts, (long long)c->num_experts_per_tok);
    if (sparse && c->num_experts_per_tok > c->num_experts)
        return weft_fail(WEFT_INVALID, "%s: num_experts_per_tok: expected at most %lld, got %lld",
                         weft_config_where(config), (long long)c->num_experts,
                         (long long)c->num_experts_per_tok);
    return WEFT_OK;
}

/* The head size if config.json does not give it: from the weights, or else the family's default, if
 * any. Keys are preferred to queries, whose matrix may also contain gates. */
static int64_t head_dim_of(const weft_config *config, const weft__decoder_config *c)
{
    const struct {
        const char *path;
        int64_t heads;
    } matrices[] = {
        {"model.layers.0.self_attn.k_proj.weight", c->num_key_value_heads},
        {"model.layers.0.self_attn.q_proj.weight", c->num_attention_heads},
    };
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        weft_dims shape;
        const int64_t n = matrices[i].heads;
        if (n > 0 && weft__config_tensor(config, matrices[i].path, &shape) && shape.n == 2 &&
            shape.at[0] % n == 0)
            return shape.at[0] / n;
    }
    if (c->head_dim > 0)
        return c->head_dim;
    return c->num_attention_heads > 0 ? c->hidden_size / c->num_attention_heads : 0;
}

weft_status weft__layers_check(const weft_config *config, weft__decoder_config *c)
{
    const char *where = weft_config_where(config);
    const bool latent = c->latent.used;
    const bool null = weft__config_mentions(config, "num_key_value_heads") &&
                      !weft_config_has(config, "num_key_value_heads");
    if (c->num_key_value_heads == 0 || null)
        c->num_key_value_heads = c->num_attention_heads;
    if (!latent && (c->head_dim == 0 || !weft_config_has(config, "head_dim")))
        c->head_dim = head_dim_of(config, c);
    weft_status status = latent ? weft__latent_check(config, c) : WEFT_OK;
    if (status == WEFT_OK)
        status = check_sizes(config, c);
    if (status != WEFT_OK)
        return status;
    if (c->num_attention_heads % c->num_key_value_heads != 0)
        return weft_fail(
            WEFT_INVALID,
            "%s: num_attention_heads: expected a multiple of num_key_value_heads %lld, "
            "got %lld",
            where, (long long)c->num_key_value_heads, (long long)c->num_attention_heads);
    if (c->head_dim % 2 != 0)
        return weft_fail(WEFT_INVALID, "%s: head_dim: expected an even number, got %lld", where,
                         (long long)c->head_dim);
    if (!(c->rms_norm_eps > 0))
        return weft_fail(WEFT_INVALID, "%s: rms_norm_eps: expected a positive number, got %g",
                         where, c->rms_norm_eps);
    if (c->attn_logit_softcapping < 0 || c->final_logit_softcapping < 0)
        return weft_fail(WEFT_INVALID,
                         "%s: attn_logit_softcapping, final_logit_softcapping: expected positive "
                         "numbers, got %g and %g",
                         where, c->attn_logit_softcapping, c->final_logit_softcapping);
    if (!weft__gate_find(c->hidden_act))
        return weft_fail(WEFT_UNSUPPORTED, "%s: hidden_act: '%s' is unknown (known: %s)", where,
                         weft_printable(c->hidden_act), weft__activation_names);
    return WEFT_OK;
}

/* ---- layers --------------------------------------------------------------------------------- */

/* The window of a layer with type `type` in config.json's layer_types. */
static weft_status named_window(const weft__json *at, const weft__decoder_config *c,
                                int64_t *window)
{
    const char *type;
    const weft_status status = weft__json_as_string(at, &type, NULL);
    if (status != WEFT_OK)
        return status;
    if (strcmp(type, "full_attention") == 0 || (c->full_type && strcmp(type, c->full_type) == 0)) {
        *window = 0;
        return WEFT_OK;
    }
    if (strcmp(type, "sliding_attention") != 0)
        return weft__json_fail(at, WEFT_UNSUPPORTED,
                               "'%s' is unknown (known: full_attention, sliding_attention)",
                               weft_printable(type));
    if (c->sliding_window < 1)
        return weft__json_fail(at, WEFT_INVALID,
                               "sliding_attention needs a positive sliding_window");
    *window = c->sliding_window;
    return WEFT_OK;
}

static bool slides(const weft__decoder_config *c, weft__window_rule rule, int64_t layer)
{
    switch (rule) {
    case WEFT__WINDOW_NONE:
        return false;
    case WEFT__WINDOW_ALL:
        return true;
    case WEFT__WINDOW_LATE:
        return c->use_sliding_window && layer >= c->max_window_layers;
    case WEFT__WINDOW_PATTERN:
        return c->sliding_window_pattern < 1 || (layer + 1) % c->sliding_window_pattern != 0;
    }
    return false;
}

weft_status weft__layers_window(const weft_config *config, const weft__decoder_config *c,
                                weft__window_rule rule, int64_t layer, int64_t *window)
{
    const weft__json types = weft__config_at(config, "layer_types");
    if (types.value) {
        weft__json at;
        size_t n;
        weft_status status = weft__json_length(&types, &n);
        if (status == WEFT_OK && n != (size_t)c->num_hidden_layers)
            status = weft__json_fail(&types, WEFT_INVALID, "expected %lld layers, got %zu",
                                     (long long)c->num_hidden_layers, n);
        if (status == WEFT_OK)
            status = weft__json_at(&types, (size_t)layer, &at);
        return status == WEFT_OK ? named_window(&at, c, window) : status;
    }
    const bool sliding = slides(c, rule, layer);
    if (sliding && c->sliding_window < 1 && weft_config_has(config, "sliding_window"))
        return weft_fail(WEFT_INVALID,
                         "%s: sliding_window: expected a positive number, or null for none, got "
                         "%lld",
                         weft_config_where(config), (long long)c->sliding_window);
    *window = sliding && c->sliding_window > 0 ? c->sliding_window : 0;
    return WEFT_OK;
}

static weft_status is_linear(const weft_config *config, const weft__decoder_config *c,
                             int64_t layer, bool *out)
{
    const weft__json types = weft__config_at(config, "layer_types");
    weft__json at;
    const char *type = "";
    *out = (layer + 1) % c->full_attention_interval != 0;
    if (types.value == NULL)
        return WEFT_OK;
    weft_status status = weft__json_at(&types, (size_t)layer, &at);
    if (status == WEFT_OK)
        status = weft__json_as_string(&at, &type, NULL);
    *out = strcmp(type, "linear_attention") == 0 ||
           (c->linear_type && strcmp(type, c->linear_type) == 0);
    return status;
}

/* Whether mlp_only_layers contains the layer. */
static weft_status is_dense(const weft_config *config, int64_t layer, bool *out)
{
    const weft__json list = weft__config_at(config, "mlp_only_layers");
    size_t n = 0;
    weft_status status = list.value ? weft__json_length(&list, &n) : WEFT_OK;
    *out = false;
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        weft__json at;
        int64_t number = -1;
        status = weft__json_at(&list, i, &at);
        if (status == WEFT_OK)
            status = weft__json_as_int(&at, &number);
        *out = *out || number == layer;
    }
    return status;
}

/* Whether the layer's queries and keys have no positions: by no_rope_layers, whose elements are 0
 * for those, or by the interval; or because it has no window. */
static weft_status is_unrotated(const weft_config *config, const weft__decoder_config *c,
                                const weft__layer *layer, bool *out)
{
    const int64_t interval = c->no_rope_layer_interval;
    const weft__json list = weft__config_at(config, "no_rope_layers");
    *out = c->rotates_windows_only && c->sliding_window > 0 && layer->window == 0;
    if (interval < 1)
        return WEFT_OK;
    weft__json at;
    size_t n = 0;
    int64_t rotates = (layer->index + 1) % interval != 0;
    weft_status status = list.value ? weft__json_length(&list, &n) : WEFT_OK;
    if (status == WEFT_OK && list.value && n < (size_t)c->num_hidden_layers)
        status = weft__json_fail(&list, WEFT_INVALID, "expected %lld layers, got %zu",
                                 (long long)c->num_hidden_layers, n);
    if (status == WEFT_OK && list.value)
        status = weft__json_at(&list, (size_t)layer->index, &at);
    if (status == WEFT_OK && list.value)
        status = weft__json_as_int(&at, &rotates);
    *out = *out || rotates == 0;
    return status;
}

/* Whether the layer's experts have gates and ups in one tensor. */
static bool has_gates_with_ups(const weft_config *config, int64_t layer)
{
    static const char *const places[] = {"mlp.switch_mlp", "experts.switch_glu", "mlp.experts"};
    bool found = false;
    for (int i = 0; i < 3 && !found; i++) {
        char path[96];
        snprintf(path, sizeof path, "model.layers.%lld.%s.gate_up_proj.weight", (long long)layer,
                 places[i]);
        found = weft__config_tensor(config, path, NULL);
    }
    return found;
}

static weft_status read_layer(const weft_config *config, const weft__decoder_config *c,
                              weft__window_rule windows, const weft__architecture *architecture,
                              weft__layer *layer)
{
    bool dense = true;
    weft_status status = WEFT_OK;
    if (c->full_attention_interval > 0)
        status = is_linear(config, c, layer->index, &layer->linear);
    if (status == WEFT_OK && !layer->linear)
        status = weft__layers_window(config, c, windows, layer->index, &layer->window);
    if (status == WEFT_OK)
        status = is_unrotated(config, c, layer, &layer->unrotated);
    if (status == WEFT_OK && c->num_experts > 0)
        status = is_dense(config, layer->index, &dense);
    const int64_t every = c->decoder_sparse_step > 1 ? c->decoder_sparse_step : 1;
    layer->sparse = !dense && (layer->index + 1) % every == 0;
    layer->mlp = architecture->mlp;
    if (status == WEFT_OK && architecture->layer)
        status = architecture->layer(config, c, layer);
    if (status != WEFT_OK)
        return status;
    layer->mixer = layer->linear    ? architecture->mixer
                   : c->latent.used ? &weft__latent_attention
                                    : NULL;
    const bool combined = c->alternating && !weft__config_has_tensors(config); /* as in files */
    layer->gates_with_ups = layer->sparse && (combined || has_gates_with_ups(config, layer->index));
    if (layer->n_kv_heads < 1 || c->num_attention_heads % layer->n_kv_heads != 0 ||
        layer->head_dim < 2 || layer->head_dim % 2 != 0 || layer->head_dim > MOST_HEAD_DIM)
        return weft_fail(
            WEFT_INVALID, "%s: layer %lld: %lld heads, %lld of keys and values, of %lld elements",
            weft_config_where(config), (long long)layer->index, (long long)c->num_attention_heads,
            (long long)layer->n_kv_heads, (long long)layer->head_dim);
    return WEFT_OK;
}

weft_status weft__layers_read(const weft_config *config, const weft__decoder_config *c,
                              weft__window_rule windows, const weft__architecture *architecture,
                              weft__layer *out)
{
    const weft__layer *first[2] = {NULL}; /* full attention, and with a window */
    for (int64_t i = 0; i < c->num_hidden_layers; i++) {
        out[i] = (weft__layer){
            .index = i,
            .head_dim = c->head_dim,
            .n_kv_heads = c->num_key_value_heads,
            .intermediate_size = c->intermediate_size,
            .source = i,
            .n_caches = 1,
        };
        const weft_status status = read_layer(config, c, windows, architecture, &out[i]);
        if (status != WEFT_OK)
            return status;
        const weft__layer **of_kind = &first[out[i].window > 0];
        if (*of_kind == NULL)
            *of_kind = &out[i];
        if ((*of_kind)->head_dim != out[i].head_dim)
            return weft_fail(WEFT_INVALID,
                             "%s: heads of layers %lld and %lld: %lld and %lld "
                             "elements, expected as many",
                             weft_config_where(config), (long long)(*of_kind)->index, (long long)i,
                             (long long)(*of_kind)->head_dim, (long long)out[i].head_dim);
    }
    for (int64_t i = 1; i < c->num_hidden_layers; i++)
        out[i].cache = out[i - 1].cache + out[i - 1].n_caches;
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        out[out[i].source].is_source = out[out[i].source].is_source || out[i].source != i;
    return WEFT_OK;
}
