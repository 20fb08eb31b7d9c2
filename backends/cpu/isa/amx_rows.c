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
#include "backends/cpu/isa/group_scales.h"
#include "backends/cpu/isa/transpose.h"

enum {
    MOST_PARTS = 3,
    BATCH = 8,    /* steps whose scales are read together */
    RING = 4,     /* pairs of decoded steps */
    DISTANCE = 3, /* pairs between decoding and multiplying */
    PAIR = 4 * TILE
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

/* The sums of each step, MOST_SUMS of them. */
SIMD float *x_sums(const cpu_part_x *x, int64_t step)
{
    return x->memory + x->k / STEP * x->parts * x->m * LANES + step * MOST_SUMS;
}

int64_t CPU_NAME(weft__code_rows_floats)(const cpu_part_x *x)
{
    return x->k / STEP * (x->parts * x->m * LANES + MOST_SUMS);
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
    memset(sums, 0, MOST_SUMS * sizeof *sums);
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

/* ---- Codes as tiles of bfloat16 -------------------------------------------------------------- */

/* 16 rows of weights; after the last, it is read again. */
typedef struct panel {
    const uint8_t *codes[SIDE], *scale[SIDE], *bias[SIDE];
    const uint8_t *next; /* the codes of the next panel; NULL after the last one */
} panel;

/* The tiles of two steps: pair `index` of the groups `at` bytes after the begin of each row. */
typedef void read_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out);

/* 16 bytes of each row: lane r of v[j] has the four from 4 j on of row r. */
SIMD void load_columns(const panel *p, int64_t at, __m512i *v)
{
    __m512i q[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const __m128i first = _mm_loadu_si128((const void *)(p->codes[i] + at));
        q[i] = _mm512_castsi128_si512(first);
        q[i] = _mm512_inserti32x4(q[i], _mm_loadu_si128((const void *)(p->codes[i + 4] + at)), 1);
        q[i] = _mm512_inserti32x4(q[i], _mm_loadu_si128((const void *)(p->codes[i + 8] + at)), 2);
        q[i] = _mm512_inserti32x4(q[i], _mm_loadu_si128((const void *)(p->codes[i + 12] + at)), 3);
    }
    const __m512i low = _mm512_unpacklo_epi32(q[0], q[1]), high = _mm512_unpackhi_epi32(q[0], q[1]);
    const __m512i low2 = _mm512_unpacklo_epi32(q[2], q[3]);
    const __m512i high2 = _mm512_unpackhi_epi32(q[2], q[3]);
    v[0] = _mm512_unpacklo_epi64(low, low2);
    v[1] = _mm512_unpackhi_epi64(low, low2);
    v[2] = _mm512_unpacklo_epi64(high, high2);
    v[3] = _mm512_unpackhi_epi64(high, high2);
}

SIMD __m512i of_numbers(vf low, vf high)
{
    return (__m512i)join_along((vu)low, (vu)high);
}

/* The multiples of `factor` from that of `first` on, 32 of them; and 16 of them twice. */
SIMD __m512i multiples(int first, float factor)
{
    return of_numbers(floats(lane_numbers() + first) * factor,
                      floats(lane_numbers() + first + LANES) * factor);
}

SIMD __m512i multiples_twice(int first, float factor)
{
    const vf values = floats(lane_numbers() + first) * factor;
    return of_numbers(values, values);
}

/* The multiples of 16 from -8 to 7, in the order of a nibble with a sign. */
SIMD __m512i signed_sixteens(void)
{
    const vf values = floats((lane_numbers() ^ 8) - 8) * 16;
    return of_numbers(values, values);
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
SIMD void look_up(__m512i codes, __m512i table, uint32_t *out)
{
    _mm512_store_si512(out, _mm512_permutexvar_epi16(codes, table));
}

/* A step of 16 bytes of nibbles (BY_HALVES or BY_NIBBLES). */
SIMD void nibbles_step(const panel *p, int64_t at, __m512i table, uint32_t *out)
{
    __m512i v[4];
    load_columns(p, at, v);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
#pragma GCC unroll 4
        for (int s = 0; s < 4; s++)
            look_up(_mm512_srli_epi16(v[j], (unsigned)s * 4), table, out + (4 * j + s) * LANES);
}

/* Two groups whose nibbles are `from` bytes after their begin. */
SIMD void nibbles_of(const cpu_codes *c, const panel *p, int64_t at, __m512i table, uint32_t *out)
{
    nibbles_step(p, at, table, out);
    nibbles_step(p, at + c->code_group, table, out + TILE);
}

/* Two tiles: the low nibbles of 32 bytes, and the high ones (BY_BYTES). */
SIMD void bytes_step(const panel *p, int64_t at, __m512i low, __m512i high, uint32_t *out)
{
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        __m512i v[4];
        load_columns(p, at + 16 * half, v);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++, out += 2 * LANES) {
            look_up(v[j], low, out);
            look_up(_mm512_srli_epi16(v[j], 8), low, out + LANES);
            look_up(_mm512_srli_epi16(v[j], 4), high, out + TILE);
            look_up(_mm512_srli_epi16(v[j], 12), high, out + TILE + LANES);
        }
    }
}

