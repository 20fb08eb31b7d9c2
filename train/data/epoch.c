/* train/data/epoch.c -- the items of an epoch, in random order. */
#include "train/data/epoch.h"

#include <math.h>

#include "core/failure.h"
#include "weft/memory.h"

/* The items of one part of a mixture. */
typedef struct part {
    int64_t first, n;
    int64_t whole;    /* how many times all of them are used */
    int64_t fraction; /* how many of them are used once more */
} part;

static int64_t count_parts(const weft__items *items)
{
    return items->n_parts > 0 ? items->n_parts : 1;
}

static part part_at(const weft__items *items, int64_t i)
{
    if (items->n_parts == 0)
        return (part){0, items->n, 1, 0};
    const int64_t first = items->parts[i].first;
    const int64_t end = i + 1 < items->n_parts ? items->parts[i + 1].first : items->n;
    const double weight = items->parts[i].weight, whole = floor(weight);
    return (part){first, end - first, (int64_t)whole,
                  llround((weight - whole) * (double)(end - first))};
}

/* The first item of group g. Without groups each item is a group. */
static int64_t start_of(const weft__items *items, int64_t g)
{
    return items->starts ? items->starts[g] : g;
}

static void add_unit(weft__epoch *e, int64_t first, int64_t n)
{
    if (e->units)
        e->units[e->n_units] = (weft__unit){first, n};
    e->n_units++;
}

/* Fills the units. Before they are allocated, it only counts them. */
static void fill_units(weft__epoch *e, uint64_t *state)
{
    const weft__items *items = &e->items;
    int64_t g = 0; /* a group never spans two parts */
    e->n_units = 0;
    for (int64_t i = 0; i < count_parts(items); i++) {
        const part p = part_at(items, i);
        for (; g < items->n_groups && start_of(items, g) < p.first + p.n; g++) {
            for (int64_t k = 0; k < p.whole; k++)
                add_unit(e, start_of(items, g), start_of(items, g + 1) - start_of(items, g));
        }
        if (p.fraction > 0 && state)
            weft__shuffle(e->drawn, p.n, state);
        for (int64_t k = 0; k < p.fraction; k++)
            add_unit(e, p.first + (e->drawn ? e->drawn[k] : 0), 1);
    }
}

weft_status weft__epoch_open(const weft__items *items, weft__epoch *out)
{
    *out = (weft__epoch){.items = *items};
    for (int64_t i = 0; i < count_parts(items); i++) {
        const part p = part_at(items, i);
        out->n += p.whole * p.n + p.fraction;
    }
    fill_units(out, NULL);
    out->drawn = weft_calloc((size_t)items->n + 1, sizeof *out->drawn);
    out->turns = weft_calloc((size_t)out->n_units + 1, sizeof *out->turns);
    out->units = weft_calloc((size_t)out->n_units + 1, sizeof *out->units);
    if (out->drawn && out->turns && out->units)
        return WEFT_OK;
    weft__epoch_close(out);
    return weft_fail(WEFT_MEMORY, "batches: out of memory to order %lld samples",
                     (long long)items->n);
}

void weft__epoch_close(weft__epoch *epoch)
{
    weft_free(epoch->units);
    weft_free(epoch->turns);
    weft_free(epoch->drawn);
    *epoch = (weft__epoch){0};
}

void weft__epoch_draw(weft__epoch *epoch, uint64_t *state, int64_t *order)
{
    int64_t n = 0;
    fill_units(epoch, state);
    weft__shuffle(epoch->turns, epoch->n_units, state);
    for (int64_t i = 0; i < epoch->n_units; i++) {
        const weft__unit *u = &epoch->units[epoch->turns[i]];
        for (int64_t k = 0; k < u->n; k++)
            order[n++] = u->first + k;
    }
}
