/* backends/cpu/isa/amx_rows.c -- rows of weights times up to 16 rows of x, by AMX tiles.
 *
 * The codes of weights are bfloat16 numbers, and a row of x is the sum of bfloat16 parts
 * (isa/amx.c): so the products of a group's codes are as exact as in float32, and its scale is
 * applied to their sum. 16 rows of weights are the rows of a tile, as they are in memory; dense
 * weights are not even copied. The columns of the other tile are rows of x, or, where they fit, all
 * parts of all rows, whose results are added at the end.
 *
 * While a tile is multiplied, the codes of the next one are decoded, and the sums of the one before
 * are scaled.
 */
#include "backends/cpu/isa/amx.h"
#include "backends/cpu/isa/checked.h"
#include "backends/cpu/isa/group_scales.h"
#include "backends/cpu/isa/transpose.h"

enum {
    MOST_PARTS = 3,
    TOGETHER = 2, /* panels of dense weights */
    BATCH = 8,    /* steps of codes whose scales are read together */
    RING = 4,     /* pairs of decoded steps */
    DISTANCE = 3, /* pairs between decoding and multiplying */
    LEAST_PAIR = 32 /* bytes of codes */
};

/* ---- x -------------------------------------------------------------------------------------- */

/* Tiles for each step: one with all parts of all rows as columns, or one for each part. */
static int rows_tiles(int parts, int m)
{
    return parts * m <= SIDE ? 1 : parts;
}

/* Lane l has element l % (32 / every) * every + l / (32 / every) of a step. */
SIMD __m512i order_of(int every)
{
    const vi even = 2 * lane_numbers(), odd = even + 1;
    const int lanes = STEP / every;
    const vi low = even % lanes * every + even / lanes, high = odd % lanes * every + odd / lanes;
    return (__m512i)(low | high << 16);
}

SIMD void parts_of(weft_dtype dtype, int parts, const void *x, int64_t at, __m512i order, vu *out)
{
    vf a = vload_as(dtype, x, at), b = vload_as(dtype, x, at + LANES);
#pragma GCC unroll 3
    for (int t = 0; t < parts; t++) {
        const vu p = dtype == WEFT_BFLOAT16 ? (vu)a : take_part(&a);
        const vu q = dtype == WEFT_BFLOAT16 ? (vu)b : take_part(&b);
        out[t] = (vu)_mm512_permutexvar_epi16(order, (__m512i)join_along(p, q));
    }
}

/* The sums of the columns of a tile. */
SIMD vf sums_of(const vf *rows)
{
    vf low = {0}, high = {0};
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) {
        low += (vf)((vu)rows[i] << 16);
        high += (vf)((vu)rows[i] & 0xffff0000);
    }
    return low + high;
}

SIMD void write_tile(vf *rows, uint32_t *out, vf *sum)
{
    transpose(rows);
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++)
        vstore((float *)(void *)(out + i * LANES), rows[i]);
    *sum += sums_of(rows);
}

SIMD void pack_step(weft_dtype dtype, int parts, const cpu_part_x *x, int64_t step)
{
    const int64_t size = dtype == WEFT_FLOAT32 ? 4 : 2;
    const int tiles = rows_tiles(parts, x->m);
    uint32_t *out = (uint32_t *)x->tiles + step * tiles * TILE;
    const __m512i order = order_of(x->every);
    vf sum = {0}, rows[MOST_PARTS][SIDE];
    for (int i = 0; i < x->m; i++) {
        vu own[MOST_PARTS];
        parts_of(dtype, parts, (const char *)x->x + i * x->x_row * size, step * STEP, order, own);
#pragma GCC unroll 3
        for (int t = 0; t < parts; t++)
            rows[tiles == 1 ? 0 : t][tiles == 1 ? t * x->m + i : i] = (vf)own[t];
    }
    for (int t = 0; t < tiles; t++) {
        for (int i = tiles == 1 ? parts * x->m : x->m; i < SIDE; i++)
            rows[t][i] = (vf){0};
        write_tile(rows[t], out + t * TILE, &sum);
    }
    vstore(x->sums + step * SIDE, sum);
}

