/* core/eval/lower.c -- lowers one node of a plan: to a view, a kernel row, an expansion, the
 * generic elementwise kernel, or the reference kernel; the first that is possible. */
#include <string.h>

#include "core/builtin.h"
#include "core/eval/choose.h"
#include "core/eval/epilogue.h"
#include "core/eval/fuse.h"
#include "core/eval/profile.h"
#include "core/eval/prologue.h"
#include "core/shape.h"
#include "weft/op_params.h"

/* ---- steps ---------------------------------------------------------------------------------- */

typedef struct lowering {
    weft__plan *plan;
    weft_array *node;
    const weft__fusion *fusion; /* a fusion whose last node is `node`, or NULL */
    const weft__join *join;     /* a join whose reader is `node`, or NULL */
    weft_array *offered;        /* what a prologue computes, or NULL */
    bool tentative;             /* offered inputs are not computed yet */
    weft_array *const *inputs;  /* of the node, the fusion or the join, with a prologue */
    int n_inputs;
    weft__step *step;
    weft_tensor *in, *out;
    bool empty; /* true while no output has elements */
    weft__buffer *
        *temporaries; /* copies made for this step, per input or NULL; NULL: none so far */
} lowering;

static bool allocate_temporaries(lowering *l)
{
    const size_t bytes = (size_t)l->n_inputs * sizeof *l->temporaries;
    if (!l->temporaries) {
        l->temporaries = weft__plan_alloc(l->plan, bytes);
        if (l->temporaries) {
            memset(l->temporaries, 0, bytes);
        }
    }
    return l->temporaries != NULL;
}

/* Makes input i of the step a row-major copy. */
static weft_status copy_input(lowering *l, int i)
{
    weft_device *device = l->step->device;
    weft_tensor *from, *to;
    weft__step *copy = weft__step_new(l->plan, 1, 1, 0, &from, &to);
    if (!copy || !allocate_temporaries(l)) {
        return WEFT_MEMORY;
    }
    *from = l->in[i];
    weft_spec spec = {.dtype = from->dtype, .shape = from->shape};
    weft__buffer *b = weft__plan_buffer(l->plan, device, weft__spec_bytes(&spec), "copy", &spec);
    if (!b) {
        return WEFT_MEMORY;
    }
    weft__view view = {.buffer = b};
    weft__strides_contiguous(&spec.shape, view.strides);
    weft__fill_tensor(to, &spec, &view);
    copy->buffers[0] = l->step->buffers[i];
    copy->buffers[1] = b;
    const bool own = weft__step_copies(copy, device, from, to, copy->buffers);
    copy->path = l->step->path;
    weft__count(device, copy->call.op, copies);
    if (!own) {
        weft__count(device, copy->call.op, host_copies);
    }
    weft__push_step(l->plan, copy);
    l->in[i] = *to;
    l->step->buffers[i] = b;
    l->temporaries[i] = b;
    return WEFT_OK;
}

/* The number of edges from the step's nodes to an input. */
static int edges_to(const lowering *l, const weft_array *input)
{
    int n = 0;
    for (int i = 0; i < l->n_inputs; i++) {
        n += l->inputs[i] == input;
    }
    return l->fusion ? weft__fusion_edges(l->fusion, input) : n;
}

/* Whether an output of so many bytes can use the tensor's memory. */
static bool fits(const weft_tensor *t, const weft_spec *spec, int64_t bytes, const weft__buffer *b)
{
    return t->dtype == spec->dtype && t->encoding == spec->encoding && 2 * bytes >= b->bytes &&
           weft_tensor_is_contiguous(t) &&
           (weft__shape_equal(&t->shape, &spec->shape) ||
            weft_tensor_size(t) == weft__shape_size(&spec->shape));
}

/* Whether other kernels may still compute a prologue from the input. */
static bool is_shared(const lowering *l, const weft_array *x)
{
    bool shared = false;
    for (int i = 0; l->offered && i < l->offered->n_inputs; i++) {
        shared = shared || l->offered->inputs[i] == x;
    }
    return shared;
}

