/* text/jinja/operators.c -- arithmetic, comparison, members, items and slices, as in Python.
 */
#include <math.h>
#include <string.h>

#include "core/io/utf8.h"
#include "text/jinja/node.h"
#include "text/jinja/tables.h"

/* ---- arithmetic ----------------------------------------------------------------------------- */

static jinja_value mismatch(jinja *j, const char *sign, jinja_value a, jinja_value b)
{
    const jinja_value *odd = a.kind == JINJA_UNDEFINED ? &a : &b;
    if (odd->kind == JINJA_UNDEFINED)
        return weft__jinja_fail(j, "\"%s\" is undefined",
                                weft_printable(odd->as.s ? odd->as.s : "the operand"));
    return weft__jinja_fail(j, "unsupported operand types for %s: \"%s\" and \"%s\"", sign,
                            weft__jinja_type(a), weft__jinja_type(b));
}

static jinja_value overflow(jinja *j)
{
    return weft__jinja_fail(j, "an integer is beyond 64 bits");
}

static jinja_value integer_power(jinja *j, int64_t a, int64_t b)
{
    int64_t result = 1;
    while (b > 0) {
        if ((b & 1) && __builtin_mul_overflow(result, a, &result))
            return overflow(j);
        b >>= 1;
        if (b > 0 && __builtin_mul_overflow(a, a, &a))
            return overflow(j);
    }
    return weft__jinja_int(result);
}

static jinja_value float_power(jinja *j, double a, double b)
{
    const double power = pow(a, b);
    if (!isfinite(power) && isfinite(a) && isfinite(b))
        return weft__jinja_fail(j, "a power is no finite real number");
    return weft__jinja_float(power);
}

static jinja_value integer_arithmetic(jinja *j, const char *sign, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool over = false;
    if (strcmp(sign, "+") == 0) {
        over = __builtin_add_overflow(a, b, &result);
    } else if (strcmp(sign, "-") == 0) {
        over = __builtin_sub_overflow(a, b, &result);
    } else if (strcmp(sign, "*") == 0) {
        over = __builtin_mul_overflow(a, b, &result);
    } else if (strcmp(sign, "**") == 0) {
        return b >= 0 ? integer_power(j, a, b) : float_power(j, (double)a, (double)b);
    } else if (b == 0) {
        return weft__jinja_fail(j, "division by zero");
    } else if (strcmp(sign, "/") == 0) {
        return weft__jinja_float((double)a / (double)b);
    } else if (a == INT64_MIN && b == -1) {
        over = *sign == '/';
    } else if (strcmp(sign, "//") == 0) {
        result = a / b - (a % b != 0 && (a < 0) != (b < 0));
    } else {
        result = a % b;
        if (result != 0 && (result < 0) != (b < 0))
            result += b;
    }
    return over ? overflow(j) : weft__jinja_int(result);
}

static jinja_value float_arithmetic(jinja *j, const char *sign, double a, double b)
{
    if (strcmp(sign, "+") == 0)
        return weft__jinja_float(a + b);
    if (strcmp(sign, "-") == 0)
        return weft__jinja_float(a - b);
    if (strcmp(sign, "*") == 0)
        return weft__jinja_float(a * b);
    if (strcmp(sign, "**") == 0)
        return float_power(j, a, b);
    if (b == 0)
        return weft__jinja_fail(j, "division by zero");
    if (strcmp(sign, "/") == 0)
        return weft__jinja_float(a / b);
    double rest = fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0))
        rest += b;
    if (strcmp(sign, "%") == 0)
        return weft__jinja_float(rest != 0 ? rest : copysign(0.0, b));
    const double quotient = round((a - rest) / b);
    return weft__jinja_float(quotient != 0 ? quotient : copysign(0.0, a / b));
}

/* ---- concatenation and repetition ------------------------------------------------------------ */

static jinja_value join_strings(jinja *j, jinja_value a, jinja_value b)
{
    const bool safe = a.safe || b.safe;
    if (safe && !a.safe)
        a = weft__jinja_escape(j, a);
    if (safe && !b.safe)
        b = weft__jinja_escape(j, b);
    jinja_buffer out = {0};
    weft__jinja_append(j, &out, a.as.s, a.n);
    weft__jinja_append(j, &out, b.as.s, b.n);
    jinja_value joined = weft__jinja_taken(&out);
    joined.safe = safe;
    return joined;
}