SIMD void q8_0_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    (void)index;
    bytes_step(p, at + 2, multiples_twice(0, 1), signed_sixteens(), out);
    bytes_step(p, at + c->code_group + 2, multiples_twice(0, 1), signed_sixteens(), out + 2 * TILE);
}

/* Where the second step of a pair begins: in the same affine group, or in the next of 32 weights. */
SIMD int64_t second(const cpu_codes *c, int64_t at, int64_t bytes)
{
    return at + (c->group == STEP ? c->code_group : bytes);
}

SIMD void affine8_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    const __m512i low = multiples_twice(0, 1), high = multiples_twice(0, 16);
    at += index * 2 * STEP;
    bytes_step(p, at, low, high, out);
    bytes_step(p, second(c, at, STEP), low, high, out + 2 * TILE);
}

SIMD void affine4_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    at += index * STEP;
    nibbles_step(p, at, multiples_twice(0, 1), out);
    nibbles_step(p, second(c, at, STEP / 2), multiples_twice(0, 1), out + TILE);
}

SIMD void mxfp4_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    (void)index;
    nibbles_of(c, p, at, float4(1), out);
}

SIMD void q4_0_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    (void)index;
    nibbles_of(c, p, at + 2, multiples_twice(-8, 1), out);
}

SIMD void q4_1_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    (void)index;
    nibbles_of(c, p, at + 4, multiples_twice(0, 1), out);
}

SIMD void iq4_nl_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    (void)index;
    nibbles_of(c, p, at + 2, uneven(), out);
}

SIMD void gguf_mxfp4_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    (void)index;
    nibbles_of(c, p, at + 1, float4(2), out);
}

SIMD void iq4_xs_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    (void)c;
    nibbles_step(p, at + 8 + index * STEP, uneven(), out);
    nibbles_step(p, at + 8 + index * STEP + STEP / 2, uneven(), out + TILE);
}

/* The low nibbles of 32 bytes are a step, the high ones the next. */
SIMD void q4_k_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    const __m512i table = multiples_twice(0, 1);
    (void)c;
    bytes_step(p, at + 16 + index * STEP, table, table, out);
}

/* The lowest four bits of low, and above them those of high, whose lowest is bit `from`. */
SIMD __m512i above(__m512i low, __m512i high, int from)
{
    const __m512i moved = from > 4 ? _mm512_srlv_epi16(high, _mm512_set1_epi16((short)(from - 4)))
                                   : _mm512_sllv_epi16(high, _mm512_set1_epi16((short)(4 - from)));
    return _mm512_ternarylogic_epi32(_mm512_set1_epi16(15), low, moved, 0xca);
}

