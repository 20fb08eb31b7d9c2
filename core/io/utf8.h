/* core/io/utf8.h -- UTF-8 as the Unicode standard defines it: no overlong forms, no surrogates. */
#ifndef WEFT_CORE_IO_UTF8_H
#define WEFT_CORE_IO_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Examines the first character of `text`. Returns its length (1 to 4) if it is well formed, 0 if
 * `length` ends within it, and -k if its first k bytes cannot begin a character. k is the longest
 * such prefix ("maximal subpart", Unicode 3.9), which one U+FFFD replaces. */
int weft__utf8_step(const char *text, size_t length);

/* The number of well-formed bytes at the start of `text`; `length` if all are. */
size_t weft__utf8_valid(const char *text, size_t length);

/* The code point of a well-formed character of `size` bytes. */
uint32_t weft__utf8_decode(const char *text, int size);

/* Encodes a code point (not a surrogate) into `text`, up to 4 bytes; returns their number. */
int weft__utf8_encode(uint32_t code, char *text);

/* Whether a character moves the cursor, ends a line, starts a terminal sequence or changes the
 * direction of text: it is escaped where external text is shown. */
bool weft__utf8_is_hidden(uint32_t code);

#endif
