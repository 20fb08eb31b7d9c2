/* backends/cpu/linear.c -- the ops matmul and linear, by the GEMM driver and the GEMV kernels. */
#include <string.h>

#include "backends/cpu/gemm.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/sizes.h"
#include "weft/op_params.h"

enum { LEAST_CHUNK = 32 << 10, LARGEST_CHUNK = 256 << 10 }; /* bytes of weights per task */
enum { STREAM_ROWS = 3 * CPU_GEMV_ROWS }; /* for more rows the GEMM driver is faster */

/* ---- matmul --------------------------------------------------------------------------------- */

static cpu_matrix matrix_of(const weft_tensor *t)
{
    int rank = t->shape.n;
    cpu_matrix x = {.dtype = t->dtype,
                    .data = t->data,
                    .row = t->strides[rank - 2],
                    .column = t->strides[rank - 1]};
    for (int i = 0; i < rank - 2; i++)
        x.batch[i] = t->shape.at[i] == 1 ? 0 : t->strides[i];
    return x;
}

/* Sets the stride of axes of length 1, where any is valid, to 1, which the kernels prefer. */
static void simplify(cpu_gemm *g)
{
    if (g->k == 1)
        g->a.column = g->b.row = 1;
    if (g->m == 1 && g->a.column != 1)
        g->a.row = 1;
    if (g->n == 1 && g->b.row != 1)
        g->b.column = 1;
}

static cpu_gemm gemm_of_matmul(const weft_call *call)
{
    const weft_tensor *a = &call->in[0], *b = &call->in[1], *c = &call->out[0];
    int rank = c->shape.n;
    cpu_gemm g = {.m = c->shape.at[rank - 2],
                  .n = c->shape.at[rank - 1],
                  .k = a->shape.at[rank - 1],
                  .a = matrix_of(a),
                  .b = matrix_of(b),
                  .c_dtype = c->dtype,
                  .c = c->data};
    g.batch.n = rank - 2;
    for (int i = 0; i < rank - 2; i++)
        g.batch.at[i] = c->shape.at[i];
    simplify(&g);
    return g;
}

int64_t weft__cpu_matmul_workspace(const weft_call *call)
{
    cpu_gemm g = gemm_of_matmul(call);
    return weft__cpu_gemm_workspace(&g);
}

weft_status weft__cpu_matmul(const weft_call *call)
{
    cpu_gemm g = gemm_of_matmul(call);
    weft__cpu_gemm(&g, call->workspace);
    return WEFT_OK;
}

/* Whether BLAS accepts the matrix: rows or columns with unit stride that do not overlap. */
static bool blas_layout(const cpu_matrix *x, int64_t rows, int64_t columns)
{
    bool by_rows = x->column == 1 && (rows == 1 || x->row >= columns);
    bool by_columns = x->row == 1 && (columns == 1 || x->column >= rows);
    return by_rows || by_columns;
}

static bool blas_takes(const cpu_gemm *g)
{
    return g->m <= INT32_MAX && g->n <= INT32_MAX && g->k <= INT32_MAX && g->a.row <= INT32_MAX &&
           g->a.column <= INT32_MAX && g->b.row <= INT32_MAX && g->b.column <= INT32_MAX &&
           blas_layout(&g->a, g->m, g->k) && blas_layout(&g->b, g->k, g->n);
}

bool weft__cpu_matmul_double_fits(const weft_call *call)
{
    cpu_gemm g = gemm_of_matmul(call);
    return blas_takes(&g);
}

weft_status weft__cpu_matmul_double(const weft_call *call)
{
    cpu_gemm g = gemm_of_matmul(call);
    weft__cpu_gemm_double(&g);
    return WEFT_OK;
}

/* ---- linear --------------------------------------------------------------------------------- */

bool weft__cpu_linear_fits(const weft_call *call)
{
    int64_t rows, stride;
    for (int i = 0; i < call->n_inputs; i++)
        if (!weft__cpu_narrow(call->in[i].dtype))
            return false;
    return weft__cpu_narrow(call->out[0].dtype) &&
           weft__cpu_row_stride(&call->in[0], &rows, &stride);
}

static cpu_gemm gemm_of_linear(const weft_call *call)
{
    const weft_linear_params *params = call->params;
    const weft_tensor *x = &call->in[0], *w = &call->in[1], *y = &call->out[0];
    int64_t rows, stride;
    weft__cpu_row_stride(x, &rows, &stride);
    int last = x->shape.n - 1;
    cpu_gemm g = {.m = rows,
                  .n = y->shape.at[last],
                  .k = x->shape.at[last],
                  .a = {.dtype = x->dtype, .data = x->data, .row = stride},
                  .b = {.dtype = w->dtype, .data = w->data},
                  .c_dtype = y->dtype,
                  .c = y->data};
    g.a.column = x->strides[last];
    g.b.row = w->strides[params->transposed ? 0 : 1];
    g.b.column = w->strides[params->transposed ? 1 : 0];
    simplify(&g);
    return g;
}

/* With few rows each weight row is read once from memory, in place, and again from the cache for
 * more than CPU_GEMV_ROWS rows. */
static bool streams(const cpu_gemm *g)
{
    return g->m > 0 && g->m <= STREAM_ROWS && g->b.row == 1 && g->a.column == 1 && g->k > 1 &&
           !weft__cpu_few_rows_takes(g);
}

