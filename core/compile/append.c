/* core/compile/append.c -- a decoding step's attention as one node: the rotations of queries and
 * keys, the writes of keys and values to a cache or its pages, and the attention that reads it
 * become one attention_append, where the device has a kernel for that. The results have the same
 * bits. */
#include <string.h>

#include "core/builtin.h"
#include "core/compile/compiled.h"
#include "core/eval/choose.h"
#include "core/eval/plan.h"
#include "core/failure.h"
#include "core/shape.h"
#include "weft/op_params.h"

enum { FIXED = 8, BEFORE = 3 /* inputs of attention */, MOST = FIXED + 4, OUTPUTS = 4 };

/* A node's readers: edges of nodes, the first node among them, and all edges. */
typedef struct readers {
    int64_t nodes, first, all;
} readers;

enum { PLAIN, JOINED, ABSORBED }; /* what becomes of a node of the trace */

typedef struct joining {
    bool own_pages; /* as in weft_compile_options */
    const weft__trace *t;
    weft__trace *out;
    readers *of;         /* per node of t */
    weft__value *values; /* per node of t: what replaces its output 0 */
    char *kinds;         /* per node of t */
} joining;

/* The nodes that are joined with an attention, by their indices. */
typedef struct parts {
    int64_t q, k;         /* rotations */
    int64_t keys, values; /* writes to the caches */
    int64_t others[4];    /* with pages: views of the caches, then of the tokens; else -1 */
    weft__value fresh_v, start;
    int64_t page; /* 0: no pages */
} parts;

static const weft__trace_node *at(const joining *j, int64_t i)
{
    return &j->t->nodes[i];
}

/* The index of the node of `op` that makes the value as its only output; -1: another one does. */
static int64_t made_by(const joining *j, weft__value v, const weft_op *op)
{
    return v.kind == WEFT__NODE && at(j, v.index)->op == op ? (int64_t)v.index : -1;
}

/* The same, if one node is the value's only reader. */
static int64_t made_for_one(const joining *j, weft__value v, const weft_op *op)
{
    const int64_t i = made_by(j, v, op);
    return i >= 0 && j->of[i].all == 1 ? i : -1;
}

/* A rotation that only one node reads. Those of a norm's result are computed with the norm
 * (weft_op.may_repeat) and stay as they are. */
static int64_t rotation(const joining *j, weft__value v)
{
    const int64_t i = made_for_one(j, v, weft__builtins.rope);
    const int64_t from =
        i >= 0 && at(j, i)->inputs[0].kind == WEFT__NODE ? (int64_t)at(j, i)->inputs[0].index : -1;
    return from >= 0 && at(j, from)->op->may_repeat ? -1 : i;
}

/* Whether the node writes one run of tokens to a cache, which nothing reads before node `reader`.
 */
static bool writes_run(const joining *j, int64_t i, int64_t reader)
{
    const weft_slice_params *window = i >= 0 ? at(j, i)->params : NULL;
    return window && j->of[i].first == reader && at(j, i)->specs[0].shape.n == 4 &&
           window->axes.n == 1 && window->axes.at[0] == -3;
}

static bool find_runs(const joining *j, int64_t i, parts *p)
{
    const weft__value *in = at(j, i)->inputs;
    p->keys = made_by(j, in[1], weft__builtins.slice_update);
    p->values = made_by(j, in[2], weft__builtins.slice_update);
    if (!writes_run(j, p->keys, i) || !writes_run(j, p->values, i) ||
        !weft_params_equal(weft__builtins.slice_update, at(j, p->keys)->params,
                           at(j, p->values)->params) ||
        !weft__value_equal(at(j, p->keys)->inputs[2], at(j, p->values)->inputs[2])) {
        return false;
    }
    p->start = at(j, p->keys)->inputs[2];
    p->k = rotation(j, at(j, p->keys)->inputs[1]);
    p->fresh_v = at(j, p->values)->inputs[1];
    return true;
}

/* The indices (B) of tokens of a pool, from those of all their elements (1, B, ...). */
static bool find_places(const joining *j, weft__value v, weft__value *places)
{
    const int64_t all = made_by(j, v, weft__builtins.broadcast);
    const int64_t one = all >= 0 ? made_by(j, at(j, all)->inputs[0], weft__builtins.reshape) : -1;
    if (one < 0) {
        return false;
    }
    const weft_dims shape = at(j, one)->specs[0].shape;
    *places = at(j, one)->inputs[0];
    return weft__trace_spec(j->t, *places)->shape.n == 1 && shape.n == 4 && shape.at[0] == 1 &&
           shape.at[2] == 1 && shape.at[3] == 1;
}

