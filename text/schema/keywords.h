/* text/schema/keywords.h -- the keywords of JSON Schema that are followed, and what their values
 * have to be. */
#ifndef WEFT_TEXT_SCHEMA_KEYWORDS_H
#define WEFT_TEXT_SCHEMA_KEYWORDS_H

#include "core/io/json.h"

/* Checks a schema and the schemas in it: WEFT_INVALID, with its place, for a value that is not what
 * its keyword takes, such as null for a schema. Unknown keywords are passed over. */
weft_status weft__keywords_check(const weft__json *schema);

/* WEFT_UNSUPPORTED for a keyword of this schema that is neither followed nor an annotation. */
weft_status weft__keywords_followed(const weft__json *schema);

/* Whether a keyword says nothing about validity at its place: annotations, and definitions. */
bool weft__keyword_is_annotation(const char *name);

#endif
