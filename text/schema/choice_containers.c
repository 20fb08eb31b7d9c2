/* text/schema/choice_containers.c -- what atoms say of elements and properties. */
#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
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

/* A node per block of violated keywords: `base` holds there, and what the atoms of the block
 * exclude. */
static weft_status fill_blocks(weft__schema *schema, const schema_atom *atoms, size_t n,
                               atom_kind kind, const char *keyword, const int *base, size_t n_base,
                               int **out, size_t *n_out)
{
    int signed_schemas[2 * EXPAND_MAX];
    weft_status status = WEFT_OK;
    *out = weft_calloc(EXPAND_BLOCKS, sizeof **out);
    if (!*out)
        return no_memory(schema);
    for (int block = 0; block < EXPAND_BLOCKS && !status; block++) {
        size_t count = n_base;
        bool used = false;
        for (size_t i = 0; i < n_base; i++)
            signed_schemas[i] = base[i];
        for (size_t i = 0; i < n && !status; i++) {
            if (atoms[i].kind != kind || atoms[i].block != block)
                continue;
            used = true;
            signed_schemas[count++] =
                weft__schema_at(schema, atoms[i].schema, keyword, true, &status);
        }
        if (used && !status)
            (*out)[(*n_out)++] = weft__schema_node(schema, signed_schemas, count, &status);
    }
    return status;
}

/* ---- arrays ------------------------------------------------------------------------------------
 */

int weft__prefix_length(const weft__schema *schema, int number)
{
    json_object *list = json_object_object_get(schema->schemas[number].at.value, "prefixItems");
    const size_t n = list ? json_object_array_length(list) : 0;
    return n < MAX_PREFIX ? (int)n : MAX_PREFIX;
}

static int prefix_item(weft__schema *schema, int number, int index, bool negated,
                       weft_status *status)
{
    const weft__json at = schema->schemas[number].at;
    weft__json list, item;
    *status = weft__json_get(&at, "prefixItems", &list);
    if (!*status)
        *status = weft__json_at(&list, (size_t)index, &item);
    const int of = *status ? -1 : weft__schema_number(schema, &item, status);
    return *status ? -1 : 2 * of + negated;
}

/* The signed schemas of an element; -1: of one behind all prefixes. Their number. */
static size_t element_schemas(weft__schema *schema, const schema_atom *atoms, size_t n, int index,
                              int *out, weft_status *status)
{
    size_t count = 0;
    for (size_t i = 0; i < n && !*status; i++) {
        const schema_atom *a = &atoms[i];
        int of = -1;
        if (a->kind == ATOM_ALL && index >= 0 && index < weft__prefix_length(schema, a->schema))
            of = prefix_item(schema, a->schema, index, false, status);
        else if (a->kind == ATOM_ALL)
            of = weft__schema_at(schema, a->schema, "items", false, status);
        else if (a->kind == ATOM_PREFIX_ITEM && index >= 0 && a->index == index)
            of = prefix_item(schema, a->schema, index, true, status);
        else if (a->kind == ATOM_ITEMS && index >= 0 && a->index == index)
            of = weft__schema_at(schema, a->schema, "items", true, status);
        if (of >= 0)
            out[count++] = of;
    }
    return count;
}

