/* backends/vulkan/stream.c -- recording, barriers, submission, waiting. */
#include "backends/vulkan/stream.h"

#include <string.h>

#include "backends/vulkan/device.h"

enum { FAULT_WORDS = 4 }; /* of the fault record */

uint64_t weft__vulkan_dropped;

/* ---- opening and closing -------------------------------------------------------------------- */

VkResult weft__vulkan_commands_new(weft__vulkan_device *d, uint32_t family, VkCommandPool *pool,
                                   VkCommandBuffer *commands)
{
    const VkCommandPoolCreateInfo from = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
        .queueFamilyIndex = family,
    };
    VkResult result = d->call.CreateCommandPool(d->handle, &from, NULL, pool);
    if (result != VK_SUCCESS) {
        *pool = VK_NULL_HANDLE;
        return result;
    }
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = *pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    return d->call.AllocateCommandBuffers(d->handle, &info, commands);
}

VkResult weft__vulkan_timeline_new(weft__vulkan_device *d, VkSemaphore *out)
{
    const VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
    };
    const VkSemaphoreCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
        .pNext = &type,
    };
    return d->call.CreateSemaphore(d->handle, &info, NULL, out);
}

weft_status weft__vulkan_stream_open(weft__vulkan_device *d)
{
    weft__vulkan_stream *s = &d->stream;
    pthread_mutex_init(&s->lock, NULL);
    for (int i = 0; i < WEFT__VULKAN_READBACKS; i++) {
        pthread_mutex_init(&s->readbacks[i].lock, NULL);
    }
    d->call.GetDeviceQueue(d->handle, d->physical.queue_family, 0, &s->queue);
    VkResult result = weft__vulkan_timeline_new(d, &s->timeline);
    for (int i = 0; i < WEFT__VULKAN_SLOTS && result == VK_SUCCESS; i++) {
        weft__vulkan_slot *slot = &s->slots[i];
        result =
            weft__vulkan_commands_new(d, d->physical.queue_family, &slot->pool, &slot->commands);
    }
    if (result != VK_SUCCESS) {
        return weft__vulkan_fail("creating command buffers", result);
    }
    s->epoch = 1;
    s->fresh = true;
    const size_t bytes = sizeof(uint32_t) * (FAULT_WORDS + WEFT__VULKAN_SLOTS);
    if (!weft__vulkan_span_new(d, WEFT__VULKAN_READBACK, bytes, &s->fault)) {
        return weft_error_status();
    }
    memset(s->fault.host, 0, bytes);
    return WEFT_OK;
}

void weft__vulkan_stream_close(weft__vulkan_device *d)
{
    weft__vulkan_stream *s = &d->stream;
    for (int i = 0; i < WEFT__VULKAN_SLOTS; i++) {
        weft__vulkan_slot *slot = &s->slots[i];
        if (slot->pool) {
            d->call.DestroyCommandPool(d->handle, slot->pool, NULL);
        }
        weft__vulkan_profile_close(d, slot);
    }
    if (s->timeline) {
        d->call.DestroySemaphore(d->handle, s->timeline, NULL);
    }
    for (int i = 0; i < WEFT__VULKAN_READBACKS; i++) {
        pthread_mutex_destroy(&s->readbacks[i].lock);
    }
    pthread_mutex_destroy(&s->lock);
}

/* ---- submission and waiting ----------------------------------------------------------------- */

/* Whether the slot's last submission, which the timeline says is over, did not run to its end. */
static bool is_lost(const weft__vulkan_stream *s, int slot)
{
    const volatile uint32_t *ends =
        (const volatile uint32_t *)(const volatile void *)s->fault.host + FAULT_WORDS;
    return ends[slot] != (uint32_t)s->slots[slot].value;
}

