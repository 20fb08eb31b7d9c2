/* backends/cpu/reduce.c -- sum, mean, variance, product, extremes, all and any over any axes of
 * strided input.
 *
 * Elements are reduced in a double per output (integers: in 64 bits), so a sum is rounded once. The
 * reduced elements of an output are divided into parts by shape only, and the parts are combined in
 * order, so the result does not depend on the number of threads. Either whole rows are reduced (the
 * reduced elements are contiguous), or blocks of columns (the outputs are contiguous). The elements
 * of a formula are computed into a window that moves with the reading position.
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/elementwise.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/sizes.h"
#include "backends/cpu/structure.h"
#include "weft/op_params.h"

enum {
    ROW_PART = 1 << 16,
    COLUMN_PART = 1 << 11,
    COLUMNS = 512,
    FEW_COLUMNS = 8, /* with fewer columns, strided rows are faster */
    PIECE = 512,
    GRAIN = 1 << 14,
    FORMULA_SIZE = 1 << 12 /* number of elements from which computing them while reading pays */
};

/* The type in which elements are reduced: float (with separate kernels), double, 64-bit integer, or
 * whether they are nonzero. */
typedef enum domain { FLOATS, REALS, WHOLES, TRUTHS } domain;

typedef union cell {
    double real;
    int64_t whole;
} cell;

/* Axes, merged where they are contiguous with each other. */
typedef struct axes {
    int n;
    int64_t size, dims[WEFT_MAX_DIMS], strides[WEFT_MAX_DIMS];
} axes;

/* Computed elements [begin, end) of a formula. */
typedef struct window {
    float *at;
    int64_t begin, end;
    int64_t limit; /* end of the elements that this task reads in order */
} window;

typedef struct reduction {
    cpu_fold fold;
    domain domain;
    bool turned; /* uint64 extremes: the top bit is flipped, so that signed comparison works */
    weft_dtype dtype;
    const char *x;
    axes kept, reduced;
    bool columns;        /* the innermost kept axis is processed in blocks */
    int64_t width;       /* of that axis */
    int64_t blocks;      /* of it */
    int64_t part, parts; /* elements per part, parts per output */
    cell *partials;      /* parts x outputs */
    double *means;       /* of the outputs, when squares of deviations are summed; else NULL */
    int64_t outputs;
    double scale;
    double *results; /* destination of the results instead of `out`, or NULL */
    const weft_tensor *out;
    const cpu_source *source; /* source of the elements instead of x, or NULL */
    int64_t window_size;
    float *windows; /* per worker */
    window *window; /* of this task */
} reduction;

typedef union room {
    float floats[PIECE];
    double reals[PIECE];
    int64_t wholes[PIECE];
} room;

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

/* Computes everything that follows from the shapes. weft_var_params begin like weft_reduce_params.
 */
static reduction plan(const weft_call *call)
{
    const weft_reduce_params *p = call->params;
    const weft_tensor *in = call->formula ? &call->formula->x : &call->in[0];
    reduction r = {.dtype = in->dtype, .kept = {.size = 1}, .reduced = {.size = 1}, .scale = 1};
    for (int d = 0, next = 0; d < in->shape.n; d++) {
        bool reduces = next < p->axes.n && p->axes.at[next] == d - in->shape.n;
        next += reduces;
        add_axis(reduces ? &r.reduced : &r.kept, in->shape.at[d], in->strides[d]);
    }
    int inner = r.kept.n - 1, run = r.reduced.n - 1;
    r.columns = inner >= 0 && r.kept.strides[inner] == 1 && r.kept.dims[inner] >= FEW_COLUMNS &&
                (run < 0 || r.reduced.strides[run] != 1);
    r.width = r.columns ? r.kept.dims[inner] : 1;
    r.blocks = (r.width + COLUMNS - 1) / COLUMNS;
    r.part = r.columns ? COLUMN_PART : ROW_PART;
    r.parts = r.reduced.size ? (r.reduced.size + r.part - 1) / r.part : 1;
    r.outputs = r.kept.size;
    r.x = in->data;
    r.out = &call->out[0];
    r.window_size = r.columns || r.reduced.size < GRAIN ? GRAIN : r.part;
    return r;
}

