/* backends/cpu/gather_mm.c -- products of selected matrices: one product for all rows with the same
 * matrix; and the sums over segments and of gradients. */
#include <string.h>

#include "backends/cpu/gemm.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/sizes.h"
#include "weft/op_params.h"

enum { GATHERED = 4 << 20 /* most elements of the rows gathered for one product */ };

bool weft__cpu_chosen_fits(const weft_call *call)
{
    return weft__cpu_narrow(call->out[0].dtype);
}

/* ---- Items sorted by their matrix ------------------------------------------------------------ */

/* Item i selects matrix lhs[i] of a. The items of matrix e of b are order[first[e] .. first[e+1]),
 * in their original order. */
typedef struct groups {
    int64_t *lhs, *order, *first;
} groups;

static int64_t groups_bytes(int64_t items, int64_t matrices)
{
    return (2 * items + matrices + 2) * (int64_t)sizeof(int64_t);
}

static weft_status index_at(const weft_call *call, int input, int64_t i, int64_t length,
                            int64_t *out)
{
    const weft_tensor *indices = &call->in[input];
    int64_t index = weft_tensor_get_int(indices, i);
    *out = index < 0 && indices->dtype != WEFT_UINT64 ? index + length : index;
    if (*out < 0 || *out >= length)
        return weft_fail(WEFT_INVALID, "%s: index %lld is out of range for an axis of size %lld",
                         call->op->name, (long long)index, (long long)length);
    return WEFT_OK;
}

static weft_status group_items(const weft_call *call, int64_t matrices, int64_t *memory, groups *g)
{
    int64_t items = weft_tensor_size(&call->in[3]), rhs;
    *g = (groups){memory, memory + items, memory + 2 * items};
    memset(g->first, 0, (size_t)(matrices + 2) * sizeof *g->first);
    for (int64_t i = 0; i < items; i++) {
        weft_status status = index_at(call, 2, i, call->in[0].shape.at[0], &g->lhs[i]);
        status = status == WEFT_OK ? index_at(call, 3, i, matrices, &rhs) : status;
        if (status != WEFT_OK)
            return status;
        g->first[rhs + 2]++;
    }
    for (int64_t e = 0; e < matrices; e++)
        g->first[e + 2] += g->first[e + 1];
    for (int64_t i = 0; i < items; i++) { /* afterwards first[e + 1] is the start of e + 1 */
        index_at(call, 3, i, matrices, &rhs);
        g->order[g->first[rhs + 1]++] = i;
    }
    return WEFT_OK;
}

static const char *matrix_at(const weft_tensor *t, int64_t i)
{
    return (const char *)t->data + i * t->strides[0] * (int64_t)weft_dtype_size(t->dtype);
}

/* Copies the rows of matrix i, contiguously. */
static void copy_matrix(const weft_tensor *t, int64_t i, char *to)
{
    int64_t R = t->shape.at[1], C = t->shape.at[2], size = (int64_t)weft_dtype_size(t->dtype);
    const char *from = matrix_at(t, i);
    for (int64_t r = 0; r < R; r++) {
        if (t->strides[2] == 1 || C == 1) {
            memcpy(to + r * C * size, from + r * t->strides[1] * size, (size_t)(C * size));
            continue;
        }
        for (int64_t c = 0; c < C; c++)
            memcpy(to + (r * C + c) * size, from + (r * t->strides[1] + c * t->strides[2]) * size,
                   (size_t)size);
    }
}

/* ---- gather_mm ------------------------------------------------------------------------------ */

typedef struct gather {
    const weft_call *call;
    int64_t M, K, N, items; /* items: most per product */
    char *a, *c;            /* gathered rows, and their products */
    void *memory;           /* of the product */
} gather;

static void sizes_of(const weft_call *call, gather *g)
{
    const weft_tensor *a = &call->in[0], *b = &call->in[1];
    int64_t all = weft_tensor_size(&call->in[2]);
    *g = (gather){.call = call, .M = a->shape.at[1], .K = a->shape.at[2], .N = b->shape.at[2]};
    g->items = smaller(all, larger(GATHERED / larger(g->M * larger(g->K, g->N), 1), 1));
}

