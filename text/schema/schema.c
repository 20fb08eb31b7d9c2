/* text/schema/schema.c -- the places of a document: which schemas hold there, and between
 * which choices they leave it. */
#include "text/schema/schema.h"

#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "text/schema/keywords.h"
#include "text/schema/number.h"
#include "text/schema/object.h"
#include "text/schema/pointer.h"
#include "text/tokenizer/buffer.h"
#include "weft/memory.h"

enum { MAX_NODES = 20000, MAX_CHOICES = 20000, MAX_PENDING = 256, MAX_BRANCHES = 64 };

/* ---- schemas and nodes by number ------------------------------------------------------------ */

int weft__schema_number(weft__schema *schema, const weft__json *at, weft_status *status)
{
    for (size_t i = 0; i < schema->n_schemas; i++)
        if (schema->schemas[i].value == at->value)
            return (int)i;
    void *data = schema->schemas;
    *status = weft__bytes_grow(&data, &schema->schema_capacity, schema->n_schemas, 1,
                               sizeof *schema->schemas);
    schema->schemas = data;
    if (*status)
        return -1;
    schema->schemas[schema->n_schemas] = *at;
    return (int)schema->n_schemas++;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

int weft__schema_node(weft__schema *schema, int *schemas, size_t n, weft_status *status)
{
    qsort(schemas, n, sizeof *schemas, by_number);
    size_t unique = 0;
    for (size_t i = 0; i < n; i++)
        if (unique == 0 || schemas[unique - 1] != schemas[i])
            schemas[unique++] = schemas[i];
    for (size_t i = 0; i < schema->n_nodes; i++)
        if (schema->nodes[i].n_schemas == unique &&
            (unique == 0 ||
             memcmp(schema->nodes[i].schemas, schemas, unique * sizeof *schemas) == 0))
            return (int)i;
    if (schema->n_nodes >= MAX_NODES) {
        *status = weft_fail(WEFT_UNSUPPORTED, "%s: the schema has more than %d places",
                            schema->doc.name, (int)MAX_NODES);
        return SCHEMA_NO_NODE;
    }
    void *data = schema->nodes;
    *status =
        weft__bytes_grow(&data, &schema->node_capacity, schema->n_nodes, 1, sizeof *schema->nodes);
    schema->nodes = data;
    int *copy = *status ? NULL : weft_malloc((unique + 1) * sizeof *copy);
    if (!copy) {
        *status = weft__out_of_memory(schema->doc.name, "a schema");
        return SCHEMA_NO_NODE;
    }
    if (unique > 0)
        memcpy(copy, schemas, unique * sizeof *copy);
    schema->nodes[schema->n_nodes] = (schema_node){.schemas = copy, .n_schemas = unique};
    return (int)schema->n_nodes++;
}

/* ---- $ref ----------------------------------------------------------------------------------- */

/* Goes on with one step of a pointer; *at has no value where there is none. */
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
    return status ? status : weft__keywords_check(out);
}

/* ---- choices -------------------------------------------------------------------------------- */

/* A choice on its way: schemas that hold, and what is still to be looked at: schema numbers, and
 * the anyOf or oneOf of a schema, of which a branch is to be taken. */
typedef enum pending_kind { PENDING_SCHEMA, PENDING_ANY, PENDING_ONE } pending_kind;

typedef struct pending {
    pending_kind kind;
    int schema;
} pending;

typedef struct partial {
    int holds[MAX_PENDING];
    int n_holds;
    pending todo[MAX_PENDING];
    int n_todo;
    schema_tag tags[MAX_BRANCHES];
    int n_tags;
    int depth;
} partial;

static weft_status push(const weft__schema *schema, partial *p, pending_kind kind, int number)
{
    if (p->n_todo == MAX_PENDING)
        return weft__json_fail(&schema->schemas[number], WEFT_UNSUPPORTED,
                               "more than %d schemas hold at one place", (int)MAX_PENDING);
    p->todo[p->n_todo++] = (pending){kind, number};
    return WEFT_OK;
}

static weft_status push_reference(weft__schema *schema, partial *p, const weft__json *at)
{
    const char *reference = NULL;
    weft__json target;
    weft_status status = weft__json_find_string(at, "$ref", &reference);
    if (status || !reference)
        return status;
    status = follow(schema, at, reference, &target);
    const int number = status ? -1 : weft__schema_number(schema, &target, &status);
    return status ? status : push(schema, p, PENDING_SCHEMA, number);
}

static weft_status push_all_of(weft__schema *schema, partial *p, const weft__json *at)
{
    weft__json list, item;
    size_t n = 0;
    weft_status status = weft__json_find(at, "allOf", &list);
    if (!status && list.value)
        status = weft__json_length(&list, &n);
    for (size_t i = 0; i < n && !status; i++) {
        status = weft__json_at(&list, i, &item);
        const int number = status ? -1 : weft__schema_number(schema, &item, &status);
        if (!status)
            status = push(schema, p, PENDING_SCHEMA, number);
    }
    return status;
}

