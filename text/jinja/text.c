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

/* ---- str and repr --------------------------------------------------------------------------- */

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

static void repr_character(jinja *j, jinja_buffer *out, const char *text, int size, char quote)
{
    char escaped[16];
    const uint32_t code = weft__utf8_decode(text, size);
    if (code == (unsigned char)quote || code == '\\')
        snprintf(escaped, sizeof escaped, "\\%c", (char)code);
    else if (code == '\n' || code == '\r' || code == '\t')
        snprintf(escaped, sizeof escaped, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
    else if (printable(code)) {
        weft__jinja_append(j, out, text, (size_t)size);
        return;
    } else
        snprintf(escaped, sizeof escaped,
                 code < 0x100     ? "\\x%02" PRIx32
                 : code < 0x10000 ? "\\u%04" PRIx32
                                  : "\\U%08" PRIx32,
                 code);
    append(j, out, escaped);
}

static void repr_string(jinja *j, jinja_buffer *out, jinja_value s)
{
    const bool single = s.n > 0 && memchr(s.as.s, '\'', s.n);
    const char quote = single && !memchr(s.as.s, '"', s.n) ? '"' : '\'';
    weft__jinja_append(j, out, &quote, 1);
    for (size_t i = 0; i < s.n && !j->status;) {
        const int size = weft__utf8_step(s.as.s + i, s.n - i);
        if (size > 0)
            repr_character(j, out, s.as.s + i, size, quote);
        i += size > 0 ? (size_t)size : 1;
    }
    weft__jinja_append(j, out, &quote, 1);
}

static void repr_list(jinja *j, jinja_buffer *out, const jinja_list *list)
{
    static const char *const opening[] = {
        "[", "(", "range(", "dict_keys([", "dict_values([", "dict_items([", "<generator object"};
    static const char *const closing[] = {"]", ")", ")", "])", "])", "])", ">"};
    append(j, out, opening[list->form]);
    for (size_t i = 0; i < list->n && list->form != FORM_GENERATOR && !j->status; i++) {
        if (list->form == FORM_RANGE && i > 0)
            break;
        append(j, out, i > 0 ? ", " : "");
        weft__jinja_write_repr(j, out, list->at[i]);
    }
    if (list->form == FORM_TUPLE && list->n == 1)
        append(j, out, ",");
    if (list->form == FORM_RANGE) {
        /* A range keeps only its end; ranges with step 1 are printed as written. */
        char end[32];
        const int64_t last = list->n > 0 ? list->at[list->n - 1].as.i + 1 : 0;
        snprintf(end, sizeof end, list->n > 0 ? ", %" PRId64 : "0, %" PRId64, last);
        append(j, out, end);
    }
    append(j, out, closing[list->form]);
}

static void repr_dict(jinja *j, jinja_buffer *out, jinja_value value)
{
    const jinja_dict *dict = value.as.dict;
    append(j, out, value.kind == JINJA_NAMESPACE ? "<Namespace {" : "{");
    for (size_t i = 0; i < dict->n && !j->status; i++) {
        append(j, out, i > 0 ? ", " : "");
        weft__jinja_write_repr(j, out, dict->at[i].key);
        append(j, out, ": ");
        weft__jinja_write_repr(j, out, dict->at[i].value);
    }
    append(j, out, value.kind == JINJA_NAMESPACE ? "}>" : "}");
}

void weft__jinja_write_repr(jinja *j, jinja_buffer *out, jinja_value value)
{
    char text[64];
    if (!weft__jinja_enter(j))
        return;
    switch (value.kind) {
    case JINJA_UNDEFINED:
        append(j, out, "Undefined");
        break;
    case JINJA_MISSING:
    case JINJA_NONE:
        append(j, out, "None");
        break;
    case JINJA_BOOL:
        append(j, out, value.as.b ? "True" : "False");
        break;
    case JINJA_INT:
        snprintf(text, sizeof text, "%" PRId64, value.as.i);
        append(j, out, text);
        break;
    case JINJA_BIG:
        append(j, out, value.negative ? "-" : "");
        weft__jinja_append(j, out, value.as.s, value.n);
        break;
    case JINJA_FLOAT:
        weft__jinja_float_text(value.as.f, text);
        append(j, out, text);
        break;
    case JINJA_STRING:
        if (value.safe)
            append(j, out, "Markup(");
        repr_string(j, out, value);
        if (value.safe)
            append(j, out, ")");
        break;
    case JINJA_LIST:
        repr_list(j, out, value.as.list);
        break;
    case JINJA_DICT:
    case JINJA_NAMESPACE:
        repr_dict(j, out, value);
        break;
    default:
        snprintf(text, sizeof text, "<%s>", weft__jinja_type(value));
        append(j, out, text);
        break;
    }
    weft__jinja_leave(j);
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

/* ---- JSON ----------------------------------------------------------------------------------- */

static void json_character(jinja *j, jinja_buffer *out, const char *text, int size, bool ascii)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    char escaped[16];
    const uint32_t code = weft__utf8_decode(text, size);
    const char *known = code > 0 && code < 0x80 ? strchr(plain, (int)code) : NULL;
    if (known)
        snprintf(escaped, sizeof escaped, "\\%c", letters[known - plain]);
    else if (code < 0x20 || (ascii && code >= 0x7f && code < 0x10000 && code != 0x7f))
        snprintf(escaped, sizeof escaped, "\\u%04" PRIx32, code);
    else if (ascii && code >= 0x10000)
        snprintf(escaped, sizeof escaped, "\\u%04" PRIx32 "\\u%04" PRIx32,
                 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
    else {
        weft__jinja_append(j, out, text, (size_t)size);
        return;
    }
    append(j, out, escaped);
}

static void json_string(jinja *j, jinja_buffer *out, jinja_value s, bool ascii)
{
    append(j, out, "\"");
    for (size_t i = 0; i < s.n && !j->status;) {
        const int size = weft__utf8_step(s.as.s + i, s.n - i);
        if (size > 0)
            json_character(j, out, s.as.s + i, size, ascii);
        i += size > 0 ? (size_t)size : 1;
    }
    append(j, out, "\"");
}

static void json_break(jinja *j, jinja_buffer *out, const jinja_json_style *style, int level)
{
    if (!style->indent)
        return;
    append(j, out, "\n");
    for (int i = 0; i < level && !j->status; i++)
        weft__jinja_append(j, out, style->indent, style->n_indent);
}

static void json_list(jinja *j, jinja_buffer *out, const jinja_list *list,
                      const jinja_json_style *style, int level)
{
    append(j, out, "[");
    for (size_t i = 0; i < list->n && !j->status; i++) {
        if (i > 0)
            weft__jinja_append(j, out, style->item, style->n_item);
        json_break(j, out, style, level + 1);
        weft__jinja_write_json(j, out, list->at[i], style, level + 1);
    }
    if (list->n > 0)
        json_break(j, out, style, level);
    append(j, out, "]");
}

static void json_key(jinja *j, jinja_buffer *out, jinja_value key, const jinja_json_style *style)
{
    if (key.kind == JINJA_STRING) {
        json_string(j, out, key, style->ascii);
    } else if (key.kind == JINJA_LIST || key.kind == JINJA_UNDEFINED) {
        weft__jinja_fail(j, "tojson: keys must be strings, numbers, booleans or none, got \"%s\"",
                         weft__jinja_type(key));
    } else {
        append(j, out, "\"");
        weft__jinja_write_json(j, out, key, style, 0);
        append(j, out, "\"");
    }
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

static void json_dict(jinja *j, jinja_buffer *out, const jinja_dict *dict,
                      const jinja_json_style *style, int level)
{
    const sort_item *items = members(j, dict, style->sorted);
    append(j, out, "{");
    for (size_t i = 0; i < dict->n && !j->status; i++) {
        if (i > 0)
            weft__jinja_append(j, out, style->item, style->n_item);
        json_break(j, out, style, level + 1);
        json_key(j, out, items[i].entry->key, style);
        weft__jinja_append(j, out, style->key, style->n_key);
        weft__jinja_write_json(j, out, items[i].entry->value, style, level + 1);
    }
    if (dict->n > 0)
        json_break(j, out, style, level);
    append(j, out, "}");
}

static void json_float(jinja *j, jinja_buffer *out, double value)
{
    char text[JINJA_FLOAT_TEXT];
    if (isnan(value))
        append(j, out, "NaN");
    else if (isinf(value))
        append(j, out, value < 0 ? "-Infinity" : "Infinity");
    else {
        weft__jinja_float_text(value, text);
        append(j, out, text);
    }
}

void weft__jinja_write_json(jinja *j, jinja_buffer *out, jinja_value value,
                            const jinja_json_style *style, int level)
{
    if (!weft__jinja_enter(j))
        return;
    if (value.kind == JINJA_NONE)
        append(j, out, "null");
    else if (value.kind == JINJA_BOOL)
        append(j, out, value.as.b ? "true" : "false");
    else if (value.kind == JINJA_INT || value.kind == JINJA_BIG)
        weft__jinja_write_repr(j, out, value);
    else if (value.kind == JINJA_FLOAT)
        json_float(j, out, value.as.f);
    else if (value.kind == JINJA_STRING)
        json_string(j, out, value, style->ascii);
    else if (value.kind == JINJA_LIST && value.as.list->form <= FORM_TUPLE)
        json_list(j, out, value.as.list, style, level);
    else if (value.kind == JINJA_DICT)
        json_dict(j, out, value.as.dict, style, level);
    else
        weft__jinja_fail(j, "tojson: \"%s\" has no form in JSON", weft__jinja_type(value));
    weft__jinja_leave(j);
}
