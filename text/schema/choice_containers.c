/* text/schema/choice_containers.c -- combines atoms about elements and properties. */
#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/list.h"
#include "text/schema/expand.h"
#include "weft/memory.h"

enum { MAX_PREFIX = 10000 };

static weft_status no_memory(const weft__schema *schema)
{
    return weft__out_of_memory(schema->doc.name, "a schema");
}

int weft__schema_at(weft__schema *schema, int number, const char *keyword, bool negated,
                    weft_status *status)
{
    const weft__json at = schema->schemas[number].at;
    weft__json found;
    *status = weft__json_find(&at, keyword, &found);
    if (*status || !found.value)
        return -1;
    const int of = weft__schema_number(schema, &found, status);
    return *status ? -1 : 2 * of + negated;
}

/* ---- arrays ------------------------------------------------------------------------------------
 */

int weft__prefix_length(const weft__schema *schema, int number)
{
    json_object *list = json_object_object_get(schema->schemas[number].at.value, "prefixItems");
    const size_t n = list ? json_object_array_length(list) : 0;
    return n < MAX_PREFIX ? (int)n : MAX_PREFIX;
}

int weft__schema_in(weft__schema *schema, int number, const char *keyword, const char *name,
                    size_t index, bool negated, weft_status *status)
{
    const weft__json at = schema->schemas[number].at;
    weft__json all, found;
    *status = weft__json_get(&at, keyword, &all);
    if (!*status)
        *status = name ? weft__json_find(&all, name, &found) : weft__json_at(&all, index, &found);
    const int of = *status ? -1 : weft__schema_number(schema, &found, status);
    return *status ? -1 : 2 * of + negated;
}

/* An element: one of the prefix, or after all prefixes (index < 0) one of a block of atoms, or any
 * other. */
typedef struct element_place {
    int index, block;
} element_place;

static bool is_of(const schema_atom *a, element_place at)
{
    return at.index >= 0 ? a->index == at.index : at.block >= 0 && a->block == at.block;
}

/* Whether an element is one that must match the `contains` of a schema. */
static bool is_contained(const schema_atom *atoms, size_t n, int number, element_place at)
{
    for (size_t i = 0; i < n; i++)
        if (atoms[i].kind == ATOM_CONTAINS && atoms[i].schema == number && is_of(&atoms[i], at))
            return true;
    return false;
}

/* Collects the signed schemas of an element; returns their number. */
static size_t element_schemas(weft__schema *schema, const schema_atom *atoms, size_t n,
                              element_place at, int *out, weft_status *status)
{
    size_t count = 0;
    for (size_t i = 0; i < n && !*status; i++) {
        const schema_atom *a = &atoms[i];
        const int index = at.index;
        int of = -1;
        if (a->kind == ATOM_ALL && index >= 0 && index < weft__prefix_length(schema, a->schema))
            of = weft__schema_in(schema, a->schema, "prefixItems", NULL, (size_t)index, false,
                                 status);
        else if (a->kind == ATOM_ALL)
            of = weft__schema_at(schema, a->schema, "items", false, status);
        else if (a->kind == ATOM_CONTAINS && is_of(a, at))
            of = weft__schema_at(schema, a->schema, "contains", false, status);
        else if (a->kind == ATOM_REST && !is_contained(atoms, n, a->schema, at))
            of = weft__schema_at(schema, a->schema, "contains", true, status);
        if (of >= 0)
            out[count++] = of;
    }
    return count;
}

static int element_node(weft__schema *schema, const schema_atom *atoms, size_t n, element_place at,
                        weft_status *status)
{
    int signed_schemas[EXPAND_MAX];
    const size_t count = element_schemas(schema, atoms, n, at, signed_schemas, status);
    return *status ? SCHEMA_NO_NODE : weft__schema_node(schema, signed_schemas, count, status);
}

/* Makes a node for each block of elements. */
static weft_status fill_wanted(weft__schema *schema, const schema_atom *atoms, size_t n,
                               schema_choice *c)
{
    weft_status status = WEFT_OK;
    c->wanted_items = weft_calloc(EXPAND_BLOCKS, sizeof *c->wanted_items);
    if (!c->wanted_items)
        return no_memory(schema);
    for (int block = 0; block < EXPAND_BLOCKS && !status; block++) {
        bool used = false;
        for (size_t i = 0; i < n; i++)
            used |= atoms[i].kind == ATOM_CONTAINS && atoms[i].block == block;
        if (used)
            c->wanted_items[c->n_wanted_items++] =
                element_node(schema, atoms, n, (element_place){-1, block}, &status);
    }
    return status;
}

