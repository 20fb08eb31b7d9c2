/* core/eval/prologue.h -- kernels that apply the op that makes their first operand. */
#ifndef CORE_EVAL_PROLOGUE_H
#define CORE_EVAL_PROLOGUE_H

#include "core/eval/plan.h"

/* Whether computing the node can be left to the kernels that read it; sets `offered` of its entry.
 * If a reader needs its elements, it plans the node then. */
bool weft__prologue_offers(weft__plan *plan, weft_array *node);

/* The node's first input, if it is offered and a kernel of the node's op may compute it; else NULL.
 */
weft_array *weft__prologue_of(weft__plan *plan, const weft_array *node);

/* The prologue of a call for the offered node; NULL: out of memory. */
weft_call_prologue *weft__prologue_new(weft__plan *plan, const weft_array *offered);

/* The n inputs of a step with the first input of `offered` in its place, and its others last.
 * Returns their number, or 0 if `offered` is not exactly `times` times among the inputs. */
int weft__prologue_inputs(const weft_array *offered, int times, weft_array *const *inputs, int n,
                          weft_array **out);

/* Inputs of the call without those of its prologue. */
static inline int weft__prologue_own(const weft_call *call)
{
    return call->n_inputs - (call->prologue ? call->prologue->n_inputs - 1 : 0);
}

/* The kernel for a call without an epilogue; NULL: none takes its prologue. */
const weft_kernel_row *weft__prologue_row(const weft_call *call);

#endif
