/* backends/cpu/gather.c -- reading and adding at indices. Sums are taken in index order whatever
 * the number of threads: the work is cut by destination. */
#include <string.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/structure.h"
#include "weft/op_params.h"

enum { GRAIN_BYTES = 1 << 16, COLUMNS = 512 };

typedef struct extents {
    int64_t outer, length, inner;
} extents;

static extents extents_of(const weft_tensor *t, int64_t axis)
{
    int64_t front = axis + t->shape.n;
    extents e = {1, t->shape.at[front], 1};
    for (int d = 0; d < t->shape.n; d++) {
        if (d != front) {
            *(d < front ? &e.outer : &e.inner) *= t->shape.at[d];
        }
    }
    return e;
}

/* Element i of dense integers. */
static int64_t index_value(weft_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case WEFT_UINT8:
        return ((const uint8_t *)data)[i];
    case WEFT_UINT16:
        return ((const uint16_t *)data)[i];
    case WEFT_UINT32:
        return ((const uint32_t *)data)[i];
    case WEFT_INT8:
        return ((const int8_t *)data)[i];
    case WEFT_INT16:
        return ((const int16_t *)data)[i];
    case WEFT_INT32:
        return ((const int32_t *)data)[i];
    default:
        return ((const int64_t *)data)[i];
    }
}

/* index_value, counted from the front of an axis of `length`. */
static int64_t index_front(const weft_tensor *t, int64_t i, int64_t length)
{
    int64_t index = index_value(t->dtype, t->data, i);
    return index < 0 && t->dtype != WEFT_UINT64 ? index + length : index;
}

static weft_status check_indices(const weft_call *call, int64_t length)
{
    const weft_tensor *t = &call->in[1];
    int64_t count = weft_tensor_size(t);
    for (int64_t i = 0; i < count; i++) {
        int64_t index = index_front(t, i, length);
        if (index < 0 || index >= length) {
            return weft_fail(
                WEFT_INVALID, "%s: index %lld is out of range for an axis of size %lld",
                call->op->name, (long long)index_value(t->dtype, t->data, i), (long long)length);
        }
    }
    return WEFT_OK;
}

/* What the tasks see. */
typedef struct gathering {
    const weft_call *call;
    extents e;                     /* of x */
    int64_t count;                 /* indices: all of them, or those along the axis */
    int64_t size;                  /* bytes of an element */
    const int64_t *order, *starts; /* scatter_add */
} gathering;

/* ---- take ----------------------------------------------------------------------------------- */

static void take_slices(void *context, int64_t begin, int64_t end, int worker)
{
    const gathering *g = context;
    int64_t bytes = g->e.inner * g->size;
    const char *x = g->call->in[0].data;
    char *out = g->call->out[0].data;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = index_front(&g->call->in[1], i % g->count, g->e.length);
        const char *from = x + (i / g->count * g->e.length + at) * bytes;
        memcpy(out + i * bytes, from, (size_t)bytes);
    }
}

weft_status weft__cpu_take(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    gathering g = {.call = call, .e = extents_of(&call->in[0], p->axis)};
    weft_status status = check_indices(call, g.e.length);
    if (status == WEFT_OK) {
        g.count = weft_tensor_size(&call->in[1]);
        g.size = (int64_t)weft_dtype_size(call->in[0].dtype);
        weft__cpu_parallel(g.e.outer * g.count, GRAIN_BYTES / (g.e.inner * g.size + 16),
                           take_slices, &g);
    }
    return status;
}

/* ---- take_along_axis ------------------------------------------------------------------------ */

static void take_elements(void *context, int64_t begin, int64_t end, int worker)
{
    const gathering *g = context;
    const char *x = g->call->in[0].data;
    char *out = g->call->out[0].data;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = index_front(&g->call->in[1], i, g->e.length);
        int64_t outer = i / g->e.inner / g->count;
        int64_t from = (outer * g->e.length + at) * g->e.inner + i % g->e.inner;
        memcpy(out + i * g->size, x + from * g->size, (size_t)g->size);
    }
}

weft_status weft__cpu_take_along_axis(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    gathering g = {.call = call, .e = extents_of(&call->in[0], p->axis)};
    weft_status status = check_indices(call, g.e.length);
    if (status == WEFT_OK) {
        g.count = extents_of(&call->in[1], p->axis).length;
        g.size = (int64_t)weft_dtype_size(call->in[0].dtype);
        weft__cpu_parallel(weft_tensor_size(&call->in[1]), GRAIN_BYTES / 16, take_elements, &g);
    }
    return status;
}

/* ---- scatter_add ---------------------------------------------------------------------------- */

/* Numbers of the indices, sorted by destination, and where each destination's begin. */
int64_t weft__cpu_scatter_add_workspace(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    int64_t length = extents_of(&call->in[0], p->axis).length;
    return (weft_tensor_size(&call->in[1]) + length + 2) * (int64_t)sizeof(int64_t);
}

