/* backends/vulkan/stream.h -- work recorded, submitted and waited for.
 *
 * One queue, a ring of command buffers, one timeline semaphore. Commands run in the order in which
 * they were recorded wherever data flows between them; a barrier stands only there. */
#ifndef BACKENDS_VULKAN_STREAM_H
#define BACKENDS_VULKAN_STREAM_H

#include <pthread.h>

#include "backends/vulkan/memory.h"
#include "backends/vulkan/profile.h"

enum {
    WEFT__VULKAN_SLOTS = 8,           /* command buffers in flight */
    WEFT__VULKAN_SLOT_COMMANDS = 128, /* recorded before a submission */
    WEFT__VULKAN_FIRST_COMMANDS = 16, /* after a wait: the device starts early */
    WEFT__VULKAN_RECORDS = 64 << 10,  /* bytes of argument records a slot */
    WEFT__VULKAN_STAGE = 4 << 20,     /* bytes of staging a slot */
    WEFT__VULKAN_FAULTS = 64          /* kinds of bad input between two waits */
};

/* An array's memory. `written` and `read` are the epochs (stretches between barriers) in which the
 * device last did so; `value` and `filled` the timeline's values after which it is idle, and after
 * which its last write is done. */
typedef struct weft__vulkan_buffer {
    weft__vulkan_span span;
    uint64_t written, read, value, filled;
} weft__vulkan_buffer;

struct weft__vulkan_slot {
    VkCommandPool pool;
    VkCommandBuffer commands;
    uint64_t value; /* of the timeline when its last submission is done */
    int n_commands;
    weft__vulkan_span records, staging;
    VkDeviceSize records_used, staging_used;
    weft__vulkan_stamps stamps;
};

typedef struct weft__vulkan_fault_kind {
    const char *format, *op;
    int64_t limit;
} weft__vulkan_fault_kind;

typedef struct weft__vulkan_stream {
    pthread_mutex_t lock;
    VkQueue queue;
    VkSemaphore timeline;
    uint64_t submitted; /* the timeline's value of the last submission */
    uint64_t epoch;     /* grows with each barrier */
    weft__vulkan_slot slots[WEFT__VULKAN_SLOTS];
    int current;
    bool recording; /* the current slot's command buffer is open */
    bool fresh;     /* nothing has been submitted since the last wait */
    bool copies;    /* there are copies since the last barrier, or the next command is one */
    bool lost;
    VkPipeline bound;
    const char *last_op;
    const void *last_call, *last_out; /* of the last launch; NULL after a wait or a copy */
    weft__vulkan_span readback;
    weft__vulkan_span fault;
    weft__vulkan_fault_kind faults[WEFT__VULKAN_FAULTS];
    int n_faults;
    struct {
        int64_t commands, on_cores, barriers, submissions, waits;
    } counts;
} weft__vulkan_stream;

weft_status weft__vulkan_stream_open(weft__vulkan_device *d);
void weft__vulkan_stream_close(weft__vulkan_device *d);

/* The functions below are called with the stream's lock held. */

/* The slot that is being recorded; NULL with a message when the device is lost. */
weft__vulkan_slot *weft__vulkan_slot_open(weft__vulkan_device *d);

/* A barrier, if what is about to be done must wait for what was recorded. */
void weft__vulkan_order(weft__vulkan_device *d, weft__vulkan_buffer *const *reads, int n_reads,
                        weft__vulkan_buffer *const *writes, int n_writes);

/* Notes what the command just recorded reads and writes. */
void weft__vulkan_mark(weft__vulkan_device *d, weft__vulkan_buffer *const *reads, int n_reads,
                       weft__vulkan_buffer *const *writes, int n_writes);

/* Counts the command just recorded, and submits when there are enough. */
weft_status weft__vulkan_recorded(weft__vulkan_device *d);

weft_status weft__vulkan_submit(weft__vulkan_device *d);
weft_status weft__vulkan_wait_for(weft__vulkan_device *d, uint64_t value);

/* Whether the device has done all that was recorded for the buffer. */
bool weft__vulkan_idle(weft__vulkan_device *d, const weft__vulkan_buffer *b);

/* Submits and waits for everything; fails with what the validation layer found. */
weft_status weft__vulkan_finish(weft__vulkan_device *d);

/* The same, and bad input that shaders have met: for the evaluation that submitted them. */
weft_status weft__vulkan_finish_all(weft__vulkan_device *d);

/* Called without the lock. Submits what is recorded: the timeline's value at its end. And waits for
 * that, fails as weft__vulkan_finish_all, while others may record. */
weft_status weft__vulkan_mark_end(weft__vulkan_device *d, uint64_t *value);
weft_status weft__vulkan_finish_until(weft__vulkan_device *d, uint64_t value);

#endif
