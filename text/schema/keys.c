/* text/schema/keys.c -- reads the keys of objects: named in the schema, and others. */
#include <string.h>

#include "text/schema/key_ways.h"
#include "text/schema/machine.h"

enum { ESCAPED = 4 }; /* value of object_part.missing after a backslash */

static const schema_choice *choice_of(const machine *m, const frame *f)
{
    return &m->schema->choices[f->choice];
}

static void push(machine *m, frame f, unsigned char phase, int64_t rest)
{
    f.phase = phase;
    f.rest = rest;
    weft__machine_emit(m, weft__machine_push(m, f));
}

/* ---- the end of a key ------------------------------------------------------------------------ */

/* The object with another property; false when out of memory. */
static bool add_property(machine *m, const schema_choice *c, object_part *o, size_t property)
{
    weft__object_add(m->schema, c, &o->state, property);
    o->state.reading_named = 0;
    o->node = c->properties[property].node;
    if (c->ordered)
        return true;
    const size_t words = weft__seen_words(c);
    uint64_t *bits = weft__machine_allocate(m, words * sizeof *bits);
    if (!bits)
        return false;
    memcpy(bits, o->state.seen, words * sizeof *bits);
    const size_t rank = c->properties[property].rank;
    bits[rank / 64] |= (uint64_t)1 << rank % 64;
    o->state.seen = bits;
    return true;
}

/* Adds the key that has been read. */
static bool add_free(machine *m, const schema_choice *c, object_part *o)
{
    extra_key *key = weft__machine_allocate(m, sizeof *key);
    char *text = weft__machine_allocate(m, (size_t)o->at + 1);
    if (!key || !text)
        return false;
    int32_t i = o->at;
    for (const key_byte *b = o->bytes; b; b = b->before)
        text[--i] = (char)b->byte;
    *key = (extra_key){.hash = o->key_hash,
                       .text = text,
                       .length = o->at,
                       .keys = o->keys,
                       .next = o->state.extras};
    o->state.extras = key;
    weft__object_add_free(&o->state, o->at);
    o->node = c->keys[o->keys].node;
    return true;
}

/* A key has been read: pushes the frame after its closing quote. */
static void push_colon(machine *m, frame f)
{
    object_part *o = &f.as.object;
    o->low = o->high = o->at = o->keys = o->key_state = 0;
    o->key_hash = 0;
    o->bytes = NULL;
    o->alike = NULL;
    push(m, f, OBJECT_COLON,
         1 + weft__node_least(m->schema, o->node) +
             weft__object_missing(m->schema, choice_of(m, &f), &o->state, 0));
}

/* ---- keys that the schema names -------------------------------------------------------------- */

/* The frame within a named key, with the distance to the nearest property that it can still be. No
 * property is nearer than the cheapest one of all, of which quote and `at` bytes are written, and
 * the comma before it. */
static void push_key(machine *m, frame f)
{
    const schema_choice *c = choice_of(m, &f);
    const object_part *o = &f.as.object;
    const int64_t bound = weft__object_missing(m->schema, c, &o->state, 1) - o->at - 2;
    int64_t least = SCHEMA_NEVER;
    for (int32_t i = o->low; i < o->high && least > bound; i++) {
        const schema_property *p = &c->properties[i];
        if (!weft__object_may_add(m->schema, c, &o->state, (size_t)i))
            continue;
        const int64_t own = (int64_t)p->length - o->at + 2 + weft__node_least(m->schema, p->node);
        if (own >= least)
            continue;
        object_state with = o->state;
        weft__object_add(m->schema, c, &with, (size_t)i);
        const int64_t rest = own + weft__object_missing(m->schema, c, &with, 0);
        if (rest < least)
            least = rest;
    }
    push(m, f, OBJECT_KEY, least);
}

/* Narrows the properties low .. high - 1, which share `at` bytes, to those that continue with
 * `byte`. */
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

/* The property whose complete key has been read, or -1; it sorts before longer ones. */
static int32_t spelled(const schema_choice *c, const object_part *o)
{
    return o->low < o->high && c->properties[o->low].length == (size_t)o->at ? o->low : -1;
}

void weft__key_step(machine *m, const frame *top, unsigned char byte)
{
    const schema_choice *c = choice_of(m, top);
    frame f = *top;
    object_part *o = &f.as.object;
    const int32_t property = spelled(c, o);
    if (byte == '"' && property >= 0) {
        if (weft__object_may_add(m->schema, c, &o->state, (size_t)property) &&
            add_property(m, c, o, (size_t)property))
            push_colon(m, f);
        return;
    }
    if (byte < ' ') /* keys do not contain control characters, and the end of a key is not a byte of
                     * it */
        return;
    narrow(c, o, byte);
    push_key(m, f);
}

/* ---- other keys ------------------------------------------------------------------------------ */

/* The number of ways to complete a key with exactly `bytes` more bytes, ignoring patterns. */
static int64_t any_continuation(const object_part *o, int64_t bytes)
{
    /* The ways to complete the current character. */
    int64_t counts = 1;
    if (o->missing == ESCAPED) {
        counts = 7;
        bytes--;
    } else if (o->missing > 0) {
        const bool shortest = o->character == 0; /* no overlong forms */
        counts = o->missing == 1   ? 64
                 : o->missing == 2 ? 64 * (shortest || o->character == 0xD ? 32 : 64)
                                   : 4096 * (shortest            ? 48
                                             : o->character == 4 ? 16
                                                                 : 64);
        bytes -= o->missing;
    }
    if (bytes < 0)
        return 0;
    const int64_t keys = weft__object_keys(bytes);
    return keys < SCHEMA_NEVER / counts ? counts * keys : SCHEMA_NEVER;
}

