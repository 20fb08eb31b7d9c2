/* core/eval/run.c -- runs the steps of a plan in order. */
#include <math.h>
#include <stdio.h>

#include "core/clock.h"
#include "core/eval/plan.h"
#include "core/eval/profile.h"
#include "core/eval/queue.h"
#include "core/eval/trace.h"
#include "core/eval/work.h"
#include "core/failure.h"
#include "core/shape.h"

/* Bytes of a row-major tensor. */
static int64_t dense_bytes(const weft_tensor *t)
{
    int64_t size = weft_tensor_size(t);
    return t->encoding ? weft_encoding_bytes(t->encoding, size)
                       : size * (int64_t)weft_dtype_size(t->dtype);
}

/* Waits for submitted work before the host accesses memory that it shares with the device. */
static weft_status settle(weft_device *device)
{
    return device->backend->wait ? device->backend->wait(device->state) : WEFT_OK;
}

/* The bytes that a strided tensor spans from its lowest to its highest element, and the offset of
 * its first element in that span. */
static int64_t span_bytes(const weft_tensor *t, int64_t *first)
{
    int64_t low = 0, high = 0;
    *first = 0;
    if (weft_tensor_size(t) == 0 || t->encoding) {
        return dense_bytes(t);
    }
    for (int i = 0; i < t->shape.n; i++) {
        int64_t reach = (t->shape.at[i] - 1) * t->strides[i];
        *(reach < 0 ? &low : &high) += reach;
    }
    int64_t element = (int64_t)weft_dtype_size(t->dtype);
    *first = -low * element;
    return (high - low + 1) * element;
}

/* Copies a tensor in device memory to the host. */
static weft_status fetch(weft_device *device, const weft_tensor *t, weft_tensor *host, void **block)
{
    int64_t first;
    int64_t bytes = span_bytes(t, &first);
    *host = *t;
    *block = weft_malloc((size_t)bytes);
    if (!*block) {
        return weft__out_of_memory("eval", NULL);
    }
    host->data = (char *)*block + first;
    return bytes ? device->backend->read(device->state, t->buffer, t->offset - first, *block, bytes)
                 : WEFT_OK;
}

static weft_status call_on_host(const weft__step *step, const weft_call *call)
{
    weft_status status = settle(step->device);
    if (status != WEFT_OK) {
        return status;
    }
    return step->tape ? weft__reference_elementwise(call, step->tape) : step->kernel(call);
}

/* Copies the inputs to the host, runs the kernel there, and copies the outputs back. */
static weft_status run_through_host(const weft__step *step)
{
    const weft_call *call = &step->call;
    int n = call->n_inputs + call->n_outputs;
    weft_tensor *tensors = weft_calloc((size_t)n, sizeof *tensors);
    void **blocks = weft_calloc((size_t)n, sizeof *blocks);
    weft_status status = tensors && blocks ? WEFT_OK : weft__out_of_memory("eval", NULL);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        const weft_tensor *t = i < call->n_inputs ? &call->in[i] : &call->out[i - call->n_inputs];
        if (i < call->n_inputs) {
            status = fetch(step->device, t, &tensors[i], &blocks[i]);
        } else {
            tensors[i] = *t;
            blocks[i] = weft_malloc((size_t)dense_bytes(t));
            tensors[i].data = blocks[i];
            status = blocks[i] ? WEFT_OK : weft__out_of_memory("eval", NULL);
        }
    }
    if (status == WEFT_OK) {
        weft_call host = *call;
        host.in = tensors;
        host.out = tensors + call->n_inputs;
        status = call_on_host(step, &host);
    }
    for (int o = 0; o < call->n_outputs && status == WEFT_OK; o++) {
        const weft_tensor *t = &call->out[o];
        int64_t bytes = dense_bytes(t);
        status = step->device->backend->write(step->device->state, t->buffer, t->offset,
                                              blocks[call->n_inputs + o], bytes);
    }
    for (int i = 0; i < n && blocks; i++) {
        weft_free(blocks[i]);
    }
    weft_free(blocks);
    weft_free(tensors);
    return status;
}

/* A read waits without holding the device, so that other plans can queue work meanwhile.
 * What comes from another device is uploaded beside kernels, as weights are. */
static weft_status run_transfer(const weft__step *step)
{
    const weft_tensor *from = &step->call.in[0], *to = &step->call.out[0];
    weft_device *source = step->device, *target = step->call.device;
    const weft_backend *b = target->backend;
    int64_t bytes = dense_bytes(from);
    if (from->data && !source->backend->wait) {
        const bool beside = b->upload && !step->buffers[0]->owned;
        return (beside ? b->upload : b->write)(target->state, to->buffer, to->offset, from->data,
                                               bytes);
    }
    if (to->data && !b->wait) {
        return source->backend->read(source->state, from->buffer, from->offset, to->data, bytes);
    }
    void *block = weft_malloc((size_t)bytes);
    if (!block) {
        return weft__out_of_memory("to", NULL);
    }
    weft_status status =
        source->backend->read(source->state, from->buffer, from->offset, block, bytes);
    if (status == WEFT_OK) {
        status =
            (b->upload ? b->upload : b->write)(target->state, to->buffer, to->offset, block, bytes);
    }
    weft_free(block);
    return status;
}

