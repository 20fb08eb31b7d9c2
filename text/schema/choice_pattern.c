/* text/schema/choice_pattern.c -- the patterns that the strings of a choice must match, or must not
 * match. */
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "text/schema/expand.h"
#include "text/schema/format.h"
#include "weft/memory.h"

enum { MAX_PATTERNS = EXPAND_MAX };

typedef struct pattern_list {
    weft__pattern_source at[MAX_PATTERNS];
    char *made[MAX_PATTERNS]; /* patterns that are not part of the document */
    size_t n, n_made;
} pattern_list;

static weft_status add_pattern(pattern_list *list, const weft__json *at, const char *text,
                               bool negated)
{
    if (list->n == MAX_PATTERNS)
        return weft__json_fail(at, WEFT_UNSUPPORTED, "more than %d patterns for one string",
                               (int)MAX_PATTERNS);
    list->at[list->n++] = (weft__pattern_source){text, negated};
    return WEFT_OK;
}

/* Appends a regular expression that matches only the given string. */
static void append_escaped(weft__text *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char byte = (unsigned char)text[i];
        const bool plain = byte >= 0x80 || (byte >= '0' && byte <= '9') ||
                           (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
        if (plain)
            weft__text_append(out, text + i, 1);
        else
            weft__text_format(out, "\\x%02x", byte);
    }
}

/* Excludes the strings of a schema's enum or const, several per expression. */
static weft_status exclude_strings(pattern_list *list, const weft__json *at, bool one)
{
    enum { LONGEST = 2000 };
    json_object *values = json_object_object_get(at->value, one ? "const" : "enum");
    const size_t n = one ? 1 : json_object_array_length(values);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && !status;) {
        weft__text text = {0};
        const char *separator = "^(?:";
        for (; i < n && text.n < LONGEST; i++) {
            json_object *value = one ? values : json_object_array_get_idx(values, i);
            if (!json_object_is_type(value, json_type_string))
                continue;
            weft__text_append(&text, separator, strlen(separator));
            append_escaped(&text, json_object_get_string(value),
                           (size_t)json_object_get_string_len(value));
            separator = "|";
        }
        if (text.n == 0)
            break;
        weft__text_append(&text, ")$", 2);
        status = text.failed ? weft__out_of_memory(at->name, "a pattern")
                             : add_pattern(list, at, text.at, true);
        if (status)
            weft_free(text.at);
        else
            list->made[list->n_made++] = text.at;
    }
    return status;
}

static weft_status collect(const weft__schema *schema, const schema_atom *atoms, size_t n,
                           pattern_list *list, const weft__json **last)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && !status; i++) {
        const weft__json *at = &schema->schemas[atoms[i].schema].at;
        const char *pattern = NULL, *format = NULL;
        const bool all = atoms[i].kind == ATOM_ALL;
        const size_t before = list->n;
        if (atoms[i].kind == ATOM_NOT_ENUM || atoms[i].kind == ATOM_NOT_CONST)
            status = exclude_strings(list, at, atoms[i].kind == ATOM_NOT_CONST);
        if (!status && (all || atoms[i].kind == ATOM_PATTERN))
            status = weft__json_find_string(at, "pattern", &pattern);
        if (!status && pattern)
            status = add_pattern(list, at, pattern, !all);
        if (!status && all)
            status = weft__json_find_string(at, "format", &format);
        if (!status && format && weft__format_find(format)) /* others are annotations */
            status = add_pattern(list, at, weft__format_find(format)->generated, false);
        if (list->n > before)
            *last = at;
    }
    return status;
}

static weft_status make(const pattern_list *list, const weft__json *at, schema_choice *c)
{
    bool any = true;
    char *where = weft_format("%s: %s", at->name, at->path[0] ? at->path : "the schema");
    if (!where)
        return weft__out_of_memory(at->name, "a pattern");
    weft_status status =
        weft__pattern_new(list->at, list->n, c->min_length, -1, where, &c->pattern, &any);
    if (!status && any && c->max_length != SCHEMA_UNBOUNDED)
        status = weft__pattern_limit(c->pattern, c->max_length, where);
    if (!status && (!any || weft__pattern_distance(c->pattern, 0, c->max_length) == INT32_MAX))
        c->types &= ~(unsigned)SCHEMA_STRING;
    weft_free(where);
    return status;
}

weft_status weft__choice_pattern(const weft__schema *schema, const schema_atom *atoms, size_t n,
                                 schema_choice *c)
{
    pattern_list *list = weft_calloc(1, sizeof *list);
    const weft__json *last = NULL;
    if (!list)
        return weft__out_of_memory(schema->doc.name, "a pattern");
    weft_status status = collect(schema, atoms, n, list, &last);
    if (!status && list->n > 0)
        status = make(list, last, c);
    for (size_t i = 0; i < list->n_made; i++)
        weft_free(list->made[i]);
    weft_free(list);
    return status;
}
