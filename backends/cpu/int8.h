/* backends/cpu/int8.h -- products of 8-bit activations with quantized weights. */
#ifndef BACKENDS_CPU_INT8_H
#define BACKENDS_CPU_INT8_H

#include "backends/cpu/kernels.h"

/* y (m, n) = x w^T + bias. */
typedef struct cpu_int8 {
    int64_t m, n, k;
    const cpu_codes *codes;
    weft_dtype dtype; /* of x and y */
    const char *x;
    int64_t x_row; /* elements */
    void *y;
    const float *bias; /* n floats or NULL */
} cpu_int8;

/* Whether there are kernels for m rows and these codes: Q8_0, Q4_0, Q4_K, and affine codes of 4 and
 * 8 bits. */
bool weft__cpu_int8_takes(int64_t m, const cpu_codes *codes);

/* Bytes of workspace; does not read the data pointers. */
int64_t weft__cpu_int8_workspace(const cpu_int8 *p);
void weft__cpu_int8(const cpu_int8 *p, void *workspace);

#endif
