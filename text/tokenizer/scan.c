/* text/tokenizer/scan.c -- a cursor over JSON text, and the outline of a file with long lists. */
#include "text/tokenizer/scan.h"

#include <string.h>

#include "core/io/utf8.h"

static bool malformed(json_scan *s)
{
    s->malformed = true;
    return false;
}

char weft__scan_peek(json_scan *s)
{
    static const char blank[8] = {' ', ' ', ' ', ' ', ' ', ' ', ' ', ' '};
    while (s->at < s->end) {
        const char c = *s->at;
        if (c == ' ' && s->end - s->at >= 8 && memcmp(s->at, blank, 8) == 0)
            s->at += 8;
        else if (c == ' ' || c == '\n' || c == '\t' || c == '\r')
            s->at++;
        else
            return c;
    }
    return '\0';
}

bool weft__scan_take(json_scan *s, char c)
{
    if (weft__scan_peek(s) != c || s->at == s->end)
        return false;
    s->at++;
    return true;
}

/* ---- strings -------------------------------------------------------------------------------- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The code unit of "uXXXX" at the cursor, or -1. */
static int32_t code_unit(const char *at, const char *end)
{
    if (end - at < 5 || *at != 'u')
        return -1;
    int32_t unit = 0;
    for (int i = 1; i < 5; i++) {
        const int digit = hex_value(at[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

/* Decodes an escape and advances past it; the cursor is after the backslash. */
static bool take_escape(json_scan *s, char text[4], int *size)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *known = s->at < s->end && *s->at != '\0' ? strchr(letters, *s->at) : NULL;
    if (known) {
        s->at++;
        *text = meanings[known - letters];
        *size = 1;
        return true;
    }
    int32_t code = code_unit(s->at, s->end);
    if (code < 0 || (code >= 0xDC00 && code <= 0xDFFF))
        return malformed(s);
    s->at += 5;
    if (code >= 0xD800 && code < 0xDC00) {
        const int32_t low =
            s->end - s->at > 6 && *s->at == '\\' ? code_unit(s->at + 1, s->end) : -1;
        if (low < 0xDC00 || low > 0xDFFF)
            return malformed(s);
        s->at += 6;
        code = 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00));
    }
    *size = weft__utf8_encode((uint32_t)code, text);
    return true;
}

/* Decodes a string from its first backslash on, using `scratch`. */
static bool take_escaped(json_scan *s, const char *start, text_buffer *scratch, text_string *out)
{
    scratch->length = 0;
    for (;;) {
        if (weft__bytes_append(scratch, start, (size_t)(s->at - start)))
            return false;
        if (s->at == s->end || (unsigned char)*s->at < 0x20)
            return malformed(s);
        if (*s->at++ == '"')
            break;
        char text[4];
        int size = 0;
        if (!take_escape(s, text, &size) || weft__bytes_append(scratch, text, (size_t)size))
            return false;
        start = s->at;
        while (s->at < s->end && *s->at != '"' && *s->at != '\\' && (unsigned char)*s->at >= 0x20)
            s->at++;
    }
    *out = (text_string){scratch->data, scratch->length};
    return weft__utf8_valid(out->text, out->length) == out->length || malformed(s);
}

bool weft__scan_string(json_scan *s, text_buffer *scratch, text_string *out)
{
    if (!weft__scan_take(s, '"'))
        return malformed(s);
    const char *start = s->at, *at = start;
    unsigned char high = 0;
    while (at < s->end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20)
        high |= (unsigned char)*at++;
    s->at = at;
    if (at == s->end || (unsigned char)*at < 0x20)
        return malformed(s);
    if (*at == '\\')
        return take_escaped(s, start, scratch, out);
    s->at++;
    *out = (text_string){start, (size_t)(at - start)};
    return high < 0x80 || weft__utf8_valid(start, out->length) == out->length || malformed(s);
}

bool weft__scan_digits(json_scan *s, int32_t *out)
{
    (void)weft__scan_peek(s);
    const char *at = s->at;
    int32_t value = 0;
    while (at < s->end && at - s->at < 9 && *at >= '0' && *at <= '9')
        value = value * 10 + (*at++ - '0');
    if (at == s->at || at == s->end || (*s->at == '0' && at - s->at > 1) ||
        !memchr(",]} \n\r\t", *at, 7))
        return false;
    s->at = at;
    *out = value;
    return true;
}

/* ---- values --------------------------------------------------------------------------------- */

static bool skip_string(json_scan *s)
{
    for (s->at++; s->at < s->end; s->at++) {
        if (*s->at == '"') {
            s->at++;
            return true;
        }
        if (*s->at == '\\')
            s->at += s->end - s->at > 1;
    }
    return malformed(s);
}

bool weft__scan_value(json_scan *s, text_string *out)
{
    int depth = 0;
    const char first = weft__scan_peek(s);
    const char *start = s->at;
    do {
        const char c = weft__scan_peek(s);
        if (s->at == s->end)
            break;
        if (c == '"') {
            if (!skip_string(s))
                return false;
            continue;
        }
        if (depth == 0 && (c == ',' || c == ']' || c == '}' || c == ':'))
            break;
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        s->at++;
    } while (depth > 0 || (s->at < s->end && first != '"' && first != '{' && first != '[' &&
                           !memchr(",]} \n\r\t", *s->at, 7)));
    *out = (text_string){start, (size_t)(s->at - start)};
    return (depth == 0 && s->at > start) || malformed(s);
}

bool weft__scan_more(json_scan *s, char close)
{
    if (weft__scan_take(s, ','))
        return true;
    if (!weft__scan_take(s, close))
        malformed(s);
    return false;
}

/* ---- the outline ---------------------------------------------------------------------------- */

typedef struct outline {
    json_scan *scan;
    const scan_member *members;
    size_t count;
    void *context;
    text_buffer *rest, scratch;
} outline;

static bool equal(const char *name, text_string key)
{
    return name && strlen(name) == key.length && memcmp(name, key.text, key.length) == 0;
}

static bool is_member(const scan_member *member, const char *parent, text_string key, char next)
{
    const bool same_parent =
        parent ? member->parent && strcmp(member->parent, parent) == 0 : !member->parent;
    return same_parent && member->open == next && equal(member->key, key);
}

static weft_status walk(outline *o, const char *parent);

/* Handles the value of a member: calls its reader, walks into it, or copies it. */
static weft_status take_member(outline *o, const char *parent, text_string key)
{
    json_scan *s = o->scan;
    const char next = weft__scan_peek(s);
    for (size_t i = 0; i < o->count; i++) {
        const scan_member *member = &o->members[i];
        if (is_member(member, parent, key, next)) {
            const weft_status status = member->read(o->context, s);
            return status ? status : weft__bytes_append(o->rest, next == '{' ? "{}" : "[]", 2);
        }
        if (!parent && next == '{' && equal(member->parent, key))
            return walk(o, member->parent);
    }
    text_string value;
    if (!weft__scan_value(s, &value))
        return WEFT_INVALID;
    return weft__bytes_append(o->rest, value.text, value.length);
}

/* Walks one object; recurses once, for a top-level parent. */
static weft_status walk(outline *o, const char *parent)
{
    json_scan *s = o->scan;
    weft_status status = weft__bytes_append(o->rest, "{", 1);
    bool more = !status && weft__scan_take(s, '{');
    if (!status && !more)
        s->malformed = true;
    if (more && weft__scan_peek(s) == '}')
        more = weft__scan_more(s, '}');
    while (more && !status) {
        const char *start = (weft__scan_peek(s), s->at);
        text_string key;
        if (!weft__scan_string(s, &o->scratch, &key))
            return s->malformed ? WEFT_INVALID : WEFT_MEMORY;
        status = weft__bytes_append(o->rest, start, (size_t)(s->at - start));
        if (!status && !weft__scan_take(s, ':'))
            s->malformed = true;
        if (!status && !s->malformed)
            status = weft__bytes_append(o->rest, ":", 1);
        if (!status && !s->malformed)
            status = take_member(o, parent, key);
        if (s->malformed)
            return WEFT_INVALID;
        more = !status && weft__scan_more(s, '}');
        if (more)
            status = weft__bytes_append(o->rest, ",\n", 2);
    }
    if (s->malformed)
        return WEFT_INVALID;
    return status ? status : weft__bytes_append(o->rest, "}", 1);
}

weft_status weft__scan_outline(json_scan *scan, const scan_member *members, size_t count,
                               void *context, text_buffer *rest)
{
    outline o = {
        .scan = scan, .members = members, .count = count, .context = context, .rest = rest};
    weft_status status = walk(&o, NULL);
    if (!status && (weft__scan_peek(scan), scan->at != scan->end)) {
        scan->malformed = true;
        status = WEFT_INVALID;
    }
    weft__bytes_release(&o.scratch);
    return status;
}