static void rows_pack(const cpu_part_x *x, int64_t begin, int64_t end)
{
    for (int64_t s = begin; s < end; s++) {
        if (x->dtype == WEFT_BFLOAT16)
            pack_step(WEFT_BFLOAT16, 1, x, s);
        else if (x->dtype == WEFT_FLOAT16)
            pack_step(WEFT_FLOAT16, 2, x, s);
        else
            pack_step(WEFT_FLOAT32, 3, x, s);
    }
}

/* ---- Codes as bfloat16 ---------------------------------------------------------------------- */

/* The two steps of pair `index` of the group at p, or of the two groups. */
typedef struct pair_codes {
    __m512i step[2];
} pair_codes;
typedef pair_codes read_pair(const cpu_codes *c, const uint8_t *p, int index);

SIMD __m512i of_numbers(vf low, vf high)
{
    return (__m512i)join_along((vu)low, (vu)high);
}

SIMD __m512i of_integers(vi low, vi high)
{
    return of_numbers(floats(low), floats(high));
}

/* The integers from `first` on, 32 of them; and 16 of them twice. */
SIMD __m512i integers(int first)
{
    return of_integers(lane_numbers() + first, lane_numbers() + first + LANES);
}

SIMD __m512i integers_twice(int first)
{
    return of_integers(lane_numbers() + first, lane_numbers() + first);
}

SIMD __m512i float4(float factor)
{
    const vf values = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    return of_numbers(values * factor, values * factor);
}

SIMD __m512i uneven(void)
{
    const vf values = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return of_numbers(values, values);
}

/* Looks up the lowest five bits of each 16; a table of 16 values has them twice. */
SIMD __m512i look_up(__m512i codes, __m512i table)
{
    return _mm512_permutexvar_epi16(codes, table);
}

/* 16 bits for each quarter, or each half, of a vector. */
SIMD __m512i by_quarters(int a, int b, int c, int d)
{
    const int64_t all = 0x0001000100010001;
    return _mm512_set_epi64(d * all, d * all, c * all, c * all, b * all, b * all, a * all, a * all);
}

/* The nibbles of 16 bytes in the lowest bits: the low nibbles of even bytes, the high ones, and
 * those of odd bytes. */
SIMD __m512i nibbles_16(const uint8_t *p)
{
    const __m512i words = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)p));
    return _mm512_srlv_epi16(words, by_quarters(0, 4, 8, 12));
}

/* Bits of 32 bytes from `at` on, in the lowest bits: of even bytes, then of odd ones. */
SIMD __m512i bits_32(__m512i words, int at)
{
    return _mm512_srlv_epi16(words, by_quarters(at, at, 8 + at, 8 + at));
}

SIMD __m512i words_32(const uint8_t *p)
{
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)p));
}

/* The lowest four bits of low, and above them those of high. */
SIMD __m512i above(__m512i low, __m512i high)
{
    return _mm512_ternarylogic_epi32(_mm512_set1_epi16(15), low, _mm512_slli_epi16(high, 4), 0xca);
}

SIMD pair_codes q8_0_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    const uint8_t *next = p + c->code_group;
    (void)index;
    return (pair_codes){{of_integers(vload_signed(p + 2), vload_signed(p + 2 + LANES)),
                         of_integers(vload_signed(next + 2), vload_signed(next + 2 + LANES))}};
}

/* The second step of a pair of an affine group, or of two of 32 weights. */
SIMD const uint8_t *second(const cpu_codes *c, const uint8_t *p, int bytes)
{
    return p + (c->group == STEP ? c->code_group : bytes);
}

SIMD __m512i bytes_of(const uint8_t *p)
{
    return of_integers(vload_bytes(p), vload_bytes(p + LANES));
}

