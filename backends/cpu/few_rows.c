/* backends/cpu/few_rows.c -- products with a few rows, where packing B would take longer than the
 * product: the rows of B^T are used as they are. Where the machine has kernels for bfloat16 parts
 * that are faster with so many rows, they are used; otherwise pieces of the weights are decoded,
 * which stay in the L1 cache.
 *
 * Parts of infinities are not numbers: if a result by parts is not finite, the product is computed
 * again in float32 (gemm_parts.c).
 */
#include <stdatomic.h>
#include <string.h>

#include "backends/cpu/gemm.h"
#include "backends/cpu/pool.h"

enum {
    MOST_ROWS = 24,
    PIECE = 512,            /* terms that are decoded at a time */
    TOGETHER = 8,           /* rows of B^T that are decoded for all rows of A */
    IN_PLACE = 4,           /* rows of B^T in float32 that are read together */
    LINE = 64,              /* bytes */
    MULTIPLE = 16,          /* of k: the most lanes of a vector */
    PACKED_TOGETHER = 64,   /* steps of x in a task */
    LEAST_FLOATS = 2 << 20, /* of B in float32, whose division takes longer than reading a cache */
    LEAST_CHUNK = 16 << 10,
    LARGEST_CHUNK = 128 << 10 /* bytes of B per task */
};

enum { SIDE = 16, STEP = 32 }; /* of kernels for parts: rows of B^T; of k */

typedef struct few {
    const cpu_gemm *g;
    const cpu_kernels *kernels;
    const float *x;
    int64_t x_row;
    float *y;
} few;

static const cpu_part_rows_kernels *by_parts(void)
{
    return &weft__cpu_kernels()->parts.rows;
}

/* Whether kernels for parts multiply so few rows with these weights faster. */
static bool takes_parts(const cpu_gemm *g)
{
    if (!by_parts()->least || g->k % (2 * STEP) != 0)
        return false;
    const int least = by_parts()->least(g->b.codes, g->b.dtype);
    if (!g->b.codes && g->b.dtype == WEFT_FLOAT32 && g->n * g->k < LEAST_FLOATS)
        return false;
    return least > 0 && g->m >= least && g->m <= CPU_PART_ROWS;
}

static bool takes(const cpu_gemm *g)
{
    for (int i = 0; i < g->batch.n; i++)
        if (g->batch.at[i] != 1)
            return false;
    const bool some = g->m > weft__cpu_kernels()->gemv_most && g->m <= MOST_ROWS &&
                      !weft__cpu_by_decoding.takes(g);
    return !g->accumulate && !g->by_tiles && g->n_more == 0 && g->m > 0 &&
           (some || takes_parts(g)) && g->n > 0 && g->k > 0 && g->k % MULTIPLE == 0 &&
           g->a.column == 1 &&
           (g->b.codes ? !g->b.code_terms : g->b.row == 1 && g->b.column >= g->k);
}

static int64_t whole(int64_t floats)
{
    return (floats + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
}

static int64_t floats_of_x(const cpu_gemm *g)
{
    return g->a.dtype == WEFT_FLOAT32 ? 0 : g->m * g->k;
}

static cpu_part_x parts_of(const cpu_gemm *g, float *memory)
{
    return (cpu_part_x){.dtype = g->a.dtype,
                        .parts = g->a.dtype == WEFT_BFLOAT16  ? 1
                                 : g->a.dtype == WEFT_FLOAT16 ? 2
                                                              : 3,
                        .m = (int)g->m,
                        .codes = g->b.codes,
                        .k = g->k,
                        .x = g->a.data,
                        .x_row = g->a.row,
                        .memory = memory};
}

static int64_t floats_of_parts(const cpu_gemm *g)
{
    const cpu_part_x x = parts_of(g, NULL);
    return takes_parts(g) ? whole(by_parts()->floats(&x)) : 0;
}

/* Floats before those of y. */
static int64_t floats_before_y(const cpu_gemm *g)
{
    const int64_t x = floats_of_x(g), parts = floats_of_parts(g);
    return x > parts ? x : parts;
}

static int64_t workspace_of(const cpu_gemm *g)
{
    const int64_t y = g->c_dtype == WEFT_FLOAT32 ? 0 : whole(g->m * g->n);
    return (floats_before_y(g) + y) * (int64_t)sizeof(float);
}

static int64_t bound_of(const cpu_gemm *g)
{
    cpu_gemm most = *g;
    most.m = MOST_ROWS;
    most.k = (g->k + 2 * STEP - 1) / (2 * STEP) * (2 * STEP); /* a smaller k may be a multiple */
    const int64_t parts = floats_of_parts(&most), x = MOST_ROWS * whole(g->k);
    return ((x > parts ? x : parts) + MOST_ROWS * whole(g->n)) * (int64_t)sizeof(float);
}

/* ---- Weights -------------------------------------------------------------------------------- */

static int64_t row_bytes(const cpu_gemm *g)
{
    return g->b.codes ? g->b.codes->code_row : g->b.column * (int64_t)weft_dtype_size(g->b.dtype);
}

/* Prefetches the piece of a row that is read after TOGETHER others. */
static void prefetch(const char *from, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += LINE)
        __builtin_prefetch(from + at);
}

