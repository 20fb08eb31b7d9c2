/* core/eval/trace.c -- recorded spans of time, written as Chrome trace events. */
#include "core/eval/trace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/text.h"

enum { MOST_SPANS = 2000000, FIRST_SPANS = 4096, FLUSH = 1 << 16, MOST_DEVICES = 64 };

typedef struct recorded {
    weft_span span;
    int track; /* number of the thread, or of the device in `devices` */
} recorded;

static struct {
    pthread_mutex_t lock;
    atomic_bool on;
    int64_t began;
    recorded *at;
    int64_t n, room, dropped;
    const char *devices[MOST_DEVICES];
    int n_devices;
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_int threads;
static _Thread_local int my_thread; /* 0: none yet */
static _Thread_local weft__running_kernel running = {"", ""};

/* ---- recording ------------------------------------------------------------------------------ */

void weft__kernel_set(weft__running_kernel kernel)
{
    running = kernel;
}

const char *weft_kernel_variant(void)
{
    return running.variant;
}

const char *weft_timeline_kernel(void)
{
    return running.op;
}

int64_t weft_timeline_now(void)
{
    return weft__nanoseconds();
}

bool weft_timeline_is_on(void)
{
    return atomic_load_explicit(&trace.on, memory_order_acquire);
}

/* Under the lock. */
static void forget(void)
{
    weft_free(trace.at);
    trace.at = NULL;
    trace.n = trace.room = trace.dropped = 0;
    trace.n_devices = 0;
}

void weft_timeline_start(void)
{
    pthread_mutex_lock(&trace.lock);
    forget();
    trace.began = weft__nanoseconds();
    atomic_store(&trace.on, true);
    pthread_mutex_unlock(&trace.lock);
}

void weft_timeline_stop(void)
{
    pthread_mutex_lock(&trace.lock);
    atomic_store(&trace.on, false);
    forget();
    pthread_mutex_unlock(&trace.lock);
}

static int thread_track(void)
{
    if (my_thread == 0) {
        my_thread = atomic_fetch_add(&threads, 1) + 1;
    }
    return my_thread;
}

/* Under the lock. -1: too many devices. */
static int device_track(const char *name)
{
    int i = 0;
    while (i < trace.n_devices && strcmp(trace.devices[i], name) != 0) {
        i++;
    }
    if (i == MOST_DEVICES) {
        return -1;
    }
    if (i == trace.n_devices) {
        trace.devices[trace.n_devices++] = name;
    }
    return i + 1;
}

/* Under the lock. */
static bool has_room(void)
{
    if (trace.n < trace.room) {
        return true;
    }
    const int64_t room = trace.room > 0 ? 2 * trace.room : FIRST_SPANS;
    recorded *more = room <= 2 * (int64_t)MOST_SPANS
                         ? weft_realloc(trace.at, (size_t)room * sizeof *more)
                         : NULL;
    if (!more) {
        return false;
    }
    trace.at = more;
    trace.room = room;
    return true;
}

void weft_timeline_add(const weft_span *span)
{
    if (!weft_timeline_is_on()) {
        return;
    }
    const int thread = thread_track();
    pthread_mutex_lock(&trace.lock);
    /* Spans that began before the trace are not in it. */
    if (atomic_load(&trace.on) && span->begin >= trace.began) {
        const int track = span->device ? device_track(span->device) : thread;
        if (track > 0 && trace.n < MOST_SPANS && has_room()) {
            trace.at[trace.n++] = (recorded){*span, track};
        } else {
            trace.dropped++;
        }
    }
    pthread_mutex_unlock(&trace.lock);
}

void weft__trace_since(const char *name, const char *category, int64_t began)
{
    weft_timeline_add(&(weft_span){.name = name,
                                   .category = category,
                                   .begin = began,
                                   .duration = weft__nanoseconds() - began});
}

/* ---- writing -------------------------------------------------------------------------------- */

/* By track, then by time; an enclosing span comes before those inside it. */
static int by_begin(const void *a, const void *b)
{
    const recorded *x = a, *y = b;
    const bool x_device = x->span.device != NULL, y_device = y->span.device != NULL;
    if (x_device != y_device) {
        return x_device ? 1 : -1;
    }
    if (x->track != y->track) {
        return x->track - y->track;
    }
    if (x->span.begin != y->span.begin) {
        return x->span.begin < y->span.begin ? -1 : 1;
    }
    return (x->span.duration < y->span.duration) - (x->span.duration > y->span.duration);
}

static void append_arguments(weft__text *t, const weft_span *s)
{
    const char *comma = "";
    weft__text_format(t, ", \"args\": {");
    if (s->variant && s->variant[0]) {
        weft__text_format(t, "\"variant\": ");
        weft__text_quote(t, s->variant);
        comma = ", ";
    }
    if (s->work.bytes > 0) {
        weft__text_format(t, "%s\"flops\": %.17g, \"bytes\": %.17g", comma, s->work.flops,
                          s->work.bytes);
    }
    weft__text_format(t, "}");
}

static void append_span(weft__text *t, const recorded *r)
{
    const weft_span *s = &r->span;
    const int64_t begin = s->begin - trace.began;
    weft__text_format(t, ",\n{\"name\": ");
    weft__text_quote(t, s->name);
    weft__text_format(t, ", \"cat\": ");
    weft__text_quote(t, s->category);
    weft__text_format(t,
                      ", \"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %lld.%03lld, "
                      "\"dur\": %lld.%03lld",
                      s->device ? 2 : 1, r->track, (long long)(begin / 1000),
                      (long long)(begin % 1000), (long long)(s->duration / 1000),
                      (long long)(s->duration % 1000));
    append_arguments(t, s);
    weft__text_format(t, "}");
}

static void append_name(weft__text *t, const char *what, int pid, int track, const char *name)
{
    weft__text_format(t,
                      "%s\n{\"name\": \"%s\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, "
                      "\"args\": {\"name\": ",
                      pid == 1 && track == 0 ? "" : ",", what, pid, track);
    weft__text_quote(t, name);
    weft__text_format(t, "}}");
}

/* A thread is a worker if it only ran parts of other threads' kernels. */
static void append_names(weft__text *t)
{
    char name[32];
    append_name(t, "process_name", 1, 0, "host");
    for (int64_t i = 0; i < trace.n; i++) {
        const recorded *r = &trace.at[i];
        if (r->span.device || (i > 0 && trace.at[i - 1].track == r->track)) {
            continue;
        }
        snprintf(name, sizeof name, "%s %d",
                 strcmp(r->span.category, "part") == 0 ? "worker" : "thread", r->track);
        append_name(t, "thread_name", 1, r->track, name);
    }
    if (trace.n_devices > 0) {
        append_name(t, "process_name", 2, 0, "devices");
    }
    for (int i = 0; i < trace.n_devices; i++) {
        append_name(t, "thread_name", 2, i + 1, trace.devices[i]);
    }
}

/* Writes the text to the file once it is long enough, and always if `all`. */
static weft_status write_out(weft__writer *writer, weft__text *t, bool all)
{
    weft_status status = t->failed ? weft__out_of_memory("trace", NULL) : WEFT_OK;
    if (status == WEFT_OK && t->n > 0 && (all || t->n >= FLUSH)) {
        status = weft__writer_write(writer, t->at, t->n);
        t->n = 0;
    }
    return status;
}

static weft_status write_spans(weft__writer *writer)
{
    weft__text t = {0};
    weft_status status = WEFT_OK;
    weft__text_format(&t,
                      "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"dropped\": %lld}, "
                      "\"traceEvents\": [",
                      (long long)trace.dropped);
    append_names(&t);
    for (int64_t i = 0; i < trace.n && status == WEFT_OK; i++) {
        append_span(&t, &trace.at[i]);
        status = write_out(writer, &t, false);
    }
    weft__text_format(&t, "\n]}\n");
    if (status == WEFT_OK) {
        status = write_out(writer, &t, true);
    }
    weft_free(t.at);
    return status;
}

weft_status weft_timeline_save(const char *path)
{
    weft__writer *writer = NULL;
    pthread_mutex_lock(&trace.lock);
    if (!atomic_load(&trace.on)) {
        pthread_mutex_unlock(&trace.lock);
        return weft_fail(WEFT_INVALID,
                         "trace: nothing is recorded: call weft_timeline_start first");
    }
    atomic_store(&trace.on, false);
    if (trace.n > 0) {
        qsort(trace.at, (size_t)trace.n, sizeof *trace.at, by_begin);
    }
    weft_status status = weft__writer_open(path, &writer);
    if (status == WEFT_OK) {
        status = weft__writer_close(writer, write_spans(writer));
    }
    forget();
    pthread_mutex_unlock(&trace.lock);
    return status;
}
