/* backends/cpu/isa/amx.h -- AMX tiles of bfloat16, and the division of floats into bfloat16 parts.
 */
#ifndef BACKENDS_CPU_ISA_AMX_H
#define BACKENDS_CPU_ISA_AMX_H

#include "backends/cpu/isa/simd.h"

enum {
    SIDE = 16,           /* rows of a tile; columns of one of C */
    STEP = 32,           /* steps in k of a tile */
    TILE = SIDE * LANES, /* dwords of a tile */
    TILES = 8,           /* registers */
    TILE_LINE = 64       /* bytes of a row of a tile */
};

typedef struct tile_config {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_config;

/* The intrinsics do not tell the compiler that they read memory. */
#define LOAD(tile, from, stride)                                                                   \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"((int64_t)(stride))        \
                     : "memory")
#define STORE(tile, to, stride)                                                                    \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"((int64_t)(stride))      \
                     : "memory")
#define ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile ::)
#define ADD_PRODUCT(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)
#define RELEASE() __asm__ volatile("tilerelease" ::)

/* Whole tiles. */
SIMD void configure(void)
{
    tile_config config = {.palette = 1};
    for (int i = 0; i < TILES; i++) {
        config.bytes[i] = TILE_LINE;
        config.rows[i] = SIDE;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
}

/* The part is in the upper half of each lane, rounded; *rest becomes what remains. NaN is not
 * rounded, since its bits could overflow. */
SIMD vu take_part(vf *rest)
{
    const vu bits = (vu)*rest + ((vu)(*rest == *rest) & 0x8000);
    *rest -= (vf)(bits & 0xffff0000);
    return bits;
}

/* The upper halves of the lanes of a and b in their order. */
SIMD vu join_along(vu a, vu b)
{
    const __m512i odd =
        _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                         25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return (vu)_mm512_permutex2var_epi16((__m512i)a, odd, (__m512i)b);
}

#endif
