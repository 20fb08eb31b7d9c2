/* backends/cpu/isa/amx_rows.c -- rows of quantized weights times up to 24 rows of x, by AMX tiles.
 *
 * The codes of weights are bfloat16 numbers, and a row of x is the sum of bfloat16 parts
 * (isa/amx.c): so the products of a group's codes are as exact as in float32, and its scale is
 * applied to their sum. 16 rows of weights are the columns of a tile: four bytes of each row, whose
 * codes are looked up as pairs of bfloat16 numbers, become rows of it. The elements of x are
 * arranged in the order of the codes. Codes of 8 bits are the sum of two numbers, in two tiles.
 *
 * While a tile is multiplied, the codes of a later one are decoded, and the sums of the one before
 * are scaled.
 */
#include "backends/cpu/isa/amx_rows.h"
#include "backends/cpu/isa/amx_codes.h"
#include "backends/cpu/isa/checked.h"

enum {
    MOST_PARTS = 3,
    RING = 4,       /* pairs of decoded steps */
    DISTANCE = 3,   /* pairs between decoding and multiplying */
    LEAST_ROWS = 5, /* for fewer, gemv_codes.c is as fast */
    PAIR = 4 * TILE,
    PAGE_AHEAD = 5 << 10 /* bytes: pages whose addresses are translated before they are read */
};

/* ---- x -------------------------------------------------------------------------------------- */

/* The order of the elements of a step, in pairs: as bytes of four, the first and third before the
 * second and fourth; as the low nibbles of such bytes, with the high ones after 16 elements; or as
 * eight nibbles, the first and fifth, the second and sixth, ... */
typedef enum x_order { BY_BYTES, BY_HALVES, BY_NIBBLES } x_order;

SIMD __m512i order_of(x_order order)
{
    const vi row = lane_numbers(), four = row / 4 * 4, at = row % 4;
    const vi first = order == BY_BYTES    ? row / 2 * 4 + row % 2
                     : order == BY_HALVES ? at % 2 * 16 + four + at / 2
                                          : row / 4 * 8 + at;
    return (__m512i)(first | (first + (order == BY_NIBBLES ? 4 : 2)) << 16);
}

/* All parts of all rows, or where these are more than a tile has, a part. */
SIMD bool stacked(const cpu_part_x *x)
{
    return x->parts * x->m <= SIDE;
}

/* Rows of sums, of which several may belong to a row of x. */
SIMD int rows_of_sums(const cpu_part_x *x)
{
    return stacked(x) ? x->parts * x->m : x->m;
}

SIMD uint32_t *x_tiles(const cpu_part_x *x, int64_t step)
{
    return (uint32_t *)(void *)x->memory + step * x->parts * x->m * LANES;
}

/* The sums of each step, CPU_PART_ROWS of them. */
SIMD float *x_sums(const cpu_part_x *x, int64_t step)
{
    return x->memory + x->k / STEP * x->parts * x->m * LANES + step * CPU_PART_ROWS;
}

int64_t CPU_NAME(weft__code_rows_floats)(const cpu_part_x *x)
{
    return x->k / STEP * (x->parts * x->m * LANES + CPU_PART_ROWS);
}

SIMD float sum_of_part(vu part)
{
    return vsum((vf)(part << 16) + (vf)(part & 0xffff0000));
}

SIMD void pack_step(weft_dtype dtype, int parts, x_order order, const cpu_part_x *x, int64_t step)
{
    const int64_t size = dtype == WEFT_FLOAT32 ? 4 : 2;
    uint32_t *to = x_tiles(x, step);
    float *sums = x_sums(x, step);
    memset(sums, 0, CPU_PART_ROWS * sizeof *sums);
    for (int i = 0; i < x->m; i++) {
        vu own[MOST_PARTS];
        divide(dtype, parts, (const char *)x->x + i * x->x_row * size, step * STEP, own);
#pragma GCC unroll 3
        for (int t = 0; t < parts; t++) {
            const __m512i part = _mm512_permutexvar_epi16(order_of(order), (__m512i)own[t]);
            _mm512_storeu_si512(to + (t * x->m + i) * LANES, part);
            sums[stacked(x) ? t * x->m + i : i] += sum_of_part(own[t]);
        }
    }
}

