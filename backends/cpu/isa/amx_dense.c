/* backends/cpu/isa/amx_dense.c -- rows of dense weights times up to 24 rows of x, by AMX tiles.
 *
 * 16 rows of weights are the rows of a tile, those of bfloat16 as they are, others as
 * tiles of their parts (isa/amx.c). The columns of the other tile are up to 16 rows of x, or, where
 * they fit, all parts of all rows, whose results are added at the end.
 */
#include "backends/cpu/isa/amx_rows.h"
#include "backends/cpu/isa/checked.h"
#include "backends/cpu/isa/transpose.h"

enum {
    MOST_PARTS = 3,
    ORDERS = 3,                       /* of products of parts */
    TOGETHER = 2,                     /* panels of 16 rows of weights */
    RING = 4,                         /* steps of weights in parts */
    DISTANCE = 3,                     /* steps between dividing and multiplying */
    LEAST_COPIED = 5,                 /* for fewer rows memory limits gemv.c too */
    LEAST_DIVIDED = CPU_GEMV_ROWS + 1 /* the same */
};

/* ---- x -------------------------------------------------------------------------------------- */

static int groups_of(const cpu_part_x *x)
{
    return x->m > SIDE ? 2 : 1;
}

static bool stacked(const cpu_part_x *x)
{
    return x->parts * x->m <= SIDE;
}

/* Tiles of x for each step: those of each part of all rows, or one with all parts as columns. */
static int tiles_of(const cpu_part_x *x)
{
    return stacked(x) ? 1 : x->parts * groups_of(x);
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
    vf columns[2 * MOST_PARTS * SIDE] = {0};
    for (int i = 0; i < x->m; i++) {
        vu own[MOST_PARTS];
        divide(dtype, parts, (const char *)x->x + i * x->x_row * size, step * STEP, own);
#pragma GCC unroll 3
        for (int t = 0; t < parts; t++)
            columns[stacked(x) ? t * x->m + i : t * groups_of(x) * SIDE + i] = (vf)own[t];
    }
    for (int t = 0; t < tiles; t++) {
        transpose(columns + t * SIDE);
#pragma GCC unroll 16
        for (int i = 0; i < SIDE; i++)
            vstore(out + t * TILE + i * LANES, columns[t * SIDE + i]);
    }
}

