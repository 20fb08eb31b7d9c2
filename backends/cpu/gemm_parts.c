/* backends/cpu/gemm_parts.c -- the driver for matrix products of bfloat16 parts (isa/amx.c).
 *
 * Weights in float32 often come from a checkpoint in 16 bits: a block of B whose numbers have fewer
 * significant bits is packed in as few parts as represent them, with the same results.
 *
 * A is divided into parts and packed, some rows at a time. Then strips of columns of C run in
 * parallel. A strip packs a block of B, which fits the L2 cache, multiplies it by panels of A, one
 * of which fits the L1 cache or nearly, and adds the results to its own C, which is written at the
 * end. A row's bits depend neither on the strips nor on the other rows.
 *
 * Parts of infinities are not numbers, and parts that are rounded up may have infinite products: if
 * a result is not finite, the product is computed again by the driver for float32.
 */
#include <stdatomic.h>

#include "backends/cpu/gemm.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/sizes.h"

enum {
    LEAST = 8,               /* of each size */
    SAMPLE = 64,             /* elements of B that are examined in advance */
    STRIP = 256,             /* columns of the widest strip */
    LEAST_STRIP = 64,        /* narrower ones are not worth another task */
    TILE_ROWS = 512,         /* rows of C in the L2 cache */
    LEAST_ROWS = 128,        /* of a task */
    SPARE = 16,              /* floats between rows of C, which would share few sets of a cache */
    PACKED_FLOATS = 5 << 20, /* of A at a time */
    TOGETHER = 32,           /* rows of B that are decoded at a time */
    CODES = 2 * WEFT_MAX_BLOCK,
    TASK_FLOPS = 8 << 20, /* smaller tasks are joined */
    MOST_PARTS = 3,
    MOST_SPANS = 256 /* of a term, whose parts of B are chosen; further ones have all */
};

/* The most steps in k of a block, by the parts of A. */
static const int64_t blocks[] = {0, 512, WEFT_MAX_BLOCK, WEFT_MAX_BLOCK};

typedef struct term {
    cpu_pair own;
    int a_parts, b_parts;
    int64_t block; /* steps in k of a block */
    int64_t span;  /* steps that are packed together: whole blocks, and whole groups of codes */
    int64_t at_a;  /* in the packed A */
    int64_t at_b;  /* in a worker's B, if B is kept */
} term;

typedef struct plan {
    cpu_gemm g;
    const cpu_kernels *kernels;
    term terms[CPU_MOST_PAIRS];
    int n_terms, orders;
    int64_t width, step; /* those of the kernels */
    int64_t n_batch;
    int64_t chunk, items; /* rows, or with several batch items whole items, for which A is packed */
    int64_t strip, rows;  /* columns and rows of a task */
    bool keep_b;          /* a task's strip of B, since several tiles use it */
    int64_t a_floats, b_floats, c_floats; /* of packed A; per worker */
    float *memory;
    int64_t batch, row, n_items, n_rows; /* what is running */
    atomic_bool infinite;                /* or NaN: an element of C */
} plan;

static int64_t size_of(weft_dtype dtype)
{
    return (int64_t)weft_dtype_size(dtype);
}

/* ---- Planning ------------------------------------------------------------------------------- */

/* The parts that represent decoded codes exactly: one has 8 significant bits and two 17. */
static int parts_of_codes(const cpu_codes *c)
{
    switch (c->kind) {
    case WEFT_ENCODING_MXFP4:
    case WEFT_ENCODING_MXFP8:
    case WEFT_ENCODING_NVFP4:
    case WEFT_ENCODING_GGUF_MXFP4:
        return 1;
    case WEFT_ENCODING_Q4_0: /* a float16 times 4 or 5 bits with a sign */
    case WEFT_ENCODING_Q5_0:
        return 2;
    default:
        return MOST_PARTS;
    }
}

