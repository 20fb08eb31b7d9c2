/* core/compile/append.c -- a decoding step's attention as one node: the rotations of queries and
 * keys, the writes of keys and values to a cache, and the attention that reads it become one
 * attention_append, where the device has a kernel for that. The results have the same bits. */
#include <string.h>

#include "core/builtin.h"
#include "core/compile/compiled.h"
#include "core/eval/choose.h"
#include "core/eval/plan.h"
#include "core/failure.h"
#include "core/shape.h"
#include "weft/op_params.h"

enum { FIXED = 8, BEFORE = 3 /* inputs of attention */, MOST = FIXED + 4, OUTPUTS = 4 };

/* A node's readers: edges of nodes and outputs of the trace, and the first node among them. */
typedef struct readers {
    int64_t n, first;
} readers;

enum { PLAIN, JOINED, ABSORBED }; /* what becomes of a node of the trace */

typedef struct joining {
    const weft__trace *t;
    weft__trace *out;
    readers *of;         /* per node of t */
    weft__value *values; /* per node of t: what replaces its output 0 */
    char *kinds;         /* per node of t */
} joining;

/* What becomes a part of an attention: indices of nodes. */
typedef struct parts {
    int64_t q, k;         /* rotations */
    int64_t keys, values; /* writes to the caches */
} parts;

/* The index of the node of `op` that makes the value as its only output; -1: another one does. */
static int64_t made_by(const joining *j, weft__value v, const weft_op *op)
{
    return v.kind == WEFT__NODE && j->t->nodes[v.index].op == op ? (int64_t)v.index : -1;
}

/* A rotation that only one node reads. Those of a norm's result are computed with the norm
 * (weft_op.may_repeat) and stay as they are. */
static bool is_rotation(const joining *j, int64_t i)
{
    if (i < 0 || j->of[i].n != 1) {
        return false;
    }
    const weft__value x = j->t->nodes[i].inputs[0];
    return x.kind != WEFT__NODE || !j->t->nodes[x.index].op->may_repeat;
}

/* Whether the node writes one run of tokens to a cache, which nothing reads before node `reader`.
 */
static bool is_write(const joining *j, int64_t i, int64_t reader)
{
    if (i < 0 || j->of[i].first != reader) {
        return false;
    }
    const weft__trace_node *n = &j->t->nodes[i];
    const weft_slice_params *window = n->params;
    return n->specs[0].shape.n == 4 && window->axes.n == 1 && window->axes.at[0] == -3;
}

static bool same_value(const weft__trace_node *a, const weft__trace_node *b, int i)
{
    return weft__value_equal(a->inputs[i], b->inputs[i]);
}

static bool find_parts(const joining *j, int64_t i, parts *p)
{
    const weft__trace_node *nodes = j->t->nodes, *n = &nodes[i];
    if (n->op != weft__builtins.attention) {
        return false;
    }
    p->q = made_by(j, n->inputs[0], weft__builtins.rope);
    p->keys = made_by(j, n->inputs[1], weft__builtins.slice_update);
    p->values = made_by(j, n->inputs[2], weft__builtins.slice_update);
    if (!is_rotation(j, p->q) || !is_write(j, p->keys, i) || !is_write(j, p->values, i) ||
        p->keys == p->values || !same_value(&nodes[p->keys], &nodes[p->values], 2)) {
        return false;
    }
    p->k = made_by(j, nodes[p->keys].inputs[1], weft__builtins.rope);
    return is_rotation(j, p->k) && p->k != p->q && same_value(&nodes[p->q], &nodes[p->k], 1) &&
           same_value(&nodes[p->q], &nodes[p->k], 2) &&
           weft_params_equal(weft__builtins.rope, nodes[p->q].params, nodes[p->k].params);
}

/* The node that replaces the attention and its parts, over values of t. */
typedef struct joined {
    weft__trace_node node;
    weft_attention_append_params params;
    weft__value inputs[MOST];
    weft_spec specs[OUTPUTS];
} joined;

static void join(const joining *j, int64_t i, const parts *p, joined *out)
{
    const weft__trace_node *nodes = j->t->nodes, *attention = &nodes[i], *q = &nodes[p->q];
    const weft__trace_node *keys = &nodes[p->keys], *values = &nodes[p->values];
    const weft__value fixed[FIXED] = {q->inputs[0],      keys->inputs[0],       values->inputs[0],
                                      values->inputs[1], nodes[p->k].inputs[0], q->inputs[1],
                                      q->inputs[2],      keys->inputs[2]};
    const int others = attention->n_inputs - BEFORE;
    memcpy(out->inputs, fixed, sizeof fixed);
    memcpy(out->inputs + FIXED, attention->inputs + BEFORE, (size_t)others * sizeof *out->inputs);
    memcpy(&out->params.attention, attention->params, sizeof out->params.attention);
    memcpy(&out->params.rope, q->params, sizeof out->params.rope);
    memcpy(out->specs, attention->specs, 2 * sizeof *out->specs);
    out->specs[2] = keys->specs[0];
    out->specs[3] = values->specs[0];
    out->node = *attention;
    out->node.op = weft__builtins.attention_append;
    out->node.params = &out->params;
    out->node.n_inputs = FIXED + others;
    out->node.n_outputs = OUTPUTS;
    out->node.inputs = out->inputs;
    out->node.specs = out->specs;
}

