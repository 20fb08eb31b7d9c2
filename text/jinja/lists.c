/* text/jinja/lists.c -- the filters for lists and dictionaries. */
#include <string.h>

#include "text/jinja/node.h"
#include "text/jinja/tables.h"

/* Replaces an undefined value by *fallback; NULL or none: no replacement. */
static jinja_value or_fallback(jinja_value item, const jinja_value *fallback)
{
    const bool absent = item.kind == JINJA_UNDEFINED && fallback && fallback->kind != JINJA_NONE;
    return absent ? *fallback : item;
}

/* The attribute "a.b.0" of an item: members by name, items by number. `fallback` applies to each
 * part of the path. */
static jinja_value attribute_or(jinja *j, jinja_value item, jinja_value path,
                                const jinja_value *fallback)
{
    if (path.kind != JINJA_STRING)
        return or_fallback(weft__jinja_item(j, item, path), fallback);
    for (size_t start = 0; start <= path.n && !j->status;) {
        const char *dot = memchr(path.as.s + start, '.', path.n - start);
        const size_t end = dot ? (size_t)(dot - path.as.s) : path.n;
        const jinja_value part = weft__jinja_view(path.as.s + start, end - start);
        int64_t index = 0;
        const bool number = part.n > 0 && part.as.s[0] >= '0' && part.as.s[0] <= '9' &&
                            weft__jinja_to_integer(part, 10, &index);
        item = or_fallback(weft__jinja_item(j, item, number ? weft__jinja_int(index) : part),
                           fallback);
        start = end + 1;
    }
    return item;
}

static jinja_value attribute(jinja *j, jinja_value item, jinja_value path)
{
    return attribute_or(j, item, path, NULL);
}

static bool given(jinja_value value)
{
    return value.kind != JINJA_MISSING && value.kind != JINJA_NONE;
}

/* The sort key of an item: an attribute, in lower case unless case matters. */
static jinja_value key_of(jinja *j, jinja_value item, jinja_value path, bool case_sensitive)
{
    if (given(path))
        item = attribute(j, item, path);
    return item.kind == JINJA_STRING && !case_sensitive
               ? weft__jinja_change_case(j, item, CASE_LOWER)
               : item;
}

/* ---- whole lists ----------------------------------------------------------------------------- */

static jinja_value filter_length(jinja *j, jinja_value v, const jinja_args *args)
{
    int64_t n = 0;
    if (!weft__jinja_no_arguments(j, "length", args))
        return weft__jinja_nothing();
    if (!weft__jinja_length(v, &n))
        return weft__jinja_fail(j, "length: \"%s\" has none", weft__jinja_type(v));
    return weft__jinja_int(n);
}

static jinja_value copied(jinja *j, jinja_value v, jinja_form form)
{
    const jinja_list *items = weft__jinja_items(j, v);
    const jinja_value list = weft__jinja_list(j, form);
    for (size_t i = 0; items && i < items->n && !j->status; i++)
        weft__jinja_push(j, list, items->at[i]);
    return list;
}

static jinja_value filter_list(jinja *j, jinja_value v, const jinja_args *args)
{
    return weft__jinja_no_arguments(j, "list", args) ? copied(j, v, FORM_LIST)
                                                     : weft__jinja_nothing();
}

static jinja_value filter_first(jinja *j, jinja_value v, const jinja_args *args)
{
    if (!weft__jinja_no_arguments(j, "first", args))
        return weft__jinja_nothing();
    if (v.kind == JINJA_LIST && v.as.list->form == FORM_GENERATOR && v.as.list->n > 0) {
        v.as.list->n--;
        return *v.as.list->at++;
    }
    const jinja_list *items = weft__jinja_items(j, v);
    return items && items->n > 0 ? items->at[0]
                                 : weft__jinja_undefined("the first item of an empty sequence");
}

static jinja_value filter_last(jinja *j, jinja_value v, const jinja_args *args)
{
    if (!weft__jinja_no_arguments(j, "last", args))
        return weft__jinja_nothing();
    if (v.kind == JINJA_LIST && v.as.list->form == FORM_GENERATOR)
        return weft__jinja_fail(j, "last: a generator has no end to begin from; make it a list");
    const jinja_list *items = weft__jinja_items(j, v);
    return items && items->n > 0 ? items->at[items->n - 1]
                                 : weft__jinja_undefined("the last item of an empty sequence");
}

