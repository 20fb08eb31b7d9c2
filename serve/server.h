/* serve/server.h -- the server's records, and functions shared by its files.
 *
 * http.c receives requests and sends answers, by libmicrohttpd's threads. routes.c finds the
 * function of a route. A function either replies, or reads the settings of a generation
 * (settings.c, messages_in.c) and starts a thread for each of its choices (choice.c), which renders
 * the prompt, hands it to the thread that computes (worker.c) and gives what comes back to the
 * route's API (a serve_api). watch.c looks after waiting connections, adapters.c after the adapters
 * that requests choose.
 *
 * Locks, in the order in which they are taken: serve_server.lock, serve_request.lock.
 */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include <json-c/json.h>
#include <pthread.h>
#include <stdatomic.h>

#include "serve/serve.h"
#include "serve/text.h"
#include "weft/session.h"

struct MHD_Connection;
struct MHD_Daemon;
typedef struct serve_request serve_request;
typedef struct serve_choice serve_choice;
typedef weft_status serve_compute_fn(serve_choice *choice);
typedef struct serve_job serve_job;
typedef struct serve_turns serve_turns;
typedef struct serve_teacher serve_teacher;

/* An adapter, in the server's list while requests can choose it, and loaded until the last one of
 * them has ended. */
typedef struct serve_adapter {
    char *name;
    weft_nn_lora_member *member; /* of the server's bank */
    weft_chat *chat;             /* NULL: the model's */
    int32_t eos;                 /* ends its sequences too; -1: none */
    int64_t created;
    size_t references; /* of the list and of requests; the server's lock */
    struct serve_adapter *next;
} serve_adapter;

/* ---- answers -------------------------------------------------------------------------------- */

typedef struct serve_error {
    int http;         /* status; 0: no error */
    const char *type; /* as OpenAI's API has it */
    char message[512];
    int64_t prompt_tokens, context; /* of exceed_context_size_error */
} serve_error;

typedef struct serve_call {
    char *name, *arguments;
    char id[16];
} serve_call;

typedef enum serve_event_kind {
    SERVE_BEGIN,
    SERVE_TEXT,
    SERVE_REASONING,
    SERVE_CALL, /* the choice's last call */
    SERVE_END
} serve_event_kind;

typedef struct serve_event {
    serve_event_kind kind;
    const char *text;
    size_t length;
    const char *logprobs; /* TEXT: JSON values for its tokens, separated by commas; NULL: none */
} serve_event;

/* How an API writes answers; the request's record has what is written. */
typedef struct serve_api {
    void (*event)(serve_choice *choice, const serve_event *event); /* of a stream */
    void (*close)(serve_request *request); /* the end of a stream, after all choices' */
    void (*answer)(serve_request *request, serve_text *out); /* not a stream */
    void (*error)(const serve_error *error, serve_text *out);
    void (*send_error)(serve_request *request, const serve_error *error); /* NULL: one event */
    bool named;                                                           /* events have names */
    const char *type;  /* of an answer; NULL: JSON */
    const char *chunk; /* the object that serve_put_chunk begins */
} serve_api;

extern const serve_api serve_chat_api, serve_completion_api, serve_anthropic_api,
    serve_responses_api;

/* ---- requests ------------------------------------------------------------------------------- */

enum { SERVE_STOPS = 32 };

/* What a request asks for; its strings belong to its body. */
typedef struct serve_settings {
    bool stream, usage; /* usage: a stream ends with it */
    bool echo, base64;
    int64_t dimensions; /* of embeddings; 0: all */
    weft_generate_options generate;
    const char *stops[SERVE_STOPS];
    json_object *messages; /* of a chat, owned; NULL: the choices have prompts */
    const char *messages_text;
    weft_tool *tools;
    size_t n_tools;
    int32_t *bias_ids; /* of generate.sampler */
    float *bias_values;
    serve_text variables, schema; /* schema: that of turn */
    weft_thinking thinking;
    weft_session_turn turn;
    size_t each;    /* choices of each prompt */
    bool same;      /* the choices have the same prompt */
    bool one_call;  /* stop after the first call */
    bool must_call; /* the document is a call: {"name", "arguments"} */
} serve_settings;

