/* backends/vulkan/profile.c -- timestamps after commands, summed by op. */
#include "backends/vulkan/profile.h"

#include <string.h>

#include "backends/vulkan/device.h"
#include "weft/memory.h"
#include "weft/timeline.h"

/* Waiting batches are recorded just before the submission. */
enum { STAMPS = WEFT__VULKAN_SLOT_COMMANDS + WEFT__VULKAN_BATCHES + 2 };

static bool prepare(weft__vulkan_device *d, weft__vulkan_stamps *stamps)
{
    if (stamps->queries || d->physical.timestamp_bits == 0) {
        return stamps->queries;
    }
    const VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = STAMPS,
    };
    if (!stamps->ops) {
        stamps->ops = weft_calloc(STAMPS, sizeof *stamps->ops);
    }
    if (!stamps->variants) {
        stamps->variants = weft_calloc(STAMPS, sizeof *stamps->variants);
    }
    if (!stamps->launches) {
        stamps->launches = weft_calloc(STAMPS, sizeof *stamps->launches);
    }
    return stamps->ops && stamps->variants && stamps->launches &&
           d->call.CreateQueryPool(d->handle, &info, NULL, &stamps->queries) == VK_SUCCESS;
}

static void stamp(weft__vulkan_device *d, weft__vulkan_slot *slot)
{
    d->call.CmdWriteTimestamp(slot->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
                              slot->stamps.queries, (uint32_t)slot->stamps.n++);
}

void weft__vulkan_profile_begin(weft__vulkan_device *d, weft__vulkan_slot *slot)
{
    slot->stamps.n = 0;
    slot->stamps.each = d->profile.on;
    if (d->profile.on) {
        weft__vulkan_profile_start(d, slot);
    }
}

void weft__vulkan_profile_start(weft__vulkan_device *d, weft__vulkan_slot *slot)
{
    if (slot->stamps.n == 0 && prepare(d, &slot->stamps)) {
        d->call.CmdResetQueryPool(slot->commands, slot->stamps.queries, 0,
                                  slot->stamps.each ? STAMPS : 2);
        stamp(d, slot);
        slot->load.n = 0;
        slot->load.work = 0;
    }
}

void weft__vulkan_profile_mark(weft__vulkan_device *d, weft__vulkan_slot *slot, const char *op,
                               const char *variant, int launches)
{
    if (slot->stamps.each && slot->stamps.n > 0 && slot->stamps.n < STAMPS) {
        slot->stamps.ops[slot->stamps.n] = op;
        slot->stamps.variants[slot->stamps.n] = variant;
        slot->stamps.launches[slot->stamps.n] = launches;
        stamp(d, slot);
    }
}

void weft__vulkan_profile_submit(weft__vulkan_device *d, weft__vulkan_slot *slot)
{
    if (slot->stamps.n > 0 && !slot->stamps.each) {
        stamp(d, slot);
    }
    slot->stamps.submitted = d->profile.on && weft_timeline_is_on() ? weft_timeline_now() : 0;
}

static void add(weft__vulkan_profile *p, const char *op, const char *variant, int calls,
                int64_t nanoseconds)
{
    int i = 0;
    while (i < p->n &&
           (strcmp(p->times[i].op, op) != 0 || strcmp(p->times[i].variant, variant) != 0)) {
        i++;
    }
    if (i == p->n && p->n < WEFT__VULKAN_PROFILED_OPS) {
        p->times[p->n++] = (weft_op_time){.op = op, .variant = variant};
    }
    if (i < p->n) {
        p->times[i].calls += calls;
        p->times[i].nanoseconds += nanoseconds;
    }
}

static void trace_span(const weft__vulkan_device *d, const char *name, const char *variant,
                       const char *category, int64_t begin, int64_t end)
{
    weft_timeline_add(&(weft_span){.name = name,
                                   .category = category,
                                   .variant = variant,
                                   .device = d->physical.properties.deviceName,
                                   .begin = begin + d->profile.offset,
                                   .duration = end - begin});
}

/* Adds the submission and its commands. at: nanoseconds on the device's clock. */
static void trace_submission(weft__vulkan_device *d, const weft__vulkan_stamps *stamps,
                             const int64_t *at, int n)
{
    const int64_t earliest = stamps->submitted - at[0];
    if (stamps->submitted == 0) {
        return;
    }
    if (d->profile.offset == 0 || earliest > d->profile.offset) {
        d->profile.offset = earliest;
    }
    trace_span(d, "submission", NULL, "submission", at[0], at[n - 1]);
    for (int i = 1; i < n; i++) {
        trace_span(d, stamps->ops[i], stamps->variants[i], "kernel", at[i - 1], at[i]);
    }
}