static int parts_of(const cpu_matrix *x, int orders)
{
    if (!x->codes && x->dtype != WEFT_FLOAT32)
        return x->dtype == WEFT_BFLOAT16 ? 1 : 2;
    const int exact = x->codes ? parts_of_codes(x->codes) : MOST_PARTS;
    const int wanted = x->parts && x->parts < exact ? x->parts : exact;
    return wanted < orders ? wanted : orders;
}

static int orders_of(const cpu_gemm *g)
{
    return g->coarse || g->c_dtype == WEFT_BFLOAT16 ? 2 : 3;
}

/* Whether dividing into parts takes less time than is saved; by tiles this must not depend on m. In
 * nanoseconds, measured on a Sapphire Rapids processor: packing an element of one, two or three
 * parts, a product by the driver for float32, one of parts, and what a result of several products
 * takes besides. That of the driver is such that 128 x 576 x 576 goes by parts: with weights of one
 * part, which the estimate does not see, this takes half the time. */
static bool takes(const cpu_gemm *g)
{
    static const double pack[] = {0, 0.1, 0.35, 0.45};
    const double plain = 0.0125, product = 0.00086, result = 1.0;
    if (weft__cpu_kernels()->parts.width == 0 || g->n < LEAST || g->k < LEAST ||
        (g->m < LEAST && !g->by_tiles))
        return false;
    const int orders = orders_of(g), a = parts_of(&g->a, orders);
    /* Codes count like the same weights in float32, so that both take the same way. */
    const int b = g->b.codes && !g->b.parts ? orders : parts_of(&g->b, orders);
    int products = 0;
    for (int i = 0; i < a; i++)
        products += (int)smaller(b, orders - i);
    const double per_row = g->by_tiles ? 0 : pack[b] / (double)g->m;
    const double per_step = products > 1 ? result / (double)g->k : 0;
    return pack[a] / (double)g->n + per_row + per_step < plain - products * product;
}

/* Floats of k steps of a row or a column. */
static int64_t depth(const plan *p, int64_t k, int parts)
{
    return round_up(k, p->step) * parts / 2;
}

/* Whether elements of B have three parts; of float32 the first ones decide, which may have fewer
 * significant bits. Where the data are unknown, the answer that needs more memory is no. */
static bool has_wide_b(const plan *p, const cpu_pair *pair, bool planning)
{
    const cpu_matrix *b = &pair->b;
    if (parts_of(b, p->orders) < MOST_PARTS || b->codes)
        return b->codes && parts_of(b, p->orders) == MOST_PARTS;
    const int64_t n = b->row == 1 ? pair->k : b->column == 1 ? p->g.n : 1;
    return !planning &&
           p->kernels->parts.needed(b->data, 0, 1, smaller(n, SAMPLE), MOST_PARTS) == MOST_PARTS;
}

static void add_term(plan *p, const cpu_pair *pair, bool planning)
{
    term *t = &p->terms[p->n_terms++];
    *t = (term){.own = *pair,
                .a_parts = parts_of(&pair->a, p->orders),
                .b_parts = parts_of(&pair->b, p->orders)};
    const bool both_wide = t->a_parts == MOST_PARTS && has_wide_b(p, pair, planning);
    const int64_t most = both_wide ? 128 : blocks[t->a_parts];
    t->block = round_up(ceil_div(pair->k, ceil_div(pair->k, most)), p->step);
    if (pair->b.codes)
        t->block = most; /* a power of two, like groups */
    const int64_t group = pair->b.codes && !pair->b.code_terms ? pair->b.codes->group : 1;
    t->span = t->block > group ? t->block : group;
}

/* A batch whose items share B, with their rows one after another, is one product. */
static void join_batch(cpu_gemm *g)
{
    int64_t rows = g->m;
    for (int i = g->batch.n - 1; i >= 0; i--) {
        if (g->batch.at[i] != 1 && (g->b.batch[i] != 0 || g->a.batch[i] != rows * g->a.row))
            return;
        rows *= g->batch.at[i];
    }
    g->m = rows;
    g->batch.n = 0;
}

