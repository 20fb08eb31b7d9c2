/* ops/linalg/linalg.h -- functions shared by linear algebra: complex matrices for the reference
 * kernels, and matrix helpers on graph arrays for derivatives.
 *
 * The reference kernels compute in complex float64; the imaginary parts of a real matrix are 0 and
 * stay so. They are short and slow; backends use libraries.
 */
#ifndef OPS_LINALG_LINALG_H
#define OPS_LINALG_LINALG_H

#include <complex.h>

#include "ops/kernel.h"

typedef double _Complex number;

/* ---- matrices in memory (dense.c): row-major ------------------------------------------------ */

/* The number of matrices in the last two axes of a tensor; of vectors for core = 1. */
int64_t weft__batches(const weft_tensor *t, int core);
/* Dims of the last two axes. */
int64_t weft__rows_of(const weft_tensor *t);
int64_t weft__columns_of(const weft_tensor *t);

/* Element numbers [first, first + n) of a tensor of any float dtype or complex64. */
void weft__load(const weft_tensor *t, int64_t first, int64_t n, number *out);
void weft__store(const weft_tensor *t, int64_t first, int64_t n, const number *in);
void weft__store_nan(const weft_tensor *t, int64_t first, int64_t n);
bool weft__all_finite(const number *x, int64_t n);

/* A buffer for n numbers; NULL with a message. */
number *weft__room(const weft_call *call, int64_t n);

/* out = a^H, a being (rows, columns). */
void weft__adjoint_of(const number *a, int64_t rows, int64_t columns, number *out);
/* Scales n numbers at intervals of `step` so that the first of the largest (within a thousandth) is
 * real and positive; returns the factor. */
number weft__fix_phase(number *x, int64_t n, int64_t step);

/* ---- algorithms ----------------------------------------------------------------------------- */

/* qr.c: a (m, n) becomes R with the reflections below it; q is (m, columns) with columns <= m.
 * `tau` has min(m, n) elements. */
void weft__householder(number *a, int64_t m, int64_t n, number *tau);
void weft__householder_q(const number *a, int64_t m, int64_t n, const number *tau, number *q,
                         int64_t columns);

/* lu.c: a (m, n) becomes L below U; row i was exchanged with row pivots[i]. Returns the number of
 * the first zero pivot, counted from 1, or 0. */
int64_t weft__lu(number *a, int64_t m, int64_t n, int64_t *pivots);

/* eigh.c: reads the lower triangle of a (n, n) and overwrites a; w ascending, eigenvectors in the
 * columns of v. */
bool weft__jacobi(number *a, int64_t n, double *w, number *v);

/* svd.c: a (m, n), m >= n, becomes U; s descending; v (n, n) has the right vectors as columns. */
bool weft__hestenes(number *a, int64_t m, int64_t n, double *s, number *v);

/* schur.c: eigenvalues and unit eigenvectors (the columns of v, NULL: none) of a (n, n), which is
 * overwritten. q (n, n) and room (n) are workspace. */
bool weft__eigen(number *a, number *q, int64_t n, number *room, number *w, number *v);

/* Solves a x = b in place for a triangular a (n, n) without zeros on its diagonal; x contains b (n,
 * k). */
void weft__substitute(const number *a, int64_t n, bool upper, bool unit, number *x, int64_t k);

/* ---- infer ---------------------------------------------------------------------------------- */

/* Checks that input i is (..., M, N) of float32, float64 or complex64. */
bool weft__expect_matrix(const weft_array *node, int i, weft_why *why);
/* And M = N. */
bool weft__expect_square(const weft_array *node, int i, weft_why *why);
/* The leading axes of shape followed by (rows, columns), or by (rows) if columns < 0. */
weft_dims weft__with_core(const weft_dims *shape, int64_t rows, int64_t columns);
/* The real dtype of the parts. */
weft_dtype weft__real_dtype(weft_dtype dtype);

/* For ops with a varying number of outputs: output `from` and later ones do not exist. */
static inline void end_outputs(weft_spec *out, int from)
{
    for (int i = from; i < WEFT_MAX_OUTPUTS; i++) {
        out[i].shape.n = -1;
    }
}

