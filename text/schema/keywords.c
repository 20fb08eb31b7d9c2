/* text/schema/keywords.c -- the supported keywords of JSON Schema, and the types of their values.
 */
#include "text/schema/keywords.h"

#include <json-c/linkhash.h>
#include <math.h>
#include <string.h>

#include "core/failure.h"
#include "text/schema/format.h"

typedef enum keyword_kind {
    ANNOTATION, /* an annotation, ignored */
    REFUSED,    /* cannot be followed */
    VALUE,      /* any JSON */
    SCHEMA,
    SCHEMA_LIST, /* one or more */
    SCHEMA_MAP,
    NUMBER,
    POSITIVE,
    COUNT,
    BOOLEAN,
    STRING,
    STRING_LIST,
    LIST,
    TYPES,
    STRING_LIST_MAP,
    DEPENDENCIES /* schemas, or lists of strings */
} keyword_kind;

typedef struct keyword {
    const char *name;
    keyword_kind kind;
} keyword;

static const keyword keywords[] = {
    {"$anchor", REFUSED},
    {"$comment", ANNOTATION},
    {"$defs", SCHEMA_MAP},
    {"$dynamicAnchor", REFUSED},
    {"$dynamicRef", REFUSED},
    {"$id", ANNOTATION},
    {"$recursiveAnchor", REFUSED},
    {"$recursiveRef", REFUSED},
    {"$ref", STRING},
    {"$schema", ANNOTATION},
    {"additionalItems", REFUSED},
    {"additionalProperties", SCHEMA},
    {"allOf", SCHEMA_LIST},
    {"anyOf", SCHEMA_LIST},
    {"const", VALUE},
    {"contains", SCHEMA},
    {"contentEncoding", ANNOTATION},
    {"contentMediaType", ANNOTATION},
    {"contentSchema", ANNOTATION},
    {"default", ANNOTATION},
    {"definitions", SCHEMA_MAP},
    {"dependencies", DEPENDENCIES},
    {"dependentRequired", STRING_LIST_MAP},
    {"dependentSchemas", SCHEMA_MAP},
    {"deprecated", ANNOTATION},
    {"description", ANNOTATION},
    {"discriminator", ANNOTATION},
    {"else", SCHEMA},
    {"enum", LIST},
    {"examples", ANNOTATION},
    {"exclusiveMaximum", NUMBER},
    {"exclusiveMinimum", NUMBER},
    {"format", STRING},
    {"if", SCHEMA},
    {"items", SCHEMA},
    {"maxContains", COUNT},
    {"maxItems", COUNT},
    {"maxLength", COUNT},
    {"maxProperties", COUNT},
    {"maximum", NUMBER},
    {"minContains", COUNT},
    {"minItems", COUNT},
    {"minLength", COUNT},
    {"minProperties", COUNT},
    {"minimum", NUMBER},
    {"multipleOf", POSITIVE},
    {"not", SCHEMA},
    {"nullable", BOOLEAN},
    {"oneOf", SCHEMA_LIST},
    {"pattern", STRING},
    {"patternProperties", SCHEMA_MAP},
    {"prefixItems", SCHEMA_LIST},
    {"properties", SCHEMA_MAP},
    {"propertyNames", SCHEMA},
    {"readOnly", ANNOTATION},
    {"required", STRING_LIST},
    {"then", SCHEMA},
    {"title", ANNOTATION},
    {"type", TYPES},
    {"unevaluatedItems", REFUSED},
    {"unevaluatedProperties", REFUSED},
    {"uniqueItems", BOOLEAN},
    {"writeOnly", ANNOTATION},
};

static const keyword *find(const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strcmp(keywords[i].name, name) == 0)
            return &keywords[i];
    return NULL;
}

bool weft__keyword_is_annotation(const char *name)
{
    const keyword *k = find(name);
    return !k || k->kind == ANNOTATION || strcmp(name, "$defs") == 0 ||
           strcmp(name, "definitions") == 0;
}

