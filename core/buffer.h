/* core/buffer.h -- buffers, the memory behind arrays: reference counts, the cache, the counters. */
#ifndef CORE_BUFFER_H
#define CORE_BUFFER_H

#include <stdatomic.h>

#include "weft/op.h"

typedef struct weft__buffer weft__buffer;
struct weft__buffer {
    atomic_int refs; /* references by the views of arrays and plans */
    atomic_int busy; /* unfinished plans that use it; only for owned buffers */
    weft_device *device;
    void *handle; /* the backend's handle */
    void *host;   /* its host address, or NULL */
    int64_t bytes;
    int64_t wired;      /* bytes of it that are locked in physical memory (core/wire.c) */
    bool owned;         /* Weft's own memory: it may be written, reused and is counted */
    atomic_bool failed; /* the kernel that should have filled it failed */
    uint64_t failure;   /* if `failed`: number of the run that failed (core/eval/run.c) */

    /* Simulated references while a plan is made (core/eval/plan.c), under the evaluation lock. */
    uint64_t plan;
    int plan_refs;
    weft__buffer *idle_next; /* list of the plan's idle buffers of this bucket */
    int64_t uploads; /* filled from the host beside kernels: the plan's bytes of such buffers
                      * when it became idle; 0: not filled so */

    /* Tickets of the last plans that write and read it; the reader before the last one, saved when
     * that came; and the owner of the last plan (core/eval/queue.c). Under the evaluation lock.
     * `many`: there are earlier readers that the last reader does not wait for. */
    _Atomic uint64_t writer; /* read at any time, for messages */
    uint64_t reader, reader_before;
    bool many, many_before;
    uint64_t pausing; /* ticket of the latest plan that uses it and may pause (weft_set_pause) */
    const void *owner;

    int64_t stand_in; /* > 0: a stand-in without memory, in a program */

    /* Its contents, for messages about memory. */
    const char *label;
    weft_dims shape;
    weft_dtype dtype;

    void (*release)(void *context); /* for memory that Weft does not own */
    void *release_context;

    weft__buffer *previous, *next; /* list of live buffers, or of one bucket of the cache */
    weft__buffer *older, *newer;   /* links of the cache by age */
};

/* A buffer of at least `bytes` with one reference, from the cache or the device. Nothing uses the
 * memory, so the host may fill it at once; with an owner, unfinished plans of that owner may still
 * use it. NULL with a message when out of memory or when the limit is reached. */
weft__buffer *weft__buffer_new(weft_device *device, int64_t bytes, const void *owner,
                               const char *label, const weft_spec *spec);

/* A buffer over memory that Weft does not own. On failure the caller still owns the memory. */
weft__buffer *weft__buffer_foreign(weft_device *device, void *data, int64_t bytes,
                                   void (*release)(void *context), void *context);

void weft__buffer_ref(weft__buffer *b);
void weft__buffer_unref(
    weft__buffer *b); /* moves to the cache, or returns the memory to its owner */

/* Called when a plan that uses the buffer is made, and at the end of its run. In between, an owned
 * buffer may lose its last reference and wait in the cache; other buffers are kept by a reference.
 */
void weft__buffer_begin(weft__buffer *b);
void weft__buffer_end(weft__buffer *b);

/* Rounds a size up to that of its bucket. The loss is at most an eighth, or 63 bytes. */
int64_t weft__bucket_bytes(int64_t bytes);
/* The bucket of a size, from 0 to WEFT__SIZE_BUCKETS - 1. Larger sizes have larger indices. */
enum { WEFT__SIZE_BUCKETS = 512 };
int weft__bucket_index(int64_t bytes);

/* Anonymous resident memory of the process that is not in buffers: the heap, stacks, data of
 * libraries. 0: unknown, or there are buffers on another device than the CPU. */
int64_t weft__memory_outside(void);
/* weft_memory_peak_held, and on the CPU what the process holds outside of arrays now; together at
 * most the largest resident size of the process, or weft_memory_peak_held if that is more. */
int64_t weft__memory_peak_process(void);

#endif
