/* backends/vulkan/batch.c -- collects launches of one pipeline, and records them as one dispatch.
 */
#include "backends/vulkan/batch.h"

#include <string.h>

#include "backends/vulkan/device.h"

/* ALIGNMENT: records begin at multiples of this. MOST_GROUPS: of a launch that waits. Each launch
 * of a batch gets the workgroups of the largest one, and a card takes 0.6 ns for one that has
 * nothing to do, so a large launch gains nothing by sharing its dispatch with small ones. */
enum { ALIGNMENT = 64, MOST_GROUPS = 1024 };

static uint32_t rounded_up(uint32_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

bool weft__vulkan_unbatched;

bool weft__vulkan_batch_takes(const weft__vulkan_device *d, const weft__vulkan_launch *launch)
{
    const uint32_t *most = d->physical.properties.limits.maxComputeWorkGroupCount;
    return launch->batches && !weft__vulkan_unbatched && launch->groups <= MOST_GROUPS &&
           launch->groups <= most[0] && most[1] >= WEFT__VULKAN_WAITING;
}

/* The batch of the pipeline; otherwise an unused one, or NULL if all are in use. */
static weft__vulkan_batch *find(weft__vulkan_batches *b, const weft__vulkan_pipeline *pipeline,
                                uint32_t push_bytes, const char *op)
{
    for (int i = 0; i < b->n; i++) {
        weft__vulkan_batch *batch = &b->all[i];
        if (batch->pipeline == pipeline && batch->op == op && batch->push_bytes == push_bytes) {
            return batch;
        }
    }
    return b->n < WEFT__VULKAN_BATCHES ? &b->all[b->n] : NULL;
}

/* Makes room for one more launch and its record. */
static weft_status make_room(weft__vulkan_device *d, const weft__vulkan_launch *launch,
                             const weft__vulkan_pipeline *pipeline, const char *op)
{
    weft__vulkan_batches *b = &d->stream.batches;
    if (b->n_waiting == WEFT__VULKAN_WAITING || !find(b, pipeline, launch->push_bytes, op)) {
        weft__vulkan_batch_record(d);
    }
    return weft__vulkan_records_reserve(d, launch->push_bytes + ALIGNMENT) ? WEFT_OK
                                                                           : weft_error_status();
}

weft_status weft__vulkan_batch_add(weft__vulkan_device *d, const weft__vulkan_launch *launch,
                                   weft__vulkan_pipeline *pipeline, const char *op)
{
    weft__vulkan_batches *b = &d->stream.batches;
    weft_status status = make_room(d, launch, pipeline, op);
    if (status != WEFT_OK) {
        return status;
    }
    weft__vulkan_batch *batch = find(b, pipeline, launch->push_bytes, op);
    const bool is_new = batch == &b->all[b->n];
    if (is_new) {
        *batch = (weft__vulkan_batch){.pipeline = pipeline,
                                      .handle = pipeline->handles[WEFT__VULKAN_ONE],
                                      .op = op,
                                      .variant = weft_kernel_variant(),
                                      .push_bytes = launch->push_bytes};
    } else if (batch->n == 1) {
        status = weft__vulkan_pipeline_get(d, pipeline, WEFT__VULKAN_MANY, &batch->handle);
        if (status != WEFT_OK) {
            return status;
        }
    }
    weft__vulkan_waiting *w = &b->waiting[b->n_waiting++];
    w->batch = (int)(batch - b->all);
    memcpy(w->push, launch->push, launch->push_bytes);
    const uint32_t groups = (uint32_t)launch->groups;
    batch->most_groups = groups > batch->most_groups ? groups : batch->most_groups;
    batch->n++;
    b->n += is_new;
    b->bytes += launch->push_bytes + (is_new ? ALIGNMENT : 0);
    return WEFT_OK;
}

/* Copies the arguments of a batch to the slot's records, without gaps, and returns their address.
 */
static uint64_t write_records(weft__vulkan_batches *b, int index, weft__vulkan_slot *slot)
{
    const uint32_t bytes = b->all[index].push_bytes;
    const uint64_t address = slot->records.address + slot->records_used;
    uint32_t at = 0;
    for (int i = 0; i < b->n_waiting; i++) {
        if (b->waiting[i].batch == index) {
            memcpy(slot->records.host + slot->records_used + at, b->waiting[i].push, bytes);
            at += bytes;
        }
    }
    slot->records_used += rounded_up(at);
    return address;
}

/* The arguments of the batch's first launch. */
static const void *push_of(const weft__vulkan_batches *b, int index)
{
    int i = 0;
    while (b->waiting[i].batch != index) {
        i++;
    }
    return b->waiting[i].push;
}

static void record(weft__vulkan_device *d, int index)
{
    weft__vulkan_stream *s = &d->stream;
    weft__vulkan_slot *slot = &s->slots[s->current];
    const weft__vulkan_batch *batch = &s->batches.all[index];
    unsigned char push[WEFT__VULKAN_MAX_PUSH];
    memcpy(push, push_of(&s->batches, index), batch->push_bytes);
    if (batch->n > 1) {
        const uint64_t records = write_records(&s->batches, index, slot);
        memcpy(push, &records, sizeof records);
    }
    weft__vulkan_command(
        d, &(weft__vulkan_dispatched){.pipeline = batch->handle,
                                      .push = push,
                                      .push_bytes = batch->push_bytes,
                                      .groups = {batch->most_groups, (uint32_t)batch->n, 1},
                                      .launches = batch->n,
                                      .op = batch->op,
                                      .variant = batch->variant});
    s->counts.commands++;
    slot->n_commands++;
}

void weft__vulkan_batch_record(weft__vulkan_device *d)
{
    weft__vulkan_batches *b = &d->stream.batches;
    for (int i = 0; i < b->n; i++) {
        record(d, i);
    }
    b->n = b->n_waiting = 0;
    b->bytes = 0;
}
