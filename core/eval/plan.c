/* core/eval/plan.c -- plans: entries, simulated reference counts, and memory. */
#include "core/eval/plan.h"

#include <string.h>

#include "core/eval/profile.h"
#include "core/failure.h"
#include "core/shape.h"

/* ---- growing lists -------------------------------------------------------------------------- */

/* Grows the list, if it is full, for one more element. NULL: out of memory. */
static void *with_room(void *list, int64_t count, int64_t *capacity, size_t element)
{
    if (count < *capacity) {
        return list;
    }
    int64_t larger = *capacity ? 2 * *capacity : 64;
    void *grown = weft_realloc(list, (size_t)larger * element);
    if (!grown) {
        weft__out_of_memory("eval", NULL);
        return NULL;
    }
    *capacity = larger;
    return grown;
}

static bool append(weft__buffer ***list, int64_t *count, int64_t *capacity, weft__buffer *b)
{
    weft__buffer **grown = with_room(*list, *count, capacity, sizeof *grown);
    if (grown) {
        *list = grown;
        grown[(*count)++] = b;
    }
    return grown != NULL;
}

/* ---- simulated buffer references ------------------------------------------------------------- */

int weft__plan_add_buffer(weft__plan *plan, weft__buffer *b)
{
    if (!append(&plan->touched, &plan->n_touched, &plan->touched_capacity, b)) {
        return -1;
    }
    b->plan = plan->id;
    b->uploads = 0;
    /* In a program each run uses the memory, so it is never free for another purpose. */
    b->plan_refs = atomic_load(&b->refs) + (plan->stand_ins && !b->stand_in);
    weft__buffer_ref(b); /* the plan's own reference, which the simulation does not count */
    return b->plan_refs;
}

/* The idle buffers of one device, by bucket, latest first. Those that are filled from the host
 * beside kernels wait in a queue until `window` further bytes of such buffers were planned, so that
 * the next copies need not wait for the kernels that read the last ones. */
struct weft__idle {
    struct weft__idle *next;
    const weft_device *device;
    weft__buffer *buckets[WEFT__SIZE_BUCKETS];
    weft__buffer *uploads, **last_upload;
    int64_t uploaded, window;
};

static const int64_t UPLOAD_WINDOW = (int64_t)512 << 20;

static struct weft__idle *idle_of(const weft__plan *plan, const weft_device *device)
{
    struct weft__idle *idle = plan->idle;
    while (idle && idle->device != device) {
        idle = idle->next;
    }
    return idle;
}

static struct weft__idle *idle_new(weft__plan *plan, const weft_device *device)
{
    struct weft__idle *idle = weft__plan_alloc(plan, sizeof *idle);
    if (idle) {
        memset(idle, 0, sizeof *idle);
        idle->device = device;
        idle->last_upload = &idle->uploads;
        idle->next = plan->idle;
        plan->idle = idle;
    }
    return idle;
}

bool weft__plan_unref(weft__plan *plan, weft__buffer *b)
{
    if (--b->plan_refs > 0 || !b->owned) {
        return true;
    }
    struct weft__idle *idle = idle_of(plan, b->device);
    idle = idle ? idle : idle_new(plan, b->device);
    if (!idle) {
        return false;
    }
    if (b->uploads > 0) {
        b->uploads = idle->uploaded;
        b->idle_next = NULL;
        *idle->last_upload = b;
        idle->last_upload = &b->idle_next;
        return true;
    }
    weft__buffer **bucket = &idle->buckets[weft__bucket_index(b->bytes)];
    b->idle_next = *bucket;
    *bucket = b;
    return true;
}

static weft__buffer *pop_idle(weft__plan *plan, weft__buffer **bucket, int64_t most)
{
    weft__buffer *b = *bucket;
    plan->probes += b != NULL;
    if (!b || b->bytes > most) {
        return NULL;
    }
    *bucket = b->idle_next;
    return b;
}

/* An idle buffer of the same bucket, or of the next one if that is at most an eighth larger, since
 * a long-lived array may keep it. `bytes` is the size of a bucket, as is the size of every owned
 * buffer. */
static weft__buffer *reuse(weft__plan *plan, const weft_device *device, int64_t bytes)
{
    struct weft__idle *idle = idle_of(plan, device);
    if (!idle) {
        return NULL;
    }
    const int bucket = weft__bucket_index(bytes);
    weft__buffer *b = pop_idle(plan, &idle->buckets[bucket], bytes);
    if (!b && bucket + 1 < WEFT__SIZE_BUCKETS) {
        b = pop_idle(plan, &idle->buckets[bucket + 1], bytes + bytes / 8);
    }
    return b;
}

