/* backends/cpu/isa/blocks.h -- between codes.c, whose functions the table has, and blocks.c, both
 * compiled for the same instruction set. */
#ifndef BACKENDS_CPU_ISA_BLOCKS_H
#define BACKENDS_CPU_ISA_BLOCKS_H

#include "backends/cpu/kernels.h"

/* Block types that have a kernel for products with a few vectors. */
static inline bool weft__cpu_streams_blocks(int kind)
{
    return kind >= WEFT_ENCODING_Q4_0 && kind <= WEFT_ENCODING_GGUF_MXFP4;
}

#if defined(CPU_ISA)
/* decode_codes and gemv_codes of the table, of GGUF's blocks; the latter of the types above. */
void CPU_NAME(weft__decode_blocks)(const cpu_codes *c, int64_t row, int64_t block, int64_t blocks,
                                   float *out);
void CPU_NAME(weft__gemv_blocks)(const cpu_codes *c, int m, int64_t k, const float *x,
                                 int64_t first, int64_t n, const float *bias, float *y,
                                 int64_t y_row);
#endif

#endif
