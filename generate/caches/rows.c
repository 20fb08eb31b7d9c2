/* generate/caches/rows.c -- moves sequences into, within and out of the rows or pages of a cache.
 */
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

/* A part of another cache, (B, S, ...), whose row `from` is to be copied. */
typedef struct source {
    weft_array *part;
    int64_t from;
} source;

/* `held` with slots [a, b) of the source in row `row` from slot `to` on. */
static weft_array *with_slots(weft_array *held, int64_t row, int64_t to, const source *s, int64_t a,
                              int64_t b)
{
    weft_array *fresh = weft_slice_axis(s->part, 0, s->from, s->from + 1);
    fresh = weft_slice_axis(fresh, 1, a, b);
    return weft_slice_update_static(held, fresh, WEFT_DIMS(0, 1), WEFT_DIMS(row, to),
                                    WEFT_DIMS(row + 1, to + b - a), WEFT_DIMS(1, 1));
}

/* `held` with the source in row `row`. Slots that only one of them has are free. */
static weft_array *with_row(weft_array *held, int64_t row, const source *s)
{
    const int64_t a = weft_dim(held, 1), b = weft_dim(s->part, 1);
    return with_slots(held, row, 0, s, 0, a < b ? a : b);
}

/* `held`, all pages, with the first `slots` slots of the source in those of the list, from its page
 * `first` on. */
static weft_array *with_pages(weft_array *held, const weft__page_list *list, int64_t first,
                              const source *s, int64_t slots)
{
    int64_t next;
    for (int64_t i = first; i < list->n && i * WEFT__PAGE < slots; i = next) {
        next = i + 1;
        while (next < list->n && list->at[next] == list->at[next - 1] + 1)
            next++;
        const int64_t end = next * WEFT__PAGE < slots ? next * WEFT__PAGE : slots;
        held = with_slots(held, 0, list->at[i] * (int64_t)WEFT__PAGE, s, i * WEFT__PAGE, end);
    }
    return held;
}

/* Zeros like `like` (B, S, ...) for all pages, on its device. */
static weft_array *empty_pages(weft_array *like, int64_t pages)
{
    weft_array *none = weft_slice_axis(empty(like, 1), 1, 0, 0);
    return weft_pad(none, 1, 0, pages * WEFT__PAGE, 0);
}

/* The slots of two alike caches; for an empty one also its numbers. */
static weft_status pair(weft_cache *cache, weft_array ***to, weft_cache *other, weft_array ***of,
                        int *count)
{
    int64_t *counts[WEFT_CACHE_NUMBERS], *given[WEFT_CACHE_NUMBERS];
    if (!weft__cache_alike(cache, other))
        return weft_fail(WEFT_INVALID,
                         "cache: a row of a %s cache: expected a source of the same type and "
                         "size, got another %s cache",
                         cache->type->name, other->type->name);
    *count = weft_cache_state(cache, to);
    weft_cache_state(other, of);
    if (*to[0] == NULL) {
        const int numbers = weft_cache_numbers(cache, counts);
        weft_cache_numbers(other, given);
        for (int i = 0; i < numbers; i++)
            *counts[i] = *given[i];
    }
    return WEFT_OK;
}

weft_status weft__cache_put_row(weft_cache *cache, int64_t n, int64_t row, weft_cache *other,
                                int64_t from)
{
    weft_array **to[WEFT_CACHE_SLOTS], **of[WEFT_CACHE_SLOTS], *made[WEFT_CACHE_SLOTS];
    int count;
    weft_status status = pair(cache, to, other, of, &count);
    if (status == WEFT_OK)
        status = weft__cache_reserve_rows(cache, weft_cache_offset(other));
    if (status != WEFT_OK)
        return status;
    weft_scope_open_lean();
    for (int i = 0; i < count; i++)
        made[i] = with_row(*to[i] ? *to[i] : empty(*of[i], n), row, &(source){*of[i], from});
    status = weft_update(to, made, count);
    weft_scope_close(NULL);
    return status;
}

weft_status weft__cache_put_pages(weft_cache *cache, int64_t pages, const weft__page_list *list,
                                  int64_t first, weft_cache *other, int64_t from, int64_t length)
{
    weft_array **to[WEFT_CACHE_SLOTS], **of[WEFT_CACHE_SLOTS], *made[WEFT_CACHE_SLOTS];
    int count;
    weft_status status = pair(cache, to, other, of, &count);
    if (status != WEFT_OK)
        return status;
    weft_scope_open_lean();
    for (int i = 0; i < count; i++) {
        weft_array *held = *to[i] ? *to[i] : empty_pages(*of[i], pages);
        const int64_t room = weft_dim(*of[i], 1), slots = length < room ? length : room;
        made[i] = with_pages(held, list, first, &(source){*of[i], from}, slots);
    }
    status = weft_update(to, made, count);
    weft_scope_close(NULL);
    return status;
}

weft_status weft__cache_resize_pages(weft_cache *cache, int64_t pages)
{
    weft_array **slots[WEFT_CACHE_SLOTS], *other[WEFT_CACHE_SLOTS];
    const int count = weft_cache_state(cache, slots);
    const int64_t size = pages * WEFT__PAGE, held = *slots[0] ? weft_dim(*slots[0], 1) : size;
    if (held == size)
        return WEFT_OK;
    weft_scope_open_lean();
    for (int i = 0; i < count; i++)
        other[i] = held < size ? weft_pad(*slots[i], 1, 0, size - held, 0)
                               : weft_copy(weft_slice_axis(*slots[i], 1, 0, size));
    const weft_status status = weft_update(slots, other, count);
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