/* The write of tokens to places of a pool (1, S, ...) that attention sees as pages; -1: none.
 * others: the views of the pool and of the tokens. */
static int64_t find_write(const joining *j, weft__value pages, weft__value *token, int64_t *others)
{
    others[0] = made_for_one(j, pages, weft__builtins.reshape);
    const int64_t i = others[0] >= 0
                          ? made_by(j, at(j, others[0])->inputs[0], weft__builtins.put_along_axis)
                          : -1;
    if (i < 0 || j->of[i].nodes != 1 || at(j, i)->specs[0].shape.n != 4 ||
        at(j, i)->specs[0].shape.at[0] != 1 ||
        ((const weft_axis_params *)at(j, i)->params)->axis != -3) {
        return -1;
    }
    others[2] = made_for_one(j, at(j, i)->inputs[2], weft__builtins.transpose);
    const weft_dims order = {.n = 4, .at = {1, 0, 2, 3}};
    if (others[2] < 0 ||
        !weft__shape_equal(&order,
                           &((const weft_transpose_params *)at(j, others[2])->params)->axes)) {
        return -1;
    }
    *token = at(j, others[2])->inputs[0];
    return i;
}

static bool find_pages(const joining *j, int64_t i, parts *p)
{
    const weft__value *in = at(j, i)->inputs;
    weft__value k, places;
    p->keys = find_write(j, in[1], &k, &p->others[0]);
    p->values = find_write(j, in[2], &p->fresh_v, &p->others[1]);
    if (p->keys < 0 || p->values < 0 || !find_places(j, at(j, p->keys)->inputs[1], &p->start) ||
        !find_places(j, at(j, p->values)->inputs[1], &places) ||
        !weft__value_equal(p->start, places)) {
        return false;
    }
    p->k = rotation(j, k);
    p->page = at(j, p->others[0])->specs[0].shape.at[1];
    return p->page > 0 &&
           weft__trace_spec(j->t, p->start)->shape.at[0] == at(j, i)->specs[0].shape.at[0];
}

static bool find_parts(const joining *j, int64_t i, parts *p)
{
    const weft_op *op = at(j, i)->op;
    *p = (parts){.others = {-1, -1, -1, -1}};
    if (op == weft__builtins.attention
            ? !find_runs(j, i, p)
            : op != weft__builtins.attention_pages || !j->own_pages || !find_pages(j, i, p)) {
        return false;
    }
    p->q = rotation(j, at(j, i)->inputs[0]);
    if (p->q < 0 || p->k < 0 || p->q == p->k || p->keys == p->values) {
        return false;
    }
    const weft__trace_node *q = at(j, p->q), *k = at(j, p->k);
    return weft__value_equal(q->inputs[1], k->inputs[1]) &&
           weft__value_equal(q->inputs[2], k->inputs[2]) &&
           weft_params_equal(weft__builtins.rope, q->params, k->params);
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
    const weft__trace_node *attention = at(j, i), *q = at(j, p->q);
    const weft__trace_node *keys = at(j, p->keys), *values = at(j, p->values);
    const weft__value fixed[FIXED] = {
        q->inputs[0],           keys->inputs[0], values->inputs[0], p->fresh_v,
        at(j, p->k)->inputs[0], q->inputs[1],    q->inputs[2],      p->start};
    const int others = attention->n_inputs - BEFORE; /* pages too */
    memcpy(out->inputs, fixed, sizeof fixed);
    memcpy(out->inputs + FIXED, attention->inputs + BEFORE, (size_t)others * sizeof *out->inputs);
    memcpy(&out->params.attention, attention->params, sizeof out->params.attention);
    memcpy(&out->params.rope, q->params, sizeof out->params.rope);
    out->params.page = p->page;
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
            readers *of = v.kind == WEFT__NODE ? &j->of[v.index] : NULL;
            if (of && of->nodes++ == 0) {
                of->first = i;
            }
            if (of) {
                of->all++;
            }
        }
    }
    for (int64_t i = 0; i < t->n_outputs; i++) {
        if (t->outputs[i].kind == WEFT__NODE) {
            j->of[t->outputs[i].index].all++;
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
            for (int k = 0; k < 4 && p.page > 0; k++) {
                j->kinds[p.others[k]] = ABSORBED;
            }
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

weft_status weft__join_appends(weft__trace *t, bool own_pages)
{
    const size_t n = (size_t)t->n_nodes;
    weft__trace out = {0};
    joining j = {.own_pages = own_pages,
                 .t = t,
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