SIMD void q5_k_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    const __m512i table = multiples(0, 1);
    (void)c;
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        __m512i v[4], high[4];
        load_columns(p, at + 48 + index * STEP + 16 * half, v);
        load_columns(p, at + 16 + 16 * half, high);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++, out += 2 * LANES) {
            const __m512i later = _mm512_srli_epi16(v[j], 8), above8 = _mm512_srli_epi16(high[j], 8);
            look_up(above(v[j], high[j], 2 * index), table, out);
            look_up(above(later, above8, 2 * index), table, out + LANES);
            look_up(above(_mm512_srli_epi16(v[j], 4), high[j], 2 * index + 1), table, out + TILE);
            look_up(above(_mm512_srli_epi16(v[j], 12), above8, 2 * index + 1), table,
                    out + TILE + LANES);
        }
    }
}

SIMD void look_up_64(__m512i codes, uint32_t *out)
{
    _mm512_store_si512(out,
                       _mm512_permutex2var_epi16(multiples(-32, 1), codes, multiples(0, 1)));
}

SIMD void q6_k_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    const __m512i nibble = _mm512_set1_epi16((short)(index % 2 * 4));
    (void)c;
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        __m512i high[4];
        load_columns(p, at + 128 + index / 2 * STEP + 16 * half, high);
#pragma GCC unroll 2
        for (int step = 0; step < 2; step++) {
            const int from = index % 2 * 4 + step * 2;
            uint32_t *to = out + step * TILE + half * TILE / 2;
            __m512i v[4];
            load_columns(p, at + index / 2 * 64 + step * STEP + 16 * half, v);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++, to += 2 * LANES) {
                const __m512i low = _mm512_srlv_epi16(v[j], nibble);
                look_up_64(above(low, high[j], from), to);
                look_up_64(above(_mm512_srli_epi16(low, 8), _mm512_srli_epi16(high[j], 8), from),
                           to + LANES);
            }
        }
    }
}

/* ---- Scales ---------------------------------------------------------------------------------- */

/* Of a batch, for each row of the panel: one for each step, or for each half of one. */
typedef struct batch_scales {
    float s[2 * BATCH][LANES], b[2 * BATCH][LANES];
} batch_scales;

/* n of them, of the groups `at` bytes after the begin of each row's scales. */
typedef void read_batch(const cpu_codes *c, const panel *p, int64_t at, int64_t n,
                        batch_scales *out);

/* By the reader of a row. */
SIMD void by_rows(read_scales *read, bool minima, const cpu_codes *c, const panel *p, int64_t at,
                  int64_t n, batch_scales *out)
{
    vf s[SIDE], b[SIDE];
#pragma GCC unroll 1
    for (int i = 0; i < SIDE; i++) {
        group_scales own = {.s = {0}, .b = {0}};
        read(c, p->scale[i] + at, p->bias[i] + at, n, &own);
        s[i] = vload(own.s);
        b[i] = vload(own.b);
    }
    transpose(s);
    if (minima)
        transpose(b);
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) {
        vstore(out->s[i], s[i]);
        if (minima)
            vstore(out->b[i], b[i]);
    }
}

#define BY_ROWS(NAME, MINIMA)                                                                      \
    SIMD void batch_##NAME(const cpu_codes *c, const panel *p, int64_t at, int64_t n,              \
                           batch_scales *out)                                                      \
    {                                                                                              \
        by_rows(NAME, MINIMA, c, p, at, n, out);                                                   \
    }
BY_ROWS(affine_scales, true)
BY_ROWS(mx_scales, false)
BY_ROWS(gguf_mx_scales, false)
BY_ROWS(xs_scales, false)
BY_ROWS(q6_scales, false)
#undef BY_ROWS

/* float16 numbers `from` bytes after the begin of n groups. */
SIMD void read_halves(const cpu_codes *c, const panel *p, int64_t at, int64_t n,
                      float out[][LANES])
{
    _Alignas(32) uint16_t bits[BATCH][LANES];
    for (int64_t g = 0; g < n; g++)
#pragma GCC unroll 16
        for (int i = 0; i < SIDE; i++)
            memcpy(&bits[g][i], p->scale[i] + at + g * c->scale_group, sizeof **bits);
    for (int64_t g = 0; g < n; g++)
        vstore(out[g], vload_float16(bits[g]));
}

