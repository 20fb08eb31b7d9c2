/* cli/chat_server.c -- weft chat with a model of a server: the conversation is a session whose
 * answers are those of the server's /v1/chat/completions. The server applies the chat template. */
#include "cli/chat_server.h"

#include <stdlib.h>
#include <string.h>

#include "cli/chat_body.h"
#include "cli/events.h"
#include "cli/http.h"
#include "cli/lines.h"

struct chat_server {
    cli_http *http;
    weft_session *session; /* that is answered */
    json_object *models;   /* as the server lists them */
    char *model;           /* the chosen one */
};

/* Marks of the session between reasoning and answer, which the server gives apart. */
#define THINK "<think>"
#define UNTHINK "</think>"

/* ---- models --------------------------------------------------------------------------------- */

enum { MODELS_BYTES = 16 << 20, SECONDS = 60 };

typedef struct received {
    char *at;
    size_t n, room;
} received;

/* cli_http_fn */
static weft_status collect(void *context, const char *bytes, size_t n)
{
    received *t = context;
    if (n > MODELS_BYTES - t->n)
        return weft_fail(WEFT_INVALID, "the server's answer has more than %d bytes",
                         (int)MODELS_BYTES);
    if (t->n + n > t->room) {
        char *moved = realloc(t->at, 2 * t->room + n);
        if (moved == NULL)
            return weft_fail(WEFT_MEMORY, "chat: no memory for the server's answer");
        t->at = moved;
        t->room = 2 * t->room + n;
    }
    memcpy(t->at + t->n, bytes, n);
    t->n += n;
    return WEFT_OK;
}

static size_t count(const chat_server *s)
{
    return s->models != NULL ? json_object_array_length(s->models) : 0;
}

static const char *model_at(const chat_server *s, size_t i, const char *key)
{
    return cli_plain_text(json_object_object_get(json_object_array_get_idx(s->models, i), key));
}

/* Reads {"data": [{"id": NAME}, ...]}. */
static weft_status read_models(chat_server *s)
{
    received t = {0};
    const weft_status status = cli_http_send(s->http, "/models", NULL, NULL, SECONDS, collect, &t);
    json_object *root = status == WEFT_OK ? cli_parse_json(t.at != NULL ? t.at : "", t.n) : NULL;
    json_object *list = json_object_object_get(root, "data");
    free(t.at);
    json_object_put(s->models);
    s->models = json_object_is_type(list, json_type_array) ? json_object_get(list) : NULL;
    json_object_put(root);
    if (status == WEFT_CANCELLED)
        return weft_fail(WEFT_IO, "chat: the server lists no models within %d seconds",
                         (int)SECONDS);
    if (status == WEFT_OK && (s->models == NULL || count(s) == 0 || model_at(s, 0, "id") == NULL))
        return weft_fail(WEFT_INVALID, "chat: the server lists no models: is it one of OpenAI's "
                                       "API?");
    return status;
}

/* The number of a model in the list; count(s): none. */
static size_t find(const chat_server *s, const char *name)
{
    size_t i = 0;
    while (i < count(s) &&
           (model_at(s, i, "id") == NULL || strcmp(model_at(s, i, "id"), name) != 0))
        i++;
    return i;
}

static weft_status choose(chat_server *s, const char *name)
{
    if (find(s, name) == count(s))
        return weft_fail(WEFT_INVALID,
                         "chat: the server has no model \"%s\"; the first of its %zu: "
                         "%s",
                         weft_printable(name), count(s), weft_printable(model_at(s, 0, "id")));
    char *copy = weft_strdup(name);
    if (copy == NULL)
        return weft_fail(WEFT_MEMORY, "chat: no memory for a name");
    weft_free(s->model);
    s->model = copy;
    return WEFT_OK;
}

const char *chat_server_model(const chat_server *server)
{
    return server->model;
}

weft_status chat_server_choose(chat_run *run, const char *name)
{
    chat_server *s = run->server;
    weft_status status = read_models(s); /* adapters come and go */
    if (status == WEFT_OK && *name != '\0')
        status = choose(s, name);
    for (size_t i = 0; status == WEFT_OK && *name == '\0' && i < count(s); i++) {
        const char *id = model_at(s, i, "id");
        if (id != NULL)
            printf("%s %s\n", strcmp(id, s->model) == 0 ? "*" : " ", weft_printable(id));
    }
    run->name = s->model;
    return status;
}

/* ---- answers -------------------------------------------------------------------------------- */

/* An answer that comes. */
typedef struct answer {
    const weft_generate_options *options;
    weft_generate_fn *callback;
    void *context;
    weft_generate_stats *stats;
    cli_events events;
    double begun, first, last; /* seconds; first 0: nothing has come */
    int64_t pieces;
    bool thinks, done;
    weft_status status;
} answer;

