/* engine/engine.c -- an engine: loading by a backend, scheduling of calls, cancelling, closing. */
#include "engine/engine.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "core/buffer.h"
#include "core/cancel.h"
#include "core/clock.h"
#include "core/failure.h"
#include "core/io/text.h"
#include "weft/hub.h"
#include "weft/memory.h"

enum { SECOND = 1000000000, LOOK_EVERY = SECOND / 50 }; /* nanoseconds */

/* ---- loading -------------------------------------------------------------------------------- */

static weft_status unknown(const char *name)
{
    weft__text known = {0};
    for (int i = 0; weft_engine_backend_at(i) != NULL; i++)
        weft__text_format(&known, "%s%s", i > 0 ? ", " : "", weft_engine_backend_at(i)->name);
    const weft_status status =
        weft_fail(WEFT_UNSUPPORTED, "engine: backend '%s' is unknown (known: %s)",
                  weft_printable(name), known.at != NULL ? known.at : "");
    weft_free(known.at);
    return status;
}

static weft_status choose(const char *name, const weft_engine_backend **out)
{
    weft_status status = WEFT_OK;
    if (name != NULL) {
        *out = weft_engine_backend_find(name);
        return *out != NULL ? WEFT_OK : unknown(name);
    }
    for (int i = 0; (*out = weft_engine_backend_at(i)) != NULL; i++) {
        status = (*out)->available != NULL ? (*out)->available() : WEFT_OK;
        if (status == WEFT_OK)
            return WEFT_OK;
    }
    return status;
}

static weft_status load(weft_engine *e, const char *path, const weft_engine_options *o)
{
    char *where;
    if (o->max_concurrent < 0 || o->context < 0 || !(o->answer_seconds >= 0))
        return weft_fail(WEFT_INVALID,
                         "%s: engine: max_concurrent, context and answer_seconds: "
                         "expected at least 0",
                         path);
    weft_status status = choose(o->backend, &e->backend);
    if (status == WEFT_OK && e->backend->available != NULL)
        status = e->backend->available();
    if (status == WEFT_OK)
        status = weft_hub_resolve(path, &where);
    if (status != WEFT_OK)
        return status;
    status = e->backend->load(where, o, &e->state);
    weft_free(where);
    if (status != WEFT_OK)
        return status;
    e->max_concurrent = o->max_concurrent > 0 ? o->max_concurrent : 1;
    e->no_wait = o->no_wait;
    e->backend->info(e->state, &e->info);
    e->info.backend = e->backend->name;
    if (o->context > 0)
        e->info.context_length = o->context;
    e->architecture = weft_strdup(e->info.architecture != NULL ? e->info.architecture : "");
    e->info.architecture = e->architecture;
    return e->architecture != NULL ? WEFT_OK : weft__out_of_memory(path, NULL);
}

weft_status weft_engine_load(const char *path, const weft_engine_options *options,
                             weft_engine **engine)
{
    static const weft_engine_options defaults = {0};
    *engine = NULL;
    weft_engine *e = weft_calloc(1, sizeof *e);
    if (e == NULL)
        return weft__out_of_memory(path, "an engine");
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    const weft_status status = load(e, path, options != NULL ? options : &defaults);
    if (status == WEFT_OK)
        *engine = e;
    else
        weft_engine_free(e);
    return status;
}

/* ---- using the state ------------------------------------------------------------------------ */

/* Records the message of a failure. Called with the lock held. */
static weft_status note(weft_engine *e, weft_status status)
{
    if (status != WEFT_OK)
        strncpy(e->error, weft_error_message(), sizeof e->error - 1);
    return status;
}

static weft_status refuse_closed(void)
{
    return weft_fail(WEFT_CANCELLED, "engine: it is closed");
}

static weft_status begin_use(weft_engine *e)
{
    pthread_mutex_lock(&e->lock);
    const weft_status status = note(e, e->closed ? refuse_closed() : WEFT_OK);
    e->uses += status == WEFT_OK;
    pthread_mutex_unlock(&e->lock);
    return status;
}

/* Unloads the model if this was the last use of a closed engine. Called with the lock held, which
 * it releases. The engine may be freed afterwards. */
