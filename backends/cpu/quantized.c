/* backends/cpu/quantized.c -- products with quantized matrices: linear with an encoded weight,
 * gather_linear and quantized_matmul, by gemm.c. */
#include "backends/cpu/quantized.h"

#include <string.h>

#include "backends/cpu/gemm.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/sizes.h"

enum { BATCH = 16 }; /* products of a few rows that run together */

/* y = x w^T, or x w; w (R, K). */
typedef struct product {
    cpu_codes codes;
    int64_t R, K;
    bool transposed;
    cpu_gemm g; /* without the fields that `gemm_of` sets */
} product;

/* It refers to the codes where they stay. */
static const cpu_gemm *gemm_of(product *p)
{
    cpu_gemm *g = &p->g;
    g->n = p->transposed ? p->R : p->K;
    g->k = p->transposed ? p->K : p->R;
    g->a.column = 1;
    g->b = (cpu_matrix){.dtype = WEFT_FLOAT32,
                        .codes = &p->codes,
                        .code_terms = !p->transposed,
                        .row = p->transposed ? 1 : p->K,
                        .column = p->transposed ? p->K : 1};
    g->streams = true;
    return g;
}

/* ---- linear --------------------------------------------------------------------------------- */

static product product_of_linear(const weft_call *call)
{
    const weft_linear_params *params = call->params;
    const weft_tensor *x = &call->in[0], *w = &call->in[1];
    product p = {.codes = weft__cpu_codes_encoded(w),
                 .R = w->shape.at[0],
                 .K = w->shape.at[1],
                 .transposed = !params->transposed, /* the op's transposition is the opposite */
                 .g = {.a = {.dtype = x->dtype, .data = x->data},
                       .c_dtype = call->out[0].dtype,
                       .c = call->out[0].data,
                       .int8 = params->int8}};
    weft__cpu_row_stride(x, &p.g.m, &p.g.a.row);
    return p;
}

bool weft__cpu_linear_encoded_fits(const weft_call *call)
{
    int64_t rows, stride;
    return call->in[1].encoding && weft__cpu_narrow(call->in[0].dtype) &&
           weft__cpu_narrow(call->out[0].dtype) &&
           (call->n_inputs < 3 || weft_dtype_is_float(call->in[2].dtype)) &&
           weft__cpu_row_stride(&call->in[0], &rows, &stride);
}

int64_t weft__cpu_linear_encoded_workspace(const weft_call *call)
{
    product p = product_of_linear(call);
    const cpu_gemm *g = gemm_of(&p);
    return weft__cpu_bias_floats(call, g->n) * (int64_t)sizeof(float) + weft__cpu_gemm_workspace(g);
}

weft_status weft__cpu_linear_encoded(const weft_call *call)
{
    product p = product_of_linear(call);
    float *memory = call->workspace;
    const cpu_gemm *g = gemm_of(&p);
    p.g.bias = weft__cpu_read_bias(call, g->n, memory);
    weft__cpu_gemm(g, memory + weft__cpu_bias_floats(call, g->n));
    return WEFT_OK;
}

/* Index j of a list, or a failure. */
static weft_status index_at(const weft_call *call, int i, int64_t j, int64_t limit, int64_t *out)
{
    int64_t index = weft_tensor_get_int(&call->in[i], j);
    *out = index < 0 && call->in[i].dtype != WEFT_UINT64 ? index + limit : index;
    return *out >= 0 && *out < limit
               ? WEFT_OK
               : weft_fail(WEFT_INVALID, "%s: index %lld is out of range for an axis of size %lld",
                           call->op->name, (long long)index, (long long)limit);
}

/* ---- gather_linear -------------------------------------------------------------------------- */

/* `m` rows at x times matrix `index` of the weight. */
static product product_of_choice(const weft_call *call, int64_t index, int64_t m, void *x, void *y)
{
    const weft_tensor *w = &call->in[1];
    product p = {.codes = weft__cpu_codes_encoded(w),
                 .R = w->shape.at[1],
                 .K = w->shape.at[2],
                 .transposed = true,
                 .g = {.m = m,
                       .a = {.dtype = call->in[0].dtype, .data = x, .row = w->shape.at[2]},
                       .c_dtype = call->in[0].dtype,
                       .c = y}};
    if (p.codes.scales) {
        const int64_t bytes = index * p.R * p.codes.code_row;
        p.codes.scales += bytes;
        p.codes.codes += bytes;
        p.codes.biases += bytes;
    }
    return p;
}

bool weft__cpu_gather_encoded_fits(const weft_call *call)
{
    return call->in[1].encoding && weft__cpu_narrow(call->in[0].dtype) &&
           weft_tensor_is_contiguous(&call->in[0]);
}

