/* core/compile/trace.c -- makes traces from graphs and graphs from traces. */
#include "core/compile/trace.h"

#include <string.h>

#include "core/failure.h"
#include "core/list.h"
#include "core/shape.h"

/* ---- building a trace ------------------------------------------------------------------------ */

weft_status weft__trace_open(weft__trace *out, int64_t n_args, int64_t n_outs)
{
    *out = (weft__trace){.n_arguments = n_args, .n_outputs = n_outs};
    out->arguments = weft_calloc((size_t)n_args, sizeof *out->arguments);
    out->outputs = weft_calloc((size_t)n_outs, sizeof *out->outputs);
    if (out->arguments && out->outputs) {
        return WEFT_OK;
    }
    weft__trace_free(out);
    return weft__out_of_memory("compile", "a trace");
}

weft_status weft__trace_add_constant(weft__trace *t, weft_array *a, weft__value *value)
{
    if (!weft__list_more(t->constants, t->n_constants)) {
        return weft__out_of_memory("compile", "a trace");
    }
    weft__hold(a);
    *value = (weft__value){WEFT__CONSTANT, (uint32_t)t->n_constants, 0};
    t->constants[t->n_constants++] = a;
    return WEFT_OK;
}

static bool same_spec(const weft_spec *a, const weft_spec *b)
{
    return a->dtype == b->dtype && a->encoding == b->encoding &&
           weft__shape_equal(&a->shape, &b->shape);
}

/* Copies the node's specs to the trace's memory. Shares those of its input or of the previous node
 * if they are equal, as they are in long chains. NULL: out of memory. */
static const weft_spec *keep_specs(weft__trace *t, const weft__trace_node *node)
{
    const weft_spec *near[2] = {
        node->n_inputs > 0 && node->inputs[0].kind == WEFT__NODE
            ? weft__trace_spec(t, node->inputs[0])
            : NULL,
        t->n_nodes > 0 ? t->nodes[t->n_nodes - 1].specs : NULL,
    };
    for (int i = 0; i < 2 && node->n_outputs == 1; i++) {
        if (near[i] && same_spec(near[i], node->specs)) {
            return near[i];
        }
    }
    weft_spec *specs = weft__arena_take(&t->memory, (size_t)node->n_outputs * sizeof *specs);
    if (specs) {
        memcpy(specs, node->specs, (size_t)node->n_outputs * sizeof *specs);
    }
    return specs;
}

weft_status weft__trace_add_node(weft__trace *t, const weft__trace_node *node, weft__value *value)
{
    if (!weft__list_more(t->nodes, t->n_nodes)) {
        return weft__out_of_memory("compile", "a trace");
    }
    weft__trace_node copy = *node;
    copy.inputs = weft__arena_take(&t->memory, (size_t)node->n_inputs * sizeof *copy.inputs);
    copy.params = weft__arena_take(&t->memory, node->op->params_size);
    copy.specs = keep_specs(t, node);
    if (!copy.inputs || !copy.params || !copy.specs) {
        return weft__out_of_memory("compile", "a trace");
    }
    if (node->n_inputs > 0) {
        memcpy(copy.inputs, node->inputs, (size_t)node->n_inputs * sizeof *copy.inputs);
    }
    if (node->op->params_size > 0) {
        memcpy(copy.params, node->params, node->op->params_size);
    }
    *value = (weft__value){WEFT__NODE, (uint32_t)t->n_nodes, 0};
    t->nodes[t->n_nodes++] = copy;
    return WEFT_OK;
}

void weft__trace_free(weft__trace *t)
{
    for (int64_t i = 0; i < t->n_constants; i++) {
        weft__unhold(t->constants[i]);
    }
    weft__arena_release(&t->memory);
    weft_free(t->arguments);
    weft_free(t->constants);
    weft_free(t->nodes);
    weft_free(t->outputs);
    *t = (weft__trace){0};
}

void weft__trace_redirect(weft__trace *t, weft__value from, weft__value to)
{
    for (int64_t i = 0; i < t->n_nodes; i++) {
        for (int k = 0; k < t->nodes[i].n_inputs; k++) {
            weft__value *v = &t->nodes[i].inputs[k];
            *v = weft__value_equal(*v, from) ? to : *v;
        }
    }
    for (int64_t i = 0; i < t->n_outputs; i++) {
        t->outputs[i] = weft__value_equal(t->outputs[i], from) ? to : t->outputs[i];
    }
}

