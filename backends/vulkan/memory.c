/* backends/vulkan/memory.c -- allocates device memory in blocks, and parts of them. */
#include "backends/vulkan/memory.h"

#include <stdio.h>

#include "backends/vulkan/device.h"
#include "weft/memory.h"

enum {
    ALIGNMENT = 256,
    EMPTY = 4 /* empty blocks: at most 1/4 of the bytes of all blocks of arrays */
};

static const VkDeviceSize SMALL_BLOCK = (VkDeviceSize)16 << 20;
static const VkDeviceSize LARGE_BLOCK = (VkDeviceSize)128 << 20;

/* A range of free bytes of a block, in address order. */
typedef struct gap {
    struct gap *next;
    VkDeviceSize offset, bytes;
} gap;

struct weft__vulkan_block {
    weft__vulkan_block *next;
    weft__vulkan_pool pool;
    VkDeviceMemory memory;
    VkBuffer buffer;
    VkDeviceSize bytes, used;
    uint64_t address;
    char *host;
    gap *gaps;
};

/* ---- memory types --------------------------------------------------------------------------- */

/* The first memory type with all `wanted` properties, in the largest heap; UINT32_MAX: none. */
static uint32_t find_type(const VkPhysicalDeviceMemoryProperties *p, VkMemoryPropertyFlags wanted,
                          VkMemoryPropertyFlags unwanted)
{
    uint32_t best = UINT32_MAX;
    VkDeviceSize size = 0;
    for (uint32_t i = 0; i < p->memoryTypeCount; i++) {
        VkMemoryPropertyFlags flags = p->memoryTypes[i].propertyFlags;
        VkDeviceSize heap = p->memoryHeaps[p->memoryTypes[i].heapIndex].size;
        if ((flags & wanted) == wanted && !(flags & unwanted) && heap > size) {
            best = i;
            size = heap;
        }
    }
    return best;
}

static uint32_t first_of(uint32_t a, uint32_t b, uint32_t c)
{
    return a != UINT32_MAX ? a : b != UINT32_MAX ? b : c;
}

static void choose_types(weft__vulkan_device *d)
{
    const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                                mapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                         VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                                cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    weft__vulkan_memory *m = &d->memory;
    const VkPhysicalDeviceMemoryProperties *p = &m->types;
    const bool host = d->physical.used[WEFT__VULKAN_HOST];
    uint32_t any = find_type(p, mapped, 0);
    uint32_t near = find_type(p, mapped | local, 0);
    uint32_t plain = find_type(p, local, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT);
    m->type[WEFT__VULKAN_ARRAYS] =
        host ? first_of(find_type(p, mapped | local | cached, 0), near, any)
             : first_of(plain, find_type(p, local, 0), any);
    m->type[WEFT__VULKAN_UPLOAD] = first_of(near, any, any);
    m->type[WEFT__VULKAN_STAGING] =
        first_of(find_type(p, mapped, local | cached), find_type(p, mapped, local), any);
    m->type[WEFT__VULKAN_READBACK] =
        first_of(find_type(p, mapped | cached, local), find_type(p, mapped | cached, 0), any);
    VkMemoryPropertyFlags flags = p->memoryTypes[m->type[WEFT__VULKAN_ARRAYS]].propertyFlags;
    m->type[WEFT__VULKAN_PINNED] = m->type[WEFT__VULKAN_READBACK];
    m->host_reads = host && (flags & (mapped | cached)) == (mapped | cached);
    m->host_writes = host && (flags & mapped) == mapped;
}

static uint32_t arrays_heap(const weft__vulkan_memory *m)
{
    return m->types.memoryTypes[m->type[WEFT__VULKAN_ARRAYS]].heapIndex;
}

weft_status weft__vulkan_memory_open(weft__vulkan_device *d)
{
    VkPhysicalDeviceMemoryProperties2 p = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    weft__vulkan_instance_get()->GetPhysicalDeviceMemoryProperties2(d->physical.handle, &p);
    weft__vulkan_memory *m = &d->memory;
    m->types = p.memoryProperties;
    pthread_mutex_init(&m->lock, NULL);
    choose_types(d);
    bool large = m->types.memoryHeaps[arrays_heap(m)].size >= (VkDeviceSize)4 << 30;
    m->block_bytes = large ? LARGE_BLOCK : SMALL_BLOCK;
    return WEFT_OK;
}

