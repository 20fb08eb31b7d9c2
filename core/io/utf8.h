/* core/io/utf8.h -- UTF-8 as the Unicode standard defines it: no overlong forms, no surrogates. */
#ifndef WEFT_CORE_IO_UTF8_H
#define WEFT_CORE_IO_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Looks at the character that starts `text`. Its length (1 to 4) when it is well formed; 0 when
 * `length` ends before it does; -k when its first k bytes can begin no character, k being the
 * longest such start ("maximal subpart", Unicode 3.9), which one U+FFFD replaces. */
int weft__utf8_step(const char *text, size_t length);

/* How many bytes from the start of `text` are well formed: `length` when all are. */
size_t weft__utf8_valid(const char *text, size_t length);

/* The code point of a well formed character of `size` bytes. */
uint32_t weft__utf8_decode(const char *text, int size);

/* Writes a code point (not a surrogate) to `text`, up to 4 bytes; returns how many. */
int weft__utf8_encode(uint32_t code, char *text);

#endif