static bool streams(const cpu_gemm *g)
{
    return weft__cpu_way_of(g) == &weft__cpu_by_stream;
}

/* Bytes of the workspace: start of each matrix's items, the items by matrix, their rows, results,
 * and one product or a batch of streamed products, of which each has so many floats. */
typedef struct choice_memory {
    int64_t first, order, x, y, products, each;
} choice_memory;

static choice_memory memory_of_choice(const weft_call *call)
{
    const int64_t items = weft_tensor_size(&call->in[3]), B = call->in[1].shape.at[0];
    product most = product_of_choice(call, 0, items, NULL, NULL);
    cpu_gemm few = *gemm_of(&most);
    const int64_t single = weft__cpu_gemm_bound(&few);
    few.m = smaller(items, CPU_GEMV_ROWS);
    while (few.m > 1 && !streams(&few))
        few.m--; /* the most rows that are streamed */
    const int64_t each = streams(&few) ? weft__cpu_stream_floats(&few) : 0;
    const int64_t streamed = smaller(items, BATCH) * each * (int64_t)sizeof(float);
    return (choice_memory){
        .first = vectors(B + 1) * (int64_t)sizeof(int64_t),
        .order = vectors(items) * (int64_t)sizeof(int64_t),
        .x = vectors(items * most.K) * (int64_t)sizeof(float),
        .y = vectors(items * most.R) * (int64_t)sizeof(float),
        .products = larger(streamed, single),
        .each = each,
    };
}

int64_t weft__cpu_gather_encoded_workspace(const weft_call *call)
{
    const choice_memory m = memory_of_choice(call);
    return m.first + m.order + m.x + m.y + m.products;
}

/* Sorts the items by matrix: those of matrix e are order[first[e]] to order[first[e + 1]], in their
 * original order. */
static weft_status sort_items(const weft_call *call, int64_t *first, int64_t *order)
{
    const int64_t items = weft_tensor_size(&call->in[3]), B = call->in[1].shape.at[0];
    int64_t row, id;
    memset(first, 0, (size_t)(B + 1) * sizeof *first);
    for (int64_t i = 0; i < items; i++) {
        weft_status status = index_at(call, 2, i, call->in[0].shape.at[0], &row);
        if (status == WEFT_OK)
            status = index_at(call, 3, i, B, &id);
        if (status != WEFT_OK)
            return status;
        first[id + 1]++;
    }
    for (int64_t e = 0; e < B; e++)
        first[e + 1] += first[e];
    /* first[e] becomes the end of e's items, which is the start of e + 1's. */
    for (int64_t i = 0; i < items; i++) {
        index_at(call, 3, i, B, &id);
        order[first[id]++] = i;
    }
    memmove(first + 1, first, (size_t)B * sizeof *first);
    first[0] = 0;
    return WEFT_OK;
}

typedef struct choice {
    const weft_call *call;
    const int64_t *order; /* of the items */
    char *x;              /* a row for each item, in that order */
    float *y;             /* and a result */
    float *products;
    int64_t each;
    /* Products that are collected to run together. */
    product waiting[BATCH];
    int64_t begins[BATCH]; /* their first items */
    int n;
} choice;

/* The product of matrix e with the gathered rows of items [begin, end). */
static product product_of_items(const choice *c, int64_t e, int64_t begin, int64_t end)
{
    const weft_tensor *x = &c->call->in[0];
    const int64_t K = x->shape.at[1], A = x->shape.at[0];
    const int64_t bytes = K * (int64_t)weft_dtype_size(x->dtype);
    char *rows = c->x + begin * bytes;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = weft_tensor_get_int(&c->call->in[2], c->order[i]);
        memcpy(rows + (i - begin) * bytes,
               (const char *)x->data + (row < 0 ? row + A : row) * bytes, (size_t)bytes);
    }
    float *y = c->y + begin * c->call->in[1].shape.at[1];
    return product_of_choice(c->call, e, end - begin, rows, y);
}

/* Copies results of the product whose first item is `begin`, in float32 or in the dtype of y, to
 * their positions. */
static void put_results(const choice *c, const product *p, int64_t begin, weft_dtype from)
{
    const weft_dtype dtype = p->g.c_dtype;
    const int64_t size = (int64_t)weft_dtype_size(dtype);
    const int64_t step = p->R * (int64_t)weft_dtype_size(from);
    for (int64_t i = 0; i < p->g.m; i++) {
        char *to = (char *)c->call->out[0].data + c->order[begin + i] * p->R * size;
        const char *y = (const char *)p->g.c + i * step;
        if (from == dtype)
            memcpy(to, y, (size_t)step);
        else
            weft__cpu_kernels()->encode(dtype, (const float *)(const void *)y, to, p->R);
    }
}

