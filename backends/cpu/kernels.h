/* backends/cpu/kernels.h -- the table of vector kernels, which isa/ fills.
 *
 * The kernels work on float32 in plain rows and tiles. The drivers in this folder handle shapes,
 * dtypes, strides and threads.
 */
#ifndef BACKENDS_CPU_KERNELS_H
#define BACKENDS_CPU_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/cpu/isa.h"
#include "weft/op.h"

/* C (m, n) = or += A (m, k) B (k, n). A is in panels of gemm_rows rows, a_panel floats apart;
 * element (i, p) of a panel is at i * a_row + p * a_k, where one of the two strides is 1. B is in
 * panels of gemm_columns columns, b_panel floats apart, with rows b_k apart; whole vectors of
 * columns are readable. */
typedef struct cpu_block {
    int64_t m, n, k;
    const float *a;
    int64_t a_panel, a_row, a_k;
    const float *b;
    int64_t b_panel, b_k;
    const void *b_next; /* what the next block reads first, or NULL; is prefetched */
    float *c;
    int64_t c_row;
    bool add;          /* adds to C */
    const float *bias; /* n floats as initial values, or NULL; not with `add` */
    /* Only for cpu_part_kernels: the parts of an element of A and of B, and the orders of their
     * products that are computed. */
    int a_parts, b_parts, orders;
} cpu_block;

/* Rows of results in float32, from_row apart, which with the bias, if there is one, are written as
 * `dtype`, or (float32) added, to rows that are to_row elements apart. */
typedef struct cpu_part_result {
    int64_t m, n;
    const float *from;
    int64_t from_row;
    const float *bias;
    weft_dtype dtype;
    bool add;
    void *to;
    int64_t to_row;
} cpu_part_result;

typedef struct cpu_codes cpu_codes;

/* m <= CPU_PART_ROWS rows of x, x_row elements apart, for products with rows of these codes (NULL:
 * of dense weights), as sums of their parts. k is a multiple of 64. */
typedef struct cpu_part_x {
    weft_dtype dtype;
    int parts, m;
    const cpu_codes *codes;
    int64_t k;
    const void *x;
    int64_t x_row;
    float *memory; /* 64-byte aligned; pack writes it */
} cpu_part_x;

/* y[i * y_row + f] = x_i . w_f (+ bias_f) for the rows first .. first + n of w; bias and y are
 * indexed from row 0. */
typedef struct cpu_part_rows {
    cpu_part_x x;
    weft_dtype w_dtype; /* without codes: of the weights, rows w_row elements apart */
    const void *w;
    int64_t w_row, first, n;
    const float *bias;
    float *y;
    int64_t y_row;
} cpu_part_rows;

/* Few rows of x, by the parts of cpu_part_kernels. least: the rows of x from which they are faster
 * for such codes (NULL: dense weights of the dtype); 0: there are none for these codes. floats: of
 * memory. pack: ranges of 32 of k. The table is empty where the machine has no such kernels. */
typedef struct cpu_part_rows_kernels {
    int (*least)(const cpu_codes *c, weft_dtype dtype);
    int64_t (*floats)(const cpu_part_x *x);
    void (*pack)(const cpu_part_x *x, int64_t begin, int64_t end);
    void (*run)(const cpu_part_rows *r);
} cpu_part_rows_kernels;

/* Matrix products whose elements are sums of bfloat16 parts (isa/amx.c). Panels of both sides have
 * `width` rows or columns, and k is padded with zeros to a multiple of `step`: width * step * parts
 * / 2 floats for each. In a block a_row, a_k, b_k, b_next and bias are not used, and C has whole
 * tiles of 16 rows and columns. */
