/* text/schema/check.c -- validates a JSON value against a schema and describes the first violation.
 */
#include "text/schema/check.h"

#include <json-c/linkhash.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/utf8.h"
#include "text/schema/decimal.h"
#include "text/schema/format.h"
#include "text/schema/pointer.h"
#include "text/schema/prepared.h"
#include "weft/memory.h"

enum {
    MAX_DEPTH = 256,
    MAX_STEPS = 1 << 20, /* recursive alternatives double the work at each level */
    MAX_PLACE = 160,
    SHOWN = 80 /* most bytes of a value or name in a complaint */
};

typedef struct check {
    json_object *root;
    prepared *prepared;
    weft__text *complaint; /* NULL: no complaint is needed */
    char place[MAX_PLACE];
    int depth, steps;
    bool no_memory;
} check;

static bool holds(check *c, json_object *schema, json_object *value);
static bool matches(check *c, json_object *schema, json_object *value);

static bool complain(check *c, const char *what)
{
    if (c->complaint)
        weft__text_format(c->complaint, "%s%s%s", c->place, *c->place ? ": " : "", what);
    return false;
}

/* How many bytes of a text to show: whole characters, since models read the message. */
static int shown(const char *text)
{
    const size_t n = strlen(text);
    return (int)weft__utf8_valid(text, n < SHOWN ? n : SHOWN);
}

static bool expected(check *c, const char *what, json_object *value)
{
    const int style = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;
    const char *text = json_object_to_json_string_ext(value, style);
    const char *got = text ? text : "something else";
    if (c->complaint)
        weft__text_format(c->complaint, "%s%sexpected %s, got %.*s", c->place,
                          *c->place ? ": " : "", what, shown(got), got);
    return false;
}

/* ---- numbers and texts ---------------------------------------------------------------------- */

static bool is_number(json_object *value)
{
    return json_object_is_type(value, json_type_int) ||
           json_object_is_type(value, json_type_double);
}

static double number_of(json_object *schema, const char *key, double absent)
{
    json_object *number;
    return json_object_object_get_ex(schema, key, &number) && is_number(number)
               ? json_object_get_double(number)
               : absent;
}

/* Numbers beside which `of` has too many digits are compared in binary. */
static bool is_multiple(json_object *of, json_object *value)
{
    weft__decimal step;
    if (!is_number(of) || !(json_object_get_double(of) > 0))
        return true;
    return weft__decimal_of(of, &step)
               ? weft__decimal_is_multiple(value, step)
               : fmod(json_object_get_double(value), json_object_get_double(of)) == 0;
}

static bool number_holds(check *c, json_object *schema, json_object *value)
{
    static const struct {
        const char *key, *what;
        int side; /* of the bound on which values are wrong */
        bool exclusive;
    } bounds[] = {{"minimum", "at least", -1, false},
                  {"maximum", "at most", 1, false},
                  {"exclusiveMinimum", "more than", -1, true},
                  {"exclusiveMaximum", "less than", 1, true}};
    char what[80];
    for (size_t i = 0; i < 4; i++) {
        json_object *bound = json_object_object_get(schema, bounds[i].key);
        const int side = is_number(bound) ? weft__decimal_compare(value, bound) : -bounds[i].side;
        if (side * bounds[i].side < 0 || (side == 0 && !bounds[i].exclusive))
            continue;
        snprintf(what, sizeof what, "%s %.40s", bounds[i].what, json_object_get_string(bound));
        return expected(c, what, value);
    }
    if (is_multiple(json_object_object_get(schema, "multipleOf"), value))
        return true;
    snprintf(what, sizeof what, "a multiple of %.40s",
             json_object_get_string(json_object_object_get(schema, "multipleOf")));
    return expected(c, what, value);
}

/* Checks a count against the bounds in two keywords. */
static bool count_holds(check *c, json_object *schema, const char *least, const char *most,
                        double n, const char *of)
{
    const double low = number_of(schema, least, 0), high = number_of(schema, most, INFINITY);
    char what[96];
    if (n >= low && n <= high)
        return true;
    snprintf(what, sizeof what, "expected %s %.0f %s, got %.0f", n < low ? "at least" : "at most",
             n < low ? low : high, of, n);
    return complain(c, what);
}