/* The same for keys that match a pattern. */
static int64_t continuations(const schema_keys *keys, const object_part *o, int64_t bytes)
{
    static const char escaped[] = "\"\\\b\f\n\r\t";
    if (!keys->pattern)
        return any_continuation(o, bytes);
    if (o->missing == 0)
        return keys->counts[(int64_t)o->key_state * (keys->longest + 1) + bytes];
    if (o->missing != ESCAPED) {
        const uint32_t shift = 6 * o->missing, first = o->character << shift;
        const uint32_t least = o->missing == 2 ? 0x800 : 0x10000; /* no overlong forms */
        return weft__pattern_counts_after(keys->pattern, keys->counts, keys->longest, o->key_state,
                                          o->character == 0 ? least : first,
                                          first + (1u << shift) - 1, bytes - o->missing);
    }
    int64_t counts = 0;
    for (const char *at = escaped; *at; at++)
        counts += weft__pattern_counts_after(keys->pattern, keys->counts, keys->longest,
                                             o->key_state, (uint32_t)*at, (uint32_t)*at, bytes - 1);
    return counts;
}

/* The fewest bytes that complete a key that the schema does not name and the object does not have;
 * SCHEMA_NEVER: no such key. */
static int64_t bytes_to_new(const schema_choice *c, const object_part *o)
{
    const schema_keys *keys = &c->keys[o->keys];
    for (int64_t bytes = 0; !keys->pattern || o->at + bytes <= keys->longest; bytes++) {
        int64_t taken = 0;
        for (int32_t i = o->low; i < o->high; i++)
            taken += (int64_t)c->properties[i].length - o->at == bytes &&
                     (!keys->pattern || keys->among[i]);
        for (const extra_key *e = o->alike; e; e = e->next)
            taken += e->length - o->at == bytes && e->keys == o->keys;
        if (taken < continuations(keys, o, bytes))
            return bytes;
    }
    return SCHEMA_NEVER;
}

static void push_free(machine *m, frame f)
{
    const schema_choice *c = choice_of(m, &f);
    object_part with = f.as.object;
    const int64_t bytes = bytes_to_new(c, &with);
    if (bytes >= SCHEMA_NEVER)
        return;
    weft__object_read_free(&with.state, with.keys, with.at + bytes);
    push(m, f, OBJECT_FREE,
         bytes + 2 + weft__node_least(m->schema, c->keys[with.keys].node) +
             weft__object_missing(m->schema, c, &with.state, 0));
}

/* Copies the keys of o->alike that continue with `byte` at o->at to a new list. */
static const extra_key *alike_with(machine *m, const object_part *o, unsigned char byte)
{
    const extra_key *alike = NULL;
    for (const extra_key *e = o->alike; e; e = e->next) {
        if (e->length <= o->at || (unsigned char)e->text[o->at] != byte)
            continue;
        extra_key *key = weft__machine_allocate(m, sizeof *key);
        if (!key)
            return NULL;
        *key = *e;
        key->next = alike;
        alike = key;
    }
    return alike;
}

/* Reads a byte of a character; false if it is invalid. Escapes are accepted only where required, so
 * that each key has one form. */
static bool read_byte(object_part *o, unsigned char byte)
{
    static const char letters[] = "\"\"\\\\b\bf\fn\nr\rt\t";
    if (o->missing == ESCAPED) {
        for (const char *at = letters; *at; at += 2)
            if ((unsigned char)at[0] == byte) {
                o->missing = 0;
                o->character = (unsigned char)at[1];
                return true;
            }
        return false;
    }
    if (o->missing == 0 && byte == '\\') {
        o->missing = ESCAPED;
        return true;
    }
    return byte >= ' ' && byte != '"' && weft__utf8_feed(&o->character, &o->missing, byte);
}

/* Advances the keys' pattern by the character that has been read; false: no key continues so. */
static bool read_character(const schema_keys *keys, object_part *o)
{
    if (o->missing > 0)
        return true;
    if (keys->pattern)
        o->key_state = weft__pattern_step(keys->pattern, o->key_state, o->character);
    o->character = 0;
    return o->key_state >= 0;
}

void weft__free_key_step(machine *m, const frame *top, unsigned char byte)
{
    const schema_choice *c = choice_of(m, top);
    frame f = *top;
    object_part *o = &f.as.object;
    if (byte == '"' && o->missing == 0) {
        if (bytes_to_new(c, o) == 0 && add_free(m, c, o))
            push_colon(m, f);
        return;
    }
    if (!read_byte(o, byte) || !read_character(&c->keys[o->keys], o))
        return;
    key_byte *read = weft__machine_allocate(m, sizeof *read);
    if (!read)
        return;
    *read = (key_byte){.before = o->bytes, .byte = byte};
    o->bytes = read;
    o->alike = alike_with(m, o, byte);
    o->key_hash = (o->key_hash ^ byte) * 0x100000001B3u + 1;
    if (o->low < o->high)
        narrow(c, o, byte);
    else
        o->at++;
    push_free(m, f);
}

void weft__key_begin(machine *m, const frame *top)
{
    const schema_choice *c = choice_of(m, top);
    frame f = *top;
    object_part *o = &f.as.object;
    f.blank = 0;
    o->low = o->at = 0;
    o->high = (int32_t)c->n_properties;
    o->key_hash = 0;
    o->character = o->missing = 0;
    o->bytes = NULL;
    o->alike = NULL;
    o->keys = o->key_state = 0;
    push_key(m, f);
    o->alike = o->state.extras;
    for (o->keys = 0; o->keys < (int32_t)c->n_keys; o->keys++)
        if (weft__object_may_add_free(m->schema, c, &o->state, o->keys))
            push_free(m, f);
}
