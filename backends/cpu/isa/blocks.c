/* backends/cpu/isa/blocks.c -- GGUF block types: decoding to float32, and products with one to
 * eight vectors that read each block once.
 *
 * For each type a function returns 32 consecutive elements of a block in vectors; decoding and
 * products share it. Values must equal the reference decoders bit for bit (tests/io/test_gguf.c),
 * products within rounding.
 */
#include "backends/cpu/isa/blocks.h"
#include "backends/cpu/isa/scales.h"

enum { RUN = 32, VECTORS = RUN / LANES };

SIMD vf floats(vi x)
{
    return __builtin_convertvector(x, vf);
}

/* ---- Types: elements 32 s .. 32 s + 32 of block b --------------------------------- */

/* The low nibbles of 16 bytes, then the high ones. */
SIMD vi nibbles(const uint8_t *codes, int l)
{
    return l < 16 ? vload_bytes(codes + l) & 15 : vload_bytes(codes + l - 16) >> 4;
}

SIMD void q4_0(const uint8_t *b, int s, vf *w)
{
    const vf d = vset(half_at(b));
    (void)s;
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++)
        w[i] = d * floats(nibbles(b + 2, i * LANES) - 8);
}

SIMD void q8_0(const uint8_t *b, int s, vf *w)
{
    const vf d = vset(half_at(b));
    (void)s;
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++)
        w[i] = d * floats(vload_signed(b + 2 + i * LANES));
}

SIMD void q4_k(const uint8_t *b, int s, vf *w)
{
    int scale, minimum;
    scale_and_minimum(b + 4, s, &scale, &minimum);
    const vf d = vset(half_at(b) * (float)scale), m = vset(half_at(b + 2) * (float)minimum);
    const uint8_t *codes = b + 16 + s / 2 * 32;
    const int shift = s % 2 * 4;
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++)
        w[i] = apart(d * floats(vload_bytes(codes + i * LANES) >> shift & 15)) - m;
}

SIMD void q5_k(const uint8_t *b, int s, vf *w)
{
    int scale, minimum;
    scale_and_minimum(b + 4, s, &scale, &minimum);
    const vf d = vset(half_at(b) * (float)scale), m = vset(half_at(b + 2) * (float)minimum);
    const uint8_t *codes = b + 48 + s / 2 * 32;
    const int shift = s % 2 * 4;
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++) {
        const vi low = vload_bytes(codes + i * LANES) >> shift & 15;
        const vi high = vload_bytes(b + 16 + i * LANES) >> s & 1;
        w[i] = apart(d * floats(low | high << 4)) - m;
    }
}

SIMD void q6_k(const uint8_t *b, int s, vf *w)
{
    const float d = half_at(b + 208);
    const uint8_t *low = b + s / 4 * 64 + s % 2 * 32, *high = b + 128 + s / 4 * 32;
    const int low_shift = s % 4 / 2 * 4, high_shift = s % 4 * 2;
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++) {
        const vf scale = vset(d * (float)(int8_t)b[192 + 2 * s + i * LANES / 16]);
        const vi l = vload_bytes(low + i * LANES) >> low_shift & 15;
        const vi h = vload_bytes(high + i * LANES) >> high_shift & 3;
        w[i] = scale * floats((l | h << 4) - 32);
    }
}

/* Other types: scale times code is exact in float32 and may be contracted. */

SIMD void q4_1(const uint8_t *b, int s, vf *w)
{
    const vf d = vset(half_at(b)), m = vset(half_at(b + 2));
    (void)s;
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++)
        w[i] = d * floats(nibbles(b + 4, i * LANES)) + m;
}

/* Nibbles with a fifth bit from 4 separate bytes. */
SIMD vi five_bits(const uint8_t *high, const uint8_t *codes, int l)
{
    int32_t bits;
    memcpy(&bits, high, sizeof bits);
    const vi all = bits - (vi){0};
    return nibbles(codes, l) | (all >> (lane_numbers() + l) & 1) << 4;
}

SIMD void q5_0(const uint8_t *b, int s, vf *w)
{
    const vf d = vset(half_at(b));
    (void)s;
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++)
        w[i] = d * floats(five_bits(b + 2, b + 6, i * LANES) - 16);
}

SIMD void q5_1(const uint8_t *b, int s, vf *w)
{
    const vf d = vset(half_at(b)), m = vset(half_at(b + 2));
    (void)s;
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++)
        w[i] = d * floats(five_bits(b + 4, b + 8, i * LANES)) + m;
}

SIMD void q2_k(const uint8_t *b, int s, vf *w)
{
    const float d = half_at(b + 80), least = half_at(b + 82);
    const uint8_t *codes = b + 16 + s / 4 * 32;
    const int shift = s % 4 * 2;
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++) {
        const int both = b[2 * s + i * LANES / 16];
        const vf scale = vset(d * (float)(both & 15)), minimum = vset(least * (float)(both >> 4));
        w[i] = scale * floats(vload_bytes(codes + i * LANES) >> shift & 3) - minimum;
    }
}