/* Patterns that are unsupported or contain NULs are not checked. */
static bool pattern_holds(check *c, json_object *of, const char *pattern, const char *text,
                          size_t n)
{
    const prepared_entry *entry = weft__prepared_pattern(c->prepared, of, pattern);
    c->no_memory |= !entry;
    if (!entry || (!entry->pattern && !entry->nothing))
        return true;
    return !entry->nothing && weft__pattern_matches(entry->pattern, text, n);
}

static bool patterns_hold(check *c, json_object *schema, const char *text, size_t n)
{
    json_object *source = json_object_object_get(schema, "pattern");
    const char *pattern = weft__json_plain(source);
    if (pattern && !pattern_holds(c, source, pattern, text, n)) {
        if (c->complaint)
            weft__text_format(c->complaint, "%s%sexpected a string that matches %s", c->place,
                              *c->place ? ": " : "", pattern);
        return false;
    }
    source = json_object_object_get(schema, "format");
    const char *name = weft__json_plain(source);
    const weft__format_pattern *format = name ? weft__format_find(name) : NULL;
    if (!format ||
        pattern_holds(c, source, format->outside ? format->outside : format->generated, text, n))
        return true;
    if (c->complaint)
        weft__text_format(c->complaint, "%s%sexpected a string of format %s", c->place,
                          *c->place ? ": " : "", name);
    return false;
}

static bool string_holds(check *c, json_object *schema, json_object *value)
{
    const char *text = json_object_get_string(value);
    const size_t n = (size_t)json_object_get_string_len(value);
    double characters = 0;
    for (size_t i = 0; i < n; i++)
        characters += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count_holds(c, schema, "minLength", "maxLength", characters, "characters") &&
           patterns_hold(c, schema, text, n);
}

/* ---- objects and arrays --------------------------------------------------------------------- */

/* Checks a member or element, whose name `format` gives for messages. */
static bool inside(check *c, json_object *schema, json_object *value, const char *key, size_t index)
{
    const size_t n = strlen(c->place);
    if (key)
        snprintf(c->place + n, sizeof c->place - n, "%s%s", n > 0 ? "." : "", key);
    else
        snprintf(c->place + n, sizeof c->place - n, "[%zu]", index);
    c->place[weft__utf8_valid(c->place, strlen(c->place))] = '\0'; /* it may have been cut within a
                                                                    * character */
    const bool fine = holds(c, schema, value);
    c->place[n] = '\0';
    return fine;
}

/* Counts the elements that match `contains`. */
static bool contains_holds(check *c, json_object *schema, json_object *value)
{
    json_object *of = NULL;
    double count = 0;
    char what[96];
    if (!json_object_object_get_ex(schema, "contains", &of))
        return true;
    for (size_t i = 0; i < json_object_array_length(value); i++)
        count += matches(c, of, json_object_array_get_idx(value, i));
    const double least = number_of(schema, "minContains", 1);
    if (count >= least && count <= number_of(schema, "maxContains", INFINITY))
        return true;
    snprintf(what, sizeof what, "expected at %s %.0f items that match \"contains\", got %.0f",
             count < least ? "least" : "most",
             count < least ? least : number_of(schema, "maxContains", 0), count);
    return complain(c, what);
}

static bool array_holds(check *c, json_object *schema, json_object *value)
{
    json_object *items;
    const size_t n = json_object_array_length(value);
    bool different = true;
    if (!count_holds(c, schema, "minItems", "maxItems", (double)n, "items") ||
        !contains_holds(c, schema, value))
        return false;
    if (json_object_get_boolean(json_object_object_get(schema, "uniqueItems")))
        c->no_memory |= weft__values_differ(value, &different) != WEFT_OK;
    if (!different)
        return complain(c, "expected items that differ from each other");
    json_object *first = json_object_object_get(schema, "prefixItems");
    size_t n_first =
        json_object_is_type(first, json_type_array) ? json_object_array_length(first) : 0;
    for (size_t i = 0; i < n && i < n_first; i++)
        if (!inside(c, json_object_array_get_idx(first, i), json_object_array_get_idx(value, i),
                    NULL, i))
            return false;
    if (!json_object_object_get_ex(schema, "items", &items))
        return true;
    for (size_t i = n_first; i < n; i++)
        if (!inside(c, items, json_object_array_get_idx(value, i), NULL, i))
            return false;
    return true;
}

