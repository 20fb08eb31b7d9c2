/* models/gguf/metadata.c -- writes a model's configuration as GGUF metadata, from its modules and
 * its configuration. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "models/block.h"
#include "models/config.h"
#include "models/gguf/save.h"
#include "weft/ops.h"

/* ---- values --------------------------------------------------------------------------------- */

/* Keys without the prefix "general." or "tokenizer." belong to the architecture. */
static weft_gguf_value *put(weft__gguf_facts *f, const char *name, weft_gguf_type type)
{
    weft__gguf_values *v = &f->values;
    const int i = v->n++;
    const bool integer = strncmp(name, "general.", 8) == 0 || strncmp(name, "tokenizer.", 10) == 0;
    snprintf(v->keys[i], WEFT__GGUF_KEY, "%s%s%s", integer ? "" : f->arch->name, integer ? "" : ".",
             name);
    v->values[i] = (weft_gguf_value){.key = v->keys[i], .type = type, .count = 1};
    return &v->values[i];
}

void weft__gguf_put_integer(weft__gguf_facts *f, const char *name, int64_t x)
{
    uint32_t *at = &f->values.integers[f->values.n];
    *at = (uint32_t)x;
    put(f, name, WEFT_GGUF_UINT32)->data = at;
}

void weft__gguf_put_signed(weft__gguf_facts *f, const char *name, int64_t x)
{
    weft__gguf_put_integer(f, name, x);
    f->values.values[f->values.n - 1].type = WEFT_GGUF_INT32; /* the same bits */
}

void weft__gguf_put_number(weft__gguf_facts *f, const char *name, double x)
{
    float *at = &f->values.numbers[f->values.n];
    *at = (float)x;
    put(f, name, WEFT_GGUF_FLOAT32)->data = at;
}

void weft__gguf_put_text(weft__gguf_facts *f, const char *name, const char *text)
{
    weft_gguf_string *at = &f->values.strings[f->values.n];
    *at = (weft_gguf_string){text, strlen(text)};
    put(f, name, WEFT_GGUF_STRING)->strings = at;
}

/* A list of n elements; NULL when out of memory. */
static void *put_list(weft__gguf_facts *f, const char *name, weft_gguf_type type, int64_t n,
                      size_t size)
{
    void *list = weft_calloc((size_t)n, size);
    if (list == NULL) {
        weft__out_of_memory(f->where, "its metadata");
        return NULL;
    }
    f->values.lists[f->values.n] = list;
    weft_gguf_value *v = put(f, name, type);
    v->is_array = true;
    v->count = n;
    v->data = list;
    return list;
}

weft_status weft__gguf_put_ids(weft__gguf_facts *f, const char *name, const int32_t *ids, int n)
{
    int32_t *list = put_list(f, name, WEFT_GGUF_INT32, n, sizeof *list);
    if (list == NULL)
        return weft_error_status();
    memcpy(list, ids, (size_t)n * sizeof *list);
    return WEFT_OK;
}

typedef int64_t of_layer(const weft__layer *layer);

static int64_t width_of(const weft__layer *layer)
{
    return layer->intermediate_size;
}

static int64_t kv_heads_of(const weft__layer *layer)
{
    return layer->n_kv_heads;
}

/* Writes one number if all layers are equal, else a list. */
static weft_status put_by_layer(weft__gguf_facts *f, const char *name, of_layer *value)
{
    bool alike = true;
    for (int64_t i = 1; i < f->n_layers; i++)
        alike = alike && value(f->layers[i]) == value(f->layers[0]);
    if (alike) {
        weft__gguf_put_integer(f, name, value(f->layers[0]));
        return WEFT_OK;
    }
    uint32_t *list = put_list(f, name, WEFT_GGUF_UINT32, f->n_layers, sizeof *list);
    for (int64_t i = 0; list && i < f->n_layers; i++)
        list[i] = (uint32_t)value(f->layers[i]);
    return list ? WEFT_OK : weft_error_status();
}

void weft__gguf_facts_release(weft__gguf_facts *f)
{
    for (int i = 0; i < f->values.n; i++)
        weft_free(f->values.lists[i]);
    weft_free(f->layers);
}

/* ---- facts from the modules ------------------------------------------------------------------ */

static bool is(const weft__gguf_facts *f, const char *arch)
{
    return strcmp(f->arch->name, arch) == 0;
}

static weft_status refuse(const weft__gguf_facts *f, const char *what)
{
    return weft_fail(WEFT_UNSUPPORTED, "%s: %s is unsupported in GGUF files of %s models", f->where,
                     what, f->arch->name);
}

/* The scale that the format's readers assume: from the size of a head or, in the largest Gemmas,
 * from the layer's width per head. Another scale is multiplied into the weights that produce the
 * queries. */
