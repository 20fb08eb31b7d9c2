/* ops/linalg/eig.c -- eigenvalues and eigenvectors of general matrices; the results are complex64.
 */
#include <math.h>

#include "ops/linalg/linalg.h"

static weft_status eig_reference(const weft_call *call)
{
    const weft_tensor *in = &call->in[0];
    bool vectors = call->n_outputs > 1;
    int64_t n = weft__columns_of(in);
    number *a = weft__room(call, 3 * n * n + 2 * n);
    if (!a) {
        return WEFT_MEMORY;
    }
    weft_status status = WEFT_OK;
    number *q = a + n * n, *v = q + n * n, *w = v + n * n, *room = w + n;
    for (int64_t b = 0; status == WEFT_OK && b < weft__batches(in, 2); b++) {
        weft__load(in, b * n * n, n * n, a);
        if (!weft__all_finite(a, n * n)) {
            weft__store_nan(&call->out[0], b * n, n);
            if (vectors) {
                weft__store_nan(&call->out[1], b * n * n, n * n);
            }
            continue;
        }
        if (!weft__eigen(a, q, n, room, w, vectors ? v : NULL)) {
            status = weft_fail(WEFT_INVALID, "eig: matrix %lld of the batch does not converge",
                               (long long)b);
        }
        weft__store(&call->out[0], b * n, n, w);
        if (vectors) {
            weft__store(&call->out[1], b * n * n, n * n, v);
        }
    }
    weft_free(a);
    return status;
}

/* v^{-H} (diag(dw) + conj(f) o (v^H dv - v^H v diag(Re(v^H dv)))) v^H with f_ij = 1 / (w_j - w_i).
 * The second term keeps the length of the vectors at 1 (Boeddeker et al. 2017). */
static void eig_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                    weft_array **grads)
{
    const weft_vectors_params *p = weft_node_params(node);
    weft_array *a = weft_node_input(node, 0), *w, *v, *inner = NULL;
    weft_array *dv = p->vectors ? cts[1] : NULL;
    if (!wanted[0] || weft_size(a) == 0) {
        return;
    }
    if (p->vectors) {
        w = weft_pick(node, 0);
        v = weft_pick(node, 1);
    } else {
        weft_eig(a, &w, &v);
    }
    weft_array *vh = weft__adjoint(v);
    if (cts[0]) {
        inner = weft__diagonal_matrix(cts[0]);
    }
    if (dv) {
        weft_array *along = weft_matmul(vh, dv);
        weft_array *lengths =
            weft_astype(weft__real_part(weft__diagonal_of(along)), WEFT_COMPLEX64);
        weft_array *kept = weft_subtract(along, weft__scale_columns(weft_matmul(vh, v), lengths));
        weft_array *gaps = weft__conj(weft__differences(w));
        weft__gap_rules rules = {.spread = weft__largest(weft_expand_dims(w, -1)),
                                 .size = weft__largest(along)};
        if (cts[0]) {
            rules.lost = weft__off_diagonal(weft__lost_pairs(cts[0], weft__zero_columns(dv)));
        }
        kept = weft__over_gaps(weft__off_diagonal(kept), gaps, rules);
        inner = weft__plus(inner, kept);
    }
    weft_array *g = weft_solve(vh, weft_matmul(inner, vh));
    grads[0] = weft_astype(g, weft_dtype_of(a));
}

static bool eig_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_vectors_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    if (!weft__expect_square(node, 0, why)) {
        return false;
    }
    weft_dims values = weft__with_core(&shape, shape.at[shape.n - 1], -1);
    set_spec(&out[0], WEFT_COMPLEX64, &values);
    set_spec(&out[1], WEFT_COMPLEX64, &shape);
    end_outputs(out, p->vectors ? 2 : 1);
    return true;
}

static const weft_vectors_params with = {true};

const weft_op weft_op_eig = {
    .name = "eig",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .n_outputs = -4,
    .params_size = sizeof(weft_vectors_params),
    .params_fields = weft__vectors_fields,
    .infer = eig_infer,
    .vjp = eig_vjp,
    .takes_leading_axis = true,
    .reference = eig_reference,
    .cases = weft__eigen_cases,
    .n_cases = EIGEN_CASES,
    /* float64 is not tested: the complex64 results are too imprecise for finite differences. */
    .no_test_dtypes = NOT_MATRIX_DTYPES | DTYPE_BIT(WEFT_FLOAT64),
    .tolerance = 0x1p-17, /* conditioning */
};

void weft_eig(weft_array *a, weft_array **values, weft_array **vectors)
{
    weft_scope_open();
    weft_array *node = apply1(&weft_op_eig, weft__matrix("eig", a, true), &with);
    *values = weft_pick(node, 0);
    *vectors = weft_pick(node, 1);
    close_with(values, vectors);
}

weft_array *weft_eigvals(weft_array *a)
{
    weft_scope_open();
    return weft_scope_close(
        weft_pick(apply1(&weft_op_eig, weft__matrix("eigvals", a, true), NULL), 0));
}
