/* tests/support/json_schema.c -- validates a JSON value against a schema, by the specification. */
#include "tests/support/json_schema.h"

#include <math.h>
#include <regex.h>
#include <stdio.h>
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
    /* The steps of tests are multiples of 1/40. */
    const double step = 40 * number_of(schema, "multipleOf", 1);
    const double rest = fmod(fabs(40 * v), step);
    return (!json_object_object_get_ex(schema, "multipleOf", NULL) || rest < 0.01 ||
            step - rest < 0.01) &&
           v >= number_of(schema, "minimum", -INFINITY) &&
           v <= number_of(schema, "maximum", INFINITY) &&
           v > number_of(schema, "exclusiveMinimum", -INFINITY) &&
           v < number_of(schema, "exclusiveMaximum", INFINITY);
}

static bool counted(json_object *schema, const char *least, const char *most, double n)
{
    return n >= number_of(schema, least, 0) && n <= number_of(schema, most, INFINITY);
}

/* date, ipv4 and uuid; values of other formats are invalid. */
static bool fits_format(json_object *schema, const char *text)
{
    static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    json_object *name;
    int y, m, d, end = 0;
    unsigned a[4];
    if (!json_object_object_get_ex(schema, "format", &name))
        return true;
    const char *format = json_object_get_string(name);
    if (strcmp(format, "date") == 0)
        return strlen(text) == 10 && strspn(text, "0123456789-") == 10 && text[4] == '-' &&
               text[7] == '-' && sscanf(text, "%4d-%2d-%2d%n", &y, &m, &d, &end) == 3 &&
               end == 10 && m >= 1 && m <= 12 && d >= 1 && d <= days[m - 1] &&
               (m != 2 || d < 29 || (y % 4 == 0 && (y % 100 != 0 || y % 400 == 0)));
    if (strcmp(format, "ipv4") == 0) {
        char again[20];
        if (sscanf(text, "%3u.%3u.%3u.%3u%n", a, a + 1, a + 2, a + 3, &end) != 4 || text[end])
            return false;
        snprintf(again, sizeof again, "%u.%u.%u.%u", a[0], a[1], a[2], a[3]);
        return strcmp(again, text) == 0 && a[0] < 256 && a[1] < 256 && a[2] < 256 && a[3] < 256;
    }
    bool fits = strcmp(format, "uuid") == 0 && strlen(text) == 36;
    for (int i = 0; i < 36 && fits; i++)
        fits = i == 8 || i == 13 || i == 18 || i == 23
                   ? text[i] == '-'
                   : text[i] && strchr("0123456789abcdefABCDEF", text[i]);
    return fits;
}

static bool fits_string(json_object *schema, json_object *value)
{
    if (!json_object_is_type(value, json_type_string))
        return true;
    const char *text = json_object_get_string(value);
    int characters = 0;
    for (int i = 0; i < json_object_get_string_len(value); i++)
        characters += (text[i] & 0xC0) != 0x80;
    if (!counted(schema, "minLength", "maxLength", characters) || !fits_format(schema, text))
        return false;
    json_object *pattern;
    regex_t regex;
    if (!json_object_object_get_ex(schema, "pattern", &pattern) ||
        regcomp(&regex, json_object_get_string(pattern), REG_EXTENDED | REG_NOSUB) != 0)
        return !pattern;
    /* regexec stops at a NUL; no pattern here distinguishes NUL from other control characters. */
    const size_t n = (size_t)json_object_get_string_len(value);
    char *copy = malloc(n + 1);
    for (size_t i = 0; copy && i <= n; i++)
        copy[i] = (char)(i < n && text[i] == '\0' ? 1 : text[i]);
    const bool matches = copy && regexec(&regex, copy, 0, NULL, 0) == 0;
    free(copy);
    regfree(&regex);
    return matches;
}

