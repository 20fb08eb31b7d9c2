/* serve/choice.c -- the thread of one choice of an answer: renders the prompt, follows the tokens
 * and records what they are, text, reasoning or calls of tools. */
#include <string.h>

#include "serve/server.h"
#include "weft/memory.h"

/* Choices that are computed or wait, for each request that may: each has a thread. */
enum { SEQUENCES = 4 };

static bool is_cancelled(const serve_request *r)
{
    return weft_cancel_is_set(r->cancel);
}

/* Passes an event to the API if the answer is a stream. */
static void emit(serve_choice *c, serve_event event)
{
    if (!c->request->settings.stream)
        return;
    if (c->text.failed || c->reasoning.failed || c->logprobs.failed || c->pending.failed ||
        c->request->items.failed)
        serve_lose_event(c->request); /* the text for the event was lost: out of memory */
    else
        c->request->api->event(c, &event);
}

static void begin(serve_choice *c)
{
    if (c->begun)
        return;
    c->begun = true;
    if (c->request->settings.stream)
        serve_begin_stream(c->request);
    emit(c, (serve_event){.kind = SERVE_BEGIN, .text = ""});
}

/* ---- events --------------------------------------------------------------------------------- */

static void take_text(serve_choice *c, const char *text, size_t n)
{
    serve_text_add(&c->text, text, n);
    c->reasons = false;
    if (c->pending.n > 0 && c->logprobs.n > 0)
        serve_put(&c->logprobs, ", ");
    if (c->pending.n > 0)
        serve_text_add(&c->logprobs, c->pending.at, c->pending.n);
    emit(c, (serve_event){.kind = SERVE_TEXT,
                          .text = text,
                          .length = n,
                          .logprobs = c->pending.n > 0 ? c->pending.at : NULL});
    c->pending.n = 0;
}

static bool take_call(serve_choice *c, const char *name, const char *arguments)
{
    serve_call *moved = weft_realloc(c->calls, (c->n_calls + 1) * sizeof *moved);
    if (moved == NULL)
        return false;
    c->calls = moved;
    c->reasons = false;
    serve_call *call = &c->calls[c->n_calls];
    *call = (serve_call){.name = weft_strdup(name), .arguments = weft_strdup(arguments)};
    c->n_calls++;
    serve_make_id("c", call->id, 10); /* nine characters, as Mistral's templates require */
    c->pending.n = 0;
    if (call->name == NULL || call->arguments == NULL)
        return false;
    emit(c, (serve_event){.kind = SERVE_CALL, .text = ""});
    return true;
}

