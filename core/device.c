/* core/device.c -- opening backends' devices, kernel rows by op, and the default device. */
#include "core/device.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/eval/plan.h"
#include "core/failure.h"

enum { MAX_BACKENDS = 16 };

/* Kernel rows added by the user; kept until the process ends. */
typedef struct added_rows {
    struct added_rows *next; /* added earlier */
    const weft_backend *backend;
    const weft_kernel_row *rows;
    int n;
} added_rows;

static struct {
    pthread_mutex_t lock;
    const weft_backend *added[MAX_BACKENDS];
    int n_added;
    added_rows *rows;     /* the latest first */
    weft_device *devices; /* opened, newest first */
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local weft_device *thread_device;

static int backend_count(void)
{
    return weft__backend_count + registry.n_added;
}

static const weft_backend *backend_at(int i)
{
    return i < weft__backend_count ? weft__backends[i] : registry.added[i - weft__backend_count];
}

static const weft_backend *find_backend(const char *name, size_t length)
{
    for (int i = 0; i < backend_count(); i++) {
        const weft_backend *b = backend_at(i);
        if (strlen(b->name) == length && strncmp(b->name, name, length) == 0) {
            return b;
        }
    }
    return NULL;
}

weft_status weft_backend_register(const weft_backend *backend)
{
    if (!backend->name || !backend->open || !backend->allocate || !backend->release ||
        !backend->write || !backend->read) {
        return weft_fail(WEFT_INVALID,
                         "backend_register: %s: expected a name, open, allocate, "
                         "release, write and read",
                         backend->name ? backend->name : "(no name)");
    }
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&registry.lock);
    if (find_backend(backend->name, strlen(backend->name))) {
        status = weft_fail(WEFT_INVALID, "backend_register: %s: the name is taken", backend->name);
    } else if (registry.n_added == MAX_BACKENDS) {
        status = weft_fail(WEFT_UNSUPPORTED, "backend_register: %s: more than %d backends",
                           backend->name, MAX_BACKENDS);
    } else {
        registry.added[registry.n_added++] = backend;
    }
    pthread_mutex_unlock(&registry.lock);
    return status;
}

/* ---- rows by op ----------------------------------------------------------------------------- */

typedef struct ranked_row {
    const weft_kernel_row *row;
    int rank; /* rows of lower rank are tried first */
} ranked_row;

static int by_op(const void *a, const void *b)
{
    const ranked_row *x = a, *y = b;
    int order = strcmp(x->row->op, y->row->op);
    return order ? order : x->rank - y->rank;
}

static int append_rows(ranked_row *all, int n, const weft_kernel_row *rows, int count)
{
    for (int i = 0; i < count; i++, n++) {
        all[n] = (ranked_row){&rows[i], n};
    }
    return n;
}

/* A backend's rows sorted by op, with the rows added last in front; *n of them. NULL: out of
 * memory. */
static const weft_kernel_row **sorted_rows(const weft_backend *backend, int *n)
{
    int total = backend->n_rows;
    for (const added_rows *a = registry.rows; a; a = a->next) {
        total += a->backend == backend ? a->n : 0;
    }
    ranked_row *all = weft_malloc((size_t)total * sizeof *all);
    const weft_kernel_row **rows = weft_malloc((size_t)total * sizeof *rows);
    if (all && rows) {
        *n = 0;
        for (const added_rows *a = registry.rows; a; a = a->next) {
            *n = append_rows(all, *n, a->rows, a->backend == backend ? a->n : 0);
        }
        *n = append_rows(all, *n, backend->rows, backend->n_rows);
        qsort(all, (size_t)total, sizeof *all, by_op);
        for (int i = 0; i < total; i++) {
            rows[i] = all[i].row;
        }
    } else {
        weft_free(rows);
        rows = NULL;
    }
    weft_free(all);
    return rows;
}

