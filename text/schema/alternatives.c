/* text/schema/alternatives.c -- lists the alternatives by which a value can match a branching
 * schema, or violate a schema. */
#include <json-c/linkhash.h>
#include <string.h>

#include "core/failure.h"
#include "core/list.h"
#include "text/schema/expand.h"
#include "text/schema/keywords.h"

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
    if (weft__list_more(c->out->at, c->out->n))
        c->out->at[c->out->n++] = a;
    else
        c->status = weft__out_of_memory(c->schema->doc.name, "a schema");
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
    return c->status
               ? -1
               : weft__schema_in(c->schema, c->number, keyword, NULL, index, negated, &c->status);
}

static int at_keyword(collector *c, const char *keyword, bool negated)
{
    return c->status ? -1 : weft__schema_at(c->schema, c->number, keyword, negated, &c->status);
}

/* ---- matching schemas ------------------------------------------------------------------------ */

static void collect_list(collector *c, const char *keyword, bool negated)
{
    for (size_t i = 0; i < list_length(c, keyword); i++)
        add_schemas(c, element(c, keyword, i, negated), -1);
}

/* Either `if` and `then` match, or not `if` and `else`; absent ones are `true`. */
static void collect_if(collector *c)
{
    if (!member(c, "then") && !member(c, "else")) {
        add(c, (alternative){0}); /* anything */
        return;
    }
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

/* ---- dependencies ---------------------------------------------------------------------------- */

/* An object with the property `name` has those of a list, or matches a schema. */
static void collect_dependent(collector *c, const char *keyword, const char *name)
{
    const weft__json at = *here(c);
    weft__json map, member;
    alternative with = {
        .atom = {.kind = ATOM_PRESENT, .schema = c->number, .name = name, .block = -1}};
    add_atom(c, ATOM_NO_OBJECT, -1, NULL);
    add_atom(c, ATOM_ABSENT, -1, name);
    if (!c->status)
        c->status = weft__json_get(&at, keyword, &map);
    if (!c->status)
        c->status = weft__json_get(&map, name, &member);
    if (!c->status && json_object_is_type(member.value, json_type_array))
        with.names = member.value;
    else if (!c->status)
        with.signed_schemas[with.n++] = 2 * weft__schema_number(c->schema, &member, &c->status);
    add(c, with);
}

/* ---- violated schemas ------------------------------------------------------------------------ */

#define VIOLATED " is not supported where it may be violated (not, oneOf, if, maxContains)"

/* Refuses keywords whose violation no choice expresses. */
static void refuse(collector *c)
{
    static const char *const followed[] = {"type",       "enum",     "const", "pattern",
                                           "properties", "required", "allOf", "anyOf",
                                           "not",        "$ref",     NULL};
    const char *keyword = weft__keyword_besides(here(c)->value, followed);
    if (keyword && !c->status)
        c->status = weft__json_fail(here(c), WEFT_UNSUPPORTED, "%s" VIOLATED, keyword);
}

static bool is_container(json_object *value)
{
    return json_object_is_type(value, json_type_array) ||
           json_object_is_type(value, json_type_object);
}

/* The values that are not in a list: each interval between its numbers, and all others. */
static void collect_others(collector *c, atom_kind kind, const char *keyword)
{
    enum { MOST = 1000 };
    json_object *list = NULL;
    int numbers = 0;
    if (!json_object_object_get_ex(here(c)->value, keyword, &list))
        return;
    const size_t n = kind == ATOM_NOT_CONST ? 1 : json_object_array_length(list);
    for (size_t i = 0; i < n && !c->status; i++) {
        json_object *value = kind == ATOM_NOT_CONST ? list : json_object_array_get_idx(list, i);
        numbers += json_object_is_type(value, json_type_int) ||
                   json_object_is_type(value, json_type_double);
        if (is_container(value) || numbers > MOST)
            c->status = weft__json_fail(here(c), WEFT_UNSUPPORTED,
                                        "%s with arrays, objects or more than %d numbers" VIOLATED,
                                        keyword, (int)MOST);
    }
    add_atom(c, kind, -1, NULL);
    for (int i = 0; i <= numbers && numbers > 0; i++)
        add_atom(c, kind, i, NULL);
}

static void collect_violated(collector *c)
{
    json_object *properties = member(c, "properties"), *required = member(c, "required");
    refuse(c);
    if (member(c, "type"))
        add_atom(c, ATOM_TYPE, -1, NULL);
    if (member(c, "pattern"))
        add_atom(c, ATOM_PATTERN, -1, NULL);
    collect_others(c, ATOM_NOT_ENUM, "enum");
    collect_others(c, ATOM_NOT_CONST, "const");
    for (size_t i = 0; i < list_length(c, "required"); i++)
        add_atom(c, ATOM_REQUIRED, -1,
                 json_object_get_string(json_object_array_get_idx(required, i)));
    if (properties) {
        json_object_object_foreach(properties, key, value)
        {
            (void)value;
            if (!weft__requires_property(c->schema, c->number, key))
                add_atom(c, ATOM_PROPERTY, -1, key);
        }
    }
    collect_list(c, "allOf", true);
    if (list_length(c, "anyOf") > 0)
        add(c, (alternative){.list = "anyOf"});
    add_schemas(c, at_keyword(c, "not", false), -1);
    const int target = c->status ? -1 : weft__schema_reference(c->schema, c->number, &c->status);
    add_schemas(c, target >= 0 ? 2 * target + 1 : -1, -1);
}

/* ---- oneOf -----------------------------------------------------------------------------------
 */

bool weft__is_plain(json_object *schema)
{
    static const char *const plain[] = {"type", "enum", "const", "pattern", "required", NULL};
    json_object *list = json_object_object_get(schema, "enum");
    bool containers = is_container(json_object_object_get(schema, "const"));
    for (size_t i = 0; list && i < json_object_array_length(list); i++)
        containers |= is_container(json_object_array_get_idx(list, i));
    return !containers && !weft__keyword_besides(schema, plain);
}

/* The branch `chosen` of oneOf without the values that match this branch, too: of other types, or
 * without a property that this one requires, or with another value of a property. */
static void collect_apart(collector *c, int chosen)
{
    c->number = weft__schema_resolve(c->schema, 2 * c->number, &c->status) / 2;
    chosen = weft__schema_resolve(c->schema, 2 * chosen, &c->status) / 2;
    json_object *required = member(c, "required"), *properties = member(c, "properties");
    json_object *others = c->schema->schemas[chosen].at.value;
    others = json_object_object_get(others, "properties");
    if (member(c, "type"))
        add_atom(c, ATOM_TYPE, -1, NULL);
    for (size_t i = 0; i < list_length(c, "required"); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(required, i));
        json_object *of = json_object_object_get(properties, name);
        add_atom(c, weft__is_plain(of) ? ATOM_REQUIRED : ATOM_ABSENT, -1, name);
    }
    if (!properties)
        return;
    json_object_object_foreach(properties, key, value)
    {
        if (weft__is_plain(value) && json_object_object_get_ex(others, key, NULL) &&
            !weft__requires_property(c->schema, c->number, key))
            add_atom(c, ATOM_PROPERTY, -1, key);
    }
}

weft_status weft__alternatives(weft__schema *schema, const branch *from, alternative_list *out)
{
    collector c = {.schema = schema, .number = from->schema, .out = out};
    switch (from->kind) {
    case BRANCH_ANY:
        collect_list(&c, "anyOf", false);
        break;
    case BRANCH_ONE:
        collect_list(&c, "oneOf", false);
        break;
    case BRANCH_IF:
        collect_if(&c);
        break;
    case BRANCH_CONTAINS:
        collect_contains(&c);
        break;
    case BRANCH_DEPENDENT:
        collect_dependent(&c, from->keyword, from->name);
        break;
    case BRANCH_APART:
        collect_apart(&c, from->chosen);
        break;
    case BRANCH_VIOLATED:
        collect_violated(&c);
        break;
    }
    return c.status;
}
