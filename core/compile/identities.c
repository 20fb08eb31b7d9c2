/* core/compile/identities.c -- nodes that are one of their inputs, exactly. */
#include <math.h>
#include <string.h>

#include "core/compile/compiled.h"
#include "core/shape.h"
#include "weft/op_params.h"

typedef bool rule(const weft__trace *t, const weft__trace_node *n, weft__value *value);

/* ---- by shape and dtype --------------------------------------------------------------------- */

static bool same_spec(const weft__trace *t, const weft__trace_node *n)
{
    const weft_spec *in = weft__trace_spec(t, n->inputs[0]);
    return in->dtype == n->specs[0].dtype && in->encoding == n->specs[0].encoding &&
           weft__shape_equal(&in->shape, &n->specs[0].shape);
}

static bool is_input(const weft__trace *t, const weft__trace_node *n, weft__value *value)
{
    *value = n->inputs[0];
    return n->n_outputs == 1 && same_spec(t, n);
}

static bool lone_input(const weft__trace *t, const weft__trace_node *n, weft__value *value)
{
    return n->n_inputs == 1 && is_input(t, n, value);
}

static bool unmoved(const weft__trace *t, const weft__trace_node *n, weft__value *value)
{
    const weft_transpose_params *p = n->params;
    for (int i = 0; i < p->axes.n; i++) {
        if (p->axes.at[i] != i) {
            return false;
        }
    }
    return is_input(t, n, value);
}

/* A slice as long as its input, unless it runs backwards. */
static bool whole(const weft__trace *t, const weft__trace_node *n, weft__value *value)
{
    const weft_slice_params *p = n->params;
    for (int i = 0; i < p->steps.n; i++) {
        if (p->steps.at[i] != 1) {
            return false;
        }
    }
    return is_input(t, n, value);
}

static bool unpadded(const weft__trace *t, const weft__trace_node *n, weft__value *value)
{
    const weft_pad_params *p = n->params;
    for (int i = 0; i < p->before.n; i++) {
        if (p->before.at[i] != 0) {
            return false;
        }
    }
    return is_input(t, n, value); /* nothing behind either, then */
}

/* The result that the pick takes of a checkpoint: gradients have been taken already. */
static bool picked(const weft__trace *t, const weft__trace_node *n, weft__value *value)
{
    weft__value from = n->inputs[0];
    if (from.kind != WEFT__NODE || strcmp(t->nodes[from.index].op->name, "checkpoint") != 0) {
        return false;
    }
    *value = t->nodes[from.index].inputs[((const weft__pick_params *)n->params)->output];
    return true;
}

/* ---- by value ------------------------------------------------------------------------------- */

/* The one number that all elements of the value are; false: they are not known to be one. */
static bool number_of(const weft__trace *t, weft__value v, double *number)
{
    while (v.kind == WEFT__NODE && (strcmp(t->nodes[v.index].op->name, "broadcast_to") == 0 ||
                                    strcmp(t->nodes[v.index].op->name, "reshape") == 0)) {
        v = t->nodes[v.index].inputs[0];
    }
    if (v.kind == WEFT__NODE && strcmp(t->nodes[v.index].op->name, "full") == 0) {
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

static bool is_whole_dtype(const weft__trace_node *n)
{
    return weft_dtype_is_integer(n->specs[0].dtype);
}

/* x * 1 and 1 * x */
static bool times_one(const weft__trace *t, const weft__trace_node *n, weft__value *value)
{
    for (int i = 0; i < 2; i++) {
        double number;
        if (number_of(t, n->inputs[i], &number) && number == 1) {
            *value = n->inputs[1 - i];
            return n->specs[0].dtype != WEFT_BOOL;
        }
    }
    return false;
}

static bool divided_by_one(const weft__trace *t, const weft__trace_node *n, weft__value *value)
{
    double number;
    *value = n->inputs[0];
    return same_spec(t, n) && number_of(t, n->inputs[1], &number) && number == 1;
}

/* x + 0 changes a -0, x + -0 nothing. */
static bool plus_nothing(const weft__trace *t, const weft__trace_node *n, weft__value *value)
{
    for (int i = 0; i < 2; i++) {
        double number;
        if (number_of(t, n->inputs[i], &number) && number == 0 &&
            (is_whole_dtype(n) || signbit(number))) {
            *value = n->inputs[1 - i];
            return true;
        }
    }
    return false;
}

static bool minus_nothing(const weft__trace *t, const weft__trace_node *n, weft__value *value)
{
    double number;
    *value = n->inputs[0];
    return number_of(t, n->inputs[1], &number) && number == 0 &&
           (is_whole_dtype(n) || !signbit(number));
}

/* ---- the table ------------------------------------------------------------------------------ */

static const struct {
    const char *op;
    rule *holds;
} rules[] = {
    {"add", plus_nothing},       {"alias", is_input},
    {"broadcast_to", is_input},  {"cast", is_input},
    {"checkpoint", is_input},    {"concatenate", lone_input},
    {"divide", divided_by_one},  {"multiply", times_one},
    {"pad", unpadded},           {"pick", picked},
    {"reshape", is_input},       {"slice", whole},
    {"stop_gradient", is_input}, {"subtract", minus_nothing},
    {"transpose", unmoved},
};

bool weft__is_identity(const weft__trace *t, const weft__trace_node *node, weft__value *value)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules && node->n_inputs > 0; i++) {
        if (strcmp(rules[i].op, node->op->name) == 0) {
            return rules[i].holds(t, node, value) && weft__trace_device(t, *value) == node->device;
        }
    }
    return false;
}

bool weft__is_commutative(const weft_op *op)
{
    static const char *const names[] = {"add",         "multiply",    "equal",
                                        "not_equal",   "logical_and", "logical_or",
                                        "bitwise_and", "bitwise_or",  "bitwise_xor"};
    for (size_t i = 0; i < sizeof names / sizeof *names && op->arity == 2; i++) {
        if (strcmp(names[i], op->name) == 0) {
            return true;
        }
    }
    return false;
}
