/* serve/turns.c -- the thread that computes answers and a thread that trains take turns with the
 * model.
 *
 * The thread that computes gives a turn after each step of its batch. The job's thread gives it
 * back where it evaluates (weft_set_pause): the adapter that it trains is then out of the module
 * tree, and the memory that the job still needs is out of reach. */
#include <errno.h>
#include <math.h>
#include <time.h>

#include "serve/server.h"
#include "weft/device.h"
#include "weft/memory.h"

/* Least share of the latency for a job, and the seconds for which it waits within an evaluation,
 * which the answers may wait for. */
static const double LEAST = 0.25, MOST_WAIT = 2, LATENCY = 0.2;

struct serve_turns {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool asks;            /* a job's thread needs the model, which it alone sets */
    bool trains;          /* it has its turn */
    atomic_bool pressing; /* a request has come */
    double until;         /* end of the turn; INFINITY: until a request comes */
    double returned;      /* when the last turn ended */
    double late;          /* seconds by which turns end too late */
    /* Of the job's thread. */
    weft_nn_lora_member *member; /* NULL: it keeps its turn */
    bool apart;                  /* it goes on without a turn: to the end of an evaluation, or while
                                    it waits for a disk */
    int rests;                   /* that have begun, one within the other */
    int64_t needed, base;        /* bytes reserved beside those that it held then */
    int64_t limit, before;       /* of memory: during a job, and otherwise */
};

weft_status serve_turns_new(serve_server *server)
{
    pthread_condattr_t monotonic;
    serve_turns *t = server->turns = weft_calloc(1, sizeof *t);
    if (t == NULL)
        return weft_fail(WEFT_MEMORY, "serve: out of memory");
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return WEFT_OK;
}

void serve_turns_free(serve_server *server)
{
    serve_turns *t = server->turns;
    if (t == NULL)
        return;
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
    weft_free(t);
    server->turns = NULL;
}

/* ---- the thread that computes --------------------------------------------------------------- */

bool serve_turns_wanted(serve_server *server)
{
    serve_turns *t = server->turns;
    pthread_mutex_lock(&t->lock);
    const bool wanted = t->asks;
    pthread_mutex_unlock(&t->lock);
    return wanted;
}

void serve_turns_press(serve_server *server)
{
    atomic_store(&server->turns->pressing, true);
}

static double latency_of(const serve_server *server)
{
    return server->options.teach_latency > 0 ? server->options.teach_latency : LATENCY;
}

/* The seconds of a turn between two steps of the answers, of which the last took `step`. */
static double length_of(const serve_server *server, double step)
{
    const double latency = latency_of(server);
    return fmax(0.9 * latency - step - server->turns->late, LEAST * latency);
}

void serve_turns_give(serve_server *server, bool answers)
{
    serve_turns *t = server->turns;
    pthread_mutex_lock(&server->lock);
    const bool calls = server->n_calls > 0;
    const bool idle = !answers && server->queue == NULL && server->gone == NULL && !server->ended;
    atomic_store(&t->pressing, !idle);
    pthread_mutex_unlock(&server->lock);
    pthread_mutex_lock(&t->lock);
    const double now = serve_seconds();
    /* Calls that wait are computed one after another for as long as a job must leave them. */
    if (t->asks && !(calls && now - t->returned < (1 - LEAST) * latency_of(server))) {
        t->until = idle ? INFINITY : now + length_of(server, now - t->returned);
        t->trains = true;
        pthread_cond_broadcast(&t->changed);
        while (t->trains)
            pthread_cond_wait(&t->changed, &t->lock);
        t->returned = serve_seconds();
        if (!idle)
            t->late = fmax(t->returned - t->until, 0.9 * t->late);
    }
    pthread_mutex_unlock(&t->lock);
}

/* ---- the job's thread ----------------------------------------------------------------------- */

/* At the beginning of a turn. */
static void take_up(serve_server *server)
{
    serve_turns *t = server->turns;
    weft_memory_set_limit(t->limit);
    t->apart = false;
    if (t->member != NULL)
        weft_nn_lora_bank_use(server->bank, t->member);
}

/* Ends the turn; the answers may not use what the job has reserved and does not use yet. The lock
 * is held. */
static void hand_back(serve_turns *t)
{
    const int64_t left = t->needed - (weft_memory_thread_active() - t->base);
    weft_memory_set_limit(t->limit - (left > 0 ? left : 0));
    t->trains = false;
    pthread_cond_broadcast(&t->changed);
}

/* Waits for a turn, at most some seconds. The lock is held. */
static void await_turn(serve_turns *t, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)fmin(seconds, 1e6);
    int code = 0;
    while (!t->trains && code != ETIMEDOUT)
        code = isinf(seconds) ? pthread_cond_wait(&t->changed, &t->lock)
                              : pthread_cond_timedwait(&t->changed, &t->lock, &until);
}

