/* core/eval/eval.c -- evaluation: plans under one lock and runs outside it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/eval/profile.h"
#include "core/eval/queue.h"
#include "core/eval/trace.h"
#include "core/failure.h"

/* Held while planning, so that one plan is made at a time. Running needs no lock: a plan waits for
 * the plans it depends on. */
static pthread_mutex_t evaluation = PTHREAD_MUTEX_INITIALIZER;

static weft_status inside(void)
{
    return weft_fail(WEFT_UNSUPPORTED, "eval: called inside an evaluation, from an op's kernel, "
                                       "its expansion or a callback");
}

static weft_status wait_for_device(weft_device *device)
{
    return device->backend->wait ? device->backend->wait(device->state) : WEFT_OK;
}

weft_status weft_synchronize(weft_device *device)
{
    if (weft__evaluating) {
        return inside();
    }
    weft__pending_wait_all();
    weft_status status = weft__unreported_failure(NULL);
    return status == WEFT_OK ? wait_for_device(device) : status;
}

weft_status weft_stream_synchronize(weft_stream *stream)
{
    if (weft__evaluating) {
        return inside();
    }
    weft__stream_wait(stream);
    weft_status status = weft__unreported_failure(stream);
    return status == WEFT_OK ? wait_for_device(weft_stream_device(stream)) : status;
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
    if (weft__evaluating) {
        return inside();
    }
    pthread_mutex_lock(&evaluation);
    weft__pending_wait_all();
    weft_status status = weft__profile_set(device, on);
    pthread_mutex_unlock(&evaluation);
    return status;
}

int weft_device_report(weft_device *device, weft_op_report *out, int max, weft_totals *totals)
{
    weft_totals unwanted;
    if (weft__evaluating) {
        return 0;
    }
    pthread_mutex_lock(&evaluation);
    weft__pending_wait_all();
    int n = weft__profile_report(device, out, max, totals ? totals : &unwanted);
    pthread_mutex_unlock(&evaluation);
    return n;
}

int weft_device_kernels(weft_device *device, weft_kernel_report *out, int max)
{
    if (weft__evaluating) {
        return 0;
    }
    pthread_mutex_lock(&evaluation);
    weft__pending_wait_all();
    int n = weft__profile_kernels(device, out, max);
    pthread_mutex_unlock(&evaluation);
    return n;
}

int weft_device_counters(const weft_device *device, weft_counter *out, int max)
{
    const weft_backend *b = device->backend;
    return b->counters ? b->counters(device->state, out, max) : 0;
}

/* ---- pauses --------------------------------------------------------------------------------- */

static _Thread_local struct {
    weft_pause_fn *call;
    void *context;
    int disks; /* waits that have begun, one within the other */
} pausing;

void weft_set_pause(weft_pause_fn *pause, void *context)
{
    pausing.call = pause;
    pausing.context = context;
}

bool weft__pauses(void)
{
    return pausing.call != NULL;
}

void weft__pause(weft_pause_point point)
{
    if (point == WEFT_PAUSE_DISK && pausing.disks++ > 0)
        return;
    if (point == WEFT_PAUSE_DISK_DONE && --pausing.disks > 0)
        return;
    if (pausing.call)
        pausing.call(pausing.context, point);
}

/* ---- evaluation ----------------------------------------------------------------------------- */