/* The rows written by gemv_pack, CPU_GEMV_ROWS at a time. */
static int64_t packed_rows(const cpu_gemm *g)
{
    const int64_t whole = g->m / CPU_GEMV_ROWS * CPU_GEMV_ROWS;
    return (whole + weft__cpu_gemv_rows(g->m - whole)) * vectors(g->k);
}

typedef struct linear_memory {
    int64_t x, y, bias, total; /* in floats; in this order in the workspace */
} linear_memory;

static linear_memory memory_of(const weft_call *call, const cpu_gemm *g)
{
    linear_memory memory = {0};
    if (streams(g)) {
        memory.x = packed_rows(g);
        memory.y = g->c_dtype == WEFT_FLOAT32 ? 0 : vectors(g->m * g->n);
    }
    memory.bias = call->n_inputs > 2 ? vectors(g->n) : 0;
    memory.total = memory.x + memory.y + memory.bias;
    return memory;
}

int64_t weft__cpu_linear_workspace(const weft_call *call)
{
    cpu_gemm g = gemm_of_linear(call);
    int64_t bytes = memory_of(call, &g).total * (int64_t)sizeof(float);
    return streams(&g) ? bytes : bytes + weft__cpu_gemm_workspace(&g);
}

typedef struct stream {
    const cpu_gemm *g;
    const cpu_kernels *kernels;
    const float *x;
    float *y;
} stream;

/* How many rows the kernel processes together from `row` on. */
static int rows_at(const cpu_gemm *g, int64_t row)
{
    return (int)(g->m - row < CPU_GEMV_ROWS ? g->m - row : CPU_GEMV_ROWS);
}

static void stream_task(void *context, int64_t begin, int64_t end, int worker)
{
    const stream *s = context;
    const cpu_gemm *g = s->g;
    (void)worker;
    const char *w = g->b.data;
    w += begin * g->b.column * (int64_t)weft_dtype_size(g->b.dtype);
    for (int64_t row = 0; row < g->m; row += CPU_GEMV_ROWS)
        s->kernels->gemv(g->b.dtype, rows_at(g, row), g->k, s->x + row * vectors(g->k), w,
                         g->b.column, end - begin, g->bias ? g->bias + begin : NULL,
                         s->y + row * g->n + begin, g->n);
}

static void run_stream(const cpu_gemm *g, float *x, float *y)
{
    const cpu_kernels *kernels = weft__cpu_kernels();
    const int64_t row_size = g->a.row * (int64_t)weft_dtype_size(g->a.dtype);
    for (int64_t row = 0; row < g->m; row += CPU_GEMV_ROWS)
        kernels->gemv_pack(g->a.dtype, rows_at(g, row), g->k,
                           (const char *)g->a.data + row * row_size, g->a.row,
                           x + row * vectors(g->k));
    bool wide = g->c_dtype == WEFT_FLOAT32;
    stream s = {g, kernels, x, wide ? g->c : y};
    int64_t row_bytes = g->k * (int64_t)weft_dtype_size(g->b.dtype);
    int64_t chunk = g->n * row_bytes / 16;
    chunk = chunk < LEAST_CHUNK ? LEAST_CHUNK : chunk > LARGEST_CHUNK ? LARGEST_CHUNK : chunk;
    weft__cpu_parallel(g->n, chunk / row_bytes, stream_task, &s);
    if (!wide)
        kernels->encode(g->c_dtype, y, g->c, g->m * g->n);
}

weft_status weft__cpu_linear(const weft_call *call)
{
    cpu_gemm g = gemm_of_linear(call);
    linear_memory memory = memory_of(call, &g);
    float *x = call->workspace;
    if (memory.bias) {
        float *bias = x + memory.x + memory.y;
        for (int64_t i = 0; i < g.n; i++)
            bias[i] = (float)weft_tensor_get(&call->in[2], i);
        g.bias = bias;
    }
    if (streams(&g))
        run_stream(&g, x, x + memory.x);
    else
        weft__cpu_gemm(&g, x + memory.total);
    return WEFT_OK;
}

/* ---- One product ---------------------------------------------------------------------------- */

int64_t weft__cpu_product_bound(const cpu_gemm *g)
{
    int64_t streamed = STREAM_ROWS * (vectors(g->k) + vectors(g->n)) * (int64_t)sizeof(float);
    int64_t tiles = weft__cpu_gemm_bound(g);
    return streamed > tiles ? streamed : tiles;
}

void weft__cpu_product(const cpu_gemm *g, void *workspace)
{
    cpu_gemm simple = *g;
    simplify(&simple);
    if (streams(&simple)) {
        float *x = workspace;
        run_stream(&simple, x, x + packed_rows(&simple));
    } else {
        weft__cpu_gemm(&simple, workspace);
    }
}

/* ---- linear in float64 ---------------------------------------------------------------------- */

bool weft__cpu_linear_double_fits(const weft_call *call)
{
    int64_t rows, stride;
    if (!weft__cpu_row_stride(&call->in[0], &rows, &stride))
        return false;
    cpu_gemm g = gemm_of_linear(call);
    return blas_takes(&g);
}

weft_status weft__cpu_linear_double(const weft_call *call)
{
    cpu_gemm g = gemm_of_linear(call);
    weft__cpu_gemm_double(&g);
    if (call->n_inputs > 2) {
        const weft_tensor *bias = &call->in[2];
        double *y = g.c;
        for (int64_t i = 0; i < g.m; i++)
            for (int64_t j = 0; j < g.n; j++)
                y[i * g.n + j] += ((const double *)bias->data)[j * bias->strides[0]];
    }
    return WEFT_OK;
}
