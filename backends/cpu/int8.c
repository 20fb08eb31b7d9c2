/* backends/cpu/int8.c -- products of 8-bit activations with quantized weights.
 *
 * All rows of x are rounded first. Then strips of columns run in parallel: each packs its weights
 * once and multiplies them with tiles of rows. A few rows are multiplied with the weights in place.
 * The work is divided by shape only.
 */
#include "backends/cpu/gemm.h"

#include <string.h>

#include "backends/cpu/pool.h"
#include "backends/cpu/room.h"
#include "backends/cpu/sizes.h"

enum {
    TILE_ROWS = 48,    /* rows of a tile, so that its results stay in the L1 cache */
    K_BLOCKS = 16,     /* blocks of terms per pass over a tile, so that its part of the panel stays
                        * there too */
    PART_ROWS = 1536,  /* most rows that share packed weights */
    MANY_COLUMNS = 64, /* number of panels from which strips have two */
    ROUND_GRAIN = 16384, /* elements rounded per task */
    FEW_ROWS = 2 * CPU_GEMV_ROWS,
    FEW_NARROW_ROWS = CPU_GEMV_ROWS + 2, /* the same for codes of 4 bits */
    ROWS_BLOCKS = 8, /* numbers of a row of x in int8_rows are a multiple of it */
    LEAST_CHUNK = 16 << 10,
    LARGEST_CHUNK = 128 << 10 /* bytes of weights per task of a few rows */
};

typedef struct strips {
    const cpu_gemm *p;
    const cpu_kernels *kernels;
    int64_t blocks, panels, parts; /* of k; columns per strip; of rows */
    int offset;                    /* of the codes, for kinds with an offset instead of a bias */
    bool narrow;                   /* codes of 4 bits */
    int8_t *x;
    float *steps, *shifts;
    int32_t *starts;
    char *memory; /* shared memory, then `own` bytes for each worker */
    int64_t own;
} strips;

/* A worker's. */
typedef struct strip {
    uint8_t *w;
    float *scales, *biases, *c;
} strip;

/* What is subtracted from the codes of a kind that has this instead of a bias; 0: a bias.
 * Other kinds, such as those with a scale for 16 weights, are not taken. */
static bool offset_of(const cpu_codes *c, int *offset)
{
    *offset = 0;
    switch (c->kind) {
    case WEFT_ENCODING_Q4_0:
        *offset = 8;
        return true;
    case WEFT_ENCODING_Q5_0:
        *offset = 16;
        return true;
    case WEFT_ENCODING_Q8_0:
    case WEFT_ENCODING_IQ4_NL:
    case WEFT_ENCODING_IQ4_XS:
    case WEFT_ENCODING_GGUF_MXFP4:
        *offset = 128;
        return true;
    case WEFT_ENCODING_Q4_1:
    case WEFT_ENCODING_Q5_1:
    case WEFT_ENCODING_Q4_K:
    case WEFT_ENCODING_Q5_K:
        return true;
    case WEFT_ENCODING_AFFINE:
        return c->bits == 4 || c->bits == 8;
    default:
        return false;
    }
}

/* Whether all codes are less than 16. */
static bool is_narrow(const cpu_codes *c)
{
    return c->kind == WEFT_ENCODING_Q4_0 || c->kind == WEFT_ENCODING_Q4_1 ||
           c->kind == WEFT_ENCODING_Q4_K || (c->kind == WEFT_ENCODING_AFFINE && c->bits == 4);
}

/* Whether weights are used in place: packing them takes longer than these products. */
static bool is_few(const cpu_gemm *g)
{
    const int64_t most = is_narrow(g->b.codes) ? FEW_NARROW_ROWS : FEW_ROWS;
    return g->m <= most && weft__cpu_kernels()->int8_rows;
}

