/* core/eval/plan.c -- the book-keeping of a plan: entries, simulated references, memory. */
#include "core/eval/plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/shape.h"

/* ---- arena ------------------------------------------------------------------------------------- */

enum { ARENA_BLOCK = 1 << 16 };

struct weft__arena {
    struct weft__arena *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

void *weft__plan_alloc(weft__plan *plan, size_t size)
{
    size = (size + 15) / 16 * 16;
    struct weft__arena *block = plan->arena;
    if (!block || block->size - block->used < size) {
        size_t room = size > ARENA_BLOCK ? size : ARENA_BLOCK;
        block = weft_calloc(1, sizeof *block + room);
        if (!block) {
            weft_fail(WEFT_MEMORY, "eval: out of memory");
            return NULL;
        }
        block->size = room;
        block->next = plan->arena;
        plan->arena = block;
    }
    void *p = block->bytes + block->used;
    block->used += size;
    return p;
}

/* ---- growing lists ------------------------------------------------------------------------------- */

static bool append(weft__buffer ***list, int64_t *count, int64_t *capacity, weft__buffer *b)
{
    if (*count == *capacity) {
        int64_t larger = *capacity ? 2 * *capacity : 64;
        weft__buffer **grown = weft_realloc(*list, (size_t)larger * sizeof *grown);
        if (!grown) {
            weft_fail(WEFT_MEMORY, "eval: out of memory");
            return false;
        }
        *list = grown;
        *capacity = larger;
    }
    (*list)[(*count)++] = b;
    return true;
}

/* ---- buffers in the simulation -------------------------------------------------------------------- */

int weft__plan_refs(weft__plan *plan, weft__buffer *b)
{
    if (b->plan != plan->id) {
        if (!append(&plan->touched, &plan->n_touched, &plan->touched_capacity, b)) {
            return -1;
        }
        b->plan = plan->id;
        b->plan_refs = atomic_load(&b->refs);
        weft__buffer_ref(b); /* the plan's own, which the simulation does not count */
    }
    return b->plan_refs;
}

void weft__plan_ref(weft__buffer *b)
{
    b->plan_refs++;
}

bool weft__plan_unref(weft__plan *plan, weft__buffer *b)
{
    if (--b->plan_refs > 0 || !b->owned) {
        return true;
    }
    return append(&plan->idle, &plan->n_idle, &plan->idle_capacity, b);
}

/* An idle buffer that fits without wasting more than half of it. */
static weft__buffer *reuse(weft__plan *plan, weft_device *device, int64_t bytes)
{
    int64_t best = -1;
    for (int64_t i = plan->n_idle - 1; i >= 0; i--) {
        const weft__buffer *b = plan->idle[i];
        bool fits = b->device == device && b->bytes >= bytes && b->bytes <= 2 * bytes;
        if (fits && (best < 0 || b->bytes < plan->idle[best]->bytes)) {
            best = i;
            if (b->bytes == bytes) {
                break;
            }
        }
    }
    if (best < 0) {
        return NULL;
    }
    weft__buffer *b = plan->idle[best];
    plan->idle[best] = plan->idle[--plan->n_idle];
    return b;
}

weft__buffer *weft__plan_buffer(weft__plan *plan, weft_device *device, int64_t bytes,
                                const char *label, const weft_spec *spec)
{
    int64_t rounded = weft__bucket_bytes(bytes);
    weft__buffer *b = reuse(plan, device, rounded);
    if (b) {
        b->plan_refs = 1;
        return b;
    }
    b = weft__buffer_new(device, rounded, false, label, spec);
    if (!b) {
        return NULL;
    }
    /* The reference of creation becomes the plan's own. */
    if (!append(&plan->touched, &plan->n_touched, &plan->touched_capacity, b)) {
        weft__buffer_unref(b);
        return NULL;
    }
    b->plan = plan->id;
    b->plan_refs = 1;
    return b;
}

/* ---- entries --------------------------------------------------------------------------------------- */

static bool copy_views(weft__plan *plan, weft_array *a, weft__entry *e)
{
    e->views = weft__plan_alloc(plan, (size_t)a->n_outputs * sizeof(weft__view));
    if (!e->views) {
        return false;
    }
    for (int i = 0; i < a->n_outputs; i++) {
        e->views[i] = a->outs[i].view;
        if (weft__plan_refs(plan, a->outs[i].view.buffer) < 0) {
            return false;
        }
    }
    return true;
}

weft__entry *weft__plan_entry(weft__plan *plan, weft_array *a)
{
    bool added;
    int64_t index = weft__map_index(&plan->map, a, &added);
    if (index < 0) {
        weft_fail(WEFT_MEMORY, "eval: out of memory");
        return NULL;
    }
    if (!added) {
        return &plan->entries[index];
    }
    if (index == plan->entry_capacity) {
        int64_t larger = index ? 2 * index : 64;
        weft__entry *grown = weft_realloc(plan->entries, (size_t)larger * sizeof *grown);
        if (!grown) {
            plan->map.count--; /* the entry that has no room; the plan is discarded */
            weft_fail(WEFT_MEMORY, "eval: out of memory");
            return NULL;
        }
        plan->entries = grown;
        plan->entry_capacity = larger;
    }
    weft__entry *e = &plan->entries[index];
    *e = (weft__entry){.internal = a->seq >= plan->first_internal};
    weft__ref(a);
    if (a->state == WEFT__EVALUATED && !copy_views(plan, a, e)) {
        return NULL;
    }
    return e;
}

static int released_holds(const weft__plan *plan, const weft_array *a)
{
    int n = 0;
    for (int i = 0; i < plan->n_released; i++) {
        n += plan->released[i] == a;
    }
    return n;
}

bool weft__plan_would_spend(weft__plan *plan, weft_array *a, int edges)
{
    if (a->leaf && a->seq < plan->first_internal && a->scope) {
        return false; /* a constant that the caller can still see */
    }
    weft__entry *e = weft__plan_entry(plan, a);
    return e && e->views && atomic_load(&a->uses) - e->consumed - edges == 0 &&
           atomic_load(&a->holds) - released_holds(plan, a) == 0;
}

weft_status weft__plan_maybe_spend(weft__plan *plan, weft_array *a)
{
    weft__entry *e = weft__plan_entry(plan, a);
    if (!e) {
        return WEFT_MEMORY;
    }
    if (e->spent || !weft__plan_would_spend(plan, a, 0)) {
        return WEFT_OK;
    }
    e->spent = true;
    for (int i = 0; i < a->n_outputs; i++) {
        if (!weft__plan_unref(plan, e->views[i].buffer)) {
            return WEFT_MEMORY;
        }
    }
    return WEFT_OK;
}

/* ---- making, committing, forgetting ------------------------------------------------------------------ */

static atomic_uint_fast64_t next_plan = 1;

typedef struct planned_check {
    weft__plan *plan;
} planned_check;

static bool already_planned(const void *context, weft_array *a)
{
    const planned_check *check = context;
    int64_t index = weft__map_index(&check->plan->map, a, NULL);
    return index >= 0 && check->plan->entries[index].planned;
}

/* Evaluated nodes that a gradient retains still have their op, but nothing to compute. */
static bool has_elements(const void *context, weft_array *a)
{
    return a->state != WEFT__LAZY || already_planned(context, a);
}

weft_status weft__plan_graph(weft__plan *plan, weft_array *const *roots, int n)
{
    planned_check check = {plan};
    weft__map nodes;
    if (!weft__collect(roots, n, has_elements, &check, &nodes)) {
        return weft_fail(WEFT_MEMORY, "eval: out of memory");
    }
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < nodes.count && status == WEFT_OK; i++) {
        status = weft__plan_node(plan, nodes.keys[i]);
    }
    weft__map_free(&nodes);
    return status;
}

