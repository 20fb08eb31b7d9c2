/* core/eval/queue.c -- plans in flight, their order by what they touch, and the streams' threads.
 */
#include "core/eval/queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/failure.h"

enum { FAILURES_KEPT = 16 };

struct weft_stream {
    weft_device *device; /* NULL: of the stream that all share, the thread's default */
    pthread_t thread;
    pid_t process; /* that the thread belongs to: a fork has none */
    bool running;  /* the thread exists */
    bool stop;
    weft__flight *first, *last; /* the first is being run, or waits for its turn */
    weft_stream *next;          /* all streams */
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
static _Thread_local bool on_stream; /* the thread is a stream's: it can tell nobody of failures */
static _Thread_local weft_stream *thread_stream;
static _Thread_local char thread_mark;

const void *weft__thread_owner(void)
{
    return &thread_mark;
}

/* ---- failures ------------------------------------------------------------------------------- */

/* Of runs: kept for those who find arrays that they left without elements. */
typedef struct failure {
    uint64_t ticket; /* 0: none */
    const void *owner;
    weft_status status;
    bool told; /* somebody has been told of it */
    char message[1024];
} failure;

static failure failures[FAILURES_KEPT]; /* under the lock of the flights */

/* In the place of the oldest, rather of one that somebody was told of. */
static void note_failure(const weft__flight *f, weft_status status)
{
    pthread_mutex_lock(&flights.lock);
    failure *place = &failures[0];
    for (int i = 1; i < FAILURES_KEPT; i++) {
        failure *other = &failures[i];
        bool free = other->ticket == 0 || other->told, was_free = !place->ticket || place->told;
        if (free != was_free ? free : other->ticket < place->ticket) {
            place = other;
        }
    }
    place->ticket = f->ticket;
    place->owner = f->owner;
    place->status = status;
    place->told = !on_stream;
    snprintf(place->message, sizeof place->message, "%s", weft_error_message());
    pthread_mutex_unlock(&flights.lock);
}

weft_status weft__failed_before(const char *where, const weft__buffer *b)
{
    uint64_t writer = atomic_load_explicit(&b->writer, memory_order_relaxed);
    pthread_mutex_lock(&flights.lock);
    failure *cause = &failures[0];
    for (int i = 1; i < FAILURES_KEPT && cause->ticket != writer; i++) {
        if (failures[i].ticket == writer || failures[i].ticket > cause->ticket) {
            cause = &failures[i];
        }
    }
    weft_status status = weft_fail(cause->status, "%s: what it needs could not be computed: %s",
                                   where, cause->message);
    cause->told = cause->told || !on_stream;
    pthread_mutex_unlock(&flights.lock);
    return status;
}

weft_status weft__untold_failure(const void *owner)
{
    weft_status status = WEFT_OK;
    const failure *first = NULL;
    pthread_mutex_lock(&flights.lock);
    for (int i = 0; i < FAILURES_KEPT; i++) {
        failure *f = &failures[i];
        if (f->ticket && !f->told && (!owner || f->owner == owner)) {
            first = !first || f->ticket < first->ticket ? f : first;
            f->told = true;
        }
    }
    if (first) {
        status = weft_fail(first->status, "%s", first->message);
    }
    pthread_mutex_unlock(&flights.lock);
    return status;
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

static bool is_there(uint64_t ticket)
{
    const weft__flight *f = flights.first;
    while (f && f->ticket < ticket) {
        f = f->next;
    }
    return f && f->ticket == ticket;
}

static bool may_start(const weft__flight *f)
{
    if (flights.first && flights.first->ticket <= f->all_until) {
        return false;
    }
    for (int i = 0; i < f->n_after; i++) {
        if (is_there(f->after[i])) {
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
    bool there = is_there(ticket);
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
        note_failure(f, status);
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

static void *run_stream(void *argument)
{
    weft_stream *s = argument;
    weft__evaluating = on_stream = true;
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
        pthread_mutex_unlock(&flights.lock);
        (void)run(f, &f->plan);
        if (f->done) {
            f->done(f->context);
        } else {
            weft__plan_free(&f->plan);
        }
        pthread_mutex_lock(&flights.lock);
        s->first = f->behind;
        if (!s->first) {
            s->last = NULL;
        }
        leave_locked(f);
        weft_free(f);
    }
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
    pthread_mutex_lock(&flights.lock);
    enter_locked(f);
    *(s->last ? &s->last->behind : &s->first) = f;
    s->last = f;
    pthread_cond_broadcast(&flights.changed);
    pthread_mutex_unlock(&flights.lock);
}

void weft__stream_wait(const weft_stream *s)
{
    pthread_mutex_lock(&flights.lock);
    uint64_t last = s->last ? s->last->ticket : 0;
    pthread_mutex_unlock(&flights.lock);
    weft__flight_wait_ticket(last);
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
        s->running = false;
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
