/* backends/cpu/isa/int8.c -- activations rounded to 8 bits, and their products with quantized
 * weights.
 *
 * Rows of x become blocks of 32 integers q from -127 to 127 and a step each: x = step q. Weights
 * are scale * code or scale * code + bias, with codes that fit a byte. So the products of a block
 * are sums of bytes times bytes, which are exact in 32 bits; only the sums over the blocks, in
 * float32, are rounded. All instruction sets give the same integers.
 */
#include <math.h>

#include "backends/cpu/isa/scales.h"
#include "backends/cpu/kernels.h"

#if defined(__AVX512F__) || defined(__aarch64__) /* 32 registers */
#define ROWS 6
#else
#define ROWS 2
#endif
enum { VECTORS = 2, WIDTH = VECTORS * LANES };

typedef int32_t vi_any __attribute__((vector_size(LANES * 4), aligned(1), may_alias));
typedef int32_t int32_any __attribute__((aligned(1), may_alias));

/* Up to ROWS rows times WIDTH columns, added to the contents of c. */
typedef struct tile {
    int64_t blocks;
    const int8_t *x;
    int64_t x_row;
    const float *steps, *shifts;
    const int32_t *starts;
    int64_t per_row, starts_row;
    const uint8_t *w;
    bool narrow;
    const float *scales, *biases;
    float *c;
} tile;

typedef void tile_function(const tile *t, int m);

/* starts_row: the distance of the starts of two rows. */
static inline __attribute__((always_inline)) void
block_by(tile_function *run, const cpu_int8_block *b, int64_t starts_row)
{
    for (int64_t column = 0; column < CPU_INT8_COLUMNS; column += WIDTH) {
        for (int64_t row = 0; row < b->m; row += ROWS) {
            const int64_t at = row * b->per_row;
            const tile t = {.blocks = b->blocks,
                            .x = b->x + row * b->x_row,
                            .x_row = b->x_row,
                            .steps = b->steps + at,
                            .shifts = b->shifts ? b->shifts + at : NULL,
                            .starts = b->starts ? b->starts + row * starts_row : NULL,
                            .per_row = b->per_row,
                            .starts_row = starts_row,
                            .w = b->w + 4 * column,
                            .narrow = b->narrow,
                            .scales = b->scales + column,
                            .biases = b->biases + column,
                            .c = b->c + row * CPU_INT8_COLUMNS + column};
            run(&t, (int)(b->m - row < ROWS ? b->m - row : ROWS));
        }
    }
}

/* ---- Sums of four byte products -------------------------------------------------------------- */

#if defined(__ARM_FEATURE_MATMUL_INT8)
/* part[i][v] += the products of a block. The instruction multiplies two columns, eight terms each,
 * with two rows; of an odd last row with itself. */
SIMD void sums_of_pairs(const tile *t, int m, bool narrow, const int8_t *x, const uint8_t *w,
                        vi part[ROWS][VECTORS])
{
    (void)narrow;
    int32x4_t sum[(ROWS + 1) / 2][2 * VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < m; i += 2)
#pragma GCC unroll 4
        for (int p = 0; p < 2 * VECTORS; p++)
            sum[i / 2][p] = vdupq_n_s32(0);
#pragma GCC unroll 4
    for (int q = 0; q < CPU_INT8_TERMS; q += 8, w += 8 * CPU_INT8_COLUMNS) {
        uint8x16_t pair[2 * VECTORS];
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) {
            const uint8_t *columns = w + v * 4 * LANES;
            const uint32x4_t first = vreinterpretq_u32_u8(vld1q_u8(columns));
            const uint32x4_t next = vreinterpretq_u32_u8(vld1q_u8(columns + 4 * CPU_INT8_COLUMNS));
            pair[2 * v] = vreinterpretq_u8_u32(vzip1q_u32(first, next));
            pair[2 * v + 1] = vreinterpretq_u8_u32(vzip2q_u32(first, next));
        }
#pragma GCC unroll 8
        for (int i = 0; i < m; i += 2) {
            const int8_t *row = x + i * t->x_row + q;
            const int8x16_t rows =
                vcombine_s8(vld1_s8(row), vld1_s8(i + 1 < m ? row + t->x_row : row));
#pragma GCC unroll 4
            for (int p = 0; p < 2 * VECTORS; p++)
                sum[i / 2][p] = vusmmlaq_s32(sum[i / 2][p], pair[p], rows);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) {
            const int32x4_t low = sum[i / 2][2 * v], high = sum[i / 2][2 * v + 1];
            part[i][v] += (vi)(i % 2 ? vuzp2q_s32(low, high) : vuzp1q_s32(low, high));
        }
}

#define SUMS sums_of_pairs
#elif defined(__AVX2__) && !defined(__AVX512F__)
/* The empty statement keeps gcc from adding up all products of a block at its end, in memory. */
SIMD void add_products(__m256i *sum, __m256i nibbles, __m256i x)
{
    *sum = _mm256_add_epi16(*sum, _mm256_maddubs_epi16(nibbles, x));
    __asm__("" : "+x"(*sum));
}

