/* text/schema/schema.h -- a JSON Schema, ready to be followed byte by byte.
 *
 * Every place in a document is described by a node: the schemas that must hold there together. A
 * node's value is one of its choices; within a choice there is no anyOf, oneOf, allOf or $ref left.
 */
#ifndef WEFT_TEXT_SCHEMA_SCHEMA_H
#define WEFT_TEXT_SCHEMA_SCHEMA_H

#include "core/io/json.h"
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

enum { SCHEMA_NO_NODE = -1, SCHEMA_UNBOUNDED = -1, SCHEMA_KEY_LENGTHS = 5 };

/* More bytes than any value needs: what cannot be satisfied. */
#define SCHEMA_NEVER (INT64_MAX / 4)

typedef struct schema_property {
    char *key; /* as JSON writes it between its quotes */
    size_t length;
    int node;
    bool required;
} schema_property;

/* The bytes of the shortest property with its comma. */
typedef struct schema_cost {
    int64_t bytes;
    size_t property;
} schema_cost;

/* The value matched branch `branch` of a oneOf: no other branch of `group` may. */
typedef struct schema_tag {
    int group, branch;
} schema_tag;

typedef struct schema_choice {
    unsigned types;
    double minimum, maximum; /* infinite: none */
    bool above, below;       /* more than the minimum, less than the maximum */
    int64_t min_length, max_length;
    weft__pattern *pattern; /* NULL: none; it counts the length, too */
    int items;
    int64_t min_items, max_items;
    schema_property *properties; /* ascending by key */
    size_t n_properties;
    schema_cost *by_cost;                   /* the properties, the cheapest first */
    int32_t named_keys[SCHEMA_KEY_LENGTHS]; /* properties by the length of their keys */
    int additional;                         /* SCHEMA_NO_NODE: no other properties */
    int64_t min_properties, max_properties;
    bool enumerated; /* one of the literals, which are written as JSON */
    char **literals;
    size_t n_literals;
    schema_tag *tags; /* innermost last */
    size_t n_tags;
    int64_t least_object, least_array; /* bytes of the shortest */
    int64_t least;                     /* bytes of the shortest value at all */
} schema_choice;

typedef struct schema_node {
    int *schemas; /* ascending */
    size_t n_schemas;
    size_t first, n_choices;
    int64_t least;
} schema_node;

typedef struct weft__schema {
    weft__json_doc doc;
    weft__json *schemas; /* every sub-schema that was met, by number */
    size_t n_schemas, schema_capacity;
    schema_node *nodes; /* 0 is the document */
    size_t n_nodes, node_capacity;
    schema_choice *choices;
    size_t n_choices, choice_capacity;
} weft__schema;

/* Reads a schema; messages call it `name`. An unknown keyword is WEFT_UNSUPPORTED, a schema that no
 * value satisfies WEFT_INVALID. Literals are not yet compared with the other keywords: that is
 * weft__schema_settle's. */
weft_status weft__schema_parse(const char *text, size_t length, const char *name,
                               weft__schema *out);
/* Computes the shortest values; again after literals have gone. */
weft_status weft__schema_measure(weft__schema *schema);
void weft__schema_release(weft__schema *schema);

/* Between schema.c and choice.c: the number of a schema, of the node of several (sorted by this,
 * duplicates dropped), or below 0 with *status set. */
int weft__schema_number(weft__schema *schema, const weft__json *at, weft_status *status);
int weft__schema_node(weft__schema *schema, int *schemas, size_t n, weft_status *status);

/* Fills a choice with what all of n schemas say without their anyOf, oneOf, allOf and $ref. False
 * in *possible: nothing can be all of that. */
weft_status weft__choice_fill(weft__schema *schema, const int *schemas, size_t n,
                              schema_choice *out, bool *possible);
void weft__choice_release(schema_choice *choice);

#endif
