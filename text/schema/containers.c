/* text/schema/containers.c -- arrays and objects. The frame of one waits below its values in
 * the form that it will have behind them. */
#include <string.h>

#include "text/schema/machine.h"

enum container_phase {
    OPEN,  /* behind the opening bracket */
    NEXT,  /* behind a comma */
    AFTER, /* behind a value */
    KEY,   /* in a key that the schema names */
    FREE,  /* in a key that it does not name */
    COLON, /* behind a key */
    VALUE  /* behind a colon */
};

static int64_t least_of(const machine *m, int node)
{
    return node == SCHEMA_NO_NODE ? SCHEMA_NEVER : m->schema->nodes[node].least;
}

/* ---- arrays --------------------------------------------------------------------------------- */

/* Bytes to the end of an array: elements that are missing with their commas, the bracket. */
static int64_t array_missing(const machine *m, const schema_choice *c, unsigned char phase,
                             int64_t count)
{
    int64_t elements = c->min_items - count;
    if (phase == NEXT && elements < 1)
        elements = 1;
    if (elements <= 0)
        return 1;
    const int64_t each = least_of(m, c->items) + 1;
    if (each > SCHEMA_NEVER || elements > SCHEMA_NEVER / each)
        return SCHEMA_NEVER;
    return elements * each + 1 - (phase != AFTER);
}

static const frame *push_array(machine *m, frame f, unsigned char phase, int64_t count)
{
    f.phase = phase;
    f.as.count = count;
    f.rest = array_missing(m, &m->schema->choices[f.choice], phase, count);
    return weft__machine_push(m, f);
}

void weft__array_begin(machine *m, int choice, const frame *parent)
{
    const frame f = {.kind = FRAME_ARRAY, .choice = choice, .parent = parent};
    weft__machine_emit(m, push_array(m, f, OPEN, 0));
}

void weft__array_step(machine *m, const frame *top, unsigned char byte)
{
    const schema_choice *c = &m->schema->choices[top->choice];
    const int64_t count = top->as.count;
    const bool room = c->max_items == SCHEMA_UNBOUNDED || count < c->max_items;
    frame f = *top;
    if (weft__machine_blank(&f.blank, byte)) {
        weft__machine_emit(m, push_array(m, f, f.phase, count));
        return;
    }
    f.blank = 0;
    if (byte == ']') {
        if (top->phase != NEXT && count >= c->min_items)
            weft__machine_complete(m, top->parent);
    } else if (top->phase == AFTER) {
        if (byte == ',' && room && least_of(m, c->items) < SCHEMA_NEVER)
            weft__machine_emit(m, push_array(m, f, NEXT, count));
    } else if (room) {
        const frame *below = push_array(m, f, AFTER, count + 1);
        if (below)
            weft__machine_value(m, c->items, byte, below);
    }
}

/* ---- objects: what may still come ------------------------------------------------------------ */

static bool seen(const object_part *o, size_t property)
{
    return o->seen[property / 64] >> property % 64 & 1;
}

/* Bytes of a property with its comma. */
static int64_t property_bytes(const machine *m, const schema_property *p)
{
    return (int64_t)p->length + 4 + least_of(m, p->node);
}

/* Whether one more property that is not required leaves room for those that are. */
static bool room_for_more(const schema_choice *c, const object_part *o)
{
    return c->max_properties == SCHEMA_UNBOUNDED || o->count + o->required_left < c->max_properties;
}

static bool may_add(const machine *m, const schema_choice *c, const object_part *o, size_t property)
{
    const schema_property *p = &c->properties[property];
    return !seen(o, property) && least_of(m, p->node) < SCHEMA_NEVER &&
           (p->required || room_for_more(c, o));
}

static bool may_add_free(const machine *m, const schema_choice *c, const object_part *o)
{
    return least_of(m, c->additional) < SCHEMA_NEVER && room_for_more(c, o);
}

/* Bytes of the dearest property that could stand in for one that only has to be there: never too
 * few. */
static int64_t filler_bytes(const machine *m, const schema_choice *c, const object_part *o)
{
    int64_t most = least_of(m, c->additional) < SCHEMA_NEVER
                       ? least_of(m, c->additional) + SCHEMA_FREE_KEY
                       : 0;
    for (size_t i = 0; i < c->n_properties; i++)
        if (!c->properties[i].required && !seen(o, i) &&
            least_of(m, c->properties[i].node) < SCHEMA_NEVER &&
            property_bytes(m, &c->properties[i]) > most)
            most = property_bytes(m, &c->properties[i]);
    return most > 0 ? most : SCHEMA_NEVER;
}

