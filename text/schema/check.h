/* text/schema/check.h -- whether a JSON value is what a schema says. */
#ifndef WEFT_TEXT_SCHEMA_CHECK_H
#define WEFT_TEXT_SCHEMA_CHECK_H

#include "core/io/json.h"
#include "core/io/text.h"

/* Whether a value is what a schema says. Where it is not, `complaint` gets the place, what was
 * expected and what was found; without memory it has `failed`. Keywords that say nothing of
 * validity, or that are unknown, are passed over. */
bool weft__schema_holds(json_object *schema, json_object *value, weft__text *complaint);

#endif
