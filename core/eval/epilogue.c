/* core/eval/epilogue.c -- a node and the only op that reads its result as one step, where a kernel
 * applies that op before it stores: a product and the sum with a residual, two products and their
 * gate, a rotation and its write to a cache. The reader is planned when the node is, which needs
 * all its other operands; so nothing is held longer than it would be without. */
#include "core/eval/epilogue.h"

#include <stdatomic.h>
#include <string.h>

#include "core/device.h"
#include "core/eval/choose.h"
#include "core/eval/profile.h"
#include "core/shape.h"

/* Other operands of so few bytes, such as an offset, are planned ahead of their turn, with as many
 * nodes below each other. */
enum { SMALL = 64, DEPTH = 4 };

static bool takes_epilogues(const weft_array *node)
{
    int n;
    const weft_kernel_row *const *rows = weft__device_rows(node->device, node->op, &n);
    for (int i = 0; i < n; i++) {
        if (rows[i]->takes_epilogue) {
            return true;
        }
    }
    return false;
}

/* Whether the array has one reader, known to this plan, and nothing else may ask for it. */
static bool is_intermediate(weft__plan *plan, weft_array *a)
{
    const weft__entry *e = weft__plan_entry(plan, a);
    return e && e->reader && !e->planned && a->state == WEFT__LAZY && a->n_outputs == 1 &&
           weft__uses(a) - e->consumed == 1 && atomic_load(&a->holds) - e->released == 0 &&
           !weft__plan_readable(e) && !a->recompute;
}

static bool is_there(weft__plan *plan, weft_array *a)
{
    const weft__entry *e = weft__plan_entry(plan, a->first);
    return e && (a->state != WEFT__LAZY || e->planned);
}

static bool can_be_there(weft__plan *plan, weft_array *a, int depth)
{
    if (is_there(plan, a)) {
        return true;
    }
    bool can = depth > 0 && weft__spec_bytes(&a->spec) <= SMALL;
    for (int i = 0; i < a->n_inputs && can; i++) {
        can = can_be_there(plan, a->inputs[i], depth - 1);
    }
    return can;
}

/* Plans a small operand and what it needs, each node alone: joining such an operand to its own
 * reader could recurse into the node that needs it. */
static weft_status bring(weft__plan *plan, weft_array *a)
{
    weft_status status = WEFT_OK;
    if (is_there(plan, a)) {
        return WEFT_OK;
    }
    for (int i = 0; i < a->n_inputs && status == WEFT_OK; i++) {
        status = bring(plan, a->inputs[i]);
    }
    return status == WEFT_OK ? weft__plan_alone(plan, a->first) : status;
}

/* Whether `other` differs from `node` only in its inputs after the first, which are evaluated. */
static bool is_twin(weft__plan *plan, const weft_array *node, weft_array *other)
{
    bool twin = other != node && other->op == node->op && other->device == node->device &&
                other->n_inputs == node->n_inputs && other->inputs[0] == node->inputs[0] &&
                other->spec.dtype == node->spec.dtype &&
                weft_params_equal(node->op, node->params, other->params) &&
                is_intermediate(plan, other);
    for (int i = 1; i < node->n_inputs && twin; i++) {
        twin = is_there(plan, other->inputs[i]);
    }
    return twin;
}

/* A reader that waits itself, to become a part of a chain of elementwise ops. */
static bool joins_chain(weft__plan *plan, weft_array *reader)
{
    const weft__entry *e = weft__plan_entry(plan, reader);
    return reader->op->family == WEFT_ELEMENTWISE && e && e->reader &&
           e->reader->op->family == WEFT_ELEMENTWISE && weft__uses(reader) - e->consumed == 1;
}

static void add_inputs(weft__join *join, const weft_array *node)
{
    for (int i = 0; i < node->n_inputs; i++) {
        join->inputs[join->n_inputs++] = node->inputs[i];
    }
}

/* Operands of the reader over which its result may be written. */
static uint32_t in_place_of(const weft_array *reader)
{
    int n;
    const weft_kernel_row *const *rows = weft__device_rows(reader->device, reader->op, &n);
    return reader->op->family == WEFT_ELEMENTWISE ? UINT32_MAX : n > 0 ? rows[0]->in_place[0] : 0;
}

/* The reader's operands: results of the makers, which are found here, and others, which come after
 * the makers' inputs. */
