/* text/schema/assign.c -- chooses which elements and properties violate items and
 * additionalProperties, or match contains. */
#include "text/schema/assign.h"

#include <string.h>

static weft_status assign(expansion *e, partial *p, int from, int blocks);

typedef struct naming {
    expansion *e;
    partial *p;
    int atom, blocks;
} naming;

static bool excludes_all(const weft__schema *schema, int number)
{
    json_object *more =
        json_object_object_get(schema->schemas[number].at.value, "additionalProperties");
    return json_object_is_type(more, json_type_boolean) && !json_object_get_boolean(more);
}

/* Whether an atom can be about the property. */
static weft_status may_violate(weft__schema *schema, const schema_atom *atom, const char *name,
                               bool *out)
{
    if (atom->kind == ATOM_PATTERN_PROPERTY)
        return weft__key_matches(schema, atom->schema, atom->pattern, name, out);
    const weft_status status = weft__covers_property(schema, atom->schema, name, out);
    *out = !*out;
    return status;
}

/* Continues with a named property that violates additionalProperties. It also violates those of
 * other schemas that exclude it regardless of its value. */
static weft_status name_violator(void *context, const char *name)
{
    naming *n = context;
    partial *p = n->p;
    weft__schema *schema = n->e->schema;
    bool named[EXPAND_MAX], fits = false;
    weft_status status = may_violate(schema, &p->atoms[n->atom], name, &fits);
    if (status || !fits)
        return status;
    for (int i = n->atom; i < p->n_atoms && !status; i++) {
        const schema_atom *atom = &p->atoms[i];
        named[i] = i == n->atom;
        if (!named[i] && atom->kind == ATOM_ADDITIONAL && !atom->name && atom->block < 0 &&
            excludes_all(schema, atom->schema))
            status = may_violate(schema, atom, name, &named[i]);
        if (named[i])
            p->atoms[i].name = name;
    }
    int schemas[EXPAND_MAX], count;
    bool required;
    if (!status)
        status = weft__property_schemas(schema, p->atoms, (size_t)p->n_atoms, name, schemas, &count,
                                        &required);
    if (!status && count >= 0) /* the others allow it */
        status = assign(n->e, p, n->atom + 1, n->blocks);
    for (int i = n->atom; i < p->n_atoms; i++)
        if (named[i])
            p->atoms[i].name = NULL;
    return status;
}

/* The index of the element of an atom, if chosen; -1: not chosen. */
static int rank_of(const schema_atom *atom)
{
    return atom->block >= 0 ? atom->block : atom->index >= 0 ? EXPAND_BLOCKS + atom->index : -1;
}

/* Whether the elements chosen for one `contains` are distinct and in order. */
static bool in_order(const partial *p, int which)
{
    for (int i = 0; i < which; i++)
        if (p->atoms[i].kind == ATOM_CONTAINS && p->atoms[i].schema == p->atoms[which].schema &&
            rank_of(&p->atoms[i]) >= rank_of(&p->atoms[which]))
            return false;
    return true;
}

static bool is_of_property(const schema_atom *atom)
{
    return atom->kind == ATOM_ADDITIONAL || atom->kind == ATOM_PATTERN_PROPERTY;
}

static bool is_placed(const schema_atom *atom)
{
    return (atom->kind != ATOM_ITEMS && atom->kind != ATOM_CONTAINS && !is_of_property(atom)) ||
           atom->name;
}

/* Continues with each element of the prefix as that of an atom. */
static weft_status place_in_prefix(expansion *e, partial *p, int from, int blocks)
{
    schema_atom *atom = &p->atoms[from];
    weft_status status = WEFT_OK;
    int longest = 0;
    for (int i = 0; i < p->n_atoms; i++) {
        const int length = weft__prefix_length(e->schema, p->atoms[i].schema);
        longest = length > longest ? length : longest;
    }
    /* `items` does not apply to the schema's own prefix. */
    int i = atom->kind == ATOM_ITEMS ? weft__prefix_length(e->schema, atom->schema) : 0;
    for (; i < longest && !status; i++) {
        atom->index = i;
        if (atom->kind == ATOM_ITEMS || in_order(p, from))
            status = assign(e, p, from + 1, blocks);
    }
    atom->index = -1;
    return status;
}

