/* core/eval/queue.h -- plans in flight: what each waits for, and the streams that run them.
 *
 * A plan gets a ticket when it is made, and leaves it on what it touches: under the evaluation
 * lock, so tickets are in the order of the plans. It starts when the plans are done whose tickets
 * it found there. A plan waits for smaller tickets only; one of a stream also for the stream's
 * earlier ones.
 *
 * A plan of a stream that only queues work for a device is issued: submitted, and completed when a
 * second thread of the stream has seen its end. A later plan for the same device starts when the
 * plans before it are issued, since the device keeps the order; so it does not idle in between.
 */
#ifndef CORE_EVAL_QUEUE_H
#define CORE_EVAL_QUEUE_H

#include "core/eval/plan.h"
#include "weft/stream.h"

enum { WEFT__WAITS_FOR = 8 };

typedef struct weft__flight {
    struct weft__flight *next;   /* in flight, by ticket */
    struct weft__flight *behind; /* in the queue of its stream */
    uint64_t ticket;
    uint64_t oldest;                 /* when it was made, nothing before this was in flight */
    uint64_t all_until;              /* everything up to here is waited for, and */
    uint64_t after[WEFT__WAITS_FOR]; /* these */
    int n_after;
    uint64_t needs[WEFT__WAITS_FOR]; /* plans that compute what it reads, */
    int n_needs;
    uint64_t needs_until; /* and, where there are too many, all up to here */
    weft_device *device;  /* that it can be issued for, or NULL */
    bool issued;
    uint64_t point;    /* of the device, where the issued work ends */
    const void *owner; /* whose plans run one after another: a stream, or a thread */
    weft__plan plan;
    /* Of a program, which keeps the plan; else NULL. `lost`: marks what it should have computed. */
    void (*done)(void *context);
    void (*lost)(void *context, uint64_t ticket);
    void *context;
} weft__flight;

/* ---- under the evaluation lock -------------------------------------------------------------- */

void weft__flight_begin(weft__flight *f, const void *owner); /* takes a ticket */
void weft__flight_writes(weft__flight *f, weft__buffer *b);
void weft__flight_steps(weft__flight *f, const weft__step *first); /* all that they touch */
void weft__flight_enter(weft__flight *f);                          /* before the lock is left */
/* Makes `f`, which does not enter, wait for the plan that fills the buffer. */
void weft__flight_after(weft__flight *f, const weft__buffer *b);

/* Whether the plan is yet to be done. */
bool weft__in_flight(uint64_t ticket);

/* Enters `f` and queues it: it runs its plan, and then done(context) or weft__plan_free. */
void weft__stream_queue(weft_stream *stream, weft__flight *f);

/* ---- running -------------------------------------------------------------------------------- */

/* Whether the stream's thread is there. */
bool weft__stream_start(weft_stream *stream);

/* On the calling thread: waits for its turn, runs the plan, leaves. */
weft_status weft__flight_run(weft__flight *f, weft__plan *plan);

void weft__flight_wait(const weft__flight *f);  /* for what it is after */
void weft__flight_wait_ticket(uint64_t ticket); /* for one plan */
void weft__flight_wait_issued(uint64_t ticket); /* the same, or until it is issued */
void weft__flights_wait(void);                  /* for all that are there now */
void weft__stream_wait(const weft_stream *stream);

/* What plans of the calling thread are known by that run on it. */
const void *weft__thread_owner(void);

/* The thread is in an evaluation, where a kernel, an expansion or a release callback of the user
 * cannot begin another. */
extern _Thread_local bool weft__evaluating;

/* ---- failures ------------------------------------------------------------------------------- */

/* The first failure that nobody was told of, of one owner or (NULL) of all, which then are told. */
weft_status weft__untold_failure(const void *owner);

#endif
