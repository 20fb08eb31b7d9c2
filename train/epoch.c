/* train/epoch.c -- the samples of an epoch, in an order that is drawn. */
#include "train/epoch.h"

#include <math.h>

#include "core/failure.h"
#include "weft/memory.h"

/* The samples of one source. */
typedef struct source {
    int64_t first, n;
    int64_t whole;    /* how often all of them come */
    int64_t fraction; /* and how many of them once more */
} source;

static int64_t count_sources(const weft_dataset *d)
{
    return d->n_parts > 0 ? d->n_parts : 1;
}

static source source_at(const weft_dataset *d, int64_t i)
{
    const int64_t samples = d->info.samples;
    if (d->n_parts == 0)
        return (source){0, samples, 1, 0};
    const int64_t first = d->parts[i].first;
    const int64_t end = i + 1 < d->n_parts ? d->parts[i + 1].first : samples;
    const double weight = d->parts[i].weight, whole = floor(weight);
    return (source){first, end - first, (int64_t)whole,
                    llround((weight - whole) * (double)(end - first))};
}

static void add_unit(weft__epoch *e, int64_t first, int64_t n)
{
    if (e->units)
        e->units[e->n_units] = (weft__unit){first, n};
    e->n_units++;
}

/* Fills the units, or before there is room for them only counts them. */
static void fill_units(weft__epoch *e, uint64_t *state)
{
    int64_t g = 0; /* no group lies in two sources */
    e->n_units = 0;
    for (int64_t i = 0; i < count_sources(e->dataset); i++) {
        const source s = source_at(e->dataset, i);
        for (; g < e->n_groups && e->starts[g] < s.first + s.n; g++) {
            for (int64_t k = 0; k < s.whole; k++)
                add_unit(e, e->starts[g], e->starts[g + 1] - e->starts[g]);
        }
        if (s.fraction > 0 && state)
            weft__shuffle(e->drawn, s.n, state);
        for (int64_t k = 0; k < s.fraction; k++)
            add_unit(e, s.first + (e->drawn ? e->drawn[k] : 0), 1);
    }
}

weft_status weft__epoch_open(const weft_dataset *dataset, weft__epoch *out)
{
    *out = (weft__epoch){.dataset = dataset};
    for (int64_t i = 0; i < count_sources(dataset); i++) {
        const source s = source_at(dataset, i);
        out->n_samples += s.whole * s.n + s.fraction;
    }
    out->starts = weft__dataset_groups(dataset, &out->n_groups);
    if (out->starts == NULL)
        return WEFT_MEMORY;
    fill_units(out, NULL);
    out->drawn = weft_calloc((size_t)dataset->info.samples + 1, sizeof *out->drawn);
    out->turns = weft_calloc((size_t)out->n_units + 1, sizeof *out->turns);
    out->units = weft_calloc((size_t)out->n_units + 1, sizeof *out->units);
    if (out->drawn && out->turns && out->units)
        return WEFT_OK;
    weft__epoch_close(out);
    return weft_fail(WEFT_MEMORY, "batches: out of memory to order %lld samples",
                     (long long)dataset->info.samples);
}

void weft__epoch_close(weft__epoch *epoch)
{
    weft_free(epoch->starts);
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
