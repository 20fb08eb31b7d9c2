/* engine/native.c -- the native backend: model, tokenizer and chat template in this process. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/options.h"
#include "engine/engine.h"
#include "engine/turns.h"
#include "generate/generation.h"
#include "weft/memory.h"
#include "weft/nn_tools.h"
#include "weft/train.h"

typedef struct native {
    char *path, *adapter; /* adapter NULL: none */
    char *text;           /* path of the tokenizer, which may be the adapter's */
    weft_model *model;
    weft_tokenizer *tokenizer; /* NULL: none could be read */
    weft_chat *chat;           /* the same */
    weft_device *device;
    int64_t context;                 /* 0: the model's context length */
    weft_prompt_cache *prompt_cache; /* NULL: none */
    /* Tied fields of modules are set during a call of the model, so only one call may use the model
     * at a time. Other calls use it while a token is passed to its caller. */
    weft__turn_lock inside;
} native;

/* ---- loading -------------------------------------------------------------------------------- */

static void native_unload(void *state)
{
    native *n = state;
    weft_prompt_cache_free(n->prompt_cache);
    weft_model_free(n->model);
    weft_tokenizer_free(n->tokenizer);
    weft_chat_free(n->chat);
    weft__turn_lock_destroy(&n->inside);
    weft_free(n->path);
    weft_free(n->adapter);
    weft_free(n->text);
    weft_free(n);
}

static weft_status load(native *n, const weft_engine_options *o)
{
    weft_device *devices[WEFT_MODEL_DEVICES] = {weft_default_device()};
    int n_devices = 1;
    weft_status status =
        o->device ? weft_devices_get(o->device, devices, WEFT_MODEL_DEVICES, &n_devices) : WEFT_OK;
    n->device = devices[0];
    if (status != WEFT_OK || n->device == NULL)
        return status != WEFT_OK ? status : WEFT_DEVICE;
    if (n->path == NULL || (o->adapter != NULL && n->adapter == NULL))
        return weft__out_of_memory("engine", NULL);
    const weft_model_options options = {.dtype = o->dtype,
                                        .device = n->device,
                                        .devices = devices,
                                        .n_devices = n_devices,
                                        .gpu_layers = o->gpu_layers,
                                        .stream = o->stream,
                                        .quantize = o->quantize,
                                        .int8_activations = o->int8_activations};
    n->context = o->context;
    status = weft_model_load(n->path, &options, &n->model);
    if (status == WEFT_OK && o->adapter != NULL)
        status = weft_adapter_load_list(n->model, o->adapter, NULL);
    if (status == WEFT_OK && weft_model_info_of(n->model)->n_labels > 0)
        status = weft_fail(WEFT_UNSUPPORTED, "engine: %s is of a classifier: weft_classify uses it",
                           o->adapter != NULL ? o->adapter : n->path);
    if (status == WEFT_OK && o->prompt_cache_bytes != 0) {
        const weft_prompt_cache_options room = {
            .max_bytes = o->prompt_cache_bytes > 0 ? o->prompt_cache_bytes : 0};
        status = weft_prompt_cache_new(n->model, &room, &n->prompt_cache);
    }
    if (status == WEFT_OK)
        status = weft_adapter_tokenizer_path(n->path, o->adapter, &n->text);
    /* A model without tokenizer can still generate ids; requests with text report why it is
     * missing. */
    if (status == WEFT_OK && weft_tokenizer_load(n->text, &n->tokenizer) != WEFT_OK)
        n->tokenizer = NULL;
    if (status != WEFT_OK)
        return status;
    status = weft_adapter_chat(n->path, n->adapter, &n->chat);
    return status == WEFT_UNSUPPORTED ? WEFT_OK : status; /* a model may have no chat template */
}

static weft_status native_load(const char *path, const weft_engine_options *options, void **state)
{
    native *n = weft_calloc(1, sizeof *n);
    if (n == NULL)
        return weft__out_of_memory(path, NULL);
    weft__turn_lock_init(&n->inside);
    n->path = weft_strdup(path);
    n->adapter = options->adapter != NULL ? weft_strdup(options->adapter) : NULL;
    const weft_status status = load(n, options);
    if (status == WEFT_OK)
        *state = n;
    else
        native_unload(n);
    return status;
}

/* ---- describing the model -------------------------------------------------------------------- */

enum { MOST_BITS = 16 };

typedef struct weight_statistics {
    int64_t elements[MOST_BITS + 1], group[MOST_BITS + 1]; /* by bits */
    bool tied;
    double used, bytes; /* share of the experts used per token; bytes read per token */
} weight_statistics;

/* The bits of an encoding: its own number, or the digits in a GGUF type's name ("q4_k", "iq4_xs").
 */
