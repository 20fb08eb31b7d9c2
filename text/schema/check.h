/* text/schema/check.h -- validates JSON values against a schema. */
#ifndef WEFT_TEXT_SCHEMA_CHECK_H
#define WEFT_TEXT_SCHEMA_CHECK_H

#include "core/io/json.h"
#include "core/io/text.h"

/* Whether a value matches a schema. If not, `complaint` gets the position, what was expected and
 * what was found; if out of memory its `failed` is set. Annotations and unknown keywords are
 * ignored. */
bool weft__schema_holds(json_object *schema, json_object *value, weft__text *complaint);

/* Checks many values against the schemas of one document, whose patterns and enums are prepared
 * once. */
typedef struct weft__checker weft__checker;

/* The document belongs to the caller and must outlive the checker. */
weft_status weft__checker_new(json_object *root, weft__checker **out);
void weft__checker_free(weft__checker *checker); /* NULL is accepted */
/* Whether a key matches a pattern of patternProperties, whose schema is `of`. WEFT_UNSUPPORTED for
 * an unsupported pattern. */
weft_status weft__checker_key_matches(weft__checker *checker, json_object *of, const char *pattern,
                                      const char *key, bool *out);
/* Whether a value matches one of the schemas. WEFT_MEMORY: unknown. */
weft_status weft__checker_matches(weft__checker *checker, json_object *schema, json_object *value,
                                  bool *out);

#endif