/* Divides C among tasks: strips, and rows if there are fewer strips than threads. */
static void choose_tasks(plan *p)
{
    const int64_t workers = weft__cpu_workers();
    int64_t unit = p->width;
    for (int i = 0; i < p->n_terms; i++)
        if (p->terms[i].own.b.codes && p->terms[i].own.b.code_terms)
            unit = larger(unit, round_up(p->terms[i].own.b.codes->group, p->width));
    int64_t strips = round_up(ceil_div(p->g.n, STRIP), workers);
    strips = larger(1, smaller(strips, p->g.n / LEAST_STRIP));
    p->strip = round_up(ceil_div(p->g.n, strips), unit);
    strips = ceil_div(p->g.n, p->strip);
    int64_t parts = 1;
    if (strips * p->items < workers)
        parts = smaller(ceil_div(2 * workers, strips * p->items), ceil_div(p->chunk, LEAST_ROWS));
    p->rows = round_up(ceil_div(p->chunk, parts), p->width);
    p->keep_b = p->rows > TILE_ROWS;
}

static void make_plan(plan *p, const cpu_gemm *g, bool planning)
{
    *p = (plan){.g = *g, .kernels = weft__cpu_kernels(), .n_batch = 1};
    p->width = p->kernels->parts.width;
    p->step = p->kernels->parts.step;
    p->orders = orders_of(g);
    join_batch(&p->g);
    for (int i = 0; i < p->g.batch.n; i++)
        p->n_batch *= p->g.batch.at[i];
    add_term(p, &(cpu_pair){.k = g->k, .a = g->a, .b = g->b}, planning);
    for (int i = 0; i < g->n_more; i++)
        if (g->more[i].k > 0)
            add_term(p, &g->more[i], planning);
    int64_t deep = 0; /* of a row of A in all terms */
    for (int i = 0; i < p->n_terms; i++)
        deep += depth(p, p->terms[i].own.k, p->terms[i].a_parts);
    const int64_t fit = larger(1, PACKED_FLOATS / (deep * p->width)) * p->width;
    p->chunk = smaller(fit, round_up(p->g.m, p->width));
    p->items = p->n_batch > 1 ? smaller(p->n_batch, larger(1, fit / p->chunk)) : 1;
    choose_tasks(p);
    for (int i = 0; i < p->n_terms; i++) {
        term *t = &p->terms[i];
        t->at_a = p->a_floats;
        p->a_floats += p->items * p->chunk * depth(p, t->own.k, t->a_parts);
        t->at_b = p->keep_b ? p->b_floats : 0;
        const int64_t k = p->keep_b ? t->own.k : smaller(t->span, t->own.k);
        const int64_t b = p->strip * depth(p, k, t->b_parts);
        p->b_floats = p->keep_b ? p->b_floats + b : larger(p->b_floats, b);
    }
    p->c_floats = smaller(TILE_ROWS, p->rows) * (p->strip + SPARE);
}

static int64_t workspace_of(const cpu_gemm *g)
{
    plan p;
    make_plan(&p, g, true);
    return (p.a_floats + weft__cpu_workers() * (p.b_floats + p.c_floats)) * (int64_t)sizeof(float);
}

/* Smaller products are taken only if the largest is. */
static int64_t bound_of(const cpu_gemm *g)
{
    const cpu_part_kernels *kernels = &weft__cpu_kernels()->parts;
    if (!takes(g))
        return 0;
    const int64_t step = kernels->step, width = kernels->width;
    const int orders = orders_of(g), a_parts = parts_of(&g->a, orders);
    const int b_parts = parts_of(&g->b, orders);
    const int64_t unit = g->b.codes ? larger(width, g->b.codes->group) : width;
    const int64_t strip = smaller(round_up(STRIP, unit), round_up(g->n, unit));
    const int64_t a_deep = round_up(g->k, step) * a_parts / 2;
    const int64_t b_deep = round_up(g->k, step) * b_parts / 2;
    const int64_t block = smaller(b_deep, blocks[a_parts] * b_parts / 2); /* or a group of codes */
    const int64_t a = smaller(round_up(g->m, width) * a_deep, PACKED_FLOATS);
    const int64_t b = strip * (g->m > TILE_ROWS ? block + b_deep : block);
    const int64_t c = smaller(TILE_ROWS, round_up(g->m, width)) * (strip + SPARE);
    return (larger(a, width * a_deep) + weft__cpu_workers() * (b + c)) * (int64_t)sizeof(float);
}

