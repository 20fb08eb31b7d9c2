/* serve/text.c -- growing texts, and writing JSON into them. */
#include "serve/text.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "weft/memory.h"

void serve_text_add(serve_text *text, const char *at, size_t n)
{
    if (text->failed)
        return;
    if (text->n + n + 1 > text->room) {
        const size_t room = 2 * text->room + n + 64;
        char *moved = weft_realloc(text->at, room);
        if (moved == NULL) {
            text->failed = true;
            return;
        }
        text->at = moved;
        text->room = room;
    }
    if (n > 0)
        memcpy(text->at + text->n, at, n);
    text->n += n;
    text->at[text->n] = '\0';
}

void serve_text_quote(serve_text *text, const char *at, size_t n)
{
    size_t from = 0;
    serve_text_add(text, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)at[i];
        char escape[8];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        serve_text_add(text, at + from, i - from);
        from = i + 1;
        if (c == '"' || c == '\\')
            snprintf(escape, sizeof escape, "\\%c", c);
        else if (c == '\n')
            snprintf(escape, sizeof escape, "\\n");
        else
            snprintf(escape, sizeof escape, "\\u%04x", c);
        serve_text_add(text, escape, strlen(escape));
    }
    serve_text_add(text, at + from, n - from);
    serve_text_add(text, "\"", 1);
}

void serve_text_free(serve_text *text)
{
    weft_free(text->at);
    *text = (serve_text){0};
}

static void put_number(serve_text *text, double value)
{
    char digits[40];
    if (isfinite(value))
        snprintf(digits, sizeof digits, "%.9g", value);
    else
        snprintf(digits, sizeof digits, "%s", value < 0 ? "-9999.0" : "null");
    serve_text_add(text, digits, strlen(digits));
}

static void put_string(serve_text *text, const char *at, bool quoted)
{
    if (at != NULL && quoted)
        serve_text_quote(text, at, strlen(at));
    else
        serve_text_add(text, at != NULL ? at : "null", strlen(at != NULL ? at : "null"));
}

static void put_one(serve_text *text, char kind, va_list *arguments)
{
    char digits[32];
    switch (kind) {
    case 's':
    case 'r':
        put_string(text, va_arg(*arguments, const char *), kind == 's');
        break;
    case 't': {
        const serve_text *from = va_arg(*arguments, const serve_text *);
        text->failed = text->failed || from->failed;
        serve_text_quote(text, from->at != NULL ? from->at : "", from->n);
        break;
    }
    case 'o': {
        json_object *value = va_arg(*arguments, json_object *);
        const char *json = json_object_to_json_string_ext(
            value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
        text->failed = text->failed || (value != NULL && json == NULL);
        put_string(text, json, false);
        break;
    }
    case 'i':
        snprintf(digits, sizeof digits, "%" PRId64, va_arg(*arguments, int64_t));
        serve_text_add(text, digits, strlen(digits));
        break;
    case 'f':
        put_number(text, va_arg(*arguments, double));
        break;
    case 'b':
        put_string(text, va_arg(*arguments, int) ? "true" : "false", false);
        break;
    default:
        serve_text_add(text, &kind, 1);
    }
}

void serve_put(serve_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    for (const char *at = format; *at != '\0'; at++) {
        if (*at == '%' && at[1] != '\0')
            put_one(text, *++at, &arguments);
        else
            serve_text_add(text, *at == '\'' ? "\"" : at, 1);
    }
    va_end(arguments);
}
