/* text/tokenizer/to_json.h -- a tokenizer as a tokenizer.json. */
#ifndef WEFT_TEXT_TOKENIZER_TO_JSON_H
#define WEFT_TEXT_TOKENIZER_TO_JSON_H

#include "core/io/text.h"
#include "weft/tokenizer.h"

/* Of one made from the parts of a GGUF file; `pre` is that file's tokenizer.ggml.pre, or NULL.
 * WEFT_MEMORY; *out is freed by the caller in any case. */
weft_status weft__tokenizer_to_json(const weft_tokenizer *tokenizer, const char *pre,
                                    weft__text *out);

#endif
