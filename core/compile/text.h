/* core/compile/text.h -- a text that grows. */
#ifndef CORE_COMPILE_TEXT_H
#define CORE_COMPILE_TEXT_H

#include "weft/array.h"

typedef struct weft__text {
    char *at; /* NULL before the first and after a failure */
    size_t length, capacity;
    bool failed; /* there was no memory for a part */
} weft__text;

void weft__text_add(weft__text *text, const char *format, ...) WEFT_PRINTF(2, 3);
/* The text, the caller's to free; NULL if any part is missing. */
char *weft__text_take(weft__text *text);

#endif