/* The free bytes of a heap; all, without the budget extension. */
static VkDeviceSize free_bytes(const weft__vulkan_physical *physical, uint32_t heap)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    const bool known = physical->used[WEFT__VULKAN_BUDGET];
    VkPhysicalDeviceMemoryProperties2 p = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
        .pNext = known ? &budget : NULL};
    weft__vulkan_instance_get()->GetPhysicalDeviceMemoryProperties2(physical->handle, &p);
    const VkDeviceSize most = budget.heapBudget[heap], used = budget.heapUsage[heap];
    return !known ? p.memoryProperties.memoryHeaps[heap].size : most > used ? most - used : 0;
}

int64_t weft__vulkan_free_memory(const weft__vulkan_physical *physical)
{
    VkPhysicalDeviceMemoryProperties2 p = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    weft__vulkan_instance_get()->GetPhysicalDeviceMemoryProperties2(physical->handle, &p);
    const uint32_t local = find_type(&p.memoryProperties, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0);
    return local == UINT32_MAX
               ? 0
               : (int64_t)free_bytes(physical, p.memoryProperties.memoryTypes[local].heapIndex);
}

void weft__vulkan_heap(const weft__vulkan_device *d, VkDeviceSize *size, VkDeviceSize *available)
{
    const uint32_t heap = arrays_heap(&d->memory);
    *size = d->memory.types.memoryHeaps[heap].size;
    *available = free_bytes(&d->physical, heap);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static void block_free(weft__vulkan_device *d, weft__vulkan_block *b)
{
    if (b->buffer) {
        d->call.DestroyBuffer(d->handle, b->buffer, NULL);
    }
    if (b->memory) {
        d->call.FreeMemory(d->handle, b->memory, NULL);
        if (b->pool == WEFT__VULKAN_ARRAYS) {
            d->memory.held -= b->bytes;
        }
    }
    while (b->gaps) {
        gap *next = b->gaps->next;
        weft_free(b->gaps);
        b->gaps = next;
    }
    weft_free(b);
}

static VkResult block_buffer(weft__vulkan_device *d, weft__vulkan_block *b, VkDeviceSize *bytes)
{
    const weft__vulkan_physical *p = &d->physical;
    const uint32_t families[] = {p->queue_family, p->transfer_family};
    const bool shared = p->used[WEFT__VULKAN_TRANSFER];
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = b->bytes,
        .sharingMode = shared ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
        .queueFamilyIndexCount = shared ? 2 : 0,
        .pQueueFamilyIndices = families,
        .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                 VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT,
    };
    VkResult result = d->call.CreateBuffer(d->handle, &info, NULL, &b->buffer);
    if (result == VK_SUCCESS) {
        VkMemoryRequirements needs;
        d->call.GetBufferMemoryRequirements(d->handle, b->buffer, &needs);
        *bytes = needs.size;
        if (!(needs.memoryTypeBits >> d->memory.type[b->pool] & 1)) {
            result = VK_ERROR_FEATURE_NOT_PRESENT;
        }
    }
    return result;
}

static VkResult block_memory(weft__vulkan_device *d, weft__vulkan_block *b, VkDeviceSize bytes)
{
    uint32_t type = d->memory.type[b->pool];
    const VkMemoryAllocateFlagsInfo flags = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
    };
    const VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = &flags,
        .allocationSize = bytes,
        .memoryTypeIndex = type,
    };
    VkResult result = d->call.AllocateMemory(d->handle, &info, NULL, &b->memory);
    if (result != VK_SUCCESS) {
        b->memory = VK_NULL_HANDLE;
        return result;
    }
    if (b->pool == WEFT__VULKAN_ARRAYS) {
        d->memory.held += b->bytes;
    }
    result = d->call.BindBufferMemory(d->handle, b->buffer, b->memory, 0);
    bool maps = b->pool != WEFT__VULKAN_ARRAYS || d->memory.host_writes;
    if (result == VK_SUCCESS && maps) {
        void *host = NULL;
        result = d->call.MapMemory(d->handle, b->memory, 0, VK_WHOLE_SIZE, 0, &host);
        b->host = host;
    }
    return result;
}

