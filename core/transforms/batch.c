/* core/transforms/batch.c -- vmap's graph walk: turns a graph for one example into one for a batch,
 * node by node. The batch is always axis 0. */
#include "core/builtin.h"
#include "core/failure.h"
#include "core/lengths.h"
#include "core/shape.h"
#include "core/transforms/transforms.h"
#include "weft/ops.h"

bool weft__batched_shape(const weft_dims *shape, int64_t size, weft_dims *out)
{
    if (shape->n == WEFT_MAX_DIMS) {
        return false;
    }
    *out = (weft_dims){.n = shape->n + 1, .at = {size}};
    for (int i = 0; i < shape->n; i++) {
        out->at[i + 1] = shape->at[i];
    }
    return true;
}

weft_array *weft__repeat(weft_array *x, int64_t size)
{
    weft_dims shape = weft_shape(x), batched;
    if (!weft_ok(x)) {
        return x;
    }
    return weft__batched_shape(&shape, size, &batched)
               ? weft_broadcast_to(x, batched)
               : weft__failed("vmap: a batch of arrays of %d dims", WEFT_MAX_DIMS);
}

/* A node with its batched inputs. */
typedef struct batching {
    weft_array *node;
    weft_array **in; /* with the batch in front if batched[i], else unchanged */
    bool *batched;
    int64_t size;
} batching;

/* ---- rules ---------------------------------------------------------------------------------- */

/* Applies the same op with the same parameters to inputs that all have the batch axis. */
static weft_status by_leading_axis(const batching *b, weft_array **out)
{
    weft_array *node = b->node;
    for (int i = 0; i < node->n_inputs; i++) {
        b->in[i] = b->batched[i] ? b->in[i] : weft__repeat(b->in[i], b->size);
    }
    weft_array *y = weft__apply_on(node->device, node->op, b->in, node->n_inputs, node->params);
    for (int o = 0; o < node->n_outputs; o++) {
        out[o] = weft_pick(y, o);
    }
    return WEFT_OK;
}

static weft_status by_expansion(const batching *b, weft_array **out)
{
    weft_array *node = b->node, *outs[WEFT_MAX_OUTPUTS] = {NULL};
    const int n = node->n_inputs;
    weft_array **inputs = weft_calloc(3 * (size_t)n, sizeof *inputs);
    if (!inputs) {
        return weft__out_of_memory("vmap", NULL);
    }
    weft_array **sources = inputs + n, **batches = inputs + 2 * n;
    int m = 0;
    for (int i = 0; i < n; i++) {
        inputs[i] = b->batched[i] ? weft__alias(node->inputs[i]) : node->inputs[i];
        if (b->batched[i]) {
            sources[m] = inputs[i];
            batches[m++] = b->in[i];
        }
    }
    weft_array *clone = weft__apply_on(node->device, node->op, inputs, n, node->params);
    weft_status status = weft_ok(clone) ? WEFT_OK : weft__report(clone);
    if (status == WEFT_OK) {
        node->op->expand(clone, outs);
        status = weft__batch(outs, node->n_outputs, sources, batches, m, b->size, out);
    }
    weft_free(inputs);
    return status;
}

/* Applies the node to the slices of example `at`. */
static weft_array *one_example(const batching *b, int64_t at, weft_array **inputs)
{
    weft_array *node = b->node;
    for (int i = 0; i < node->n_inputs; i++) {
        weft_array *x = b->in[i];
        inputs[i] = b->batched[i] ? weft_squeeze(weft_slice_axis(x, 0, at, at + 1), 0) : x;
    }
    return weft__apply_on(node->device, node->op, inputs, node->n_inputs, node->params);
}

static weft_status one_by_one(const batching *b, weft_array **out)
{
    weft_array *node = b->node;
    int64_t n_parts = b->size * node->n_outputs;
    if (b->size > INT32_MAX) {
        return weft_fail(WEFT_UNSUPPORTED, "vmap of %s: %lld examples one by one", node->op->name,
                         (long long)b->size);
    }
    weft_array **parts = weft_calloc((size_t)(n_parts + node->n_inputs), sizeof *parts);
    if (!parts) {
        return weft__out_of_memory("vmap", NULL);
    }
    for (int64_t at = 0; at < b->size; at++) {
        weft_array *y = one_example(b, at, parts + n_parts);
        for (int o = 0; o < node->n_outputs; o++) {
            parts[o * b->size + at] = weft_pick(y, o);
        }
    }
    for (int o = 0; o < node->n_outputs && b->size > 0; o++) {
        out[o] = weft_stack(parts + o * b->size, (int)b->size, 0);
    }
    for (int o = 0; o < node->n_outputs && b->size == 0; o++) {
        const weft_spec *spec = &weft__output(node, o)->spec;
        out[o] = weft__repeat(weft_zeros(spec->shape, spec->dtype), 0);
    }
    weft_free(parts);
    return WEFT_OK;
}

