/* text/schema/expand.c -- expands a node into choices: every consistent combination of branches. */
#include <json-c/linkhash.h>
#include <string.h>

#include "core/failure.h"
#include "core/hash.h"
#include "core/list.h"
#include "text/schema/expand.h"
#include "text/schema/keywords.h"
#include "weft/memory.h"

enum {
    MAX_CHOICES = 1 << 18,
    MAX_OF_NODE = 1024,   /* limit of choices per node */
    MAX_WORK = 1 << 20,   /* limit of schemas taken into combinations */
    PROBE_WORK = 2000,    /* the same for a probe */
    APART_WORK = 1 << 16, /* the same for a probe of all ways to tell two branches apart */
    PROBE_DEPTH = 3
};

/* A partial combination: the conditions taken so far, and the schemas still to process. */
typedef struct partial {
    int taken[EXPAND_MAX]; /* signed schemas */
    int n_taken;
    schema_atom atoms[EXPAND_MAX];
    int n_atoms;
    int n_checked;        /* atoms that allow the properties they require */
    int todo[EXPAND_MAX]; /* signed schemas */
    int n_todo;
    branch branches[EXPAND_MAX];
    int n_branches;
} partial;

typedef struct expansion {
    weft__schema *schema;
    size_t first;          /* index of the node's first choice */
    schema_index known;    /* hashes of the atoms of its choices */
    literal_list literals; /* its literals, which together form one choice */
    /* a probe makes no choices, it only finds out whether there may be one */
    bool probing, found;
    int depth, *fuel;
} expansion;

static weft_status expand(expansion *e, partial *p);

static weft_status too_many(const weft__schema *schema, int number)
{
    return weft__json_fail(&schema->schemas[number].at, WEFT_UNSUPPORTED,
                           "more than %d schemas hold at one place", (int)EXPAND_MAX);
}

static weft_status push(const weft__schema *schema, partial *p, int signed_schema)
{
    if (p->n_todo == EXPAND_MAX)
        return too_many(schema, signed_schema / 2);
    p->todo[p->n_todo++] = signed_schema;
    return WEFT_OK;
}

/* ---- whether schemas can match together ------------------------------------------------------ */

/* *possible becomes false when no value matches all of n signed schemas, and what `base` (NULL:
 * nothing) has taken. */
static weft_status probe(weft__schema *schema, const partial *base, const int *signed_schemas,
                         int n, int depth, int *fuel, bool *possible)
{
    expansion e = {.schema = schema, .probing = true, .depth = depth, .fuel = fuel};
    partial *p = weft_calloc(1, sizeof *p);
    weft_status status = p ? WEFT_OK : weft__out_of_memory(schema->doc.name, "a schema");
    if (!status && base)
        *p = *base;
    for (int i = n; i-- > 0 && !status;)
        status = push(schema, p, signed_schemas[i]);
    if (!status)
        status = expand(&e, p);
    weft_free(p);
    if (!status && !e.found)
        *possible = false;
    return status;
}

/* Whether the properties that a combination requires can exist. */
typedef struct children {
    expansion *e;
    partial *p;
    bool possible;
} children;

static weft_status check_child(void *context, const char *name)
{
    children *c = context;
    expansion *e = c->e;
    int schemas[EXPAND_MAX], count, fuel = PROBE_WORK;
    bool required;
    if (!c->possible)
        return WEFT_OK;
    weft_status status = weft__property_schemas(e->schema, c->p->atoms, (size_t)c->p->n_atoms, name,
                                                schemas, &count, &required);
    if (status || !required)
        return status;
    if (count < 0)
        c->possible = false;
    else if (count > 1)
        status = probe(e->schema, NULL, schemas, count, (e->probing ? e->depth : PROBE_DEPTH) - 1,
                       e->probing ? e->fuel : &fuel, &c->possible);
    return status;
}

/* Properties that only atoms checked before mention are not checked again. */
static weft_status check_properties(children *c)
{
    partial *p = c->p;
    bool all = false;
    weft_status status = WEFT_OK;
    for (int i = p->n_checked; i < p->n_atoms; i++)
        all |= p->atoms[i].kind == ATOM_ALL;
    if (all)
        status = weft__each_property(c->e->schema, p->atoms, (size_t)p->n_atoms, check_child, c);
    for (int i = p->n_checked; i < p->n_atoms && !all && !status; i++)
        if (p->atoms[i].name)
            status = check_child(c, p->atoms[i].name);
    p->n_checked = p->n_atoms;
    return status;
}