/* ---- from a graph ---------------------------------------------------------------------------- */

typedef struct tracing {
    weft__trace *t;
    weft__map args;      /* maps arrays to arguments */
    weft__map nodes;     /* in order of creation */
    weft__map constants; /* maps arrays to constants */
    uint64_t since;
    weft__value *inputs; /* buffer for the inputs of one node */
    int64_t input_capacity;
} tracing;

static bool is_outside(const void *context, weft_array *a)
{
    const tracing *c = context;
    return a->seq < c->since || a->state != WEFT__LAZY ||
           weft__map_index((weft__map *)&c->args, a, NULL) >= 0;
}

static weft_status value_of(tracing *c, weft_array *a, weft__value *value)
{
    int64_t i = weft__map_index(&c->args, a, NULL);
    if (i >= 0) {
        *value = (weft__value){WEFT__ARGUMENT, (uint32_t)i, 0};
        return WEFT_OK;
    }
    i = weft__map_index(&c->nodes, a->first, NULL);
    if (i >= 0) {
        *value = (weft__value){WEFT__NODE, (uint32_t)i, (uint32_t)weft__output_index(a)};
        return WEFT_OK;
    }
    bool added;
    i = weft__map_index(&c->constants, a, &added);
    if (i < 0) {
        return weft__out_of_memory("compile", "a trace");
    }
    *value = (weft__value){WEFT__CONSTANT, (uint32_t)i, 0};
    return added ? weft__trace_add_constant(c->t, a, value) : WEFT_OK;
}

static weft_status add_node(tracing *c, weft_array *a)
{
    if (a->n_inputs > c->input_capacity) {
        weft__value *larger = weft_realloc(c->inputs, (size_t)a->n_inputs * sizeof *larger);
        if (!larger) {
            return weft__out_of_memory("compile", "a trace");
        }
        c->inputs = larger;
        c->input_capacity = a->n_inputs;
    }
    for (int i = 0; i < a->n_inputs; i++) {
        weft_status status = value_of(c, a->inputs[i], &c->inputs[i]);
        if (status != WEFT_OK) {
            return status;
        }
    }
    weft_spec specs[WEFT_MAX_OUTPUTS];
    for (int i = 0; i < a->n_outputs; i++) {
        specs[i] = weft__output(a, i)->spec;
    }
    weft__trace_node node = {.op = a->op,
                             .params = a->params,
                             .device = a->device,
                             .path = a->path,
                             .n_inputs = a->n_inputs,
                             .n_outputs = a->n_outputs,
                             .inputs = c->inputs,
                             .specs = specs};
    weft__value value;
    return weft__trace_add_node(c->t, &node, &value);
}

/* Adds the arguments, each an output of a separate node. */
static weft_status add_arguments(tracing *c, weft_array *const *args, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        bool added;
        if (!weft_ok(args[i])) {
            return weft__report(args[i]);
        }
        if (weft__map_index(&c->args, args[i], &added) < 0) {
            return weft__out_of_memory("compile", "a trace");
        }
        if (!added) {
            return weft_fail(WEFT_INVALID, "compile: argument %lld is there twice", (long long)i);
        }
        c->t->arguments[i] = (weft__trace_argument){args[i]->spec, args[i]->device};
    }
    return WEFT_OK;
}

static weft_status check_outputs(weft_array *const *outs, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!weft_ok(outs[i])) {
            return outs[i] ? weft__report(outs[i])
                           : weft_fail(WEFT_INVALID, "compile: output %lld is NULL", (long long)i);
        }
    }
    return WEFT_OK;
}

