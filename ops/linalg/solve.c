/* ops/linalg/solve.c -- solves linear systems with general and triangular matrices. */
#include "ops/linalg/linalg.h"

static weft_status singular(const weft_call *call, int64_t batch, int64_t place)
{
    return weft_fail(WEFT_INVALID, "%s: matrix %lld of the batch is singular: pivot %lld is 0",
                     call->op->name, (long long)batch, (long long)place);
}

static weft_status solve_all(const weft_call *call, bool triangular, bool upper)
{
    const weft_tensor *a_in = &call->in[0], *b_in = &call->in[1], *out = &call->out[0];
    int64_t n = weft__columns_of(a_in), k = weft__columns_of(b_in);
    number *a = weft__room(call, n * n + n * k + n);
    if (!a) {
        return WEFT_MEMORY;
    }
    weft_status status = WEFT_OK;
    number *x = a + n * n;
    int64_t *pivots = (int64_t *)(void *)(x + n * k);
    for (int64_t b = 0; status == WEFT_OK && b < weft__batches(a_in, 2); b++) {
        int64_t zero = 0;
        weft__load(a_in, b * n * n, n * n, a);
        weft__load(b_in, b * n * k, n * k, x);
        for (int64_t i = 0; triangular && i < n * n; i++) {
            bool outside = upper ? i % n < i / n : i % n > i / n;
            a[i] = outside ? 0 : a[i];
            zero = i % n == i / n && a[i] == 0 && zero == 0 ? i / n + 1 : zero;
        }
        if (!weft__all_finite(a, n * n) || !weft__all_finite(x, n * k)) {
            weft__store_nan(out, b * n * k, n * k);
            continue;
        }
        zero = triangular ? zero : weft__lu(a, n, n, pivots);
        if (zero > 0) {
            status = singular(call, b, zero);
            break;
        }
        for (int64_t i = 0; !triangular && i < n; i++) {
            for (int64_t c = 0; c < k; c++) {
                number swap = x[i * k + c];
                x[i * k + c] = x[pivots[i] * k + c];
                x[pivots[i] * k + c] = swap;
            }
        }
        if (!triangular) {
            weft__substitute(a, n, false, true, x, k);
        }
        weft__substitute(a, n, triangular ? upper : true, false, x, k);
        weft__store(out, b * n * k, n * k, x);
    }
    weft_free(a);
    return status;
}

static weft_status solve_reference(const weft_call *call)
{
    return solve_all(call, false, false);
}

static weft_status solve_triangular_reference(const weft_call *call)
{
    const weft_triangular_params *p = call->params;
    return solve_all(call, true, p->upper);
}

/* ---- derivatives ---------------------------------------------------------------------------- */

/* x = a^{-1} b: the cotangent of b is a^{-H} dx, and that of a is -(that) x^H (Giles 2008). */
static void solve_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                      weft_array **grads)
{
    weft_array *db = weft_solve(weft__adjoint(weft_node_input(node, 0)), cts[0]);
    if (wanted[0]) {
        grads[0] = weft_negative(weft_matmul(db, weft__adjoint(node)));
    }
    grads[1] = wanted[1] ? db : NULL;
}

static void solve_triangular_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                                 weft_array **grads)
{
    const weft_triangular_params *p = weft_node_params(node);
    weft_array *adjoint = weft__adjoint(weft_node_input(node, 0));
    weft_array *db = weft_solve_triangular(adjoint, cts[0], !p->upper);
    if (wanted[0]) {
        weft_array *da = weft_negative(weft_matmul(db, weft__adjoint(node)));
        grads[0] = p->upper ? weft__upper(da, 0) : weft__lower(da, 0);
    }
    grads[1] = wanted[1] ? db : NULL;
}

/* ---- the ops -------------------------------------------------------------------------------- */

static bool solve_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims a = input_shape(node, 0), b = input_shape(node, 1);
    char a_text[WEFT_SHAPE_TEXT], b_text[WEFT_SHAPE_TEXT];
    if (!weft__expect_square(node, 0, why) || !weft__expect_matrix(node, 1, why)) {
        return false;
    }
    bool same = a.n == b.n && a.at[a.n - 1] == b.at[b.n - 2];
    for (int i = 0; same && i < a.n - 2; i++) {
        same = a.at[i] == b.at[i];
    }
    if (!same) {
        return weft_because(why, "expected (..., N, N) and (..., N, K), got %s and %s",
                            weft__shape_text(&a, a_text), weft__shape_text(&b, b_text));
    }
    if (input_dtype(node, 0) != input_dtype(node, 1)) {
        return weft_because(why, "the dtypes differ");
    }
    return set_spec(out, input_dtype(node, 0), &b);
}