typedef struct cpu_part_kernels {
    int width, step; /* width 0: the machine has no such kernels */
    void (*block)(const cpu_block *block);
    /* Like pack_a and pack_b below, without a gap. bfloat16 has one part and float16 two; a float32
     * has one or two (it is rounded to 8 or 16 bits), or three. */
    void (*pack_a)(weft_dtype dtype, int parts, const void *a, int64_t a_row, int64_t a_k,
                   int64_t m, int64_t k, float *out);
    void (*pack_b)(weft_dtype dtype, int parts, const void *b, int64_t b_k, int64_t b_n, int64_t k,
                   int64_t n, float *out);
    bool (*write)(const cpu_part_result *r); /* whether all are finite */
    /* The number of parts, at most `most`, that represent all elements of rows of n floats, which
     * are `row` elements apart, exactly. */
    int (*needed)(const void *x, int64_t row, int64_t rows, int64_t n, int most);
    cpu_part_rows_kernels rows;
} cpu_part_kernels;

/* y_i[f] += x_i . w_f for m rows of x and n rows of w, a multiple of 4, of k elements each, a
 * multiple of `lanes`. Strides are in floats. */
typedef struct cpu_tiles {
    int64_t m, n, k;
    const float *x;
    int64_t x_row;
    const float *w;
    int64_t w_row;
    float *y;
    int64_t y_row;
} cpu_tiles;

/* C (m, CPU_INT8_COLUMNS) += x w^T over `blocks` blocks of CPU_INT8_TERMS terms, for a panel of
 * weights from int8_pack. x and its per-block numbers come from int8_round. */
typedef struct cpu_int8_block {
    int64_t m, blocks;
    const int8_t *x;
    int64_t x_row; /* bytes */
    /* A number for each block of x, per_row numbers per row. Either starts or shifts is NULL. */
    const float *steps, *shifts;
    const int32_t *starts;
    int64_t per_row;
    const uint8_t *w;
    bool narrow; /* all bytes of w are less than 16 */
    const float *scales, *biases;
    float *c;
} cpu_int8_block;

/* One AdamW step, with the values that are equal for all elements precomputed. */
typedef struct cpu_adamw {
    float grad_scale, beta1, rest1, beta2, rest2; /* rest = 1 - beta */
    float keep;                                   /* 1 - lr decay */
    float rate;                                   /* lr / correction1 */
    float root;                                   /* 1 / correction2 */
    float eps;
} cpu_adamw;

/* 8-bit moments: the values of the codes relative to their block's scale, and the encoder's
 * constants. */
typedef struct cpu_moment_codes {
    float values[256];
    float zero, first; /* the code of 0; number of values in the lowest decade */
    float limits[6], least,
        one;       /* lower limits of the next decades, of the smallest value and of 1 */
    bool positive; /* a positive value never gets the code of 0 */
} cpu_moment_codes;

/* One pass of a Fourier transform: m elements of `radix` numbers each, for s interleaved positions,
 * in separate planes of real and imaginary parts (isa/fft.c). w: the powers k p, 0 < k < radix, p <
 * m, of the pass's root, in rows of m; c: those of the radix's root. */
typedef struct cpu_fft_pass {
    int64_t radix, m, s;
    const float *xr, *xi;
    float *yr, *yi;
    float *wr, *wi, *cr, *ci;
} cpu_fft_pass;

/* How elements are combined. Integer sums and products wrap; NaN wins in extremes. */
typedef enum cpu_fold { CPU_SUM, CPU_PROD, CPU_MAX, CPU_MIN } cpu_fold;

/* A matrix of quantized groups: the addresses of codes, scales and biases of its first group, and
 * the strides in bytes from group to group and from row to row. Without biases these are the
 * scales. */
struct cpu_codes {
    int kind; /* weft_encoding_kind */
    int bits;
    int64_t group;
    weft_dtype scale;
    const char *codes, *scales, *biases;
    int64_t code_group, code_row, scale_group, scale_row;
    const weft_encoding *encoding; /* of a kind that is not split into parts: its blocks are at
                                    * `codes` */
};

/* y[i * y_row + f] = x_i w_f^T (+ bias_f) for m <= CPU_GEMV_ROWS rows of x and the rows first ..
 * first + n of w; bias and y are indexed from row 0. x and its numbers are those of int8_round, for
 * weft__cpu_gemv_rows(m) rows; per_row is a multiple of 8, and numbers after the last block are 0.
 */
