/* text/jinja/value.c -- creates values, and implements truth, equality, order and items. */
#include "text/jinja/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/io/utf8.h"

/* ---- the run -------------------------------------------------------------------------------- */

jinja_value weft__jinja_fail(jinja *j, const char *format, ...)
{
    if (!j->status) {
        char message[512];
        va_list list;
        va_start(list, format);
        vsnprintf(message, sizeof message, format, list);
        va_end(list);
        j->status = weft_fail(WEFT_INVALID, "%s: line %d: %s", j->name, j->line, message);
    }
    return weft__jinja_undefined(NULL);
}

void *weft__jinja_take(jinja *j, size_t size)
{
    if (j->status)
        return NULL;
    void *piece = weft__arena_take_zeroed(&j->arena, size);
    if (!piece)
        j->status =
            weft_fail(WEFT_MEMORY, "%s: line %d: out of memory for %zu more bytes (used %zu)",
                      j->name, j->line, size, j->arena.taken);
    return piece;
}

bool weft__jinja_charge(jinja *j, size_t steps)
{
    if (j->status)
        return false;
    if (steps > j->steps) {
        weft__jinja_fail(j, "the template takes too many steps");
        return false;
    }
    j->steps -= steps;
    return true;
}

bool weft__jinja_enter(jinja *j)
{
    if (!weft__jinja_charge(j, 1))
        return false;
    if (j->depth >= JINJA_MAX_DEPTH) {
        weft__jinja_fail(j, "nested deeper than %d levels", JINJA_MAX_DEPTH);
        return false;
    }
    j->depth++;
    return true;
}

void weft__jinja_leave(jinja *j)
{
    j->depth--;
}

/* ---- creating values ------------------------------------------------------------------------- */

jinja_value weft__jinja_undefined(const char *name)
{
    return (jinja_value){.kind = JINJA_UNDEFINED, .as.s = name};
}

jinja_value weft__jinja_none(void)
{
    return (jinja_value){.kind = JINJA_NONE};
}

jinja_value weft__jinja_bool(bool value)
{
    return (jinja_value){.kind = JINJA_BOOL, .as.b = value};
}

jinja_value weft__jinja_int(int64_t value)
{
    return (jinja_value){.kind = JINJA_INT, .as.i = value};
}

jinja_value weft__jinja_float(double value)
{
    return (jinja_value){.kind = JINJA_FLOAT, .as.f = value};
}

jinja_value weft__jinja_view(const char *text, size_t n)
{
    return (jinja_value){.kind = JINJA_STRING, .n = n, .as.s = text};
}

jinja_value weft__jinja_string(jinja *j, const char *text, size_t n)
{
    char *copy = weft__jinja_charge(j, n / 16) ? weft__jinja_take(j, n + 1) : NULL;
    if (!copy)
        return weft__jinja_undefined(NULL);
    if (n > 0)
        memcpy(copy, text, n);
    return weft__jinja_view(copy, n);
}

jinja_value weft__jinja_list(jinja *j, jinja_form form)
{
    jinja_list *list = weft__jinja_take(j, sizeof *list);
    if (!list)
        return weft__jinja_undefined(NULL);
    list->form = form;
    return (jinja_value){.kind = JINJA_LIST, .as.list = list};
}

void weft__jinja_push(jinja *j, jinja_value list, jinja_value item)
{
    if (!weft__jinja_charge(j, 1))
        return;
    jinja_list *l = list.as.list;
    if (l->n == l->capacity) {
        const size_t capacity = l->capacity ? 2 * l->capacity : 4;
        jinja_value *larger = weft__jinja_take(j, capacity * sizeof *larger);
        if (!larger)
            return;
        if (l->n > 0)
            memcpy(larger, l->at, l->n * sizeof *larger);
        l->at = larger;
        l->capacity = capacity;
    }
    l->at[l->n++] = item;
}

jinja_value weft__jinja_pair(jinja *j, jinja_value a, jinja_value b)
{
    const jinja_value pair = weft__jinja_list(j, FORM_TUPLE);
    weft__jinja_push(j, pair, a);
    weft__jinja_push(j, pair, b);
    return pair;
}