/* The oldest submission up to `value` that did not run to its end; NULL: all did. */
static const weft__vulkan_slot *first_lost(const weft__vulkan_stream *s, uint64_t value)
{
    const weft__vulkan_slot *first = NULL;
    for (int i = 0; i < WEFT__VULKAN_SLOTS; i++) {
        const weft__vulkan_slot *slot = &s->slots[i];
        if (slot->value > 0 && slot->value <= value && is_lost(s, i) &&
            (!first || slot->value < first->value)) {
            first = slot;
        }
    }
    return first;
}

static weft_status lost(weft__vulkan_device *d, const char *call, VkResult result)
{
    weft__vulkan_stream *s = &d->stream;
    if (result != VK_ERROR_DEVICE_LOST && !s->lost) {
        return weft__vulkan_fail(call, result);
    }
    const weft__vulkan_slot *slot = first_lost(s, s->submitted);
    s->lost = true;
    return weft_fail(
        WEFT_DEVICE,
        "vulkan: %s: submission %llu was lost (%d commands, the last of %s): the driver reset the "
        "device, or it hung; its arrays are gone. Start the program again; training resumes from "
        "its last checkpoint",
        call, (unsigned long long)(slot ? slot->value : s->submitted), slot ? slot->n_commands : 0,
        slot && slot->last_op ? slot->last_op : "nothing");
}

/* May be called without the stream's lock. */
static VkResult wait_for_value(const weft__vulkan_device *d, uint64_t value)
{
    const VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &d->stream.timeline,
        .pValues = &value,
    };
    return d->call.WaitSemaphores(d->handle, &info, UINT64_MAX);
}

static weft_status check_ends(weft__vulkan_device *d, VkResult result, uint64_t value)
{
    if (result != VK_SUCCESS) {
        return lost(d, "vkWaitSemaphores", result);
    }
    const bool all = !d->stream.lost && !first_lost(&d->stream, value);
    return all ? WEFT_OK : lost(d, "wait", VK_ERROR_DEVICE_LOST);
}

/* Measures the submissions that are over. */
static void measure(weft__vulkan_device *d)
{
    weft__vulkan_stream *s = &d->stream;
    uint64_t done = 0;
    if (d->call.GetSemaphoreCounterValue(d->handle, s->timeline, &done) == VK_SUCCESS) {
        for (int i = 0; i < WEFT__VULKAN_SLOTS; i++) {
            const bool open = s->recording && i == s->current;
            if (!open && s->slots[i].stamps.n > 0 && s->slots[i].value <= done) {
                weft__vulkan_profile_collect(d, &s->slots[i]);
            }
        }
    }
}

weft_status weft__vulkan_wait_for(weft__vulkan_device *d, uint64_t value)
{
    const VkResult result = d->stream.lost ? VK_SUCCESS : wait_for_value(d, value);
    const weft_status status = check_ends(d, result, value);
    if (status == WEFT_OK) {
        measure(d);
    }
    return status;
}

weft__vulkan_slot *weft__vulkan_slot_open(weft__vulkan_device *d)
{
    weft__vulkan_stream *s = &d->stream;
    weft__vulkan_slot *slot = &s->slots[s->current];
    if (s->recording) {
        return slot;
    }
    /* Arguments of a command in the next slot may have been stored in this slot's memory; if other
     * threads submit between the two, in a later one. */
    const uint64_t next = s->slots[(s->current + 1) % WEFT__VULKAN_SLOTS].value;
    const uint64_t needed = slot->needed < s->submitted ? slot->needed : s->submitted;
    const uint64_t last = next > slot->value ? next : slot->value;
    if (weft__vulkan_wait_for(d, needed > last ? needed : last) != WEFT_OK) {
        return NULL;
    }
    const VkCommandBufferBeginInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    VkResult result = d->call.ResetCommandPool(d->handle, slot->pool, 0);
    if (result == VK_SUCCESS) {
        result = d->call.BeginCommandBuffer(slot->commands, &info);
    }
    if (result != VK_SUCCESS) {
        lost(d, "vkBeginCommandBuffer", result);
        return NULL;
    }
    slot->n_commands = 0;
    slot->after = 0;
    slot->last_op = NULL;
    slot->load.n = 0;
    slot->load.work = slot->load.seconds = 0;
    slot->records_used = slot->staging_used = 0;
    s->recording = true;
    s->bound = VK_NULL_HANDLE;
    weft__vulkan_profile_begin(d, slot);
    return slot;
}