static bool is_row(jinja_value value)
{
    return value.kind == JINJA_LIST && value.as.list->form <= FORM_TUPLE;
}

static jinja_value join_lists(jinja *j, const jinja_list *a, const jinja_list *b)
{
    const jinja_value joined = weft__jinja_list(j, a->form);
    for (size_t i = 0; i < a->n && !j->status; i++)
        weft__jinja_push(j, joined, a->at[i]);
    for (size_t i = 0; i < b->n && !j->status; i++)
        weft__jinja_push(j, joined, b->at[i]);
    return joined;
}

static jinja_value repeat(jinja *j, jinja_value a, int64_t times)
{
    jinja_buffer out = {0};
    const bool text = a.kind == JINJA_STRING;
    const jinja_value list = text ? a : weft__jinja_list(j, a.as.list->form);
    for (int64_t k = 0; k < times && weft__jinja_charge(j, 1); k++) {
        if (text)
            weft__jinja_append(j, &out, a.as.s, a.n);
        for (size_t i = 0; !text && i < a.as.list->n && !j->status; i++)
            weft__jinja_push(j, list, a.as.list->at[i]);
    }
    return text ? weft__jinja_taken(&out) : list;
}

jinja_value weft__jinja_binary(jinja *j, const char *sign, jinja_value a, jinja_value b)
{
    int64_t i = 0, k = 0;
    double x = 0, y = 0;
    if (j->status)
        return weft__jinja_undefined(NULL);
    const bool left = weft__jinja_is_integer(a, &i), right = weft__jinja_is_integer(b, &k);
    if (left && right)
        return integer_arithmetic(j, sign, i, k);
    if (weft__jinja_is_number(a, &x) && weft__jinja_is_number(b, &y))
        return a.kind == JINJA_BIG || b.kind == JINJA_BIG ? overflow(j)
                                                          : float_arithmetic(j, sign, x, y);
    if (strcmp(sign, "+") == 0 && a.kind == JINJA_STRING && b.kind == JINJA_STRING)
        return join_strings(j, a, b);
    if (strcmp(sign, "+") == 0 && is_row(a) && is_row(b) && a.as.list->form == b.as.list->form)
        return join_lists(j, a.as.list, b.as.list);
    if (strcmp(sign, "*") == 0 && right && (a.kind == JINJA_STRING || is_row(a)))
        return repeat(j, a, k);
    if (strcmp(sign, "*") == 0 && left && (b.kind == JINJA_STRING || is_row(b)))
        return repeat(j, b, i);
    if (strcmp(sign, "%") == 0 && a.kind == JINJA_STRING)
        return weft__jinja_percent(j, a, b);
    return mismatch(j, sign, a, b);
}

jinja_value weft__jinja_unary(jinja *j, char sign, jinja_value a)
{
    int64_t i = 0;
    if (weft__jinja_is_integer(a, &i))
        return sign != '-'      ? weft__jinja_int(i)
               : i == INT64_MIN ? weft__jinja_big("9223372036854775808", 19, false)
                                : weft__jinja_int(-i);
    if (a.kind == JINJA_BIG)
        return weft__jinja_big(a.as.s, a.n, a.negative != (sign == '-'));
    if (a.kind == JINJA_FLOAT)
        return weft__jinja_float(sign == '-' ? -a.as.f : a.as.f);
    const char type[] = {sign, '\0'};
    return mismatch(j, type, a, a);
}

/* ---- comparing ------------------------------------------------------------------------------ */

bool weft__jinja_contains(jinja *j, jinja_value box, jinja_value item)
{
    if (j->status)
        return false;
    if (box.kind == JINJA_STRING) {
        if (item.kind == JINJA_STRING)
            return weft__jinja_find(j, box, item, 0) <= box.n;
        weft__jinja_fail(j, "\"in\" a string expects a string, got \"%s\"", weft__jinja_type(item));
        return false;
    }
    if (box.kind == JINJA_DICT)
        return weft__jinja_get(j, box, item) != NULL;
    if (!weft__jinja_iterable(box)) {
        weft__jinja_fail(j, "\"in\" expects a string, a list or a dictionary, got \"%s\"",
                         weft__jinja_type(box));
        return false;
    }
    const jinja_list *list = weft__jinja_items(j, box);
    for (size_t i = 0; list && i < list->n && !j->status; i++)
        if (weft__jinja_equal(j, list->at[i], item))
            return true;
    return false;
}

