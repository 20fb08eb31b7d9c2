/* ops/products/einsum.c -- einsum, computed by diagonals, sums and matrix products. */
#include <string.h>

#include "core/failure.h"
#include "core/shape.h"
#include "ops/products/einsum.h"

/* An array and the labels of its axes. They are distinct and not of size 1, since such axes
 * broadcast. */
typedef struct operand {
    weft_array *x;
    weft_dims labels;
} operand;

/* ---- One operand ---------------------------------------------------------------------------- */

static int find_label(const weft_dims *labels, int64_t label, int from)
{
    for (int i = from; i < labels->n; i++) {
        if (labels->at[i] == label) {
            return i;
        }
    }
    return -1;
}

/* Replaces axes i < j by their diagonal, as the last axis: every (size + 1)th element of both
 * joined. */
static void take_diagonal(operand *o, int i, int j)
{
    weft_dims order = {.n = o->labels.n}, shape = {0}, labels = {0};
    for (int axis = 0; axis < o->labels.n; axis++) {
        if (axis != i && axis != j) {
            labels.at[labels.n++] = o->labels.at[axis];
            shape.at[shape.n++] = weft_dim(o->x, axis);
            order.at[labels.n - 1] = axis;
        }
    }
    int64_t size = weft_dim(o->x, i);
    order.at[order.n - 2] = i;
    order.at[order.n - 1] = j;
    shape.at[shape.n++] = size * size;
    labels.at[labels.n++] = o->labels.at[i];
    weft_array *flat = weft_reshape(weft_transpose(o->x, order), shape);
    o->x =
        weft_slice(flat, WEFT_DIMS(-1), WEFT_DIMS(0), WEFT_DIMS(size * size), WEFT_DIMS(size + 1));
    o->labels = labels;
}

static void prepare(operand *o)
{
    for (int i = 0; i < o->labels.n;) {
        int j = find_label(&o->labels, o->labels.at[i], i + 1);
        if (j > 0) {
            take_diagonal(o, i, j);
            i = 0;
        } else {
            i++;
        }
    }
    weft_dims shape = {0}, labels = {0};
    for (int i = 0; i < o->labels.n; i++) {
        if (weft_dim(o->x, i) != 1) {
            shape.at[shape.n++] = weft_dim(o->x, i);
            labels.at[labels.n++] = o->labels.at[i];
        }
    }
    o->x = weft_reshape(o->x, shape);
    o->labels = labels;
}

/* Sums over the labels that are not in `keep`. */
static void sum_others(operand *o, uint64_t keep)
{
    weft_dims axes = {0}, labels = {0};
    for (int i = 0; i < o->labels.n; i++) {
        if (keep & label_bit(o->labels.at[i])) {
            labels.at[labels.n++] = o->labels.at[i];
        } else {
            axes.at[axes.n++] = i;
        }
    }
    if (axes.n > 0) {
        weft_dtype dtype = weft_dtype_of(o->x);
        o->x = dtype == WEFT_BOOL ? weft_any(o->x, axes, false)
                                  : weft_astype(weft_sum(o->x, axes, false), dtype);
        o->labels = labels;
    }
}

/* ---- Two operands --------------------------------------------------------------------------- */

/* Appends the labels of `from` that are in `set`, in their order. */
static void append(weft_dims *list, const weft_dims *from, uint64_t set)
{
    for (int i = 0; i < from->n; i++) {
        if (set & label_bit(from->at[i])) {
            list->at[list->n++] = from->at[i];
        }
    }
}

/* Transposes to the order of `labels`; missing labels become axes of length 1. */
static weft_array *arranged(const operand *o, const weft_dims *labels)
{
    weft_dims order = {0}, shape = {.n = labels->n};
    for (int i = 0; i < labels->n; i++) {
        int axis = find_label(&o->labels, labels->at[i], 0);
        shape.at[i] = axis < 0 ? 1 : weft_dim(o->x, axis);
        if (axis >= 0) {
            order.at[order.n++] = axis;
        }
    }
    return weft_reshape(weft_transpose(o->x, order), shape);
}

/* Reshapes to (batch..., rows, columns), joining the labels of rows and of columns. */
static weft_array *as_matrices(const operand *o, const weft_dims *batch, const weft_dims *rows,
                               const weft_dims *columns)
{
    weft_dims all = *batch, shape = {.n = batch->n + 2};
    append(&all, rows, ~UINT64_C(0));
    append(&all, columns, ~UINT64_C(0));
    weft_array *x = arranged(o, &all);
    for (int i = 0; i < shape.n; i++) {
        shape.at[i] = i < batch->n ? weft_dim(x, i) : 1;
    }
    for (int i = batch->n; i < all.n; i++) {
        shape.at[batch->n + (i >= batch->n + rows->n)] *= weft_dim(x, i);
    }
    return weft_reshape(x, shape);
}

