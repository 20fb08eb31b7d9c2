/* text/schema/alternatives.c -- lists the alternatives by which a value can match a branching
 * schema, or violate a schema. */
#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "text/schema/expand.h"
#include "text/schema/format.h"
#include "text/tokenizer/buffer.h"
#include "weft/memory.h"

typedef struct collector {
    weft__schema *schema;
    int number;
    alternative_list *out;
    weft_status status;
} collector;

static void add(collector *c, alternative a)
{
    if (c->status)
        return;
    void *data = c->out->at;
    c->status = weft__bytes_grow(&data, &c->out->capacity, c->out->n, 1, sizeof a);
    c->out->at = data;
    if (!c->status)
        c->out->at[c->out->n++] = a;
}

static void add_atom(collector *c, atom_kind kind, int index, const char *name)
{
    add(c, (alternative){
               .atom = {
                   .kind = kind, .schema = c->number, .index = index, .name = name, .block = -1}});
}

/* Adds one or two signed schemas; ignored if one is negative. */
static void add_schemas(collector *c, int a, int b)
{
    if (a >= 0 && !c->status)
        add(c, (alternative){.signed_schemas = {a, b}, .n = b >= 0 ? 2 : 1});
}

static const weft__json *here(const collector *c)
{
    return &c->schema->schemas[c->number].at;
}

static json_object *member(const collector *c, const char *keyword)
{
    return json_object_object_get(here(c)->value, keyword);
}

static size_t list_length(const collector *c, const char *keyword)
{
    json_object *list = member(c, keyword);
    return list ? json_object_array_length(list) : 0;
}

/* The signed schema of an element of a list. */
static int element(collector *c, const char *keyword, size_t index, bool negated)
{
    const weft__json at = *here(c);
    weft__json list, item;
    if (!c->status)
        c->status = weft__json_get(&at, keyword, &list);
    if (!c->status)
        c->status = weft__json_at(&list, index, &item);
    const int number = c->status ? -1 : weft__schema_number(c->schema, &item, &c->status);
    return c->status ? -1 : 2 * number + negated;
}

static int at_keyword(collector *c, const char *keyword, bool negated)
{
    return c->status ? -1 : weft__schema_at(c->schema, c->number, keyword, negated, &c->status);
}

/* ---- matching schemas ------------------------------------------------------------------------ */

static void collect_any(collector *c)
{
    for (size_t i = 0; i < list_length(c, "anyOf"); i++)
        add_schemas(c, element(c, "anyOf", i, false), -1);
}

static void collect_one(collector *c)
{
    for (size_t i = 0; i < list_length(c, "oneOf"); i++)
        add(c, (alternative){.list = "oneOf", .only = (int)i});
}

/* Either `if` and `then` match, or not `if` and `else`; absent ones are `true`. */
static void collect_if(collector *c)
{
    add_schemas(c, at_keyword(c, "if", false), at_keyword(c, "then", false));
    add_schemas(c, at_keyword(c, "if", true), at_keyword(c, "else", false));
}

/* ---- contains ---------------------------------------------------------------------------------
 */

/* Exactly or at least n elements match `contains`. */
static void add_elements(collector *c, int n, bool exactly)
{
    const atom_kind kind = n > 0 ? ATOM_CONTAINS : ATOM_REST;
    const schema_atom atom = {.kind = kind, .schema = c->number, .index = -1, .block = -1};
    add(c, (alternative){.atom = atom, .times = n, .rest = exactly && n > 0});
}

/* The bounds on the number of matching elements; *most is negative if there is no upper bound. */
static void read_contains(collector *c, int64_t *least, int64_t *most)
{
    *least = 1;
    *most = -1;
    if (!c->status)
        c->status = weft__json_find_int(here(c), "minContains", least);
    if (!c->status)
        c->status = weft__json_find_int(here(c), "maxContains", most);
    if (!c->status && (*least > EXPAND_BLOCKS || *most >= EXPAND_BLOCKS))
        c->status = weft__json_fail(here(c), WEFT_UNSUPPORTED,
                                    "minContains and maxContains are supported up to %d and %d",
                                    (int)EXPAND_BLOCKS, (int)EXPAND_BLOCKS - 1);
}

static void collect_contains(collector *c)
{
    int64_t least, most;
    read_contains(c, &least, &most);
    if (most < 0 && least == 0) {
        add(c, (alternative){0}); /* anything */
        return;
    }
    add_atom(c, ATOM_NO_ARRAY, -1, NULL);
    if (most < 0)
        add_elements(c, (int)least, false);
    for (int64_t n = least; n <= most; n++)
        add_elements(c, (int)n, true);
}

static void collect_not_contains(collector *c)
{
    int64_t least, most;
    if (!member(c, "contains"))
        return;
    read_contains(c, &least, &most);
    for (int64_t n = 0; n < least; n++)
        add_elements(c, (int)n, true);
    if (most >= 0)
        add_elements(c, (int)most + 1, false);
}

