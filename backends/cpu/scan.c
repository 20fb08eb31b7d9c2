/* backends/cpu/scan.c -- cumulative sums, products, extremes and log-sums along any axis, in double
 * (integers: in 64 bits), and linear recurrences.
 *
 * A task scans either a row, in tiles that stay in the L1 cache, or a block of columns. A few long
 * rows are divided into parts by shape: the totals of the parts are computed first, so that all
 * parts can then be scanned in parallel.
 */
#include <math.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/structure.h"
#include "weft/op_params.h"

enum { COLUMNS = 256, TILE = CPU_SCAN_TILE, GRAIN = 1 << 13, FEW_ROWS = 8, PART = 1 << 15 };

typedef union cell {
    double real;
    int64_t whole;
} cell;

/* The state of a scan: the combination of the elements so far. A log-sum is log(scale) + so_far. */
typedef struct state {
    cell so_far;
    double scale;
} state;

typedef struct scan {
    const weft_call *call;
    cpu_fold fold;
    bool logs;  /* log-sums */
    bool whole; /* integers and bool */
    int64_t length, inner, outer, blocks;
    int64_t part, parts; /* of a row */
    state *starts;       /* of the parts */
    bool reverse, inclusive;
} scan;

static bool is_turned(const scan *s)
{
    return s->call->in[0].dtype == WEFT_UINT64 && s->fold >= CPU_MAX;
}

/* ---- loads and stores of n contiguous elements ----------------------------------------------- */

static void load(const scan *s, int input, int64_t first, int64_t n, cell *to)
{
    const weft_tensor *in = &s->call->in[input];
    const char *x = (const char *)in->data + first * (int64_t)weft_dtype_size(in->dtype);
    if (!s->whole) {
        weft__cpu_kernels()->load_reals(in->dtype, x, 1, &to->real, n);
        return;
    }
    weft__cpu_kernels()->load_wholes(in->dtype, x, 1, &to->whole, n);
    for (int64_t i = 0; is_turned(s) && i < n; i++) {
        to[i].whole ^= INT64_MIN;
    }
}

#define STORE(type)                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                              \
        ((type *)out->data)[first + i] = (type)from[i].whole;                                      \
    }                                                                                              \
    break

static void store_wholes(const scan *s, cell *from, int64_t first, int64_t n)
{
    const weft_tensor *out = &s->call->out[0];
    for (int64_t i = 0; is_turned(s) && i < n; i++) {
        from[i].whole ^= INT64_MIN;
    }
    switch (weft_dtype_size(out->dtype)) {
    case 1:
        STORE(uint8_t);
    case 2:
        STORE(uint16_t);
    case 4:
        STORE(uint32_t);
    default:
        STORE(uint64_t);
    }
}
#undef STORE

