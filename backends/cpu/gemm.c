/* backends/cpu/gemm.c -- the driver for float32 matrix products.
 *
 * B is decoded and packed into column panels, all of it or, if it is large, some columns at a time.
 * Then tiles of C run in parallel, each in blocks of k. A is packed into row panels too, all of it
 * before or, if it is large, by each tile; where that would take longer than it saves, A is read in
 * place. The work is divided by shape only.
 */
#include "backends/cpu/gemm.h"

#include <string.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"

enum {
    K_BLOCK = 512,              /* a tile's block of A stays in the L2 cache */
    TILE_ROWS = 96,             /* rows of the largest tile, a multiple of gemm_rows */
    TILE_COLUMNS = 256,         /* columns of the largest tile */
    PACKING_COLUMNS = 512,      /* the same if tiles pack A */
    PACKED_FLOATS = 2 << 20,    /* of B at a time */
    PACKED_A_FLOATS = 5 << 20,  /* the most of A that is packed before */
    LEAST_COLUMNS = 512,        /* of C: with fewer, A in float32 is read in place */
    MANY_TILES = 32,            /* tiles sufficient for load balance */
    SMALL_TILE_FLOPS = 2 << 20, /* tiles smaller than this are not divided further */
    PACK_GRAIN = 32768          /* floats packed per task */
};

typedef enum a_mode { A_IN_PLACE, A_PACKED, A_PACK } a_mode; /* A_PACK: by each tile */

