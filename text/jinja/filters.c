/* text/jinja/filters.c -- the filters for strings and numbers. */
#include <math.h>
#include <string.h>

#include "core/io/utf8.h"
#include "text/jinja/node.h"
#include "text/jinja/tables.h"

/* ---- texts ---------------------------------------------------------------------------------- */

static jinja_value filter_upper(jinja *j, jinja_value v, const jinja_args *args)
{
    return weft__jinja_no_arguments(j, "upper", args)
               ? weft__jinja_change_case(j, weft__jinja_text(j, v), CASE_UPPER)
               : weft__jinja_nothing();
}

static jinja_value filter_lower(jinja *j, jinja_value v, const jinja_args *args)
{
    return weft__jinja_no_arguments(j, "lower", args)
               ? weft__jinja_change_case(j, weft__jinja_text(j, v), CASE_LOWER)
               : weft__jinja_nothing();
}

static jinja_value filter_capitalize(jinja *j, jinja_value v, const jinja_args *args)
{
    return weft__jinja_no_arguments(j, "capitalize", args)
               ? weft__jinja_change_case(j, weft__jinja_text(j, v), CASE_CAPITALIZE)
               : weft__jinja_nothing();
}

/* Word separators of Jinja's title: white space and - ( { [ <. */
static bool separates(uint32_t code)
{
    return weft__jinja_space(code) || (code < 0x80 && code > 0 && strchr("-({[<", (int)code));
}

static jinja_value filter_title(jinja *j, jinja_value v, const jinja_args *args)
{
    if (!weft__jinja_no_arguments(j, "title", args))
        return weft__jinja_nothing();
    const jinja_value s = weft__jinja_text(j, v);
    jinja_buffer out = {0};
    for (size_t start = 0; start < s.n && !j->status;) {
        size_t end = start, first = 0;
        bool between = false;
        while (end < s.n) {
            const int size = weft__utf8_step(s.as.s + end, s.n - end);
            const bool separator = separates(weft__utf8_decode(s.as.s + end, size));
            if (end == start) {
                between = separator;
                first = (size_t)size;
            } else if (separator != between) {
                break;
            }
            end += (size_t)size;
        }
        const jinja_value head =
            weft__jinja_change_case(j, weft__jinja_view(s.as.s + start, first), CASE_UPPER);
        const jinja_value tail = weft__jinja_change_case(
            j, weft__jinja_view(s.as.s + start + first, end - start - first), CASE_LOWER);
        weft__jinja_write(j, &out, head);
        weft__jinja_write(j, &out, tail);
        start = end;
    }
    return weft__jinja_taken(&out);
}

static jinja_value filter_trim(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value characters;
    if (!weft__jinja_arguments(j, "trim", args, "chars", &characters))
        return weft__jinja_nothing();
    v = weft__jinja_text(j, v);
    return j->status ? weft__jinja_nothing() : weft__jinja_trim(j, v, characters, true, true);
}

static jinja_value filter_string(jinja *j, jinja_value v, const jinja_args *args)
{
    return weft__jinja_no_arguments(j, "string", args) ? weft__jinja_text(j, v)
                                                       : weft__jinja_nothing();
}

static jinja_value filter_safe(jinja *j, jinja_value v, const jinja_args *args)
{
    if (!weft__jinja_no_arguments(j, "safe", args))
        return weft__jinja_nothing();
    v = weft__jinja_text(j, v);
    v.safe = v.kind == JINJA_STRING;
    return v;
}