static void unlock_and_unload(weft_engine *e)
{
    void *state = e->closed && e->uses == 0 ? e->state : NULL;
    if (state != NULL) {
        e->state = NULL;
        e->uses++; /* weft_engine_free waits for this too */
        pthread_mutex_unlock(&e->lock);
        e->backend->unload(state);
        pthread_mutex_lock(&e->lock);
        e->uses--;
    }
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static weft_status end_use(weft_engine *e, weft_status status)
{
    pthread_mutex_lock(&e->lock);
    note(e, status);
    e->uses--;
    unlock_and_unload(e);
    return status;
}

static void cancel_all(weft_engine *e)
{
    for (weft__engine_call *c = e->calls; c != NULL; c = c->next)
        weft_cancel_set(c->cancel);
    pthread_cond_broadcast(&e->changed);
}

void weft_engine_cancel(weft_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    cancel_all(engine);
    pthread_mutex_unlock(&engine->lock);
}

void weft_engine_close(weft_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->closed = true;
    cancel_all(engine);
    unlock_and_unload(engine);
}

void weft_engine_free(weft_engine *engine)
{
    if (engine == NULL)
        return;
    weft_engine_close(engine);
    pthread_mutex_lock(&engine->lock);
    while (engine->uses > 0)
        pthread_cond_wait(&engine->changed, &engine->lock);
    pthread_mutex_unlock(&engine->lock);
    pthread_cond_destroy(&engine->changed);
    pthread_mutex_destroy(&engine->lock);
    weft_free(engine->architecture);
    weft_free(engine);
}

/* ---- scheduling of calls --------------------------------------------------------------------- */

static bool is_next(const weft_engine *e, const weft__engine_call *call)
{
    for (const weft__engine_call *c = e->calls; c != NULL; c = c->next) {
        if (c->waiting && c->ticket < call->ticket)
            return false;
    }
    return call->alone ? e->running == 0 : e->running < e->max_concurrent && !e->alone;
}

/* Whether this thread made all calls that must end first, so that waiting for them would be a
 * deadlock. */
static bool waits_for_itself(const weft_engine *e, const weft__engine_call *call)
{
    int64_t own = 0;
    for (const weft__engine_call *c = e->calls; c != NULL; c = c->next)
        own += c != call && !c->waiting && pthread_equal(c->thread, call->thread) != 0;
    return own >= (call->alone || e->alone ? 1 : e->max_concurrent);
}

/* Waits for a change. The caller's cancel request does not signal the condition, so it is polled.
 */
static void wait_for_change(weft_engine *e)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_EVERY;
    if (until.tv_nsec >= SECOND) {
        until.tv_nsec -= SECOND;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&e->changed, &e->lock, &until);
}

/* Called with the lock held. */
static weft_status wait_for_turn(weft_engine *e, weft__engine_call *call)
{
    if (e->closed)
        return refuse_closed();
    if (!is_next(e, call) && waits_for_itself(e, call) && (call->alone || e->alone))
        return weft_fail(WEFT_INVALID, "engine: this thread has a call under way, and training "
                                       "computes alone");
    if (!is_next(e, call) && waits_for_itself(e, call))
        return weft_fail(WEFT_INVALID,
                         "engine: this thread has %lld calls under way, and "
                         "max_concurrent is that: free its streams first",
                         (long long)e->max_concurrent);
    if (!is_next(e, call) && e->no_wait)
        return weft_fail(
            WEFT_INVALID, "engine: %lld calls are under way, %s", (long long)e->running,
            call->alone || e->alone ? "and training computes alone" : "which is max_concurrent");
    while (!e->closed && !weft_cancel_is_set(call->cancel) && !is_next(e, call))
        wait_for_change(e);
    return e->closed ? refuse_closed() : WEFT_OK;
}