static void multiply_matrices(const operand *a, const operand *b, uint64_t keep, operand *out)
{
    uint64_t left = label_set(&a->labels), right = label_set(&b->labels);
    weft_dims batch = {0}, rows = {0}, terms = {0}, columns = {0};
    append(&batch, &a->labels, right & keep);
    append(&rows, &a->labels, ~right);
    append(&terms, &a->labels, right & ~keep);
    append(&columns, &b->labels, ~left);
    weft_array *product = weft_matmul(as_matrices(a, &batch, &rows, &terms),
                                      as_matrices(b, &batch, &terms, &columns));
    weft_dims shape = {0};
    out->labels = batch;
    append(&out->labels, &rows, ~UINT64_C(0));
    append(&out->labels, &columns, ~UINT64_C(0));
    for (int i = 0; i < out->labels.n; i++) {
        int in_a = find_label(&a->labels, out->labels.at[i], 0);
        int in_b = find_label(&b->labels, out->labels.at[i], 0);
        shape.at[shape.n++] = in_a >= 0 ? weft_dim(a->x, in_a) : weft_dim(b->x, in_b);
    }
    out->x = weft_reshape(product, shape);
}

/* No label is summed: multiplies elementwise. */
static void multiply_elements(const operand *a, const operand *b, operand *out)
{
    out->labels = a->labels;
    append(&out->labels, &b->labels, ~label_set(&a->labels));
    out->x = weft_multiply(arranged(a, &out->labels), arranged(b, &out->labels));
}

static operand contract(operand *a, operand *b, uint64_t keep)
{
    operand out = {0};
    sum_others(a, keep | label_set(&b->labels));
    sum_others(b, keep | label_set(&a->labels));
    uint64_t left = label_set(&a->labels), right = label_set(&b->labels);
    int axes = __builtin_popcountll(left | right);
    if (axes > WEFT_MAX_DIMS - 2) {
        out.x = weft_error_array("einsum: unsupported: a contraction over %d axes, more than %d",
                                 axes, WEFT_MAX_DIMS - 2);
    } else if (left & right & ~keep) {
        multiply_matrices(a, b, keep, &out);
    } else {
        multiply_elements(a, b, &out);
    }
    return out;
}

/* ---- All ------------------------------------------------------------------------------------ */

static weft_array *result_of(operand *o, const einsum *e)
{
    sum_others(o, label_set(&e->output));
    return arranged(o, &e->output);
}

static weft_array *contract_all(const einsum *e, operand *list, const einsum_step *steps)
{
    int n = e->n;
    for (int i = 0; i < n; i++) {
        prepare(&list[i]);
    }
    for (const einsum_step *step = steps; n > 1; step++, n--) {
        uint64_t keep = label_set(&e->output);
        for (int i = 0; i < n; i++) {
            keep |= i == step->a || i == step->b ? 0 : label_set(&list[i].labels);
        }
        operand y = contract(&list[step->a], &list[step->b], keep);
        if (!weft_ok(y.x)) {
            return y.x;
        }
        memmove(&list[step->b], &list[step->b + 1], (size_t)(n - step->b - 1) * sizeof *list);
        memmove(&list[step->a], &list[step->a + 1], (size_t)(n - step->a - 2) * sizeof *list);
        list[n - 2] = y;
    }
    return result_of(&list[0], e);
}

static weft_array *planned(const char *subscripts, const einsum *e, operand *list)
{
    einsum_step *steps = weft_calloc((size_t)e->n, sizeof *steps);
    weft_array *y;
    if (!steps || weft__einsum_plan(e, steps) != WEFT_OK) {
        y = weft__memory_error("einsum", subscripts);
    } else {
        y = contract_all(e, list, steps);
    }
    weft_free(steps);
    return y;
}

/* Runs the einsum in one dtype, with the operands' labels. */
static weft_array *run(const char *subscripts, weft_array *const *operands, int n,
                       weft_dims *shapes, operand *list)
{
    weft_dtype dtype = weft_dtype_of(operands[0]);
    for (int i = 0; i < n; i++) {
        if (!weft_ok(operands[i])) {
            return operands[i];
        }
        shapes[i] = weft_shape(operands[i]);
        dtype = weft_promote(dtype, weft_dtype_of(operands[i]));
    }
    einsum e;
    weft_why why;
    weft_array *y;
    if (!weft__einsum_parse(subscripts, shapes, n, &e, &why)) {
        y = weft_error_array("einsum: %s: %s", subscripts, why.text);
    } else {
        for (int i = 0; i < n; i++) {
            list[i] = (operand){weft_astype(operands[i], dtype), e.terms[i]};
        }
        y = planned(subscripts, &e, list);
    }
    weft__einsum_free(&e);
    return y;
}

weft_array *weft_einsum(const char *subscripts, weft_array *const *operands, int n)
{
    if (n < 1) {
        return weft_error_array("einsum: %s: no operands", subscripts);
    }
    weft_dims *shapes = weft_calloc((size_t)n, sizeof *shapes);
    operand *list = weft_calloc((size_t)n, sizeof *list);
    weft_scope_open();
    weft_array *y = shapes && list ? run(subscripts, operands, n, shapes, list)
                                   : weft__memory_error("einsum", NULL);
    y = weft_scope_close(y);
    weft_free(list);
    weft_free(shapes);
    return y;
}