/* *possible becomes false when no string matches all of several patterns. */
static weft_status check_patterns(const weft__schema *schema, const partial *p,
                                  schema_choice *outline, bool *possible)
{
    int n = 0;
    for (int i = 0; i < p->n_atoms; i++) {
        json_object *at = schema->schemas[p->atoms[i].schema].at.value;
        const atom_kind kind = p->atoms[i].kind;
        n += kind == ATOM_PATTERN || kind == ATOM_NOT_ENUM || kind == ATOM_NOT_CONST;
        n += kind == ATOM_ALL && json_object_object_get(at, "pattern");
        n += kind == ATOM_ALL && json_object_object_get(at, "format");
    }
    if (n < 2)
        return WEFT_OK;
    const weft_status status = weft__choice_pattern(schema, p->atoms, (size_t)p->n_atoms, outline);
    *possible = outline->types != 0;
    weft__choice_release(outline);
    /* Too many states are an error only if the strings must be generated. */
    return status == WEFT_UNSUPPORTED ? WEFT_OK : status;
}

/* *possible becomes false when the atoms obviously contradict each other. */
static weft_status check_atoms(expansion *e, partial *p, bool *possible)
{
    schema_choice outline;
    const weft_status status =
        weft__choice_outline(e->schema, p->atoms, (size_t)p->n_atoms, &outline);
    if (status)
        return status;
    *possible = outline.types != 0;
    if (outline.types == SCHEMA_STRING && (p->n_branches > 0 || e->probing))
        return check_patterns(e->schema, p, &outline, possible);
    if (outline.types != SCHEMA_OBJECT || (e->probing && e->depth <= 0))
        return WEFT_OK;
    children c = {.e = e, .p = p, .possible = true};
    const weft_status checked = check_properties(&c);
    *possible = c.possible;
    return checked;
}

/* Whether no value matches both of two schemas; the result is cached. */
static weft_status disjoint(weft__schema *schema, int x, int y, bool *out)
{
    const int a = x < y ? x : y, b = x < y ? y : x;
    const uint64_t hash = weft__mix((uint64_t)a, (uint64_t)b);
    size_t probing = 0;
    int32_t i;
    while ((i = weft__index_next(&schema->pair_index, hash, &probing)) >= 0)
        if (schema->pairs[i].a == a && schema->pairs[i].b == b) {
            *out = schema->pairs[i].disjoint;
            return WEFT_OK;
        }
    bool possible = true;
    int fuel = PROBE_WORK;
    weft_status status =
        probe(schema, NULL, (int[]){2 * a, 2 * b}, 2, PROBE_DEPTH, &fuel, &possible);
    if (!status && !weft__list_more(schema->pairs, schema->n_pairs))
        status = weft__out_of_memory(schema->doc.name, "a schema");
    if (!status)
        status = weft__index_add(&schema->pair_index, hash, (int32_t)schema->n_pairs);
    if (!status)
        schema->pairs[schema->n_pairs++] = (schema_pair){a, b, !possible};
    *out = !possible;
    return status;
}

/* ---- taking schemas -------------------------------------------------------------------------- */

static weft_status add_branch(const weft__schema *schema, partial *p, branch of)
{
    if (p->n_branches == EXPAND_MAX)
        return too_many(schema, of.schema);
    p->branches[p->n_branches++] = of;
    return WEFT_OK;
}

/* Adds a branch for each property that others depend on. */
static weft_status add_dependent(weft__schema *schema, partial *p, int number)
{
    static const char *const keywords[] = {"dependentRequired", "dependentSchemas", "dependencies"};
    weft_status status = WEFT_OK;
    for (int i = 0; i < 3; i++) {
        json_object *map = json_object_object_get(schema->schemas[number].at.value, keywords[i]);
        if (!map)
            continue;
        json_object_object_foreach(map, name, value)
        {
            (void)value;
            if (!status)
                status = add_branch(schema, p,
                                    (branch){.kind = BRANCH_DEPENDENT,
                                             .schema = number,
                                             .keyword = keywords[i],
                                             .name = name});
        }
    }
    return status;
}

static weft_status add_atom(const weft__schema *schema, partial *p, schema_atom atom)
{
    if (p->n_atoms == EXPAND_MAX)
        return too_many(schema, atom.schema);
    p->atoms[p->n_atoms++] = atom;
    return WEFT_OK;
}

/* Adds all schemas of a list, or their negations. */
static weft_status push_list(weft__schema *schema, partial *p, int number, const char *keyword,
                             bool negated)
{
    json_object *list = json_object_object_get(schema->schemas[number].at.value, keyword);
    weft_status status = WEFT_OK;
    for (size_t i = list ? json_object_array_length(list) : 0; i-- > 0 && !status;) {
        const int of = weft__schema_in(schema, number, keyword, NULL, i, negated, &status);
        if (!status)
            status = push(schema, p, of);
    }
    return status;
}

