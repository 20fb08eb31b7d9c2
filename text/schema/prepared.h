/* text/schema/prepared.h -- patterns, enums and branches of schemas, prepared once for checking
 * many values. */
#ifndef WEFT_TEXT_SCHEMA_PREPARED_H
#define WEFT_TEXT_SCHEMA_PREPARED_H

#include "core/io/json.h"
#include "text/schema/branches.h"
#include "text/schema/pattern.h"

/* An entry for a pattern, enum, anyOf or oneOf; `of` belongs to the document. */
typedef struct prepared_entry {
    json_object *of;
    weft__pattern *pattern; /* NULL: unsupported */
    bool nothing;           /* no string matches the pattern */
    char **values;          /* values of an enum in canonical form, ascending */
    size_t n_values;
    branch_list branches; /* branches of an anyOf or oneOf */
} prepared_entry;

/* Zeroed is empty. */
typedef struct prepared {
    prepared_entry *entries;
    size_t n;
    schema_index index; /* entries by `of` */
} prepared;

void weft__prepared_release(prepared *p);

/* The entry of the pattern at `of`; NULL when out of memory. */
const prepared_entry *weft__prepared_pattern(prepared *p, json_object *of, const char *pattern);

/* The branches of an anyOf or oneOf; NULL when out of memory. */
const branch_list *weft__prepared_branches(prepared *p, json_object *list);

/* Whether a list contains a value. WEFT_MEMORY: unknown. */
weft_status weft__prepared_contains(prepared *p, json_object *list, json_object *value, bool *out);

/* Whether two values are equal: numbers by value, objects in any order. */
weft_status weft__values_equal(json_object *a, json_object *b, bool *out);

/* Whether all elements of an array differ. */
weft_status weft__values_differ(json_object *array, bool *out);

/* The canonical form of a value: the same text for equal values only. The caller frees it. NULL
 * when out of memory. */
char *weft__value_form(json_object *value);

#endif