static bool has_names(check *c, json_object *required, json_object *value)
{
    char what[160];
    if (!json_object_is_type(required, json_type_array))
        return true;
    for (size_t i = 0; i < json_object_array_length(required); i++) {
        json_object *name = json_object_array_get_idx(required, i);
        const char *key = json_object_get_string(name);
        /* No object has a member whose name contains a NUL. */
        if (key && (!weft__json_plain(name) || !json_object_object_get_ex(value, key, NULL))) {
            snprintf(what, sizeof what, "\"%.*s\" is missing", shown(key), key);
            return complain(c, what);
        }
    }
    return true;
}

/* Checks what dependentRequired, dependentSchemas and dependencies require for the present members.
 */
static bool dependents_hold(check *c, json_object *schema, json_object *value)
{
    static const char *const keywords[] = {"dependentRequired", "dependentSchemas", "dependencies"};
    for (size_t i = 0; i < 3; i++) {
        json_object *map = json_object_object_get(schema, keywords[i]);
        if (!json_object_is_type(map, json_type_object))
            continue;
        json_object_object_foreach(map, key, then)
        {
            if (!json_object_object_get_ex(value, key, NULL))
                continue;
            if (json_object_is_type(then, json_type_array) ? !has_names(c, then, value)
                                                           : !holds(c, then, value))
                return false;
        }
    }
    return true;
}

/* Whether a member satisfies patternProperties; *covered: some pattern matches its key. Unsupported
 * patterns are not checked. */
static bool matched_patterns_hold(check *c, json_object *map, const char *key, json_object *member,
                                  bool *covered)
{
    if (!json_object_is_type(map, json_type_object))
        return true;
    json_object_object_foreach(map, pattern, of)
    {
        const prepared_entry *entry = weft__prepared_pattern(c->prepared, of, pattern);
        c->no_memory |= !entry;
        if (!entry || !entry->pattern || !weft__pattern_matches(entry->pattern, key, strlen(key)))
            continue;
        *covered = true;
        if (!inside(c, of, member, key, 0))
            return false;
    }
    return true;
}

static bool name_holds(check *c, json_object *names, const char *key)
{
    char what[160];
    json_object *text = json_object_new_string(key);
    const bool fine = text && matches(c, names, text);
    c->no_memory |= !text;
    json_object_put(text);
    snprintf(what, sizeof what, "\"%.*s\" is not a name that is allowed here", shown(key), key);
    return fine || complain(c, what);
}

static bool member_holds(check *c, json_object *schema, const char *key, json_object *member)
{
    json_object *properties = json_object_object_get(schema, "properties"), *more = NULL;
    json_object *names = NULL, *of = NULL;
    char what[160];
    bool covered = json_object_is_type(properties, json_type_object) &&
                   json_object_object_get_ex(properties, key, &of);
    if (covered && !inside(c, of, member, key, 0))
        return false;
    if (!matched_patterns_hold(c, json_object_object_get(schema, "patternProperties"), key, member,
                               &covered) ||
        (json_object_object_get_ex(schema, "propertyNames", &names) && !name_holds(c, names, key)))
        return false;
    if (covered || !json_object_object_get_ex(schema, "additionalProperties", &more))
        return true;
    if (!json_object_is_type(more, json_type_boolean))
        return inside(c, more, member, key, 0);
    snprintf(what, sizeof what, "\"%.*s\" is not allowed here", shown(key), key);
    return json_object_get_boolean(more) || complain(c, what);
}

static bool object_holds(check *c, json_object *schema, json_object *value)
{
    if (!has_names(c, json_object_object_get(schema, "required"), value) ||
        !dependents_hold(c, schema, value) ||
        !count_holds(c, schema, "minProperties", "maxProperties",
                     (double)json_object_object_length(value), "members"))
        return false;
    json_object_object_foreach(value, key, member)
    {
        if (!member_holds(c, schema, key, member))
            return false;
    }
    return true;
}

