/* text/schema/assign.h -- partial combinations of schemas, from which choices are made; shared by
 * expand.c and assign.c. */
#ifndef WEFT_TEXT_SCHEMA_ASSIGN_H
#define WEFT_TEXT_SCHEMA_ASSIGN_H

#include "text/schema/expand.h"

typedef struct branch {
    branch_kind kind;
    int schema;
} branch;

/* A partial combination: the conditions taken so far, and the schemas still to process. */
typedef struct partial {
    int taken[EXPAND_MAX]; /* signed schemas */
    int n_taken;
    schema_atom atoms[EXPAND_MAX];
    int n_atoms;
    int todo[EXPAND_MAX]; /* signed schemas */
    int n_todo;
    branch branches[EXPAND_MAX];
    int n_branches;
} partial;

typedef struct expansion {
    weft__schema *schema;
    size_t first;          /* index of the node's first choice */
    schema_index known;    /* hashes of the atoms of its choices */
    literal_list literals; /* its literals, which together form one choice */
    /* a probe makes no choices, it only finds out whether there may be one */
    bool probing, found;
    int depth, *fuel;
} expansion;

/* Makes a choice from a complete combination. */
weft_status weft__expansion_add(expansion *e, const partial *p);
/* The same for each assignment of elements and properties to the atoms. */
weft_status weft__expansion_assign(expansion *e, partial *p);

#endif