static weft_status check_roots(weft_array *const *arrays, int n, bool *pending)
{
    *pending = false;
    if (weft__evaluating) {
        return inside();
    }
    for (int i = 0; i < n; i++) {
        const weft_array *a = arrays[i];
        if (!weft_ok(a)) {
            return weft__report(a);
        }
        if (a->state == WEFT__SPENT) {
            return weft_fail(WEFT_INVALID, "eval: the array " WEFT__CONSUMED);
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

/* Makes and commits a plan, with a scope for the temporaries of expansions. The roots are held,
 * since those of another thread's scope are not pinned. */
static weft_status prepare(weft__plan *plan, const void *owner, weft_array *const *arrays, int n)
{
    plan->owner = owner;
    weft_scope_open();
    hold(arrays, n, weft__hold);
    plan->first_internal = weft__next_seq();
    plan->retain = weft__differentiating > 0;
    plan->each_op = weft__check_nan();
    weft_device *measured = n > 0 && arrays[0]->device->profile ? arrays[0]->device : NULL;
    int64_t began = measured ? weft__nanoseconds() : 0;
    weft_status status = weft__plan_make(plan, arrays, n);
    if (status == WEFT_OK) {
        weft__plan_commit(plan);
    }
    if (measured) {
        weft__profile_plan(measured, weft__nanoseconds() - began);
        weft__trace_since("plan", "evaluation", began);
    }
    hold(arrays, n, weft__unhold);
    weft_scope_close(NULL);
    return status;
}

static weft_status failed_before(weft_array *const *arrays, int n)
{
    for (int i = 0; i < n; i++) {
        if (atomic_load(&arrays[i]->view.buffer->failed)) {
            return weft__failed_before("eval", arrays[i]->view.buffer, weft__thread_owner());
        }
    }
    return WEFT_OK;
}

/* Makes the plan and takes its ticket. The caller enters `f` in the list of pending plans. */
static weft_status prepare_pending(weft__pending *f, weft__plan *plan, const void *owner,
                                   weft_array *const *arrays, int n)
{
    weft_status status = prepare(plan, owner, arrays, n);
    if (status == WEFT_OK) {
        weft__pending_begin(f, owner);
        weft__pending_steps(f, plan->first);
    }
    return status;
}

static weft_status evaluate_now(weft_array *const *arrays, int n, weft__plan *plan)
{
    weft__pending f = {0};
    weft__evaluating = true;
    pthread_mutex_lock(&evaluation);
    weft_status status = prepare_pending(&f, plan, weft__thread_owner(), arrays, n);
    if (status == WEFT_OK) {
        weft__pending_enter(&f);
    }
    pthread_mutex_unlock(&evaluation);
    if (status == WEFT_OK) {
        status = weft__pending_run(&f, plan);
        weft__plan_finish(plan, status);
    }
    weft__plan_free(plan);
    weft__evaluating = false;
    weft__pause(WEFT_PAUSE_AFTER);
    return status;
}

/* Waits for arrays that are evaluated or being evaluated. */
static weft_status wait_for(weft_array *const *arrays, int n)
{
    weft__pending all = {0};
    pthread_mutex_lock(&evaluation);
    for (int i = 0; i < n; i++) {
        weft__pending_reads(&all, arrays[i]->view.buffer);
    }
    pthread_mutex_unlock(&evaluation);
    weft__pending_wait(&all);
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
        weft__scope_evaluated();
    }
    return status == WEFT_OK ? wait_for(arrays, n) : status;
}

weft_status weft_eval(weft_array *a)
{
    return weft_eval_n(&a, 1);
}

weft_status weft_eval_on(weft_stream *stream, weft_array *const *arrays, int n)
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
    weft__pending *f = weft_calloc(1, sizeof *f);
    if (!f || !weft__stream_start(stream)) { /* without a queue the caller runs it */
        weft_free(f);
        return weft_eval_n(arrays, n);
    }
    weft_array *dead = NULL; /* freed here, where the memory is used again */
    weft__evaluating = true;
    pthread_mutex_lock(&evaluation);
    status = prepare_pending(f, &f->plan, stream, arrays, n);
    if (status == WEFT_OK) {
        dead = f->plan.dead;
        f->plan.dead = NULL;
        weft__stream_queue(stream, f);
    } else {
        weft__plan_free(&f->plan);
        weft_free(f);
    }
    pthread_mutex_unlock(&evaluation);
    weft__free_detached(dead);
    weft__evaluating = false;
    weft__scope_evaluated();
    return status;
}

weft_status weft_eval_async(weft_array *const *arrays, int n)
{
    return weft_eval_on(weft_default_stream(), arrays, n);
}

/* ---- programs ------------------------------------------------------------------------------- */

weft_status weft__evaluation_begin(void)
{
    if (weft__evaluating) {
        return inside();
    }
    weft__evaluating = true;
    pthread_mutex_lock(&evaluation);
    return WEFT_OK;
}

void weft__evaluation_leave(void)
{
    pthread_mutex_unlock(&evaluation);
}

void weft__evaluation_end(void)
{
    weft__evaluating = false;
}

/* ---- updating slots -------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* Collects the arrays in the slots into old[], once for each distinct slot, and returns their
 * number. `sorted` has room for n slots. */
static int slot_values(weft_array **const *slots, int n, weft_array ***sorted, weft_array **old)
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
    weft_status status = sorted && old ? WEFT_OK : weft__out_of_memory("update", NULL);
    if (status == WEFT_OK) {
        weft__plan plan = {.released = old, .n_released = slot_values(slots, n, sorted, old)};
        status = evaluate_now(values, n, &plan);
        weft__scope_evaluated();
    }
    weft_free(sorted);
    weft_free(old);
    return status;
}

/* While a function is traced, nothing is evaluated: the slots get lazy arrays. */
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
    if (status != WEFT_OK || weft__current_observer) {
        return status == WEFT_OK ? set_all(slots, values, n) : weft__report_to_observer(status);
    }
    hold(values, n, weft__hold); /* the holds of the slots, taken early so that the evaluation
                                  * spends none of the arrays */
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
