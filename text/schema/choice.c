/* text/schema/choice.c -- what several schemas say together, keyword by keyword. */
#include <json-c/linkhash.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "text/schema/schema.h"
#include "text/tokenizer/buffer.h"
#include "weft/memory.h"

enum { MAX_PATTERNS = 16 };

/* ---- types, numbers, lengths ----------------------------------------------------------------- */

static weft_status type_bit(const weft__json *at, unsigned *bits)
{
    static const struct {
        const char *name;
        unsigned bits;
    } names[] = {{"null", SCHEMA_NULL},       {"boolean", SCHEMA_BOOLEAN},
                 {"integer", SCHEMA_INTEGER}, {"number", SCHEMA_INTEGER | SCHEMA_NUMBER},
                 {"string", SCHEMA_STRING},   {"array", SCHEMA_ARRAY},
                 {"object", SCHEMA_OBJECT}};
    const char *name = NULL;
    const weft_status status = weft__json_as_string(at, &name, NULL);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0) {
            *bits |= names[i].bits;
            return WEFT_OK;
        }
    return weft__json_fail(at, WEFT_INVALID, "\"%s\" is no type of JSON Schema",
                           weft_printable(name));
}

static weft_status take_types(const weft__json *at, schema_choice *c)
{
    weft__json types, item;
    unsigned bits = 0;
    size_t n = 0;
    weft_status status = weft__json_find(at, "type", &types);
    if (status || !types.value)
        return status;
    if (!json_object_is_type(types.value, json_type_array)) {
        status = type_bit(&types, &bits);
    } else {
        status = weft__json_length(&types, &n);
        for (size_t i = 0; i < n && !status; i++) {
            status = weft__json_at(&types, i, &item);
            if (!status)
                status = type_bit(&item, &bits);
        }
    }
    c->types &= bits;
    return status;
}

static weft_status take_range(const weft__json *at, schema_choice *c)
{
    double minimum = -INFINITY, maximum = INFINITY, above = -INFINITY, below = INFINITY;
    weft_status status = weft__json_find_number(at, "minimum", &minimum);
    if (!status)
        status = weft__json_find_number(at, "maximum", &maximum);
    if (!status)
        status = weft__json_find_number(at, "exclusiveMinimum", &above);
    if (!status)
        status = weft__json_find_number(at, "exclusiveMaximum", &below);
    if (status)
        return status;
    if (minimum > c->minimum)
        c->minimum = minimum, c->above = false;
    if (above > -INFINITY && above >= c->minimum)
        c->minimum = above, c->above = true;
    if (maximum < c->maximum)
        c->maximum = maximum, c->below = false;
    if (below < INFINITY && below <= c->maximum)
        c->maximum = below, c->below = true;
    if ((c->minimum > -INFINITY && fabs(c->minimum) > 1e15) ||
        (c->maximum < INFINITY && fabs(c->maximum) > 1e15))
        return weft__json_fail(at, WEFT_UNSUPPORTED, "bounds of numbers beyond 1e15");
    return WEFT_OK;
}

/* A pair of keywords that count something: the larger least and the smaller most hold. */
static weft_status take_count(const weft__json *at, const char *min_key, const char *max_key,
                              int64_t *least, int64_t *most)
{
    int64_t min = 0, max = SCHEMA_UNBOUNDED;
    weft_status status = weft__json_find_int(at, min_key, &min);
    if (!status)
        status = weft__json_find_int(at, max_key, &max);
    if (status)
        return status;
    if (min < 0 || max < SCHEMA_UNBOUNDED)
        return weft__json_fail(at, WEFT_INVALID, "%s and %s must not be negative", min_key,
                               max_key);
    if (min > *least)
        *least = min;
    if (max != SCHEMA_UNBOUNDED && (*most == SCHEMA_UNBOUNDED || max < *most))
        *most = max;
    return WEFT_OK;
}

static weft_status take_counts(const weft__json *at, schema_choice *c)
{
    weft_status status = take_count(at, "minLength", "maxLength", &c->min_length, &c->max_length);
    if (!status)
        status = take_count(at, "minItems", "maxItems", &c->min_items, &c->max_items);
    if (!status)
        status = take_count(at, "minProperties", "maxProperties", &c->min_properties,
                            &c->max_properties);
    return status;
}

static weft_status fill_pattern(const weft__schema *schema, const int *schemas, size_t n,
                                schema_choice *c)
{
    const char *patterns[MAX_PATTERNS];
    const weft__json *last = NULL;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const weft__json *at = &schema->schemas[schemas[i]];
        const char *pattern = NULL;
        const weft_status status = weft__json_find_string(at, "pattern", &pattern);
        if (status)
            return status;
        if (pattern && count == MAX_PATTERNS)
            return weft__json_fail(at, WEFT_UNSUPPORTED, "more than %d patterns for one string",
                                   (int)MAX_PATTERNS);
        if (pattern)
            patterns[count++] = pattern, last = at;
    }
    if (count == 0 || !(c->types & SCHEMA_STRING))
        return WEFT_OK;
    char *where = weft_format("%s: %s", last->name, last->path[0] ? last->path : "the schema");
    if (!where)
        return weft__out_of_memory(last->name, "a pattern");
    const weft_status status =
        weft__pattern_new(patterns, count, c->min_length, c->max_length, where, &c->pattern);
    weft_free(where);
    return status;
}

