/* core/eval/prologue.c -- nodes that the kernels that read them compute again instead of reading
 * them, such as the norm of a row before products with it. Such a node is offered to its readers,
 * and computed when the first of them needs its elements; if none does, it never has any. */
#include "core/eval/prologue.h"

#include <stdatomic.h>
#include <string.h>

#include "core/device.h"
#include "core/eval/choose.h"

/* Most bytes of a result that several kernels compute again: a few rows. */
enum { FEW = 1 << 16 };

static bool may_compute(const weft_array *reader, const weft_array *node)
{
    int n = 0;
    const weft_kernel_row *const *rows =
        node->op->may_repeat ? weft__device_rows(reader->device, reader->op, &n) : NULL;
    for (int i = 0; i < n; i++) {
        if (rows[i]->takes_prologue) {
            return reader->device == node->device;
        }
    }
    return false;
}

/* Whether only nodes of this plan and of one op use the result, as their first input. */
static bool is_intermediate(const weft__entry *e)
{
    const weft_array *a = e->array;
    return e->reader && e->firsts == e->edges && weft__uses(a) - e->consumed == e->edges &&
           atomic_load(&a->holds) == e->released && !weft__plan_readable(e) && !a->recompute;
}

bool weft__prologue_offers(weft__plan *plan, weft_array *node)
{
    weft__entry *e = weft__plan_entry(plan, node);
    if (!e || e->offered || plan->retain || plan->each_op || node->n_outputs != 1 ||
        node->n_inputs == 0 || !is_intermediate(e) || !may_compute(e->reader, node)) {
        return e && e->offered;
    }
    const int64_t bytes = weft__spec_bytes(&node->spec);
    const weft_spec *x = &node->inputs[0]->spec;
    e->offered = bytes > 0 && bytes <= FEW && x->dtype == node->spec.dtype && !x->encoding &&
                 weft__spec_bytes(x) == bytes;
    return e->offered;
}

weft_array *weft__prologue_of(weft__plan *plan, const weft_array *node)
{
    weft_array *x = node->n_inputs > 0 ? node->inputs[0] : NULL;
    const weft__entry *e = x ? weft__plan_entry(plan, x) : NULL;
    return e && e->offered && !e->planned && may_compute(node, x) ? x : NULL;
}

weft_call_prologue *weft__prologue_new(weft__plan *plan, const weft_array *offered)
{
    const size_t size = (sizeof(weft_call_prologue) + 15) / 16 * 16;
    char *memory = weft__plan_alloc(plan, size + offered->op->params_size);
    weft_call_prologue *p = (weft_call_prologue *)(void *)memory;
    if (p) {
        *p = (weft_call_prologue){
            .op = offered->op, .params = memory + size, .n_inputs = offered->n_inputs};
        if (offered->op->params_size) { /* the node may be freed before the step runs */
            memcpy(memory + size, offered->params, offered->op->params_size);
        }
    }
    return p;
}

int weft__prologue_inputs(const weft_array *offered, int times, weft_array *const *inputs, int n,
                          weft_array **out)
{
    for (int i = 0; i < n; i++) {
        out[i] = inputs[i] == offered ? offered->inputs[0] : inputs[i];
        times -= inputs[i] == offered;
    }
    if (times != 0) {
        return 0;
    }
    for (int i = 1; i < offered->n_inputs; i++) {
        out[n++] = offered->inputs[i];
    }
    return n;
}

const weft_kernel_row *weft__prologue_row(const weft_call *call)
{
    weft_call alone = *call;
    alone.n_inputs = weft__prologue_own(call);
    alone.prologue = NULL;
    const weft_kernel_row *row = weft__choose_row(call->device, &alone);
    return row && row->takes_prologue && row->takes_prologue(call) ? row : NULL;
}
