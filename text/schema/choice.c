/* text/schema/choice.c -- combines atoms to a choice: types, bounds, literals. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "core/list.h"
#include "core/math.h"
#include "text/schema/decimal.h"
#include "text/schema/expand.h"
#include "text/schema/format.h"
#include "text/schema/number.h"
#include "weft/memory.h"

/* ---- types, numbers, lengths ----------------------------------------------------------------- */

static unsigned type_bits(json_object *name)
{
    static const struct {
        const char *name;
        unsigned bits;
    } types[] = {{"null", SCHEMA_NULL},       {"boolean", SCHEMA_BOOLEAN},
                 {"integer", SCHEMA_INTEGER}, {"number", SCHEMA_INTEGER | SCHEMA_NUMBER},
                 {"string", SCHEMA_STRING},   {"array", SCHEMA_ARRAY},
                 {"object", SCHEMA_OBJECT}};
    size_t i = 0;
    while (strcmp(types[i].name, json_object_get_string(name)) != 0)
        i++;
    return types[i].bits;
}

/* The types that a schema allows. The values of keywords have been checked (keywords.c). */
static unsigned find_types(json_object *at)
{
    json_object *types = json_object_object_get(at, "type");
    unsigned bits = 0;
    if (!types)
        return SCHEMA_ANY;
    if (!json_object_is_type(types, json_type_array))
        return type_bits(types);
    for (size_t i = 0; i < json_object_array_length(types); i++)
        bits |= type_bits(json_object_array_get_idx(types, i));
    return bits;
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

static double number_at(json_object *at, const char *keyword, double absent)
{
    json_object *number = json_object_object_get(at, keyword);
    return number ? json_object_get_double(number) : absent;
}

static void take_range(json_object *at, schema_choice *c)
{
    const char *format = json_object_get_string(json_object_object_get(at, "format"));
    const weft__format_bounds *range = format ? weft__format_range(format) : NULL;
    if (range) {
        at_least(c, range->least, false);
        at_most(c, range->most, false);
    }
    at_least(c, number_at(at, "minimum", -INFINITY), false);
    at_most(c, number_at(at, "maximum", INFINITY), false);
    if (json_object_object_get(at, "exclusiveMinimum"))
        at_least(c, number_at(at, "exclusiveMinimum", 0), true);
    if (json_object_object_get(at, "exclusiveMaximum"))
        at_most(c, number_at(at, "exclusiveMaximum", 0), true);
}

static weft_status check_range(const weft__json *at, const schema_choice *c)
{
    if ((c->minimum > -INFINITY && fabs(c->minimum) > 1e15) ||
        (c->maximum < INFINITY && fabs(c->maximum) > 1e15))
        return weft__json_fail(at, WEFT_UNSUPPORTED, "bounds of numbers beyond 1e15");
    return WEFT_OK;
}

/* No document has more than SCHEMA_NEVER of anything; the limit prevents overflow of sums. */
static void take_count(json_object *at, const char *min_key, const char *max_key, int64_t *least,
                       int64_t *most)
{
    json_object *min = json_object_object_get(at, min_key);
    json_object *max = json_object_object_get(at, max_key);
    if (min && json_object_get_int64(min) > *least)
        *least = weft__smaller(json_object_get_int64(min), SCHEMA_NEVER);
    if (max && (*most == SCHEMA_UNBOUNDED || json_object_get_int64(max) < *most))
        *most = weft__smaller(json_object_get_int64(max), SCHEMA_NEVER);
}

static void take_matching(json_object *at, schema_choice *c)
{
    c->types &= find_types(at);
    take_range(at, c);
    take_count(at, "minLength", "maxLength", &c->min_length, &c->max_length);
    take_count(at, "minItems", "maxItems", &c->min_items, &c->max_items);
    take_count(at, "minProperties", "maxProperties", &c->min_properties, &c->max_properties);
}

/* ---- other conditions ------------------------------------------------------------------------ */

/* The types that a condition allows. */
static unsigned types_of(atom_kind kind)
{
    static const unsigned types[] = {
        [ATOM_PATTERN] = SCHEMA_STRING,  [ATOM_CONTAINS] = SCHEMA_ARRAY,
        [ATOM_REST] = SCHEMA_ARRAY,      [ATOM_NO_ARRAY] = SCHEMA_ANY & ~SCHEMA_ARRAY,
        [ATOM_ABSENT] = SCHEMA_OBJECT,   [ATOM_NO_OBJECT] = SCHEMA_ANY & ~SCHEMA_OBJECT,
        [ATOM_PRESENT] = SCHEMA_OBJECT,  [ATOM_REQUIRED] = SCHEMA_OBJECT,
        [ATOM_PROPERTY] = SCHEMA_OBJECT,
    };
    return types[kind];
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Excludes the values of enum or const, but for strings (choice_pattern.c): leaves the numbers
 * after the first `interval` of them, or if that is negative no numbers if there are any. */
static weft_status exclude_values(const weft__json *at, atom_kind kind, int interval,
                                  schema_choice *c)
{
    json_object *list =
        json_object_object_get(at->value, kind == ATOM_NOT_CONST ? "const" : "enum");
    const size_t n = kind == ATOM_NOT_CONST ? 1 : json_object_array_length(list);
    double *numbers = weft_malloc((n + 1) * sizeof *numbers);
    size_t count = 0;
    if (!numbers)
        return weft__out_of_memory(at->name, "a schema");
    for (size_t i = 0; i < n; i++) {
        json_object *value = kind == ATOM_NOT_CONST ? list : json_object_array_get_idx(list, i);
        const json_type type = json_object_get_type(value);
        if (type == json_type_null)
            c->types &= ~(unsigned)SCHEMA_NULL;
        else if (type == json_type_boolean)
            c->types &= ~(unsigned)(json_object_get_boolean(value) ? SCHEMA_TRUE : SCHEMA_FALSE);
        else if (type == json_type_int || type == json_type_double)
            numbers[count++] = json_object_get_double(value);
    }
    qsort(numbers, count, sizeof *numbers, by_value);
    if (interval >= 0)
        c->types &= SCHEMA_INTEGER | SCHEMA_NUMBER;
    else if (count > 0)
        c->types &= ~(unsigned)(SCHEMA_INTEGER | SCHEMA_NUMBER);
    if (interval > 0)
        at_least(c, numbers[interval - 1], true);
    if (interval >= 0 && interval < (int)count)
        at_most(c, numbers[interval], true);
    weft_free(numbers);
    return WEFT_OK;
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
        if (atoms[i].kind == ATOM_ALL)
            take_matching(at.value, out);
        else if (atoms[i].kind == ATOM_TYPE)
            out->types &= ~find_types(at.value);
        else if (atoms[i].kind == ATOM_NOT_ENUM || atoms[i].kind == ATOM_NOT_CONST)
            status = exclude_values(&at, atoms[i].kind, atoms[i].index, out);
        else
            out->types &= types_of(atoms[i].kind);
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
