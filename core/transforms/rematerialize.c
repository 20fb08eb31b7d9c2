/* core/transforms/rematerialize.c -- while the gradient of a node is made, replaces its large
 * inputs that are cheap to compute again by new nodes, so the first results need not stay in memory
 * from the forward pass to the gradient.
 *
 * An op asks for this (`rematerialize`) if its own gradient reads its inputs and not its result, as
 * that of a norm or an activation does: the inputs stay in memory anyway. The new node waits for
 * the cotangent by a barrier, which common-subexpression elimination respects. All readers of a
 * result share one. The values are the same, bit for bit.
 */
#include "core/transforms/transforms.h"

/* Fewest bytes of a result that is computed again. */
enum { LARGE = 1 << 20 };

static bool wants(const weft__dependents *d, const weft_array *x, int64_t *index)
{
    if (!x->op || !x->op->rematerialize || x->n_outputs != 1 || x->state != WEFT__LAZY ||
        weft_nbytes(x) < LARGE) {
        return false;
    }
    *index = weft__map_index((weft__map *)&d->nodes, (void *)x, NULL);
    return *index >= 0 && d->needed[*index];
}

static weft_array *compute_again(const weft_array *x, weft_array *after)
{
    weft_array *inputs[WEFT__REMATERIALIZE_INPUTS];
    for (int i = 0; i < x->n_inputs; i++) {
        inputs[i] = x->inputs[i];
    }
    inputs[0] = weft__barrier(inputs[0], after);
    const weft__rule_context context = weft__enter_rule_context(x);
    weft_array *y = weft__apply_on(x->device, x->op, inputs, x->n_inputs, x->params);
    weft__leave_rule_context(context);
    return y;
}

bool weft__rematerialize_inputs(weft__dependents *d, weft_array *node, weft_array *after,
                                weft_array **originals)
{
    bool any = false;
    for (int i = 0; i < node->n_inputs; i++) {
        weft_array *x = node->inputs[i];
        int64_t index;
        originals[i] = x;
        if (!d->rematerialize || !after || x->n_inputs > WEFT__REMATERIALIZE_INPUTS ||
            !wants(d, x, &index)) {
            continue;
        }
        if (!d->again[index]) {
            d->again[index] = compute_again(x, after);
        }
        if (weft_ok(d->again[index])) {
            node->inputs[i] = d->again[index];
            any = true;
        }
    }
    return any;
}
