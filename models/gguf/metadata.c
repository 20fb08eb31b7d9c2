/* models/gguf/metadata.c -- writes a model's configuration as GGUF metadata, from its modules and
 * its configuration. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "models/block.h"
#include "models/config.h"
#include "models/gguf/arch.h"
#include "weft/ops.h"

/* ---- values --------------------------------------------------------------------------------- */

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

void weft__gguf_put_bool(weft__gguf_facts *f, const char *name, bool x)
{
    bool *at = (bool *)&f->values.integers[f->values.n];
    *at = x;
    put(f, name, WEFT_GGUF_BOOL)->data = at;
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

weft_gguf_string *weft__gguf_put_texts(weft__gguf_facts *f, const char *name, int64_t n)
{
    weft_gguf_string *list = put_list(f, name, WEFT_GGUF_STRING, n, sizeof *list);
    if (list)
        f->values.values[f->values.n - 1].strings = list;
    return list;
}

typedef int64_t of_layer(const weft__gguf_facts *f, const weft__layer *layer);

static int64_t width_of(const weft__gguf_facts *f, const weft__layer *layer)
{
    (void)f;
    return layer->intermediate_size;
}

static int64_t kv_heads_of(const weft__gguf_facts *f, const weft__layer *layer)
{
    (void)f;
    return layer->linear ? 0 : layer->n_kv_heads;
}

/* Writes one number if all layers are equal, else a list. */
static weft_status put_by_layer(weft__gguf_facts *f, const char *name, of_layer *value)
{
    bool alike = true;
    for (int64_t i = 1; i < f->n_layers; i++)
        alike = alike && value(f, &f->decoder.layers[i]) == value(f, f->decoder.layers);
    if (alike) {
        weft__gguf_put_integer(f, name, value(f, f->decoder.layers));
        return WEFT_OK;
    }
    uint32_t *list = put_list(f, name, WEFT_GGUF_UINT32, f->n_layers, sizeof *list);
    for (int64_t i = 0; list && i < f->n_layers; i++)
        list[i] = (uint32_t)value(f, &f->decoder.layers[i]);
    return list ? WEFT_OK : weft_error_status();
}

void weft__gguf_facts_release(weft__gguf_facts *f)
{
    for (int i = 0; i < f->values.n; i++)
        weft_free(f->values.lists[i]);
    for (int i = 0; i < 2; i++)
        weft_drop(f->linears[i]);
    weft_free(f->own);
    weft_free(f->layers);
}

/* ---- facts from the modules ------------------------------------------------------------------ */

weft_status weft__gguf_refuse(const weft__gguf_facts *f, const char *what)
{
    return weft_fail(WEFT_UNSUPPORTED, "%s: %s is unsupported in GGUF files of %s models", f->where,
                     what, f->arch->name);
}

static double query_factor(const weft__gguf_facts *f)
{
    const weft__decoder_config *c = f->decoder.config;
    const double size = f->n_layers == f->arch->wide_layers
                            ? (double)c->hidden_size / (double)f->heads
                            : (double)f->head_dim;
    const bool own = f->arch->own_scale || f->arch->latents;
    const double factor = c->attention_scale == 0 || own ? 1
                          : f->arch->scale != 0          ? c->attention_scale / f->arch->scale
                                                         : c->attention_scale * sqrt(size);
    return fabs(factor - 1) < 1e-12 ? 1 : factor;
}

/* Readers have the family's usual activation. */
static weft_status check_activation(const weft__gguf_facts *f)
{
    const char *usual = "silu";
    for (int i = 0; i < f->family->n_fields; i++) {
        const weft_config_field *field = &f->family->fields[i];
        if (field->type == WEFT_CONFIG_STRING &&
            field->offset == offsetof(weft__decoder_config, hidden_act))
            usual = field->text; /* the last one */
    }
    return weft__gate_find(f->decoder.config->hidden_act) == weft__gate_find(usual)
               ? WEFT_OK
               : weft__gguf_refuse(f, "another activation");
}

weft_status weft__gguf_facts_of(weft_model *model, const char *where, bool whole,
                                weft__gguf_facts *out)
{
    const weft_model_family *family = weft_model_family_of(model);
    *out = (weft__gguf_facts){.model = model,
                              .config = weft_model_config(model),
                              .family = family->own,
                              .arch = weft__gguf_arch_of(family),
                              .where = where};
    if (out->arch == NULL)
        return weft_fail(WEFT_UNSUPPORTED, "%s: %s models have no GGUF architecture", where,
                         family->model_type);
    if (out->arch->describe == NULL) {
        out->decoder = weft__decoder_facts_of(weft_model_module(model));
        if (check_activation(out) != WEFT_OK)
            return weft_error_status();
    } else if (out->arch->describe(out) != WEFT_OK)
        return weft_error_status();
    out->n_layers = out->decoder.config->num_hidden_layers;
    out->heads = out->decoder.config->num_attention_heads;
    out->kv_heads = out->decoder.layers[0].n_kv_heads;
    for (int64_t i = out->n_layers - 1; i >= 0; i--) {
        const weft__layer *layer = &out->decoder.layers[i];
        out->windowed = layer->window > 0 ? layer : out->windowed;
        /* If there are both kinds of layers, those without a window determine it. */
        out->head_dim = layer->window == 0 || out->head_dim == 0 ? layer->head_dim : out->head_dim;
    }
    while (out->arch->next && !out->arch->fits(out))
        out->arch = out->arch->next;
    out->query_factor = query_factor(out);
    return weft__gguf_find_head(out, whole);
}

bool weft__gguf_name(const weft__gguf_facts *f, const char *path, char *out, size_t size)
{
    static const char shared[] = "_shexp";
    if (!weft__name_to_gguf(f->family, path, out, size))
        return false;
    char *at = f->decoder.config->num_experts > 0 ? NULL : strstr(out, shared);
    if (at)
        memmove(at, at + strlen(shared), strlen(at + strlen(shared)) + 1);
    return true;
}

/* ---- rotation ------------------------------------------------------------------------------- */

void weft__gguf_put_divisors(weft__gguf_facts *f, const char *name, weft_array *divisors)
{
    f->divisor_names[f->n_divisors] = name;
    f->divisors[f->n_divisors++] = divisors;
}

/* Those of llama3's rule. */
static void put_llama3(weft__gguf_facts *f, weft_rope_options o)
{
    double amplitude;
    weft_array *scaled = weft_rope_frequencies(&o, &amplitude);
    o.kind = WEFT_ROPE_DEFAULT;
    weft_array *plain = weft_rope_frequencies(&o, &amplitude);
    weft__gguf_put_divisors(f, WEFT__GGUF_DIVISORS, weft_divide(plain, scaled));
}

void weft__gguf_put_yarn(weft__gguf_facts *f, const weft_rope_options *o)
{
    weft__gguf_put_text(f, "rope.scaling.type", "yarn");
    weft__gguf_put_number(f, "rope.scaling.factor", o->factor);
    weft__gguf_put_integer(f, "rope.scaling.original_context_length", o->original_max_position);
    weft__gguf_put_number(f, "rope.scaling.yarn_beta_fast", o->beta_fast != 0 ? o->beta_fast : 32);
    weft__gguf_put_number(f, "rope.scaling.yarn_beta_slow", o->beta_slow != 0 ? o->beta_slow : 1);
}

/* Readers multiply what a file says of the amplitude by the usual one of yarn, and of the bounds
 * have these. */
static bool is_usual_yarn(const weft_rope_options *o)
{
    if (o->no_truncate || (o->beta_fast != 0 && o->beta_fast != 32) ||
        (o->beta_slow != 0 && o->beta_slow != 1))
        return false;
    return o->mscale == 0 && (o->attention_factor == 0 ||
                              fabs(o->attention_factor - (1 + 0.1 * log(o->factor))) < 1e-6);
}

weft_status weft__gguf_put_scaling(weft__gguf_facts *f, const weft_rope_options *o)
{
    switch (o->kind) {
    case WEFT_ROPE_DEFAULT:
        return WEFT_OK;
    case WEFT_ROPE_LLAMA3:
        if (!f->arch->divisors)
            break;
        put_llama3(f, *o);
        return WEFT_OK;
    case WEFT_ROPE_LINEAR:
        weft__gguf_put_text(f, "rope.scaling.type", "linear");
        weft__gguf_put_number(f, "rope.scaling.factor", o->factor);
        return WEFT_OK;
    case WEFT_ROPE_YARN:
        if (!is_usual_yarn(o))
            break;
        weft__gguf_put_yarn(f, o);
        return WEFT_OK;
    default:
        break;
    }
    return weft__gguf_refuse(f, "this scaling of the rotary embedding");
}

/* The base of layers with a window, which the format has no scaling for. */
static weft_status put_second_rotation(weft__gguf_facts *f)
{
    const weft_rope_options *o = f->decoder.ropes[1];
    if (o->kind != WEFT_ROPE_DEFAULT || (o->partial != 0 && o->partial != 1))
        return weft__gguf_refuse(f, "a scaled rotary embedding of layers with a window");
    weft__gguf_put_number(f, "rope.freq_base_swa", o->theta);
    if (f->arch->by_layer)
        weft__gguf_put_integer(f, "rope.dimension_count_swa", f->windowed->head_dim);
    return WEFT_OK;
}

static weft_status put_rope(weft__gguf_facts *f)
{
    weft_rope_options o = *f->decoder.ropes[0];
    /* Readers rotate the first elements of a head, unless its rows are in pairs. */
    const bool share =
        o.partial > 0 && o.partial < 1 && !f->arch->permuted && o.kind != WEFT_ROPE_PROPORTIONAL;
    const int64_t rotated =
        weft_config_int(f->config, "rope_dimension_count",
                        share ? (int64_t)((double)f->head_dim * o.partial) : f->head_dim);
    weft__gguf_put_number(f, "rope.freq_base", o.theta);
    weft__gguf_put_integer(f, "rope.dimension_count", rotated);
    weft_status status = f->arch->two_rotations && f->windowed ? put_second_rotation(f) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    if (f->arch->write_scaling)
        return f->arch->write_scaling(f, &o);
    if (rotated == f->head_dim && o.partial != 0 && o.partial != 1)
        return weft__gguf_refuse(f, "this scaling of the rotary embedding");
    return weft__gguf_put_scaling(f, &o);
}

/* ---- windows -------------------------------------------------------------------------------- */

static weft_status put_windows(weft__gguf_facts *f)
{
    const weft__gguf_windows can = f->arch->windows;
    bool all = true;
    for (int64_t i = 0; i < f->n_layers; i++)
        all = all && f->decoder.layers[i].window > 0;
    const int64_t window = f->windowed ? f->windowed->window : INT32_MAX;
    if (f->windowed == NULL && can != WEFT__GGUF_ALWAYS)
        return WEFT_OK;
    if (can == WEFT__GGUF_NO_WINDOWS || (can == WEFT__GGUF_ONE_WINDOW && !all))
        return weft__gguf_refuse(f, "a window on some of the layers");
    /* without windows, a window that is never reached */
    weft__gguf_put_integer(f, "attention.sliding_window",
                           f->windowed && f->arch->two_sided ? 2 * (window - 1) : window);
    if (can == WEFT__GGUF_ONE_WINDOW)
        return WEFT_OK;
    uint8_t *list = put_list(f, "attention.sliding_window_pattern", WEFT_GGUF_BOOL, f->n_layers, 1);
    for (int64_t i = 0; list && i < f->n_layers; i++)
        list[i] = f->decoder.layers[i].window > 0;
    return list ? WEFT_OK : weft_error_status();
}

static void put_experts(weft__gguf_facts *f)
{
    const weft__decoder_config *c = f->decoder.config;
    bool sparse = false;
    for (int64_t i = 0; i < f->n_layers; i++)
        sparse = sparse || f->decoder.layers[i].sparse;
    if (!sparse)
        return;
    weft__gguf_put_integer(f, "expert_count", c->num_experts);
    weft__gguf_put_integer(f, "expert_used_count", c->num_experts_per_tok);
    weft__gguf_put_integer(f, "expert_feed_forward_length", c->moe_intermediate_size);
}

weft_status weft__gguf_put_dense_layers(weft__gguf_facts *f)
{
    int64_t dense = 0;
    while (dense < f->n_layers && !f->decoder.layers[dense].sparse)
        dense++;
    for (int64_t i = dense; i < f->n_layers; i++) {
        if (!f->decoder.layers[i].sparse)
            return weft__gguf_refuse(f, "a layer without experts after one with experts");
    }
    if (dense == f->n_layers)
        return weft__gguf_refuse(f, "a model without layers of experts");
    weft__gguf_put_integer(f, "leading_dense_block_count", dense);
    return WEFT_OK;
}

/* ---- all metadata ---------------------------------------------------------------------------- */

static weft_status put_latents(weft__gguf_facts *f)
{
    const weft__latent_config *l = &f->decoder.config->latent;
    const bool absorbed = f->arch->latents == WEFT__GGUF_ABSORBED;
    const int64_t R = l->kv_lora_rank, rotated = l->qk_rope_head_dim,
                  key = l->qk_nope_head_dim + rotated;
    if (l->q_lora_rank > 0)
        weft__gguf_put_integer(f, "attention.q_lora_rank", l->q_lora_rank);
    weft__gguf_put_integer(f, "attention.kv_lora_rank", R);
    weft__gguf_put_integer(f, "attention.head_count_kv", absorbed ? 1 : f->heads);
    weft__gguf_put_integer(f, "attention.key_length", absorbed ? R + rotated : key);
    weft__gguf_put_integer(f, "attention.value_length", absorbed ? R : l->v_head_dim);
    if (absorbed) {
        weft__gguf_put_integer(f, "attention.key_length_mla", key);
        weft__gguf_put_integer(f, "attention.value_length_mla", l->v_head_dim);
    }
    return WEFT_OK;
}

static weft_status put_heads(weft__gguf_facts *f)
{
    weft__gguf_put_integer(f, "attention.key_length", f->head_dim);
    weft__gguf_put_integer(f, "attention.value_length", f->head_dim);
    return put_by_layer(f, "attention.head_count_kv",
                        f->arch->kv_heads ? f->arch->kv_heads : kv_heads_of);
}

static weft_status put_sizes(weft__gguf_facts *f)
{
    const weft_model_info *info = weft_model_info_of(f->model);
    const int64_t most = f->arch->describe ? info->max_positions
                                           : weft_config_int(f->config, "max_position_embeddings",
                                                             info->max_positions);
    weft__gguf_put_integer(f, "vocab_size", info->vocab_size);
    weft__gguf_put_integer(f, "context_length", most > 0 ? most : 2048);
    weft__gguf_put_integer(f, "embedding_length", info->hidden_size);
    weft__gguf_put_integer(f, "block_count", f->n_layers);
    weft_status status =
        put_by_layer(f, "feed_forward_length", f->arch->width ? f->arch->width : width_of);
    weft__gguf_put_integer(f, "attention.head_count", f->heads);
    if (status == WEFT_OK)
        status = f->arch->latents ? put_latents(f) : put_heads(f);
    weft__gguf_put_number(f, weft__gguf_epsilon(f->arch),
                          f->arch->layer_norms ? f->decoder.config->layer_norm_eps
                                               : f->decoder.config->rms_norm_eps);
    return status;
}

/* A tied matrix is written twice where readers need both. */
static weft_status check_parts(weft__gguf_facts *f)
{
    const weft__decoder_config *c = f->decoder.config;
    const bool tied = weft_model_info_of(f->model)->tied;
    if (!f->arch->describe && !f->arch->biases && (c->output_bias || c->mlp_bias))
        return weft__gguf_refuse(f, "a bias of o_proj or of the MLP");
    if (!tied && f->arch->output == WEFT__GGUF_OUTPUT_NEVER)
        return weft__gguf_refuse(f, "an output matrix of its own");
    f->untied = tied && f->arch->output == WEFT__GGUF_OUTPUT_ALWAYS;
    return WEFT_OK;
}

weft_status weft__gguf_describe(weft__gguf_facts *f)
{
    weft_status status = check_parts(f);
    if (status == WEFT_OK)
        status = put_sizes(f);
    if (status == WEFT_OK && !f->arch->unrotated)
        status = put_rope(f);
    if (status == WEFT_OK)
        status = put_windows(f);
    if (status == WEFT_OK)
        put_experts(f);
    if (status == WEFT_OK && f->head)
        status = weft__gguf_put_head(f);
    return status == WEFT_OK && f->arch->write ? f->arch->write(f) : status;
}
