/* backends/cpu/scan.c -- running sums along any axis, in double. */
#include <string.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/structure.h"
#include "weft/op_params.h"

enum { COLUMNS = 256, GRAIN = 1 << 13 };

typedef struct scan {
    const weft_call *call;
    int64_t length, inner, blocks;
    bool reverse, inclusive;
} scan;

/* `n` columns side by side from element `base` of the first step. */
static void scan_block(const scan *s, int64_t base, int64_t n)
{
    const weft_tensor *in = &s->call->in[0], *out = &s->call->out[0];
    double sums[COLUMNS] = {0};
    float room[COLUMNS], results[COLUMNS];
    for (int64_t k = 0; k < s->length; k++) {
        int64_t first = base + (s->reverse ? s->length - 1 - k : k) * s->inner;
        const float *x = weft__cpu_floats(in->dtype, in->data, first, n, room);
        for (int64_t i = 0; i < n; i++) {
            double before = sums[i];
            sums[i] = before + (double)x[i];
            results[i] = (float)(s->inclusive ? sums[i] : before);
        }
        weft__cpu_store(out->dtype, results, out->data, first, n);
    }
}

/* One float32 row, elements next to each other. */
static void scan_row(const scan *s, int64_t base)
{
    const float *x = (const float *)s->call->in[0].data + base;
    float *y = (float *)s->call->out[0].data + base;
    double sum = 0;
    for (int64_t k = 0; k < s->length; k++) {
        int64_t i = s->reverse ? s->length - 1 - k : k;
        double before = sum;
        sum += (double)x[i];
        y[i] = (float)(s->inclusive ? sum : before);
    }
}

static void scan_blocks(void *context, int64_t begin, int64_t end, int worker)
{
    const scan *s = context;
    (void)worker;
    for (int64_t task = begin; task < end; task++) {
        int64_t column = task % s->blocks * COLUMNS;
        int64_t base = task / s->blocks * s->length * s->inner + column;
        int64_t left = s->inner - column;
        if (s->inner == 1 && s->call->in[0].dtype == WEFT_FLOAT32) {
            scan_row(s, base);
        } else {
            scan_block(s, base, left < COLUMNS ? left : COLUMNS);
        }
    }
}

weft_status weft__cpu_cumsum(const weft_call *call)
{
    const weft_scan_params *p = call->params;
    const weft_dims *shape = &call->in[0].shape;
    int64_t axis = p->axis + shape->n, outer = 1;
    scan s = {.call = call, .length = shape->at[axis], .inner = 1};
    s.reverse = p->reverse;
    s.inclusive = p->inclusive;
    for (int d = 0; d < shape->n; d++) {
        if (d != axis) {
            *(d < axis ? &outer : &s.inner) *= shape->at[d];
        }
    }
    s.blocks = (s.inner + COLUMNS - 1) / COLUMNS;
    int64_t columns = s.inner < COLUMNS ? s.inner : COLUMNS;
    weft__cpu_parallel(outer * s.blocks, GRAIN / (s.length * columns), scan_blocks, &s);
    return WEFT_OK;
}