bool weft__jinja_compare(jinja *j, const char *sign, jinja_value a, jinja_value b)
{
    if (strcmp(sign, "==") == 0)
        return weft__jinja_equal(j, a, b);
    if (strcmp(sign, "!=") == 0)
        return !weft__jinja_equal(j, a, b);
    if (strcmp(sign, "in") == 0)
        return weft__jinja_contains(j, b, a);
    if (strcmp(sign, "not in") == 0)
        return !weft__jinja_contains(j, b, a);
    if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED) {
        mismatch(j, sign, a, b);
        return false;
    }
    const int order = weft__jinja_order(j, a, b, sign);
    if (j->status || order == 2)
        return false;
    if (*sign == '<')
        return order < 0 || (sign[1] == '=' && order == 0);
    return order > 0 || (sign[1] == '=' && order == 0);
}

/* ---- members and items ---------------------------------------------------------------------- */

static jinja_value loop_member(jinja *j, const jinja_loop *loop, jinja_value name)
{
    const int64_t i = (int64_t)loop->index, n = (int64_t)loop->n;
    const struct {
        const char *name;
        jinja_value value;
    } members[] = {
        {"index", weft__jinja_int(i + 1)},
        {"index0", weft__jinja_int(i)},
        {"revindex", weft__jinja_int(n - i)},
        {"revindex0", weft__jinja_int(n - i - 1)},
        {"first", weft__jinja_bool(i == 0)},
        {"last", weft__jinja_bool(i == n - 1)},
        {"length", weft__jinja_int(n)},
        {"depth", weft__jinja_int(loop->depth)},
        {"depth0", weft__jinja_int(loop->depth - 1)},
        {"previtem",
         i > 0 ? loop->items->at[i - 1] : weft__jinja_undefined("there is no previous item")},
        {"nextitem",
         i + 1 < n ? loop->items->at[i + 1] : weft__jinja_undefined("there is no next item")},
    };
    for (size_t k = 0; k < sizeof members / sizeof *members; k++)
        if (weft__jinja_is(name, members[k].name))
            return members[k].value;
    return weft__jinja_method(
        j, (jinja_value){.kind = JINJA_LOOP, .as.loop = (struct jinja_loop *)(uintptr_t)loop},
        name);
}

/* An undefined value; messages use the name. */
static jinja_value absent(jinja *j, jinja_value name)
{
    if (name.kind != JINJA_STRING)
        return weft__jinja_undefined(NULL);
    char *copy = weft__jinja_take(j, name.n + 1);
    if (copy)
        memcpy(copy, name.as.s, name.n);
    return weft__jinja_undefined(copy);
}

static jinja_value refuse_undefined(jinja *j, jinja_value a)
{
    return weft__jinja_fail(j, "\"%s\" is undefined", weft_printable(a.as.s ? a.as.s : "a value"));
}

jinja_value weft__jinja_member(jinja *j, jinja_value a, jinja_value name)
{
    if (a.kind == JINJA_UNDEFINED)
        return refuse_undefined(j, a);
    if (a.kind == JINJA_LOOP)
        return loop_member(j, a.as.loop, name);
    const jinja_value method = weft__jinja_method(j, a, name);
    if (method.kind != JINJA_UNDEFINED)
        return method;
    if (a.kind == JINJA_DICT || a.kind == JINJA_NAMESPACE) {
        const jinja_value *member = weft__jinja_get(j, a, name);
        if (member)
            return *member;
    }
    return absent(j, name);
}

static jinja_value character_at(jinja *j, jinja_value s, int64_t index)
{
    int64_t n = 0;
    weft__jinja_length(s, &n);
    weft__jinja_charge(j, s.n / 16);
    if (index < 0)
        index += n;
    if (index < 0 || index >= n)
        return weft__jinja_undefined("the character");
    size_t at = 0;
    while (index-- > 0)
        at += (size_t)weft__utf8_step(s.as.s + at, s.n - at);
    return weft__jinja_view(s.as.s + at, (size_t)weft__utf8_step(s.as.s + at, s.n - at));
}

static bool indexed(jinja_value a)
{
    return a.kind == JINJA_LIST && a.as.list->form <= FORM_RANGE;
}