/* ---- Packing -------------------------------------------------------------------------------- */

/* The packed block of A from step k on, of all rows of an item. */
static float *block_of_a(const plan *p, const term *t, int64_t item, int64_t k)
{
    return p->memory + t->at_a +
           p->chunk * (item * depth(p, t->own.k, t->a_parts) + depth(p, k, t->a_parts));
}

/* Items are the panels of A of all terms. */
static void pack_a(void *context, int64_t begin, int64_t end, int worker)
{
    const plan *p = context;
    const int64_t panels = ceil_div(p->n_rows, p->width);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const term *t = &p->terms[i % p->n_terms];
        const int64_t item = i / p->n_terms / panels, row = i / p->n_terms % panels * p->width;
        const cpu_matrix *x = &t->own.a;
        const char *from = weft__cpu_matrix_item(x, &p->g.batch, p->batch + item);
        for (int64_t k = 0; k < t->own.k; k += t->block) {
            const int64_t count = smaller(t->block, t->own.k - k);
            p->kernels->parts.pack_a(x->dtype, t->a_parts,
                                     from + ((p->row + row) * x->row + k * x->column) *
                                                size_of(x->dtype),
                                     x->row, x->column, smaller(p->width, p->n_rows - row), count,
                                     block_of_a(p, t, item, k) + row * depth(p, count, t->a_parts));
        }
    }
}

/* A part of B: columns [column, column + n) of the steps [k, k + count) of a batch item. Packed are
 * blocks, and panels in each. */
typedef struct piece {
    const term *t;
    const char *data;
    int64_t column, n, k, count;
    int parts;
    float *out;
} piece;

/* Packs (count, n) elements at step `from` and column `at` of the piece, at most one panel wide. */
static void pack_elements(const plan *p, const piece *b, weft_dtype dtype, const void *x,
                          int64_t x_k, int64_t x_n, int64_t from, int64_t count, int64_t at,
                          int64_t n)
{
    const int parts = b->parts;
    const int64_t padded = round_up(b->n, p->width);
    for (int64_t k = from; k < from + count;) {
        const int64_t first = k / b->t->block * b->t->block;
        const int64_t last = smaller(first + b->t->block, b->count);
        const int64_t end = smaller(last, from + count);
        float *block = b->out + padded * depth(p, first, parts);
        float *panel = block + at * depth(p, last - first, parts);
        p->kernels->parts.pack_b(dtype, parts, (const char *)x + (k - from) * x_k * size_of(dtype),
                                 x_k, x_n, end - k, n,
                                 panel + p->width * depth(p, k - first, parts));
        k = end;
    }
}

/* Columns of B are rows of codes. */
static void pack_code_columns(const plan *p, const piece *b)
{
    enum { COLUMNS = 32 };
    const cpu_codes *c = b->t->own.b.codes;
    float rows[COLUMNS * CODES];
    for (int64_t at = 0; at < b->n; at += COLUMNS) {
        const int64_t n = smaller(COLUMNS, b->n - at);
        for (int64_t k = 0; k < b->count; k += CODES) {
            const int64_t count = smaller(CODES, b->count - k);
            for (int64_t j = 0; j < n; j++)
                p->kernels->decode_codes(c, b->column + at + j, (b->k + k) / c->group,
                                         count / c->group, rows + j * CODES);
            pack_elements(p, b, WEFT_FLOAT32, rows, 1, CODES, k, count, at, n);
        }
    }
}

