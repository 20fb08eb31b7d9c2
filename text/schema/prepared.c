/* text/schema/prepared.c -- patterns and enums of schemas, made ready once for many values. */
#include "text/schema/prepared.h"

#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "text/tokenizer/buffer.h"
#include "weft/memory.h"

/* ---- a form that equal values share -----------------------------------------------------------
 */

static void write_value(weft__text *out, json_object *value);

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

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
        qsort(names, count, sizeof *names, by_name);
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
        weft__text_format(out, "%.17g", json_object_get_double(value) + 0.0);
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

/* The caller's; NULL without memory. */
static char *form_of(json_object *value)
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
    char *x = form_of(a), *y = form_of(b);
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
}

void weft__prepared_release(prepared *p)
{
    for (size_t i = 0; i < p->n; i++)
        release_entry(&p->entries[i]);
    weft_free(p->entries);
    *p = (prepared){0};
}

static prepared_entry *find(const prepared *p, json_object *of)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->entries[i].of == of)
            return &p->entries[i];
    return NULL;
}

/* Takes over an entry; NULL without memory. */
static prepared_entry *add(prepared *p, prepared_entry entry)
{
    void *data = p->entries;
    const weft_status status = weft__bytes_grow(&data, &p->capacity, p->n, 1, sizeof entry);
    p->entries = data;
    if (status) {
        release_entry(&entry);
        return NULL;
    }
    p->entries[p->n] = entry;
    return &p->entries[p->n++];
}

const prepared_entry *weft__prepared_pattern(prepared *p, json_object *pattern)
{
    const prepared_entry *known = find(p, pattern);
    if (known)
        return known;
    const weft__pattern_source source = {json_object_get_string(pattern), false};
    prepared_entry entry = {.of = pattern};
    bool any = true;
    const weft_status status =
        weft__pattern_new(&source, 1, 0, -1, "pattern", &entry.pattern, &any);
    if (status == WEFT_MEMORY)
        return NULL;
    entry.nothing = !status && !any;
    return add(p, entry);
}

static const prepared_entry *prepare_list(prepared *p, json_object *list)
{
    const size_t n = json_object_array_length(list);
    const prepared_entry *known = find(p, list);
    if (known)
        return known;
    prepared_entry entry = {.of = list, .values = weft_calloc(n + 1, sizeof *entry.values)};
    if (!entry.values)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        entry.values[i] = form_of(json_object_array_get_idx(list, i));
        if (!entry.values[i]) {
            release_entry(&entry);
            return NULL;
        }
        entry.n_values++;
    }
    if (n > 0)
        qsort(entry.values, n, sizeof *entry.values, by_name);
    return add(p, entry);
}

weft_status weft__prepared_contains(prepared *p, json_object *list, json_object *value, bool *out)
{
    const prepared_entry *entry = prepare_list(p, list);
    char *form = entry ? form_of(value) : NULL;
    *out = form && entry->n_values > 0 &&
           bsearch(&form, entry->values, entry->n_values, sizeof *entry->values, by_name);
    weft_free(form);
    return form ? WEFT_OK : weft__out_of_memory("a schema", "its values");
}
