/* text/schema/expand.h -- from the schemas of a node to its choices.
 *
 * Schemas are signed: 2 * number means that the value matches the schema, 2 * number + 1 that it
 * does not. Expanding takes the branches of anyOf, oneOf, not, if and $ref apart until atoms are
 * left, all of which hold.
 */
#ifndef WEFT_TEXT_SCHEMA_EXPAND_H
#define WEFT_TEXT_SCHEMA_EXPAND_H

#include "text/schema/schema.h"

enum { EXPAND_MAX = 256, EXPAND_BLOCKS = 8 };

/* ATOM_ALL: the schema's own keywords hold, apart from those that branch. Otherwise this keyword of
 * it is violated, by a value of the type that it applies to. */
typedef enum atom_kind {
    ATOM_ALL,
    ATOM_TYPE,
    ATOM_MINIMUM,
    ATOM_MAXIMUM,
    ATOM_EXCLUSIVE_MINIMUM,
    ATOM_EXCLUSIVE_MAXIMUM,
    ATOM_MIN_LENGTH,
    ATOM_MAX_LENGTH,
    ATOM_PATTERN,
    ATOM_FORMAT,
    ATOM_MULTIPLE,
    ATOM_STRINGS, /* a string is none of enum and const; other types are not concerned */
    ATOM_MIN_ITEMS,
    ATOM_MAX_ITEMS,
    ATOM_PREFIX_ITEM, /* element `index` is there and does not match */
    ATOM_ITEMS,       /* some element that `items` applies to does not match */
    ATOM_CONTAINS,    /* an element matches `contains`: each atom's another one */
    ATOM_REST,        /* no element matches `contains`, apart from those of ATOM_CONTAINS */
    ATOM_NO_ARRAY,    /* another type */
    ATOM_MIN_PROPERTIES,
    ATOM_MAX_PROPERTIES,
    ATOM_REQUIRED,        /* property `name`, which is required, is absent or does not match */
    ATOM_PROPERTY,        /* property `name` is there and does not match */
    ATOM_ADDITIONAL,      /* some property that additionalProperties applies to does not match */
    ATOM_PATTERN_PROPERTY /* some property whose key matches `pattern` does not match its schema */
} atom_kind;

typedef struct schema_atom {
    atom_kind kind;
    int schema;
    int index;           /* PREFIX_ITEM, ITEMS, CONTAINS: which element, or -1 */
    const char *name;    /* the document's; ADDITIONAL, PATTERN_PROPERTY: which property, or NULL */
    const char *pattern; /* PATTERN_PROPERTY: the document's */
    unsigned mask;       /* ADDITIONAL, PATTERN_PROPERTY: of a block, the patterns of its key */
    int block; /* ITEMS and CONTAINS without an index, ADDITIONAL and PATTERN_PROPERTY without a
                  name: those of the same block are of the same element or property */
} schema_atom;

typedef struct literal_list {
    char **at;
    size_t n, capacity;
} literal_list;

/* What branches. */
typedef enum branch_kind {
    BRANCH_ANY,
    BRANCH_ONE,
    BRANCH_IF,
    BRANCH_CONTAINS,
    BRANCH_VIOLATED
} branch_kind;

/* One way to go on: an atom (ATOM_ALL: none) so many times (0: once), ATOM_REST with it, signed
 * schemas, and the schemas of a list, all negated but for number `only` (-1: all). */
typedef struct alternative {
    schema_atom atom;
    int times;
    bool rest;
    int signed_schemas[2], n;
    const char *list; /* the keyword; NULL: none */
    int only;
} alternative;

typedef struct alternative_list {
    alternative *at;
    size_t n, capacity;
} alternative_list;

/* Appends the ways in which a branch of a schema can go on. */
weft_status weft__alternatives(weft__schema *schema, branch_kind kind, int number,
                               alternative_list *out);

/* The branches of a schema's oneOf, read once; valid until another schema is met. */
weft_status weft__schema_branches(weft__schema *schema, int number, const branch_list **out);

/* Expands a node into choices. */
weft_status weft__expand_node(weft__schema *schema, size_t number);

