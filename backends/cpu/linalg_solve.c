/* backends/cpu/linalg_solve.c -- linear systems and determinants by LAPACK. */
#include <cblas.h>
#include <complex.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "backends/cpu/linalg.h"

enum { C = LAPACK_COL_MAJOR };

/* The square matrix, its pivots, and the right-hand sides. */
typedef struct system_room {
    void *a, *x;
    lapack_int *pivots;
} system_room;

static system_room lay_out(const weft_call *call, cpu_workspace_rest *room)
{
    const weft_tensor *in = &call->in[0];
    int64_t n = weft__cpu_dim(in, -1), k = call->n_inputs > 1 ? weft__cpu_dim(&call->in[1], -1) : 0;
    size_t size = weft_dtype_size(in->dtype);
    system_room r = {.a = weft__cpu_workspace_take(room, n * n, size)};
    r.x = weft__cpu_workspace_take(room, n * k, size);
    r.pivots = weft__cpu_workspace_take(room, n, sizeof *r.pivots);
    return r;
}

static int64_t room_size(const weft_call *call)
{
    cpu_workspace_rest room = {0};
    lay_out(call, &room);
    return room.used;
}

int64_t weft__cpu_solve_workspace(const weft_call *call)
{
    return weft__cpu_linalg_workspace(call, room_size(call));
}

/* ---- solve ---------------------------------------------------------------------------------- */

static lapack_int solve(weft_dtype dtype, int n, int k, const system_room *r)
{
    if (dtype == WEFT_FLOAT32)
        return LAPACKE_sgesv_work(C, n, k, r->a, n, r->pivots, r->x, n);
    if (dtype == WEFT_FLOAT64)
        return LAPACKE_dgesv_work(C, n, k, r->a, n, r->pivots, r->x, n);
    return LAPACKE_cgesv_work(C, n, k, r->a, n, r->pivots, r->x, n);
}

static int64_t solve_one(const weft_call *call, int64_t b, void *memory)
{
    const weft_tensor *in = &call->in[0], *right = &call->in[1];
    int64_t n = weft__cpu_dim(in, -1), k = weft__cpu_dim(right, -1);
    cpu_workspace_rest room = {.base = memory};
    system_room r = lay_out(call, &room);
    weft__cpu_to_column_major(in, b, r.a);
    weft__cpu_to_column_major(right, b, r.x);
    if (!weft__cpu_finite(in->dtype, r.a, n * n) || !weft__cpu_finite(in->dtype, r.x, n * k)) {
        weft__cpu_fill_nan(&call->out[0], b, 2);
        return 0;
    }
    lapack_int info = solve(in->dtype, (int)n, (int)k, &r);
    weft__cpu_from_column_major(&call->out[0], b, r.x, n);
    return info;
}

static const char singular[] = "is singular: pivot %lld is 0";

weft_status weft__cpu_solve(const weft_call *call)
{
    return weft__cpu_linalg_run(call, room_size(call), solve_one, singular);
}

/* ---- solve_triangular ----------------------------------------------------------------------- */

/* Whether the triangle of a row-major matrix is finite; *zero is the position (from 1) of a 0 on
 * its diagonal. */
static bool look(weft_dtype dtype, const char *a, int64_t n, bool upper, int64_t *zero)
{
    static const char none[sizeof(double)];
    size_t size = weft_dtype_size(dtype);
    bool finite = true;
    *zero = 0;
    for (int64_t i = 0; i < n; i++) {
        const char *row = a + (size_t)(i * n) * size, *diagonal = row + (size_t)i * size;
        bool is_zero = dtype == WEFT_FLOAT64   ? *(const double *)(const void *)diagonal == 0
                       : dtype == WEFT_FLOAT32 ? *(const float *)(const void *)diagonal == 0
                                               : !memcmp(diagonal, none, size);
        *zero = *zero == 0 && is_zero ? i + 1 : *zero;
        finite = finite && (upper ? weft__cpu_finite(dtype, diagonal, n - i)
                                  : weft__cpu_finite(dtype, row, i + 1));
    }
    return finite;
}