static bool pass_on(answer *a, const char *text)
{
    const weft_generated piece = {.id = -1, .text = text, .length = strlen(text)};
    return a->callback(a->context, &piece);
}

/* Passes reasoning or text on, with the mark between them. */
static bool pass_piece(answer *a, const char *text, bool thinks)
{
    a->last = cli_seconds();
    a->first = a->first > 0 ? a->first : a->last;
    a->pieces++;
    const bool changes = thinks != a->thinks;
    a->thinks = thinks;
    return (!changes || pass_on(a, thinks ? THINK : UNTHINK)) && pass_on(a, text);
}

static void read_usage(answer *a, json_object *usage)
{
    json_object *details = json_object_object_get(usage, "prompt_tokens_details");
    a->stats->prompt_tokens = json_object_get_int64(json_object_object_get(usage, "prompt_tokens"));
    a->stats->tokens = json_object_get_int64(json_object_object_get(usage, "completion_tokens"));
    a->stats->cached_tokens =
        json_object_get_int64(json_object_object_get(details, "cached_tokens"));
}

/* The message of an error, which some servers give as a text. */
static weft_status fail_event(json_object *error)
{
    const char *text = json_object_is_type(error, json_type_object)
                           ? cli_plain_text(json_object_object_get(error, "message"))
                           : cli_plain_text(error);
    return weft_fail(WEFT_INVALID, "chat: the server failed: %.600s",
                     text != NULL ? text : "without a message");
}

static bool read_choice(answer *a, json_object *choice)
{
    static const char *const reasoning[] = {"reasoning_content", "reasoning"};
    json_object *delta = json_object_object_get(choice, "delta");
    const char *text = cli_plain_text(json_object_object_get(delta, "content")),
               *reason = cli_plain_text(json_object_object_get(choice, "finish_reason"));
    const char *thought = NULL;
    for (size_t i = 0; thought == NULL && i < 2; i++)
        thought = cli_plain_text(json_object_object_get(delta, reasoning[i]));
    if (reason != NULL) {
        const bool cut = strcmp(reason, "length") == 0;
        a->stats->reason = cut ? WEFT_FINISH_LENGTH : WEFT_FINISH_STOP;
        a->stats->detail = cut ? WEFT_FINISH_MAX : WEFT_FINISH_EOS;
    }
    return (thought == NULL || *thought == '\0' || pass_piece(a, thought, true)) &&
           (text == NULL || *text == '\0' || pass_piece(a, text, false));
}

/* cli_event_fn */
static bool on_event(void *context, const char *data)
{
    answer *a = context;
    if (strcmp(data, "[DONE]") == 0) {
        a->done = true;
        return false;
    }
    json_object *event = cli_parse_json(data, strlen(data));
    json_object *error = json_object_object_get(event, "error"),
                *choices = json_object_object_get(event, "choices"),
                *usage = json_object_object_get(event, "usage");
    bool going = true;
    if (!json_object_is_type(event, json_type_object))
        a->status =
            weft_fail(WEFT_INVALID, "chat: the server sent an event that is no JSON object");
    else if (error != NULL)
        a->status = fail_event(error);
    if (json_object_is_type(usage, json_type_object))
        read_usage(a, usage);
    if (a->status == WEFT_OK && json_object_is_type(choices, json_type_array) &&
        json_object_array_length(choices) > 0)
        going = read_choice(a, json_object_array_get_idx(choices, 0));
    if (!going) {
        a->stats->reason = WEFT_FINISH_CANCELLED;
        a->stats->detail = WEFT_FINISH_CALLBACK;
    }
    json_object_put(event);
    return going && a->status == WEFT_OK;
}

/* cli_http_fn */
static weft_status on_bytes(void *context, const char *bytes, size_t n)
{
    answer *a = context;
    const weft_status status = cli_events_push(&a->events, bytes, n, on_event, a);
    if (status != WEFT_OK || a->status != WEFT_OK)
        return status != WEFT_OK ? status : a->status;
    return a->events.stopped && !a->done ? WEFT_CANCELLED : WEFT_OK;
}

/* What is known of an answer when nothing more comes. */
static weft_status end(answer *a, const weft_cancel *cancel, weft_status status)
{
    weft_generate_stats *s = a->stats;
    const double late = a->options->timeout;
    if (status == WEFT_CANCELLED) { /* by Ctrl-C, by the callback or by the time */
        status = WEFT_OK;
        if (s->reason != WEFT_FINISH_CANCELLED && cancel != NULL && weft_cancel_is_set(cancel))
            s->reason = WEFT_FINISH_CANCELLED;
        else if (s->reason != WEFT_FINISH_CANCELLED && late > 0)
            s->reason = WEFT_FINISH_DEADLINE;
    } else if (status == WEFT_OK && s->reason == WEFT_FINISH_NONE) {
        status = weft_fail(WEFT_IO, "chat: the server ended the stream before the answer was "
                                    "complete");
    }
    s->tokens = s->tokens > 0 ? s->tokens : a->pieces; /* nearly, without usage */
    s->first_token_seconds = a->first > 0 ? a->first - a->begun : 0;
    s->decode_seconds = a->last - a->first;
    const int64_t computed = s->prompt_tokens - s->cached_tokens;
    if (s->first_token_seconds > 0)
        s->prompt_per_second = (double)computed / s->first_token_seconds;
    if (s->decode_seconds > 0)
        s->decode_per_second = (double)(s->tokens - 1) / s->decode_seconds;
    return status;
}