/* part[i][v] += the products of a block, the low and the high nibbles of the codes separately: the
 * sums of 16 products of a nibble with a byte fit 16 bits (16 * 15 * 127 < 2^15), so they are
 * widened once for the block. */
SIMD void sums_of_nibbles(const tile *t, int m, bool narrow, const int8_t *x, const uint8_t *w,
                          vi part[ROWS][VECTORS])
{
    __m256i low[ROWS][VECTORS], high[ROWS][VECTORS];
#pragma GCC unroll 2
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++)
            low[i][v] = high[i][v] = _mm256_setzero_si256();
    const __m256i nibble = _mm256_set1_epi8(15);
#pragma GCC unroll 8
    for (int q = 0; q < CPU_INT8_TERMS; q += 4, w += 4 * CPU_INT8_COLUMNS) {
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) {
            const __m256i codes = _mm256_loadu_si256((const void *)(w + v * 4 * LANES));
            const __m256i first = narrow ? codes : _mm256_and_si256(codes, nibble);
            const __m256i second = _mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble);
#pragma GCC unroll 2
            for (int i = 0; i < m; i++) {
                const int32_t terms = *(const int32_any *)(const void *)(x + i * t->x_row + q);
                const __m256i four = _mm256_set1_epi32(terms);
                add_products(&low[i][v], first, four);
                if (!narrow)
                    add_products(&high[i][v], second, four);
            }
        }
    }
#pragma GCC unroll 2
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) {
            part[i][v] += (vi)_mm256_madd_epi16(low[i][v], _mm256_set1_epi16(1));
            if (!narrow)
                part[i][v] += (vi)_mm256_madd_epi16(high[i][v], _mm256_set1_epi16(16));
        }
}

#define SUMS sums_of_nibbles
#define NARROW true
#else
#if defined(__aarch64__)
/* The instructions multiply signed bytes: 128 is subtracted from the codes here, and what is
 * missing is in the block's starts. */
#define CENTERED
#endif

/* part + the sum of the four bytes of each lane of codes (0 to 255) times those of x (signed). The
 * bytes are widened to 16 bits, two per lane. */
SIMD vi dot_plain(vi part, vi codes, vi x)
{
#if defined(CENTERED)
    const int8x16_t signed_codes = veorq_s8((int8x16_t)codes, vdupq_n_s8(INT8_MIN));
#if defined(__ARM_FEATURE_DOTPROD)
    return (vi)vdotq_s32((int32x4_t)part, signed_codes, (int8x16_t)x);
#else
    /* Two products fit 16 bits: x is not -128. */
    const int16x8_t low = vmull_s8(vget_low_s8(signed_codes), vget_low_s8((int8x16_t)x));
    const int16x8_t high = vmull_high_s8(signed_codes, (int8x16_t)x);
    return (vi)vpadalq_s16((int32x4_t)part, vpaddq_s16(low, high));
#endif
#else
    const vi even = codes & 0x00ff00ff, odd = (vi)((vu)codes >> 8) & 0x00ff00ff;
#if defined(__AVX512F__)
    const __m512i low = _mm512_srai_epi16(_mm512_slli_epi16((__m512i)x, 8), 8);
    const __m512i high = _mm512_srai_epi16((__m512i)x, 8);
    return part + (vi)_mm512_madd_epi16((__m512i)even, low) +
           (vi)_mm512_madd_epi16((__m512i)odd, high);
#else
    return part + (even & 0xffff) * (x << 24 >> 24) + (odd & 0xffff) * (x << 16 >> 24) +
           (even >> 16) * (x << 8 >> 24) + (odd >> 16) * (x >> 24);
#endif
#endif
}
#define DOT dot_plain
#endif

#if !defined(NARROW)
#define NARROW false
#endif

#define NAME(x) x##_plain
#define TARGET
#include "backends/cpu/isa/int8_tile.h"
#undef NAME
#undef TARGET
#undef DOT
#undef SUMS

#if defined(CENTERED)
static int32_t sum_of(const int8_t *x)
{
    int32_t sum = 0;
    for (int l = 0; l < CPU_INT8_TERMS; l++)
        sum += x[l];
    return sum;
}

/* The products of some rows and blocks at a time, with starts of their own: 128 times the sums of
 * x. */