static const weft_field triangular_fields[] = {
    WEFT_FIELD(BOOL, weft_triangular_params, upper),
    WEFT_FIELDS_END,
};

static const weft_triangular_params upper_params = {true};

#define PAIR(b_shape, ...)                                                                         \
    .n_inputs = 2, .in = {{.shape = DIMS(__VA_ARGS__), .dominant = true}, {.shape = b_shape}}

static const weft_case solve_cases[] = {
    {.name = "batch", PAIR(DIMS(2, 4, 3), 2, 4, 4)},
    {.name = "larger", PAIR(DIMS(11, 2), 11, 11)},
    {.name = "none", PAIR(DIMS(0, 3, 2), 0, 3, 3)},
    {.name = "empty", PAIR(DIMS(2, 0, 2), 2, 0, 0)},
    {.name = "no columns", PAIR(DIMS(3, 0), 3, 3)},
};

static const weft_case triangular_cases[] = {
    {.name = "lower", PAIR(DIMS(2, 4, 3), 2, 4, 4)},
    {.name = "upper", PAIR(DIMS(2, 4, 3), 2, 4, 4), .params = &upper_params},
    {.name = "larger", PAIR(DIMS(11, 2), 11, 11), .params = &upper_params},
    {.name = "none", PAIR(DIMS(0, 3, 2), 0, 3, 3)},
    {.name = "empty", PAIR(DIMS(2, 0, 2), 2, 0, 0)},
    {.name = "no columns", PAIR(DIMS(3, 0), 3, 3)},
};
#undef PAIR

const weft_op weft_op_solve = {
    .name = "solve",
    .family = WEFT_CORE_RANK,
    .arity = 2,
    .infer = solve_infer,
    .vjp = solve_vjp,
    .takes_leading_axis = true,
    .reference = solve_reference,
    .cases = solve_cases,
    .n_cases = sizeof solve_cases / sizeof *solve_cases,
    .no_test_dtypes = NOT_MATRIX_DTYPES,
};

const weft_op weft_op_solve_triangular = {
    .name = "solve_triangular",
    .family = WEFT_CORE_RANK,
    .arity = 2,
    .params_size = sizeof(weft_triangular_params),
    .params_fields = triangular_fields,
    .infer = solve_infer,
    .vjp = solve_triangular_vjp,
    .takes_leading_axis = true,
    .reference = solve_triangular_reference,
    .cases = triangular_cases,
    .n_cases = sizeof triangular_cases / sizeof *triangular_cases,
    .no_test_dtypes = NOT_MATRIX_DTYPES,
};

/* Converts to one dtype, and broadcasts the leading axes against each other. */
static weft_array *apply(const weft_op *op, weft_array *a, weft_array *b, const void *params)
{
    a = weft__matrix(op->name, a, true);
    b = weft_ok(a) ? weft__matrix(op->name, b, false) : a;
    weft_dims a_shape = weft_shape(a), b_shape = weft_shape(b), batch;
    a_shape.n -= 2;
    b_shape.n -= 2;
    if (!weft_ok(a) || !weft_ok(b)) {
        return weft_ok(a) ? b : a;
    }
    if (!weft__shape_broadcast(&a_shape, &b_shape, &batch)) {
        return weft_error_array("%s: leading axes that do not broadcast", op->name);
    }
    weft_dims a_full = batch, b_full = batch;
    a_full.n = b_full.n = batch.n + 2;
    for (int i = 1; i <= 2; i++) {
        a_full.at[a_full.n - i] = weft_dim(a, -i);
        b_full.at[b_full.n - i] = weft_dim(b, -i);
    }
    weft_dtype dtype = weft_promote(weft_dtype_of(a), weft_dtype_of(b));
    return apply2(op, weft_astype(weft_broadcast_to(a, a_full), dtype),
                  weft_astype(weft_broadcast_to(b, b_full), dtype), params);
}

/* A b with one axis is treated as one column. */
static weft_array *solve_either(const weft_op *op, weft_array *a, weft_array *b, const void *params)
{
    bool vector = weft_ok(b) && weft_ndim(b) == 1;
    weft_array *x = apply(op, a, vector ? weft_expand_dims(b, -1) : b, params);
    x = vector ? weft_squeeze(x, -1) : x;
    bool narrow = weft_dtype_of(a) == weft_dtype_of(b);
    return narrow ? weft__as_given(x, a) : x;
}

weft_array *weft_solve(weft_array *a, weft_array *b)
{
    weft_scope_open();
    return weft_scope_close(solve_either(&weft_op_solve, a, b, NULL));
}

weft_array *weft_solve_triangular(weft_array *a, weft_array *b, bool upper)
{
    weft_scope_open();
    return weft_scope_close(
        solve_either(&weft_op_solve_triangular, a, b, &(weft_triangular_params){upper}));
}