/* The same among the buffers that were filled beside kernels, if it was idle for long enough. */
static weft__buffer *reuse_upload(struct weft__idle *idle, int64_t bytes)
{
    if (idle->window == 0) {
        const int64_t memory = weft_device_memory(idle->device);
        idle->window = memory > 0 && memory / 16 < UPLOAD_WINDOW ? memory / 16 : UPLOAD_WINDOW;
    }
    idle->uploaded += bytes;
    for (weft__buffer **at = &idle->uploads; *at; at = &(*at)->idle_next) {
        weft__buffer *b = *at;
        if (idle->uploaded - b->uploads <= idle->window) {
            return NULL;
        }
        if (b->bytes >= bytes && b->bytes <= bytes + bytes / 8) {
            *at = b->idle_next;
            idle->last_upload = *at ? idle->last_upload : at;
            return b;
        }
    }
    return NULL;
}

weft__buffer *weft__plan_buffer(weft__plan *plan, weft_device *device, int64_t bytes,
                                const char *label, const weft_spec *spec)
{
    const bool uploading = plan->uploading;
    int64_t rounded = weft__bucket_bytes(bytes);
    struct weft__idle *idle = uploading ? idle_of(plan, device) : NULL;
    idle = uploading && !idle ? idle_new(plan, device) : idle;
    if (uploading && !idle) {
        return NULL;
    }
    weft__buffer *b = uploading ? reuse_upload(idle, rounded) : reuse(plan, device, rounded);
    if (b) {
        b->plan_refs = 1;
        return b;
    }
    b = plan->stand_ins ? weft__stand_in_new(plan->stand_ins, device, rounded, label, spec)
                        : weft__buffer_new(device, rounded, plan->owner, label, spec);
    if (!b) {
        return NULL;
    }
    /* The initial reference becomes the plan's own. */
    if (!append(&plan->touched, &plan->n_touched, &plan->touched_capacity, b)) {
        weft__buffer_unref(b);
        return NULL;
    }
    b->plan = plan->id;
    b->plan_refs = 1;
    b->uploads = uploading;
    return b;
}

/* ---- entries -------------------------------------------------------------------------------- */

static bool copy_view(weft__plan *plan, weft_array *a, weft__entry *e)
{
    e->view = weft__plan_alloc(plan, sizeof *e->view);
    if (!e->view) {
        return false;
    }
    *e->view = a->view;
    return weft__plan_refs(plan, a->view.buffer) >= 0;
}

static weft__entry *no_entry(weft__plan *plan)
{
    plan->failed = true;
    weft__out_of_memory("eval", NULL);
    return NULL;
}

weft__entry *weft__plan_add_entry(weft__plan *plan, weft_array *a)
{
    weft__entry *e = plan->failed ? NULL : weft__plan_alloc(plan, sizeof *e);
    if (!e) {
        return no_entry(plan);
    }
    *e = (weft__entry){.array = a, .internal = a->seq >= plan->first_internal};
    if (a->state == WEFT__EVALUATED && !copy_view(plan, a, e)) {
        return no_entry(plan);
    }
    a->plan = plan->id;
    a->plan_entry = e;
    *(plan->last_entry ? &plan->last_entry->next : &plan->entries) = e;
    plan->last_entry = e;
    return e;
}

/* Every reader computed the array itself, so it never has elements. */
static weft_status drop_offered(weft__plan *plan, weft__entry *e)
{
    e->planned = e->spent = true;
    weft__count(e->array->device, e->array->op, fused);
    return weft__plan_consume(plan, e->array);
}

weft_status weft__plan_maybe_spend(weft__plan *plan, weft__entry *e)
{
    if (e->offered && !e->planned && weft__uses(e->array) == e->consumed) {
        return drop_offered(plan, e);
    }
    if (e->spent || !weft__plan_would_spend(e, 0)) {
        return WEFT_OK;
    }
    e->spent = true;
    return weft__plan_unref(plan, e->view->buffer) ? WEFT_OK : WEFT_MEMORY;
}

