/* core/eval/queue.c -- pending plans: their order by the buffers they use, and the streams'
 * threads. */
#include "core/eval/queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/device.h"
#include "core/eval/failures.h"
#include "core/failure.h"

struct weft_stream {
    weft_device *device; /* NULL for the shared stream, which uses the thread's default device */
    pthread_t thread, completer;
    pid_t process;   /* process that the threads belong to; threads do not survive a fork */
    bool running;    /* its main thread exists */
    bool completing; /* its completion thread exists, which waits for issued plans */
    bool stop, ended;
    weft__pending *first, *last; /* the first one is running or waiting for other plans */
    weft__pending *issued, *last_issued;
    uint64_t latest;   /* ticket of the last queued plan */
    weft_stream *next; /* all streams */
};

static weft_stream shared;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    weft__pending *first, *last; /* by ticket */
    uint64_t tickets;            /* given out */
    weft_stream *streams;
} all_pending = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .streams = &shared};

_Thread_local bool weft__evaluating;
static _Thread_local weft_stream *thread_stream;

const void *weft__thread_owner(void)
{
    return &weft__evaluating; /* an address that no other thread has */
}

/* ---- dependencies of a plan ------------------------------------------------------------------ */

static void wait_for_ticket(weft__pending *f, uint64_t ticket)
{
    if (ticket < f->oldest || ticket == f->ticket) {
        return;
    }
    for (int i = 0; i < f->n_after; i++) {
        if (f->after[i] == ticket) {
            return;
        }
    }
    if (f->n_after < WEFT__WAITS_FOR) {
        f->after[f->n_after++] = ticket;
    } else if (ticket > f->all_until) { /* conservative, and still correct */
        f->all_until = ticket;
    }
}

static void need(weft__pending *f, uint64_t ticket)
{
    if (ticket < f->oldest || ticket == f->ticket) {
        return;
    }
    for (int i = 0; i < f->n_needs; i++) {
        if (f->needs[i] == ticket) {
            return;
        }
    }
    if (f->n_needs < WEFT__WAITS_FOR) {
        f->needs[f->n_needs++] = ticket;
    } else if (ticket > f->needs_until) {
        f->needs_until = ticket;
    }
}

static uint64_t writer_of(const weft__buffer *b)
{
    return atomic_load_explicit(&b->writer, memory_order_relaxed);
}

void weft__pending_begin(weft__pending *f, const void *owner)
{
    pthread_mutex_lock(&all_pending.lock);
    f->owner = owner;
    f->pausing = weft__pauses() && owner == weft__thread_owner();
    f->ticket = ++all_pending.tickets;
    f->oldest = all_pending.first ? all_pending.first->ticket : f->ticket;
    pthread_mutex_unlock(&all_pending.lock);
}

/* Makes `f` wait for a plan that may pause. */
static void wait_for_paused(weft__pending *f, uint64_t ticket)
{
    if (ticket < f->oldest || ticket == f->ticket || ticket == f->paused) {
        return;
    }
    if (f->paused > 0) { /* for all of them, which is conservative */
        const uint64_t last = ticket > f->paused ? ticket : f->paused;
        f->all_until = last > f->all_until ? last : f->all_until;
        f->all = true;
    }
    f->paused = ticket;
}

/* Makes `f` wait for the plan that fills the buffer. */
static void wait_for_writer(weft__pending *f, const weft__buffer *b)
{
    const uint64_t writer = writer_of(b);
    wait_for_ticket(f, writer);
    if (writer == b->pausing) {
        wait_for_paused(f, writer);
    }
}

void weft__pending_reads(weft__pending *f, const weft__buffer *b)
{
    wait_for_writer(f, b);
}

/* Marks a buffer of a plan that may pause. A plan that overwrites it waits for that one, and so
 * does another one that may pause, so that the latest of them stands for all. */
static void mark_pausing(weft__pending *f, weft__buffer *b, bool overwrites)
{
    if (overwrites || f->pausing) {
        wait_for_paused(f, b->pausing);
    }
    if (f->pausing) {
        b->pausing = f->ticket;
    }
}

static void reads(weft__pending *f, weft__buffer *b)
{
    if (b->reader != f->ticket) {
        b->reader_before = b->reader;
        b->many_before = b->many;
        /* If this reader waits for the previous one, it represents both. */
        b->many = b->reader >= f->oldest && (b->many || b->owner != f->owner);
        b->reader = f->ticket;
        b->owner = f->owner;
        wait_for_writer(f, b);
        need(f, writer_of(b));
        mark_pausing(f, b, false);
    }
}

