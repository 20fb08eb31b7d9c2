/* core/compile/trace.h -- a function as a list: what it computes from its arguments, node by node.
 *
 * A trace is made of a graph of arrays and makes such graphs again, over other arguments. It has
 * everything by value: nodes name their inputs by where they stand in the trace, so nothing of the
 * graph that it was made of stays alive, but the constants.
 */
#ifndef CORE_COMPILE_TRACE_H
#define CORE_COMPILE_TRACE_H

#include "core/arena.h"
#include "core/graph.h"

typedef enum weft__value_kind { WEFT__ARGUMENT, WEFT__CONSTANT, WEFT__NODE } weft__value_kind;

/* Something that a node can have as input: which argument or constant, or which output of which
 * node. */
typedef struct weft__value {
    uint32_t kind; /* weft__value_kind */
    uint32_t index;
    uint32_t output; /* of a node, else 0 */
} weft__value;

typedef struct weft__trace_node {
    const weft_op *op;
    void *params; /* op->params_size bytes */
    weft_device *device;
    const char *path; /* module path when checks were on, else NULL; outlives the trace */
    int n_inputs, n_outputs;
    weft__value *inputs;    /* earlier nodes only */
    const weft_spec *specs; /* per output, as inferred; perhaps shared with other nodes */
} weft__trace_node;

/* What an argument has to look like. */
typedef struct weft__trace_argument {
    weft_spec spec;
    weft_device *device;
} weft__trace_argument;

typedef struct weft__trace {
    weft__trace_argument *arguments;
    weft_array **constants; /* held, evaluated */
    weft__trace_node *nodes;
    weft__value *outputs;
    int64_t n_arguments, n_constants, n_nodes, n_outputs;
    int64_t constant_capacity, node_capacity;
    weft__arena memory; /* of params, inputs and specs */
} weft__trace;

/* ---- making --------------------------------------------------------------------------------- */

/* A lazy array that stands for argument `index` while a function is traced. It can never be
 * evaluated: a message says so. */
weft_array *weft__placeholder(const weft_spec *spec, weft_device *device, int64_t index);
bool weft__is_placeholder(const weft_array *a);

/* The trace of `outs` as a function of `args` (any lazy or evaluated arrays, distinct). Lazy nodes
 * with seq >= since that are reached become nodes; what else they need becomes a constant,
 * evaluated if it is not. `out` is empty after a failure. */
weft_status weft__trace_make(weft__trace *out, weft_array *const *args, int64_t n_args,
                             weft_array *const *outs, int64_t n_outs, uint64_t since);

/* Building one piece by piece: an empty trace with room for its arguments and outputs, to be filled
 * in by the caller; constants and nodes are appended. */
weft_status weft__trace_open(weft__trace *out, int64_t n_args, int64_t n_outs);
/* Holds `a`, which must be evaluated. */
weft_status weft__trace_add_constant(weft__trace *t, weft_array *a, weft__value *value);
/* Copies the node with its params, inputs and specs. */
weft_status weft__trace_add_node(weft__trace *t, const weft__trace_node *node, weft__value *value);

/* Makes all that need `from` need `to`, which stands before it, instead. */
void weft__trace_redirect(weft__trace *t, weft__value from, weft__value to);

void weft__trace_free(weft__trace *t);

/* ---- using ---------------------------------------------------------------------------------- */

/* The graph of the trace over `args`, as temporaries of the innermost scope: outs[i]. Arguments may
 * have other shapes than the trace's; what does not fit then makes error arrays. Of a failed
 * argument or node the outputs that depend on it are the error. */
weft_status weft__trace_apply(const weft__trace *t, weft_array *const *args, weft_array **outs);

/* The same of a trace whose outputs depend on no argument; nodes that do are left out. */
weft_status weft__trace_apply_constants(const weft__trace *t, weft_array **outs);

/* What a value looks like, and where it is computed. */
const weft_spec *weft__trace_spec(const weft__trace *t, weft__value value);
weft_device *weft__trace_device(const weft__trace *t, weft__value value);

static inline bool weft__value_equal(weft__value a, weft__value b)
{
    return a.kind == b.kind && a.index == b.index && a.output == b.output;
}

#endif
