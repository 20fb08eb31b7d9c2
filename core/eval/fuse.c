/* core/eval/fuse.c -- fusion of elementwise ops. The formula of a node with one elementwise reader
 * becomes a part of the reader's formula. A kernel that takes a formula for its input computes that
 * input while it reads. */
#include "core/eval/fuse.h"

#include <stdatomic.h>
#include <string.h>

#include "core/device.h"
#include "core/eval/choose.h"
#include "core/eval/profile.h"
#include "core/shape.h"
#include "core/tape_codes.h"

enum {
    STEP = 128
}; /* values of a tape under construction are numbered: operands, then STEP + step */

/* A chain keeps all its operands alive until it is computed. So long sums of large arrays, such as
 * the gradients of a parameter that is used often, are computed a few terms at a time. */
enum { LARGE = 1 << 20, LARGE_OPERANDS = 8 };

/* ---- what can be fused ---------------------------------------------------------------------- */

static bool is_wide(const weft_array *node)
{
    bool wide = false;
    for (int i = 0; i < node->n_inputs; i++) {
        wide = wide || node->inputs[i]->spec.dtype == WEFT_FLOAT64;
    }
    return wide;
}

/* The formula of a node that computes in float or double and has no kernel row; otherwise NULL. */
static const weft_tape *fusable(weft_array *node)
{
    int rows;
    if (node->op->family != WEFT_ELEMENTWISE || node->op->reference || node->op->expand ||
        node->device->backend->fuses == 0) {
        return NULL;
    }
    weft_dtype dtype = node->inputs[node->n_inputs - 1]->spec.dtype;
    (void)weft__device_rows(node->device, node->op, &rows);
    return rows == 0 && weft_dtype_is_float(dtype) ? weft_op_tape(node->op, dtype) : NULL;
}

/* The code that rounds a value as storing it in the node's dtype would; 0: no rounding is needed.
 */
static weft_tape_code rounding(const weft_array *node)
{
    switch (node->spec.dtype) {
    case WEFT_FLOAT16:
        return WEFT_TAPE_ROUND16;
    case WEFT_BFLOAT16:
        return WEFT_TAPE_ROUNDB;
    default:
        return (weft_tape_code)0;
    }
}

static bool has_one_reader(weft__plan *plan, weft_array *a)
{
    const weft__entry *e = weft__plan_entry(plan, a);
    return e && weft__uses(a) - e->consumed == 1 && atomic_load(&a->holds) - e->released == 0;
}

/* The entry of an input that is deferred and can become a part of `node`; otherwise NULL. */
static weft__entry *waiting(weft__plan *plan, const weft_array *node, weft_array *input)
{
    weft__entry *e = weft__plan_entry(plan, input);
    bool part = e && e->deferred && !e->planned && input->device == node->device &&
                is_wide(input) == is_wide(node) && has_one_reader(plan, input);
    return part ? e : NULL;
}

static bool is_deferred(weft__plan *plan, weft_array *a)
{
    const weft__entry *e = weft__plan_entry(plan, a);
    return e && e->deferred && !e->planned;
}

bool weft__fuse_waits(weft__plan *plan, const weft_array *node, weft_array *input)
{
    return waiting(plan, node, input) != NULL;
}

/* Whether the node and its deferred inputs fit into one tape, and the size of that tape. */
static bool measure(weft__plan *plan, weft_array *node, const weft_tape *tape, int *steps,
                    int *operands, bool *stranded)
{
    *steps = tape->n_steps + (rounding(node) != 0);
    *operands = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        const weft__entry *e = waiting(plan, node, node->inputs[i]);
        *stranded = *stranded || (!e && is_deferred(plan, node->inputs[i]));
        *steps += e ? e->fused_steps : 0;
        *operands += e ? e->fused_operands : 1;
    }
    return *steps <= WEFT_TAPE_MAX_STEPS && *operands <= node->device->backend->fuses;
}

