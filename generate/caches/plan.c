/* generate/caches/plan.c -- plans the memory of a model's KV caches, and creates them. */
#include "generate/caches/plan.h"

#include <math.h>

#include "core/options.h"
#include "generate/caches/pages.h"
#include "generate/caches/ring.h"
#include "models/recurrent.h"
#include "weft/op.h"
#include "weft/tool/data.h"

enum {
    SINKS = 4,          /* by default */
    LEAST_CONTEXT = 256 /* tokens, even if memory is short */
};

weft_status weft__cache_options_check(const weft_cache_options *o, int64_t *sinks)
{
    const int64_t context = o->max_context;
    *sinks = weft__count_or_default(o->sink_tokens,
                                    context > 0 && context < 2 * SINKS ? context / 2 : SINKS);
    const int bits = o->kv_bits;
    if (bits != 0 && bits != 32 && bits != 16 && bits != 8 && bits != 4)
        return weft_fail(WEFT_INVALID, "caches: kv_bits: expected 32, 16, 8, 4 or 0, got %d", bits);
    if (o->trim < 0)
        return weft_fail(WEFT_INVALID, "caches: trim: expected 0 or more, got %lld",
                         (long long)o->trim);
    if (context > INT32_MAX / 2 || o->trim > INT32_MAX / 2)
        return weft_fail(WEFT_INVALID, "caches: expected fewer than %d tokens, got %lld",
                         INT32_MAX / 2, (long long)(context > o->trim ? context : o->trim));
    if (context > 0 && *sinks >= context)
        return weft_fail(WEFT_INVALID,
                         "caches: sink_tokens: expected fewer than max_context, %lld, got %lld",
                         (long long)context, (long long)*sinks);
    return WEFT_OK;
}

/* ---- bits ----------------------------------------------------------------------------------- */

static weft_status find_encoded(void *context, const weft_nn_item *item)
{
    bool *found = context;
    *found = *found || weft_encoding_of(*item->slot->address) != NULL;
    return WEFT_OK;
}

int weft__kv_bits(weft_model *model, int bits)
{
    bool quantized = false;
    if (bits == 0)
        (void)weft_nn_visit(weft_model_module(model), find_encoded, &quantized); /* cannot fail */
    return bits != 0 ? bits : quantized ? 16 : 32;
}

weft_cache_options weft__cache_options_of(weft_model *model, const weft_cache_options *options)
{
    weft_cache_options o = options ? *options : (weft_cache_options){0};
    o.kv_bits = weft__kv_bits(model, o.kv_bits);
    return o;
}