SIMD pair_codes affine8_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    p += index * 2 * STEP;
    return (pair_codes){{bytes_of(p), bytes_of(second(c, p, STEP))}};
}

SIMD __m512i mxfp8_step(const uint8_t *p)
{
    return of_numbers(float8_values(vload_bytes(p)), float8_values(vload_bytes(p + LANES)));
}

SIMD pair_codes mxfp8_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    (void)index;
    return (pair_codes){{mxfp8_step(p), mxfp8_step(p + c->code_group)}};
}

SIMD pair_codes affine4_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    p += index * STEP;
    return (pair_codes){{look_up(nibbles_16(p), integers_twice(0)),
                         look_up(nibbles_16(second(c, p, STEP / 2)), integers_twice(0))}};
}

SIMD pair_codes mxfp4_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    (void)index;
    return (pair_codes){
        {look_up(nibbles_16(p), float4(1)), look_up(nibbles_16(p + c->code_group), float4(1))}};
}

/* The nibbles of two groups of 8 bytes in the lowest bits, in the order of the elements. */
SIMD __m512i nibbles_in_order(const uint8_t *p, const uint8_t *next)
{
    int64_t first, last;
    memcpy(&first, p, sizeof first);
    memcpy(&last, next, sizeof last);
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_set_epi64x(last, first));
    return _mm512_or_si512(bytes, _mm512_slli_epi32(bytes, 12));
}

SIMD pair_codes nvfp4_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    const int64_t next = c->code_group;
    (void)index;
    return (pair_codes){
        {look_up(nibbles_in_order(p, p + next), float4(1)),
         look_up(nibbles_in_order(p + 2 * next, p + 3 * next), float4(1))}};
}

/* Two groups whose nibbles are `at` bytes after their begin. */
SIMD pair_codes nibbles_of(const cpu_codes *c, const uint8_t *p, int at, __m512i table)
{
    return (pair_codes){
        {look_up(nibbles_16(p + at), table), look_up(nibbles_16(p + c->code_group + at), table)}};
}

SIMD pair_codes q4_0_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    (void)index;
    return nibbles_of(c, p, 2, integers_twice(-8));
}

SIMD pair_codes q4_1_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    (void)index;
    return nibbles_of(c, p, 4, integers_twice(0));
}

SIMD pair_codes iq4_nl_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    (void)index;
    return nibbles_of(c, p, 2, uneven());
}

SIMD pair_codes gguf_mxfp4_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    (void)index;
    return nibbles_of(c, p, 1, float4(2));
}

SIMD pair_codes iq4_xs_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    (void)c;
    p += 8 + index * STEP;
    return (pair_codes){
        {look_up(nibbles_16(p), uneven()), look_up(nibbles_16(p + STEP / 2), uneven())}};
}

/* Codes whose fifth bits are in the four bytes at `fifth`, in the order of the elements. */
SIMD __m512i five_bits(const uint8_t *fifth, const uint8_t *p)
{
    uint32_t bits;
    memcpy(&bits, fifth, sizeof bits);
    const __m256i twice = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)p));
    const __m512i bytes = _mm512_cvtepu8_epi16(twice);
    const __m512i low =
        _mm512_and_si512(_mm512_srlv_epi16(bytes, by_quarters(0, 0, 4, 4)), _mm512_set1_epi16(15));
    return _mm512_mask_add_epi16(low, bits, low, _mm512_set1_epi16(16));
}

SIMD pair_codes q5_0_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    const uint8_t *next = p + c->code_group;
    (void)index;
    return (pair_codes){{look_up(five_bits(p + 2, p + 6), integers(-16)),
                         look_up(five_bits(next + 2, next + 6), integers(-16))}};
}

SIMD pair_codes q5_1_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    const uint8_t *next = p + c->code_group;
    (void)index;
    return (pair_codes){{look_up(five_bits(p + 4, p + 8), integers(0)),
                         look_up(five_bits(next + 4, next + 8), integers(0))}};
}