/* Queues the call and waits until it may compute. *cancelled: it was cancelled before that. */
static weft_status enter(weft_engine *e, weft__engine_call *call, bool *cancelled)
{
    pthread_mutex_lock(&e->lock);
    e->uses++; /* waiting calls count too */
    call->ticket = e->tickets++;
    call->waiting = true;
    call->next = e->calls;
    e->calls = call;
    const weft_status status = wait_for_turn(e, call);
    *cancelled = weft_cancel_is_set(call->cancel);
    if (status == WEFT_OK && !*cancelled) {
        call->waiting = false;
        e->alone = call->alone;
        if (e->running++ == 0)
            weft_memory_reset_peak();
    }
    pthread_mutex_unlock(&e->lock);
    return status;
}

static weft_status leave(weft_engine *e, weft__engine_call *call,
                         const weft_engine_metrics *metrics, weft_status status)
{
    pthread_mutex_lock(&e->lock);
    note(e, status);
    weft__engine_call **at = &e->calls;
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    if (metrics != NULL)
        e->metrics = *metrics;
    if (!call->waiting) {
        e->running--;
        e->alone = false;
    }
    e->uses--;
    unlock_and_unload(e);
    return status;
}

/* ---- generation ----------------------------------------------------------------------------- */

/* Wraps the caller's callback, which is not called after a cancel request. */
typedef struct between {
    const weft_cancel *cancel;
    weft_generate_fn *callback;
    void *context;
    bool cancelled;
} between;

static bool pass(void *context, const weft_generated *token)
{
    between *b = context;
    b->cancelled = b->cancelled || weft_cancel_is_set(b->cancel);
    return !b->cancelled && (b->callback == NULL || b->callback(b->context, token));
}

static weft_engine_metrics measure(const weft_generate_stats *s, double total)
{
    return (weft_engine_metrics){
        .reason = s->reason,
        .detail = s->detail,
        .prompt_tokens = s->prompt_tokens,
        .cached_tokens = s->cached_tokens,
        .generated_tokens = s->tokens,
        .first_token_seconds = s->first_token_seconds,
        .prefill_seconds = s->first_token_seconds,
        .decode_seconds = s->decode_seconds,
        .total_seconds = total,
        .prefill_per_second = s->prompt_per_second,
        .decode_per_second = s->decode_per_second,
        .peak_memory = weft__memory_peak_process(),
        .active_memory = weft_memory_active(),
    };
}

weft_status weft__engine_run(weft_engine *engine, const weft_engine_request *request,
                             weft__engine_call *call, weft_generate_fn *callback, void *context)
{
    static const weft_generate_options defaults = {0};
    weft_generate_options options = request->options != NULL ? *request->options : defaults;
    weft_engine_request inner = *request;
    between b = {.cancel = call->cancel, .callback = callback, .context = context};
    weft_generate_stats stats = {.reason = WEFT_FINISH_CANCELLED};
    bool cancelled = false;
    weft_status status = enter(engine, call, &cancelled);
    if (status != WEFT_OK || cancelled) {
        const weft_engine_metrics none = measure(&stats, 0);
        return leave(engine, call, status == WEFT_OK ? &none : NULL, status);
    }
    options.cancel = call->cancel;
    inner.options = &options;
    const double start = weft__seconds();
    stats.reason = WEFT_FINISH_NONE;
    status = engine->backend->generate(engine->state, &inner, pass, &b, &stats);
    if (b.cancelled && status == WEFT_OK) {
        stats.reason = WEFT_FINISH_CANCELLED;
        stats.detail = WEFT_FINISH_DETAIL_NONE;
    }
    const weft_engine_metrics metrics = measure(&stats, weft__seconds() - start);
    return leave(engine, call, &metrics, status);
}

weft__engine_call weft__engine_call_of(const weft_cancel *own)
{
    return (weft__engine_call){.cancel = weft__cancel_new_with(own), .thread = pthread_self()};
}

/* Fails for calls whose memory could not be allocated. */
static weft_status no_call(weft_engine *e)
{
    pthread_mutex_lock(&e->lock);
    const weft_status status = note(e, WEFT_MEMORY);
    pthread_mutex_unlock(&e->lock);
    return status;
}

weft_status weft_engine_generate(weft_engine *engine, const weft_engine_request *request,
                                 weft_generate_fn *callback, void *context)
{
    weft__engine_call call =
        weft__engine_call_of(request->options ? request->options->cancel : NULL);
    if (call.cancel == NULL)
        return no_call(engine);
    const weft_status status = weft__engine_run(engine, request, &call, callback, context);
    weft_cancel_free(call.cancel);
    return status;
}