/* Whether the device has a kernel for the node, whose inputs are values of t. */
static bool has_kernel(const weft__trace *t, const weft__trace_node *node)
{
    weft_tensor in[MOST], out[OUTPUTS];
    for (int i = 0; i < node->n_inputs; i++) {
        if (weft__trace_device(t, node->inputs[i]) != node->device) {
            return false;
        }
        weft__fill_tensor(&in[i], weft__trace_spec(t, node->inputs[i]), NULL);
    }
    for (int i = 0; i < OUTPUTS; i++) {
        weft__fill_tensor(&out[i], &node->specs[i], NULL);
    }
    const weft_call call = {.op = node->op,
                            .params = node->params,
                            .n_inputs = node->n_inputs,
                            .n_outputs = OUTPUTS,
                            .in = in,
                            .out = out,
                            .device = node->device};
    return weft__choose_row(node->device, &call) != NULL;
}

/* ---- the trace ------------------------------------------------------------------------------ */

static void count_readers(const joining *j)
{
    const weft__trace *t = j->t;
    for (int64_t i = 0; i < t->n_nodes; i++) {
        for (int k = 0; k < t->nodes[i].n_inputs; k++) {
            const weft__value v = t->nodes[i].inputs[k];
            if (v.kind == WEFT__NODE && j->of[v.index].n++ == 0) {
                j->of[v.index].first = i;
            }
        }
    }
    for (int64_t i = 0; i < t->n_outputs; i++) {
        if (t->outputs[i].kind == WEFT__NODE) {
            j->of[t->outputs[i].index].n++;
        }
    }
}

/* Decides what is joined; false: nothing. */
static bool choose(const joining *j)
{
    bool any = false;
    count_readers(j);
    for (int64_t i = 0; i < j->t->n_nodes; i++) {
        parts p;
        joined one;
        if (!find_parts(j, i, &p)) {
            continue;
        }
        join(j, i, &p, &one);
        if (has_kernel(j->t, &one.node)) {
            j->kinds[i] = JOINED;
            j->kinds[p.q] = j->kinds[p.k] = j->kinds[p.keys] = j->kinds[p.values] = ABSORBED;
            any = true;
        }
    }
    return any;
}

static weft__value translate(const joining *j, weft__value v)
{
    weft__value to = v.kind == WEFT__NODE ? j->values[v.index] : v;
    to.output += v.kind == WEFT__NODE ? v.output : 0;
    return to;
}

static weft_status add(const joining *j, int64_t i)
{
    weft__trace_node node = j->t->nodes[i];
    parts p;
    joined one;
    if (j->kinds[i] == JOINED && find_parts(j, i, &p)) {
        join(j, i, &p, &one);
        node = one.node;
    }
    weft__value *inputs = weft_malloc((size_t)node.n_inputs * sizeof *inputs);
    if (!inputs) {
        return weft__out_of_memory("compile", "a trace");
    }
    for (int k = 0; k < node.n_inputs; k++) {
        inputs[k] = translate(j, node.inputs[k]);
    }
    node.inputs = inputs;
    const weft_status status = weft__trace_add_node(j->out, &node, &j->values[i]);
    weft_free(inputs);
    if (status == WEFT_OK && j->kinds[i] == JOINED) {
        const uint32_t index = j->values[i].index;
        j->values[p.keys] = (weft__value){WEFT__NODE, index, 2};
        j->values[p.values] = (weft__value){WEFT__NODE, index, 3};
    }
    return status;
}

static weft_status rebuild(const joining *j)
{
    const weft__trace *t = j->t;
    weft_status status = weft__trace_open(j->out, t->n_arguments, t->n_outputs);
    if (status != WEFT_OK) {
        return status;
    }
    memcpy(j->out->arguments, t->arguments, (size_t)t->n_arguments * sizeof *t->arguments);
    for (int64_t i = 0; i < t->n_constants && status == WEFT_OK; i++) {
        weft__value same;
        status = weft__trace_add_constant(j->out, t->constants[i], &same);
    }
    for (int64_t i = 0; i < t->n_nodes && status == WEFT_OK; i++) {
        status = j->kinds[i] == ABSORBED ? WEFT_OK : add(j, i);
    }
    for (int64_t i = 0; i < t->n_outputs && status == WEFT_OK; i++) {
        j->out->outputs[i] = translate(j, t->outputs[i]);
    }
    if (status != WEFT_OK) {
        weft__trace_free(j->out);
    }
    return status;
}

weft_status weft__join_appends(weft__trace *t)
{
    const size_t n = (size_t)t->n_nodes;
    weft__trace out = {0};
    joining j = {.t = t,
                 .out = &out,
                 .of = weft_calloc(n, sizeof *j.of),
                 .values = weft_calloc(n, sizeof *j.values),
                 .kinds = weft_calloc(n, sizeof *j.kinds)};
    weft_status status = WEFT_OK;
    if (!j.of || !j.values || !j.kinds) {
        weft__trace_free(t);
        status = weft__out_of_memory("compile", "a trace");
    } else if (choose(&j)) {
        status = rebuild(&j);
        weft__trace_free(t);
        *t = out;
    }
    weft_free(j.of);
    weft_free(j.values);
    weft_free(j.kinds);
    return status;
}
