/* tests/constrain/walks.h -- documents drawn at random under a constraint, and small vocabularies.
 */
#ifndef TESTS_CONSTRAIN_WALKS_H
#define TESTS_CONSTRAIN_WALKS_H

#include "weft/constrain.h"

/* A number below n, from a sequence with a fixed seed. */
uint64_t walk_random(uint64_t n);

enum { WALK_VOCABULARIES = 3 };

/* Tokenizers in which every byte is a token: without other tokens, with pieces of JSON, with random
 * byte strings. The caller frees them; NULL after a failed check. */
weft_tokenizer *walk_vocabulary(int which);

/* A document of at most `budget` tokens, each drawn from the allowed ones; the caller frees it.
 * NULL: the walk got stuck, or the budget was used up before the end of the document. */
char *walk(weft_constraint *c, const weft_tokenizer *tokenizer, int64_t budget);

#endif