bool weft__cache_options_same(const weft_cache_options *a, const weft_cache_options *b)
{
    return a->max_context == b->max_context && a->sink_tokens == b->sink_tokens &&
           a->kv_bits == b->kv_bits && a->trim == b->trim && a->whole == b->whole &&
           a->batch == b->batch;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Memory in bytes, as doubles so that no options cause an overflow. */
typedef struct need {
    weft_device *device; /* NULL: all */
    double fixed;        /* for layers whose window is full */
    double token;        /* per token, for the other layers */
    int64_t parameters;
} need;

/* Bytes per token in a layer's cache. */
static double token_bytes(const weft_layer_attention *a, const weft_cache_options *o)
{
    const double heads =
        (a->latent > 0 ? 1 : 2) * (double)a->n_kv_heads * (double)(o->batch > 0 ? o->batch : 1);
    return heads * (double)weft__store_bytes(o->kv_bits, a->head_dim, a->dtype);
}

static double state_bytes(const weft_layer_attention *a, const weft_cache_options *o)
{
    double elements = 0;
    for (int i = 0; i < a->n_states; i++) {
        double n = 1;
        for (int k = 0; k < a->states[i].n; k++)
            n *= (double)a->states[i].at[k];
        elements += n;
    }
    return elements * sizeof(float) * (double)(o->batch > 0 ? o->batch : 1);
}

static weft_status count(void *context, const weft_nn_item *item)
{
    need *n = context;
    if (n->device == NULL || weft_device_of(*item->slot->address) == n->device)
        n->parameters += weft_nbytes(*item->slot->address);
    return WEFT_OK;
}

/* Bytes for the layers on a device whose caches hold `context` tokens. */
static need need_on(weft_model *model, const weft_cache_options *o, weft_device *device,
                    int64_t context)
{
    const weft_model_family *family = weft_model_family_of(model);
    need n = {.device = device};
    for (int64_t i = 0; i < weft_model_info_of(model)->n_caches; i++) {
        weft_layer_attention a;
        family->attention(weft_model_module(model), i, &a);
        if (device && a.device != device)
            continue;
        if (a.n_states > 0)
            n.fixed += state_bytes(&a, o);
        else if (a.window > 0 && !o->whole && (context <= 0 || a.window <= context))
            n.fixed += token_bytes(&a, o) * ((double)a.window + (double)o->trim);
        else
            n.token += token_bytes(&a, o);
    }
    return n;
}

/* The number of tokens, at most `context`, that fit on a device of known memory beside `rows` full
 * windows and states. */
static int64_t fitting(weft_model *model, const weft_cache_options *o, weft_device *device,
                       int64_t context, int64_t rows)
{
    const int64_t memory = weft_device_memory(device), limit = weft_memory_limit();
    need n = need_on(model, o, device, context);
    if (memory == 0 || n.token == 0 ||
        weft_nn_visit(weft_model_module(model), count, &n) != WEFT_OK)
        return context;
    const int64_t active = weft_memory_active();
    double room = 0.85 * (double)(memory < limit ? memory : limit);
    room -= (double)rows * n.fixed + (double)(active > n.parameters ? active : n.parameters);
    const double fit = room / n.token - (double)o->trim;
    return fit < (double)context ? (int64_t)fmax(fit, 0) : context;
}

/* As many of `context` tokens as fit on the devices of the model's layers. */
static int64_t fitting_on_all(weft_model *model, const weft_cache_options *o, int64_t context,
                              int64_t rows)
{
    const weft_model_family *family = weft_model_family_of(model);
    int64_t fit = context;
    weft_device *before = NULL;
    for (int64_t i = 0; family->attention && i < weft_model_info_of(model)->n_caches; i++) {
        weft_layer_attention a;
        family->attention(weft_model_module(model), i, &a);
        const int64_t here =
            a.device != before ? fitting(model, o, a.device, context, rows) : context;
        fit = here < fit ? here : fit;
        before = a.device;
    }
    return fit;
}

int64_t weft__cache_fitting(weft_model *model, const weft_cache_options *options, int64_t rows)
{
    const weft_cache_options o = weft__cache_options_of(model, options);
    return fitting_on_all(model, &o, INT32_MAX / 2, rows);
}

/* The model's context length, or as much as fits. */
static int64_t default_context(weft_model *model, const weft_cache_options *o)
{
    const weft_model_info *info = weft_model_info_of(model);
    const int64_t context = info->max_positions > 0 ? info->max_positions : -1;
    int64_t fit = context > 0 ? fitting_on_all(model, o, context, 1) : context;
    if (fit == context)
        return context;
    fit = fit / LEAST_CONTEXT * LEAST_CONTEXT;
    fit = fit > LEAST_CONTEXT ? fit : LEAST_CONTEXT;
    return fit < context ? fit : context;
}

/* Converts to an integer, at most 2^62. */
static int64_t whole(double bytes)
{
    return (int64_t)fmin(bytes, 0x1p62);
}

weft_status weft_model_plan_caches(weft_model *model, const weft_cache_options *options,
                                   weft_cache_plan *out)
{
    weft_cache_options o = weft__cache_options_of(model, options);
    const bool chosen = o.max_context != 0;
    *out = (weft_cache_plan){.kv_bits = o.kv_bits};
    if (!chosen)
        o.max_context = default_context(model, &o);
    out->max_context = o.max_context > 0 ? o.max_context : -1;
    weft_status status = weft__cache_options_check(&o, &out->sink_tokens);
    if (status != WEFT_OK)
        return status;
    out->reduced = !chosen && o.max_context < weft_model_info_of(model)->max_positions;
    if (weft_model_family_of(model)->attention) {
        const need n = need_on(model, &o, NULL, o.max_context);
        out->token_bytes = whole(n.token);
        if (o.max_context > 0)
            out->context_bytes =
                whole(n.fixed + n.token * ((double)o.max_context + (double)o.trim));
    }
    return WEFT_OK;
}

int64_t weft_batch_cache_bytes(weft_model *model, int64_t rows, int64_t tokens)
{
    const int64_t pages = weft__pages_for(tokens),
                  room = weft__pages_room(1 + rows * pages); /* the first page is padding */
    const weft_cache_options o =
        weft__cache_options_of(model, &(weft_cache_options){.kv_bits = 32});
    if (weft_model_family_of(model)->attention == NULL)
        return 0;
    const need n = need_on(model, &o, NULL, pages * WEFT__PAGE);
    return whole(n.fixed * (double)rows + n.token * (double)(room * WEFT__PAGE));
}

/* ---- creating -------------------------------------------------------------------------------- */

static weft_cache *new_cache(weft_model *model, int64_t layer, const weft_cache_options *o)
{
    const weft_model_family *family = weft_model_family_of(model);
    weft_layer_attention a = {0};
    if (family->new_cache)
        return family->new_cache(weft_model_module(model), layer);
    if (family->attention)
        family->attention(weft_model_module(model), layer, &a);
    return a.n_states > 0 ? weft__recurrent_new(a.states, a.n_states)
                          : weft__ring_new(o, a.window, a.latent);
}

weft_cache **weft_model_new_caches(weft_model *model, const weft_cache_options *options)
{
    const int64_t n = weft_model_info_of(model)->n_caches;
    weft_cache_options o = weft__cache_options_of(model, options);
    weft_cache_plan plan;
    if (weft_model_info_of(model)->encoder) {
        weft_fail(WEFT_UNSUPPORTED, "%s models are encoders, which have no caches",
                  weft_model_family_of(model)->model_type);
        return NULL;
    }
    if (weft_model_plan_caches(model, &o, &plan) != WEFT_OK)
        return NULL;
    o.max_context = plan.max_context;
    weft_cache **caches = weft_calloc((size_t)(n > 0 ? n : 1), sizeof(weft_cache *));
    if (caches == NULL) {
        weft_fail(WEFT_MEMORY, "out of memory for %lld caches", (long long)n);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++) {
        caches[i] = new_cache(model, i, &o);
        if (caches[i] == NULL) {
            weft_model_free_caches(model, caches);
            return NULL;
        }
    }
    return caches;
}

void weft_model_free_caches(weft_model *model, weft_cache **caches)
{
    for (int64_t i = 0; caches && i < weft_model_info_of(model)->n_caches; i++)
        weft_cache_free(caches[i]);
    weft_free(caches);
}