static bool host_sees(const weft_call *call)
{
    for (int i = 0; i < call->n_inputs; i++) {
        if (!call->in[i].data) {
            return false;
        }
    }
    for (int i = 0; i < call->n_outputs; i++) {
        if (!call->out[i].data) {
            return false;
        }
    }
    return true;
}

/* The step that the thread runs, and whether its plan had a dry run. */
static _Thread_local struct {
    const weft__step *step;
    bool dry_run;
} running;

static weft_status run_step(const weft__step *step)
{
    switch (step->kind) {
    case WEFT__STEP_NOTHING:
        return WEFT_OK;
    case WEFT__STEP_KERNEL:
        return step->kernel(&step->call);
    case WEFT__STEP_TRANSFER:
        return run_transfer(step);
    case WEFT__STEP_ELEMENTWISE:
        return step->device->backend->elementwise(&step->call, step->tape);
    case WEFT__STEP_REFERENCE:
        break;
    }
    return host_sees(&step->call) ? call_on_host(step, &step->call) : run_through_host(step);
}

/* Runs a step of a profiled device. Waits for the device first, so that the wait is not attributed
 * to the step. */
static weft_status run_measured(const weft__step *step)
{
    weft_device *source = step->device;
    int64_t began = weft__nanoseconds();
    if (source->profile &&
        (step->kind == WEFT__STEP_REFERENCE || step->kind == WEFT__STEP_TRANSFER)) {
        weft_status status = settle(source);
        if (status != WEFT_OK) {
            return status;
        }
        int64_t settled = weft__nanoseconds();
        weft__profile_wait(source, settled - began);
        weft__trace_since("wait for the device", "wait", began);
        began = weft__nanoseconds();
    }
    weft__kernel_set((weft__running_kernel){step->call.op->name, weft__step_variant(step)});
    weft_status status = run_step(step);
    weft__kernel_set((weft__running_kernel){"", ""});
    weft__profile_step(step, began, weft__nanoseconds() - began);
    return status;
}

static weft_status wait_measured(weft_device *device)
{
    int64_t began = device->profile ? weft__nanoseconds() : 0;
    weft_status status = device->backend->wait(device->state);
    if (device->profile) {
        weft__profile_wait(device, weft__nanoseconds() - began);
        weft__trace_since("wait for the device", "wait", began);
    }
    return status;
}

/* The index of the first NaN in an operand, or -1. */
static weft_status find_nan(const weft__step *step, const weft_tensor *t, int64_t *at)
{
    *at = -1;
    if (!weft_dtype_is_float(t->dtype) || t->encoding) {
        return WEFT_OK;
    }
    weft_tensor host = *t;
    void *block = NULL;
    weft_status status = t->data ? settle(step->device) : fetch(step->device, t, &host, &block);
    int64_t n = weft_tensor_size(t);
    for (int64_t i = 0; i < n && status == WEFT_OK && *at < 0; i++) {
        *at = isnan(weft_tensor_get(&host, i)) ? i : -1;
    }
    weft_free(block);
    return status;
}

/* WEFT_CHECK_NAN: stops at the first step that produces a NaN. A NaN that was already in an input
 * is reported as such. */
static weft_status check_nan(const weft__step *step)
{
    const weft_call *call = &step->call;
    int64_t at = -1;
    int o = 0;
    for (; o < call->n_outputs && at < 0; o++) {
        weft_status status = find_nan(step, &call->out[o], &at);
        if (status != WEFT_OK) {
            return status;
        }
    }
    if (at < 0) {
        return WEFT_OK;
    }
    int from = -1;
    for (int i = 0; i < call->n_inputs && from < 0; i++) {
        int64_t there;
        bool overwritten = step->buffers[i] == step->buffers[call->n_inputs + o - 1];
        if (!overwritten && find_nan(step, &call->in[i], &there) == WEFT_OK && there >= 0) {
            from = i;
        }
    }
    const char *path = step->path ? step->path : "";
    char came[48] = "";
    if (from >= 0) {
        snprintf(came, sizeof came, ", which came in with input %d", from);
    }
    return weft_fail(WEFT_INVALID, "%s%s%s: first NaN: output %d, element %lld%s", path,
                     path[0] ? ": " : "", call->op->name, o - 1, (long long)at, came);
}