SIMD pair_codes q4_k_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    const __m512i words = words_32(p + 16 + index * STEP);
    (void)c;
    return (pair_codes){{look_up(bits_32(words, 0), integers_twice(0)),
                         look_up(bits_32(words, 4), integers_twice(0))}};
}

SIMD pair_codes q5_k_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    const __m512i words = words_32(p + 48 + index * STEP), high = words_32(p + 16);
    const __m512i codes[] = {above(bits_32(words, 0), bits_32(high, 2 * index)),
                             above(bits_32(words, 4), bits_32(high, 2 * index + 1))};
    (void)c;
    return (pair_codes){{look_up(codes[0], integers(0)), look_up(codes[1], integers(0))}};
}

/* Bits of 32 bytes from `at` on, in the lowest bits, in the order of the elements. */
SIMD __m512i bits_in_order(__m512i bytes, int at)
{
    return _mm512_srlv_epi16(bytes, _mm512_set1_epi16((short)at));
}

SIMD __m512i bytes_32(const uint8_t *p)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)p));
}

SIMD pair_codes q6_k_pair(const cpu_codes *c, const uint8_t *p, int index)
{
    const __m512i high = bytes_32(p + 128 + index / 2 * STEP);
    const int at = index % 2 * 4;
    pair_codes out;
    (void)c;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        const __m512i low = bits_in_order(bytes_32(p + index / 2 * 64 + i * STEP), at);
        const __m512i codes = above(low, bits_in_order(high, at + i * 2));
        out.step[i] = _mm512_permutex2var_epi16(integers(-32), codes, integers(0));
    }
    return out;
}

/* ---- Products of codes ---------------------------------------------------------------------- */

/* What a scale is for: all weights of a group, or a step or half a step of a superblock. */
typedef enum scale_reach { FOR_HALF, FOR_STEP, FOR_GROUP } scale_reach;

/* order: of the elements of a step (x_order). */
typedef struct codes_type {
    read_scales *scales;
    read_pair *codes;
    scale_reach reach;
    bool superblocks, minima;
} codes_type;

/* 16 rows of weights; after the last, it is read again. */
typedef struct panel {
    const uint8_t *codes[SIDE], *scale[SIDE], *bias[SIDE];
} panel;

static panel panel_of(const cpu_codes *c, int64_t row, int64_t end)
{
    panel p;
    for (int i = 0; i < SIDE; i++) {
        const int64_t r = row + i < end ? row + i : end - 1;
        p.codes[i] = (const uint8_t *)c->codes + r * c->code_row;
        p.scale[i] = (const uint8_t *)c->scales + r * c->scale_row;
        p.bias[i] = (const uint8_t *)c->biases + r * c->scale_row;
    }
    return p;
}

/* For sums of half a step: A has half of the columns, B half of the rows. */
SIMD void configure_halves(void)
{
    tile_config config = {.palette = 1};
    for (int i = 0; i < TILES; i++) {
        config.bytes[i] = i == 4 ? TILE_LINE / 2 : TILE_LINE;
        config.rows[i] = i > 4 ? SIDE / 2 : SIDE;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
}

/* What is constant in a product of codes. halves: sums of a step; per_scale: steps. */
typedef struct codes_plan {
    const codes_type *type;
    const cpu_codes *c;
    int halves;
    int64_t per_group, per_scale, step_bytes, ahead;
} codes_plan;

SIMD codes_plan plan_of(const codes_type *t, const cpu_codes *c)
{
    const int64_t per_group = t->superblocks ? BATCH : c->group > STEP ? c->group / STEP : 1;
    return (codes_plan){.type = t,
                        .c = c,
                        .halves = t->reach == FOR_HALF ? 2 : 1,
                        .per_group = per_group,
                        .per_scale = t->reach == FOR_GROUP ? per_group : 1,
                        .step_bytes = c->code_group * (c->group < STEP ? STEP / c->group : 1),
                        .ahead = SIDE * c->code_row};
}

/* Steps s and s + 1, into a tile each. */
SIMD void decode(const codes_plan *d, const panel *p, int64_t s, uint32_t *out)
{
    const int64_t group = s / d->per_group, at = group * d->step_bytes;
    const int index = (int)((s - group * d->per_group) / 2);
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) {
        const uint8_t *from = p->codes[i] + at;
        __builtin_prefetch(from + index * LEAST_PAIR + d->ahead, 0, 2);
        const pair_codes pair = d->type->codes(d->c, from, index);
        _mm512_store_si512(out + i * LANES, pair.step[0]);
        _mm512_store_si512(out + TILE + i * LANES, pair.step[1]);
    }
}