/* Lists the values that elements under uniqueItems are among, once all nodes have been expanded.
 * WEFT_UNSUPPORTED where they are not a few. */
weft_status weft__schema_unique(weft__schema *schema);

/* ---- choice.c, choice_containers.c ----------------------------------------------------------- */

/* The types that atoms leave, and the bounds of numbers and lengths; nothing of what is in arrays
 * and objects. */
weft_status weft__choice_outline(const weft__schema *schema, const schema_atom *atoms, size_t n,
                                 schema_choice *out);

/* Fills a choice with what all of n atoms say. False in *possible: nothing can be all of that. */
weft_status weft__choice_fill(weft__schema *schema, const schema_atom *atoms, size_t n,
                              schema_choice *out, bool *possible);

/* Appends the literals of schema `source` that match n signed schemas, as JSON writes them; *any:
 * there are some. Without `out` no more than one is looked for. */
weft_status weft__find_literals(weft__schema *schema, int source, const int *signed_schemas,
                                size_t n, literal_list *out, bool *any);
/* The choice between literals, which it takes over. */
schema_choice weft__choice_of_literals(literal_list *list);

/* The pattern of strings; without a string that matches the type goes. */
weft_status weft__choice_pattern(const weft__schema *schema, const schema_atom *atoms, size_t n,
                                 schema_choice *c);
weft_status weft__choice_array(weft__schema *schema, const schema_atom *atoms, size_t n,
                               schema_choice *c);
weft_status weft__choice_object(weft__schema *schema, const schema_atom *atoms, size_t n,
                                schema_choice *c);
/* What may be said of other properties, once those with names are there. */
weft_status weft__choice_keys(weft__schema *schema, const schema_atom *atoms, size_t n,
                              schema_choice *c);

/* Signed schemas of a property, of which there is room for EXPAND_MAX. *count is -1 where it must
 * not be there, *required where it must. */
weft_status weft__property_schemas(weft__schema *schema, const schema_atom *atoms, size_t n,
                                   const char *name, int *out, int *count, bool *required);

/* The number of what dependentRequired, dependentSchemas and dependencies say together; -1 with
 * WEFT_OK: there is none. */
int weft__schema_dependent(weft__schema *schema, int number, weft_status *status);

/* Calls `take` with each name of a property in the atoms, some more than once. */
weft_status weft__each_property(weft__schema *schema, const schema_atom *atoms, size_t n,
                                weft_status (*take)(void *context, const char *name),
                                void *context);

/* Those of a property that is not named and matches the patterns of a mask; of a block of atoms, or
 * (below 0) any. */
weft_status weft__key_schemas(weft__schema *schema, const schema_atom *atoms, size_t n,
                              const char *const *patterns, unsigned mask, int block, int *out,
                              int *count);

bool weft__names_property(const weft__schema *schema, int number, const char *name);
/* Whether a key matches a pattern of a schema's patternProperties, or (NULL) any of them. */
weft_status weft__key_matches(weft__schema *schema, int number, const char *pattern,
                              const char *name, bool *out);
/* Whether additionalProperties of a schema does not apply to a property. */
weft_status weft__covers_property(weft__schema *schema, int number, const char *name, bool *out);

/* The patterns of patternProperties in the atoms, up to SCHEMA_KEY_PATTERNS; those of one schema.
 */
weft_status weft__key_patterns(const weft__schema *schema, const schema_atom *atoms, size_t n,
                               const char **out, size_t *count);
unsigned weft__key_mask(const weft__schema *schema, int number, const char *const *patterns,
                        size_t n);

/* Whether propertyNames of a schema allows a key; the keys that it lists. */
weft_status weft__names_allow(weft__schema *schema, int number, const char *name, bool *out);
weft_status weft__each_allowed_name(weft__schema *schema, int number,
                                    weft_status (*take)(void *context, const char *name),
                                    void *context);
bool weft__requires_property(const weft__schema *schema, int number, const char *name);
/* Elements of prefixItems. */
int weft__prefix_length(const weft__schema *schema, int number);

/* The signed schema at a keyword of a schema; -1 with WEFT_OK: it is not there. */
int weft__schema_at(weft__schema *schema, int number, const char *keyword, bool negated,
                    weft_status *status);

#endif
