/* text/schema/schema.c -- registers a document's schemas and nodes, and resolves references. */
#include "text/schema/schema.h"

#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/hash.h"
#include "core/list.h"
#include "text/schema/expand.h"
#include "text/schema/keywords.h"
#include "text/schema/pointer.h"
#include "weft/memory.h"

enum { MAX_NODES = 1 << 18, MAX_REFERENCES = 1000, UNKNOWN = -2 };

/* ---- schemas and nodes by number ------------------------------------------------------------ */

static uint64_t hash_value(const json_object *value)
{
    return weft__mix(0, (uint64_t)(uintptr_t)value);
}

int weft__schema_find(const weft__schema *schema, const json_object *value)
{
    size_t probe = 0;
    int32_t i;
    while ((i = weft__index_next(&schema->numbers, hash_value(value), &probe)) >= 0)
        if (schema->schemas[i].at.value == value)
            return i;
    return -1;
}

/* The names in `required` as keys, so that looking one up does not take time in proportion to their
 * number. */
static weft_status index_required(const weft__json *at, json_object **out)
{
    json_object *list = json_object_object_get(at->value, "required");
    *out = list ? json_object_new_object() : NULL;
    bool made = !list || *out;
    for (size_t i = 0; list && made && i < json_object_array_length(list); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(list, i));
        made = json_object_object_add(*out, name, NULL) == 0;
    }
    return made ? WEFT_OK : weft__out_of_memory(at->name, "a schema");
}

int weft__schema_number(weft__schema *schema, const weft__json *at, weft_status *status)
{
    const int known = weft__schema_find(schema, at->value);
    if (known >= 0)
        return known;
    if (!weft__list_more(schema->schemas, schema->n_schemas))
        *status = weft__out_of_memory(at->name, "a schema");
    else
        *status =
            weft__index_add(&schema->numbers, hash_value(at->value), (int32_t)schema->n_schemas);
    if (*status)
        return -1;
    schema_entry *entry = &schema->schemas[schema->n_schemas++];
    *entry = (schema_entry){.at = *at, .reference = UNKNOWN};
    *status = index_required(at, &entry->required);
    return *status ? -1 : (int)schema->n_schemas - 1;
}

/* Whether a schema consists only of its $ref. */
static bool only_refers(const weft__schema *schema, int number)
{
    json_object *value = schema->schemas[number].at.value;
    if (!json_object_is_type(value, json_type_object) || !json_object_object_get(value, "$ref"))
        return false;
    json_object_object_foreach(value, key, member)
    {
        (void)member;
        if (strcmp(key, "$ref") != 0 && !weft__keyword_is_annotation(key))
            return false;
    }
    return true;
}

