/* backends/cpu/stream.c -- products with a few rows of A by the GEMV kernels: each row of B^T,
 * dense or codes, is read once from memory, in place, and again from the cache for more than
 * CPU_GEMV_ROWS rows of A. */
#include "backends/cpu/gemm.h"
#include "backends/cpu/isa/blocks.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/sizes.h"

enum {
    MOST_ROWS = 3 * CPU_GEMV_ROWS, /* of A if B is dense; for more tiles are faster */
    LEAST_RUN = 32,                /* terms of which codes_arrange writes a sum, at least */
    TOGETHER = 12                  /* kernels read 2, 3 or 4 rows of codes together */
};

static bool takes(const cpu_gemm *g)
{
    const cpu_codes *c = g->b.codes;
    if (!g->streams || g->n_more > 0 || g->a.column != 1)
        return false;
    if (c == NULL)
        return g->m <= MOST_ROWS && g->b.row == 1 && g->k > 1;
    return g->m <= CPU_GEMV_ROWS && !g->b.code_terms && g->k > 0 &&
           (weft_encoding_has_parts((weft_encoding_kind)c->kind) ||
            weft__cpu_streams_blocks(c->kind));
}

/* ---- A and C -------------------------------------------------------------------------------- */

/* A is packed CPU_GEMV_ROWS rows at a time. */
int64_t weft__cpu_stream_floats(const cpu_gemm *g)
{
    const int64_t whole = g->m / CPU_GEMV_ROWS * CPU_GEMV_ROWS;
    const int64_t sums = g->b.codes ? vectors(g->k / LEAST_RUN) : 0;
    return (whole + weft__cpu_gemv_rows((int)(g->m - whole))) * (vectors(g->k) + sums);
}

/* C in float32, if it has another dtype. */
static int64_t floats_of_c(const cpu_gemm *g)
{
    return g->c_dtype == WEFT_FLOAT32 ? 0 : vectors(g->m * g->n);
}

static int64_t workspace_of(const cpu_gemm *g)
{
    return (weft__cpu_stream_floats(g) + floats_of_c(g)) * (int64_t)sizeof(float);
}

static int64_t bound_of(const cpu_gemm *g)
{
    cpu_gemm most = *g;
    most.m = smaller(g->m, g->b.codes ? CPU_GEMV_ROWS : MOST_ROWS);
    return g->streams ? workspace_of(&most) : 0;
}

/* How many rows of A the kernel takes together from `row` on. */
static int rows_at(const cpu_gemm *g, int64_t row)
{
    return (int)smaller(g->m - row, CPU_GEMV_ROWS);
}

cpu_stream weft__cpu_stream_begin(const cpu_gemm *g, float *memory, float *y)
{
    const cpu_kernels *kernels = weft__cpu_kernels();
    const int64_t row_bytes = g->a.row * (int64_t)weft_dtype_size(g->a.dtype);
    for (int64_t row = 0; row < g->m; row += CPU_GEMV_ROWS)
        kernels->gemv_pack(g->a.dtype, rows_at(g, row), g->k,
                           (const char *)g->a.data + row * row_bytes, g->a.row,
                           memory + row * vectors(g->k));
    if (g->b.codes)
        kernels->codes_arrange(g->b.codes, (int)g->m, g->k, memory);
    return (cpu_stream){g, memory, y};
}

/* ---- Rows of B^T ---------------------------------------------------------------------------- */

static void run_rows(const cpu_stream *s, int64_t first, int64_t n)
{
    const cpu_kernels *kernels = weft__cpu_kernels();
    const cpu_gemm *g = s->g;
    if (g->b.codes) {
        kernels->gemv_codes(g->b.codes, (int)g->m, g->k, s->x, first, n, g->bias, s->y, g->n);
        return;
    }
    const int64_t size = (int64_t)weft_dtype_size(g->b.dtype);
    for (int64_t row = 0; row < g->m; row += CPU_GEMV_ROWS)
        kernels->gemv(g->b.dtype, rows_at(g, row), g->k, s->x + row * vectors(g->k),
                      (const char *)g->b.data + first * g->b.column * size, g->b.column, n,
                      g->bias ? g->bias + first : NULL, s->y + row * g->n + first, g->n);
}

/* Items are the rows of all matrices of a list, numbered consecutively. */
static void stream_task(void *context, int64_t begin, int64_t end, int worker)
{
    const cpu_stream *list = context;
    const int64_t all = list->g->n;
    (void)worker;
    while (begin < end) {
        const int64_t row = begin % all, n = smaller(end - begin, all - row);
        run_rows(&list[begin / all], row, n);
        begin += n;
    }
}

void weft__cpu_stream_run(const cpu_stream *list, int n)
{
    const cpu_gemm *g = list->g;
    const cpu_codes *c = g->b.codes;
    const int64_t row_bytes =
        c ? g->k / c->group * c->code_group : g->k * (int64_t)weft_dtype_size(g->b.dtype);
    const int64_t least = c ? 16 << 10 : 32 << 10; /* bytes per task */
    const int64_t chunk = smaller(larger(n * g->n * row_bytes / 16, least), 8 * least);
    const int64_t rows = chunk / row_bytes;
    weft__cpu_parallel(n * g->n, c ? round_up(rows, TOGETHER) : rows, stream_task, (void *)list);
}

static bool run(const cpu_gemm *g, void *workspace)
{
    float *x = workspace;
    const bool own = g->c_dtype != WEFT_FLOAT32;
    const cpu_stream s = weft__cpu_stream_begin(g, x, own ? x + weft__cpu_stream_floats(g) : g->c);
    weft__cpu_stream_run(&s, 1);
    if (own)
        weft__cpu_kernels()->encode(g->c_dtype, s.y, g->c, g->m * g->n);
    return true;
}

const cpu_way weft__cpu_by_stream = {
    .takes = takes, .workspace = workspace_of, .bound = bound_of, .run = run};
