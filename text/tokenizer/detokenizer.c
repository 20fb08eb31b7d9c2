/* text/tokenizer/detokenizer.c -- decodes ids to text, all at once or one by one. */
#include <string.h>

#include "core/failure.h"
#include "text/tokenizer/tokenizer.h"
#include "weft/memory.h"

struct weft_detokenizer {
    const weft_tokenizer *tokenizer;
    unsigned flags;
    decoder_state state;
    text_buffer out;
};

static weft_status decode_id(const weft_tokenizer *t, decoder_state *state, int32_t id,
                             unsigned flags, text_buffer *out)
{
    if (id < 0)
        return weft_fail(WEFT_INVALID, "%s: decode: id %d is negative", t->name, id);
    size_t length = 0;
    const char *text = weft__token_text(t, id, &length);
    if (!text || (flags & WEFT_TOKENIZER_SKIP_SPECIAL && weft_tokenizer_is_special(t, id)))
        return WEFT_OK;
    return weft__decode_token(&t->decoder, state, text, length, out);
}

/* Terminates `out` with a NUL that its length does not include. */
static weft_status terminate(text_buffer *out)
{
    const weft_status status = weft__bytes_reserve(out, 1);
    if (!status)
        out->data[out->length] = '\0';
    return status;
}

weft_status weft_tokenizer_decode(const weft_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                  unsigned flags, char **text, size_t *length)
{
    *text = NULL;
    decoder_state state = {0};
    text_buffer out = {0};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = decode_id(tokenizer, &state, ids[i], flags, &out);
    if (!status)
        status = weft__decode_end(&tokenizer->decoder, &state, &out);
    if (!status)
        status = terminate(&out);
    weft__decoder_state_release(&state);
    if (status) {
        weft__bytes_release(&out);
        return status;
    }
    *text = out.data;
    if (length)
        *length = out.length;
    return WEFT_OK;
}

weft_status weft_detokenizer_new(const weft_tokenizer *tokenizer, unsigned flags,
                                 weft_detokenizer **out)
{
    *out = weft_calloc(1, sizeof **out);
    if (!*out)
        return weft__out_of_memory(tokenizer->name, "a detokenizer");
    (*out)->tokenizer = tokenizer;
    (*out)->flags = flags;
    return WEFT_OK;
}

void weft_detokenizer_free(weft_detokenizer *detokenizer)
{
    if (!detokenizer)
        return;
    weft__decoder_state_release(&detokenizer->state);
    weft__bytes_release(&detokenizer->out);
    weft_free(detokenizer);
}

static weft_status return_text(weft_detokenizer *d, weft_status status, const char **text,
                               size_t *length)
{
    if (!status)
        status = terminate(&d->out);
    *text = status ? "" : d->out.data;
    if (length)
        *length = status ? 0 : d->out.length;
    return status;
}

weft_status weft_detokenizer_push(weft_detokenizer *detokenizer, int32_t id, const char **text,
                                  size_t *length)
{
    weft_detokenizer *d = detokenizer;
    d->out.length = 0;
    return return_text(d, decode_id(d->tokenizer, &d->state, id, d->flags, &d->out), text, length);
}

weft_status weft_detokenizer_finish(weft_detokenizer *detokenizer, const char **text,
                                    size_t *length)
{
    weft_detokenizer *d = detokenizer;
    d->out.length = 0;
    const weft_status status = weft__decode_end(&d->tokenizer->decoder, &d->state, &d->out);
    weft__decoder_state_reset(&d->state);
    return return_text(d, status, text, length);
}
