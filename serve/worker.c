/* serve/worker.c -- the thread that owns the model: a running batch of all requests. */
#include <stdio.h>
#include <string.h>

#include "serve/server.h"
#include "weft/array.h"
#include "weft/batch.h"
#include "weft/memory.h"

/* Seconds from token to token while prompts are processed. */
static const double LATENCY = 0.2;

/* A token on its way to the thread of its choice. */
typedef struct token {
    struct token *next;
    weft_generated generated;
    weft_top_logprob top[WEFT_TOP_LOGPROBS];
    char text[];
} token;

/* What a thread waits for: a generation, or a call. */
struct serve_job {
    weft_generate_request request;
    weft_generate_options options; /* of the request */
    double deadline;
    weft_status (*call)(void *context); /* NULL: a generation */
    void *context;
    weft_generated_row row;
    bool dropped;         /* of the thread that computes: cancelled before it got a row */
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    token *first, **last;
    bool stopped, done, failed; /* stopped: the choice takes no more tokens; failed: no memory */
    weft_status status;
    char message[512];
    serve_job *next;
};

/* ---- the thread that waits ------------------------------------------------------------------ */

static void open_job(serve_job *job)
{
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->changed, NULL);
    job->last = &job->first;
}

static void close_job(serve_job *job)
{
    while (job->first) {
        token *next = job->first->next;
        weft_free(job->first);
        job->first = next;
    }
    weft_generated_rows_free(&job->row, 1);
    pthread_mutex_destroy(&job->lock);
    pthread_cond_destroy(&job->changed);
}

static weft_status enqueue(serve_server *server, serve_job *job)
{
    pthread_mutex_lock(&server->lock);
    const bool ended = server->ended;
    if (!ended) {
        *server->last = job;
        server->last = &job->next;
        server->n_queue++;
        server->n_calls += job->call != NULL;
        serve_turns_press(server);
        pthread_cond_signal(&server->work);
    }
    pthread_mutex_unlock(&server->lock);
    return ended ? weft_fail(WEFT_CANCELLED, "the server is shutting down") : WEFT_OK;
}

/* The tokens that have come, after waiting for them or for the end. */
static token *await(serve_job *job, bool stop, bool *done)
{
    pthread_mutex_lock(&job->lock);
    job->stopped = stop;
    while (job->first == NULL && !job->done)
        pthread_cond_wait(&job->changed, &job->lock);
    token *first = job->first;
    job->first = NULL;
    job->last = &job->first;
    *done = job->done;
    pthread_mutex_unlock(&job->lock);
    return first;
}

weft_status serve_generate(serve_request *request, const int32_t *ids, size_t n,
                           const weft_generate_options *options, weft_generate_fn *callback,
                           void *context, weft_generate_stats *stats)
{
    serve_server *server = request->server;
    serve_job job = {.options = *options, .deadline = request->start + server->options.timeout};
    job.request = (weft_generate_request){
        .prompt = {ids, n}, .options = &job.options, .adapter = serve_member_of(request)};
    bool going = true, done = false;
    int64_t taken = 0;
    open_job(&job);
    weft_status status = enqueue(server, &job);
    while (status == WEFT_OK && !done) {
        for (token *at = await(&job, !going, &done), *next; at != NULL; at = next) {
            next = at->next;
            taken += going && at->generated.id >= 0;
            going = going && callback(context, &at->generated);
            weft_free(at);
        }
    }
    *stats = job.row.stats;
    stats->tokens = taken;
    if (status == WEFT_OK && job.status != WEFT_OK)
        status = weft_fail(job.status, "%s", job.message);
    if (status == WEFT_OK && !going) {
        stats->reason = WEFT_FINISH_CANCELLED;
        stats->detail = WEFT_FINISH_CALLBACK;
    }
    close_job(&job);
    return status;
}

weft_status serve_compute(serve_request *request, weft_status (*call)(void *context), void *context)
{
    serve_job job = {.call = call, .context = context};
    job.request.adapter = serve_member_of(request);
    bool done;
    open_job(&job);
    weft_status status = enqueue(request->server, &job);
    if (status == WEFT_OK) {
        await(&job, false, &done);
        if (job.status != WEFT_OK)
            status = weft_fail(job.status, "%s", job.message);
    }
    close_job(&job);
    return status;
}

/* ---- the thread that computes --------------------------------------------------------------- */

