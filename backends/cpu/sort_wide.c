/* backends/cpu/sort_wide.c -- sorts along the last axis for 64-bit dtypes; partitions and searches
 * for all dtypes.
 *
 * As in sort.c an element is mapped to an unsigned key that sorts the same way, stored with its
 * index. Rows use radix sort, low digit first. The kth element of a row is found digit by digit,
 * high digit first, among the keys with the same leading digits.
 */
#include <string.h>

#include "backends/cpu/pool.h"
#include "backends/cpu/structure.h"
#include "weft/op_params.h"

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, GRAIN = 1 << 11 };

typedef struct item {
    uint64_t key, place;
} item;

typedef struct sorting {
    const weft_call *call;
    int64_t length, rows, kth;
    bool places; /* argsort */
    bool by_row; /* scratch is per row, not per worker */
} sorting;

static int64_t row_length(const weft_call *call)
{
    return call->in[0].shape.at[call->in[0].shape.n - 1];
}

static int64_t scratch_bytes(const weft_call *call, int64_t element)
{
    int64_t length = row_length(call), workers = weft__cpu_workers();
    int64_t rows = length ? weft_tensor_size(&call->in[0]) / length : 0;
    return 2 * length * (rows < workers ? rows : workers) * element;
}

static sorting plan(const weft_call *call)
{
    sorting s = {.call = call, .length = row_length(call)};
    s.rows = weft_tensor_size(&call->in[0]) / s.length;
    s.by_row = s.rows < weft__cpu_workers();
    return s;
}

static const char *row_of(const sorting *s, int64_t row)
{
    const weft_tensor *in = &s->call->in[0];
    return (const char *)in->data + (size_t)(row * s->length) * weft_dtype_size(in->dtype);
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Negative floats reversed, -0 as 0, NaN last. */
static uint64_t key_of(weft_dtype dtype, const void *row, int64_t i)
{
    uint64_t bits, sign = UINT64_C(1) << 63, magnitude;
    if (weft_dtype_size(dtype) < 8) {
        return weft__cpu_sort_key(dtype, row, i);
    }
    bits = ((const uint64_t *)row)[i];
    if (dtype == WEFT_INT64) {
        return bits ^ sign;
    }
    if (dtype == WEFT_UINT64) {
        return bits;
    }
    magnitude = bits & ~sign;
    return magnitude > UINT64_C(0x7ff0000000000000) ? UINT64_MAX
           : bits & sign                            ? sign - magnitude
                                                    : sign + magnitude;
}

/* ---- sorts ---------------------------------------------------------------------------------- */

bool weft__cpu_sort_wide_fits(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    return p->axis == -1 && call->in[0].dtype != WEFT_COMPLEX64;
}

int64_t weft__cpu_sort_wide_workspace(const weft_call *call)
{
    return scratch_bytes(call, sizeof(item));
}

/* The indices start in order. Returns the sorted list. */
static const item *radix_sort(item *items, item *scratch, int64_t n)
{
    for (int shift = 0; shift < 64; shift += DIGIT_BITS) {
        int64_t starts[DIGITS + 1] = {0};
        for (int64_t i = 0; i < n; i++) {
            starts[(items[i].key >> shift & (DIGITS - 1)) + 1]++;
        }
        if (starts[(items[0].key >> shift & (DIGITS - 1)) + 1] == n) {
            continue; /* all have the same digit */
        }
        for (int d = 1; d <= DIGITS; d++) {
            starts[d] += starts[d - 1];
        }
        for (int64_t i = 0; i < n; i++) {
            scratch[starts[items[i].key >> shift & (DIGITS - 1)]++] = items[i];
        }
        item *swap = items;
        items = scratch;
        scratch = swap;
    }
    return items;
}

static void sort_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const sorting *s = context;
    weft_dtype dtype = s->call->in[0].dtype;
    for (int64_t row = begin; row < end; row++) {
        item *items = (item *)s->call->workspace + 2 * s->length * (s->by_row ? row : worker);
        const char *from = row_of(s, row);
        for (int64_t i = 0; i < s->length; i++) {
            items[i] = (item){key_of(dtype, from, i), (uint64_t)i};
        }
        const item *sorted = radix_sort(items, items + s->length, s->length);
        for (int64_t i = 0; i < s->length; i++) {
            int64_t to = row * s->length + i;
            if (s->places) {
                ((uint32_t *)s->call->out[0].data)[to] = (uint32_t)sorted[i].place;
            } else {
                memcpy((char *)s->call->out[0].data + to * 8, from + sorted[i].place * 8, 8);
            }
        }
    }
}

