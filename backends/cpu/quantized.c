/* backends/cpu/quantized.c -- products with quantised matrices: linear with an encoded weight, and
 * quantized_matmul. A few rows stream the codes once; more go through the GEMM driver, whose
 * packing decodes. */
#include "backends/cpu/quantized.h"

#include <string.h>

#include "backends/cpu/gemm.h"
#include "backends/cpu/isa/blocks.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"

enum { LEAST_CHUNK = 16 << 10, LARGEST_CHUNK = 128 << 10 }; /* bytes of codes */

/* y = x w^T (+ bias), or x w; w (R, K). */
typedef struct product {
    cpu_codes codes;
    int64_t m, R, K;
    bool transposed;
    weft_dtype dtype; /* of x and y */
    const char *x;
    int64_t x_row; /* elements */
    void *y;
    const float *bias;
} product;

/* ---- Few rows ------------------------------------------------------------------------------- */

static bool streams(const product *p)
{
    return p->transposed && p->m > 0 && p->m <= CPU_GEMV_ROWS && p->K > 0 &&
           (weft_encoding_has_parts((weft_encoding_kind)p->codes.kind) ||
            weft__cpu_streams_blocks(p->codes.kind));
}

static int64_t vectors(int64_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* Floats of workspace: x in turns, sums of its groups, and y unless it is float32. */
typedef struct stream_memory {
    int64_t x, sums, y, total;
} stream_memory;

static stream_memory memory_of(const product *p)
{
    const int64_t rows = weft__cpu_gemv_rows((int)p->m);
    stream_memory m = {.x = rows * vectors(p->K),
                       .sums = vectors(rows * (p->K / p->codes.group)),
                       .y = p->dtype == WEFT_FLOAT32 ? 0 : vectors(p->m * p->R)};
    m.total = m.x + m.sums + m.y;
    return m;
}

typedef struct stream {
    const product *p;
    const cpu_kernels *kernels;
    const float *x, *sums;
    float *y;
} stream;

static void stream_task(void *context, int64_t begin, int64_t end, int worker)
{
    const stream *s = context;
    const product *p = s->p;
    (void)worker;
    s->kernels->gemv_codes(&p->codes, (int)p->m, p->K, s->x, s->sums, begin, end - begin, p->bias,
                           s->y, p->R);
}

static void run_stream(const product *p, float *memory)
{
    const cpu_kernels *kernels = weft__cpu_kernels();
    stream_memory m = memory_of(p);
    float *x = memory, *sums = x + m.x;
    kernels->gemv_pack(p->dtype, (int)p->m, p->K, p->x, p->x_row, x);
    kernels->code_sums((int)p->m, p->K, p->codes.group, x, sums);
    stream s = {p, kernels, x, sums, p->dtype == WEFT_FLOAT32 ? p->y : sums + m.sums};
    int64_t row_bytes = p->K / p->codes.group * p->codes.code_group;
    int64_t chunk = p->R * row_bytes / 16;
    chunk = chunk < LEAST_CHUNK ? LEAST_CHUNK : chunk > LARGEST_CHUNK ? LARGEST_CHUNK : chunk;
    weft__cpu_parallel(p->R, chunk / row_bytes, stream_task, &s);
    if (p->dtype != WEFT_FLOAT32)
        kernels->encode(p->dtype, s.y, p->y, p->m * p->R);
}

/* ---- One product ---------------------------------------------------------------------------- */

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
                      .c_dtype = p->dtype,
                      .c = p->y,
                      .bias = p->bias};
}

static int64_t product_workspace(const product *p)
{
    cpu_gemm g = gemm_of(p);
    return streams(p) ? memory_of(p).total * (int64_t)sizeof(float) : weft__cpu_gemm_workspace(&g);
}

static void run_product(const product *p, float *memory)
{
    cpu_gemm g = gemm_of(p);
    if (streams(p))
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
                 .transposed = !params->transposed, /* of the op: the other form */
                 .dtype = x->dtype,
                 .x = x->data,
                 .y = call->out[0].data};
    weft__cpu_row_stride(x, &p.m, &p.x_row);
    return p;
}

