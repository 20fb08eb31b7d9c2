/* backends/cpu/isa/int8_rows.c -- rows of quantized weights times one to eight vectors that
 * int8_round has rounded to 8 bits.
 *
 * Each weight is read once and is not rearranged. The products of a block of 32 weights are exact
 * integers, as in isa/int8.c, which this must equal within the rounding of sums in float32
 * (tests/cpu/test_int8.c). AVX2 only: elsewhere exact products of so few rows are used.
 */
#include "backends/cpu/kernels.h"

#if defined(__AVX2__) && !defined(__AVX512F__)
#include "backends/cpu/isa/gemv_rows.h"

/* TOGETHER: blocks whose scales are decoded together, in one vector. */
enum { TOGETHER = LANES, SUMS_OF_ROWS = 4 };

/* Scales of the blocks g .. g + n of a row, n <= TOGETHER, and their biases; beyond n they are 0.
 */
typedef struct block_scales {
    vf s, b;
} block_scales;
typedef block_scales scales_of(const cpu_codes *c, int64_t row, int64_t g, int64_t n);

/* The codes of block g + q of the row at p; g is a multiple of TOGETHER, and q is less. */
typedef __m256i codes_of(const cpu_codes *c, const uint8_t *p, int64_t g, int64_t q);

/* signs: codes are from -128 to 127; otherwise from 0 to 31. */
typedef struct rows8_type {
    scales_of *scales;
    codes_of *codes;
    bool signs, biases, starts;
} rows8_type;

/* ---- Scales --------------------------------------------------------------------------------- */

/* n numbers of 16 bits, `step` bytes apart. */
SIMD __m128i halves_at(const uint8_t *p, int64_t step, int64_t n)
{
    uint16_t h[TOGETHER] = {0};
#pragma GCC unroll 8
    for (int64_t i = 0; i < n; i++)
        memcpy(&h[i], p + i * step, sizeof *h);
    return _mm_setr_epi16((short)h[0], (short)h[1], (short)h[2], (short)h[3], (short)h[4],
                          (short)h[5], (short)h[6], (short)h[7]);
}

SIMD block_scales half_blocks(int64_t bytes, const cpu_codes *c, int64_t row, int64_t g, int64_t n)
{
    const uint8_t *p = (const uint8_t *)c->codes + row * c->code_row + g * bytes;
    return (block_scales){.s = (vf)_mm256_cvtph_ps(halves_at(p, bytes, n))};
}

SIMD block_scales q8_0_blocks(const cpu_codes *c, int64_t row, int64_t g, int64_t n)
{
    return half_blocks(34, c, row, g, n);
}

SIMD block_scales q4_0_blocks(const cpu_codes *c, int64_t row, int64_t g, int64_t n)
{
    return half_blocks(18, c, row, g, n);
}

SIMD block_scales q5_0_blocks(const cpu_codes *c, int64_t row, int64_t g, int64_t n)
{
    return half_blocks(22, c, row, g, n);
}

/* A minimum follows the scale. */
SIMD block_scales half_minima_blocks(int64_t bytes, const cpu_codes *c, int64_t row, int64_t g,
                                     int64_t n)
{
    const uint8_t *p = (const uint8_t *)c->codes + row * c->code_row + g * bytes;
    return (block_scales){(vf)_mm256_cvtph_ps(halves_at(p, bytes, n)),
                          (vf)_mm256_cvtph_ps(halves_at(p + 2, bytes, n))};
}

SIMD block_scales q4_1_blocks(const cpu_codes *c, int64_t row, int64_t g, int64_t n)
{
    return half_minima_blocks(20, c, row, g, n);
}

SIMD block_scales q5_1_blocks(const cpu_codes *c, int64_t row, int64_t g, int64_t n)
{
    return half_minima_blocks(24, c, row, g, n);
}

/* One scale for each block, and none beyond n. */
SIMD block_scales read_blocks(read_scales *read, int64_t bytes, const cpu_codes *c, int64_t row,
                              int64_t g, int64_t n)
{
    group_scales all = {{0}, {0}};
    read(c, (const uint8_t *)c->codes + row * c->code_row + g * bytes, NULL, n, &all);
    return (block_scales){.s = vload(all.s)};
}

