/* backends/vulkan/batch.h -- launches that wait to become one command.
 *
 * Launches between two barriers do not depend on each other, so those of the same pipeline are
 * recorded as one dispatch when the next barrier or the end of the command buffer comes. The
 * arguments of a batch are records, of which workgroups with y = i use number i
 * (shaders/batch.glsl).
 */
#ifndef BACKENDS_VULKAN_BATCH_H
#define BACKENDS_VULKAN_BATCH_H

#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/loader.h"

enum {
    WEFT__VULKAN_BATCHES = 8,  /* pipelines with waiting launches */
    WEFT__VULKAN_WAITING = 512 /* waiting launches */
};

typedef struct weft__vulkan_device weft__vulkan_device;
typedef struct weft__vulkan_pipeline weft__vulkan_pipeline;

/* The launches of one pipeline. */
typedef struct weft__vulkan_batch {
    weft__vulkan_pipeline *pipeline;
    VkPipeline handle; /* for one launch, or for several */
    const char *op, *variant;
    uint32_t push_bytes;
    int n;
    uint32_t most_groups; /* of a launch */
} weft__vulkan_batch;

typedef struct weft__vulkan_waiting {
    int batch;
    unsigned char push[WEFT__VULKAN_MAX_PUSH];
} weft__vulkan_waiting;

/* Of a stream. */
typedef struct weft__vulkan_batches {
    int n, n_waiting;
    weft__vulkan_batch all[WEFT__VULKAN_BATCHES];
    weft__vulkan_waiting waiting[WEFT__VULKAN_WAITING];
    uint32_t bytes; /* of the records that the batches will need */
} weft__vulkan_batches;

/* Called with the stream's lock held. weft__vulkan_batch_takes: whether the launch can wait.
 * weft__vulkan_batch_add: adds such a launch, which is already ordered; `pipeline` is its pipeline,
 * which is compiled.
 * weft__vulkan_batch_record: records all waiting launches; the slot is open if there are any. */
bool weft__vulkan_batch_takes(const weft__vulkan_device *d, const weft__vulkan_launch *launch);
weft_status weft__vulkan_batch_add(weft__vulkan_device *d, const weft__vulkan_launch *launch,
                                   weft__vulkan_pipeline *pipeline, const char *op);
void weft__vulkan_batch_record(weft__vulkan_device *d);

/* For tests, which set it while nothing runs: records each launch by itself. */
extern bool weft__vulkan_unbatched;

#endif
