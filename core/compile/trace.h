/* core/compile/trace.h -- traces: a function as a list of nodes.
 *
 * A trace is made from a graph of arrays and can build the graph again over other arguments. Nodes
 * refer to their inputs by index, so a trace keeps nothing of the original graph alive except its
 * constants.
 */
#ifndef CORE_COMPILE_TRACE_H
#define CORE_COMPILE_TRACE_H

#include "core/arena.h"
#include "core/graph.h"

typedef enum weft__value_kind { WEFT__ARGUMENT, WEFT__CONSTANT, WEFT__NODE } weft__value_kind;

/* An input of a node: an argument, a constant, or an output of another node. */
typedef struct weft__value {
    uint32_t kind; /* weft__value_kind */
    uint32_t index;
    uint32_t output; /* output of a node; otherwise 0 */
} weft__value;

typedef struct weft__trace_node {
    const weft_op *op;
    void *params; /* op->params_size bytes */
    weft_device *device;
    const char *path; /* module path if checks were on, else NULL; outlives the trace */
    int n_inputs, n_outputs;
    weft__value *inputs;    /* outputs of earlier nodes only */
    const weft_spec *specs; /* per output; may be shared with other nodes */
} weft__trace_node;

/* The required spec and device of an argument. */
typedef struct weft__trace_argument {
    weft_spec spec;
    weft_device *device;
} weft__trace_argument;

typedef struct weft__trace {
    weft__trace_argument *arguments;
    weft_array **constants; /* held and evaluated */
    weft__trace_node *nodes;
    weft__value *outputs;
    int64_t n_arguments, n_constants, n_nodes, n_outputs;
    weft__arena memory; /* for params, inputs and specs */
} weft__trace;

/* ---- making --------------------------------------------------------------------------------- */

/* A lazy array that replaces argument `index` while a function is traced. Evaluating it is an
 * error. */
weft_array *weft__placeholder(const weft_spec *spec, weft_device *device, int64_t index);
bool weft__is_placeholder(const weft_array *a);

/* The trace of `outs` as a function of `args` (any lazy or evaluated arrays, distinct). Reachable
 * lazy nodes with seq >= since become nodes; other arrays that they need become constants, and are
 * evaluated if necessary. `out` is empty after a failure. */
weft_status weft__trace_make(weft__trace *out, weft_array *const *args, int64_t n_args,
                             weft_array *const *outs, int64_t n_outs, uint64_t since);

/* To build a trace step by step: an empty trace with room for its arguments and outputs, which the
 * caller fills in. Constants and nodes are appended. */
weft_status weft__trace_open(weft__trace *out, int64_t n_args, int64_t n_outs);
/* Appends and holds `a`, which must be evaluated. */
weft_status weft__trace_add_constant(weft__trace *t, weft_array *a, weft__value *value);
/* Appends a copy of the node with its params, inputs and specs. */
weft_status weft__trace_add_node(weft__trace *t, const weft__trace_node *node, weft__value *value);

/* Replaces `from` by `to`, which precedes it, in all nodes and outputs. */
void weft__trace_redirect(weft__trace *t, weft__value from, weft__value to);

void weft__trace_free(weft__trace *t);

/* ---- using ---------------------------------------------------------------------------------- */

/* Builds the graph of the trace over `args`, as temporaries of the innermost scope: outs[i].
 * Arguments may have other shapes than the trace's; incompatible ones make error arrays. Outputs
 * that depend on a failed argument or node are error arrays. */
weft_status weft__trace_apply(const weft__trace *t, weft_array *const *args, weft_array **outs);

/* The same for a trace whose outputs depend on no argument; nodes that depend on one are left out.
 */
weft_status weft__trace_apply_constants(const weft__trace *t, weft_array **outs);

/* The spec of a value, and its device. */
const weft_spec *weft__trace_spec(const weft__trace *t, weft__value value);
weft_device *weft__trace_device(const weft__trace *t, weft__value value);

static inline bool weft__value_equal(weft__value a, weft__value b)
{
    return a.kind == b.kind && a.index == b.index && a.output == b.output;
}

#endif