static bool take_operands(weft__plan *plan, weft__join *join)
{
    weft_array *node = join->makers[0], *reader = join->reader;
    weft_call_epilogue *e = &join->epilogue;
    for (int i = 0; i < reader->n_inputs; i++) {
        if (!join->makers[1] && is_twin(plan, node, reader->inputs[i])) {
            join->makers[1] = reader->inputs[i];
        }
    }
    e->n_results = join->makers[1] ? 2 : 1;
    for (int r = 0; r < e->n_results; r++) {
        add_inputs(join, join->makers[r]);
    }
    const uint32_t in_place = in_place_of(reader);
    for (int i = 0; i < reader->n_inputs; i++) {
        weft_array *x = reader->inputs[i];
        if (x == node || x == join->makers[1]) {
            e->operands[i] = x == node ? -1 : -2;
        } else if (can_be_there(plan, x, DEPTH)) {
            join->in_place |= (in_place >> i & 1) << join->n_inputs;
            e->operands[i] = join->n_inputs;
            join->inputs[join->n_inputs++] = x;
        } else {
            return false;
        }
    }
    return true;
}

/* The parameters of the reader, which may be gone when the step runs. */
static bool copy_params(weft__plan *plan, weft__join *join)
{
    const weft_op *op = join->reader->op;
    void *params = op->params_size ? weft__plan_alloc(plan, op->params_size) : NULL;
    if (params) {
        memcpy(params, join->reader->params, op->params_size);
    }
    join->epilogue.params = params;
    return params || !op->params_size;
}

static bool can_join(weft__plan *plan, weft_array *node)
{
    const weft_array *reader;
    if (plan->retain || plan->each_op || node->n_inputs == 0 ||
        node->n_inputs > WEFT_MAX_OPERANDS || !takes_epilogues(node) ||
        !is_intermediate(plan, node)) {
        return false;
    }
    reader = weft__plan_entry(plan, node)->reader;
    return reader->n_outputs == 1 && reader->device == node->device && !reader->recompute &&
           reader->n_inputs > 1 && reader->n_inputs <= WEFT_MAX_OPERANDS && !reader->op->expand &&
           weft__spec_bytes(&reader->spec) > 0 && weft__spec_bytes(&node->spec) > 0;
}

weft__join *weft__join_of(weft__plan *plan, weft_array *node)
{
    if (!can_join(plan, node)) {
        return NULL;
    }
    weft_array *reader = weft__plan_entry(plan, node)->reader;
    weft__join *join = joins_chain(plan, reader) ? NULL : weft__plan_alloc(plan, sizeof *join);
    if (!join) {
        return NULL;
    }
    memset(join, 0, sizeof *join);
    join->reader = reader;
    join->makers[0] = node;
    join->epilogue = (weft_call_epilogue){
        .op = reader->op, .n_inputs = node->n_inputs, .n_operands = reader->n_inputs};
    weft__fill_tensor(&join->epilogue.result, &node->spec, NULL);
    if (!take_operands(plan, join) || !copy_params(plan, join)) {
        return NULL;
    }
    for (int i = 0; i < join->n_inputs; i++) {
        if (bring(plan, join->inputs[i]) != WEFT_OK) {
            return NULL; /* the node's own planning fails too */
        }
    }
    return join;
}

const weft_kernel_row *weft__join_row(const weft__join *join, const weft_call *call)
{
    const weft_call_epilogue *e = &join->epilogue;
    const weft_kernel_row *row = NULL;
    for (int r = 0; r < e->n_results; r++) { /* as each of them is alone */
        weft_call alone = *call;
        alone.prologue = NULL;
        alone.n_inputs = e->n_inputs;
        alone.in = call->in + r * e->n_inputs;
        alone.out = &e->result;
        const weft_kernel_row *own = weft__choose_row(call->device, &alone);
        if (!own || !own->takes_epilogue || (row && own != row)) {
            return NULL;
        }
        row = own;
    }
    weft_call joined = *call;
    joined.epilogue = e;
    const bool takes = row->takes_epilogue(&joined) &&
                       (!call->prologue || (row->takes_prologue && row->takes_prologue(&joined)));
    return takes ? row : NULL;
}

weft_status weft__join_consume(weft__plan *plan, const weft__join *join)
{
    weft_status status = WEFT_OK;
    weft__count(join->reader->device, join->reader->op, fused);
    for (int r = 0; r < join->epilogue.n_results && status == WEFT_OK; r++) {
        weft__entry *e = weft__plan_entry(plan, join->makers[r]);
        e->planned = e->spent = true;
        status = weft__plan_consume(plan, join->makers[r]);
    }
    return status;
}