/* Fails with the bytes that this process holds and those that the device reports as free. */
static void fail_full(const weft__vulkan_device *d, VkDeviceSize bytes)
{
    VkDeviceSize size, available;
    weft__vulkan_heap(d, &size, &available);
    weft_fail(WEFT_MEMORY,
              "vulkan: out of device memory: expected %llu bytes more, got %llu held by this "
              "process and %llu available of %llu; at most %llu in one piece",
              (unsigned long long)bytes, (unsigned long long)d->memory.held,
              (unsigned long long)available, (unsigned long long)size,
              (unsigned long long)d->physical.largest_allocation);
}

static void block_remove(weft__vulkan_device *d, weft__vulkan_block *b)
{
    weft__vulkan_block **at = &d->memory.blocks;
    while (*at != b) {
        at = &(*at)->next;
    }
    *at = b->next;
    block_free(d, b);
}

/* Frees empty blocks: all of them, or until they are a share of all blocks. */
static void free_empty(weft__vulkan_device *d, bool all)
{
    weft__vulkan_memory *m = &d->memory;
    for (weft__vulkan_block *b = m->blocks, *next; b; b = next) {
        if (m->empty <= (all ? 0 : m->held / EMPTY)) {
            return;
        }
        next = b->next;
        if (b->used == 0 && b->pool == WEFT__VULKAN_ARRAYS) {
            m->empty -= b->bytes;
            block_remove(d, b);
        }
    }
}

/* NULL without a message: there is no memory. */
static weft__vulkan_block *block_try(weft__vulkan_device *d, weft__vulkan_pool pool,
                                     VkDeviceSize bytes)
{
    VkDeviceSize size, available, needed = bytes;
    weft__vulkan_heap(d, &size, &available);
    const bool room = bytes <= d->physical.largest_allocation &&
                      (pool != WEFT__VULKAN_ARRAYS || bytes <= available);
    weft__vulkan_block *b = room ? weft_calloc(1, sizeof *b) : NULL;
    gap *whole = b ? weft_malloc(sizeof *whole) : NULL;
    if (!whole) {
        weft_free(b);
        return NULL;
    }
    *whole = (gap){.bytes = bytes};
    *b = (weft__vulkan_block){.pool = pool, .bytes = bytes, .gaps = whole};
    VkResult result = block_buffer(d, b, &needed);
    result = result == VK_SUCCESS ? block_memory(d, b, needed) : result;
    if (result != VK_SUCCESS) {
        block_free(d, b);
        return NULL;
    }
    const VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                            .buffer = b->buffer};
    b->address = d->call.GetBufferDeviceAddress(d->handle, &info);
    b->next = d->memory.blocks;
    d->memory.blocks = b;
    return b;
}

static weft__vulkan_block *block_new(weft__vulkan_device *d, weft__vulkan_pool pool,
                                     VkDeviceSize bytes)
{
    weft__vulkan_block *b = block_try(d, pool, bytes);
    if (!b && d->memory.empty > 0) {
        free_empty(d, true);
        b = block_try(d, pool, bytes);
    }
    if (!b) {
        fail_full(d, bytes);
    }
    return b;
}

void weft__vulkan_memory_close(weft__vulkan_device *d)
{
    while (d->memory.blocks) {
        weft__vulkan_block *next = d->memory.blocks->next;
        block_free(d, d->memory.blocks);
        d->memory.blocks = next;
    }
    pthread_mutex_destroy(&d->memory.lock);
}

/* ---- parts of blocks ------------------------------------------------------------------------- */

static bool take(weft__vulkan_block *b, VkDeviceSize bytes, weft__vulkan_span *out)
{
    gap **best = NULL;
    for (gap **at = &b->gaps; *at; at = &(*at)->next) {
        if ((*at)->bytes >= bytes && (!best || (*at)->bytes < (*best)->bytes)) {
            best = at;
        }
    }
    if (!best) {
        return false;
    }
    gap *g = *best;
    *out = (weft__vulkan_span){
        .block = b,
        .buffer = b->buffer,
        .offset = g->offset,
        .bytes = bytes,
        .address = b->address + g->offset,
        .host = b->host ? b->host + g->offset : NULL,
    };
    g->offset += bytes;
    g->bytes -= bytes;
    if (g->bytes == 0) {
        *best = g->next;
        weft_free(g);
    }
    b->used += bytes;
    return true;
}

