/* text/schema/violated.c -- the values that violate a keyword, as schemas without negation where
 * there is such a schema. */
#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "text/schema/expand.h"
#include "weft/memory.h"

static json_object *make_schema(const char *type)
{
    json_object *out = json_object_new_object();
    json_object *name = json_object_new_string(type);
    if (!out || !name || json_object_object_add(out, "type", name)) {
        json_object_put(out);
        json_object_put(name);
        return NULL;
    }
    return out;
}

/* Sets a member, which it takes over; on failure *to becomes NULL. */
static void put(json_object **to, const char *key, json_object *value)
{
    if (*to && value && json_object_object_add(*to, key, value) == 0)
        return;
    json_object_put(value);
    json_object_put(*to);
    *to = NULL;
}

static void append(json_object **to, json_object *value)
{
    if (*to && value && json_object_array_add(*to, value) == 0)
        return;
    json_object_put(value);
    json_object_put(*to);
    *to = NULL;
}

/* {"const": value}; the value may be null. */
static json_object *make_constant(json_object *value)
{
    json_object *out = json_object_new_object();
    if (out && json_object_object_add(out, "const", json_object_get(value))) {
        json_object_put(out);
        json_object_put(value);
        return NULL;
    }
    return out;
}

/* A schema of exactly this array or object, element by element. */
static json_object *make_structure(json_object *value)
{
    if (json_object_is_type(value, json_type_array)) {
        const size_t n = json_object_array_length(value);
        json_object *out = make_schema("array"), *items = json_object_new_array();
        for (size_t i = 0; i < n; i++)
            append(&items, make_constant(json_object_array_get_idx(value, i)));
        put(&out, "minItems", json_object_new_int64((int64_t)n));
        put(&out, "maxItems", json_object_new_int64((int64_t)n));
        put(&out, "prefixItems", items);
        return out;
    }
    /* It has all these properties, and no more. */
    json_object *out = make_schema("object"), *properties = json_object_new_object();
    json_object *required = json_object_new_array();
    json_object_object_foreach(value, key, of)
    {
        append(&required, json_object_new_string(key));
        put(&properties, key, make_constant(of));
    }
    put(&out, "required", required);
    put(&out, "properties", properties);
    put(&out, "maxProperties", json_object_new_int64(json_object_object_length(value)));
    return out;
}

static bool is_number(json_object *value)
{
    return json_object_is_type(value, json_type_int) ||
           json_object_is_type(value, json_type_double);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Appends the intervals between the numbers of a list, as schemas. */
static void append_intervals(json_object **to, json_object *values)
{
    const size_t n = json_object_array_length(values);
    double *numbers = weft_malloc((n + 1) * sizeof *numbers);
    size_t count = 0;
    for (size_t i = 0; numbers && i < n; i++)
        if (is_number(json_object_array_get_idx(values, i)))
            numbers[count++] = json_object_get_double(json_object_array_get_idx(values, i));
    if (count > 0)
        qsort(numbers, count, sizeof *numbers, by_value);
    for (size_t i = 0; numbers && i <= count; i++) {
        json_object *interval = make_schema("number");
        if (i > 0)
            put(&interval, "exclusiveMinimum", json_object_new_double(numbers[i - 1]));
        if (i < count)
            put(&interval, "exclusiveMaximum", json_object_new_double(numbers[i]));
        append(to, interval);
    }
    if (!numbers)
        append(to, NULL);
    weft_free(numbers);
}

/* A schema of the values of a type that are not in the list. */
static json_object *make_other(const char *type, json_object *values)
{
    json_object *out = make_schema(type), *all = json_object_new_array();
    json_object *strings = json_object_new_array();
    for (size_t i = 0; i < json_object_array_length(values); i++) {
        json_object *value = json_object_array_get_idx(values, i);
        if (strcmp(weft__json_type_name(value), type) != 0)
            continue;
        if (strcmp(type, "string") == 0) {
            append(&strings, json_object_get(value));
            continue;
        }
        json_object *outside = json_object_new_object();
        put(&outside, "not", make_structure(value));
        append(&all, outside);
    }
    if (all == NULL || strings == NULL) { /* out of memory: no schema, not a wider one */
        json_object_put(out);
        json_object_put(all);
        json_object_put(strings);
        return NULL;
    }
    if (json_object_array_length(strings) > 0) {
        json_object *among = json_object_new_object(), *outside = json_object_new_object();
        put(&among, "enum", strings);
        put(&outside, "not", among);
        append(&all, outside);
    } else {
        json_object_put(strings);
    }
    if (all && json_object_array_length(all) > 0)
        put(&out, "allOf", all);
    else
        json_object_put(all);
    return out;
}

/* Appends schemas of the values that are not in the list. */
static void append_others(json_object **to, json_object *values)
{
    static const char *const types[] = {"string", "array", "object"};
    bool has_null = false, has_boolean[2] = {false, false};
    for (size_t i = 0; i < json_object_array_length(values); i++) {
        json_object *value = json_object_array_get_idx(values, i);
        has_null |= !value;
        if (json_object_is_type(value, json_type_boolean))
            has_boolean[json_object_get_boolean(value)] = true;
    }
    if (!has_null)
        append(to, make_schema("null"));
    for (int b = 0; b < 2; b++)
        if (!has_boolean[b]) {
            json_object *value = json_object_new_boolean(b);
            append(to, value ? make_constant(value) : NULL);
            json_object_put(value);
        }
    append_intervals(to, values);
    for (size_t t = 0; t < 3; t++)
        append(to, make_other(types[t], values));
}

bool weft__only_strings(json_object *values)
{
    for (size_t i = 0; i < json_object_array_length(values); i++)
        if (!json_object_is_type(json_object_array_get_idx(values, i), json_type_string))
            return false;
    return true;
}

/* ---- bounds and elements ----------------------------------------------------------------------
 */

/* Appends {"type": type, key: value}, which is taken over. */
static void append_bound(json_object **to, const char *type, const char *key, json_object *value)
{
    json_object *out = make_schema(type);
    put(&out, key, value);
    append(to, out);
}

static weft_status append_bounds(const weft__json *at, json_object **to)
{
    static const struct {
        const char *keyword, *type, *opposite;
        int step; /* of counts from one bound to the other; 0: bounds of numbers */
    } bounds[] = {
        {"minimum", "number", "exclusiveMaximum", 0},
        {"maximum", "number", "exclusiveMinimum", 0},
        {"exclusiveMinimum", "number", "maximum", 0},
        {"exclusiveMaximum", "number", "minimum", 0},
        {"minLength", "string", "maxLength", -1},
        {"maxLength", "string", "minLength", 1},
        {"minItems", "array", "maxItems", -1},
        {"maxItems", "array", "minItems", 1},
        {"minProperties", "object", "maxProperties", -1},
        {"maxProperties", "object", "minProperties", 1},
    };
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds && !status; i++) {
        json_object *value = json_object_object_get(at->value, bounds[i].keyword);
        int64_t count = 0;
        if (value && bounds[i].step != 0)
            status = weft__json_find_int(at, bounds[i].keyword, &count);
        count += count < SCHEMA_NEVER ? bounds[i].step : 0;
        /* No count is below 0 or above SCHEMA_NEVER. */
        if (value && bounds[i].step == 0)
            append_bound(to, bounds[i].type, bounds[i].opposite, json_object_get(value));
        else if (value && count >= 0 && count < SCHEMA_NEVER)
            append_bound(to, bounds[i].type, bounds[i].opposite, json_object_new_int64(count));
    }
    return status;
}

