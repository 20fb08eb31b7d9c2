/* text/schema/measure.c -- computes the shortest values of nodes and choices. */
#include <stdlib.h>
#include <string.h>

#include "core/math.h"
#include "text/schema/array.h"
#include "text/schema/number.h"
#include "text/schema/object.h"

static int64_t least_array(const weft__schema *schema, const schema_choice *c)
{
    const array_state a = {0};
    const int64_t missing = weft__array_missing(schema, c, &a, 0);
    return missing >= SCHEMA_NEVER ? SCHEMA_NEVER : missing > 1 ? missing : 2;
}

static int by_bytes(const void *a, const void *b)
{
    const schema_cost *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void sort_by_cost(const weft__schema *schema, schema_choice *c)
{
    for (size_t i = 0; i < c->n_properties; i++) {
        const schema_property *p = &c->properties[i];
        const int64_t bytes = p->required ? SCHEMA_NEVER : weft__object_property(schema, p);
        c->by_cost[i] = (schema_cost){weft__smaller(bytes, SCHEMA_NEVER), p->order, i};
    }
    if (c->n_properties > 0)
        qsort(c->by_cost, c->n_properties, sizeof *c->by_cost, by_bytes);
    for (size_t i = 0; i < c->n_properties; i++)
        c->properties[c->by_cost[i].property].rank = i;
}

static int64_t least_object(const weft__schema *schema, schema_choice *c)
{
    sort_by_cost(schema, c);
    const object_state o = weft__object_start(schema, c);
    const int64_t missing = weft__object_missing(schema, c, &o, 0);
    return missing >= SCHEMA_NEVER ? SCHEMA_NEVER : missing > 1 ? missing : 2;
}

static int64_t least_string(const schema_choice *c)
{
    return 2 + (c->pattern ? weft__pattern_distance(c->pattern, 0, c->max_length) : c->min_length);
}

static void measure_choice(const weft__schema *schema, schema_choice *c)
{
    c->least = SCHEMA_NEVER;
    c->least_array = c->types & SCHEMA_ARRAY ? least_array(schema, c) : SCHEMA_NEVER;
    c->least_object = c->types & SCHEMA_OBJECT ? least_object(schema, c) : SCHEMA_NEVER;
    if (c->enumerated) {
        for (size_t i = 0; i < c->n_literals; i++)
            c->least = weft__smaller(c->least, (int64_t)strlen(c->literals[i]));
        return;
    }
    c->least = weft__smaller(c->least_array, c->least_object);
    if (c->types & SCHEMA_FALSE)
        c->least = weft__smaller(c->least, 5);
    if (c->types & (SCHEMA_NULL | SCHEMA_TRUE))
        c->least = weft__smaller(c->least, 4);
    if (c->types & (SCHEMA_INTEGER | SCHEMA_NUMBER))
        c->least = weft__smaller(c->least, weft__number_least(c));
    if (c->types & SCHEMA_STRING)
        c->least = weft__smaller(c->least, least_string(c));
}

void weft__schema_measure(weft__schema *schema)
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
                least = weft__smaller(least, schema->choices[node->first + j].least);
            }
            changed |= least < node->least;
            node->least = weft__smaller(least, node->least);
        }
    }
}