void weft__jinja_append(jinja *j, jinja_buffer *buffer, const char *text, size_t n)
{
    if (!weft__jinja_charge(j, n / 16))
        return;
    if (n >= j->output) {
        weft__jinja_fail(j, "the template writes too much");
        return;
    }
    if (n > buffer->capacity - buffer->n) {
        size_t capacity = buffer->capacity ? buffer->capacity : 64;
        while (capacity - buffer->n < n)
            capacity *= 2;
        char *larger = weft__jinja_take(j, capacity);
        if (!larger)
            return;
        if (buffer->n > 0)
            memcpy(larger, buffer->at, buffer->n);
        buffer->at = larger;
        buffer->capacity = capacity;
    }
    j->output -= n;
    if (n > 0)
        memcpy(buffer->at + buffer->n, text, n);
    buffer->n += n;
}

void weft__jinja_append_code(jinja *j, jinja_buffer *buffer, uint32_t code)
{
    char text[4];
    weft__jinja_append(j, buffer, text, (size_t)weft__utf8_encode(code, text));
}

jinja_value weft__jinja_taken(const jinja_buffer *buffer)
{
    return weft__jinja_view(buffer->at ? buffer->at : "", buffer->n);
}

/* ---- examining values ------------------------------------------------------------------------ */

const char *weft__jinja_type(jinja_value value)
{
    static const char *const forms[] = {"list",        "tuple",      "range",    "dict_keys",
                                        "dict_values", "dict_items", "generator"};
    switch (value.kind) {
    case JINJA_UNDEFINED:
    case JINJA_MISSING:
        return "Undefined";
    case JINJA_NONE:
        return "NoneType";
    case JINJA_BOOL:
        return "bool";
    case JINJA_INT:
    case JINJA_BIG:
        return "int";
    case JINJA_FLOAT:
        return "float";
    case JINJA_STRING:
        return "str";
    case JINJA_LIST:
        return forms[value.as.list->form];
    case JINJA_DICT:
        return "dict";
    case JINJA_NAMESPACE:
        return "Namespace";
    case JINJA_LOOP:
        return "LoopContext";
    case JINJA_MACRO:
        return "Macro";
    case JINJA_FUNCTION:
        break;
    }
    return "function";
}

bool weft__jinja_is(jinja_value value, const char *text)
{
    return value.kind == JINJA_STRING && value.n == strlen(text) &&
           memcmp(value.as.s, text, value.n) == 0;
}

bool weft__jinja_truth(jinja *j, jinja_value value)
{
    (void)j;
    switch (value.kind) {
    case JINJA_UNDEFINED:
    case JINJA_MISSING:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return value.as.b;
    case JINJA_INT:
        return value.as.i != 0;
    case JINJA_FLOAT:
        return value.as.f != 0;
    case JINJA_STRING:
        return value.n > 0;
    case JINJA_LIST:
        return value.as.list->form == FORM_GENERATOR || value.as.list->n > 0;
    case JINJA_DICT:
        return value.as.dict->n > 0;
    default:
        return true;
    }
}

bool weft__jinja_is_mapping(jinja_value value)
{
    return value.kind == JINJA_DICT;
}

static bool equal_lists(jinja *j, const jinja_list *a, const jinja_list *b)
{
    bool equal = a->n == b->n && a->form == b->form;
    for (size_t i = 0; i < a->n && i < b->n && equal; i++)
        equal = weft__jinja_equal(j, a->at[i], b->at[i]);
    return equal;
}

static bool equal_dicts(jinja *j, jinja_value a, jinja_value b)
{
    bool equal = a.as.dict->n == b.as.dict->n;
    for (size_t i = 0; i < a.as.dict->n && equal; i++) {
        const jinja_value *other = weft__jinja_get(j, b, a.as.dict->at[i].key);
        equal = other && weft__jinja_equal(j, a.as.dict->at[i].value, *other);
    }
    return equal;
}

bool weft__jinja_equal(jinja *j, jinja_value a, jinja_value b)
{
    const int numbers = weft__jinja_order_numbers(a, b);
    if (a.kind != b.kind || numbers != JINJA_NO_NUMBERS)
        return numbers == 0;
    if (!weft__jinja_enter(j))
        return false;
    bool equal = false;
    switch (a.kind) {
    case JINJA_UNDEFINED:
    case JINJA_MISSING:
    case JINJA_NONE:
        equal = true;
        break;
    case JINJA_STRING:
        equal = a.n == b.n && (a.n == 0 || memcmp(a.as.s, b.as.s, a.n) == 0) &&
                weft__jinja_charge(j, a.n / 64);
        break;
    case JINJA_LIST:
        equal = a.as.list == b.as.list ||
                (a.as.list->form != FORM_GENERATOR && equal_lists(j, a.as.list, b.as.list));
        break;
    case JINJA_DICT:
        equal = a.as.dict == b.as.dict || equal_dicts(j, a, b);
        break;
    default:
        equal = a.as.bound == b.as.bound;
        break;
    }
    weft__jinja_leave(j);
    return equal;
}