/* ---- Products -------------------------------------------------------------------------------- */

/* What a scale is for: half a step, a step, or a group of several. */
typedef enum scale_reach { FOR_HALF, FOR_STEP, FOR_GROUP } scale_reach;

typedef struct codes_type {
    read_batch *scales;
    read_pair *codes;
    x_order order;
    scale_reach reach;
    bool superblocks, split, minima; /* split: a step has two tiles */
} codes_type;

typedef struct codes_plan {
    const codes_type *type;
    const cpu_codes *c;
    int halves; /* sums of a step */
    int tiles;  /* of weights, for a step */
    int64_t steps, per_group, per_scale;
    int64_t pair_bytes; /* of all rows of a panel */
} codes_plan;

SIMD codes_plan plan_of(const codes_type *t, const cpu_part_rows *d)
{
    const cpu_codes *c = d->x.codes;
    const int64_t steps = d->x.k / STEP;
    const int64_t per_group = t->superblocks ? BATCH : c->group / STEP;
    return (codes_plan){.type = t,
                        .c = c,
                        .halves = t->reach == FOR_HALF ? 2 : 1,
                        .tiles = t->split ? 2 : 1,
                        .steps = steps,
                        .per_group = per_group,
                        .per_scale = t->reach == FOR_GROUP ? per_group : 1,
                        .pair_bytes = 2 * SIDE * c->code_row / steps};
}

static panel panel_of(const cpu_codes *c, int64_t row, int64_t end)
{
    const uint8_t *codes = (const uint8_t *)c->codes + row * c->code_row;
    panel p = {.later = row + SIDE < end ? codes + SIDE * c->code_row : codes};
    for (int i = 0; i < SIDE; i++) {
        const int64_t r = row + i < end ? row + i : end - 1;
        p.codes[i] = (const uint8_t *)c->codes + r * c->code_row;
        p.scale[i] = (const uint8_t *)c->scales + r * c->scale_row;
        p.bias[i] = (const uint8_t *)c->biases + r * c->scale_row;
    }
    return p;
}

/* Registers 0 and 1: sums of the first 16 rows of x and of the others; 4 and 5: these rows; 6 and
 * 7: weights. For sums of half a step, half of the columns and of the rows of weights. */
SIMD void configure_rows(int rows, int halves)
{
    tile_config config = {.palette = 1};
    const int first = rows < SIDE ? rows : SIDE, others = rows > SIDE ? rows - SIDE : 1;
    for (int i = 0; i < TILES; i++) {
        config.bytes[i] = (uint16_t)(i == 4 || i == 5 ? TILE_LINE / halves : TILE_LINE);
        config.rows[i] = (uint8_t)(i >= 6 ? SIDE / halves : i % 4 == 1 ? others : first);
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
}

/* One sequence of addresses, which hardware prefetching follows. */
SIMD void prefetch(const uint8_t *p, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += TILE_LINE)
        __builtin_prefetch(p + at, 0, 2);
}

SIMD void decode(const codes_plan *d, const panel *p, int64_t s, uint32_t *out)
{
    const int64_t group = s / d->per_group;
    d->type->codes(d->c, p, group * d->c->code_group, (int)(s - group * d->per_group) / 2, out);
}

