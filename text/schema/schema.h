/* text/schema/schema.h -- a JSON Schema, prepared for recognizing JSON byte by byte.
 *
 * Every position in a document is described by a node: the schemas that the value there must match,
 * and those that it must not match. The value is one of the node's choices; a choice contains no
 * anyOf, oneOf, allOf, not, if or $ref.
 */
#ifndef WEFT_TEXT_SCHEMA_SCHEMA_H
#define WEFT_TEXT_SCHEMA_SCHEMA_H

#include "core/io/json.h"
#include "text/schema/branches.h"
#include "text/schema/check.h"
#include "text/schema/pattern.h"

enum schema_types {
    SCHEMA_NULL = 1,
    SCHEMA_FALSE = 2,
    SCHEMA_INTEGER = 4,
    SCHEMA_NUMBER = 8, /* with a fraction; integers are SCHEMA_INTEGER */
    SCHEMA_STRING = 16,
    SCHEMA_ARRAY = 32,
    SCHEMA_OBJECT = 64,
    SCHEMA_TRUE = 128,
    SCHEMA_BOOLEAN = SCHEMA_FALSE | SCHEMA_TRUE,
    SCHEMA_ANY = 255
};

enum {
    SCHEMA_NO_NODE = -1,
    SCHEMA_UNBOUNDED = -1,
    SCHEMA_KEY_LENGTHS = 5,
    SCHEMA_UNIQUE = 64, /* most values of `unique` */
    SCHEMA_DISTINCT = 8 /* most elements of an array that is `distinct` */
};

/* More bytes than any value needs: unsatisfiable. */
#define SCHEMA_NEVER (INT64_MAX / 4)

typedef struct schema_property {
    char *key; /* as JSON between quotes */
    size_t length;
    const char *name; /* as in the schema */
    int node;         /* SCHEMA_NO_NODE: must not exist */
    bool required;
    int32_t order; /* position among the properties in the declared order */
    int32_t from;  /* position after the last required property before this one */
    size_t rank;   /* index into the choice's by_cost */
} schema_property;

/* A property and the bytes of its shortest form with its comma; SCHEMA_NEVER if it is required or
 * impossible. */
typedef struct schema_cost {
    int64_t bytes;
    int32_t order; /* of the property */
    size_t property;
} schema_cost;

/* Keys that the schema does not name and that match the same patterns. Without a pattern: all such
 * keys. */
typedef struct schema_keys {
    weft__pattern *pattern; /* NULL: none */
    unsigned mask;          /* bits of the patterns that match */
    int node;               /* node of the values */
    int32_t longest;        /* most bytes of a key; without a pattern any */
    uint32_t *counts;       /* [state][bytes]: weft__pattern_counts */
    uint32_t *named;        /* by length in bytes: number of named properties with such keys */
    bool *among;            /* by property: whether it has such a key */
} schema_keys;

enum { SCHEMA_KEY_PATTERNS = 5, SCHEMA_KEYS = 1 << SCHEMA_KEY_PATTERNS };

enum { SCHEMA_PLACES = 16 };

/* For each number of decimals: the step of which the digits must be a multiple. */
typedef struct schema_multiples {
    int64_t step[SCHEMA_PLACES];
} schema_multiples;

