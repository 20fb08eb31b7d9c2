/* core/node.c -- memory and reference counts of nodes. Freeing is iterative, so deep graphs need no
 * stack. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/debug.h"
#include "core/failpoint.h"
#include "core/graph.h"

/* ---- memory --------------------------------------------------------------------------------- */

/* Graphs are built and freed all the time, so each thread keeps some freed nodes by size. Disabled
 * under sanitizers, which then see every use of a freed node. */
enum { GRAIN = 64, LARGEST = 2048 / GRAIN, KEPT_BYTES = 2 << 20 };

#if defined(__SANITIZE_ADDRESS__)
enum { KEEPS = 0 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
enum { KEEPS = 0 };
#else
enum { KEEPS = 1 };
#endif
#else
enum { KEEPS = 1 };
#endif

typedef struct kept_node {
    struct kept_node *next;
} kept_node;

static _Thread_local struct {
    kept_node *first[LARGEST + 1]; /* by grains */
    int64_t bytes;
    enum { UNUSED, OPEN, CLOSED } state; /* CLOSED: the thread is ending and keeps nothing */
} kept;

static pthread_key_t thread_end;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;

static void free_kept(void *unused)
{
    (void)unused;
    kept.state = CLOSED;
    for (int i = 0; i <= LARGEST; i++) {
        while (kept.first[i]) {
            kept_node *next = kept.first[i]->next;
            weft_free(kept.first[i]);
            kept.first[i] = next;
        }
    }
}

static void make_key(void)
{
    pthread_key_create(&thread_end, free_kept);
}

/* For the thread that calls exit, whose thread-specific data is not destroyed. */
__attribute__((destructor)) static void free_kept_at_exit(void)
{
    free_kept(NULL);
}

weft_array *weft__node_alloc(size_t size)
{
    if (weft__allocation_fails()) {
        return NULL;
    }
    const size_t grains = (size + GRAIN - 1) / GRAIN;
    void *block = NULL;
    if (KEEPS && grains <= LARGEST && kept.first[grains]) {
        block = kept.first[grains];
        kept.first[grains] = kept.first[grains]->next;
        kept.bytes -= (int64_t)grains * GRAIN;
    } else {
        block = malloc(grains * GRAIN);
    }
    if (block) {
        memset(block, 0, size);
        ((weft_array *)block)->grains = (int)grains;
    }
    return block;
}

static bool may_keep(int64_t bytes)
{
    if (kept.state == UNUSED) {
        kept.state = OPEN;
        pthread_once(&thread_end_once, make_key);
        pthread_setspecific(thread_end, &kept);
    }
    return kept.state == OPEN && kept.bytes + bytes <= KEPT_BYTES;
}

void weft__node_free(weft_array *a)
{
    const int grains = a->grains;
    if (KEEPS && grains <= LARGEST && may_keep((int64_t)grains * GRAIN)) {
        kept_node *node = (kept_node *)(void *)a;
        node->next = kept.first[grains];
        kept.first[grains] = node;
        kept.bytes += (int64_t)grains * GRAIN;
    } else {
        weft_free(a);
    }
}

/* ---- references ----------------------------------------------------------------------------- */

/* Adds references to one of several outputs. If it had none, it now keeps the node in memory. */
static void gain(weft_array *a, uint_fast64_t what)
{
    if (a->n_outputs == 1) {
        atomic_fetch_add(&a->counts, what);
    } else if (atomic_fetch_add(&a->counts, what) % WEFT__USE == 0) {
        atomic_fetch_add(&a->first->alive, 1);
    }
}

void weft__ref(weft_array *a)
{
    gain(a, WEFT__REF);
}

bool weft__ref_if_alive(weft_array *a)
{
    uint_fast64_t counts = atomic_load(&a->counts);
    while (counts % WEFT__USE > 0) {
        if (atomic_compare_exchange_weak(&a->counts, &counts, counts + WEFT__REF)) {
            return true;
        }
    }
    return false;
}

void weft__connect(weft_array *input)
{
    gain(input, WEFT__EDGE);
}

void weft__hold(weft_array *a)
{
    atomic_fetch_add(&a->holds, 1);
    weft__ref(a);
}

void weft__unhold(weft_array *a)
{
    atomic_fetch_sub(&a->holds, 1);
    weft__unref(a);
}

static void release_view(weft_array *a)
{
    if (a->view.buffer) {
        weft__buffer_unref(a->view.buffer);
        a->view.buffer = NULL;
    }
}

/* Drops references to one of several outputs. True: no output has any left. An evaluated output
 * without references loses its elements; one of a node with a graph can still be picked. */
static __attribute__((noinline)) bool drop_output(weft_array *a, uint_fast64_t what)
{
    if (atomic_fetch_sub(&a->counts, what) % WEFT__USE != 1) {
        return false;
    }
    a->picked = false;
    if (!a->op) {
        atomic_store_explicit(&a->state, WEFT__SPENT, memory_order_release);
        release_view(a);
    }
    return atomic_fetch_sub(&a->first->alive, 1) == 1;
}

/* Drops one reference, or an edge. A node without references is added to the list `dead`, linked
 * through `params`, which such a node no longer needs. A sole owner of a node with one output needs
 * no atomic operation. */
static inline void drop(weft_array *a, uint_fast64_t what, weft_array **dead)
{
    const bool last = a->n_outputs == 1 ? weft__refs(a) == 1 ||
                                              atomic_fetch_sub(&a->counts, what) % WEFT__USE == 1
                                        : drop_output(a, what);
    if (last) {
        a = a->first;
        a->params = *dead;
        *dead = a;
    }
}

static inline void drop_inputs(weft_array *a, weft_array **dead)
{
    for (int i = 0; i < a->n_inputs; i++) {
        drop(a->inputs[i], WEFT__EDGE, dead);
    }
    a->n_inputs = 0;
    for (int o = 1; o < a->n_outputs; o++) {
        a[o].n_inputs = 0;
    }
}

void weft__free_detached(weft_array *dead)
{
    while (dead) {
        weft_array *a = dead;
        dead = a->params;
        drop_inputs(a, &dead);
        for (int o = 0; o < a->n_outputs; o++) {
            release_view(&a[o]);
            if (a[o].error) {
                weft_free(a[o].error);
            }
        }
        if (a->origin) {
            weft__debug_retire(a);
        } else {
            weft__node_free(a);
        }
    }
}

void weft__unref(weft_array *a)
{
    weft_array *dead = NULL;
    drop(a, WEFT__REF, &dead);
    weft__free_detached(dead);
}

void weft__disconnect(weft_array *input)
{
    weft_array *dead = NULL;
    drop(input, WEFT__EDGE, &dead);
    weft__free_detached(dead);
}

void weft__detach_later(weft_array *a, weft_array **dead)
{
    drop_inputs(a, dead);
    if (a->origin && a->op) {
        a->origin->op = a->op->name;
    }
    for (int o = 0; o < a->n_outputs; o++) {
        a[o].op = NULL;
    }
}

void weft__detach(weft_array *a)
{
    weft_array *dead = NULL;
    weft__detach_later(a, &dead);
    weft__free_detached(dead);
}
