/* core/eval/profile.c -- counts how nodes ran, and measures time by op while a device is profiled.
 */
#include "core/eval/profile.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/eval/trace.h"
#include "core/eval/work.h"
#include "core/failure.h"

enum { OPS = 512, KERNELS = 512, DEVICE_OPS = 512 };

typedef struct measured {
    const weft_op *op; /* NULL: free */
    weft_op_report report;
} measured;

struct weft__profile {
    pthread_mutex_t lock; /* steps run while the next plan is made */
    int64_t began;
    weft_totals totals;
    measured ops[OPS]; /* hashed by the op's address */
    weft_kernel_report kernels[KERNELS];
    int n_kernels;
};

/* The entry of an op; NULL when the table is full. */
static weft_op_report *find(struct weft__profile *p, const weft_op *op)
{
    size_t at = (size_t)((uintptr_t)op >> 4) % OPS;
    for (int i = 0; i < OPS; i++, at = (at + 1) % OPS) {
        measured *m = &p->ops[at];
        if (!m->op) {
            m->op = op;
            m->report.op = op->name;
        }
        if (m->op == op) {
            return &m->report;
        }
    }
    return NULL;
}

/* The entry of an op's kernels on a variant; NULL when the table is full. */
static weft_kernel_report *find_kernel(weft_kernel_report *all, int *n, int max, const char *op,
                                       const char *variant)
{
    for (int i = 0; i < *n; i++) {
        if (strcmp(all[i].op, op) == 0 && strcmp(all[i].variant, variant) == 0) {
            return &all[i];
        }
    }
    if (*n == max) {
        return NULL;
    }
    all[*n] = (weft_kernel_report){.op = op, .variant = variant};
    return &all[(*n)++];
}

static void add_one(weft_counts *counts, size_t way)
{
    ++*(int64_t *)(void *)((char *)counts + way);
}

void weft__count_at(weft_device *device, const weft_op *op, size_t way)
{
    add_one(&device->counts, way);
    struct weft__profile *p = device->profile;
    if (p) {
        pthread_mutex_lock(&p->lock);
        weft_op_report *r = find(p, op);
        if (r) {
            add_one(&r->ran, way);
        }
        pthread_mutex_unlock(&p->lock);
    }
}

/* Whether the host's clock measures the step. Otherwise the device measures it. */
static bool runs_on_host(const weft__step *step)
{
    return step->kind == WEFT__STEP_REFERENCE || step->kind == WEFT__STEP_TRANSFER;
}

static void add_kernel(struct weft__profile *p, const weft__step *step, weft_work work,
                       int64_t nanoseconds)
{
    weft_kernel_report *k = find_kernel(p->kernels, &p->n_kernels, KERNELS, step->call.op->name,
                                        weft__step_variant(step));
    if (k) {
        k->calls++;
        k->nanoseconds += nanoseconds;
        k->work.flops += work.flops;
        k->work.bytes += work.bytes;
    }
}

/* The category of the host's span: it computes the step, or records the kernel for the device. */
static const char *own_kind(const weft__step *step)
{
    return step->kind == WEFT__STEP_TRANSFER                             ? "transfer"
           : runs_on_host(step) || !step->call.device->backend->op_times ? "kernel"
                                                                         : "record";
}

void weft__profile_step(const weft__step *step, int64_t began, int64_t nanoseconds)
{
    const weft_backend *backend = step->call.device->backend;
    struct weft__profile *p = step->call.device->profile;
    bool is_host = backend->host_memory && step->kind == WEFT__STEP_REFERENCE;
    if (step->kind == WEFT__STEP_NOTHING) {
        return;
    }
    const weft_work work = weft__step_work(step);
    weft_timeline_add(&(weft_span){.name = step->call.op->name,
                                   .category = own_kind(step),
                                   .variant = weft__step_variant(step),
                                   .begin = began,
                                   .duration = nanoseconds,
                                   .work = work});
    pthread_mutex_lock(&p->lock);
    p->totals.running += nanoseconds;
    if (!backend->op_times && (is_host || !runs_on_host(step))) {
        p->totals.busy += nanoseconds;
    }
    weft_op_report *r = find(p, step->call.op);
    const int64_t own = !backend->op_times || runs_on_host(step) ? nanoseconds : 0;
    if (r) {
        r->calls++;
        r->nanoseconds += own;
    }
    add_kernel(p, step, work, own);
    pthread_mutex_unlock(&p->lock);
}

void weft__profile_wait(weft_device *device, int64_t nanoseconds)
{
    pthread_mutex_lock(&device->profile->lock);
    device->profile->totals.waiting += nanoseconds;
    pthread_mutex_unlock(&device->profile->lock);
}

void weft__profile_plan(weft_device *device, int64_t nanoseconds)
{
    pthread_mutex_lock(&device->profile->lock);
    device->profile->totals.planning += nanoseconds;
    pthread_mutex_unlock(&device->profile->lock);
}

