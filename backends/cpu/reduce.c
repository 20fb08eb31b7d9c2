/* backends/cpu/reduce.c -- sum, mean, max and min over any axes of strided input.
 *
 * Elements are reduced in a double per output, so a sum is rounded once. The reduced elements of an
 * output are cut into parts by shape alone, and the parts join in order: the result does not depend
 * on the number of threads. Either whole rows are reduced (the reduced elements lie together), or
 * blocks of columns side by side (the outputs do).
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/structure.h"
#include "weft/op_params.h"

enum { ROW_PART = 1 << 16, COLUMN_PART = 1 << 11, COLUMNS = 512, PIECE = 512, GRAIN = 1 << 14 };

typedef enum kind { SUM, MAX, MIN } kind;

/* Axes joined where they follow one another in memory. */
typedef struct axes {
    int n;
    int64_t size, dims[WEFT_MAX_DIMS], strides[WEFT_MAX_DIMS];
} axes;

typedef struct reduction {
    kind kind;
    weft_dtype dtype;
    const char *x;
    axes kept, reduced;
    bool columns;        /* the innermost kept axis is taken in blocks */
    int64_t width;       /* of that axis */
    int64_t blocks;      /* of it */
    int64_t part, parts; /* elements of a part, parts of an output */
    double *partials;    /* parts x outputs */
    int64_t outputs;
    double scale;
    const weft_tensor *out;
} reduction;

static void add_axis(axes *a, int64_t dim, int64_t stride)
{
    int last = a->n - 1;
    a->size *= dim;
    if (dim == 1) {
        return;
    }
    if (a->n > 0 && a->strides[last] == stride * dim) {
        a->dims[last] *= dim;
    } else {
        last = a->n++;
        a->dims[last] = dim;
    }
    a->strides[last] = stride;
}

static int64_t offset_of(const axes *a, int64_t index)
{
    int64_t offset = 0;
    for (int d = a->n - 1; d >= 0; d--) {
        offset += index % a->dims[d] * a->strides[d];
        index /= a->dims[d];
    }
    return offset;
}

/* Everything that follows from the shapes. */
static reduction plan(const weft_call *call)
{
    const weft_reduce_params *p = call->params;
    const weft_tensor *in = &call->in[0];
    reduction r = {.dtype = in->dtype, .kept = {.size = 1}, .reduced = {.size = 1}, .scale = 1};
    for (int d = 0, next = 0; d < in->shape.n; d++) {
        bool reduces = next < p->axes.n && p->axes.at[next] == d - in->shape.n;
        next += reduces;
        add_axis(reduces ? &r.reduced : &r.kept, in->shape.at[d], in->strides[d]);
    }
    int inner = r.kept.n - 1, run = r.reduced.n - 1;
    r.columns =
        inner >= 0 && r.kept.strides[inner] == 1 && (run < 0 || r.reduced.strides[run] != 1);
    r.width = r.columns ? r.kept.dims[inner] : 1;
    r.blocks = (r.width + COLUMNS - 1) / COLUMNS;
    r.part = r.columns ? COLUMN_PART : ROW_PART;
    r.parts = r.reduced.size ? (r.reduced.size + r.part - 1) / r.part : 1;
    r.outputs = r.kept.size;
    r.x = in->data;
    r.out = &call->out[0];
    return r;
}

int64_t weft__cpu_reduce_workspace(const weft_call *call)
{
    reduction r = plan(call);
    return r.parts > 1 ? r.parts * r.outputs * (int64_t)sizeof(double) : 0;
}

static double neutral(kind k)
{
    return k == SUM ? 0 : k == MAX ? -INFINITY : INFINITY;
}

static double join(kind k, double a, double b)
{
    switch (k) {
    case SUM:
        return a + b;
    case MAX:
        return a > b || isnan(a) ? a : b;
    default:
        return a < b || isnan(a) ? a : b;
    }
}

/* n <= PIECE elements as float32. */
static const float *piece(const reduction *r, int64_t first, int64_t stride, int64_t n, float *room)
{
    if (stride == 1) {
        return weft__cpu_floats(r->dtype, r->x, first, n, room);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = first + i * stride;
        room[i] = r->dtype == WEFT_FLOAT32 ? ((const float *)(const void *)r->x)[at]
                  : r->dtype == WEFT_FLOAT16
                      ? weft_float16_to_float(((const uint16_t *)(const void *)r->x)[at])
                      : weft_bfloat16_to_float(((const uint16_t *)(const void *)r->x)[at]);
    }
    return room;
}

