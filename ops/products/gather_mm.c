/* ops/products/gather_mm.c -- products of matrices selected by indices, as for a mixture of
 * experts, and the sums that are the gradient of the second operand. */
#include "ops/products/chosen.h"

/* ---- gather_mm: a (A, M, K), b (B, K, N), lhs (I), rhs (I) -> (I, M, N) ---------------------- */

static weft_status chosen(const weft_call *call, int64_t i, int64_t *lhs, int64_t *rhs)
{
    weft_status status = weft__index_at(call, &call->in[2], i, call->in[0].shape.at[0], lhs);
    return status != WEFT_OK ? status
                             : weft__index_at(call, &call->in[3], i, call->in[1].shape.at[0], rhs);
}

static weft_status gather_mm_reference(const weft_call *call)
{
    const weft_tensor *a = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    int64_t M = a->shape.at[1], K = a->shape.at[2], N = b->shape.at[2], lhs, rhs;
    for (int64_t i = 0; i < out->shape.at[0]; i++) {
        weft_status status = chosen(call, i, &lhs, &rhs);
        if (status != WEFT_OK) {
            return status;
        }
        for (int64_t at = 0; at < M * N; at++) {
            double sum = 0;
            for (int64_t k = 0; k < K; k++) {
                sum += weft_tensor_get(a, (lhs * M + at / N) * K + k) *
                       weft_tensor_get(b, (rhs * K + k) * N + at % N);
            }
            weft_tensor_set(out, i * M * N + at, sum);
        }
    }
    return WEFT_OK;
}

static weft_array *gather_mm(weft_array *a, weft_array *b, weft_array *lhs, weft_array *rhs,
                             bool sorted)
{
    weft_gather_mm_params p = {.sorted = sorted};
    weft_array *inputs[] = {a, b, lhs, rhs};
    return weft_apply(&weft_op_gather_mm, inputs, 4, &p);
}

/* For each of `count` rhs, the sum of a[lhs_i]^T ct_i over the i that use it: (count, K, N). */
static weft_array *gather_mm_sums(weft_array *a, weft_array *ct, weft_array *lhs, weft_array *rhs,
                                  int64_t count)
{
    weft_gather_mm_params p = {.count = count};
    weft_array *inputs[] = {a, ct, lhs, rhs};
    return weft_apply(&weft_op_gather_mm_sums, inputs, 4, &p);
}

/* 0, 1, ...: the cotangents in order. */
static weft_array *in_turn(weft_array *like)
{
    return weft_to(weft_arange(0, (double)weft_dim(like, 0), 1, WEFT_INT32), weft_device_of(like));
}

/* Adds the matrices `parts` at their indices: (count, ...). */
static weft_array *add_up(weft_array *parts, weft_array *indices, int64_t count)
{
    weft_axis_params axis = {.axis = -3};
    weft_dims shape = weft_shape(parts);
    shape.at[0] = count;
    return apply3(&weft_op_scatter_add,
                  weft__zeros_on_device_of(parts, shape, weft_dtype_of(parts)), indices, parts,
                  &axis);
}

static void gather_mm_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                          weft_array **grads)
{
    weft_array *a = weft_node_input(node, 0), *b = weft_node_input(node, 1);
    weft_array *lhs = weft_node_input(node, 2), *rhs = weft_node_input(node, 3);
    if (wanted[0]) {
        weft_array *parts =
            gather_mm(cts[0], weft_swapaxes(b, -1, -2), in_turn(cts[0]), rhs, false);
        grads[0] = add_up(parts, lhs, weft_dim(a, 0));
    }
    if (wanted[1]) {
        grads[1] = gather_mm_sums(a, cts[0], lhs, rhs, weft_dim(b, 0));
    }
}

static void gather_mm_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    const weft_gather_mm_params *p = weft_node_params(node);
    weft_array *lhs = weft_node_input(node, 2), *rhs = weft_node_input(node, 3);
    weft_array *left = NULL, *right = NULL;
    if (tangents[0]) {
        left = gather_mm(tangents[0], weft_node_input(node, 1), lhs, rhs, p->sorted);
    }
    if (tangents[1]) {
        right = gather_mm(weft_node_input(node, 0), tangents[1], lhs, rhs, p->sorted);
    }
    out[0] = left && right ? weft_add(left, right) : left ? left : right;
}