static void store(const scan *s, cell *from, int64_t first, int64_t n)
{
    const weft_tensor *out = &s->call->out[0];
    float room[TILE];
    if (s->whole) {
        store_wholes(s, from, first, n);
    } else if (out->dtype == WEFT_FLOAT64) {
        for (int64_t i = 0; i < n; i++) {
            ((double *)out->data)[first + i] = from[i].real;
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            room[i] = (float)from[i].real;
        }
        weft__cpu_store(out->dtype, room, out->data, first, n);
    }
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* The initial state of an exclusive scan. For extremes of narrow integers it is the limit of their
 * dtype. */
static state begin_of(const scan *s)
{
    static const double reals[] = {0, 1, -INFINITY, INFINITY};
    weft_dtype dtype = s->call->in[0].dtype;
    state start = {.so_far = {.real = s->logs ? -INFINITY : reals[s->fold]}};
    if (!s->whole) {
        return start;
    }
    int bits = 8 * (int)weft_dtype_size(dtype);
    bool sign = weft_dtype_is_signed(dtype) || bits == 64;
    int64_t most = dtype == WEFT_BOOL ? 1
                   : sign             ? (int64_t)(UINT64_MAX >> (65 - bits))
                                      : (int64_t)(UINT64_MAX >> (64 - bits));
    int64_t least = sign ? -most - 1 : 0;
    start.so_far.whole = s->fold == CPU_SUM    ? 0
                         : s->fold == CPU_PROD ? 1
                         : s->fold == CPU_MAX  ? least
                                               : most;
    return start;
}

static void add_exponential(state *at, double largest, double scale)
{
    double before = at->so_far.real;
    if (largest > before || isnan(largest)) {
        at->scale = (isinf(before) ? 0 : at->scale * exp(before - largest)) + scale;
        at->so_far.real = largest;
    } else {
        at->scale += largest == before ? scale : exp(largest - before) * scale;
    }
}

static double value_of(const state *at)
{
    return isinf(at->so_far.real) ? at->so_far.real : at->so_far.real + log(at->scale);
}

/* Scans a tile of one row, in the order of the scan, from state `a`; x becomes the results. */
#define RUN(member, JOIN)                                                                          \
    for (int64_t i = 0; i < n; i++) {                                                              \
        cell b = x[i];                                                                             \
        x[i] = a;                                                                                  \
        a.member = (JOIN);                                                                         \
        if (inclusive) {                                                                           \
            x[i] = a;                                                                              \
        }                                                                                          \
    }                                                                                              \
    return a

#define LARGER (b.real > a.real || isnan(b.real) ? b.real : a.real)
#define SMALLER (b.real < a.real || isnan(b.real) ? b.real : a.real)

static cell run_reals(cpu_fold fold, bool inclusive, cell a, cell *x, int64_t n)
{
    switch (fold) {
    case CPU_SUM:
        RUN(real, a.real + b.real);
    case CPU_PROD:
        RUN(real, a.real * b.real);
    case CPU_MAX:
        RUN(real, LARGER);
    default:
        RUN(real, SMALLER);
    }
}

static cell run_wholes(cpu_fold fold, bool inclusive, cell a, cell *x, int64_t n)
{
    switch (fold) {
    case CPU_SUM:
        RUN(whole, (int64_t)((uint64_t)a.whole + (uint64_t)b.whole));
    case CPU_PROD:
        RUN(whole, (int64_t)((uint64_t)a.whole * (uint64_t)b.whole));
    case CPU_MAX:
        RUN(whole, b.whole > a.whole ? b.whole : a.whole);
    default:
        RUN(whole, b.whole < a.whole ? b.whole : a.whole);
    }
}
#undef RUN
#undef LARGER
#undef SMALLER

static void run(const scan *s, state *at, cell *x, int64_t n)
{
    if (s->whole) {
        at->so_far = run_wholes(s->fold, s->inclusive, at->so_far, x, n);
        return;
    }
    if (!s->logs) {
        at->so_far = run_reals(s->fold, s->inclusive, at->so_far, x, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        double before = s->inclusive ? 0 : value_of(at);
        add_exponential(at, x[i].real, 1);
        x[i].real = s->inclusive ? value_of(at) : before;
    }
}

static void turn_round(cell *x, int64_t n)
{
    for (int64_t i = 0; i < n / 2; i++) {
        cell swap = x[i];
        x[i] = x[n - 1 - i];
        x[n - 1 - i] = swap;
    }
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* The position in the row of n elements that come after `begin` others in the order of the scan. */
static int64_t place_of(const scan *s, int64_t begin, int64_t n)
{
    return s->reverse ? s->length - begin - n : begin;
}

static int64_t part_end(const scan *s, int64_t part)
{
    int64_t end = (part + 1) * s->part;
    return end < s->length ? end : s->length;
}

/* Computes the totals of the parts. */
static void total_parts(void *context, int64_t first, int64_t last, int worker)
{
    const scan *s = context;
    cell x[TILE];
    (void)worker;
    for (int64_t task = first; task < last; task++) {
        int64_t row = task / s->parts, end = part_end(s, task % s->parts), n;
        state at = begin_of(s);
        for (int64_t k = task % s->parts * s->part; k < end; k += n) {
            n = end - k < TILE ? end - k : TILE;
            load(s, 0, row * s->length + place_of(s, k, n), n, x);
            if (s->logs) {
                for (int64_t i = 0; i < n; i++) {
                    add_exponential(&at, x[s->reverse ? n - 1 - i : i].real, 1);
                }
            } else if (s->whole) {
                int64_t whole = weft__cpu_kernels()->fold_wholes(s->fold, &x->whole, n);
                weft__cpu_kernels()->fold_wholes_across(s->fold, &at.so_far.whole, &whole, 1);
            } else {
                double real = weft__cpu_kernels()->fold_reals(s->fold, &x->real, n);
                weft__cpu_kernels()->fold_reals_across(s->fold, &at.so_far.real, &real, 1);
            }
        }
        s->starts[task] = at;
    }
}

/* Computes the initial state of each part from the totals of the parts of a row. */
static void chain_parts(const scan *s, state *parts)
{
    state at = begin_of(s);
    for (int64_t p = 0; p < s->parts; p++) {
        state own = parts[p];
        parts[p] = at;
        if (s->logs) {
            add_exponential(&at, own.so_far.real, own.scale);
        } else if (s->whole) {
            weft__cpu_kernels()->fold_wholes_across(s->fold, &at.so_far.whole, &own.so_far.whole,
                                                    1);
        } else {
            weft__cpu_kernels()->fold_reals_across(s->fold, &at.so_far.real, &own.so_far.real, 1);
        }
    }
}

static void scan_rows(void *context, int64_t first, int64_t last, int worker)
{
    const scan *s = context;
    cell x[TILE];
    (void)worker;
    for (int64_t task = first; task < last; task++) {
        int64_t row = task / s->parts, end = part_end(s, task % s->parts), n;
        state at = s->parts > 1 ? s->starts[task] : begin_of(s);
        for (int64_t k = task % s->parts * s->part; k < end; k += n) {
            n = end - k < TILE ? end - k : TILE;
            int64_t place = row * s->length + place_of(s, k, n);
            load(s, 0, place, n, x);
            if (s->reverse) {
                turn_round(x, n);
            }
            run(s, &at, x, n);
            if (s->reverse) {
                turn_round(x, n);
            }
            store(s, x, place, n);
        }
    }
}

/* ---- columns -------------------------------------------------------------------------------- */

static void scan_block(const scan *s, int64_t base, int64_t n)
{
    const cpu_kernels *table = weft__cpu_kernels();
    cell so_far[COLUMNS], x[COLUMNS], out[COLUMNS];
    state at[COLUMNS];
    for (int64_t i = 0; i < n; i++) {
        at[i] = begin_of(s);
        so_far[i] = at[i].so_far;
    }
    for (int64_t k = 0; k < s->length; k++) {
        int64_t first = base + (s->reverse ? s->length - 1 - k : k) * s->inner;
        load(s, 0, first, n, x);
        for (int64_t i = 0; i < n; i++) {
            out[i] = so_far[i];
        }
        if (s->logs) {
            for (int64_t i = 0; i < n; i++) {
                run(s, &at[i], &x[i], 1);
            }
            store(s, x, first, n);
            continue;
        }
        if (s->whole) {
            table->fold_wholes_across(s->fold, &so_far->whole, &x->whole, n);
        } else {
            table->fold_reals_across(s->fold, &so_far->real, &x->real, n);
        }
        for (int64_t i = 0; s->inclusive && i < n; i++) {
            out[i] = so_far[i];
        }
        store(s, out, first, n);
    }
}

/* h = a h + b */
static void recur_block(const scan *s, int64_t base, int64_t n)
{
    cell a[COLUMNS], b[COLUMNS], h[COLUMNS] = {{0}}, out[COLUMNS];
    for (int64_t k = 0; k < s->length; k++) {
        int64_t first = base + (s->reverse ? s->length - 1 - k : k) * s->inner;
        load(s, 0, first, n, a);
        load(s, 1, first, n, b);
        for (int64_t i = 0; i < n; i++) {
            h[i].real = a[i].real * h[i].real + b[i].real;
            out[i] = h[i];
        }
        store(s, out, first, n);
    }
}

static void recur_row(const scan *s, int64_t row)
{
    cell a[TILE], b[TILE];
    double h = 0;
    for (int64_t k = 0, n; k < s->length; k += n) {
        n = s->length - k < TILE ? s->length - k : TILE;
        int64_t first = row * s->length + place_of(s, k, n);
        load(s, 0, first, n, a);
        load(s, 1, first, n, b);
        for (int64_t j = 0; j < n; j++) {
            int64_t i = s->reverse ? n - 1 - j : j;
            h = a[i].real * h + b[i].real;
            b[i].real = h;
        }
        store(s, b, first, n);
    }
}

static void scan_blocks(void *context, int64_t begin, int64_t end, int worker)
{
    const scan *s = context;
    (void)worker;
    for (int64_t task = begin; task < end; task++) {
        int64_t column = task % s->blocks * COLUMNS;
        int64_t base = task / s->blocks * s->length * s->inner + column;
        int64_t left = s->inner - column, n = left < COLUMNS ? left : COLUMNS;
        if (s->call->n_inputs == 1) {
            scan_block(s, base, n);
        } else if (s->inner == 1) {
            recur_row(s, task);
        } else {
            recur_block(s, base, n);
        }
    }
}

/* ---- both ----------------------------------------------------------------------------------- */

static scan plan(const weft_call *call)
{
    const weft_scan_params *p = call->params;
    const weft_dims *shape = &call->in[0].shape;
    int64_t axis = p->axis + shape->n;
    scan s = {.call = call, .length = shape->at[axis], .inner = 1, .outer = 1, .parts = 1};
    s.reverse = p->reverse;
    s.inclusive = p->inclusive;
    s.whole = !weft_dtype_is_float(call->in[0].dtype);
    for (int d = 0; d < shape->n; d++) {
        if (d != axis) {
            *(d < axis ? &s.outer : &s.inner) *= shape->at[d];
        }
    }
    s.blocks = (s.inner + COLUMNS - 1) / COLUMNS;
    s.part = s.length;
    if (call->n_inputs == 1 && s.inner == 1 && s.length > 0) {
        s.part = weft__cpu_scan_part(s.length, s.outer);
        s.parts = (s.length + s.part - 1) / s.part;
    }
    return s;
}

int64_t weft__cpu_scan_part(int64_t length, int64_t rows)
{
    return rows < FEW_ROWS && length >= 4 * PART ? PART : length;
}

int64_t weft__cpu_scan_workspace(const weft_call *call)
{
    scan s = plan(call);
    return s.parts > 1 ? s.outer * s.parts * (int64_t)sizeof(state) : 0;
}

static weft_status scan_all(const weft_call *call, cpu_fold fold, bool logs)
{
    scan s = plan(call);
    s.fold = fold;
    s.logs = logs;
    s.starts = call->workspace;
    int64_t cost = logs ? 8 : 1;
    if (s.inner > 1 || call->n_inputs > 1) {
        int64_t columns = s.inner < COLUMNS ? s.inner : COLUMNS;
        weft__cpu_parallel(s.outer * s.blocks, GRAIN / (s.length * columns * cost + 1), scan_blocks,
                           &s);
        return WEFT_OK;
    }
    if (s.parts > 1) {
        weft__cpu_parallel(s.outer * s.parts, 1, total_parts, &s);
        for (int64_t row = 0; row < s.outer; row++) {
            chain_parts(&s, s.starts + row * s.parts);
        }
    }
    weft__cpu_parallel(s.outer * s.parts, GRAIN / (s.part * cost + 1), scan_rows, &s);
    return WEFT_OK;
}

weft_status weft__cpu_cumsum(const weft_call *call)
{
    return scan_all(call, CPU_SUM, false);
}

weft_status weft__cpu_cumprod(const weft_call *call)
{
    return scan_all(call, CPU_PROD, false);
}

weft_status weft__cpu_cummax(const weft_call *call)
{
    return scan_all(call, CPU_MAX, false);
}

weft_status weft__cpu_cummin(const weft_call *call)
{
    return scan_all(call, CPU_MIN, false);
}

weft_status weft__cpu_logcumsumexp(const weft_call *call)
{
    return scan_all(call, CPU_SUM, true);
}

weft_status weft__cpu_linear_scan(const weft_call *call)
{
    return scan_all(call, CPU_SUM, false);
}
