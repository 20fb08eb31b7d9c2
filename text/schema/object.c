/* text/schema/object.c -- objects: which properties may follow, and the fewest bytes to the end. */
#include "text/schema/object.h"

int64_t weft__object_property(const weft__schema *schema, const schema_property *p)
{
    return (int64_t)p->length + 4 + weft__node_least(schema, p->node); /* quotes, colon, comma */
}

static bool seen(const schema_choice *c, const object_state *o, size_t property)
{
    if (c->ordered)
        return c->properties[property].order < o->next;
    return o->reading_named == property + 1 || weft__object_has(o, c->properties[property].rank);
}

/* ---- what may come --------------------------------------------------------------------------- */

/* Whether one more optional property leaves room for the required ones. */
static bool room_for_more(const schema_choice *c, const object_state *o)
{
    return c->max_properties == SCHEMA_UNBOUNDED || o->count + o->required_left < c->max_properties;
}

bool weft__object_may_add(const weft__schema *schema, const schema_choice *c, const object_state *o,
                          size_t property)
{
    const schema_property *p = &c->properties[property];
    return !seen(c, o, property) && (!c->ordered || o->next >= p->from) &&
           weft__node_least(schema, p->node) < SCHEMA_NEVER && (p->required || room_for_more(c, o));
}

bool weft__object_may_add_free(const weft__schema *schema, const schema_choice *c,
                               const object_state *o, int keys)
{
    return weft__node_least(schema, c->keys[keys].node) < SCHEMA_NEVER && room_for_more(c, o);
}

bool weft__object_may_add_any(const weft__schema *schema, const schema_choice *c,
                              const object_state *o)
{
    for (size_t i = 0; i < c->n_properties; i++)
        if (weft__object_may_add(schema, c, o, i))
            return true;
    for (int k = 0; k < (int)c->n_keys; k++)
        if (weft__object_may_add_free(schema, c, o, k))
            return true;
    return false;
}

object_state weft__object_start(const weft__schema *schema, const schema_choice *c)
{
    object_state o = {0};
    for (size_t i = 0; i < c->n_properties; i++) {
        if (!c->properties[i].required)
            continue;
        const int64_t bytes = weft__object_property(schema, &c->properties[i]);
        o.required_left++;
        o.required_bytes =
            bytes < SCHEMA_NEVER - o.required_bytes ? o.required_bytes + bytes : SCHEMA_NEVER;
    }
    return o;
}

void weft__object_add(const weft__schema *schema, const schema_choice *c, object_state *o,
                      size_t property)
{
    o->count++;
    o->next = c->properties[property].order + 1;
    o->reading_named = property + 1;
    if (c->properties[property].required) {
        o->required_left--;
        o->required_bytes -= weft__object_property(schema, &c->properties[property]);
    }
}

void weft__object_add_free(object_state *o, int64_t key_bytes)
{
    o->count++;
    if (key_bytes < SCHEMA_KEY_LENGTHS)
        o->free_used[key_bytes]++;
}

void weft__object_read_free(object_state *o, int keys, int64_t key_bytes)
{
    o->reading_keys = keys;
    o->reading = 1 + key_bytes;
    weft__object_add_free(o, key_bytes);
}

/* ---- the fewest bytes ------------------------------------------------------------------------ */

int64_t weft__object_keys(int64_t bytes)
{
    /* The number of keys by length: one-byte characters without quote and backslash; of two bytes
     * also escapes and two-byte characters. For longer keys only one-byte characters are counted.
     */
    static const int64_t keys[] = {1, 94, 94 * 94 + 7 + 1920, 94 * 94 * 94, 94 * 94 * 94 * 94};
    return bytes < SCHEMA_KEY_LENGTHS ? keys[bytes] : SCHEMA_NEVER;
}

/* The remaining keys of a group that the schema does not name. */
typedef struct keys_left {
    int64_t length;
    int64_t taken; /* used keys of that length */
} keys_left;

/* Enumerates the optional properties, cheapest first. */
typedef struct key_range {
    size_t named; /* in c->by_cost: the first property of those with equal costs */
    keys_left of[SCHEMA_KEYS];
} key_range;

