/* serve/serve.h -- an HTTP server for one model, with the APIs of OpenAI and Anthropic.
 *
 *     serve_options options = {.load = load, .name = "my-model", .port = 8080};
 *     status = serve_start(&options, &server);
 *     ... until a signal ...
 *     serve_stop(server, 10);
 *
 * One thread computes, a running batch of all requests. Other threads read requests, render
 * prompts and write answers.
 */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include "weft/batch.h"
#include "weft/chat.h"
#include "weft/generate.h"
#include "weft/train.h"

typedef struct serve_server serve_server;

/* What is served; owned by the server, also what there is after `load` has failed. */
typedef struct serve_model {
    weft_model *model;
    weft_tokenizer *tokenizer;
    weft_chat *chat;                /* NULL: no chat template */
    weft_generate_options generate; /* of requests that do not set an option */
    weft_embed_settings embed;
} serve_model;

/* An adapter that requests choose by its name as their model. */
typedef struct serve_adapter_path {
    const char *name, *path;
} serve_adapter_path;

/* An adapter to be trained on the served model, by the options of weft train. */
typedef struct serve_task {
    weft_model *model;
    const char *const *words; /* (n_words): the options, without MODEL */
    size_t n_words;
    const weft_cancel *cancel;
    weft_train_callback *callback;
    void *context; /* of the callback and of the functions below */
    /* Waits until the calling thread may use the model. Then it keeps the model to itself until it
     * has called `adapt`. */
    void (*enter)(void *context);
    /* After an adapter was injected into the model: from now on answers are computed without it,
     * while this thread evaluates. */
    weft_status (*adapt)(void *context);
    /* Keeps bytes of memory free for the training. WEFT_MEMORY: there are not as many. */
    weft_status (*reserve)(void *context, int64_t bytes);
} serve_task;

/* All zero: the defaults. Everything is borrowed for the life of the server. */
typedef struct serve_options {
    /* Loads the model. Called in the thread that computes, while /health answers 503. */
    weft_status (*load)(void *context, serve_model *out);
    void *context;
    /* The chat template in an adapter's folder; NULL in *out, and NULL here: the model's. Called
     * as `load`. */
    weft_status (*load_chat)(void *context, const char *path, weft_chat **out);
    const char *name; /* of the model, in answers */
    /* Adapters that are loaded with the model, which has none itself then. */
    const serve_adapter_path *adapters;
    size_t n_adapters;
    /* A folder whose entries clients may load as adapters, and unload; NULL: none. */
    const char *adapter_folder;
    /* A folder for uploaded files and fine-tuning jobs; NULL: none. It may take so many bytes of
     * files; 0: 1 GiB. */
    const char *state;
    int64_t quota;
    /* Identifies the model, so that jobs and adapters of another one in the folder are not used
     * with it; NULL: they are not compared. */
    const char *identity;
    /* Trains; called in a thread of its own. */
    weft_status (*teach)(void *context, const serve_task *task, weft_train_result *result);
    double teach_latency; /* seconds between steps of the answers while a job trains; 0: 0.2 */
    const char *host;     /* an address, or localhost; NULL: 127.0.0.1 */
    int port;             /* 0: any free one (serve_port) */

    const char *const *keys; /* one of these n_keys is required, except for /health; 0: none is */
    size_t n_keys;
    /* Names besides localhost and addresses that the Host header may have, and origins of web
     * pages that may use the server, as in "https://example.org". */
    const char *const *hosts, *const *origins;
    size_t n_hosts, n_origins;

    int64_t rows;         /* sequences computed at a time; 0: 16 */
    int64_t cache_tokens; /* weft_generate_batch_options */
    int64_t requests;     /* that wait or are computed; further ones get 503; 0: 256. Their
                             choices may be four times as many, or those of one request */
    int64_t connections;  /* open at a time; 0: 512 */
    int64_t unread;       /* bytes that wait for a client before it is cut off; 0: 1 MiB */
    int64_t body; /* bytes of a request's body; 0: 16 MiB. Its JSON values may take 24 times as
                     many, and bodies and values of all requests 96 times as many */
    int64_t max_tokens; /* the most for a request, and its default; 0: the model's positions */
    int64_t cache;      /* bytes of the prompt cache; 0: its default; below 0: no prompt cache */
    double timeout;     /* seconds of a request; 0: 3600 */
    double idle;        /* seconds after which a connection without traffic is closed; 0: 60 */
    double upload;      /* seconds for the body of a request; 0: 60 */
    double ping;        /* seconds without an event after which a stream gets a comment; 0: 5 */
} serve_options;

/* Starts to listen, and to load the model. WEFT_UNSUPPORTED in a build without libmicrohttpd,
 * WEFT_IO if the address cannot be used. */
WEFT_NODISCARD weft_status serve_start(const serve_options *options, serve_server **out);

int serve_port(const serve_server *server);

/* Whether the model is loaded; a failure to load it is returned. */
weft_status serve_state(serve_server *server, bool *ready);

/* Refuses new requests, waits for the others, cancels those that are left after some seconds, and
 * frees the server. NULL is accepted. */
void serve_stop(serve_server *server, double seconds);

#endif
