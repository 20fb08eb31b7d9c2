/* ops/products/segmented_mm.c -- a matrix product whose terms are summed in segments, and the
 * gradient of its first operand. The gradient of the second is the same op on transposed operands.
 */
#include "ops/products/chosen.h"

/* The terms [*first, *end) of segment i, clipped to K. */
static weft_status segment_at(const weft_call *call, const weft_tensor *segments, int64_t i,
                              int64_t K, int64_t *first, int64_t *end)
{
    *first = weft_tensor_get_int(segments, 2 * i);
    *end = weft_tensor_get_int(segments, 2 * i + 1);
    if (*first < 0 || *end > K || *first > K || *end < 0) {
        return weft_fail(WEFT_INVALID, "%s: segment [%lld, %lld) of %lld terms", call->op->name,
                         (long long)*first, (long long)*end, (long long)K);
    }
    return WEFT_OK;
}

/* The product of the dims before the last `n`. */
static int64_t batch_of(const weft_dims *shape, int n)
{
    int64_t size = 1;
    for (int i = 0; i < shape->n - n; i++) {
        size *= shape->at[i];
    }
    return size;
}

/* ---- segmented_mm: a (..., M, K), b (..., K, N), segments (..., S, 2) -> (..., S, M, N) -------
 */

static weft_status reference(const weft_call *call)
{
    const weft_tensor *a = &call->in[0], *b = &call->in[1], *segments = &call->in[2];
    const weft_dims *shape = &call->out[0].shape;
    int64_t S = shape->at[shape->n - 3], M = shape->at[shape->n - 2], N = shape->at[shape->n - 1];
    int64_t K = a->shape.at[a->shape.n - 1], size = batch_of(shape, 2), first, end;
    for (int64_t i = 0; i < size; i++) {
        weft_status status = segment_at(call, segments, i, K, &first, &end);
        if (status != WEFT_OK) {
            return status;
        }
        int64_t batch = i / S;
        for (int64_t at = 0; at < M * N; at++) {
            double sum = 0;
            for (int64_t k = first; k < end; k++) {
                sum += weft_tensor_get(a, (batch * M + at / N) * K + k) *
                       weft_tensor_get(b, (batch * K + k) * N + at % N);
            }
            weft_tensor_set(&call->out[0], i * M * N + at, sum);
        }
    }
    return WEFT_OK;
}

static weft_array *segmented(weft_array *a, weft_array *b, weft_array *segments)
{
    return apply3(&weft_op_segmented_mm, a, b, segments, NULL);
}

static weft_array *segmented_grad(weft_array *ct, weft_array *b, weft_array *segments)
{
    return apply3(&weft_op_segmented_mm_grad, ct, b, segments, NULL);
}

static weft_array *turned(weft_array *x)
{
    return weft_swapaxes(x, -1, -2);
}

static weft_array *sum_of(weft_array *a, weft_array *b)
{
    return a && b ? weft_add(a, b) : a ? a : b;
}

static void segmented_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                          weft_array **grads)
{
    weft_array *a = weft_node_input(node, 0), *b = weft_node_input(node, 1);
    weft_array *segments = weft_node_input(node, 2);
    if (wanted[0]) {
        grads[0] = segmented_grad(cts[0], b, segments);
    }
    if (wanted[1]) {
        grads[1] = turned(segmented_grad(turned(cts[0]), turned(a), segments));
    }
}

static void segmented_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    weft_array *a = weft_node_input(node, 0), *b = weft_node_input(node, 1);
    weft_array *segments = weft_node_input(node, 2);
    out[0] = sum_of(tangents[0] ? segmented(tangents[0], b, segments) : NULL,
                    tangents[1] ? segmented(a, tangents[1], segments) : NULL);
}

/* ---- segmented_mm_grad: ct (..., S, M, N), b (..., K, N), segments (..., S, 2) -> (..., M, K)  */

/* Term k of row m: the sum over the segments that contain k. */
static weft_status grad_reference(const weft_call *call)
{
    const weft_tensor *ct = &call->in[0], *b = &call->in[1], *segments = &call->in[2];
    const weft_tensor *out = &call->out[0];
    int rank = out->shape.n;
    int64_t M = out->shape.at[rank - 2], K = out->shape.at[rank - 1];
    int64_t N = b->shape.at[rank - 1], S = segments->shape.at[rank - 2];
    int64_t size = weft_tensor_size(out), first, end;
    for (int64_t i = 0; i < size; i++) {
        int64_t k = i % K, m = i / K % M, batch = i / K / M;
        double sum = 0;
        for (int64_t s = batch * S; s < (batch + 1) * S; s++) {
            weft_status status = segment_at(call, segments, s, K, &first, &end);
            if (status != WEFT_OK) {
                return status;
            }
            for (int64_t n = 0; k >= first && k < end && n < N; n++) {
                sum += weft_tensor_get(ct, (s * M + m) * N + n) *
                       weft_tensor_get(b, (batch * K + k) * N + n);
            }
        }
        weft_tensor_set(out, i, sum);
    }
    return WEFT_OK;
}

