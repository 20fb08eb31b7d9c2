/* ops/nn/matmul.c -- the matrix product over the last two axes, with batch axes. */
#include "ops/nn/nn.h"

#include <string.h>

/* ---- Reference ------------------------------------------------------------------------------ */

/* Operand positions for one element of the product: row-major indices of the first terms. */
typedef struct product_at {
    int64_t a, b, b_step, count;
} product_at;

/* The row-major index of the operand's matrix for matrix `batch` of the output. */
static int64_t matrix_index(const weft_dims *out, const weft_dims *operand, int64_t batch)
{
    int64_t index = 0, step = 1;
    for (int axis = out->n - 3; axis >= 0; axis--) {
        int64_t at = batch % out->at[axis];
        batch /= out->at[axis];
        index += operand->at[axis] == 1 ? 0 : at * step;
        step *= operand->at[axis];
    }
    return index;
}

static product_at locate(const weft_call *call, int64_t index)
{
    const weft_dims *out = &call->out[0].shape, *a = &call->in[0].shape, *b = &call->in[1].shape;
    int64_t M = out->at[out->n - 2], N = out->at[out->n - 1], K = a->at[a->n - 1];
    int64_t row = index / N % M, column = index % N, batch = index / N / M;
    return (product_at){.a = (matrix_index(out, a, batch) * M + row) * K,
                        .b = matrix_index(out, b, batch) * K * N + column,
                        .b_step = N,
                        .count = K};
}

static double dot_real(const weft_tensor *a, const weft_tensor *b, product_at at)
{
    double sum = 0;
    for (int64_t k = 0; k < at.count; k++) {
        sum += weft_tensor_get(a, at.a + k) * weft_tensor_get(b, at.b + k * at.b_step);
    }
    return sum;
}

/* Modulo 2^64, so the stored low bits equal those of any narrower wrapping sum. */
static uint64_t dot_integer(const weft_tensor *a, const weft_tensor *b, product_at at)
{
    uint64_t sum = 0;
    for (int64_t k = 0; k < at.count; k++) {
        sum += (uint64_t)weft_tensor_get_int(a, at.a + k) *
               (uint64_t)weft_tensor_get_int(b, at.b + k * at.b_step);
    }
    return sum;
}

static weft_complex64 complex_at(const weft_tensor *t, int64_t index)
{
    weft_complex64 value;
    const weft_complex64 *data = t->data;
    memcpy(&value, data + weft_tensor_offset(t, index), sizeof value);
    return value;
}

static weft_complex64 dot_complex(const weft_tensor *a, const weft_tensor *b, product_at at)
{
    double re = 0, im = 0;
    for (int64_t k = 0; k < at.count; k++) {
        weft_complex64 x = complex_at(a, at.a + k), y = complex_at(b, at.b + k * at.b_step);
        re += (double)x.re * y.re - (double)x.im * y.im;
        im += (double)x.re * y.im + (double)x.im * y.re;
    }
    return (weft_complex64){(float)re, (float)im};
}

static weft_status reference(const weft_call *call)
{
    const weft_tensor *a = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    weft_class klass = weft_dtype_class(out->dtype);
    int64_t size = weft_tensor_size(out);
    for (int64_t i = 0; i < size; i++) {
        product_at at = locate(call, i);
        if (klass == WEFT_CLASS_COMPLEX) {
            weft_complex64 value = dot_complex(a, b, at), *data = out->data;
            memcpy(data + weft_tensor_offset(out, i), &value, sizeof value);
        } else if (klass == WEFT_CLASS_INTEGER) {
            weft_tensor_set_int(out, i, (int64_t)dot_integer(a, b, at));
        } else if (klass == WEFT_CLASS_BOOL) {
            weft_tensor_set_int(out, i, dot_integer(a, b, at) != 0);
        } else {
            weft_tensor_set(out, i, dot_real(a, b, at));
        }
    }
    return WEFT_OK;
}

/* ---- Derivative ----------------------------------------------------------------------------- */

weft_array *weft__sum_broadcast(weft_array *gradient, weft_dims shape)
{
    weft_dims axes = {0};
    for (int axis = 0; axis < shape.n; axis++) {
        if (shape.at[axis] == 1 && weft_dim(gradient, axis) != 1) {
            axes.at[axes.n++] = axis - shape.n;
        }
    }
    return axes.n == 0 ? gradient : weft_sum(gradient, axes, true);
}

/* The cotangent times the conjugate transpose of the other operand. */
static void matmul_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                       weft_array **grads)
{
    weft_array *a = weft_node_input(node, 0), *b = weft_node_input(node, 1);
    if (wanted[0]) {
        weft_array *other = weft_conjugate(weft_swapaxes(b, -1, -2));
        grads[0] = weft__sum_broadcast(weft_matmul(cts[0], other), weft_shape(a));
    }
    if (wanted[1]) {
        weft_array *other = weft_conjugate(weft_swapaxes(a, -1, -2));
        grads[1] = weft__sum_broadcast(weft_matmul(other, cts[0]), weft_shape(b));
    }
}

/* Batch axes are supported by the op; a matrix shared by all examples makes one large product. */
static bool matmul_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                        weft_array **out)
{
    (void)node, (void)batched, (void)size;
    out[0] = weft_matmul(in[0], in[1]);
    return true;
}

