/* backends/cpu/gather.c -- kernels that read at indices, and bounded_index. */
#include <string.h>

#include "backends/cpu/indices.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/structure.h"
#include "weft/op_params.h"

enum { GRAIN_BYTES = 1 << 16 };

cpu_extents weft__cpu_extents_of(const weft_tensor *t, int64_t axis)
{
    int64_t front = axis + t->shape.n;
    cpu_extents e = {1, t->shape.at[front], 1};
    for (int d = 0; d < t->shape.n; d++) {
        if (d != front) {
            *(d < front ? &e.outer : &e.inner) *= t->shape.at[d];
        }
    }
    return e;
}

static weft_status out_of_range(const weft_call *call, int64_t index, int64_t length)
{
    return weft_fail(WEFT_INVALID, "%s: index %lld is out of range for an axis of size %lld",
                     call->op->name, (long long)index, (long long)length);
}

/* The position of the first of n indices that is out of range, or n. A negative index is in range
 * from -length on. As unsigned numbers, indices past the end and before the start are both too
 * large. */
static int64_t first_bad(const weft_tensor *t, int64_t n, int64_t length)
{
    bool is_signed = weft_dtype_is_signed(t->dtype);
    uint64_t below = is_signed ? (uint64_t)length : 0;
    if (t->dtype == WEFT_INT32 && length <= INT32_MAX) { /* vectorized, and usually all are right */
        const int32_t *at = t->data;
        uint32_t least = (uint32_t)length, bad = 0;
        for (int64_t i = 0; i < n; i++) {
            bad |= (uint32_t)at[i] + least >= 2 * least;
        }
        if (bad == 0) {
            return n;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        uint64_t index = (uint64_t)weft__cpu_index_value(t->dtype, t->data, i);
        if (index + below >= (uint64_t)length + below) {
            return i;
        }
    }
    return n;
}

weft_status weft__cpu_check_indices(const weft_call *call, int64_t length)
{
    const weft_tensor *t = &call->in[1];
    int64_t count = weft_tensor_size(t);
    if (!weft_index_checks() && length > 0) {
        return WEFT_OK;
    }
    int64_t bad = first_bad(t, count, length);
    return bad == count ? WEFT_OK
                        : out_of_range(call, weft__cpu_index_value(t->dtype, t->data, bad), length);
}

/* The data of the tasks. */
typedef struct gathering {
    const weft_call *call;
    cpu_extents e; /* of x */
    int64_t count; /* indices: all of them, or those along the axis */
    int64_t size;  /* bytes per element */
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
        int64_t at = weft__cpu_clamped_index(&g->call->in[1], i % g->count, g->e.length);
        const char *from = x + (i / g->count * g->e.length + at) * bytes;
        memcpy(out + i * bytes, from, (size_t)bytes);
    }
}

weft_status weft__cpu_take(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    gathering g = {.call = call, .e = weft__cpu_extents_of(&call->in[0], p->axis)};
    weft_status status = weft__cpu_check_indices(call, g.e.length);
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
        int64_t at = weft__cpu_clamped_index(&g->call->in[1], i, g->e.length);
        int64_t outer = i / g->e.inner / g->count;
        int64_t from = (outer * g->e.length + at) * g->e.inner + i % g->e.inner;
        memcpy(out + i * g->size, x + from * g->size, (size_t)g->size);
    }
}

weft_status weft__cpu_take_along_axis(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    gathering g = {.call = call, .e = weft__cpu_extents_of(&call->in[0], p->axis)};
    weft_status status = weft__cpu_check_indices(call, g.e.length);
    if (status == WEFT_OK) {
        g.count = weft__cpu_extents_of(&call->in[1], p->axis).length;
        g.size = (int64_t)weft_dtype_size(call->in[0].dtype);
        weft__cpu_parallel(weft_tensor_size(&call->in[1]), GRAIN_BYTES / 16, take_elements, &g);
    }
    return status;
}

/* ---- bounded_index -------------------------------------------------------------------------- */

static int64_t bounded(int64_t index, bool huge, int64_t length, int64_t mode)
{
    if (mode == WEFT_BOUNDS_WRAP) {
        int64_t rest = huge ? (int64_t)((uint64_t)index % (uint64_t)length) : index % length;
        return rest < 0 ? rest + length : rest;
    }
    return huge || index >= length ? length - 1 : index < 0 ? 0 : index;
}

static void bound_indices(void *context, int64_t begin, int64_t end, int worker)
{
    const weft_call *call = context;
    const weft_bounds_params *p = call->params;
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    bool may_be_huge = in->dtype == WEFT_UINT64, counts = p->mode == WEFT_BOUNDS_CHECK;
    int32_t *narrow = out->dtype == WEFT_INT32 ? out->data : NULL;
    int64_t *wide = out->data;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t index = weft__cpu_index_value(in->dtype, in->data, i);
        int64_t at = counts ? weft__cpu_clamped_index(in, i, p->length)
                            : bounded(index, may_be_huge && index < 0, p->length, p->mode);
        if (narrow) {
            narrow[i] = (int32_t)at;
        } else {
            wide[i] = at;
        }
    }
}

weft_status weft__cpu_bounded_index(const weft_call *call)
{
    const weft_bounds_params *p = call->params;
    const weft_tensor *in = &call->in[0];
    int64_t size = weft_tensor_size(in), bad = size;
    if (p->mode == WEFT_BOUNDS_CHECK && (weft_index_checks() || p->length == 0)) {
        bad = first_bad(in, size, p->length);
    }
    if (bad < size) {
        return out_of_range(call, weft__cpu_index_value(in->dtype, in->data, bad), p->length);
    }
    weft__cpu_parallel(size, GRAIN_BYTES / 8, bound_indices, (void *)call);
    return WEFT_OK;
}
