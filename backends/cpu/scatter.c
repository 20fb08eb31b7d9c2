/* backends/cpu/scatter.c -- kernels that write at indices: sums, products, extremes, and
 * replacement, where the last value wins. The work is divided by destination, so values for one
 * destination are applied in index order for any number of threads. */
#include <math.h>
#include <string.h>

#include "backends/cpu/indices.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/structure.h"
#include "weft/op_params.h"

enum { GRAIN_BYTES = 1 << 16, COLUMNS = 512 };

/* The data of the tasks. */
typedef struct scattering {
    const weft_call *call;
    weft_combine combine;
    cpu_extents e;                 /* of x */
    int64_t count;                 /* indices: all of them, or those along the axis */
    int64_t size;                  /* bytes per element */
    const int64_t *order, *starts; /* slices: positions in the indices, sorted by destination */
    int64_t blocks;                /* elements: number of blocks of columns */
    float *sums;                   /* 16-bit elements: x in float32 */
} scattering;

/* ---- rows of one dtype ---------------------------------------------------------------------- */

#define DEFINE_COMBINE(T, WIDE, FROM_WINS)                                                         \
    static void combine_##T(weft_combine combine, T *to, const T *from, int64_t n)                 \
    {                                                                                              \
        switch (combine) {                                                                         \
        case WEFT_COMBINE_PUT:                                                                     \
            memcpy(to, from, (size_t)n * sizeof *to);                                              \
            break;                                                                                 \
        case WEFT_COMBINE_ADD:                                                                     \
            for (int64_t i = 0; i < n; i++) {                                                      \
                to[i] = (T)((WIDE)to[i] + (WIDE)from[i]);                                          \
            }                                                                                      \
            break;                                                                                 \
        case WEFT_COMBINE_PROD:                                                                    \
            for (int64_t i = 0; i < n; i++) {                                                      \
                to[i] = (T)((WIDE)to[i] * (WIDE)from[i]);                                          \
            }                                                                                      \
            break;                                                                                 \
        case WEFT_COMBINE_MAX:                                                                     \
            for (int64_t i = 0; i < n; i++) {                                                      \
                to[i] = from[i] > to[i] || FROM_WINS ? from[i] : to[i];                            \
            }                                                                                      \
            break;                                                                                 \
        case WEFT_COMBINE_MIN:                                                                     \
            for (int64_t i = 0; i < n; i++) {                                                      \
                to[i] = from[i] < to[i] || FROM_WINS ? from[i] : to[i];                            \
            }                                                                                      \
            break;                                                                                 \
        }                                                                                          \
    }

DEFINE_COMBINE(double, double, (from[i] != from[i] && to[i] == to[i]))
DEFINE_COMBINE(float, float, (from[i] != from[i] && to[i] == to[i]))
DEFINE_COMBINE(uint8_t, uint64_t, false)
DEFINE_COMBINE(uint16_t, uint64_t, false)
DEFINE_COMBINE(uint32_t, uint64_t, false)
DEFINE_COMBINE(uint64_t, uint64_t, false)
DEFINE_COMBINE(int8_t, uint64_t, false)
DEFINE_COMBINE(int16_t, uint64_t, false)
DEFINE_COMBINE(int32_t, uint64_t, false)
DEFINE_COMBINE(int64_t, uint64_t, false)
#undef DEFINE_COMBINE

/* Combines n elements of `from` into `to`; 16-bit floats can only be replaced. */
static void combine_row(weft_dtype dtype, weft_combine combine, void *to, const void *from,
                        int64_t n)
{
    switch (dtype) {
    case WEFT_FLOAT64:
        combine_double(combine, to, from, n);
        break;
    case WEFT_FLOAT32:
        combine_float(combine, to, from, n);
        break;
    case WEFT_UINT8:
        combine_uint8_t(combine, to, from, n);
        break;
    case WEFT_UINT16:
        combine_uint16_t(combine, to, from, n);
        break;
    case WEFT_UINT32:
        combine_uint32_t(combine, to, from, n);
        break;
    case WEFT_UINT64:
        combine_uint64_t(combine, to, from, n);
        break;
    case WEFT_INT8:
        combine_int8_t(combine, to, from, n);
        break;
    case WEFT_INT16:
        combine_int16_t(combine, to, from, n);
        break;
    case WEFT_INT32:
        combine_int32_t(combine, to, from, n);
        break;
    case WEFT_INT64:
        combine_int64_t(combine, to, from, n);
        break;
    default:
        memcpy(to, from, (size_t)n * weft_dtype_size(dtype));
        break;
    }
}

