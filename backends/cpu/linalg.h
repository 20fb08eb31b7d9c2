/* backends/cpu/linalg.h -- shared by the kernels that call LAPACK.
 *
 * Batches are spread over the pool; a task has one matrix, and LAPACK runs on its thread only.
 * LAPACK's matrices are column-major, so matrices are transposed before and after.
 */
#ifndef BACKENDS_CPU_LINALG_H
#define BACKENDS_CPU_LINALG_H

#include "backends/cpu/room.h"
#include "weft/backend.h"
#include "weft/op_params.h"

/* Computes matrix b of the batch with workspace `room`. Returns 0, or the position (from 1) of the
 * failure. */
typedef int64_t cpu_linalg_one(const weft_call *call, int64_t b, void *room);

/* The workspace for `room` bytes per task. */
int64_t weft__cpu_linalg_workspace(const weft_call *call, int64_t room);
/* Runs `one` for each matrix. Failures are reported as "op: matrix B of the batch " followed by
 * `problem`, a format for the position. */
weft_status weft__cpu_linalg_run(const weft_call *call, int64_t room, cpu_linalg_one *one,
                                 const char *problem);

/* Whether the inputs are not empty; the reference kernel handles empty ones. */
bool weft__cpu_linalg_fits(const weft_call *call);

int64_t weft__cpu_dim(const weft_tensor *t, int axis); /* axis < 0 */
/* Copies matrix b of t (row-major) to or from column-major memory, with a column stride of `rows`.
 */
void weft__cpu_to_column_major(const weft_tensor *t, int64_t b, void *out);
void weft__cpu_from_column_major(const weft_tensor *t, int64_t b, const void *in, int64_t leading);
void weft__cpu_fill_nan(const weft_tensor *t, int64_t b, int core);
/* Whether none of `count` elements is NaN or infinite. */
bool weft__cpu_finite(weft_dtype dtype, const void *x, int64_t count);
/* The address of matrix b (core = 2) or vector b (core = 1). */
void *weft__cpu_item(const weft_tensor *t, int64_t b, int core);

/* The factor that makes the first of the largest (within a thousandth) of n elements at intervals
 * of `step` real and positive, as two parts; for float32 and float64 it is the sign. */
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