SIMD block_scales mxfp4_blocks(const cpu_codes *c, int64_t row, int64_t g, int64_t n)
{
    return read_blocks(gguf_mx_scales, 17, c, row, g, n);
}

SIMD block_scales iq4_xs_blocks(const cpu_codes *c, int64_t row, int64_t g, int64_t n)
{
    (void)n; /* rows are whole superblocks */
    group_scales all;
    xs_scales(c, (const uint8_t *)c->codes + row * c->code_row + g / TOGETHER * c->code_group, NULL,
              1, &all);
    return (block_scales){.s = vload(all.s)};
}

SIMD block_scales q4_k_blocks(const cpu_codes *c, int64_t row, int64_t g, int64_t n)
{
    group_scales all;
    (void)n; /* rows are whole superblocks */
    k_scales(c, (const uint8_t *)c->codes + row * c->code_row + g / TOGETHER * c->code_group, NULL,
             TOGETHER, &all);
    return (block_scales){vload(all.s), vload(all.b)};
}

/* The scales of n blocks, of which 2^shift share one. */
SIMD vf affine_values(int shift, weft_dtype dtype, const uint8_t *p, int64_t step, int64_t n)
{
    const int64_t groups = (n + (1 << shift) - 1) >> shift;
    float some[TOGETHER] = {0};
    vf values;
    if (dtype == WEFT_FLOAT16) {
        values = (vf)_mm256_cvtph_ps(halves_at(p, step, groups));
    } else if (dtype == WEFT_BFLOAT16) {
        const __m256i bits = _mm256_cvtepu16_epi32(halves_at(p, step, groups));
        values = (vf)_mm256_slli_epi32(bits, 16);
    } else {
        for (int64_t i = 0; i < groups; i++)
            some[i] = load_scale(WEFT_FLOAT32, (const char *)p + i * step);
        values = vload(some);
    }
    return vpermute(values, lane_numbers() >> shift);
}

/* Groups of 2^shift blocks: 1, 2 or 4. `offset` is what their codes_of subtracts. */
SIMD block_scales affine_blocks(int shift, int offset, const cpu_codes *c, int64_t row, int64_t g,
                                int64_t n)
{
    const int64_t at = row * c->scale_row + (g >> shift) * c->scale_group, step = c->scale_group;
    const uint8_t *s = (const uint8_t *)c->scales + at, *b = (const uint8_t *)c->biases + at;
    const vf scale = affine_values(shift, c->scale, s, step, n);
    const vf bias = affine_values(shift, c->scale, b, step, n);
    return (block_scales){scale, offset ? bias + vset((float)offset) * scale : bias};
}

/* ---- Codes ---------------------------------------------------------------------------------- */

SIMD __m256i thirty_two_bytes(const uint8_t *p)
{
    return _mm256_loadu_si256((const void *)p);
}

SIMD __m256i low_nibbles(__m256i x)
{
    return _mm256_and_si256(x, _mm256_set1_epi8(15));
}

SIMD __m256i q8_0_codes(const cpu_codes *c, const uint8_t *p, int64_t g, int64_t q)
{
    (void)c;
    return thirty_two_bytes(p + (g + q) * 34 + 2);
}

/* The low nibbles of 16 bytes, then the high ones. */
SIMD __m256i both_nibbles(const uint8_t *p)
{
    const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)p));
    return low_nibbles(_mm256_srlv_epi64(both, _mm256_setr_epi64x(0, 0, 4, 4)));
}

SIMD __m256i q4_0_codes(const cpu_codes *c, const uint8_t *p, int64_t g, int64_t q)
{
    (void)c;
    return both_nibbles(p + (g + q) * 18 + 2);
}

SIMD __m256i q4_1_codes(const cpu_codes *c, const uint8_t *p, int64_t g, int64_t q)
{
    (void)c;
    return both_nibbles(p + (g + q) * 20 + 4);
}

