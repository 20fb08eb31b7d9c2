/* backends/vulkan/uploads.h -- copies large data to arrays beside running kernels.
 *
 * The queue of a transfer family, if there is one, copies from host memory that the device reads:
 * memory from weft__vulkan_pin, or pieces into which threads copy other data first. It waits for
 * the last kernel that uses the array's memory, and later kernels wait for it. A plan gives memory
 * back to such arrays only after some more of them (core/eval/plan.c), so that the queue is ahead.
 */
#ifndef BACKENDS_VULKAN_UPLOADS_H
#define BACKENDS_VULKAN_UPLOADS_H

#include "backends/vulkan/copiers.h"
#include "backends/vulkan/memory.h"

enum {
    WEFT__VULKAN_PIECE = 16 << 20, /* bytes of a piece */
    WEFT__VULKAN_PIECES = 16       /* copies under way */
};

typedef struct weft__vulkan_piece {
    weft__vulkan_span staging; /* none until data comes that is not pinned */
    VkCommandPool pool;
    VkCommandBuffer commands;
    uint64_t uploaded; /* of the uploads' timeline: its last copy is over */
} weft__vulkan_piece;

typedef struct weft__vulkan_uploads {
    VkQueue queue;
    uint32_t family;
    VkSemaphore timeline;
    uint64_t submitted; /* the timeline's value of the last submission */
    weft__vulkan_piece pieces[WEFT__VULKAN_PIECES];
    int next; /* the piece that was used longest ago */
    weft__vulkan_copiers copiers;
} weft__vulkan_uploads;

weft_status weft__vulkan_uploads_open(weft__vulkan_device *d);
void weft__vulkan_uploads_close(weft__vulkan_device *d);

/* For tests: smaller data is written like all other. */
extern int64_t weft__vulkan_least_upload;

/* weft_backend.pin and unpin */
void *weft__vulkan_pin(void *state, int64_t bytes);
void weft__vulkan_unpin(void *state, void *memory, int64_t bytes);

/* weft_backend.upload */
weft_status weft__vulkan_upload(void *state, void *buffer, int64_t offset, const void *from,
                                int64_t bytes);

#endif
