/* backends/cpu/quantized.c -- products with quantized matrices: linear with an encoded weight, and
 * quantized_matmul. With a few rows the codes are streamed once; with more the GEMM driver decodes
 * while packing or, if x may be rounded, int8.c is used. */
#include "backends/cpu/quantized.h"

#include <string.h>

#include "backends/cpu/gemm.h"
#include "backends/cpu/int8.h"
#include "backends/cpu/isa/blocks.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/sizes.h"

enum { BATCH = 16 };     /* products of a few rows that run together */
enum { LEAST_RUN = 32 }; /* terms of which codes_arrange writes a sum, at least */
enum { TOGETHER = 12 };  /* kernels read 2, 3 or 4 rows together */
enum { LEAST_CHUNK = 16 << 10, LARGEST_CHUNK = 128 << 10 }; /* bytes of codes per task */

/* y = x w^T (+ bias), or x w; w (R, K). */
typedef struct product {
    cpu_codes codes;
    int64_t m, R, K;
    bool transposed, int8; /* int8: x may be rounded to 8 bits */
    weft_dtype dtype, y_dtype;
    const char *x;
    int64_t x_row; /* elements */
    void *y;
    const float *bias;
} product;

static cpu_gemm gemm_of(const product *p)
{
    return (cpu_gemm){.m = p->m,
                      .n = p->transposed ? p->R : p->K,
                      .k = p->transposed ? p->K : p->R,
                      .a = {.dtype = p->dtype, .data = p->x, .row = p->x_row, .column = 1},
                      .b = {.dtype = WEFT_FLOAT32,
                            .codes = &p->codes,
                            .code_terms = !p->transposed,
                            .row = p->transposed ? 1 : p->K,
                            .column = p->transposed ? p->K : 1},
                      .c_dtype = p->y_dtype,
                      .c = p->y,
                      .bias = p->bias};
}

/* ---- Few rows ------------------------------------------------------------------------------- */

static bool streams(const product *p)
{
    const cpu_gemm g = gemm_of(p);
    return !weft__cpu_few_rows_takes(&g) && p->transposed && p->m > 0 && p->m <= CPU_GEMV_ROWS &&
           p->K > 0 &&
           (weft_encoding_has_parts((weft_encoding_kind)p->codes.kind) ||
            weft__cpu_streams_blocks(p->codes.kind));
}

/* Floats of workspace: packed x, and y unless it is float32. */
typedef struct stream_memory {
    int64_t x, y, total;
} stream_memory;

static stream_memory memory_of(const product *p)
{
    const int64_t rows = weft__cpu_gemv_rows((int)p->m);
    stream_memory m = {.x = rows * (vectors(p->K) + vectors(p->K / LEAST_RUN)),
                       .y = p->y_dtype == WEFT_FLOAT32 ? 0 : vectors(p->m * p->R)};
    m.total = m.x + m.y;
    return m;
}

typedef struct stream {
    const product *p;
    const cpu_kernels *kernels;
    const float *x;
    float *y;
} stream;

/* With x packed at `memory`; `y` is float32. */
static stream stream_of(const product *p, float *memory, float *y)
{
    const cpu_kernels *kernels = weft__cpu_kernels();
    kernels->gemv_pack(p->dtype, (int)p->m, p->K, p->x, p->x_row, memory);
    kernels->codes_arrange(&p->codes, (int)p->m, p->K, memory);
    return (stream){p, kernels, memory, y};
}

/* Computes rows of all matrices of a list, numbered consecutively. */
static void stream_task(void *context, int64_t begin, int64_t end, int worker)
{
    const stream *list = context;
    const int64_t R = list->p->R;
    (void)worker;
    while (begin < end) {
        const stream *s = &list[begin / R];
        const product *p = s->p;
        const int64_t row = begin % R, n = end - begin < R - row ? end - begin : R - row;
        s->kernels->gemv_codes(&p->codes, (int)p->m, p->K, s->x, row, n, p->bias, s->y, R);
        begin += n;
    }
}

