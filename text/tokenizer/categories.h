/* text/tokenizer/categories.h -- character categories as used by the reference's normalizers and
 * pre-tokenizers. */
#ifndef WEFT_TEXT_TOKENIZER_CATEGORIES_H
#define WEFT_TEXT_TOKENIZER_CATEGORIES_H

#include "text/tokenizer/unicode.h"

bool weft__is_control(uint32_t code); /* also NUL, U+FFFD, private use; not tab, CR, LF */
bool weft__is_nonspacing_mark(uint32_t code);
bool weft__is_mark(uint32_t code);        /* nonspacing, spacing or enclosing */
bool weft__is_punctuation(uint32_t code); /* also ASCII symbols */
bool weft__is_chinese(uint32_t code);     /* Chinese characters, also in Japanese and Korean */
bool weft__is_white_space(uint32_t code);

#endif
