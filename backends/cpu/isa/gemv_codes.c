/* backends/cpu/isa/gemv_codes.c -- rows of codes of 4 to 8 bits times one to eight vectors.
 *
 * Codes of 4 bits are not put in order: each lane of a vector holds a word, the codes at one shift
 * of all words are one vector, and x is arranged in that order beforehand. With AVX-512, decoding
 * is a lookup in 16 weights, which each group makes from its scale and minimum: three instructions
 * for 16 weights with their product. Products must equal those with decoded weights within rounding
 * (tests/io/test_gguf.c, tests/ops/test_quantize.c).
 */
#include "backends/cpu/isa/blocks.h"
#include "backends/cpu/isa/gemv_rows.h"
#if defined(__AVX2__) && !defined(__AVX512F__)
#include "backends/cpu/isa/gemv_factored.h"
#endif

/* ---- 4 bits --------------------------------------------------------------------------------- */

/* The values of codes: the codes, the codes less 8, or values of a table. */
typedef enum code_table { FROM_0, FROM_MINUS_8, FLOAT4, FLOAT4_TWICE, UNEVEN } code_table;

static const float tables[][16] = {
    [FROM_0] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    [FROM_MINUS_8] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7},
    [FLOAT4] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6},
    [FLOAT4_TWICE] = {0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12},
    [UNEVEN] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
};

/* Lane l: word (part * LANES + l) % n of the n words at p. */
SIMD vi words_at(const uint8_t *p, int n, int part)
{
    (void)part;
#if defined(__AVX2__)
    int64_t two;
    memcpy(&two, p, sizeof two);
#endif
#if defined(__AVX512F__)
    return n == 2   ? (vi)_mm512_set1_epi64(two)
           : n == 4 ? (vi)_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p))
                    : (vi)_mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__AVX2__)
    return n == 2   ? (vi)_mm256_set1_epi64x(two)
           : n == 4 ? (vi)_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p))
                    : (vi)_mm256_loadu_si256((const __m256i *)p);
#else
    vi words = {0};
    memcpy(&words, p + part * LANES % n * 4, n == 2 ? 8 : sizeof words);
    return n == 2 ? (vi){words[0], words[1], words[0], words[1]} : words;
#endif
}

SIMD void open_words(const uint8_t *p, int n, unit *u)
{
    u->words[0] = words_at(p, n, 0);
    u->words[1] = n > LANES ? words_at(p, n, 1) : u->words[0];
}

/* Vector v of the codes in n words, in the lowest bits of its lanes: the first codes of all words,
 * then the second ones and so on, or (`halves`) the low nibbles of all bytes before the high ones.
 */
SIMD vi nibbles_of(const vi *words, int n, bool halves, int v)
{
    const int step = n < LANES ? LANES / n : 1; /* codes of a word in one vector */
    const int first = n < LANES ? v * step : v / (n / LANES);
    const vi at = first + (step > 1 ? lane_numbers() / n : (vi){0});
    const vi shifts = halves ? at % 4 * 8 + at / 4 * 4 : at * 4;
    return (vi)((vu)words[n > LANES ? v % (n / LANES) : 0] >> (vu)shifts);
}

/* The tables, or scales and minima, of weights; only codes from 0 have minima. */
SIMD void open_table(code_table table, const float *s, const float *b, vf *scale, vf *minimum)
{
#if defined(__AVX512F__)
    const vf values = vload(tables[table]) * vset(*s);
    (void)minimum;
    *scale = table == FROM_0 ? values + vset(*b) : values;
#else
    *scale = vset(*s);
    *minimum = table == FROM_0 ? vset(*b) : vset(*s * -8);
#endif
}

SIMD vf look_up(code_table table, vf scale, vf minimum, vi codes)
{
#if defined(__AVX512F__)
    (void)table, (void)minimum;
    return (vf)_mm512_permutexvar_ps((__m512i)codes, (__m512)scale); /* by the lowest 4 bits */
#else
    if (table == FROM_0 || table == FROM_MINUS_8)
        return floats(codes & 15) * scale + minimum;
#if defined(__AVX2__)
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(tables[table]), (__m256i)codes);
    const __m256 high =
        _mm256_permutevar8x32_ps(_mm256_loadu_ps(tables[table] + 8), (__m256i)codes);
    return (vf)_mm256_blendv_ps(low, high, (__m256)(codes << 28)) * scale;