void weft__pending_writes(weft__pending *f, weft__buffer *b)
{
    if (writer_of(b) == f->ticket) {
        return;
    }
    bool mine = b->reader == f->ticket; /* it read the buffer before writing it */
    uint64_t reader = mine ? b->reader_before : b->reader;
    if (!(mine ? b->many_before : b->many)) {
        wait_for_ticket(f, reader);
    } else if (reader >= f->oldest && reader > f->all_until) {
        f->all_until = reader;
    }
    wait_for_writer(f, b);
    mark_pausing(f, b, true);
    atomic_store_explicit(&b->writer, f->ticket, memory_order_relaxed);
    b->owner = f->owner;
}

/* A device that queues work runs one plan at a time, or several that also use other devices: while
 * one waits for another device, this device has work of the next. */
static void uses_device(weft__pending *f, weft_device *device)
{
    if (!device->backend->wait || device->user == f->ticket || device->sharer == f->ticket) {
        return;
    }
    wait_for_ticket(f, device->user);
    if (f->shares) {
        device->sharer = f->ticket;
        return;
    }
    if (device->sharer >= f->oldest && device->sharer > f->all_until) {
        f->all_until = device->sharer;
    }
    device->user = f->ticket;
}

void weft__pending_steps(weft__pending *f, const weft__step *first)
{
    f->shares = !f->pausing && weft__steps_cross(first);
    for (const weft__step *s = first; s; s = s->next) {
        const int n = s->call.n_inputs;
        for (int i = 0; i < n; i++) {
            reads(f, s->buffers[i]);
        }
        for (int i = 0; i < s->call.n_outputs; i++) {
            weft__pending_writes(f, s->buffers[n + i]);
        }
        if (s->workspace) {
            weft__pending_writes(f, s->workspace);
        }
        uses_device(f, s->device);
        uses_device(f, s->call.device);
    }
}

/* ---- pending plans, under their lock --------------------------------------------------------- */

static const weft__pending *find(uint64_t ticket)
{
    const weft__pending *f = all_pending.first;
    while (f && f->ticket < ticket) {
        f = f->next;
    }
    return f && f->ticket == ticket ? f : NULL;
}

/* Whether `f` must wait until `before`, which precedes it, has ended. */
static bool blocks(const weft__pending *before, const weft__pending *f)
{
    return !before->issued || f->device != before->device;
}

static bool may_start(const weft__pending *f)
{
    for (const weft__pending *g = all_pending.first; g && g->ticket <= f->all_until; g = g->next) {
        if ((!g->pausing || f->all) && blocks(g, f)) {
            return false;
        }
    }
    const weft__pending *paused = f->paused >= f->oldest ? find(f->paused) : NULL;
    if (paused && blocks(paused, f)) {
        return false;
    }
    for (int i = 0; i < f->n_after; i++) {
        const weft__pending *before = find(f->after[i]);
        if (before && blocks(before, f)) {
            return false;
        }
    }
    return true;
}

static void wait_locked(const weft__pending *f)
{
    while (!may_start(f)) {
        pthread_cond_wait(&all_pending.changed, &all_pending.lock);
    }
}

static void enter_locked(weft__pending *f)
{
    *(all_pending.last ? &all_pending.last->next : &all_pending.first) = f;
    all_pending.last = f;
}

static void leave_locked(weft__pending *f)
{
    weft__pending *before = NULL;
    weft__pending **link = &all_pending.first;
    while (*link != f) {
        before = *link;
        link = &before->next;
    }
    *link = f->next;
    if (all_pending.last == f) {
        all_pending.last = before;
    }
    pthread_cond_broadcast(&all_pending.changed);
}

/* ---- entering, waiting, running ------------------------------------------------------------- */

void weft__pending_enter(weft__pending *f)
{
    pthread_mutex_lock(&all_pending.lock);
    enter_locked(f);
    pthread_mutex_unlock(&all_pending.lock);
}

bool weft__is_pending(uint64_t ticket)
{
    pthread_mutex_lock(&all_pending.lock);
    bool there = find(ticket) != NULL;
    pthread_mutex_unlock(&all_pending.lock);
    return there;
}

void weft__pending_wait(const weft__pending *f)
{
    if (f->n_after > 0 || f->all_until > 0 || f->paused > 0) {
        pthread_mutex_lock(&all_pending.lock);
        wait_locked(f);
        pthread_mutex_unlock(&all_pending.lock);
    }
}

void weft__pending_wait_ticket(uint64_t ticket)
{
    weft__pending_wait(&(weft__pending){.after = {ticket}, .n_after = ticket > 0});
}

