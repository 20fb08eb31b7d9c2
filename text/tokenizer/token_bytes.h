/* text/tokenizer/token_bytes.h -- the bytes that a token contributes to a text. */
#ifndef WEFT_TEXT_TOKENIZER_TOKEN_BYTES_H
#define WEFT_TEXT_TOKENIZER_TOKEN_BYTES_H

#include "text/tokenizer/buffer.h"
#include "weft/tokenizer.h"

/* Appends what decoding a token adds, if it is not the first, even an incomplete character; nothing
 * for an id without a token. */
weft_status weft__token_bytes(const weft_tokenizer *tokenizer, int32_t id, text_buffer *out);

#endif
