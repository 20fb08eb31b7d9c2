/* backends/cpu/attention.h -- sizes, tiles and masking shared by attention and its gradient. */
#ifndef BACKENDS_CPU_ATTENTION_H
#define BACKENDS_CPU_ATTENTION_H

#include "backends/cpu/kernels.h"
#include "weft/backend.h"
#include "weft/op_params.h"

enum {
    ATTENTION_ROWS = 192,     /* rows of a tile: queries times the query heads of one key head. The
                               * least number, where a tile may have more */
    ATTENTION_KEYS = 128,     /* keys of a tile */
    ATTENTION_KEYS_LD = 144,  /* stride of a row of scores, such that rows fall into different cache
                               * sets */
    ATTENTION_STRIPE = 48,    /* rows of a tile whose keys are cut together by causality, or keys */
    ATTENTION_PART_ROWS = 64, /* the same number of rows with products of bfloat16 parts */
    ATTENTION_VECTOR = 16     /* rows of elements are padded to this many floats */
};

typedef struct cpu_attention {
    const weft_attention_params *params;
    const cpu_kernels *kernels;
    const weft_tensor *q, *k, *v, *mask; /* k and v: their codes if they are quantized */
    int bits;                            /* bits of codes, which steps and least values follow; 0: k
                                          * and v are not quantized */
    const weft_tensor *pages; /* (B, N): pages of each row; NULL: k and v are (B, S, ..) */
    const int32_t *lengths;   /* (B) number of keys of each row; NULL: S for all */
    int64_t lengths_step;
    /* (B, L) int32: the keys that a query attends to; NULL: from key 0, to the last one */
    const weft_tensor *first, *ends;
    int64_t B, L, S, H, Hk, D, Dv;
    int64_t own;         /* without causality: the key at the position of query 0 */
    int64_t window;      /* at most S + L; 0: none */
    int64_t G;           /* query heads per key head */
    int64_t block;       /* queries per tile; its rows are (query, head of the group) */
    int64_t stripe;      /* queries of a stripe */
    int64_t n_blocks;    /* of L */
    int64_t D_ld, Dv_ld; /* padded */
    /* The bfloat16 parts of an element of q, k and v, if the machine has kernels for products of
     * parts, which compute tiles of more rows than CPU_GEMV_ROWS: 1 if all three are bfloat16, 2 if
     * k and v are float16. q is then rounded to 16 bits, an error far below that of the keys. 0:
     * not used. Scores are then scaled instead of queries, and stripes have whole panels of rows.
     */
    int parts;
} cpu_attention;

/* `mask` may be NULL; tiles have at most `rows` rows, or one query; at most `parts` parts are used.
 */
cpu_attention weft__cpu_attention_of(const weft_call *call, const weft_tensor *mask, int64_t rows,
                                     int parts);

/* Sets the lengths: S becomes the longest of them. */
void weft__cpu_attention_cut(cpu_attention *a, const weft_tensor *lengths);

/* The keys [*from, *to) that query l of row b may attend to, by length, causality, window and
 * bounds; empty when *from >= *to. */
void weft__cpu_attention_sees(const cpu_attention *a, int64_t b, int64_t l, int64_t *from,
                              int64_t *to);

/* Sets [*from, *to) to a range that contains all keys that a query of [l0, l0 + n) may attend to.
 */
void weft__cpu_attention_sees_any(const cpu_attention *a, int64_t b, int64_t l0, int64_t n,
                                  int64_t *from, int64_t *to);

/* How many of the keys [s0, s0 + n) the queries of row b up to l need: those that any of them
 * attends to, rounded up to whole stripes. */
int64_t weft__cpu_attention_keys(const cpu_attention *a, int64_t b, int64_t l, int64_t s0,
                                 int64_t n);

/* The end, at most `end`, of the queries of row b from l on that share keys with the query before
 * them. In packed rows this is the end of a sample, so that a tile need not compute the scores
 * between two samples. */
int64_t weft__cpu_attention_run_end(const cpu_attention *a, int64_t b, int64_t l, int64_t end);

/* Where row i of head h is in x, which is q, k or v, or steps or least values of them. */
const char *weft__cpu_attention_row(const cpu_attention *a, const weft_tensor *x, int64_t b,
                                    int64_t i, int64_t h);

/* How many of the keys [s0, s0 + n) lie one after another. */
int64_t weft__cpu_attention_run(const cpu_attention *a, int64_t s0, int64_t n);

/* Whether all pages that the rows have are in k. */
bool weft__cpu_attention_has_pages(const cpu_attention *a);

/* Loads rows (l, h), l in [l0, l0 + n_l), h in [h0, h0 + n_h), of x (B, *, heads, width) as float32
 * times `factor`, each padded with zeros to `ld` floats. */
void weft__cpu_attention_load(const cpu_attention *a, const weft_tensor *x, int64_t b, int64_t l0,
                              int64_t n_l, int64_t h0, int64_t n_h, float factor, float *out,
                              int64_t ld);

/* The values that the mask adds to the scores of query l in head h for keys [s0, s0 + n). */
void weft__cpu_attention_mask(const cpu_attention *a, int64_t b, int64_t h, int64_t l, int64_t s0,
                              int64_t n, float *out);

/* Rows s0 and following of head hk of quantized k or v. */
cpu_kv_codes weft__cpu_attention_codes_at(const cpu_attention *a, const weft_tensor *x, int64_t b,
                                          int64_t s0, int64_t hk);

/* Floats of a panel row or column of k steps, for `parts`. */
int64_t weft__cpu_attention_depth(const cpu_attention *a, int64_t k);

/* Packs for `parts`: rows of k floats, `ld` apart, as A, or (pack_across) columns of k floats in
 * rows that are `ld` apart; and rows [s0, s0 + n) of x (B, S, Hk, width) for head hk as B, or with
 * `across` their transpose. */
void weft__cpu_attention_pack_a(const cpu_attention *a, int parts, const float *x, int64_t ld,
                                int64_t rows, int64_t k, float *out);
void weft__cpu_attention_pack_across(const cpu_attention *a, const float *x, int64_t ld,
                                     int64_t rows, int64_t k, float *out);
void weft__cpu_attention_pack_b(const cpu_attention *a, const weft_tensor *x, int64_t b, int64_t s0,
                                int64_t n, int64_t hk, bool across, float *out);

/* C (m, n) = or += A B for packed A and B, of which B has panels of b_k steps. */
typedef struct cpu_attention_product {
    int64_t m, n, k, b_k;
    const float *a, *b;
    float *c;
    int64_t c_row;
    bool add;
    int a_parts, b_parts; /* 0: one */
} cpu_attention_product;
void weft__cpu_attention_multiply(const cpu_attention *a, const cpu_attention_product *p);

/* Packs the transpose of rows s0 .. s0 + n of x (B, S, Hk, width) for head hk into panels. */
void weft__cpu_attention_pack(const cpu_attention *a, const weft_tensor *x, int64_t b, int64_t s0,
                              int64_t n, int64_t hk, float *out);

/* Kernels in the rows of rows_nn.c. */
weft_kernel weft__cpu_attention, weft__cpu_attention_vjp;
int64_t weft__cpu_attention_workspace(const weft_call *call);
int64_t weft__cpu_attention_vjp_workspace(const weft_call *call);
bool weft__cpu_attention_fits(const weft_call *call);
bool weft__cpu_attention_codes_fits(const weft_call *call);
weft_kernel weft__cpu_attention_pages;
bool weft__cpu_attention_pages_fits(const weft_call *call);

#endif
