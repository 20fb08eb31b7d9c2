/* backends/vulkan/uploads.c -- copies large data to arrays beside running kernels. */
#include "backends/vulkan/uploads.h"

#include "backends/vulkan/buffer.h"
#include "backends/vulkan/device.h"

int64_t weft__vulkan_least_upload = 1 << 20;

weft_status weft__vulkan_uploads_open(weft__vulkan_device *d)
{
    weft__vulkan_uploads *u = &d->uploads;
    const bool apart = d->physical.used[WEFT__VULKAN_TRANSFER];
    u->queue = d->stream.queue;
    u->family = apart ? d->physical.transfer_family : d->physical.queue_family;
    if (apart) {
        d->call.GetDeviceQueue(d->handle, u->family, 0, &u->queue);
    }
    VkResult result = weft__vulkan_timeline_new(d, &u->timeline);
    for (int i = 0; i < WEFT__VULKAN_PIECES && result == VK_SUCCESS; i++) {
        weft__vulkan_piece *p = &u->pieces[i];
        result = weft__vulkan_commands_new(d, u->family, &p->pool, &p->commands);
    }
    return result == VK_SUCCESS ? WEFT_OK : weft__vulkan_fail("preparing uploads", result);
}

void weft__vulkan_uploads_close(weft__vulkan_device *d)
{
    weft__vulkan_uploads *u = &d->uploads;
    weft__vulkan_copiers_close(&u->copiers);
    for (int i = 0; i < WEFT__VULKAN_PIECES; i++) {
        if (u->pieces[i].pool) {
            d->call.DestroyCommandPool(d->handle, u->pieces[i].pool, NULL);
        }
    }
    if (u->timeline) {
        d->call.DestroySemaphore(d->handle, u->timeline, NULL);
    }
}

void *weft__vulkan_pin(void *state, int64_t bytes)
{
    weft__vulkan_device *d = state;
    weft__vulkan_span span;
    const bool uploads = !d->memory.host_reads;
    return uploads && weft__vulkan_span_new(d, WEFT__VULKAN_PINNED, (VkDeviceSize)bytes, &span)
               ? span.host
               : NULL;
}

/* Waits until the uploads' timeline has that value. */
static weft_status wait_for_upload(weft__vulkan_device *d, uint64_t value)
{
    const VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &d->uploads.timeline,
        .pValues = &value,
    };
    const VkResult result = d->call.WaitSemaphores(d->handle, &info, UINT64_MAX);
    return result == VK_SUCCESS ? WEFT_OK : weft__vulkan_fail("uploading", result);
}

/* A failed evaluation may have left copies from the memory under way. */
void weft__vulkan_unpin(void *state, void *memory, int64_t bytes)
{
    weft__vulkan_device *d = state;
    weft__vulkan_span span;
    pthread_mutex_lock(&d->stream.lock);
    if (d->stream.recording) {
        (void)weft__vulkan_submit(d);
    }
    (void)wait_for_upload(d, d->uploads.submitted);
    pthread_mutex_unlock(&d->stream.lock);
    if (weft__vulkan_span_at(d, WEFT__VULKAN_PINNED, memory, (VkDeviceSize)bytes, &span)) {
        weft__vulkan_span_free(d, &span);
    }
}

static VkResult record(weft__vulkan_device *d, weft__vulkan_piece *p, VkBuffer from, VkBuffer to,
                       const VkBufferCopy *region)
{
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    VkResult result = d->call.ResetCommandPool(d->handle, p->pool, 0);
    if (result == VK_SUCCESS) {
        result = d->call.BeginCommandBuffer(p->commands, &begin);
    }
    if (result == VK_SUCCESS) {
        d->call.CmdCopyBuffer(p->commands, from, to, 1, region);
        result = d->call.EndCommandBuffer(p->commands);
    }
    return result;
}

