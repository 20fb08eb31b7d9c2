/* tests/cpu/tensors.h -- tensors of given layouts, and calls of kernel rows without the
 * evaluator. */
#ifndef TESTS_CPU_TENSORS_H
#define TESTS_CPU_TENSORS_H

#include "weft/backend.h"

/* The memory layout of a test tensor: row-major; the last two axes exchanged in memory; gaps
 * between the rows (the last axis has stride 1); or gaps between all elements. */
typedef enum lie { LIE_DENSE, LIE_TRANSPOSED, LIE_ROWS, LIE_GAPS, LIE_COUNT } lie;

typedef struct owned_tensor {
    weft_tensor t;
    void *memory;
    int64_t bytes;
} owned_tensor;

/* Random elements in [lo, hi], the same for the same seed in any layout. */
owned_tensor tensor_random(weft_dtype dtype, weft_dims shape, lie layout, double lo, double hi,
                           uint32_t seed);
/* int32 indices in [0, below). */
owned_tensor tensor_indices(weft_dims shape, int64_t below, uint32_t seed);
owned_tensor tensor_empty(weft_dtype dtype, weft_dims shape);
void tensor_free(owned_tensor *x);

/* The elements in row-major order, for loops that read them many times; the caller frees them. */
double *tensor_doubles(const weft_tensor *x);

/* Runs the first row of the CPU's table that accepts the tensors, with a workspace that is checked
 * for writes beyond its end. Fails the test if there is no such row. */
void run_row(const char *op, const void *params, const weft_tensor *in, int n_in,
             const weft_tensor *out, int n_out);
/* The same, but returns the kernel's status. */
weft_status status_of_row(const char *op, const void *params, const weft_tensor *in, int n_in,
                          const weft_tensor *out, int n_out);
/* Whether there is such a row. */
bool has_row(const char *op, const void *params, const weft_tensor *in, int n_in,
             const weft_tensor *out, int n_out);

/* Fails the test unless |actual - expected| <= tolerance (scale + |expected|) everywhere. */
void check_tensor(const weft_tensor *actual, const double *expected, double tolerance, double scale,
                  const char *what);

/* Runs `check` with the kernels of each instruction set that the machine has; the best one remains.
 */
void each_isa(void (*check)(void));

/* Relative rounding of a dtype. */
double epsilon_of(weft_dtype dtype);

/* The time of a clock in seconds. */
double seconds(void);

#endif
