/* tests/support/tokenizer_json.h -- checks a tokenizer.json by the rules of the tokenizers library,
 * without code from text/tokenizer. */
#ifndef TESTS_SUPPORT_TOKENIZER_JSON_H
#define TESTS_SUPPORT_TOKENIZER_JSON_H

#include <stdbool.h>

#include "weft/tokenizer.h"

/* The first fault of the file, or NULL; valid until the next call. The library reads the ids of
 * "added_tokens" but does not use them: an added token has the id that it has in model.vocab, and
 * otherwise the next one after that list and the added tokens before it. Faults are: a stored id
 * that differs from this one; ids of model.vocab that are not 0 to n - 1; a merge of texts that are
 * not in model.vocab, or that makes one that is not; a token of the post-processor with another id.
 * With `source`, every token has the id that it has there, and the same tokens are special. */
const char *tokenizer_json_fault(const char *path, const weft_tokenizer *source);

/* Checks that "tokenizer.json" in the folder has no fault. */
bool check_tokenizer_json(const char *folder, const weft_tokenizer *source);

#endif