/* Terms [first, first + k) of `n` rows from `row` on, as float32. */
static void decode_piece(const few *f, int64_t row, int64_t n, int64_t first, int64_t k, float *out)
{
    const cpu_gemm *g = f->g;
    const cpu_codes *c = g->b.codes;
    const int64_t size = (int64_t)weft_dtype_size(g->b.dtype);
    for (int64_t i = row; i < row + n; i++, out += PIECE) {
        if (c) {
            prefetch(c->codes + (i + TOGETHER) * c->code_row + first / c->group * c->code_group,
                     k / c->group * c->code_group);
            f->kernels->decode_codes(c, i, first / c->group, k / c->group, out);
        } else {
            const char *from = (const char *)g->b.data + (i * g->b.column + first) * size;
            prefetch(from + TOGETHER * g->b.column * size, k * size);
            f->kernels->decode(g->b.dtype, from, out, k);
        }
    }
}

/* TOGETHER rows of float32, where they are: a few at a time, since rows that are a power of two
 * apart use the same sets of the L1 cache. */
static void multiply_in_place(const few *f, int64_t row, int64_t first, cpu_tiles t)
{
    const cpu_matrix *b = &f->g->b;
    t.n = IN_PLACE;
    t.w_row = b->column;
    for (int64_t i = row; i < row + TOGETHER; i += IN_PLACE, t.y += IN_PLACE) {
        t.w = (const float *)b->data + i * b->column + first;
        for (int64_t j = 0; j < IN_PLACE; j++)
            prefetch((const char *)(t.w + (TOGETHER + j) * b->column),
                     t.k * (int64_t)sizeof(float));
        f->kernels->tiles(&t);
    }
}

/* Rows [row, row + n) of B^T, at most TOGETHER; w has room for their pieces. */
static void multiply_rows(const few *f, int64_t row, int64_t n, float *w, float *y)
{
    const cpu_gemm *g = f->g;
    const bool in_place = !g->b.codes && g->b.dtype == WEFT_FLOAT32 && n == TOGETHER;
    cpu_tiles t = {.m = g->m,
                   .n = TOGETHER,
                   .x_row = f->x_row,
                   .w = w,
                   .w_row = PIECE,
                   .y = y,
                   .y_row = TOGETHER};
    for (int64_t first = 0; first < g->k; first += PIECE) {
        t.k = g->k - first < PIECE ? g->k - first : PIECE;
        t.x = f->x + first;
        if (in_place) {
            multiply_in_place(f, row, first, t);
        } else {
            decode_piece(f, row, n, first, t.k, w);
            f->kernels->tiles(&t);
        }
    }
}

/* Items are the rows of B^T. */
static void few_task(void *context, int64_t begin, int64_t end, int worker)
{
    const few *f = context;
    const cpu_gemm *g = f->g;
    _Alignas(LINE) float w[TOGETHER * PIECE], y[MOST_ROWS * TOGETHER];
    (void)worker;
    memset(w, 0, sizeof w); /* of fewer rows than TOGETHER the others are multiplied too */
    for (int64_t row = begin; row < end; row += TOGETHER) {
        const int64_t n = end - row < TOGETHER ? end - row : TOGETHER;
        memset(y, 0, sizeof y);
        multiply_rows(f, row, n, w, y);
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < n; j++)
                f->y[i * g->n + row + j] =
                    y[i * TOGETHER + j] + (g->bias ? g->bias[row + j] : 0.0f);
    }
}