weft_status weft_engine_chat(weft_engine *engine, const char *messages,
                             const weft_chat_options *chat, const weft_generate_options *options,
                             weft_generate_fn *callback, void *context)
{
    const weft_engine_request request = {.messages = messages, .chat = chat, .options = options};
    return weft_engine_generate(engine, &request, callback, context);
}

/* ---- other calls ----------------------------------------------------------------------------- */

weft_status weft__engine_cannot(const weft_engine *e, const char *what)
{
    return weft_fail(WEFT_UNSUPPORTED, "engine: the backend '%s' cannot %s", e->backend->name,
                     what);
}

weft_status weft_engine_encode(weft_engine *engine, const char *text, size_t length, unsigned flags,
                               int32_t **ids, size_t *count)
{
    *ids = NULL;
    *count = 0;
    weft_status status = begin_use(engine);
    if (status != WEFT_OK)
        return status;
    status = engine->backend->encode != NULL
                 ? engine->backend->encode(engine->state, text, length, flags, ids, count)
                 : weft__engine_cannot(engine, "encode");
    return end_use(engine, status);
}

weft_status weft_engine_decode(weft_engine *engine, const int32_t *ids, size_t count,
                               unsigned flags, char **text, size_t *length)
{
    *text = NULL;
    weft_status status = begin_use(engine);
    if (status != WEFT_OK)
        return status;
    status = engine->backend->decode != NULL
                 ? engine->backend->decode(engine->state, ids, count, flags, text, length)
                 : weft__engine_cannot(engine, "decode");
    return end_use(engine, status);
}

weft_status weft__engine_in_turn(weft_engine *engine, const char *what, bool alone,
                                 const weft_cancel *own, weft__engine_work *work, void *context)
{
    weft__engine_call call = weft__engine_call_of(own);
    bool cancelled = false;
    call.alone = alone;
    if (call.cancel == NULL)
        return no_call(engine);
    weft_status status = enter(engine, &call, &cancelled);
    if (status == WEFT_OK && cancelled)
        status = weft_fail(WEFT_CANCELLED, "engine: %s: cancelled before its turn", what);
    if (status == WEFT_OK)
        status = work(engine, call.cancel, context);
    status = leave(engine, &call, NULL, status);
    weft_cancel_free(call.cancel);
    return status;
}

typedef struct classifying {
    const char *const *texts;
    size_t n;
    const weft_classify_options *options;
    weft_classified *results;
} classifying;

/* Keeps the first generated token. */
static bool keep_first(void *context, const weft_generated *token)
{
    weft_classified *r = context;
    if (token->id >= 0)
        r->token = token->id;
    return token->id < 0;
}

/* Classifies with a backend that can only generate: generates one token, whose probability is
 * unknown. */
static weft_status classify_one(weft_engine *e, const weft_cancel *cancel, const classifying *c,
                                size_t i)
{
    static const weft_classify_options defaults = {0};
    const weft_classify_options *o = c->options != NULL ? c->options : &defaults;
    const weft_generate_options options = {.sampler = o->sampler,
                                           .seed = o->seed + i,
                                           .max_tokens = 1,
                                           .ignore_eos = true,
                                           .cancel = cancel};
    const weft_engine_request request = {.prompt = c->texts[i], .options = &options};
    weft_classified *r = &c->results[i];
    weft_generate_stats stats = {0};
    *r = (weft_classified){.token = -1, .logprob = (double)NAN};
    const weft_status status = e->backend->generate(e->state, &request, keep_first, r, &stats);
    return status != WEFT_OK || r->token >= 0
               ? status
               : weft_fail(WEFT_INVALID, "engine: classify: the backend '%s' gave no token",
                           e->backend->name);
}