static bool has_room(const weft_array *node)
{
    bool room = true;
    for (int i = 0; i < node->n_inputs; i++) {
        room = room && weft_ndim(node->inputs[i]) < WEFT_MAX_DIMS;
    }
    for (int o = 0; o < node->n_outputs; o++) {
        room = room && weft__output(node, o)->spec.shape.n < WEFT_MAX_DIMS;
    }
    return room;
}

static weft_status node_batch(const batching *b, weft_array **out)
{
    const weft_op *op = b->node->op;
    if (!has_room(b->node)) {
        return weft_fail(WEFT_UNSUPPORTED, "vmap of %s: a batch of arrays of %d dims", op->name,
                         WEFT_MAX_DIMS);
    }
    weft_rule rule = weft_op_rules_of(op).vmap;
    if (rule == WEFT_RULE_OWN && op->vmap(b->node, b->in, b->batched, b->size, out)) {
        return WEFT_OK;
    }
    if (rule == WEFT_RULE_LEADING_AXIS || op->takes_leading_axis) {
        return by_leading_axis(b, out);
    }
    return op->expand ? by_expansion(b, out) : one_by_one(b, out);
}

/* ---- the graph walk -------------------------------------------------------------------------- */

/* Stores the results of the rule; results that do not depend on the batch are repeated. */
static void settle(weft__dependents *d, int64_t index, int64_t size, weft_array *const *out)
{
    weft_array *node = d->nodes.keys[index];
    for (int o = 0; o < node->n_outputs; o++) {
        weft_spec spec = weft__output(node, o)->spec;
        weft_dims shape;
        weft_array *y = out[o];
        if (!y) {
            y = weft__failed("vmap of %s: its rule gave no output %d", node->op->name, o);
        } else if (weft__batched_shape(&spec.shape, size, &shape)) {
            spec.shape = shape;
            y = weft__as_spec(y, &spec, "vmap", node->op->name);
        }
        d->values[d->first[index] + o] = y;
    }
}

static weft_status visit(weft__dependents *d, int64_t index, int64_t size)
{
    weft_array *node = d->nodes.keys[index], *out[WEFT_MAX_OUTPUTS] = {NULL};
    batching b = {.node = node, .size = size};
    b.in = weft_calloc((size_t)node->n_inputs, sizeof *b.in);
    b.batched = weft_calloc((size_t)node->n_inputs, sizeof *b.batched);
    weft_status status = b.in && b.batched ? WEFT_OK : weft__out_of_memory("vmap", NULL);
    for (int i = 0; i < node->n_inputs && status == WEFT_OK; i++) {
        weft_array **value = weft__dependent_value(d, node->inputs[i]);
        b.batched[i] = value != NULL;
        b.in[i] = value ? *value : node->inputs[i];
        status = weft_ok(b.in[i]) ? WEFT_OK : weft__report(b.in[i]);
    }
    if (status == WEFT_OK) {
        weft__rule_context context = weft__enter_rule_context(node);
        status = node_batch(&b, out);
        weft__leave_rule_context(context);
    }
    weft_free(b.in);
    weft_free(b.batched);
    if (status == WEFT_OK) {
        settle(d, index, size, out);
    }
    return status;
}

weft_status weft__batch(weft_array *const *outs, int n_out, weft_array *const *sources,
                        weft_array *const *batches, int n_sources, int64_t size,
                        weft_array **results)
{
    weft_status status = weft__all_ok(outs, n_out);
    if (status != WEFT_OK) {
        return status;
    }
    weft__dependents d;
    status = weft__dependents_find(&d, "vmap", outs, n_out, sources, n_sources, true);
    for (int i = 0; i < n_sources && status == WEFT_OK; i++) {
        *weft__dependent_value(&d, sources[i]) = batches[i];
    }
    for (int64_t i = 0; i < d.nodes.count && status == WEFT_OK; i++) {
        if (d.needed[i]) {
            status = visit(&d, i, size);
        }
    }
    for (int i = 0; i < n_out && status == WEFT_OK; i++) {
        weft_array **value = weft__dependent_value(&d, outs[i]);
        results[i] = value ? *value : weft__repeat(outs[i], size);
    }
    weft__dependents_free(&d);
    return status;
}