void weft__vulkan_profile_collect(weft__vulkan_device *d, weft__vulkan_slot *slot)
{
    weft__vulkan_stamps *stamps = &slot->stamps;
    uint64_t ticks[STAMPS];
    const int n = stamps->n;
    stamps->n = 0;
    if (n < 2 ||
        d->call.GetQueryPoolResults(d->handle, stamps->queries, 0, (uint32_t)n, sizeof ticks, ticks,
                                    sizeof *ticks, VK_QUERY_RESULT_64_BIT) != VK_SUCCESS) {
        return;
    }
    const double period = (double)d->physical.properties.limits.timestampPeriod;
    const uint64_t mask = UINT64_MAX >> (64 - d->physical.timestamp_bits);
    int64_t at[STAMPS];
    at[0] = (int64_t)((double)ticks[0] * period);
    for (int i = 1; i < n; i++) {
        const uint64_t passed = (ticks[i] - ticks[i - 1]) & mask;
        const int64_t took = (int64_t)((double)passed * period);
        at[i] = at[i - 1] + took;
        if (stamps->each) {
            add(&d->profile, stamps->ops[i], stamps->variants[i], stamps->launches[i], took);
        }
    }
    weft__vulkan_pace_measured(&d->stream.pace, &slot->load, 1e-9 * (double)(at[n - 1] - at[0]));
    if (stamps->each) {
        trace_submission(d, stamps, at, n);
    }
}

void weft__vulkan_profile_close(weft__vulkan_device *d, weft__vulkan_slot *slot)
{
    if (slot->stamps.queries) {
        d->call.DestroyQueryPool(d->handle, slot->stamps.queries, NULL);
    }
    weft_free(slot->stamps.ops);
    weft_free(slot->stamps.variants);
    weft_free(slot->stamps.launches);
}

void weft__vulkan_profile_set(void *state, bool on)
{
    weft__vulkan_device *d = state;
    pthread_mutex_lock(&d->stream.lock);
    d->profile.on = on;
    d->profile.n = 0;
    d->profile.offset = 0;
    d->stream.pace.longest = d->stream.pace.largest = 0;
    memset(&d->stream.counts, 0, sizeof d->stream.counts);
    pthread_mutex_unlock(&d->stream.lock);
}

int weft__vulkan_profile_read(void *state, weft_op_time *out, int max)
{
    weft__vulkan_device *d = state;
    pthread_mutex_lock(&d->stream.lock);
    if (weft__vulkan_submit(d) == WEFT_OK &&
        weft__vulkan_wait_for(d, d->stream.submitted) == WEFT_OK) {
        for (int i = 0; i < WEFT__VULKAN_SLOTS; i++) {
            weft__vulkan_profile_collect(d, &d->stream.slots[i]);
        }
    }
    int n = d->profile.n < max ? d->profile.n : max;
    memcpy(out, d->profile.times, (size_t)n * sizeof *out);
    pthread_mutex_unlock(&d->stream.lock);
    return n;
}

int weft__vulkan_profile_counters(void *state, weft_counter *out, int max)
{
    weft__vulkan_device *d = state;
    pthread_mutex_lock(&d->stream.lock);
    const weft_counter all[] = {
        {"launches", d->stream.counts.launches},
        {"commands", d->stream.counts.commands},
        {"commands on matrix cores", d->stream.counts.on_cores},
        {"barriers", d->stream.counts.barriers},
        {"submissions", d->stream.counts.submissions},
        {"waits", d->stream.counts.waits},
        {"us of the longest submission", (int64_t)(1e6 * d->stream.pace.longest)},
        {"MFLOP of the largest", (int64_t)(1e-6 * d->stream.pace.largest)},
        {"pipelines", (int64_t)d->pipelines.count},
        {"ms to compile them", d->pipelines.nanoseconds / 1000000},
    };
    pthread_mutex_unlock(&d->stream.lock);
    int n = max < (int)(sizeof all / sizeof *all) ? max : (int)(sizeof all / sizeof *all);
    memcpy(out, all, (size_t)n * sizeof *out);
    return n;
}