bool weft__fuse_defers(weft__plan *plan, weft_array *node, bool *stranded)
{
    int steps, operands;
    if (plan->retain || plan->each_op || node->n_inputs == 0 || !has_one_reader(plan, node) ||
        (node->recompute && weft__readable(node))) {
        return false;
    }
    const weft_tape *tape = fusable(node);
    if (!tape || !measure(plan, node, tape, &steps, &operands, stranded)) {
        return false;
    }
    if (operands > LARGE_OPERANDS && weft_nbytes(node) >= LARGE) {
        return false;
    }
    weft__entry *e = weft__plan_entry(plan, node);
    e->deferred = true;
    e->fused_steps = steps;
    e->fused_operands = operands;
    return true;
}

/* ---- merging -------------------------------------------------------------------------------- */

static unsigned char operand_of(weft__fusion *f, weft_array *a)
{
    int i = 0;
    while (i < f->n_inputs && f->inputs[i] != a) {
        i++;
    }
    if (i == f->n_inputs) {
        f->inputs[f->n_inputs++] = a;
    }
    return (unsigned char)i;
}

static unsigned char push(weft__fusion *f, weft_tape_step step)
{
    f->tape.steps[f->tape.n_steps] = step;
    return (unsigned char)(STEP + f->tape.n_steps++);
}

/* Whether a part stays lazy to be computed again: it is readable, or an input of a part that stays
 * lazy. The last node is stored. */
static bool stays_lazy(weft__plan *plan, const weft__fusion *f, weft_array *node, bool reader_stays)
{
    return node != f->last && (reader_stays || weft__plan_readable(weft__plan_entry(plan, node)));
}

/* Appends the node's steps, after those of its deferred inputs. Returns the number of its value. */
static unsigned char append(weft__plan *plan, weft__fusion *f, weft_array *node, bool reader_stays)
{
    const bool stays = stays_lazy(plan, f, node, reader_stays);
    const weft_tape *tape = fusable(node);
    unsigned char values[WEFT_MAX_OPERANDS + WEFT_TAPE_MAX_STEPS] = {0};
    for (int i = 0; i < node->n_inputs; i++) {
        weft_array *x = node->inputs[i];
        values[i] = waiting(plan, node, x) ? append(plan, f, x, stays) : operand_of(f, x);
    }
    unsigned char result = values[0];
    for (int i = 0; i < tape->n_steps; i++) {
        weft_tape_step step = tape->steps[i];
        for (int k = 0; k < weft__tape_codes[step.code].arity; k++) {
            step.value[k] = values[step.value[k]];
        }
        result = values[tape->n_operands + i] = push(f, step);
    }
    weft_tape_part *part = &f->parts[f->n_nodes];
    *part = (weft_tape_part){.tape = tape};
    memcpy(part->operand, values, sizeof part->operand);
    if (node != f->last && rounding(node)) {
        part->rounding = (unsigned char)rounding(node);
        result = push(f, (weft_tape_step){.code = part->rounding, .value = {result}});
    }
    part->result = result;
    f->kept[f->n_nodes] = stays;
    f->nodes[f->n_nodes++] = node;
    return result;
}

static void number(const weft__fusion *f, unsigned char *values, int n)
{
    for (int i = 0; i < n; i++) {
        values[i] = (unsigned char)(values[i] >= STEP ? f->n_inputs + values[i] - STEP : values[i]);
    }
}

/* Renumbers the values, operands first, now that the number of operands is known. */
static void number_values(weft__fusion *f)
{
    f->tape.n_operands = f->n_inputs;
    for (int i = 0; i < f->tape.n_steps; i++) {
        number(f, f->tape.steps[i].value, 3);
    }
    for (int i = 0; i < f->n_nodes; i++) {
        number(f, f->parts[i].operand, WEFT_MAX_OPERANDS);
        number(f, &f->parts[i].result, 1);
    }
    f->tape.parts = f->parts;
    f->tape.n_parts = f->n_nodes;
}

