/* backends/cpu/gemm_tiles.c -- the driver for float32 matrix products, and for sums of products.
 *
 * B is decoded and packed into column panels, all of it or, if it is large, some columns at a time.
 * Then tiles of C run in parallel, each in blocks of k. A is packed into row panels too, all of it
 * before or, if it is large, by each tile; where that would take longer than it saves, A is read in
 * place. A tile computes all pairs of a sum while its part of C is in a cache. The work is divided
 * by shape only.
 */
#include "backends/cpu/gemm.h"

#include <string.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/sizes.h"

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

/* A pair of the sum: B is packed, unless `direct`, from float at_b of the workspace on; A in
 * A_PACKED from at_a on. */
typedef struct term {
    cpu_pair own;
    a_mode mode;
    bool direct;
    int64_t block_k, at_a, at_b;
} term;

typedef struct plan {
    cpu_gemm g;
    term terms[CPU_MOST_PAIRS];
    int n_terms;
    int64_t k; /* of all terms */
    const cpu_kernels *kernels;
    bool transposed; /* computes C^T = B^T A^T, then transposes */
    bool shared_b, own_c;
    int64_t n_batch, group; /* batch items per pass */
    int64_t columns;        /* of a pass */
    int64_t tile_m, tile_n;
    int64_t shared;               /* floats of packed A and B */
    int64_t scratch_a, scratch_c; /* in floats, per worker */
    float *memory;
    int64_t first_batch, first_column, pass_columns; /* of the running pass */
    const term *packing;
} plan;

static int64_t size_of(weft_dtype dtype)
{
    return (int64_t)weft_dtype_size(dtype);
}

/* ---- Planning ------------------------------------------------------------------------------- */

/* Floats of m rows of A in panels of k steps. */
static int64_t panels_of_a(const cpu_kernels *kernels, int64_t m, int64_t k)
{
    const int64_t rows = kernels->gemm_rows;
    return ceil_div(m, rows) * (rows * k + kernels->lanes);
}