/* The first of by_cost[first, end) with at least these bytes and this order. */
static size_t find_cost(const schema_choice *c, size_t first, int64_t bytes, int32_t order)
{
    size_t end = c->n_properties;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        const schema_cost *cost = &c->by_cost[middle];
        if (cost->bytes < bytes || (cost->bytes == bytes && cost->order < order))
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* The number of bits from first to end - 1. */
static int64_t count_bits(const uint64_t *bits, size_t first, size_t end)
{
    int64_t n = 0;
    while (first < end) {
        const size_t in_word = 64 - first % 64, left = end - first;
        const size_t take = left < in_word ? left : in_word;
        const uint64_t mask = take == 64 ? UINT64_MAX : (((uint64_t)1 << take) - 1) << first % 64;
        n += __builtin_popcountll(bits[first / 64] & mask);
        first += take;
    }
    return n;
}

/* The number of properties among by_cost[s->named, *end), those of equal costs, that the object
 * does not have. */
static int64_t named_left(const schema_choice *c, const object_state *o, const key_range *s,
                          size_t *end)
{
    const int64_t bytes = c->by_cost[s->named].bytes;
    *end = find_cost(c, s->named, bytes + 1, 0);
    if (c->ordered)
        return (int64_t)(*end - find_cost(c, s->named, bytes, o->next));
    int64_t left = (int64_t)(*end - s->named);
    if (o->seen)
        left -= count_bits(o->seen, s->named, *end);
    if (o->reading_named > 0) {
        const size_t rank = c->properties[o->reading_named - 1].rank;
        left -= rank >= s->named && rank < *end && !weft__object_has(o, rank);
    }
    return left;
}

/* The number of keys of a length that the object does not have yet. */
static int64_t free_left(const schema_choice *c, const object_state *o, int k, int64_t length)
{
    const schema_keys *keys = &c->keys[k];
    if (!keys->pattern)
        return length >= SCHEMA_KEY_LENGTHS
                   ? SCHEMA_NEVER
                   : weft__object_keys(length) - c->named_keys[length] - o->free_used[length];
    int64_t left = (int64_t)keys->counts[length] - keys->named[length];
    for (const extra_key *e = o->extras; e; e = e->next)
        left -= e->keys == k && e->length == length;
    return left - (o->reading_keys == k && o->reading == 1 + length);
}

/* Advances to a length with keys left; false: none. */
static bool skip_lengths(const schema_choice *c, const object_state *o, key_range *s, int k)
{
    keys_left *of = &s->of[k];
    const bool limited = c->keys[k].pattern;
    for (; !limited || of->length <= c->keys[k].longest; of->length++, of->taken = 0)
        if (free_left(c, o, k, of->length) > of->taken)
            return true;
    return false;
}

/* The key group of the cheapest unnamed property; negative: none. */
static int cheapest_keys(const weft__schema *schema, const schema_choice *c, const object_state *o,
                         key_range *s, int64_t *bytes)
{
    int best = -1;
    *bytes = SCHEMA_NEVER;
    for (int k = 0; k < (int)c->n_keys; k++) {
        const int64_t value = weft__node_least(schema, c->keys[k].node);
        if (value >= SCHEMA_NEVER || !skip_lengths(c, o, s, k) ||
            value + s->of[k].length + 4 >= *bytes)
            continue;
        *bytes = value + s->of[k].length + 4;
        best = k;
    }
    return best;
}

/* Takes up to `most` properties of equal cost; returns their number and *cost. 0: none left. */
static int64_t take_cheapest(const weft__schema *schema, const schema_choice *c,
                             const object_state *o, key_range *s, int64_t most, int64_t *each)
{
    size_t end = s->named;
    int64_t named = 0, free_bytes;
    while (named == 0 && end < c->n_properties && c->by_cost[end].bytes < SCHEMA_NEVER) {
        s->named = end;
        named = named_left(c, o, s, &end);
    }
    const int k = cheapest_keys(schema, c, o, s, &free_bytes);
    const int64_t named_bytes = named > 0 ? c->by_cost[s->named].bytes : SCHEMA_NEVER;
    if (named_bytes >= SCHEMA_NEVER && free_bytes >= SCHEMA_NEVER)
        return 0;
    if (named_bytes <= free_bytes) {
        *each = named_bytes;
        s->named = end;
        return most < named ? most : named;
    }
    const int64_t left = free_left(c, o, k, s->of[k].length) - s->of[k].taken;
    const int64_t n = most < left ? most : left;
    *each = free_bytes;
    s->of[k].taken += n;
    return n;
}

int64_t weft__object_missing(const weft__schema *schema, const schema_choice *c,
                             const object_state *o, int64_t more)
{
    int64_t fillers = c->min_properties - o->count - o->required_left;
    if (fillers < more - o->required_left)
        fillers = more - o->required_left;
    if (c->max_properties != SCHEMA_UNBOUNDED &&
        o->count + o->required_left + (fillers > 0 ? fillers : 0) > c->max_properties)
        return SCHEMA_NEVER;
    int64_t sum = 1 + o->required_bytes;
    key_range s;
    s.named = 0;
    for (size_t k = 0; k < c->n_keys; k++)
        s.of[k] = (keys_left){0};
    while (fillers > 0 && sum < SCHEMA_NEVER) {
        int64_t each = 0;
        const int64_t n = take_cheapest(schema, c, o, &s, fillers, &each);
        if (n == 0 || n > (SCHEMA_NEVER - sum) / each)
            return SCHEMA_NEVER;
        sum += n * each;
        fillers -= n;
    }
    return sum < SCHEMA_NEVER ? sum : SCHEMA_NEVER;
}