/* With a fifth bit of each. */
SIMD __m256i five_bits(const uint8_t *high, const uint8_t *codes)
{
    int32_t bits;
    memcpy(&bits, high, sizeof bits);
    const int64_t one = 0x0101010101010101;
    const __m256i of_byte = _mm256_setr_epi64x(0, one, 2 * one, 3 * one);
    const __m256i each = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i found =
        _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), of_byte), each);
    const __m256i fifth = _mm256_and_si256(_mm256_cmpeq_epi8(found, each), _mm256_set1_epi8(16));
    return _mm256_or_si256(both_nibbles(codes), fifth);
}

SIMD __m256i q5_0_codes(const cpu_codes *c, const uint8_t *p, int64_t g, int64_t q)
{
    (void)c;
    return five_bits(p + (g + q) * 22 + 2, p + (g + q) * 22 + 6);
}

SIMD __m256i q5_1_codes(const cpu_codes *c, const uint8_t *p, int64_t g, int64_t q)
{
    (void)c;
    return five_bits(p + (g + q) * 24 + 4, p + (g + q) * 24 + 8);
}

/* Values of nibbles in a table. */
SIMD __m256i looked_up(__m128i table, const uint8_t *codes)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), both_nibbles(codes));
}

SIMD __m256i uneven(const uint8_t *codes)
{
    return looked_up(
        _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113),
        codes);
}

SIMD __m256i iq4_nl_codes(const cpu_codes *c, const uint8_t *p, int64_t g, int64_t q)
{
    (void)c;
    return uneven(p + (g + q) * 18 + 2);
}

SIMD __m256i iq4_xs_codes(const cpu_codes *c, const uint8_t *p, int64_t g, int64_t q)
{
    (void)c;
    return uneven(p + g / TOGETHER * 136 + 8 + q * 16);
}

SIMD __m256i mxfp4_codes(const cpu_codes *c, const uint8_t *p, int64_t g, int64_t q)
{
    (void)c;
    return looked_up(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12),
                     p + (g + q) * 17 + 1);
}

SIMD __m256i q5_k_codes(const cpu_codes *c, const uint8_t *p, int64_t g, int64_t q)
{
    (void)c;
    const uint8_t *b = p + g / TOGETHER * 176;
    const __m256i both = thirty_two_bytes(b + 48 + q / 2 * 32);
    const __m256i low = low_nibbles(q % 2 ? _mm256_srli_epi16(both, 4) : both);
    const __m256i bit = _mm256_srli_epi16(thirty_two_bytes(b + 16), (int)q);
    const __m256i fifth = _mm256_slli_epi16(_mm256_and_si256(bit, _mm256_set1_epi8(1)), 4);
    return _mm256_or_si256(low, fifth);
}

SIMD __m256i q4_k_codes(const cpu_codes *c, const uint8_t *p, int64_t g, int64_t q)
{
    (void)c;
    const __m256i both = thirty_two_bytes(p + g / TOGETHER * 144 + 16 + q / 2 * 32);
    return low_nibbles(q % 2 ? _mm256_srli_epi16(both, 4) : both);
}

SIMD const uint8_t *affine_block(int shift, int bytes, const cpu_codes *c, const uint8_t *p,
                                 int64_t g, int64_t q)
{
    const int within = (1 << shift) - 1;
    return p + (g >> shift) * c->code_group + (q >> shift) * c->code_group + (q & within) * bytes;
}

/* The low nibble of each byte, then its high one. */
SIMD __m256i affine4_codes(int shift, const cpu_codes *c, const uint8_t *p, int64_t g, int64_t q)
{
    const uint8_t *block = affine_block(shift, 16, c, p, g, q);
    const __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)block));
    return low_nibbles(_mm256_or_si256(wide, _mm256_slli_epi16(wide, 4)));
}

SIMD __m256i affine8_codes(int shift, const cpu_codes *c, const uint8_t *p, int64_t g, int64_t q)
{
    const __m256i codes = thirty_two_bytes(affine_block(shift, 32, c, p, g, q));
    return _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
}

#define AFFINE(BITS, GROUP, SHIFT, OFFSET)                                                         \
    SIMD block_scales affine##BITS##_##GROUP##_blocks(const cpu_codes *c, int64_t row, int64_t g,  \
                                                      int64_t n)                                   \
    {                                                                                              \
        return affine_blocks(SHIFT, OFFSET, c, row, g, n);                                         \
    }                                                                                              \
    SIMD __m256i affine##BITS##_##GROUP##_codes(const cpu_codes *c, const uint8_t *p, int64_t g,   \
                                                int64_t q)                                         \
    {                                                                                              \
        return affine##BITS##_codes(SHIFT, c, p, g, q);                                            \
    }