/* Merges the node and its deferred inputs. `last`: the node, if its result is stored. */
static weft__fusion *merge(weft__plan *plan, weft_array *node, weft_array *last)
{
    weft__fusion *f = weft__plan_alloc(plan, sizeof *f);
    if (f) {
        memset(f, 0, sizeof *f);
        f->last = last;
        f->tape.klass = WEFT_CLASS_REAL;
        append(plan, f, node, false);
        number_values(f);
    }
    return f;
}

weft__fusion *weft__fuse(weft__plan *plan, weft_array *node)
{
    const weft_tape *tape = plan->retain || plan->each_op ? NULL : fusable(node);
    bool any = false;
    for (int i = 0; tape && i < node->n_inputs; i++) {
        any = any || waiting(plan, node, node->inputs[i]);
    }
    int steps, operands;
    bool stranded = false;
    /* Inputs that do not fit into one tape are computed one by one. */
    if (!any || !measure(plan, node, tape, &steps, &operands, &stranded)) {
        return NULL;
    }
    return merge(plan, node, node);
}

/* ---- formulas as kernel inputs --------------------------------------------------------------- */

static weft_tensor tensor_of(const weft_spec *spec)
{
    weft_tensor t = {.dtype = spec->dtype, .encoding = spec->encoding, .shape = spec->shape};
    weft__strides_contiguous(&spec->shape, t.strides);
    return t;
}

/* The row for a node with one input, if its kernel takes a formula for that input. */
static const weft_kernel_row *row_with_formula(weft_array *node, const weft_tensor *x)
{
    weft_tensor out[WEFT_MAX_OUTPUTS];
    for (int i = 0; i < node->n_outputs; i++) {
        out[i] = tensor_of(&weft__output(node, i)->spec);
    }
    const weft_call call = {.op = node->op,
                            .params = node->params,
                            .n_inputs = 1,
                            .n_outputs = node->n_outputs,
                            .in = x,
                            .out = out,
                            .device = node->device};
    const weft_kernel_row *row = weft__choose_row(node->device, &call);
    return row && row->takes_formula && row->takes_formula(&call) ? row : NULL;
}

weft__fusion *weft__fuse_input(weft__plan *plan, weft_array *node, const weft_kernel_row **row)
{
    int steps, operands;
    bool stranded = false;
    if (node->n_inputs != 1 || !waiting(plan, node, node->inputs[0])) {
        return NULL;
    }
    weft_array *input = node->inputs[0];
    const weft_tape *tape = fusable(input);
    if (!tape || !measure(plan, input, tape, &steps, &operands, &stranded)) {
        return NULL;
    }
    const weft_tensor x = tensor_of(&input->spec);
    *row = row_with_formula(node, &x);
    weft__fusion *f = *row ? merge(plan, input, NULL) : NULL;
    if (f) {
        f->formula = (weft_call_formula){.tape = &f->tape, .x = x};
    }
    return f;
}

weft_status weft__fuse_consume(weft__plan *plan, const weft__fusion *f, const weft_array *node)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < f->n_nodes && status == WEFT_OK; i++) {
        weft_array *part = f->nodes[i];
        if (part == node) {
            continue;
        }
        weft__entry *e = weft__plan_entry(plan, part);
        weft__count(part->device, part->op, fused);
        if (f->kept[i]) {
            e->kept = true;
            continue;
        }
        e->planned = e->spent = true;
        status = weft__plan_consume(plan, part);
    }
    return status;
}

int weft__fusion_edges(const weft__fusion *f, const weft_array *input)
{
    int n = 0;
    for (int i = 0; i < f->n_nodes; i++) {
        for (int k = 0; k < f->nodes[i]->n_inputs && !f->kept[i]; k++) {
            n += f->nodes[i]->inputs[k] == input;
        }
    }
    return n;
}
