/* text/schema/choice.c -- combines atoms to a choice: types, bounds, literals. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "core/list.h"
#include "text/schema/decimal.h"
#include "text/schema/expand.h"
#include "text/schema/format.h"
#include "text/schema/number.h"
#include "weft/memory.h"

/* ---- types, numbers, lengths ----------------------------------------------------------------- */

static weft_status type_bit(const weft__json *at, unsigned *bits)
{
    static const struct {
        const char *name;
        unsigned bits;
    } names[] = {{"null", SCHEMA_NULL},       {"boolean", SCHEMA_BOOLEAN},
                 {"integer", SCHEMA_INTEGER}, {"number", SCHEMA_INTEGER | SCHEMA_NUMBER},
                 {"string", SCHEMA_STRING},   {"array", SCHEMA_ARRAY},
                 {"object", SCHEMA_OBJECT}};
    const char *name = NULL;
    const weft_status status = weft__json_as_string(at, &name, NULL);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0) {
            *bits |= names[i].bits;
            return WEFT_OK;
        }
    return weft__json_fail(at, WEFT_INVALID, "\"%s\" is no type of JSON Schema",
                           weft_printable(name));
}

/* The types that a schema allows. */
static weft_status find_types(const weft__json *at, unsigned *bits)
{
    weft__json types, item;
    size_t n = 0;
    *bits = SCHEMA_ANY;
    weft_status status = weft__json_find(at, "type", &types);
    if (status || !types.value)
        return status;
    *bits = 0;
    if (!json_object_is_type(types.value, json_type_array))
        return type_bit(&types, bits);
    status = weft__json_length(&types, &n);
    for (size_t i = 0; i < n && !status; i++) {
        status = weft__json_at(&types, i, &item);
        if (!status)
            status = type_bit(&item, bits);
    }
    return status;
}

static void at_least(schema_choice *c, double value, bool above)
{
    if (value > c->minimum)
        c->minimum = value, c->above = above;
    else if (value == c->minimum)
        c->above |= above;
}

static void at_most(schema_choice *c, double value, bool below)
{
    if (value < c->maximum)
        c->maximum = value, c->below = below;
    else if (value == c->maximum)
        c->below |= below;
}

static weft_status take_range(const weft__json *at, schema_choice *c)
{
    double minimum = -INFINITY, maximum = INFINITY, above = -INFINITY, below = INFINITY;
    const char *format = "";
    weft_status status = weft__json_find_string(at, "format", &format);
    if (!status)
        status = weft__json_find_number(at, "minimum", &minimum);
    if (!status)
        status = weft__json_find_number(at, "maximum", &maximum);
    if (!status)
        status = weft__json_find_number(at, "exclusiveMinimum", &above);
    if (!status)
        status = weft__json_find_number(at, "exclusiveMaximum", &below);
    if (status)
        return status;
    const weft__format_bounds *range = weft__format_range(format);
    if (range) {
        at_least(c, range->least, false);
        at_most(c, range->most, false);
    }
    at_least(c, minimum, false);
    at_most(c, maximum, false);
    if (above > -INFINITY)
        at_least(c, above, true);
    if (below < INFINITY)
        at_most(c, below, true);
    return WEFT_OK;
}

static weft_status check_range(const weft__json *at, const schema_choice *c)
{
    if ((c->minimum > -INFINITY && fabs(c->minimum) > 1e15) ||
        (c->maximum < INFINITY && fabs(c->maximum) > 1e15))
        return weft__json_fail(at, WEFT_UNSUPPORTED, "bounds of numbers beyond 1e15");
    return WEFT_OK;
}

static void count_at_least(int64_t *least, int64_t value)
{
    if (value > *least)
        *least = value;
}

static void count_at_most(int64_t *most, int64_t value)
{
    if (*most == SCHEMA_UNBOUNDED || value < *most)
        *most = value;
}

/* No document has more than SCHEMA_NEVER of anything; the limit prevents overflow of sums. */
static int64_t limited(int64_t count)
{
    return count < SCHEMA_NEVER ? count : SCHEMA_NEVER;
}

