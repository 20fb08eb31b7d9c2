/* text/schema/keywords.h -- the supported keywords of JSON Schema, and the types of their values.
 */
#ifndef WEFT_TEXT_SCHEMA_KEYWORDS_H
#define WEFT_TEXT_SCHEMA_KEYWORDS_H

#include "core/io/json.h"

/* Checks a schema and the schemas in it: WEFT_INVALID, with the position, for an invalid keyword
 * value such as null for a schema. Unknown keywords are ignored. */
weft_status weft__keywords_check(const weft__json *schema);

/* WEFT_UNSUPPORTED for a keyword of this schema that is neither supported nor an annotation. */
weft_status weft__keywords_followed(const weft__json *schema);

/* Whether a keyword does not affect validity: annotations, and definitions. */
bool weft__keyword_is_annotation(const char *name);

#endif
