/* text/schema/alternatives.c -- lists the alternatives by which a value can match a branching
 * schema, or violate a schema. */
#include <json-c/linkhash.h>
#include <string.h>

#include "core/failure.h"
#include "core/list.h"
#include "text/schema/expand.h"
#include "text/schema/format.h"
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

/* ---- violated schemas ------------------------------------------------------------------------ */

/* Whether every value matches a schema, or every property a map of schemas. */
static bool is_trivial(json_object *value)
{
    return json_object_is_type(value, json_type_object)
               ? json_object_object_length(value) == 0
               : json_object_is_type(value, json_type_boolean) && json_object_get_boolean(value);
}

/* Refuses keywords whose violation no choice expresses. Unless objects are open, some are left out
 * instead. */
static void refuse(collector *c)
{
    static const struct {
        const char *keyword;
        bool left_out;
    } refused[] = {{"additionalProperties", false},
                   {"multipleOf", false},
                   {"patternProperties", false},
                   {"propertyNames", true},
                   {"uniqueItems", true}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused && !c->status; i++) {
        const char *keyword = refused[i].keyword;
        json_object *value = member(c, keyword);
        const bool satisfied = strcmp(keyword, "uniqueItems") == 0 ? !json_object_get_boolean(value)
                                                                   : !value || is_trivial(value);
        if (!satisfied && (c->schema->open || !refused[i].left_out))
            c->status = weft__json_fail(here(c), WEFT_UNSUPPORTED,
                                        "%s is not supported where it may be violated (not, oneOf, "
                                        "if, maxContains)",
                                        keyword);
    }
    if (!c->status && json_object_is_type(member(c, "items"), json_type_object) &&
        list_length(c, "prefixItems") > 0 && !is_trivial(member(c, "items")))
        c->status = weft__json_fail(here(c), WEFT_UNSUPPORTED,
                                    "items after prefixItems is not supported where it may be "
                                    "violated (not, oneOf, if, maxContains)");
}

/* Violations that are atoms. */
static void collect_atoms(collector *c)
{
    json_object *properties = member(c, "properties"), *constant = NULL;
    const char *format = weft__json_plain(member(c, "format"));
    if (member(c, "type"))
        add_atom(c, ATOM_TYPE, -1, NULL);
    if (member(c, "pattern"))
        add_atom(c, ATOM_PATTERN, -1, NULL);
    if (format && weft__format_find(format)) /* others are annotations */
        add_atom(c, ATOM_FORMAT, -1, NULL);
    if (member(c, "enum") && weft__only_strings(member(c, "enum")))
        add_atom(c, ATOM_STRINGS, 0, NULL);
    if (json_object_object_get_ex(here(c)->value, "const", &constant) &&
        json_object_is_type(constant, json_type_string))
        add_atom(c, ATOM_STRINGS, 1, NULL);
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
    refuse(c);
    collect_atoms(c);
    const int violated = c->status ? -1 : weft__schema_violated(c->schema, c->number, &c->status);
    add_schemas(c, violated >= 0 ? 2 * violated : -1, -1);
    for (size_t i = 0; i < list_length(c, "allOf"); i++)
        add_schemas(c, element(c, "allOf", i, true), -1);
    if (list_length(c, "anyOf") > 0)
        add(c, (alternative){.list = "anyOf", .only = -1});
    collect_not_one(c);
    collect_not_contains(c);
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
