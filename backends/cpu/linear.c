/* backends/cpu/linear.c -- the ops matmul and linear, by gemm.c. */
#include <string.h>

#include "backends/cpu/gemm.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/sizes.h"
#include "weft/op_params.h"

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
                  .c = y->data,
                  .streams = true};
    g.a.column = x->strides[last];
    g.b.row = w->strides[params->transposed ? 0 : 1];
    g.b.column = w->strides[params->transposed ? 1 : 0];
    return g;
}

int64_t weft__cpu_bias_floats(const weft_call *call, int64_t n)
{
    return call->n_inputs % 2 == 1 ? vectors(n) : 0;
}

const float *weft__cpu_read_bias(const weft_call *call, int64_t n, float *memory)
{
    if (call->n_inputs % 2 == 0)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        memory[i] = (float)weft_tensor_get(&call->in[call->n_inputs - 1], i);
    return memory;
}

int64_t weft__cpu_linear_workspace(const weft_call *call)
{
    const cpu_gemm g = gemm_of_linear(call);
    return weft__cpu_bias_floats(call, g.n) * (int64_t)sizeof(float) + weft__cpu_gemm_workspace(&g);
}

weft_status weft__cpu_linear(const weft_call *call)
{
    cpu_gemm g = gemm_of_linear(call);
    float *memory = call->workspace;
    g.bias = weft__cpu_read_bias(call, g.n, memory);
    weft__cpu_gemm(&g, memory + weft__cpu_bias_floats(call, g.n));
    return WEFT_OK;
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
