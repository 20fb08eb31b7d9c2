/* backends/cpu/isa/amx.c -- matrix products by AMX tiles of bfloat16, and the packing of both
 * sides.
 *
 * A number is a sum of bfloat16 parts: a float32 is exactly three, a float16 two. A product of two
 * numbers is the sum of the products of their parts; those of order i + j, where i and j count from
 * 0, are about 2^(-8 (i + j)) of it, and the lowest orders are computed (Henry, Tang, Heinecke:
 * Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations,
 * 2019). With three orders the result is as accurate as float32 arithmetic. An infinity has NaN
 * among its parts: a result that is infinite may be NaN instead. Parts are rounded up or down, so a
 * result near the largest float32 may be infinite instead. Parts below 2^-126 count as zero.
 *
 * Panels of both sides have the same form: for each STEP steps in k, for each part, two tiles of 16
 * rows of A, or of 16 columns of B in pairs of steps.
 */
#include <math.h>

#include "backends/cpu/isa/amx.h"
#include "backends/cpu/isa/checked.h"
#include "backends/cpu/isa/transpose.h"
#include "backends/cpu/kernels.h"

enum {
    WIDTH = 2 * SIDE, /* rows of a panel of A, columns of one of B */
    PAIR = 2 * TILE,  /* dwords of the two tiles of a part */
    MOST_PARTS = 3,
    LINE = TILE_LINE,
    LATER = 4, /* rows */
    AHEAD = 4  /* lines; the next panel of A is prefetched by the products with eight panels of B */
};

/* ---- Products ------------------------------------------------------------------------------- */

/* C is in the tiles 0 (rows and columns 0 to 15), 1 (columns from 16 on), 2 (rows from 16 on), 3.
 * With one part of A, AHEAD lines at `next` are prefetched for each step; with three that is
 * slower, and with two it is not measured. */
SIMD void add_products(int64_t steps, const uint32_t *a, int parts_a, const uint32_t *b,
                       int parts_b, int orders, int down, int across, const char *next)
{
    for (int64_t k = 0; k < steps; k += STEP, a += parts_a * PAIR, b += parts_b * PAIR) {
#pragma GCC unroll 4
        for (int l = 0; l < AHEAD && parts_a == 1; l++, next += LINE)
            __builtin_prefetch(next, 0, 2);
#pragma GCC unroll 3
        for (int j = 0; j < parts_b; j++) {
            LOAD(6, b + j * PAIR, LINE);
            if (across > 1)
                LOAD(7, b + j * PAIR + TILE, LINE);
#pragma GCC unroll 3
            for (int i = 0; i < parts_a; i++) {
                if (i + j >= orders)
                    continue;
                LOAD(4, a + i * PAIR, LINE);
                ADD_PRODUCT(0, 4, 6);
                if (across > 1)
                    ADD_PRODUCT(1, 4, 7);
                if (down > 1)
                    LOAD(5, a + i * PAIR + TILE, LINE);
                if (down > 1)
                    ADD_PRODUCT(2, 5, 6);
                if (down > 1 && across > 1)
                    ADD_PRODUCT(3, 5, 7);
            }
        }
    }
}

/* Whole tiles with constant loops: these must be unrolled, or mispredicted branches take a third of
 * the time. */
static void add_whole(const cpu_block *block, const uint32_t *a, const uint32_t *b,
                      const char *next)
{
#define CASE(A, B, ORDERS)                                                                         \
    case 100 * ORDERS + 10 * A + B:                                                                \
        add_products(block->k, a, A, b, B, ORDERS, 2, 2, next);                                    \
        return
    switch (100 * block->orders + 10 * block->a_parts + block->b_parts) {
        CASE(1, 1, 2);
        CASE(1, 2, 2);
        CASE(2, 1, 2);
        CASE(2, 2, 2);
        CASE(1, 1, 3);
        CASE(1, 2, 3);
        CASE(1, 3, 3);
        CASE(2, 1, 3);
        CASE(2, 2, 3);
        CASE(2, 3, 3);
        CASE(3, 1, 3);
        CASE(3, 2, 3);
        CASE(3, 3, 3);
    }
#undef CASE
}