void weft__pending_wait_issued(uint64_t ticket)
{
    pthread_mutex_lock(&all_pending.lock);
    for (const weft__pending *f = find(ticket); f && !f->issued; f = find(ticket)) {
        pthread_cond_wait(&all_pending.changed, &all_pending.lock);
    }
    pthread_mutex_unlock(&all_pending.lock);
}

void weft__pending_wait_all(void)
{
    pthread_mutex_lock(&all_pending.lock);
    wait_locked(&(weft__pending){.all_until = all_pending.tickets, .all = true});
    pthread_mutex_unlock(&all_pending.lock);
}

static weft_status run(weft__pending *f, weft__plan *plan)
{
    weft_status status = weft__plan_run(plan);
    if (status != WEFT_OK) {
        weft__note_failure(f->ticket, f->owner, status);
    }
    return status;
}

weft_status weft__pending_run(weft__pending *f, weft__plan *plan)
{
    weft__pending_wait(f);
    weft_status status = run(f, plan);
    pthread_mutex_lock(&all_pending.lock);
    leave_locked(f);
    pthread_mutex_unlock(&all_pending.lock);
    return status;
}

/* ---- the threads ---------------------------------------------------------------------------- */

/* Ends a stream's plan that has run or failed. */
static void end_pending(weft__pending *f)
{
    if (f->done) {
        f->done(f->context);
    } else {
        weft__plan_free(&f->plan);
    }
    pthread_mutex_lock(&all_pending.lock);
    leave_locked(f);
    pthread_mutex_unlock(&all_pending.lock);
    weft_free(f);
}

static void mark_outputs_failed(weft__pending *f)
{
    for (weft__step *s = f->done ? NULL : f->plan.first; s; s = s->next) {
        for (int o = 0; o < s->call.n_outputs; o++) {
            weft__buffer *b = s->buffers[s->call.n_inputs + o];
            if (writer_of(b) == f->ticket) {
                atomic_store(&b->failed, true);
            }
        }
    }
    if (f->on_failure) {
        f->on_failure(f->context, f->ticket);
    }
}

/* The ticket of a failed plan that computed an input of `f`, or 0. It may have failed after `f` was
 * issued. */
static uint64_t failed_need(const weft__pending *f)
{
    uint64_t failed = weft__failed_within(f->oldest, f->needs_until);
    for (int i = 0; i < f->n_needs && !failed; i++) {
        failed = weft__failed_within(f->needs[i], f->needs[i]);
    }
    return failed;
}

/* Waits for the end of the oldest issued plan. */
static void complete(weft_stream *s, weft__pending *f)
{
    weft_status status = f->device->backend->wait_until(f->device->state, f->point);
    const uint64_t failed = status == WEFT_OK ? failed_need(f) : 0;
    if (failed) {
        status = weft__failed_by("eval", failed, f->owner);
    }
    if (status != WEFT_OK) {
        weft__note_failure(f->ticket, f->owner, status);
        mark_outputs_failed(f);
    }
    pthread_mutex_lock(&all_pending.lock);
    s->issued = f->next_in_stream;
    if (!s->issued) {
        s->last_issued = NULL;
    }
    pthread_mutex_unlock(&all_pending.lock);
    end_pending(f);
}

static void *run_completer(void *argument)
{
    weft_stream *s = argument;
    weft__evaluating = true;
    pthread_mutex_lock(&all_pending.lock);
    for (;;) {
        while (!s->issued && !s->ended) {
            pthread_cond_wait(&all_pending.changed, &all_pending.lock);
        }
        weft__pending *f = s->issued;
        if (!f) {
            break;
        }
        pthread_mutex_unlock(&all_pending.lock);
        complete(s, f);
        pthread_mutex_lock(&all_pending.lock);
    }
    pthread_mutex_unlock(&all_pending.lock);
    return NULL;
}

static bool can_issue(weft_stream *s, const weft__pending *f)
{
    if (f->device && !s->completing) {
        s->completing = pthread_create(&s->completer, NULL, run_completer, s) == 0;
    }
    return f->device && s->completing;
}

/* Runs the plan, or issues it and leaves its end to the completion thread. */
static void start_pending(weft_stream *s, weft__pending *f)
{
    if (!can_issue(s, f)) {
        (void)run(f, &f->plan);
        end_pending(f);
        return;
    }
    const weft_status status = weft__plan_issue(&f->plan, f->device, &f->point);
    if (status != WEFT_OK) {
        weft__note_failure(f->ticket, f->owner, status);
        end_pending(f);
        return;
    }
    pthread_mutex_lock(&all_pending.lock);
    f->issued = true;
    *(s->last_issued ? &s->last_issued->next_in_stream : &s->issued) = f;
    s->last_issued = f;
    pthread_cond_broadcast(&all_pending.changed);
    pthread_mutex_unlock(&all_pending.lock);
}

