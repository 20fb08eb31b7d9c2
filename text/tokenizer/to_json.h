/* text/tokenizer/to_json.h -- writes a tokenizer as a tokenizer.json. */
#ifndef WEFT_TEXT_TOKENIZER_TO_JSON_H
#define WEFT_TEXT_TOKENIZER_TO_JSON_H

#include "core/io/text.h"
#include "weft/tokenizer.h"

/* For a tokenizer made from the parts of a GGUF file; `pre` is that file's tokenizer.ggml.pre, or
 * NULL. WEFT_MEMORY on failure; the caller frees *out in any case. */
weft_status weft__tokenizer_to_json(const weft_tokenizer *tokenizer, const char *pre,
                                    weft__text *out);

#endif