SIMD void batch_half_scales(const cpu_codes *c, const panel *p, int64_t at, int64_t n,
                            batch_scales *out)
{
    read_halves(c, p, at, n, out->s);
}

SIMD void batch_half_minima(const cpu_codes *c, const panel *p, int64_t at, int64_t n,
                            batch_scales *out)
{
    read_halves(c, p, at, n, out->s);
    read_halves(c, p, at + 2, n, out->b);
}

/* Byte `at` of each lane. */
SIMD __m512i byte_at(__m512i x, int at)
{
    return _mm512_and_si512(_mm512_srli_epi32(x, (unsigned)at * 8), _mm512_set1_epi32(255));
}

/* Of a Q4_K or Q5_K block (k_scales), for all rows at once. */
SIMD void batch_k_scales(const cpu_codes *c, const panel *p, int64_t at, int64_t n,
                         batch_scales *out)
{
    __m512i v[4];
    (void)c, (void)n;
    load_columns(p, at, v); /* the block begins with them */
    const vf d = (vf)_mm512_cvtph_ps(_mm512_cvtepi32_epi16(v[0]));
    const vf m = -(vf)_mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(v[0], 16)));
    const __m512i six = _mm512_set1_epi32(0x3f3f3f3f), four = _mm512_set1_epi32(0x0f0f0f0f);
    const __m512i two = _mm512_set1_epi32(0x30303030);
    const __m512i scales[] = {
        _mm512_and_si512(v[1], six),
        _mm512_or_si512(_mm512_and_si512(v[3], four),
                        _mm512_and_si512(_mm512_srli_epi32(v[1], 2), two)),
    };
    const __m512i minima[] = {
        _mm512_and_si512(v[2], six),
        _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(v[3], 4), four),
                        _mm512_and_si512(_mm512_srli_epi32(v[2], 2), two)),
    };
#pragma GCC unroll 8
    for (int i = 0; i < BATCH; i++) {
        vstore(out->s[i], floats((vi)byte_at(scales[i / 4], i % 4)) * d);
        vstore(out->b[i], floats((vi)byte_at(minima[i / 4], i % 4)) * m);
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
    panel p = {.next = row + SIDE < end ? codes + SIDE * c->code_row : NULL};
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

/* The sums of a step, or of its halves, MOST_SUMS rows each. `times`: tiles of x. */
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
        STORE(0, sums + h * MOST_SUMS * LANES, TILE_LINE);
        if (rows > SIDE)
            STORE(1, sums + h * MOST_SUMS * LANES + TILE, TILE_LINE);
    }
}

