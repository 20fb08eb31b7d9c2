/* backends/vulkan/dispatch.c -- records a kernel's launch as a command. */
#include "backends/vulkan/dispatch.h"

#include <assert.h>
#include <string.h>

#include "backends/vulkan/device.h"
#include "backends/vulkan/precompile.h"

static weft__vulkan_device *device_of(const weft_call *call)
{
    return weft_device_state(call->device);
}

bool weft__vulkan_has(const weft_call *call, weft__vulkan_feature feature)
{
    return device_of(call)->physical.used[feature];
}

int64_t weft__vulkan_shared(const weft_call *call)
{
    return device_of(call)->physical.properties.limits.maxComputeSharedMemorySize;
}

uint64_t weft__vulkan_address(const weft_tensor *t)
{
    const weft__vulkan_buffer *b = t->buffer;
    return b->span.address + (uint64_t)t->offset;
}

uint64_t weft__vulkan_workspace(const weft_call *call)
{
    const weft__vulkan_buffer *b = call->workspace_buffer;
    return b ? b->span.address : 0;
}

/* ---- supported operands ---------------------------------------------------------------------- */

static bool is_small(const weft_tensor *t)
{
    int64_t low = 0, high = 0;
    for (int i = 0; i < t->shape.n; i++) {
        int64_t reach = (t->shape.at[i] - 1) * t->strides[i];
        *(reach < 0 ? &low : &high) += reach;
    }
    return high - low < INT32_MAX && weft_tensor_size(t) < INT32_MAX && !t->encoding;
}

bool weft__vulkan_fits(const weft_call *call)
{
    const weft__vulkan_device *d = device_of(call);
    for (int i = 0; i < call->n_inputs + call->n_outputs; i++) {
        const bool out = i >= call->n_inputs;
        const weft_tensor *t = out ? &call->out[i - call->n_inputs] : &call->in[i];
        bool able =
            (t->dtype != WEFT_FLOAT64 || d->physical.used[WEFT__VULKAN_FLOAT64]) &&
            (!out || weft_dtype_size(t->dtype) > 1 || d->physical.used[WEFT__VULKAN_STORAGE8]);
        if (!able || !is_small(t)) {
            return false;
        }
    }
    return true;
}

/* ---- launches ------------------------------------------------------------------------------- */

/* Distributes at least n workgroups over x, y and z. */
static void spread(const VkPhysicalDeviceLimits *limits, uint64_t n, uint32_t out[3])
{
    const uint32_t *most = limits->maxComputeWorkGroupCount;
    out[0] = out[1] = out[2] = 1;
    if (n <= most[0]) {
        out[0] = (uint32_t)n;
        return;
    }
    out[0] = 32768 < most[0] ? 32768 : most[0];
    uint64_t rest = (n + out[0] - 1) / out[0];
    out[1] = rest <= most[1] ? (uint32_t)rest : 32768;
    out[2] = (uint32_t)((rest + out[1] - 1) / out[1]);
}

/* The buffers of a call: those that it reads, then those that it writes. */
typedef struct operands {
    weft__vulkan_buffer *reads[64], *writes[WEFT_MAX_OUTPUTS + 1];
    int n_reads, n_writes;
} operands;

static void collect(const weft_call *call, int first, operands *o)
{
    o->n_reads = o->n_writes = 0;
    for (int i = first; i < call->n_inputs && o->n_reads < 64; i++) {
        o->reads[o->n_reads++] = call->in[i].buffer;
    }
    for (int i = 0; i < call->n_outputs; i++) {
        o->writes[o->n_writes++] = call->out[i].buffer;
    }
    if (call->workspace_buffer) {
        o->writes[o->n_writes++] = call->workspace_buffer;
    }
}

/* Ops with many inputs (concatenate) are ordered in pieces; a barrier for one piece covers all. */
static void order_all(weft__vulkan_device *d, const weft_call *call)
{
    operands o;
    int first = 0;
    do {
        collect(call, first, &o);
        weft__vulkan_order(d, o.reads, o.n_reads, o.writes, o.n_writes);
        first += o.n_reads;
    } while (first < call->n_inputs && o.n_reads > 0);
}