static bool take_token(void *context, const weft_generated *from)
{
    serve_job *job = context;
    token *t = weft_malloc(sizeof *t + from->length + 1);
    if (t != NULL) {
        *t = (token){.generated = *from};
        memcpy(t->text, from->text, from->length);
        t->text[from->length] = '\0';
        if (from->n_top > 0)
            memcpy(t->top, from->top, (size_t)from->n_top * sizeof *from->top);
        t->generated.text = t->text;
        t->generated.top = t->top;
    }
    pthread_mutex_lock(&job->lock);
    const bool more = t != NULL && !job->stopped;
    job->failed = t == NULL;
    if (more) {
        *job->last = t;
        job->last = &t->next;
        pthread_cond_signal(&job->changed);
    }
    pthread_mutex_unlock(&job->lock);
    if (!more)
        weft_free(t);
    return more;
}

/* Wakes the job's thread, which frees the job. */
static void finish(serve_job *job, weft_status status, const char *message)
{
    pthread_mutex_lock(&job->lock);
    job->status = job->failed ? WEFT_MEMORY : status;
    snprintf(job->message, sizeof job->message, "%s",
             job->failed || message == NULL ? "out of memory" : message);
    job->done = true;
    pthread_cond_signal(&job->changed);
    pthread_mutex_unlock(&job->lock);
}

static bool is_cancelled(const serve_job *job)
{
    return job->call == NULL && job->options.cancel != NULL &&
           weft_cancel_is_set(job->options.cancel);
}

static void count_row(serve_server *server, const weft_generate_stats *stats)
{
    pthread_mutex_lock(&server->lock);
    serve_counts *c = &server->counts;
    server->n_active--;
    c->prompt_tokens += stats->prompt_tokens;
    c->cached_tokens += stats->cached_tokens;
    c->tokens += stats->tokens;
    c->prompt_seconds += stats->first_token_seconds;
    c->decode_seconds += stats->decode_seconds;
    pthread_mutex_unlock(&server->lock);
}

/* Wakes the threads whose sequences have ended. */
static void finish_rows(serve_server *server, serve_job **active)
{
    while (*active) {
        serve_job *job = *active;
        if (job->row.stats.reason == WEFT_FINISH_NONE) {
            active = &job->next;
            continue;
        }
        *active = job->next;
        count_row(server, &job->row.stats);
        finish(job, job->row.status, job->row.message);
    }
}

/* The first job of the queue that can start, or was cancelled; a call only if `calls`. NULL: none.
 * The lock is held. */
static serve_job *next_job(serve_server *server, bool calls)
{
    const size_t rows = (size_t)server->options.rows;
    for (serve_job **at = &server->queue; *at != NULL; at = &(*at)->next) {
        serve_job *job = *at;
        job->dropped = is_cancelled(job);
        const bool generates = job->call == NULL && !job->dropped;
        if (job->call != NULL ? !calls : generates && server->n_active >= rows)
            continue;
        *at = job->next;
        if (server->last == &job->next)
            server->last = at;
        job->next = NULL;
        server->n_queue--;
        server->n_calls -= job->call != NULL;
        server->n_active += generates;
        if ((int64_t)server->n_active > server->counts.most_rows)
            server->counts.most_rows = (int64_t)server->n_active;
        return job;
    }
    return NULL;
}

static void start_job(serve_server *server, weft_running_batch *batch, serve_job *job,
                      serve_job **active)
{
    if (job->call != NULL) {
        weft_scope_open();
        weft_nn_lora_bank_use(server->bank, job->request.adapter);
        const weft_status status = job->call(job->context);
        weft_scope_close(NULL);
        finish(job, status, weft_error_message());
        return;
    }
    if (job->dropped) {
        job->row.stats.reason = WEFT_FINISH_CANCELLED;
        finish(job, WEFT_OK, NULL);
        return;
    }
    const double left = job->deadline - serve_seconds();
    job->options.timeout = left > 1e-9 ? left : 1e-9; /* 0: none */
    const weft_status status =
        weft_running_batch_add(batch, &job->request, take_token, job, &job->row);
    if (status == WEFT_OK) {
        job->next = *active;
        *active = job;
    } else {
        count_row(server, &job->row.stats);
        finish(job, status, weft_error_message());
    }
}

/* Waits for work unless sequences are computed. False: the server ends. */
static bool await_work(serve_server *server, bool more)
{
    pthread_mutex_lock(&server->lock);
    while (!more && server->queue == NULL && server->gone == NULL && !server->ended &&
           !serve_turns_wanted(server))
        pthread_cond_wait(&server->work, &server->lock);
    const bool works = more || server->queue != NULL || !server->ended;
    pthread_mutex_unlock(&server->lock);
    serve_adapters_sweep(server);
    return works;
}

/* Starts what fits, and at most one call, so that the batch does not wait for many. */
static void start_jobs(serve_server *server, weft_running_batch *batch, serve_job **active)
{
    bool called = false;
    serve_job *job;
    do {
        pthread_mutex_lock(&server->lock);
        job = next_job(server, !called);
        pthread_mutex_unlock(&server->lock);
        called = called || (job != NULL && job->call != NULL);
        if (job != NULL)
            start_job(server, batch, job, active); /* which may end with it */
    } while (job != NULL);
}