/* The fewest rows for which packing pays: types whose blocks are packed fast need fewer. */
static int64_t least_rows(const cpu_codes *c)
{
    const bool fast = c->kind == WEFT_ENCODING_Q8_0 || c->kind == WEFT_ENCODING_Q4_0 ||
                      c->kind == WEFT_ENCODING_Q4_1;
    return fast ? weft__cpu_kernels()->int8_least : CPU_GEMV_ROWS + 1;
}

static bool takes(const cpu_gemm *g)
{
    int offset;
    return g->int8 && g->b.codes && !g->b.code_terms && g->c_dtype == g->a.dtype && g->m > 0 &&
           offset_of(g->b.codes, &offset) && (g->m >= least_rows(g->b.codes) || is_few(g));
}

static strip give_strip(const strips *s, cpu_workspace_rest *room)
{
    const int64_t floats = s->panels * s->blocks * CPU_INT8_COLUMNS;
    strip own;
    own.w = weft__cpu_workspace_take(room, floats * CPU_INT8_TERMS, 1);
    own.scales = weft__cpu_workspace_take(room, floats, sizeof(float));
    own.biases = weft__cpu_workspace_take(room, floats, sizeof(float));
    own.c = weft__cpu_workspace_take(room, TILE_ROWS * CPU_INT8_COLUMNS, sizeof(float));
    return own;
}

/* Returns the bytes; if memory is not NULL, also sets the pointers. */
static int64_t lay_out(strips *s, const cpu_gemm *p, void *memory)
{
    cpu_workspace_rest room = {.base = memory}, one = {.base = NULL};
    const int64_t panels = (p->n + CPU_INT8_COLUMNS - 1) / CPU_INT8_COLUMNS;
    *s = (strips){.p = p,
                  .kernels = weft__cpu_kernels(),
                  .blocks = p->k / CPU_INT8_TERMS,
                  .panels = panels >= MANY_COLUMNS ? 2 : 1,
                  .parts = (p->m + PART_ROWS - 1) / PART_ROWS,
                  .narrow = is_narrow(p->b.codes)};
    (void)offset_of(p->b.codes, &s->offset);
    const int64_t numbers = p->m * s->blocks;
    s->x = weft__cpu_workspace_take(&room, numbers * CPU_INT8_TERMS, 1);
    s->steps = weft__cpu_workspace_take(&room, numbers, sizeof(float));
    s->shifts = weft__cpu_workspace_take(&room, s->offset ? 0 : numbers, sizeof(float));
    s->starts = weft__cpu_workspace_take(&room, s->offset ? numbers : 0, sizeof(int32_t));
    (void)give_strip(s, &one);
    s->own = one.used;
    s->memory = room.base ? room.base + room.used : NULL;
    return room.used + weft__cpu_workers() * s->own;
}

static void round_task(void *context, int64_t begin, int64_t end, int worker)
{
    const strips *s = context;
    const cpu_gemm *p = s->p;
    const int64_t size = (int64_t)weft_dtype_size(p->a.dtype);
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        s->kernels->int8_round(p->a.dtype, (const char *)p->a.data + i * p->a.row * size, p->k,
                               s->offset, s->x + i * p->k, s->steps + i * s->blocks,
                               s->starts + i * s->blocks, s->shifts + i * s->blocks);
}