static a_mode choose_a(const plan *p, const cpu_pair *pair)
{
    const cpu_gemm *g = &p->g;
    const cpu_matrix *a = &pair->a;
    const bool plain = a->dtype == WEFT_FLOAT32;
    /* Large strides along k are in few sets of a cache, so there columns are not read in place. */
    if (plain && a->row == 1 && a->column != 1 && a->column <= 64)
        return A_IN_PLACE;
    if (plain && a->column == 1 && (g->n < LEAST_COLUMNS || p->n_batch > 1))
        return A_IN_PLACE;
    return p->n_batch == 1 && g->n > TILE_COLUMNS &&
                   panels_of_a(p->kernels, g->m, pair->k) <= PACKED_A_FLOATS
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
    bool packing = false;
    for (int i = 0; i < p->n_terms; i++)
        packing |= p->terms[i].mode == A_PACK;
    const int64_t n = smaller(p->columns, p->g.n);
    int64_t tiles_n = ceil_div(n, packing ? PACKING_COLUMNS : TILE_COLUMNS);
    for (;;) {
        p->tile_m = round_up(ceil_div(p->g.m, tiles_m), rows);
        p->tile_n = round_up(ceil_div(n, tiles_n), columns);
        int64_t flops = 2 * smaller(p->tile_m, p->g.m) * smaller(p->tile_n, n) * p->k;
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
    return p->n_batch == 1 && !g->accumulate && g->n_more == 0 && g->n <= p->kernels->gemm_rows &&
           g->m >= 4 * g->n && g->a.row == 1 && g->a.column != 1 && g->a.dtype == WEFT_FLOAT32 &&
           !g->b.codes;
}

static cpu_matrix flipped(const cpu_matrix *x)
{
    cpu_matrix y = *x;
    y.row = x->column;
    y.column = x->row;
    return y;
}

static void add_term(plan *p, const cpu_pair *pair)
{
    const cpu_matrix *b = &pair->b;
    term *t = &p->terms[p->n_terms++];
    const int64_t k = pair->k > 0 ? pair->k : 1;
    *t = (term){
        .own = *pair, .mode = choose_a(p, pair), .block_k = ceil_div(k, ceil_div(k, K_BLOCK))};
    t->direct = !b->codes && b->dtype == WEFT_FLOAT32 && b->column == 1 &&
                p->g.m <= 2 * p->kernels->gemm_rows && p->g.n % p->kernels->lanes == 0;
    p->k += k;
}

/* Chooses the columns and the batch items of a pass. */
static void choose_passes(plan *p)
{
    const int64_t width = p->kernels->gemm_columns, padded = round_up(p->g.n, width);
    bool direct = true;
    for (int i = 0; i < p->n_terms; i++)
        direct &= p->terms[i].direct;
    p->shared_b = repeated(&p->g.b, &p->g.batch);
    p->group = p->n_batch;
    p->columns = padded;
    if (direct)
        return;
    const int64_t most = PACKED_FLOATS / p->k / width * width;
    const int64_t passes = ceil_div(padded, most < width ? width : most);
    p->columns = round_up(ceil_div(padded, passes), width);
    if (!p->shared_b) {
        int64_t fit = p->columns < padded ? 1 : PACKED_FLOATS / (p->k * padded);
        p->group = smaller(p->n_batch, fit > 1 ? fit : 1);
    }
}

/* Divides the workspace. */
static void place(plan *p)
{
    for (int i = 0; i < p->n_terms; i++) {
        term *t = &p->terms[i];
        const int64_t k = t->own.k > 0 ? t->own.k : 1;
        t->at_b = p->shared;
        if (!t->direct)
            p->shared += (p->shared_b ? 1 : p->group) * p->columns * k;
        t->at_a = p->shared;
        if (t->mode == A_PACKED)
            p->shared += round_up(panels_of_a(p->kernels, p->g.m, t->own.k), 16);
        const int64_t block = round_up(panels_of_a(p->kernels, p->tile_m, t->block_k), 16);
        if (t->mode == A_PACK && block > p->scratch_a)
            p->scratch_a = block;
    }
    p->own_c = p->g.c_dtype != WEFT_FLOAT32;
    p->scratch_c = p->own_c ? round_up(p->tile_m * p->tile_n, 16) : 0;
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
    add_term(p, &(cpu_pair){.k = p->g.k, .a = p->g.a, .b = p->g.b});
    for (int i = 0; i < g->n_more; i++)
        add_term(p, &g->more[i]);
    choose_passes(p);
    choose_tiles(p);
    place(p);
}

static int64_t workspace_of(const cpu_gemm *g)
{
    plan p;
    make_plan(&p, g);
    int64_t floats = p.shared + weft__cpu_workers() * (p.scratch_a + p.scratch_c);
    if (p.transposed)
        floats += round_up(g->m * g->n, 16);
    return floats * (int64_t)sizeof(float);
}

/* An upper bound for every plan of one product: packed columns of B (or of A, when the transpose is
 * computed), packed A, and per worker a tile's block of A and its results. */
static int64_t bound_of(const cpu_gemm *g)
{
    const cpu_kernels *kernels = weft__cpu_kernels();
    const int64_t rows = kernels->gemm_rows, width = kernels->gemm_columns;
    int64_t k = g->k > 0 ? g->k : 1, padded = round_up(g->n > g->m ? g->n : g->m, width);
    int64_t packed = smaller(padded * k, PACKED_FLOATS);
    packed = packed > width * k ? packed : width * k;
    int64_t tile_n = round_up(PACKING_COLUMNS, width);
    const bool in_tiles = g->a.dtype != WEFT_FLOAT32 || g->a.column != 1 ||
                          panels_of_a(kernels, g->m, k) > PACKED_A_FLOATS;
    int64_t own = in_tiles ? round_up(panels_of_a(kernels, TILE_ROWS, K_BLOCK), 16) : 0;
    own += g->c_dtype != WEFT_FLOAT32 ? TILE_ROWS * tile_n : 0;
    int64_t flat = g->n <= rows ? round_up(g->m * g->n, 16) : 0;
    const int64_t a = panels_of_a(kernels, g->m > rows ? g->m : rows, k);
    return (packed + round_up(smaller(a, PACKED_A_FLOATS), 16) + weft__cpu_workers() * own + flat) *
           (int64_t)sizeof(float);
}

/* ---- Packing B ------------------------------------------------------------------------------ */

enum { DECODED = 2 * WEFT_MAX_BLOCK, MOST_COLUMNS = 32, SPAN = 512, TOGETHER = 16 };

/* Packs a panel of columns [first, first + n) of B that are rows of codes. */
static void pack_code_columns(const plan *p, int64_t first, int64_t n, float *out)
{
    const cpu_pair *own = &p->packing->own;
    const cpu_codes *c = own->b.codes;
    const int64_t width = p->kernels->gemm_columns;
    float rows[MOST_COLUMNS * DECODED];
    for (int64_t k = 0; k < own->k; k += DECODED) {
        int64_t count = smaller(DECODED, own->k - k);
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
                           out + j * p->packing->own.k + k * width);
    }
}

