/* core/compile/simplify.c -- simplifies a trace: common-subexpression elimination, removal of
 * identities, constant folding, dead-code elimination. */
#include <string.h>

#include "core/compile/compiled.h"
#include "core/failure.h"
#include "core/hash.h"
#include "core/shape.h"

enum { CONTENT = 64 }; /* constants up to this many bytes are compared by content */

typedef struct content {
    char bytes[CONTENT];
    size_t size;
} content;

typedef struct simplifying {
    const weft__trace *t;
    weft__trace *out;
    bool with_gradient;                     /* gradients must stay the same, too */
    weft__value (*nodes)[WEFT_MAX_OUTPUTS]; /* per node of t: the values in `out` that replace its
                                             * outputs */
    weft__value *constants;                 /* per constant of t */
    content *contents;                      /* per constant of `out` that is in the table */
    weft__value *inputs;                    /* buffer for the inputs of a node */
    weft__value *table;  /* nodes and constants of `out` by hash; index + 1, 0 is free */
    uint64_t table_size; /* a power of two */
} simplifying;

/* ---- constants ------------------------------------------------------------------------------ */

/* Reads the elements of a small constant, wherever it is; false: it is not compared by content. */
static bool read_content(weft_array *a, content *c)
{
    const weft_spec *spec = &a->spec;
    c->size = (size_t)weft_nbytes(a);
    if (spec->encoding || weft_nbytes(a) > CONTENT) {
        return false;
    }
    return weft_read(a, spec->dtype, c->bytes, weft_size(a)) == WEFT_OK;
}

static bool same_constant(const simplifying *s, uint32_t index, const weft_array *b,
                          const content *c)
{
    const weft_array *a = s->out->constants[index];
    return a->spec.dtype == b->spec.dtype && a->device == b->device &&
           weft__shape_equal(&a->spec.shape, &b->spec.shape) &&
           memcmp(s->contents[index].bytes, c->bytes, c->size) == 0;
}