static int64_t partial_bytes(const reduction *r)
{
    int64_t bytes = r->parts > 1 ? r->parts * r->outputs * (int64_t)sizeof(cell) : 0;
    return (bytes + 63) / 64 * 64;
}

bool weft__cpu_is_not_complex(const weft_call *call)
{
    return call->in[0].dtype != WEFT_COMPLEX64;
}

int64_t weft__cpu_reduce_workspace(const weft_call *call)
{
    reduction r = plan(call);
    int64_t bytes = call->formula ? r.window_size * (int64_t)sizeof(float) : 0;
    return partial_bytes(&r) + weft__cpu_workers() * bytes;
}

/* The reduced elements must be contiguous, or within one block of columns: pieces of wider rows are
 * too short to be computed one by one. */
bool weft__cpu_reduce_takes_formula(const weft_call *call)
{
    reduction r = plan(call);
    bool together = r.reduced.n == 1 && r.reduced.strides[0] == 1;
    bool simple = r.columns ? r.reduced.n <= 1 && r.blocks == 1 : r.reduced.n == 0 || together;
    return simple && weft__cpu_is_narrow(call) && weft_tensor_size(&call->in[0]) >= FORMULA_SIZE;
}

/* Also has space for the means. */
int64_t weft__cpu_var_workspace(const weft_call *call)
{
    reduction r = plan(call);
    return (r.parts > 1 ? r.parts + 1 : 1) * r.outputs * (int64_t)sizeof(cell);
}

static bool is_real(const reduction *r)
{
    return r->domain <= REALS;
}

static cell neutral(const reduction *r)
{
    static const double reals[] = {0, 1, -INFINITY, INFINITY};
    static const int64_t wholes[] = {0, 1, INT64_MIN, INT64_MAX};
    if (r->domain == TRUTHS) {
        return (cell){.whole =
                          r->fold == CPU_MIN}; /* "all" of no elements is true, "any" is false */
    }
    return is_real(r) ? (cell){.real = reals[r->fold]} : (cell){.whole = wholes[r->fold]};
}

static cell join(const reduction *r, cell a, cell b)
{
    const cpu_kernels *table = weft__cpu_kernels();
    if (is_real(r)) {
        table->fold_reals_across(r->fold, &a.real, &b.real, 1);
    } else {
        table->fold_wholes_across(r->fold, &a.whole, &b.whole, 1);
    }
    return a;
}

/* ---- pieces --------------------------------------------------------------------------------- */

/* n elements from `first` on, in the window, together with those that are read next. */
static const float *compute_floats(const reduction *r, int64_t first, int64_t n)
{
    window *w = r->window;
    if (first < w->begin || first + n > w->end) {
        int64_t most = w->limit - first < r->window_size ? w->limit - first : r->window_size;
        w->begin = first;
        w->end = first + (most < n ? n : most);
        weft__cpu_source_read(r->source, first, w->end - first, w->at);
    }
    return w->at + (first - w->begin);
}

static const float *load_floats(const reduction *r, int64_t first, int64_t stride, int64_t n,
                                float *to)
{
    if (r->source) {
        return compute_floats(r, first, n);
    }
    if (stride == 1) {
        return weft__cpu_floats(r->dtype, r->x, first, n, to);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = first + i * stride;
        to[i] = r->dtype == WEFT_FLOAT32 ? ((const float *)(const void *)r->x)[at]
                : r->dtype == WEFT_FLOAT16
                    ? weft_float16_to_float(((const uint16_t *)(const void *)r->x)[at])
                    : weft_bfloat16_to_float(((const uint16_t *)(const void *)r->x)[at]);
    }
    return to;
}

