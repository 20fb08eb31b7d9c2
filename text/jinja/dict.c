/* text/jinja/dict.c -- ordered dictionaries: an array of members, with a hash index once there are
 * many. */
#include <string.h>

#include "text/jinja/value.h"

enum { INDEX_FROM = 12 };

/* Equal values have equal hashes: 1, 1.0 and True are one key. */
static bool hash_of(jinja *j, jinja_value key, uint64_t *out)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    double number = 0;
    if (key.kind == JINJA_STRING) {
        for (size_t i = 0; i < key.n; i++)
            hash = (hash ^ (unsigned char)key.as.s[i]) * UINT64_C(1099511628211);
        weft__jinja_charge(j, key.n / 16);
    } else if (weft__jinja_is_number(key, &number)) {
        uint64_t bits = 0;
        number += 0.0; /* -0 is 0 */
        memcpy(&bits, &number, sizeof bits);
        hash = (hash ^ bits) * UINT64_C(1099511628211);
        hash ^= hash >> 32;
    } else if (key.kind == JINJA_LIST && key.as.list->form == FORM_TUPLE) {
        if (!weft__jinja_enter(j))
            return false;
        for (size_t i = 0; i < key.as.list->n; i++) {
            uint64_t part = 0;
            if (!hash_of(j, key.as.list->at[i], &part))
                break;
            hash = (hash ^ part) * UINT64_C(1099511628211);
        }
        weft__jinja_leave(j);
    } else if (key.kind == JINJA_DICT || key.kind == JINJA_LIST) {
        weft__jinja_fail(j, "\"%s\" cannot be a key", weft__jinja_type(key));
    }
    *out = hash;
    return !j->status;
}

jinja_value weft__jinja_dict(jinja *j)
{
    jinja_dict *dict = weft__jinja_take(j, sizeof *dict);
    return dict ? (jinja_value){.kind = JINJA_DICT, .as.dict = dict} : weft__jinja_undefined(NULL);
}

static void enter_index(jinja_dict *d, uint64_t hash, size_t position)
{
    size_t at = hash & (d->index_size - 1);
    while (d->index[at])
        at = (at + 1) & (d->index_size - 1);
    d->index[at] = (uint32_t)(position + 1);
}

/* Rebuilds the index for at least n members. */
static void build_index(jinja *j, jinja_dict *d, size_t n)
{
    size_t size = 32;
    while (size < 2 * n)
        size *= 2;
    d->index = weft__jinja_take(j, size * sizeof *d->index);
    d->index_size = d->index ? size : 0;
    for (size_t i = 0; i < d->n && d->index; i++) {
        uint64_t hash = 0;
        if (hash_of(j, d->at[i].key, &hash))
            enter_index(d, hash, i);
    }
}

static jinja_entry *find(jinja *j, const jinja_dict *d, jinja_value key, uint64_t hash)
{
    if (!d->index) {
        for (size_t i = 0; i < d->n; i++)
            if (weft__jinja_equal(j, d->at[i].key, key))
                return &d->at[i];
        return NULL;
    }
    for (size_t at = hash & (d->index_size - 1); d->index[at]; at = (at + 1) & (d->index_size - 1))
        if (weft__jinja_equal(j, d->at[d->index[at] - 1].key, key))
            return &d->at[d->index[at] - 1];
    return NULL;
}

void weft__jinja_put(jinja *j, jinja_value dict, jinja_value key, jinja_value value)
{
    uint64_t hash = 0;
    if (!weft__jinja_charge(j, 1) || !hash_of(j, key, &hash))
        return;
    jinja_dict *d = dict.as.dict;
    jinja_entry *entry = find(j, d, key, hash);
    if (entry) {
        entry->value = value;
        return;
    }
    if (d->n == d->capacity) {
        const size_t capacity = d->capacity ? 2 * d->capacity : 4;
        jinja_entry *larger = weft__jinja_take(j, capacity * sizeof *larger);
        if (!larger)
            return;
        if (d->n > 0)
            memcpy(larger, d->at, d->n * sizeof *larger);
        d->at = larger;
        d->capacity = capacity;
    }
    if (d->n >= INDEX_FROM && 2 * (d->n + 1) > d->index_size)
        build_index(j, d, 2 * (d->n + 1));
    if (j->status)
        return;
    d->at[d->n].key = key;
    d->at[d->n].value = value;
    if (d->index)
        enter_index(d, hash, d->n);
    d->n++;
}

jinja_value *weft__jinja_get(jinja *j, jinja_value dict, jinja_value key)
{
    uint64_t hash = 0;
    if (!hash_of(j, key, &hash))
        return NULL;
    jinja_entry *entry = find(j, dict.as.dict, key, hash);
    return entry ? &entry->value : NULL;
}

jinja_value *weft__jinja_get_text(jinja *j, jinja_value dict, const char *key)
{
    return weft__jinja_get(j, dict, weft__jinja_view(key, strlen(key)));
}

void weft__jinja_remove(jinja *j, jinja_value dict, jinja_value key)
{
    jinja_dict *d = dict.as.dict;
    const jinja_value *value = weft__jinja_get(j, dict, key);
    if (!value || !weft__jinja_charge(j, d->n))
        return;
    const size_t position =
        (size_t)((const jinja_entry *)((const char *)value - offsetof(jinja_entry, value)) - d->at);
    memmove(d->at + position, d->at + position + 1, (d->n - position - 1) * sizeof *d->at);
    d->n--;
    if (d->index)
        build_index(j, d, d->n);
}
