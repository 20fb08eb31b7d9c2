/* backends/cpu/linalg.h -- what the kernels that call LAPACK share.
 *
 * Batches are spread over the pool; each matrix is one task's, and LAPACK runs on its thread alone.
 * LAPACK's matrices are column-major, so matrices are turned on the way in and out.
 */
#ifndef BACKENDS_CPU_LINALG_H
#define BACKENDS_CPU_LINALG_H

#include "backends/cpu/room.h"
#include "weft/backend.h"
#include "weft/op_params.h"

/* Computes matrix b of the batch in `room`. 0, or the place (from 1) at which it failed. */
typedef int64_t cpu_linalg_one(const weft_call *call, int64_t b, void *room);

/* Workspace for `room` bytes a task. */
int64_t weft__cpu_linalg_workspace(const weft_call *call, int64_t room);
/* Runs `one` for each matrix. Failures are reported as "op: matrix B of the batch " and `problem`,
 * a format of the place. */
weft_status weft__cpu_linalg_run(const weft_call *call, int64_t room, cpu_linalg_one *one,
                                 const char *problem);

/* Inputs that are not empty: the rest is the reference kernel's. */
bool weft__cpu_linalg_fits(const weft_call *call);

int64_t weft__cpu_dim(const weft_tensor *t, int axis); /* axis < 0 */
/* Matrix b of t (row-major) to and from column-major memory, whose columns are `rows` apart. */
void weft__cpu_turn_in(const weft_tensor *t, int64_t b, void *out);
void weft__cpu_turn_out(const weft_tensor *t, int64_t b, const void *in, int64_t leading);
void weft__cpu_fill_nan(const weft_tensor *t, int64_t b, int core);
/* Of `count` elements: whether none is NaN or infinite. */
bool weft__cpu_finite(weft_dtype dtype, const void *x, int64_t count);
/* Address of matrix b (core = 2), or vector b (core = 1). */
void *weft__cpu_item(const weft_tensor *t, int64_t b, int core);

/* The factor that makes the first of the largest (to a thousandth) of n elements `step` apart real
 * and positive, as two parts; float32 and float64 have only the sign. */
void weft__cpu_phase(weft_dtype dtype, const void *x, int64_t n, double *re, double *im);
void weft__cpu_scale(weft_dtype dtype, void *x, int64_t n, int64_t step, double re, double im);

weft_kernel weft__cpu_qr, weft__cpu_lu, weft__cpu_cholesky, weft__cpu_solve,
    weft__cpu_solve_triangular, weft__cpu_det, weft__cpu_slogdet, weft__cpu_svd, weft__cpu_eigh,
    weft__cpu_eig;
int64_t weft__cpu_qr_workspace(const weft_call *call);
int64_t weft__cpu_lu_workspace(const weft_call *call);
int64_t weft__cpu_solve_workspace(const weft_call *call);
int64_t weft__cpu_svd_workspace(const weft_call *call);
int64_t weft__cpu_eigh_workspace(const weft_call *call);
int64_t weft__cpu_eig_workspace(const weft_call *call);

#endif
