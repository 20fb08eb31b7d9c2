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

/* ATOM_ALL: the schema's own non-branching keywords hold. The others are conditions of branching
 * keywords, or violations of a keyword. */
typedef enum atom_kind {
    ATOM_ALL,
    ATOM_TYPE,
    ATOM_PATTERN,
    ATOM_NOT_ENUM,  /* no number (index < 0), or one between the index numbers below it and the */
    ATOM_NOT_CONST, /* next one of enum or const; not among their values */
    ATOM_CONTAINS,  /* an element matches `contains`; each atom refers to a different one */
    ATOM_REST,      /* no element matches `contains` except those of ATOM_CONTAINS */
    ATOM_NO_ARRAY,  /* another type */
    ATOM_NO_OBJECT,
    ATOM_ABSENT,   /* an object without the property `name` */
    ATOM_PRESENT,  /* an object with it */
    ATOM_REQUIRED, /* the required property `name` is absent or does not match */
    ATOM_PROPERTY  /* property `name` exists and does not match */
} atom_kind;

typedef struct schema_atom {
    atom_kind kind;
    int schema;
    int index;        /* CONTAINS: index of the element, or -1; NOT_ENUM, NOT_CONST: as above */
    const char *name; /* of a property; owned by the document */
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
    BRANCH_DEPENDENT, /* what a property needs */
    BRANCH_APART,     /* types, properties and values by which `chosen` differs from the schema */
    BRANCH_VIOLATED
} branch_kind;

typedef struct branch {
    branch_kind kind;
    int schema, chosen;
    const char *keyword, *name; /* DEPENDENT: where the property is */
} branch;

/* An alternative: an atom (ATOM_ALL: none) repeated `times` times (0: once), optionally with
 * ATOM_REST, signed schemas, properties that must exist, and the schemas of a list, all negated. */
typedef struct alternative {
    schema_atom atom;
    int times;
    bool rest;
    int signed_schemas[2], n;
    json_object *names; /* NULL: none */
    const char *list;   /* keyword of the list; NULL: none */
} alternative;

typedef struct alternative_list {
    alternative *at;
    size_t n;
} alternative_list;

/* Appends the alternatives of a branch. */
weft_status weft__alternatives(weft__schema *schema, const branch *from, alternative_list *out);

/* Whether a schema has only type, enum, const, pattern and required, with values that are no arrays
 * and objects. */
bool weft__is_plain(json_object *schema);

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
/* Whether an object has only the properties whose `order` is below `declared`. */
bool weft__is_closed(const weft__schema *schema, const schema_atom *atoms, size_t n,
                     const schema_choice *c, int32_t declared);

/* The number of elements in prefixItems. */
int weft__prefix_length(const weft__schema *schema, int number);

/* The signed schema at a keyword; -1 with WEFT_OK: absent. */
int weft__schema_at(weft__schema *schema, int number, const char *keyword, bool negated,
                    weft_status *status);
/* The signed schema that is member `name` of the map at a keyword, or element `index` of the list
 * there (name: NULL), which exists. */
int weft__schema_in(weft__schema *schema, int number, const char *keyword, const char *name,
                    size_t index, bool negated, weft_status *status);

#endif
