/* text/schema/array.c -- arrays: which elements may follow, and the fewest bytes to the end. */
#include "text/schema/array.h"

#include <string.h>

int weft__array_node(const schema_choice *c, int64_t count)
{
    return count < (int64_t)c->n_prefix ? c->prefix[count] : c->items;
}

/* Adds `n` times `each` to *sum, which saturates at SCHEMA_NEVER. */
static void add(int64_t *sum, int64_t n, int64_t each)
{
    if (n <= 0)
        return;
    if (each >= SCHEMA_NEVER || n > (SCHEMA_NEVER - *sum) / each)
        *sum = SCHEMA_NEVER;
    else
        *sum += n * each;
}

/* The same if the elements are distinct values of the choice's `unique`. */
static int64_t unique_missing(const schema_choice *c, const array_state *a, int64_t more)
{
    int64_t left = c->min_items - a->count > more ? c->min_items - a->count : more, sum = 1;
    if (c->max_items != SCHEMA_UNBOUNDED && a->count + left > c->max_items)
        return SCHEMA_NEVER;
    for (size_t i = 0; i < c->n_unique && left > 0; i++)
        if (!(a->used >> i & 1)) {
            add(&sum, 1, (int64_t)strlen(c->unique[i]) + 1);
            left--;
        }
    return left > 0 ? SCHEMA_NEVER : sum;
}

int64_t weft__array_missing(const weft__schema *schema, const schema_choice *c,
                            const array_state *a, int64_t more)
{
    const int64_t prefix = (int64_t)c->n_prefix;
    int64_t wanted = 0, sum = 1;
    if (c->unique)
        return unique_missing(c, a, more);
    for (size_t i = 0; i < c->n_wanted_items; i++)
        if (!(a->found >> i & 1)) {
            add(&sum, 1, schema->nodes[c->wanted_items[i]].least + 1);
            wanted++;
        }
    /* Wanted elements come after the whole prefix. */
    int64_t end = c->min_items - wanted;
    if (end < a->count + more - wanted)
        end = a->count + more - wanted;
    if (wanted > 0 && end < prefix)
        end = prefix;
    if (end < a->count)
        end = a->count;
    if (c->max_items != SCHEMA_UNBOUNDED && end + wanted > c->max_items)
        return SCHEMA_NEVER;
    for (int64_t i = a->count; i < end && i < prefix && sum < SCHEMA_NEVER; i++)
        add(&sum, 1, schema->nodes[c->prefix[i]].least + 1);
    const int64_t behind = end - (a->count > prefix ? a->count : prefix);
    if (behind > 0)
        add(&sum, behind, schema->nodes[c->items].least + 1);
    return sum;
}