/* Appends the arrays with an element after those of prefixItems that does not match `items`, which
 * is a boolean if there are any. */
static void append_items(json_object *items, int prefix, json_object **to)
{
    const bool boolean = json_object_is_type(items, json_type_boolean);
    if (!boolean) {
        json_object *outside = json_object_new_object();
        put(&outside, "not", json_object_get(items));
        append_bound(to, "array", "contains", outside);
    } else if (!json_object_get_boolean(items)) {
        append_bound(to, "array", "minItems", json_object_new_int64(prefix + 1));
    }
}

/* ---- the schema -------------------------------------------------------------------------------
 */

static weft_status append_all(weft__schema *schema, int number, json_object **to)
{
    const weft__json at = schema->schemas[number].at;
    json_object *list = json_object_object_get(at.value, "enum"), *constant = NULL;
    weft_status status = append_bounds(&at, to);
    /* Registered, so that messages can name its position. */
    if (!status && weft__schema_at(schema, number, "items", false, &status) >= 0)
        append_items(json_object_object_get(at.value, "items"), weft__prefix_length(schema, number),
                     to);
    if (list && !weft__only_strings(list))
        append_others(to, list);
    if (json_object_object_get_ex(at.value, "const", &constant) &&
        !json_object_is_type(constant, json_type_string)) {
        json_object *one = json_object_new_array();
        if (one && json_object_array_add(one, json_object_get(constant)) == 0)
            append_others(to, one);
        else
            append(to, NULL);
        json_object_put(one);
    }
    return status;
}

/* Registers a list of schemas with the position of the schema that they are made from. */
static weft_status register_all(weft__schema *schema, weft__json at, json_object *list)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < json_object_array_length(list) && !status; i++) {
        at.value = json_object_array_get_idx(list, i);
        weft__schema_number(schema, &at, &status);
    }
    return status;
}

int weft__schema_violated(weft__schema *schema, int number, weft_status *status)
{
    weft__json at = schema->schemas[number].at;
    *status = WEFT_OK;
    if (schema->schemas[number].violated >= 0)
        return schema->schemas[number].violated;
    json_object *list = json_object_new_array(), *any = json_object_new_object();
    *status = append_all(schema, number, &list);
    const size_t n = list ? json_object_array_length(list) : 0;
    if (!*status && list)
        *status = register_all(schema, at, list);
    put(&any, "anyOf", list);
    if (*status || (any && n == 0)) {
        json_object_put(any);
        return -1;
    }
    *status = weft__schema_own(schema, any);
    at.value = any;
    const int out = *status ? -1 : weft__schema_number(schema, &at, status);
    if (!*status)
        schema->schemas[number].violated = out;
    return *status ? -1 : out;
}
