/* text/chat/python_call.c -- parses lists of calls as Python writes them: [f(a="x", b=[1, None])].
 */
#include <ctype.h>
#include <string.h>

#include <json-c/json.h>

#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/utf8.h"
#include "text/chat/tool_call.h"
#include "weft/memory.h"

enum { MOST_DEPTH = 64 };

typedef struct reader {
    const char *at, *end;
    int depth;
} reader;

static void skip_space(reader *r)
{
    while (r->at < r->end && isspace((unsigned char)*r->at))
        r->at++;
}

static bool skip(reader *r, char c)
{
    skip_space(r);
    const bool found = r->at < r->end && *r->at == c;
    r->at += found;
    return found;
}

/* Whether an element is followed by a comma or by the end of its list, which is not skipped. */
static bool is_complete(reader *r, char close)
{
    if (skip(r, ','))
        return true;
    return r->at < r->end && *r->at == close;
}

/* ---- strings -------------------------------------------------------------------------------- */

/* Appends the character of n hexadecimal digits at the reader. */
static bool append_code(reader *r, int n, weft__text *out)
{
    uint32_t code = 0;
    char bytes[4];
    for (int i = 0; i < n; i++, r->at++) {
        const int c = r->at < r->end ? tolower((unsigned char)*r->at) : 0;
        if (!isxdigit(c) || code > 0x10ffff)
            return false;
        code = 16 * code + (uint32_t)(isdigit(c) ? c - '0' : c - 'a' + 10);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return false;
    weft__text_append(out, bytes, (size_t)weft__utf8_encode(code, bytes));
    return true;
}

/* Appends the character of up to three octal digits at the reader. */
static void append_octal(reader *r, weft__text *out)
{
    uint32_t code = 0;
    char bytes[4];
    for (int i = 0; i < 3 && r->at < r->end && *r->at >= '0' && *r->at <= '7'; i++)
        code = 8 * code + (uint32_t)(*r->at++ - '0');
    weft__text_append(out, bytes, (size_t)weft__utf8_encode(code, bytes));
}

static bool append_escape(reader *r, weft__text *out)
{
    static const char names[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    if (r->at < r->end && *r->at >= '0' && *r->at <= '7') {
        append_octal(r, out);
        return true;
    }
    const char c = r->at < r->end ? *r->at++ : 0;
    const char *found = c ? strchr(names, c) : NULL;
    if (found)
        weft__text_append(out, &values[found - names], 1);
    else if (c == 'x' || c == 'u' || c == 'U')
        return append_code(r, c == 'x' ? 2 : c == 'u' ? 4 : 8, out);
    else if (c != '\n' && c != '\0') { /* Python keeps the backslash of an unknown escape */
        weft__text_append(out, "\\", 1);
        weft__text_append(out, &c, 1);
    }
    return c != '\0';
}

/* A string in one or three quotes. */
static json_object *read_string(reader *r)
{
    const char quote = *r->at;
    const bool three = r->end - r->at >= 6 && r->at[1] == quote && r->at[2] == quote;
    const char marks[] = {quote, quote, quote};
    const size_t n = three ? 3 : 1;
    weft__text out = {0};
    bool fine = true;
    for (r->at += n; fine;) {
        fine = (size_t)(r->end - r->at) >= n;
        if (!fine || memcmp(r->at, marks, n) == 0)
            break;
        const char c = *r->at++;
        if (c == '\\')
            fine = append_escape(r, &out);
        else
            weft__text_append(&out, &c, 1);
    }
    r->at += fine ? n : 0;
    json_object *value =
        fine && !out.failed ? json_object_new_string_len(out.n ? out.at : "", (int)out.n) : NULL;
    weft_free(out.at);
    return value;
}

/* ---- values --------------------------------------------------------------------------------- */

static bool read_value(reader *r, json_object **out);

/* A list or a tuple, whose opening bracket was read, or a value in parentheses. */
static bool read_list(reader *r, char close, json_object **out)
{
    json_object *list = json_object_new_array(), *value;
    bool fine = list != NULL, comma = close == ']';
    while (fine && !skip(r, close)) {
        fine = read_value(r, &value) && json_object_array_add(list, value) == 0;
        fine = fine && is_complete(r, close);
        comma = comma || (fine && r->at[-1] == ',');
    }
    if (fine && !comma && json_object_array_length(list) == 1) {
        *out = json_object_get(json_object_array_get_idx(list, 0));
        json_object_put(list);
        return true;
    }
    if (!fine)
        json_object_put(list);
    *out = fine ? list : NULL;
    return fine;
}

/* Adds a member whose key was read; takes both. */
static bool add_member(json_object *to, const char *key, size_t n, json_object *value)
{
    char *name = weft_format("%.*s", (int)n, key);
    const bool fine = name && json_object_object_add(to, name, value) == 0;
    if (!fine)
        json_object_put(value);
    weft_free(name);
    return fine;
}

static json_object *read_dict(reader *r)
{
    json_object *dict = json_object_new_object(), *key, *value;
    bool fine = dict != NULL;
    while (fine && !skip(r, '}')) {
        fine = read_value(r, &key);
        const bool number = fine && json_object_is_type(key, json_type_int);
        const char *name = number ? json_object_get_string(key)
                           : fine ? weft__json_plain(key)
                                  : NULL;
        fine = name && skip(r, ':') && read_value(r, &value) &&
               add_member(dict, name, strlen(name), value);
        json_object_put(key);
        fine = fine && is_complete(r, '}');
    }
    if (fine)
        return dict;
    json_object_put(dict);
    return NULL;
}

/* A number: as JSON writes it or with a point at an end, and underscores between digits. */
static json_object *read_number(const char *at, size_t n)
{
    weft__text text = {0};
    weft__json_doc doc = {0};
    json_object *number = NULL;
    for (size_t i = 0; i < n; i++) {
        const bool before = i > 0 && isdigit((unsigned char)at[i - 1]),
                   after = i + 1 < n && isdigit((unsigned char)at[i + 1]);
        if (at[i] == '.' && (before || after))
            weft__text_format(&text, "%s.%s", before ? "" : "0", after ? "" : "0");
        else if (at[i] != '_' || !before || !after)
            weft__text_append(&text, &at[i], 1);
    }
    if (!text.failed && n > 0 && strchr("-.0123456789", *at) &&
        weft__json_parse(text.at, text.n, "tool call", &doc) == WEFT_OK)
        number = json_object_get(doc.root);
    weft__json_free(&doc);
    weft_free(text.at);
    return number;
}

/* None, True, False or a number, also as JSON writes them. */
static bool read_word(reader *r, json_object **out)
{
    const char *at = r->at;
    while (r->at < r->end && (isalnum((unsigned char)*r->at) || (*r->at && strchr("_+-.", *r->at))))
        r->at++;
    const size_t n = (size_t)(r->at - at);
    static const char *const words[] = {"None", "null", "True", "true", "False", "false"};
    for (int i = 0; i < 6; i++) {
        if (strlen(words[i]) != n || memcmp(words[i], at, n) != 0)
            continue;
        *out = i < 2 ? NULL : json_object_new_boolean(i < 4);
        return i < 2 || *out;
    }
    *out = read_number(at, n);
    return *out != NULL;
}

static bool read_value(reader *r, json_object **out)
{
    bool fine;
    *out = NULL;
    if (++r->depth > MOST_DEPTH)
        return false;
    if (skip(r, '['))
        fine = read_list(r, ']', out);
    else if (skip(r, '('))
        fine = read_list(r, ')', out);
    else if (skip(r, '{'))
        fine = (*out = read_dict(r)) != NULL;
    else if (r->at < r->end && (*r->at == '"' || *r->at == '\''))
        fine = (*out = read_string(r)) != NULL;
    else
        fine = read_word(r, out);
    r->depth--;
    return fine;
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* The end of an identifier at the reader, with dots if it names a function. */
static size_t identifier(reader *r, bool dots)
{
    skip_space(r);
    size_t n = 0;
    while (r->at + n < r->end && (isalnum((unsigned char)r->at[n]) || r->at[n] == '_' ||
                                  (dots && r->at[n] && strchr(".-", r->at[n]))))
        n++;
    return n;
}

static bool read_arguments(reader *r, json_object *arguments)
{
    bool fine = true;
    while (fine && !skip(r, ')')) {
        json_object *value;
        const size_t n = identifier(r, false);
        const char *key = r->at;
        r->at += n;
        fine =
            n > 0 && skip(r, '=') && read_value(r, &value) && add_member(arguments, key, n, value);
        fine = fine && is_complete(r, ')');
    }
    return fine;
}

static bool read_call(reader *r, json_object *list)
{
    const size_t n = identifier(r, true);
    json_object *call = json_object_new_object(), *arguments = json_object_new_object();
    json_object *name = json_object_new_string_len(r->at, (int)n);
    r->at += n;
    const bool fine =
        call && arguments && name && n > 0 && skip(r, '(') && read_arguments(r, arguments);
    if (fine) {
        json_object_object_add(call, "name", name);
        json_object_object_add(call, "arguments", arguments);
        return json_object_array_add(list, call) == 0;
    }
    json_object_put(call);
    json_object_put(arguments);
    json_object_put(name);
    return false;
}

json_object *weft__tool_calls_list(const char *body, size_t length)
{
    reader r = {body, body + length, 0};
    json_object *list = json_object_new_array();
    bool fine = list && skip(&r, '[');
    while (fine && !skip(&r, ']')) {
        fine = read_call(&r, list);
        fine = fine && is_complete(&r, ']');
    }
    skip_space(&r);
    if (fine && r.at == r.end && json_object_array_length(list) > 0)
        return list;
    json_object_put(list);
    return NULL;
}