/* The tile at `a`, or its halves, times `tiles` tiles of x. */
SIMD void multiply(int tiles, int halves, const uint32_t *a, const uint32_t *x, float *sums)
{
#pragma GCC unroll 2
    for (int h = 0; h < halves; h++, a += LANES / 2, x += TILE / 2, sums += TILE) {
        ZERO(0);
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
        STORE(0, sums, TILE_LINE);
    }
}

/* Scales of `rows` rows of the batch of steps that begins with s. */
SIMD void read_batch(const codes_plan *d, const panel *p, int64_t s, int64_t steps, int from,
                     int rows, group_scales *scales)
{
    const int64_t n = steps - s < BATCH ? steps - s : BATCH;
    const int64_t at = s / d->per_group * d->c->scale_group * (d->type->superblocks ? 1 : d->halves);
    for (int i = from; i < from + rows; i++)
        d->type->scales(d->c, p->scale[i] + at, p->bias[i] + at,
                        (n * d->halves + d->per_scale - 1) / d->per_scale, &scales[i]);
}

SIMD void add_scaled(bool minima, const float *sums, const group_scales *scales, int64_t at,
                     vf x_sums, vf *all)
{
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) {
        all[i] += vload(sums + i * LANES) * vset(scales[i].s[at]);
        if (minima)
            all[i] += x_sums * vset(scales[i].b[at]);
    }
}

/* all[i] += the sums of row i, of steps s and s + 1. */
SIMD void add_pair(const codes_plan *d, int64_t s, const float *sums, const group_scales *scales,
                   const float *x_sums, vf *all)
{
#pragma GCC unroll 4
    for (int64_t h = 0; h < 2 * d->halves; h++) {
        const int64_t at = s % BATCH * d->halves + h;
        add_scaled(d->type->minima, sums + h * TILE, scales, at / d->per_scale,
                   d->type->minima ? vload(x_sums + (s + h) * SIDE) : (vf){0}, all);
    }
}

/* out[i]: the sums of row i of the panel, for each column of x. */
SIMD void codes_panel(const codes_plan *d, int tiles, const cpu_part_x *x, const panel *p, vf *out)
{
    const int64_t steps = x->k / STEP, sums_of_pair = 2 * d->halves * TILE;
    _Alignas(64) uint32_t a[RING][2 * TILE];
    _Alignas(64) float sums[2 * 4 * TILE];
    group_scales scales[2][SIDE];
    vf all[SIDE];
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++)
        all[i] = (vf){0};
    read_batch(d, p, 0, steps, 0, SIDE, scales[0]);
    for (int64_t s = 0; s < 2 * DISTANCE && s < steps; s += 2)
        decode(d, p, s, a[s / 2 % RING]);
    for (int64_t s = 0; s < steps; s += 2) {
        const uint32_t *step = x->tiles + s * tiles * TILE, *from = a[s / 2 % RING];
        float *to = sums + s / 2 % 2 * sums_of_pair;
        multiply(tiles, d->halves, from, step, to);
        multiply(tiles, d->halves, from + TILE, step + tiles * TILE, to + d->halves * TILE);
        if (s + 2 * DISTANCE < steps)
            decode(d, p, s + 2 * DISTANCE, a[(s / 2 + DISTANCE) % RING]);
        if (s > 0)
            add_pair(d, s - 2, sums + (s / 2 + 1) % 2 * sums_of_pair,
                     scales[(s - 2) / BATCH % 2], x->sums, all);
        const int64_t batch = s / BATCH, next = (batch + 1) * BATCH;
        if (next < steps) /* a part of the rows for each pair */
            read_batch(d, p, next, steps, (int)(s % BATCH / 2 * (2 * SIDE / BATCH)), 2 * SIDE / BATCH,
                       scales[(batch + 1) % 2]);
    }
    add_pair(d, steps - 2, sums + (steps / 2 + 1) % 2 * sums_of_pair,
             scales[(steps - 2) / BATCH % 2], x->sums, all);
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++)
        out[i] = all[i];
}