static void memory_barrier(weft__vulkan_device *d, VkCommandBuffer commands,
                           VkPipelineStageFlags before, VkAccessFlags writes,
                           VkPipelineStageFlags after, VkAccessFlags next)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = writes, .dstAccessMask = next};
    d->call.CmdPipelineBarrier(commands, before, after, 0, 1, &barrier, 0, NULL, 0, NULL);
}

/* After everything else the submission writes its number, which the host checks when it waits. This
 * and the writes of shaders and copies are visible to the host after the wait. The first barrier
 * only orders: nothing else uses that memory. */
static void write_end(weft__vulkan_device *d, const weft__vulkan_slot *slot, uint64_t value)
{
    const weft__vulkan_span *fault = &d->stream.fault;
    const VkDeviceSize at = sizeof(uint32_t) * (size_t)(FAULT_WORDS + (slot - d->stream.slots));
    const VkPipelineStageFlags all =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    d->call.CmdPipelineBarrier(slot->commands, all, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, NULL, 0,
                               NULL, 0, NULL);
    d->call.CmdFillBuffer(slot->commands, fault->buffer, fault->offset + at, sizeof(uint32_t),
                          (uint32_t)value);
    memory_barrier(d, slot->commands, all,
                   VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                   VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
}

weft_status weft__vulkan_submit(weft__vulkan_device *d)
{
    weft__vulkan_stream *s = &d->stream;
    if (!s->recording) {
        return WEFT_OK;
    }
    weft__vulkan_slot *slot = &s->slots[s->current];
    const uint64_t value = s->submitted + 1;
    weft__vulkan_batch_record(d);
    write_end(d, slot, value);
    weft__vulkan_profile_submit(d, slot);
    VkResult result = d->call.EndCommandBuffer(slot->commands);
    const VkPipelineStageFlags stages =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkTimelineSemaphoreSubmitInfo timeline = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = slot->after > 0,
        .pWaitSemaphoreValues = &slot->after,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value,
    };
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &timeline,
        .waitSemaphoreCount = slot->after > 0,
        .pWaitSemaphores = &d->uploads.timeline,
        .pWaitDstStageMask = &stages,
        .commandBufferCount = value != weft__vulkan_dropped,
        .pCommandBuffers = &slot->commands,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &s->timeline,
    };
    if (result == VK_SUCCESS) {
        result = d->call.QueueSubmit(s->queue, 1, &info, VK_NULL_HANDLE);
    }
    s->recording = false;
    if (result != VK_SUCCESS) {
        return lost(d, "vkQueueSubmit", result);
    }
    s->submitted = slot->value = value;
    s->current = (s->current + 1) % WEFT__VULKAN_SLOTS;
    s->fresh = false;
    s->counts.submissions++;
    return WEFT_OK;
}

bool weft__vulkan_idle(weft__vulkan_device *d, const weft__vulkan_buffer *b)
{
    uint64_t done = 0;
    return b->value == 0 ||
           (d->call.GetSemaphoreCounterValue(d->handle, d->stream.timeline, &done) == VK_SUCCESS &&
            b->value <= done);
}

/* ---- dependencies ---------------------------------------------------------------------------- */

