/* text/jinja/text.c -- converts values to text: Python's str() and repr(), and JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/io/utf8.h"
#include "text/jinja/value.h"

/* ---- numbers -------------------------------------------------------------------------------- */

int weft__jinja_float_text(double value, char out[JINJA_FLOAT_TEXT])
{
    if (isnan(value))
        return snprintf(out, JINJA_FLOAT_TEXT, "nan");
    if (isinf(value))
        return snprintf(out, JINJA_FLOAT_TEXT, value < 0 ? "-inf" : "inf");
    char text[JINJA_FLOAT_TEXT], digits[24];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, value);
        if (strtod(text, NULL) == value)
            break;
    }
    /* Skips the locale's decimal separator. */
    const char *e = strchr(text, 'e');
    const int exponent = (int)strtol(e + 1, NULL, 10);
    int n = 0;
    for (const char *p = text; p < e; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    digits[n] = '\0';
    const char *minus = signbit(value) ? "-" : "";
    if (exponent < -4 || exponent >= 16)
        return snprintf(out, JINJA_FLOAT_TEXT, "%s%c%s%se%c%02d", minus, digits[0],
                        n > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+', abs(exponent));
    if (exponent < 0)
        return snprintf(out, JINJA_FLOAT_TEXT, "%s0.%.*s%s", minus, -exponent - 1, "000", digits);
    if (n <= exponent + 1)
        return snprintf(out, JINJA_FLOAT_TEXT, "%s%s%.*s.0", minus, digits, exponent + 1 - n,
                        "0000000000000000");
    return snprintf(out, JINJA_FLOAT_TEXT, "%s%.*s.%s", minus, exponent + 1, digits,
                    digits + exponent + 1);
}

/* ---- characters and strings ----------------------------------------------------------------- */

static void append(jinja *j, jinja_buffer *out, const char *text)
{
    weft__jinja_append(j, out, text, strlen(text));
}

static bool printable(uint32_t code)
{
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_ZS:
        return code == ' ';
    default:
        return true;
    }
}

enum { ESCAPED = 16 };