weft_status weft__plan_make(weft__plan *plan, weft_array *const *roots, int n)
{
    plan->id = atomic_fetch_add(&next_plan, 1);
    return weft__plan_graph(plan, roots, n);
}

static void commit_views(weft_array *a, const weft__entry *e)
{
    for (int i = 0; i < a->n_outputs; i++) {
        a->outs[i].view = e->views[i];
        weft__buffer_ref(e->views[i].buffer);
    }
    a->state = WEFT__EVALUATED;
}

static void commit_spent(weft_array *a)
{
    for (int i = 0; i < a->n_outputs; i++) {
        weft__buffer_unref(a->outs[i].view.buffer);
        a->outs[i].view.buffer = NULL;
    }
    a->state = WEFT__SPENT;
}

void weft__plan_commit(weft__plan *plan)
{
    plan->committed = true;
    for (int64_t i = 0; i < plan->n_touched; i++) {
        weft__buffer_busy(plan->touched[i], 1);
    }
    for (int64_t i = 0; i < plan->map.count; i++) {
        if (plan->entries[i].planned) {
            commit_views(plan->map.keys[i], &plan->entries[i]);
        }
    }
    for (int64_t i = 0; i < plan->map.count; i++) {
        const weft__entry *e = &plan->entries[i];
        if (e->planned && (!plan->retain || e->internal)) {
            weft__detach(plan->map.keys[i]);
        }
        if (e->spent) {
            commit_spent(plan->map.keys[i]);
        }
    }
    /* What remains referenced belongs to arrays; what does not goes to the cache, still busy. */
    for (int64_t i = 0; i < plan->n_touched; i++) {
        weft__buffer_unref(plan->touched[i]);
    }
}

void weft__plan_free(weft__plan *plan)
{
    for (int64_t i = 0; i < plan->n_touched; i++) {
        if (plan->committed) {
            weft__buffer_busy(plan->touched[i], -1);
        } else {
            weft__buffer_unref(plan->touched[i]);
        }
    }
    for (int64_t i = 0; i < plan->map.count; i++) {
        weft__unref(plan->map.keys[i]);
    }
    while (plan->arena) {
        struct weft__arena *next = plan->arena->next;
        weft_free(plan->arena);
        plan->arena = next;
    }
    weft__map_free(&plan->map);
    weft_free(plan->entries);
    weft_free(plan->touched);
    weft_free(plan->idle);
}
