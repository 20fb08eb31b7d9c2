/* core/compile/fold.c -- constant folding: computes small constant nodes once, when the function is
 * traced. */
#include "core/compile/compiled.h"
#include "core/failure.h"
#include "core/shape.h"

enum { MOST_BYTES = 1 << 16 }; /* largest result that is kept */

static bool is_small(const weft__trace_node *n)
{
    bool small = true;
    for (int o = 0; o < n->n_outputs && small; o++) {
        const weft_spec *spec = &n->specs[o];
        int64_t bytes;
        small = !spec->encoding &&
                !__builtin_mul_overflow(weft__shape_size(&spec->shape),
                                        (int64_t)weft_dtype_size(spec->dtype), &bytes) &&
                bytes <= MOST_BYTES;
    }
    return small;
}

/* Nodes without inputs are cheap to run and need no memory between calls, so only scalars are
 * folded. */
static bool is_constant(const weft__trace *t, const bool *constant, int64_t i)
{
    const weft__trace_node *n = &t->nodes[i];
    if (!is_small(n) || (n->n_inputs == 0 && weft__shape_size(&n->specs[0].shape) > 1)) {
        return false;
    }
    for (int k = 0; k < n->n_inputs; k++) {
        weft__value v = n->inputs[k];
        if (v.kind == WEFT__ARGUMENT || (v.kind == WEFT__NODE && !constant[v.index])) {
            return false;
        }
    }
    return true;
}

static void mark_inputs(const weft__trace_node *n, bool *needed)
{
    for (int k = 0; k < n->n_inputs; k++) {
        if (n->inputs[k].kind == WEFT__NODE) {
            needed[n->inputs[k].index] = true;
        }
    }
}

/* Finds the nodes to compute: constant ones whose outputs a remaining node or an output needs.
 * Views are not computed, since they are free. Afterwards constant[i] means that node i is to be
 * computed. Returns the number of arrays. */
static int64_t find_wanted(const weft__trace *t, bool *constant, bool *needed)
{
    int64_t count = 0;
    for (int64_t i = 0; i < t->n_nodes; i++) {
        constant[i] = is_constant(t, constant, i);
    }
    for (int64_t i = 0; i < t->n_outputs; i++) {
        if (t->outputs[i].kind == WEFT__NODE) {
            needed[t->outputs[i].index] = true;
        }
    }
    for (int64_t i = t->n_nodes - 1; i >= 0; i--) {
        bool stays = !constant[i] || t->nodes[i].op->view;
        constant[i] = !stays && needed[i];
        if (stays && needed[i]) {
            mark_inputs(&t->nodes[i], needed);
        }
        count += constant[i] ? t->nodes[i].n_outputs : 0;
    }
    return count;
}

/* Evaluates the graph of the wanted nodes. */
static weft_status compute(const weft__trace *t, const bool *wanted, int64_t count,
                           weft_array **folded)
{
    weft__trace part = *t; /* the same nodes with other outputs */
    weft__value *outputs = weft_malloc((size_t)count * sizeof *outputs);
    weft_array **arrays = weft_malloc((size_t)count * sizeof(weft_array *));
    weft_status status = outputs && arrays ? WEFT_OK : weft__out_of_memory("compile", NULL);
    int64_t n = 0, last = 0;
    for (int64_t i = 0; i < t->n_nodes && status == WEFT_OK; i++) {
        for (int o = 0; wanted[i] && o < t->nodes[i].n_outputs; o++) {
            outputs[n++] = (weft__value){WEFT__NODE, (uint32_t)i, (uint32_t)o};
            last = i + 1;
        }
    }
    part.outputs = outputs;
    part.n_outputs = count;
    part.n_nodes = last;
    if (status == WEFT_OK) {
        status = weft__trace_apply_constants(&part, arrays);
    }
    if (status == WEFT_OK) {
        status = weft_eval_n(arrays, (int)count);
    }
    for (int64_t i = 0; i < count && status == WEFT_OK; i++) {
        weft__hold(arrays[i]);
        folded[outputs[i].index] = arrays[i]->first;
    }
    weft_free(outputs);
    weft_free(arrays);
    return status;
}

weft_status weft__fold(const weft__trace *t, weft_array **folded)
{
    bool *constant = weft_calloc((size_t)t->n_nodes, sizeof *constant);
    bool *needed = weft_calloc((size_t)t->n_nodes, sizeof *needed);
    weft_status status = constant && needed ? WEFT_OK : weft__out_of_memory("compile", NULL);
    int64_t count = status == WEFT_OK ? find_wanted(t, constant, needed) : 0;
    if (count > 0) {
        weft_scope_open();
        status = compute(t, constant, count, folded);
        weft_scope_close(NULL);
    }
    weft_free(constant);
    weft_free(needed);
    return status;
}