struct serve_choice {
    serve_request *request;
    size_t index;
    int32_t *ids; /* the prompt of a completion */
    size_t n_ids;
    serve_text prompt;          /* its text, for echo; .at NULL: none */
    serve_text prompt_logprobs; /* JSON values of its tokens, with text_offset */
    int64_t prompt_offset;      /* characters of the prompt */
    bool scored;                /* the two above are set, for all choices of the prompt */

    serve_text text, reasoning, document;
    serve_call *calls;
    size_t n_calls;
    serve_text logprobs, pending; /* JSON values, separated by commas; of tokens without text yet */
    int64_t offset;               /* characters of the tokens so far, for completions */
    int64_t prompt_tokens, cached_tokens, tokens, reasoning_tokens;
    bool reasons; /* the last text was reasoning */
    weft_finish reason;
    weft_finish_detail detail;
    const char *stop;     /* the stop text of the request that was found; NULL: none */
    bool begun, computed; /* events have been sent; the prompt has been computed */
};

typedef struct serve_route serve_route;

struct serve_request {
    serve_server *server;
    const serve_route *route;
    const serve_api *api;
    struct MHD_Connection *connection;
    int socket;
    char *path; /* what follows the route's path */
    const char *content_type;
    char *url;
    char id[40];
    int64_t created;
    double start;
    serve_text body;
    json_object *json, *tools; /* the body, parsed; those of its tools that are functions */
    serve_adapter *adapter;    /* a reference; NULL: the model itself is asked */
    serve_settings settings;
    serve_choice *choices;
    size_t n_choices;
    serve_compute_fn *compute;
    weft_cancel *cancel;
    atomic_int references;
    bool admitted;      /* counted in n_admitted */
    atomic_size_t held; /* bytes of the body, of its JSON values and its answers, by an estimate */
    pthread_mutex_t sharing; /* of the two below, and of scores */
    bool shared;             /* the choices' prompt is in the prompt cache */
    int64_t known;           /* its tokens that were there before */

    pthread_mutex_t lock; /* of all below */
    size_t running;       /* choices */
    serve_error error;
    int http; /* status of the answer; 0: not known yet */
    const char *type;
    char nonce[25]; /* of the page's policy; "": not the page */
    serve_text out; /* of which `sent` bytes are sent */
    size_t sent;
    bool streams, done, suspended, handled /* the body has come */, gone, stalled;
    bool closes;             /* the connection ends after the answer */
    bool failing;            /* the event of the error is being sent */
    double last;             /* time of the last event */
    int64_t sequence, block; /* state of APIs whose events are numbered */
    int part;           /* what the open block holds: a serve_event_kind; BEGIN: none is open */
    size_t from, first; /* of the record's text and log-probabilities, where the block begins */
    serve_text items;   /* JSON values of the blocks so far, separated by commas */
    serve_request *next, *before; /* in the server's list; its lock */
};

/* ---- the server ----------------------------------------------------------------------------- */

typedef struct serve_counts {
    int64_t requests, failed, cancelled, prompt_tokens, cached_tokens, tokens, steps, most_rows;
    double prompt_seconds, decode_seconds;
    weft_batch_cache kv;
} serve_counts;

struct serve_server {
    serve_options options;
    struct MHD_Daemon *daemon;
    pthread_t worker, watch;
    bool has_worker, has_watch;
    serve_model loaded; /* constant once `ready` */
    int64_t positions, vocabulary;
    int64_t mapped; /* bytes of weights that are mapped from files, so not counted as arrays */
    int64_t started;
    weft_prompt_cache *cache;
    weft_nn_lora_bank *bank; /* of the thread that computes */
    serve_turns *turns;
    serve_teacher *teacher; /* files and jobs; NULL: no state folder */
    atomic_size_t held;     /* by all requests */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t work, idle;
    bool ready, stopping, ended;
    weft_status status; /* of loading */
    char message[512];
    serve_request *requests; /* all that are not answered yet */
    size_t n_requests, n_admitted, n_threads;
    serve_job *queue, **last;
    size_t n_queue, n_calls, n_active; /* n_calls: of the queue */
    serve_adapter *adapters, *gone;    /* gone: to be freed by the thread that computes */
    serve_counts counts;
    uint64_t ids;
};

double serve_seconds(void);
/* Writes a random id of letters and digits: a prefix and 24 characters, as far as there is room. */
void serve_make_id(const char *prefix, char *out, size_t size);