/* The field table of weft_vectors_params. */
extern const weft_field weft__vectors_fields[];
/* Test cases shared by eig and eigh (eigh.c). */
enum { EIGEN_CASES = 6 };
extern const weft_case weft__eigen_cases[EIGEN_CASES];

/* For no_test_dtypes. */
enum {
    NOT_MATRIX_DTYPES =
        DTYPE_INTEGERS | DTYPE_BIT(WEFT_BOOL) | DTYPE_BIT(WEFT_FLOAT16) | DTYPE_BIT(WEFT_BFLOAT16)
};

/* ---- matrices in graphs (graph.c) ----------------------------------------------------------- */

/* x in the dtype used for computation: float32 for integers and 16-bit floats. */
weft_array *weft__computed(weft_array *x);
/* y in the dtype that a function of x returns: x's own if that is a 16-bit float. */
weft_array *weft__as_given(weft_array *y, weft_array *x);
/* Checks that x is a matrix, square if `square`; else an error array. */
weft_array *weft__matrix(const char *op, weft_array *x, bool square);

weft_array *weft__adjoint(weft_array *x);                 /* (..., M, N) -> (..., N, M) */
weft_array *weft__conj(weft_array *x);                    /* real arrays are returned unchanged */
weft_array *weft__real_part(weft_array *x);               /* real arrays are returned unchanged */
weft_array *weft__lower(weft_array *x, int64_t diagonal); /* 0 above the diagonal */
weft_array *weft__upper(weft_array *x, int64_t diagonal); /* 0 below the diagonal */
weft_array *weft__diagonal_of(weft_array *x);             /* (..., N, N) -> (..., N) */
weft_array *weft__diagonal_matrix(weft_array *d);         /* (..., N) -> (..., N, N) */
weft_array *weft__identity(weft_array *like, int64_t n);  /* (..., n, n) with dtype and device
                                                           * of like */
weft_array *weft__scale_columns(weft_array *x, weft_array *d); /* x diag(d) */
weft_array *weft__scale_rows(weft_array *d, weft_array *x);    /* diag(d) x */
weft_array *weft__matrix_columns(weft_array *x, int64_t from, int64_t to);
weft_array *weft__matrix_rows(weft_array *x, int64_t from, int64_t to);
/* The sum of two arrays that may be NULL. */
weft_array *weft__plus(weft_array *a, weft_array *b);
weft_array *weft__differences(weft_array *d);  /* d_j - d_i: (..., N) -> (..., N, N) */
weft_array *weft__largest(weft_array *x);      /* the largest |x|: (..., M, N) -> (..., 1, 1) */
weft_array *weft__off_diagonal(weft_array *x); /* 0 on the diagonal */
weft_array *weft__zero_columns(weft_array *x); /* bool (..., N): columns of zeros */

/* Terms x / gaps of derivatives, in which gaps are differences or sums of singular values or
 * eigenvalues. A gap below 16 epsilon of `spread`, the largest value, is not known: a term over it
 * is 0 if x is 0 up to rounding, 256 epsilon of `size`, and is not lost; else it is NaN. An x of
 * rounding errors over a gap below sqrt(epsilon) of `spread` counts as 0 too. */
typedef struct weft__gap_rules {
    weft_array *spread, *size; /* (..., 1, 1) */
    weft_array *lost;          /* bool, broadcast to x: the term may differ from 0 although x is 0;
                                * NULL: false */
} weft__gap_rules;
weft_array *weft__over_gaps(weft_array *x, weft_array *gaps, weft__gap_rules rules);

/* The gradient of f at equal values a, b has the term (f(b) - f(a)) / (b - a), of which vectors'
 * cotangents contain only f(b) - f(a) = 0. So where a function uses vectors and values, the term is
 * lost: bool (..., N, N), from the cotangents of the values and the vectors that are `unused`. It
 * is not lost for two unused vectors whose values have one cotangent. */
weft_array *weft__lost_pairs(weft_array *values, weft_array *unused);

/* The gradient of an op that reads only the lower triangle, given its gradient with respect to the
 * whole Hermitian matrix. */
weft_array *weft__fold_lower(weft_array *g);

#endif