static void note_all(weft__vulkan_device *d, const weft_call *call)
{
    operands o;
    int first = 0;
    collect(call, first, &o);
    while (first + o.n_reads < call->n_inputs && o.n_reads > 0) {
        weft__vulkan_mark(d, o.reads, o.n_reads, NULL, 0);
        first += o.n_reads;
        collect(call, first, &o);
    }
    weft__vulkan_mark(d, o.reads, o.n_reads, o.writes, o.n_writes);
}

/* Whether the previous launch belongs to the same call. A call's address stays valid until the wait
 * that ends its evaluation, which clears it. */
static bool follows(const weft__vulkan_stream *s, const weft_call *call)
{
    return s->last_call == call && s->last_out == call->out[0].buffer;
}

static void record_now(weft__vulkan_device *d, const weft_call *call,
                       const weft__vulkan_launch *launch, VkPipeline pipeline)
{
    weft__vulkan_dispatched c = {.pipeline = pipeline,
                                 .push = launch->push,
                                 .push_bytes = launch->push_bytes,
                                 .launches = 1,
                                 .op = call->op->name,
                                 .variant = weft_kernel_variant()};
    spread(&d->physical.properties.limits, launch->groups, c.groups);
    weft__vulkan_command(d, &c);
}

static weft_status record_launch(weft__vulkan_device *d, const weft_call *call,
                                 const weft__vulkan_launch *launch, double work,
                                 weft__vulkan_pipeline *pipeline, VkPipeline handle)
{
    weft__vulkan_stream *s = &d->stream;
    weft_status status = WEFT_OK;
    weft__vulkan_slot *slot = weft__vulkan_slot_open(d);
    if (slot && weft__vulkan_pace_is_full(&s->pace, &slot->load, pipeline, work)) {
        slot = weft__vulkan_submit(d) == WEFT_OK ? weft__vulkan_slot_open(d) : NULL;
    }
    if (!slot) {
        return weft_error_status();
    }
    if (!launch->independent || !follows(s, call)) {
        order_all(d, call);
    }
    if (weft__vulkan_pace_is_measured(&s->pace, &slot->load, pipeline, work)) {
        weft__vulkan_profile_start(d, slot);
    }
    weft__vulkan_pace_add(&s->pace, &slot->load, pipeline, work);
    s->last_call = call;
    s->last_out = call->out[0].buffer;
    s->counts.launches++;
    s->counts.on_cores += launch->subgroup > 0;
    const bool waits = weft__vulkan_batch_takes(d, launch);
    if (waits) {
        status = weft__vulkan_batch_add(d, launch, pipeline, call->op->name);
        if (status != WEFT_OK) {
            return status;
        }
    } else {
        record_now(d, call, launch, handle);
    }
    note_all(d, call);
    return weft__vulkan_recorded(d, waits ? 0 : 1);
}

/* Each piece is finished, and so measured, before the next one, and the last one before other
 * launches, which may reuse the memory of records. */
static weft_status record_pieces(weft__vulkan_device *d, const weft_call *call,
                                 const weft__vulkan_launch *launch, double work,
                                 weft__vulkan_pipeline *pipeline, VkPipeline handle)
{
    const uint32_t most = d->physical.properties.limits.maxComputeWorkGroupCount[0];
    const double each = work / (double)launch->groups;
    unsigned char push[WEFT__VULKAN_MAX_PUSH];
    memcpy(push, launch->push, launch->push_bytes);
    weft__vulkan_launch piece = *launch;
    piece.push = push;
    double slowest = 0;
    weft_status status = WEFT_OK;
    for (uint64_t first = 0; status == WEFT_OK && first < launch->groups; first += piece.groups) {
        const uint64_t rest = launch->groups - first,
                       n = weft__vulkan_pace_groups(&d->stream.pace, pipeline, each * (double)rest,
                                                    rest);
        const uint32_t word = (uint32_t)first;
        memcpy(push + launch->first_at, &word, sizeof word);
        piece.groups = n < most ? n : most;
        status = record_launch(d, call, &piece, each * (double)piece.groups, pipeline, handle);
        piece.independent = true;
        if (status == WEFT_OK) {
            status = weft__vulkan_submit(d);
        }
        if (status == WEFT_OK) {
            status = weft__vulkan_wait_for(d, d->stream.submitted);
        }
        weft__vulkan_pace_piece(pipeline, &slowest);
    }
    return status;
}