static cpu_gemm product_of(const gather *g, int64_t items, int64_t matrix)
{
    const weft_tensor *b = &g->call->in[1];
    cpu_gemm product = {.m = items * g->M,
                        .n = g->N,
                        .k = g->K,
                        .a = {g->call->in[0].dtype, g->a, .row = g->K, .column = 1},
                        .b = {b->dtype, b->data ? matrix_at(b, matrix) : NULL, .row = b->strides[1],
                              .column = b->strides[2]},
                        .c_dtype = g->call->out[0].dtype,
                        .c = g->c,
                        .streams = true};
    return product;
}

static int64_t element_bytes(int64_t elements)
{
    return vectors(elements) * (int64_t)sizeof(float);
}

int64_t weft__cpu_gather_mm_workspace(const weft_call *call)
{
    gather g;
    sizes_of(call, &g);
    int64_t product = 0, items = weft_tensor_size(&call->in[2]);
    cpu_gemm largest = product_of(&g, g.items, 0);
    product = weft__cpu_gemm_bound(&largest);
    return vectors(groups_bytes(items, call->in[1].shape.at[0])) +
           element_bytes(g.items * g.M * g.K) + element_bytes(g.items * g.M * g.N) + product;
}

/* Computes `n` items with the same matrix. */
static void run_items(const gather *g, const int64_t *lhs, const int64_t *items, int64_t n,
                      int64_t matrix)
{
    const weft_tensor *a = &g->call->in[0], *out = &g->call->out[0];
    int64_t size = (int64_t)weft_dtype_size(a->dtype), bytes = g->M * g->N * size;
    for (int64_t i = 0; i < n; i++)
        copy_matrix(a, lhs[items[i]], g->a + i * g->M * g->K * size);
    cpu_gemm product = product_of(g, n, matrix);
    bool dense = items[n - 1] - items[0] == n - 1; /* they are consecutive */
    if (dense)
        product.c = (char *)out->data + items[0] * bytes;
    weft__cpu_gemm(&product, g->memory);
    for (int64_t i = 0; !dense && i < n; i++)
        memcpy((char *)out->data + items[i] * bytes, g->c + i * bytes, (size_t)bytes);
}

weft_status weft__cpu_gather_mm(const weft_call *call)
{
    gather g;
    groups by;
    sizes_of(call, &g);
    int64_t items = weft_tensor_size(&call->in[2]), matrices = call->in[1].shape.at[0];
    weft_status status = group_items(call, matrices, call->workspace, &by);
    if (status != WEFT_OK || weft_tensor_size(&call->out[0]) == 0)
        return status;
    g.a = (char *)call->workspace + vectors(groups_bytes(items, matrices));
    g.c = g.a + element_bytes(g.items * g.M * g.K);
    g.memory = g.c + element_bytes(g.items * g.M * g.N);
    for (int64_t e = 0; e < matrices; e++) {
        int64_t end = by.first[e + 1];
        for (int64_t i = by.first[e]; i < end; i += g.items)
            run_items(&g, by.lhs, by.order + i, smaller(g.items, end - i), e);
    }
    return WEFT_OK;
}

/* ---- gather_mm_sums ------------------------------------------------------------------------- */

/* dW = A^T C over all rows of a matrix's items. */
static cpu_gemm sums_product(const weft_call *call, int64_t items, char *a, char *c)
{
    const weft_tensor *ct = &call->in[1], *out = &call->out[0];
    int64_t K = out->shape.at[1], N = out->shape.at[2];
    return (cpu_gemm){.m = K,
                      .n = N,
                      .k = items * ct->shape.at[1],
                      .a = {ct->dtype, a, .row = 1, .column = K},
                      .b = {ct->dtype, c, .row = N, .column = 1},
                      .c_dtype = out->dtype,
                      .c = out->data,
                      .streams = true};
}

int64_t weft__cpu_gather_mm_sums_workspace(const weft_call *call)
{
    const weft_tensor *out = &call->out[0];
    int64_t items = weft_tensor_size(&call->in[2]), rows = items * call->in[1].shape.at[1];
    cpu_gemm largest = sums_product(call, items, NULL, NULL);
    return vectors(groups_bytes(items, out->shape.at[0])) + element_bytes(rows * out->shape.at[1]) +
           element_bytes(rows * out->shape.at[2]) + weft__cpu_gemm_bound(&largest);
}

