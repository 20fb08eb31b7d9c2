/* core/io/json_parse.c -- a recursive-descent parser of JSON (RFC 8259) that makes json-c values.
 */
#include "core/io/json_parse.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/utf8.h"
#include "weft/memory.h"

typedef struct parser {
    const char *text, *name;
    size_t length, at;
    int depth;
    /* A stack of bytes: the names of the open objects, and the string being decoded on top. */
    char *bytes;
    size_t used, room;
    locale_t locale; /* the "C" locale, created for the first number with a fraction or exponent */
} parser;

/* ---- errors --------------------------------------------------------------------------------- */

/* Names the column, and the line in a text that has several. */
static weft_status fail_at(const parser *p, size_t offset, const char *what)
{
    size_t line = 1, start = 0;
    if (memchr(p->text, '\n', p->length) == NULL)
        return weft_fail(WEFT_INVALID, "%s: column %zu: %s", p->name, offset + 1, what);
    for (size_t i = 0; i < offset && i < p->length; i++) {
        if (p->text[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    return weft_fail(WEFT_INVALID, "%s: line %zu, column %zu: %s", p->name, line,
                     offset - start + 1, what);
}

static weft_status no_memory(const parser *p)
{
    return weft_fail(WEFT_MEMORY, "%s: out of memory for parsing", p->name);
}

/* Fails with "expected `what`" and the actual text. */
static weft_status expected(const parser *p, const char *what)
{
    if (p->at >= p->length)
        return fail_at(p, p->length, "the text ends before the value does");
    const unsigned char c = (unsigned char)p->text[p->at];
    const bool control = c < 0x20 && !memchr("\t\n\r", c, 3);
    return fail_at(p, p->at, control ? "control character" : what);
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Pushes `size` bytes onto the stack. */
static weft_status push(parser *p, const char *from, size_t size)
{
    if (!p->bytes || size > p->room - p->used) {
        size_t room = p->room ? p->room : 256;
        while (size > room - p->used)
            room *= 2;
        char *larger = weft_realloc(p->bytes, room);
        if (!larger)
            return no_memory(p);
        p->bytes = larger;
        p->room = room;
    }
    memcpy(p->bytes + p->used, from, size);
    p->used += size;
    return WEFT_OK;
}

static void skip_space(parser *p)
{
    while (p->at < p->length && memchr(" \t\n\r", p->text[p->at], 4))
        p->at++;
}

/* Skips white space, and `c` if it is next. */
static bool pass(parser *p, char c)
{
    skip_space(p);
    const bool next = p->at < p->length && p->text[p->at] == c;
    p->at += next;
    return next;
}

static bool pass_word(parser *p, const char *word)
{
    const size_t size = strlen(word);
    const bool next = p->length - p->at >= size && memcmp(p->text + p->at, word, size) == 0;
    p->at += next ? size : 0;
    return next;
}

/* ---- strings -------------------------------------------------------------------------------- */

/* The code unit of "\uXXXX" at `i`, or -1. */
static long code_unit(const parser *p, size_t i)
{
    if (i > p->length || p->length - i < 6 || p->text[i] != '\\' || p->text[i + 1] != 'u')
        return -1;
    long unit = 0;
    for (size_t k = i + 2; k < i + 6; k++) {
        static const char hex[] = "0123456789abcdef";
        const int c = p->text[k] >= 'A' && p->text[k] <= 'F' ? p->text[k] + 32 : p->text[k];
        const char *digit = memchr(hex, c, 16);
        if (!digit)
            return -1;
        unit = unit << 4 | (digit - hex);
    }
    return unit;
}

/* Decodes "\uXXXX", or both halves of a surrogate pair. */
static weft_status unicode_escape(parser *p)
{
    const long unit = code_unit(p, p->at);
    if (unit < 0)
        return fail_at(p, p->at, "expected four hexadecimal digits after \\u");
    uint32_t code = (uint32_t)unit;
    size_t size = 6;
    if (unit >= 0xD800 && unit <= 0xDFFF) {
        const long low = unit < 0xDC00 ? code_unit(p, p->at + 6) : -1;
        if (low < 0xDC00 || low > 0xDFFF)
            return fail_at(p, p->at, "a surrogate without its pair is no character");
        code = 0x10000u + ((uint32_t)(unit - 0xD800) << 10 | (uint32_t)(low - 0xDC00));
        size = 12;
    }
    char text[4];
    const int n = weft__utf8_encode(code, text);
    p->at += size;
    return push(p, text, (size_t)n);
}

static weft_status escape(parser *p)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (p->at + 1 >= p->length)
        return fail_at(p, p->length, "the text ends before the value does");
    if (p->text[p->at + 1] == 'u')
        return unicode_escape(p);
    const char *name = memchr(names, p->text[p->at + 1], sizeof names - 1);
    if (!name)
        return fail_at(p, p->at, "unknown escape");
    p->at += 2;
    return push(p, &values[name - names], 1);
}

/* Decodes a string, whose opening quote was read, onto the stack. */
static weft_status decode_string(parser *p)
{
    weft_status status = WEFT_OK;
    while (!status) {
        const size_t start = p->at;
        while (p->at < p->length && (unsigned char)p->text[p->at] >= 0x20 &&
               p->text[p->at] != '"' && p->text[p->at] != '\\')
            p->at++;
        status = push(p, p->text + start, p->at - start);
        if (status || pass_word(p, "\""))
            return status;
        status = p->at < p->length && p->text[p->at] == '\\' ? escape(p)
                                                             : expected(p, "control character");
    }
    return status;
}

static weft_status parse_string(parser *p, json_object **out)
{
    const size_t bottom = p->used;
    const weft_status status = decode_string(p);
    if (!status)
        *out = json_object_new_string_len(p->bytes + bottom, (int)(p->used - bottom));
    p->used = bottom;
    return status || *out ? status : no_memory(p);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static size_t digits(parser *p)
{
    const size_t start = p->at;
    while (p->at < p->length && p->text[p->at] >= '0' && p->text[p->at] <= '9')
        p->at++;
    return p->at - start;
}

/* Scans the number that starts at `start`; *whole: it has no fraction or exponent. */
static weft_status scan_number(parser *p, bool *whole)
{
    static const char *const digit = "malformed number: expected a digit";
    *whole = true;
    pass_word(p, "-");
    const bool zero = pass_word(p, "0");
    if (zero == (digits(p) > 0))
        return expected(p, zero ? "malformed number: leading zero" : digit);
    if (pass_word(p, ".")) {
        *whole = false;
        if (digits(p) == 0)
            return expected(p, digit);
    }
    if (pass_word(p, "e") || pass_word(p, "E")) {
        *whole = false;
        if (!pass_word(p, "-"))
            pass_word(p, "+");
        if (digits(p) == 0)
            return expected(p, digit);
    }
    return WEFT_OK;
}

/* The number at the NUL-terminated `text`; NULL when out of memory. Uses the "C" locale, since the
 * program may have set one with a decimal comma. */
static json_object *make_number(parser *p, const char *text, bool whole)
{
    if (whole) {
        errno = 0;
        const long long number = strtoll(text, NULL, 10);
        if (errno == 0)
            return json_object_new_int64(number);
    }
    if (!p->locale)
        p->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return p->locale ? json_object_new_double_s(strtod_l(text, NULL, p->locale), text) : NULL;
}

static weft_status parse_number(parser *p, json_object **out)
{
    bool whole;
    const size_t start = p->at, bottom = p->used;
    weft_status status = scan_number(p, &whole);
    if (!status)
        status = push(p, p->text + start, p->at - start);
    if (!status)
        status = push(p, "", 1);
    if (!status)
        *out = make_number(p, p->bytes + bottom, whole);
    p->used = bottom;
    return status || *out ? status : no_memory(p);
}

/* ---- values --------------------------------------------------------------------------------- */

static weft_status parse_value(parser *p, json_object **out);

/* Decodes the name of a member onto the stack, NUL-terminated. */
static weft_status parse_name(parser *p)
{
    skip_space(p);
    const size_t start = p->at, bottom = p->used;
    if (!pass(p, '"'))
        return expected(p, "expected the name of a member: a string in \"\"");
    weft_status status = decode_string(p);
    /* json-c's names end at the first NUL. */
    if (!status && p->used > bottom && memchr(p->bytes + bottom, 0, p->used - bottom))
        status = fail_at(p, start, "the name of a member contains \\u0000");
    if (!status)
        status = push(p, "", 1);
    if (!status && !pass(p, ':'))
        status = expected(p, "expected ':'");
    return status;
}

static weft_status parse_member(parser *p, json_object *object)
{
    const size_t bottom = p->used;
    json_object *value = NULL;
    weft_status status = parse_name(p);
    if (!status)
        status = parse_value(p, &value);
    if (!status && json_object_object_add(object, p->bytes + bottom, value) != 0) {
        json_object_put(value);
        status = no_memory(p);
    }
    p->used = bottom;
    return status;
}

static weft_status parse_element(parser *p, json_object *array)
{
    json_object *value = NULL;
    weft_status status = parse_value(p, &value);
    if (!status && json_object_array_add(array, value) != 0) {
        json_object_put(value);
        status = no_memory(p);
    }
    return status;
}

/* Parses an object or array after its opening bracket. */
static weft_status parse_items(parser *p, json_object *items, char end)
{
    weft_status status = WEFT_OK;
    if (pass(p, end))
        return status;
    do {
        status = end == '}' ? parse_member(p, items) : parse_element(p, items);
    } while (!status && pass(p, ','));
    if (!status && !pass(p, end))
        status = expected(p, end == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
    return status;
}

static weft_status parse_container(parser *p, json_object **out)
{
    const bool object = p->text[p->at] == '{';
    if (p->depth == WEFT__JSON_MAX_DEPTH)
        return fail_at(p, p->at, "nested too deeply");
    json_object *items = object ? json_object_new_object() : json_object_new_array();
    if (!items)
        return no_memory(p);
    p->at++;
    p->depth++;
    const weft_status status = parse_items(p, items, object ? '}' : ']');
    p->depth--;
    if (status) {
        json_object_put(items);
        return status;
    }
    if (!object)
        json_object_array_shrink(items, 0);
    *out = items;
    return WEFT_OK;
}

static weft_status parse_word(parser *p, json_object **out)
{
    if (pass_word(p, "null"))
        return WEFT_OK;
    if (pass_word(p, "true"))
        *out = json_object_new_boolean(1);
    else if (pass_word(p, "false"))
        *out = json_object_new_boolean(0);
    else if (pass_word(p, "NaN"))
        *out = json_object_new_double(NAN);
    else if (pass_word(p, "Infinity"))
        *out = json_object_new_double(INFINITY);
    else if (pass_word(p, "-Infinity"))
        *out = json_object_new_double(-INFINITY);
    else
        return expected(p, "expected a value");
    return *out ? WEFT_OK : no_memory(p);
}

/* *out must be NULL, and stays NULL after a failure. */
static weft_status parse_value(parser *p, json_object **out)
{
    skip_space(p);
    const char c = p->at < p->length ? p->text[p->at] : '\0';
    if (c == '{' || c == '[')
        return parse_container(p, out);
    if (c == '"') {
        p->at++;
        return parse_string(p, out);
    }
    const bool infinite = p->length - p->at > 1 && p->text[p->at + 1] == 'I';
    if ((c >= '0' && c <= '9') || (c == '-' && !infinite))
        return parse_number(p, out);
    return parse_word(p, out);
}

static weft_status parse_text(parser *p, json_object **out)
{
    if (p->length > WEFT__JSON_MAX_BYTES)
        return weft_fail(WEFT_INVALID, "%s: JSON of %zu bytes: at most %d are read", p->name,
                         p->length, WEFT__JSON_MAX_BYTES);
    const size_t valid = weft__utf8_valid(p->text, p->length);
    if (valid < p->length)
        return fail_at(p, valid, "invalid UTF-8");
    weft_status status = parse_value(p, out);
    skip_space(p);
    if (!status && p->at < p->length)
        status = expected(p, "unexpected text after the value");
    return status;
}

weft_status weft__json_parse_value(const char *text, size_t length, const char *name,
                                   json_object **out)
{
    parser p = {.text = text, .length = length, .name = name};
    *out = NULL;
    const weft_status status = parse_text(&p, out);
    if (status) {
        json_object_put(*out);
        *out = NULL;
    }
    if (p.locale)
        freelocale(p.locale);
    weft_free(p.bytes);
    return status;
}
