/* backends/cpu/gemm.c -- chooses the way to compute a matrix product. */
#include "backends/cpu/gemm.h"

#include "backends/cpu/sizes.h"

/* The first one that takes a product computes it. */
static const cpu_way *const ways[] = {&weft__cpu_by_int8,     &weft__cpu_by_few_rows,
                                      &weft__cpu_by_stream,   &weft__cpu_by_parts,
                                      &weft__cpu_by_decoding, &weft__cpu_by_tiles};
static const int n_ways = sizeof ways / sizeof *ways;

enum { MANY_ROWS = 24 }; /* with more rows, bfloat16 replaces int8 activations where it is faster */

const char *weft__cpu_matrix_item(const cpu_matrix *x, const weft_dims *batch, int64_t index)
{
    int64_t offset = 0;
    for (int axis = batch->n - 1; axis >= 0; axis--) {
        offset += index % batch->at[axis] * x->batch[axis];
        index /= batch->at[axis];
    }
    return (const char *)x->data + offset * (int64_t)weft_dtype_size(x->dtype);
}

static bool is_empty(const cpu_gemm *g)
{
    int64_t size = g->m * g->n;
    for (int i = 0; i < g->batch.n; i++)
        size *= g->batch.at[i];
    return size == 0;
}

static bool takes(const cpu_way *way, const cpu_gemm *g)
{
    return way->takes == NULL || way->takes(g);
}

/* The product as it is computed. The stride of an axis of length 1, where any is valid, is 1, which
 * the kernels prefer. Instead of rounding A to 8 bits, A and B are rounded to bfloat16 where that
 * is faster, and more precise. */
static cpu_gemm prepared(const cpu_gemm *given)
{
    cpu_gemm g = *given;
    if (g.k == 1)
        g.a.column = g.b.row = 1;
    if (g.m == 1 && g.a.column != 1)
        g.a.row = 1;
    if (g.n == 1 && g.b.row != 1)
        g.b.column = 1;
    if (g.int8 && g.b.codes && !g.b.code_terms) {
        cpu_gemm narrow = g;
        narrow.a.parts = narrow.b.parts = 1;
        narrow.int8 = false;
        if (g.m > MANY_ROWS && takes(&weft__cpu_by_parts, &narrow))
            g = narrow;
    }
    return g;
}

/* The index of the way of a prepared product, from `i` on. */
static int way_from(const cpu_gemm *g, int i)
{
    while (!takes(ways[i], g))
        i++;
    return i;
}

const cpu_way *weft__cpu_way_of(const cpu_gemm *g)
{
    const cpu_gemm product = prepared(g);
    return ways[way_from(&product, 0)];
}

int64_t weft__cpu_gemm_workspace(const cpu_gemm *g)
{
    if (is_empty(g))
        return 0;
    const cpu_gemm product = prepared(g);
    int i = way_from(&product, 0);
    int64_t most = ways[i]->workspace(&product);
    while (ways[i]->may_fail) {
        i = way_from(&product, i + 1);
        most = larger(most, ways[i]->workspace(&product));
    }
    return most;
}

int64_t weft__cpu_gemm_bound(const cpu_gemm *g)
{
    int64_t most = 0;
    for (int i = 0; i < n_ways; i++)
        if (ways[i]->bound != NULL)
            most = larger(most, ways[i]->bound(g));
    return most;
}

void weft__cpu_gemm(const cpu_gemm *g, void *workspace)
{
    if (is_empty(g))
        return;
    const cpu_gemm product = prepared(g);
    int i = way_from(&product, 0);
    while (!ways[i]->run(&product, workspace))
        i = way_from(&product, i + 1);
}
