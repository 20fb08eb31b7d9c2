/* generate/caches/rows.c -- moves sequences into, within and out of the rows of a cache. */
#include "generate/caches/rows.h"

#include "generate/caches/ring.h"
#include "weft/ops.h"

/* Zeros like `like` (B, ...), with n rows, on its device. */
static weft_array *empty(weft_array *like, int64_t n)
{
    weft_device *before = weft_default_device();
    weft_dims shape = weft_shape(like);
    shape.at[0] = n;
    weft_set_default_device(weft_device_of(like));
    weft_array *zeros = weft_zeros(shape, weft_dtype_of(like));
    weft_set_default_device(before);
    return zeros;
}

/* `held` with row `from` of `fresh` in row `row`. Slots that only one of them has are free. */
static weft_array *with_row(weft_array *held, int64_t row, weft_array *fresh, int64_t from)
{
    const int64_t a = weft_dim(held, 1), b = weft_dim(fresh, 1), slots = a < b ? a : b;
    fresh = weft_slice_axis(weft_slice_axis(fresh, 0, from, from + 1), 1, 0, slots);
    return weft_slice_update_static(held, fresh, WEFT_DIMS(0, 1), WEFT_DIMS(row, 0),
                                    WEFT_DIMS(row + 1, slots), WEFT_DIMS(1, 1));
}

weft_status weft__cache_put_row(weft_cache *cache, int64_t n, int64_t row, weft_cache *source,
                                int64_t from)
{
    weft_array **to[WEFT_CACHE_SLOTS], **of[WEFT_CACHE_SLOTS], *made[WEFT_CACHE_SLOTS];
    int64_t *counts[WEFT_CACHE_NUMBERS], *given[WEFT_CACHE_NUMBERS];
    if (!weft__cache_alike(cache, source))
        return weft_fail(WEFT_INVALID,
                         "cache: a row of a %s cache: expected a source of the same type and "
                         "size, got another %s cache",
                         cache->type->name, source->type->name);
    const int count = weft_cache_state(cache, to);
    weft_cache_state(source, of);
    if (*to[0] == NULL) {
        const int numbers = weft_cache_numbers(cache, counts);
        weft_cache_numbers(source, given);
        for (int i = 0; i < numbers; i++)
            *counts[i] = *given[i];
    }
    weft_status status = weft__cache_reserve_rows(cache, weft_cache_offset(source));
    weft_scope_open_lean();
    for (int i = 0; i < count; i++)
        made[i] = with_row(*to[i] ? *to[i] : empty(*of[i], n), row, *of[i], from);
    if (status == WEFT_OK)
        status = weft_update(to, made, count);
    weft_scope_close(NULL);
    return status;
}

weft_status weft__cache_reserve_rows(weft_cache *cache, int64_t length)
{
    return weft_cache_reserve(cache, length - weft_cache_offset(cache));
}

weft_status weft__cache_keep_rows(weft_cache *cache, const int32_t *which, int64_t n)
{
    weft_array **slots[WEFT_CACHE_SLOTS], *kept[WEFT_CACHE_SLOTS];
    const int count = weft_cache_state(cache, slots);
    if (*slots[0] == NULL)
        return WEFT_OK;
    weft_scope_open_lean();
    weft_array *rows = weft_from_data(which, WEFT_INT32, WEFT_DIMS(n));
    for (int i = 0; i < count; i++)
        kept[i] = weft_take(*slots[i], weft_to(rows, weft_device_of(*slots[i])), 0);
    const weft_status status = weft_update(slots, kept, count);
    weft_scope_close(NULL);
    return status;
}
