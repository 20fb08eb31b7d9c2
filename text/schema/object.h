/* text/schema/object.h -- objects: which properties may still come, and the fewest bytes to the
 * end. The shortest object and what is missing of one that has begun are computed by the same
 * function.
 */
#ifndef WEFT_TEXT_SCHEMA_OBJECT_H
#define WEFT_TEXT_SCHEMA_OBJECT_H

#include "text/schema/schema.h"

/* Keys that the schema does not name. */
typedef struct extra_key {
    uint64_t hash;
    const char *text; /* as JSON writes it between its quotes, without a NUL */
    int32_t length;
    int32_t keys; /* of the choice's `keys` */
    const struct extra_key *next;
} extra_key;

/* The properties that an object has so far, as far as they decide what is missing. */
typedef struct object_state {
    const uint64_t *seen;                  /* a bit for each property; NULL: none */
    int64_t count;                         /* properties so far */
    int64_t required_left, required_bytes; /* without the keys of those that are wanted */
    uint32_t found;                        /* a bit for each of the choice's `wanted` */
    const extra_key *extras;               /* keys that the schema does not name */
    int32_t free_used[SCHEMA_KEY_LENGTHS]; /* the same by length */
    int32_t
        reading_keys; /* a key that is not among `extras` yet: of which of the choice's `keys`, */
    int64_t reading;  /* and 1 more than its bytes; 0: there is none */
} object_state;

/* An object without properties. */
object_state weft__object_start(const weft__schema *schema, const schema_choice *c);

/* The fewest bytes from behind a value to the end of the object, which has at least `more` more
 * properties: a comma and a property each, and the bracket. SCHEMA_NEVER: there are not so many. */
int64_t weft__object_missing(const weft__schema *schema, const schema_choice *c,
                             const object_state *o, int64_t more);

/* Bytes of a property with its comma. */
int64_t weft__object_property(const weft__schema *schema, const schema_property *p);

/* Whether a property, or one that the schema does not name, may come now; `keys` is one of the
 * choice's, `wanted` too, or below 0. */
bool weft__object_may_add(const weft__schema *schema, const schema_choice *c, const object_state *o,
                          size_t property);
bool weft__object_may_add_free(const weft__schema *schema, const schema_choice *c,
                               const object_state *o, int keys, int wanted);
bool weft__object_may_add_any(const weft__schema *schema, const schema_choice *c,
                              const object_state *o);

/* Counts a property, apart from its bit in `seen`; one that the schema does not name, by the bytes
 * of its key. */
void weft__object_add(const weft__schema *schema, const schema_choice *c, object_state *o,
                      size_t property);
void weft__object_add_free(const weft__schema *schema, const schema_choice *c, object_state *o,
                           int wanted, int64_t key_bytes);
/* The same for a key that is still being read. */
void weft__object_read_free(const weft__schema *schema, const schema_choice *c, object_state *o,
                            int keys, int wanted, int64_t key_bytes);

/* The node of a property that the schema does not name. */
int weft__object_free_node(const schema_choice *c, int keys, int wanted);

/* How many strings of exactly so many bytes a key may consist of, or large. */
int64_t weft__object_keys(int64_t bytes);

#endif
