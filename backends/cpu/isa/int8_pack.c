/* backends/cpu/isa/int8_pack.c -- quantized weights as bytes with a scale, and perhaps a bias, for
 * each block of 32, in panels for products with 8-bit activations (isa/int8.c).
 */
#include "backends/cpu/isa/group_scales.h"
#include "backends/cpu/isa/transpose.h"
#include "backends/cpu/kernels.h"

/* Elements 32 g .. 32 g + 32 of row r as bytes, with their scale and, for types that have one,
 * their bias. */
typedef void bytes_of(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                      float *bias);

enum { RUNS = SUPERBLOCK / CPU_INT8_TERMS };

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

#if !defined(__AVX512F__) /* which packs four blocks at a time */
SIMD void bytes_q4_0(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                     float *bias)
{
    const uint8_t *b = block_at(c, r, g);
    *scale = half_at(b);
    (void)bias;
    nibbles_of(b + 2, 16, 0, out);
    nibbles_of(b + 2, 16, 4, out + 16);
}

SIMD void bytes_q4_1(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                     float *bias)
{
    const uint8_t *b = block_at(c, r, g);
    *scale = half_at(b);
    *bias = half_at(b + 2);
    nibbles_of(b + 4, 16, 0, out);
    nibbles_of(b + 4, 16, 4, out + 16);
}
#endif

/* Sets the fifth bit of 32 bytes from the bits at `high`. */
SIMD void add_fifth(const uint8_t *high, uint8_t *out)
{
#pragma GCC unroll 4
    for (int i = 0; i < CPU_INT8_TERMS; i += 8) {
        const uint64_t one = UINT64_C(0x0101010101010101), most = one * 0x7f;
        const uint64_t bit = one * high[i / 8] & UINT64_C(0x8040201008040201);
        uint64_t eight;
        memcpy(&eight, out + i, sizeof eight);
        eight |= (((bit & most) + most) | bit) >> 3 & one * 16;
        memcpy(out + i, &eight, sizeof eight);
    }
}

SIMD void bytes_q5_0(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                     float *bias)
{
    const uint8_t *b = block_at(c, r, g);
    *scale = half_at(b);
    (void)bias;
    nibbles_of(b + 6, 16, 0, out);
    nibbles_of(b + 6, 16, 4, out + 16);
    add_fifth(b + 2, out);
}

SIMD void bytes_q5_1(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                     float *bias)
{
    const uint8_t *b = block_at(c, r, g);
    *scale = half_at(b);
    *bias = half_at(b + 2);
    nibbles_of(b + 8, 16, 0, out);
    nibbles_of(b + 8, 16, 4, out + 16);
    add_fifth(b + 4, out);
}

/* The values of nibbles, which are signed, plus 128. */
SIMD void look_up(const uint8_t *table, const uint8_t *codes, uint8_t *out)
{
#if defined(__AVX2__)
    const __m128i values = _mm_loadu_si128((const void *)table), nibble = _mm_set1_epi8(15);
    const __m128i low = _mm_loadu_si128((const void *)codes), high = _mm_srli_epi16(low, 4);
    _mm_storeu_si128((void *)out, _mm_shuffle_epi8(values, _mm_and_si128(low, nibble)));
    _mm_storeu_si128((void *)(out + 16), _mm_shuffle_epi8(values, _mm_and_si128(high, nibble)));
#else
    nibbles_of(codes, 16, 0, out);
    nibbles_of(codes, 16, 4, out + 16);
    for (int i = 0; i < CPU_INT8_TERMS; i++)
        out[i] = table[out[i]];
#endif
}

static const uint8_t uneven[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                   129, 141, 153, 166, 181, 197, 217, 241};
static const uint8_t doubled_float4[16] = {128, 129, 130, 131, 132, 134, 136, 140,
                                           128, 127, 126, 125, 124, 122, 120, 116};

SIMD void bytes_iq4_nl(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                       float *bias)
{
    const uint8_t *b = block_at(c, r, g);
    *scale = half_at(b);
    (void)bias;
    look_up(uneven, b + 2, out);
}

SIMD void bytes_iq4_xs(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                       float *bias)
{
    const uint8_t *b = block_at(c, r, g / RUNS);
    const int run = (int)(g % RUNS);
    const int low = b[4 + run / 2] >> run % 2 * 4 & 15, high = (b[2] | b[3] << 8) >> 2 * run & 3;
    *scale = half_at(b) * (float)((low | high << 4) - 32);
    (void)bias;
    look_up(uneven, b + 8 + 16 * run, out);
}