static weft_status add_constant(simplifying *s, weft_array *a, weft__value *value)
{
    content c;
    if (!read_content(a, &c)) {
        return weft__trace_add_constant(s->out, a, value);
    }
    uint64_t hash = weft__mix(1, (uint64_t)a->spec.dtype);
    for (size_t i = 0; i < c.size; i++) {
        hash = weft__mix(hash, (unsigned char)c.bytes[i]);
    }
    uint64_t at = hash & (s->table_size - 1);
    for (; s->table[at].index; at = (at + 1) & (s->table_size - 1)) {
        weft__value there = {s->table[at].kind, s->table[at].index - 1, 0};
        if (there.kind == WEFT__CONSTANT && same_constant(s, there.index, a, &c)) {
            *value = there;
            return WEFT_OK;
        }
    }
    weft_status status = weft__trace_add_constant(s->out, a, value);
    if (status == WEFT_OK) {
        s->contents[value->index] = c;
        s->table[at] = (weft__value){WEFT__CONSTANT, value->index + 1, 0};
    }
    return status;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static uint64_t number(weft__value v)
{
    return (uint64_t)v.output << 40 | (uint64_t)v.kind << 32 | v.index;
}

static uint64_t hash_node(const weft__trace_node *n)
{
    uint64_t hash = weft__mix(2, (uint64_t)(uintptr_t)n->op);
    hash = weft__mix(hash, (uint64_t)(uintptr_t)n->device);
    if (n->n_inputs == 2 && n->op->commutative) {
        hash = weft__mix(hash, number(n->inputs[0]) + number(n->inputs[1]));
    } else {
        for (int i = 0; i < n->n_inputs; i++) {
            hash = weft__mix(hash, number(n->inputs[i]));
        }
    }
    return n->op->params_fields ? weft__mix(hash, weft_params_hash(n->op, n->params)) : hash;
}

static bool same_inputs(const weft__trace_node *a, const weft__trace_node *b)
{
    bool same = a->n_inputs == b->n_inputs;
    for (int i = 0; i < a->n_inputs && same; i++) {
        same = weft__value_equal(a->inputs[i], b->inputs[i]);
    }
    bool swapped = a->n_inputs == 2 && b->n_inputs == 2 && a->op->commutative &&
                   weft__value_equal(a->inputs[0], b->inputs[1]) &&
                   weft__value_equal(a->inputs[1], b->inputs[0]);
    return same || swapped;
}

/* Nodes whose parameters have no field table are never equal. */
static bool same_node(const weft__trace_node *a, const weft__trace_node *b)
{
    bool comparable = a->op->params_fields || a->op->params_size == 0;
    return a->op == b->op && a->device == b->device && comparable && same_inputs(a, b) &&
           weft_params_equal(a->op, a->params, b->params);
}

/* Adds the node to `out`, unless an equal one exists; *value is its result. */
static weft_status add_node(simplifying *s, const weft__trace_node *node, weft__value *value)
{
    uint64_t at = hash_node(node) & (s->table_size - 1);
    for (; s->table[at].index; at = (at + 1) & (s->table_size - 1)) {
        weft__value there = {s->table[at].kind, s->table[at].index - 1, 0};
        if (there.kind == WEFT__NODE && same_node(&s->out->nodes[there.index], node)) {
            *value = there;
            return WEFT_OK;
        }
    }
    weft_status status = weft__trace_add_node(s->out, node, value);
    s->table[at] = (weft__value){WEFT__NODE, value->index + 1, 0};
    return status;
}

static weft__value translate(const simplifying *s, weft__value v)
{
    return v.kind == WEFT__NODE       ? s->nodes[v.index][v.output]
           : v.kind == WEFT__CONSTANT ? s->constants[v.index]
                                      : v;
}

static weft_status take_folded(simplifying *s, weft_array *folded, weft__value *values)
{
    weft_status status = WEFT_OK;
    for (int o = 0; o < folded->n_outputs && status == WEFT_OK; o++) {
        status = add_constant(s, weft__output(folded, o), &values[o]);
    }
    return status;
}

static weft_status take_node(simplifying *s, int64_t i, weft_array *folded)
{
    weft__value *values = s->nodes[i];
    if (folded) {
        return take_folded(s, folded, values);
    }
    weft__trace_node node = s->t->nodes[i];
    for (int k = 0; k < node.n_inputs; k++) {
        s->inputs[k] = translate(s, node.inputs[k]);
    }
    node.inputs = s->inputs;
    if (weft__is_identity(s->out, &node, s->with_gradient, values)) {
        return WEFT_OK;
    }
    weft__value value;
    weft_status status = add_node(s, &node, &value);
    for (int o = 0; o < node.n_outputs && status == WEFT_OK; o++) {
        values[o] = (weft__value){value.kind, value.index, (uint32_t)o};
    }
    return status;
}

/* ---- passes --------------------------------------------------------------------------------- */

/* folded: as for `pass`. */
static bool make_room(simplifying *s, weft_array *const *folded)
{
    int64_t constants = s->t->n_constants;
    for (int64_t i = 0; i < s->t->n_nodes; i++) {
        constants += folded[i] ? folded[i]->n_outputs : 0;
    }
    const uint64_t n = (uint64_t)(s->t->n_nodes + constants) * 2;
    for (s->table_size = 64; s->table_size < n;) {
        s->table_size *= 2;
    }
    int most = 1;
    for (int64_t i = 0; i < s->t->n_nodes; i++) {
        most = s->t->nodes[i].n_inputs > most ? s->t->nodes[i].n_inputs : most;
    }
    s->nodes = weft_calloc((size_t)s->t->n_nodes, sizeof *s->nodes);
    s->constants = weft_calloc((size_t)s->t->n_constants, sizeof *s->constants);
    s->contents = weft_calloc((size_t)constants, sizeof *s->contents);
    s->inputs = weft_calloc((size_t)most, sizeof *s->inputs);
    s->table = weft_calloc(s->table_size, sizeof *s->table);
    return s->nodes && s->constants && s->contents && s->inputs && s->table;
}

/* Marks the nodes and constants that the outputs need. Folded nodes count as leaves. */
static void mark_live(const weft__trace *t, weft_array *const *folded, bool *nodes, bool *constants)
{
    for (int64_t i = 0; i < t->n_outputs; i++) {
        if (t->outputs[i].kind != WEFT__ARGUMENT) {
            (t->outputs[i].kind == WEFT__NODE ? nodes : constants)[t->outputs[i].index] = true;
        }
    }
    for (int64_t i = t->n_nodes - 1; i >= 0; i--) {
        const weft__trace_node *n = &t->nodes[i];
        for (int k = 0; k < n->n_inputs && nodes[i] && !folded[i]; k++) {
            if (n->inputs[k].kind != WEFT__ARGUMENT) {
                (n->inputs[k].kind == WEFT__NODE ? nodes : constants)[n->inputs[k].index] = true;
            }
        }
    }
}

static weft_status take_all(simplifying *s, weft_array *const *folded, const bool *nodes,
                            const bool *constants)
{
    const weft__trace *t = s->t;
    weft_status status = WEFT_OK;
    memcpy(s->out->arguments, t->arguments, (size_t)t->n_arguments * sizeof *t->arguments);
    for (int64_t i = 0; i < t->n_constants && status == WEFT_OK; i++) {
        status = constants[i] ? add_constant(s, t->constants[i], &s->constants[i]) : WEFT_OK;
    }
    for (int64_t i = 0; i < t->n_nodes && status == WEFT_OK; i++) {
        status = nodes[i] ? take_node(s, i, folded[i]) : WEFT_OK;
    }
    for (int64_t i = 0; i < t->n_outputs; i++) {
        s->out->outputs[i] = translate(s, t->outputs[i]);
    }
    return status;
}

/* One pass. `folded` has the known outputs of nodes, as their first outputs, or is NULL. */
static weft_status pass(const weft__trace *t, bool with_gradient, weft_array *const *folded,
                        weft__trace *out)
{
    weft_status status = weft__trace_open(out, t->n_arguments, t->n_outputs);
    if (status != WEFT_OK) {
        return status;
    }
    simplifying s = {.t = t, .out = out, .with_gradient = with_gradient};
    bool *nodes = weft_calloc((size_t)t->n_nodes, sizeof *nodes);
    bool *constants = weft_calloc((size_t)t->n_constants, sizeof *constants);
    if (make_room(&s, folded) && nodes && constants) {
        mark_live(t, folded, nodes, constants);
        status = take_all(&s, folded, nodes, constants);
    } else {
        status = weft__out_of_memory("compile", "a trace");
    }
    weft_free(s.nodes);
    weft_free(s.constants);
    weft_free(s.contents);
    weft_free(s.inputs);
    weft_free(s.table);
    weft_free(nodes);
    weft_free(constants);
    if (status != WEFT_OK) {
        weft__trace_free(out);
    }
    return status;
}

/* A pass with constant folding. */
static weft_status fold_and_pass(const weft__trace *t, bool with_gradient, weft__trace *out)
{
    weft_array **folded = weft_calloc((size_t)t->n_nodes, sizeof(weft_array *));
    weft_status status = folded ? weft__fold(t, folded) : weft__out_of_memory("compile", "a trace");
    if (status == WEFT_OK) {
        status = pass(t, with_gradient, folded, out);
    }
    for (int64_t i = 0; folded && i < t->n_nodes; i++) {
        for (int o = folded[i] ? folded[i]->n_outputs - 1 : -1; o >= 0; o--) {
            weft__unhold(weft__output(folded[i], o)); /* the first output last, since it represents
                                                       * the node */
        }
    }
    weft_free(folded);
    return status;
}

/* CSE, constant folding, CSE again, dead-code elimination. */
weft_status weft__simplify(const weft__trace *t, bool with_gradient, weft__trace *out)
{
    weft__trace first = {0}, second = {0};
    *out = (weft__trace){0};
    weft_array **none = weft_calloc((size_t)t->n_nodes, sizeof(weft_array *));
    weft_status status =
        none ? pass(t, with_gradient, none, &first) : weft__out_of_memory("compile", "a trace");
    if (status == WEFT_OK) {
        status = fold_and_pass(&first, with_gradient, &second);
    }
    if (status == WEFT_OK) {
        status = pass(&second, with_gradient, none, out);
    }
    weft_free(none);
    weft__trace_free(&first);
    weft__trace_free(&second);
    return status;
}
