/* backends/vulkan/memory.h -- device memory in large blocks, handed out in pieces.
 *
 * The core keeps freed buffers by size, so pieces come and go seldom: a list of free pieces by
 * address in each block is enough. */
#ifndef BACKENDS_VULKAN_MEMORY_H
#define BACKENDS_VULKAN_MEMORY_H

#include <pthread.h>

#include "backends/vulkan/loader.h"

typedef struct weft__vulkan_device weft__vulkan_device;
typedef struct weft__vulkan_block weft__vulkan_block;

/* A piece of memory with an address. */
typedef struct weft__vulkan_span {
    weft__vulkan_block *block;
    VkBuffer buffer;
    VkDeviceSize offset; /* in the buffer */
    VkDeviceSize bytes;
    uint64_t address;
    char *host; /* mapped, or NULL */
} weft__vulkan_span;

typedef enum weft__vulkan_pool {
    WEFT__VULKAN_ARRAYS,   /* the device's own memory */
    WEFT__VULKAN_UPLOAD,   /* the host writes, the device reads: near the device when that can be */
    WEFT__VULKAN_STAGING,  /* of the host: copies into device memory start here */
    WEFT__VULKAN_READBACK, /* of the host, which reads it fast */
    WEFT__VULKAN_POOL_COUNT
} weft__vulkan_pool;

typedef struct weft__vulkan_memory {
    pthread_mutex_t lock;
    VkPhysicalDeviceMemoryProperties types;
    uint32_t type[WEFT__VULKAN_POOL_COUNT];
    VkDeviceSize block_bytes;
    weft__vulkan_block *blocks; /* newest first */
    VkDeviceSize held;          /* of the arrays' heap, by this process */
    bool host_reads;            /* arrays are in memory that the host caches: used in place */
    bool host_writes;           /* arrays are mapped, though slow to read */
} weft__vulkan_memory;

weft_status weft__vulkan_memory_open(weft__vulkan_device *d);
void weft__vulkan_memory_close(weft__vulkan_device *d);

/* False, with a message that names sizes, when there is no room. 256-byte aligned. Any thread. */
bool weft__vulkan_span_new(weft__vulkan_device *d, weft__vulkan_pool pool, VkDeviceSize bytes,
                           weft__vulkan_span *out);
void weft__vulkan_span_free(weft__vulkan_device *d, const weft__vulkan_span *span);

/* Bytes of the heap that arrays live in, and how many of them are free (all, without the budget
 * extension). */
void weft__vulkan_heap(const weft__vulkan_device *d, VkDeviceSize *size, VkDeviceSize *available);

#endif