AFFINE(4, 32, 0, 0)
AFFINE(4, 64, 1, 0)
AFFINE(4, 128, 2, 0)
AFFINE(8, 32, 0, 128)
AFFINE(8, 64, 1, 128)
AFFINE(8, 128, 2, 128)
#undef AFFINE

/* ---- Products ------------------------------------------------------------------------------- */

/* Eight sums of four products of a block. Two products fit 16 bits, 2 * 128 * 127 < 2^15: integers
 * of x are at least -127, and vpmaddubsw takes magnitudes of the codes without a sign. */
SIMD vi block_sums(bool signs, __m256i codes, const int8_t *x)
{
    __m256i q = thirty_two_bytes((const uint8_t *)x);
    if (signs) {
        q = _mm256_sign_epi8(q, codes);
        codes = _mm256_abs_epi8(codes);
    }
    return (vi)_mm256_madd_epi16(_mm256_maddubs_epi16(codes, q), _mm256_set1_epi16(1));
}

/* Blocks g .. g + n of a row times m vectors; sums of different blocks are independent, against the
 * latency of additions. */
SIMD void add_blocks(const rows8_type *t, int m, const cpu_int8_rows *d, int64_t row, int64_t g,
                     int64_t n, vf *sum)
{
    const cpu_codes *c = d->codes;
    const int parts = m >= SUMS_OF_ROWS ? 1 : SUMS_OF_ROWS / m;
    const uint8_t *p = (const uint8_t *)c->codes + row * c->code_row;
    const block_scales scales = t->scales(c, row, g, n);
    float products[CPU_GEMV_ROWS][TOGETHER];
#pragma GCC unroll 8
    for (int i = 0; i < m; i++) {
        vstore(products[i], scales.s * vload(d->steps + i * d->per_row + g));
        if (t->biases)
            sum[i] += scales.b * vload(d->shifts + i * d->per_row + g);
    }
    __asm__("" : "+m"(products)); /* or gcc broadcasts from registers, by shuffles */
#pragma GCC unroll 8
    for (int64_t q = 0; q < n; q++) {
        const __m256i codes = t->codes(c, p, g, q);
#pragma GCC unroll 8
        for (int i = 0; i < m; i++) {
            vi part = block_sums(t->signs, codes, d->x + i * d->x_row + (g + q) * CPU_INT8_TERMS);
            if (t->starts) /* to the first of the eight */
                part += (vi)_mm256_zextsi128_si256(
                    _mm_cvtsi32_si128(d->starts[i * d->per_row + g + q]));
            sum[q % parts * m + i] += floats(part) * vset(products[i][q]);
        }
    }
}

/* bytes: those of TOGETHER blocks; the ones `ahead` of them are prefetched. */
SIMD void row_of(const rows8_type *t, int m, const cpu_int8_rows *d, int64_t row, int64_t ahead,
                 int64_t bytes)
{
    const cpu_codes *c = d->codes;
    const int parts = m >= SUMS_OF_ROWS ? 1 : SUMS_OF_ROWS / m;
    const uint8_t *codes = (const uint8_t *)c->codes + row * c->code_row + ahead;
    vf sum[CPU_GEMV_ROWS] = {0};
    int64_t g = 0;
    for (; g + TOGETHER <= d->blocks; g += TOGETHER, codes += bytes) {
        for (int64_t at = 0; at < bytes; at += LINE)
            __builtin_prefetch(codes + at);
        add_blocks(t, m, d, row, g, TOGETHER, sum);
    }
    if (g < d->blocks)
        add_blocks(t, m, d, row, g, d->blocks - g, sum);
#pragma GCC unroll 8
    for (int i = 0; i < m; i++) {
        vf all = sum[i];
#pragma GCC unroll 4
        for (int k = 1; k < parts; k++)
            all += sum[k * m + i];
        if (i < d->m)
            d->y[i * d->y_row + row] = vsum(all) + (d->bias ? d->bias[row] : 0.0f);
    }
}

