/* backends/cpu/linalg_spectral.c -- singular values and eigenvalues by LAPACK. */
#include <complex.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "backends/cpu/linalg.h"

enum { C = LAPACK_COL_MAJOR };

static const char diverges[] = "does not converge";

static weft_dtype real_of(weft_dtype dtype)
{
    return dtype == WEFT_COMPLEX64 ? WEFT_FLOAT32 : dtype;
}

/* The workspace length that a LAPACK query returned in the first element. */
static int64_t asked(weft_dtype dtype, const double *answer)
{
    return dtype == WEFT_FLOAT64 ? (int64_t)*answer
                                 : (int64_t) * (const float *)(const void *)answer;
}

/* ---- svd ------------------------------------------------------------------------------------ */

typedef struct svd_room {
    void *a, *s, *u, *vt, *work, *real;
    lapack_int *whole;
    int64_t length;
} svd_room;

static lapack_int divide(weft_dtype dtype, char job, int m, int n, const svd_room *r, int length)
{
    int k = m < n ? m : n;
    if (dtype == WEFT_FLOAT32)
        return LAPACKE_sgesdd_work(C, job, m, n, r->a, m, r->s, r->u, m, r->vt, k, r->work, length,
                                   r->whole);
    if (dtype == WEFT_FLOAT64)
        return LAPACKE_dgesdd_work(C, job, m, n, r->a, m, r->s, r->u, m, r->vt, k, r->work, length,
                                   r->whole);
    return LAPACKE_cgesdd_work(C, job, m, n, r->a, m, r->s, r->u, m, r->vt, k, r->work, length,
                               r->real, r->whole);
}

static char svd_job(const weft_call *call)
{
    return call->n_outputs > 1 ? 'S' : 'N';
}

static svd_room lay_out_svd(const weft_call *call, cpu_workspace_rest *room)
{
    const weft_tensor *in = &call->in[0];
    int64_t m = weft__cpu_dim(in, -2), n = weft__cpu_dim(in, -1);
    int64_t k = m < n ? m : n, large = m < n ? n : m;
    size_t size = weft_dtype_size(in->dtype), real = weft_dtype_size(real_of(in->dtype));
    double answer[2] = {0};
    svd_room r = {.work = answer};
    divide(in->dtype, svd_job(call), (int)m, (int)n, &r, -1);
    r.length = asked(in->dtype, answer) + 1;
    r.a = weft__cpu_workspace_take(room, m * n, size);
    r.s = weft__cpu_workspace_take(room, k, real);
    r.u = weft__cpu_workspace_take(room, m * k, size);
    r.vt = weft__cpu_workspace_take(room, k * n, size);
    r.work = weft__cpu_workspace_take(room, r.length, size);
    r.whole = weft__cpu_workspace_take(room, 8 * k, sizeof *r.whole);
    if (in->dtype == WEFT_COMPLEX64)
        r.real = weft__cpu_workspace_take(room, 7 * k * k + 2 * large * k + 7 * k, real);
    return r;
}

static int64_t svd_size(const weft_call *call)
{
    cpu_workspace_rest room = {0};
    lay_out_svd(call, &room);
    return room.used;
}