/* ---- http.c --------------------------------------------------------------------------------- */

weft_status serve_http_start(serve_server *server);
void serve_http_stop(serve_server *server);
/* Adds to the answer, and wakes its connection. A stream that is not read is cancelled when a
 * megabyte waits. */
void serve_write(serve_request *request, const char *at, size_t n);
/* Sets status and type of the answer; what is written from now on is sent at once. */
void serve_begin_stream(serve_request *request);
void serve_close(serve_request *request);
/* The whole answer, taken over. */
void serve_reply(serve_request *request, int http, const char *type, serve_text *body);
/* One event of a stream, with a name unless that is NULL. Takes the data over. */
void serve_send(serve_request *request, const char *name, serve_text *data);
/* There is no memory for an event: the stream ends with an error, and without further events. */
void serve_lose_event(serve_request *request);
/* A value of the query string; NULL: absent. */
const char *serve_query(const serve_request *request, const char *key);
void serve_request_keep(serve_request *request);
void serve_request_drop(serve_request *request);

/* ---- errors.c ------------------------------------------------------------------------------- */

/* The error of the calling thread's last failure. Once the model has computed, what is invalid is
 * the answer and not the request. */
serve_error serve_error_of(weft_status status, bool computed);
serve_error serve_error_make(int http, const char *format, ...) WEFT_PRINTF(2, 3);
/* Sets the error that the request's failure is answered with, unless there is one. Returns
 * WEFT_INVALID. */
weft_status serve_refuse(serve_request *request, const serve_error *error);
/* Ends a request with an error: a reply, or an event in a stream that has begun. */
void serve_fail(serve_request *request, const serve_error *error);

/* ---- guard.c -------------------------------------------------------------------------------- */

/* Checks host, origin and key of a request; http 0: it may pass. */
serve_error serve_guard(const serve_server *server, struct MHD_Connection *connection,
                        bool needs_key);
/* The origin to be named in the answer, if the request has one that is allowed. */
const char *serve_guard_origin(const serve_server *server, struct MHD_Connection *connection);

/* ---- routes.c ------------------------------------------------------------------------------- */

struct serve_route {
    const char *method, *path;
    bool open;  /* needs no key */
    bool loads; /* needs the model */
    bool waits; /* for a disk: runs in a thread of its own, since http.c's never wait */
    const serve_api *api;
    /* Replies, or starts the request's choices. A failure is its answer. */
    weft_status (*run)(serve_request *request);
};

/* The route of a request. NULL: none; *path_known: with another method there is one. */
const serve_route *serve_find_route(const char *method, const char *path, bool *path_known);

/* ---- openai_chat.c, openai_completions.c ---------------------------------------------------- */

weft_status serve_run_chat(serve_request *request);
weft_status serve_run_completion(serve_request *request);
/* Reads the settings of a chat. */
weft_status serve_read_chat(serve_request *request);
/* Why a choice has ended, in OpenAI's words. */
const char *serve_finish_reason(const serve_choice *choice);
void serve_put_usage(const serve_request *request, serve_text *out);
/* Begins an object with choices, `chunk` of the API. */
void serve_put_chunk(const serve_request *request, serve_text *out);
/* Ends a stream of chunks: the usage, if it was asked for, and [DONE]. */
void serve_close_chunks(serve_request *request);
void serve_put_error(const serve_error *error, serve_text *out);
/* Reads a list of token ids as a choice's prompt; `key` is for messages. */
weft_status serve_read_ids(const serve_server *server, const char *key, json_object *list,
                           serve_choice *choice);

/* ---- anthropic.c, responses.c, embeddings.c ------------------------------------------------- */

weft_status serve_run_anthropic(serve_request *request);
weft_status serve_run_count_tokens(serve_request *request);
weft_status serve_run_responses(serve_request *request);
weft_status serve_run_input_tokens(serve_request *request);
weft_status serve_run_embeddings(serve_request *request);

/* ---- adapters.c ----------------------------------------------------------------------------- */

weft_status serve_run_load_adapter(serve_request *request);
weft_status serve_run_unload_adapter(serve_request *request);
/* Loads the adapters of the options; in the thread that computes, as the two below. */
weft_status serve_adapters_open(serve_server *server);
/* Frees those that have no reference. */
void serve_adapters_sweep(serve_server *server);
void serve_adapters_close(serve_server *server);
/* Finds what the body's `model` names: an adapter, or the model itself. A server with adapters
 * refuses other names. */