/* Computes rows row .. row + m for the n columns of a panel. */
static void run_tile(const strips *s, const strip *own, int64_t panel, int64_t row, int64_t m,
                     int64_t column, int64_t n)
{
    const cpu_gemm *p = s->p;
    const int64_t packed = panel * s->blocks * CPU_INT8_COLUMNS;
    memset(own->c, 0, (size_t)(m * CPU_INT8_COLUMNS) * sizeof(float));
    for (int64_t i = 0; p->bias && i < m; i++)
        memcpy(own->c + i * CPU_INT8_COLUMNS, p->bias + column, (size_t)n * sizeof(float));
    for (int64_t g = 0; g < s->blocks; g += K_BLOCKS) {
        const int64_t at = packed + g * CPU_INT8_COLUMNS, number = row * s->blocks + g;
        const cpu_int8_block block = {.m = m,
                                      .blocks = smaller(K_BLOCKS, s->blocks - g),
                                      .x = s->x + number * CPU_INT8_TERMS,
                                      .x_row = p->k,
                                      .steps = s->steps + number,
                                      .shifts = s->offset ? NULL : s->shifts + number,
                                      .starts = s->offset ? s->starts + number : NULL,
                                      .per_row = s->blocks,
                                      .w = own->w + at * CPU_INT8_TERMS,
                                      .narrow = s->narrow,
                                      .scales = own->scales + at,
                                      .biases = own->biases + at,
                                      .c = own->c};
        s->kernels->int8_block(&block);
    }
    const int64_t size = (int64_t)weft_dtype_size(p->a.dtype);
    for (int64_t i = 0; i < m; i++)
        s->kernels->encode(p->a.dtype, own->c + i * CPU_INT8_COLUMNS,
                           (char *)p->c + ((row + i) * p->n + column) * size, n);
}

/* Items are the strips of each part of the rows. */
static void strip_task(void *context, int64_t begin, int64_t end, int worker)
{
    const strips *s = context;
    const cpu_gemm *p = s->p;
    const int64_t width = s->panels * CPU_INT8_COLUMNS;
    cpu_workspace_rest room = {.base = s->memory + worker * s->own};
    const strip own = give_strip(s, &room);
    for (int64_t item = begin; item < end; item++) {
        const int64_t from = item / s->parts * width, part = item % s->parts;
        const int64_t to = smaller(from + width, p->n);
        const int64_t first = p->m * part / s->parts, last = p->m * (part + 1) / s->parts;
        for (int64_t c = from; c < to; c += CPU_INT8_COLUMNS) {
            const int64_t at = (c - from) * s->blocks;
            s->kernels->int8_pack(p->b.codes, c, smaller(CPU_INT8_COLUMNS, to - c), s->blocks,
                                  own.w + at * CPU_INT8_TERMS, own.scales + at, own.biases + at);
        }
        for (int64_t row = first; row < last; row += TILE_ROWS)
            for (int64_t c = from; c < to; c += CPU_INT8_COLUMNS)
                run_tile(s, &own, (c - from) / CPU_INT8_COLUMNS, row,
                         smaller(TILE_ROWS, last - row), c, smaller(CPU_INT8_COLUMNS, to - c));
    }
}

/* ---- A few rows ------------------------------------------------------------------------------ */

typedef struct few {
    const cpu_gemm *p;
    const cpu_kernels *kernels;
    int64_t per_row; /* numbers of each row of x */
    int8_t *x;
    float *steps, *shifts, *y; /* y in float32 */
    int32_t *starts;
} few;

/* The rows of x that int8_rows reads, CPU_GEMV_ROWS at a time. */
static int64_t padded_rows(int64_t m)
{
    return m - m % CPU_GEMV_ROWS + weft__cpu_gemv_rows(m % CPU_GEMV_ROWS);
}

/* Returns the bytes; if memory is not NULL, also sets the pointers. */
static int64_t lay_out_few(few *f, const cpu_gemm *p, void *memory)
{
    cpu_workspace_rest room = {.base = memory};
    const int64_t blocks = p->k / CPU_INT8_TERMS, rows = padded_rows(p->m);
    const int64_t per_row = (blocks + ROWS_BLOCKS - 1) / ROWS_BLOCKS * ROWS_BLOCKS;
    *f = (few){.p = p, .kernels = weft__cpu_kernels(), .per_row = per_row};
    f->x = weft__cpu_workspace_take(&room, rows * p->k, 1);
    f->steps = weft__cpu_workspace_take(&room, rows * per_row, sizeof(float));
    f->shifts = weft__cpu_workspace_take(&room, rows * per_row, sizeof(float));
    f->starts = weft__cpu_workspace_take(&room, rows * per_row, sizeof(int32_t));
    f->y = p->a.dtype == WEFT_FLOAT32 ? p->c
                                      : weft__cpu_workspace_take(&room, p->m * p->n, sizeof(float));
    return room.used;
}

