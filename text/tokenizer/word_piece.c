/* text/tokenizer/word_piece.c -- WordPiece: the longest matching token first; tokens within a word
 * have a prefix (Schuster and Nakajima 2012, as in BERT). */
#include <string.h>

#include "text/tokenizer/bpe.h"

/* Whether a word has more characters than the limit. */
static bool is_long(const bpe_model *model, const char *word, size_t length)
{
    int64_t characters = 0;
    for (size_t i = 0; i < length; i++)
        characters += ((unsigned char)word[i] & 0xC0) != 0x80;
    return characters > model->longest_word;
}

/* The longest token at `start` of a word, with its length in *size; -1: none. */
static int32_t longest_token(const bpe_model *model, text_buffer *spelling, const char *word,
                             size_t length, size_t start, size_t *size)
{
    const size_t prefix = start > 0 ? model->subword_prefix_length : 0;
    const size_t most = model->vocab.longest > prefix ? model->vocab.longest - prefix : 0;
    size_t end = length - start < most ? length : start + most;
    memcpy(spelling->data, model->subword_prefix, prefix);
    memcpy(spelling->data + prefix, word + start, end - start);
    for (; end > start; end--) {
        if (end < length && ((unsigned char)word[end] & 0xC0) == 0x80)
            continue; /* within a character */
        const int32_t id =
            weft__vocab_find_in_model(&model->vocab, spelling->data, prefix + end - start);
        *size = end - start;
        if (id >= 0)
            return id;
    }
    return -1;
}

weft_status weft__word_piece_encode(const bpe_model *model, bpe_scratch *scratch, const char *word,
                                    size_t length, id_buffer *out)
{
    const size_t before = out->length;
    scratch->spelling.length = 0;
    weft_status status =
        weft__bytes_reserve(&scratch->spelling, model->subword_prefix_length + length);
    bool whole = !is_long(model, word, length);
    for (size_t at = 0; at < length && whole && !status;) {
        size_t size = 0;
        const int32_t id = longest_token(model, &scratch->spelling, word, length, at, &size);
        whole = id >= 0;
        if (whole)
            status = weft__ids_append(out, id);
        at += size;
    }
    if (status || whole)
        return status;
    out->length = before;
    return weft__ids_append(out, model->unknown);
}