SIMD void bytes_mxfp4(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                      float *bias)
{
    const uint8_t *b = block_at(c, r, g);
    read_powers(b, 0, 1, 1, scale);
    (void)bias;
    look_up(doubled_float4, b + 1, out);
}

/* A run of Q4_K or Q5_K, whose low bits are at `low` of the block. */
SIMD const uint8_t *bytes_of_run(const cpu_codes *c, int64_t r, int64_t g, int low, uint8_t *out,
                                 float *scale, float *bias)
{
    const uint8_t *b = block_at(c, r, g / RUNS);
    const int run = (int)(g % RUNS);
    int s, m;
    scale_and_minimum(b + 4, run, &s, &m);
    *scale = half_at(b) * (float)s;
    *bias = -(half_at(b + 2) * (float)m);
    nibbles_of(b + low + run / 2 * CPU_INT8_TERMS, CPU_INT8_TERMS, run % 2 * 4, out);
    return b;
}

SIMD void bytes_q4_k(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                     float *bias)
{
    (void)bytes_of_run(c, r, g, 16, out, scale, bias);
}

SIMD void bytes_q5_k(const cpu_codes *c, int64_t r, int64_t g, uint8_t *out, float *scale,
                     float *bias)
{
    const uint8_t *high = bytes_of_run(c, r, g, 48, out, scale, bias) + 16;
    const int run = (int)(g % RUNS);
    for (int i = 0; i < CPU_INT8_TERMS; i++)
        out[i] |= (uint8_t)((high[i] >> run & 1) << 4);
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
enum { ABREAST = 8, WORDS = CPU_INT8_TERMS / 4, LINE = 64 };

/* Packs LANES columns from `first` on, of which n exist, and `count` <= ABREAST blocks from g on.
 */
SIMD void pack_piece(bytes_of *type, const cpu_codes *c, int64_t first, int64_t n, int64_t g,
                     int64_t count, uint8_t *w, float *scales, float *biases)
{
    uint8_t bytes[LANES][ABREAST * CPU_INT8_TERMS];
    if (count < ABREAST) /* vectors may extend beyond the last block */
        memset(bytes, 0, sizeof bytes);
    const char *next = c->codes + (first + CPU_INT8_COLUMNS) * c->code_row;
    const int64_t ahead = count * CPU_INT8_TERMS * c->code_group / c->group;
    next += g * CPU_INT8_TERMS / c->group * c->code_group;
    for (int64_t j = 0; j < LANES; j++, next += c->code_row) {
        for (int64_t at = 0; at < ahead; at += LINE)
            __builtin_prefetch(next + at);
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

#if defined(__AVX512F__)
/* The codes of up to four blocks, 16 bytes each, `bytes` apart. */
SIMD vf four_blocks(const uint8_t *codes, int bytes, int64_t count)
{
    __m512i all = _mm512_castsi128_si512(_mm_loadu_si128((const void *)codes));
    if (count > 1)
        all = _mm512_inserti32x4(all, _mm_loadu_si128((const void *)(codes + bytes)), 1);
    if (count > 2)
        all = _mm512_inserti32x4(all, _mm_loadu_si128((const void *)(codes + 2 * bytes)), 2);
    if (count > 3)
        all = _mm512_inserti32x4(all, _mm_loadu_si128((const void *)(codes + 3 * bytes)), 3);
    return (vf)all;
}

/* The codes of up to four blocks of LANES columns, of which n exist. Words are transposed before
 * they are divided into low and high nibbles: half the work. */
SIMD void pack_four(int header, int bytes, const cpu_codes *c, int64_t first, int64_t n, int64_t g,
                    int64_t count, uint8_t *w)
{
    enum { HALF = WORDS / 2, WORD = 4 * CPU_INT8_COLUMNS };
    vf row[LANES];
#pragma GCC unroll 16
    for (int j = 0; j < LANES; j++)
        row[j] = j < n ? four_blocks(block_at(c, first + j, g) + header, bytes, count) : (vf){0};
    transpose(row);
#pragma GCC unroll 16
    for (int l = 0; l < LANES; l++) {
        uint8_t *to = w + (l / HALF * WORDS + l % HALF) * WORD;
        if (l / HALF < count) {
            vstore((float *)(void *)to, (vf)((vi)row[l] & 0x0f0f0f0f));
            vstore((float *)(void *)(to + HALF * WORD), (vf)((vi)row[l] >> 4 & 0x0f0f0f0f));
        }
    }
}

/* As pack_of, for blocks of a scale, perhaps a minimum, and 16 bytes of low nibbles and high ones.
 */
SIMD void pack_nibbles(bool minimum, const cpu_codes *c, int64_t first, int64_t n, int64_t blocks,
                       uint8_t *w, float *scales, float *biases)
{
    const int header = minimum ? 4 : 2, bytes = header + 16;
    for (int64_t g = 0; g < blocks; g += 4, w += 4 * CPU_INT8_TERMS * CPU_INT8_COLUMNS) {
        const int64_t count = blocks - g < 4 ? blocks - g : 4;
        for (int64_t j = 0; j < CPU_INT8_COLUMNS; j += LANES) {
            uint16_t s[4][LANES] = {{0}}, b[4][LANES] = {{0}};
            for (int64_t i = 0; i < LANES && j + i < n; i++) {
                const uint8_t *p = block_at(c, first + j + i, g);
                const uint8_t *next = p + CPU_INT8_COLUMNS * c->code_row;
                __builtin_prefetch(next);
                __builtin_prefetch(next + 4 * bytes - 1);
                for (int64_t q = 0; q < count; q++) {
                    memcpy(&s[q][i], p + q * bytes, sizeof(uint16_t));
                    if (minimum)
                        memcpy(&b[q][i], p + q * bytes + 2, sizeof(uint16_t));
                }
            }
            if (count == 4 && j + LANES <= n)
                pack_four(header, bytes, c, first + j, LANES, g, 4, w + 4 * j);
            else
                pack_four(header, bytes, c, first + j, n - j, g, count, w + 4 * j);
            for (int64_t q = 0; q < count; q++) {
                vstore(scales + (g + q) * CPU_INT8_COLUMNS + j, vload_float16(s[q]));
                vstore(biases + (g + q) * CPU_INT8_COLUMNS + j, vload_float16(b[q]));
            }
        }
    }
}

static void pack_q4_0(const cpu_codes *c, int64_t first, int64_t n, int64_t blocks, uint8_t *w,
                      float *scales, float *biases)
{
    pack_nibbles(false, c, first, n, blocks, w, scales, biases);
}

static void pack_q4_1(const cpu_codes *c, int64_t first, int64_t n, int64_t blocks, uint8_t *w,
                      float *scales, float *biases)
{
    pack_nibbles(true, c, first, n, blocks, w, scales, biases);
}
#endif

#define PACK(NAME)                                                                                 \
    static void pack_##NAME(const cpu_codes *c, int64_t first, int64_t n, int64_t blocks,          \
                            uint8_t *w, float *scales, float *biases)                              \
    {                                                                                              \
        pack_of(bytes_##NAME, c, first, n, blocks, w, scales, biases);                             \
    }
PACK(q8_0)
#if !defined(__AVX512F__)
PACK(q4_0)
PACK(q4_1)
#endif
PACK(q5_0)
PACK(q5_1)
PACK(q4_k)
PACK(q5_k)
PACK(iq4_nl)
PACK(iq4_xs)
PACK(mxfp4)
PACK(affine4)
PACK(affine8)
#undef PACK

static void int8_pack(const cpu_codes *c, int64_t first, int64_t n, int64_t blocks, uint8_t *w,
                      float *scales, float *biases)
{
    static void (*const packs[])(const cpu_codes *, int64_t, int64_t, int64_t, uint8_t *, float *,
                                 float *) = {
        [WEFT_ENCODING_Q8_0] = pack_q8_0,     [WEFT_ENCODING_Q4_0] = pack_q4_0,
        [WEFT_ENCODING_Q4_1] = pack_q4_1,     [WEFT_ENCODING_Q5_0] = pack_q5_0,
        [WEFT_ENCODING_Q5_1] = pack_q5_1,     [WEFT_ENCODING_Q4_K] = pack_q4_k,
        [WEFT_ENCODING_Q5_K] = pack_q5_k,     [WEFT_ENCODING_IQ4_NL] = pack_iq4_nl,
        [WEFT_ENCODING_IQ4_XS] = pack_iq4_xs, [WEFT_ENCODING_GGUF_MXFP4] = pack_mxfp4,
    };
    if (c->kind == WEFT_ENCODING_AFFINE)
        (c->bits == 8 ? pack_affine8 : pack_affine4)(c, first, n, blocks, w, scales, biases);
    else
        packs[c->kind](c, first, n, blocks, w, scales, biases);
}

void CPU_NAME(weft__fill_int8_pack)(cpu_kernels *table)
{
    table->int8_pack = int8_pack;
}
