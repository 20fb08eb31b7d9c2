/* tests/constrain/walks.h -- documents drawn at random under a constraint, and small vocabularies.
 */
#ifndef TESTS_CONSTRAIN_WALKS_H
#define TESTS_CONSTRAIN_WALKS_H

#include "weft/constrain.h"

/* A number below n, from a sequence that always begins alike. */
uint64_t walk_random(uint64_t n);

enum { WALK_VOCABULARIES = 3 };

/* Tokenizers in which every byte is a token: nothing else, beside pieces of JSON, beside random
 * bytes. The caller's; NULL after a failed check. */
weft_tokenizer *walk_vocabulary(int which);

/* A document of at most `budget` tokens, each drawn from those that are allowed; the caller's
 * (free). NULL: the walk got stuck, or the budget was used up within the document. */
char *walk(weft_constraint *c, const weft_tokenizer *tokenizer, int64_t budget);

#endif