/* Rows of B are rows of codes. The groups that contain the columns are decoded completely. */
static void pack_code_rows(const plan *p, const piece *b)
{
    enum { ROW = STRIP + 3 * WEFT_MAX_BLOCK };
    const cpu_codes *c = b->t->own.b.codes;
    const int64_t group = b->column / c->group;
    const int64_t groups = (b->column + b->n - 1) / c->group - group + 1;
    const int64_t skip = b->column - group * c->group;
    float rows[TOGETHER * ROW];
    for (int64_t k = 0; k < b->count; k += TOGETHER) {
        const int64_t count = smaller(TOGETHER, b->count - k);
        for (int64_t i = 0; i < count; i++)
            p->kernels->decode_codes(c, b->k + k + i, group, groups, rows + i * ROW);
        for (int64_t at = 0; at < b->n; at += p->width)
            pack_elements(p, b, WEFT_FLOAT32, rows + skip + at, ROW, 1, k, count, at,
                          smaller(p->width, b->n - at));
    }
}

/* The parts that represent the elements of a piece exactly. */
static int parts_needed(const plan *p, const piece *b)
{
    const cpu_matrix *x = &b->t->own.b;
    const int64_t first = (b->k * x->row + b->column * x->column) * size_of(x->dtype);
    const int most = b->t->b_parts;
    if (x->codes || x->dtype != WEFT_FLOAT32)
        return most;
    if (x->row == 1)
        return p->kernels->parts.needed(b->data + first, x->column, b->n, b->count, most);
    if (x->column == 1)
        return p->kernels->parts.needed(b->data + first, x->row, b->count, b->n, most);
    return most;
}

static void pack_b(const plan *p, const piece *b)
{
    const cpu_matrix *x = &b->t->own.b;
    if (x->codes) {
        (x->code_terms ? pack_code_rows : pack_code_columns)(p, b);
        return;
    }
    /* Rows that are contiguous: some at a time, since a panel has only a line of each. */
    const int64_t together = x->column == 1 && x->row != 1 ? TOGETHER : b->count;
    for (int64_t k = 0; k < b->count; k += together)
        for (int64_t at = 0; at < b->n; at += p->width) {
            const char *from =
                b->data + ((b->k + k) * x->row + (b->column + at) * x->column) * size_of(x->dtype);
            pack_elements(p, b, x->dtype, from, x->row, x->column, k,
                          smaller(together, b->count - k), at, smaller(p->width, b->n - at));
        }
}

/* ---- Products ------------------------------------------------------------------------------- */

/* Part of C: rows from `row` of what is packed, columns from `column`, of an item. */
typedef struct tile {
    int64_t item, row, column, m, n;
} tile;

static void write_tile(plan *p, const tile *t, float *c, int64_t c_row)
{
    const cpu_gemm *g = &p->g;
    const int64_t row = (p->batch + t->item) * g->m + p->row + t->row;
    const cpu_part_result result = {.m = t->m,
                                    .n = t->n,
                                    .from = c,
                                    .from_row = c_row,
                                    .bias = g->bias ? g->bias + t->column : NULL,
                                    .dtype = g->c_dtype,
                                    .add = g->accumulate,
                                    .to = (char *)g->c +
                                          (row * g->n + t->column) * size_of(g->c_dtype),
                                    .to_row = g->n};
    if (!p->kernels->parts.write(&result))
        atomic_store_explicit(&p->infinite, true, memory_order_relaxed);
}

/* The parts in which blocks of B are packed. */
typedef struct span_parts {
    uint8_t of[CPU_MOST_PAIRS][MOST_SPANS];
} span_parts;

