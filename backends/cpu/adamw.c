/* backends/cpu/adamw.c -- the AdamW step in one pass, in place where the evaluator allows. */
#include <string.h>

#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"
#include "weft/op_params.h"

enum { GRAIN = 16384, BLOCK = 512 };

bool weft__cpu_adamw_fits(const weft_call *call)
{
    return weft__cpu_narrow_inputs(call) && call->in[2].dtype == WEFT_FLOAT32 &&
           call->in[4].dtype == WEFT_FLOAT32;
}

typedef struct adamw {
    const weft_call *call;
    const cpu_kernels *kernels;
    cpu_adamw step;
} adamw;

static char *at(const weft_tensor *t, int64_t i)
{
    return (char *)t->data + i * (int64_t)weft_dtype_size(t->dtype);
}

static void adamw_task(void *context, int64_t begin, int64_t end, int worker)
{
    const adamw *a = context;
    const weft_tensor *in = a->call->in, *out = a->call->out;
    (void)worker;
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t n = end - i < BLOCK ? end - i : BLOCK;
        float p[BLOCK], g[BLOCK], m[BLOCK], v[BLOCK];
        a->kernels->decode(in[0].dtype, at(&in[0], i), p, n);
        a->kernels->decode(in[1].dtype, at(&in[1], i), g, n);
        memcpy(m, at(&in[2], i), (size_t)n * sizeof *m);
        memcpy(v, at(&in[3], i), (size_t)n * sizeof *v);
        a->kernels->adamw_row(&a->step, p, g, m, v, n);
        a->kernels->encode(out[0].dtype, p, at(&out[0], i), n);
        memcpy(at(&out[1], i), m, (size_t)n * sizeof *m);
        memcpy(at(&out[2], i), v, (size_t)n * sizeof *v);
    }
}

static void copy(const weft_tensor *from, const weft_tensor *to)
{
    if (from->data != to->data)
        memcpy(to->data, from->data, (size_t)weft_tensor_size(from) * weft_dtype_size(from->dtype));
}

weft_status weft__cpu_adamw(const weft_call *call)
{
    const weft_adamw_params *params = call->params;
    const float *hyper = call->in[4].data;
    if (hyper[4] == 0) {
        copy(&call->in[0], &call->out[0]);
        copy(&call->in[2], &call->out[1]);
        copy(&call->in[3], &call->out[2]);
        return WEFT_OK;
    }
    double lr = (double)hyper[0];
    adamw a = {.call = call,
               .kernels = weft__cpu_kernels(),
               .step = {.grad_scale = hyper[1],
                        .beta1 = (float)params->beta1,
                        .rest1 = (float)(1 - params->beta1),
                        .beta2 = (float)params->beta2,
                        .rest2 = (float)(1 - params->beta2),
                        .keep = (float)(1 - lr * params->decay),
                        .rate = (float)(lr / (double)hyper[2]),
                        .root = (float)(1 / (double)hyper[3]),
                        .eps = (float)params->eps}};
    weft__cpu_parallel(weft_tensor_size(&call->in[0]), GRAIN, adamw_task, &a);
    return WEFT_OK;
}