SIMD void multiply(const cpu_block *block, const uint32_t *a, const uint32_t *b, float *c, int down,
                   int across, const char *next)
{
    const int64_t stride = block->c_row * (int64_t)sizeof(float);
    float *lower = c + SIDE * block->c_row;
    if (!block->add) {
        ZERO(0);
        ZERO(1);
        ZERO(2);
        ZERO(3);
    } else {
        LOAD(0, c, stride);
        if (across > 1)
            LOAD(1, c + SIDE, stride);
        if (down > 1)
            LOAD(2, lower, stride);
        if (down > 1 && across > 1)
            LOAD(3, lower + SIDE, stride);
    }
    if (down > 1 && across > 1)
        add_whole(block, a, b, next);
    else
        add_products(block->k, a, block->a_parts, b, block->b_parts, block->orders, down, across,
                     next);
    STORE(0, c, stride);
    if (across > 1)
        STORE(1, c + SIDE, stride);
    if (down > 1)
        STORE(2, lower, stride);
    if (down > 1 && across > 1)
        STORE(3, lower + SIDE, stride);
}

/* A panel of A stays in the L1 cache, panels of B come from the L2 cache. */
static void part_block(const cpu_block *block)
{
    const int64_t padded = (block->k + STEP - 1) / STEP * STEP;
    const uint32_t *a = (const void *)block->a, *b = (const void *)block->b;
    configure();
    for (int64_t i = 0; i < block->m; i += WIDTH) {
        const bool high = block->m - i > SIDE;
        const uint32_t *panel_a = a + i / WIDTH * block->a_panel;
        const char *next = (const char *)(panel_a + block->a_panel);
        check_read(panel_a, padded * WIDTH * 2 * block->a_parts, 0, 1);
        for (int64_t j = 0; j < block->n; j += WIDTH, next += padded / STEP * AHEAD * LINE) {
            const bool wide = block->n - j > SIDE;
            const uint32_t *panel_b = b + j / WIDTH * block->b_panel;
            float *c = block->c + i * block->c_row + j;
            check_read(panel_b, padded * WIDTH * 2 * block->b_parts, 0, 1);
            check_write(c, (wide ? WIDTH : SIDE) * 4, block->c_row * 4, high ? WIDTH : SIDE);
            if (high && wide)
                multiply(block, panel_a, panel_b, c, 2, 2, next);
            else if (high)
                multiply(block, panel_a, panel_b, c, 2, 1, next);
            else if (wide)
                multiply(block, panel_a, panel_b, c, 1, 2, next);
            else
                multiply(block, panel_a, panel_b, c, 1, 1, next);
        }
    }
    RELEASE();
}

/* ---- Packing -------------------------------------------------------------------------------- */

/* The upper halves of a as lower, and those of b as upper halves. */
SIMD vu join_across(vu a, vu b)
{
    return a >> 16 | (b & 0xffff0000);
}

/* Prefetches elements of 16 bits of the lines, or of the steps, after a tile. */
SIMD void prefetch_later(const void *x, int64_t first, int64_t along, int64_t across,
                         bool along_lines)
{
    const uint16_t *later =
        (const uint16_t *)x + first + (along_lines ? SIDE * across : STEP * along);
    __builtin_prefetch(later, 0, 2);
    if (!along_lines)
        __builtin_prefetch(later + along, 0, 2);
}

/* 32 numbers at p, or each of 16 beside that of the next step. */
SIMD vf pair_of_bfloat16(bool along_lines, const uint16_t *p, int64_t along)
{
    vf pairs;
    if (!along_lines)
        return (vf)(__builtin_convertvector(*(const vh_any *)p, vu) |
                    __builtin_convertvector(*(const vh_any *)(p + along), vu) << 16);
    memcpy(&pairs, p, sizeof pairs);
    return pairs;
}

/* A tile of each part from 16 lines (rows of A, columns of B) of 32 steps in k. Elements are at
 * line * across + step * along. `along_lines`: along is 1, else across is. `by_lines`: a row of the
 * tile is a line (A), else a pair of steps (B). dtype, parts and both are constant at each inlined
 * call. */
SIMD void pack_tile(weft_dtype dtype, int parts, bool along_lines, bool by_lines, const void *x,
                    int64_t along, int64_t across, uint32_t *out)
{
    vf rows[MOST_PARTS][LANES];
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) {
        const int64_t first = along_lines ? i * across : 2 * i * along;
        if (dtype != WEFT_FLOAT32) /* others have been read by parts_needed, or are in a cache */
            prefetch_later(x, first, along, across, along_lines);
        if (dtype == WEFT_BFLOAT16) {
            rows[0][i] = pair_of_bfloat16(along_lines, (const uint16_t *)x + first, along);
            continue;
        }
        vf a = vload_as(dtype, x, first);
        vf b = vload_as(dtype, x, first + (along_lines ? LANES : along));
#pragma GCC unroll 3
        for (int t = 0; t < parts; t++) {
            const vu p = take_part(&a), q = take_part(&b);
            rows[t][i] = (vf)(along_lines ? join_along(p, q) : join_across(p, q));
        }
    }
