/* backends/cpu/isa/transpose.h -- transposes a square of LANES vectors. */
#ifndef BACKENDS_CPU_ISA_TRANSPOSE_H
#define BACKENDS_CPU_ISA_TRANSPOSE_H

#include "backends/cpu/isa/simd.h"

/* LANES rows of LANES floats become columns: in step s = 1, 2, 4, ... rows i and i + s exchange the
 * lanes whose index has bit s. */
SIMD void transpose(vf *row)
{
#pragma GCC unroll 4
    for (int s = 1; s < LANES; s *= 2) {
        const vi lane = lane_numbers(), moved = (lane & s) != 0;
        const vi low = lane + (moved & (LANES - s)), high = lane + s + (moved & (LANES - s));
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            if (i & s)
                continue;
            vf a = row[i], b = row[i + s];
            row[i] = vpermute2(a, b, low);
            row[i + s] = vpermute2(a, b, high);
        }
    }
}

#endif
