/* generate/caches/ring_view.c -- the positions of the tokens in a ring, and the attention masks. */
#include "core/math.h"
#include "generate/caches/ring.h"

int64_t weft__ring_slot(const weft__ring *c, int64_t p)
{
    return p < c->capacity ? p : c->sinks + (p - c->sinks) % (c->capacity - c->sinks);
}

static weft_array *number(int64_t value)
{
    return weft_scalar_int(value, WEFT_INT32);
}

weft_array *weft__ring_slot_array(const weft__ring *c, weft_array *offset)
{
    if (c->capacity == WEFT__UNBOUNDED)
        return offset;
    weft_array *turned = weft_subtract(offset, number(c->sinks));
    turned = weft_remainder(turned, number(c->capacity - c->sinks));
    turned = weft_add(turned, number(c->sinks));
    return weft_where(weft_less(offset, number(c->capacity)), offset, turned);
}

/* Which of the tokens at `positions` (..., S) the queries (..., L, 1) attend to, (..., L, S): the
 * first ones and the last ones up to themselves. */
static weft_array *visible(const weft__ring *c, weft_array *queries, weft_array *positions)
{
    weft_array *seen = weft_less_equal(positions, queries);
    if (c->keep == WEFT__UNBOUNDED)
        return seen;
    weft_array *distance = weft_subtract(queries, positions);
    weft_array *near = weft_less(distance, number(c->keep - c->sinks));
    near = weft_logical_or(near, weft_less(positions, number(c->sinks)));
    return weft_logical_and(seen, near);
}

void weft__ring_see_text(const weft__ring *c, weft_cache_view *view, int64_t L, int64_t sinks,
                         int64_t first, int64_t last)
{
    if (sinks == 0 && first == 0 && last < c->keep)
        return;
    weft_array *positions = weft_arange_int(first, last + 1, 1, WEFT_INT32);
    if (sinks > 0) {
        weft_array *parts[] = {weft_arange_int(0, sinks, 1, WEFT_INT32), positions};
        positions = weft_concatenate(parts, 2, 0);
    }
    view->positions = first > 0 ? positions : NULL;
    weft_array *queries = weft_arange_int(last + 1 - L, last + 1, 1, WEFT_INT32);
    if (c->sinks > 0)
        view->mask = visible(c, weft_expand_dims(queries, 1), positions);
    else if (c->keep != WEFT__UNBOUNDED)
        view->window = c->keep;
}

/* The position in every slot when `last` (..., 1) was written last, (..., S); below the number of
 * sinks for empty slots after them. */
static weft_array *tokens_of_slots(const weft__ring *c, weft_array *last, int64_t S)
{
    weft_array *slots = weft_arange_int(0, S, 1, WEFT_INT32);
    weft_array *age = weft_remainder(weft_subtract(last, slots), number(c->capacity - c->sinks));
    weft_array *tokens = weft_subtract(last, age);
    return weft_where(weft_less(slots, number(c->sinks)), slots, tokens);
}

void weft__ring_see_slots(const weft__ring *c, weft_cache_view *view, int64_t S, int64_t L,
                          weft_array *offset)
{
    const int64_t slots = weft__smaller(S, c->capacity); /* the last page may have more */
    const bool turns = slots == c->capacity;
    view->lengths = weft_add(offset, number(L));
    if (!turns && (slots <= c->keep || c->sinks == 0)) {
        view->window = slots > c->keep ? c->keep : 0;
        return;
    }
    view->lengths = weft_minimum(view->lengths, number(slots));
    const int64_t B = weft_dim(offset, 0);
    if (B > 1) /* the mask is (B, 1, 1, S) */
        offset = weft_reshape(offset, WEFT_DIMS(B, 1, 1, 1));
    weft_array *queries = weft_add(offset, weft_arange_int(0, L, 1, WEFT_INT32));
    if (B == 1)
        queries = weft_expand_dims(queries, 1);
    weft_array *positions = weft_arange_int(0, S, 1, WEFT_INT32), *there = NULL;
    if (turns) {
        weft_array *last = weft_add(offset, number(L - 1));
        positions = tokens_of_slots(c, last, S);
        there = weft_greater_equal(
            positions, weft_minimum(weft_arange_int(0, S, 1, WEFT_INT32), number(c->sinks)));
        positions = weft_maximum(positions, number(0));
        view->positions = positions;
    }
    if (L == 1 && slots <= c->keep)
        return; /* all slots are valid */
    view->mask = visible(c, queries, positions);
    if (there)
        view->mask = weft_logical_and(view->mask, there);
}
