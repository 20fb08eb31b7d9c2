/* core/node.c -- references to nodes; freeing is iterative, so that deep graphs need no stack. */
#include "core/graph.h"

void weft__ref(weft_array *a)
{
    atomic_fetch_add(&a->refs, 1);
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

/* Gives up one reference. A node that reaches zero joins the chain of the dead, linked through
 * `params`, for which a dead node has no other use. */
static void drop(weft_array *a, weft_array **dead)
{
    if (atomic_fetch_sub(&a->refs, 1) == 1) {
        a->params = *dead;
        *dead = a;
    }
}

static void drop_inputs(weft_array *a, weft_array **dead)
{
    for (int i = 0; i < a->n_inputs; i++) {
        atomic_fetch_sub(&a->inputs[i]->uses, 1);
        drop(a->inputs[i], dead);
    }
    a->n_inputs = 0;
}

static void bury(weft_array *dead)
{
    while (dead) {
        weft_array *a = dead;
        dead = a->params;
        drop_inputs(a, &dead);
        release_views(a);
        weft_free(a->error);
        weft_free(a);
    }
}

void weft__unref(weft_array *a)
{
    weft_array *dead = NULL;
    drop(a, &dead);
    bury(dead);
}

void weft__detach(weft_array *a)
{
    weft_array *dead = NULL;
    drop_inputs(a, &dead);
    a->op = NULL;
    bury(dead);
}
