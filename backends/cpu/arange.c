/* backends/cpu/arange.c -- evenly spaced numbers, computed in blocks of doubles and converted. */
#include "backends/cpu/backend.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/structure.h"
#include "backends/cpu/walk.h"
#include "weft/op_params.h"

enum { BLOCK = 1024 };

typedef struct job {
    const weft_full_params *params;
    weft_dtype dtype;
    char *out;
} job;

/* Integers of fewer than 64 bits wrap, 64-bit ones saturate, since the conversion goes through
 * int64. */
static void convert(weft_dtype dtype, const double *from, char *to, int64_t n)
{
    cpu_convert *const(*table)[WEFT_DTYPE_COUNT] = weft__cpu_elementwise_table()->convert;
    int64_t whole[BLOCK];
    if (!weft_dtype_is_integer(dtype)) {
        table[WEFT_FLOAT64][dtype](from, to, n);
        return;
    }
    table[WEFT_FLOAT64][WEFT_INT64](from, whole, n);
    table[WEFT_INT64][dtype](whole, to, n);
}

static void make(void *context, int64_t begin, int64_t end, int worker)
{
    const job *j = context;
    double values[BLOCK], start = j->params->value, step = j->params->step;
    (void)worker;
    for (int64_t at = begin, n; at < end; at += n) {
        n = end - at < BLOCK ? end - at : BLOCK;
        double first = (double)at;
        for (int i = 0; i < (int)n; i++) {
            values[i] = start + (first + (double)i) * step;
        }
        convert(j->dtype, values, j->out + at * (int64_t)weft_dtype_size(j->dtype), n);
    }
}

bool weft__cpu_arange_fits(const weft_call *call)
{
    return call->out[0].dtype != WEFT_BOOL;
}

weft_status weft__cpu_arange(const weft_call *call)
{
    const weft_tensor *out = &call->out[0];
    job j = {.params = call->params, .dtype = out->dtype, .out = out->data};
    weft__cpu_parallel(weft_tensor_size(out), CPU_GRAIN, make, &j);
    return WEFT_OK;
}