static int64_t svd_one(const weft_call *call, int64_t b, void *memory)
{
    const weft_tensor *in = &call->in[0];
    int64_t m = weft__cpu_dim(in, -2), n = weft__cpu_dim(in, -1), k = m < n ? m : n;
    bool vectors = call->n_outputs > 1;
    const weft_tensor *s = &call->out[vectors ? 1 : 0];
    size_t size = weft_dtype_size(in->dtype);
    cpu_workspace_rest room = {.base = memory};
    svd_room r = lay_out_svd(call, &room);
    weft__cpu_to_column_major(in, b, r.a);
    if (!weft__cpu_finite(in->dtype, r.a, m * n)) {
        for (int i = 0; i < call->n_outputs; i++)
            weft__cpu_fill_nan(&call->out[i], b, &call->out[i] == s ? 1 : 2);
        return 0;
    }
    lapack_int info = divide(in->dtype, svd_job(call), (int)m, (int)n, &r, (int)r.length);
    memcpy(weft__cpu_item(s, b, 1), r.s, (size_t)k * weft_dtype_size(s->dtype));
    for (int64_t i = 0; vectors && i < k; i++) {
        double re, im;
        char *u = (char *)r.u + (size_t)(i * m) * size, *v = (char *)r.vt + (size_t)i * size;
        weft__cpu_phase(in->dtype, u, m, &re, &im);
        weft__cpu_scale(in->dtype, u, m, 1, re, im);
        weft__cpu_scale(in->dtype, v, n, k, re, -im);
    }
    if (vectors) {
        weft__cpu_from_column_major(&call->out[0], b, r.u, m);
        weft__cpu_from_column_major(&call->out[2], b, r.vt, k);
    }
    return info != 0;
}

int64_t weft__cpu_svd_workspace(const weft_call *call)
{
    return weft__cpu_linalg_workspace(call, svd_size(call));
}

weft_status weft__cpu_svd(const weft_call *call)
{
    return weft__cpu_linalg_run(call, svd_size(call), svd_one, diverges);
}

/* ---- eigh ----------------------------------------------------------------------------------- */

typedef struct eigh_room {
    void *a, *w, *work, *real;
    lapack_int *whole;
    int64_t length, real_length, whole_length;
} eigh_room;

static eigh_room lay_out_eigh(const weft_call *call, cpu_workspace_rest *room)
{
    weft_dtype dtype = call->in[0].dtype;
    int64_t n = weft__cpu_dim(&call->in[0], -1);
    size_t size = weft_dtype_size(dtype), real = weft_dtype_size(real_of(dtype));
    bool complex_ = dtype == WEFT_COMPLEX64;
    eigh_room r = {.whole_length = 3 + 5 * n, .real_length = 1 + 5 * n + 2 * n * n};
    /* The workspace of syevd and heevd, with space for the blocks of the reduction. */
    r.length = (complex_ ? 2 * n + n * n : 1 + 6 * n + 2 * n * n) + 64 * n;
    r.a = weft__cpu_workspace_take(room, n * n, size);
    r.w = weft__cpu_workspace_take(room, n, real);
    r.work = weft__cpu_workspace_take(room, r.length, size);
    r.whole = weft__cpu_workspace_take(room, r.whole_length, sizeof *r.whole);
    if (complex_)
        r.real = weft__cpu_workspace_take(room, r.real_length, real);
    return r;
}

static int64_t eigh_size(const weft_call *call)
{
    cpu_workspace_rest room = {0};
    lay_out_eigh(call, &room);
    return room.used;
}

static lapack_int eigenvalues(weft_dtype dtype, char job, int n, const eigh_room *r)
{
    int length = (int)r->length, whole = (int)r->whole_length;
    if (dtype == WEFT_FLOAT32)
        return LAPACKE_ssyevd_work(C, job, 'L', n, r->a, n, r->w, r->work, length, r->whole, whole);
    if (dtype == WEFT_FLOAT64)
        return LAPACKE_dsyevd_work(C, job, 'L', n, r->a, n, r->w, r->work, length, r->whole, whole);
    return LAPACKE_cheevd_work(C, job, 'L', n, r->a, n, r->w, r->work, length, r->real,
                               (int)r->real_length, r->whole, whole);
}