weft_status serve_choose_model(serve_request *request);
/* Adds a reference to the adapter of that name; NULL if no adapter has it. */
serve_adapter *serve_adapter_find(serve_server *server, const char *name);
void serve_adapter_drop(serve_server *server, serve_adapter *adapter); /* NULL is accepted */
/* The name, chat template and adapter that a request is answered with. */
const char *serve_model_name(const serve_request *request);
const weft_chat *serve_chat_of(const serve_request *request);
const weft_nn_lora_member *serve_member_of(const serve_request *request);

/* Loads an adapter, in the thread that computes or that has its turn, and lists it under its name
 * or frees it again. */
weft_status serve_adapter_read(serve_server *server, const char *name, const char *path,
                               serve_adapter **out);
void serve_adapter_list(serve_server *server, serve_adapter *adapter);
void serve_adapter_free(serve_server *server, serve_adapter *adapter); /* NULL is accepted */
/* Takes an adapter out of the list; false if no adapter has the name. */
bool serve_adapter_unlist(serve_server *server, const char *name);
/* Whether a text may be the name of an adapter. */
bool serve_is_name(const char *text);

/* ---- turns.c: the thread that computes answers, and one that trains, take turns with the model --
 */

weft_status serve_turns_new(serve_server *server);
void serve_turns_free(serve_server *server);
/* Of the thread that computes: whether a job waits for its turn, and giving it one, until the next
 * step of the answers is due or, if none is computed, until a request comes. */
bool serve_turns_wanted(serve_server *server);
void serve_turns_give(serve_server *server, bool answers);
/* Ends a turn that was given until a request comes. */
void serve_turns_press(serve_server *server);
/* Of a job's thread: the functions of serve_task; frees the adapter, after which the thread keeps
 * its turn; and ends the turn. */
void serve_turns_enter(serve_server *server);
weft_status serve_turns_adapt(serve_server *server);
weft_status serve_turns_reserve(serve_server *server, int64_t bytes);
void serve_turns_free_adapter(serve_server *server);
void serve_turns_leave(serve_server *server);
/* While a job's thread waits for a disk or a lock: it needs no turn, until serve_turns_resume has
 * waited for one. */
void serve_turns_rest(serve_server *server);
void serve_turns_resume(serve_server *server);

/* ---- files.c, jobs.c, teach.c --------------------------------------------------------------- */

weft_status serve_run_upload(serve_request *request);
weft_status serve_run_list_files(serve_request *request);
weft_status serve_run_file(serve_request *request);
weft_status serve_run_delete_file(serve_request *request);
weft_status serve_run_create_job(serve_request *request);
weft_status serve_run_list_jobs(serve_request *request);
weft_status serve_run_job(serve_request *request);
weft_status serve_run_cancel_job(serve_request *request);
weft_status serve_run_delete_job(serve_request *request);
weft_status serve_run_delete_model(serve_request *request);
/* Opens the state folder and starts the thread of jobs, if the options have one. */
weft_status serve_teacher_start(serve_server *server);
/* Stops the job in progress, which saves a checkpoint and continues at the next start. */
void serve_teacher_stop(serve_server *server);
void serve_teacher_free(serve_server *server);
/* Loads the adapters of the jobs that have succeeded; in the thread that computes. */
void serve_teacher_load(serve_server *server);
/* Lets the thread of jobs look for one: the model is ready. */
void serve_teacher_wake(serve_server *server);

/* ---- page.c --------------------------------------------------------------------------------- */

weft_status serve_run_page(serve_request *request);
/* The Content-Security-Policy of the page that has been answered. */
void serve_page_policy(const serve_request *request, char *out, size_t size);

/* ---- fields.c ------------------------------------------------------------------------------- */

/* Members of a request's body. Those that are absent or null change nothing. */
weft_status serve_read_number(json_object *object, const char *key, double low, double high,
                              double *out);
weft_status serve_read_count(json_object *object, const char *key, int64_t low, int64_t high,
                             int64_t *out);