static int bits_of(const weft_encoding *e)
{
    if (e->bits > 0)
        return e->bits;
    const char *c = e->name;
    while (*c != '\0' && !isdigit((unsigned char)*c))
        c++;
    return (int)strtol(c, NULL, 10);
}

/* Whether the path is a stack of experts, of which a token uses only a few. */
static bool is_of_experts(const char *path)
{
    return strstr(path, ".experts.") != NULL || strstr(path, ".switch_mlp.") != NULL;
}

static weft_status count(void *context, const weft_nn_item *item)
{
    weight_statistics *c = context;
    const weft_array *a = *item->slot->address;
    const weft_encoding *e = weft_encoding_of(a);
    const int bits = e != NULL ? bits_of(e) : 0;
    if (c->tied || strstr(item->path, "embed_tokens") == NULL)
        c->bytes += (double)weft_nbytes(a) * (is_of_experts(item->path) ? c->used : 1);
    if (bits > 0 && bits <= MOST_BITS) {
        c->elements[bits] += weft_size(a);
        c->group[bits] = e->block;
    }
    return WEFT_OK;
}

/* The share of experts used per token. The configuration keys differ between families. */
static double share_of_experts(const weft_config *config)
{
    static const char *const all[] = {"num_experts", "num_local_experts"};
    static const char *const some[] = {"num_experts_per_tok", "top_k_experts"};
    int64_t n = 0, k = 0;
    for (int i = 0; i < 2; i++) {
        n = n > 0 ? n : weft_config_int(config, all[i], 0);
        k = k > 0 ? k : weft_config_int(config, some[i], 0);
    }
    return n > 0 && k > 0 && k < n ? (double)k / (double)n : 1;
}

void weft_engine_describe(weft_model *model, weft_engine_info *out)
{
    const weft_model_info *info = weft_model_info_of(model);
    weight_statistics c = {.tied = info->tied, .used = share_of_experts(weft_model_config(model))};
    int most = 0;
    out->architecture = weft_model_family_of(model)->model_type;
    out->vocab_size = info->vocab_size;
    out->n_layers = info->n_layers;
    out->hidden_size = info->hidden_size;
    out->context_length = info->max_positions;
    (void)weft_nn_visit(weft_model_module(model), count, &c); /* always WEFT_OK */
    for (int bits = 1; bits <= MOST_BITS; bits++) {
        if (c.elements[bits] > 0 && c.elements[bits] >= c.elements[most])
            most = bits;
    }
    out->weight_bytes = (int64_t)c.bytes;
    out->quant_bits = most;
    out->quant_group = c.group[most];
}

static void native_info(void *state, weft_engine_info *out)
{
    const native *n = state;
    weft_engine_describe(n->model, out);
    out->tokenizer = n->tokenizer != NULL;
    out->chat_template = n->chat != NULL;
}

/* ---- texts ---------------------------------------------------------------------------------- */

/* Reports why the tokenizer is missing, by loading it again. */
static weft_status need_tokenizer(const native *n)
{
    weft_tokenizer *tokenizer;
    if (n->tokenizer != NULL)
        return WEFT_OK;
    if (weft_tokenizer_load(n->text, &tokenizer) == WEFT_OK)
        weft_tokenizer_free(tokenizer);
    char *why = weft_strdup(weft_error_message());
    weft_fail(WEFT_UNSUPPORTED, "engine: the model has no tokenizer: %s", why != NULL ? why : "");
    weft_free(why);
    return WEFT_UNSUPPORTED;
}

static weft_status need_chat(const native *n)
{
    weft_chat *chat;
    if (n->chat != NULL)
        return need_tokenizer(n);
    const weft_status status = weft_adapter_chat(n->path, n->adapter, &chat);
    if (status != WEFT_OK)
        return status;
    weft_chat_free(chat);
    return weft_fail(WEFT_UNSUPPORTED, "%s: it had no chat template when it was loaded", n->path);
}

static weft_status native_encode(void *state, const char *text, size_t length, unsigned flags,
                                 int32_t **ids, size_t *n_ids)
{
    const native *n = state;
    const weft_status status = need_tokenizer(n);
    return status == WEFT_OK ? weft_tokenizer_encode(n->tokenizer, text, length, flags, ids, n_ids)
                             : status;
}

static weft_status native_decode(void *state, const int32_t *ids, size_t n_ids, unsigned flags,
                                 char **text, size_t *length)
{
    const native *n = state;
    const weft_status status = need_tokenizer(n);
    return status == WEFT_OK ? weft_tokenizer_decode(n->tokenizer, ids, n_ids, flags, text, length)
                             : status;
}

