/* text/schema/prepared.h -- patterns, enums and alternatives of schemas, made ready once for many
 * values. */
#ifndef WEFT_TEXT_SCHEMA_PREPARED_H
#define WEFT_TEXT_SCHEMA_PREPARED_H

#include "core/io/json.h"
#include "text/schema/branches.h"
#include "text/schema/pattern.h"

/* Of one pattern, enum, anyOf or oneOf; `of` is the document's. */
typedef struct prepared_entry {
    json_object *of;
    weft__pattern *pattern; /* NULL: one that cannot be followed */
    bool nothing;           /* no string matches the pattern */
    char **values;          /* of an enum, in a form of their own, ascending */
    size_t n_values;
    branch_list branches; /* of an anyOf or oneOf */
} prepared_entry;

/* Zeroed is empty. */
typedef struct prepared {
    prepared_entry *entries;
    size_t n, capacity;
    schema_index index; /* by what the entries are of */
} prepared;

void weft__prepared_release(prepared *p);

/* The entry of a pattern, which is that of `of`; NULL without memory. */
const prepared_entry *weft__prepared_pattern(prepared *p, json_object *of, const char *pattern);

/* The branches of an anyOf or oneOf; NULL without memory. */
const branch_list *weft__prepared_branches(prepared *p, json_object *list);

/* Whether a list contains a value. WEFT_MEMORY: it is not known. */
weft_status weft__prepared_contains(prepared *p, json_object *list, json_object *value, bool *out);

/* Whether two values are equal: numbers by their values, objects whatever their order. */
weft_status weft__values_equal(json_object *a, json_object *b, bool *out);

/* Whether the elements of an array differ from each other. */
weft_status weft__values_differ(json_object *array, bool *out);

/* A text that equal values have in common, and no others; the caller's. NULL without memory. */
char *weft__value_form(json_object *value);

#endif