/* Frees bytes and merges them with adjacent gaps. If a gap cannot be allocated, the bytes stay
 * unused until the whole block is free and removed. */
static void put_back(weft__vulkan_block *b, VkDeviceSize offset, VkDeviceSize bytes)
{
    gap *before = NULL, *after = b->gaps;
    while (after && after->offset < offset) {
        before = after;
        after = after->next;
    }
    b->used -= bytes;
    if (before && before->offset + before->bytes == offset) {
        before->bytes += bytes;
    } else {
        gap *g = weft_malloc(sizeof *g);
        if (!g) {
            return;
        }
        *g = (gap){.next = after, .offset = offset, .bytes = bytes};
        *(before ? &before->next : &b->gaps) = g;
        before = g;
    }
    if (after && before->offset + before->bytes == after->offset) {
        before->bytes += after->bytes;
        before->next = after->next;
        weft_free(after);
    }
}

/* A block of about this size, so that small spans do not take the blocks of large arrays. */
static bool suits(const weft__vulkan_memory *m, const weft__vulkan_block *b, VkDeviceSize bytes)
{
    return b->used > 0 || b->bytes <= bytes + bytes / EMPTY ||
           (b->bytes == m->block_bytes && bytes <= m->block_bytes / 4);
}

static bool take_from(weft__vulkan_memory *m, weft__vulkan_block *b, VkDeviceSize bytes,
                      weft__vulkan_span *out)
{
    const bool empty = b->used == 0 && b->pool == WEFT__VULKAN_ARRAYS;
    const bool taken = suits(m, b, bytes) && take(b, bytes, out);
    m->empty -= taken && empty ? b->bytes : 0;
    return taken;
}

bool weft__vulkan_span_new(weft__vulkan_device *d, weft__vulkan_pool pool, VkDeviceSize bytes,
                           weft__vulkan_span *out)
{
    weft__vulkan_memory *m = &d->memory;
    const VkDeviceSize rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    bool found = false;
    pthread_mutex_lock(&m->lock);
    for (weft__vulkan_block *b = m->blocks; b && !found; b = b->next) {
        found = b->pool == pool && take_from(m, b, rounded, out);
    }
    if (!found) {
        bool shared = (pool == WEFT__VULKAN_ARRAYS || pool == WEFT__VULKAN_PINNED) &&
                      rounded <= m->block_bytes / 4;
        weft__vulkan_block *b = shared ? block_new(d, pool, m->block_bytes) : NULL;
        b = b ? b : block_new(d, pool, rounded);
        found = b && take(b, rounded, out);
    }
    pthread_mutex_unlock(&m->lock);
    return found;
}

bool weft__vulkan_span_at(weft__vulkan_device *d, weft__vulkan_pool pool, const char *host,
                          VkDeviceSize bytes, weft__vulkan_span *out)
{
    weft__vulkan_memory *m = &d->memory;
    bool found = false;
    pthread_mutex_lock(&m->lock);
    for (weft__vulkan_block *b = m->blocks; b && !found; b = b->next) {
        found = b->pool == pool && host >= b->host && host + bytes <= b->host + b->bytes;
        if (found) {
            const VkDeviceSize offset = (VkDeviceSize)(host - b->host);
            *out = (weft__vulkan_span){
                .block = b,
                .buffer = b->buffer,
                .offset = offset,
                .bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT,
                .address = b->address + offset,
                .host = b->host + offset,
            };
        }
    }
    pthread_mutex_unlock(&m->lock);
    return found;
}

void weft__vulkan_span_free(weft__vulkan_device *d, const weft__vulkan_span *span)
{
    weft__vulkan_memory *m = &d->memory;
    weft__vulkan_block *b = span->block;
    if (!b) {
        return;
    }
    pthread_mutex_lock(&m->lock);
    put_back(b, span->offset, span->bytes);
    const bool whole = b->gaps && b->gaps->bytes == b->bytes; /* put_back may lose a gap */
    if (b->used == 0 && whole && b->pool == WEFT__VULKAN_ARRAYS) {
        m->empty += b->bytes; /* kept, since allocation takes milliseconds per GB */
        free_empty(d, false);
    } else if (b->used == 0) {
        block_remove(d, b);
    }
    pthread_mutex_unlock(&m->lock);
}
