/* train/data/packing.c -- packs examples into rows, by best fit decreasing. */
#include "train/data/packing.h"
#include "train/columns.h"

#include <stdlib.h>

#include "core/failure.h"
#include "train/columns.h"
#include "train/examples.h"
#include "weft/memory.h"

enum { NONE = -1 };

/* Rows that are being filled. Rows with the same free space form a list. */
typedef struct rows {
    int64_t capacity;
    int64_t *heads;  /* (capacity + 1): first row with that much free space, or NONE */
    uint64_t *there; /* bit per list: whether it has a row */
    int64_t *next;   /* next row in its list */
    int64_t *row_of; /* row of each example, in placement order */
} rows;

/* ---- order ---------------------------------------------------------------------------------- */

typedef struct keyed {
    int64_t cells, place, example;
} keyed;

static int compare(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->cells != y->cells)
        return x->cells > y->cells ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Fills examples[0, n) with first, first + 1, ... in placement order. */
static weft_status order_examples(const int64_t *cells, int64_t first, int64_t n, uint64_t *state,
                                  int64_t *examples)
{
    keyed *keys = weft_calloc((size_t)n + 1, sizeof *keys);
    if (keys == NULL)
        return weft__out_of_memory("packing", NULL);
    weft__shuffle(examples, n, state);
    for (int64_t i = 0; i < n; i++)
        keys[i] = (keyed){cells[first + examples[i]], i, first + examples[i]};
    qsort(keys, (size_t)n, sizeof *keys, compare);
    for (int64_t i = 0; i < n; i++)
        examples[i] = keys[i].example;
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

/* The smallest free space of at least n in any row, or NONE. */
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

/* Places n examples of one part in new rows. */
static void place(rows *r, const int64_t *cells, const int64_t *examples, int64_t n,
                  int64_t *row_of, int64_t *n_rows)
{
    for (int64_t room = 0; room <= r->capacity; room++)
        r->heads[room] = NONE;
    for (int64_t i = 0; i <= r->capacity / 64; i++)
        r->there[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t own = cells[examples[i]], room = least_room(r, own);
        row_of[i] = room == NONE ? (*n_rows)++ : take(r, room);
        put(r, row_of[i], (room == NONE ? r->capacity : room) - own);
    }
}

/* ---- packing -------------------------------------------------------------------------------- */

/* The first example of part p of a mixture; for p past the last part, the number of examples. */
static int64_t first_of(const weft_dataset *d, int64_t p)
{
    const int64_t samples = weft__example_samples(d);
    if (p >= d->n_parts)
        return p == 0 ? 0 : weft__examples_count(d);
    return d->parts[p].first / samples;
}

static weft_status pack_parts(rows *r, const weft_dataset *d, uint64_t seed, int64_t *examples,
                              weft__packing *out)
{
    uint64_t state = seed;
    for (int64_t p = 0; p < out->n_parts; p++) {
        const int64_t first = first_of(d, p), n = first_of(d, p + 1) - first;
        const weft_status status = order_examples(out->cells, first, n, &state, examples + first);
        if (status != WEFT_OK)
            return status;
        out->parts[p] = (weft__dataset_part){out->n_rows, d->n_parts > 0 ? d->parts[p].weight : 1};
        place(r, out->cells, examples + first, n, r->row_of + first, &out->n_rows);
    }
    return WEFT_OK;
}

/* Gathers the examples of each row. */
static weft_status gather(const rows *r, const int64_t *examples, int64_t n, weft__packing *out)
{
    out->starts = weft_calloc((size_t)out->n_rows + 2, sizeof *out->starts);
    if (out->starts == NULL)
        return weft__out_of_memory("packing", NULL);
    int64_t *ends = out->starts + 1; /* end of each row while examples are counted */
    for (int64_t i = 0; i < n; i++)
        ends[r->row_of[i] + 1]++;
    for (int64_t row = 1; row <= out->n_rows; row++)
        ends[row] += ends[row - 1];
    for (int64_t i = 0; i < n; i++)
        out->examples[ends[r->row_of[i]]++] = examples[i];
    return WEFT_OK;
}

/* Allocates the arrays and measures the examples. *longest is the largest length. */
static weft_status measure(const weft_dataset *d, weft__packing *out, int64_t *longest)
{
    const int64_t n = weft__examples_count(d);
    *out = (weft__packing){.n_parts = d->n_parts > 0 ? d->n_parts : 1};
    out->examples = weft_calloc((size_t)n + 1, sizeof *out->examples);
    out->cells = weft_calloc((size_t)n + 1, sizeof *out->cells);
    out->parts = weft_calloc((size_t)out->n_parts, sizeof *out->parts);
    if (out->examples == NULL || out->cells == NULL || out->parts == NULL)
        return weft_fail(WEFT_MEMORY, "packing: out of memory for %lld examples", (long long)n);
    *longest = 0;
    for (int64_t i = 0; i < n; i++) {
        out->cells[i] = weft__example_cells(d, i);
        *longest = out->cells[i] > *longest ? out->cells[i] : *longest;
    }
    return WEFT_OK;
}

/* Checks lengths. In examples of two samples, the last token of each sample is not read. */
static weft_status check(const weft_dataset *d, int64_t longest, int64_t capacity)
{
    static const char *const names[] = {"a sample", "a labeled sample and its mismatched one",
                                        "a pair", "a completion", "an example"};
    const int64_t unread = weft__rows_per_example(d->info.examples, d->info.texts);
    if (longest > capacity)
        return weft_fail(WEFT_INVALID, "packing: %s has %lld tokens, more than the %lld of a row",
                         names[d->info.examples], (long long)(longest + unread),
                         (long long)(capacity + unread));
    return WEFT_OK;
}

static weft_status pack(const weft_dataset *d, uint64_t seed, weft__packing *out)
{
    const size_t n = (size_t)weft__examples_count(d);
    rows r = {.capacity = out->capacity,
              .heads = weft_calloc((size_t)out->capacity + 1, sizeof *r.heads),
              .there = weft_calloc((size_t)out->capacity / 64 + 1, sizeof *r.there),
              .next = weft_calloc(n + 1, sizeof *r.next),
              .row_of = weft_calloc(n + 1, sizeof *r.row_of)};
    int64_t *examples = weft_calloc(n + 1, sizeof *examples);
    weft_status status;
    if (r.heads && r.there && r.next && r.row_of && examples)
        status = pack_parts(&r, d, seed, examples, out);
    else
        status = weft_fail(WEFT_MEMORY, "packing: out of memory for %zu examples", n);
    if (status == WEFT_OK)
        status = gather(&r, examples, (int64_t)n, out);
    weft_free(r.heads);
    weft_free(r.there);
    weft_free(r.next);
    weft_free(r.row_of);
    weft_free(examples);
    return status;
}

weft_status weft__packing_new(const weft_dataset *dataset, int64_t capacity, uint64_t seed,
                              weft__packing *out)
{
    int64_t longest;
    weft_status status = measure(dataset, out, &longest);
    out->capacity = capacity > 0 ? capacity : longest;
    if (status == WEFT_OK)
        status = check(dataset, longest, out->capacity);
    if (status == WEFT_OK)
        status = pack(dataset, seed, out);
    if (status != WEFT_OK)
        weft__packing_free(out);
    return status;
}

weft_status weft__packing_apart(const weft_dataset *dataset, weft__packing *out)
{
    const int64_t n = weft__examples_count(dataset);
    int64_t longest;
    weft_status status = measure(dataset, out, &longest);
    out->n_rows = n;
    out->starts = weft_calloc((size_t)n + 2, sizeof *out->starts);
    if (status == WEFT_OK && out->starts == NULL)
        status = weft__out_of_memory("batches", "the pairs");
    if (status != WEFT_OK) {
        weft__packing_free(out);
        return status;
    }
    for (int64_t i = 0; i <= n; i++)
        out->starts[i] = out->examples[i] = i;
    for (int64_t p = 0; p < out->n_parts; p++)
        out->parts[p] = (weft__dataset_part){first_of(dataset, p),
                                             dataset->n_parts > 0 ? dataset->parts[p].weight : 1};
    return WEFT_OK;
}

void weft__packing_free(weft__packing *packing)
{
    weft_free(packing->starts);
    weft_free(packing->examples);
    weft_free(packing->cells);
    weft_free(packing->parts);
    *packing = (weft__packing){0};
}

int64_t weft__packing_length(const weft__packing *packing, int64_t r)
{
    int64_t n = 0;
    for (int64_t i = packing->starts[r]; i < packing->starts[r + 1]; i++)
        n += packing->cells[packing->examples[i]];
    return n;
}