weft_status weft__cpu_gather_mm_sums(const weft_call *call)
{
    const weft_tensor *a = &call->in[0], *ct = &call->in[1], *out = &call->out[0];
    int64_t items = weft_tensor_size(&call->in[2]), matrices = out->shape.at[0];
    int64_t M = ct->shape.at[1], K = out->shape.at[1], N = out->shape.at[2];
    int64_t size = (int64_t)weft_dtype_size(out->dtype);
    groups by;
    weft_status status = group_items(call, matrices, call->workspace, &by);
    if (status != WEFT_OK || weft_tensor_size(out) == 0)
        return status;
    char *left = (char *)call->workspace + vectors(groups_bytes(items, matrices));
    char *right = left + element_bytes(items * M * K);
    void *memory = right + element_bytes(items * M * N);
    for (int64_t e = 0; e < matrices; e++) {
        int64_t n = by.first[e + 1] - by.first[e];
        for (int64_t i = 0; i < n; i++) {
            int64_t item = by.order[by.first[e] + i];
            copy_matrix(a, by.lhs[item], left + i * M * K * size);
            copy_matrix(ct, item, right + i * M * N * size);
        }
        cpu_gemm product = sums_product(call, n, left, right);
        product.c = (char *)out->data + e * K * N * size;
        if (n * M == 0)
            memset(product.c, 0, (size_t)(K * N * size));
        else
            weft__cpu_gemm(&product, memory);
    }
    return WEFT_OK;
}

/* ---- segmented_mm --------------------------------------------------------------------------- */

static int64_t last_dim(const weft_tensor *t)
{
    return t->shape.at[t->shape.n - 1];
}

static cpu_gemm segment_product(const weft_call *call, int64_t batch, int64_t first, int64_t end)
{
    const weft_tensor *a = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    int rank = a->shape.n;
    int64_t size = (int64_t)weft_dtype_size(a->dtype);
    int64_t a_matrix = a->shape.at[rank - 2] * a->shape.at[rank - 1];
    int64_t b_matrix = b->shape.at[rank - 2] * b->shape.at[rank - 1];
    cpu_gemm g = {
        .m = a->shape.at[rank - 2],
        .n = b->shape.at[rank - 1],
        .k = end - first,
        .a = {.dtype = a->dtype, .row = a->strides[rank - 2], .column = a->strides[rank - 1]},
        .b = {.dtype = b->dtype, .row = b->strides[rank - 2], .column = b->strides[rank - 1]},
        .c_dtype = out->dtype,
        .streams = true};
    if (a->data && b->data && a_matrix > 0 && b_matrix > 0) {
        int64_t a_at = weft_tensor_offset(a, batch * a_matrix) + first * g.a.column;
        int64_t b_at = weft_tensor_offset(b, batch * b_matrix) + first * g.b.row;
        g.a.data = (const char *)a->data + a_at * size;
        g.b.data = (const char *)b->data + b_at * size;
    }
    return g;
}

int64_t weft__cpu_segmented_mm_workspace(const weft_call *call)
{
    cpu_gemm largest = segment_product(call, 0, 0, last_dim(&call->in[0]));
    return weft__cpu_gemm_bound(&largest);
}

weft_status weft__cpu_segmented_mm(const weft_call *call)
{
    const weft_tensor *segments = &call->in[2], *out = &call->out[0];
    int rank = segments->shape.n;
    int64_t S = segments->shape.at[rank - 2], K = last_dim(&call->in[0]);
    int64_t count = weft_tensor_size(segments) / 2, size = (int64_t)weft_dtype_size(out->dtype);
    for (int64_t i = 0; i < count; i++) {
        int64_t first = weft_tensor_get_int(segments, 2 * i);
        int64_t end = weft_tensor_get_int(segments, 2 * i + 1);
        if (first < 0 || end > K || first > K || end < 0)
            return weft_fail(WEFT_INVALID, "%s: segment [%lld, %lld) of %lld terms", call->op->name,
                             (long long)first, (long long)end, (long long)K);
        cpu_gemm g = segment_product(call, i / S, first, end);
        g.c = (char *)out->data + i * g.m * g.n * size;
        if (end <= first)
            memset(g.c, 0, (size_t)(g.m * g.n * size));
        else
            weft__cpu_gemm(&g, call->workspace);
    }
    return WEFT_OK;
}
