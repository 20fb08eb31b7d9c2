/* text/tokenizer/classes.h -- letters, numbers and white space, as the reference's patterns see
 * them.
 */
#ifndef WEFT_TEXT_TOKENIZER_CLASSES_H
#define WEFT_TEXT_TOKENIZER_CLASSES_H

#include "text/tokenizer/unicode.h"

typedef enum char_class { CHAR_OTHER, CHAR_LETTER, CHAR_NUMBER, CHAR_SPACE } char_class;

/* The classes of the code points below 0x10000, made at the first call. */
const unsigned char *weft__classes(void);

/* The class of a code point from 0x10000 on. */
char_class weft__class_outside_bmp(uint32_t code);

#endif