SIMD void q3_k(const uint8_t *b, int s, vf *w)
{
    const float d = half_at(b + 108);
    const uint8_t *codes = b + 32 + s / 4 * 32, *scales = b + 96;
    const int shift = s % 4 * 2;
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++) {
        const int g = 2 * s + i * LANES / 16;
        const int low = scales[g % 8] >> g / 8 * 4 & 15, high = scales[8 + g % 4] >> g / 4 * 2 & 3;
        const vf scale = vset(d * (float)((low | high << 4) - 32));
        const vi l = vload_bytes(codes + i * LANES) >> shift & 3;
        const vi h = vload_bytes(b + i * LANES) >> s & 1;
        w[i] = scale * floats((l | h << 2) - 4);
    }
}

/* The table values for nibbles l, l + 1, ... */
SIMD vi looked_up(const int8_t *table, const uint8_t *codes, int l)
{
#if defined(__AVX2__)
    const __m128i values = _mm_loadu_si128((const __m128i *)table);
    const __m128i *at = (const __m128i *)(codes + l % 16);
    const __m128i bytes = LANES == 16 ? _mm_loadu_si128(at) : _mm_loadl_epi64(at);
    const __m128i low = _mm_and_si128(_mm_srli_epi16(bytes, l < 16 ? 0 : 4), _mm_set1_epi8(15));
    const __m128i found = _mm_shuffle_epi8(values, low);
#if defined(__AVX512F__)
    return (vi)_mm512_cvtepi8_epi32(found);
#else
    return (vi)_mm256_cvtepi8_epi32(found);
#endif
#elif defined(__aarch64__)
    const uint8x8_t both = four_bytes(codes + l % 16);
    const uint8x8_t at = l < 16 ? vand_u8(both, vdup_n_u8(15)) : vshr_n_u8(both, 4);
    return (vi)vmovl_s16(vget_low_s16(vmovl_s8(vqtbl1_s8(vld1q_s8(table), at))));
#else
    const vi at = nibbles(codes, l);
    return (vi){table[at[0]], table[at[1]], table[at[2]], table[at[3]]};
#endif
}

static const int8_t uneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

SIMD void iq4_nl(const uint8_t *b, int s, vf *w)
{
    const vf d = vset(half_at(b));
    (void)s;
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++)
        w[i] = d * floats(looked_up(uneven, b + 2, i * LANES));
}

SIMD void iq4_xs(const uint8_t *b, int s, vf *w)
{
    const int low = b[4 + s / 2] >> s % 2 * 4 & 15, high = (b[2] | b[3] << 8) >> 2 * s & 3;
    const vf d = vset(half_at(b) * (float)((low | high << 4) - 32));
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++)
        w[i] = d * floats(looked_up(uneven, b + 8 + 16 * s, i * LANES));
}

/* The table has twice the values of E2M1, so half the power of two is the factor. */
SIMD void mxfp4(const uint8_t *b, int s, vf *w)
{
    static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const uint32_t bits = *b < 2 ? (uint32_t)0x00200000 << *b : (uint32_t)(*b - 1) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    const vf d = vset(power);
    (void)s;
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++)
        w[i] = d * floats(looked_up(doubled, b + 1, i * LANES));
}

/* ---- Rows ----------------------------------------------------------------------------------- */

typedef struct blocks_call {
    const cpu_codes *c;
    int m; /* number of rows of x */
    int64_t blocks, first, n;
    const float *x, *bias;
    float *y;
    int64_t y_row;
} blocks_call;

typedef void elements(const uint8_t *b, int s, vf *w);

/* m, the type and its runs are compile-time constants at each inlined call. */
SIMD void rows_of(elements *type, int runs, int m, const blocks_call *d)
{
    const int64_t size = d->c->code_group;
    for (int64_t f = d->first; f < d->first + d->n; f++) {
        const uint8_t *b = (const uint8_t *)d->c->codes + f * d->c->code_row;
        const float *x = d->x;
        vf total[8];
#pragma GCC unroll 8
        for (int i = 0; i < m; i++)
            total[i] = (vf){0};
        for (int64_t g = 0; g < d->blocks; g++, b += size) {
            __builtin_prefetch(b + 1024);
#pragma GCC unroll 8
            for (int s = 0; s < runs; s++, x += RUN * m) {
                vf w[VECTORS];
                type(b, s, w);
#pragma GCC unroll 8
                for (int l = 0; l < VECTORS; l++) {
#pragma GCC unroll 8
                    for (int i = 0; i < m; i++)
                        total[i] += w[l] * vload(x + (l * m + i) * LANES);
                }
            }
        }
        for (int i = 0; i < m; i++) {
            const float sum = vsum(total[i]) + (d->bias ? d->bias[f] : 0.0f);
            if (i < d->m)
                d->y[i * d->y_row + f] = sum;
        }
    }
}