/* Rows [from, to) and columns [first, first + n), n <= SPAN, where rows of B are rows of codes. The
 * groups that contain the columns are decoded completely, some rows at a time. */
static void pack_code_rows(const plan *p, int64_t from, int64_t to, int64_t first, int64_t n,
                           float *out)
{
    enum { ROW = SPAN + 2 * WEFT_MAX_BLOCK, LINE = 64 };
    const cpu_codes *c = p->packing->own.b.codes;
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
    const cpu_matrix *b = &p->packing->own.b;
    return b->codes ? b->code_terms : b->column == 1 && b->row != 1;
}

/* Rows [from, to) of columns [first, first + n); all rows unless by_rows. */
static void pack_part(const plan *p, int64_t item, int64_t from, int64_t to, int64_t first,
                      int64_t n)
{
    const cpu_pair *own = &p->packing->own;
    const cpu_matrix *x = &own->b;
    float *out =
        p->memory + p->packing->at_b + (item * p->columns + first - p->first_column) * own->k;
    if (x->codes && x->code_terms) {
        pack_code_rows(p, from, to, first, n, out);
        return;
    }
    if (x->codes) {
        pack_code_columns(p, first, n, out);
        return;
    }
    const int64_t size = size_of(x->dtype);
    const char *b =
        weft__cpu_matrix_item(x, &p->g.batch, p->first_batch + item) + first * x->column * size;
    if (!by_rows(p)) {
        p->kernels->pack_b(x->dtype, b, x->row, x->column, own->k, n, out);
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
    const int64_t rows = PACK_GRAIN / SPAN, k = p->packing->own.k > 0 ? p->packing->own.k : 1;
    return by_rows(p) ? (piece){SPAN, rows} : (piece){p->kernels->gemm_columns, k};
}

/* Items are the pieces of every batch item of the pass. */
static void pack_task(void *context, int64_t begin, int64_t end, int worker)
{
    const plan *p = context;
    (void)worker;
    const piece size = piece_of(p);
    const int64_t across = ceil_div(p->pass_columns, size.columns);
    const int64_t k = p->packing->own.k, down = ceil_div(k, size.rows);
    for (int64_t i = begin; i < end; i++) {
        const int64_t column = i % across * size.columns, row = i / across % down * size.rows;
        pack_part(p, i / across / down, row, smaller(row + size.rows, k), p->first_column + column,
                  smaller(size.columns, p->pass_columns - column));
    }
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

/* Items are the panels of A. */
static void pack_a_task(void *context, int64_t begin, int64_t end, int worker)
{
    const plan *p = context;
    const term *t = p->packing;
    const cpu_matrix *x = &t->own.a;
    const int64_t rows = p->kernels->gemm_rows, row = begin * rows;
    (void)worker;
    p->kernels->pack_a(x->dtype, (const char *)x->data + row * x->row * size_of(x->dtype), x->row,
                       x->column, smaller(end * rows, p->g.m) - row, t->own.k,
                       p->memory + t->at_a + panels_of_a(p->kernels, row, t->own.k));
}

/* Brings rows [row, row + m) and columns [first, first + k) of A into the layout of the block; rows
 * begin a panel. */
static void bring_a(const plan *p, const term *t, int64_t batch, int64_t row, int64_t first,
                    float *scratch, cpu_block *block)
{
    const cpu_matrix *x = &t->own.a;
    const int64_t rows = p->kernels->gemm_rows;
    const char *from = weft__cpu_matrix_item(x, &p->g.batch, batch) +
                       (row * x->row + first * x->column) * size_of(x->dtype);
    if (t->mode == A_IN_PLACE) {
        block->a = (const float *)(const void *)from;
        block->a_row = x->row;
        block->a_k = x->column;
        block->a_panel = rows * x->row;
        return;
    }
    block->a_row = 1;
    block->a_k = rows;
    if (t->mode == A_PACKED) {
        block->a_panel = panels_of_a(p->kernels, rows, t->own.k);
        block->a = p->memory + t->at_a + row / rows * block->a_panel + first * rows;
    } else {
        block->a_panel = panels_of_a(p->kernels, rows, block->k);
        block->a = scratch;
        p->kernels->pack_a(x->dtype, from, x->row, x->column, block->m, block->k, scratch);
    }
}

/* The same for rows [first, first + k) of B, from `column` of the pass on. */
static void bring_b(const plan *p, const term *t, int64_t item, int64_t column, int64_t first,
                    cpu_block *block)
{
    const int64_t width = p->kernels->gemm_columns, k = t->own.k;
    if (t->direct) {
        const char *b = weft__cpu_matrix_item(&t->own.b, &p->g.batch, p->first_batch + item);
        block->b = (const float *)(const void *)b + first * t->own.b.row + p->first_column + column;
        block->b_k = t->own.b.row;
        block->b_panel = width;
        block->b_next = NULL;
        return;
    }
    block->b =
        p->memory + t->at_b + ((p->shared_b ? 0 : item) * p->columns + column) * k + first * width;
    block->b_k = width;
    block->b_panel = width * k;
    block->b_next = first + block->k < k ? block->b + block->k * width : NULL;
}

static void run_tile(const plan *p, int64_t item, int64_t row, int64_t column, int worker)
{
    const cpu_gemm *g = &p->g;
    const int64_t batch = p->first_batch + item, first = p->first_column + column;
    float *scratch = p->memory + p->shared + worker * (p->scratch_a + p->scratch_c);
    char *c = (char *)g->c + ((batch * g->m + row) * g->n + first) * size_of(g->c_dtype);
    cpu_block block = {.m = smaller(p->tile_m, g->m - row),
                       .n = smaller(p->tile_n, p->pass_columns - column),
                       .c = p->own_c ? scratch + p->scratch_a : (float *)(void *)c,
                       .c_row = p->own_c ? p->tile_n : g->n,
                       .bias = g->bias ? g->bias + first : NULL,
                       .add = g->accumulate};
    for (const term *t = p->terms; t < p->terms + p->n_terms; t++)
        for (int64_t k = 0; k == 0 || k < t->own.k; k += t->block_k) {
            block.k = smaller(t->block_k, t->own.k - k);
            bring_a(p, t, batch, row, k, scratch, &block);
            bring_b(p, t, item, column, k, &block);
            p->kernels->gemm_block(&block);
            block.bias = NULL;
            block.add = true;
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

static void pack_b(plan *p, const term *t, int64_t items)
{
    p->packing = t;
    const piece size = piece_of(p);
    if (!t->direct)
        weft__cpu_parallel((p->shared_b ? 1 : items) * ceil_div(p->pass_columns, size.columns) *
                               ceil_div(t->own.k, size.rows),
                           PACK_GRAIN / (size.columns * (size.rows + 1)) + 1, pack_task, p);
}

static void run_pass(plan *p)
{
    int64_t items = smaller(p->group, p->n_batch - p->first_batch);
    p->pass_columns = smaller(p->columns, p->g.n - p->first_column);
    for (int i = 0; i < p->n_terms; i++)
        pack_b(p, &p->terms[i], items);
    int64_t tiles = ceil_div(p->g.m, p->tile_m) * ceil_div(p->pass_columns, p->tile_n);
    int64_t flops = 2 * smaller(p->tile_m, p->g.m) * smaller(p->tile_n, p->g.n) * (p->k + 1);
    weft__cpu_parallel(items * tiles, SMALL_TILE_FLOPS / flops, tile_task, p);
}

static void pack_a(plan *p, const term *t)
{
    const int64_t rows = p->kernels->gemm_rows;
    p->packing = t;
    if (t->mode == A_PACKED)
        weft__cpu_parallel(ceil_div(p->g.m, rows), PACK_GRAIN / (rows * t->own.k + 1) + 1,
                           pack_a_task, p);
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

static bool run(const cpu_gemm *g, void *workspace)
{
    plan p;
    make_plan(&p, g);
    p.memory = workspace;
    float *flat = p.memory + p.shared + weft__cpu_workers() * (p.scratch_a + p.scratch_c);
    if (p.transposed)
        p.g.c = flat;
    for (int i = 0; i < p.n_terms; i++)
        pack_a(&p, &p.terms[i]);
    for (p.first_batch = 0; p.first_batch < p.n_batch; p.first_batch += p.group)
        for (p.first_column = 0; p.first_column < p.g.n; p.first_column += p.columns)
            run_pass(&p);
    if (p.transposed) {
        flip f = {g, flat, p.kernels};
        weft__cpu_parallel(g->m, 4096, flip_task, &f);
    }
    return true;
}

const cpu_way weft__cpu_by_tiles = {.workspace = workspace_of, .bound = bound_of, .run = run};