static bool fits_contains(json_object *root, json_object *schema, json_object *value)
{
    json_object *of;
    const size_t n = json_object_array_length(value);
    int count = 0;
    if (json_object_object_get_ex(schema, "contains", &of)) {
        for (size_t i = 0; i < n; i++)
            count += json_schema_fits(root, of, json_object_array_get_idx(value, i));
        if (count < number_of(schema, "minContains", 1) ||
            count > number_of(schema, "maxContains", INFINITY))
            return false;
    }
    if (!json_object_object_get_ex(schema, "uniqueItems", &of) || !json_object_get_boolean(of))
        return true;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            if (json_object_equal(json_object_array_get_idx(value, i),
                                  json_object_array_get_idx(value, j)))
                return false;
    return true;
}

static bool fits_array(json_object *root, json_object *schema, json_object *value)
{
    if (!json_object_is_type(value, json_type_array))
        return true;
    const size_t n = json_object_array_length(value);
    json_object *items, *prefix = NULL;
    size_t first = 0;
    if (!counted(schema, "minItems", "maxItems", (double)n) || !fits_contains(root, schema, value))
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

static bool fits_dependents(json_object *root, json_object *schema, json_object *value)
{
    json_object *names = NULL, *schemas = NULL;
    json_object_object_get_ex(schema, "dependentRequired", &names);
    json_object_object_get_ex(schema, "dependentSchemas", &schemas);
    json_object_object_foreach(value, key, member)
    {
        (void)member;
        json_object *list = names ? json_object_object_get(names, key) : NULL, *then;
        for (size_t i = 0; list && i < json_object_array_length(list); i++)
            if (!json_object_object_get_ex(
                    value, json_object_get_string(json_object_array_get_idx(list, i)), NULL))
                return false;
        if (schemas && json_object_object_get_ex(schemas, key, &then) &&
            !json_schema_fits(root, then, value))
            return false;
    }
    return true;
}

static bool matches(const char *pattern, const char *text)
{
    regex_t regex;
    if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return false;
    const bool found = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return found;
}

/* patternProperties; *covered becomes true where some pattern matches the key. */
static bool fits_patterns(json_object *root, json_object *schema, const char *key,
                          json_object *member, bool *covered)
{
    json_object *map = NULL;
    if (!json_object_object_get_ex(schema, "patternProperties", &map))
        return true;
    json_object_object_foreach(map, pattern, of)
    {
        if (!matches(pattern, key))
            continue;
        *covered = true;
        if (!json_schema_fits(root, of, member))
            return false;
    }
    return true;
}

static bool fits_name(json_object *root, json_object *schema, const char *key)
{
    json_object *names = NULL, *text = json_object_new_string(key);
    const bool fits = !json_object_object_get_ex(schema, "propertyNames", &names) ||
                      json_schema_fits(root, names, text);
    json_object_put(text);
    return fits;
}

static bool fits_object(json_object *root, json_object *schema, json_object *value)
{
    if (!json_object_is_type(value, json_type_object))
        return true;
    json_object *properties = NULL, *additional = NULL, *required = NULL, *own;
    json_object_object_get_ex(schema, "properties", &properties);
    json_object_object_get_ex(schema, "additionalProperties", &additional);
    json_object_object_get_ex(schema, "required", &required);
    if (!counted(schema, "minProperties", "maxProperties", json_object_object_length(value)) ||
        !fits_dependents(root, schema, value))
        return false;
    for (size_t i = 0; required && i < json_object_array_length(required); i++)
        if (!json_object_object_get_ex(
                value, json_object_get_string(json_object_array_get_idx(required, i)), NULL))
            return false;
    json_object_object_foreach(value, key, member)
    {
        bool covered = properties && json_object_object_get_ex(properties, key, &own);
        if ((covered && !json_schema_fits(root, own, member)) ||
            !fits_patterns(root, schema, key, member, &covered) || !fits_name(root, schema, key))
            return false;
        if (!covered && additional && !json_schema_fits(root, additional, member))
            return false;
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

/* How many of the schemas of a list the value fits; the list's length if there is no list. */
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

/* The target of a schema's $ref; NULL: not found. */
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
    if (json_object_object_get_ex(schema, "dependentSchemas", &found)) {
        json_object_object_foreach(found, key, then)
        {
            (void)key;
            if (too_deep(root, then, depth - 1))
                return true;
        }
    }
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
