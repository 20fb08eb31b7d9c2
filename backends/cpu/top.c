/* backends/cpu/top.c -- selects the k largest elements of a row, and the smallest logit that top-p
 * keeps.
 *
 * Counting the highest digits of all keys determines from which digit on there are k elements; only
 * elements with that digit or a larger one are sorted. Must equal the ops' expansions, which sort
 * whole rows, bit for bit (tests/cpu/test_top.c): in both, equal keys are ordered by index.
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/structure.h"
#include "weft/op_params.h"

enum {
    SHARE = 8, /* below this share of a row selecting is faster than sorting */
    DIGIT_BITS = 11,
    COUNTERS = 4,
    FEW = 512,      /* number of elements that top-p examines first */
    MORE = 16,      /* factor by which that grows when they are not enough */
    GRAIN = 1 << 12 /* elements per task */
};

typedef struct selecting {
    const weft_call *call;
    int64_t length, rows;
    bool by_row; /* the memory is per row, not per worker */
} selecting;

static selecting plan(const weft_call *call)
{
    const weft_dims *shape = &call->in[0].shape;
    selecting s = {.call = call, .length = shape->at[shape->n - 1]};
    s.rows = s.length ? weft_tensor_size(&call->in[0]) / s.length : 0;
    s.by_row = s.rows < weft__cpu_workers();
    return s;
}

bool weft__cpu_topk_fits(const weft_call *call)
{
    const weft_topk_params *p = call->params;
    return p->axis == -1 && weft_dtype_size(call->in[0].dtype) <= 4 && p->k > 0 &&
           p->k < plan(call).length / SHARE;
}

/* Keys and two lists of items for each worker, or for each row if there are fewer. */
static int64_t words_of(const selecting *s)
{
    return 2 * s->length + (s->length + 1) / 2;
}

int64_t weft__cpu_top_workspace(const weft_call *call)
{
    const selecting s = plan(call);
    const int64_t workers = weft__cpu_workers();
    return words_of(&s) * (s.by_row ? s.rows : workers) * (int64_t)sizeof(uint64_t);
}

/* ---- One row -------------------------------------------------------------------------------- */

/* The largest digit such that at least k keys have it or a larger one. Adjacent elements are
 * counted in separate tables: they often share their digit, and an increment would wait for the
 * previous one. */
static uint32_t last_digit(const uint32_t *keys, int64_t n, int shift, int64_t k)
{
    uint32_t counts[COUNTERS][1 << DIGIT_BITS] = {{0}};
    int64_t found = 0, i = 0;
    uint32_t digit = 1 << DIGIT_BITS;
    for (; i + COUNTERS <= n; i += COUNTERS) {
        for (int c = 0; c < COUNTERS; c++) {
            counts[c][keys[i + c] >> shift]++;
        }
    }
    for (; i < n; i++) {
        counts[0][keys[i] >> shift]++;
    }
    while (found < k) {
        digit--;
        for (int c = 0; c < COUNTERS; c++) {
            found += counts[c][digit];
        }
    }
    return digit;
}

/* Items (key above index) of at least the k > 0 largest elements, ascending, and their number.
 * `memory` begins with the row's keys. */
static const uint64_t *largest(weft_dtype dtype, int64_t n, int64_t k, uint64_t *memory,
                               int64_t *found)
{
    const int bits = 8 * (int)weft_dtype_size(dtype);
    const int shift = bits > DIGIT_BITS ? bits - DIGIT_BITS : 0;
    const uint32_t *keys = (const uint32_t *)memory;
    uint64_t *items = memory + (n + 1) / 2;
    const uint32_t least = last_digit(keys, n, shift, k) << shift;
    *found = 0;
    for (int64_t i = 0; i < n; i++) {
        items[*found] = (uint64_t)keys[i] << 32 | (uint64_t)i;
        *found += keys[i] >= least;
    }
    return weft__cpu_sort_items(items, items + n, *found, bits);
}

static uint64_t *memory_of(const selecting *s, int64_t row, int worker)
{
    return (uint64_t *)s->call->workspace + words_of(s) * (s->by_row ? row : worker);
}

/* ---- The k largest -------------------------------------------------------------------------- */

