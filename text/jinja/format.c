/* text/jinja/format.c -- "{}".format(...) and "%s" % .... */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/node.h"
#include "text/jinja/tables.h"

enum { MAX_PRECISION = 60, MAX_WIDTH = 100000 };

/* ---- one value ------------------------------------------------------------------------------ */

/* [[fill]align][sign][#][0][width][,][.precision][type] */
typedef struct format_spec {
    char fill[5], align, sign, type;
    bool alternate, grouped;
    int64_t width;
    int precision; /* -1: none */
} format_spec;

static int64_t number_at(const char **p, const char *end)
{
    int64_t value = 0;
    for (; *p < end && **p >= '0' && **p <= '9'; (*p)++)
        value = value < MAX_WIDTH ? value * 10 + (**p - '0') : value;
    return value;
}

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static bool read_spec(jinja *j, const char *p, const char *end, format_spec *spec)
{
    *spec = (format_spec){.fill = " ", .precision = -1};
    int size = 1;
    while (p + size < end && size < 4 && ((unsigned char)p[size] & 0xc0) == 0x80)
        size++;
    if (p + size < end && is_align(p[size])) {
        memcpy(spec->fill, p, (size_t)size);
        spec->fill[size] = '\0';
        spec->align = p[size];
        p += size + 1;
    } else if (p < end && is_align(*p)) {
        spec->align = *p++;
    }
    if (p < end && strchr("+- ", *p))
        spec->sign = *p++;
    if (p < end && *p == '#') {
        spec->alternate = true;
        p++;
    }
    if (p < end && *p == '0' && !spec->align) {
        memcpy(spec->fill, "0", 2);
        spec->align = '=';
        p++;
    }
    spec->width = number_at(&p, end);
    if (p < end && *p == ',') {
        spec->grouped = true;
        p++;
    }
    if (p < end && *p == '.') {
        p++;
        const int64_t precision = number_at(&p, end);
        spec->precision = precision > MAX_WIDTH ? MAX_WIDTH : (int)precision;
    }
    if (p < end)
        spec->type = *p++;
    if (p < end || spec->width > MAX_WIDTH) {
        weft__jinja_fail(j, "format: the form of a field is malformed");
        return false;
    }
    return true;
}

/* Pads the written value. `prefix` bytes (the sign) stay left of padding by "=". */
static void write_padded(jinja *j, jinja_buffer *out, const format_spec *spec, jinja_value text,
                         size_t prefix, char align)
{
    int64_t n = 0;
    weft__jinja_length(text, &n);
    const int64_t missing = spec->width > n ? spec->width - n : 0;
    const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    if (align != '=')
        prefix = 0;
    weft__jinja_append(j, out, text.as.s, prefix);
    for (int64_t i = 0; i < left && !j->status; i++)
        weft__jinja_append(j, out, spec->fill, strlen(spec->fill));
    weft__jinja_append(j, out, text.as.s + prefix, text.n - prefix);
    for (int64_t i = left; i < missing && !j->status; i++)
        weft__jinja_append(j, out, spec->fill, strlen(spec->fill));
}

