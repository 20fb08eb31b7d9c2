/* text/tokenizer/token_bytes.c -- the bytes that a token contributes to a text. */
#include "text/tokenizer/token_bytes.h"

#include <limits.h>

#include "core/io/utf8.h"
#include "text/tokenizer/tokenizer.h"

/* The bytes that a token's characters spell; the token itself if some character spells none. */
static weft_status spelled(const char *token, size_t length, text_buffer *out)
{
    const size_t before = out->length;
    weft_status status = weft__bytes_reserve(out, length);
    for (size_t i = 0; i < length && !status;) {
        const int size = weft__utf8_step(token + i, length - i);
        const int byte = weft__char_to_byte(weft__utf8_decode(token + i, size));
        if (byte < 0) {
            out->length = before;
            return weft__bytes_append(out, token, length);
        }
        out->data[out->length++] = (char)byte;
        i += (size_t)size;
    }
    return status;
}

weft_status weft__token_bytes(const weft_tokenizer *tokenizer, int32_t id, text_buffer *out)
{
    size_t length = 0;
    const char *token = weft__token_text(tokenizer, id, &length);
    if (!token)
        return WEFT_OK;
    if (tokenizer->decoder.kind == DECODE_BYTES)
        return spelled(token, length, out);
    /* After other tokens nothing is stripped; a byte token waits for the rest of the character. */
    decoder_state state = {.started = true, .stripped = INT_MAX};
    weft_status status = weft__decode_token(&tokenizer->decoder, &state, token, length, out);
    if (!status && state.pending.length > 0)
        status = weft__bytes_append(out, state.pending.data, state.pending.length);
    weft__decoder_state_release(&state);
    return status;
}
