/* backends/cpu/decoding.c -- products of some rows with codes, as C^T = B^T A^T.
 *
 * For fewer rows than some hundred, packing the decoded weights as gemm_tiles.c does takes as long
 * as multiplying them. Here A is packed, once, and a few rows of B^T at a time are decoded into the
 * L1 cache, where the GEMM kernel reads them in place as its left operand. Every row of C is
 * computed in the same order, independently of the other rows. */
#include "backends/cpu/gemm.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/sizes.h"

enum {
    MOST_ROWS = 192,
    FEW_ROWS = 24,      /* up to here few_rows.c is faster, except with 1 or 2 whole vectors */
    PIECE = 512,        /* terms that are decoded at a time */
    TILE = 12,          /* rows of B^T that are decoded at a time, at most: gemm_rows */
    TOGETHER = 48,      /* rows of B^T in a task, a multiple of gemm_rows */
    STEP = 64,          /* terms of A that are packed at a time */
    PACK_GRAIN = 32768, /* numbers of A that are packed in a task */
    LINE_FLOATS = 128,  /* numbers of a packed A for which the GEMM kernel prefetches a line */
    LINE = 64           /* bytes */
};

typedef struct decoding {
    const cpu_gemm *g;
    const cpu_kernels *kernels;
    float *x;      /* A, packed */
    int64_t y_row; /* rows of A in whole vectors */
} decoding;

static bool takes(const cpu_gemm *g)
{
    const cpu_kernels *kernels = weft__cpu_kernels();
    for (int i = 0; i < g->batch.n; i++)
        if (g->batch.at[i] != 1)
            return false;
    const bool whole = g->m > kernels->gemv_most && g->m <= 16 && g->m % kernels->lanes == 0;
    return g->b.codes && !g->b.code_terms && !g->accumulate && !g->by_tiles && g->n_more == 0 &&
           (whole || g->m > FEW_ROWS) && g->m <= MOST_ROWS && g->k > 0 && g->a.column == 1;
}

static int64_t workspace_of(const cpu_gemm *g)
{
    return vectors(round_up(g->m, weft__cpu_kernels()->gemm_columns) * g->k) *
           (int64_t)sizeof(float);
}

static int64_t bound_of(const cpu_gemm *g)
{
    cpu_gemm most = *g;
    most.m = smaller(g->m, MOST_ROWS);
    return g->b.codes ? workspace_of(&most) : 0;
}

/* Items are steps of terms, of all rows of A. */
static void pack_task(void *context, int64_t begin, int64_t end, int worker)
{
    const decoding *d = context;
    const cpu_gemm *g = d->g;
    const int64_t columns = d->kernels->gemm_columns, size = (int64_t)weft_dtype_size(g->a.dtype);
    const int64_t from = begin * STEP, k = smaller(end * STEP, g->k) - from;
    (void)worker;
    for (int64_t i = 0; i < g->m; i += columns)
        d->kernels->pack_b(g->a.dtype, (const char *)g->a.data + (i * g->a.row + from) * size, 1,
                           g->a.row, k, smaller(columns, g->m - i),
                           d->x + i * g->k + from * columns);
}

/* `n` <= gemm_rows rows of B^T times all rows of A. The codes of as many rows after them are
 * prefetched meanwhile, a part by each piece. */
static void multiply_rows(const decoding *d, int64_t row, int64_t n, float *w, float *y)
{
    const cpu_gemm *g = d->g;
    const cpu_codes *c = g->b.codes;
    const int64_t columns = d->kernels->gemm_columns;
    cpu_block block = {.m = n,
                       .n = d->y_row,
                       .a = w,
                       .a_row = PIECE,
                       .a_k = 1,
                       .b_panel = columns * g->k,
                       .b_k = columns,
                       .c = y,
                       .c_row = d->y_row};
    for (int64_t first = 0; first < g->k; first += PIECE) {
        const int64_t group = first / c->group;
        block.k = smaller(PIECE, g->k - first);
        block.b = d->x + first * columns;
        block.b_next = c->codes + (row + n) * c->code_row + first / (LINE_FLOATS / columns) * LINE;
        block.add = first > 0;
        for (int64_t i = 0; i < n; i++)
            d->kernels->decode_codes(c, row + i, group, block.k / c->group, w + i * PIECE);
        d->kernels->gemm_block(&block);
    }
}

/* Items are TOGETHER rows of B^T. */
static void rows_task(void *context, int64_t begin, int64_t end, int worker)
{
    const decoding *d = context;
    const cpu_gemm *g = d->g;
    const int64_t rows = d->kernels->gemm_rows;
    const int64_t size = (int64_t)weft_dtype_size(g->c_dtype);
    _Alignas(LINE) float w[TILE * PIECE], y[TOGETHER * MOST_ROWS], own[TOGETHER * MOST_ROWS];
    (void)worker;
    for (int64_t row = begin * TOGETHER; row < smaller(end * TOGETHER, g->n); row += TOGETHER) {
        const int64_t n = smaller(TOGETHER, g->n - row);
        for (int64_t i = 0; i < n; i += rows)
            multiply_rows(d, row + i, smaller(rows, n - i), w, y + i * d->y_row);
        const float *bias = g->bias ? g->bias + row : NULL;
        if (g->c_dtype == WEFT_FLOAT32) {
            d->kernels->turn(y, d->y_row, g->m, n, bias, (float *)g->c + row, g->n);
            continue;
        }
        d->kernels->turn(y, d->y_row, g->m, n, bias, own, TOGETHER);
        for (int64_t i = 0; i < g->m; i++)
            d->kernels->encode(g->c_dtype, own + i * TOGETHER,
                               (char *)g->c + (i * g->n + row) * size, n);
    }
}

static bool run(const cpu_gemm *g, void *workspace)
{
    const cpu_kernels *kernels = weft__cpu_kernels();
    decoding d = {g, kernels, workspace, round_up(g->m, kernels->lanes)};
    weft__cpu_parallel(ceil_div(g->k, STEP), PACK_GRAIN / (g->m * STEP), pack_task, &d);
    weft__cpu_parallel(ceil_div(g->n, TOGETHER), 1, rows_task, &d);
    return true;
}

const cpu_way weft__cpu_by_decoding = {
    .takes = takes, .workspace = workspace_of, .bound = bound_of, .run = run};