/* Takes a schema into the choice. *possible becomes false at the schema `false`. */
static weft_status take(weft__schema *schema, partial *p, int number, bool *possible)
{
    for (int i = 0; i < p->n_holds; i++)
        if (p->holds[i] == number)
            return WEFT_OK;
    const weft__json at = schema->schemas[number];
    if (json_object_is_type(at.value, json_type_boolean)) {
        *possible = json_object_get_boolean(at.value);
        return WEFT_OK;
    }
    weft_status status = weft__keywords_followed(&at);
    if (status)
        return status;
    if (p->n_holds == MAX_PENDING)
        return weft__json_fail(&at, WEFT_UNSUPPORTED, "more than %d schemas hold at one place",
                               (int)MAX_PENDING);
    p->holds[p->n_holds++] = number;
    if (json_object_object_get(at.value, "anyOf"))
        status = push(schema, p, PENDING_ANY, number);
    if (!status && json_object_object_get(at.value, "oneOf"))
        status = push(schema, p, PENDING_ONE, number);
    if (!status)
        status = push_reference(schema, p, &at);
    if (!status)
        status = push_all_of(schema, p, &at);
    return status;
}

static weft_status add_choice(weft__schema *schema, const partial *p)
{
    schema_choice choice = {0};
    bool possible = true;
    if (schema->n_choices >= MAX_CHOICES)
        return weft_fail(WEFT_UNSUPPORTED, "%s: the schema has more than %d choices",
                         schema->doc.name, (int)MAX_CHOICES);
    weft_status status =
        weft__choice_fill(schema, p->holds, (size_t)p->n_holds, &choice, &possible);
    if (!status && possible && p->n_tags > 0) {
        choice.tags = weft_malloc((size_t)p->n_tags * sizeof *choice.tags);
        if (choice.tags)
            memcpy(choice.tags, p->tags, (size_t)p->n_tags * sizeof *choice.tags);
        else
            status = weft__out_of_memory(schema->doc.name, "a schema");
        choice.n_tags = (size_t)p->n_tags;
    }
    if (!status && possible) {
        void *data = schema->choices;
        status =
            weft__bytes_grow(&data, &schema->choice_capacity, schema->n_choices, 1, sizeof choice);
        schema->choices = data;
    }
    if (status || !possible)
        weft__choice_release(&choice);
    else
        schema->choices[schema->n_choices++] = choice;
    return status;
}

static weft_status expand(weft__schema *schema, partial *p);

/* Goes on with each branch of an anyOf or oneOf. */
static weft_status branch(weft__schema *schema, const partial *p, pending from)
{
    const bool one = from.kind == PENDING_ONE;
    weft__json list, item;
    size_t n = 0;
    const weft__json at = schema->schemas[from.schema];
    weft_status status = weft__json_get(&at, one ? "oneOf" : "anyOf", &list);
    if (!status)
        status = weft__json_length(&list, &n);
    if (!status && (p->depth == MAX_BRANCHES || p->n_tags == MAX_BRANCHES))
        status = weft__json_fail(&list, WEFT_UNSUPPORTED, "choices within choices, over %d deep",
                                 (int)MAX_BRANCHES);
    partial *next = status ? NULL : weft_malloc(sizeof *next);
    if (!status && !next)
        status = weft__out_of_memory(schema->doc.name, "a schema");
    for (size_t i = 0; i < n && !status; i++) {
        *next = *p;
        next->depth++;
        if (one)
            next->tags[next->n_tags++] = (schema_tag){from.schema, (int)i};
        status = weft__json_at(&list, i, &item);
        const int number = status ? -1 : weft__schema_number(schema, &item, &status);
        if (!status)
            status = push(schema, next, PENDING_SCHEMA, number);
        if (!status)
            status = expand(schema, next);
    }
    weft_free(next);
    return status;
}

static weft_status expand(weft__schema *schema, partial *p)
{
    bool possible = true;
    while (p->n_todo > 0) {
        const pending next = p->todo[--p->n_todo];
        if (next.kind != PENDING_SCHEMA)
            return branch(schema, p, next);
        const weft_status status = take(schema, p, next.schema, &possible);
        if (status || !possible)
            return status;
    }
    return add_choice(schema, p);
}

static weft_status expand_node(weft__schema *schema, size_t number)
{
    partial *p = weft_calloc(1, sizeof *p);
    if (!p)
        return weft__out_of_memory(schema->doc.name, "a schema");
    weft_status status = WEFT_OK;
    const schema_node node = schema->nodes[number];
    for (size_t i = 0; i < node.n_schemas && !status; i++)
        status = push(schema, p, PENDING_SCHEMA, node.schemas[i]);
    const size_t first = schema->n_choices;
    if (!status)
        status = expand(schema, p);
    schema->nodes[number].first = first;
    schema->nodes[number].n_choices = schema->n_choices - first;
    weft_free(p);
    return status;
}