/* A barrier between shaders is cheaper than one that includes copies. */
static void barrier(weft__vulkan_device *d)
{
    weft__vulkan_stream *s = &d->stream;
    VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    VkAccessFlags writes = VK_ACCESS_SHADER_WRITE_BIT, reads = VK_ACCESS_SHADER_READ_BIT;
    if (s->copies) {
        stages |= VK_PIPELINE_STAGE_TRANSFER_BIT;
        writes |= VK_ACCESS_TRANSFER_WRITE_BIT;
        reads |= VK_ACCESS_TRANSFER_READ_BIT;
    }
    memory_barrier(d, s->slots[s->current].commands, stages, writes, stages, writes | reads);
    s->epoch++;
    s->copies = false;
    s->counts.barriers++;
}

void weft__vulkan_order(weft__vulkan_device *d, weft__vulkan_buffer *const *reads, int n_reads,
                        weft__vulkan_buffer *const *writes, int n_writes)
{
    const uint64_t epoch = d->stream.epoch;
    bool needed = false;
    for (int i = 0; i < n_reads; i++) {
        needed = needed || reads[i]->written == epoch;
    }
    for (int i = 0; i < n_writes; i++) {
        needed = needed || writes[i]->written == epoch || writes[i]->read == epoch;
    }
    if (needed) {
        weft__vulkan_batch_record(d);
        barrier(d);
    }
}

void weft__vulkan_mark(weft__vulkan_device *d, weft__vulkan_buffer *const *reads, int n_reads,
                       weft__vulkan_buffer *const *writes, int n_writes)
{
    const weft__vulkan_stream *s = &d->stream;
    for (int i = 0; i < n_reads; i++) {
        reads[i]->read = s->epoch;
        reads[i]->value = s->submitted + 1;
    }
    for (int i = 0; i < n_writes; i++) {
        writes[i]->written = s->epoch;
        writes[i]->value = writes[i]->filled = s->submitted + 1;
    }
}

/* ---- recording ------------------------------------------------------------------------------- */

void weft__vulkan_command(weft__vulkan_device *d, const weft__vulkan_dispatched *c)
{
    weft__vulkan_stream *s = &d->stream;
    weft__vulkan_slot *slot = &s->slots[s->current];
    if (c->pipeline != s->bound) {
        d->call.CmdBindPipeline(slot->commands, VK_PIPELINE_BIND_POINT_COMPUTE, c->pipeline);
        s->bound = c->pipeline;
    }
    d->call.CmdPushConstants(slot->commands, d->pipelines.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                             c->push_bytes, c->push);
    d->call.CmdDispatch(slot->commands, c->groups[0], c->groups[1], c->groups[2]);
    slot->last_op = c->op;
    weft__vulkan_profile_mark(d, slot, c->op, c->variant, c->launches);
}

weft_status weft__vulkan_recorded(weft__vulkan_device *d, int commands)
{
    weft__vulkan_stream *s = &d->stream;
    const int enough = s->fresh ? WEFT__VULKAN_FIRST_COMMANDS : WEFT__VULKAN_SLOT_COMMANDS;
    s->counts.commands += commands;
    s->slots[s->current].n_commands += commands;
    return s->slots[s->current].n_commands + s->batches.n >= enough ? weft__vulkan_submit(d)
                                                                    : WEFT_OK;
}

weft__vulkan_slot *weft__vulkan_records_reserve(weft__vulkan_device *d, uint32_t bytes)
{
    weft__vulkan_slot *slot = weft__vulkan_slot_open(d);
    if (slot && slot->records_used + d->stream.batches.bytes + bytes > WEFT__VULKAN_RECORDS) {
        slot = weft__vulkan_submit(d) == WEFT_OK ? weft__vulkan_slot_open(d) : NULL;
    }
    return slot && (slot->records.block ||
                    weft__vulkan_span_new(d, WEFT__VULKAN_UPLOAD, WEFT__VULKAN_RECORDS,
                                          &slot->records))
               ? slot
               : NULL;
}

