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
#include "backends/cpu/isa/transpose.h"
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
#define CENTRED
#endif

/* part + the sum of the four bytes of each lane of codes (0 to 255) times those of x (signed). The
 * bytes are widened to 16 bits, two per lane. */
SIMD vi dot_plain(vi part, vi codes, vi x)
{
#if defined(CENTRED)
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

#if defined(CENTRED)
static int32_t sum_of(const int8_t *x)
{
    int32_t sum = 0;
    for (int l = 0; l < CPU_INT8_TERMS; l++)
        sum += x[l];
    return sum;
}

/* The products of some rows and blocks at a time, with starts of their own: 128 times the sums of
 * x. */
static void block_centred(const cpu_int8_block *b)
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

/* ---- Weights -------------------------------------------------------------------------------- */

/* Elements 32 g .. 32 g + 32 of row r as bytes, with their scale and, for types that have one,
 * their bias. */
typedef void bytes_of(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                      float *bias);

/* Block `number` of row r, for encodings that are not split into parts. */
static inline const uint8_t *block_at(const cpu_codes *c, int64_t r, int64_t number)
{
    return (const uint8_t *)c->codes + r * c->code_row + number * c->code_group;
}

/* The nibbles at bit `shift` of n bytes, eight at a time. */
SIMD void nibbles_of(const uint8_t *codes, int n, int shift, uint8_t *out)
{
#pragma GCC unroll 4
    for (int i = 0; i < n; i += 8) {
        uint64_t eight;
        memcpy(&eight, codes + i, sizeof eight);
        eight = eight >> shift & UINT64_C(0x0f0f0f0f0f0f0f0f);
        memcpy(out + i, &eight, sizeof eight);
    }
}

SIMD void bytes_q8_0(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                     float *bias)
{
    const uint8_t *b = block_at(c, r, g);
    *scale = half_at(b);
    (void)bias;
    for (int i = 0; i < CPU_INT8_TERMS; i++)
        out[i] = b[2 + i] ^ 0x80;
}

SIMD void bytes_q4_0(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                     float *bias)
{
    const uint8_t *b = block_at(c, r, g);
    *scale = half_at(b);
    (void)bias;
    nibbles_of(b + 2, 16, 0, out);
    nibbles_of(b + 2, 16, 4, out + 16);
}

SIMD void bytes_q4_k(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                     float *bias)
{
    enum { RUNS = 256 / CPU_INT8_TERMS };
    const uint8_t *b = block_at(c, r, g / RUNS);
    const int run = (int)(g % RUNS), shift = run % 2 * 4;
    int s, m;
    scale_and_minimum(b + 4, run, &s, &m);
    *scale = half_at(b) * (float)s;
    *bias = -(half_at(b + 2) * (float)m);
    const uint8_t *codes = b + 16 + run / 2 * CPU_INT8_TERMS;
    nibbles_of(codes, CPU_INT8_TERMS, shift, out);
}

SIMD void bytes_affine(int bits, const cpu_codes *c, int64_t r, int64_t g, uint8_t *out,
                       float *scale, float *bias)
{
    /* Group sizes are powers of two: a division per block would take as long as everything else. */
    const int64_t first = g * CPU_INT8_TERMS, group = first >> __builtin_ctzll((uint64_t)c->group);
    const uint8_t *codes = (const uint8_t *)c->codes + r * c->code_row + group * c->code_group +
                           (first & (c->group - 1)) * bits / 8;
    const int64_t at = r * c->scale_row + group * c->scale_group;
    *scale = load_scale(c->scale, c->scales + at);
    *bias = load_scale(c->scale, c->biases + at);
    if (bits == 8)
        memcpy(out, codes, CPU_INT8_TERMS);
    for (int i = 0; bits == 4 && i < CPU_INT8_TERMS / 2; i++) {
        const uint16_t both = codes[i], apart = (uint16_t)((both & 0x0f) | (both & 0xf0) << 4);
        memcpy(out + 2 * i, &apart, sizeof apart); /* the lower one first */
    }
}

SIMD void bytes_affine4(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                        float *bias)
{
    bytes_affine(4, c, r, g, out, scale, bias);
}

SIMD void bytes_affine8(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                        float *bias)
{
    bytes_affine(8, c, r, g, out, scale, bias);
}

/* Blocks of a column that are converted to bytes together, so that rows are read in long pieces. */
enum { ABREAST = 8, WORDS = CPU_INT8_TERMS / 4 };

/* Packs LANES columns from `first` on, of which n exist, and `count` <= ABREAST blocks from g on.
 */
SIMD void pack_piece(bytes_of *type, const cpu_codes *c, int64_t first, int64_t n, int64_t g,
                     int64_t count, uint8_t *w, float *scales, float *biases)
{
    uint8_t bytes[LANES][ABREAST * CPU_INT8_TERMS];
    if (count < ABREAST) /* vectors may extend beyond the last block */
        memset(bytes, 0, sizeof bytes);
    for (int64_t j = 0; j < LANES; j++) {
        for (int64_t b = 0; b < count; b++) {
            float scale = 0, bias = 0;
            if (j < n)
                type(c, first + j, g + b, bytes[j] + b * CPU_INT8_TERMS, &scale, &bias);
            else
                memset(bytes[j] + b * CPU_INT8_TERMS, 0, CPU_INT8_TERMS);
            scales[b * CPU_INT8_COLUMNS + j] = scale;
            biases[b * CPU_INT8_COLUMNS + j] = bias;
        }
    }
    for (int64_t word = 0; word < count * WORDS; word += LANES) {
        vf row[LANES];
#pragma GCC unroll 16
        for (int j = 0; j < LANES; j++)
            row[j] = vload((const float *)(const void *)(bytes[j] + 4 * word));
        transpose(row);
#pragma GCC unroll 16
        for (int l = 0; l < LANES; l++)
            if (word + l < count * WORDS)
                vstore((float *)(void *)(w + (word + l) * 4 * CPU_INT8_COLUMNS), row[l]);
    }
}

/* Packs a panel whose columns are rows first .. first + n of codes: four bytes of each column are
 * adjacent. Columns from n on are 0. */
SIMD void pack_of(bytes_of *type, const cpu_codes *c, int64_t first, int64_t n, int64_t blocks,
                  uint8_t *w, float *scales, float *biases)
{
    for (int64_t g = 0; g < blocks; g += ABREAST) {
        const int64_t at = g * CPU_INT8_COLUMNS,
                      count = blocks - g < ABREAST ? blocks - g : ABREAST;
        for (int64_t j = 0; j < CPU_INT8_COLUMNS; j += LANES)
            pack_piece(type, c, first + j, n - j, g, count, w + at * CPU_INT8_TERMS + 4 * j,
                       scales + at + j, biases + at + j);
    }
}

#define PACK(NAME)                                                                                 \
    static void pack_##NAME(const cpu_codes *c, int64_t first, int64_t n, int64_t blocks,          \
                            uint8_t *w, float *scales, float *biases)                              \
    {                                                                                              \
        pack_of(bytes_##NAME, c, first, n, blocks, w, scales, biases);                             \
    }
PACK(q8_0)
PACK(q4_0)
PACK(q4_k)
PACK(affine4)
PACK(affine8)
#undef PACK

static void int8_pack(const cpu_codes *c, int64_t first, int64_t n, int64_t blocks, uint8_t *w,
                      float *scales, float *biases)
{
    switch (c->kind) {
    case WEFT_ENCODING_Q8_0:
        pack_q8_0(c, first, n, blocks, w, scales, biases);
        return;
    case WEFT_ENCODING_Q4_0:
        pack_q4_0(c, first, n, blocks, w, scales, biases);
        return;
    case WEFT_ENCODING_Q4_K:
        pack_q4_k(c, first, n, blocks, w, scales, biases);
        return;
    default:
        (c->bits == 8 ? pack_affine8 : pack_affine4)(c, first, n, blocks, w, scales, biases);
    }
}

void CPU_NAME(weft__fill_int8)(cpu_kernels *table)
{
    table->int8_round = int8_round;
    table->int8_pack = int8_pack;
#if defined(CENTRED)
    table->int8_block = block_centred;
#else
    table->int8_block = block_plain;
#endif
#if defined(__AVX512F__)
    if (has_vnni())
        table->int8_block = block_vnni;
#endif
}
