/* text/schema/choice_keys.c -- keys that a schema does not name, grouped by the patterns of
 * patternProperties that they match. */
#include <json-c/linkhash.h>
#include <string.h>

#include "core/failure.h"
#include "text/schema/expand.h"
#include "text/schema/format.h"
#include "text/schema/key_ways.h"
#include "text/schema/keywords.h"
#include "weft/memory.h"

enum { MAX_SOURCES = 32 };

/* The rules for keys: the patterns first, positive or negated, then propertyNames. */
typedef struct key_rules {
    const char *patterns[SCHEMA_KEY_PATTERNS];
    weft__pattern_source sources[MAX_SOURCES];
    size_t n_patterns, n_sources;
    int64_t min_length, max_length;
    bool none;     /* only named keys are allowed */
    weft__json at; /* the schema that requires it, for messages */
} key_rules;

static weft_status no_memory(const weft__schema *schema)
{
    return weft__out_of_memory(schema->doc.name, "a schema");
}

void weft__keys_release(schema_keys *keys)
{
    weft__pattern_free(keys->pattern);
    weft_free(keys->counts);
    weft_free(keys->named);
    weft_free(keys->among);
}

/* ---- patterns ---------------------------------------------------------------------------------
 */

/* The patterns of patternProperties in the atoms. */
static weft_status key_patterns(const weft__schema *schema, const schema_atom *atoms, size_t n,
                                const char **out, size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        const weft__json *at = &schema->schemas[atoms[i].schema].at;
        json_object *map = json_object_object_get(at->value, "patternProperties");
        if (!map || atoms[i].kind != ATOM_ALL)
            continue;
        json_object_object_foreach(map, pattern, value)
        {
            (void)value;
            bool known = false;
            for (size_t k = 0; k < *count && !known; k++)
                known = strcmp(out[k], pattern) == 0;
            if (!known && *count == SCHEMA_KEY_PATTERNS)
                return weft__json_fail(at, WEFT_UNSUPPORTED,
                                       "more than %d patterns of patternProperties for one object",
                                       (int)SCHEMA_KEY_PATTERNS);
            if (!known)
                out[(*count)++] = pattern;
        }
    }
    return WEFT_OK;
}

/* ---- propertyNames ----------------------------------------------------------------------------
 */

/* The schema of propertyNames, with references resolved; `out` has no value without one. */
static weft_status find_names(weft__schema *schema, int number, weft__json *out)
{
    weft_status status = WEFT_OK;
    const int of = weft__schema_at(schema, number, "propertyNames", false, &status);
    *out = (weft__json){0};
    if (status || of < 0)
        return status;
    const int resolved = weft__schema_resolve(schema, of, &status);
    if (!status)
        *out = schema->schemas[resolved / 2].at;
    return status;
}

static weft_status check_names(const weft__json *names, weft__text *notes)
{
    static const char *const followed[] = {"type",      "pattern", "format", "minLength",
                                           "maxLength", "enum",    "const",  NULL};
    const char *other = weft__keyword_besides(names->value, followed);
    if (other)
        return weft__json_fail(names, WEFT_UNSUPPORTED,
                               "\"%s\" is not supported within propertyNames",
                               weft_printable(other));
    return weft__keywords_followed(names, notes);
}

static weft_status add_source(key_rules *rules, const weft__json *at, const char *text)
{
    if (rules->n_sources == MAX_SOURCES)
        return weft__json_fail(at, WEFT_UNSUPPORTED, "more than %d patterns for one key",
                               (int)MAX_SOURCES);
    rules->sources[rules->n_sources++] = (weft__pattern_source){text, false};
    return WEFT_OK;
}

static bool allows_strings(json_object *type)
{
    bool allowed = !type || json_object_is_type(type, json_type_string)
                       ? !type || strcmp(json_object_get_string(type), "string") == 0
                       : false;
    for (size_t i = 0;
         json_object_is_type(type, json_type_array) && i < json_object_array_length(type); i++)
        allowed |=
            strcmp(json_object_get_string(json_object_array_get_idx(type, i)), "string") == 0;
    return allowed;
}

/* Applies propertyNames to keys that are not named. */
static weft_status add_names(key_rules *rules, const weft__json *names, weft__text *notes)
{
    const char *pattern = NULL, *name = NULL;
    int64_t least = 0, most = -1;
    if (json_object_is_type(names->value, json_type_boolean)) {
        rules->none |= !json_object_get_boolean(names->value);
        return WEFT_OK;
    }
    weft_status status = check_names(names, notes);
    rules->none |= !allows_strings(json_object_object_get(names->value, "type")) ||
                   json_object_object_get_ex(names->value, "enum", NULL) ||
                   json_object_object_get_ex(names->value, "const", NULL);
    if (!status)
        status = weft__json_find_string(names, "pattern", &pattern);
    if (!status && pattern)
        status = add_source(rules, names, pattern);
    if (!status)
        status = weft__json_find_string(names, "format", &name);
    if (!status && name && weft__format_find(name))
        status = add_source(rules, names, weft__format_find(name)->generated);
    if (!status)
        status = weft__json_find_int(names, "minLength", &least);
    if (!status)
        status = weft__json_find_int(names, "maxLength", &most);
    if (least > rules->min_length)
        rules->min_length = least;
    if (most >= 0 && (rules->max_length < 0 || most < rules->max_length))
        rules->max_length = most;
    return status;
}

