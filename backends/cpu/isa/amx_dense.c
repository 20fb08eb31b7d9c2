/* backends/cpu/isa/amx_dense.c -- rows of bfloat16 weights times up to 16 rows of x, by AMX tiles.
 *
 * 16 rows of weights are the rows of a tile, as they are in memory. The columns of the other tile
 * are rows of x, or, where they fit, all parts of all rows, whose results are added at the end.
 */
#include "backends/cpu/isa/amx_rows.h"
#include "backends/cpu/isa/transpose.h"

enum { MOST_PARTS = 3, TOGETHER = 2 /* panels of 16 rows of weights */ };

/* ---- x -------------------------------------------------------------------------------------- */

/* Tiles for each step: one with all parts of all rows as columns, or one for each part. */
static int tiles_of(const cpu_part_x *x)
{
    return x->parts * x->m <= SIDE ? 1 : x->parts;
}

static int64_t rows_floats(const cpu_part_x *x)
{
    return x->codes ? CPU_NAME(weft__code_rows_floats)(x) : x->k / STEP * tiles_of(x) * TILE;
}

SIMD void pack_step(weft_dtype dtype, int parts, const cpu_part_x *x, int64_t step)
{
    const int64_t size = dtype == WEFT_FLOAT32 ? 4 : 2;
    const int tiles = tiles_of(x);
    float *out = x->memory + step * tiles * TILE;
    vf rows[MOST_PARTS][SIDE];
    for (int i = 0; i < x->m; i++) {
        vu own[MOST_PARTS];
        divide(dtype, parts, (const char *)x->x + i * x->x_row * size, step * STEP, own);
#pragma GCC unroll 3
        for (int t = 0; t < parts; t++)
            rows[tiles == 1 ? 0 : t][tiles == 1 ? t * x->m + i : i] = (vf)own[t];
    }
    for (int t = 0; t < tiles; t++) {
        for (int i = tiles == 1 ? parts * x->m : x->m; i < SIDE; i++)
            rows[t][i] = (vf){0};
        transpose(rows[t]);
#pragma GCC unroll 16
        for (int i = 0; i < SIDE; i++)
            vstore(out + t * TILE + i * LANES, rows[t][i]);
    }
}

static void rows_pack(const cpu_part_x *x, int64_t begin, int64_t end)
{
    if (x->codes) {
        CPU_NAME(weft__code_rows_pack)(x, begin, end);
        return;
    }
    for (int64_t s = begin; s < end; s++) {
        if (x->dtype == WEFT_BFLOAT16)
            pack_step(WEFT_BFLOAT16, 1, x, s);
        else if (x->dtype == WEFT_FLOAT16)
            pack_step(WEFT_FLOAT16, 2, x, s);
        else
            pack_step(WEFT_FLOAT32, 3, x, s);
    }
}

/* ---- Products ------------------------------------------------------------------------------- */

/* Columns of results become rows of y, of `n` columns. */
static void write_panel(const cpu_part_rows *d, int tiles, const float *sums, int64_t row,
                        int64_t n)
{
    const int parts = tiles == 1 ? d->x.parts : 1, m = d->x.m;
    vf all[SIDE];
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++)
        all[i] = vload(sums + i * LANES);
    transpose(all);
    for (int i = 0; i < m; i++) {
        vf sum = all[i];
        for (int t = 1; t < parts; t++)
            sum += all[t * m + i];
        if (d->bias)
            sum += vload_part(d->bias + row, n);
        vstore_part(d->y + i * d->y_row + row, sum, n);
    }
}

/* Two panels of whole rows in tiles 0 and 1. */
SIMD void dense_panels(int tiles, const cpu_part_rows *d, int64_t row, float *sums)
{
    const int64_t stride = d->w_row * 2, steps = d->x.k / STEP;
    const float *x = d->x.memory;
    const char *w = (const char *)d->w + row * stride;
    ZERO(0);
    ZERO(1);
    for (int64_t s = 0; s < steps; s++, x += tiles * TILE, w += TILE_LINE) {
#pragma GCC unroll 32
        for (int i = 0; i < 2 * SIDE; i++)
            __builtin_prefetch(w + (2 * SIDE + i) * stride, 0, 2);
        LOAD(4, w, stride);
        LOAD(5, x, TILE_LINE);
        ADD_PRODUCT(0, 4, 5);
        LOAD(3, w + SIDE * stride, stride);
        ADD_PRODUCT(1, 3, 5);
        if (tiles > 1) {
            LOAD(6, x + TILE, TILE_LINE);
            ADD_PRODUCT(0, 4, 6);
            ADD_PRODUCT(1, 3, 6);
        }
        if (tiles > 2) {
            LOAD(7, x + 2 * TILE, TILE_LINE);
            ADD_PRODUCT(0, 4, 7);
            ADD_PRODUCT(1, 3, 7);
        }
    }
    STORE(0, sums, TILE_LINE);
    STORE(1, sums + TILE, TILE_LINE);
}

/* One panel of at most 16 rows, copied. */
SIMD void dense_rest(int tiles, const cpu_part_rows *d, int64_t row, int64_t n, float *sums)
{
    _Alignas(64) uint32_t a[TILE] = {0};
    const float *x = d->x.memory;
    ZERO(0);
    for (int64_t s = 0; s < d->x.k / STEP; s++, x += tiles * TILE) {
        for (int64_t i = 0; i < n; i++)
            memcpy(a + i * LANES, d->w + (row + i) * d->w_row + s * STEP, TILE_LINE);
        LOAD(4, a, TILE_LINE);
        LOAD(5, x, TILE_LINE);
        ADD_PRODUCT(0, 4, 5);
        if (tiles > 1) {
            LOAD(6, x + TILE, TILE_LINE);
            ADD_PRODUCT(0, 4, 6);
        }
        if (tiles > 2) {
            LOAD(7, x + 2 * TILE, TILE_LINE);
            ADD_PRODUCT(0, 4, 7);
        }
    }
    STORE(0, sums, TILE_LINE);
}

SIMD void dense_by(int tiles, const cpu_part_rows *d)
{
    _Alignas(64) float sums[TOGETHER * TILE];
    const int64_t end = d->first + d->n;
    configure();
    for (int64_t row = d->first; row < end;) {
        const bool whole = row + TOGETHER * SIDE <= end;
        const int64_t n = end - row < SIDE ? end - row : SIDE;
        if (whole)
            dense_panels(tiles, d, row, sums);
        else
            dense_rest(tiles, d, row, n, sums);
        for (int p = 0; p < (whole ? TOGETHER : 1); p++, row += n) {
            write_panel(d, tiles, sums + p * TILE, row, n);
        }
    }
    RELEASE();
}

static __attribute__((noinline)) void dense_rows(const cpu_part_rows *d, int tiles)
{
    if (tiles == 1)
        dense_by(1, d);
    else if (tiles == 2)
        dense_by(2, d);
    else
        dense_by(3, d);
}

static void rows_run(const cpu_part_rows *d)
{
    if (d->x.codes)
        CPU_NAME(weft__code_rows_run)(d);
    else
        dense_rows(d, tiles_of(&d->x));
}

static int rows_most(const cpu_codes *c)
{
    return c == NULL ? SIDE : CPU_NAME(weft__code_rows_take)(c) ? MOST_SUMS : 0;
}

void CPU_NAME(weft__fill_amx_dense)(cpu_kernels *table)
{
    table->parts.rows = (cpu_part_rows_kernels){
        .most = rows_most, .floats = rows_floats, .pack = rows_pack, .run = rows_run};
}
