/* text/schema/containers.c -- arrays and objects. The frame of one waits below its values in
 * the form that it will have behind them. */
#include <string.h>

#include "text/schema/machine.h"

enum array_phase {
    OPEN, /* behind the opening bracket */
    NEXT, /* behind a comma */
    AFTER /* behind a value */
};

static int64_t least_of(const machine *m, int node)
{
    return node == SCHEMA_NO_NODE ? SCHEMA_NEVER : m->schema->nodes[node].least;
}

/* ---- arrays --------------------------------------------------------------------------------- */

/* Bytes to the end of an array: elements that are missing with their commas, the bracket. */
static int64_t array_missing(const machine *m, const schema_choice *c, unsigned char phase,
                             int64_t count)
{
    int64_t elements = c->min_items - count;
    if (phase == NEXT && elements < 1)
        elements = 1;
    if (elements <= 0)
        return 1;
    const int64_t each = least_of(m, c->items) + 1;
    if (each > SCHEMA_NEVER || elements > SCHEMA_NEVER / each)
        return SCHEMA_NEVER;
    return elements * each + 1 - (phase != AFTER);
}

static const frame *push_array(machine *m, frame f, unsigned char phase, int64_t count)
{
    f.phase = phase;
    f.as.count = count;
    f.rest = array_missing(m, &m->schema->choices[f.choice], phase, count);
    return weft__machine_push(m, f);
}

void weft__array_begin(machine *m, int choice, const frame *parent)
{
    const frame f = {.kind = FRAME_ARRAY, .choice = choice, .parent = parent};
    weft__machine_emit(m, push_array(m, f, OPEN, 0));
}

void weft__array_step(machine *m, const frame *top, unsigned char byte)
{
    const schema_choice *c = &m->schema->choices[top->choice];
    const int64_t count = top->as.count;
    const bool room = c->max_items == SCHEMA_UNBOUNDED || count < c->max_items;
    frame f = *top;
    if (weft__machine_blank(&f.blank, byte)) {
        weft__machine_emit(m, push_array(m, f, f.phase, count));
        return;
    }
    f.blank = 0;
    if (byte == ']') {
        if (top->phase != NEXT && count >= c->min_items)
            weft__machine_complete(m, top->parent);
    } else if (top->phase == AFTER) {
        if (byte == ',' && room && least_of(m, c->items) < SCHEMA_NEVER)
            weft__machine_emit(m, push_array(m, f, NEXT, count));
    } else if (room) {
        const frame *below = push_array(m, f, AFTER, count + 1);
        if (below)
            weft__machine_value(m, c->items, byte, below);
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

/* Bytes to the end of an object between its keys and values. */
static int64_t rest_of(const machine *m, const frame *f)
{
    const schema_choice *c = &m->schema->choices[f->choice];
    const object_part *o = &f->as.object;
    if (f->phase == OBJECT_COLON || f->phase == OBJECT_VALUE)
        return (f->phase == OBJECT_COLON) + least_of(m, o->node) +
               weft__object_missing(m->schema, c, &o->state, 0);
    if (f->phase == OBJECT_NEXT)
        return weft__object_missing(m->schema, c, &o->state, 1) - 1;
    const int64_t missing = weft__object_missing(m->schema, c, &o->state, 0);
    return missing > 1 && f->phase == OBJECT_OPEN ? missing - 1 : missing;
}

void weft__object_begin(machine *m, int choice, const frame *parent)
{
    const schema_choice *c = &m->schema->choices[choice];
    if (c->least_object >= SCHEMA_NEVER)
        return;
    frame f = {.kind = FRAME_OBJECT, .choice = choice, .parent = parent, .phase = OBJECT_OPEN};
    object_part *o = &f.as.object;
    const size_t words = (c->n_properties + 63) / 64;
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
    if (top->phase != OBJECT_COLON && weft__machine_blank(&f.blank, byte)) {
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
