/* backends/cpu/isa/blocks.c -- GGUF block types: decoding to float32, and the products of those
 * that gemv_codes.c has no kernel for.
 *
 * For each type a function returns a vector of consecutive elements of a block; decoding and
 * products share it. superblocks.h decodes superblocks. Values must equal the reference decoders
 * bit for bit (tests/io/test_gguf.c), products within rounding.
 */
#include "backends/cpu/isa/gemv_rows.h"
#include "backends/cpu/isa/superblocks.h"

enum { VECTORS = RUN / LANES };

/* ---- Types: elements 32 s + l .. 32 s + l + LANES of block b --------------------------------- */

/* The low nibbles of 16 bytes, then the high ones. */
SIMD vi nibbles(const uint8_t *codes, int l)
{
    return l < 16 ? vload_bytes(codes + l) & 15 : vload_bytes(codes + l - 16) >> 4;
}

SIMD vf q4_0(const uint8_t *b, int s, int l)
{
    const vf d = vset(half_at(b));
    (void)s;
    return d * floats(nibbles(b + 2, l) - 8);
}

SIMD vf q8_0(const uint8_t *b, int s, int l)
{
    const vf d = vset(half_at(b));
    (void)s;
    return d * floats(vload_signed(b + 2 + l));
}

#if !defined(__AVX512F__) /* gemv_codes.c reads their rows */
SIMD vf q5_k(const uint8_t *b, int s, int l)
{
    int scale, minimum;
    scale_and_minimum(b + 4, s, &scale, &minimum);
    const vf d = vset(half_at(b) * (float)scale), m = vset(half_at(b + 2) * (float)minimum);
    const uint8_t *codes = b + 48 + s / 2 * 32;
    const int shift = s % 2 * 4;
    const vi low = vload_bytes(codes + l) >> shift & 15;
    const vi high = vload_bytes(b + 16 + l) >> s & 1;
    return apart(d * floats(low | high << 4)) - m;
}

SIMD vf q6_k(const uint8_t *b, int s, int l)
{
    const float d = half_at(b + 208);
    const uint8_t *low = b + s / 4 * 64 + s % 2 * 32, *high = b + 128 + s / 4 * 32;
    const int low_shift = s % 4 / 2 * 4, high_shift = s % 4 * 2;
    const vf scale = vset(d * (float)(int8_t)b[192 + 2 * s + l / 16]);
    const vi bits = vload_bytes(low + l) >> low_shift & 15;
    const vi h = vload_bytes(high + l) >> high_shift & 3;
    return scale * floats((bits | h << 4) - 32);
}
#endif

/* Other types: scale times code is exact in float32 and may be contracted. */

SIMD vf q4_1(const uint8_t *b, int s, int l)
{
    const vf d = vset(half_at(b)), m = vset(half_at(b + 2));
    (void)s;
    return d * floats(nibbles(b + 4, l)) + m;
}

/* Nibbles with a fifth bit from 4 separate bytes. */
SIMD vi five_bits(const uint8_t *high, const uint8_t *codes, int l)
{
    int32_t bits;
    memcpy(&bits, high, sizeof bits);
    const vi all = bits - (vi){0};
    return nibbles(codes, l) | (all >> (lane_numbers() + l) & 1) << 4;
}

SIMD vf q5_0(const uint8_t *b, int s, int l)
{
    const vf d = vset(half_at(b));
    (void)s;
    return d * floats(five_bits(b + 2, b + 6, l) - 16);
}

SIMD vf q5_1(const uint8_t *b, int s, int l)
{
    const vf d = vset(half_at(b)), m = vset(half_at(b + 2));
    (void)s;
    return d * floats(five_bits(b + 4, b + 8, l)) + m;
}

SIMD vf q2_k(const uint8_t *b, int s, int l)
{
    const float d = half_at(b + 80), least = half_at(b + 82);
    const uint8_t *codes = b + 16 + s / 4 * 32;
    const int shift = s % 4 * 2;
    const int both = b[2 * s + l / 16];
    const vf scale = vset(d * (float)(both & 15)), minimum = vset(least * (float)(both >> 4));
    return scale * floats(vload_bytes(codes + l) >> shift & 3) - minimum;
}

