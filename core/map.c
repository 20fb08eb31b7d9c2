/* core/map.c -- a map from arrays to indices, and collecting a graph in order of creation. */
#include <stdlib.h>
#include <string.h>

#include "core/graph.h"

/* The slot of the table (its size is a power of two) where the search for a pointer begins. */
static int64_t start_of(const void *p, int64_t size)
{
    uint64_t x = (uint64_t)(uintptr_t)p >> 4;
    x *= 0x9e3779b97f4a7c15u;
    return (int64_t)((x ^ x >> 29) & (uint64_t)(size - 1));
}

static void insert(weft__map *map, weft_array *key, int64_t index)
{
    int64_t at = start_of(key, map->table_size);
    while (map->table[at]) {
        at = (at + 1) & (map->table_size - 1);
    }
    map->table[at] = (int32_t)index + 1;
}

static bool grow(weft__map *map)
{
    int64_t capacity = map->capacity ? 2 * map->capacity : 64;
    weft_array **keys = weft_realloc(map->keys, (size_t)capacity * sizeof(void *));
    if (!keys) {
        return false;
    }
    map->keys = keys;
    map->capacity = capacity;
    int32_t *table = weft_calloc((size_t)capacity * 2, sizeof *table);
    if (!table) {
        map->capacity = map->table_size / 2;
        return false;
    }
    weft_free(map->table);
    map->table = table;
    map->table_size = 2 * capacity;
    for (int64_t i = 0; i < map->count; i++) {
        insert(map, keys[i], i);
    }
    return true;
}

int64_t weft__map_index(weft__map *map, weft_array *key, bool *added)
{
    if (added) {
        *added = false;
        if (map->count == map->capacity && !grow(map)) {
            return -1;
        }
    } else if (map->table_size == 0) {
        return -1;
    }
    int64_t at = start_of(key, map->table_size);
    while (map->table[at]) {
        int32_t index = map->table[at] - 1;
        if (map->keys[index] == key) {
            return index;
        }
        at = (at + 1) & (map->table_size - 1);
    }
    if (!added) {
        return -1;
    }
    *added = true;
    map->keys[map->count] = key;
    map->table[at] = (int32_t)++map->count;
    return map->count - 1;
}

void weft__map_free(weft__map *map)
{
    weft_free(map->keys);
    weft_free(map->table);
    *map = (weft__map){0};
}

static int by_seq(const void *a, const void *b)
{
    uint64_t x = (*(weft_array *const *)a)->seq;
    uint64_t y = (*(weft_array *const *)b)->seq;
    return x < y ? -1 : x > y;
}

/* Sorts by writing each node at the index given by its number, if the numbers are dense. Most
 * graphs are built in one go. */
static bool place_by_seq(weft_array **nodes, int64_t n)
{
    uint64_t low = nodes[0]->seq, high = low;
    for (int64_t i = 1; i < n; i++) {
        low = nodes[i]->seq < low ? nodes[i]->seq : low;
        high = nodes[i]->seq > high ? nodes[i]->seq : high;
    }
    if (high - low >= 4 * (uint64_t)n) {
        return false;
    }
    weft_array **places = weft_calloc(high - low + 1, sizeof *places);
    if (!places) {
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        places[nodes[i]->seq - low] = nodes[i];
    }
    for (uint64_t i = 0; i <= high - low; i++) {
        if (places[i]) {
            *nodes++ = places[i];
        }
    }
    weft_free(places);
    return true;
}

void weft__sort_by_seq(weft_array **nodes, int64_t n)
{
    /* A graph walk from the results usually visits a chain in reverse order. */
    for (int64_t i = 0; i < n / 2; i++) {
        weft_array *swapped = nodes[i];
        nodes[i] = nodes[n - 1 - i];
        nodes[n - 1 - i] = swapped;
    }
    int64_t sorted = n > 0;
    while (sorted < n && nodes[sorted - 1]->seq < nodes[sorted]->seq) {
        sorted++;
    }
    if (sorted < n && !place_by_seq(nodes, n)) {
        qsort(nodes, (size_t)n, sizeof(void *), by_seq);
    }
}

/* Adds the node of `a`, unless it has no op or `stop` returns true. */
static bool visit(weft__map *map, weft_array *a, weft__stop *stop, const void *context)
{
    if ((stop && stop(context, a)) || !a->op) {
        return true;
    }
    bool added;
    return weft__map_index(map, a->first, &added) >= 0;
}

bool weft__collect(weft_array *const *roots, int n, weft__stop *stop, const void *context,
                   weft__map *out)
{
    *out = (weft__map){0};
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        ok = visit(out, roots[i], stop, context);
    }
    /* The keys also serve as the queue: keys added at the end are visited later. */
    for (int64_t i = 0; i < out->count && ok; i++) {
        weft_array *a = out->keys[i];
        for (int k = 0; k < a->n_inputs && ok; k++) {
            ok = visit(out, a->inputs[k], stop, context);
        }
    }
    if (!ok) {
        weft__map_free(out);
        return false;
    }
    if (out->count == 0) {
        return true;
    }
    weft__sort_by_seq(out->keys, out->count);
    /* Renumber the indices to follow the sorted order. */
    memset(out->table, 0, (size_t)out->table_size * sizeof *out->table);
    for (int64_t i = 0; i < out->count; i++) {
        insert(out, out->keys[i], i);
    }
    return true;
}