static bool is_over(serve_turns *t)
{
    return isinf(t->until) ? atomic_load(&t->pressing) : serve_seconds() >= t->until;
}

/* Asks for turns, and waits for the first. */
static void ask(serve_server *server)
{
    serve_turns *t = server->turns;
    pthread_mutex_lock(&server->lock); /* the thread that computes looks at it under this lock */
    pthread_mutex_lock(&t->lock);
    t->asks = true;
    pthread_mutex_unlock(&t->lock);
    pthread_cond_signal(&server->work);
    pthread_mutex_unlock(&server->lock);
    pthread_mutex_lock(&t->lock);
    await_turn(t, INFINITY);
    pthread_mutex_unlock(&t->lock);
    take_up(server);
}

void serve_turns_rest(serve_server *server)
{
    serve_turns *t = server->turns;
    if (t->rests++ > 0 || t->member == NULL || weft_model_module(server->loaded.model)->training)
        return;
    pthread_mutex_lock(&t->lock);
    if (!t->apart)
        hand_back(t);
    t->apart = true;
    t->asks = false;
    pthread_mutex_unlock(&t->lock);
}

void serve_turns_resume(serve_server *server)
{
    if (--server->turns->rests == 0 && server->turns->apart)
        ask(server);
}

/* Within an evaluation the thread goes on without a turn after a while, as the answers may wait for
 * the evaluation; it does not use the module tree there. */
static void yield_model(serve_server *server, bool inside)
{
    serve_turns *t = server->turns;
    pthread_mutex_lock(&t->lock);
    const bool had = !t->apart;
    if (had && !is_over(t)) {
        pthread_mutex_unlock(&t->lock);
        return;
    }
    if (had)
        hand_back(t);
    if (had || !inside)
        await_turn(t, inside ? MOST_WAIT : INFINITY);
    t->apart = !t->trains;
    pthread_mutex_unlock(&t->lock);
    if (!t->apart)
        take_up(server);
}

/* weft_pause_fn. While gradients are recorded the tree is in training mode, which answers must not
 * see. */
static void pause_job(void *context, weft_pause_point point)
{
    serve_server *server = context;
    const serve_turns *t = server->turns;
    if (point == WEFT_PAUSE_DISK)
        serve_turns_rest(server);
    else if (point == WEFT_PAUSE_DISK_DONE)
        serve_turns_resume(server);
    else if (t->member != NULL && t->asks && !weft_model_module(server->loaded.model)->training)
        yield_model(server, point == WEFT_PAUSE_INSIDE);
}

void serve_turns_enter(serve_server *server)
{
    serve_turns *t = server->turns;
    const int64_t device = weft_device_memory(weft_default_device()) - server->mapped;
    t->before = weft_memory_limit();
    t->limit = device > 0 && device < t->before ? device : t->before;
    t->needed = t->base = 0;
    ask(server);
    weft_nn_lora_bank_use(server->bank, NULL);
    weft_set_pause(pause_job, server);
}

weft_status serve_turns_adapt(serve_server *server)
{
    serve_turns *t = server->turns;
    const weft_status status = weft_nn_lora_bank_take(server->bank, &t->member);
    if (status == WEFT_OK) {
        weft_nn_lora_bank_set_apart(t->member);
        weft_nn_lora_bank_use(server->bank, t->member);
    }
    return status;
}

weft_status serve_turns_reserve(serve_server *server, int64_t bytes)
{
    serve_turns *t = server->turns;
    const int64_t active = weft_memory_active();
    if (bytes > t->limit - active)
        return weft_fail(WEFT_MEMORY,
                         "the job needs %.3g GB of memory beside the %.3g GB that the server uses, "
                         "and %.3g GB are available; a smaller batch_size, micro_batch or "
                         "max_length needs less",
                         (double)bytes * 1e-9, (double)active * 1e-9, (double)t->limit * 1e-9);
    t->needed = bytes;
    t->base = weft_memory_thread_active();
    return WEFT_OK;
}

void serve_turns_free_adapter(serve_server *server)
{
    serve_turns *t = server->turns;
    weft_set_pause(NULL, NULL);
    if (t->member != NULL)
        weft_nn_lora_bank_drop(server->bank, t->member);
    else
        weft_nn_lora_remove(weft_model_module(server->loaded.model));
    t->member = NULL;
}

void serve_turns_leave(serve_server *server)
{
    serve_turns *t = server->turns;
    pthread_mutex_lock(&t->lock);
    weft_memory_set_limit(t->before);
    t->asks = t->trains = false;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}
