/* core/compile/text.h -- a growing text buffer. */
#ifndef CORE_COMPILE_TEXT_H
#define CORE_COMPILE_TEXT_H

#include "weft/array.h"

typedef struct weft__text {
    char *at; /* NULL when empty, and after a failure */
    size_t length, capacity;
    bool failed; /* out of memory */
} weft__text;

void weft__text_add(weft__text *text, const char *format, ...) WEFT_PRINTF(2, 3);
/* Returns the text, which the caller frees. NULL if anything could not be appended. */
char *weft__text_take(weft__text *text);

#endif
