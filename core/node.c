/* core/node.c -- nodes: their memory, and references to them; freeing is iterative, so that deep
 * graphs need no stack. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/failpoint.h"
#include "core/graph.h"

/* ---- memory --------------------------------------------------------------------------------- */

/* Graphs are built and freed over and over, so a thread keeps the memory of some nodes that it
 * freed, by size. Not where a sanitizer is to see every use of a freed node. */
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
    enum { UNUSED, OPEN, CLOSED } state; /* CLOSED: the thread is ending, nothing is kept */
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

/* Of the thread that calls exit, which ends without its keys' destructors. */
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

void weft__ref(weft_array *a)
{
    atomic_fetch_add(&a->counts, WEFT__REF);
}

void weft__connect(weft_array *input)
{
    atomic_fetch_add(&input->counts, WEFT__EDGE);
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

static void release_views(weft_array *a)
{
    for (int i = 0; i < a->n_outputs; i++) {
        if (a->outs[i].view.buffer) {
            weft__buffer_unref(a->outs[i].view.buffer);
            a->outs[i].view.buffer = NULL;
        }
    }
}

/* Gives up one reference, or an edge. A node without references joins the chain of the dead, linked
 * through `params`, for which a dead node has no other use. Who has the only reference shares the
 * counts with nobody. */
static void drop(weft_array *a, uint_fast64_t what, weft_array **dead)
{
    const bool last = weft__refs(a) == 1 || atomic_fetch_sub(&a->counts, what) % WEFT__USE == 1;
    if (last) {
        a->params = *dead;
        *dead = a;
    }
}

static void drop_inputs(weft_array *a, weft_array **dead)
{
    for (int i = 0; i < a->n_inputs; i++) {
        drop(a->inputs[i], WEFT__EDGE, dead);
    }
    a->n_inputs = 0;
}

void weft__bury(weft_array *dead)
{
    while (dead) {
        weft_array *a = dead;
        dead = a->params;
        drop_inputs(a, &dead);
        release_views(a);
        if (a->error) {
            weft_free(a->error);
        }
        weft__node_free(a);
    }
}

void weft__unref(weft_array *a)
{
    weft_array *dead = NULL;
    drop(a, WEFT__REF, &dead);
    weft__bury(dead);
}

void weft__disconnect(weft_array *input)
{
    weft_array *dead = NULL;
    drop(input, WEFT__EDGE, &dead);
    weft__bury(dead);
}

void weft__detach_later(weft_array *a, weft_array **dead)
{
    drop_inputs(a, dead);
    a->op = NULL;
}

void weft__detach(weft_array *a)
{
    weft_array *dead = NULL;
    weft__detach_later(a, &dead);
    weft__bury(dead);
}