static void find_factor(weft__gguf_facts *f, double scale)
{
    const int64_t largest = is(f, "gemma2") ? 46 : is(f, "gemma3") ? 62 : -1;
    const double size = f->n_layers == largest
                            ? (double)weft_model_info_of(f->model)->hidden_size / (double)f->heads
                            : (double)f->head_dim;
    f->query_factor = scale == 0 || is(f, "gemma4") ? 1 : scale * sqrt(size);
    if (fabs(f->query_factor - 1) < 1e-12)
        f->query_factor = 1;
}

static weft_status inspect(weft__gguf_facts *f)
{
    double scale = 0;
    f->n_layers = weft_model_info_of(f->model)->n_layers;
    f->layers = weft_calloc(f->n_layers > 0 ? (size_t)f->n_layers : 1, sizeof *f->layers);
    if (f->layers == NULL)
        return weft__out_of_memory(f->where, NULL);
    for (int64_t i = 0; i < f->n_layers; i++) {
        char path[64];
        snprintf(path, sizeof path, "model.layers.%lld.self_attn", (long long)i);
        f->layers[i] = weft__attention_layer(weft_nn_find_module(weft_model_module(f->model), path),
                                             &f->heads, &scale);
        if (f->layers[i] == NULL)
            return weft_fail(WEFT_UNSUPPORTED, "%s: expected layers of Weft's decoder", f->where);
        if (f->layers[i]->window > 0)
            f->window = f->layers[i]->window;
        /* If there are both kinds of layers, those without a window determine head_dim. */
        if (i == 0 || f->layers[i]->window == 0)
            f->head_dim = f->layers[i]->head_dim;
    }
    if (f->n_layers < 1)
        return weft_fail(WEFT_UNSUPPORTED, "%s: a model without layers", f->where);
    f->kv_heads = f->layers[0]->n_kv_heads;
    find_factor(f, scale);
    return WEFT_OK;
}

weft_status weft__gguf_facts_of(weft_model *model, const char *where, weft__gguf_facts *out)
{
    const char *model_type = weft_model_family_of(model)->model_type;
    const weft_config *config = weft_model_config(model);
    *out = (weft__gguf_facts){.model = model,
                              .config = config,
                              .arch = weft__gguf_arch_of(config, model_type),
                              .where = where};
    return out->arch ? inspect(out)
                     : weft_fail(WEFT_UNSUPPORTED, "%s: %s models have no GGUF architecture", where,
                                 model_type);
}

/* ---- rotation ------------------------------------------------------------------------------- */

/* The frequency divisors of llama3's rule. */
static void put_divisors(weft__gguf_facts *f, weft_rope_options o)
{
    double amplitude;
    weft_array *scaled = weft_rope_frequencies(&o, &amplitude);
    o.kind = WEFT_ROPE_DEFAULT;
    f->rope_divisors = weft_divide(weft_rope_frequencies(&o, &amplitude), scaled);
}

/* Gemma 4 rotates only a share of a head: the other frequencies get huge divisors. */
static void put_share(weft__gguf_facts *f, double partial)
{
    const int64_t half = f->head_dim / 2;
    const int64_t turned = (int64_t)(partial * (double)f->head_dim / 2);
    weft_array *ones = weft_full(WEFT_DIMS(turned), 1, WEFT_FLOAT32);
    weft_array *parts[] = {ones, weft_full(WEFT_DIMS(half - turned), 1e30, WEFT_FLOAT32)};
    f->rope_divisors = weft_concatenate(parts, 2, 0);
}

static weft_status put_yarn(weft__gguf_facts *f, const weft_rope_options *o)
{
    weft__gguf_put_text(f, "rope.scaling.type", "yarn");
    weft__gguf_put_number(f, "rope.scaling.factor", o->factor);
    weft__gguf_put_integer(f, "rope.scaling.original_context_length", o->original_max_position);
    weft__gguf_put_number(f, "rope.scaling.yarn_beta_fast", o->beta_fast != 0 ? o->beta_fast : 32);
    weft__gguf_put_number(f, "rope.scaling.yarn_beta_slow", o->beta_slow != 0 ? o->beta_slow : 1);
    if (o->attention_factor != 0)
        weft__gguf_put_number(f, "rope.scaling.attn_factor", o->attention_factor);
    return WEFT_OK;
}

/* The amplitude of Ministral's rotation is mscale over mscale_all_dim; readers assume 1 for the
 * former. */