static void top_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const selecting *s = context;
    const weft_dtype dtype = s->call->in[0].dtype;
    const int64_t k = ((const weft_topk_params *)s->call->params)->k;
    const size_t size = weft_dtype_size(dtype);
    for (int64_t row = begin; row < end; row++) {
        uint64_t *memory = memory_of(s, row, worker);
        const char *from = (const char *)s->call->in[0].data + (size_t)(row * s->length) * size;
        char *to = (char *)s->call->out[0].data + (size_t)(row * k) * size;
        int64_t found;
        weft__cpu_make_keys(dtype, from, s->length, (uint32_t *)memory);
        const uint64_t *items = largest(dtype, s->length, k, memory, &found);
        for (int64_t i = 0; i < k; i++) {
            const size_t at = (uint32_t)items[found - 1 - i];
            memcpy(to + (size_t)i * size, from + at * size, size);
        }
    }
}

weft_status weft__cpu_topk(const weft_call *call)
{
    selecting s = plan(call);
    weft__cpu_parallel(s.rows, GRAIN / s.length, top_rows, &s);
    return WEFT_OK;
}

/* ---- The top-p threshold --------------------------------------------------------------------- */

/* The cumulative sum of probabilities, computed as cumsum does. */
typedef struct running {
    int64_t part; /* elements per part of the row */
    double so_far, start, tiles;
} running;

/* Adds a tile's probabilities in order, as long as the sum before each is below p; returns how
 * many. */
static int64_t run_tile(running *r, const float *probabilities, int64_t n, float p)
{
    const cpu_kernels *kernels = weft__cpu_kernels();
    double wide[CPU_SCAN_TILE];
    for (int64_t i = 0; i < n; i++) {
        if (!((float)r->so_far < p)) {
            return i;
        }
        wide[i] = probabilities[i];
        r->so_far += wide[i];
    }
    r->tiles += kernels->fold_reals(CPU_SUM, wide, n);
    return n;
}

/* The smallest kept of the `count` largest elements, or whether more elements are needed. */
static bool least_kept(const float *row, const uint64_t *items, int64_t found, int64_t count,
                       int64_t part, float total, float p, float *least)
{
    float values[CPU_SCAN_TILE], probabilities[CPU_SCAN_TILE];
    running r = {.part = part};
    *least = INFINITY;
    for (int64_t i = 0; i < count; i += CPU_SCAN_TILE) {
        const int64_t n = count - i < CPU_SCAN_TILE ? count - i : CPU_SCAN_TILE;
        if (i > 0 && i % part == 0) {
            r.so_far = r.start += r.tiles;
            r.tiles = 0;
        }
        for (int64_t j = 0; j < n; j++) {
            values[j] = row[(uint32_t)items[found - 1 - i - j]];
        }
        weft__cpu_kernels()->exp_row(values, n, total, probabilities);
        const int64_t kept = run_tile(&r, probabilities, n, p);
        if (kept > 0 && !isnan(*least)) {
            *least = isnan(values[0]) ? values[0] : values[kept - 1];
        }
        if (kept < n) {
            return true;
        }
    }
    return false;
}

static void top_p_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const selecting *s = context;
    const weft_top_p_params *params = s->call->params;
    const float *x = s->call->in[0].data, *totals = s->call->in[1].data;
    float *out = s->call->out[0].data;
    const int64_t part = weft__cpu_scan_part(params->k, s->rows);
    for (int64_t row = begin; row < end; row++) {
        uint64_t *memory = memory_of(s, row, worker);
        const float *from = x + row * s->length;
        int64_t found, count = 0;
        weft__cpu_make_keys(WEFT_FLOAT32, from, s->length, (uint32_t *)memory);
        do {
            count = count == 0 ? FEW : count * MORE;
            count = count < params->k ? count : params->k;
            const uint64_t *items = largest(WEFT_FLOAT32, s->length, count, memory, &found);
            if (least_kept(from, items, found, count, part, totals[row], (float)params->p,
                           &out[row]))
                break;
        } while (count < params->k);
    }
}

weft_status weft__cpu_top_p(const weft_call *call)
{
    selecting s = plan(call);
    weft__cpu_parallel(s.rows, GRAIN / (s.length + 1), top_p_rows, &s);
    return WEFT_OK;
}