/* Runs n products with matrices of one shape. */
static void run_streams(const stream *list, int n)
{
    const product *p = list->p;
    const int64_t row_bytes = p->K / p->codes.group * p->codes.code_group;
    int64_t chunk = n * p->R * row_bytes / 16;
    chunk = chunk < LEAST_CHUNK ? LEAST_CHUNK : chunk > LARGEST_CHUNK ? LARGEST_CHUNK : chunk;
    const int64_t rows = (chunk / row_bytes + TOGETHER - 1) / TOGETHER * TOGETHER;
    weft__cpu_parallel(n * p->R, rows, stream_task, (void *)list);
}

static void run_stream(const product *p, float *memory)
{
    const stream_memory m = memory_of(p);
    const stream s = stream_of(p, memory, p->y_dtype == WEFT_FLOAT32 ? p->y : memory + m.x);
    run_streams(&s, 1);
    if (p->y_dtype != WEFT_FLOAT32)
        s.kernels->encode(p->y_dtype, s.y, p->y, p->m * p->R);
}

/* ---- One product ---------------------------------------------------------------------------- */

static cpu_int8 int8_of(const product *p)
{
    return (cpu_int8){.m = p->m,
                      .n = p->R,
                      .k = p->K,
                      .codes = &p->codes,
                      .dtype = p->dtype,
                      .x = p->x,
                      .x_row = p->x_row,
                      .y = p->y,
                      .bias = p->bias};
}

/* The product with x and the weights rounded to bfloat16. */
static cpu_gemm bfloat16_of(const product *p)
{
    cpu_gemm g = gemm_of(p);
    g.a.parts = g.b.parts = 1;
    return g;
}

/* Whether that replaces rounding x to 8 bits: matrix instructions are faster, and more precise. */
static bool by_bfloat16(const product *p)
{
    const cpu_gemm g = bfloat16_of(p);
    return p->int8 && p->transposed && p->m > CPU_GEMV_ROWS && !weft__cpu_few_rows_takes(&g) &&
           weft__cpu_parts_takes(&g);
}

static bool rounds(const product *p)
{
    return p->int8 && p->transposed && p->y_dtype == p->dtype && !by_bfloat16(p) &&
           weft__cpu_int8_takes(p->m, &p->codes);
}

static int64_t product_workspace(const product *p)
{
    const cpu_gemm g = by_bfloat16(p) ? bfloat16_of(p) : gemm_of(p);
    const cpu_int8 q = int8_of(p);
    return rounds(p)    ? weft__cpu_int8_workspace(&q)
           : streams(p) ? memory_of(p).total * (int64_t)sizeof(float)
                        : weft__cpu_gemm_workspace(&g);
}

static void run_product(const product *p, float *memory)
{
    const cpu_gemm g = by_bfloat16(p) ? bfloat16_of(p) : gemm_of(p);
    const cpu_int8 q = int8_of(p);
    if (rounds(p))
        weft__cpu_int8(&q, memory);
    else if (streams(p))
        run_stream(p, memory);
    else
        weft__cpu_gemm(&g, memory);
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
                 .int8 = params->int8,
                 .dtype = x->dtype,
                 .y_dtype = call->out[0].dtype,
                 .x = x->data,
                 .y = call->out[0].data};
    weft__cpu_row_stride(x, &p.m, &p.x_row);
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
    int64_t bias = call->n_inputs > 2 ? vectors(p.R) : 0;
    return bias * (int64_t)sizeof(float) + product_workspace(&p);
}

weft_status weft__cpu_linear_encoded(const weft_call *call)
{
    product p = product_of_linear(call);
    float *memory = call->workspace;
    if (call->n_inputs > 2) {
        for (int64_t i = 0; i < p.R; i++)
            memory[i] = (float)weft_tensor_get(&call->in[2], i);
        p.bias = memory;
        memory += vectors(p.R);
    }
    run_product(&p, memory);
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
                 .m = m,
                 .R = w->shape.at[1],
                 .K = w->shape.at[2],
                 .transposed = true,
                 .dtype = call->in[0].dtype,
                 .y_dtype = call->in[0].dtype,
                 .x = x,
                 .x_row = w->shape.at[2],
                 .y = y};
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

