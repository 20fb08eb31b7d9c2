/* core/device.h -- devices: an opened backend, its rows by op, and its counters. */
#ifndef CORE_DEVICE_H
#define CORE_DEVICE_H

#include "weft/backend.h"

struct weft_device {
    const weft_backend *backend;
    void *state;
    char name[64];
    weft_counts counts; /* under the evaluation lock */
    weft_device *next;
    const weft_kernel_row **rows; /* grouped by op, best first within a group */
};

/* The rows for an op, best first: *n of them. Called under the evaluation lock. */
const weft_kernel_row *const *weft__device_rows(weft_device *device, const weft_op *op, int *n);

/* Defined in backends/registry.c: what this build has; the first is the default. */
extern const weft_backend *const weft__backends[];
extern const int weft__backend_count;

#endif