static weft__op_rows find_rows(const weft_device *device, const weft_op *op)
{
    int low = 0, high = device->n_rows;
    while (low < high) {
        int middle = (low + high) / 2;
        if (strcmp(device->rows[middle]->op, op->name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    int n = 0;
    while (low + n < device->n_rows && strcmp(device->rows[low + n]->op, op->name) == 0) {
        n++;
    }
    return (weft__op_rows){op, low, n};
}

const weft_kernel_row *const *weft__device_rows(weft_device *device, const weft_op *op, int *n)
{
    weft__op_rows *found = &device->found[((uintptr_t)op >> 4) % WEFT__ROWS_FOUND];
    if (found->op != op) {
        *found = find_rows(device, op);
    }
    *n = found->n;
    return device->rows + found->first;
}

/* ---- rows added by the user ------------------------------------------------------------------ */

static weft_status check_rows(const weft_kernel_row *rows, int n)
{
    for (int i = 0; i < n; i++) {
        if (!rows[i].op || !rows[i].kernel) {
            return weft_fail(WEFT_INVALID, "backend_add_rows: row %d: expected an op and a kernel",
                             i);
        }
    }
    return WEFT_OK;
}

/* Sorts the rows of open devices again. Changes nothing if out of memory. */
static weft_status sort_again(const weft_backend *backend)
{
    bool ok = true;
    for (weft_device *d = registry.devices; d; d = d->next) {
        if (d->backend == backend && ok) {
            d->next_rows = sorted_rows(backend, &d->n_next_rows);
            ok = d->next_rows != NULL;
        }
    }
    for (weft_device *d = registry.devices; d; d = d->next) {
        if (d->next_rows && ok) {
            weft_free(d->rows);
            d->rows = d->next_rows;
            d->n_rows = d->n_next_rows;
            memset(d->found, 0, sizeof d->found);
        } else {
            weft_free(d->next_rows);
        }
        d->next_rows = NULL;
    }
    return ok ? WEFT_OK : weft__out_of_memory("backend_add_rows", NULL);
}

/* Called with both locks held. */
static weft_status add_rows(const char *name, added_rows *added)
{
    added->backend = find_backend(name, strlen(name));
    if (!added->backend) {
        return weft_fail(WEFT_DEVICE, "backend_add_rows: '%s': there is no such backend",
                         weft_printable(name));
    }
    added->next = registry.rows;
    registry.rows = added;
    weft_status status = sort_again(added->backend);
    if (status != WEFT_OK) {
        registry.rows = added->next;
    }
    return status;
}

weft_status weft_backend_add_rows(const char *backend, const weft_kernel_row *rows, int n)
{
    weft_status status = check_rows(rows, n);
    if (status != WEFT_OK || n <= 0) {
        return status;
    }
    added_rows *added = weft_calloc(1, sizeof *added);
    status = added ? weft__evaluation_begin() : weft__out_of_memory("backend_add_rows", NULL);
    if (status != WEFT_OK) {
        weft_free(added);
        return status;
    }
    *added = (added_rows){.rows = rows, .n = n};
    pthread_mutex_lock(&registry.lock);
    status = add_rows(backend, added);
    pthread_mutex_unlock(&registry.lock);
    weft__evaluation_leave();
    weft__evaluation_end();
    if (status != WEFT_OK) {
        weft_free(added);
    }
    return status;
}

/* ---- devices -------------------------------------------------------------------------------- */

static void write_name(char *out, size_t size, const weft_backend *backend, int index)
{
    snprintf(out, size, index ? "%s:%d" : "%s", backend->name, index);
}

/* With no devices at all, the backend's own functions report the reason. */
static weft_status check_index(const weft_backend *backend, int index)
{
    int count = backend->count ? backend->count() : INT_MAX;
    return index < count || count <= 0
               ? WEFT_OK
               : weft_fail(WEFT_DEVICE, "device: %s:%d: expected an index below %d", backend->name,
                           index, count);
}

static atomic_int n_queueing; /* open devices that queue work; none is closed */

bool weft__several_queue(void)
{
    return atomic_load_explicit(&n_queueing, memory_order_relaxed) > 1;
}

static weft_device *open_device(const weft_backend *backend, int index)
{
    if (check_index(backend, index) != WEFT_OK) {
        return NULL;
    }
    weft_device *d = weft_calloc(1, sizeof *d);
    if (!d) {
        weft__out_of_memory("device", NULL);
        return NULL;
    }
    d->backend = backend;
    pthread_mutex_init(&d->turn, NULL);
    write_name(d->name, sizeof d->name, backend, index);
    d->rows = sorted_rows(backend, &d->n_rows);
    if (!d->rows) {
        weft__out_of_memory("device", NULL);
        weft_free(d);
        return NULL;
    }
    bool opened = backend->open(index, &d->state) == WEFT_OK;
    if (!opened || (backend->check && backend->check(d) != WEFT_OK)) {
        if (opened && backend->close) {
            backend->close(d->state);
        }
        weft_free(d->rows);
        weft_free(d);
        return NULL;
    }
    d->next = registry.devices;
    registry.devices = d;
    atomic_fetch_add(&n_queueing, backend->mark != NULL);
    return d;
}

static weft_device *find_or_open(const weft_backend *backend, int index)
{
    char name[64];
    write_name(name, sizeof name, backend, index);
    for (weft_device *d = registry.devices; d; d = d->next) {
        if (strcmp(d->name, name) == 0) {
            return d;
        }
    }
    return open_device(backend, index);
}

/* Splits "vulkan:1" into the backend and the index. NULL, with a message, if there is no such
 * backend. */
static const weft_backend *read_name(const char *name, int *index)
{
    const char *colon = strchr(name, ':');
    size_t length = colon ? (size_t)(colon - name) : strlen(name);
    char *end = NULL;
    long number = colon ? strtol(colon + 1, &end, 10) : 0;
    bool numbered = !colon || (end != colon + 1 && *end == '\0' && number >= 0 && number < 1024);
    const weft_backend *backend = find_backend(name, length);
    *index = (int)number;
    if (backend && numbered) {
        return backend;
    }
    char known[256] = "";
    for (int i = 0; i < backend_count(); i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", backend_at(i)->name);
    }
    weft_fail(WEFT_DEVICE, "device: '%s': expected one of %s, or NAME:INDEX", weft_printable(name),
              known);
    return NULL;
}

weft_device *weft_device_get(const char *name)
{
    int index;
    pthread_mutex_lock(&registry.lock);
    const weft_backend *backend = read_name(name, &index);
    weft_device *d = backend ? find_or_open(backend, index) : NULL;
    pthread_mutex_unlock(&registry.lock);
    return d;
}

/* Appends the device with the name, of `length` bytes. */
static weft_status add_device(const char *name, size_t length, weft_device **out, int most, int *n)
{
    char one[64];
    snprintf(one, sizeof one, "%.*s", (int)(length < sizeof one ? length : sizeof one - 1), name);
    weft_device *device = weft_device_get(one);
    if (!device) {
        return WEFT_DEVICE;
    }
    for (int i = 0; i < *n; i++) {
        if (out[i] == device) {
            return weft_fail(WEFT_INVALID, "device: '%s' is listed twice", weft_printable(one));
        }
    }
    if (*n == most) {
        return weft_fail(WEFT_INVALID, "device: expected at most %d names", most);
    }
    out[(*n)++] = device;
    return WEFT_OK;
}

weft_status weft_devices_get(const char *names, weft_device **out, int most, int *n)
{
    const char *at = names;
    *n = 0;
    while (true) {
        const size_t length = strcspn(at, ",");
        const weft_status status = add_device(at, length, out, most, n);
        if (status != WEFT_OK || at[length] == '\0') {
            return status;
        }
        at += length + 1;
    }
}

weft_status weft_device_traits_of(const char *name, weft_device_traits *out)
{
    int index;
    *out = (weft_device_traits){0};
    pthread_mutex_lock(&registry.lock);
    const weft_backend *backend = read_name(name, &index);
    weft_status status = backend ? check_index(backend, index) : WEFT_DEVICE;
    for (int b = 0; status == WEFT_OK && b < weft__backend_count; b++) {
        if (weft__backends[b] == backend) {
            status = weft__backend_traits[b](index, out);
        }
    }
    pthread_mutex_unlock(&registry.lock);
    return status;
}

bool weft_device_at(int i, char *name, size_t size)
{
    bool found = false;
    pthread_mutex_lock(&registry.lock);
    for (int b = 0; b < backend_count() && !found; b++) {
        const weft_backend *backend = backend_at(b);
        int present = backend->count ? backend->count() : 1;
        int n = present > 0 ? present : 1;
        found = i >= 0 && i < n;
        if (found) {
            write_name(name, size, backend, i);
        }
        i -= n;
    }
    pthread_mutex_unlock(&registry.lock);
    return found;
}

const char *weft_device_name(const weft_device *device)
{
    return device->name;
}

const char *weft_device_description(const weft_device *device)
{
    const weft_backend *b = device->backend;
    return b->describe ? b->describe(device->state) : "";
}

char *weft_device_inspect(weft_device *device)
{
    for (int b = 0; b < weft__backend_count; b++) {
        if (weft__backends[b] == device->backend && weft__backend_inspect[b]) {
            return weft__backend_inspect[b](device);
        }
    }
    weft_fail(WEFT_UNSUPPORTED, "%s: its backend has no report", device->name);
    return NULL;
}

int64_t weft_device_memory(const weft_device *device)
{
    const weft_backend *b = device->backend;
    return b->memory ? b->memory(device->state) : 0;
}

bool weft_device_flushes_subnormals(const weft_device *device)
{
    const weft_backend *b = device->backend;
    return b->flushes_subnormals && b->flushes_subnormals(device->state);
}

weft_dtype weft_device_matrix_dtype(const weft_device *device)
{
    const weft_backend *b = device->backend;
    return b->matrix_dtype ? b->matrix_dtype(device->state) : WEFT_FLOAT32;
}

void *weft_device_state(const weft_device *device)
{
    return device->state;
}

weft_device *weft_default_device(void)
{
    if (!thread_device) {
        thread_device = weft_device_get(weft__backends[0]->name);
    }
    return thread_device;
}

void weft_set_default_device(weft_device *device)
{
    thread_device = device;
}