/* Bytes from behind a value to the end of the object, when `n` more properties have to be there. */
static int64_t object_missing(const machine *m, const schema_choice *c, const object_part *o,
                              int64_t n)
{
    int64_t fillers = c->min_properties - o->count - o->required_left;
    if (fillers < n - o->required_left)
        fillers = n - o->required_left;
    int64_t sum = 1 + o->required_bytes;
    if (fillers > 0) {
        const int64_t each = filler_bytes(m, c, o);
        if (each >= SCHEMA_NEVER || fillers > SCHEMA_NEVER / each)
            return SCHEMA_NEVER;
        sum += fillers * each;
    }
    return sum;
}

static const frame *push_object(machine *m, frame f, unsigned char phase, int64_t rest)
{
    f.phase = phase;
    f.rest = rest;
    return weft__machine_push(m, f);
}

/* ---- objects: keys --------------------------------------------------------------------------- */

/* The object with a property more; false without memory. */
static bool add_property(machine *m, const schema_choice *c, object_part *o, size_t property)
{
    const size_t words = (c->n_properties + 63) / 64;
    uint64_t *bits = weft__machine_allocate(m, words * sizeof *bits);
    if (!bits)
        return false;
    memcpy(bits, o->seen, words * sizeof *bits);
    bits[property / 64] |= (uint64_t)1 << property % 64;
    o->seen = bits;
    o->count++;
    o->node = c->properties[property].node;
    if (c->properties[property].required) {
        o->required_left--;
        o->required_bytes -= property_bytes(m, &c->properties[property]);
    }
    return true;
}

static bool add_free(machine *m, const schema_choice *c, object_part *o)
{
    extra_key *key = weft__machine_allocate(m, sizeof *key);
    if (!key)
        return false;
    *key = (extra_key){o->key_hash, o->extras};
    o->extras = key;
    o->count++;
    o->node = c->additional;
    return true;
}

/* A key has been read: the frame behind its quotes. */
static void push_colon(machine *m, frame f)
{
    const schema_choice *c = &m->schema->choices[f.choice];
    object_part *o = &f.as.object;
    o->low = o->high = o->at = 0;
    o->key_hash = 0;
    const int64_t rest = 1 + least_of(m, o->node) + object_missing(m, c, o, 0);
    weft__machine_emit(m, push_object(m, f, COLON, rest));
}

/* The frame within a named key: the nearest of the properties that it can still be. */
static void push_key(machine *m, frame f)
{
    const schema_choice *c = &m->schema->choices[f.choice];
    const object_part *o = &f.as.object;
    int64_t least = SCHEMA_NEVER;
    for (int32_t i = o->low; i < o->high; i++) {
        const schema_property *p = &c->properties[i];
        if (!may_add(m, c, o, (size_t)i))
            continue;
        object_part with = *o;
        with.count++;
        if (p->required) {
            with.required_left--;
            with.required_bytes -= property_bytes(m, p);
        }
        const int64_t rest =
            (int64_t)p->length - o->at + 2 + least_of(m, p->node) + object_missing(m, c, &with, 0);
        if (rest < least)
            least = rest;
    }
    weft__machine_emit(m, push_object(m, f, KEY, least));
}

static void push_free(machine *m, frame f)
{
    const schema_choice *c = &m->schema->choices[f.choice];
    object_part with = f.as.object;
    with.count++;
    /* Three more letters, at most, tell the key from all others. */
    const int64_t rest =
        2 + 3 + least_of(m, c->additional) + object_missing(m, c, &with, 0) + with.missing;
    weft__machine_emit(m, push_object(m, f, FREE, rest));
}

/* Of the properties low .. high - 1, which agree in `at` bytes, those that go on with `byte`. */
static void narrow(const schema_choice *c, object_part *o, unsigned char byte)
{
    int32_t low = o->low, high = o->high;
    while (low < high && (unsigned char)c->properties[low].key[o->at] < byte)
        low++;
    while (high > low && (unsigned char)c->properties[high - 1].key[o->at] > byte)
        high--;
    o->low = low;
    o->high = high;
    o->at++;
}

/* The property whose whole key has been read, or -1. It is the first of those that begin so. */
static int32_t spelled(const schema_choice *c, const object_part *o)
{
    return o->low < o->high && c->properties[o->low].length == (size_t)o->at ? o->low : -1;
}

static void key_step(machine *m, const frame *top, unsigned char byte)
{
    const schema_choice *c = &m->schema->choices[top->choice];
    frame f = *top;
    object_part *o = &f.as.object;
    const int32_t property = spelled(c, o);
    if (byte == '"' && property >= 0) {
        if (may_add(m, c, o, (size_t)property) && add_property(m, c, o, (size_t)property))
            push_colon(m, f);
        return;
    }
    if (byte < ' ') /* none is written so, and a key's end is no byte of it */
        return;
    narrow(c, o, byte);
    push_key(m, f);
}

