/* backends/cpu/linalg_factor.c -- QR, LU and Cholesky by LAPACK. */
#include <lapacke.h>
#include <string.h>

#include "backends/cpu/linalg.h"
#include "backends/cpu/sizes.h"

enum { C = LAPACK_COL_MAJOR };

/* ---- qr ------------------------------------------------------------------------------------- */

static lapack_int factor_qr(weft_dtype dtype, int m, int n, void *a, void *tau, void *work,
                            int length)
{
    if (dtype == WEFT_FLOAT32)
        return LAPACKE_sgeqrf_work(C, m, n, a, m, tau, work, length);
    if (dtype == WEFT_FLOAT64)
        return LAPACKE_dgeqrf_work(C, m, n, a, m, tau, work, length);
    return LAPACKE_cgeqrf_work(C, m, n, a, m, tau, work, length);
}

static lapack_int make_q(weft_dtype dtype, int m, int columns, int k, void *a, const void *tau,
                         void *work, int length)
{
    if (dtype == WEFT_FLOAT32)
        return LAPACKE_sorgqr_work(C, m, columns, k, a, m, tau, work, length);
    if (dtype == WEFT_FLOAT64)
        return LAPACKE_dorgqr_work(C, m, columns, k, a, m, tau, work, length);
    return LAPACKE_cungqr_work(C, m, columns, k, a, m, tau, work, length);
}

/* LAPACK's blocks have at most this many columns. */
enum { BLOCK = 64 };

typedef struct qr_room {
    void *a, *tau, *work;
    int64_t length;
} qr_room;

static qr_room lay_out_qr(const weft_call *call, cpu_workspace_rest *room)
{
    int64_t m = weft__cpu_dim(&call->in[0], -2), n = weft__cpu_dim(&call->in[0], -1);
    int64_t k = weft__cpu_dim(&call->out[0], -1), wide = n > k ? n : k;
    size_t size = weft_dtype_size(call->in[0].dtype);
    qr_room r = {.length = wide * BLOCK};
    r.a = weft__cpu_workspace_take(room, m * wide, size);
    r.tau = weft__cpu_workspace_take(room, smaller(m, n), size);
    r.work = weft__cpu_workspace_take(room, r.length, size);
    return r;
}

static int64_t qr_size(const weft_call *call)
{
    cpu_workspace_rest room = {0};
    lay_out_qr(call, &room);
    return room.used;
}

static int64_t qr_one(const weft_call *call, int64_t b, void *memory)
{
    const weft_tensor *in = &call->in[0], *q = &call->out[0], *r = &call->out[1];
    int64_t m = weft__cpu_dim(in, -2), n = weft__cpu_dim(in, -1), k = weft__cpu_dim(q, -1);
    size_t size = weft_dtype_size(in->dtype);
    cpu_workspace_rest room = {.base = memory};
    qr_room w = lay_out_qr(call, &room);
    weft__cpu_to_column_major(in, b, w.a);
    if (!weft__cpu_finite(in->dtype, w.a, m * n)) {
        weft__cpu_fill_nan(q, b, 2);
        weft__cpu_fill_nan(r, b, 2);
        return 0;
    }
    lapack_int info = factor_qr(in->dtype, (int)m, (int)n, w.a, w.tau, w.work, (int)w.length);
    weft__cpu_from_column_major(r, b, w.a, m);
    char *rows = weft__cpu_item(r, b, 2);
    for (int64_t i = 1; i < k; i++)
        memset(rows + (size_t)(i * n) * size, 0, (size_t)smaller(i, n) * size);
    if (info == 0)
        info = make_q(in->dtype, (int)m, (int)k, (int)smaller(m, n), w.a, w.tau, w.work,
                      (int)w.length);
    weft__cpu_from_column_major(q, b, w.a, m);
    return info != 0;
}

int64_t weft__cpu_qr_workspace(const weft_call *call)
{
    return weft__cpu_linalg_workspace(call, qr_size(call));
}

weft_status weft__cpu_qr(const weft_call *call)
{
    return weft__cpu_linalg_run(call, qr_size(call), qr_one, "cannot be factored");
}

/* ---- lu ------------------------------------------------------------------------------------- */