/* Takes a schema that must match. */
static weft_status take_matching(weft__schema *schema, partial *p, int number)
{
    static const struct {
        const char *keyword;
        branch_kind kind;
    } branching[] = {{"anyOf", BRANCH_ANY},
                     {"oneOf", BRANCH_ONE},
                     {"if", BRANCH_IF},
                     {"contains", BRANCH_CONTAINS}};
    weft_status status =
        add_atom(schema, p, (schema_atom){.kind = ATOM_ALL, .schema = number, .block = -1});
    for (size_t i = 0; i < sizeof branching / sizeof *branching && !status; i++)
        if (json_object_object_get(schema->schemas[number].at.value, branching[i].keyword))
            status = add_branch(schema, p, (branch){.kind = branching[i].kind, .schema = number});
    if (!status)
        status = add_dependent(schema, p, number);
    if (!status)
        status = push_list(schema, p, number, "allOf", false);
    const int outside = status ? -1 : weft__schema_at(schema, number, "not", true, &status);
    if (!status && outside >= 0)
        status = push(schema, p, outside);
    const int target = status ? -1 : weft__schema_reference(schema, number, &status);
    return !status && target >= 0 ? push(schema, p, 2 * target) : status;
}

/* Takes a signed schema into the combination. *possible becomes false if it cannot match. */
static weft_status take(expansion *e, partial *p, int signed_schema, bool *possible)
{
    weft__schema *schema = e->schema;
    const int number = signed_schema / 2;
    const weft__json at = schema->schemas[number].at;
    for (int i = 0; i < p->n_taken; i++) {
        if (p->taken[i] == signed_schema)
            return WEFT_OK;
        if (p->taken[i] == (signed_schema ^ 1))
            *possible = false;
    }
    if (json_object_is_type(at.value, json_type_boolean)) {
        *possible &= json_object_get_boolean(at.value) != signed_schema % 2;
        return WEFT_OK;
    }
    if (!*possible)
        return WEFT_OK;
    weft_status status = weft__keywords_followed(&at, &schema->notes);
    if (!status && p->n_taken == EXPAND_MAX)
        status = too_many(schema, number);
    if (!status && schema->work++ >= MAX_WORK)
        status = weft_fail(WEFT_UNSUPPORTED, "%s: the schema combines too many alternatives",
                           schema->doc.name);
    if (status)
        return status;
    p->taken[p->n_taken++] = signed_schema;
    return signed_schema % 2
               ? add_branch(schema, p, (branch){.kind = BRANCH_VIOLATED, .schema = number})
               : take_matching(schema, p, number);
}

/* ---- complete combinations ------------------------------------------------------------------- */

/* Independent of the order of the atoms. */
static uint64_t hash_atoms(const partial *p)
{
    uint64_t sum = (uint64_t)p->n_atoms;
    for (int i = 0; i < p->n_atoms; i++) {
        const schema_atom *a = &p->atoms[i];
        uint64_t hash = weft__mix(0, (uint64_t)a->kind << 32 | (uint32_t)a->schema);
        hash = weft__mix(hash, (uint64_t)(uint32_t)a->index << 32 | (uint32_t)a->block);
        for (const char *at = a->name; at && *at; at++)
            hash = weft__mix(hash, (unsigned char)*at);
        sum += weft__mix(hash, a->name != NULL);
    }
    return sum;
}

/* Adds a choice, which it takes over. */
static weft_status add_choice(expansion *e, schema_choice *choice)
{
    weft__schema *schema = e->schema;
    weft_status status = WEFT_OK;
    if (schema->n_choices >= MAX_CHOICES)
        status = weft_fail(WEFT_UNSUPPORTED, "%s: the schema has more than %d choices",
                           schema->doc.name, (int)MAX_CHOICES);
    else if (schema->n_choices - e->first >= MAX_OF_NODE)
        status = weft_fail(WEFT_UNSUPPORTED, "%s: a place in the schema has more than %d choices",
                           schema->doc.name, (int)MAX_OF_NODE);
    else if (!weft__list_more(schema->choices, schema->n_choices))
        status = weft__out_of_memory(schema->doc.name, "a schema");
    if (status)
        weft__choice_release(choice);
    else
        schema->choices[schema->n_choices++] = *choice;
    return status;
}