/* Python's escape of a character in a string between such quotes; "": it is not escaped. */
static void repr_escape(uint32_t code, char quote, char out[ESCAPED])
{
    out[0] = '\0';
    if (code == (unsigned char)quote || code == '\\')
        snprintf(out, ESCAPED, "\\%c", (char)code);
    else if (code == '\n' || code == '\r' || code == '\t')
        snprintf(out, ESCAPED, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
    else if (!printable(code))
        snprintf(out, ESCAPED,
                 code < 0x100     ? "\\x%02" PRIx32
                 : code < 0x10000 ? "\\u%04" PRIx32
                                  : "\\U%08" PRIx32,
                 code);
}

/* The same of JSON. */
static void json_escape(uint32_t code, bool ascii, char out[ESCAPED])
{
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *known = code > 0 && code < 0x80 ? strchr(plain, (int)code) : NULL;
    out[0] = '\0';
    if (known)
        snprintf(out, ESCAPED, "\\%c", letters[known - plain]);
    else if (code < 0x20 || (ascii && code >= 0x7f && code < 0x10000 && code != 0x7f))
        snprintf(out, ESCAPED, "\\u%04" PRIx32, code);
    else if (ascii && code >= 0x10000)
        snprintf(out, ESCAPED, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + ((code - 0x10000) >> 10),
                 0xdc00 + ((code - 0x10000) & 0x3ff));
}

static void write_string(jinja *j, jinja_buffer *out, jinja_value s, const jinja_style *style)
{
    const bool single =
        style->python && !(s.n > 0 && memchr(s.as.s, '\'', s.n) && !memchr(s.as.s, '"', s.n));
    const char quote = single ? '\'' : '"';
    weft__jinja_append(j, out, &quote, 1);
    for (size_t i = 0; i < s.n && !j->status;) {
        const int size = weft__utf8_step(s.as.s + i, s.n - i);
        const uint32_t code = size > 0 ? weft__utf8_decode(s.as.s + i, size) : 0;
        char escaped[ESCAPED] = "";
        if (size > 0 && style->python)
            repr_escape(code, quote, escaped);
        else if (size > 0)
            json_escape(code, style->ascii, escaped);
        if (escaped[0])
            append(j, out, escaped);
        else if (size > 0)
            weft__jinja_append(j, out, s.as.s + i, (size_t)size);
        i += size > 0 ? (size_t)size : 1;
    }
    weft__jinja_append(j, out, &quote, 1);
}

/* ---- lists and dictionaries ----------------------------------------------------------------- */

static void write_value(jinja *j, jinja_buffer *out, jinja_value value, const jinja_style *style,
                        int level);

/* What is before an item, or after the last one (`first`, with the level around). */
static void write_break(jinja *j, jinja_buffer *out, const jinja_style *style, bool first,
                        int level)
{
    if (!first)
        weft__jinja_append(j, out, style->item, style->n_item);
    append(j, out, style->indent ? "\n" : "");
    for (int i = 0; style->indent && i < level && !j->status; i++)
        weft__jinja_append(j, out, style->indent, style->n_indent);
}

static void write_list(jinja *j, jinja_buffer *out, const jinja_list *list,
                       const jinja_style *style, int level)
{
    static const char *const opening[] = {
        "[", "(", "range(", "dict_keys([", "dict_values([", "dict_items([", "<generator object"};
    static const char *const closing[] = {"]", ")", ")", "])", "])", "])", ">"};
    const jinja_form form = style->python ? list->form : FORM_LIST;
    append(j, out, opening[form]);
    for (size_t i = 0; i < list->n && form != FORM_GENERATOR && !j->status; i++) {
        if (form == FORM_RANGE && i > 0)
            break;
        write_break(j, out, style, i == 0, level + 1);
        write_value(j, out, list->at[i], style, level + 1);
    }
    if (list->n > 0)
        write_break(j, out, style, true, level);
    if (form == FORM_TUPLE && list->n == 1)
        append(j, out, ",");
    if (form == FORM_RANGE) {
        /* A range keeps only its end; ranges with step 1 are printed as written. */
        char end[32];
        const int64_t last = list->n > 0 ? list->at[list->n - 1].as.i + 1 : 0;
        snprintf(end, sizeof end, list->n > 0 ? ", %" PRId64 : "0, %" PRId64, last);
        append(j, out, end);
    }
    append(j, out, closing[form]);
}

static void write_key(jinja *j, jinja_buffer *out, jinja_value key, const jinja_style *style,
                      int level)
{
    const char *quote = style->python || key.kind == JINJA_STRING ? "" : "\"";
    if (!style->python && (key.kind == JINJA_LIST || key.kind == JINJA_UNDEFINED))
        weft__jinja_fail(j, "tojson: keys must be strings, numbers, booleans or none, got \"%s\"",
                         weft__jinja_type(key));
    append(j, out, quote);
    write_value(j, out, key, style, level);
    append(j, out, quote);
    weft__jinja_append(j, out, style->key, style->n_key);
}

typedef struct sort_item {
    const jinja_entry *entry;
} sort_item;

static int by_key(const void *a, const void *b)
{
    const jinja_value x = ((const sort_item *)a)->entry->key,
                      y = ((const sort_item *)b)->entry->key;
    const size_t n = x.n < y.n ? x.n : y.n;
    const int order = n > 0 ? memcmp(x.as.s, y.as.s, n) : 0;
    return order ? order : (x.n > y.n) - (x.n < y.n);
}

/* The members in order; sorting requires string keys. */
static sort_item *members(jinja *j, const jinja_dict *dict, bool sorted)
{
    sort_item *items = weft__jinja_take(j, (dict->n + 1) * sizeof *items);
    for (size_t i = 0; i < dict->n && items; i++) {
        items[i].entry = &dict->at[i];
        if (sorted && dict->at[i].key.kind != JINJA_STRING)
            weft__jinja_fail(j, "tojson: sort_keys expects keys that are strings, got \"%s\"",
                             weft__jinja_type(dict->at[i].key));
    }
    if (items && sorted && !j->status && dict->n > 1)
        qsort(items, dict->n, sizeof *items, by_key);
    return items;
}

static void write_dict(jinja *j, jinja_buffer *out, const jinja_dict *dict,
                       const jinja_style *style, int level)
{
    const sort_item *items = members(j, dict, style->sorted);
    append(j, out, "{");
    for (size_t i = 0; i < dict->n && !j->status; i++) {
        write_break(j, out, style, i == 0, level + 1);
        write_key(j, out, items[i].entry->key, style, level + 1);
        write_value(j, out, items[i].entry->value, style, level + 1);
    }
    if (dict->n > 0)
        write_break(j, out, style, true, level);
    append(j, out, "}");
}

/* ---- values --------------------------------------------------------------------------------- */

static void write_float(jinja *j, jinja_buffer *out, double value, const jinja_style *style)
{
    char text[JINJA_FLOAT_TEXT];
    weft__jinja_float_text(value, text);
    append(j, out,
           style->python || isfinite(value) ? text
           : isnan(value)                   ? "NaN"
           : value < 0                      ? "-Infinity"
                                            : "Infinity");
}

/* What only Python's repr() can write. */
static void write_other(jinja *j, jinja_buffer *out, jinja_value value, const jinja_style *style,
                        int level)
{
    char text[64];
    if (!style->python) {
        weft__jinja_fail(j, "tojson: \"%s\" has no form in JSON", weft__jinja_type(value));
    } else if (value.kind == JINJA_NAMESPACE) {
        append(j, out, "<Namespace ");
        write_dict(j, out, value.as.dict, style, level);
        append(j, out, ">");
    } else {
        snprintf(text, sizeof text, "<%s>", weft__jinja_type(value));
        append(j, out,
               value.kind == JINJA_UNDEFINED ? "Undefined"
               : value.kind == JINJA_MISSING ? "None"
                                             : text);
    }
}

static void write_value(jinja *j, jinja_buffer *out, jinja_value value, const jinja_style *style,
                        int level)
{
    static const char *const words[][2] = {{"null", "None"}, {"false", "False"}, {"true", "True"}};
    char text[64];
    const bool python = style->python;
    if (!weft__jinja_enter(j))
        return;
    if (value.kind == JINJA_NONE || value.kind == JINJA_BOOL) {
        append(j, out, words[value.kind == JINJA_BOOL ? 1 + value.as.b : 0][python]);
    } else if (value.kind == JINJA_INT) {
        snprintf(text, sizeof text, "%" PRId64, value.as.i);
        append(j, out, text);
    } else if (value.kind == JINJA_BIG) {
        append(j, out, value.negative ? "-" : "");
        weft__jinja_append(j, out, value.as.s, value.n);
    } else if (value.kind == JINJA_FLOAT) {
        write_float(j, out, value.as.f, style);
    } else if (value.kind == JINJA_STRING) {
        append(j, out, python && value.safe ? "Markup(" : "");
        write_string(j, out, value, style);
        append(j, out, python && value.safe ? ")" : "");
    } else if (value.kind == JINJA_LIST && (python || value.as.list->form <= FORM_TUPLE)) {
        write_list(j, out, value.as.list, style, level);
    } else if (value.kind == JINJA_DICT) {
        write_dict(j, out, value.as.dict, style, level);
    } else {
        write_other(j, out, value, style, level);
    }
    weft__jinja_leave(j);
}

void weft__jinja_write_json(jinja *j, jinja_buffer *out, jinja_value value,
                            const jinja_style *style)
{
    write_value(j, out, value, style, 0);
}

void weft__jinja_write_repr(jinja *j, jinja_buffer *out, jinja_value value)
{
    static const jinja_style style = {
        .python = true, .item = ", ", .n_item = 2, .key = ": ", .n_key = 2};
    write_value(j, out, value, &style, 0);
}

void weft__jinja_write(jinja *j, jinja_buffer *out, jinja_value value)
{
    if (value.kind == JINJA_STRING)
        weft__jinja_append(j, out, value.as.s, value.n);
    else if (value.kind != JINJA_UNDEFINED)
        weft__jinja_write_repr(j, out, value);
}

jinja_value weft__jinja_text(jinja *j, jinja_value value)
{
    if (value.kind == JINJA_STRING)
        return value;
    jinja_buffer buffer = {0};
    weft__jinja_write(j, &buffer, value);
    return j->status ? weft__jinja_undefined(NULL) : weft__jinja_taken(&buffer);
}
