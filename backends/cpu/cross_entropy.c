/* backends/cpu/cross_entropy.c -- cross-entropy of logits and its gradient, row by row. */
#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"

enum { GRAIN_FLOATS = 16384 };

typedef struct cross_entropy {
    const weft_call *call;
    const cpu_kernels *kernels;
    cpu_rows logits, d_logits;
    float *scratch;
    int64_t room;
} cross_entropy;

int64_t weft__cpu_cross_entropy_workspace(const weft_call *call)
{
    cpu_rows logits = weft__cpu_rows_of(&call->in[0]);
    if (logits.plain)
        return 0;
    return weft__cpu_workers() * weft__cpu_row_room(logits.width) * (int64_t)sizeof(float);
}

weft_status weft__cpu_check_targets(const weft_tensor *targets, int64_t V, const char *op)
{
    int64_t n = weft_tensor_size(targets);
    for (int64_t i = 0; i < n; i++) {
        int64_t target = weft_tensor_get_int(targets, i);
        if (target >= V)
            return weft_fail(WEFT_INVALID, "%s: target %lld of row %lld: expected below %lld", op,
                             (long long)target, (long long)i, (long long)V);
    }
    return WEFT_OK;
}

static void loss_task(void *context, int64_t begin, int64_t end, int worker)
{
    const cross_entropy *c = context;
    float *scratch = c->scratch + worker * c->room;
    float *loss = c->call->out[0].data;
    for (int64_t i = begin; i < end; i++) {
        int64_t target = weft_tensor_get_int(&c->call->in[1], i);
        loss[i] = 0;
        if (target < 0)
            continue;
        const float *x = weft__cpu_row_read(&c->logits, i, scratch);
        loss[i] = c->kernels->logsumexp_row(x, c->logits.width) - x[target];
    }
}

static void vjp_task(void *context, int64_t begin, int64_t end, int worker)
{
    const cross_entropy *c = context;
    float *scratch = c->scratch + worker * c->room;
    for (int64_t i = begin; i < end; i++) {
        int64_t target = weft_tensor_get_int(&c->call->in[1], i);
        float ct = (float)weft_tensor_get(&c->call->in[2], i);
        float *d = weft__cpu_row_target(&c->d_logits, i, scratch);
        if (target < 0) {
            for (int64_t j = 0; j < c->logits.width; j++)
                d[j] = 0;
        } else {
            const float *x = weft__cpu_row_read(&c->logits, i, scratch);
            float lse = c->kernels->logsumexp_row(x, c->logits.width);
            c->kernels->probability_row(x, d, c->logits.width, lse, ct);
            d[target] -= ct;
        }
        weft__cpu_row_done(&c->d_logits, i, d);
    }
}

static weft_status run(const weft_call *call, cpu_task *task)
{
    cross_entropy c = {.call = call,
                       .kernels = weft__cpu_kernels(),
                       .logits = weft__cpu_rows_of(&call->in[0]),
                       .d_logits = weft__cpu_rows_of(&call->out[0]),
                       .scratch = call->workspace};
    c.room = c.logits.plain ? 0 : weft__cpu_row_room(c.logits.width);
    weft_status status = weft__cpu_check_targets(&call->in[1], c.logits.width, call->op->name);
    if (status == WEFT_OK)
        weft__cpu_parallel(c.logits.n, GRAIN_FLOATS / (c.logits.width + 1) + 1, task, &c);
    return status;
}

weft_status weft__cpu_cross_entropy(const weft_call *call)
{
    return run(call, loss_task);
}

weft_status weft__cpu_cross_entropy_vjp(const weft_call *call)
{
    return run(call, vjp_task);
}