jinja_value weft__jinja_escape(jinja *j, jinja_value value)
{
    static const char plain[] = "&<>'\"";
    static const char *const escaped[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    jinja_value s = weft__jinja_text(j, value);
    jinja_buffer out = {0};
    if (j->status || s.safe)
        return s;
    for (size_t i = 0; i < s.n && !j->status; i++) {
        const char *at = s.as.s[i] ? strchr(plain, s.as.s[i]) : NULL;
        if (at)
            weft__jinja_append(j, &out, escaped[at - plain], strlen(escaped[at - plain]));
        else
            weft__jinja_append(j, &out, s.as.s + i, 1);
    }
    s = weft__jinja_taken(&out);
    s.safe = true;
    return s;
}

static jinja_value filter_escape(jinja *j, jinja_value v, const jinja_args *args)
{
    return weft__jinja_no_arguments(j, "escape", args) ? weft__jinja_escape(j, v)
                                                       : weft__jinja_nothing();
}

static jinja_value filter_replace(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value given[3];
    int64_t count = -1;
    if (!weft__jinja_arguments(j, "replace", args, "old,new,count", given) ||
        !weft__jinja_integer_argument(j, "replace", given[2], -1, &count))
        return weft__jinja_nothing();
    const jinja_value s = weft__jinja_text(j, v), old = weft__jinja_text(j, given[0]);
    const jinja_value fresh = weft__jinja_text(j, given[1]);
    return j->status ? weft__jinja_nothing() : weft__jinja_replace(j, s, old, fresh, count);
}

static jinja_value filter_indent(jinja *j, jinja_value v, const jinja_args *args)
{
    static const jinja_args no_arguments = {0};
    jinja_value given[3];
    int64_t width = 4;
    if (!weft__jinja_arguments(j, "indent", args, "width,first,blank", given) ||
        (given[0].kind != JINJA_STRING &&
         !weft__jinja_integer_argument(j, "indent", given[0], 4, &width)) ||
        !weft__jinja_string_argument(j, "indent", v))
        return weft__jinja_nothing();
    const bool first = weft__jinja_truth(j, given[1]), blank = weft__jinja_truth(j, given[2]);
    const jinja_value indent =
        given[0].kind == JINJA_STRING
            ? given[0]
            : weft__jinja_binary(j, "*", weft__jinja_view(" ", 1), weft__jinja_int(width));
    jinja_buffer text = {0}, out = {0};
    weft__jinja_write(j, &text, v);
    weft__jinja_append(j, &text, "\n", 1); /* splitlines would drop an empty last line */
    const jinja_value method =
        weft__jinja_method(j, weft__jinja_taken(&text), weft__jinja_view("splitlines", 10));
    const jinja_value lines = weft__jinja_call(j, method, &no_arguments);
    for (size_t i = 0; !j->status && i < lines.as.list->n; i++) {
        const jinja_value line = lines.as.list->at[i];
        if (i > 0)
            weft__jinja_append(j, &out, "\n", 1);
        if (i == 0 ? first : blank || line.n > 0)
            weft__jinja_write(j, &out, indent);
        weft__jinja_write(j, &out, line);
    }
    jinja_value result = weft__jinja_taken(&out);
    result.safe = v.safe;
    return result;
}

static jinja_value filter_center(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value width;
    if (!weft__jinja_arguments(j, "center", args, "width", &width))
        return weft__jinja_nothing();
    if (width.kind == JINJA_MISSING)
        width = weft__jinja_int(80);
    const jinja_args given = {.at = &width, .n = 1};
    v = weft__jinja_text(j, v);
    return weft__jinja_call(j, weft__jinja_method(j, v, weft__jinja_view("center", 6)), &given);
}

static jinja_value filter_truncate(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value given[4];
    int64_t length = 255, leeway = 5, n = 0, n_end = 3;
    if (!weft__jinja_arguments(j, "truncate", args, "length,killwords,end,leeway", given) ||
        !weft__jinja_integer_argument(j, "truncate", given[0], 255, &length) ||
        !weft__jinja_integer_argument(j, "truncate", given[3], 5, &leeway))
        return weft__jinja_nothing();
    const jinja_value end = given[2].kind == JINJA_STRING ? given[2] : weft__jinja_view("...", 3);
    weft__jinja_length(end, &n_end);
    const bool measured = weft__jinja_length(v, &n);
    if (length < n_end)
        return weft__jinja_fail(j, "truncate: expected a length of at least that of the end");
    if (measured && n <= length + leeway)
        return v;
    if (!weft__jinja_string_argument(j, "truncate", v))
        return weft__jinja_nothing();
    jinja_value head = weft__jinja_slice(j, v, weft__jinja_none(), weft__jinja_int(length - n_end),
                                         weft__jinja_none());
    if (!weft__jinja_truth(j, given[1]) && !j->status) {
        size_t at = head.n;
        while (at > 0 && head.as.s[at - 1] != ' ')
            at--;
        head.n = at > 0 ? at - 1 : head.n;
    }
    return j->status ? weft__jinja_nothing() : weft__jinja_binary(j, "+", head, end);
}

static jinja_value filter_wordcount(jinja *j, jinja_value v, const jinja_args *args)
{
    if (!weft__jinja_no_arguments(j, "wordcount", args))
        return weft__jinja_nothing();
    const jinja_value s = weft__jinja_text(j, v);
    int64_t count = 0;
    bool inside = false;
    for (size_t i = 0; i < s.n && !j->status; i++) {
        const unsigned char c = (unsigned char)s.as.s[i];
        const bool word =
            c >= 0x80 || c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
        count += word && !inside;
        inside = word;
    }
    return weft__jinja_int(count);
}

static jinja_value filter_format(jinja *j, jinja_value v, const jinja_args *args)
{
    if (args->n > 0 && args->n_named > 0)
        return weft__jinja_fail(j, "format: expected arguments with names or without, got both");
    const bool named = args->n_named > 0;
    const jinja_value given = named ? weft__jinja_dict(j) : weft__jinja_list(j, FORM_TUPLE);
    for (size_t i = 0; i < args->n && !j->status; i++)
        weft__jinja_push(j, given, args->at[i]);
    for (size_t i = 0; i < args->n_named && !j->status; i++)
        weft__jinja_put(j, given, args->named[i].key, args->named[i].value);
    v = weft__jinja_text(j, v);
    return j->status ? weft__jinja_nothing() : weft__jinja_percent(j, v, given);
}

/* Reads the separators of JSON, a tuple of two strings. */
static bool read_separators(jinja *j, jinja_value given, jinja_style *style)
{
    if (given.kind == JINJA_MISSING || given.kind == JINJA_NONE)
        return true;
    if (given.kind != JINJA_LIST || given.as.list->n != 2 ||
        given.as.list->at[0].kind != JINJA_STRING || given.as.list->at[1].kind != JINJA_STRING) {
        weft__jinja_fail(j, "tojson: expected two strings as separators");
        return false;
    }
    style->item = given.as.list->at[0].as.s;
    style->n_item = given.as.list->at[0].n;
    style->key = given.as.list->at[1].as.s;
    style->n_key = given.as.list->at[1].n;
    return true;
}

jinja_value weft__jinja_tojson(jinja *j, jinja_value value, const jinja_args *args)
{
    jinja_value given[4];
    int64_t width = 0;
    jinja_buffer out = {0};
    if (!weft__jinja_arguments(j, "tojson", args, "ensure_ascii,indent,separators,sort_keys",
                               given))
        return weft__jinja_nothing();
    jinja_style style = {.item = ", ", .n_item = 2, .key = ": ", .n_key = 2};
    style.ascii = weft__jinja_truth(j, given[0]);
    style.sorted = weft__jinja_truth(j, given[3]);
    if (given[1].kind != JINJA_MISSING && given[1].kind != JINJA_NONE) {
        if (given[1].kind != JINJA_STRING &&
            !weft__jinja_integer_argument(j, "tojson", given[1], 0, &width))
            return weft__jinja_nothing();
        if (given[1].kind != JINJA_STRING)
            given[1] = weft__jinja_binary(j, "*", weft__jinja_view(" ", 1), weft__jinja_int(width));
        style.indent = given[1].as.s;
        style.n_indent = given[1].n;
        style.n_item = 1;
    }
    if (j->status || !read_separators(j, given[2], &style))
        return weft__jinja_nothing();
    weft__jinja_write_json(j, &out, value, &style);
    return weft__jinja_taken(&out);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static jinja_value filter_int(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value given[2];
    int64_t base = 10;
    double number = 0;
    if (!weft__jinja_arguments(j, "int", args, "default,base", given) ||
        !weft__jinja_integer_argument(j, "int", given[1], 10, &base))
        return weft__jinja_nothing();
    const jinja_value fallback = given[0].kind == JINJA_MISSING ? weft__jinja_int(0) : given[0];
    if (v.kind == JINJA_UNDEFINED)
        return weft__jinja_fail(j, "\"%s\" is undefined",
                                weft_printable(v.as.s ? v.as.s : "a value"));
    if (base < 2 || base > 36)
        return weft__jinja_fail(j, "int: expected a base from 2 to 36");
    if (v.kind == JINJA_INT || v.kind == JINJA_BIG)
        return v;
    if (v.kind == JINJA_STRING) {
        const jinja_value integer = weft__jinja_integer_of(j, v, (int)base);
        if (integer.kind != JINJA_UNDEFINED)
            return integer;
        if (!weft__jinja_to_number(v, &number) || isinf(number))
            return fallback;
    } else if (!weft__jinja_is_number(v, &number)) {
        return fallback;
    }
    if (isinf(number))
        return weft__jinja_fail(j, "int: infinity is not an integer");
    return isnan(number) ? fallback : weft__jinja_truncated(j, number);
}

static jinja_value filter_float(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value fallback;
    double number = 0;
    if (!weft__jinja_arguments(j, "float", args, "default", &fallback))
        return weft__jinja_nothing();
    if (v.kind == JINJA_UNDEFINED)
        return weft__jinja_fail(j, "\"%s\" is undefined",
                                weft_printable(v.as.s ? v.as.s : "a value"));
    if (weft__jinja_is_number(v, &number) ||
        (v.kind == JINJA_STRING && weft__jinja_to_number(v, &number)))
        return isinf(number) && v.kind == JINJA_BIG
                   ? weft__jinja_fail(j, "float: the integer is too large")
                   : weft__jinja_float(number);
    return fallback.kind == JINJA_MISSING ? weft__jinja_float(0) : fallback;
}

static jinja_value filter_abs(jinja *j, jinja_value v, const jinja_args *args)
{
    double number = 0;
    if (!weft__jinja_no_arguments(j, "abs", args))
        return weft__jinja_nothing();
    if (!weft__jinja_is_number(v, &number))
        return weft__jinja_fail(j, "abs: expected a number, got \"%s\"", weft__jinja_type(v));
    return weft__jinja_unary(j, signbit(number) ? '-' : '+', v);
}

/* Rounds halves to an even last digit, as Python does, using the exact decimal representation. */
static double round_decimals(jinja *j, double value, int64_t decimals)
{
    if (decimals < 0) {
        const double scale = pow(10, (double)-decimals);
        return nearbyint(value / scale) * scale;
    }
    jinja_value number = weft__jinja_float(value);
    char form[] = "%.00f";
    form[2] = (char)('0' + decimals / 10);
    form[3] = (char)('0' + decimals % 10);
    const jinja_value text = weft__jinja_percent(j, weft__jinja_view(form, 5), number);
    weft__jinja_to_number(text, &value);
    return value;
}

static jinja_value filter_round(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value given[2];
    int64_t decimals = 0, integer = 0;
    double number = 0;
    if (!weft__jinja_arguments(j, "round", args, "precision,method", given) ||
        !weft__jinja_integer_argument(j, "round", given[0], 0, &decimals))
        return weft__jinja_nothing();
    if (!weft__jinja_is_number(v, &number))
        return weft__jinja_fail(j, "round: expected a number, got \"%s\"", weft__jinja_type(v));
    const bool common = given[1].kind == JINJA_MISSING || weft__jinja_is(given[1], "common");
    const bool up = weft__jinja_is(given[1], "ceil");
    if (!common && !up && !weft__jinja_is(given[1], "floor"))
        return weft__jinja_fail(j, "round: expected \"common\", \"ceil\" or \"floor\"");
    if (decimals < -18 || decimals > 50)
        return weft__jinja_fail(j, "round: expected a precision from -18 to 50");
    if (common && weft__jinja_is_integer(v, &integer) && decimals >= 0)
        return weft__jinja_int(integer);
    if (v.kind == JINJA_BIG)
        return common && decimals >= 0 ? v : weft__jinja_fail(j, "an integer is beyond 64 bits");
    if (common) {
        const double rounded = round_decimals(j, number, decimals);
        return v.kind == JINJA_FLOAT ? weft__jinja_float(rounded)
                                     : weft__jinja_int((int64_t)rounded);
    }
    const double scale = pow(10, (double)decimals);
    const double whole = up ? ceil(number * scale) : floor(number * scale);
    return weft__jinja_float((whole + 0.0) / scale); /* Python's floor and ceil have no -0 */
}

static jinja_value filter_default(jinja *j, jinja_value v, const jinja_args *args)
{
    jinja_value given[2];
    if (!weft__jinja_arguments(j, "default", args, "default_value,boolean", given))
        return weft__jinja_nothing();
    const bool falsy = weft__jinja_truth(j, given[1]) && !weft__jinja_truth(j, v);
    if (v.kind != JINJA_UNDEFINED && !falsy)
        return v;
    return given[0].kind == JINJA_MISSING ? weft__jinja_view("", 0) : given[0];
}

const jinja_row weft__jinja_text_filters[] = {
    {"upper", filter_upper},
    {"lower", filter_lower},
    {"capitalize", filter_capitalize},
    {"title", filter_title},
    {"trim", filter_trim},
    {"string", filter_string},
    {"safe", filter_safe},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"replace", filter_replace},
    {"indent", filter_indent},
    {"center", filter_center},
    {"truncate", filter_truncate},
    {"wordcount", filter_wordcount},
    {"format", filter_format},
    {"tojson", weft__jinja_tojson},
    {"int", filter_int},
    {"float", filter_float},
    {"abs", filter_abs},
    {"round", filter_round},
    {"default", filter_default},
    {"d", filter_default},
    {NULL, NULL},
};