/* The number of elements with individual schemas, and the minimum number of elements. */
static int prefix_of(const weft__schema *schema, const schema_atom *atoms, size_t n,
                     schema_choice *c)
{
    int longest = 0;
    for (size_t i = 0; i < n; i++) {
        const atom_kind kind = atoms[i].kind;
        const int length = kind == ATOM_ALL ? weft__prefix_length(schema, atoms[i].schema) : 0;
        const int index = kind == ATOM_CONTAINS ? atoms[i].index + 1 : 0;
        longest = length > longest ? length : longest;
        longest = index > longest ? index : longest;
        if (index > c->min_items)
            c->min_items = index;
    }
    return longest;
}

weft_status weft__choice_array(weft__schema *schema, const schema_atom *atoms, size_t n,
                               schema_choice *c)
{
    weft_status status = WEFT_OK;
    const int longest = prefix_of(schema, atoms, n, c);
    for (size_t i = 0; i < n; i++)
        if (atoms[i].kind == ATOM_ALL &&
            json_object_get_boolean(
                json_object_object_get(schema->schemas[atoms[i].schema].at.value, "uniqueItems")))
            c->unique_of = atoms[i].schema;
    if (c->max_items != SCHEMA_UNBOUNDED && c->min_items > c->max_items)
        c->types &= ~(unsigned)SCHEMA_ARRAY;
    c->prefix = weft_calloc((size_t)longest + 1, sizeof *c->prefix);
    if (!c->prefix)
        return no_memory(schema);
    for (int i = 0; i < longest && !status; i++)
        c->prefix[c->n_prefix++] = element_node(schema, atoms, n, (element_place){i, -1}, &status);
    if (!status)
        status = fill_wanted(schema, atoms, n, c);
    if (!status)
        c->items = element_node(schema, atoms, n, (element_place){-1, -1}, &status);
    return status;
}

/* ---- objects -----------------------------------------------------------------------------------
 */

static bool names_property(const weft__schema *schema, int number, const char *name)
{
    json_object *properties =
        json_object_object_get(schema->schemas[number].at.value, "properties");
    return properties && json_object_object_get_ex(properties, name, NULL);
}

bool weft__requires_property(const weft__schema *schema, int number, const char *name)
{
    json_object *required = schema->schemas[number].required;
    return required && json_object_object_get_ex(required, name, NULL);
}

weft_status weft__each_property(weft__schema *schema, const schema_atom *atoms, size_t n,
                                weft_status (*take)(void *context, const char *name), void *context)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && !status; i++) {
        json_object *at = schema->schemas[atoms[i].schema].at.value;
        if (atoms[i].name)
            status = take(context, atoms[i].name);
        if (atoms[i].kind != ATOM_ALL)
            continue;
        json_object *properties = json_object_object_get(at, "properties");
        json_object *required = json_object_object_get(at, "required");
        for (size_t k = 0; required && k < json_object_array_length(required) && !status; k++)
            status = take(context, json_object_get_string(json_object_array_get_idx(required, k)));
        if (!status)
            status = weft__each_allowed_name(schema, atoms[i].schema, take, context);
        if (!properties)
            continue;
        json_object_object_foreach(properties, key, value)
        {
            (void)value;
            if (!status)
                status = take(context, key);
        }
    }
    return status;
}

static bool is_false(const weft__schema *schema, int signed_schema)
{
    json_object *value = schema->schemas[signed_schema / 2].at.value;
    return json_object_is_type(value, json_type_boolean) &&
           json_object_get_boolean(value) == signed_schema % 2;
}

/* The signed schemas of a property, being collected. */
typedef struct gathered {
    weft__schema *schema;
    int *out, count;
    bool forbidden;
    weft_status status;
} gathered;