static void run_waiting(choice *c)
{
    cpu_stream list[BATCH];
    for (int i = 0; i < c->n; i++)
        list[i] = weft__cpu_stream_begin(gemm_of(&c->waiting[i]), c->products + i * c->each,
                                         c->waiting[i].g.c);
    if (c->n > 0)
        weft__cpu_stream_run(list, c->n);
    for (int i = 0; i < c->n; i++)
        put_results(c, &c->waiting[i], c->begins[i], WEFT_FLOAT32);
    c->n = 0;
}

/* Products with few rows are small, so they are collected and run together. */
static void run_choice(choice *c, int64_t e, int64_t begin, int64_t end)
{
    product p = product_of_items(c, e, begin, end);
    if (streams(gemm_of(&p))) {
        c->waiting[c->n] = p;
        c->begins[c->n++] = begin;
        if (c->n == BATCH)
            run_waiting(c);
        return;
    }
    run_waiting(c); /* they use the same memory */
    weft__cpu_gemm(gemm_of(&p), c->products);
    put_results(c, &p, begin, p.g.c_dtype);
}

weft_status weft__cpu_gather_encoded(const weft_call *call)
{
    const choice_memory m = memory_of_choice(call);
    char *memory = call->workspace;
    int64_t *first = (int64_t *)(void *)memory, *order = (int64_t *)(void *)(memory + m.first);
    const weft_status status = sort_items(call, first, order);
    if (status != WEFT_OK || weft_tensor_size(&call->out[0]) == 0)
        return status;
    choice c = {.call = call, .order = order, .each = m.each};
    c.x = memory + m.first + m.order;
    c.y = (float *)(void *)(c.x + m.x);
    c.products = (float *)(void *)(c.x + m.x + m.y);
    for (int64_t e = 0; e < call->in[1].shape.at[0]; e++) {
        if (first[e] < first[e + 1])
            run_choice(&c, e, first[e], first[e + 1]);
    }
    run_waiting(&c);
    return WEFT_OK;
}

/* ---- quantized_matmul ----------------------------------------------------------------------- */

/* The product of matrix `lhs` of x with matrix `rhs` of w. */
static product pair(const weft_call *call, int64_t j, int64_t lhs, int64_t rhs)
{
    const weft_quantized_params *params = call->params;
    const weft_tensor *x = &call->in[0], *y = &call->out[0], *scales = &call->in[2];
    const int64_t M = x->shape.at[1], T = x->shape.at[2], C = y->shape.at[2];
    const int64_t size = (int64_t)weft_dtype_size(x->dtype);
    return (product){
        .codes = weft__cpu_codes_apart(params, call->in + 1, rhs),
        .R = scales->shape.at[1],
        .K = scales->shape.at[2] * params->group,
        .transposed = params->transposed,
        .g = {.m = M,
              .a = {.dtype = x->dtype,
                    .data = x->data ? (const char *)x->data + lhs * M * T * size : NULL,
                    .row = T},
              .c_dtype = x->dtype,
              .c = y->data ? (char *)y->data + j * M * C * size : NULL}};
}

bool weft__cpu_quantized_matmul_fits(const weft_call *call)
{
    const weft_quantized_params *params = call->params;
    return weft__cpu_narrow(call->in[0].dtype) &&
           (params->mode != WEFT_ENCODING_AFFINE || weft__cpu_narrow(call->in[2].dtype));
}

int64_t weft__cpu_quantized_matmul_workspace(const weft_call *call)
{
    product p = pair(call, 0, 0, 0);
    return weft__cpu_gemm_workspace(gemm_of(&p));
}

weft_status weft__cpu_quantized_matmul(const weft_call *call)
{
    const weft_quantized_params *params = call->params;
    const int64_t J = call->out[0].shape.at[0], Bx = call->in[0].shape.at[0];
    const int64_t Bw = call->in[2].shape.at[0];
    const int next = call->n_inputs - 2;
    for (int64_t j = 0; j < J; j++) {
        int64_t lhs = j, rhs = Bw == 1 ? 0 : j;
        if (params->gathered) {
            weft_status status = index_at(call, next, j, Bx, &lhs);
            status = status == WEFT_OK ? index_at(call, next + 1, j, Bw, &rhs) : status;
            if (status != WEFT_OK)
                return status;
        }
        product p = pair(call, j, lhs, rhs);
        weft__cpu_gemm(gemm_of(&p), call->workspace);
    }
    return WEFT_OK;
}
