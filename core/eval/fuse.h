/* core/eval/fuse.h -- chains of elementwise ops as one step of a plan. */
#ifndef CORE_EVAL_FUSE_H
#define CORE_EVAL_FUSE_H

#include "core/eval/plan.h"

/* Nodes merged into one tape over `inputs`. */
typedef struct weft__fusion {
    weft_array *last; /* whose elements the tape gives; NULL: the tape gives formula.x */
    weft_array *nodes[WEFT_TAPE_MAX_STEPS + 1];
    bool kept[WEFT_TAPE_MAX_STEPS + 1]; /* by node: it stays lazy, to be computed again */
    int n_nodes;
    weft_array *inputs[WEFT_TAPE_MAX_OPERANDS];
    int n_inputs;
    weft_tape tape;
    weft_tape_part parts[WEFT_TAPE_MAX_STEPS + 1]; /* by node */
    weft_call_formula formula;
} weft__fusion;

/* Whether the node need not be computed now, since its one reader may do so; notes it in the
 * node's entry. Whoever else needs its elements plans it then. *stranded: an input is deferred too,
 * but cannot become a part of the node. */
bool weft__fuse_defers(weft__plan *plan, weft_array *node, bool *stranded);

/* Whether the input waits to become a part of `node`. */
bool weft__fuse_waits(weft__plan *plan, const weft_array *node, weft_array *input);

/* The node with the inputs that wait for it, as one; NULL when none does. */
weft__fusion *weft__fuse(weft__plan *plan, weft_array *node);

/* The one input of a node that waits for it, with those that wait for that, as a formula that a
 * kernel of the node takes, *row; NULL when there is no such thing. */
weft__fusion *weft__fuse_input(weft__plan *plan, weft_array *node, const weft_kernel_row **row);

/* Consumes the edges of the merged nodes, which never have elements of their own: they are spent,
 * or stay lazy with their inputs where they can be read. The edges of `node`, into which they were
 * merged, are the caller's to consume. */
weft_status weft__fuse_consume(weft__plan *plan, const weft__fusion *f, const weft_array *node);

/* Edges to an input from the merged nodes that do not stay lazy. */
int weft__fusion_edges(const weft__fusion *f, const weft_array *input);

#endif