/* Linear in ct and in b. The cotangent v is (M, K). */
static void grad_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    weft_array *ct = weft_node_input(node, 0), *b = weft_node_input(node, 1);
    weft_array *segments = weft_node_input(node, 2);
    if (wanted[0]) {
        grads[0] = segmented(cts[0], b, segments);
    }
    if (wanted[1]) {
        grads[1] = turned(segmented_grad(turned(ct), turned(cts[0]), segments));
    }
}

static void grad_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    weft_array *ct = weft_node_input(node, 0), *b = weft_node_input(node, 1);
    weft_array *segments = weft_node_input(node, 2);
    out[0] = sum_of(tangents[0] ? segmented_grad(tangents[0], b, segments) : NULL,
                    tangents[1] ? segmented_grad(ct, tangents[1], segments) : NULL);
}

/* ---- The ops -------------------------------------------------------------------------------- */

/* Both ops multiply and add once for each term of a segment, row of out[0] and column of b. If the
 * host does not know the segments, each counts as all K terms. */
static void count_work(const weft_call *call, weft_work *work)
{
    const weft_tensor *segments = &call->in[2];
    const weft_dims *b = &call->in[1].shape, *out = &call->out[0].shape;
    const int64_t K = b->at[b->n - 2], N = b->at[b->n - 1], M = out->at[out->n - 2];
    double terms = 0;
    for (int64_t i = 0; i < weft_tensor_size(segments) / 2; i++) {
        int64_t first = 0, end = K;
        if (segments->data) {
            first = weft_tensor_get_int(segments, 2 * i);
            end = weft_tensor_get_int(segments, 2 * i + 1);
        }
        terms += end > first ? (double)(end - first) : 0;
    }
    work->flops = 2 * (double)M * (double)N * terms;
}

static bool same_batch(const weft_dims *a, int a_core, const weft_dims *b, int b_core)
{
    bool same = a->n - a_core == b->n - b_core;
    for (int i = 0; same && i < a->n - a_core; i++) {
        same = a->at[i] == b->at[i];
    }
    return same;
}

static bool check(const weft_array *node, int first_core, weft_why *why)
{
    weft_dims a = input_shape(node, 0), b = input_shape(node, 1), s = input_shape(node, 2);
    char a_text[WEFT_SHAPE_TEXT], b_text[WEFT_SHAPE_TEXT], s_text[WEFT_SHAPE_TEXT];
    weft_dtype dtype = input_dtype(node, 0);
    if (dtype != input_dtype(node, 1) || !weft_dtype_is_float(dtype) ||
        !weft_dtype_is_integer(input_dtype(node, 2))) {
        return weft_because(why,
                            "expected one float dtype and segments of integers, got %s, %s "
                            "and %s",
                            weft_dtype_name(dtype), weft_dtype_name(input_dtype(node, 1)),
                            weft_dtype_name(input_dtype(node, 2)));
    }
    bool fits = a.n >= first_core && b.n >= 2 && s.n >= 2 && s.at[s.n - 1] == 2 &&
                same_batch(&a, first_core, &b, 2) && same_batch(&b, 2, &s, 2);
    if (fits && first_core == 2) {
        fits = a.at[a.n - 1] == b.at[b.n - 2];
    } else if (fits) {
        fits = a.at[a.n - 1] == b.at[b.n - 1] && a.at[a.n - 3] == s.at[s.n - 2];
    }
    return fits ||
           weft_because(why, "shapes do not fit: %s, %s, segments %s", weft__shape_text(&a, a_text),
                        weft__shape_text(&b, b_text), weft__shape_text(&s, s_text));
}

static bool segmented_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    if (!check(node, 2, why)) {
        return false;
    }
    weft_dims shape = input_shape(node, 2);
    int64_t M = weft_dim(weft_node_input(node, 0), -2);
    if (shape.n == WEFT_MAX_DIMS) {
        return weft_because(why, "the result has more than %d axes", WEFT_MAX_DIMS);
    }
    shape.at[shape.n - 1] = M;
    shape.at[shape.n++] = weft_dim(weft_node_input(node, 1), -1);
    return set_spec(out, input_dtype(node, 0), &shape);
}