/* The input whose memory an output may use, or -1. */
static int donor(lowering *l, const weft_spec *spec, int64_t bytes, uint32_t allowed)
{
    if (l->plan->retain && l->node->seq < l->plan->first_internal) {
        return -1;
    }
    for (int i = 0; i < l->n_inputs && i < 32; i++) {
        weft_array *x = l->inputs[i];
        weft__buffer *b = l->step->buffers[i];
        if (!(allowed >> i & 1) || is_shared(l, x) || weft__plan_refs(l->plan, b) != 1 ||
            !b->owned || (l->temporaries && l->temporaries[i])) {
            continue;
        }
        int edges = edges_to(l, x);
        bool alone =
            edges == 1 || (edges > 1 && !l->join && l->node->op->family == WEFT_ELEMENTWISE);
        if (alone && weft__plan_would_spend(weft__plan_entry(l->plan, x), edges) &&
            fits(&l->in[i], spec, bytes, b)) {
            return i;
        }
    }
    return -1;
}

/* Sets the views of the node's outputs, in place of inputs where allowed. */
static weft_status place_outputs(lowering *l, const uint32_t *in_place)
{
    weft_array *node = l->node;
    weft__view *views = weft__plan_alloc(l->plan, (size_t)node->n_outputs * sizeof *views);
    if (!views) {
        return WEFT_MEMORY;
    }
    for (int o = 0; o < node->n_outputs; o++) {
        const weft_spec *spec = &node[o].spec;
        const int64_t bytes = weft__spec_bytes(spec);
        l->empty = l->empty && bytes == 0;
        int from = in_place ? donor(l, spec, bytes, in_place[o]) : -1;
        weft__view *view = &views[o];
        weft__entry *e = weft__plan_entry(l->plan, &node[o]);
        if (!e) {
            return WEFT_MEMORY;
        }
        if (from >= 0) {
            view->buffer = l->step->buffers[from];
            view->offset = l->in[from].offset;
            weft__plan_ref(view->buffer);
        } else {
            view->buffer = weft__plan_buffer(l->plan, node->device, bytes, node->op->name, spec);
            view->offset = 0;
            if (!view->buffer) {
                return WEFT_MEMORY;
            }
        }
        memcpy(view->strides, l->out[o].strides, sizeof view->strides);
        weft__place_tensor(&l->out[o], view);
        l->step->buffers[l->n_inputs + o] = view->buffer;
        e->view = view;
    }
    return WEFT_OK;
}

static weft_status drop_temporaries(lowering *l)
{
    for (int i = 0; l->temporaries && i < l->n_inputs; i++) {
        if (l->temporaries[i] && !weft__plan_unref(l->plan, l->temporaries[i])) {
            return WEFT_MEMORY;
        }
    }
    weft__buffer *w = l->step->workspace;
    return !w || weft__plan_unref(l->plan, w) ? WEFT_OK : WEFT_MEMORY;
}

static weft_status take_workspace(lowering *l, const weft_kernel_row *row)
{
    int64_t bytes = row->workspace ? row->workspace(&l->step->call) : 0;
    if (bytes <= 0) {
        return WEFT_OK;
    }
    weft_spec spec = {.dtype = WEFT_UINT8, .shape = {.n = 1, .at = {bytes}}};
    weft__buffer *b = weft__plan_buffer(l->plan, l->step->device, bytes, "workspace", &spec);
    if (!b) {
        return WEFT_MEMORY;
    }
    l->step->workspace = b;
    l->step->call.workspace = b->host;
    l->step->call.workspace_buffer = b->handle;
    return WEFT_OK;
}

static weft_status plan_deferred(weft__plan *plan, weft_array *a);

