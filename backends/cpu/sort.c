/* backends/cpu/sort.c -- sort and argsort along the last axis for dtypes of up to 32 bits.
 *
 * An element is mapped to an unsigned key that sorts the same way. sort sorts the keys and maps
 * them back. argsort sorts 64-bit items, with the key above the index in the row; they are
 * distinct, and their order is the stable order of the row. Short rows use insertion sort, others
 * radix sort, low digit first (Knuth 3, 5.2.5).
 */
#include <string.h>

#include "backends/cpu/pool.h"
#include "backends/cpu/structure.h"
#include "weft/op_params.h"

enum {
    SHORT_ROW = 48,
    LONG_ROW = 1024, /* length from which wide digits pay */
    WIDE_BITS = 11,  /* bits of a digit: three digits cover 32 bits */
    MAX_DIGITS = 4,
    GRAIN = 1 << 12
};

typedef struct sorting {
    const weft_call *call;
    int64_t length, rows;
    bool places; /* argsort */
    bool by_row; /* scratch is per row, not per worker */
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

/* Floats: negative ones reversed, -0 as 0, NaN last. */
static uint32_t float_key(uint32_t bits, uint32_t sign, uint32_t infinity)
{
    uint32_t magnitude = bits & (sign - 1);
    if (magnitude > infinity) {
        return sign + (sign - 1);
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

void weft__cpu_make_keys(weft_dtype dtype, const void *row, int64_t n, uint32_t *keys)
{
    if (dtype == WEFT_FLOAT32) {
        for (int64_t i = 0; i < n; i++) {
            keys[i] = float_key(((const uint32_t *)row)[i], UINT32_C(1) << 31, 0x7f800000);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        keys[i] = weft__cpu_sort_key(dtype, row, i);
    }
}

static void set_bits(void *row, size_t size, int64_t i, uint32_t bits)
{
    if (size == 4) {
        ((uint32_t *)row)[i] = bits;
    } else if (size == 2) {
        ((uint16_t *)row)[i] = (uint16_t)bits;
    } else {
        ((uint8_t *)row)[i] = (uint8_t)bits;
    }
}

/* Maps keys back to elements: 0 for both zeros, one NaN for all. */
static void from_keys(weft_dtype dtype, const uint32_t *keys, int64_t n, void *row)
{
    const size_t size = weft_dtype_size(dtype);
    const uint32_t sign = UINT32_C(1) << (8 * size - 1);
    if (weft_dtype_is_float(dtype)) {
        for (int64_t i = 0; i < n; i++) {
            const uint32_t key = keys[i];
            set_bits(row, size, i, key >= sign ? key - sign : sign | (sign - key));
        }
        return;
    }
    const uint32_t flip = weft_dtype_is_signed(dtype) ? sign : 0;
    for (int64_t i = 0; i < n; i++) {
        set_bits(row, size, i, keys[i] ^ flip);
    }
}

/* ---- lists of keys, or of items (key above index) -------------------------------------------- */

#define LIST_INLINE static inline __attribute__((always_inline))

LIST_INLINE uint64_t get(const void *list, int64_t i, bool items)
{
    return items ? ((const uint64_t *)list)[i] : ((const uint32_t *)list)[i];
}

LIST_INLINE void put(void *list, int64_t i, bool items, uint64_t x)
{
    if (items) {
        ((uint64_t *)list)[i] = x;
    } else {
        ((uint32_t *)list)[i] = (uint32_t)x;
    }
}

LIST_INLINE void insertion_sort(void *list, int64_t n, bool items)
{
    for (int64_t i = 1; i < n; i++) {
        const uint64_t x = get(list, i, items);
        int64_t to = i;
        for (; to > 0 && get(list, to - 1, items) > x; to--) {
            put(list, to, items, get(list, to - 1, items));
        }
        put(list, to, items, x);
    }
}

/* Counts every digit of every key in one pass, then moves the list once for each digit in which
 * keys differ. Returns the sorted list. */
LIST_INLINE const void *radix_sort(void *list, void *scratch, int64_t n, int key_bits, bool items)
{
    uint32_t starts[MAX_DIGITS][1 << WIDE_BITS];
    const int bits = n < LONG_ROW || key_bits <= 16 ? 8 : WIDE_BITS, low = items ? 32 : 0;
    const int digits = (key_bits + bits - 1) / bits;
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    for (int d = 0; d < digits; d++) {
        memset(starts[d], 0, sizeof starts[d][0] << bits);
    }
    for (int64_t i = 0; i < n; i++) {
        const uint64_t key = get(list, i, items) >> low;
        for (int d = 0; d < digits; d++) {
            starts[d][key >> (d * bits) & mask]++;
        }
    }
    for (int d = 0; d < digits; d++) {
        const int shift = low + d * bits;
        uint32_t *to = starts[d], before = 0;
        if (to[get(list, 0, items) >> shift & mask] == (uint32_t)n) {
            continue; /* all have the same digit */
        }
        for (uint64_t v = 0; v <= mask; v++) {
            const uint32_t count = to[v];
            to[v] = before;
            before += count;
        }
        for (int64_t i = 0; i < n; i++) {
            const uint64_t x = get(list, i, items);
            put(scratch, to[x >> shift & mask]++, items, x);
        }
        void *swap = list;
        list = scratch;
        scratch = swap;
    }
    return list;
}

LIST_INLINE const void *sort_list(void *list, void *scratch, int64_t n, int key_bits, bool items)
{
    if (n > SHORT_ROW) {
        return radix_sort(list, scratch, n, key_bits, items);
    }
    insertion_sort(list, n, items);
    return list;
}

#undef LIST_INLINE

const uint64_t *weft__cpu_sort_items(uint64_t *items, uint64_t *scratch, int64_t n, int key_bits)
{
    return sort_list(items, scratch, n, key_bits, true);
}

static const uint32_t *sort_keys(uint32_t *keys, uint32_t *scratch, int64_t n, int key_bits)
{
    return sort_list(keys, scratch, n, key_bits, false);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void places_of_row(const sorting *s, const void *from, uint64_t *items, uint32_t *to)
{
    const weft_dtype dtype = s->call->in[0].dtype;
    for (int64_t i = 0; i < s->length; i++) {
        items[i] = (uint64_t)weft__cpu_sort_key(dtype, from, i) << 32 | (uint64_t)i;
    }
    const uint64_t *sorted =
        weft__cpu_sort_items(items, items + s->length, s->length, 8 * (int)weft_dtype_size(dtype));
    for (int64_t i = 0; i < s->length; i++) {
        to[i] = (uint32_t)sorted[i];
    }
}

/* Restores elements with equal keys but different bits (zeros and NaN) in their original order. */
static void keep_order(const sorting *s, const char *from, const uint32_t *sorted, uint32_t key,
                       char *to)
{
    const weft_dtype dtype = s->call->in[0].dtype;
    const size_t size = weft_dtype_size(dtype);
    int64_t low = 0, high = s->length;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (sorted[middle] < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == s->length || sorted[low] != key) {
        return;
    }
    for (int64_t i = 0; i < s->length; i++) {
        if (weft__cpu_sort_key(dtype, from, i) == key) {
            memcpy(to + (size_t)low++ * size, from + (size_t)i * size, size);
        }
    }
}

static void elements_of_row(const sorting *s, const char *from, uint32_t *keys, char *to)
{
    const weft_dtype dtype = s->call->in[0].dtype;
    const size_t size = weft_dtype_size(dtype);
    weft__cpu_make_keys(dtype, from, s->length, keys);
    const uint32_t *sorted = sort_keys(keys, keys + s->length, s->length, 8 * (int)size);
    from_keys(dtype, sorted, s->length, to);
    if (weft_dtype_is_float(dtype)) {
        const uint32_t sign = UINT32_C(1) << (8 * size - 1);
        keep_order(s, from, sorted, sign, to);
        keep_order(s, from, sorted, sign + (sign - 1), to);
    }
}

static void sort_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const sorting *s = context;
    const weft_tensor *in = &s->call->in[0], *out = &s->call->out[0];
    const size_t size = weft_dtype_size(in->dtype), out_size = weft_dtype_size(out->dtype);
    for (int64_t row = begin; row < end; row++) {
        uint64_t *scratch =
            (uint64_t *)s->call->workspace + 2 * s->length * (s->by_row ? row : worker);
        const char *from = (const char *)in->data + (size_t)(row * s->length) * size;
        char *to = (char *)out->data + (size_t)(row * s->length) * out_size;
        if (s->places) {
            places_of_row(s, from, scratch, (uint32_t *)(void *)to);
        } else {
            elements_of_row(s, from, (uint32_t *)scratch, to);
        }
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