weft_status serve_read_flag(json_object *object, const char *key, bool *out);
weft_status serve_read_text(json_object *object, const char *key, const char **out);
/* The text of a JSON value that is a string without NUL; otherwise NULL. */
const char *serve_plain(json_object *value);
/* Parses a text that may be as deep as a body within a few levels. NULL: malformed. */
json_object *serve_parse(const char *text);
/* Counts memory that a request will use until it ends; more than all requests may use together is
 * refused. */
weft_status serve_hold(serve_request *request, size_t bytes);
/* serve_parse of a text of the request, whose values are counted; WEFT_INVALID: more than all
 * requests may use. *out is NULL for a malformed text. */
weft_status serve_parse_text(serve_request *request, const char *text, json_object **out);
/* Parses the body, which must be a JSON object, into request->json, and finds the adapter that it
 * names. */
weft_status serve_parse_body(serve_request *request);

/* ---- settings.c, messages_in.c -------------------------------------------------------------- */

/* Sampling, lengths, stops and stream of the request's body, with the names of OpenAI's API. */
weft_status serve_read_generation(serve_request *request);
weft_status serve_read_stops(serve_request *request, const char *key);
/* The tools of a list that have this type, or none: others the provider of an API would run.
 * What is not a list is returned as it is. */
json_object *serve_own_tools(json_object *tools, const char *type);
/* Tools, tool_choice and response_format, which has another name in other APIs. */
weft_status serve_read_tools(serve_request *request, json_object *tools);
weft_status serve_read_tool_choice(serve_request *request, json_object *choice);
weft_status serve_read_format(serve_request *request, const char *name, json_object *format);
weft_status serve_read_template(serve_request *request);
/* Takes an array of messages over, and makes it that of the settings. */
weft_status serve_read_messages(serve_request *request, json_object *messages);
void serve_settings_free(serve_settings *settings);

/* ---- choice.c ------------------------------------------------------------------------------- */

/* Makes n choices. */
weft_status serve_make_choices(serve_request *request, size_t n);
/* Starts a thread for each of the first n, which calls a function for the choice. */
weft_status serve_start_choices(serve_request *request, size_t n, serve_compute_fn *compute);
/* Runs the request's route, which replies, in a thread. */
weft_status serve_start_route(serve_request *request);
/* Refuses a prompt of n tokens that leaves no position for an answer. */
weft_status serve_check_room(serve_request *request, size_t n);
/* Those of chats and completions. */
weft_status serve_chat(serve_choice *choice);
weft_status serve_complete(serve_choice *choice);
/* The rendered prompt of a chat, which the caller frees. */
weft_status serve_render(serve_request *request, char **text, size_t *length, size_t *tokens);

typedef weft_status serve_read_fn(serve_request *request);

/* The same for the chat that `read` reads from the body. */
weft_status serve_render_body(serve_request *request, serve_read_fn *read, char **text,
                              size_t *length, size_t *tokens);
/* A route that answers a chat with one message: its body is read by `read`, and its identifier
 * begins with `prefix`. */
weft_status serve_run_message(serve_request *request, serve_read_fn *read, const char *prefix);
/* Replies with the number of tokens of the chat that `read` reads: it replaces %i in `format`. */
weft_status serve_count_tokens(serve_request *request, serve_read_fn *read, const char *format);

/* ---- logprobs.c ----------------------------------------------------------------------------- */

/* Adds a token to those whose text has not come yet. */
void serve_add_logprob(serve_choice *choice, const weft_generated *token);
/* Computes the log-probabilities of the tokens of a completion's prompt, once for all choices. */
weft_status serve_score_prompt(serve_choice *choice);

/* ---- worker.c ------------------------------------------------------------------------------- */

weft_status serve_worker_start(serve_server *server);
void serve_worker_stop(serve_server *server);
/* As weft_generate, in the server's batch, with the request's adapter and until its deadline. */
weft_status serve_generate(serve_request *request, const int32_t *ids, size_t n,
                           const weft_generate_options *options, weft_generate_fn *callback,
                           void *context, weft_generate_stats *stats);
/* Calls a function in the thread that computes, between two steps; the model has the request's
 * adapter. */
weft_status serve_compute(serve_request *request, weft_status (*call)(void *context),
                          void *context);

/* ---- watch.c -------------------------------------------------------------------------------- */

weft_status serve_watch_start(serve_server *server);
void serve_watch_stop(serve_server *server);

#endif