/* ---- The op --------------------------------------------------------------------------------- */

static bool refuse(weft_why *why, const char *what, const weft_dims *a, const weft_dims *b)
{
    char a_text[WEFT_SHAPE_TEXT], b_text[WEFT_SHAPE_TEXT];
    return weft_because(why, "%s: %s x %s", what, weft__shape_text(a, a_text),
                        weft__shape_text(b, b_text));
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims a = input_shape(node, 0), b = input_shape(node, 1);
    weft_dtype dtype = input_dtype(node, 0);
    if (input_dtype(node, 1) != dtype) {
        return weft_because(why, "dtypes differ: %s x %s", weft_dtype_name(dtype),
                            weft_dtype_name(input_dtype(node, 1)));
    }
    if (a.n < 2 || a.n != b.n) {
        return refuse(why, "ranks must be equal and at least 2", &a, &b);
    }
    if (a.at[a.n - 1] != b.at[b.n - 2]) {
        return refuse(why, "inner dimensions differ", &a, &b);
    }
    weft_dims shape = a;
    shape.at[a.n - 1] = b.at[b.n - 1];
    for (int axis = 0; axis < a.n - 2; axis++) {
        if (a.at[axis] != b.at[axis] && a.at[axis] != 1 && b.at[axis] != 1) {
            return refuse(why, "batch dimensions differ", &a, &b);
        }
        shape.at[axis] = a.at[axis] == 1 ? b.at[axis] : a.at[axis];
    }
    *out = dense(dtype, shape);
    return true;
}

static void count_work(const weft_call *call, weft_work *work)
{
    const weft_dims *a = &call->in[0].shape;
    const double each = call->out[0].dtype == WEFT_COMPLEX64 ? 8 : 2;
    work->flops = each * (double)a->at[a->n - 1] * (double)weft_tensor_size(&call->out[0]);
}

static const weft_case cases[] = {
    {"matrix", 2, {{.shape = {2, {3, 4}}}, {.shape = {2, {4, 5}}}}, NULL},
    {"batch", 2, {{.shape = {3, {2, 3, 4}}}, {.shape = {3, {2, 4, 2}}}}, NULL},
    {"broadcast", 2, {{.shape = {4, {2, 1, 3, 2}}}, {.shape = {4, {1, 3, 2, 4}}}}, NULL},
    {"dot", 2, {{.shape = {2, {1, 7}}}, {.shape = {2, {7, 1}}}}, NULL},
    {"no terms", 2, {{.shape = {2, {3, 0}}}, {.shape = {2, {0, 2}}}}, NULL},
    {"no rows", 2, {{.shape = {3, {2, 0, 4}}}, {.shape = {3, {2, 4, 2}}}}, NULL},
};

const weft_op weft_op_matmul = {
    .name = "matmul",
    .family = WEFT_CORE_RANK,
    .arity = 2,
    .infer = infer,
    .vjp = matmul_vjp,
    .vmap = matmul_vmap,
    .work = count_work,
    .reference = reference,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
};

/* ---- Public --------------------------------------------------------------------------------- */

/* Prepends axes of length 1, up to `rank` axes. */
static weft_array *pad_rank(weft_array *x, int rank)
{
    weft_dims shape = weft_shape(x), padded = {.n = rank};
    if (shape.n == rank) {
        return x;
    }
    for (int axis = 0; axis < rank; axis++) {
        int from = axis - (rank - shape.n);
        padded.at[axis] = from < 0 ? 1 : shape.at[from];
    }
    return weft_reshape(x, padded);
}

/* The product of operands of rank 2 or more. A single matrix b for all of a makes one large
 * product. */
static weft_array *product(weft_array *a, weft_array *b)
{
    weft_dims shape = weft_shape(a);
    if (weft_ndim(b) == 2 && shape.n > 2 && shape.at[shape.n - 1] == weft_dim(b, 0)) {
        weft_array *y = apply2(&weft_op_matmul, weft__rows(a), b, NULL);
        shape.at[shape.n - 1] = weft_dim(b, 1);
        return weft_reshape(y, shape);
    }
    int rank = shape.n > weft_ndim(b) ? shape.n : weft_ndim(b);
    return apply2(&weft_op_matmul, pad_rank(a, rank), pad_rank(b, rank), NULL);
}

weft_array *weft_matmul(weft_array *a, weft_array *b)
{
    if (!weft_ok(a) || !weft_ok(b)) {
        return apply2(&weft_op_matmul, a, b, NULL);
    }
    int a_rank = weft_ndim(a), b_rank = weft_ndim(b);
    if (a_rank == 0 || b_rank == 0) {
        return weft_error_array("matmul: a 0-d operand: ranks %d x %d", a_rank, b_rank);
    }
    weft_dtype dtype = weft_promote(weft_dtype_of(a), weft_dtype_of(b));
    a = weft_astype(a, dtype);
    b = weft_astype(b, dtype);
    a = a_rank == 1 ? weft_expand_dims(a, 0) : a;
    b = b_rank == 1 ? weft_expand_dims(b, 1) : b;
    weft_array *y = product(a, b);
    y = b_rank == 1 ? weft_squeeze(y, -1) : y;
    return a_rank == 1 ? weft_squeeze(y, b_rank == 1 ? -1 : -2) : y;
}
