/* tests/support/json_schema.c -- whether a JSON value fits a schema, by the book. */
#include "tests/support/json_schema.h"

#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

static bool has_type(const char *type, json_object *value)
{
    const json_type is = json_object_get_type(value);
    if (strcmp(type, "null") == 0)
        return is == json_type_null;
    if (strcmp(type, "boolean") == 0)
        return is == json_type_boolean;
    if (strcmp(type, "string") == 0)
        return is == json_type_string;
    if (strcmp(type, "array") == 0)
        return is == json_type_array;
    if (strcmp(type, "object") == 0)
        return is == json_type_object;
    if (strcmp(type, "number") == 0)
        return is == json_type_int || is == json_type_double;
    const double number = json_object_get_double(value);
    return is == json_type_int || (is == json_type_double && number == floor(number));
}

static bool fits_type(json_object *schema, json_object *value)
{
    json_object *type;
    if (!json_object_object_get_ex(schema, "type", &type))
        return true;
    if (json_object_is_type(type, json_type_string))
        return has_type(json_object_get_string(type), value);
    for (size_t i = 0; i < json_object_array_length(type); i++)
        if (has_type(json_object_get_string(json_object_array_get_idx(type, i)), value))
            return true;
    return false;
}

/* A number of the schema, or `absent`. */
static double number_of(json_object *schema, const char *key, double absent)
{
    json_object *number;
    return json_object_object_get_ex(schema, key, &number) ? json_object_get_double(number)
                                                           : absent;
}

static bool fits_number(json_object *schema, json_object *value)
{
    if (!has_type("number", value))
        return true;
    const double v = json_object_get_double(value);
    return v >= number_of(schema, "minimum", -INFINITY) &&
           v <= number_of(schema, "maximum", INFINITY) &&
           v > number_of(schema, "exclusiveMinimum", -INFINITY) &&
           v < number_of(schema, "exclusiveMaximum", INFINITY);
}

static bool counted(json_object *schema, const char *least, const char *most, double n)
{
    return n >= number_of(schema, least, 0) && n <= number_of(schema, most, INFINITY);
}

static bool fits_string(json_object *schema, json_object *value)
{
    if (!json_object_is_type(value, json_type_string))
        return true;
    const char *text = json_object_get_string(value);
    int characters = 0;
    for (int i = 0; i < json_object_get_string_len(value); i++)
        characters += (text[i] & 0xC0) != 0x80;
    if (!counted(schema, "minLength", "maxLength", characters))
        return false;
    json_object *pattern;
    regex_t regex;
    if (!json_object_object_get_ex(schema, "pattern", &pattern) ||
        regcomp(&regex, json_object_get_string(pattern), REG_EXTENDED | REG_NOSUB) != 0)
        return !pattern;
    /* regexec ends at a NUL, which no pattern here tells apart from other control characters. */
    const size_t n = (size_t)json_object_get_string_len(value);
    char *copy = malloc(n + 1);
    for (size_t i = 0; copy && i <= n; i++)
        copy[i] = (char)(i < n && text[i] == '\0' ? 1 : text[i]);
    const bool matches = copy && regexec(&regex, copy, 0, NULL, 0) == 0;
    free(copy);
    regfree(&regex);
    return matches;
}

static bool fits_array(json_object *root, json_object *schema, json_object *value)
{
    if (!json_object_is_type(value, json_type_array))
        return true;
    const size_t n = json_object_array_length(value);
    json_object *items, *prefix = NULL;
    size_t first = 0;
    if (!counted(schema, "minItems", "maxItems", (double)n))
        return false;
    if (json_object_object_get_ex(schema, "prefixItems", &prefix))
        for (; first < n && first < json_object_array_length(prefix); first++)
            if (!json_schema_fits(root, json_object_array_get_idx(prefix, first),
                                  json_object_array_get_idx(value, first)))
                return false;
    if (json_object_object_get_ex(schema, "items", &items))
        for (size_t i = first; i < n; i++)
            if (!json_schema_fits(root, items, json_object_array_get_idx(value, i)))
                return false;
    return true;
}

