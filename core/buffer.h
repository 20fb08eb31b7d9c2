/* core/buffer.h -- memory that arrays are views of: reference counts, the cache, the counters. */
#ifndef CORE_BUFFER_H
#define CORE_BUFFER_H

#include <stdatomic.h>

#include "weft/op.h"

typedef struct weft__buffer weft__buffer;
struct weft__buffer {
    atomic_int refs; /* views in arrays and plans */
    atomic_int busy; /* plans not yet run to their end that touch it; owned buffers only */
    weft_device *device;
    void *handle; /* the backend's object */
    void *host;   /* its host address, or NULL */
    int64_t bytes;
    int64_t wired;      /* of them, locked in physical memory (core/wire.c) */
    bool owned;         /* Weft's own memory: may be written, reused, counted */
    atomic_bool failed; /* the kernel that should have filled it did not */
    uint64_t failure;   /* of a failed one: the number of the run that failed (core/eval/run.c) */

    /* Simulation while a plan is made (core/eval/plan.c), under the evaluation lock. */
    uint64_t plan;
    int plan_refs;
    weft__buffer *idle_next; /* list of the plan's idle buffers of this bucket */

    /* The tickets of the last plans that write and read it, what they were when the last reader
     * came, and whose that last plan is (core/eval/queue.c), under the evaluation lock. `many`:
     * the last reader does not run behind the one before it. */
    _Atomic uint64_t writer; /* read at any time, for messages */
    uint64_t reader, reader_before;
    bool many, many_before;
    const void *owner;

    int64_t stand_in; /* > 0: it has no memory, it stands for some in a program */

    /* What it holds, for messages about memory. */
    const char *label;
    weft_dims shape;
    weft_dtype dtype;

    void (*release)(void *context); /* of memory that is not Weft's */
    void *release_context;

    weft__buffer *previous, *next; /* list of live buffers, or of one bucket of the cache */
    weft__buffer *older, *newer;   /* the cache by age */
};

/* A buffer of at least `bytes` with one reference, from the cache or the device. The memory is
 * idle, so the host may fill it at once, or, with an owner, only that owner's plans are busy with
 * it. NULL with a message recorded when there is no memory or the limit is reached. */
weft__buffer *weft__buffer_new(weft_device *device, int64_t bytes, const void *owner,
                               const char *label, const weft_spec *spec);

/* A buffer over memory that is not Weft's. On failure the caller still owns it. */
weft__buffer *weft__buffer_foreign(weft_device *device, void *data, int64_t bytes,
                                   void (*release)(void *context), void *context);

void weft__buffer_ref(weft__buffer *b);
void weft__buffer_unref(weft__buffer *b); /* into the cache, or back to its owner */

/* From the making of a plan that touches it to the end of its run. An owned buffer may meanwhile
 * lose its last reference and wait in the cache; what is not Weft's is referenced. */
void weft__buffer_begin(weft__buffer *b);
void weft__buffer_end(weft__buffer *b);

/* Rounds a size up to its bucket: at most an eighth, or 63 bytes, are lost. */
int64_t weft__bucket_bytes(int64_t bytes);
/* The bucket of a size, from 0 to WEFT__SIZE_BUCKETS - 1; a larger bucket has a larger index. */
enum { WEFT__SIZE_BUCKETS = 512 };
int weft__bucket_index(int64_t bytes);

#endif