static weft_status take_count(const weft__json *at, const char *min_key, const char *max_key,
                              int64_t *least, int64_t *most)
{
    int64_t min = 0, max = SCHEMA_UNBOUNDED;
    weft_status status = weft__json_find_int(at, min_key, &min);
    if (!status)
        status = weft__json_find_int(at, max_key, &max);
    if (status)
        return status;
    count_at_least(least, limited(min));
    if (max != SCHEMA_UNBOUNDED)
        count_at_most(most, limited(max));
    return WEFT_OK;
}

static weft_status take_matching(const weft__json *at, schema_choice *c)
{
    unsigned types;
    weft_status status = find_types(at, &types);
    c->types &= types;
    if (!status)
        status = take_range(at, c);
    if (!status)
        status = take_count(at, "minLength", "maxLength", &c->min_length, &c->max_length);
    if (!status)
        status = take_count(at, "minItems", "maxItems", &c->min_items, &c->max_items);
    if (!status)
        status = take_count(at, "minProperties", "maxProperties", &c->min_properties,
                            &c->max_properties);
    return status;
}

/* ---- violated keywords ----------------------------------------------------------------------- */

/* The types that a violated keyword applies to. */
static unsigned types_of(atom_kind kind)
{
    static const unsigned types[] = {
        [ATOM_PATTERN] = SCHEMA_STRING,
        [ATOM_FORMAT] = SCHEMA_STRING,
        [ATOM_STRINGS] = SCHEMA_ANY,
        [ATOM_PREFIX_ITEM] = SCHEMA_ARRAY,
        [ATOM_CONTAINS] = SCHEMA_ARRAY,
        [ATOM_REST] = SCHEMA_ARRAY,
        [ATOM_NO_ARRAY] = SCHEMA_ANY & ~SCHEMA_ARRAY,
        [ATOM_REQUIRED] = SCHEMA_OBJECT,
        [ATOM_PROPERTY] = SCHEMA_OBJECT,
    };
    return types[kind];
}

static bool crossed(int64_t least, int64_t most)
{
    return most != SCHEMA_UNBOUNDED && least > most;
}

weft_status weft__choice_outline(const weft__schema *schema, const schema_atom *atoms, size_t n,
                                 schema_choice *out)
{
    *out = (schema_choice){.types = SCHEMA_ANY,
                           .minimum = -INFINITY,
                           .maximum = INFINITY,
                           .max_length = SCHEMA_UNBOUNDED,
                           .max_items = SCHEMA_UNBOUNDED,
                           .max_properties = SCHEMA_UNBOUNDED,
                           .items = SCHEMA_NO_NODE,
                           .unique_of = -1};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && !status; i++) {
        const weft__json at = schema->schemas[atoms[i].schema].at;
        unsigned types = 0;
        if (atoms[i].kind == ATOM_ALL) {
            status = take_matching(&at, out);
        } else if (atoms[i].kind == ATOM_TYPE) {
            status = find_types(&at, &types);
            out->types &= ~types;
        } else {
            out->types &= types_of(atoms[i].kind);
        }
        if (!status)
            status = check_range(&at, out);
    }
    if (out->minimum > out->maximum || (out->minimum == out->maximum && (out->above || out->below)))
        out->types &= ~(unsigned)(SCHEMA_INTEGER | SCHEMA_NUMBER);
    if (crossed(out->min_length, out->max_length))
        out->types &= ~(unsigned)SCHEMA_STRING;
    if (crossed(out->min_items, out->max_items))
        out->types &= ~(unsigned)SCHEMA_ARRAY;
    if (crossed(out->min_properties, out->max_properties))
        out->types &= ~(unsigned)SCHEMA_OBJECT;
    return status;
}

/* ---- enum and const -------------------------------------------------------------------------- */

/* Whether a value matches all of n signed schemas. */
static weft_status matches_all(const weft__schema *schema, const int *signed_schemas, size_t n,
                               json_object *value, bool *out)
{
    weft_status status = WEFT_OK;
    *out = true;
    for (size_t i = 0; i < n && *out && !status; i++) {
        bool matches = false;
        status = weft__checker_matches(
            schema->checker, schema->schemas[signed_schemas[i] / 2].at.value, value, &matches);
        *out = matches != signed_schemas[i] % 2;
    }
    return status;
}