/* The sums of a step, or of its halves, CPU_PART_ROWS rows each. `times`: tiles of x. */
SIMD void multiply(const codes_plan *d, int rows, int times, int64_t row_dwords, const uint32_t *x,
                   const uint32_t *w, float *sums)
{
#pragma GCC unroll 2
    for (int h = 0; h < d->halves; h++) {
        const uint32_t *part = x + h * LANES / 2;
        ZERO(0);
        if (rows > SIDE)
            ZERO(1);
        LOAD(6, w + h * TILE / 2, TILE_LINE);
        if (d->tiles > 1)
            LOAD(7, w + TILE, TILE_LINE);
        for (int t = 0; t < times; t++, part += row_dwords) {
            LOAD(4, part, TILE_LINE);
            ADD_PRODUCT(0, 4, 6);
            if (d->tiles > 1)
                ADD_PRODUCT(0, 4, 7);
            if (rows > SIDE) {
                LOAD(5, part + TILE, TILE_LINE);
                ADD_PRODUCT(1, 5, 6);
                if (d->tiles > 1)
                    ADD_PRODUCT(1, 5, 7);
            }
        }
        STORE(0, sums + h * CPU_PART_ROWS * LANES, TILE_LINE);
        if (rows > SIDE)
            STORE(1, sums + h * CPU_PART_ROWS * LANES + TILE, TILE_LINE);
    }
}

/* all[i] += the sums of row i, of steps s and s + 1. */
SIMD void add_pair(const codes_plan *d, int rows, int64_t s, const float *sums,
                   const batch_scales *scales, const float *x, vf *all)
{
#pragma GCC unroll 4
    for (int64_t h = 0; h < 2 * d->halves; h++, sums += CPU_PART_ROWS * LANES) {
        const int64_t at = (s % BATCH * d->halves + h) / d->per_scale;
        const vf scale = vload(scales->s[at]);
        const vf minimum = d->type->minima ? vload(scales->b[at]) : (vf){0};
#pragma GCC unroll 24
        for (int i = 0; i < rows; i++) {
            all[i] += vload(sums + i * LANES) * scale;
            if (d->type->minima)
                all[i] += vset(x[(s + h) * CPU_PART_ROWS + i]) * minimum;
        }
    }
}

SIMD void read_scales_of(const codes_plan *d, const panel *p, int64_t s, batch_scales *out)
{
    const int64_t n = d->steps - s < BATCH ? d->steps - s : BATCH;
    d->type->scales(d->c, p, s / d->per_group * d->c->scale_group,
                    (n * d->halves + d->per_scale - 1) / d->per_scale, out);
}

/* out[i]: the sums of row i of x. rows is constant where this is inlined. */
SIMD void codes_panel(const codes_plan *d, int rows, const cpu_part_x *x, panel *p, vf *out)
{
    enum { SUMS = 4 * CPU_PART_ROWS * LANES };
    const int64_t steps = d->steps, step_dwords = x->parts * x->m * LANES;
    const int times = stacked(x) ? 1 : x->parts;
    _Alignas(64) uint32_t w[RING][PAIR];
    _Alignas(64) float sums[2][SUMS];
    _Alignas(64) batch_scales scales[2];
    const float *x_sum = x_sums(x, 0);
    vf all[CPU_PART_ROWS];
#pragma GCC unroll 24
    for (int i = 0; i < rows; i++)
        all[i] = (vf){0};
    memset(sums, 0, sizeof sums); /* of rows that are added but not computed */
    read_scales_of(d, p, 0, &scales[0]);
    for (int64_t s = 0; s < 2 * DISTANCE && s < steps; s += 2)
        decode(d, p, s, w[s / 2 % RING]);
    for (int64_t s = 0; s < steps; s += 2) {
        const uint32_t *from = w[s / 2 % RING], *x_step = x_tiles(x, s);
        float *to = sums[s / 2 % 2];
        multiply(d, rows, times, x->m * LANES, x_step, from, to);
        multiply(d, rows, times, x->m * LANES, x_step + step_dwords, from + d->tiles * TILE,
                 to + d->halves * CPU_PART_ROWS * LANES);
        if (s + 2 * DISTANCE < steps)
            decode(d, p, s + 2 * DISTANCE, w[(s / 2 + DISTANCE) % RING]);
        p->later += d->pair_bytes;
        __builtin_prefetch(p->later + PAGE_AHEAD, 0, 2);
        if (s > 0)
            add_pair(d, rows, s - 2, sums[(s / 2 + 1) % 2], &scales[(s - 2) / BATCH % 2], x_sum,
                     all);
        if (s % BATCH == 0 && s + BATCH < steps)
            read_scales_of(d, p, s + BATCH, &scales[(s / BATCH + 1) % 2]);
    }
    add_pair(d, rows, steps - 2, sums[(steps / 2 + 1) % 2], &scales[(steps - 2) / BATCH % 2], x_sum,
             all);
#pragma GCC unroll 24
    for (int i = 0; i < rows; i++)
        out[i] = all[i];
}