/* all[i] += the sums of row i, of steps s and s + 1. */
SIMD void add_pair(const codes_plan *d, int rows, int64_t s, const float *sums,
                   const batch_scales *scales, const float *x, vf *all)
{
#pragma GCC unroll 4
    for (int64_t h = 0; h < 2 * d->halves; h++, sums += MOST_SUMS * LANES) {
        const int64_t at = (s % BATCH * d->halves + h) / d->per_scale;
        const vf scale = vload(scales->s[at]);
        const vf minimum = d->type->minima ? vload(scales->b[at]) : (vf){0};
#pragma GCC unroll 24
        for (int i = 0; i < rows; i++) {
            all[i] += vload(sums + i * LANES) * scale;
            if (d->type->minima)
                all[i] += vset(x[(s + h) * MOST_SUMS + i]) * minimum;
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
SIMD void codes_panel(const codes_plan *d, int rows, const cpu_part_x *x, const panel *p, vf *out)
{
    enum { SUMS = 4 * MOST_SUMS * LANES };
    const int64_t steps = d->steps, step_dwords = x->parts * x->m * LANES;
    const int times = stacked(x) ? 1 : x->parts;
    _Alignas(64) uint32_t w[RING][PAIR];
    _Alignas(64) float sums[2][SUMS];
    _Alignas(64) batch_scales scales[2];
    const float *x_sum = x_sums(x, 0);
    vf all[MOST_SUMS];
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
                 to + d->halves * MOST_SUMS * LANES);
        if (s + 2 * DISTANCE < steps)
            decode(d, p, s + 2 * DISTANCE, w[(s / 2 + DISTANCE) % RING]);
        if (p->next)
            prefetch(p->next + s / 2 * d->pair_bytes, d->pair_bytes);
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
    prefetch((const uint8_t *)plan.c->codes + d->first * bytes, (d->n < SIDE ? d->n : SIDE) * bytes);
    for (int64_t row = d->first; row < end; row += SIDE) {
        const panel p = panel_of(plan.c, row, end);
        vf all[MOST_SUMS];
        codes_panel(&plan, rows, &d->x, &p, all);
        write_panel(d, all, row, end - row < SIDE ? end - row : SIDE);
    }
    RELEASE();
}

/* ---- Functions for each type ---------------------------------------------------------------- */

typedef void rows_function(const cpu_part_rows *d);
typedef struct rows_functions {
    rows_function *rows[MOST_SUMS / 4 + 1];
    x_order order;
} rows_functions;

#define ROWS(NAME, N, ...)                                                                         \
    static __attribute__((noinline)) void NAME##_rows_##N(const cpu_part_rows *d)                  \
    {                                                                                              \
        const codes_type t = {__VA_ARGS__};                                                        \
        codes_rows(&t, N, d);                                                                      \
    }
#define TYPE(NAME, SCALES, ORDER, REACH, SUPERBLOCKS, SPLIT, MINIMA)                               \
    ROWS(NAME, 4, batch_##SCALES, NAME##_pair, ORDER, REACH, SUPERBLOCKS, SPLIT, MINIMA)           \
    ROWS(NAME, 8, batch_##SCALES, NAME##_pair, ORDER, REACH, SUPERBLOCKS, SPLIT, MINIMA)           \
    ROWS(NAME, 12, batch_##SCALES, NAME##_pair, ORDER, REACH, SUPERBLOCKS, SPLIT, MINIMA)          \
    ROWS(NAME, 16, batch_##SCALES, NAME##_pair, ORDER, REACH, SUPERBLOCKS, SPLIT, MINIMA)          \
    ROWS(NAME, 24, batch_##SCALES, NAME##_pair, ORDER, REACH, SUPERBLOCKS, SPLIT, MINIMA)          \
    static const rows_functions NAME##_functions = {                                               \
        {[1] = NAME##_rows_4, NAME##_rows_8, NAME##_rows_12, NAME##_rows_16, NAME##_rows_24,       \
         NAME##_rows_24},                                                                          \
        ORDER};
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
        [WEFT_ENCODING_MXFP4] = &mxfp4_functions,   [WEFT_ENCODING_Q4_0] = &q4_0_functions,
        [WEFT_ENCODING_Q4_1] = &q4_1_functions,     [WEFT_ENCODING_Q8_0] = &q8_0_functions,
        [WEFT_ENCODING_Q4_K] = &q4_k_functions,     [WEFT_ENCODING_Q5_K] = &q5_k_functions,
        [WEFT_ENCODING_Q6_K] = &q6_k_functions,     [WEFT_ENCODING_IQ4_NL] = &iq4_nl_functions,
        [WEFT_ENCODING_IQ4_XS] = &iq4_xs_functions,
        [WEFT_ENCODING_GGUF_MXFP4] = &gguf_mxfp4_functions,
    };
    if (c->kind == WEFT_ENCODING_AFFINE)
        return c->bits == 4 ? &affine4_functions : c->bits == 8 ? &affine8_functions : NULL;
    return (size_t)c->kind < sizeof of_kind / sizeof *of_kind ? of_kind[c->kind] : NULL;
}

bool CPU_NAME(weft__code_rows_take)(const cpu_codes *c)
{
    return functions_of(c) != NULL;
}

void CPU_NAME(weft__code_rows_pack)(const cpu_part_x *x, int64_t begin, int64_t end)
{
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
    functions_of(d->x.codes)->rows[(rows_of_sums(&d->x) + 3) / 4](d);
}
