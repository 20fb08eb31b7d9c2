/* text/schema/keywords.h -- the supported keywords of JSON Schema, and the types of their values.
 */
#ifndef WEFT_TEXT_SCHEMA_KEYWORDS_H
#define WEFT_TEXT_SCHEMA_KEYWORDS_H

#include "core/io/json.h"
#include "core/io/text.h"

/* Checks a schema and the schemas in it: WEFT_INVALID, with the position, for an invalid keyword
 * value such as null for a schema. Unknown keywords are ignored. Adds null to the types beside
 * OpenAPI's `nullable`. */
weft_status weft__keywords_check(const weft__json *schema);

/* WEFT_UNSUPPORTED for a keyword of this schema that the standard defines and that cannot be
 * followed. Other unknown keywords and formats are annotations: each adds a line to `notes`, once
 * and up to a limit. */
weft_status weft__keywords_followed(const weft__json *schema, weft__text *notes);

/* Whether a keyword does not affect validity: annotations, unknown ones, and definitions. */
bool weft__keyword_is_annotation(const char *name);

/* The first keyword of a schema that is not in a list, which NULL ends, and that some value does
 * not satisfy; NULL: none. */
const char *weft__keyword_besides(json_object *schema, const char *const *list);

#endif
