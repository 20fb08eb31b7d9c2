/* backends/vulkan/buffer.c -- memory of arrays: allocation, and transfers from and to the host. */
#include "backends/vulkan/buffer.h"

#include <string.h>

#include "backends/vulkan/device.h"
#include "weft/memory.h"

enum {
    MAPPED_WRITE = 1 << 20, /* largest write directly into mapped device memory */
    MAPPED_READ = 4 << 10   /* largest read from it, which is slow */
};

void *weft__vulkan_allocate(void *state, int64_t bytes, void **host)
{
    weft__vulkan_device *d = state;
    weft__vulkan_buffer *b = weft_calloc(1, sizeof *b);
    if (!b || !weft__vulkan_span_new(d, WEFT__VULKAN_ARRAYS, (VkDeviceSize)bytes, &b->span)) {
        weft_free(b);
        return NULL;
    }
    *host = d->memory.host_reads ? b->span.host : NULL;
    return b;
}

void weft__vulkan_release(void *state, void *buffer)
{
    weft__vulkan_device *d = state;
    weft__vulkan_buffer *b = buffer;
    pthread_mutex_lock(&d->stream.lock);
    if (!weft__vulkan_idle(d, b) && weft__vulkan_submit(d) == WEFT_OK) {
        (void)weft__vulkan_wait_for(d, b->value);
    }
    pthread_mutex_unlock(&d->stream.lock);
    weft__vulkan_span_free(d, &b->span);
    weft_free(b);
}

/* ---- copies, with the stream's lock held ---------------------------------------------------- */

/* Records a copy between an array and the stream's own memory. */
static weft_status record_copy(weft__vulkan_device *d, weft__vulkan_buffer *array, bool to_array,
                               const weft__vulkan_span *other, const VkBufferCopy *region)
{
    weft__vulkan_slot *slot = weft__vulkan_slot_open(d);
    if (!slot) {
        return weft_error_status();
    }
    const int reads = to_array ? 0 : 1;
    d->stream.copies = true;
    weft__vulkan_order(d, &array, reads, &array, 1 - reads);
    d->call.CmdCopyBuffer(slot->commands, to_array ? other->buffer : array->span.buffer,
                          to_array ? array->span.buffer : other->buffer, 1, region);
    slot->last_op = to_array ? "write" : "read";
    d->stream.last_call = NULL;
    d->stream.copies = true; /* that barrier came before this command */
    weft__vulkan_profile_mark(d, slot, slot->last_op, weft_kernel_variant(), 1);
    weft__vulkan_mark(d, &array, reads, &array, 1 - reads);
    return weft__vulkan_recorded(d, 1);
}

/* Allocates staging memory of the slot being recorded: at least one byte, at most `bytes`. */
static VkDeviceSize stage(weft__vulkan_device *d, VkDeviceSize bytes, weft__vulkan_slot **out)
{
    weft__vulkan_slot *slot = weft__vulkan_slot_open(d);
    if (slot && slot->staging_used + 64 > WEFT__VULKAN_STAGE) {
        slot = weft__vulkan_submit(d) == WEFT_OK ? weft__vulkan_slot_open(d) : NULL;
    }
    if (!slot ||
        (!slot->staging.block &&
         !weft__vulkan_span_new(d, WEFT__VULKAN_STAGING, WEFT__VULKAN_STAGE, &slot->staging))) {
        return 0;
    }
    *out = slot;
    VkDeviceSize room = WEFT__VULKAN_STAGE - slot->staging_used;
    return bytes < room ? bytes : room;
}

static weft_status write_staged(weft__vulkan_device *d, weft__vulkan_buffer *b, int64_t offset,
                                const char *from, int64_t bytes)
{
    while (bytes > 0) {
        weft__vulkan_slot *slot;
        VkDeviceSize n = stage(d, (VkDeviceSize)bytes, &slot);
        if (n == 0) {
            return weft_error_status();
        }
        memcpy(slot->staging.host + slot->staging_used, from, n);
        const VkBufferCopy region = {
            .srcOffset = slot->staging.offset + slot->staging_used,
            .dstOffset = b->span.offset + (VkDeviceSize)offset,
            .size = n,
        };
        slot->staging_used += (n + 63) / 64 * 64;
        weft_status status = record_copy(d, b, true, &slot->staging, &region);
        if (status != WEFT_OK) {
            return status;
        }
        from += n;
        offset += (int64_t)n;
        bytes -= (int64_t)n;
    }
    return WEFT_OK;
}