/* Violating uniqueItems (two equal elements) is not supported; unless objects are open, it is left
 * out. */
static void refuse_not_unique(collector *c)
{
    if (!c->status && c->schema->open && json_object_get_boolean(member(c, "uniqueItems")))
        c->status = weft__json_fail(here(c), WEFT_UNSUPPORTED,
                                    "uniqueItems is not supported where it may be violated (not, "
                                    "oneOf, if)");
}

/* ---- values outside of a list of literals ---------------------------------------------------- */

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
    json_object *out = make_schema("object"), *properties = json_object_new_object();
    json_object *required = json_object_new_array();
    json_object_object_foreach(value, key, of)
    {
        append(&required, json_object_new_string(key));
        put(&properties, key, make_constant(of));
    }
    put(&out, "required", required);
    put(&out, "properties", properties);
    put(&out, "additionalProperties", json_object_new_boolean(false));
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
        put(&outside, "not",
            strcmp(type, "boolean") == 0 ? make_constant(value) : make_structure(value));
        append(&all, outside);
    }
    if (strings && json_object_array_length(strings) > 0) {
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

/* {"anyOf": ...}: any value not in the list. */
static json_object *make_others(json_object *values)
{
    static const char *const types[] = {"string", "array", "object"};
    bool has_null = false, has_boolean[2] = {false, false};
    json_object *out = json_object_new_object(), *any = json_object_new_array();
    for (size_t i = 0; i < json_object_array_length(values); i++) {
        json_object *value = json_object_array_get_idx(values, i);
        has_null |= !value;
        if (json_object_is_type(value, json_type_boolean))
            has_boolean[json_object_get_boolean(value)] = true;
    }
    if (!has_null)
        append(&any, make_schema("null"));
    for (int b = 0; b < 2; b++)
        if (!has_boolean[b]) {
            json_object *value = json_object_new_boolean(b);
            append(&any, value ? make_constant(value) : NULL);
            json_object_put(value);
        }
    append_intervals(&any, values);
    for (size_t t = 0; t < 3; t++)
        append(&any, make_other(types[t], values));
    put(&out, "anyOf", any);
    return out;
}

static bool only_strings(json_object *values)
{
    for (size_t i = 0; i < json_object_array_length(values); i++)
        if (!json_object_is_type(json_object_array_get_idx(values, i), json_type_string))
            return false;
    return true;
}

/* Adds the values that a keyword does not list: 0 is enum, 1 const. */
static void collect_others(collector *c, json_object *values, int keyword)
{
    if (only_strings(values)) {
        add_atom(c, ATOM_STRINGS, keyword, NULL);
        return;
    }
    if (c->schema->schemas[c->number].others[keyword] < 0 && !c->status) {
        json_object *others = make_others(values);
        c->status = weft__schema_own(c->schema, others);
        const weft__json at = {.value = others, .name = c->schema->doc.name};
        const int number = c->status ? -1 : weft__schema_number(c->schema, &at, &c->status);
        c->schema->schemas[c->number].others[keyword] = number;
    }
    if (!c->status)
        add_schemas(c, 2 * c->schema->schemas[c->number].others[keyword], -1);
}

static void collect_not_literal(collector *c)
{
    json_object *list = member(c, "enum"), *constant = NULL;
    if (list)
        collect_others(c, list, 0);
    if (c->status || !json_object_object_get_ex(here(c)->value, "const", &constant))
        return;
    json_object *one = json_object_new_array();
    if (one && json_object_array_add(one, json_object_get(constant)) == 0)
        collect_others(c, one, 1);
    else
        c->status = weft__out_of_memory(c->schema->doc.name, "a schema");
    json_object_put(one);
}

/* ---- violated schemas ------------------------------------------------------------------------ */

static void collect_plain(collector *c)
{
    static const struct {
        const char *keyword;
        atom_kind kind;
    } plain[] = {
        {"type", ATOM_TYPE},
        {"minimum", ATOM_MINIMUM},
        {"maximum", ATOM_MAXIMUM},
        {"exclusiveMinimum", ATOM_EXCLUSIVE_MINIMUM},
        {"exclusiveMaximum", ATOM_EXCLUSIVE_MAXIMUM},
        {"minLength", ATOM_MIN_LENGTH},
        {"maxLength", ATOM_MAX_LENGTH},
        {"pattern", ATOM_PATTERN},
        {"multipleOf", ATOM_MULTIPLE},
        {"minItems", ATOM_MIN_ITEMS},
        {"maxItems", ATOM_MAX_ITEMS},
        {"items", ATOM_ITEMS},
        {"minProperties", ATOM_MIN_PROPERTIES},
        {"maxProperties", ATOM_MAX_PROPERTIES},
        {"additionalProperties", ATOM_ADDITIONAL},
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        json_object *value = member(c, plain[i].keyword);
        const bool anything =
            json_object_is_type(value, json_type_boolean) && json_object_get_boolean(value);
        if (value && !anything)
            add_atom(c, plain[i].kind, -1, NULL);
    }
    const char *format = weft__json_plain(member(c, "format"));
    if (format && weft__format_find(format)) /* others are annotations */
        add_atom(c, ATOM_FORMAT, -1, NULL);
}

/* Some property violates patternProperties. Violating propertyNames is not supported; unless
 * objects are open, it is left out. */
static void collect_patterns(collector *c)
{
    json_object *map = member(c, "patternProperties"), *names = NULL;
    if (map) {
        json_object_object_foreach(map, pattern, value)
        {
            (void)value;
            add(c, (alternative){.atom = {.kind = ATOM_PATTERN_PROPERTY,
                                          .schema = c->number,
                                          .index = -1,
                                          .pattern = pattern,
                                          .block = -1}});
        }
    }
    const bool any =
        c->schema->open && json_object_object_get_ex(here(c)->value, "propertyNames", &names) &&
        !(json_object_is_type(names, json_type_boolean) && json_object_get_boolean(names));
    if (any && !c->status)
        c->status = weft__json_fail(here(c), WEFT_UNSUPPORTED,
                                    "propertyNames is not supported where it may be violated (not, "
                                    "oneOf, if)");
}

static void collect_contents(collector *c)
{
    json_object *properties = member(c, "properties");
    for (size_t i = 0; i < list_length(c, "prefixItems"); i++)
        add_atom(c, ATOM_PREFIX_ITEM, (int)i, NULL);
    for (size_t i = 0; i < list_length(c, "required"); i++)
        add_atom(c, ATOM_REQUIRED, -1,
                 json_object_get_string(json_object_array_get_idx(member(c, "required"), i)));
    if (properties) {
        json_object_object_foreach(properties, key, value)
        {
            (void)value;
            if (!weft__requires_property(c->schema, c->number, key))
                add_atom(c, ATOM_PROPERTY, -1, key);
        }
    }
}

/* None of oneOf matches, or two do. */
static void collect_not_one(collector *c)
{
    const branch_list *list = NULL;
    if (c->status || list_length(c, "oneOf") == 0)
        return;
    add(c, (alternative){.list = "oneOf", .only = -1});
    c->status = weft__schema_branches(c->schema, c->number, &list);
    const size_t n = c->status ? 0 : list->n;
    int *others_of = weft_malloc((n + 1) * sizeof *others_of);
    if (!c->status && !others_of)
        c->status = weft__out_of_memory(c->schema->doc.name, "a schema");
    for (int i = 0; i < (int)n && !c->status; i++) {
        size_t count = 0;
        c->status = weft__schema_branches(c->schema, c->number, &list);
        if (!c->status)
            c->status = weft__branches_compatible(list, i, others_of, &count);
        for (size_t k = 0; k < count && !c->status; k++)
            if (others_of[k] > i)
                add_schemas(c, element(c, "oneOf", (size_t)i, false),
                            element(c, "oneOf", (size_t)others_of[k], false));
    }
    weft_free(others_of);
}

static void collect_violated(collector *c)
{
    collect_plain(c);
    collect_not_literal(c);
    collect_contents(c);
    collect_patterns(c);
    for (size_t i = 0; i < list_length(c, "allOf"); i++)
        add_schemas(c, element(c, "allOf", i, true), -1);
    if (list_length(c, "anyOf") > 0)
        add(c, (alternative){.list = "anyOf", .only = -1});
    collect_not_one(c);
    collect_not_contains(c);
    refuse_not_unique(c);
    add_schemas(c, at_keyword(c, "not", false), -1);
    const int dependent = c->status ? -1 : weft__schema_dependent(c->schema, c->number, &c->status);
    add_schemas(c, dependent >= 0 ? 2 * dependent + 1 : -1, -1);
    const int target = c->status ? -1 : weft__schema_reference(c->schema, c->number, &c->status);
    if (target >= 0)
        add_schemas(c, 2 * target + 1, -1);
    if (!member(c, "if"))
        return;
    if (member(c, "then"))
        add_schemas(c, at_keyword(c, "if", false), at_keyword(c, "then", true));
    if (member(c, "else"))
        add_schemas(c, at_keyword(c, "if", true), at_keyword(c, "else", true));
}

weft_status weft__alternatives(weft__schema *schema, branch_kind kind, int number,
                               alternative_list *out)
{
    collector c = {.schema = schema, .number = number, .out = out};
    switch (kind) {
    case BRANCH_ANY:
        collect_any(&c);
        break;
    case BRANCH_ONE:
        collect_one(&c);
        break;
    case BRANCH_IF:
        collect_if(&c);
        break;
    case BRANCH_CONTAINS:
        collect_contains(&c);
        break;
    case BRANCH_VIOLATED:
        collect_violated(&c);
        break;
    }
    return c.status;
}
