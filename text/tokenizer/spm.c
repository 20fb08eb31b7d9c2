/* text/tokenizer/spm.c -- byte-pair encoding by token ranks (SentencePiece's scores): of all
 * adjacent symbols that together spell a token, those whose token ranks first are merged. */
#include "core/io/utf8.h"
#include "text/tokenizer/bpe.h"

/* Queues the token that two adjacent symbols spell; they are contiguous in the word. */
static weft_status queue_pair(const bpe_model *model, bpe_scratch *s, const char *word, int32_t at)
{
    const bpe_symbol *left = &s->symbols[at], *right = &s->symbols[left->next];
    const uint32_t length = left->length + right->length;
    if (length > model->vocab.longest)
        return WEFT_OK;
    const int32_t id = weft__vocab_find_in_model(&model->vocab, word + left->start, length);
    if (id < 0)
        return WEFT_OK;
    return weft__heap_push(s,
                           (bpe_candidate){.key = (uint64_t)model->ranks[id] << 32 | (uint32_t)at,
                                           .left = (int32_t)left->length,
                                           .right = (int32_t)right->length,
                                           .id = id});
}

static weft_status start_characters(bpe_scratch *s, const char *word, size_t length)
{
    s->symbol_count = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < length && !status;) {
        const int size = weft__utf8_step(word + i, length - i);
        status = weft__symbol_add(
            s, (bpe_symbol){.id = -1, .start = (uint32_t)i, .length = (uint32_t)size});
        i += (size_t)size;
    }
    return status;
}

static weft_status join(const bpe_model *model, bpe_scratch *s, const char *word)
{
    const int32_t end = (int32_t)s->symbol_count;
    weft_status status = WEFT_OK;
    s->heap_count = 0;
    for (int32_t i = 0; i + 1 < end && !status; i++)
        status = queue_pair(model, s, word, i);
    while (s->heap_count > 0 && !status) {
        const bpe_candidate best = weft__heap_pop(s);
        const int32_t at = (int32_t)(uint32_t)best.key;
        bpe_symbol *symbol = &s->symbols[at];
        /* A symbol only grows, so equal lengths identify the candidate's symbols. */
        if (symbol->length != (uint32_t)best.left || symbol->next == end ||
            s->symbols[symbol->next].length != (uint32_t)best.right)
            continue;
        bpe_symbol *absorbed = &s->symbols[symbol->next];
        symbol->id = best.id;
        symbol->length += absorbed->length;
        symbol->next = absorbed->next;
        absorbed->length = 0;
        if (symbol->next != end)
            s->symbols[symbol->next].previous = at;
        if (symbol->previous >= 0)
            status = queue_pair(model, s, word, symbol->previous);
        if (symbol->next != end && !status)
            status = queue_pair(model, s, word, at);
    }
    return status;
}

/* A character that nothing merged: its token, the tokens of its bytes, or the unknown token, one
 * for adjacent characters. *unknown: whether the last character was unknown. */
static weft_status append_character(const bpe_model *model, const char *text, uint32_t length,
                                    bool *unknown, id_buffer *out)
{
    int32_t ids[4] = {weft__vocab_find_in_model(&model->vocab, text, length)};
    const bool after = *unknown;
    int count = ids[0] >= 0;
    if (count == 0)
        count = weft__fallback_ids(model, text, (int)length, ids);
    *unknown = count == 0;
    if (count == 0 && model->unknown >= 0 && !(after && model->fuse_unknown)) {
        ids[0] = model->unknown;
        count = 1;
    }
    weft_status status = WEFT_OK;
    for (int i = 0; i < count && !status; i++)
        status = weft__ids_append(out, ids[i]);
    return status;
}

weft_status weft__spm_encode(const bpe_model *model, bpe_scratch *scratch, const char *word,
                             size_t length, id_buffer *out)
{
    bool unknown = false;
    weft_status status = start_characters(scratch, word, length);
    if (!status)
        status = join(model, scratch, word);
    for (size_t i = 0; i < scratch->symbol_count && !status; i++) {
        const bpe_symbol *symbol = &scratch->symbols[i];
        if (symbol->length == 0)
            continue;
        if (symbol->id < 0) {
            status = append_character(model, word + symbol->start, symbol->length, &unknown, out);
            continue;
        }
        unknown = false;
        status = weft__ids_append(out, symbol->id);
    }
    return status;
}
