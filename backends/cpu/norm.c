/* backends/cpu/norm.c -- rms_norm, layer_norm and their gradients, row by row. */
#include <string.h>

#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"
#include "weft/op_params.h"

enum {
    GRAIN_FLOATS = 16384, /* elements per task */
    MOST_PARTS = 64       /* of the sums over rows */
};

typedef struct norm {
    const weft_norm_params *params;
    const cpu_kernels *kernels;
    cpu_rows x, y, ct; /* y: dx in a gradient */
    bool layer;
    const float *gain, *bias;
    float *scratch; /* three rows per worker */
    int64_t room;
    int64_t grain; /* rows per task */
    float *parts;  /* of dw, then of db, one row per task */
    int64_t n_parts;
} norm;

static int64_t grain_of(int64_t rows, int64_t width, bool sums)
{
    int64_t grain = GRAIN_FLOATS / (width + 1) + 1;
    int64_t fewest = (rows + MOST_PARTS - 1) / MOST_PARTS;
    return sums && grain < fewest ? fewest : grain;
}

/* Reads a vector input as float32: gain (plus the offset) or bias. */
static const float *bring(const weft_tensor *t, double offset, float *out)
{
    const int64_t n = t->shape.at[0];
    if (t->strides[0] == 1 && weft__cpu_narrow(t->dtype)) {
        const cpu_rows whole = weft__cpu_rows_of(t);
        const float *x = weft__cpu_row_read(&whole, 0, out);
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)((double)x[i] + offset);
        return out;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(weft_tensor_get(t, i) + offset);
    return out;
}

static norm norm_of(const weft_call *call, bool layer)
{
    norm n = {.params = call->params,
              .kernels = weft__cpu_kernels(),
              .x = weft__cpu_rows_of(&call->in[0]),
              .y = weft__cpu_rows_of(&call->out[0]),
              .layer = layer};
    n.room = weft__cpu_row_room(n.x.width);
    return n;
}

/* ---- Forward -------------------------------------------------------------------------------- */

int64_t weft__cpu_norm_workspace(const weft_call *call)
{
    int64_t room = weft__cpu_row_room(call->in[0].shape.at[call->in[0].shape.n - 1]);
    return (2 + 3 * weft__cpu_workers()) * room * (int64_t)sizeof(float);
}

static void forward_task(void *context, int64_t begin, int64_t end, int worker)
{
    const norm *n = context;
    float *scratch = n->scratch + 3 * n->room * worker;
    const float eps = (float)n->params->eps;
    for (int64_t i = begin; i < end; i++) {
        const float *x = weft__cpu_row_read(&n->x, i, scratch);
        float *y = weft__cpu_row_target(&n->y, i, scratch);
        if (n->layer)
            n->kernels->layer_row(x, n->gain, n->bias, y, n->x.width, eps);
        else
            n->kernels->rms_row(x, n->gain, y, n->x.width, eps);
        weft__cpu_row_done(&n->y, i, y);
    }
}

static weft_status forward(const weft_call *call, bool layer)
{
    norm n = norm_of(call, layer);
    float *memory = call->workspace;
    int next = 1;
    if (n.params->has_weight)
        n.gain = bring(&call->in[next++], n.layer ? 0 : n.params->offset, memory);
    if (n.layer && n.params->has_bias)
        n.bias = bring(&call->in[next], 0, memory + n.room);
    n.scratch = memory + 2 * n.room;
    weft__cpu_parallel(n.x.n, grain_of(n.x.n, n.x.width, false), forward_task, &n);
    return WEFT_OK;
}

weft_status weft__cpu_rms_norm(const weft_call *call)
{
    return forward(call, false);
}

weft_status weft__cpu_layer_norm(const weft_call *call)
{
    return forward(call, true);
}

/* ---- Gradient ------------------------------------------------------------------------------- */

/* The number of gradients that are sums over rows: dw and db. */
static int sums_of(const weft_call *call)
{
    return call->n_outputs - 1;
}

int64_t weft__cpu_norm_vjp_workspace(const weft_call *call)
{
    norm n = norm_of(call, false); /* the same for both norms */
    int64_t grain = grain_of(n.x.n, n.x.width, sums_of(call) > 0);
    int64_t parts = sums_of(call) > 0 ? 2 * ((n.x.n + grain - 1) / grain) : 0;
    return (1 + parts + 3 * weft__cpu_workers()) * n.room * (int64_t)sizeof(float);
}

static void vjp_task(void *context, int64_t begin, int64_t end, int worker)
{
    const norm *n = context;
    float *scratch = n->scratch + 3 * n->room * worker;
    const float eps = (float)n->params->eps;
    float *dw = NULL, *db = NULL;
    if (n->parts) {
        dw = n->parts + begin / n->grain * n->room;
        db = dw + n->n_parts * n->room;
        memset(dw, 0, (size_t)n->x.width * sizeof *dw);
        memset(db, 0, (size_t)n->x.width * sizeof *db);
    }
    for (int64_t i = begin; i < end; i++) {
        const float *x = weft__cpu_row_read(&n->x, i, scratch);
        const float *ct = weft__cpu_row_read(&n->ct, i, scratch + n->room);
        float *dx = weft__cpu_row_target(&n->y, i, scratch + 2 * n->room);
        if (n->layer)
            n->kernels->layer_vjp_row(x, n->gain, ct, dx, dw, db, n->x.width, eps);
        else
            n->kernels->rms_vjp_row(x, n->gain, ct, dx, dw, n->x.width, eps);
        weft__cpu_row_done(&n->y, i, dx);
    }
}

/* Adds the parts in order into an output vector. */
static void sum_parts(const norm *n, float *parts, const weft_tensor *out)
{
    float *total = out->data;
    memset(total, 0, (size_t)n->x.width * sizeof *total);
    for (int64_t i = 0; i < n->n_parts; i++)
        n->kernels->add_row(total, parts + i * n->room, n->x.width);
}

static weft_status vjp(const weft_call *call, bool layer)
{
    norm n = norm_of(call, layer);
    float *memory = call->workspace;
    int next = 1;
    if (n.params->has_weight)
        n.gain = bring(&call->in[next++], n.layer ? 0 : n.params->offset, memory);
    n.ct = weft__cpu_rows_of(&call->in[next]);
    n.scratch = memory + n.room;
    n.grain = grain_of(n.x.n, n.x.width, sums_of(call) > 0);
    n.n_parts = (n.x.n + n.grain - 1) / n.grain;
    if (sums_of(call) > 0)
        n.parts = n.scratch + 3 * n.room * weft__cpu_workers();
    weft__cpu_parallel(n.x.n, n.grain, vjp_task, &n);
    int out = 1;
    if (out < call->n_outputs && n.params->has_weight)
        sum_parts(&n, n.parts, &call->out[out++]);
    if (out < call->n_outputs)
        sum_parts(&n, n.parts + n.n_parts * n.room, &call->out[out]);
    return WEFT_OK;
}

weft_status weft__cpu_rms_norm_vjp(const weft_call *call)
{
    return vjp(call, false);
}

weft_status weft__cpu_layer_norm_vjp(const weft_call *call)
{
    return vjp(call, true);
}
