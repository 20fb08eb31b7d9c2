/* backends/cpu/isa/codes.c -- rows of quantized groups: decoding, and products with one to eight
 * vectors that read each code once.
 *
 * The product with a group is scale * (sum of codes times x) + bias * (sum of x), so codes need not
 * be turned into weights. Codes are extracted from 32-bit words, each of which several lanes share.
 * Must equal the reference decoders bit for bit (tests/ops/test_quantize.c), products within
 * rounding.
 */
#include "backends/cpu/isa/blocks.h"
#include "backends/cpu/isa/scales.h"
#include "backends/cpu/kernels.h"

/* How codes are interpreted. */
typedef enum code_values { AS_INTEGER, AS_FLOAT4, AS_FLOAT8 } code_values;

/* ---- Codes of a vector ---------------------------------------------------------------------- */

/* The word that contains element i of a run of `bytes` bytes, or the run's last word. */
SIMD uint32_t word_at(int bits, int bytes, const uint8_t *codes, int i)
{
    const int at = i * bits / 8 < bytes - 4 ? i * bits / 8 : bytes - 4;
    uint32_t word;
    memcpy(&word, codes + at, sizeof word);
    return word;
}

/* Elements i .. i + LANES of a run of codes as integers. bits, bytes and i are compile-time
 * constants at each inlined call. Reads no byte beyond the run. */
SIMD vi codes_at(int bits, int bytes, const uint8_t *codes, int i)
{
    if (bits == 8)
        return vload_bytes(codes + i);
    const int share = bits == 2 ? 16 : bits <= 4 ? 8 : 4; /* lanes per word */
    vu words = word_at(bits, bytes, codes, i) - (vu){0};
#if defined(__AVX512F__)
#pragma GCC unroll 4
    for (int l = share; l < LANES; l += share)
        words = (vu)_mm512_mask_set1_epi32((__m512i)words, (__mmask16)(((1 << share) - 1) << l),
                                           (int)word_at(bits, bytes, codes, i + l));
#elif defined(__AVX2__)
    if (share < LANES)
        words = (vu)_mm256_blend_epi32(
            (__m256i)words, _mm256_set1_epi32((int)word_at(bits, bytes, codes, i + 4)), 0xf0);
#endif
    vu shifts = {0};
#pragma GCC unroll 16
    for (int l = 0; l < LANES; l++) {
        const int first = (i + l / share * share) * bits;
        const int at = first / 8 < bytes - 4 ? first / 8 : bytes - 4;
        shifts[l] = (uint32_t)(first - 8 * at + l % share * bits);
    }
    return (vi)(words >> shifts & (uint32_t)((1 << bits) - 1));
}

SIMD vf float4_values(vi codes)
{
#if defined(__AVX512F__)
    const vf values = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    return vpermute(values, codes);
#elif defined(__AVX2__)
    const vf values = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    vi sign = codes << 28 & INT32_MIN;
    return (vf)((vi)vpermute(values, codes & 7) | sign);
#elif defined(__aarch64__)
    /* Twice the magnitudes; a code's upper three bytes choose a 0. */
    static const uint8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12};
    const vi sign = codes << 28 & INT32_MIN, at = (codes & 7) | 0x08080800;
    const vi magnitudes = (vi)vqtbl1q_u8(vld1q_u8(doubled), (uint8x16_t)at);
    return (vf)((vi)(__builtin_convertvector(magnitudes, vf) * 0.5f) | sign);
#else
    static const float values[] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                   -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    return (vf){values[codes[0]], values[codes[1]], values[codes[2]], values[codes[3]]};
#endif
}

SIMD vf float8_values(vi codes)
{
    vi rest = codes & 0x7f, sign = codes << 24 & INT32_MIN;
    vi tiny = rest < 8, nan = rest == 0x7f;
    vi normal = (rest << 20) + (120 << 23);
    vi subnormal = (vi)(__builtin_convertvector(rest, vf) * 0x1p-9f);
    vi value = (tiny & subnormal) | (~tiny & normal) | (nan & 0x7fc00000);
    return (vf)(value | sign);
}

SIMD vf values_at(code_values as, int bits, int bytes, const uint8_t *codes, int i)
{
    vi q = codes_at(bits, bytes, codes, i);
    return as == AS_FLOAT4   ? float4_values(q)
           : as == AS_FLOAT8 ? float8_values(q)
                             : __builtin_convertvector(q, vf);
}

/* ---- Scales --------------------------------------------------------------------------------- */