static int64_t eigh_one(const weft_call *call, int64_t b, void *memory)
{
    const weft_tensor *in = &call->in[0], *w = &call->out[0];
    int64_t n = weft__cpu_dim(in, -1);
    bool vectors = call->n_outputs > 1, finite = true;
    size_t size = weft_dtype_size(in->dtype);
    cpu_workspace_rest room = {.base = memory};
    eigh_room r = lay_out_eigh(call, &room);
    weft__cpu_to_column_major(in, b, r.a);
    for (int64_t j = 0; j < n; j++) /* the lower triangle, by columns */
        finite =
            finite && weft__cpu_finite(in->dtype, (char *)r.a + (size_t)(j * n + j) * size, n - j);
    if (!finite) {
        weft__cpu_fill_nan(w, b, 1);
        if (vectors)
            weft__cpu_fill_nan(&call->out[1], b, 2);
        return 0;
    }
    lapack_int info = eigenvalues(in->dtype, vectors ? 'V' : 'N', (int)n, &r);
    memcpy(weft__cpu_item(w, b, 1), r.w, (size_t)n * weft_dtype_size(w->dtype));
    for (int64_t i = 0; vectors && i < n; i++) {
        double re, im;
        char *v = (char *)r.a + (size_t)(i * n) * size;
        weft__cpu_phase(in->dtype, v, n, &re, &im);
        weft__cpu_scale(in->dtype, v, n, 1, re, im);
    }
    if (vectors)
        weft__cpu_from_column_major(&call->out[1], b, r.a, n);
    return info != 0;
}

int64_t weft__cpu_eigh_workspace(const weft_call *call)
{
    return weft__cpu_linalg_workspace(call, eigh_size(call));
}

weft_status weft__cpu_eigh(const weft_call *call)
{
    return weft__cpu_linalg_run(call, eigh_size(call), eigh_one, diverges);
}

/* ---- eig ------------------------------------------------------------------------------------ */

/* For real matrices LAPACK returns the eigenvalues in two lists, and for a complex pair the real
 * and imaginary parts of the vector as two columns. */
typedef struct eig_room {
    void *a, *re, *im, *v, *work, *real;
    double complex *w;
    int64_t *order, length;
} eig_room;

static eig_room lay_out_eig(const weft_call *call, cpu_workspace_rest *room)
{
    weft_dtype dtype = call->in[0].dtype;
    int64_t n = weft__cpu_dim(&call->in[0], -1);
    size_t size = weft_dtype_size(dtype);
    eig_room r = {.length = 70 * n};
    r.a = weft__cpu_workspace_take(room, n * n, size);
    r.v = weft__cpu_workspace_take(room, n * n, size);
    r.re = weft__cpu_workspace_take(room, n, size);
    r.im = weft__cpu_workspace_take(room, n, size);
    r.work = weft__cpu_workspace_take(room, r.length, size);
    r.real = weft__cpu_workspace_take(room, 2 * n, sizeof(float));
    r.w = weft__cpu_workspace_take(room, n, sizeof *r.w);
    r.order = weft__cpu_workspace_take(room, n, sizeof *r.order);
    return r;
}

static int64_t eig_size(const weft_call *call)
{
    cpu_workspace_rest room = {0};
    lay_out_eig(call, &room);
    return room.used;
}

static lapack_int eigen(weft_dtype dtype, char job, int n, const eig_room *r)
{
    int length = (int)r->length;
    if (dtype == WEFT_FLOAT32)
        return LAPACKE_sgeev_work(C, 'N', job, n, r->a, n, r->re, r->im, NULL, n, r->v, n, r->work,
                                  length);
    if (dtype == WEFT_FLOAT64)
        return LAPACKE_dgeev_work(C, 'N', job, n, r->a, n, r->re, r->im, NULL, n, r->v, n, r->work,
                                  length);
    return LAPACKE_cgeev_work(C, 'N', job, n, r->a, n, r->re, NULL, n, r->v, n, r->work, length,
                              r->real);
}