static jinja_value filter_join(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value a[2];
    jinja_buffer out = {0};
    if (!weft__jinja_arguments(j, "join", args, "d,attribute", a))
        return weft__jinja_nothing();
    const jinja_value separator =
        a[0].kind == JINJA_MISSING ? weft__jinja_view("", 0) : weft__jinja_text(j, a[0]);
    const jinja_list *items = weft__jinja_items(j, v);
    for (size_t i = 0; items && i < items->n && !j->status; i++) {
        if (i > 0)
            weft__jinja_write(j, &out, separator);
        weft__jinja_write(j, &out, given(a[1]) ? attribute(j, items->at[i], a[1]) : items->at[i]);
    }
    return weft__jinja_taken(&out);
}

static jinja_value filter_reverse(jinja *j, jinja_value v, const jinja_args *args)
{
    if (!weft__jinja_no_arguments(j, "reverse", args))
        return weft__jinja_nothing();
    const jinja_value none_given = weft__jinja_none(), back = weft__jinja_int(-1);
    if (v.kind == JINJA_STRING)
        return weft__jinja_slice(j, v, none_given, none_given, back);
    const jinja_value list = copied(j, v, FORM_LIST);
    const jinja_value turned = j->status ? weft__jinja_nothing()
                                         : weft__jinja_slice(j, list, none_given, none_given, back);
    if (!j->status)
        turned.as.list->form = v.as.list && v.kind == JINJA_LIST ? FORM_GENERATOR : FORM_LIST;
    return turned;
}

static jinja_value filter_items(jinja *j, jinja_value v, const jinja_args *args)
{
    if (!weft__jinja_no_arguments(j, "items", args))
        return weft__jinja_nothing();
    if (v.kind != JINJA_DICT && v.kind != JINJA_UNDEFINED)
        return weft__jinja_fail(j, "items: expected a dictionary, got \"%s\"", weft__jinja_type(v));
    const jinja_value list = weft__jinja_list(j, FORM_GENERATOR);
    for (size_t i = 0; v.kind == JINJA_DICT && i < v.as.dict->n && !j->status; i++)
        weft__jinja_push(j, list,
                         weft__jinja_pair(j, v.as.dict->at[i].key, v.as.dict->at[i].value));
    return list;
}

static jinja_value filter_attr(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value name;
    if (!weft__jinja_arguments(j, "attr", args, "name", &name) ||
        !weft__jinja_string_argument(j, "attr", name))
        return weft__jinja_nothing();
    return v.kind == JINJA_DICT ? weft__jinja_method(j, v, name) : weft__jinja_member(j, v, name);
}

/* ---- order ---------------------------------------------------------------------------------- */

/* Merges two sorted halves, stably. */
static void merge(jinja *j, jinja_entry *at, jinja_entry *spare, size_t half, size_t n,
                  bool reverse)
{
    size_t a = 0, b = half;
    for (size_t i = 0; i < n && !j->status; i++) {
        bool left = b >= n;
        if (a < half && b < n) {
            const int order = weft__jinja_order(j, at[b].key, at[a].key, "<");
            left = reverse ? order != 1 : order != -1;
        }
        spare[i] = left ? at[a++] : at[b++];
    }
    if (!j->status)
        memcpy(at, spare, n * sizeof *at);
}

static void sort_entries(jinja *j, jinja_entry *at, jinja_entry *spare, size_t n, bool reverse)
{
    if (n < 2 || !weft__jinja_charge(j, n))
        return;
    const size_t half = n / 2; /* the recursion depth is log n */
    sort_entries(j, at, spare, half, reverse);
    sort_entries(j, at + half, spare, n - half, reverse);
    if (!j->status)
        merge(j, at, spare, half, n, reverse);
}

void weft__jinja_sort(jinja *j, jinja_value *items, jinja_value *keys, size_t n, bool reverse)
{
    jinja_entry *entries = weft__jinja_take(j, 2 * (n + 1) * sizeof *entries);
    for (size_t i = 0; i < n && entries; i++)
        entries[i] = (jinja_entry){.key = keys[i], .value = items[i]};
    if (entries)
        sort_entries(j, entries, entries + n, n, reverse);
    for (size_t i = 0; i < n && entries; i++)
        items[i] = entries[i].value;
}

/* "a,b": a tuple of several attributes. A single attribute becomes a tuple too, since equal values
 * in a tuple need no order. */