SIMD vf q3_k(const uint8_t *b, int s, int l)
{
    const float d = half_at(b + 108);
    const uint8_t *codes = b + 32 + s / 4 * 32, *scales = b + 96;
    const int shift = s % 4 * 2;
    const int g = 2 * s + l / 16;
    const int low = scales[g % 8] >> g / 8 * 4 & 15, high = scales[8 + g % 4] >> g / 4 * 2 & 3;
    const vf scale = vset(d * (float)((low | high << 4) - 32));
    const vi bits = vload_bytes(codes + l) >> shift & 3;
    const vi h = vload_bytes(b + l) >> s & 1;
    return scale * floats((bits | h << 2) - 4);
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

SIMD vf iq4_nl(const uint8_t *b, int s, int l)
{
    const vf d = vset(half_at(b));
    (void)s;
    return d * floats(looked_up(uneven, b + 2, l));
}

SIMD vf iq4_xs(const uint8_t *b, int s, int l)
{
    const int low = b[4 + s / 2] >> s % 2 * 4 & 15, high = (b[2] | b[3] << 8) >> 2 * s & 3;
    const vf d = vset(half_at(b) * (float)((low | high << 4) - 32));
    return d * floats(looked_up(uneven, b + 8 + 16 * s, l));
}

/* The table has twice the values of E2M1, so half the power of two is the factor. */
SIMD vf mxfp4(const uint8_t *b, int s, int l)
{
    static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const uint32_t bits = *b < 2 ? (uint32_t)0x00200000 << *b : (uint32_t)(*b - 1) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    const vf d = vset(power);
    (void)s;
    return d * floats(looked_up(doubled, b + 1, l));
}

/* ---- Decoding and rows ---------------------------------------------------------------------- */

typedef vf elements(const uint8_t *b, int s, int l);

SIMD void decode_of(elements *type, int runs, const cpu_codes *c, const uint8_t *b, int64_t blocks,
                    float *out)
{
    for (int64_t g = 0; g < blocks; g++, b += c->code_group) {
        for (int s = 0; s < runs; s++, out += RUN) {
            vf w[VECTORS];
#pragma GCC unroll 8
            for (int l = 0; l < VECTORS; l++)
                w[l] = type(b, s, l * LANES);
#pragma GCC unroll 8
            for (int l = 0; l < VECTORS; l++)
                vstore(out + l * LANES, w[l]);
        }
    }
}

/* ---- Functions for each type ---------------------------------------------------------------- */

typedef struct block_type {
    void (*decode)(const cpu_codes *c, const uint8_t *b, int64_t blocks, float *out);
    rows_function *rows[9];
} block_type;

SIMD void no_scales(const cpu_codes *c, const uint8_t *from, const uint8_t *bias, int64_t n,
                    group_scales *out)
{
    (void)c, (void)from, (void)bias, (void)n, (void)out;
}

SIMD void open_run(const uint8_t *p, int index, const float *s, const float *b, unit *u)
{
    (void)s, (void)b;
    u->p = p;
    u->index = index;
}

#define DECODE(NAME, RUNS)                                                                         \
    static __attribute__((noinline)) void decode_##NAME(const cpu_codes *c, const uint8_t *b,      \
                                                        int64_t blocks, float *out)                \
    {                                                                                              \
        decode_of(NAME, RUNS, c, b, blocks, out);                                                  \
    }
#define DECODE_SUPER(NAME, GROUP, MINIMA)                                                          \
    static __attribute__((noinline)) void decode_##NAME(const cpu_codes *c, const uint8_t *b,      \
                                                        int64_t blocks, float *out)                \
    {                                                                                              \
        decode_superblocks(read_##NAME, GROUP, MINIMA, c, b, blocks, out);                         \
    }
#define TYPE(NAME, RUNS) /* whose rows are in gemv_codes.c */                                      \
    DECODE(NAME, RUNS)                                                                             \
    static const block_type type_##NAME = {decode_##NAME, {NULL}};
#define SUPER_TYPE(NAME, GROUP, MINIMA) /* the same */                                             \
    DECODE_SUPER(NAME, GROUP, MINIMA)                                                              \
    static const block_type type_##NAME = {decode_##NAME, {NULL}};
#define ROWS(NAME, RUNS)                                                                           \
    SIMD vf NAME##_weights(const unit *u, int v)                                                   \
    {                                                                                              \
        return NAME(u->p, u->index, v * LANES);                                                    \
    }                                                                                              \
    ROWS_FUNCTIONS(NAME, no_scales, open_run, NAME##_weights, RUN, RUNS)                           \
    static const block_type type_##NAME = {decode_##NAME, ROWS_ENTRY(NAME)};
#define ROWS_TYPE(NAME, RUNS)                                                                      \
    DECODE(NAME, RUNS)                                                                             \
    ROWS(NAME, RUNS)
#define SUPER_ROWS_TYPE(NAME, GROUP, MINIMA)                                                       \
    DECODE_SUPER(NAME, GROUP, MINIMA)                                                              \
    ROWS(NAME, 8)
TYPE(q4_0, 1)
TYPE(q4_1, 1)
ROWS_TYPE(q5_0, 1)
ROWS_TYPE(q5_1, 1)
TYPE(q8_0, 1)
SUPER_ROWS_TYPE(q2_k, 16, true)
SUPER_ROWS_TYPE(q3_k, 16, false)
SUPER_TYPE(q4_k, 32, true)
#if defined(__AVX512F__)
SUPER_TYPE(q5_k, 32, true)
SUPER_TYPE(q6_k, 16, false)
#else
SUPER_ROWS_TYPE(q5_k, 32, true)
SUPER_ROWS_TYPE(q6_k, 16, false)
#endif
TYPE(iq4_nl, 1)
TYPE(iq4_xs, 8)
TYPE(mxfp4, 1)
#undef SUPER_ROWS_TYPE
#undef ROWS_TYPE
#undef ROWS
#undef SUPER_TYPE
#undef TYPE
#undef DECODE_SUPER
#undef DECODE

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

void CPU_NAME(weft__gemv_blocks)(const codes_call *d, int rows)
{
    type_of(d->c->kind)->rows[rows](d);
}
