/* core/io/text.h -- a text that grows. A failure to grow sticks: later appends do nothing, and one
 * look at `failed` at the end is enough. Zero it first; free `at` with weft_free. */
#ifndef WEFT_CORE_IO_TEXT_H
#define WEFT_CORE_IO_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

typedef struct weft__text {
    char *at; /* NUL-terminated once something was appended */
    size_t n;
    size_t capacity;
    bool failed;
} weft__text;

void weft__text_append(weft__text *t, const char *bytes, size_t n);
void weft__text_format(weft__text *t, const char *format, ...) WEFT_PRINTF(2, 3);
/* As a JSON string, quotes included: NUL-terminated, or `n` bytes of which any may be NUL. */
void weft__text_quote(weft__text *t, const char *string);
void weft__text_quote_bytes(weft__text *t, const char *bytes, size_t n);

/* Names in a message: "a, b, c, d, e, f, g, h and 299992 more". Call _list for the name of index
 * `i` from 0 on; it takes the first 8, as weft_printable shows them. Call _list_end with the number
 * of names. */
void weft__text_list(weft__text *t, int i, const char *name);
void weft__text_list_end(weft__text *t, int n);

bool weft__ends_with(const char *string, const char *suffix);

#endif
