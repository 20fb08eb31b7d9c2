/* engine/engine.h -- internal interface of the engine: its calls, and its backends. */
#ifndef WEFT_ENGINE_ENGINE_H
#define WEFT_ENGINE_ENGINE_H

#include <pthread.h>

#include "weft/engine.h"

extern const weft_engine_backend weft__engine_native;
/* Backends that run other programs; empty in builds without them. */
extern const weft_engine_backend *const weft__engine_programs[];
extern const int weft__engine_n_programs;

/* A call in progress or waiting; owned by its caller. */
typedef struct weft__engine_call {
    weft_cancel *cancel;
    pthread_t thread; /* the thread that made it */
    uint64_t ticket;
    bool waiting;
    bool alone; /* no other call may compute at the same time */
    struct weft__engine_call *next;
} weft__engine_call;

struct weft_engine {
    const weft_engine_backend *backend;
    void *state; /* NULL once unloaded */
    int64_t max_concurrent;
    bool no_wait;
    weft_engine_info info;
    char *architecture;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Protected by the lock. */
    bool closed;
    int64_t running, uses; /* calls that compute; calls that use the state */
    bool alone;            /* the current call computes alone */
    uint64_t tickets;
    weft__engine_call *calls;
    weft_engine_metrics metrics;
    char error[1024];
};

/* A call of the calling thread that can also be cancelled by `own` (NULL: none). The caller frees
 * its `cancel`, which is NULL when out of memory. */
weft__engine_call weft__engine_call_of(const weft_cancel *own);

/* Generates for a call that its `thread` made. */
weft_status weft__engine_run(weft_engine *engine, const weft_engine_request *request,
                             weft__engine_call *call, weft_generate_fn *callback, void *context);

/* Runs `work` as a call that waits for its turn; with `alone`, until no other call computes.
 * `cancel` is set when the call must end, and when `own` is set (NULL: none). `what` names it in
 * messages. */
typedef weft_status weft__engine_work(weft_engine *engine, const weft_cancel *cancel,
                                      void *context);
weft_status weft__engine_in_turn(weft_engine *engine, const char *what, bool alone,
                                 const weft_cancel *own, weft__engine_work *work, void *context);

/* Fails with WEFT_UNSUPPORTED: the engine's backend cannot do `what`. */
weft_status weft__engine_cannot(const weft_engine *engine, const char *what);

/* Runs `use` with the model of the native backend's state, within a call, while no other call uses
 * the model. */
typedef weft_status weft__native_use_fn(void *context, weft_model *model);
weft_status weft__native_use(void *state, weft__native_use_fn *use, void *context);

/* Other parts of the native backend's state, which owns them. */
typedef struct weft__native_parts {
    const char *path, *text; /* of the model, and of its tokenizer */
    const weft_tokenizer *tokenizer;
    const weft_chat *chat;           /* NULL: none */
    weft_prompt_cache *prompt_cache; /* the same */
} weft__native_parts;
/* WEFT_UNSUPPORTED without a tokenizer. */
weft_status weft__native_parts_of(void *state, weft__native_parts *out);

/* ---- native_train.c ------------------------------------------------------------------------- */

weft_status weft__native_train(void *state, const weft_engine_train_options *options,
                               weft_train_result *result);

#endif
