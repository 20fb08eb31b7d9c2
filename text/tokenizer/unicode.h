/* text/tokenizer/unicode.h -- characters that the reference treats differently from our libraries.
 */
#ifndef WEFT_TEXT_TOKENIZER_UNICODE_H
#define WEFT_TEXT_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct unicode_range {
    uint32_t first, last;
} unicode_range;

/* Whether one of the sorted ranges contains the character. */
bool weft__in_ranges(const unicode_range *ranges, size_t count, uint32_t code);

/* The characters of general category L or N that PCRE2 may not know yet; *count is 0 for other
 * categories. */
const unicode_range *weft__newer_in_category(char category, size_t *count);

/* Whether the reference normalizes the text on both sides of this character separately, because it
 * does not know that it combines. */
bool weft__is_newer_mark(uint32_t code);

/* Whether the reference does not know that this character decomposes, canonically or for
 * compatibility. */
bool weft__is_newer_composite(uint32_t code);

#endif