static weft_status too_many_blocks(const weft__schema *schema)
{
    return weft_fail(WEFT_UNSUPPORTED, "%s: the schema excludes too many alternatives",
                     schema->doc.name);
}

/* Continues with each block for an atom about an element. */
static weft_status place_element(expansion *e, partial *p, int from, int blocks)
{
    schema_atom *atom = &p->atoms[from];
    weft_status status = WEFT_OK;
    for (int b = 0; b <= blocks && !status; b++) {
        if (b == EXPAND_BLOCKS)
            return too_many_blocks(e->schema);
        atom->block = b;
        if (atom->kind != ATOM_CONTAINS || in_order(p, from))
            status = assign(e, p, from + 1, b == blocks ? blocks + 1 : blocks);
    }
    atom->block = -1;
    return status ? status : place_in_prefix(e, p, from, blocks);
}

/* The mask of a block's key; false: the block is empty so far. */
static bool mask_of_block(const partial *p, int block, unsigned *mask)
{
    for (int i = 0; i < p->n_atoms; i++)
        if (is_of_property(&p->atoms[i]) && p->atoms[i].block == block) {
            *mask = p->atoms[i].mask;
            return true;
        }
    return false;
}

/* Continues with each block for an atom about an unnamed property, and with each set of patterns
 * that its key may match. */
static weft_status place_key(expansion *e, partial *p, int from, int blocks)
{
    schema_atom *atom = &p->atoms[from];
    const char *patterns[SCHEMA_KEY_PATTERNS] = {NULL};
    size_t n = 0;
    weft_status status = weft__key_patterns(e->schema, p->atoms, (size_t)p->n_atoms, patterns, &n);
    const unsigned own = status ? 0 : weft__key_mask(e->schema, atom->schema, patterns, n);
    unsigned wanted = 0, known = 0;
    for (size_t k = 0; k < n && atom->pattern; k++)
        wanted |= (unsigned)(strcmp(patterns[k], atom->pattern) == 0) << k;
    for (int b = 0; b <= blocks && !status; b++) {
        if (b == EXPAND_BLOCKS)
            return too_many_blocks(e->schema);
        const bool begun = mask_of_block(p, b, &known);
        for (unsigned mask = 0; mask < 1u << n && !status; mask++) {
            const bool fits = atom->pattern ? (mask & wanted) != 0 : (mask & own) == 0;
            if (!fits || (begun && mask != known))
                continue;
            atom->block = b;
            atom->mask = mask;
            status = assign(e, p, from + 1, b == blocks ? blocks + 1 : blocks);
            atom->block = -1;
            atom->mask = 0;
        }
    }
    naming with = {.e = e, .p = p, .atom = from, .blocks = blocks};
    return status
               ? status
               : weft__each_property(e->schema, p->atoms, (size_t)p->n_atoms, name_violator, &with);
}

/* Continues with each way to choose what violates items, additionalProperties and patternProperties
 * and what matches contains: a particular element or named property, or an unspecified one shared
 * by a block of atoms. There are `blocks` blocks. */
static weft_status assign(expansion *e, partial *p, int from, int blocks)
{
    while (from < p->n_atoms && is_placed(&p->atoms[from]))
        from++;
    if (from == p->n_atoms)
        return weft__expansion_add(e, p);
    return (is_of_property(&p->atoms[from]) ? place_key : place_element)(e, p, from, blocks);
}

weft_status weft__expansion_assign(expansion *e, partial *p)
{
    return assign(e, p, 0, 0);
}