typedef struct plan {
    cpu_gemm g;
    const cpu_kernels *kernels;
    bool transposed; /* computes C^T = B^T A^T, then transposes */
    bool direct_b, shared_b, own_c;
    a_mode a;
    int64_t n_batch, group; /* batch items per pass */
    int64_t columns;        /* of a pass */
    int64_t tile_m, tile_n, block_k;
    int64_t packed_b, packed_a;   /* in floats, shared */
    int64_t scratch_a, scratch_c; /* in floats, per worker */
    float *memory;
    int64_t first_batch, first_column, pass_columns; /* of the running pass */
} plan;

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t round_up(int64_t a, int64_t b)
{
    return ceil_div(a, b) * b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t size_of(weft_dtype dtype)
{
    return (int64_t)weft_dtype_size(dtype);
}

static const char *batch_data(const cpu_matrix *x, const weft_dims *batch, int64_t index)
{
    int64_t offset = 0;
    for (int axis = batch->n - 1; axis >= 0; axis--) {
        offset += index % batch->at[axis] * x->batch[axis];
        index /= batch->at[axis];
    }
    return (const char *)x->data + offset * size_of(x->dtype);
}

/* ---- Planning ------------------------------------------------------------------------------- */

/* Floats of m rows of A in panels of k steps. */
static int64_t panels_of_a(const cpu_kernels *kernels, int64_t m, int64_t k)
{
    const int64_t rows = kernels->gemm_rows;
    return ceil_div(m, rows) * (rows * k + kernels->lanes);
}

static a_mode choose_a(const plan *p)
{
    const cpu_gemm *g = &p->g;
    const cpu_matrix *a = &g->a;
    const bool plain = a->dtype == WEFT_FLOAT32;
    /* Large strides along k are in few sets of a cache, so there columns are not read in place. */
    if (plain && a->row == 1 && a->column != 1 && a->column <= 64)
        return A_IN_PLACE;
    if (plain && a->column == 1 && (g->n < LEAST_COLUMNS || p->n_batch > 1))
        return A_IN_PLACE;
    return p->n_batch == 1 && g->n > TILE_COLUMNS &&
                   panels_of_a(p->kernels, g->m, g->k) <= PACKED_A_FLOATS
               ? A_PACKED
               : A_PACK;
}

static bool repeated(const cpu_matrix *x, const weft_dims *batch)
{
    for (int i = 0; i < batch->n; i++)
        if (batch->at[i] != 1 && x->batch[i] != 0)
            return false;
    return true;
}

static void choose_tiles(plan *p)
{
    const int64_t rows = p->kernels->gemm_rows, columns = p->kernels->gemm_columns;
    int64_t tiles_m = ceil_div(p->g.m, TILE_ROWS);
    int64_t tiles_n = ceil_div(p->g.n, p->a == A_PACK ? PACKING_COLUMNS : TILE_COLUMNS);
    for (;;) {
        p->tile_m = round_up(ceil_div(p->g.m, tiles_m), rows);
        p->tile_n = round_up(ceil_div(p->g.n, tiles_n), columns);
        int64_t flops = 2 * smaller(p->tile_m, p->g.m) * smaller(p->tile_n, p->g.n) * p->g.k;
        if (tiles_m * tiles_n * p->n_batch >= MANY_TILES || flops < 2 * SMALL_TILE_FLOPS)
            break;
        if (p->tile_n > p->tile_m && p->tile_n > columns)
            tiles_n *= 2;
        else if (p->tile_m > rows)
            tiles_m *= 2;
        else
            break;
    }
}

/* With few columns and an A that is contiguous along m, computing the transpose is faster: the long
 * side fills the vectors and nothing needs packing. */
static bool better_transposed(const plan *p)
{
    const cpu_gemm *g = &p->g;
    return p->n_batch == 1 && !g->accumulate && g->n <= p->kernels->gemm_rows && g->m >= 4 * g->n &&
           g->a.row == 1 && g->a.column != 1 && g->a.dtype == WEFT_FLOAT32 && !g->b.codes;
}

static cpu_matrix flipped(const cpu_matrix *x)
{
    cpu_matrix y = *x;
    y.row = x->column;
    y.column = x->row;
    return y;
}

static void make_plan(plan *p, const cpu_gemm *g)
{
    *p = (plan){.g = *g, .kernels = weft__cpu_kernels(), .n_batch = 1};
    for (int i = 0; i < g->batch.n; i++)
        p->n_batch *= g->batch.at[i];
    if (better_transposed(p)) {
        p->transposed = true;
        p->g.m = g->n;
        p->g.n = g->m;
        p->g.a = flipped(&g->b);
        p->g.b = flipped(&g->a);
        p->g.bias = NULL;
        p->g.c_dtype = WEFT_FLOAT32;
    }
    const int64_t rows = p->kernels->gemm_rows, width = p->kernels->gemm_columns;
    const cpu_gemm *own = &p->g;
    int64_t padded = round_up(own->n, width);
    int64_t k = own->k > 0 ? own->k : 1;
    p->block_k = ceil_div(k, ceil_div(k, K_BLOCK));
    p->a = choose_a(p);
    p->shared_b = repeated(&own->b, &own->batch);
    p->direct_b = !own->b.codes && own->b.dtype == WEFT_FLOAT32 && own->b.column == 1 &&
                  own->m <= 2 * rows && own->n % p->kernels->lanes == 0;
    p->columns = smaller(padded, PACKED_FLOATS / k / width * width);
    if (p->columns < width)
        p->columns = width;
    p->group = p->n_batch;
    if (p->direct_b) {
        p->columns = padded;
    } else if (!p->shared_b) {
        int64_t fit = p->columns < padded ? 1 : PACKED_FLOATS / (k * padded);
        p->group = smaller(p->n_batch, fit > 1 ? fit : 1);
    }
    choose_tiles(p);
    p->own_c = own->c_dtype != WEFT_FLOAT32;
    if (!p->direct_b)
        p->packed_b = (p->shared_b ? 1 : p->group) * p->columns * k;
    if (p->a == A_PACKED)
        p->packed_a = round_up(panels_of_a(p->kernels, own->m, own->k), 16);
    if (p->a == A_PACK)
        p->scratch_a = round_up(panels_of_a(p->kernels, p->tile_m, p->block_k), 16);
    if (p->own_c)
        p->scratch_c = round_up(p->tile_m * p->tile_n, 16);
}

static bool empty(const cpu_gemm *g)
{
    int64_t size = g->m * g->n;
    for (int i = 0; i < g->batch.n; i++)
        size *= g->batch.at[i];
    return size == 0;
}

int64_t weft__cpu_gemm_workspace(const cpu_gemm *g)
{
    if (empty(g))
        return 0;
    if (weft__cpu_few_rows_takes(g))
        return weft__cpu_few_rows_workspace(g);
    plan p;
    make_plan(&p, g);
    int64_t floats = p.packed_b + p.packed_a + weft__cpu_workers() * (p.scratch_a + p.scratch_c);
    if (p.transposed)
        floats += round_up(g->m * g->n, 16);
    return floats * (int64_t)sizeof(float);
}

/* An upper bound for every plan: packed columns of B (or of A, when the transpose is computed),
 * packed A, and per worker a tile's block of A and its results. */
int64_t weft__cpu_gemm_bound(const cpu_gemm *g)
{
    const cpu_kernels *kernels = weft__cpu_kernels();
    const int64_t rows = kernels->gemm_rows, width = kernels->gemm_columns;
    int64_t k = g->k > 0 ? g->k : 1, padded = round_up(g->n > g->m ? g->n : g->m, width);
    int64_t packed = smaller(padded * k, PACKED_FLOATS);
    packed = packed > width * k ? packed : width * k;
    int64_t tile_n = round_up(PACKING_COLUMNS, width);
    int64_t own = round_up(panels_of_a(kernels, TILE_ROWS, K_BLOCK), 16) + TILE_ROWS * tile_n;
    int64_t flat = g->n <= rows ? round_up(g->m * g->n, 16) : 0;
    const int64_t a = panels_of_a(kernels, g->m > rows ? g->m : rows, k);
    const int64_t few = weft__cpu_few_rows_bound(g);
    const int64_t tiles =
        (packed + round_up(smaller(a, PACKED_A_FLOATS), 16) + weft__cpu_workers() * own + flat) *
        (int64_t)sizeof(float);
    return tiles > few ? tiles : few;
}

/* ---- Packing B ------------------------------------------------------------------------------ */

enum { DECODED = 2 * WEFT_MAX_BLOCK, MOST_COLUMNS = 32, SPAN = 512, TOGETHER = 16 };

/* Packs a panel of columns [first, first + n) of B that are rows of codes. */
static void pack_code_columns(const plan *p, int64_t first, int64_t n, float *out)
{
    const cpu_codes *c = p->g.b.codes;
    const int64_t width = p->kernels->gemm_columns;
    float rows[MOST_COLUMNS * DECODED];
    for (int64_t k = 0; k < p->g.k; k += DECODED) {
        int64_t count = smaller(DECODED, p->g.k - k);
        for (int64_t j = 0; j < n; j++)
            p->kernels->decode_codes(c, first + j, k / c->group, count / c->group,
                                     rows + j * DECODED);
        p->kernels->pack_b(WEFT_FLOAT32, rows, 1, DECODED, count, n, out + k * width);
    }
}

/* Packs `count` rows of B from row k on, n columns, whose rows are contiguous: they begin at `from`
 * and are `row` elements apart. ahead: prefetches as many rows after them, since hardware
 * prefetching does not follow pieces of rows. */
static void pack_row_pieces(const plan *p, weft_dtype dtype, const char *from, int64_t row,
                            int64_t k, int64_t count, int64_t n, bool ahead, float *out)
{
    const int64_t width = p->kernels->gemm_columns;
    for (int64_t j = 0; j < n; j += width) {
        for (int64_t i = count; ahead && i < 2 * count; i++)
            __builtin_prefetch(from + (i * row + j) * size_of(dtype));
        p->kernels->pack_b(dtype, from + j * size_of(dtype), row, 1, count, smaller(width, n - j),
                           out + j * p->g.k + k * width);
    }
}

/* Rows [from, to) and columns [first, first + n), n <= SPAN, where rows of B are rows of codes. The
 * groups that contain the columns are decoded completely, some rows at a time. */
static void pack_code_rows(const plan *p, int64_t from, int64_t to, int64_t first, int64_t n,
                           float *out)
{
    enum { ROW = SPAN + 2 * WEFT_MAX_BLOCK, LINE = 64 };
    const cpu_codes *c = p->g.b.codes;
    const int64_t group = first / c->group, groups = (first + n - 1) / c->group - group + 1;
    const int64_t bytes = groups * c->code_group;
    float rows[TOGETHER * ROW];
    for (int64_t k = from; k < to; k += TOGETHER) {
        const int64_t count = smaller(TOGETHER, to - k);
        for (int64_t i = 0; i < count; i++) {
            const char *next = c->codes + (k + i + TOGETHER) * c->code_row + group * c->code_group;
            for (int64_t at = 0; at < bytes; at += LINE)
                __builtin_prefetch(next + at);
            p->kernels->decode_codes(c, k + i, group, groups, rows + i * ROW);
        }
        pack_row_pieces(p, WEFT_FLOAT32, (char *)(rows + first - group * c->group), ROW, k, count,
                        n, false, out);
    }
}

/* Whether rows of B are contiguous. Then several panels are packed together, since a panel has only
 * a line of each row. */
static bool by_rows(const plan *p)
{
    return p->g.b.codes ? p->g.b.code_terms : p->g.b.column == 1 && p->g.b.row != 1;
}

/* Rows [from, to) of columns [first, first + n); all rows unless by_rows. */
static void pack_part(const plan *p, int64_t item, int64_t from, int64_t to, int64_t first,
                      int64_t n)
{
    const cpu_matrix *x = &p->g.b;
    float *out = p->memory + (item * p->columns + first - p->first_column) * p->g.k;
    if (x->codes && x->code_terms) {
        pack_code_rows(p, from, to, first, n, out);
        return;
    }
    if (x->codes) {
        pack_code_columns(p, first, n, out);
        return;
    }
    const int64_t size = size_of(x->dtype);
    const char *b = batch_data(x, &p->g.batch, p->first_batch + item) + first * x->column * size;
    if (!by_rows(p)) {
        p->kernels->pack_b(x->dtype, b, x->row, x->column, p->g.k, n, out);
        return;
    }
    for (int64_t k = from; k < to; k += TOGETHER)
        pack_row_pieces(p, x->dtype, b + k * x->row * size, x->row, k, smaller(TOGETHER, to - k), n,
                        true, out);
}

/* Columns and rows of B that a task packs together. */
typedef struct piece {
    int64_t columns, rows;
} piece;

static piece piece_of(const plan *p)
{
    const int64_t rows = PACK_GRAIN / SPAN, k = p->g.k > 0 ? p->g.k : 1;
    return by_rows(p) ? (piece){SPAN, rows} : (piece){p->kernels->gemm_columns, k};
}

/* Items are the pieces of every batch item of the pass. */
static void pack_task(void *context, int64_t begin, int64_t end, int worker)
{
    const plan *p = context;
    (void)worker;
    const piece size = piece_of(p);
    const int64_t across = ceil_div(p->pass_columns, size.columns);
    const int64_t down = ceil_div(p->g.k, size.rows);
    for (int64_t i = begin; i < end; i++) {
        const int64_t column = i % across * size.columns, row = i / across % down * size.rows;
        pack_part(p, i / across / down, row, smaller(row + size.rows, p->g.k),
                  p->first_column + column, smaller(size.columns, p->pass_columns - column));
    }
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

/* Items are the panels of A. */
static void pack_a_task(void *context, int64_t begin, int64_t end, int worker)
{
    const plan *p = context;
    const cpu_matrix *x = &p->g.a;
    const int64_t rows = p->kernels->gemm_rows, row = begin * rows;
    (void)worker;
    p->kernels->pack_a(x->dtype, (const char *)x->data + row * x->row * size_of(x->dtype), x->row,
                       x->column, smaller(end * rows, p->g.m) - row, p->g.k,
                       p->memory + p->packed_b + panels_of_a(p->kernels, row, p->g.k));
}

/* Brings rows [row, row + m) and columns [first, first + k) of A into the layout of the block; rows
 * begin a panel. */
static void bring_a(const plan *p, const char *a, int64_t row, int64_t m, int64_t first, int64_t k,
                    float *scratch, cpu_block *block)
{
    const cpu_matrix *x = &p->g.a;
    const int64_t rows = p->kernels->gemm_rows;
    const char *from = a + (row * x->row + first * x->column) * size_of(x->dtype);
    if (p->a == A_IN_PLACE) {
        block->a = (const float *)(const void *)from;
        block->a_row = x->row;
        block->a_k = x->column;
        block->a_panel = rows * x->row;
        return;
    }
    block->a_row = 1;
    block->a_k = rows;
    if (p->a == A_PACKED) {
        block->a_panel = panels_of_a(p->kernels, rows, p->g.k);
        block->a = p->memory + p->packed_b + row / rows * block->a_panel + first * rows;
    } else {
        block->a_panel = panels_of_a(p->kernels, rows, k);
        block->a = scratch;
        p->kernels->pack_a(x->dtype, from, x->row, x->column, m, k, scratch);
    }
}

static void run_tile(const plan *p, int64_t item, int64_t row, int64_t column, int worker)
{
    const cpu_gemm *g = &p->g;
    const int64_t width = p->kernels->gemm_columns;
    const int64_t batch = p->first_batch + item;
    float *scratch = p->memory + p->packed_b + p->packed_a + worker * (p->scratch_a + p->scratch_c);
    int64_t first = p->first_column + column;
    cpu_block block = {.m = smaller(p->tile_m, g->m - row),
                       .n = smaller(p->tile_n, p->pass_columns - column)};
    char *c = (char *)g->c + ((batch * g->m + row) * g->n + first) * size_of(g->c_dtype);
    block.c = p->own_c ? scratch + p->scratch_a : (float *)(void *)c;
    block.c_row = p->own_c ? p->tile_n : g->n;
    const char *a = batch_data(&g->a, &g->batch, batch);
    for (int64_t k = 0; k == 0 || k < g->k; k += p->block_k) {
        block.k = smaller(p->block_k, g->k - k);
        block.add = k > 0 || g->accumulate;
        block.bias = k == 0 && g->bias ? g->bias + first : NULL;
        bring_a(p, a, row, block.m, k, block.k, scratch, &block);
        if (p->direct_b) {
            const char *b = batch_data(&g->b, &g->batch, batch);
            block.b = (const float *)(const void *)b + k * g->b.row + first;
            block.b_k = g->b.row;
            block.b_panel = width;
        } else {
            block.b =
                p->memory + ((p->shared_b ? 0 : item) * p->columns + column) * g->k + k * width;
            block.b_k = width;
            block.b_panel = width * g->k;
            block.b_next = k + block.k < g->k ? block.b + block.k * width : NULL;
        }
        p->kernels->gemm_block(&block);
    }
    for (int64_t i = 0; p->own_c && i < block.m; i++)
        p->kernels->encode(g->c_dtype, block.c + i * block.c_row,
                           c + i * g->n * size_of(g->c_dtype), block.n);
}

static void tile_task(void *context, int64_t begin, int64_t end, int worker)
{
    const plan *p = context;
    const int64_t tiles_m = ceil_div(p->g.m, p->tile_m);
    const int64_t tiles_n = ceil_div(p->pass_columns, p->tile_n);
    for (int64_t i = begin; i < end; i++)
        run_tile(p, i / (tiles_m * tiles_n), i / tiles_n % tiles_m * p->tile_m,
                 i % tiles_n * p->tile_n, worker);
}

static void run_pass(plan *p)
{
    const piece size = piece_of(p);
    int64_t items = smaller(p->group, p->n_batch - p->first_batch);
    p->pass_columns = smaller(p->columns, p->g.n - p->first_column);
    if (!p->direct_b)
        weft__cpu_parallel((p->shared_b ? 1 : items) * ceil_div(p->pass_columns, size.columns) *
                               ceil_div(p->g.k, size.rows),
                           PACK_GRAIN / (size.columns * (size.rows + 1)) + 1, pack_task, p);
    int64_t tiles = ceil_div(p->g.m, p->tile_m) * ceil_div(p->pass_columns, p->tile_n);
    int64_t flops = 2 * smaller(p->tile_m, p->g.m) * smaller(p->tile_n, p->g.n) * (p->g.k + 1);
    weft__cpu_parallel(items * tiles, SMALL_TILE_FLOPS / flops, tile_task, p);
}

/* ---- Transposing back ----------------------------------------------------------------------- */

typedef struct flip {
    const cpu_gemm *g;
    const float *from; /* (n, m) */
    const cpu_kernels *kernels;
} flip;

static void flip_task(void *context, int64_t begin, int64_t end, int worker)
{
    const flip *f = context;
    (void)worker;
    const int64_t m = f->g->m, n = f->g->n;
    for (int64_t i = begin; i < end; i++) {
        float row[64];
        for (int64_t j = 0; j < n; j++)
            row[j] = f->from[j * m + i] + (f->g->bias ? f->g->bias[j] : 0.0f);
        f->kernels->encode(f->g->c_dtype, row, (char *)f->g->c + i * n * size_of(f->g->c_dtype), n);
    }
}

void weft__cpu_gemm(const cpu_gemm *g, void *workspace)
{
    if (empty(g))
        return;
    if (weft__cpu_few_rows_takes(g)) {
        weft__cpu_few_rows(g, workspace);
        return;
    }
    plan p;
    make_plan(&p, g);
    p.memory = workspace;
    float *flat =
        p.memory + p.packed_b + p.packed_a + weft__cpu_workers() * (p.scratch_a + p.scratch_c);
    if (p.transposed)
        p.g.c = flat;
    if (p.a == A_PACKED)
        weft__cpu_parallel(ceil_div(p.g.m, p.kernels->gemm_rows),
                           PACK_GRAIN / (p.kernels->gemm_rows * p.g.k + 1) + 1, pack_a_task, &p);
    for (p.first_batch = 0; p.first_batch < p.n_batch; p.first_batch += p.group)
        for (p.first_column = 0; p.first_column < p.g.n; p.first_column += p.columns)
            run_pass(&p);
    if (p.transposed) {
        flip f = {g, flat, p.kernels};
        weft__cpu_parallel(g->m, 4096, flip_task, &f);
    }
}