/* Adds a signed schema; negative: none. */
static void gather(gathered *g, int of)
{
    if (of < 0 || g->status)
        return;
    g->forbidden |= is_false(g->schema, of);
    if (g->count == EXPAND_MAX)
        g->status = weft__json_fail(&g->schema->schemas[of / 2].at, WEFT_UNSUPPORTED,
                                    "more than %d schemas hold at one place", (int)EXPAND_MAX);
    else
        g->out[g->count++] = of;
}

static void gather_additional(gathered *g, int number)
{
    if (!g->status)
        gather(g, weft__schema_at(g->schema, number, "additionalProperties", false, &g->status));
}

/* Adds the schema of a property of `properties`, or of a pattern of patternProperties. */
static void gather_member(gathered *g, int number, const char *keyword, const char *name,
                          bool negated)
{
    if (!g->status)
        gather(g, weft__schema_in(g->schema, number, keyword, name, 0, negated, &g->status));
}

/* Adds the schemas that a matching schema applies to a property. */
static void gather_matching(gathered *g, int number, const char *name)
{
    weft__schema *schema = g->schema;
    json_object *map =
        json_object_object_get(schema->schemas[number].at.value, "patternProperties");
    bool covered = names_property(schema, number, name), allowed = true;
    if (covered)
        gather_member(g, number, "properties", name, false);
    if (map) {
        json_object_object_foreach(map, pattern, value)
        {
            bool matches = false;
            if (!g->status)
                g->status =
                    weft__checker_key_matches(schema->checker, value, pattern, name, &matches);
            if (matches)
                gather_member(g, number, "patternProperties", pattern, false);
            covered |= matches;
        }
    }
    if (!covered)
        gather_additional(g, number);
    if (!g->status)
        g->status = weft__names_allow(schema, number, name, &allowed);
    g->forbidden |= !allowed;
}

weft_status weft__property_schemas(weft__schema *schema, const schema_atom *atoms, size_t n,
                                   const char *name, int *out, int *count, bool *required)
{
    gathered g = {.schema = schema, .out = out};
    *required = false;
    for (size_t i = 0; i < n && !g.status; i++) {
        const schema_atom *a = &atoms[i];
        const bool named = a->name && strcmp(a->name, name) == 0;
        const bool own = named && names_property(schema, a->schema, name);
        if (a->kind == ATOM_ALL)
            gather_matching(&g, a->schema, name);
        else if (own && (a->kind == ATOM_PROPERTY || a->kind == ATOM_REQUIRED))
            gather_member(&g, a->schema, "properties", name, true);
        else if (named && (a->kind == ATOM_REQUIRED || a->kind == ATOM_ABSENT))
            g.forbidden = true;
        *required |= (a->kind == ATOM_ALL && weft__requires_property(schema, a->schema, name)) ||
                     ((a->kind == ATOM_PROPERTY || a->kind == ATOM_PRESENT) && named);
    }
    *count = g.forbidden ? -1 : g.count;
    return g.status;
}

/* Bits of the patterns that patternProperties of a schema has. */
static unsigned key_mask(const weft__schema *schema, int number, const char *const *patterns)
{
    json_object *map =
        json_object_object_get(schema->schemas[number].at.value, "patternProperties");
    unsigned mask = 0;
    for (int k = 0; k < SCHEMA_KEY_PATTERNS && map && patterns[k]; k++)
        mask |= (unsigned)json_object_object_get_ex(map, patterns[k], NULL) << k;
    return mask;
}

weft_status weft__key_schemas(weft__schema *schema, const schema_atom *atoms, size_t n,
                              const char *const *patterns, unsigned mask, int *out, int *count)
{
    gathered g = {.schema = schema, .out = out};
    for (size_t i = 0; i < n && !g.status; i++) {
        const int number = atoms[i].schema;
        if (atoms[i].kind != ATOM_ALL)
            continue;
        const unsigned own = key_mask(schema, number, patterns) & mask;
        if (own == 0)
            gather_additional(&g, number);
        for (int k = 0; k < SCHEMA_KEY_PATTERNS; k++)
            if (own >> k & 1)
                gather_member(&g, number, "patternProperties", patterns[k], false);
    }
    *count = g.forbidden ? -1 : g.count;
    return g.status;
}

