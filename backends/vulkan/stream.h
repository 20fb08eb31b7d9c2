/* backends/vulkan/stream.h -- records and submits work, and waits for it.
 *
 * There is one queue, a ring of command buffers, and one timeline semaphore. Commands with
 * dependent data run in the order of recording; barriers are inserted only for those. Large data
 * comes by another queue (uploads.h).
 */
#ifndef BACKENDS_VULKAN_STREAM_H
#define BACKENDS_VULKAN_STREAM_H

#include <pthread.h>

#include "backends/vulkan/batch.h"
#include "backends/vulkan/memory.h"
#include "backends/vulkan/pace.h"
#include "backends/vulkan/profile.h"

enum {
    WEFT__VULKAN_SLOTS = 8,           /* command buffers in flight */
    WEFT__VULKAN_SLOT_COMMANDS = 128, /* commands recorded before a submission */
    WEFT__VULKAN_FIRST_COMMANDS = 16, /* the same after a wait, so that the device starts early */
    WEFT__VULKAN_RECORDS = 128 << 10, /* bytes of argument records per slot */
    WEFT__VULKAN_STAGE = 4 << 20,     /* bytes of staging memory per slot */
    WEFT__VULKAN_READBACKS = 4,       /* reads at the same time */
    WEFT__VULKAN_READ = 64 << 20,     /* most bytes that are read at a time */
    WEFT__VULKAN_FAULTS = 64          /* most kinds of invalid input between two waits */
};

/* An array's memory. `written` and `read` are the epochs (intervals between barriers) in which the
 * device last did so; `value` and `filled` are the timeline's values after which it is idle, and
 * after which its last write is complete. */
typedef struct weft__vulkan_buffer {
    weft__vulkan_span span;
    uint64_t written, read, value, filled;
} weft__vulkan_buffer;

struct weft__vulkan_slot {
    VkCommandPool pool;
    VkCommandBuffer commands;
    uint64_t value; /* of the timeline at the end of its last submission */
    int n_commands;
    uint64_t after;  /* of the uploads' timeline: it waits for that; 0: for nothing */
    uint64_t needed; /* of the timeline: where the last command ends that reads its records */
    weft__vulkan_span records, staging;
    VkDeviceSize records_used, staging_used;
    weft__vulkan_stamps stamps;
    weft__vulkan_load load;
    const char *last_op; /* of the last command */
};

/* Host memory to which arrays are copied. Its lock is taken before the stream's. */
typedef struct weft__vulkan_readback {
    pthread_mutex_t lock;
    weft__vulkan_span span;
} weft__vulkan_readback;

typedef struct weft__vulkan_fault_kind {
    const char *format, *op;
    int64_t limit;
} weft__vulkan_fault_kind;

typedef struct weft__vulkan_stream {
    pthread_mutex_t lock;
    VkQueue queue;
    VkSemaphore timeline;
    uint64_t submitted; /* the timeline's value of the last submission */
    uint64_t epoch;     /* incremented by each barrier */
    weft__vulkan_slot slots[WEFT__VULKAN_SLOTS];
    int current;
    bool recording; /* the current slot's command buffer is open */
    bool fresh;     /* nothing submitted since the last wait */
    bool copies;    /* there were copies since the last barrier, or the next command is one */
    bool lost;
    VkPipeline bound;
    const void *last_call, *last_out; /* of the last launch; NULL after a wait or a copy */
    const void *record_out; /* result of the call of the last records, which are in these slots */
    uint32_t record_slots;  /* a bit for each; other threads may submit meanwhile */
    weft__vulkan_batches batches;
    weft__vulkan_pace pace;
    weft__vulkan_readback readbacks[WEFT__VULKAN_READBACKS];
    weft__vulkan_span fault; /* the fault record; then, for each slot, the number that its last
                              * submission wrote at its end */
    weft__vulkan_fault_kind faults[WEFT__VULKAN_FAULTS];
    int n_faults;
    struct {
        int64_t launches, commands, on_cores, barriers, submissions, waits;
    } counts;
} weft__vulkan_stream;

weft_status weft__vulkan_stream_open(weft__vulkan_device *d);
void weft__vulkan_stream_close(weft__vulkan_device *d);

/* The functions below are called with the stream's lock held. */

/* The slot that is being recorded; NULL with a message if the device is lost. */
weft__vulkan_slot *weft__vulkan_slot_open(weft__vulkan_device *d);

/* Inserts a barrier if the next command must wait for recorded ones. */
void weft__vulkan_order(weft__vulkan_device *d, weft__vulkan_buffer *const *reads, int n_reads,
                        weft__vulkan_buffer *const *writes, int n_writes);

/* Records what the last command reads and writes. */
void weft__vulkan_mark(weft__vulkan_device *d, weft__vulkan_buffer *const *reads, int n_reads,
                       weft__vulkan_buffer *const *writes, int n_writes);

/* A dispatch with its pipeline, which consists of `launches` launches. */
typedef struct weft__vulkan_dispatched {
    VkPipeline pipeline;
    const void *push;
    uint32_t push_bytes, groups[3];
    int launches;
    const char *op, *variant;
} weft__vulkan_dispatched;

/* Records the dispatch in the open slot. */
void weft__vulkan_command(weft__vulkan_device *d, const weft__vulkan_dispatched *c);

/* Counts the last `commands`, and submits when there are enough. */
weft_status weft__vulkan_recorded(weft__vulkan_device *d, int commands);

/* Room for a record of `bytes` in the open slot, beside those of the waiting batches; opens the
 * next slot if necessary. NULL: out of memory. */
weft__vulkan_slot *weft__vulkan_records_reserve(weft__vulkan_device *d, uint32_t bytes);

/* Later commands wait for the upload of this number, which fills the buffer: they are not submitted
 * with those before. */
weft_status weft__vulkan_stream_after(weft__vulkan_device *d, uint64_t upload,
                                      weft__vulkan_buffer *b);

/* Create a command buffer for a queue family, with a pool of its own, and a timeline semaphore. */
VkResult weft__vulkan_commands_new(weft__vulkan_device *d, uint32_t family, VkCommandPool *pool,
                                   VkCommandBuffer *commands);
VkResult weft__vulkan_timeline_new(weft__vulkan_device *d, VkSemaphore *out);

/* For tests: the submission with this number does nothing, as if the driver had dropped it. */
extern uint64_t weft__vulkan_dropped;

weft_status weft__vulkan_submit(weft__vulkan_device *d);

/* Waits until the timeline has that value. Fails if a submission until then did not run to its end,
 * even if the driver says nothing. */
weft_status weft__vulkan_wait_for(weft__vulkan_device *d, uint64_t value);

/* Whether all recorded work on the buffer is complete. */
bool weft__vulkan_idle(weft__vulkan_device *d, const weft__vulkan_buffer *b);

/* Submits and waits for everything. Fails with messages of the validation layer, and with invalid
 * input that shaders have found: for the evaluation that submitted them. */
weft_status weft__vulkan_finish_all(weft__vulkan_device *d);

/* Called without the lock, so that other threads may record meanwhile. mark_end submits recorded
 * work and returns the timeline's value at its end. finish_until waits for that value and fails
 * like weft__vulkan_finish_all; read_until does not report invalid input. */
weft_status weft__vulkan_read_until(weft__vulkan_device *d, uint64_t value);
weft_status weft__vulkan_mark_end(weft__vulkan_device *d, uint64_t *value);
weft_status weft__vulkan_finish_until(weft__vulkan_device *d, uint64_t value);

#endif