typedef void rows8_function(const cpu_int8_rows *d);
#define ROWS8(NAME, M, ...)                                                                        \
    static __attribute__((noinline)) void rows8_##NAME##_##M(const cpu_int8_rows *d)               \
    {                                                                                              \
        const rows8_type t = {NAME##_blocks, NAME##_codes, __VA_ARGS__};                           \
        const int64_t ahead = ahead_of(1, d->codes->code_row);                                     \
        const int64_t bytes = TOGETHER * d->codes->code_row / d->blocks;                           \
        for (int64_t f = 0; f < d->n; f++)                                                         \
            row_of(&t, M, d, d->first + f, ahead, bytes);                                          \
    }
#define TYPE(NAME, ...)                                                                            \
    ROWS8(NAME, 1, __VA_ARGS__)                                                                    \
    ROWS8(NAME, 2, __VA_ARGS__)                                                                    \
    ROWS8(NAME, 4, __VA_ARGS__)                                                                    \
    ROWS8(NAME, 8, __VA_ARGS__)
#define ENTRY(NAME)                                                                                \
    {                                                                                              \
        [1] = rows8_##NAME##_1, [2] = rows8_##NAME##_2, [4] = rows8_##NAME##_4,                    \
        [8] = rows8_##NAME##_8                                                                     \
    }
#define q5_k_blocks q4_k_blocks
#define iq4_nl_blocks q4_0_blocks
TYPE(q8_0, .signs = true)
TYPE(q4_0, .starts = true)
TYPE(q4_1, .biases = true)
TYPE(q5_0, .starts = true)
TYPE(q5_1, .biases = true)
TYPE(q4_k, .biases = true)
TYPE(q5_k, .biases = true)
TYPE(iq4_nl, .signs = true)
TYPE(iq4_xs, .signs = true)
TYPE(mxfp4, .signs = true)
TYPE(affine4_32, .biases = true)
TYPE(affine4_64, .biases = true)
TYPE(affine4_128, .biases = true)
TYPE(affine8_32, .signs = true, .biases = true)
TYPE(affine8_64, .signs = true, .biases = true)
TYPE(affine8_128, .signs = true, .biases = true)

static rows8_function *const rows_of_kind[][CPU_GEMV_ROWS + 1] = {
    [WEFT_ENCODING_Q8_0] = ENTRY(q8_0),     [WEFT_ENCODING_Q4_0] = ENTRY(q4_0),
    [WEFT_ENCODING_Q4_1] = ENTRY(q4_1),     [WEFT_ENCODING_Q5_0] = ENTRY(q5_0),
    [WEFT_ENCODING_Q5_1] = ENTRY(q5_1),     [WEFT_ENCODING_Q4_K] = ENTRY(q4_k),
    [WEFT_ENCODING_Q5_K] = ENTRY(q5_k),     [WEFT_ENCODING_IQ4_NL] = ENTRY(iq4_nl),
    [WEFT_ENCODING_IQ4_XS] = ENTRY(iq4_xs), [WEFT_ENCODING_GGUF_MXFP4] = ENTRY(mxfp4),
};
/* By bits, and by the base-2 logarithm of the blocks in a group. */
static rows8_function *const rows_of_affine[2][3][CPU_GEMV_ROWS + 1] = {
    {ENTRY(affine4_32), ENTRY(affine4_64), ENTRY(affine4_128)},
    {ENTRY(affine8_32), ENTRY(affine8_64), ENTRY(affine8_128)}};
#undef ENTRY
#undef TYPE
#undef ROWS8

static void int8_rows(const cpu_int8_rows *d)
{
    const cpu_codes *c = d->codes;
    const int rows = weft__cpu_gemv_rows(d->m);
    if (c->kind == WEFT_ENCODING_AFFINE)
        rows_of_affine[c->bits == 8][__builtin_ctzll((uint64_t)c->group / 32)][rows](d);
    else
        rows_of_kind[c->kind][rows](d);
}
#endif

void CPU_NAME(weft__fill_int8_rows)(cpu_kernels *table)
{
#if defined(__AVX2__) && !defined(__AVX512F__)
    table->int8_rows = int8_rows;
#else
    table->int8_rows = NULL;
#endif
}