weft_status weft__names_allow(weft__schema *schema, int number, const char *name, bool *out)
{
    weft__json names;
    weft_status status = find_names(schema, number, &names);
    *out = true;
    if (status || !names.value)
        return status;
    json_object *text = json_object_new_string(name);
    status =
        text ? weft__checker_matches(schema->checker, names.value, text, out) : no_memory(schema);
    json_object_put(text);
    return status;
}

weft_status weft__each_allowed_name(weft__schema *schema, int number,
                                    weft_status (*take)(void *context, const char *name),
                                    void *context)
{
    weft__json names;
    json_object *list = NULL, *constant = NULL;
    weft_status status = find_names(schema, number, &names);
    if (status || !json_object_is_type(names.value, json_type_object))
        return status;
    if (json_object_object_get_ex(names.value, "const", &constant) && weft__json_plain(constant))
        status = take(context, weft__json_plain(constant));
    json_object_object_get_ex(names.value, "enum", &list);
    for (size_t i = 0; list && i < json_object_array_length(list) && !status; i++) {
        const char *name = weft__json_plain(json_object_array_get_idx(list, i));
        if (name)
            status = take(context, name);
    }
    return status;
}

/* ---- the keys of a choice ---------------------------------------------------------------------
 */

static weft_status read_rules(weft__schema *schema, const schema_atom *atoms, size_t n,
                              key_rules *out)
{
    *out = (key_rules){.max_length = -1};
    weft_status status = key_patterns(schema, atoms, n, out->patterns, &out->n_patterns);
    for (size_t k = 0; k < out->n_patterns; k++)
        out->sources[out->n_sources++] = (weft__pattern_source){out->patterns[k], false};
    for (size_t i = 0; i < n && !status; i++) {
        weft__json names = {0};
        const weft__json *at = &schema->schemas[atoms[i].schema].at;
        if (json_object_object_get(at->value, "patternProperties") ||
            json_object_object_get(at->value, "propertyNames"))
            out->at = *at;
        if (atoms[i].kind == ATOM_ALL)
            status = find_names(schema, atoms[i].schema, &names);
        if (!status && names.value)
            status = add_names(out, &names, &schema->notes);
    }
    return status;
}

/* Computes which properties have such keys, and how many such keys there are. */
static weft_status count_keys(const weft__schema *schema, const schema_choice *c,
                              const weft__json *at, schema_keys *keys)
{
    keys->counts = weft__pattern_counts(keys->pattern, &keys->longest);
    keys->named = weft_calloc((size_t)keys->longest + 1, sizeof *keys->named);
    keys->among = weft_calloc(c->n_properties + 1, sizeof *keys->among);
    if (!keys->counts || !keys->named || !keys->among)
        return no_memory(schema);
    for (size_t i = 0; i < c->n_properties; i++) {
        const schema_property *p = &c->properties[i];
        keys->among[i] = weft__pattern_matches(keys->pattern, p->name, strlen(p->name));
        if (keys->among[i] && p->length <= (size_t)keys->longest)
            keys->named[p->length]++;
    }
    for (int32_t bytes = 0; bytes <= keys->longest; bytes++)
        if (keys->counts[bytes] > 0)
            return WEFT_OK;
    return weft__json_fail(at, WEFT_UNSUPPORTED, "the keys have to be longer than %d bytes",
                           (int)keys->longest);
}

/* Makes the group of keys that match exactly the patterns of a mask; *any: it is not empty. */
static weft_status make_keys(weft__schema *schema, const schema_choice *c, key_rules *rules,
                             unsigned mask, schema_keys *out, bool *any)
{
    *any = !rules->none;
    *out = (schema_keys){.mask = mask};
    if (rules->none || (rules->n_sources == 0 && rules->min_length == 0 && rules->max_length < 0))
        return WEFT_OK;
    if (rules->n_sources == 0)
        rules->sources[rules->n_sources++] = (weft__pattern_source){"", false};
    for (size_t k = 0; k < rules->n_patterns; k++)
        rules->sources[k].negated = !(mask >> k & 1);
    char *where = weft_format("%s: %s: the keys", schema->doc.name,
                              rules->at.path[0] ? rules->at.path : "the schema");
    if (!where)
        return no_memory(schema);
    weft_status status = weft__pattern_new(rules->sources, rules->n_sources, rules->min_length,
                                           rules->max_length, where, &out->pattern, any);
    weft_free(where);
    return !status && *any ? count_keys(schema, c, &rules->at, out) : status;
}

static weft_status add_keys(weft__schema *schema, const schema_atom *atoms, size_t n,
                            key_rules *rules, unsigned mask, schema_choice *c)
{
    int signed_schemas[EXPAND_MAX], count;
    bool any;
    weft_status status =
        weft__key_schemas(schema, atoms, n, rules->patterns, mask, signed_schemas, &count);
    if (status || count < 0)
        return status;
    schema_keys *keys = &c->keys[c->n_keys];
    status = make_keys(schema, c, rules, mask, keys, &any);
    if (!status && any)
        keys->node = weft__schema_node(schema, signed_schemas, (size_t)count, &status);
    if (status || !any)
        weft__keys_release(keys);
    else
        c->n_keys++;
    return status;
}

weft_status weft__choice_keys(weft__schema *schema, const schema_atom *atoms, size_t n,
                              schema_choice *c)
{
    key_rules rules;
    weft_status status = read_rules(schema, atoms, n, &rules);
    const unsigned masks = 1u << rules.n_patterns;
    c->keys = weft_calloc(masks, sizeof *c->keys);
    if (!c->keys)
        return no_memory(schema);
    for (unsigned mask = 0; mask < masks && !status; mask++)
        status = add_keys(schema, atoms, n, &rules, mask, c);
    return status;
}
