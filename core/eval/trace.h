/* core/eval/trace.h -- spans that evaluation records in a trace, and the kernel that a thread runs.
 */
#ifndef CORE_EVAL_TRACE_H
#define CORE_EVAL_TRACE_H

#include "weft/backend.h"
#include "weft/timeline.h"

/* weft_timeline_kernel and weft_kernel_variant of the calling thread; "" outside of kernels. */
typedef struct weft__running_kernel {
    const char *op, *variant;
} weft__running_kernel;
void weft__kernel_set(weft__running_kernel kernel);

/* Adds a span of the calling thread from `began` until now. */
void weft__trace_since(const char *name, const char *category, int64_t began);

#endif