static weft_status add_literal(const weft__schema *schema, json_object *value, literal_list *out)
{
    if (!weft__list_more(out->at, out->n))
        return weft__out_of_memory(schema->doc.name, "a schema");
    out->at[out->n] = weft_strdup(json_object_to_json_string_ext(
        value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    if (!out->at[out->n])
        return weft__out_of_memory(schema->doc.name, "a schema");
    out->n++;
    return WEFT_OK;
}

weft_status weft__find_literals(weft__schema *schema, int source, const int *signed_schemas,
                                size_t n, literal_list *out, bool *any)
{
    json_object *list = NULL, *constant = NULL, *at = schema->schemas[source].at.value;
    const bool one = json_object_object_get_ex(at, "const", &constant);
    weft_status status = WEFT_OK;
    *any = false;
    if (!one)
        json_object_object_get_ex(at, "enum", &list);
    const size_t count = one ? 1 : json_object_array_length(list);
    for (size_t i = 0; i < count && !status && (out || !*any); i++) {
        json_object *value = one ? constant : json_object_array_get_idx(list, i);
        bool fits = false;
        status = matches_all(schema, signed_schemas, n, value, &fits);
        if (!status && fits && out)
            status = add_literal(schema, value, out);
        *any |= fits;
    }
    return status;
}

schema_choice weft__choice_of_literals(literal_list *list)
{
    size_t kept = 0;
    if (list->n > 0)
        qsort(list->at, list->n, sizeof *list->at, weft__by_text);
    for (size_t i = 0; i < list->n; i++) {
        if (kept > 0 && strcmp(list->at[kept - 1], list->at[i]) == 0)
            weft_free(list->at[i]);
        else
            list->at[kept++] = list->at[i];
    }
    const schema_choice out = {.enumerated = true,
                               .items = SCHEMA_NO_NODE,
                               .unique_of = -1,
                               .literals = list->at,
                               .n_literals = kept};
    *list = (literal_list){0};
    return out;
}

/* ---- multiples -------------------------------------------------------------------------------
 */

static weft_status add_multiple(const weft__json *at, schema_multiples *out)
{
    weft__json number;
    weft__decimal of;
    weft_status status = weft__json_get(at, "multipleOf", &number);
    if (status)
        return status;
    if (!weft__decimal_of(number.value, &of))
        return weft__json_fail(&number, WEFT_UNSUPPORTED,
                               "multiples of numbers with more than %d digits",
                               (int)WEFT__DECIMAL_DIGITS);
    for (int places = 0; places < SCHEMA_PLACES; places++)
        out->step[places] =
            weft__common_multiple(out->step[places], weft__decimal_step(of, places));
    return WEFT_OK;
}

/* Applies multipleOf; removes the number types if no number is left. */
static weft_status choice_multiples(const weft__schema *schema, const schema_atom *atoms, size_t n,
                                    schema_choice *c)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && !status; i++) {
        const weft__json *at = &schema->schemas[atoms[i].schema].at;
        if (atoms[i].kind != ATOM_ALL || !json_object_object_get(at->value, "multipleOf"))
            continue;
        if (!c->multiples) {
            c->multiples = weft_calloc(1, sizeof *c->multiples);
            if (!c->multiples)
                return weft__out_of_memory(schema->doc.name, "a schema");
            for (int places = 0; places < SCHEMA_PLACES; places++)
                c->multiples->step[places] = 1;
        }
        status = add_multiple(at, c->multiples);
    }
    if (!status && c->multiples && weft__number_least(c) >= SCHEMA_NEVER)
        c->types &= ~(unsigned)(SCHEMA_INTEGER | SCHEMA_NUMBER);
    return status;
}

/* ---- the whole choice ------------------------------------------------------------------------ */

weft_status weft__choice_fill(weft__schema *schema, const schema_atom *atoms, size_t n,
                              schema_choice *out, bool *possible)
{
    weft_status status = weft__choice_outline(schema, atoms, n, out);
    if (!status && out->types & (SCHEMA_INTEGER | SCHEMA_NUMBER))
        status = choice_multiples(schema, atoms, n, out);
    if (!status && out->types & SCHEMA_STRING)
        status = weft__choice_pattern(schema, atoms, n, out);
    if (!status && out->types & SCHEMA_ARRAY)
        status = weft__choice_array(schema, atoms, n, out);
    if (!status && out->types & SCHEMA_OBJECT)
        status = weft__choice_object(schema, atoms, n, out);
    *possible = out->types != 0;
    return status;
}