bool weft__cpu_linear_encoded_fits(const weft_call *call)
{
    int64_t rows, stride;
    return call->in[1].encoding && weft__cpu_narrow(call->in[0].dtype) &&
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

/* Index j of a list, or the failure. */
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

/* `m` rows at x through matrix `index` of the weight. */
static product product_of_choice(const weft_call *call, int64_t index, int64_t m, void *x, void *y)
{
    const weft_tensor *w = &call->in[1];
    product p = {.codes = weft__cpu_codes_encoded(w),
                 .m = m,
                 .R = w->shape.at[1],
                 .K = w->shape.at[2],
                 .transposed = true,
                 .dtype = call->in[0].dtype,
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

/* Bytes of the workspace: the list of items by matrix, their rows, results, one product. */
typedef struct choice_memory {
    int64_t order, x, y, product;
} choice_memory;

static choice_memory memory_of_choice(const weft_call *call)
{
    const int64_t items = weft_tensor_size(&call->in[3]);
    product most = product_of_choice(call, 0, items, NULL, NULL);
    product few =
        product_of_choice(call, 0, items < CPU_GEMV_ROWS ? items : CPU_GEMV_ROWS, NULL, NULL);
    const cpu_gemm g = gemm_of(&most);
    const int64_t streamed = product_workspace(&few), tiles = weft__cpu_gemm_bound(&g);
    return (choice_memory){
        .order = vectors(items) * (int64_t)sizeof(int64_t),
        .x = vectors(items * most.K) * (int64_t)sizeof(float),
        .y = vectors(items * most.R) * (int64_t)sizeof(float),
        .product = streamed > tiles ? streamed : tiles,
    };
}

int64_t weft__cpu_gather_encoded_workspace(const weft_call *call)
{
    const choice_memory m = memory_of_choice(call);
    return m.order + m.x + m.y + m.product;
}

/* Matrix `index` for the n items of `order`, whose rows are put together. */
static void run_choice(const weft_call *call, int64_t index, const int64_t *order, int64_t n,
                       char *memory)
{
    const choice_memory m = memory_of_choice(call);
    char *x = memory + m.order, *y = x + m.x;
    const product p = product_of_choice(call, index, n, x, y);
    const int64_t size = (int64_t)weft_dtype_size(p.dtype);
    const int64_t A = call->in[0].shape.at[0];
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = weft_tensor_get_int(&call->in[2], order[i]);
        memcpy(x + i * p.K * size,
               (const char *)call->in[0].data + (row < 0 ? row + A : row) * p.K * size,
               (size_t)(p.K * size));
    }
    run_product(&p, (float *)(void *)(y + m.y));
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)call->out[0].data + order[i] * p.R * size, y + i * p.R * size,
               (size_t)(p.R * size));
}

weft_status weft__cpu_gather_encoded(const weft_call *call)
{
    const int64_t items = weft_tensor_size(&call->in[3]), B = call->in[1].shape.at[0];
    int64_t *order = call->workspace;
    for (int64_t i = 0; i < items; i++) {
        int64_t row, id;
        weft_status status = index_at(call, 2, i, call->in[0].shape.at[0], &row);
        if (status == WEFT_OK)
            status = index_at(call, 3, i, B, &id);
        if (status != WEFT_OK)
            return status;
    }
    if (weft_tensor_size(&call->out[0]) == 0)
        return WEFT_OK;
    for (int64_t e = 0; e < B; e++) {
        int64_t n = 0, id;
        for (int64_t i = 0; i < items; i++) {
            if (index_at(call, 3, i, B, &id) == WEFT_OK && id == e)
                order[n++] = i;
        }
        if (n > 0)
            run_choice(call, e, order, n, call->workspace);
    }
    return WEFT_OK;
}

/* ---- quantized_matmul ----------------------------------------------------------------------- */

/* The product of matrix x number `lhs` with matrix w number `rhs`. */
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