static double reduce_piece(kind k, const float *x, int64_t n)
{
    const cpu_kernels *table = weft__cpu_kernels();
    return k == SUM   ? table->sum_row(x, n)
           : k == MAX ? (double)table->max_row(x, n)
                      : (double)table->min_row(x, n);
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Elements [begin, end) of those that are reduced into the output whose elements begin at base. */
static double reduce_range(const reduction *r, int64_t base, int64_t begin, int64_t end)
{
    int run = r->reduced.n - 1;
    int64_t length = run >= 0 ? r->reduced.dims[run] : 1;
    int64_t stride = run >= 0 ? r->reduced.strides[run] : 1;
    double result = neutral(r->kind);
    float room[PIECE];
    while (begin < end) {
        int64_t n = length - begin % length;
        n = n < end - begin ? n : end - begin;
        n = n < PIECE ? n : PIECE;
        const float *x = piece(r, base + offset_of(&r->reduced, begin), stride, n, room);
        result = join(r->kind, result, reduce_piece(r->kind, x, n));
        begin += n;
    }
    return result;
}

/* A float32 row that lies together needs no cutting into pieces. */
static double reduce_row(const reduction *r, int64_t base, int64_t begin, int64_t end)
{
    if (r->dtype == WEFT_FLOAT32 && r->reduced.n == 1 && r->reduced.strides[0] == 1) {
        const float *x = (const float *)(const void *)r->x;
        return reduce_piece(r->kind, x + base + begin, end - begin);
    }
    return reduce_range(r, base, begin, end);
}

static void finish(const reduction *r, int64_t o, double value)
{
    float result = (float)(value * r->scale);
    weft__cpu_store(r->out->dtype, &result, r->out->data, o, 1);
}

static void reduce_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const reduction *r = context;
    (void)worker;
    for (int64_t task = begin; task < end; task++) {
        int64_t o = task / r->parts, part = task % r->parts;
        int64_t first = part * r->part, last = first + r->part;
        last = last < r->reduced.size ? last : r->reduced.size;
        double value = reduce_row(r, offset_of(&r->kept, o), first, last);
        if (r->parts > 1) {
            r->partials[part * r->outputs + o] = value;
        } else {
            finish(r, o, value);
        }
    }
}

/* ---- columns -------------------------------------------------------------------------------- */

static void reduce_block(const reduction *r, int64_t row, int64_t block, int64_t part)
{
    const cpu_kernels *table = weft__cpu_kernels();
    void (*join_row)(double *, const float *, int64_t) = r->kind == SUM   ? table->sum_columns
                                                         : r->kind == MAX ? table->max_columns
                                                                          : table->min_columns;
    int64_t column = block * COLUMNS, first = part * r->part, last = first + r->part;
    int64_t n = r->width - column < COLUMNS ? r->width - column : COLUMNS;
    int64_t o = row * r->width + column, base = offset_of(&r->kept, o);
    double sums[COLUMNS];
    float room[COLUMNS];
    last = last < r->reduced.size ? last : r->reduced.size;
    for (int64_t i = 0; i < n; i++) {
        sums[i] = neutral(r->kind);
    }
    for (int64_t k = first; k < last; k++) {
        join_row(sums, piece(r, base + offset_of(&r->reduced, k), 1, n, room), n);
    }
    if (r->parts > 1) {
        memcpy(r->partials + part * r->outputs + o, sums, (size_t)n * sizeof *sums);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        room[i] = (float)(sums[i] * r->scale);
    }
    weft__cpu_store(r->out->dtype, room, r->out->data, o, n);
}

static void reduce_columns(void *context, int64_t begin, int64_t end, int worker)
{
    const reduction *r = context;
    (void)worker;
    for (int64_t task = begin; task < end; task++) {
        int64_t part = task % r->parts, block = task / r->parts % r->blocks;
        reduce_block(r, task / r->parts / r->blocks, block, part);
    }
}

/* ---- both ----------------------------------------------------------------------------------- */

static void join_parts(void *context, int64_t begin, int64_t end, int worker)
{
    const reduction *r = context;
    (void)worker;
    for (int64_t o = begin; o < end; o++) {
        double value = r->partials[o];
        for (int64_t part = 1; part < r->parts; part++) {
            value = join(r->kind, value, r->partials[part * r->outputs + o]);
        }
        finish(r, o, value);
    }
}

static weft_status reduce(const weft_call *call, kind k, bool mean)
{
    reduction r = plan(call);
    r.kind = k;
    r.scale = mean ? 1 / (double)r.reduced.size : 1;
    r.partials = call->workspace;
    int64_t part = r.reduced.size < r.part ? r.reduced.size : r.part;
    if (r.columns) {
        int64_t columns = r.width < COLUMNS ? r.width : COLUMNS;
        weft__cpu_parallel(r.outputs / r.width * r.blocks * r.parts, GRAIN / (part * columns + 1),
                           reduce_columns, &r);
    } else {
        weft__cpu_parallel(r.outputs * r.parts, GRAIN / (part + 16), reduce_rows, &r);
    }
    if (r.parts > 1) {
        weft__cpu_parallel(r.outputs, GRAIN / r.parts, join_parts, &r);
    }
    return WEFT_OK;
}

weft_status weft__cpu_sum(const weft_call *call)
{
    return reduce(call, SUM, false);
}

weft_status weft__cpu_mean(const weft_call *call)
{
    return reduce(call, SUM, true);
}

weft_status weft__cpu_max(const weft_call *call)
{
    return reduce(call, MAX, false);
}

weft_status weft__cpu_min(const weft_call *call)
{
    return reduce(call, MIN, false);
}