/* ---- Products ------------------------------------------------------------------------------- */

static void decode_x(void *context, int64_t begin, int64_t end, int worker)
{
    const few *f = context;
    const cpu_matrix *a = &f->g->a;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        f->kernels->decode(a->dtype,
                           (const char *)a->data + i * a->row * (int64_t)weft_dtype_size(a->dtype),
                           (float *)f->x + i * f->x_row, f->g->k);
}

static int64_t rows_of_task(const cpu_gemm *g)
{
    int64_t chunk = g->n * row_bytes(g) / 16;
    chunk = chunk < LEAST_CHUNK ? LEAST_CHUNK : chunk > LARGEST_CHUNK ? LARGEST_CHUNK : chunk;
    return (chunk / row_bytes(g) + TOGETHER - 1) / TOGETHER * TOGETHER;
}

static void run_decoded(few *f, float *memory)
{
    const cpu_gemm *g = f->g;
    const bool own_x = g->a.dtype != WEFT_FLOAT32;
    f->x = own_x ? memory : g->a.data;
    f->x_row = own_x ? g->k : g->a.row;
    if (own_x)
        weft__cpu_parallel(g->m, 4, decode_x, f);
    weft__cpu_parallel(g->n, rows_of_task(g), few_task, f);
}

/* ---- By parts ------------------------------------------------------------------------------- */

typedef struct parts_run {
    const cpu_gemm *g;
    float *y;
    cpu_part_x x;
    atomic_bool infinite; /* or NaN: an element of y */
} parts_run;

/* Items are steps in k. */
static void pack_task(void *context, int64_t begin, int64_t end, int worker)
{
    const parts_run *run = context;
    (void)worker;
    by_parts()->pack(&run->x, begin, end);
}

static bool all_finite(const float *y, int64_t row, int64_t m, int64_t n)
{
    float zero = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            zero += y[i * row + j] * 0;
    return zero == 0;
}

/* Items are panels of SIDE rows of B^T. */
static void parts_task(void *context, int64_t begin, int64_t end, int worker)
{
    parts_run *run = context;
    const cpu_gemm *g = run->g;
    const int64_t first = begin * SIDE, n = (end * SIDE < g->n ? end * SIDE : g->n) - first;
    (void)worker;
    const cpu_part_rows rows = {.x = run->x,
                                .w_dtype = g->b.dtype,
                                .w = g->b.data,
                                .w_row = g->b.column,
                                .first = first,
                                .n = n,
                                .bias = g->bias,
                                .y = run->y,
                                .y_row = g->n};
    by_parts()->run(&rows);
    if (!all_finite(run->y + first, g->n, g->m, n))
        atomic_store_explicit(&run->infinite, true, memory_order_relaxed);
}

/* Whether all results are finite. */
static bool run_parts(const few *f, float *memory)
{
    const cpu_gemm *g = f->g;
    parts_run run = {.g = g, .y = f->y, .x = parts_of(g, memory)};
    weft__cpu_parallel(g->k / STEP, PACKED_TOGETHER, pack_task, &run);
    const int64_t panels = (g->n + SIDE - 1) / SIDE;
    weft__cpu_parallel(panels, (rows_of_task(g) + 2 * SIDE - 1) / (2 * SIDE) * 2, parts_task, &run);
    return !atomic_load(&run.infinite);
}

/* ---- All ------------------------------------------------------------------------------------ */

static bool run(const cpu_gemm *g, void *workspace)
{
    float *memory = workspace;
    const bool own_y = g->c_dtype != WEFT_FLOAT32;
    few f = {
        .g = g, .kernels = weft__cpu_kernels(), .y = own_y ? memory + floats_before_y(g) : g->c};
    if (!takes_parts(g) || !run_parts(&f, memory))
        run_decoded(&f, memory);
    if (own_y)
        f.kernels->encode(g->c_dtype, f.y, g->c, g->m * g->n);
    return true;
}

const cpu_way weft__cpu_by_few_rows = {
    .takes = takes, .workspace = workspace_of, .bound = bound_of, .run = run};
