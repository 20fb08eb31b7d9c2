/* backends/cpu/rows.h -- accesses tensors (..., E) as rows of float32. */
#ifndef BACKENDS_CPU_ROWS_H
#define BACKENDS_CPU_ROWS_H

#include "backends/cpu/kernels.h"
#include "weft/backend.h"

/* Whether the dtype is float32, float16 or bfloat16, which are computed in float32. */
bool weft__cpu_narrow(weft_dtype dtype);
/* Whether every float input has such a dtype. */
bool weft__cpu_narrow_inputs(const weft_call *call);

/* The number of rows and the stride between them; false if the stride is not uniform. */
bool weft__cpu_row_stride(const weft_tensor *x, int64_t *rows, int64_t *stride);

/* A tensor whose last axis has stride 1. */
typedef struct cpu_rows {
    const weft_tensor *t;
    const cpu_kernels *kernels;
    int64_t n, width, stride;
    bool plain; /* float32: rows are read and written in place */
    bool even;  /* rows are `stride` apart */
} cpu_rows;

cpu_rows weft__cpu_rows_of(const weft_tensor *t);

/* The address of row i. */
void *weft__cpu_row(const cpu_rows *rows, int64_t i);
/* Row i as float32: in place, or decoded into `scratch` (width floats). */
const float *weft__cpu_row_read(const cpu_rows *rows, int64_t i, float *scratch);
/* Where to compute row i of an output: in place, or `scratch`, which weft__cpu_row_done then
 * stores. */
float *weft__cpu_row_target(const cpu_rows *rows, int64_t i, float *scratch);
void weft__cpu_row_done(const cpu_rows *rows, int64_t i, const float *scratch);

/* Floats to reserve for a row of `width` floats, so that rows in a workspace stay aligned. */
int64_t weft__cpu_row_room(int64_t width);

/* Fails if a target is not below V. */
weft_status weft__cpu_check_targets(const weft_tensor *targets, int64_t V, const char *op);

/* Kernels in the rows of rows_nn.c. */
weft_kernel weft__cpu_rms_norm, weft__cpu_rms_norm_vjp, weft__cpu_layer_norm,
    weft__cpu_layer_norm_vjp, weft__cpu_rope, weft__cpu_cross_entropy, weft__cpu_cross_entropy_vjp,
    weft__cpu_linear_cross_entropy, weft__cpu_linear_cross_entropy_weight, weft__cpu_adamw,
    weft__cpu_adamw8bit, weft__cpu_adamw16bit, weft__cpu_gated_delta;
int64_t weft__cpu_norm_workspace(const weft_call *call);
int64_t weft__cpu_norm_vjp_workspace(const weft_call *call);
int64_t weft__cpu_rope_workspace(const weft_call *call);
int64_t weft__cpu_cross_entropy_workspace(const weft_call *call);
int64_t weft__cpu_linear_cross_entropy_workspace(const weft_call *call);
int64_t weft__cpu_linear_cross_entropy_weight_workspace(const weft_call *call);
bool weft__cpu_linear_cross_entropy_fits(const weft_call *call);
bool weft__cpu_linear_cross_entropy_weight_fits(const weft_call *call);
bool weft__cpu_adamw_fits(const weft_call *call);
bool weft__cpu_adamw8bit_fits(const weft_call *call);
bool weft__cpu_adamw16bit_fits(const weft_call *call);

#endif