/* The plan's view of an input. NULL, with a message: it has none. */
static const weft__view *view_of(weft__plan *plan, weft_array *a, const weft_op *op)
{
    const weft__entry *e = weft__plan_entry(plan, a);
    if (e && (e->deferred || e->offered) && !e->planned) {
        e = plan_deferred(plan, a) == WEFT_OK ? weft__plan_entry(plan, a) : NULL;
    }
    if (e && !e->view) {
        weft_fail(WEFT_INVALID,
                  "%s: an input was consumed by an evaluation of another thread: keep "
                  "it (weft_keep, weft_set)",
                  op->name);
    }
    return e ? e->view : NULL;
}

/* The node that has the op and parameters of the step's kernel. */
static const weft_array *kernel_node(const lowering *l)
{
    return l->join ? l->join->makers[0] : l->node;
}

/* Whether the array is offered to its readers and not computed yet. */
static bool is_waiting(weft__plan *plan, weft_array *a)
{
    const weft__entry *e = weft__plan_entry(plan, a);
    return e && e->offered && !e->planned;
}

/* Prepares the step with its inputs, without copies. */
static weft_status open_step(lowering *l)
{
    weft_array *node = l->node;
    const weft_array *own = kernel_node(l);
    const size_t params_size = own->op->params_size;
    for (int i = 0; i < l->n_inputs; i++) { /* emit deferred inputs first */
        if (!(l->tentative && is_waiting(l->plan, l->inputs[i])) &&
            !view_of(l->plan, l->inputs[i], own->op)) {
            return weft_error_status();
        }
    }
    l->step = weft__step_new(l->plan, l->n_inputs, node->n_outputs, params_size, &l->in, &l->out);
    if (!l->step) {
        return WEFT_MEMORY;
    }
    if (params_size) { /* the node may be freed before the step runs */
        memcpy((void *)(uintptr_t)l->step->call.params, own->params, params_size);
    }
    l->step->device = node->device;
    l->step->path = l->plan->path ? l->plan->path : own->path;
    l->step->call.op = own->op;
    l->step->call.device = node->device;
    l->step->call.prologue = l->offered ? weft__prologue_new(l->plan, l->offered) : NULL;
    if (l->offered && !l->step->call.prologue) {
        return WEFT_MEMORY;
    }
    for (int i = 0; i < l->n_inputs; i++) {
        const weft__view *view = weft__plan_entry(l->plan, l->inputs[i])->view;
        weft__fill_tensor(&l->in[i], &l->inputs[i]->spec, view);
        l->step->buffers[i] = view ? view->buffer : NULL;
    }
    for (int o = 0; o < node->n_outputs; o++) {
        weft__fill_tensor(&l->out[o], &weft__output(node, o)->spec, NULL);
    }
    return WEFT_OK;
}

static weft_status close_step(lowering *l, const uint32_t *in_place)
{
    weft_status status = place_outputs(l, in_place);
    if (status != WEFT_OK) {
        return status;
    }
    if (l->empty) {
        l->step->kind = WEFT__STEP_NOTHING;
    }
    weft__push_step(l->plan, l->step);
    return drop_temporaries(l);
}

static weft_status lower_row(lowering *l, const weft_kernel_row *row)
{
    for (int i = 0; i < l->n_inputs; i++) {
        if (!weft__layout_fits(row->layout, &l->in[i])) {
            weft_status status = copy_input(l, i);
            if (status != WEFT_OK) {
                return status;
            }
        }
    }
    l->step->kind = WEFT__STEP_KERNEL;
    l->step->kernel = row->kernel;
    l->step->checks_first = row->checks_first;
    weft__count(l->node->device, kernel_node(l)->op, rows);
    weft_status status = take_workspace(l, row);
    return status == WEFT_OK ? close_step(l, l->join ? &l->join->in_place : row->in_place) : status;
}

static bool takes_elementwise(const weft_backend *backend, const weft_call *call,
                              const weft_tape *tape)
{
    return backend->elementwise &&
           (!backend->elementwise_fits || backend->elementwise_fits(call, tape));
}