static const double *load_reals(const reduction *r, int64_t first, int64_t stride, int64_t n,
                                double *to)
{
    const char *x = r->x + first * (int64_t)weft_dtype_size(r->dtype);
    if (stride == 1 && r->dtype == WEFT_FLOAT64) {
        return (const double *)(const void *)x;
    }
    weft__cpu_kernels()->load_reals(r->dtype, x, stride, to, n);
    return to;
}

static const int64_t *load_wholes(const reduction *r, int64_t first, int64_t stride, int64_t n,
                                  int64_t *to)
{
    const char *x = r->x + first * (int64_t)weft_dtype_size(r->dtype);
    if (r->domain == TRUTHS) {
        weft__cpu_kernels()->load_truths(r->dtype, x, stride, to, n);
    } else {
        weft__cpu_kernels()->load_wholes(r->dtype, x, stride, to, n);
    }
    for (int64_t i = 0; r->turned && i < n; i++) {
        to[i] ^= INT64_MIN;
    }
    return to;
}

static double reduce_floats(cpu_fold fold, const float *x, int64_t n)
{
    const cpu_kernels *table = weft__cpu_kernels();
    return fold == CPU_SUM   ? table->sum_row(x, n)
           : fold == CPU_MAX ? (double)table->max_row(x, n)
                             : (double)table->min_row(x, n);
}

/* Reduces n <= PIECE elements of output o, at intervals of `stride`. */
static cell reduce_piece(const reduction *r, int64_t o, int64_t first, int64_t stride, int64_t n)
{
    const cpu_kernels *table = weft__cpu_kernels();
    room to;
    if (r->means) {
        const double *x = load_reals(r, first, stride, n, to.reals);
        return (cell){.real = table->squares_row(x, r->means[o], n)};
    }
    switch (r->domain) {
    case FLOATS:
        return (cell){.real =
                          reduce_floats(r->fold, load_floats(r, first, stride, n, to.floats), n)};
    case REALS:
        return (cell){.real =
                          table->fold_reals(r->fold, load_reals(r, first, stride, n, to.reals), n)};
    default:
        return (cell){
            .whole = table->fold_wholes(r->fold, load_wholes(r, first, stride, n, to.wholes), n)};
    }
}

/* ---- results -------------------------------------------------------------------------------- */

static void finish_whole(const reduction *r, int64_t o, int64_t value)
{
    value ^= r->turned ? INT64_MIN : 0;
    switch (weft_dtype_size(r->out->dtype)) {
    case 1:
        ((uint8_t *)r->out->data)[o] = (uint8_t)value;
        break;
    case 2:
        ((uint16_t *)r->out->data)[o] = (uint16_t)value;
        break;
    case 4:
        ((uint32_t *)r->out->data)[o] = (uint32_t)value;
        break;
    default:
        ((int64_t *)r->out->data)[o] = value;
    }
}

