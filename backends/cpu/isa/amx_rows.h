/* backends/cpu/isa/amx_rows.h -- interface between amx_rows.c and amx_dense.c: few rows of x times
 * rows of weights.
 */
#ifndef BACKENDS_CPU_ISA_AMX_ROWS_H
#define BACKENDS_CPU_ISA_AMX_ROWS_H

#include "backends/cpu/isa/amx.h"
#include "backends/cpu/kernels.h"

/* The functions of cpu_part_rows_kernels, for codes. */
int CPU_NAME(weft__code_rows_least)(const cpu_codes *c);
int64_t CPU_NAME(weft__code_rows_floats)(const cpu_part_x *x);
void CPU_NAME(weft__code_rows_pack)(const cpu_part_x *x, int64_t begin, int64_t end);
void CPU_NAME(weft__code_rows_run)(const cpu_part_rows *r);

/* The parts of 32 elements from `at` on, in the order of the elements. */
SIMD void divide(weft_dtype dtype, int parts, const void *x, int64_t at, vu *out)
{
    if (dtype == WEFT_BFLOAT16) {
        memcpy(out, (const uint16_t *)x + at, sizeof *out);
        return;
    }
    vf a = vload_as(dtype, x, at), b = vload_as(dtype, x, at + LANES);
#pragma GCC unroll 3
    for (int t = 0; t < parts; t++) {
        const vu p = take_part(&a), q = take_part(&b);
        out[t] = join_along(p, q);
    }
}

#endif