static jinja_value keys_of(jinja *j, jinja_value item, jinja_value paths, bool case_sensitive)
{
    const jinja_value keys = weft__jinja_list(j, FORM_TUPLE);
    if (paths.kind != JINJA_STRING) {
        weft__jinja_push(j, keys, key_of(j, item, paths, case_sensitive));
        return keys;
    }
    for (size_t start = 0; start <= paths.n && !j->status;) {
        const char *comma = memchr(paths.as.s + start, ',', paths.n - start);
        const size_t end = comma ? (size_t)(comma - paths.as.s) : paths.n;
        weft__jinja_push(
            j, keys,
            key_of(j, item, weft__jinja_view(paths.as.s + start, end - start), case_sensitive));
        start = end + 1;
    }
    return keys;
}

static jinja_value sorted(jinja *j, jinja_value list, jinja_value paths, bool case_sensitive,
                          bool reverse)
{
    if (j->status)
        return weft__jinja_nothing();
    const jinja_value keys = weft__jinja_list(j, FORM_LIST);
    for (size_t i = 0; i < list.as.list->n && !j->status; i++)
        weft__jinja_push(j, keys, keys_of(j, list.as.list->at[i], paths, case_sensitive));
    if (!j->status)
        weft__jinja_sort(j, list.as.list->at, keys.as.list->at, list.as.list->n, reverse);
    return list;
}

static jinja_value filter_sort(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value a[3];
    if (!weft__jinja_arguments(j, "sort", args, "reverse,case_sensitive,attribute", a))
        return weft__jinja_nothing();
    return sorted(j, copied(j, v, FORM_LIST), a[2], weft__jinja_truth(j, a[1]),
                  weft__jinja_truth(j, a[0]));
}

static jinja_value filter_dictsort(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value a[3];
    if (!weft__jinja_arguments(j, "dictsort", args, "case_sensitive,by,reverse", a))
        return weft__jinja_nothing();
    if (v.kind != JINJA_DICT)
        return weft__jinja_fail(j, "dictsort: expected a dictionary, got \"%s\"",
                                weft__jinja_type(v));
    const bool value = weft__jinja_is(a[1], "value");
    if (!value && a[1].kind != JINJA_MISSING && !weft__jinja_is(a[1], "key"))
        return weft__jinja_fail(j, "dictsort: expected \"key\" or \"value\" to sort by");
    const jinja_value list = weft__jinja_list(j, FORM_LIST);
    for (size_t i = 0; i < v.as.dict->n && !j->status; i++)
        weft__jinja_push(j, list,
                         weft__jinja_pair(j, v.as.dict->at[i].key, v.as.dict->at[i].value));
    return sorted(j, list, weft__jinja_int(value), weft__jinja_truth(j, a[0]),
                  weft__jinja_truth(j, a[2]));
}

static jinja_value extreme(jinja *j, const char *what, jinja_value v, const jinja_args *args,
                           int wanted)
{
    jinja_value a[2];
    if (!weft__jinja_arguments(j, what, args, "case_sensitive,attribute", a))
        return weft__jinja_nothing();
    const jinja_list *items = weft__jinja_items(j, v);
    if (!items || items->n == 0)
        return weft__jinja_undefined("an extreme of an empty sequence");
    const bool case_sensitive = weft__jinja_truth(j, a[0]);
    size_t best = 0;
    jinja_value best_key = key_of(j, items->at[0], a[1], case_sensitive);
    for (size_t i = 1; i < items->n && !j->status; i++) {
        const jinja_value key = key_of(j, items->at[i], a[1], case_sensitive);
        if (weft__jinja_order(j, key, best_key, wanted < 0 ? "<" : ">") == wanted) {
            best = i;
            best_key = key;
        }
    }
    return items->at[best];
}

static jinja_value filter_min(jinja *j, jinja_value v, const jinja_args *args)
{
    return extreme(j, "min", v, args, -1);
}

static jinja_value filter_max(jinja *j, jinja_value v, const jinja_args *args)
{
    return extreme(j, "max", v, args, 1);
}

static jinja_value filter_sum(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value a[2];
    if (!weft__jinja_arguments(j, "sum", args, "attribute,start", a))
        return weft__jinja_nothing();
    jinja_value sum = a[1].kind == JINJA_MISSING ? weft__jinja_int(0) : a[1];
    const jinja_list *items = weft__jinja_items(j, v);
    for (size_t i = 0; items && i < items->n && !j->status; i++)
        sum = weft__jinja_binary(j, "+", sum,
                                 given(a[0]) ? attribute(j, items->at[i], a[0]) : items->at[i]);
    return sum;
}