/* ---- slices: scatter_add and scatter -------------------------------------------------------- */

/* Space for the positions in the indices sorted by destination, and for the start of each
 * destination's. */
int64_t weft__cpu_scatter_workspace(const weft_call *call)
{
    const weft_axis_params *p = call->params; /* weft_scatter_params also begins with the axis */
    int64_t length = weft__cpu_extents_of(&call->in[0], p->axis).length;
    return (weft_tensor_size(&call->in[1]) + length + 2) * (int64_t)sizeof(int64_t);
}

/* A stable counting sort, which keeps the index order within a destination. */
static void sort_by_destination(const weft_call *call, int64_t length, int64_t count,
                                int64_t *order, int64_t *starts)
{
    memset(starts, 0, (size_t)(length + 2) * sizeof *starts);
    for (int64_t i = 0; i < count; i++) {
        starts[weft__cpu_clamped_index(&call->in[1], i, length) + 2]++;
    }
    for (int64_t d = 2; d < length + 2; d++) {
        starts[d] += starts[d - 1];
    }
    for (int64_t i = 0; i < count; i++) {
        order[starts[weft__cpu_clamped_index(&call->in[1], i, length) + 1]++] = i;
    }
}

/* The element of the values at which item k of destination slice d begins. */
static int64_t item_row(const scattering *s, int64_t d, int64_t k)
{
    return (d / s->e.length * s->count + s->order[k]) * s->e.inner;
}

/* Destination slice d of floats of at most 32 bits: sums or products in double, rounded once. */
static void combine_narrow(const scattering *s, int64_t d)
{
    const weft_call *call = s->call;
    weft_dtype dtype = call->in[0].dtype;
    int64_t at = d % s->e.length;
    float room[COLUMNS];
    double sums[COLUMNS];
    for (int64_t c = 0; c < s->e.inner; c += COLUMNS) {
        int64_t n = s->e.inner - c < COLUMNS ? s->e.inner - c : COLUMNS;
        int64_t first = d * s->e.inner + c;
        const float *x = weft__cpu_floats(dtype, call->in[0].data, first, n, room);
        for (int64_t i = 0; i < n; i++) {
            sums[i] = (double)x[i];
        }
        for (int64_t k = s->starts[at]; k < s->starts[at + 1]; k++) {
            const float *v =
                weft__cpu_floats(dtype, call->in[2].data, item_row(s, d, k) + c, n, room);
            if (s->combine == WEFT_COMBINE_ADD) {
                weft__cpu_kernels()->sum_columns(sums, v, n);
                continue;
            }
            double wide[COLUMNS];
            for (int64_t i = 0; i < n; i++) {
                wide[i] = (double)v[i];
            }
            combine_double(s->combine, sums, wide, n);
        }
        for (int64_t i = 0; i < n; i++) {
            room[i] = (float)sums[i];
        }
        weft__cpu_store(dtype, room, call->out[0].data, first, n);
    }
}

static void combine_slices(void *context, int64_t begin, int64_t end, int worker)
{
    const scattering *s = context;
    weft_dtype dtype = s->call->in[0].dtype;
    bool puts = s->combine == WEFT_COMBINE_PUT, narrow = weft__cpu_is_narrow(s->call) && !puts;
    int64_t bytes = s->e.inner * s->size;
    const char *x = s->call->in[0].data, *values = s->call->in[2].data;
    char *out = s->call->out[0].data;
    (void)worker;
    for (int64_t d = begin; d < end; d++) {
        int64_t first = s->starts[d % s->e.length], last = s->starts[d % s->e.length + 1];
        if (first < last && narrow) {
            combine_narrow(s, d);
            continue;
        }
        if (x != out && (first == last || !puts)) {
            memcpy(out + d * bytes, x + d * bytes, (size_t)bytes);
        }
        for (int64_t k = puts && first < last ? last - 1 : first; k < last; k++) {
            combine_row(dtype, s->combine, out + d * bytes, values + item_row(s, d, k) * s->size,
                        s->e.inner);
        }
    }
}

