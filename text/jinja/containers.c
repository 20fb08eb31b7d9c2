/* text/jinja/containers.c -- the methods of lists and dictionaries. */
#include <string.h>

#include "text/jinja/tables.h"

/* ---- lists ---------------------------------------------------------------------------------- */

static jinja_value list_append(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value item;
    if (!weft__jinja_arguments(j, "append", args, "object", &item))
        return weft__jinja_nothing();
    weft__jinja_push(j, self, item);
    return weft__jinja_none();
}

static jinja_value list_extend(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value given;
    if (!weft__jinja_arguments(j, "extend", args, "iterable", &given))
        return weft__jinja_nothing();
    const jinja_list *items = weft__jinja_items(j, given);
    for (size_t i = 0, n = items ? items->n : 0; i < n && !j->status; i++)
        weft__jinja_push(j, self, items->at[i]);
    return weft__jinja_none();
}

static jinja_value list_insert(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value given[2];
    int64_t at = 0;
    if (!weft__jinja_arguments(j, "insert", args, "index,object", given) ||
        !weft__jinja_integer_argument(j, "insert", given[0], 0, &at))
        return weft__jinja_nothing();
    weft__jinja_push(j, self, given[1]);
    jinja_list *list = self.as.list;
    if (j->status || !weft__jinja_charge(j, list->n))
        return weft__jinja_nothing();
    const int64_t n = (int64_t)list->n - 1;
    at += at < 0 ? n : 0;
    at = at < 0 ? 0 : at > n ? n : at;
    memmove(list->at + at + 1, list->at + at, (size_t)(n - at) * sizeof *list->at);
    list->at[at] = given[1];
    return weft__jinja_none();
}

static jinja_value list_pop(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value given;
    int64_t at = 0;
    jinja_list *list = self.as.list;
    const int64_t n = (int64_t)list->n;
    if (!weft__jinja_arguments(j, "pop", args, "index", &given) ||
        !weft__jinja_integer_argument(j, "pop", given, -1, &at))
        return weft__jinja_nothing();
    at += at < 0 ? n : 0;
    if (at < 0 || at >= n)
        return weft__jinja_fail(j, "pop: the list has no such item");
    const jinja_value item = list->at[at];
    if (weft__jinja_charge(j, list->n))
        memmove(list->at + at, list->at + at + 1, (size_t)(n - at - 1) * sizeof *list->at);
    list->n--;
    return item;
}

static jinja_value list_index(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value item;
    if (!weft__jinja_arguments(j, "index", args, "value", &item))
        return weft__jinja_nothing();
    for (size_t i = 0; i < self.as.list->n && !j->status; i++)
        if (weft__jinja_equal(j, self.as.list->at[i], item))
            return weft__jinja_int((int64_t)i);
    return weft__jinja_fail(j, "index: the value is not in the list");
}

static jinja_value list_count(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value item;
    int64_t count = 0;
    if (!weft__jinja_arguments(j, "count", args, "value", &item))
        return weft__jinja_nothing();
    for (size_t i = 0; i < self.as.list->n && !j->status; i++)
        count += weft__jinja_equal(j, self.as.list->at[i], item);
    return weft__jinja_int(count);
}

static jinja_value list_reverse(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_list *list = self.as.list;
    if (!weft__jinja_arguments(j, "reverse", args, "", NULL) || !weft__jinja_charge(j, list->n))
        return weft__jinja_nothing();
    for (size_t i = 0, k = list->n; i + 1 < k; i++) {
        const jinja_value swap = list->at[i];
        list->at[i] = list->at[--k];
        list->at[k] = swap;
    }
    return weft__jinja_none();
}

static jinja_value list_clear(jinja *j, jinja_value self, const jinja_args *args)
{
    if (!weft__jinja_arguments(j, "clear", args, "", NULL))
        return weft__jinja_nothing();
    self.as.list->n = 0;
    return weft__jinja_none();
}

static jinja_value list_copy(jinja *j, jinja_value self, const jinja_args *args)
{
    (void)args;
    const jinja_value copy = weft__jinja_list(j, FORM_LIST);
    for (size_t i = 0; i < self.as.list->n && !j->status; i++)
        weft__jinja_push(j, copy, self.as.list->at[i]);
    return copy;
}

