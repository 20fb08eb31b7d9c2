/* core/io/text.c -- a growing text buffer. */
#include "core/io/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "weft/memory.h"
#include "weft/status.h"

enum { NAMES = 8 }; /* most names listed in a message */

static bool reserve(weft__text *t, size_t n)
{
    if (t->failed)
        return false;
    if (t->n + n < t->capacity)
        return true;
    const size_t capacity = 2 * (t->n + n) + 256;
    char *moved = weft_realloc(t->at, capacity);
    if (moved == NULL) {
        t->failed = true;
        return false;
    }
    t->at = moved;
    t->capacity = capacity;
    return true;
}

void weft__text_append(weft__text *t, const char *bytes, size_t n)
{
    if (!reserve(t, n))
        return;
    if (n > 0) /* no bytes may be NULL */
        memcpy(t->at + t->n, bytes, n);
    t->n += n;
    t->at[t->n] = '\0';
}

void weft__text_format(weft__text *t, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n >= 0 && reserve(t, (size_t)n)) {
        vsnprintf(t->at + t->n, (size_t)n + 1, format, again);
        t->n += (size_t)n;
    }
    va_end(again);
}

void weft__text_quote(weft__text *t, const char *string)
{
    weft__text_quote_bytes(t, string, strlen(string));
}

char *weft__text_take(weft__text *t)
{
    char *all = t->failed ? NULL : t->at;
    if (t->failed)
        weft_free(t->at);
    *t = (weft__text){0};
    return all;
}

void weft__text_quote_bytes(weft__text *t, const char *bytes, size_t n)
{
    weft__text_append(t, "\"", 1);
    for (const char *at = bytes; at < bytes + n; at++) {
        const unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\')
            weft__text_format(t, "\\%c", c);
        else if (c < 0x20)
            weft__text_format(t, "\\u%04x", c);
        else
            weft__text_append(t, at, 1);
    }
    weft__text_append(t, "\"", 1);
}

void weft__text_list(weft__text *t, int i, const char *name)
{
    if (i < NAMES)
        weft__text_format(t, "%s%s", i > 0 ? ", " : "", weft_printable(name));
}

void weft__text_list_end(weft__text *t, int n)
{
    if (n > NAMES)
        weft__text_format(t, " and %d more", n - NAMES);
}

int weft__by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool weft__ends_with(const char *string, const char *suffix)
{
    const size_t n = strlen(string), m = strlen(suffix);
    return n >= m && strcmp(string + n - m, suffix) == 0;
}