#elif defined(__aarch64__)
    static const int8_t bytes[][16] = {
        [FLOAT4] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},
        [FLOAT4_TWICE] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},
        [UNEVEN] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
    };
    const vi at = (codes & 15) | 0x10101000; /* indices out of range give 0 */
    const vi found = (vi)vqtbl1q_s8(vld1q_s8(bytes[table]), (uint8x16_t)at) << 24 >> 24;
    return floats(found) * (table == FLOAT4 ? scale * 0.5f : scale);
#else
    const float *values = tables[table];
    codes &= 15;
    return (vf){values[codes[0]], values[codes[1]], values[codes[2]], values[codes[3]]} * scale;
#endif
#endif
}

/* A group, or a part of one, whose n words are at p. */
SIMD void open_nibbles(code_table table, const uint8_t *p, int n, const float *s, const float *b,
                       unit *u)
{
    open_words(p, n, u);
    open_table(table, s, b, &u->low, &u->s);
}

SIMD vf nibbles(code_table table, const unit *u, int n, bool halves, int v)
{
    return look_up(table, u->low, u->s, nibbles_of(u->words, n, halves, v));
}

#define NIBBLES(NAME, TABLE, WORDS, HALVES, AT, RUNS)                                              \
    SIMD void NAME##_open(const uint8_t *p, int index, const float *s, const float *b, unit *u)    \
    {                                                                                              \
        open_nibbles(TABLE, p + (AT) + index * (WORDS)*4, WORDS, s + (RUNS)*index,                 \
                     b + (RUNS)*index, u);                                                         \
    }                                                                                              \
    SIMD vf NAME##_weights(const unit *u, int v)                                                   \
    {                                                                                              \
        return nibbles(TABLE, u, WORDS, HALVES, v);                                                \
    }
NIBBLES(affine32, FROM_0, 4, false, 0, 0)
NIBBLES(affine64, FROM_0, 8, false, 0, 0)
NIBBLES(mxfp4, FLOAT4, 4, false, 0, 0)
NIBBLES(nvfp4, FLOAT4, 2, false, 0, 0)
NIBBLES(q4_0, FROM_MINUS_8, 4, true, 2, 0)
NIBBLES(q4_1, FROM_0, 4, true, 4, 0)
NIBBLES(iq4_nl, UNEVEN, 4, true, 2, 0)
NIBBLES(iq4_xs, UNEVEN, 4, true, 8, 1)
NIBBLES(gguf_mxfp4, FLOAT4_TWICE, 4, true, 1, 0)
#undef NIBBLES

/* Two runs: the low and the high nibbles of 32 bytes. */
SIMD void q4_k_open(const uint8_t *p, int index, const float *s, const float *b, unit *u)
{
    open_words(p + 16 + index * 32, 8, u);
    open_table(FROM_0, s + 2 * index, b + 2 * index, &u->low, &u->s);
    open_table(FROM_0, s + 2 * index + 1, b + 2 * index + 1, &u->high, &u->b);
}

SIMD vf q4_k_weights(const unit *u, int v)
{
    const vi codes = nibbles_of(u->words, 8, true, v);
    return v * LANES < RUN ? look_up(FROM_0, u->low, u->s, codes)
                           : look_up(FROM_0, u->high, u->b, codes);
}

/* ---- 5 and 6 bits --------------------------------------------------------------------------- */

#if defined(__AVX512F__)
/* Codes of one byte each, 16 of them in each quarter of a vector. Vector v of a unit has four from
 * each quarter. */
SIMD vf quarter_weights(const unit *u, int v)
{
    const vi at = ((lane_numbers() & 3) + 4 * v) | (int32_t)0x80808000;
    const vi codes = (vi)_mm512_shuffle_epi8((__m512i)u->words[0], (__m512i)at);
    return floats(codes) * u->s + u->b;
}

#define q5_k_weights quarter_weights
#define q6_k_weights quarter_weights

