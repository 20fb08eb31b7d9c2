/* tests/support/json_schema.h -- validates a JSON value against a schema, by the specification:
 * recursion over the value, without code from text/schema. */
#ifndef TESTS_SUPPORT_JSON_SCHEMA_H
#define TESTS_SUPPORT_JSON_SCHEMA_H

#include <json-c/json.h>
#include <stdbool.h>

/* The keywords that weft/constrain.h lists; $ref as "#" or "#/$defs/NAME". Patterns are POSIX
 * extended ones. */
bool json_schema_fits(json_object *root, json_object *schema, json_object *value);

/* Whether a schema refers to itself without descending into the value, as {"$ref": "#"} does. */
bool json_schema_refers(json_object *root, json_object *schema);

#endif