typedef struct cpu_int8_rows {
    int m;
    int64_t blocks;
    const cpu_codes *codes;
    const int8_t *x;
    int64_t x_row; /* bytes */
    const float *steps, *shifts;
    const int32_t *starts;
    int64_t per_row, first, n;
    const float *bias;
    float *y;
    int64_t y_row;
} cpu_int8_rows;

/* Quantized rows of keys or values (weft_kv_codes) of one head: the first row, and the strides from
 * row to row in elements. */
typedef struct cpu_kv_codes {
    int bits;
    int64_t width, group; /* elements per row, and per group */
    const uint8_t *codes;
    const float *steps, *least;
    int64_t code_row, step_row, least_row;
} cpu_kv_codes;

/* Outputs of a depthwise convolution: y[o, c], y_step apart, is the sum over taps t of x[x_at[t] +
 * o x_step + c] weight[w_at[t] + c]. Offsets are in elements. */
typedef struct cpu_depthwise {
    int64_t taps, outputs, channels;
    const void *x;
    int64_t x_step;
    const int64_t *x_at, *w_at;
    const float *weight;
    float *y;
    int64_t y_step;
} cpu_depthwise;

typedef struct cpu_kernels {
    /* Convert n elements between float32, float16 or bfloat16 and float32. */
    void (*decode)(weft_dtype dtype, const void *from, float *to, int64_t n);
    void (*encode)(weft_dtype dtype, const float *from, void *to, int64_t n);

    cpu_part_kernels parts;

    int lanes, gemm_rows, gemm_columns;
    void (*gemm_block)(const cpu_block *block);
    /* Packs B (k, n) into panels of gemm_columns columns, the last padded with zeros. b_k and b_n
     * are B's strides in elements. */
    void (*pack_b)(weft_dtype dtype, const void *b, int64_t b_k, int64_t b_n, int64_t k, int64_t n,
                   float *out);
    /* Packs A (m, k), whose strides in elements are a_row and a_k, into panels of gemm_rows rows: k
     * steps of gemm_rows floats each, followed by a gap of `lanes` floats. */
    void (*pack_a)(weft_dtype dtype, const void *a, int64_t a_row, int64_t a_k, int64_t m,
                   int64_t k, float *out);

    /* y[i * y_row + f] = x_i . w_f (+ bias_f) for m <= CPU_GEMV_ROWS rows x_i and n rows of w,
     * w_row elements apart. x comes from gemv_pack: weft__cpu_gemv_rows(m) rows of k elements,
     * padded to whole vectors, with the vectors of the rows interleaved. */
    void (*gemv)(weft_dtype dtype, int m, int64_t k, const float *x, const void *w, int64_t w_row,
                 int64_t n, const float *bias, float *y, int64_t y_row);
    void (*gemv_pack)(weft_dtype dtype, int m, int64_t k, const void *x, int64_t x_row, float *out);
    /* out_i += sum of n rows of v, v_row elements apart, times p_i[0 .. n), for m <= CPU_GEMV_ROWS
     * rows of p and out. */
    void (*gemv_across)(weft_dtype dtype, int m, int64_t n, const float *p, int64_t p_row,
                        const void *v, int64_t v_row, int64_t width, float *out, int64_t out_row);

    /* to (m, n) = from^T (+ bias), where `from` has n rows of whole vectors; rows of both are
     * from_row and to_row floats apart. */
    void (*turn)(const float *from, int64_t from_row, int64_t m, int64_t n, const float *bias,
                 float *to, int64_t to_row);

    /* isa/tiles.c. gemv_most: up to so many rows of x gemv and gemv_codes are faster. */
    void (*tiles)(const cpu_tiles *t);
    int gemv_most;

    /* isa/codes.c: decodes whole groups of a row to float32. */
    void (*decode_codes)(const cpu_codes *c, int64_t row, int64_t group, int64_t groups,
                         float *out);
    /* isa/gemv_codes.c: gemv with rows first .. first + n of a matrix of codes; bias and y are
     * indexed from row 0. codes_arrange brings x, as gemv_pack wrote it, into the form that the
     * kernel of these codes reads; it may write k / 32 more floats a row, in whole vectors. */
    void (*codes_arrange)(const cpu_codes *c, int m, int64_t k, float *x);
    void (*gemv_codes)(const cpu_codes *c, int m, int64_t k, const float *x, int64_t first,
                       int64_t n, const float *bias, float *y, int64_t y_row);

    /* isa/int8.c. int8_round: k numbers as blocks of integers: x = step * q. For codes with an
     * offset instead of a bias, starts[g] is -offset times the sum of block g's integers; otherwise
     * (offset 0) shifts[g] is their sum times the step. int8_pack: the weights' rows first .. first
     * + n <= CPU_INT8_COLUMNS as a panel: four terms of all columns, the next four, ...; and
     * CPU_INT8_COLUMNS scales and biases for each block. */
    void (*int8_round)(weft_dtype dtype, const void *x, int64_t k, int offset, int8_t *q,
                       float *steps, int32_t *starts, float *shifts);
    void (*int8_pack)(const cpu_codes *c, int64_t first, int64_t n, int64_t blocks, uint8_t *w,
                      float *scales, float *biases);
    void (*int8_block)(const cpu_int8_block *b);
    int int8_least; /* for fewer rows exact products are as fast */
    /* isa/int8_rows.c. NULL: exact products of so few rows are as fast. */
    void (*int8_rows)(const cpu_int8_rows *r);

    /* isa/kv_codes.c, for m <= CPU_GEMV_ROWS rows: y_i[s] = x_i . key s, given the sums of x_i over
     * groups; out_i += sum over s of p_i[s] value s; and n rows decoded to float32. */
    void (*kv_dot)(const cpu_kv_codes *c, int m, const float *x, int64_t x_row, const float *sums,
                   int64_t n, float *y, int64_t y_row);
    void (*kv_add)(const cpu_kv_codes *c, int m, int64_t n, const float *p, int64_t p_row,
                   float *out, int64_t out_row);
    void (*kv_decode)(const cpu_kv_codes *c, int64_t n, float *out, int64_t out_row);

    /* Contiguous rows of n floats. */
    void (*scale_row)(float *x, int64_t n, float factor);
    void (*add_row)(float *x, const float *y, int64_t n);
    float (*dot)(const float *a, const float *b, int64_t n);

    /* Documented in isa/attention.c. */
    float (*softmax_row)(float *s, int64_t n, float cap, const float *mask, float *maximum,
                         float *sum);
    void (*softmax_vjp_row)(float *s, float *dp, int64_t n, float cap, const float *mask, float lse,
                            float delta);

    void (*fft_pass)(const cpu_fft_pass *pass);

    /* isa/norm.c */
    void (*rms_row)(const float *x, const float *gain, float *y, int64_t n, float eps);
    void (*rms_vjp_row)(const float *x, const float *gain, const float *ct, float *dx, float *dw,
                        int64_t n, float eps);
    void (*layer_row)(const float *x, const float *gain, const float *bias, float *y, int64_t n,
                      float eps);
    void (*layer_vjp_row)(const float *x, const float *gain, const float *ct, float *dx, float *dw,
                          float *db, int64_t n, float eps);

    /* isa/rope.c */
    void (*rope_angles)(const float *frequency, float position, float amplitude, bool inverse,
                        float *cosine, float *sine, int64_t n);
    void (*rope_row)(const float *x, const float *cosine, const float *sine, bool interleaved,
                     float *y, int64_t n);

    /* isa/delta.c: one token through `rows` rows of a state, D floats each: its key and query, its
     * values v, the decay of the state and the learning rate (NULL: the values are added without
     * correction); y is the result for the query. */
    void (*delta_rows)(float *state, int64_t rows, int64_t D, const float *key, const float *query,
                       const float *v, float keep, const float *beta, float *y);

    /* isa/loss.c */
    float (*logsumexp_row)(const float *x, int64_t n);
    void (*probability_row)(const float *x, float *out, int64_t n, float lse, float factor);
    float (*softmax_slope_row)(float *s, int64_t n, float cap, float *maximum, float *sum);
    void (*adamw_row)(const cpu_adamw *a, float *p, const float *g, float *m, float *v, int64_t n);
    /* The codes of x, whose magnitudes are at most scale. */
    void (*moment_codes_row)(const cpu_moment_codes *c, const float *x, float scale, uint8_t *codes,
                             int64_t n);

    /* isa/reduce.c. Sums are computed in double. In extremes NaN wins; the extreme of no elements
     * is infinite. exp_row: out[i] = exp(x[i] - shift), and their sum. */
    double (*sum_row)(const float *x, int64_t n);
    double (*dot_row)(const float *x, const float *y, int64_t n);
    float (*max_row)(const float *x, int64_t n);
    float (*min_row)(const float *x, int64_t n);
    void (*sum_columns)(double *sums, const float *x, int64_t n);
    void (*max_columns)(double *best, const float *x, int64_t n);
    void (*min_columns)(double *best, const float *x, int64_t n);
    double (*exp_row)(const float *x, int64_t n, float shift, float *out);
    void (*softmax_grad_row)(const float *y, const float *dy, int64_t n, float dot, float *dx);
    void (*log_softmax_grad_row)(const float *y, const float *dy, int64_t n, float sum, float *dx);

    /* isa/reduce_wide.c: n elements at intervals of `stride` as doubles (floats), as 64-bit
     * integers, and as whether they are nonzero; and their reduction to one value, or elementwise:
     * sums[i] combined with x[i]. squares: of the deviations from the mean. */
    void (*load_reals)(weft_dtype dtype, const void *x, int64_t stride, double *out, int64_t n);
    void (*load_wholes)(weft_dtype dtype, const void *x, int64_t stride, int64_t *out, int64_t n);
    void (*load_truths)(weft_dtype dtype, const void *x, int64_t stride, int64_t *out, int64_t n);
    double (*fold_reals)(cpu_fold fold, const double *x, int64_t n);
    void (*fold_reals_across)(cpu_fold fold, double *sums, const double *x, int64_t n);
    int64_t (*fold_wholes)(cpu_fold fold, const int64_t *x, int64_t n);
    void (*fold_wholes_across)(cpu_fold fold, int64_t *sums, const int64_t *x, int64_t n);
    double (*squares_row)(const double *x, double mean, int64_t n);
    void (*squares_across)(double *sums, const double *x, const double *means, int64_t n);
    /* isa/conv.c. The gradient adds to sums[c] the products of x and ct over the outputs. */
    void (*depthwise)(weft_dtype dtype, const cpu_depthwise *d);
    void (*depthwise_grad)(weft_dtype dtype, const void *x, int64_t x_step, const void *ct,
                           int64_t ct_step, int64_t outputs, int64_t channels, float *sums);

    /* isa/random.c: n blocks (a[i], b[i]) under a key. */
    void (*threefry)(const uint32_t *key, uint32_t *a, uint32_t *b, int64_t n);
} cpu_kernels;