weft_status weft__plan_settle(weft__plan *plan, weft_array *node)
{
    const bool retained = plan->retain && node->seq < plan->first_internal;
    weft_status status = WEFT_OK;
    for (int o = 0; o < node->n_outputs && status == WEFT_OK; o++) {
        weft__entry *e = weft__plan_entry(plan, &node[o]);
        e->planned = true;
        if (!retained && (e->internal || !e->array->picked)) {
            status = weft__plan_maybe_spend(plan, e);
        }
    }
    return status;
}

weft_status weft__plan_consume(weft__plan *plan, weft_array *node)
{
    if (plan->retain && node->seq < plan->first_internal) {
        return WEFT_OK;
    }
    for (int i = 0; i < node->n_inputs; i++) {
        weft__entry *e = weft__plan_entry(plan, node->inputs[i]);
        if (!e) {
            return WEFT_MEMORY;
        }
        e->consumed++;
    }
    for (int i = 0; i < node->n_inputs; i++) {
        weft_status status = weft__plan_maybe_spend(plan, weft__plan_entry(plan, node->inputs[i]));
        if (status != WEFT_OK) {
            return status;
        }
    }
    return WEFT_OK;
}

/* ---- making, committing, discarding ---------------------------------------------------------- */

static atomic_uint_fast64_t next_plan = 1;
static _Atomic int64_t last_probes;

int64_t weft__plan_last_probes(void)
{
    return atomic_load(&last_probes);
}

/* Appends the node of `a` unless it is planned. Evaluated nodes that a gradient retains still have
 * their op, but need no computation. */
static bool queue_node(weft__plan *plan, weft_array *a, int64_t graph)
{
    if (a->state != WEFT__LAZY) {
        return true;
    }
    a = a->first;
    weft__entry *e = weft__plan_entry(plan, a);
    if (!e || e->planned || e->queued == graph) {
        return e != NULL;
    }
    weft_array **grown = with_room(plan->nodes, plan->n_nodes, &plan->node_capacity, sizeof *grown);
    if (!grown) {
        return false;
    }
    plan->nodes = grown;
    grown[plan->n_nodes++] = a;
    e->queued = graph;
    return true;
}

/* Who reads the node's inputs. */
static void note_reader(weft__plan *plan, weft_array *node)
{
    for (int i = 0; i < node->n_inputs; i++) {
        weft_array *input = node->inputs[i];
        weft__entry *e = input->state == WEFT__LAZY ? weft__plan_entry(plan, input) : NULL;
        if (e) {
            e->firsts += i == 0 && (!e->reader || e->reader->op == node->op);
            e->edges++;
            e->reader = node;
        }
    }
}

weft_status weft__plan_graph(weft__plan *plan, weft_array *const *roots, int n)
{
    const int64_t start = plan->n_nodes, graph = ++plan->n_graphs;
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        ok = queue_node(plan, roots[i], graph);
    }
    for (int64_t i = start; i < plan->n_nodes && ok; i++) {
        weft_array *a = plan->nodes[i];
        for (int k = 0; k < a->n_inputs && ok; k++) {
            ok = queue_node(plan, a->inputs[k], graph);
        }
        note_reader(plan, a);
    }
    if (!ok) {
        return WEFT_MEMORY;
    }
    const int64_t end = plan->n_nodes;
    if (end > start) {
        weft__sort_by_seq(plan->nodes + start, end - start);
    }
    weft_status status = WEFT_OK;
    for (int64_t i = start; i < end && status == WEFT_OK; i++) {
        status = weft__plan_node(plan, plan->nodes[i]); /* appends the nodes of its expansion after
                                                         * `end` */
    }
    plan->n_nodes = start;
    return status;
}

weft_status weft__plan_make(weft__plan *plan, weft_array *const *roots, int n)
{
    plan->id = atomic_fetch_add(&next_plan, 1);
    for (int i = 0; i < plan->n_released; i++) {
        weft__entry *e = weft__plan_entry(plan, plan->released[i]);
        if (!e) {
            return WEFT_MEMORY;
        }
        e->released++;
    }
    weft_status status = weft__plan_graph(plan, roots, n);
    return status == WEFT_OK && plan->failed ? WEFT_MEMORY : status;
}

static void commit_view(weft_array *a, const weft__entry *e)
{
    a->view = *e->view;
    weft__buffer_ref(e->view->buffer);
    atomic_store_explicit(&a->state, WEFT__EVALUATED, memory_order_release);
}

