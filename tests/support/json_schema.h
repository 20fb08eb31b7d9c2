/* tests/support/json_schema.h -- whether a JSON value fits a schema, by the book: recursion over
 * the value, nothing of text/schema. */
#ifndef TESTS_SUPPORT_JSON_SCHEMA_H
#define TESTS_SUPPORT_JSON_SCHEMA_H

#include <json-c/json.h>
#include <stdbool.h>

/* The keywords that weft/constrain.h lists; $ref as "#" or "#/$defs/NAME". Patterns are POSIX
 * extended ones. */
bool json_schema_fits(json_object *root, json_object *schema, json_object *value);

/* Whether a schema refers back to itself without going into a value, as {"$ref": "#"} does. */
bool json_schema_refers(json_object *root, json_object *schema);

#endif