static weft_status classify(weft_engine *e, const weft_cancel *cancel, void *context)
{
    const classifying *c = context;
    if (e->backend->classify != NULL)
        return e->backend->classify(e->state, c->texts, c->n, c->options, c->results);
    if (c->options != NULL && c->options->logits)
        return weft__engine_cannot(e, "give logits");
    for (size_t i = 0; i < c->n; i++) {
        weft_classified *r = &c->results[i];
        const weft_status status = classify_one(e, cancel, c, i);
        if (status != WEFT_OK)
            *r = (weft_classified){
                .status = status, .message = weft_strdup(weft_error_message()), .token = -1};
    }
    return weft_cancel_is_set(cancel) ? weft_fail(WEFT_CANCELLED, "engine: classify: cancelled")
                                      : WEFT_OK;
}

weft_status weft_engine_classify(weft_engine *engine, const char *const *texts, size_t n,
                                 const weft_classify_options *options, weft_classified *results)
{
    classifying c = {texts, n, options, results};
    if (n > 0)
        memset(results, 0, n * sizeof *results);
    const weft_status status = weft__engine_in_turn(engine, "classify", false, NULL, classify, &c);
    for (size_t i = 0; i < n && status != WEFT_OK; i++) {
        results[i].status = status;
        results[i].token = -1;
    }
    return status;
}

typedef struct batching {
    const char *const *texts;
    size_t n;
    const weft_generate_options *options;
    const weft_generate_batch_options *batch; /* NULL: all zero */
    weft_generated_row *results;
} batching;

static weft_status generate_batch(weft_engine *e, const weft_cancel *cancel, void *context)
{
    const batching *b = context;
    weft_generate_batch_options together = {0};
    if (b->batch != NULL)
        together = *b->batch;
    together.cancel = cancel; /* set when the caller cancels */
    return e->backend->batch != NULL
               ? e->backend->batch(e->state, b->texts, b->n, b->options, &together, b->results)
               : weft__engine_cannot(e, "generate from many prompts together");
}

weft_status weft_engine_batch(weft_engine *engine, const char *const *texts, size_t n,
                              const weft_generate_options *options,
                              const weft_generate_batch_options *batch, weft_generated_row *results)
{
    batching b = {texts, n, options, batch, results};
    if (n > 0)
        memset(results, 0, n * sizeof *results);
    const weft_status status = weft__engine_in_turn(
        engine, "batch", false, batch != NULL ? batch->cancel : NULL, generate_batch, &b);
    for (size_t i = 0; i < n && status != WEFT_OK; i++)
        results[i].status = status;
    return status;
}

typedef struct inspecting {
    const weft_engine_request *request;
    weft_inspection **out;
} inspecting;

static weft_status inspect(weft_engine *e, const weft_cancel *cancel, void *context)
{
    const inspecting *i = context;
    (void)cancel;
    return e->backend->inspect != NULL
               ? e->backend->inspect(e->state, i->request, i->out)
               : weft__engine_cannot(e, "return keys and queries of attention");
}

weft_status weft_engine_inspect(weft_engine *engine, const weft_engine_request *request,
                                weft_inspection **out)
{
    inspecting i = {request, out};
    *out = NULL;
    return weft__engine_in_turn(engine, "inspect", false, NULL, inspect, &i);
}

static weft_status warm(weft_engine *e, const weft_cancel *cancel, void *context)
{
    static const weft_generate_options defaults = {0};
    weft_engine_request request = *(const weft_engine_request *)context;
    (void)cancel;
    if (request.options == NULL)
        request.options = &defaults;
    return e->backend->warm != NULL ? e->backend->warm(e->state, &request)
                                    : weft__engine_cannot(e, "keep prompts");
}

weft_status weft_engine_warm(weft_engine *engine, const weft_engine_request *request)
{
    return weft__engine_in_turn(engine, "warm", false, NULL, warm, (void *)request);
}

weft_engine_info weft_engine_info_of(const weft_engine *engine)
{
    return engine->info;
}

weft_engine_metrics weft_engine_metrics_of(weft_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    const weft_engine_metrics metrics = engine->metrics;
    pthread_mutex_unlock(&engine->lock);
    return metrics;
}

const char *weft_engine_error(weft_engine *engine)
{
    static _Thread_local char message[sizeof engine->error];
    pthread_mutex_lock(&engine->lock);
    memcpy(message, engine->error, sizeof message);
    pthread_mutex_unlock(&engine->lock);
    return message;
}
