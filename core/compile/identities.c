/* core/compile/identities.c -- finds nodes that return one of their inputs unchanged, bit for bit.
 */
#include <math.h>

#include "core/builtin.h"
#include "core/compile/compiled.h"
#include "core/shape.h"
#include "weft/op_params.h"

/* Whether output o has the value's dtype, shape and device. */
static bool looks_like(const weft__trace *t, const weft__trace_node *n, int o, weft__value value)
{
    const weft_spec *x = weft__trace_spec(t, value), *y = &n->specs[o];
    return x->dtype == y->dtype && x->encoding == y->encoding &&
           weft__shape_equal(&x->shape, &y->shape) && weft__trace_device(t, value) == n->device;
}

/* ---- by the op ------------------------------------------------------------------------------ */

static bool passes_through(const weft__trace *t, const weft__trace_node *n, weft__value *values)
{
    bool passes = n->op->passes_through && !n->op->keeps_order && n->n_outputs <= n->n_inputs;
    for (int o = 0; o < n->n_outputs && passes; o++) {
        values[o] = n->inputs[o];
        passes = looks_like(t, n, o, values[o]);
    }
    return passes;
}

static bool is_input(const weft__trace *t, const weft__trace_node *n, bool with_gradient,
                     weft__value *values)
{
    const bool stops_gradient = n->op->zero_gradient & 1u;
    values[0] = n->inputs[0];
    return n->op->is_identity && n->n_outputs == 1 && !(with_gradient && stops_gradient) &&
           looks_like(t, n, 0, values[0]) && n->op->is_identity(n->params, n->n_inputs);
}

/* ---- by value ------------------------------------------------------------------------------- */

/* The number that all elements of the value have. False: unknown, or they differ. */
static bool number_of(const weft__trace *t, weft__value v, double *number)
{
    const weft_dtype dtype = weft__trace_spec(t, v)->dtype;
    while (v.kind == WEFT__NODE && t->nodes[v.index].op->view &&
           weft__trace_spec(t, t->nodes[v.index].inputs[0])->dtype == dtype) {
        v = t->nodes[v.index].inputs[0]; /* a view contains only elements of its input */
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

/* x + -0, x * 1, x / 1, x - 0. Not x + 0, which turns -0 into 0. */
static bool has_neutral(const weft__trace *t, const weft__trace_node *n, weft__value *values)
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
            (whole || signbit(x) == signbit(neutral->value)) &&
            looks_like(t, n, 0, n->inputs[1 - i])) {
            values[0] = n->inputs[1 - i];
            return true;
        }
    }
    return false;
}

bool weft__is_identity(const weft__trace *t, const weft__trace_node *node, bool with_gradient,
                       weft__value *values)
{
    return node->n_inputs > 0 &&
           (passes_through(t, node, values) || is_input(t, node, with_gradient, values) ||
            has_neutral(t, node, values));
}
