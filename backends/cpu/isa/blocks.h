/* backends/cpu/isa/blocks.h -- interface between codes.c, blocks.c and gemv_codes.c, which are
 * compiled for the same instruction set. */
#ifndef BACKENDS_CPU_ISA_BLOCKS_H
#define BACKENDS_CPU_ISA_BLOCKS_H

#include "backends/cpu/kernels.h"

/* Whether a block type has a kernel for products with a few vectors. */
static inline bool weft__cpu_streams_blocks(int kind)
{
    return kind >= WEFT_ENCODING_Q4_0 && kind <= WEFT_ENCODING_GGUF_MXFP4;
}

#if defined(CPU_ISA)
/* The arguments of gemv_codes. */
typedef struct codes_call {
    const cpu_codes *c;
    int m; /* number of rows of x */
    int64_t groups, first, n;
    const float *x, *bias;
    float *y;
    int64_t y_row;
} codes_call;

/* The table's decode_codes for GGUF blocks; products with groups and with blocks for which
 * gemv_codes.c has no kernel, by the kernel for `rows` rows of x. */
void CPU_NAME(weft__decode_blocks)(const cpu_codes *c, int64_t row, int64_t block, int64_t blocks,
                                   float *out);
void CPU_NAME(weft__gemv_groups)(const codes_call *d, int rows);
void CPU_NAME(weft__gemv_blocks)(const codes_call *d, int rows);
#endif

#endif
