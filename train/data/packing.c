/* train/data/packing.c -- samples packed into rows, by best fit decreasing. */
#include "train/data/packing.h"

#include <stdlib.h>

#include "core/failure.h"
#include "weft/memory.h"

enum { NONE = -1 };

/* Rows that are being filled. Those with the same room are a list. */
typedef struct rows {
    int64_t capacity;
    int64_t *heads;  /* (capacity + 1): the first row with so much room, or NONE */
    uint64_t *there; /* a bit for each of them */
    int64_t *next;   /* of a row */
    int64_t *row_of; /* of each sample, in the order in which they are placed */
} rows;

/* Tokens of a sample that are read: its last is only a target. */
static int64_t cells_of(const weft_dataset *d, int64_t sample)
{
    return d->samples[sample].length - 1;
}

/* ---- order ---------------------------------------------------------------------------------- */

typedef struct keyed {
    int64_t cells, place, sample;
} keyed;

static int compare(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->cells != y->cells)
        return x->cells > y->cells ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* samples[0, n) becomes first, first + 1, ... in the order in which they are placed. */
static weft_status order_samples(const weft_dataset *d, int64_t first, int64_t n, uint64_t *state,
                                 int64_t *samples)
{
    keyed *keys = weft_calloc((size_t)n + 1, sizeof *keys);
    if (keys == NULL)
        return weft__out_of_memory("packing", NULL);
    weft__shuffle(samples, n, state);
    for (int64_t i = 0; i < n; i++)
        keys[i] = (keyed){cells_of(d, first + samples[i]), i, first + samples[i]};
    qsort(keys, (size_t)n, sizeof *keys, compare);
    for (int64_t i = 0; i < n; i++)
        samples[i] = keys[i].sample;
    weft_free(keys);
    return WEFT_OK;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void put(rows *r, int64_t row, int64_t room)
{
    r->next[row] = r->heads[room];
    r->heads[room] = row;
    r->there[room / 64] |= 1ULL << (room % 64);
}

static int64_t take(rows *r, int64_t room)
{
    const int64_t row = r->heads[room];
    r->heads[room] = r->next[row];
    if (r->heads[room] == NONE)
        r->there[room / 64] &= ~(1ULL << (room % 64));
    return row;
}

/* The least room of at least n that a row has, or NONE. */
static int64_t least_room(const rows *r, int64_t n)
{
    uint64_t word = r->there[n / 64] & (~0ULL << (n % 64));
    for (int64_t i = n / 64;; word = r->there[++i]) {
        if (word != 0)
            return 64 * i + __builtin_ctzll(word);
        if (i == r->capacity / 64)
            return NONE;
    }
}

/* Places n samples; rows of other parts stay as they are. */
static void place(rows *r, const weft_dataset *d, const int64_t *samples, int64_t n,
                  int64_t *row_of, int64_t *n_rows)
{
    for (int64_t room = 0; room <= r->capacity; room++)
        r->heads[room] = NONE;
    for (int64_t i = 0; i <= r->capacity / 64; i++)
        r->there[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t cells = cells_of(d, samples[i]), room = least_room(r, cells);
        row_of[i] = room == NONE ? (*n_rows)++ : take(r, room);
        put(r, row_of[i], (room == NONE ? r->capacity : room) - cells);
    }
}

/* ---- the whole ------------------------------------------------------------------------------ */

static weft_status pack_parts(rows *r, const weft_dataset *d, uint64_t seed, int64_t *samples,
                              weft__packing *out)
{
    uint64_t state = seed;
    for (int64_t p = 0; p < out->n_parts; p++) {
        const int64_t first = d->n_parts > 0 ? d->parts[p].first : 0;
        const int64_t end = p + 1 < d->n_parts ? d->parts[p + 1].first : d->info.samples;
        const weft_status status = order_samples(d, first, end - first, &state, samples + first);
        if (status != WEFT_OK)
            return status;
        out->parts[p] = (weft__dataset_part){out->n_rows, d->n_parts > 0 ? d->parts[p].weight : 1};
        place(r, d, samples + first, end - first, r->row_of + first, &out->n_rows);
    }
    return WEFT_OK;
}

/* Gathers the samples of each row. */
static weft_status gather(const rows *r, const int64_t *samples, int64_t n, weft__packing *out)
{
    out->starts = weft_calloc((size_t)out->n_rows + 2, sizeof *out->starts);
    if (out->starts == NULL)
        return weft__out_of_memory("packing", NULL);
    int64_t *ends = out->starts + 1; /* of row r, while they are counted */
    for (int64_t i = 0; i < n; i++)
        ends[r->row_of[i] + 1]++;
    for (int64_t row = 1; row <= out->n_rows; row++)
        ends[row] += ends[row - 1];
    for (int64_t i = 0; i < n; i++)
        out->samples[ends[r->row_of[i]]++] = samples[i];
    return WEFT_OK;
}

static weft_status check(const weft_dataset *d, int64_t capacity)
{
    if (d->info.longest - 1 > capacity)
        return weft_fail(WEFT_INVALID,
                         "packing: a sample has %lld tokens, more than the %lld of a row",
                         (long long)d->info.longest, (long long)capacity + 1);
    return WEFT_OK;
}

weft_status weft__packing_new(const weft_dataset *dataset, int64_t capacity, uint64_t seed,
                              weft__packing *out)
{
    const size_t n = (size_t)dataset->info.samples;
    *out = (weft__packing){.capacity = capacity > 0 ? capacity : dataset->info.longest - 1,
                           .n_parts = dataset->n_parts > 0 ? dataset->n_parts : 1};
    weft_status status = check(dataset, out->capacity);
    if (status != WEFT_OK)
        return status;
    rows r = {.capacity = out->capacity,
              .heads = weft_calloc((size_t)out->capacity + 1, sizeof *r.heads),
              .there = weft_calloc((size_t)out->capacity / 64 + 1, sizeof *r.there),
              .next = weft_calloc(n + 1, sizeof *r.next),
              .row_of = weft_calloc(n + 1, sizeof *r.row_of)};
    int64_t *samples = weft_calloc(n + 1, sizeof *samples);
    out->samples = weft_calloc(n + 1, sizeof *out->samples);
    out->parts = weft_calloc((size_t)out->n_parts, sizeof *out->parts);
    if (r.heads && r.there && r.next && r.row_of && samples && out->samples && out->parts)
        status = pack_parts(&r, dataset, seed, samples, out);
    else
        status = weft_fail(WEFT_MEMORY, "packing: out of memory for %zu samples", n);
    if (status == WEFT_OK)
        status = gather(&r, samples, (int64_t)n, out);
    weft_free(r.heads);
    weft_free(r.there);
    weft_free(r.next);
    weft_free(r.row_of);
    weft_free(samples);
    if (status != WEFT_OK)
        weft__packing_free(out);
    return status;
}

void weft__packing_free(weft__packing *packing)
{
    weft_free(packing->starts);
    weft_free(packing->samples);
    weft_free(packing->parts);
    *packing = (weft__packing){0};
}

int64_t weft__packing_length(const weft__packing *packing, const weft_dataset *dataset, int64_t r)
{
    int64_t n = 0;
    for (int64_t i = packing->starts[r]; i < packing->starts[r + 1]; i++)
        n += cells_of(dataset, packing->samples[i]);
    return n;
}