/* ---- any value ------------------------------------------------------------------------------ */

static bool is_type(const char *type, json_object *value)
{
    if (strcmp(type, "number") == 0)
        return is_number(value);
    if (strcmp(type, "integer") == 0)
        return is_number(value) && weft__decimal_is_integer(value);
    return strcmp(type, weft__json_type_name(value)) == 0;
}

static bool type_holds(check *c, json_object *schema, json_object *value)
{
    json_object *type;
    if (!json_object_object_get_ex(schema, "type", &type))
        return true;
    if (json_object_is_type(type, json_type_string))
        return is_type(json_object_get_string(type), value) ||
               expected(c, json_object_get_string(type), value);
    if (!json_object_is_type(type, json_type_array))
        return true; /* an empty schema allows everything */
    for (size_t i = 0; i < json_object_array_length(type); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(type, i));
        if (name && is_type(name, value))
            return true;
    }
    return expected(c, json_object_to_json_string_ext(type, JSON_C_TO_STRING_PLAIN), value);
}

static bool literal_holds(check *c, json_object *schema, json_object *value)
{
    json_object *list, *one;
    bool fine = true;
    if (json_object_object_get_ex(schema, "const", &one)) {
        c->no_memory |= weft__values_equal(one, value, &fine) != WEFT_OK;
        if (!fine && !c->complaint)
            return false;
        if (!fine)
            return expected(c, json_object_to_json_string_ext(one, JSON_C_TO_STRING_PLAIN), value);
    }
    if (!json_object_object_get_ex(schema, "enum", &list) ||
        !json_object_is_type(list, json_type_array))
        return true;
    c->no_memory |= weft__prepared_contains(c->prepared, list, value, &fine) != WEFT_OK;
    if (fine || !c->complaint)
        return fine;
    return expected(c, json_object_to_json_string_ext(list, JSON_C_TO_STRING_PLAIN), value);
}

/* Whether a value matches a schema, without recording a complaint. */
static bool matches(check *c, json_object *schema, json_object *value)
{
    weft__text *complaint = c->complaint;
    c->complaint = NULL;
    const bool fine = holds(c, schema, value);
    c->complaint = complaint;
    return fine;
}

/* How many schemas of a list match the value; counting stops above `most`. */
static size_t branches(check *c, json_object *list, json_object *value, size_t most)
{
    enum { FEW = 8 };
    const size_t length = json_object_array_length(list);
    size_t n = 0, count = length;
    int *which = NULL;
    if (length > FEW) {
        const branch_list *known = weft__prepared_branches(c->prepared, list);
        which = known ? weft_malloc(length * sizeof *which) : NULL;
        if (!which || weft__branches_for(known, value, which, &count)) {
            c->no_memory = true;
            count = 0;
        }
    }
    for (size_t i = 0; i < count && n <= most; i++)
        n += matches(c, json_object_array_get_idx(list, which ? (size_t)which[i] : i), value);
    weft_free(which);
    return n;
}

static bool conditions_hold(check *c, json_object *schema, json_object *value)
{
    json_object *condition, *then = NULL;
    if (json_object_object_get_ex(schema, "not", &condition) && matches(c, condition, value))
        return complain(c, "the schema of \"not\" must not match");
    if (!json_object_object_get_ex(schema, "if", &condition))
        return true;
    json_object_object_get_ex(schema, matches(c, condition, value) ? "then" : "else", &then);
    return !then || holds(c, then, value);
}

static bool combinations_hold(check *c, json_object *schema, json_object *value)
{
    json_object *list;
    if (json_object_object_get_ex(schema, "allOf", &list) &&
        json_object_is_type(list, json_type_array))
        for (size_t i = 0; i < json_object_array_length(list); i++)
            if (!holds(c, json_object_array_get_idx(list, i), value))
                return false;
    if (json_object_object_get_ex(schema, "anyOf", &list) &&
        json_object_is_type(list, json_type_array) && branches(c, list, value, 0) == 0)
        return expected(c, "one of the alternatives of anyOf", value);
    if (json_object_object_get_ex(schema, "oneOf", &list) &&
        json_object_is_type(list, json_type_array) && branches(c, list, value, 1) != 1)
        return expected(c, "exactly one of the alternatives of oneOf", value);
    return true;
}