static weft_status scatter(const weft_call *call, int64_t axis, weft_combine combine)
{
    scattering s = {
        .call = call, .combine = combine, .e = weft__cpu_extents_of(&call->in[0], axis)};
    weft_status status = weft__cpu_check_indices(call, s.e.length);
    if (status != WEFT_OK) {
        return status;
    }
    int64_t *starts = call->workspace, *order = starts + s.e.length + 2;
    s.count = weft_tensor_size(&call->in[1]);
    s.size = (int64_t)weft_dtype_size(call->in[0].dtype);
    sort_by_destination(call, s.e.length, s.count, order, starts);
    s.starts = starts;
    s.order = order;
    weft__cpu_parallel(s.e.outer * s.e.length, GRAIN_BYTES / (s.e.inner * s.size + 16),
                       combine_slices, &s);
    return WEFT_OK;
}

weft_status weft__cpu_scatter_add(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    return scatter(call, p->axis, WEFT_COMBINE_ADD);
}

/* Complex numbers can only be replaced here. */
bool weft__cpu_scatter_fits(const weft_call *call)
{
    const weft_scatter_params *p = call->params;
    return call->in[0].dtype != WEFT_COMPLEX64 || p->combine == WEFT_COMBINE_PUT;
}

weft_status weft__cpu_scatter(const weft_call *call)
{
    const weft_scatter_params *p = call->params;
    return scatter(call, p->axis, (weft_combine)p->combine);
}

/* ---- elements: scatter_add_along_axis and put_along_axis ------------------------------------ */

static bool sums_apart(const weft_call *call)
{
    weft_dtype dtype = call->in[0].dtype;
    return dtype == WEFT_FLOAT16 || dtype == WEFT_BFLOAT16;
}

int64_t weft__cpu_scatter_along_workspace(const weft_call *call)
{
    return sums_apart(call) ? weft_tensor_size(&call->in[0]) * (int64_t)sizeof(float) : 0;
}

/* Whether indices [from, from + n), n > 0, are the same bytes. */
static bool are_equal(const weft_tensor *indices, int64_t from, int64_t n)
{
    const size_t size = weft_dtype_size(indices->dtype);
    const char *first = (const char *)indices->data + from * (int64_t)size;
    return memcmp(first, first + size, (size_t)(n - 1) * size) == 0;
}

/* Combines values [from + c, from + c + n), one per column, into `slice`. Replacing a whole row,
 * summing float32 and replacing 4-byte elements have separate loops: one call per element costs
 * five times as much. */
static void combine_elements_of_row(const scattering *s, char *slice, const char *values,
                                    int64_t from, int64_t c, int64_t n)
{
    const weft_tensor *indices = &s->call->in[1];
    weft_dtype dtype = s->call->in[0].dtype;
    int64_t inner = s->e.inner, size = s->size;
    if (s->combine == WEFT_COMBINE_PUT && are_equal(indices, from + c, n)) {
        int64_t at = weft__cpu_clamped_index(indices, from + c, s->e.length);
        memcpy(slice + (at * inner + c) * size, values + (from + c) * size, (size_t)(n * size));
    } else if (dtype == WEFT_FLOAT32 && s->combine == WEFT_COMBINE_ADD) {
        float *to = (float *)(void *)slice;
        const float *v = (const float *)(const void *)values;
        for (int64_t i = c; i < c + n; i++) {
            to[weft__cpu_clamped_index(indices, from + i, s->e.length) * inner + i] += v[from + i];
        }
    } else if (size == 4 && s->combine == WEFT_COMBINE_PUT) {
        uint32_t *to = (uint32_t *)(void *)slice;
        const uint32_t *v = (const uint32_t *)(const void *)values;
        for (int64_t i = c; i < c + n; i++) {
            to[weft__cpu_clamped_index(indices, from + i, s->e.length) * inner + i] = v[from + i];
        }
    } else {
        for (int64_t i = c; i < c + n; i++) {
            int64_t at = weft__cpu_clamped_index(indices, from + i, s->e.length);
            combine_row(dtype, s->combine, slice + (at * inner + i) * size,
                        values + (from + i) * size, 1);
        }
    }
}