enum { CPU_GEMV_ROWS = 8, CPU_PART_ROWS = 24, CPU_INT8_TERMS = 32, CPU_INT8_COLUMNS = 32 };

/* The number of rows that gemv_pack writes for m: kernels exist for powers of two. */
static inline int weft__cpu_gemv_rows(int64_t m)
{
    return m > 4 ? 8 : m > 2 ? 4 : (int)m;
}

/* The kernels for this machine. */
const cpu_kernels *weft__cpu_kernels(void);

/* For tests, while nothing runs: switches to the kernels of another instruction set, at most the
 * machine's. Returns the one in use. */
cpu_isa weft__cpu_use_isa(cpu_isa isa);

#if defined(__x86_64__)
void weft__fill_amx_amx(cpu_kernels *table);
void weft__fill_amx_dense_amx(cpu_kernels *table);
#endif
CPU_DECLARE_FILL(weft__fill_attention, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_codes, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_conv, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_convert_rows, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_delta, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_fft, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_gemm, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_gemv, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_gemv_codes, cpu_kernels);
CPU_DECLARE_FILL_BYTES(weft__fill_int8, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_int8_pack, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_int8_rows, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_kv_codes, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_loss, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_norm, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_random, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_reduce, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_reduce_wide, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_rope, cpu_kernels);
CPU_DECLARE_FILL(weft__fill_tiles, cpu_kernels);

#endif
