/* backends/cpu/gemm.h -- matrix products for any strides and real float dtypes. */
#ifndef BACKENDS_CPU_GEMM_H
#define BACKENDS_CPU_GEMM_H

#include "backends/cpu/kernels.h"
#include "weft/backend.h"

/* A batch of matrices; strides in elements. */
typedef struct cpu_matrix {
    weft_dtype dtype;
    const void *data;
    /* B only: quantized values, without a batch. The rows of the codes are rows of B (code_terms)
     * or columns. */
    const cpu_codes *codes;
    bool code_terms;
    int parts; /* of float32 and codes: the bfloat16 parts that an element has, if not three */
    int64_t row, column;
    int64_t batch[WEFT_MAX_DIMS]; /* per batch axis; 0 if broadcast */
} cpu_matrix;

/* A (m, k) and B (k, n). */
typedef struct cpu_pair {
    int64_t k;
    cpu_matrix a, b;
} cpu_pair;

enum { CPU_MOST_PAIRS = 8 };

/* C = A B + bias for each batch item: A (m, k), B (k, n), C (m, n) row-major and contiguous.
 * float32 arithmetic; operands are float32, float16 or bfloat16. */
typedef struct cpu_gemm {
    int64_t m, n, k;
    weft_dims batch;
    cpu_matrix a, b;
    weft_dtype c_dtype;
    void *c;
    const float *bias; /* n floats or NULL */
    bool accumulate;   /* adds the product to C, which is float32; without bias */
    bool coarse;       /* C is float32, but the precision of bfloat16 is enough */
    bool by_tiles;     /* with a few rows too: a row then has the same bits in any number of rows */
    bool streams;      /* a few rows may be multiplied by stream.c */
    bool int8;         /* A may be rounded to 8 bits, or A and B to bfloat16 */
    const cpu_pair *more; /* n_more < CPU_MOST_PAIRS products that are added, without a batch */
    int n_more;
} cpu_gemm;

/* Item `index` of a batch. */
const char *weft__cpu_matrix_item(const cpu_matrix *x, const weft_dims *batch, int64_t index);

/* Computes the product by the fastest way for its sizes. Its bytes of workspace; they do not depend
 * on the data. The bound holds for every product with at most these m, n and k, without a batch. */
void weft__cpu_gemm(const cpu_gemm *g, void *workspace);
int64_t weft__cpu_gemm_workspace(const cpu_gemm *g);
int64_t weft__cpu_gemm_bound(const cpu_gemm *g);

/* ---- ways to compute a product ----------------------------------------------------------------
 */

typedef struct cpu_way {
    bool (*takes)(const cpu_gemm *g); /* NULL: every product */
    int64_t (*workspace)(const cpu_gemm *g);
    int64_t (*bound)(const cpu_gemm *g); /* NULL: for products whose bound is not requested */
    /* False: C is not finite, perhaps only because of the division into parts, and is computed
     * again by the next way; only where may_fail. */
    bool (*run)(const cpu_gemm *g, void *workspace);
    bool may_fail;
} cpu_way;

/* int8.c: A rounded to 8 bits. few_rows.c: at most 24 rows of A times rows of B^T that are
 * contiguous, dense or codes. stream.c: fewer, with `streams`. gemm_parts.c: products of bfloat16
 * parts, where the machine has kernels for them. decoding.c: up to 192 rows of A times codes.
 * gemm_tiles.c: the rest. */
extern const cpu_way weft__cpu_by_int8, weft__cpu_by_few_rows, weft__cpu_by_stream,
    weft__cpu_by_parts, weft__cpu_by_decoding, weft__cpu_by_tiles;

/* The way of a product that is not empty. */
const cpu_way *weft__cpu_way_of(const cpu_gemm *g);

/* Products by stream.c that run together: those of a list have the same m or less, n and k. */
typedef struct cpu_stream {
    const cpu_gemm *g;
    const float *x; /* A, packed */
    float *y;       /* C in float32 */
} cpu_stream;

/* Packs A at `memory`, of so many floats. */
int64_t weft__cpu_stream_floats(const cpu_gemm *g);
cpu_stream weft__cpu_stream_begin(const cpu_gemm *g, float *memory, float *y);
void weft__cpu_stream_run(const cpu_stream *list, int n);

/* ---- float64 ----------------------------------------------------------------------------------
 */

/* A product entirely in float64, by OpenBLAS and without bias. A and B have unit stride along rows
 * or columns, which do not overlap, and sizes fit an int. No workspace. */
void weft__cpu_gemm_double(const cpu_gemm *g);
/* Between the two OpenBLAS and LAPACK run on the calling threads only. The end restores the number
 * of threads that the program has set. */
void weft__cpu_blas_begin(void);
void weft__cpu_blas_end(void);

/* The bias of linear, linear_sum and linear with an encoded weight is the last of an odd number of
 * inputs. Its floats of workspace, and it in float32 there or NULL. */
int64_t weft__cpu_bias_floats(const weft_call *call, int64_t n);
const float *weft__cpu_read_bias(const weft_call *call, int64_t n, float *memory);

/* Kernels in the rows of rows_conv.c. */
weft_kernel weft__cpu_gather_mm, weft__cpu_gather_mm_sums, weft__cpu_segmented_mm;
int64_t weft__cpu_gather_mm_workspace(const weft_call *call);
int64_t weft__cpu_gather_mm_sums_workspace(const weft_call *call);
int64_t weft__cpu_segmented_mm_workspace(const weft_call *call);
bool weft__cpu_chosen_fits(const weft_call *call);

/* Kernels in the rows of rows_nn.c. */
weft_kernel weft__cpu_matmul, weft__cpu_matmul_double, weft__cpu_linear, weft__cpu_linear_double,
    weft__cpu_linear_sum;
int64_t weft__cpu_matmul_workspace(const weft_call *call);
int64_t weft__cpu_linear_workspace(const weft_call *call);
int64_t weft__cpu_linear_sum_workspace(const weft_call *call);
bool weft__cpu_matmul_fits(const weft_call *call);
bool weft__cpu_matmul_double_fits(const weft_call *call);
bool weft__cpu_linear_fits(const weft_call *call);
bool weft__cpu_linear_double_fits(const weft_call *call);
bool weft__cpu_linear_sum_fits(const weft_call *call);

#endif