/* ---- enum and const -------------------------------------------------------------------------- */

/* Whether the literals of a schema, if it has any, contain a value. */
static bool allows(const weft__json *at, json_object *value)
{
    json_object *list = NULL, *constant = NULL;
    if (json_object_object_get_ex(at->value, "const", &constant) &&
        !json_object_equal(constant, value))
        return false;
    if (!json_object_object_get_ex(at->value, "enum", &list))
        return true;
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (json_object_equal(json_object_array_get_idx(list, i), value))
            return true;
    return false;
}

static weft_status add_literal(const weft__schema *schema, const int *schemas, size_t n,
                               json_object *value, schema_choice *c)
{
    for (size_t i = 0; i < n; i++)
        if (!allows(&schema->schemas[schemas[i]], value))
            return WEFT_OK;
    char *text = weft_strdup(json_object_to_json_string_ext(
        value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    char **longer = text ? weft_realloc(c->literals, (c->n_literals + 1) * sizeof *longer) : NULL;
    if (!longer) {
        weft_free(text);
        return weft__out_of_memory(schema->doc.name, "a schema");
    }
    c->literals = longer;
    c->literals[c->n_literals++] = text;
    return WEFT_OK;
}

static weft_status fill_literals(const weft__schema *schema, const int *schemas, size_t n,
                                 schema_choice *c)
{
    weft_status status = WEFT_OK;
    json_object *list = NULL, *constant = NULL;
    size_t source = n;
    for (size_t i = 0; i < n && !status; i++) {
        const weft__json *at = &schema->schemas[schemas[i]];
        const bool has_constant = json_object_object_get_ex(at->value, "const", &constant);
        const bool has_list = json_object_object_get_ex(at->value, "enum", &list);
        if (has_list && !json_object_is_type(list, json_type_array))
            status = weft__json_fail(at, WEFT_INVALID, "enum: expected array, got %s",
                                     weft__json_type_name(list));
        if (source == n && (has_constant || has_list))
            source = i;
    }
    if (status || source == n)
        return status;
    c->enumerated = true;
    const weft__json *at = &schema->schemas[schemas[source]];
    if (json_object_object_get_ex(at->value, "const", &constant))
        return add_literal(schema, schemas, n, constant, c);
    json_object_object_get_ex(at->value, "enum", &list);
    for (size_t i = 0; i < json_object_array_length(list) && !status; i++)
        status = add_literal(schema, schemas, n, json_object_array_get_idx(list, i), c);
    return status;
}

/* ---- arrays and objects ---------------------------------------------------------------------- */

/* The node of the schemas that are at `key` in n schemas. */
static weft_status node_at(weft__schema *schema, const int *schemas, size_t n, const char *key,
                           int *numbers, int *node)
{
    weft_status status = WEFT_OK;
    size_t count = 0;
    for (size_t i = 0; i < n && !status; i++) {
        const weft__json at = schema->schemas[schemas[i]];
        weft__json found;
        status = weft__json_find(&at, key, &found);
        if (!status && found.value)
            numbers[count++] = weft__schema_number(schema, &found, &status);
    }
    if (!status)
        *node = weft__schema_node(schema, numbers, count, &status);
    return status;
}

/* The node of a property: each schema's own for it, else its additionalProperties. *possible: none
 * of these is `false`. */
static weft_status property_node(weft__schema *schema, const int *schemas, size_t n,
                                 const char *name, int *numbers, int *node, bool *possible)
{
    weft_status status = WEFT_OK;
    size_t count = 0;
    *possible = true;
    for (size_t i = 0; i < n && !status; i++) {
        const weft__json at = schema->schemas[schemas[i]];
        weft__json properties, found = {0};
        status = weft__json_find(&at, "properties", &properties);
        if (!status && properties.value && name)
            status = weft__json_find(&properties, name, &found);
        if (!status && !found.value) {
            status = weft__json_find(&at, "additionalProperties", &found);
            if (!status && found.value && json_object_is_type(found.value, json_type_boolean) &&
                !json_object_get_boolean(found.value))
                *possible = false;
        }
        if (!status && found.value)
            numbers[count++] = weft__schema_number(schema, &found, &status);
    }
    if (!status && *possible)
        *node = weft__schema_node(schema, numbers, count, &status);
    return status;
}

static weft_status add_property(weft__schema *schema, const int *schemas, size_t n,
                                const char *name, bool required, int *numbers, schema_choice *c)
{
    bool possible;
    int node = SCHEMA_NO_NODE;
    weft_status status = property_node(schema, schemas, n, name, numbers, &node, &possible);
    if (status)
        return status;
    if (!possible) {
        if (required)
            c->types &= ~(unsigned)SCHEMA_OBJECT;
        return WEFT_OK;
    }
    json_object *string = json_object_new_string(name);
    const char *text = string ? json_object_to_json_string_ext(
                                    string, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
                              : NULL;
    char *key = text ? weft_format("%.*s", (int)strlen(text) - 2, text + 1) : NULL;
    json_object_put(string);
    schema_property *longer =
        key ? weft_realloc(c->properties, (c->n_properties + 1) * sizeof *longer) : NULL;
    if (!longer) {
        weft_free(key);
        return weft__out_of_memory(schema->doc.name, "a schema");
    }
    c->properties = longer;
    for (size_t i = 0; i < c->n_properties; i++)
        if (strcmp(c->properties[i].key, key) == 0) {
            c->properties[i].required |= required;
            weft_free(key);
            return WEFT_OK;
        }
    c->properties[c->n_properties++] =
        (schema_property){.key = key, .length = strlen(key), .node = node, .required = required};
    return WEFT_OK;
}

static weft_status add_required(weft__schema *schema, const int *schemas, size_t n,
                                const weft__json *at, int *numbers, schema_choice *c)
{
    weft__json list, item;
    size_t count = 0;
    weft_status status = weft__json_find(at, "required", &list);
    if (!status && list.value)
        status = weft__json_length(&list, &count);
    for (size_t i = 0; i < count && !status; i++) {
        const char *name = NULL;
        status = weft__json_at(&list, i, &item);
        if (!status)
            status = weft__json_as_string(&item, &name, NULL);
        if (!status)
            status = add_property(schema, schemas, n, name, true, numbers, c);
    }
    return status;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const schema_property *)a)->key, ((const schema_property *)b)->key);
}