static weft_status put_mistral3(weft__gguf_facts *f, const weft_rope_options *o)
{
    weft__json rope;
    double beta = 0;
    weft_status status = weft__config_rope_object(f->config, &rope);
    if (status == WEFT_OK)
        status = weft__json_find_number(&rope, "llama_4_scaling_beta", &beta);
    if (status != WEFT_OK)
        return status;
    if (o->kind != WEFT_ROPE_YARN || o->no_truncate || o->mscale != 1 || o->mscale_all_dim == 0 ||
        o->attention_factor != 0)
        return refuse(f, "this scaling of the rotary embedding");
    weft__gguf_put_number(f, "rope.scaling.yarn_log_multiplier", o->mscale_all_dim);
    weft__gguf_put_number(f, "attention.temperature_scale", beta);
    return put_yarn(f, o);
}

static weft_status put_scaling(weft__gguf_facts *f, const weft_rope_options *o)
{
    if (is(f, "mistral3"))
        return put_mistral3(f, o);
    if (is(f, "gemma4") && (o->kind == WEFT_ROPE_PROPORTIONAL || o->kind == WEFT_ROPE_DEFAULT)) {
        put_share(f, o->kind == WEFT_ROPE_DEFAULT || o->partial == 0 ? 1 : o->partial);
        return WEFT_OK;
    }
    if (o->kind == WEFT_ROPE_DEFAULT && (o->partial == 0 || o->partial == 1))
        return WEFT_OK;
    if (o->kind == WEFT_ROPE_LLAMA3) {
        put_divisors(f, *o);
        return WEFT_OK;
    }
    if (o->kind == WEFT_ROPE_LINEAR) {
        weft__gguf_put_text(f, "rope.scaling.type", "linear");
        weft__gguf_put_number(f, "rope.scaling.factor", o->factor);
        return WEFT_OK;
    }
    if (o->kind == WEFT_ROPE_YARN && !o->no_truncate && o->mscale == 0)
        return put_yarn(f, o);
    return refuse(f, "this scaling of the rotary embedding");
}

static const weft__layer *windowed(const weft__gguf_facts *f)
{
    for (int64_t i = 0; i < f->n_layers; i++) {
        if (f->layers[i]->window > 0)
            return f->layers[i];
    }
    return NULL;
}

static weft_status put_rope(weft__gguf_facts *f)
{
    weft_rope_options o, sliding;
    const bool two = is(f, "gemma3") || is(f, "gemma4"); /* rotations */
    weft_status status = weft_config_rope(f->config, f->head_dim, two ? 1e6 : 1e4, &o);
    if (status != WEFT_OK)
        return status;
    weft__gguf_put_number(f, "rope.freq_base", o.theta);
    weft__gguf_put_integer(f, "rope.dimension_count",
                           weft_config_int(f->config, "rope_dimension_count", f->head_dim));
    if (weft_config_has(f->config, "rope_dimension_count"))
        o.partial = 0; /* which that number says */
    const weft__layer *other = two ? windowed(f) : NULL;
    if (other) {
        status = weft__config_sliding_rope(f->config, other->head_dim, o.theta, 1e4, &sliding);
        if (status != WEFT_OK)
            return status;
        if (sliding.kind != WEFT_ROPE_DEFAULT || (sliding.partial != 0 && sliding.partial != 1))
            return refuse(f, "a scaled rotary embedding of layers with a window");
        weft__gguf_put_number(f, "rope.freq_base_swa", sliding.theta);
        if (is(f, "gemma4"))
            weft__gguf_put_integer(f, "rope.dimension_count_swa", other->head_dim);
    }
    return put_scaling(f, &o);
}

/* ---- windows -------------------------------------------------------------------------------- */

static weft_status put_windows(weft__gguf_facts *f)
{
    bool all = true;
    for (int64_t i = 0; i < f->n_layers; i++)
        all = all && f->layers[i]->window > 0;
    if (f->window == 0 && !is(f, "gemma4"))
        return WEFT_OK;
    if (!f->arch->sandwich && !(all && is(f, "llama")))
        return refuse(f, "a window on some of the layers");
    /* without windows, a window that is never reached */
    weft__gguf_put_integer(f, "attention.sliding_window", f->window > 0 ? f->window : INT32_MAX);
    if (!f->arch->sandwich)
        return WEFT_OK;
    uint8_t *list = put_list(f, "attention.sliding_window_pattern", WEFT_GGUF_BOOL, f->n_layers, 1);
    for (int64_t i = 0; list && i < f->n_layers; i++)
        list[i] = f->layers[i]->window > 0;
    return list ? WEFT_OK : weft_error_status();
}

/* ---- families ------------------------------------------------------------------------------- */

static void put_gemma(weft__gguf_facts *f)
{
    const double attention = weft_config_double(f->config, "attn_logit_softcapping", 0);
    if (attention > 0)
        weft__gguf_put_number(f, "attn_logit_softcapping", attention);
    /* 0 is written too, since readers have another default. */
    weft__gguf_put_number(f, "final_logit_softcapping", weft_model_info_of(f->model)->softcap);
}

