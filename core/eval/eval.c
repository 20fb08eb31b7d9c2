/* core/eval/eval.c -- evaluation as callers see it, and the queue behind weft_eval_async. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/eval/plan.h"

/* One evaluation at a time is planned, and plans run in the order they were made. */
static pthread_mutex_t evaluation = PTHREAD_MUTEX_INITIALIZER;

/* ---- the queue ----------------------------------------------------------------------------------- */

typedef struct queued {
    struct queued *next;
    weft__plan plan;
} queued;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool running; /* the thread exists */
    bool stop;
    queued *first, *last; /* the first is being run */
    weft_status status;   /* of the first failure nobody has been told of */
    char message[1024];
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void note_failure(weft_status status)
{
    pthread_mutex_lock(&queue.lock);
    if (queue.status == WEFT_OK) {
        queue.status = status;
        snprintf(queue.message, sizeof queue.message, "%s", weft_error_message());
    }
    pthread_mutex_unlock(&queue.lock);
}

static void *run_queue(void *unused)
{
    (void)unused;
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
        weft_status status = weft__plan_run(&q->plan);
        if (status != WEFT_OK) {
            note_failure(status);
        }
        weft__plan_free(&q->plan);
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
    }
    bool running = queue.running && !queue.stop;
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

/* Waits until the queue is empty, and reports a failure that nobody was told of. */
static weft_status drain(void)
{
    pthread_mutex_lock(&queue.lock);
    while (queue.first) {
        pthread_cond_wait(&queue.changed, &queue.lock);
    }
    weft_status status = queue.status;
    queue.status = WEFT_OK;
    if (status != WEFT_OK) {
        weft_fail(status, "%s", queue.message);
    }
    pthread_mutex_unlock(&queue.lock);
    return status;
}

weft_status weft_synchronize(weft_device *device)
{
    weft_status status = drain();
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

/* ---- evaluation ------------------------------------------------------------------------------------ */

static weft_status check_roots(weft_array *const *arrays, int n, bool *pending)
{
    *pending = false;
    for (int i = 0; i < n; i++) {
        const weft_array *a = arrays[i];
        if (!weft_ok(a)) {
            return weft_fail(a == weft__no_memory() ? WEFT_MEMORY : WEFT_INVALID, "%s",
                             weft_error(a));
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

/* Makes and commits a plan; the expansions' temporaries live in a scope of its own. */
static weft_status prepare(weft__plan *plan, weft_array *const *arrays, int n)
{
    weft_scope_open();
    weft_array *mark = weft__node_new(0, 1, 0);
    plan->first_internal = mark ? mark->seq : 0;
    plan->retain = weft__differentiating > 0;
    weft_status status =
        mark ? weft__plan_make(plan, arrays, n) : weft_fail(WEFT_MEMORY, "eval: out of memory");
    if (status == WEFT_OK) {
        weft__plan_commit(plan);
    }
    weft_scope_close(NULL);
    return status;
}

static weft_status failed_before(weft_array *const *arrays, int n)
{
    for (int i = 0; i < n; i++) {
        for (int o = 0; o < arrays[i]->n_outputs; o++) {
            if (arrays[i]->outs[o].view.buffer->failed) {
                return weft_fail(WEFT_DEVICE, "eval: the computation of this array failed before");
            }
        }
    }
    return WEFT_OK;
}

static void pin(weft_array *const *arrays, int n)
{
    for (int i = 0; i < n; i++) {
        weft__scope_pin(arrays[i]);
    }
}

static weft_status evaluate_now(weft_array *const *arrays, int n, weft__plan *plan)
{
    weft_status status = prepare(plan, arrays, n);
    if (status == WEFT_OK) {
        status = drain();
    }
    if (status == WEFT_OK) {
        status = weft__plan_run(plan);
    }
    weft__plan_free(plan);
    return status;
}

weft_status weft_eval_n(weft_array *const *arrays, int n)
{
    bool pending;
    weft_status status = check_roots(arrays, n, &pending);
    if (status != WEFT_OK) {
        return status;
    }
    pin(arrays, n);
    if (!pending) {
        status = drain();
        return status == WEFT_OK ? failed_before(arrays, n) : status;
    }
    weft__plan plan = {0};
    pthread_mutex_lock(&evaluation);
    status = evaluate_now(arrays, n, &plan);
    pthread_mutex_unlock(&evaluation);
    return status;
}

weft_status weft_eval(weft_array *a)
{
    return weft_eval_n(&a, 1);
}

weft_status weft_eval_async(weft_array *const *arrays, int n)
{
    bool pending;
    weft_status status = check_roots(arrays, n, &pending);
    if (status != WEFT_OK || !pending) {
        return status;
    }
    pin(arrays, n);
    queued *q = weft_calloc(1, sizeof *q);
    if (!q || !start_queue()) { /* without a queue the caller waits */
        weft_free(q);
        return weft_eval_n(arrays, n);
    }
    pthread_mutex_lock(&evaluation);
    status = prepare(&q->plan, arrays, n);
    if (status == WEFT_OK) {
        enqueue(q);
    }
    pthread_mutex_unlock(&evaluation);
    if (status != WEFT_OK) {
        weft__plan_free(&q->plan);
        weft_free(q);
    }
    return status;
}

weft_status weft_update(weft_array **const *slots, weft_array *const *values, int n)
{
    bool pending;
    weft_status status = check_roots(values, n, &pending);
    if (status != WEFT_OK) {
        return status;
    }
    weft_array **old = weft_malloc((size_t)n * sizeof *old);
    if (!old) {
        return weft_fail(WEFT_MEMORY, "update: out of memory");
    }
    int n_old = 0;
    for (int i = 0; i < n; i++) {
        weft__hold(values[i]); /* the slots' holds, taken early: the evaluation must not spend them */
        if (*slots[i]) {
            old[n_old++] = *slots[i];
        }
    }
    if (pending) {
        weft__plan plan = {.released = old, .n_released = n_old};
        pthread_mutex_lock(&evaluation);
        status = evaluate_now(values, n, &plan);
        pthread_mutex_unlock(&evaluation);
    } else {
        status = drain();
    }
    for (int i = 0; i < n; i++) {
        if (status == WEFT_OK) {
            weft_array *before = *slots[i];
            *slots[i] = values[i];
            if (before) {
                weft__unhold(before);
            }
        } else {
            weft__unhold(values[i]);
        }
    }
    weft_free(old);
    return status;
}
