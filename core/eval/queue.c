/* core/eval/queue.c -- plans in flight, their order by what they touch, and the streams' threads.
 */
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
    weft_device *device; /* NULL: of the stream that all share, the thread's default */
    pthread_t thread, completer;
    pid_t process;   /* that the threads belong to: a fork has none */
    bool running;    /* the thread exists */
    bool completing; /* the other one, which waits for what is issued */
    bool stop, ended;
    weft__flight *first, *last; /* the first is being run, or waits for its turn */
    weft__flight *issued, *last_issued;
    uint64_t latest;   /* ticket of the last plan that was queued */
    weft_stream *next; /* all streams */
};

static weft_stream shared;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    weft__flight *first, *last; /* by ticket */
    uint64_t tickets;           /* given out */
    weft_stream *streams;
} flights = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .streams = &shared};

_Thread_local bool weft__evaluating;
static _Thread_local weft_stream *thread_stream;
static _Thread_local char thread_mark;

const void *weft__thread_owner(void)
{
    return &thread_mark;
}

/* ---- what a plan waits for ------------------------------------------------------------------ */

static void wait_for_ticket(weft__flight *f, uint64_t ticket)
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
    } else if (ticket > f->all_until) { /* more than it needs, and in order all the same */
        f->all_until = ticket;
    }
}

static void need(weft__flight *f, uint64_t ticket)
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

void weft__flight_begin(weft__flight *f, const void *owner)
{
    pthread_mutex_lock(&flights.lock);
    f->owner = owner;
    f->ticket = ++flights.tickets;
    f->oldest = flights.first ? flights.first->ticket : f->ticket;
    pthread_mutex_unlock(&flights.lock);
}

void weft__flight_after(weft__flight *f, const weft__buffer *b)
{
    wait_for_ticket(f, writer_of(b));
}

static void reads(weft__flight *f, weft__buffer *b)
{
    if (b->reader != f->ticket) {
        b->reader_before = b->reader;
        b->many_before = b->many;
        /* Behind the one before it, a reader stands for both. */
        b->many = b->reader >= f->oldest && (b->many || b->owner != f->owner);
        b->reader = f->ticket;
        b->owner = f->owner;
        wait_for_ticket(f, writer_of(b));
        need(f, writer_of(b));
    }
}

void weft__flight_writes(weft__flight *f, weft__buffer *b)
{
    if (writer_of(b) == f->ticket) {
        return;
    }
    bool mine = b->reader == f->ticket; /* it has read it before it writes it */
    uint64_t reader = mine ? b->reader_before : b->reader;
    if (!(mine ? b->many_before : b->many)) {
        wait_for_ticket(f, reader);
    } else if (reader >= f->oldest && reader > f->all_until) {
        f->all_until = reader;
    }
    wait_for_ticket(f, writer_of(b));
    atomic_store_explicit(&b->writer, f->ticket, memory_order_relaxed);
    b->owner = f->owner;
}

/* A device with a queue of its own is one plan's at a time. */
static void uses_device(weft__flight *f, weft_device *device)
{
    if (device->backend->wait && device->user != f->ticket) {
        wait_for_ticket(f, device->user);
        device->user = f->ticket;
    }
}

void weft__flight_steps(weft__flight *f, const weft__step *first)
{
    for (const weft__step *s = first; s; s = s->next) {
        const int n = s->call.n_inputs;
        for (int i = 0; i < n; i++) {
            reads(f, s->buffers[i]);
        }
        for (int i = 0; i < s->call.n_outputs; i++) {
            weft__flight_writes(f, s->buffers[n + i]);
        }
        if (s->workspace) {
            weft__flight_writes(f, s->workspace);
        }
        uses_device(f, s->device);
        uses_device(f, s->call.device);
    }
}

/* ---- in flight, under the lock of the flights ----------------------------------------------- */

static const weft__flight *find(uint64_t ticket)
{
    const weft__flight *f = flights.first;
    while (f && f->ticket < ticket) {
        f = f->next;
    }
    return f && f->ticket == ticket ? f : NULL;
}

/* Whether `f`, which is after `before`, must wait for its end. */
static bool blocks(const weft__flight *before, const weft__flight *f)
{
    return !before->issued || f->device != before->device;
}

static bool may_start(const weft__flight *f)
{
    for (const weft__flight *g = flights.first; g && g->ticket <= f->all_until; g = g->next) {
        if (blocks(g, f)) {
            return false;
        }
    }
    for (int i = 0; i < f->n_after; i++) {
        const weft__flight *before = find(f->after[i]);
        if (before && blocks(before, f)) {
            return false;
        }
    }
    return true;
}