/* The document of a call that must come. */
static bool take_document_call(serve_choice *c, const char *text)
{
    json_object *document = serve_parse(text);
    const char *name = serve_plain(json_object_object_get(document, "name"));
    json_object *arguments = json_object_object_get(document, "arguments");
    const bool taken =
        name != NULL && arguments != NULL &&
        take_call(c, name,
                  json_object_to_json_string_ext(arguments, JSON_C_TO_STRING_PLAIN |
                                                                JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(document);
    return taken;
}

static bool on_event(void *context, const weft_session_event *event)
{
    serve_choice *c = context;
    const serve_settings *s = &c->request->settings;
    const bool prompted = s->turn.structured == WEFT_STRUCTURED_PROMPTED;
    bool going = true;
    switch (event->kind) {
    case WEFT_SESSION_TEXT:
        if (prompted)
            serve_text_add(&c->document, event->text, event->length);
        else if (!s->must_call && event->length > 0)
            take_text(c, event->text, event->length);
        break;
    case WEFT_SESSION_REASONING:
        serve_text_add(&c->reasoning, event->text, event->length);
        c->reasons = true;
        c->pending.n = 0;
        emit(c,
             (serve_event){.kind = SERVE_REASONING, .text = event->text, .length = event->length});
        break;
    case WEFT_SESSION_TOOL_CALL:
        going = take_call(c, event->name, event->arguments);
        c->text.failed = c->text.failed || !going;
        going = going && !s->one_call;
        break;
    case WEFT_SESSION_STRUCTURED:
        if (s->must_call)
            going = take_document_call(c, event->text);
        else if (prompted)
            take_text(c, event->text, event->length);
        c->text.failed = c->text.failed || !going;
        break;
    default:
        break;
    }
    return going && !is_cancelled(c->request);
}

/* ---- generating ----------------------------------------------------------------------------- */

typedef struct relay {
    serve_choice *choice;
    weft_generate_fn *callback;
    void *context;
} relay;

static bool on_token(void *context, const weft_generated *token)
{
    const relay *r = context;
    serve_choice *c = r->choice;
    if (token->id >= 0 && c->request->settings.generate.logprobs)
        serve_add_logprob(c, token);
    const bool going = r->callback(r->context, token) && !is_cancelled(c->request);
    c->reasoning_tokens += c->reasons && token->id >= 0;
    return going;
}

typedef struct shared_prompt {
    serve_request *request;
    const weft_session_request *q;
} shared_prompt;

/* Puts the prompt into the prompt cache without its last token, which a lookup leaves to be
 * computed. Without memory for it each choice computes its own. */
static weft_status read_shared(void *context)
{
    const shared_prompt *p = context;
    weft_prompt_cache *cache = p->request->server->cache;
    const int64_t known = weft_prompt_cache_measure(cache).hit_tokens;
    if (p->q->n_ids > 1 && !is_cancelled(p->request))
        (void)weft_prompt_cache_warm(cache, p->q->ids, p->q->n_ids - 1, &p->q->options->cache,
                                     p->q->options->prefill);
    p->request->known = weft_prompt_cache_measure(cache).hit_tokens - known;
    return WEFT_OK;
}

/* Computes the prompt of several choices once: the first does, the others wait. */
static weft_status share_prompt(serve_request *r, const weft_session_request *q)
{
    shared_prompt p = {r, q};
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&r->sharing);
    if (!r->shared)
        status = serve_compute(r, read_shared, &p);
    r->shared = true;
    pthread_mutex_unlock(&r->sharing);
    return status;
}

weft_status serve_check_room(serve_request *request, size_t n)
{
    const int64_t positions = request->server->positions;
    const bool full = request->settings.generate.max_tokens < 0; /* nothing comes after it */
    if (positions == 0 || (int64_t)n < positions + full)
        return WEFT_OK;
    serve_error e = serve_error_make(400, "the prompt has %zu tokens, and the model %lld positions",
                                     n, (long long)positions);
    e.type = "exceed_context_size_error";
    e.prompt_tokens = (int64_t)n;
    e.context = positions;
    return serve_refuse(request, &e);
}

/* The stop text of the request with which an answer has ended; the template may have others. */
static const char *found_stop(const serve_choice *c, const weft_generate_options *options,
                              const weft_generate_stats *stats)
{
    const weft_generate_options *asked = &c->request->settings.generate;
    const char *found =
        stats->detail == WEFT_FINISH_TEXT && stats->stop_text < options->n_stop_texts
            ? options->stop_texts[stats->stop_text]
            : NULL;
    for (int i = 0; found != NULL && i < asked->n_stop_texts; i++) {
        if (strcmp(asked->stop_texts[i], found) == 0)
            return asked->stop_texts[i];
    }
    return NULL;
}

/* weft_session_source: in the server's batch. */
static weft_status generate(void *context, const weft_session_request *q,
                            weft_generate_fn *callback, void *callback_context,
                            weft_generate_stats *stats)
{
    serve_choice *c = context;
    serve_server *server = c->request->server;
    relay r = {c, callback, callback_context};
    if (serve_check_room(c->request, q->n_ids) != WEFT_OK)
        return WEFT_INVALID;
    const bool first = c->prompt_tokens == 0;
    c->document.n = c->pending.n = 0; /* those of the attempt before */
    if (first)
        c->prompt_tokens = (int64_t)q->n_ids;
    begin(c);
    const bool shares = c->request->settings.same && server->cache != NULL;
    weft_status status = shares ? share_prompt(c->request, q) : WEFT_OK;
    if (status == WEFT_OK)
        status = serve_generate(c->request, q->ids, q->n_ids, q->options, on_token, &r, stats);
    if (first)
        c->cached_tokens = shares ? c->request->known : stats->cached_tokens;
    c->tokens += stats->tokens;
    c->computed = c->computed || stats->first_token_seconds > 0;
    c->reason = stats->reason;
    c->detail = stats->detail;
    c->stop = found_stop(c, q->options, stats);
    return status;
}

static weft_status open_session(serve_choice *c, weft_session **session)
{
    const serve_request *r = c->request;
    const serve_settings *s = &r->settings;
    weft_session_options o = {.thinking = s->thinking,
                              .generate = s->generate,
                              .no_prompt_cache = true,
                              .variables = s->variables.at,
                              .tools = s->tools,
                              .n_tools = s->must_call ? 0 : s->n_tools,
                              .max_rounds = -1,
                              .source = generate,
                              .source_context = c};
    const weft_chat *chat = serve_chat_of(r);
    if (chat == NULL)
        return weft_fail(WEFT_UNSUPPORTED, "the model has no chat template");
    o.generate.seed += c->index;
    weft_status status = weft_session_new(NULL, r->server->loaded.tokenizer, chat, &o, session);
    if (status == WEFT_OK)
        status = weft_session_set_messages(*session, s->messages_text);
    return status;
}

weft_status serve_chat(serve_choice *c)
{
    weft_session *session = NULL;
    weft_status status = open_session(c, &session);
    if (status == WEFT_OK)
        status = weft_session_answer(session, &c->request->settings.turn, on_event, c, NULL);
    /* A document that was asked for by the prompt and cut off by max_tokens or the timeout does not
     * conform, and is still the answer. One of a constraint ends in time. */
    if (c->begun && c->request->settings.turn.structured && !is_cancelled(c->request) &&
        (c->reason == WEFT_FINISH_LENGTH || c->reason == WEFT_FINISH_DEADLINE)) {
        status = status == WEFT_INVALID ? WEFT_OK : status;
        if (c->text.n == 0 && c->document.n > 0)
            take_text(c, c->document.at, c->document.n);
    }
    weft_session_free(session);
    return status;
}

static bool on_plain_token(void *context, const weft_generated *token)
{
    serve_choice *c = context;
    if (token->length > 0)
        take_text(c, token->text, token->length);
    return true;
}

weft_status serve_complete(serve_choice *c)
{
    const serve_settings *s = &c->request->settings;
    weft_generate_options o = s->generate;
    weft_generate_stats stats = {0};
    const weft_status status = s->echo && o.logprobs ? serve_score_prompt(c) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    if (o.max_tokens < 0) { /* the prompt is all that is asked for */
        c->prompt_tokens = (int64_t)c->n_ids;
        c->reason = WEFT_FINISH_LENGTH;
        begin(c);
        return WEFT_OK;
    }
    o.seed += c->index;
    const weft_session_request q = {.ids = c->ids, .n_ids = c->n_ids, .options = &o};
    return generate(c, &q, on_plain_token, c, &stats);
}

weft_status serve_render(serve_request *request, char **text, size_t *length, size_t *tokens)
{
    serve_choice c = {.request = request};
    weft_session *session = NULL;
    weft_status status = open_session(&c, &session);
    if (status == WEFT_OK)
        status = weft_session_prompt(session, &request->settings.turn, text, length, tokens);
    weft_session_free(session);
    return status;
}

weft_status serve_render_body(serve_request *request, serve_read_fn *read, char **text,
                              size_t *length, size_t *tokens)
{
    weft_status status = serve_parse_body(request);
    if (status == WEFT_OK)
        status = read(request);
    return status == WEFT_OK ? serve_render(request, text, length, tokens) : status;
}

/* ---- threads -------------------------------------------------------------------------------- */

/* The last choice of a request ends it. */
static void finish(serve_choice *c, weft_status status)
{
    serve_request *r = c->request;
    serve_text body = {0};
    /* After a failure another choice may still write the prompt's. */
    const bool memory =
        status != WEFT_OK || (!c->text.failed && !c->reasoning.failed && !c->logprobs.failed &&
                              !c->pending.failed && !c->prompt_logprobs.failed);
    if (status == WEFT_OK && is_cancelled(r))
        status = weft_fail(WEFT_CANCELLED, "the request was cancelled: by the client, by the "
                                           "server's end, or by its limit of time");
    if (status == WEFT_OK && !memory)
        status = weft_fail(WEFT_MEMORY, "out of memory for the answer");
    if (status == WEFT_OK)
        emit(c, (serve_event){.kind = SERVE_END, .text = ""});
    else
        weft_cancel_set(r->cancel);
    pthread_mutex_lock(&r->lock);
    if (status != WEFT_OK && r->error.http == 0)
        r->error = serve_error_of(status, c->computed);
    const bool last = --r->running == 0, failed = r->error.http != 0;
    pthread_mutex_unlock(&r->lock);
    if (!last)
        return;
    if (!failed && r->settings.stream)
        r->api->close(r); /* which may fail for want of memory; there is no other thread now */
    const serve_error error = r->error;
    if (error.http != 0) {
        serve_fail(r, &error);
    } else if (r->settings.stream) {
        serve_close(r);
    } else {
        r->api->answer(r, &body);
        serve_reply(r, 200, r->api->type != NULL ? r->api->type : "application/json", &body);
    }
}

static void *run(void *context)
{
    serve_choice *c = context;
    serve_request *r = c->request;
    serve_server *server = r->server;
    finish(c, r->compute(c));
    serve_request_drop(r);
    pthread_mutex_lock(&server->lock);
    server->n_threads--;
    pthread_cond_broadcast(&server->idle);
    pthread_mutex_unlock(&server->lock);
    return NULL;
}

weft_status serve_make_choices(serve_request *request, size_t n)
{
    request->choices = weft_calloc(n, sizeof *request->choices);
    if (request->choices == NULL)
        return weft_fail(WEFT_MEMORY, "out of memory for %zu choices", n);
    request->n_choices = n;
    for (size_t i = 0; i < n; i++) {
        request->choices[i].request = request;
        request->choices[i].index = i;
    }
    return WEFT_OK;
}

weft_status serve_start_choices(serve_request *request, size_t n, serve_compute_fn *compute)
{
    serve_server *server = request->server;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_mutex_lock(&server->lock);
    const bool stopping = server->stopping;
    const bool full = server->n_threads > 0 &&
                      server->n_threads + n > (size_t)server->options.requests * SEQUENCES;
    server->n_threads += stopping || full ? 0 : n;
    pthread_mutex_unlock(&server->lock);
    if (full && !stopping) {
        const serve_error error = serve_error_make(503, "too many sequences are waiting");
        return serve_refuse(request, &error);
    }
    if (stopping)
        return weft_fail(WEFT_CANCELLED, "the server is shutting down");
    request->running = n;
    request->compute = compute;
    for (size_t i = 0; i < n; i++) {
        pthread_t thread;
        serve_request_keep(request);
        if (pthread_create(&thread, &detached, run, &request->choices[i]) == 0)
            continue;
        pthread_mutex_lock(&server->lock);
        server->n_threads--;
        pthread_mutex_unlock(&server->lock);
        finish(&request->choices[i], weft_fail(WEFT_MEMORY, "no thread for the answer"));
        serve_request_drop(request);
    }
    pthread_attr_destroy(&detached);
    return WEFT_OK;
}

static weft_status run_route(serve_choice *c)
{
    return c->request->route->run(c->request);
}

static void leave(serve_request *r, serve_text *out) /* the route has replied */
{
    (void)r;
    (void)out;
}

weft_status serve_start_route(serve_request *request)
{
    static const serve_api replied = {.answer = leave, .error = serve_put_error};
    const weft_status status = serve_make_choices(request, 1);
    request->api = &replied;
    return status == WEFT_OK ? serve_start_choices(request, 1, run_route) : status;
}

/* ---- routes with one choice ----------------------------------------------------------------- */

weft_status serve_run_message(serve_request *r, serve_read_fn *read, const char *prefix)
{
    weft_status status = serve_parse_body(r);
    if (status == WEFT_OK)
        status = read(r);
    if (status == WEFT_OK)
        status = serve_make_choices(r, 1);
    serve_make_id(prefix, r->id, sizeof r->id);
    return status == WEFT_OK ? serve_start_choices(r, 1, serve_chat) : status;
}

weft_status serve_count_tokens(serve_request *r, serve_read_fn *read, const char *format)
{
    serve_text out = {0};
    char *text = NULL;
    size_t length = 0, tokens = 0;
    const weft_status status = serve_render_body(r, read, &text, &length, &tokens);
    weft_free(text);
    if (status != WEFT_OK)
        return status;
    serve_put(&out, format, (int64_t)tokens);
    serve_reply(r, 200, "application/json", &out);
    return WEFT_OK;
}