/* Whether every value satisfies a keyword. */
static bool is_trivial(const char *name, json_object *value)
{
    if (strcmp(name, "nullable") == 0) /* add_null() has added null to the type */
        return true;
    if (strcmp(name, "contains") == 0)
        return false;
    if (strcmp(name, "uniqueItems") == 0 || strcmp(name, "not") == 0)
        return json_object_is_type(value, json_type_boolean) && !json_object_get_boolean(value);
    if (strcmp(name, "format") == 0) /* others are annotations */
        return !weft__format_find(json_object_get_string(value)) &&
               !weft__format_range(json_object_get_string(value));
    return json_object_is_type(value, json_type_object)
               ? json_object_object_length(value) == 0
               : json_object_is_type(value, json_type_boolean) && json_object_get_boolean(value);
}

const char *weft__keyword_besides(json_object *schema, const char *const *list)
{
    if (!json_object_is_type(schema, json_type_object))
        return NULL;
    json_object_object_foreach(schema, name, value)
    {
        size_t i = 0;
        while (list[i] && strcmp(list[i], name) != 0)
            i++;
        if (!list[i] && !weft__keyword_is_annotation(name) && !is_trivial(name, value))
            return name;
    }
    return NULL;
}

static weft_status expected(const weft__json *at, const char *what)
{
    return weft__json_fail(at, WEFT_INVALID, "expected %s, got %s", what,
                           weft__json_type_name(at->value));
}

static weft_status check_type(const weft__json *at)
{
    static const char *const names[] = {"null",   "boolean", "integer", "number",
                                        "string", "array",   "object"};
    const char *name = NULL;
    const weft_status status = weft__json_as_string(at, &name, NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++)
        if (strcmp(name, names[i]) == 0)
            return WEFT_OK;
    return status ? status
                  : weft__json_fail(at, WEFT_INVALID, "\"%s\" is no type of JSON Schema",
                                    weft_printable(name));
}

static weft_status check_string(const weft__json *at)
{
    const char *text;
    return weft__json_as_string(at, &text, NULL);
}

static weft_status check_boolean(const weft__json *at)
{
    bool value;
    return weft__json_as_bool(at, &value);
}

/* A list; `check` (NULL: anything) is applied to every element. */
static weft_status check_list(const weft__json *at, weft_status (*check)(const weft__json *))
{
    size_t n = 0;
    weft_status status = weft__json_length(at, &n);
    for (size_t i = 0; i < n && check && !status; i++) {
        weft__json item;
        status = weft__json_at(at, i, &item);
        if (!status)
            status = check(&item);
    }
    return status;
}

/* A map; `check` is applied to every member. */
static weft_status check_map(const weft__json *at, weft_status (*check)(const weft__json *))
{
    weft_status status = weft__json_as_object(at);
    if (status)
        return status;
    json_object_object_foreach(at->value, key, value)
    {
        (void)value;
        weft__json member;
        if (!status)
            status = weft__json_find(at, key, &member);
        if (!status)
            status = check(&member);
    }
    return status;
}

static weft_status check_strings(const weft__json *at)
{
    return check_list(at, check_string);
}

static weft_status check_dependency(const weft__json *at)
{
    return json_object_is_type(at->value, json_type_array) ? check_strings(at)
                                                           : weft__keywords_check(at);
}

static weft_status check_number(const weft__json *at)
{
    double number;
    const weft_status status = weft__json_as_number(at, &number);
    if (status || isfinite(number))
        return status;
    return weft__json_fail(at, WEFT_INVALID, "expected a finite number");
}

static weft_status check_positive(const weft__json *at)
{
    double number = 0;
    const weft_status status = check_number(at);
    if (status || weft__json_as_number(at, &number) || number > 0)
        return status;
    return weft__json_fail(at, WEFT_INVALID, "must be more than 0, got %g", number);
}

static weft_status check_count(const weft__json *at)
{
    int64_t count;
    const weft_status status = weft__json_as_int(at, &count);
    if (status || count >= 0)
        return status;
    return weft__json_fail(at, WEFT_INVALID, "must not be negative, got %lld", (long long)count);
}

