/* text/schema/object.h -- objects: which properties may follow, and the fewest bytes to the end.
 * The length of the shortest object and the bytes missing from a partial one are computed by the
 * same function. */
#ifndef WEFT_TEXT_SCHEMA_OBJECT_H
#define WEFT_TEXT_SCHEMA_OBJECT_H

#include "text/schema/schema.h"

/* A key that the schema does not name. */
typedef struct extra_key {
    uint64_t hash;
    const char *text; /* as JSON between quotes, not NUL-terminated */
    int32_t length;
    int32_t keys; /* index into the choice's `keys` */
    const struct extra_key *next;
} extra_key;

/* The properties of an object so far, as far as they determine what is missing. */
typedef struct object_state {
    const uint64_t
        *seen; /* unless the properties are ordered, a bit for each by rank; NULL: none present */
    int32_t next;         /* the position in the declared order after the last property */
    size_t reading_named; /* number of the property being read, which counts as present; 0: none */
    int64_t count;        /* number of properties so far */
    int64_t required_left, required_bytes;
    const extra_key *extras;               /* keys that the schema does not name */
    int32_t free_used[SCHEMA_KEY_LENGTHS]; /* number of them by length */
    int32_t reading_keys; /* for a key being read that is not in `extras` yet: its index into the
                           * choice's `keys`, */
    int64_t reading;      /* and its bytes + 1; 0: none */
} object_state;

/* The number of words of `seen`. */
static inline size_t weft__seen_words(const schema_choice *c)
{
    return c->ordered ? 0 : (c->n_properties + 63) / 64;
}

/* Whether the property with this rank is among those in `seen`. */
static inline bool weft__object_has(const object_state *o, size_t rank)
{
    return o->seen && (o->seen[rank / 64] >> rank % 64 & 1);
}

/* An object without properties. */
object_state weft__object_start(const weft__schema *schema, const schema_choice *c);

/* The fewest bytes from after a value to the end of an object that gets at least `more` more
 * properties: a comma and a property each, and the bracket. SCHEMA_NEVER: impossible. */
int64_t weft__object_missing(const weft__schema *schema, const schema_choice *c,
                             const object_state *o, int64_t more);

/* The shortest property, with its comma. */
int64_t weft__object_property(const weft__schema *schema, const schema_property *p);

/* Whether a property may come now: a named one, or an unnamed one with `keys` (an index into the
 * choice's). */
bool weft__object_may_add(const weft__schema *schema, const schema_choice *c, const object_state *o,
                          size_t property);
bool weft__object_may_add_free(const weft__schema *schema, const schema_choice *c,
                               const object_state *o, int keys);
bool weft__object_may_add_any(const weft__schema *schema, const schema_choice *c,
                              const object_state *o);

/* Adds a named property, except for its bit in `seen`; or an unnamed one, by the length of its
 * key. */
void weft__object_add(const weft__schema *schema, const schema_choice *c, object_state *o,
                      size_t property);
void weft__object_add_free(object_state *o, int64_t key_bytes);
/* The same for a key that is still being read. */
void weft__object_read_free(object_state *o, int keys, int64_t key_bytes);

/* The number of possible keys of a given length in bytes; saturates. */
int64_t weft__object_keys(int64_t bytes);

#endif