static weft_status lower_generic(lowering *l)
{
    const weft_op *op = l->node->op;
    weft_device *device = l->node->device;
    uint32_t in_place[WEFT_MAX_OUTPUTS] = {0};
    if (op->family == WEFT_ELEMENTWISE && !op->reference) {
        weft_dtype dtype = l->node->inputs[l->node->n_inputs - 1]->spec.dtype;
        l->step->tape = l->fusion ? &l->fusion->tape : weft_op_tape(op, dtype);
        if (!l->step->tape) {
            return weft__has_formula(op, dtype)
                       ? weft_fail(WEFT_MEMORY,
                                   "%s: out of memory for its formula, or it cannot "
                                   "be parsed",
                                   op->name)
                       : weft_fail(WEFT_UNSUPPORTED, "%s: unsupported for %s", op->name,
                                   weft_dtype_name(dtype));
        }
        l->step->kind = WEFT__STEP_ELEMENTWISE;
        if (takes_elementwise(device->backend, &l->step->call, l->step->tape)) {
            in_place[0] = UINT32_MAX; /* an elementwise kernel reads each element before it writes
                                       * it */
            weft__count(device, op, elementwise);
        } else {
            l->step->kind = WEFT__STEP_REFERENCE;
            weft__count(device, op, references);
        }
        return close_step(l, in_place);
    }
    if (!op->reference) {
        return weft_fail(WEFT_UNSUPPORTED, "%s: unsupported on %s: no kernel and no expansion",
                         op->name, device->name);
    }
    l->step->kind = WEFT__STEP_REFERENCE;
    l->step->kernel = op->reference;
    weft__count(device, op, references);
    return close_step(l, in_place);
}

/* ---- views ---------------------------------------------------------------------------------- */

/* Makes the outputs of a node views of existing memory. */
static weft_status share_views(weft__plan *plan, weft_array *node, const weft__view *view)
{
    const size_t bytes = (size_t)node->n_outputs * sizeof *view;
    weft__view *views = weft__plan_alloc(plan, bytes);
    if (!views) {
        return WEFT_MEMORY;
    }
    memcpy(views, view, bytes);
    for (int o = 0; o < node->n_outputs; o++) {
        weft__entry *e = weft__plan_entry(plan, &node[o]);
        if (!e) {
            return WEFT_MEMORY;
        }
        weft__plan_ref(views[o].buffer);
        e->view = &views[o];
    }
    return WEFT_OK;
}

/* Whether the node is a view of its input; fills *view. */
static bool as_view(const weft_array *node, const weft__view *from, weft__view *view)
{
    weft_tensor in;
    weft__fill_tensor(&in, &node->inputs[0]->spec, from);
    weft_tensor out = in;
    if (!node->op->view(node, &in, &out)) {
        return false;
    }
    *view = *from;
    view->offset = out.offset;
    memcpy(view->strides, out.strides, sizeof view->strides);
    return true;
}

/* ---- expansions ----------------------------------------------------------------------------- */

/* Plans the results of an expansion and gives their views to the node. */
static weft_status take_expansion(weft__plan *plan, weft_array *node, weft_array *const *outs)
{
    weft_status status = weft__plan_graph(plan, outs, node->n_outputs);
    weft__view views[WEFT_MAX_OUTPUTS];
    for (int i = 0; i < node->n_outputs && status == WEFT_OK; i++) {
        const weft__view *from = view_of(plan, outs[i], node->op);
        status = from ? WEFT_OK : weft_error_status();
        views[i] = from ? *from : (weft__view){0};
    }
    return status == WEFT_OK ? share_views(plan, node, views) : status;
}