weft_status weft__choice_array(weft__schema *schema, const schema_atom *atoms, size_t n,
                               schema_choice *c)
{
    int signed_schemas[EXPAND_MAX];
    weft_status status = WEFT_OK;
    int longest = 0;
    for (size_t i = 0; i < n; i++) {
        /* What items does not apply to cannot violate it. */
        const bool counts = atoms[i].kind == ATOM_ALL || atoms[i].kind == ATOM_ITEMS;
        const int length = counts ? weft__prefix_length(schema, atoms[i].schema) : 0;
        const int index = atoms[i].kind == ATOM_PREFIX_ITEM || atoms[i].kind == ATOM_ITEMS
                              ? atoms[i].index + 1
                              : 0;
        longest = length > longest ? length : longest;
        longest = index > longest ? index : longest;
        if (index > c->min_items)
            c->min_items = index;
    }
    if (c->max_items != SCHEMA_UNBOUNDED && c->min_items > c->max_items)
        c->types &= ~(unsigned)SCHEMA_ARRAY;
    c->prefix = weft_calloc((size_t)longest + 1, sizeof *c->prefix);
    if (!c->prefix)
        return no_memory(schema);
    for (int i = 0; i < longest && !status; i++) {
        const size_t count = element_schemas(schema, atoms, n, i, signed_schemas, &status);
        if (!status)
            c->prefix[c->n_prefix++] = weft__schema_node(schema, signed_schemas, count, &status);
    }
    const size_t count =
        status ? 0 : element_schemas(schema, atoms, n, -1, signed_schemas, &status);
    if (!status)
        status = fill_blocks(schema, atoms, n, ATOM_ITEMS, "items", signed_schemas, count,
                             &c->wanted_items, &c->n_wanted_items);
    if (!status)
        c->items = weft__schema_node(schema, signed_schemas, count, &status);
    return status;
}

/* ---- objects -----------------------------------------------------------------------------------
 */

bool weft__names_property(const weft__schema *schema, int number, const char *name)
{
    json_object *properties =
        json_object_object_get(schema->schemas[number].at.value, "properties");
    return properties && json_object_object_get_ex(properties, name, NULL);
}

bool weft__requires_property(const weft__schema *schema, int number, const char *name)
{
    json_object *list = json_object_object_get(schema->schemas[number].at.value, "required");
    for (size_t i = 0; list && i < json_object_array_length(list); i++)
        if (strcmp(json_object_get_string(json_object_array_get_idx(list, i)), name) == 0)
            return true;
    return false;
}

weft_status weft__each_property(const weft__schema *schema, const schema_atom *atoms, size_t n,
                                weft_status (*take)(void *context, const char *name), void *context)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && !status; i++) {
        json_object *at = schema->schemas[atoms[i].schema].at.value;
        if (atoms[i].name)
            status = take(context, atoms[i].name);
        /* What additionalProperties does not apply to cannot violate it. */
        if (atoms[i].kind != ATOM_ALL && atoms[i].kind != ATOM_ADDITIONAL)
            continue;
        json_object *properties = json_object_object_get(at, "properties");
        json_object *required =
            atoms[i].kind == ATOM_ALL ? json_object_object_get(at, "required") : NULL;
        for (size_t k = 0; required && k < json_object_array_length(required) && !status; k++)
            status = take(context, json_object_get_string(json_object_array_get_idx(required, k)));
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

/* The signed schema of a property's own schema in `properties`. */
static int own_schema(weft__schema *schema, int number, const char *name, bool negated,
                      weft_status *status)
{
    const weft__json at = schema->schemas[number].at;
    weft__json properties, found;
    *status = weft__json_get(&at, "properties", &properties);
    if (!*status)
        *status = weft__json_find(&properties, name, &found);
    const int of = *status ? -1 : weft__schema_number(schema, &found, status);
    return *status ? -1 : 2 * of + negated;
}

static bool is_false(const weft__schema *schema, int signed_schema)
{
    json_object *value = schema->schemas[signed_schema / 2].at.value;
    return json_object_is_type(value, json_type_boolean) &&
           json_object_get_boolean(value) == signed_schema % 2;
}

weft_status weft__property_schemas(weft__schema *schema, const schema_atom *atoms, size_t n,
                                   const char *name, int *out, int *count, bool *required)
{
    weft_status status = WEFT_OK;
    bool forbidden = false;
    *count = 0;
    *required = false;
    for (size_t i = 0; i < n && !status; i++) {
        const schema_atom *a = &atoms[i];
        const bool named = name && a->name && strcmp(a->name, name) == 0;
        int of = -1;
        if (a->kind == ATOM_ALL && name && weft__names_property(schema, a->schema, name))
            of = own_schema(schema, a->schema, name, false, &status);
        else if (a->kind == ATOM_ALL)
            of = weft__schema_at(schema, a->schema, "additionalProperties", false, &status);
        else if (named &&
                 (a->kind == ATOM_PROPERTY ||
                  (a->kind == ATOM_REQUIRED && weft__names_property(schema, a->schema, name))))
            of = own_schema(schema, a->schema, name, true, &status);
        else if (a->kind == ATOM_ADDITIONAL && named)
            of = weft__schema_at(schema, a->schema, "additionalProperties", true, &status);
        if (of >= 0) {
            forbidden |= is_false(schema, of);
            out[(*count)++] = of;
        }
        forbidden |= a->kind == ATOM_REQUIRED && named && of < 0;
        *required |=
            (a->kind == ATOM_ALL && name && weft__requires_property(schema, a->schema, name)) ||
            ((a->kind == ATOM_PROPERTY || a->kind == ATOM_ADDITIONAL) && named);
    }
    if (forbidden)
        *count = -1;
    return status;
}

/* A node without choices. */
static int nowhere(weft__schema *schema, weft_status *status)
{
    if (!schema->nothing) {
        schema->nothing = json_object_new_boolean(false);
        *status = weft__schema_own(schema, schema->nothing);
        if (*status) {
            schema->nothing = NULL;
            return SCHEMA_NO_NODE;
        }
    }
    const weft__json at = {.value = schema->nothing, .name = schema->doc.name};
    int signed_schema = 2 * weft__schema_number(schema, &at, status);
    return *status ? SCHEMA_NO_NODE : weft__schema_node(schema, &signed_schema, 1, status);
}

/* A key as JSON writes it between its quotes; NULL without memory. */
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
    size_t n, capacity;
    schema_choice *choice;
} filling;

