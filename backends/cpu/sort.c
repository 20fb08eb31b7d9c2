/* backends/cpu/sort.c -- sort and argsort along the last axis for dtypes of up to 32 bits.
 *
 * An element becomes a 64-bit item: its value as an unsigned key that sorts the same way, above its
 * place in the row. Items are distinct and in order exactly when the row is sorted and stable.
 * Short rows are sorted by insertion, long ones by radix, low digit first (Knuth 3, 5.2.5).
 */
#include <string.h>

#include "backends/cpu/pool.h"
#include "backends/cpu/structure.h"
#include "weft/op_params.h"

enum { SHORT_ROW = 48, DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, GRAIN = 1 << 12 };

typedef struct sorting {
    const weft_call *call;
    int64_t length, rows;
    bool places; /* argsort */
    bool by_row; /* scratch belongs to the row, not to the worker */
} sorting;

bool weft__cpu_sort_fits(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    return p->axis == -1 && weft_dtype_size(call->in[0].dtype) <= 4;
}

static int64_t row_length(const weft_call *call)
{
    return call->in[0].shape.at[call->in[0].shape.n - 1];
}

/* Two lists of items for each worker, or for each row if there are fewer. */
int64_t weft__cpu_sort_workspace(const weft_call *call)
{
    int64_t length = row_length(call), workers = weft__cpu_workers();
    int64_t rows = length ? weft_tensor_size(&call->in[0]) / length : 0;
    return 2 * length * (rows < workers ? rows : workers) * (int64_t)sizeof(uint64_t);
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Floats: negative ones in reverse, -0 as 0, NaN last. */
static uint32_t float_key(uint32_t bits, uint32_t sign, uint32_t infinity)
{
    uint32_t magnitude = bits & (sign - 1);
    if (magnitude > infinity) {
        return UINT32_MAX;
    }
    return bits & sign ? sign - magnitude : sign + magnitude;
}

uint32_t weft__cpu_sort_key(weft_dtype dtype, const void *row, int64_t i)
{
    switch (dtype) {
    case WEFT_FLOAT32:
        return float_key(((const uint32_t *)row)[i], UINT32_C(1) << 31, 0x7f800000);
    case WEFT_BFLOAT16:
        return float_key(((const uint16_t *)row)[i], UINT32_C(1) << 15, 0x7f80);
    case WEFT_FLOAT16:
        return float_key(((const uint16_t *)row)[i], UINT32_C(1) << 15, 0x7c00);
    case WEFT_INT32:
        return ((const uint32_t *)row)[i] ^ UINT32_C(1) << 31;
    case WEFT_UINT32:
        return ((const uint32_t *)row)[i];
    case WEFT_INT16:
        return (uint32_t)(((const int16_t *)row)[i] + (1 << 15));
    case WEFT_UINT16:
        return ((const uint16_t *)row)[i];
    case WEFT_INT8:
        return (uint32_t)(((const int8_t *)row)[i] + (1 << 7));
    default:
        return ((const uint8_t *)row)[i];
    }
}

/* ---- items ---------------------------------------------------------------------------------- */

static void insertion_sort(uint64_t *items, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        uint64_t item = items[i];
        int64_t to = i;
        for (; to > 0 && items[to - 1] > item; to--) {
            items[to] = items[to - 1];
        }
        items[to] = item;
    }
}

/* By the digits of the keys; the places are in order to begin with. Returns the list that is
 * sorted. */
static const uint64_t *radix_sort(uint64_t *items, uint64_t *scratch, int64_t n)
{
    for (int shift = 32; shift < 64; shift += DIGIT_BITS) {
        int64_t starts[DIGITS + 1] = {0};
        for (int64_t i = 0; i < n; i++) {
            starts[(items[i] >> shift & (DIGITS - 1)) + 1]++;
        }
        if (starts[(items[0] >> shift & (DIGITS - 1)) + 1] == n) {
            continue; /* all have the same digit */
        }
        for (int d = 1; d <= DIGITS; d++) {
            starts[d] += starts[d - 1];
        }
        for (int64_t i = 0; i < n; i++) {
            scratch[starts[items[i] >> shift & (DIGITS - 1)]++] = items[i];
        }
        uint64_t *swap = items;
        items = scratch;
        scratch = swap;
    }
    return items;
}

static void store_row(const sorting *s, const uint64_t *items, int64_t row)
{
    const weft_tensor *in = &s->call->in[0], *out = &s->call->out[0];
    size_t size = weft_dtype_size(in->dtype);
    const char *from = (const char *)in->data + (size_t)(row * s->length) * size;
    char *to = (char *)out->data + (size_t)(row * s->length) * weft_dtype_size(out->dtype);
    for (int64_t i = 0; i < s->length; i++) {
        uint32_t place = (uint32_t)items[i];
        if (s->places) {
            ((uint32_t *)(void *)to)[i] = place;
        } else {
            memcpy(to + (size_t)i * size, from + place * size, size);
        }
    }
}

static void sort_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const sorting *s = context;
    const weft_tensor *in = &s->call->in[0];
    size_t size = weft_dtype_size(in->dtype);
    for (int64_t row = begin; row < end; row++) {
        uint64_t *items =
            (uint64_t *)s->call->workspace + 2 * s->length * (s->by_row ? row : worker);
        const void *from = (const char *)in->data + (size_t)(row * s->length) * size;
        for (int64_t i = 0; i < s->length; i++) {
            items[i] = (uint64_t)weft__cpu_sort_key(in->dtype, from, i) << 32 | (uint64_t)i;
        }
        const uint64_t *sorted = items;
        if (s->length <= SHORT_ROW) {
            insertion_sort(items, s->length);
        } else {
            sorted = radix_sort(items, items + s->length, s->length);
        }
        store_row(s, sorted, row);
    }
}

static weft_status sort(const weft_call *call, bool places)
{
    sorting s = {.call = call, .length = row_length(call), .places = places};
    s.rows = weft_tensor_size(&call->in[0]) / s.length;
    s.by_row = s.rows < weft__cpu_workers();
    weft__cpu_parallel(s.rows, GRAIN / s.length, sort_rows, &s);
    return WEFT_OK;
}

weft_status weft__cpu_sort(const weft_call *call)
{
    return sort(call, false);
}

weft_status weft__cpu_argsort(const weft_call *call)
{
    return sort(call, true);
}
