/* backends/cpu/linalg.c -- runs LAPACK on batches of matrices: memory, conversion, failures. */
#include "backends/cpu/linalg.h"

#include <complex.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/gemm.h"
#include "backends/cpu/pool.h"

enum { GRAIN = 1 << 12 };

int64_t weft__cpu_dim(const weft_tensor *t, int axis)
{
    return t->shape.at[t->shape.n + axis];
}

static int64_t batches_of(const weft_call *call)
{
    int64_t n = 1;
    for (int i = 0; i < call->in[0].shape.n - 2; i++)
        n *= call->in[0].shape.at[i];
    return n;
}

bool weft__cpu_linalg_fits(const weft_call *call)
{
    for (int i = 0; i < call->n_inputs; i++)
        if (weft_tensor_size(&call->in[i]) == 0)
            return false;
    return true;
}

/* ---- batches -------------------------------------------------------------------------------- */

typedef struct running {
    const weft_call *call;
    cpu_linalg_one *one;
    int64_t room;
    bool by_item; /* the workspace is per matrix, not per worker */
    pthread_mutex_t lock;
    int64_t failed, place; /* the first matrix that failed; -1: none */
} running;

int64_t weft__cpu_linalg_workspace(const weft_call *call, int64_t room)
{
    int64_t batches = batches_of(call), workers = weft__cpu_workers();
    return room * (batches < workers ? batches : workers);
}

static void run_some(void *context, int64_t begin, int64_t end, int worker)
{
    running *r = context;
    for (int64_t b = begin; b < end; b++) {
        char *room = (char *)r->call->workspace;
        room = room ? room + (r->by_item ? b : worker) * r->room : NULL;
        int64_t place = r->one(r->call, b, room);
        if (place == 0)
            continue;
        pthread_mutex_lock(&r->lock);
        if (r->failed < 0 || b < r->failed) {
            r->failed = b;
            r->place = place;
        }
        pthread_mutex_unlock(&r->lock);
    }
}

weft_status weft__cpu_linalg_run(const weft_call *call, int64_t room, cpu_linalg_one *one,
                                 const char *problem)
{
    running r = {.call = call, .one = one, .room = room, .failed = -1};
    int64_t batches = batches_of(call);
    int64_t size = batches ? weft_tensor_size(&call->in[0]) / batches : 1;
    pthread_mutex_init(&r.lock, NULL);
    r.by_item = batches < weft__cpu_workers();
    weft__cpu_blas_begin();
    weft__cpu_parallel(batches, GRAIN / (size > 0 ? size : 1), run_some, &r);
    weft__cpu_blas_end();
    pthread_mutex_destroy(&r.lock);
    if (r.failed < 0)
        return WEFT_OK;
    char what[160];
    snprintf(what, sizeof what, problem, (long long)r.place);
    return weft_fail(WEFT_INVALID, "%s: matrix %lld of the batch %s", call->op->name,
                     (long long)r.failed, what);
}

/* ---- memory --------------------------------------------------------------------------------- */

void *weft__cpu_item(const weft_tensor *t, int64_t b, int core)
{
    int64_t size = 1;
    for (int i = 1; i <= core; i++)
        size *= weft__cpu_dim(t, -i);
    return (char *)t->data + b * size * (int64_t)weft_dtype_size(t->dtype);
}

/* to[j * to_step + i] = from[i * from_step + j] */
static void turn(const void *from, int64_t from_step, void *to, int64_t to_step, int64_t rows,
                 int64_t columns, size_t size)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            if (size == 4)
                ((float *)to)[j * to_step + i] = ((const float *)from)[i * from_step + j];
            else
                ((double *)to)[j * to_step + i] = ((const double *)from)[i * from_step + j];
}

void weft__cpu_to_column_major(const weft_tensor *t, int64_t b, void *out)
{
    int64_t rows = weft__cpu_dim(t, -2), columns = weft__cpu_dim(t, -1);
    turn(weft__cpu_item(t, b, 2), columns, out, rows, rows, columns, weft_dtype_size(t->dtype));
}

void weft__cpu_from_column_major(const weft_tensor *t, int64_t b, const void *in, int64_t leading)
{
    int64_t rows = weft__cpu_dim(t, -2), columns = weft__cpu_dim(t, -1);
    turn(in, leading, weft__cpu_item(t, b, 2), columns, columns, rows, weft_dtype_size(t->dtype));
}

void weft__cpu_fill_nan(const weft_tensor *t, int64_t b, int core)
{
    int64_t count = 1;
    for (int i = 1; i <= core; i++)
        count *= weft__cpu_dim(t, -i);
    count *= t->dtype == WEFT_COMPLEX64 ? 2 : 1;
    void *at = weft__cpu_item(t, b, core);
    for (int64_t i = 0; i < count; i++)
        if (t->dtype == WEFT_FLOAT64)
            ((double *)at)[i] = NAN;
        else
            ((float *)at)[i] = NAN;
}

bool weft__cpu_finite(weft_dtype dtype, const void *x, int64_t count)
{
    int64_t parts = dtype == WEFT_COMPLEX64 ? 2 * count : count;
    for (int64_t i = 0; i < parts; i++)
        if (dtype == WEFT_FLOAT64 ? !isfinite(((const double *)x)[i])
                                  : !isfinite(((const float *)x)[i]))
            return false;
    return true;
}

/* ---- phases --------------------------------------------------------------------------------- */

static double complex element(weft_dtype dtype, const void *x, int64_t i)
{
    if (dtype == WEFT_COMPLEX64) {
        weft_complex64 z = ((const weft_complex64 *)x)[i];
        return CMPLX(z.re, z.im);
    }
    return dtype == WEFT_FLOAT64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

void weft__cpu_phase(weft_dtype dtype, const void *x, int64_t n, double *re, double *im)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, cabs(element(dtype, x, i)));
    *re = 1;
    *im = 0;
    for (int64_t i = 0; i < n && largest > 0; i++) {
        double complex z = element(dtype, x, i);
        if (cabs(z) >= 0.999 * largest) {
            *re = creal(z) / cabs(z);
            *im = -cimag(z) / cabs(z);
            return;
        }
    }
}

void weft__cpu_scale(weft_dtype dtype, void *x, int64_t n, int64_t step, double re, double im)
{
    if (re == 1 && im == 0)
        return;
    for (int64_t i = 0; i < n * step; i += step) {
        if (dtype == WEFT_COMPLEX64) {
            double complex z = element(dtype, x, i) * CMPLX(re, im);
            ((weft_complex64 *)x)[i] = (weft_complex64){(float)creal(z), (float)cimag(z)};
        } else if (dtype == WEFT_FLOAT64) {
            ((double *)x)[i] *= re;
        } else {
            ((float *)x)[i] *= (float)re;
        }
    }
}