static weft_status lower_expansion(weft__plan *plan, weft_array *node)
{
    weft_array *outs[WEFT_MAX_OUTPUTS] = {NULL};
    const char *path = plan->path;
    weft_status status = weft__expand(node, outs);
    if (status == WEFT_OK) {
        /* Results may read each other. Holding them prevents that they are overwritten or fused. */
        for (int i = 0; i < node->n_outputs; i++) {
            weft__hold(outs[i]);
        }
        plan->path = path ? path : node->path;
        status = take_expansion(plan, node, outs);
        plan->path = path;
        for (int i = 0; i < node->n_outputs; i++) {
            weft__unhold(outs[i]);
        }
    }
    for (int i = 0; i < node->n_outputs && status == WEFT_OK; i++) {
        weft__entry *e = weft__plan_entry(plan, outs[i]);
        status = e ? weft__plan_maybe_spend(plan, e) : WEFT_MEMORY;
    }
    weft__count(node->device, node->op, expansions);
    return status;
}

static weft_status lower_transfer(lowering *l)
{
    l->step->kind = WEFT__STEP_TRANSFER;
    weft__count(l->node->device, l->node->op, transfers);
    if (!weft_tensor_is_contiguous(&l->in[0])) {
        l->step->device = l->node->inputs[0]->device;
        weft_status status = copy_input(l, 0);
        if (status != WEFT_OK) {
            return status;
        }
    }
    l->step->device = l->node->inputs[0]->device;
    /* Memory that is not Weft's own stays as it is: weights that are copied for each use. */
    l->plan->uploading = !l->step->buffers[0]->owned && l->step->device->backend->host_memory &&
                         l->node->device->backend->upload;
    const weft_status status = close_step(l, NULL);
    l->plan->uploading = false;
    return status;
}

/* Lowers the node to a kernel that computes the node's first input itself; *done: whether there is
 * one. */
static weft_status lower_with_prologue(weft__plan *plan, weft_array *node, bool *done)
{
    weft_array *offered = weft__prologue_of(plan, node), *inputs[2 * WEFT_MAX_OPERANDS];
    if (!offered || node->n_inputs > WEFT_MAX_OPERANDS || offered->n_inputs > WEFT_MAX_OPERANDS) {
        return WEFT_OK;
    }
    lowering l = {.plan = plan, .node = node, .offered = offered, .inputs = inputs, .empty = true};
    l.n_inputs = weft__prologue_inputs(offered, 1, node->inputs, node->n_inputs, inputs);
    if (l.n_inputs == 0) {
        return WEFT_OK;
    }
    weft_status status = open_step(&l);
    const weft_kernel_row *row = status == WEFT_OK ? weft__prologue_row(&l.step->call) : NULL;
    *done = row != NULL;
    return row ? lower_row(&l, row) : status;
}

static weft_status lower(weft__plan *plan, weft_array *node)
{
    bool done = false;
    weft_status prologue = lower_with_prologue(plan, node, &done);
    if (done || prologue != WEFT_OK) {
        return prologue;
    }
    if (node->n_inputs > 0 && node->op->view) {
        weft__view view;
        const weft__view *from = view_of(plan, node->inputs[0], node->op);
        if (!from) {
            return weft_error_status();
        }
        if (as_view(node, from, &view)) {
            weft__count(node->device, node->op, views);
            return share_views(plan, node, &view);
        }
    }
    const weft_kernel_row *row = NULL;
    lowering l = {.plan = plan, .node = node, .fusion = weft__fuse(plan, node), .empty = true};
    l.fusion = l.fusion ? l.fusion : weft__fuse_input(plan, node, &row);
    l.inputs = l.fusion ? l.fusion->inputs : node->inputs;
    l.n_inputs = l.fusion ? l.fusion->n_inputs : node->n_inputs;
    weft_status status = open_step(&l);
    if (status != WEFT_OK) {
        return status;
    }
    if (node->op == &weft__op_transfer) {
        return lower_transfer(&l);
    }
    if (l.fusion) {
        l.step->call.formula = row ? &l.fusion->formula : NULL;
        status = row ? lower_row(&l, row) : lower_generic(&l);
        return status == WEFT_OK ? weft__fuse_consume(plan, l.fusion, node) : status;
    }
    row = weft__choose_row(node->device, &l.step->call);
    if (row) {
        return lower_row(&l, row);
    }
    return node->op->expand ? lower_expansion(plan, node) : lower_generic(&l);
}