static int sign_of(size_t x, size_t y)
{
    return (x > y) - (x < y);
}

static int order_lists(jinja *j, const jinja_list *a, const jinja_list *b, const char *sign)
{
    const size_t n = a->n < b->n ? a->n : b->n;
    for (size_t i = 0; i < n && !j->status; i++)
        if (!weft__jinja_equal(j, a->at[i], b->at[i]))
            return weft__jinja_order(j, a->at[i], b->at[i], sign);
    return sign_of(a->n, b->n);
}

int weft__jinja_order(jinja *j, jinja_value a, jinja_value b, const char *sign)
{
    const int numbers = weft__jinja_order_numbers(a, b);
    int order = numbers;
    if (numbers != JINJA_NO_NUMBERS || !weft__jinja_enter(j))
        return order;
    if (a.kind == JINJA_STRING && b.kind == JINJA_STRING) {
        /* UTF-8 bytes sort like code points. */
        const size_t n = a.n < b.n ? a.n : b.n;
        const int bytes = n > 0 ? memcmp(a.as.s, b.as.s, n) : 0;
        order = bytes ? (bytes > 0) - (bytes < 0) : sign_of(a.n, b.n);
        weft__jinja_charge(j, n / 64);
    } else if (a.kind == JINJA_LIST && b.kind == JINJA_LIST && a.as.list->form <= FORM_TUPLE &&
               a.as.list->form == b.as.list->form) {
        order = order_lists(j, a.as.list, b.as.list, sign);
    } else {
        weft__jinja_fail(j, "\"%s\" is not supported between \"%s\" and \"%s\"", sign,
                         weft__jinja_type(a), weft__jinja_type(b));
    }
    weft__jinja_leave(j);
    return order;
}

static int64_t characters(const char *text, size_t n)
{
    int64_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

bool weft__jinja_length(jinja_value value, int64_t *out)
{
    switch (value.kind) {
    case JINJA_UNDEFINED:
        *out = 0;
        return true;
    case JINJA_STRING:
        *out = characters(value.as.s, value.n);
        return true;
    case JINJA_DICT:
        *out = (int64_t)value.as.dict->n;
        return true;
    case JINJA_LIST:
        *out = (int64_t)value.as.list->n;
        return value.as.list->form != FORM_GENERATOR;
    default:
        return false;
    }
}

bool weft__jinja_iterable(jinja_value value)
{
    return value.kind == JINJA_UNDEFINED || value.kind == JINJA_STRING ||
           value.kind == JINJA_LIST || value.kind == JINJA_DICT;
}

static jinja_list *items_of_list(jinja *j, jinja_list *list)
{
    if (list->form != FORM_GENERATOR)
        return list;
    const jinja_value copy = weft__jinja_list(j, FORM_LIST);
    if (j->status)
        return NULL;
    copy.as.list->at = list->at;
    copy.as.list->n = list->n;
    copy.as.list->capacity = list->n;
    list->n = 0;
    return copy.as.list;
}

jinja_list *weft__jinja_items(jinja *j, jinja_value value)
{
    if (!j->status && value.kind == JINJA_LIST)
        return items_of_list(j, value.as.list);
    if (!weft__jinja_iterable(value)) {
        weft__jinja_fail(j, "\"%s\" is not iterable", weft__jinja_type(value));
        return NULL;
    }
    const jinja_value list = weft__jinja_list(j, FORM_LIST);
    for (size_t i = 0; value.kind == JINJA_STRING && i < value.n && !j->status;) {
        const int size = weft__utf8_step(value.as.s + i, value.n - i);
        const size_t step = size > 0 ? (size_t)size : 1;
        weft__jinja_push(j, list, weft__jinja_view(value.as.s + i, step));
        i += step;
    }
    for (size_t i = 0; value.kind == JINJA_DICT && i < value.as.dict->n && !j->status; i++)
        weft__jinja_push(j, list, value.as.dict->at[i].key);
    return j->status ? NULL : list.as.list;
}
