/* text/tokenizer/classes.h -- letters, numbers and white space as in the reference's patterns. */
#ifndef WEFT_TEXT_TOKENIZER_CLASSES_H
#define WEFT_TEXT_TOKENIZER_CLASSES_H

#include "text/tokenizer/unicode.h"

typedef enum char_class { CHAR_OTHER, CHAR_LETTER, CHAR_NUMBER, CHAR_SPACE } char_class;

/* The classes of the code points below 0x10000; computed at the first call. */
const unsigned char *weft__classes(void);

/* The class of a code point of 0x10000 or above. */
char_class weft__class_outside_bmp(uint32_t code);

#endif
