/* backends/cpu/gated_delta.c -- the gated delta rule and that of Mamba 2: a task runs a few rows of
 * a head's state over the whole sequence, so that they stay in the L1 cache. */
#include <math.h>
#include <string.h>

#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"

enum { ROWS = 32 /* rows of a state at a time */, GRAIN_FLOATS = 32768 /* read by a task */ };

typedef struct delta {
    const cpu_kernels *kernels;
    const float *q, *k, *v, *g, *beta, *before; /* beta NULL: Mamba 2 */
    float *y, *after;
    int64_t L, Hk, Hv, D, Dv, blocks; /* blocks of rows per head */
} delta;

/* Runs rows [first, first + n) of head h over sequence b. */
static void read_text(const delta *d, int64_t b, int64_t h, int64_t first, int64_t n)
{
    const int64_t head = b * d->Hv + h, key_head = h / (d->Hv / d->Hk);
    const int64_t at = (head * d->Dv + first) * d->D;
    float *state = d->after + at;
    if (d->before != d->after)
        memcpy(state, d->before + at, (size_t)(n * d->D) * sizeof *state);
    for (int64_t t = 0; t < d->L; t++) {
        const int64_t token = b * d->L + t, gate = token * d->Hv + h;
        const int64_t key = (token * d->Hk + key_head) * d->D, value = gate * d->Dv + first;
        d->kernels->delta_rows(state, n, d->D, d->k + key, d->q + key, d->v + value,
                               expf(d->g[gate]), d->beta ? &d->beta[gate] : NULL, d->y + value);
    }
}

/* Items are blocks of rows of the heads of all sequences. */
static void task(void *context, int64_t begin, int64_t end, int worker)
{
    const delta *d = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t head = i / d->blocks, first = i % d->blocks * ROWS;
        const int64_t n = d->Dv - first < ROWS ? d->Dv - first : ROWS;
        read_text(d, head / d->Hv, head % d->Hv, first, n);
    }
}

weft_status weft__cpu_gated_delta(const weft_call *call)
{
    const weft_dims q = call->in[0].shape, v = call->in[2].shape;
    const delta d = {
        .kernels = weft__cpu_kernels(),
        .q = call->in[0].data,
        .k = call->in[1].data,
        .v = call->in[2].data,
        .g = call->in[3].data,
        .beta = call->n_inputs == 6 ? call->in[4].data : NULL,
        .before = call->in[call->n_inputs - 1].data,
        .y = call->out[0].data,
        .after = call->out[1].data,
        .L = q.at[1],
        .Hk = q.at[2],
        .Hv = v.at[2],
        .D = q.at[3],
        .Dv = v.at[3],
        .blocks = (v.at[3] + ROWS - 1) / ROWS,
    };
    const int64_t grain = GRAIN_FLOATS / (ROWS * d.D * (d.L + 1) + 1) + 1;
    weft__cpu_parallel(q.at[0] * d.Hv * d.blocks, grain, task, (void *)&d);
    return WEFT_OK;
}
