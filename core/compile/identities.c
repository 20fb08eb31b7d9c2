/* core/compile/identities.c -- nodes that are one of their inputs, bit for bit. */
#include <math.h>

#include "core/builtin.h"
#include "core/compile/compiled.h"
#include "core/shape.h"
#include "weft/op_params.h"

static bool same_spec(const weft__trace *t, const weft__trace_node *n, weft__value input)
{
    const weft_spec *in = weft__trace_spec(t, input);
    return in->dtype == n->specs[0].dtype && in->encoding == n->specs[0].encoding &&
           weft__shape_equal(&in->shape, &n->specs[0].shape);
}

/* ---- by parameters -------------------------------------------------------------------------- */

static bool is_input(const weft__trace *t, const weft__trace_node *n, weft__value *value)
{
    const weft_op *op = n->op;
    const bool passes = op->passes_through && !op->keeps_order;
    *value = n->inputs[0];
    return n->n_outputs == 1 && same_spec(t, n, *value) &&
           (passes || (op->is_identity && op->is_identity(n->params, n->n_inputs)));
}

/* The pick of what an op hands on. */
static bool is_picked(const weft__trace *t, const weft__trace_node *n, weft__value *value)
{
    const weft__value from = n->inputs[0];
    if (n->op != &weft__op_pick || from.kind != WEFT__NODE) {
        return false;
    }
    const weft__trace_node *node = &t->nodes[from.index];
    *value = node->inputs[((const weft__pick_params *)n->params)->output];
    return node->op->passes_through && !node->op->keeps_order;
}

/* ---- by value ------------------------------------------------------------------------------- */

/* The one number that all elements of the value are; false: they are not known to be one. */
static bool number_of(const weft__trace *t, weft__value v, double *number)
{
    const weft_dtype dtype = weft__trace_spec(t, v)->dtype;
    while (v.kind == WEFT__NODE && t->nodes[v.index].op->view &&
           weft__trace_spec(t, t->nodes[v.index].inputs[0])->dtype == dtype) {
        v = t->nodes[v.index].inputs[0]; /* a view shows elements of its input, and no others */
    }
    if (v.kind == WEFT__NODE && t->nodes[v.index].op == weft__builtins.full) {
        const weft_full_params *p = t->nodes[v.index].params;
        *number = weft_dtype_is_integer(p->dtype) ? (double)p->integer : p->value;
        return true;
    }
    if (v.kind != WEFT__CONSTANT || weft_size(t->constants[v.index]) != 1 ||
        weft_dtype_of(t->constants[v.index]) == WEFT_COMPLEX64) {
        return false;
    }
    *number = weft_item(t->constants[v.index]);
    return !isnan(*number);
}

/* x + -0, x * 1, x / 1, x - 0 (x + 0 is not: it makes 0 of -0). */
static bool has_neutral(const weft__trace *t, const weft__trace_node *n, weft__value *value)
{
    const weft_neutral *neutral = &n->op->neutral;
    const weft_class klass = weft_dtype_class(n->specs[0].dtype);
    const bool whole = klass == WEFT_CLASS_INTEGER;
    /* A complex product also has terms times 0, which are NaN for infinite parts. */
    if (!neutral->exists || n->n_inputs != 2 || (klass != WEFT_CLASS_REAL && !whole)) {
        return false;
    }
    for (int i = 1; i >= (n->op->commutative ? 0 : 1); i--) {
        double x;
        if (number_of(t, n->inputs[i], &x) && x == neutral->value &&
            (whole || signbit(x) == signbit(neutral->value)) && same_spec(t, n, n->inputs[1 - i])) {
            *value = n->inputs[1 - i];
            return true;
        }
    }
    return false;
}

bool weft__is_identity(const weft__trace *t, const weft__trace_node *node, weft__value *value)
{
    return node->n_inputs > 0 &&
           (is_input(t, node, value) || is_picked(t, node, value) || has_neutral(t, node, value)) &&
           weft__trace_device(t, *value) == node->device;
}