/* The first input whose computation failed, or NULL. */
static const weft__buffer *failed_input(const weft__step *step)
{
    for (int i = 0; i < step->call.n_inputs; i++) {
        if (step->buffers[i]->failed) {
            return step->buffers[i];
        }
    }
    return NULL;
}

/* Marks the outputs of this step and of all later ones as failed. */
static void mark_failed(weft__plan *plan, const weft__step *step)
{
    static atomic_uint_fast64_t failures;
    plan->failure = atomic_fetch_add(&failures, 1) + 1;
    for (; step; step = step->next) {
        for (int o = 0; o < step->call.n_outputs; o++) {
            weft__buffer *b = step->buffers[step->call.n_inputs + o];
            if (!atomic_load(&b->failed)) {
                b->failure = plan->failure;
                atomic_store(&b->failed, true);
            }
        }
    }
}

static void mark_filled(const weft__step *step)
{
    for (int o = 0; o < step->call.n_outputs; o++) {
        atomic_bool *failed = &step->buffers[step->call.n_inputs + o]->failed;
        if (atomic_load_explicit(failed, memory_order_relaxed)) {
            atomic_store(failed, false);
        }
    }
}

static bool writes(const weft__step *step, const weft__buffer *b)
{
    const weft_call *call = &step->call;
    bool writes = (call->workspace && call->workspace == b->host) ||
                  (call->workspace_buffer && call->workspace_buffer == b->handle);
    for (int o = 0; o < call->n_outputs && !writes; o++) {
        writes = step->buffers[call->n_inputs + o] == b;
    }
    return writes;
}

bool weft__plan_left_intact(const weft__plan *plan, weft__buffer *b)
{
    for (const weft__step *s = plan->first; s && s != plan->intact; s = s->next) {
        if (writes(s, b)) {
            return false;
        }
    }
    if (b->failure == plan->failure) {
        atomic_store(&b->failed, false);
    }
    return !atomic_load(&b->failed);
}

bool weft__steps_cross(const weft__step *first)
{
    const weft_device *one = NULL;
    bool several = false, profiled = false;
    if (!weft__several_queue()) { /* without a walk over the steps */
        return false;
    }
    for (const weft__step *s = first; s; s = s->next) {
        const weft_device *used[] = {s->device, s->call.device};
        for (int i = 0; i < 2; i++) {
            if (used[i]->backend->mark) {
                several = several || (one && used[i] != one);
                profiled = profiled || used[i]->profile;
                one = used[i];
            }
        }
    }
    return several && !profiled;
}

/* The end of a plan's work on a device that other plans use at the same time. */
typedef struct plan_end {
    weft_device *device;
    const weft__step *last; /* on the device */
    uint64_t point;         /* mark at its end */
} plan_end;

enum { MOST_ENDS = 16 };

/* The devices of a plan that shares them: their number; 0: it does not, or uses more. */
static int find_ends(const weft__plan *plan, plan_end ends[MOST_ENDS])
{
    int n = 0;
    if (!weft__steps_cross(plan->first)) {
        return 0;
    }
    for (const weft__step *s = plan->first; s; s = s->next) {
        weft_device *const used[] = {s->device, s->call.device};
        for (int i = 0; i < 2; i++) {
            int k = 0;
            while (k < n && ends[k].device != used[i]) {
                k++;
            }
            if (k == MOST_ENDS) {
                return 0;
            }
            if (used[i]->backend->mark) {
                ends[k] = (plan_end){used[i], s, 0};
                n = k == n ? n + 1 : n;
            }
        }
    }
    return n;
}

static weft_status mark_ends(const weft__step *step, plan_end *ends, int n)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        if (ends[i].last == step) {
            weft_device *d = ends[i].device;
            status = d->backend->mark(d->state, &ends[i].point);
        }
    }
    return status;
}

/* Waits for the plan's own work on all devices, while others may queue more. Invalid input that one
 * has found is reported once; that of the others is not left for the next plan. */
static weft_status wait_for_ends(weft__plan *plan, const plan_end *ends, int n)
{
    weft_status status = WEFT_OK;
    char why[1024] = "";
    for (int i = 0; i < n; i++) {
        weft_device *d = ends[i].device;
        const weft_status one = d->backend->wait_until(d->state, ends[i].point);
        if (status == WEFT_OK && one != WEFT_OK) {
            status = one;
            snprintf(why, sizeof why, "%s", weft_error_message());
        }
    }
    if (status != WEFT_OK) {
        mark_failed(plan, plan->first);
        return weft_fail(status, "%s", why);
    }
    return status;
}

static weft_status wait_for_devices(weft__plan *plan)
{
    weft_device *last = NULL;
    for (const weft__step *s = plan->first; s; s = s->next) {
        weft_device *d = s->call.device;
        if (d != last && d->backend->wait) {
            weft_status status = wait_measured(d);
            if (status != WEFT_OK) {
                mark_failed(plan, plan->first);
                return status;
            }
        }
        last = d;
    }
    return WEFT_OK;
}