static int64_t triangular_one(const weft_call *call, int64_t b, void *memory)
{
    const weft_triangular_params *p = call->params;
    const weft_tensor *in = &call->in[0], *right = &call->in[1], *out = &call->out[0];
    int64_t n = weft__cpu_dim(in, -1), k = weft__cpu_dim(right, -1), zero;
    const void *a = weft__cpu_item(in, b, 2), *from = weft__cpu_item(right, b, 2);
    void *x = weft__cpu_item(out, b, 2);
    CBLAS_UPLO half = p->upper ? CblasUpper : CblasLower;
    static const float one[2] = {1, 0};
    (void)memory;
    if (!look(in->dtype, a, n, p->upper, &zero) || !weft__cpu_finite(in->dtype, from, n * k)) {
        weft__cpu_fill_nan(out, b, 2);
        return 0;
    }
    if (zero)
        return zero;
    if (x != from)
        memcpy(x, from, (size_t)(n * k) * weft_dtype_size(in->dtype));
    if (in->dtype == WEFT_FLOAT32)
        cblas_strsm(CblasRowMajor, CblasLeft, half, CblasNoTrans, CblasNonUnit, (int)n, (int)k, 1,
                    a, (int)n, x, (int)k);
    else if (in->dtype == WEFT_FLOAT64)
        cblas_dtrsm(CblasRowMajor, CblasLeft, half, CblasNoTrans, CblasNonUnit, (int)n, (int)k, 1,
                    a, (int)n, x, (int)k);
    else
        cblas_ctrsm(CblasRowMajor, CblasLeft, half, CblasNoTrans, CblasNonUnit, (int)n, (int)k, one,
                    a, (int)n, x, (int)k);
    return 0;
}

weft_status weft__cpu_solve_triangular(const weft_call *call)
{
    return weft__cpu_linalg_run(call, 0, triangular_one, singular);
}

/* ---- determinants --------------------------------------------------------------------------- */

static double complex diagonal(weft_dtype dtype, const void *a, int64_t i)
{
    if (dtype == WEFT_COMPLEX64) {
        weft_complex64 z = ((const weft_complex64 *)a)[i];
        return CMPLX(z.re, z.im);
    }
    return dtype == WEFT_FLOAT64 ? ((const double *)a)[i] : (double)((const float *)a)[i];
}

/* The sign (of magnitude 1, or 0) and the logarithm of the determinant; NaN for a bad matrix. */
static double complex determinant(const weft_call *call, int64_t b, void *memory, double *logarithm)
{
    const weft_tensor *in = &call->in[0];
    int64_t n = weft__cpu_dim(in, -1);
    cpu_workspace_rest room = {.base = memory};
    system_room r = lay_out(call, &room);
    double complex sign = 1;
    weft__cpu_to_column_major(in, b, r.a);
    *logarithm = 0;
    if (!weft__cpu_finite(in->dtype, r.a, n * n)) {
        *logarithm = NAN;
        return CMPLX(NAN, NAN);
    }
    if (in->dtype == WEFT_FLOAT32)
        LAPACKE_sgetrf_work(C, (int)n, (int)n, r.a, (int)n, r.pivots);
    else if (in->dtype == WEFT_FLOAT64)
        LAPACKE_dgetrf_work(C, (int)n, (int)n, r.a, (int)n, r.pivots);
    else
        LAPACKE_cgetrf_work(C, (int)n, (int)n, r.a, (int)n, r.pivots);
    for (int64_t i = 0; i < n; i++) {
        double complex d = diagonal(in->dtype, r.a, i * n + i);
        double size = cabs(d);
        sign *= size == 0 ? 0 : d / size * (r.pivots[i] == i + 1 ? 1 : -1);
        *logarithm += log(size);
    }
    return sign;
}

static void set(const weft_tensor *t, int64_t i, double complex value)
{
    if (t->dtype == WEFT_COMPLEX64)
        ((weft_complex64 *)t->data)[i] = (weft_complex64){(float)creal(value), (float)cimag(value)};
    else
        weft_tensor_set(t, i, creal(value));
}

static int64_t det_one(const weft_call *call, int64_t b, void *room)
{
    double logarithm;
    double complex sign = determinant(call, b, room, &logarithm);
    bool scaled = isfinite(creal(sign)) && sign != 0;
    set(&call->out[0], b, scaled ? sign * exp(logarithm) : sign);
    return 0;
}

static int64_t slogdet_one(const weft_call *call, int64_t b, void *room)
{
    double logarithm;
    set(&call->out[0], b, determinant(call, b, room, &logarithm));
    set(&call->out[1], b, logarithm);
    return 0;
}

weft_status weft__cpu_det(const weft_call *call)
{
    return weft__cpu_linalg_run(call, room_size(call), det_one, "has no determinant");
}

weft_status weft__cpu_slogdet(const weft_call *call)
{
    return weft__cpu_linalg_run(call, room_size(call), slogdet_one, "has no determinant");
}