static void write_panel(const cpu_part_rows *d, const vf *all, int64_t row, int64_t n)
{
    const int parts = stacked(&d->x) ? d->x.parts : 1, m = d->x.m;
    for (int i = 0; i < m; i++) {
        vf sum = all[i];
        for (int t = 1; t < parts; t++)
            sum += all[t * m + i];
        if (d->bias)
            sum += n == LANES ? vload(d->bias + row) : vload_part(d->bias + row, n);
        if (n == LANES)
            vstore(d->y + i * d->y_row + row, sum);
        else
            vstore_part(d->y + i * d->y_row + row, sum, n);
    }
}

SIMD void codes_rows(const codes_type *t, int rows, const cpu_part_rows *d)
{
    const codes_plan plan = plan_of(t, d);
    const int64_t end = d->first + d->n, bytes = plan.c->code_row;
    configure_rows(rows_of_sums(&d->x), plan.halves);
    prefetch((const uint8_t *)plan.c->codes + d->first * bytes,
             (d->n < SIDE ? d->n : SIDE) * bytes);
    for (int64_t row = d->first; row < end; row += SIDE) {
        panel p = panel_of(plan.c, row, end);
        vf all[CPU_PART_ROWS];
        codes_panel(&plan, rows, &d->x, &p, all);
        write_panel(d, all, row, end - row < SIDE ? end - row : SIDE);
    }
    RELEASE();
}

/* ---- Functions for each type ---------------------------------------------------------------- */

typedef void rows_function(const cpu_part_rows *d);
typedef struct rows_functions {
    rows_function *rows[CPU_PART_ROWS / 8 + 1]; /* by eights of sums */
    x_order order;
    int least;
} rows_functions;

#define ROWS(NAME, N, ...)                                                                         \
    static __attribute__((noinline)) void NAME##_rows_##N(const cpu_part_rows *d)                  \
    {                                                                                              \
        const codes_type t = {__VA_ARGS__};                                                        \
        codes_rows(&t, N, d);                                                                      \
    }
