/* core/eval/eval.c -- evaluation as callers see it, and the queue behind weft_eval_async. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/eval/plan.h"
#include "core/eval/profile.h"

/* One evaluation at a time is planned, and plans run in the order they were made. */
static pthread_mutex_t evaluation = PTHREAD_MUTEX_INITIALIZER;

/* ---- the queue ------------------------------------------------------------------------------ */

typedef struct queued {
    struct queued *next;
    weft__plan plan;
    void (*done)(void *context); /* of a program, which keeps the plan; else NULL */
    void *context;
} queued;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    pid_t process; /* that the thread belongs to: a fork has none */
    bool running;  /* the thread exists */
    bool stop;
    queued *first, *last; /* the first is being run */
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* The failure of a run: kept for those who find arrays that it left without elements. */
static struct {
    pthread_mutex_t lock;
    weft_status status;
    bool told; /* somebody has been told of it */
    char message[1024];
} failure = {.lock = PTHREAD_MUTEX_INITIALIZER, .told = true};

static void note_failure(weft_status status, bool told)
{
    pthread_mutex_lock(&failure.lock);
    if (failure.told) { /* the first is the cause of the others */
        failure.status = status;
        failure.told = told;
        snprintf(failure.message, sizeof failure.message, "%s", weft_error_message());
    }
    pthread_mutex_unlock(&failure.lock);
}

weft_status weft__failed_before(const char *where)
{
    pthread_mutex_lock(&failure.lock);
    weft_status status = weft_fail(failure.status, "%s: what it needs could not be computed: %s",
                                   where, failure.message);
    failure.told = true;
    pthread_mutex_unlock(&failure.lock);
    return status;
}

/* The thread is in an evaluation, where a kernel, an expansion or a release callback of the user
 * cannot begin another. */
static _Thread_local bool evaluating;

static weft_status run(weft__plan *plan, bool told)
{
    weft_status status = weft__plan_run(plan);
    if (status != WEFT_OK) {
        note_failure(status, told);
    }
    return status;
}

static void *run_queue(void *unused)
{
    (void)unused;
    evaluating = true;
    pthread_mutex_lock(&queue.lock);
    for (;;) {
        while (!queue.first && !queue.stop) {
            pthread_cond_wait(&queue.changed, &queue.lock);
        }
        queued *q = queue.first;
        if (!q) {
            break;
        }
        pthread_mutex_unlock(&queue.lock);
        (void)run(&q->plan, false);
        if (q->done) {
            q->done(q->context);
        } else {
            weft__plan_free(&q->plan);
        }
        pthread_mutex_lock(&queue.lock);
        queue.first = q->next;
        if (!queue.first) {
            queue.last = NULL;
        }
        weft_free(q);
        pthread_cond_broadcast(&queue.changed);
    }
    pthread_mutex_unlock(&queue.lock);
    return NULL;
}

/* Runs what is queued to its end, so that no thread of ours outlives main. */
__attribute__((destructor)) static void stop_queue(void)
{
    if (queue.running && queue.process != getpid()) {
        return;
    }
    pthread_mutex_lock(&queue.lock);
    bool running = queue.running;
    queue.stop = true;
    pthread_cond_broadcast(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
    if (running) {
        pthread_join(queue.thread, NULL);
        queue.running = false;
    }
}

static bool start_queue(void)
{
    pthread_mutex_lock(&queue.lock);
    if (!queue.running && !queue.stop) {
        queue.running = pthread_create(&queue.thread, NULL, run_queue, NULL) == 0;
        queue.process = getpid();
    }
    bool running = queue.running && !queue.stop && queue.process == getpid();
    pthread_mutex_unlock(&queue.lock);
    return running;
}

static void enqueue(queued *q)
{
    pthread_mutex_lock(&queue.lock);
    *(queue.last ? &queue.last->next : &queue.first) = q;
    queue.last = q;
    pthread_cond_broadcast(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
}

/* Waits until the queue is empty. */
static void drain(void)
{
    pthread_mutex_lock(&queue.lock);
    while (queue.first) {
        pthread_cond_wait(&queue.changed, &queue.lock);
    }
    pthread_mutex_unlock(&queue.lock);
}

/* A failure of the queue that nobody was told of. */
static weft_status untold_failure(void)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&failure.lock);
    if (!failure.told) {
        status = weft_fail(failure.status, "%s", failure.message);
        failure.told = true;
    }
    pthread_mutex_unlock(&failure.lock);
    return status;
}