static void wait_locked(const weft__flight *f)
{
    while (!may_start(f)) {
        pthread_cond_wait(&flights.changed, &flights.lock);
    }
}

static void enter_locked(weft__flight *f)
{
    *(flights.last ? &flights.last->next : &flights.first) = f;
    flights.last = f;
}

static void leave_locked(weft__flight *f)
{
    weft__flight *before = NULL;
    weft__flight **link = &flights.first;
    while (*link != f) {
        before = *link;
        link = &before->next;
    }
    *link = f->next;
    if (flights.last == f) {
        flights.last = before;
    }
    pthread_cond_broadcast(&flights.changed);
}

/* ---- entering, waiting, running ------------------------------------------------------------- */

void weft__flight_enter(weft__flight *f)
{
    pthread_mutex_lock(&flights.lock);
    enter_locked(f);
    pthread_mutex_unlock(&flights.lock);
}

bool weft__in_flight(uint64_t ticket)
{
    pthread_mutex_lock(&flights.lock);
    bool there = find(ticket) != NULL;
    pthread_mutex_unlock(&flights.lock);
    return there;
}

void weft__flight_wait(const weft__flight *f)
{
    if (f->n_after > 0 || f->all_until > 0) {
        pthread_mutex_lock(&flights.lock);
        wait_locked(f);
        pthread_mutex_unlock(&flights.lock);
    }
}

void weft__flight_wait_ticket(uint64_t ticket)
{
    weft__flight_wait(&(weft__flight){.after = {ticket}, .n_after = ticket > 0});
}

void weft__flight_wait_issued(uint64_t ticket)
{
    pthread_mutex_lock(&flights.lock);
    for (const weft__flight *f = find(ticket); f && !f->issued; f = find(ticket)) {
        pthread_cond_wait(&flights.changed, &flights.lock);
    }
    pthread_mutex_unlock(&flights.lock);
}

void weft__flights_wait(void)
{
    pthread_mutex_lock(&flights.lock);
    wait_locked(&(weft__flight){.all_until = flights.tickets});
    pthread_mutex_unlock(&flights.lock);
}

static weft_status run(weft__flight *f, weft__plan *plan)
{
    weft_status status = weft__plan_run(plan);
    if (status != WEFT_OK) {
        weft__note_failure(f->ticket, f->owner, status);
    }
    return status;
}

weft_status weft__flight_run(weft__flight *f, weft__plan *plan)
{
    weft__flight_wait(f);
    weft_status status = run(f, plan);
    pthread_mutex_lock(&flights.lock);
    leave_locked(f);
    pthread_mutex_unlock(&flights.lock);
    return status;
}

/* ---- the threads ---------------------------------------------------------------------------- */

/* Of a stream's plan that has run or failed. */
static void end_flight(weft__flight *f)
{
    if (f->done) {
        f->done(f->context);
    } else {
        weft__plan_free(&f->plan);
    }
    pthread_mutex_lock(&flights.lock);
    leave_locked(f);
    pthread_mutex_unlock(&flights.lock);
    weft_free(f);
}

static void lose_all(weft__flight *f)
{
    for (weft__step *s = f->done ? NULL : f->plan.first; s; s = s->next) {
        for (int o = 0; o < s->call.n_outputs; o++) {
            weft__buffer *b = s->buffers[s->call.n_inputs + o];
            if (writer_of(b) == f->ticket) {
                atomic_store(&b->failed, true);
            }
        }
    }
    if (f->lost) {
        f->lost(f->context, f->ticket);
    }
}

/* A failed plan that computed what `f` reads, or 0: it may have failed after `f` was issued. */
static uint64_t failed_need(const weft__flight *f)
{
    uint64_t failed = weft__failed_within(f->oldest, f->needs_until);
    for (int i = 0; i < f->n_needs && !failed; i++) {
        failed = weft__failed_within(f->needs[i], f->needs[i]);
    }
    return failed;
}

/* Waits for the end of the plan that was issued first. */
static void complete(weft_stream *s, weft__flight *f)
{
    weft_status status = f->device->backend->wait_until(f->device->state, f->point);
    const uint64_t failed = status == WEFT_OK ? failed_need(f) : 0;
    if (failed) {
        status = weft__failed_by("eval", failed);
    }
    if (status != WEFT_OK) {
        weft__note_failure(f->ticket, f->owner, status);
        lose_all(f);
    }
    pthread_mutex_lock(&flights.lock);
    s->issued = f->behind;
    if (!s->issued) {
        s->last_issued = NULL;
    }
    pthread_mutex_unlock(&flights.lock);
    end_flight(f);
}