typedef struct schema_choice {
    unsigned types;
    double minimum, maximum;     /* infinite: no bound */
    bool above, below;           /* whether the bounds are exclusive */
    schema_multiples *multiples; /* NULL: no restriction */
    int64_t min_length, max_length;
    weft__pattern *pattern; /* NULL: no restriction; includes the length */
    int *prefix;            /* nodes of the first elements */
    size_t n_prefix;
    int items;         /* node of the other elements */
    int *wanted_items; /* nodes, each of which a different element after `prefix` must match */
    size_t n_wanted_items;
    int64_t min_items, max_items;
    int unique_of; /* number of the schema whose uniqueItems applies; negative: none */
    char **unique; /* with unique_of, the allowed values of elements, shortest first; each may occur
                      once */
    size_t n_unique;
    bool distinct; /* with unique_of, elements are any strings and integers, each different */
    schema_property *properties; /* sorted by key */
    size_t n_properties;
    bool ordered;         /* properties come in the declared order */
    schema_cost *by_cost; /* the properties, cheapest first, then in the declared order */
    int32_t named_keys[SCHEMA_KEY_LENGTHS]; /* number of properties by the length of their keys */
    schema_keys *keys;                      /* groups of keys of other properties */
    size_t n_keys;
    int64_t min_properties, max_properties;
    bool enumerated; /* the value is one of the literals (JSON text) */
    char **literals; /* ascending */
    size_t n_literals;
    int64_t least_object, least_array; /* bytes of the shortest object, array */
    int64_t least;                     /* bytes of the shortest value */
} schema_choice;

typedef struct schema_node {
    int *schemas; /* ascending: 2 * number, plus 1 if it must not match */
    size_t n_schemas;
    size_t first, n_choices;
    int64_t least;
} schema_node;

/* A subschema. */
typedef struct schema_entry {
    weft__json at;
    int reference; /* number of its $ref's target; SCHEMA_NO_NODE: none; below that: not resolved
                      yet */
    json_object *required; /* its required names as keys; NULL: none */
} schema_entry;

typedef struct schema_pair {
    int a, b;
    bool disjoint;
} schema_pair;

typedef struct weft__schema {
    weft__json_doc doc;
    bool open;              /* objects may have any properties that the standard allows */
    weft__text notes;       /* what is ignored, in lines */
    weft__checker *checker; /* of literals */
    schema_entry *schemas;  /* all registered subschemas, by number */
    size_t n_schemas;
    schema_index numbers; /* index of `schemas` by value */
    schema_pair *pairs;   /* with the smaller number first */
    size_t n_pairs;
    schema_index pair_index;
    int work;           /* number of schemas taken into combinations */
    schema_node *nodes; /* node 0 is the document */
    size_t n_nodes;
    schema_index node_index;
    schema_choice *choices;
    size_t n_choices;
} weft__schema;

/* Reads a schema or a request of OpenAI's API that contains one (text/schema/dialect.c). The
 * document can be validated against with weft__schema_holds. */
weft_status weft__schema_read(const char *text, size_t length, const char *name,
                              weft__json_doc *out);
/* Reads and prepares a schema; messages call it `name`. Unless `open`, objects have only declared
 * properties, in the declared order (text/schema/closing.c). WEFT_UNSUPPORTED for keywords that
 * cannot be followed, WEFT_INVALID for a schema that no value satisfies. */
weft_status weft__schema_parse(const char *text, size_t length, const char *name, bool open,
                               weft__schema *out);
/* Computes the shortest values of nodes and choices. */
void weft__schema_measure(weft__schema *schema);
void weft__schema_release(weft__schema *schema);

/* The fewest bytes of a value of a node, which may be SCHEMA_NO_NODE. */
static inline int64_t weft__node_least(const weft__schema *schema, int node)
{
    return node == SCHEMA_NO_NODE ? SCHEMA_NEVER : schema->nodes[node].least;
}

/* The number of a registered schema; -1: not registered. */
int weft__schema_find(const weft__schema *schema, const json_object *value);
/* The number of a schema, which is registered if necessary, or negative with *status set. */
int weft__schema_number(weft__schema *schema, const weft__json *at, weft_status *status);
/* The number of its $ref's target; negative without one, or with *status set. */
int weft__schema_reference(weft__schema *schema, int number, weft_status *status);
/* The number of the node for signed schemas, which are sorted and deduplicated here. */
int weft__schema_node(weft__schema *schema, int *schemas, size_t n, weft_status *status);

/* Resolves a signed schema that consists only of a $ref. */
int weft__schema_resolve(weft__schema *schema, int signed_schema, weft_status *status);

void weft__keys_release(schema_keys *keys);
void weft__choice_release(schema_choice *choice);

#endif