/* Columns of results become rows of y, of `n` columns. */
static void write_panel(const cpu_part_rows *d, int tiles, vf *all, int64_t row, int64_t n)
{
    const int parts = tiles == 1 ? d->x.parts : 1, m = d->x.m;
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

typedef void rows_function(const cpu_part_rows *d);

SIMD void codes_rows(const codes_type *t, int tiles, const cpu_part_rows *d)
{
    const codes_plan plan = plan_of(t, d->codes);
    if (t->reach == FOR_HALF)
        configure_halves();
    else
        configure();
    for (int64_t row = d->first; row < d->first + d->n; row += SIDE) {
        const int64_t rest = d->first + d->n - row;
        const panel p = panel_of(d->codes, row, row + (rest < SIDE ? rest : SIDE));
        vf all[SIDE];
        codes_panel(&plan, tiles, &d->x, &p, all);
        write_panel(d, tiles, all, row, rest < SIDE ? rest : SIDE);
    }
    RELEASE();
}

#define ROWS(NAME, TILES_OF_X, ...)                                                                \
    static __attribute__((noinline)) void NAME##_rows_##TILES_OF_X(const cpu_part_rows *d)         \
    {                                                                                              \
        const codes_type t = {__VA_ARGS__};                                                        \
        codes_rows(&t, TILES_OF_X, d);                                                             \
    }
#define TYPE(NAME, SCALES, REACH, SUPERBLOCKS, MINIMA)                                             \
    ROWS(NAME, 1, SCALES, NAME##_pair, REACH, SUPERBLOCKS, MINIMA)                                 \
    ROWS(NAME, 2, SCALES, NAME##_pair, REACH, SUPERBLOCKS, MINIMA)                                 \
    ROWS(NAME, 3, SCALES, NAME##_pair, REACH, SUPERBLOCKS, MINIMA)
TYPE(affine4, affine_scales, FOR_GROUP, false, true)
TYPE(affine8, affine_scales, FOR_GROUP, false, true)
TYPE(mxfp4, mx_scales, FOR_STEP, false, false)
TYPE(mxfp8, mx_scales, FOR_STEP, false, false)
TYPE(nvfp4, nv_scales, FOR_HALF, false, false)
TYPE(q4_0, half_scales, FOR_STEP, false, false)
TYPE(q4_1, half_minima, FOR_STEP, false, true)
TYPE(q5_0, half_scales, FOR_STEP, false, false)
TYPE(q5_1, half_minima, FOR_STEP, false, true)
TYPE(q8_0, half_scales, FOR_STEP, false, false)
TYPE(q4_k, k_scales, FOR_STEP, true, true)
TYPE(q5_k, k_scales, FOR_STEP, true, true)
TYPE(q6_k, q6_scales, FOR_HALF, true, false)
TYPE(iq4_nl, half_scales, FOR_STEP, false, false)
TYPE(iq4_xs, xs_scales, FOR_STEP, true, false)
TYPE(gguf_mxfp4, gguf_mx_scales, FOR_STEP, false, false)
#undef TYPE
#undef ROWS

#define ENTRY(NAME) {[1] = NAME##_rows_1, [2] = NAME##_rows_2, [3] = NAME##_rows_3}
static rows_function *const of_affine[][4] = {ENTRY(affine4), ENTRY(affine8)};
static rows_function *const of_kind[][4] = {
    [WEFT_ENCODING_MXFP4] = ENTRY(mxfp4),   [WEFT_ENCODING_MXFP8] = ENTRY(mxfp8),
    [WEFT_ENCODING_NVFP4] = ENTRY(nvfp4),
    [WEFT_ENCODING_Q4_0] = ENTRY(q4_0),     [WEFT_ENCODING_Q4_1] = ENTRY(q4_1),
    [WEFT_ENCODING_Q5_0] = ENTRY(q5_0),     [WEFT_ENCODING_Q5_1] = ENTRY(q5_1),
    [WEFT_ENCODING_Q8_0] = ENTRY(q8_0),     [WEFT_ENCODING_Q4_K] = ENTRY(q4_k),
    [WEFT_ENCODING_Q5_K] = ENTRY(q5_k),     [WEFT_ENCODING_Q6_K] = ENTRY(q6_k),
    [WEFT_ENCODING_IQ4_NL] = ENTRY(iq4_nl), [WEFT_ENCODING_IQ4_XS] = ENTRY(iq4_xs),
    [WEFT_ENCODING_GGUF_MXFP4] = ENTRY(gguf_mxfp4),
};
#undef ENTRY

static rows_function *const *functions_of(const cpu_codes *c)
{
    static rows_function *const none[4] = {NULL};
    if (c->kind == WEFT_ENCODING_AFFINE)
        return c->bits == 4 ? of_affine[0] : c->bits == 8 ? of_affine[1] : none;
    return (size_t)c->kind < sizeof of_kind / sizeof *of_kind ? of_kind[c->kind] : none;
}

static int rows_order(const cpu_codes *c)
{
    if (functions_of(c)[1] == NULL)
        return 0;
    switch (c->kind) {
    case WEFT_ENCODING_AFFINE:
        return c->bits == 4 ? 4 : 1;
    case WEFT_ENCODING_MXFP4:
        return 4;
    case WEFT_ENCODING_Q4_0:
    case WEFT_ENCODING_Q4_1:
    case WEFT_ENCODING_Q4_K:
    case WEFT_ENCODING_Q5_K:
    case WEFT_ENCODING_IQ4_NL:
    case WEFT_ENCODING_IQ4_XS:
    case WEFT_ENCODING_GGUF_MXFP4:
        return 2;
    default:
        return 1;
    }
}

/* ---- Dense weights -------------------------------------------------------------------------- */

/* Two panels of whole rows in tiles 0 and 1. */
SIMD void dense_panels(int tiles, const cpu_part_rows *d, int64_t row, float *sums)
{
    const int64_t stride = d->w_row * 2, steps = d->x.k / STEP;
    const uint32_t *x = (const uint32_t *)d->x.tiles;
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
    const uint32_t *x = (const uint32_t *)d->x.tiles;
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
            vf all[SIDE];
            for (int i = 0; i < SIDE; i++)
                all[i] = vload(sums + p * TILE + i * LANES);
            write_panel(d, tiles, all, row, n);
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
    const int tiles = rows_tiles(d->x.parts, d->x.m);
    if (d->codes)
        functions_of(d->codes)[tiles](d);
    else
        dense_rows(d, tiles);
}

void CPU_NAME(weft__fill_amx_rows)(cpu_kernels *table)
{
    table->parts.rows = (cpu_part_rows_kernels){
        .most = SIDE, .tiles = rows_tiles, .order = rows_order, .pack = rows_pack, .run = rows_run};
}