const jinja_row weft__jinja_list_methods[] = {
    {"index", list_index},     {"count", list_count}, /* of tuples too */
    {"append", list_append},   {"extend", list_extend}, {"insert", list_insert}, {"pop", list_pop},
    {"reverse", list_reverse}, {"clear", list_clear},   {"copy", list_copy},     {NULL, NULL},
};

/* ---- dictionaries --------------------------------------------------------------------------- */

static jinja_value row_of(jinja *j, jinja_value self, jinja_form form)
{
    const jinja_value row = weft__jinja_list(j, form);
    const jinja_dict *dict = self.as.dict;
    for (size_t i = 0; i < dict->n && !j->status; i++)
        weft__jinja_push(j, row,
                         form == FORM_KEYS ? dict->at[i].key
                         : form == FORM_VALUES
                             ? dict->at[i].value
                             : weft__jinja_pair(j, dict->at[i].key, dict->at[i].value));
    return row;
}

static jinja_value dict_keys(jinja *j, jinja_value self, const jinja_args *args)
{
    return weft__jinja_arguments(j, "keys", args, "", NULL) ? row_of(j, self, FORM_KEYS)
                                                            : weft__jinja_nothing();
}

static jinja_value dict_values(jinja *j, jinja_value self, const jinja_args *args)
{
    return weft__jinja_arguments(j, "values", args, "", NULL) ? row_of(j, self, FORM_VALUES)
                                                              : weft__jinja_nothing();
}

static jinja_value dict_items(jinja *j, jinja_value self, const jinja_args *args)
{
    return weft__jinja_arguments(j, "items", args, "", NULL) ? row_of(j, self, FORM_ITEMS)
                                                             : weft__jinja_nothing();
}

static jinja_value dict_get(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value given[2];
    if (!weft__jinja_arguments(j, "get", args, "key,default", given))
        return weft__jinja_nothing();
    const jinja_value *value = weft__jinja_get(j, self, given[0]);
    return value ? *value : given[1].kind == JINJA_MISSING ? weft__jinja_none() : given[1];
}

static jinja_value dict_pop(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value given[2];
    if (!weft__jinja_arguments(j, "pop", args, "key,default", given))
        return weft__jinja_nothing();
    const jinja_value *found = weft__jinja_get(j, self, given[0]);
    if (!found)
        return given[1].kind != JINJA_MISSING
                   ? given[1]
                   : weft__jinja_fail(j, "pop: the dictionary has no such key");
    const jinja_value value = *found;
    weft__jinja_remove(j, self, given[0]);
    return value;
}

static jinja_value dict_setdefault(jinja *j, jinja_value self, const jinja_args *args)
{
    jinja_value given[2];
    if (!weft__jinja_arguments(j, "setdefault", args, "key,default", given))
        return weft__jinja_nothing();
    const jinja_value *found = weft__jinja_get(j, self, given[0]);
    if (found)
        return *found;
    if (given[1].kind == JINJA_MISSING)
        given[1] = weft__jinja_none();
    weft__jinja_put(j, self, given[0], given[1]);
    return given[1];
}

static jinja_value dict_update(jinja *j, jinja_value self, const jinja_args *args)
{
    for (size_t i = 0; i < args->n && !j->status; i++) {
        if (args->at[i].kind != JINJA_DICT)
            return weft__jinja_fail(j, "update: expected a dictionary, got \"%s\"",
                                    weft__jinja_type(args->at[i]));
        const jinja_dict *more = args->at[i].as.dict;
        for (size_t k = 0, n = more->n; k < n && !j->status; k++)
            weft__jinja_put(j, self, more->at[k].key, more->at[k].value);
    }
    for (size_t i = 0; i < args->n_named && !j->status; i++)
        weft__jinja_put(j, self, args->named[i].key, args->named[i].value);
    return weft__jinja_none();
}

static jinja_value dict_copy(jinja *j, jinja_value self, const jinja_args *args)
{
    const jinja_value copy = weft__jinja_dict(j);
    const jinja_args from = {.at = &self, .n = 1};
    (void)args;
    if (!j->status)
        dict_update(j, copy, &from);
    return copy;
}

const jinja_row weft__jinja_dict_methods[] = {
    {"keys", dict_keys},     {"values", dict_values}, {"items", dict_items},
    {"get", dict_get},       {"pop", dict_pop},       {"setdefault", dict_setdefault},
    {"update", dict_update}, {"copy", dict_copy},     {NULL, NULL},
};