static jinja_value filter_unique(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value a[2];
    if (!weft__jinja_arguments(j, "unique", args, "case_sensitive,attribute", a))
        return weft__jinja_nothing();
    const jinja_list *items = weft__jinja_items(j, v);
    const jinja_value out = weft__jinja_list(j, FORM_GENERATOR), seen = weft__jinja_dict(j);
    for (size_t i = 0; items && i < items->n && !j->status; i++) {
        const jinja_value key = key_of(j, items->at[i], a[1], weft__jinja_truth(j, a[0]));
        if (j->status || weft__jinja_get(j, seen, key))
            continue;
        weft__jinja_put(j, seen, key, weft__jinja_none());
        weft__jinja_push(j, out, items->at[i]);
    }
    return out;
}

/* ---- slices and batches ---------------------------------------------------------------------- */

static jinja_value filter_batch(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value a[2];
    int64_t size = 0;
    if (!weft__jinja_arguments(j, "batch", args, "linecount,fill_with", a) ||
        !weft__jinja_integer_argument(j, "batch", a[0], 0, &size))
        return weft__jinja_nothing();
    if (size < 1)
        return weft__jinja_fail(j, "batch: expected a count of at least 1");
    const jinja_list *items = weft__jinja_items(j, v);
    const jinja_value out = weft__jinja_list(j, FORM_GENERATOR);
    for (size_t i = 0; items && i < items->n && !j->status;) {
        const jinja_value part = weft__jinja_list(j, FORM_LIST);
        for (int64_t k = 0; k < size && !j->status; k++, i++) {
            if (i < items->n)
                weft__jinja_push(j, part, items->at[i]);
            else if (given(a[1]))
                weft__jinja_push(j, part, a[1]);
            else
                break;
        }
        weft__jinja_push(j, out, part);
    }
    return out;
}

static jinja_value filter_slice(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value a[2];
    int64_t parts = 0;
    if (!weft__jinja_arguments(j, "slice", args, "slices,fill_with", a) ||
        !weft__jinja_integer_argument(j, "slice", a[0], 0, &parts))
        return weft__jinja_nothing();
    if (parts < 1)
        return weft__jinja_fail(j, "slice: expected a count of at least 1");
    const jinja_list *items = weft__jinja_items(j, v);
    const jinja_value out = weft__jinja_list(j, FORM_GENERATOR);
    const int64_t n = items ? (int64_t)items->n : 0;
    size_t at = 0;
    for (int64_t k = 0; k < parts && !j->status; k++) {
        const jinja_value part = weft__jinja_list(j, FORM_LIST);
        for (int64_t i = n / parts + (k < n % parts); i > 0 && !j->status; i--)
            weft__jinja_push(j, part, items->at[at++]);
        if (given(a[1]) && k >= n % parts && !j->status)
            weft__jinja_push(j, part, a[1]);
        weft__jinja_push(j, out, part);
    }
    return out;
}

/* ---- each item ------------------------------------------------------------------------------ */

static const jinja_value *named(const jinja_args *args, const char *name)
{
    for (size_t i = 0; i < args->n_named; i++)
        if (weft__jinja_is(args->named[i].key, name))
            return &args->named[i].value;
    return NULL;
}

/* The name in an argument, for messages and lookup; NULL after a failure. */
static const char *name_of(jinja *j, const char *what, jinja_value name)
{
    char *copy =
        weft__jinja_string_argument(j, what, name) ? weft__jinja_take(j, name.n + 1) : NULL;
    if (copy && name.n > 0)
        memcpy(copy, name.as.s, name.n);
    return copy;
}

static jinja_args behind(const jinja_args *args, size_t n)
{
    return (jinja_args){args->n > n ? args->at + n : NULL, args->n > n ? args->n - n : 0,
                        args->named, args->n_named};
}