/* Copies once the stream's timeline has the value `after`. */
static weft_status send(weft__vulkan_device *d, weft__vulkan_piece *p,
                        const weft__vulkan_span *from, const weft__vulkan_buffer *b,
                        const VkBufferCopy *region, uint64_t after)
{
    weft__vulkan_uploads *u = &d->uploads;
    const uint64_t value = u->submitted + 1;
    VkResult result = record(d, p, from->buffer, b->span.buffer, region);
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkTimelineSemaphoreSubmitInfo values = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = 1,
        .pWaitSemaphoreValues = &after,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value,
    };
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &values,
        .waitSemaphoreCount = 1,
        .pWaitSemaphores = &d->stream.timeline,
        .pWaitDstStageMask = &stage,
        .commandBufferCount = 1,
        .pCommandBuffers = &p->commands,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &u->timeline,
    };
    if (result == VK_SUCCESS) {
        result = d->call.QueueSubmit(u->queue, 1, &info, VK_NULL_HANDLE);
    }
    if (result != VK_SUCCESS) {
        return weft__vulkan_fail("uploading", result);
    }
    p->uploaded = u->submitted = value;
    return WEFT_OK;
}

/* Copies n bytes, at most a piece unless they are pinned (`pinned`, else NULL). */
static weft_status upload_part(weft__vulkan_device *d, const weft__vulkan_buffer *b,
                               VkDeviceSize offset, const char *from, VkDeviceSize n,
                               const weft__vulkan_span *pinned)
{
    weft__vulkan_uploads *u = &d->uploads;
    weft__vulkan_piece *p = &u->pieces[u->next];
    u->next = (u->next + 1) % WEFT__VULKAN_PIECES;
    weft_status status = wait_for_upload(d, p->uploaded);
    if (status == WEFT_OK && !pinned && !p->staging.block &&
        !weft__vulkan_span_new(d, WEFT__VULKAN_STAGING, WEFT__VULKAN_PIECE, &p->staging)) {
        status = weft_error_status();
    }
    if (status != WEFT_OK) {
        return status;
    }
    const weft__vulkan_span *source = pinned ? pinned : &p->staging;
    if (!pinned) {
        weft__vulkan_copy_memory(&u->copiers, p->staging.host, from, n);
    }
    const VkBufferCopy region = {
        .srcOffset = source->offset, .dstOffset = b->span.offset + offset, .size = n};
    const uint64_t last = d->stream.submitted; /* below b->value, if a submission has failed */
    return send(d, p, source, b, &region, b->value < last ? b->value : last);
}

static weft_status upload(weft__vulkan_device *d, weft__vulkan_buffer *b, int64_t offset,
                          const char *from, int64_t bytes)
{
    weft__vulkan_span span;
    const bool pinned =
        weft__vulkan_span_at(d, WEFT__VULKAN_PINNED, from, (VkDeviceSize)bytes, &span);
    const int64_t most = pinned ? bytes : WEFT__VULKAN_PIECE;
    weft_status status = b->value > d->stream.submitted ? weft__vulkan_submit(d) : WEFT_OK;
    for (int64_t i = 0; i < bytes && status == WEFT_OK; i += most) {
        const int64_t n = bytes - i < most ? bytes - i : most;
        status = upload_part(d, b, (VkDeviceSize)(offset + i), from + i, (VkDeviceSize)n,
                             pinned ? &span : NULL);
    }
    if (status != WEFT_OK) { /* the memory may be used for something else now */
        (void)wait_for_upload(d, d->uploads.submitted);
        return status;
    }
    return weft__vulkan_stream_after(d, d->uploads.submitted, b);
}

weft_status weft__vulkan_upload(void *state, void *buffer, int64_t offset, const void *from,
                                int64_t bytes)
{
    weft__vulkan_device *d = state;
    if (bytes < weft__vulkan_least_upload || d->memory.host_reads) {
        return weft__vulkan_write(state, buffer, offset, from, bytes);
    }
    pthread_mutex_lock(&d->stream.lock);
    const weft_status status = upload(d, buffer, offset, from, bytes);
    pthread_mutex_unlock(&d->stream.lock);
    return status;
}