/* Bytes of the workspace: start of each matrix's items, the items by matrix, their rows, results,
 * and one product or a batch of streamed products. */
typedef struct choice_memory {
    int64_t first, order, x, y, products, each;
} choice_memory;

static choice_memory memory_of_choice(const weft_call *call)
{
    const int64_t items = weft_tensor_size(&call->in[3]), B = call->in[1].shape.at[0];
    const product most = product_of_choice(call, 0, items, NULL, NULL);
    product few = most;
    few.m = items < CPU_GEMV_ROWS ? items : CPU_GEMV_ROWS;
    while (few.m > 1 && !streams(&few))
        few.m--; /* the most rows that are streamed */
    const cpu_gemm g = gemm_of(&most);
    const stream_memory s = memory_of(&few);
    const int64_t batch = items < BATCH ? items : BATCH, each = s.x;
    const int64_t streamed = streams(&few) ? batch * each * (int64_t)sizeof(float) : 0;
    const int64_t one = product_workspace(&few), tiles = weft__cpu_gemm_bound(&g);
    const int64_t single = one > tiles ? one : tiles;
    return (choice_memory){
        .first = vectors(B + 1) * (int64_t)sizeof(int64_t),
        .order = vectors(items) * (int64_t)sizeof(int64_t),
        .x = vectors(items * most.K) * (int64_t)sizeof(float),
        .y = vectors(items * most.R) * (int64_t)sizeof(float),
        .products = streamed > single ? streamed : single,
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
    stream streams[BATCH];
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
    const int64_t size = (int64_t)weft_dtype_size(p->dtype);
    const int64_t step = p->R * (int64_t)weft_dtype_size(from);
    for (int64_t i = 0; i < p->m; i++) {
        char *to = (char *)c->call->out[0].data + c->order[begin + i] * p->R * size;
        const char *y = (const char *)p->y + i * step;
        if (from == p->dtype)
            memcpy(to, y, (size_t)step);
        else
            weft__cpu_kernels()->encode(p->dtype, (const float *)(const void *)y, to, p->R);
    }
}

static void run_waiting(choice *c)
{
    for (int i = 0; i < c->n; i++)
        c->streams[i] = stream_of(&c->waiting[i], c->products + i * c->each, c->waiting[i].y);
    if (c->n > 0)
        run_streams(c->streams, c->n);
    for (int i = 0; i < c->n; i++)
        put_results(c, &c->waiting[i], c->begins[i], WEFT_FLOAT32);
    c->n = 0;
}

/* Products with few rows are small, so they are collected and run together. */
static void run_choice(choice *c, int64_t e, int64_t begin, int64_t end)
{
    const product p = product_of_items(c, e, begin, end);
    if (streams(&p)) {
        c->waiting[c->n] = p;
        c->begins[c->n++] = begin;
        if (c->n == BATCH)
            run_waiting(c);
        return;
    }
    run_waiting(c); /* they use the same memory */
    run_product(&p, c->products);
    put_results(c, &p, begin, p.dtype);
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
    return (product){.codes = weft__cpu_codes_apart(params, call->in + 1, rhs),
                     .m = M,
                     .R = scales->shape.at[1],
                     .K = scales->shape.at[2] * params->group,
                     .transposed = params->transposed,
                     .dtype = x->dtype,
                     .y_dtype = x->dtype,
                     .x = x->data ? (const char *)x->data + lhs * M * T * size : NULL,
                     .x_row = T,
                     .y = y->data ? (char *)y->data + j * M * C * size : NULL};
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
    return product_workspace(&p);
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
        run_product(&p, call->workspace);
    }
    return WEFT_OK;
}