/* Resolving makes the nodes of several references to one schema equal. */
int weft__schema_resolve(weft__schema *schema, int signed_schema, weft_status *status)
{
    int number = signed_schema / 2;
    for (int i = 0; i < MAX_REFERENCES && !*status && only_refers(schema, number); i++) {
        *status = weft__keywords_followed(&schema->schemas[number].at, &schema->notes);
        if (!*status)
            number = weft__schema_reference(schema, number, status);
    }
    return *status ? signed_schema : 2 * number + signed_schema % 2;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static int find_node(const weft__schema *schema, const int *schemas, size_t n, uint64_t *hash)
{
    size_t probe = 0;
    int32_t i;
    *hash = n;
    for (size_t k = 0; k < n; k++)
        *hash = weft__mix(*hash, (uint64_t)schemas[k]);
    while ((i = weft__index_next(&schema->node_index, *hash, &probe)) >= 0)
        if (schema->nodes[i].n_schemas == n &&
            (n == 0 || memcmp(schema->nodes[i].schemas, schemas, n * sizeof *schemas) == 0))
            return i;
    return -1;
}

int weft__schema_node(weft__schema *schema, int *schemas, size_t n, weft_status *status)
{
    for (size_t i = 0; i < n && !*status; i++)
        schemas[i] = weft__schema_resolve(schema, schemas[i], status);
    if (*status)
        return SCHEMA_NO_NODE;
    qsort(schemas, n, sizeof *schemas, by_number);
    size_t unique = 0;
    for (size_t i = 0; i < n; i++)
        if (unique == 0 || schemas[unique - 1] != schemas[i])
            schemas[unique++] = schemas[i];
    uint64_t hash;
    const int known = find_node(schema, schemas, unique, &hash);
    if (known >= 0)
        return known;
    if (schema->n_nodes >= MAX_NODES) {
        *status = weft_fail(WEFT_UNSUPPORTED, "%s: the schema has more than %d places",
                            schema->doc.name, (int)MAX_NODES);
        return SCHEMA_NO_NODE;
    }
    int *copy = weft__list_more(schema->nodes, schema->n_nodes)
                    ? weft_malloc((unique + 1) * sizeof *copy)
                    : NULL;
    if (!copy || weft__index_add(&schema->node_index, hash, (int32_t)schema->n_nodes)) {
        weft_free(copy);
        *status = weft__out_of_memory(schema->doc.name, "a schema");
        return SCHEMA_NO_NODE;
    }
    if (unique > 0)
        memcpy(copy, schemas, unique * sizeof *copy);
    schema->nodes[schema->n_nodes] = (schema_node){.schemas = copy, .n_schemas = unique};
    return (int)schema->n_nodes++;
}

/* ---- $ref ----------------------------------------------------------------------------------- */

/* Follows one step of a pointer; *at has no value if the step does not exist. */
static weft_status go_to(weft__json *at, const char *step)
{
    const weft__json from = *at;
    size_t index = 0;
    at->value = NULL;
    if (json_object_is_type(from.value, json_type_object))
        return weft__json_find(&from, step, at);
    if (json_object_is_type(from.value, json_type_array) && weft__pointer_index(step, &index) &&
        index < json_object_array_length(from.value))
        return weft__json_at(&from, index, at);
    return WEFT_OK;
}

static weft_status follow(const weft__schema *schema, const weft__json *from, const char *reference,
                          weft__json *out)
{
    if (reference[0] != '#' || (reference[1] && reference[1] != '/'))
        return weft__json_fail(from, WEFT_UNSUPPORTED,
                               "$ref \"%s\": only references within the schema are supported",
                               weft_printable(reference));
    char *step = weft_malloc(strlen(reference) + 1);
    if (!step)
        return weft__out_of_memory(from->name, "a schema");
    *out = weft__json_root(&schema->doc);
    weft_status status = WEFT_OK;
    for (const char *at = reference + 1; *at == '/' && out->value && !status;) {
        at++;
        if (weft__pointer_step(&at, step))
            status = go_to(out, step);
        else
            out->value = NULL;
    }
    weft_free(step);
    if (!status && !out->value)
        status = weft__json_fail(from, WEFT_INVALID, "$ref \"%s\": there is nothing",
                                 weft_printable(reference));
    /* Registered only after its keywords have been checked. */
    if (status || weft__schema_find(schema, out->value) >= 0)
        return status;
    return weft__keywords_check(out);
}

int weft__schema_reference(weft__schema *schema, int number, weft_status *status)
{
    if (schema->schemas[number].reference != UNKNOWN)
        return schema->schemas[number].reference;
    const weft__json at = schema->schemas[number].at;
    const char *reference = NULL;
    weft__json target;
    int out = SCHEMA_NO_NODE;
    *status = weft__json_find_string(&at, "$ref", &reference);
    if (!*status && reference)
        *status = follow(schema, &at, reference, &target);
    if (!*status && reference)
        out = weft__schema_number(schema, &target, status);
    if (!*status)
        schema->schemas[number].reference = out;
    return *status ? -1 : out;
}

/* ---- parsing --------------------------------------------------------------------------------- */

static weft_status prepare(const char *text, size_t length, const char *name, bool open,
                           weft__schema *out)
{
    *out = (weft__schema){.open = open};
    weft_status status = weft__schema_read(text, length, name, &out->doc);
    const weft__json root = weft__json_root(&out->doc);
    if (!status)
        status = weft__checker_new(root.value, &out->checker);
    int number = status ? -1 : 2 * weft__schema_number(out, &root, &status);
    if (!status)
        weft__schema_node(out, &number, 1, &status);
    for (size_t i = 0; i < out->n_nodes && !status; i++)
        status = weft__expand_node(out, i);
    if (!status)
        status = weft__schema_unique(out);
    if (!status)
        weft__schema_measure(out);
    if (status)
        weft__schema_release(out);
    return status;
}

weft_status weft__schema_parse(const char *text, size_t length, const char *name, bool open,
                               weft__schema *out)
{
    const weft_status status = prepare(text, length, name, open, out);
    if (status || out->nodes[0].least < SCHEMA_NEVER)
        return status;
    weft__schema_release(out);
    if (!open) /* some object needs a property that is not declared */
        return weft__schema_parse(text, length, name, true, out);
    return weft_fail(WEFT_INVALID, "%s: no value satisfies the schema", name);
}

void weft__choice_release(schema_choice *choice)
{
    for (size_t i = 0; i < choice->n_properties; i++)
        weft_free(choice->properties[i].key);
    for (size_t i = 0; i < choice->n_literals; i++)
        weft_free(choice->literals[i]);
    weft_free(choice->properties);
    weft_free(choice->by_cost);
    weft_free(choice->literals);
    for (size_t i = 0; i < choice->n_unique; i++)
        weft_free(choice->unique[i]);
    weft_free(choice->unique);
    weft_free(choice->prefix);
    weft_free(choice->wanted_items);
    for (size_t i = 0; i < choice->n_keys; i++)
        weft__keys_release(&choice->keys[i]);
    weft_free(choice->keys);
    weft__pattern_free(choice->pattern);
    weft_free(choice->multiples);
    *choice = (schema_choice){0};
}

void weft__schema_release(weft__schema *schema)
{
    for (size_t i = 0; i < schema->n_choices; i++)
        weft__choice_release(&schema->choices[i]);
    for (size_t i = 0; i < schema->n_nodes; i++)
        weft_free(schema->nodes[i].schemas);
    for (size_t i = 0; i < schema->n_schemas; i++)
        json_object_put(schema->schemas[i].required);
    weft_free(schema->notes.at);
    weft_free(schema->choices);
    weft_free(schema->nodes);
    weft_free(schema->schemas);
    weft_free(schema->pairs);
    weft__index_release(&schema->numbers);
    weft__index_release(&schema->pair_index);
    weft__index_release(&schema->node_index);
    weft__checker_free(schema->checker);
    weft__json_free(&schema->doc);
    *schema = (weft__schema){0};
}