/* Columns [c, c + n) of slice `outer`, for dtypes that are combined in place. */
static void combine_columns(const scattering *s, int64_t outer, int64_t c, int64_t n)
{
    const weft_call *call = s->call;
    int64_t slice = outer * s->e.length * s->e.inner, size = s->size;
    const char *x = call->in[0].data, *values = call->in[2].data;
    char *out = call->out[0].data;
    for (int64_t at = 0; x != out && at < s->e.length; at++) {
        int64_t first = (slice + at * s->e.inner + c) * size;
        memcpy(out + first, x + first, (size_t)(n * size));
    }
    for (int64_t k = 0; k < s->count; k++) {
        int64_t from = (outer * s->count + k) * s->e.inner;
        combine_elements_of_row(s, out + slice * size, values, from, c, n);
    }
}

/* The same for dtypes that are summed separately in float32 and rounded once. */
static void add_columns_apart(const scattering *s, int64_t outer, int64_t c, int64_t n)
{
    const weft_call *call = s->call;
    weft_dtype dtype = call->in[0].dtype;
    int64_t slice = outer * s->e.length * s->e.inner;
    float *sums = s->sums, room[COLUMNS];
    for (int64_t at = 0; at < s->e.length; at++) {
        int64_t first = slice + at * s->e.inner + c;
        weft__cpu_floats(dtype, call->in[0].data, first, n, sums + first);
    }
    for (int64_t k = 0; k < s->count; k++) {
        int64_t from = (outer * s->count + k) * s->e.inner + c;
        const float *v = weft__cpu_floats(dtype, call->in[2].data, from, n, room);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = weft__cpu_clamped_index(&call->in[1], from + i, s->e.length);
            sums[slice + at * s->e.inner + c + i] += v[i];
        }
    }
    for (int64_t at = 0; at < s->e.length; at++) {
        int64_t first = slice + at * s->e.inner + c;
        weft__cpu_store(dtype, sums + first, call->out[0].data, first, n);
    }
}

static void combine_elements(void *context, int64_t begin, int64_t end, int worker)
{
    const scattering *s = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t outer = i / s->blocks, c = i % s->blocks * COLUMNS;
        int64_t n = s->e.inner - c < COLUMNS ? s->e.inner - c : COLUMNS;
        if (s->sums) {
            add_columns_apart(s, outer, c, n);
        } else {
            combine_columns(s, outer, c, n);
        }
    }
}

static weft_status scatter_along(const weft_call *call, weft_combine combine)
{
    const weft_axis_params *p = call->params;
    scattering s = {
        .call = call, .combine = combine, .e = weft__cpu_extents_of(&call->in[0], p->axis)};
    weft_status status = weft__cpu_check_indices(call, s.e.length);
    if (status == WEFT_OK) {
        s.count = weft__cpu_extents_of(&call->in[1], p->axis).length;
        s.size = (int64_t)weft_dtype_size(call->in[0].dtype);
        s.blocks = (s.e.inner + COLUMNS - 1) / COLUMNS;
        s.sums = combine == WEFT_COMBINE_ADD && sums_apart(call) ? call->workspace : NULL;
        int64_t columns = s.e.inner < COLUMNS ? s.e.inner : COLUMNS;
        int64_t work = (s.count + s.e.length) * columns * s.size;
        weft__cpu_parallel(s.e.outer * s.blocks, GRAIN_BYTES / (work + 1), combine_elements, &s);
    }
    return status;
}

weft_status weft__cpu_scatter_add_along_axis(const weft_call *call)
{
    return scatter_along(call, WEFT_COMBINE_ADD);
}

weft_status weft__cpu_put_along_axis(const weft_call *call)
{
    return scatter_along(call, WEFT_COMBINE_PUT);
}
