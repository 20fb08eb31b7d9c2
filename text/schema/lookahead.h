/* text/schema/lookahead.h -- patterns that begin with lookahead, as several patterns. */
#ifndef WEFT_TEXT_SCHEMA_LOOKAHEAD_H
#define WEFT_TEXT_SCHEMA_LOOKAHEAD_H

#include "text/schema/pattern.h"

typedef struct pattern_parts {
    weft__pattern_source *at;
    size_t n;
} pattern_parts;

/* Splits "^(?!a)(?=b)c" into "^c", "^(?:b)" and, negated, "^(?:a)", which together match the same
 * strings. Other patterns are copied. Release the parts also after a failure. */
weft_status weft__lookahead_split(const weft__pattern_source *patterns, size_t n, const char *where,
                                  pattern_parts *out);
void weft__lookahead_release(pattern_parts *parts);

#endif
