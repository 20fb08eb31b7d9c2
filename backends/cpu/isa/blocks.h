/* backends/cpu/isa/blocks.h -- interface between codes.c, whose functions are in the kernel table,
 * and blocks.c. Both are compiled for the same instruction set. */
#ifndef BACKENDS_CPU_ISA_BLOCKS_H
#define BACKENDS_CPU_ISA_BLOCKS_H

#include "backends/cpu/kernels.h"

/* Whether a block type has a kernel for products with a few vectors. */
static inline bool weft__cpu_streams_blocks(int kind)
{
    return kind >= WEFT_ENCODING_Q4_0 && kind <= WEFT_ENCODING_GGUF_MXFP4;
}

#if defined(CPU_ISA)
/* The table's decode_codes for GGUF blocks, and gemv_codes for the types above. */
void CPU_NAME(weft__decode_blocks)(const cpu_codes *c, int64_t row, int64_t block, int64_t blocks,
                                   float *out);
void CPU_NAME(weft__gemv_blocks)(const cpu_codes *c, int m, int64_t k, const float *x,
                                 int64_t first, int64_t n, const float *bias, float *y,
                                 int64_t y_row);
#endif

#endif