static bool grad_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    if (!check(node, 3, why)) {
        return false;
    }
    weft_dims shape = input_shape(node, 1);
    shape.at[shape.n - 1] = shape.at[shape.n - 2];
    shape.at[shape.n - 2] = weft_dim(weft_node_input(node, 0), -2);
    return set_spec(out, input_dtype(node, 0), &shape);
}

static const weft_case segmented_cases[] = {
    {.name = "matrix",
     .n_inputs = 3,
     .in = {{.shape = DIMS(3, 8)}, {.shape = DIMS(8, 2)}, {.shape = DIMS(4, 2), .index_below = 9}}},
    {.name = "batch",
     .n_inputs = 3,
     .in = {{.shape = DIMS(2, 3, 5)},
            {.shape = DIMS(2, 5, 4)},
            {.shape = DIMS(2, 3, 2), .index_below = 6}}},
    {.name = "nothing",
     .n_inputs = 3,
     .in = {{.shape = DIMS(3, 8)}, {.shape = DIMS(8, 2)}, {.shape = DIMS(0, 2), .index_below = 9}}},
};

const weft_op weft_op_segmented_mm = {
    .name = "segmented_mm",
    .family = WEFT_CORE_RANK,
    .arity = 3,
    .infer = segmented_infer,
    .vjp = segmented_vjp,
    .zero_gradient = 1u << 2,
    .jvp = segmented_jvp,
    .work = count_work,
    .takes_leading_axis = true,
    .reference = reference,
    .cases = segmented_cases,
    .n_cases = sizeof segmented_cases / sizeof *segmented_cases,
    .no_test_dtypes = DTYPE_NOT_FLOAT,
};

static const weft_case grad_cases[] = {
    {.name = "matrix",
     .n_inputs = 3,
     .in = {{.shape = DIMS(4, 3, 2)},
            {.shape = DIMS(8, 2)},
            {.shape = DIMS(4, 2), .index_below = 9}}},
    {.name = "batch",
     .n_inputs = 3,
     .in = {{.shape = DIMS(2, 3, 3, 4)},
            {.shape = DIMS(2, 5, 4)},
            {.shape = DIMS(2, 3, 2), .index_below = 6}}},
    {.name = "nothing",
     .n_inputs = 3,
     .in = {{.shape = DIMS(0, 3, 2)},
            {.shape = DIMS(8, 2)},
            {.shape = DIMS(0, 2), .index_below = 9}}},
};

const weft_op weft_op_segmented_mm_grad = {
    .name = "segmented_mm_grad",
    .family = WEFT_CORE_RANK,
    .arity = 3,
    .infer = grad_infer,
    .vjp = grad_vjp,
    .zero_gradient = 1u << 2,
    .jvp = grad_jvp,
    .work = count_work,
    .takes_leading_axis = true,
    .reference = grad_reference,
    .cases = grad_cases,
    .n_cases = sizeof grad_cases / sizeof *grad_cases,
    .no_test_dtypes = DTYPE_NOT_FLOAT,
};

/* ---- Public --------------------------------------------------------------------------------- */

weft_array *weft_segmented_mm(weft_array *a, weft_array *b, weft_array *segments)
{
    weft_scope_open();
    if (!weft_ok(a) || !weft_ok(b) || !weft_ok(segments)) {
        return weft_scope_close(segmented(a, b, segments));
    }
    weft_dims shape = weft_shape(segments);
    if (weft_ndim(a) != 2 || weft_ndim(b) != 2 || shape.n < 1 || shape.at[shape.n - 1] != 2) {
        return weft_scope_close(
            weft_error_array("segmented_mm: expected a (M, K), b (K, N) and segments (..., 2), "
                             "got ranks %d, %d and %d",
                             weft_ndim(a), weft_ndim(b), shape.n));
    }
    weft_dtype dtype = weft_promote(weft_dtype_of(a), weft_dtype_of(b));
    dtype = weft_dtype_is_float(dtype) ? dtype : WEFT_FLOAT32;
    int64_t count = weft_size(segments) / 2;
    weft_array *y = segmented(weft_astype(a, dtype), weft_astype(b, dtype),
                              weft_reshape(segments, WEFT_DIMS(count, 2)));
    shape.at[shape.n - 1] = weft_dim(a, 0);
    shape.at[shape.n++] = weft_dim(b, 1);
    return weft_scope_close(weft_reshape(y, shape));
}
