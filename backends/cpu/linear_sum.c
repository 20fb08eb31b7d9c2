/* backends/cpu/linear_sum.c -- the op linear_sum as one product: tiles of the result take all pairs
 * in turn, so the result is written once. With a few rows the op's expansion is faster, whose
 * products read weights in place. */
#include "backends/cpu/gemm.h"
#include "backends/cpu/quantized.h"
#include "backends/cpu/rows.h"
#include "weft/op_params.h"

enum { LEAST_ROWS = 25 };

typedef struct sum {
    cpu_gemm g;
    cpu_codes codes[CPU_MOST_PAIRS];
    cpu_pair more[CPU_MOST_PAIRS];
} sum;

static cpu_pair pair_of(const weft_tensor *x, const weft_tensor *w, bool transposed,
                        cpu_codes *codes)
{
    const int64_t R = w->shape.at[0], K = w->shape.at[1], row = w->encoding ? K : w->strides[0];
    int64_t rows, stride;
    weft__cpu_row_stride(x, &rows, &stride);
    cpu_pair pair = {
        .k = transposed ? R : K,
        .a = {.dtype = x->dtype, .data = x->data, .row = stride, .column = 1},
        .b = {.dtype = w->encoding ? WEFT_FLOAT32 : w->dtype,
              .data = w->data,
              .row = transposed ? row : 1,
              .column = transposed ? 1 : row},
    };
    if (w->encoding) {
        *codes = weft__cpu_codes_encoded(w);
        pair.b.codes = codes;
        pair.b.code_terms = transposed;
    }
    return pair;
}

/* The structure refers to itself, so it is filled where it stays. */
static void make_sum(sum *s, const weft_call *call)
{
    const weft_linear_sum_params *params = call->params;
    const weft_tensor *y = &call->out[0];
    const int pairs = call->n_inputs / 2;
    int64_t stride;
    *s = (sum){.g = {.n = y->shape.at[y->shape.n - 1],
                     .c_dtype = y->dtype,
                     .c = y->data,
                     .n_more = pairs - 1}};
    weft__cpu_row_stride(y, &s->g.m, &stride);
    for (int i = 0; i < pairs; i++)
        s->more[i] =
            pair_of(&call->in[2 * i], &call->in[2 * i + 1], params->transposed, &s->codes[i]);
    s->g.k = s->more[0].k;
    s->g.a = s->more[0].a;
    s->g.b = s->more[0].b;
    s->g.more = s->more + 1;
}

bool weft__cpu_linear_sum_fits(const weft_call *call)
{
    int64_t rows, stride;
    for (int i = 0; i + 1 < call->n_inputs; i += 2) {
        const weft_tensor *x = &call->in[i], *w = &call->in[i + 1];
        if (!weft__cpu_narrow(x->dtype) || !(w->encoding || weft__cpu_narrow(w->dtype)) ||
            !weft__cpu_row_stride(x, &rows, &stride) || rows < LEAST_ROWS)
            return false;
    }
    return call->n_inputs / 2 <= CPU_MOST_PAIRS && weft__cpu_narrow(call->out[0].dtype) &&
           (call->n_inputs % 2 == 0 || weft_dtype_is_float(call->in[call->n_inputs - 1].dtype));
}

int64_t weft__cpu_linear_sum_workspace(const weft_call *call)
{
    sum s;
    make_sum(&s, call);
    return weft__cpu_bias_floats(call, s.g.n) * (int64_t)sizeof(float) +
           weft__cpu_gemm_workspace(&s.g);
}

weft_status weft__cpu_linear_sum(const weft_call *call)
{
    sum s;
    float *memory = call->workspace;
    make_sum(&s, call);
    s.g.bias = weft__cpu_read_bias(call, s.g.n, memory);
    weft__cpu_gemm(&s.g, memory + weft__cpu_bias_floats(call, s.g.n));
    return WEFT_OK;
}