static void *run_stream(void *argument)
{
    weft_stream *s = argument;
    weft__evaluating = true;
    pthread_mutex_lock(&all_pending.lock);
    for (;;) {
        while (!s->first && !s->stop) {
            pthread_cond_wait(&all_pending.changed, &all_pending.lock);
        }
        weft__pending *f = s->first;
        if (!f) {
            break;
        }
        wait_locked(f);
        while (s->issued && s->issued->device != f->device) {
            pthread_cond_wait(&all_pending.changed, &all_pending.lock);
        }
        s->first = f->next_in_stream;
        if (!s->first) {
            s->last = NULL;
        }
        f->next_in_stream = NULL;
        pthread_mutex_unlock(&all_pending.lock);
        start_pending(s, f);
        pthread_mutex_lock(&all_pending.lock);
    }
    s->ended = true;
    pthread_cond_broadcast(&all_pending.changed);
    pthread_mutex_unlock(&all_pending.lock);
    return NULL;
}

bool weft__stream_start(weft_stream *s)
{
    pthread_mutex_lock(&all_pending.lock);
    if (!s->running && !s->stop) {
        s->running = pthread_create(&s->thread, NULL, run_stream, s) == 0;
        s->process = getpid();
    }
    bool running = s->running && !s->stop && s->process == getpid();
    pthread_mutex_unlock(&all_pending.lock);
    return running;
}

void weft__stream_queue(weft_stream *s, weft__pending *f)
{
    f->device = weft__plan_device(&f->plan);
    pthread_mutex_lock(&all_pending.lock);
    enter_locked(f);
    *(s->last ? &s->last->next_in_stream : &s->first) = f;
    s->last = f;
    s->latest = f->ticket;
    pthread_cond_broadcast(&all_pending.changed);
    pthread_mutex_unlock(&all_pending.lock);
}

void weft__stream_wait(const weft_stream *s)
{
    pthread_mutex_lock(&all_pending.lock);
    const uint64_t latest = s->latest;
    pthread_mutex_unlock(&all_pending.lock);
    weft__pending_wait_ticket(latest);
}

/* Runs all queued plans and ends the thread. */
static void stop(weft_stream *s)
{
    pthread_mutex_lock(&all_pending.lock);
    bool running = s->running && s->process == getpid();
    s->stop = true;
    pthread_cond_broadcast(&all_pending.changed);
    pthread_mutex_unlock(&all_pending.lock);
    if (running) {
        pthread_join(s->thread, NULL);
        if (s->completing) {
            pthread_join(s->completer, NULL);
        }
        s->running = s->completing = false;
    }
}

/* Ends the streams' threads before the process exits. */
__attribute__((destructor)) static void stop_all(void)
{
    for (weft_stream *s = all_pending.streams; s; s = s->next) {
        stop(s);
    }
}

/* ---- streams -------------------------------------------------------------------------------- */

weft_stream *weft_stream_new(weft_device *device)
{
    weft_stream *s = weft_calloc(1, sizeof *s);
    if (!s) {
        weft__out_of_memory("stream", NULL);
        return NULL;
    }
    s->device = device ? device : weft_default_device();
    pthread_mutex_lock(&all_pending.lock);
    s->next = all_pending.streams;
    all_pending.streams = s;
    pthread_mutex_unlock(&all_pending.lock);
    return s;
}

void weft_stream_free(weft_stream *stream)
{
    if (!stream) {
        return;
    }
    assert(stream != &shared && !weft__evaluating);
    stop(stream);
    if (thread_stream == stream) {
        thread_stream = NULL;
    }
    (void)weft__unreported_failure(stream); /* another stream may get the same address */
    pthread_mutex_lock(&all_pending.lock);
    weft_stream **link = &all_pending.streams;
    while (*link != stream) {
        link = &(*link)->next;
    }
    *link = stream->next;
    pthread_mutex_unlock(&all_pending.lock);
    weft_free(stream);
}

weft_stream *weft_default_stream(void)
{
    return thread_stream ? thread_stream : &shared;
}

void weft_set_default_stream(weft_stream *stream)
{
    thread_stream = stream;
}

weft_device *weft_stream_device(const weft_stream *stream)
{
    return stream->device ? stream->device : weft_default_device();
}
