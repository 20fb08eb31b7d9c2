/* text/schema/check.h -- whether a JSON value is what a schema says. */
#ifndef WEFT_TEXT_SCHEMA_CHECK_H
#define WEFT_TEXT_SCHEMA_CHECK_H

#include "core/io/json.h"
#include "core/io/text.h"

/* Whether a value is what a schema says. Where it is not, `complaint` gets the place, what was
 * expected and what was found; without memory it has `failed`. Keywords that say nothing of
 * validity, or that are unknown, are passed over. */
bool weft__schema_holds(json_object *schema, json_object *value, weft__text *complaint);

/* Holds many values to the schemas of one document, whose patterns and enums are prepared once. */
typedef struct weft__checker weft__checker;

/* The document is the caller's, and outlives the checker. */
weft_status weft__checker_new(json_object *root, weft__checker **out);
void weft__checker_free(weft__checker *checker); /* NULL is accepted */
/* Whether a key matches a pattern of patternProperties, whose schema is `of`. WEFT_UNSUPPORTED for
 * a pattern that cannot be followed. */
weft_status weft__checker_key_matches(weft__checker *checker, json_object *of, const char *pattern,
                                      const char *key, bool *out);
/* Whether a value matches one of the schemas. WEFT_MEMORY: it is not known. */
weft_status weft__checker_matches(weft__checker *checker, json_object *schema, json_object *value,
                                  bool *out);

#endif
