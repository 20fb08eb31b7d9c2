/* backends/vulkan/precompile.c -- finds the pipelines that the rest of a plan needs, and compiles
 * them on all cores before the plan continues. */
#include "backends/vulkan/precompile.h"

#include "backends/vulkan/device.h"
#include "weft/memory.h"

enum { MOST_WRITTEN = 64 };

/* The batches are predicted as they would be recorded: a launch that reads or writes what an
 * earlier one wrote ends them. */
typedef struct dry_run {
    weft__vulkan_device *d;
    weft__vulkan_missing *missing;
    int n, capacity;
    const weft__vulkan_pipeline *batches[WEFT__VULKAN_BATCHES];
    int n_batches;
    const void *written[MOST_WRITTEN]; /* buffers, since the last barrier */
    int n_written;
    const weft_call *last;
} dry_run;

static _Thread_local dry_run *current;

bool weft__vulkan_is_dry_run(void)
{
    return current != NULL;
}

/* Out of memory: the variant is compiled when it is needed. */
static void want(dry_run *r, weft__vulkan_pipeline *pipeline, weft__vulkan_variant variant)
{
    if (pipeline->handles[variant] || pipeline->requested[variant]) {
        return;
    }
    if (r->n == r->capacity) {
        const int larger = r->capacity ? 2 * r->capacity : 64;
        weft__vulkan_missing *grown = weft_realloc(r->missing, (size_t)larger * sizeof *r->missing);
        if (!grown) {
            return;
        }
        r->missing = grown;
        r->capacity = larger;
    }
    pipeline->requested[variant] = true;
    r->missing[r->n++] = (weft__vulkan_missing){pipeline, variant};
}

static bool is_written(const dry_run *r, const void *buffer)
{
    int i = 0;
    while (i < r->n_written && r->written[i] != buffer) {
        i++;
    }
    return buffer && i < r->n_written;
}

static bool needs_barrier(const dry_run *r, const weft_call *call)
{
    bool needed =
        r->n_written + WEFT_MAX_OUTPUTS >= MOST_WRITTEN || is_written(r, call->workspace_buffer);
    for (int i = 0; i < call->n_inputs && !needed; i++) {
        needed = is_written(r, call->in[i].buffer);
    }
    for (int i = 0; i < call->n_outputs && !needed; i++) {
        needed = is_written(r, call->out[i].buffer);
    }
    return needed;
}

static void note_written(dry_run *r, const weft_call *call)
{
    for (int i = 0; i < call->n_outputs; i++) {
        r->written[r->n_written++] = call->out[i].buffer;
    }
    if (call->workspace_buffer) {
        r->written[r->n_written++] = call->workspace_buffer;
    }
}

/* Whether another launch of the pipeline waits; afterwards this one does. */
static bool joins_batch(dry_run *r, const weft__vulkan_pipeline *pipeline)
{
    for (int i = 0; i < r->n_batches; i++) {
        if (r->batches[i] == pipeline) {
            return true;
        }
    }
    r->n_batches = r->n_batches < WEFT__VULKAN_BATCHES ? r->n_batches : 0;
    r->batches[r->n_batches++] = pipeline;
    return false;
}

void weft__vulkan_dry_launch(const weft_call *call, const weft__vulkan_launch *launch)
{
    dry_run *r = current;
    weft__vulkan_pipeline *pipeline = weft__vulkan_pipeline_find(r->d, launch);
    if (!pipeline) {
        return;
    }
    want(r, pipeline, WEFT__VULKAN_ONE);
    if (call != r->last || !launch->independent) {
        if (needs_barrier(r, call)) {
            r->n_batches = r->n_written = 0;
        }
        note_written(r, call);
    }
    r->last = call;
    if (weft__vulkan_batch_takes(r->d, launch) && joins_batch(r, pipeline)) {
        want(r, pipeline, WEFT__VULKAN_MANY);
    }
}

void weft__vulkan_precompile(weft__vulkan_device *d, const weft_call *call)
{
    dry_run r = {.d = d};
    current = &r;
    weft_dry_run_kernels(call);
    current = NULL;
    weft__vulkan_pipelines_compile(d, r.missing, r.n);
    weft_free(r.missing);
}