jinja_value weft__jinja_item(jinja *j, jinja_value a, jinja_value key)
{
    int64_t index = 0;
    if (a.kind == JINJA_UNDEFINED)
        return refuse_undefined(j, a);
    if (a.kind == JINJA_DICT) {
        if (key.kind == JINJA_LIST && key.as.list->form != FORM_TUPLE)
            return weft__jinja_undefined(NULL);
        const jinja_value *member = weft__jinja_get(j, a, key);
        if (member)
            return *member;
    } else if (weft__jinja_is_integer(key, &index) && a.kind == JINJA_STRING) {
        return character_at(j, a, index);
    } else if (weft__jinja_is_integer(key, &index) && indexed(a)) {
        const int64_t n = (int64_t)a.as.list->n;
        index += index < 0 ? n : 0;
        return index >= 0 && index < n ? a.as.list->at[index]
                                       : weft__jinja_undefined("the item of a list");
    }
    if (key.kind == JINJA_STRING)
        return weft__jinja_member(j, a, key);
    return weft__jinja_undefined(NULL);
}

/* Bounds of a slice over n items, by Python's rules. */
static bool bounds(jinja *j, jinja_value from, jinja_value to, jinja_value by, int64_t n,
                   int64_t out[3])
{
    const jinja_value *const given[] = {&from, &to, &by};
    bool left_out[3];
    for (int i = 0; i < 3; i++) {
        out[i] = 0;
        left_out[i] = given[i]->kind == JINJA_NONE;
        if (!left_out[i] && !weft__jinja_is_integer(*given[i], &out[i])) {
            weft__jinja_fail(j, "a slice expects integers, got \"%s\"",
                             weft__jinja_type(*given[i]));
            return false;
        }
    }
    if (left_out[2])
        out[2] = 1;
    if (out[2] == 0) {
        weft__jinja_fail(j, "the step of a slice is 0");
        return false;
    }
    const bool back = out[2] < 0;
    for (int i = 0; i < 2; i++) {
        if (left_out[i]) {
            out[i] = (i == 0) != back ? 0 : n;
            if (back)
                out[i] = i == 0 ? n - 1 : -1;
            continue;
        }
        out[i] += out[i] < 0 ? n : 0;
        const int64_t low = back ? -1 : 0, high = back ? n - 1 : n;
        out[i] = out[i] < low ? low : out[i] > high ? high : out[i];
    }
    return true;
}

/* The byte position of the character that is `steps` characters away from the one at `at`. */
static size_t seek(const char *s, size_t n, size_t at, int64_t steps)
{
    for (; steps > 0 && at < n; steps--)
        at += (size_t)weft__utf8_step(s + at, n - at);
    return at;
}

static jinja_value slice_string(jinja *j, jinja_value s, const int64_t range[3])
{
    weft__jinja_charge(j, s.n / 16);
    if (range[2] == 1) {
        if (range[1] <= range[0])
            return weft__jinja_view("", 0);
        const size_t start = seek(s.as.s, s.n, 0, range[0]);
        const size_t end = seek(s.as.s, s.n, start, range[1] - range[0]);
        jinja_value part = weft__jinja_view(s.as.s + start, end - start);
        part.safe = s.safe;
        return part;
    }
    const jinja_list *all = weft__jinja_items(j, s);
    jinja_buffer out = {0};
    for (int64_t i = range[0]; all && (range[2] > 0 ? i < range[1] : i > range[1]) && !j->status;
         i += range[2])
        weft__jinja_append(j, &out, all->at[i].as.s, all->at[i].n);
    return weft__jinja_taken(&out);
}

jinja_value weft__jinja_slice(jinja *j, jinja_value a, jinja_value from, jinja_value to,
                              jinja_value step)
{
    int64_t range[3], n = 0;
    if (a.kind == JINJA_UNDEFINED)
        return refuse_undefined(j, a);
    if (a.kind != JINJA_STRING && !indexed(a))
        return weft__jinja_fail(j, "\"%s\" cannot be sliced", weft__jinja_type(a));
    weft__jinja_length(a, &n);
    if (!bounds(j, from, to, step, n, range))
        return weft__jinja_undefined(NULL);
    if (range[2] > n + 1 || range[2] < -n - 1) /* at most one item */
        range[2] = range[2] > 0 ? n + 1 : -n - 1;
    if (a.kind == JINJA_STRING)
        return slice_string(j, a, range);
    const jinja_value part = weft__jinja_list(j, a.as.list->form);
    for (int64_t i = range[0]; (range[2] > 0 ? i < range[1] : i > range[1]) && !j->status;
         i += range[2])
        weft__jinja_push(j, part, a.as.list->at[i]);
    return part;
}
