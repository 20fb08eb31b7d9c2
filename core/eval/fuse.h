/* core/eval/fuse.h -- fuses chains of elementwise ops into one step of a plan. */
#ifndef CORE_EVAL_FUSE_H
#define CORE_EVAL_FUSE_H

#include "core/eval/plan.h"

/* Nodes merged into one tape over `inputs`. */
typedef struct weft__fusion {
    weft_array *last; /* the node that the tape computes; NULL: the tape computes formula.x */
    weft_array *nodes[WEFT_TAPE_MAX_STEPS + 1];
    bool kept[WEFT_TAPE_MAX_STEPS +
              1]; /* per node: it stays lazy, to be computed again when needed */
    int n_nodes;
    weft_array *inputs[WEFT_TAPE_MAX_OPERANDS];
    int n_inputs;
    weft_tape tape;
    weft_tape_part parts[WEFT_TAPE_MAX_STEPS + 1]; /* by node */
    weft_call_formula formula;
} weft__fusion;

/* Whether computing the node can be deferred, because its only reader may compute it; sets the
 * node's entry. If something else needs the elements, it plans the node then. *stranded: an input
 * is deferred too, but cannot become a part of the node. */
bool weft__fuse_defers(weft__plan *plan, weft_array *node, bool *stranded);

/* Whether the input is deferred and can become a part of `node`. */
bool weft__fuse_waits(weft__plan *plan, const weft_array *node, weft_array *input);

/* Merges the node with its deferred inputs. NULL when none is deferred. */
weft__fusion *weft__fuse(weft__plan *plan, weft_array *node);

/* Merges the deferred input of a node with one input, and the input's own deferred inputs, into a
 * formula that a kernel of the node (*row) takes. NULL when that is not possible. */
weft__fusion *weft__fuse_input(weft__plan *plan, weft_array *node, const weft_kernel_row **row);

/* Consumes the edges of the merged nodes, which never have elements of their own: they are spent,
 * or stay lazy with their inputs if they are readable. The caller consumes the edges of `node`,
 * into which they were merged. */
weft_status weft__fuse_consume(weft__plan *plan, const weft__fusion *f, const weft_array *node);

/* The number of edges to an input from merged nodes that do not stay lazy. */
int weft__fusion_edges(const weft__fusion *f, const weft_array *input);

#endif