static void *run_completer(void *argument)
{
    weft_stream *s = argument;
    weft__evaluating = weft__on_stream = true;
    pthread_mutex_lock(&flights.lock);
    for (;;) {
        while (!s->issued && !s->ended) {
            pthread_cond_wait(&flights.changed, &flights.lock);
        }
        weft__flight *f = s->issued;
        if (!f) {
            break;
        }
        pthread_mutex_unlock(&flights.lock);
        complete(s, f);
        pthread_mutex_lock(&flights.lock);
    }
    pthread_mutex_unlock(&flights.lock);
    return NULL;
}

static bool can_issue(weft_stream *s, const weft__flight *f)
{
    if (f->device && !s->completing) {
        s->completing = pthread_create(&s->completer, NULL, run_completer, s) == 0;
    }
    return f->device && s->completing;
}

/* Runs the plan, or issues it: then it is the completer's. */
static void start_flight(weft_stream *s, weft__flight *f)
{
    if (!can_issue(s, f)) {
        (void)run(f, &f->plan);
        end_flight(f);
        return;
    }
    const weft_status status = weft__plan_issue(&f->plan, f->device, &f->point);
    if (status != WEFT_OK) {
        weft__note_failure(f->ticket, f->owner, status);
        end_flight(f);
        return;
    }
    pthread_mutex_lock(&flights.lock);
    f->issued = true;
    *(s->last_issued ? &s->last_issued->behind : &s->issued) = f;
    s->last_issued = f;
    pthread_cond_broadcast(&flights.changed);
    pthread_mutex_unlock(&flights.lock);
}

static void *run_stream(void *argument)
{
    weft_stream *s = argument;
    weft__evaluating = weft__on_stream = true;
    pthread_mutex_lock(&flights.lock);
    for (;;) {
        while (!s->first && !s->stop) {
            pthread_cond_wait(&flights.changed, &flights.lock);
        }
        weft__flight *f = s->first;
        if (!f) {
            break;
        }
        wait_locked(f);
        while (s->issued && s->issued->device != f->device) {
            pthread_cond_wait(&flights.changed, &flights.lock);
        }
        s->first = f->behind;
        if (!s->first) {
            s->last = NULL;
        }
        f->behind = NULL;
        pthread_mutex_unlock(&flights.lock);
        start_flight(s, f);
        pthread_mutex_lock(&flights.lock);
    }
    s->ended = true;
    pthread_cond_broadcast(&flights.changed);
    pthread_mutex_unlock(&flights.lock);
    return NULL;
}

bool weft__stream_start(weft_stream *s)
{
    pthread_mutex_lock(&flights.lock);
    if (!s->running && !s->stop) {
        s->running = pthread_create(&s->thread, NULL, run_stream, s) == 0;
        s->process = getpid();
    }
    bool running = s->running && !s->stop && s->process == getpid();
    pthread_mutex_unlock(&flights.lock);
    return running;
}

void weft__stream_queue(weft_stream *s, weft__flight *f)
{
    f->device = weft__plan_device(&f->plan);
    pthread_mutex_lock(&flights.lock);
    enter_locked(f);
    *(s->last ? &s->last->behind : &s->first) = f;
    s->last = f;
    s->latest = f->ticket;
    pthread_cond_broadcast(&flights.changed);
    pthread_mutex_unlock(&flights.lock);
}

void weft__stream_wait(const weft_stream *s)
{
    pthread_mutex_lock(&flights.lock);
    const uint64_t latest = s->latest;
    pthread_mutex_unlock(&flights.lock);
    weft__flight_wait_ticket(latest);
}

/* Runs what is queued to its end and ends the thread. */
static void stop(weft_stream *s)
{
    pthread_mutex_lock(&flights.lock);
    bool running = s->running && s->process == getpid();
    s->stop = true;
    pthread_cond_broadcast(&flights.changed);
    pthread_mutex_unlock(&flights.lock);
    if (running) {
        pthread_join(s->thread, NULL);
        if (s->completing) {
            pthread_join(s->completer, NULL);
        }
        s->running = s->completing = false;
    }
}

/* No thread of ours outlives main. */
__attribute__((destructor)) static void stop_all(void)
{
    for (weft_stream *s = flights.streams; s; s = s->next) {
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
    pthread_mutex_lock(&flights.lock);
    s->next = flights.streams;
    flights.streams = s;
    pthread_mutex_unlock(&flights.lock);
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
    (void)weft__untold_failure(stream); /* another stream may get its address */
    pthread_mutex_lock(&flights.lock);
    weft_stream **link = &flights.streams;
    while (*link != stream) {
        link = &(*link)->next;
    }
    *link = stream->next;
    pthread_mutex_unlock(&flights.lock);
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