/* ---- Batches: more matrices to select from --------------------------------------------------- */

/* Reshapes (size, n, ...) to (size n, ...). */
static weft_array *together(weft_array *x)
{
    return weft_flatten(x, 0, 1);
}

/* Indices (size, I), or (I) for every item of the batch, into `length` matrices each. If the
 * matrices are batched, those of item s start at s length. Indices out of range stay out of range.
 */
static weft_array *shifted(weft_array *indices, bool batched, int64_t size, int64_t length,
                           bool shift)
{
    weft_dims shape = WEFT_DIMS(size, weft_dim(indices, -1));
    weft_device *device = weft_device_of(indices);
    indices = weft_astype(indices, WEFT_INT64);
    if (shift) {
        weft_array *zero = weft_to(weft_scalar_int(0, WEFT_INT64), device);
        weft_array *n = weft_to(weft_scalar_int(length, WEFT_INT64), device);
        weft_array *all = weft_to(weft_scalar_int(size * length, WEFT_INT64), device);
        weft_array *item = weft_to(weft_arange(0, (double)size, 1, WEFT_INT64), device);
        weft_array *from = weft_where(weft_less(indices, zero), weft_add(indices, n), indices);
        weft_array *good = weft_logical_and(weft_greater_equal(from, zero), weft_less(from, n));
        item = weft_multiply(weft_reshape(item, WEFT_DIMS(size, 1)), n);
        indices = weft_where(good, weft_add(from, item), all);
    } else if (!batched) {
        indices = weft_broadcast_to(indices, shape);
    }
    return weft_reshape(indices, WEFT_DIMS(-1));
}

static bool gather_mm_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                           int64_t size, weft_array **out)
{
    const weft_gather_mm_params *p = weft_node_params(node);
    int64_t A = weft_dim(weft_node_input(node, 0), 0), B = weft_dim(weft_node_input(node, 1), 0);
    weft_array *a = batched[0] ? together(in[0]) : in[0];
    weft_array *b = batched[1] ? together(in[1]) : in[1];
    weft_array *lhs = shifted(in[2], batched[2], size, A, batched[0]);
    weft_array *rhs = shifted(in[3], batched[3], size, B, batched[1]);
    bool sorted = p->sorted && batched[1];
    weft_array *y = gather_mm(a, b, lhs, rhs, sorted);
    weft_dims shape = {
        4, {size, weft_dim(y, 0) / (size > 0 ? size : 1), weft_dim(y, 1), weft_dim(y, 2)}};
    out[0] = weft_reshape(y, shape);
    return true;
}

/* ---- Checks --------------------------------------------------------------------------------- */

/* Checks ranks, a common float dtype, and indices (I). */
static bool check(const weft_array *node, const char *names, weft_why *why)
{
    weft_dims a = input_shape(node, 0), b = input_shape(node, 1), lhs = input_shape(node, 2),
              rhs = input_shape(node, 3);
    char s[WEFT_SHAPE_TEXT], t[WEFT_SHAPE_TEXT];
    weft_dtype dtype = input_dtype(node, 0);
    if (dtype != input_dtype(node, 1) || !weft_dtype_is_float(dtype)) {
        return weft_because(why, "expected one float dtype, got %s and %s", weft_dtype_name(dtype),
                            weft_dtype_name(input_dtype(node, 1)));
    }
    if (a.n != 3 || b.n != 3) {
        return weft_because(why, "expected %s of rank 3, got %s and %s", names,
                            weft__shape_text(&a, s), weft__shape_text(&b, t));
    }
    if (!weft_dtype_is_integer(input_dtype(node, 2)) ||
        !weft_dtype_is_integer(input_dtype(node, 3)) || lhs.n != 1 || rhs.n != 1 ||
        lhs.at[0] != rhs.at[0]) {
        return weft_because(why, "expected as many integers on both sides, got %s and %s",
                            weft__shape_text(&lhs, s), weft__shape_text(&rhs, t));
    }
    return true;
}

static bool gather_mm_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    if (!check(node, "a and b", why)) {
        return false;
    }
    weft_dims a = input_shape(node, 0), b = input_shape(node, 1), shape = a;
    if (a.at[2] != b.at[1]) {
        return weft_because(why, "inner dimensions differ: %lld and %lld", (long long)a.at[2],
                            (long long)b.at[1]);
    }
    shape.at[0] = input_shape(node, 2).at[0];
    shape.at[2] = b.at[2];
    return set_spec(out, input_dtype(node, 0), &shape);
}