/* Whether the thread pauses between the steps: never among those of a device that queues work,
 * which runs one plan at a time. */
static bool pauses(const weft__plan *plan)
{
    bool pauses = weft__pauses();
    for (const weft__step *s = plan->first; s && pauses; s = s->next) {
        pauses = !s->device->backend->wait && !s->call.device->backend->wait;
    }
    return pauses;
}

/* Runs a step in its device's turn, if it queues work there: the arguments that a kernel stores for
 * its launches are not mixed with those of another thread. */
static weft_status run_in_turn(const weft__step *step)
{
    weft_device *device = step->device;
    const bool queues = device->backend->mark && step->kind != WEFT__STEP_TRANSFER &&
                        step->kind != WEFT__STEP_REFERENCE;
    if (!queues) {
        return run_step(step);
    }
    pthread_mutex_lock(&device->turn);
    const weft_status status = run_step(step);
    pthread_mutex_unlock(&device->turn);
    return status;
}

static weft_status run_steps(weft__plan *plan, plan_end *ends, int n_ends)
{
    const bool check = weft__check_nan(), pause = pauses(plan);
    running.dry_run = false;
    for (weft__step *step = plan->first; step; step = step->next) {
        weft_status status = WEFT_OK;
        if (pause) {
            weft__pause(WEFT_PAUSE_INSIDE);
        }
        running.step = step;
        const weft__buffer *missing = failed_input(step);
        bool intact = missing != NULL;
        if (missing) {
            status = weft__failed_before(step->call.op->name, missing, plan->owner);
        }
        if (status == WEFT_OK) {
            status = step->call.device->profile ? run_measured(step) : run_in_turn(step);
            intact = status != WEFT_OK && step->checks_first;
        }
        if (status == WEFT_OK) {
            mark_filled(step);
            status = check ? check_nan(step) : WEFT_OK;
        }
        if (status == WEFT_OK) {
            status = mark_ends(step, ends, n_ends);
        }
        if (status != WEFT_OK) {
            plan->intact = intact ? step : step->next;
            mark_failed(plan, step);
            running.step = NULL;
            return status;
        }
    }
    running.step = NULL;
    return WEFT_OK;
}

/* Whether the backend itself defines what the step runs. */
static bool is_own(const weft_backend *backend, const weft__step *step)
{
    bool own = step->kind == WEFT__STEP_ELEMENTWISE ||
               (step->kind == WEFT__STEP_KERNEL && step->kernel == backend->copy);
    for (int i = 0; i < backend->n_rows && !own && step->kind == WEFT__STEP_KERNEL; i++) {
        own = step->kernel == backend->rows[i].kernel;
    }
    return own;
}

void weft_dry_run_kernels(const weft_call *call)
{
    const weft__step *first = running.dry_run ? NULL : running.step;
    if (!first || call->device != first->call.device || !is_own(first->device->backend, first)) {
        return;
    }
    running.dry_run = true;
    for (const weft__step *s = first; s; s = s->next) {
        if (s->device == call->device && s->call.device == call->device &&
            is_own(s->device->backend, s)) {
            (void)run_step(s);
        }
    }
}

weft_status weft__plan_run(weft__plan *plan)
{
    const int64_t began = weft_timeline_is_on() ? weft__nanoseconds() : 0;
    plan_end ends[MOST_ENDS];
    const int n = find_ends(plan, ends);
    weft_status status = run_steps(plan, ends, n);
    if (status == WEFT_OK) {
        status = n > 0 ? wait_for_ends(plan, ends, n) : wait_for_devices(plan);
    }
    if (began > 0) {
        weft__trace_since("run", "evaluation", began);
    }
    return status;
}

static bool only_queues(const weft__step *step)
{
    return step->kind == WEFT__STEP_NOTHING || step->kind == WEFT__STEP_KERNEL ||
           step->kind == WEFT__STEP_ELEMENTWISE;
}

weft_device *weft__plan_device(const weft__plan *plan)
{
    weft_device *device = plan->first ? plan->first->device : NULL;
    if (!device || !device->backend->mark || device->profile || weft__check_nan()) {
        return NULL;
    }
    for (const weft__step *s = plan->first; s; s = s->next) {
        if (s->device != device || s->call.device != device || !only_queues(s)) {
            return NULL;
        }
    }
    return device;
}

weft_status weft__plan_issue(weft__plan *plan, weft_device *device, uint64_t *point)
{
    weft_status status = run_steps(plan, NULL, 0);
    if (status == WEFT_OK) {
        status = device->backend->mark(device->state, point);
        if (status != WEFT_OK) {
            mark_failed(plan, plan->first);
        }
    }
    return status;
}
