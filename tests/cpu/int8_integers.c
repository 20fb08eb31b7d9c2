/* tests/cpu/int8_integers.c -- checks the exact parts of products of 8-bit activations, for the
 * kernels of one instruction set. */
#include "tests/cpu/int8_integers.h"

#include <math.h>
#include <string.h>

/* More rows than a tile has, and more blocks than a kernel takes at a time. */
enum {
    TERMS = CPU_INT8_TERMS,
    COLUMNS = CPU_INT8_COLUMNS,
    M = 53,
    BLOCKS = 19,
    K = BLOCKS * TERMS
};

/* Scales and steps of 1 leave the sums of codes times integers as they are; the offset is tested
 * where `starts` is given. */
static void sums_of(const cpu_kernels *kernels, const int8_t *q, const uint8_t *w, bool narrow,
                    const int32_t *starts, float *c)
{
    static float ones[M * BLOCKS + BLOCKS * COLUMNS], zeros[M * BLOCKS + BLOCKS * COLUMNS];
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++)
        ones[i] = 1;
    memset(c, 0, M * COLUMNS * sizeof *c);
    const cpu_int8_block block = {.m = M,
                                  .blocks = BLOCKS,
                                  .x = q,
                                  .x_row = K,
                                  .steps = ones,
                                  .shifts = starts ? NULL : zeros,
                                  .starts = starts,
                                  .per_row = BLOCKS,
                                  .w = w,
                                  .narrow = narrow,
                                  .scales = ones,
                                  .biases = zeros,
                                  .c = c};
    kernels->int8_block(&block);
}

/* 32 * 255 * 127 is in the exact range. */
int64_t int8_wrong_sums(const cpu_kernels *kernels, bool with_starts, int largest)
{
    static int8_t q[M * K];
    static uint8_t w[K * COLUMNS];
    static int32_t starts[M * BLOCKS];
    static float c[M * COLUMNS];
    uint32_t seed = 7;
    for (int i = 0; i < M * K; i++) {
        const int any = (int)((seed = seed * 1664525 + 1) % 255) - 127;
        const int most = i < K ? 127 : i < 2 * K ? -127 : any;
        q[i] = (int8_t)(i % K < K / 2 ? most : any); /* the sums stay below 2^24 */
    }
    for (int i = 0; i < K * COLUMNS; i++)
        w[i] = (uint8_t)(largest & (i % 128 < 64 ? 255 : (seed = seed * 1664525 + 1) >> 24));
    for (int i = 0; i < M * BLOCKS; i++)
        starts[i] = -128 * (i - 9);
    sums_of(kernels, q, w, largest < 16, with_starts ? starts : NULL, c);
    int64_t wrong = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < COLUMNS; j++) {
            int64_t sum = 0;
            for (int g = 0; with_starts && g < BLOCKS; g++)
                sum += starts[i * BLOCKS + g];
            for (int k = 0; k < K; k++)
                sum += q[i * K + k] * w[k / 4 * 4 * COLUMNS + j * 4 + k % 4];
            wrong += c[i * COLUMNS + j] != (float)sum;
        }
    return wrong;
}

/* A row of BLOCKS blocks with a float16 scale of 1 before each, as a weight's codes; weights[k] are
 * their values. */
static void make_row(int kind, uint32_t *seed, bool extreme, uint8_t *row, int *weights)
{
    const int bytes = kind == WEFT_ENCODING_Q8_0 ? TERMS : TERMS / 2;
    for (int g = 0; g < BLOCKS; g++, row += 2 + bytes, weights += TERMS) {
        row[0] = 0, row[1] = 0x3c;
        for (int i = 0; i < bytes; i++) {
            const uint8_t any = (uint8_t)((*seed = *seed * 1664525 + 1) >> 24);
            row[2 + i] = !extreme ? any : kind == WEFT_ENCODING_Q8_0 ? 0x80 : g % 2 ? 0xff : 0;
            if (kind == WEFT_ENCODING_Q8_0) {
                weights[i] = (int8_t)row[2 + i];
            } else {
                weights[i] = (row[2 + i] & 15) - 8;
                weights[i + bytes] = (row[2 + i] >> 4) - 8;
            }
        }
    }
}

