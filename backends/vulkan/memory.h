/* backends/vulkan/memory.h -- device memory, allocated in large blocks and handed out in parts.
 *
 * The core caches freed buffers by size, so allocation is rare: a list of free ranges by address in
 * each block is sufficient. Empty blocks are kept up to a share of all, since a driver takes
 * milliseconds to allocate a gigabyte, and freed when an allocation would fail.
 */
#ifndef BACKENDS_VULKAN_MEMORY_H
#define BACKENDS_VULKAN_MEMORY_H

#include <pthread.h>

#include "backends/vulkan/loader.h"

typedef struct weft__vulkan_device weft__vulkan_device;
typedef struct weft__vulkan_block weft__vulkan_block;

/* A part of a block, with its address. */
typedef struct weft__vulkan_span {
    weft__vulkan_block *block;
    VkBuffer buffer;
    VkDeviceSize offset; /* within the buffer */
    VkDeviceSize bytes;
    uint64_t address;
    char *host; /* mapped, or NULL */
} weft__vulkan_span;

typedef enum weft__vulkan_pool {
    WEFT__VULKAN_ARRAYS, /* the device's own memory */
    WEFT__VULKAN_UPLOAD, /* written by the host, read by the device; in device memory if possible */
    WEFT__VULKAN_STAGING,  /* host memory from which data is copied to device memory */
    WEFT__VULKAN_READBACK, /* host memory that the host reads fast */
    WEFT__VULKAN_PINNED,   /* the same, for arrays that stay there */
    WEFT__VULKAN_POOL_COUNT
} weft__vulkan_pool;

typedef struct weft__vulkan_memory {
    pthread_mutex_t lock;
    VkPhysicalDeviceMemoryProperties types;
    uint32_t type[WEFT__VULKAN_POOL_COUNT];
    VkDeviceSize block_bytes;
    weft__vulkan_block *blocks; /* newest first */
    VkDeviceSize held;          /* bytes of the arrays' heap held by this process */
    VkDeviceSize empty;         /* the part of `held` in blocks without spans */
    bool host_reads;            /* arrays are in memory that the host caches, so they can be read in
                                 * place */
    bool host_writes;           /* arrays are mapped, but slow to read */
} weft__vulkan_memory;

weft_status weft__vulkan_memory_open(weft__vulkan_device *d);
void weft__vulkan_memory_close(weft__vulkan_device *d);

/* False, with a message that names sizes, if memory is insufficient. Aligned to 256 bytes. Any
 * thread may call it. */
bool weft__vulkan_span_new(weft__vulkan_device *d, weft__vulkan_pool pool, VkDeviceSize bytes,
                           weft__vulkan_span *out);
void weft__vulkan_span_free(weft__vulkan_device *d, const weft__vulkan_span *span);

/* The span of `bytes` at this host address; false: the pool has none. */
bool weft__vulkan_span_at(weft__vulkan_device *d, weft__vulkan_pool pool, const char *host,
                          VkDeviceSize bytes, weft__vulkan_span *out);

/* Bytes of the heap for arrays, and how many are free (all, without the budget extension). */
void weft__vulkan_heap(const weft__vulkan_device *d, VkDeviceSize *size, VkDeviceSize *available);

#endif