/* A property that the atoms name; its node follows, once for each key. */
static weft_status add_name(void *context, const char *name)
{
    filling *f = context;
    schema_choice *c = f->choice;
    if (c->n_properties == f->capacity) {
        const size_t capacity = 2 * f->capacity + 8;
        schema_property *longer = weft_realloc(c->properties, capacity * sizeof *longer);
        if (!longer)
            return no_memory(f->schema);
        c->properties = longer;
        f->capacity = capacity;
    }
    char *key = write_key(name);
    if (!key)
        return no_memory(f->schema);
    c->properties[c->n_properties++] =
        (schema_property){.key = key, .length = strlen(key), .name = name};
    return WEFT_OK;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const schema_property *)a)->key, ((const schema_property *)b)->key);
}

static void drop_duplicates(schema_choice *c)
{
    size_t kept = 0;
    if (c->n_properties > 0)
        qsort(c->properties, c->n_properties, sizeof *c->properties, by_key);
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
    if (status)
        return status;
    if (count < 0 && p->required)
        c->types &= ~(unsigned)SCHEMA_OBJECT;
    p->node = count < 0 ? nowhere(schema, &status)
                        : weft__schema_node(schema, signed_schemas, (size_t)count, &status);
    return status;
}

static weft_status fill_additional(weft__schema *schema, const schema_atom *atoms, size_t n,
                                   schema_choice *c)
{
    int signed_schemas[EXPAND_MAX], count;
    bool required;
    weft_status status =
        weft__property_schemas(schema, atoms, n, NULL, signed_schemas, &count, &required);
    if (status)
        return status;
    if (count >= 0) {
        status = fill_blocks(schema, atoms, n, ATOM_ADDITIONAL, "additionalProperties",
                             signed_schemas, (size_t)count, &c->wanted, &c->n_wanted);
        if (!status)
            c->additional = weft__schema_node(schema, signed_schemas, (size_t)count, &status);
        return status;
    }
    for (size_t i = 0; i < n; i++)
        if (atoms[i].kind == ATOM_ADDITIONAL && atoms[i].block >= 0)
            c->types &= ~(unsigned)SCHEMA_OBJECT;
    return WEFT_OK;
}

weft_status weft__choice_object(weft__schema *schema, const schema_atom *atoms, size_t n,
                                schema_choice *c)
{
    filling f = {.schema = schema, .atoms = atoms, .n = n, .choice = c};
    weft_status status = weft__each_property(schema, atoms, n, add_name, &f);
    drop_duplicates(c);
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
    return status ? status : fill_additional(schema, atoms, n, c);
}