static weft_status fill_object(weft__schema *schema, const int *schemas, size_t n, int *numbers,
                               schema_choice *c)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && !status; i++) {
        const weft__json at = schema->schemas[schemas[i]];
        weft__json properties;
        status = weft__json_find(&at, "properties", &properties);
        if (!status && properties.value)
            status = weft__json_as_object(&properties);
        if (!status && properties.value) {
            json_object_object_foreach(properties.value, key, value)
            {
                (void)value;
                if (!status)
                    status = add_property(schema, schemas, n, key, false, numbers, c);
            }
        }
        if (!status)
            status = add_required(schema, schemas, n, &at, numbers, c);
    }
    if (c->n_properties > 0) {
        qsort(c->properties, c->n_properties, sizeof *c->properties, by_key);
        c->by_cost = weft_calloc(c->n_properties, sizeof *c->by_cost);
        if (!status && !c->by_cost)
            status = weft__out_of_memory(schema->doc.name, "a schema");
    }
    for (size_t i = 0; i < c->n_properties; i++)
        if (c->properties[i].length < SCHEMA_KEY_LENGTHS)
            c->named_keys[c->properties[i].length]++;
    bool possible = true;
    if (!status)
        status = property_node(schema, schemas, n, NULL, numbers, &c->additional, &possible);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool crossed(int64_t least, int64_t most)
{
    return most != SCHEMA_UNBOUNDED && least > most;
}

weft_status weft__choice_fill(weft__schema *schema, const int *schemas, size_t n,
                              schema_choice *out, bool *possible)
{
    *out = (schema_choice){.types = SCHEMA_ANY,
                           .minimum = -INFINITY,
                           .maximum = INFINITY,
                           .max_length = SCHEMA_UNBOUNDED,
                           .max_items = SCHEMA_UNBOUNDED,
                           .max_properties = SCHEMA_UNBOUNDED,
                           .items = SCHEMA_NO_NODE,
                           .additional = SCHEMA_NO_NODE};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && !status; i++) {
        const weft__json at = schema->schemas[schemas[i]];
        status = take_types(&at, out);
        if (!status)
            status = take_range(&at, out);
        if (!status)
            status = take_counts(&at, out);
    }
    int *numbers = weft_malloc((n + 1) * sizeof *numbers);
    if (!status && !numbers)
        status = weft__out_of_memory(schema->doc.name, "a schema");
    if (out->minimum > out->maximum || (out->minimum == out->maximum && (out->above || out->below)))
        out->types &= ~(unsigned)(SCHEMA_INTEGER | SCHEMA_NUMBER);
    if (crossed(out->min_length, out->max_length))
        out->types &= ~(unsigned)SCHEMA_STRING;
    if (crossed(out->min_items, out->max_items))
        out->types &= ~(unsigned)SCHEMA_ARRAY;
    if (crossed(out->min_properties, out->max_properties))
        out->types &= ~(unsigned)SCHEMA_OBJECT;
    if (!status)
        status = fill_pattern(schema, schemas, n, out);
    if (!status)
        status = fill_literals(schema, schemas, n, out);
    if (!status && out->types & SCHEMA_ARRAY)
        status = node_at(schema, schemas, n, "items", numbers, &out->items);
    if (!status && out->types & SCHEMA_OBJECT)
        status = fill_object(schema, schemas, n, numbers, out);
    weft_free(numbers);
    *possible = out->types != 0 && (!out->enumerated || out->n_literals > 0);
    return status;
}