weft_status weft__vulkan_stream_after(weft__vulkan_device *d, uint64_t upload,
                                      weft__vulkan_buffer *b)
{
    weft__vulkan_stream *s = &d->stream;
    weft__vulkan_slot *slot = weft__vulkan_slot_open(d);
    if (slot && slot->n_commands + s->batches.n > 0) {
        slot = weft__vulkan_submit(d) == WEFT_OK ? weft__vulkan_slot_open(d) : NULL;
    }
    if (!slot) {
        return weft_error_status();
    }
    slot->after = upload;
    b->value = b->filled = s->submitted + 1;
    return WEFT_OK;
}

/* ---- waiting for the end --------------------------------------------------------------------- */

/* Reports invalid input that a shader has found since the last wait. The kinds are kept while
 * submitted work may still report one. */
static weft_status take_fault(weft__vulkan_stream *s, bool idle)
{
    uint32_t *record = (uint32_t *)(void *)s->fault.host;
    const uint32_t code = record[0];
    const int n = s->n_faults;
    const int64_t value = (int64_t)((uint64_t)record[2] << 32 | record[1]);
    s->n_faults = idle ? 0 : n;
    if (code == 0) {
        return WEFT_OK;
    }
    memset(record, 0, 4 * sizeof *record);
    if (code > (uint32_t)n) {
        return weft_fail(WEFT_DEVICE, "vulkan: a shader reported the unknown fault %u", code);
    }
    const weft__vulkan_fault_kind *kind = &s->faults[code - 1];
    return weft_fail(WEFT_INVALID, kind->format, kind->op, (long long)value,
                     (long long)kind->limit);
}

static weft_status complained(void)
{
    const char *complaint = weft__vulkan_complaint();
    return complaint ? weft_fail(WEFT_DEVICE, "vulkan: validation: %s", complaint) : WEFT_OK;
}

static weft_status finish(weft__vulkan_device *d)
{
    weft__vulkan_stream *s = &d->stream;
    weft_status status = weft__vulkan_submit(d);
    if (status == WEFT_OK) {
        status = weft__vulkan_wait_for(d, s->submitted);
    }
    if (status != WEFT_OK) {
        return status;
    }
    s->fresh = true;
    s->last_call = s->last_out = NULL;
    s->counts.waits++;
    weft__vulkan_cache_save(d);
    return complained();
}

weft_status weft__vulkan_finish_all(weft__vulkan_device *d)
{
    weft_status status = finish(d);
    return status == WEFT_OK ? take_fault(&d->stream, true) : status;
}

weft_status weft__vulkan_mark_end(weft__vulkan_device *d, uint64_t *value)
{
    weft__vulkan_stream *s = &d->stream;
    pthread_mutex_lock(&s->lock);
    const weft_status status = weft__vulkan_submit(d);
    *value = s->submitted;
    pthread_mutex_unlock(&s->lock);
    return status;
}

static weft_status wait_outside(weft__vulkan_device *d, uint64_t value, bool take_faults)
{
    weft__vulkan_stream *s = &d->stream;
    pthread_mutex_lock(&s->lock);
    const bool lost = s->lost;
    pthread_mutex_unlock(&s->lock);
    const VkResult result = lost ? VK_SUCCESS : wait_for_value(d, value);
    pthread_mutex_lock(&s->lock);
    weft_status status = check_ends(d, result, value);
    if (status == WEFT_OK) {
        measure(d);
    }
    const bool idle = !s->recording && s->submitted == value;
    if (idle) {
        s->fresh = true;
        s->last_call = s->last_out = NULL;
        weft__vulkan_cache_save(d);
    }
    s->counts.waits++;
    if (status == WEFT_OK) {
        status = complained();
    }
    if (status == WEFT_OK && take_faults) {
        status = take_fault(s, idle);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

weft_status weft__vulkan_finish_until(weft__vulkan_device *d, uint64_t value)
{
    return wait_outside(d, value, true);
}

weft_status weft__vulkan_read_until(weft__vulkan_device *d, uint64_t value)
{
    return wait_outside(d, value, false);
}
