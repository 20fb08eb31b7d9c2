/* text/schema/expand.h -- expands a node's schemas into choices.
 *
 * Schemas are signed: 2 * number means that the value matches the schema, 2 * number + 1 that it
 * does not. Expansion splits the branches of anyOf, oneOf, not, if and $ref until only atoms are
 * left, all of which must hold.
 */
#ifndef WEFT_TEXT_SCHEMA_EXPAND_H
#define WEFT_TEXT_SCHEMA_EXPAND_H

#include "text/schema/schema.h"

enum { EXPAND_MAX = 256, EXPAND_BLOCKS = 8 };

/* ATOM_ALL: the schema's own non-branching keywords hold. Otherwise this keyword of it is violated,
 * by a value of a type that it applies to; what other keywords exclude is a schema (violated.c). */
typedef enum atom_kind {
    ATOM_ALL,
    ATOM_TYPE,
    ATOM_PATTERN,
    ATOM_FORMAT,
    ATOM_STRINGS,     /* a string is not among enum and const; other types are unaffected */
    ATOM_PREFIX_ITEM, /* element `index` exists and does not match */
    ATOM_CONTAINS,    /* an element matches `contains`; each atom refers to a different one */
    ATOM_REST,        /* no element matches `contains` except those of ATOM_CONTAINS */
    ATOM_NO_ARRAY,    /* another type */
    ATOM_REQUIRED,    /* the required property `name` is absent or does not match */
    ATOM_PROPERTY     /* property `name` exists and does not match */
} atom_kind;

typedef struct schema_atom {
    atom_kind kind;
    int schema;
    int index;        /* PREFIX_ITEM, CONTAINS: index of the element, or -1 */
    const char *name; /* REQUIRED, PROPERTY; owned by the document */
    int block; /* CONTAINS without an index: atoms of the same block are about the same element */
} schema_atom;

typedef struct literal_list {
    char **at;
    size_t n;
} literal_list;

/* The kinds of branching. */
typedef enum branch_kind {
    BRANCH_ANY,
    BRANCH_ONE,
    BRANCH_IF,
    BRANCH_CONTAINS,
    BRANCH_VIOLATED
} branch_kind;

/* An alternative: an atom (ATOM_ALL: none) repeated `times` times (0: once), optionally with
 * ATOM_REST, signed schemas, and the schemas of a list, all negated except number `only` (-1: none
 * excepted). */
typedef struct alternative {
    schema_atom atom;
    int times;
    bool rest;
    int signed_schemas[2], n;
    const char *list; /* keyword of the list; NULL: none */
    int only;
} alternative;

typedef struct alternative_list {
    alternative *at;
    size_t n;
} alternative_list;

/* Appends the alternatives of a branching schema. */
weft_status weft__alternatives(weft__schema *schema, branch_kind kind, int number,
                               alternative_list *out);

/* The branches of a schema's oneOf, read once; valid until another schema is registered. */
weft_status weft__schema_branches(weft__schema *schema, int number, const branch_list **out);

/* Expands a node into choices. */
weft_status weft__expand_node(weft__schema *schema, size_t number);

/* Lists the values allowed for elements under uniqueItems, after all nodes have been expanded.
 * WEFT_UNSUPPORTED if there are too many. */
weft_status weft__schema_unique(weft__schema *schema);

/* ---- choice.c, choice_containers.c ----------------------------------------------------------- */

/* The types that the atoms allow, and the bounds of numbers and lengths; ignores the contents of
 * arrays and objects. */
weft_status weft__choice_outline(const weft__schema *schema, const schema_atom *atoms, size_t n,
                                 schema_choice *out);

/* Combines n atoms to a choice. *possible becomes false if they contradict each other. */
weft_status weft__choice_fill(weft__schema *schema, const schema_atom *atoms, size_t n,
                              schema_choice *out, bool *possible);

/* Appends the literals of schema `source` that match n signed schemas, as JSON; *any: there are
 * some. Without `out` stops at the first. */
weft_status weft__find_literals(weft__schema *schema, int source, const int *signed_schemas,
                                size_t n, literal_list *out, bool *any);
/* A choice among literals; takes over the list. */
schema_choice weft__choice_of_literals(literal_list *list);

/* The pattern of strings; removes the type if no string matches. */
weft_status weft__choice_pattern(const weft__schema *schema, const schema_atom *atoms, size_t n,
                                 schema_choice *c);
weft_status weft__choice_array(weft__schema *schema, const schema_atom *atoms, size_t n,
                               schema_choice *c);
weft_status weft__choice_object(weft__schema *schema, const schema_atom *atoms, size_t n,
                                schema_choice *c);
/* The rules for unnamed properties, once the named ones are known. */
weft_status weft__choice_keys(weft__schema *schema, const schema_atom *atoms, size_t n,
                              schema_choice *c);

/* The signed schemas of a property; `out` has room for EXPAND_MAX. *count is -1 if it must not
 * exist, *required is set if it must. */
weft_status weft__property_schemas(weft__schema *schema, const schema_atom *atoms, size_t n,
                                   const char *name, int *out, int *count, bool *required);

/* The number of the schema equivalent to dependentRequired, dependentSchemas and dependencies; -1
 * with WEFT_OK: none. */
int weft__schema_dependent(weft__schema *schema, int number, weft_status *status);

/* The number of the schema of the values that violate minimum, items, enum and similar keywords of
 * a schema; -1 with WEFT_OK: none. */
int weft__schema_violated(weft__schema *schema, int number, weft_status *status);
/* Whether the values of a list are all strings: then excluding them takes a pattern. */
bool weft__only_strings(json_object *values);

/* Calls `take` with each property name in the atoms, possibly repeatedly. */
weft_status weft__each_property(weft__schema *schema, const schema_atom *atoms, size_t n,
                                weft_status (*take)(void *context, const char *name),
                                void *context);

/* The signed schemas of an unnamed property that matches the patterns of a mask. *count is -1 if it
 * must not exist. */
weft_status weft__key_schemas(weft__schema *schema, const schema_atom *atoms, size_t n,
                              const char *const *patterns, unsigned mask, int *out, int *count);

/* Whether propertyNames of a schema allows a key; and the keys that it lists. */
weft_status weft__names_allow(weft__schema *schema, int number, const char *name, bool *out);
weft_status weft__each_allowed_name(weft__schema *schema, int number,
                                    weft_status (*take)(void *context, const char *name),
                                    void *context);
bool weft__requires_property(const weft__schema *schema, int number, const char *name);

/* ---- closing.c ------------------------------------------------------------------------------- */

/* Calls `take` with the names in `properties` of the schemas that hold, in the order of the
 * document, possibly repeatedly. */
weft_status weft__each_declared(const weft__schema *schema, const schema_atom *atoms, size_t n,
                                weft_status (*take)(void *context, const char *name),
                                void *context);
/* Which properties an object may have besides those whose `order` is below `declared`. */
typedef enum other_properties {
    OTHERS_ALLOWED,
    OTHERS_FORBIDDEN,
    OTHERS_NEEDED /* and forbidden: no object is possible */
} other_properties;

other_properties weft__other_properties(const weft__schema *schema, const schema_atom *atoms,
                                        size_t n, const schema_choice *c, int32_t declared);

/* The number of elements in prefixItems. */
int weft__prefix_length(const weft__schema *schema, int number);

/* The signed schema at a keyword; -1 with WEFT_OK: absent. */
int weft__schema_at(weft__schema *schema, int number, const char *keyword, bool negated,
                    weft_status *status);

#endif