static bool fits_object(json_object *root, json_object *schema, json_object *value)
{
    if (!json_object_is_type(value, json_type_object))
        return true;
    json_object *properties = NULL, *additional = NULL, *required = NULL, *own;
    json_object_object_get_ex(schema, "properties", &properties);
    json_object_object_get_ex(schema, "additionalProperties", &additional);
    json_object_object_get_ex(schema, "required", &required);
    if (!counted(schema, "minProperties", "maxProperties", json_object_object_length(value)))
        return false;
    for (size_t i = 0; required && i < json_object_array_length(required); i++)
        if (!json_object_object_get_ex(
                value, json_object_get_string(json_object_array_get_idx(required, i)), NULL))
            return false;
    json_object_object_foreach(value, key, member)
    {
        if (properties && json_object_object_get_ex(properties, key, &own)) {
            if (!json_schema_fits(root, own, member))
                return false;
        } else if (additional && !json_schema_fits(root, additional, member)) {
            return false;
        }
    }
    return true;
}

static bool fits_literals(json_object *schema, json_object *value)
{
    json_object *list, *constant;
    if (json_object_object_get_ex(schema, "const", &constant) &&
        !json_object_equal(constant, value))
        return false;
    if (!json_object_object_get_ex(schema, "enum", &list))
        return true;
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (json_object_equal(json_object_array_get_idx(list, i), value))
            return true;
    return false;
}

/* How many of the schemas of a list fit; the list's length when there is none. */
static size_t matching(json_object *root, json_object *schema, const char *key, json_object *value,
                       size_t *length)
{
    json_object *list;
    *length = 0;
    if (!json_object_object_get_ex(schema, key, &list))
        return 0;
    *length = json_object_array_length(list);
    size_t n = 0;
    for (size_t i = 0; i < *length; i++)
        n += json_schema_fits(root, json_object_array_get_idx(list, i), value);
    return n;
}

static bool fits_combinations(json_object *root, json_object *schema, json_object *value)
{
    size_t length, n = matching(root, schema, "allOf", value, &length);
    if (n != length)
        return false;
    n = matching(root, schema, "anyOf", value, &length);
    if (length > 0 && n == 0)
        return false;
    n = matching(root, schema, "oneOf", value, &length);
    return length == 0 || n == 1;
}

static bool fits_conditions(json_object *root, json_object *schema, json_object *value)
{
    json_object *condition, *then;
    if (json_object_object_get_ex(schema, "not", &condition) &&
        json_schema_fits(root, condition, value))
        return false;
    if (!json_object_object_get_ex(schema, "if", &condition))
        return true;
    const char *next = json_schema_fits(root, condition, value) ? "then" : "else";
    return !json_object_object_get_ex(schema, next, &then) || json_schema_fits(root, then, value);
}

/* What a schema's $ref refers to; NULL: there is none. */
static json_object *target_of(json_object *root, json_object *schema)
{
    json_object *reference, *definitions, *target = root;
    if (!json_object_object_get_ex(schema, "$ref", &reference))
        return NULL;
    const char *name = json_object_get_string(reference);
    if (strcmp(name, "#") == 0)
        return root;
    return strncmp(name, "#/$defs/", 8) == 0 &&
                   json_object_object_get_ex(root, "$defs", &definitions) &&
                   json_object_object_get_ex(definitions, name + 8, &target)
               ? target
               : NULL;
}

static bool fits_reference(json_object *root, json_object *schema, json_object *value)
{
    json_object *target = target_of(root, schema);
    return target ? json_schema_fits(root, target, value)
                  : !json_object_object_get_ex(schema, "$ref", NULL);
}

/* Whether a chain of schemas at the same place is longer than any without a repetition. */
static bool too_deep(json_object *root, json_object *schema, int depth)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    static const char *const ones[] = {"not", "if", "then", "else"};
    json_object *found, *target = target_of(root, schema);
    if (depth == 0 || (target && too_deep(root, target, depth - 1)))
        return true;
    for (size_t i = 0; i < 3; i++)
        if (json_object_object_get_ex(schema, lists[i], &found))
            for (size_t k = 0; k < json_object_array_length(found); k++)
                if (too_deep(root, json_object_array_get_idx(found, k), depth - 1))
                    return true;
    for (size_t i = 0; i < 4; i++)
        if (json_object_object_get_ex(schema, ones[i], &found) && too_deep(root, found, depth - 1))
            return true;
    return false;
}

bool json_schema_refers(json_object *root, json_object *schema)
{
    return too_deep(root, schema, 20);
}

bool json_schema_fits(json_object *root, json_object *schema, json_object *value)
{
    if (json_object_is_type(schema, json_type_boolean))
        return json_object_get_boolean(schema);
    return fits_type(schema, value) && fits_number(schema, value) && fits_string(schema, value) &&
           fits_array(root, schema, value) && fits_object(root, schema, value) &&
           fits_literals(schema, value) && fits_combinations(root, schema, value) &&
           fits_conditions(root, schema, value) && fits_reference(root, schema, value);
}
