/* text/schema/prepared.c -- patterns, enums and branches of schemas, prepared once for checking
 * many values. */
#include "text/schema/prepared.h"

#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/hash.h"
#include "core/io/text.h"
#include "core/list.h"
#include "text/schema/decimal.h"
#include "text/tokenizer/buffer.h"
#include "weft/memory.h"

/* ---- canonical form of values ---------------------------------------------------------------- */

static void write_value(weft__text *out, json_object *value);

static void write_object(weft__text *out, json_object *value)
{
    const size_t n = (size_t)json_object_object_length(value);
    const char **names = weft_malloc((n + 1) * sizeof *names);
    size_t count = 0;
    if (!names) {
        out->failed = true;
        return;
    }
    json_object_object_foreach(value, key, member)
    {
        (void)member;
        names[count++] = key;
    }
    if (count > 0)
        qsort(names, count, sizeof *names, weft__by_text);
    weft__text_append(out, "{", 1);
    for (size_t i = 0; i < count; i++) {
        weft__text_quote(out, names[i]);
        weft__text_append(out, ":", 1);
        write_value(out, json_object_object_get(value, names[i]));
        weft__text_append(out, ",", 1);
    }
    weft__text_append(out, "}", 1);
    weft_free(names);
}

static void write_value(weft__text *out, json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_int:
    case json_type_double:
        weft__decimal_write(out, value);
        break;
    case json_type_string:
        weft__text_quote_bytes(out, json_object_get_string(value),
                               (size_t)json_object_get_string_len(value));
        break;
    case json_type_array:
        weft__text_append(out, "[", 1);
        for (size_t i = 0; i < json_object_array_length(value); i++) {
            write_value(out, json_object_array_get_idx(value, i));
            weft__text_append(out, ",", 1);
        }
        weft__text_append(out, "]", 1);
        break;
    case json_type_object:
        write_object(out, value);
        break;
    case json_type_boolean:
        weft__text_format(out, "%s", json_object_get_boolean(value) ? "true" : "false");
        break;
    case json_type_null:
        weft__text_append(out, "null", 4);
        break;
    }
}

char *weft__value_form(json_object *value)
{
    weft__text out = {0};
    write_value(&out, value);
    if (!out.failed)
        return out.at;
    weft_free(out.at);
    return NULL;
}

weft_status weft__values_equal(json_object *a, json_object *b, bool *out)
{
    char *x = weft__value_form(a), *y = weft__value_form(b);
    const bool known = x && y;
    *out = known && strcmp(x, y) == 0;
    weft_free(x);
    weft_free(y);
    return known ? WEFT_OK : weft__out_of_memory("a schema", "a value");
}

/* ---- entries ----------------------------------------------------------------------------------
 */

static void release_entry(prepared_entry *e)
{
    for (size_t i = 0; i < e->n_values; i++)
        weft_free(e->values[i]);
    weft_free(e->values);
    weft__pattern_free(e->pattern);
    weft__branches_release(&e->branches);
}

void weft__prepared_release(prepared *p)
{
    for (size_t i = 0; i < p->n; i++)
        release_entry(&p->entries[i]);
    weft_free(p->entries);
    weft__index_release(&p->index);
    *p = (prepared){0};
}

static uint64_t hash_of(const json_object *of)
{
    return weft__mix(0, (uint64_t)(uintptr_t)of);
}

static prepared_entry *find(const prepared *p, const json_object *of)
{
    size_t probe = 0;
    int32_t i;
    while ((i = weft__index_next(&p->index, hash_of(of), &probe)) >= 0)
        if (p->entries[i].of == of)
            return &p->entries[i];
    return NULL;
}

/* Adds an entry, which it takes over; NULL when out of memory. */
static prepared_entry *add(prepared *p, prepared_entry entry)
{
    if (!weft__list_more(p->entries, p->n) ||
        weft__index_add(&p->index, hash_of(entry.of), (int32_t)p->n)) {
        release_entry(&entry);
        return NULL;
    }
    p->entries[p->n] = entry;
    return &p->entries[p->n++];
}

const prepared_entry *weft__prepared_pattern(prepared *p, json_object *of, const char *pattern)
{
    const prepared_entry *known = find(p, of);
    if (known)
        return known;
    const weft__pattern_source source = {pattern, false};
    prepared_entry entry = {.of = of};
    bool any = true;
    const weft_status status =
        weft__pattern_new(&source, 1, 0, -1, "pattern", &entry.pattern, &any);
    if (status == WEFT_MEMORY)
        return NULL;
    entry.nothing = !status && !any;
    return add(p, entry);
}

const branch_list *weft__prepared_branches(prepared *p, json_object *list)
{
    const prepared_entry *known = find(p, list);
    prepared_entry entry = {.of = list};
    if (!known && !weft__branches_read(list, &entry.branches))
        known = add(p, entry);
    return known ? &known->branches : NULL;
}

/* The canonical forms of a list's values, ascending. False when out of memory. */
static bool list_forms(json_object *list, prepared_entry *entry)
{
    const size_t n = json_object_array_length(list);
    *entry = (prepared_entry){.of = list, .values = weft_calloc(n + 1, sizeof *entry->values)};
    for (size_t i = 0; i < n && entry->values; i++) {
        entry->values[i] = weft__value_form(json_object_array_get_idx(list, i));
        if (!entry->values[i]) {
            release_entry(entry);
            return false;
        }
        entry->n_values++;
    }
    if (n > 0 && entry->values)
        qsort(entry->values, n, sizeof *entry->values, weft__by_text);
    return entry->values != NULL;
}

static const prepared_entry *prepare_list(prepared *p, json_object *list)
{
    const prepared_entry *known = find(p, list);
    prepared_entry entry;
    if (known)
        return known;
    return list_forms(list, &entry) ? add(p, entry) : NULL;
}

weft_status weft__values_differ(json_object *array, bool *out)
{
    prepared_entry entry;
    *out = true;
    if (!list_forms(array, &entry))
        return weft__out_of_memory("a schema", "a value");
    for (size_t i = 1; i < entry.n_values && *out; i++)
        *out = strcmp(entry.values[i - 1], entry.values[i]) != 0;
    release_entry(&entry);
    return WEFT_OK;
}

weft_status weft__prepared_contains(prepared *p, json_object *list, json_object *value, bool *out)
{
    const prepared_entry *entry = prepare_list(p, list);
    char *form = entry ? weft__value_form(value) : NULL;
    *out = form && entry->n_values > 0 &&
           bsearch(&form, entry->values, entry->n_values, sizeof *entry->values, weft__by_text);
    weft_free(form);
    return form ? WEFT_OK : weft__out_of_memory("a schema", "its values");
}