/* A key as JSON writes it between quotes; NULL when out of memory. */
static char *write_key(const char *name)
{
    json_object *string = json_object_new_string(name);
    const char *text = string ? json_object_to_json_string_ext(
                                    string, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
                              : NULL;
    char *key = text ? weft_strdup(text + 1) : NULL;
    if (key)
        key[strlen(key) - 1] = '\0';
    json_object_put(string);
    return key;
}

typedef struct filling {
    weft__schema *schema;
    const schema_atom *atoms;
    size_t n;
    schema_choice *choice;
} filling;

/* Adds a property that the atoms name, and its node, once per key. */
static weft_status add_name(void *context, const char *name)
{
    filling *f = context;
    schema_choice *c = f->choice;
    char *key = weft__list_more(c->properties, c->n_properties) ? write_key(name) : NULL;
    if (!key)
        return no_memory(f->schema);
    c->properties[c->n_properties] = (schema_property){
        .key = key, .length = strlen(key), .name = name, .order = (int32_t)c->n_properties};
    c->n_properties++;
    return WEFT_OK;
}

static int by_key(const void *a, const void *b)
{
    const schema_property *x = a, *y = b;
    const int order = strcmp(x->key, y->key);
    return order != 0 ? order : x->order - y->order;
}

static int by_order(const void *a, const void *b)
{
    return ((const schema_property *)a)->order - ((const schema_property *)b)->order;
}

static void sort(schema_choice *c, int (*compare)(const void *a, const void *b))
{
    if (c->n_properties > 0)
        qsort(c->properties, c->n_properties, sizeof *c->properties, compare);
}

static void drop_duplicates(schema_choice *c)
{
    size_t kept = 0;
    sort(c, by_key);
    for (size_t i = 0; i < c->n_properties; i++) {
        if (kept > 0 && strcmp(c->properties[kept - 1].key, c->properties[i].key) == 0)
            weft_free(c->properties[i].key);
        else
            c->properties[kept++] = c->properties[i];
    }
    c->n_properties = kept;
}

static weft_status fill_property(weft__schema *schema, const schema_atom *atoms, size_t n,
                                 schema_property *p, schema_choice *c)
{
    int signed_schemas[EXPAND_MAX], count;
    weft_status status =
        weft__property_schemas(schema, atoms, n, p->name, signed_schemas, &count, &p->required);
    p->node = SCHEMA_NO_NODE;
    if (status)
        return status;
    if (count >= 0)
        p->node = weft__schema_node(schema, signed_schemas, (size_t)count, &status);
    else if (p->required)
        c->types &= ~(unsigned)SCHEMA_OBJECT;
    return status;
}

/* The properties are in the declared order: a property may follow those from the last required one
 * on. */
static void number_properties(schema_choice *c)
{
    int32_t from = 0;
    for (size_t i = 0; i < c->n_properties; i++) {
        c->properties[i].order = (int32_t)i;
        c->properties[i].from = from;
        if (c->properties[i].required)
            from = (int32_t)i + 1;
    }
}

weft_status weft__choice_object(weft__schema *schema, const schema_atom *atoms, size_t n,
                                schema_choice *c)
{
    filling f = {.schema = schema, .atoms = atoms, .n = n, .choice = c};
    weft_status status = weft__each_declared(schema, atoms, n, add_name, &f);
    const int32_t declared = (int32_t)c->n_properties;
    if (!status)
        status = weft__each_property(schema, atoms, n, add_name, &f);
    drop_duplicates(c);
    sort(c, by_order);
    if (!status && c->n_properties > 0) {
        c->by_cost = weft_calloc(c->n_properties, sizeof *c->by_cost);
        if (!c->by_cost)
            status = no_memory(schema);
    }
    for (size_t i = 0; i < c->n_properties && !status; i++) {
        if (c->properties[i].length < SCHEMA_KEY_LENGTHS)
            c->named_keys[c->properties[i].length]++;
        status = fill_property(schema, atoms, n, &c->properties[i], c);
    }
    c->ordered = !schema->open;
    const bool closed = !status && weft__is_closed(schema, atoms, n, c, declared);
    for (size_t i = 0; closed && i < c->n_properties; i++)
        if (c->properties[i].order >= declared)
            c->properties[i].node = SCHEMA_NO_NODE;
    number_properties(c);
    sort(c, by_key);
    return status || closed ? status : weft__choice_keys(schema, atoms, n, c);
}