/* weft_session_source: sends the session's messages, and not the prompt. */
static weft_status generate(void *context, const weft_session_request *request,
                            weft_generate_fn *callback, void *callback_context,
                            weft_generate_stats *stats)
{
    chat_run *run = context;
    const chat_server *s = run->server;
    answer a = {.options = request->options,
                .callback = callback,
                .context = callback_context,
                .stats = stats,
                .begun = cli_seconds()};
    char *body = NULL;
    weft_status status = chat_body(run->values, s->model, weft_session_messages(s->session),
                                   run->options.thinking, &body);
    if (status == WEFT_OK)
        status = end(&a, run->cancel,
                     cli_http_send(s->http, "/chat/completions", body, run->cancel,
                                   request->options->timeout, on_bytes, &a));
    cli_events_free(&a.events);
    weft_free(body);
    return status;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* The first line of a file, or the environment's key; the caller frees it. NULL: none. */
static weft_status read_key(const char *file, char **key)
{
    const char *given = getenv("WEFT_API_KEY");
    size_t n = 0;
    *key = NULL;
    if (file == NULL) {
        *key = given != NULL ? weft_strdup(given) : NULL;
        return WEFT_OK;
    }
    const weft_status status = weft_file_read(file, 1 << 20, key, &n);
    if (status == WEFT_OK)
        (*key)[strcspn(*key, " \t\r\n")] = '\0';
    return status == WEFT_OK && **key == '\0'
               ? weft_fail(WEFT_INVALID, "%s: expected a key in a line", weft_printable(file))
               : status;
}

static weft_status open_session(chat_run *run)
{
    static const weft_chat_markup markup = {.think_open = THINK, .think_close = UNTHINK};
    weft_session_options *o = &run->options;
    weft_status status = weft_chat_builtin("chatml", NULL, NULL, &run->chat);
    o->markup = &markup;
    o->no_prompt_cache = true;
    o->source = generate;
    o->source_context = run;
    o->generate.timeout = isnan(run->values->timeout) ? 0 : run->values->timeout;
    if (status == WEFT_OK)
        status = weft_session_new(NULL, NULL, run->chat, o, &run->session);
    run->server->session = run->session;
    return status;
}

weft_status chat_server_open(chat_run *run)
{
    const chat_values *v = run->values;
    char *key = NULL;
    chat_server *s = run->server = weft_calloc(1, sizeof *s);
    weft_status status =
        s != NULL ? read_key(v->key_file, &key) : weft_fail(WEFT_MEMORY, "chat: no memory");
    if (status == WEFT_OK)
        status = cli_http_new(v->server, key, &s->http);
    weft_free(key);
    if (status == WEFT_OK)
        status = read_models(s);
    if (status == WEFT_OK)
        status = choose(s, v->model != NULL ? v->model : model_at(s, 0, "id"));
    if (status != WEFT_OK)
        return status;
    run->name = s->model;
    return open_session(run);
}

void chat_server_free(chat_server *s)
{
    if (s == NULL)
        return;
    cli_http_free(s->http);
    json_object_put(s->models);
    weft_free(s->model);
    weft_free(s);
}

void chat_server_use(chat_server *server, weft_session *session)
{
    server->session = session;
}

/* ---- /compare ------------------------------------------------------------------------------- */

/* The base of the chosen model, or else the first other model; NULL: it has only one. */
static const char *other_of(const chat_server *s)
{
    const char *parent = model_at(s, find(s, s->model), "parent");
    if (parent != NULL && find(s, parent) < count(s))
        return parent;
    for (size_t i = 0; i < count(s); i++) {
        const char *id = model_at(s, i, "id");
        if (id != NULL && strcmp(id, s->model) != 0)
            return id;
    }
    return NULL;
}

weft_status chat_server_other(chat_run *run, char **other)
{
    *other = NULL;
    const weft_status status = read_models(run->server);
    const char *found = status == WEFT_OK ? other_of(run->server) : NULL;
    *other = found != NULL ? weft_strdup(found) : NULL;
    return found != NULL && *other == NULL ? weft_fail(WEFT_MEMORY, "chat: no memory for a name")
                                           : status;
}

void chat_server_answer_of(chat_run *run, char *model, weft_session *session, const char *text)
{
    char *own = run->server->model;
    run->server->model = model;
    chat_answer_of(run, session, text, false);
    run->server->model = own;
}