static const weft_field fields[] = {
    WEFT_FIELD(INT, weft_gather_mm_params, count),
    WEFT_FIELD(BOOL, weft_gather_mm_params, sorted),
    WEFT_FIELDS_END,
};

static const weft_case gather_mm_cases[] = {
    {.name = "rows",
     .n_inputs = 4,
     .in = {{.shape = DIMS(5, 1, 4)},
            {.shape = DIMS(3, 4, 6)},
            {.shape = DIMS(7), .index_below = 5},
            {.shape = DIMS(7), .index_below = 3}}},
    {.name = "matrices",
     .n_inputs = 4,
     .in = {{.shape = DIMS(2, 3, 4)},
            {.shape = DIMS(4, 4, 2)},
            {.shape = DIMS(5), .index_below = 2},
            {.shape = DIMS(5), .index_below = 4}}},
    {.name = "one",
     .n_inputs = 4,
     .in = {{.shape = DIMS(12, 1, 40)},
            {.shape = DIMS(2, 40, 33)},
            {.shape = DIMS(12), .index_below = 12},
            {.shape = DIMS(12), .index_below = 1}}},
    {.name = "nothing",
     .n_inputs = 4,
     .in = {{.shape = DIMS(2, 1, 3)},
            {.shape = DIMS(2, 3, 2)},
            {.shape = DIMS(0), .index_below = 1},
            {.shape = DIMS(0), .index_below = 1}}},
    {.name = "no terms",
     .n_inputs = 4,
     .in = {{.shape = DIMS(2, 2, 0)},
            {.shape = DIMS(2, 0, 2)},
            {.shape = DIMS(3), .index_below = 2},
            {.shape = DIMS(3), .index_below = 2}}},
};

double weft__unselected_bytes(const weft_tensor *matrices, int64_t pairs)
{
    const int64_t n = matrices->shape.at[0], size = weft_tensor_size(matrices);
    const double bytes = matrices->encoding
                             ? (double)weft_encoding_bytes(matrices->encoding, size)
                             : (double)size * (double)weft_dtype_size(matrices->dtype);
    return pairs < n ? bytes * (1 - (double)pairs / (double)n) : 0;
}

void weft__gather_work(const weft_call *call, weft_work *work)
{
    const weft_dims *a = &call->in[0].shape;
    work->flops = 2 * (double)a->at[a->n - 1] * (double)weft_tensor_size(&call->out[0]);
    work->bytes -= weft__unselected_bytes(&call->in[1], call->out[0].shape.at[0]);
}

/* The products of each pair's columns, summed. */
static void sums_work(const weft_call *call, weft_work *work)
{
    const weft_dims *a = &call->in[0].shape;
    work->flops = 2 * (double)a->at[2] * (double)weft_tensor_size(&call->in[1]);
}

const weft_op weft_op_gather_mm = {
    .name = "gather_mm",
    .family = WEFT_CORE_RANK,
    .arity = 4,
    .params_size = sizeof(weft_gather_mm_params),
    .params_fields = fields,
    .infer = gather_mm_infer,
    .vjp = gather_mm_vjp,
    .zero_gradient = 1u << 2 | 1u << 3,
    .jvp = gather_mm_jvp,
    .vmap = gather_mm_vmap,
    .work = weft__gather_work,
    .reference = gather_mm_reference,
    .cases = gather_mm_cases,
    .n_cases = sizeof gather_mm_cases / sizeof *gather_mm_cases,
    .no_test_dtypes = DTYPE_NOT_FLOAT,
    .tolerance = 4e-6, /* sums of up to 40 terms of magnitude up to 4 */
};

/* ---- gather_mm_sums: a (A, M, K), ct (I, M, N), lhs, rhs (I) -> (count, K, N) ---------------- */

