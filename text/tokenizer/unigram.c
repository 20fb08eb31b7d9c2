/* text/tokenizer/unigram.c -- the most probable tokens of a word under a unigram language model, by
 * dynamic programming (Kudo 2018, "Subword Regularization"). */
#include "text/tokenizer/unigram.h"

#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/utf8.h"
#include "core/list.h"
#include "text/tokenizer/bpe.h"
#include "weft/memory.h"

/* SentencePiece's penalty for a character without a token, relative to the least probable token. */
#define UNKNOWN_PENALTY 10.0

/* ---- the pieces ----------------------------------------------------------------------------- */

weft_status weft__unigram_add_score(unigram_model *model, double score)
{
    if (!weft__list_more(model->scores, model->score_count))
        return weft__out_of_memory("tokenizer", "its scores");
    model->scores[model->score_count++] = score;
    return WEFT_OK;
}

static int by_text(const void *a, const void *b)
{
    const unigram_piece *x = a, *y = b;
    const size_t shorter = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->text, y->text, shorter);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

weft_status weft__unigram_index(unigram_model *model, const text_vocab *vocab)
{
    double least = 0;
    for (size_t i = 0; i < model->score_count; i++)
        least = i == 0 || model->scores[i] < least ? model->scores[i] : least;
    model->unknown_score = least - UNKNOWN_PENALTY;
    model->pieces = weft_malloc((model->score_count + 1) * sizeof *model->pieces);
    if (model->pieces == NULL)
        return weft_fail(WEFT_MEMORY, "tokenizer: out of memory for %zu tokens",
                         model->score_count);
    for (size_t i = 0; i < model->score_count; i++) {
        const vocab_token *token = weft__vocab_token(vocab, (int32_t)i);
        const char *text = token ? weft__vocab_text(vocab, token) : NULL;
        /* Of two tokens with the same text the later one counts. */
        if (token && token->length > 0 &&
            weft__vocab_find_in_model(vocab, text, token->length) == (int32_t)i)
            model->pieces[model->piece_count++] = (unigram_piece){text, token->length, (int32_t)i};
    }
    qsort(model->pieces, model->piece_count, sizeof *model->pieces, by_text);
    return WEFT_OK;
}

void weft__unigram_release(unigram_model *model)
{
    weft_free(model->scores);
    weft_free(model->pieces);
    *model = (unigram_model){0};
}

/* The first piece of [low, high) whose byte at `depth` is at least `byte`; all are longer than
 * `depth` and share the bytes before it. */
static size_t lower_bound(const unigram_piece *pieces, size_t low, size_t high, size_t depth,
                          unsigned byte)
{
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((unsigned char)pieces[middle].text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- the best segmentation ------------------------------------------------------------------- */

static void offer(unigram_node *to, double score, size_t start, int32_t id)
{
    if (to->start >= 0 && score <= to->score)
        return;
    to->score = score;
    to->start = (int32_t)start;
    to->id = id;
}

/* Offers every token that starts at `start` to the position where it ends; returns whether one of
 * them is the single character there. */
static bool offer_tokens(const unigram_model *m, unigram_node *nodes, const char *word,
                         size_t length, size_t start, size_t character)
{
    size_t low = 0, high = m->piece_count;
    bool single = false;
    for (size_t depth = 0; start + depth < length; depth++) {
        if (low < high && m->pieces[low].length == depth)
            low++; /* skips the token that ends here */
        const unsigned byte = (unsigned char)word[start + depth];
        low = lower_bound(m->pieces, low, high, depth, byte);
        high = lower_bound(m->pieces, low, high, depth, byte + 1);
        if (low == high)
            break;
        if (m->pieces[low].length != depth + 1)
            continue;
        const int32_t id = m->pieces[low].id;
        offer(&nodes[start + depth + 1], m->scores[id] + nodes[start].score, start, id);
        single = single || depth + 1 == character;
    }
    return single;
}

static weft_status find_way(const bpe_model *model, unigram_node *nodes, const char *word,
                            size_t length)
{
    for (size_t i = 0; i <= length; i++)
        nodes[i] = (unigram_node){.start = -1};
    for (size_t at = 0; at < length;) {
        const size_t size = (size_t)weft__utf8_step(word + at, length - at);
        if (!offer_tokens(&model->unigram, nodes, word, length, at, size)) {
            if (model->unknown < 0)
                return weft_fail(WEFT_INVALID,
                                 "tokenizer: \"%s\" has no token, and the model no unknown token",
                                 weft_printable_n(word + at, size));
            offer(&nodes[at + size], model->unigram.unknown_score + nodes[at].score, at,
                  model->unknown);
        }
        at += size;
    }
    for (size_t end = length; end > 0; end = (size_t)nodes[end].start)
        nodes[nodes[end].start].next = (int32_t)end;
    return WEFT_OK;
}

/* Appends the ids of characters without a token: a token with their text, the tokens of their bytes
 * if each has one, or the unknown token. */
static weft_status append_unknown(const bpe_model *model, const char *text, size_t length,
                                  id_buffer *out)
{
    const int32_t known = weft__vocab_find_in_model(&model->vocab, text, length);
    const size_t before = out->length;
    if (known >= 0)
        return weft__ids_append(out, known);
    weft_status status = WEFT_OK;
    for (size_t i = 0; model->byte_fallback && i < length && !status; i++) {
        const int32_t id = model->fallback_ids[(unsigned char)text[i]];
        if (id < 0) {
            out->length = before;
            return weft__ids_append(out, model->unknown);
        }
        status = weft__ids_append(out, id);
    }
    return status || model->byte_fallback ? status : weft__ids_append(out, model->unknown);
}

weft_status weft__unigram_encode(const bpe_model *model, bpe_scratch *scratch, const char *word,
                                 size_t length, id_buffer *out)
{
    void *data = scratch->nodes;
    weft_status status =
        weft__bytes_grow(&data, &scratch->node_capacity, 0, length + 1, sizeof *scratch->nodes);
    unigram_node *nodes = scratch->nodes = data;
    if (!status)
        status = find_way(model, nodes, word, length);
    for (size_t at = 0; at < length && !status;) {
        size_t end = (size_t)nodes[at].next;
        const int32_t id = nodes[end].id;
        /* Adjacent characters without a token form one unknown token. */
        while (id == model->unknown && end < length && nodes[nodes[end].next].id == model->unknown)
            end = (size_t)nodes[end].next;
        status = id == model->unknown ? append_unknown(model, word + at, end - at, out)
                                      : weft__ids_append(out, id);
        at = end;
    }
    return status;
}