static void put_gemma4(weft__gguf_facts *f)
{
    weft_array **gate =
        weft_nn_find(weft_model_module(f->model), "model.layers.0.per_layer_input_gate.weight");
    const weft__layer *other = windowed(f);
    int64_t shared = 0;
    for (int64_t i = 0; i < f->n_layers; i++)
        shared += f->layers[i]->source != i;
    weft__gguf_put_integer(f, "attention.shared_kv_layers", shared);
    weft__gguf_put_integer(f, "embedding_length_per_layer_input", gate ? weft_dim(*gate, 0) : 0);
    weft__gguf_put_integer(f, "attention.key_length_swa", other ? other->head_dim : f->head_dim);
    weft__gguf_put_integer(f, "attention.value_length_swa", other ? other->head_dim : f->head_dim);
}

/* Absent scalars default to 1. */
static void put_minicpm(weft__gguf_facts *f)
{
    const weft_config *c = f->config;
    const double E = (double)weft_model_info_of(f->model)->hidden_size;
    const double embedding = weft_config_double(c, "scale_emb", 0);
    const double depth = weft_config_double(c, "scale_depth", 0);
    const double base = weft_config_double(c, "dim_model_base", 0);
    weft__gguf_put_number(f, "embedding_scale", embedding != 0 ? embedding : 1);
    weft__gguf_put_number(f, "residual_scale", depth != 0 ? depth / sqrt((double)f->n_layers) : 1);
    weft__gguf_put_number(f, "logit_scale", base != 0 ? E / base : 1);
}

/* Writes the experts of the first layer that has them. */
static weft_status put_experts(weft__gguf_facts *f)
{
    static const char *const places[] = {"mlp.switch_mlp", "experts.switch_glu"};
    const weft_config *c = f->config;
    weft_array **down = NULL; /* (experts, E, F) */
    for (int64_t i = 0; i < f->n_layers && down == NULL; i++) {
        for (int j = 0; j < 2 && down == NULL; j++) {
            char path[96];
            snprintf(path, sizeof path, "model.layers.%lld.%s.down_proj.weight", (long long)i,
                     places[j]);
            down = weft_nn_find(weft_model_module(f->model), path);
        }
    }
    if (down == NULL)
        return WEFT_OK;
    if (is(f, "qwen3moe") && !weft_config_bool(c, "norm_topk_prob", false))
        return refuse(f, "norm_topk_prob false");
    weft__gguf_put_integer(f, "expert_count", weft_dim(*down, 0));
    weft__gguf_put_integer(f, "expert_used_count",
                           is(f, "gemma4")
                               ? weft_config_int(c, "top_k_experts", 8)
                               : weft_config_int(c, "num_experts_per_tok", is(f, "llama") ? 2 : 8));
    weft__gguf_put_integer(f, "expert_feed_forward_length", weft_dim(*down, 2));
    return WEFT_OK;
}

/* ---- all metadata ---------------------------------------------------------------------------- */

static weft_status put_sizes(weft__gguf_facts *f)
{
    const weft_model_info *info = weft_model_info_of(f->model);
    const int64_t most = weft_config_int(f->config, "max_position_embeddings", info->max_positions);
    weft__gguf_put_integer(f, "vocab_size", info->vocab_size);
    weft__gguf_put_integer(f, "context_length", most > 0 ? most : 2048);
    weft__gguf_put_integer(f, "embedding_length", info->hidden_size);
    weft__gguf_put_integer(f, "block_count", f->n_layers);
    weft_status status = put_by_layer(f, "feed_forward_length", width_of);
    weft__gguf_put_integer(f, "attention.head_count", f->heads);
    if (status == WEFT_OK)
        status = put_by_layer(f, "attention.head_count_kv", kv_heads_of);
    weft__gguf_put_integer(f, "attention.key_length", f->head_dim);
    weft__gguf_put_integer(f, "attention.value_length", f->head_dim);
    weft__gguf_put_number(f, "attention.layer_norm_rms_epsilon",
                          weft_config_double(f->config, "rms_norm_eps", 1e-6));
    return status;
}

weft_status weft__gguf_describe(weft__gguf_facts *f)
{
    weft_status status = put_sizes(f);
    if (status == WEFT_OK)
        status = put_rope(f);
    if (status == WEFT_OK)
        status = put_windows(f);
    if (status == WEFT_OK)
        status = put_experts(f);
    if (f->arch->sandwich)
        put_gemma(f);
    if (is(f, "gemma4"))
        put_gemma4(f);
    if (is(f, "minicpm"))
        put_minicpm(f);
    return status;
}
