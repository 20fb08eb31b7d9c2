/* core/eval/queue.h -- pending plans: their dependencies, and the streams that run them.
 *
 * When a plan is made, under the evaluation lock, it gets a ticket, and writes it into the buffers
 * that it uses. It may start when the plans whose tickets it found there are done. A plan therefore
 * waits only for smaller tickets; a plan of a stream also waits for the stream's earlier plans.
 *
 * A plan that may pause (weft_set_pause) can be pending for long. The buffers that it uses are
 * marked apart, so that a plan that waits for all tickets up to one waits for it only if they share
 * one.
 *
 * A plan of a stream that only queues work for a device is issued: it is submitted, and a second
 * thread of the stream waits for its end. Later plans for the same device may start as soon as it
 * is issued, since the device executes them in order; so the device does not idle between plans.
 *
 * Plans that use several devices which queue work (layers spread over cards) run at the same time:
 * a kernel queues its work in the device's turn, and a copy waits without holding the device.
 */
#ifndef CORE_EVAL_QUEUE_H
#define CORE_EVAL_QUEUE_H

#include "core/eval/pause.h"
#include "core/eval/plan.h"
#include "weft/stream.h"

enum { WEFT__WAITS_FOR = 8 };

typedef struct weft__pending {
    struct weft__pending *next;           /* list of pending plans, by ticket */
    struct weft__pending *next_in_stream; /* queue of its stream */
    uint64_t ticket;
    uint64_t oldest;                 /* smallest pending ticket when it was made */
    uint64_t all_until;              /* waits for all tickets up to this one, and */
    uint64_t after[WEFT__WAITS_FOR]; /* these */
    int n_after;
    uint64_t needs[WEFT__WAITS_FOR]; /* tickets of the plans that compute its inputs, */
    int n_needs;
    uint64_t needs_until; /* and, if there are too many, all tickets up to this one */
    bool all;             /* `all_until` includes plans that may pause */
    bool pausing;         /* it may pause */
    bool shares;          /* it uses several devices, at the same time as others of its kind */
    uint64_t paused;      /* waits also for this plan, which may pause; 0: none */
    weft_device *device;  /* device that it can be issued for, or NULL */
    bool issued;
    uint64_t point;    /* mark of the device at the end of the issued work */
    const void *owner; /* stream or thread whose plans run in order */
    weft__plan plan;
    /* For a program, which keeps the plan; else NULL. `on_failure` marks the outputs as failed. */
    void (*done)(void *context);
    void (*on_failure)(void *context, uint64_t ticket);
    void *context;
} weft__pending;

/* ---- under the evaluation lock -------------------------------------------------------------- */

void weft__pending_begin(weft__pending *f, const void *owner); /* takes a ticket */
void weft__pending_writes(weft__pending *f, weft__buffer *b);
void weft__pending_steps(weft__pending *f, const weft__step *first); /* records all buffers that the
                                                                      * steps use */
void weft__pending_enter(weft__pending *f);                          /* adds it to the pending
                                                                      * plans; called before the
                                                                      * lock is released */
/* Makes `f`, which has not entered, wait for the plan that fills the buffer. */
void weft__pending_reads(weft__pending *f, const weft__buffer *b);

/* Whether the plan of that ticket is not done yet. */
bool weft__is_pending(uint64_t ticket);

/* Enters and queues `f`. The stream runs its plan, and then done(context) or weft__plan_free. */
void weft__stream_queue(weft_stream *stream, weft__pending *f);

/* ---- running -------------------------------------------------------------------------------- */

/* Whether the stream's thread exists or could be started. */
bool weft__stream_start(weft_stream *stream);

/* Waits until the plan may start, runs it on the calling thread, and removes `f`. */
weft_status weft__pending_run(weft__pending *f, weft__plan *plan);

void weft__pending_wait(const weft__pending *f); /* waits for its dependencies */
void weft__pending_wait_ticket(uint64_t ticket); /* for one plan */
void weft__pending_wait_issued(uint64_t ticket); /* the same, or until the plan is issued */
void weft__pending_wait_all(void);               /* waits for all currently pending plans */
void weft__stream_wait(const weft_stream *stream);

/* The owner of plans that run on the calling thread. */
const void *weft__thread_owner(void);

/* The thread is in an evaluation. A kernel, an expansion or a user's release callback cannot begin
 * another. */
extern _Thread_local bool weft__evaluating;

/* ---- failures ------------------------------------------------------------------------------- */

/* Reports the first failure that no caller has received, of one owner or (NULL) of all, and marks
 * all of them as reported. */
weft_status weft__unreported_failure(const void *owner);

#endif