/* A step of the batch. */
static void advance(serve_server *server, weft_running_batch *batch, serve_job **active)
{
    bool more;
    weft_scope_open();
    if (weft_running_batch_advance(batch, &more) != WEFT_OK)
        weft_log_message(WEFT_LOG_WARNING, "serve: %s", weft_error_message());
    weft_scope_close(NULL);
    pthread_mutex_lock(&server->lock);
    server->counts.steps++;
    server->counts.kv = weft_running_batch_cache(batch);
    pthread_mutex_unlock(&server->lock);
    finish_rows(server, active); /* whose clients may look at the metrics */
}

static void compute(serve_server *server, weft_running_batch *batch)
{
    serve_job *active = NULL;
    bool more = false;
    while (await_work(server, more)) {
        start_jobs(server, batch, &active);
        more = active != NULL;
        if (more)
            advance(server, batch, &active);
        more = active != NULL;
        serve_turns_give(server, more);
    }
}

/* Finds the bytes of weights that are mapped from files; no other arrays exist yet. */
static weft_status find_mapped(serve_server *server)
{
    weft_nn_slots slots = {.n = 0};
    const weft_status status = weft_nn_parameters(weft_model_module(server->loaded.model), &slots);
    int64_t bytes = 0;
    for (int i = 0; status == WEFT_OK && i < slots.n; i++) {
        if (weft_device_of(*slots.slots[i]) == weft_default_device())
            bytes += weft_nbytes(*slots.slots[i]);
    }
    weft_nn_slots_free(&slots);
    const int64_t arrays = weft_memory_active();
    server->mapped = bytes > arrays ? bytes - arrays : 0;
    return status;
}

static weft_status load(serve_server *server, weft_running_batch **batch)
{
    const serve_options *o = &server->options;
    serve_model *m = &server->loaded;
    weft_status status = o->load(o->context, m);
    if (status != WEFT_OK)
        return status;
    server->positions = weft_model_info_of(m->model)->max_positions;
    server->vocabulary = weft_model_info_of(m->model)->vocab_size;
    if (m->generate.positions > 0 &&
        (server->positions == 0 || m->generate.positions < server->positions))
        server->positions = m->generate.positions;
    const weft_prompt_cache_options cache = {.max_bytes = o->cache > 0 ? o->cache : 0};
    status = find_mapped(server);
    if (status == WEFT_OK && o->cache >= 0)
        status = weft_prompt_cache_new(m->model, &cache, &server->cache);
    if (status == WEFT_OK)
        status = weft_nn_lora_bank_new(weft_model_module(m->model), &server->bank);
    if (status == WEFT_OK)
        status = serve_adapters_open(server);
    if (status == WEFT_OK)
        serve_teacher_load(server);
    const weft_generate_batch_options options = {.rows = o->rows,
                                                 .no_compile = m->generate.no_compile,
                                                 .cache_tokens = o->cache_tokens,
                                                 .adapters = server->bank,
                                                 .latency = LATENCY};
    return status == WEFT_OK ? weft_running_batch_new(m->model, m->tokenizer, &options, batch)
                             : status;
}

static void *run(void *context)
{
    serve_server *server = context;
    weft_running_batch *batch = NULL;
    const weft_status status = load(server, &batch);
    pthread_mutex_lock(&server->lock);
    server->status = status;
    server->ready = status == WEFT_OK;
    snprintf(server->message, sizeof server->message, "%s", weft_error_message());
    pthread_mutex_unlock(&server->lock);
    serve_teacher_wake(server);
    if (status == WEFT_OK)
        compute(server, batch);
    weft_running_batch_free(batch);
    weft_prompt_cache_free(server->cache);
    serve_adapters_close(server);
    weft_embed_settings_free(&server->loaded.embed);
    weft_chat_free(server->loaded.chat);
    weft_tokenizer_free(server->loaded.tokenizer);
    weft_model_free(server->loaded.model);
    return NULL;
}

weft_status serve_worker_start(serve_server *server)
{
    server->last = &server->queue;
    if (pthread_create(&server->worker, NULL, run, server) != 0)
        return weft_fail(WEFT_MEMORY, "serve: no thread for the model");
    server->has_worker = true;
    return WEFT_OK;
}

void serve_worker_stop(serve_server *server)
{
    if (!server->has_worker)
        return;
    pthread_mutex_lock(&server->lock);
    server->ended = true;
    serve_turns_press(server);
    pthread_cond_broadcast(&server->work);
    pthread_mutex_unlock(&server->lock);
    pthread_join(server->worker, NULL);
    server->has_worker = false;
}
