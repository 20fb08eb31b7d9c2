/* text/tokenizer/cuts.h -- positions where a text can be split although no pre-tokenizer splits it:
 * no merge can cross two adjacent characters that no token contains side by side. */
#ifndef WEFT_TEXT_TOKENIZER_CUTS_H
#define WEFT_TEXT_TOKENIZER_CUTS_H

#include "text/tokenizer/vocab.h"

/* Pairs of characters that some token contains: exact for ASCII, a superset for others. */
typedef struct text_cuts text_cuts;

/* Collects the pairs of the model's tokens; NULL when out of memory, and then nothing is split. */
text_cuts *weft__cuts_new(const text_vocab *vocab);

/* The end of the piece that starts at `start`. The text is valid UTF-8. */
size_t weft__cuts_next(const text_cuts *cuts, const char *text, size_t length, size_t start);

#endif