static void commit_spent(weft_array *a)
{
    atomic_store_explicit(&a->state, WEFT__SPENT, memory_order_release);
    if (a->view.buffer) { /* NULL if it was created and spent within this plan */
        weft__buffer_unref(a->view.buffer);
        a->view.buffer = NULL;
    }
}

/* Whether the plan spends the array because a slot is about to release it. */
static bool is_released(const weft__entry *e)
{
    return e->spent && e->released > 0;
}

void weft__plan_commit(weft__plan *plan)
{
    plan->committed = true;
    atomic_store_explicit(&last_probes, plan->probes, memory_order_relaxed);
    for (int64_t i = 0; i < plan->n_touched; i++) {
        weft__buffer_begin(plan->touched[i]);
    }
    for (const weft__entry *e = plan->entries; e; e = e->next) {
        e->array->recompute = e->kept;
        if (is_released(e) && e->view) {
            weft__buffer_ref(e->view->buffer); /* restored if the run fails */
        }
        if (e->spent) {
            commit_spent(e->array);
        } else if (e->planned) {
            commit_view(e->array, e);
            if (plan->n_released > 0) {
                weft__ref(e->array); /* until weft__plan_finish */
            }
        }
        if (e->planned && e->array == e->array->first && (!plan->retain || e->internal)) {
            weft__detach_later(e->array, &plan->dead);
        }
    }
    /* Buffers that are still referenced belong to arrays. The others go to the cache, marked busy
     * until the run ends. */
    for (int64_t i = 0; i < plan->n_touched; i++) {
        weft__buffer_unref(plan->touched[i]);
    }
}

/* ---- after the run -------------------------------------------------------------------------- */

/* Turns an array that has lost its elements into an error array. */
static void fail_array(weft_array *a, weft_status status)
{
    if (a->view.buffer) {
        weft__buffer_unref(a->view.buffer);
        a->view.buffer = NULL;
    }
    a->status = status;
    a->error = weft_strdup(weft_error_message());
    if (!a->error) {
        a->error = weft_strdup("");
    }
    atomic_store_explicit(&a->state, WEFT__FAILED, memory_order_release);
}

static void fail_sharers(const weft__plan *plan, const weft__buffer *b, weft_status status)
{
    for (const weft__entry *e = plan->entries; e; e = e->next) {
        if (e->planned && !e->spent && e->array->view.buffer == b) {
            fail_array(e->array, status);
        }
    }
}

/* The reference that the commit took is returned to the array. Arrays that this plan computed
 * before it failed are not restored; fused ones never had elements. */
static void give_back_elements(const weft__plan *plan, weft__entry *e, weft_status status)
{
    weft_array *a = e->array;
    if (!e->view) {
        fail_array(a, status);
        return;
    }
    weft__buffer *b = e->view->buffer;
    a->view = *e->view;
    if (!e->planned && weft__plan_left_intact(plan, b)) {
        fail_sharers(plan, b, status);
    } else {
        atomic_store(&b->failed, true);
    }
    atomic_store_explicit(&a->state, WEFT__EVALUATED, memory_order_release);
}

void weft__plan_finish(weft__plan *plan, weft_status status)
{
    for (weft__entry *e = plan->n_released > 0 ? plan->entries : NULL; e; e = e->next) {
        if (is_released(e) && status != WEFT_OK) {
            give_back_elements(plan, e, status);
        }
    }
    for (weft__entry *e = plan->n_released > 0 ? plan->entries : NULL; e; e = e->next) {
        if (is_released(e) && status == WEFT_OK) {
            if (e->view) {
                weft__buffer_unref(e->view->buffer);
            }
        } else if (e->planned && !e->spent) {
            weft__unref(e->array);
        }
    }
}

void weft__plan_forget(weft__plan *plan)
{
    weft__free_detached(plan->dead);
    weft_free(plan->nodes);
    plan->entries = plan->last_entry = NULL;
    plan->dead = NULL;
    plan->nodes = NULL;
    plan->idle = NULL;
    plan->n_nodes = 0;
}

void weft__plan_free(weft__plan *plan)
{
    for (int64_t i = 0; i < plan->n_touched; i++) {
        if (plan->committed) {
            weft__buffer_end(plan->touched[i]);
        } else {
            weft__buffer_unref(plan->touched[i]);
        }
    }
    weft__plan_forget(plan);
    weft__arena_release(&plan->arena);
    weft_free(plan->touched);
}
