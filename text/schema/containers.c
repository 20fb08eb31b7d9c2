/* text/schema/containers.c -- arrays and objects. While a value is read, the container's frame
 * below it has the state for after that value. */
#include <string.h>

#include "text/schema/machine.h"

enum array_phase {
    OPEN, /* after the opening bracket */
    NEXT, /* after a comma */
    AFTER /* after a value */
};

/* ---- arrays --------------------------------------------------------------------------------- */

/* The fewest bytes to the end of an array, between elements. */
static int64_t array_rest(const machine *m, const frame *f)
{
    const array_state *a = &f->as.array;
    const int64_t missing =
        weft__array_missing(m->schema, &m->schema->choices[f->choice], a, f->phase == NEXT ? 1 : 0);
    if (missing >= SCHEMA_NEVER)
        return SCHEMA_NEVER;
    /* The comma has been read, or the first element has none. */
    return f->phase == NEXT || (f->phase == OPEN && missing > 1) ? missing - 1 : missing;
}

static const frame *push_array(machine *m, frame f, unsigned char phase)
{
    f.phase = phase;
    f.rest = array_rest(m, &f);
    return weft__machine_push(m, f);
}

void weft__array_begin(machine *m, int choice, const frame *parent)
{
    const frame f = {.kind = FRAME_ARRAY, .choice = choice, .parent = parent};
    weft__machine_emit(m, push_array(m, f, OPEN));
}

bool weft__array_is_distinct(const machine *m, const frame *f)
{
    return f->kind == FRAME_ARRAY && m->schema->choices[f->choice].distinct;
}

bool weft__array_has(const frame *f, uint64_t mark)
{
    for (int64_t i = 0; i + 1 < f->as.array.count; i++)
        if (f->as.array.marks[i] == mark)
            return true;
    return false;
}

const frame *weft__array_mark(machine *m, const frame *f, uint64_t mark)
{
    frame with = *f;
    with.as.array.marks[f->as.array.count - 1] = mark;
    return push_array(m, with, f->phase);
}

/* Begins an element that is one of a few distinct values. */
static void unique_begin(machine *m, frame f, unsigned char byte)
{
    const schema_choice *c = &m->schema->choices[f.choice];
    const uint64_t used = f.as.array.used;
    f.as.array.count++;
    for (size_t i = 0; i < c->n_unique; i++) {
        if (used >> i & 1 || (unsigned char)c->unique[i][0] != byte)
            continue;
        f.as.array.used = used | (uint64_t)1 << i;
        const frame *below = push_array(m, f, AFTER);
        if (below)
            weft__machine_literal(m, f.choice, (const char *const *)&c->unique[i], 1, byte, below);
    }
}

/* Begins an element: the next one, or one of those wanted. */
static void element_begin(machine *m, frame f, unsigned char byte)
{
    const schema_choice *c = &m->schema->choices[f.choice];
    if (c->unique) {
        unique_begin(m, f, byte);
        return;
    }
    const int64_t count = f.as.array.count++;
    const uint32_t found = f.as.array.found;
    const frame *below = push_array(m, f, AFTER);
    if (below)
        weft__machine_value(m, weft__array_node(c, count), byte, below);
    for (size_t i = 0; i < c->n_wanted_items && count >= (int64_t)c->n_prefix; i++) {
        if (found >> i & 1)
            continue;
        f.as.array.found = found | (uint32_t)1 << i;
        below = push_array(m, f, AFTER);
        if (below)
            weft__machine_value(m, c->wanted_items[i], byte, below);
    }
}

void weft__array_step(machine *m, const frame *top, unsigned char byte)
{
    frame f = *top;
    if (weft__machine_blank(&f, byte)) {
        weft__machine_emit(m, push_array(m, f, f.phase));
        return;
    }
    f.blank = 0;
    if (byte == ']') {
        if (top->phase != NEXT && weft__array_missing(m->schema, &m->schema->choices[top->choice],
                                                      &top->as.array, 0) == 1)
            weft__machine_complete(m, top->parent);
    } else if (top->phase != AFTER) {
        element_begin(m, f, byte);
    } else if (byte == ',') {
        weft__machine_emit(m, push_array(m, f, NEXT));
    }
}