static void finish(const reduction *r, int64_t o, cell value)
{
    if (!is_real(r)) {
        finish_whole(r, o, value.whole);
        return;
    }
    double result = value.real * r->scale;
    if (r->results) {
        r->results[o] = result;
    } else if (r->out->dtype == WEFT_FLOAT64) {
        ((double *)r->out->data)[o] = result;
    } else {
        float rounded = (float)result;
        weft__cpu_store(r->out->dtype, &rounded, r->out->data, o, 1);
    }
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Reduces elements [begin, end) of output o, whose elements begin at base. */
static cell reduce_range(const reduction *r, int64_t o, int64_t base, int64_t begin, int64_t end)
{
    int run = r->reduced.n - 1;
    int64_t length = run >= 0 ? r->reduced.dims[run] : 1;
    int64_t stride = run >= 0 ? r->reduced.strides[run] : 1;
    cell result = neutral(r);
    while (begin < end) {
        int64_t n = length - begin % length;
        n = n < end - begin ? n : end - begin;
        n = n < PIECE ? n : PIECE;
        int64_t first = base + offset_of(&r->reduced, begin);
        result = join(r, result, reduce_piece(r, o, first, stride, n));
        begin += n;
    }
    return result;
}

/* A contiguous float32 row is not divided into pieces. */
static cell reduce_row(const reduction *r, int64_t o, int64_t base, int64_t begin, int64_t end)
{
    bool together = r->reduced.n == 1 && r->reduced.strides[0] == 1;
    if (r->domain == FLOATS && !r->means && r->dtype == WEFT_FLOAT32 && together) {
        const float *x = load_floats(r, base + begin, 1, end - begin, NULL);
        return (cell){.real = reduce_floats(r->fold, x, end - begin)};
    }
    return reduce_range(r, o, base, begin, end);
}

/* A task's own copy of the reduction, with a window, if elements are computed. */
static const reduction *with_window(const reduction *r, reduction *mine, window *w, int worker)
{
    if (!r->source) {
        return r;
    }
    *mine = *r;
    *w = (window){.at = r->windows + worker * r->window_size};
    mine->window = w;
    return mine;
}

static void reduce_rows(void *context, int64_t begin, int64_t end, int worker)
{
    window w;
    reduction mine;
    const reduction *r = with_window(context, &mine, &w, worker);
    const int64_t row = (end - 1) / r->parts, parts = end - row * r->parts;
    w.limit = row * r->reduced.size + smaller(parts * r->part, r->reduced.size);
    for (int64_t task = begin; task < end; task++) {
        int64_t o = task / r->parts, part = task % r->parts;
        int64_t first = part * r->part, last = first + r->part;
        last = last < r->reduced.size ? last : r->reduced.size;
        cell value = reduce_row(r, o, offset_of(&r->kept, o), first, last);
        if (r->parts > 1) {
            r->partials[part * r->outputs + o] = value;
        } else {
            finish(r, o, value);
        }
    }
}

/* ---- columns -------------------------------------------------------------------------------- */

static void join_floats(const reduction *r, double *sums, const float *x, int64_t n)
{
    const cpu_kernels *table = weft__cpu_kernels();
    (r->fold == CPU_SUM   ? table->sum_columns
     : r->fold == CPU_MAX ? table->max_columns
                          : table->min_columns)(sums, x, n);
}

/* Combines n outputs from o on with the elements from `first` on. */
static void join_step(const reduction *r, int64_t o, cell *sums, int64_t first, int64_t n)
{
    const cpu_kernels *table = weft__cpu_kernels();
    room to;
    if (r->means) {
        table->squares_across(&sums->real, load_reals(r, first, 1, n, to.reals), r->means + o, n);
    } else if (r->domain == FLOATS) {
        join_floats(r, &sums->real, load_floats(r, first, 1, n, to.floats), n);
    } else if (r->domain == REALS) {
        const double *x = load_reals(r, first, 1, n, to.reals);
        table->fold_reals_across(r->fold, &sums->real, x, n);
    } else {
        const int64_t *x = load_wholes(r, first, 1, n, to.wholes);
        table->fold_wholes_across(r->fold, &sums->whole, x, n);
    }
}

static void reduce_block(const reduction *r, int64_t row, int64_t block, int64_t part)
{
    int64_t column = block * COLUMNS, first = part * r->part, last = first + r->part;
    int64_t n = r->width - column < COLUMNS ? r->width - column : COLUMNS;
    int64_t o = row * r->width + column, base = offset_of(&r->kept, o);
    if (r->window) { /* the elements of one step follow those of the previous one */
        r->window->limit = base + smaller(last, r->reduced.size) * r->width;
    }
    cell sums[COLUMNS];
    last = last < r->reduced.size ? last : r->reduced.size;
    for (int64_t i = 0; i < n; i++) {
        sums[i] = neutral(r);
    }
    for (int64_t k = first; k < last; k++) {
        join_step(r, o, sums, base + offset_of(&r->reduced, k), n);
    }
    if (r->parts > 1) {
        memcpy(r->partials + part * r->outputs + o, sums, (size_t)n * sizeof *sums);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        finish(r, o + i, sums[i]);
    }
}

static void reduce_columns(void *context, int64_t begin, int64_t end, int worker)
{
    window w;
    reduction mine;
    const reduction *r = with_window(context, &mine, &w, worker);
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
        cell value = r->partials[o];
        for (int64_t part = 1; part < r->parts; part++) {
            value = join(r, value, r->partials[part * r->outputs + o]);
        }
        finish(r, o, value);
    }
}