static weft_status sums_reference(const weft_call *call)
{
    const weft_gather_mm_params *p = call->params;
    const weft_tensor *a = &call->in[0], *ct = &call->in[1], *out = &call->out[0];
    int64_t M = a->shape.at[1], K = a->shape.at[2], N = ct->shape.at[2], lhs, rhs;
    for (int64_t e = 0; e < p->count * K * N; e++) {
        double sum = 0;
        for (int64_t i = 0; i < ct->shape.at[0]; i++) {
            weft_status status = weft__index_at(call, &call->in[2], i, a->shape.at[0], &lhs);
            status =
                status == WEFT_OK ? weft__index_at(call, &call->in[3], i, p->count, &rhs) : status;
            if (status != WEFT_OK) {
                return status;
            }
            for (int64_t m = 0; rhs == e / (K * N) && m < M; m++) {
                sum += weft_tensor_get(a, (lhs * M + m) * K + e / N % K) *
                       weft_tensor_get(ct, (i * M + m) * N + e % N);
            }
        }
        weft_tensor_set(out, e, sum);
    }
    return WEFT_OK;
}

/* Linear in a and in ct. The cotangent v has the shape of b. */
static void sums_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    weft_array *a = weft_node_input(node, 0), *ct = weft_node_input(node, 1);
    weft_array *lhs = weft_node_input(node, 2), *rhs = weft_node_input(node, 3);
    if (wanted[0]) {
        weft_array *parts = gather_mm(ct, weft_swapaxes(cts[0], -1, -2), in_turn(ct), rhs, false);
        grads[0] = add_up(parts, lhs, weft_dim(a, 0));
    }
    if (wanted[1]) {
        grads[1] = gather_mm(a, cts[0], lhs, rhs, false);
    }
}

static void sums_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    const weft_gather_mm_params *p = weft_node_params(node);
    weft_array *a = weft_node_input(node, 0), *ct = weft_node_input(node, 1);
    weft_array *lhs = weft_node_input(node, 2), *rhs = weft_node_input(node, 3);
    weft_array *left = NULL, *right = NULL;
    if (tangents[0]) {
        left = gather_mm_sums(tangents[0], ct, lhs, rhs, p->count);
    }
    if (tangents[1]) {
        right = gather_mm_sums(a, tangents[1], lhs, rhs, p->count);
    }
    out[0] = left && right ? weft_add(left, right) : left ? left : right;
}

/* Each item of the batch has separate sums. */
static bool sums_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                      weft_array **out)
{
    const weft_gather_mm_params *p = weft_node_params(node);
    weft_dims ct_shape = weft_shape(in[1]);
    int64_t A = weft_dim(weft_node_input(node, 0), 0);
    weft_array *a = batched[0] ? together(in[0]) : in[0], *ct = in[1];
    if (!batched[1]) {
        weft_dims wide = {4, {size, ct_shape.at[0], ct_shape.at[1], ct_shape.at[2]}};
        ct = weft_broadcast_to(weft_expand_dims(ct, 0), wide);
    }
    weft_array *lhs = shifted(in[2], batched[2], size, A, batched[0]);
    weft_array *rhs = shifted(in[3], batched[3], size, p->count, true);
    weft_array *y = gather_mm_sums(a, together(ct), lhs, rhs, size * p->count);
    weft_dims shape = {4, {size, p->count, weft_dim(y, 1), weft_dim(y, 2)}};
    out[0] = weft_reshape(y, shape);
    return true;
}

static bool sums_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_gather_mm_params *p = weft_node_params(node);
    if (!check(node, "a and the cotangent", why)) {
        return false;
    }
    weft_dims a = input_shape(node, 0), ct = input_shape(node, 1);
    if (a.at[1] != ct.at[1] || ct.at[0] != input_shape(node, 2).at[0] || p->count < 0) {
        return weft_because(why, "a has %lld rows, the %lld cotangents %lld, for %lld indices",
                            (long long)a.at[1], (long long)ct.at[0], (long long)ct.at[1],
                            (long long)input_shape(node, 2).at[0]);
    }
    return set_spec(out, input_dtype(node, 0), &WEFT_DIMS(p->count, a.at[2], ct.at[2]));
}

static const weft_case sums_cases[] = {
    {.name = "rows",
     .n_inputs = 4,
     .in = {{.shape = DIMS(5, 1, 4)},
            {.shape = DIMS(7, 1, 6)},
            {.shape = DIMS(7), .index_below = 5},
            {.shape = DIMS(7), .index_below = 3}},
     .params = &(const weft_gather_mm_params){.count = 4}},
    {.name = "matrices",
     .n_inputs = 4,
     .in = {{.shape = DIMS(2, 3, 4)},
            {.shape = DIMS(5, 3, 2)},
            {.shape = DIMS(5), .index_below = 2},
            {.shape = DIMS(5), .index_below = 4}},
     .params = &(const weft_gather_mm_params){.count = 4}},
    {.name = "nothing",
     .n_inputs = 4,
     .in = {{.shape = DIMS(2, 1, 3)},
            {.shape = DIMS(0, 1, 2)},
            {.shape = DIMS(0), .index_below = 1},
            {.shape = DIMS(0), .index_below = 1}},
     .params = &(const weft_gather_mm_params){.count = 2}},
};