SIMD void decode_of(elements *type, const cpu_codes *c, const uint8_t *b, int64_t blocks,
                    float *out)
{
    const int runs = (int)(c->group / RUN);
    for (int64_t g = 0; g < blocks; g++, b += c->code_group) {
        for (int s = 0; s < runs; s++, out += RUN) {
            vf w[VECTORS];
            type(b, s, w);
#pragma GCC unroll 8
            for (int l = 0; l < VECTORS; l++)
                vstore(out + l * LANES, w[l]);
        }
    }
}

/* ---- Functions for each type ---------------------------------------------------------------- */

typedef struct block_type {
    void (*decode)(const cpu_codes *c, const uint8_t *b, int64_t blocks, float *out);
    void (*rows[9])(const blocks_call *d);
} block_type;

#define ROWS(NAME, RUNS, M)                                                                        \
    static __attribute__((noinline)) void rows_##NAME##_##M(const blocks_call *d)                  \
    {                                                                                              \
        rows_of(NAME, RUNS, M, d);                                                                 \
    }
#define TYPE(NAME, RUNS)                                                                           \
    static __attribute__((noinline)) void decode_##NAME(const cpu_codes *c, const uint8_t *b,      \
                                                        int64_t blocks, float *out)                \
    {                                                                                              \
        decode_of(NAME, c, b, blocks, out);                                                        \
    }                                                                                              \
    ROWS(NAME, RUNS, 1)                                                                            \
    ROWS(NAME, RUNS, 2)                                                                            \
    ROWS(NAME, RUNS, 4)                                                                            \
    ROWS(NAME, RUNS, 8)                                                                            \
    static const block_type type_##NAME = {decode_##NAME,                                          \
                                           {[1] = rows_##NAME##_1,                                 \
                                            [2] = rows_##NAME##_2,                                 \
                                            [4] = rows_##NAME##_4,                                 \
                                            [8] = rows_##NAME##_8}};
TYPE(q4_0, 1)
TYPE(q4_1, 1)
TYPE(q5_0, 1)
TYPE(q5_1, 1)
TYPE(q8_0, 1)
TYPE(q2_k, 8)
TYPE(q3_k, 8)
TYPE(q4_k, 8)
TYPE(q5_k, 8)
TYPE(q6_k, 8)
TYPE(iq4_nl, 1)
TYPE(iq4_xs, 8)
TYPE(mxfp4, 1)
#undef TYPE
#undef ROWS

/* NULL: not a GGUF block type. */
static const block_type *type_of(int kind)
{
    static const block_type *const types[] = {
        [WEFT_ENCODING_Q4_0] = &type_q4_0,        [WEFT_ENCODING_Q4_1] = &type_q4_1,
        [WEFT_ENCODING_Q5_0] = &type_q5_0,        [WEFT_ENCODING_Q5_1] = &type_q5_1,
        [WEFT_ENCODING_Q8_0] = &type_q8_0,        [WEFT_ENCODING_Q2_K] = &type_q2_k,
        [WEFT_ENCODING_Q3_K] = &type_q3_k,        [WEFT_ENCODING_Q4_K] = &type_q4_k,
        [WEFT_ENCODING_Q5_K] = &type_q5_k,        [WEFT_ENCODING_Q6_K] = &type_q6_k,
        [WEFT_ENCODING_IQ4_NL] = &type_iq4_nl,    [WEFT_ENCODING_IQ4_XS] = &type_iq4_xs,
        [WEFT_ENCODING_GGUF_MXFP4] = &type_mxfp4,
    };
    return (size_t)kind < sizeof types / sizeof *types ? types[kind] : NULL;
}

void CPU_NAME(weft__decode_blocks)(const cpu_codes *c, int64_t row, int64_t block, int64_t blocks,
                                   float *out)
{
    const char *b = c->codes + row * c->code_row + block * c->code_group;
    const block_type *type = type_of(c->kind);
    if (type)
        type->decode(c, (const uint8_t *)b, blocks, out);
    else
        c->encoding->decode(c->encoding, b, blocks * c->group, out);
}

void CPU_NAME(weft__gemv_blocks)(const cpu_codes *c, int m, int64_t k, const float *x,
                                 int64_t first, int64_t n, const float *bias, float *y,
                                 int64_t y_row)
{
    const blocks_call d = {c, m, k / c->group, first, n, x, bias, y, y_row};
    type_of(c->kind)->rows[weft__cpu_gemv_rows(m)](&d);
}