/* The schema at "#/a/b"; NULL: not found, or out of memory. */
static json_object *follow(check *c, const char *reference)
{
    json_object *at = c->root;
    char *step = *reference == '#' ? weft_malloc(strlen(reference)) : NULL;
    c->no_memory |= *reference == '#' && !step;
    for (reference++; step && at && *reference == '/';) {
        size_t index = 0;
        reference++;
        if (!weft__pointer_step(&reference, step))
            at = NULL;
        else if (!json_object_is_type(at, json_type_array))
            at = json_object_object_get(at, step);
        else
            at = weft__pointer_index(step, &index) ? json_object_array_get_idx(at, index) : NULL;
    }
    if (!step || *reference)
        at = NULL;
    weft_free(step);
    return at;
}

static bool parts_hold(check *c, json_object *schema, json_object *value)
{
    json_object *reference;
    if (json_object_object_get_ex(schema, "$ref", &reference) && weft__json_plain(reference)) {
        json_object *target = follow(c, weft__json_plain(reference));
        if (target && !holds(c, target, value))
            return false;
    }
    if (!type_holds(c, schema, value) || !literal_holds(c, schema, value) ||
        !combinations_hold(c, schema, value) || !conditions_hold(c, schema, value))
        return false;
    switch (json_object_get_type(value)) {
    case json_type_int:
    case json_type_double:
        return number_holds(c, schema, value);
    case json_type_string:
        return string_holds(c, schema, value);
    case json_type_array:
        return array_holds(c, schema, value);
    case json_type_object:
        return object_holds(c, schema, value);
    default:
        return true;
    }
}

static bool holds(check *c, json_object *schema, json_object *value)
{
    if (json_object_is_type(schema, json_type_boolean))
        return json_object_get_boolean(schema) || complain(c, "nothing is allowed here");
    if (!json_object_is_type(schema, json_type_object))
        return true;
    if (++c->depth > MAX_DEPTH) {
        c->depth--;
        return complain(c, "the schema refers to itself without an end");
    }
    const bool fine = c->steps++ < MAX_STEPS ? parts_hold(c, schema, value)
                                             : complain(c, "the schema has too many alternatives");
    c->depth--;
    return fine;
}

bool weft__schema_holds(json_object *schema, json_object *value, weft__text *complaint)
{
    prepared p = {0};
    check c = {.root = schema, .prepared = &p, .complaint = complaint};
    const bool fine = holds(&c, schema, value);
    weft__prepared_release(&p);
    complaint->failed = complaint->failed || c.no_memory;
    return fine && !complaint->failed;
}

/* ---- many values ------------------------------------------------------------------------------
 */

struct weft__checker {
    json_object *root;
    prepared prepared;
};

weft_status weft__checker_new(json_object *root, weft__checker **out)
{
    *out = weft_calloc(1, sizeof **out);
    if (!*out)
        return weft__out_of_memory("a schema", NULL);
    (*out)->root = root;
    return WEFT_OK;
}

void weft__checker_free(weft__checker *checker)
{
    if (checker)
        weft__prepared_release(&checker->prepared);
    weft_free(checker);
}

weft_status weft__checker_matches(weft__checker *checker, json_object *schema, json_object *value,
                                  bool *out)
{
    check c = {.root = checker->root, .prepared = &checker->prepared};
    *out = holds(&c, schema, value);
    return c.no_memory ? weft__out_of_memory("a schema", "a value") : WEFT_OK;
}

weft_status weft__checker_key_matches(weft__checker *checker, json_object *of, const char *pattern,
                                      const char *key, bool *out)
{
    const prepared_entry *entry = weft__prepared_pattern(&checker->prepared, of, pattern);
    *out = false;
    if (!entry)
        return weft__out_of_memory("a schema", "a pattern");
    if (!entry->pattern && !entry->nothing)
        return weft_fail(WEFT_UNSUPPORTED, "patternProperties: the pattern \"%s\" is not supported",
                         weft_printable(pattern));
    *out = !entry->nothing && weft__pattern_matches(entry->pattern, key, strlen(key));
    return WEFT_OK;
}