/* Appends a number without its sign, with commas between the thousands of its leading digits. */
static void append_grouped(jinja *j, jinja_buffer *out, const char *text, size_t n)
{
    size_t digits = 0;
    while (digits < n && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    for (size_t i = 0; i < digits && !j->status; i++) {
        if (i > 0 && (digits - i) % 3 == 0)
            weft__jinja_append(j, out, ",", 1);
        weft__jinja_append(j, out, text + i, 1);
    }
    weft__jinja_append(j, out, text + digits, n - digits);
}

/* Writes the sign, if any, and a number without it. */
static void write_signed(jinja *j, jinja_buffer *out, const format_spec *spec, bool minus,
                         jinja_value number)
{
    jinja_buffer text = {0};
    if (minus || spec->sign == '+' || spec->sign == ' ')
        weft__jinja_append(j, &text, minus ? "-" : &spec->sign, 1);
    const size_t prefix = text.n;
    if (spec->grouped)
        append_grouped(j, &text, number.as.s, number.n);
    else
        weft__jinja_append(j, &text, number.as.s, number.n);
    if (!j->status)
        write_padded(j, out, spec, weft__jinja_taken(&text), prefix,
                     spec->align ? spec->align : '>');
}

/* An integer: BOOL, INT or BIG. */
static void write_integer(jinja *j, jinja_buffer *out, const format_spec *spec, jinja_value value)
{
    char text[40];
    int64_t integer = 0;
    const bool based = spec->type == 'x' || spec->type == 'X' || spec->type == 'o';
    if (value.kind == JINJA_BIG && based) {
        weft__jinja_fail(j, "format: an integer is beyond 64 bits");
    } else if (value.kind == JINJA_BIG) {
        write_signed(j, out, spec, value.negative, value);
    } else {
        weft__jinja_is_integer(value, &integer);
        const uint64_t magnitude = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
        const char mark[] = {'0', spec->type, '\0'};
        const char *start = spec->alternate ? mark : "";
        if (spec->type == 'x')
            snprintf(text, sizeof text, "%s%" PRIx64, start, magnitude);
        else if (spec->type == 'X')
            snprintf(text, sizeof text, "%s%" PRIX64, start, magnitude);
        else if (based)
            snprintf(text, sizeof text, "%s%" PRIo64, start, magnitude);
        else
            snprintf(text, sizeof text, "%" PRIu64, magnitude);
        write_signed(j, out, spec, integer < 0, weft__jinja_view(text, strlen(text)));
    }
}

static void write_float(jinja *j, jinja_buffer *out, const format_spec *spec, double value)
{
    char text[512];
    const bool percent = spec->type == '%';
    const char form[] = {'%', '.', '*', percent || spec->type == 'F' ? 'f' : spec->type, '\0'};
    if (spec->precision > MAX_PRECISION) {
        weft__jinja_fail(j, "format: a precision above %d is unsupported", MAX_PRECISION);
        return;
    }
    const double magnitude = fabs(percent ? 100 * value : value);
    if (spec->type && strchr("eEfFgG%", spec->type)) {
        snprintf(text, sizeof text - 1, form, spec->precision < 0 ? 6 : spec->precision, magnitude);
        if (percent)
            memcpy(text + strlen(text), "%", 2);
    } else if (spec->precision >= 0) {
        snprintf(text, sizeof text, "%.*g", spec->precision, magnitude);
    } else {
        weft__jinja_float_text(magnitude, text);
    }
    write_signed(j, out, spec, signbit(value), weft__jinja_view(text, strlen(text)));
}

static void write_text(jinja *j, jinja_buffer *out, const format_spec *spec, jinja_value text)
{
    if (spec->precision >= 0)
        text = weft__jinja_slice(j, text, weft__jinja_none(), weft__jinja_int(spec->precision),
                                 weft__jinja_none());
    if (j->status)
        return;
    write_padded(j, out, spec, text, 0, spec->align ? spec->align : '<');
}

static void write_field(jinja *j, jinja_buffer *out, jinja_value value, const char *spec_text,
                        const char *end)
{
    format_spec spec;
    int64_t integer = 0;
    double number = 0;
    if (spec_text == end) {
        weft__jinja_write(j, out, value);
        return;
    }
    if (!read_spec(j, spec_text, end, &spec))
        return;
    const bool is_integer = value.kind == JINJA_BIG || weft__jinja_is_integer(value, &integer);
    if (is_integer && (!spec.type || strchr("dnxXo", spec.type)))
        write_integer(j, out, &spec, value);
    else if (weft__jinja_is_number(value, &number) && (!spec.type || strchr("eEfFgG%", spec.type)))
        write_float(j, out, &spec, number);
    else if ((!spec.type || spec.type == 's') && value.kind == JINJA_STRING)
        write_text(j, out, &spec, value);
    else
        weft__jinja_fail(j, "format: \"%c\" does not fit \"%s\"", spec.type ? spec.type : ' ',
                         weft__jinja_type(value));
}

/* ---- str.format ----------------------------------------------------------------------------- */

typedef struct format_run {
    const jinja_args *args;
    size_t next; /* index for fields without a number */
} format_run;

/* A field's value: name, index or nothing, followed by .member and [item]. */
static jinja_value field_value(jinja *j, format_run *run, const char *p, const char *end)
{
    const char *start = p;
    while (p < end && *p != '.' && *p != '[')
        p++;
    const jinja_value name = weft__jinja_view(start, (size_t)(p - start));
    jinja_value value = weft__jinja_undefined(NULL);
    int64_t index = 0;
    bool found = false;
    if (name.n == 0 || weft__jinja_to_integer(name, 10, &index)) {
        const size_t at = name.n == 0 ? run->next++ : (size_t)index;
        found = at < run->args->n;
        if (found)
            value = run->args->at[at];
    }
    for (size_t i = 0; i < run->args->n_named && !found; i++) {
        found = name.n > 0 && weft__jinja_equal(j, run->args->named[i].key, name);
        if (found)
            value = run->args->named[i].value;
    }
    if (!found)
        return weft__jinja_fail(j, "format: there is no argument \"%s\"",
                                weft_printable_n(name.as.s, (size_t)name.n));
    while (p < end && !j->status) {
        const bool member = *p++ == '.';
        start = p;
        while (p < end && (member ? *p != '.' && *p != '[' : *p != ']'))
            p++;
        const jinja_value key = weft__jinja_view(start, (size_t)(p - start));
        if (member)
            value = weft__jinja_member(j, value, key);
        else
            value = weft__jinja_item(
                j, value, weft__jinja_to_integer(key, 10, &index) ? weft__jinja_int(index) : key);
        p += !member && p < end;
    }
    return value;
}

/* Formats the field between { and }. */
static void format_field(jinja *j, jinja_buffer *out, format_run *run, const char *p,
                         const char *end)
{
    const char *name_end = p;
    while (name_end < end && *name_end != '!' && *name_end != ':')
        name_end++;
    jinja_value value = field_value(j, run, p, name_end);
    const char *spec = name_end;
    if (spec < end && *spec == '!') {
        if (spec + 1 < end && spec[1] == 'r') {
            jinja_buffer repr = {0};
            weft__jinja_write_repr(j, &repr, value);
            value = weft__jinja_taken(&repr);
        } else {
            value = weft__jinja_text(j, value);
        }
        spec += 2;
    }
    if (spec < end && *spec != ':')
        weft__jinja_fail(j, "format: a field is malformed");
    if (!j->status)
        write_field(j, out, value, spec < end ? spec + 1 : end, end);
}

jinja_value weft__jinja_format(jinja *j, jinja_value format, const jinja_args *args)
{
    jinja_buffer out = {0};
    format_run run = {.args = args};
    const char *const end = format.as.s + format.n;
    for (const char *p = format.as.s; p < end && !j->status;) {
        if (p + 1 < end && (*p == '{' || *p == '}') && p[1] == *p) {
            weft__jinja_append(j, &out, p, 1);
            p += 2;
        } else if (*p == '{') {
            const char *close = memchr(p, '}', (size_t)(end - p));
            if (!close || memchr(p + 1, '{', (size_t)(close - p - 1)))
                return weft__jinja_fail(j, "format: expected a } behind {, and no { before it");
            format_field(j, &out, &run, p + 1, close);
            p = close + 1;
        } else if (*p == '}') {
            return weft__jinja_fail(j, "format: a } stands alone");
        } else {
            const char *start = p;
            while (p < end && *p != '{' && *p != '}')
                p++;
            weft__jinja_append(j, &out, start, (size_t)(p - start));
        }
    }
    jinja_value text = weft__jinja_taken(&out);
    text.safe = format.safe;
    return text;
}

/* ---- % -------------------------------------------------------------------------------------- */

/* One conversion, with the letter spec->type. */
static void convert(jinja *j, jinja_buffer *out, format_spec *spec, jinja_value value)
{
    double number = 0;
    const bool is_number = weft__jinja_is_number(value, &number);
    if (spec->type == 's') {
        write_text(j, out, spec, weft__jinja_text(j, value));
    } else if (spec->type == 'r') {
        jinja_buffer repr = {0};
        weft__jinja_write_repr(j, &repr, value);
        write_text(j, out, spec, weft__jinja_taken(&repr));
    } else if (strchr("diuxXo", spec->type) && is_number &&
               (value.kind != JINJA_FLOAT || isfinite(number))) {
        write_integer(j, out, spec,
                      value.kind == JINJA_FLOAT ? weft__jinja_truncated(j, number) : value);
    } else if (strchr("eEfFgG", spec->type) && is_number) {
        write_float(j, out, spec, number);
    } else {
        weft__jinja_fail(j, "%%%c does not fit \"%s\"", spec->type, weft__jinja_type(value));
    }
}

/* Parses %[(name)][flags][width][.precision]letter; *p is after the %. */
static void percent_field(jinja *j, jinja_buffer *out, const char **p, const char *end,
                          jinja_value arguments, size_t *next)
{
    format_spec spec = {.fill = " ", .precision = -1};
    const bool tuple = arguments.kind == JINJA_LIST && arguments.as.list->form == FORM_TUPLE;
    const jinja_value *named = NULL;
    const char *close = *p < end && **p == '(' ? memchr(*p, ')', (size_t)(end - *p)) : NULL;
    if (close && arguments.kind == JINJA_DICT) {
        named = weft__jinja_get(j, arguments, weft__jinja_view(*p + 1, (size_t)(close - *p - 1)));
        *p = close + 1;
    }
    spec.align = '>';
    for (; *p < end && **p && strchr("-+ 0#", **p); (*p)++) {
        if (**p == '-')
            spec.align = '<';
        else if (**p == '0' && spec.align != '<') {
            spec.align = '=';
            memcpy(spec.fill, "0", 2);
        } else if (**p == '+' || **p == ' ')
            spec.sign = **p;
        spec.alternate = spec.alternate || **p == '#';
    }
    spec.width = number_at(p, end);
    if (*p < end && **p == '.') {
        ++*p;
        spec.precision = (int)number_at(p, end);
    }
    spec.type = *p < end ? *(*p)++ : '\0';
    if (spec.type == '%') {
        weft__jinja_append(j, out, "%", 1);
        return;
    }
    const size_t given = tuple ? arguments.as.list->n : 1;
    if (!spec.type || !strchr("srdiuxXoeEfFgG", spec.type) || spec.width > MAX_WIDTH)
        weft__jinja_fail(j, "%%: a conversion is malformed or unsupported");
    else if (!named && *next >= given)
        weft__jinja_fail(j, "%%: more conversions than values");
    else if (named)
        convert(j, out, &spec, *named);
    else
        convert(j, out, &spec, tuple ? arguments.as.list->at[*next] : arguments);
    *next += !named;
}

jinja_value weft__jinja_percent(jinja *j, jinja_value format, jinja_value arguments)
{
    jinja_buffer out = {0};
    size_t next = 0;
    const char *const end = format.as.s + format.n;
    for (const char *p = format.as.s; p < end && !j->status;) {
        const char *sign = memchr(p, '%', (size_t)(end - p));
        weft__jinja_append(j, &out, p, (size_t)((sign ? sign : end) - p));
        p = sign ? sign + 1 : end;
        if (sign)
            percent_field(j, &out, &p, end, arguments, &next);
    }
    const bool tuple = arguments.kind == JINJA_LIST && arguments.as.list->form == FORM_TUPLE;
    const bool left_over = tuple ? next < arguments.as.list->n
                                 : next == 0 && arguments.kind != JINJA_LIST &&
                                       arguments.kind != JINJA_DICT &&
                                       arguments.kind != JINJA_UNDEFINED;
    if (left_over)
        return weft__jinja_fail(j, "%%: more values than conversions");
    return weft__jinja_taken(&out);
}
