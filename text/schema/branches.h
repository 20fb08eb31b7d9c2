/* text/schema/branches.h -- finds which branches of anyOf and oneOf may match a value. Branches
 * that list their values (enum and const) are found by these values, so thousands of them are
 * cheap. */
#ifndef WEFT_TEXT_SCHEMA_BRANCHES_H
#define WEFT_TEXT_SCHEMA_BRANCHES_H

#include <json-c/json_object.h>
#include <stdbool.h>

#include "text/schema/index.h"

/* The branches of an anyOf or oneOf. Zeroed means not read yet. */
typedef struct branch_list {
    json_object *of; /* belongs to the document */
    size_t n;
    int *open; /* positions of branches without listed values */
    size_t n_open;
    schema_index values; /* positions of the others, by the hashes of their values */
} branch_list;

weft_status weft__branches_read(json_object *of, branch_list *out);
void weft__branches_release(branch_list *list);

/* Finds the branches that may match a value. `out` must have room for n positions. */
weft_status weft__branches_for(const branch_list *list, json_object *value, int *out,
                               size_t *count);
/* Whether a schema has const or enum. */
bool weft__lists_values(json_object *schema);

#endif