#pragma GCC unroll 3
    for (int t = 0; t < parts; t++) {
        if (along_lines != by_lines)
            transpose(rows[t]);
#pragma GCC unroll 16
        for (int i = 0; i < SIDE; i++)
            vstore((float *)(void *)(out + t * PAIR + i * LANES), rows[t][i]);
    }
}

/* Lines and steps of one side, with their strides in elements. */
typedef struct side {
    const void *x;
    int64_t along, across, lines, steps;
} side;

/* A tile with fewer lines or steps, or with other strides: by a copy that is filled up with zeros.
 */
SIMD void pack_rest(weft_dtype dtype, int parts, bool by_lines, const side *s, int64_t line,
                    int64_t step, uint32_t *out)
{
    const int64_t size = dtype == WEFT_FLOAT32 ? 4 : 2;
    const int64_t lines = s->lines - line < SIDE ? s->lines - line : SIDE;
    const int64_t steps = s->steps - step < STEP ? s->steps - step : STEP;
    const char *x = (const char *)s->x + (line * s->across + step * s->along) * size;
    float copy[SIDE * STEP] = {0};
    char *to = (char *)copy;
    if (s->across == 1 && s->along != 1) {
        for (int64_t k = 0; k < steps; k++)
            memcpy(to + k * SIDE * size, x + k * s->along * size, (size_t)(lines * size));
        pack_tile(dtype, parts, false, by_lines, copy, SIDE, 1, out);
        return;
    }
    for (int64_t i = 0; i < lines; i++, x += s->across * size, to += STEP * size) {
        if (s->along == 1)
            memcpy(to, x, (size_t)(steps * size));
        else
            for (int64_t k = 0; k < steps; k++)
                memcpy(to + k * size, x + k * s->along * size, (size_t)size);
    }
    pack_tile(dtype, parts, true, by_lines, copy, 1, STEP, out);
}

SIMD void pack_side(weft_dtype dtype, int parts, bool by_lines, const side *s, uint32_t *out)
{
    const int64_t size = dtype == WEFT_FLOAT32 ? 4 : 2;
    const int64_t panel = (s->steps + STEP - 1) / STEP * PAIR * parts;
    for (int64_t line = 0; line < s->lines; line += SIDE) {
        uint32_t *to = out + line / WIDTH * panel + line % WIDTH / SIDE * TILE;
        for (int64_t k = 0; k < s->steps; k += STEP, to += PAIR * parts) {
            const void *x = (const char *)s->x + (line * s->across + k * s->along) * size;
            const bool whole = line + SIDE <= s->lines && k + STEP <= s->steps;
            if (whole && s->along == 1)
                pack_tile(dtype, parts, true, by_lines, x, 1, s->across, to);
            else if (whole && s->across == 1)
                pack_tile(dtype, parts, false, by_lines, x, s->along, 1, to);
            else
                pack_rest(dtype, parts, by_lines, s, line, k, to);
        }
    }
    /* The second tile of a panel of at most 16 lines is neither read nor written. */
}

SIMD void pack(weft_dtype dtype, int parts, bool by_lines, const side *s, uint32_t *out)
{
    const int64_t size = dtype == WEFT_FLOAT32 ? 4 : 2;
    for (int64_t i = 0; i < s->lines && s->along == 1; i++)
        check_read((const char *)s->x + i * s->across * size, s->steps * size, 0, 1);
    for (int64_t k = 0; k < s->steps && s->along != 1; k++)
        check_read((const char *)s->x + k * s->along * size, size, s->across * size, s->lines);
    if (dtype == WEFT_BFLOAT16)
        pack_side(WEFT_BFLOAT16, 1, by_lines, s, out);
    else if (dtype == WEFT_FLOAT16)
        pack_side(WEFT_FLOAT16, 2, by_lines, s, out);
    else if (parts == 1)
        pack_side(WEFT_FLOAT32, 1, by_lines, s, out);
    else if (parts == 2)
        pack_side(WEFT_FLOAT32, 2, by_lines, s, out);
    else
        pack_side(WEFT_FLOAT32, 3, by_lines, s, out);
}

static void pack_parts_a(weft_dtype dtype, int parts, const void *a, int64_t a_row, int64_t a_k,
                         int64_t m, int64_t k, float *out)
{
    const side s = {a, a_k, a_row, m, k};
    pack(dtype, parts, true, &s, (uint32_t *)(void *)out);
}

static void pack_parts_b(weft_dtype dtype, int parts, const void *b, int64_t b_k, int64_t b_n,
                         int64_t k, int64_t n, float *out)
{
    const side s = {b, b_k, b_n, n, k};
    pack(dtype, parts, false, &s, (uint32_t *)(void *)out);
}