/* Elements 64 index .. 64 index + 64 of a block: two runs. */
SIMD void q5_k_open(const uint8_t *p, int index, const float *s, const float *b, unit *u)
{
    const vi run = 2 * index + (lane_numbers() >> 3);
    const vi low = words_at(p + 48 + index * 32, 8, 0), high = words_at(p + 16, 8, 0);
    const vi fifth = (vi)_mm512_rolv_epi32((__m512i)high, (__m512i)((4 - run) & 31));
    const vi fourth = low >> ((lane_numbers() >> 3) * 4) & 0x0f0f0f0f;
    u->words[0] = fourth | (fifth & 0x10101010);
    u->s = vpermute(vload(s), run);
    u->b = vpermute(vload(b), run);
}

/* The same: four groups of 16. */
SIMD void q6_k_open(const uint8_t *p, int index, const float *s, const float *b, unit *u)
{
    const uint8_t *low = p + index / 2 * 64, *high = p + 128 + index / 2 * 32;
    const vi left = 4 - 2 * (lane_numbers() >> 3) - index % 2 * 4;
    const vi two = (vi)_mm512_rolv_epi32((__m512i)words_at(high, 8, 0), (__m512i)(left & 31));
    const vi four = (vi)_mm512_loadu_si512(low) >> index % 2 * 4;
    (void)b;
    u->words[0] = (four & 0x0f0f0f0f) | (two & 0x30303030);
    u->s = vpermute(vload(s), 4 * index + (lane_numbers() >> 2));
    u->b = u->s * -32;
}
#endif

/* ---- 8 bits --------------------------------------------------------------------------------- */

SIMD void affine8_open(const uint8_t *p, int index, const float *s, const float *b, unit *u)
{
    u->p = p + index * RUN;
    u->s = vset(*s);
    u->b = vset(*b);
}

SIMD vf affine8_weights(const unit *u, int v)
{
    return floats(vload_bytes(u->p + v * LANES)) * u->s + u->b;
}

SIMD void q8_0_open(const uint8_t *p, int index, const float *s, const float *b, unit *u)
{
    (void)index, (void)b;
    u->p = p + 2;
    u->s = vset(*s);
}

SIMD vf q8_0_weights(const unit *u, int v)
{
    return floats(vload_signed(u->p + v * LANES)) * u->s;
}

/* ---- Types ---------------------------------------------------------------------------------- */