static lapack_int factor_lu(weft_dtype dtype, int m, int n, void *a, lapack_int *pivots)
{
    if (dtype == WEFT_FLOAT32)
        return LAPACKE_sgetrf_work(C, m, n, a, m, pivots);
    if (dtype == WEFT_FLOAT64)
        return LAPACKE_dgetrf_work(C, m, n, a, m, pivots);
    return LAPACKE_cgetrf_work(C, m, n, a, m, pivots);
}

static int64_t lu_size(const weft_call *call)
{
    const weft_tensor *in = &call->in[0];
    cpu_workspace_rest room = {0};
    weft__cpu_workspace_take(&room, weft__cpu_dim(in, -2) * weft__cpu_dim(in, -1),
                             weft_dtype_size(in->dtype));
    weft__cpu_workspace_take(&room, weft__cpu_dim(in, -2), sizeof(lapack_int));
    return room.used;
}

static int64_t lu_one(const weft_call *call, int64_t b, void *memory)
{
    const weft_tensor *in = &call->in[0];
    int64_t m = weft__cpu_dim(in, -2), n = weft__cpu_dim(in, -1), k = smaller(m, n);
    uint32_t *places = weft__cpu_item(&call->out[1], b, 1);
    uint32_t *rows = weft__cpu_item(&call->out[2], b, 1);
    cpu_workspace_rest room = {.base = memory};
    void *a = weft__cpu_workspace_take(&room, m * n, weft_dtype_size(in->dtype));
    lapack_int *pivots = weft__cpu_workspace_take(&room, m, sizeof *pivots);
    weft__cpu_to_column_major(in, b, a);
    bool finite = weft__cpu_finite(in->dtype, a, m * n);
    if (finite) {
        factor_lu(in->dtype, (int)m, (int)n, a, pivots); /* a zero pivot is not an error */
        weft__cpu_from_column_major(&call->out[0], b, a, m);
    } else {
        weft__cpu_fill_nan(&call->out[0], b, 2);
    }
    for (int64_t i = 0; i < m; i++)
        rows[i] = (uint32_t)i;
    for (int64_t i = k - 1; i >= 0; i--) { /* the exchanges in reverse order give the inverse
                                            * permutation */
        places[i] = finite ? (uint32_t)(pivots[i] - 1) : (uint32_t)i;
        uint32_t swap = rows[i];
        rows[i] = rows[places[i]];
        rows[places[i]] = swap;
    }
    return 0;
}

int64_t weft__cpu_lu_workspace(const weft_call *call)
{
    return weft__cpu_linalg_workspace(call, lu_size(call));
}

weft_status weft__cpu_lu(const weft_call *call)
{
    return weft__cpu_linalg_run(call, lu_size(call), lu_one, "cannot be factored");
}

/* ---- cholesky ------------------------------------------------------------------------------- */

/* Computed in place in the output: a row-major lower triangle is the conjugate of a column-major
 * upper one. */
static int64_t cholesky_one(const weft_call *call, int64_t b, void *memory)
{
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    int64_t n = weft__cpu_dim(in, -1);
    size_t size = weft_dtype_size(in->dtype);
    const char *from = weft__cpu_item(in, b, 2);
    char *to = weft__cpu_item(out, b, 2);
    (void)memory;
    for (int64_t i = 0; i < n; i++) {
        size_t kept = (size_t)(i + 1) * size, row = (size_t)(i * n) * size;
        memcpy(to + row, from + row, kept);
        memset(to + row + kept, 0, (size_t)n * size - kept);
    }
    if (!weft__cpu_finite(in->dtype, to, n * n)) {
        weft__cpu_fill_nan(out, b, 2);
        return 0;
    }
    if (in->dtype == WEFT_FLOAT32)
        return LAPACKE_spotrf_work(C, 'U', (int)n, (float *)(void *)to, (int)n);
    if (in->dtype == WEFT_FLOAT64)
        return LAPACKE_dpotrf_work(C, 'U', (int)n, (double *)(void *)to, (int)n);
    return LAPACKE_cpotrf_work(C, 'U', (int)n, (void *)to, (int)n);
}

weft_status weft__cpu_cholesky(const weft_call *call)
{
    return weft__cpu_linalg_run(call, 0, cholesky_one,
                                "is not positive definite: its leading minor of order %lld");
}