/* Keys that the schema does not name are written without escapes, so that each has one form. */
static void free_step(machine *m, const frame *top, unsigned char byte)
{
    const schema_choice *c = &m->schema->choices[top->choice];
    frame f = *top;
    object_part *o = &f.as.object;
    uint32_t value = 0;
    if (byte == '"' && o->missing == 0) {
        for (const extra_key *e = o->extras; e; e = e->next)
            if (e->hash == o->key_hash)
                return;
        if (spelled(c, o) < 0 && add_free(m, c, o))
            push_colon(m, f);
        return;
    }
    if (byte < ' ' || byte == '\\' || byte == '"')
        return;
    value = (uint32_t)o->node; /* the bits of half a character: there is no value yet */
    if (!weft__utf8_feed(&value, &o->missing, byte))
        return;
    o->node = (int32_t)value;
    o->key_hash = (o->key_hash ^ byte) * 0x100000001B3u + 1;
    if (o->low < o->high)
        narrow(c, o, byte);
    push_free(m, f);
}

static void begin_key(machine *m, const frame *top)
{
    const schema_choice *c = &m->schema->choices[top->choice];
    frame f = *top;
    object_part *o = &f.as.object;
    f.blank = 0;
    o->low = o->at = o->node = 0;
    o->high = (int32_t)c->n_properties;
    o->key_hash = 0;
    push_key(m, f);
    if (may_add_free(m, c, o))
        push_free(m, f);
}

/* ---- objects: everything else ---------------------------------------------------------------- */

/* Bytes to the end of an object between its keys and values. */
static int64_t rest_of(const machine *m, const frame *f)
{
    const schema_choice *c = &m->schema->choices[f->choice];
    const object_part *o = &f->as.object;
    if (f->phase == COLON || f->phase == VALUE)
        return (f->phase == COLON) + least_of(m, o->node) + object_missing(m, c, o, 0);
    if (f->phase == NEXT)
        return object_missing(m, c, o, 1) - 1;
    const int64_t missing = object_missing(m, c, o, 0);
    return missing > 1 && f->phase == OPEN ? missing - 1 : missing;
}

static bool any_may_be_added(const machine *m, const schema_choice *c, const object_part *o)
{
    for (size_t i = 0; i < c->n_properties; i++)
        if (may_add(m, c, o, i))
            return true;
    return may_add_free(m, c, o);
}

void weft__object_begin(machine *m, int choice, const frame *parent)
{
    const schema_choice *c = &m->schema->choices[choice];
    if (c->least_object >= SCHEMA_NEVER)
        return;
    frame f = {.kind = FRAME_OBJECT, .choice = choice, .parent = parent, .phase = OPEN};
    object_part *o = &f.as.object;
    const size_t words = (c->n_properties + 63) / 64;
    uint64_t *bits = weft__machine_allocate(m, words * sizeof *bits);
    if (!bits)
        return;
    memset(bits, 0, words * sizeof *bits);
    o->seen = bits;
    for (size_t i = 0; i < c->n_properties; i++)
        if (c->properties[i].required) {
            o->required_left++;
            o->required_bytes += property_bytes(m, &c->properties[i]);
        }
    weft__machine_emit(m, push_object(m, f, OPEN, rest_of(m, &f)));
}

void weft__object_step(machine *m, const frame *top, unsigned char byte)
{
    const schema_choice *c = &m->schema->choices[top->choice];
    frame f = *top;
    const object_part *o = &f.as.object;
    if (top->phase == KEY || top->phase == FREE) {
        (top->phase == KEY ? key_step : free_step)(m, top, byte);
        return;
    }
    if (top->phase != COLON && weft__machine_blank(&f.blank, byte)) {
        weft__machine_emit(m, push_object(m, f, f.phase, rest_of(m, &f)));
        return;
    }
    f.blank = 0;
    if (top->phase == COLON) {
        f.phase = VALUE;
        if (byte == ':')
            weft__machine_emit(m, push_object(m, f, VALUE, rest_of(m, &f)));
    } else if (top->phase == VALUE) {
        const frame *below = push_object(m, f, AFTER, object_missing(m, c, o, 0));
        if (below)
            weft__machine_value(m, o->node, byte, below);
    } else if (byte == '}') {
        if (top->phase != NEXT && o->required_left == 0 && o->count >= c->min_properties)
            weft__machine_complete(m, top->parent);
    } else if (byte == '"' && top->phase != AFTER) {
        begin_key(m, top);
    } else if (byte == ',' && top->phase == AFTER && any_may_be_added(m, c, o)) {
        f.phase = NEXT;
        weft__machine_emit(m, push_object(m, f, NEXT, rest_of(m, &f)));
    }
}