/* The ids of a request, in new memory (weft_free). */
static weft_status ids_of(const native *n, const weft_engine_request *r, int32_t **ids,
                          size_t *count)
{
    static const weft_chat_options answer = {.generation_prompt = true};
    *ids = NULL;
    *count = r->n_ids;
    if (r->messages != NULL) {
        const weft_status status = need_chat(n);
        return status != WEFT_OK
                   ? status
                   : weft_chat_encode(n->chat, n->tokenizer, r->messages,
                                      r->chat != NULL ? r->chat : &answer, ids, count);
    }
    if (r->ids == NULL) {
        const char *text = r->prompt != NULL ? r->prompt : "";
        return native_encode((void *)n, text, r->length > 0 ? r->length : strlen(text),
                             r->no_special ? 0 : WEFT_TOKENIZER_ADD_SPECIAL, ids, count);
    }
    *ids = weft_malloc((r->n_ids > 0 ? r->n_ids : 1) * sizeof **ids);
    if (*ids == NULL)
        return weft__out_of_memory("engine", "a prompt");
    memcpy(*ids, r->ids, r->n_ids * sizeof **ids);
    return WEFT_OK;
}

/* ---- computing ------------------------------------------------------------------------------ */

/* The options of a request with the engine's context as positions. */
static weft_generate_options within_context(const native *n, const weft_generate_options *options)
{
    static const weft_generate_options defaults = {0};
    weft_generate_options o = options != NULL ? *options : defaults;
    if (n->context > 0 && (o.positions == 0 || o.positions > n->context))
        o.positions = n->context;
    return o;
}

static weft_status check_length(const native *n, size_t prompt)
{
    return n->context == 0 || prompt <= (size_t)n->context
               ? WEFT_OK
               : weft_fail(WEFT_INVALID, "engine: the prompt has %zu tokens, the context %lld",
                           prompt, (long long)n->context);
}

/* Wraps the caller's callback, which runs while other calls may use the model. */
typedef struct outside {
    native *n;
    weft_generate_fn *callback;
    void *context;
} outside;

static bool step_out(void *context, const weft_generated *token)
{
    const outside *o = context;
    weft__turn_lock_release(&o->n->inside);
    const bool more = o->callback(o->context, token);
    weft__turn_lock_acquire(&o->n->inside);
    return more;
}

static weft_status native_generate(void *state, const weft_engine_request *request,
                                   weft_generate_fn *callback, void *context,
                                   weft_generate_stats *stats)
{
    native *n = state;
    outside o = {.n = n, .callback = callback, .context = context};
    weft_generate_options options = within_context(n, request->options);
    if (options.prompt_cache == NULL && !options.no_cache)
        options.prompt_cache = n->prompt_cache;
    int32_t *ids;
    size_t n_ids;
    weft_device *before = weft_default_device();
    weft_status status = ids_of(n, request, &ids, &n_ids);
    if (status == WEFT_OK && !options.shift)
        status = check_length(n, n_ids);
    if (status == WEFT_OK) {
        weft_set_default_device(n->device);
        weft__turn_lock_acquire(&n->inside);
        status = weft_generate(n->model, n->tokenizer, ids, n_ids, &options, step_out, &o, stats);
        weft__turn_lock_release(&n->inside);
        weft_set_default_device(before);
    }
    weft_free(ids);
    return status;
}

/* Tokenizes many texts; free with free_prompts, also after a failure. */
static weft_status prompts_of(const native *n, const char *const *texts, size_t count,
                              weft_prompt **out)
{
    weft_prompt *prompts = weft_calloc(count > 0 ? count : 1, sizeof *prompts);
    *out = prompts;
    if (prompts == NULL)
        return weft_fail(WEFT_MEMORY, "engine: out of memory for %zu texts", count);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        int32_t *ids = NULL;
        status = native_encode((void *)n, texts[i], strlen(texts[i]), WEFT_TOKENIZER_ADD_SPECIAL,
                               &ids, &prompts[i].n);
        prompts[i].ids = ids;
    }
    return status;
}

static void free_prompts(weft_prompt *prompts, size_t count)
{
    for (size_t i = 0; prompts != NULL && i < count; i++)
        weft_free((void *)prompts[i].ids);
    weft_free(prompts);
}

static weft_status native_classify(void *state, const char *const *texts, size_t count,
                                   const weft_classify_options *options, weft_classified *results)
{
    native *n = state;
    weft_device *before = weft_default_device();
    weft_prompt *prompts;
    weft_status status = prompts_of(n, texts, count, &prompts);
    for (size_t i = 0; i < count && status == WEFT_OK; i++)
        status = check_length(n, prompts[i].n);
    weft_set_default_device(n->device);
    weft__turn_lock_acquire(&n->inside);
    if (status == WEFT_OK)
        status = weft_classify(n->model, prompts, count, options, results);
    weft__turn_lock_release(&n->inside);
    weft_set_default_device(before);
    free_prompts(prompts, count);
    return status;
}