/* ---- switching ------------------------------------------------------------------------------ */

weft_status weft__profile_set(weft_device *device, bool on)
{
    const weft_backend *backend = device->backend;
    weft_status status = backend->wait ? backend->wait(device->state) : WEFT_OK;
    struct weft__profile *p = NULL;
    if (status == WEFT_OK && on) {
        p = weft_calloc(1, sizeof *p);
        status = p ? WEFT_OK : weft__out_of_memory("profile", NULL);
    }
    if (status != WEFT_OK) {
        return status;
    }
    if (device->profile) {
        pthread_mutex_destroy(&device->profile->lock);
        weft_free(device->profile);
    }
    if (backend->profile) {
        backend->profile(device->state, on);
    }
    if (p) {
        pthread_mutex_init(&p->lock, NULL);
        p->began = weft__nanoseconds();
    }
    device->profile = p;
    return WEFT_OK;
}

/* ---- the report ----------------------------------------------------------------------------- */

typedef struct reports {
    weft_op_report *at;
    int n, max;
} reports;

/* The report of that name, created if necessary; NULL when the list is full. */
static weft_op_report *report_of(reports *all, const char *op)
{
    for (int i = 0; i < all->n; i++) {
        if (strcmp(all->at[i].op, op) == 0) {
            return &all->at[i];
        }
    }
    if (all->n == all->max) {
        return NULL;
    }
    all->at[all->n] = (weft_op_report){.op = op};
    return &all->at[all->n++];
}

static void add_counts(weft_counts *to, const weft_counts *from)
{
    int64_t *a = (int64_t *)(void *)to;
    const int64_t *b = (const int64_t *)(const void *)from;
    for (size_t i = 0; i < sizeof *to / sizeof *a; i++) {
        a[i] += b[i];
    }
}

/* Adds the times that the device has measured. */
static void add_device_times(const weft_device *device, reports *all, weft_totals *totals)
{
    weft_op_time times[DEVICE_OPS];
    const weft_backend *backend = device->backend;
    int n = backend->op_times ? backend->op_times(device->state, times, DEVICE_OPS) : 0;
    for (int i = 0; i < n; i++) {
        weft_op_report *r = report_of(all, times[i].op);
        totals->busy += times[i].nanoseconds;
        if (r) {
            r->nanoseconds += times[i].nanoseconds;
            r->calls = r->calls > 0 ? r->calls : times[i].calls;
        }
    }
}

static int by_time(const void *a, const void *b)
{
    const weft_op_report *x = a, *y = b;
    if (x->nanoseconds != y->nanoseconds) {
        return x->nanoseconds < y->nanoseconds ? 1 : -1;
    }
    return strcmp(x->op, y->op);
}

int weft__profile_report(weft_device *device, weft_op_report *out, int max, weft_totals *totals)
{
    struct weft__profile *p = device->profile;
    reports all = {.at = out, .max = max};
    *totals = p ? p->totals : (weft_totals){0};
    for (int i = 0; p && i < OPS; i++) {
        weft_op_report *r = p->ops[i].op ? report_of(&all, p->ops[i].report.op) : NULL;
        if (r) {
            add_counts(&r->ran, &p->ops[i].report.ran);
            r->calls += p->ops[i].report.calls;
            r->nanoseconds += p->ops[i].report.nanoseconds;
        }
    }
    if (p) {
        totals->wall = weft__nanoseconds() - p->began;
        add_device_times(device, &all, totals);
    }
    qsort(out, (size_t)all.n, sizeof *out, by_time);
    return all.n;
}

static int by_kernel_time(const void *a, const void *b)
{
    const weft_kernel_report *x = a, *y = b;
    if (x->nanoseconds != y->nanoseconds) {
        return x->nanoseconds < y->nanoseconds ? 1 : -1;
    }
    const int order = strcmp(x->op, y->op);
    return order != 0 ? order : strcmp(x->variant, y->variant);
}

int weft__profile_kernels(weft_device *device, weft_kernel_report *out, int max)
{
    const struct weft__profile *p = device->profile;
    const weft_backend *backend = device->backend;
    weft_op_time times[DEVICE_OPS];
    int n = p ? p->n_kernels : 0;
    n = n < max ? n : max;
    if (n > 0) {
        memcpy(out, p->kernels, (size_t)n * sizeof *out);
    }
    const int timed =
        p && backend->op_times ? backend->op_times(device->state, times, DEVICE_OPS) : 0;
    for (int i = 0; i < timed; i++) {
        weft_kernel_report *k = find_kernel(out, &n, max, times[i].op, times[i].variant);
        if (k) {
            k->nanoseconds += times[i].nanoseconds;
            k->calls = k->calls > 0 ? k->calls : times[i].calls;
        }
    }
    qsort(out, (size_t)n, sizeof *out, by_kernel_time);
    return n;
}