static double real_at(weft_dtype dtype, const void *x, int64_t i)
{
    return dtype == WEFT_FLOAT64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static bool before(double complex a, double complex b, double tolerance)
{
    double re = creal(a) - creal(b), im = cimag(a) - cimag(b);
    return fabs(re) > tolerance || fabs(im) <= tolerance ? re < 0 : im < 0;
}

/* Computes the eigenvalues and sorts them as the op defines. */
static void sort(const eig_room *r, weft_dtype dtype, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        weft_complex64 z = {0, 0};
        if (dtype == WEFT_COMPLEX64)
            z = ((const weft_complex64 *)r->re)[i];
        r->w[i] = dtype == WEFT_COMPLEX64
                      ? CMPLX(z.re, z.im)
                      : CMPLX(real_at(dtype, r->re, i), real_at(dtype, r->im, i));
        r->order[i] = i;
        largest = fmax(largest, cabs(r->w[i]));
    }
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = i;
             j > 0 && before(r->w[r->order[j]], r->w[r->order[j - 1]], 1e-5 * largest); j--) {
            int64_t swap = r->order[j];
            r->order[j] = r->order[j - 1];
            r->order[j - 1] = swap;
        }
}

/* Component i of eigenvector j. */
static double complex component(const eig_room *r, weft_dtype dtype, int64_t n, int64_t i,
                                int64_t j)
{
    if (dtype == WEFT_COMPLEX64) {
        weft_complex64 z = ((const weft_complex64 *)r->v)[j * n + i];
        return CMPLX(z.re, z.im);
    }
    double im = cimag(r->w[j]);
    if (im == 0)
        return real_at(dtype, r->v, j * n + i);
    int64_t first = im > 0 ? j : j - 1; /* in a pair, the one with positive imaginary part comes
                                         * first */
    double second = real_at(dtype, r->v, (first + 1) * n + i);
    return CMPLX(real_at(dtype, r->v, first * n + i), im > 0 ? second : -second);
}

static void store_vectors(const eig_room *r, weft_dtype dtype, int64_t n, weft_complex64 *out)
{
    for (int64_t c = 0; c < n; c++) {
        int64_t j = r->order[c];
        double largest = 0;
        double complex factor = 1;
        for (int64_t i = 0; i < n; i++)
            largest = fmax(largest, cabs(component(r, dtype, n, i, j)));
        for (int64_t i = 0; i < n; i++) {
            double complex z = component(r, dtype, n, i, j);
            if (cabs(z) >= 0.999 * largest && largest > 0) {
                factor = conj(z) / cabs(z);
                break;
            }
        }
        for (int64_t i = 0; i < n; i++) {
            double complex z = component(r, dtype, n, i, j) * factor;
            out[i * n + c] = (weft_complex64){(float)creal(z), (float)cimag(z)};
        }
    }
}

static int64_t eig_one(const weft_call *call, int64_t b, void *memory)
{
    const weft_tensor *in = &call->in[0];
    int64_t n = weft__cpu_dim(in, -1);
    bool vectors = call->n_outputs > 1;
    cpu_workspace_rest room = {.base = memory};
    eig_room r = lay_out_eig(call, &room);
    weft__cpu_to_column_major(in, b, r.a);
    if (!weft__cpu_finite(in->dtype, r.a, n * n)) {
        weft__cpu_fill_nan(&call->out[0], b, 1);
        if (vectors)
            weft__cpu_fill_nan(&call->out[1], b, 2);
        return 0;
    }
    lapack_int info = eigen(in->dtype, vectors ? 'V' : 'N', (int)n, &r);
    sort(&r, in->dtype, n);
    weft_complex64 *w = weft__cpu_item(&call->out[0], b, 1);
    for (int64_t i = 0; i < n; i++) {
        double complex z = r.w[r.order[i]];
        w[i] = (weft_complex64){(float)creal(z), (float)cimag(z)};
    }
    if (vectors)
        store_vectors(&r, in->dtype, n, weft__cpu_item(&call->out[1], b, 2));
    return info != 0;
}

int64_t weft__cpu_eig_workspace(const weft_call *call)
{
    return weft__cpu_linalg_workspace(call, eig_size(call));
}

weft_status weft__cpu_eig(const weft_call *call)
{
    return weft__cpu_linalg_run(call, eig_size(call), eig_one, diverges);
}
