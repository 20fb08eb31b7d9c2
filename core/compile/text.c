/* core/compile/text.c -- a growing text buffer. */
#include "core/compile/text.h"

#include <stdarg.h>
#include <stdio.h>

static bool reserve(weft__text *text, size_t more)
{
    if (text->length + more + 1 <= text->capacity) {
        return true;
    }
    size_t capacity = text->capacity ? 2 * text->capacity : 256;
    while (capacity < text->length + more + 1) {
        capacity *= 2;
    }
    char *larger = weft_realloc(text->at, capacity);
    if (larger) {
        text->at = larger;
        text->capacity = capacity;
    }
    text->failed = text->failed || !larger;
    return larger != NULL;
}

void weft__text_add(weft__text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n >= 0 && reserve(text, (size_t)n)) {
        vsnprintf(text->at + text->length, (size_t)n + 1, format, again);
        text->length += (size_t)n;
    }
    va_end(again);
}

char *weft__text_take(weft__text *text)
{
    char *all = text->at;
    if (text->failed) {
        weft_free(all);
        all = NULL;
    }
    *text = (weft__text){0};
    return all;
}