const weft_op weft_op_gather_mm_sums = {
    .name = "gather_mm_sums",
    .family = WEFT_CORE_RANK,
    .arity = 4,
    .params_size = sizeof(weft_gather_mm_params),
    .params_fields = fields,
    .infer = sums_infer,
    .vjp = sums_vjp,
    .zero_gradient = 1u << 2 | 1u << 3,
    .jvp = sums_jvp,
    .vmap = sums_vmap,
    .work = sums_work,
    .reference = sums_reference,
    .cases = sums_cases,
    .n_cases = sizeof sums_cases / sizeof *sums_cases,
    .no_test_dtypes = DTYPE_NOT_FLOAT,
    .tolerance = 4e-6, /* sums of up to 40 terms of magnitude up to 4 */
};

/* ---- Public --------------------------------------------------------------------------------- */

/* Reshapes (..., R, C) to (count, R, C). */
static weft_array *as_list(weft_array *x)
{
    weft_dims shape = weft_shape(x);
    int64_t count = 1;
    for (int i = 0; i < shape.n - 2; i++) {
        count *= shape.at[i];
    }
    return weft_reshape(x, WEFT_DIMS(count, shape.at[shape.n - 2], shape.at[shape.n - 1]));
}

/* Indices 0, 1, ... for an operand without indices. */
static weft_array *all_of(weft_array *x)
{
    weft_dims shape = weft_shape(x), batch = shape;
    int64_t count = 1;
    batch.n -= 2;
    for (int i = 0; i < batch.n; i++) {
        count *= batch.at[i];
    }
    weft_array *all = weft_to(weft_arange(0, (double)count, 1, WEFT_INT32), weft_device_of(x));
    return weft_reshape(all, batch);
}

weft_array *weft_gather_mm(weft_array *a, weft_array *b, weft_array *lhs, weft_array *rhs,
                           bool sorted)
{
    weft_scope_open();
    weft_array *given[] = {a, b, lhs, rhs};
    for (int i = 0; i < 4; i++) {
        if (given[i] && !weft_ok(given[i])) {
            return weft_scope_close(given[i]);
        }
    }
    if (weft_ndim(a) < 2 || weft_ndim(b) < 2) {
        return weft_scope_close(weft_error_array(
            "gather_mm: expected matrices, got ranks %d and %d", weft_ndim(a), weft_ndim(b)));
    }
    weft_dtype dtype = weft_promote(weft_dtype_of(a), weft_dtype_of(b));
    dtype = weft_dtype_is_float(dtype) ? dtype : WEFT_FLOAT32;
    lhs = lhs ? lhs : all_of(a);
    rhs = rhs ? rhs : all_of(b);
    weft_dims left = weft_shape(lhs), right = weft_shape(rhs), shape;
    if (!weft__shape_broadcast(&left, &right, &shape) || shape.n + 2 > WEFT_MAX_DIMS) {
        char s[WEFT_SHAPE_TEXT], t[WEFT_SHAPE_TEXT];
        return weft_scope_close(weft_error_array("gather_mm: indices of %s and %s do not broadcast",
                                                 weft__shape_text(&left, s),
                                                 weft__shape_text(&right, t)));
    }
    int64_t M = weft_dim(a, -2), N = weft_dim(b, -1);
    lhs = weft_reshape(weft_broadcast_to(lhs, shape), WEFT_DIMS(weft__shape_size(&shape)));
    rhs = weft_reshape(weft_broadcast_to(rhs, shape), WEFT_DIMS(weft__shape_size(&shape)));
    weft_array *y =
        gather_mm(as_list(weft_astype(a, dtype)), as_list(weft_astype(b, dtype)), lhs, rhs, sorted);
    shape.at[shape.n++] = M;
    shape.at[shape.n++] = N;
    return weft_scope_close(weft_reshape(y, shape));
}
