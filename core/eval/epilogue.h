/* core/eval/epilogue.h -- kernels that apply the op that reads their result, as one step. */
#ifndef CORE_EVAL_EPILOGUE_H
#define CORE_EVAL_EPILOGUE_H

#include "core/eval/plan.h"

enum { WEFT__JOIN_INPUTS = 4 * WEFT_MAX_OPERANDS }; /* with those of a prologue */

/* One or two nodes (`makers`) whose results are read only by `reader`, which is planned with them.
 * Two have the same op, parameters and first input. */
typedef struct weft__join {
    weft_array *reader, *makers[2];
    weft_array *inputs[3 * WEFT_MAX_OPERANDS]; /* of the makers, then the reader's others */
    int n_inputs;
    uint32_t in_place; /* bit i: the result may take over the memory of input i */
    weft_call_epilogue epilogue;
} weft__join;

/* The node with its reader, if a kernel of the node's op takes epilogues and all other inputs of
 * the reader are evaluated or small; otherwise NULL. */
weft__join *weft__join_of(weft__plan *plan, weft_array *node);

/* The kernel for the call, whose operands are those of the join; NULL: none takes it. */
const weft_kernel_row *weft__join_row(const weft__join *join, const weft_call *call);

/* Consumes the edges of the makers, which never have elements of their own. */
weft_status weft__join_consume(weft__plan *plan, const weft__join *join);

#endif