static void block_centered(const cpu_int8_block *b)
{
    enum { SOME_ROWS = 8 * ROWS, SOME_BLOCKS = 16 };
    int32_t starts[SOME_ROWS * SOME_BLOCKS];
    for (int64_t row = 0; row < b->m; row += SOME_ROWS) {
        for (int64_t g = 0; g < b->blocks; g += SOME_BLOCKS) {
            const int64_t at = row * b->per_row + g, column = g * CPU_INT8_COLUMNS;
            cpu_int8_block some = *b;
            some.m = b->m - row < SOME_ROWS ? b->m - row : SOME_ROWS;
            some.blocks = b->blocks - g < SOME_BLOCKS ? b->blocks - g : SOME_BLOCKS;
            some.x = b->x + row * b->x_row + g * CPU_INT8_TERMS;
            some.steps = b->steps + at;
            some.shifts = b->shifts ? b->shifts + at : NULL;
            some.starts = starts;
            some.w = b->w + column * CPU_INT8_TERMS;
            some.scales = b->scales + column;
            some.biases = b->biases + column;
            some.c = b->c + row * CPU_INT8_COLUMNS;
            for (int64_t i = 0; i < some.m; i++)
                for (int64_t k = 0; k < some.blocks; k++)
                    starts[i * SOME_BLOCKS + k] =
                        128 * sum_of(some.x + i * b->x_row + k * CPU_INT8_TERMS) +
                        (b->starts ? b->starts[at + i * b->per_row + k] : 0);
            block_by(run_tile_plain, &some, SOME_BLOCKS);
        }
    }
}
#endif

#if defined(__AVX512F__)
#include <cpuid.h>

#define NAME(x) x##_vnni
#define TARGET __attribute__((target("avx512vnni")))
#define DOT(part, codes, x)                                                                        \
    (vi) _mm512_dpbusd_epi32((__m512i)(part), (__m512i)(codes), (__m512i)(x))
#include "backends/cpu/isa/int8_tile.h"
#undef NAME
#undef TARGET
#undef DOT
#undef SUMS

static bool has_vnni(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 11 & 1);
}
#endif

/* ---- Activations ---------------------------------------------------------------------------- */

enum { PARTS = CPU_INT8_TERMS / LANES };

/* The nearest integers, of magnitude below 2^22, halves to even. Adding a large constant rounds x
 * regardless of contraction. */
SIMD vi nearest(vf x)
{
    const vf magic = vset(0x1.8p23f);
    return (vi)(apart(x) + magic) - (vi)magic;
}

SIMD vi vmax_whole(vi a, vi b)
{
    const vi greater = a > b;
    return (a & greater) | (b & ~greater);
}

/* A block with an infinity or a NaN gets the step NaN. */
SIMD void round_block(weft_dtype dtype, const void *x, int64_t at, int8_t *q, float *step,
                      int32_t *sum)
{
    vf v[PARTS];
    vi most = {0}; /* maximum of the magnitudes; comparing their bits as integers is equivalent */
#pragma GCC unroll 8
    for (int l = 0; l < PARTS; l++) {
        v[l] = vload_as(dtype, x, at + l * LANES);
        most = vmax_whole(most, (vi)v[l] & INT32_MAX);
    }
#pragma GCC unroll 4
    for (int half = LANES / 2; half > 0; half /= 2)
        most = vmax_whole(most, (vi)vswap((vf)most, half));
    const float largest = ((vf)most)[0];
    const bool finite = largest < INFINITY;
    /* Blocks of tiny subnormal numbers become 0, since 127 / largest would be infinite. */
    const bool none = !finite || largest < 0x1p-120f;
    const vf inverse = vset(none ? 0 : 127 / largest);
    vf total = {0};
#pragma GCC unroll 8
    for (int l = 0; l < PARTS; l++) {
        const vi n = nearest(none ? (vf){0} : v[l] * inverse);
        vstore_bytes(q + l * LANES, n);
        total += __builtin_convertvector(n, vf);
    }
    *step = !finite ? NAN : none ? 0 : largest * (1.0f / 127);
    *sum = (int32_t)vsum(total);
}

SIMD void round_rows(weft_dtype dtype, const void *x, int64_t k, int offset, int8_t *q,
                     float *steps, int32_t *starts, float *shifts)
{
    for (int64_t g = 0; g < k / CPU_INT8_TERMS; g++) {
        int32_t sum;
        round_block(dtype, x, g * CPU_INT8_TERMS, q + g * CPU_INT8_TERMS, &steps[g], &sum);
        if (offset)
            starts[g] = -offset * sum;
        else
            shifts[g] = steps[g] * (float)sum;
    }
}

static void int8_round(weft_dtype dtype, const void *x, int64_t k, int offset, int8_t *q,
                       float *steps, int32_t *starts, float *shifts)
{
    if (dtype == WEFT_BFLOAT16)
        round_rows(WEFT_BFLOAT16, x, k, offset, q, steps, starts, shifts);
    else if (dtype == WEFT_FLOAT16)
        round_rows(WEFT_FLOAT16, x, k, offset, q, steps, starts, shifts);
    else
        round_rows(WEFT_FLOAT32, x, k, offset, q, steps, starts, shifts);
}

void CPU_NAME(weft__fill_int8)(cpu_kernels *table)
{
    table->int8_round = int8_round;
    table->int8_least = CPU_GEMV_ROWS + 1;
#if defined(CENTERED)
    table->int8_block = block_centered;
#else
    table->int8_block = block_plain;
#endif
#if defined(__AVX512F__)
    if (has_vnni()) {
        table->int8_block = block_vnni;
        table->int8_least = 4;
    }
#endif
}