/* ---- the shortest values -------------------------------------------------------------------- */

static int64_t least_array(const weft__schema *schema, const schema_choice *c)
{
    if (c->min_items == 0)
        return 2;
    const int64_t item = schema->nodes[c->items].least;
    if (item >= SCHEMA_NEVER || c->min_items > SCHEMA_NEVER / (item + 1))
        return SCHEMA_NEVER;
    return 1 + c->min_items * (item + 1);
}

static int by_bytes(const void *a, const void *b)
{
    const schema_cost *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->property < y->property ? -1 : x->property > y->property;
}

static int64_t least_object(const weft__schema *schema, schema_choice *c)
{
    for (size_t i = 0; i < c->n_properties; i++)
        c->by_cost[i] = (schema_cost){weft__object_property(schema, &c->properties[i]), i};
    if (c->n_properties > 0)
        qsort(c->by_cost, c->n_properties, sizeof *c->by_cost, by_bytes);
    const object_state o = weft__object_start(schema, c);
    if (c->max_properties != SCHEMA_UNBOUNDED && o.required_left > c->max_properties)
        return SCHEMA_NEVER;
    const int64_t missing = weft__object_missing(schema, c, &o, 0);
    return missing >= SCHEMA_NEVER ? SCHEMA_NEVER : missing > 1 ? missing : 2;
}

static int64_t least_string(const schema_choice *c)
{
    return 2 + (c->pattern ? weft__pattern_distance(c->pattern, 0) : c->min_length);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void measure_choice(const weft__schema *schema, schema_choice *c)
{
    c->least = SCHEMA_NEVER;
    c->least_array = c->types & SCHEMA_ARRAY ? least_array(schema, c) : SCHEMA_NEVER;
    c->least_object = c->types & SCHEMA_OBJECT ? least_object(schema, c) : SCHEMA_NEVER;
    if (c->enumerated) {
        for (size_t i = 0; i < c->n_literals; i++)
            c->least = smaller(c->least, (int64_t)strlen(c->literals[i]));
        return;
    }
    c->least = smaller(c->least_array, c->least_object);
    if (c->types & (SCHEMA_NULL | SCHEMA_BOOLEAN))
        c->least = smaller(c->least, 4);
    if (c->types & (SCHEMA_INTEGER | SCHEMA_NUMBER))
        c->least = smaller(c->least, weft__number_least(c));
    if (c->types & SCHEMA_STRING)
        c->least = smaller(c->least, least_string(c));
}

weft_status weft__schema_measure(weft__schema *schema)
{
    for (size_t i = 0; i < schema->n_nodes; i++)
        schema->nodes[i].least = SCHEMA_NEVER;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = schema->n_nodes; i-- > 0;) {
            schema_node *node = &schema->nodes[i];
            int64_t least = SCHEMA_NEVER;
            for (size_t j = 0; j < node->n_choices; j++) {
                measure_choice(schema, &schema->choices[node->first + j]);
                least = smaller(least, schema->choices[node->first + j].least);
            }
            changed |= least < node->least;
            node->least = smaller(least, node->least);
        }
    }
    if (schema->nodes[0].least >= SCHEMA_NEVER)
        return weft_fail(WEFT_INVALID, "%s: no value satisfies the schema", schema->doc.name);
    return WEFT_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

weft_status weft__schema_parse(const char *text, size_t length, const char *name, weft__schema *out)
{
    *out = (weft__schema){0};
    weft_status status = weft__json_parse(text, length, name, &out->doc);
    if (status)
        return status;
    const weft__json root = weft__json_root(&out->doc);
    status = weft__keywords_check(&root);
    int number = status ? -1 : weft__schema_number(out, &root, &status);
    if (!status)
        weft__schema_node(out, &number, 1, &status);
    for (size_t i = 0; i < out->n_nodes && !status; i++)
        status = expand_node(out, i);
    if (!status)
        status = weft__schema_measure(out);
    if (status)
        weft__schema_release(out);
    return status;
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
    weft_free(choice->tags);
    weft__pattern_free(choice->pattern);
    *choice = (schema_choice){0};
}

void weft__schema_release(weft__schema *schema)
{
    for (size_t i = 0; i < schema->n_choices; i++)
        weft__choice_release(&schema->choices[i]);
    for (size_t i = 0; i < schema->n_nodes; i++)
        weft_free(schema->nodes[i].schemas);
    weft_free(schema->choices);
    weft_free(schema->nodes);
    weft_free(schema->schemas);
    weft__json_free(&schema->doc);
    *schema = (weft__schema){0};
}