/* Makes a choice from a complete combination. */
static weft_status add_combination(expansion *e, const partial *p)
{
    schema_choice choice = {0};
    bool possible = true;
    if (e->probing) {
        e->found = true;
        return WEFT_OK;
    }
    const uint64_t hash = hash_atoms(p);
    size_t probing = 0;
    if (weft__index_next(&e->known, hash, &probing) >= 0)
        return WEFT_OK;
    weft_status status = weft__index_add(&e->known, hash, 0);
    if (!status)
        status = weft__choice_fill(e->schema, p->atoms, (size_t)p->n_atoms, &choice, &possible);
    if (!status && possible)
        return add_choice(e, &choice);
    weft__choice_release(&choice);
    return status;
}

/* Adds the literals of `source` that match everything taken so far. */
static weft_status add_literals(expansion *e, const partial *p, int source)
{
    bool any = false;
    const weft_status status = weft__find_literals(e->schema, source, p->taken, (size_t)p->n_taken,
                                                   e->probing ? NULL : &e->literals, &any);
    e->found |= e->probing && any;
    return status;
}

/* ---- elements that match contains ------------------------------------------------------------ */

static weft_status assign(expansion *e, partial *p, int from, int blocks);

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
    for (int i = 0; i < longest && !status; i++) {
        atom->index = i;
        if (in_order(p, from))
            status = assign(e, p, from + 1, blocks);
    }
    atom->index = -1;
    return status;
}

/* Continues with each way to choose the elements that match contains: each a particular element of
 * the prefix, or an unspecified one shared by a block of atoms. There are `blocks` blocks. */
static weft_status assign(expansion *e, partial *p, int from, int blocks)
{
    weft_status status = WEFT_OK;
    while (from < p->n_atoms && p->atoms[from].kind != ATOM_CONTAINS)
        from++;
    if (from == p->n_atoms)
        return add_combination(e, p);
    schema_atom *atom = &p->atoms[from];
    for (int b = 0; b <= blocks && !status; b++) {
        if (b == EXPAND_BLOCKS)
            return weft_fail(WEFT_UNSUPPORTED,
                             "%s: more than %d elements of an array match contains",
                             e->schema->doc.name, (int)EXPAND_BLOCKS);
        atom->block = b;
        if (in_order(p, from))
            status = assign(e, p, from + 1, b == blocks ? blocks + 1 : blocks);
    }
    atom->block = -1;
    return status ? status : place_in_prefix(e, p, from, blocks);
}

/* ---- combinations ---------------------------------------------------------------------------- */

static weft_status apply(expansion *e, partial *p, int number, const alternative *a)
{
    weft_status status = WEFT_OK;
    const int times = a->times > 0 ? a->times : a->atom.kind != ATOM_ALL;
    for (int i = 0; i < times && !status; i++)
        status = add_atom(e->schema, p, a->atom);
    if (!status && a->rest)
        status =
            add_atom(e->schema, p,
                     (schema_atom){.kind = ATOM_REST, .schema = number, .index = -1, .block = -1});
    for (size_t i = 0; a->names && i < json_object_array_length(a->names) && !status; i++) {
        schema_atom of = a->atom;
        of.name = json_object_get_string(json_object_array_get_idx(a->names, i));
        status = add_atom(e->schema, p, of);
    }
    if (!status && a->list)
        status = push_list(e->schema, p, number, a->list, true);
    for (int i = 0; i < a->n && !status; i++)
        status = push(e->schema, p, a->signed_schemas[i]);
    return status;
}

/* ---- oneOf ----------------------------------------------------------------------------------- */

/* Adds what distinguishes branch `chosen` of oneOf from the schema. `base` is the combination
 * before the branch was chosen; it has no branches. */
static weft_status tell_apart(weft__schema *schema, partial *base, partial *p, branch from)
{
    const weft__json *chosen = &schema->schemas[from.chosen].at;
    bool any = true;
    base->branches[base->n_branches++] = from;
    const weft_status status =
        probe(schema, base, &(int){2 * from.chosen}, 1, PROBE_DEPTH, &(int){APART_WORK}, &any);
    base->n_branches--;
    if (!status && !any)
        return weft__json_fail(&schema->schemas[from.schema].at, WEFT_UNSUPPORTED,
                               "a value can match this and %s: branches of oneOf need different "
                               "types, values or required properties",
                               chosen->path);
    return status ? status : add_branch(schema, p, from);
}