/* The first unused one, which is locked; if all are used, it waits for the first. */
static weft__vulkan_readback *take_readback(weft__vulkan_stream *s)
{
    for (int i = 0; i < WEFT__VULKAN_READBACKS; i++) {
        if (pthread_mutex_trylock(&s->readbacks[i].lock) == 0) {
            return &s->readbacks[i];
        }
    }
    pthread_mutex_lock(&s->readbacks[0].lock);
    return &s->readbacks[0];
}

/* Submits a copy of n bytes to the readback; *value: of the timeline at its end. */
static weft_status copy_back(weft__vulkan_device *d, weft__vulkan_readback *r,
                             weft__vulkan_buffer *b, int64_t offset, VkDeviceSize n,
                             uint64_t *value)
{
    if (r->span.bytes < n && r->span.block) {
        weft__vulkan_span_free(d, &r->span);
        r->span.block = NULL;
    }
    const VkDeviceSize least = n > WEFT__VULKAN_STAGE ? n : WEFT__VULKAN_STAGE;
    if (!r->span.block && !weft__vulkan_span_new(d, WEFT__VULKAN_READBACK, least, &r->span)) {
        r->span.block = NULL;
        return weft_error_status();
    }
    const VkBufferCopy region = {
        .srcOffset = b->span.offset + (VkDeviceSize)offset,
        .dstOffset = r->span.offset,
        .size = n,
    };
    pthread_mutex_lock(&d->stream.lock);
    weft_status status = record_copy(d, b, false, &r->span, &region);
    status = status == WEFT_OK ? weft__vulkan_submit(d) : status;
    *value = d->stream.submitted;
    pthread_mutex_unlock(&d->stream.lock);
    return status;
}

/* Called without the stream's lock. */
static weft_status read_staged(weft__vulkan_device *d, weft__vulkan_buffer *b, int64_t offset,
                               char *to, int64_t bytes)
{
    weft__vulkan_readback *r = take_readback(&d->stream);
    weft_status status = WEFT_OK;
    for (int64_t at = 0; at < bytes && status == WEFT_OK; at += WEFT__VULKAN_READ) {
        const int64_t rest = bytes - at, n = rest < WEFT__VULKAN_READ ? rest : WEFT__VULKAN_READ;
        uint64_t value = 0;
        status = copy_back(d, r, b, offset + at, (VkDeviceSize)n, &value);
        status = status == WEFT_OK ? weft__vulkan_read_until(d, value) : status;
        if (status == WEFT_OK) {
            memcpy(to + at, r->span.host, (size_t)n);
        }
    }
    pthread_mutex_unlock(&r->lock);
    return status;
}

/* ---- functions of the backend's table -------------------------------------------------------- */

weft_status weft__vulkan_write(void *state, void *buffer, int64_t offset, const void *from,
                               int64_t bytes)
{
    weft__vulkan_device *d = state;
    weft__vulkan_buffer *b = buffer;
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&d->stream.lock);
    bool mapped = d->memory.host_writes && (bytes <= MAPPED_WRITE || d->memory.host_reads);
    if (mapped && weft__vulkan_idle(d, b)) {
        memcpy(b->span.host + offset, from, (size_t)bytes);
    } else {
        status = write_staged(d, b, offset, from, bytes);
    }
    pthread_mutex_unlock(&d->stream.lock);
    return status;
}

weft_status weft__vulkan_read(void *state, void *buffer, int64_t offset, void *to, int64_t bytes)
{
    weft__vulkan_device *d = state;
    weft__vulkan_buffer *b = buffer;
    if (!d->memory.host_writes || (bytes > MAPPED_READ && !d->memory.host_reads)) {
        return read_staged(d, b, offset, to, bytes);
    }
    pthread_mutex_lock(&d->stream.lock);
    weft_status status = b->filled > d->stream.submitted ? weft__vulkan_submit(d) : WEFT_OK;
    const uint64_t filled = b->filled;
    pthread_mutex_unlock(&d->stream.lock);
    status = status == WEFT_OK ? weft__vulkan_read_until(d, filled) : status;
    if (status == WEFT_OK) {
        memcpy(to, b->span.host + offset, (size_t)bytes);
    }
    return status;
}
