/* backends/cpu/isa/tiles.c -- products of rows of weights with several rows of x.
 *
 * Both are contiguous along k. A tile of TILE_W by up to TILE_X sums is kept in registers, so that
 * each step of LANES terms loads TILE_W + TILE_X vectors for TILE_W * TILE_X multiply-adds; nothing
 * is transposed. Must equal the GEMM within rounding (tests/cpu/test_gemm.c).
 */
#include "backends/cpu/isa/checked.h"
#include "backends/cpu/isa/scales.h"
#include "backends/cpu/kernels.h"

enum { TILE_W = 4, TILE_X = 3 };

typedef float four __attribute__((vector_size(TILE_W * 4)));

/* Adds the sums of the lanes of four vectors, by shuffles within groups of four lanes. */
SIMD void add_sums(const vf *s, float *y)
{
    const vi group = lane_numbers() & ~3, at = lane_numbers() & 3;
    const vi pairs = group + at / 2 + at % 2 * LANES;  /* 0, 0', 1, 1' */
    const vi halves = group + at % 2 + at / 2 * LANES; /* 0, 1, 0', 1' */
    const vf ab = vpermute2(s[0], s[1], pairs) + vpermute2(s[0], s[1], pairs + 2);
    const vf cd = vpermute2(s[2], s[3], pairs) + vpermute2(s[2], s[3], pairs + 2);
    vf all = vpermute2(ab, cd, halves) + vpermute2(ab, cd, halves + 2);
#pragma GCC unroll 2
    for (int half = LANES / 2; half >= TILE_W; half /= 2)
        all += vswap(all, half);
    four sums, before;
    memcpy(&sums, &all, sizeof sums);
    memcpy(&before, y, sizeof before);
    sums += before;
    memcpy(y, &sums, sizeof sums);
}

/* `m` rows of x from `first` on times all rows of w. m is a constant where this is inlined. */
SIMD void multiply(const cpu_tiles *tiles, int m, int64_t first)
{
    const cpu_tiles t = *tiles; /* the compiler would read it again after each store */
    const float *x = t.x + first * t.x_row;
    float *y = t.y + first * t.y_row;
    for (int64_t row = 0; row < t.n; row += TILE_W, y += TILE_W) {
        const float *w = t.w + row * t.w_row;
        vf sum[TILE_X][TILE_W];
#pragma GCC unroll 3
        for (int i = 0; i < m; i++)
#pragma GCC unroll 4
            for (int j = 0; j < TILE_W; j++)
                sum[i][j] = (vf){0};
#pragma GCC unroll 2
        for (int64_t p = 0; p < t.k; p += LANES) {
            vf xv[TILE_X];
#pragma GCC unroll 3
            for (int i = 0; i < m; i++)
                xv[i] = vload(x + i * t.x_row + p);
#pragma GCC unroll 4
            for (int j = 0; j < TILE_W; j++) {
                const vf wv = apart(vload(w + j * t.w_row + p)); /* one load for m rows */
#pragma GCC unroll 3
                for (int i = 0; i < m; i++)
                    sum[i][j] += wv * xv[i];
            }
        }
#pragma GCC unroll 3
        for (int i = 0; i < m; i++)
            add_sums(sum[i], y + i * t.y_row);
    }
}

#define ROWS(NAME, M)                                                                              \
    static __attribute__((noinline)) void NAME(const cpu_tiles *t, int64_t first)                  \
    {                                                                                              \
        multiply(t, M, first);                                                                     \
    }
ROWS(three, 3)
ROWS(two, 2)
ROWS(one, 1)
#undef ROWS

/* Rows of x by three, and the last two or four by two. */
static void tiles(const cpu_tiles *t)
{
    enum { FLOAT = sizeof(float) };
    check_read(t->x, t->k * FLOAT, t->x_row * FLOAT, t->m);
    check_read(t->w, t->k * FLOAT, t->w_row * FLOAT, t->n);
    check_write(t->y, t->n * FLOAT, t->y_row * FLOAT, t->m);
    int64_t i = 0;
    for (; t->m - i > 4 || t->m - i == 3; i += 3)
        three(t, i);
    for (; t->m - i >= 2; i += 2)
        two(t, i);
    if (i < t->m)
        one(t, i);
}

void CPU_NAME(weft__fill_tiles)(cpu_kernels *table)
{
    table->tiles = tiles;
    table->gemv_most = LANES == 8 ? 4 : CPU_GEMV_ROWS;
}
