/* backends/vulkan/buffer.h -- memory of arrays, for the backend's table: allocating, writing,
 * reading. */
#ifndef BACKENDS_VULKAN_BUFFER_H
#define BACKENDS_VULKAN_BUFFER_H

#include "weft/backend.h"

void *weft__vulkan_allocate(void *state, int64_t bytes, void **host);
void weft__vulkan_release(void *state, void *buffer);
weft_status weft__vulkan_write(void *state, void *buffer, int64_t offset, const void *from,
                               int64_t bytes);
weft_status weft__vulkan_read(void *state, void *buffer, int64_t offset, void *to, int64_t bytes);

#endif