#define TYPE(NAME, SCALES, ORDER, REACH, SUPERBLOCKS, SPLIT, MINIMA)                               \
    ROWS(NAME, 8, batch_##SCALES, NAME##_pair, ORDER, REACH, SUPERBLOCKS, SPLIT, MINIMA)           \
    ROWS(NAME, 16, batch_##SCALES, NAME##_pair, ORDER, REACH, SUPERBLOCKS, SPLIT, MINIMA)          \
    ROWS(NAME, 24, batch_##SCALES, NAME##_pair, ORDER, REACH, SUPERBLOCKS, SPLIT, MINIMA)          \
    static const rows_functions NAME##_functions = {                                               \
        {[1] = NAME##_rows_8, NAME##_rows_16, NAME##_rows_24},                                     \
        ORDER,                                                                                     \
        (SPLIT) || (REACH) == FOR_HALF ? CPU_GEMV_ROWS + 1 : LEAST_ROWS};
TYPE(affine4, affine_scales, BY_NIBBLES, FOR_GROUP, false, false, true)
TYPE(affine8, affine_scales, BY_BYTES, FOR_GROUP, false, true, true)
TYPE(mxfp4, mx_scales, BY_NIBBLES, FOR_STEP, false, false, false)
TYPE(q4_0, half_scales, BY_HALVES, FOR_STEP, false, false, false)
TYPE(q4_1, half_minima, BY_HALVES, FOR_STEP, false, false, true)
TYPE(q8_0, half_scales, BY_BYTES, FOR_STEP, false, true, false)
TYPE(q4_k, k_scales, BY_BYTES, FOR_STEP, true, false, true)
TYPE(q5_k, k_scales, BY_BYTES, FOR_STEP, true, false, true)
TYPE(q6_k, q6_scales, BY_BYTES, FOR_HALF, true, false, false)
TYPE(iq4_nl, half_scales, BY_HALVES, FOR_STEP, false, false, false)
TYPE(iq4_xs, xs_scales, BY_HALVES, FOR_STEP, true, false, false)
TYPE(gguf_mxfp4, gguf_mx_scales, BY_HALVES, FOR_STEP, false, false, false)
#undef TYPE
#undef ROWS

/* NULL: there are none for these codes. */
static const rows_functions *functions_of(const cpu_codes *c)
{
    static const rows_functions *const of_kind[] = {
        [WEFT_ENCODING_MXFP4] = &mxfp4_functions,
        [WEFT_ENCODING_Q4_0] = &q4_0_functions,
        [WEFT_ENCODING_Q4_1] = &q4_1_functions,
        [WEFT_ENCODING_Q8_0] = &q8_0_functions,
        [WEFT_ENCODING_Q4_K] = &q4_k_functions,
        [WEFT_ENCODING_Q5_K] = &q5_k_functions,
        [WEFT_ENCODING_Q6_K] = &q6_k_functions,
        [WEFT_ENCODING_IQ4_NL] = &iq4_nl_functions,
        [WEFT_ENCODING_IQ4_XS] = &iq4_xs_functions,
        [WEFT_ENCODING_GGUF_MXFP4] = &gguf_mxfp4_functions,
    };
    if (c->kind == WEFT_ENCODING_AFFINE)
        return c->bits == 4 ? &affine4_functions : c->bits == 8 ? &affine8_functions : NULL;
    return (size_t)c->kind < sizeof of_kind / sizeof *of_kind ? of_kind[c->kind] : NULL;
}

int CPU_NAME(weft__code_rows_least)(const cpu_codes *c)
{
    const rows_functions *functions = functions_of(c);
    return functions ? functions->least : 0;
}

void CPU_NAME(weft__code_rows_pack)(const cpu_part_x *x, int64_t begin, int64_t end)
{
    check_write(x_tiles(x, begin), (char *)x_tiles(x, end) - (char *)x_tiles(x, begin), 0, 1);
    check_write(x_sums(x, begin), (end - begin) * CPU_PART_ROWS * 4, 0, 1);
    const x_order order = functions_of(x->codes)->order;
    for (int64_t s = begin; s < end; s++) {
        if (x->dtype == WEFT_BFLOAT16)
            pack_step(WEFT_BFLOAT16, 1, order, x, s);
        else if (x->dtype == WEFT_FLOAT16)
            pack_step(WEFT_FLOAT16, 2, order, x, s);
        else
            pack_step(WEFT_FLOAT32, 3, order, x, s);
    }
}

void CPU_NAME(weft__code_rows_run)(const cpu_part_rows *d)
{
    const cpu_codes *c = d->x.codes;
    const int64_t groups = d->x.k / c->group, codes = (groups - 1) * c->code_group;
    const int64_t scales = groups * c->scale_group;
    check_read(c->codes + d->first * c->code_row, codes + c->group * c->bits / 8, c->code_row,
               d->n);
    check_read(c->scales + d->first * c->scale_row, scales, c->scale_row, d->n);
    check_read(d->x.memory, CPU_NAME(weft__code_rows_floats)(&d->x) * 4, 0, 1);
    check_write(d->y + d->first, d->n * 4, d->y_row * 4, d->x.m);
    functions_of(d->x.codes)->rows[(rows_of_sums(&d->x) + 7) / 8](d);
}