weft_status weft__cpu_sort_wide(const weft_call *call)
{
    sorting s = plan(call);
    weft__cpu_parallel(s.rows, GRAIN / s.length, sort_rows, &s);
    return WEFT_OK;
}

weft_status weft__cpu_argsort_wide(const weft_call *call)
{
    sorting s = plan(call);
    s.places = true;
    weft__cpu_parallel(s.rows, GRAIN / s.length, sort_rows, &s);
    return WEFT_OK;
}

/* ---- partitions ----------------------------------------------------------------------------- */

bool weft__cpu_argpartition_fits(const weft_call *call)
{
    const weft_partition_params *p = call->params;
    return p->axis == -1 && call->in[0].dtype != WEFT_COMPLEX64;
}

int64_t weft__cpu_argpartition_workspace(const weft_call *call)
{
    return scratch_bytes(call, sizeof(uint64_t));
}

/* The kth smallest of n keys, and how many of the keys before it equal it. `left` has space for n.
 */
static uint64_t select(const uint64_t *keys, uint64_t *left, int64_t n, int bits, int64_t *kth)
{
    const uint64_t *from = keys;
    for (int shift = bits - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
        int64_t counts[DIGITS] = {0}, kept = 0;
        uint64_t digit = 0;
        for (int64_t i = 0; i < n; i++) {
            counts[from[i] >> shift & (DIGITS - 1)]++;
        }
        while (*kth >= counts[digit]) {
            *kth -= counts[digit++];
        }
        for (int64_t i = 0; i < n; i++) {
            uint64_t key = from[i];
            if ((key >> shift & (DIGITS - 1)) == digit) {
                left[kept++] = key;
            }
        }
        from = left;
        n = kept;
    }
    return from[0];
}

static void partition_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const sorting *s = context;
    weft_dtype dtype = s->call->in[0].dtype;
    int bits = weft_dtype_size(dtype) == 8 ? 64 : 32;
    for (int64_t row = begin; row < end; row++) {
        uint64_t *keys =
            (uint64_t *)s->call->workspace + 2 * s->length * (s->by_row ? row : worker);
        uint32_t *out = (uint32_t *)s->call->out[0].data + row * s->length;
        for (int64_t i = 0; i < s->length; i++) {
            keys[i] = key_of(dtype, row_of(s, row), i);
        }
        int64_t equal = s->kth, low = 0, high = s->kth + 1;
        uint64_t key = select(keys, keys + s->length, s->length, bits, &equal);
        for (int64_t i = 0; i < s->length; i++) {
            bool same = keys[i] == key, before = keys[i] < key || (same && equal > 0);
            int64_t to = before ? low++ : same && equal == 0 ? s->kth : high++;
            equal -= same;
            out[to] = (uint32_t)i;
        }
    }
}

weft_status weft__cpu_argpartition(const weft_call *call)
{
    const weft_partition_params *p = call->params;
    sorting s = plan(call);
    s.kth = p->kth;
    weft__cpu_parallel(s.rows, GRAIN / s.length, partition_rows, &s);
    return WEFT_OK;
}

/* ---- searches ------------------------------------------------------------------------------- */

bool weft__cpu_searchsorted_fits(const weft_call *call)
{
    return call->in[0].dtype != WEFT_COMPLEX64;
}

static void search(void *context, int64_t begin, int64_t end, int worker)
{
    const weft_call *call = context;
    const weft_search_params *p = call->params;
    const weft_tensor *sorted = &call->in[0], *values = &call->in[1];
    int64_t length = row_length(call), each = values->shape.at[values->shape.n - 1];
    size_t size = weft_dtype_size(sorted->dtype);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const char *row = (const char *)sorted->data + (size_t)(i / each * length) * size;
        uint64_t key = key_of(values->dtype, values->data, i);
        int64_t low = 0, high = length;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            uint64_t there = key_of(sorted->dtype, row, middle);
            bool behind = p->right ? there <= key : there < key;
            low = behind ? middle + 1 : low;
            high = behind ? high : middle;
        }
        ((uint32_t *)call->out[0].data)[i] = (uint32_t)low;
    }
}

weft_status weft__cpu_searchsorted(const weft_call *call)
{
    weft__cpu_parallel(weft_tensor_size(&call->in[1]), GRAIN / 4, search, (void *)call);
    return WEFT_OK;
}