static void run(reduction *r)
{
    int64_t part = r->reduced.size < r->part ? r->reduced.size : r->part;
    if (r->columns) {
        int64_t columns = r->width < COLUMNS ? r->width : COLUMNS;
        weft__cpu_parallel(r->outputs / r->width * r->blocks * r->parts,
                           GRAIN / (part * columns + 1), reduce_columns, r);
    } else {
        weft__cpu_parallel(r->outputs * r->parts, GRAIN / (part + 16), reduce_rows, r);
    }
    if (r->parts > 1) {
        weft__cpu_parallel(r->outputs, GRAIN / r->parts, join_parts, r);
    }
}

static weft_status reduce(const weft_call *call, cpu_fold fold, bool truths, bool mean)
{
    reduction r = plan(call);
    bool narrow = r.dtype == WEFT_FLOAT32 || r.dtype == WEFT_FLOAT16 || r.dtype == WEFT_BFLOAT16;
    r.fold = fold;
    r.domain = truths                          ? TRUTHS
               : !weft_dtype_is_float(r.dtype) ? WHOLES
               : narrow && fold != CPU_PROD    ? FLOATS
                                               : REALS;
    r.turned = r.domain == WHOLES && r.dtype == WEFT_UINT64 && fold >= CPU_MAX;
    r.scale = mean ? 1 / (double)r.reduced.size : 1;
    r.partials = call->workspace;
    if (!call->formula) {
        run(&r);
        return WEFT_OK;
    }
    cpu_source *source = weft__cpu_source_open(call);
    if (!source) {
        return weft_fail(WEFT_MEMORY, "cpu: %s: out of memory", call->op->name);
    }
    r.source = source;
    r.windows = (float *)(void *)((char *)call->workspace + partial_bytes(&r));
    run(&r);
    weft__cpu_source_close(source);
    return WEFT_OK;
}

weft_status weft__cpu_sum(const weft_call *call)
{
    return reduce(call, CPU_SUM, false, false);
}

weft_status weft__cpu_mean(const weft_call *call)
{
    return reduce(call, CPU_SUM, false, true);
}

weft_status weft__cpu_prod(const weft_call *call)
{
    return reduce(call, CPU_PROD, false, false);
}

weft_status weft__cpu_max(const weft_call *call)
{
    return reduce(call, CPU_MAX, false, false);
}

weft_status weft__cpu_min(const weft_call *call)
{
    return reduce(call, CPU_MIN, false, false);
}

weft_status weft__cpu_all(const weft_call *call)
{
    return reduce(call, CPU_MIN, true, false);
}

weft_status weft__cpu_any(const weft_call *call)
{
    return reduce(call, CPU_MAX, true, false);
}

/* Computes the means in double first, then the squares. */
weft_status weft__cpu_var(const weft_call *call)
{
    const weft_var_params *p = call->params;
    reduction r = plan(call);
    double *means = call->workspace;
    double freedom = (double)r.reduced.size - (double)p->ddof;
    r.fold = CPU_SUM;
    r.domain = r.dtype == WEFT_FLOAT64 ? REALS : FLOATS;
    r.partials = (cell *)call->workspace + r.outputs;
    reduction first = r;
    first.scale = 1 / (double)r.reduced.size;
    first.results = means;
    run(&first);
    r.means = means;
    r.scale = 1 / (freedom > 0 ? freedom : 0);
    run(&r);
    return WEFT_OK;
}