/* Computes a tile; `first`: B is not packed yet. */
static void run_tile(plan *p, const tile *t, bool first, span_parts *chosen, float *b, float *c)
{
    const int64_t padded = round_up(t->n, p->width);
    cpu_block block = {
        .m = t->m, .n = t->n, .c = c, .c_row = p->strip + SPARE, .orders = p->orders};
    for (const term *x = p->terms; x < p->terms + p->n_terms; x++) {
        block.a_parts = x->a_parts;
        for (int64_t from = 0, span = 0; from < x->own.k; from += x->span, span++) {
            piece pack = {.t = x,
                          .column = t->column,
                          .n = t->n,
                          .k = from,
                          .count = smaller(x->span, x->own.k - from),
                          .parts = x->b_parts,
                          .out = b};
            if (p->keep_b)
                pack.out += x->at_b + padded * depth(p, from, x->b_parts);
            if (!x->own.b.codes)
                pack.data = weft__cpu_matrix_item(&x->own.b, &p->g.batch, p->batch + t->item);
            if (span < MOST_SPANS) {
                uint8_t *parts = &chosen->of[x - p->terms][span];
                *parts = first ? (uint8_t)parts_needed(p, &pack) : *parts;
                pack.parts = *parts;
            }
            if (first)
                pack_b(p, &pack);
            block.b_parts = pack.parts;
            for (int64_t k = 0; k < pack.count; k += x->block) {
                block.k = smaller(x->block, pack.count - k);
                block.a_panel = p->width * depth(p, block.k, x->a_parts);
                block.a = block_of_a(p, x, t->item, from + k) + t->row / p->width * block.a_panel;
                block.b_panel = p->width * depth(p, block.k, pack.parts);
                block.b = pack.out + padded * depth(p, k, pack.parts);
                p->kernels->parts.block(&block);
                block.add = true;
            }
        }
    }
    write_tile(p, t, c, block.c_row);
}

/* Items are the tasks: rows of a strip of an item. */
static void run_tasks(void *context, int64_t begin, int64_t end, int worker)
{
    plan *p = context;
    float *b = p->memory + p->a_floats + worker * (p->b_floats + p->c_floats);
    const int64_t strips = ceil_div(p->g.n, p->strip), down = ceil_div(p->n_rows, p->rows);
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i / strips % down * p->rows;
        const int64_t rows = smaller(p->rows, p->n_rows - first);
        tile t = {.item = i / strips / down, .column = i % strips * p->strip};
        t.n = smaller(p->strip, p->g.n - t.column);
        span_parts chosen;
        for (int64_t row = 0; row < rows; row += TILE_ROWS) {
            t.row = first + row;
            t.m = smaller(TILE_ROWS, rows - row);
            run_tile(p, &t, row == 0, &chosen, b, b + p->b_floats);
        }
    }
}

static void run_chunk(plan *p)
{
    const int64_t panels = p->n_items * ceil_div(p->n_rows, p->width);
    const int64_t tasks = p->n_items * ceil_div(p->g.n, p->strip) * ceil_div(p->n_rows, p->rows);
    int64_t k = 0;
    for (int i = 0; i < p->n_terms; i++)
        k += p->terms[i].own.k;
    const int64_t flops = 2 * smaller(p->rows, p->n_rows) * smaller(p->strip, p->g.n) * k;
    weft__cpu_parallel(panels * p->n_terms, TASK_FLOPS / 64 / (p->width * k) + 1, pack_a, p);
    weft__cpu_parallel(tasks, TASK_FLOPS / flops + 1, run_tasks, p);
}

static bool run(const cpu_gemm *g, void *workspace)
{
    plan p;
    make_plan(&p, g, false);
    p.memory = workspace;
    for (p.batch = 0; p.batch < p.n_batch; p.batch += p.items) {
        p.n_items = smaller(p.items, p.n_batch - p.batch);
        for (p.row = 0; p.row < p.g.m; p.row += p.chunk) {
            p.n_rows = smaller(p.chunk, p.g.m - p.row);
            run_chunk(&p);
        }
    }
    return !atomic_load(&p.infinite) || g->accumulate;
}

const cpu_way weft__cpu_by_parts = {
    .takes = takes, .workspace = workspace_of, .bound = bound_of, .run = run, .may_fail = true};