/* The bits that any of the floats has. What is `later` floats further is prefetched. */
SIMD uint32_t bits_of_row(const float *x, int64_t n, int64_t later)
{
    vu any = {0};
    uint32_t rest = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        __builtin_prefetch(x + i + later, 0, 2);
        any |= (vu)vload(x + i);
    }
    for (; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        rest |= bits;
    }
    return rest | (uint32_t)_mm512_reduce_or_epi32((__m512i)any);
}

/* A part has 8 significant bits, a float32 24. */
static int parts_needed(const void *x, int64_t row, int64_t rows, int64_t n, int most)
{
    int parts = 1;
    check_read(x, n * 4, row * 4, rows);
    for (int64_t i = 0; i < rows && parts < most; i++) {
        const uint32_t bits = bits_of_row((const float *)x + i * row, n, LATER * row);
        const int own = (bits & 0xff) ? 3 : (bits & 0xffff) ? 2 : 1;
        parts = own > parts ? own : parts;
    }
    return parts < most ? parts : most;
}

/* ---- Results -------------------------------------------------------------------------------- */

/* bfloat16 in the upper halves, rounded to even; NaN stays NaN. */
SIMD vu round_bfloat16(vf x)
{
    const vu bits = (vu)x, number = (vu)(x == x);
    return (bits + ((0x7fff + (bits >> 16 & 1)) & number)) | (0x400000 & ~number);
}

/* x - x is NaN if x is infinite or NaN. */
SIMD vf biased(const cpu_part_result *r, const float *from, int64_t j, vi *infinite)
{
    vf x = vload(from + j);
    if (r->bias)
        x += vload(r->bias + j);
    const vf zero = x - x;
    *infinite |= zero != zero;
    return x;
}

SIMD void write_row(const cpu_part_result *r, weft_dtype dtype, bool add, const float *from,
                    char *to, vi *infinite)
{
    int64_t j = 0;
    for (; j + 2 * LANES <= r->n; j += 2 * LANES) {
        vf a = biased(r, from, j, infinite), b = biased(r, from, j + LANES, infinite);
        if (dtype == WEFT_BFLOAT16) {
            const vu both = join_along(round_bfloat16(a), round_bfloat16(b));
            vstore((float *)(void *)(to + 2 * j), (vf)both);
            continue;
        }
        if (dtype == WEFT_FLOAT16) {
            vstore_float16((uint16_t *)(void *)to + j, a);
            vstore_float16((uint16_t *)(void *)to + j + LANES, b);
            continue;
        }
        float *out = (float *)(void *)to + j;
        vstore(out, add ? a + vload(out) : a);
        vstore(out + LANES, add ? b + vload(out + LANES) : b);
    }
    for (; j < r->n; j++) {
        const float x = from[j] + (r->bias ? r->bias[j] : 0.0f);
        *infinite |= (vi){!isfinite(x)};
        if (dtype == WEFT_BFLOAT16)
            ((uint16_t *)(void *)to)[j] = weft_float_to_bfloat16(x);
        else if (dtype == WEFT_FLOAT16)
            ((uint16_t *)(void *)to)[j] = weft_float_to_float16(x);
        else
            ((float *)(void *)to)[j] = add ? x + ((float *)(void *)to)[j] : x;
    }
}

static bool write_result(const cpu_part_result *r)
{
    const int64_t size = r->dtype == WEFT_FLOAT32 ? 4 : 2;
    const float *from = r->from;
    char *to = r->to;
    vi infinite = {0};
    check_read(r->bias, r->n * 4, 0, r->bias != NULL);
    check_read(from, r->n * 4, r->from_row * 4, r->m);
    check_write(to, r->n * size, r->to_row * size, r->m);
    for (int64_t i = 0; i < r->m; i++, from += r->from_row, to += r->to_row * size) {
        if (r->dtype == WEFT_BFLOAT16)
            write_row(r, WEFT_BFLOAT16, false, from, to, &infinite);
        else if (r->dtype == WEFT_FLOAT32 && r->add)
            write_row(r, WEFT_FLOAT32, true, from, to, &infinite);
        else if (r->dtype == WEFT_FLOAT32)
            write_row(r, WEFT_FLOAT32, false, from, to, &infinite);
        else
            write_row(r, WEFT_FLOAT16, false, from, to, &infinite);
    }
    return _mm512_test_epi32_mask((__m512i)infinite, (__m512i)infinite) == 0;
}

void CPU_NAME(weft__fill_amx)(cpu_kernels *table)
{
    table->parts = (cpu_part_kernels){.width = WIDTH,
                                      .step = STEP,
                                      .block = part_block,
                                      .pack_a = pack_parts_a,
                                      .pack_b = pack_parts_b,
                                      .write = write_result,
                                      .needed = parts_needed};
}
