/* text/schema/pattern_parse.h -- the syntax tree of a regular expression. */
#ifndef WEFT_TEXT_SCHEMA_PATTERN_PARSE_H
#define WEFT_TEXT_SCHEMA_PATTERN_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

enum { PATTERN_LAST = 0x10FFFF, PATTERN_UNBOUNDED = -1 };

typedef struct pattern_range {
    uint32_t first, last;
} pattern_range;

typedef enum pattern_kind {
    PATTERN_EMPTY,
    PATTERN_SET,    /* one character of ranges[first .. first + count) */
    PATTERN_CAT,    /* left, then right */
    PATTERN_ALT,    /* left or right */
    PATTERN_REPEAT, /* left, `least` to `most` times */
    PATTERN_BEGIN,  /* ^ */
    PATTERN_END     /* $ */
} pattern_kind;

typedef struct pattern_node {
    pattern_kind kind;
    int left, right;
    int first, count;
    int least, most;
} pattern_node;

/* Nodes refer to each other by index. Zeroed is empty. */
typedef struct pattern_tree {
    pattern_node *nodes;
    size_t n_nodes;
    pattern_range *ranges;
    size_t n_ranges;
    int root;
} pattern_tree;

/* Parses an ECMA-262 pattern (the dialect of JSON Schema) in Unicode mode. WEFT_UNSUPPORTED for
 * non-regular features (back references, lookaround) and for \b, \B, \p and \P; WEFT_INVALID for
 * malformed patterns. Messages begin with `where`. */
weft_status weft__pattern_parse(const char *text, const char *where, pattern_tree *out);

void weft__pattern_tree_release(pattern_tree *tree);

#endif