/* Rounds x; rows that the kernel reads beyond the last are 0. */
static void round_few(const few *f)
{
    const cpu_gemm *p = f->p;
    const int64_t rows = padded_rows(p->m), per_row = f->per_row;
    const int64_t size = (int64_t)weft_dtype_size(p->a.dtype);
    int offset;
    (void)offset_of(p->b.codes, &offset);
    memset(f->x + p->m * p->k, 0, (size_t)((rows - p->m) * p->k));
    memset(f->steps, 0, (size_t)(rows * per_row) * sizeof *f->steps);
    memset(f->shifts, 0, (size_t)(rows * per_row) * sizeof *f->shifts);
    memset(f->starts, 0, (size_t)(rows * per_row) * sizeof *f->starts);
    for (int64_t i = 0; i < p->m; i++)
        f->kernels->int8_round(p->a.dtype, (const char *)p->a.data + i * p->a.row * size, p->k,
                               offset, f->x + i * p->k, f->steps + i * per_row,
                               f->starts + i * per_row, f->shifts + i * per_row);
}

static void few_task(void *context, int64_t begin, int64_t end, int worker)
{
    const few *f = context;
    const cpu_gemm *p = f->p;
    const int64_t size = (int64_t)weft_dtype_size(p->a.dtype);
    (void)worker;
    for (int64_t i = 0; i < p->m; i += CPU_GEMV_ROWS) {
        const cpu_int8_rows rows = {.m = (int)smaller(CPU_GEMV_ROWS, p->m - i),
                                    .blocks = p->k / CPU_INT8_TERMS,
                                    .codes = p->b.codes,
                                    .x = f->x + i * p->k,
                                    .x_row = p->k,
                                    .steps = f->steps + i * f->per_row,
                                    .shifts = f->shifts + i * f->per_row,
                                    .starts = f->starts + i * f->per_row,
                                    .per_row = f->per_row,
                                    .first = begin,
                                    .n = end - begin,
                                    .bias = p->bias,
                                    .y = f->y + i * p->n,
                                    .y_row = p->n};
        f->kernels->int8_rows(&rows);
    }
    for (int64_t i = 0; p->a.dtype != WEFT_FLOAT32 && i < p->m; i++)
        f->kernels->encode(p->a.dtype, f->y + i * p->n + begin,
                           (char *)p->c + (i * p->n + begin) * size, end - begin);
}

static void run_few(const cpu_gemm *p, void *workspace)
{
    few f;
    (void)lay_out_few(&f, p, workspace);
    round_few(&f);
    const int64_t row_bytes = p->b.codes->code_row + 1, all = p->n * row_bytes / 16;
    const int64_t chunk = all < LEAST_CHUNK ? LEAST_CHUNK : smaller(all, LARGEST_CHUNK);
    weft__cpu_parallel(p->n, chunk / row_bytes, few_task, &f);
}

/* ---- All ------------------------------------------------------------------------------------- */

static int64_t workspace_of(const cpu_gemm *p)
{
    few f;
    strips s;
    return is_few(p) ? lay_out_few(&f, p, NULL) : lay_out(&s, p, NULL);
}

static bool run(const cpu_gemm *p, void *workspace)
{
    if (is_few(p)) {
        run_few(p, workspace);
        return true;
    }
    strips s;
    (void)lay_out(&s, p, workspace);
    const int64_t width = s.panels * CPU_INT8_COLUMNS;
    weft__cpu_parallel(p->m, ROUND_GRAIN / (p->k + 1) + 1, round_task, &s);
    weft__cpu_parallel((p->n + width - 1) / width * s.parts, 1, strip_task, &s);
    return true;
}

const cpu_way weft__cpu_by_int8 = {.takes = takes, .workspace = workspace_of, .run = run};
