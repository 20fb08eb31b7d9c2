/* text/schema/closing.c -- which properties of an object are declared, in which order, and whether
 * an object may have others.
 *
 * A schema without additionalProperties allows any other property. Few authors mean that, and small
 * models then copy the schema. So an object that is generated has only declared properties,
 * provided that the schema says nothing about others: they are in `properties` of the schema and of
 * the $ref, allOf and branches that hold with it.
 */
#include <json-c/linkhash.h>
#include <string.h>

#include "text/schema/expand.h"

/* Visits the schemas of atoms in the order of the document. */
typedef struct tour {
    const weft__schema *schema;
    const schema_atom *atoms;
    size_t n;
    bool visited[EXPAND_MAX]; /* by atom */
    weft_status (*take)(void *context, const char *name);
    void *context;
    weft_status status;
} tour;

static void visit(tour *t, const json_object *value);

static void visit_member(tour *t, const char *keyword, json_object *member, int reference)
{
    if (strcmp(keyword, "properties") == 0) {
        json_object_object_foreach(member, name, value)
        {
            (void)value;
            if (!t->status)
                t->status = t->take(t->context, name);
        }
    } else if (strcmp(keyword, "$ref") == 0 && reference >= 0) {
        visit(t, t->schema->schemas[reference].at.value);
    } else if (json_object_is_type(member, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(member); i++)
            visit(t, json_object_array_get_idx(member, i));
    } else if (json_object_is_type(member, json_type_object)) {
        visit(t, member);
    }
}

/* Visits a value if it is a schema that holds and has not been visited. */
static void visit(tour *t, const json_object *value)
{
    const int number = weft__schema_find(t->schema, value);
    size_t i = 0;
    while (i < t->n && (t->atoms[i].kind != ATOM_ALL || t->atoms[i].schema != number))
        i++;
    if (number < 0 || i == t->n || t->visited[i])
        return;
    t->visited[i] = true;
    const schema_entry *entry = &t->schema->schemas[number];
    json_object_object_foreach(entry->at.value, keyword, member)
    {
        visit_member(t, keyword, member, entry->reference);
    }
}

weft_status weft__each_declared(const weft__schema *schema, const schema_atom *atoms, size_t n,
                                weft_status (*take)(void *context, const char *name), void *context)
{
    tour t = {.schema = schema, .atoms = atoms, .n = n, .take = take, .context = context};
    for (size_t i = 0; i < n; i++)
        if (atoms[i].kind == ATOM_ALL)
            visit(&t, schema->schemas[atoms[i].schema].at.value);
    return t.status;
}

/* Whether the schemas that hold have `properties` and no keyword about other properties. */
static bool only_declare(const weft__schema *schema, const schema_atom *atoms, size_t n)
{
    static const char *const others[] = {"additionalProperties", "patternProperties",
                                         "propertyNames"};
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        json_object *at = schema->schemas[atoms[i].schema].at.value;
        if (atoms[i].kind != ATOM_ALL)
            continue;
        any |= json_object_object_get_ex(at, "properties", NULL);
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            if (json_object_object_get_ex(at, others[k], NULL))
                return false;
    }
    return any;
}

bool weft__is_closed(const weft__schema *schema, const schema_atom *atoms, size_t n,
                     const schema_choice *c, int32_t declared)
{
    int64_t possible = 0;
    if (schema->open || !only_declare(schema, atoms, n))
        return false;
    for (size_t i = 0; i < c->n_properties; i++) {
        const schema_property *p = &c->properties[i];
        if (p->required && p->order >= declared)
            return false;
        possible += p->order < declared && p->node != SCHEMA_NO_NODE;
    }
    return c->min_properties <= possible;
}
