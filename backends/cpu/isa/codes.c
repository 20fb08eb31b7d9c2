/* backends/cpu/isa/codes.c -- rows of quantized groups: decoding, and the products of those that
 * gemv_codes.c has no kernel for.
 *
 * Codes are extracted from 32-bit words, each of which several lanes share. Must equal the
 * reference decoders bit for bit (tests/ops/test_quantize.c), products within rounding.
 */
#include "backends/cpu/isa/gemv_rows.h"

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
enum { SHORT_RUN = 16 };

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

/* ---- Functions for each format -------------------------------------------------------------- */

typedef struct format {
    void (*decode)(const cpu_codes *c, const uint8_t *codes, const char *scale, const char *bias,
                   int64_t groups, float *out);
    rows_function *rows[9];
} format;

#define DECODE(NAME, AS, BITS, RUN_LENGTH)                                                         \
    static __attribute__((noinline)) void decode_##NAME(const cpu_codes *c, const uint8_t *codes,  \
                                                        const char *scale, const char *bias,       \
                                                        int64_t groups, float *out)                \
    {                                                                                              \
        decode_as(AS, BITS, RUN_LENGTH, c, codes, scale, bias, groups, out);                       \
    }
#define ROWS(NAME, SCALES, AS, BITS)                                                               \
    SIMD void open_##NAME(const uint8_t *p, int index, const float *s, const float *b, unit *u)    \
    {                                                                                              \
        u->p = p + index * RUN * (BITS) / 8;                                                       \
        u->s = vset(*s);                                                                           \
        u->b = (AS) == AS_INTEGER ? vset(*b) : (vf){0};                                            \
    }                                                                                              \
    SIMD vf weights_##NAME(const unit *u, int v)                                                   \
    {                                                                                              \
        const vf product = values_at(AS, BITS, RUN * (BITS) / 8, u->p, v * LANES) * u->s;          \
        return (AS) == AS_INTEGER ? product + u->b : product;                                      \
    }                                                                                              \
    ROWS_FUNCTIONS(NAME, SCALES, open_##NAME, weights_##NAME, RUN, 0)
DECODE(affine2, AS_INTEGER, 2, RUN)
DECODE(affine3, AS_INTEGER, 3, RUN)
DECODE(affine4, AS_INTEGER, 4, RUN)
DECODE(affine5, AS_INTEGER, 5, RUN)
DECODE(affine6, AS_INTEGER, 6, RUN)
DECODE(affine8, AS_INTEGER, 8, RUN)
DECODE(mxfp4, AS_FLOAT4, 4, RUN)
DECODE(mxfp8, AS_FLOAT8, 8, RUN)
DECODE(nvfp4, AS_FLOAT4, 4, SHORT_RUN)
ROWS(affine2, affine_scales, AS_INTEGER, 2)
ROWS(affine3, affine_scales, AS_INTEGER, 3)
ROWS(affine5, affine_scales, AS_INTEGER, 5)
ROWS(affine6, affine_scales, AS_INTEGER, 6)
ROWS(mxfp8, mx_scales, AS_FLOAT8, 8)
#undef ROWS
#undef DECODE

static const format affine[9] = {
    [2] = {decode_affine2, ROWS_ENTRY(affine2)},
    [3] = {decode_affine3, ROWS_ENTRY(affine3)},
    [4] = {decode_affine4, {NULL}},
    [5] = {decode_affine5, ROWS_ENTRY(affine5)},
    [6] = {decode_affine6, ROWS_ENTRY(affine6)},
    [8] = {decode_affine8, {NULL}},
};
static const format without_bias[] = {
    {decode_mxfp4, {NULL}}, {decode_mxfp8, ROWS_ENTRY(mxfp8)}, {decode_nvfp4, {NULL}}};

static const format *format_of(const cpu_codes *c)
{
    return c->kind == WEFT_ENCODING_AFFINE ? &affine[c->bits]
                                           : &without_bias[c->kind - WEFT_ENCODING_MXFP4];
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

void CPU_NAME(weft__gemv_groups)(const codes_call *d, int rows)
{
    format_of(d->c)->rows[rows](d);
}

void CPU_NAME(weft__fill_codes)(cpu_kernels *table)
{
    table->decode_codes = decode_codes;
}