static weft_status native_batch(void *state, const char *const *texts, size_t count,
                                const weft_generate_options *options,
                                const weft_generate_batch_options *batch,
                                weft_generated_row *results)
{
    native *n = state;
    weft_device *before = weft_default_device();
    const weft_generate_options each = within_context(n, options);
    weft_prompt *prompts;
    weft_generate_request *requests = weft_calloc(count > 0 ? count : 1, sizeof *requests);
    weft_status status = prompts_of(n, texts, count, &prompts);
    if (requests == NULL)
        status = weft_fail(WEFT_MEMORY, "engine: out of memory for %zu texts", count);
    for (size_t i = 0; i < count && status == WEFT_OK; i++)
        requests[i] = (weft_generate_request){.prompt = prompts[i], .options = &each};
    weft_set_default_device(n->device);
    weft__turn_lock_acquire(&n->inside);
    if (status == WEFT_OK)
        status = weft_generate_batch(n->model, n->tokenizer, requests, count, batch, NULL, NULL,
                                     results);
    weft__turn_lock_release(&n->inside);
    weft_set_default_device(before);
    free_prompts(prompts, count);
    weft_free(requests);
    return status;
}

weft_status weft__native_use(void *state, weft__native_use_fn *use, void *context)
{
    native *n = state;
    weft_device *before = weft_default_device();
    weft_set_default_device(n->device);
    weft__turn_lock_acquire(&n->inside);
    const weft_status status = use(context, n->model);
    weft__turn_lock_release(&n->inside);
    weft_set_default_device(before);
    return status;
}

weft_status weft__native_parts_of(void *state, weft__native_parts *out)
{
    const native *n = state;
    *out = (weft__native_parts){n->path, n->text, n->tokenizer, n->chat, n->prompt_cache};
    return need_tokenizer(n);
}

typedef struct looking {
    const int32_t *ids;
    size_t n_ids;
    weft_inspection **out;
} looking;

static weft_status look_inside(void *context, weft_model *model)
{
    const looking *l = context;
    return weft_inspect(model, l->ids, l->n_ids, l->out);
}

static weft_status native_inspect(void *state, const weft_engine_request *request,
                                  weft_inspection **out)
{
    int32_t *ids;
    size_t n_ids;
    weft_status status = ids_of(state, request, &ids, &n_ids);
    if (status == WEFT_OK)
        status = weft__native_use(state, look_inside, &(looking){ids, n_ids, out});
    weft_free(ids);
    return status;
}

/* ---- the prompt cache ------------------------------------------------------------------------ */

typedef struct warming {
    native *n;
    const weft_generate_options *options;
    const int32_t *ids;
    size_t n_ids;
} warming;

static weft_status read_prompt(void *context, weft_model *model)
{
    const warming *w = context;
    (void)model; /* the cache has its own reference */
    return weft_prompt_cache_warm(w->n->prompt_cache, w->ids, w->n_ids, &w->options->cache,
                                  w->options->prefill);
}

static weft_status native_warm(void *state, const weft_engine_request *request)
{
    native *n = state;
    int32_t *ids = NULL;
    size_t n_ids = 0;
    if (n->prompt_cache == NULL)
        return weft_fail(WEFT_INVALID, "engine: warm: it was loaded without a prompt cache "
                                       "(weft_engine_options.prompt_cache_bytes)");
    weft_status status = ids_of(n, request, &ids, &n_ids);
    if (status == WEFT_OK && !request->options->shift)
        status = check_length(n, n_ids);
    if (status == WEFT_OK)
        status = weft__native_use(n, read_prompt, &(warming){n, request->options, ids, n_ids});
    weft_free(ids);
    return status;
}

/* ---- adapters -------------------------------------------------------------------------------- */

static weft_status replace_adapters(void *context, weft_model *model)
{
    return weft_adapter_replace_list(model, context, NULL);
}

static weft_status native_adapt(void *state, const char *adapter)
{
    return weft__native_use(state, replace_adapters, (void *)adapter);
}

const weft_engine_backend weft__engine_native = {
    .name = "native",
    .load = native_load,
    .unload = native_unload,
    .info = native_info,
    .encode = native_encode,
    .decode = native_decode,
    .generate = native_generate,
    .classify = native_classify,
    .batch = native_batch,
    .inspect = native_inspect,
    .warm = native_warm,
    .train = weft__native_train,
    .adapt = native_adapt,
};