static weft_status fill(tracing *c, weft_array *const *args, int64_t n_args,
                        weft_array *const *outs, int64_t n_outs)
{
    weft_status status = add_arguments(c, args, n_args);
    if (status != WEFT_OK) {
        return status;
    }
    if (!weft__collect(outs, (int)n_outs, is_outside, c, &c->nodes)) {
        return weft__out_of_memory("compile", "a trace");
    }
    for (int64_t i = 0; i < c->nodes.count && status == WEFT_OK; i++) {
        status = add_node(c, c->nodes.keys[i]);
    }
    for (int64_t i = 0; i < n_outs && status == WEFT_OK; i++) {
        status = value_of(c, outs[i], &c->t->outputs[i]);
    }
    if (status == WEFT_OK && c->t->n_constants > 0) {
        status = weft_eval_n(c->t->constants, (int)c->t->n_constants);
    }
    return status;
}

weft_status weft__trace_make(weft__trace *out, weft_array *const *args, int64_t n_args,
                             weft_array *const *outs, int64_t n_outs, uint64_t since)
{
    *out = (weft__trace){0};
    weft_status status = check_outputs(outs, n_outs);
    if (status == WEFT_OK) {
        status = weft__trace_open(out, n_args, n_outs);
    }
    if (status != WEFT_OK) {
        return status;
    }
    tracing c = {.t = out, .since = since};
    status = fill(&c, args, n_args, outs, n_outs);
    weft__map_free(&c.args);
    weft__map_free(&c.nodes);
    weft__map_free(&c.constants);
    weft_free(c.inputs);
    if (status != WEFT_OK) {
        weft__trace_free(out);
    }
    return status;
}

/* ---- to a graph ------------------------------------------------------------------------------ */

static weft_array *array_of(const weft__trace *t, weft_array *const *args, weft_array *const *made,
                            weft__value value)
{
    if (value.kind != WEFT__NODE) {
        return value.kind == WEFT__ARGUMENT ? args[value.index] : t->constants[value.index];
    }
    weft_array *node = made[value.index];
    return node ? weft_pick(node, (int)value.output) : NULL;
}

static int most_inputs(const weft__trace *t)
{
    int most = 1;
    for (int64_t i = 0; i < t->n_nodes; i++) {
        most = t->nodes[i].n_inputs > most ? t->nodes[i].n_inputs : most;
    }
    return most;
}

/* With args NULL, nodes that depend on an argument are NULL. */
static weft_array *make_node(const weft__trace *t, weft_array *const *args, weft_array *const *made,
                             const weft__trace_node *n, weft_array **inputs)
{
    for (int k = 0; k < n->n_inputs; k++) {
        weft__value v = n->inputs[k];
        inputs[k] = !args && v.kind == WEFT__ARGUMENT ? NULL : array_of(t, args, made, v);
        if (!inputs[k]) {
            return NULL;
        }
    }
    weft_array *a = weft__apply_on(n->device, n->op, inputs, n->n_inputs, n->params);
    if (a->state == WEFT__LAZY) {
        a->path = n->path;
    }
    return a;
}

weft_status weft__trace_apply_constants(const weft__trace *t, weft_array **outs)
{
    return weft__trace_apply(t, NULL, outs);
}

weft_status weft__trace_apply(const weft__trace *t, weft_array *const *args, weft_array **outs)
{
    weft_array **made = weft_malloc((size_t)t->n_nodes * sizeof *made);
    weft_array **inputs = weft_malloc((size_t)most_inputs(t) * sizeof *inputs);
    weft_status status = made && inputs ? WEFT_OK : weft__out_of_memory("compile", "a trace");
    for (int64_t i = 0; i < t->n_nodes && status == WEFT_OK; i++) {
        made[i] = make_node(t, args, made, &t->nodes[i], inputs);
    }
    for (int64_t i = 0; i < t->n_outputs && status == WEFT_OK; i++) {
        outs[i] = array_of(t, args, made, t->outputs[i]);
    }
    weft_free(made);
    weft_free(inputs);
    return status;
}

const weft_spec *weft__trace_spec(const weft__trace *t, weft__value value)
{
    return value.kind == WEFT__ARGUMENT   ? &t->arguments[value.index].spec
           : value.kind == WEFT__CONSTANT ? &t->constants[value.index]->spec
                                          : &t->nodes[value.index].specs[value.output];
}

weft_device *weft__trace_device(const weft__trace *t, weft__value value)
{
    return value.kind == WEFT__ARGUMENT   ? t->arguments[value.index].device
           : value.kind == WEFT__CONSTANT ? t->constants[value.index]->device
                                          : t->nodes[value.index].device;
}