/* ---- objects ----------------------------------------------------------------------------------
 */

static const frame *push_object(machine *m, frame f, unsigned char phase, int64_t rest)
{
    f.phase = phase;
    f.rest = rest;
    return weft__machine_push(m, f);
}

/* The fewest bytes to the end of an object, between properties. */
static int64_t rest_of(const machine *m, const frame *f)
{
    const schema_choice *c = &m->schema->choices[f->choice];
    const object_part *o = &f->as.object;
    if (f->phase == OBJECT_COLON || f->phase == OBJECT_VALUE)
        return (f->phase == OBJECT_COLON) + weft__node_least(m->schema, o->node) +
               weft__object_missing(m->schema, c, &o->state, 0);
    const int64_t missing =
        weft__object_missing(m->schema, c, &o->state, f->phase == OBJECT_NEXT ? 1 : 0);
    if (missing >= SCHEMA_NEVER)
        return SCHEMA_NEVER;
    /* The comma has been read, or the first property has none. */
    return f->phase == OBJECT_NEXT || (f->phase == OBJECT_OPEN && missing > 1) ? missing - 1
                                                                               : missing;
}

void weft__object_begin(machine *m, int choice, const frame *parent)
{
    const schema_choice *c = &m->schema->choices[choice];
    if (c->least_object >= SCHEMA_NEVER)
        return;
    frame f = {.kind = FRAME_OBJECT, .choice = choice, .parent = parent, .phase = OBJECT_OPEN};
    object_part *o = &f.as.object;
    const size_t words = weft__seen_words(c);
    uint64_t *bits = weft__machine_allocate(m, words * sizeof *bits);
    if (!bits)
        return;
    memset(bits, 0, words * sizeof *bits);
    o->state = weft__object_start(m->schema, c);
    o->state.seen = bits;
    weft__machine_emit(m, push_object(m, f, OBJECT_OPEN, rest_of(m, &f)));
}

void weft__object_step(machine *m, const frame *top, unsigned char byte)
{
    const schema_choice *c = &m->schema->choices[top->choice];
    frame f = *top;
    const object_part *o = &f.as.object;
    if (top->phase == OBJECT_KEY || top->phase == OBJECT_FREE) {
        (top->phase == OBJECT_KEY ? weft__key_step : weft__free_key_step)(m, top, byte);
        return;
    }
    if (top->phase != OBJECT_COLON && weft__machine_blank(&f, byte)) {
        weft__machine_emit(m, push_object(m, f, f.phase, rest_of(m, &f)));
        return;
    }
    f.blank = 0;
    if (top->phase == OBJECT_COLON) {
        f.phase = OBJECT_VALUE;
        if (byte == ':')
            weft__machine_emit(m, push_object(m, f, OBJECT_VALUE, rest_of(m, &f)));
    } else if (top->phase == OBJECT_VALUE) {
        const frame *below =
            push_object(m, f, OBJECT_AFTER, weft__object_missing(m->schema, c, &o->state, 0));
        if (below)
            weft__machine_value(m, o->node, byte, below);
    } else if (byte == '}') {
        if (top->phase != OBJECT_NEXT && o->state.required_left == 0 &&
            o->state.count >= c->min_properties)
            weft__machine_complete(m, top->parent);
    } else if (byte == '"' && top->phase != OBJECT_AFTER) {
        weft__key_begin(m, top);
    } else if (byte == ',' && top->phase == OBJECT_AFTER &&
               weft__object_may_add_any(m->schema, c, &o->state)) {
        f.phase = OBJECT_NEXT;
        weft__machine_emit(m, push_object(m, f, OBJECT_NEXT, rest_of(m, &f)));
    }
}
