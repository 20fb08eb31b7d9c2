/* weft/timeline.h -- timelines of threads, evaluations, kernels and submissions.
 *
 *     weft_device_profile(device, true);
 *     weft_timeline_start();
 *     ... // compute
 *     weft_timeline_save("trace.json"); // opens in chrome://tracing and in Perfetto
 *
 * Profiled devices (weft/backend.h) record their kernels.
 */
#ifndef WEFT_TIMELINE_H
#define WEFT_TIMELINE_H

#include "weft/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An interval of time. Spans of one thread, or of one device, are nested or disjoint. The strings
 * must stay valid until the trace is saved or stopped. */
typedef struct weft_span {
    const char *name;
    const char *category; /* such as "kernel" */
    const char *variant;  /* weft_kernel_variant; NULL: none */
    const char *device;   /* the device whose clock measured it; NULL: the calling thread */
    int64_t begin;        /* nanoseconds of CLOCK_MONOTONIC */
    int64_t duration;     /* nanoseconds */
    weft_work work;       /* zero: not counted */
} weft_span;

/* Discards recorded spans and starts recording. Keeps at most 2 million spans and counts the rest.
 */
WEFT_API void weft_timeline_start(void);
WEFT_API bool weft_timeline_is_on(void);

/* Adds a span if a trace is being recorded. Thread-safe. */
WEFT_API void weft_timeline_add(const weft_span *span) WEFT_NONNULL(1);

/* The current time on the clock of weft_span. */
WEFT_API int64_t weft_timeline_now(void);

/* The op of the kernel that the calling thread runs for a profiled device; "" outside kernels. The
 * string stays valid while the op is registered. */
WEFT_API const char *weft_timeline_kernel(void);

/* Stops recording and writes the spans as Chrome trace events, in JSON: threads under pid 1,
 * devices under pid 2, microseconds since weft_timeline_start. WEFT_INVALID if no trace is being
 * recorded; WEFT_IO; WEFT_MEMORY. */
WEFT_NODISCARD WEFT_API weft_status weft_timeline_save(const char *path);

/* Stops recording and discards the spans. */
WEFT_API void weft_timeline_stop(void);

#ifdef __cplusplus
}
#endif
#endif