/* Excludes the values that match another branch of oneOf, too. */
static weft_status exclude(weft__schema *schema, partial *base, partial *p, int chosen, int other)
{
    bool apart = false, possible = true;
    weft_status status = disjoint(schema, chosen, other, &apart);
    if (!status && !apart)
        status = probe(schema, base, (int[]){2 * chosen, 2 * other}, 2, PROBE_DEPTH,
                       &(int){PROBE_WORK}, &possible);
    if (status || apart || !possible)
        return status;
    const int resolved = weft__schema_resolve(schema, 2 * other, &status) / 2;
    if (status)
        return status;
    return schema->open || weft__is_plain(schema->schemas[resolved].at.value)
               ? push(schema, p, 2 * other + 1)
               : tell_apart(schema, base, p,
                            (branch){.kind = BRANCH_APART, .schema = other, .chosen = chosen});
}

/* A branch that lists its values excludes nothing: add_literals() checks the values one by one. */
static weft_status exclude_others(weft__schema *schema, partial *base, partial *p, int number,
                                  size_t only)
{
    json_object *branches = json_object_object_get(schema->schemas[number].at.value, "oneOf");
    weft_status status = WEFT_OK;
    const int chosen = weft__schema_in(schema, number, "oneOf", NULL, only, false, &status);
    const int resolved = status ? 0 : weft__schema_resolve(schema, chosen, &status) / 2;
    if (status || weft__lists_values(schema->schemas[resolved].at.value))
        return status;
    for (size_t i = 0; i < json_object_array_length(branches) && !status; i++) {
        const int other = weft__schema_in(schema, number, "oneOf", NULL, i, false, &status);
        if (!status && other != chosen)
            status = exclude(schema, base, p, chosen / 2, other / 2);
    }
    return status;
}

static weft_status follow_branch(expansion *e, const partial *p, branch from)
{
    weft__schema *schema = e->schema;
    alternative_list list = {0};
    const bool one = from.kind == BRANCH_ONE && !e->probing;
    weft_status status = weft__alternatives(schema, &from, &list);
    partial *next = status ? NULL : weft_malloc(2 * sizeof *next); /* and without branches */
    if (!status && !next)
        status = weft__out_of_memory(schema->doc.name, "a schema");
    if (!status && one) {
        next[1] = *p;
        next[1].n_branches = next[1].n_taken = 0;
    }
    for (size_t i = 0; i < list.n && !status && !e->found; i++) {
        *next = *p;
        status = apply(e, next, from.schema, &list.at[i]);
        if (!status && one)
            status = exclude_others(schema, &next[1], next, from.schema, i);
        if (!status)
            status = expand(e, next);
    }
    weft_free(next);
    weft_free(list.at);
    return status;
}

/* A taken schema that lists its values; -1: none. */
static int find_literals(const weft__schema *schema, const partial *p)
{
    for (int i = 0; i < p->n_taken; i++)
        if (p->taken[i] % 2 == 0 && weft__lists_values(schema->schemas[p->taken[i] / 2].at.value))
            return p->taken[i] / 2;
    return -1;
}

static weft_status expand(expansion *e, partial *p)
{
    bool possible = true;
    weft_status status = WEFT_OK;
    while (p->n_todo > 0 && possible && !status) {
        if (e->probing && --*e->fuel <= 0) {
            e->found = true;
            return WEFT_OK;
        }
        status = take(e, p, p->todo[--p->n_todo], &possible);
    }
    if (status || !possible)
        return status;
    const int literals = find_literals(e->schema, p);
    if (literals >= 0)
        return add_literals(e, p, literals);
    status = check_atoms(e, p, &possible);
    if (status || !possible)
        return status;
    if (p->n_branches > 0) {
        const branch next = p->branches[--p->n_branches];
        return follow_branch(e, p, next);
    }
    return e->probing ? add_combination(e, p) : assign(e, p, 0, 0);
}

weft_status weft__expand_node(weft__schema *schema, size_t number)
{
    const schema_node node = schema->nodes[number];
    expansion e = {.schema = schema, .first = schema->n_choices};
    partial *p = weft_calloc(1, sizeof *p);
    if (!p)
        return weft__out_of_memory(schema->doc.name, "a schema");
    weft_status status = WEFT_OK;
    for (size_t i = node.n_schemas; i-- > 0 && !status;)
        status = push(schema, p, node.schemas[i]);
    if (!status)
        status = expand(&e, p);
    schema_choice literals = weft__choice_of_literals(&e.literals);
    if (!status && literals.n_literals > 0)
        status = add_choice(&e, &literals);
    else
        weft__choice_release(&literals);
    weft__index_release(&e.known);
    weft_free(p);
    schema->nodes[number].first = e.first;
    schema->nodes[number].n_choices = schema->n_choices - e.first;
    return status;
}