static weft_status check_value(const weft__json *at, keyword_kind kind)
{
    switch (kind) {
    case ANNOTATION:
    case REFUSED:
    case VALUE:
        return WEFT_OK;
    case SCHEMA:
        return weft__keywords_check(at);
    case SCHEMA_LIST:
        if (json_object_is_type(at->value, json_type_array) &&
            json_object_array_length(at->value) == 0)
            return weft__json_fail(at, WEFT_INVALID, "expected at least one schema");
        return check_list(at, weft__keywords_check);
    case SCHEMA_MAP:
        return check_map(at, weft__keywords_check);
    case STRING_LIST_MAP:
        return check_map(at, check_strings);
    case DEPENDENCIES:
        return check_map(at, check_dependency);
    case NUMBER:
        return check_number(at);
    case POSITIVE:
        return check_positive(at);
    case COUNT:
        return check_count(at);
    case BOOLEAN:
        return check_boolean(at);
    case STRING:
        return check_string(at);
    case STRING_LIST:
        return check_strings(at);
    case LIST:
        return check_list(at, NULL);
    case TYPES:
        if (json_object_is_type(at->value, json_type_array))
            return check_list(at, check_type);
        return check_type(at);
    }
    return WEFT_OK;
}

/* {"type": "string", "nullable": true} allows null. */
static weft_status add_null(const weft__json *schema)
{
    json_object *type = json_object_object_get(schema->value, "type");
    if (!type || !json_object_get_boolean(json_object_object_get(schema->value, "nullable")))
        return WEFT_OK;
    json_object *types = json_object_new_array(), *null = json_object_new_string("null");
    const bool list = json_object_is_type(type, json_type_array);
    const size_t n = list ? json_object_array_length(type) : 1;
    bool made = types && null;
    for (size_t i = 0; i < n && made; i++) {
        json_object *one = list ? json_object_array_get_idx(type, i) : type;
        made = json_object_array_add(types, json_object_get(one)) == 0;
    }
    made = made && json_object_array_add(types, null) == 0;
    if (made && json_object_object_add(schema->value, "type", types) == 0)
        return WEFT_OK;
    json_object_put(types);
    return weft__out_of_memory(schema->name, "a schema");
}

weft_status weft__keywords_check(const weft__json *schema)
{
    if (json_object_is_type(schema->value, json_type_boolean))
        return WEFT_OK;
    if (!json_object_is_type(schema->value, json_type_object))
        return expected(schema, "object or boolean");
    weft_status status = add_null(schema);
    json_object_object_foreach(schema->value, key, value)
    {
        (void)value;
        const keyword *k = find(key);
        weft__json member;
        if (!k || status)
            continue;
        status = weft__json_find(schema, key, &member);
        if (!status)
            status = check_value(&member, k->kind);
    }
    return status;
}

/* Adds a line to the notes, unless they have it or are long. */
static weft_status note(const weft__json *at, const char *before, const char *name,
                        const char *after, weft__text *notes)
{
    enum { MOST = 2000 };
    const size_t begin = notes->n;
    if (begin > MOST)
        return WEFT_OK;
    weft__text_format(notes, "%s%s%s\"%s\"%s\n", at->path, at->path[0] ? ": " : "", before,
                      weft_printable(name), after);
    if (notes->failed)
        return weft__out_of_memory(at->name, "a schema");
    if (strstr(notes->at, notes->at + begin) < notes->at + begin)
        notes->at[notes->n = begin] = '\0';
    return WEFT_OK;
}

weft_status weft__keywords_followed(const weft__json *schema, weft__text *notes)
{
    weft_status status = WEFT_OK;
    json_object_object_foreach(schema->value, key, value)
    {
        (void)value;
        const keyword *k = find(key);
        if (k && k->kind == REFUSED)
            return weft__json_fail(schema, WEFT_UNSUPPORTED,
                                   "the keyword \"%s\" of JSON Schema is not supported",
                                   weft_printable(key));
        if (!k && !status)
            status = note(schema, "the keyword ", key, " is ignored", notes);
    }
    const char *format = NULL;
    if (!status)
        status = weft__json_find_string(schema, "format", &format);
    if (!status && format && !weft__format_find(format) && !weft__format_range(format))
        status = note(schema, "the format ", format, " is not checked", notes);
    return status;
}