/* After a node was lowered: consumes its inputs. */
static weft_status settle(weft__plan *plan, weft_array *a)
{
    weft__plan_entry(plan, a)->planned = true;
    weft_status status = weft__plan_consume(plan, a);
    return status == WEFT_OK && a->n_outputs > 1 ? weft__plan_settle(plan, a) : status;
}

/* Lowers the node and consumes its inputs. */
static weft_status plan_deferred(weft__plan *plan, weft_array *a)
{
    weft_status status = lower(plan, a);
    return status == WEFT_OK ? settle(plan, a) : status;
}

/* Plans a node with its reader, and with a prologue unless `offered` is NULL; *done: whether there
 * is a kernel for that. */
static weft_status plan_join(weft__plan *plan, const weft__join *join, weft_array *offered,
                             bool *done)
{
    weft_array *inputs[WEFT__JOIN_INPUTS];
    lowering l = {.plan = plan,
                  .node = join->reader,
                  .join = join,
                  .offered = offered,
                  .inputs = offered ? inputs : join->inputs,
                  .n_inputs = join->n_inputs,
                  .tentative = !offered && is_waiting(plan, join->inputs[0]),
                  .empty = true};
    if (offered) {
        l.n_inputs = weft__prologue_inputs(offered, join->epilogue.n_results, join->inputs,
                                           join->n_inputs, inputs);
        if (l.n_inputs == 0) {
            return WEFT_OK;
        }
    }
    weft_status status = open_step(&l);
    const weft_kernel_row *row = status == WEFT_OK ? weft__join_row(join, &l.step->call) : NULL;
    *done = row != NULL;
    if (!row) {
        return status;
    }
    if (l.tentative) {
        l.tentative = false;
        status = open_step(&l);
        if (status != WEFT_OK) {
            return status;
        }
    }
    l.step->call.epilogue = &join->epilogue;
    status = lower_row(&l, row);
    status = status == WEFT_OK ? weft__join_consume(plan, join) : status;
    return status == WEFT_OK ? settle(plan, join->reader) : status;
}

/* Plans deferred inputs of a deferred node that cannot become a part of it. Otherwise each would be
 * planned by its reader, in a recursion as deep as the chain. */
static weft_status plan_operands(weft__plan *plan, weft_array *node)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < node->n_inputs && status == WEFT_OK; i++) {
        weft_array *x = node->inputs[i];
        const weft__entry *e = weft__plan_entry(plan, x);
        if (e && e->deferred && !e->planned && !weft__fuse_waits(plan, node, x)) {
            status = plan_deferred(plan, x);
        }
    }
    return status;
}

weft_status weft__plan_alone(weft__plan *plan, weft_array *a)
{
    bool stranded = false;
    if (weft__prologue_offers(plan, a)) {
        return WEFT_OK;
    }
    if (!weft__fuse_defers(plan, a, &stranded)) {
        return plan_deferred(plan, a);
    }
    return stranded ? plan_operands(plan, a) : WEFT_OK;
}

weft_status weft__plan_node(weft__plan *plan, weft_array *a)
{
    weft__entry *e = weft__plan_entry(plan, a);
    if (!e) {
        return WEFT_MEMORY;
    }
    if (e->planned || a->state != WEFT__LAZY) {
        return WEFT_OK;
    }
    const weft__join *join = weft__join_of(plan, a);
    bool joined = false;
    weft_array *offered = join ? weft__prologue_of(plan, a) : NULL;
    weft_status status = offered ? plan_join(plan, join, offered, &joined) : WEFT_OK;
    if (join && !joined && status == WEFT_OK) {
        status = plan_join(plan, join, NULL, &joined);
    }
    return joined || status != WEFT_OK ? status : weft__plan_alone(plan, a);
}
