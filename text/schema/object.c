/* text/schema/object.c -- objects: which properties may still come, and the fewest bytes to the
 * end. */
#include "text/schema/object.h"

static int64_t least_of(const weft__schema *schema, int node)
{
    return node == SCHEMA_NO_NODE ? SCHEMA_NEVER : schema->nodes[node].least;
}

int64_t weft__object_property(const weft__schema *schema, const schema_property *p)
{
    return (int64_t)p->length + 4 + least_of(schema, p->node); /* quotes, colon, comma */
}

static bool seen(const object_state *o, size_t property)
{
    return o->seen && (o->seen[property / 64] >> property % 64 & 1);
}

/* ---- what may come --------------------------------------------------------------------------- */

/* Whether one more property that is not required leaves room for those that are. */
static bool room_for_more(const schema_choice *c, const object_state *o)
{
    return c->max_properties == SCHEMA_UNBOUNDED || o->count + o->required_left < c->max_properties;
}

bool weft__object_may_add(const weft__schema *schema, const schema_choice *c, const object_state *o,
                          size_t property)
{
    const schema_property *p = &c->properties[property];
    return !seen(o, property) && least_of(schema, p->node) < SCHEMA_NEVER &&
           (p->required || room_for_more(c, o));
}

int weft__object_free_node(const schema_choice *c, int wanted)
{
    return wanted < 0 ? c->additional : c->wanted[wanted];
}

bool weft__object_may_add_free(const weft__schema *schema, const schema_choice *c,
                               const object_state *o, int wanted)
{
    if (wanted >= 0)
        return !(o->found >> wanted & 1);
    return least_of(schema, c->additional) < SCHEMA_NEVER && room_for_more(c, o);
}

bool weft__object_may_add_any(const weft__schema *schema, const schema_choice *c,
                              const object_state *o)
{
    for (size_t i = 0; i < c->n_properties; i++)
        if (weft__object_may_add(schema, c, o, i))
            return true;
    for (int i = 0; i < (int)c->n_wanted; i++)
        if (weft__object_may_add_free(schema, c, o, i))
            return true;
    return weft__object_may_add_free(schema, c, o, -1);
}

static void require(object_state *o, int64_t bytes)
{
    o->required_left++;
    o->required_bytes =
        bytes < SCHEMA_NEVER - o->required_bytes ? o->required_bytes + bytes : SCHEMA_NEVER;
}

object_state weft__object_start(const weft__schema *schema, const schema_choice *c)
{
    object_state o = {0};
    for (size_t i = 0; i < c->n_properties; i++)
        if (c->properties[i].required)
            require(&o, weft__object_property(schema, &c->properties[i]));
    for (size_t i = 0; i < c->n_wanted; i++)
        require(&o, least_of(schema, c->wanted[i]) + 4);
    return o;
}

void weft__object_add(const weft__schema *schema, const schema_choice *c, object_state *o,
                      size_t property)
{
    o->count++;
    if (c->properties[property].required) {
        o->required_left--;
        o->required_bytes -= weft__object_property(schema, &c->properties[property]);
    }
}

void weft__object_add_free(const weft__schema *schema, const schema_choice *c, object_state *o,
                           int wanted, int64_t key_bytes)
{
    o->count++;
    if (wanted >= 0) {
        o->found |= (uint32_t)1 << wanted;
        o->required_left--;
        o->required_bytes -= least_of(schema, c->wanted[wanted]) + 4;
    }
    if (key_bytes < SCHEMA_KEY_LENGTHS)
        o->free_used[key_bytes]++;
}

/* ---- the fewest bytes ------------------------------------------------------------------------ */

int64_t weft__object_keys(int64_t bytes)
{
    /* Characters of one byte without quote and backslash; two of them, an escape, or one character
     * of two bytes. Of longer ones only those of one byte are counted. */
    static const int64_t keys[] = {1, 94, 94 * 94 + 7 + 1920, 94 * 94 * 94, 94 * 94 * 94 * 94};
    return bytes < SCHEMA_KEY_LENGTHS ? keys[bytes] : SCHEMA_NEVER;
}

/* The cheapest of the properties that an object does not need, one after another. */
typedef struct supply {
    size_t named;   /* in c->by_cost */
    int64_t length; /* of the next key that the schema does not name */
    int64_t taken;  /* of that length */
} supply;

static bool optional(const weft__schema *schema, const schema_choice *c, const object_state *o,
                     const schema_cost *cost)
{
    const schema_property *p = &c->properties[cost->property];
    return !p->required && !seen(o, cost->property) && least_of(schema, p->node) < SCHEMA_NEVER;
}

static int64_t free_left(const schema_choice *c, const object_state *o, int64_t length)
{
    if (length >= SCHEMA_KEY_LENGTHS)
        return SCHEMA_NEVER;
    return weft__object_keys(length) - c->named_keys[length] - o->free_used[length];
}

/* Goes on to a length of which there are keys left. */
static void skip_lengths(const schema_choice *c, const object_state *o, supply *s)
{
    while (free_left(c, o, s->length) <= s->taken) {
        s->length++;
        s->taken = 0;
    }
}

/* Bytes of the next key that the schema does not name. */
static int64_t take_key(const schema_choice *c, const object_state *o, supply *s)
{
    skip_lengths(c, o, s);
    s->taken++;
    return s->length;
}

/* Takes up to `most` properties of one cost; their number, and the cost of each. 0: there is none.
 */
static int64_t take_cheapest(const weft__schema *schema, const schema_choice *c,
                             const object_state *o, supply *s, int64_t most, int64_t *each)
{
    while (s->named < c->n_properties && !optional(schema, c, o, &c->by_cost[s->named]))
        s->named++;
    skip_lengths(c, o, s);
    const int64_t value = least_of(schema, c->additional);
    const int64_t free_bytes = value < SCHEMA_NEVER ? value + s->length + 4 : SCHEMA_NEVER;
    const int64_t named_bytes =
        s->named < c->n_properties ? c->by_cost[s->named].bytes : SCHEMA_NEVER;
    if (named_bytes >= SCHEMA_NEVER && free_bytes >= SCHEMA_NEVER)
        return 0;
    if (named_bytes <= free_bytes) {
        *each = named_bytes;
        s->named++;
        return 1;
    }
    const int64_t left = free_left(c, o, s->length) - s->taken;
    const int64_t n = most < left ? most : left;
    *each = free_bytes;
    s->taken += n;
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
    supply s = {0};
    for (size_t i = 0; i < c->n_wanted; i++)
        if (!(o->found >> i & 1))
            sum += take_key(c, o, &s);
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
