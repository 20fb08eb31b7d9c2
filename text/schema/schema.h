/* text/schema/schema.h -- a JSON Schema, ready to be followed byte by byte.
 *
 * Every place in a document is described by a node: the schemas that the value there matches, and
 * those that it must not match. The value is one of the node's choices; within a choice there is no
 * anyOf, oneOf, allOf, not, if or $ref left.
 */
#ifndef WEFT_TEXT_SCHEMA_SCHEMA_H
#define WEFT_TEXT_SCHEMA_SCHEMA_H

#include "core/io/json.h"
#include "text/schema/branches.h"
#include "text/schema/check.h"
#include "text/schema/pattern.h"

enum schema_types {
    SCHEMA_NULL = 1,
    SCHEMA_BOOLEAN = 2,
    SCHEMA_INTEGER = 4,
    SCHEMA_NUMBER = 8, /* with a fraction; integers are SCHEMA_INTEGER */
    SCHEMA_STRING = 16,
    SCHEMA_ARRAY = 32,
    SCHEMA_OBJECT = 64,
    SCHEMA_ANY = 127
};

enum { SCHEMA_NO_NODE = -1, SCHEMA_UNBOUNDED = -1, SCHEMA_KEY_LENGTHS = 5, SCHEMA_UNIQUE = 64 };

/* More bytes than any value needs: what cannot be satisfied. */
#define SCHEMA_NEVER (INT64_MAX / 4)

typedef struct schema_property {
    char *key; /* as JSON writes it between its quotes */
    size_t length;
    const char *name; /* as the schema has it */
    int node;
    bool required;
} schema_property;

/* The bytes of the shortest property with its comma. */
typedef struct schema_cost {
    int64_t bytes;
    size_t property;
} schema_cost;

/* Keys that the schema does not name and that match the same patterns. Without a pattern they are
 * all such keys. */
typedef struct schema_keys {
    weft__pattern *pattern; /* NULL: none */
    unsigned mask;          /* of the patterns, those that match */
    int node;               /* of the values */
    int32_t longest;        /* bytes that a key has at most; without a pattern any */
    uint32_t *counts;       /* [state][bytes]: weft__pattern_counts */
    uint32_t *named;        /* by bytes: how many properties have such keys */
    bool *among;            /* by property: whether it has such a key */
} schema_keys;

typedef struct schema_wanted {
    int keys, node;
} schema_wanted;

enum { SCHEMA_KEY_PATTERNS = 5, SCHEMA_KEYS = 1 << SCHEMA_KEY_PATTERNS };

enum { SCHEMA_PLACES = 16, SCHEMA_EXCLUDED = 8 };

/* By the digits behind the point: what the digits of a number are a multiple of, and what not. */
typedef struct schema_multiples {
    int64_t step[SCHEMA_PLACES];
    int64_t excluded[SCHEMA_EXCLUDED][SCHEMA_PLACES];
    int n_excluded;
} schema_multiples;

typedef struct schema_choice {
    unsigned types;
    double minimum, maximum;     /* infinite: none */
    bool above, below;           /* more than the minimum, less than the maximum */
    schema_multiples *multiples; /* NULL: any number */
    int64_t min_length, max_length;
    weft__pattern *pattern; /* NULL: none; it counts the length, too */
    int *prefix;            /* nodes of the first elements */
    size_t n_prefix;
    int items;         /* of the others */
    int *wanted_items; /* nodes of elements behind `prefix`: one each has to be there */
    size_t n_wanted_items;
    int64_t min_items, max_items;
    int unique_of; /* the schema whose uniqueItems holds; below 0: none */
    char **unique; /* what the elements are then among, each once, the shortest first */
    size_t n_unique;
    schema_property *properties; /* ascending by key */
    size_t n_properties;
    schema_cost *by_cost;                   /* the properties, the cheapest first */
    int32_t named_keys[SCHEMA_KEY_LENGTHS]; /* properties by the length of their keys */
    schema_keys *keys;                      /* the keys of other properties */
    size_t n_keys;
    schema_wanted *wanted; /* properties with other keys: one each has to be there */
    size_t n_wanted;
    int64_t min_properties, max_properties;
    bool enumerated; /* one of the literals, which are written as JSON */
    char **literals; /* ascending */
    size_t n_literals;
    int64_t least_object, least_array; /* bytes of the shortest */
    int64_t least;                     /* bytes of the shortest value at all */
} schema_choice;

typedef struct schema_node {
    int *schemas; /* ascending: 2 * number, and 1 more for one that must not match */
    size_t n_schemas;
    size_t first, n_choices;
    int64_t least;
} schema_node;

/* A sub-schema. */
typedef struct schema_entry {
    weft__json at;
    int reference; /* the number of its $ref; SCHEMA_NO_NODE: none; below that: not known yet */
    branch_list branches; /* of its oneOf */
    int dependent; /* the number of what dependentRequired and its relatives say; below 0: not made
                    */
    int others[2]; /* the numbers of the schemas of what enum and const exclude; below 0: not made
                    */
} schema_entry;

typedef struct schema_pair {
    int a, b;
    bool disjoint;
} schema_pair;

typedef struct weft__schema {
    weft__json_doc doc;
    json_object *owned;     /* schemas that the document does not contain */
    json_object *nothing;   /* of these, `false`; NULL: not made */
    weft__checker *checker; /* of literals */
    schema_entry *schemas;  /* every sub-schema that was met, by number */
    size_t n_schemas, schema_capacity;
    schema_index numbers; /* of `schemas`, by their values */
    schema_pair *pairs;   /* the smaller number first */
    size_t n_pairs, pair_capacity;
    schema_index pair_index;
    int work;           /* schemas that were taken into combinations */
    schema_node *nodes; /* 0 is the document */
    size_t n_nodes, node_capacity;
    schema_index node_index;
    schema_choice *choices;
    size_t n_choices, choice_capacity;
} weft__schema;

/* Reads a schema; messages call it `name`. An unknown keyword is WEFT_UNSUPPORTED, a schema that no
 * value satisfies WEFT_INVALID. */
weft_status weft__schema_parse(const char *text, size_t length, const char *name,
                               weft__schema *out);
/* Computes the shortest values of nodes and choices. */
void weft__schema_measure(weft__schema *schema);
void weft__schema_release(weft__schema *schema);

/* The number of a schema, or below 0 with *status set. */
int weft__schema_number(weft__schema *schema, const weft__json *at, weft_status *status);
/* The number of what its $ref refers to; below 0 without one, or with *status set. */
int weft__schema_reference(weft__schema *schema, int number, weft_status *status);
/* The number of the node of signed schemas, which are sorted, duplicates dropped. */
int weft__schema_node(weft__schema *schema, int *schemas, size_t n, weft_status *status);
/* Takes over a schema that the document does not contain; NULL: there was no memory for it. */
weft_status weft__schema_own(weft__schema *schema, json_object *value);

/* The signed schema that one stands for: what it refers to, where it says nothing else. */
int weft__schema_resolve(weft__schema *schema, int signed_schema, weft_status *status);

void weft__keys_release(schema_keys *keys);
void weft__choice_release(schema_choice *choice);

#endif
