/* text/schema/assign.h -- combinations of schemas on their way to choices, shared by expand.c and
 * assign.c. */
#ifndef WEFT_TEXT_SCHEMA_ASSIGN_H
#define WEFT_TEXT_SCHEMA_ASSIGN_H

#include "text/schema/expand.h"

typedef struct branch {
    branch_kind kind;
    int schema;
} branch;

/* A combination on its way: what holds, and what is still to be looked at. */
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
    size_t first;          /* choice of the node */
    schema_index known;    /* hashes of the atoms of its choices */
    literal_list literals; /* of its literals, which are one choice together */
    /* A probe makes no choices: it finds out whether there might be one. */
    bool probing, found;
    int depth, *fuel;
} expansion;

/* Makes a choice of a combination in which nothing is left to choose. */
weft_status weft__expansion_add(expansion *e, const partial *p);
/* The same for each way to choose the elements and properties that atoms are about. */
weft_status weft__expansion_assign(expansion *e, partial *p);

#endif