static weft_status record(weft__vulkan_device *d, const weft_call *call,
                          const weft__vulkan_launch *launch)
{
    weft__vulkan_pipeline *pipeline = weft__vulkan_pipeline_find(d, launch);
    if (pipeline && !pipeline->handles[WEFT__VULKAN_ONE]) {
        weft__vulkan_precompile(d, call);
    }
    VkPipeline handle;
    const weft_status status =
        pipeline ? weft__vulkan_pipeline_get(d, pipeline, WEFT__VULKAN_ONE, &handle) : WEFT_MEMORY;
    if (status != WEFT_OK) {
        return status;
    }
    const double work = launch->work > 0 ? launch->work : weft__vulkan_pace_work(call, launch);
    const bool divided =
        launch->first_at > 0 &&
        weft__vulkan_pace_groups(&d->stream.pace, pipeline, work, launch->groups) < launch->groups;
    return divided ? record_pieces(d, call, launch, work, pipeline, handle)
                   : record_launch(d, call, launch, work, pipeline, handle);
}

/* Notes for the slots with records of the call that a command reads them, which is submitted with
 * the open slot at the latest. */
static void need_records(weft__vulkan_stream *s, const weft_call *call)
{
    for (int i = 0; s->record_out == call->out[0].buffer && i < WEFT__VULKAN_SLOTS; i++) {
        if (s->record_slots >> i & 1) {
            s->slots[i].needed = s->submitted + 1;
        }
    }
}

weft_status weft__vulkan_dispatch(const weft_call *call, const weft__vulkan_launch *launch)
{
    weft__vulkan_device *d = device_of(call);
    assert(launch->push_bytes <= WEFT__VULKAN_MAX_PUSH && launch->push_bytes % 4 == 0);
    assert(launch->n_constants <= WEFT__VULKAN_MAX_CONSTANTS);
    if (launch->groups == 0) {
        return WEFT_OK;
    }
    if (weft__vulkan_is_dry_run()) {
        weft__vulkan_dry_launch(call, launch);
        return WEFT_OK;
    }
    pthread_mutex_lock(&d->stream.lock);
    weft_status status = record(d, call, launch);
    need_records(&d->stream, call);
    pthread_mutex_unlock(&d->stream.lock);
    return status;
}

/* ---- faults and records --------------------------------------------------------------------- */

uint64_t weft__vulkan_fault(const weft_call *call)
{
    return device_of(call)->stream.fault.address;
}

uint32_t weft__vulkan_fault_code(const weft_call *call, const char *format, int64_t limit)
{
    weft__vulkan_stream *s = &device_of(call)->stream;
    if (weft__vulkan_is_dry_run()) {
        return 1;
    }
    pthread_mutex_lock(&s->lock);
    int i = 0;
    while (i < s->n_faults && (s->faults[i].format != format || s->faults[i].op != call->op->name ||
                               s->faults[i].limit != limit)) {
        i++;
    }
    if (i ==
        WEFT__VULKAN_FAULTS) { /* the table is full: reports it with the text of another kind */
        i--;
    } else if (i == s->n_faults) {
        s->faults[s->n_faults++] = (weft__vulkan_fault_kind){format, call->op->name, limit};
    }
    pthread_mutex_unlock(&s->lock);
    return (uint32_t)i + 1;
}

static uint64_t write_record(weft__vulkan_device *d, const void *from, uint32_t bytes)
{
    weft__vulkan_slot *slot = weft__vulkan_records_reserve(d, bytes);
    if (!slot) {
        return 0;
    }
    memcpy(slot->records.host + slot->records_used, from, bytes);
    uint64_t address = slot->records.address + slot->records_used;
    slot->records_used += (bytes + 63) / 64 * 64;
    return address;
}

uint64_t weft__vulkan_record(const weft_call *call, const void *from, uint32_t bytes)
{
    weft__vulkan_device *d = device_of(call);
    assert(bytes <= WEFT__VULKAN_RECORDS);
    if (weft__vulkan_is_dry_run()) {
        return d->stream.fault.address; /* as aligned as a record */
    }
    weft__vulkan_stream *s = &d->stream;
    pthread_mutex_lock(&s->lock);
    uint64_t address = write_record(d, from, bytes);
    s->record_slots =
        (s->record_out == call->out[0].buffer ? s->record_slots : 0) | 1u << s->current;
    s->record_out = call->out[0].buffer;
    pthread_mutex_unlock(&s->lock);
    return address;
}
