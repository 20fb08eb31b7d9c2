/* core/device.h -- devices: an opened backend, its kernel rows by op, and its counters. */
#ifndef CORE_DEVICE_H
#define CORE_DEVICE_H

#include <pthread.h>

#include "weft/backend.h"
#include "weft/device.h"

/* The range of a device's rows that belong to an op. */
typedef struct weft__op_rows {
    const weft_op *op;
    int first, n;
} weft__op_rows;

enum { WEFT__ROWS_FOUND = 256 };

/* The rows are read and changed under the evaluation lock. */
struct weft_device {
    const weft_backend *backend;
    void *state;
    char name[64];
    weft_counts counts;            /* under the evaluation lock */
    struct weft__profile *profile; /* NULL: not profiled. Changed only while nothing runs */
    /* If the backend has `wait`: tickets of the last plan that had the device to itself, and of the
     * last one of several devices, which shares it with others of its kind. */
    uint64_t user, sharer;
    pthread_mutex_t turn;             /* held by the thread whose kernel queues its work */
    int64_t active, peak, peak_since; /* bytes of arrays (core/buffer.c, under its lock) */
    weft_device *next;
    const weft_kernel_row **rows; /* grouped by op, best first within a group */
    int n_rows;
    const weft_kernel_row **next_rows; /* while rows are added */
    int n_next_rows;
    weft__op_rows found[WEFT__ROWS_FOUND]; /* by the op's address */
};

/* The rows for an op, best first: *n of them. Called under the evaluation lock. */
const weft_kernel_row *const *weft__device_rows(weft_device *device, const weft_op *op, int *n);

/* Whether several of the open devices queue work (weft_backend.mark). */
bool weft__several_queue(void);

/* Defined in backends/registry.c: the backends of this build; the first is the default. */
extern const weft_backend *const weft__backends[];
extern const int weft__backend_count;
/* For each of them: weft_device_traits_of, for the device that is opened with `index`. */
extern weft_status (*const weft__backend_traits[])(int index, weft_device_traits *out);
/* For each of them: weft_device_inspect; NULL: nothing to say. */
extern char *(*const weft__backend_inspect[])(weft_device *device);

#endif