static jinja_value filter_map(jinja *j, jinja_value v, const jinja_args *args)
{
    const jinja_value *path = named(args, "attribute"), *fallback = named(args, "default");
    if (!weft__jinja_truth(j, v)) /* falsy values such as none yield nothing */
        return weft__jinja_list(j, FORM_GENERATOR);
    if (args->n == 0 && !path)
        return weft__jinja_fail(j, "map: expected a filter or attribute=");
    const char *filter = args->n > 0 ? name_of(j, "map", args->at[0]) : NULL;
    const jinja_args rest = behind(args, 1);
    const jinja_list *items = weft__jinja_items(j, v);
    const jinja_value out = weft__jinja_list(j, FORM_GENERATOR);
    for (size_t i = 0; items && i < items->n && !j->status; i++) {
        jinja_value item = items->at[i];
        item = filter ? weft__jinja_filter(j, filter, item, &rest)
                      : attribute_or(j, item, *path, fallback);
        weft__jinja_push(j, out, item);
    }
    return out;
}

/* The items that pass a test or, without a test, are true; with an attribute, its value decides. */
static jinja_value chosen(jinja *j, const char *what, jinja_value v, const jinja_args *args,
                          bool by_attribute, bool wanted)
{
    if (!weft__jinja_truth(j, v)) /* falsy values such as none yield nothing */
        return weft__jinja_list(j, FORM_GENERATOR);
    if (by_attribute && args->n == 0)
        return weft__jinja_fail(j, "%s: expected an attribute", what);
    const size_t at = by_attribute;
    const char *test = args->n > at ? name_of(j, what, args->at[at]) : NULL;
    const jinja_args rest = behind(args, at + 1);
    const jinja_list *items = weft__jinja_items(j, v);
    const jinja_value out = weft__jinja_list(j, FORM_GENERATOR);
    for (size_t i = 0; items && i < items->n && !j->status; i++) {
        const jinja_value item =
            by_attribute ? attribute(j, items->at[i], args->at[0]) : items->at[i];
        const bool passed =
            test ? weft__jinja_test(j, test, item, &rest) : weft__jinja_truth(j, item);
        if (passed == wanted && !j->status)
            weft__jinja_push(j, out, items->at[i]);
    }
    return out;
}

static jinja_value filter_select(jinja *j, jinja_value v, const jinja_args *args)
{
    return chosen(j, "select", v, args, false, true);
}

static jinja_value filter_reject(jinja *j, jinja_value v, const jinja_args *args)
{
    return chosen(j, "reject", v, args, false, false);
}

static jinja_value filter_selectattr(jinja *j, jinja_value v, const jinja_args *args)
{
    return chosen(j, "selectattr", v, args, true, true);
}

static jinja_value filter_rejectattr(jinja *j, jinja_value v, const jinja_args *args)
{
    return chosen(j, "rejectattr", v, args, true, false);
}

static jinja_value filter_groupby(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value a[3];
    if (!weft__jinja_arguments(j, "groupby", args, "attribute,default,case_sensitive", a))
        return weft__jinja_nothing();
    const bool exact = weft__jinja_truth(j, a[2]);
    const jinja_value list = sorted(j, copied(j, v, FORM_LIST), a[0], exact, false);
    const jinja_value out = weft__jinja_list(j, FORM_LIST);
    jinja_value group = weft__jinja_nothing(), last = weft__jinja_nothing();
    for (size_t i = 0; !j->status && i < list.as.list->n; i++) {
        const jinja_value item = list.as.list->at[i], key = key_of(j, item, a[0], exact);
        if (key.kind == JINJA_UNDEFINED && list.as.list->n > 1)
            return weft__jinja_fail(j, "groupby: an item lacks the attribute");
        if (i == 0 || !weft__jinja_equal(j, key, last)) {
            group = weft__jinja_list(j, FORM_LIST);
            weft__jinja_push(j, out, weft__jinja_pair(j, attribute(j, item, a[0]), group));
        }
        last = key;
        weft__jinja_push(j, group, item);
    }
    return out;
}

const jinja_row weft__jinja_list_filters[] = {
    {"length", filter_length},
    {"count", filter_length},
    {"list", filter_list},
    {"first", filter_first},
    {"last", filter_last},
    {"join", filter_join},
    {"reverse", filter_reverse},
    {"items", filter_items},
    {"attr", filter_attr},
    {"sort", filter_sort},
    {"dictsort", filter_dictsort},
    {"min", filter_min},
    {"max", filter_max},
    {"sum", filter_sum},
    {"unique", filter_unique},
    {"batch", filter_batch},
    {"slice", filter_slice},
    {"map", filter_map},
    {"select", filter_select},
    {"reject", filter_reject},
    {"selectattr", filter_selectattr},
    {"rejectattr", filter_rejectattr},
    {"groupby", filter_groupby},
    {NULL, NULL},
};
