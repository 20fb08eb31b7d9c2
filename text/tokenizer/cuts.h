/* text/tokenizer/cuts.h -- where a text can be cut although no pre-tokenizer cuts it: between two
 * characters that no token has side by side, no merge can reach across. */
#ifndef WEFT_TEXT_TOKENIZER_CUTS_H
#define WEFT_TEXT_TOKENIZER_CUTS_H

#include "text/tokenizer/vocab.h"

/* Pairs of characters that some token has: exact for ASCII, of others a few too many. */
typedef struct text_cuts text_cuts;

/* Makes the pairs of the model's tokens; NULL where there is no memory (nothing is cut then). */
text_cuts *weft__cuts_new(const text_vocab *vocab);

/* The end of the piece that starts at `start`. The text is valid UTF-8. */
size_t weft__cuts_next(const text_cuts *cuts, const char *text, size_t length, size_t start);

#endif