/* E4M3 for nvfp4, else a power of two. */
static inline float byte_scale(int kind, uint8_t scale)
{
    uint32_t rest = scale & 0x7f, sign = (uint32_t)(scale & 0x80) << 24, bits;
    float value;
    if (kind != WEFT_ENCODING_NVFP4) {
        bits = scale == 0 ? 0x00400000 : (uint32_t)scale << 23;
    } else if (rest < 8) {
        value = (float)rest * 0x1p-9f;
        return sign ? -value : value;
    } else {
        bits = sign | (rest == 0x7f ? 0x7fc00000 : (rest << 20) + (120u << 23));
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float scale_of(const cpu_codes *c, const char *scale)
{
    return c->kind == WEFT_ENCODING_AFFINE ? load_scale(c->scale, scale)
                                           : byte_scale(c->kind, (uint8_t)*scale);
}

/* ---- Decoding ------------------------------------------------------------------------------- */

/* A run: as many codes as have a distinct bit pattern in words; nvfp4 has groups of 16. */
enum { RUN = 32, SHORT_RUN = 16 };

SIMD void decode_as(code_values as, int bits, int run, const cpu_codes *c, const uint8_t *codes,
                    const char *scale, const char *bias, int64_t groups, float *out)
{
    const int bytes = run * bits / 8;
    for (int64_t g = 0; g < groups; g++) {
        const vf s = vset(scale_of(c, scale));
        const vf b = as == AS_INTEGER ? vset(load_scale(c->scale, bias)) : (vf){0};
        const uint8_t *p = codes;
        for (int64_t i = 0; i < c->group; i += run, p += bytes, out += run) {
#pragma GCC unroll 8
            for (int l = 0; l < run; l += LANES) {
                vf product = apart(values_at(as, bits, bytes, p, l) * s);
                vstore(out + l, as == AS_INTEGER ? product + b : product);
            }
        }
        codes += c->code_group;
        scale += c->scale_group;
        bias += c->scale_group;
    }
}

/* ---- Dot products --------------------------------------------------------------------------- */

typedef struct codes_call {
    const cpu_codes *c;
    int m; /* number of rows of x */
    int64_t groups, first, n;
    const float *x, *sums, *bias;
    float *y;
    int64_t y_row;
} codes_call;

/* The products of a row with m vectors. as, bits, m and run are compile-time constants at each
 * inlined call. */
SIMD void dot_codes(code_values as, int bits, int run, int m, const codes_call *d,
                    const uint8_t *codes, const char *scale, const char *bias, float *out)
{
    const cpu_codes *c = d->c;
    const int bytes = run * bits / 8;
    const float *x = d->x, *sums = d->sums;
    vf total[8];
    float extra[8];
#pragma GCC unroll 8
    for (int i = 0; i < m; i++) {
        total[i] = (vf){0};
        extra[i] = 0;
    }
    for (int64_t g = 0; g < d->groups; g++, sums += m) {
        vf part[8];
#pragma GCC unroll 8
        for (int i = 0; i < m; i++)
            part[i] = (vf){0};
        const uint8_t *p = codes;
        __builtin_prefetch(codes + 1024);
        for (int64_t e = 0; e < c->group; e += run, p += bytes, x += run * m) {
#pragma GCC unroll 8
            for (int l = 0; l < run; l += LANES) {
                vf w = values_at(as, bits, bytes, p, l);
#pragma GCC unroll 8
                for (int i = 0; i < m; i++)
                    part[i] += w * vload(x + l * m + i * LANES);
            }
        }
        const vf s = vset(scale_of(c, scale));
        const float b = as == AS_INTEGER ? load_scale(c->scale, bias) : 0;
#pragma GCC unroll 8
        for (int i = 0; i < m; i++) {
            total[i] += part[i] * s;
            extra[i] += as == AS_INTEGER ? b * sums[i] : 0;
        }
        codes += c->code_group;
        scale += c->scale_group;
        bias += c->scale_group;
    }
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
        out[i] = vsum(total[i]) + extra[i];
}

SIMD void rows_of_codes(code_values as, int bits, int run, int m, const codes_call *d)
{
    const cpu_codes *c = d->c;
    for (int64_t f = d->first; f < d->first + d->n; f++) {
        float out[8];
        dot_codes(as, bits, run, m, d, (const uint8_t *)c->codes + f * c->code_row,
                  c->scales + f * c->scale_row, c->biases + f * c->scale_row, out);
        for (int i = 0; i < m; i++)
            if (i < d->m)
                d->y[i * d->y_row + f] = out[i] + (d->bias ? d->bias[f] : 0.0f);
    }
}

/* ---- Functions for each format -------------------------------------------------------------- */

/* A separate function for each format and number of vectors; one function for all would take
 * minutes to compile. */
#define ROWS(NAME, AS, BITS, RUN_LENGTH, M)                                                        \
    static __attribute__((noinline)) void rows_##NAME##_##M(const codes_call *d)                   \
    {                                                                                              \
        rows_of_codes(AS, BITS, RUN_LENGTH, M, d);                                                 \
    }
#define FORMAT(NAME, AS, BITS, RUN_LENGTH)                                                         \
    static __attribute__((noinline)) void decode_##NAME(const cpu_codes *c, const uint8_t *codes,  \
                                                        const char *scale, const char *bias,       \
                                                        int64_t groups, float *out)                \
    {                                                                                              \
        decode_as(AS, BITS, RUN_LENGTH, c, codes, scale, bias, groups, out);                       \
    }                                                                                              \
    ROWS(NAME, AS, BITS, RUN_LENGTH, 1)                                                            \
    ROWS(NAME, AS, BITS, RUN_LENGTH, 2)                                                            \
    ROWS(NAME, AS, BITS, RUN_LENGTH, 4)                                                            \
    ROWS(NAME, AS, BITS, RUN_LENGTH, 8)
FORMAT(affine2, AS_INTEGER, 2, RUN)
FORMAT(affine3, AS_INTEGER, 3, RUN)
FORMAT(affine4, AS_INTEGER, 4, RUN)
FORMAT(affine5, AS_INTEGER, 5, RUN)
FORMAT(affine6, AS_INTEGER, 6, RUN)
FORMAT(affine8, AS_INTEGER, 8, RUN)
FORMAT(mxfp4, AS_FLOAT4, 4, RUN)
FORMAT(mxfp8, AS_FLOAT8, 8, RUN)
FORMAT(nvfp4, AS_FLOAT4, 4, SHORT_RUN)
#undef FORMAT
#undef ROWS

typedef struct format {
    void (*decode)(const cpu_codes *c, const uint8_t *codes, const char *scale, const char *bias,
                   int64_t groups, float *out);
    void (*rows[9])(const codes_call *d);
} format;

#define ENTRY(NAME)                                                                                \
    {                                                                                              \
        decode_##NAME,                                                                             \
        {                                                                                          \
            [1] = rows_##NAME##_1, [2] = rows_##NAME##_2, [4] = rows_##NAME##_4,                   \
            [8] = rows_##NAME##_8                                                                  \
        }                                                                                          \
    }
static const format affine[9] = {[2] = ENTRY(affine2), [3] = ENTRY(affine3), [4] = ENTRY(affine4),
                                 [5] = ENTRY(affine5), [6] = ENTRY(affine6), [8] = ENTRY(affine8)};
static const format floats[] = {ENTRY(mxfp4), ENTRY(mxfp8), ENTRY(nvfp4)};
#undef ENTRY

static const format *format_of(const cpu_codes *c)
{
    return c->kind == WEFT_ENCODING_AFFINE ? &affine[c->bits]
                                           : &floats[c->kind - WEFT_ENCODING_MXFP4];
}

static void decode_codes(const cpu_codes *c, int64_t row, int64_t group, int64_t groups, float *out)
{
    const char *codes = c->codes + row * c->code_row + group * c->code_group;
    const int64_t scale = row * c->scale_row + group * c->scale_group;
    if (!weft_encoding_has_parts((weft_encoding_kind)c->kind))
        CPU_NAME(weft__decode_blocks)(c, row, group, groups, out);
    else
        format_of(c)->decode(c, (const uint8_t *)codes, c->scales + scale, c->biases + scale,
                             groups, out);
}

static void gemv_codes(const cpu_codes *c, int m, int64_t k, const float *x, const float *sums,
                       int64_t first, int64_t n, const float *bias, float *y, int64_t y_row)
{
    if (!weft_encoding_has_parts((weft_encoding_kind)c->kind)) {
        CPU_NAME(weft__gemv_blocks)(c, m, k, x, first, n, bias, y, y_row);
        return;
    }
    codes_call d = {c, m, k / c->group, first, n, x, sums, bias, y, y_row};
    format_of(c)->rows[weft__cpu_gemv_rows(m)](&d);
}

static void code_sums(int m, int64_t k, int64_t group, const float *x, float *sums)
{
    const int all = weft__cpu_gemv_rows(m);
    for (int64_t g = 0; g < k; g += group)
        for (int i = 0; i < all; i++) {
            vf sum = {0};
            for (int64_t p = g; p < g + group; p += LANES)
                sum += vload(x + p * all + i * LANES);
            sums[g / group * all + i] = vsum(sum);
        }
}

void CPU_NAME(weft__fill_codes)(cpu_kernels *table)
{
    table->decode_codes = decode_codes;
    table->gemv_codes = gemv_codes;
    table->code_sums = code_sums;
}