static void rows_pack(const cpu_part_x *x, int64_t begin, int64_t end)
{
    const int64_t size = x->dtype == WEFT_FLOAT32 ? 4 : 2;
    check_read((const char *)x->x + begin * STEP * size, (end - begin) * STEP * size,
               x->x_row * size, x->m);
    if (x->codes) {
        CPU_NAME(weft__code_rows_pack)(x, begin, end);
        return;
    }
    const int64_t floats = tiles_of(x) * TILE;
    check_write(x->memory + begin * floats, (end - begin) * floats * 4, 0, 1);
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

/* Columns of results, of one or two tiles, become rows of y, of `n` columns. */
static void write_panel(const cpu_part_rows *d, const float *sums, int64_t row, int64_t n)
{
    const int parts = stacked(&d->x) ? d->x.parts : 1, m = d->x.m;
    vf all[2 * SIDE];
    for (int g = 0; g < groups_of(&d->x); g++) {
#pragma GCC unroll 16
        for (int i = 0; i < SIDE; i++)
            all[g * SIDE + i] = vload(sums + g * TILE + i * LANES);
        transpose(all + g * SIDE);
    }
    for (int i = 0; i < m; i++) {
        vf sum = all[i];
        for (int t = 1; t < parts; t++)
            sum += all[t * m + i];
        if (d->bias)
            sum += vload_part(d->bias + row, n);
        vstore_part(d->y + i * d->y_row + row, sum, n);
    }
}

/* A step of one panel or TOGETHER, of which `n` rows exist, as tiles of their parts: those of a
 * panel, then of the next. */
SIMD void divide_rows(weft_dtype dtype, int panels, int parts, const cpu_part_rows *d, int64_t row,
                      int64_t n, int64_t step, float *out)
{
    const int64_t stride = d->w_row * (dtype == WEFT_FLOAT32 ? 4 : 2);
    const char *w = (const char *)d->w + row * stride;
    for (int64_t p = 0; p < panels; p++, out += MOST_PARTS * TILE) {
#pragma GCC unroll 4
        for (int64_t i = 0; i < SIDE; i++) {
            const int64_t r = p * SIDE + i < n ? p * SIDE + i : n - 1;
            vu own[MOST_PARTS];
            divide(dtype, parts, w + r * stride, step * STEP, own);
#pragma GCC unroll 3
            for (int t = 0; t < parts; t++)
                vstore(out + t * TILE + i * LANES, (vf)own[t]);
        }
    }
}

/* Adds the products of the tile of x at `x` and `parts` parts of the panels to tiles 0 and 2, or
 * for the second 16 rows of x to 1 and 3. */
SIMD void multiply(int panels, int parts, bool second, const float *w, const float *x)
{
    LOAD(6, x, TILE_LINE);
#pragma GCC unroll 3
    for (int j = 0; j < parts; j++, w += TILE) {
        LOAD(4, w, TILE_LINE);
        if (second)
            ADD_PRODUCT(1, 4, 6);
        else
            ADD_PRODUCT(0, 4, 6);
        if (panels == 1)
            continue;
        LOAD(5, w + MOST_PARTS * TILE, TILE_LINE);
        if (second)
            ADD_PRODUCT(3, 5, 6);
        else
            ADD_PRODUCT(2, 5, 6);
    }
}

/* Products of parts of less than ORDERS orders are added; of stacked parts of x all. */
SIMD void dense_panels(weft_dtype dtype, int panels, int w_parts, int parts, int groups,
                       const cpu_part_rows *d, int64_t row, int64_t n, float *sums)
{
    _Alignas(64) float w[RING][TOGETHER * MOST_PARTS * TILE];
    const int64_t steps = d->x.k / STEP;
    const float *x = d->x.memory;
    ZERO(0);
    ZERO(1);
    ZERO(2);
    ZERO(3);
    for (int64_t s = 0; s < DISTANCE && s < steps; s++)
        divide_rows(dtype, panels, w_parts, d, row, n, s, w[s % RING]);
    for (int64_t s = 0; s < steps; s++) {
#pragma GCC unroll 3
        for (int t = 0; t < parts; t++) {
            const int used = parts == 1 || w_parts <= ORDERS - t ? w_parts : ORDERS - t;
#pragma GCC unroll 2
            for (int g = 0; g < groups; g++, x += TILE)
                multiply(panels, used, g > 0, w[s % RING], x);
        }
        if (s + DISTANCE < steps)
            divide_rows(dtype, panels, w_parts, d, row, n, s + DISTANCE, w[(s + DISTANCE) % RING]);
    }
    STORE(0, sums, TILE_LINE);
    STORE(1, sums + TILE, TILE_LINE);
    STORE(2, sums + 2 * TILE, TILE_LINE);
    STORE(3, sums + 3 * TILE, TILE_LINE);
}

SIMD void dense_by(weft_dtype dtype, int panels, int w_parts, int parts, int groups,
                   const cpu_part_rows *d)
{
    _Alignas(64) float sums[2 * TOGETHER * TILE];
    for (int64_t done = 0; done < d->n; done += panels * SIDE) {
        const int64_t n = d->n - done < panels * SIDE ? d->n - done : panels * SIDE;
        dense_panels(dtype, panels, w_parts, parts, groups, d, d->first + done, n, sums);
        for (int64_t p = 0; p * SIDE < n; p++)
            write_panel(d, sums + 2 * p * TILE, d->first + done + p * SIDE,
                        n - p * SIDE < SIDE ? n - p * SIDE : SIDE);
    }
}

SIMD void dense_by_dtype(int parts, int groups, const cpu_part_rows *d)
{
    if (d->w_dtype == WEFT_BFLOAT16)
        dense_by(WEFT_BFLOAT16, TOGETHER, 1, parts, groups, d);
    else if (d->w_dtype == WEFT_FLOAT16)
        dense_by(WEFT_FLOAT16, 1, 2, parts, groups, d);
    else
        dense_by(WEFT_FLOAT32, 1, 3, parts, groups, d);
}

static __attribute__((noinline)) void dense_rows(const cpu_part_rows *d)
{
    const int64_t size = d->w_dtype == WEFT_FLOAT32 ? 4 : 2;
    const int parts = stacked(&d->x) ? 1 : d->x.parts;
    check_read((const char *)d->w + d->first * d->w_row * size, d->x.k * size, d->w_row * size,
               d->n);
    check_read(d->x.memory, rows_floats(&d->x) * 4, 0, 1);
    check_write(d->y + d->first, d->n * 4, d->y_row * 4, d->x.m);
    configure();
#define CASE(PARTS, GROUPS)                                                                        \
    case 10 * PARTS + GROUPS:                                                                      \
        dense_by_dtype(PARTS, GROUPS, d);                                                          \
        break
    switch (10 * parts + groups_of(&d->x)) {
        CASE(1, 1);
        CASE(1, 2);
        CASE(2, 1);
        CASE(2, 2);
        CASE(3, 1);
        CASE(3, 2);
    }
#undef CASE
    RELEASE();
}

static void rows_run(const cpu_part_rows *d)
{
    if (d->x.codes)
        CPU_NAME(weft__code_rows_run)(d);
    else
        dense_rows(d);
}

static int rows_least(const cpu_codes *c, weft_dtype dtype)
{
    return c                        ? CPU_NAME(weft__code_rows_least)(c)
           : dtype == WEFT_BFLOAT16 ? LEAST_COPIED
                                    : LEAST_DIVIDED;
}

void CPU_NAME(weft__fill_amx_dense)(cpu_kernels *table)
{
    table->parts.rows = (cpu_part_rows_kernels){
        .least = rows_least, .floats = rows_floats, .pack = rows_pack, .run = rows_run};
}
