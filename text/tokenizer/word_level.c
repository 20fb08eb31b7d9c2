/* text/tokenizer/word_level.c -- WordLevel: each word is one token, or the unknown token. */
#include "text/tokenizer/bpe.h"

weft_status weft__word_level_encode(const bpe_model *model, const char *word, size_t length,
                                    id_buffer *out)
{
    int32_t id = weft__vocab_find_in_model(&model->vocab, word, length);
    if (id < 0)
        id = model->unknown;
    return id >= 0 ? weft__ids_append(out, id)
                   : weft_fail(WEFT_INVALID,
                               "tokenizer: \"%s\" has no token, and the model no unknown token",
                               weft_printable_n(word, length));
}