static weft_status inside(void)
{
    return weft_fail(WEFT_UNSUPPORTED, "eval: called inside an evaluation, from an op's kernel, "
                                       "its expansion or a callback");
}

weft_status weft_synchronize(weft_device *device)
{
    if (evaluating) {
        return inside();
    }
    drain();
    weft_status status = untold_failure();
    if (status == WEFT_OK && device->backend->wait) {
        status = device->backend->wait(device->state);
    }
    return status;
}

weft_counts weft_device_counts(const weft_device *device)
{
    pthread_mutex_lock(&evaluation);
    weft_counts counts = device->counts;
    pthread_mutex_unlock(&evaluation);
    return counts;
}

void weft_device_reset_counts(weft_device *device)
{
    pthread_mutex_lock(&evaluation);
    device->counts = (weft_counts){0};
    pthread_mutex_unlock(&evaluation);
}

weft_status weft_device_profile(weft_device *device, bool on)
{
    if (evaluating) {
        return inside();
    }
    pthread_mutex_lock(&evaluation);
    drain();
    weft_status status = weft__profile_set(device, on);
    pthread_mutex_unlock(&evaluation);
    return status;
}

int weft_device_report(weft_device *device, weft_op_report *out, int max, weft_totals *totals)
{
    weft_totals unwanted;
    if (evaluating) {
        return 0;
    }
    pthread_mutex_lock(&evaluation);
    drain();
    int n = weft__profile_report(device, out, max, totals ? totals : &unwanted);
    pthread_mutex_unlock(&evaluation);
    return n;
}

int weft_device_counters(weft_device *device, weft_counter *out, int max)
{
    const weft_backend *b = device->backend;
    return b->counters ? b->counters(device->state, out, max) : 0;
}

/* ---- evaluation ----------------------------------------------------------------------------- */

static weft_status check_roots(weft_array *const *arrays, int n, bool *pending)
{
    *pending = false;
    if (evaluating) {
        return inside();
    }
    for (int i = 0; i < n; i++) {
        const weft_array *a = arrays[i];
        if (!weft_ok(a)) {
            return weft__report(a);
        }
        if (a->state == WEFT__SPENT) {
            return weft_fail(WEFT_INVALID, "eval: the array was used up by an earlier evaluation: "
                                           "keep it (weft_keep, weft_set), or name it in "
                                           "weft_eval");
        }
        *pending = *pending || a->state == WEFT__LAZY;
    }
    return WEFT_OK;
}

static void pin(weft_array *const *arrays, int n)
{
    for (int i = 0; i < n; i++) {
        weft__scope_pin(arrays[i]);
    }
}

static void hold(weft_array *const *arrays, int n, void (*change)(weft_array *a))
{
    for (int i = 0; i < n; i++) {
        change(arrays[i]);
    }
}

/* Makes and commits a plan; the expansions' temporaries live in a scope of its own. The roots are
 * held: those of another thread's scope are not pinned. */
static weft_status prepare(weft__plan *plan, weft_array *const *arrays, int n)
{
    weft_scope_open();
    hold(arrays, n, weft__hold);
    plan->first_internal = weft__next_seq();
    plan->retain = weft__differentiating > 0;
    plan->each_op = weft__check_nan();
    weft_device *measured = n > 0 && arrays[0]->device->profile ? arrays[0]->device : NULL;
    int64_t began = measured ? weft__profile_clock() : 0;
    weft_status status = weft__plan_make(plan, arrays, n);
    if (status == WEFT_OK) {
        weft__plan_commit(plan);
    }
    if (measured) {
        weft__profile_plan(measured, weft__profile_clock() - began);
    }
    hold(arrays, n, weft__unhold);
    weft_scope_close(NULL);
    return status;
}

static weft_status failed_before(weft_array *const *arrays, int n)
{
    for (int i = 0; i < n; i++) {
        for (int o = 0; o < arrays[i]->n_outputs; o++) {
            if (atomic_load(&arrays[i]->outs[o].view.buffer->failed)) {
                return weft__failed_before("eval");
            }
        }
    }
    return WEFT_OK;
}

static weft_status evaluate_now(weft_array *const *arrays, int n, weft__plan *plan)
{
    evaluating = true;
    pthread_mutex_lock(&evaluation);
    weft_status status = prepare(plan, arrays, n);
    if (status == WEFT_OK) {
        drain();
        status = run(plan, true);
    }
    weft__plan_free(plan);
    pthread_mutex_unlock(&evaluation);
    evaluating = false;
    return status;
}