#define TYPE(NAME, SCALES, LAYOUT, SIZE, UNITS)                                                    \
    ROWS_FUNCTIONS(NAME, SCALES, LAYOUT##_open, LAYOUT##_weights, SIZE, UNITS)
TYPE(affine8, affine_scales, affine8, RUN, 0)
TYPE(mxfp4, mx_scales, mxfp4, 32, 1)
TYPE(nvfp4, nv_scales, nvfp4, 16, 1)
TYPE(q8_0, half_scales, q8_0, RUN, 1)
#if defined(__AVX512F__)
TYPE(q5_k, k_scales, q5_k, 64, 4)
TYPE(q6_k, q6_scales, q6_k, 64, 4)
#endif
TYPE(iq4_nl, half_scales, iq4_nl, 32, 1)
TYPE(iq4_xs, xs_scales, iq4_xs, 32, 8)
TYPE(gguf_mxfp4, gguf_mx_scales, gguf_mxfp4, 32, 1)
#if defined(FACTORED) /* faster for one vector */
#define TYPE_4_BITS(NAME, SCALES, SIZE, UNITS, ...)                                                \
    FACTORED(NAME, SCALES, __VA_ARGS__)                                                            \
    ROWS_FUNCTION(NAME, 2, SCALES, NAME##_open, NAME##_weights, SIZE, UNITS)                       \
    ROWS_FUNCTION(NAME, 4, SCALES, NAME##_open, NAME##_weights, SIZE, UNITS)                       \
    ROWS_FUNCTION(NAME, 8, SCALES, NAME##_open, NAME##_weights, SIZE, UNITS)
#define ENTRY_4_BITS(NAME) FACTORED_ENTRY(NAME), .factored = true
#else
#define TYPE_4_BITS(NAME, SCALES, SIZE, UNITS, ...) TYPE(NAME, SCALES, NAME, SIZE, UNITS)
#define ENTRY_4_BITS ROWS_ENTRY
#endif
TYPE(affine32, affine_scales, affine32, 32, 1)
TYPE(affine64, affine_scales, affine64, 64, 0)
TYPE_4_BITS(q4_0, half_scales, 32, 1, 4, 2, 1, 1, true)
TYPE_4_BITS(q4_1, half_minima, 32, 1, 4, 4, 1, 1, false)
TYPE_4_BITS(q4_k, k_scales, 64, 4, 8, 16, 2, 4, false)
#undef TYPE_4_BITS
#undef TYPE

/* The order of x: its own, or that of the codes: of nibbles in so many words, one code of each word
 * after the other or low nibbles before high ones, or of quarters. */
typedef enum x_order { NATURAL, BY_WORDS, BY_HALVES, BY_QUARTERS } x_order;

typedef struct row_kernels {
    rows_function *rows[9];
    bool factored; /* for one vector: x as gemv_factored.h describes */
    x_order order;
    int words;
} row_kernels;

static const row_kernels kernels_affine[] = {{ROWS_ENTRY(affine32), .order = BY_WORDS, .words = 4},
                                             {ROWS_ENTRY(affine64), .order = BY_WORDS, .words = 8},
                                             {ROWS_ENTRY(affine8), .order = NATURAL, .words = 0}};
static const row_kernels kernels[] = {
    [WEFT_ENCODING_MXFP4] = {ROWS_ENTRY(mxfp4), .order = BY_WORDS, .words = 4},
    [WEFT_ENCODING_NVFP4] = {ROWS_ENTRY(nvfp4), .order = BY_WORDS, .words = 2},
    [WEFT_ENCODING_Q4_0] = {ENTRY_4_BITS(q4_0), .order = BY_HALVES, .words = 4},
    [WEFT_ENCODING_Q4_1] = {ENTRY_4_BITS(q4_1), .order = BY_HALVES, .words = 4},
    [WEFT_ENCODING_Q8_0] = {ROWS_ENTRY(q8_0), .order = NATURAL, .words = 0},
    [WEFT_ENCODING_Q4_K] = {ENTRY_4_BITS(q4_k), .order = BY_HALVES, .words = 8},
#if defined(__AVX512F__)
    [WEFT_ENCODING_Q5_K] = {ROWS_ENTRY(q5_k), .order = BY_QUARTERS, .words = 8},
    [WEFT_ENCODING_Q6_K] = {ROWS_ENTRY(q6_k), .order = BY_QUARTERS, .words = 8},
#endif
    [WEFT_ENCODING_IQ4_NL] = {ROWS_ENTRY(iq4_nl), .order = BY_HALVES, .words = 4},
    [WEFT_ENCODING_IQ4_XS] = {ROWS_ENTRY(iq4_xs), .order = BY_HALVES, .words = 4},
    [WEFT_ENCODING_GGUF_MXFP4] = {ROWS_ENTRY(gguf_mxfp4), .order = BY_HALVES, .words = 4},
};

/* NULL: codes.c or blocks.c has the kernels, which read x as it is. */
static const row_kernels *kernels_of(const cpu_codes *c)
{
    if (c->kind == WEFT_ENCODING_AFFINE)
        return c->bits == 8   ? &kernels_affine[2]
               : c->bits == 4 ? &kernels_affine[c->group > 32]
                              : NULL;
    if ((size_t)c->kind >= sizeof kernels / sizeof *kernels || !kernels[c->kind].rows[1])
        return NULL;
    return &kernels[c->kind];
}

/* ---- The order of x ------------------------------------------------------------------------- */

enum { MOST_WORDS = 8 };

/* The element at a position of a unit. */
static int element_at(const row_kernels *kernel, int at)
{
    const int n = kernel->words, word = at % n, code = at / n;
    switch (kernel->order) {
    case BY_WORDS:
        return 8 * word + code;
    case BY_HALVES:
        return 4 * word + code % 4 + code / 4 * 4 * n;
    case BY_QUARTERS:
        return at % LANES / 4 * 16 + at / LANES * 4 + at % 4;
    default:
        return at;
    }
}

/* A unit of x for `m` rows that take turns. from: where each element is taken from. */
static void arrange_unit(const int16_t *from, int size, int m, float *x)
{
    float natural[8 * MOST_WORDS * CPU_GEMV_ROWS];
    memcpy(natural, x, (size_t)(size * m) * sizeof *x);
    for (int at = 0; at < size; at += LANES)
        for (int i = 0; i < m; i++, x += LANES)
            for (int l = 0; l < LANES; l++)
                x[l] = natural[from[at + l] + i * LANES];
}

/* n words of c codes, each with an element of x, become c vectors of n elements: constants where it
 * is inlined. */
SIMD void turn(int n, int c, float *x)
{
    float natural[8 * MOST_WORDS];
    memcpy(natural, x, (size_t)(n * c) * sizeof *x);
#pragma GCC unroll 8
    for (int code = 0; code < c; code++)
#pragma GCC unroll 8
        for (int word = 0; word < n; word++)
            x[code * n + word] = natural[word * c + code];
}

SIMD void turn_all(int n, int c, int64_t k, float *x)
{
    for (int64_t p = 0; p < k; p += n * c)
        turn(n, c, x + p);
}

/* For one row; false: not one of these orders. */
static bool arrange_one(const row_kernels *kernel, int64_t k, float *x)
{
    if (kernel->order == BY_HALVES && kernel->words == 4)
        turn_all(4, 4, k, x);
    else if (kernel->order == BY_HALVES && kernel->words == 8)
        turn_all(8, 4, k, x);
    else if (kernel->order == BY_WORDS && kernel->words == 4)
        turn_all(4, 8, k, x);
    else if (kernel->order == BY_WORDS && kernel->words == 8)
        turn_all(8, 8, k, x);
    else
        return false;
    return true;
}

static void arrange(const row_kernels *kernel, int m, int64_t k, float *x)
{
    const int size = 8 * kernel->words;
    int16_t from[8 * MOST_WORDS];
    if (m == 1 && arrange_one(kernel, k, x))
        return;
    for (int at = 0; at < size; at++) {
        const int element = element_at(kernel, at);
        from[at] = (int16_t)(element / LANES * m * LANES + element % LANES);
    }
    for (int64_t p = 0; p < k; p += size)
        arrange_unit(from, size, m, x + p * m);
}

#if defined(FACTORED)
/* Writes the sums of x over runs behind it. */
static void write_sums(int64_t k, float *x)
{
    float *sums = x + k;
    memset(sums, 0, (size_t)sums_row(k / RUN) * sizeof *sums);
    for (int64_t p = 0; p < k; p += RUN) {
        vf sum = vload(x + p);
#pragma GCC unroll 4
        for (int l = LANES; l < RUN; l += LANES)
            sum += vload(x + p + l);
        sums[p / RUN] = vsum(sum);
    }
}

SIMD void divide_all(int words, int64_t k, float *x)
{
    for (int64_t p = 0; p < k; p += words * LANES)
#pragma GCC unroll 8
        for (int v = 0; v < words; v++)
            divide_x(words, v, x + p + v * LANES);
}

static void divide(const row_kernels *kernel, int64_t k, float *x)
{
    if (kernel->words == 4)
        divide_all(4, k, x);
    else
        divide_all(8, k, x);
}
#endif

static void codes_arrange(const cpu_codes *c, int m, int64_t k, float *x)
{
    const row_kernels *kernel = kernels_of(c);
    const int rows = weft__cpu_gemv_rows(m);
#if defined(FACTORED)
    if (kernel && kernel->factored && rows == 1)
        write_sums(k, x);
#endif
    if (kernel && kernel->order != NATURAL)
        arrange(kernel, rows, k, x);
#if defined(FACTORED)
    if (kernel && kernel->factored && rows == 1)
        divide(kernel, k, x);
#endif
}

static void gemv_codes(const cpu_codes *c, int m, int64_t k, const float *x, int64_t first,
                       int64_t n, const float *bias, float *y, int64_t y_row)
{
    const codes_call d = {c, m, k / c->group, first, n, x, bias, y, y_row};
    const row_kernels *kernel = kernels_of(c);
    const int rows = weft__cpu_gemv_rows(m);
    if (kernel)
        kernel->rows[rows](&d);
    else if (weft_encoding_has_parts((weft_encoding_kind)c->kind))
        CPU_NAME(weft__gemv_groups)(&d, rows);
    else
        CPU_NAME(weft__gemv_blocks)(&d, rows);
}

void CPU_NAME(weft__fill_gemv_codes)(cpu_kernels *table)
{
    table->codes_arrange = codes_arrange;
    table->gemv_codes = gemv_codes;
}