static int64_t wrong_rows(const cpu_kernels *kernels, int kind, int m)
{
    enum { ROWS = 3, PER_ROW = (BLOCKS + 7) / 8 * 8 };
    static int8_t q[CPU_GEMV_ROWS * K];
    static uint8_t rows[ROWS][BLOCKS * (2 + TERMS)];
    static int weights[ROWS][K];
    static float steps[CPU_GEMV_ROWS * PER_ROW];
    static int32_t starts[CPU_GEMV_ROWS * PER_ROW];
    float y[CPU_GEMV_ROWS * ROWS];
    uint32_t seed = 11;
    memset(steps, 0, sizeof steps);
    for (int i = 0; i < m * K; i++) {
        const int any = (int)((seed = seed * 1664525 + 1) % 255) - 127;
        q[i] = (int8_t)(i % K >= K / 2 ? any : i / K % 2 ? -127 : 127);
    }
    for (int i = 0; i < m; i++)
        for (int g = 0; g < BLOCKS; g++) {
            int sum = 0;
            for (int k = 0; k < TERMS; k++)
                sum += q[i * K + g * TERMS + k];
            steps[i * PER_ROW + g] = 1;
            starts[i * PER_ROW + g] = -8 * sum;
        }
    for (int r = 0; r < ROWS; r++)
        make_row(kind, &seed, r == 1, rows[r], weights[r]);
    const int64_t block = 2 + (kind == WEFT_ENCODING_Q8_0 ? TERMS : TERMS / 2);
    const cpu_codes codes = {.kind = kind,
                             .group = TERMS,
                             .codes = (const char *)rows,
                             .code_group = block,
                             .code_row = sizeof rows[0]};
    const cpu_int8_rows call = {.m = m,
                                .blocks = BLOCKS,
                                .codes = &codes,
                                .x = q,
                                .x_row = K,
                                .steps = steps,
                                .starts = starts,
                                .per_row = PER_ROW,
                                .n = ROWS,
                                .y = y,
                                .y_row = ROWS};
    kernels->int8_rows(&call);
    int64_t wrong = 0;
    for (int i = 0; i < m; i++)
        for (int r = 0; r < ROWS; r++) {
            int64_t sum = 0;
            for (int k = 0; k < K; k++)
                sum += q[i * K + k] * weights[r][k];
            wrong += y[i * ROWS + r] != (float)sum;
        }
    return wrong;
}

int64_t int8_wrong_rows(const cpu_kernels *kernels)
{
    int64_t wrong = 0;
    for (int m = 1; kernels->int8_rows && m <= CPU_GEMV_ROWS; m *= 2)
        wrong +=
            wrong_rows(kernels, WEFT_ENCODING_Q8_0, m) + wrong_rows(kernels, WEFT_ENCODING_Q4_0, m);
    return wrong;
}

static int64_t wrong_block(const float *x, const int8_t *q, float step, int32_t start, float shift)
{
    float largest = 0;
    int32_t sum = 0;
    int64_t wrong = 0;
    for (int i = 0; i < TERMS; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    const float inverse = 127 / largest;
    for (int i = 0; i < TERMS; i++) {
        const float product = x[i] * inverse;
        wrong += q[i] != (int)nearbyintf(product);
        sum += q[i];
    }
    return wrong + (step != largest * (1.0f / 127)) + (start != -128 * sum) +
           (shift != step * (float)sum);
}

int64_t int8_wrong_roundings(const cpu_kernels *kernels)
{
    float x[K], steps[BLOCKS], shifts[BLOCKS];
    int8_t q[K];
    int32_t starts[BLOCKS];
    int64_t wrong = 0;
    for (int i = 0; i < K; i++)
        x[i] = i < TERMS ? (float)i - 15.5f : sinf((float)i) * ldexpf(1, i / TERMS * 10 - 100);
    x[0] = 127; /* a step of 1: halves */
    kernels->int8_round(WEFT_FLOAT32, x, K, 0, q, steps, starts, shifts);
    kernels->int8_round(WEFT_FLOAT32, x, K, 128, q, steps, starts, shifts);
    for (int g = 0; g < BLOCKS; g++)
        wrong += wrong_block(x + g * TERMS, q + g * TERMS, steps[g], starts[g], shifts[g]);
    return wrong;
}
