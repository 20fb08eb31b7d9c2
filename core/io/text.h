/* core/io/text.h -- a growing text buffer. After a failure to grow, later appends do nothing, so
 * checking `failed` once at the end suffices. Zero it first; free `at` with weft_free. */
#ifndef WEFT_CORE_IO_TEXT_H
#define WEFT_CORE_IO_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

typedef struct weft__text {
    char *at; /* NUL-terminated once something has been appended */
    size_t n;
    size_t capacity;
    bool failed;
} weft__text;

void weft__text_append(weft__text *t, const char *bytes, size_t n);
void weft__text_format(weft__text *t, const char *format, ...) WEFT_PRINTF(2, 3);
/* Returns the text, which the caller frees, and empties the buffer. NULL after a failure, and if
 * nothing has been appended. */
char *weft__text_take(weft__text *t);
/* Appends a quoted JSON string: NUL-terminated, or `n` bytes which may include NULs. */
void weft__text_quote(weft__text *t, const char *string);
void weft__text_quote_bytes(weft__text *t, const char *bytes, size_t n);

/* Lists names in a message: "a, b, c, d, e, f, g, h and 299992 more". Call _list for each name,
 * with its index `i` from 0; it appends the first 8, made printable. Then call _list_end with the
 * number of names. */
void weft__text_list(weft__text *t, int i, const char *name);
void weft__text_list_end(weft__text *t, int n);

/* Compares two strings of an array of `char *`, for qsort and bsearch. */
int weft__by_text(const void *a, const void *b);

bool weft__ends_with(const char *string, const char *suffix);

#endif
