/* backends/cpu/gemm_double.c -- float64 products: the pool runs tiles, each by OpenBLAS. */
#include <cblas.h>
#include <pthread.h>

#include "backends/cpu/gemm.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/sizes.h"

enum { TILE_ROWS = 128, TILE_COLUMNS = 256 };

/* OpenBLAS has one number of threads for the whole process, which may use it for itself: the calls
 * that overlap share the change. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int calls, others;

void weft__cpu_blas_begin(void)
{
    pthread_mutex_lock(&lock);
    if (calls++ == 0) {
        others = openblas_get_num_threads();
        if (others != 1)
            openblas_set_num_threads(1);
    }
    pthread_mutex_unlock(&lock);
}

void weft__cpu_blas_end(void)
{
    pthread_mutex_lock(&lock);
    if (--calls == 0 && others != 1)
        openblas_set_num_threads(others);
    pthread_mutex_unlock(&lock);
}

static const double *data_of(const cpu_matrix *x, const weft_dims *batch, int64_t index)
{
    int64_t offset = 0;
    for (int axis = batch->n - 1; axis >= 0; axis--) {
        offset += index % batch->at[axis] * x->batch[axis];
        index /= batch->at[axis];
    }
    return (const double *)x->data + offset;
}

static void zero_tile(double *c, int64_t m, int64_t n, int64_t c_row)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            c[i * c_row + j] = 0;
}

static void tile_task(void *context, int64_t begin, int64_t end, int worker)
{
    const cpu_gemm *g = context;
    (void)worker;
    const int64_t tiles_m = (g->m + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t tiles_n = (g->n + TILE_COLUMNS - 1) / TILE_COLUMNS;
    for (int64_t i = begin; i < end; i++) {
        int64_t batch = i / (tiles_m * tiles_n);
        int64_t row = i / tiles_n % tiles_m * TILE_ROWS, column = i % tiles_n * TILE_COLUMNS;
        int64_t m = g->m - row < TILE_ROWS ? g->m - row : TILE_ROWS;
        int64_t n = g->n - column < TILE_COLUMNS ? g->n - column : TILE_COLUMNS;
        double *c = (double *)g->c + (batch * g->m + row) * g->n + column;
        if (g->k == 0) {
            zero_tile(c, m, n, g->n);
            continue;
        }
        const double *a = data_of(&g->a, &g->batch, batch) + row * g->a.row;
        const double *b = data_of(&g->b, &g->batch, batch) + column * g->b.column;
        bool a_plain = g->a.column == 1 && (g->m == 1 || g->a.row >= g->k);
        bool b_plain = g->b.column == 1 && (g->k == 1 || g->b.row >= g->n);
        /* BLAS checks the row stride even if there is one row. */
        int64_t lda = a_plain ? larger(g->a.row, g->k) : larger(g->a.column, g->m);
        int64_t ldb = b_plain ? larger(g->b.row, g->n) : larger(g->b.column, g->k);
        cblas_dgemm(CblasRowMajor, a_plain ? CblasNoTrans : CblasTrans,
                    b_plain ? CblasNoTrans : CblasTrans, (int)m, (int)n, (int)g->k, 1, a, (int)lda,
                    b, (int)ldb, 0, c, (int)g->n);
    }
}

void weft__cpu_gemm_double(const cpu_gemm *g)
{
    int64_t tiles = (g->m + TILE_ROWS - 1) / TILE_ROWS * ((g->n + TILE_COLUMNS - 1) / TILE_COLUMNS);
    for (int i = 0; i < g->batch.n; i++)
        tiles *= g->batch.at[i];
    weft__cpu_blas_begin();
    weft__cpu_parallel(tiles, 1, tile_task, (void *)g);
    weft__cpu_blas_end();
}
