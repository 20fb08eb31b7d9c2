/* core/io/json.c -- a strict reader around json-c, and typed getters that name the field. */
#include "core/io/json.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json_tokener.h>

#include "core/failure.h"
#include "core/io/utf8.h"
#include "weft/memory.h"

/* ---- parsing ---------------------------------------------------------------------------------
 * json-c is strict about grammar but not about characters; in strict mode it refuses integers
 * beyond 64 bits, which Python's writers produce; and of escaped surrogate pairs it gets those
 * wrong whose character ends in D800 to DFFF (U+1D800, for one). So the text is scanned once and
 * handed over in pieces: an integer too large is followed by ".0", and a pair replaced by its
 * character.
 */

typedef struct parser {
    json_tokener *tokener;
    json_object *root;
    const char *text, *name;
    size_t length, fed;
} parser;

static weft_status fail_at(const parser *p, size_t offset, const char *what)
{
    size_t line = 1, start = 0;
    for (size_t i = 0; i < offset && i < p->length; i++) {
        if (p->text[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    return weft_fail(WEFT_INVALID, "%s: line %zu, column %zu: %s", p->name, line,
                     offset - start + 1, what);
}

static weft_status feed(parser *p, const char *piece, size_t size, size_t offset)
{
    if (p->root)
        return fail_at(p, offset, "unexpected text after the value");
    p->root = json_tokener_parse_ex(p->tokener, piece, (int)size);
    const enum json_tokener_error error = json_tokener_get_error(p->tokener);
    if (error == json_tokener_success || error == json_tokener_continue)
        return WEFT_OK;
    const size_t at = offset + json_tokener_get_parse_end(p->tokener);
    if (error == json_tokener_error_depth)
        return fail_at(p, at, "nested too deeply");
    if (at >= p->length)
        return fail_at(p, p->length, "the text ends before the value does");
    return fail_at(p, at, json_tokener_error_desc(error));
}

static weft_status feed_until(parser *p, size_t end)
{
    const size_t offset = p->fed;
    p->fed = end;
    return end == offset ? WEFT_OK : feed(p, p->text + offset, end - offset, offset);
}

/* Passes a number that starts at `i`; sets *end behind it. */
static weft_status scan_number(parser *p, size_t i, size_t *end)
{
    const size_t start = i;
    bool integer = true;
    while (i < p->length && memchr("+-.0123456789Ee", p->text[i], 15)) {
        integer = integer && !memchr(".Ee", p->text[i], 3);
        i++;
    }
    *end = i;
    if (!integer || i - start < 19)
        return WEFT_OK;
    char digits[24];
    if (i - start < sizeof digits) {
        memcpy(digits, p->text + start, i - start);
        digits[i - start] = '\0';
        errno = 0;
        if (digits[0] == '-')
            (void)strtoll(digits, NULL, 10);
        else
            (void)strtoull(digits, NULL, 10);
        if (errno != ERANGE)
            return WEFT_OK;
    }
    const weft_status status = feed_until(p, i);
    return status ? status : feed(p, ".0", 2, i);
}

/* The code unit of "\uXXXX" at `i`, or -1. */
static long code_unit(const parser *p, size_t i)
{
    if (i > p->length || p->length - i < 6 || p->text[i] != '\\' || p->text[i + 1] != 'u')
        return -1;
    char digits[5] = {0};
    memcpy(digits, p->text + i + 2, 4);
    char *stop;
    const long unit = strtol(digits, &stop, 16);
    return stop == digits + 4 ? unit : -1;
}

/* Passes an escape at `i` inside a string; sets *end behind it. */
static weft_status scan_escape(parser *p, size_t i, size_t *end)
{
    const long unit = code_unit(p, i);
    *end = i + 2;
    if (unit < 0xD800 || unit > 0xDFFF)
        return WEFT_OK;
    const long low = unit < 0xDC00 ? code_unit(p, i + 6) : -1;
    if (low < 0xDC00 || low > 0xDFFF)
        return fail_at(p, i, "a surrogate without its pair is no character");
    *end = i + 12;
    const weft_status status = feed_until(p, i);
    char text[4];
    const int size = weft__utf8_encode(
        0x10000u + ((uint32_t)(unit - 0xD800) << 10 | (uint32_t)(low - 0xDC00)), text);
    p->fed = *end;
    return status ? status : feed(p, text, (size_t)size, i);
}

static weft_status scan(parser *p)
{
    bool in_string = false;
    weft_status status = WEFT_OK;
    size_t i = 0;
    while (i < p->length && !status) {
        const unsigned char c = (unsigned char)p->text[i];
        if (c < 0x20 && (in_string || !memchr("\t\n\r", c, 3)))
            return fail_at(p, i, "control character");
        if (c == '\'' && !in_string)
            return fail_at(p, i, "a string begins with \"");
        if (c == '\\' && in_string) {
            status = scan_escape(p, i, &i);
        } else if (!in_string && (c == '-' || (c >= '0' && c <= '9'))) {
            status = scan_number(p, i, &i);
        } else {
            in_string = in_string != (c == '"');
            i++;
        }
    }
    return status;
}

static weft_status parse(parser *p)
{
    if (p->length > WEFT__JSON_MAX_BYTES)
        return weft_fail(WEFT_INVALID, "%s: JSON of %zu bytes: at most %d are read", p->name,
                         p->length, WEFT__JSON_MAX_BYTES);
    const size_t valid = weft__utf8_valid(p->text, p->length);
    if (valid < p->length)
        return fail_at(p, valid, "invalid UTF-8");
    p->tokener = json_tokener_new_ex(WEFT__JSON_MAX_DEPTH);
    if (!p->tokener)
        return weft__out_of_memory(p->name, "parsing");
    json_tokener_set_flags(p->tokener, JSON_TOKENER_STRICT);
    weft_status status = scan(p);
    if (!status)
        status = feed_until(p, p->length);
    /* A number at the top ends only with the text, which a NUL says; JSON's null is a NULL root. */
    if (!status && json_tokener_get_error(p->tokener) == json_tokener_continue)
        status = feed(p, "", 1, p->length);
    else if (!status && p->length == 0)
        status = fail_at(p, 0, "no value");
    json_tokener_free(p->tokener);
    return status;
}

weft_status weft__json_parse(const char *text, size_t length, const char *name, weft__json_doc *doc)
{
    *doc = (weft__json_doc){0};
    parser p = {.text = text, .length = length, .name = name};
    weft_status status = parse(&p);
    doc->root = p.root;
    if (!status) {
        doc->name = weft_strdup(name);
        if (!doc->name)
            status = weft__out_of_memory(name, "parsing");
    }
    if (status)
        weft__json_free(doc);
    return status;
}

static weft_status read_all(FILE *file, const char *path, char **text, size_t *length)
{
    size_t capacity = 64 << 10;
    *length = 0;
    *text = weft_malloc(capacity);
    while (*text) {
        *length += fread(*text + *length, 1, capacity - *length, file);
        if (ferror(file))
            return weft_fail(WEFT_IO, "%s: read: %s", path, strerror(errno));
        if (*length < capacity)
            return WEFT_OK;
        if (*length > WEFT__JSON_MAX_BYTES)
            return weft_fail(WEFT_INVALID, "%s: more than %d bytes of JSON", path,
                             WEFT__JSON_MAX_BYTES);
        capacity *= 2;
        char *larger = weft_realloc(*text, capacity);
        if (!larger)
            break;
        *text = larger;
    }
    return weft__out_of_memory(path, "reading it");
}

weft_status weft__json_read(const char *path, weft__json_doc *doc)
{
    *doc = (weft__json_doc){0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return weft_fail(WEFT_IO, "%s: open: %s", path, strerror(errno));
    char *text = NULL;
    size_t length = 0;
    weft_status status = read_all(file, path, &text, &length);
    fclose(file);
    if (!status)
        status = weft__json_parse(text, length, path, doc);
    weft_free(text);
    return status;
}

void weft__json_free(weft__json_doc *doc)
{
    json_object_put(doc->root);
    weft_free(doc->name);
    *doc = (weft__json_doc){0};
}

/* ---- values --------------------------------------------------------------------------------- */

weft__json weft__json_root(const weft__json_doc *doc)
{
    return (weft__json){.value = doc->root, .name = doc->name};
}

const char *weft__json_type_name(const json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_object:
        return "object";
    case json_type_array:
        return "array";
    case json_type_string:
        return "string";
    case json_type_int:
        return "integer";
    case json_type_double:
        return "number";
    case json_type_boolean:
        return "boolean";
    default:
        return "null";
    }
}

weft_status weft__json_fail(const weft__json *at, weft_status status, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return weft_fail(status, "%s: %s%s%s", at->name, at->path, at->path[0] ? ": " : "", text);
}

static weft_status expected(const weft__json *at, const char *what)
{
    return weft__json_fail(at, WEFT_INVALID, "expected %s, got %s", what,
                           weft__json_type_name(at->value));
}

/* Names a member; a path that would not fit keeps its start, which says where to look. */
static weft__json child(const weft__json *parent, json_object *value, const char *separator,
                        const char *key)
{
    weft__json out = {.value = value, .name = parent->name};
    const size_t used = strlen(parent->path);
    memcpy(out.path, parent->path, used);
    snprintf(out.path + used, sizeof out.path - used, "%s%s", used ? separator : "", key);
    return out;
}

weft_status weft__json_find(const weft__json *object, const char *key, weft__json *out)
{
    if (!json_object_is_type(object->value, json_type_object))
        return expected(object, "object");
    *out = child(object, json_object_object_get(object->value, key), ".", key);
    return WEFT_OK;
}

weft_status weft__json_get(const weft__json *object, const char *key, weft__json *out)
{
    const weft_status status = weft__json_find(object, key, out);
    if (status || out->value)
        return status;
    if (json_object_object_get_ex(object->value, key, NULL))
        return weft__json_fail(out, WEFT_INVALID, "is null");
    return weft__json_fail(out, WEFT_INVALID, "is missing");
}

weft_status weft__json_length(const weft__json *array, size_t *length)
{
    if (!json_object_is_type(array->value, json_type_array))
        return expected(array, "array");
    *length = json_object_array_length(array->value);
    return WEFT_OK;
}

weft_status weft__json_at(const weft__json *array, size_t index, weft__json *out)
{
    size_t length = 0;
    const weft_status status = weft__json_length(array, &length);
    if (status)
        return status;
    if (index >= length)
        return weft__json_fail(array, WEFT_INVALID, "expected element %zu, got %zu elements", index,
                               length);
    char key[32];
    snprintf(key, sizeof key, "[%zu]", index);
    *out = child(array, json_object_array_get_idx(array->value, index), "", key);
    return WEFT_OK;
}

weft_status weft__json_each(const weft__json *object, const char *key,
                            weft_status (*load)(const weft__json *item, void *context),
                            void *context)
{
    weft__json list, item;
    size_t count = 0;
    weft_status status = weft__json_get(object, key, &list);
    if (!status)
        status = weft__json_length(&list, &count);
    for (size_t i = 0; i < count && !status; i++) {
        status = weft__json_at(&list, i, &item);
        if (!status)
            status = load(&item, context);
    }
    return status;
}

weft_status weft__json_as_int(const weft__json *at, int64_t *out)
{
    if (json_object_is_type(at->value, json_type_double)) {
        const double number = json_object_get_double(at->value);
        if (number != floor(number) || fabs(number) > 9007199254740992.0)
            return weft__json_fail(at, WEFT_INVALID, "expected integer, got %g", number);
        *out = (int64_t)number;
        return WEFT_OK;
    }
    if (!json_object_is_type(at->value, json_type_int))
        return expected(at, "integer");
    const int64_t value = json_object_get_int64(at->value);
    /* json-c clamps what it keeps as unsigned. */
    if (value == INT64_MAX && json_object_get_uint64(at->value) > (uint64_t)INT64_MAX)
        return weft__json_fail(at, WEFT_INVALID, "integer beyond 64 signed bits");
    *out = value;
    return WEFT_OK;
}

weft_status weft__json_as_number(const weft__json *at, double *out)
{
    if (!json_object_is_type(at->value, json_type_double) &&
        !json_object_is_type(at->value, json_type_int))
        return expected(at, "number");
    *out = json_object_get_double(at->value);
    return WEFT_OK;
}

weft_status weft__json_as_bool(const weft__json *at, bool *out)
{
    if (!json_object_is_type(at->value, json_type_boolean))
        return expected(at, "boolean");
    *out = json_object_get_boolean(at->value);
    return WEFT_OK;
}

weft_status weft__json_as_string(const weft__json *at, const char **out, size_t *length)
{
    if (!json_object_is_type(at->value, json_type_string))
        return expected(at, "string");
    *out = json_object_get_string(at->value);
    if (length)
        *length = (size_t)json_object_get_string_len(at->value);
    return WEFT_OK;
}

weft_status weft__json_as_object(const weft__json *at)
{
    return json_object_is_type(at->value, json_type_object) ? WEFT_OK : expected(at, "object");
}

weft_status weft__json_get_int(const weft__json *object, const char *key, int64_t *out)
{
    weft__json at;
    const weft_status status = weft__json_get(object, key, &at);
    return status ? status : weft__json_as_int(&at, out);
}

weft_status weft__json_get_number(const weft__json *object, const char *key, double *out)
{
    weft__json at;
    const weft_status status = weft__json_get(object, key, &at);
    return status ? status : weft__json_as_number(&at, out);
}

weft_status weft__json_get_bool(const weft__json *object, const char *key, bool *out)
{
    weft__json at;
    const weft_status status = weft__json_get(object, key, &at);
    return status ? status : weft__json_as_bool(&at, out);
}

weft_status weft__json_get_string(const weft__json *object, const char *key, const char **out)
{
    weft__json at;
    const weft_status status = weft__json_get(object, key, &at);
    return status ? status : weft__json_as_string(&at, out, NULL);
}

weft_status weft__json_find_int(const weft__json *object, const char *key, int64_t *out)
{
    weft__json at;
    const weft_status status = weft__json_find(object, key, &at);
    return status || !at.value ? status : weft__json_as_int(&at, out);
}

weft_status weft__json_find_number(const weft__json *object, const char *key, double *out)
{
    weft__json at;
    const weft_status status = weft__json_find(object, key, &at);
    return status || !at.value ? status : weft__json_as_number(&at, out);
}

weft_status weft__json_find_bool(const weft__json *object, const char *key, bool *out)
{
    weft__json at;
    const weft_status status = weft__json_find(object, key, &at);
    return status || !at.value ? status : weft__json_as_bool(&at, out);
}

weft_status weft__json_find_string(const weft__json *object, const char *key, const char **out)
{
    weft__json at;
    const weft_status status = weft__json_find(object, key, &at);
    return status || !at.value ? status : weft__json_as_string(&at, out, NULL);
}
