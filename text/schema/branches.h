/* text/schema/branches.h -- the schemas of anyOf and oneOf: which of them may match a value, and
 * which may match together. Those that list their values (enum and const) are found by these
 * values, so that thousands of them cost little. */
#ifndef WEFT_TEXT_SCHEMA_BRANCHES_H
#define WEFT_TEXT_SCHEMA_BRANCHES_H

#include <json-c/json_object.h>
#include <stdbool.h>

#include "text/schema/index.h"

/* Zeroed has not been read. */
typedef struct branch_list {
    json_object *of; /* the document's */
    size_t n;
    int *open; /* positions of those that do not list their values */
    size_t n_open;
    schema_index values; /* positions of those that do, by the hashes of their values */
} branch_list;

weft_status weft__branches_read(json_object *of, branch_list *out);
void weft__branches_release(branch_list *list);

/* Positions, of which there is room for n in `out`. Those that may match a value: */
weft_status weft__branches_for(const branch_list *list, json_object *value, int *out,
                               size_t *count);
/* The others that may match a value that branch `only` matches: */
weft_status weft__branches_compatible(const branch_list *list, int only, int *out, size_t *count);

#endif
