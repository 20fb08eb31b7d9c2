/* backends/cpu/gemm.h -- matrix products of any strides and float dtypes. */
#ifndef BACKENDS_CPU_GEMM_H
#define BACKENDS_CPU_GEMM_H

#include "backends/cpu/kernels.h"
#include "weft/backend.h"

/* A batch of matrices; strides in elements. */
typedef struct cpu_matrix {
    weft_dtype dtype;
    const void *data;
    /* B: float32 values that are decoded instead, without a batch; the rows of the codes are its
     * rows (code_terms) or its columns. */
    const cpu_codes *codes;
    bool code_terms;
    int64_t row, column;
    int64_t batch[WEFT_MAX_DIMS]; /* per batch axis; 0 where it is repeated */
} cpu_matrix;

/* C = A B + bias for each of the batch: A (m, k), B (k, n), C (m, n) row-major, one after another.
 * float32 arithmetic; operands float32, float16 or bfloat16. */
typedef struct cpu_gemm {
    int64_t m, n, k;
    weft_dims batch;
    cpu_matrix a, b;
    weft_dtype c_dtype;
    void *c;
    const float *bias; /* n floats or NULL */
} cpu_gemm;

/* Bytes of workspace; pointers are not looked at. */
int64_t weft__cpu_gemm_workspace(const cpu_gemm *g);
void weft__cpu_gemm(const cpu_gemm *g, void *workspace);

/* The same with float64 throughout, by OpenBLAS and without bias: A and B have unit stride along
 * rows or columns that do not overlap, and numbers that fit an int. No workspace. */
void weft__cpu_gemm_double(const cpu_gemm *g);
/* OpenBLAS and LAPACK run on the calling thread from now on. */
void weft__cpu_single_thread_blas(void);

/* One product (no batch) by whatever is quickest for its sizes: as weft__cpu_gemm, or with few rows
 * each row of B^T read once. The bound is the workspace of any product with at most m and k. */
int64_t weft__cpu_product_bound(const cpu_gemm *g);
void weft__cpu_product(const cpu_gemm *g, void *workspace);
int64_t weft__cpu_gemm_bound(const cpu_gemm *g);

/* Rows of rows_conv.c. */
weft_kernel weft__cpu_gather_mm, weft__cpu_gather_mm_sums, weft__cpu_segmented_mm;
int64_t weft__cpu_gather_mm_workspace(const weft_call *call);
int64_t weft__cpu_gather_mm_sums_workspace(const weft_call *call);
int64_t weft__cpu_segmented_mm_workspace(const weft_call *call);
bool weft__cpu_chosen_fits(const weft_call *call);

/* Rows of rows_nn.c. */
weft_kernel weft__cpu_matmul, weft__cpu_matmul_double, weft__cpu_linear, weft__cpu_linear_double;
int64_t weft__cpu_matmul_workspace(const weft_call *call);
int64_t weft__cpu_linear_workspace(const weft_call *call);
bool weft__cpu_matmul_fits(const weft_call *call);
bool weft__cpu_matmul_double_fits(const weft_call *call);
bool weft__cpu_linear_fits(const weft_call *call);
bool weft__cpu_linear_double_fits(const weft_call *call);

#endif
