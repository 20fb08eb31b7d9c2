/* backends/vulkan/profile.h -- measures device time by op, with a timestamp after each command
 * while profiling is on, and always the time of each long submission. If commands overlap, each
 * counts the time that it added. */
#ifndef BACKENDS_VULKAN_PROFILE_H
#define BACKENDS_VULKAN_PROFILE_H

#include "backends/vulkan/loader.h"
#include "weft/backend.h"

enum { WEFT__VULKAN_PROFILED_OPS = 512 };

typedef struct weft__vulkan_device weft__vulkan_device;
typedef struct weft__vulkan_slot weft__vulkan_slot;

/* Of a slot. */
typedef struct weft__vulkan_stamps {
    VkQueryPool queries;
    const char **ops;      /* per command */
    const char **variants; /* per command: weft_kernel_variant */
    int *launches;         /* per command */
    int n;                 /* number of timestamps written */
    bool each;             /* after each command; else only before the first and after the last */
    int64_t submitted;     /* on the host's clock, while a trace is recorded; else 0 */
} weft__vulkan_stamps;

/* Per device; under the stream's lock. */
typedef struct weft__vulkan_profile {
    bool on;
    /* Added to the device's clock, it gives the host's. It is the largest lower bound so far, so
     * spans begin too early by the shortest time from a submission to its start. 0: unknown. */
    int64_t offset;
    int n;
    weft_op_time times[WEFT__VULKAN_PROFILED_OPS];
} weft__vulkan_profile;

void weft__vulkan_profile_begin(weft__vulkan_device *d, weft__vulkan_slot *slot);
/* Measures what is recorded in the slot from now on, unless it is measured already. */
void weft__vulkan_profile_start(weft__vulkan_device *d, weft__vulkan_slot *slot);
/* Called at the end of the slot's commands. */
void weft__vulkan_profile_submit(weft__vulkan_device *d, weft__vulkan_slot *slot);
/* Called after a command that consists of `launches` of the op. */
void weft__vulkan_profile_mark(weft__vulkan_device *d, weft__vulkan_slot *slot, const char *op,
                               const char *variant, int launches);
/* Called once the slot's commands have run. */
void weft__vulkan_profile_collect(weft__vulkan_device *d, weft__vulkan_slot *slot);
void weft__vulkan_profile_close(weft__vulkan_device *d, weft__vulkan_slot *slot);

/* For the backend's table. */
void weft__vulkan_profile_set(void *state, bool on);
int weft__vulkan_profile_read(void *state, weft_op_time *out, int max);
int weft__vulkan_profile_counters(void *state, weft_counter *out, int max);

#endif