/* A counting sort, stable: the index order stays within a destination. */
static void sort_by_destination(const weft_call *call, int64_t length, int64_t count,
                                int64_t *order, int64_t *starts)
{
    memset(starts, 0, (size_t)(length + 2) * sizeof *starts);
    for (int64_t i = 0; i < count; i++) {
        starts[index_front(&call->in[1], i, length) + 2]++;
    }
    for (int64_t d = 2; d < length + 2; d++) {
        starts[d] += starts[d - 1];
    }
    for (int64_t i = 0; i < count; i++) {
        order[starts[index_front(&call->in[1], i, length) + 1]++] = i;
    }
}

/* Destination slice d = (outer, at): x plus its values, summed in double. */
static void add_slice(const gathering *g, int64_t d)
{
    const weft_call *call = g->call;
    weft_dtype dtype = call->in[0].dtype;
    int64_t outer = d / g->e.length, at = d % g->e.length;
    float room[COLUMNS];
    double sums[COLUMNS];
    for (int64_t c = 0; c < g->e.inner; c += COLUMNS) {
        int64_t n = g->e.inner - c < COLUMNS ? g->e.inner - c : COLUMNS;
        int64_t first = d * g->e.inner + c;
        memset(sums, 0, (size_t)n * sizeof *sums);
        weft__cpu_kernels()->sum_columns(
            sums, weft__cpu_floats(dtype, call->in[0].data, first, n, room), n);
        for (int64_t k = g->starts[at]; k < g->starts[at + 1]; k++) {
            int64_t row = (outer * g->count + g->order[k]) * g->e.inner + c;
            weft__cpu_kernels()->sum_columns(
                sums, weft__cpu_floats(dtype, call->in[2].data, row, n, room), n);
        }
        for (int64_t i = 0; i < n; i++) {
            room[i] = (float)sums[i];
        }
        weft__cpu_store(dtype, room, call->out[0].data, first, n);
    }
}

static void add_slices(void *context, int64_t begin, int64_t end, int worker)
{
    const gathering *g = context;
    int64_t bytes = g->e.inner * g->size;
    const char *x = g->call->in[0].data;
    char *out = g->call->out[0].data;
    (void)worker;
    for (int64_t d = begin; d < end; d++) {
        int64_t at = d % g->e.length;
        if (g->starts[at] < g->starts[at + 1]) {
            add_slice(g, d);
        } else if (x != out) {
            memcpy(out + d * bytes, x + d * bytes, (size_t)bytes);
        }
    }
}

weft_status weft__cpu_scatter_add(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    gathering g = {.call = call, .e = extents_of(&call->in[0], p->axis)};
    weft_status status = check_indices(call, g.e.length);
    if (status != WEFT_OK) {
        return status;
    }
    int64_t *starts = call->workspace, *order = starts + g.e.length + 2;
    g.count = weft_tensor_size(&call->in[1]);
    g.size = (int64_t)weft_dtype_size(call->in[0].dtype);
    sort_by_destination(call, g.e.length, g.count, order, starts);
    g.starts = starts;
    g.order = order;
    weft__cpu_parallel(g.e.outer * g.e.length, GRAIN_BYTES / (g.e.inner * g.size + 16), add_slices,
                       &g);
    return WEFT_OK;
}

/* ---- scatter_add_along_axis, float32 -------------------------------------------------------- */

static void add_elements(void *context, int64_t begin, int64_t end, int worker)
{
    const gathering *g = context;
    int64_t slice = g->e.length * g->e.inner;
    const float *x = g->call->in[0].data, *values = g->call->in[2].data;
    float *out = g->call->out[0].data;
    (void)worker;
    if (x != out) {
        memcpy(out + begin * slice, x + begin * slice,
               (size_t)((end - begin) * slice) * sizeof *out);
    }
    for (int64_t i = begin * g->count * g->e.inner; i < end * g->count * g->e.inner; i++) {
        int64_t at = index_front(&g->call->in[1], i, g->e.length);
        int64_t outer = i / g->e.inner / g->count;
        out[outer * slice + at * g->e.inner + i % g->e.inner] += values[i];
    }
}

weft_status weft__cpu_scatter_add_along_axis(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    gathering g = {.call = call, .e = extents_of(&call->in[0], p->axis)};
    weft_status status = check_indices(call, g.e.length);
    if (status == WEFT_OK) {
        g.count = extents_of(&call->in[1], p->axis).length;
        int64_t work = (g.count + g.e.length) * g.e.inner * 4;
        weft__cpu_parallel(g.e.outer, GRAIN_BYTES / (work + 1), add_elements, &g);
    }
    return status;
}