/* Waits for arrays that are evaluated, or being so. */
static weft_status wait_for(weft_array *const *arrays, int n)
{
    drain();
    return failed_before(arrays, n);
}

weft_status weft_eval_n(weft_array *const *arrays, int n)
{
    bool pending;
    weft_status status = check_roots(arrays, n, &pending);
    if (status != WEFT_OK) {
        return status;
    }
    pin(arrays, n);
    if (pending) {
        weft__plan plan = {0};
        status = evaluate_now(arrays, n, &plan);
    }
    return status == WEFT_OK ? wait_for(arrays, n) : status;
}

weft_status weft_eval(weft_array *a)
{
    return weft_eval_n(&a, 1);
}

weft_status weft_eval_async(weft_array *const *arrays, int n)
{
    bool pending;
    weft_status status = check_roots(arrays, n, &pending);
    if (status != WEFT_OK) {
        return status;
    }
    pin(arrays, n);
    if (!pending) {
        return WEFT_OK;
    }
    queued *q = weft_calloc(1, sizeof *q);
    if (!q || !start_queue()) { /* without a queue the caller waits */
        weft_free(q);
        return weft_eval_n(arrays, n);
    }
    evaluating = true;
    pthread_mutex_lock(&evaluation);
    status = prepare(&q->plan, arrays, n);
    if (status == WEFT_OK) {
        enqueue(q);
    } else {
        weft__plan_free(&q->plan);
        weft_free(q);
    }
    pthread_mutex_unlock(&evaluation);
    evaluating = false;
    return status;
}

/* ---- programs ------------------------------------------------------------------------------- */

weft_status weft__evaluation_begin(void)
{
    if (evaluating) {
        return inside();
    }
    evaluating = true;
    pthread_mutex_lock(&evaluation);
    return WEFT_OK;
}

void weft__evaluation_end(void)
{
    pthread_mutex_unlock(&evaluation);
    evaluating = false;
}

void weft__drain(void)
{
    drain();
}

weft_status weft__run_now(weft__plan *plan)
{
    return run(plan, true);
}

bool weft__run_later(const weft__plan *plan, void (*done)(void *context), void *context)
{
    queued *q = weft_calloc(1, sizeof *q);
    if (!q || !start_queue()) {
        weft_free(q);
        return false;
    }
    q->plan = *plan;
    q->done = done;
    q->context = context;
    enqueue(q);
    return true;
}

/* ---- replacing what slots hold -------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* The arrays that the slots hold, once for each distinct slot, into old[]; how many. `sorted` is
 * room for n slots. */
static int held_by(weft_array **const *slots, int n, weft_array ***sorted, weft_array **old)
{
    memcpy(sorted, slots, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_address);
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (*sorted[i] && (i == 0 || sorted[i] != sorted[i - 1])) {
            old[count++] = *sorted[i];
        }
    }
    return count;
}

static weft_status evaluate_replacing(weft_array **const *slots, weft_array *const *values, int n)
{
    weft_array ***sorted = weft_malloc((size_t)n * sizeof *sorted);
    weft_array **old = weft_malloc((size_t)n * sizeof *old);
    weft_status status = sorted && old ? WEFT_OK : weft_fail(WEFT_MEMORY, "update: out of memory");
    if (status == WEFT_OK) {
        weft__plan plan = {.released = old, .n_released = held_by(slots, n, sorted, old)};
        status = evaluate_now(values, n, &plan);
    }
    weft_free(sorted);
    weft_free(old);
    return status;
}

/* While a function is traced there is nothing to evaluate: the slots get what will be there. */
static weft_status set_all(weft_array **const *slots, weft_array *const *values, int n)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        status = weft_set(slots[i], values[i]);
    }
    return status;
}

weft_status weft_update(weft_array **const *slots, weft_array *const *values, int n)
{
    bool pending;
    weft_status status = check_roots(values, n, &pending);
    if (status != WEFT_OK || weft__watching) {
        return status == WEFT_OK ? set_all(slots, values, n) : weft__tell_watch(status);
    }
    hold(values, n, weft__hold); /* the slots' holds, taken early: the evaluation spends none */
    if (pending) {
        status = evaluate_replacing(slots, values, n);
    }
    if (status == WEFT_OK) {
        status = wait_for(values, n);
    }
    for (int i = 0; i < n; i++) {
        weft_array *released = values[i];
        if (status == WEFT_OK) {
            released = *slots[i];
            *slots[i] = values[i];
        }
        if (released) {
            weft__unhold(released);
        }
    }
    return status;
}
